"""Specification of Islam et al. (2003): figures, parameters, cases, choices.

The paper shows curves only; its text tells few numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal

import msgspec

from qops_batsim.experiments import BLIND, ChangedOptions, DeadlineCase, Scenario
from qops_batsim.protocol import make_scheduler
from qops_batsim.workload import DAY
from studies.logs import (
    BATCH_PARTITION,
    WHOLE_LOG,
    jobs_before,
)
from studies.specification import read_specification

SPECIFICATION = read_specification(Path(__file__).parent)

FigureKind = Literal["admittance", "utilization", "load", "achieved", "relaxation"]
LogName = Literal["CTC", "SDSC"]
Method = Literal["duplication", "expansion"]
DeadlineSetting = tuple[float, float]
"""Stringency factor S, and share of the jobs with a deadline of their user."""


class PaperFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of the paper.

    Unadmitted jobs and processor-seconds (``admittance``), or utilization, against load; response
    time and slowdown of the non-deadline jobs against load (``load``), against utilization
    (``achieved``) or, of QoPS with several relaxation factors R, against load (``relaxation``).
    Utilization has a panel for each of two settings, all others have two quantities of one.
    """

    number: int
    kind: FigureKind
    log: LogName
    method: Method
    settings: tuple[DeadlineSetting, ...]

    @property
    def mixed(self) -> bool:
        """True if some jobs have no deadline of their user, so that there are artificial ones."""
        return any(share < 1 for _, share in self.settings)

    @property
    def rules(self) -> Sequence[ArtificialRule]:
        """Rules of the artificial deadlines, or one if there are none."""
        return list(RULES) if self.mixed else ["run-time"]

    def kinds(self, rule: ArtificialRule) -> list[Scenario]:
        """Return the kinds of its workloads: those of every stretch of its log, load and seed."""
        return [
            Scenario(log=self.log, method=self.method, stringency=s, share=share, artificial=rule)
            for s, share in self.settings
        ]


TRACES: tuple[tuple[LogName, Method], ...] = (
    ("CTC", "duplication"),
    ("SDSC", "duplication"),
    ("CTC", "expansion"),
)
"""Logs, and ways to scale their load."""

_STRINGENCIES = (0.2, 0.5)
_MIXED: tuple[tuple[FigureKind, tuple[float, float]], ...] = (
    ("admittance", (0.8, 0.2)),
    ("load", (0.2, 0.8)),
    ("utilization", (0.8, 0.2)),
    ("achieved", (0.2, 0.8)),
    ("relaxation", (0.2, 0.8)),
)
"""Kinds of the figures with mixed jobs, with the shares in their order."""


def _captions() -> Iterator[tuple[FigureKind, LogName, Method, tuple[DeadlineSetting, ...]]]:
    """Yield kind, log, method and settings of each figure, as the captions say."""
    for trace in TRACES:
        for stringency in _STRINGENCIES:
            yield "admittance", *trace, ((stringency, 1.0),)
        yield "utilization", *trace, tuple((each, 1.0) for each in _STRINGENCIES)
    for kind, shares in _MIXED:
        for trace in TRACES[:1] if kind == "relaxation" else TRACES:
            if kind == "utilization":
                for stringency in _STRINGENCIES:
                    yield kind, *trace, tuple((stringency, share) for share in shares)
                continue
            for share in shares:
                for stringency in _STRINGENCIES:
                    yield kind, *trace, ((stringency, share),)


FIGURES = [
    PaperFigure(number=number, kind=kind, log=log, method=method, settings=settings)
    for number, (kind, log, method, settings) in enumerate(_captions(), 4)
]
"""The figures, from the first to the last."""

RELAXATIONS = (2.0, 5.0, 10.0)
"""R (section 4.2)."""

SHORT = DAY / RELAXATIONS[-1]
"""Longest run time (s) of jobs whose artificial deadline by the text is a day with each R."""


ArtificialRule = Literal["run-time", "turnaround"]

RULES: dict[ArtificialRule, str] = {"run-time": "text", "turnaround": "slides"}
"""The artificial deadlines, with where they are from."""

ADMISSION = ("qops", "msb", "mrt")
REFERENCES = ("easy", "conservative")

SETTINGS: dict[str, ChangedOptions] = {"conservative": (("reserve", "processors"),)}
"""Options of schedulers that are not their defaults."""

