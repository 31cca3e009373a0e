"""Which run times `run_times=predicted` can have predicted from a user's earlier runs.

A job is expected to run as long as the last two of its user that have ended did in the mean. What
had ended when it arrived is known up to the time that news takes, and which run is the last of
those that end together is not: a prediction is between the least and the greatest mean.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from heapq import nlargest, nsmallest
from typing import NamedTuple

from qops_batsim.timing import PLAN_TOLERANCE


class EndedRun(NamedTuple):
    """A run of a job: its end and length (seconds), and whether it is ``certain`` that the
    scheduler has learned from it: it does not from runs that it has killed.
    """

    end: float
    seconds: float
    certain: bool


class PastRuns:
    """One user's ended jobs, sorted by end: the verifier recomputes run times predicted from them.

    News takes up to ``delay`` (seconds). Among the last ``needed`` runs whose news has arrived for
    certain are the last two from which the scheduler has learned.
    """

    def __init__(self, runs: Iterable[EndedRun], delay: float, needed: int = 2) -> None:
        self._runs = sorted(runs)
        self._ends = [each.end for each in self._runs]
        self._delay = delay
        self._needed = needed

    def can_predict(self, prediction: float, arrival: float, tolerance: float) -> bool:
        """Return whether a job that arrived at ``arrival`` can have got the predicted run time
        ``prediction`` from these runs (seconds).

        O(log runs), plus those that end together or are not certain.
        """
        first = bisect_left(self._ends, arrival - self._delay - tolerance)
        last = bisect_right(self._ends, arrival + self._delay + tolerance)
        found = 0
        while first > 0 and found < self._needed:
            first -= 1
            found += self._runs[first].certain

        if first < last:
            together = self._ends[first] - 2 * (self._delay + tolerance)
            first = bisect_left(self._ends, together, hi=first)

        seconds = [each.seconds for each in self._runs[first:last]]
        if len(seconds) < 2:
            return False

        # What is seen of a run is late at its start and at its end; means are rounded up.
        margin = self._delay + tolerance + PLAN_TOLERANCE
        least = sum(nsmallest(2, seconds)) / 2
        greatest = sum(nlargest(2, seconds)) / 2
        return least - margin <= prediction <= greatest + margin
