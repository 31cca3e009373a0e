"""The list algorithm: where and when to map an application (Pascal et al. 2004, section 3.2).

Start dates t_b are tried in order: now, then the predicted ends of mapped tasks. At each, hosts
are ordered by criterion (1), the best taken, and the execution of everything that is mapped is
predicted. If that breaks a constraint, the hosts to blame are revised; when that does not help,
the next date is tried. Dates closer than the tolerance of planning are equal.
"""

from __future__ import annotations

import math

from qops_batsim.schedulers.aroma.application import Application, Placement, SharedHost
from qops_batsim.schedulers.aroma.recurrence import MappingPlan
from qops_batsim.schedulers.aroma.unequal_hosts import UnequalHosts
from qops_batsim.timing import PLAN_TOLERANCE

SOONEST_LATER = 2e-5
"""A planned start is now or at least so much later (seconds): engines call back no sooner."""

SHORTEST_TASK = 5e-5
"""Least time that a task is planned for (seconds).

Work of next to nothing would end at its start, as far as planning can tell, so that an
application that has to be alone could be planned for the same date and go first.
"""

INFINITY = math.inf
_SOONEST_LATER = SOONEST_LATER


class Mapper:
    """Maps applications onto hosts, adding them to the plan (book), if every constraint still
    holds.

    Parameters
    ----------
    book
        Its predicted ends have to be those of now.
    memory_weight
        M_f of criterion (1).
    revisions
        How often the choice of hosts is revised at one start date.
    """

    def __init__(
        self, machine: UnequalHosts, book: MappingPlan, memory_weight: float, revisions: int
    ) -> None:
        self.machine = machine
        self.hosts = machine.hosts
        self.book = book
        self.memory_weight = memory_weight
        self.revisions = revisions

    def map(
        self, application: Application, after: float = -math.inf, before: float = math.inf
    ) -> Placement | None:
        """Plan an application at its first possible start; return its placement, None if it finds
        none.

        Start dates are tried from ``after`` on, up to ``before`` (seconds).
        """
        eligible = self.find_eligible(application)
        self.wanted = application.tasks
        self.deadline = application.deadline
        least = INFINITY
        for host in self.hosts:
            least = min(least, host.need)
        self.latest_start = min(application.latest_start, application.deadline - least)
        self.latest_start += PLAN_TOLERANCE
        self.before = before - PLAN_TOLERANCE
        date = self.book.date
        if date > self.latest_start or date >= self.before or eligible < self.wanted:
            return None
        self.sent = application.work.sent if self.wanted > 1 else 0.0
        if self.sent > 0.0:
            self.bandwidths = self.machine.bandwidths
        self.placement = placement = Placement(application)
        self.book.add(placement)
        while date < after:
            date = self.next_date(date)
        is_mapped = self.map_alone(date) if placement.exclusive else self.map_shared(date)
        if is_mapped:
            return placement
        self.book.remove(placement)
        return None

    def find_eligible(self, application: Application) -> int:
        """Find the hosts on which a task of an application may run, and how long it takes on each;
        return how many hosts these are.

        Rather nowhere where it would be killed before it is done. O(hosts).
        """
        flop = application.work.flop
        seconds = application.work.seconds
        limit = application.walltime + PLAN_TOLERANCE
        eligible = 0
        in_time = 0
        for host in self.hosts:
            # t_c · C(m)
            host.need = max(flop / host.speed + seconds, SHORTEST_TASK)
            host.is_eligible = host.available and application.only_hosts is None

        if application.only_hosts is not None:
            for host in application.only_hosts:
                host.is_eligible = host.available

        for host in self.hosts:
            eligible += host.is_eligible
            in_time += host.is_eligible and host.need <= limit

        if in_time < application.tasks:
            return eligible
        for host in self.hosts:
            host.is_eligible = host.is_eligible and host.need <= limit
        return in_time

    def next_date(self, date: float) -> float:
        """Return the next start date to try: the first predicted end after ``date`` (seconds),
        infinity if there is none.

        O(placements).
        """
        now = self.book.date
        found = INFINITY
        for placement in self.book.placements:
            if placement.end > now + PLAN_TOLERANCE and placement is not self.placement:
                end = max(placement.end, now + _SOONEST_LATER)
                if date < end < found:
                    found = end
        return found if found <= self.latest_start and found < self.before else INFINITY

    # Applications that share hosts

    def map_shared(self, date: float) -> bool:
        """Plan an application that may share hosts, at the first date that keeps every constraint;
        return whether there is one.

        At each date, hosts without risk are tried, revised up to ``revisions`` times, then once
        all that are possible. From the second date on, the survey counts the application itself
        where it was tried last.
        """
        while date < INFINITY:
            self.survey(date)
            latest_end = min(self.deadline, date + self.placement.application.walltime)
            self.mark_risks(date, latest_end)
            if self.try_hosts(date, self.revisions + 1):
                return True
            for host in self.hosts:
                host.is_risky = False
            if self.try_hosts(date, 1):
                return True
            date = self.next_date(date)
        return False

    def try_hosts(self, date: float, attempts: int) -> bool:
        """Try the best hosts at a date, ``attempts`` choices in turn; return whether one keeps all
        constraints.
        """
        placement = self.placement
        for host in self.hosts:
            end = date + host.need
            host.is_allowed = (
                host.is_eligible
                and not host.is_risky
                and host.next_exclusive >= end - PLAN_TOLERANCE
                and end <= self.deadline + PLAN_TOLERANCE
            )

        for _ in range(attempts):
            chosen = self.best_hosts(date)
            if len(chosen) < self.wanted:
                return False
            self.place(date, chosen, self.network_seconds(chosen))
            if self.book.keeps(placement):
                return True
            if not self.rule_out():
                return False

        return False

    def survey(self, date: float) -> None:
        """Find, for each host, the tasks and memory in use at a date, and when it must be alone
        next. O(hosts + entries).
        """
        for host in self.hosts:
            host.crowd = 0
            host.used = 0.0
            host.next_exclusive = INFINITY
            host.release = date

        for placement in self.book.placements:
            if placement.end <= date + PLAN_TOLERANCE:
                continue
            is_there = placement.start <= date + PLAN_TOLERANCE
            for task in placement.tasks:
                host = task.host
                host.release = max(host.release, placement.end)
                if is_there:
                    host.crowd += 1
                    host.used += placement.memory
                    if placement.exclusive:
                        host.next_exclusive = date
                elif placement.exclusive:
                    host.next_exclusive = min(host.next_exclusive, placement.start)

    def mark_risks(self, date: float, latest_end: float) -> None:
        """Mark the hosts on which one more task from a date on may break a constraint.

        A rough upper estimate: the task meets all that is there now as long as it runs; each of
        these loses as much as the task needs, or in proportion to the share that it loses. What
        ends later than that allows is a risk. O(hosts + entries).
        """
        for host in self.hosts:
            end = date + crowded_seconds(host, host.need)
            host.is_risky = end > min(latest_end, host.next_exclusive) + PLAN_TOLERANCE

        for placement in self.book.placements:
            if placement.end <= date + PLAN_TOLERANCE:
                continue
            latest = placement.latest_end
            for task in placement.tasks:
                latest = min(latest, max(task.host.next_exclusive, date))
            if latest == INFINITY:
                continue
            slack = latest - placement.end
            lasting = placement.end - max(placement.start, date)
            for task in placement.tasks:
                host = task.host
                crowd = max(task.host.crowd, 1)
                if crowd >= host.processors and min(host.need, lasting / crowd) > slack:
                    host.is_risky = True

    def rule_out(self) -> bool:
        """Exclude the hosts that broke a constraint; return whether there were any."""
        placement = self.placement
        recurrence = self.book.recurrence
        blamed = recurrence.blamed
        where = recurrence.where
        is_ruled_out = False
        for task in placement.tasks:
            if task.host is where:
                task.host.is_allowed = False
                is_ruled_out = True

        if is_ruled_out:
            return True
        if blamed is placement:
            # Its own deadline: it progresses at the rate of its worst host.
            longest = 0.0
            for task in placement.tasks:
                longest = max(longest, crowded_seconds(task.host, task.need))
            for task in placement.tasks:
                if crowded_seconds(task.host, task.need) >= longest:
                    task.host.is_allowed = False
            return True

        for host in self.hosts:
            host.is_chosen = False
        assert blamed is not None
        for task in blamed.tasks:
            task.host.is_chosen = True
        for task in placement.tasks:
            if task.host.is_chosen:
                task.host.is_allowed = False
                is_ruled_out = True

        if is_ruled_out:
            return True
        for task in placement.tasks:
            # It slows a third one that slows the other: idle hosts slow none.
            if task.host.release > placement.start + PLAN_TOLERANCE:
                task.host.is_allowed = False
                is_ruled_out = True

        return is_ruled_out

    # Applications that are alone

    def map_alone(self, date: float) -> bool:
        """Plan an application that needs its hosts alone, at the first gap from a date on; return
        whether there is one.
        """
        needs = set()
        for host in self.hosts:
            if host.is_eligible:
                needs.add(host.need)

        lengths = sorted(needs)
        # The time for communication depends on the hosts: it is guessed as none, as that of the
        # hosts found with this guess, and as the longest there is.
        network = 0.0
        for guess in range(3):
            added = network if guess < 2 else self.longest_transfer()
            found = self.first_gap(date, lengths, added)
            if found == INFINITY:
                return False
            self.survey(found)
            chosen = self.best_hosts(found)
            network = self.network_seconds(chosen)
            if network <= added:
                self.place(found, chosen, network)
                return True

        return False

    def first_gap(self, date: float, lengths: list[float], network: float) -> float:
        """Return the first date (seconds) from which enough hosts are free for one of these
        lengths, infinity if there is none.

        All tasks take as long as the slowest host does, so hosts are tried by their speed: those
        that need no longer than one of the ``lengths`` (ascending), as short as possible.
        Communication adds ``network`` to each (seconds). These hosts are the allowed ones.
        O(dates × (hosts + entries)) for equal hosts.
        """
        latest_end = self.deadline + PLAN_TOLERANCE
        while date < INFINITY and date + (lengths[0] + network) <= latest_end:
            self.find_gaps(date)
            for need in lengths:
                length = need + network
                if date + length > latest_end:
                    break
                found = 0
                for host in self.hosts:
                    host.is_allowed = (
                        host.need + network <= length and host.gap >= length - PLAN_TOLERANCE
                    )
                    found += host.is_allowed
                if found >= self.wanted:
                    return date

            date = self.next_date(date)

        return INFINITY

    def find_gaps(self, date: float) -> None:
        """Compute how long each host is free from a date on (seconds), -1 where it is not."""
        for host in self.hosts:
            host.gap = INFINITY if host.is_eligible else -1.0
        for placement in self.book.placements:
            if placement.end <= date + PLAN_TOLERANCE:
                continue
            gap = placement.start - date
            if gap <= PLAN_TOLERANCE:
                gap = -1.0
            for task in placement.tasks:
                task.host.gap = min(task.host.gap, gap)

    # The choice of hosts

    def best_hosts(self, date: float) -> list[SharedHost]:
        """Return the best hosts for the application by criterion (1), in order of number; fewer
        than it needs if not enough are allowed.

        That is t_f(m, s) · (1 + M_u(m) · M_f / M_t(m)) with t_f(m, s), the release of a host with
        one more task, from t_0 on. A host whose processors are all busy works on until what it
        has and the task are done; exact for one processor.
        """
        memory = self.placement.memory
        for host in self.hosts:
            if host.crowd < host.processors:
                host.release_after = max(host.release, date + host.need)
            else:
                host.release_after = host.release + host.need / host.processors
            host.weight = 1.0 + (host.used + memory) * self.memory_weight / host.memory
            host.is_chosen = False

        chosen = self.choose_near() if self.sent > 0.0 else self.choose_apart()
        for host in chosen:
            host.is_chosen = True
        found = []
        for host in self.hosts:
            if host.is_chosen:
                found.append(host)
        return found

    def choose_apart(self) -> list[SharedHost]:
        """Return the allowed hosts that rank best by criterion (1), the best first; ties go to the
        lower number.

        O(hosts × log wanted), and the moves of an insertion sort.
        """
        chosen: list[SharedHost] = []
        for host in self.hosts:
            if not host.is_allowed:
                continue
            host.key = (host.release_after - self.book.date) * host.weight
            low = 0
            high = len(chosen)
            if high == self.wanted:
                last = chosen[high - 1]
                if not host.key < last.key:
                    continue
                chosen.pop()
                high -= 1

            while low < high:
                middle = (low + high) >> 1
                other = chosen[middle]
                if host.key < other.key:
                    high = middle
                else:
                    low = middle + 1

            chosen.insert(low, host)

        return chosen

    def choose_near(self) -> list[SharedHost]:
        """Choose hosts for tasks that communicate, one by one, preferring high bandwidth to those
        chosen already.

        The time for that over the worst bandwidth to the hosts chosen so far adds to the release
        date. O(wanted × hosts).
        """
        slowest = [INFINITY] * len(self.bandwidths)
        chosen: list[SharedHost] = []
        worst = INFINITY
        while len(chosen) < self.wanted:
            best: SharedHost | None = None
            least = INFINITY
            for host in self.hosts:
                if not host.is_allowed or host.is_chosen:
                    continue
                bandwidth = min(worst, slowest[host.group])
                after = host.release_after + self.sent / bandwidth
                key = (after - self.book.date) * host.weight
                if best is None or key < least:
                    best = host
                    least = key

            if best is None:
                break
            near = best.group
            worst = min(worst, slowest[near])
            best.is_chosen = True
            chosen.append(best)
            for group in range(len(slowest)):
                slowest[group] = min(slowest[group], self.bandwidths[near][group])

        return chosen

    def network_seconds(self, chosen: list[SharedHost]) -> float:
        """Return how long the communication between tasks on these hosts takes, at the lowest
        bandwidth between them (seconds). O(tasks + groups²).
        """
        if self.sent <= 0.0:
            return 0.0
        tasks = [0] * len(self.bandwidths)
        for host in chosen:
            tasks[host.group] += 1
        slowest = INFINITY
        for one in range(len(tasks)):
            for other in range(one, len(tasks)):
                # Two different hosts are needed, also of one group.
                if tasks[one] and tasks[other] and (one != other or tasks[one] > 1):
                    slowest = min(slowest, self.bandwidths[one][other])
        return self.sent / slowest

    def longest_transfer(self) -> float:
        """Return the communication time at the lowest bandwidth of the machine (seconds)."""
        if self.sent <= 0.0:
            return 0.0
        slowest = INFINITY
        for row in self.bandwidths:
            slowest = min(slowest, min(row))
        return self.sent / slowest

    def place(self, start: float, chosen: list[SharedHost], network: float) -> None:
        """Plan the application to start on the ``chosen`` hosts; communication adds ``network``
        seconds. O(tasks).
        """
        placement = self.placement
        self.book.put_on(placement, chosen, network)
        placement.start = start
        placement.end = start + placement.longest()
        placement.latest_end = placement.demanded_end()


def crowded_seconds(host: SharedHost, need: float) -> float:
    """Return how long a task that takes ``need`` seconds alone takes with the tasks that run on a
    host (seconds).
    """
    crowd = (host.crowd + 1) / host.processors
    return need * max(1.0, crowd)
