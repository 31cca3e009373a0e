"""The benchmark: its cases, its scores, its result."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest

from qops_batsim.analysis.metrics.outcomes import JobOutcomes
from qops_batsim.engine.options import outages_of
from qops_batsim.errors import InputError
from qops_batsim.experiments import benchmark
from qops_batsim.experiments.benchmark import (
    BenchmarkResult,
    read_result,
    run_benchmark,
    with_shared,
    write_result,
)
from qops_batsim.experiments.benchmark_cases import (
    DRAWN,
    PER_LOG,
    VERSIONED,
    BenchmarkLogs,
    CaseList,
    benchmark_cases,
    case_list,
    outages_of_case,
)
from qops_batsim.experiments.benchmark_report import (
    benchmark_page,
    case_table,
    mean_of,
    method_text,
    of_best,
    tables_of,
)
from qops_batsim.experiments.benchmark_runs import (
    BenchmarkRuns,
    DecisionTimes,
    Prices,
    bound_key,
    gini,
    kept_bounds,
    score_of,
)
from qops_batsim.experiments.deadline_runs import contestants_of
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.workload.model import Workload, delay_profile

NO_TIMES = DecisionTimes(cpu_per_job=0.0, median=None, p99=None)


@pytest.fixture(autouse=True)
def _no_logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no log of this machine be found."""
    monkeypatch.setattr(
        "qops_batsim.experiments.benchmark_cases.usual_places", lambda: [tmp_path / "none"]
    )


