"""The benchmark, a study that lists its cases: these, their scores, its tables."""

from __future__ import annotations

import itertools
import random
import tomllib
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest

from qops_batsim import InputError, Job, QosRequest
from qops_batsim.engine.engine_options import outages_of
from qops_batsim.experiments import (
    CellOutcome,
    Contestant,
    DeadlineRuns,
    ScoredRuns,
    Study,
    StudyRuns,
    bound_key,
    contestants_of,
    read_study,
    read_study_runs,
    run_study,
    study_inputs,
    study_runs,
    with_need,
    with_schedulers,
)
from qops_batsim.experiments import study as module
from qops_batsim.experiments.best_lines import BEST_KNOWN
from qops_batsim.experiments.listed_cases import (
    DRAWN,
    PER_LOG,
    VERSIONED,
    CaseList,
    LogOfCases,
    outages_of_case,
)
from qops_batsim.experiments.score_report import cases_of, mean_of, score_method, score_tables
from qops_batsim.experiments.scores import JobWorths, Score, gini, kept_bounds, score_of
from qops_batsim.experiments.study import MONDAY, InputIdentities
from qops_batsim.experiments.study_report import report_of
from qops_batsim.experiments.study_runs import Description, with_others
from qops_batsim.measures import JobOutcomes
from qops_batsim.workload import NeedChoices, NeedMix, Workload, delay_profile
from qops_batsim.workload.need import FactorClass
from studies.shared import deadlines_text, with_deadlines
from support.listed_cases import few_cases

KNOWN = msgspec.convert(tomllib.loads((module.SHIPPED / "benchmark.toml").read_text()), CaseList)


