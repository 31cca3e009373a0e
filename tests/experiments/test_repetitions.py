"""What counts as a repetition, and who is tested: verdicts do not depend on who else takes part."""

from __future__ import annotations

import random
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from qops_batsim import InputError, compare
from qops_batsim.experiments import (
    ENOUGH,
    CellOutcome,
    LogWindow,
    Scenario,
    Study,
    StudyLog,
    StudyRuns,
    averages,
    contestants_of,
    differences,
    mean_interval,
    page_tables,
    summaries,
)
from qops_batsim.experiments.study import InputIdentities
from qops_batsim.experiments.study_report import over_logs
from qops_batsim.experiments.study_runs import Description
from qops_batsim.measures import Measures, measure_names
from qops_batsim.measures.metrics.measures import STUDY
from studies.islam2003 import runs as islam2003
from studies.islam2003 import study as study2003
from studies.islam2004 import runs as islam2004
from studies.islam2004 import study as study2004
from studies.run_table import RunTable

OWN = ("msb", "qops", "qops:k_factor=1", "mrt")


EFFECTS = {"qops": 1.5, "qops:k_factor=1": -0.8, "mrt": 0.3}
"""By how many points more than msb they refuse; whoever else takes part refuses nothing."""


def outcomes(others: tuple[str, ...], metrics: tuple[str, ...]) -> StudyRuns:
    """Return made-up runs of four schedulers that refuse, and of others, which do not."""
    names = [*OWN, *others]
    study = Study(
        name="beside others",
        logs=(StudyLog(name="sdsc", file="sdsc_sp2_1000"),),
        schedulers=contestants_of(names),
        loads=(1.2, 1.6),
        seeds=tuple(range(1, 13)),
        windows=(LogWindow(first=70),),
        metrics=metrics,
    )
    found = []
    for cell in study.cells():
        noise = random.Random(str((cell.contestant, cell.point.load, cell.seed))).gauss(0, 0.2)
        refused = 10 + EFFECTS.get(cell.contestant, 0.0) + noise if cell.contestant in OWN else 0.0
        values = {"unadmitted_jobs": refused, "unadmitted_work": 2 * refused}
        rest = dict.fromkeys(measure_names(STUDY), 50.0 + noise)
        whole = {**rest, "jobs": 70, "deadline_jobs": 70, "kills": 0, **values}
        found.append(CellOutcome(cell=cell, metrics=Measures(**whole)))
    known = InputIdentities(logs={"sdsc": ""}, schedulers=dict.fromkeys(names, ((), "")))
    return StudyRuns(Description(package_version="", key="", study=study, identities=known), found)


@pytest.mark.parametrize("metric", ["unadmitted_jobs", "unadmitted_work"])
@pytest.mark.parametrize("others", [("easy",), ("fcfs",), ("easy", "fcfs", "conservative")])
def test_who_never_refuses_changes_no_verdict_and_no_interval(
    others: tuple[str, ...], metric: str
) -> None:
    metrics = (metric, "utilization")
    alone = summaries(outcomes((), metrics))
    assert {"higher", "lower"} <= {each.verdict for each in alone}
    beside = summaries(outcomes(others, metrics))
    assert [each for each in beside if each.scheduler in OWN] == alone
    for each in beside:
        if each.scheduler in others:
            assert (each.verdict, each.chance) == ("", None)
            assert each.difference[metric].mean < 0


def test_on_other_metrics_all_are_tested() -> None:
    found = summaries(outcomes(("easy",), ("utilization", "unadmitted_jobs")))
    assert all(each.verdict for each in found if each.scheduler != "msb")


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({"loads": [1.0]}, 1),
        ({"loads": [1.4], "method": "expansion"}, 1),
        ({"loads": [1.4]}, 3),
    ],
)
def test_where_nothing_is_drawn_there_is_one_number(changes: dict[str, Any], count: int) -> None:
    found = compare(["msb", "qops"], seeds=3, first=60, **changes)
    for each in summaries(found):
        values = [*each.metrics.values(), *each.difference.values()]
        assert {value.count for value in values if value is not None} == {count}
        assert all(value is None or (value.low is None) == (count == 1) for value in values)


@pytest.mark.parametrize(
    ("windows", "share"),
    [
        ([(0, 5000), (25, 5000)], True),
        ([(0, 0), (5000, 100)], True),
        ([(100, 50), (0, 101)], True),
        ([(0, 100), (100, 100)], False),
        ([(200, 100), (0, 100)], False),
    ],
)
def test_windows_that_share_jobs_are_refused(windows: list[tuple[int, int]], share: bool) -> None:
    study = Study(
        name="windows",
        logs=(StudyLog(name="sdsc", file="sdsc_sp2_1000"),),
        schedulers=contestants_of(["easy"]),
        windows=tuple(LogWindow(skip=skip, first=first) for skip, first in windows),
    )
    if share:
        with pytest.raises(InputError, match="share jobs; windows that begin where another"):
            study.check()
    else:
        study.check()


def test_stretches_of_a_paper_are_repetitions_also_where_nothing_is_drawn() -> None:
    source = study2003.FULL.sources["SDSC"]
    kind = Scenario(log="SDSC")
    scenarios = [source.scenario(kind, kind.load, seed) for seed in study2003.FULL.seeds]
    ends = [(each.skip, each.skip + each.first) for each in scenarios]
    assert len(ends) >= 13
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))
    cases = [study2003.case_of(each, "qops") for each in scenarios]
    numbers = {
        case.canonical(): SimpleNamespace(unadmitted_jobs=float(seed))
        for seed, case in enumerate(cases, 1)
    }
    results = islam2003.Results(study2003.QUICK, RunTable(numbers), RunTable({}))  # type: ignore[arg-type]
    assert results.of(cases, "unadmitted_jobs") == [float(seed) for seed in study2003.FULL.seeds]
    of_paper = study2003.FULL.of_paper
    assert (of_paper.sources["SDSC"].first, of_paper.seeds) == (5000, (1,))


