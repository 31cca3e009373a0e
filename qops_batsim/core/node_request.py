"""What jobs ask for of hosts that they share, and which hosts they were given.

A :class:`NodeLayout` has the amounts of a machine in arrays; it turns what a job asks for into a
:class:`NodeRequest`, whose parts are shared by all jobs that ask for the same. The rule by which
hosts are chosen is in :mod:`~qops_batsim.core.node_profile`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace
from typing import Any

from msgspec.structs import replace

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.machine import Machine
from qops_batsim.core.refusal import Refusal, RefusalKind
from qops_batsim.job_fields import AskedPart, HostsAsked, asked_or_whole

NO_CELLS = array("q")


class HostPart:
    """One part of a request: amounts on each of a number of hosts, or of a number of tasks.

    Attributes
    ----------
    count
        Number of hosts; of tasks, the most that they may be on.
    tasks
        Number of tasks, 0 if hosts are asked for.
    is_whole
        Whether the hosts are taken whole, whatever they have.
    is_licence
        Whether this is about licences, which the machine has and no host.
    amounts
        By kind: what is needed on each host, or for each task.
    candidates, tiers
        The rows of hosts on which it fits when they are empty, ascending; and for each of these the
        part of its score that does not depend on what is free.
    """

    def __init__(
        self, count: int, tasks: int, is_whole: bool, is_licence: bool, amounts: array[int]
    ) -> None:
        self.count = count
        self.tasks = tasks
        self.is_whole = is_whole
        self.is_licence = is_licence
        self.amounts = amounts
        self.size = 0
        self.candidates = array("q")
        self.tiers = array("d")
        self.is_candidate = bytearray()

        # Of the last passes that found it not to fit now (SharedHosts): their number, the shortest
        # duration, and how many rows had gained by then.
        self.failed_pass = -1
        self.failed_duration = 0.0
        self.failed_gains = 0

    def tasks_in(self, amounts: array[int], first: int) -> int:
        """Return how many of its tasks there is room for where so much is free (by kind, from index
        ``first`` on). O(kinds).
        """
        most = self.tasks
        for kind in range(len(self.amounts)):
            if self.amounts[kind] > 0:
                most = min(most, amounts[first + kind] // self.amounts[kind])
        return max(most, 0)

    def has_candidate(self, row: int) -> bool:
        """Return whether it fits on a row that is empty. O(1)."""
        return row < len(self.is_candidate) and self.is_candidate[row] == 1

    def set_candidates(self, rows: array[int], tiers: array[float]) -> None:
        """Set on which rows it fits when they are empty, and their tiers."""
        self.size = len(rows)
        self.candidates = rows
        self.tiers = tiers
        self.is_candidate = bytearray(rows[self.size - 1] + 1 if self.size else 0)
        for place in range(self.size):
            self.is_candidate[rows[place]] = 1


class Places:
    """The hosts that a request was given: for each place a row, a part of the request, and how many
    times the part's amounts are taken there.
    """

    def __init__(self) -> None:
        self.size = 0
        self.room = 0
        self.cells = NO_CELLS
        self.parts: list[HostPart] = []

    def clear(self, parts: list[HostPart]) -> None:
        """Remove all places; those to come are for these parts. O(1)."""
        self.size = 0
        self.parts = parts

    def add(self, row: int, part: int, times: int) -> None:
        """Add a place. Amortised O(1)."""
        if self.size == self.room:
            self.room = 2 * self.room + 1
            cells = array("q", bytes(24 * self.room))
            for cell in range(3 * self.size):
                cells[cell] = self.cells[cell]
            self.cells = cells
        first = 3 * self.size
        self.cells[first] = row
        self.cells[first + 1] = part
        self.cells[first + 2] = times
        self.size += 1

    def copy_from(self, other: Places) -> None:
        """Replace the places by those of another object. O(places)."""
        if self.room < other.size:
            self.room = other.size
            self.cells = array("q", bytes(24 * self.room))
        self.size = other.size
        self.parts = other.parts
        for cell in range(3 * other.size):
            self.cells[cell] = other.cells[cell]

    def copied(self) -> Places:
        """Return an independent copy. O(places)."""
        copy = Places()
        copy.copy_from(self)
        return copy

    def row_of(self, place: int) -> int:
        """Return the row of a place, by index. O(1)."""
        return self.cells[3 * place]

    def part_of(self, place: int) -> HostPart:
        """Return the part of the request that a place is for, by index. O(1)."""
        return self.parts[self.cells[3 * place + 1]]

    def times_of(self, place: int) -> int:
        """Return how many times its part's amounts a place takes, by index. O(1)."""
        return self.cells[3 * place + 2]

    def keep_within(self, hosts: int) -> None:
        """Remove the places on hosts that are not in a set (bits). O(places)."""
        kept = [
            told for told in self.told() if self.parts[told[1]].is_licence or hosts >> told[0] & 1
        ]
        self.fill(self.parts, kept)

    def equals(self, other: Places) -> bool:
        """Return whether these are the same places. O(places)."""
        if self.size != other.size:
            return False
        for cell in range(3 * self.size):  # noqa: SIM110 - all() would make a generator
            if self.cells[cell] != other.cells[cell]:
                return False
        return True

    def told(self) -> list[tuple[int, int, int]]:
        """Return each place as (row, part, how many times its amounts). O(places)."""
        cells = [int(self.cells[cell]) for cell in range(3 * self.size)]
        return list(zip(cells[::3], cells[1::3], cells[2::3], strict=True))

    def fill(self, parts: list[HostPart], told: Iterable[Sequence[int]]) -> None:
        """Replace the places by what :meth:`told` has returned, for these parts."""
        self.clear(parts)
        for row, part, times in told:
            self.add(row, part, times)

    def mask(self) -> int:
        """Return the hosts; bit *i* of the result stands for host *i*. O(places)."""
        mask = 0
        for host, _ in self.listed():
            mask |= 1 << host
        return mask

    def listed(self) -> list[tuple[int, int]]:
        """Return each host with how many times its part's amounts are taken there, without
        licences. O(places).
        """
        told = self.told()
        return [(row, times) for row, part, times in told if not self.parts[part].is_licence]


