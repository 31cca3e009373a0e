"""Cases of the benchmark: versioned ones, and as many twins from windows that are drawn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from qops_batsim.engine.options import AVAILABLE, UNAVAILABLE, ExternalEvent
from qops_batsim.errors import InputError
from qops_batsim.experiments.deadline_runs import Scenario
from qops_batsim.experiments.traces import trace_digest, usual_places
from qops_batsim.parameters import EXACT, USERS
from qops_batsim.platform.hostset import HostSet
from qops_batsim.shipped import packaged_data
from qops_batsim.workload.estimates import EstimateChoices
from qops_batsim.workload.generate import generate_workload
from qops_batsim.workload.model import Workload, check_seed
from qops_batsim.workload.traces import read_trace

VERSIONED, DRAWN = "versioned", "drawn"
HALVES = (VERSIONED, DRAWN)

PER_LOG = 4
"""Cases of a log, one after the other; a quick benchmark has one of each log."""

BETWEEN_OUTAGES, OUTAGE = 86_400.0, (3_600.0, 28_800.0)
"""Mean time from the end of an outage to the next one, and its shortest and longest (seconds)."""

MOST_AWAY = 8
"""One host in so many is away at a time, at most."""


class BenchmarkLog(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A log: its file or other editions of it, and the preset that stands in where none is there.

    ``unseen`` are the first and last job, in the order of submission, of the part from which
    windows are drawn.
    """

    file: str
    processors: int
    unseen: tuple[int, int]
    stand_in: str
    others: tuple[str, ...] = ()


class CaseEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A case as ``benchmark_cases.toml`` has it, which tells what the fields mean."""

    log: str
    skip: int
    load: float
    stringency: float
    estimates: str
    outages: bool


class CaseList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of ``benchmark_cases.toml``."""

    version: str
    seed: int
    jobs: int
    share: float
    logs: dict[str, BenchmarkLog]
    cases: tuple[CaseEntry, ...]


class BenchmarkCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case with its workload.

    Attributes
    ----------
    name
        Log and number, the same for both twins.
    half
        Whether the window is ``"versioned"`` or ``"drawn"``.
    stand_in
        The preset that stands in for the log; empty if the log itself is there.
    scenario
        The workload.
    outages
        Seed of the outages, or None without any.
    """

    name: str
    half: str
    log: str
    stand_in: str
    scenario: Scenario
    outages: int | None


@cache
def case_list() -> CaseList:
    """Return the cases of this version of the package."""
    return packaged_data("qops_batsim.experiments", "benchmark_cases.toml", CaseList)


class BenchmarkLogs:
    """The logs of the benchmark: those that are found, and what stands in for the others.

    They are looked for in a directory, then where the logs of papers are.
    """

    def __init__(self, known: CaseList, directory: Path = Path()) -> None:
        self._known = known
        self._directory = directory
        self.workloads: dict[str, Workload] = {}
        self._identities: dict[str, str | None] = {}

    def identity(self, log: str, seed: int) -> tuple[str, str]:
        """Return the identity of a log among :attr:`workloads`, and what stands in for it, if so.

        The stand-in has as many jobs as a window, and is made with a seed.
        """
        if log not in self._identities:
            self._identities[log] = self._read(log)
        found, about = self._identities[log], self._known.logs[log]
        if found is not None:
            return found, ""
        jobs, processors = self._known.jobs, about.processors
        name = f"{about.stand_in}, {processors} processors, {jobs} jobs, seed {seed}"
        if name not in self.workloads:
            self.workloads[name] = generate_workload(
                about.stand_in, jobs=jobs, seed=seed, processors=processors
            )
        return name, about.stand_in

    def _read(self, log: str) -> str | None:
        about = self._known.logs[log]
        for place in (self._directory, *usual_places()):
            for file in (about.file, *about.others):
                if (place / file).is_file():
                    digest = trace_digest(place / file, about.processors)
                    trace = read_trace(place / file, processors=about.processors).workload
                    if len(trace.jobs) < about.unseen[1]:
                        raise InputError(
                            f"{place / file}: has {len(trace.jobs)} usable jobs; the log with at "
                            f"least {about.unseen[1]} is expected"
                        )
                    self.workloads[digest] = trace
                    return digest
        return None


def benchmark_cases(
    known: CaseList, logs: BenchmarkLogs, *, seed: int | None = None, quick: bool = False
) -> list[BenchmarkCase]:
    """Return the versioned cases, then their twins, drawn with a seed (None: the published one)."""
    seed = known.seed if seed is None else seed
    check_seed(seed)
    numbered = list(enumerate(known.cases, start=1))
    drawn = _drawn_windows(known, seed)
    # Seeds that no versioned case has, so that no stand-in is used twice.
    draws = random.Random(seed)
    seeds = [draws.randrange(1_000, 1_000_000_000) for _ in numbered]
    made = []
    for half, skips, own in (
        (VERSIONED, [each.skip for each in known.cases], range(1, len(numbered) + 1)),
        (DRAWN, drawn, seeds),
    ):
        for (number, each), skip, seed_of_case in zip(numbered, skips, own, strict=True):
            if not quick or _is_quick(number):
                made.append(_case(known, logs, half, number, each, skip, seed_of_case))
    return made


def _is_quick(number: int) -> bool:
    """Return whether a quick benchmark has a case: another one of each log."""
    log, place = divmod(number - 1, PER_LOG)
    return place == log % PER_LOG


def _drawn_windows(known: CaseList, seed: int) -> list[int]:
    """Return how many jobs come before each twin's window; windows of a log share no jobs."""
    generator = random.Random(f"windows {seed}")
    left: dict[str, list[int]] = {}
    for name, log in known.logs.items():
        begin, end = log.unseen
        taken = [each.skip for each in known.cases if each.log == name]
        starts = range(begin, end - known.jobs + 1, known.jobs)
        left[name] = [s for s in starts if all(abs(s - t) >= known.jobs for t in taken)]
        generator.shuffle(left[name])
    return [left[each.log].pop() for each in known.cases]


