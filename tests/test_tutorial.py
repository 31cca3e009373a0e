"""Pages done as they say: files written, commands run in order, what they print compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"

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


@pytest.mark.parametrize(
    "page", ["tutorial.md", "centres.md", "explain.md", "charges.md", "workloads.md"]
)
def test_a_page_can_be_followed(page: str, tmp_path: Path) -> None:
    text = (DOCS / page).read_text()
    for name, content in FILE.findall(text):
        (tmp_path / name).write_text(content)
    environment = {**os.environ, "COLUMNS": "80"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    commands = [part for block in CONSOLE.findall(text) for part in block.split("$ ")[1:]]
    assert commands
    for command, _, shown in (each.partition("\n") for each in commands):
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
        )
        printed = f"{command}\n{done.stdout}"
        assert done.returncode == 0, printed
        if shown:
            assert pattern(shown).fullmatch(narrow(done.stdout)), f"{printed}\nexpected:\n{shown}"
