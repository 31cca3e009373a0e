"""Fields of jobs that Batsim takes, but hardly as they were meant: told by warnings.

Jobs may have fields of their own, so a misspelt ``walltime`` is none to Batsim, which runs the job
without. A submission before 0 counts as 0, and a job of 0 processors can never run.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from qops_batsim.errors import shown
from qops_batsim.job_fields import FIELDS, HOST_FIELDS, QOS_FIELDS, is_request, misspelt

if TYPE_CHECKING:
    from qops_batsim.workload.workload_model import JobColumns

OBJECTS = ("qos", "extra_data")
"""Fields of a job that hold what its user asks for (Batsim 4 and 5)."""

_OF_JOBS = (*FIELDS, *OBJECTS, *HOST_FIELDS)
_OF_REQUESTS = (*sorted(QOS_FIELDS), *HOST_FIELDS)


def warn_of_odd_jobs(columns: JobColumns, written: Sequence[Any], source: str) -> None:
    """Warn of jobs that are hardly meant as they are.

    ``written`` are the JSON objects of the jobs that may have fields of their own, ``source`` names
    the file. O(jobs).
    """
    for text in (*odd_values(columns), *_odd_names(written)):
        warnings.warn(f"{source}: {text}", RuntimeWarning, stacklevel=2)


def odd_values(columns: JobColumns) -> Iterator[str]:
    """Yield a sentence on each kind of values that Batsim takes otherwise, or cannot use."""
    dates = columns.submission_times
    processors = columns.processors
    for rows, field, values, what in (
        (dates < 0, "subtime", dates, "a submission before date 0 counts as one at 0"),
        (processors == 0, "res", processors, "a job of no processor can never run"),
    ):
        count = int(rows.sum())
        if count:
            place = int(rows.argmax())
            yield (
                f"job {shown(columns.ids[place])}: field {field!r} is {values[place]:.15g}"
                f"; {what}{_others(count)}"
            )


def _others(count: int) -> str:
    return f" (so in {count:,} jobs)" if count > 1 else ""


def _odd_names(written: Sequence[Any]) -> Iterator[str]:
    """Yield a sentence on each field that has nearly the name of one that means something."""
    jobs_with: dict[tuple[str, str, str], list[str]] = {}
    for job in written:
        for place, name, meant in _misspelt_in(job):
            jobs_with.setdefault((place, name, meant), []).append(str(job.get("id")))
    for (place, name, meant), jobs in jobs_with.items():
        inside = f"{place}: " if place else ""
        yield (
            f"job {shown(jobs[0])}: {inside}field {shown(name)} means nothing; did you mean "
            f"{meant!r}?{_others(len(jobs))}"
        )


def _misspelt_in(job: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the object within the job, the field and what was meant for each misspelt field."""
    for name, meant in _near(tuple(job), _OF_JOBS):
        yield "", name, meant
    if isinstance(told := job.get("qos"), dict):
        return  # Whatever is unknown there is an error.

    told = job.get("extra_data")
    if isinstance(told, str) and told.startswith("{"):
        try:
            told = json.loads(told)
        except (ValueError, RecursionError):
            return
    if isinstance(told, dict) and not is_request(told):
        for name, meant in _near(tuple(told), _OF_REQUESTS):
            yield "extra_data", name, meant


@lru_cache(maxsize=1024)
def _near(names: tuple[str, ...], known: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the names that are hardly meant as they are, with what is; jobs of a workload have the
    same few sets of fields.
    """
    meant = [(name, misspelt(name, known)) for name in names]
    return [(name, one) for name, one in meant if one is not None and one not in names]
