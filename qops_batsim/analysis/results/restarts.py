"""Jobs that were killed and run again: ``15#1`` is job ``15`` once more, ``15#2`` a third time.

Later runs are jobs of their own to Batsim, but one job to its user.
"""

from __future__ import annotations

from collections.abc import Container, Sequence


def without_number(job_id: str) -> str | None:
    """Return the ``15`` of ``15#1``; None for an identifier that is none of a later run."""
    origin, mark, number = job_id.rpartition("#")
    return origin if mark and number.isdecimal() else None


def goes_on(profile: str) -> bool:
    """Whether a run's profile is the rest of the one before (``work#15#1``), not the same."""
    name, _, number = profile.rpartition("#")
    return number.isdecimal() and "#" in name


def rows_before(job_ids: Sequence[str]) -> dict[int, int]:
    """Return the row of the run before it, for each row that is a later run; O(rows)."""
    if not any("#" in name for name in job_ids):
        return {}
    row_of = {name: row for row, name in enumerate(job_ids)}
    before: dict[int, int] = {}
    for row, name in enumerate(job_ids):
        origin = without_number(name)
        if origin is None:
            continue
        number = int(name.rpartition("#")[2])
        earlier = row_of.get(origin if number == 1 else f"{origin}#{number - 1}")
        if earlier is not None:
            before[row] = earlier
    return before


def original_id(job_id: str, known: Container[str]) -> str | None:
    """Return the identifier of the job that ``15#1`` or ``15`` is a run of, or None."""
    if job_id in known:
        return job_id
    origin = without_number(job_id)
    return origin if origin in known else None
