"""Views of a machine: plans that see less of shared hosts than there is, judged on the true hosts.

What do promises cost and hold if a scheduler counts (:class:`Counted`) or plans waiting jobs on
whole hosts (:class:`WholeWhileWaiting`)? :class:`ViewedQops` is QoPS with such a view. A job that
is due starts on true hosts, by the rule of docs/nodes.md; one that finds none waits, whatever its
plan says, and jobs behind it start. No host may leave.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.structs import replace

from qops_batsim import InputError, SchedulerOptions
from qops_batsim.core import Plan, ResourceManager
from qops_batsim.core.job import Job
from qops_batsim.core.machine import Machine
from qops_batsim.core.node_profile import NodeProfile
from qops_batsim.core.node_request import HostPart, NodeLayout, NodeRequest
from qops_batsim.core.node_use import NodeUse
from qops_batsim.job_fields import AskedPart, HostsAsked
from qops_batsim.schedulers.qops import Qops, QopsOptions
from qops_batsim.timing import GRID_TOLERANCE, end_of, up_to_grid

BINDING_CORES = {"cores": 1.0, "memory": 4 * 2.0**30, "gpus": 1 / 16}
"""What counts as one core in ``one_number``: 4 GiB of memory, a sixteenth of a GPU."""

TURN = "turn"
"""A kind of which a host has 1, held by the one job that may wait for the host at a time."""


class ViewedRequest(NodeRequest):
    """What a plan sees of a request.

    Attributes
    ----------
    truth
        The request for true hosts, or (:class:`WholeWhileWaiting`) what the job holds once it runs.
    """

    def __init__(self, seen: NodeRequest, truth: NodeRequest) -> None:
        NodeRequest.__init__(self, seen.parts, seen.refusal, truth.size)
        self.truth = truth


class CountedLayout(NodeLayout):
    """A machine whose first host has what all hosts have together, and the others nothing.

    Parameters
    ----------
    truth
        The machine. Jobs ask it for amounts of hosts without labels.
    per_number
        None: each kind is counted. Else only the number of *binding cores* is, of a host and of a
        job's host the most of its amounts over these, rounded up.
    """

    def __init__(self, truth: Machine, per_number: Mapping[str, float] | None = None) -> None:
        self.truth = NodeLayout(truth)
        self.per_number = per_number
        total: dict[str, int] = {}
        for amounts in truth.amounts:
            of_host = self.seen(dict(zip(truth.kinds, amounts, strict=True)), 1)
            for kind, amount in of_host.items():
                total[kind] = total.get(kind, 0) + amount

        # As many hosts as there are, so that their numbers are valid.
        nothing = (0,) * len(total)
        by_host = (tuple(total.values()), *[nothing] * (truth.hosts - 1))
        NodeLayout.__init__(self, replace(truth, kinds=tuple(total), amounts=by_host, labels={}))

    def seen(self, amounts: Mapping[str, int], times: int) -> dict[str, int]:
        """Return what counts of amounts that are asked for so many times."""
        if self.per_number is None:
            return {kind: times * amount for kind, amount in amounts.items()}
        first = next(iter(self.per_number))
        numbers = (math.ceil(amounts.get(kind, 0) / per) for kind, per in self.per_number.items())
        return {first: times * max(numbers)}

    def request(self, asked: HostsAsked | None, hosts: int) -> NodeRequest:
        """Return what a plan sees of a request."""
        true = self.truth.request(asked, hosts)
        if true.refusal is not None:
            return true
        part = only_part(asked)
        amounts = self.seen(part.amounts, part.tasks or part.hosts)
        assert asked is not None
        counted = replace(asked, parts=(AskedPart(hosts=1, amounts=amounts),))
        return ViewedRequest(NodeLayout.request(self, counted, 1), true)


def only_part(asked: HostsAsked | None) -> AskedPart:
    """Return the part of a request that can be counted; InputError if it cannot."""
    parts = () if asked is None else asked.parts
    if len(parts) != 1 or parts[0].exclusive or not parts[0].amounts or parts[0].labels:
        raise InputError(
            "a plan that counts is asked for whole hosts, labels or several parts; amounts of any "
            "hosts are expected"
        )
    return parts[0]


class Counted(NodeUse):
    """What a plan that counts believes to be free now, and what is free on the true hosts.

    Parameters
    ----------
    layout
        The machine that the plan sees, and the true one.
    """

    def __init__(self, layout: CountedLayout) -> None:
        NodeUse.__init__(self, layout)
        # Running jobs hold their hosts for ever: at a date, ends to come make no difference.
        self.truth = NodeProfile(layout.truth)

    def fits(self, job: Job) -> bool:
        """Return whether a job may start: by the plan, and on true hosts, which are found."""
        if not NodeUse.fits(self, job):
            return False
        seen = self.swap(job)
        found = self.truth.fits_at(job, 0.0)
        job.request = seen
        return bool(found)

    def take(self, job: Job) -> None:
        """Give a job the true hosts that :meth:`fits` found; output files show these."""
        NodeUse.take(self, job)
        seen = self.swap(job)
        self.truth.take(job, 0.0, math.inf)
        seen.used.copy_from(job.request.held)
        job.request = seen

    def give(self, job: Job) -> None:
        """Free what a job has, in the plan's view and on the true hosts."""
        seen = self.swap(job)
        self.truth.give(job, 0.0, math.inf)
        job.request = seen
        seen.used.copy_from(seen.held)
        NodeUse.give(self, job)

    def swap(self, job: Job) -> Any:
        """Let a job ask for true hosts; return what the plan sees of it."""
        seen: Any = job.request
        job.request = seen.truth
        return seen


