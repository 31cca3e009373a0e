"""Deadline admission: schedulers that accept a job only if every promised deadline still holds."""
