"""The numbers of jobs by slot: which row of an array holds what."""

from __future__ import annotations

(
    ESTIMATES,
    LIMITS,
    DEADLINES,
    PROMISES,
    TARGETS,
    AIMS,
    STARTS,
    ENDS,
    KEYS,
    GIVEN_FROM,
    GIVEN_UNTIL,
    HEADROOM,
    LAGS,
    SUSPENDED,
    LOST_DATES,
    NOTED_STARTS,
    NOTED_ENDS,
    NOTED_TARGETS,
    PRIORITIES,
    FIRST_SLACKS,
    LATEST_STARTS,
    ARRIVALS,
    TOLERANCES,
    SAVED_STARTS,
    ASSURED_STARTS,
    SAVED_ENDS,
    REQUESTED,
    FIXED_STARTS,
    CHECKPOINTS,
    CHECKPOINTED,
) = range(30)
"""Rows of ``Jobs.numbers``; dates and durations in seconds.

ESTIMATES, LIMITS
    Estimated run times, and those at which jobs are killed; infinite where unknown, or without.
DEADLINES, PROMISES, TARGETS
    Latest end that was asked for; that was admitted (until then, the one asked for); that the plan
    aims at, later than the promise for a job that will be late. Infinite without a deadline.
AIMS
    Target of a job that will be late before it was known to be, else infinite.
STARTS, ENDS
    Planned or actual start; expected end of a running job.
KEYS
    What an order of jobs compares, the least first.
GIVEN_FROM, GIVEN_UNTIL
    Dates between which others have given up reservations since a waiting job was placed.
HEADROOM
    Number of processors that a search leaves free beside a job which can wait.
LAGS
    By how much running jobs started later than planned; 0 for those on time, and what is counted
    from its actual start.
SUSPENDED, LOST_DATES
    A promise that no start keeps at present (NaN without), and when hosts were lost for it.
NOTED_STARTS, NOTED_ENDS, NOTED_TARGETS
    What the log of decisions said last.
PRIORITIES, FIRST_SLACKS, LATEST_STARTS
    Of slack-based backfilling.
ARRIVALS, TOLERANCES
    Dates from which response times count; tolerance factors of users, NaN where no factor decides.
SAVED_STARTS, SAVED_ENDS
    Room for starts and ends.
REQUESTED
    The estimate that came with a job whose run time is predicted.
FIXED_STARTS
    The only start that a user accepts (an advance reservation), infinite without.
CHECKPOINTS
    After how long a run its work is saved, again and again; infinite where it is not.
CHECKPOINTED
    How much of the run that was killed last its next run does not repeat.
ASSURED_STARTS
    The earliest latest start that was ever promised, infinite without.
"""

PLACES, KILLS, LOST, IS_HELD, IS_DYING, IS_KEPT, USERS, CORRECTIONS = range(8)
"""Rows of ``Jobs.marks``.

Where running jobs stand among the running ones; how often a job was killed to be run again; how
many hosts were lost for its promise; whether it waits and must not start yet; whether a killed run
has not ended yet; whether it is never killed for another one, because it cannot be run again;
the number of its user, or -1; how often its predicted run time was corrected.
"""

_MARKS = ("PLACES", "KILLS", "LOST", "IS_HELD", "IS_DYING", "IS_KEPT", "USERS", "CORRECTIONS")

NUMBERS = {
    name.lower(): index
    for name, index in list(globals().items())
    if isinstance(index, int) and name not in _MARKS
}
"""Rows of ``Jobs.numbers`` by name in small letters."""

MARKS = {name.lower(): index for index, name in enumerate(_MARKS)}
"""Rows of ``Jobs.marks``, likewise."""
