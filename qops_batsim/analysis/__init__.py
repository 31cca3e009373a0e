"""What a run gave: ``results`` (reading it), ``metrics``, ``verify`` and ``plots``."""
