"""The best possible beside schedulers, and what QoPS lacks split in parts: runs and tables."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from statistics import mean, median

import msgspec
import numpy as np

from qops_batsim.experiments import (
    DeadlineRuns,
    KeptRuns,
    Scenario,
    checked_outcomes,
    find_trace,
    markdown_table,
    trace_digest,
)
from qops_batsim.optimum import Limits, best_possible
from qops_batsim.optimum.problem import NOT_CHOSEN, OBJECTIVES, problem_of, worth_of
from qops_batsim.platform import make_cluster
from qops_batsim.scheduling import make_scheduler
from qops_batsim.workload import Workload, read_trace
from studies.how_good.feasibility import (
    ExactFeasibility,
    first_come_with_hindsight,
    online_admission,
)
from studies.shared import Settings


class Case(msgspec.Struct, frozen=True):
    """A workload, for what it was searched and how long (deterministic time), with which seed."""

    scenario: Scenario
    objective: str
    time: float
    seed: int = 1


class Result(msgspec.Struct, frozen=True):
    """What came out, in % of all; ``both``: the best schedule's jobs and work."""

    jobs: int
    seconds: float
    bound: float
    checked: float
    best: float
    proof: str
    schedulers: dict[str, float]
    both: tuple[float, float]


class Split(msgspec.Struct, frozen=True):
    """Admitted jobs by line, from QoPS to the bound, and how questions were answered."""

    jobs: int
    qops: int
    exact: int
    hindsight: int
    best: int
    bound: int
    found: int
    exact_open: int
    hindsight_open: int


class Study:
    """The cases of a directory."""

    def __init__(self, settings: Settings, out: Path) -> None:
        self.settings, self.time = settings, float(settings["time"])
        logs = settings["logs"]
        self._files = {log: find_trace(it["file"], Path()) for log, it in logs.items()}
        digests = {log: trace_digest(self._files[log], logs[log]["processors"]) for log in logs}
        self.kept = KeptRuns(out / "best", Result, digests)
        self.splits = KeptRuns(out / "split", Split, digests)
        self._runs: DeadlineRuns | None = None

    def scenarios(self) -> Iterator[Scenario]:
        """Yield what is searched for the best possible, the most wanted first."""
        return self._scenarios(self.settings["windows"], self.settings["jobs"])

    def short_scenarios(self) -> Iterator[Scenario]:
        """Yield the short windows in which what QoPS lacks is split, likewise."""
        return self._scenarios(self.settings["split_windows"], self.settings["fewer"])

    def _scenarios(self, windows: int, jobs: int) -> Iterator[Scenario]:
        it = self.settings
        axes = range(windows), it["loads"], it["stringencies"], it["logs"].items()
        for window, load, stringency, (log, told) in product(*axes):
            skip = told["skips"][window]
            case = Scenario(log=log, skip=skip, first=jobs, load=load, stringency=stringency)
            yield case.canonical()

    def workload(self, scenario: Scenario) -> Workload:
        """Return a scenario's workload."""
        if self._runs is None:
            it = self.settings
            self._runs = DeadlineRuns(
                {
                    log: read_trace(
                        self._files[log],
                        processors=told["processors"],
                        first=max(told["skips"]) + it["jobs"],
                    ).workload
                    for log, told in it["logs"].items()
                }
            )
        return self._runs.workload(scenario)

    def case(self, scenario: Scenario, objective: str) -> Case:
        """Return what is searched for a scenario."""
        return Case(scenario, objective, self.time)

    def search(self) -> None:
        """Search for the best schedules that are missing."""
        for scenario, objective in product(self.scenarios(), OBJECTIVES):
            case = self.case(scenario, objective)
            if self.kept.find(case) is None:
                result = measured(self.workload(scenario), case)
                self.kept.add(case, result)
                tell(case, result)

    def split(self) -> None:
        """Split what QoPS lacks in the short windows that are missing."""
        for scenario in self.short_scenarios():
            if self.splits.find(scenario) is None:
                found = lines(self.workload(scenario), self.time)
                self.splits.add(scenario, found)
                print(*described(scenario), found, file=sys.stderr, flush=True)