def _case(
    known: CaseList,
    logs: BenchmarkLogs,
    half: str,
    number: int,
    entry: CaseEntry,
    skip: int,
    seed: int,
) -> BenchmarkCase:
    log, stand_in = logs.identity(entry.log, seed)
    scenario = Scenario(
        log=log,
        skip=0 if stand_in else skip,
        first=known.jobs,
        load=entry.load,
        stringency=entry.stringency,
        share=known.share,
        artificial="none",
        seed=seed,
    )
    if entry.estimates == USERS:
        scenario = with_users_estimates(scenario)
    return BenchmarkCase(
        name=f"{entry.log} {number}",
        half=half,
        log=entry.log,
        stand_in=stand_in,
        scenario=scenario.canonical(),
        outages=seed if entry.outages else None,
    )


def with_users_estimates(scenario: Scenario) -> Scenario:
    """Return a scenario in which users' estimates make the deadlines, and are planned with."""
    model = EstimateChoices(model=USERS)
    return msgspec.structs.replace(scenario, deadlines_by=USERS, estimates=model)


def told(case: BenchmarkCase) -> str:
    """Return the description of a case."""
    scenario = case.scenario
    window = case.stand_in or f"jobs {scenario.skip + 1:,} on"
    estimates = EXACT if scenario.estimates is msgspec.UNSET else USERS
    parts = [window, f"load {scenario.load:g}", f"S {scenario.stringency:g}", f"{estimates} estim."]
    return ", ".join([*parts, *(["outages"] if case.outages is not None else [])])


def outages_of_case(seed: int, workload: Workload) -> tuple[ExternalEvent, ...]:
    """Return outages while jobs are submitted: neighbouring hosts that leave, and return.

    Gaps are exponential, durations and the numbers of hosts uniform, and no two outages overlap.
    Dates are whole seconds.
    """
    dates, hosts = workload.columns.submission_times, workload.processors
    generator, date, end = random.Random(seed), float(dates.min()), float(dates.max())
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


def present_logs(cases: Sequence[BenchmarkCase]) -> tuple[list[str], dict[str, str]]:
    """Return the logs that are there, and what stands in for each of the others."""
    missing = {each.log: each.stand_in for each in cases if each.stand_in}
    return [log for log in dict.fromkeys(each.log for each in cases) if log not in missing], missing