@pytest.fixture(autouse=True)
def _no_logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no log of this machine be found."""
    monkeypatch.setattr(
        "qops_batsim.experiments.listed_cases.usual_places", lambda: [tmp_path / "none"]
    )


@pytest.fixture
def small(tmp_path: Path) -> Study:
    """Return the study of two cases of two logs, with few jobs."""
    return few_cases(tmp_path, cases=(0, 6))


def of(study: Study, *schedulers: str) -> Study:
    return msgspec.structs.replace(study, schedulers=contestants_of(schedulers))


def test_the_choices_of_the_cases_are_balanced() -> None:
    cases = KNOWN.cases
    assert Counter(each.log for each in cases) == dict.fromkeys(KNOWN.logs, PER_LOG)
    for one, other in itertools.permutations(("stringency", "estimates", "outages", "load"), 2):
        if "load" in (one, other):
            pairs = Counter((getattr(each, one), getattr(each, other)) for each in cases)
            assert len(set(pairs.values())) == 1, (one, other)
    assert {each.load for each in cases} == {1.0, 1.3, 1.6}


def test_twins_differ_in_window_and_seed_only() -> None:
    _, cases = KNOWN.listed()
    half = len(KNOWN.cases)
    for one, twin in zip(cases[:half], cases[half:], strict=True):
        assert (one.half, twin.half) == (VERSIONED, DRAWN)
        same = {"half": "", "log": "", "seed": 1, "window": one.window}
        first, second = (msgspec.structs.replace(each, **same) for each in (one, twin))
        assert first == second
        assert one.seed != twin.seed
    assert len({(each.log, each.seed) for each in cases}) == len(cases)


def test_windows_are_drawn_from_unseen_jobs_by_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogOfCases, "found", lambda log, _: log.file)

    def drawn(seed: int | None) -> list[tuple[str, int]]:
        return [(each.log, each.window.skip) for each in KNOWN.listed(seed=seed)[1]]

    assert drawn(None) == drawn(KNOWN.seed) == drawn(KNOWN.seed)
    assert drawn(None) != drawn(5)
    for seed in range(40):
        windows = sorted(drawn(seed))
        for (log, skip), (next_log, next_skip) in itertools.pairwise(windows):
            assert log != next_log or skip + KNOWN.jobs <= next_skip
        for log, skip in drawn(seed)[len(KNOWN.cases) :]:
            begin, end = KNOWN.logs[log].unseen
            assert begin <= skip <= end - KNOWN.jobs


def test_a_quick_study_has_a_case_of_each_log_and_its_twin() -> None:
    (_, quick), (_, cases) = (KNOWN.listed(quick=each) for each in (True, False))
    assert Counter(each.of for each in quick) == dict.fromkeys(KNOWN.logs, 2)
    assert all(each in cases for each in quick)
    assert {each.outages for each in quick} == {True, False}


def test_bounds_of_all_cases_come_with_the_package_where_no_log_is_there() -> None:
    study, bounds = read_study("benchmark"), kept_bounds()
    known = module.InputIdentities(
        logs={log.name: log.name for log in study.logs},
        schedulers={each.name: each.identity() for each in study.schedulers},
    )
    for cell in study.cells():
        found = bounds[bound_key(module.case_of(study, cell, known).scenario)]
        for objective, best in found.best_known.items():
            assert 0 < best <= found.bound[objective] <= 100 + 1e-9


def test_outages_follow_each_other_and_take_few_hosts() -> None:
    for seed in range(50):
        hosts = random.Random(seed).randint(1, 70)
        name, profile = delay_profile(1)
        jobs = [Job(str(date), date, 1, name) for date in (100.0, 3e6)]
        workload = Workload(jobs=jobs, profiles={name: profile}, processors=hosts)
        events = outages_of_case(seed, workload)
        assert outages_of_case(seed, workload) == events
        for leave, back in zip(events[::2], events[1::2], strict=True):
            assert leave.hosts == back.hosts
            assert 1 <= len(leave.hosts) <= max(1, hosts // 8)
            assert 3600 <= back.timestamp - leave.timestamp <= 28800
        dates = [each.timestamp for each in events]
        assert dates == sorted(dates)
        assert len(events) > 4
        outages_of(events, hosts)  # no contradiction


@pytest.mark.parametrize("seed", range(20))
def test_the_gini_coefficient_is_half_the_mean_difference_over_the_mean(seed: int) -> None:
    numbers = random.Random(seed)
    values = sorted(numbers.random() for _ in range(numbers.randint(1, 9)))
    count, mean = len(values), sum(values) / len(values)
    naive = sum(abs(a - b) for a in values for b in values) / (2 * count * count * mean)
    assert gini(np.array(values)) == pytest.approx(naive)
    assert gini(np.zeros(3)) is None


def test_the_score_of_a_schedule_drawn_by_hand() -> None:
    # Two hosts; a to f ask for deadlines, g does not. c was promised a later one and kept that,
    # d's promise gave way to another, e is refused, f was promised nothing and is in time.
    #
    #   1 | aaaa cccc ffff gggg
    #   0 | bbbbbbbb  dddd
    #     0         1         2
    dates = {"a": (0, 4), "b": (0, 8), "c": (5, 9), "d": (10, 14), "f": (10, 14), "g": (15, 19)}
    asked = {"a": 4.0, "b": 9.0, "c": 8.0, "d": 12.0, "e": 7.0, "f": 20.0}
    promised = {"a": 4.0, "b": 9.0, "c": 10.0, "d": 15.0}
    users = {"a": 1, "b": 1, "f": 1, "c": 2, "d": 2, "e": 2}
    jobs, profiles = [], {}
    for name in "abcdefg":
        start, end = dates.get(name, (0, 4))
        profile, content = delay_profile(end - start)
        profiles[profile] = content
        qos = QosRequest(deadline=asked.get(name), estimated_runtime=float(end - start))
        fields = {"user": users[name]} if name in users else {}
        jobs.append(Job(name, 0.0, 1, profile, qos=qos, fields=fields))
    workload = Workload(jobs=jobs, profiles=profiles, processors=2)
    nan = float("nan")
    start, finish = np.array([dates.get(each, (nan, nan)) for each in "abcdefg"]).T
    outcomes = JobOutcomes(
        source="by hand",
        workloads=(workload,),
        ids=list("abcdefg"),
        submission=np.zeros(7),
        start=start,
        finish=finish,
        charged_time=finish - start,
        processors=np.ones(7),
        deadline=np.array([asked.get(each, nan) for each in "abcdefg"]),
        promised=np.array([promised.get(each, nan) for each in "abcdefg"]),
        of_user=np.array([each in asked for each in "abcdefg"]),
        refused=np.array([each == "e" for each in "abcdefg"]),
        killed_runs=np.zeros(7, np.int64),
        wasted=np.zeros(7),
        lost=np.empty((0, 3)),
    )
    gave_way = np.array([each == "d" for each in "abcdefg"])
    score = score_of(outcomes, 2, JobWorths(workload), gave_way)
    assert score.promised_jobs == pytest.approx(100 * 4 / 6)  # a, b, c, d
    assert score.kept_jobs == pytest.approx(100 * 3 / 6)  # a, b, c
    assert score.reached_jobs == pytest.approx(100 * 2 / 6)  # a, b
    assert score.met_jobs == pytest.approx(100 * 3 / 6)  # a, b, f
    assert score.reached_work == pytest.approx(100 * (4 + 8) / 28)
    assert score.wait_of_others == 15.0
    assert score.gini == pytest.approx(0.5)  # user 1 has 3 of 3, user 2 none of 3
    assert score.worst_decile == 0.0
    assert 0 < score.reached_charge < score.kept_charge < 100


def test_schedulers_are_scored_below_the_bound(small: Study, tmp_path: Path) -> None:
    study = with_schedulers(small, ["fqops:tolerance_factor=3"])
    runs = run_study(study, tmp_path / "out")
    assert [each.half for each in study.cases] == [VERSIONED] * 2 + [DRAWN] * 2
    cases = cases_of(runs)
    for listed, case in zip(study.cases, cases, strict=True):
        assert list(case) == ["easy", "qops", "fqops:tolerance_factor=3", "best known"]
        scores = {name: each.metrics for name, each in case.items() if name != "best known"}
        for objective in ("jobs", "work", "charge"):
            for score in scores.values():
                assert isinstance(score, Score)
                assert 0 <= getattr(score, f"reached_{objective}") <= 100 + 1e-6
                assert score.jobs is not None
                assert score.in_time is not None
                assert score.jobs <= score.in_time <= 100 + 1e-6
        assert scores["easy"].promised_jobs == 0
        # Only where something happens to hosts, the engine asks about each message.
        if not listed.outages:
            assert scores["qops"].kept_jobs == scores["qops"].promised_jobs
    again = run_study(study, tmp_path / "out")
    assert again.outcomes == runs.outcomes  # the times of decisions are those of the kept runs


def test_a_scheduler_that_fails_is_told_and_the_others_go_on(small: Study, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from qops_batsim import Easy\n"
        "class Fails(Easy):\n"
        "    def key(self, job):\n"
        "        return 1 / 0\n"
    )
    runs = run_study(of(small, f"{file}:Fails", "qops"), tmp_path / "out")
    for case in cases_of(runs):
        assert list(case) == ["qops", "best known"]
    first = score_tables(runs)[0]
    assert [row[:2] for row in first.rows] == [["qops", "4"], ["Fails", "0"], ["best known", "4"]]
    assert {each.error for each in runs.outcomes} == {None, "ZeroDivisionError: division by zero"}
    (figure,) = report_of(runs).figures
    assert [each.series[0].x for each in figure.panels] == [("qops", "best known")] * 3


def test_a_shared_study_is_shown_beside_ones_own(small: Study, tmp_path: Path) -> None:
    mine = run_study(of(small, "qops"), tmp_path / "mine")
    theirs = run_study(of(small, "qops", "msb"), tmp_path / "theirs")
    both = with_others(mine, tmp_path / "theirs")
    assert [each.name for each in both.study.schedulers] == ["qops", "msb"]
    for one, case in zip(cases_of(theirs), cases_of(both), strict=True):
        assert case["msb"] == one["msb"]
    other = run_study(of(few_cases(tmp_path, jobs=20), "qops", "msb"), tmp_path / "other")
    assert other.outcomes
    with pytest.raises(InputError, match="has no other scheduler on one of these workloads"):
        with_others(mine, tmp_path / "other")


def test_means_have_intervals_over_logs_and_pairs(small: Study) -> None:
    """Stand-ins are of one model, so each case is a repetition of it."""
    runs = run_study(of(small, "qops", "msb"))
    cases = cases_of(runs)
    values = [case["msb"].value("jobs") for case in cases]
    mean = mean_of(cases, "msb", "jobs")
    assert mean is not None
    assert mean.mean == pytest.approx(sum(values) / 4)
    assert mean.count == 4
    less = mean_of(cases, "msb", "jobs", less="qops")
    base = mean_of(cases, "qops", "jobs")
    assert less is not None
    assert base is not None
    assert less.mean == pytest.approx(mean.mean - base.mean)
    assert "stand in for logs that are not here (kth: kth-sp2; sdsc: sdsc-sp2)" in score_method(
        runs
    )


EFFECTS = {"qops": 0.0, "msb": -4.0, "mrt": 0.8}
USELESS = {"fcfs": "", "slurm": "", "qops again": "qops", "msb again": "msb"}
"""Two that promise nothing, the baseline and a contestant under second names."""


def made_up(*names: str, verdicts: tuple[str, ...] = ()) -> StudyRuns:
    """Return made-up scores on the cases of the benchmark."""
    contestants = tuple(Contestant(name=name, scheduler="qops") for name in names)
    study = msgspec.structs.replace(
        read_study("benchmark"), schedulers=contestants, verdicts=verdicts
    )
    outcomes = []
    for cell in study.cells():
        who = USELESS.get(cell.contestant, cell.contestant)
        draws = random.Random(f"{who} {cell.point.case} {cell.point.half}")
        share = 80.0 + EFFECTS.get(who, 0.0) + draws.gauss(0, 1.0)
        nothing = dict.fromkeys(Score.__struct_fields__, share)
        promised = share if who else 0.0
        score = Score(**{**nothing, "promised_jobs": promised, "cpu_per_job": len(outcomes)})
        outcomes.append(CellOutcome(cell=cell, metrics=score))
    known = InputIdentities(logs={}, schedulers={})
    return StudyRuns(
        Description(package_version="", key="", study=study, identities=known), outcomes
    )


def test_useless_contestants_change_no_verdict_in_the_table_of_differences() -> None:
    alone = _differences(made_up("qops", "msb", "mrt"))
    beside = _differences(made_up("qops", "msb", "mrt", *USELESS))
    assert {name: beside[name] for name in alone} == alone
    assert alone["msb"][2::2] == ["lower"] * 3
    assert set(alone["mrt"][2::2]) <= {"higher", "undecided"}
    for name in ("fcfs", "slurm"):
        assert beside[name][2::2] == [""] * 3
    assert beside["qops again"][2::2] == ["equal"] * 3
    assert beside["msb again"][1:] == beside["msb"][1:]
    named = made_up("qops", "msb", "mrt", verdicts=("mrt",))
    assert _differences(named)["msb"][2::2] == [""] * 3
    assert "Judged are mrt only" in score_method(named)


def _differences(runs: StudyRuns) -> dict[str, list[str]]:
    """Return the rows of the table of differences by scheduler."""
    (table,) = (each for each in score_tables(runs) if each.title.startswith("Differences"))
    return {row[0]: list(row) for row in table.rows}


def test_without_bounds_the_table_says_what_is_missing(
    small: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_runs, "find_spec", lambda name: None)
    runs: StudyRuns = run_study(of(small, "qops"))
    assert all("best known" not in case for case in cases_of(runs))
    # No column says a share of the bound, and no table has nothing but dashes in one.
    assert score_tables(runs)[0].headings == ["scheduler", "cases"]
    for table in score_tables(runs):
        columns = zip(*table.rows, strict=True)
        assert all(set(column) - {"-", ""} for column in columns), table.title
    assert "qops-batsim[bound]" in score_method(runs)


def test_only_a_study_with_listed_cases_is_quick(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lists no cases; --quick and --seed are accepted"):
        read_study("example", quick=True)
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("cases = []")
    with pytest.raises(
        InputError, match="wrong.toml: field name is missing; a study that lists cases"
    ):
        read_study(wrong)


def test_a_bound_leaves_the_jobs_without_deadline_out() -> None:
    # One host, two deadlines at the same time: one can be met, whatever the third job does.
    profile, content = delay_profile(10)
    jobs = [
        Job(str(place), 0.0, 1, profile, qos=QosRequest(deadline=each, estimated_runtime=10.0))
        for place, each in enumerate((10.0, 10.0, None))
    ]
    workload = Workload(jobs=jobs, profiles={profile: content}, processors=1)
    deadline_runs = DeadlineRuns({})
    deadline_runs.workload = lambda scenario: workload  # type: ignore[method-assign]
    found = ScoredRuns(deadline_runs).bound(module.Scenario(log=""))
    assert found.bound == pytest.approx(dict.fromkeys(("jobs", "work", "charge"), 50.0))
    assert found.best_known == pytest.approx(found.bound)


def test_deadlines_by_need_are_another_study(
    small: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_runs, "find_spec", lambda name: None)  # No bounds are searched for.
    small = of(small, "easy", "qops")
    by_need = with_deadlines(small, "need")
    assert with_deadlines(small, "easy") == small
    assert by_need.name == f"{small.name}, deadlines by need"
    assert by_need.key != small.key
    run_study(small, tmp_path / "out")
    made = run_study(by_need, tmp_path / "out")
    found = read_study_runs(tmp_path / "out")
    assert found.study == by_need
    assert found.outcomes == made.outcomes
    assert len(made.outcomes) > 8
    assert all(each.metrics for each in made.outcomes if each.cell.contestant != BEST_KNOWN)
    # Whole numbers are the same study.
    whole = NeedChoices(slack=60, mix=NeedMix(slack=1), factors=(FactorClass(None, 1, 1),))
    again = msgspec.json.decode(msgspec.json.encode(with_need(small, whole)), type=Study)
    assert again.key == with_need(small, whole).key
    cases, runs = study_inputs(by_need)
    told = runs.workload(cases[0].scenario).provenance
    # The stand-ins tell no dates; only a part of the jobs have a deadline of their user.
    assert runs.workload(cases[0].scenario).calendar == MONDAY
    while told.get("step") != "deadlines":
        told = told["made_from"]
    assert (told["by"], told["share"], told["seed"]) == ("need", 0.8, by_need.cases[0].seed)
    assert deadlines_text(by_need).startswith("Deadlines are made by need. Of all workloads: less")
    assert ", none by construction, and starts" in deadlines_text(by_need)
    assert ", by construction, and starts" in deadlines_text(small)


def test_by_need_the_seed_matters_and_the_stringency_does_not(small: Study) -> None:
    slack = NeedChoices(mix=NeedMix(slack=1))
    one, other = (
        case.scenario
        for each in (small, with_need(small, slack))
        for case in study_inputs(of(each, "easy"))[0][:1]
    )
    assert other.need == msgspec.structs.replace(slack, calendar=MONDAY)
    lax = msgspec.structs.replace(other, stringency=0.9)
    assert lax.canonical() == other.canonical()
    assert other.without_deadlines() == one.without_deadlines()
    whole = msgspec.structs.replace(other, share=1.0, load=1.0, seed=5)
    assert whole.draws
    assert whole.canonical().seed == 5
    with pytest.raises(InputError, match="mix: factor 0, hours 0 and slack 0.5 add up to 0.5"):
        with_need(small, NeedChoices(mix=NeedMix(slack=0.5)))
