"""What ``run`` makes of input that cannot be used: one line, exit code 2, no file."""

import gzip
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]

WORKLOAD = {
    "nb_res": 4,
    "jobs": [{"id": "1", "subtime": 0, "res": 4, "profile": "d"}],
    "profiles": {"d": {"type": "delay", "delay": 1}},
}
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="z" routing="Full">
{hosts}</zone></platform>
"""
HOST = '<host id="host{}" speed="1Gf"/>\n'
LAUGHS = "".join(f'<!ENTITY l{i + 1} "{f"&l{i};" * 10}">' for i in range(9))

CONTENT: dict[str, bytes] = {
    "good.json": json.dumps(WORKLOAD).encode(),
    "garbage": random.Random(7).randbytes(500),
    "truncated.json.gz": gzip.compress(json.dumps(WORKLOAD).encode())[:-12],
    "damaged.json.gz": gzip.compress(bytes(200))[:14] + b"\xff" * 20,
    "empty.json": b"",
    "half.json": json.dumps(WORKLOAD).encode()[:-20],
    "log.swf": b"; Version: 2.2\n1 0 1 1 1 -1 -1 1 1 -1 1 1 1 1 1 -1 -1 -1\n",
    "deep.json": b"[" * 5_000,
    "brackets.json": b"[" * 500_000,
    "twins.json": b'{"nb_res": 1, "nb_res": 2}',
    "huge.json": json.dumps(WORKLOAD).replace('"res": 4', '"res": 1e999').encode(),
    "digits.json": json.dumps(WORKLOAD).replace('"res": 4', '"res": ' + "9" * 5000).encode(),
    "wide.json": json.dumps(WORKLOAD | {"nb_res": 10**9}).encode(),
    "late.json": json.dumps(WORKLOAD).replace('"subtime": 0', '"subtime": 1e300').encode(),
    "half-character.json": json.dumps(WORKLOAD).replace('"1"', r'"\ud800"').encode(),
    "small.xml": PLATFORM.format(hosts=HOST.format(0)).encode(),
    "no-host.xml": PLATFORM.format(hosts="").encode(),
    "half.xml": PLATFORM.format(hosts=HOST.format(0)).encode()[:-20],
    "bomb.xml": (
        f'<!DOCTYPE platform [<!ENTITY l0 "ha">{LAUGHS}]>\n'
        '<platform version="4.1"><zone id="&l9;" routing="Full"/></platform>'
    ).encode(),
    "external.xml": (
        b'<!DOCTYPE platform [<!ENTITY secret SYSTEM "file:///etc/hostname">]>\n'
        b'<platform version="4.1"><zone id="&secret;" routing="Full"/></platform>'
    ),
    "file": b"",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with all the files of CONTENT, as the current one."""
    for name, content in CONTENT.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(cli: Cli, folder: Path, *words: str) -> str:
    """Run a command that has to fail without a trace; return its message."""
    before = snapshot(folder)
    result = cli(*words)
    assert result.exit_code == 2, result
    assert result.out == ""
    assert result.err.startswith("qops-batsim: error: ")
    assert result.err.count("\n") == 1
    assert len(result.err) < 500
    assert snapshot(folder) == before
    return str(result.err.removeprefix("qops-batsim: error: ").rstrip("\n"))


