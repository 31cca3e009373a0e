"""Any run with maintenance known ahead and fixed starts ends well, and keeps what was promised."""

from __future__ import annotations

import csv
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_failures import random_case as failures
from qops_batsim.engine.options import ExternalEvent, events_in_order, maintenance_events
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.platform.generate import make_cluster
from qops_batsim.platform.hostset import HostSet
from qops_batsim.running.installation import find_batsim
from qops_batsim.running.run import run
from qops_batsim.workload.model import Workload, delay_profile

KILLS = {"kill_and_restart": True, "tolerance_factor": 4.0, "slack_factor": 2.0}
SCHEDULERS: list[tuple[str, dict[str, Any]]] = [
    ("fcfs", {}),
    ("easy", {}),
    ("easy", {"order": "lxf", "backfill_order": "sjf"}),
    ("easy", {"run_times": "predicted", "backfill_order": "sjf"}),
    ("nqs", {}),
    ("priced-queues", {"history": 2}),
    ("slurm", {"bf_interval": 5.0, "bf_resolution": 3.0}),
    ("conservative", {}),
    ("conservative", {"reserve": "processors"}),
    ("slack", {}),
    ("slack", {"slack_factor": 3.0, "removal": "cheapest"}),
    ("qops", {}),
    ("msb", {}),
    ("mrt", {}),
    ("fqops", KILLS),
    ("foresight", {"kill_and_restart": True, "restart_price": 4.0}),
    ("aroma", {}),
]
every_scheduler = pytest.mark.parametrize(
    ("scheduler", "options"),
    SCHEDULERS,
    ids=["-".join([name, *map(str, options.values())]) for name, options in SCHEDULERS],
)


def random_case(seed: int) -> tuple[int, Workload, tuple[ExternalEvent, ...]]:
    """Return a number of hosts, jobs, a third with fixed starts, and maintenance known ahead."""
    rng = random.Random(seed)
    hosts, jobs, profiles = rng.randint(2, 8), [], {}
    for index in range(rng.randint(4, 14)):
        submission, estimate = rng.randint(0, 60), rng.randint(1, 40)
        name, profile = delay_profile(max(1, estimate - rng.choice([0, 0, rng.randint(0, 40)])))
        profiles[name] = profile
        deadline = submission + rng.randint(estimate, 6 * estimate) if rng.random() < 0.6 else None
        start = None
        if rng.random() < 0.33:
            start, deadline = float(submission + rng.choice([0, rng.randint(0, 60)])), None
        qos = QosRequest(estimated_runtime=float(estimate), deadline=deadline, start=start)
        jobs.append(Job(str(index), float(submission), rng.randint(1, hosts), name, qos=qos))
    jobs.sort(key=lambda job: job.submission_time)
    workload = Workload(jobs=jobs, profiles=profiles, processors=hosts)
    events, date = [], 0
    for _ in range(rng.randint(1, 3)):
        start = date + rng.randint(0, 40)
        end, notice = start + rng.randint(1, 30), max(0, start - rng.randint(0, 60))
        chosen = (
            range(hosts) if rng.random() < 0.4 else rng.sample(range(hosts), rng.randint(1, hosts))
        )
        every = float(rng.randint(end - start, 50)) if rng.random() < 0.3 else None
        until = start + 50.0
        events += maintenance_events(
            float(notice), HostSet.of(chosen), float(start), float(end), every=every, until=until
        )
        date = int(max(each.timestamp for each in events)) + 1
    return hosts, workload, events_in_order(events)


def rows(path: str) -> list[dict[str, str]]:
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


@every_scheduler
@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_a_run_with_reservations_ends_well(
    tmp_path_factory: pytest.TempPathFactory, scheduler: str, options: dict[str, Any], seed: int
) -> None:
    hosts, workload, events = random_case(seed)
    out = str(tmp_path_factory.mktemp("kept") / "run")
    # The verifier holds each start against what was promised, and against announced maintenance.
    done = run(scheduler, workload, make_cluster(hosts), options, out=out, events=events)
    assert done.violations == []
    starts = {row["job_id"]: row["starting_time"] for row in rows(f"{out}_jobs.csv")}
    asked = {f"w0!{job.id}": job.qos.start for job in workload.jobs if job.qos}
    for row in rows(f"{out}_qos.csv"):
        start = asked.get(row["job_id"])
        if start is None:
            continue
        began = starts[row["job_id"].removeprefix("w0!")]
        if row["decision"] == "rejected":
            assert row["reason_kind"] in ("start_taken", "no_fixed_starts", "too_wide")
        elif row.get("new_promises", "0") == "0":
            assert float(began) == start


@pytest.mark.parametrize("scheduler", ["conservative", "qops", "fqops"])
def test_hosts_that_fail_leave_promises_to_be_renewed(scheduler: str, tmp_path: Path) -> None:
    renewed = 0
    for seed in range(15):
        hosts, workload, _ = random_case(seed)
        events = failures(seed)[2]
        hosts = max(hosts, 1 + max(host for each in events for host in each.hosts))
        done = run(scheduler, workload, make_cluster(hosts), out=tmp_path / "run", events=events)
        assert done.violations == [], seed
        assert done.result.decisions is not None
        renewed += int(done.result.decisions.new_promises.sum())
    assert renewed


@pytest.mark.parametrize(
    ("scheduler", "options"), [each for each in SCHEDULERS if each[0] not in ("nqs", "aroma")]
)
def test_live_batsim_agrees(scheduler: str, options: dict[str, Any], tmp_path: Path) -> None:
    if shutil.which("batsim") is None or "qops" in find_batsim().version:
        pytest.skip("no real batsim on PATH")
    for seed in (1, 2):
        hosts, workload, events = random_case(seed)
        files = []
        for engine in ("embedded", "batsim"):
            out = str(tmp_path / engine)
            done = run(
                scheduler, workload, make_cluster(hosts), options,
                out=out, events=events, engine=engine,
            )  # fmt: skip
            assert done.violations == []
            files.append(Path(f"{out}_jobs.csv").read_text())
        assert files[0] == files[1], seed
