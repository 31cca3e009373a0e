"""Jobs that ask for parts of hosts which tell of none: one error on every road, and no file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim.platform import make_cluster, write_platform


@pytest.mark.parametrize(
    "words",
    [
        ("run", "easy", "-w", "jobs.json", "-p", "p.xml", "--out", "out/run"),
        ("run", "easy", "-w", "jobs.json", "-p", "p.xml", "--out", "out/run", "--engine", "batsim"),
        ("engine", "-p", "p.xml", "-w", "jobs.json", "-e", "out/run", "-s", "ipc://nobody"),
        ("engine", "-p", "p.xml", "-w", "jobs.json", "-e", "out/run", "--no-sched"),
        (
            "engine",
            "--as",
            "5",
            "-p",
            "p.xml",
            "-w",
            "jobs5.json",
            "-e",
            "out/",
            "-s",
            "ipc://",
            "",
        ),
    ],
    ids=lambda words: " ".join(words[:3] + words[-1:]),
)
def test_amounts_on_whole_hosts(
    cli: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_platform(make_cluster(2), "p.xml")
    asked = {"per_host": {"cores": 2}, "hosts_with": ["big"]}
    jobs: list[dict[str, Any]] = [
        {"id": "0", "subtime": 0, "res": 2, "profile": "d"},
        {"id": "1", "subtime": 0, "res": 1, "profile": "d"},
    ]
    written = {
        "jobs.json": (asked, "delay"),
        "jobs5.json": ({"extra_data": json.dumps(asked)}, "DelayProfile"),
    }
    for file, (fields, kind) in written.items():
        profiles = {"d": {"type": kind, "delay": 9}}
        content = {"nb_res": 2, "jobs": [jobs[0], jobs[1] | fields], "profiles": profiles}
        Path(file).write_text(json.dumps(content))
    result = cli(*words)
    assert result.exit_code == 2
    assert result.err.count("\n") == 1
    assert (
        "json: job '1' asks for per_host, hosts_with, but no host of p.xml tells what it has; a "
        "platform whose hosts have amounts, such as cores, is expected"
    ) in result.err
    assert not [path for path in tmp_path.rglob("out/*") if path.is_file()]
