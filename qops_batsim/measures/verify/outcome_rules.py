"""Rules of the verifier that need no files: what became of a run's jobs is possible."""

from __future__ import annotations

import math

import numpy as np

from qops_batsim.errors import shown
from qops_batsim.measures.metrics.outcomes import JobOutcomes
from qops_batsim.timing import PLAN_TOLERANCE


def broken_rule(
    outcomes: JobOutcomes, hosts: int | None, *, grace: float = 0.0, strict: bool = True
) -> str | None:
    """Check a run's outcomes against the rules of a valid schedule; return a sentence on the first
    rule that is broken, or None. O(n log n).

    The rules of ``qops-batsim verify`` that need no hosts by name: every job starts after its
    submission, runs for its run time and ends by its promised deadline, and starts by its promised
    latest start, or less than ``grace`` (seconds) later, unless jobs outlive their estimates; never
    do more processors compute than there are (``hosts``; None: not checked). Promises are only
    checked if ``strict``.
    """
    ran = ~outcomes.refused
    start = outcomes.start
    finish = outcomes.finish
    promised = outcomes.promised
    too_early = start < outcomes.submission - PLAN_TOLERANCE
    wrong_length = np.abs(outcomes.lasted - outcomes.run_time) > PLAN_TOLERANCE
    checks = [
        (
            "starts at",
            ran & too_early,
            "before its submission",
        ),
        ("starts at", ran & wrong_length, "and does not run for its run time"),
    ]

    if strict:
        punctual = not _any_outlives_its_estimate(outcomes)
        late_end = ran & outcomes.is_late(finish, promised, grace)
        late_start = outcomes.is_late(start, outcomes.latest_start, grace)
        checks += [
            (
                "ends after its promised deadline, starting at",
                late_end & punctual,
                "although it was admitted",
            ),
            (
                "starts after its promised latest start, at",
                late_start & punctual,
                "although that was promised",
            ),
            (
                "was promised a deadline, submitted at",
                outcomes.refused & np.isfinite(promised),
                "but is refused",
            ),
        ]

    for words, broken, rest in checks:
        if broken.any():
            row = int(np.flatnonzero(broken)[0])
            date = outcomes.submission[row] if math.isnan(start[row]) else start[row]
            return f"job {shown(outcomes.ids[row])} {words} {date:.6f} s {rest}"

    return None if hosts is None else _crowd(outcomes, hosts)


def _any_outlives_its_estimate(outcomes: JobOutcomes) -> bool:
    """Return whether any job ran longer than its estimate (or predicted run time): that excuses all
    late jobs.
    """
    estimates = np.fmin(outcomes.estimates, outcomes.predicted)
    return bool((outcomes.run_time > estimates + PLAN_TOLERANCE).any())


def _crowd(outcomes: JobOutcomes, hosts: int) -> str | None:
    """Return a sentence on the first date at which more processors compute than there are hosts."""
    spans = outcomes.spans
    start, finish, processors = spans[spans[:, 1] > spans[:, 0]].T
    dates = np.concatenate([start, finish])
    changes = np.concatenate([processors, -processors])

    # At one date, ends come before starts.
    order = np.lexsort((changes, dates))
    busy = np.cumsum(changes[order])
    if len(busy) and busy.max() > hosts:
        date = dates[order][int(np.argmax(busy > hosts))]
        return f"{busy.max():g} processors compute at {date:.6f} s, but there are {hosts}"
    return None
