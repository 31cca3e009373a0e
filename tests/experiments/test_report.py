import json
from pathlib import Path

import msgspec

from qops_batsim.experiments import (
    Claim,
    Figure,
    Panel,
    ReportColumn,
    Series,
    StudyReport,
    pictures,
    table_of,
    write_files,
)

WAITS_GROW = Claim(
    id="a",
    text="waits grow",
    section="5.2",
    verdict="confirmed",
    value=10.0,
    parts=("a.first",),
)


def a_report() -> StudyReport:
    lines = Panel(
        title="waits",
        x_label="load",
        y_label="seconds",
        series=(
            Series(label="here", x=(1.0, 1.2), y=(10.0, 20.0), low=(9.0, 18.0), high=(12.0, 21.0)),
            Series(label="paper", x=(1.0, 1.2), y=(11.0, 19.0), from_paper=True),
        ),
    )
    bars = Panel(
        title="months",
        x_label="month",
        y_label="seconds",
        kind="bars",
        series=(Series(label="here", x=("May", "June"), y=(3.0, 4.0), low=(2, 3), high=(4, 5)),),
    )
    return StudyReport(
        study="test",
        quick=True,
        choices={"load": "by duplication"},
        data={"table1": {"waiting_time": 12.5}},
        tables=[
            table_of(
                title="Waits",
                columns={"load": "load", "wait": "s"},
                rows=({"load": 1.0, "wait": 12345.678}, {"load": "x", "wait": None}),
                note="Means.",
            )
        ],
        figures=[Figure(name="figure1", title="Waits over load", panels=(lines, bars))],
        claims=[WAITS_GROW],
    )


def test_the_document_has_data_claims_and_figures_as_plain_values() -> None:
    document = json.loads(json.dumps(a_report().document(), allow_nan=False))
    assert document["table1"] == {"waiting_time": 12.5}
    assert document["claims"] == [
        {
            "id": "a",
            "text": "waits grow",
            "verdict": "confirmed",
            "section": "5.2",
            "family": "",
            "kind": "mean",
            "value": 10.0,
            "interval": None,
            "count": None,
            "expected": None,
            "margin": None,
            "paper": None,
            "chance": None,
            "corrected": None,
            "parts": ["a.first"],
            "decided_by": "",
            "leaning": "undecided",
            "ours": False,
            "values": [],
            "relative": False,
        }
    ]
    assert "Holm" in document["judged"]
    series = document["figures"]["figure1"]["panels"][0]["series"]
    assert [each["from_paper"] for each in series] == [False, True]
    assert series[0]["low"] == [9.0, 18.0]


def test_cells_become_readable_text() -> None:
    assert a_report().tables[0].rows == [["1.00", "12,346"], ["x", "-"]]
    table = table_of(title="", columns={"n": "n"}, rows=({"n": 28284}, {"n": -0.126}))
    assert table.rows == [["28,284"], ["-0.13"]]


def test_a_column_says_where_its_values_are_and_how_they_read() -> None:
    table = table_of(
        title="",
        columns={
            "paper.wait": ReportColumn("difference", "{:+.1f} %"),
            "wait": ReportColumn("kind", lambda wait: "long" if wait > 9 else "short"),
        },
        rows=({"wait": 10, "paper": {"wait": 2.0}}, {"wait": 1, "paper": None}, {}),
    )
    assert table.headings == ["difference", "kind"]
    assert table.rows == [["+2.0 %", "long"], ["-", "short"], ["-", "-"]]


def test_keys_of_inner_values_may_have_dots() -> None:
    columns = {f"jobs.{factor}": factor for factor in ("1", "1.5", "2.5")}
    table = table_of(title="", columns=columns, rows=({"jobs": {"1": 80.0, "1.5": 70.0}},))
    assert table.rows == [["80.00", "70.00"]]
    # No row has a value of 2.5.
    assert table.headings == ["1", "1.5"]
    assert table_of(title="", columns=columns, rows=()).headings == ["1", "1.5", "2.5"]


def test_the_report_in_markdown() -> None:
    report = a_report()
    part = Claim(id="a.first", text="they do", verdict="confirmed", value=1.0)
    whole = msgspec.structs.replace(WAITS_GROW, interval=(0.5, 20.0), corrected=0.0004)
    report.claims = [whole, part]
    lines = report.markdown().splitlines()
    row = "| a | 5.2 | waits grow | +10.00 | [+0.50, +20.00] | < 0.001 | confirmed |"
    assert row in lines
    assert lines[lines.index("### The paper's claims") + 2] == "In short: 1 confirmed."
    assert "### Robustness checks of ours" not in lines
    assert not any("they do" in line for line in lines)
    assert "- load: by duplication" in lines
    table = lines[lines.index("### Waits") :]
    assert table == [
        "### Waits",
        "",
        "Means.",
        "",
        "| load | s |",
        "|---|---|",
        "| 1.00 | 12,346 |",
        "| x | - |",
    ]
    assert "### Waits" not in report.markdown(["Other tables"])


def test_robustness_checks_are_counted_apart() -> None:
    report = a_report()
    other = Claim(id="b", text="elsewhere too", verdict="contradicted", value=1.0, ours=True)
    report.claims = [*report.claims, other]
    assert (report.verdicts(), report.verdicts(ours=True)) == (
        {"confirmed": 1},
        {"contradicted": 1},
    )
    assert repr(report).endswith(": 1 confirmed>")
    assert [claim.id for claim in report.outcomes(ours=True)["contradicted"]] == ["b"]
    assert list(report.claims_frame().index) == ["a", "b"]
    lines = report.markdown().splitlines()
    behind = lines[lines.index("### Robustness checks of ours") :]
    assert behind[2] == "In short: 1 contradicted."
    assert not any("waits grow" in line for line in behind)
    assert any("elsewhere too" in line for line in behind)


def test_bars_have_their_intervals() -> None:
    _, months = pictures.draw_figure(a_report().figures[0]).axes
    (ends,) = (each.get_segments() for each in months.collections)
    assert [[float(y) for _, y in each] for each in ends] == [[2.0, 4.0], [3.0, 5.0]]


def test_pictures_are_drawn_and_equal_for_equal_data(tmp_path: Path) -> None:
    record, first = write_files(a_report(), "Waits", "a command", out=tmp_path)
    before = first.read_bytes()
    assert before.startswith(b"\x89PNG")
    assert json.loads(record.read_text())["files"].keys() == {first.name}
    assert write_files(a_report(), "Waits", "a command", out=tmp_path) == [record, first]
    assert first.read_bytes() == before
