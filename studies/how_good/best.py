"""The best possible beside schedulers, and what QoPS lacks split in parts: runs and tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
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
    nested_interval,
    ratio_of_means,
    trace_digest,
)
from qops_batsim.optimum import Limits, best_possible
from qops_batsim.optimum.problem import NOT_CHOSEN, OBJECTIVES, problem_of, worth_of
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.traces import read_trace
from qops_batsim.workload import NeedChoices, Workload
from studies.how_good.feasibility import (
    ExactFeasibility,
    first_come_with_hindsight,
    online_admission,
)
from studies.shared import EASY, Settings, usual_need

Rules = dict[str, tuple[str, Settings]]
"""Schedulers of today with their options, by name."""

EXACT, HINDSIGHT, TAKEN = "exact feasibility", "first come with hindsight", "taking starts back"
BEST, BOUND = "clairvoyant", "bound"


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


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """What each line from QoPS to the clairvoyant admits, and how questions were answered.

    ``admitted`` are shares (%) of all jobs, work and charge, by line and objective.
    """

    jobs: int
    admitted: dict[str, dict[str, float]]
    found: int
    exact_open: int
    hindsight_open: int
    taken_open: int


class Study:
    """The cases of a directory, with deadlines from EASY's schedule or by need.

    Those by need know no stringency, so there is one.
    """

    def __init__(self, settings: Settings, out: Path, by: str = EASY) -> None:
        self.need: NeedChoices | msgspec.UnsetType = msgspec.UNSET
        self.made = ""
        if by != EASY:
            self.need, self.made, out = usual_need(by), ", deadlines by need", out / by
            settings = settings | {"stringencies": settings["stringencies"][:1]}
        self.settings, self.time = settings, float(settings["time"])
        logs = settings["logs"]
        self._files = {log: find_trace(it["file"], Path()) for log, it in logs.items()}
        digests = {log: trace_digest(self._files[log], logs[log]["processors"]) for log in logs}
        self.kept = KeptRuns(out / "best", Result, digests)
        self.splits = KeptRuns(out / "split", Split, digests)
        self._runs: DeadlineRuns | None = None

    def scenarios(self) -> Iterator[Scenario]:
        """Yield what is searched for the best possible, the most wanted first."""
        it = self.settings
        axes = range(it["windows"]), it["loads"], it["stringencies"], it["logs"]
        for window, load, stringency, log in product(*axes):
            yield self._scenario(log, window, load, stringency, it["jobs"])

    def short_scenarios(self) -> Iterator[Scenario]:
        """Yield the short windows in which what QoPS lacks is split, all stretches at first."""
        it = self.settings
        axes = it["split_loads"], it["stringencies"], range(it["split_windows"]), it["logs"]
        for load, stringency, window, log in product(*axes):
            yield self._scenario(log, window, load, stringency, it["fewer"])

    def _scenario(
        self, log: str, window: int, load: float, stringency: float, jobs: int
    ) -> Scenario:
        skip = self.settings["logs"][log]["skips"][window]
        case = Scenario(log=log, skip=skip, first=jobs, load=load, stringency=stringency)
        return msgspec.structs.replace(case, need=self.need).canonical()

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
                found = lines(self.workload(scenario), self.time, self.settings["rules"])
                self.splits.add(scenario, found)
                print(*described(scenario), found, file=sys.stderr, flush=True)


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


def lines(workload: Workload, limit: float, rules: Rules) -> Split:
    """Return what each line from QoPS to the clairvoyant admits, and each rule of today."""
    scheduler, machine = ExactFeasibility(), make_cluster(workload.processors)
    sets: dict[str, np.ndarray] = {}
    made = {name: make_scheduler(*rule) for name, rule in rules.items()}
    for name, module in {**made, EXACT: make_scheduler(scheduler)}.items():
        outcomes, _ = checked_outcomes(workload, machine, module, name)
        sets[name] = ~outcomes.refused
    problem = problem_of(workload)
    hindsight = first_come_with_hindsight(problem)
    taken = online_admission(problem, takes_back=True)
    for name, starts in ((HINDSIGHT, hindsight.starts), (TAKEN, taken.starts)):
        sets[name] = np.zeros(len(workload.jobs), np.bool_)
        sets[name][problem.places] = starts != NOT_CHOSEN
    worth = {each: worth_of(workload, each) for each in OBJECTIVES}
    admitted = {
        line: {
            each: 100 * float(value[chosen].sum() / value.sum()) for each, value in worth.items()
        }
        for line, chosen in sets.items()
    }
    limits = Limits(seconds=limit * len(OBJECTIVES), by_clock=False)
    best = best_possible(workload, OBJECTIVES, limits)
    pairs = list(zip(OBJECTIVES, best, strict=True))
    admitted[BEST] = {name: 100 * each.best_known / each.total for name, each in pairs}
    admitted[BOUND] = {name: 100 * each.bound / each.total for name, each in pairs}
    return Split(
        jobs=len(workload.jobs),
        admitted=admitted,
        found=scheduler.solver_counts.found,
        exact_open=scheduler.solver_counts.open,
        hindsight_open=hindsight.open,
        taken_open=taken.open,
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
        text += [f"### {TITLES[objective]}{study.made}", "", *markdown_table(heading, rows), ""]
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


STEPS = {
    "search": ("qops", EXACT),
    "order": (EXACT, HINDSIGHT),
    "foresight": (HINDSIGHT, BEST),
    "unknown": (BEST, BOUND),
}
"""What QoPS lacks, in parts: the lines between which they lie."""

OTHER_STEPS = {"irrevocable starts": (EXACT, TAKEN), "want of forecasting": (TAKEN, BEST)}
"""The same from exact feasibility on, where starts may be taken back."""


def split_tables(study: Study) -> list[str]:
    """Return tables of what QoPS lacks, and of what rules of today admit more.

    Intervals are over logs: their stretches, loads and stringencies are no repetitions.
    """
    found: dict[str, list[Split]] = {}
    for each in study.short_scenarios():
        split = study.splits.find(each)
        if split is not None:
            found.setdefault(each.log, []).append(split)
    logs = list(found.values())
    windows = sum(map(len, logs))
    counted = f"{windows} windows of {len(logs)} logs"
    text = [f"### What QoPS lacks, {counted}{study.made}", ""]
    text += ["Points of all jobs, work and charges, and parts of the whole gap:", ""]
    steps = STEPS | OTHER_STEPS
    rows = [["gap", *_more(logs, "qops", BOUND)]]
    rows += [[name, *_more(logs, *pair)] for name, pair in steps.items()]
    rows += [
        [f"{name}, part of the gap (%)", *_shares(logs, *pair)]
        for name, pair in steps.items()
        if name != "unknown"
    ]
    heading = [TITLES[each].split(" (")[0] for each in OBJECTIVES]
    text += [*markdown_table(["", *heading], rows), ""]
    rules = [name for name in study.settings["rules"] if name != "qops"]
    rows = [[name, *_more(logs, "qops", name)] for name in rules]
    text += ["Rules that know none of the future, less QoPS (points):", ""]
    text += [*markdown_table(["", *heading], rows), ""]
    every = [split for some in logs for split in some]
    counts = [sum(getattr(each, name) for each in every) for name in Split.__struct_fields__[2:]]
    text += ["{} plans found by the solver; open: {}, {} and {} questions.".format(*counts), ""]
    return text


def _gains(logs: list[list[Split]], low: str, high: str, what: str) -> list[list[float]]:
    """Return what a line admits more than another, by log (points)."""
    return [
        [each.admitted[high][what] - each.admitted[low][what] for each in windows]
        for windows in logs
    ]


def _more(logs: list[list[Split]], low: str, high: str) -> list[str]:
    """Return what a line admits more than another, for each objective."""
    return [nested_interval(_gains(logs, low, high, what)).text(sign="+") for what in OBJECTIVES]


def _shares(logs: list[list[Split]], low: str, high: str) -> list[str]:
    """Return what a line admits more than another, in % of the gap, for each objective."""
    cells = []
    for what in OBJECTIVES:
        own, gap = (
            [mean(each) for each in _gains(logs, *pair, what)]
            for pair in ((low, high), ("qops", BOUND))
        )
        cells.append(ratio_of_means(own, gap).text(100))
    return cells
