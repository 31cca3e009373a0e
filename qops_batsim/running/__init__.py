"""Putting engine and schedulers together: simulating, verifying, writing; the real Batsim."""