class FoundHosts(HostSet):
    """Hosts that a fit found for a job, and what it takes on each of them (``places``)."""

    __slots__ = ("places",)

    def __init__(self, places: Places) -> None:
        HostSet.__init__(self, places.mask())
        self.places = places


class NodeRequest:
    """What a job asks for of the hosts of a machine with amounts, and the hosts that it has.

    Attributes
    ----------
    parts
        The parts of the request; none if the machine can never give it.
    refusal
        Why the machine can never give it, None if it can.
    size
        The dominant share: the greatest of its amounts over what the machine has of the kind, times
        the number of hosts.
    held
        The hosts that the plan reserves.
    found
        The hosts that the last search for an earliest fit found.
    tried
        The hosts in a plan that is tried.
    used, is_used
        The hosts that it has while it runs, and whether it has them.
    noted
        The hosts that were written to the decision log last.
    """

    def __init__(self, parts: list[HostPart], refusal: Refusal | None, size: float) -> None:
        self.parts = parts
        self.refusal = refusal
        self.size = size
        self.is_single = len(parts) == 1
        self.held = Places()
        self.found = Places()
        self.tried = Places()
        self.used = Places()
        self.is_used = False
        self.noted = Places()

    def has_tasks(self) -> bool:
        """Return whether it asks for tasks that may share a host."""
        return any(part.tasks for part in self.parts)

    def hosts_mask(self) -> int:
        """Return the hosts that it is to have or has; bit *i* stands for host *i*."""
        return self.held.mask()

    def mapping(self) -> list[int]:
        """Return the host of each of the job's executors, of which it has as many as it may have
        hosts: parts have theirs in turn, each host one for each task as far as they go, and one at
        least.
        """
        places = self.held
        if not self.has_tasks():
            chosen = [
                (part, host) for host, part, _ in places.told() if not places.parts[part].is_licence
            ]
            return [host for _, host in sorted(chosen)]

        # One after the other, to the host with the most tasks for each executor then.
        executors = []
        turns = [(-tasks / 2, host, tasks, 1) for host, tasks in places.listed()]
        heapify(turns)
        for _ in range(self.parts[0].count - len(turns)):
            _, host, tasks, given = turns[0]
            heapreplace(turns, (-tasks / (given + 2), host, tasks, given + 1))
        for _, host, _, given in turns:
            executors += [host] * given
        return sorted(executors)


