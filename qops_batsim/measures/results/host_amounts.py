"""What the jobs of a run ask of its hosts' amounts (cores, memory, GPUs), and take of them.

Files tell on which hosts a job ran, and the workload what it asked for. How many tasks each host
ran, and which part of a job a host was for, no file tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.machine import Machine
from qops_batsim.job_fields import AskedPart, HostsAsked, asked_or_whole
from qops_batsim.measures.results.allocations import Stays
from qops_batsim.measures.results.result_tables import Booleans, Floats, Integers, original_id
from qops_batsim.measures.results.run_result import RunResult, workloads_with_deadlines
from qops_batsim.measures.results.series import StepSeries, step_series, waits_from
from qops_batsim.workload.workload_model import Workload, offered_load

WHOLE = asked_or_whole(None, 1)
"""What jobs ask for that only tell how many hosts they need."""


class Requests:
    """What jobs ask for on a machine: distinct requests, and the one of each job.

    Attributes
    ----------
    distinct
        The requests, each once; :data:`WHOLE` first.
    of_job
        Place of each job's request among them.
    """

    def __init__(
        self, machine: Machine, asked: Sequence[HostsAsked | None], processors: Floats
    ) -> None:
        self.machine = machine
        self._processors = processors
        # Jobs that were read share no objects, but often ask for the same.
        whole = msgspec.json.encode(WHOLE)
        keys = [whole if each is None else msgspec.json.encode(each) for each in asked]
        by_key = {whole: WHOLE} | {
            key: each for key, each in zip(keys, asked, strict=True) if each is not None
        }
        self.distinct = list(by_key.values())
        places = {key: place for place, key in enumerate(by_key)}
        self.of_job: Integers = np.array([places[key] for key in keys], np.int64)

    @cached_property
    def capacity(self) -> Integers:
        """What each host has of each kind: shape (hosts, kinds)."""
        return np.array(self.machine.amounts, np.int64).reshape(self.machine.hosts, -1)

    @cached_property
    def totals(self) -> Integers:
        """What the machine has of each kind."""
        totals: Integers = self.capacity.sum(axis=0)
        return totals

    def amounts(self, part: AskedPart) -> Integers:
        """Return what a part asks for on each host, or for each task, by kind of the machine."""
        return np.array([part.amounts.get(kind, 0) for kind in self.machine.kinds], np.int64)

    @cached_property
    def _shared(self) -> Floats:
        """What each distinct request takes of each kind, but for hosts that it takes whole."""
        return np.array(
            [
                sum(
                    (
                        self.amounts(part).astype(np.float64) * (part.tasks or part.hosts)
                        for part in each.parts
                        if not part.exclusive
                    ),
                    np.zeros(len(self.machine.kinds)),
                )
                for each in self.distinct
            ]
        )

    @cached_property
    def _whole_share(self) -> Floats:
        """Which share of its hosts each distinct request takes whole."""
        return np.array(
            [
                sum(part.hosts for part in each.parts if part.exclusive)
                / sum(part.hosts for part in each.parts)
                for each in self.distinct
            ]
        )

    @cached_property
    def demand(self) -> Floats:
        """What each job asks for of each kind, a whole host counting as a mean one: shape (jobs,
        kinds).
        """
        whole = self._whole_share[self.of_job] * self._processors
        mean = self.totals / self.machine.hosts
        return self._shared[self.of_job] + whole[:, None] * mean

    @cached_property
    def sizes(self) -> Floats:
        """Dominant share of each job, in hosts: the largest of its amounts / the machine's, times
        the machine's hosts; a whole host is 1.
        """
        shares = self._shared / self.totals
        largest = shares.max(axis=1, initial=0.0) * self.machine.hosts
        whole = self._whole_share[self.of_job] * self._processors
        sizes: Floats = largest[self.of_job] + whole
        return sizes

    @cached_property
    def scarcest(self) -> Integers:
        """Which kind makes the dominant share of each job; -1 for jobs on whole hosts only."""
        shares = self._shared / self.totals
        found = np.where(shares.any(axis=1), shares.argmax(axis=1), -1)
        return found[self.of_job]


def sizes_of(workload: Workload, machine: Machine | None) -> Floats:
    """Return the size of each job of a workload: its dominant share of the machine, in hosts, or
    its processors where hosts have no amounts (None).
    """
    columns = workload.columns
    processors = columns.processors.astype(np.float64)
    if machine is None or columns.hosts_asked is None:
        return processors
    return Requests(machine, columns.hosts_asked, processors).sizes


def load_on(workload: Workload, machine: Machine) -> float | None:
    """Return the offered load of ``delay`` jobs on a machine, by their dominant shares; None if it
    is undefined.
    """
    columns = workload.columns
    work = sizes_of(workload, machine) * np.minimum(workload.delays, columns.walltimes)
    return offered_load(work, columns.submission_times, machine.hosts)


class RequestsOfRun(Requests):
    """What the jobs of a run ask for and take; one job a row of ``_jobs.csv``."""

    def __init__(
        self, result: RunResult, machine: Machine, workloads: Mapping[str, Workload]
    ) -> None:
        known = {
            f"{name}!{job_id}": asked
            for name, workload in workloads.items()
            for job_id, asked in zip(
                workload.columns.ids,
                workload.columns.hosts_asked or [None] * len(workload.columns.ids),
                strict=True,
            )
        }
        asked = [known.get(original_id(each, known) or "") for each in result.ids]
        super().__init__(machine, asked, result.column("requested_number_of_resources"))
        self.result = result

    @cached_property
    def taken(self) -> Floats:
        """What each job that ran took of each kind on all its hosts: shape (rows, kinds)."""
        rows, first, last = self.result.allocations
        # Sums over intervals of hosts, as differences.
        sums = np.vstack([np.zeros(len(self.totals)), np.cumsum(self.capacity, axis=0)])
        most = self.machine.hosts
        of_interval = sums[np.minimum(last + 1, most)] - sums[np.minimum(first, most)]
        count = len(self.result.executed)
        hosts = np.column_stack([np.bincount(rows, each, count) for each in of_interval.T])
        taken = self._shared[self.of_job] + self._whole_share[self.of_job, None] * hosts
        return np.where(self.result.executed[:, None], taken, 0.0)

    def on_host(self, stays: Stays) -> Floats:
        """Return what each job took of each kind on one of its hosts, for pairs of job and host.

        Tasks, and the parts of a job, count as spread evenly over its hosts.
        """
        of_job = self.of_job[stays.rows]
        hosts = np.maximum(self.result.allocation_sizes[stays.rows], 1)
        whole = self._whole_share[of_job, None] * self.capacity[stays.hosts]
        return self._shared[of_job] / hosts[:, None] + whole

    def used(self, kind: int) -> StepSeries:
        """Return how much of a kind running jobs take, over time."""
        return self._running(self.taken[:, kind])

    @cached_property
    def busy(self) -> StepSeries:
        """The dominant shares of the running jobs, in hosts, over time."""
        return self._running(self.sizes)

    def _running(self, weights: Floats) -> StepSeries:
        ran = self.result.executed
        start, finish = self.result.columns("starting_time", "finish_time")
        return step_series(start[ran], finish[ran], weights[ran])

    def waiting(self, kind: int) -> StepSeries:
        """Return how much of a kind waiting jobs ask for, over time."""
        return self._waiting(self.demand[:, kind])

    def jobs_waiting(self, kind: int) -> StepSeries:
        """Return how many waiting jobs ask for a kind, over time."""
        return self._waiting((self.demand[:, kind] > 0).astype(np.float64))

    def _waiting(self, weights: Floats) -> StepSeries:
        ran = self.result.executed
        start = self.result.column("starting_time")
        return step_series(waits_from(self.result)[ran], start[ran], weights[ran])

    def hosts_with(self, labels: Sequence[str]) -> Booleans:
        """Return which hosts have all of these labels."""
        mask = np.zeros(self.machine.hosts, np.bool_)
        mask[list(HostSet(self.machine.labelled(labels)))] = True
        return mask

    def may_be_on(self) -> tuple[Booleans, Integers]:
        """Return sets of hosts by label, shape (sets, hosts), and for each distinct request the set
        of which it has hosts, by the labels of one of its parts.
        """
        places: dict[frozenset[tuple[str, ...]], int] = {}
        of_request = []
        masks: list[Booleans] = []
        for each in self.distinct:
            labels = frozenset(part.labels for part in each.parts)
            if labels not in places:
                places[labels] = len(masks)
                masks.append(np.logical_or.reduce([self.hosts_with(some) for some in labels]))
            of_request.append(places[labels])
        return np.array(masks), np.array(of_request)


def requests_of_run(
    result: RunResult, workloads: Mapping[str, Workload] | None = None
) -> RequestsOfRun | None:
    """Return what the jobs of a run ask for and take; None where hosts have no amounts, or the
    workload is not known.

    ``workloads`` are what was run; None: those that the run recorded.
    """
    machine = result.machine
    if machine is None:
        return None
    known = workloads_with_deadlines(result)[0] if workloads is None else workloads
    return RequestsOfRun(result, machine, known) if known else None
