import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import polars as pl
import pytest

from qops_batsim.experiments.report_table import ReportTable
from qops_batsim.experiments.run_table import RunTable
from qops_batsim.papers import report
from qops_batsim.papers.claims import Claim
from qops_batsim.papers.report import Figure, Panel, PaperReport, PaperRequest, Series


class Numbers(msgspec.Struct, frozen=True):
    load: float


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[PaperRequest]:
    """Add a paper named ``tiny``, and return the requests that it gets."""
    seen: list[PaperRequest] = []

    def run(request: PaperRequest) -> PaperReport:
        seen.append(request)
        request.progress(1, 1)
        panel = Panel(
            title="", x_label="x", y_label="y", series=(Series(label="a", x=(1.0,), y=(2.0,)),)
        )
        return PaperReport(
            paper="tiny",
            quick=request.quick,
            choices={"machine": "8 processors"},
            data={"table1": [1.5]},
            runs=[RunTable({(Numbers(load=1.0), 1): Numbers(load=1.5)})],
            tables=[
                ReportTable(
                    title="Numbers", columns={"n": "n"}, rows=({"n": 1.5},), note="measured"
                )
            ],
            figures=[Figure(name="figure1", title="A line", panels=(panel,))],
            claims=[
                Claim(id="a", text="it grows", verdict="inconclusive", value=1.5, interval=(-1, 2))
            ],
        )

    module = ModuleType("qops_batsim.papers.tiny.paper")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "qops_batsim.papers.tiny.paper", module)
    monkeypatch.setitem(report.PAPERS, "tiny", "A tiny paper")
    return seen


def test_the_papers_are_listed(cli: Any) -> None:
    result = cli("papers", "list", "--json")
    assert set(json.loads(result.out)) == {"islam2003", "talby1999", "islam2004", "pascal2004"}
    assert "islam2004" in cli("papers", "list").out


def test_a_run_prints_tables_claims_and_choices(cli: Any, requests: list[PaperRequest]) -> None:
    result = cli("papers", "run", "tiny")
    assert result.exit_code == 0
    for part in ("Numbers", "1.50", "measured", "inconclusive", "[-1.00, 2.00]", "8 processors"):
        assert part in result.out
    assert not requests[0].quick
    # The last screen is what became of the claims.
    assert result.out.index("8 processors") < result.out.index("too close to tell: 1")


def test_with_files_only_what_became_of_the_claims_is_printed(
    cli: Any, requests: list[PaperRequest], tmp_path: Path
) -> None:
    result = cli("papers", "run", "tiny", "--out", tmp_path / "new")
    assert "too close to tell: 1" in result.out
    assert "+1.50 [-1.00, +2.00]" in result.out
    assert "8 processors" not in result.out


def test_json_holds_the_data(cli: Any, requests: list[PaperRequest]) -> None:
    result = cli("papers", "run", "tiny", "--quick", "--json", "--seeds", 2, "--jobs-parallel", 2)
    document = json.loads(result.out)
    assert document["table1"] == [1.5]
    assert document["quick"] is True
    assert document["claims"][0]["interval"] == [-1, 2]
    assert (requests[0].seeds, requests[0].workers) == (2, 2)


def test_one_page_holds_everything(cli: Any, requests: list[PaperRequest], tmp_path: Path) -> None:
    result = cli("papers", "run", "tiny", "--html", tmp_path / "tiny.html")
    assert result.exit_code == 0
    page = (tmp_path / "tiny.html").read_text()
    for part in ("A tiny paper", "it grows", "8 processors", "1.50", "papers run tiny --html"):
        assert part in page
    assert page.count("data:image/svg+xml") == 1


def test_out_gets_the_report_and_the_pictures(
    cli: Any, requests: list[PaperRequest], tmp_path: Path
) -> None:
    result = cli("papers", "run", "tiny", "--out", tmp_path / "new", "--format", "svg")
    assert result.exit_code == 0
    assert json.loads((tmp_path / "new" / "report.json").read_text())["paper"] == "tiny"
    assert "| 1.50 |" in (tmp_path / "new" / "report.md").read_text()
    assert "<svg" in (tmp_path / "new" / "figure1.svg").read_text()
    tidy = pl.read_parquet(tmp_path / "new" / "runs.parquet")
    assert tidy.rows() == [(1.0, 1, "load", 1.5)]
    assert requests[0].out == tmp_path / "new"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["talby"], "did you mean"),
        (["tiny", "--format", "gif"], "--format gif"),
        (["tiny", "--traces", "nowhere"], "--traces nowhere"),
        (["tiny", "--out", "FILE"], "is a file"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    cli: Any,
    requests: list[PaperRequest],
    tmp_path: Path,
    arguments: list[str],
    message: str,
) -> None:
    (tmp_path / "file").write_text("")
    result = cli(
        "papers", "run", *[str(tmp_path / "file") if a == "FILE" else a for a in arguments]
    )
    assert result.exit_code == 2
    assert message in result.err
    assert result.err.count("\n") == 1
    assert requests == []


def test_without_the_log_a_run_says_how_to_get_it(cli: Any, tmp_path: Path) -> None:
    result = cli("papers", "run", "talby1999", "--quick", "--traces", tmp_path)
    assert result.exit_code == 2
    assert "qops-batsim workload fetch kth-sp2" in result.err


def test_all_papers_run_one_after_the_other(
    cli: Any, requests: list[PaperRequest], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in list(report.PAPERS):
        monkeypatch.setitem(
            sys.modules,
            f"qops_batsim.papers.{name}.paper",
            sys.modules["qops_batsim.papers.tiny.paper"],
        )
    out = tmp_path / "papers"
    document = json.loads(cli("papers", "run", "all", "--quick", "--json", "--out", str(out)).out)
    assert list(document) == list(report.PAPERS)
    assert [request.out for request in requests] == [out / name for name in report.PAPERS]
    assert (out / "islam2003" / "report.md").is_file()
    refused = cli("papers", "run", "all", "--html", str(tmp_path / "page.html"))
    assert refused.exit_code == 2
    assert "a page has one paper" in refused.err
