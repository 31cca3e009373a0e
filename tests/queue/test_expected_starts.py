"""What Slurm expected of waiting jobs, as it was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from qops_batsim import InputError
from qops_batsim.queue.expected_starts import LATEST, ExpectedStarts

NOW = 1_780_000_000.0


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def expected(tmp_path: Path) -> ExpectedStarts:
    """Two jobs are seen; a minute later one of them is expected earlier, later nothing changes."""
    return ExpectedStarts(
        written(
            tmp_path / "looks.jsonl",
            f'{{"date":{NOW},"starts":{{"7":{NOW + 600},"8_1":null}}}}',
            f'{{"date":{NOW + 60},"starts":{{"7":{NOW + 90}}}}}',
            f'{{"date":{NOW + 120},"starts":{{}}}}',
        )
    )


@pytest.mark.parametrize(
    ("job", "after", "start"),
    [
        ("7", -1.0, None),
        ("7", 0.0, 600.0),
        ("7", 59.0, 600.0),
        ("7", 60.0, 90.0),
        # What is expected in the past is expected now.
        ("7", 130.0, 130.0),
        ("7", 120.0 + LATEST, 120.0 + LATEST),
        ("7", 121.0 + LATEST, None),
        ("8_1", 0.0, None),
        ("9", 0.0, None),
    ],
)
def test_the_last_look_before_tells(
    expected: ExpectedStarts, job: str, after: float, start: float | None
) -> None:
    assert expected.span == (NOW, NOW + 120)
    found = expected.at(job, NOW + after)
    assert found == (None if start is None else NOW + start)


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "looks.jsonl", f'{{"date":{NOW},"starts":{{"7":{NOW}}}}}')
    with path.open("a") as stream:
        stream.write('{"date":')
    assert ExpectedStarts(path).at("7", NOW) == NOW


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((), "names no job"),
        (("{}",), "line 1: .*a line that `live record` wrote is expected"),
        (('{"date":9,"starts":{"7":"soon"}}',), "line 1: "),
        (('{"date":9,"starts":{}}', '{"date":8,"starts":{}}'), "line 2: date is 8, before"),
    ],
)
def test_files_that_are_none(tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ExpectedStarts(written(tmp_path / "looks.jsonl", *lines))


def test_a_heterogeneous_job_starts_with_the_last_of_its_components(tmp_path: Path) -> None:
    """Its id has no +1 in accounting; where one start is not known, nor is the job's."""
    path = written(
        tmp_path / "looks.jsonl",
        f'{{"date":{NOW},"starts":{{"7+0":{NOW + 600},"7+1":{NOW + 900}}}}}',
        f'{{"date":{NOW + 60},"starts":{{"7+0":{NOW + 1200}}}}}',
        f'{{"date":{NOW + 120},"starts":{{"7+1":null}}}}',
    )
    found = ExpectedStarts(path)
    assert [found.at("7", NOW + after) for after in (0, 60, 120)] == [NOW + 900, NOW + 1200, None]
