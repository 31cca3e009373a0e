"""EASY's orders by name: drawn by hand, against the naive loop, and on whole logs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qops_batsim import Easy, InputError, Job, simulate
from qops_batsim.jobs import REJECTED
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.schedulers.job_orders import CHANGING, ORDERS, key_in
from qops_batsim.traces import read_trace
from qops_batsim.workload import Workload, delay_profile
from support.easy_oracle import KEYS, Request, easy_starts

every_order = pytest.mark.parametrize("order", KEYS)


def workload_of(machine: int, jobs: list[Request]) -> Workload:
    listed, profiles = [], {}
    for job in jobs:
        name, profile = delay_profile(job.run_time)
        profiles[name] = profile
        asked = {"id": job.name, "subtime": job.submission, "res": job.processors, "profile": name}
        asked |= {"walltime": job.estimate} | ({} if job.user is None else {"user": job.user})
        listed.append(Job.from_fields(asked, where=job.name))
    return Workload(jobs=listed, profiles=profiles, processors=machine)


def starts(workload: Workload, **options: Any) -> dict[str, float]:
    done = simulate(make_scheduler("easy", options), workload, make_cluster(workload.processors))
    return {each.local_id: each.start for each in done.ended if each.state != REJECTED}


def queue_of(*rows: tuple[int, float]) -> Workload:
    """Return jobs of so many processors and seconds that come while a runs on all four up to 10."""
    jobs = [Request("a", 0, 4, 10, 10)]
    names = zip("bcdefgh", rows, strict=False)
    jobs += [Request(name, 1 + i, *row, row[1]) for i, (name, row) in enumerate(names)]
    return workload_of(4, jobs)


# a runs on all four up to 10. b asks for 3 for 8 s, c 2 for 4 s, d 1 for 20 s.
#
#   fcfs b, c, d                    sjf c, b, d                   ljf d, b, c
#   |dddddddddddddddddddd|          |d...                         |dddddddddddddddddddd|
#   |bbbbbbbbcccc                  |.   bbbbbbbb                 |bbbbbbbbcccc
#   |bbbbbbbbcccc                  |ccccbbbbbbbb                 |bbbbbbbbcccc
#   |bbbbbbbb                      |ccccbbbbbbbb                 |bbbbbbbb
#   10       18                     10   14                       10       18
@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("fcfs", {"b": 10, "c": 18, "d": 10}),
        ("sjf", {"b": 14, "c": 10, "d": 10}),
        ("ljf", {"b": 10, "c": 18, "d": 10}),
        ("saf", {"b": 14, "c": 10, "d": 10}),
    ],
)
def test_orders_that_do_not_change(order: str, expected: dict[str, float]) -> None:
    found = starts(queue_of((3, 8), (2, 4), (1, 20)), order=order)
    assert found == {"a": 0, **expected}


# At 10 b has waited 9 s of 2, c 8 s of 1 and d 7 s of 7: expansion 5.5, 9 and 2; one at a time.
# At 11 it is 6 for b and 2.1 for d.
def test_largest_expansion_first() -> None:
    found = starts(queue_of((4, 2), (4, 1), (4, 7)), order="lxf")
    assert found == {"a": 0, "b": 11, "c": 10, "d": 13}


# The head b has the reservation at 10. With two processors free, c (2 for 9 s) comes first by
# arrival; shortest first, d (2 for 3 s) does, and after it e (2 for 4 s).
def test_the_order_behind_the_reservation_can_be_another_one() -> None:
    jobs = [Request("a", 0, 2, 10, 10), Request("b", 0, 4, 5, 5)]
    jobs += [Request("c", 0, 2, 9, 9), Request("d", 0, 2, 3, 3), Request("e", 0, 2, 4, 4)]
    # Jobs of one date arrive by name: a runs, b waits.
    plain = starts(workload_of(4, jobs))
    assert plain == {"a": 0, "b": 10, "c": 0, "d": 15, "e": 15}
    shortest = starts(workload_of(4, jobs), backfill_order="sjf")
    assert shortest == {"a": 0, "b": 10, "c": 15, "d": 0, "e": 3}


# Shortest first, one-second jobs arrive each second, so the long one b waits as long as they do;
# with patience of 5 s it goes first from 6 on.
def test_no_job_starves_with_a_bound() -> None:
    jobs = [Request("a", 0, 1, 2, 2), Request("b", 1, 1, 9, 9)]
    jobs += [Request(f"s{i:02}", 1 + i, 1, 1, 1) for i in range(20)]
    for bound, start in ((None, 22), (5.0, 6)):
        assert starts(workload_of(1, jobs), order="sjf", starvation_bound=bound)["b"] == start


def random_jobs(rng: random.Random, count: int, machine: int) -> list[Request]:
    jobs, date = [], 0
    for index in range(count):
        date += rng.choice([0, 0, 1, 3, 15])
        run_time = rng.choice([1, 1, 2, 5, 20, 60])
        estimate = run_time * rng.choice([1, 1, 2, 10])
        width = min(machine + 1, int(rng.paretovariate(0.9)))
        user = rng.choice(["a", "b", "c", None])
        jobs.append(Request(f"{index:05}", date, width, run_time, estimate, user))
    return jobs


@every_order
@pytest.mark.parametrize("behind", ["same", "sjf", "lxf"])
@pytest.mark.parametrize("bound", [None, 40.0])
def test_every_order_equals_the_naive_loop(order: str, behind: str, bound: float | None) -> None:
    for seed in range(3):
        rng = random.Random(f"{seed} {order}")
        machine = rng.choice([3, 8, 30])
        jobs = random_jobs(rng, 150, machine)
        expected = easy_starts(machine, jobs, order, behind, bound or float("inf"))
        options = {"order": order, "backfill_order": behind, "starvation_bound": bound}
        assert starts(workload_of(machine, jobs), **options) == expected
        assert len(expected) > 60


# Predicted run times


# One processor; a's user has run two jobs of 10 s each. a3 asks for 100 s, and is expected to take
# 10; so it goes before b, who asks for 50, shortest first.
def test_a_users_last_two_jobs_tell_how_long_the_next_one_runs() -> None:
    jobs = [Request(f"a{i}", 10 * i, 1, 10, 100, "a") for i in range(3)]
    jobs += [Request("b", 21, 1, 30, 50, "b"), Request("a3", 22, 1, 5, 100, "a")]
    options = {"order": "sjf", "run_times": "predicted"}
    assert starts(workload_of(1, jobs), order="sjf")["b"] == 30
    found = starts(workload_of(1, jobs), **options)
    assert (found["a3"], found["b"]) == (30, 35)


# Four processors: c, of a user whose jobs took 10 s, runs for 200 s on three. The head d (4) has
# its reservation at the predicted end, 40. At 50, c is expected a minute after that, and e of
# 45 s may start beside it; with the estimate of c, 1000 s, e would have started at 35.
def test_a_prediction_that_was_outlived_grows_by_a_minute() -> None:
    jobs = [Request(f"a{i}", 10 * i, 4, 10, 1000, "a") for i in range(2)]
    jobs += [Request("c", 30, 3, 200, 1000, "a"), Request("d", 31, 4, 10, 10, "d")]
    jobs += [Request("e", 35, 1, 45, 45, "e"), Request("f", 50, 4, 1, 1, "f")]
    assert starts(workload_of(4, jobs))["e"] == 35
    assert starts(workload_of(4, jobs), run_times="predicted")["e"] == 50


@every_order
@pytest.mark.parametrize("behind", ["same", "sjf"])
def test_every_order_equals_the_naive_loop_with_predictions(order: str, behind: str) -> None:
    for seed in range(3):
        rng = random.Random(f"{seed} {order} predicted")
        machine = rng.choice([3, 8, 30])
        jobs = random_jobs(rng, 150, machine)
        jobs = [job._replace(estimate=job.estimate * 40) for job in jobs]
        expected = easy_starts(machine, jobs, order, behind, predicts=True)
        options = {"order": order, "backfill_order": behind, "run_times": "predicted"}
        assert starts(workload_of(machine, jobs), **options) == expected
        assert expected != easy_starts(machine, jobs, order, behind)


LOGS = {
    "KTH-SP2-1996-2.swf.gz": 100,
    "CTC-SP2-1996-rebuilt.swf.gz": 338,
    "SDSC-SP2-1998-rebuilt.swf.gz": 128,
}


@pytest.mark.sweep
@pytest.mark.parametrize("order", [*KEYS, "easy++"])
@pytest.mark.parametrize("log", LOGS)
def test_every_order_equals_the_naive_loop_on_real_logs(log: str, order: str, shared: Path) -> None:
    workload = read_trace(shared / "traces" / log, processors=LOGS[log], first=5000).workload
    jobs = []
    for job in sorted(workload.jobs, key=lambda each: (each.submission_time, each.id)):
        seconds = float(workload.profiles[job.profile]["delay"])
        rest = job.submission_time, job.processors, seconds, job.estimate, job.user
        jobs.append(Request(job.id, *rest))
    if order == "easy++":
        expected = easy_starts(LOGS[log], jobs, behind="sjf", predicts=True)
        assert starts(workload, backfill_order="sjf", run_times="predicted") == expected
    else:
        expected = easy_starts(LOGS[log], jobs, order)
        assert starts(workload, order=order) == expected
    assert len(expected) == len(jobs)


def test_the_orders_of_the_options_are_those_of_the_queue() -> None:
    by_deadline = {"least_laxity", "earliest_deadline"}
    assert {*KEYS, *by_deadline, "own", "scheduled_start"} == set(ORDERS)
    for order, key in KEYS.items():
        job = Request("1", 50.0, 6, 80.0, 200.0)
        code = ORDERS.index(order)
        given = Job("1", 50.0, 6, "p", walltime=200.0)
        assert key_in(code, 30.0, given) == pytest.approx(key(80.0, job), rel=1e-15)
        changes = key(80.0, job) != key(90.0, job)
        assert changes == (order in CHANGING)


@pytest.mark.parametrize(
    ("order", "expected"), [("earliest_deadline", "cbd"), ("least_laxity", "bcd")]
)
def test_orders_by_deadline_are_those_of_the_deadline_schedulers(order: str, expected: str) -> None:
    # All ask for the whole machine, which a has up to 10; d has no deadline.
    workload = queue_of((4, 9), (4, 1), (4, 5))
    deadlines = {"b": 35.0, "c": 30.0}
    for job in workload.jobs:
        if job.id in deadlines:
            job.fields["qos"] = {"deadline": deadlines[job.id]}
    jobs = [Job.from_fields(job.fields, where=job.id) for job in workload.jobs]
    begun = starts(msgspec.structs.replace(workload, jobs=jobs), order=order)
    assert "".join(sorted("bcd", key=begun.__getitem__)) == expected


def test_a_class_with_a_key_has_no_named_order() -> None:
    class Widest(Easy):
        def key(self, job: Job) -> float:
            return -job.processors

    with pytest.raises(InputError, match=r"order is 'sjf', but Widest has a method key"):
        make_scheduler(Widest, {"order": "sjf"})
    # Its key orders who gets the reservation; behind it, the option does.
    jobs = [Request("a", 0, 2, 10, 10), Request("b", 0, 1, 2, 20), Request("c", 0, 1, 2, 2)]
    jobs.append(Request("d", 0, 4, 5, 5))
    workload = workload_of(3, jobs[:3])
    done = simulate(make_scheduler(Widest, {"backfill_order": "sjf"}), workload, make_cluster(3))
    assert {each.local_id: each.start for each in done.ended} == {"a": 0, "b": 0, "c": 2}
