"""Running cases in one process or several, and keeping finished runs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from qops_batsim import InputError, compare
from qops_batsim.experiments import KeptRuns, run_cases
from qops_batsim.experiments import pool as module
from qops_batsim.experiments.pool import Failure


def squared(case: int) -> dict[str, int]:
    return {"square": case * case}


def never(case: int) -> dict[str, int]:
    raise AssertionError(f"{case} is made")


def store(directory: Path, made_of: str = "log") -> KeptRuns[dict[str, int]]:
    return KeptRuns(directory, dict[str, int], made_of)


# What other processes do must be importable there, as functions of a test are not.
@pytest.mark.parametrize("workers", [1, 2, 9])
def test_runs_come_in_the_order_of_the_cases_each_made_once(workers: int) -> None:
    seen: list[tuple[int, int]] = []
    found = run_cases(
        math.sqrt, [9, 1, 9, 4], workers=workers, on_progress=lambda *each: seen.append(each)
    )
    assert list(found.items()) == [(9, 3.0), (1, 1.0), (4, 2.0)]
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_ends_the_work_in_every_process(workers: int) -> None:
    with pytest.raises(ValueError, match="domain|nonnegative"):
        run_cases(math.sqrt, [-1, *range(5)], workers=workers)


def test_no_cases_are_no_runs() -> None:
    assert run_cases(never, [], workers=3) == {}


def test_a_number_of_workers_below_one_is_told() -> None:
    with pytest.raises(InputError, match="number of workers is 0"):
        run_cases(squared, [1], workers=0)


def test_finished_runs_are_found_again(tmp_path: Path) -> None:
    first = run_cases(squared, [1, 2], kept=store(tmp_path / "runs"))
    assert run_cases(never, [2, 1], kept=store(tmp_path / "runs")) == first
    seen: list[tuple[int, int]] = []
    both = run_cases(
        squared,
        [1, 2, 5],
        kept=store(tmp_path / "runs"),
        on_progress=lambda *each: seen.append(each),
    )
    assert both == {**first, 5: {"square": 25}}
    assert seen == [(2, 3), (3, 3)]


def test_an_interrupted_study_keeps_what_it_had(tmp_path: Path) -> None:
    def interrupted(case: int) -> dict[str, int]:
        if case == 3:
            raise KeyboardInterrupt
        return squared(case)

    with pytest.raises(KeyboardInterrupt):
        run_cases(interrupted, [1, 2, 3, 4], kept=store(tmp_path))
    assert [store(tmp_path).find(case) for case in (1, 2, 3)] == [squared(1), squared(2), None]


def test_a_group_that_is_interrupted_keeps_what_it_had_in_every_process(tmp_path: Path) -> None:
    kept = KeptRuns(tmp_path, float, "roots")
    with pytest.raises(ValueError, match="domain|nonnegative"):
        run_cases(math.sqrt, [4, 9, -1], workers=2, kept=kept, group_by=lambda case: case > 9)
    assert [kept.find(case) for case in (4, 9)] == [2.0, 3.0]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failure_is_kept_and_the_rest_goes_on(tmp_path: Path, workers: int) -> None:
    kept = KeptRuns(tmp_path / "runs", float, "roots")
    failures = KeptRuns(tmp_path / "failed", Failure, "roots")
    seen: list[tuple[int, int]] = []
    for _ in range(2):
        found = run_cases(
            math.sqrt,
            [1, -1, 4],
            workers=workers,
            kept=kept,
            failures=failures,
            on_progress=lambda *each: seen.append(each),
        )
        assert found == {1: 1.0, 4: 2.0}
    failure = failures.find(-1)
    assert failure is not None
    assert failure.error.startswith("ValueError: ")
    assert seen == [(1, 3), (2, 3), (3, 3), (3, 3)]


def test_cases_that_go_together_are_run_one_after_the_other() -> None:
    order: list[int] = []
    run_cases(order.append, [1, 2, 3, 4, 5], group_by=lambda case: case % 2)
    assert order == [1, 3, 5, 2, 4]


def test_kept_runs_can_be_removed(tmp_path: Path) -> None:
    run_cases(squared, [1, 2], kept=store(tmp_path / "runs"))
    store(tmp_path / "runs").clear()
    assert not list(tmp_path.iterdir())
    store(tmp_path / "runs").clear()


def test_runs_of_something_else_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(tmp_path).add(1, {"square": 1})
    assert store(tmp_path, "another log").find(1) is None
    monkeypatch.setattr(module, "__version__", "0")
    assert store(tmp_path).find(1) is None


def test_a_file_tells_what_its_run_was_made_of(tmp_path: Path) -> None:
    store(tmp_path).add((1, "a"), {"square": 1})
    (path,) = tmp_path.iterdir()
    document = json.loads(path.read_text())
    assert (document["made_of"], document["case"]) == ("log", [1, "a"])
    assert document["run"] == {"square": 1}


@pytest.mark.parametrize("text", ["[", '{"run": 1}', "\x00", ""])
def test_a_damaged_file_is_told(tmp_path: Path, text: str) -> None:
    store(tmp_path).add(1, {"square": 1})
    (path,) = tmp_path.iterdir()
    path.write_text(text)
    with pytest.raises(InputError, match=f"{path}: .*; a kept run, or no file, is expected"):
        store(tmp_path).find(1)


def test_a_cluster_without_its_package_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="needs the package distributed, which is not installed"):
        compare(["easy"], "tiny_8", loads=[1.0], seeds=1, workers="tcp://h:1", out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
