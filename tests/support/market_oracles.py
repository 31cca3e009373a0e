"""A naive reference for what foresight learns and refuses, written from ``docs/foresight.md``.

Every arrival is kept, with what is left of its weight; prices are made from all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from support import admission_oracles
from support.admission_oracles import Asking, Case

HOUR = 3600.0
LONGEST = (60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0, math.inf)
WIDEST = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Options:
    worth: str = "work"
    weight: float = 0.5
    admission_price: float = 1.0
    placement_price: float = 2.0
    blocking: float = 0.2
    urgent: float = 600.0
    memory: float = 604800.0


@dataclass
class Arrival:
    processors: int
    seconds: float
    measure: float
    cannot_wait: bool
    worth: float
    weight: float = 1.0

    @property
    def classes(self) -> tuple[int, int]:
        length = next(index for index, longest in enumerate(LONGEST) if self.seconds <= longest)
        return length, sum(self.processors > widest for widest in WIDEST)


@dataclass
class Market:
    """What was learned from the arrivals up to the last full hour; all times are in seconds."""

    machine: int
    options: Options
    arrivals: list[Arrival] = field(default_factory=list)
    hour: int | None = None
    span: float = 0.0
    prices: dict[int, list[float]] = field(default_factory=dict)

    @property
    def most(self) -> int:
        """Up to a quarter of the machine has a price."""
        return -(-self.machine // 4)

    def measure(self, processors: int, seconds: float, left: float) -> float:
        if self.options.worth == "charge":
            return seconds / max(left, seconds)
        return processors * seconds

    def worth(self, measure: float) -> float:
        """The worth of a job, in jobs of the mean worth of the arrivals."""
        total = sum(each.weight * each.measure for each in self.arrivals)
        if total <= 0:
            return 1.0
        mean = total / sum(each.weight for each in self.arrivals)
        return 1 - self.options.weight + self.options.weight * measure / mean

    def learn(self, now: float, processors: int, seconds: float, left: float) -> None:
        hour = int(now // HOUR)
        if self.hour is not None and hour > self.hour:
            keep = max(0.0, 1 - HOUR / self.options.memory)
            for _ in range(hour - self.hour):
                self.span = (self.span + HOUR) * keep
                for each in self.arrivals:
                    each.weight *= keep
            self.prices = {c: self.losses(c) for c in range(len(LONGEST))}
        self.hour = hour
        measure = self.measure(processors, seconds, left)
        new = Arrival(processors, seconds, measure, left - seconds <= self.options.urgent, 0.0)
        self.arrivals.append(new)
        new.worth = self.worth(measure)

    def losses(self, length: int) -> list[float]:
        """L_c(n): the worth lost in a second by shorter jobs that cannot wait, for each n."""
        streams: list[tuple[int, float, float]] = []
        groups: dict[tuple[int, int], list[Arrival]] = {}
        for each in self.arrivals:
            if each.cannot_wait and each.weight > 0:
                groups.setdefault(each.classes, []).append(each)
        for (shorter, _), members in groups.items():
            count = sum(each.weight for each in members)
            width = int(sum(each.weight * each.processors for each in members) / count + 0.5)
            if shorter < length and width <= self.most and self.span > 0:
                seconds = sum(each.weight * each.seconds for each in members)
                worth = sum(each.weight * each.worth for each in members)
                streams.append((width, width * seconds / self.span, worth / self.span))
        found = []
        for free in range(self.most + 1):
            q = [1.0]
            for busy in range(1, free + 1):
                q.append(sum(a * q[busy - b] for b, a, _ in streams if b <= busy) / busy)
            # A job of width b is lost where fewer than b of the free processors are left.
            lost = sum(rate * sum(q[max(0, free - b + 1) :]) for b, _, rate in streams)
            found.append(lost / sum(q))
        return found

    def price(self, seconds: float, free: int) -> float:
        """L_c(n) for the class of a length."""
        length = next(index for index, longest in enumerate(LONGEST) if seconds <= longest)
        return self.prices[length][max(0, min(free, self.most))] if self.prices else 0.0

    def headroom(self, processors: int, seconds: float, left: float) -> int:
        """How many processors should stay free beside a job."""
        worth = self.worth(self.measure(processors, seconds, left))
        for free in range(self.most):
            price, exposed = self.price(seconds, free), min(seconds, 4 * HOUR)
            if self.options.placement_price * price * exposed <= worth:
                return free
            if price <= self.options.blocking * self.price(seconds, 0):
                return free
        return self.most


class Foresight:
    """The search: QoPS with headroom, then a judgement; a tick of the case is ``unit`` seconds."""

    def __init__(self, machine: int, options: Options, unit: float, **qops: object) -> None:
        self.market = Market(machine, options)
        self.unit, self.qops = unit, qops
        self.too_dear = 0
        self.with_room = 0

    def __call__(self, case: Case) -> dict[int, float] | None:
        market, unit, new = self.market, self.unit, case.new
        length, left = new.estimate * unit, (new.deadline - case.now) * unit
        market.learn(case.now * unit, new.processors, length, left)

        def fit(seconds: admission_oracles.Seconds, job: Asking) -> float:
            length, left = job.estimate * unit, (job.deadline - case.now) * unit
            room = market.headroom(job.processors, length, left)
            self.with_room += room > 0
            return admission_oracles.fit_beside(case.now, room, 60 / unit, seconds, job)

        starts = admission_oracles.qops(case, fit=fit, **self.qops).starts  # type: ignore[arg-type]
        if starts is None or left == math.inf:
            return starts
        used = admission_oracles.seconds_with(case, starts).used
        cost = 0.0
        for tick in range(int(starts[new.slot]), int(starts[new.slot] + new.estimate)):
            free = case.machine - used[tick]
            gained = market.price(length, free + new.processors)
            cost += unit * (market.price(length, free) - gained)
        worth = market.worth(market.measure(new.processors, length, left))
        if market.options.admission_price * cost > worth:
            self.too_dear += 1
            return None
        return starts
