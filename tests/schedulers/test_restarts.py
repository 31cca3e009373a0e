"""Kill-and-restart: drawn schedules, the exchange with the engine, and promises kept.

In the drawings, a column is a second and a row a processor.
"""

from __future__ import annotations

import csv
import math
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import (
    InputError,
    Job,
    QosRequest,
    check_scheduler,
    explain,
    read_run,
    simulate,
    verify,
)
from qops_batsim import run as run_and_verify
from qops_batsim.core import HostDescription, HostSet
from qops_batsim.engine import EngineOptions, Simulation, format_jobs
from qops_batsim.jobs import COMPLETED_KILLED, COMPLETED_SUCCESSFULLY, REJECTED
from qops_batsim.measures import (
    broken_rule,
    outcomes_of_run,
    outcomes_of_simulation,
    study_measures,
)
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import (
    Decision,
    EngineConfig,
    Event,
    ExecuteJob,
    JobCompleted,
    JobKilled,
    JobSubmitted,
    KillJob,
    Message,
    ModuleDriver,
    Notify,
    RegisterJob,
    SchedulerModule,
    SimulationBegins,
    Stamped,
    make_scheduler,
)
from qops_batsim.protocol.zeromq import RemoteDecisionSide
from qops_batsim.running import PlanAsker, default_engine, read_history
from qops_batsim.running.releases import batsim_arguments
from qops_batsim.workload import Workload, delay_profile
from support.decision_process import decision_process, scheduler_process
from support.exact_jobs import job, workload_of
from support.qos_rows import qos_rows

Many = Callable[[int], range]


def killer(**options: Any) -> SchedulerModule:
    return make_scheduler("fqops", {"kill_and_restart": True, **options})


Runs = dict[str, tuple[float, float] | None]


def run(machine: int, jobs: list[Job], module: SchedulerModule) -> Runs:
    """Run and return start and end of each run of each job, None if rejected."""
    simulation = simulate(module, workload_of(machine, jobs), make_cluster(machine))
    return {
        record.local_id: None if record.state == REJECTED else (record.start, record.finish)
        for record in simulation.ended
    }


def read_rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as stream:
        return list(csv.reader(stream))


def rows_of(module: SchedulerModule) -> dict[str, tuple[str, ...]]:
    return {f"{row[1]}!{row[0]}": row for row in qos_rows(module.qos_log)}


# Drawn schedules

# One processor. A (10 s) may end by 30; at 2 B wants 3 s by 6.
#
#   |AABBBAAAAAAAAAA   2 s of A are lost
#    0 2  5        15
URGENT = [job("A", 0, 1, 10, 30), job("B", 2, 1, 3, 6)]


def test_a_running_job_is_killed_for_an_urgent_one_and_run_again() -> None:
    module = killer()
    assert run(1, URGENT, module) == {"A": (0, 2), "B": (2, 5), "A#1": (5, 15)}
    rows = rows_of(module)
    assert list(rows) == ["w0!A", "w0!B"]
    assert rows["w0!A"][4:10] == ("accepted", "", "", "", "", "30.000000")
    assert rows["w0!A"][13:] == ("1", "", "2.000000")
    assert rows["w0!B"][3:6] == ("", "accepted", "w0!A was killed for it")
    assert rows["w0!B"][6:10] == ("killed_for_it", "w0!A", "", "6.000000")
    assert rows["w0!B"][13:] == ("0", "", "")
    # Without, B is offered the end behind A.
    module = make_scheduler("fqops")
    assert run(1, URGENT, module) == {"A": (0, 10), "B": None}
    assert module.qos_log.record("w0!B").offered_deadline == 13


def test_a_job_is_not_killed_if_it_would_miss_its_own_deadline() -> None:
    # |AABBBAAAAAAAAAA   A would end at 15.
    module = killer()
    assert run(1, [job("A", 0, 1, 10, 14.5), URGENT[1]], module) == {"A": (0, 10), "B": None}
    assert module.qos_log.record("w0!B").offered_deadline == 13
    assert run(1, [job("A", 0, 1, 10, 15), URGENT[1]], killer())["A#1"] == (5, 15)


def test_a_job_without_deadline_can_always_be_killed() -> None:
    jobs = [job("A", 0, 1, 10), URGENT[1]]
    assert run(1, jobs, killer()) == {"A": (0, 2), "B": (2, 5), "A#1": (5, 15)}


