"""Foresight: deadline admission by opportunity cost (of this project)."""

from __future__ import annotations

import math
from array import array
from typing import Annotated, Literal

from msgspec import Meta

from qops_batsim.core.job import Job
from qops_batsim.core.options import SchedulerOptions, seconds
from qops_batsim.core.profile import Profile
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.schedulers.qops import Qops, QopsOptions
from qops_batsim.schedulers.queue import width_of
from qops_batsim.schedulers.restarting import (
    KillAfter,
    KillAndRestart,
    MaxKills,
    RestartingQops,
    RestartPrice,
)
from qops_batsim.scheduling.refusal import Refusal, RefusalKind

LENGTHS = (60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0, math.inf)
"""The longest job of each class of length (seconds)."""

WIDTHS = 9
"""Classes of width: 1, 2, up to 4, 8, 16, ... processors."""

HOUR = 3600.0
"""Prices are made anew so often (seconds)."""

MOST_PRICES = 256
"""Beyond so many free processors, one more has no price."""

LARGE = 1e200
"""Weights of states are made smaller before they are beyond all numbers."""

EXPOSED = 14400.0
"""For so long (seconds) a job that is placed takes room from others, until plans have adapted."""

LONGEST_GAP = 10_000
"""After so many hours without arrivals nothing is left of what was learned."""

BLOCKED = (RefusalKind.OWN_DEADLINE, RefusalKind.OTHER_DEADLINE)
"""Why a job is refused for which there is no plan."""

_INFINITY, _HOUR, _LARGE, _EXPOSED, _LONGEST_GAP = math.inf, HOUR, LARGE, EXPOSED, LONGEST_GAP
_WIDTHS, _CLASSES = WIDTHS, len(LENGTHS)


class ForesightOptions(QopsOptions, frozen=True, kw_only=True):
    """Options of :class:`Foresight`: those of QoPS and the following."""

    worth: Annotated[
        Literal["work", "charge"],
        Meta(
            description="what a job is worth beside counting as one: its work, or its urgency, "
            "run time over time left, to which the QoS charge is proportional"
        ),
    ] = "work"
    weight: Annotated[
        float,
        Meta(ge=0, le=1, description="weight of that, against counting as one; both in the mean 1"),
    ] = 0.5
    admission_price: Annotated[
        float,
        Meta(
            ge=0,
            le=1e6,
            description="a job is refused if it is worth less than so many times what it is "
            "expected to turn away; 0 refuses none",
        ),
    ] = 1.0
    placement_price: Annotated[
        float,
        Meta(
            ge=0,
            le=1e6,
            description="jobs that can wait leave so much free that they are worth no less than so "
            "many times what they are expected to turn away in their first 4 h",
        ),
    ] = 2.0
    blocking: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="but no more than keeps the expected losses below this share of the worth "
            "of the shorter jobs that cannot wait",
        ),
    ] = 0.2
    urgent: Annotated[
        float,
        seconds(
            "most laxity at submission of a job that counts as one which cannot wait",
            ge=0,
            le=MAX_SECONDS,
        ),
    ] = 600.0
    memory: Annotated[
        float,
        seconds("mean age of the arrivals that count", ge=3600, le=MAX_SECONDS),
    ] = 604800.0
    kill_and_restart: KillAndRestart = False
    max_kills_per_job: MaxKills = None
    kill_after: KillAfter = 1.0
    restart_price: RestartPrice = 0.5


class Urgent:
    """Jobs of a class of length and width that could not wait; all sums fade.

    Attributes
    ----------
    count, processors, seconds, worth
        Their number and the sums of their processors, run times (seconds) and worth.
    """

    def __init__(self) -> None:
        self.count = self.processors = self.seconds = self.worth = 0.0

    def fade(self, kept: float) -> None:
        """Let the past count less."""
        self.count *= kept
        self.processors *= kept
        self.seconds *= kept
        self.worth *= kept


