"""What counts as a repetition, and who is tested: verdicts do not depend on who else takes part."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from qops_batsim.analysis.metrics.admission import AdmissionMetrics
from qops_batsim.errors import InputError
from qops_batsim.experiments.claims import averages, differences
from qops_batsim.experiments.compare import compare
from qops_batsim.experiments.deadline_runs import Scenario, contestants_of
from qops_batsim.experiments.listed_cases import StudyLog, Window
from qops_batsim.experiments.study import InputIdentities, Study
from qops_batsim.experiments.study_report import summaries
from qops_batsim.experiments.study_runs import CellOutcome, Description, StudyRuns
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
        seeds=(1, 2, 3, 4),
        windows=(Window(first=70),),
        metrics=metrics,
    )
    found = []
    for cell in study.cells():
        noise = random.Random(str((cell.contestant, cell.point.load, cell.seed))).gauss(0, 0.2)
        refused = 10 + EFFECTS.get(cell.contestant, 0.0) + noise if cell.contestant in OWN else 0.0
        values = {"unadmitted_jobs": refused, "unadmitted_work": 2 * refused}
        rest = dict.fromkeys(AdmissionMetrics.__struct_fields__, 50.0 + noise)
        whole = {**rest, "jobs": 70, "deadline_jobs": 70, "kills": 0, **values}
        found.append(CellOutcome(cell=cell, metrics=AdmissionMetrics(**whole)))
    known = InputIdentities(logs={"sdsc": ""}, schedulers=dict.fromkeys(names, ((), "")))
    return StudyRuns(Description(package_version="", key="", study=study, identities=known), found)


@pytest.mark.parametrize("metric", ["unadmitted_jobs", "unadmitted_work"])
@pytest.mark.parametrize("others", [("easy",), ("fcfs",), ("easy", "fcfs", "conservative")])
def test_who_never_refuses_changes_no_verdict_and_no_interval(
    others: tuple[str, ...], metric: str
) -> None:
    metrics = (metric, "utilization")
    alone = summaries(outcomes((), metrics))
    assert {"higher", "inconclusive"} <= {each.verdict for each in alone}
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
        windows=tuple(Window(skip=skip, first=first) for skip, first in windows),
    )
    if share:
        with pytest.raises(InputError, match="share jobs; windows that begin where another"):
            study.check()
    else:
        study.check()


@pytest.mark.parametrize(
    ("changes", "draws"),
    [
        ({}, False),
        ({"load": 1.4}, True),
        ({"load": 1.4, "method": "expansion"}, False),
        ({"share": 0.5}, True),
        ({"share": 0.5, "load": 1.4, "method": "expansion"}, True),
        ({"share": 0.0}, False),
    ],
)
def test_seeds_of_a_paper_are_repetitions_only_where_they_draw(
    changes: dict[str, Any], draws: bool
) -> None:
    """Stretches that begin 25 of 5,000 jobs later with each seed are nearly the same jobs."""
    kind = msgspec.structs.replace(Scenario(log="SDSC"), **changes)
    assert kind.draws == draws
    source = study2003.Source(file="SDSC.swf", processors=128)
    cases = [
        study2003.case_of(source.scenario(kind, kind.load, seed), "qops") for seed in (1, 2, 3)
    ]
    numbers = {
        case.canonical(): SimpleNamespace(unadmitted_jobs=float(seed))
        for seed, case in enumerate(cases, 1)
    }
    results = islam2003.Results(study2003.QUICK, RunTable(numbers), RunTable({}))  # type: ignore[arg-type]
    assert results.of(cases, "unadmitted_jobs") == ([1.0, 2.0, 3.0] if draws else [2.0])


@pytest.mark.parametrize(
    ("case", "draws"),
    [
        (study2004.Case(load=1.0), False),
        (study2004.Case(load=1.0, tolerance="random"), True),
        (study2004.Case(load=1.0, deadline_share=0.2), True),
        (study2004.Case(load=1.3), True),
    ],
)
def test_seeds_that_draw_tolerances_are_repetitions(case: study2004.Case, draws: bool) -> None:
    numbers = {
        (case.simulated(), seed): SimpleNamespace(qos_charge=float(seed))
        for seed in study2004.QUICK.seeds
    }
    results = islam2004.Results(study2004.QUICK, RunTable(numbers))  # type: ignore[arg-type]
    assert results.values(case, "qos_charge") == ([1.0, 2.0, 3.0] if draws else [2.0])
    assert (results.interval(case, "qos_charge").known is None) != draws


def test_one_number_stands_for_all_seeds_beside_others() -> None:
    assert differences([5.0, 6.0], [1.0]) == [4.0, 5.0]
    assert averages([[1.0], [2.0, 4.0]]) == [1.5, 2.5]
    assert averages([[1.0], []]) == []