def restarts(study: Study) -> str:
    """Return how many jobs those admit in the windows of the split that take starts back."""
    admitted: Counter[str] = Counter()
    for scenario in study.short_scenarios():
        workload = study.workload(scenario)
        admitted["jobs"] += len(workload.jobs)
        for name, (scheduler, options) in study.settings["restarting"].items():
            module = make_scheduler(scheduler, options)
            found, _ = checked_outcomes(workload, make_cluster(workload.processors), module, name)
            admitted[name] += int((~found.refused).sum())
    return "; ".join(f"{name} {count:,}" for name, count in admitted.items())


def revocable_starts(study: Study) -> str:
    """Return a table of what taking starts back gains in the windows of the split."""
    found: dict[float, Counter[str]] = {load: Counter() for load in sorted(study.settings["loads"])}
    for scenario in study.short_scenarios():
        problem, counts = problem_of(study.workload(scenario)), found[scenario.load]
        fixed, revocable = (online_admission(problem, takes_back=each) for each in (False, True))
        admitted = [int((each.starts != NOT_CHOSEN).sum()) for each in (fixed, revocable)]
        counts["jobs"] += len(problem.workload.jobs)
        counts["irrevocable"] += admitted[0]
        counts["taken back"] += admitted[1]
        counts["runs taken back"] += len(revocable.lost)
        counts["windows with more"] += admitted[1] > admitted[0]
        counts["with fewer"] += admitted[1] < admitted[0]
        counts["open"] += fixed.open + revocable.open
    heading = ["jobs", "irrevocable", "taken back", "runs taken back", "windows with more"]
    heading += ["with fewer", "open"]
    counted = {f"{load:.1f}": counts for load, counts in found.items()}
    counted["all"] = sum(found.values(), Counter())
    rows = [[load, *(f"{each[name]:,}" for name in heading)] for load, each in counted.items()]
    return "\n".join(markdown_table(["load", *heading], rows))


def measured(workload: Workload, case: Case) -> Result:
    """Search for bound and schedule of a workload."""
    began = time.perf_counter()
    limits = Limits(seconds=case.time, by_clock=False, seed=case.seed)
    (found,) = best_possible(workload, [case.objective], limits)
    scale = 100 / found.total
    admitted = np.array([job.id in found.starts for job in workload.jobs])
    return Result(
        jobs=len(workload.jobs),
        seconds=time.perf_counter() - began,
        bound=scale * found.bound,
        checked=scale * found.checked_bound,
        best=scale * found.best_known,
        proof=found.proof,
        schedulers={name: scale * value for name, value in found.schedulers.items()},
        both=shares(worth_of(workload, "work"), admitted),
    )


def shares(work: np.ndarray, admitted: np.ndarray) -> tuple[float, float]:
    """Return admitted jobs and work in %."""
    return 100 * float(admitted.mean()), 100 * float(work[admitted].sum() / work.sum())


def lines(workload: Workload, limit: float) -> Split:
    """Return what each line from QoPS to the clairvoyant admits."""
    scheduler = ExactFeasibility()
    module = make_scheduler(scheduler)
    machine = make_cluster(workload.processors)
    outcomes, _ = checked_outcomes(workload, machine, module, "exact feasibility")
    hindsight = first_come_with_hindsight(problem_of(workload))
    (best,) = best_possible(workload, ["jobs"], Limits(seconds=limit, by_clock=False))
    return Split(
        jobs=len(workload.jobs),
        qops=round(best.schedulers["qops"]),
        exact=int((~outcomes.refused).sum()),
        hindsight=int((hindsight.starts != NOT_CHOSEN).sum()),
        best=round(best.best_known),
        bound=round(best.bound),
        found=scheduler.solver_counts.found,
        exact_open=scheduler.solver_counts.open,
        hindsight_open=hindsight.open,
    )


