"""How fast computations progress when they share hosts and links.

Every computation uses certain resources, each in proportion to its progress: a host by the flop it
has to do there, a link by the bytes that cross it. All parts of a computation progress at one rate.
Rates come from filling up fairly: every unsaturated resource offers an equal share of what it has
left to each growing computation that uses it; each grows by what its narrowest resource offers;
computations on a resource that is used up stop growing; and so on until none can grow. In each
further round a computation that has stopped takes its last growth once more from what its other
resources have left, so some capacity stays unused. All of this is SimGrid's bottleneck model of
parallel tasks (L07, as in SimGrid 3.34), with which 60 recorded jobs on shared heterogeneous hosts
agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from qops_batsim.timing import SAME_DATE

EXHAUSTED = 1e-5
"""What is left of a resource below this (flop/s, bytes/s) is nothing, as in SimGrid."""


class Resource:
    """A host or a link, with its capacity (flop/s or bytes/s).

    Users share it, but on a FATPIPE link (``shared`` is False) each has all of it.
    """

    __slots__ = ("capacity", "shared")

    def __init__(self, capacity: float, *, shared: bool = True) -> None:
        self.capacity = capacity
        self.shared = shared


class Computation:
    """A running computation.

    It uses an amount (flop, bytes) of each resource, progresses at a ``rate`` (share of the whole
    per second) of at most ``bound``, but not in the ``latency`` at its beginning (seconds);
    ``remaining`` is the share that is left, from 1 to 0.
    """

    __slots__ = ("bound", "latency", "rate", "remaining", "since", "uses")

    def __init__(
        self, uses: dict[Resource, float], *, bound: float = math.inf, latency: float = 0.0
    ) -> None:
        self.uses = [(resource, amount) for resource, amount in uses.items() if amount > 0]
        self.bound = bound
        self.latency = latency
        self.remaining = 1.0 if self.uses else 0.0
        self.rate = 0.0
        self.since = 0.0

    def advance(self, now: float) -> None:
        """Progress to a date (seconds)."""
        if self.rate:
            self.remaining = max(0.0, self.remaining - self.rate * (now - self.since))
        self.since = now

    def left(self) -> float:
        """Return how long it still takes at its present rate (seconds)."""
        if not self.remaining:
            return 0.0
        return self.remaining / self.rate if self.rate else math.inf

    def is_done(self, now: float) -> bool:
        """Whether nothing is left to do, within the precision of dates."""
        self.advance(now)
        return self.remaining <= self.rate * SAME_DATE


class FluidModel:
    """The computations that run, and their rates.

    A change only concerns the computations that share a resource with the one
    that changed, those that share one with them, and so on.
    """

    def __init__(self) -> None:
        self._users: dict[Resource, dict[Computation, None]] = {}
        self._changed: dict[Computation, None] = {}

    @property
    def changed(self) -> bool:
        """Whether something has changed since the last call of :meth:`settle`."""
        return bool(self._changed)

    def start(self, computation: Computation, now: float) -> None:
        """Let a computation run from now on."""
        computation.since = now
        for resource, _ in computation.uses:
            self._users.setdefault(resource, {})[computation] = None
        self._changed[computation] = None

    def stop(self, computation: Computation) -> None:
        for resource, _ in computation.uses:
            users = self._users[resource]
            del users[computation]
            if resource.shared:
                self._changed.update(users)
        self._changed.pop(computation, None)

    def wake(self, computation: Computation) -> None:
        """Note that a computation's latency is over."""
        computation.latency = 0.0
        self._changed[computation] = None

    def settle(self, now: float) -> list[tuple[Computation, float]]:
        """Return the computations whose end has changed, with the time until then (seconds).

        Call it after all changes of a date. O(rounds × uses) of those concerned.
        """
        if not self._changed:
            return []
        concerned = self._concerned()
        self._changed = {}
        active = [each for each in concerned if not each.latency]
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
                if resource.shared and resource not in seen:
                    seen.add(resource)
                    fresh = [each for each in self._users[resource] if each not in found]
                    found.update(dict.fromkeys(fresh))
                    todo += fresh
        return list(found)


def fair_rates(computations: Iterable[Computation]) -> list[float]:
    """Return the rate of each computation (share of the whole per second).

    See the module's text for the rule. O(rounds × uses).
    """
    listed = list(computations)
    rates = [0.0] * len(listed)
    growth = [0.0] * len(listed)
    growing = {index for index, each in enumerate(listed) if each.uses and each.remaining}
    users: dict[Resource, list[tuple[int, float]]] = {}
    for index in sorted(growing):
        for resource, amount in listed[index].uses:
            users.setdefault(resource, []).append((index, amount))
    left = {resource: resource.capacity for resource in users}
    while growing:
        offers = {}
        for resource, rest in left.items():
            count = sum(index in growing for index, _ in users[resource])
            if count:
                offers[resource] = rest / (count if resource.shared else 1)
        for index in sorted(growing):
            computation = listed[index]
            offered = min(offers[resource] / amount for resource, amount in computation.uses)
            growth[index] = min(offered, computation.bound - rates[index])
            rates[index] += growth[index]
            if rates[index] >= computation.bound:
                growing.discard(index)
        # Resources on which nothing grows any more are out; so are those that are used up.
        left = {resource: left[resource] for resource in offers}
        for resource, offer in offers.items():
            taken = [amount * growth[index] for index, amount in users[resource]]
            left[resource] -= math.fsum(taken) if resource.shared else min(offer, *taken)
            # Relative as well: rounding leaves more than that of very large capacities.
            if left[resource] < max(EXHAUSTED, 1e-12 * resource.capacity):
                del left[resource]
                growing.difference_update(index for index, _ in users[resource])
    return rates
