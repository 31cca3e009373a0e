"""Stories of jobs in drawn runs."""

from __future__ import annotations

import random

import pytest

from qops_batsim import InputError, explain, run
from qops_batsim.advice import Explanation, PriceList
from qops_batsim.advice.charge_report import price_list
from qops_batsim.advice.explain import PlainExplanation, explain_from_files, explain_job
from qops_batsim.cli.explain import _plain_rows, _rows
from qops_batsim.cli.texts import fate_text
from qops_batsim.economics import Categories, SlowdownTable
from qops_batsim.economics.charges import CategorySlowdown
from qops_batsim.workload import write_workload
from support.changed_runs import allow_changes
from support.decision_runs import Row, exact, history_of, random_workload, run_files, workload_of

# Very short sequential jobs have a slowdown of 6; nothing else is known.
PRICES = PriceList(
    SlowdownTable(
        categories=Categories(),
        bound=None,
        slowdowns=(CategorySlowdown(category="very-short-sequential", jobs=1, mean=6.0),),
    )
)


def story(folder, scheduler: str, job: str, rows: list[Row], **options: object) -> Explanation:
    tolerance = options.pop("tolerance", None)
    history = history_of(scheduler, workload_of(1, rows), folder, **options)
    assert tolerance is None or isinstance(tolerance, float)
    return explain_job(history, f"w0!{job}", PRICES, tolerance=tolerance)


# One processor. A runs until 4, B waits from 1 on: promised 4 to 8, by 9. At 2 C asks for 3 s
# by 8: between A and B it would end at 7, but B at 11; behind B it ends at 11 itself.
#
#   |AAAABBBB
#    0   4   8
REFUSED = [exact(0, 1, 4, 4), exact(1, 1, 4, 9), exact(2, 1, 3, 8)]


def test_a_refused_job(tmp_path) -> None:
    found = story(tmp_path, "mrt", "C", REFUSED)
    assert found.outcome == "refused"
    assert found.requested_deadline == 8
    assert "the deadline of w0!B (9 s) would be missed" in found.reason
    assert found.blamed is not None
    blamed = found.blamed
    assert (blamed.job, blamed.running, blamed.start, blamed.end, blamed.deadline) == (
        "w0!B", False, 4, 8, 9,
    )  # fmt: skip
    assert [each.job for each in found.in_the_way] == ["w0!A", "w0!B"]
    assert found.free_processors == 0
    assert found.promises == []
    assert [each.job for each in found.waited_for] == ["w0!B", "w0!A"]
    # Behind B: from 8 to 11, which is 9 s after its submission, or 3 times its run time.
    assert found.earliest is not None
    assert (found.earliest.deadline, found.earliest.start, found.earliest.end) == (11, 8, 11)
    assert found.earliest.price is not None
    assert (found.earliest.price.resource, found.earliest.price.qos) == (3, 2)
    # What was asked for, 6 s, would have cost 6 / 2.
    assert found.price is not None
    assert found.price.qos == 3
    assert found.latest_accepted == 8
    assert found.cheapest is None


def test_the_cheapest_deadline_is_the_latest_that_the_user_takes(tmp_path) -> None:
    found = story(tmp_path, "mrt", "C", REFUSED, tolerance=2.0)
    assert found.latest_accepted == 2 + 2 * 6
    assert found.cheapest is not None
    assert found.cheapest.deadline == 14
    assert found.cheapest.price is not None
    assert found.cheapest.price.qos == pytest.approx(6 / 4)
    # 1.5 times 6 s is exactly the earliest deadline.
    found = story(tmp_path, "mrt", "C", REFUSED, tolerance=1.5)
    assert found.cheapest == found.earliest


def test_an_offer_that_was_taken_and_one_that_was_not(tmp_path) -> None:
    found = story(tmp_path, "fqops", "C", REFUSED, tolerance_factor=2.0)
    assert found.outcome == "ended"
    assert found.admitted_deadline == found.offered_deadline == pytest.approx(11, abs=0.01)
    assert "would be missed" in found.reason
    assert found.latest_accepted == 14
    assert (found.start, found.end, found.waited) == (8, 11, 6)
    found = story(tmp_path, "fqops", "C", REFUSED, tolerance_factor=1.1)
    assert found.outcome == "refused"
    assert found.offered_deadline == pytest.approx(11, abs=0.01)
    assert found.admitted_deadline is None
    assert found.cheapest is None


# One processor. B waits for A, then C goes before it, then A ends early.
#
#   expected |AAAAAACCBBBB    real |AAA CCBBBB
#             0     6 8             0 2   4
def test_a_delayed_job(tmp_path) -> None:
    rows: list[Row] = [(0, 1, 2, None, 6), exact(1, 1, 4, 20), exact(1, 1, 2, 9)]
    found = story(tmp_path, "qops", "B", rows)
    assert found.outcome == "ended"
    assert [(each.date, each.start, each.cause, each.by) for each in found.promises] == [
        (1, 6, "own admission", []),
        (1, 8, "admission", ["w0!C"]),
        (2, 4, "early_end", ["w0!A"]),
    ]
    assert [each.job for each in found.waited_for] == ["w0!A"]
    assert [each.job for each in found.in_the_way] == ["w0!A"]
    assert (found.start, found.end, found.waited, found.expected_end) == (4, 8, 3, 8)
    assert found.admitted_deadline == 20


