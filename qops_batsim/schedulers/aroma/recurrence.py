"""The end of a task (Pascal et al. 2004, section 3.2), for tasks that progress together.

The paper follows each host by itself: of X processes on U(m) processors each gets a share
min(1, U/X), and the next event is the start or the end of one of them. Batsim executes all tasks
of a job as one, at one rate. So here the events of all hosts are followed together, and a job
progresses at the least rate that one of its hosts grants it as an equal share. What it leaves of
the shares of its other hosts is lost. For jobs of one task, or on hosts with equal loads, that is
the paper's recurrence; otherwise ends are predicted too late rather than too early
(``docs/aroma.md`` has the proof).
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any

from qops_batsim.schedulers.aroma.application import Application, Placement, SharedHost, Task
from qops_batsim.timing import PLAN_TOLERANCE

INFINITY = math.inf
_START = attrgetter("start")
_NUMBER = attrgetter("number")
_BEGIN = attrgetter("begins")


def granted_rate(placement: Placement) -> float:
    """Return the share of its work per second that an application is sure to get on all its hosts.
    O(tasks).
    """
    rate = INFINITY
    for task in placement.tasks:
        host = task.host
        share = 1.0
        if host.load > host.processors:
            share = host.processors / host.load
        rate = min(rate, share / task.need)
    return rate


class Recurrence:
    """Predicts when applications end, by following their starts and ends one by one.

    Attributes
    ----------
    blamed
        The placement whose constraint the last prediction found broken, or None.
    where
        The host where it is not alone; None if it misses its latest end.
    """

    def __init__(self) -> None:
        self.blamed: Placement | None = None
        self.where: SharedHost | None = None
        self.running: list[Placement] = []
        self.event = 0
        self.search = 0

    def predict(self, now: float, placements: list[Placement], checked: bool) -> bool:
        """Predict the end of each application from the date ``now`` on (seconds); return whether no
        constraint is broken, if that is ``checked``.

        Ends are written to ``predicted``. With ``checked``, stop at the first constraint that is
        broken; return whether there is none. O(events × (running + tasks of those whose rate
        changes)).
        """
        coming = self.begin(now, placements)
        self.blamed = None
        self.where = None
        begun = 0
        while True:
            ending = self.next_to_end()
            first_end = INFINITY if ending is None else ending.next_end
            next_start = coming[begun].begins if begun < len(coming) else INFINITY
            if first_end == INFINITY and next_start == INFINITY:
                break
            self.event += 1
            # An end within the tolerance after a start makes room for it.
            if ending is not None and first_end <= next_start + PLAN_TOLERANCE:
                ending.predicted = first_end
                if checked and first_end > ending.latest_end + PLAN_TOLERANCE:
                    self.blamed = ending
                    return False
                self.leave(ending)
                self.share_anew(first_end, ending, 0)
                continue

            starting = coming[begun]
            begun += 1
            if checked and self.is_disturbed(starting):
                return False
            self.enter(starting)
            starting.touched = self.event
            self.go_on(starting, next_start, granted_rate(starting))
            self.share_anew(next_start, starting, 1)

        if checked:
            for placement in placements:
                if placement.runs and placement.latest_end < INFINITY:
                    self.blamed = placement
                    return False

        return True

    def begin(self, now: float, placements: list[Placement]) -> list[Placement]:
        """Begin a prediction with the placements that run at a date; return the others by start."""
        coming: list[Placement] = []
        self.running = []
        self.clear_hosts(placements)
        for place, placement in enumerate(placements):
            placement.place = place
            placement.to_do = placement.left
            placement.since = now
            placement.next_end = INFINITY
            placement.predicted = INFINITY
            placement.runs = False
            if placement.running:
                self.enter(placement)
            else:
                placement.begins = max(placement.start, now)
                coming.append(placement)

        for placement in self.running:
            self.go_on(placement, now, granted_rate(placement))
        coming.sort(key=_BEGIN)
        return coming

    def clear_hosts(self, placements: list[Placement]) -> None:
        """Reset the load that a prediction counts on the hosts of these applications. O(tasks)."""
        for placement in placements:
            for task in placement.tasks:
                host = task.host
                if host.load > 0:
                    host.load = 0
                    host.users.clear()
                host.alone = None

    def next_to_end(self) -> Placement | None:
        """Return the running application that is predicted to end first, None if none ends.
        O(running).
        """
        found: Placement | None = None
        first = INFINITY
        for placement in self.running:
            if placement.next_end < first:
                first = placement.next_end
                found = placement
            elif (
                found is not None and placement.next_end == first and placement.place < found.place
            ):
                found = placement
        return found

    def is_disturbed(self, starting: Placement) -> bool:
        """Return whether an application that starts would share a host with one that has to be
        alone. O(tasks).
        """
        for task in starting.tasks:
            host = task.host
            if host.alone is not None:
                self.blamed = host.alone
                self.where = host
                return True
            if starting.exclusive and host.load > 0:
                self.blamed = starting
                self.where = host
                return True
        return False

    def enter(self, placement: Placement) -> None:
        """Count an application as running on its hosts in the prediction. O(tasks)."""
        placement.runs = True
        self.running.append(placement)
        for task in placement.tasks:
            host = task.host
            host.load += 1
            host.users.append(task)
            if placement.exclusive:
                host.alone = placement

    def leave(self, placement: Placement) -> None:
        """Remove an application from its hosts in the prediction. O(running + users)."""
        placement.runs = False
        strike_out(self.running, placement)
        for task in placement.tasks:
            host = task.host
            host.load -= 1
            strike_out(host.users, task)
            if host.alone is placement:
                host.alone = None

    def go_on(self, placement: Placement, date: float, pace: float) -> None:
        """Set an application's rate (``pace``, share of the work per second) from a date on."""
        placement.since = date
        placement.pace = pace
        end = date
        if placement.to_do > 0.0:
            end = date + placement.to_do / pace if pace > 0.0 else INFINITY
        placement.next_end = end

    def share_anew(self, date: float, placement: Placement, come: int) -> None:
        """Recompute the rates on the hosts of an application that starts (``come`` 1) or ends (0).

        Who comes can only slow others, to what is left at the common host. Who leaves matters to
        those that got their rate from a common host: only then all their hosts are looked at.
        """
        for task in placement.tasks:
            host = task.host
            if host.load < host.processors + come:
                continue  # Nothing there had to share before, or has to now.
            share = host.processors / (host.load + 1 - come)
            for user in host.users:
                other = user.placement
                if other.touched == self.event:
                    continue
                pace = share / user.need
                if come:
                    pace = min(pace, other.pace)
                elif pace > other.pace:
                    continue
                else:
                    other.touched = self.event
                    pace = granted_rate(other)

                if pace != other.pace:
                    done = other.pace * (date - other.since)
                    other.to_do = max(0.0, other.to_do - done)
                    self.go_on(other, date, pace)

    def keeps(self, now: float, placement: Placement) -> bool:
        """Predict the ends that may change with a new or moved application; return whether all
        constraints hold.

        If so, these ends become those of the placements.
        """
        concerned = self.connected(placement)
        if not self.predict(now, concerned, True):
            return False
        for each in concerned:
            each.end = each.predicted
        return True

    def connected(self, placement: Placement) -> list[Placement]:
        """Return the applications whose ends or constraints may change with a given one, in the
        order of mapping.

        These share a host with it, or with one of these, and so on. An application that is alone
        on its hosts passes nothing on: its end is fixed. O(entries).
        """
        self.search += 1
        placement.reached = self.search
        concerned = [placement]
        hosts = []
        for task in placement.tasks:
            task.host.reached = self.search
            hosts.append(task.host)

        while hosts:
            host = hosts.pop()
            for user in host.tasks:
                other = user.placement
                if other.reached == self.search:
                    continue
                other.reached = self.search
                concerned.append(other)
                if other.exclusive:
                    continue
                for task in other.tasks:
                    if task.host.reached != self.search:
                        task.host.reached = self.search
                        hosts.append(task.host)

        concerned.sort(key=_NUMBER)
        return concerned