EARLIEST_DEADLINE: ChangedOptions = (("order", "earliest_deadline"),)


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a log on a machine: the file's name, processors, and jobs to leave out.

    That is the stretch of the first seed; one begins every ``every`` jobs (0: where the one
    before has ended).
    """

    file: str
    processors: int
    skip: int = 0
    first: int = 5000
    every: int = 0

    @property
    def site(self) -> str:
        """Name of the log."""
        return self.file.partition("-")[0]

    @property
    def machine(self) -> str:
        """Name of the whole log on the machine."""
        return f"{self.site} {self.processors}"

    @property
    def name(self) -> str:
        """Name for reports."""
        return f"{self.machine}, from job {self.skip + 1:,}" if self.skip else self.machine

    def scenario(self, kind: Scenario, load: float, seed: int) -> Scenario:
        """Return a workload of a kind on the stretch of a seed.

        At load 1 both methods give the same one.
        """
        return msgspec.structs.replace(
            kind,
            log=self.machine,
            skip=self.skip + jobs_before(seed, self.every or self.first),
            first=self.first,
            load=load,
            method=kind.method if load > 1 else "duplication",
            seed=seed,
        )


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler with options: one of the ways in which the paper may be read."""

    name: str
    scheduler: str
    settings: ChangedOptions = ()


