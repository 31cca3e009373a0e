"""How far QoPS is from the best possible: the tables of docs/how-good-is-qops.md.

Stretches of 500 jobs of three logs, loads by duplication, S = 0.2 and 0.5; of 100 jobs where what
QoPS lacks is split. Cases are made in the order window, load, S, log, and each is kept as soon as
it is done, so that the study can be interrupted and continued. The logs are read from QOPS_SHARED
(default ../shared).

    python benchmarks/how_good.py run --out out/how-good [--windows 1] [--time 6]
    python benchmarks/how_good.py split --out out/how-good --windows 5
    python benchmarks/how_good.py restarts --windows 5
    python benchmarks/how_good.py starts --windows 5
    python benchmarks/how_good.py table --out out/how-good [--write docs/how-good-is-qops.md]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from statistics import mean, median

import msgspec
import numpy as np
from feasibility import (
    ExactFeasibility,
    first_come_with_hindsight,
    online_admission,
)
from tables_in_page import print_or_put

from qops_batsim.experiments.deadline_runs import DeadlineRuns, Scenario, checked_outcomes
from qops_batsim.experiments.pool import KeptRuns
from qops_batsim.experiments.report_table import markdown_table
from qops_batsim.experiments.traces import find_trace, trace_digest
from qops_batsim.optimum.best import Limits, best_possible
from qops_batsim.optimum.problem import NOT_CHOSEN, OBJECTIVES, problem_of, worth_of
from qops_batsim.platform.generate import make_cluster
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload.model import Workload
from qops_batsim.workload.traces import read_trace

LOGS = {
    "KTH": ("KTH-SP2-1996-2.swf.gz", 100, (5000, 15000, 10000, 20000, 25000)),
    "SDSC": ("SDSC-SP2-1998-rebuilt.swf.gz", 128, (5000, 25000, 45000, 15000, 35000)),
    "CTC": ("CTC-SP2-1996-rebuilt.swf.gz", 338, (20000, 5000, 50000, 35000, 65000)),
}
"""File, processors, and jobs before each window: others than those that chose defaults."""

JOBS, FEWER = 500, 100
"""In a window, and in one of the split."""

LOADS = (1.0, 1.6, 1.3)
STRINGENCIES = (0.2, 0.5)


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


def scenarios(windows: int, jobs: int = JOBS) -> Iterator[Scenario]:
    """Yield what is to be measured, the most wanted first."""
    for window, load, stringency, log in product(range(windows), LOADS, STRINGENCIES, LOGS):
        skip = LOGS[log][2][window]
        case = Scenario(log=log, skip=skip, first=jobs, load=load, stringency=stringency)
        yield case.canonical()


class Study:
    """The cases of a directory."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.time, self.windows = arguments.time, arguments.windows
        files = {log: find_trace(file, Path()) for log, (file, _, _) in LOGS.items()}
        digests = {log: trace_digest(files[log], LOGS[log][1]) for log in LOGS}
        self.kept = KeptRuns(arguments.out / "best", Result, digests)
        self.split = KeptRuns(arguments.out / "split", Split, digests)
        self._files = files
        self._runs: DeadlineRuns | None = None

    def workload(self, scenario: Scenario) -> Workload:
        """Return a scenario's workload."""
        if self._runs is None:
            longest = {log: max(skips) + JOBS for log, (_, _, skips) in LOGS.items()}
            self._runs = DeadlineRuns(
                {
                    log: read_trace(path, processors=LOGS[log][1], first=longest[log]).workload
                    for log, path in self._files.items()
                }
            )
        return self._runs.workload(scenario)

    def case(self, scenario: Scenario, objective: str) -> Case:
        """Return what is searched for a scenario."""
        return Case(scenario, objective, self.time)

    def run(self, until: str | None) -> None:
        """Make what is missing, until a time of the day (HH:MM)."""
        for scenario, objective in product(scenarios(self.windows), OBJECTIVES):
            if until is not None and time.strftime("%H:%M") >= until:
                return
            case = self.case(scenario, objective)
            if self.kept.find(case) is None:
                result = measured(self.workload(scenario), case)
                self.kept.add(case, result)
                tell(case, result)

    def run_split(self, until: str | None) -> None:
        """Split what QoPS lacks in short windows, likewise."""
        for scenario in scenarios(self.windows, FEWER):
            if until is not None and time.strftime("%H:%M") >= until:
                return
            if self.split.find(scenario) is None:
                found = lines(self.workload(scenario), self.time)
                self.split.add(scenario, found)
                print(*described(scenario), found, flush=True)


