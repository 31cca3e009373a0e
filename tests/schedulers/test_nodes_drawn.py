"""Hosts that leave, maintenance, fixed starts and restarts on shared hosts, drawn by hand.

In the pictures a row is a core of a host, a column a second; ``×`` is a host that is away, ``#``
maintenance.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError, simulate
from qops_batsim.core import HostSet
from qops_batsim.engine import ExternalEvent, maintenance_events
from qops_batsim.jobs import COMPLETED_KILLED, REJECTED
from qops_batsim.protocol import SchedulerModule, make_scheduler
from support.node_cases import workload_of
from support.node_drawn import host, job, machine, part
from support.node_oracles import NodeJob, SharedMachine
from support.node_runs import Case, outcome_of, random_case, written

Found = list[tuple[str, float, list[int]]]
"""Id, start and hosts of each run, by id."""

TWO = machine(host(cores=2), host(cores=2))


def case_of(
    shared: SharedMachine, jobs: Sequence[NodeJob], *events: ExternalEvent, **asked: dict[str, Any]
) -> Case:
    """Return a case; ``asked`` is what jobs ask for beside, by ``j`` and their place."""
    workload = workload_of(shared, jobs)
    for place, each in enumerate(workload["jobs"]):
        each["qos"] |= asked.get(f"j{place}", {})
    return Case(shared, list(jobs), workload, events)


def away(date: float, kind: str, hosts: str) -> ExternalEvent:
    return ExternalEvent(date, f"machine_{kind}", HostSet.parse(hosts), {})


def found_by(
    scheduler: str, case: Case, folder: Path, **settings: Any
) -> tuple[Found, SchedulerModule]:
    outcome = outcome_of(scheduler, settings, case, folder)
    runs = sorted((ran.name, ran.start, ran.hosts) for ran in outcome.runs)
    return runs, outcome.module


# n1 leaves at 5 under b, which goes on, and does not come free at 8, when d was to start there. e
# keeps its place and its host; d, promised 14, comes behind it.
#
#        0    5    10   15   20
#   n0 | aaaaaaaaaaeeeeeddddd
#   n0 | aaaaaaaaaaeeeeeddddd
#   n1 | bbbbbbbb×××××××××××
#   n1 | bbbbbbbb×××××××××××
#   n2 | cccccccccccccccccccc
@pytest.mark.parametrize("scheduler", ["qops", "msb", "mrt", "fqops", "conservative", "slack"])
def test_who_was_planned_on_a_host_that_left_is_placed_again(
    scheduler: str, tmp_path: Path
) -> None:
    jobs = [
        job(0, 10, part(cores=2)),
        job(0, 8, part(cores=2)),
        job(0, 20, part(cores=4)),
        job(1, 5, part(cores=2), deadline=14),
        job(1, 5, part(cores=2), deadline=15),
    ]
    shared = machine(host(cores=2), host(cores=2), host(cores=4))
    settings = {"slack_factor": 0.0} if scheduler == "slack" else {}
    case = case_of(shared, jobs, away(5, "unavailable", "1"))
    found, module = found_by(scheduler, case, tmp_path, **settings)
    assert [each[1:] for each in found] == [(0, [0]), (0, [1]), (0, [2]), (15, [0]), (10, [0])]
    late, kept = (module.qos_log.record(f"w0!00{place}") for place in (3, 4))
    assert (late.new_promises, kept.new_promises) == (int(scheduler != "conservative"), 0)
    if scheduler == "slack":
        assert (late.latest_start, kept.latest_start) == (15, 10)
    elif scheduler != "conservative":
        assert (late.admitted_deadline, kept.admitted_deadline) == (20, 15)
        assert late.reason == (
            "machine lost 1 host at 5 s; the promise of 14.000000 s could not be kept"
        )


# n1 is away from 2 to 6: b starts there when it returns, not at 10 beside a; and while n1 is away,
# the job that needs both hosts is out of the way of c.
#
#        0 2   6   10
#   n0 | aaaaaaaaaa
#   n0 | ...cccc
#   n1 | ..××××bbbbb
#   n1 | ..××××bbbbb
@pytest.mark.parametrize("scheduler", ["fcfs", "easy", "nqs", "conservative", "qops", "slurm"])
def test_a_host_that_returns_is_used_at_once(scheduler: str, tmp_path: Path) -> None:
    jobs = [
        job(0, 10, part(cores=1)),
        job(3, 5, part(cores=2)),
        job(3, 4, part(cores=1)),
    ]
    events = away(2, "unavailable", "1"), away(6, "available", "1")
    settings = {"bf_interval": 1, "bf_resolution": 1} if scheduler == "slurm" else {}
    found, _ = found_by(scheduler, case_of(TWO, jobs, *events), tmp_path, **settings)
    blocks = scheduler in ("fcfs", "nqs")
    last = (6, [0]) if blocks else (3, [0])
    assert [each[1:] for each in found] == [(0, [0]), (6, [1]), last]


# n1 has maintenance from 10 to 20, known at 0: only d is over by then. fcfs has c before d.
#
#        0       8 10   15   20           0         10   15   20
#   n0 | aaaaaaaaaaaaaaacccccccccc   n0 | aaaaaaaaaaaaaaacccccccccc
#   n0 | bbbbbbbbbbbbbbb             n0 | bbbbbbbbbbbbbbbdddddddd
#   n1 | dddddddd..##########        n1 | ..........##########
@pytest.mark.parametrize(
    ("scheduler", "last"),
    [
        ("easy", (0, [1])),
        ("conservative", (0, [1])),
        ("qops", (0, [1])),
        ("slurm", (0, [1])),
        ("fcfs", (15, [0])),
    ],
)
def test_nothing_reaches_into_maintenance(
    scheduler: str, last: tuple[float, list[int]], tmp_path: Path
) -> None:
    jobs = [job(0, length, part(cores=1)) for length in (15, 15, 15, 8)]
    shared = machine(host(cores=2), host(cores=1))
    case = case_of(shared, jobs, *maintenance_events(0, HostSet.parse("1"), 10, 20))
    found, _ = found_by(scheduler, case, tmp_path)
    assert [each[1:] for each in found] == [(0, [0]), (0, [0]), (15, [0]), last]


# f was promised n1 from 10 on. b shares n0 with a, and d is over on n1 by then; c is not, and comes
# behind f. fcfs has c before d.
#
#        0 2      10   15   20
#   n0 | aaaaaaaaaaaaaaaaaaaa
#   n0 | ..bbbbbbbbbbbb
#   n1 | ..dddddddd fffffccccccccc
#   n1 | .......... fffffccccccccc
FIXED = [
    job(0, 20, part(cores=1)),
    job(1, 5, part(cores=2)),
    job(2, 12, part(cores=1)),
    job(2, 9, part(cores=2)),
    job(2, 8, part(cores=1)),
]


@pytest.mark.parametrize(
    ("scheduler", "last"),
    [("easy", (2, [1])), ("conservative", (2, [1])), ("qops", (2, [1])), ("fcfs", (15, [0]))],
)
def test_a_fixed_start_has_its_amounts_and_no_more(
    scheduler: str, last: tuple[float, list[int]], tmp_path: Path
) -> None:
    case = case_of(TWO, FIXED, j1={"start": 10})
    found, _ = found_by(scheduler, case, tmp_path)
    assert [each[1:] for each in found] == [(0, [0]), (10, [1]), (2, [0]), (15, [1]), last]


# n1 leaves at 5: f, promised a start there at 10, gets n0 when a ends.
#
#        0    5    10       20
#   n0 | aaaaaaaaaaaaaaaaaaaafffff
#   n0 | ....................fffff
#   n1 | .....××××××××××××××××××××
@pytest.mark.parametrize("scheduler", ["fcfs", "easy", "conservative", "qops", "slack"])
def test_a_fixed_start_whose_host_leaves_is_renewed(scheduler: str, tmp_path: Path) -> None:
    case = case_of(TWO, FIXED[:2], away(5, "unavailable", "1"), j1={"start": 10})
    found, module = found_by(scheduler, case, tmp_path)
    assert [each[1:] for each in found] == [(0, [0]), (20, [0])]
    record = module.qos_log.record("w0!001")
    assert (record.latest_start, record.new_promises) == (20, 1)


# r at 0 has what x waits for; f, fixed at 10, was promised n1, g at 14 n0. That x on n1 is over
# only at 12 must not have g take n1 from f when f is due.
#
#        0  3      10  14
#   n0 | rrr.......fffffffffffffffff
#   n1 | xxxxxxxxxxxx..gggggg
@pytest.mark.parametrize("scheduler", ["fcfs", "easy", "conservative", "qops"])
def test_due_starts_keep_their_hosts(scheduler: str, tmp_path: Path) -> None:
    jobs = [job(0, length, part(exclusive=True)) for length in (3, 12, 17)]
    jobs.append(job(2, 6, part(exclusive=True)))
    case = case_of(TWO, jobs, j2={"start": 10}, j3={"start": 14})
    found, _ = found_by(scheduler, case, tmp_path)
    assert [each[1:] for each in found] == [(0, [0]), (0, [1]), (10, [0]), (14, [1])]


# u is urgent: v is killed, and its restart asks for three cores as v did. w waits for s.
#
#        0         10   15  ...          50
#   n0 | vvvvvvvvvvuuuuuvvvvvvvv
#   n0 | vvvvvvvvvvuuuuuvvvvvvvv
#   n0 | vvvvvvvvvvuuuuuvvvvvvvv
#   n0 | ssssssssssssssssssssssssssssssssswwwww
@pytest.mark.parametrize("tasks", [0, 3])
def test_a_restart_asks_for_what_was_killed(tasks: int, tmp_path: Path) -> None:
    asked = part(cores=1, tasks=3) if tasks else part(cores=3)
    jobs = [
        job(0, 100, asked),
        job(0, 50, part(cores=1)),
        job(10, 5, part(cores=3), deadline=15),
        job(16, 5, part(cores=1)),
    ]
    case = case_of(machine(host(cores=4)), jobs)
    found, module = found_by("fqops", case, tmp_path, kill_and_restart=True)
    assert found == [
        ("000", 0, [0]),
        ("000#1", 15, [0]),
        ("001", 0, [0]),
        ("002", 10, [0]),
        ("003", 50, [0]),
    ]
    assert module.qos_log.record("w0!000").wasted_processor_seconds == pytest.approx(7.5)


# a tells no estimate: nothing is planned behind it, and what fits beside it starts. c waits.
#
#        0    5 7
#   n0 | aaaaaaaccc
#   n0 | bbbbb..ccc
@pytest.mark.parametrize("scheduler", ["fcfs", "easy", "nqs", "conservative", "qops", "slack"])
def test_a_job_without_estimate_is_planned_as_if_it_never_ended(
    scheduler: str, tmp_path: Path
) -> None:
    jobs = [job(0, 7, part(cores=1)), job(0, 5, part(cores=1)), job(0, 3, part(cores=2))]
    case = case_of(machine(host(cores=2)), jobs)
    del case.workload["jobs"][0]["qos"]["estimated_runtime"]
    found, _ = found_by(scheduler, case, tmp_path)
    assert [each[1:] for each in found] == [(0, [0]), (0, [0]), (7, [0])]


# a runs longer than its estimate of 5 and has no walltime; b was planned behind it.
def test_slack_kills_at_the_estimate_and_cannot_extend_there(tmp_path: Path) -> None:
    jobs = [job(0, 9, part(cores=1)), job(0, 5, part(cores=1)), job(0, 3, part(cores=2))]
    case = case_of(machine(host(cores=2)), jobs)
    case.workload["jobs"][0]["qos"]["estimated_runtime"] = 5
    platform, workload = written(case, tmp_path)
    done = simulate("slack", workload, platform, {"on_overrun": "kill"})
    states = {each.local_id: (each.state, each.start, each.finish) for each in done.ended}
    assert states["000"][0] == COMPLETED_KILLED
    assert states["000"][2] == pytest.approx(5, abs=0.01)
    assert states["002"][1] == pytest.approx(5, abs=0.01)
    with pytest.raises(InputError, match="on_overrun is 'extend', but jobs share hosts"):
        simulate("slack", workload, platform, {"on_overrun": "extend"})


def with_latencies(text: str, latency: str) -> str:
    """Return a platform whose hosts and master are behind links."""
    names = [line.split('"')[1] for line in text.splitlines() if line.startswith("<host ")]
    links = [
        f'<link id="l_{name}" bandwidth="125MBps" latency="{latency}" '
        'sharing_policy="SPLITDUPLEX"/>'
        for name in names
    ]
    ends = [f'<host_link id="{name}" up="l_{name}_UP" down="l_{name}_DOWN"/>' for name in names]
    text = text.replace('routing="Vivaldi"', 'routing="Cluster"')
    text = text.replace(' coordinates="0 0 0"', "")
    first, rest = text.split("<host ", 1)
    text = "\n".join([first.rstrip(), *links, f"<host {rest}"])
    return text.replace("</zone>", "\n".join([*ends, "</zone>"]))


@pytest.mark.parametrize("scheduler", ["easy", "conservative", "qops", "fqops", "slurm"])
def test_late_news_breaks_promises_by_less_than_the_grace(scheduler: str, tmp_path: Path) -> None:
    settings = {"kill_and_restart": True} if scheduler == "fqops" else {}
    for seed in range(6):
        case = random_case(random.Random(f"late news {seed}"))
        platform, workload = written(case, tmp_path)
        platform.write_text(with_latencies(platform.read_text(), "2ms"))
        module = make_scheduler(scheduler, settings)
        for each in simulate(module, workload, platform).ended:
            name = each.local_id.partition("#")[0]
            record = module.qos_log.record(f"w0!{name}")
            if each.state not in (REJECTED, COMPLETED_KILLED):
                promise = record.admitted_deadline or math.inf
                assert each.finish <= promise + 1.0, f"seed {seed}, job {name}"
