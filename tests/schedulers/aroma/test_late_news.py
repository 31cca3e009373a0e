"""AROMA on platforms whose messages take their time: lateness within the grace changes no plan."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from qops_batsim.engine import Simulation
from qops_batsim.schedulers.aroma.work import share_done
from support.aroma_oracles import (
    SPEED,
    far_apart,
    machine,
    mixed_work,
    random_machine,
    records,
    run,
    work,
)

NEVER_REFUSED = ("dedicated", "best_effort")


def starts(simulation: Simulation) -> dict[str, float]:
    return {name: record.start for name, record in records(simulation).items()}


def lateness(simulation: Simulation) -> float:
    """Return by how much a promise is kept late at most (s), in real dates.

    Raises
    ------
    AssertionError
        An application that is never refused is, or a dedicated one is not alone.
    """
    latest = -math.inf
    ran = [record for record in simulation.ended if not math.isnan(record.start)]
    for record in simulation.ended:
        qos = record.job.qos
        assert qos is not None
        if math.isnan(record.start):
            assert qos.service_class not in NEVER_REFUSED
            continue
        first = "#" not in record.local_id
        if qos.service_class == "deadline" and qos.deadline is not None:
            latest = max(latest, record.finish - qos.deadline)
        if qos.service_class == "high_priority" and first:
            latest = max(latest, record.start - record.submission_time - 5.0)
        if qos.service_class == "dedicated":
            for other in ran:
                if other is not record and other.hosts.mask & record.hosts.mask:
                    assert other.start >= record.finish or record.start >= other.finish
    return latest


# Dedicated applications 0, 1 and 2 take both hosts one after the other. Application 3 has a
# deadline that it keeps only after all of them, or in their place. Were 1 planned anew
# because its hosts come free some milliseconds late, 3 would have gone first.
#
#     0      10      20      30    35
#   0 | 0 0 0 | 1 1 1 | 2 2 2 | 3 3
#   1 | 0 0 0 | 1 1 1 | 2 2 2 | 3 3
@pytest.mark.parametrize("milliseconds", [0.0, 0.1, 5.0])
def test_an_application_keeps_its_place_when_hosts_come_free_late(milliseconds: float) -> None:
    dedicated = {"tasks": 2, "service_class": "dedicated"}
    last = {"at": 4, "tasks": 2, "seconds": 5, "service_class": "deadline", "deadline": 35.0}
    jobs = work(dedicated, {"at": 1, **dedicated}, {"at": 2, **dedicated}, last)
    platform = far_apart(machine([1.0, 1.0]), 1, milliseconds)
    simulation, module = run(jobs, platform)
    found = starts(simulation)
    assert [found[name] for name in "0123"] == pytest.approx([0, 10, 20, 30], abs=0.1)
    assert lateness(simulation) < 0.1
    assert module.scheduler.predictions["w0!3"].first == 35.0


@pytest.mark.parametrize("milliseconds", [0.1, 5.0])
@pytest.mark.parametrize("seed", range(12))
def test_promises_are_kept_within_the_grace(seed: int, milliseconds: float) -> None:
    jobs = mixed_work(seed, hosts=5, jobs=60, gap=(3.0, 8.0, 15.0)[seed % 3])
    platform = far_apart(random_machine(seed, 5), seed, milliseconds)
    simulation, _ = run(jobs, platform, reference_speed=SPEED)
    assert lateness(simulation) < 1.0


def test_the_plan_comes_along_before_small_delays_amount_to_the_grace() -> None:
    # Twenty applications follow each other, each a few milliseconds late; the grace is 50 ms.
    jobs = work(*({"at": at, "seconds": 3, "service_class": "dedicated"} for at in range(20)))
    platform = far_apart(machine([1.0]), 0, 3.0)
    simulation, _ = run(jobs, platform, grace=0.05)
    order = sorted(records(simulation).values(), key=lambda record: record.start)
    assert [record.local_id for record in order] == [str(index) for index in range(20)]
    assert all(0 < later.start - earlier.finish < 0.02 for earlier, later in pairwise(order))
    assert order[-1].start - 19 * 3 > 0.05  # in the end they are later than the grace


@pytest.mark.parametrize("late", [0.4, 3.0])
def test_what_is_late_by_the_grace_or_more_is_planned_around(late: float) -> None:
    # Application 0 says 10 s and takes longer; 1 is promised that it ends by 25 s, 2 follows.
    long = {"seconds": 10 + late, "estimated_runtime": 10.0, "service_class": "dedicated"}
    other = {"at": 2, "seconds": 10, "service_class": "deadline", "deadline": 25.0}
    jobs = work(long, other, {"at": 3, "seconds": 5, "service_class": "dedicated"})
    simulation, _ = run(jobs, far_apart(machine([1.0]), 0, 1.0), reference_speed=SPEED)
    found = starts(simulation)
    assert found["1"] == pytest.approx(10 + late, abs=0.02)
    assert found["2"] == pytest.approx(20 + late, abs=0.02)
    assert lateness(simulation) < 0.0


# 1 is planned for the end of 0 at 10 s when 0.1 s are left, and a message takes some 0.1 s.
def test_a_planned_start_that_is_sooner_than_messages_are_is_asked_for_in_time() -> None:
    long = {"seconds": 10, "service_class": "dedicated"}
    jobs = work(long, {"at": 9.7, "seconds": 5, "service_class": "dedicated"})
    simulation, _ = run(jobs, far_apart(machine([1.0]), 1, 100.0))
    assert starts(simulation)["1"] == pytest.approx(10, abs=1.0)


def test_without_latencies_the_grace_is_not_used() -> None:
    jobs = mixed_work(7, hosts=4, jobs=40)
    found = [starts(run(jobs, random_machine(7, 4), grace=grace)[0]) for grace in (0.0, 1.0, 60.0)]
    assert str(found[0]) == str(found[1]) == str(found[2])


def test_the_rest_of_a_stopped_job_is_whole_whatever_the_digits_of_its_progress() -> None:
    assert share_done(0.25, 0.2499999) == 0.2499999  # told so with six decimals
    assert share_done(0.25, 0.24) == 0.2499995  # at least so much
    assert share_done(0.0, 0.1) == 0.0
    assert share_done(1 / 3, 0.2) == 1 / 3  # told with all digits
    assert share_done(None, 0.2) == 0.2
