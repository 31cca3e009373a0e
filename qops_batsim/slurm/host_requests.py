"""What jobs of Slurm's queue ask for, as requests for hosts of a machine.

Partitions and features are labels of hosts, so partitions may overlap; nodes that a job names or
excludes are asked for by ``hosts:``, the label of hosts by their ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_, or_

from msgspec.structs import replace

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.machine import OF_HOSTS, Machine
from qops_batsim.job_fields import AskedPart, HostsAsked
from qops_batsim.slurm.queued_amounts import QueuedAmounts, largest_of


class HostRequests:
    """Turns what jobs ask of nodes into requests for the hosts of a machine.

    Parameters
    ----------
    machine
        What the nodes have, with partitions and features as labels.
    threads
        Of how many processors jobs get a multiple on each node, where they are asked for by host.

    Attributes
    ----------
    unsure
        Counts what jobs ask for and no plan has, by what it is.
    """

    def __init__(self, machine: Machine, threads: int = 1) -> None:
        self._machine = machine
        self._threads = threads
        self._rows = {name: row for row, name in enumerate(machine.names)}
        self._everything = (1 << machine.hosts) - 1
        self._largest = largest_of(map(machine.of_host, range(machine.hosts)))
        self.unsure: Counter[str] = Counter()
        self._by_hosts: dict[int, str] = {}

    def of(
        self, components: Sequence[QueuedAmounts], *, by_host: bool = False
    ) -> tuple[list[HostsAsked], HostsAsked]:
        """Return what a job's components ask for, in each of its partitions if it may start in
        several; and on hosts of any of them.

        ``by_host``, tasks are amounts that are the same on each host; else they may go to any.
        """
        for each in components:
            self.unsure.update(f"ask for {what}, which is not planned" for what in each.unmodelled)
        known = self.licences(components)
        # Hosts that have the features of a component, and that it does not exclude (bits).
        suitable = [
            self._with_features(each.features) & ~self._named(each.unwanted) for each in components
        ]
        anywhere = [
            part
            for each, hosts in zip(components, suitable, strict=True)
            for part in self._parts(each, hosts & self._in(each), by_host)
        ]
        together = HostsAsked(parts=tuple(anywhere), licences=known)
        # On one host it is in one partition, whichever that is.
        is_apart = not by_host or sum(part.hosts for part in anywhere) > 1
        if len(components) != 1 or not is_apart or len(components[0].partitions) < 2:
            return [together], together

        masks = dict.fromkeys(map(self._labelled, components[0].partitions))
        made = [self._parts(components[0], suitable[0] & mask, by_host) for mask in masks]
        return [HostsAsked(parts=tuple(parts), licences=known) for parts in made], together

    def licences(self, components: Sequence[QueuedAmounts]) -> dict[str, int]:
        """Return the licences of a job of which the machine has as many."""
        if not any(each.licences for each in components):
            return {}
        licences: Counter[str] = Counter()
        for each in components:
            licences.update(each.licences)
        known = {k: n for k, n in licences.items() if n <= self._machine.licences.get(k, 0)}
        if len(known) < len(licences):
            self.unsure["ask for licences, of which is not told how many there are"] += 1
        return known

    def only(self, hosts: int, names: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the labels of just these hosts (bits), none if these are all; one of ``names``
        where it is the label of these.
        """
        if hosts == self._everything:
            return ()
        for name in names:
            if self._labelled(name) == hosts:
                return (name,)
        if hosts not in self._by_hosts:
            self._by_hosts[hosts] = f"{OF_HOSTS}{HostSet(hosts)}"
        return (self._by_hosts[hosts],)

    def _labelled(self, name: str) -> int:
        return self._machine.labels.get(name, 0)

    def _in(self, asked: QueuedAmounts) -> int:
        return reduce(or_, map(self._labelled, asked.partitions), 0)

    def _parts(self, asked: QueuedAmounts, hosts: int, by_host: bool) -> list[AskedPart]:
        """Return the parts that a component of a job asks for among some suitable hosts (bits)."""
        wanted = self._named(asked.wanted) & hosts
        if by_host:
            amounts = [self._machine.of_host(host) for host in HostSet(hosts)]
            part = asked.part_by_host(amounts, self._threads)
        else:
            part = asked.part(self._largest)
        if not asked.wanted:
            return [replace(part, labels=self.only(hosts, asked.partitions))]
        count = len(asked.wanted)
        if part.tasks or part.hosts <= count:
            return [replace(part, labels=self.only(wanted))]
        return [
            replace(part, hosts=count, labels=self.only(wanted)),
            replace(part, hosts=part.hosts - count, labels=self.only(hosts & ~wanted)),
        ]

    def _named(self, names: Iterable[str]) -> int:
        return sum(1 << self._rows[name] for name in {*names} if name in self._rows)

    def _with_features(self, text: str) -> int:
        """Return the hosts with features such as ``ib&nv`` or ``a|b``; all if they are joined in
        another way.
        """
        mark = "|" if "|" in text else "&"
        names = [name.strip() for name in text.strip("()").split(mark) if name.strip()]
        if not names:
            return self._everything
        if any(not name.replace("_", "").replace("-", "").isalnum() for name in names):
            self.unsure["ask for features in a way that is not planned"] += 1
            return self._everything
        return reduce(or_ if mark == "|" else and_, map(self._labelled, names))