# Two processors. At 4, A has used 4 processor-seconds, B, begun at 2, has used 2. C wants
# one processor for 3 s by 8; D, at 5, would not do with B's rest.
#
#   |AAAAAAAAAA        B is killed, since it loses less
#   |  BBCCCBBBBBBBB
#    0 2 4  7       15
CHOICE = [job("A", 0, 1, 10, 40), job("B", 2, 1, 8, 40), job("C", 4, 1, 3, 8)]


def test_the_job_that_has_used_least_is_killed() -> None:
    found = run(2, CHOICE, killer())
    assert found == {"A": (0, 10), "B": (2, 4), "C": (4, 7), "B#1": (7, 15)}
    # If B has no time to spare, it is A.
    found = run(2, [CHOICE[0], job("B", 2, 1, 8, 10), CHOICE[2]], killer())
    assert found == {"A": (0, 4), "B": (2, 10), "C": (4, 7), "A#1": (7, 17)}
    # Processors count as much as seconds: A has used 8, B 12.
    wide = [job("A", 0, 1, 20, 99), job("B", 4, 3, 20, 99), job("C", 8, 1, 3, 11)]
    assert "A#1" in run(4, wide, killer())


# A is killed at 2 for B, and A#1, started at 5, at 7 for C.
#
#   |AABBBAACCAAAAAAAAAA
#    0 2  5 7 9         19
TWICE = [job("A", 0, 1, 10, 40), job("B", 2, 1, 3, 5), job("C", 7, 1, 2, 9)]


# Four processors. A (100 s) has all of them and time up to 300; at 10, B wants two for 50 s by 60.
#
#   |AAAA|BB..|AAAA      40 processor-seconds are lost; the mean work is (400 + 100) / 2
#    0    10   60   160
YOUNG = [job("A", 0, 4, 100, 300), job("B", 10, 2, 50, 60)]


def test_a_kill_wastes_no_more_than_its_price() -> None:
    runs = run(4, YOUNG, killer(restart_price=0.16))
    assert runs == {"A": (0, 10), "B": (10, 60), "A#1": (60, 160)}
    assert run(4, YOUNG, killer(restart_price=0.159))["B"] is None
    assert run(4, YOUNG, killer(restart_price=0.0))["B"] is None


# A, B, C, D have a processor each from 0, 1, 2, 3 on; E, at 5, wants three at once for 20 s. None
# alone is enough; the youngest three are, and go on behind E: B, C and D.
#
#   |AAAAAAAAAAAAAAAAAAAAAAAAA...     4 + 3 + 2 processor-seconds are lost;
#   | BBBBEEEEEEEEEEBBBBBBBBBB...     the mean work is (4 × 100 + 60) / 5
#   |  CCCEEEEEEEEEECCCCCCCCCC...
#   |   DDEEEEEEEEEEDDDDDDDDDD...
#    0    5        25
SINGLE = [job(name, at, 1, 100, 400) for at, name in enumerate("ABCD")]
SEVERAL = [*SINGLE, job("E", 5, 3, 20, 25)]


def test_several_give_way_to_a_wide_job_for_a_price() -> None:
    module = killer(restart_price=0.098)
    runs = run(4, SEVERAL, module)
    assert runs["E"] == (5, 25)
    assert {name: runs[f"{name}#1"] for name in "BCD"} == dict.fromkeys("BCD", (25, 125))
    assert runs["A"] == (0, 100)
    assert {name for name, row in rows_of(module).items() if row[13] == "1"} == {
        "w0!B", "w0!C", "w0!D"
    }  # fmt: skip
    reasons = module.qos_log.record("w0!E").reasons
    assert sorted(each.blamed for each in reasons) == ["w0!B", "w0!C", "w0!D"]
    assert run(4, SEVERAL, killer(restart_price=0.097))["E"] is None
    # The paper kills one job for another.
    assert run(4, SEVERAL, killer())["E"] is None


# B has two processors, C and D have one each; E wants three. All are chosen, the youngest first.
#
#   |BBBBBEEEE   Without B only two would be free: B is needed.
#   |BBBBBEEEE
#   | CCCCCCCC   Without C three are: C goes on.
#   |  DDDEEEE
def test_who_is_not_needed_is_given_back() -> None:
    jobs = [job("B", 0, 2, 100, 400), job("C", 1, 1, 100, 400), job("D", 2, 1, 100, 400)]
    runs = run(4, [*jobs, job("E", 5, 3, 20, 25)], killer(restart_price=1.0))
    assert runs["E"] == (5, 25)
    assert {name for name in runs if "#" in name} == {"B#1", "D#1"}


