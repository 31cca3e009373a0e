"""The table and the picture of what was measured."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numba
import numpy as np
from measure import QUEUES

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
Results = dict[str, Any]


def machine() -> str:
    """Return in words where this was measured."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    name = names[0] if names else platform.processor() or platform.machine()
    versions = f"CPython {platform.python_version()}, numba {numba.__version__}"
    return f"{name}, {os.cpu_count()} cores, {platform.system()}, {versions}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def growth_exponent(points: dict[str, dict[str, float]], column: str) -> float:
    """Return the slope of log(CPU seconds) over log(jobs) from 10,000 jobs on."""
    chosen = {int(jobs): row[column] for jobs, row in points.items() if int(jobs) >= 10_000}
    if len(chosen) < 2:
        return math.nan
    slope, _ = np.polyfit(np.log(list(chosen)), np.log(list(chosen.values())), 1)
    return float(slope)


def tables(results: Results) -> str:
    """Return all that was measured as Markdown."""
    parts = [f"Measured on {results['date']}: {results['machine']}."]
    for title, found in results["throughput"].items():
        reference = found["reference"]["jobs_per_second"]
        parts.append(
            f"### {title}: {found['jobs']:,} jobs, {found['hosts']} hosts\n\n"
            f"Reference loop in plain Python: {reference:,.0f} jobs/s."
        )
        rows = []
        for name, row in found["rows"].items():
            whole = row.get("whole_command")
            here = row["in_process"]
            cells = [f"{here['jobs_per_second']:,.0f}", f"{here['to_reference']:.2f}"]
            if whole is None:
                cells += [""] * 3
            else:
                cells += [
                    f"{whole['jobs_per_second']:,.0f}",
                    f"{whole['seconds']:.2f}",
                    f"{whole['mebibytes']:,.0f}",
                ]
            rows.append([f"`{name}`" if " " not in name else name, *cells])
        head = ["scheduler", "in process, jobs/s", "of the reference", "`run --quiet`, jobs/s"]
        parts.append(table([*head, "CPU s", "peak MiB"], rows))
        peers = [
            [
                name,
                f"{row['jobs_per_second']:,.0f}",
                f"{row['mebibytes']:,.0f}",
                f"{row['ours_is_faster_by']:.1f}",
            ]
            for name, row in found["peers"].items()
        ]
        if peers:
            head = ["EASY by", "jobs/s", "peak MiB", "CPU time, times that of `run easy --quiet`"]
            parts.append(table(head, peers))
    parts.append(_growth(results["growth"]))
    parts.append(_latency(results["latency"]))
    return "\n\n".join(part for part in parts if part)


def _growth(points: dict[str, dict[str, float]]) -> str:
    if not points:
        return ""
    rows = [
        [
            f"{int(jobs):,}",
            f"{row['in_process']:.2f}",
            f"{row['whole_command']:.2f}",
            f"{row['mebibytes']:,.0f}",
        ]
        for jobs, row in points.items()
    ]
    said = ", ".join(
        f"{growth_exponent(points, column):.2f} {words}"
        for column, words in (("in_process", "in process"), ("whole_command", "whole command"))
    )
    return (
        "### Growth: `easy`, synthetic\n\n"
        + table(["jobs", "in process, CPU s", "`run --quiet`, CPU s", "peak MiB"], rows)
        + f"\n\nGrowth exponents from 10,000 jobs on: {said}."
    )


def _latency(found: dict[str, Any]) -> str:
    rows = [
        [name, _class_of(row["from"]), f"{row['answers']:,}"]
        + [f"{row[column]:.3f}" for column in ("p50", "p99", "max")]
        for name, each in found.items()
        for row in each
    ]
    head = ["scheduler", "waiting jobs", "answers", "p50 ms", "p99 ms", "longest ms"]
    return "### Latency of answers, by queue length\n\n" + table(head, rows) if rows else ""


def _class_of(first: int) -> str:
    """Return a class of :data:`~measure.QUEUES` in words."""
    beyond = [each for each in QUEUES if each > first]
    return f"{first:,} to {beyond[0] - 1:,}" if beyond else f"{first:,} and more"


def write_into(document: Path, text: str) -> None:
    """Put the tables between the marks of a document."""
    content = document.read_text()
    before, _, rest = content.partition(BEGIN)
    _, _, after = rest.partition(END)
    document.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def draw(results: Results, path: Path) -> None:
    """Draw throughput by scheduler, growth, and the latency of answers."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    title, found = next(reversed(results["throughput"].items()))
    names = list(found["rows"])
    places = np.arange(len(names))
    speeds = [found["rows"][name]["in_process"]["jobs_per_second"] for name in names]
    whole = [
        found["rows"][name].get("whole_command", {}).get("jobs_per_second", math.nan)
        for name in names
    ]
    left.barh(places - 0.2, speeds, 0.4, label="in process")
    left.barh(places + 0.2, whole, 0.4, label="run --quiet")
    left.axvline(
        found["reference"]["jobs_per_second"], color="black", ls="--", label="plain Python loop"
    )
    for name, row in found["peers"].items():
        left.axvline(row["jobs_per_second"], color="grey", ls=":", label=name)
    left.set(yticks=places, yticklabels=names, xscale="log", xlabel="jobs/s", title=title)
    left.invert_yaxis()
    left.legend(fontsize="small", loc="lower right")
    points = results["growth"]
    jobs = [int(each) for each in points]
    for column, label in (("in_process", "in process"), ("whole_command", "run --quiet")):
        exponent = growth_exponent(points, column)
        label = f"{label}, exponent {exponent:.2f}"
        middle.loglog(jobs, [row[column] for row in points.values()], "o-", label=label)
    middle.set(xlabel="jobs", ylabel="CPU seconds", title="growth: easy, synthetic")
    middle.legend(fontsize="small")
    for name, rows in results["latency"].items():
        counts = [max(row["from"], 1) for row in rows]
        right.loglog(counts, [row["p99"] for row in rows], "o-", label=name)
    right.set(xlabel="waiting jobs, at least", ylabel="p99, ms", title="latency of answers")
    right.legend(fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)
