"""The loop of events of a run: which happens next, and what a scheduler hears together.

The order of events is that of :mod:`~qops_batsim.engine.simulation`, to the last bit of each date.
:class:`Loop` keeps the dates; what happens at them depends on who runs the jobs, and who decides:

- :class:`SchedulerLoop` calls a scheduler directly, and ends jobs that sleep by itself. Jobs are
  known by their index in the order of submission; those that a scheduler registers follow.
- :class:`~qops_batsim.engine.message_loop.MessageLoop` has a world run all jobs, and a decision
  side answer messages.

Whatever does more than sleep is *physics*: a world, whose waits are in the loop's heap, and which
the loop asks to settle when each of them ends before it looks for the next date.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

from qops_batsim.core.arrays import grown
from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import OVER, RUNNING, WAITING, Job, WrittenFields
from qops_batsim.core.node_request import NodeLayout, NodeRequest
from qops_batsim.core.overrides import check_attributes
from qops_batsim.core.scheduler import Scheduler
from qops_batsim.engine.embedded_manager import EmbeddedManager
from qops_batsim.engine.engine_options import MESSAGES_PER_REPORT
from qops_batsim.engine.sharing_manager import SharingManager
from qops_batsim.engine.wait_heap import CALL, EVENT, SUBMISSION, WORLD, Heap, Turns
from qops_batsim.job_fields import HostsAsked, QosRequest
from qops_batsim.jobs import COMPLETED_KILLED, COMPLETED_SUCCESSFULLY, FINAL_STATES
from qops_batsim.protocol.events import (
    JOB_CANCELLED,
    MACHINES_AWAY,
    MACHINES_BACK,
    NO_MORE_EXTERNAL_EVENTS,
    NO_MORE_STATIC_JOBS,
    Notify,
)
from qops_batsim.protocol.host_news import note_hosts
from qops_batsim.timing import SAME_DATE

INFINITY = float("inf")
KILLED = FINAL_STATES.index(COMPLETED_KILLED)


class Submissions:
    """The jobs of a workload in the order of submission, created when they are submitted.

    Parameters
    ----------
    workload
        Name of the workload, put in front of the identifiers.
    ids, requests
        Identifiers of the jobs in the workload, and what users ask for, if any do.
    names, profiles
        Names of execution profiles, and which of them each job has; the latter an array.
    dates, processors, walltimes
        Seconds, infinite without walltime; arrays.
    fields
        Where all fields of a job can be had, by its identifier in the workload.
    hosts_asked
        What the jobs ask of their hosts beyond a number, if any do.
    asking
        Returns the request of a job on shared hosts by its index, where requests are made already.
    """

    def __init__(
        self,
        workload: str,
        ids: list[str],
        requests: list[QosRequest | None] | None,
        names: list[str],
        profiles: array[int],
        dates: array[float],
        processors: array[int],
        walltimes: array[float],
        fields: WrittenFields,
        hosts_asked: list[HostsAsked | None] | None = None,
        asking: Callable[[int], NodeRequest] | None = None,
    ) -> None:
        self.prefix = f"{workload}!"
        self.ids = ids
        self.requests = requests
        self.hosts_asked = hosts_asked
        self.asking: Any = asking
        self.names = names
        self.profiles = profiles
        self.dates = dates
        self.processors = processors
        self.walltimes = walltimes
        self.fields = fields
        self.size = len(ids)
        self.next = 0

    def job(self, index: int) -> Job:
        """Create the job with an index."""
        # As Job() would, without a call that takes Python objects.
        made = Job.__new__(Job)
        job_id = self.ids[index]
        made.id = self.prefix + job_id
        made.profile = self.names[self.profiles[index]]
        made.submission_time = self.dates[index]
        made.processors = self.processors[index]

        limit = self.walltimes[index]
        made.walltime = None if limit == INFINITY else limit
        made.qos = None if self.requests is None else self.requests[index]
        made.hosts_asked = None if self.hosts_asked is None else self.hosts_asked[index]
        made._fields = self.fields
        made._begin()
        if self.asking is not None:
            made.request = self.asking(index)
            made.size = made.request.size
        made.index = index
        made.phase = WAITING
        return made


class Loop:
    """The dates of a run, of which those that are equal but for rounding are one message.

    Parameters
    ----------
    workloads
        The jobs of each.
    events
        Dates (seconds), in order, of what happens whatever is decided; None where nobody asked for
        events, which is not the same as none.
    waits, turns
        The heap of dates, and what numbers them.
    physics
        What executes jobs that do more than sleep, if any do; it puts its waits into the heap.

    Attributes
    ----------
    now
        The current date (seconds).
    ended_count
        How many jobs have ended or were rejected.
    is_over
        Whether nobody asks what happens from now on.
    """

    def __init__(
        self,
        workloads: list[Submissions],
        events: Sequence[float] | None,
        waits: Heap,
        turns: Turns,
        physics: Any,
    ) -> None:
        self.now = 0.0
        self.busy_until = 0.0
        self.waits = waits
        self.turns = turns
        self.physics = physics
        self.executes = False
        self.withdraws = False
        self.is_over = False
        self.ended_count = 0
        self.told = 0
        self.told_before = 0

        self.workloads = workloads
        self.submitting = 0
        for which in range(len(workloads)):
            self.wait_for_next(which)
            self.submitting += workloads[which].size > 0

        self.events = list(events or ())
        self.happened = 0
        if self.events:
            self.waits.push(max(0.0, self.events[0]), self.turns.next(), EVENT)

        # Nothing more of these kinds will come, which is to be told.
        self.closing: list[str] = []
        if not self.submitting:
            self.closing.append(NO_MORE_STATIC_JOBS)
        if events is not None and not self.events:
            self.closing.append(NO_MORE_EXTERNAL_EVENTS)

    # The order of events

    def run(self, on_progress: Callable[[int], None]) -> None:
        """Run until no events are left; report the number of ended jobs now and then.

        Python notices an interrupt then.
        """
        self.begin()
        self.carry_out()
        messages = 0
        while not self.is_over and self.next_message():
            self.decide()
            self.told = 0
            self.told_before = 0
            if self.closing:
                self.tell_closing()
            self.carry_out()
            messages += 1
            if messages % MESSAGES_PER_REPORT == 0:
                on_progress(self.ended_count)

    def next_message(self) -> bool:
        """Process events until the scheduler hears of some; return False if no event is left.

        That no more jobs will come is told alone, unless an end or a call follows at its date.
        """
        if self.told == 0 and self.closing:
            self.tell_closing()

        soon = self.now
        while self.told == 0 or self.busy_until > soon:
            date = self.next_date()
            if self.told > 0 and self.busy_until < date:
                # Events have piled up while the decision side was "thinking" until then.
                self.come_to(max(self.now, self.busy_until))
                break
            if date == INFINITY:
                return False
            self.come_to(max(self.now, date))
            soon = self.now + SAME_DATE
            self.end_all(soon)
        return True

    def next_date(self) -> float:
        """Return the date at which something happens next, infinite if nothing will."""
        waits = self.waits
        if self.executes:
            self.physics.settle()
        if self.withdraws:
            while waits.size > 0 and self.is_withdrawn(
                waits.jobs[0], waits.numbers[0], waits.dates[0]
            ):
                waits.pop()
        return waits.dates[0] if waits.size > 0 else INFINITY

    def is_withdrawn(self, index: int, number: int, date: float) -> bool:
        """Return whether a wait in the heap was cancelled, or has another date by now."""
        return index == WORLD and not self.physics.waits.has(number, date)

    def end_all(self, soon: float) -> None:
        """Process all events of the current date, up to ``soon`` (equal but for rounding)."""
        waits = self.waits
        while waits.size > 0 and waits.dates[0] <= soon:
            self.end_due(soon)
        if self.closing and (
            self.told > self.told_before or self.told == 0 or self.busy_until > soon
        ):
            self.tell_closing()
        self.told_before = 0

    def end_due(self, soon: float) -> None:
        """End the waits that are due, in the order in which they began."""
        waits = self.waits
        date = waits.dates[0]
        number = waits.numbers[0]
        index = waits.jobs[0]
        waits.pop()
        if waits.size == 0 or waits.dates[0] > soon:
            # Usually it is the only one.
            self.end(index, number, date)
            return

        due = [(number, index, date)]
        while waits.size > 0 and waits.dates[0] <= soon:
            due.append((waits.numbers[0], waits.jobs[0], waits.dates[0]))
            waits.pop()
        due.sort()
        for number, index, date in due:
            self.end(index, number, date)

    def end(self, index: int, number: int, date: float) -> None:
        """Process the end of a wait: a job ends, jobs are submitted, or the scheduler is called."""
        if index >= 0:
            self.end_sleep(index)
        elif index <= SUBMISSION:
            self.submit(SUBMISSION - index)
        elif index == EVENT:
            self.happen()
        elif index == WORLD:
            self.physics.waits.end_one(number, date)
            self.hear_physics()
        else:
            self.told += 1
            self.call()

    def submit(self, which: int) -> None:
        """Submit a workload's jobs of this date, and wait for the next ones."""
        submissions = self.workloads[which]
        index = submissions.next
        latest = max(self.now, submissions.dates[index])
        while index < submissions.size and submissions.dates[index] <= latest:
            self.submit_job(submissions.job(index))
            self.told += 1
            index += 1
        submissions.next = index

        self.wait_for_next(which)
        self.submitting -= index == submissions.size
        if self.submitting == 0:
            self.note_closing(NO_MORE_STATIC_JOBS)

    def wait_for_next(self, which: int) -> None:
        """Wait for the date of a workload's next jobs, if any."""
        submissions = self.workloads[which]
        if submissions.next < submissions.size:
            date = max(0.0, submissions.dates[submissions.next])
            self.waits.push(date, self.turns.next(), SUBMISSION - which)

    def happen(self) -> None:
        """Execute the external events (such as outages) of this date; wait for the next ones."""
        latest = max(self.now, self.events[self.happened])
        while self.happened < len(self.events):
            date = self.events[self.happened]
            if date > latest:
                self.waits.push(date, self.turns.next(), EVENT)
                return
            self.happened += 1
            self.happen_one(self.happened - 1)
        self.note_closing(NO_MORE_EXTERNAL_EVENTS)

    def note_closing(self, kind: str) -> None:
        """Record that no more submissions (or external events) follow, to be told with the next
        events.
        """
        if self.told_before == 0:
            self.told_before = self.told
        self.closing.append(kind)

    def tell_closing(self) -> None:
        """Tell that all jobs are submitted, or that all external events have happened."""
        for kind in self.closing:
            self.close(kind)
            self.told += 1
        self.closing.clear()

    # What depends on who runs the jobs, and who decides

    def begin(self) -> None:
        """Tell of the beginning; what is decided then is carried out next."""

    def come_to(self, date: float) -> None:
        """Set the current date of the simulation (seconds)."""
        self.now = date
        if self.executes:
            self.physics.now = date

    def submit_job(self, job: Job) -> None:
        """Tell of a submission."""

    def end_sleep(self, index: int) -> None:
        """End the job with this index, which has slept."""

    def hear_physics(self) -> None:
        """Tell what the end of one of the world's waits has brought about."""

    def happen_one(self, place: int) -> None:
        """Execute the external event in this place of the list, and tell of it."""

    def close(self, kind: str) -> None:
        """Tell that no more jobs, or external events, will come."""

    def call(self) -> None:
        """Tell of the date of a requested call."""

    def decide(self) -> None:
        """Have what was told answered."""

    def carry_out(self) -> None:
        """Carry out what was decided; what happens at once is told with the next events."""