def test_kills_of_one_job_are_counted_and_can_be_limited() -> None:
    module = killer()
    assert run(1, TWICE, module) == {
        "A": (0, 2),
        "B": (2, 5),
        "A#1": (5, 7),
        "C": (7, 9),
        "A#2": (9, 19),
    }
    assert rows_of(module)["w0!A"][13:] == ("2", "", "4.000000")
    module = killer(max_kills_per_job=1)
    assert run(1, TWICE, module) == {"A": (0, 2), "B": (2, 5), "A#1": (5, 15), "C": None}
    assert "A#1" not in run(1, URGENT, killer(max_kills_per_job=0))


def test_a_job_must_have_run_for_a_while_to_be_killed() -> None:
    assert "A#1" not in run(1, URGENT, killer(kill_after=2.1))
    assert "A#1" in run(1, URGENT, killer(kill_after=2))
    fresh = [job("A", 0, 1, 10, 30), job("B", 0.5, 1, 3, 4)]
    assert "A#1" not in run(1, fresh, killer())
    assert "A#1" in run(1, fresh, killer(kill_after=0))


def test_offers_are_guarantees_too() -> None:
    # B is offered 13 and takes it. At 11, B cannot be killed for C, as it must end by 13, so
    # C takes an offer of its own.
    jobs = [job("A", 0, 1, 10, 10), job("B", 1, 1, 3, 5), job("C", 11, 1, 1, 12)]
    module = killer(tolerance_factor=3)
    assert run(1, jobs, module) == {"A": (0, 10), "B": (10, 13), "C": (13, 14)}
    # With slack B ends by 1 + 1.5 × 12 = 19.
    module = killer(tolerance_factor=5, slack_factor=1.5)
    found = run(1, jobs, module)
    assert found["C"] == (11, 12)
    assert found["B#1"] == (12, 15)
    assert module.qos_log.record("w0!B").admitted_deadline == 19


def test_several_kills_at_one_date() -> None:
    jobs = [job("A", 0, 1, 9, 40), job("B", 0, 1, 9, 40)]
    jobs += [job("C", 3, 1, 2, 5), job("D", 3, 1, 2, 5), job("E", 3, 1, 2, 5)]
    found = run(2, jobs, killer())
    assert found["C"] == found["D"] == (3, 5)
    assert found["A#1"] == found["B#1"] == (5, 14)
    assert found["E"] is None


def test_many_kills_at_one_date() -> None:
    # As many kills as processors, for as many jobs.
    for machine in (15, 31, 70):
        jobs = [job(f"A{index:02}", 0, 1, 50, 1000) for index in range(machine)]
        jobs += [job(f"B{index:02}", 5, 1, 3, 8) for index in range(machine)]
        found = run(machine, jobs, killer())
        assert len(found) == 3 * machine
        for index in range(machine):
            assert found[f"A{index:02}"] == (0, 5)
            assert found[f"B{index:02}"] == (5, 8)
            assert found[f"A{index:02}#1"] == (8, 58)


def test_jobs_of_a_walltime_keep_it_when_they_run_again() -> None:
    qos = QosRequest(deadline=60)
    jobs = [Job("A", 0.0, 1, "delay_99", 10.0, qos), job("B", 2, 1, 3, 6)]
    profiles = {"delay_99": {"type": "delay", "delay": 99}, **dict([delay_profile(3)])}
    workload = Workload(jobs=jobs, profiles=profiles, processors=1)
    simulation = simulate(killer(), workload, make_cluster(1))
    assert [(r.local_id, r.state, r.finish) for r in simulation.ended] == [
        ("A", "COMPLETED_KILLED", 2),
        ("B", "COMPLETED_SUCCESSFULLY", 5),
        ("A#1", "COMPLETED_WALLTIME_REACHED", 15),
    ]


def test_metrics_count_a_job_once() -> None:
    workload = workload_of(1, TWICE)
    simulation = simulate(killer(), workload, make_cluster(1))
    outcomes = outcomes_of_simulation(simulation.ended_jobs, workload)
    metrics = study_measures(outcomes, 1)
    assert (metrics.jobs, metrics.kills) == (3, 2)
    assert metrics.wasted_work == pytest.approx(100 * 4 / 15)
    assert metrics.unadmitted_jobs == 0
    assert metrics.missed_deadlines == 0
    assert metrics.utilization == pytest.approx(100)  # lost work also kept the machine busy
    assert outcomes.finish.tolist() == [19, 5, 9]


# Work that is saved

