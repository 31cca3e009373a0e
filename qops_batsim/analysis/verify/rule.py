"""What the rules of the schedule verifier are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from qops_batsim.analysis.results.rounding import real_ends
from qops_batsim.analysis.results.run import RunResult
from qops_batsim.analysis.results.tables import Booleans, Floats, Integers
from qops_batsim.analysis.verify.identities import Identities
from qops_batsim.analysis.verify.sharing import most_at_once
from qops_batsim.workload.model import JobColumns, Workload


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One place where a run breaks a rule: the jobs (full identifiers), host and date (seconds)."""

    rule: str = ""
    """Name of the rule, which the rule itself fills in."""
    message: str
    jobs: tuple[str, ...] = ()
    host: int | None = None
    time: float | None = None


SAME_SPEED = 1e-6
"""Speeds computed from rounded estimates that differ by this part of them are one."""


@dataclass(frozen=True)
class Subject:
    """A run with what is known about it, for the rules."""

    result: RunResult
    workloads: dict[str, Workload]
    compute_sharing: bool
    any_allocation_size: bool

    @property
    def executed(self) -> Booleans:
        return self.result.executed

    @cached_property
    def grace(self) -> float:
        """By how much promises may be late (seconds), as ``_run.json`` tells."""
        return self.result.grace

    @cached_property
    def ends(self) -> Floats:
        """When each job has ended at the earliest (seconds): :func:`real_ends`."""
        return real_ends(*self.result.columns("starting_time", "finish_time"))

    @cached_property
    def identities(self) -> Identities:
        """Which job each row of the files is about."""
        ids = {
            name: columns.ids for name, columns in zip(self.workloads, self.columns, strict=True)
        }
        return Identities(self.result, ids)

    @cached_property
    def columns(self) -> list[JobColumns]:
        """The jobs of each workload in columns."""
        return [workload.columns for workload in self.workloads.values()]

    @cached_property
    def most_at_once(self) -> Integers:
        """The most jobs that any host of each job ran at a time while it ran."""
        return most_at_once(self.result)

    def asked(self, name: str) -> Floats:
        """Return a column of the workloads by number of the job; NaN for what is no job of them."""
        return self._by_number(getattr(columns, name) for columns in self.columns)

    @cached_property
    def delays(self) -> Floats:
        """Seconds that each job with a ``delay`` profile runs, by number; NaN for others."""
        found = []
        for workload, columns in zip(self.workloads.values(), self.columns, strict=True):
            profiles = [workload.profiles.get(name, {}) for name in columns.profile_names]
            delays = [
                float(each["delay"]) if each.get("type") == "delay" else math.nan
                for each in profiles
            ]
            found.append(np.array(delays, np.float64)[columns.profiles])
        return self._by_number(found)

    @cached_property
    def understated(self) -> Booleans:
        """Jobs, by number, whose ``qos.estimated_runtime`` may be less than what they do.

        A sleep is longer, or a computation more for each second of its estimate than another
        one of the run: no file tells the speed that estimates are about. Of other profiles,
        nothing is known.
        """
        found = []
        for workload, columns in zip(self.workloads.values(), self.columns, strict=True):
            profiles = [workload.profiles.get(name, {}) for name in columns.profile_names]
            flop = [
                float(each["cpu"]) if each.get("type") == "parallel_homogeneous" else math.inf
                for each in profiles
            ]
            asked = columns.requests or [None] * len(columns.ids)
            told = [None if each is None else each.estimated_runtime for each in asked]
            estimates = np.array([math.nan if each is None else each for each in told], np.float64)
            found.append(np.array(flop, np.float64)[columns.profiles] / estimates)
        speeds = self._by_number(found)
        slowest = speeds[~np.isnan(speeds)].min(initial=math.inf)
        computes_more = (speeds > slowest * (1 + SAME_SPEED)) | np.isinf(speeds)
        sleeps = np.isfinite(self.delays)
        return np.where(sleeps, self.delays > self.asked("estimates"), computes_more)

    def _by_number(self, columns: Iterable[Numbers]) -> Floats:
        further = np.full(len(self.identities) - self.identities.known, np.nan)
        return np.concatenate([*columns, further])


@dataclass(frozen=True)
class Need:
    """What a rule needs to apply, in words and as a test.

    No words: without it there is nothing to check. What is ``usual`` is told only where it lacks.
    """

    words: str
    met: Callable[[Subject], bool]
    usual: bool = False


WORKLOAD = Need("the workload", lambda subject: bool(subject.workloads))
QOS_FILE = Need("a _qos.csv", lambda subject: subject.result.decisions is not None)
SCHEDULE = Need("a _schedule.csv", lambda subject: subject.result.schedule is not None)
MACHINE_STATES = Need(
    "a _machine_states.csv", lambda subject: subject.result.hosts_over_time is not None
)
OUTAGES = Need("", lambda subject: bool(subject.result.outages))
NO_OUTAGES = Need("no host that was away", lambda subject: not subject.result.outages, usual=True)
NO_SHARING = Need("a run without compute sharing", lambda subject: not subject.compute_sharing)

Numbers = npt.NDArray[np.float64 | np.int64]

Check = Callable[[Subject], Iterable[Violation]]


@dataclass(frozen=True)
class Rule:
    """A rule, made by :func:`rule`; what it says is the docstring of its function."""

    name: str
    module: str
    find: Check = field(repr=False)
    needed: tuple[Need, ...] = ()

    def check(self, subject: Subject) -> Iterator[Violation]:
        """Yield the violations of this rule, in the order of the jobs."""
        for violation in self.find(subject):
            yield msgspec.structs.replace(violation, rule=self.name)

    def applies(self, subject: Subject) -> bool:
        """Tell whether the rule can be checked."""
        return all(need.met(subject) for need in self.needed)

    @property
    def needs(self) -> str:
        """What a run must have for the rule to apply, in words."""
        return _in_words(self.needed)

    def lacks(self, subject: Subject) -> str:
        """Return in words what the rule misses; nothing if it applies or has nothing to check."""
        if self.applies(subject):
            return ""
        return _in_words(need for need in self.needed if not (need.usual and need.met(subject)))


def _in_words(needs: Iterable[Need]) -> str:
    return " and ".join(need.words for need in needs if need.words)


def rule(*needed: Need) -> Callable[[Check], Rule]:
    """Make a rule of a function, which gives it its name: ``final_state`` is ``final-state``."""

    def make(check: Check) -> Rule:
        return Rule(check.__name__.replace("_", "-"), check.__module__, check, needed)

    return make


def violations(
    subject: Subject, wrong: Booleans, message: str, *, at: str | None = None, **columns: Any
) -> Iterator[Violation]:
    """Yield one violation for each job row where ``wrong`` holds.

    ``message`` is a template (``"runs {run_time:.6f} s"``) for the row's values in
    ``columns``, arrays with one value a job; ``at`` is the column of ``_jobs.csv`` with the date.
    """
    result = subject.result
    for row in np.flatnonzero(wrong).tolist():
        name = result.id(row)
        time = None if at is None else float(result.column(at)[row])
        text = message.format(**{key: values[row] for key, values in columns.items()})
        yield Violation(jobs=(name,), time=time, message=f"job {name!r}: {text}")
