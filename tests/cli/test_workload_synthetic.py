import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import read_workload

Cli = Callable[..., Any]


def test_generate_writes_the_same_file_for_the_same_seed(cli: Cli, tmp_path: Path) -> None:
    options = ("--preset", "ctc-sp2", "--jobs", 200, "--seed", 7)
    first = cli("workload", "generate", tmp_path / "a.json", *options)
    assert first.exit_code == 0, first.err
    assert "200 jobs on 338 processors" in first.out
    assert "offered load: 0.836" in first.out
    cli("workload", "generate", tmp_path / "b.json", *options)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    cli("workload", "generate", tmp_path / "c.json", *options[:-1], 8)
    assert (tmp_path / "a.json").read_bytes() != (tmp_path / "c.json").read_bytes()


def test_generate_options_reach_the_generator(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "w.json"
    result = cli(
        *("workload", "generate", out, "--preset", "kth-sp2", "--jobs", 100, "--processors", 64),
        *("--load", 0.5, "--deadline-share", 1, "--stretch", 2, 3),
    )
    assert result.exit_code == 0, result.err
    assert "offered load: 0.50" in result.out
    workload = read_workload(out)
    assert workload.processors == 64
    assert workload.provenance["deadlines"] == {"share": 1.0, "stretch": [2.0, 3.0]}
    assert all(job.walltime is None and job.qos.deadline for job in workload.jobs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--preset", "sdsc"), "did you mean 'sdsc-sp2'?"),
        (("--jobs", "0"), "jobs is 0; a whole number from 1 to"),
        (("--load", "-1"), "load is -1; a number from 0.001"),
        (("--processors", "0"), "processors is 0; a whole number from 1 to"),
        (("--deadline-share", "2"), "deadline share is 2; a number from 0 to 1"),
    ],
)
def test_generate_refuses_bad_options_in_one_line(
    cli: Cli, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    result = cli("workload", "generate", tmp_path / "w.json", *options)
    assert result.exit_code == 2
    assert message in result.err
    assert result.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_generate_tells_an_unwritable_output(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = cli("workload", "generate", tmp_path / "file" / "w.json", "--jobs", 3)
    assert result.exit_code == 2
    assert "cannot be written" in result.err


def test_fetch_takes_a_cached_log_and_copies_it(cli: Cli, tmp_path: Path, shared: Path) -> None:
    log = shared / "traces" / "KTH-SP2-1996-2.swf.gz"
    (tmp_path / log.name).write_bytes(log.read_bytes())
    result = cli("workload", "fetch", "kth-sp2", "--cache", tmp_path)
    assert (result.exit_code, result.out.strip()) == (0, str(tmp_path / log.name))
    copied = cli("workload", "fetch", "kth-sp2", "--cache", tmp_path, "--out", tmp_path / "k.gz")
    assert copied.out.strip() == str(tmp_path / "k.gz")
    assert (tmp_path / "k.gz").read_bytes() == log.read_bytes()


def test_fetch_tells_of_a_checksum_seen_for_the_first_time(cli: Cli, tmp_path: Path) -> None:
    content = gzip.compress(b"log")
    (tmp_path / "CTC-SP2-1996-3.1-cln.swf.gz").write_bytes(content)
    result = cli("workload", "fetch", "ctc-sp2", "--cache", tmp_path)
    assert result.exit_code == 0
    assert hashlib.sha256(content).hexdigest() in result.err
    assert "could not be checked" in result.err
    assert cli("workload", "fetch", "ctc-sp2", "--cache", tmp_path).err == ""


def test_fetch_refuses_an_unknown_log(cli: Cli, tmp_path: Path) -> None:
    result = cli("workload", "fetch", "kth", "--cache", tmp_path)
    assert result.exit_code == 2
    assert "log is 'kth'" in result.err
