"""The cases of Islam et al. (2003)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Literal

import msgspec

from qops_batsim.experiments.deadline_runs import BLIND, DeadlineCase, Scenario
from qops_batsim.papers.islam2003 import numbers as paper
from qops_batsim.papers.islam2003.numbers import Log, Method, Setting

Rule = Literal["run-time", "turnaround"]

RULES: dict[Rule, str] = {"run-time": "text", "turnaround": "slides"}
"""The artificial deadlines, with where they are from."""

ADMISSION = ("qops", "msb", "mrt")
REFERENCES = ("easy", "conservative")

SETTINGS: dict[str, tuple[tuple[str, Any], ...]] = {"conservative": (("reserve", "processors"),)}
"""Options of schedulers that are not their defaults."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a log on a machine: the file's name, processors, and jobs to leave out."""

    file: str
    processors: int
    skip: int = 0
    first: int = paper.JOBS

    @property
    def name(self) -> str:
        """A name for reports."""
        log = self.file.partition("-")[0]
        window = f", from job {self.skip + 1:,}" if self.skip else ""
        return f"{log} {self.processors}{window}"


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler with options: one of the ways in which the paper may be read."""

    name: str
    scheduler: str
    settings: tuple[tuple[str, Any], ...] = ()


class PackedCase(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler on a synthetic packed schedule (section 4.1); ``laxity`` is the paper's r."""

    scheduler: str
    laxity: float
    seed: int


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated.

    ``sources`` are those of the figures; ``readings`` are compared on ``reading_sources`` at
    ``reading_loads``, with deadlines for all jobs and S = 0.2. ``windows`` are stretches of logs
    that did not choose any default; each has ``window_seeds``. Packed schedules have the
    ``laxities`` and the ``seeds``.
    """

    sources: Mapping[Log, Source]
    loads: tuple[float, ...]
    seeds: tuple[int, ...]
    relaxations: tuple[float, ...] = paper.RELAXATIONS
    reading_sources: tuple[Source, ...] = ()
    reading_loads: tuple[float, ...] = ()
    readings: tuple[Reading, ...] = ()
    windows: tuple[Source, ...] = ()
    window_loads: tuple[float, ...] = ()
    window_seeds: tuple[int, ...] = ()
    laxities: tuple[float, ...] = ()

    def all_sources(self) -> list[Source]:
        """Return every stretch of a log, each once."""
        found = (*self.sources.values(), *self.reading_sources, *self.windows)
        return list(dict.fromkeys(found))

    def cases(self) -> list[DeadlineCase]:
        """Return every case, each once: those of one workload one after the other."""
        found = {case.canonical(): None for case in (*self._figure_cases(), *self._other_cases())}
        own = {source.name for source in self.sources.values()}
        return sorted(found, key=lambda case: (case.scenario.log not in own, *_order(case)))

    def admittance_scenarios(self) -> list[Scenario]:
        """Return the workloads of the figures of admittance where all jobs have deadlines."""
        return [
            scenario(self.sources[shown.log], shown.method, setting, load, seed)
            for shown in paper.FIGURES
            if is_bounded(shown)
            for setting, load, seed in product(shown.settings, self.loads, self.seeds)
        ]

    def packed_cases(self) -> list[PackedCase]:
        """Return the cases of packed schedules."""
        return [
            PackedCase(scheduler=scheduler, laxity=laxity, seed=seed)
            for laxity in self.laxities
            for seed in self.seeds
            for scheduler in ADMISSION
        ]

    def _figure_cases(self) -> Iterator[DeadlineCase]:
        for shown in paper.FIGURES:
            for load in self.loads:
                for seed in self.seeds:
                    for setting in shown.settings:
                        yield from self._of_figure(shown, setting, load, seed)

    def _of_figure(
        self, shown: paper.Shown, setting: Setting, load: float, seed: int
    ) -> Iterator[DeadlineCase]:
        for rule in RULES if shown.mixed else ("run-time",):
            found = scenario(self.sources[shown.log], shown.method, setting, load, seed, rule)
            if shown.kind == "relaxation":
                for factor in self.relaxations:
                    relaxed = msgspec.structs.replace(found, relaxation=factor)
                    yield case_of(relaxed, "qops")
                continue
            for scheduler in (*ADMISSION, *REFERENCES):
                yield case_of(found, scheduler)

    def _other_cases(self) -> Iterator[DeadlineCase]:
        for source in self.reading_sources:
            for load in self.reading_loads:
                for seed in self.seeds:
                    found = scenario(source, "duplication", (0.2, 1.0), load, seed)
                    yield from (
                        case_of(found, each.scheduler, each.settings) for each in self.readings
                    )
        for source in self.windows:
            for load in self.window_loads:
                for seed in self.window_seeds:
                    found = scenario(source, "duplication", (0.2, 1.0), load, seed)
                    yield from (case_of(found, name) for name in ADMISSION)
                    yield case_of(found, "qops", (("order", "earliest_deadline"),))


def is_bounded(shown: paper.Shown) -> bool:
    """Return whether a figure's numbers have bounds: unadmitted jobs where all have deadlines."""
    return shown.kind == "admittance" and not shown.mixed


def scenario(
    source: Source,
    method: Method,
    setting: Setting,
    load: float,
    seed: int,
    rule: Rule | str = "run-time",
) -> Scenario:
    """Return a deadline workload; what it skips is left out of its log already.

    At load 1 both methods give the same one.
    """
    stringency, share = setting
    return Scenario(
        log=source.name,
        first=source.first,
        load=load,
        method=method if load > 1 else "duplication",
        stringency=stringency,
        share=share,
        artificial=rule,
        relaxation=paper.RELAXATIONS[0],
        seed=seed,
    )


def case_of(
    found: Scenario, scheduler: str, settings: tuple[tuple[str, Any], ...] | None = None
) -> DeadlineCase:
    """Return the run of a scheduler; that of one which does not look at deadlines is of any."""
    if scheduler in BLIND:
        found = msgspec.structs.replace(
            found, stringency=0.2, artificial="run-time", relaxation=paper.RELAXATIONS[0]
        )
    chosen = SETTINGS.get(scheduler, ()) if settings is None else settings
    return DeadlineCase(scenario=found, scheduler=scheduler, settings=chosen)


def _order(case: DeadlineCase) -> tuple[Any, ...]:
    """Sort by workload before deadlines, the longest first, then by what deadlines are of."""
    it = case.scenario
    workload = -it.load, it.method, it.log, it.without_deadlines().seed
    return *workload, it.seed, it.share, it.stringency, it.artificial, it.relaxation, case.scheduler
