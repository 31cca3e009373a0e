"""Stretches of Graham's log, and machines of a size that gives an offered load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from qops_batsim import Job
from qops_batsim.experiments import find_trace, give_deadlines_by_need
from qops_batsim.platform import EqualHosts, Platform, make_mixed_cluster, write_platform
from qops_batsim.workload import Workload, run_times_until_killed
from studies.shared import NEED, Settings, usual_need

KINDS = ("cores", "memory", "gpus")

COLUMNS = (
    "id=job,submit=submit,start=start,run_time=run_time,walltime=limit,nodes=nodes,cores=cores,"
    "memory=memory_mb,gpus=gpus,group=account,queue=partition,state=state"
)
"""What the columns of the log's table are, for ``workload import --map``."""


def platform_of(machine: Settings, hosts: int) -> Platform:
    """Return a machine of a number of hosts, the first of which have GPUs."""
    cores, memory, gpus = (machine[kind] for kind in KINDS)
    many = with_gpus(machine, hosts)
    groups = [
        EqualHosts(hosts=many, cores=cores, memory=memory, gpus=gpus),
        EqualHosts(hosts=hosts - many, cores=cores, memory=memory),
    ]
    return make_mixed_cluster(groups)


def with_gpus(machine: Settings, hosts: int) -> int:
    """Return how many of a machine's hosts have GPUs."""
    return max(1, round(machine["with_gpus"] * hosts))


IMPORTED = "graham.json"
"""The file of the imported workload."""


def import_log(settings: Settings, directory: Path) -> str:
    """Import the log by ``qops-batsim workload import --by amounts``; return what that said.

    The workload, :data:`IMPORTED` in the directory, has the jobs that any host could run. It takes
    some seconds.
    """
    log = find_trace(settings["log"]["file"], Path())
    platform, out = directory / "graham.xml", directory / IMPORTED
    write_platform(platform_of(settings["machine"], 400), platform)
    command = [sys.executable, "-m", "qops_batsim", "workload", "import", str(log), str(out)]
    command += ["--by", "amounts", "--nodes", str(platform), "--unit", "memory=MB"]
    ended = subprocess.run([*command, "--map", COLUMNS], check=True, capture_output=True, text=True)
    return ended.stdout.replace(f"{directory}/", "").strip()


def is_narrow(job: Job, log: Settings) -> bool:
    """Return whether a job is neither wider nor longer than the study takes."""
    assert job.walltime is not None
    return job.processors <= log["widest"] and job.walltime <= log["longest"]


def stretches_of(workload: Workload, log: Settings, by: str = NEED) -> list[Workload]:
    """Return the last disjoint stretches of a sample of the log, with deadlines by a mix of needs.

    The log begins with few jobs a day, as only those are known that waited at noon.
    """
    jobs = [job for job in workload.jobs if is_narrow(job, log)][:: log["every"]]
    first = len(jobs) - log["stretches"] * log["jobs"]
    made = []
    for begin in range(first, len(jobs), log["jobs"]):
        part = jobs[begin : begin + log["jobs"]]
        profiles = {job.profile: workload.profiles[job.profile] for job in part}
        alone = Workload(jobs=part, profiles=profiles, processors=log["widest"])
        alone.calendar = workload.calendar
        made.append(give_deadlines_by_need(alone, usual_need(by)))
    return made


class Demand(NamedTuple):
    """What the jobs of a stretch ask for.

    ``amounts`` of all their hosts together, in hosts' worth of each kind (jobs × kinds); run times
    until they are killed (s); seconds from first to last submission.
    """

    amounts: np.ndarray
    run_times: np.ndarray
    period: float

    def totals(self, machine: Settings, hosts: int) -> np.ndarray:
        """Return what a machine has of each kind, in hosts' worth."""
        return np.array([hosts, hosts, with_gpus(machine, hosts)], np.float64)

    def shares(self, machine: Settings, hosts: int) -> np.ndarray:
        """Return each job's dominant share of a machine."""
        found: np.ndarray = (self.amounts / self.totals(machine, hosts)).max(axis=1)
        return found

    def binding(self, machine: Settings, hosts: int) -> list[str]:
        """Return the kind of which each job has its dominant share."""
        shares = self.amounts / self.totals(machine, hosts)
        return [KINDS[kind] for kind in shares.argmax(axis=1)]

    def load(self, machine: Settings, hosts: int) -> float:
        """Return the offered load by dominant shares."""
        return float((self.shares(machine, hosts) * self.run_times).sum() / self.period)

    def loads(self, machine: Settings, hosts: int) -> dict[str, float]:
        """Return the offered load of each kind by itself."""
        shares = self.amounts / self.totals(machine, hosts)
        work = (shares * self.run_times[:, None]).sum(axis=0) / self.period
        return dict(zip(KINDS, work.tolist(), strict=True))

    def hosts_for(self, machine: Settings, load: float, least: int) -> int:
        """Return the number of hosts, ``least`` or more, whose load is nearest to one asked for."""
        hosts = least
        while self.load(machine, hosts) > load:
            hosts += 1
        return min(
            (max(hosts - 1, least), hosts),
            key=lambda hosts: abs(self.load(machine, hosts) - load),
        )


def demand_of(workload: Workload, machine: Settings) -> Demand:
    """Return what the jobs of a stretch ask for."""
    rows = []
    for job in workload.jobs:
        assert job.hosts_asked is not None
        asked = job.hosts_asked.parts[0].amounts
        rows.append([job.processors * asked.get(kind, 0) / machine[kind] for kind in KINDS])
    submissions = workload.columns.submission_times
    run_times = np.array(run_times_until_killed(workload), np.float64)
    return Demand(np.array(rows), run_times, float(submissions.max() - submissions.min()))