def test_a_chain_of_jobs_that_had_to_end_first(tmp_path) -> None:
    rows = [exact(0, 1, 4, 4), exact(1, 1, 4, 9), exact(2, 1, 3, 99)]
    found = story(tmp_path, "qops", "C", rows)
    assert [(each.job, each.running) for each in found.waited_for] == [
        ("w0!B", False),
        ("w0!A", True),
    ]


def test_a_job_that_starts_at_once(tmp_path) -> None:
    found = story(tmp_path, "qops", "A", REFUSED)
    assert (found.outcome, found.start, found.waited) == ("ended", 0, 0)
    assert found.in_the_way == []
    assert found.waited_for == []
    assert found.earliest is not None
    assert found.earliest.deadline == 4


def test_a_killed_job_and_the_one_it_was_killed_for(tmp_path) -> None:
    rows = [exact(0, 1, 6, 20), exact(2, 1, 3, 5)]
    killed = story(tmp_path, "fqops", "A", rows, kill_and_restart=True)
    (kill,) = killed.kills
    assert (kill.date, kill.by, kill.again, kill.wasted) == (2, "w0!B", "w0!A#1", 2)
    assert [(each.date, each.start, each.cause) for each in killed.promises] == [
        (0, 0, "own admission"),
        (2, 5, "killed"),
    ]
    assert (killed.outcome, killed.start, killed.end) == ("ended", 5, 11)
    urgent = story(tmp_path, "fqops", "B", rows, kill_and_restart=True)
    assert urgent.killed_for_it == ["w0!A"]
    assert urgent.earliest is not None
    assert urgent.earliest.killed == ["w0!A"]


def test_jobs_too_wide_or_without_estimate(tmp_path) -> None:
    wide = story(tmp_path, "qops", "A", [exact(0, 2, 4, 9)])
    assert (wide.outcome, wide.earliest) == ("refused", None)
    assert wide.reason == "asks for 2 processors, the machine has 1"
    rows: list[Row] = [(0, 1, 3, None, float("inf"))]
    unknown = story(tmp_path, "qops", "A", rows)
    assert (unknown.outcome, unknown.price, unknown.earliest) == ("ended", None, None)


def test_an_artificial_deadline_costs_nothing(tmp_path) -> None:
    import msgspec

    workload = workload_of(1, [exact(0, 1, 4, 9)])
    job = workload.jobs[0]
    job.qos = msgspec.structs.replace(job.qos, has_user_deadline=False)
    found = explain_job(history_of("qops", workload, tmp_path), "w0!A", PRICES)
    assert found.price is not None
    assert found.price.qos == 0


@pytest.mark.parametrize("scheduler", ["qops", "msb", "fqops"])
def test_every_job_of_random_runs_can_be_explained(scheduler: str, tmp_path) -> None:
    outcomes = set()
    for seed in range(6):
        history = history_of(scheduler, random_workload(random.Random(seed)), tmp_path)
        for job in history.jobs:
            found = explain_job(history, job, PriceList(None, "not known"))
            outcomes.add(found.outcome)
            assert (found.start is None) == (found.outcome == "refused")
            if found.cheapest is not None:
                assert found.earliest is not None
                assert found.latest_accepted is not None
                assert found.earliest.deadline <= found.cheapest.deadline + 1e-6
                assert found.cheapest.deadline <= found.latest_accepted + 1e-6
            if found.outcome == "refused" and found.earliest is not None:
                assert found.requested_deadline is not None
                assert found.earliest.deadline > found.requested_deadline
    assert outcomes == {"refused", "ended"}


def test_prices_of_a_workload_that_is_not_at_hand() -> None:
    assert price_list(None).unknown == "the workload that was run is not known"
    with pytest.raises(InputError, match=r"gone\.json: no such file"):
        price_list(None, "gone.json")
    price = price_list(None).price(4, 100.0, 0.0, 500.0)
    assert price is not None
    assert (price.category, price.resource, price.qos) == ("very-short-narrow", 400, None)
    # A category without jobs in the reference run has no slowdown.
    price = PRICES.price(4, 100.0, 0.0, 500.0)
    assert price is not None
    assert price.qos is None