# A (10 s) is saved (;) each 3 s that a run of it lasts. Killed at 5 for B it loses 2 s and has 7 s
# to go, killed at 12 for C it loses 1 s and has 4 s to go.
#
#   |AAA;AABBBAAA;ACAAAA
#    0     5  8    12 13 17
SAVED = [job("A", 0, 1, 10, 17, 3), job("B", 5, 1, 3, 8), job("C", 12, 1, 1, 13)]


def test_a_job_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    done = run_and_verify(
        "fqops", workload_of(1, SAVED), make_cluster(1), {"kill_and_restart": True},
        out=tmp_path / "run",
    )  # fmt: skip
    assert done.violations == []
    runs = zip(done.result.ids, done.result.text("profile"), strict=True)
    assert [(job_id.removeprefix("w0!"), profile) for job_id, profile in runs] == [
        ("A", "delay10"), ("B", "delay3"), ("A#1", "delay10#A#1"), ("C", "delay1"),
        ("A#2", "delay10#A#2"),
    ]  # fmt: skip
    starts, ends = done.result.columns("starting_time", "finish_time")
    assert starts.tolist() == [0, 5, 8, 12, 13]
    assert ends.tolist() == [5, 8, 12, 13, 17]
    # The deadline of A is just met: from scratch it would not be killed.
    assert "A#1" not in run(1, [job("A", 0, 1, 10, 17), *SAVED[1:]], killer())
    outcomes = outcomes_of_run(done.result, {"w0": workload_of(1, SAVED)})
    assert outcomes.charged_time.tolist() == [10, 3, 1]
    assert outcomes.wasted.tolist() == [3, 0, 0]
    metrics = study_measures(outcomes, 1)
    assert (metrics.kills, metrics.missed_deadlines) == (2, 0)
    assert metrics.wasted_work == pytest.approx(100 * 3 / 14)
    assert broken_rule(outcomes, 1) is None
    # A waited for its last run and ran for 10 s, not for the 13 s in which it lost 3.
    assert done.metrics["waiting_time"]["max"] == 13
    assert done.metrics["slowdown"]["max"] == pytest.approx(17 / 10)
    story = explain(tmp_path / "run", "A")
    assert [each.wasted for each in story.kills] == [2, 1]
    (wasted,) = (row[15] for row in read_rows(tmp_path / "run_qos.csv") if row[0] == "A")
    assert float(wasted) == 3
    # The last run a second longer, and the verifier says that A does more than its work.
    (tmp_path / "run_run.json").unlink()
    jobs = tmp_path / "run_jobs.csv"
    told = jobs.read_text()
    assert "13.000000,4.000000,17.000000" in told
    jobs.write_text(told.replace("13.000000,4.000000,17.000000", "13.000000,5.000000,18.000000"))
    workloads = {"w0": workload_of(1, SAVED)}
    said = [each.message for each in verify(tmp_path / "run", workloads=workloads)]
    assert "job 'w0!A#2' runs 11.000000 s, but its profile 10.000000 s" in said


def test_the_job_that_would_lose_least_is_killed() -> None:
    # At 4, A has used 4 processor-seconds, but would lose only 1, and B 2.
    runs = run(2, [job("A", 0, 1, 10, 40, 3), *CHOICE[1:]], killer())
    assert runs == {"A": (0, 4), "B": (2, 10), "C": (4, 7), "A#1": (7, 14)}


def test_a_walltime_counts_what_was_saved() -> None:
    # A runs for 12 s and is killed at its walltime of 8 s, 3 s of which are saved at 5.
    qos = QosRequest(deadline=60, checkpoint=3)
    jobs = [Job("A", 0.0, 1, "delay12", 8.0, qos), job("B", 5, 1, 1, 6)]
    profiles = dict([delay_profile(12), delay_profile(1)])
    workload = Workload(jobs=jobs, profiles=profiles, processors=1)
    simulation = simulate(killer(), workload, make_cluster(1))
    assert [(r.local_id, r.state, r.finish) for r in simulation.ended] == [
        ("A", "COMPLETED_KILLED", 5),
        ("B", "COMPLETED_SUCCESSFULLY", 6),
        ("A#1", "COMPLETED_WALLTIME_REACHED", 11),
    ]


def test_only_a_delay_can_be_saved_where_jobs_are_killed() -> None:
    jobs = [Job("A", 0.0, 1, "work", 8.0, QosRequest(checkpoint=3))]
    profiles = {"work": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}}
    workload = Workload(jobs=jobs, profiles=profiles, processors=1)
    told = "job w0!A: qos.checkpoint is 3, but its execution profile 'work' is of type 'par"
    with pytest.raises(InputError, match=told):
        simulate(killer(), workload, make_cluster(1))
    assert len(simulate(make_scheduler("fqops"), workload, make_cluster(1)).ended) == 1


