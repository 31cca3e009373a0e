"""Comparing dates: the one place that holds a tolerance.

Dates and durations are floats in seconds. Workload logs have whole seconds, but
sums of floats (start + run time) may differ in the last bits, so dates closer
than a tolerance are one date.
"""

from __future__ import annotations

SAME_DATE = 1e-9
"""Dates closer than this (seconds) are one date to the engine, as in SimGrid."""

PLAN_TOLERANCE = 1e-6
"""Dates closer than this (seconds) are one date to planning and verification.

Batsim sends dates with six decimals, so a decision module cannot know better.
"""
