"""Naive schedulers of machines whose jobs share hosts, written from the page ``docs/nodes.md``.

What is held is a list of reservations; whether a job fits is found by trying every date at which
something changes, and every host. All dates are whole numbers, and jobs run no longer than is
estimated. Nothing is shared with the package, nothing is clever, nothing is kept between trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

FIRST_KINDS = ("cores", "memory", "gpus")

LICENCES = -1
"""In a placement, the host that stands for the licences of the machine."""

Placement = dict[int, tuple[int, ...]]
"""The amounts that a job holds, by host."""


@dataclass(frozen=True)
class SharedHost:
    """A host: amounts by kind (with the sum of typed GPUs in ``gpus``), labels, and the rest."""

    amounts: Mapping[str, int] = field(default_factory=dict)
    labels: frozenset[str] = frozenset()
    weight: int = 0
    licences: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SharedMachine:
    """Hosts by number."""

    hosts: tuple[SharedHost, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that some host has: cores, memory, GPUs, and the others by name."""
        named = {kind for host in self.hosts for kind, amount in host.amounts.items() if amount}
        first = [kind for kind in FIRST_KINDS if kind in named]
        return (*first, *sorted(named - set(FIRST_KINDS)))

    @property
    def licences(self) -> dict[str, int]:
        """The sum of what hosts have, by name."""
        names = sorted({name for host in self.hosts for name in host.licences})
        return {name: sum(host.licences.get(name, 0) for host in self.hosts) for name in names}

    def vector(self, amounts: Mapping[str, int]) -> tuple[int, ...]:
        """Return amounts in the order of the kinds."""
        return tuple(amounts.get(kind, 0) for kind in self.kinds)

    def capacity(self, host: int) -> tuple[int, ...]:
        """Return what a host has, in the order of the kinds; for LICENCES, the licences by name."""
        if host == LICENCES:
            return tuple(self.licences.values())
        return self.vector(self.hosts[host].amounts)


@dataclass(frozen=True)
class Part:
    """So many hosts with amounts of each (or of each task); without amounts they are whole."""

    hosts: int
    amounts: Mapping[str, int] = field(default_factory=dict)
    labels: frozenset[str] = frozenset()
    exclusive: bool = False
    tasks: int = 0

    @property
    def takes_whole(self) -> bool:
        return self.exclusive or not self.amounts

    @property
    def asked(self) -> dict[str, int]:
        """The amounts; who asks for GPUs of a type asks for as many GPUs."""
        typed = sum(amount for kind, amount in self.amounts.items() if kind.startswith("gpus:"))
        gpus = max(self.amounts.get("gpus", 0), typed)
        return {**self.amounts, **({"gpus": gpus} if gpus else {})}


@dataclass(frozen=True)
class NodeJob:
    """A job; with several parts, they start together on different hosts."""

    parts: tuple[Part, ...]
    estimate: int
    submission: int = 0
    run_time: int = 0
    """How long it really runs; 0 for as long as is estimated."""
    deadline: int | None = None
    licences: Mapping[str, int] = field(default_factory=dict)

    @property
    def lasts(self) -> int:
        return self.run_time or self.estimate

    @property
    def target(self) -> float:
        return math.inf if self.deadline is None else self.deadline


class Held(NamedTuple):
    """Amounts that are held on a host (or of the licences) from a date to another."""

    start: float
    end: float
    host: int
    amounts: tuple[int, ...]


