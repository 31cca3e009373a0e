"""Numbers of Talby and Feitelson (1999), section 5. Waits are averages in seconds."""

from __future__ import annotations

from typing import NamedTuple


class Waits(NamedTuple):
    """Average waits of a month, or of the year.

    ``conservative`` and ``slack``, the priority scheduler with equal priorities, are of section
    5.2; with every fifth job preferred (5.3) all jobs, the preferred and the others wait
    ``unequal``, ``high`` and ``low``.
    """

    conservative: float
    slack: float
    unequal: float
    high: float
    low: float

    def with_priorities(self) -> tuple[float, float, float, float]:
        """Return the waits of section 5.3."""
        return self.slack, self.unequal, self.high, self.low


# November's low cannot be right: it is below both neighbours.
MONTHS = {
    "1996-09": Waits(440.6, 440.6, 440.6, 0.0, 550.8),
    "1996-10": Waits(3062.7, 2504.3, 2783.7, 2295.6, 2906.0),
    "1996-11": Waits(4887.0, 3774.6, 4797.7, 4460.2, 1882.3),
    "1996-12": Waits(2157.2, 1904.2, 2026.0, 1814.8, 2078.8),
    "1997-01": Waits(3302.3, 2531.9, 2777.4, 2603.8, 2820.8),
    "1997-02": Waits(2624.3, 2373.9, 2728.7, 2369.2, 2818.7),
    "1997-03": Waits(2644.8, 2196.9, 2220.9, 1687.2, 2354.6),
    "1997-04": Waits(2220.3, 1905.2, 2056.2, 1797.4, 2120.9),
    "1997-05": Waits(2093.6, 1779.2, 1889.3, 1491.9, 1988.7),
    "1997-06": Waits(1443.2, 1282.0, 1374.7, 1323.3, 1387.6),
    "1997-07": Waits(399.9, 354.1, 372.6, 320.2, 385.8),
    "1997-08": Waits(1941.5, 1670.8, 1847.1, 1817.5, 1854.5),
}
FIRST_MONTH = "1996-09"
"""September has 85 jobs only, and no improvement."""

YEAR = Waits(2401.44, 2004.46, 2226.17, 1955.28, 2294.0)

IMPROVEMENT = 16.5
"""Of the yearly average over conservative backfilling (%)."""

IMPROVEMENT_OVER_EASY = 15.0
"""Of the average over EASY, "about" (abstract, %)."""

IMPROVEMENT_SLACK_FACTOR_9 = 19.25
SMALLEST_IMPROVEMENT = 9.5
"""Of a month but September (%)."""

AVERAGE_WAIT = 2401.0
"""What the paper's priorities and slacks rest on (seconds)."""

HEURISTICS = {
    "ascending_scheduled_time": (2004.5, 2226.2, 1955.3, 2294.0),
    "ascending_arrival_time": (2088.5, 2223.3, 1952.6, 2291.1),
    "descending_cost": (2179.9, 2250.1, 1988.1, 2315.7),
    "descending_utilization": (2206.0, 2279.8, 2048.9, 2337.6),
    "descending_priority": (2120.0, 2228.5, 1962.3, 2295.1),
}
"""Yearly averages: equal priorities; unequal ones: all, preferred and other jobs."""

HEURISTIC_IMPROVEMENTS = {
    "ascending_scheduled_time": 16.5,
    "ascending_arrival_time": 13.0,
    "descending_priority": 11.7,
    "descending_cost": 9.2,
    "descending_utilization": 8.1,
}
"""With equal priorities, over conservative backfilling (%), best first."""
