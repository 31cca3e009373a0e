"""Rules of the schedule verifier, when they apply, and how they are violated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from qops_batsim.core.hostset import HostSet
from qops_batsim.measures.results.result_tables import Booleans
from qops_batsim.measures.verify.subject import Subject


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A violation of a rule in a run: a message, the jobs (full identifiers), host and date
    (seconds).
    """

    rule: str = ""
    """Name of the rule, which the rule itself fills in."""
    message: str
    jobs: tuple[str, ...] = ()
    host: int | None = None
    time: float | None = None


def of_job(
    name: str, text: str, *, host: int | None = None, time: float | None = None
) -> Violation:
    """Return a violation by one job; the ``text`` goes on right behind its name."""
    return Violation(jobs=(name,), host=host, time=time, message=f"job {name!r}{text}")


@dataclass(frozen=True)
class Need:
    """A condition that a run must meet for a rule to be checked: in words, and as a test.

    A condition without words is not reported if unmet: there is nothing to check then. A ``usual``
    condition is named only for runs that do not meet it.
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
CANCELLATIONS = Need(
    "", lambda subject: bool(subject.result.cancellations or subject.result.cancelled)
)
MAINTENANCE = Need(
    "", lambda subject: bool(subject.result.info and subject.result.info.maintenance)
)
PREDICTIONS = Need(
    "",
    lambda subject: not (subject.rated_by_speed or np.isnan(subject.recorded_predictions).all()),
)
NO_OUTAGES = Need("no host that was away", lambda subject: not subject.result.outages, usual=True)
NO_SHARING = Need("a run without compute sharing", lambda subject: not subject.compute_sharing)
PLATFORM = Need("the platform", lambda subject: subject.machine is not None)
SHARED_HOSTS = Need("", lambda subject: subject.machine is not None or subject.asks_of_hosts)
WHOLE_HOSTS = Need("", lambda subject: subject.machine is None)

Check = Callable[[Subject], Iterable[Violation]]


@dataclass(frozen=True)
class Rule:
    """A rule of the schedule verifier, made by :func:`rule` from a function whose docstring states
    it.
    """

    name: str
    module: str
    find: Check = field(repr=False)
    needed: tuple[Need, ...] = ()

    def check(self, subject: Subject) -> Iterator[Violation]:
        """Check a run (``subject``) and yield the rule's violations in the order of the jobs."""
        for violation in self.find(subject):
            yield msgspec.structs.replace(violation, rule=self.name)

    def applies(self, subject: Subject) -> bool:
        """Return whether a run (``subject``) meets all conditions for the rule to be checked."""
        return all(need.met(subject) for need in self.needed)

    @property
    def needs(self) -> str:
        """What the rule needs to be checked, in words, such as "the workload and a _qos.csv"."""
        return _in_words(self.needed)

    def lacks(self, subject: Subject) -> str:
        """Return, in words, what the rule needs to be checked if the run lacks some of it; else an
        empty text.
        """
        unmet = [need for need in self.needed if not need.met(subject)]
        if not (unmet and all(need.words for need in unmet)):
            return ""
        return _in_words(need for need in self.needed if need in unmet or not need.usual)


def _in_words(needs: Iterable[Need]) -> str:
    return " and ".join(need.words for need in needs if need.words)


def rule(*needed: Need) -> Callable[[Check], Rule]:
    """Return a decorator that makes a rule of a check function; the rule of ``final_state`` is
    named ``final-state``.
    """

    def make(check: Check) -> Rule:
        return Rule(check.__name__.replace("_", "-"), check.__module__, check, needed)

    return make


def violations(
    subject: Subject, wrong: Booleans, message: str, *, at: str | None = None, **columns: Any
) -> Iterator[Violation]:
    """Yield a violation for each row of ``_jobs.csv`` at which the mask ``wrong`` is true.

    ``message`` is a template (``"runs {run_time:.6f} s"``) for the row's values in
    ``columns``, arrays with one value a job; ``at`` is the column of ``_jobs.csv`` with the date.
    """
    result = subject.result
    for row in np.flatnonzero(wrong).tolist():
        time = None if at is None else float(result.column(at)[row])
        text = message.format(**{key: values[row] for key, values in columns.items()})
        yield of_job(result.id(row), f": {text}", time=time)


def wrong_starts(
    subject: Subject, hosts: str, during: Booleans, message: str, **columns: Any
) -> Iterator[Violation]:
    """Yield a violation for each job that starts on one of some ``hosts`` (``"0-3 5"``).

    ``during`` is a mask over the intervals of hosts of all jobs, as are the ``columns`` with
    values for the ``message``.
    """
    result = subject.result
    rows, first, last = result.allocations
    for low, high in HostSet.parse(hosts).intervals():
        for place in np.flatnonzero(during & (first <= high) & (last >= low)).tolist():
            row = int(rows[place])
            host = max(low, int(first[place]))
            date = float(result.column("starting_time")[row])
            rest = message.format(**{key: values[place] for key, values in columns.items()})
            text = f" starts on host {host} at {date:.6f} s{rest}"
            yield of_job(result.id(row), text, host=host, time=date)
