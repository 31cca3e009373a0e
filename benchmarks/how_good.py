"""How far QoPS is from the best possible: the tables of docs/how-good-is-qops.md.

Stretches of 500 jobs of three logs, loads by duplication, S = 0.2 and 0.5. Cases are made in the
order window, log, S, load, and each is kept as soon as it is done, so that the study can be
interrupted and continued. The logs are read from QOPS_SHARED (default ../shared).

    python benchmarks/how_good.py run --out out/how-good [--windows 1] [--time 12]
    python benchmarks/how_good.py between --out out/how-good
    python benchmarks/how_good.py table --out out/how-good [--write docs/how-good-is-qops.md]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
from tables_in_page import print_or_put

from qops_batsim.experiments.deadline_runs import DeadlineRuns, Scenario, checked_outcomes
from qops_batsim.experiments.kept import KeptRuns
from qops_batsim.experiments.traces import find_trace, trace_digest
from qops_batsim.optimum.best import Limits, best_possible
from qops_batsim.optimum.between import ExactFeasibility, first_come_with_hindsight
from qops_batsim.optimum.budget import Budget
from qops_batsim.optimum.problem import NOT_CHOSEN, problem_of
from qops_batsim.optimum.worth import worth_of
from qops_batsim.papers.report import markdown_table
from qops_batsim.platform.generate import make_cluster
from qops_batsim.workload.model import Workload
from qops_batsim.workload.traces import read_trace

LOGS = {
    "KTH": ("KTH-SP2-1996-2.swf.gz", 100, (5000, 15000, 10000)),
    "SDSC": ("SDSC-SP2-1998-rebuilt.swf.gz", 128, (5000, 25000, 45000)),
    "CTC": ("CTC-SP2-1996-rebuilt.swf.gz", 338, (20000, 5000, 50000)),
}
"""File, processors, and jobs before each window: others than those that chose defaults."""

JOBS = 500
LOADS = (1.0, 1.6, 1.3)
STRINGENCIES = (0.2, 0.5)
MEASURED = ("jobs", "work")


class Case(msgspec.Struct, frozen=True):
    """A workload, how long it was searched (deterministic time), and with which seed."""

    scenario: Scenario
    time: float
    seed: int = 1


class Figures(msgspec.Struct, frozen=True):
    """What came out for one objective, in % of all; ``both``: the best schedule's jobs and work."""

    bound: float
    checked: float
    best: float
    proof: str
    schedulers: dict[str, float]
    both: tuple[float, float] | None = None


class Result(msgspec.Struct, frozen=True):
    """A case: jobs, seconds that it took, and figures by objective."""

    jobs: int
    seconds: float
    objectives: dict[str, Figures]


class Between(msgspec.Struct, frozen=True):
    """The two lines between: admitted jobs and work in %, and questions that stayed open."""

    exact: tuple[float, float]
    hindsight: tuple[float, float]
    exact_found: int
    exact_open: int
    hindsight_open: int


def scenarios(windows: int) -> Iterator[Scenario]:
    """Yield what is to be measured, the most wanted first."""
    for window, load, stringency, log in product(range(windows), LOADS, STRINGENCIES, LOGS):
        skip = LOGS[log][2][window]
        yield Scenario(log=log, skip=skip, first=JOBS, load=load, stringency=stringency)