# Two processors under EASY. C is too wide beside A; D, which is short, goes before.
#
#   |B  DCC
#   |AAAACC
#    0  34
def test_other_schedulers_tell_what_their_files_tell(tmp_path) -> None:
    rows = [exact(0, 1, 4), exact(0, 1, 1), exact(1, 2, 2), exact(3, 1, 1), exact(3, 3, 1)]
    prefix = run_files("easy", workload_of(2, rows), tmp_path)
    wide = explain_from_files(prefix, "C")
    assert (wide.state, wide.start, wide.waited, wide.scheduler) == (
        "COMPLETED_SUCCESSFULLY", 4, 3, "easy",
    )  # fmt: skip
    assert wide.free_processors == 1
    assert wide.ahead == []
    assert sorted(wide.freed_by) == ["w0!A", "w0!D"]
    short = explain_from_files(prefix, "D")
    assert (short.start, short.ahead) == (3, ["w0!C"])
    refused = explain_from_files(prefix, "E")
    assert (refused.state, refused.start) == ("REJECTED", None)
    assert refused.reason == "asks for 3 processors, the machine has 2"
    with pytest.raises(InputError, match="no job 'Z'"):
        explain_from_files(prefix, "Z")


# One processor under EASY: A is in time, B late by 3, C just in time, D has no deadline, E is too
# wide. F outlives its walltime of 1 s.
@pytest.mark.parametrize("with_qos", [True, False])
@pytest.mark.parametrize(
    ("job", "deadline", "lateness", "told"),
    [
        ("A", 6, -2, "6 s (6 s after submission): met, 2 s before it"),
        ("B", 5, 3, "5 s (4 s after submission): missed by 3 s"),
        ("C", 9, 0, "9 s (8 s after submission): met, just in time"),
        ("D", None, None, ""),
        ("E", 20, None, "20 s (19 s after submission): not met: the job did not run"),
        ("F", 8, 5, "8 s (6 s after submission): missed by 5 s"),
    ],
)
def test_a_deadline_is_told_with_what_became_of_it(
    tmp_path, with_qos: bool, job: str, deadline: float | None, lateness: float | None, told: str
) -> None:
    rows = [exact(0, 1, 4, 6), exact(1, 1, 4, 5), exact(1, 1, 1, 9), exact(1, 1, 1)]
    killed = (2, 1, 3, 8, 1)
    path = tmp_path / "w.json"
    write_workload(workload_of(1, [*rows, exact(1, 2, 1, 20), killed]), path)
    run("easy", path, out=tmp_path / "r", smaller_machine=True)
    prefix = tmp_path / "r"
    if not with_qos:
        allow_changes(prefix)
        (tmp_path / "r_qos.csv").unlink()
    found = explain_from_files(prefix, job)
    assert (found.requested_deadline, found.lateness) == (deadline, lateness)
    assert dict(_plain_rows(found)).get("deadline", "") == told


@pytest.mark.parametrize(
    ("lateness", "how", "told"),
    [
        (-90.0, {}, "met, 1 min 30 s before it"),
        (-0.2, {}, "met, less than 1 s before it"),
        (90.0, {}, "missed by 1 min 30 s"),
        (0.2, {}, "missed by less than 1 s"),
        (None, {}, "open: the job had not ended"),
        (None, {"refused": True}, "not met: the job did not run"),
        (-5.0, {"killed": True}, "not met: the job was killed"),
    ],
)
def test_fates_of_deadlines_in_words(lateness: float | None, how: dict, told: str) -> None:
    assert fate_text(lateness, **how) == told


def test_stories_of_deadline_schedulers_tell_fates_too(tmp_path) -> None:
    found = {job: story(tmp_path / job, "mrt", job, REFUSED) for job in "ABC"}
    assert [found[job].lateness for job in "ABC"] == [0, -1, None]
    told = [dict(_rows(each)).get("deadline") for each in found.values()]
    assert told == ["met, just in time", "met, 1 s before it", None]


#   |BCC
#   |ACC
#    0 4      but A and B share the first host
def test_a_host_that_two_jobs_share_is_taken_once(tmp_path) -> None:
    rows = [exact(0, 1, 4), exact(0, 1, 4), exact(1, 2, 2)]
    prefix = run_files("easy", workload_of(2, rows), tmp_path)
    assert explain_from_files(prefix, "C").free_processors == 0
    allow_changes(prefix)
    path = prefix.with_name(f"{prefix.name}_jobs.csv")
    header, *lines = path.read_text().splitlines()
    column = header.split(",").index("allocated_resources")
    shared = [line.split(",") for line in lines]
    for cells in shared:
        cells[column] = "0" if cells[column] == "1" else cells[column]
    path.write_text("\n".join([header, *(",".join(cells) for cells in shared)]) + "\n")
    assert explain_from_files(prefix, "C").free_processors == 1


def test_a_run_is_explained_by_its_prefix(tmp_path) -> None:
    logged = run_files("mrt", workload_of(1, REFUSED), tmp_path)
    found = explain(logged, "C", PRICES)
    assert isinstance(found, Explanation)
    assert (found.run, found.job, found.outcome) == (str(logged), "w0!C", "refused")
    plain = explain(run_files("easy", workload_of(1, REFUSED), tmp_path), "C")
    assert isinstance(plain, PlainExplanation)
    assert plain.start == 8
