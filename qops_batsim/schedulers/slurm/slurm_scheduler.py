"""Slurm's two passes over the waiting jobs, and their priorities.

What is done follows slurmctld 22.05: ``job_scheduler.c`` (main pass), ``backfill.c``,
``priority_multifactor.c`` and, for the hosts, ``job_test.c`` of its select plug-ins.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from qops_batsim.core.host_bits import HostBits
from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import WAITING, Job
from qops_batsim.core.node_profile import NodeProfile
from qops_batsim.core.options import SchedulerOptions
from qops_batsim.core.overrides import without
from qops_batsim.core.refusal import Refusal, free_text, no_time
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.schedulers.queue_scheduler import QueueScheduler
from qops_batsim.schedulers.slurm.fair_share import FairTree, ShareHolder
from qops_batsim.schedulers.slurm.slurm_options import QosRules, SlurmOptions
from qops_batsim.timing import PLAN_TOLERANCE, end_of, up_to_grid

LONGEST = 365 * 86_400.0
"""Requested time of a job that tells none (seconds), as in Slurm."""

FIRST_WINDOW = 30.0
"""Running jobs that end within this many seconds count as ending together; each time twice as many
(``bf_window_linear`` is not set)."""

MANY = 1000
"""More periods than these, in which nothing else happens, are not gone through one by one."""

SAME_SIZE = 1e-9
"""Sums of sizes that are fractions may be off by so much."""

_INFINITY = math.inf


def floor_of(number: float) -> float:
    """Return the floor of a number, as a float."""
    return float(math.floor(number))


class Quota:
    """The limits of a QOS or of all jobs, and the jobs and processors in use.

    ``user_jobs`` and ``user_processors`` are those of each user, by number.
    """

    def __init__(self, rules: QosRules) -> None:
        (
            self.most_user_jobs,
            self.most_user_processors,
            self.most_jobs,
            self.most_processors,
        ) = rules.limits()
        self.jobs = 0
        self.processors = 0.0
        self.user_jobs: dict[int, int] = {}
        self.user_processors: dict[int, float] = {}

    def has_room(self, user: int) -> bool:
        """Return whether the limits allow one more running job of a user. O(1)."""
        if self.most_user_jobs < _INFINITY and self.user_jobs.get(user, 0) >= self.most_user_jobs:
            return False
        return self.jobs < self.most_jobs

    def has_processors(self, user: int, needed: float) -> bool:
        """Return whether the limits allow a user ``needed`` more processors. O(1)."""
        used = 0.0
        if self.most_user_processors < _INFINITY:
            used = self.user_processors.get(user, 0.0)
        if used + needed > self.most_user_processors + SAME_SIZE:
            return False
        return self.processors + needed <= self.most_processors + SAME_SIZE

    def count(self, user: int, jobs: int, processors: float) -> None:
        """Count ``jobs`` more running jobs of a user, with ``processors`` in all; negative numbers
        remove them. O(1).
        """
        self.jobs += jobs
        self.processors += processors
        if self.most_user_jobs < _INFINITY:
            self.user_jobs[user] = self.user_jobs.get(user, 0) + jobs
        if self.most_user_processors < _INFINITY:
            self.user_processors[user] = self.user_processors.get(user, 0.0) + processors


class QueueEntry:
    """A waiting or running job with its priority, user, QOS and limits.

    Attributes
    ----------
    user, quota
        Its user, and the limits of its QOS.
    requested
        Time that it asks for (seconds).
    least
        The fewest hosts that it can have.
    base, priority
        The part of the priority that does not change, and the priority.
    end, since, hosts
        If it runs: the expected end, since when its usage is not counted (seconds), its hosts.
    cancelled, is_waiting
        When it was cancelled (seconds), NaN if it was not; whether it is in the line.
    """

    def __init__(self, job: Job, user: ShareHolder, quota: Quota, base: float) -> None:
        self.job = job
        self.user = user
        self.quota = quota
        self.number = job.number
        self.requested = min(job.duration, LONGEST)
        self.least = job.processors
        if job.request is not None and job.request.has_tasks():
            self.least = 1
        self.base = base
        self.priority = 0.0
        self.end = 0.0
        self.since = 0.0
        self.hosts = job.bits
        self.cancelled = math.nan
        self.is_waiting = True


class Record:
    """A record of the backfill map: the hosts without a reservation between two dates (seconds)."""

    def __init__(self, begin: float, end: float, hosts: HostBits) -> None:
        self.begin = begin
        self.end = end
        self.hosts = hosts


class ClosedHosts:
    """Announced maintenance: dates (seconds) and hosts."""

    def __init__(self, since: float, until: float, hosts: HostBits) -> None:
        self.since = since
        self.until = until
        self.hosts = hosts


class Slurm(QueueScheduler):
    """Slurm's scheduling: multifactor priorities, main and backfill passes, limits, ``--deadline``.

    1. A job's priority is the sum of weighted factors from 0 to 1: age, size, partition, QOS, and
       fair share, the rank of its user in the Fair Tree of decayed usage. It is calculated at
       submission, and of all waiting jobs again each ``calc_period``.
    2. Whenever something happens, the *main pass* starts jobs in order of priority until one does
       not fit.
    3. Every ``bf_interval`` while jobs wait and something has happened, the *backfill pass* plans
       the first ``bf_max_job_test`` jobs in that order, each at its earliest start on hosts that
       are kept for no job before it, and starts those whose start is now. Dates of the plan are
       multiples of ``bf_resolution``; running jobs that end close to each other count as ending
       together; starts after ``bf_window`` are not planned.
    4. Jobs that would exceed a limit of their user or QOS are passed over.
    5. A job whose deadline is nearer than the time it asks for is rejected at submission, and
       cancelled when a pass comes to it. Nothing is promised.

    Where jobs share hosts, they start by the amounts that are free, as with select/cons_tres, on
    hosts chosen as everywhere here. The backfill pass keeps whole hosts for the jobs that it plans,
    or with ``whole_nodes`` off what they ask for. Processors are sizes then, in limits, priorities
    and usage.

    The time a job asks for is its estimate (``qos.estimated_runtime``, else the walltime; without,
    a year). User, account, partition and QOS are its fields ``user``, ``group``, ``queue`` and
    ``qos_name``, as converted accounting has them; a field ``base_priority`` is its priority
    without age and fair share, where that is known. Follows slurmctld 22.05, which has judged it
    for jobs of whole nodes.

    Attributes
    ----------
    entries
        The waiting jobs, by descending priority.
    active
        The running jobs by expected end.
    tree
        The users and their fair-share factors.

    Examples
    --------
    >>> from qops_batsim import simulate
    >>> len(simulate(Slurm, "tiny_8", settings={"weight_age": 1000, "bf_interval": 30}).ended)
    8
    """

    drains = False
    summary = "Slurm: multifactor priority, backfill passes, limits, --deadline"
    Options: type[SchedulerOptions] = SlurmOptions
    # Its passes choose and start jobs by themselves.
    HOOKS: ClassVar[dict[str, str]] = {
        **without(QueueScheduler.HOOKS, "line", "may_start", "start"),
        "main_pass": "now",
        "backfill_pass": "now",
    }

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        QueueScheduler.__init__(self, options)
        chosen = self.options
        chosen.check()
        self.weight_age = float(chosen.weight_age)
        self.weight_fairshare = float(chosen.weight_fairshare)
        self.max_age = float(chosen.max_age)
        self.calc_period = float(chosen.calc_period)
        self.decay = 1 - 0.693 / float(chosen.half_life)  # Not 1 - ln 2 / half_life: so does Slurm.

        self.interval = float(chosen.bf_interval)
        self.resolution = float(chosen.bf_resolution)
        self.window = float(chosen.bf_window)
        self.most_tests = chosen.bf_max_job_test
        self.cancels = chosen.deadlines

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty queue."""
        QueueScheduler.begin(self, manager)
        chosen = self.options
        size = manager.machine_size
        self.tree = FairTree(chosen.shares)
        self.quotas = {name: Quota(rules) for name, rules in chosen.qos.items()}
        self.no_quota = Quota(QosRules())
        self.of_all = Quota(
            QosRules(
                max_jobs_per_user=chosen.max_jobs_per_user,
                max_processors_per_user=chosen.max_processors_per_user,
            )
        )

        self.entries: list[QueueEntry] = []
        self.active: list[QueueEntry] = []
        self.starting: list[QueueEntry] = []
        self.late: list[QueueEntry] = []
        self.left_jobs: list[Job] = []
        self.windows: list[ClosedHosts] = []
        self.map: list[Record] = []
        self.arrivals = 0

        # Compiled, 1 << size would be of 64 bits.
        everything = HostSet.first(size).mask
        self.there = HostBits.of(everything, size)
        self.free_hosts = HostBits.of(everything, size)
        self.trial = HostBits(size)
        self.chosen = HostBits(size)
        self.future = HostBits(size)
        self.left = HostBits(size)
        self.amounts: Any = None  # a NodeProfile where hosts are shared
        self.by_then: Any = None
        if manager.use is not None:
            self.amounts = NodeProfile(manager.use.layout)
            self.by_then = NodeProfile(manager.use.layout)

        self.tick = 0.0
        self.last_backfill = -_INFINITY
        self.asked = _INFINITY
        self.late_date = _INFINITY
        self.fraction = 0.0
        self.has_changed = False
        self.had_waiting = False
        self.is_tested = False

    # Events

    def arrived(self, job: Job) -> None:
        """Queue a new job, or cancel it if it cannot meet its deadline or limits. O(line)."""
        job.number = self.arrivals
        self.arrivals += 1
        entry = self.entry_of(job)
        now = floor_of(job.arrival + PLAN_TOLERANCE)
        entry.priority = self.priority_of(entry, 0.0)
        if self.is_late(entry, now) or job.size > self.most_allowed(entry) + SAME_SIZE:
            self.cancel(entry, now)
            return

        self.entries.append(entry)
        self.has_changed = True
        self.move_up(len(self.entries) - 1)

    def entry_of(self, job: Job) -> QueueEntry:
        """Return the queue entry of a job, with its user, QOS limits and the constant part of its
        priority.
        """
        fields = job.fields
        options = self.options
        user = self.tree.user(str(fields.get("group", "")), str(fields.get("user", "")))
        qos_name = str(fields.get("qos_name", ""))
        queue = fields.get("queue", None if job.qos is None else job.qos.queue)

        # Factors of partitions and QOS are parts of the highest one.
        most = max(options.partitions.values(), default=1.0) or 1.0
        partition = options.partitions.get(str(queue), 1.0) / most
        highest = max([rules.priority for rules in options.qos.values()], default=0.0) or 1.0
        size = job.size / self.manager.machine_size
        base = (
            options.weight_size * (1 - size if options.favor_small else size)
            + options.weight_partition * min(partition, 1.0)
            + options.weight_qos * options.qos.get(qos_name, QosRules()).priority / highest
        )
        base = float(fields.get("base_priority", base))
        return QueueEntry(job, user, self.quotas.get(qos_name, self.no_quota), base)

    def ended(self, job: Job) -> None:
        """Called when a job has ended: the next decision frees its hosts."""
        self.left_jobs.append(job)

    def joined(self, job: Job) -> None:
        """Called when others started a job: count it among the running ones."""
        job.number = self.arrivals
        self.arrivals += 1
        if self.shared is not None:
            self.manager.asking(job)
        entry = self.entry_of(job)
        entry.hosts = HostBits.of(self.manager.hosts_of(job), self.manager.machine_size)
        if self.shared is None:
            self.free_hosts.remove(entry.hosts)
        self.run(entry, job.start)
        if self.shared is not None:
            self.measure_one(job)
        self.has_changed = True

    def cancelled(self, job: Job) -> None:
        """Called when a user cancels a job: reject it if it waits. O(queue)."""
        for place in range(len(self.entries)):
            if self.entries[place].job is job:
                del self.entries[place]
                QueueScheduler.cancelled(self, job)
                break
        self.has_changed = True

    def waiting(self) -> list[Job]:
        """Return the waiting jobs by priority. O(line)."""
        return [entry.job for entry in self.entries]

    def note_hosts(self, announced: int) -> None:
        """Update which hosts are present, and which maintenance is announced."""
        QueueScheduler.note_hosts(self, announced)
        manager = self.manager
        size = manager.machine_size
        capacity = manager.capacity
        self.there.set_mask((HostSet.first(size) - capacity.away).mask)
        self.windows = [
            ClosedHosts(window.since, window.until, HostBits.of(window.hosts.mask, size))
            for window in capacity.windows
        ]
        if self.shared is None:
            self.free_hosts.set_mask(manager.free_mask())
        else:
            open_hosts = HostSet.first(size) - capacity.closed(drains=self.drains)
            self.free_hosts.set_mask(open_hosts.mask)
            self.measure()
        self.has_changed = True

    def measure(self) -> None:
        """Measure again what running jobs leave free of the hosts on which jobs may start."""
        self.amounts.reset(0.0, self.free_hosts)
        for entry in self.active:
            self.measure_one(entry.job)

    def measure_one(self, job: Job) -> None:
        """Take off what is free what a running job has of the hosts on which jobs may start."""
        job.request.held.copy_from(job.request.used)
        job.request.held.keep_within(self.free_hosts.mask())
        self.amounts.take(job, 0.0, _INFINITY)

    def reject_wider(self) -> None:
        """Reject the waiting jobs that are wider than the machine will ever be again."""
        QueueScheduler.reject_wider(self)
        self.entries = [entry for entry in self.entries if entry.job.phase == WAITING]
        self.has_changed = True

    # Decisions

    def schedule(self) -> None:
        """Run the main and backfill passes that are due, start and cancel jobs as they decided, and
        ask for the next call.
        """
        if self.arrivals == 0:
            return  # Not every engine sends a message before the first job.

        manager = self.manager
        date = self.run_passes(up_to_grid(manager.now))
        for entry in self.late:
            manager.reject(entry.job, self.why_cancelled(entry))
        for entry in self.starting:
            # A job that shares hosts holds what was found for it.
            hosts = None if self.shared is not None else HostSet(entry.hosts.mask())
            manager.start(entry.job, hosts)
        self.late = []
        self.starting = []
        if date < _INFINITY:
            manager.call_at(date)

    def why_cancelled(self, entry: QueueEntry) -> Refusal:
        """Return why a job was cancelled."""
        job = entry.job
        most = self.most_allowed(entry)
        if job.size > most + SAME_SIZE:
            asked = job.processors if job.request is None else f"{job.size:g}"
            return free_text(
                f"asks for {asked} processors; its user or QOS may use {most:g} at once"
            )
        return no_time(job.estimate, job.deadline - entry.cancelled, job.deadline)

    def run_passes(self, now: float) -> float:
        """Run the main and backfill passes that are due; return when to be called next (seconds),
        infinity if not at all.

        Slurm's clock has whole seconds: plans and deadlines are counted from the last one.
        O(tests × map × hosts).
        """
        second = floor_of(now + PLAN_TOLERANCE)
        self.fraction = max(now - second, 0.0)
        self.calculate_priorities(now)
        for job in self.left_jobs:
            self.leave(job, second)
        self.left_jobs = []

        # A pass is due where it could cancel a job.
        if self.late_date <= now + PLAN_TOLERANCE:
            self.has_changed = True
            self.late_date = _INFINITY

        if self.has_changed and self.entries:
            self.main_pass(second)
            self.close_up()

        date = _INFINITY
        if self.has_changed and self.entries:
            date = self.backfill_date(now)
            if date <= now + PLAN_TOLERANCE:
                self.last_backfill = date
                self.has_changed = False
                date = _INFINITY
                self.backfill_pass(second)
                self.close_up()
        self.had_waiting = len(self.entries) > 0
        return self.call_date(now, date)

    def backfill_date(self, now: float) -> float:
        """Return when the next backfill pass is due. O(1).

        As long as jobs wait, one follows the other; else the next job does not wait for it.
        """
        last = self.last_backfill
        interval = self.interval
        if now + PLAN_TOLERANCE < last + interval:
            return last + interval
        if not self.had_waiting or last == -_INFINITY:
            return now
        return last + float(math.ceil((now - PLAN_TOLERANCE - last) / interval)) * interval

    def call_date(self, now: float, date: float) -> float:
        """Return when to ask for the next call (seconds): at the latest at ``date``; infinite if it
        is asked for already. O(queue).
        """
        if self.entries:
            if self.weight_age > 0 or self.weight_fairshare > 0:
                date = min(date, self.tick)

            if self.cancels:
                latest = _INFINITY
                for entry in self.entries:
                    latest = min(latest, entry.job.deadline - entry.requested)
                # From its latest start on a job can be cancelled, by the next backfill pass.
                self.late_date = _INFINITY
                if latest < _INFINITY:
                    base = max(self.last_backfill, now)
                    steps = floor_of(max(latest - base, 0.0) / self.interval) + 1
                    self.late_date = base + steps * self.interval
                date = min(date, self.late_date)

        if date == _INFINITY or now + PLAN_TOLERANCE < self.asked <= date:
            return _INFINITY
        self.asked = date
        return date

    # Priorities

    def priority_of(self, entry: QueueEntry, age: float) -> float:
        """Return the priority of a job that has waited for ``age`` seconds, as a whole number."""
        priority = entry.base + self.weight_age * min(1.0, max(0.0, age) / self.max_age)
        priority += self.weight_fairshare * entry.user.factor
        return max(1.0, floor_of(priority))

    def move_up(self, place: int) -> None:
        """Move the queue entry at an index ahead of all with lower priority; ties by arrival."""
        entries = self.entries
        entry = entries[place]
        while place > 0:
            other = entries[place - 1]
            if other.priority > entry.priority:
                break
            if other.priority == entry.priority and other.number < entry.number:
                break
            entries[place] = other
            place -= 1
        entries[place] = entry

    def calculate_priorities(self, now: float) -> None:
        """Decay usage and recalculate all priorities, if a period of ``calc_period`` has ended."""
        soon = now + PLAN_TOLERANCE
        period = self.calc_period
        is_fair = self.weight_fairshare > 0
        if self.tick > soon or (self.weight_age == 0 and not is_fair):
            return

        while self.tick <= soon:
            since = self.tick - period
            if not self.active or not is_fair:
                # Nothing is used meanwhile: the periods until now are as one.
                self.tick += floor_of((soon - self.tick) / period) * period
            if is_fair and self.tick > 0:
                self.fade(max(since, 0.0), self.tick)
            self.tick += period

            # Nothing else happens until now: many periods are charged at once.
            periods = floor_of((soon - self.tick) / period)
            if periods > MANY and self.tick > period:
                self.tick += periods * period
                self.fade_often(periods, self.tick - period)

        if is_fair:
            self.tree.set_factors()
        tick = self.tick - period
        for entry in self.entries:
            entry.priority = self.priority_of(entry, tick - entry.job.arrival)
        for place in range(len(self.entries)):
            self.move_up(place)
        self.has_changed = True

    # Usage

    def charge(self, entry: QueueEntry, until: float) -> None:
        """Add a running job's usage since it was last charged to its user, decayed. O(1)."""
        seconds = until - entry.since
        if seconds > 0:
            entry.user.usage += seconds * self.decay**seconds * entry.job.size
            entry.since = until

    def fade(self, since: float, until: float) -> None:
        """Decay usage over a period, then charge the running jobs. O(users + running)."""
        self.tree.fade(self.decay ** (until - since))
        for entry in self.active:
            self.charge(entry, until)

    def fade_often(self, periods: float, until: float) -> None:
        """Decay usage over several whole periods with the same running jobs.

        As :meth:`fade` after each of them; what a job uses in the periods is a geometric series.
        O(users + running).
        """
        factor = self.decay**self.calc_period
        left = factor**periods
        weight = periods if factor == 1.0 else (1.0 - left) / (1.0 - factor)
        self.tree.fade(left)
        for entry in self.active:
            used = self.calc_period * factor * entry.job.size
            entry.user.usage += used * weight
            entry.since = until

    # Limits and deadlines

    def is_late(self, entry: QueueEntry, now: float) -> bool:
        """Return whether a job that started now could miss its deadline, by its time limit."""
        return self.cancels and entry.job.deadline < now + entry.requested - PLAN_TOLERANCE

    def most_allowed(self, entry: QueueEntry) -> float:
        """Return the most processors that a job's user and QOS may use at once. O(1)."""
        own = entry.quota
        of_all = self.of_all
        most = min(own.most_user_processors, own.most_processors)
        return min(most, of_all.most_user_processors, of_all.most_processors)

    def has_room(self, entry: QueueEntry) -> bool:
        """Return whether the limits of the job's user and QOS allow one more running job. O(1)."""
        user = entry.user.number
        return entry.quota.has_room(user) and self.of_all.has_room(user)

    def has_processors(self, entry: QueueEntry) -> bool:
        """Return whether the limits of the job's user and QOS allow its processors now. O(1)."""
        user = entry.user.number
        needed = entry.job.size
        return entry.quota.has_processors(user, needed) and self.of_all.has_processors(user, needed)

    def count_running(self, entry: QueueEntry, jobs: int) -> None:
        """Count a job against the limits (``jobs`` 1), or no longer (-1). O(1)."""
        user = entry.user.number
        processors = jobs * entry.job.size
        entry.quota.count(user, jobs, processors)
        self.of_all.count(user, jobs, processors)

    # What jobs do

    def start_chosen(self, entry: QueueEntry, now: float) -> None:
        """Start a waiting job on the hosts that a pass has chosen for it. O(running + hosts)."""
        entry.hosts = HostBits(self.manager.machine_size)
        entry.hosts.copy_from(self.chosen)
        if self.shared is None:
            self.free_hosts.remove(self.chosen)
        else:
            self.amounts.take(entry.job, 0.0, _INFINITY)
        self.run(entry, now)
        self.starting.append(entry)
        entry.is_waiting = False

    def run(self, entry: QueueEntry, now: float) -> None:
        """Insert a job into the running ones, sorted by expected end, then arrival. O(running)."""
        entry.end = end_of(now, entry.requested)
        entry.since = now
        active = self.active
        place = len(active)
        while place > 0:
            other = active[place - 1]
            if other.end < entry.end or (other.end == entry.end and other.number < entry.number):
                break
            place -= 1
        active.insert(place, entry)
        self.count_running(entry, 1)

    def leave(self, job: Job, now: float) -> None:
        """Remove an ended job from the running ones and free its hosts. O(running + hosts)."""
        for place in range(len(self.active)):
            entry = self.active[place]
            if entry.job is job:
                if self.weight_fairshare > 0:
                    self.charge(entry, now)
                # Hosts that went away while it ran do not come free.
                entry.hosts.keep_common(self.there)
                if self.shared is None:
                    self.free_hosts.add(entry.hosts)
                else:
                    self.amounts.give(job, 0.0, _INFINITY)
                del self.active[place]
                self.count_running(entry, -1)
                self.has_changed = True
                return

    def cancel(self, entry: QueueEntry, now: float) -> None:
        """Take a job out of the queue, to be rejected after the pass. O(1)."""
        entry.cancelled = now
        entry.is_waiting = False
        self.late.append(entry)

    def close_up(self) -> None:
        """Remove started and cancelled jobs from the queue. O(queue)."""
        self.entries = [entry for entry in self.entries if entry.is_waiting]

    # The passes

    def main_pass(self, now: float) -> None:
        """Start jobs by priority until one does not fit; cancel late ones."""
        for entry in self.entries:
            if self.is_late(entry, now):
                self.cancel(entry, now)
                continue
            if not self.has_room(entry):
                continue

            self.trial.copy_from(self.free_hosts)
            self.leave_windows(now, now + entry.requested)
            if self.shared is not None:
                if not self.choose_sharing(entry, self.amounts):
                    return
            elif entry.job.processors > self.trial.count():
                return
            if self.has_processors(entry):
                if self.shared is None:
                    self.choose(self.trial, entry.job.processors)
                self.start_chosen(entry, now)

    def backfill_pass(self, now: float) -> None:
        """Plan jobs in order of priority: start what fits now, reserve hosts for others."""
        if self.shared is not None and not self.options.whole_nodes:
            self.plan_amounts(now)
            return
        begin = self.down(now)
        end = self.down(now + self.window)
        hosts = HostBits(self.manager.machine_size)
        hosts.copy_from(self.there)
        self.map = [Record(begin, end, hosts)]
        # Slurm reserves nothing more once its map is so long.
        most = 2 * self.most_tests + 4

        tests = 0
        for entry in self.entries:
            if tests >= self.most_tests:
                return
            if not self.is_considered(entry, now):
                continue

            self.is_tested = False
            start = self.planned_start(entry, now)
            if self.is_tested:
                tests += 1
            if start == _INFINITY or not self.has_processors(entry):
                continue
            if start <= now:
                self.start_chosen(entry, now)
            elif len(self.map) + 2 <= most:
                self.keep_for(self.down(start), self.down(start + entry.requested))

    def is_considered(self, entry: QueueEntry, now: float) -> bool:
        """Return whether a backfill pass looks at a job: limits allow it, and it is not late, since
        a late one is cancelled. O(1).
        """
        if not self.has_room(entry):
            return False
        if self.is_late(entry, now):
            self.cancel(entry, now)
            return False
        return True

    def end_after(self, entry: QueueEntry, now: float) -> float:
        """Return when a running job is expected to end (seconds), later than now even if it is
        overdue. O(1).
        """
        return entry.end if entry.end > now else max(entry.end + FIRST_WINDOW, now + 1)

    def down(self, date: float) -> float:
        """Round a date (seconds) down to a multiple of ``bf_resolution``. O(1)."""
        return floor_of((date + PLAN_TOLERANCE) / self.resolution) * self.resolution

    def planned_start(self, entry: QueueEntry, now: float) -> float:
        """Return the earliest start (seconds) of a job on hosts without reservation, and choose
        them.

        Infinite: not within the window. Whether that was tried is noted. O(map² × hosts).
        """
        duration = entry.requested
        later = now
        while True:
            after = later
            later = self.hosts_until(after, after + duration)
            if self.trial.count() < entry.least:
                if later == 0:
                    return _INFINITY
                continue

            self.is_tested = True
            start = max(after, self.first_date(now, entry))
            if start == _INFINITY:
                if later == 0:
                    return _INFINITY
                continue
            if start <= now:
                return start
            # Other hosts may come free before that.
            if later > 0 and start > later:
                continue
            if start > now + self.window:
                return _INFINITY

            # They were without reservation at another date: look again from this one on.
            is_kept = self.is_kept(self.down(start), self.down(start + duration))
            if not is_kept and not self.sees_maintenance(start, start + duration):
                return start
            later = start

    def hosts_until(self, after: float, end: float) -> float:
        """Find the hosts without reservation from ``after`` to ``end``; return when to look next
        for others (seconds).

        That is 0 if there never are. O(map × hosts).
        """
        records = self.map
        trial = self.trial
        trial.copy_from(self.there)
        later = self.leave_windows(after, end)
        for place in range(len(records)):
            record = records[place]
            if record.end <= after:
                continue

            # Where the next record has hosts that this one has not, more hosts come free.
            if place + 1 < len(records) and later == 0:
                following = records[place + 1]
                self.future.copy_from(trial)
                self.future.keep_common(record.hosts)
                if not following.hosts.is_within(self.future):
                    later = record.end

            if record.begin > end:
                break
            trial.keep_common(record.hosts)
        return later

    def first_date(self, now: float, waiting: QueueEntry) -> float:
        """Choose the hosts, of those without reservation, that are free first; return from when on.
        O(running × hosts).

        Running jobs that end within a window count as ending with the last of them.
        """
        future = self.future
        trial = self.trial
        future.copy_from(self.free_hosts)
        future.keep_common(trial)
        if self.finds(waiting, self.amounts):
            return now
        if self.shared is not None:
            self.by_then.copy_from(self.amounts)

        active = self.active
        count = len(active)
        index = 0
        window = FIRST_WINDOW
        until = 0.0
        while index < count:
            # Add the hosts of the jobs that end in this window.
            last = -1
            following = _INFINITY
            while index < count:
                entry = active[index]
                index += 1
                if not entry.hosts.shares(trial):
                    continue
                if until == 0:
                    until = entry.end + FIRST_WINDOW - entry.end % FIRST_WINDOW
                last = index - 1
                future.add_common(entry.hosts, trial)
                if self.shared is not None:
                    self.by_then.give(entry.job, 0.0, _INFINITY)
                following = _INFINITY
                if index < count:
                    entry = active[index]
                    following = entry.end
                if following > until + window:
                    break
            if last < 0:
                return _INFINITY

            # The next window reaches the next end, at least.
            window *= 2
            while index < count and following > until + window:
                window *= 2

            if self.finds(waiting, self.by_then):
                entry = active[last]
                return self.end_after(entry, now)
        return _INFINITY

    def finds(self, entry: QueueEntry, amounts: NodeProfile | None) -> bool:
        """Choose hosts for a job of those that are free by some date (``future``), or have these
        ``amounts`` free; return whether there are enough. O(hosts).
        """
        if amounts is not None:
            return self.choose_sharing(entry, amounts)
        if self.future.count() < entry.least:
            return False
        self.choose(self.future, entry.least)
        return True

    def choose_sharing(self, entry: QueueEntry, amounts: NodeProfile) -> bool:
        """Choose hosts, of those that a job may get (``trial``), by what is free of them; return
        whether there are enough. O(hosts).
        """
        if not amounts.choose_within(entry.job, self.trial):
            return False
        self.chosen.set_mask(entry.job.request.hosts_mask())
        return True

    def plan_amounts(self, now: float) -> None:
        """Plan jobs in order of priority, each with the amounts that it asks for: start what fits
        now, reserve for others. O(tests × hosts × steps).
        """
        profile = self.by_then
        profile.reset(now, self.there)
        for window in self.windows:
            profile.take_amount(max(now, window.since), window.until, window.hosts)
        for entry in self.active:
            profile.take(entry.job, now, self.end_after(entry, now))

        tests = 0
        for entry in self.entries:
            if tests >= self.most_tests:
                return
            if not self.is_considered(entry, now):
                continue

            tests += 1
            start = profile.fit(entry.job, now)
            if start > now + self.window or not self.has_processors(entry):
                continue
            end = end_of(start, entry.requested)
            if start > now:
                start = self.down(start)
                end = max(self.down(end), start + self.resolution)
            else:
                self.chosen.set_mask(entry.job.request.hosts_mask())
                self.start_chosen(entry, now)
            profile.take(entry.job, start, end)

    def is_kept(self, start: float, end: float) -> bool:
        """Return whether a chosen host is reserved for another job between two dates."""
        for record in self.map:
            if record.end > start and record.begin < end:  # noqa: SIM102 - as the dates are asked
                if not self.chosen.is_within(record.hosts):
                    return True
        return False

    def keep_for(self, start: float, end: float) -> None:
        """Reserve the chosen hosts between two dates. O(map × hosts)."""
        records = self.map
        first = records[0]
        start = max(start, first.begin)
        end = max(end, start + self.resolution)

        # Records are split so that one begins at the start and one ends at the end.
        place = 0
        count = len(records)
        while True:
            record = records[place]
            if record.end >= start:
                break
            place += 1
            if place == count:
                return
        if record.end > start:
            self.split(place, start)
        place += 1

        while place < len(records):
            record = records[place]
            if end < record.end:
                self.split(place, end)
            record.hosts.remove(self.chosen)
            if record.end == end:
                return
            place += 1

    def split(self, place: int, date: float) -> None:
        """Split the record at an index of the backfill map in two at a date (seconds). O(hosts)."""
        record = self.map[place]
        hosts = HostBits(self.manager.machine_size)
        hosts.copy_from(record.hosts)
        self.map.insert(place + 1, Record(date, record.end, hosts))
        record.end = date

    # Maintenance

    def reaches(self, window: ClosedHosts, start: float, end: float) -> bool:
        """Return whether a run from ``start`` to ``end`` (seconds) would overlap a maintenance
        window. O(1).
        """
        return start < window.until and end + (self.fraction - PLAN_TOLERANCE) > window.since

    def sees_maintenance(self, start: float, end: float) -> bool:
        """Return whether a chosen host has maintenance between two dates. O(windows × hosts)."""
        for window in self.windows:
            if self.reaches(window, start, end) and window.hosts.shares(self.chosen):
                return True
        return False

    def leave_windows(self, start: float, end: float) -> float:
        """Remove hosts with maintenance between two dates from the hosts that a job may get.

        Returned is when the first of it is over, 0 if there is none. O(windows × hosts).
        """
        later = 0.0
        for window in self.windows:
            if self.reaches(window, start, end):
                over = float(math.ceil(window.until))
                later = over if later == 0 else min(later, over)
                self.trial.remove(window.hosts)
        return later

    # Hosts

    def choose(self, hosts: HostBits, wanted: int) -> None:
        """Choose ``wanted`` of these hosts, neighbours where possible (best fit).

        The shortest interval that is long enough, else the longest, and again for the rest.
        O(hosts × intervals).
        """
        left = self.left
        left.copy_from(hosts)
        chosen = self.chosen
        chosen.clear()
        end = 64 * hosts.size
        while wanted > 0:
            best = 0
            best_length = 0
            host = left.first_from(0, True)
            while host < end:
                length = left.first_from(host, False) - host
                if best_length == 0:
                    is_better = True
                elif length >= wanted:
                    is_better = best_length < wanted or length < best_length
                else:
                    is_better = length > best_length
                if is_better:
                    best = host
                    best_length = length
                host = left.first_from(host + length, True)

            taken = min(wanted, best_length)
            left.move_interval(best, taken, chosen)
            wanted -= taken
