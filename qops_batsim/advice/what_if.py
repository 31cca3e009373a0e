"""Changes to a trace to try: load, machine, longest walltime, estimates."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from qops_batsim.errors import InputError, did_you_mean, require, require_one_of, shown
from qops_batsim.limits import MAX_PROCESSORS
from qops_batsim.quantities import TIME
from qops_batsim.workload.delay_jobs import changed_job, derived, jobs_until_killed
from qops_batsim.workload.estimates import EstimateChoices, with_estimates
from qops_batsim.workload.scale import scale_load
from qops_batsim.workload.workload_model import Workload, delay_profile, plain_number

RISK = 0.05
"""Share of jobs that may outlive a learned estimate."""


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a trace whose effect is simulated: load factor, more ``processors``, a longest
    walltime, better estimates.

    A job that may run longer than ``max_walltime`` (seconds) becomes several, each submitted when
    the one before could end at the earliest. ``estimates`` are the users' own, or ``learned`` ones:
    the mean of a user's last two run times (Tsafrir et al. 2007) times a margin that a share of
    :data:`RISK` of the jobs outlive.
    """

    load: float = 1.0
    processors: int = 0
    max_walltime: float = math.inf
    estimates: str = "users"

    def change(self, part: Workload, load: float, seed: int) -> Workload:
        """Return a window of a trace with the changes to its jobs and machine; the load is
        multiplied by ``load`` and by the factor of the changes.
        """
        if self.max_walltime < math.inf:
            part = _cut(part, self.max_walltime)
        if self.processors:
            size = part.processors + self.processors
            require(1 <= size <= MAX_PROCESSORS, "processors", size, "at least 1 is accepted")
            part = on_machine(part, size)
        return scale_load(part, load * self.load, seed=seed)

    def estimate(self, part: Workload, ends: Mapping[str, float]) -> Workload:
        """Return a workload with the users' estimates, or with learned ones; ``ends`` are the jobs'
        ends under EASY (seconds).
        """
        if self.estimates == "users":
            return part
        choices = EstimateChoices(model="predicted", risk=RISK)
        return with_estimates(part, choices, ends=ends)


def on_machine(part: Workload, size: int) -> Workload:
    """Return the workload for a machine of ``size`` processors, without jobs that need more."""
    fit = [job for job in part.jobs if job.processors <= size]
    part = derived(part, fit, None, {"step": "machine", "processors": size})
    part.processors = size
    return part


def parse_what_if(text: str, cores_per_node: float | None = None) -> WhatIf:
    """Parse the option ``--what-if``: changes to a trace such as
    ``load=1.2,nodes=+64,max-walltime=24h``.

    >>> parse_what_if("load=1.2,processors=+64,estimates=learned").processors
    64
    """
    found: dict[str, float | int | str] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        where = f"--what-if {name}"
        if name not in _NAMES or not equals:
            hint = did_you_mean(name, _NAMES)
            raise InputError(f"--what-if {shown(part)}: NAME=VALUE is expected{hint}")
        if name == "estimates":
            require_one_of(where, value, ("users", "learned"))
            found[name] = value
        elif name == "max-walltime":
            found["max_walltime"] = longest = TIME.parse(value, where=where)
            require(longest > 0, where, value, "more than 0 is accepted")
        elif name == "load":
            found[name] = _number(value, where)
            require(
                1 <= float(found[name]) <= 10, where, value, "a number from 1 to 10 is accepted"
            )
        elif name == "nodes" and cores_per_node is None:
            raise InputError(
                f"{where}: the cores of a node are not known; a list of the nodes (--nodes "
                "FILE), --by nodes, or processors=+N instead of nodes=+N is expected"
            )
        else:
            each = cores_per_node or 1.0 if name == "nodes" else 1.0
            found["processors"] = round(_number(value, where) * each)
    return WhatIf(**found)  # type: ignore[arg-type]


_NAMES = ("load", "nodes", "processors", "max-walltime", "estimates")


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where} is {shown(text)}; a number is expected") from None


def _cut(part: Workload, longest: float) -> Workload:
    """Return a workload in which a job with an estimate above ``longest`` (seconds) becomes several
    shorter jobs, one after the other.
    """
    jobs, profiles = [], {}
    for job, seconds in jobs_until_killed(part):
        if job.estimate <= longest:
            profiles[job.profile] = part.profiles[job.profile]
            jobs.append(job)
            continue
        for number in range(max(math.ceil(seconds / longest), 1)):
            done = number * longest
            name, profile = delay_profile(min(seconds - done, longest))
            profiles[name] = profile
            limit = plain_number(min(job.estimate - done, longest))
            fields = {
                "id": f"{job.id}p{number + 1}" if number else job.id,
                "subtime": plain_number(job.submission_time + done),
                "profile": name,
                "walltime": None if job.walltime is None else limit,
            }
            qos = {"estimated_runtime": limit} if job.walltime is None else {}
            jobs.append(changed_job(job, fields, qos, workload=part))
    jobs.sort(key=lambda each: each.submission_time)
    return derived(part, jobs, profiles, {"step": "longest walltime", "seconds": longest})