class NodeLayout:
    """The amounts of a machine's hosts in arrays, a row for each host.

    Licences, which the machine has and no host, are one more row.

    Parameters
    ----------
    machine
        What each host has.

    Attributes
    ----------
    hosts, rows, kinds
        Numbers of hosts, of rows, and of kinds in each row.
    capacity
        What row *r* has of kind *k*, at ``r * kinds + k``.
    stamp
        The last number given to the contents of a row of any profile of this machine.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.hosts = machine.hosts
        self.licences = sorted(machine.licences)
        self.rows = self.hosts + bool(self.licences)
        # Hosts that have nothing can be taken whole: they have one of a kind that nobody asks for.
        has_empty = not all(map(any, machine.amounts))
        self.kinds = max(len(machine.kinds) + has_empty, len(self.licences))
        self.stamp = 0

        self.capacity = array("q", bytes(8 * self.rows * self.kinds))
        for row, amounts in enumerate(machine.amounts):
            for kind, amount in enumerate(amounts):
                self.capacity[row * self.kinds + kind] = amount
            if not any(amounts):
                self.capacity[row * self.kinds + len(machine.kinds)] = 1
        for kind, name in enumerate(self.licences):
            self.capacity[self.hosts * self.kinds + kind] = machine.licences[name]

        self.totals = machine.totals
        self.known: dict[Any, HostPart | Refusal] = {}
        self.with_labels: dict[tuple[str, ...], array[int]] = {}
        self.weights = array("d", [weight * (len(machine.kinds) + 1) for weight in machine.weights])

    def request(self, asked: HostsAsked | None, hosts: int) -> NodeRequest:
        """Return the request of a job that asks for ``hosts`` hosts, whole ones unless ``asked``
        says more.
        """
        asked = asked_or_whole(asked, hosts)
        made = [self.part(part) for part in asked.parts]
        if asked.licences:
            made.append(self.licence_part(asked.licences))

        parts: list[HostPart] = []
        for part in made:
            if isinstance(part, Refusal):
                return NodeRequest([], part, float(hosts))
            parts.append(part)

        return NodeRequest(parts, None, self.size_of(asked.parts))

    def part(self, asked: AskedPart) -> HostPart | Refusal:
        """Return a part as arrays, or why no host has it. O(hosts × kinds) for each new one."""
        key = (asked.hosts, asked.tasks, asked.exclusive, asked.labels, *asked.amounts.items())
        known = self.known.get(key)
        if known is None:
            known = self.made_part(asked)
            self.known[key] = known
        return known

    def made_part(self, asked: AskedPart) -> HostPart | Refusal:
        """Return a new part, or why no host has it."""
        machine = self.machine
        refusal = self.why_unknown(asked)
        if refusal is not None:
            return refusal

        amounts = array("q", bytes(8 * self.kinds))
        for kind, name in enumerate(machine.kinds):
            amounts[kind] = asked.amounts.get(name, 0)
        is_whole = asked.exclusive or not asked.amounts
        part = HostPart(asked.hosts, asked.tasks, is_whole, False, amounts)

        with_labels = self.rows_with(asked.labels)
        candidates = array("q", with_labels)
        tiers = array("d", bytes(8 * len(candidates)))
        count = 0
        for place in range(len(candidates)):
            row = candidates[place]
            idle = 0
            is_able = True
            for kind in range(len(machine.kinds)):
                has = self.capacity[row * self.kinds + kind]
                is_able = is_able and has >= amounts[kind]
                idle += has > 0 and amounts[kind] == 0
            if is_able:
                candidates[count] = row
                tiers[count] = self.weights[row] + idle
                count += 1
        part.set_candidates(candidates[:count], tiers[:count])
        if part.tasks == 0 and part.size >= part.count:
            return part
        return self.why_too_few(asked, part, list(with_labels)) or part

    def rows_with(self, labels: tuple[str, ...]) -> array[int]:
        """Return the hosts that have all of these labels, ascending."""
        known = self.with_labels.get(labels)
        if known is None:
            known = array("q", HostSet(self.machine.labelled(labels)))
            self.with_labels[labels] = known
        return known

    def why_unknown(self, asked: AskedPart) -> Refusal | None:
        """Return a refusal if a part asks for a kind or a label that no host has, else None."""
        for name, amount in asked.amounts.items():
            if amount > 0 and name not in self.machine.kinds:
                return Refusal(kind=RefusalKind.NO_SUCH_KIND, name=name, asked=amount)
        if not all(map(self.machine.with_label, asked.labels)):
            return Refusal(
                kind=RefusalKind.NO_LABELS, processors=asked.hosts, hosts=0, labels=asked.labels
            )
        return None

    def why_too_few(self, asked: AskedPart, part: HostPart, rows: list[int]) -> Refusal | None:
        """Return a refusal if too few of the hosts with the labels (rows) have what a part asks for
        even when they are empty.
        """
        needed = 1 if part.tasks > 0 else part.count
        refusal = Refusal(
            kind=RefusalKind.NO_LABELS,
            processors=part.count,
            hosts=len(rows),
            labels=asked.labels,
        )
        if len(rows) < needed:
            return refusal

        for kind, name in enumerate(self.machine.kinds):
            amount = part.amounts[kind]
            if amount == 0:
                continue
            has = [self.machine.amounts[row][kind] for row in rows]
            most = sorted(has)[len(has) - needed]
            if most < amount:
                return replace(
                    refusal,
                    kind=RefusalKind.HOSTS_TOO_SMALL,
                    processors=needed,
                    name=name,
                    asked=int(amount),
                    available=most,
                    hosts=sum(one >= amount for one in has),
                )

        apart = replace(refusal, kind=RefusalKind.AMOUNTS_APART, hosts=part.size)
        if part.tasks > 0:
            room = [part.tasks_in(self.capacity, row * self.kinds) for row in part.candidates]
            fits = sorted(room, reverse=True)
            most = sum(fits[: part.count])
            if most < part.tasks:
                return replace(apart, asked=int(part.tasks), available=most)
        elif part.size < part.count:
            return replace(apart, name=", ".join(asked.amounts))
        return None

    def licence_part(self, licences: dict[str, int]) -> HostPart | Refusal:
        """Return the part of a request that is about licences, or why the machine has too few."""
        amounts = array("q", bytes(8 * self.kinds))
        for name, amount in licences.items():
            has = self.machine.licences.get(name, 0)
            if amount > has:
                kind = RefusalKind.TOO_FEW_LICENCES
                return Refusal(kind=kind, name=name, asked=amount, available=has)
            if has:
                amounts[self.licences.index(name)] = amount
        part = HostPart(1, 0, False, True, amounts)
        part.set_candidates(array("q", [self.hosts]), array("d", [0.0]))
        return part

    def size_of(self, parts: tuple[AskedPart, ...]) -> float:
        """Return the dominant share of a request, in hosts."""
        whole = 0
        asked = dict.fromkeys(self.machine.kinds, 0)
        for part in parts:
            if part.exclusive or not part.amounts:
                whole += part.hosts
                continue
            for name, amount in part.amounts.items():
                if amount > 0:
                    asked[name] += amount * (part.tasks or part.hosts)
        shares = [asked[name] / total for name, total in self.totals.items() if total > 0]
        return whole + max(shares, default=0.0) * self.hosts

    def next_stamp(self) -> int:
        """Return a number that no row of any profile of this machine has had."""
        self.stamp += 1
        return self.stamp
