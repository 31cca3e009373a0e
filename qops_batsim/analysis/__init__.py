"""Results of runs: ``results`` (reading them), ``metrics``, ``verify`` and ``plots``."""
