"""Live decisions: the same schedulers decide for a real resource manager."""
