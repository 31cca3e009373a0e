"""Specification of Pascal et al. (2004): Tables 1 and 2, trials, choices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from qops_batsim.experiments import ENOUGH
from qops_batsim.schedulers.aroma.aroma_scheduler import AromaOptions
from qops_batsim.workload import APART, QOS_CLASSES, TOGETHER
from studies.logs import SDSC, jobs_before
from studies.specification import read_specification

SPECIFICATION = read_specification(Path(__file__).parent)

ALL = "all"
"""Name of the group of all jobs, beside those of the classes."""

_NUMBERS = SPECIFICATION.numbers

TABLE_1 = msgspec.convert(_NUMBERS["table_1"], dict[int, dict[str, float]], strict=False)
"""Mean waiting times (s) by number of jobs; NQS are the log's own."""

DAYS = msgspec.convert(_NUMBERS["days"], dict[int, float], strict=False)
"""Time from the first to the last submission of the paper's jobs (days)."""

QUANTITIES = ("wait", "mapping_ms", "rejected")
"""Numbers of the paper by class: mean wait (s), mean mapping time (ms), rejects."""


def _by_class(numbers: Sequence[float]) -> dict[str, float]:
    """Return numbers by class, of all jobs last; a single one is that of all."""
    return dict(zip((*QOS_CLASSES, ALL) if len(numbers) > 1 else (ALL,), numbers, strict=False))


TABLE_2 = {
    (int(jobs), None if every == "by_queue" else every): {
        quantity: _by_class(numbers) for quantity, numbers in quantities.items()
    }
    for jobs, cases in _NUMBERS["table_2"].items()
    for every, quantities in cases.items()
}
"""By number of jobs and class of all (None: four classes), quantity and class."""

REBUILT = SDSC
"""All jobs of the log that ran, without queues, waits and CPU times."""

ORIGINAL = "SDSC-SP2-1998-first5000.swf.gz"
"""The log's first 4,961 jobs with all that it knows."""

