"""Which simulations of Pascal et al. (2004) are made."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from qops_batsim.experiments.intervals import LEAST
from qops_batsim.scheduling.aroma.options import AromaOptions
from qops_batsim.workload.service_classes import APART, TOGETHER

REBUILT = "SDSC-SP2-1998-rebuilt.swf.gz"
"""All jobs of the log that ran, without queues, waits and CPU times."""

ORIGINAL = "SDSC-SP2-1998-first5000.swf.gz"
"""The log's first 4,961 jobs with all that it knows."""

RUN_TIME, MEASURED = "run time", "CPU time field"
"""What counts as the CPU time that a task requests."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One simulation of the ``first`` usable jobs of a log (None: all).

    ``every`` is the class of all jobs (None: by queue), ``tasks`` says whether the tasks of a
    job progress together or apart, and ``seed`` draws the queues of jobs without one. AROMA tries
    to move, and to stop, so many ``candidates`` for one that finds no place (None: its default).
    """

    log: str
    first: int | None
    scheduler: str
    every: str | None = None
    cpu_time: str = RUN_TIME
    tasks: str = TOGETHER
    seed: int = 1
    candidates: int | None = None


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated.

    ``sizes`` are numbers of jobs from the beginning of the rebuilt log, for both tables, and
    ``alone`` further ones for Table 1 only; ``together`` asks for Table 2 also with tasks that
    progress together. The seeds draw queues for jobs of the rebuilt log. Numbers of ``candidates``
    are compared in the last of the paper's cases with four classes.
    """

    sizes: tuple[int, ...]
    alone: tuple[int, ...] = ()
    together: bool = True
    seeds: tuple[int, ...] = (1,)
    candidates: tuple[int, ...] = ()

    def seeds_of(self, log: str) -> tuple[int, ...]:
        """Return the seeds that make a difference: those of queues that are drawn."""
        return self.seeds if log == REBUILT else self.seeds[:1]

    def cases(self) -> list[Trial]:
        """Return the cases of Table 2: the paper's, then those with the log's own queues.

        Each is its trial with the first seed.
        """
        kinds: list[tuple[str, int | None, str, str]] = []
        kinds += [(REBUILT, first, RUN_TIME, APART) for first in self.sizes]
        kinds += [(ORIGINAL, None, each, APART) for each in (RUN_TIME, MEASURED)]
        if self.together:
            kinds.append((ORIGINAL, None, RUN_TIME, TOGETHER))
        classes: tuple[str | None, ...] = (None, "best_effort")
        return [
            Trial(log=log, first=first, scheduler="aroma", every=every, cpu_time=cpu, tasks=tasks)
            for log, first, cpu, tasks in kinds
            for every in classes
        ]

    def trials_of(self, case: Trial) -> list[Trial]:
        """Return a case of Table 2 with each seed that makes a difference to it."""
        # Where all jobs have one class, queues do not matter.
        seeds = self.seeds_of(case.log) if case.every is None else (1,)
        return [msgspec.structs.replace(case, seed=seed) for seed in seeds]

    def trials_by_candidates(self) -> dict[int, list[Trial]]:
        """Return the trials with each number of candidates, the default among them.

        As it takes long, with as many seeds as a verdict needs.
        """
        if not self.candidates:
            return {}
        case = [each for each in self.cases() if each.log == REBUILT and each.every is None][-1]
        default = AromaOptions().moves
        return {
            number: [
                msgspec.structs.replace(trial, candidates=None if number == default else number)
                for trial in self.trials_of(case)[:LEAST]
            ]
            for number in sorted({default, *self.candidates})
        }

    def trials(self) -> list[Trial]:
        """Return every simulation once, those of Table 1 first."""
        return list(dict.fromkeys(self._trials()))

    def _trials(self) -> Iterator[Trial]:
        places: list[tuple[str, int | None]] = [(ORIGINAL, None)]
        places += [(REBUILT, first) for first in (*self.sizes, *self.alone)]
        for log, first in places:
            for seed in self.seeds_of(log):
                yield nqs(log, first, seed)
            yield conservative(log, first)
            yield alone(log, first)
        yield alone(ORIGINAL, None, MEASURED)
        for case in self.cases():
            yield from self.trials_of(case)
        for trials in self.trials_by_candidates().values():
            yield from trials


def nqs(log: str, first: int | None, seed: int) -> Trial:
    """Return the trial of our NQS."""
    return Trial(log=log, first=first, scheduler="nqs", seed=seed)


def conservative(log: str, first: int | None) -> Trial:
    """Return the trial of conservative backfilling with exact estimates."""
    return Trial(log=log, first=first, scheduler="conservative")


def alone(log: str, first: int | None, cpu_time: str = RUN_TIME) -> Trial:
    """Return the trial of AROMA with all applications in the class dedicated."""
    return Trial(log=log, first=first, scheduler="aroma", every="dedicated", cpu_time=cpu_time)
