"""Simulations in which a scheduler cannot see how long jobs run before they end.

Batsim tells schedulers the name and the content of each job's execution profile, and both hold its
run time (``delay34``), which nobody knows on a real machine. Here, names hold wrong run times, and
so do contents until the job has ended; a scheduler that uses neither decides the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from qops_batsim.jobs import Job
from qops_batsim.protocol.decisions import Decision
from qops_batsim.protocol.driver import ModuleDriver
from qops_batsim.protocol.events import Event, JobCompleted, SimulationBegins
from qops_batsim.protocol.port import SchedulerModule
from qops_batsim.workload.workload_model import Profile, Workload, delay_profile

_NAME = "w0"
"""Name of the only workload of a simulation."""


class Disguise(msgspec.Struct, frozen=True):
    """A workload whose profiles have other names, one a job, and what they seem to hold.

    Attributes
    ----------
    workload
        The same jobs with the new names, behind which are the true profiles.
    told
        A wrong content by new name: the same type of profile, with another run time.
    """

    workload: Workload
    told: dict[str, Profile]


def disguise(workload: Workload) -> Disguise:
    """Give each job a profile of its own, named after a wrong run time: the longest job seems to be
    the shortest, and the last of equal ones. All jobs must sleep.
    """
    run_times = workload.delays
    longest_first = sorted(range(len(run_times)), key=lambda place: (-run_times[place], -place))
    jobs = list(workload.jobs)
    true: dict[str, Profile] = {}
    told: dict[str, Profile] = {}
    for seconds, place in enumerate(longest_first, 1):
        job = jobs[place]
        name, profile = delay_profile(seconds)
        true[name] = workload.profiles[job.profile]
        told[name] = profile
        asked = job.submission_time, job.processors, name, job.walltime, job.qos
        jobs[place] = Job(job.id, *asked, hosts_asked=job.hosts_asked)
    return Disguise(msgspec.structs.replace(workload, jobs=jobs, profiles=true), told)


class HidingDriver(ModuleDriver):
    """Drives a scheduler that is told the true content of a profile when its job has ended.

    Parameters
    ----------
    disguised
        The workload of the simulation, and what the scheduler is told before.
    """

    def __init__(self, module: SchedulerModule, disguised: Disguise) -> None:
        super().__init__(module, any_engine=True)
        workload = disguised.workload
        self._told = dict(disguised.told)
        self._true = workload.profiles
        self._names = {f"{_NAME}!{job.id}": job.profile for job in workload.jobs}

    def decisions_on(self, now: float, events: Sequence[Event]) -> list[Decision]:
        heard: list[Event] = []
        for event in events:
            if isinstance(event, SimulationBegins):
                event = msgspec.structs.replace(event, profiles={_NAME: self._told})
            elif isinstance(event, JobCompleted) and event.job_id in self._names:
                name = self._names[event.job_id]
                self._told[name] = self._true[name]
            heard.append(event)
        return super().decisions_on(now, heard)
