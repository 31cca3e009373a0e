"""The rules of Slurm: multifactor priorities, two passes, Fair Tree."""
