"""Rates of computations that share hosts and links (the fluid model).

Every computation uses certain resources, each in proportion to its progress: a host by the flop
that each executor has to do there, a link by the bytes that cross it. All parts of a computation
progress at one rate. Rates come from filling up fairly: every unsaturated resource offers an equal
share of what it has left to each growing use of it; each grows by what its narrowest resource
offers; computations on a resource that is used up stop growing; and so on until none can grow. In
each further round a computation that has stopped takes its last growth once more from what its
other resources have left, so some capacity stays unused. All of this is SimGrid's bottleneck model
of parallel tasks (L07, as in SimGrid 3.34), with which 60 recorded jobs on shared heterogeneous
hosts agree.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter

from qops_batsim.errors import SimulationError
from qops_batsim.timing import SAME_DATE

EXHAUSTED = 1e-5
"""Rest of a resource (flop/s, bytes/s) below which nothing is left, as in SimGrid."""

PLAIN_ROUNDS = 50
"""More rounds than that are skipped where they are alike."""

MAX_ROUNDS = 10_000
"""More rounds than that would take too long."""


class Resource:
    """A host or a link, with its capacity (flop/s or bytes/s).

    Users share it, but on a FATPIPE link (``shared`` is False) each has all of it: what is left
    then is as much less as its least user has taken, as in SimGrid.
    """

    __slots__ = ("capacity", "shared")

    def __init__(self, capacity: float, *, shared: bool = True) -> None:
        self.capacity = capacity
        self.shared = shared


class HostResource(Resource):
    """A host with the speed of each of its ``cores`` (flop/s), an executor's limit."""

    __slots__ = ("cores", "host", "speed")

    def __init__(self, host: int, speed: float, cores: int = 1) -> None:
        super().__init__(speed * cores)
        self.host = host
        self.speed = speed
        self.cores = cores

    def change(self, speed: float) -> None:
        """Set the speed of the cores (flop/s)."""
        self.speed = speed
        self.capacity = speed * self.cores


class Computation:
    """A running computation.

    It uses an amount (flop, bytes) of each resource, progresses at a ``rate`` (share of the whole
    per second) of at most ``bound``, but not in the ``latency`` at its beginning (seconds);
    ``remaining`` is the share that is left, from 1 to 0. The ``executors`` are hosts with what one
    of them has to do there; several on one host have a share of it each. The ``number`` counts
    computations in the order in which they begin to progress; ``parties`` are the ids of all hosts
    that take part, also those that compute nothing.
    """

    __slots__ = (
        "_bound",
        "bound",
        "latency",
        "number",
        "parties",
        "rate",
        "remaining",
        "since",
        "uses",
    )

    def __init__(
        self,
        uses: Mapping[Resource, float],
        *,
        executors: Iterable[tuple[HostResource, float]] = (),
        parties: tuple[int, ...] = (),
        bound: float = math.inf,
        latency: float = 0.0,
    ) -> None:
        self.uses: list[tuple[Resource, float]] = [use for use in executors if use[1] > 0]
        self.uses += [(resource, amount) for resource, amount in uses.items() if amount > 0]
        self.parties = parties
        self._bound = bound
        self.set_bound()
        self.latency = latency
        self.remaining = 1.0 if self.uses else 0.0
        self.rate = 0.0
        self.since = 0.0
        self.number = 0

    @property
    def hosts(self) -> list[HostResource]:
        """The hosts on which the computation runs, one for each executor."""
        return [resource for resource, _ in self.uses if isinstance(resource, HostResource)]

    def set_bound(self) -> None:
        """Update the computation's greatest possible rate from the current speeds of its hosts."""
        self.bound = self._bound
        for resource, amount in self.uses:
            if isinstance(resource, HostResource):
                self.bound = min(self.bound, resource.speed / amount)

    def advance(self, now: float) -> None:
        """Subtract the work that the computation has done until the date ``now`` (seconds)."""
        if self.rate:
            self.remaining = max(0.0, self.remaining - self.rate * (now - self.since))
        self.since = now

    def left(self) -> float:
        """Return the time until the computation ends at its current rate (seconds)."""
        if not self.remaining:
            return 0.0
        return self.remaining / self.rate if self.rate else math.inf

    def is_done(self, now: float) -> bool:
        """Return whether the computation is complete at ``now``, within the precision of dates."""
        self.advance(now)
        return self.remaining <= self.rate * SAME_DATE


