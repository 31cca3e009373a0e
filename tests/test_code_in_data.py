"""Files of data run no code: it is planted in every field of every format that is read."""

from __future__ import annotations

import copy
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qops_batsim import (
    QopsError,
    explain,
    quote,
    read_platform,
    read_run,
    read_workload,
    run,
    run_again,
    simulate,
)
from qops_batsim.advice import PriceList
from qops_batsim.engine.execution import read_traces
from qops_batsim.experiments import read_study, read_study_runs, run_study, study_report
from qops_batsim.queue import read_queue
from qops_batsim.running import read_history
from qops_batsim.running.inputs import load_events
from qops_batsim.shipped import find_input
from qops_batsim.traces import read_trace
from qops_batsim.workload.accounting.choices import Choices
from qops_batsim.workload.accounting.site import CsvForm
from support.live_site import Site
from support.logs import read_log
from support.sacct_dumps import PBS, make_dump

Cli = Callable[..., Any]
FREE = PriceList(None)

EXAMPLE = files("qops_batsim.experiments").joinpath("example.toml").read_text("utf-8")

EVIL = '''
from pathlib import Path

Path(__file__).with_name("executed").write_text("")

from qops_batsim.schedulers.qops import Qops


class Evil(Qops):
    """Qops, but its file tells when it is run."""
'''

OTHERS = """{{ cycler.__init__.__globals__.os.popen('touch executed') }}$(touch executed)`touch \
executed`;touch executed|touch executed;__import__('evil');!!python/object/apply:os.system"""

PAYLOADS = ("evil.py:Evil", "evil:Evil", OTHERS)

_heard: list[str] = []
_listening = False


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _listening and event in ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen"):
        _heard.append(f"{event} {arguments}")


