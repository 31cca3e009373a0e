"""Reading runs: their files (``run``), ``series`` over time, the ``difference`` of two."""