class Market:
    """Opportunity cost of processors, learned from the jobs that have arrived.

    Jobs that cannot wait are lost where too few processors are free when they come. Of those that
    have arrived, by length and width, a multi-rate loss system (Kaufman 1981, Roberts 1981) tells
    how much would be lost in the long run with so many processors free. Jobs have value for others
    only if they are shorter: a processor that a long job takes is lost to many short ones, and not
    the other way round.

    Attributes
    ----------
    last_hour, span
        The last hour, and the time seen (seconds).
    jobs, measure, work
        The number of all arrivals, and the sums of their work (processor-seconds) or urgency, and
        of their work. They fade, as does ``span``.
    most
        Of so many free processors each has a price: a quarter of the machine.
    losses
        Worth of the shorter jobs that are lost in a second, by class of length and number of free
        processors.
    """

    def __init__(self, options: ForesightOptions, machine_size: int) -> None:
        self.blocking, self.weight, self.urgent = options.blocking, options.weight, options.urgent
        self.by_charge = options.worth == "charge"
        self.placement_price = options.placement_price
        self.keep = max(0.0, 1.0 - HOUR / options.memory)
        self.last_hour, self.span = -1.0, 0.0
        self.jobs = self.measure = self.work = 0.0
        self.classes = [Urgent() for _ in range(len(LENGTHS) * WIDTHS)]
        self.most = min(-(-machine_size // 4), MOST_PRICES)
        room = bytes(8 * (self.most + 1))
        self.losses = array("d", room * len(LENGTHS))
        self.states, self.sums = array("d", room), array("d", room)
        self.loads, self.rates = array("d", room), array("d", room)
        self.lengths = array("d", LENGTHS)

    # Worth

    def measure_of(self, processors: int, duration: float, left: float) -> float:
        """Return the work of a job, or its urgency: the share of the time left that it runs."""
        return duration / max(left, duration) if self.by_charge else processors * duration

    def worth_of(self, measure: float) -> float:
        """Return what a job is worth, in jobs of the mean worth."""
        if self.measure <= 0.0:
            return 1.0
        return 1.0 - self.weight + self.weight * measure * self.jobs / self.measure

    # What is learned

    def learn(self, now: float, processors: int, duration: float, left: float) -> None:
        """Know of an arrival, with so many seconds left until its deadline.

        Each hour the prices are made anew: O(classes × (quarter of the machine)²).
        """
        if self.is_new_hour(now):
            self.set_prices()
        if duration == _INFINITY:
            return
        measure = self.measure_of(processors, duration, left)
        self.jobs += 1.0
        self.measure += measure
        self.work += processors * duration
        if left - duration > self.urgent:
            return
        length, width = self.class_of(duration), min(width_of(processors), _WIDTHS - 1)
        urgent = self.classes[length * _WIDTHS + width]
        urgent.count += 1.0
        urgent.processors += processors
        urgent.seconds += duration
        urgent.worth += self.worth_of(measure)

    def is_new_hour(self, now: float) -> bool:
        """Let time pass, and return whether another hour has begun."""
        hour = float(math.floor(now / _HOUR))
        hours = min(hour - self.last_hour, _LONGEST_GAP)
        if self.last_hour < 0:
            hours = 0.0
        elif hours <= 0:
            return False
        self.last_hour = hour
        self.fade(int(hours))
        return hours > 0

    def fade(self, hours: int) -> None:
        """Let the past count less, after so many hours."""
        kept, span = 1.0, self.span
        for _ in range(hours):
            kept *= self.keep
            span = (span + _HOUR) * self.keep
        self.span = span
        self.jobs *= kept
        self.measure *= kept
        self.work *= kept
        for urgent in self.classes:
            urgent.fade(kept)

    def class_of(self, duration: float) -> int:
        """Return the first class of length whose jobs may be so long."""
        index = 0
        while duration > self.lengths[index]:
            index += 1
        return index

    # Prices

    def set_prices(self) -> None:
        """Compute the losses from what was learned."""
        for free in range(self.most + 1):
            self.loads[free] = self.rates[free] = 0.0
        for length in range(_CLASSES):
            self.set_losses(length)
            self.add_loads(length)

    def add_loads(self, length: int) -> None:
        """Let the urgent jobs of a class of length count from now on."""
        for width in range(_WIDTHS):
            urgent = self.classes[length * _WIDTHS + width]
            if urgent.count > 0.0 and self.span > 0.0:
                processors = int(urgent.processors / urgent.count + 0.5)
                if processors <= self.most:
                    self.loads[processors] += processors * urgent.seconds / self.span
                    self.rates[processors] += urgent.worth / self.span

    def set_losses(self, length: int) -> None:
        """Compute what the jobs that count lose with so many processors free, by the recursion.

        A state with n busy processors has the weight q(n) = Σ load × q(n - processors) / n; a job
        is lost in the last ones.
        """
        states, sums, row = self.states, self.sums, length * (self.most + 1)
        states[0] = sums[0] = 1.0
        for free in range(self.most + 1):
            if free > 0:
                flow = 0.0
                for processors in range(1, free + 1):
                    flow += self.loads[processors] * states[free - processors]
                states[free] = flow / free
                sums[free] = sums[free - 1] + states[free]
                if sums[free] > _LARGE:
                    for state in range(free + 1):
                        states[state] /= _LARGE
                        sums[state] /= _LARGE
            lost = 0.0
            for processors in range(1, self.most + 1):
                if self.rates[processors] > 0.0:
                    served = sums[free - processors] if processors <= free else 0.0
                    lost += self.rates[processors] * (sums[free] - served) / sums[free]
            self.losses[row + free] = lost

    # Answers

    def displaced(self, profile: Profile, start: float, duration: float, processors: int) -> float:
        """Return the worth that a job in a profile is expected to turn away. O(steps)."""
        row = self.class_of(duration) * (self.most + 1)
        index, date, end, total = profile.step_at(start), start, start + duration, 0.0
        while date < end:
            until = min(end, profile.times[index + 1]) if index + 1 < profile.size else end
            left = max(profile.free[index], 0)
            now, without = min(left, self.most), min(left + processors, self.most)
            total += (until - date) * (self.losses[row + now] - self.losses[row + without])
            date = until
            index += 1
        return total

    def headroom_of(self, job: Job, now: float) -> int:
        """Return how many processors should stay free beside a job that can wait.

        So many that it turns away little of what comes in its first hours, compared with its
        worth, or little of all that cannot wait. O(log machine).
        """
        duration = job.duration
        if duration == _INFINITY:
            return 0
        row = self.class_of(duration) * (self.most + 1)
        worth = self.worth_of(self.measure_of(job.processors, duration, job.target - now))
        exposed = self.placement_price * min(duration, _EXPOSED)
        enough = self.blocking * self.losses[row]
        enough = max(enough, worth / exposed if exposed > 0 else _INFINITY)
        low, high = -1, self.most
        # Losses fall with what is free.
        while high - low > 1:
            middle = (low + high) // 2
            if self.losses[row + middle] > enough:
                low = middle
            else:
                high = middle
        return high


class Foresight(RestartingQops):
    """QoPS that leaves room for the jobs which are expected, and refuses those that cost more.

    1. Jobs that can wait leave as many processors free beside them as the shorter jobs which
       cannot wait are expected to need.
    2. A job that QoPS would admit is refused if it is expected to turn away more than it is worth.
    3. With ``kill_and_restart``, a job for which there is no plan may have young running jobs
       killed: those that then still end by their own deadlines when they are run again.

    What is expected is learned from the arrivals so far (:class:`Market`).

    Attributes
    ----------
    market
        What was learned.
    """

    summary = "QoPS with foresight: admission by opportunity cost, learned from past arrivals"
    Options = ForesightOptions

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        RestartingQops.__init__(self, options)
        self.admission_price, self.learns = float(self.options.admission_price), True

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty plan, knowing nothing."""
        RestartingQops.begin(self, manager)
        self.market = Market(self.options, manager.machine_size)

    def leave_headroom(self, line: list[Job], new: Job) -> None:
        """Raise the headroom of each job to the expected demand. O(line × log machine)."""
        Qops.leave_headroom(self, line, new)
        now, market = self.plan.nominal(), self.market
        for job in line:
            job.headroom = max(job.headroom, market.headroom_of(job, now))
        new.headroom = max(new.headroom, market.headroom_of(new, now))

    def admit(self, job: Job) -> object:
        """Learn from the arrival of a job, and take it into the plan if it is worth it."""
        now = self.plan.nominal()
        self.market.learn(now, job.processors, job.duration, job.target - now)
        return self.admit_found(job)

    def try_admission(self, job: Job) -> object:
        """Return None if there is a plan in which a new job costs no more than it is worth."""
        refusal, market = Qops.try_admission(self, job), self.market
        left = job.target - self.plan.nominal()
        # What has no deadline can wait for ever, and is not refused for what it costs.
        if refusal is None and job.duration < _INFINITY and left < _INFINITY:
            cost = market.displaced(self.draft, job.trial, job.duration, job.processors)
            worth = market.worth_of(market.measure_of(job.processors, job.duration, left))
            if self.admission_price * cost > worth:
                kind, price = RefusalKind.TOO_DEAR, self.admission_price
                return Refusal(kind=kind, cost=cost, worth=worth, price=price)
        return refusal

    def answer(self, job: Job) -> None:
        """Take a new job into the plan, by killing others if need be, or reject it."""
        self.count(job.processors, job.requested)
        refusal = self.attempt(job)
        if refusal is None:
            return
        is_blocked = isinstance(refusal, Refusal) and refusal.kind in BLOCKED
        if not (self.kills and is_blocked and self.kill_for(job)):
            self.refused(job, refusal)
