"""Any run in which users cancel jobs ends well, in the real Batsim as in ours."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import run
from qops_batsim.core import HostSet
from qops_batsim.engine import ExternalEvent, events_in_order
from qops_batsim.platform import make_cluster
from qops_batsim.running import PlanAsker, read_history
from qops_batsim.workload import Workload
from support.host_failures import Events, random_case

Many = Callable[[int], range]

KILLS = {"kill_and_restart": True, "tolerance_factor": 4.0, "slack_factor": 2.0}
SCHEDULERS: list[tuple[str, dict[str, Any]]] = [
    ("fcfs", {}),
    ("easy", {}),
    ("easy", {"order": "unicef"}),
    ("nqs", {}),
    ("priced-queues", {"history": 2}),
    ("slurm", {"bf_interval": 4.0, "bf_resolution": 1.0, "deadlines": False}),
    ("conservative", {}),
    ("conservative", {"reserve": "processors"}),
    ("slack", {"average_wait": 40.0}),
    ("qops", {}),
    ("msb", {}),
    ("mrt", {}),
    ("fqops", KILLS),
    ("fqops", {"kill_and_restart": True, "restart_price": 4.0}),
]
every_scheduler = pytest.mark.parametrize(
    ("scheduler", "options"),
    SCHEDULERS,
    ids=["-".join([name, *map(str, options.values())]) for name, options in SCHEDULERS],
)


def case_with_cancellations(seed: int) -> tuple[int, Workload, Events]:
    """Return a random case in which half of the jobs are cancelled, and hosts go away or not."""
    hosts, workload, events = random_case(seed)
    rng = random.Random(f"cancel {seed}")
    found = list(events) if rng.random() < 0.5 else []
    for job in workload.jobs:
        if rng.random() < 0.5:
            date = max(0.0, job.submission_time + rng.choice([-2, 0, *range(1, 40)]))
            fields = {"timestamp": date, "type": "job_cancelled", "job_id": f"w0!{job.id}"}
            found.append(ExternalEvent(date, "job_cancelled", HostSet(), fields))
    return hosts, workload, events_in_order(found)


@every_scheduler
def test_a_run_with_cancellations_ends_well(
    scheduler: str, options: dict[str, Any], tmp_path: Path, many: Many
) -> None:
    cancelled = 0
    seeds = many(25)
    for seed in seeds:
        hosts, workload, events = case_with_cancellations(seed)
        done = run(
            scheduler, workload, make_cluster(hosts), options, out=tmp_path / "run", events=events
        )
        assert done.violations == [], seed
        cancelled += len(done.result.cancelled)
    assert cancelled > len(seeds) / 2


@pytest.mark.parametrize("scheduler", ["qops", "msb", "mrt", "fqops"])
def test_the_decision_log_knows_who_was_cancelled(
    scheduler: str, tmp_path: Path, many: Many
) -> None:
    """The plan, put together anew from the log, answers each job as it did in the run."""
    for seed in many(15):
        hosts, workload, events = case_with_cancellations(seed)
        options = KILLS if scheduler == "fqops" else {}
        done = run(
            scheduler, workload, make_cluster(hosts), options, out=tmp_path / "run", events=events
        )
        history = read_history(done)
        for name, asked in history.jobs.items():
            answer = PlanAsker(history, history.state_before(name), asked.date).ask(asked)
            story = history.state_after_admission(name).names[name]
            assert answer.admitted == story.admitted, (seed, name)
            assert not answer.admitted or answer.start == story.planned, (seed, name)


@every_scheduler
@pytest.mark.usefixtures("batsim")
def test_live_batsim_agrees(scheduler: str, options: dict[str, Any], tmp_path: Path) -> None:
    for seed in range(3):
        hosts, workload, events = case_with_cancellations(1000 + seed)
        # The last of them on a platform whose links have a latency.
        network = {"latency": 1e-3, "bandwidth": 1e9} if seed == 2 else {}
        files = []
        for engine in ("embedded", "batsim"):
            out = str(tmp_path / engine)
            done = run(
                scheduler, workload, make_cluster(hosts, **network), options,
                out=out, events=events, engine=engine,
            )  # fmt: skip
            assert done.violations == []
            files.append(Path(f"{out}_jobs.csv").read_text())
        assert files[0] == files[1], seed
