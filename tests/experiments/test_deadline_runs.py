"""Schedules of studies are checked where the messages of a platform take their time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qops_batsim import Job, QosRequest
from qops_batsim.errors import SimulationError
from qops_batsim.experiments import checked_outcomes, deadline_runs
from qops_batsim.measures import JobOutcomes
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.workload import Workload


def chain(jobs: int) -> Workload:
    """Return jobs of 5 s on one host, each with a deadline at the end of those before it."""
    made = [
        Job(f"{n:03}", 0.0, 1, "p", qos=QosRequest(deadline=5.0 * (n + 1), estimated_runtime=5.0))
        for n in range(jobs)
    ]
    return Workload(jobs=made, profiles={"p": {"type": "delay", "delay": 5}}, processors=1)


# Each start is late by what its message takes, which the next one has to wait for.
def test_what_messages_add_up_to_breaks_no_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    workload, machine = chain(120), make_cluster(1, latency=6e-3, bandwidth=1e9)
    outcomes, _ = checked_outcomes(workload, machine, make_scheduler("qops"), "a chain")
    late = outcomes.finish - outcomes.promised
    assert late.max() > 1.5  # The grace is a second.
    assert outcomes.drift.max() > late.max() - 1.0  # type: ignore[union-attr]

    def earlier(*given: object, **further: object) -> tuple[JobOutcomes, object]:
        found, simulation = real(*given, **further)  # type: ignore[arg-type]
        return replace(found, promised=found.promised - 5.0), simulation

    real = deadline_runs.outcomes_of
    monkeypatch.setattr(deadline_runs, "outcomes_of", earlier)
    with pytest.raises(SimulationError, match="ends after its promised deadline"):
        checked_outcomes(workload, machine, make_scheduler("qops"), "a chain")
