"""What running jobs have of hosts that they share by amounts, whoever decides on their starts.

Where each host of a job has its part, or each task its host, the job's executors say which: they
stand in the order of the parts, and are on the hosts of the job in ascending order unless there is
a mapping. Of more tasks than executors it is only known that no host of the job is without one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.machine import Machine
from qops_batsim.errors import InputError
from qops_batsim.job_fields import AskedPart, asked_or_whole, hosts_unknown
from qops_batsim.jobs import Job
from qops_batsim.texts import amount_text
from qops_batsim.workload.workload_model import JobColumns


class _Share(NamedTuple):
    """What a job has of one host: a part of what it asks for, for so many of its tasks."""

    part: AskedPart
    times: int


class AmountsInUse:
    """The amounts that are free on the hosts of a machine, and the licences."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._free = [Counter(machine.of_host(host)) for host in range(machine.hosts)]
        self._licences = Counter(machine.licences)
        self._jobs: list[dict[str, None]] = [{} for _ in machine.amounts]
        self._held: dict[str, dict[int, _Share]] = {}

    def problem(
        self, job: Job, hosts: HostSet, executors: Sequence[int] | None
    ) -> tuple[int | None, str] | None:
        """Return why existing hosts cannot take a job now, and which host, None if all can.

        ``executors`` are the hosts of the job's executors if there is a mapping.
        """
        given = len(hosts)
        asked = job.processors
        request = asked_or_whole(job.hosts_asked, asked)
        tasks = request.parts[0].tasks
        if given > asked or (given < asked and not tasks):
            most = "at most " if tasks else ""
            return None, f"it asks for {most}{asked} hosts and was given {given} ({hosts})"
        if executors is not None and not tasks and len(set(executors)) < asked:
            return None, f"it asks for {asked} hosts, and its mapping puts two executors on one"

        for host, share in self._shares(job, hosts, executors).items():
            trouble = self._trouble(host, share)
            if trouble:
                return host, trouble
        for name, amount in request.licences.items():
            if amount > self._licences[name]:
                free = self._licences[name]
                return None, f"it asks for {amount} licences of {name}, {free} are free"
        return None

    def take(self, job: Job, hosts: HostSet, executors: Sequence[int] | None) -> None:
        """Give a job what it asks for of hosts that can take it."""
        shares = self._shares(job, hosts, executors)
        self._held[job.id] = shares
        self._licences.subtract(asked_or_whole(job.hosts_asked, job.processors).licences)
        for host, share in shares.items():
            self._jobs[host][job.id] = None
            self._free[host].subtract(self._taken(host, share))

    def release(self, job: Job) -> None:
        """Take back what a job has."""
        self._licences.update(asked_or_whole(job.hosts_asked, job.processors).licences)
        for host, share in self._held.pop(job.id).items():
            del self._jobs[host][job.id]
            self._free[host].update(self._taken(host, share))

    def _shares(
        self, job: Job, hosts: HostSet, executors: Sequence[int] | None
    ) -> dict[int, _Share]:
        """Return what a job would have of each of its hosts."""
        parts = asked_or_whole(job.hosts_asked, job.processors).parts
        placed = tuple(hosts) if executors is None else executors
        tasks = parts[0].tasks
        if tasks:
            known = len(placed) == tasks
            counts = Counter(placed) if known else self._least_tasks(parts[0], hosts)
            return {host: _Share(parts[0], counts[host]) for host in sorted(counts)}
        each = [part for part in parts for _ in range(part.hosts)]
        return {host: _Share(part, 1) for host, part in sorted(zip(placed, each, strict=True))}

    def _least_tasks(self, part: AskedPart, hosts: HostSet) -> dict[int, int]:
        """Return how many tasks each host has at least: one, and those without room elsewhere."""
        room = {host: self._room(host, part) for host in hosts}
        left = part.tasks - sum(room.values())
        return {host: max(1, left + own) for host, own in room.items()}

    def _room(self, host: int, part: AskedPart) -> int:
        free = self._free[host]
        return min(free[kind] // amount for kind, amount in part.amounts.items() if amount)

    def _trouble(self, host: int, share: _Share) -> str:
        """Return why a host cannot give a share now, "" if it can."""
        part, times = share
        labelled = self._machine.with_label
        lacking = [name for name in part.labels if not labelled(name) >> host & 1]
        if lacking:
            return f"it asks for hosts with {lacking[0]}, which is no label of this one"
        there = ", ".join(self._jobs[host])
        if part.exclusive and there:
            return f"it takes whole hosts, and this one has {there}"

        for kind, amount in part.amounts.items():
            free = self._free[host][kind]
            if times * amount > free:
                asked = amount_text(kind, times * amount)
                beside = f" beside {there}" if there else ""
                return f"it asks for {asked} there, {amount_text(kind, free)} are free{beside}"
        return ""

    def _taken(self, host: int, share: _Share) -> dict[str, int]:
        """Return what a share is of a host, by kind."""
        part, times = share
        if part.exclusive:
            return self._machine.of_host(host)
        return {kind: times * amount for kind, amount in part.amounts.items()}


def check_hosts_asked(
    source: str, columns: JobColumns, machine: Machine | None, platform: str
) -> None:
    """Check that hosts have amounts where jobs of a workload (``source``) ask for some; InputError
    if not.
    """
    if machine is not None or columns.hosts_asked is None:
        return
    for name, asked in zip(columns.ids, columns.hosts_asked, strict=True):
        if asked is not None:
            raise InputError(f"{source}: {hosts_unknown(name, asked, platform)}")
