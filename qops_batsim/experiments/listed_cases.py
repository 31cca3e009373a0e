"""Studies that list their cases: fixed cases, and for each a twin in a random window."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec

from qops_batsim.core.hostset import HostSet
from qops_batsim.engine.engine_options import AVAILABLE, UNAVAILABLE, ExternalEvent
from qops_batsim.experiments.deadline_runs import Scenario
from qops_batsim.experiments.log_files import usual_places
from qops_batsim.parameters import USERS
from qops_batsim.workload.estimates import EstimateChoices
from qops_batsim.workload.scale import PAPER_JOBS
from qops_batsim.workload.synthetic import generate_workload
from qops_batsim.workload.workload_model import Workload, check_seed

VERSIONED = "versioned"
DRAWN = "drawn"
HALVES = (VERSIONED, DRAWN)

PER_LOG = 4
"""Cases of a log, one after the other; a quick study has one of each log."""

BETWEEN_OUTAGES = 86_400.0
"""Mean time from the end of an outage to the next one (seconds)."""

OUTAGE = (3_600.0, 28_800.0)
"""Shortest and longest outage (seconds)."""

MOST_AWAY = 8
"""At most one host in this number is away at a time."""


class LogWindow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stretch of a log: ``first`` usable jobs (0: all of them), after ``skip`` usable jobs."""

    skip: int = 0
    first: int = PAPER_JOBS

    def __str__(self) -> str:
        return f"{self.skip}+{self.first or 'all'}"


class Generated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A synthetic workload: its preset, number of jobs and seed."""

    preset: str
    jobs: int
    seed: int


class StudyLog(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A log: an SWF file, or a Batsim workload of delay jobs (a path or a shipped name).

    ``processors`` are those of the machine, for an SWF file (None: what its header says);
    ``windows`` go before those of the study. One that is ``generated`` has no file.
    """

    name: str
    file: str
    processors: int | None = None
    windows: tuple[LogWindow, ...] = ()
    generated: Generated | msgspec.UnsetType = msgspec.UNSET

    def workload(self) -> Workload:
        """Return the workload of a generated log."""
        assert not isinstance(self.generated, msgspec.UnsetType)
        return generate_workload(
            self.generated.preset,
            jobs=self.generated.jobs,
            seed=self.generated.seed,
            processors=self.processors,
        )


class ListedCase(msgspec.Struct, frozen=True, kw_only=True):
    """One case of a study that lists single cases in place of a grid.

    Attributes
    ----------
    name
        Log and number, the same for both twins.
    half
        Whether the window is ``"versioned"`` or ``"drawn"``.
    of
        The log that the list names, while ``log`` may be what stands in for it.
    seed
        Draws duplicates, users with deadlines, and outages if there are any.
    """

    name: str
    half: str
    of: str
    log: str
    window: LogWindow
    load: float
    stringency: float
    share: float
    estimates: str
    outages: bool
    seed: int