def tell(case: Case, result: Result) -> None:
    """Print a case as soon as it is done."""
    figures = (result.schedulers["qops"], result.best, result.bound)
    known = " ".join(f"{each:.1f}" for each in figures)
    text = f"{known} ({result.proof}) {result.seconds:.0f} s"
    print(*described(case.scenario), case.objective, text, file=sys.stderr, flush=True)


def best_tables(study: Study) -> list[str]:
    """Return what is known as Markdown: a table an objective."""
    text = []
    for objective in OBJECTIVES:
        rows, gaps = [], []
        for scenario in study.scenarios():
            found = study.kept.find(study.case(scenario, objective))
            if found is None:
                continue
            known = [f"{found.schedulers[name]:.1f}" for name in ("easy", "msb", "mrt", "qops")]
            gaps.append(found.bound - found.best)
            limits = [f"{value:.1f}" for value in (found.best, found.bound, found.checked)]
            rows.append([*described(scenario), *known, *limits, f"{gaps[-1]:.2f}"])
        heading = ["log", "after", "S", "load", "easy", "msb", "mrt", "qops"]
        heading += ["best known", "bound", "checked", "gap"]
        text += [f"### {TITLES[objective]}", "", *markdown_table(heading, rows), ""]
        if gaps:
            end = f"{len(gaps)} cases; median gap {median(gaps):.2f} points"
            text += [f"{end}, largest {max(gaps):.2f}.", ""]
    return text


TITLES = {
    "jobs": "Admitted jobs (%)",
    "work": "Admitted processor-seconds (%)",
    "charge": "QoS charges of admitted deadlines (%)",
}


def described(scenario: Scenario) -> list[str]:
    """Return the first cells of a row."""
    return [scenario.log, f"{scenario.skip:,}", f"{scenario.stringency}", f"{scenario.load:.1f}"]


PARTS = ("search", "order", "foresight", "unknown")


def split_table(study: Study) -> list[str]:
    """Return a table of what QoPS lacks: medians over windows, means over all, and ranges."""
    kept = [(each, study.splits.find(each)) for each in study.short_scenarios()]
    done = [(each, found) for each, found in kept if found is not None]
    cases: dict[tuple[str, ...], list[Split]] = {}
    for each, found in done:
        log, _, *others = described(each)
        cases.setdefault((log, *others), []).append(found)
    order = {case: tuple(reversed(case[1:])) for case in cases}
    rows = [[*case, *_parts(cases[case])] for case in sorted(cases, key=lambda case: order[case])]
    for load in sorted(study.settings["loads"]):
        some = [found for each, found in done if each.load == load]
        if some:
            rows.append(["all", "", f"{load:.1f}", *_parts(some, mean)])
    heading = ["log", "S", "load", "windows", "qops", *PARTS]
    heading += ["plans found", "open", "open with hindsight"]
    text = f"### What QoPS lacks (% of the jobs), {len(done)} windows"
    return [text, "", *markdown_table(heading, rows)]


def _parts(windows: list[Split], middle: Callable[[list[float]], float] = median) -> list[str]:
    """Return the cells of some windows."""
    steps = [
        [100 * count / each.jobs for count in (each.qops, each.exact, each.hindsight, each.best)]
        + [100 * each.bound / each.jobs]
        for each in windows
    ]
    cells = [str(len(windows)), _range([each[0] for each in steps], middle)]
    for place in range(len(PARTS)):
        cells.append(_range([each[place + 1] - each[place] for each in steps], middle, "+"))
    counts = [(each.found, each.exact_open, each.hindsight_open) for each in windows]
    return cells + [str(sum(column)) for column in zip(*counts, strict=True)]


def _range(values: list[float], middle: Callable[[list[float]], float], sign: str = "") -> str:
    """Return the middle of values and their range."""
    known = (round(each(values), 1) + 0.0 for each in (middle, min, max))
    return "{:{s}.1f} [{:{s}.1f}, {:{s}.1f}]".format(*known, s=sign)
