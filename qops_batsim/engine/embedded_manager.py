"""The resource manager of a run in the embedded loop of events."""

from __future__ import annotations

from array import array
from typing import Any

from qops_batsim.core.arrays import LEAST_ROOM, grown
from qops_batsim.core.host_bits import HostBits
from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import OVER, RUNNING, WAITING, Job
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.engine.wait_heap import Turns
from qops_batsim.jobs import COMPLETED_SUCCESSFULLY, COMPLETED_WALLTIME_REACHED
from qops_batsim.timing import SHORTEST_CALL_DELAY


def bits_between(low: Any, high: Any) -> int:
    """Return hosts ``low`` to ``high`` as a bit mask."""
    mask: int = (1 << int(high) + 1) - (1 << int(low))
    return mask


class EmbeddedManager(ResourceManager):
    """The resource manager of a run whose jobs have hosts of their own and, most of them, sleep.

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
    registry's world.
    """

    def __init__(self, machine_size: int, jobs: int, turns: Turns) -> None:
        super().__init__(machine_size)
        self.free_hosts = HostBits.of(bits_between(0, machine_size - 1), machine_size)
        self.given_hosts = HostBits(machine_size)
        self.none_below = 0
        self.turns = turns
        self.known = jobs
        self.jobs: list[Any] = [None] * jobs
        self.metadata: dict[int, str] = {}

        # What was asked for in a message.
        self.started: list[Job] = []
        self.over: list[Job] = []
        self.added: list[tuple[Job, float, str]] = []
        self.calls: list[tuple[float, int]] = []

        # Kills and registered jobs.
        self.registers = False
        self.registry: Any = None
        self.acknowledges = False
        self.is_deciding = False
        self.kills_last = False
        self.announced = 0
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
        self.offsets = nothing
        self.pieces = nothing
        self.numbers = nothing
        self.lows = nothing
        self.highs = nothing
        self.change_dates = array("d")
        self.computing = nothing
        self.idle = nothing
        self.changes = 0

    # Hosts of jobs

    def start_job(self, job: Job, hosts: object) -> None:
        index = job.index
        self.offsets[index] = self.used
        if hosts is None:
            # Schedulers that share hosts may start more than fit; these hosts are not shared.
            if job.processors > self.free:
                raise self.refused(job, "start")
            self.take_lowest(job.processors)
        else:
            self.take_these(job, self.bits_of(job, hosts))
        self.free -= job.processors
        self.begin_run(job, job.processors)

    def begin_run(self, job: Job, more: int) -> None:
        """Begin the run of a job whose hosts are known, ``more`` of which begin to compute."""
        index = job.index
        self.pieces[index] = self.used - self.offsets[index]
        self.numbers[index] = self.turns.next()

        self.note_taken(job)
        if self.computing_jobs and job.id in self.computing_jobs:
            self.registry.begin(job, self.hosts_of(job), self.now)
        self.note_busy(more)
        self.jobs[index] = job
        self.started.append(job)
        self.kills_last = False

    def note_taken(self, job: Job) -> None:
        """Record which hosts compute after the start of a job, where hosts go away."""
        if self.has_outages:
            self.taken |= self.hosts_of(job)

    def take_lowest(self, missing: int) -> None:
        """Allocate the lowest free hosts. O(hosts / 64)."""
        low = self.none_below
        while missing > 0:
            low = self.free_hosts.first_from(low, True)
            count = min(missing, self.free_hosts.first_from(low, False) - low)
            self.take_interval(low, count)
            missing -= count
            low += count
        self.none_below = low

    def take_these(self, job: Job, hosts: HostBits) -> None:
        """Allocate given hosts, as many as the job needs, all of which must be free."""
        if hosts.count() != job.processors or not hosts.is_within(self.free_hosts):
            mask = hosts.mask()
            raise self.refused_hosts(job, mask, str(HostSet(mask)))
        behind = hosts.size << 6
        low = hosts.first_from(0, True)
        while low < behind:
            count = hosts.first_from(low, False) - low
            self.take_interval(low, count)
            low = hosts.first_from(low + count, True)

    def take_interval(self, low: int, count: int) -> None:
        """Give an interval of free hosts, the lowest ``low``, to the job that is starting."""
        self.free_hosts.move_interval(low, count, self.given_hosts)
        self.note_interval(low, low + count - 1)

    def note_interval(self, low: int, high: int) -> None:
        """Note an interval of hosts of the job that is starting."""
        if self.used == len(self.lows):
            self.lows = grown("q", self.lows)
            self.highs = grown("q", self.highs)
        self.lows[self.used] = low
        self.highs[self.used] = high
        self.used += 1

    def bits_of(self, job: Job, hosts: object) -> HostBits:
        """Return the hosts on which a job is to start, as a set of this machine's size."""
        if isinstance(hosts, HostBits) and hosts.size == self.free_hosts.size:
            return hosts
        mask = self.asked_hosts(job, hosts)
        if mask >> self.machine_size:
            raise self.refused_hosts(job, mask, str(HostSet(mask)))
        return HostBits.of(mask, self.machine_size)

    def hosts_of(self, job: Job) -> int:
        if job is None:
            raise self.refused(job, "have hosts")
        mask = 0
        first = self.offsets[job.index]
        for place in range(first, first + self.pieces[job.index]):
            mask |= bits_between(self.lows[place], self.highs[place])
        return mask

    def free_mask(self) -> int:
        return self.free_hosts.mask()

    def count_free(self) -> None:
        mask = bits_between(0, self.machine_size - 1) & ~self.given_hosts.mask()
        mask &= ~self.capacity.closed(drains=self.drains).mask
        self.free_hosts.set_mask(mask)
        self.none_below = 0
        self.free = mask.bit_count()

    def leave(self, job: Job) -> None:
        """Record that a job computes no more. O(intervals) where hosts go away."""
        if self.has_outages:
            self.taken &= ~self.hosts_of(job)
        self.note_busy(-job.processors)

    def release(self, job: Job) -> None:
        """Free the hosts of a job that has left them. O(its hosts / 64)."""
        first = self.offsets[job.index]
        for place in range(first, first + self.pieces[job.index]):
            low = self.lows[place]
            self.given_hosts.move_interval(low, self.highs[place] - low + 1, self.free_hosts)
            self.none_below = min(self.none_below, low)
        if self.has_outages:
            self.count_free()  # Some of them may be away.
        else:
            self.free += job.processors

    def note_busy(self, more: int) -> None:
        """Record that ``more`` hosts compute from now on (fewer if negative)."""
        self.busy += more
        self.change_dates[self.changes] = self.now
        self.computing[self.changes] = self.busy
        if self.has_outages:
            self.note_counts()
        self.changes += 1

    def note_counts(self) -> None:
        """Record how many hosts compute and how many are idle, without unavailable hosts."""
        computing = (self.taken & ~self.away).bit_count()
        self.computing[self.changes] = computing
        self.idle[self.changes] = self.machine_size - self.away.bit_count() - computing

    # Other calls

    def reject_job(self, job: Job, reason: object) -> None:
        self.note_refusal(job, reason)
        self.over.append(job)
        self.kills_last = False

    def note_metadata(self, job: Job, text: str) -> None:
        self.metadata[job.index] = text
        self.kills_last = False

    def call_at(self, date: float) -> None:
        self.calls.append((max(date, self.now + SHORTEST_CALL_DELAY), self.turns.next()))
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
                if job.phase != RUNNING:
                    raise self.refused(job, "be killed")
                self.end_by_kill(job)
            self.early_kills.clear()

    def register_job(self, job: Job, profile: Any) -> None:
        if not self.registers:
            why = "as its scheduler does not say that it needs that"
            raise self.refused(job, f"be registered, {why}")
        self.kills_last = False
        if self.registry is None:
            # Only users who react register jobs, all of which are written down by themselves.
            delay = None if profile is None else profile.get("delay")
            if delay is None:
                raise self.refused(job, "be registered without a profile of type delay")
            ends_itself = delay < job.limit
            state = COMPLETED_SUCCESSFULLY if ends_itself else COMPLETED_WALLTIME_REACHED
            self.add(job, min(float(delay), job.limit), state)
            return

        seconds, state = self.registry.register(job, profile, self.now)
        self.know_registered(job, profile)
        self.latest[self.registered[job.id]] = job
        self.announced += self.acknowledges
        self.add(job, seconds, state)

    def add(self, job: Job, seconds: float, state: str) -> None:
        """Add a registered job that will run for some seconds, and end in a state."""
        index = self.known
        job.index = index
        job.phase = WAITING
        if index == len(self.offsets):
            self.offsets = grown("q", self.offsets)
            self.pieces = grown("q", self.pieces)
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

    def run_of(self, job: Job) -> Job | None:
        """Return a job that waits or runs, or its last run if it was killed; None if it is over."""
        if job.phase == OVER and job.id in self.latest:
            job = self.latest[job.id]
        return None if job.phase == OVER else job

    def finish_registering(self) -> None:
        self.kills_last = False
        if self.registry is not None:
            self.registry.finish(self.now)
