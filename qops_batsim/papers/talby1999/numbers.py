"""Numbers of Talby and Feitelson (1999), section 5. Waits are averages in seconds."""

from __future__ import annotations

MONTHS = (
    "1996-09",
    "1996-10",
    "1996-11",
    "1996-12",
    "1997-01",
    "1997-02",
    "1997-03",
    "1997-04",
    "1997-05",
    "1997-06",
    "1997-07",
    "1997-08",
)

CONSERVATIVE = (
    440.6,
    3062.7,
    4887.0,
    2157.2,
    3302.3,
    2624.3,
    2644.8,
    2220.3,
    2093.6,
    1443.2,
    399.9,
    1941.5,
)
"""Section 5.2, by month."""

SLACK = (
    440.6,
    2504.3,
    3774.6,
    1904.2,
    2531.9,
    2373.9,
    2196.9,
    1905.2,
    1779.2,
    1282.0,
    354.1,
    1670.8,
)
"""Section 5.2, by month: the priority scheduler, all priorities equal."""

UNEQUAL = (
    440.6,
    2783.7,
    4797.7,
    2026.0,
    2777.4,
    2728.7,
    2220.9,
    2056.2,
    1889.3,
    1374.7,
    372.6,
    1847.1,
)
"""Section 5.3, by month: all jobs, every fifth one preferred."""

UNEQUAL_HIGH = (
    0.0,
    2295.6,
    4460.2,
    1814.8,
    2603.8,
    2369.2,
    1687.2,
    1797.4,
    1491.9,
    1323.3,
    320.2,
    1817.5,
)
"""Section 5.3, by month: the preferred jobs."""

UNEQUAL_LOW = (
    550.8,
    2906.0,
    1882.3,
    2078.8,
    2820.8,
    2818.7,
    2354.6,
    2120.9,
    1988.7,
    1387.6,
    385.8,
    1854.5,
)
"""Section 5.3, by month: the others. November cannot be right: it is below both neighbours."""

CONSERVATIVE_YEAR = 2401.44
SLACK_YEAR = 2004.46
UNEQUAL_YEAR = 2226.17
HIGH_YEAR = 1955.28
LOW_YEAR = 2294.0
IMPROVEMENT = 16.5
"""Of the yearly average over conservative backfilling (%)."""

IMPROVEMENT_SLACK_FACTOR_9 = 19.25

JOBS_A_MONTH = 2357
SEPTEMBER_JOBS = 85
FEWEST_JOBS, MOST_JOBS = 1924, 4060
"""Of the other months."""

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
