"""All that Slurm prints, read once: accounting, queues, nodes, reservations, configuration."""
