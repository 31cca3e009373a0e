"""Promises on shared nodes: what they cost and hold, by what is planned with (README.md).

    python studies/shared_nodes [--quick] [--workers 2] [--write studies/shared_nodes/tables.md]
        [--draw studies/shared_nodes]

Finished runs are kept, and the study goes on where it was. Logs are read from QOPS_SHARED
(default ../shared). Means are over disjoint stretches of a log, with 95 % intervals (Student).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim import simulate
from qops_batsim.experiments import (
    CONFIRMED,
    Claim,
    KeptRuns,
    ViewedQops,
    changes,
    differences,
    find_trace,
    give_deadlines_by_need,
    jointly_judged,
    markdown_table,
    mean_interval,
    run_cases,
    sign_claim,
)
from qops_batsim.measures import COLORS, MARKERS, picture
from qops_batsim.platform import make_cluster
from qops_batsim.traces import read_trace
from qops_batsim.workload import subset
from studies.logs import jobs_before
from studies.shared import (
    Settings,
    arguments,
    print_or_put,
    run_main,
    settings_of,
    told,
    usual_need,
)
from studies.shared_nodes.mix import KINDS, Demand, demand_of, import_log, is_narrow
from studies.shared_nodes.mix import platform_of, stretches_of, with_gpus

NODES = "nodes"
VIEWS = {
    "one_number": "one number",
    "pooled": "pooled amounts",
    "whole": "whole nodes while waiting",
    NODES: "nodes",
}
"""Views of the machine, as tables name them."""

DATE_TOLERANCE = 1e-3
"""By so many seconds a promise may be missed."""


class Case(msgspec.Struct, frozen=True):
    """A run of QoPS with a view of the machine on a stretch of the log."""

    stretch: int
    load: float
    view: str


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
    """Runs on stretches of Graham's log."""

    def __init__(self, settings: Settings, directory: str) -> None:
        self.settings = settings
        self.directory = directory

    @cached_property
    def stretches(self) -> list[tuple[Any, Demand]]:
        """The stretches, with what their jobs ask for."""
        machine = self.settings["machine"]
        imported = import_log(self.settings, Path(self.directory))
        parts = stretches_of(imported.workload, self.settings["log"])
        return [(part, demand_of(part, machine)) for part in parts]

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings, "directory": self.directory}

    def __call__(self, case: Case) -> Run:
        machine, widest = self.settings["machine"], self.settings["log"]["widest"]
        workload, demand = self.stretches[case.stretch]
        hosts = demand.hosts_for(machine, case.load, 8 * widest)
        ran = simulate(ViewedQops, workload, platform_of(machine, hosts), {"view": case.view})
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
            late_start = float(start + job.walltime - job.qos.deadline)
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
    scheduler: str
    bound: bool


class WholeRun(msgspec.Struct):
    """Mean wait (seconds) and refused jobs (%)."""

    wait: float
    refused: float


