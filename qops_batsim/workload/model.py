"""A workload: jobs, the profiles they execute, and where it comes from."""

from __future__ import annotations

from typing import Any

import msgspec

from qops_batsim.jobs import Job

Profile = dict[str, Any]
"""An execution profile as in Batsim: an object with a ``type`` and its parameters."""


class Workload(msgspec.Struct, kw_only=True):
    """A table of jobs with the profiles they execute.

    Attributes
    ----------
    jobs
        The jobs, in the order of the file.
    profiles
        Execution profiles by name.
    processors
        Processors of the machine the workload is for (``nb_res``).
    provenance
        How the workload was made: log, window, repairs, generator, every
        parameter and seed. Written to the file, ignored by Batsim.
    source
        Where it was read from, for messages.
    """

    jobs: list[Job]
    profiles: dict[str, Profile]
    processors: int
    provenance: dict[str, Any] = {}
    source: str = "a workload"


def plain_number(value: float) -> float | int:
    """Return a whole number as int, so that JSON shows it without a fraction."""
    return int(value) if float(value).is_integer() else float(value)


def delay_profile(run_time: float) -> tuple[str, Profile]:
    """Return name and content of the profile that runs for ``run_time`` seconds.

    Equal run times share one profile, so a workload stays small.
    """
    seconds = plain_number(run_time)
    return f"delay{seconds}", {"type": "delay", "delay": seconds}
