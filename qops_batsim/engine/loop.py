"""The event loop: workloads under any scheduler.

The order of events is that of :mod:`~qops_batsim.engine.simulation`, to the last bit of each date.
Jobs are known by their index in the order of submission; those that a scheduler registers follow.
Where jobs of a workload do more than sleep on hosts of their own, or decisions come in messages, a
:class:`~qops_batsim.engine.conversation.Conversation` is in the place of the scheduler: it has a
world run the jobs, whose waits are in this loop's heap.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from qops_batsim.core.arrays import LEAST_ROOM, grown
from qops_batsim.core.host_bits import HostBits
from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import OVER, RUNNING, WAITING, Job, WrittenFields
from qops_batsim.core.overrides import check_attributes
from qops_batsim.core.scheduler import ResourceManager, Scheduler
from qops_batsim.errors import require_type
from qops_batsim.job_fields import QosRequest
from qops_batsim.jobs import (
    COMPLETED_KILLED,
    COMPLETED_SUCCESSFULLY,
    COMPLETED_WALLTIME_REACHED,
    FINAL_STATES,
    QOS_REJECTED,
    check_resumable,
    rest_of_delay,
)
from qops_batsim.protocol.events import (
    JOB_CANCELLED,
    MACHINES_AWAY,
    MACHINES_BACK,
    NO_MORE_EXTERNAL_EVENTS,
    NO_MORE_STATIC_JOBS,
    Notify,
)
from qops_batsim.protocol.host_news import note_hosts
from qops_batsim.timing import SAME_DATE, SHORTEST_CALL_DELAY

MESSAGES_PER_REPORT = 1024
"""Messages from one report of progress to the next."""

INFINITY = float("inf")
_SAME_DATE, _SHORTEST_CALL_DELAY = SAME_DATE, SHORTEST_CALL_DELAY
_WAITING, _RUNNING, _OVER, _PER_REPORT = WAITING, RUNNING, OVER, MESSAGES_PER_REPORT
_STATES = FINAL_STATES


def bits_between(low: Any, high: Any) -> int:
    """Return hosts ``low`` to ``high`` as a bit mask."""
    found: int = (1 << int(high) + 1) - (1 << int(low))
    return found


class FreeHosts:
    """The free hosts of a machine as intervals, the lowest last."""

    def __init__(self, hosts: int) -> None:
        room = bytes(8 * (hosts + 1))  # Between two intervals there is a host that is not free.
        self.lows, self.highs = array("q", room), array("q", room)
        self.highs[0], self.size = hosts - 1, 1

    def place_of(self, host: int) -> int:
        """Return the index of the interval of free hosts that a host falls into or follows."""
        begin, end = 0, self.size
        while begin < end:
            middle = (begin + end) >> 1
            if self.lows[middle] > host:
                begin = middle + 1
            else:
                end = middle
        return begin

    def has(self, low: int, high: int) -> bool:
        """Return whether all hosts of an interval are free. O(log intervals)."""
        place = self.place_of(low)
        return place < self.size and self.highs[place] >= high

    def take(self, low: int, high: int) -> None:
        """Remove an interval of free hosts. O(intervals)."""
        place = self.place_of(low)
        first, last = self.lows[place], self.highs[place]
        if first == low and last == high:
            self.remove(place)
        elif first == low:
            self.lows[place] = high + 1
        elif last == high:
            self.highs[place] = low - 1
        else:
            self.lows[place] = high + 1
            self.insert(place + 1, first, low - 1)

    def give_back(self, low: int, high: int) -> None:
        """Add an interval to the free hosts. O(intervals)."""
        place = self.place_of(low)
        # Those before are higher, those from there on are lower.
        joins_higher = place > 0 and self.lows[place - 1] == high + 1
        joins_lower = place < self.size and self.highs[place] == low - 1
        if joins_higher and joins_lower:
            self.lows[place - 1] = self.lows[place]
            self.remove(place)
        elif joins_higher:
            self.lows[place - 1] = low
        elif joins_lower:
            self.highs[place] = high
        else:
            self.insert(place, low, high)

    def insert(self, place: int, low: int, high: int) -> None:
        """Insert an interval. O(intervals)."""
        for later in range(self.size, place, -1):
            self.lows[later], self.highs[later] = self.lows[later - 1], self.highs[later - 1]
        self.lows[place], self.highs[place] = low, high
        self.size += 1

    def remove(self, place: int) -> None:
        """Remove an interval. O(intervals)."""
        self.size -= 1
        for later in range(place, self.size):
            self.lows[later], self.highs[later] = self.lows[later + 1], self.highs[later + 1]

    def set_hosts(self, hosts: HostSet) -> None:
        """Set the free hosts. O(intervals)."""
        self.size = 0
        for low, high in reversed(list(hosts.intervals())):
            self.lows[self.size], self.highs[self.size] = low, high
            self.size += 1

    def mask(self) -> int:
        """Return the mask of the free hosts. O(intervals)."""
        found = 0
        for place in range(self.size):
            low, high = self.lows[place], self.highs[place]
            found |= bits_between(low, high)
        return found

    def count(self) -> int:
        """Return the number of free hosts. O(intervals)."""
        return sum(self.highs[place] - self.lows[place] + 1 for place in range(self.size))

    def check(self, hosts: int) -> None:
        """Raise an AssertionError unless the invariants hold for a machine of a given size."""
        above = hosts
        for place in range(self.size):
            low, high = self.lows[place], self.highs[place]
            assert 0 <= low <= high < above, f"interval {place} is {low}-{high} below {above}"
            above = low - 1


class Turns:
    """Counter that numbers the waits for dates (ends, submissions, calls) in order."""

    def __init__(self) -> None:
        self.began = 0

    def next(self) -> int:
        """Return the number of a wait that begins now."""
        self.began += 1
        return self.began - 1


class EmbeddedManager(ResourceManager):
    """The resource manager of a run whose jobs only sleep.

    ``jobs`` are those that run, by index; ``known`` is how many there are. Jobs may be registered
    if ``registers``, with profiles of plain sleeps; ``added`` are those that the loop does not know
    yet, with their run times (seconds) and final states. Where hosts go away, ``away`` are those
    that are not there, under maintenance as well, and ``taken`` those that jobs have, there or not
    (bits).

    Jobs are killed only where there is a ``registry``
    (:class:`~qops_batsim.engine.registered_jobs.Registry`). A killed job leaves its hosts at once,
    as far as these are counted; the scheduler hears of it, and has its hosts, in the next message.
    ``kills`` are the jobs killed in this message, together in one list if no other call came
    between. Registered jobs that do more than sleep, ``computing_jobs``, are executed by the
    registry's world. ``profiles`` are those of workloads, where there is none.
    """

    def __init__(self, machine_size: int, jobs: int, turns: Turns) -> None:
        super().__init__(machine_size)
        self.hosts = FreeHosts(machine_size)
        self.turns = turns
        self.known = jobs
        self.jobs: list[Any] = [None] * jobs
        self.metadata: dict[int, str] = {}
        self.profiles: Any = {}

        # What was asked for in a message.
        self.started: list[Job] = []
        self.over: list[Job] = []
        self.added: list[tuple[Job, float, str]] = []
        self.calls = 0
        self.call_dates = array("d", bytes(128))
        self.call_numbers = array("q", bytes(128))

        # Kills and registered jobs.
        self.registers = False
        self.registry: Any = None
        self.acknowledges = False
        self.is_deciding = False
        self.kills_last = False
        self.arrived = 0
        self.announced = 0
        self.withdrawn = 0
        self.kills: list[list[Job]] = []
        self.early_kills: list[Job] = []
        self.killed: set[int] = set()
        self.latest: dict[str, Job] = {}
        self.computing_jobs: dict[str, Job] = {}

        # Which hosts each job has, and how many compute after each start and end.
        room = max(jobs, LEAST_ROOM)
        self.busy = 0
        self.used = 0
        self.changes = 0
        self.offsets = array("q", bytes(8 * room))
        self.pieces = array("q", bytes(8 * room))
        self.numbers = array("q", bytes(8 * room))
        self.lows = array("q", bytes(16 * room))
        self.highs = array("q", bytes(16 * room))
        self.change_dates = array("d", bytes(16 * room))
        self.computing = array("q", bytes(16 * room))

        # Where hosts go away.
        self.has_outages = False
        self.away = 0
        self.taken = 0
        self.idle = array("q")

    def use_registry(self, registry: Any, *, acknowledges: bool) -> None:
        """Let the scheduler kill and register jobs.

        If the engine ``acknowledges`` registered jobs, there is another message at their date.
        """
        self.registry = registry
        self.registers = True
        self.acknowledges = acknowledges

    def expect_outages(self) -> None:
        """Record from now on which hosts compute, not only how many do."""
        self.has_outages = True
        self.idle = array("q", bytes(8 * len(self.computing)))

    def forget_past(self) -> None:
        """Free the memory for hosts of jobs and changes of host states, once the run is copied."""
        nothing = array("q")
        self.offsets = self.pieces = self.lows = self.highs = self.numbers = nothing
        self.computing, self.idle, self.change_dates, self.changes = nothing, nothing, array("d"), 0

    def start_job(self, job: Job, hosts: object) -> None:
        index = job.index
        self.offsets[index] = self.used
        if hosts is None:
            self.take_lowest(job.processors)
        elif isinstance(hosts, HostBits):
            self.take_these(job, hosts)
        else:
            self.take_these(job, self.bits_of(job, hosts))
        self.pieces[index] = self.used - self.offsets[index]
        self.numbers[index] = self.turns.next()
        if self.has_outages:
            self.taken |= self.hosts_of(job)
        if self.computing_jobs and job.id in self.computing_jobs:
            self.registry.begin(job, self.hosts_of(job), self.now)
        self.free -= job.processors
        self.note_busy(job.processors)
        self.jobs[index] = job
        self.started.append(job)
        self.kills_last = False

    def take_lowest(self, missing: int) -> None:
        """Allocate the lowest free hosts. O(intervals)."""
        hosts = self.hosts
        while missing > 0:
            place = hosts.size - 1
            low, high = hosts.lows[place], hosts.highs[place]
            if high - low + 1 > missing:
                high = low + missing - 1
                hosts.lows[place] = high + 1
            else:
                hosts.size = place
            self.note_interval(low, high)
            missing -= high - low + 1

    def bits_of(self, job: Job, hosts: object) -> HostBits:
        """Return the mask of the hosts on which a job is to start."""
        require_type(f"start of {job.id}: hosts", hosts, HostSet, "a HostSet or None")
        assert isinstance(hosts, HostSet)
        if hosts.mask >> self.machine_size:
            raise self.refused_hosts(job, hosts.mask, str(hosts))
        return HostBits.of(hosts.mask, self.machine_size)

    def take_these(self, job: Job, hosts: HostBits) -> None:
        """Allocate given hosts, as many as the job needs, all of which must be free."""
        are_free, low = hosts.count() == job.processors, hosts.first_from(0, True)
        behind = hosts.size << 6
        while are_free and low < behind:
            high = hosts.first_from(low, False) - 1
            are_free = self.hosts.has(low, high)
            low = hosts.first_from(high + 1, True)
        if not are_free:
            mask = hosts.mask()
            raise self.refused_hosts(job, mask, str(HostSet(mask)))
        low = hosts.first_from(0, True)
        while low < behind:
            high = hosts.first_from(low, False) - 1
            self.hosts.take(low, high)
            self.note_interval(low, high)
            low = hosts.first_from(high + 1, True)

    def hosts_of(self, job: Job) -> int:
        if job is None:
            raise self.refused(job, "have hosts")
        found, first = 0, self.offsets[job.index]
        for place in range(first, first + self.pieces[job.index]):
            found |= bits_between(self.lows[place], self.highs[place])
        return found

    def free_mask(self) -> int:
        return self.hosts.mask()

    def count_free(self) -> None:
        mask = bits_between(0, self.machine_size - 1)
        if self.capacity is not None:
            mask &= ~self.capacity.closed(drains=self.drains).mask
        for job in self.jobs:
            if job is not None:
                mask &= ~self.hosts_of(job)
        self.hosts.set_hosts(HostSet(mask))
        self.free = mask.bit_count()

    def note_interval(self, low: int, high: int) -> None:
        """Record that the job that is starting occupies the hosts ``low`` to ``high``."""
        if self.used == len(self.lows):
            self.lows, self.highs = grown("q", self.lows), grown("q", self.highs)
        self.lows[self.used], self.highs[self.used] = low, high
        self.used += 1

    def note_busy(self, more: int) -> None:
        """Record that ``more`` hosts compute from now on (fewer if negative)."""
        self.busy += more
        self.change_dates[self.changes], self.computing[self.changes] = self.now, self.busy
        if self.has_outages:
            self.note_counts()
        self.changes += 1

    def note_counts(self) -> None:
        """Record how many hosts compute and how many are idle, without unavailable hosts."""
        computing = (self.taken & ~self.away).bit_count()
        self.computing[self.changes] = computing
        self.idle[self.changes] = self.machine_size - self.away.bit_count() - computing

    def leave(self, job: Job) -> None:
        """Record that a job computes no more. O(intervals) where hosts go away."""
        if self.has_outages:
            self.taken &= ~self.hosts_of(job)
        self.note_busy(-job.processors)

    def release(self, job: Job) -> None:
        """Free the hosts of a job that has left them. O(intervals)."""
        if self.has_outages:
            hosts = self.hosts_of(job)
            if self.capacity is not None:
                hosts &= ~self.capacity.closed(drains=self.drains).mask
            for low, high in HostSet(hosts).intervals():
                self.hosts.give_back(low, high)
            self.free += hosts.bit_count()
            return
        first = self.offsets[job.index]
        for place in range(first, first + self.pieces[job.index]):
            self.hosts.give_back(self.lows[place], self.highs[place])
        self.free += job.processors

    def reject_job(self, job: Job, reason: object) -> None:
        self.qos_log.refused(job.id, reason)
        if self.registered and job.id in self.registered:
            self.qos_log.refused(self.registered[job.id], reason)
            self.record(job).decision = QOS_REJECTED
        self.over.append(job)
        self.kills_last = False

    # Kills and registered jobs

    def kill_job(self, job: Job) -> None:
        if self.registry is None:
            raise self.refused(job, "be killed, as its scheduler does not say that it kills")
        if self.is_deciding:
            self.end_by_kill(job)
        else:
            # Asked for by a hook: other events of this date may still end the job by itself.
            self.early_kills.append(job)

    def end_by_kill(self, job: Job) -> None:
        """Kill a job: only the first time counts."""
        if job.index in self.killed:
            return
        self.killed.add(job.index)
        if not self.kills_last:
            self.kills.append([])
            self.kills_last = True
        self.kills[len(self.kills) - 1].append(job)
        if self.computing_jobs and job.id in self.computing_jobs:
            self.registry.kill(job, self.now)
        self.leave(job)
        self.over.append(job)

    def begin_decision(self) -> None:
        """Carry out the kills that hooks have asked for, before the scheduler decides."""
        self.kills_last = False
        self.is_deciding = True
        if self.early_kills:
            for job in self.early_kills:
                if job.phase != _RUNNING:
                    raise self.refused(job, "be killed")
                self.end_by_kill(job)
            self.early_kills.clear()

    def register(self, job: Job, profile: Any = None) -> None:
        if not self.registers:
            why = "as its scheduler does not say that it needs that"
            raise self.refused(job, f"be registered, {why}")
        self.kills_last = False
        if self.registry is None:
            delay = None if profile is None else profile.get("delay")
            if delay is None:
                raise self.refused(job, "be registered without a profile of type delay")
            ends_itself = delay < job.limit
            state = COMPLETED_SUCCESSFULLY if ends_itself else COMPLETED_WALLTIME_REACHED
            self.add(job, min(float(delay), job.limit), state)
            return

        seconds, state = self.registry.register(job, profile, self.now, self.arrived)
        self.registered.setdefault(job.id, job.id)
        self.latest[self.registered[job.id]] = job
        self.announced += self.acknowledges
        self.add(job, seconds, state)

    def add(self, job: Job, seconds: float, state: str) -> None:
        """Add a registered job that will run for some seconds, and end in a state."""
        index = job.index = self.known
        job.phase = _WAITING
        if index == len(self.offsets):
            self.offsets, self.pieces = grown("q", self.offsets), grown("q", self.pieces)
            self.numbers = grown("q", self.numbers)
            self.change_dates = grown("d", self.change_dates)
            self.computing = grown("q", self.computing)
            if self.has_outages:
                self.idle = grown("q", self.idle)
        self.known = index + 1
        self.jobs.append(None)
        self.added.append((job, seconds, state))
        if seconds != seconds:
            self.computing_jobs[job.id] = job

    def register_again(self, job: Job, original: Job, killed: Job, saved: float) -> None:
        self.registered[job.id] = self.original_id(original)
        rest = rest_of_delay(self.profile_of(killed), saved) if saved > 0 else None
        self.register(job, rest)

    def run_of(self, job: Job) -> Job | None:
        """Return a job that waits or runs, or its last run if it was killed; None if it is over."""
        if job.phase == _OVER and job.id in self.latest:
            job = self.latest[job.id]
        return None if job.phase == _OVER else job

    def finish_registering(self) -> None:
        self.kills_last = False
        if self.registry is not None:
            self.registry.finish(self.now)

    def profile_of(self, job: Job) -> Any:
        if self.registry is not None:
            return self.registry.profile_of(job)
        return self.profiles.get(job.id.partition("!")[0], {}).get(job.profile, {})

    def check_saves(self, job: Job) -> None:
        if job.qos is not None and job.qos.checkpoint is not None:
            check_resumable(job, self.profile_of(job))

    def note_metadata(self, job: Job, text: str) -> None:
        self.metadata[job.index] = text
        self.kills_last = False

    def call_at(self, date: float) -> None:
        if self.calls == len(self.call_dates):
            self.call_dates = grown("d", self.call_dates)
            self.call_numbers = grown("q", self.call_numbers)
        self.call_dates[self.calls] = max(date, self.now + _SHORTEST_CALL_DELAY)
        self.call_numbers[self.calls] = self.turns.next()
        self.calls += 1
        self.kills_last = False


CALL = -1
"""In place of the index of a job: a call that a scheduler asked for."""
EVENT = -2
"""Likewise: the next external event."""
WORLD = -3
"""Likewise: a wait of the world."""
SUBMISSION = -4
"""Likewise: the next jobs of the first workload; of the second it is one less, and so on."""
_CALL, _EVENT, _WORLD, _SUBMISSION = CALL, EVENT, WORLD, SUBMISSION


class Heap:
    """Waits in a heap, by date, then by the order in which they began.

    Each wait is for the end of a job, whose index it holds, or a :data:`CALL`.
    """

    def __init__(self) -> None:
        self.size, room = 0, bytes(512)
        self.dates = array("d", room)
        self.numbers, self.jobs = array("q", room), array("q", room)

    def push(self, date: float, number: int, job: int) -> None:
        """Add a wait. O(log waits)."""
        place = self.size
        if place == len(self.dates):
            self.dates = grown("d", self.dates)
            self.numbers, self.jobs = grown("q", self.numbers), grown("q", self.jobs)
        self.size = place + 1
        while place > 0:
            above = (place - 1) >> 1
            other = self.dates[above]
            if date > other or (date == other and number > self.numbers[above]):
                break
            self.dates[place], self.numbers[place] = other, self.numbers[above]
            self.jobs[place] = self.jobs[above]
            place = above
        self.dates[place], self.numbers[place], self.jobs[place] = date, number, job

    def pop(self) -> None:
        """Remove the first wait. O(log waits)."""
        count = self.size = self.size - 1
        date, number, place, below = self.dates[count], self.numbers[count], 0, 1
        while below < count:
            if below + 1 < count and self.comes_before(below + 1, below):
                below += 1
            other = self.dates[below]
            if date < other or (date == other and number < self.numbers[below]):
                break
            self.dates[place], self.numbers[place] = other, self.numbers[below]
            self.jobs[place] = self.jobs[below]
            place, below = below, 2 * below + 1
        self.dates[place], self.numbers[place] = date, number
        self.jobs[place] = self.jobs[count]

    def comes_before(self, place: int, other: int) -> bool:
        """Return whether a wait ends before another one."""
        one, two = self.dates[place], self.dates[other]
        return one < two or (one == two and self.numbers[place] < self.numbers[other])

    def check(self) -> None:
        """Raise an AssertionError unless the heap order holds."""
        for place in range(1, self.size):
            assert not self.comes_before(place, (place - 1) >> 1), f"wait {place} is out of order"


class Submissions:
    """The jobs of a workload by submission, created when they are submitted.

    Parameters
    ----------
    workload
        Name of the workload, put in front of the identifiers.
    ids, requests
        Identifiers of the jobs in the workload, and what users ask for, if any do, in its order.
    names
        Of profiles.
    places, profiles
        Where the jobs stand in the workload, and their profiles among the names; arrays.
    dates, processors, walltimes
        Seconds, infinite without walltime; arrays.
    fields
        Where all fields of a job can be had, by its identifier in the workload.
    """

    def __init__(
        self,
        workload: str,
        ids: list[str],
        requests: list[QosRequest | None] | None,
        names: list[str],
        places: array[int],
        profiles: array[int],
        dates: array[float],
        processors: array[int],
        walltimes: array[float],
        fields: WrittenFields,
    ) -> None:
        self.prefix, self.ids, self.requests, self.names = f"{workload}!", ids, requests, names
        self.places, self.profiles, self.dates = places, profiles, dates
        self.processors, self.walltimes = processors, walltimes
        self.fields, self.size, self.next = fields, len(places), 0

    def job(self, index: int) -> Job:
        """Create the job with an index."""
        # As Job() would, without a call that takes Python objects.
        made, place = Job.__new__(Job), self.places[index]
        job_id = self.ids[place]
        made.id, made.profile = self.prefix + job_id, self.names[self.profiles[index]]
        made.submission_time, made.processors = self.dates[index], self.processors[index]
        limit = self.walltimes[index]
        made.walltime = None if limit == INFINITY else limit
        made.qos = None if self.requests is None else self.requests[place]
        made._fields = self.fields
        made._begin()
        made.index, made.phase = index, _WAITING
        return made


class Loop:
    """One run of workloads.

    Parameters
    ----------
    machine_size
        Number of hosts.
    workloads
        The jobs of each.
    run_times
        How long each job sleeps (seconds), by index: an array.
    events
        What happens whatever the scheduler does: date (seconds) and notice, in order; None where
        nobody asked for events, which is not the same as none.
    conversation
        What is run in place of a scheduler if it is one about a world, which runs the jobs;
        ``run_times`` are not looked at then. Without, there is one workload.
    world
        What executes jobs that a scheduler registers and that do more than sleep, if it may
        register any. Its waits are in this loop's heap, as are those of a conversation's world.
    end_states
        How each job ends then, by index: an array of positions in
        :data:`~qops_batsim.jobs.FINAL_STATES`; None if nobody asks.

    Attributes
    ----------
    starts, finishes
        Dates by index (seconds), NaN where there is none.
    ended
        Indices of the jobs that have ended or were rejected, in the order in which they did.
    happened_dates
        Dates (seconds) at which the events so far happened.
    """

    def __init__(
        self,
        machine_size: int,
        workloads: list[Submissions],
        run_times: array[float],
        events: list[tuple[float, Notify]] | None = None,
        conversation: Any = None,
        world: Any = None,
        end_states: array[int] | None = None,
    ) -> None:
        self.workloads = workloads
        self.run_times = run_times
        self.end_states: Any = end_states
        self.conversation = conversation
        self.world = world if conversation is None else conversation.world
        self.executes = self.withdraws = conversation is not None
        self.busy_until = 0.0
        if self.world is None:
            self.waits = Heap()
            self.turns = Turns()
        else:
            self.waits = self.world.waits.heap
            self.turns = self.world.waits.turns
        count = 0
        self.sleepers: Any = None
        if conversation is None:
            count = workloads[0].size
            self.sleepers = EmbeddedManager(machine_size, count, self.turns)
            self.manager: ResourceManager = self.sleepers
        else:
            self.manager = ResourceManager(machine_size)
        self.starts = array("d", [float("nan")]) * count
        self.finishes = array("d", [float("nan")]) * count
        self.ended, self.ended_count = array("q", bytes(8 * count)), 0
        self.told = self.told_before = self.submitting = 0
        # Nothing more of these kinds will come, which is to be told.
        self.closing: list[str] = []
        for which in range(len(workloads)):
            self.wait_for_next(which)
            self.submitting += workloads[which].size > 0
        if not self.submitting:
            self.closing.append(NO_MORE_STATIC_JOBS)
        if events is not None and not events:
            self.closing.append(NO_MORE_EXTERNAL_EVENTS)
        self.events, self.happened = list(events or ()), 0
        self.happened_dates: list[float] = []
        self.cancelled: list[str] = []
        self.running_since: list[float] = []
        self.follows_kills = False
        # The jobs that will be cancelled, once they are submitted.
        self.given_up: dict[str, Any] = {
            str(notice.fields["job_id"]): None
            for _, notice in self.events
            if notice.type == JOB_CANCELLED and conversation is None
        }
        if self.events:
            self.waits.push(max(0.0, self.events[0][0]), self.turns.next(), EVENT)
            of_hosts = any(notice.type != JOB_CANCELLED for _, notice in self.events)
            if conversation is None and of_hosts:
                self.sleepers.expect_outages()

    def begin_at(self, date: float, running_since: list[float]) -> None:
        """Begin at a date (seconds), with the first jobs already running.

        They go on for their run times, on the lowest hosts. Jobs that only sleep, without events.
        """
        assert self.sleepers is not None, "the jobs do more than sleep"
        self.manager.now, self.running_since = date, running_since

    def join_running(self, scheduler: Scheduler) -> None:
        """Add the jobs that were started before this loop begins."""
        manager, submissions = self.sleepers, self.workloads[0]
        self.waits.pop()  # For their submission.
        for start in self.running_since:
            index = submissions.next
            job = submissions.job(index)
            manager.start_job(job, None)
            job.phase, job.start = _RUNNING, start
            self.starts[index] = start
            scheduler.joined(job)
            date = manager.now + self.run_times[index]
            self.waits.push(date, manager.numbers[index], index)
            submissions.next = index + 1
        manager.started.clear()
        self.wait_for_next(0)
        if submissions.next == submissions.size:
            self.submitting = 0
            self.closing.append(NO_MORE_STATIC_JOBS)

    def run(self, scheduler: Scheduler, on_progress: Callable[[int], None]) -> None:
        """Run until no events are left; report the number of ended jobs now and then.

        Python notices an interrupt then.
        """
        scheduler.begin(self.manager)
        check_attributes(scheduler)
        if self.sleepers is not None and self.sleepers.registry is not None:
            self.follows_kills = self.withdraws = True
        if self.running_since:
            self.join_running(scheduler)
        if self.follows_kills:
            # To whom the beginning is told in a message may register jobs before any event.
            self.sleepers.begin_decision()
            scheduler.decide()
        self.carry_out(scheduler)
        messages = 0
        while self.next_message(scheduler):
            if self.follows_kills:
                self.sleepers.begin_decision()
            scheduler.decide()
            self.told = self.told_before = 0
            if self.closing:
                self.tell_closing(scheduler)
            self.carry_out(scheduler)
            messages += 1
            if messages % _PER_REPORT == 0:
                on_progress(self.ended_count)
        # Some set them only later.
        check_attributes(scheduler)

    def next_message(self, scheduler: Scheduler) -> bool:
        """Process events until the scheduler hears of some; return False if no event is left.

        That no more jobs will come is told alone, unless an end or a call follows at its date.
        """
        manager, waits = self.manager, self.waits
        if self.told == 0 and self.closing:
            self.tell_closing(scheduler)
        soon = manager.now
        while self.told == 0 or self.busy_until > soon:
            if self.withdraws:
                if self.executes:
                    self.world.settle()
                self.drop_withdrawn()
            date = INFINITY
            if waits.size > 0:
                date = waits.dates[0]
            if self.told > 0 and self.busy_until < date:
                # Events have piled up while the decision side was "thinking" until then.
                self.come_to(max(manager.now, self.busy_until))
                break
            if date == INFINITY:
                return False
            self.come_to(max(manager.now, date))
            soon = manager.now + _SAME_DATE
            self.end_all(scheduler, soon)
        return True

    def come_to(self, date: float) -> None:
        """Set the current date of the simulation (seconds)."""
        self.manager.now = date
        if self.executes:
            self.world.now = date

    def end_all(self, scheduler: Scheduler, soon: float) -> None:
        """Process all events of the current date, up to ``soon`` (equal but for rounding)."""
        waits = self.waits
        while waits.size > 0 and waits.dates[0] <= soon:
            self.end_due(scheduler, soon)
        if self.closing and (
            self.told > self.told_before or self.told == 0 or self.busy_until > soon
        ):
            self.tell_closing(scheduler)
        if self.cancelled:
            self.tell_cancelled(scheduler)
        self.told_before = 0

    def tell_closing(self, scheduler: Scheduler) -> None:
        """Tell the scheduler that all jobs are submitted, or that all external events have
        happened.
        """
        for kind in self.closing:
            if self.conversation is not None:
                scheduler.notified(Notify.of(kind))
            elif kind == NO_MORE_STATIC_JOBS:
                scheduler.all_submitted()
            else:
                note_hosts(self.manager, Notify.of(kind))
                scheduler.hosts_changed(0)
            self.told += 1
        self.closing.clear()

    def tell_cancelled(self, scheduler: Scheduler) -> None:
        """Report the users' cancellations of submitted jobs."""
        for job_id in self.cancelled:
            job = self.given_up[job_id]
            if job is not None and self.follows_kills:
                job = self.sleepers.run_of(job)
            if job is not None:
                scheduler.cancelled(job)
        self.cancelled.clear()

    def happen(self, scheduler: Scheduler) -> None:
        """Execute the external events (such as outages) of this date; schedule the next ones."""
        manager, events = self.manager, self.events
        latest = max(manager.now, events[self.happened][0])
        while self.happened < len(events):
            date = events[self.happened][0]
            if date > latest:
                self.waits.push(date, self.turns.next(), EVENT)
                return
            self.happened += 1
            if self.conversation is not None:
                self.conversation.happen(self.happened - 1)
                self.told = self.conversation.untold()
            else:
                self.happened_dates.append(manager.now)
                self.apply_event(scheduler, events[self.happened - 1][1])
        self.note_closing(NO_MORE_EXTERNAL_EVENTS)

    def apply_event(self, scheduler: Scheduler, notice: Notify) -> None:
        """Execute an external event and report it to the scheduler."""
        if notice.type == JOB_CANCELLED:
            self.cancelled.append(str(notice.fields["job_id"]))
            self.told += 1
            return
        if notice.type in (MACHINES_AWAY, MACHINES_BACK):
            hosts = HostSet.parse(str(notice.fields["resources"])).mask
            if not hosts:
                return
            away = self.sleepers.away & ~hosts
            self.sleepers.away = away | hosts if notice.type == MACHINES_AWAY else away
        announced = note_hosts(self.manager, notice)
        if announced is None:
            scheduler.notified(notice)
        else:
            scheduler.hosts_changed(announced)
        self.told += 1

    def note_closing(self, kind: str) -> None:
        """Record that no more submissions (or external events) follow, to be told with the next
        events.
        """
        if self.told_before == 0:
            self.told_before = self.told
        self.closing.append(kind)

    def end_due(self, scheduler: Scheduler, soon: float) -> None:
        """End the waits that are due, in the order in which they began."""
        waits = self.waits
        date, number, index = waits.dates[0], waits.numbers[0], waits.jobs[0]
        waits.pop()
        if waits.size == 0 or waits.dates[0] > soon:
            # Usually it is the only one.
            self.end(scheduler, index, number, date)
            return
        due = [(number, index, date)]
        while waits.size > 0 and waits.dates[0] <= soon:
            due.append((waits.numbers[0], waits.jobs[0], waits.dates[0]))
            waits.pop()
        due.sort()
        for number, index, date in due:
            self.end(scheduler, index, number, date)

    def end(self, scheduler: Scheduler, index: int, number: int, date: float) -> None:
        """Process the end of a wait: a job ends, jobs are submitted, or the scheduler is called."""
        if index >= 0:
            job = self.sleepers.jobs[index]
            if job is None:
                self.sleepers.withdrawn -= 1  # It was killed.
            else:
                self.end_job(scheduler, job)
        elif index <= _SUBMISSION:
            self.submit(scheduler, _SUBMISSION - index)
        elif index == _EVENT:
            self.happen(scheduler)
        elif index == _WORLD:
            self.world.waits.end_one(number, date)
            if self.conversation is not None:
                self.told = self.conversation.untold()
            else:
                self.end_executed(scheduler)
        else:
            self.told += 1
            scheduler.called()

    def end_job(self, scheduler: Scheduler, job: Job) -> None:
        """End a job."""
        manager = self.sleepers
        index = job.index
        manager.jobs[index] = None
        manager.leave(job)
        manager.release(job)
        job.phase = _OVER
        if self.end_states is not None:
            job.state = _STATES[self.end_states[index]]
        self.finishes[index] = manager.now
        self.note_ended(index)
        self.told += 1
        scheduler.ended(job)

    def end_executed(self, scheduler: Scheduler) -> None:
        """End the registered jobs whose executions have ended in the world."""
        manager = self.sleepers
        for record in manager.registry.ended():
            job = manager.computing_jobs[record.job.id]
            self.end_states[job.index] = _STATES.index(record.state)
            self.end_job(scheduler, job)

    def drop_withdrawn(self) -> None:
        """Remove entries of killed jobs, and of cancelled or rescheduled waits, from the head of
        the heap.
        """
        manager = self.sleepers
        waits = self.waits
        while waits.size > 0:
            index = waits.jobs[0]
            if index == _WORLD:
                if self.world.waits.has(waits.numbers[0], waits.dates[0]):
                    break
            elif index >= 0 and manager.withdrawn > 0 and manager.jobs[index] is None:
                manager.withdrawn -= 1
            else:
                break
            waits.pop()

    def submit(self, scheduler: Scheduler, which: int) -> None:
        """Submit a workload's jobs of this date, and wait for the next ones."""
        submissions = self.workloads[which]
        index = submissions.next
        latest = max(self.manager.now, submissions.dates[index])
        while index < submissions.size and submissions.dates[index] <= latest:
            job = submissions.job(index)
            if self.given_up and job.id in self.given_up:
                self.given_up[job.id] = job
            scheduler.submitted(job)
            self.told += 1
            index += 1
        submissions.next = index
        if self.follows_kills:
            self.sleepers.arrived = index
        self.wait_for_next(which)
        self.submitting -= index == submissions.size
        if self.submitting == 0:
            self.note_closing(NO_MORE_STATIC_JOBS)

    def wait_for_next(self, which: int) -> None:
        """Wait for the date of a workload's next jobs, if any."""
        submissions = self.workloads[which]
        if submissions.next < submissions.size:
            date = max(0.0, submissions.dates[submissions.next])
            self.waits.push(date, self.turns.next(), _SUBMISSION - which)

    def carry_out(self, scheduler: Scheduler) -> None:
        """Carry out a decision: schedule the ends of the jobs that it started, and the requested
        calls; report the ends of the jobs that it killed.
        """
        if self.conversation is not None:
            self.ended_count = self.conversation.carry_out()
            self.told = self.conversation.untold()
            self.busy_until = self.conversation.busy_until
            return
        manager = self.sleepers
        if manager.added:
            self.add_registered()
        if manager.started:
            for job in manager.started:
                index = job.index
                self.starts[index] = manager.now
                date = manager.now + self.run_times[index]
                if date == date:  # Else it is executed in the world.
                    self.waits.push(date, manager.numbers[index], index)
            manager.started.clear()
        for place in range(manager.calls):
            self.waits.push(manager.call_dates[place], manager.call_numbers[place], _CALL)
        manager.calls = 0
        if manager.over:
            for job in manager.over:
                self.note_ended(job.index)
            manager.over.clear()
        if self.follows_kills:
            manager.is_deciding = False
            self.told += manager.announced
            manager.announced = 0
            if manager.kills:
                self.tell_kills(scheduler)

    def tell_kills(self, scheduler: Scheduler) -> None:
        """Report the kills of this date, those that were asked for together in one event."""
        manager = self.sleepers
        # The scheduler may ask for the next ones as it hears of these.
        kills = manager.kills
        manager.kills = []

        for together in kills:
            for job in together:
                index = job.index
                manager.jobs[index] = None
                if self.run_times[index] == self.run_times[index]:
                    manager.withdrawn += 1  # Else the world has cancelled its wait.
                manager.release(job)
                job.phase = _OVER
                job.state = COMPLETED_KILLED
                self.finishes[index] = manager.now
                scheduler.ended(job)

            manager.qos_log.kills.update([job.id for job in together])
            for job in together:
                told = manager.registry.progress(job, self.starts[job.index], manager.now)
                scheduler.progressed(job, told)
            for job in together:
                scheduler.killed(job)
            self.told += len(together) + 1

    def add_registered(self) -> None:
        """Add jobs that the scheduler registered during the run, with their run times."""
        for job, seconds, state in self.sleepers.added:
            index = job.index
            if index >= len(self.starts):
                self.starts, self.finishes = grown("d", self.starts), grown("d", self.finishes)
                self.ended = grown("q", self.ended)
            if index >= len(self.run_times):
                self.run_times = grown("d", self.run_times)
            self.starts[index] = self.finishes[index] = float("nan")
            self.run_times[index] = seconds
            if seconds != seconds:
                self.executes = True
            if self.end_states is not None:
                if index >= len(self.end_states):
                    self.end_states = grown("q", self.end_states)
                self.end_states[index] = _STATES.index(state or COMPLETED_SUCCESSFULLY)
        self.sleepers.added.clear()

    def note_ended(self, index: int) -> None:
        """Record the end of a job, or its rejection."""
        self.ended[self.ended_count] = index
        self.ended_count += 1
