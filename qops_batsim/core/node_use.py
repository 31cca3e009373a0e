"""What is free now on each host that jobs share."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import Job
from qops_batsim.core.node_profile import can_give
from qops_batsim.core.node_request import HostPart, NodeLayout, NodeRequest, Places
from qops_batsim.core.refusal import Refusal, RefusalKind

if TYPE_CHECKING:
    from qops_batsim.core.capacity import Capacity


class NodeUse:
    """The amounts that are free now on the hosts of a machine.

    Attributes
    ----------
    free
        What row *r* has free of kind *k*, at ``r * kinds + k``.
    jobs
        How many jobs are on each host.
    closed
        Hosts on which no job may start (bits).
    """

    def __init__(self, layout: NodeLayout) -> None:
        self.layout = layout
        self.kinds = layout.kinds
        self.free = array("q", layout.capacity)
        self.jobs = array("q", bytes(8 * layout.rows))
        self.closed = 0

    def fits(self, job: Job) -> bool:
        """Return whether the hosts that a job is to have give what it asks for now. O(places)."""
        places = job.request.held
        if places.size == 0:
            return False
        for place in range(places.size):
            row = places.row_of(place)
            if not self.has(row, places.part_of(place), places.times_of(place)):
                return False
        return not (self.closed and self.closed & places.mask())

    def has(self, row: int, part: HostPart, times: int) -> bool:
        """Return whether a row has the amounts of a part so many times."""
        if part.is_whole and self.jobs[row] > 0:
            return False
        first = row * self.kinds
        for kind in range(self.kinds):
            if self.free[first + kind] < times * part.amounts[kind]:
                return False
        return True

    def take(self, job: Job) -> None:
        """Give a job the hosts that it is to have; they stay its own until :meth:`give`."""
        job.request.used.copy_from(job.request.held)
        job.request.is_used = True
        self.change(job.request.used, -1)

    def give(self, job: Job) -> None:
        """Free what a job has."""
        job.request.is_used = False
        self.change(job.request.used, 1)

    def change(self, places: Places, sign: int) -> None:
        """Take (``sign`` -1) or give (1) the amounts of places. O(places × kinds)."""
        for place in range(places.size):
            part = places.part_of(place)
            row = places.row_of(place)
            first = row * self.kinds
            for kind in range(self.kinds):
                if part.is_whole:
                    more = self.layout.capacity[first + kind]
                else:
                    more = places.times_of(place) * part.amounts[kind]
                self.free[first + kind] += sign * more

            if not part.is_licence:
                self.jobs[row] -= sign

    def put_on(self, job: Job, hosts: int) -> bool:
        """Have a job hold these hosts (bits), each as its request says; return whether the request
        can have just these, and they are free now.

        Parts take the lowest hosts that can give what they ask for, in turn; tasks as many as each
        host has room for.
        """
        request = job.request
        held = request.held
        held.clear(request.parts)
        left = hosts
        for number, part in enumerate(request.parts):
            missing = part.tasks or part.count
            for row in part.candidates:
                if missing == 0:
                    break
                if not part.is_licence and not left >> row & 1:
                    continue
                times = self.room_for(row, part) if part.tasks else int(self.has(row, part, 1))
                if times > 0:
                    times = min(times, missing)
                    held.add(row, number, times)
                    missing -= times
                    if not part.is_licence:
                        left &= ~HostSet.of((row,)).mask
            if missing > 0:
                return False
        return left == 0 and not (self.closed & hosts)

    def room_for(self, row: int, part: HostPart) -> int:
        """Return how many tasks of a part a row has room for now."""
        if part.is_whole and self.jobs[row] > 0:
            return 0
        return part.tasks_in(self.free, row * self.kinds)

    def why_never(self, request: NodeRequest, capacity: Capacity) -> Refusal | None:
        """Return why a request can never be given, None if it still may be."""
        if request.refusal is not None or not capacity.is_final:
            return request.refusal
        there = HostSet.first(self.layout.hosts) - capacity.away
        if can_give(self.layout, request, there.mask):
            return None
        size = self.layout.hosts
        asked = sum(part.count for part in request.parts if not part.is_licence)
        gone = len(capacity.away)
        return Refusal(kind=RefusalKind.HOSTS_GONE, processors=asked, machine_size=size, hosts=gone)