class LogOfCases(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The files that may hold a log, and the preset of a synthetic one if none is found.

    ``unseen`` are the first and last job, in the order of submission, of the part from which
    windows are drawn.
    """

    file: str
    processors: int
    unseen: tuple[int, int]
    stand_in: str
    others: tuple[str, ...] = ()

    def found(self, directory: Path) -> str:
        """Return the path of the log's first file that exists, "" if none does."""
        for place in (directory, *usual_places()):
            for file in (self.file, *self.others):
                if (place / file).is_file():
                    return str(place / file)
        return ""


class CaseEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry of the list of cases in ``benchmark.toml``, where its fields are explained."""

    log: str
    skip: int
    load: float
    stringency: float
    estimates: str
    outages: bool


class CaseList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of ``benchmark.toml``."""

    name: str
    version: str
    schedulers: tuple[str, ...]
    baseline: str
    seed: int
    jobs: int
    share: float
    logs: dict[str, LogOfCases]
    cases: tuple[CaseEntry, ...]
    verdicts: tuple[str, ...] = ()

    def listed(
        self, directory: Path = Path(), *, seed: int | None = None, quick: bool = False
    ) -> tuple[tuple[StudyLog, ...], tuple[ListedCase, ...]]:
        """Return the logs and cases: the listed ones, then each on another, random window.

        The windows of the twins are drawn with a seed (None: the published one).
        """
        seed = self.seed if seed is None else seed
        check_seed(seed)
        found = {name: log.found(directory) for name, log in self.logs.items()}
        # Seeds that no versioned case has, so that no stand-in is used twice.
        draws = random.Random(seed)
        seeds = [draws.randrange(1_000, 1_000_000_000) for _ in self.cases]
        twins = [
            *((VERSIONED, each.skip, number) for number, each in enumerate(self.cases, 1)),
            *((DRAWN, *drawn) for drawn in zip(self._drawn(seed), seeds, strict=True)),
        ]

        logs: dict[str, StudyLog] = {}
        cases = []
        numbered = [*enumerate(self.cases, 1)] * len(HALVES)
        for (number, entry), (half, skip, own_seed) in zip(numbered, twins, strict=True):
            if quick and not _is_quick(number):
                continue
            log = self._log(entry.log, found[entry.log], own_seed)
            logs[log.name] = log
            cases.append(
                ListedCase(
                    name=f"{entry.log} {number}",
                    half=half,
                    of=entry.log,
                    log=log.name,
                    window=LogWindow(skip=skip if log.file else 0, first=self.jobs),
                    load=entry.load,
                    stringency=entry.stringency,
                    share=self.share,
                    estimates=entry.estimates,
                    outages=entry.outages,
                    seed=own_seed,
                )
            )
        return tuple(logs.values()), tuple(cases)

    def _log(self, name: str, file: str, seed: int) -> StudyLog:
        """Return a case's log; if its file is missing, a synthetic one with as many jobs."""
        about = self.logs[name]
        if file:
            return StudyLog(name=name, file=file, processors=about.processors)
        made = f"{about.stand_in}, {about.processors} processors, {self.jobs} jobs, seed {seed}"
        generated = Generated(preset=about.stand_in, jobs=self.jobs, seed=seed)
        return StudyLog(name=made, file="", processors=about.processors, generated=generated)

    def _drawn(self, seed: int) -> list[int]:
        """Draw, for each listed case, the first job of another window that shares no job."""
        generator = random.Random(f"windows {seed}")
        left: dict[str, list[int]] = {}
        for name, log in self.logs.items():
            begin, end = log.unseen
            taken = [each.skip for each in self.cases if each.log == name]
            starts = range(begin, end - self.jobs + 1, self.jobs)
            left[name] = [s for s in starts if all(abs(s - t) >= self.jobs for t in taken)]
            generator.shuffle(left[name])
        return [left[each.log].pop() for each in self.cases]


def _is_quick(number: int) -> bool:
    """Return whether a quick study includes the case with this number: one case of each log."""
    log, place = divmod(number - 1, PER_LOG)
    return place == log % PER_LOG


def with_users_estimates(scenario: Scenario) -> Scenario:
    """Return the scenario in which deadlines and plans use the users' own estimates."""
    model = EstimateChoices(model=USERS)
    return msgspec.structs.replace(scenario, deadlines_by=USERS, estimates=model)


def outages_of_case(seed: int, workload: Workload) -> tuple[ExternalEvent, ...]:
    """Draw outages of neighbouring hosts while jobs are submitted.

    Gaps are exponential, durations and the numbers of hosts uniform, and no two outages overlap.
    Dates are whole seconds.
    """
    dates = workload.columns.submission_times
    date, end = float(dates.min()), float(dates.max())
    hosts = workload.processors
    generator = random.Random(seed)
    events: list[ExternalEvent] = []
    while True:
        date += 1 + round(generator.expovariate(1 / BETWEEN_OUTAGES))
        if date >= end:
            return tuple(events)
        count = generator.randint(1, max(1, hosts // MOST_AWAY))
        first = generator.randint(0, hosts - count)
        away = HostSet.of(range(first, first + count))
        events.append(ExternalEvent(date, UNAVAILABLE, away, {}))
        date += round(generator.uniform(*OUTAGE))
        events.append(ExternalEvent(date, AVAILABLE, away, {}))
