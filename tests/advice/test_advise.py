"""Advice on a trace: windows, estimates, deadlines, what is counted, and the page."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from qops_batsim import InputError, advise, read_workload
from qops_batsim.advice import AdviceCase, AdviceChoices
from qops_batsim.advice.advice_page import advice_document, advice_page
from qops_batsim.advice.advise import Advice, promised, refused
from qops_batsim.advice.recommendations import earliness, limits, recommended, summary
from qops_batsim.advice.trace_runs import (
    EXACT,
    EarliestPromise,
    TraceRuns,
    choose_windows,
    give_deadlines,
    prepare,
    run_easy,
)
from qops_batsim.economics import Prices
from qops_batsim.experiments import contestant_of
from qops_batsim.experiments.deadline_workload import give_deadlines as of_the_paper
from qops_batsim.shipped import find_input
from qops_batsim.workload import DeadlineChoices, Workload, exact_estimates
from qops_batsim.workload.delay_jobs import changed_job, derived

CHOICES = AdviceChoices(
    others=(contestant_of("msb"),),
    stringencies=(0.2, -1.0),
    loads=(1.0, 1.3),
    windows=3,
    window_jobs=120,
    prices=Prices(currency="EUR", core_hour=0.5),
)


@pytest.fixture(scope="module")
def trace() -> Workload:
    return read_workload(find_input("kth_sp2_1000", "workloads"))


@pytest.fixture(scope="module")
def advice() -> Advice:
    return advise("kth_sp2_1000", CHOICES)


def test_windows_are_spread_over_the_trace() -> None:
    def spans(jobs: int, **chosen: int) -> list[tuple[int, int]]:
        found = choose_windows(jobs, **chosen)
        assert [each.number for each in found] == list(range(1, len(found) + 1))
        return [(each.skip, each.skip + each.jobs) for each in found]

    assert spans(1) == [(0, 1)]
    assert spans(5_999) == [(0, 5_999)]
    assert spans(6_000) == [(0, 2_000), (2_000, 4_000), (4_000, 6_000)]
    assert spans(200_000)[:2] == [(17_500, 22_500), (57_500, 62_500)]
    assert len(spans(200_000)) == 5
    assert spans(100, windows=2) == [(0, 50), (50, 100)]
    assert spans(100, windows=2, size=10) == [(20, 30), (70, 80)]
    assert spans(2, windows=9) == [(0, 1), (1, 2)]


@pytest.mark.parametrize("exact", [False, True])
def test_deadlines_are_those_of_other_commands(trace: Workload, exact: bool) -> None:
    workload = exact_estimates(trace) if exact else trace
    case = AdviceCase(window=0, stringency=0.3)
    ours = give_deadlines(workload, run_easy(workload, Prices()), case)
    paper = of_the_paper(trace, DeadlineChoices(stringency=0.3), keep_estimates=not exact)
    for job, other in zip(ours.jobs, paper.jobs, strict=True):
        assert job.qos is not None
        assert other.qos is not None
        assert job.qos.deadline == pytest.approx(other.qos.deadline, abs=1e-5)


def test_jobs_without_estimate_get_the_longest(trace: Workload) -> None:
    jobs = list(trace.jobs)
    jobs[3] = changed_job(jobs[3], {"walltime": None}, {}, workload=trace)
    longest = max(job.estimate for job in jobs if job.estimate < math.inf)
    found = prepare(derived(trace, jobs, None, {"step": "one without"}))
    assert found.workload.jobs[3].estimate == longest
    assert (found.has_estimates, found.unfit, found.deadlines) == (True, 0, 0)
    assert found.estimates.endswith(
        f"; 1 of 1,000 jobs have none and get the longest, {longest:g} s"
    )
    none = [changed_job(job, {"walltime": None}, {}, workload=trace) for job in jobs]
    found = prepare(derived(trace, none, None, {"step": "none"}))
    assert not found.has_estimates
    assert found.estimates.endswith("the log has no walltimes")
    assert found.workload.jobs[0].estimate < math.inf


def test_jobs_that_do_not_fit_and_deadlines_are_told(trace: Workload) -> None:
    jobs = list(trace.jobs)
    jobs[3] = changed_job(jobs[3], {"res": 101}, {}, workload=trace)
    jobs[4] = changed_job(jobs[4], {}, {"deadline": 1e6}, workload=trace)
    found = prepare(derived(trace, jobs, None, {"step": "odd"}))
    assert (found.unfit, found.deadlines, len(found.workload.jobs)) == (1, 1, 999)
    assert all(job.qos is None or job.qos.deadline is None for job in found.workload.jobs)
    with pytest.raises(InputError, match="no job fits the 100 processors"):
        prepare(derived(trace, jobs[3:4], None, {"step": "one"}))


def test_offers_that_users_take_are_told_apart(trace: Workload) -> None:
    runs = TraceRuns(trace, choose_windows(len(trace.jobs), 1, 300))
    settings = (("tolerance_factor", 3.0),)
    run = runs(AdviceCase(window=0, scheduler="fqops", settings=settings))
    assert 0 < run.counts.later < run.counts.promised
    assert run.counts.failed == 0
    assert runs(AdviceCase(window=0, scheduler="qops")).counts.later == 0


def test_every_deadline_is_counted_once(advice: Advice) -> None:
    choices = advice.choices
    for case in choices.cases():
        for run in advice.of(case):
            counts = run.counts
            assert counts.jobs == run.metrics.deadline_jobs
            assert sum(counts.reasons.values()) == counts.refused
            kept = counts.refused + (counts.promised if case.scheduler != "easy" else 0)
            assert kept == (0 if case.scheduler == "easy" else counts.jobs)
            assert (counts.failed, run.total.failed) == (run.total.failed, counts.failed)
            unadmitted = run.metrics.unadmitted_deadline_jobs
            assert 100 * counts.refused / counts.jobs == pytest.approx(unadmitted)
    chosen, easy = advice.counts(choices.chosen), advice.counts(choices.easy())
    assert chosen.failed == 0 < easy.failed
    assert easy.promised == easy.refused == 0
    assert len(advice.promises) == 360
    share, lost = (advice.mean(choices.chosen, each) for each in (promised, refused))
    assert share is not None
    assert lost is not None
    assert share.mean + lost.mean == pytest.approx(100)
    assert share.count == 3


def test_what_it_costs_adds_up(advice: Advice) -> None:
    choices, free = advice.choices, advice.break_even(0.0)
    assert free.ratio is not None
    assert advice.deadline_price == pytest.approx(0.5 * free.ratio)
    # That is where promises cost nothing, if deadlines that EASY misses do not either.
    charges = [advice.charge(each, 0.0) for each in (choices.chosen, choices.easy())]
    ours, easy = (0.5 * each.resource + advice.deadline_price * each.qos for each in charges)
    assert ours == pytest.approx(easy)
    assert advice.income(choices.easy()) < easy
    work = sum(run.work for run in advice.of(choices.easy())) / 3600
    assert advice.charge(choices.easy(), 0.0).resource == pytest.approx(work)


def test_exact_estimates_are_a_bound_on_the_same_deadlines(trace: Workload) -> None:
    runs = TraceRuns(trace, choose_windows(len(trace.jobs), 1, 300))
    users, exact = (
        runs(AdviceCase(window=0, scheduler="qops", estimates=each)).counts
        for each in ("users", EXACT)
    )
    assert users.jobs == exact.jobs
    assert exact.promised >= users.promised


def test_quantiles_count_jobs_that_nothing_can_be_promised() -> None:
    promises = [EarliestPromise("long-wide", 10.0, 10.0)] * 3 + [
        EarliestPromise("long-narrow", 10.0, None)
    ]
    wide, narrow = earliness(promises, by_processors=True)[1::-1]
    assert (wide.group, wide.jobs, wide.at_once, set(wide.delays)) == ("9 to 32", 3, 100.0, {0.0})
    assert (narrow.jobs, narrow.at_once, set(narrow.responses)) == (1, 0.0, {math.inf})


def test_it_says_what_it_did_not_look_at(advice: Advice) -> None:
    told = limits(advice)
    assert told[0].startswith("360 of 1,000 usable jobs were simulated, in 3 windows")
    assert "640 not looked at" in told[0]
    assert len(summary(advice)) == 3
    settings = {each.setting: each.value for each in recommended(advice)}
    assert settings["deadlines to offer"].endswith("EASY's response")
    assert settings["scheduler"] in ("qops", "msb")


def test_the_page_needs_nothing_else_and_a_browser_shows_it_whole(
    advice: Advice, browse: Callable[[str], str]
) -> None:
    page = advice_page({"": advice}, "qops-batsim advise kth_sp2_1000")
    assert len(page.encode()) < 2_000_000
    assert not re.search(r"""(?:src|href|url)\W{1,2}https?:""", page)
    assert page == advice_page({"": advice}, "qops-batsim advise kth_sp2_1000")
    script = """
