"""Small made-up workloads of all four classes of service, for unequal hosts that are shared.

The applications are those of Pascal et al. (2004), section 3: coarse grain, with a known CPU
time, some memory, a little communication. All numbers are made up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from qops_batsim.errors import InputError, require
from qops_batsim.jobs import QOS_CLASSES, Job
from qops_batsim.limits import MAX_APPLICATIONS
from qops_batsim.version import __version__
from qops_batsim.workload.lublin import random_stream
from qops_batsim.workload.model import Profile, Workload, check_processors, plain_number
from qops_batsim.workload.service_classes import compute_profile

# A stream of the seed that nothing else uses.
_MIXED = 23

_SIZES = (1, 2, 4, 8, 16, 32)
_MOST_APART = 4
_MEBIBYTE = 1 << 20


class MixedChoices(msgspec.Struct, frozen=True, kw_only=True):
    """What the applications are like; amounts are drawn uniform in their logarithm."""

    mix: Mapping[str, float] = msgspec.field(
        default_factory=lambda: dict(zip(QOS_CLASSES, (4.0, 2.0, 1.0, 3.0), strict=True))
    )
    """Relative frequency of each class of service."""
    gap: float = 40.0
    """Mean time between two submissions (s), exponentially distributed."""
    cpu_time: tuple[float, float] = (300.0, 5_400.0)
    """Least and greatest CPU time of a task on a host of ``speed`` flop/s (s); the default is that
    of most hosts of ``aroma_grid``.
    """
    speed: float = 500e6
    memory: tuple[float, float] = (16.0 * _MEBIBYTE, 384.0 * _MEBIBYTE)
    """Least and greatest memory of a task (bytes)."""
    communication: tuple[float, float] = (1e5, 1e7)
    """Least and greatest amount that each ordered pair of tasks exchanges (bytes); half of the
    applications exchange nothing.
    """
    apart: float = 0.4
    """Share of the best effort applications whose tasks are jobs of their own
    (``qos.application``).
    """
    deadline_factor: float = 5.0
    """Deadlines are submission + this x CPU time."""
    sites: tuple[str, ...] = ("site_a", "site_b", "site_c")
    """Sites that users belong to (``qos.origin``)."""


def mixed_workload(
    applications: int = 48,
    seed: int = 1,
    *,
    processors: int = 68,
    choices: MixedChoices | None = None,
) -> Workload:
    """Make applications of all four classes of service.

    Each is one compute job of 1 to 32 tasks; those whose tasks are jobs of their own
    have up to 4, with the ids ``7t1``, ``7t2``, … and the common name ``7``. No application has
    more tasks than the machine has hosts (``processors``), by default those of ``aroma_grid``.
    """
    choices = choices or MixedChoices()
    _check(applications, processors, choices)
    random = random_stream(seed, _MIXED)
    sizes = [size for size in _SIZES if size <= processors]
    names, weights = zip(*choices.mix.items(), strict=True)
    shares = np.array(weights) / sum(weights)
    jobs: list[Job] = []
    profiles: dict[str, Profile] = {}
    submitted = 0
    for number in range(1, applications + 1):
        submitted += round(random.exponential(choices.gap))
        service = names[int(random.choice(len(names), p=shares))]
        tasks = int(random.choice(sizes))
        seconds = _drawn(random, choices.cpu_time, 1)
        memory = _drawn(random, choices.memory, _MEBIBYTE)
        exchanged = _drawn(random, choices.communication, 1) if random.random() < 0.5 else 0
        by_itself = random.random() < choices.apart and service == "best_effort"
        tasks = min(tasks, _MOST_APART) if by_itself else tasks
        site = choices.sites[int(random.integers(len(choices.sites)))]
        exchanged = 0 if tasks == 1 or by_itself else exchanged
        name, profiles[name] = compute_profile(seconds, choices.speed, exchanged)
        qos: dict[str, Any] = {"class": service, "estimated_runtime": seconds}
        if service == "deadline":
            date = submitted + choices.deadline_factor * seconds
            qos |= {"deadline": plain_number(date), "has_user_deadline": True}
        qos |= {"memory": memory, "origin": site}
        fields = {"subtime": submitted, "res": tasks, "profile": name, "qos": qos}
        jobs += _jobs(str(number), fields, apart=by_itself and tasks > 1)
    provenance = {
        "command": "workload mixed",
        "applications": applications,
        "seed": seed,
        "processors": processors,
        "choices": msgspec.to_builtins(choices),
        "version": __version__,
    }
    source = f"the mixed workload of seed {seed}"
    return Workload(jobs, profiles, processors, provenance, source)


def _jobs(name: str, fields: dict[str, Any], *, apart: bool) -> list[Job]:
    """Return the jobs of an application."""
    if not apart:
        return [Job.from_fields({"id": name, **fields}, where="mixed workload")]
    tasks = range(1, fields["res"] + 1)
    shared = {**fields, "res": 1, "qos": {**fields["qos"], "application": name}}
    made = ({"id": f"{name}t{number}", **shared} for number in tasks)
    return [Job.from_fields(each, where="mixed workload") for each in made]


def _drawn(random: np.random.Generator, bounds: tuple[float, float], unit: int) -> int:
    """Return a whole multiple of a unit between two numbers, uniform in its logarithm."""
    low, high = (math.log(bound) for bound in bounds)
    return max(1, round(math.exp(random.uniform(low, high)) / unit)) * unit


def _check(applications: int, processors: int, choices: MixedChoices) -> None:
    accepted = f"a whole number from 1 to {MAX_APPLICATIONS} is accepted"
    require(1 <= applications <= MAX_APPLICATIONS, "applications", applications, accepted)
    check_processors(processors)
    unknown = [name for name in choices.mix if name not in QOS_CLASSES]
    if unknown:
        raise InputError(f"mix: class {unknown[0]!r}; {', '.join(QOS_CLASSES)} are accepted")
    weights = choices.mix.values()
    if not all(0 <= weight < math.inf for weight in weights) or not sum(weights):
        raise InputError("mix: numbers from 0 up, one of them above 0, are accepted")
    for name in ("cpu_time", "memory", "communication"):
        low, high = getattr(choices, name)
        if not 0 < low <= high < math.inf:
            raise InputError(
                f"{name} is from {low:g} to {high:g}; two numbers above 0, the lesser first, "
                "are accepted"
            )
    for name in ("gap", "speed"):
        value = getattr(choices, name)
        require(0 < value < math.inf, name, value, "a number above 0 is accepted")
    if not 0 <= choices.apart <= 1 or not 1 <= choices.deadline_factor < math.inf:
        raise InputError(
            f"apart is {choices.apart:g} and deadline_factor {choices.deadline_factor:g}; a share "
            "from 0 to 1 and a number from 1 up are accepted"
        )
    if not choices.sites:
        raise InputError("sites is empty; at least one name is expected")
