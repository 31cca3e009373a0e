"""Promises on shared nodes: what they cost and hold, by what is planned with (README.md).

    python studies/shared_nodes [--quick] [--workers 2] [--write studies/shared_nodes/tables.md]
        [--draw studies/shared_nodes]

Finished runs are kept, and the study goes on where it was. Logs are read from QOPS_SHARED
(default ../shared). Means are over disjoint stretches of a log, with 95 % intervals (Student).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    SHARE,
    UNLIMITED,
    Claim,
    KeptRuns,
    Limits,
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
from qops_batsim.workload import Workload, exact_estimates, subset
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
from studies.shared_nodes.mix import (
    KINDS,
    Demand,
    Imported,
    demand_of,
    import_log,
    is_narrow,
    platform_of,
    stretches_of,
    with_gpus,
)

NODES = "nodes"
VIEWS = {
    "one_number": "one number",
    "pooled": "pooled amounts",
    "whole": "whole nodes while waiting",
    NODES: "nodes",
}
"""Views of the machine, as tables name them."""

USERS, EXACT = "users", "exact"
"""What plans take for run times: the users' limits, or the run times."""

DATE_TOLERANCE = 1e-3
"""By so many seconds a promise may be missed."""


class Case(msgspec.Struct, frozen=True):
    """A run of QoPS with a view of the machine on a stretch of the log."""

    stretch: int
    load: float
    view: str
    estimates: str


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
    def imported(self) -> Imported:
        """The log."""
        return import_log(self.settings, Path(self.directory))

    @cached_property
    def stretches(self) -> list[tuple[Workload, Demand]]:
        """The stretches, with what their jobs ask for."""
        parts = stretches_of(self.imported.workload, self.settings["log"])
        return [(part, demand_of(part, self.settings["machine"])) for part in parts]

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings, "directory": self.directory}

    def __call__(self, case: Case) -> Run:
        machine, widest = self.settings["machine"], self.settings["log"]["widest"]
        workload, demand = self.stretches[case.stretch]
        hosts = demand.hosts_for(machine, case.load, 8 * widest)
        if case.estimates == EXACT:
            workload = exact_estimates(workload)
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


