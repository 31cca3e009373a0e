"""``qops-batsim run`` from the user's side."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim.measures import JobOutcomes
from qops_batsim.measures.plots import deadline_outcomes as deadlines
from qops_batsim.measures.plots.deadline_outcomes import draw_deadlines

Cli = Callable[..., Any]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty directory: shipped inputs must be found from anywhere."""
    monkeypatch.chdir(tmp_path)


def test_the_main_job_needs_no_other_argument(cli: Cli) -> None:
    result = cli("run", "easy")
    assert result.exit_code == 0, result.err
    assert "waiting time (s)" in result.out
    assert "deadline" not in result.out
    assert "simulated 1,000 jobs on 128 hosts" in result.err
    assert "verified, " in result.err
    written = sorted(path.name for path in Path("out").iterdir())
    assert written == [
        "easy_jobs.csv",
        "easy_machine_states.csv",
        "easy_qos.csv",
        "easy_run.json",
        "easy_schedule.csv",
    ]


def test_a_deadline_scheduler_runs_on_deadlines_by_default(cli: Cli) -> None:
    result = cli("run", "qops")
    assert result.exit_code == 0, result.err
    assert "simulated 500 jobs on 128 hosts" in result.err
    rows = Path("out/qops_qos.csv").read_text().splitlines()
    assert any(",accepted,," in row for row in rows)
    assert any("deadline" in row and ",rejected," in row for row in rows)


