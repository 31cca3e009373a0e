"""The schedulers, one file for each algorithm, compiled."""