class Study:
    """The cases of a directory."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.time, self.windows = arguments.time, arguments.windows
        files = {log: find_trace(file, Path()) for log, (file, _, _) in LOGS.items()}
        digests = {log: trace_digest(files[log], LOGS[log][1]) for log in LOGS}
        self.kept = KeptRuns(arguments.out / "best", Result, digests)
        self.between = KeptRuns(arguments.out / "between", Between, digests)
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

    def cases(self) -> list[Case]:
        """Return all cases, those at load 1 once."""
        return [Case(each.canonical(), self.time) for each in scenarios(self.windows)]

    def run(self, until: str | None) -> None:
        """Make what is missing, until a time of the day (HH:MM)."""
        for case in self.cases():
            if until is not None and time.strftime("%H:%M") >= until:
                return
            if self.kept.find(case) is None:
                result = measured(self.workload(case.scenario), case)
                self.kept.add(case, result)
                tell(case.scenario, result)

    def run_between(self, until: str | None) -> None:
        """Make the lines between of all cases that are there."""
        for case in self.cases():
            if until is not None and time.strftime("%H:%M") >= until:
                return
            if self.kept.find(case) is not None and self.between.find(case.scenario) is None:
                found = lines_between(self.workload(case.scenario))
                self.between.add(case.scenario, found)
                print(case.scenario.log, case.scenario.load, case.scenario.stringency, found)


def measured(workload: Workload, case: Case) -> Result:
    """Search for bounds and schedules of a workload."""
    began = time.perf_counter()
    limits = Limits(seconds=case.time, by_clock=False, seed=case.seed)
    work, figures = worth_of(workload, "work"), {}
    for each in best_possible(workload, MEASURED, limits):
        scale = 100 / each.total
        admitted = np.array([job.id in each.starts for job in workload.jobs])
        figures[each.objective] = Figures(
            scale * each.bound,
            scale * each.checked_bound,
            scale * each.best_known,
            each.proof,
            {name: scale * value for name, value in each.schedulers.items()},
            shares(work, admitted),
        )
    return Result(len(workload.jobs), time.perf_counter() - began, figures)


def shares(work: np.ndarray, admitted: np.ndarray) -> tuple[float, float]:
    """Return admitted jobs and work in %."""
    return 100 * float(admitted.mean()), 100 * float(work[admitted].sum() / work.sum())


def lines_between(workload: Workload) -> Between:
    """Return what the two lines between admit."""
    problem = problem_of(workload)
    work = worth_of(workload, "work")
    module = ExactFeasibility()
    machine = make_cluster(workload.processors)
    outcomes, _ = checked_outcomes(workload, machine, module, "exact feasibility")
    hindsight = first_come_with_hindsight(problem, Budget(1e9, False))
    chosen = np.zeros(len(work), np.bool_)
    chosen[problem.places[hindsight.starts != NOT_CHOSEN]] = True

    answers = module.answers
    exact = shares(work, ~outcomes.refused)
    return Between(exact, shares(work, chosen), answers.found, answers.open, hindsight.open)


def tell(scenario: Scenario, result: Result) -> None:
    """Print a case as soon as it is done."""
    parts = [f"{scenario.log} +{scenario.skip} load {scenario.load} S {scenario.stringency}"]
    for name, each in result.objectives.items():
        qops = each.schedulers["qops"]
        parts.append(f"{name} {qops:.1f} {each.best:.1f} {each.bound:.1f} ({each.proof})")
    print(", ".join(parts), f"{result.seconds:.0f} s", flush=True)


def tables(study: Study) -> list[str]:
    """Return what is known as Markdown: a table an objective, then the lines between."""
    cases = [(case.scenario, study.kept.find(case)) for case in study.cases()]
    done = [(scenario, found) for scenario, found in cases if found is not None]
    lines = [f"{len(done)} of {len(cases)} cases are finished."]
    for objective in MEASURED:
        rows = []
        for scenario, found in done:
            each = found.objectives[objective]
            known = [f"{each.schedulers[name]:.1f}" for name in ("easy", "msb", "mrt", "qops")]
            rows.append(
                [
                    *described(scenario),
                    *known,
                    f"{each.best:.1f}",
                    f"{each.bound:.1f}",
                    f"{each.checked:.1f}",
                    f"{each.bound - each.best:.2f}",
                ]
            )
        gaps = [
            found.objectives[objective].bound - found.objectives[objective].best
            for _, found in done
        ]
        heading = ["log", "after", "S", "load", "easy", "msb", "mrt", "qops"]
        heading += ["best known", "bound", "checked", "gap"]
        lines += ["", f"### {TITLES[objective]}", "", *markdown_table(heading, rows), ""]
        if gaps:
            lines.append(f"Median gap {median(gaps):.2f} points, largest {max(gaps):.2f}.")
    return lines + split(study, done)


TITLES = {
    "jobs": "Admitted jobs (%)",
    "work": "Admitted processor-seconds (%)",
}


def described(scenario: Scenario) -> list[str]:
    """Return the first cells of a row."""
    return [scenario.log, f"{scenario.skip:,}", f"{scenario.stringency}", f"{scenario.load:.1f}"]


def split(study: Study, done: list[tuple[Scenario, Result]]) -> list[str]:
    """Return a table of what QoPS lacks, by part."""
    rows = []
    for scenario, found in done:
        lines = study.between.find(scenario)
        if lines is None:
            continue
        jobs = found.objectives["jobs"]
        steps = [jobs.schedulers["qops"], lines.exact[0], lines.hindsight[0], jobs.best]
        parts = [f"{round(later - earlier, 1) + 0.0:+.1f}" for earlier, later in pairwise(steps)]
        unproven = jobs.bound - jobs.best
        asked = f"{lines.exact_found} found, {lines.exact_open} open"
        rows.append(
            [
                *described(scenario),
                f"{steps[0]:.1f}",
                *parts,
                f"{unproven:+.1f}",
                asked,
                str(lines.hindsight_open),
            ]
        )
    heading = ["log", "after", "S", "load", "qops", "search", "order", "foresight", "unknown"]
    heading += ["solver's answers", "open with hindsight"]
    return ["", "### What QoPS lacks (% of the jobs)", "", *markdown_table(heading, rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["run", "between", "table"])
    parser.add_argument("--out", type=Path, default=Path("out/how-good"))
    parser.add_argument("--time", type=float, default=12.0, help="deterministic time for a case")
    parser.add_argument("--windows", type=int, default=1, choices=[1, 2, 3])
    parser.add_argument("--until", help="begin no case after this time of the day (HH:MM)")
    parser.add_argument("--write", type=Path, help="document to put the tables into")
    arguments = parser.parse_args()
    study = Study(arguments)
    if arguments.what == "run":
        study.run(arguments.until)
    elif arguments.what == "between":
        study.run_between(arguments.until)
    else:
        print_or_put("\n".join(tables(study)) + "\n", arguments.write)


if __name__ == "__main__":
    main()
