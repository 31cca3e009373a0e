"""The rule about jobs that are to be alone on their hosts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qops_batsim import read_run, verify
from qops_batsim.measures.verify.subject import most_at_once
from qops_batsim.workload import parse_workload
from support.qos_files import by_workload

from ..conftest import Ran


@pytest.fixture
def shared_run(write_run):
    """Return what is wrong with a run on two hosts: jobs (name, class, start, end, hosts)."""

    def check(*jobs):
        ran = [
            Ran(name, 0, len(hosts), start=start, run_time=end - start, hosts=hosts)
            for name, _, start, end, hosts in jobs
        ]
        listed = [
            {"id": name, "subtime": 0, "res": len(hosts), "profile": "p", "qos": {"class": kind}}
            for name, kind, _, _, hosts in jobs
            if "#" not in name
        ]
        text = json.dumps(
            {
                "nb_res": 2,
                "jobs": listed,
                "profiles": {"p": {"type": "parallel_homogeneous", "cpu": 1, "com": 0}},
            }
        )
        workloads = {"w0": parse_workload(text, source="small.json")}
        result = read_run(write_run(ran, hosts=2))
        found = verify(result, workloads=workloads, compute_sharing=True)
        return [each for each in found if each.rule == "dedicated-alone"]

    return check


def test_others_may_come_before_and_after(shared_run) -> None:
    # 0  A A D D B
    # 1  C C C C C
    assert not shared_run(
        ("A", "best_effort", 0, 2, [0]),
        ("B", "best_effort", 4, 5, [0]),
        ("C", "best_effort", 0, 5, [1]),
        ("D", "dedicated", 2, 4, [0]),
    )


@pytest.mark.parametrize(
    ("start", "end"), [(0, 9), (2.5, 3), (0, 2.1), (3.9, 9), (2, 4), (2, 9), (1, 4)]
)
def test_others_may_not_be_there_at_the_same_time(shared_run, start, end) -> None:
    (violation,) = shared_run(
        ("A", "best_effort", start, end, [0, 1]), ("D", "dedicated", 2, 4, [0, 1])
    )
    assert violation.jobs == ("w0!D", "w0!A")
    assert violation.host == 0
    assert violation.time == max(start, 2)
    assert "job 'w0!D' is to be alone on its hosts, but shares host 0" in violation.message


def test_all_others_are_found_once(shared_run) -> None:
    jobs = [
        ("A", "best_effort", 0, 9, [0]),
        ("B", "best_effort", 1, 3, [0]),
        ("C", "dedicated", 2, 4, [0]),
        ("D", "dedicated", 3.5, 5, [0]),
    ]
    found = {frozenset(each.jobs) for each in shared_run(*jobs)}
    assert found == {
        frozenset(pair)
        for pair in [("w0!C", "w0!A"), ("w0!C", "w0!B"), ("w0!C", "w0!D"), ("w0!D", "w0!A")]
    }


def test_what_goes_on_of_a_job_is_of_its_class(shared_run) -> None:
    (violation,) = shared_run(
        ("D", "dedicated", 0, 1, [0]),
        ("D#1", "dedicated", 3, 5, [0]),
        ("A", "best_effort", 4, 6, [0]),
    )
    assert violation.jobs == ("w0!D#1", "w0!A")


def test_how_many_jobs_meet(write_run) -> None:
    # 0  A A A A A A      A meets B, then C and D at once; B meets no other job
    #      B B C C
    #          D
    # 1  E E
    spans = {"A": (0, 6, [0]), "B": (1, 3, [0]), "C": (3, 5, [0]), "D": (3, 4, [0])}
    jobs = [
        Ran(name, 0, len(hosts), start=start, run_time=end - start, hosts=hosts)
        for name, (start, end, hosts) in {**spans, "E": (0, 2, [1])}.items()
    ]
    result = read_run(write_run([*jobs, Ran("F", 0, 1)], hosts=2))
    assert most_at_once(result).tolist() == [3, 2, 3, 3, 1, 0]


def test_sharing_is_no_excuse_for_a_late_end(write_run) -> None:
    # Estimated at 5 s each, together 10 s.
    spans = {"A": (0, 10), "B": (0, 10), "C": (10, 16)}
    jobs = [
        Ran(name, 0, 1, start=start, run_time=end - start, hosts=[0])
        for name, (start, end) in spans.items()
    ]
    prefix = write_run(jobs, hosts=1)
    rows = ["job_id,decision,admitted_deadline,latest_start"]
    rows += [f"w0!{name},accepted,{by},{start}" for name, by, start in (("A", 9, 0), ("C", 15, 10))]
    Path(f"{prefix}_qos.csv").write_text(by_workload("\n".join(rows)))
    listed = [
        {"id": name, "subtime": 0, "res": 1, "profile": "p", "qos": {"estimated_runtime": 5}}
        for name in spans
    ]
    profile = {"type": "parallel_homogeneous", "cpu": 1, "com": 0}
    text = json.dumps({"nb_res": 1, "jobs": listed, "profiles": {"p": profile}})
    workloads = {"w0": parse_workload(text, source="small.json")}
    found = verify(read_run(prefix), workloads=workloads, compute_sharing=True)
    # A ends after its deadline, although no job took longer than sharing explains; C, alone,
    # outlives its estimate.
    assert [(each.rule, each.jobs) for each in found] == [("admitted-deadline", ("w0!A",))]


@pytest.mark.parametrize(
    ("profile", "run_time", "broken"),
    [
        # A stopped job goes on: 4 s of its 10 s are done.
        ("d#D#1", 6, set()),
        ("d#D#1", 5, {"restart-complete"}),
        # The same profile is all of the work again.
        ("d", 10, set()),
        ("d", 6, {"restart-complete"}),
        ("e", 10, {"restart-identity"}),
    ],
)
def test_a_stopped_job_may_go_on_instead_of_starting_anew(
    write_run, profile, run_time, broken
) -> None:
    first = Ran("D", 0, 1, run_time=4, hosts=[0], state="COMPLETED_KILLED", profile="d")
    later = Ran("D#1", 0, 1, start=9, run_time=run_time, hosts=[0], profile=profile)
    text = json.dumps(
        {
            "nb_res": 1,
            "jobs": [{"id": "D", "subtime": 0, "res": 1, "profile": "d"}],
            "profiles": {"d": {"type": "delay", "delay": 10}},
        }
    )
    workloads = {"w0": parse_workload(text, source="small.json")}
    found = verify(read_run(write_run([first, later], hosts=1)), workloads=workloads)
    assert {each.rule for each in found if each.rule.startswith("restart")} == broken
