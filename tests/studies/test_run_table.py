"""Tidy tables of runs."""

from __future__ import annotations

import msgspec

from qops_batsim.experiments import DeadlineCase, Scenario
from studies.run_table import RunTable, tidy_table


class Refused(msgspec.Struct, frozen=True):
    jobs: int
    work: float | None
    classes: dict[str, dict[str, float]] = {}


class Month(msgspec.Struct, frozen=True):
    month: str
    wait: float


class Year(msgspec.Struct, frozen=True):
    months: tuple[Month, ...]


def case(seed: int) -> DeadlineCase:
    scenario = Scenario(log="KTH", seed=seed)
    settings = (("k_factor", 1), ("order", "least_laxity"))
    return DeadlineCase(scenario=scenario, scheduler="qops", settings=settings)


def test_a_metric_of_cases_has_no_values_if_one_run_lacks_it() -> None:
    table = RunTable({1: Refused(3, 1.5), 2: Refused(4, None)})
    assert table.numbers([2, 1], "jobs") == [4.0, 3.0]
    assert table.numbers([1], "work") == [1.5]
    assert table.numbers([1, 2], "work") == []


def test_every_number_is_a_row_with_the_parameters_of_its_case() -> None:
    run = Refused(3, None, {"short": {"jobs": 2}})
    table = RunTable({case(7): run}, {"machine": "100"})
    first, second = table.rows()
    assert (first["metric"], first["value"]) == ("jobs", 3.0)
    assert (second["metric"], second["value"]) == ("classes.short.jobs", 2.0)
    assert (first["log"], first["seed"], first["scheduler"]) == ("KTH", 7, "qops")
    assert (first["machine"], first["settings"]) == ("100", "k_factor=1,order=least_laxity")


def test_windows_and_seeds_have_columns_of_their_own() -> None:
    months = Year((Month("1996-09", 1.0), Month("1996-10", 2.0)))
    years = RunTable({(Scenario(log="KTH"), 3): months})
    frame = tidy_table([years, RunTable({case(1): Refused(5, 0.5)})])
    assert frame.columns[-3:] == ["window", "metric", "value"]
    rows = frame.select("seed", "window", "metric", "value").rows()
    assert rows == [
        (3, "1996-09", "wait", 1.0),
        (3, "1996-10", "wait", 2.0),
        (1, None, "jobs", 5.0),
        (1, None, "work", 0.5),
    ]