sys.addaudithook(_hear)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a module that tells when it is run; at the end nobody has run it."""
    global _listening
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("evil.py").write_text(EVIL)
    _heard.clear()
    _listening = True
    yield tmp_path
    _listening = False
    assert "evil" not in sys.modules
    assert not Path("executed").exists()
    assert _heard == []


def planted(document: Any) -> Iterator[Any]:
    """Yield a document with each field replaced by each payload, and each name by one."""

    def places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        yield path
        items = value.items() if isinstance(value, dict) else ()
        for key, inner in enumerate(value[:2]) if isinstance(value, list) else items:
            yield from places(inner, (*path, key))

    for path in islice(places(document, ()), 1, None):
        for payload in PAYLOADS:
            made = copy.deepcopy(document)
            inner = made
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = payload
            yield made
        if isinstance(inner, dict):
            inner[PAYLOADS[0]] = inner.pop(path[-1])
            yield made


def planted_text(text: str, field: str, lines: int = 3) -> Iterator[str]:
    """Yield a text with each field of its first lines replaced, given the pattern of a field."""
    head = "".join(text.splitlines(keepends=True)[:lines])
    for found in re.finditer(field, head):
        for payload in PAYLOADS:
            yield text[: found.start()] + payload + text[found.end() :]


def tried(read: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    with suppress(QopsError):
        read(*arguments, **named)


@pytest.mark.usefixtures("folder")
def test_the_files_of_a_run_execute_nothing() -> None:
    run("qops", "tiny_8", out="first")
    path = Path("first_run.json")
    document = json.loads(path.read_text())
    del document["files"]  # So that all of it is read though it was changed.
    document["outages"] = []
    path.write_text(json.dumps(document))
    log = Path("first_decisions.jsonl").read_text()
    header, *lines = log.splitlines(keepends=True)
    for made in planted(json.loads(header)):
        Path("first_decisions.jsonl").write_text(json.dumps(made) + "\n" + "".join(lines))
        tried(explain, "first", "1", FREE)
        tried(quote, "first", 5, processors=1, run_time=1, prices=FREE)
    for text in planted_text("".join(lines), r'"[^"]*"|[\d.]+', 2):
        Path("first_decisions.jsonl").write_text(header + text)
        tried(read_history, "first")
    Path("first_decisions.jsonl").write_text(log)
    for made in planted(document):
        path.write_text(json.dumps(made))
        tried(explain, "first", "1")
        if "evil.py:Evil" in str(made):
            tried(run_again, path, out="again")
    path.unlink()
    for ending in ("jobs", "schedule", "machine_states", "qos"):
        table = Path(f"first_{ending}.csv")
        content = table.read_text()
        for text in planted_text(content, r"[^,\n]+", 2):
            table.write_text(text)
            tried(read_run, "first")
        table.write_text(content)


@pytest.mark.usefixtures("folder")
def test_a_description_that_is_true_to_the_file_it_names_executes_nothing(cli: Cli) -> None:
    run("qops", "tiny_8", out="first")
    path, log = Path("first_run.json"), Path("first_decisions.jsonl")
    log.write_text(log.read_text().replace('"qops"', '"evil.py:Evil"', 1))
    document = json.loads(path.read_text()) | {"scheduler": "evil.py:Evil"}
    document["sha256"]["scheduler"] = sha256(Path("evil.py").read_bytes()).hexdigest()
    document["files"]["_decisions.jsonl"] = sha256(log.read_bytes()).hexdigest()
    path.write_text(json.dumps(document))
    asked = ("quote", "first@5", "1x1")
    for command in (("explain", "first", 1), asked, ("run", "--again", path)):
        result = cli(*command)
        assert result.exit_code == 2
        assert "scheduler 'evil.py:Evil' is a Python file named in the data, " in result.err
        assert "--code evil.py" in result.err
    Path("study.toml").write_text(
        'name = "x"\nlogs = ["tiny_8"]\nschedulers = ["easy", "evil.py:Evil"]\n'
    )
    result = cli("study", "run", "study.toml", "--out", "grid")
    assert (result.exit_code, "--code evil.py" in result.err) == (2, True)


@pytest.mark.usefixtures("folder")
def test_other_files_execute_nothing() -> None:
    given = json.loads(find_input("tiny_8", "workloads").read_text())
    given["jobs"] = given["jobs"][:2]
    given["jobs"][0]["qos"] = {"deadline": 9, "class": "deadline", "category": "x", "origin": "y"}
    for profile in (
        {"type": "delay", "delay": 1},
        {"type": "trace", "trace": "t.txt"},
        {"type": "composed", "repeat": 1, "seq": ["p"]},
        {"type": "parallel", "cpu": [1], "com": [0]},
    ):
        given["profiles"] = {"p": {"type": "delay", "delay": 1}, "q": profile}
        for number, job in enumerate(given["jobs"]):
            job["profile"] = "pq"[number]
        for made in planted(given):
            Path("w.json").write_text(json.dumps(made))
            with suppress(QopsError):
                simulate("easy", read_workload("w.json"), None)


@pytest.mark.usefixtures("folder")
def test_platforms_logs_and_queues_execute_nothing() -> None:
    machine = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="z" routing="Full">
  <host id="h" speed="1f,2f" core="1"><prop id="wattage_per_state" value="1:2:3,1:2:3"/></host>
  <cluster id="c" prefix="a" suffix="" radical="0-1" speed="1f" bw="1Bps" lat="0s"/>
  <link id="l" bandwidth="1Bps" latency="0s"/><include file="i.xml"/>
</zone></platform>
"""
    swf = "; MaxProcs: 4\n; UnixStartTime: 0\n1 0 0 5 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1\n"
    table = "id,submit,run,n\n1,0,5,1\n2,1,5,1\n"
    events = '{"type": "machine_unavailable", "resources": "0-1", "timestamp": 5}\n'
    cases: list[tuple[str, Callable[[str], object], str, int]] = [
        (machine, read_platform, r'(?<=")[^"]+(?=")', 40),
        (swf, read_trace, r"[^\s;]+", 3),
        (make_dump(3, jobs=3).text(), read_trace, r"[^|\n]+", 2),
        (PBS, read_trace, r"[^;=\s]+", 3),
        (table, lambda path: read_log(Path(path), Choices(), "csv", FORM), r"[^,\n]+", 2),
        (events, lambda path: load_events(path), r'(?<=")[^"]+(?=")|\d', 1),
        (EXAMPLE, read_study, r'(?<=")[^"]+(?=")|\b\d+\b', 40),
        ("1 0 5\n", lambda path: read_traces(path, Path("."), "job 1"), r"\S+", 1),
    ]
    for content, read, field, lines in cases:
        for number, text in enumerate(planted_text(content, field, lines)):
            Path(f"{number}.x").write_text(text)
            tried(read, f"{number}.x")
    queue = {"processors": 8, "now": "2026-03-29T01:30:00+01:00", "jobs": [QUEUED]}
    slurm = {"jobs": [{"job_id": 1, "job_state": ["PENDING"], "cpus": {"set": True, "number": 1}}]}
    for made in [*planted(queue), *planted(slurm)]:
        tried(read_queue, json.dumps(made).encode(), "queue.json", processors=8)


