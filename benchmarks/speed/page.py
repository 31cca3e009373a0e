"""The tables of what was measured."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from child import QUEUES

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


def machine() -> str:
    """Return in words where this was measured."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    name = names[0] if names else platform.processor() or platform.machine()
    version = platform.python_version()
    return f"{name}, {os.cpu_count()} cores, {platform.system()}, CPython {version}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def latency(scheduler: str, rows: Iterable[dict[str, float]]) -> list[list[str]]:
    """Return the rows of a scheduler in the table of latencies."""
    return [
        [f"`{scheduler}`", _class_of(int(row["from"])), f"{row['answers']:,}"]
        + [f"{row[column]:.3f}" for column in ("p50", "p99", "max")]
        for row in rows
    ]


def _class_of(first: int) -> str:
    """Return a class of queues in words."""
    beyond = [each for each in QUEUES if each > first]
    return f"{first:,} to {beyond[0] - 1:,}" if beyond else f"{first:,} and more"


def write_into(document: Path, text: str) -> None:
    """Put the tables between the marks of a document."""
    content = document.read_text()
    before, _, rest = content.partition(BEGIN)
    _, _, after = rest.partition(END)
    document.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