def random_savers(seed: int, checkpoint: float | None = None) -> Workload:
    """Return random jobs, most of which save their work at some interval, or all at the same."""
    rng = random.Random(seed)
    jobs, date = [], 0.0
    for index in range(60):
        date += rng.choice([0, 0, 1, 3, 10.25])
        seconds = rng.choice([2.0, 5.5, 20.0, 61.75, 200.0])
        interval = checkpoint or rng.choice([None, 0.5, 1.7, 7.0, 30.0])
        deadline = date + seconds * rng.choice([1, 1, 1.5, 4, 8]) if rng.random() < 0.9 else None
        jobs.append(
            job(f"{index:02}", date, rng.choice([1, 1, 2, 3, 6]), seconds, deadline, interval)
        )
    return workload_of(8, jobs)


KILLERS: list[tuple[str, dict[str, Any]]] = [
    ("fqops", {"tolerance_factor": 4.0, "slack_factor": 2.0}),
    ("fqops", {"restart_price": 4.0, "tolerance_factor": 0.0}),
]


@pytest.mark.parametrize(("scheduler", "options"), KILLERS)
def test_random_jobs_lose_what_they_did_since_their_last_checkpoints(
    scheduler: str, options: dict[str, Any], tmp_path: Path, many: Many
) -> None:
    """What each run leaves to the next, and what is told of it, computed anew from the runs."""
    saved_once = asked_again = 0
    seeds = many(15)
    for seed in seeds:
        workload, out = random_savers(seed), tmp_path / "run"
        given = {"kill_and_restart": True, **options}
        done = run_and_verify(scheduler, workload, make_cluster(8), given, out=out)
        assert done.violations == [], seed
        lost, left, sakes = dict[str, float](), dict[str, float](), dict[str, float]()
        asked = {each.id: each for each in workload.jobs}
        runs = read_rows(out.with_name("run_jobs.csv"))[1:]
        # What runs again says for which job the run before it was killed.
        sake_of = {row[0]: row[16].rpartition("=")[2] for row in runs if "#" in row[0]}
        for row in runs:
            if row[7] == REJECTED:
                continue
            name, ran = row[0].partition("#")[0], float(row[10]) - float(row[8])
            each = asked[name]
            rest = left.get(name, each.estimate)
            if row[7] == COMPLETED_SUCCESSFULLY:
                assert ran == pytest.approx(rest, abs=1e-5), (seed, row)
                continue
            steps = 0
            if each.qos.checkpoint is not None:
                while (steps + 1) * each.qos.checkpoint <= ran + 1e-6:
                    steps += 1
            saved = steps * (each.qos.checkpoint or 0.0)
            saved_once += steps > 0
            asked_again += steps > 0 and name in left
            left[name] = rest - saved
            lost[name] = lost.get(name, 0.0) + each.processors * (ran - saved)
            number = int(row[0].partition("#")[2] or 0)
            sake = sake_of[f"{name}#{number + 1}"]
            sakes[sake] = sakes.get(sake, 0.0) + each.processors * (ran - saved)
        for row in read_rows(out.with_name("run_qos.csv"))[1:]:
            told = float(row[15] or 0.0)
            assert told == pytest.approx(lost.get(row[0], 0.0), abs=1e-4)
        for sake, wasted in sakes.items():
            place = [each.id for each in workload.jobs].index(sake.partition("!")[2])
            arrived = [each.processors * each.estimate for each in workload.jobs[: place + 1]]
            assert wasted <= options.get("restart_price", math.inf) * np.mean(arrived) + 1e-4
        outcomes = outcomes_of_run(done.result, {"w0": workload})
        assert outcomes.wasted.sum() == pytest.approx(sum(lost.values()), abs=1e-3)
        assert broken_rule(outcomes, 8) is None
        # The plan, put together from the log of decisions, answers each job as in the run.
        history = read_history(done)
        for name, request in history.jobs.items() if seed < 3 else ():
            answer = PlanAsker(history, history.state_before(name), request.date).ask(request)
            assert answer.admitted == history.state_after_admission(name).names[name].admitted
    assert saved_once > 2 * len(seeds)
    assert asked_again > 0