class TurnLayout(NodeLayout):
    """A machine on whose hosts waiting jobs take turns: at any date, a host is planned for one of
    them, beside the amounts that running jobs have there.

    Slurm's backfill plans so: with running jobs a job shares a host by amounts, and what it waits
    for is kept whole from other waiting jobs.
    """

    def __init__(self, truth: Machine) -> None:
        kinds = (*truth.kinds, TURN)
        amounts = tuple((*each, 1) for each in truth.amounts)
        NodeLayout.__init__(self, replace(truth, kinds=kinds, amounts=amounts))

    def request(self, asked: HostsAsked | None, hosts: int) -> NodeRequest:
        """Return a request of which each host asks for the turn as well."""
        running = NodeLayout.request(self, asked, hosts)
        if running.refusal is not None or asked is None:
            return running
        if any(part.tasks for part in asked.parts):
            raise InputError(
                "a plan of hosts that are whole while jobs wait is asked for tasks; amounts of "
                "each host are expected"
            )
        parts = [
            part if part.exclusive else replace(part, amounts={**part.amounts, TURN: 1})
            for part in asked.parts
        ]
        waiting = NodeLayout.request(self, replace(asked, parts=tuple(parts)), hosts)
        return ViewedRequest(waiting, running)


class WholeWhileWaiting(NodeUse):
    """What is free now on hosts for which waiting jobs take turns.

    Attributes
    ----------
    plan
        The plan, in which a job that starts gives its turn back.
    """

    def __init__(self, layout: TurnLayout) -> None:
        NodeUse.__init__(self, layout)
        self.plan: Plan | None = None

    def take(self, job: Job) -> None:
        """Start a job, which then holds its amounts only."""
        request: Any = job.request
        if self.plan is not None and isinstance(request, ViewedRequest):
            plan = self.plan
            end = end_of(job.start, job.duration)
            plan.profile.give(job, job.start, end)
            # Places name the parts of this list by their index.
            parts: list[HostPart] = request.parts
            parts[:] = request.truth.parts
            plan.profile.take(job, job.start, end)

            # The next update moves jobs there.
            plan.is_freed = True
            plan.given_from = min(plan.given_from, job.start)
            plan.given_until = max(plan.given_until, end)
        NodeUse.take(self, job)


def view_of(name: str, machine: Machine) -> NodeUse:
    """Return what a plan sees as free of a machine, by the name of a view.

    Names are those of the option ``view`` of :class:`ViewedQops`.
    """
    if name == "whole":
        return WholeWhileWaiting(TurnLayout(machine))
    if name == "nodes":
        return NodeUse(NodeLayout(machine))
    return Counted(CountedLayout(machine, BINDING_CORES if name == "one_number" else None))


class ViewedOptions(QopsOptions, frozen=True, kw_only=True):
    """Options of :class:`ViewedQops`."""

    view: Annotated[
        Literal["one_number", "pooled", "whole", "nodes"],
        Meta(
            description="what is planned with: binding cores of the whole machine, its amounts, "
            "hosts that are whole as long as a job waits for them, or amounts of each host"
        ),
    ] = "nodes"
    renews: Annotated[
        bool,
        Meta(
            description="whether a broken promise gets a later date, as where hosts were lost; "
            "else it fails every plan that places that job again"
        ),
    ] = True


class ViewedQops(Qops):
    """QoPS whose plan sees a machine with amounts in another way.

    A promise of a plan that counts breaks if the job finds no true hosts in time. While it waits
    for them, the plan has it from now on, and leaves all others where they are.
    """

    summary = "QoPS that plans a view of the machine"
    Options: type[SchedulerOptions] = ViewedOptions

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty plan of the view."""
        if manager.use is None:
            raise InputError("a machine whose hosts have amounts is expected")
        manager.use = view_of(self.options.view, manager.use.layout.machine)
        Qops.begin(self, manager)
        if isinstance(manager.use, WholeWhileWaiting):
            manager.use.plan = self.plan

    def prepare_decision(self) -> None:
        """Plan the jobs that were due, and found no true hosts, from now on; no other job moves."""
        plan = self.plan
        now = up_to_grid(self.manager.now)
        for job in plan.waiting:
            if job.start >= now:
                break
            plan.profile.give(job, job.start, end_of(job.start, job.duration))
            job.start = now
            end = end_of(now, job.duration)
            plan.profile.take(job, now, end)
            if self.options.renews:
                job.target = max(job.target, end)

    def conclude_decision(self) -> None:
        """Start what else is due: behind jobs that find no true hosts, and where starts made room
        for further ones.
        """
        plan = self.plan
        while plan.is_freed:
            if plan.renew():
                self.compress()
            plan.settle()
            self.start_others()

        # Only due jobs are skipped, as their view says that they run.
        stuck: list[Job] = []
        while plan.waiting and plan.waiting[0].start <= plan.now + GRID_TOLERANCE:
            stuck.append(plan.waiting.pop(0))
            self.start_others()
        if stuck and plan.waiting:
            self.manager.call_at(plan.waiting[0].start)
        plan.waiting[:0] = stuck

    def start_others(self) -> None:
        """Start the due jobs that can start now."""
        for job in self.plan.start_due():
            planned = job.start
            self.manager.start(job)
            job.start = planned
