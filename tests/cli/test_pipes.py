"""Inputs that come through a pipe are read once, and recorded as what was read."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from qops_batsim.shipped import find_input
from support.swf_lines import swf_text

Cli = Callable[..., Any]


@contextmanager
def pipe_of(content: bytes) -> Iterator[str]:
    """Give the name of a pipe with a little content, which can be read once."""
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    try:
        yield f"/dev/fd/{reader}"
    finally:
        os.close(reader)


@pytest.mark.parametrize("compress", [gzip.compress, bytes])
def test_a_log(cli: Cli, tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    content = compress(swf_text([{"submit_time": i} for i in range(8)]).encode())
    with pipe_of(content) as log:
        assert cli("workload", "import", log).exit_code == 0
    with pipe_of(content) as log:
        assert cli("workload", "import", log, tmp_path / "o.json").exit_code == 0
    made = json.loads((tmp_path / "o.json").read_text())
    assert made["qops_batsim"]["log"]["sha256"] == hashlib.sha256(content).hexdigest()


def test_inputs_of_a_run(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    jobs = find_input("tiny_8", "workloads").read_bytes()
    machine = gzip.compress(find_input("kth_sp2_100", "platforms").read_bytes())
    events = b'{"timestamp": 5, "type": "machine_unavailable", "resources": "99"}\n'
    with pipe_of(jobs) as w, pipe_of(machine) as p, pipe_of(events) as e:
        result = cli("run", "easy", "-w", w, "-p", p, "--events", e, "-o", "x")
    assert result.exit_code == 0, result.err
    given = {"workload": jobs, "platform": machine, "events": events}
    expected = {what: hashlib.sha256(content).hexdigest() for what, content in given.items()}
    assert json.loads(Path("x_run.json").read_text())["sha256"] == expected
    with pipe_of(jobs) as workload:
        assert cli("verify", "x", "--workload", workload).exit_code == 0
    # A pipe of the recorded name is another one by now, and may never be written.
    with pipe_of(b"") as other:
        told = Path("x_run.json").read_text().replace(w, other)
        Path("y_run.json").write_text(told)
        Path("y_jobs.csv").write_bytes(Path("x_jobs.csv").read_bytes())
        content = json.loads(told)
        del content["files"]
        Path("y_run.json").write_text(json.dumps(content))
        assert "not checked for want of the workload" in cli("verify", "y").err


def test_a_closed_output_is_no_defect() -> None:
    code = "from qops_batsim.cli.main import main; main()"
    command = f"exec {shlex.quote(sys.executable)} -c '{code}' schedulers >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")
