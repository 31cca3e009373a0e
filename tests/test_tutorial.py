"""Pages done as they say: files written, commands run in order, what they print compared."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from time import perf_counter, time

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

pytestmark = pytest.mark.skipif(
    "QOPS_TUTORIAL" not in os.environ, reason="done from the wheel, by .ci/book (QOPS_TUTORIAL=1)"
)

FILE = re.compile(r"to `([\w.]+)`:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def pattern(shown: str) -> re.Pattern[str]:
    """Return what output must look like: the lines as shown, but for widths; … for anything."""
    lines = [re.escape(line).replace("…", ".*") for line in narrow(shown).splitlines()]
    return re.compile("".join(r"(?:.*\n)*?" if line == ".*" else line + "\n" for line in lines))


def narrow(text: str) -> str:
    """Return text without columns' widths and without the note about the first compilation."""
    return re.sub("^compiling .*\n", "", re.sub(" +", " ", text).replace(" \n", "\n"))


def typed(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Do what a page says, with the programs of this environment."""
    environment = {**os.environ, "COLUMNS": "80", "XDG_CACHE_HOME": str(folder / "cache")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
    )


@pytest.mark.parametrize(
    "page", ["tutorial.md", "centres.md", "explain.md", "charges.md", "workloads.md"]
)
def test_a_page_can_be_followed(page: str, tmp_path: Path) -> None:
    text = (DOCS / page).read_text()
    for name, content in FILE.findall(text):
        (tmp_path / name).write_text(content)
    commands = [part for block in CONSOLE.findall(text) for part in block.split("$ ")[1:]]
    assert commands
    for command, _, shown in (each.partition("\n") for each in commands):
        done = typed(command, tmp_path)
        printed = f"{command}\n{done.stdout}"
        assert done.returncode == 0, printed
        if shown:
            assert pattern(shown).fullmatch(narrow(done.stdout)), f"{printed}\nexpected:\n{shown}"


def queue_and_history(now: int) -> tuple[str, str]:
    """Return a queue of two jobs, and a log of what ran before."""
    common = {"processors": 1000, "estimate": 7200, "user": "1"}
    jobs = [{**common, "id": "7", "start": now - 60}, {**common, "id": "8", "submission": now - 50}]
    fields = "0 1800 64 -1 -1 64 7200 -1 1 1 1 1 1 1 -1 -1"
    past = [f"{each} {600 * each} {fields}" for each in range(1, 1000)]
    head = [f"; UnixStartTime: {now - 700_000}", "; TimeZoneString: UTC", "; MaxProcs: 1024"]
    return json.dumps({"processors": 1024, "now": now, "jobs": jobs}), "\n".join([*head, *past])


def test_the_commands_of_the_readme_work_and_are_timed(
    tmp_path: Path, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "README.md").read_text()
    _, second, *_ = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    log = "KTH-SP2-1996-2.swf.gz"
    (tmp_path / "cache" / "qops-batsim").mkdir(parents=True)
    # Where it would be downloaded to, and where it is then read from.
    for folder in (tmp_path / "cache" / "qops-batsim", tmp_path):
        (folder / log).write_bytes((shared / "traces" / log).read_bytes())
    queue, history = queue_and_history(int(time()))
    (tmp_path / "squeue.json").write_text(queue)
    (tmp_path / "sacct.txt").write_text(history)
    for line in ["qops-batsim run qops", *second.splitlines()]:
        command = line.partition("#")[0].strip()
        # All of it takes minutes.
        command += " --first 500" * command.startswith("qops-batsim compare")
        began = perf_counter()
        done = typed(command, tmp_path)
        with capsys.disabled():
            sys.stdout.write(f"\n{perf_counter() - began:.1f} s: {command}")
        assert done.returncode == 0, f"{command}\n{done.stdout}"