def test_stretches_of_2004_share_no_job_and_suffice_for_verdicts() -> None:
    study = study2004.FULL
    numbers = {
        (study2004.Case(load=1.0), seed): SimpleNamespace(qos_charge=float(seed))
        for seed in study.seeds
    }
    results = islam2004.Results(study, RunTable(numbers))  # type: ignore[arg-type]
    assert results.interval(study2004.Case(load=1.0), "qos_charge").count == len(study.seeds)
    assert len(study.seeds) >= ENOUGH
    skips = [
        islam2004.scenario_of(study2004.Case(load=1.0), seed, study.jobs, study.every).skip
        for seed in study.seeds
    ]
    assert all(other - one >= study.jobs for one, other in pairwise(skips))


def test_one_number_stands_for_all_seeds_beside_others() -> None:
    assert differences([5.0, 6.0], [1.0]) == [4.0, 5.0]
    assert averages([[1.0], [2.0, 4.0]]) == [1.5, 2.5]
    assert averages([[1.0], []]) == []


def on_logs(metrics: dict[str, list[float]], others: tuple[str, ...] = ()) -> StudyRuns:
    """Return made-up runs of twelve windows of each of some logs, by what is refused on each."""
    logs = len(next(iter(metrics.values())))
    names = [*metrics, *others]
    study = Study(
        name="several logs",
        logs=tuple(StudyLog(name=f"log {place}", file=f"x{place}") for place in range(logs)),
        schedulers=contestants_of(names),
        windows=tuple(LogWindow(skip=70 * place, first=70) for place in range(12)),
        seeds=(1,),
    )
    found = []
    for cell in study.cells():
        place = int(cell.point.log.rpartition(" ")[2])
        noise = random.Random(str((cell.contestant, cell.point.log, cell.window))).gauss(0, 0.1)
        own = metrics.get(cell.contestant)
        rest = dict.fromkeys(measure_names(STUDY), 50.0)
        refused = own[place] + noise if own else 0.0
        whole = {**rest, "jobs": 70, "deadline_jobs": 70, "kills": 0, "unadmitted_jobs": refused}
        found.append(CellOutcome(cell=cell, metrics=Measures(**whole)))
    known = InputIdentities(logs={}, schedulers={})
    return StudyRuns(Description(package_version="", key="", study=study, identities=known), found)


def test_logs_are_units_where_there_are_several() -> None:
    """On each log QoPS differs from MSB; four logs decide nothing, but may agree in sign."""
    runs = on_logs(
        {"msb": [10.0] * 4, "qops": [9.0, 8.0, 11.0, 12.5], "mrt": [13.0, 13.1, 12.9, 13]}
    )
    found = summaries(runs)
    assert {each.verdict for each in found if each.scheduler == "qops"} == {"higher", "lower"}
    whole = {each.scheduler: each for each in over_logs(runs, found)}
    assert {(each.over, each.runs, each.point.log) for each in whole.values()} == {
        ("logs", 48, "all logs")
    }
    own = [each for each in found if each.scheduler == "qops"]
    means = [each.difference["unadmitted_jobs"].mean for each in own]
    assert whole["qops"].difference["unadmitted_jobs"] == mean_interval(means, (-100.0, 100.0))
    assert (whole["qops"].verdict, whole["mrt"].verdict) == ("too few", "too few, all 4 higher")
    assert whole["msb"].verdict == ""


def test_one_log_on_several_machines_counts_once() -> None:
    """Of three logs the last two are one file: the mean of both is one value of two."""
    runs = on_logs({"msb": [10.0] * 3, "qops": [9.0, 8.0, 6.0]})
    logs = [
        msgspec.structs.replace(log, file=file)
        for log, file in zip(runs.study.logs, "abb", strict=True)
    ]
    study = msgspec.structs.replace(runs.study, logs=tuple(logs))
    about = msgspec.structs.replace(runs.description, study=study)
    (_, whole) = over_logs(StudyRuns(about, runs.outcomes), summaries(runs))
    found = whole.difference["unadmitted_jobs"]
    assert (found.count, round(found.mean, 1), whole.verdict) == (2, -2.0, "too few, all 2 lower")


def test_who_never_refuses_changes_no_verdict_over_logs() -> None:
    refused = {"msb": [10.0] * 3, "qops": [9.0, 8.7, 8.8]}
    alone, beside = (on_logs(refused, others) for others in ((), ("easy", "fcfs")))
    known = over_logs(alone, summaries(alone))
    found = {each.scheduler: each for each in over_logs(beside, summaries(beside))}
    assert [found[each.scheduler] for each in known] == known
    assert found["easy"].verdict == found["fcfs"].verdict == ""


def test_a_study_of_one_log_has_no_table_over_logs() -> None:
    several = on_logs({"msb": [10.0] * 2, "qops": [9.0, 8.0]})
    assert [len(each.rows) for each in page_tables(several)] == [4, 2]
    assert len(page_tables(outcomes((), ("unadmitted_jobs",)))) == 1
