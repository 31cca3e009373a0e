import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import polars as pl
import pytest

from qops_batsim.experiments import Claim, Figure, Panel, Series, StudyReport, table_of
from studies.command import study_command
from studies.request import StudyRequest
from studies.run_table import RunTable
from studies.specification import Cost, Specification


class Numbers(msgspec.Struct, frozen=True):
    load: float


SPECIFICATION = Specification(
    title="A tiny study", cost=Cost("a second", "an hour"), options=("seeds", "bound")
)

Command = Callable[..., Any]


@pytest.fixture
def requests() -> list[StudyRequest]:
    return []


@pytest.fixture
def tiny(
    requests: list[StudyRequest],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """Return the command of a study, whose requests are kept."""

    def run(request: StudyRequest) -> StudyReport:
        requests.append(request)
        request.progress(1, 1)
        panel = Panel(
            title="", x_label="x", y_label="y", series=(Series(label="a", x=(1.0,), y=(2.0,)),)
        )
        return StudyReport(
            study="tiny",
            quick=request.quick,
            choices={"machine": "8 processors"},
            data={"table1": [1.5]},
            runs=[RunTable({(Numbers(load=1.0), 1): Numbers(load=1.5)})],
            tables=[
                table_of(title="Numbers", columns={"n": "n"}, rows=({"n": 1.5},), note="measured")
            ],
            figures=[Figure(name="figure1", title="A line", panels=(panel,))],
            claims=[
                Claim(id="a", text="it grows", verdict="undecided", value=1.5, interval=(-1, 2))
            ],
        )

    def call(*arguments: object, options: tuple[str, ...] = SPECIFICATION.options) -> Any:
        specification = msgspec.structs.replace(SPECIFICATION, options=options)
        argv = ["studies/tiny/__main__.py", *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", argv)
        code: object = 0
        try:
            study_command(SimpleNamespace(SPECIFICATION=specification, run=run))
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return SimpleNamespace(exit_code=code, out=captured.out, err=captured.err)

    return call


def test_a_run_prints_tables_claims_and_choices(tiny: Command, requests: list[Any]) -> None:
    result = tiny()
    assert result.exit_code == 0
    for part in ("Numbers", "1.50", "measured", "undecided", "[-1.00, +2.00]", "8 processors"):
        assert part in result.out
    assert not requests[0].quick
    # The last screen is what became of the claims.
    assert result.out.index("8 processors") < result.out.index("undecided: 1")


def test_the_cost_is_told_before_the_whole_study(tiny: Command) -> None:
    assert "takes an hour; --quick a second" in tiny().err.splitlines()[0]
    assert "takes" not in tiny("--quick").err


def test_the_help_has_the_title_and_examples(tiny: Command) -> None:
    shown = tiny("--help").out
    for part in ("A tiny study.", "python studies/tiny --quick", "--bound", "--workers"):
        assert part in shown


def test_options_of_other_studies_are_unknown(tiny: Command, requests: list[Any]) -> None:
    result = tiny("--bound", "1", options=("seeds",))
    assert (result.exit_code, requests) == (2, [])
    assert "unrecognized arguments: --bound" in result.err


def test_with_files_only_what_became_of_the_claims_is_printed(
    tiny: Command, tmp_path: Path
) -> None:
    result = tiny("--out", tmp_path / "new")
    assert "undecided: 1" in result.out
    assert "+1.50 [-1.00, +2.00]" in result.out
    assert "8 processors" not in result.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tiny"], "unrecognized arguments: tiny"),
        (["--format", "gif"], "invalid choice: 'gif'"),
        (["--seeds", "0"], "--seeds"),
        (["--bound", "0"], "--bound"),
        (["--workers", "x"], "--workers"),
    ],
)
def test_wrong_options_end_with_exit_code_2(
    tiny: Command, requests: list[Any], arguments: list[str], message: str
) -> None:
    result = tiny(*arguments)
    assert (result.exit_code, requests) == (2, [])
    assert message in result.err


def test_json_holds_the_data(tiny: Command, requests: list[Any]) -> None:
    result = tiny("--quick", "--json", "--seeds", 2, "--workers", 2)
    document = json.loads(result.out)
    assert document["table1"] == [1.5]
    assert document["quick"] is True
    assert document["claims"][0]["interval"] == [-1, 2]
    assert (requests[0].seeds, requests[0].workers) == (2, 2)


def test_one_page_holds_everything(tiny: Command, tmp_path: Path) -> None:
    result = tiny("--html", tmp_path / "tiny.html")
    assert result.exit_code == 0
    page = (tmp_path / "tiny.html").read_text()
    for part in ("A tiny study", "it grows", "8 processors", "1.50", "python studies/tiny --html"):
        assert part in page
    assert page.count("data:image/svg+xml") == 1


def test_out_gets_the_report_and_the_pictures(
    tiny: Command, requests: list[Any], tmp_path: Path
) -> None:
    result = tiny("--out", tmp_path / "new", "--format", "svg")
    assert result.exit_code == 0
    assert json.loads((tmp_path / "new" / "report.json").read_text())["name"] == "tiny"
    assert "<svg" in (tmp_path / "new" / "figure1.svg").read_text()
    tidy = pl.read_parquet(tmp_path / "new" / "runs.parquet")
    assert tidy.rows() == [(1.0, 1, "load", 1.5)]
    assert requests[0].out == tmp_path / "new"


def test_the_kept_tables_are_written_with_their_command(tiny: Command, tmp_path: Path) -> None:
    assert tiny("--quick", "--write", tmp_path / "tables.md").exit_code == 0
    text = (tmp_path / "tables.md").read_text()
    assert text.startswith(f"# A tiny study\n\n`python studies/tiny --quick --write {tmp_path}")
    for part in (
        "| it grows | +1.50 | [-1.00, +2.00] |",
        "- machine: 8 processors",
        "| 1.50 |",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--traces", "nowhere"], "--traces nowhere"),
        (["--out", "FILE"], "cannot be written"),
        (["--out", "FILE/x"], "cannot be written"),
        (["--html", "FILE/x.html"], "cannot be written"),
        (["--write", "FILE/x.md"], "cannot be written"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    tiny: Command, requests: list[Any], tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "file").write_text("")
    result = tiny(*[each.replace("FILE", str(tmp_path / "file")) for each in arguments])
    assert result.exit_code == 2
    assert message in result.err
    assert result.err.count("\n") == 1
    assert requests == []