RUN_TIME, MEASURED = "run time", "CPU time field"
"""Fields that may count as the CPU time that a task requests."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One simulation of the ``first`` usable jobs of a log (None: all) behind those to ``skip``.

    ``every`` is the class of all jobs (None: by queue), ``tasks`` says whether the tasks of a job
    progress together or apart, and ``seed`` draws the queues of jobs without one, where they
    matter: other trials are of the first seed. AROMA tries to move, and to stop, a number of
    ``candidates`` for one that finds no place (None: its default). NQS has the queues that users
    chose, split by time limits, or one queue ``by_time`` for each requested time.
    """

    log: str
    first: int | None
    scheduler: str
    every: str | None = None
    cpu_time: str = RUN_TIME
    tasks: str = TOGETHER
    seed: int = 1
    candidates: int | None = None
    by_time: bool = False
    skip: int = 0


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """Simulations of a study.

    ``sizes`` are numbers of jobs from the beginning of the rebuilt log, for both tables, and
    ``dedicated_sizes`` further ones for Table 1 only; ``tasks_together`` asks for Table 2 also
    with tasks that progress together. The seeds draw queues for jobs of the rebuilt log, of which
    up to ``repeated`` jobs are run with each of them. Numbers of ``candidates`` are compared in the
    first of the paper's cases. ``real_queues`` asks for the log's first jobs as well, with the
    queues that their users chose. Table 1 is also made of ``stretches`` of the rebuilt log, one
    behind the other, each of ``stretch`` jobs.
    """

    sizes: tuple[int, ...]
    dedicated_sizes: tuple[int, ...] = ()
    tasks_together: bool = True
    seeds: tuple[int, ...] = (1,)
    candidates: tuple[int, ...] = ()
    repeated: int = 10_000
    real_queues: bool = True
    stretches: int = 0
    stretch: int = 5000

    def seeds_of(self, log: str, first: int | None) -> tuple[int, ...]:
        """Return the seeds for a number of jobs of a log.

        That is one where the log has its own queues, which are few jobs, or where there are more
        jobs than are to be ``repeated``.
        """
        few = log != REBUILT or first is None or first > self.repeated
        return self.seeds[:1] if few else self.seeds

    def cases(self) -> list[Trial]:
        """Return the cases of Table 2: the paper's, then those with the log's own queues.

        Each is its trial with the first seed.
        """
        kinds: list[tuple[str, int | None, str, str]] = []
        kinds += [(REBUILT, first, RUN_TIME, APART) for first in self.sizes]
        if self.real_queues:
            kinds += [(ORIGINAL, None, each, APART) for each in (RUN_TIME, MEASURED)]
            if self.tasks_together:
                kinds.append((ORIGINAL, None, RUN_TIME, TOGETHER))
        classes: tuple[str | None, ...] = (None, "best_effort")
        return [
            Trial(log=log, first=first, scheduler="aroma", every=every, cpu_time=cpu, tasks=tasks)
            for log, first, cpu, tasks in kinds
            for every in classes
        ]

    def trials_of(self, case: Trial) -> list[Trial]:
        """Return a case of Table 2 with each of its seeds.

        With one class for all no seed draws anything: it repeats the measurement of times.
        """
        seeds = self.seeds_of(case.log, case.first)
        return [msgspec.structs.replace(case, seed=seed) for seed in seeds]

    def trials_by_candidates(self) -> dict[int, list[Trial]]:
        """Return the trials with each number of candidates, the default among them.

        As it takes long, with as many seeds as a verdict needs.
        """
        if not self.candidates:
            return {}
        case = next(each for each in self.cases() if each.log == REBUILT and each.every is None)
        default = AromaOptions().moves
        return {
            number: [
                msgspec.structs.replace(trial, candidates=None if number == default else number)
                for trial in self.trials_of(case)[:ENOUGH]
            ]
            for number in sorted({default, *self.candidates})
        }

    def trials(self) -> list[Trial]:
        """Return every simulation once, those of Table 1 first."""
        return list(dict.fromkeys(self._trials()))

    def places(self) -> list[tuple[str, int | None]]:
        """Return log and number of jobs of each row of Table 1."""
        sizes = *self.sizes, *self.dedicated_sizes
        original = [(ORIGINAL, None)] if self.real_queues else []
        return [*original, *((REBUILT, first) for first in sizes)]

    def waits_by_stretch(self) -> list[dict[str, Trial]]:
        """Return the trials of Table 1 on each of the stretches."""
        return [
            {
                name: msgspec.structs.replace(trial, skip=jobs_before(seed, self.stretch))
                for name, trial in trials_of_waits(REBUILT, self.stretch, seed).items()
            }
            for seed in range(1, self.stretches + 1)
        ]

    def _trials(self) -> Iterator[Trial]:
        for log, first in self.places():
            for seed in self.seeds_of(log, first):
                yield from trials_of_waits(log, first, seed).values()
        if self.real_queues:
            yield MEASURED_TRIAL
        for trials in self.waits_by_stretch():
            yield from trials.values()
        cases = self.cases()
        for mixed, alone in zip(cases[::2], cases[1::2], strict=True):
            # Their times are compared, so they are measured one beside the other.
            for pair in zip(self.trials_of(mixed), self.trials_of(alone), strict=True):
                yield from pair
        for candidates in self.trials_by_candidates().values():
            yield from candidates


def trials_of_waits(log: str, first: int | None, seed: int = 1) -> dict[str, Trial]:
    """Return the trials of Table 1 by scheduler.

    Beside our NQS that is one with as many queues as requested times, "more fair" by 4.1;
    conservative backfilling has exact estimates, and AROMA all applications in the class dedicated.
    Only our NQS has the queues that a seed draws.
    """
    nqs = Trial(log=log, first=first, scheduler="nqs")
    return {
        "nqs": msgspec.structs.replace(nqs, seed=seed),
        "fair_nqs": msgspec.structs.replace(nqs, by_time=True),
        "conservative": msgspec.structs.replace(nqs, scheduler="conservative"),
        "aroma": msgspec.structs.replace(nqs, scheduler="aroma", every="dedicated"),
    }


MEASURED_TRIAL = msgspec.structs.replace(
    trials_of_waits(ORIGINAL, None)["aroma"], cpu_time=MEASURED
)
"""AROMA alone on the original log, by the field of CPU times."""

QUICK, FULL = (msgspec.convert(SPECIFICATION.studies[name], Study) for name in ("quick", "full"))
"""The quick part: the smaller number of jobs, with drawn queues, and Table 1 by stretch; and all:
the first 21,752 usable jobs were submitted within 249 days, as the paper's 35,000 were.
"""