def test_the_main_job_tells_its_story_on_one_screen(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    drawn: list[list[str]] = []

    def draw(runs: list[tuple[str, JobOutcomes]], *arguments: Any, **further: Any) -> None:
        drawn.append([name for name, _ in runs])
        draw_deadlines(runs, *arguments, **further)

    monkeypatch.setattr(deadlines, "draw_deadlines", draw)
    result = cli("run", "qops")
    assert drawn == [["QoPS", "EASY"]]
    lines = result.out.splitlines()
    assert lines[0].startswith("deadlines of users")
    (asked,) = (line for line in lines if line.startswith("asked for"))
    assert asked.replace("│", " ").split()[2:4] == ["500", "100.00"]
    assert lines[-2:] == [
        "QoPS promised 395 of 500 deadlines and kept all 395; EASY on the same jobs met",
        "371; utilization 77.1 against 79.3 %.",
    ]
    assert max(map(len, lines)) <= 80
    assert sum(-(-len(line) // 80) or 1 for line in (result.out + result.err).splitlines()) <= 38
    picture = Path("out/qops_deadlines.png")
    assert str(picture) in result.err
    first = picture.read_bytes()
    values = json.loads(cli("run", "qops", "--json", "--picture").out)[0]
    assert values["easy"]["deadlines"]["met"]["jobs"] == 371
    assert picture.read_bytes() == first
    # Without another one, a picture of earlier files goes with them.
    assert cli("run", "qops", "--quiet").out == ""
    assert not picture.exists()


@pytest.mark.parametrize(
    ("scheduler", "line"),
    [
        ("easy", "EASY promises no deadline; it met 371 of 500 deadlines; utilization 79.3 %."),
        ("fcfs", "fcfs promises no deadline; it met "),
        (
            "fqops --set tolerance_factor=3",
            "kept all 395; 352 ended by the deadline asked for; EASY",
        ),
    ],
)
def test_the_story_of_other_schedulers(cli: Cli, scheduler: str, line: str) -> None:
    result = cli("run", *scheduler.split(), "-w", "sdsc_sp2_deadlines_500", "--no-picture")
    assert line in result.out.splitlines()[-1]
    assert ("EASY on the same jobs met 371" in result.out) == (scheduler != "easy")
    assert list(Path("out").glob("*.png")) == []


def test_two_runs_write_the_same_bytes(cli: Cli) -> None:
    for prefix in ("a/run", "b/run"):
        arguments = ("--workload", "kth_sp2_1000", "--out", prefix, "--quiet")
        result = cli("run", "conservative", *arguments)
        assert (result.exit_code, result.out, result.err) == (0, "", "")
    for path in Path("a").iterdir():
        assert path.read_bytes() == (Path("b") / path.name).read_bytes(), path.name


def test_the_description_says_how_the_run_was_made(cli: Cli) -> None:
    cli(
        "run", "conservative", "--set", "reserve=processors", "--workload", "tiny_8",
        "--platform", "platforms/kth_sp2_100.xml", "--hosts", "5", "--out", "x/tiny", "-q",
    )  # fmt: skip
    description = json.loads(Path("x/tiny_run.json").read_text())
    assert description["scheduler"] == "conservative"
    assert description["options"] == {"grace": 1.0, "reserve": "processors"}
    assert description["workload"] == "tiny_8"
    assert description["platform"] == "platforms/kth_sp2_100.xml"
    assert description["hosts"] == 5
    result = cli("verify", "x/tiny")
    assert result.exit_code == 0, result.out


def test_json_is_all_there_is_on_standard_output(cli: Cli) -> None:
    result = cli("run", "fcfs", "--workload", "tiny_8", "--json")
    (metrics,) = json.loads(result.out)
    assert metrics["jobs_submitted"] == 8


def test_a_smaller_machine_must_be_allowed(cli: Cli) -> None:
    refused = cli("run", "fcfs", "--workload", "tiny_8", "--hosts", "2")
    assert refused.exit_code == 2
    assert "is for 4 processors (nb_res), but a cluster of 4 hosts has only 2" in refused.err
    assert not Path("out").exists()
    allowed = cli("run", "fcfs", "--workload", "tiny_8", "--hosts", "2", "--smaller-machine")
    assert allowed.exit_code == 0, allowed.err
    assert "REJECTED" in Path("out/fcfs_jobs.csv").read_text()


def test_the_recorded_rejections_are_ours(cli: Cli, shared: Path) -> None:
    inputs = shared / "batsim" / "inputs"
    arguments = ("--workload", inputs / "reject.json", "--platform", inputs / "p4_nonet.xml")
    result = cli("run", "fcfs", *arguments, "--out", "reject", "--quiet")
    assert result.exit_code == 0, result.err
    recorded = (shared / "batsim" / "recorded" / "batsched_reject_jobs.csv").read_text()
    assert Path("reject_jobs.csv").read_text() == recorded


def test_a_run_is_made_again_from_its_description(cli: Cli) -> None:
    assert cli("run", "easy", "-w", "tiny_8", "--hosts", "2", "--smaller-machine").exit_code == 0
    result = cli("run", "--again", "out/easy_run.json")
    assert result.exit_code == 0, result.err
    assert "simulated 8 jobs on 2 hosts" in result.err
    for name in ("jobs.csv", "schedule.csv", "machine_states.csv", "qos.csv", "run.json"):
        again = Path(f"out/easy_again_{name}").read_bytes()
        assert again == Path(f"out/easy_{name}").read_bytes(), name


def test_message_delays_can_be_left_out_and_are_so_again(cli: Cli) -> None:
    """On links of 10 ms, a start comes 20 ms after its decision, which is 20 ms after the job."""
    network = ("--hosts", "8", "--bandwidth", "1GBps", "--latency", "10ms")
    assert cli("platform", "cluster", "net.xml", *network).exit_code == 0
    starts = {}
    for name, given in (("slow", ()), ("quick", ("--no-message-delays",))):
        arguments = ("run", "fcfs", "-w", "tiny_8", "-p", "net.xml", "-o", name, *given)
        assert cli(*arguments).exit_code == 0
        rows = Path(f"{name}_jobs.csv").read_text().splitlines()
        starts[name] = next(row.split(",")[8] for row in rows if row.startswith("1,"))
        assert cli("run", "--again", f"{name}_run.json", "-o", "again").exit_code == 0
        assert Path("again_jobs.csv").read_text().splitlines() == rows
    assert (starts["quick"], starts["slow"]) == ("0.000000", "0.080000")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("easy", "--no-message-delays", "--engine", "batsim"),
            "the real Batsim always has message delays; leave the option out",
        ),
        (
            ("--again", "x_run.json", "--no-message-delays"),
            "--again is given with --no-message-delays",
        ),
        ((), "no scheduler is given; the name of one, FILE.py:CLASS, or --again"),
        (("easy", "--again", "x_run.json"), "--again is given with easy, but the file"),
        (("--again", "x_run.json", "--hosts", "3"), "--again is given with --hosts"),
        (("--again", "x_run.json", "--set", "a=1"), "--again is given with --set"),
        (("--again", "x_run.json"), "x_run.json: no such file"),
    ],
)
def test_mistakes_about_again(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    result = cli("run", *arguments)
    assert (result.exit_code, result.out) == (2, "")
    assert message in result.err
