"""What is free on each host over future time, where jobs share hosts by amounts.

Counting decides: a part of a request that asks for *n* hosts fits from *t* for *d* seconds if *n*
hosts are able to take it, that is if each has the amounts free throughout. No packing problem is
solved, and what a fit finds are certain hosts, which a plan keeps.

Which hosts (docs/nodes.md, "Which hosts"): those with the least score, ties by the lower number.
The score is ``weight × (K + 1) + idle + left / (K + 1)`` for *K* kinds: *idle* kinds the host has
and the part does not ask for, and *left* is the sum over the others, in their order, of the share
of the host that stays free next to the part. Tasks go where most of them fit.

All dates are on the grid of :mod:`qops_batsim.timing`, and compared exactly.
"""

from __future__ import annotations

from array import array
from typing import Any

from qops_batsim.core.host_bits import HostBits
from qops_batsim.core.job import Job
from qops_batsim.core.node_request import HostPart, NodeLayout, NodeRequest, Places
from qops_batsim.core.profile import Profile
from qops_batsim.core.refusal import Refusal, RefusalKind
from qops_batsim.timing import SHORTEST, end_of, on_grid

INFINITY = float("inf")


class NodeProfile(Profile):
    """An availability profile of hosts with amounts: steps of what is free on each of them.

    Step *s* of row *r* begins at ``dates[r * room + s]``, and lasts until the next one; the last
    one has no end. Neighbouring steps of a row differ. A row whose ``stamp`` is that of another
    profile's row has the same contents, so that copying costs what differs.

    Parameters
    ----------
    layout
        What each host has, all free at first.
    start
        Date from which the profile is known (seconds).
    """

    def __init__(self, layout: NodeLayout, start: float = 0.0) -> None:
        Profile.__init__(self, layout.hosts, start)
        self.layout = layout
        self.rows = layout.rows
        self.kinds = layout.kinds
        self.capacity = layout.capacity
        self.divisor = float(len(layout.machine.kinds) + 1)

        self.begin = on_grid(start)
        self.room_for_steps = 8
        self.sizes = array("q", bytes(8 * self.rows))
        self.stamps = array("q", bytes(8 * self.rows))
        self.dates = array("d", bytes(8 * self.rows * self.room_for_steps))
        self.amounts = array("q", bytes(8 * self.rows * self.room_for_steps * self.kinds))

        # Of one search: by row or candidate.
        self.starts = array("d", bytes(8 * self.rows))
        self.ordered = array("d", bytes(8 * self.rows))
        self.counts = array("q", bytes(8 * self.rows))
        self.able = array("q", bytes(8 * self.rows))
        self.is_taken = array("q", bytes(8 * self.rows))
        self.reset(self.begin, None)

    # Contents

    @property
    def start(self) -> float:
        """The first date of the profile (seconds)."""
        return self.begin

    def reset(self, date: float, everything: Any) -> None:
        """Make all hosts of a set free from ``date`` on, and nothing on others; None: all hosts."""
        self.begin = date
        for row in range(self.rows):
            is_there = everything is None or row >= self.layout.hosts
            self.clear_row(row, is_there or self.is_in(everything, row))

    def is_in(self, hosts: HostBits, row: int) -> bool:
        """Return whether a host is in a set."""
        return bool(hosts.words[row >> 6] >> (row & 63) & 1)

    def clear_row(self, row: int, is_there: bool) -> None:
        """Replace the steps of a row by a single one, in which all is free or nothing is."""
        self.sizes[row] = 1
        self.stamps[row] = self.layout.next_stamp()
        self.dates[row * self.room_for_steps] = self.begin
        first = row * self.room_for_steps * self.kinds
        for kind in range(self.kinds):
            amount = self.capacity[row * self.kinds + kind] if is_there else 0
            self.amounts[first + kind] = amount

    def copy_from(self, other: Profile) -> None:
        """Replace the contents by those of another profile of the machine. O(rows + what
        differs).
        """
        assert isinstance(other, NodeProfile)
        self.copy_rows(other)

    def copy_rows(self, other: NodeProfile) -> None:
        """Copy the rows that differ from those of another profile of the machine."""
        self.begin = other.begin
        while self.room_for_steps < other.room_for_steps:
            self.grow_rows()

        kinds = self.kinds
        for row in range(self.rows):
            if self.stamps[row] == other.stamps[row]:
                continue
            self.stamps[row] = other.stamps[row]
            size = other.sizes[row]
            self.sizes[row] = size

            mine = row * self.room_for_steps
            theirs = row * other.room_for_steps
            for step in range(size):
                self.dates[mine + step] = other.dates[theirs + step]
            mine *= kinds
            theirs *= kinds
            for cell in range(size * kinds):
                self.amounts[mine + cell] = other.amounts[theirs + cell]

    def trim(self, now: float) -> None:
        """Drop the steps that are over at ``now`` (seconds). O(rows + steps dropped)."""
        self.begin = max(self.begin, now)
        for row in range(self.rows):
            first = row * self.room_for_steps
            if self.sizes[row] > 1 and self.dates[first + 1] <= now:
                over = self.step_of(row, now) - first
                self.remove_row_steps(row, 0, over)

    def start_of(self, date: float) -> float:
        """Return minus infinity: jobs are tried from the current date on."""
        return -INFINITY

    # What fits

    def has(self, step: int, row: int, part: HostPart) -> bool:
        """Return whether a step (of all rows' steps) has what a part asks for."""
        first = step * self.kinds
        if part.is_whole:
            whole = row * self.kinds
            for kind in range(self.kinds):
                if self.amounts[first + kind] < self.capacity[whole + kind]:
                    return False
            return True
        for kind in range(self.kinds):  # noqa: SIM110 - all() would make a generator
            if self.amounts[first + kind] < part.amounts[kind]:
                return False
        return True

    def step_of(self, row: int, date: float) -> int:
        """Return the step (of all rows' steps) of a row that holds a date. O(log steps)."""
        low = row * self.room_for_steps
        high = low + self.sizes[row]
        # Most dates are those of the first step.
        if high - low > 1 and date < self.dates[low + 1]:
            return low
        while high - low > 1:
            middle = (low + high) >> 1
            if self.dates[middle] <= date:
                low = middle
            else:
                high = middle
        return low

    def next_start(
        self, row: int, part: HostPart, after: float, duration: float, limit: float
    ) -> float:
        """Return the first date from ``after`` on from which a row has what a part asks for;
        infinite if that is not before ``limit``. O(steps).
        """
        step = self.step_of(row, after)
        behind = row * self.room_for_steps + self.sizes[row]
        start = after
        while True:
            # The first step from here on that has it ...
            while not self.has(step, row, part):
                step += 1
                if step == behind or self.dates[step] >= limit:
                    return INFINITY
                start = self.dates[step]
            if start >= limit:
                return INFINITY

            # ... and whether the following ones have it as well until the end.
            end = end_of(start, duration)
            step += 1
            while step < behind and self.dates[step] < end and self.has(step, row, part):
                step += 1
            if step == behind or self.dates[step] >= end:
                return start

    def earliest(self, request: NodeRequest, duration: float, after: float, limit: float) -> float:
        """Return the first date from ``after`` on at which a request fits for ``duration`` seconds,
        and the hosts that it finds there (``found``); infinite if that is not before ``limit``.

        Each host tells its next possible start; before the date by which as many as asked have one
        nothing fits, and those that were earlier are asked again. O(steps of all hosts) a round,
        with one or two rounds as a rule.
        """
        parts = request.parts
        if len(parts) == 0:
            return INFINITY
        if request.is_single:
            start = self.first_date(parts[0], after, duration, limit, 0)
            if start < INFINITY:
                self.choose_found(parts, request.found, start, end_of(start, duration))
            return start

        start = after
        while True:
            start = self.common_date(parts, start, duration, limit)
            if start == INFINITY or self.choose_all(
                parts, request.found, start, end_of(start, duration)
            ):
                return start
            # Each part by itself fits, but not all on different hosts.
            start = self.next_step(start)
            if start >= limit:
                return INFINITY

    def common_date(
        self, parts: list[HostPart], after: float, duration: float, limit: float
    ) -> float:
        """Return the first date from ``after`` on at which each part by itself fits."""
        start = after
        agreed = 0
        while agreed < len(parts):
            agreed = 0
            for part in parts:
                date = self.first_date(part, start, duration, limit, 0)
                if date == INFINITY:
                    return INFINITY
                agreed += date == start
                start = date
        return start

    def next_step(self, date: float) -> float:
        """Return the beginning of the first step of any row after a date. O(rows × log steps)."""
        following = INFINITY
        for row in range(self.rows):
            step = self.step_of(row, date) + 1
            if step < row * self.room_for_steps + self.sizes[row]:
                following = min(following, self.dates[step])
        return following

    def first_date(
        self, part: HostPart, after: float, duration: float, limit: float, more: int
    ) -> float:
        """Return the first date from ``after`` on at which a part by itself fits, and ``more``
        hosts could take as much; infinite if that is not before ``limit``.

        What its candidates can take then is known (``starts`` or ``counts``): those are able whose
        next start is that date.
        """
        if part.tasks > 0:
            return self.first_date_of_tasks(part, after, duration, limit)
        count = part.count + more
        if count == 1:
            best = limit
            until = limit
            for place in range(part.size):
                start = self.next_start(part.candidates[place], part, after, duration, until)
                self.starts[place] = start
                if start < best:
                    best = start
                    until = start + SHORTEST
            return best if best < limit else INFINITY

        for place in range(part.size):
            row = part.candidates[place]
            self.starts[place] = self.next_start(row, part, after, duration, limit)
        date = after
        while True:
            for place in range(part.size):
                self.ordered[place] = self.starts[place]
            later = smallest(self.ordered, part.size, count - 1)
            if later == INFINITY or later == date:  # noqa: SIM109 - a tuple would be an object
                return later
            date = later
            for place in range(part.size):
                if self.starts[place] < date:
                    row = part.candidates[place]
                    self.starts[place] = self.next_start(row, part, date, duration, limit)

    def may_take(self, row: int, part: HostPart, date: float, duration: float) -> bool:
        """Return whether a row can take some of a part from a date on. O(log hosts + steps)."""
        if not part.has_candidate(row):
            return False
        if part.tasks > 0:
            return self.tasks_on(row, part, date, end_of(date, duration)) > 0
        return self.next_start(row, part, date, duration, date + SHORTEST) < INFINITY

    # Tasks

    def first_date_of_tasks(
        self, part: HostPart, after: float, duration: float, limit: float
    ) -> float:
        """Return the first date from ``after`` on at which tasks fit that may share hosts.

        Until one of the hosts can take more of them than at a date, all together cannot.
        """
        # From ``starts`` on a host may have more room than ``counts``, not before.
        date = after
        is_only = date + SHORTEST >= limit
        is_enough = True
        while date < limit:
            # What was counted at an earlier date is at most too high.
            is_last = is_enough
            end = end_of(date, duration)
            following = INFINITY
            for place in range(part.size):
                if is_last or self.starts[place] <= date:
                    row = part.candidates[place]
                    most = self.tasks_on(row, part, date, end)
                    self.counts[place] = most
                    self.starts[place] = INFINITY
                    if most < part.tasks and not is_only:
                        self.starts[place] = self.more_from(row, part, date, end, most)
                following = min(following, self.starts[place])
            is_enough = self.most_together(part) >= part.tasks
            if is_enough and is_last:
                return date
            if not is_enough:
                date = following
        return INFINITY

    def tasks_at(self, step: int, row: int, part: HostPart) -> int:
        """Return how many tasks of a part a step has room for, at most all of them."""
        if part.is_whole and not self.has(step, row, part):
            return 0
        # As HostPart.tasks_in, to which to pass the amounts costs more than to look at them.
        first = step * self.kinds
        most = part.tasks
        for kind in range(self.kinds):
            asked = part.amounts[kind]
            if asked > 0:
                free = self.amounts[first + kind]
                if free < asked:
                    return 0
                most = min(most, free // asked)
        return most

    def tasks_on(self, row: int, part: HostPart, date: float, end: float) -> int:
        """Return how many tasks of a part a row has room for throughout an interval."""
        step = self.step_of(row, date)
        behind = row * self.room_for_steps + self.sizes[row]
        most = self.tasks_at(step, row, part)
        step += 1
        while most > 0 and step < behind and self.dates[step] < end:
            most = min(most, self.tasks_at(step, row, part))
            step += 1
        return most

    def more_from(self, row: int, part: HostPart, date: float, end: float, most: int) -> float:
        """Return the first date from which a row may have room for more than ``most`` tasks: when
        the last step in the interval that has no more is over.
        """
        first = self.step_of(row, date)
        behind = row * self.room_for_steps + self.sizes[row]
        last = first
        step = first
        while step < behind and (step == first or self.dates[step] < end):
            if self.tasks_at(step, row, part) <= most:
                last = step
            step += 1
        return self.dates[last + 1] if last + 1 < behind else INFINITY

    def most_together(self, part: HostPart) -> int:
        """Return how many tasks as many hosts as allowed take together (``counts``)."""
        # As many hosts as tasks are never too few.
        if part.count >= min(part.size, part.tasks):
            total = 0
            for place in range(part.size):
                total += self.counts[place]
            return total
        for place in range(part.size):
            self.ordered[place] = -self.counts[place]
        least = smallest(self.ordered, part.size, part.count - 1)
        total = 0
        counted = 0
        for place in range(part.size):
            if -self.counts[place] < least:
                total += self.counts[place]
                counted += 1
        return total - int(least) * (part.count - counted)

    # Which hosts

    def has_place(self, parts: list[HostPart]) -> bool:
        """Return whether all parts find different hosts at the first date of the profile."""
        return self.choose_all(parts, Places(), self.begin, end_of(self.begin, 1.0))

    def choose_all(self, parts: list[HostPart], found: Places, date: float, end: float) -> bool:
        """Set ``found`` to the hosts of all parts in an interval; return whether each part, in
        turn, finds some that no earlier part has.
        """
        found.clear(parts)
        chosen = True
        for number in range(len(parts)):
            part = parts[number]
            if part.tasks > 0:
                self.count_tasks(part, date, end)
                chosen = chosen and self.choose_for_tasks(part, found, number)
            else:
                for place in range(part.size):
                    self.starts[place] = date
                chosen = chosen and self.choose(part, found, number, date, end)
        if len(parts) > 1:
            for place in range(found.size):
                self.is_taken[found.row_of(place)] = 0
        return chosen

    def choose_found(self, parts: list[HostPart], found: Places, date: float, end: float) -> None:
        """Set ``found`` to the hosts of the only part at the date that was just found for it."""
        found.clear(parts)
        if parts[0].tasks > 0:
            self.choose_for_tasks(parts[0], found, 0)
        else:
            self.choose(parts[0], found, 0, date, end)

    def choose(self, part: HostPart, found: Places, number: int, date: float, end: float) -> bool:
        """Add the hosts with the least scores to ``found``, of those whose ``starts`` are the date;
        return whether there are enough.
        """
        best = INFINITY
        chosen = -1
        able = 0
        for place in range(part.size):
            row = part.candidates[place]
            score = INFINITY
            if self.starts[place] == date and self.is_taken[row] == 0:
                score = self.score(row, part, part.tiers[place], date, end)
            self.starts[place] = score
            able += score < INFINITY
            if score < best:
                best = score
                chosen = row
        if able < part.count:
            return False
        if part.count == 1:
            self.take_place(found, chosen, number, 1)
            return True

        # All below the n-th smallest score, and of those with that score the lowest.
        for place in range(part.size):
            self.ordered[place] = self.starts[place]
        worst = smallest(self.ordered, part.size, part.count - 1)
        missing = part.count
        for place in range(part.size):
            if self.starts[place] < worst:
                self.take_place(found, part.candidates[place], number, 1)
                missing -= 1
        for place in range(part.size):
            if missing > 0 and self.starts[place] == worst:
                self.take_place(found, part.candidates[place], number, 1)
                missing -= 1
        return True

    def choose_within(self, job: Job, hosts: HostBits) -> bool:
        """Have a job hold hosts of a set that give what it asks for at the first date of the
        profile; return whether there are enough. O(rows × kinds).
        """
        request = job.request
        for row in range(self.layout.hosts):
            self.is_taken[row] = 1 - self.is_in(hosts, row)
        end = end_of(self.begin, SHORTEST)
        is_found = len(request.parts) > 0
        is_found = is_found and self.choose_all(request.parts, request.found, self.begin, end)
        for row in range(self.layout.hosts):
            self.is_taken[row] = 0
        if is_found:
            request.held.copy_from(request.found)
        return is_found

    def take_place(self, found: Places, row: int, number: int, times: int) -> None:
        """Add a place for a part to ``found``; later parts look elsewhere."""
        found.add(row, number, times)
        if len(found.parts) > 1:
            self.is_taken[row] = 1

    def score(self, row: int, part: HostPart, tier: float, date: float, end: float) -> float:
        """Return the score of a row for a part in an interval, infinite if it is not able."""
        step = self.step_of(row, date)
        if not self.has(step, row, part):
            return INFINITY
        behind = row * self.room_for_steps + self.sizes[row]
        last = step + 1
        while last < behind and self.dates[last] < end:
            if not self.has(last, row, part):
                return INFINITY
            last += 1

        left = 0.0
        for kind in range(self.kinds):
            asked = part.amounts[kind]
            if asked == 0:
                continue
            has = self.capacity[row * self.kinds + kind]
            least = has
            for one in range(step, last):
                least = min(least, self.amounts[one * self.kinds + kind])
            left += (least - asked) / has
        return tier + left / self.divisor

    def count_tasks(self, part: HostPart, date: float, end: float) -> None:
        """Count for how many tasks there is room in an interval (``counts``), on hosts that no
        other part has.
        """
        for place in range(part.size):
            row = part.candidates[place]
            is_other = self.is_taken[row] == 1
            self.counts[place] = 0 if is_other else self.tasks_on(row, part, date, end)

    def choose_for_tasks(self, part: HostPart, found: Places, number: int) -> bool:
        """Add hosts for tasks to ``found``, those first on which most fit (``counts``); return
        whether all tasks find room. O(candidates + hosts taken × those with room).
        """
        able = 0
        for place in range(part.size):
            if self.counts[place] > 0:
                self.able[able] = place
                able += 1

        missing = part.tasks
        for _ in range(min(part.count, able)):
            best = self.able[0]
            for index in range(1, able):
                place = self.able[index]
                more = self.counts[place] - self.counts[best]
                if more > 0 or (more == 0 and part.tiers[place] < part.tiers[best]):
                    best = place
            if self.counts[best] == 0:
                return False
            many = min(missing, self.counts[best])
            self.take_place(found, part.candidates[best], number, many)
            self.counts[best] = 0
            missing -= many
            if missing == 0:
                return True
        return False

    # Reservations of jobs

    def fit(self, job: Job, after: float) -> float:
        """Return the earliest fit (seconds) of a job, and have it hold the hosts found there."""
        start = self.earliest(job.request, job.duration, after, INFINITY)
        if start < INFINITY:
            job.request.held.copy_from(job.request.found)
        return start

    def fits_at(self, job: Job, date: float) -> bool:
        """Return whether a job fits from a date on (seconds); if so, it holds the hosts found."""
        start = self.earliest(job.request, job.duration, date, date + SHORTEST)
        if start == INFINITY:
            return False
        job.request.held.copy_from(job.request.found)
        return True

    def try_fit(self, job: Job, after: float) -> float:
        """Return the earliest fit (seconds) of a job; the hosts found are those of the next
        :meth:`take_found`.
        """
        return self.earliest(job.request, job.duration, after, INFINITY)

    def fit_with_room(self, job: Job, after: float, headroom: int) -> float:
        """Return the earliest fit (seconds) of a job such that ``headroom`` more hosts could take
        as much, or as many of these as there are; infinite if there are none.
        """
        request = job.request
        if not request.is_single or request.parts[0].tasks > 0:
            return INFINITY
        part = request.parts[0]
        room = min(headroom, part.size - part.count)
        if room <= 0:
            return INFINITY
        start = self.first_date(part, after, job.duration, INFINITY, room)
        if start < INFINITY:
            end = end_of(start, job.duration)
            self.choose_all(request.parts, request.found, start, end)
        return start

    def spare_beside(self, job: Job, start: float, end: float) -> int:
        """Return 0 if a job fits between two dates (seconds), and -1 if it does not."""
        request = job.request
        is_free = self.choose_all(request.parts, request.found, start, end)
        return 0 if is_free and request.parts else -1

    def move(self, job: Job, after: float, limit: float) -> bool:
        """Move a planned job to its earliest fit if that is earlier than its start; return whether
        it is.
        """
        planned = job.start
        end = end_of(planned, job.duration)
        self.give(job, planned, end)
        start = self.earliest(job.request, job.duration, after, planned)
        if start == INFINITY:
            self.take(job, planned, end)
            return False
        job.request.held.copy_from(job.request.found)
        job.start = start
        self.take(job, start, end_of(start, job.duration))
        return True

    def take(self, job: Job, start: float, end: float) -> None:
        """Reserve what a job holds from ``start`` to ``end`` (seconds)."""
        self.change_places(job.request.held, start, end, -1)

    def give(self, job: Job, start: float, end: float) -> None:
        """Release what a job holds from ``start`` to ``end`` (seconds)."""
        self.change_places(job.request.held, start, end, 1)

    def take_found(self, job: Job, start: float, end: float) -> None:
        """Reserve what the last :meth:`try_fit` found for a job, which is tried there."""
        if start < INFINITY:
            job.request.tried.copy_from(job.request.found)
            self.change_places(job.request.tried, start, end, -1)

    def take_as_found(self, job: Job, start: float, end: float) -> None:
        """Reserve what a search in this or another profile found for a job, which is tried
        there.
        """
        self.take_found(job, start, end)

    def take_tried(self, job: Job, start: float, end: float) -> None:
        """Reserve the hosts on which a job is tried from ``start`` to ``end`` (seconds)."""
        self.change_places(job.request.tried, start, end, -1)

    def give_tried(self, job: Job, start: float, end: float) -> None:
        """Release the hosts on which a job is tried from ``start`` to ``end`` (seconds)."""
        self.change_places(job.request.tried, start, end, 1)

    def take_amount(self, start: float, end: float, amount: Any) -> None:
        """Reserve places, or the whole hosts of a set (HostBits), from ``start`` to ``end``."""
        if isinstance(amount, Places):
            self.change_places(amount, start, end, -1)
            return
        for row in range(self.layout.hosts):
            if self.is_in(amount, row):
                self.change_row(row, None, 1, start, end, -1)

    def has_amount(self, start: float, end: float, amount: Any) -> bool:
        """Return whether what places take is free between two dates (seconds)."""
        return self.are_free(amount, start, end)

    def find_at(self, job: Job, start: float, end: float) -> bool:
        """Find a job's hosts between two dates (seconds): those that it holds if it is planned at
        that start and they are free, else those of the rule; return whether there are any.
        """
        request = job.request
        if start == job.start and request.held.size and self.are_free(request.held, start, end):
            request.found.copy_from(request.held)
            return True
        return self.spare_beside(job, start, end) >= 0

    def give_amount(self, start: float, end: float, places: Places) -> None:
        """Release places from ``start`` to ``end`` (seconds)."""
        self.change_places(places, start, end, 1)

    def are_free(self, places: Places, start: float, end: float) -> bool:
        """Return whether places are free between two dates (seconds). O(places × steps)."""
        for place in range(places.size):
            part = places.part_of(place)
            row = places.row_of(place)
            times = places.times_of(place)
            step = self.step_of(row, start)
            behind = row * self.room_for_steps + self.sizes[row]
            while step < behind and self.dates[step] < end:
                for kind in range(self.kinds):
                    needed = times * part.amounts[kind]
                    if part.is_whole:
                        needed = self.capacity[row * self.kinds + kind]
                    if self.amounts[step * self.kinds + kind] < needed:
                        return False
                step += 1
        return True

    # Changes

    def change_places(self, places: Places, start: float, end: float, sign: int) -> None:
        """Take (``sign`` -1) or give (1) the amounts of places between two dates (seconds)."""
        if start == INFINITY or end <= start or end <= self.begin:
            return
        for place in range(places.size):
            part = places.part_of(place)
            self.change_row(places.row_of(place), part, places.times_of(place), start, end, sign)

    def change_row(
        self, row: int, part: HostPart | None, times: int, start: float, end: float, sign: int
    ) -> None:
        """Take or give the amounts of a part so many times on a row, or (None) all that it has.
        O(steps).
        """
        if start == INFINITY or end <= start or end <= self.begin:
            return
        self.stamps[row] = self.layout.next_stamp()
        first = self.split_row(row, max(start, self.begin))
        last = self.sizes[row] if end == INFINITY else self.split_row(row, end)

        base = row * self.room_for_steps
        is_whole = part is None or part.is_whole
        for kind in range(self.kinds):
            if is_whole:
                more = sign * self.capacity[row * self.kinds + kind]
            else:
                assert part is not None
                more = sign * times * part.amounts[kind]
            if more != 0:
                for step in range(base + first, base + last):
                    self.amounts[step * self.kinds + kind] += more

        if last < self.sizes[row] and self.is_same(base + last):
            self.remove_row_steps(row, last, last + 1)
        if first > 0 and self.is_same(base + first):
            self.remove_row_steps(row, first, first + 1)

    def is_same(self, step: int) -> bool:
        """Return whether a step (of all rows' steps) has as much free as the step before."""
        first = step * self.kinds
        for cell in range(first, first + self.kinds):
            if self.amounts[cell] != self.amounts[cell - self.kinds]:
                return False
        return True

    def split_row(self, row: int, date: float) -> int:
        """Return which of a row's steps begins at ``date``; insert it if needed. O(steps)."""
        step = self.step_of(row, date) - row * self.room_for_steps
        if self.dates[row * self.room_for_steps + step] >= date:
            return step
        if self.sizes[row] == self.room_for_steps:
            self.grow_rows()

        kinds = self.kinds
        base = row * self.room_for_steps
        for place in range(base + self.sizes[row], base + step + 1, -1):
            self.dates[place] = self.dates[place - 1]
        low = (base + step + 1) * kinds
        for cell in range((base + self.sizes[row] + 1) * kinds - 1, low - 1, -1):
            self.amounts[cell] = self.amounts[cell - kinds]
        self.dates[base + step + 1] = date
        self.sizes[row] += 1
        return step + 1

    def remove_row_steps(self, row: int, first: int, behind: int) -> None:
        """Remove the steps ``first`` to ``behind - 1`` of a row. O(steps)."""
        removed = behind - first
        base = row * self.room_for_steps
        for place in range(base + behind, base + self.sizes[row]):
            self.dates[place - removed] = self.dates[place]
        cells = removed * self.kinds
        low = (base + behind) * self.kinds
        for cell in range(low, (base + self.sizes[row]) * self.kinds):
            self.amounts[cell - cells] = self.amounts[cell]
        self.sizes[row] -= removed

    def grow_rows(self) -> None:
        """Double the room for steps of each row. O(steps)."""
        room = 2 * self.room_for_steps
        dates = array("d", bytes(8 * self.rows * room))
        amounts = array("q", bytes(8 * self.rows * room * self.kinds))
        # Local variables of these types, of which compilers know that no write changes them.
        new_dates = dates
        new_amounts = amounts
        for row in range(self.rows):
            mine = row * self.room_for_steps
            theirs = row * room
            for step in range(self.sizes[row]):
                new_dates[theirs + step] = self.dates[mine + step]
            mine *= self.kinds
            theirs *= self.kinds
            for cell in range(self.sizes[row] * self.kinds):
                new_amounts[theirs + cell] = self.amounts[mine + cell]
        self.dates = dates
        self.amounts = amounts
        self.room_for_steps = room

    def row_steps(self, row: int) -> list[tuple[float, tuple[int, ...]]]:
        """Return the steps of a row as (date in seconds, amounts free by kind). O(steps)."""
        steps = []
        for step in range(row * self.room_for_steps, row * self.room_for_steps + self.sizes[row]):
            cells = self.amounts[step * self.kinds : (step + 1) * self.kinds]
            steps.append((self.dates[step], tuple(cells)))
        return steps

    def room_at(self, part: HostPart, rows: list[int], date: float) -> list[int]:
        """Return for how many tasks of a part each of these rows has room at a date. O(rows × log
        steps).
        """
        return [self.tasks_at(self.step_of(row, date), row, part) for row in rows]

    def more_room_from(self, part: HostPart, row: int, most: int) -> float:
        """Return the first date from which a row has room for more than ``most`` tasks of a part
        for good.
        """
        return self.more_from(row, part, self.begin, INFINITY, most)

    def check(self, processors: int, least: float = 0) -> None:
        """Raise an AssertionError unless the dates of each row rise and its amounts are within what
        the host has; ``least`` below 0 also allows less than nothing.
        """
        for row in range(self.rows):
            before: tuple[float, tuple[int, ...]] | None = None
            for date, amounts in self.row_steps(row):
                assert date == on_grid(date), f"row {row}: {date!r} is no whole microsecond"
                for kind, amount in enumerate(amounts):
                    has = self.capacity[row * self.kinds + kind]
                    low = 0 if least >= 0 else -INFINITY
                    assert low <= amount <= has, f"row {row} at {date:g}: {amount} of {has} is free"
                if before is not None:
                    assert date > before[0], f"row {row}: {date!r} is not later"
                    assert amounts != before[1], f"row {row} at {date:g}: as much as before"
                before = date, amounts


def request_of(layout: NodeLayout, job: Job) -> NodeRequest:
    """Return what a job asks for of hosts that jobs share, made on first use.

    It is refused where the empty machine cannot give it: by :meth:`NodeLayout.request`, and if its
    parts, in turn, do not find different hosts.
    """
    known: NodeRequest | None = job.request
    if known is not None:
        return known
    request = layout.request(job.hosts_asked, job.processors)
    hosts = [part for part in request.parts if not part.is_licence]
    if len(hosts) > 1 and not NodeProfile(layout).has_place(request.parts):
        refusal = Refusal(
            kind=RefusalKind.AMOUNTS_APART, processors=sum(part.count for part in hosts)
        )
        request = NodeRequest([], refusal, request.size)
    job.request = request
    job.size = request.size
    return request


def can_give(layout: NodeLayout, request: NodeRequest, there: int) -> bool:
    """Return whether the hosts ``there`` (bits) would give what a request asks for if they were
    empty, its parts in turn. O(hosts).
    """
    if not request.parts or there.bit_count() == layout.hosts:
        return len(request.parts) > 0
    profile = NodeProfile(layout)
    profile.reset(0.0, HostBits.of(there, layout.hosts))
    return bool(profile.has_place(request.parts))


def smallest(values: array[float], size: int, rank: int) -> float:
    """Return the value of a rank (0: the least) among the first ``size``, and reorder these.

    O(size) on average: partitions around a middle value until the rank is among equal ones.
    """
    low = 0
    high = size - 1
    while low < high:
        pivot = values[(low + high) >> 1]
        left = low
        right = high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while values[right] > pivot:
                right -= 1
            if left <= right:
                swapped = values[left]
                values[left] = values[right]
                values[right] = swapped
                left += 1
                right -= 1
        if rank <= right:
            high = right
        elif rank >= left:
            low = left
        else:
            break
    return values[rank]