class PackedCase(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler on a synthetic packed schedule (section 4.1); ``laxity`` is the paper's r."""

    scheduler: str
    laxity: float
    seed: int


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """Simulations of a study.

    ``sources`` are those of the figures; ``readings`` are compared on ``reading_sources`` at
    ``reading_loads``, with deadlines for all jobs and S = 0.2. ``windows`` are stretches of logs
    that did not choose any default, and repetitions of their log. Packed schedules have the
    ``laxities`` and the ``seeds``. ``figures`` are the paper's numbers of
    those that are made, if not all.
    """

    sources: Mapping[str, Source]
    loads: tuple[float, ...]
    seeds: tuple[int, ...]
    relaxations: tuple[float, ...] = RELAXATIONS
    reading_sources: tuple[Source, ...] = ()
    reading_loads: tuple[float, ...] = ()
    readings: tuple[Reading, ...] = ()
    windows: tuple[Source, ...] = ()
    window_loads: tuple[float, ...] = ()
    laxities: tuple[float, ...] = ()
    # Jobs of the paper's stretch, if the sources have fewer.
    paper_jobs: int = 0
    # Left out of reports that have all.
    figures: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def of_paper(self) -> Study:
        """The figures on the paper's own stretch, once."""
        jobs = self.paper_jobs
        sources = {
            name: msgspec.structs.replace(each, first=jobs or each.first)
            for name, each in self.sources.items()
        }
        return msgspec.structs.replace(
            self,
            sources=sources,
            seeds=self.seeds[:1],
            reading_sources=(),
            windows=(),
        )

    @property
    def is_whole(self) -> bool:
        """True if all figures are made."""
        return isinstance(self.figures, msgspec.UnsetType)

    @property
    def shown(self) -> list[PaperFigure]:
        """Figures that are made."""
        if isinstance(self.figures, msgspec.UnsetType):
            return FIGURES
        return [each for each in FIGURES if each.number in self.figures]

    def all_sources(self) -> list[Source]:
        """Return every stretch of a log, each once."""
        found = (*self.sources.values(), *self.reading_sources, *self.windows)
        return list(dict.fromkeys(found))

    def cases(self) -> list[DeadlineCase]:
        """Return every case, each once: those of one workload one after the other."""
        found = {case.canonical(): None for case in (*self._figure_cases(), *self._other_cases())}
        own = {source.machine for source in self.sources.values()}
        return sorted(found, key=lambda case: (case.scenario.log not in own, *_order(case)))

    def admittance_scenarios(self) -> list[Scenario]:
        """Return the workloads of the figures of admittance where all jobs have deadlines."""
        return [
            self.sources[shown.log].scenario(kind, load, seed)
            for shown in self.shown
            if is_bounded(shown)
            for kind, load, seed in product(shown.kinds("run-time"), self.loads, self.seeds)
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
        for shown in self.shown:
            kinds = [kind for rule in shown.rules for kind in shown.kinds(rule)]
            for kind, load, seed in product(kinds, self.loads, self.seeds):
                found = self.sources[shown.log].scenario(kind, load, seed)
                if shown.kind == "relaxation":
                    for factor in self.relaxations:
                        yield case_of(msgspec.structs.replace(found, relaxation=factor), "qops")
                else:
                    yield from (case_of(found, name) for name in (*ADMISSION, *REFERENCES))

    def _other_cases(self) -> Iterator[DeadlineCase]:
        for source, load, seed in product(self.reading_sources, self.reading_loads, self.seeds):
            found = source.scenario(STRICT, load, seed)
            yield from (case_of(found, by.scheduler, by.settings) for by in self.readings)
        for kind, load, seed in product(WITHOUT_ARTIFICIAL, self.loads, self.seeds):
            if self.is_whole:
                yield case_of(self.sources[kind.log].scenario(kind, load, seed), "qops")
        for source, load in product(self.windows, self.window_loads):
            found = source.scenario(STRICT, load, 1)
            yield from (case_of(found, name) for name in ADMISSION)
            yield case_of(found, "qops", EARLIEST_DEADLINE)


WITHOUT_ARTIFICIAL = tuple(
    Scenario(log="CTC", share=share, artificial="none") for share in (0.8, 0.2)
)
"""Mixed jobs of which the others have no deadline at all (the introduction's fourth question)."""

STRICT = Scenario(log="")
"""Workloads with load by duplication, deadlines for all jobs and S = 0.2."""


def is_bounded(shown: PaperFigure) -> bool:
    """Return whether a figure's numbers have bounds: unadmitted jobs where all have deadlines."""
    return shown.kind == "admittance" and not shown.mixed


def case_of(
    found: Scenario, scheduler: str, settings: ChangedOptions | None = None
) -> DeadlineCase:
    """Return the case of a scheduler, the same for all deadlines if it does not look at them."""
    if scheduler in BLIND:
        found = msgspec.structs.replace(
            found, stringency=0.2, artificial="run-time", relaxation=RELAXATIONS[0]
        )
    chosen = SETTINGS.get(scheduler, ()) if settings is None else settings
    return DeadlineCase(scenario=found, scheduler=scheduler, settings=chosen)


def _order(case: DeadlineCase) -> tuple[Any, ...]:
    """Return the rank of a case: by workload, the longest first, then by deadlines."""
    it = case.scenario
    workload = -it.load, it.method, it.log, it.skip, it.without_deadlines().seed
    deadlines = it.seed, it.share, it.stringency, it.artificial, it.relaxation
    return *workload, *deadlines, case.scheduler


PACKED_PROCESSORS, PACKED_JOBS = 64, 400
"""Size of a packed schedule, which the paper does not tell."""


def _reading(scheduler: str, **settings: Any) -> Reading:
    said = [f"{name}={str(value).lower()}" for name, value in settings.items()]
    name = ", ".join([scheduler, *said]) if said else f"{scheduler} (defaults)"
    return Reading(name=name, scheduler=scheduler, settings=tuple(settings.items()))


READINGS = tuple(_reading(**each) for each in SPECIFICATION.readings)
"""Ways to read the paper, the chosen ones first of each scheduler."""

_STUDIES = SPECIFICATION.studies


def _windows(of: Mapping[str, Any], *, begin: int, end: int) -> Iterator[Source]:
    """Yield the windows of a log, one behind the other, from one job to another."""
    for skip in range(begin, end - of["first"] + 1, of["first"]):
        yield Source(**of, skip=skip)


FULL = msgspec.structs.replace(
    msgspec.convert(_STUDIES["full"], Study),
    readings=READINGS,
    windows=tuple(window for each in _STUDIES["windows"]["logs"] for window in _windows(**each)),
)
"""All figures, the readings and other windows of the logs."""

QUICK = msgspec.structs.replace(msgspec.convert(_STUDIES["quick"], Study), readings=READINGS)
"""The quick part: few jobs and loads."""


def choices(study: Study) -> dict[str, str]:
    """Return the choices of a study, in words."""
    machines = ", ".join(
        f"{log}: {source.file} on {source.processors} processors"
        for log, source in study.sources.items()
    )
    options = {
        name: make_scheduler(name, dict(SETTINGS.get(name, ()))).options
        for name in (*ADMISSION, *REFERENCES)
    }
    settings = "; ".join(
        f"{name} with "
        + ", ".join(f"{key}={value}" for key, value in msgspec.to_builtins(each).items())
        for name, each in options.items()
    )
    return SPECIFICATION.told_choices(
        machines=machines,
        whole_log=WHOLE_LOG,
        batch_partition=BATCH_PARTITION,
        packed_jobs=PACKED_JOBS,
        packed_processors=PACKED_PROCESSORS,
        relaxation=RELAXATIONS[0],
        seeds=len(study.seeds),
        jobs=max(each.first for each in study.sources.values()),
        every=max(each.every or each.first for each in study.sources.values()),
        paper_jobs=study.paper_jobs or "that",
        schedulers=settings,
    )
