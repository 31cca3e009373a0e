"""Feedback, tolerance and artificial slack: the search, drawn schedules, and promises kept."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import Fqops, InputError, Job, check_scheduler, simulate
from qops_batsim import run as run_and_verify
from qops_batsim.jobs import REJECTED
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import SchedulerModule, make_scheduler
from qops_batsim.running.bisection import earliest_deadline
from qops_batsim.schedulers.fqops import FqopsOptions
from qops_batsim.workload import Workload, delay_profile
from support import admission_oracles as oracles
from support.admission_cases import random_case
from support.admission_oracles import Asking, Case
from support.asked_schedulers import free_by_second, starts_in, told
from support.exact_jobs import job, workload_of
from support.qos_rows import qos_rows

Many = Callable[[int], range]

# The search


class Earliest(NamedTuple):
    """The latest deadline tried in vain, and the one found (seconds)."""

    failed: float
    deadline: float


def ask_earliest(
    case: Case, retry_count: int, options: dict[str, Any]
) -> tuple[Earliest, dict[int, float] | None, list[int]]:
    scheduler = Fqops(FqopsOptions(retry_count=retry_count, **options))
    new = told(scheduler, case)
    deadline = scheduler.find_earliest(new)
    assert new.promise == new.target == case.new.deadline
    if deadline == math.inf and not can_be_planned(case, options):
        return Earliest(scheduler.failed, deadline), None, []
    return (
        Earliest(scheduler.failed, deadline),
        starts_in(scheduler),
        free_by_second(scheduler, case),
    )


def can_be_planned(case: Case, options: dict[str, Any]) -> bool:
    """Return whether the search finds a plan if the new job has no deadline."""
    return oracles.qops(oracles.with_deadline(case, math.inf), **options).starts is not None


def refused_cases(seed: str, count: int) -> list[tuple[Case, dict[str, Any]]]:
    """Random cases that QoPS refuses, with the options with which it does."""
    rng = random.Random(seed)
    cases: list[tuple[Case, dict[str, Any]]] = []
    while len(cases) < count:
        case = random_case(rng)
        options = {
            "order": rng.choice(["least_laxity", "earliest_deadline"]),
            "k_factor": rng.randint(0, 5),
            "on_failure": rng.choice(["next_point", "next_point", "reject"]),
            "new_job": rng.choice(["in_order", "first"]),
        }
        if case.new.deadline < math.inf and oracles.qops(case, **options).starts is None:
            cases.append((case, options))
    return cases


def test_the_search_agrees_with_its_oracle(many: Many) -> None:
    rng = random.Random(2)
    kinds = set()
    for case, options in refused_cases("feedback", len(many(600))):
        retry_count = rng.randint(0, 12)
        found, plan, free = ask_earliest(case, retry_count, options)
        expected = oracles.feedback(case, retry_count=retry_count, **options)
        assert plan == expected.starts, (case, options)
        if plan is None:
            kinds.add("none")
            continue
        assert (found.failed, found.deadline) == (expected.failed, expected.deadline)
        if found.deadline < math.inf:
            used = oracles.seconds_with(case, plan).used[case.now :]
            assert free == [case.machine - each for each in used], case
        oracles.check_plan(oracles.with_deadline(case, found.deadline), plan)
        kinds.add("never" if found.deadline == math.inf else "offer")
    assert kinds == {"none", "never", "offer"}


def test_the_offer_is_minimal_within_the_resolution(many: Many) -> None:
    """What bisection can promise, and what it does not: a linear scan tells.

    Always: a plan keeps the offer, and a deadline at most the resolution earlier was
    tried in vain. Where feasibility is monotone, that is where every later deadline than a
    feasible one is feasible too, nothing earlier by more than the resolution exists.
    QoPS is a heuristic, so feasibility is not always monotone; then an earlier feasible
    deadline may lie beyond an infeasible one, and the scan finds it.
    """
    retry_count, scanned, monotone = 5, 0, 0
    for case, options in refused_cases("minimal", len(many(160))):
        options["on_failure"], options["new_job"] = "next_point", "in_order"
        if oracles.qops(case, **options).starts is not None:
            continue
        found, plan, _ = ask_earliest(case, retry_count, options)
        requested = case.new.deadline
        if plan is None or found.deadline == math.inf:
            continue
        endless = oracles.qops(oracles.with_deadline(case, math.inf), **options).starts
        end = max(endless[case.new.slot] + case.new.estimate, requested)
        resolution = (end - requested) / 2**retry_count
        assert requested <= found.failed <= found.deadline <= end
        assert found.deadline - found.failed == pytest.approx(resolution)
        if found.deadline == requested:
            continue

        def feasible(deadline: float, case: Case = case, options: Any = options) -> bool:
            changed = oracles.with_deadline(case, deadline)
            return oracles.qops(changed, **options).starts is not None

        assert not feasible(found.failed)
        scan = [requested + step * resolution for step in range(1, 2**retry_count + 1)]
        verdicts = [feasible(deadline) for deadline in scan[:-1]] + [True]
        first = scan[verdicts.index(True)]
        scanned += 1
        assert first <= found.deadline + 1e-9
        if verdicts == sorted(verdicts):
            monotone += 1
            assert first == pytest.approx(found.deadline)
    # Not monotone is rare, and the promise above is not empty.
    assert scanned > len(many(160)) / 3
    assert scanned * 0.9 < monotone < scanned


def test_an_offer_is_not_earlier_than_its_plan_ends() -> None:
    """Sixty halvings come to where the search bears an end that is late by 1.05 µs."""
    offers = 0
    for case, options in refused_cases("fine", 40):
        found, plan, _ = ask_earliest(case, 60, options)
        if plan is not None and found.deadline < math.inf:
            offers += 1
            assert found.deadline >= plan[case.new.slot] + case.new.estimate
    assert offers > 10


# Two processors, at 1. A (8 s, until 12), B (5 s, until 16) and C (6 s, until 23) need both
# and wait for X. D needs one for 2 s, at once, which no plan can give.
#
#   by 3    |X.AAAAAAAABBBBBCCCCCC     D has least laxity and comes first, which leaves A, B
#           |DDAAAAAAAABBBBBCCCCCC     and C just enough time
#            1 3       11   16    22
#   by 17   |XAAAAAAAABBBBBDDCCCCCC    by 12.5, D comes behind A in the order of laxity, and
#           |.AAAAAAAABBBBB..CCCCCC    D or B is late, so halving goes on behind that
#            12       10   15 17   23
OVERLOOKED = Case(
    machine=2,
    now=1,
    running=((1, 2),),
    waiting=(
        (Asking(slot=0, processors=2, estimate=8, deadline=12), 2),
        (Asking(slot=2, processors=2, estimate=5, deadline=16), 10),
        (Asking(slot=1, processors=2, estimate=6, deadline=23), 15),
    ),
    new=Asking(slot=3, processors=1, estimate=2, deadline=2),
)


def test_halving_may_overlook_a_much_earlier_deadline() -> None:
    options = {"order": "least_laxity", "k_factor": 5}
    found, plan, _ = ask_earliest(OVERLOOKED, 10, options)
    assert plan == {0: 2, 2: 10, 3: 15, 1: 17}
    assert found.deadline == pytest.approx(17, abs=21 / 1024)
    early = oracles.with_deadline(OVERLOOKED, 3)
    starts = oracles.qops(early, **options, on_failure="next_point", new_job="in_order").starts
    assert starts == {3: 1, 0: 3, 2: 11, 1: 16}


def fqops(**options: Any) -> Any:
    """Return FQoPS as an engine calls it."""
    return make_scheduler(Fqops(FqopsOptions(**options)))


# Drawn schedules. A column is a second and a row a processor.


def module_run(machine: int, jobs: list[Job], module: SchedulerModule) -> dict[str, Any]:
    simulation = simulate(module, workload_of(machine, jobs), make_cluster(machine))
    return {
        record.local_id: None if record.state == REJECTED else record.start
        for record in simulation.ended
    } | {"metadata": {record.local_id: record.metadata for record in simulation.ended}}


# One processor. B asks at 2 to end by 6, but A runs until 8.
#
#   |AAAAAAAABBB    B ends at 11 at the earliest, 9 s after its arrival, not 4.
#    0 2     8  11  Halving 6 .. 11: everything before 11 fails.
LATER = [job("A", 0, 1, 8, 8), job("B", 2, 1, 3, 6)]


def test_an_offer_is_made_and_noted_whether_it_is_taken_or_not() -> None:
    module = fqops(tolerance_factor=2.25)
    found = module_run(1, LATER, module)
    assert found["B"] == 8
    record = module.qos_log.record("w0!B")
    assert (record.offered_deadline, record.admitted_deadline) == (11, 11)
    assert record.reason == (
        "its own deadline (6 s) would be missed at insertion point 0 of 0 waiting jobs; "
        "the offer was taken"
    )
    assert found["metadata"] == {"A": "", "B": "offered_deadline=11.000000;decision=accepted"}

    module = fqops(tolerance_factor=2.2)
    found = module_run(1, LATER, module)
    assert found["B"] is None
    record = module.qos_log.record("w0!B")
    assert (record.offered_deadline, record.admitted_deadline) == (11, None)
    assert record.reason.endswith("; the offered deadline 11 s was not taken")
    assert found["metadata"]["B"] == "offered_deadline=11.000000;decision=rejected"
    rows = {row[0]: row for row in qos_rows(module.qos_log)}
    assert rows["B"][2:5] == ("6.000000", "11.000000", "rejected")
    assert rows["A"][2:5] == ("8.000000", "", "accepted")


def test_the_tolerance_of_a_job_and_a_function_of_ones_own() -> None:
    tolerant = [LATER[0], job("B", 2, 1, 3, 6, factor=3)]
    assert module_run(1, tolerant, fqops())["B"] == 8
    asked = []

    def accepts(job: Job, offered: float) -> bool:
        asked.append((job.id, offered))
        return True

    assert module_run(1, LATER, make_scheduler(Fqops(accepts=accepts)))["B"] == 8
    assert asked == [("w0!B", 11)]


# One processor. B (5 s, at 2) is offered not 11, the earliest end behind A, but
# 2 + 1.5 × 9 = 15.5. C asks at 3 for 2 s until 10.
#
#   |AAAAAACCBBBBB     with slack 1.5, B may wait for C; without, C is refused
#    0     6 8   13
SLACK = [job("A", 0, 1, 6, 6), job("B", 2, 1, 5, 8), job("C", 3, 1, 2, 10)]


def test_artificial_slack_leaves_room_for_later_jobs() -> None:
    module = fqops(tolerance_factor=4)
    found = module_run(1, SLACK, module)
    assert (found["B"], found["C"]) == (6, 11)
    assert module.qos_log.record("w0!C").offered_deadline == 13
    module = fqops(tolerance_factor=4, slack_factor=1.5)
    found = module_run(1, SLACK, module)
    assert (found["B"], found["C"]) == (8, 6)
    record = module.qos_log.record("w0!B")
    assert (record.offered_deadline, record.admitted_deadline) == (15.5, 15.5)


# Three processors, all of which every job wants. D (9 s, at 2, by 16) would make itself late,
# and is offered 27.2, the earliest end 23 with slack, for which the search finds no plan: there
# it would be C that is late. So the plan for 23 is kept. Who stood in the way is still D.
FALLBACK = [job("A", 0, 3, 7, 27), job("B", 0, 3, 6, 26), job("C", 1, 3, 2, 23)]
FALLBACK += [job("D", 2, 3, 9, 16)]


def test_where_the_search_overlooks_the_plan_with_slack_the_earlier_one_is_kept() -> None:
    module = fqops(tolerance_factor=20, slack_factor=1.2, k_factor=0)
    assert module.keep_decisions()
    found = module_run(3, FALLBACK, module)
    offered = module.qos_log.record("w0!D").offered_deadline
    assert offered is not None
    asks_at_once = [*FALLBACK[:3], job("D", 2, 3, 9, offered)]
    assert module_run(3, asks_at_once, make_scheduler("qops", {"k_factor": 0}))["D"] is None
    assert found["D"] + 9 <= (offered - 2) / 1.2 + 2 + 1e-6
    assert module.qos_log.record("w0!D").admitted_deadline == offered
    events = [json.loads(line) for line in module.decision_lines()]
    (event,) = (each for each in events if (each["event"], each["job"]) == ("admitted", "w0!D"))
    assert event["reason"].startswith("its own deadline (16 s) would be missed")
    assert event["blamed"] == "w0!D"


def test_a_tolerance_below_the_slack_drops_a_job_at_once() -> None:
    module = fqops(tolerance_factor=1.4, slack_factor=1.5)
    found = module_run(1, SLACK, module)
    assert found["B"] is None
    record = module.qos_log.record("w0!B")
    assert record.offered_deadline is None
    assert record.reason.endswith(
        "no offer is worth making: the tolerance factor 1.4 is below the slack factor 1.5"
    )


def test_what_is_impossible_on_an_empty_machine_gets_an_offer_too() -> None:
    module = fqops(tolerance_factor=3)
    assert module_run(1, [job("A", 0, 1, 8, 5)], module)["A"] == 0
    assert module.qos_log.record("w0!A").admitted_deadline == 8


def test_behind_a_job_without_estimate_nothing_can_be_offered() -> None:
    endless = Job("A", 0.0, 1, "delay_9", qos=None)
    other = job("B", 1, 1, 3, 5)
    profiles = {"delay_9": {"type": "delay", "delay": 9}, **dict([delay_profile(3)])}
    workload = Workload(jobs=[endless, other], profiles=profiles, processors=1)
    module = fqops(tolerance_factor=100)
    simulate(module, workload, make_cluster(1))
    record = module.qos_log.record("w0!B")
    assert record.offered_deadline is None
    assert record.reason.endswith("; no deadline can be offered")


def test_an_offer_later_than_any_date_is_none() -> None:
    # A runs for 3,000,000 s, so that with slack B would be offered 3e12 s; a deadline
    # in a workload or in a run's files is at most 1e12 s.
    jobs = [job("A", 0, 1, 3e6, 3e6), job("B", 2, 1, 3, 6, factor=1e30)]
    module = fqops(slack_factor=1e6)
    assert module_run(1, jobs, module)["B"] is None
    record = module.qos_log.record("w0!B")
    assert (record.offered_deadline, record.admitted_deadline) == (None, None)
    assert record.reason.endswith(
        "no deadline can be offered: 3000001000002 s is later than any date"
    )
    module = fqops(slack_factor=1e5)
    assert module_run(1, jobs, module)["B"] == 3e6


@pytest.mark.parametrize("option", ["tolerance_factor", "slack_factor", "kill_after"])
def test_options_are_finite_so_that_a_run_can_be_described(option: str) -> None:
    # JSON, in which a run and its decisions are described, has no infinity.
    with pytest.raises(InputError, match=rf"option {option} is Infinity"):
        make_scheduler("fqops", {option: math.inf})


def test_the_resolution_of_offers_is_an_option() -> None:
    # A gap of 2 s at 4, too short for C (3 s, due at 5), which can end at 9 behind B.
    #   |AAAA  BBBCCC   or, halved once, at 5 + (12 - 5) / 2 = 8.5: not feasible
    jobs = [job("A", 0, 1, 4, 4), job("B", 1, 1, 5, 9), job("C", 2, 1, 3, 6)]
    offers = {}
    for retry_count in (0, 1, 3, 10):
        module = fqops(retry_count=retry_count)
        module_run(1, jobs, module)
        offers[retry_count] = module.qos_log.record("w0!C").offered_deadline
    assert offers == {0: 12, 1: 12, 3: 12, 10: 12}
    # With a plan that can change, the offer comes down to what B's laxity allows.
    jobs[1] = job("B", 1, 1, 5, 20)
    jobs[2] = job("C", 2, 1, 3, 6.5)
    for retry_count in (0, 1, 3, 10):
        module = fqops(retry_count=retry_count)
        module_run(1, jobs, module)
        offers[retry_count] = module.qos_log.record("w0!C").offered_deadline
    assert offers == {0: 12, 1: 9.25, 3: 7.1875, 10: pytest.approx(7, abs=5.5 / 1024)}


def test_the_contract_of_schedulers() -> None:
    assert check_scheduler(lambda: fqops(tolerance_factor=3, slack_factor=2)) == 22


# Promises

JOBS = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.integers(1, 4),
        st.one_of(st.integers(1, 15), st.sampled_from([0.1, 0.3, 1e-3, 7.7])),
        st.one_of(st.none(), st.integers(-3, 20), st.floats(0, 20)),
    ),
    min_size=1,
    max_size=25,
)
OPTIONS = st.fixed_dictionaries(
    {
        "tolerance_factor": st.floats(0, 10),
        "slack_factor": st.sampled_from([1, 1.5, 3]),
        "tolerance": st.sampled_from(["fixed", "random"]),
        "retry_count": st.integers(0, 12),
        "k_factor": st.integers(0, 5),
        "order": st.sampled_from(["least_laxity", "earliest_deadline"]),
        "on_failure": st.sampled_from(["next_point", "reject"]),
        "new_job": st.sampled_from(["in_order", "first"]),
    }
)


def jobs_of(shape: list[tuple[float, int, float, float | None]]) -> list[Job]:
    jobs, arrival = [], 0.0
    for index, (gap, processors, run_time, laxity) in enumerate(shape):
        arrival += gap
        deadline = None if laxity is None else arrival + run_time + laxity
        jobs.append(job(f"{index:03d}", arrival, processors, run_time, deadline))
    return jobs


@given(shape=JOBS, options=OPTIONS)
def test_no_accepted_offer_is_missed(
    shape: list[tuple[float, int, float, float | None]], options: dict[str, Any]
) -> None:
    jobs = jobs_of(shape)
    module = make_scheduler("fqops", options)
    simulation = simulate(module, workload_of(4, jobs), make_cluster(4))
    tolerance = module.scheduler.tolerance
    for record in simulation.ended:
        noted = module.qos_log.record(record.job.id)
        deadline = record.job.qos.deadline
        if deadline is None:
            assert record.state != REJECTED
            continue
        if noted.offered_deadline is not None:
            assert noted.offered_deadline > deadline
            # The requested deadline could not be kept, so the offer decides.
            assert tolerance(record.job, noted.offered_deadline) == (record.state != REJECTED)
        if record.state == REJECTED:
            assert noted.admitted_deadline is None
            assert noted.reason
        else:
            assert noted.admitted_deadline == (noted.offered_deadline or deadline)
            assert record.finish <= noted.admitted_deadline + 1e-6


@given(shape=JOBS, order=st.sampled_from(["least_laxity", "earliest_deadline"]))
def test_without_tolerance_everything_is_as_with_qops(
    shape: list[tuple[float, int, float, float | None]], order: str
) -> None:
    """Up to a plan that QoPS overlooks, and that turns up when it plans without deadline."""
    jobs = jobs_of(shape)
    plain, with_feedback = (
        make_scheduler("qops", {"order": order}),
        fqops(order=order, tolerance_factor=1),
    )
    starts = []
    for module in (plain, with_feedback):
        simulation = simulate(module, workload_of(4, jobs), make_cluster(4))
        starts.append({record.job.id: record.start for record in simulation.ended})
    verdicts = [{key: math.isnan(start) for key, start in found.items()} for found in starts]
    differing = [key for key in verdicts[0] if verdicts[0][key] != verdicts[1][key]]
    first = min(differing, default=None)
    if first is None:
        assert repr(sorted(starts[0].items())) == repr(sorted(starts[1].items()))
    else:
        assert verdicts[0][first]
        assert with_feedback.qos_log.record(first).offered_deadline is None


def test_the_verifier_agrees(tmp_path: Path) -> None:
    rng = random.Random(4)
    shape = [
        (rng.randint(0, 9), rng.randint(1, 4), rng.randint(1, 40), rng.randint(0, 60))
        for _ in range(150)
    ]
    workload = workload_of(4, jobs_of(shape))
    options = {"tolerance_factor": 3, "tolerance": "random", "seed": 3}
    done = run_and_verify("fqops", workload, settings=options, out=tmp_path / "run")
    assert done.violations == []
    decisions = [(row[3] != "", row[4]) for row in qos_rows(done.module.qos_log)]
    for kind in ((True, "accepted"), (True, "rejected"), (False, "accepted")):
        assert decisions.count(kind) > 5


def test_two_deadlines_without_a_number_between_them_are_not_halved() -> None:
    """At 2^53 s only even numbers are floats: the middle of two neighbours is one of them."""
    low, asked = 2.0**53, []

    def ask(deadline: float) -> bool | None:
        asked.append(deadline)
        assert len(asked) < 100
        return deadline > low or None

    found = earliest_deadline(
        ask, low, low + 64.0, resolution=lambda _: 0.0, planned_end=lambda _: math.inf
    )
    assert found == (low + 2.0, True)
