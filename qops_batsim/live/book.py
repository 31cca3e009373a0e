"""The book of live jobs: turns differences between polls into events of the protocol.

What is new in a poll is told to the decision module as an engine would tell it:

1. a waiting job is submitted, and held; a task of an array likewise, but no more of an array at
   once than may run: the others could not start when it is promised;
2. a job that was started ends when its resource manager says so, or no longer knows it;
3. a waiting job that its user cancels is withdrawn; one whose nodes, limit or deadline its user
   changes is withdrawn and submitted again, under the id of another run;
4. a run that was requeued ends as killed; it is submitted again, unless the module had it killed;
5. a job that somebody else has started runs, until its limit and the margin at most; nodes that it
   shares with another one are away as long as it does. Where jobs share nodes by amounts, those are
   on which the others do not leave what it holds;
6. a node whose state is not known stays as it was.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec.structs import replace

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.node_request import NodeLayout, NodeRequest
from qops_batsim.core.refusal import Refusal, RefusalKind, sentence
from qops_batsim.errors import InputError
from qops_batsim.job_fields import AskedPart, HostsAsked, complete_amounts, written_hosts
from qops_batsim.jobs import COMPLETED_KILLED, REJECTED, Job
from qops_batsim.live.journal import About, JobRun, LiveStanding
from qops_batsim.live.manager import JobPhase, NodeState, SeenJob, array_of, natural_key
from qops_batsim.protocol.decisions import (
    CallMeLater,
    Decision,
    ExecuteJob,
    KillJob,
    RegisterJob,
    RejectJob,
)
from qops_batsim.protocol.events import (
    JOB_CANCELLED,
    JOB_RUNS,
    MACHINES_AWAY,
    MACHINES_BACK,
    Event,
    JobCompleted,
    JobKilled,
    JobSubmitted,
    Notify,
    RequestedCall,
)
from qops_batsim.slurm.host_requests import HostRequests
from qops_batsim.slurm.queued_amounts import QueuedAmounts
from qops_batsim.timing import SHORTEST
from qops_batsim.workload.workload_model import Workload, delay_profile, read_jobs

WORKLOAD = "w0"
"""Name of the workload whose jobs these are in the protocol."""

MOST_NICE = 10_000
"""A nice of minus so much is the highest priority of a user, of which few schedulers know."""

PATIENCE = 60.0
"""A start that takes longer is given up (seconds)."""

PROFILE = "unknown"
"""Name of the execution profile of a job of which only the limit is known."""


def away_after(away: HostSet, event: Event) -> HostSet:
    """Return which hosts are away after an event, given those before."""
    if not isinstance(event, Notify) or event.type not in (MACHINES_AWAY, MACHINES_BACK):
        return away
    hosts = HostSet.parse(str(event.fields["resources"]))
    return away | hosts if event.type == MACHINES_AWAY else away - hosts


class LiveBook:
    """Tracks the jobs of a live scheduler: turns what changed between two polls into events.

    Parameters
    ----------
    about
        The settings of the journal.
    entries
        The journal's runs that are not gone.
    count_runs
        Returns how many runs of a job the journal has.
    keeps_refused
        Whether a refused job goes on waiting, without a deadline.
    takes_best_effort
        Whether the scheduler decides about jobs without a deadline; else Slurm does.
    tells_others
        Whether the scheduler can be told of running jobs that others started; else their nodes
        are away until these jobs end.

    Attributes
    ----------
    changed
        Runs that differ from those in the journal, by id; cleared once they are written there.
    orders
        New orders, as (kind, run, detail); cleared once they are written.
    alarms
        Texts that an operator should read; cleared once they are written.
    behind
        Array tasks that wait for other tasks of their array, with the number of tasks that may
        run at once.
    """

    def __init__(
        self,
        about: About,
        entries: Sequence[JobRun] = (),
        *,
        count_runs: Callable[[str], int] = lambda job: 0,
        keeps_refused: bool = False,
        takes_best_effort: bool = True,
        tells_others: bool = True,
    ) -> None:
        self._about = about
        self._count_runs = count_runs
        self._keeps_refused = keeps_refused
        self._takes_best_effort = takes_best_effort
        self._tells_others = tells_others
        self._may_refuse = True
        self._places = {name: place for place, name in enumerate(about.nodes)}
        self._machine = about.machine
        if self._machine is not None:
            threads = max(int(has.get("threads", 1)) for has in about.hosts or ())
            self._requests = HostRequests(self._machine, threads)
            self._layout = NodeLayout(self._machine)
        self.jobs = {entry.job: entry for entry in entries}
        self._runs = {entry.run: entry for entry in entries}
        self._parked: dict[str, JobRun] = {}
        self._away = HostSet()
        self._gone = HostSet()
        self._calls: list[float] = []
        self.changed: dict[str, JobRun] = {}
        self.orders: list[tuple[str, JobRun, str]] = []
        self.alarms: list[str] = []
        self.behind: dict[str, int] = {}

    def recall(self, events: Sequence[Event], decisions: Sequence[Decision]) -> None:
        """Restore, from one recorded message, which hosts are away and which calls are due."""
        for event in events:
            self._away = away_after(self._away, event)
            if isinstance(event, RequestedCall):
                self._calls.pop(0)
        self._ask_calls(decisions)

    @property
    def away(self) -> HostSet:
        """Hosts that are away, those of jobs that are not told to the scheduler included."""
        return self._away

    def standing(self, module: msgspec.Raw) -> LiveStanding:
        """Return a snapshot for the next process: encoded scheduler, hosts away, calls due."""
        away, gone = str(self._away), str(self._gone)
        return LiveStanding(module=module, away=away, gone=gone, calls=self._calls)

    def go_on(self, standing: LiveStanding) -> None:
        """Restore the hosts that are away and the calls that are due from a snapshot."""
        self._away = HostSet.parse(standing.away)
        self._gone = HostSet.parse(standing.gone)
        self._calls = list(standing.calls)

    def waiting(self) -> list[JobRun]:
        """Return the jobs that wait for the scheduler to start them."""
        return [entry for entry in self.jobs.values() if entry.phase == "waiting"]

    # What is seen

    def observe(
        self,
        jobs: Sequence[SeenJob],
        nodes: Mapping[str, NodeState],
        now: float,
        *,
        may_refuse: bool = True,
    ) -> list[Event]:
        """Return what changed since the last poll, as events for the scheduler.

        ``now`` is in seconds since 1970. Unless ``may_refuse``, new jobs with a deadline
        are held, and the scheduler hears of them at a later poll.
        """
        self._may_refuse = may_refuse
        seen = {job.id: job for job in jobs}
        events: list[Event] = []
        for entry in list(self.jobs.values()):
            job = seen.get(entry.job)
            if job is None or not job.problem:
                events += self._follow(entry, job, now)

        parked = {entry.job for entry in self._parked.values()}
        tasks = Counter(map(array_of, self.jobs))
        self.behind.clear()
        for job in sorted(jobs, key=lambda job: (job.submitted, natural_key(job.id))):
            if job.id in self.jobs or job.id in parked:
                continue
            if job.phase is JobPhase.RUNNING and self.deadline_of(job) is not None:
                self.alarms.append(
                    f"job {job.id} was started before it was seen: its deadline is never answered"
                )
            array = array_of(job.id)
            events += self._meet(job, now, tasks[array])
            tasks[array] += job.id in self.jobs

        events += self._hosts(nodes)
        while self._calls and self._calls[0] <= self._seconds(now):
            self._calls.pop(0)
            events.append(RequestedCall())
        return events

    def _meet(self, job: SeenJob, now: float, siblings: int = 0) -> Iterator[Event]:
        """Add a job seen for the first time; ``siblings`` counts the known tasks of its array."""
        if self._machine is not None and not job.amounts and job.phase is not JobPhase.ENDED:
            return  # It is not told yet.
        if job.phase is JobPhase.RUNNING:
            entry = self.new_entry(job, now, is_ours=False, phase="running", start=job.start)
            yield from self._joined(entry, now)
            return

        asks = self.deadline_of(job) is not None
        is_left = job.problem or not (asks or self._takes_best_effort)
        if job.phase is JobPhase.ENDED or is_left:
            return

        is_behind = job.is_ready and 0 < job.throttle <= siblings
        if is_behind:
            self.behind[job.id] = job.throttle
        has_to_wait = job.is_ready and asks and not self._may_refuse
        if is_behind or job.is_early or has_to_wait:
            # Else it would start by itself when its turn comes, on nodes of a promise.
            self._hold(self.new_entry(job, now), job)
        elif job.is_ready:
            yield from self._submit(self.new_entry(job, now), job)

    def _joined(self, entry: JobRun, now: float) -> Iterator[Event]:
        """Add a running job that others started; yield the event that names its nodes.

        Nodes that another running job has, or that lack what it holds beside other jobs, are not
        named.
        """
        hosts = self._hosts_of(entry.hosts) - self._away
        left = {host: Counter(self._has(host)) for host in hosts}
        for other in self.jobs.values():
            if other.phase in ("starting", "running"):
                for host, held in self.held_by(other).items():
                    left.get(host, Counter[str]()).subtract(held)

        parts: list[AskedPart] = []
        for host, held in self.held_by(entry).items():
            if host not in left or any(left[host][kind] < n for kind, n in held.items()):
                hosts -= HostSet.of([host])
            elif self._machine is not None:
                labels = self._requests.only(1 << host)
                parts.append(AskedPart(hosts=1, amounts=complete_amounts(held), labels=labels))
        self._set(entry)
        if not hosts or not self._tells_others:
            return

        entry.taken = [self._about.nodes[host] for host in hosts]
        start = now if entry.start is None else min(entry.start, now)
        told = {"job_id": entry.run, "resources": str(hosts), "start": self._seconds(start)}
        if entry.limit is not None:
            # It may have outlived its limit; a moment is left to it in any case.
            limit = max(entry.limit, round(now - start, 6))
            told["walltime"] = limit + max(self._about.margin, 1.0)
        if parts:
            told |= written_hosts(HostsAsked(parts=tuple(parts)))
        yield Notify.of(JOB_RUNS, **told)

    def held_by(self, entry: JobRun) -> dict[int, dict[str, int]]:
        """Return what a run holds on each of its hosts: all, unless jobs share them."""
        hosts = self._hosts_of(entry.hosts)
        machine = self._machine
        if machine is None or not entry.amounts or entry.amounts.exclusive:
            return {host: self._has(host) for host in hosts}
        if entry.request:
            return dict.fromkeys(hosts, entry.request.parts[0].amounts)
        held = entry.amounts.held
        names = self._about.nodes
        return {
            host: {k: n for k, n in held.get(names[host], {}).items() if n and k in machine.kinds}
            for host in hosts
        }

    def _has(self, host: int) -> dict[str, int]:
        return {"node": 1} if self._machine is None else self._machine.of_host(host)

    def _requested(self, amounts: QueuedAmounts) -> HostsAsked:
        """Return what is asked for a job: of several partitions in the one with the most hosts for
        it.
        """
        options, _ = self._requests.of((amounts,), by_host=True)
        return max(options, key=lambda asked: sum(p.size for p in self._possible(asked).parts))

    def _possible(self, asked: HostsAsked) -> NodeRequest:
        return self._layout.request(asked, 1)

    def new_entry(self, job: SeenJob, now: float, **further: object) -> JobRun:
        """Create the journal entry of a job's next run; ``further`` sets other fields of it."""
        number = self._count_runs(job.id)
        name = f"{WORKLOAD}!{job.id}"
        deadline = self.deadline_of(job)
        entry = JobRun(
            run=f"{name}r{number}" if number else name,
            job=job.id,
            number=number,
            nodes=job.nodes,
            user=job.user,
            submitted=min(job.submitted, now),
            known=now,
            limit=job.limit,
            deadline=deadline,
            asked=deadline,
            tolerance=_number_in(job.asks.get("tolerance")),
            restarts=job.restarts,
            is_rerunnable=job.is_rerunnable,
            nice=job.nice,
            hosts=list(job.hosts),
            amounts=job.amounts,
            **further,  # type: ignore[arg-type]
        )
        if job.amounts and job.phase is JobPhase.WAITING:
            self._requests.unsure.clear()
            entry.request = self._requested(job.amounts)
            entry.nodes = sum(part.hosts for part in entry.request.parts)
            self.alarms += [
                f"job {job.id} asks{what.removeprefix('ask')}" for what in self._requests.unsure
            ]
        return entry

    def deadline_of(self, job: SeenJob) -> float | None:
        """Return the deadline a job asks for (s since 1970), or -1 if its comment has no valid
        date.
        """
        text = job.asks.get("deadline")
        if text is None:
            return job.manager_deadline
        zone = ZoneInfo(self._about.time_zone)
        try:
            date = _seconds_in(text, zone)
            datetime.fromtimestamp(date, zone)  # In the years 1 to 9999 of the centre's calendar.
        except (ValueError, OverflowError, OSError):
            return -1.0
        return date

    def _submit(self, entry: JobRun, job: SeenJob) -> Iterator[Event]:
        """Add a new run of a waiting job, and yield its submission, unless it has no valid
        deadline.
        """
        self._set(entry)
        self._hold(entry, job)
        try:
            if entry.deadline == -1.0:
                raise InputError(
                    f"deadline={job.asks['deadline']} in the comment is no date; a date as "
                    "2026-12-01T08:00, or seconds since 1970, is expected"
                )
            told = JobSubmitted(entry.run, self.job_of(entry))
        except InputError as error:  # What one user writes must not end what all others rely on.
            entry.deadline = None
            entry.asked = None
            entry.tolerance = None
            entry.answer = "refused"
            entry.answered = entry.known
            entry.reason = str(error)
            entry.is_untold = True
            self._refuse(entry)
        else:
            yield from self._unless_too_wide(entry, told)

    def _unless_too_wide(self, entry: JobRun, submission: Event) -> Iterator[Event]:
        """Yield a job's submission, unless it has no deadline and wants what no nodes have.

        Such a job waits, as in Slurm: a scheduler would refuse it.
        """
        size = len(self._about.nodes)
        wide: Refusal | None = None
        if entry.request:
            wide = self._possible(entry.request).refusal
        elif entry.nodes > size:
            wide = Refusal(kind=RefusalKind.TOO_WIDE, processors=entry.nodes, machine_size=size)
        if entry.deadline is not None or wide is None:
            yield submission
            return
        entry.reason = sentence(wide)
        entry.is_untold = True

    def job_of(self, entry: JobRun) -> Job:
        """Return a run as the job that the scheduler is told of (dates in s since second 0)."""
        fields: dict[str, object] = {
            "id": entry.run,
            "subtime": self._seconds(entry.submitted),
            "res": entry.nodes,
            "profile": PROFILE,
        }
        if entry.limit is not None:
            fields["walltime"] = entry.limit + self._about.margin

        qos: dict[str, object] = {}
        if entry.deadline is not None:
            qos["deadline"] = self._seconds(entry.deadline)
            qos["has_user_deadline"] = True
        if entry.tolerance is not None:
            qos["tolerance_factor"] = entry.tolerance
        if not entry.is_rerunnable:
            qos["rerunnable"] = False
        if entry.nice < 0:
            qos["user_priority"] = min(-entry.nice / MOST_NICE, 1.0)
        if qos:
            fields["qos"] = qos
        if entry.request:
            fields |= written_hosts(entry.request)
        return Job.from_fields(fields, where=f"job {entry.job}")

    def workload_of(
        self,
        runs: Sequence[tuple[JobRun, str, float]],
        source: str,
        made_of: Mapping[str, object] = MappingProxyType({}),
    ) -> Workload:
        """Make a workload of runs, each given as (entry, job id in the workload, run time in
        seconds).
        """
        jobs: list[dict[str, Any]] = []
        profiles: dict[str, Any] = {}
        for entry, job_id, run_time in runs:
            name, profile = delay_profile(max(run_time, SHORTEST))
            profiles[name] = profile
            jobs.append({**self.job_of(entry).fields, "id": job_id, "profile": name})
        found = read_jobs(jobs, profiles, source)
        size = len(self._about.nodes)
        return Workload(found, profiles, size, dict(made_of), source)

    def _seconds(self, date: float) -> float:
        return round(date - self._about.origin, 6)

    def _follow(self, entry: JobRun, job: SeenJob | None, now: float) -> Iterator[Event]:
        """Compare a known run with its job in the last poll; yield what happened, as events."""
        is_over = job is None or job.phase is JobPhase.ENDED
        runs = job is not None and job.phase is JobPhase.RUNNING
        if not entry.is_ours:
            changed = job is not None and (job.limit, [*job.hosts]) != (entry.limit, entry.hosts)
            if changed or not runs:
                self._close(entry, job, now)
                if entry.taken:
                    hosts = self._hosts_of(entry.taken)
                    yield JobCompleted(entry.run, entry.outcome, 0, hosts)

        elif entry.phase in ("waiting", "refused"):
            if job is not None and runs:
                yield from self._started_elsewhere(entry, job, now)
            elif entry.phase == "refused":
                if is_over:
                    self._close(entry, job, now)
            elif job is None or is_over:
                yield from self._withdrawn(entry, job, now)
            else:
                yield from self._follow_waiting(entry, job, now)

        elif job is None or is_over:
            if job is None:
                self.alarms.append(
                    f"job {entry.job} is no longer listed; it is taken to have ended just now"
                )
            is_lost = job is None and entry.phase == "starting"
            yield from self._end(entry, job, now, COMPLETED_KILLED if is_lost else "")
        elif job.restarts > entry.restarts:
            yield from self._requeued(entry, job, now)

        elif runs:
            if entry.phase == "starting":
                if job.hosts and set(job.hosts) != set(entry.hosts):
                    self.alarms.append(
                        f"job {entry.job} runs on {','.join(job.hosts)}, not on "
                        f"{','.join(entry.hosts)}"
                    )
                entry.phase = "running"
                entry.start = job.start
                self._set(entry)
        elif entry.ordered is not None and now - entry.ordered > PATIENCE:
            self.alarms.append(
                f"job {entry.job} has not started within {PATIENCE:g} s on "
                f"{','.join(entry.hosts)}; it is planned again"
            )
            yield from self._end(entry, None, now, COMPLETED_KILLED)
            yield from self._submit(self._again(entry, job, now), job)
            # Also if it is held now: the order to start it may still have an effect.
            self.orders.append(("hold", self.jobs[job.id], ""))

    def _follow_waiting(self, entry: JobRun, job: SeenJob, now: float) -> Iterator[Event]:
        """Compare a run that waits with its job, which waits as well."""
        deadline = self.deadline_of(job)
        asks = "deadline" in job.asks
        if entry.amounts:
            if not job.amounts:
                return  # They are not told yet.
            if entry.is_named:
                job = replace(job, amounts=entry.amounts)
        width = job.amounts or job.nodes
        known_width = entry.amounts or entry.nodes
        asked = width, job.limit, job.is_rerunnable, deadline if asks else None
        known = known_width, entry.limit, entry.is_rerunnable, entry.asked if asks else None
        # Who lowers the priority of a job without a promise has it go behind the others.
        lowered = job.nice > entry.nice and entry.promise is None
        if (asked != known or lowered) and (self._may_refuse or deadline is None):
            yield from self._withdrawn(entry, None, now)
            yield from self._submit(self.new_entry(job, now, is_named=entry.is_named), job)
            return

        if job.nice != entry.nice:
            entry.nice = job.nice
            self._set(entry)
        self._hold(entry, job)

    def _withdrawn(self, entry: JobRun, job: SeenJob | None, now: float) -> Iterator[Event]:
        self._close(entry, job, now, REJECTED)
        if not entry.is_untold:
            yield Notify.of(JOB_CANCELLED, job_id=entry.run)

    def _started_elsewhere(self, entry: JobRun, job: SeenJob, now: float) -> Iterator[Event]:
        """Withdraw a waiting or refused job that somebody else has started, and plan around it."""
        self.alarms.append(
            f"job {entry.job} was started by somebody else; the scheduler plans around it"
        )
        if entry.phase == "waiting":
            yield from self._withdrawn(entry, None, now)
        else:
            self._close(entry, None, now, REJECTED)
        yield from self._meet(job, now)

    def _end(self, entry: JobRun, job: SeenJob | None, now: float, outcome: str) -> Iterator[Event]:
        """Close a run that has left its hosts, and yield its end."""
        entry.is_withdrawn = job is not None and job.is_cancelled and not entry.is_victim
        self._close(entry, job, now, outcome)
        yield JobCompleted(entry.run, entry.outcome, 0, self._hosts_of(entry.hosts))
        if entry.is_victim:
            yield JobKilled([entry.run])

    def _requeued(self, entry: JobRun, job: SeenJob, now: float) -> Iterator[Event]:
        """Yield the end of a requeued job's run, then the submission of its next run."""
        yield from self._end(entry, None, now, COMPLETED_KILLED)
        again = self._again(entry, job, now)
        if entry.is_victim:
            self._parked[entry.run] = again
            return
        self.alarms.append(f"job {entry.job} was requeued; it is planned again")
        if job.phase is JobPhase.RUNNING:
            yield from self._meet(job, now)
        else:
            yield from self._submit(again, job)

    def _again(self, entry: JobRun, job: SeenJob, now: float) -> JobRun:
        """Return the entry of a requeued job's next run, which keeps the job's promise."""
        again = self.new_entry(job, now)
        again.promise = entry.promise
        again.asked = entry.asked
        again.deadline = entry.deadline
        if entry.request:
            # What Slurm shows as asked for is what the last start has named.
            again.amounts = entry.amounts
            again.request = entry.request
            again.nodes = entry.nodes
            again.is_named = True
        return again

    def _close(self, entry: JobRun, job: SeenJob | None, now: float, outcome: str = "") -> None:
        """Mark a run as gone, with its end and final state, and stop tracking it."""
        entry.phase = "gone"
        entry.outcome = outcome or (job.outcome if job is not None else "COMPLETED_SUCCESSFULLY")
        if job is not None and job.start is not None and entry.outcome != REJECTED:
            # What is known has happened, whatever the calendar of the resource manager says.
            entry.start = min(job.start, now)
            entry.end = None if job.end is None else min(job.end, now)
        entry.end = now if entry.end is None else entry.end
        self.changed[entry.run] = entry
        self._runs.pop(entry.run, None)
        if self.jobs.get(entry.job) is entry:
            del self.jobs[entry.job]

    def _set(self, entry: JobRun) -> None:
        self.jobs[entry.job] = entry
        self._runs[entry.run] = entry
        self.changed[entry.run] = entry

    def _hosts(self, nodes: Mapping[str, NodeState]) -> Iterator[Event]:
        """Yield which hosts have left or returned; nodes of jobs not told to the scheduler are
        away.
        """
        away, there = (
            self._hosts_of([name for name, state in nodes.items() if state is wanted])
            for wanted in (NodeState.AWAY, NodeState.THERE)
        )
        self._gone = (self._gone | away) - there

        before = self._away
        self._away = self._gone
        for entry in self.jobs.values():
            if not entry.is_ours:
                self._away |= self._hosts_of(entry.hosts) - self._hosts_of(entry.taken)
        if left := self._away - before:
            yield Notify.of(MACHINES_AWAY, resources=str(left))
        if returned := before - self._away:
            yield Notify.of(MACHINES_BACK, resources=str(returned))

    def _hosts_of(self, names: Sequence[str]) -> HostSet:
        places = (self._places[name] for name in names if name in self._places)
        return HostSet(sum(1 << place for place in places))

    # What is decided

    def carry_out(self, decisions: Sequence[Decision], now: float) -> list[Event]:
        """Turn decisions into orders to Slurm; return events to tell the scheduler at once."""
        again: list[Event] = []
        for decision in decisions:
            match decision:
                case ExecuteJob():
                    entry = self._runs[decision.job_id]
                    entry.phase = "starting"
                    entry.ordered = now
                    entry.hosts = [self._about.nodes[host] for host in decision.alloc]
                    self._order("start", entry, ",".join(entry.hosts))
                case RejectJob() if decision.job_id in self._runs:
                    again += self._rejected(self._runs[decision.job_id], now)
                case KillJob():
                    for run in decision.job_ids:
                        self._runs[run].is_victim = True
                        self._order("requeue", self._runs[run])
                case RegisterJob():
                    self._registered(decision.job_id)
        self._ask_calls(decisions)

        # Killed jobs that the scheduler does not have run again.
        for entry in self._parked.values():
            entry.reason = "its run was ended by the scheduler"
            self._set(entry)
            self._refuse(entry)
        self._parked.clear()
        return again

    def _rejected(self, entry: JobRun, now: float) -> Iterator[Event]:
        """Refuse a rejected job, or let it wait without a deadline if refused jobs are kept.

        A job that once had a promise waits as well.
        """
        entry.answer = "refused"
        entry.answered = now
        waits = self._keeps_refused or entry.promise is not None
        if entry.deadline is None or not waits:
            self._refuse(entry)
            return

        self._close(entry, None, now, REJECTED)
        number = entry.number + 1
        again = replace(
            entry,
            run=f"{WORKLOAD}!{entry.job}r{number}",
            number=number,
            phase="waiting",
            outcome="",
            end=None,
            deadline=None,
            answer="",
        )
        self._set(again)
        yield from self._unless_too_wide(again, JobSubmitted(again.run, self.job_of(again)))

    def _registered(self, run: str) -> None:
        original, _, count = run.rpartition("#")
        before = original if count == "1" else f"{original}#{int(count) - 1}"
        entry = self._parked.pop(before)
        self._set(replace(entry, run=run))

    def _refuse(self, entry: JobRun) -> None:
        entry.phase = "refused"
        self._order("refuse", entry)

    def _hold(self, entry: JobRun, job: SeenJob) -> None:
        """Order that a job be held, unless it is."""
        if not job.is_held:
            self.orders.append(("hold", entry, ""))

    def _order(self, kind: str, entry: JobRun, detail: str = "") -> None:
        self.changed[entry.run] = entry
        self.orders.append((kind, entry, detail))

    def _ask_calls(self, decisions: Sequence[Decision]) -> None:
        calls = (decision for decision in decisions if isinstance(decision, CallMeLater))
        self._calls += [call.timestamp for call in calls]
        self._calls.sort()


def _seconds_in(text: str, zone: ZoneInfo) -> float:
    """Parse a user's date (a number, or ISO format, by default in ``zone``) to s since 1970."""
    try:
        return float(text)
    except ValueError:
        date = datetime.fromisoformat(text)
    return date.replace(tzinfo=date.tzinfo or zone).timestamp()


def _number_in(text: str | None) -> float | None:
    """Parse a number that a user wrote; None without a text, NaN if it is no number."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return math.nan
