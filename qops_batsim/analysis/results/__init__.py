"""Runs read back: their files (``run``), ``series`` over time, and the ``difference`` of two."""
