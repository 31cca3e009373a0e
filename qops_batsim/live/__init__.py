"""Live decisions: the same modules decide for a real resource manager."""
