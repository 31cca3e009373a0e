"""The Batsim protocol: typed events and decisions, and their JSON."""