@pytest.mark.parametrize(("scheduler", "options"), KILLERS)
def test_checkpoints_that_are_never_reached_change_nothing(
    scheduler: str, options: dict[str, Any]
) -> None:
    found = []
    for checkpoint in (None, 500.0):
        workload = random_savers(3, 500.0)
        jobs = [
            job(each.id, each.submission_time, each.processors, each.estimate,
                each.qos.deadline, checkpoint)
            for each in workload.jobs
        ]  # fmt: skip
        module = make_scheduler(scheduler, {"kill_and_restart": True, **options})
        done = simulate(module, workload_of(8, jobs), make_cluster(8))
        found.append((format_jobs(done.ended_jobs), qos_rows(module.qos_log)))
    assert found[0] == found[1]
    assert "#1" in str(found[0])


# The last of them on a platform whose links have a latency.
NETWORKS: list[dict[str, float]] = [{}, {}, {"latency": 1e-3, "bandwidth": 1e9}]


@pytest.mark.usefixtures("batsim")
@pytest.mark.parametrize(("scheduler", "options"), KILLERS)
def test_live_batsim_runs_the_rests_of_jobs(
    scheduler: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """The profile of each rest (``delay10#A#1``) is registered with the real Batsim."""
    cases = [(1, workload_of(1, SAVED)), (8, random_savers(0)), (8, random_savers(2))]
    for (hosts, workload), network in zip(cases, NETWORKS, strict=True):
        files = []
        for engine in ("embedded", "batsim"):
            out = tmp_path / engine
            done = run_and_verify(
                scheduler, workload, make_cluster(hosts, **network),
                {"kill_and_restart": True, **options}, out=out, engine=engine,
            )  # fmt: skip
            assert done.violations == []
            files.append(out.with_name(f"{engine}_jobs.csv").read_text())
        assert files[0] == files[1]
        assert re.search(r"#1,w0,delay[0-9.]+#[A0-9]+#1,", files[0])


# The exchange with the engine


def test_an_engine_without_dynamic_jobs_is_refused() -> None:
    with pytest.raises(InputError, match="kill_and_restart is on, but .* --enable-dynamic-jobs"):
        simulate(killer(), workload_of(1, URGENT), make_cluster(1), engine=EngineOptions())
    assert not default_engine(make_scheduler("fqops")).dynamic_jobs
    assert default_engine(killer()).dynamic_jobs
    flags = {"--enable-dynamic-jobs", "--acknowledge-dynamic-jobs", "--enable-profile-reuse"}
    assert flags <= set(batsim_arguments(default_engine(killer())))
    assert not flags & set(batsim_arguments(default_engine(make_scheduler("fqops"))))


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("jobs", [[], URGENT, TWICE])
@pytest.mark.parametrize("acknowledge", [False, True])
def test_registration_is_finished_acknowledged_or_not(
    kill: bool, jobs: list[Job], acknowledge: bool
) -> None:
    options = EngineOptions(dynamic_jobs=True, acknowledge_dynamic_jobs=acknowledge)
    module = make_scheduler("fqops", {"kill_and_restart": kill})
    found = simulate(module, workload_of(1, jobs), make_cluster(1), engine=options)
    if kill or not jobs:
        expected = simulate(killer(), workload_of(1, jobs), make_cluster(1))
        assert format_jobs(found.ended_jobs) == format_jobs(expected.ended_jobs)


class Engine:
    """An engine by hand: tells events, keeps decisions."""

    def __init__(self, module: SchedulerModule, hosts: int) -> None:
        self.driver = ModuleDriver(module)
        described = [HostDescription(index, f"h{index}") for index in range(hosts)]
        begins = SimulationBegins(
            nb_resources=hosts,
            nb_compute_resources=hosts,
            config=EngineConfig(dynamic_jobs_enabled=True),
            compute_resources=described,
        )
        self.tell(0.0, begins)

    def tell(self, now: float, *events: Event) -> list[Decision]:
        reply = self.driver.exchange(Message(now, [Stamped(now, event) for event in events]))
        return [item.body for item in reply.events]

    def submit(self, now: float, *jobs: Job) -> list[Decision]:
        renamed = [each.renamed(f"w0!{each.id}") for each in jobs]
        return self.tell(now, *(JobSubmitted(each.id, each) for each in renamed))


ONE = HostSet.parse("0")


def test_a_job_that_ends_before_its_kill_arrives_is_not_run_again() -> None:
    module = killer()
    engine = Engine(module, 1)
    engine.submit(0.0, URGENT[0], job("W", 0, 1, 4, 99))
    assert engine.submit(2.0, URGENT[1]) == [KillJob(["w0!A"])]
    # A has ended by itself at that very moment.
    ended = JobCompleted("w0!A", COMPLETED_SUCCESSFULLY, 0, ONE)
    assert engine.tell(2.0, ended, JobKilled([])) == [ExecuteJob("w0!B", ONE)]
    # W starts right behind B: nothing is left of A in the plan.
    done = JobCompleted("w0!B", COMPLETED_SUCCESSFULLY, 0, ONE)
    assert engine.tell(5.0, done) == [ExecuteJob("w0!W", ONE)]
    rows = rows_of(module)
    assert rows["w0!A"][13:] == ("0", "", "")
    assert rows["w0!B"][4:10] == ("accepted", "", "", "", "", "6.000000")
    # W can be killed and gets the number 1; A is forgotten.
    (kill,) = engine.submit(7.0, job("C", 7, 1, 1, 8))
    assert kill == KillJob(["w0!W"])


def test_news_of_a_kill_may_take_time() -> None:
    engine = Engine(killer(), 1)
    engine.submit(0.0, URGENT[0])
    assert engine.submit(2.0, URGENT[1]) == [KillJob(["w0!A"])]
    # Something else happens first: B is due and has no host yet, D waits, nothing is killed twice.
    assert engine.submit(2.001, job("D", 2.001, 1, 3, 99)) == []
    killed = JobCompleted("w0!A", COMPLETED_KILLED, -1, ONE)
    decisions = engine.tell(2.002, killed, JobKilled(["w0!A"]))
    registered = [each for each in decisions if isinstance(each, RegisterJob)]
    assert [each.job_id for each in registered] == ["w0!A#1"]
    assert registered[0].job.fields == {**URGENT[0].fields, "id": "w0!A#1"}
    assert decisions[-1] == ExecuteJob("w0!B", ONE)
    again = registered[0].job
    assert engine.tell(2.003, JobSubmitted(again.id, again)) == []
    done = JobCompleted("w0!B", COMPLETED_SUCCESSFULLY, 0, ONE)
    (started,) = engine.tell(5.002, done)
    assert started in (ExecuteJob("w0!A#1", ONE), ExecuteJob("w0!D", ONE))


def test_registration_ends_only_when_no_kill_is_on_its_way() -> None:
    engine = Engine(killer(), 1)
    engine.submit(0.0, URGENT[0])
    engine.submit(2.0, URGENT[1])
    finished = Notify.of("registration_finished")
    assert engine.tell(2.0, Notify.of("no_more_static_job_to_submit")) == []
    killed = JobCompleted("w0!A", COMPLETED_KILLED, -1, ONE)
    assert engine.tell(2.0, killed, JobKilled(["w0!A"]))[-1] == finished
    done = JobCompleted("w0!B", COMPLETED_SUCCESSFULLY, 0, ONE)
    assert finished not in engine.tell(5.0, done)


@pytest.mark.parametrize("saves", [False, True])
def test_the_same_over_zeromq(saves: bool) -> None:
    hosts, workload = 4, workload_of(4, random_jobs(random.Random(7), 60))
    if saves:
        hosts, workload = 1, workload_of(1, SAVED)
    options = default_engine(killer())
    here = simulate(killer(tolerance_factor=2), workload, make_cluster(hosts))
    assert sum("#" in record.job.id for record in here.ended) > (1 if saves else 5)
    assert any("#" in record.job.profile for record in here.ended) == saves
    config = '{"kill_and_restart": true, "tolerance_factor": 2}'
    for acknowledge in (True, False):
        remote = EngineOptions(
            dynamic_jobs=options.dynamic_jobs,
            acknowledge_dynamic_jobs=acknowledge,
            profile_reuse=True,
            sched_config=config,
        )
        with (
            decision_process(scheduler_process("fqops")) as endpoint,
            RemoteDecisionSide(endpoint, timeout=240.0) as peer,
        ):
            there = Simulation(make_cluster(hosts), [workload], peer, remote)
            there.run()
        assert format_jobs(there.ended_jobs) == format_jobs(here.ended_jobs)


def test_the_contract_of_schedulers() -> None:
    assert check_scheduler(lambda: killer(tolerance_factor=2)) == 22


# Promises


def random_jobs(rng: random.Random, count: int) -> list[Job]:
    jobs, arrival = [], 0.0
    for index in range(count):
        arrival += rng.randint(0, 8)
        run_time = rng.choice([rng.randint(1, 40), rng.randint(1, 4), 0.3])
        kind = rng.random()
        spare = rng.choice([0, 2, 80]) * rng.random()
        deadline = None if kind < 0.15 else arrival + run_time + spare
        jobs.append(job(f"{index:03d}", arrival, rng.randint(1, 4), run_time, deadline))
    return jobs


OPTIONS = st.fixed_dictionaries(
    {
        "tolerance_factor": st.floats(0, 6),
        "slack_factor": st.sampled_from([1, 1.5, 3]),
        "tolerance": st.sampled_from(["fixed", "random"]),
        "max_kills_per_job": st.sampled_from([None, 0, 1, 2]),
        "kill_after": st.sampled_from([0.0, 1.0, 5.0]),
        "order": st.sampled_from(["least_laxity", "earliest_deadline"]),
        "on_failure": st.sampled_from(["next_point", "reject"]),
        "new_job": st.sampled_from(["in_order", "first"]),
        "restart_price": st.sampled_from([None, 0.5, 4.0]),
        "k_factor": st.integers(0, 5),
    }
)


@given(seed=st.integers(0, 10**6), options=OPTIONS)
def test_no_promise_is_broken_killed_jobs_included(seed: int, options: dict[str, Any]) -> None:
    jobs = random_jobs(random.Random(seed), 30)
    workload = workload_of(4, jobs)
    module = make_scheduler("fqops", {"kill_and_restart": True, **options})
    simulation = simulate(module, workload, make_cluster(4))
    outcomes = outcomes_of_simulation(simulation.ended_jobs, workload)
    rows = rows_of(module)
    assert len(rows) == len(jobs)
    for index, each in enumerate(jobs):
        row = rows[f"w0!{each.id}"]
        record = module.qos_log.record(f"w0!{each.id}")
        runs = [r for r in simulation.ended if r.local_id.partition("#")[0] == each.id]
        kills = int(row[13])
        assert kills == len(runs) - 1
        assert [r.state for r in runs[:-1]] == [COMPLETED_KILLED] * kills
        if options["max_kills_per_job"] is not None:
            assert kills <= options["max_kills_per_job"]
        wasted = sum(each.processors * (r.finish - r.start) for r in runs[:-1])
        assert (record.wasted_processor_seconds or 0.0) == pytest.approx(wasted)
        assert all(r.finish - r.start >= options["kill_after"] - 1e-6 for r in runs[:-1])
        if outcomes.refused[index]:
            assert each.qos.deadline is not None
            assert record.admitted_deadline is None
            continue
        assert runs[-1].state == COMPLETED_SUCCESSFULLY
        assert runs[-1].finish - runs[-1].start == pytest.approx(each.estimate)
        if each.qos.deadline is not None:
            assert record.admitted_deadline is not None
            assert runs[-1].finish <= record.admitted_deadline + 1e-6


@given(seed=st.integers(0, 10**6), share=st.floats(0.3, 2.5))
def test_wrong_estimates_leave_no_job_waiting(seed: int, share: float) -> None:
    rng = random.Random(seed)
    jobs = random_jobs(rng, 30)
    workload = workload_of(4, jobs)
    for each in jobs:
        each.estimate *= share * (0.5 + rng.random())
        each.fields["qos"]["estimated_runtime"] = each.estimate
    simulation = simulate(killer(tolerance_factor=2), workload, make_cluster(4))
    outcomes = outcomes_of_simulation(simulation.ended_jobs, workload)
    assert len(outcomes.ids) == len(jobs)
    for record in simulation.ended:
        if record.state == COMPLETED_KILLED:
            stem, _, number = record.local_id.partition("#")
            again = f"w0!{stem}#{int(number or 0) + 1}"
            assert again in simulation.records


def test_the_verifier_agrees(tmp_path: Path) -> None:
    workload = workload_of(4, random_jobs(random.Random(4), 300))
    done = run_and_verify(
        killer(tolerance_factor=2, slack_factor=1.5), workload, out=tmp_path / "run"
    )
    assert done.violations == verify(done.result) == []
    killed = [record for record in done.simulation.ended if record.state == COMPLETED_KILLED]
    assert len(killed) > 20
    assert math.isclose(
        sum((r.finish - r.start) * r.job.processors for r in killed),
        sum(float(row[-1] or 0) for row in qos_rows(done.module.qos_log)),
    )


def test_the_command_line_switches_dynamic_jobs_on(cli: Any, tmp_path: Path) -> None:
    prefix = tmp_path / "run"
    options = ("--set", "kill_and_restart=true", "--set", "max_kills_per_job=2")
    found = cli("run", "fqops", *options, "--out", prefix)
    assert (found.exit_code, "rules hold" in found.err) == (0, True)
    result = read_run(prefix)
    again = [name for name in result.jobs["id"] if "#" in name]
    assert len(again) > 10
    assert result.qos is not None
    assert not set(again) & set(result.qos["id"])
    assert {name.rpartition("#")[2] for name in again} == {"1", "2"}
