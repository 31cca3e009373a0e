"""The plan of a queue node by node: jobs share the cores, memory and GPUs of nodes.

Each running job holds on its nodes what Slurm has given it there, until its limit. The waiting jobs
are planned in turn, each at its earliest fit on hosts by the rule of docs/nodes.md. A job of
several partitions gets the earliest start of those in each of them. Partitions and features are
labels of hosts, so partitions may overlap.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import sub

import msgspec

from qops_batsim.core.job import RUNNING, Job
from qops_batsim.core.machine import Machine
from qops_batsim.core.node_profile import NodeProfile, request_of
from qops_batsim.core.node_request import HostPart, NodeLayout, NodeRequest
from qops_batsim.core.refusal import sentence
from qops_batsim.core.shortage import shortage_text, shortages
from qops_batsim.errors import InputError, shown
from qops_batsim.garbage import without_garbage_collection
from qops_batsim.job_fields import AskedPart, HostsAsked, complete_amounts
from qops_batsim.jobs import QosRequest
from qops_batsim.queue.node_rows import any_cores
from qops_batsim.queue.queue_state import Ask, QueuedJob, QueueState, by_priority, limit_of
from qops_batsim.queue.unexplained_waits import AT_ONCE, UnexplainedWait
from qops_batsim.slurm.host_requests import HostRequests
from qops_batsim.slurm.waiting_reasons import WaitKind, is_for_resources
from qops_batsim.texts import date_text
from qops_batsim.timing import end_of

SHORTAGES = 10
"""For how many waiting jobs is told what they lack, of those that ask for different things."""

_SOMEWHERE = "run on nodes that are not told, and are taken to be where they fit"
_NOWHERE = "run on nodes that are not told, fit on none, and are not planned"
_OVER = "hold more than their nodes have free, and are taken to hold what is left"


class NodePlan:
    """The running jobs of a queue on their nodes, and requests of the waiting ones.

    Parameters
    ----------
    state
        The queue, with its ``nodes``.
    left_of
        Returns for how long a running job is taken to run on (seconds).

    Attributes
    ----------
    machine
        What the nodes have that are there, now or later, with labels for what jobs ask for.
    running, holders
        The running jobs on them, from 0 s, and what keeps nodes closed until a date; the jobs of
        the queue that these are.
    closed
        Names of those that keep nodes closed.
    placed
        The waiting jobs with their starts as planned last, by id.
    unsure
        Counts what is not known of running jobs, or of what jobs ask for, by what it is.
    """

    @without_garbage_collection()
    def __init__(
        self, state: QueueState, left_of: Callable[[QueuedJob], float] | None = None
    ) -> None:
        nodes = state.nodes
        assert nodes is not None
        self._state = state
        self._left_of = left_of or (lambda job: max(limit_of(job) - state.now, 1.0))
        self.closed: set[str] = set()

        there = [
            host
            for host, name in enumerate(nodes.machine.names)
            if nodes.away.get(name, state.now) is not None
        ]
        machine = nodes.machine.only(there)
        self._rows = {name: row for row, name in enumerate(machine.names)}
        self._closed = {
            self._rows[name]: until - state.now
            for name, until in nodes.away.items()
            if until is not None and name in self._rows
        }
        self._asleep = {self._rows[name] for name in nodes.asleep if name in self._rows}
        self.machine: Machine = machine
        self._requests = HostRequests(machine)
        self.unsure = self._requests.unsure
        self._alternatives: dict[str, list[HostsAsked]] = {}
        self._together: dict[str, HostsAsked] = {}
        self.placed: dict[str, Job] = {}
        known: dict[int, tuple[list[HostsAsked], HostsAsked]] = {}
        for job in [*state.jobs, *state.apart]:
            if job.start is None or not any(each.held for each in job.amounts):
                # Tasks of an array ask for the same.
                if id(job.amounts) not in known:
                    known[id(job.amounts)] = self._requests.of(job.amounts)
                self._alternatives[job.id], self._together[job.id] = known[id(job.amounts)]
        held = self._held()
        self.size = self.machine.hosts
        self.layout = NodeLayout(self.machine)
        self._own_parts: dict[tuple[int, ...], HostPart] = {}
        self.running: list[Job] = []
        self.holders: list[QueuedJob] = []
        self._begin(held)

    # What running jobs hold

    def _held(self) -> list[tuple[QueuedJob, dict[int, tuple[int, ...]]]]:
        """Return what each running job holds, by host and kind, at most what is left there. A job
        whose nodes are not told holds nothing yet.
        """
        kinds = self.machine.kinds
        free = [*self.machine.amounts]
        found = []
        for job in [*self._state.running, *self._state.apart]:
            sums: dict[str, Mapping[str, int]] = {}
            for each in job.amounts:
                for name, more in each.held.items():
                    sums[name] = Counter(sums[name]) + Counter(more) if name in sums else more
            alone = any(each.exclusive for each in job.amounts)
            on_hosts: dict[int, tuple[int, ...]] = {}
            is_over = False
            for name, wanted in sums.items():
                if (row := self._rows.get(name)) is None:
                    continue
                has = free[row]
                asked = tuple([wanted.get(kind, 0) for kind in kinds])
                taken = tuple(map(min, asked, has))
                is_over |= taken != asked
                on_hosts[row] = has if alone else taken
                free[row] = tuple(map(sub, has, on_hosts[row]))
            if is_over:
                self.unsure[_OVER] += 1
            if on_hosts or not sums:
                found.append((job, on_hosts))

        # Nodes that come back at a date are closed as if a job had what is left of them.
        for row, left in self._closed.items():
            now = self._state.now
            name = f"{self.machine.names[row]} away"
            closed = QueuedJob(id=name, processors=1, estimate=left, start=now, end=now + left)
            self.closed.add(name)
            found.append((closed, {row: free[row]}))
        return found

    def _begin(self, held: Sequence[tuple[QueuedJob, dict[int, tuple[int, ...]]]]) -> None:
        """Give the running jobs their hosts; those of which these are not told, where they fit."""
        profile = NodeProfile(self.layout)
        self._profile = profile
        waiting: list[QueuedJob] = []
        for queued, on_hosts in held:
            if not on_hosts:
                waiting.append(queued)
                continue
            parts: list[HostPart] = []
            places: list[tuple[int, int, int]] = []
            for row, amounts in on_hosts.items():
                if any(amounts):
                    places.append((row, len(parts), 1))
                    parts.append(self._own_part(amounts))
            if not parts:
                continue
            licences = self._requests.licences(queued.amounts)
            if licences:
                places.append((self.machine.hosts, len(parts), 1))
                licence = self.layout.licence_part(licences)
                assert isinstance(licence, HostPart)
                parts.append(licence)
            left = self._left_of(queued)
            job = Job(queued.id, 0.0, len(on_hosts), "", qos=_lasting(left))
            job.request = NodeRequest(parts, None, job.size)
            job.request.held.fill(parts, places)
            self._run(job, queued, left)

        for queued in waiting:
            left = self._left_of(queued)
            asked = self._alternatives[queued.id]
            options = [self.job(queued.id, each, _lasting(left)) for each in asked]
            found = next((one for one in options if profile.fit(one, 0.0) == 0.0), None)
            self.unsure[_NOWHERE if found is None else _SOMEWHERE] += 1
            if found is not None:
                self._run(found, queued, left)

    def _own_part(self, amounts: tuple[int, ...]) -> HostPart:
        """Return the part of a request for what a running job holds of a host."""
        known = self._own_parts.get(amounts)
        if known is None:
            wide = array("q", bytes(8 * self.layout.kinds))
            wide[: len(amounts)] = array("q", amounts)
            known = HostPart(1, 0, False, False, wide)
            self._own_parts[amounts] = known
        return known

    def _run(self, job: Job, queued: QueuedJob, left: float) -> None:
        """Have a job run on the hosts that it holds for so long (seconds)."""
        job.phase = RUNNING
        job.start = 0.0
        job.end = end_of(0.0, left)
        self._profile.take(job, 0.0, job.end)
        self.running.append(job)
        self.holders.append(queued)

    # Plans

    def job(self, name: str, asked: HostsAsked, qos: QosRequest, submission: float = 0.0) -> Job:
        """Return a job that asks for this on these nodes."""
        hosts = sum(part.hosts for part in asked.parts)
        job = Job(name, submission, hosts, "", qos=qos, hosts_asked=asked)
        request_of(self.layout, job)
        return job

    @without_garbage_collection()
    def all_placed(self, line: Sequence[QueuedJob]) -> dict[str, Job]:
        """Plan the waiting jobs in this order; return them with their starts, by id."""
        self._last = self.plan()
        self.placed = {
            queued.id: self.place(
                self._last, queued, QosRequest(estimated_runtime=queued.estimate), 0.0, 0.0
            )
            for queued in line
        }
        return self.placed

    def start_of_new(self, ask: Ask) -> float:
        """Return the start of a new job behind those that were planned last (seconds)."""
        asked = self.asked(ask)
        job = self.job(ask.name, asked, QosRequest(estimated_runtime=ask.time))
        return self._last.try_fit(job, 0.0) if job.request.parts else math.inf

    def asked(self, ask: Ask) -> HostsAsked:
        """Return what a new job asks for: cores on any nodes, or what it takes of each of some; in
        its partition if one is named. InputError for a partition that there is not.
        """
        nodes = self._state.nodes
        if ask.partition and nodes is not None and ask.partition not in nodes.partitions:
            names = ", ".join(nodes.partitions)
            raise InputError(f"partition is {shown(ask.partition)}; one of {names} is expected")
        count = ask.processors
        if not ask.nodes:
            return any_cores(count, ask.partition, self.machine)
        labels = (ask.partition,) if ask.partition else ()
        each = complete_amounts({"cores": math.ceil(count / ask.nodes), **ask.each})
        part = AskedPart(hosts=ask.nodes, amounts=each, labels=labels)
        return HostsAsked(parts=(part,))

    def plan(self) -> NodeProfile:
        """Return a new plan, at 0 s, in which only the running jobs have hosts."""
        plan = NodeProfile(self.layout)
        plan.copy_from(self._profile)
        return plan

    def place(
        self, plan: NodeProfile, queued: QueuedJob, qos: QosRequest, submission: float, after: float
    ) -> Job:
        """Reserve a waiting job's earliest fit from ``after`` on (seconds) in a plan, in that of
        its partitions where this is the earliest; return the job, with its start.
        """
        options = [
            self.job(queued.id, asked, qos, submission) for asked in self._alternatives[queued.id]
        ]
        for job in options:
            job.start = plan.fit(job, after) if job.request.parts else math.inf
        best = min(options, key=lambda job: job.start)
        if best.start < math.inf:
            plan.take(best, best.start, end_of(best.start, best.duration))
        return best

    def held_by(self, job: Job) -> HostsAsked:
        """Return what a running job holds, as a request for just these nodes."""
        if job.hosts_asked is not None:
            return job.hosts_asked
        parts = []
        licences: dict[str, int] = {}
        for row, number, _ in job.request.held.told():
            amounts = job.request.parts[number].amounts
            if row == self.machine.hosts:
                licences = _named(self.layout.licences, amounts)
                continue
            has = _named(self.machine.kinds, amounts)
            parts.append(AskedPart(hosts=1, amounts=has, labels=self._requests.only(1 << row)))
        return HostsAsked(parts=tuple(parts), licences=licences)

    def simulated(self, queued: QueuedJob) -> HostsAsked:
        """Return what a waiting job that was planned asks for in simulations: of several partitions
        any node of all of them, or if it asks for several nodes, those of the one where it is
        planned.
        """
        together = self._together[queued.id]
        planned = self.placed[queued.id].hosts_asked
        is_one = all(part.hosts == 1 for part in together.parts)
        return together if is_one or planned is None else planned

    def as_placed(self, placed: Job, qos: QosRequest) -> Job:
        """Return a waiting job with another request for its dates, on the hosts where it is."""
        assert placed.hosts_asked is not None
        job = self.job(placed.id, placed.hosts_asked, qos, placed.submission_time)
        places = placed.request.held.told() if placed.start < math.inf else []
        job.request.held.fill(job.request.parts, places)
        return job

    # What is told

    def without_date(
        self, placed: Mapping[str, Job], started: Collection[str] = ()
    ) -> tuple[list[UnexplainedWait], dict[str, WaitKind]]:
        """Return the waits for Resources that the plan does not explain, and why jobs have no date,
        by id: see :func:`~qops_batsim.queue.unexplained_waits.without_date`.

        A job is behind all of higher priority that may have the same hosts. Jobs that the machine's
        scheduler would have ``started`` now count as started, wherever the plan has them.
        """
        state = self._state
        closed = 0
        first: list[UnexplainedWait] = []
        why: dict[str, WaitKind] = {}
        for queued in sorted((job for job in state.jobs if job.id in placed), key=by_priority):
            job = placed[queued.id]
            hosts = 0
            for asked in self._alternatives[queued.id]:
                for part in asked.parts:
                    hosts |= self._hosts_of(part)
            on = {host for host, _ in job.request.held.listed()}
            at_once = job.start < AT_ONCE or queued.id in started
            at_once = at_once and self._asleep.isdisjoint(on)
            if at_once and is_for_resources(queued.reason):
                why[queued.id] = WaitKind.THOUGH_IT_FITS
                if not closed & hosts:
                    names = [self.machine.names[host] for host in sorted(on)]
                    wait = UnexplainedWait(
                        job=queued.id,
                        partition=queued.partition,
                        processors=queued.processors,
                        free=state.free,
                        nodes=names,
                    )
                    first.append(wait)
            elif closed & hosts:
                why[queued.id] = WaitKind.BEHIND
            else:
                continue
            closed |= hosts
        return first, why

    def _hosts_of(self, part: AskedPart) -> int:
        return self.machine.labelled(part.labels)

    @without_garbage_collection()
    def lacking(self, placed: Sequence[Job]) -> dict[str, str]:
        """Return in words what waiting jobs lack now beside the running ones, by id: of the first
        jobs that ask for different things.
        """
        told: dict[str, str] = {}
        known: set[bytes] = set()
        holders: dict[int, list[tuple[int, HostPart]]] = {}
        for number, other in enumerate(self.running):
            parts = other.request.parts
            for row, part, _ in other.request.held.told():
                holders.setdefault(row, []).append((number, parts[part]))
        for job in placed:
            key = msgspec.json.encode(job.hosts_asked)
            if job.start < AT_ONCE or key in known or len(known) == SHORTAGES:
                continue
            known.add(key)
            if text := self._lack(job, holders):
                told[job.id] = text
        return told

    def _lack(self, job: Job, on: Mapping[int, Sequence[tuple[int, HostPart]]]) -> str:
        """Return what a job lacks, and who has it, given who is ``on`` each host."""
        assert job.hosts_asked is not None
        now = self._state.now
        refusal = job.request.refusal
        if refusal is not None:
            return sentence(refusal, lambda date: date_text(now + date))
        for part in job.hosts_asked.parts:
            short = shortages(self._profile, part)
            if not short:
                continue
            first = short[0]
            kind = self.machine.kinds.index(first.kind) if first.kind else -1
            numbers = {
                number
                for row in first.missing
                for number, held in on.get(row, ())
                if kind < 0 or held.is_whole or held.amounts[kind]
            }
            holders = [self.running[number].id for number in sorted(numbers)]
            text = shortage_text(first, lambda date: date_text(now + date))
            where = [self.machine.names[host] for host in first.missing]
            if holders:
                jobs = "job" if len(holders) == 1 else "jobs"
                text += f"; {jobs} {_some(holders)} on {_some(where)}"
            return text
        return ""


def _named(names: Sequence[str], amounts: Sequence[int]) -> dict[str, int]:
    """Return amounts by name, but those of which there is nothing."""
    return {name: amounts[place] for place, name in enumerate(names) if amounts[place]}


def _lasting(left: float) -> QosRequest:
    return QosRequest(estimated_runtime=left if left < math.inf else None)


def _some(names: Sequence[str], most: int = 4) -> str:
    """Return names as text, not all of many."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
