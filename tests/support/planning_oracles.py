"""Naive whole schedules of the planning schedulers, on machines whose hosts leave and return.

Each walks from message to message, as an engine sends them, and keeps nothing but dictionaries:
who runs where and until when that is expected, and the planned starts. Whether a job fits
somewhere is found by looking at every second (or tick, if dates are in a coarser unit).
Searches are those of :mod:`admission_oracles` and :mod:`slack_oracles`. Nothing is shared with
the package. All dates are whole numbers.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from support import admission_oracles, slack_oracles
from support.admission_oracles import Asking


class Task(NamedTuple):
    """A job; ``walltime`` kills it, ``estimate`` is what planning uses."""

    submission: int
    processors: int
    run_time: int
    estimate: int
    walltime: int | None = None
    deadline: int | None = None
    user: float = 0.0
    political: float | None = 0.0

    @property
    def lasts(self) -> int:
        return self.run_time if self.walltime is None else min(self.run_time, self.walltime)

    @property
    def limit(self) -> float:
        return math.inf if self.walltime is None else self.walltime


class Change(NamedTuple):
    """Hosts that go away or return at a date."""

    date: int
    leave: bool
    hosts: tuple[int, ...]


@dataclass
class Running:
    start: int
    hosts: frozenset[int]
    expected_end: float


@dataclass
class Outcome:
    """By job: start (None if refused), hosts, last promise, and how often that was renewed."""

    starts: dict[int, int | None] = field(default_factory=dict)
    hosts: dict[int, list[int]] = field(default_factory=dict)
    promises: dict[int, float] = field(default_factory=dict)
    renewals: dict[int, int] = field(default_factory=dict)


def bits(hosts: frozenset[int]) -> int:
    return sum(1 << host for host in hosts)


class Planner:
    """Conservative backfilling: a reservation for every job, at its earliest fit.

    ``by_host``: a reservation names its hosts, and every end of a job re-places the waiting ones
    in order of arrival. Else it is a number of processors, and ends that come early re-place
    them in order of planned start.
    """

    def __init__(
        self,
        machine: int,
        tasks: Sequence[Task],
        changes: Sequence[Change] = (),
        *,
        by_host: bool = False,
    ) -> None:
        self.machine = machine
        self.tasks = tasks
        self.changes = changes
        self.by_host = by_host
        self.there = frozenset(range(machine))
        self.running: dict[int, Running] = {}
        self.plan: dict[int, float] = {}
        self.reserved: dict[int, frozenset[int]] = {}
        self.outcome = Outcome()
        self.freed = False
        self.is_final = not changes
        self.calls: set[int] = set()
        self.suspended: dict[int, float] = {}

    # Fits

    def occupied(self, now: int) -> tuple[int, list[int], list[int]]:
        """Up to a horizon: the hosts in use (bits), and the number of processors, by second."""
        ends = [r.expected_end for r in self.running.values()]
        ends += [s + self.tasks[slot].estimate for slot, s in self.plan.items()]
        horizon = int(max([now, *(end for end in ends if end < math.inf)])) + 1
        hosts, counts = [0] * (horizon - now), [0] * (horizon - now)
        for each in self.running.values():
            there = len(each.hosts & self.there)
            for second in range(now, int(each.expected_end)):
                hosts[second - now] |= bits(each.hosts)
                counts[second - now] += there
        for slot, start in self.plan.items():
            if start < math.inf:
                reserved = bits(self.reserved.get(slot, frozenset()))
                for second in range(int(start), int(start) + self.tasks[slot].estimate):
                    hosts[second - now] |= reserved
                    counts[second - now] += self.tasks[slot].processors
        return horizon, hosts, counts

    def place(self, slot: int, now: int) -> None:
        """Give a job that is in no plan its earliest fit."""
        task = self.tasks[slot]
        if task.processors > len(self.there):
            self.plan[slot] = math.inf
            self.reserved[slot] = frozenset()
            return
        horizon, hosts, counts = self.occupied(now)
        for start in range(now, horizon + 1):
            seconds = range(start - now, min(start + task.estimate, horizon) - now)
            if self.by_host:
                used = 0
                for second in seconds:
                    used |= hosts[second]
                common = [host for host in sorted(self.there) if not used >> host & 1]
                if len(common) >= task.processors:
                    self.reserved[slot] = frozenset(common[: task.processors])
                    break
            elif all(counts[s] + task.processors <= len(self.there) for s in seconds):
                break
        self.plan[slot] = start

    def waiting(self) -> list[int]:
        """Waiting jobs by planned start, ties by arrival."""
        return sorted(self.plan, key=lambda slot: (self.plan[slot], slot))

    def compress(self, now: int) -> None:
        """Re-place the waiting jobs one by one."""
        for slot in sorted(self.plan) if self.by_host else self.waiting():
            before = self.plan.pop(slot)
            self.reserved.pop(slot, None)
            self.place(slot, now)
            assert self.plan[slot] <= before

    def place_all(self, order: Sequence[int], now: int) -> None:
        """Make a plan anew, the jobs in this order."""
        self.plan.clear()
        self.reserved.clear()
        for slot in order:
            self.place(slot, now)

    def rebuild(self, now: int) -> None:
        self.place_all(self.waiting(), now)

    # What differs

    def take(self, slot: int, now: int) -> bool:
        """Take a new job into the plan; tell whether it is accepted."""
        self.place(slot, now)
        return True

    def promised(self) -> dict[int, float] | None:
        """What is promised by slot, as a dictionary to change; None if nothing is."""
        return None

    def planned(self, slot: int) -> float:
        """What the promise is about."""
        return self.plan[slot] + self.tasks[slot].estimate

    def renew(self, slot: int, promise: float) -> None:
        """Hold a job to a new promise."""

    def decided(self, now: int, started: list[int]) -> None:
        """Look at the end of a decision."""

    # Messages

    def run(self) -> Outcome:
        arrivals = sorted(range(len(self.tasks)), key=lambda s: (self.tasks[s].submission, s))
        assert arrivals == list(range(len(self.tasks)))
        dates = [task.submission for task in self.tasks] + [each.date for each in self.changes]
        heapq.heapify(dates)
        done = 0
        while dates or self.calls:
            dates += self.calls
            self.calls.clear()
            heapq.heapify(dates)
            now = heapq.heappop(dates)
            while dates and dates[0] == now:
                heapq.heappop(dates)
            for slot in self.message(now):
                heapq.heappush(dates, now + self.tasks[slot].lasts)
            done += 1
            assert done < 10_000
        assert not self.plan
        return self.outcome

    def message(self, now: int) -> list[int]:
        """Digest what happens at a date, decide, and return the jobs that start."""
        lost, resized = 0, False
        for change in self.changes:
            if change.date == now:
                hosts = frozenset(change.hosts)
                left = self.there - hosts if change.leave else self.there | hosts
                lost += max(0, len(self.there) - len(left))
                self.there = left
                resized = True
        new = [slot for slot, task in enumerate(self.tasks) if task.submission == now]
        for slot in list(new):
            if self.tasks[slot].processors > (len(self.there) if self.is_final else self.machine):
                new.remove(slot)
                self.outcome.starts[slot] = None
        ended = [s for s, r in self.running.items() if r.start + self.tasks[s].lasts == now]
        started = self.decide(now, new, ended, lost if resized else None)
        if not self.is_final and all(change.date <= now for change in self.changes):
            # The next message, at the same date, says that no more happens to hosts.
            self.is_final = True
            self.reject_wider()
            started += self.decide(now, [], [], None)
            self.reject_wider()
        return started

    def decide(self, now: int, new: list[int], ended: list[int], lost: int | None) -> list[int]:
        """Plan and start; ``lost`` hosts have left, None if none has left or returned."""
        early = self.freed or (self.by_host and bool(ended))
        self.freed = False
        for slot in ended:
            early = early or self.running[slot].expected_end > now
            del self.running[slot]
        anew = self.extend_overdue(now)
        anew = anew or any(start < now for start in self.plan.values())
        if lost is not None:
            self.resize(now, lost, anew)
        elif anew:
            self.rebuild(now)
        elif early and self.plan:
            self.compress(now)
        self.settle()
        for slot in new:
            if not self.take(slot, now):
                self.outcome.starts[slot] = None
        started = self.start_due(now)
        if not started and self.plan and not self.running:
            self.rebuild(now)
            started = self.start_due(now)
        self.decided(now, started)
        return started

    def reject_wider(self) -> None:
        """Reject what is wider than all that will ever be there."""
        for slot in self.waiting():
            if self.tasks[slot].processors > len(self.there):
                del self.plan[slot]
                self.outcome.starts[slot] = None
                self.freed = True

    def extend_overdue(self, now: int) -> bool:
        """Have jobs that outlive their estimate run to their walltime, or as long again."""
        found = False
        for slot, each in self.running.items():
            if each.expected_end < now:
                so_far, limit = now - each.start, self.tasks[slot].limit
                each.expected_end = now + max(limit - so_far if limit < math.inf else so_far, 1)
                found = True
        return found

    def resize(self, now: int, lost: int, anew: bool) -> None:
        """Fit the plan to the hosts that are there; put what is promised at risk if any left."""
        promised = self.promised()
        before = {slot: (promised or {}).get(slot, math.inf) for slot in self.plan}
        if anew or lost:
            self.rebuild(now)
        else:
            Planner.compress(self, now)
        if lost and promised is not None:
            for slot, promise in before.items():
                if promise < math.inf:
                    # What was gained by the rebuild is promised as well.
                    self.suspended[slot] = min(promise, promised[slot])

    def settle(self) -> None:
        """Renew the promises at risk that cannot be kept, as soon as there is a start."""
        promised = self.promised()
        for slot, promise in list(self.suspended.items()):
            assert promised is not None
            if slot in self.plan and self.plan[slot] == math.inf:
                promised[slot] = math.inf
                continue
            del self.suspended[slot]
            if slot not in self.plan:
                continue
            promised[slot] = promise
            if self.planned(slot) > promise + 1e-6:
                promised[slot] = self.planned(slot)
                self.outcome.renewals[slot] = self.outcome.renewals.get(slot, 0) + 1
                self.renew(slot, promised[slot])

    def start_due(self, now: int) -> list[int]:
        """Start what is due, by planned start, up to the first that does not fit."""
        started: list[int] = []
        for slot in self.waiting():
            free = sorted(self.there.difference(*(r.hosts for r in self.running.values())))
            hosts = frozenset(free[: self.tasks[slot].processors])
            if self.by_host:
                hosts = self.reserved[slot]
            if self.plan[slot] > now or len(hosts) < self.tasks[slot].processors:
                break
            if not hosts <= frozenset(free):
                break
            self.running[slot] = Running(now, hosts, self.plan[slot] + self.tasks[slot].estimate)
            del self.plan[slot]
            self.reserved.pop(slot, None)
            self.outcome.starts[slot], self.outcome.hosts[slot] = now, sorted(hosts)
            started.append(slot)
        return started


Search = Callable[[admission_oracles.Case], "dict[int, float] | None"]
"""Returns all starts of a plan that takes the new job in, or None."""


class DeadlinePlanner(Planner):
    """Admission by deadline: a job is taken in if a search finds a plan that keeps all targets."""

    def __init__(
        self,
        machine: int,
        tasks: Sequence[Task],
        changes: Sequence[Change],
        search: Search,
    ) -> None:
        super().__init__(machine, tasks, changes)
        self.search = search
        asked = [math.inf if task.deadline is None else float(task.deadline) for task in tasks]
        self.targets = dict(enumerate(asked))
        self.admitted = dict(self.targets)
        self.aims = dict.fromkeys(self.targets, math.inf)

    def asking(self, slot: int) -> Asking:
        task = self.tasks[slot]
        return Asking(
            slot, task.processors, task.estimate, self.targets[slot], task.submission,
            self.admitted[slot],
        )  # fmt: skip

    def take(self, slot: int, now: int) -> bool:
        task, target = self.tasks[slot], self.targets[slot]
        if task.processors > len(self.there) and target < math.inf:
            return False
        if task.estimate > target - now:
            return False
        for each in self.plan:
            # Who has a chance again is held to what was aimed at.
            if self.aims[each] < self.targets[each] < math.inf:
                self.targets[each] = max(self.aims[each], self.planned(each))
        case = admission_oracles.Case(
            len(self.there),
            now,
            tuple((len(r.hosts & self.there), r.expected_end) for r in self.running.values()),
            tuple((self.asking(each), self.plan[each]) for each in self.waiting()),
            self.asking(slot),
        )
        starts = self.search(case)
        if starts is None:
            return False
        self.plan = dict(starts)
        if task.deadline is not None:
            self.outcome.promises[slot] = self.admitted[slot]
        return True

    def late(self) -> list[int]:
        aims = {slot: min(self.aims[slot], self.targets[slot]) for slot in self.plan}
        return [slot for slot in self.plan if self.planned(slot) > aims[slot] + 1e-6]

    def rebuild(self, now: int) -> None:
        """By the old starts; by latest starts if fewer are late then. Who is late aims later."""
        order = self.waiting()
        self.place_all(order, now)
        late = len(self.late())
        if late:
            by_start = dict(self.plan)

            def latest_start(slot: int) -> tuple[float, int]:
                aim = min(self.aims[slot], self.targets[slot])
                return aim - self.tasks[slot].estimate, slot

            self.place_all(sorted(order, key=latest_start), now)
            if len(self.late()) >= late:
                self.plan = by_start
        for slot in self.plan:
            if self.planned(slot) > self.targets[slot] + 1e-6:
                self.aims[slot] = min(self.aims[slot], self.targets[slot])
                self.targets[slot] = self.planned(slot)

    def promised(self) -> dict[int, float]:
        return self.targets

    def renew(self, slot: int, promise: float) -> None:
        self.admitted[slot] = self.outcome.promises[slot] = promise
        self.aims[slot] = math.inf


@dataclass(frozen=True)
class SlackRules:
    slack_factor: float = 3.0
    average_wait: float = 10.0
    heuristic: str = "ascending_scheduled_time"
    exhaustive_up_to: int = 6
    removal: str = "cheapest"
    early_gain: str = "slack"
    weights: slack_oracles.Weights = field(default_factory=slack_oracles.Weights)


class SlackPlanner(Planner):
    """Slack-based backfilling: the cheapest schedule, and a latest start for every job."""

    def __init__(
        self, machine: int, tasks: Sequence[Task], changes: Sequence[Change], rules: SlackRules
    ) -> None:
        super().__init__(machine, tasks, changes)
        self.rules = rules
        self.latest: dict[int, float] = {}
        self.priorities: dict[int, float] = {}
        self.first_slacks: dict[int, float] = {}
        self.without_start: list[int] = []
        self.called_for = -math.inf

    def priority(self, slot: int, scheduler: float) -> float:
        task = self.tasks[slot]
        if task.political is None:
            return -math.inf
        return (task.user + task.political + scheduler) / 3

    def cheapest(self, now: int, new: slack_oracles.New) -> float:
        """Adopt the cheapest schedule; return the start of the new job."""
        waiting = []
        for slot in self.waiting():
            task = self.tasks[slot]
            start = self.plan[slot]
            latest = self.latest[slot]
            slack = math.inf if math.inf in (latest, start) else latest - start
            waiting.append(
                slack_oracles.Waiting(
                    slot, task.processors, task.estimate, start, self.priorities[slot],
                    self.first_slacks[slot], slack,
                )
            )  # fmt: skip
        heuristic = self.rules.heuristic
        if heuristic == "exhaustive" and len(waiting) > self.rules.exhaustive_up_to:
            heuristic = "ascending_scheduled_time"
        case = slack_oracles.Case(
            len(self.there),
            now,
            tuple((len(r.hosts & self.there), r.expected_end) for r in self.running.values()),
            tuple(waiting),
            new,
            self.rules.weights,
            sum(start <= now for start in self.plan.values()),
        )
        compresses = self.rules.removal == "cheapest"
        found = slack_oracles.cheapest(case, heuristic, compresses=compresses)
        assert found is not None
        self.plan = dict(found.starts)
        return found.new_start

    def take(self, slot: int, now: int) -> bool:
        task, priority = self.tasks[slot], self.priority(slot, 0.5)
        if priority == -math.inf:
            self.place(slot, now)
        else:
            start = self.cheapest(now, slack_oracles.New(task.processors, task.estimate, priority))
            self.plan[slot] = start
        self.priorities[slot], self.latest[slot] = priority, math.inf
        self.first_slacks[slot] = 0.0
        self.promise(slot, now)
        return True

    def promise(self, slot: int, now: int) -> None:
        """Settle priority and slack once there is a first start."""
        start = self.plan[slot] if slot in self.plan else self.running[slot].start
        if start == math.inf:
            self.without_start.append(slot)
            return
        average = self.rules.average_wait
        priority = self.priority(slot, min((start - now) / (2 * average), 1))
        slack = max(1 - priority, 0) * self.rules.slack_factor * average
        self.priorities[slot], self.first_slacks[slot] = priority, slack
        self.latest[slot] = start + slack if slack == math.inf else round(start + slack, 6)
        self.tell(slot, self.latest[slot])

    def tell(self, slot: int, latest: float) -> None:
        """Of several promises the earliest counts."""
        if latest < math.inf:
            told = self.outcome.promises.get(slot, math.inf)
            self.outcome.promises[slot] = min(told, latest)

    def compress(self, now: int) -> None:
        before = dict(self.plan)
        if self.rules.removal == "compression":
            super().compress(now)
        else:
            self.cheapest(now, slack_oracles.New())
        self.settle_gains(before)

    def rebuild(self, now: int) -> None:
        before = dict(self.plan)
        super().rebuild(now)
        self.settle_gains(before)
        for slot, start in self.plan.items():
            self.latest[slot] = max(self.latest[slot], start)

    def settle_gains(self, before: dict[int, float]) -> None:
        if self.rules.early_gain == "promise":
            for slot, start in before.items():
                if self.plan[slot] < start < math.inf:
                    gain = start - self.plan[slot]
                    self.latest[slot] = round(self.latest[slot] - gain, 6)
                    self.tell(slot, self.latest[slot])

    def promised(self) -> dict[int, float]:
        return self.latest

    def planned(self, slot: int) -> float:
        return self.plan[slot]

    def renew(self, slot: int, promise: float) -> None:
        self.outcome.promises[slot] = promise

    def decided(self, now: int, started: list[int]) -> None:
        without = self.without_start
        self.without_start = []
        for slot in without:
            if slot in self.plan or slot in self.running:
                self.promise(slot, now)
        # Where no job ends for sure when the first one is to start, a call is asked for.
        if not self.plan:
            return
        first = min(self.plan.values())
        if first in (math.inf, self.called_for) or first <= now:
            return
        for slot, each in self.running.items():
            task = self.tasks[slot]
            if each.expected_end == first and task.limit <= task.estimate:
                return
        self.called_for = first
        self.calls.add(int(first))