@pytest.fixture
def _unmade(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stand-ins have no jobs, where only the cases matter."""
    monkeypatch.setattr(
        "qops_batsim.experiments.benchmark_cases.generate_workload", lambda *_, **__: None
    )


def small(jobs: int = 30) -> CaseList:
    """Return two cases of two logs, with few jobs."""
    known = case_list()
    cases = (known.cases[0], known.cases[6])
    return msgspec.structs.replace(known, jobs=jobs, cases=cases)


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "case_list", small)


def test_the_choices_of_the_cases_are_balanced() -> None:
    cases = case_list().cases
    assert Counter(each.log for each in cases) == dict.fromkeys(case_list().logs, PER_LOG)
    for one, other in itertools.permutations(("stringency", "estimates", "outages", "load"), 2):
        if "load" in (one, other):
            pairs = Counter((getattr(each, one), getattr(each, other)) for each in cases)
            assert len(set(pairs.values())) == 1, (one, other)
    assert {each.load for each in cases} == {1.0, 1.3, 1.6}


@pytest.mark.usefixtures("_unmade")
def test_twins_differ_in_window_and_seed_only() -> None:
    known = case_list()
    cases = benchmark_cases(known, BenchmarkLogs(known))
    half = len(known.cases)
    for one, twin in zip(cases[:half], cases[half:], strict=True):
        assert (one.half, twin.half) == (VERSIONED, DRAWN)
        assert (one.name, one.log, one.stand_in) == (twin.name, twin.log, twin.stand_in)
        assert (one.outages is None) == (twin.outages is None)
        same = {"log": "", "seed": 1}
        first, second = (msgspec.structs.replace(each.scenario, **same) for each in (one, twin))
        assert first == second
        assert one.scenario.seed != twin.scenario.seed
    assert len({each.scenario for each in cases}) == len(cases)


def test_windows_are_drawn_from_unseen_jobs_by_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    known = case_list()
    monkeypatch.setattr(BenchmarkLogs, "identity", lambda _, log, seed: (log, ""))
    logs = BenchmarkLogs(known)

    def drawn(seed: int | None) -> list[tuple[str, int]]:
        found = benchmark_cases(known, logs, seed=seed)
        return [(each.log, each.scenario.skip) for each in found]

    assert drawn(None) == drawn(known.seed) == drawn(known.seed)
    assert drawn(None) != drawn(5)
    for seed in range(40):
        windows = sorted(drawn(seed))
        for (log, skip), (next_log, next_skip) in itertools.pairwise(windows):
            assert log != next_log or skip + known.jobs <= next_skip
        for log, skip in drawn(seed)[len(known.cases) :]:
            begin, end = known.logs[log].unseen
            assert begin <= skip <= end - known.jobs


@pytest.mark.usefixtures("_unmade")
def test_a_quick_benchmark_has_a_case_of_each_log_and_its_twin() -> None:
    known = case_list()
    logs = BenchmarkLogs(known)
    quick, cases = (benchmark_cases(known, logs, quick=each) for each in (True, False))
    assert Counter(each.log for each in quick) == dict.fromkeys(known.logs, 2)
    assert all(each in cases for each in quick)
    assert len({each.outages is None for each in quick}) == 2


@pytest.mark.usefixtures("_unmade")
def test_bounds_of_all_cases_come_with_the_package_where_no_log_is_there() -> None:
    known, bounds = case_list(), kept_bounds()
    for case in benchmark_cases(known, BenchmarkLogs(known)):
        found = bounds[bound_key(case.scenario)]
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
    score = score_of(outcomes, 2, Prices(workload), gave_way, NO_TIMES)
    assert score.deadline_jobs == 6
    assert score.promised_jobs == pytest.approx(100 * 4 / 6)  # a, b, c, d
    assert score.kept_jobs == pytest.approx(100 * 3 / 6)  # a, b, c
    assert score.reached_jobs == pytest.approx(100 * 2 / 6)  # a, b
    assert score.met_jobs == pytest.approx(100 * 3 / 6)  # a, b, f
    assert score.reached_work == pytest.approx(100 * (4 + 8) / 28)
    assert score.met_work == pytest.approx(100 * (4 + 8 + 4) / 28)
    assert score.refused_others == 0.0
    assert score.wait == 15.0
    assert score.gini == pytest.approx(0.5)  # user 1 has 3 of 3, user 2 none of 3
    assert score.worst_decile == 0.0
    assert 0 < score.reached_charge < score.kept_charge < score.promised_charge < 100


@pytest.mark.usefixtures("_small")
def test_schedulers_are_scored_below_the_bound(tmp_path: Path) -> None:
    contestants = contestants_of(["easy", "qops", "fqops:tolerance_factor=3"])
    result = run_benchmark(contestants, baseline="qops", directory=tmp_path)
    assert [each.half for each in result.cases] == [VERSIONED] * 2 + [DRAWN] * 2
    assert result.stand_ins == {"kth": "kth-sp2", "sdsc": "sdsc-sp2"}
    for case in result.cases:
        assert case.bound is not None
        for objective in ("jobs", "work", "charge"):
            shares = [getattr(each, f"met_{objective}") for each in case.scores.values()]
            reached = [getattr(each, f"reached_{objective}") for each in case.scores.values()]
            assert max(shares) <= case.bound.bound[objective] + 1e-6
            assert all(each <= other for each, other in zip(reached, shares, strict=True))
        assert case.scores["easy"].promised_jobs == 0
        # Only where something happens to hosts, the engine asks about each message.
        outages = "outages" in case.about
        assert (case.scores["qops"].times.median is not None) == outages
        if not outages:
            assert case.scores["qops"].kept_jobs == case.scores["qops"].promised_jobs
    again = run_benchmark(contestants, baseline="qops", directory=tmp_path)
    assert again == result  # the times of decisions are those of the kept runs


@pytest.mark.usefixtures("_small")
def test_a_scheduler_that_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from qops_batsim import Easy\n"
        "class Fails(Easy):\n"
        "    def key(self, job):\n"
        "        return 1 / 0\n"
    )
    found = contestants_of([f"{file}:Fails", "qops"])
    result = run_benchmark(found, baseline="qops", directory=tmp_path / "out")
    for case in result.cases:
        assert list(case.scores) == ["qops"]
        assert "ZeroDivisionError" in case.errors["Fails"]
    first = tables_of(result)[0]
    assert [row[:2] for row in first.rows] == [["qops", "4"], ["Fails", "0"], ["best known", "4"]]
    assert "ZeroDivisionError" in benchmark_page(result, "benchmark")


def _scored(tmp_path: Path, names: list[str]) -> BenchmarkResult:
    return run_benchmark(contestants_of(names), baseline=names[0], directory=tmp_path / "runs")


@pytest.mark.usefixtures("_small")
def test_a_shared_result_is_shown_beside_ones_own(tmp_path: Path) -> None:
    mine, theirs = _scored(tmp_path, ["qops"]), _scored(tmp_path, ["msb", "qops"])
    path = write_result(theirs, tmp_path)
    assert read_result(path) == theirs
    both = with_shared(mine, path)
    assert both.names == ["qops", "msb"]
    for one, case in zip(theirs.cases, both.cases, strict=True):
        assert case.scores["msb"] == one.scores["msb"]
    other = [msgspec.structs.replace(each, key="another") for each in mine.cases]
    with pytest.raises(InputError, match="has none of these cases"):
        with_shared(msgspec.structs.replace(mine, cases=tuple(other)), path)


@pytest.mark.usefixtures("_small")
def test_means_have_intervals_over_logs_and_pairs(tmp_path: Path) -> None:
    result = _scored(tmp_path, ["qops", "msb"])
    cases, jobs = result.cases, of_best("jobs")
    values = [jobs(case, "msb") for case in cases]
    by_log = [(values[0] + values[2]) / 2, (values[1] + values[3]) / 2]
    mean = mean_of(cases, "msb", jobs)
    assert mean is not None
    assert mean.mean == pytest.approx(sum(by_log) / 2)
    assert mean.count == 2
    less = mean_of(cases, "msb", jobs, less="qops")
    base = mean_of(cases, "qops", jobs)
    assert less is not None
    assert base is not None
    assert less.mean == pytest.approx(mean.mean - base.mean)
    assert any("stand in for logs that are not here" in text for text in method_text(result))


@pytest.mark.usefixtures("_small")
def test_without_bounds_the_table_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "find_spec", lambda name: None)
    result = _scored(tmp_path, ["qops"])
    assert all(case.bound is None for case in result.cases)
    # No column says a share of the bound, and no table has nothing but dashes in one.
    assert tables_of(result)[0].headings == ["scheduler", "cases"]
    for table in (*tables_of(result), case_table(result)):
        columns = zip(*table.rows, strict=True)
        assert all(set(column) - {"-", ""} for column in columns), table.title
    assert any("qops-batsim[bound]" in text for text in method_text(result))


def test_a_bound_leaves_the_jobs_without_deadline_out() -> None:
    # One host, two deadlines at the same time: one can be met, whatever the third job does.
    profile, content = delay_profile(10)
    jobs = [
        Job(str(place), 0.0, 1, profile, qos=QosRequest(deadline=each, estimated_runtime=10.0))
        for place, each in enumerate((10.0, 10.0, None))
    ]
    workload = Workload(jobs=jobs, profiles={profile: content}, processors=1)
    runs = BenchmarkRuns({})
    runs._runs.workload = lambda scenario: workload  # type: ignore[method-assign]
    known = case_list()
    (first, *_) = benchmark_cases(small(), BenchmarkLogs(known))
    found = runs.bound(first.scenario)
    assert found.bound == pytest.approx(dict.fromkeys(("jobs", "work", "charge"), 50.0))
    assert found.best_known == pytest.approx(found.bound)
