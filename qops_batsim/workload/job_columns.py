"""What is done for every job of a workload: its values in columns, and changed copies of it."""

from __future__ import annotations

from array import array
from typing import Any

from msgspec.structs import replace

from qops_batsim.core.job import Job
from qops_batsim.job_fields import QosRequest
from qops_batsim.limits import MAX_SECONDS

NAN = float("nan")
INFINITY = float("inf")
LONGEST = MAX_SECONDS
NUMBERS = (int, float)
ZERO, NINE = b"09"
MOST_DIGITS = 18
NOTHING_ASKED = QosRequest()


def plain_delays(profiles: dict[str, Any], names: list[str]) -> array[float]:
    """Return the delay (seconds) of each of these profiles that is a delay and nothing else; NaN
    for others.
    """
    delays = array("d", bytes(8 * len(names)))
    found = delays
    for place in range(len(names)):
        found[place] = NAN
        profile = profiles.get(names[place])
        if type(profile) is dict and len(profile) == 2 and profile.get("type") == "delay":
            delay: Any = profile.get("delay")
            if type(delay) in NUMBERS and 0 < delay <= LONGEST:
                found[place] = delay
    return delays


def are_ascending(ids: list[str]) -> bool:
    """Return whether identifiers are made of digits and ascend, as numbers of jobs usually do."""
    before = -1
    for text in ids:
        count = len(text)
        if not 0 < count <= MOST_DIGITS:
            return False
        number = 0
        for place in range(count):
            letter = ord(text[place])
            if not ZERO <= letter <= NINE:
                return False
            number = number * 10 + letter - ZERO
        if number <= before:
            return False
        before = number
    return True


def columns_of_jobs(
    jobs: list[Job],
    places: dict[str, int],
    dates: Any,
    walltimes: Any,
    estimates: Any,
    processors: Any,
    profiles: Any,
) -> tuple[list[str], list[Any] | None, list[Any] | None]:
    """Write the numbers of jobs into arrays; return their identifiers, what users ask for, and what
    they ask of hosts, None where no job does.

    ``places`` are those of the profiles; others that jobs name are added.
    """
    ids = []
    requests = []
    hosts_asked = []
    any_request = False
    any_hosts = False
    for index in range(len(jobs)):
        job = jobs[index]
        ids.append(job.id)
        requests.append(job.qos)
        hosts_asked.append(job.hosts_asked)
        any_request = any_request or job.qos is not None
        any_hosts = any_hosts or job.hosts_asked is not None
        dates[index] = job.submission_time
        walltimes[index] = INFINITY if job.walltime is None else job.walltime
        estimates[index] = job.estimate
        processors[index] = job.processors
        profiles[index] = places.setdefault(job.profile, len(places))
    return ids, requests if any_request else None, hosts_asked if any_hosts else None


def changed_copy(job: Job, fields: dict[str, Any], qos: dict[str, Any], told: Any) -> Job | None:
    """Return a copy of a job with new values of some fields, and of some in its ``qos``; None if
    they need a check.

    A value of None removes the field. ``told`` gives the copy's fields when they are asked for.
    """
    made = Job.__new__(Job)
    made.id = job.id
    made.profile = job.profile
    made.submission_time = job.submission_time
    made.processors = job.processors
    made.walltime = job.walltime
    made.qos = job.qos
    made.hosts_asked = job.hosts_asked
    made._fields = told
    for name, value in fields.items():
        if name == "walltime" and value is None:
            made.walltime = None
        elif name == "walltime" and type(value) in NUMBERS and 0 < value <= LONGEST:
            made.walltime = float(value)
        elif name == "subtime" and type(value) in NUMBERS and abs(value) <= LONGEST:
            made.submission_time = value
        elif name == "id" and type(value) is str and value:
            made.id = value
        elif name == "profile" and type(value) is str:
            made.profile = value
        else:
            return None

    if qos:
        changes = {}
        is_asked = False
        for name, value in qos.items():
            if name == "has_user_deadline":
                if type(value) is not bool:
                    return None
            elif value is not None:
                least = 0 if name == "estimated_runtime" else -LONGEST
                if name not in ("deadline", "estimated_runtime") or type(value) not in NUMBERS:
                    return None
                if not least <= value <= LONGEST or (least == 0 and value == 0):
                    return None
                value = float(value)
            elif name not in ("deadline", "estimated_runtime"):
                return None
            is_asked = is_asked or value is not None
            changes[name] = value
        if not is_asked:
            return None  # Perhaps nothing is left of the request.
        made.qos = replace(NOTHING_ASKED if job.qos is None else job.qos, **changes)
    made._begin()
    return made
