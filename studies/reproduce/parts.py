"""Commands of studies, whole or with settings of which few are drawn, run on their own.

A study runs from a copy of its folder with changed settings, in a directory of its own: nothing
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
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from qops_batsim import QopsError
from qops_batsim.experiments import find_trace, markdown_table

STUDIES = Path(__file__).resolve().parents[1]
PAGE = "PAGE"
"""Stands in a command for the file that it writes."""


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``--quick`` makes of a command: its arguments, if others, or another program.

    ``change`` are settings with other values, by their path in ``study.toml``; of those in ``draw``
    as many items are drawn by seed, beside the ``keep`` ones. What comes out is compared with those
    tables of the page whose titles match ``tables``, but for the columns ``without``: the tables
    and columns whose cells do not depend on what was left out.
    """

    asks: str | None = None
    program: str = ""
    change: dict[str, Any] = {}
    draw: dict[str, int] = {}
    keep: tuple[str, ...] = ()
    tables: str = r"\d$"
    without: str = "verdict|chance"
    seconds: float

    @property
    def is_drawn(self) -> bool:
        """Whether it may have less than the whole command."""
        return bool(self.draw or self.change or self.program or self.asks is not None)

    def holds(self, title: str, column: str) -> bool:
        """Return whether numbers of a table and column do not depend on what was left out."""
        return bool(re.search(self.tables, title)) and not re.search(self.without, column)


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
        program = self.program or f"studies/{study}"
        asks = self.asks.replace(" --workers WORKERS", "").replace("--workers WORKERS", "")
        return " ".join(filter(None, ("python", program, asks.replace(PAGE, self.page))))


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """What a command printed or wrote, how it ended, and the CPU time (s) that it took."""

    text: str
    error: str
    seconds: float


def missing_log(study: str, command: Command) -> str | None:
    """Return the first log of a command that is not at hand."""
    path = STUDIES / study / "study.toml"
    named = [*command.logs, *_files(tomllib.loads(path.read_text("utf-8")))]
    for file in dict.fromkeys(named):
        try:
            if not (_shared() / file).is_file():
                find_trace(file, Path())
        except QopsError:
            return file
    return None


def _files(settings: Any) -> Iterator[str]:
    """Yield the names of logs in settings."""
    if isinstance(settings, str) and settings.endswith(".gz"):
        yield settings
    elif isinstance(settings, dict | list):
        for each in settings.values() if isinstance(settings, dict) else settings:
            yield from _files(each)


def drawn(settings: dict[str, Any], part: Part, by: random.Random) -> dict[str, Any]:
    """Return the settings of a part, with items that are drawn.

    >>> part = Part(draw={"grid.loads": 1}, change={"jobs": 5}, seconds=1)
    >>> drawn({"jobs": 9, "grid": {"loads": [1, 2, 3]}}, part, random.Random(1))
    {'jobs': 5, 'grid': {'loads': [1]}}
    """
    found: dict[str, Any] = json.loads(json.dumps(settings))
    for path, value in part.change.items():
        holder, last = _holder(found, path)
        holder[last] = value
    for path, count in part.draw.items():
        holder, last = _holder(found, path)
        items = holder[last]
        kept = [each for each in items if each in part.keep]
        others = [each for each in items if each not in part.keep]
        chosen = [*kept, *by.sample(others, min(count, len(others)))]
        in_order = [each for each in items if each in chosen]
        of_table = isinstance(items, dict)
        holder[last] = {each: items[each] for each in in_order} if of_table else in_order
    return found


def _holder(settings: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    """Return the table that holds a setting, and its name there."""
    *tables, last = path.split(".")
    for each in tables:
        settings = settings[each]
    return settings, last


def toml(value: Any) -> str:
    """Return a value as TOML, tables inline."""
    if isinstance(value, dict):
        pairs = (f"{toml(name)} = {toml(each)}" for name, each in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def run(study: str, command: Command, seed: int | None = None, workers: int = 1) -> Text:
    """Run a command of a study; with a seed, its part with the settings drawn by that seed."""
    part = command.part if seed is not None else None
    asks = command.asks if part is None or part.asks is None else part.asks
    program = (part.program if part else "") or command.program or f"studies/{study}"
    with TemporaryDirectory() as name:
        scratch = Path(name)
        folder = scratch / "studies" / study
        shutil.copytree(STUDIES / study, folder, ignore=shutil.ignore_patterns("*.png", "results"))
        if part is not None:
            settings = tomllib.loads((folder / "study.toml").read_text("utf-8"))
            settings = drawn(settings, part, random.Random(f"{seed} {command.name(study)}"))
            lines = (f"{toml(each)} = {toml(value)}\n" for each, value in settings.items())
            (folder / "study.toml").write_text("".join(lines), "utf-8")
        page = scratch / "page.md"
        start = scratch / program if (scratch / program).exists() else STUDIES.parent / program
        told = {PAGE: str(page), "SEED": str(seed), "WORKERS": str(workers)}
        paths = [str(STUDIES.parent), os.environ.get("PYTHONPATH", "")]
        places = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "QOPS_SHARED": str(_shared())}
        before = _spent()
        done = subprocess.run(
            [sys.executable, str(start), *(told.get(each, each) for each in shlex.split(asks))],
            cwd=scratch,
            env=os.environ | places,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        text = page.read_text("utf-8") if page.is_file() else ""
        error = done.stderr.strip().rpartition("\n")[2] if done.returncode else ""
        printed = _claims(done.stdout) if done.stdout.startswith("{") else done.stdout
        return Text(text=f"{text}\n{printed}", error=error, seconds=_spent() - before)


def _claims(report: str) -> str:
    """Return a table of the claims of a report in JSON, their parts among them."""
    rows = [
        [each["id"], *("{:+.2f} [{:+.2f}, {:+.2f}]".format(each["value"], *each["interval"]),)]
        for each in json.loads(report)["claims"]
        if each.get("value") is not None and each.get("interval") is not None
    ]
    return "\n".join(["## All claims and their parts", "", *markdown_table(["id", "value"], rows)])


def _shared() -> Path:
    """Return the directory in which logs lie."""
    return Path(os.environ.get("QOPS_SHARED", "../shared")).resolve()


def _spent() -> float:
    """Return the CPU time of the processes that have ended (s)."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
