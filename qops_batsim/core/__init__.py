"""The core: what all schedulers are made of, compiled."""
