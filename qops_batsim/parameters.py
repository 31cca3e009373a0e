"""Parameters of deadline workloads: names, defaults and meanings, declared once.

Commands, study files, functions and the papers' studies take them from here.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from qops_batsim.errors import require_one_of

ValueT = TypeVar("ValueT")


class Parameter(NamedTuple, Generic[ValueT]):
    """A parameter of deadline workloads: its name and default, and its names elsewhere.

    A study's file has a list of its values, ``listed``, and a study's tables a ``column``.
    Commands have an ``option``, with its value and what it means.
    """

    name: str
    default: ValueT
    words: str
    listed: str
    column: str
    option: str = ""


LOAD = Parameter("load", 1.0, "load", "loads", "load")
METHOD = Parameter(
    "method",
    "duplication",
    "method",
    "methods",
    "method",
    "--method duplication|expansion: Submit a random sample of the jobs again, or multiply run "
    "times and estimates.",
)
STRINGENCY = Parameter(
    "stringency",
    0.2,
    "stringency",
    "stringencies",
    "stringency",
    "--stringency S: A user's deadline is submission + max(estimate, (1 - S) x EASY response "
    "time).",
)
SHARE = Parameter(
    "share",
    1.0,
    "deadline share",
    "deadline_shares",
    "deadline_share",
    "--deadline-share X: Share of the jobs, 0 to 1, whose users set a deadline.",
)
ARTIFICIAL = Parameter(
    "artificial",
    "run-time",
    "artificial deadline",
    "artificial",
    "artificial",
    "--artificial run-time|turnaround|none: Artificial deadlines: the greater of 24 hours and R x "
    "run time, or R x EASY response time, after the submission; or none at all.",
)
RELAXATION = Parameter(
    "relaxation",
    2.0,
    "relaxation",
    "relaxations",
    "relaxation",
    "--relaxation R: Factor of the artificial deadlines of the other jobs.",
)

AXES = (LOAD, METHOD, STRINGENCY, SHARE, ARTIFICIAL, RELAXATION)
"""Parameters that a study varies."""

SEED = Parameter("seed", 1, "seed", "seeds", "seed")

SEEDS = 5
"""Number of the seeds, from 1 on, of a comparison or study that does not tell its own."""

EXACT = "exact"
USERS = "users"
"""By which estimates schedulers plan, and deadlines are given: run times, or the users'."""

DEADLINES_BY = Parameter("deadlines_by", EXACT, "deadlines by", "deadlines_by", "deadlines_by")
ESTIMATES = Parameter(
    "estimates",
    USERS,
    "model of estimates",
    "estimates",
    "estimates",
    "--estimates users|exact: What deadlines are made from, and schedulers plan with: the log's "
    "walltimes (the longest where a job has none, run times where no job has one), or run times, "
    "which replace the walltimes.",
)

COUNT = "count"
FAIL = "fail"
ON_BROKEN_PROMISE = Parameter(
    "on_broken_promise",
    COUNT,
    "on broken promise",
    "on_broken_promise",
    "on_broken_promise",
    "--on-broken-promise count|fail: Count broken promises, or treat them as errors (unless jobs "
    "run longer than planned).",
)


def is_strict(on_broken_promise: str) -> bool:
    """Return whether a broken promise is an error; otherwise broken promises are counted."""
    require_one_of(ON_BROKEN_PROMISE.name, on_broken_promise, (COUNT, FAIL))
    return on_broken_promise == FAIL