class FluidModel:
    """The running computations and their rates.

    A change only concerns the computations that share a resource with the one
    that changed, those that share one with them, and so on.
    """

    def __init__(self) -> None:
        self._users: dict[Resource, dict[Computation, None]] = {}
        self._changed: dict[Computation, None] = {}
        self._begun = 0

    @property
    def changed(self) -> bool:
        """Whether anything has changed since the last :meth:`settle`."""
        return bool(self._changed)

    def start(self, computation: Computation, now: float) -> None:
        """Start a computation."""
        computation.since = now
        self._number(computation)
        for resource, _ in computation.uses:
            self._users.setdefault(resource, {})[computation] = None
        self._changed[computation] = None

    def stop(self, computation: Computation) -> None:
        for resource, _ in computation.uses:
            users = self._users[resource]
            users.pop(computation, None)
            self._changed.update(users)
        self._changed.pop(computation, None)

    def wake(self, computation: Computation) -> None:
        """Begin the transfers of a computation whose latency has passed: rates change."""
        computation.latency = 0.0
        self._number(computation)
        self._changed[computation] = None

    def _number(self, computation: Computation) -> None:
        computation.number = self._begun
        self._begun += 1

    def change_speed(self, host: HostResource, speed: float) -> None:
        """Set the speed of a host's cores (flop/s)."""
        host.change(speed)
        for computation in self._users.get(host, ()):
            computation.set_bound()
            self._changed[computation] = None

    def flows(self, hosts: Collection[HostResource]) -> dict[HostResource, float]:
        """Return the total rate of the computations on each of these hosts (flop/s). O(uses)."""
        used = dict.fromkeys(hosts, 0.0)
        users = {computation: None for host in used for computation in self._users.get(host, ())}
        for computation in users:
            for resource, amount in computation.uses:
                if isinstance(resource, HostResource) and resource in used:
                    used[resource] += amount * computation.rate
        return used

    def settle(self, now: float) -> list[tuple[Computation, float]]:
        """Update all rates; return each computation whose end changes, with the seconds until its
        end.

        Call it after all changes of a date. O(rounds × uses) of those concerned.
        """
        if not self._changed:
            return []
        concerned = self._concerned()
        self._changed = {}
        active = sorted(
            (computation for computation in concerned if not computation.latency),
            key=attrgetter("number"),
        )
        for computation in active:
            computation.advance(now)
        moved = []
        for computation, rate in zip(active, fair_rates(active), strict=True):
            if rate != computation.rate or not computation.remaining:
                computation.rate = rate
                moved.append((computation, computation.left()))
        return moved

    def _concerned(self) -> list[Computation]:
        found = dict(self._changed)
        todo = list(found)
        seen: set[Resource] = set()
        while todo:
            for resource, _ in todo.pop().uses:
                if resource not in seen:
                    seen.add(resource)
                    fresh = [other for other in self._users[resource] if other not in found]
                    found.update(dict.fromkeys(fresh))
                    todo += fresh
        return list(found)


def fair_rates(computations: Sequence[Computation]) -> list[float]:
    """Return each computation's fair rate (share of the whole per second).

    See the module's text for the rule. They are in the order in which they began to progress: with
    it go SimGrid's rounding errors, which decide what is used up. O(rounds × uses).
    """
    filling = _Filling(computations)
    for number in range(MAX_ROUNDS):
        if not filling.growing:
            return filling.rates
        if filling.grow() and number >= PLAIN_ROUNDS:
            filling.skip()
    raise SimulationError(
        f"sharing hosts and links among {len(computations)} computations takes more than "
        f"{MAX_ROUNDS} rounds"
    )


