"""What the jobs of a machine's past and queue ask of nodes that they share, for simulations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from qops_batsim.core.job import Job
from qops_batsim.core.machine import Machine
from qops_batsim.core.node_profile import NodeProfile, request_of
from qops_batsim.core.node_request import NodeLayout, NodeRequest, Places
from qops_batsim.core.node_use import NodeUse
from qops_batsim.job_fields import AskedPart, HostsAsked


class NodeRows:
    """Requests of the jobs of a past, by row, and the nodes of those that run.

    Requests are made once; simulations, one after the other, use them again.

    Parameters
    ----------
    layout
        What the nodes have.
    asked
        What each job asks for. Jobs that ask for the same have the same object.
    ran_on
        On which nodes each job ran (bits), 0 where that is not known.

    Attributes
    ----------
    hosts
        Number of hosts of each job, of tasks the most.
    held
        Where the running jobs of the moment are that is simulated, by row.
    known
        What jobs had of nodes when they ran, by row, after a simulation.
    """

    def __init__(
        self, layout: NodeLayout, asked: Sequence[HostsAsked], ran_on: Sequence[int] = ()
    ) -> None:
        self.ran_on = ran_on or [0] * len(asked)
        self.layout = layout
        self.asked = asked
        self.hosts = _of_each(asked, lambda one: sum(part.hosts for part in one.parts))
        self.held: dict[int, Places] = {}
        self.known: dict[int, Places] = {}
        self._pools: dict[int, list[NodeRequest]] = {}
        self._last: dict[int, NodeRequest] = {}

    def only(self, rows: Sequence[int]) -> NodeRows:
        """Return those of these rows, as new ones."""
        ran_on = [self.ran_on[row] for row in rows]
        return NodeRows(self.layout, [self.asked[row] for row in rows], ran_on)

    def asking(self, rows: list[int], running: int) -> Callable[[int], NodeRequest]:
        """Return what gives the request of a job by its place among ``rows``, for one simulation;
        the first ``running`` hold their nodes.
        """
        given: Counter[int] = Counter()
        self._last = last = {}

        def request(place: int) -> NodeRequest:
            row = rows[place]
            kind = id(self.asked[row])
            pool = self._pools.get(kind)
            if pool is None:
                pool = self._pools[kind] = [request_on(self.layout, self.asked[row])]
            count = given[kind]
            given[kind] = count + 1
            if count == len(pool):
                pool.append(NodeRequest(pool[0].parts, pool[0].refusal, pool[0].size))

            found = pool[count]
            found.is_used = False
            if place < running:
                found.held.copy_from(self.held[row])
            else:
                found.held.fill(found.parts, ())
            last[row] = found
            return found

        return request

    def keep_places(self) -> None:
        """Know from now on where each job of the last simulation has run."""
        self.known = {row: request.used.copied() for row, request in self._last.items()}

    def place(self, rows: np.ndarray) -> np.ndarray:
        """Give running jobs their nodes: where they are known to be, else where they fit, in this
        order; return the rows of those that have some. O(jobs × hosts).
        """
        use = NodeUse(self.layout)
        profile = NodeProfile(self.layout)
        self.held = {}
        of_row = self.asking(rows.tolist(), 0)
        for place, row in enumerate(rows.tolist()):
            job = Job("", 0.0, 1, "")
            job.request = of_row(place)
            if row in self.known:
                job.request.held.copy_from(self.known[row])
                is_there = use.fits(job)
            else:
                is_there = self.ran_on[row] > 0 and use.put_on(job, self.ran_on[row])
            if is_there or profile.fits_at(job, 0.0):
                use.take(job)
                profile.take(job, 0.0, math.inf)
                self.held[row] = job.request.held.copied()
        return np.array([row for row in rows.tolist() if row in self.held], np.int64)


def request_on(layout: NodeLayout, asked: HostsAsked) -> NodeRequest:
    """Return a new request for what is asked for on nodes, as far as these tell of it: memory,
    types of GPUs and licences of which there are none known limit nothing.
    """
    machine = layout.machine
    parts = tuple(
        replace(part, amounts={k: n for k, n in part.amounts.items() if _counts(k, machine)})
        for part in asked.parts
    )
    licences = {name: n for name, n in asked.licences.items() if name in machine.licences}
    hosts = sum(part.hosts for part in parts)
    asked = HostsAsked(parts=parts, licences=licences)
    # Parts of one host each are those of running jobs, which are known to find different ones.
    if len(parts) == 1 or all(part.hosts == 1 for part in parts):
        return layout.request(asked, hosts)
    return request_of(layout, Job("", 0.0, hosts, "", hosts_asked=asked))


def _counts(kind: str, machine: Machine) -> bool:
    return kind in machine.kinds or not (kind == "memory" or kind.startswith("gpus:"))


def cores_of(asked: Sequence[HostsAsked], machine: Machine) -> np.ndarray:
    """Return how many cores each job asks for; whole hosts have as many as the usual one."""
    usual = machine.totals["cores"] // machine.hosts

    def cores(part: AskedPart) -> int:
        if part.exclusive or not part.amounts:
            return part.hosts * usual
        return (part.tasks or part.hosts) * part.amounts.get("cores", 0)

    return _of_each(asked, lambda one: sum(map(cores, one.parts)))


def _of_each(asked: Sequence[HostsAsked], value: Callable[[HostsAsked], int]) -> np.ndarray:
    """Return a value of each request; those of many jobs are the same object."""
    values = {key: value(one) for key, one in {id(one): one for one in asked}.items()}
    return np.array([values[id(one)] for one in asked], np.int64)


def any_cores(count: int, partition: str, machine: Machine) -> HostsAsked:
    """Return a request for cores on any nodes of a partition, if there is one of this name."""
    labels = (partition,) if partition in machine.labels else ()
    part = AskedPart(hosts=count, amounts={"cores": 1}, tasks=count, labels=labels)
    return HostsAsked(parts=(part,))
