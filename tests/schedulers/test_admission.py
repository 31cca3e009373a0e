"""The deadline schedulers end to end: drawn schedules, odd cases, and promises kept.

In the drawings, a column is a second and a row a processor; the date below is that of
the column. Unless said otherwise estimates are exact.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import Job, QosRequest, read_run, simulate, verify
from qops_batsim.jobs import REJECTED
from qops_batsim.measures import Verification
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.running import write_run
from qops_batsim.workload import Workload, delay_profile
from studies.islam2003.packed import packed_workload

SCHEDULERS = ["qops", "msb", "mrt"]
every_scheduler = pytest.mark.parametrize("scheduler", SCHEDULERS)


@dataclass
class Row:
    """A job; the estimate is exact unless given, or 0 for none."""

    arrival: float
    processors: int
    run_time: float
    deadline: float | None = None
    estimate: float | None = None
    walltime: float | None = None


@dataclass
class Outcome:
    starts: dict[str, float | None]
    finishes: dict[str, float]
    reasons: dict[str, str]
    admitted: dict[str, float | None]
    simulation: Any
    module: Any

    @property
    def refused(self) -> list[str]:
        return sorted(name for name, start in self.starts.items() if start is None)


def name_of(index: int) -> str:
    """A, B, C, ..., which is also the order of equal arrivals."""
    return chr(ord("A") + index) if index < 26 else f"a{index:03d}"


def workload_of(machine: int, rows: list[Row]) -> Workload:
    jobs, profiles = [], {}
    for index, row in enumerate(rows):
        name, profile = delay_profile(row.run_time)
        profiles[name] = profile
        estimate = row.run_time if row.estimate is None else row.estimate
        qos = QosRequest(deadline=row.deadline, estimated_runtime=estimate or None)
        job_id = name_of(index)
        jobs.append(Job(job_id, row.arrival, row.processors, name, row.walltime, qos))
    return Workload(jobs=jobs, profiles=profiles, processors=machine)


def run(scheduler: str, machine: int, rows: list[Row], **options: object) -> Outcome:
    module = make_scheduler(scheduler, options)
    simulation = simulate(
        module, workload_of(machine, rows), make_cluster(machine), allow_smaller_machine=True
    )
    log = module.qos_log
    ended = {record.job.id.removeprefix("w0!"): record for record in simulation.ended}
    return Outcome(
        {name: None if r.state == REJECTED else r.start for name, r in ended.items()},
        {name: r.finish for name, r in ended.items() if r.state != REJECTED},
        {name: log.record(f"w0!{name}").reason for name in ended},
        {name: log.record(f"w0!{name}").admitted_deadline for name in ended},
        simulation,
        module,
    )


# Drawn schedules

# One processor. At 2 A ends, B waits, and C asks; at 3 D asks.
#
#   qops |AACCDDDDB   C has less laxity than B and goes first, and so does D
#         0 2 4   8
#   msb  |AABCC       C behind B waits 1 s; before it, it would delay B by 2 s.
#         0 23        At 3, D before C makes C end at 9, D behind C ends at 9 itself.
REORDERED = [Row(0, 1, 2, 2), Row(1, 1, 1, 10), Row(2, 1, 2, 6), Row(3, 1, 4, 8)]


def test_qops_admits_by_reordering_what_msb_refuses() -> None:
    assert run("qops", 1, REORDERED).starts == {"A": 0, "B": 8, "C": 2, "D": 4}
    found = run("msb", 1, REORDERED)
    assert found.starts == {"A": 0, "B": 2, "C": 3, "D": None}
    assert "its own deadline (8 s) would be missed at each of" in found.reasons["D"]


# One processor. B: laxity 8, C: 12, D: 4, all submitted while A runs.
#
#   msb, at 2   |AACCBBBBB    the shorter C is cheaper before B
#   at 3        |AACCDDBBBBB  C runs; B ends at 11, in time
#   qops, mrt   |AABBBBBCC    B has less laxity, runs from 2 on, and D cannot end by 6
SHORT_FIRST = [Row(0, 1, 2, 11), Row(1, 1, 5, 13), Row(2, 1, 2, 14), Row(3, 1, 2, 6)]


def test_msb_takes_the_cheapest_position() -> None:
    assert run("msb", 1, SHORT_FIRST).starts == {"A": 0, "B": 6, "C": 2, "D": 4}
    for scheduler in ("qops", "mrt"):
        found = run(scheduler, 1, SHORT_FIRST)
        assert found.starts == {"A": 0, "B": 2, "C": 7, "D": None}
        # B runs until 7, so D would end at 9 even if it came next.
        assert found.reasons["D"].startswith("its own deadline (6 s) would be missed")


# Three processors. At 2, C before B would delay B by 3 s × 3 processors, so C goes behind
# B: 7 s × 1 processor. At 3, A ends and D asks. Before B, it delays B (9), but C moves
# forward beside D, from 9 to 3 (-6): the sum is 3. Behind B, D itself waits 6 s.
#
#   moves |AAACCCBBBBBB   delays |AAABBBBBBCCC
#         |AAADDDBBBBBB          |AAABBBBBBDDD
#         |AAA   BBBBBB          |AAABBBBBB
#          0  3  6               0  3     9
BESIDE = [Row(0, 3, 3, 3), Row(1, 3, 6, 14), Row(2, 1, 3, 13), Row(3, 1, 3, 13)]


def test_msb_counts_moves_to_the_front_or_delays_only() -> None:
    assert run("msb", 3, BESIDE).starts == {"A": 0, "B": 6, "C": 3, "D": 3}
    assert run("msb", 3, BESIDE, price="delays").starts == {"A": 0, "B": 3, "C": 9, "D": 9}


# One processor. At 3 B (laxity 15) and C (8) wait, and D asks, which has to start at 5.
#
#   by start     |AAAAADDDBBCCCC   C would end at 14, 2 s late; D is refused
#   least laxity |AAAAADDDCCCCBB   C before B ends at 12, in time
#                 0    5  8   12
REMOVED = [Row(0, 1, 5), Row(1, 1, 2, 20), Row(2, 1, 4, 12), Row(3, 1, 3, 8)]


def test_msb_may_place_what_a_position_removes_in_heuristic_order() -> None:
    assert run("msb", 1, REMOVED).starts == {"A": 0, "B": 5, "C": 7, "D": None}
    for order in ("least_laxity", "earliest_deadline"):
        found = run("msb", 1, REMOVED, order=order)
        assert found.starts == {"A": 0, "B": 12, "C": 8, "D": 5}


# One processor. C (5 s, deadline 8) has laxity 3, B (1 s, deadline 7) 6.
#
#   in order |AACCCCCB   B would end at 8: one violation, or one step back
#   repaired |AABCCCCC   C ends at 8
ONE_REPAIR = [Row(0, 1, 2, 2), Row(1, 1, 1, 7), Row(2, 1, 5, 8)]


def test_k_factor_and_max_backtracks_allow_repairs() -> None:
    repaired = {"A": 0, "B": 2, "C": 3}
    assert run("qops", 1, ONE_REPAIR, k_factor=1).starts == repaired
    assert run("mrt", 1, ONE_REPAIR, max_backtracks=1).starts == repaired
    without = run("qops", 1, ONE_REPAIR, k_factor=0)
    assert without.refused == ["C"]
    assert without.reasons["C"] == (
        "the deadline of w0!B (7 s) would be missed at insertion point 0 of 1 waiting jobs"
    )
    without = run("mrt", 1, ONE_REPAIR, max_backtracks=0)
    assert without.refused == ["C"]
    assert without.reasons["C"] == "the deadline of w0!B (7 s) would be missed after 1 steps back"


# Two processors. All but A (0 to 4, one processor) wait. D: 2 processors, 5 s, until 11.
#
#   least laxity      |AAAA  DDDDDBBB      at 3, B has laxity 11, C runs
#                     |  CCCCDDDDDBBB
#                      0 2   6    11
#   earliest deadline |AAAABBBCCCC         at 2, B and C have the same deadline: B first,
#                     |    BBB             and D cannot end by 11 behind them or B.
ORDERED = [Row(0, 1, 4, 11), Row(1, 2, 3, 14), Row(2, 1, 4, 14), Row(3, 2, 5, 11)]


def test_the_order_of_qops_is_an_option() -> None:
    assert run("qops", 2, ORDERED).starts == {"A": 0, "B": 11, "C": 2, "D": 6}
    found = run("qops", 2, ORDERED, order="earliest_deadline")
    assert found.starts == {"A": 0, "B": 4, "C": 7, "D": None}


# One processor. E asks at 3; D, C and B wait, each of which came before those that waited. The late
# job goes to the head of the list, and all others stay in order (slide 13 of the talk).
#
#   E first       |AAAAEEDDCC     C would end at 10, and has deadline 9
#   C to the head |AAAACCEEDD     D would end at 10, and has deadline 9
#   D to the head |AAAADDCCEEBB
TALK = [Row(0, 1, 4), Row(1, 1, 2, 30), Row(2, 1, 2, 9), Row(2, 1, 2, 9), Row(3, 1, 2, 10)]


def test_qops_of_the_talk_puts_the_new_job_and_then_late_ones_to_the_head() -> None:
    talk = {"order": "scheduled_start", "undo": "all", "on_failure": "reject"}
    before = run("qops", 1, TALK[:4], **talk).starts
    assert before == {"A": 0, "B": 8, "C": 6, "D": 4}
    found = run("qops", 1, TALK, k_factor=2, **talk)
    assert found.starts == {"A": 0, "B": 10, "C": 6, "D": 4, "E": 8}
    assert run("qops", 1, TALK, k_factor=1, **talk).refused == ["E"]
    # The position of the new job is backed off: behind D one repair is enough.
    talk["on_failure"] = "next_point"
    assert run("qops", 1, TALK, k_factor=1, **talk).starts == found.starts


# Two processors, all asked for before 5. E has deadline 14, D 15 and C 16; by laxity they
# come as C, D, E, and however they are repaired, one is late. At the second insertion
# point, behind B, E may be the first; D then is repaired to come before C.
#
#   first |AAAAABEEDDDCCCCC
#         |AAAAA EE   CCCCC
#          0    5 6 8  11   16
NEW_FIRST = [Row(0, 2, 5, 15), Row(1, 1, 1, 12), Row(2, 2, 5, 16), Row(3, 1, 3, 15)]
NEW_FIRST += [Row(4, 2, 2, 14)]


def test_qops_may_place_the_new_job_before_what_is_placed_anew() -> None:
    assert run("qops", 2, NEW_FIRST).refused == ["E"]
    found = run("qops", 2, NEW_FIRST, new_job="first")
    assert found.starts == {"A": 0, "B": 5, "C": 11, "D": 8, "E": 6}


# Two processors. At 4 C and D wait, with laxities 12 and 13, and E asks, with 11.
#
#   point 0 |AAAAAA     EEEEE...   C and D behind E: one of the two is late, whichever
#           | BBBB      EEEEE      comes first, so repairs go round until K is used up
#   point 1 |AAAAAA   DDEEEEE      C keeps its place, and one repair puts D before E
#           | BBBBCCCCDDEEEEE
#            0    5   9 11   16
SECOND_POINT = [Row(0, 1, 6, 10), Row(1, 1, 4, 5), Row(2, 1, 4, 16), Row(3, 2, 2, 15)]
SECOND_POINT += [Row(4, 2, 5, 16)]


def test_qops_goes_on_to_the_next_insertion_point() -> None:
    found = run("qops", 2, SECOND_POINT)
    assert found.starts == {"A": 0, "B": 1, "C": 5, "D": 9, "E": 11}
    found = run("qops", 2, SECOND_POINT, on_failure="reject")
    assert found.starts == {"A": 0, "B": 1, "C": 5, "D": 9, "E": None}
    assert "at insertion point 0 of 2 waiting jobs" in found.reasons["E"]
    # Without any repair the second point fails as well.
    assert run("qops", 2, SECOND_POINT, k_factor=0).refused == ["E"]


# One processor. At 3 B and C wait, and D asks, with less laxity than both.
#
#   long D, point 0   |AAAADDDDDDBC    short D, point 0   |AAAADBBBBBBC
#   long D, point 1   |AAAABDDDDDDC    short D, point 1   |AAAABBBBBBDC
#                      0   4                               0   4
LONG_NEW = [Row(0, 1, 4), Row(1, 1, 1, 20), Row(2, 1, 1, 30), Row(3, 1, 6, 20)]
SHORT_NEW = [Row(0, 1, 4), Row(1, 1, 6, 40), Row(2, 1, 1, 42), Row(3, 1, 1, 12)]


@pytest.mark.parametrize("best_by", ["work", "response", "slack"])
def test_qops_may_take_the_best_insertion_point_or_the_last(best_by: str) -> None:
    assert run("qops", 1, LONG_NEW).starts == {"A": 0, "B": 10, "C": 11, "D": 4}
    second = {"A": 0, "B": 4, "C": 11, "D": 5}
    assert run("qops", 1, LONG_NEW, insertion="best", best_by=best_by).starts == second
    assert run("qops", 1, LONG_NEW, insertion="last").starts == second
    first = {"A": 0, "B": 5, "C": 11, "D": 4}
    assert run("qops", 1, SHORT_NEW, insertion="best", best_by=best_by).starts == first
    assert run("qops", 1, SHORT_NEW, insertion="last").starts == {"A": 0, "B": 4, "C": 11, "D": 10}


@pytest.mark.parametrize("scheduler", ["qops", "fqops"])
def test_figure_3_to_the_letter_rejects_where_any_insertion_point_fails(scheduler: str) -> None:
    rows = [*SHORT_NEW[:3], Row(3, 1, 1, 9)]
    assert run(scheduler, 1, rows, on_failure="reject").starts["D"] == 4
    assert run(scheduler, 1, rows, insertion="last").starts["D"] == 4
    literal = {"on_failure": "reject", "insertion": "last"}
    assert run(scheduler, 1, rows, **literal).refused == ["D"]
    # A second later both points have a plan, and that of the last one stands.
    rows = [*SHORT_NEW[:3], Row(3, 1, 1, 11)]
    assert run(scheduler, 1, rows, **literal).starts["D"] == 10


# Three processors, a column is 100 s. C asks at 1, and has to start at once. B can wait: with
# headroom of one processor beside it, it starts when A has ended.
#
#   0     |AA        0.34  |AABBB
#         |AA              |AA
#         |BBB             | CC
def headroom_for_c(deadline_of_b: float) -> list[Row]:
    return [Row(0, 2, 200, 200), Row(0, 1, 300, deadline_of_b), Row(100, 1, 200, 300)]


def test_jobs_that_can_wait_leave_headroom_for_those_that_cannot() -> None:
    assert run("qops", 3, headroom_for_c(900)).refused == ["C"]
    assert run("qops", 3, headroom_for_c(900), headroom=0.33).refused == ["C"]
    found = run("qops", 3, headroom_for_c(900), headroom=0.34)
    assert found.starts == {"A": 0, "B": 200, "C": 100}
    # In time to the second; a second less, and B is placed as without headroom.
    assert run("qops", 3, headroom_for_c(500), headroom=0.34).starts["B"] == 200
    assert run("qops", 3, headroom_for_c(499), headroom=0.34).starts["B"] == 0


def test_headroom_beside_a_wide_job_is_what_it_leaves() -> None:
    rows = [Row(0, 1, 100, 100), Row(0, 2, 100, 900)]
    assert run("qops", 3, rows).starts["B"] == 0
    assert run("qops", 3, rows, headroom=0.67).starts["B"] == 100
    # A minute of laxity is too little to wait, a second more is not.
    rows = [Row(0, 1, 10, 10), Row(0, 2, 100, 160)]
    assert run("qops", 3, rows, headroom=0.67).starts["B"] == 0
    rows = [Row(0, 1, 10, 10), Row(0, 2, 100, 161)]
    assert run("qops", 3, rows, headroom=0.67).starts["B"] == 10


def test_of_equal_prices_msb_takes_the_first_position() -> None:
    # |AAACCCCBBBB   B and C are alike; C came later, but B moves back for the same price.
    assert run("msb", 1, [Row(0, 1, 3), Row(1, 1, 4), Row(1, 1, 4)]).starts["C"] == 3


# Odd cases


@every_scheduler
def test_jobs_without_deadline_are_never_refused_for_their_own_sake(scheduler: str) -> None:
    # |AAAAABBBBBCC   D must not be delayed, and C gives way.
    rows = [Row(0, 1, 5), Row(1, 1, 5), Row(2, 1, 2, deadline=20), Row(3, 1, 3, deadline=8)]
    found = run(scheduler, 1, rows)
    assert found.refused == []
    assert found.starts["D"] == 5
    assert found.admitted == {"A": None, "B": None, "C": 20, "D": 8}


@every_scheduler
def test_a_deadline_that_is_impossible_at_arrival(scheduler: str) -> None:
    found = run(scheduler, 4, [Row(3, 1, 5, 7), Row(3, 1, 5, 8), Row(9, 1, 1, 2)])
    assert found.starts == {"A": None, "B": 3, "C": None}
    assert found.reasons["A"] == "needs 5 s and its deadline is 4 s away"
    assert found.reasons["C"] == "needs 1 s and its deadline is -7 s away"
    assert found.admitted == {"A": None, "B": 8, "C": None}


@every_scheduler
def test_a_job_wider_than_the_machine(scheduler: str) -> None:
    found = run(scheduler, 2, [Row(0, 3, 5, 100), Row(0, 2, 5, 5), Row(0, 0, 5, 5)])
    assert found.starts == {"A": None, "B": 0, "C": None}
    assert found.reasons["A"] == "asks for 3 processors, the machine has 2"
    assert found.reasons["C"] == "asks for no processor, the machine has 2"


@every_scheduler
def test_equal_arrivals_are_asked_about_in_the_order_of_their_ids(scheduler: str) -> None:
    # |AAAACCCC   A and C fill the time until 8, B comes in between and is refused.
    rows = [Row(0, 1, 4, 4), Row(0, 1, 4, 4), Row(0, 1, 4, 8), Row(0, 1, 4, 8)]
    found = run(scheduler, 1, rows)
    assert found.starts == {"A": 0, "B": None, "C": 4, "D": None}


@every_scheduler
def test_jobs_of_hardly_any_run_time(scheduler: str) -> None:
    # Shorter than what planning tells apart; Batsim accepts no delay of 0 s.
    rows = [Row(0, 1, 5, 5), Row(1, 1, 1e-7, 4), Row(1, 1, 1e-7, 5), Row(2, 1, 3, 8)]
    found = run(scheduler, 1, rows)
    assert found.starts == {"A": 0, "B": None, "C": 5, "D": pytest.approx(5, abs=1e-6)}


@every_scheduler
def test_an_estimate_of_an_instant_takes_its_place_in_the_plan(scheduler: str) -> None:
    rows = [Row(0, 2, 4, 4), Row(1, 2, 1e-3, 5), Row(1, 2, 3, 7.5)]
    found = run(scheduler, 2, rows)
    assert found.refused == []
    assert max(found.finishes["B"] - 5, found.finishes["C"] - 7.5) <= 0


@every_scheduler
def test_an_early_end_compresses_the_plan(scheduler: str) -> None:
    # |AAA.......BBBCCC planned, |AAABBBCCC done; D arrives when there is room again.
    rows = [Row(0, 1, 3, 10, estimate=10), Row(1, 1, 3, 13), Row(2, 1, 3, 16)]
    found = run(scheduler, 1, [*rows, Row(4, 1, 4, 18)])
    assert found.starts == {"A": 0, "B": 3, "C": 6, "D": 9}
    # While A is expected to run on, the plan is full until 16.
    assert run(scheduler, 1, [*rows, Row(2, 1, 4, 18)]).refused == ["D"]


@every_scheduler
def test_a_walltime_kill_is_an_end_like_another(scheduler: str) -> None:
    rows = [Row(0, 1, 50, 20, estimate=20, walltime=6), Row(1, 1, 5, 30)]
    assert run(scheduler, 1, rows).starts == {"A": 0, "B": 6}
    # Without estimate the walltime counts.
    rows = [Row(0, 1, 50, 6, estimate=0, walltime=6), Row(1, 1, 5, 11)]
    found = run(scheduler, 1, rows)
    assert found.starts == {"A": 0, "B": 6}
    assert found.finishes == {"A": 6, "B": 11}


@every_scheduler
def test_a_job_without_estimate_blocks_its_processors_for_ever(scheduler: str) -> None:
    rows = [Row(0, 1, 5, estimate=0), Row(1, 2, 5, 1000), Row(2, 1, 5, 7), Row(3, 1, 5, 100)]
    found = run(scheduler, 2, rows)
    assert found.starts == {"A": 0, "B": None, "C": 2, "D": 5}
    # And with a deadline it can promise nothing.
    found = run(scheduler, 2, [Row(0, 1, 5, 1000, estimate=0)])
    assert found.reasons["A"] == "needs an unlimited time and its deadline is 1000 s away"


@every_scheduler
def test_a_job_without_estimate_goes_behind_those_it_would_leave_without_a_start(
    scheduler: str,
) -> None:
    found = run(scheduler, 1, [Row(0, 1, 5), Row(1, 1, 4), Row(2, 1, 50, estimate=0)])
    assert found.starts == {"A": 0, "B": 5, "C": 9}


@every_scheduler
def test_a_job_that_outlives_its_estimate_makes_others_late_but_blocks_none(
    scheduler: str,
) -> None:
    # A is expected to end at 4 and runs until 20. B was promised 9 and cannot have it.
    # C and D come while B is late: their own promises are kept, C has no deadline.
    rows = [Row(0, 2, 20, 4, estimate=4), Row(1, 2, 5, 9)]
    rows += [Row(6, 1, 3), Row(7, 1, 3, 60), Row(7, 1, 3, 12)]
    found = run(scheduler, 2, rows)
    assert found.starts == {"A": 0, "B": 20, "C": 25, "D": 25, "E": None}


@every_scheduler
def test_a_start_that_was_put_off_is_in_the_plan_before_others_are_admitted(
    scheduler: str,
) -> None:
    # Nothing happens from 1 to 20, when A ends, B starts late, and C and D ask.
    rows = [Row(0, 2, 20, 4, estimate=4), Row(1, 2, 5, 9), Row(20, 1, 3, 23), Row(20, 2, 3, 28)]
    found = run(scheduler, 2, rows)
    assert found.starts == {"A": 0, "B": 20, "C": None, "D": 25}
    # B is late already; what must hold for it now is the end promised since.
    assert ("deadline of w0!B (25 s)" in found.reasons["C"]) == (scheduler != "msb")


@every_scheduler
def test_a_job_that_outlives_its_estimate_is_expected_until_its_walltime(scheduler: str) -> None:
    # At 5 it is known that A has not ended at 4: nothing can be promised before it is killed at 12.
    rows = [Row(0, 2, 12, 4, estimate=4, walltime=12), Row(5, 2, 4, 15), Row(5, 2, 4, 17)]
    found = run(scheduler, 2, rows)
    assert found.starts == {"A": 0, "B": None, "C": 12}


@every_scheduler
def test_promises_are_kept_in_another_order_where_that_of_the_starts_breaks_one(
    scheduler: str,
) -> None:
    # MSB has B start at 8 and C at 11. At 9 it is known that A runs until 12: B at 12 and C at 15
    # would be too late for C, C at 12 and B at 17 is not.
    rows = [
        Row(0, 2, 12, 12, estimate=8, walltime=12),
        Row(1, 2, 3, 40),
        Row(2, 2, 5, 18),
        Row(9, 2, 1, 9.5),
    ]
    found = run(scheduler, 2, rows)
    assert found.starts == {"A": 0, "B": 17, "C": 12, "D": None}


@every_scheduler
def test_a_late_job_is_held_to_its_promise_again_where_that_can_be_kept(scheduler: str) -> None:
    # At 11 A is expected until 22, so that C will be late; at 12 it has ended, and C can be kept.
    # At 13 nothing may be promised that makes it late once more.
    rows = [
        Row(0, 1, 12, estimate=10),
        Row(0, 1, 14),
        Row(1, 2, 5, 20),
        Row(11, 2, 1, 11.5),
        Row(13, 2, 5, 19),
    ]
    found = run(scheduler, 2, rows)
    assert found.refused == ["D", "E"]
    assert found.finishes["C"] == 19


@every_scheduler
def test_what_ran_late_is_forgotten(scheduler: str) -> None:
    rows = [Row(0, 1, 20, 4, estimate=4), Row(1, 1, 5, 9), Row(30, 1, 5, 35), Row(31, 1, 4, 39)]
    found = run(scheduler, 1, rows)
    assert found.starts == {"A": 0, "B": 20, "C": 30, "D": 35}


# Promises

ROWS = st.lists(
    st.builds(
        lambda gap, processors, run_time, laxity: (gap, processors, run_time, laxity),
        st.integers(0, 6),
        st.integers(1, 4),
        st.one_of(st.integers(1, 15), st.sampled_from([0.1, 0.3, 1e-3, 7.7])),
        st.one_of(st.none(), st.integers(0, 40), st.floats(0, 20)),
    ),
    min_size=1,
    max_size=25,
)
OPTIONS = {
    "qops": st.fixed_dictionaries(
        {
            "k_factor": st.integers(0, 5),
            "order": st.sampled_from(["least_laxity", "earliest_deadline"]),
            "on_failure": st.sampled_from(["next_point", "reject"]),
            "new_job": st.sampled_from(["in_order", "first"]),
        }
    ),
    "msb": st.fixed_dictionaries({"price": st.sampled_from(["moves", "delays"])}),
    "mrt": st.fixed_dictionaries({"max_backtracks": st.integers(0, 20)}),
}


def rows_of(shape: list[tuple[float, int, float, float | None]]) -> list[Row]:
    rows, arrival = [], 0.0
    for gap, processors, run_time, laxity in shape:
        arrival += gap
        deadline = None if laxity is None else arrival + run_time + laxity
        rows.append(Row(arrival, processors, run_time, deadline))
    return rows


def check_promises(found: Outcome, tolerance: float) -> None:
    """Assert that no admitted job ends later than promised by more than a tolerance (seconds)."""
    for name, deadline in found.admitted.items():
        if deadline is not None:
            assert found.finishes[name] <= deadline + tolerance


@every_scheduler
@given(data=st.data(), shape=ROWS)
def test_no_admitted_deadline_is_missed(
    scheduler: str, data: st.DataObject, shape: list[tuple[float, int, float, float | None]]
) -> None:
    rows = rows_of(shape)
    found = run(scheduler, 4, rows, **data.draw(OPTIONS[scheduler]))
    for index, row in enumerate(rows):
        name = name_of(index)
        if found.starts[name] is None:
            assert row.deadline is not None or "w0!" in found.reasons[name]
            assert found.reasons[name]
            assert found.admitted[name] is None
        else:
            assert found.admitted[name] == row.deadline
            if row.deadline is not None:
                assert found.finishes[name] <= row.deadline + 1e-6


@every_scheduler
@pytest.mark.parametrize("scale", [1e-7, 1e-6, 1e-5])
def test_jobs_of_a_microsecond_or_less_reserve_their_processors(
    scheduler: str, scale: float
) -> None:
    for seed in range(15):
        rng, rows, arrival = random.Random(seed), [], 0.0
        for _ in range(40):
            arrival += rng.choice([0, 0, 0, scale * rng.random()])
            run_time = scale * rng.choice([rng.random() + 1e-3, rng.randint(1, 10) / 10])
            deadline = arrival + run_time + scale * rng.choice([0, 1, 2, 4, 20])
            rows.append(Row(arrival, rng.randint(1, 4), run_time, deadline))
        found = run(scheduler, 4, rows)
        check_promises(found, 1.06e-6)


@every_scheduler
@given(shape=ROWS, shares=st.lists(st.floats(0.05, 1), min_size=25, max_size=25))
def test_early_ends_break_no_promise(
    scheduler: str, shape: list[tuple[float, int, float, float | None]], shares: list[float]
) -> None:
    rows = rows_of(shape)
    for row, share in zip(rows, shares, strict=False):
        row.estimate, row.run_time = row.run_time, row.run_time * share
    found = run(scheduler, 4, rows)
    check_promises(found, 1e-6)


@every_scheduler
@given(shape=ROWS, shares=st.lists(st.floats(0.3, 3), min_size=25, max_size=25))
def test_wrong_estimates_leave_no_job_waiting(
    scheduler: str, shape: list[tuple[float, int, float, float | None]], shares: list[float]
) -> None:
    rows = rows_of(shape)
    for row, share in zip(rows, shares, strict=False):
        row.estimate = row.run_time * share
    found = run(scheduler, 4, rows)
    assert len(found.starts) == len(rows)


@every_scheduler
def test_the_verifier_agrees(scheduler: str, tmp_path: Path) -> None:
    rng = random.Random(4)
    shape = [
        (rng.randint(0, 9), rng.randint(1, 4), rng.randint(1, 40), rng.randint(0, 60))
        for _ in range(300)
    ]
    workload = workload_of(4, rows_of(shape))
    module = make_scheduler(scheduler)
    simulation = simulate(module, workload, make_cluster(4))
    write_run(
        simulation,
        tmp_path / "run",
        scheduler=scheduler,
        module=module,
        workload="random",
        platform=None,
    )
    result = read_run(tmp_path / "run")
    workloads = {"w0": workload}
    assert {rule.name for rule in Verification(result, workloads=workloads).rules} >= {
        "admitted-deadline",
        "rejected-never-runs",
    }
    assert verify(result, workloads=workloads) == []
    states = [record.state for record in simulation.ended]
    assert 50 < states.count(REJECTED) < 250


@every_scheduler
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("laxity", [0.0, 0.5, 5.0])
def test_a_packed_set_is_admitted_whole(scheduler: str, seed: int, laxity: float) -> None:
    """Not as the paper has it: a job that fits when it arrives starts, whatever its laxity."""
    packed = packed_workload(8, 150, laxity, seed, run_times=(1, 300))
    simulation = simulate(scheduler, packed, make_cluster(8))
    found = {record.local_id: record.start for record in simulation.ended}
    assert found == {job.id: job.submission_time for job in packed.jobs}


def test_the_picture_of_an_admission_shows_what_qops_does() -> None:
    # docs/pictures/admission.svg; its jobs R, A, B, C are A, B, C, D here:
    #   before         B late in order of laxity     B before A
    #   ...AAAA...      ..CCCAAAA...                  ..CCC.AAAA
    #   ...AAAA...      ..CCCAAAA...                  ..CCC.AAAA
    #   RRRAAAABBB      RRR..AAAABBB                  RRRBBBAAAA
    #   RRRAAAABBB      RRR..AAAABBB                  RRRBBBAAAA
    #   0      7        0    5   9                    0  3  6
    picture = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "admission.svg"
    text, names = picture.read_text(), dict(zip("RABC", "ABCD", strict=True))
    drawn = [
        {names[job]: int(start) for job, start in re.findall(r"<title>(\w):.*? hours (\d+)", each)}
        for each in text.split("<g ")[1:]
    ]
    rows = [Row(0, 2, 3), Row(1, 4, 4, 11), Row(1, 2, 3, 10), Row(2, 2, 3, 9)]
    assert run("qops", 4, rows[:3]).starts == drawn[0] == {"A": 0, "B": 3, "C": 7}
    assert run("qops", 4, rows).starts == drawn[2] == {"A": 0, "B": 6, "C": 3, "D": 2}
    unrepaired = run("qops", 4, rows, k_factor=0, on_failure="reject")
    assert "w0!C" in unrepaired.reasons["D"]
    assert drawn[1] == {"A": 0, "B": 5, "C": 9, "D": 2}
