"""Runs of QoPS with views of a machine, and runs on whole hosts that are counted or bound."""

from __future__ import annotations

import math
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim import simulate
from qops_batsim.experiments import find_trace, give_deadlines_by_need
from qops_batsim.platform import make_cluster
from qops_batsim.traces import read_trace
from qops_batsim.workload import Workload, exact_estimates, read_workload, subset
from studies.logs import jobs_before
from studies.shared import NEED, Settings, usual_need
from studies.shared_nodes.machine_views import ViewedQops
from studies.shared_nodes.mix import IMPORTED, Demand, demand_of, platform_of, stretches_of

EXACT, BLOCKING = "exact", "blocking"
"""Variants that differ from the users' limits and promises that get later dates."""

DATE_TOLERANCE = 1e-3
"""By so many seconds a promise may be missed."""


class Case(msgspec.Struct, frozen=True):
    """A run of QoPS with a view of the machine on a stretch of the log."""

    stretch: int
    load: float
    view: str
    variant: str


class Group(msgspec.Struct):
    """Jobs of a kind and a width: all, those that were promised their deadline, those that ended
    late, and those that started so late that they could have. Work is dominant share × run time.
    """

    jobs: int = 0
    work: float = 0.0
    admitted: int = 0
    admitted_work: float = 0.0
    late: int = 0
    late_work: float = 0.0
    unsafe: int = 0


class Run(msgspec.Struct):
    """A run: the machine, its offered load, groups of jobs, and the worst delay (seconds)."""

    hosts: int
    load: float
    groups: dict[str, Group]
    worst: float
    worst_start: float

    def total(self, name: str, chosen: str = "") -> float:
        """Return a sum over all groups, or over those whose names contain a word."""
        return sum(getattr(each, name) for key, each in self.groups.items() if chosen in key)

    def share(self, part: str, of: str, chosen: str = "") -> float:
        """Return a part in %, 0 of nothing."""
        whole = self.total(of, chosen)
        return 100 * self.total(part, chosen) / whole if whole else 0.0

    def kept(self, jobs: bool = True) -> float:
        """Return the share of all jobs, or of all work, that was promised and in time (%)."""
        if jobs:
            return self.share("admitted", "jobs") - self.share("late", "jobs")
        return self.share("admitted_work", "work") - self.share("late_work", "work")


class Mix:
    """Runs on stretches of Graham's log, which was imported into a directory."""

    def __init__(self, settings: Settings, directory: str, by: str = NEED) -> None:
        self.settings = settings
        self.directory = directory
        self.by = by

    @cached_property
    def workload(self) -> Workload:
        """The jobs that any host could run."""
        return read_workload(Path(self.directory) / IMPORTED)

    @cached_property
    def stretches(self) -> list[tuple[Workload, Demand]]:
        """The stretches, with what their jobs ask for."""
        parts = stretches_of(self.workload, self.settings["log"], self.by)
        return [(part, demand_of(part, self.settings["machine"])) for part in parts]

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings, "directory": self.directory, "by": self.by}

    def __call__(self, case: Case) -> Run:
        machine, widest = self.settings["machine"], self.settings["log"]["widest"]
        workload, demand = self.stretches[case.stretch]
        hosts = demand.hosts_for(machine, case.load, 8 * widest)
        if case.variant == EXACT:
            workload = exact_estimates(workload)
        options = {"view": case.view, "renews": case.variant != BLOCKING}
        ran = simulate(ViewedQops, workload, platform_of(machine, hosts), options)
        ended = ran.ended_jobs
        dates = dict(zip(ended.ids, zip(ended.starts, ended.finishes, strict=True), strict=True))

        work = demand.shares(machine, hosts) * hosts * demand.run_times
        kinds = demand.binding(machine, hosts)
        groups: dict[str, Group] = {}
        worst = worst_start = 0.0
        for job, amount, kind in zip(workload.jobs, work.tolist(), kinds, strict=True):
            width = "one host" if job.processors == 1 else "several hosts"
            group = groups.setdefault(f"{kind}, {width}", Group())
            group.jobs += 1
            group.work += amount
            start, finish = dates[job.id]
            if math.isnan(start):
                continue

            group.admitted += 1
            group.admitted_work += amount
            late = float(finish - job.qos.deadline)
            late_start = float(start + job.estimate - job.qos.deadline)
            if late > DATE_TOLERANCE:
                group.late += 1
                group.late_work += amount
            group.unsafe += late_start > DATE_TOLERANCE
            worst, worst_start = max(worst, late), max(worst_start, late_start)
        return Run(hosts, demand.load(machine, hosts), groups, worst, worst_start)


class WholeCase(msgspec.Struct, frozen=True):
    """A run on hosts that each job has for itself, which are counted or bound."""

    log: str
    stretch: int
    way: str


class WholeRun(msgspec.Struct):
    """Mean wait (seconds) and refused jobs (%)."""

    wait: float
    refused: float


@cache
def whole_log(file: str, processors: int) -> Workload:
    """Return all jobs of a log of a machine."""
    return read_trace(find_trace(file, Path()), processors=processors).workload


class WholeHosts:
    """Runs on stretches of logs of machines whose hosts are not shared."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def __call__(self, case: WholeCase) -> WholeRun:
        file, processors, jobs, _ = self.settings["whole_hosts"][case.log]
        scheduler, options, has_amounts = WAYS[case.way]
        log = whole_log(file, processors)
        part = subset(log, skip=jobs_before(case.stretch + 1, jobs), first=jobs)
        if scheduler == "qops":
            need = usual_need()
            if part.calendar is not None:
                need = msgspec.structs.replace(need, calendar=None)
            part = give_deadlines_by_need(part, need)
        platform = make_cluster(processors, cores=1 if has_amounts else None)
        ended = simulate(scheduler, part, platform, options).ended_jobs
        ran = ended.ran
        waits = (ended.starts - ended.submission_times)[ran]
        return WholeRun(float(waits.mean()), float(100 - 100 * ran.mean()))


WAYS: dict[str, tuple[str, dict[str, str], bool]] = {
    "conservative, counted": ("conservative", {"reserve": "processors"}, False),
    "conservative, named hosts": ("conservative", {"reserve": "hosts"}, False),
    "conservative, nodes": ("conservative", {}, True),
    "qops, counted": ("qops", {}, False),
    "qops, nodes": ("qops", {}, True),
}
"""Scheduler, its options, and whether hosts have amounts."""