def snapshot(folder: Path) -> dict[str, bytes]:
    paths = (Path(top) / name for top, _, names in os.walk(folder) for name in names)
    return {str(path): path.read_bytes() for path in paths}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["easi"], "unknown scheduler 'easi'; did you mean 'easy'?"),
        ([""], "unknown scheduler ''"),
        (["fcfs", "--set", "foo=1"], "scheduler 'fcfs' has no option 'foo' (it has none)"),
        (["conservative", "--set", "reserv=hosts"], "no option 'reserv'; did you mean 'reserve'?"),
        (
            ["conservative", "--set", "reserve=x"],
            "option reserve is 'x' (known: hosts, processors)",
        ),
        (["easy", "--nosuch"], "(`qops-batsim run --help`)"),
        (["conservative", "--set", "reserve=5"], "option reserve is 5"),
        (["conservative", "--set", "reserve="], "option reserve is ''"),
        (["conservative", "--set", "reserve"], "option 'reserve': NAME=VALUE is expected"),
        (["conservative", "--set", "=hosts"], "option '=hosts': NAME=VALUE is expected"),
        (
            ["conservative", "--set", "reserve=hosts", "--set", "reserve=processors"],
            "option 'reserve' is given twice",
        ),
    ],
)
def test_a_wrong_scheduler_or_option(
    cli: Cli, folder: Path, words: list[str], message: str
) -> None:
    assert message in refused(cli, folder, "run", *words, "--workload", "good.json")


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ("missing.json", "missing.json: no such file, nor one of the shipped workloads"),
        ("tiny8", "did you mean 'tiny_8'?"),
        ("", "is a directory (a Batsim workload (JSON) was expected)"),
        (".", "is a directory (a Batsim workload (JSON) was expected)"),
        ("file/w.json", "file/w.json: no such file"),
        ("a\nb.json", r"a\nb.json: no such file"),
        ("\udce9.json", r"argument '\udce9.json' is not UTF-8"),
        ("garbage", "garbage: not UTF-8 text"),
        ("truncated.json.gz", "truncated.json.gz: truncated gzip file"),
        ("damaged.json.gz", "damaged.json.gz: damaged gzip file"),
        ("empty.json", "empty.json: line 1, column 1: not JSON"),
        ("half.json", "half.json: line 1, column"),
        ("log.swf", "log.swf log.json` converts this log to one"),
        ("deep.json", "deep.json: JSON nested too deeply"),
        ("brackets.json", "brackets.json: 500000 times '[' in 500000 letters"),
        ("twins.json", "twins.json: field 'nb_res' is given twice"),
        ("huge.json", "huge.json: field 'jobs[0].res' is out of the range of numbers"),
        ("digits.json", "digits.json: field 'jobs[0].res' is out of the range of numbers"),
        ("late.json", "late.json: jobs[0] (job '1'): field 'subtime' is 1e+300"),
        ("half-character.json", r"half-character.json: field 'jobs[0].id' is '\ud800'"),
        ("wide.json", "1000000000"),
    ],
)
def test_a_workload_that_cannot_be_used(
    cli: Cli, folder: Path, workload: str, message: str
) -> None:
    assert message in refused(cli, folder, "run", "easy", "--workload", workload)


@pytest.mark.parametrize(
    ("platform", "message"),
    [
        ("missing.xml", "missing.xml: no such file, nor one of the shipped platforms"),
        ("kth_sp2_10", "did you mean 'kth_sp2_100'?"),
        (".", "is a directory (a SimGrid platform (XML) was expected)"),
        ("garbage", "garbage: "),
        ("empty.json", "empty.json: line 1, column"),
        ("good.json", "good.json: line 1, column 1: not XML"),
        ("half.xml", "half.xml: line "),
        ("no-host.xml", "no-host.xml: no compute host"),
        ("bomb.xml", "bomb.xml: line 1: entity 'l0' is declared"),
        ("external.xml", "external.xml: line 1: entity 'secret' is declared"),
        ("small.xml", "good.json is for 4 processors (nb_res), but small.xml has only 1 host"),
    ],
)
def test_a_platform_that_cannot_be_used(
    cli: Cli, folder: Path, platform: str, message: str
) -> None:
    words = ("run", "easy", "--workload", "good.json", "--platform", platform)
    assert message in refused(cli, folder, *words)


def test_more_or_fewer_hosts_than_there_can_be(cli: Cli, folder: Path) -> None:
    words = ("run", "easy", "--workload", "good.json", "--hosts")
    assert "5 hosts were asked for; from 1 to 4 are accepted" in refused(cli, folder, *words, "5")
    assert "is for 4 processors" in refused(cli, folder, *words, "3")


@pytest.mark.parametrize("prefix", ["file/out", "good.json/deep/out", "a" * 300])
def test_an_output_that_cannot_be_written(cli: Cli, folder: Path, prefix: str) -> None:
    words = ("run", "easy", "--workload", "good.json", "--out", prefix)
    message = refused(cli, folder, *words)
    assert message.startswith(prefix)
    assert "cannot be written (" in message


def test_the_same_command_with_good_input_writes_its_files(cli: Cli, folder: Path) -> None:
    result = cli("run", "easy", "--workload", "good.json", "--out", "results/easy")
    assert result.exit_code == 0, result.err
    written = {path.name for path in (folder / "results").iterdir()}
    kinds = ("jobs.csv", "schedule.csv", "machine_states.csv", "run.json")
    assert {f"easy_{kind}" for kind in kinds} <= written
