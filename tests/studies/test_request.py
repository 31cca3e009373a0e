"""Requests for studies: runs in parts, and where logs are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from qops_batsim import InputError
from qops_batsim.experiments import Series
from studies.request import StudyRequest
from studies.shared import relative_difference
from studies.specification import series_of


def test_progress_of_several_runs_counts_all_their_cases(tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    request = StudyRequest(out=tmp_path, on_progress=lambda *numbers: heard.append(numbers))
    for _ in range(2):
        parts = request.in_parts(3)
        parts.run(abs, [1, 2], int, "first")
        parts.run(abs, [], int, "none")
        parts.run(abs, [3], int, "last")
    # The second time all are kept, and told at once.
    assert heard == [(1, 3), (2, 3), (3, 3), (2, 3), (3, 3)]


def test_relative_difference_is_in_percent() -> None:
    assert relative_difference(2034.0, 2401.0) == pytest.approx(-15.285, abs=1e-3)


def test_a_log_is_found_in_the_given_directory_or_the_shared_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "traces").mkdir()
    log = tmp_path / "traces" / "some.swf.gz"
    log.write_bytes(b"")
    assert StudyRequest(traces=tmp_path / "traces").find_log("some.swf.gz") == log
    monkeypatch.setenv("QOPS_SHARED", str(tmp_path))
    assert StudyRequest().find_log("some.swf.gz") == log


def test_of_several_files_the_first_that_is_there_is_taken(tmp_path: Path) -> None:
    request = StudyRequest(traces=tmp_path)
    (tmp_path / "b.swf.gz").write_bytes(b"")
    assert request.find_log("a.swf.gz", "b.swf.gz") == tmp_path / "b.swf.gz"
    (tmp_path / "a.swf.gz").write_bytes(b"")
    assert request.find_log("a.swf.gz", "b.swf.gz") == tmp_path / "a.swf.gz"


def test_a_missing_log_is_one_error_that_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        StudyRequest(traces=tmp_path).find_log("KTH.swf.gz", fetch="kth-sp2")
    assert str(tmp_path) in str(error.value)
    assert "qops-batsim workload fetch kth-sp2" in str(error.value)
    assert "--traces DIR" in str(error.value)


def test_a_series_leaves_out_what_is_not_known() -> None:
    rows = [{"x": 1.0, "y": 2.0}, {"x": 2.0, "y": None}, {"x": 3.0, "y": 0.0}]
    assert series_of("a", rows, "x", "y") == Series(label="a", x=(1.0, 3.0), y=(2.0, 0.0))
