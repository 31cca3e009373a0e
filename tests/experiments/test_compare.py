"""Comparisons over loads and seeds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError, compare, read_workload
from qops_batsim.errors import SimulationError
from qops_batsim.experiments import CellOutcome, Contestant, Study, StudyRuns, run_study, summaries
from qops_batsim.experiments import deadline_runs as module
from qops_batsim.experiments.compare import comparison_of
from qops_batsim.measures import JobOutcomes
from qops_batsim.shipped import find_input
from qops_batsim.workload import DeadlineChoices, Workload


@pytest.fixture(scope="module")
def trace() -> Workload:
    return read_workload(find_input("sdsc_sp2_1000", "workloads"))


def contestants(*names: str) -> tuple[Contestant, ...]:
    return tuple(Contestant(name=name, scheduler=name) for name in names)


GRID = comparison_of(
    contestants("easy", "msb", "mrt", "qops"),
    "sdsc_sp2_1000",
    loads=(1.0, 1.3),
    seeds=(1, 2),
    first=200,
    estimates="exact",
)


@pytest.fixture(scope="module")
def found() -> StudyRuns:
    return run_study(GRID)


@pytest.fixture(scope="module")
def rows(found: StudyRuns) -> list[CellOutcome]:
    return [*found.outcomes]


def grid(schedulers: tuple[Contestant, ...], **choices: Any) -> Study:
    return comparison_of(schedulers, "sdsc_sp2_1000", **choices)


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


def test_the_number_of_workers_does_not_matter(rows: list[CellOutcome]) -> None:
    done: list[tuple[int, int]] = []
    again = run_study(GRID, workers=2, on_progress=lambda *each: done.append(each))
    assert again.outcomes == rows
    # At load 1 both seeds are one run.
    assert done == [(number, 12) for number in range(1, 13)]
    assert [row.repeated for row in rows] == [False] * 4 + [True] * 4 + [False] * 8


def test_settings_reach_the_scheduler() -> None:
    both = (
        Contestant(name="one", scheduler="mrt", settings={"max_backtracks": 0}),
        Contestant(name="other", scheduler="mrt", settings={"order": "earliest_deadline"}),
    )
    one, other = run_study(grid(both, loads=(1.6,), seeds=(1,), first=400)).outcomes
    assert one.metrics != other.metrics


def test_jobs_without_user_deadline_have_response_times() -> None:
    deadlines = DeadlineChoices(share=0.2)
    few = grid(contestants("qops"), loads=(1.2,), seeds=(1,), deadlines=deadlines, first=200)
    (row,) = run_study(few).outcomes
    assert few.metrics[0] == "unadmitted_deadline_jobs"
    assert metrics_of(row).deadline_jobs == 48
    assert metrics_of(row).response_time_of_others > 0
    assert metrics_of(row).slowdown_of_others >= 1


def test_without_deadlines_slowdowns_are_judged() -> None:
    deadlines = DeadlineChoices(share=0, artificial="none")
    none = grid(
        contestants("easy", "fcfs"),
        loads=(1.2,),
        seeds=tuple(range(1, 14)),
        deadlines=deadlines,
        first=200,
    )
    easy, fcfs = summaries(run_study(none))
    assert none.metrics[:2] == ("bounded_slowdown_of_all", "wait")
    assert easy.verdict == ""
    assert fcfs.difference["bounded_slowdown_of_all"].mean > 0
    assert fcfs.verdict == "higher"
    assert fcfs.chance is not None


def test_summaries(found: StudyRuns) -> None:
    told = summaries(found)
    assert [(each.point.load, each.scheduler) for each in told[:2]] == [
        (1.0, "easy"),
        (1.0, "msb"),
    ]

    def values(name: str) -> list[float]:
        return [
            metrics_of(row).unadmitted_jobs
            for row in found.outcomes
            if place_of(row) in {(1.3, seed, name) for seed in (1, 2)}
        ]

    by_name = {(each.point.load, each.scheduler): each for each in told}
    qops, msb = by_name[1.3, "qops"], by_name[1.3, "msb"]
    mean, difference = qops.metrics["unadmitted_jobs"], qops.difference["unadmitted_jobs"]
    assert mean is not None
    assert mean.mean == pytest.approx(sum(values("qops")) / 2)
    assert difference is not None
    assert difference.mean == pytest.approx((sum(values("qops")) - sum(values("msb"))) / 2)
    # The baseline does not differ from itself, and every job has a user's deadline.
    assert msb.difference["unadmitted_jobs"] is None
    assert qops.metrics["response_time_of_others"] is None


def test_a_broken_promise_ends_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.outcomes_of_simulation

    def later(*arguments: Any, **others: Any) -> JobOutcomes:
        found = real(*arguments, **others)
        return replace(found, start=found.start + 1e6, finish=found.finish + 1e6)

    monkeypatch.setattr(module, "outcomes_of_simulation", later)
    small: dict[str, Any] = {"loads": (1.0,), "seeds": (1,), "first": 20}
    with pytest.raises(SimulationError, match="qops at load 1 with seed 1: job .* its promised"):
        run_study(grid(contestants("qops"), **small, on_broken_promise="fail"))
    (counted,) = run_study(grid(contestants("qops"), **small)).outcomes
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
        grid(contestants(*names), loads=loads, seeds=(1,))


def test_the_baseline_takes_part() -> None:
    with pytest.raises(InputError, match="baseline is 'fcfs'; one of easy, msb, mrt, qops"):
        grid(GRID.schedulers, loads=(1.0,), seeds=(1,), baseline="fcfs")


def test_a_comparison_from_names_is_that_of_objects(
    trace: Workload, rows: list[CellOutcome]
) -> None:
    names = [each.name for each in GRID.schedulers]
    found = compare(names, "sdsc_sp2_1000", loads=GRID.loads, seeds=2, first=200, estimates="exact")
    assert found.outcomes == rows
    assert found.study.base == "msb"
    assert compare(["easy"], trace, loads=[1.0], seeds=[1], first=20).study.base == "easy"
    assert repr(found) == "<Study 'comparison' of easy, msb, mrt, qops: 16 runs>"
    frame = found.to_frame()
    assert list(frame.columns[:4]) == ["load", "scheduler", "seed", "jobs"]
    assert list(frame.unadmitted_jobs) == [metrics_of(row).unadmitted_jobs for row in rows]
    assert "qops" in found._repr_html_()


def test_several_settings_of_one_scheduler_take_part(trace: Workload) -> None:
    names = ["qops", "qops:k_factor=1", "qops:k_factor=3,order=earliest_deadline"]
    found = compare(
        names, trace, loads=[1.0], seeds=1, first=20, settings={"qops": {"k_factor": 9}}
    )
    assert [each.name for each in found.study.schedulers] == names
    assert [each.settings for each in found.study.schedulers] == [
        {"k_factor": 9},
        {"k_factor": 1},
        {"k_factor": 3, "order": "earliest_deadline"},
    ]
    with pytest.raises(InputError, match="scheduler 'qops' has no option 'k'"):
        compare(["qops:k=1"], trace)


def test_equal_settings_are_one_run(trace: Workload) -> None:
    default = Contestant(name="default", scheduler="qops", settings={"k_factor": 5})
    done: list[tuple[int, int]] = []
    found = compare(
        ["qops", default],
        trace,
        loads=[1.0],
        seeds=3,
        first=20,
        on_progress=lambda *each: done.append(each),
    )
    assert len(found.outcomes) == 6
    assert done == [(1, 1)]
    assert [row.repeated for row in found.outcomes] == [False] * 2 + [True] * 4


def test_options_go_to_the_scheduler_that_they_name(trace: Workload) -> None:
    own = Contestant(name="first only", scheduler="qops", settings={"on_failure": "reject"})
    settings = {"qops": {"k_factor": 3}, "mrt": {"max_backtracks": 0}}
    found = compare(
        [own, "mrt"], trace, loads=[1.0], seeds=1, first=20, settings=settings, baseline="mrt"
    )
    assert [each.settings for each in found.study.schedulers] == [
        {"on_failure": "reject", "k_factor": 3},
        {"max_backtracks": 0},
    ]
    with pytest.raises(InputError, match="options of qop: it is not compared; did you mean"):
        compare(["qops"], trace, settings={"qop": {}})
    with pytest.raises(InputError, match="baseline is 'msb'; one of easy is expected"):
        compare(["easy"], trace, baseline="msb")


def test_a_scheduler_of_ones_own_file_takes_part_in_every_process(
    trace: Workload, tmp_path: Path
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from qops_batsim.schedulers.qops import Qops\n\n\nclass Mine(Qops):\n    pass\n"
    )
    names, settings = ["qops", f"{path}:Mine"], {"Mine": {"k_factor": 3}, "qops": {"k_factor": 3}}
    found = compare(names, trace, loads=[1.0, 1.2], seeds=1, first=40, settings=settings, workers=2)
    ours, own = (
        [row.metrics for row in found.outcomes if row.cell.contestant == name]
        for name in ("qops", "Mine")
    )
    assert own == ours
