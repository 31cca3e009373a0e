"""Figures of runs: ``measures`` is their table, ``measured`` what they are calculated from."""
