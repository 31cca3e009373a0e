"""Comparisons over loads and seeds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qops_batsim.analysis.metrics.outcomes import JobOutcomes
from qops_batsim.errors import InputError, SimulationError
from qops_batsim.experiments import deadline_runs as module
from qops_batsim.experiments.compare import Comparison, compare, comparison_of, run_comparison
from qops_batsim.experiments.deadline_runs import Contestant
from qops_batsim.experiments.study_runs import CellOutcome
from qops_batsim.shipped import find_input
from qops_batsim.workload.batsim_json import read_workload
from qops_batsim.workload.deadlines import DeadlineChoices
from qops_batsim.workload.model import Workload


@pytest.fixture(scope="module")
def trace() -> Workload:
    return read_workload(find_input("sdsc_sp2_1000", "workloads"))


def contestants(*names: str) -> tuple[Contestant, ...]:
    return tuple(Contestant(name=name, scheduler=name) for name in names)


GRID = comparison_of(
    contestants("easy", "msb", "mrt", "qops"),
    loads=(1.0, 1.3),
    seeds=(1, 2),
    first=200,
    estimates="exact",
)


@pytest.fixture(scope="module")
def found(trace: Workload) -> Comparison:
    return run_comparison(trace, GRID)


@pytest.fixture(scope="module")
def rows(found: Comparison) -> list[CellOutcome]:
    return found.rows


def metrics_of(row: CellOutcome) -> Any:
    return row.metrics


def place_of(row: CellOutcome) -> tuple[float, int, str]:
    return row.cell.point.load, row.cell.seed, row.cell.contestant


def test_rows_come_by_load_seed_and_contestant(rows: list[CellOutcome]) -> None:
    assert [place_of(row) for row in rows] == [
        (load, seed, each.name)
        for load in GRID.loads
        for seed in GRID.seeds
        for each in GRID.schedulers
    ]
    assert [metrics_of(row).jobs for row in rows] == [200] * 8 + [260] * 8


def test_without_admission_deadlines_are_missed_and_with_it_jobs_refused(
    rows: list[CellOutcome],
) -> None:
    for row in rows:
        if row.cell.contestant == "easy":
            # All deadlines are earlier than EASY's completions, or equal to them.
            assert metrics_of(row).unadmitted_jobs == 0
            assert metrics_of(row).missed_deadlines > 0
        else:
            assert metrics_of(row).unadmitted_jobs > 0
            assert metrics_of(row).missed_deadlines == 0


def test_the_number_of_workers_does_not_matter(trace: Workload, rows: list[CellOutcome]) -> None:
    done: list[tuple[int, int]] = []
    again = run_comparison(trace, GRID, workers=2, on_progress=lambda *each: done.append(each))
    assert again.rows == rows
    # At load 1 both seeds are one run.
    assert done == [(number, 12) for number in range(1, 13)]
    assert [row.repeated for row in rows] == [False] * 4 + [True] * 4 + [False] * 8


def test_settings_reach_the_scheduler(trace: Workload) -> None:
    both = (
        Contestant(name="one", scheduler="mrt", settings={"max_backtracks": 0}),
        Contestant(name="other", scheduler="mrt", settings={"order": "earliest_deadline"}),
    )
    grid = comparison_of(both, loads=(1.6,), seeds=(1,), first=400)
    one, other = run_comparison(trace, grid).rows
    assert one.metrics != other.metrics


def test_jobs_without_user_deadline_have_response_times(trace: Workload) -> None:
    choices = DeadlineChoices(share=0.2)
    grid = comparison_of(contestants("qops"), loads=(1.2,), seeds=(1,), choices=choices, first=200)
    (row,) = run_comparison(trace, grid).rows
    assert metrics_of(row).deadline_jobs == 48
    assert metrics_of(row).response_time > 0
    assert metrics_of(row).slowdown >= 1


def test_summaries(found: Comparison) -> None:
    assert [(each.point.load, each.scheduler) for each in found.summaries[:2]] == [
        (1.0, "easy"),
        (1.0, "msb"),
    ]

    def values(name: str) -> list[float]:
        return [
            metrics_of(row).unadmitted_jobs
            for row in found.rows
            if place_of(row) in {(1.3, seed, name) for seed in (1, 2)}
        ]

    by_name = {(each.point.load, each.scheduler): each for each in found.summaries}
    qops, msb = by_name[1.3, "qops"], by_name[1.3, "msb"]
    mean, difference = qops.metrics["unadmitted_jobs"], qops.difference["unadmitted_jobs"]
    assert mean is not None
    assert mean.mean == pytest.approx(sum(values("qops")) / 2)
    assert difference is not None
    assert difference.mean == pytest.approx((sum(values("qops")) - sum(values("msb"))) / 2)
    # The baseline does not differ from itself, and every job has a user's deadline.
    assert msb.difference["unadmitted_jobs"] is None
    told = found.document()["results"][5]["difference"]["unadmitted_jobs"]
    assert told == {"mean": 0.0, "low": 0.0, "high": 0.0, "count": 2}
    assert qops.metrics["response_time"] is None


def test_csv(found: Comparison) -> None:
    header, first, *_ = found.csv_text().splitlines()
    assert header.startswith("scheduler,load,seed,jobs,deadline_jobs,offered_load,unadmitted_jobs")
    assert first.startswith("easy,1,1,200,200,")
    # Nobody is without deadline; the last are of all jobs that ran.
    assert ",,,,0,0.000000," in first
    row = dict(zip(header.split(","), first.split(","), strict=True))
    assert header.endswith(",met_deadlines,wait,bounded_slowdown_of_all,broken_promises")
    assert float(row["met_deadlines"]) == 100 - float(row["missed_deadlines"]) > 0
    assert float(row["wait"]) > 0
    assert float(row["bounded_slowdown_of_all"]) > 1
    named = found.to_frame().columns
    assert {"met_deadlines", "wait", "bounded_slowdown_of_all"} <= set(named)
    assert "wait" in set(found.tidy()["metric"])


def test_a_broken_promise_ends_the_comparison(
    trace: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module.outcomes_of_simulation

    def later(
        ended: Iterable[object], workload: Workload, promised: dict[str, float]
    ) -> JobOutcomes:
        found = real(ended, workload, promised)
        return replace(found, start=found.start + 1e6, finish=found.finish + 1e6)

    monkeypatch.setattr(module, "outcomes_of_simulation", later)
    grid = {"loads": (1.0,), "seeds": (1,), "first": 20}
    with pytest.raises(SimulationError, match="qops at load 1 with seed 1: job .* its promised"):
        run_comparison(trace, comparison_of(contestants("qops"), **grid, on_broken_promise="fail"))
    (counted,) = run_comparison(trace, comparison_of(contestants("qops"), **grid)).rows
    assert metrics_of(counted).broken_promises == 100


@pytest.mark.parametrize(
    ("names", "loads", "message"),
    [
        ((), (1.0,), "no scheduler to compare"),
        (("easy", "easy"), (1.0,), "easy is given"),
        (("easy",), (1.0, 1.0), "load 1 is given"),
        (("eazy",), (1.0,), "did you mean 'easy'"),
        (("easy",), (0.5,), "load is 0.5"),
    ],
)
def test_errors(names: tuple[str, ...], loads: tuple[float, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        comparison_of(contestants(*names), loads=loads, seeds=(1,))


def test_the_baseline_takes_part() -> None:
    with pytest.raises(InputError, match="baseline is 'fcfs'; one of easy, msb, mrt, qops"):
        comparison_of(GRID.schedulers, loads=(1.0,), seeds=(1,), baseline="fcfs")


def test_a_comparison_from_names_is_that_of_objects(
    trace: Workload, rows: list[CellOutcome]
) -> None:
    names = [each.name for each in GRID.schedulers]
    found = compare("sdsc_sp2_1000", names, loads=GRID.loads, seeds=2, first=200, estimates="exact")
    assert found.rows == rows
    assert found.baseline == "msb"
    assert compare(trace, ["easy"], loads=[1.0], seeds=[1], first=20).baseline == "easy"
    assert repr(found) == "<Comparison of easy, msb, mrt, qops at load 1, 1.3, 2 seeds: 16 runs>"
    frame = found.to_frame()
    assert list(frame.columns[:4]) == ["scheduler", "load", "seed", "jobs"]
    assert list(frame.unadmitted_jobs) == [metrics_of(row).unadmitted_jobs for row in rows]
    tidy = found.tidy()
    refused = tidy.filter(tidy["metric"] == "unadmitted_jobs")["value"].to_list()
    assert refused == [metrics_of(each).unadmitted_jobs for each in rows if not each.repeated]
    assert "qops" in found._repr_html_()


def test_several_settings_of_one_scheduler_take_part(trace: Workload) -> None:
    names = ["qops", "qops:k_factor=1", "qops:k_factor=3,order=earliest_deadline"]
    found = compare(
        trace, names, loads=[1.0], seeds=1, first=20, settings={"qops": {"k_factor": 9}}
    )
    assert found.names == names
    assert [each.settings for each in found.study.schedulers] == [
        {"k_factor": 9},
        {"k_factor": 1},
        {"k_factor": 3, "order": "earliest_deadline"},
    ]
    with pytest.raises(InputError, match="scheduler 'qops' has no option 'k'"):
        compare(trace, ["qops:k=1"])


def test_equal_settings_are_one_run(trace: Workload) -> None:
    default = Contestant(name="default", scheduler="qops", settings={"k_factor": 5})
    done: list[tuple[int, int]] = []
    found = compare(
        trace,
        ["qops", default],
        loads=[1.0],
        seeds=3,
        first=20,
        on_progress=lambda *each: done.append(each),
    )
    assert len(found.rows) == 6
    assert done == [(1, 1)]
    assert [row.repeated for row in found.rows] == [False] * 2 + [True] * 4


def test_options_go_to_the_scheduler_that_they_name(trace: Workload) -> None:
    own = Contestant(name="first only", scheduler="qops", settings={"on_failure": "reject"})
    settings = {"qops": {"k_factor": 3}, "mrt": {"max_backtracks": 0}}
    found = compare(
        trace, [own, "mrt"], loads=[1.0], seeds=1, first=20, settings=settings, baseline="mrt"
    )
    assert [each.settings for each in found.study.schedulers] == [
        {"on_failure": "reject", "k_factor": 3},
        {"max_backtracks": 0},
    ]
    with pytest.raises(InputError, match="options of qop: it is not compared; did you mean"):
        compare(trace, ["qops"], settings={"qop": {}})
    with pytest.raises(InputError, match="baseline is 'msb'; one of easy is expected"):
        compare(trace, ["easy"], baseline="msb")


def test_a_scheduler_of_ones_own_file_takes_part_in_every_process(
    trace: Workload, tmp_path: Path
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from qops_batsim.scheduling.admission.qops import Qops\n\n\nclass Mine(Qops):\n    pass\n"
    )
    names, settings = ["qops", f"{path}:Mine"], {"Mine": {"k_factor": 3}, "qops": {"k_factor": 3}}
    found = compare(trace, names, loads=[1.0, 1.2], seeds=1, first=40, settings=settings, workers=2)
    assert found.names == ["qops", "Mine"]
    ours, own = (
        [row.metrics for row in found.rows if row.cell.contestant == name] for name in found.names
    )
    assert own == ours