RESTARTING = {
    "qops": ("qops", {}),
    "foresight": ("foresight", {}),
    "fqops, kills, no tolerance": ("fqops", {"kill_and_restart": True}),
    "foresight, restarts": ("foresight", {"kill_and_restart": True}),
}


def restarts(study: Study) -> str:
    """Return how many jobs those admit in the windows of the split that take starts back."""
    admitted: Counter[str] = Counter()
    for scenario in scenarios(study.windows, FEWER):
        workload = study.workload(scenario)
        admitted["jobs"] += len(workload.jobs)
        for name, (scheduler, options) in RESTARTING.items():
            module = make_scheduler(scheduler, options)
            found, _ = checked_outcomes(workload, make_cluster(workload.processors), module, name)
            admitted[name] += int((~found.refused).sum())
    return "; ".join(f"{name} {count:,}" for name, count in admitted.items())


def revocable_starts(study: Study) -> str:
    """Return a table of what taking starts back gains in the windows of the split."""
    found: dict[float, Counter[str]] = {load: Counter() for load in sorted(LOADS)}
    for scenario in scenarios(study.windows, FEWER):
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
    module = ExactFeasibility()
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
        found=module.solver_counts.found,
        exact_open=module.solver_counts.open,
        hindsight_open=hindsight.open,
    )


def tell(case: Case, result: Result) -> None:
    """Print a case as soon as it is done."""
    figures = (result.schedulers["qops"], result.best, result.bound)
    known = " ".join(f"{each:.1f}" for each in figures)
    text = f"{known} ({result.proof}) {result.seconds:.0f} s"
    print(*described(case.scenario), case.objective, text, flush=True)


def tables(study: Study) -> list[str]:
    """Return what is known as Markdown: a table an objective, then the lines between."""
    text = []
    for objective in OBJECTIVES:
        rows, gaps = [], []
        for scenario in scenarios(study.windows):
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
    return text + split(study)


TITLES = {
    "jobs": "Admitted jobs (%)",
    "work": "Admitted processor-seconds (%)",
    "charge": "QoS charges of admitted deadlines (%)",
}


def described(scenario: Scenario) -> list[str]:
    """Return the first cells of a row."""
    return [scenario.log, f"{scenario.skip:,}", f"{scenario.stringency}", f"{scenario.load:.1f}"]


PARTS = ("search", "order", "foresight", "unknown")


def split(study: Study) -> list[str]:
    """Return a table of what QoPS lacks: medians over windows, means over all, and ranges."""
    kept = [(each, study.split.find(each)) for each in scenarios(study.windows, FEWER)]
    done = [(each, found) for each, found in kept if found is not None]
    cases: dict[tuple[str, ...], list[Split]] = {}
    for each, found in done:
        log, _, *others = described(each)
        cases.setdefault((log, *others), []).append(found)
    order = {case: tuple(reversed(case[1:])) for case in cases}
    rows = [[*case, *_parts(cases[case])] for case in sorted(cases, key=lambda case: order[case])]
    for load in sorted(LOADS):
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["run", "split", "restarts", "starts", "table"])
    parser.add_argument("--out", type=Path, default=Path("out/how-good"))
    parser.add_argument("--time", type=float, default=6.0, help="deterministic time an objective")
    parser.add_argument("--windows", type=int, default=1, choices=range(1, 6))
    parser.add_argument("--until", help="begin no case after this time of the day (HH:MM)")
    parser.add_argument("--write", type=Path, help="document to put the tables into")
    arguments = parser.parse_args()
    study = Study(arguments)
    if arguments.what == "run":
        study.run(arguments.until)
    elif arguments.what == "split":
        study.run_split(arguments.until)
    elif arguments.what == "restarts":
        print(restarts(study))
    elif arguments.what == "starts":
        print(revocable_starts(study))
    else:
        print_or_put("\n".join(tables(study)) + "\n", arguments.write)


if __name__ == "__main__":
    main()
