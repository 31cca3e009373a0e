"""Back-test of quotes: what would have been said at each submission of a log, and what came.

At the submission of a job, the running and waiting jobs of the log are a queue, with the users'
estimates, and ``QueueAsker`` is asked for the earliest end. A
quote that is to hold with a probability adds to its start what quotes before it were off by, of
which the outcome was known then: a quantile, whose level follows the share that held (I. Gibbs and
E. Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec
import numpy as np

from qops_batsim.experiments import mean_interval
from qops_batsim.queue import Ask, Past, QueueAsker, moment_of, queue_at

LEVELS = (0.8, 0.9, 0.95)
"""Probabilities with which quotes are to hold."""

HORIZONS = ((60.0, "starts at once"), (3600.0, "within 1 h"), (28_800.0, "1 to 8 h"))
"""Longest wait quoted (seconds) of each class but the last."""

LATER = "more than 8 h"

SIZES = ("1", "2 to 8", "9 to 32", "33 or more")
"""Classes of processors."""

RECENT, LEAST, RATE = 500, 30, 0.02
"""Errors remembered, errors needed, and the rate at which levels follow outcomes."""

BATCHES = 10
"""Stretches of consecutive quotes whose shares tell how far chance reaches."""

_TOLERANCE = 60.0
"""Seconds: schedulers start jobs in rounds."""


class Quoted(msgspec.Struct, frozen=True, kw_only=True):
    """Quote for one job, and what came; seconds from its submission."""

    horizon: str
    size: str
    start: float
    end: float
    came: float
    ended: float
    starts: tuple[float, ...]
    """Latest starts by :data:`LEVELS`; empty before there was anything to learn from."""
    said: tuple[float, ...]
    """With which probabilities: more than the level if even a start at once is more certain."""


class Calibration(msgspec.Struct, frozen=True):
    """Share (%) of quotes that held, of a class and a level; None: the plain promise."""

    group: str
    level: float | None
    said: float | None
    """Mean of what quotes of that level said (%)."""
    quotes: int
    came: float
    chance: float
    """Half of the 95 % interval of ``came`` (points): quotes of one busy time hold or fail
    together, so it is that of the mean of :data:`BATCHES` consecutive stretches."""
    margin: float
    """Mean of what the quote adds to the planned start (seconds)."""


class Backtest(msgspec.Struct, frozen=True, kw_only=True):
    """Quotes in the order of submission."""

    quoted: tuple[Quoted, ...]

    def table(self) -> list[Calibration]:
        """Return the calibration of all quotes, by the wait quoted, and by size."""
        stated = [each for each in self.quoted if each.starts]
        groups: dict[str, list[Quoted]] = {"all": stated}
        for _, name in (*HORIZONS, (math.inf, LATER)):
            groups[name] = [each for each in stated if each.horizon == name]
        for name in SIZES:
            groups[f"{name} processors"] = [each for each in stated if each.size == name]
        found = []
        for group, members in groups.items():
            if len(members) >= LEAST:
                kept = [q.ended <= q.end + _TOLERANCE for q in members]
                found.append(Calibration(group, None, None, len(members), *_share(kept), 0.0))
                for at, level in enumerate(LEVELS):
                    held = [q.came <= q.starts[at] for q in members]
                    said = float(np.mean([q.said[at] for q in members]))
                    margin = float(np.mean([q.starts[at] - q.start for q in members]))
                    row = (100 * level, 100 * said, len(members), *_share(held), margin)
                    found.append(Calibration(group, *row))
        return found

    def sentence(self) -> str:
        """Compare quotes, as they would have been made, with what came."""
        rows = [each for each in self.table() if each.group == "all"]
        if not rows:
            return f"Too few quotes could be looked at ({len(self.quoted)}) to tell how they held."
        told = ", ".join(
            f"{row.came:.1f} % of those said to hold with {row.said:.1f} %" for row in rows[1:]
        )
        return (
            f"Of {rows[0].quotes:,} quotes made at submissions, as the queue was known then, these "
            f"came true: {told}; and the site's own scheduler ended {rows[0].came:.1f} % of the "
            "jobs by the earliest end that could have been promised, which it did not aim at."
        )


def _share(held: Sequence[bool]) -> tuple[float, float]:
    """Return the share (%) of what held, in the order of submission, and how far chance reaches."""
    batches = [100 * float(each.mean()) for each in np.array_split(np.array(held), BATCHES)]
    low, high = mean_interval(batches).ends
    return 100 * float(np.mean(held)), (high - low) / 2


class _Levels:
    """Quantiles of errors of one class of quotes, whose levels follow outcomes."""

    def __init__(self) -> None:
        self.errors: deque[float] = deque(maxlen=RECENT)
        self.levels = list(LEVELS)

    def quote(self, wait: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the latest starts for a planned wait, and with which probability each holds."""
        errors = np.array(self.errors)
        margins = np.quantile(errors, np.clip(self.levels, 0.0, 1.0), method="higher")
        starts = np.maximum(wait + margins, 0.0)
        # Nothing is said that is earlier than now, and surer than what holds by now.
        at_once = [
            float((errors <= start - wait).mean()) if start <= 0 else 0.0 for start in starts
        ]
        return tuple(starts.tolist()), tuple(map(max, LEVELS, at_once))

    def learn(self, place: int, held: bool) -> None:
        """Move a level by whether a quote held, but not far beyond where there are quantiles."""
        level = self.levels[place] + RATE * (LEVELS[place] - held)
        self.levels[place] = min(max(level, 0.0), 1.0 + RATE)