class NaiveNodes:
    """What is held on each host over time, as a list."""

    def __init__(self, machine: SharedMachine) -> None:
        self.machine = machine
        self.held: list[Held] = []

    def take(self, placement: Placement, start: float, end: float) -> None:
        """Hold a placement in [start, end)."""
        self.held += [Held(start, end, host, amounts) for host, amounts in placement.items()]

    def give(self, placement: Placement, start: float, end: float) -> None:
        """Undo a take with the same arguments."""
        for host, amounts in placement.items():
            self.held.remove(Held(start, end, host, amounts))

    # What is free

    def holders(self, host: int, start: float, end: float) -> list[Held]:
        """Return what is held on a host at any date of [start, end)."""
        return [h for h in self.held if h.host == host and h.start < end and h.end > start]

    def free(self, host: int, date: float) -> tuple[int, ...]:
        """Return what is free on a host at a date, in the order of the kinds."""
        left = list(self.machine.capacity(host))
        for each in self.held:
            if each.host == host and each.start <= date < each.end:
                for kind, amount in enumerate(each.amounts):
                    left[kind] -= amount
        return tuple(left)

    def least(self, host: int, start: float, end: float) -> tuple[int, ...]:
        """Return the least of each kind that is free on a host at any date of [start, end)."""
        # What is free gets less only where something begins.
        begun = [each.start for each in self.holders(host, start, end) if each.start > start]
        free = [self.free(host, date) for date in [start, *begun]]
        return tuple(map(min, zip(*free, strict=True)))

    def steps(self, after: float) -> list[float]:
        """Return the dates behind ``after`` at which what is free changes anywhere."""
        places = [*range(len(self.machine.hosts)), LICENCES]

        def state(date: float) -> list[tuple[tuple[int, ...], bool]]:
            # A host without amounts is free or not, too.
            held = {each.host for each in self.held if each.start <= date < each.end}
            return [(self.free(host, date), host in held) for host in places]

        dates = sorted({d for each in self.held for d in (each.start, each.end) if d > after})
        states = [state(date) for date in [after, *dates]]
        return [date for place, date in enumerate(dates) if states[place] != states[place + 1]]

    # What fits

    def fit(self, job: NodeJob, after: float) -> tuple[float, Placement]:
        """Return a job's earliest fit and what it would hold; infinity if there is none."""
        for date in [after, *self.steps(after)]:
            found = self.found_at(job, date)
            if found is not None:
                return date, found
        return math.inf, {}

    def found_at(self, job: NodeJob, date: float) -> Placement | None:
        """Return what a job would hold if it started at a date; None if it cannot."""
        end = date + job.estimate
        placement: Placement = {}
        if job.licences:
            names = self.machine.licences
            if any(job.licences[name] > names.get(name, 0) for name in job.licences):
                return None
            wanted = tuple(job.licences.get(name, 0) for name in names)
            least = self.least(LICENCES, date, end)
            if any(have < want for have, want in zip(least, wanted, strict=True)):
                return None
            placement[LICENCES] = wanted

        for part in job.parts:
            if set(part.amounts) - set(self.machine.kinds):
                return None
            place = self.place_tasks if part.tasks else self.place_hosts
            others = [h for h in range(len(self.machine.hosts)) if h not in placement]
            chosen = place(part, [h for h in others if self.is_labelled(h, part)], date, end)
            if chosen is None:
                return None
            placement |= chosen
        return placement

    def is_labelled(self, host: int, part: Part) -> bool:
        return part.labels <= self.machine.hosts[host].labels

    def usable(self, part: Part, host: int, start: float, end: float) -> tuple[int, ...]:
        """Return what a part may use of a host: what is free throughout, or the whole host."""
        if not part.takes_whole:
            return self.least(host, start, end)
        capacity = self.machine.capacity(host)
        return tuple(0 for _ in capacity) if self.holders(host, start, end) else capacity

    def standing(self, part: Part, host: int) -> int:
        """Return weight × (K + 1) + idle."""
        kinds = self.machine.kinds
        has = self.machine.hosts[host].amounts
        idle = sum(1 for kind in kinds if has.get(kind, 0) > 0 and part.asked.get(kind, 0) == 0)
        return self.machine.hosts[host].weight * (len(kinds) + 1) + idle

    def place_hosts(
        self, part: Part, hosts: list[int], start: float, end: float
    ) -> Placement | None:
        """Choose the hosts of a part by score (rules 1 to 3)."""
        asked = self.machine.vector(part.asked)
        able: list[tuple[float, int]] = []
        for host in hosts:
            if part.takes_whole and self.holders(host, start, end):
                continue
            usable = self.usable(part, host, start, end)
            if all(have >= want for have, want in zip(usable, asked, strict=True)):
                left = 0.0
                for have, want, capacity in zip(
                    usable, asked, self.machine.capacity(host), strict=True
                ):
                    if want > 0:
                        left += (have - want) / capacity
                able.append((self.standing(part, host) + left / (len(asked) + 1), host))
        if len(able) < part.hosts:
            return None
        chosen = [host for _, host in sorted(able)[: part.hosts]]
        return {h: self.machine.capacity(h) if part.takes_whole else asked for h in chosen}

    def place_tasks(
        self, part: Part, hosts: list[int], start: float, end: float
    ) -> Placement | None:
        """Choose the hosts of tasks, those that take most first (rule 4)."""
        asked = self.machine.vector(part.asked)
        most = {}
        for host in hosts:
            usable = self.usable(part, host, start, end)
            rooms = [have // want for have, want in zip(usable, asked, strict=True) if want > 0]
            most[host] = min(part.tasks, *rooms)
        order = sorted(hosts, key=lambda h: (-most[h], self.standing(part, h), h))[: part.hosts]
        left = part.tasks
        placement: Placement = {}
        for host in order:
            count = min(left, most[host])
            if count > 0:
                whole = self.machine.capacity(host)
                part_of = tuple(count * want for want in asked)
                placement[host] = whole if part.takes_whole else part_of
                left -= count
        return placement if left == 0 else None


# Schedulers


class Ran(NamedTuple):
    """What became of a job: its dates and what it held; its hosts by number."""

    start: int
    end: int
    placement: Placement

    @property
    def hosts(self) -> list[int]:
        return sorted(host for host in self.placement if host != LICENCES)


Outcome = dict[int, "Ran | None"]
"""What became of each job, by place in the list of jobs; None if it was refused."""


class Scheduler:
    """First come, first served, with the walk from date to date that all schedulers share."""

    def __init__(self, machine: SharedMachine, jobs: Sequence[NodeJob]) -> None:
        assert all(0 < job.lasts <= job.estimate for job in jobs)
        assert all(a.submission <= b.submission for a, b in pairwise(jobs))
        self.machine = machine
        self.jobs = jobs
        self.running: dict[int, Ran] = {}
        self.queue: list[int] = []
        self.outcome: Outcome = {}
        self.has_event = False

    def run(self) -> Outcome:
        """Return what becomes of each job."""
        dates = {job.submission for job in self.jobs}
        while dates:
            now = min(dates)
            dates.remove(now)
            ended = [slot for slot, ran in self.running.items() if ran.end == now]
            early = any(self.expected_end(slot) > now for slot in ended)
            for slot in ended:
                del self.running[slot]
            new = []
            for slot, job in enumerate(self.jobs):
                if job.submission == now:
                    if NaiveNodes(self.machine).found_at(job, now) is None:
                        self.outcome[slot] = None
                    else:
                        new.append(slot)
            self.has_event = bool(ended or new)
            self.decide(now, new, early)
            if now == self.jobs[-1].submission:
                # A message of its own says that no job is submitted any more. A job with parts may
                # have found no hosts because of one behind it that has started since.
                self.decide(now, [], early=False)
            dates |= {ran.end for ran in self.running.values()} | self.planned_starts()
        assert len(self.outcome) == len(self.jobs)
        return self.outcome

    def planned_starts(self) -> set[int]:
        """The dates at which something is planned, whether an event comes then or not."""
        return set()

    def expected_end(self, slot: int) -> int:
        return self.running[slot].start + self.jobs[slot].estimate

    def start(self, slot: int, now: int, placement: Placement) -> None:
        """Start a job on the hosts that were found."""
        self.running[slot] = Ran(now, now + self.jobs[slot].lasts, placement)
        self.outcome[slot] = self.running[slot]

    def nodes(self) -> NaiveNodes:
        """What the running jobs hold until their expected ends."""
        nodes = NaiveNodes(self.machine)
        for slot, ran in self.running.items():
            nodes.take(ran.placement, ran.start, self.expected_end(slot))
        return nodes

    def decide(self, now: int, new: list[int], early: bool) -> None:
        self.queue += new
        while self.queue:
            date, found = self.nodes().fit(self.jobs[self.queue[0]], now)
            if date > now:
                break
            self.start(self.queue.pop(0), now, found)


class Easy(Scheduler):
    """EASY: the first job that has to wait has a reservation."""

    def decide(self, now: int, new: list[int], early: bool) -> None:
        self.queue += new
        nodes = self.nodes()
        has_reservation = False
        for slot in list(self.queue):
            job = self.jobs[slot]
            date, found = nodes.fit(job, now)
            if date == now:
                self.queue.remove(slot)
                self.start(slot, now, found)
                nodes.take(found, now, now + job.estimate)
            elif date < math.inf and not has_reservation:
                has_reservation = True
                nodes.take(found, date, date + job.estimate)


class EasyFromNow(Easy):
    """EASY that begins at 0 with what others hold until some dates."""

    def __init__(
        self,
        machine: SharedMachine,
        jobs: Sequence[NodeJob],
        held: Sequence[tuple[Placement, int]],
    ) -> None:
        super().__init__(machine, jobs)
        self.held = held
        self.now = 0

    def nodes(self) -> NaiveNodes:
        nodes = super().nodes()
        for placement, end in self.held:
            nodes.take(placement, 0, end)
        return nodes

    def planned_starts(self) -> set[int]:
        return {end for _, end in self.held if end > self.now}

    def decide(self, now: int, new: list[int], early: bool) -> None:
        self.now = now
        super().decide(now, new, early)


Plan = dict[int, tuple[float, Placement]]
"""Planned start and what is held from then on, by job."""


class Conservative(Scheduler):
    """Conservative backfilling: every job is planned when it arrives."""

    def __init__(self, machine: SharedMachine, jobs: Sequence[NodeJob]) -> None:
        super().__init__(machine, jobs)
        self.plan: Plan = {}

    def nodes_with(self, plan: Plan) -> NaiveNodes:
        """What running jobs and those of a plan hold."""
        nodes = self.nodes()
        for slot, (start, placement) in plan.items():
            nodes.take(placement, start, start + self.jobs[slot].estimate)
        return nodes

    def waiting(self) -> list[int]:
        """Waiting jobs by planned start, ties by arrival."""
        return sorted(self.plan, key=lambda slot: (self.plan[slot][0], slot))

    def decide(self, now: int, new: list[int], early: bool) -> None:
        assert all(start >= now for start, _ in self.plan.values())
        if early:
            self.compress(now)
        for slot in new:
            self.answer(slot, now)
        for slot in self.waiting():
            start, placement = self.plan[slot]
            if start == now:
                assert self.has_event or len(self.jobs[slot].parts) > 1
                del self.plan[slot]
                self.start(slot, now, placement)

    def planned_starts(self) -> set[int]:
        """Starts that no end of a job leads to: only parts, which take hosts in turn, have them."""
        return {int(start) for start, _ in self.plan.values()}

    def compress(self, now: int) -> None:
        """Move the waiting jobs one by one to where they are earlier; others keep their hosts."""
        for slot in self.waiting():
            planned = self.plan.pop(slot)
            again = self.nodes_with(self.plan).fit(self.jobs[slot], now)
            self.plan[slot] = again if again[0] < planned[0] else planned

    def answer(self, slot: int, now: int) -> None:
        """Plan a new job."""
        self.plan[slot] = self.nodes_with(self.plan).fit(self.jobs[slot], now)


class Qops(Conservative):
    """QoPS with its defaults: placed by latest start, the half placed later is placed again."""

    def __init__(
        self, machine: SharedMachine, jobs: Sequence[NodeJob], *, k_factor: int = 5
    ) -> None:
        super().__init__(machine, jobs)
        self.k_factor = k_factor

    def is_in_time(self, slot: int, start: float) -> bool:
        return start + self.jobs[slot].estimate <= self.jobs[slot].target

    def latest_start(self, slot: int) -> tuple[float, int]:
        return (self.jobs[slot].target - self.jobs[slot].estimate, slot)

    def answer(self, slot: int, now: int) -> None:
        """Admit a new job if an insertion point gives a plan in which all are in time."""
        waiting = self.waiting()
        for point in insertion_points(len(waiting)):
            kept = {each: self.plan[each] for each in waiting[:point]}
            if not self.is_in_time(slot, self.nodes_with(kept).fit(self.jobs[slot], now)[0]):
                break
            again = sorted([*waiting[point:], slot], key=self.latest_start)
            plan = self.plan_of(kept, again, now)
            if plan is not None:
                self.plan = plan
                return
        self.outcome[slot] = None

    def plan_of(self, kept: Plan, to_place: list[int], now: int) -> Plan | None:
        """Place jobs behind those that are kept, with repairs; None if this does not succeed."""
        placed: list[tuple[int, tuple[float, Placement]]] = []
        repairs = 0
        while to_place:
            slot = to_place.pop(0)
            found = self.nodes_with(kept | dict(placed)).fit(self.jobs[slot], now)
            if self.is_in_time(slot, found[0]):
                placed.append((slot, found))
                continue
            # It is critical.
            repairs += 1
            alone = self.nodes_with(kept).fit(self.jobs[slot], now)[0]
            if repairs > self.k_factor or not self.is_in_time(slot, alone):
                return None
            middle = len(placed) // 2
            undone = [each for each, _ in placed[middle:]]
            placed = placed[:middle]
            to_place = [slot, *sorted([*undone, *to_place], key=self.latest_start)]
        return kept | dict(placed)


def insertion_points(count: int) -> list[int]:
    """Return 0, N/2, 3N/4, … as long as they differ."""
    points = [0]
    while (point := points[-1] + (count - points[-1]) // 2) != points[-1]:
        points.append(point)
    return points


SCHEDULERS: dict[str, Callable[[SharedMachine, Sequence[NodeJob]], Scheduler]] = {
    "fcfs": Scheduler,
    "easy": Easy,
    "conservative": Conservative,
    "qops": Qops,
}


def schedule_of(scheduler: str, machine: SharedMachine, jobs: Sequence[NodeJob]) -> Outcome:
    """Return what becomes of each job under a scheduler."""
    return SCHEDULERS[scheduler](machine, jobs).run()


def check_outcome(machine: SharedMachine, jobs: Sequence[NodeJob], outcome: Outcome) -> None:
    """Check that no host gives more than it has at any date, and every job what it asks for."""
    ran = {slot: each for slot, each in outcome.items() if each is not None}
    for start, _, _ in ran.values():
        there = {slot: each for slot, each in ran.items() if each.start <= start < each.end}
        for host in [*range(len(machine.hosts)), LICENCES]:
            used = [e.placement[host] for e in there.values() if host in e.placement]
            for column in zip(machine.capacity(host), *used, strict=True):
                assert sum(column[1:]) <= column[0]
            whole = [s for s, each in there.items() if host in each.placement and host >= 0]
            if any(all(part.takes_whole for part in jobs[slot].parts) for slot in whole):
                assert len(whole) == 1, "a host of its own"

    for slot, each in ran.items():
        job = jobs[slot]
        assert each.start >= job.submission
        assert each.end == each.start + job.lasts
        assert len(each.hosts) <= sum(part.hosts for part in job.parts)
        if not any(part.tasks for part in job.parts):
            assert len(each.hosts) == sum(part.hosts for part in job.parts)
        common = frozenset.intersection(*(part.labels for part in job.parts))
        assert all(common <= machine.hosts[host].labels for host in each.hosts)
        for kind in {kind for part in job.parts for kind in part.asked}:
            total = sum(each.placement[h][machine.kinds.index(kind)] for h in each.hosts)
            asked = sum((p.tasks or p.hosts) * p.asked.get(kind, 0) for p in job.parts)
            exact = not any(part.takes_whole for part in job.parts)
            assert total == asked if exact else total >= asked
