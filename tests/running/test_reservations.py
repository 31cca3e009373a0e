"""Any run with maintenance known ahead and fixed starts ends well, and keeps what was promised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qops_batsim import run
from qops_batsim.core import HostSet
from qops_batsim.core.capacity import MaintenanceWindow
from qops_batsim.engine import UNAVAILABLE
from qops_batsim.engine.engine_options import outages_of
from qops_batsim.platform import make_cluster
from qops_batsim.protocol.events import JOB_CANCELLED, MAINTENANCE
from support.host_failures import SCHEDULERS, names, random_case, reservation_case, verified_run

every_scheduler = pytest.mark.parametrize(
    ("scheduler", "options"), SCHEDULERS, ids=names(SCHEDULERS)
)
TOLERANCE = 1e-4
"""Dates in the files differ by less from those of plans (seconds)."""


def check(scheduler: str, options: dict[str, Any], seed: int, out: Path) -> None:
    """Run a case, and hold its files against hosts, windows and fixed starts, one by one."""
    hosts, workload, events = reservation_case(seed)
    if scheduler == "aroma":  # which knows no cancellations
        events = tuple(each for each in events if each.type != JOB_CANCELLED)
    _, jobs, qos = verified_run(scheduler, options, (hosts, workload, events), out)
    windows = [
        (each.timestamp, MaintenanceWindow(each.hosts, each.fields["start"], each.fields["end"]))
        for each in events
        if each.type == MAINTENANCE
    ]
    asked = {job.id: job for job in workload.jobs}
    is_outlived = False
    for name, row in jobs.items():
        if not row["allocated_resources"]:
            continue
        job, used = asked[name.partition("#")[0]], HostSet.parse(row["allocated_resources"])
        start, end = float(row["starting_time"]), float(row["finish_time"])
        is_outlived |= end - start > job.estimate + TOLERANCE
        for outage in outages_of(events, hosts):
            away = outage.since + TOLERANCE < start < outage.until - TOLERANCE
            assert not (away and used & HostSet.parse(outage.hosts)), (seed, name, outage)
        for notice, window in windows:
            known = notice + TOLERANCE < start < window.until - TOLERANCE
            reaches = start + job.estimate > window.since + TOLERANCE
            assert not (known and reaches and used & window.hosts), (seed, name, window)
    has_losses = len(windows) or any(each.type == UNAVAILABLE for each in events)
    for name, row in qos.items():
        start = asked[name].qos.start if name in asked else None
        if start is None:
            continue
        renewed = int(row.get("new_promises") or 0)
        assert not renewed or has_losses
        if row["decision"] == "rejected":
            kinds = ("start_taken", "no_fixed_starts", "no_time", "cancelled")
            assert row["reason_kind"].partition(";")[0] in kinds, (seed, name, row)
        elif not renewed and not is_outlived:
            assert abs(float(jobs[name]["starting_time"]) - start) < TOLERANCE, (seed, name)


@every_scheduler
@settings(max_examples=settings.default.max_examples // 8)
@given(seed=st.integers(0, 10**6))
def test_a_run_with_reservations_keeps_them(
    tmp_path_factory: pytest.TempPathFactory, scheduler: str, options: dict[str, Any], seed: int
) -> None:
    check(scheduler, options, seed, tmp_path_factory.mktemp("kept") / "run")


@pytest.mark.sweep
@every_scheduler
def test_many_runs_with_reservations_keep_them(
    tmp_path: Path, scheduler: str, options: dict[str, Any]
) -> None:
    for seed in range(100):
        check(scheduler, options, seed, tmp_path / "run")


@pytest.mark.parametrize("scheduler", ["conservative", "qops", "fqops"])
def test_hosts_that_fail_leave_promises_to_be_renewed(scheduler: str, tmp_path: Path) -> None:
    renewed = 0
    for seed in range(15):
        hosts, workload, _ = reservation_case(seed)
        events = random_case(seed)[2]
        hosts = max(hosts, 1 + max(host for each in events for host in each.hosts))
        done = run(scheduler, workload, make_cluster(hosts), out=tmp_path / "run", events=events)
        assert done.violations == [], seed
        assert done.result.decisions is not None
        renewed += int(done.result.decisions.numbers("new_promises").sum())
    assert renewed


@pytest.mark.parametrize(
    ("scheduler", "options"), [each for each in SCHEDULERS if each[0] not in ("nqs", "aroma")]
)
@pytest.mark.usefixtures("batsim")
def test_live_batsim_agrees(scheduler: str, options: dict[str, Any], tmp_path: Path) -> None:
    for seed in (1, 2):
        hosts, workload, events = reservation_case(seed)
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
