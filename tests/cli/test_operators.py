"""``qops-batsim explain`` and ``quote`` from the user's side."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import read_workload
from qops_batsim.cli.texts import reason_text, spare_text
from qops_batsim.core.refusal import free_text, missed_deadline
from qops_batsim.dates import Calendar
from qops_batsim.workload import write_workload

Cli = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operators")


@pytest.fixture(autouse=True)
def runs(folder: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    """Runs out/qops, out/kill (as the documentation has them) and out/easy, made once."""
    monkeypatch.chdir(folder)
    if not Path("out").exists():
        kills = ("--set", "kill_and_restart=true", "--set", "tolerance_factor=4")
        for arguments in (
            ("qops",),
            ("fqops", *kills, "--out", "out/kill"),
            ("easy", "--workload", "tiny_8"),
        ):
            result = cli("run", *arguments, "--quiet")
            assert result.exit_code == 0, result.err


def events(prefix: str) -> list[str]:
    """Return the lines of a decision log behind the first one, which is about the run."""
    return Path(f"{prefix}_decisions.jsonl").read_text().splitlines()[1:]


def quoted(state: str, *options: str, job: str = "64x2h") -> tuple[str, ...]:
    return ("quote", state, job, *options)


DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PAGES = [DOCS / "centres.md", DOCS / "explain.md"]


@pytest.mark.sweep
@pytest.mark.skipif(not PAGES[0].is_file(), reason="no documentation beside the tests")
def test_the_documentation_shows_what_is_printed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the 80 columns of the page; what reads a queue is done where the page is followed."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = 0
    text = "".join(page.read_text() for page in PAGES)
    for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
        command, *expected = block.splitlines()
        if not expected or expected[0].startswith("$") or "|" in command or "queue" in command:
            continue
        out = cli(*shlex.split(command)[2:]).out
        assert [line.rstrip() for line in out.splitlines()] == expected, command
        shown += 1
    assert shown == 4


def test_a_run_tells_of_its_decision_log(cli: Cli) -> None:
    result = cli("run", "msb", "--workload", "tiny_8", "--out", "again/msb")
    assert result.exit_code == 0, result.err
    assert "again/msb_decisions.jsonl" in result.err


def test_a_quote_in_words(cli: Cli) -> None:
    result = cli(*quoted("out/qops@2d", "--deadline", "6h"))
    assert result.exit_code == 0, result.err
    assert result.err == ""
    lines = result.out.splitlines()
    assert lines[0] == (
        "out/qops (qops) at 172,800 s (2 d): 21 of 128 processors free, jobs: 6 running, 2 waiting"
    )
    assert lines[2] == "request            64 processors for 2 h by 194,400 s (6 h from then)"
    assert lines[3].startswith("answer             refused: its own deadline (194400 s) would be")
    assert lines[4] == (
        "earliest deadline  194,597 s (6 h 3 min 17 s after submission; start 187,397 s)"
    )
    assert lines[5].startswith("                   resource charge 460,800 processor-s, QoS charge")


def test_a_quote_that_is_granted(cli: Cli) -> None:
    result = cli(*quoted("out/qops@2d", "--deadline", "1d", "--json"))
    found = json.loads(result.out)
    assert found["admitted"] is True
    assert found["requested_deadline"] == 3 * 86400
    assert found["granted"]["price"]["resource"] == 64 * 7200
    assert found["earliest"]["price"]["qos"] > found["granted"]["price"]["qos"] > 0
    assert found["earliest"]["deadline"] == 194597
    # What is quoted as the earliest is granted, and nothing an hour earlier is.
    seconds = found["earliest"]["deadline"] - found["time"]
    for deadline, admitted in ((seconds, True), (seconds - 3600, False)):
        again = cli(*quoted("out/qops@2d", "--deadline", str(deadline), "--json"))
        assert json.loads(again.out)["admitted"] is admitted


def test_a_quote_changes_nothing(cli: Cli) -> None:
    before = {path: path.read_bytes() for path in Path("out").iterdir()}
    one, two = (cli(*quoted("out/kill@100000")).out for _ in range(2))
    assert one == two
    assert {path: path.read_bytes() for path in Path("out").iterdir()} == before


def test_before_a_moment(cli: Cli) -> None:
    first = json.loads(events("out/qops")[0])
    state = f"out/qops@{first['date']}"
    after = json.loads(cli(*quoted(state, "--json")).out)
    before = json.loads(cli(*quoted(state, "--before", "--json")).out)
    assert (before["running_jobs"], after["running_jobs"]) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("out/qops",), "the run is out/qops; RUN@TIME is expected, as out/qops@6h"),
        (("out/qops@soon",), "out/qops@soon: TIME is 'soon'; a duration"),
        (("out/qops@90d",), "a date from 0 to 407,888 s, the end of the run, is expected"),
        (("out/nothing@1h",), "out/nothing: no such run"),
        (("out/easy@0",), "scheduler 'easy' keeps no decision log"),
        (("out/qops@1d", "--deadline", "0"), "--deadline is 0; a duration above 0"),
        (("out/qops@1d", "--workload", "gone.json"), "gone.json: no such file"),
        (("out/qops@1d", "--prices", "gone.toml"), "gone.toml: no such file"),
    ],
)
def test_quotes_that_cannot_be_made(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    result = cli(*quoted(*arguments))
    assert result.exit_code == 2
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert message in result.err


def test_a_job_that_is_too_wide_is_not_quoted(cli: Cli) -> None:
    result = cli(*quoted("out/qops@1d", job="129x2h"))
    assert (result.exit_code, result.out) == (2, "")
    assert "processors is 129; a number from 1" in result.err


def test_prices_of_the_centre_are_told(cli: Cli, tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "EUR"\ncore_hour = 0.5\nqos_charge = 10\n')
    options = ("--deadline", "1d", "--prices", str(prices))
    price = json.loads(cli(*quoted("out/qops@2d", *options, "--json")).out)["granted"]["price"]
    assert price["cost"] == pytest.approx(0.5 * 128 + 10 * price["qos"])
    assert f"together {price['cost']:,.2f} EUR" in cli(*quoted("out/qops@2d", *options)).out
    assert " EUR " in cli("explain", "out/qops", "29", "--prices", prices).out
    without = json.loads(cli(*quoted("out/qops@2d", "--deadline", "1d", "--json")).out)
    assert set(without["granted"]["price"]) == {"category", "resource", "qos"}
    prices.write_text("[categories]\nrun_times = [1, 2, 3]\n")
    price = json.loads(cli(*quoted("out/qops@2d", *options, "--json")).out)["granted"]["price"]
    assert price["category"] == "very-long-very-wide"


def test_a_refused_job_in_words(cli: Cli) -> None:
    result = cli("explain", "out/qops", "29")
    assert result.exit_code == 0, result.err
    assert result.out.startswith("w0!29 of out/qops (qops): refused\n")
    for text in (
        "asked for          32 of 128 processors for 2 min 50 s by 25,501 s",
        "refused because    its own deadline (25501 s) would be missed",
        "earliest deadline  34,223 s (2 h 36 min 47 s after submission; start 34,053 s)",
        "cheapest accepted  none: the user would take a deadline up to 25,501 s",
        "w0!12",
    ):
        assert text in result.out
    short = cli("explain", "out/qops", "w0!29", "--tolerance", "50").out
    assert "cheapest accepted  59,066 s" in short


def test_a_killed_job_in_words(cli: Cli) -> None:
    log = events("out/kill")
    kill = next(event for event in map(json.loads, log) if event.get("event") == "killed")
    out = cli("explain", "out/kill", kill["again"]).out
    assert f"for {kill['by']}; " in out
    assert f"run again as {kill['again']}" in out
    assert "Promised starts" in out
    assert f"killed for it      {kill['job']}" in cli("explain", "out/kill", kill["by"]).out


def test_an_offer_in_words(cli: Cli) -> None:
    log = events("out/kill")
    taken = next(event for event in map(json.loads, log) if event.get("offered") is True)
    out = cli("explain", "out/kill", taken["job"]).out
    assert "offered deadline   " in out
    assert ", taken\n" in out
    found = json.loads(cli("explain", "out/kill", taken["job"], "--json").out)
    assert found["offered_deadline"] == found["admitted_deadline"] == taken["deadline"]
    assert found["reason"] == taken["reason"]


def test_other_schedulers_in_words(cli: Cli) -> None:
    out = cli("explain", "out/easy", "3").out
    assert out.startswith("w0!3 of out/easy (easy): COMPLETED_SUCCESSFULLY\n")
    assert "keeps no decision log" in out
    assert json.loads(cli("explain", "out/easy", "3", "--json").out)["scheduler"] == "easy"


@pytest.mark.parametrize(
    ("run", "job", "message"),
    [
        ("out/qops", "w0!5000", "no job 'w0!5000'; did you mean 'w0!500'? (known: 500 jobs)"),
        ("out/easy", "no", "no job 'no' (known: 8 jobs)"),
        ("out/none", "1", "out/none: no such run"),
    ],
)
def test_jobs_that_cannot_be_explained(cli: Cli, run: str, job: str, message: str) -> None:
    result = cli("explain", run, job)
    assert result.exit_code == 2
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert message in result.err


def test_a_quote_tells_that_it_does_not_know_what_users_hold(cli: Cli) -> None:
    limited = ("--set", "promise_limit=0.1", "--out", "out/limited", "--quiet")
    assert cli("run", "qops", *limited).exit_code == 0
    result = cli(*quoted("out/limited@2d", "--deadline", "2d"))
    assert result.exit_code == 0
    assert re.search("^answer +admitted$", result.out, re.M)
    assert "no promise limit: what users hold is not in the decision log" in result.err
    assert "promise limit" not in cli(*quoted("out/qops@2d")).err


def test_a_workload_that_is_gone_leaves_no_qos_charges(cli: Cli) -> None:
    description = Path("out/qops_run.json")
    text = description.read_text()
    try:
        description.write_text(text.replace("sdsc_sp2_deadlines_500", "gone.json"))
        result = cli("explain", "out/qops", "29")
        assert result.exit_code == 0
        assert "QoS charge unknown" in result.out
        assert "no QoS charges: gone.json: no such file" in result.err
    finally:
        description.write_text(text)


def test_reasons_tell_whole_dates() -> None:
    calendar = Calendar(953982000, "Europe/Stockholm")
    own = missed_deadline("w0!A", 1_234_567.891, own=True, steps_back=1)
    whole = "its own deadline (1234567.891 s) would be missed after 1 steps back"
    assert reason_text(own, None) == whole
    of_another = missed_deadline("w0!B", 3600.0, own=False)
    dated = "the deadline of w0!B (2000-03-25 13:00:00) would be missed"
    assert reason_text(of_another, calendar) == dated
    assert reason_text(of_another, None) == "the deadline of w0!B (3600 s) would be missed"
    assert reason_text(free_text("needs 7 s"), calendar) == "needs 7 s"


def test_a_deadline_holds_for_all_jobs_that_a_queue_is_asked_about(
    cli: Cli, tmp_path: Path
) -> None:
    queue = tmp_path / "queue.json"
    queue.write_text('{"processors": 8, "now": 1780000000, "jobs": []}')
    found = cli("queue", "quote", queue, "8x1h", "4x3h", "--now", 1780000000, "--deadline", "2h")
    lines = [line for line in found.out.splitlines() if " h" in line and "│" in line]
    assert [line.split()[-1] for line in lines] == ["yes", "no"], found.out


def test_dates_of_the_calendar_are_told(cli: Cli, tmp_path: Path) -> None:
    workload = read_workload("tiny_8")
    workload.calendar = Calendar(953982000, "Europe/Stockholm")
    write_workload(workload, tmp_path / "dated.json")
    for scheduler in ("qops", "easy"):
        assert cli("run", scheduler, "-w", tmp_path / "dated.json", "-o", scheduler).exit_code == 0
        out = cli("explain", scheduler, "8").out
        assert "submitted          2000-03-25 12:0" in out
        assert " s (" not in out
    found = json.loads(cli("explain", "qops", "8", "--json").out)
    assert found["calendar"] == {"unix_start": 953982000, "time_zone": "Europe/Stockholm"}
    by_date = cli("quote", "qops@2000-03-25T12:00:10", "1x1m").out
    assert "at 2000-03-25 12:00:10 (10 s)" in by_date
    assert by_date == cli("quote", "qops@10", "1x1m").out
    undated = cli("quote", "out/qops@2000-03-25", "1x1m")
    assert undated.exit_code == 2
    assert (
        "but the run's files do not tell the date at which it begins; seconds since the begin"
        in undated.err
    )


@pytest.mark.parametrize(
    ("spare", "text"),
    [
        (300.0, "5 min before"),
        (0.3, "less than 1 s before"),
        (1e-7, "at"),
        (-0.3, "less than 1 s AFTER"),
        (-3601.0, "1 h 1 s AFTER"),
    ],
)
def test_time_to_spare_in_words(spare: float, text: str) -> None:
    assert spare_text(spare) == text