class WholeHosts:
    """Runs on stretches of logs of machines whose hosts are not shared."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def __call__(self, case: WholeCase) -> WholeRun:
        file, processors, jobs, _ = self.settings["whole_hosts"][case.log]
        trace = read_trace(find_trace(file, Path()), processors=processors)
        part = subset(trace.workload, skip=jobs_before(case.stretch + 1, jobs), first=jobs)
        if case.scheduler == "qops":
            if part.calendar is None:
                need = usual_need()
            else:
                need = msgspec.structs.replace(usual_need(), calendar=None)
            part = give_deadlines_by_need(part, need)
        options = {"reserve": "processors"} if case.scheduler == "conservative" else {}
        platform = make_cluster(processors, cores=1 if case.bound else None)
        ended = simulate(case.scheduler, part, platform, options).ended_jobs
        ran = ended.ran
        waits = (ended.starts - ended.submission_times)[ran]
        return WholeRun(float(waits.mean()), float(100 - 100 * ran.mean()))


Runs = Mapping[tuple[float, str], list[Run]]
"""Runs by load and view, a run for each stretch."""

Metric = Callable[[Run], float]

METRICS: dict[str, Metric] = {
    "promised jobs (%)": lambda run: run.share("admitted", "jobs"),
    "promised work (%)": lambda run: run.share("admitted_work", "work"),
    "kept jobs (%)": lambda run: run.kept(),
    "kept work (%)": lambda run: run.kept(jobs=False),
}
"""What is compared with nodes."""

BROKEN: dict[str, Metric] = {
    "late (% of the promises)": lambda run: run.share("late", "admitted"),
    "started too late (%)": lambda run: run.share("unsafe", "admitted"),
}


def all_runs(settings: Settings, out: Path, workers: int, directory: str) -> Runs:
    """Make the runs that a directory does not hold yet; return all."""
    asked, log = settings["runs"], settings["log"]
    cases = [
        Case(stretch, load, view)
        for stretch in range(log["stretches"])
        for load in asked["loads"]
        for view in asked["views"]
    ]
    made_of = [log, settings["machine"]]
    found = run_cases(
        Mix(settings, directory),
        cases,
        workers=workers,
        kept=KeptRuns(out / "mix", Run, made_of),
        group_by=lambda case: case.stretch,
        on_progress=told(12),
    )
    runs: dict[tuple[float, str], list[Run]] = {}
    for case, run in found.items():
        runs.setdefault((case.load, case.view), []).append(run)
    return runs


def text(values: Sequence[float], sign: str = "") -> str:
    """Return a mean with its interval."""
    return mean_interval(values).text(sign=sign)


def marked(claim: Claim) -> str:
    """Return a difference with its interval, marked if chance does not explain it."""
    if claim.value is None or claim.interval is None:
        return "-"
    mark = "*" if claim.verdict == CONFIRMED else ""
    return "{:+.2f}{} [{:+.2f}, {:+.2f}]".format(claim.value, mark, *claim.interval)


def judged(found: Mapping[Any, Sequence[float]], family: str) -> dict[Any, Claim]:
    """Return claims that the mean of each difference is not 0, judged together."""
    claims = {}
    for key, less in found.items():
        sign = 1 if sum(less) > 0 else -1
        claims[key] = sign_claim(str(key), "", less, sign, family=family)
    return dict(zip(claims, jointly_judged(list(claims.values())), strict=True))


def machine_lines(settings: Settings, runs: Runs) -> Iterator[str]:
    """Yield the sizes of the machines and their loads."""
    for load in settings["runs"]["loads"]:
        own = runs[load, NODES]
        hosts = [run.hosts for run in own]
        gpus = [with_gpus(settings["machine"], each) for each in hosts]
        yield (
            f"Load {load:g}: {min(hosts)} to {max(hosts)} hosts ({min(gpus)} to {max(gpus)} with "
            f"GPUs), offered load {text([run.load for run in own])}."
        )


def promise_rows(settings: Settings, runs: Runs) -> Iterator[list[str]]:
    """Yield what is promised and kept, by load and view."""
    for load in settings["runs"]["loads"]:
        for view in settings["runs"]["views"]:
            own = runs[load, view]
            cells = [text([metric(run) for run in own]) for metric in METRICS.values()]
            cells += [text([metric(run) for run in own]) for metric in BROKEN.values()]
            late = sum(run.total("late") for run in own)
            worst = max(run.worst for run in own) / 3600
            yield [f"{load:g}", VIEWS[view], *cells, f"{late:,.0f}", f"{worst:.1f}"]


def difference_rows(settings: Settings, runs: Runs) -> Iterator[list[str]]:
    """Yield differences to nodes, by load and view."""
    found = {}
    for (load, view), own in runs.items():
        if view == NODES:
            continue
        for name, metric in METRICS.items():
            pairs = ([metric(run) for run in each] for each in (own, runs[load, NODES]))
            found[load, view, name] = differences(*pairs)
    claims = judged(found, "views")
    for load, view in runs:
        if view != NODES:
            cells = [marked(claims[load, view, name]) for name in METRICS]
            yield [f"{load:g}", VIEWS[view], *cells]


def group_rows(settings: Settings, runs: Runs) -> Iterator[list[str]]:
    """Yield what is promised and late of each kind and width, over all loads and stretches."""
    for chosen in (*KINDS, "one host", "several hosts"):
        cells = []
        shares: list[str] = []
        for view in settings["runs"]["views"]:
            own = [run for (_, each), found in runs.items() if each == view for run in found]

            def sum_of(name: str, own: Iterable[Run] = own) -> float:
                return sum(run.total(name, chosen) for run in own)

            jobs, promised = sum_of("jobs"), sum_of("admitted")
            all_jobs = sum(run.total("jobs") for run in own)
            all_work = sum(run.total("work") for run in own)
            shares = [f"{100 * jobs / all_jobs:.0f}", f"{100 * sum_of('work') / all_work:.0f}"]
            late = 100 * sum_of("late") / promised if promised else 0.0
            cells.append(f"{100 * promised / jobs if jobs else 0:.1f}, {late:.2f}")
        yield [chosen, *shares, *cells]


def whole_rows(settings: Settings, out: Path, workers: int) -> Iterator[list[str]]:
    """Yield what binding costs where each job has its hosts for itself."""
    logs = {name: told for name, told in settings["whole_hosts"].items() if told}
    ways = [(scheduler, bound) for scheduler in ("conservative", "qops") for bound in (False, True)]
    cases = [
        WholeCase(name, stretch, *way)
        for name, (*_, count) in logs.items()
        for stretch in range(count)
        for way in ways
    ]
    kept = KeptRuns(out / "whole", WholeRun, logs)
    work = WholeHosts(settings)
    found = run_cases(work, cases, workers=workers, kept=kept, on_progress=told(40))
    values: dict[Any, Sequence[float]] = {}
    for name in logs:
        for scheduler, metric in (("conservative", "wait"), ("qops", "refused")):
            both = [
                [
                    float(getattr(run, metric))
                    for case, run in found.items()
                    if (case.log, case.scheduler, case.bound) == (name, scheduler, bound)
                ]
                for bound in (True, False)
            ]
            less = (changes if metric == "wait" else differences)(*both)
            values[name, scheduler] = less
            unit = "wait (s)" if metric == "wait" else "refused (%)"
            cells = [text(each) for each in reversed(both)]
            if metric == "wait":
                change = mean_interval(less).as_changes() if less else None
                cells.append("-" if change is None else f"{change.text(sign='+')} %")
            else:
                cells.append(f"{text(less, '+')} points")
            yield [f"{name}, {len(less)} stretches", f"`{scheduler}`, {unit}", *cells]


def left_out(settings: Settings, directory: Path) -> Iterator[str]:
    """Yield what the import left out and what is not taken, and when the first job shares."""
    imported = import_log(settings, directory)
    log = settings["log"]
    jobs = imported.workload.jobs
    wide = sum(job.processors > log["widest"] for job in jobs)
    lengthy = sum(not is_narrow(job, log) for job in jobs) - wide
    yield from ("```", imported.said.strip(), "```", "")
    yield (
        f"Of {len(jobs):,} jobs, {wide:,} are on more than {log['widest']} hosts and not taken, "
        f"nor are {lengthy:,} others that may run for more than {log['longest'] / 3600:.0f} hours."
    )
    firsts = []
    shared = []
    for part in stretches_of(imported.workload, log):
        demand = demand_of(part, settings["machine"])
        hosts = np.array([job.processors for job in part.jobs])
        shares = (demand.amounts[:, :2].max(axis=1) < hosts - 1e-9).nonzero()[0]
        firsts.append(int(shares[0]) + 1)
        shared.append(100 * len(shares) / len(part.jobs))
    yield (
        f"Of the jobs of a stretch, {text(shared)} % leave cores and memory of their hosts to "
        f"others; the first of these is job number {min(firsts)} to {max(firsts)}."
    )


def tables(settings: Settings, runs: Runs, out: Path, workers: int, directory: Path) -> str:
    """Return all tables."""
    heads = ["load", "planned with", *METRICS]
    late = [*BROKEN, "late jobs", "by at most (h)"]
    views = [f"{VIEWS[view]}: promised, late (%)" for view in settings["runs"]["views"]]
    parts = [
        left_out(settings, directory),
        machine_lines(settings, runs),
        markdown_table([*heads, *late], list(promise_rows(settings, runs))),
        markdown_table(
            ["load", "less nodes", *(name.replace("(%)", "(points)") for name in METRICS)],
            list(difference_rows(settings, runs)),
        ),
        markdown_table(
            ["binds, or width", "of the jobs (%)", "of the work (%)", *views],
            list(group_rows(settings, runs)),
        ),
        markdown_table(
            ["hosts of one's own", "what", "counted", "bound", "bound against counted"],
            list(whole_rows(settings, out, workers)),
        ),
    ]
    return "\n\n".join("\n".join(part) for part in parts)


def draw(settings: Settings, runs: Runs, directory: Path) -> None:
    """Draw broken promises and kept jobs by load."""
    loads = settings["runs"]["loads"]
    panels: dict[str, Metric] = {
        "promises that end late (%)": BROKEN["late (% of the promises)"],
        "jobs promised and in time (%)": METRICS["kept jobs (%)"],
        "work promised and in time (%)": METRICS["kept work (%)"],
    }
    with picture(directory / "shared_nodes.png", 10, 3.6) as figure:
        figure.set_layout_engine("constrained")
        for axes, (label, metric) in zip(figure.subplots(1, 3), panels.items(), strict=True):
            for place, view in enumerate(settings["runs"]["views"]):
                means = [mean_interval([metric(x) for x in runs[load, view]]) for load in loads]
                at = [load + 0.008 * (place - 1.5) for load in loads]
                ends = [mean.known or (mean.mean, mean.mean) for mean in means]
                reach = [
                    [max(0.0, mean.mean - low) for mean, (low, _) in zip(means, ends, strict=True)],
                    [max(0.0, high - mean.mean) for mean, (_, high) in zip(means, ends, strict=True)],
                ]
                axes.errorbar(
                    at,
                    [mean.mean for mean in means],
                    yerr=reach,
                    label=VIEWS[view],
                    color=COLORS[place],
                    marker=MARKERS[place],
                    capsize=2,
                    linewidth=1.2,
                )
            axes.set_title(label, fontsize=10)
            axes.set_xticks(loads)
            axes.set_xlabel("offered load")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, title="planned with")


def main() -> None:
    parser = arguments(__file__, __doc__)
    parser.add_argument("--draw", type=Path, metavar="DIR", help="directory for the picture")
    asked = parser.parse_args()
    settings = settings_of(__file__, quick=asked.quick)
    with TemporaryDirectory() as directory:
        runs = all_runs(settings, asked.out, asked.workers, directory)
        page = tables(settings, runs, asked.out, asked.workers, Path(directory))
    print_or_put(page + "\n", asked.write)
    if asked.draw is not None:
        draw(settings, runs, asked.draw)


if __name__ == "__main__":
    run_main(main)
