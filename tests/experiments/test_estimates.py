"""Studies over models of estimates: the workloads, the checks, the tables."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from qops_batsim import InputError, read_workload
from qops_batsim.errors import SimulationError
from qops_batsim.experiments import (
    DeadlineCase,
    DeadlineRuns,
    Scenario,
    Study,
    StudyRuns,
    page_tables,
    read_study_runs,
    run_study,
    study_of,
    summaries,
)
from qops_batsim.experiments import deadline_runs as module
from qops_batsim.experiments.deadline_workload import (
    give_deadlines,
    give_estimates,
    scaled_workload,
)
from qops_batsim.experiments.study_report import (
    figures_of,
    summary_records,
)
from qops_batsim.measures import Measures, measure_names
from qops_batsim.measures.metrics.measures import PROMISES
from qops_batsim.shipped import find_input
from qops_batsim.workload import EstimateChoices, Workload, run_times

GRID = {
    "name": "small",
    "logs": "sdsc_sp2_1000",
    "windows": [{"skip": skip, "first": 80} for skip in (0, 80, 160)],
    "schedulers": ["easy", "qops"],
    "baseline": "qops",
    "loads": 1.4,
    "seeds": 1,
    "metrics": ["broken_promises", "income"],
    "deadlines_by": ["exact", "users"],
    "estimates": ["exact", "users", {"model": "error", "spread": 0.5}],
}


@pytest.fixture(scope="module")
def trace() -> Workload:
    return read_workload(find_input("sdsc_sp2_1000", "workloads"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> StudyRuns:
    directory = tmp_path_factory.mktemp("estimates")
    run_study(study_of(GRID, source="here"), directory)
    return read_study_runs(directory)


def test_deadlines_are_the_same_whatever_the_estimates(trace: Workload) -> None:
    made = DeadlineRuns({"log": trace})
    for by in ("exact", "users"):
        workloads = [
            made.workload(
                Scenario(log="log", first=90, load=1.2, deadlines_by=by, estimates=choices)
            )
            for choices in (
                EstimateChoices(),
                EstimateChoices(model="users"),
                EstimateChoices(model="error"),
            )
        ]
        first, *others = (
            [(job.id, job.qos and job.qos.deadline) for job in each.jobs] for each in workloads
        )
        assert [first, first] == others
        assert len({tuple(run_times(each)) for each in workloads}) == 1
        assert len({tuple(job.estimate for job in each.jobs) for each in workloads}) == 3


def test_a_scenario_is_what_the_commands_make(trace: Workload) -> None:
    choices = EstimateChoices(model="error", risk=0.1)
    scaled = scaled_workload(trace, 1.2, first=90)
    given = give_deadlines(scaled, keep_estimates=False)
    exact = give_estimates(given, choices, requests=scaled)
    users = give_estimates(give_deadlines(scaled), choices)
    for by, expected in (("exact", exact), ("users", users)):
        scenario = Scenario(log="log", first=90, load=1.2, deadlines_by=by, estimates=choices)
        assert DeadlineRuns({"log": trace}).workload(scenario).jobs == expected.jobs


def test_models_of_estimates_are_part_of_the_key() -> None:
    grid = {name: GRID[name] for name in ("name", "logs", "schedulers", "loads", "seeds")}
    users = study_of(grid, source="here")
    assert (users.deadlines_by, list(users.models)) == (("users",), ["users"])
    plain = msgspec.structs.replace(users, deadlines_by=(), estimates=())
    assert b"estimates" not in msgspec.json.encode(Scenario(log="a"))
    with_models = study_of({**grid, "estimates": ["exact"]}, source="here")
    assert with_models.key not in (plain.key, users.key)
    assert with_models.deadlines_by == ()
    assert msgspec.structs.replace(plain, message_delays=True, bound=None).key == plain.key
    bounded = study_of({**grid, "bound": 1.0}, source="here")
    assert not bounded.has_models
    again = msgspec.json.decode(msgspec.json.encode(with_models), type=Study)
    assert (again, again.key) == (with_models, with_models.key)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"estimates": ["user"]}, "model is 'user'; did you mean 'users'?"),
        ({"estimates": ["exact", "exact"]}, "model of estimates exact is given twice"),
        ({"estimates": [{"model": "error", "seed": 2}]}, "seed of estimates is 2; the seeds of"),
        ({"estimates": [{"modl": "error"}]}, "modl is not known; did you mean 'model'"),
        ({"estimates": []}, "no model of estimates to compare"),
        ({"deadlines_by": "easy"}, "deadlines_by is 'easy' (known: exact, users)"),
        ({"reference": "early"}, "reference is 'early' (known: scaled, unscaled)"),
        ({"bound": 0.0}, "bound is 0; a number above 0 (about as many seconds of search)"),
        ({"metrics": ["brokn_promises"]}, "did you mean 'broken_promises'?"),
    ],
)
def test_a_mistake_is_told(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        study_of({**GRID, **changes}, source="here")
    assert message in str(error.value)


def test_metrics_of_promises_need_a_model() -> None:
    grid = {
        name: value for name, value in GRID.items() if name not in ("estimates", "deadlines_by")
    }
    assert study_of(grid, source="here").has_models
    with pytest.raises(InputError, match="metric is 'income'; it needs estimates"):
        study_of({**grid, "bound": 1.0}, source="here")


def test_promises_hold_where_estimates_do(runs: StudyRuns) -> None:
    for each in runs.outcomes:
        found = each.metrics
        assert isinstance(found, Measures)
        if each.cell.contestant == "easy":
            assert found.broken_promises is None
            continue
        assert found.broken_promises is not None
        assert found.kept_charge is not None
        assert found.broken_charge is not None
        assert 0 <= found.kept_charge + found.broken_charge <= 100.000001
        if each.cell.point.estimates in ("exact", "users"):
            assert found.broken_promises == found.broken_charge == 0
            assert found.income == found.kept_charge
    wrong = [e for e in runs.outcomes if e.cell.point.estimates == "error, spread 0.5"]
    assert any(getattr(each.metrics, "broken_promises", 0) for each in wrong)


def test_tables_and_pictures_have_the_models(runs: StudyRuns, tmp_path: Path) -> None:
    found = summaries(runs)
    (table,) = page_tables(runs)
    headings, rows = table.headings, table.rows
    assert headings[:3] == ["deadlines_by", "estimates", "scheduler"]
    assert "broken promises (%)" in headings
    assert len(rows) == 2 * 3 * 2
    assert set(measure_names(PROMISES)) <= set(runs.records()[0])
    assert {"estimates", "income_low"} <= set(summary_records(found)[0])
    assert any("estimates-users-" in each.name for each in figures_of(runs))


def test_the_promises_of_slack_based_backfilling_are_latest_starts(trace: Workload) -> None:
    runs = DeadlineRuns({"log": trace})
    found = []
    for choices in (EstimateChoices(model="users"), EstimateChoices(model="error", spread=1.0)):
        scenario = Scenario(log="log", first=80, load=1.4, deadlines_by="users", estimates=choices)
        metrics = runs(DeadlineCase(scenario=scenario, scheduler="slack"))
        assert isinstance(metrics, Measures)
        assert metrics.income is None
        found.append(metrics.broken_promises)
    assert found[0] == 0
    assert found[1]


def test_a_promise_broken_on_walltimes_is_an_error(
    trace: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = module.outcomes_of

    def late(*arguments: object, **options: object) -> object:
        outcomes, simulation = honest(*arguments, **options)  # type: ignore[arg-type]
        outcomes.promised[:] -= 1.0
        return outcomes, simulation

    monkeypatch.setattr(module, "outcomes_of", late)
    runs = DeadlineRuns({"log": trace})
    for model, breaks in (("users", True), ("exact", True), ("error", False)):
        scenario = Scenario(
            log="log",
            first=90,
            load=1.2,
            deadlines_by="users",
            estimates=EstimateChoices(model=model),
        )
        case = DeadlineCase(scenario=scenario, scheduler="qops", strict=True)
        if breaks:
            with pytest.raises(SimulationError, match="ends after its promised deadline"):
                runs(case)
        else:
            runs(case)