class _Filling:
    """Progressive filling: the rounds in which rates grow."""

    def __init__(self, computations: Sequence[Computation]) -> None:
        self.rates = [0.0] * len(computations)
        self.growing = {
            n
            for n, computation in enumerate(computations)
            if computation.uses and computation.remaining
        }
        self._computations = computations
        self._growth = [0.0] * len(computations)
        self._users: dict[Resource, list[tuple[int, float]]] = {}
        for index in sorted(self.growing, reverse=True):
            for resource, amount in reversed(computations[index].uses):
                self._users.setdefault(resource, []).append((index, amount))
        self._left = {resource: resource.capacity for resource in self._users}
        self._offers: dict[Resource, float] = {}

    def grow(self) -> bool:
        """Raise rates by one round; return whether the next one raises as many computations."""
        growing = self.growing
        rates = self.rates
        users = self._users
        before = len(self.growing)
        offers: dict[Resource, float] = {}
        for resource, rest in self._left.items():
            count = sum(index in growing for index, _ in users[resource])
            if count:
                offers[resource] = rest / (count if resource.shared else 1)

        for index in list(growing):
            computation = self._computations[index]
            offered = min([offers[resource] / amount for resource, amount in computation.uses])
            growth = min(offered, computation.bound - rates[index])
            self._growth[index] = growth
            rates[index] += growth
            if rates[index] == computation.bound:
                growing.discard(index)

        # Resources on which nothing grows any more are out; so are those that are used up.
        left = {resource: self._left[resource] for resource in offers}
        for resource, offer in offers.items():
            taken = [amount * self._growth[index] for index, amount in users[resource]]
            for part in taken if resource.shared else [min(offer, *taken)]:
                rest = left[resource] - part
                left[resource] = rest if rest >= EXHAUSTED else 0.0
            if not left[resource]:
                del left[resource]
                growing.difference_update(index for index, _ in users[resource])
        self._left = left
        self._offers = offers
        return len(growing) == before

    def skip(self) -> None:
        """Skip rounds that are equal, since only FATPIPE links limit rates.

        That may last for millions of rounds, if one that has stopped hardly uses such a link.
        """
        lost = {
            link: min(amount * self._growth[index] for index, amount in self._users[link])
            for link in self._left
            if not link.shared
        }

        limits: dict[int, tuple[Resource, float]] = {}
        for index in self.growing:
            limit, amount = min(
                self._computations[index].uses, key=lambda use: self._left[use[0]] / use[1]
            )
            if limit.shared or self.growing.issuperset(n for n, _ in self._users[limit]):
                return
            limits[index] = limit, amount

        # The greatest number of rounds that are alike, bit by bit.
        rounds = 0
        step = 1 << MAX_ROUNDS.bit_length() * 2
        while step:
            if self._are_alike(rounds + step, limits, lost):
                rounds += step
            step >>= 1
        self._advance(rounds, limits, lost)

    def _are_alike(
        self, rounds: int, limits: dict[int, tuple[Resource, float]], lost: dict[Resource, float]
    ) -> bool:
        """Return whether nothing else can limit a rate in the next ``rounds`` rounds."""
        now = {index: self._left[limit] / amount for index, (limit, amount) in limits.items()}
        then = {
            index: (self._left[limit] - rounds * lost[limit]) / amount
            for index, (limit, amount) in limits.items()
        }

        for index, growth in now.items():
            grown = rounds * (growth + then[index]) / 2
            if self.rates[index] + grown + growth > self._computations[index].bound:
                return False

        for resource, rest in self._left.items():
            users = self._users[resource]
            if resource.shared:
                after = rest - self._taken(resource, rounds, now, then)
                count = len([n for n, _ in users if n in now])
                most = now
            else:
                after = rest - rounds * lost[resource]
                count = 1
                most = then  # What limits becomes less as steadily.
                if any(amount * then.get(n, math.inf) < lost[resource] for n, amount in users):
                    return False

            wanted = [
                count * amount * most[n]
                for n, amount in users
                if n in now and limits[n][0] is not resource
            ]
            if after < max(wanted, default=0.0) or after < EXHAUSTED:
                return False
        return True

    def _taken(
        self, resource: Resource, rounds: int, now: dict[int, float], then: dict[int, float]
    ) -> float:
        """Return how much of a shared resource's capacity the next rounds of raising rates use."""
        return rounds * math.fsum(
            amount * ((now[n] + then[n]) / 2 if n in now else self._growth[n])
            for n, amount in self._users[resource]
        )

    def _advance(
        self, rounds: int, limits: dict[int, tuple[Resource, float]], lost: dict[Resource, float]
    ) -> None:
        now, then = {}, {}
        for index, (limit, amount) in limits.items():
            now[index] = self._left[limit] / amount
            then[index] = (self._left[limit] - (rounds - 1) * lost[limit]) / amount

        if not rounds:
            return
        for resource in self._left:
            if resource.shared:
                self._left[resource] -= self._taken(resource, rounds, now, then)
            else:
                self._left[resource] -= rounds * lost[resource]

        for index in limits:
            self.rates[index] += rounds * (now[index] + then[index]) / 2
            self._growth[index] = then[index]
