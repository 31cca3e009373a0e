"""Metrics of runs: ``run_metrics``, deadlines in ``admission``, prices in ``charges``."""
