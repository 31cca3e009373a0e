from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.fake_batsim import make_environment, running, write_fake, write_player

OUTPUTS = ("jobs.csv", "schedule.csv", "machine_states.csv", "qos.csv")
MAIN = [sys.executable, "-c", "from qops_batsim.cli.main import main; main()"]


@pytest.fixture
def our_batsim(cli, tmp_path):
    """Our engine under Batsim's name."""
    directory = tmp_path / "our_batsim"
    assert cli("engine", "--install", directory / "batsim").exit_code == 0
    return directory / "batsim"


def run_both(cli, our_batsim, directory, *arguments):
    """Run once with each engine; return the two prefixes."""
    ours, theirs = directory / "ours", directory / "theirs"
    result = cli("run", *arguments, "-o", ours)
    assert (result.exit_code, result.err.count("error")) == (0, 0)
    result = cli("run", *arguments, "-o", theirs, "--engine", our_batsim)
    assert (result.exit_code, result.err.count("error")) == (0, 0), result.err
    return ours, theirs


@pytest.mark.parametrize(
    "arguments",
    [
        ["fcfs", "-w", "tiny_8"],
        ["easy", "-w", "sdsc_sp2_1000", "-p", "sdsc_sp2_128"],
        ["conservative", "-w", "kth_sp2_mixed_500", "--hosts", "60", "--smaller-machine"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_both_engines_give_the_same_files(cli, our_batsim, tmp_path, arguments):
    if "--hosts" in arguments:
        arguments = [*arguments, "-p", "kth_sp2_100"]
    ours, theirs = run_both(cli, our_batsim, tmp_path, *arguments)
    for name in OUTPUTS:
        assert Path(f"{theirs}_{name}").read_bytes() == Path(f"{ours}_{name}").read_bytes(), name
    result = cli("diff", ours, theirs)
    assert result.exit_code == 0
    assert result.out.splitlines()[-1].startswith("equal: ")
    assert sorted(path.name for path in tmp_path.glob("theirs*")) == sorted(
        f"theirs_{name}" for name in (*OUTPUTS, "run.json")
    )


def test_what_is_told_and_recorded(cli, our_batsim, tmp_path, shared):
    packed = tmp_path / "delays.json.gz"
    inputs = shared / "batsim" / "inputs"
    packed.write_bytes(gzip.compress((inputs / "upstream" / "test_delays.json").read_bytes()))
    command = ["run", "fcfs", "-w", packed, "-p", inputs / "p4_nonet.xml"]
    command += ["--engine", our_batsim, "-o", tmp_path / "out" / "run"]
    result = cli(*command, "--json")
    assert result.exit_code == 0
    (values,) = json.loads(result.out)
    assert values["jobs_successful"] == 10
    lines = result.err.splitlines()
    assert [line for line in lines if line.startswith("batsim: ")]
    assert re.search(r"batsim v4\.2\.1.* simulated 10 jobs on 4 hosts in .*; verified", result.err)
    told = json.loads((tmp_path / "out" / "run_run.json").read_text())
    assert told["engine"] == "batsim"
    assert told["batsim_version"].startswith("v4.2.1")
    assert (told["scheduler"], told["hosts"], told["workload"]) == ("fcfs", 4, str(packed))
    # The recorded session of the real Batsim with the same inputs and scheduler.
    recorded = shared / "batsim" / "recorded" / "delays_fcfs_nonet"
    assert cli("diff", tmp_path / "out" / "run", recorded).exit_code == 0
    assert list((tmp_path / "out").glob(".*")) == []


def test_a_platform_with_latencies(cli, shared, tmp_path):
    directory = shared / "batsim"
    recorded = directory / "recorded" / "delays_fcfs"
    player = write_player(tmp_path / "batsim", recorded, tmp_path / "answers")
    inputs = directory / "inputs" / "upstream"
    command = ["run", "fcfs", "-w", inputs / "test_delays.json"]
    command += ["-p", inputs / "small_platform.xml"]
    result = cli(*command, "-o", tmp_path / "real", "--engine", player)
    assert (result.exit_code, "verified, 28 rules hold" in result.err) == (0, True)
    assert cli(*command, "-o", tmp_path / "ours").exit_code == 0
    runs = (tmp_path / "ours", tmp_path / "real")
    result = cli("diff", *runs)
    assert result.exit_code == 0
    assert "equal: 10 jobs" in result.out


def test_quiet_says_nothing(cli, our_batsim, tmp_path):
    command = ["run", "fcfs", "-w", "tiny_8", "-o", tmp_path / "run", "-q"]
    result = cli(*command, "--engine", our_batsim)
    assert (result.exit_code, result.out, result.err) == (0, "", "")


def test_batsim_is_taken_from_path(cli, our_batsim, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(our_batsim.parent), prepend=os.pathsep)
    command = ["run", "fcfs", "-w", "tiny_8", "-o", tmp_path / "run", "--engine", "batsim"]
    result = cli(*command, "-q")
    assert result.exit_code == 0
    assert not [line for line in result.err.splitlines() if line.startswith("batsim: ")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--engine", "batsim"], "no batsim on PATH; --engine batsim needs Batsim 3.1 to 4.2"),
        (["--engine", "no/such"], "no/such: no executable program"),
        (["--engine", "simgrid"], "--engine is simgrid, which is neither an engine nor the path"),
        (["--engine", "batsin"], "did you mean 'batsim'?"),
        (["--engine", "batsim", "--timeout", "0"], "--timeout"),
        (["--engine", "batsim", "--hosts", "3"], "has only 3 hosts to use"),
    ],
)
def test_mistakes_are_one_clear_line(cli, tmp_path, monkeypatch, arguments, message):
    monkeypatch.setenv("PATH", str(tmp_path))
    result = cli("run", "fcfs", "-w", "tiny_8", "-o", tmp_path / "run", *arguments)
    assert (result.exit_code, result.out) == (2, "")
    assert message in result.err
    assert len(result.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_exit_code_of_batsim_is_passed_on(cli, tmp_path):
    body = "ask(connect(), begins()); print('[root/CRITICAL] bad', flush=True); os.abort()"
    fake = write_fake(tmp_path / "batsim", body)
    command = ["run", "fcfs", "-w", "tiny_8", "-o", tmp_path / "run"]
    result = cli(*command, "--engine", fake)
    assert (result.exit_code, result.out) == (134, "")
    assert result.err.splitlines() == [
        "batsim: [root/CRITICAL] bad",
        "qops-batsim: error: batsim failed after 0.000000 s with exit code 134: "
        "[root/CRITICAL] bad",
    ]
    assert not list(tmp_path.glob("run*"))


def test_a_timeout_can_be_set(cli, tmp_path):
    fake = write_fake(tmp_path / "batsim", "time.sleep(60)")
    command = ["run", "fcfs", "-w", "tiny_8", "-o", tmp_path / "run"]
    result = cli(*command, "--engine", fake, "--timeout", "0.3")
    assert result.exit_code == 2
    assert "batsim has said nothing for 0.3 s (before its first message)" in result.err


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_nothing_is_left_after_a_signal(tmp_path, number, code):
    pids, out = tmp_path / "pids", tmp_path / "out"
    fake = write_fake(tmp_path / "batsim", "ask(connect(), begins()); time.sleep(60)")
    command = [*MAIN, "run", "fcfs", "-w", "tiny_8", "-o", str(out / "run")]
    command += ["--engine", str(fake)]
    with subprocess.Popen(
        command, env=make_environment(pids), stderr=subprocess.PIPE, text=True
    ) as process:
        until = time.monotonic() + 120
        # The second process is the simulation; the first answered --version.
        while not pids.exists() or len(pids.read_text().split()) < 2:
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(number)
        try:
            _, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert running(pids) == []
    assert list(out.iterdir()) == []


def test_help_shows_the_engine(cli):
    out = cli("run", "--help").out
    assert "--engine" in out
    assert "qops-batsim run easy --engine batsim --out out/real" in out
