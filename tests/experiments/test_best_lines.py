"""Lines of the best that is known: searched for a time that does not depend on the machine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from qops_batsim.experiments import BoundSearch, Scenario, best_lines, bound_case
from qops_batsim.experiments.best_lines import BEST_KNOWN, BOUND
from qops_batsim.optimum import Limits


def test_a_workload_is_searched_in_deterministic_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def best_possible(
        workload: str, objectives: list[str], limits: Limits, *, platform: str
    ) -> list[Any]:
        asked.append((workload, objectives, limits, platform))
        return [
            SimpleNamespace(total=10, best_known=7, bound=9),
            SimpleNamespace(total=400, best_known=100, bound=300),
        ]

    monkeypatch.setattr(best_lines, "best_possible", best_possible)
    runs: Any = SimpleNamespace(workload=lambda scenario: scenario.log, shared_platform="nodes")
    found = BoundSearch(runs)(bound_case(Scenario(log="kth"), 3.0))
    assert asked == [("kth", ["jobs", "work"], Limits(seconds=3.0, by_clock=False), "nodes")]
    lines = {name: (each.unadmitted_jobs, each.unadmitted_work) for name, each in found.items()}
    assert lines[BEST_KNOWN] == pytest.approx((30.0, 75.0))
    assert lines[BOUND] == pytest.approx((10.0, 25.0))
