"""``qops-batsim compare``."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from qops_batsim import InputError
from qops_batsim.cli.compare import read_loads
from qops_batsim.experiments import DeadlineRuns
from qops_batsim.shipped import find_input

SMALL = ("--workload", "sdsc_sp2_1000", "--first", "100", "--loads", "1.2,1.4", "--seeds", "2")


def test_files_are_written_and_equal_again(cli, tmp_path: Path) -> None:
    arguments = ("compare", "easy", "msb", "qops:k_factor=3", *SMALL)
    result = cli(*arguments, "--out", tmp_path / "one")
    assert result.exit_code == 0, result.err
    assert "unadmitted jobs (%) less msb" in result.out
    with open(tmp_path / "one" / "runs.csv") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 12
    assert {row["unadmitted_jobs"] for row in rows if row["scheduler"] == "easy"} == {"0.0"}
    document = json.loads((tmp_path / "one" / "report.json").read_text())
    assert document["study"]["baseline"] == "msb"
    assert document["study"]["schedulers"][2]["settings"] == {"k_factor": 3}
    assert len(document["summaries"]) == 6
    names = {path.name for path in (tmp_path / "one").glob("*.*")}
    pictures = {f"{x}.png" for x in ("deadlines", "unadmitted", "utilization")}
    tables = {"runs.csv", "table.csv", "report.json", "study.json"}
    assert names == {*pictures, "versus_utilization.png", *tables}

    again = cli(*arguments, "--out", tmp_path / "two")
    assert again.out == result.out
    for name in names:
        one, two = ((tmp_path / each / name).read_bytes() for each in ("one", "two"))
        assert one == two, name
    # It is a study as any other.
    assert cli("study", "report", tmp_path / "one").out == result.out


def test_an_interrupted_comparison_goes_on_where_it_was(
    cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, made = DeadlineRuns.__call__, []

    def interrupted(self, case):
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(case)
        return real(self, case)

    arguments = ("compare", "easy", "qops", "qops:k_factor=1", *SMALL, "--out", tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(DeadlineRuns, "__call__", interrupted)
        assert cli(*arguments).exit_code == 130
    assert len(list((tmp_path / "runs").iterdir())) == 3

    def counted(self, case):
        assert case not in made
        return real(self, case)

    with monkeypatch.context() as patch:
        patch.setattr(DeadlineRuns, "__call__", counted)
        assert cli(*arguments).exit_code == 0
    whole = (tmp_path / "table.csv").read_bytes()
    assert cli(*arguments).exit_code == 0
    assert (tmp_path / "table.csv").read_bytes() == whole


def test_where_only_some_jobs_have_deadlines_those_are_told(cli, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    arguments = ("compare", "easy", "qops", *SMALL, "--deadline-share", "0.5")
    result = cli(*arguments, "--out", tmp_path, "--html", page)
    assert result.exit_code == 0, result.err
    assert "unadmitted deadline jobs (%)" in result.out
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["study"]["deadline_shares"] == [0.5]
    assert document["summaries"][0]["metrics"]["response_time_of_others"]["mean"] > 0
    assert (tmp_path / "response.png").exists()
    assert (tmp_path / "unadmitted_deadline.png").exists()
    assert page.read_text().count("data:image/svg+xml") == 6


def test_what_is_left_out_or_replaced_is_said(cli, tmp_path: Path) -> None:
    given = json.loads(find_input("sdsc_sp2_1000", "workloads").read_text())
    given["jobs"] = [{**job, "walltime": 1e6 + job["res"]} for job in given["jobs"][:40]]
    (tmp_path / "w.json").write_text(json.dumps(given))
    trace = ("--workload", tmp_path / "w.json", "--loads", "1.2", "--seeds", "1")
    given = ("compare", "easy", "qops", *trace)
    page, out = tmp_path / "page.html", tmp_path / "out"
    result = cli(*given, "--out", out, "--html", page, "--estimates", "exact")
    assert result.exit_code == 0, result.err
    replaced = "Deadlines are made from run times, and schedulers know these in advance: they "
    assert f"{replaced}replace the walltimes of 40 of 40 jobs" in result.out
    assert replaced in page.read_text()
    users = cli(*given, "--out", tmp_path / "users")
    assert "Deadlines are made from the log's walltimes, and schedulers plan with" in users.out
    told, exact = (json.loads((tmp_path / x / "report.json").read_text()) for x in ("users", "out"))
    assert told["summaries"] != exact["summaries"]
    assert told["summaries"][0]["metrics"]["met_deadlines"]["mean"] > 0
    wrong = cli(*given, "--estimates", "users", "--bound", 1)
    assert (
        "a bound is computed from real run times; leave the bound or the estimates out" in wrong.err
    )
    assert "estimates" in cli(*given, "--estimates", "mine").err
    few = cli(*given, "--first", 30, "--skip", 15)
    assert "has 40 usable jobs, too few for window {skip = 0, first = 45}" in few.err


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ("1.0:1.6:0.1", (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6)),
        ("1:1.5:0.2", (1.0, 1.2, 1.4)),
        ("1.3", (1.3,)),
        ("1, 1.6", (1.0, 1.6)),
    ],
)
def test_loads(text: str, loads: tuple[float, ...]) -> None:
    assert read_loads(text) == loads


@pytest.mark.parametrize("text", ["", "1:2", "1:2:0", "2:1:0.1", "x", "1:2:1e-9", "nan", "1:inf:1"])
def test_impossible_loads(text: str) -> None:
    with pytest.raises(InputError, match=f"--loads is {text}; .* expected"):
        read_loads(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eazy"], "unknown scheduler 'eazy'; did you mean 'easy'?"),
        (["qops:k=1"], "has no option 'k'"),
        (["easy", "--baseline", "msb"], "baseline is 'msb'; one of easy is expected"),
        (["easy", "--workload", "nothing"], "nothing: no such file"),
        (["easy", "--stringency", "1"], "stringency is 1"),
        (["easy", "--loads", "0.5"], "load is 0.5"),
        (["easy", "--method", "magic"], "method is 'magic'"),
    ],
)
def test_a_mistake_is_one_line(cli, tmp_path: Path, arguments: list[str], message: str) -> None:
    result = cli("compare", *arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.err
    assert len(result.err.strip().splitlines()) == 1
    assert not list(tmp_path.glob("out/*"))


def test_the_directory_must_be_possible(cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = cli("compare", "easy", *SMALL, "--out", tmp_path / "file" / "out")
    assert result.exit_code == 2
    assert "out: the directory cannot be created (Not a directory)" in result.err


def test_the_directory_must_not_be_a_file(cli, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    result = cli("compare", "easy", *SMALL, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "is a file; the name of a directory is expected" in result.err
