"""The list algorithm: when and where an application is mapped (section 3.2), and how room is made.

Start dates t_b are tried in order: now, then the predicted ends of mapped tasks. At
each, hosts are ordered by criterion (1), the best taken, and the execution of
everything that is mapped is predicted. If that breaks a constraint, the hosts to
blame are revised; when that does not help, the next date is tried. Dates closer than the
tolerance of planning are equal.

If no date will do (section 3.1, "Mapping"), a planned application of a weaker class is moved:
taken out, and mapped again after the new one. Then a running one is stopped, to go on later on
the same hosts. Each is undone unless both find a place that keeps every promise, also those made
to the one that makes room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.aroma.application import Application
from qops_batsim.scheduling.aroma.book import Book, Taken
from qops_batsim.scheduling.aroma.machine import UnequalHosts
from qops_batsim.scheduling.aroma.recurrence import KEPT, Rows, demanded_end, keeps
from qops_batsim.scheduling.arrays import Flags, Floats, Ints
from qops_batsim.timing import PLAN_TOLERANCE

SOONEST_LATER = 2e-5
"""A planned start is now or at least so much later (seconds): engines call back no sooner."""

_NONE = np.full((1, 1), np.inf)
"""Bandwidths where there is no communication."""


class MappingRequest(NamedTuple):
    """Request of an application.

    Attributes
    ----------
    slot
        Its slot among the mapped applications.
    memory, sent
        Of each task (bytes).
    deadline
        Latest end (s).
    walltime
        How long it may run, of an exclusive one infinite: sharing does not stretch it (s).
    """

    slot: int
    tasks: int
    memory: float
    sent: float
    deadline: float
    walltime: float


FOUND = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("load", np.int64),  # X_m at the date
                ("memory", np.float64),  # M_u(m) at the date (bytes)
                # When the next application that has to be alone starts (s); the date where one is.
                ("next_exclusive", np.float64),
                ("release", np.float64),  # when the last application ends, at least the date (s)
            ]
        ),
    )
)
"""A host at a date: the applications on it, and those to come."""


@kernel(allocates=True)
def survey(date: float, slots: Ints, mapped: Rows, tasks: Rows, host_count: int) -> Rows:
    """Return what is on each host at a date and what comes after. O(hosts + entries)."""
    found = np.zeros(host_count, FOUND)
    for host in range(host_count):
        found[host].next_exclusive = np.inf
        found[host].release = date
    for slot in slots:
        row = mapped[slot]
        if row.end <= date + PLAN_TOLERANCE:
            continue
        present = row.start <= date + PLAN_TOLERANCE
        for entry in range(row.first, row.first + row.count):
            host = found[tasks[entry].host]
            host.release = max(host.release, row.end)
            if present:
                host.load += 1
                host.memory += row.memory
                if row.exclusive:
                    host.next_exclusive = date
            elif row.exclusive:
                host.next_exclusive = min(host.next_exclusive, row.start)
    return found


@kernel(allocates=True)
def risky_hosts(
    date: float,
    needs: Floats,
    latest_end: float,
    slots: Ints,
    mapped: Rows,
    tasks: Rows,
    hosts: Rows,
    found: Rows,
) -> Flags:
    """Return the hosts where one more task from a date on may break a constraint.

    A rough upper estimate: the task meets all that is there now as long as it runs;
    each of these loses as much as the task needs, or in proportion to the share that
    it loses. What ends later than that allows is a risk. O(hosts + entries).
    """
    risky = np.empty(len(needs), np.bool_)
    for host in range(len(risky)):
        crowd = max(1.0, (found[host].load + 1) / hosts[host].processors)
        end = date + needs[host] * crowd
        risky[host] = end > min(latest_end, found[host].next_exclusive) + PLAN_TOLERANCE
    for slot in slots:
        row = mapped[slot]
        if row.end <= date + PLAN_TOLERANCE:
            continue
        latest = row.deadline
        for entry in range(row.first, row.first + row.count):
            latest = min(latest, max(found[tasks[entry].host].next_exclusive, date))
        if latest == np.inf:
            continue
        slack = latest - row.end
        lasting = row.end - max(row.start, date)
        for entry in range(row.first, row.first + row.count):
            host = tasks[entry].host
            crowd = max(found[host].load, 1)
            if crowd >= hosts[host].processors and min(needs[host], lasting / crowd) > slack:
                risky[host] = True
    return risky


@kernel(allocates=True)
def release_after(date: float, needs: Floats, hosts: Rows, found: Rows) -> Floats:
    """Return when each host would be released if it got one more task, t_f(m, s) of (1).

    A host whose processors are all busy works on until what it has and the task are
    done; exact for one processor. O(hosts).
    """
    after = np.empty(len(needs))
    for host in range(len(needs)):
        if found[host].load < hosts[host].processors:
            after[host] = max(found[host].release, date + needs[host])
        else:
            after[host] = found[host].release + needs[host] / hosts[host].processors
    return after


@kernel(allocates=True)
def best_hosts(
    now: float,
    date: float,
    request: MappingRequest,
    eligible: Flags,
    needs: Floats,
    hosts: Rows,
    bandwidths: Floats,
    memory_weight: float,
    found: Rows,
) -> Ints:
    """Return the hosts that are best by criterion (1), ascending; fewer if there are not enough."""
    after, weights = release_after(date, needs, hosts, found), np.empty(len(needs))
    for host in range(len(needs)):
        used = found[host].memory + request.memory
        weights[host] = 1.0 + used * memory_weight / hosts[host].memory
    chosen = choose(request.tasks, now, eligible, after, weights, request.sent, hosts, bandwidths)
    is_chosen = np.zeros(len(needs), np.bool_)
    for host in chosen:
        is_chosen[host] = True
    place = 0
    for host in range(len(needs)):
        if is_chosen[host]:
            chosen[place] = host
            place += 1
    return chosen


@kernel(allocates=True)
def choose(
    wanted: int,
    now: float,
    eligible: Flags,
    after: Floats,
    weights: Floats,
    sent: float,
    hosts: Rows,
    bandwidths: Floats,
) -> Ints:
    """Choose hosts, the best first; fewer than wanted if there are not enough.

    The best host is the one with the least criterion (1): release date, counted from
    ``now`` (t_0), times ``weights`` (1 + M_u · M_f / M_t); ties go to the lowest
    host. Tasks that communicate are mapped one after the other, and the time for that
    over the worst bandwidth to the hosts chosen so far adds to the release date.
    O(wanted × hosts), and O(hosts) where better hosts come first.
    """
    chosen = np.empty(wanted, np.int64)
    if sent <= 0.0 or wanted < 2:
        return chosen[: choose_apart(now, eligible, after, weights, chosen)]
    slowest, free = np.empty(len(bandwidths)), np.empty(len(after), np.bool_)
    for group in range(len(slowest)):
        slowest[group] = np.inf
    for host in range(len(free)):
        free[host] = eligible[host]
    count, worst = 0, np.inf
    while count < wanted:
        best, least = -1, np.inf
        for host in range(len(free)):
            if free[host]:
                bandwidth = min(worst, slowest[hosts[host].group])
                key = (after[host] + sent / bandwidth - now) * weights[host]
                if key < least or best < 0:
                    best, least = host, key
        if best < 0:
            break
        near = hosts[best].group
        worst = min(worst, slowest[near])
        free[best] = False
        chosen[count] = best
        count += 1
        for group in range(len(slowest)):
            slowest[group] = min(slowest[group], bandwidths[near, group])
    return chosen[:count]


@kernel(allocates=True)
def choose_apart(now: float, eligible: Flags, after: Floats, weights: Floats, chosen: Ints) -> int:
    """Write the hosts with the least criteria, the best first, and return how many there are."""
    keys, count = np.empty(len(chosen)), 0
    for host in range(len(after)):
        if not eligible[host]:
            continue
        key = (after[host] - now) * weights[host]
        if count < len(chosen):
            count += 1
        elif not key < keys[count - 1]:
            continue
        place = count - 1
        while place > 0 and key < keys[place - 1]:
            keys[place], chosen[place] = keys[place - 1], chosen[place - 1]
            place -= 1
        keys[place], chosen[place] = key, host
    return count


@kernel(allocates=True)
def network_seconds(chosen: Ints, sent: float, hosts: Rows, bandwidths: Floats) -> float:
    """Return D_r / min B for tasks on these hosts (s). O(tasks + groups²)."""
    if sent <= 0.0 or len(chosen) < 2:
        return 0.0
    tasks = np.zeros(len(bandwidths), np.int64)
    for host in chosen:
        tasks[hosts[host].group] += 1
    slowest = np.inf
    for one in range(len(bandwidths)):
        for other in range(one, len(bandwidths)):
            # Two different hosts are needed, also of one group.
            if tasks[one] and tasks[other] and (one != other or tasks[one] > 1):
                slowest = min(slowest, bandwidths[one, other])
    return sent / slowest


@kernel
def longest_transfer(sent: float, bandwidths: Floats) -> float:
    """Return the longest that communication can take (s)."""
    slowest = np.inf
    for one in range(len(bandwidths)):
        for other in range(len(bandwidths)):
            slowest = min(slowest, bandwidths[one, other])
    return float(sent / slowest)


@kernel
def first_gap(
    dates: Floats,
    request: MappingRequest,
    eligible: Flags,
    needs: Floats,
    lengths: Floats,
    network: float,
    slots: Ints,
    mapped: Rows,
    tasks: Rows,
    gaps: Floats,
    free: Flags,
) -> int:
    """Return the place of the first date at which enough hosts are free for long enough, or -1.

    All tasks take as long as the slowest host does, so hosts are tried by their speed: those that
    need no longer than one of the ``lengths`` (ascending), as short as possible. Communication
    adds ``network`` to each (s). The hosts are written to ``free``; ``gaps`` is room.
    O(dates × (hosts + entries)) for equal hosts.
    """
    latest_end = request.deadline + PLAN_TOLERANCE
    for index in range(len(dates)):
        date = dates[index]
        if len(lengths) == 0 or date + (lengths[0] + network) > latest_end:
            break
        write_gaps(date, eligible, slots, mapped, tasks, gaps)
        for place in range(len(lengths)):
            length = lengths[place] + network
            if date + length > latest_end:
                break
            found = 0
            for host in range(len(gaps)):
                free[host] = needs[host] + network <= length and gaps[host] >= (
                    length - PLAN_TOLERANCE
                )
                found += free[host]
            if found >= request.tasks:
                return index
    return -1


@kernel
def write_gaps(
    date: float, eligible: Flags, slots: Ints, mapped: Rows, tasks: Rows, gaps: Floats
) -> None:
    """Write for how long each host is free from a date on (s), -1 where it is not."""
    for host in range(len(gaps)):
        gaps[host] = np.inf if eligible[host] else -1.0
    for slot in slots:
        row = mapped[slot]
        if row.end <= date + PLAN_TOLERANCE:
            continue
        gap = row.start - date
        if gap <= PLAN_TOLERANCE:
            gap = -1.0
        for entry in range(row.first, row.first + row.count):
            host = tasks[entry].host
            gaps[host] = min(gaps[host], gap)


@kernel(allocates=True)
def map_alone(
    now: float,
    dates: Floats,
    request: MappingRequest,
    eligible: Flags,
    needs: Floats,
    slots: Ints,
    mapped: Rows,
    tasks: Rows,
    hosts: Rows,
    bandwidths: Floats,
    memory_weight: float,
    lengths: Floats,
) -> bool:
    """Plan an application that has to be alone on its hosts: no other end changes.

    Parameters
    ----------
    dates
        Start dates to try, ascending (s).
    needs
        t_c(m), seconds that a task needs on each host alone, without communication.
    mapped, tasks
        Get start, end and hosts of the application.
    lengths
        The different needs of the eligible hosts, ascending (s).
    """
    gaps, free = np.empty(len(needs)), np.empty(len(needs), np.bool_)
    # The time for communication depends on the hosts: it is guessed as none, as that of the
    # hosts found with this guess, and as the longest there is.
    network = 0.0
    for guess in range(3):
        added = network if guess < 2 else longest_transfer(request.sent, bandwidths)
        index = first_gap(
            dates, request, eligible, needs, lengths, added, slots, mapped, tasks, gaps, free
        )
        if index < 0:
            return False
        date = dates[index]
        found = survey(date, slots, mapped, tasks, len(needs))
        chosen = best_hosts(
            now, date, request, free, needs, hosts, bandwidths, memory_weight, found
        )
        network = network_seconds(chosen, request.sent, hosts, bandwidths)
        if network <= added:
            place(request, date, chosen, needs, network, mapped, tasks)
            return True
    return False


@kernel(allocates=True)
def map_shared(
    now: float,
    dates: Floats,
    request: MappingRequest,
    eligible: Flags,
    needs: Floats,
    slots: Ints,
    mapped: Rows,
    tasks: Rows,
    hosts: Rows,
    bandwidths: Floats,
    memory_weight: float,
    revisions: int,
) -> bool:
    """Plan an application at the first date at which every constraint is kept with it.

    At each date, hosts without risk are tried, revised up to ``revisions`` times, then
    once all that are possible. From the second date on, the survey counts the
    application itself where it was tried last. Parameters as :func:`map_alone`.
    """
    allowed = np.empty(len(needs), np.bool_)
    for date in dates:
        found = survey(date, slots, mapped, tasks, len(needs))
        latest_end = min(request.deadline, date + request.walltime)
        risky = risky_hosts(date, needs, latest_end, slots, mapped, tasks, hosts, found)
        for attempts in (revisions + 1, 1):
            allow(date, request, eligible, needs, risky, found, allowed)
            for _ in range(attempts):
                chosen = best_hosts(
                    now, date, request, allowed, needs, hosts, bandwidths, memory_weight, found
                )
                if len(chosen) < request.tasks:
                    break
                network = network_seconds(chosen, request.sent, hosts, bandwidths)
                place(request, date, chosen, needs, network, mapped, tasks)
                blamed, where = keeps(now, slots, request.slot, mapped, tasks, hosts)
                if blamed == KEPT:
                    return True
                if not rule_out(allowed, request.slot, blamed, where, mapped, tasks, hosts, found):
                    break
            for host in range(len(risky)):
                risky[host] = False
    return False


@kernel
def allow(
    date: float,
    request: MappingRequest,
    eligible: Flags,
    needs: Floats,
    risky: Flags,
    found: Rows,
    allowed: Flags,
) -> None:
    """Write which hosts are possible at a date and no risk. O(hosts)."""
    for host in range(len(allowed)):
        end = date + needs[host]
        allowed[host] = (
            eligible[host]
            and not risky[host]
            and found[host].next_exclusive >= end - PLAN_TOLERANCE
            and end <= request.deadline + PLAN_TOLERANCE
        )


@kernel
def rule_out(
    allowed: Flags,
    slot: int,
    blamed: int,
    where: int,
    mapped: Rows,
    tasks: Rows,
    hosts: Rows,
    found: Rows,
) -> bool:
    """Rule out hosts that are to blame for a broken constraint; tell if there were any."""
    first, end = mapped[slot].first, mapped[slot].first + mapped[slot].count
    ruled_out = False
    for entry in range(first, end):
        if tasks[entry].host == where:
            allowed[where], ruled_out = False, True
    if ruled_out:
        return True
    if blamed == slot:
        # Its own deadline: it progresses at the rate of its worst host.
        longest = 0.0
        for entry in range(first, end):
            longest = max(longest, crowded_seconds(tasks[entry], hosts, found))
        for entry in range(first, end):
            if crowded_seconds(tasks[entry], hosts, found) >= longest:
                allowed[tasks[entry].host] = False
        return True
    for other in range(mapped[blamed].first, mapped[blamed].first + mapped[blamed].count):
        for entry in range(first, end):
            if tasks[entry].host == tasks[other].host:
                allowed[tasks[entry].host], ruled_out = False, True
    if ruled_out:
        return True
    for entry in range(first, end):
        # It slows a third one that slows the other: idle hosts slow none.
        host = tasks[entry].host
        if found[host].release > mapped[slot].start + PLAN_TOLERANCE:
            allowed[host], ruled_out = False, True
    return ruled_out


@kernel
def crowded_seconds(task: Any, hosts: Rows, found: Rows) -> float:
    """Return how long a task takes beside what is on its host at a date (s)."""
    crowd = (found[task.host].load + 1) / hosts[task.host].processors
    return float(task.need * max(1.0, crowd))


@kernel
def place(
    request: MappingRequest,
    start: float,
    chosen: Ints,
    needs: Floats,
    network: float,
    mapped: Rows,
    tasks: Rows,
) -> None:
    """Plan an application on these hosts. O(tasks)."""
    row = mapped[request.slot]
    longest = 0.0
    for index in range(len(chosen)):
        task = tasks[row.first + index]
        task.host = chosen[index]
        task.need = needs[chosen[index]] + network
        longest = max(longest, task.need)
    row.count = len(chosen)
    row.start = start
    row.end = start + longest
    row.deadline = demanded_end(request.deadline, request.walltime, longest, start)


class Mapper:
    """Maps applications into a book so that every constraint stays kept.

    Parameters
    ----------
    book
        Its predicted ends have to be those of now.
    memory_weight
        M_f of criterion (1).
    revisions
        How often the choice of hosts is revised at one start date.

    Attributes
    ----------
    available
        Which hosts may be used.
    """

    def __init__(
        self, machine: UnequalHosts, book: Book, memory_weight: float, revisions: int
    ) -> None:
        self.machine = machine
        self.book = book
        self.available: Flags = np.ones(len(machine), np.bool_)
        self._memory_weight = memory_weight
        self._revisions = revisions

    def map(
        self, application: Application, *, after: float = -math.inf, before: float = math.inf
    ) -> int | None:
        """Map an application and return its slot, or None if that is impossible.

        Start dates are tried from ``after`` on, up to ``before`` (s).
        """
        needs = self.machine.needs(application.work)
        eligible = self.available
        if application.only_hosts is not None:
            eligible = np.zeros(len(eligible), np.bool_)
            eligible[list(application.only_hosts)] = True
            eligible &= self.available
        # Rather nowhere where it would be killed before it is done.
        in_time = eligible & (needs <= application.walltime + PLAN_TOLERANCE)
        if int(in_time.sum()) >= application.tasks:
            eligible = in_time
        dates = self._dates(application, needs, before)
        dates = dates[dates >= after]
        if not len(dates) or int(eligible.sum()) < application.tasks:
            return None
        book = self.book
        slot = book.open(application)
        exclusive, sent = application.exclusive, application.work.sent
        request = MappingRequest(
            slot,
            application.tasks,
            float(application.memory),
            float(sent),
            float(application.deadline),
            math.inf if exclusive else float(application.walltime),
        )
        communicates = sent > 0 and application.tasks > 1
        common = (
            book.date, dates, request, eligible, needs, book.slots, book.mapped, book.tasks,
            book.hosts, self.machine.bandwidths if communicates else _NONE, self._memory_weight,
        )  # fmt: skip
        if exclusive:
            found = map_alone(*common, np.unique(needs[eligible]))
        else:
            found = map_shared(*common, self._revisions)
        if found:
            return slot
        book.remove(slot)
        return None

    def keeps(self, slot: int) -> bool:
        """Predict whether every constraint is kept as an application is planned.

        If so, the predicted ends are those with it from now on.
        """
        book = self.book
        blamed, _ = keeps(book.date, book.slots, slot, book.mapped, book.tasks, book.hosts)
        return bool(blamed == KEPT)

    def _dates(self, application: Application, needs: Floats, before: float) -> Floats:
        """Return the start dates t_b to try, ascending."""
        book = self.book
        now = book.date
        latest = min(application.latest_start, application.deadline - float(needs.min()))
        ends = book.mapped["end"][book.slots]
        later = np.maximum(ends[ends > now + PLAN_TOLERANCE], now + SOONEST_LATER)
        dates = np.concatenate(([now], np.unique(later[later <= latest + PLAN_TOLERANCE])))
        dates = dates[(dates < before - PLAN_TOLERANCE) & (dates < math.inf)]
        return dates if now <= latest + PLAN_TOLERANCE else dates[:0]


YOUNGEST = 1.0
"""Seconds that an application has run at least when it is stopped.

