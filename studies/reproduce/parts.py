"""Commands of studies, whole or with settings of which few are drawn, run on their own.

A study runs from a copy of the folders with changed settings, in a directory of its own: nothing
that an earlier run has kept can be found there.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from functools import reduce
from operator import getitem
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from qops_batsim import QopsError
from qops_batsim.experiments import find_trace

STUDIES = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("QOPS_SHARED", "../shared")).resolve()


class Failed(Exception):
    """A command that gave no numbers."""


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``--quick`` makes of a command: its arguments, if others, or another program.

    ``change`` are settings with other values, by their path in ``study.toml``; of those in ``draw``
    as many items are drawn by seed, beside the ``keep`` ones. What comes out is compared with those
    tables of the page whose titles match ``tables``, but for numbers whose names match ``without``:
    those that depend on what was left out.
    """

    asks: str | None = None
    program: str = ""
    change: dict[str, Any] = {}
    draw: dict[str, int] = {}
    keep: tuple[str, ...] = ()
    tables: str = r"\d$"
    without: str = "verdict|chance"
    seconds: float


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command of a study, and the page with the numbers that it gives, or a section of that.

    ``program`` is what runs, if not the study itself; it costs ``seconds`` of CPU time. Without a
    page numbers of the README are tied to it. ``logs`` are files that its settings do not name.
    """

    asks: str = ""
    program: str = ""
    page: str = ""
    section: str = ""
    logs: tuple[str, ...] = ()
    part: Part | None = None
    seconds: float

    def name(self, study: str) -> str:
        """Return the command as a user would type it."""
        asks = self.asks.format(page=f"studies/{study}/{self.page}")
        return f"python {self.program or f'studies/{study}'} {asks}".strip()


def missing_log(study: str, command: Command) -> str | None:
    """Return the first log of a command that is not at hand."""
    named = re.findall(r"[\w.-]+\.gz", (STUDIES / study / "study.toml").read_text("utf-8"))
    for file in (*command.logs, *map(str, named)):
        try:
            if not (SHARED / file).is_file():
                find_trace(file, Path())
        except QopsError:
            return file
    return None


def drawn(settings: Mapping[str, Any], part: Part, by: random.Random) -> dict[str, Any]:
    """Return the settings of a part, with items that are drawn.

    >>> part = Part(draw={"grid.loads": 1}, change={"jobs": 5}, seconds=1)
    >>> drawn({"jobs": 9, "grid": {"loads": [1, 2, 3]}}, part, random.Random(1))
    {'jobs': 5, 'grid': {'loads': [1]}}
    """
    found: dict[str, Any] = json.loads(json.dumps(settings))
    for path, value in (part.change | part.draw).items():
        *tables, last = path.split(".")
        holder = reduce(getitem, tables, found)
        if path in part.draw:
            items = part.change.get(path, holder[last])
            others = [each for each in items if each not in part.keep]
            chosen = [*part.keep, *by.sample(others, min(value, len(others)))]
            value = [each for each in items if each in chosen]
            value = {each: items[each] for each in value} if isinstance(items, dict) else value
        holder[last] = value
    return found


def toml(value: Any) -> str:
    """Return a value as TOML, tables inline."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{toml(name)} = {toml(it)}' for name, it in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def run(
    study: str, command: Command, seed: int | None = None, workers: int = 1
) -> tuple[str, float]:
    """Run a command of a study, or the part of it that a seed draws; return its text and cost (s).

    Raises :class:`Failed` where it fails.
    """
    asks, program, part = command.asks, command.program, command.part
    with TemporaryDirectory() as name:
        scratch = Path(name)
        folder = scratch / "studies" / study
        # All of them, since the benchmark names a scheduler of another study.
        shutil.copytree(STUDIES, folder.parent, ignore=shutil.ignore_patterns("*.png", "results"))
        if seed is not None and part is not None:
            asks, program = asks if part.asks is None else part.asks, part.program or program
            settings = tomllib.loads((folder / "study.toml").read_text("utf-8"))
            settings = drawn(settings, part, random.Random(f"{seed} {command.name(study)}"))
            lines = (f"{toml(each)} = {toml(value)}\n" for each, value in settings.items())
            (folder / "study.toml").write_text("".join(lines), "utf-8")
        program = program or f"studies/{study}"
        start = next(it for it in (scratch / program, STUDIES.parent / program) if it.exists())
        page = scratch / "page.md"
        given = f"{asks} --workers {workers}".format(page=page, seed=seed)
        paths = os.pathsep.join(filter(None, (str(STUDIES.parent), os.environ.get("PYTHONPATH"))))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, str(start), *shlex.split(given)],
            cwd=scratch,
            env=os.environ | {"PYTHONPATH": paths, "QOPS_SHARED": str(SHARED)},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            last = done.stderr.strip().rpartition("\n")[2]
            raise Failed(f"{command.name(study)} fails: {last}")
        text = page.read_text("utf-8") if page.is_file() else done.stdout
        return text, sum(after[:2]) - sum(before[:2])
