"""Slurm's way of scheduling: multifactor priorities, a main pass and a backfill pass."""
