"""Slurm's rules: multifactor priorities, two passes, Fair Tree."""
