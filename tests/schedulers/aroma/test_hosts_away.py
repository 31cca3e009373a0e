"""AROMA when hosts go away: new promises with a reason, and no application waits for nothing."""

from __future__ import annotations

import numpy as np
import pytest

from qops_batsim import simulate
from qops_batsim.core import HostSet
from qops_batsim.engine import ExternalEvent
from qops_batsim.jobs import REJECTED
from qops_batsim.platform import Platform
from qops_batsim.protocol import SchedulerModule, make_scheduler
from qops_batsim.running import default_engine
from qops_batsim.workload import Workload
from support.aroma_oracles import SPEED, far_apart, machine, mixed_work, random_machine, spans, work

Row = tuple[float, str, str]
"""A date (s), what becomes of hosts, and which."""


def run_with(
    jobs: Workload, platform: Platform, *rows: Row, **settings: object
) -> tuple[dict[str, tuple[float, float, str] | str], SchedulerModule]:
    """Run AROMA while hosts go away and return; return the spans of the jobs, and the module."""
    module = make_scheduler("aroma", {"reference_speed": SPEED, **settings})
    assert isinstance(module, SchedulerModule)
    events = tuple(
        ExternalEvent(date, f"machine_{kind}", HostSet.parse(hosts), {})
        for date, kind, hosts in rows
    )
    done = simulate(module, jobs, platform, engine=default_engine(module), events=events)
    return spans(done), module


def deadline(by: float, **fields: object) -> dict[str, object]:
    return {"service_class": "deadline", "deadline": by, **fields}


# 0 is alone on both hosts until 10, 1 is to follow on host 1, beside 2. Host 1 leaves at 5: the
# promise of 1, 22 s, can only be renewed. Until then 2 shares host 0 with it.
#
#       0    5    10             25   30
#   0 | 0 0 0 0 0 | 1/2 1/2 1/2 ...
#   1 | 0 0 0 0 0 | × × ×
def test_a_promise_that_cannot_be_kept_is_renewed_with_a_reason() -> None:
    jobs = work(
        {"tasks": 2, "service_class": "dedicated"},
        deadline(20.0, at=1),
        deadline(22.0, at=2),
    )
    found, module = run_with(jobs, machine([1.0, 1.0]), (5.0, "unavailable", "1"))
    assert found["0"] == (0, 10, "0-1")
    first, second = (module.qos_log.record(f"w0!{name}") for name in "12")
    renewed = [record for record in (first, second) if record.new_promises]
    assert len(renewed) == 1
    assert renewed[0].reason.startswith("machine lost 1 host at 5 s; the promise of 2")
    for name, record in (("1", first), ("2", second)):
        assert found[name][1] <= (record.admitted_deadline or 0.0) + 1e-6


def test_what_is_too_wide_waits_for_hosts_or_is_rejected_when_none_will_return() -> None:
    jobs = work({"tasks": 2, "at": 3}, {"at": 4, "seconds": 2})
    gone = (2.0, "unavailable", "0")
    found, _ = run_with(jobs, machine([1.0, 1.0]), gone, (9.0, "available", "0"))
    assert found == {"0": (9, 19, "0-1"), "1": (4, 6, "1")}
    found, module = run_with(jobs, machine([1.0, 1.0]), gone)
    assert found == {"0": REJECTED, "1": (4, 6, "1")}
    reason = "asks for 2 processors; 1 of 2 hosts is gone and will not return"
    assert module.qos_log.record("w0!0").reason == reason


# 0 is stopped at 5 for 1, and was to go on where it was; but host 0 leaves and host 1 returns.
#
#       0      5      8     15         23
#   0 | 0 0 0 | 1 1 1 1 1 1 |
#   1 | × × × × × × ×| 0#1 0#1 0#1 0#1
def test_a_stopped_application_goes_on_elsewhere_when_its_hosts_have_left() -> None:
    jobs = work(
        {"seconds": 20, "service_class": "dedicated"},
        {"at": 5, "service_class": "high_priority", "tasks": 1},
    )
    gone = (8.0, "unavailable", "0"), (8.0, "available", "1")
    found, _ = run_with(jobs, machine([1.0, 1.0]), (0.0, "unavailable", "1"), *gone)
    assert found["0"] == (0, 5, "0")
    assert found["1"] == (5, 15, "0")
    assert found["0#1"] == (8, 23, "1")


def _outages(seed: int, hosts: int, last: float) -> list[Row]:
    """Return random times at which hosts are away; some never return."""
    random = np.random.default_rng(seed)
    rows: list[Row] = []
    for host in range(hosts):
        date = float(random.uniform(0, last))
        while date < last and random.random() < 0.8:
            rows.append((round(date, 3), "unavailable", str(host)))
            date += float(random.exponential(last / 6))
            if random.random() < 0.25:
                break
            rows.append((round(date, 3), "available", str(host)))
            date += float(random.exponential(last / 3))
    return sorted(rows, key=lambda row: row[0])


@pytest.mark.parametrize("milliseconds", [0.0, 5.0])
@pytest.mark.parametrize("seed", range(40))
def test_no_promise_is_late_without_a_new_one_and_nothing_waits_for_ever(
    seed: int, milliseconds: float
) -> None:
    hosts = 5
    jobs = mixed_work(seed, hosts=hosts, jobs=40, gap=(3.0, 8.0, 15.0)[seed % 3])
    platform = far_apart(random_machine(seed, hosts), seed, milliseconds)
    last = jobs.jobs[-1].submission_time + 100.0
    rows = _outages(seed, hosts, last)
    found, module = run_with(jobs, platform, *rows)  # ends: no job waits for ever
    last_heard = {host: kind for _, kind, host in rows}
    left = hosts - list(last_heard.values()).count("unavailable")
    slack = 1e-5 if milliseconds == 0 else 1.0
    for job in jobs.jobs:
        assert job.qos is not None
        record, span = module.qos_log.record(f"w0!{job.id}"), found[job.id]
        if isinstance(span, str):
            if job.qos.service_class in ("dedicated", "best_effort"):
                assert job.processors > left
                assert "will not return" in record.reason
            continue
        if record.new_promises:
            assert "machine lost" in record.reason
        else:
            assert record.admitted_deadline in (None, job.qos.deadline)
        if record.admitted_deadline is not None:
            assert span[1] <= record.admitted_deadline + slack
        if record.latest_start is not None:
            assert span[0] <= record.latest_start + slack
