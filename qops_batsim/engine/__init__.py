"""The embedded engine: simulates a workload on a platform, as Batsim does."""