@pytest.mark.usefixtures("folder")
def test_the_directory_of_a_study_executes_nothing() -> None:
    Path("c.toml").write_text(
        'name = "x"\nlogs = ["tiny_8"]\nschedulers = ["easy"]\nseeds = 1\n'
        "windows = [{skip = 0, first = 4}]\n"
    )
    run_study(read_study("c.toml"), "grid")
    for path in (Path("grid/study.json"), next(Path("grid/runs").iterdir())):
        content = path.read_text()
        for made in planted(json.loads(content)):
            path.write_text(json.dumps(made))
            tried(summaries, "grid")
        path.write_text(content)
    assert summaries("grid")


def summaries(directory: str) -> object:
    return study_report.summaries(read_study_runs(directory))


QUEUED = {
    "id": "1",
    "processors": 1,
    "estimate": 5,
    "start": 1,
    "end": 9,
    "deadline": 9,
    "planned_start": 1,
    "priority": 1,
    "submission": 1,
}
FORM = CsvForm({"id": "id", "submit": "submit", "run_time": "run", "processors": "n"})


def test_the_journal_of_a_live_centre_executes_nothing(folder: Path, cli: Cli) -> None:
    site = Site(folder / "journal.db")
    site.fake.submit(4, limit=600, run_time=300, deadline=2000)
    site.pass_time(400)
    site.journal.close()
    document = json.loads(msgspec.json.encode(site.journal.about))
    for made in planted(document):
        with sqlite3.connect(site.path) as journal:
            journal.execute("UPDATE about SET value = ?", (json.dumps(made),))
        for command in (("metrics",), ("explain",), ("live", "report"), ("live", "status")):
            arguments = ("1",) if command == ("explain",) else ()
            assert cli(*command, site.path, *arguments).exit_code in (0, 2)
    journal.close()
    written = document | {"scheduler": "evil.py:Evil"}
    with sqlite3.connect(site.path) as journal:
        journal.execute("UPDATE about SET value = ?", (json.dumps(written),))
    journal.close()
    assert "Python file named in the data, which is not run without" in cli("verify", site.path).err
    assert not Path("executed").exists()
    assert cli("explain", site.path, "1", "--code", "evil.py").exit_code == 0
    Path("executed").unlink()


def test_a_file_is_run_for_who_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(EVIL.replace("executed", "ran"))
    done = subprocess.run(
        [sys.executable, "-m", "qops_batsim", "run", "mine.py:Evil", "-w", "tiny_8", "-qo", "first"]
    )
    assert done.returncode == 0
    ran = Path("ran")
    ran.unlink()
    elsewhere = Path("sub")
    elsewhere.mkdir()
    Path("mine.py").rename("sub/mine.py")
    assert cli("explain", "first", 1).exit_code == 2
    assert cli("explain", "first", 1, "--code", "other.py").exit_code == 2
    again = cli("run", "--again", "first_run.json", "--code", "other.py")
    assert again.exit_code == 2  # It lies elsewhere now.
    assert not ran.exists()
    asked = ("quote", "first@5", "1x1")
    Path("sub/mine.py").write_text(Path("sub/mine.py").read_text() + "\n")
    changed = cli(*asked, "--code", "sub/mine.py")
    assert (changed.exit_code, "has changed since" in changed.err) == (2, True)
    assert not Path("sub/ran").exists()
    Path("sub/mine.py").write_text(Path("sub/mine.py").read_text()[:-1])
    for command in (asked, ("explain", "first", 1), ("run", "-q", "--again", "first_run.json")):
        told = cli(*command, "--code", "sub/mine.py")
        assert (told.exit_code, told.err) == (0, "")
    assert Path("sub/ran").exists()
    assert cli("run", "easy", "--code", "sub/mine.py").exit_code == 2
