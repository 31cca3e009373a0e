"""A decision module whose scheduler is replaced wherever it has a snapshot."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from qops_batsim.core import System
from qops_batsim.protocol import Decision, SchedulerModule
from qops_batsim.schedulers.planning import PlanScheduler
from qops_batsim.schedulers.standing import Standing
from support.plan_checks import check_plan


class ReplacedModule(SchedulerModule):
    """Have a fresh scheduler go on from the standing of the one before, wherever that has one.

    ``replaced`` counts how often.
    """

    def __init__(self, make: Callable[[], PlanScheduler]) -> None:
        super().__init__(make())
        self.make, self.replaced = make, 0

    def begin(self, system: System) -> None:
        super().begin(system)
        self.given = system

    def decide(self, now: float) -> list[Decision]:
        decisions = super().decide(now)
        standing = self.standing()
        if standing is not None:
            text = msgspec.json.encode(standing)
            self.scheduler = fresh = self.make()
            super().begin(self.given)
            self.manager.now = now
            self.go_on(msgspec.json.decode(text, type=Standing))
            check_plan(fresh.plan)
            assert fresh.standing() == standing
            self.replaced += 1
        return decisions
