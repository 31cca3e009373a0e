"""The verifier's rules about jobs that were killed and run again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from qops_batsim import read_run, verify
from qops_batsim.measures import broken_rule, original_id, outcomes_of_run, study_measures
from qops_batsim.measures.results.result_tables import first_run_id
from qops_batsim.workload import parse_workload
from support.qos_files import by_workload

KILLED = "COMPLETED_KILLED"


@pytest.fixture
def restarted(write_run) -> Callable[..., list[str]]:
    """A function that writes a run, changed as told, and names the rules that it breaks.

    One host: job 1 (10 s) runs from 0 to 2 and again from 5 to 7, is killed twice for
    2 and 3, and runs whole from 9 to 19.
    """

    def check(changes: dict[str, object], *, workload: bool = True) -> list[str]:
        ran = write_run.ran
        rows = {
            "1": ran("1", 0, 1, 0, 2, [0], profile="d10", state=KILLED),
            "2": ran("2", 2, 1, 2, 3, [0], profile="d3"),
            "1#1": ran("1#1", 0, 1, 5, 2, [0], profile="d10", state=KILLED),
            "3": ran("3", 7, 1, 7, 2, [0], profile="d2"),
            "1#2": ran("1#2", 0, 1, 9, 10, [0], profile="d10"),
        }
        for change, value in changes.items():
            name, _, attribute = change.partition(".")
            if value is None:
                del rows[name]
            else:
                setattr(rows[name], attribute, value)
        prefix = write_run(list(rows.values()), hosts=1)
        lines = ["w0!1,accepted,19", "w0!2,accepted,5", "w0!3,accepted,9"]
        Path(f"{prefix}_qos.csv").write_text(
            by_workload("\n".join(["job_id,decision,admitted_deadline", *lines]))
        )
        result = read_run(prefix)
        known = {"w0": three_jobs()} if workload else {}
        return [violation.rule for violation in verify(result, workloads=known)]

    return check


def three_jobs():
    listed = [
        {"id": name, "subtime": date, "res": 1, "profile": f"d{run_time}"}
        | {"qos": {"estimated_runtime": run_time, "deadline": date + 19}}
        for name, date, run_time in (("1", 0, 10), ("2", 2, 3), ("3", 7, 2))
    ]
    profiles = {f"d{n}": {"type": "delay", "delay": n} for n in (2, 3, 10)}
    text = json.dumps({"nb_res": 1, "jobs": listed, "profiles": profiles})
    return parse_workload(text, source="three.json")


def test_a_job_that_runs_again_keeps_the_rules(restarted) -> None:
    assert restarted({}) == []
    assert restarted({}, workload=False) == []


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        # The last run ends after the promised 19 s.
        ({"1#2.start": 9.5}, ["admitted-deadline"]),
        ({"1#2.state": KILLED}, ["restart-complete"]),
        ({"1#2.run_time": 9.0}, ["restart-complete"]),
        ({"1#1.state": "COMPLETED_FAILED"}, ["restart-identity"]),
        ({"1#1.profile": "d3"}, ["restart-identity", "restart-identity"]),
        ({"1#2.id": "1#3"}, ["restart-identity"]),
        ({"1#1": None}, ["restart-identity"]),
        ({"1#2.hosts": None}, ["restart-complete"]),
        # Promised, killed, and not run again.
        ({"1#1": None, "1#2": None}, ["restart-complete"]),
    ],
)
def test_broken_rules(restarted, changes: dict[str, object], rules: list[str]) -> None:
    assert restarted(changes) == rules


def test_a_run_that_was_killed_as_it_started_is_written_longer_than_it_was(restarted) -> None:
    # 1#1 starts and is killed at 5, Batsim writes 10 us; 1#2 starts there.
    null = {"1#1.run_time": 1e-5, "1#2.start": 5.0, "3.start": 15.0}
    assert restarted(null, workload=False) == []
    longer = {**null, "1#1.run_time": 1e-4}
    assert "restart-identity" in restarted(longer, workload=False)


@pytest.fixture
def continued(write_run) -> Callable[[float, float], list[str]]:
    """A function that verifies a run whose job 1 goes on after it was stopped.

    It takes 10,000 s; ``first`` is how long its first run takes, ``rest`` its second (seconds).
    """

    def check(first: float, rest: float) -> list[str]:
        ran = write_run.ran
        rows = [
            ran("1", 0, 1, 0, first, [0], profile="d", state=KILLED),
            ran("1#1", 0, 1, 20000, rest, [0], profile="d#1#1"),
        ]
        profiles = {"d": {"type": "delay", "delay": 10000}}
        jobs = [{"id": "1", "subtime": 0, "res": 1, "profile": "d"}]
        text = json.dumps({"nb_res": 1, "jobs": jobs, "profiles": profiles})
        known = {"w0": parse_workload(text, source="one.json")}
        result = read_run(write_run(rows, hosts=1))
        return [violation.rule for violation in verify(result, workloads=known)]

    return check


def test_what_goes_on_is_complete_to_the_last_decimal_of_its_progress(continued) -> None:
    assert continued(4115.834, 5884.166) == []
    # Of 10,000 s, six decimals of the progress tell 10 ms.
    assert continued(4115.834, 5884.1759) == []
    assert continued(4115.834, 5884.1561) == []
    assert continued(4115.834, 5884.1762) == ["restart-complete"]
    assert continued(4115.834, 5884.1558) == ["restart-complete"]
    # Killed as it started: written as 10 us.
    assert continued(1e-5, 10000.0) == []


def test_runs_of_a_job_do_not_overlap(restarted) -> None:
    found = restarted({"1.run_time": 6.0}, workload=False)
    assert found == ["exclusive-hosts", "exclusive-hosts", "restart-identity"]


def test_metrics_take_the_last_run(restarted, tmp_path: Path) -> None:
    restarted({})
    (path,) = tmp_path.glob("*_jobs.csv")
    result = read_run(path)
    outcomes = outcomes_of_run(result, {"w0": three_jobs()})
    assert outcomes.start.tolist() == [9, 2, 7]
    assert outcomes.lost.tolist() == [[0, 2, 1], [5, 7, 1]]
    metrics = study_measures(outcomes, 1)
    assert (metrics.jobs, metrics.kills) == (3, 2)
    assert metrics.wasted_work == pytest.approx(100 * 4 / 15)
    assert outcomes.promised.tolist() == [19, 5, 9]
    assert broken_rule(outcomes, 1) is None
    assert broken_rule(replace(outcomes, promised=outcomes.promised - [1, 0, 0]), 1) is not None
    restarted({"1.run_time": 2.5})
    overlapping = outcomes_of_run(read_run(path), {"w0": three_jobs()})
    assert broken_rule(overlapping, 1) == "2 processors compute at 2.000000 s, but there are 1"


def test_identifiers_of_later_runs() -> None:
    assert first_run_id("w0!12#3") == "w0!12"
    assert first_run_id("w0!12") is None
    assert first_run_id("w0!12#x") is None
    assert original_id("a#1", {"a"}) == "a"
    # What a workload calls so itself is no later run.
    assert original_id("a#1", {"a", "a#1"}) == "a#1"
    assert original_id("b#1", {"a"}) is None
