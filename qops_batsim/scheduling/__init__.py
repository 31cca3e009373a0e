"""Decision modules: schedulers that any engine of the Batsim protocol can drive."""