Batsim breaks off if it is told to kill a job that has not really started yet, which
takes moments on a platform with latencies.
"""


class Stopped(msgspec.Struct, frozen=True):
    """Running job that has to be stopped, and the remainder that goes on later."""

    stopped: Taken
    rest: Application


class Fallbacks:
    """Makes room for applications.

    Parameters
    ----------
    moves, stops
        How many applications are tried to be moved and stopped, at most.
    name_of_rest
        Returns the name of the job by which a job would go on; None if it cannot be
        stopped.
    """

    def __init__(
        self,
        mapper: Mapper,
        moves: int,
        stops: int,
        name_of_rest: Callable[[Application], str | None],
    ) -> None:
        self._mapper = mapper
        self._moves = moves
        self._stops = stops
        self._name_of_rest = name_of_rest

    def map(self, parts: Sequence[Application]) -> list[Stopped] | None:
        """Map the parts of an application, all or none; make room for them if need be.

        Returns
        -------
        list of Stopped or None
            What has to be stopped for that, mostly nothing; None if they find no place.
        """
        if map_all(self._mapper, parts) or self._by_moving(parts):
            return []
        return self._by_stopping(parts)

    def _by_moving(self, parts: Sequence[Application]) -> bool:
        book = self._mapper.book
        for slots in self._weaker(parts, book.planned_slots(), self._moves):
            moved = [book.take(slot) for slot in slots]
            if self._fit(parts, [each.application for each in moved]):
                return True
            self._put_back(moved)
        return False

    def _by_stopping(self, parts: Sequence[Application]) -> list[Stopped] | None:
        book = self._mapper.book
        for slots in self._weaker(parts, book.running_slots().tolist(), self._stops):
            names = [self._name_of_rest(book.application(slot)) for slot in slots]
            young = book.mapped["ordered"][slots].max() > book.date - YOUNGEST
            if young or None in names or book.mapped["left"][slots].min() <= 0:
                continue
            running = [book.take(slot) for slot in slots]
            rests = [
                each.application.rest(
                    name or "",
                    each.left,
                    book.date - each.ordered,
                    tuple(each.hosts.tolist()),
                )
                for name, each in zip(names, running, strict=True)
            ]
            if self._fit(parts, rests):
                return [Stopped(*pair) for pair in zip(running, rests, strict=True)]
            self._put_back(running)
        return None

    def _fit(self, parts: Sequence[Application], others: Sequence[Application]) -> bool:
        """Map the parts of an application, then others, all or none; tell which."""
        self._mapper.book.refresh()
        if map_all(self._mapper, parts):
            if map_all(self._mapper, others):
                return True
            forget_all(self._mapper.book, parts)
        return False

    def _put_back(self, taken: Sequence[Taken]) -> None:
        book = self._mapper.book
        for each in taken:
            book.put_back(each)
        book.refresh()

    def _weaker(self, parts: Sequence[Application], slots: list[int], most: int) -> list[list[int]]:
        """Return the slots of applications of weaker classes, with all of their jobs.

        The weakest class comes first, in a class the last one to start.
        """
        book = self._mapper.book
        starts = book.mapped["start"]
        weaker = [(slot, book.application(slot)) for slot in slots]
        weaker = [each for each in weaker if each[1].rank > parts[0].rank]
        weaker.sort(key=lambda each: (-each[1].rank, -starts[each[0]], -each[1].arrival))
        found: dict[str, list[int]] = {}
        for slot, application in weaker:
            found.setdefault(application.name, []).append(slot)
        return list(found.values())[:most]


def map_all(mapper: Mapper, parts: Sequence[Application]) -> bool:
    """Map the parts of an application one after the other, all or none; tell which.

    A part that is like the one before it is not tried at dates at which that one found no
    place: there is less room since.
    """
    after = -math.inf
    for index, part in enumerate(parts):
        if index and not part.is_like(parts[index - 1]):
            after = -math.inf
        slot = mapper.map(part, after=after)
        if slot is None:
            forget_all(mapper.book, parts[:index])
            if index:
                mapper.book.refresh()
            return False
        after = float(mapper.book.mapped["start"][slot])
    return True


def forget_all(book: Book, parts: Sequence[Application]) -> None:
    """Take the parts of an application out again."""
    for part in parts:
        book.remove(book.slot_of[part.job.id])