onload = () => {
  const wide = [...document.querySelectorAll("main > section > :not(.wide)")].filter(
    each => each.scrollWidth > innerWidth).length;
  document.title = [document.images.length, [...document.images].every(i => i.naturalWidth > 99),
    document.querySelectorAll("figcaption a[download$='.csv']").length, wide].join(" ");
};
"""
    shown = browse(page.replace("</body>", f"<script>{script}</script></body>"))
    assert "<title>1 true 1 0</title>" in shown


def test_the_command(cli, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    options = ("--windows", "1x60", "--scheduler", "qops", "--scheduler", "msb")
    command = ("advise", "kth_sp2_1000", "--out", out, *options)
    done = cli(*command, "--json")
    assert done.exit_code == 0, done.err
    document = json.loads(done.out)
    assert document["read"]["jobs"] == "1,000 records read, 1,000 jobs used"
    assert [each["jobs"] for each in document["windows"]] == [60]
    assert out.read_text().startswith("<!doctype html>")
    first = out.read_bytes()
    assert "could have promised" in " ".join(cli(*command).out.split())
    assert out.read_bytes() == first.replace(b" --json", b"")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--scheduler", "easy"), "'easy' promises nothing"),
        (("--windows", "0"), "--windows is 0; a number of windows, as 10, or"),
        (("--windows", "3x"), "--windows is 3x; a number of windows, as 10, or"),
        (("--prices", "gone.toml"), "gone.toml: no such file"),
    ],
)
def test_mistakes(cli, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    done = cli("advise", "kth_sp2_1000", "--out", tmp_path / "report.html", *options)
    assert done.exit_code == 2
    assert message in done.err
    assert not list(tmp_path.iterdir())


def test_a_workload_of_other_profiles_is_refused() -> None:
    with pytest.raises(InputError, match="only type delay"):
        advise("aroma_mixed", CHOICES)


def test_the_document_is_plain_json(advice: Advice) -> None:
    document = advice_document(advice)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert len(document["results"]) == len(advice.choices.cases())


def test_ids_and_dates_are_those_of_the_accounting(tmp_path: Path) -> None:
    rows = ["JobID|Partition|User|Submit|Start|End|State|AllocCPUS|Timelimit"]
    for number in range(1, 41):
        wide, hour = number % 2, 8 + number // 6
        dates = f"2026-03-27T{hour:02}:00:{number:02}|2026-03-27T18:00:00|2026-03-27T20:00:00"
        rows.append(f"4711_{number}|long|ada|{dates}|COMPLETED|{1 + 7 * wide}|03:00:00")
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join(rows) + "\n")
    few = AdviceChoices(others=(), stringencies=(0.2,), loads=(1.0,))
    advice = advise(path, few, processors=8)
    page = advice_page({"": advice}, "qops-batsim advise sacct.txt")
    for text in (
        ">4711_",
        ">2026-03-27 08:00:01<",
        ">ada<",
        "Deadlines by queue or partition",
        "the promise to 4711_",
    ):
        assert text in page
    hidden = advice_page({"": advice}, "qops-batsim advise sacct.txt", anonymous=True)
    assert ">ada<" not in hidden
    assert ">4711_" in hidden
    share = advice.mean(few.chosen, refused)
    assert share is not None
    assert share.mean > 0
