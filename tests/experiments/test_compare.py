"""Comparisons over loads and seeds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from qops_batsim.analysis.metrics.outcomes import JobOutcomes
from qops_batsim.errors import InputError, SimulationError
from qops_batsim.experiments import deadline_runs as module
from qops_batsim.experiments.compare import Grid, Row, compare, csv_text, run_grid, summarize
from qops_batsim.experiments.deadline_runs import Contestant
from qops_batsim.shipped import find_input
from qops_batsim.workload.batsim_json import read_workload
from qops_batsim.workload.deadlines import DeadlineChoices
from qops_batsim.workload.model import Workload


@pytest.fixture(scope="module")
def trace() -> Workload:
    return read_workload(find_input("sdsc_sp2_1000", "workloads"))


def contestants(*names: str) -> tuple[Contestant, ...]:
    return tuple(Contestant(name=name, scheduler=name) for name in names)


GRID = Grid(
    contestants=contestants("easy", "msb", "mrt", "qops"),
    loads=(1.0, 1.3),
    seeds=(1, 2),
    first=200,
)


@pytest.fixture(scope="module")
def rows(trace: Workload) -> list[Row]:
    return run_grid(trace, GRID)


def test_rows_come_by_load_seed_and_contestant(rows: list[Row]) -> None:
    keys = [(row.load, row.seed, row.contestant) for row in rows]
    assert keys == [
        (load, seed, each.name)
        for load in GRID.loads
        for seed in GRID.seeds
        for each in GRID.contestants
    ]
    assert [row.metrics.jobs for row in rows] == [200] * 8 + [260] * 8


def test_without_admission_deadlines_are_missed_and_with_it_jobs_refused(rows: list[Row]) -> None:
    for row in rows:
        if row.contestant == "easy":
            # All deadlines are earlier than EASY's completions, or equal to them.
            assert row.metrics.unadmitted_jobs == 0
            assert (row.metrics.missed_deadlines or 0) > 0
        else:
            assert row.metrics.unadmitted_jobs > 0
            assert row.metrics.missed_deadlines == 0


def test_the_number_of_workers_does_not_matter(trace: Workload, rows: list[Row]) -> None:
    done: list[tuple[int, int]] = []
    again = run_grid(trace, GRID, workers=2, on_progress=lambda *each: done.append(each))
    assert again == rows
    # At load 1 both seeds are one run.
    assert done == [(number, 12) for number in range(1, 13)]
    assert [row.repeated for row in rows] == [False] * 4 + [True] * 4 + [False] * 8


def test_settings_reach_the_scheduler(trace: Workload) -> None:
    both = (
        Contestant(name="one", scheduler="mrt", settings={"max_backtracks": 0}),
        Contestant(name="other", scheduler="mrt", settings={"order": "earliest_deadline"}),
    )
    grid = Grid(contestants=both, loads=(1.6,), seeds=(1,), first=400)
    one, other = run_grid(trace, grid)
    assert one.metrics != other.metrics


def test_jobs_without_user_deadline_have_response_times(trace: Workload) -> None:
    grid = Grid(
        contestants=contestants("qops"),
        loads=(1.2,),
        seeds=(1,),
        choices=DeadlineChoices(share=0.2),
        first=200,
    )
    (row,) = run_grid(trace, grid)
    assert row.metrics.deadline_jobs == 48
    assert (row.metrics.response_time or 0) > 0
    assert (row.metrics.slowdown or 0) >= 1


def test_summaries(rows: list[Row]) -> None:
    found = summarize(rows, "msb")
    assert [(each.load, each.contestant) for each in found[:2]] == [(1.0, "easy"), (1.0, "msb")]
    by_name = {(each.load, each.contestant): each for each in found}
    values = [r.metrics.unadmitted_jobs for r in rows if (r.load, r.contestant) == (1.3, "qops")]
    mean = by_name[1.3, "qops"].metrics["unadmitted_jobs"]
    assert mean is not None
    assert mean.mean == pytest.approx(sum(values) / 2)
    others = [r.metrics.unadmitted_jobs for r in rows if (r.load, r.contestant) == (1.3, "msb")]
    difference = by_name[1.3, "qops"].difference["unadmitted_jobs"]
    assert difference is not None
    assert difference.mean == pytest.approx((sum(values) - sum(others)) / 2)
    # Every job has a user's deadline.
    assert by_name[1.3, "qops"].metrics["response_time"] is None


def test_csv(rows: list[Row]) -> None:
    header, first, *_ = csv_text(rows).splitlines()
    assert header.startswith("scheduler,load,seed,jobs,deadline_jobs,offered_load,unadmitted_jobs")
    assert first.startswith("easy,1,1,200,200,")
    assert first.endswith(",,,,0,0.000000")


def test_a_broken_promise_ends_the_comparison(
    trace: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module.outcomes_of_columns

    def later(
        ended: Iterable[object], workload: Workload, promised: dict[str, float]
    ) -> JobOutcomes:
        found = real(ended, workload, promised)
        return replace(found, start=found.start + 1e6, finish=found.finish + 1e6)

    monkeypatch.setattr(module, "outcomes_of_columns", later)
    grid = Grid(contestants=contestants("qops"), loads=(1.0,), seeds=(1,), first=20)
    with pytest.raises(SimulationError, match="qops at load 1 with seed 1: job .* its promised"):
        run_grid(trace, grid)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (Grid(contestants=(), loads=(1.0,), seeds=(1,)), "no scheduler to compare"),
        (Grid(contestants=contestants("easy", "easy"), loads=(1.0,), seeds=(1,)), "easy is given"),
        (Grid(contestants=contestants("easy"), loads=(1.0, 1.0), seeds=(1,)), "load 1 is given"),
        (Grid(contestants=contestants("eazy"), loads=(1.0,), seeds=(1,)), "did you mean 'easy'"),
        (Grid(contestants=contestants("easy"), loads=(0.5,), seeds=(1,)), "load is 0.5"),
    ],
)
def test_errors(trace: Workload, grid: Grid, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_grid(trace, grid)


def test_the_baseline_takes_part(rows: list[Row]) -> None:
    with pytest.raises(InputError, match="baseline is 'fcfs'; one of easy, msb, mrt, qops"):
        summarize(rows, "fcfs")


def test_a_comparison_from_names_is_that_of_objects(trace: Workload, rows: list[Row]) -> None:
    names = [each.name for each in GRID.contestants]
    found = compare("sdsc_sp2_1000", names, loads=GRID.loads, seeds=2, first=200)
    assert found.rows == rows
    assert found.baseline == "msb"
    assert compare(trace, ["easy"], loads=[1.0], seeds=[1], first=20).baseline == "easy"
    assert repr(found) == "<Comparison of easy, msb, mrt, qops at load 1, 1.3, 2 seeds: 16 runs>"
    frame = found.to_frame()
    assert list(frame.columns[:4]) == ["scheduler", "load", "seed", "jobs"]
    assert list(frame.unadmitted_jobs) == [row.metrics.unadmitted_jobs for row in rows]
    assert "qops" in found._repr_html_()


def test_several_settings_of_one_scheduler_take_part(trace: Workload) -> None:
    names = ["qops", "qops:k_factor=1", "qops:k_factor=3,order=earliest_deadline"]
    found = compare(
        trace, names, loads=[1.0], seeds=1, first=20, settings={"qops": {"k_factor": 9}}
    )
    assert found.grid.names == names
    assert [each.settings for each in found.grid.contestants] == [
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
    assert [each.settings for each in found.grid.contestants] == [
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
    assert found.grid.names == ["qops", "Mine"]
    ours, own = (
        [row.metrics for row in found.rows if row.contestant == name] for name in found.grid.names
    )
    assert own == ours
