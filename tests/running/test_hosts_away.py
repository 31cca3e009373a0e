"""Any run in which hosts go away ends well, and no promise is broken without a new one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qops_batsim import run
from qops_batsim.core import HostSet
from qops_batsim.jobs import REJECTED
from qops_batsim.platform import make_cluster
from qops_batsim.running import PlanAsker, read_history
from support.host_failures import KILLS, SCHEDULERS, names, random_case, verified_run

MORE = [
    *SCHEDULERS,
    ("easy", {"order": "saf"}),
    ("nqs", {"blocked": "machine"}),
    ("fqops", {"tolerance_factor": 4.0, "slack_factor": 2.0}),
]
every_scheduler = pytest.mark.parametrize(("scheduler", "options"), MORE, ids=names(MORE))


@every_scheduler
@settings(max_examples=settings.default.max_examples // 4)
@given(seed=st.integers(0, 10**6))
def test_a_run_in_which_hosts_go_away_ends_well(
    tmp_path_factory: pytest.TempPathFactory, scheduler: str, options: dict[str, Any], seed: int
) -> None:
    hosts, workload, _ = case = random_case(seed)
    out = tmp_path_factory.mktemp("away") / "run"
    done, jobs, qos = verified_run(scheduler, options, case, out)
    left = hosts - sum(
        len(HostSet.parse(each.hosts)) for each in done.result.outages if not each.to
    )
    asked = {job.id: job for job in workload.jobs}
    assert set(asked) <= set(jobs)
    for name, row in qos.items():
        if "#" in name:
            continue
        job = asked[name]
        if jobs[name]["final_state"] == REJECTED:
            assert row["reason"], "a job is refused in words"
            if "will not return" in row["reason"]:
                assert job.processors > left
        renewed = int(row.get("new_promises") or 0)
        assert not renewed or row["decision"] == "rejected" or "machine lost" in row["reason"]
        deadline = None if job.qos is None else job.qos.deadline
        if row["admitted_deadline"] and not renewed and not row["offered_deadline"]:
            assert float(row["admitted_deadline"]) == deadline


@pytest.mark.parametrize("scheduler", ["qops", "msb", "mrt", "fqops"])
def test_the_decision_log_knows_the_hosts_that_are_there(scheduler: str, tmp_path: Path) -> None:
    """The plan, put together anew from the log, answers each job as it did in the run."""
    renewed = 0
    for seed in (*range(6), 74, 118, 127, 148):
        options = KILLS if scheduler == "fqops" else {}
        done, _, qos = verified_run(scheduler, options, random_case(seed), tmp_path / "run")
        history = read_history(done)
        for name, asked in history.jobs.items():
            answer = PlanAsker(history, history.state_before(name), asked.date).ask(asked)
            story = history.state_after_admission(name).names[name]
            assert answer.admitted == story.admitted, (seed, name)
            assert not answer.admitted or answer.start == story.planned, (seed, name)
        renewed += sum(int(row.get("new_promises") or 0) for row in qos.values())
    assert renewed > 0


@every_scheduler
@pytest.mark.usefixtures("batsim")
def test_live_batsim_agrees(scheduler: str, options: dict[str, Any], tmp_path: Path) -> None:
    for seed in range(3):
        hosts, workload, events = random_case(1000 + seed)
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