def strike_out(listed: list[Any], gone: object) -> None:
    """Remove an item from a list whose order does not matter. O(length)."""
    place = 0
    while listed[place] is not gone:
        place += 1
    last = listed.pop()
    if last is not gone:
        listed[place] = last


class MappingPlan:
    """The plan of AROMA ("book"): all mapped applications, running and planned, with their progress
    at a date.

    Attributes
    ----------
    placements
        What is mapped, in the order of mapping. Ends are those of the last :meth:`refresh`.
    date
        The date that the work ``left`` is about (seconds).
    """

    def __init__(self) -> None:
        self.placements: list[Placement] = []
        self.date = 0.0
        self.recurrence = Recurrence()
        self.added = 0
        self._by_job: dict[str, Placement] = {}

    def of(self, job_id: str) -> Placement | None:
        """Return the placement of the job with this id, None if it is not mapped."""
        return self._by_job.get(job_id)

    def placement_of(self, application: Application) -> Placement:
        """Return the placement of a mapped application."""
        return self._by_job[application.job.id]

    def running(self) -> list[Placement]:
        """Return the running placements in the order of mapping. O(placements)."""
        found = []
        for placement in self.placements:
            if placement.running:
                found.append(placement)
        return found

    def planned(self) -> list[Placement]:
        """Return the planned placements by start, then arrival. O(placements · log)."""
        found = []
        for placement in self.placements:
            if not placement.running:
                found.append(placement)
        found.sort(key=_arrival)
        found.sort(key=_START)
        return found

    def add(self, placement: Placement) -> None:
        """Add an application to the plan, and its tasks to their hosts. O(tasks)."""
        placement.number = self.added
        self.added += 1
        self.placements.append(placement)
        self._by_job[placement.application.job.id] = placement
        for task in placement.tasks:
            task.host.tasks.append(task)

    def remove(self, placement: Placement) -> None:
        """Remove an application from the plan; it can be added again unchanged. O(placements +
        tasks).
        """
        del self._by_job[placement.application.job.id]
        self._drop(self.placements, placement)
        for task in placement.tasks:
            self._drop(task.host.tasks, task)

    def put_on(self, placement: Placement, hosts: list[SharedHost], longer: float) -> None:
        """Move an application to other hosts, where communication adds ``longer`` seconds to each
        task.

        O(tasks).
        """
        for task in placement.tasks:
            self._drop(task.host.tasks, task)
        placement.tasks = []
        for host in hosts:
            task = Task(placement, host, host.need + longer)
            placement.tasks.append(task)
            host.tasks.append(task)

    def _drop(self, listed: list[Any], gone: object) -> None:
        """Remove an item from a list, searching from its end."""
        place = len(listed) - 1
        while listed[place] is not gone:
            place -= 1
        del listed[place]

    # Time

    def advance(self, now: float) -> None:
        """Advance the progress of running applications to the date ``now`` (seconds), at their
        present rates.
        """
        for placement in self.placements:
            if placement.running:
                placement.left -= placement.rate * (now - self.date)
        self.date = now

    def settle(self) -> None:
        """Recompute the rates of running applications from the hosts that they share. O(tasks)."""
        running = self.running()
        self.recurrence.clear_hosts(running)
        for placement in running:
            for task in placement.tasks:
                task.host.load += 1
        for placement in running:
            placement.rate = granted_rate(placement)

    def refresh(self) -> None:
        """Predict all ends again, whether constraints are kept or not."""
        self.recurrence.predict(self.date, self.placements, False)
        for placement in self.placements:
            placement.end = placement.predicted

    def is_kept(self) -> bool:
        """Return whether every constraint is predicted to hold."""
        return self.recurrence.predict(self.date, self.placements, True)

    def keeps(self, placement: Placement) -> bool:
        """Return whether every constraint holds with a new or moved application:
        :meth:`Recurrence.keeps`.
        """
        return self.recurrence.keeps(self.date, placement)

    def overdue(self) -> list[Placement]:
        """Return running applications that should have ended before the date of the plan.
        O(placements).
        """
        found = []
        for placement in self.placements:
            late = -placement.rate * PLAN_TOLERANCE
            if placement.running and placement.ordered < INFINITY and placement.left < late:
                found.append(placement)
        return found

    def next_start(self, after: float) -> float:
        """Return the earliest planned start after a date (seconds), infinite without one."""
        found = INFINITY
        for placement in self.placements:
            if not placement.running and after < placement.start < found:
                found = placement.start
        return found


def _arrival(placement: Placement) -> int:
    return placement.application.arrival
