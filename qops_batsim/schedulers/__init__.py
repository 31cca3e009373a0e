"""The schedulers, one file an algorithm, compiled."""