def backtest(past: Past, *, asked: int = 1000) -> Backtest:
    """Return the quotes of a number of submissions, spread evenly over a past, with their outcomes.

    Waiting jobs are planned in the order of submission, since a log does not tell priorities.
    """
    known = ~np.isnan(past.starts) & (past.widths <= past.processors)
    rows = np.flatnonzero(known[: past.history])
    if not len(rows):
        raise ValueError(
            "the log tells no waits, so no quote can be compared with what came; an accounting, or "
            "a log with waits, is expected"
        )
    every = max(len(rows) // asked, 1)
    classes: dict[str, _Levels] = {}
    pending: list[_Outcome] = []
    quoted: list[Quoted] = []
    sizes = np.searchsorted((1, 8, 32), past.widths, side="left")
    for row in rows[::every].tolist():
        now = float(past.submissions[row])
        _learn(pending, classes, now)
        question = Ask(processors=int(past.widths[row]), time=float(past.limits[row]))
        answer = QueueAsker(queue_at(past, moment_of(past, now, before=row))).ask(question)
        if answer.wait is None or answer.response is None:
            continue
        horizon = next((name for most, name in HORIZONS if answer.wait <= most), LATER)
        size_name = SIZES[sizes[row]]
        # The narrowest class of which enough is known.
        keys = (f"{horizon}, {size_name}", horizon, "all")
        known_keys = (each for each in keys if each in classes)
        key = next((each for each in known_keys if len(classes[each].errors) >= LEAST), None)
        came = float(past.starts[row]) - now
        starts, said = ((), ()) if key is None else classes[key].quote(answer.wait)
        for place, start in enumerate(starts):
            outcome = _Outcome(now + min(came, start), place, (key or "",), came <= start, 0.0)
            heappush(pending, outcome)
        heappush(pending, _Outcome(now + came, -1, keys, True, came - answer.wait))
        quoted.append(
            Quoted(
                horizon=horizon,
                size=size_name,
                start=answer.wait,
                end=answer.response,
                came=came,
                ended=came + float(past.run_times[row]),
                starts=starts,
                said=said,
            )
        )
    return Backtest(quoted=tuple(quoted))


class _Outcome(NamedTuple):
    """News of a date: whether a level of a class held, or (place -1) an error."""

    date: float
    place: int
    classes: tuple[str, ...]
    held: bool
    error: float


def _learn(pending: list[_Outcome], classes: dict[str, _Levels], now: float) -> None:
    """Take in what is known by now of earlier quotes."""
    while pending and pending[0].date <= now:
        outcome = heappop(pending)
        for name in outcome.classes:
            each = classes.setdefault(name, _Levels())
            if outcome.place < 0:
                each.errors.append(outcome.error)
            else:
                each.learn(outcome.place, outcome.held)
