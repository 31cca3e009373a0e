"""Pictures of runs: ``gantt``, ``occupation``, ``over_time``; all with the style of ``drawing``."""