class WholeHosts:
    """Runs on stretches of logs of machines whose hosts are not shared."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def __call__(self, case: WholeCase) -> WholeRun:
        file, processors, jobs, _ = self.settings["whole_hosts"][case.log]
        scheduler, options, has_amounts = WAYS[case.way]
        trace = read_trace(find_trace(file, Path()), processors=processors)
        part = subset(trace.workload, skip=jobs_before(case.stretch + 1, jobs), first=jobs)
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


Runs = Mapping[tuple[float, str], list[Run]]
"""Runs of one kind of estimates by load and view, a run for each stretch."""

Metric = Callable[[Run], float]

METRICS: dict[str, Metric] = {
    "promised jobs (%)": lambda run: run.share("admitted", "jobs"),
    "promised work (%)": lambda run: run.share("admitted_work", "work"),
    "kept jobs (%)": lambda run: run.kept(),
    "kept work (%)": lambda run: run.kept(jobs=False),
}
"""What is compared with nodes."""

LATE = "late (% of the promises)"

BROKEN: dict[str, Metric] = {
    LATE: lambda run: run.share("late", "admitted"),
    "started too late (%)": lambda run: run.share("unsafe", "admitted"),
}


def all_runs(mix: Mix, out: Path, workers: int) -> dict[str, Runs]:
    """Make the runs that a directory does not hold yet; return all by estimates."""
    settings = mix.settings
    asked, log = settings["runs"], settings["log"]
    cases = [
        Case(stretch, load, view, estimates)
        for stretch in range(log["stretches"])
        for load in asked["loads"]
        for view in asked["views"]
        for estimates in asked["estimates"]
    ]
    made_of = [log, settings["machine"]]
    found = run_cases(
        mix,
        cases,
        workers=workers,
        kept=KeptRuns(out / "mix", Run, made_of),
        group_by=lambda case: case.stretch,
        on_progress=told(12),
    )
    runs: dict[str, dict[tuple[float, str], list[Run]]] = {}
    for case, run in found.items():
        own = runs.setdefault(case.estimates, {})
        own.setdefault((case.load, case.view), []).append(run)
    return dict(runs)


def text(values: Sequence[float], limits: Limits = UNLIMITED) -> str:
    """Return a mean with its interval."""
    return mean_interval(values, limits).text()


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
            shares = [*METRICS.values(), *BROKEN.values()]
            cells = [text([metric(run) for run in own], SHARE) for metric in shares]
            late = sum(run.total("late") for run in own)
            worst = max(run.worst for run in own) / 3600
            yield [f"{load:g}", VIEWS[view], *cells, f"{late:,.0f}", f"{worst:.1f}"]


def difference_rows(made: Mapping[str, Runs]) -> Iterator[list[str]]:
    """Yield differences to nodes, by estimates, load and view."""
    found = {}
    keys = [
        (estimates, load, view)
        for estimates, runs in made.items()
        for load, view in runs
        if view != NODES
    ]
    for estimates, load, view in keys:
        runs = made[estimates]
        for name, metric in METRICS.items():
            pairs = ([metric(run) for run in runs[load, each]] for each in (view, NODES))
            found[estimates, load, view, name] = differences(*pairs)
    claims = judged(found, "views")
    for estimates, load, view in keys:
        own = made[estimates][load, view]
        cells = [marked(claims[estimates, load, view, name]) for name in METRICS]
        late = text([BROKEN[LATE](run) for run in own], SHARE)
        yield [estimates, f"{load:g}", VIEWS[view], *cells, late]


def group_rows(settings: Settings, runs: Runs) -> Iterator[list[str]]:
    """Yield what is promised and late of each kind and width, over all loads and stretches."""

    def total(view: str, name: str, chosen: str = "") -> float:
        own = (run for (_, each), found in runs.items() if each == view for run in found)
        return sum(run.total(name, chosen) for run in own)

    for chosen in (*KINDS, "one host", "several hosts"):
        cells = [chosen]
        for name in ("jobs", "work"):
            cells.append(f"{100 * total(NODES, name, chosen) / total(NODES, name):.0f}")
        for view in settings["runs"]["views"]:
            promised = total(view, "admitted", chosen)
            share = 100 * promised / max(1, total(view, "jobs", chosen))
            late = 100 * total(view, "late", chosen) / max(1, promised)
            cells.append(f"{share:.1f}, {late:.2f}")
        yield cells


def whole_rows(settings: Settings, out: Path, workers: int) -> Iterator[list[str]]:
    """Yield what binding costs where each job has its hosts for itself."""
    logs = {name: told for name, told in settings["whole_hosts"].items() if told}
    cases = [
        WholeCase(name, stretch, way)
        for name, (*_, count) in logs.items()
        for stretch in range(count)
        for way in WAYS
    ]
    kept = KeptRuns(out / "whole", WholeRun, logs)
    work = WholeHosts(settings)
    found = run_cases(work, cases, workers=workers, kept=kept, on_progress=told(40))
    values: dict[tuple[str, str], list[WholeRun]] = {}
    for case, run in found.items():
        values.setdefault((case.log, case.way), []).append(run)

    for (name, way), runs in values.items():
        counted = values[name, f"{way.partition(',')[0]}, counted"]
        waits = [run.wait for run in runs]
        cells = [f"{name}, {len(runs)} stretches", way, text(waits)]
        refused = [run.refused for run in runs]
        more = changes(waits, [run.wait for run in counted])
        less = differences(refused, [run.refused for run in counted])
        if way.endswith("counted"):
            cells += ["", text(refused), ""]
        else:
            cells += [f"{mean_interval(more).as_changes().text(sign='+')} %", text(refused)]
            cells += [mean_interval(less).text(sign="+")]
        yield cells


def left_out(mix: Mix) -> Iterator[str]:
    """Yield what the import left out and what is not taken, and when the first job shares."""
    log = mix.settings["log"]
    jobs = mix.imported.workload.jobs
    wide = sum(job.processors > log["widest"] for job in jobs)
    lengthy = sum(not is_narrow(job, log) for job in jobs) - wide
    yield from ("```", mix.imported.said.strip(), "```", "")
    yield (
        f"Of {len(jobs):,} jobs, {wide:,} are on more than {log['widest']} hosts and not taken, "
        f"nor are {lengthy:,} others that may run for more than {log['longest'] / 3600:.0f} hours."
    )
    firsts = []
    shared = []
    for part, demand in mix.stretches:
        hosts = np.array([job.processors for job in part.jobs])
        shares = (demand.amounts[:, :2].max(axis=1) < hosts - 1e-9).nonzero()[0]
        firsts.append(int(shares[0]) + 1)
        shared.append(100 * len(shares) / len(part.jobs))
    yield (
        f"Of the jobs of a stretch, {text(shared, SHARE)} % leave cores and memory of their hosts "
        f"to others; the first of these is job number {min(firsts)} to {max(firsts)}."
    )


def in_points(name: str) -> str:
    """Return the name of a difference of shares."""
    return name.replace("(%)", "(points)")


def tables(mix: Mix, made: Mapping[str, Runs], out: Path, workers: int) -> str:
    """Return all tables."""
    settings = mix.settings
    runs = made[USERS]
    heads = ["load", "planned with", *METRICS]
    late = [*BROKEN, "late jobs", "by at most (h)"]
    views = [f"{VIEWS[view]}: promised, late (%)" for view in settings["runs"]["views"]]
    parts = [
        left_out(mix),
        machine_lines(settings, runs),
        markdown_table([*heads, *late], list(promise_rows(settings, runs))),
        markdown_table(
            ["estimates", "load", "less nodes", *map(in_points, METRICS), LATE],
            list(difference_rows(made)),
        ),
        markdown_table(
            ["binds, or width", "of the jobs (%)", "of the work (%)", *views],
            list(group_rows(settings, runs)),
        ),
        markdown_table(
            ["hosts of one's own", "planned", "wait (s)", "change", "refused (%)", "points"],
            list(whole_rows(settings, out, workers)),
        ),
    ]
    return "\n\n".join("\n".join(part) for part in parts)


def draw(settings: Settings, runs: Runs, directory: Path) -> None:
    """Draw broken promises and kept jobs by load."""
    loads = settings["runs"]["loads"]
    panels: dict[str, Metric] = {
        "promises that end late (%)": BROKEN[LATE],
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
                    [
                        max(0.0, high - mean.mean)
                        for mean, (_, high) in zip(means, ends, strict=True)
                    ],
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
        mix = Mix(settings, directory)
        made = all_runs(mix, asked.out, asked.workers)
        page = tables(mix, made, asked.out, asked.workers)
    print_or_put(page + "\n", asked.write)
    if asked.draw is not None:
        draw(settings, made[USERS], asked.draw)


if __name__ == "__main__":
    run_main(main)