class SchedulerLoop(Loop):
    """One run of a workload under a scheduler in this process.

    Parameters
    ----------
    scheduler
        Who decides.
    machine_size
        Number of hosts.
    submissions
        The jobs.
    run_times
        How long each job sleeps (seconds), by index: an array.
    events
        What happens whatever the scheduler does: date (seconds) and notice, in order; None where
        nobody asked for events, which is not the same as none.
    physics
        What executes jobs that the scheduler registers and that do more than sleep, if it may
        register any.
    end_states
        How each job ends then, by index: an array of positions in
        :data:`~qops_batsim.jobs.FINAL_STATES`; None if nobody asks.
    layout
        What each host has, if jobs share hosts by amounts.

    Attributes
    ----------
    manager
        The scheduler's resource manager.
    starts, finishes
        Dates by index (seconds), NaN where there is none.
    ended
        Indices of the jobs that have ended or were rejected, in the order in which they did.
    happened_dates
        Dates (seconds) at which the events so far happened.
    arrived
        How many jobs of the workload had been submitted before each registered one.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        machine_size: int,
        submissions: Submissions,
        run_times: array[float],
        events: list[tuple[float, Notify]] | None = None,
        physics: Any = None,
        end_states: array[int] | None = None,
        layout: NodeLayout | None = None,
    ) -> None:
        turns = Turns() if physics is None else physics.waits.turns
        waits = Heap() if physics is None else physics.waits.heap
        dates = None if events is None else [date for date, _ in events]
        Loop.__init__(self, [submissions], dates, waits, turns, physics)
        self.scheduler = scheduler
        if layout is None:
            self.manager = EmbeddedManager(machine_size, submissions.size, turns)
        else:
            self.manager = SharingManager(layout, submissions.size, turns)
        self.follows_kills = False
        self.running_since: list[float] = []
        self.asked_until = 0
        self.open_starts = 0

        self.run_times = run_times
        self.end_states: Any = end_states
        self.starts = array("d", [float("nan")]) * submissions.size
        self.finishes = array("d", [float("nan")]) * submissions.size
        self.ended = array("q", bytes(8 * submissions.size))
        self.arrived: list[int] = []

        self.notices = [notice for _, notice in events or ()]
        self.happened_dates: list[float] = []
        self.cancelled: list[str] = []
        # The jobs that will be cancelled, once they are submitted.
        self.given_up: dict[str, Any] = {
            str(notice.fields["job_id"]): None
            for notice in self.notices
            if notice.type == JOB_CANCELLED
        }
        if any(notice.type != JOB_CANCELLED for notice in self.notices):
            self.manager.expect_outages()

    def begin_at(self, date: float, running_since: list[float], waiting: int) -> None:
        """Begin at a date (seconds), with the first jobs already running, and end once the
        ``waiting`` jobs that follow have started or left.

        Running jobs go on for their run times, on the lowest hosts, or those that their requests
        hold. Jobs that only sleep, without events.
        """
        self.come_to(date)
        self.running_since = running_since
        self.asked_until = len(running_since) + waiting
        self.open_starts = waiting
        self.is_over = waiting == 0

    def begin(self) -> None:
        self.scheduler.begin(self.manager)
        check_attributes(self.scheduler)
        if self.manager.registry is not None:
            self.follows_kills = True
            self.withdraws = True
        if self.running_since:
            self.join_running()
        if self.follows_kills:
            # To whom the beginning is told in a message may register jobs before any event.
            self.decide()

    def join_running(self) -> None:
        """Start the jobs that already run, and tell the scheduler of them."""
        manager = self.manager
        submissions = self.workloads[0]
        self.waits.pop()  # For their submission.
        for start in self.running_since:
            index = submissions.next
            job = submissions.job(index)
            manager.start_job(job, None)
            job.phase = RUNNING
            job.start = start
            self.starts[index] = start
            self.scheduler.joined(job)
            self.waits.push(self.now + self.run_times[index], manager.numbers[index], index)
            submissions.next = index + 1

        manager.started.clear()
        self.wait_for_next(0)
        if submissions.next == submissions.size:
            self.submitting = 0
            self.closing.append(NO_MORE_STATIC_JOBS)

    def come_to(self, date: float) -> None:
        Loop.come_to(self, date)
        self.manager.now = date

    def submit_job(self, job: Job) -> None:
        if self.given_up and job.id in self.given_up:
            self.given_up[job.id] = job
        if self.manager.use is not None:
            self.manager.asking(job)
        self.scheduler.submitted(job)

    def end_sleep(self, index: int) -> None:
        job = self.manager.jobs[index]
        if job is not None:  # Else it was killed.
            self.end_job(job)

    def is_withdrawn(self, index: int, number: int, date: float) -> bool:
        if index >= 0:
            return self.manager.jobs[index] is None  # It was killed.
        return Loop.is_withdrawn(self, index, number, date)

    def hear_physics(self) -> None:
        """End the registered jobs whose executions have ended in the world."""
        manager = self.manager
        for record in manager.registry.ended():
            job = manager.computing_jobs[record.job.id]
            self.end_states[job.index] = FINAL_STATES.index(record.state)
            self.end_job(job)

    def end_job(self, job: Job) -> None:
        """End a job by itself."""
        manager = self.manager
        index = job.index
        manager.jobs[index] = None
        manager.leave(job)
        manager.release(job)
        job.phase = OVER
        if self.end_states is not None:
            job.state = FINAL_STATES[self.end_states[index]]
        self.finishes[index] = self.now
        self.note_ended(index)
        self.told += 1
        self.scheduler.ended(job)

    def happen_one(self, place: int) -> None:
        notice = self.notices[place]
        manager = self.manager
        self.happened_dates.append(self.now)
        if notice.type == JOB_CANCELLED:
            self.cancelled.append(str(notice.fields["job_id"]))
            self.told += 1
            return
        if notice.type in (MACHINES_AWAY, MACHINES_BACK):
            hosts = HostSet.parse(str(notice.fields["resources"])).mask
            if not hosts:
                return
            away = manager.away & ~hosts
            manager.away = away | hosts if notice.type == MACHINES_AWAY else away

        announced = note_hosts(manager, notice)
        if announced is None:
            self.scheduler.notified(notice)
        else:
            self.scheduler.hosts_changed(announced)
        self.told += 1

    def close(self, kind: str) -> None:
        if kind == NO_MORE_STATIC_JOBS:
            self.scheduler.all_submitted()
        else:
            note_hosts(self.manager, Notify.of(kind))
            self.scheduler.hosts_changed(0)

    def call(self) -> None:
        self.scheduler.called()

    def decide(self) -> None:
        if self.cancelled:
            self.tell_cancelled()
        if self.follows_kills:
            self.manager.begin_decision()
        self.scheduler.decide()

    def tell_cancelled(self) -> None:
        """Tell of the users' cancellations of submitted jobs, or of their last runs."""
        for job_id in self.cancelled:
            job = self.given_up[job_id]
            if job is not None and self.follows_kills:
                job = self.manager.run_of(job)
            if job is not None:
                self.scheduler.cancelled(job)
        self.cancelled.clear()

    def carry_out(self) -> None:
        """Carry out a decision: wait for the ends of the jobs that it started, and for the
        requested calls; tell of the ends of the jobs that it killed.
        """
        manager = self.manager
        if manager.added:
            self.add_registered()

        if manager.started:
            for job in manager.started:
                index = job.index
                self.starts[index] = self.now
                if index < self.asked_until:
                    self.note_start()
                date = self.now + self.run_times[index]
                if date == date:  # Else it is executed in the world.
                    self.waits.push(date, manager.numbers[index], index)
            manager.started.clear()

        if manager.calls:
            for date, number in manager.calls:
                self.waits.push(date, number, CALL)
            manager.calls.clear()

        if manager.over:
            for job in manager.over:
                self.note_ended(job.index)
                if job.index < self.asked_until:
                    self.note_start()
            manager.over.clear()

        if self.follows_kills:
            manager.is_deciding = False
            self.told += manager.announced
            manager.announced = 0
            if manager.kills:
                self.tell_kills()

    def tell_kills(self) -> None:
        """Tell of the kills of this date, those that were asked for together in one event."""
        manager = self.manager
        scheduler = self.scheduler
        # The scheduler may ask for the next ones as it hears of these.
        kills = manager.kills
        manager.kills = []

        for together in kills:
            for job in together:
                manager.jobs[job.index] = None
                manager.release(job)
                job.phase = OVER
                job.state = COMPLETED_KILLED
                if self.end_states is not None:
                    self.end_states[job.index] = KILLED
                self.finishes[job.index] = self.now
                scheduler.ended(job)

            manager.qos_log.kills.update([job.id for job in together])
            for job in together:
                progress = manager.registry.progress(job, self.starts[job.index], self.now)
                scheduler.progressed(job, progress)
            for job in together:
                scheduler.killed(job)
            self.told += len(together) + 1

    def add_registered(self) -> None:
        """Add jobs that the scheduler registered during the run, with their run times."""
        submissions = self.workloads[0]
        for job, seconds, state in self.manager.added:
            index = job.index
            if index >= len(self.starts):
                self.starts = grown("d", self.starts)
                self.finishes = grown("d", self.finishes)
                self.ended = grown("q", self.ended)
            if index >= len(self.run_times):
                self.run_times = grown("d", self.run_times)

            self.starts[index] = float("nan")
            self.finishes[index] = float("nan")
            self.run_times[index] = seconds
            if seconds != seconds:
                self.executes = True

            if self.end_states is not None:
                if index >= len(self.end_states):
                    self.end_states = grown("q", self.end_states)
                self.end_states[index] = FINAL_STATES.index(state or COMPLETED_SUCCESSFULLY)
            self.arrived.append(submissions.next)
        self.manager.added.clear()

    def note_start(self) -> None:
        """Count a job whose start was asked for, and which has started or left the queue."""
        self.open_starts -= 1
        self.is_over = self.open_starts == 0

    def note_ended(self, index: int) -> None:
        """Record the end of a job, or its rejection."""
        self.ended[self.ended_count] = index
        self.ended_count += 1
