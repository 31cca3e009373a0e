"""Deadline admission on real logs: verdicts and tables of docs/deadline-study.md.

The runs are a study, which can be interrupted; the logs are read from QOPS_SHARED (default
../shared), since they are too large to ship. This script judges the paper's claims by what is
finished, and prints verdicts and tables in Markdown.

    qops-batsim study run benchmarks/deadline_study.toml --out out/deadline-study --workers 2
    python benchmarks/deadline_study.py out/deadline-study [--write docs/deadline-study.md]

``--write`` puts them between the marks in the document.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tables_in_page import print_or_put

from qops_batsim.experiments.report_table import ReportTable, markdown_table
from qops_batsim.experiments.statistics import Interval, nested_interval
from qops_batsim.experiments.study import Window
from qops_batsim.experiments.study_report import StudySummary, summaries
from qops_batsim.experiments.study_runs import StudyRuns, read_study_runs
from qops_batsim.papers.claims import (
    Claim,
    claim_with_parts,
    jointly_judged,
    range_claim,
    sign_claim,
)

ADMISSION = ("msb", "mrt", "qops")
HIGH_LOADS = (1.2, 1.4, 1.6)
SHOWN_LOADS = (1.2, 1.6)

Key = tuple[Window, int]


class Study:
    """The metrics of all finished runs, by log, S, load and scheduler."""

    def __init__(self, runs: StudyRuns) -> None:
        self._runs: dict[tuple[str, float, float, str], dict[Key, object]] = {}
        for each in runs.outcomes:
            if each.metrics is not None and not each.repeated:
                cell, point = each.cell, each.cell.point
                at = (point.log, point.stringency, point.load, cell.contestant)
                self._runs.setdefault(at, {})[cell.window, cell.seed] = each.metrics

    def mean(self, log: str, load: float, scheduler: str, metric: str) -> Interval:
        """Return the mean of a metric over windows, at S = 0.2."""
        return _nested({k: getattr(m, metric) for k, m in self._of(log, 0.2, load, scheduler)})

    def difference(
        self, metric: str, log: str, one: tuple[float, float, str], other: tuple[float, float, str]
    ) -> Interval:
        """Return the difference of a metric between two settings (S, load, scheduler)."""
        others = dict(self._of(log, *other))
        return _nested(
            {
                key: getattr(found, metric) - getattr(others[key], metric)
                for key, found in self._of(log, *one)
                if key in others
            }
        )

    def _of(self, *at: object) -> Iterator[tuple[Key, object]]:
        if at not in self._runs:
            raise KeyError(at)
        yield from self._runs[at].items()  # type: ignore[index]


def _nested(values: dict[Key, float]) -> Interval:
    groups: dict[Window, list[float]] = {}
    for (window, _), value in values.items():
        groups.setdefault(window, []).append(value)
    return nested_interval(list(groups.values()))


def claims(study: Study, logs: list[str]) -> dict[str, list[Claim]]:
    """Return the claims by log, all judged together, as far as their runs are finished.

    Numbers 5 to 7 are the paper's, the others near to what it says.
    """
    found: list[Claim] = []
    ends = []
    for log in logs:
        for make in (_grows, _work_falls, _stringency, _utilization, _mrt, _fewer):
            with suppress(KeyError):
                found += make(study, log)
        ends.append(len(found))
    judged = jointly_judged(found)
    begins = [0, *ends[:-1]]
    return {log: judged[i:j] for log, i, j in zip(logs, begins, ends, strict=True)}


def _grows(study: Study, log: str) -> Iterator[Claim]:
    for each in ADMISSION:
        name = f"1 {log} {each}"
        low = study.mean(log, 1.0, each, "unadmitted_jobs")
        high = study.mean(log, 1.6, each, "unadmitted_jobs")
        parts = [
            range_claim(f"{name}.low", "at load 1", low, high=10.0),
            range_claim(f"{name}.high", "at load 1.6", high, 15.0, 25.0),
        ]
        text = f"1: {each} refuses below 10 % of the jobs at load 1, 15 to 25 % at 1.6"
        yield from claim_with_parts(name, "", text, parts)


def _work_falls(study: Study, log: str) -> Iterator[Claim]:
    for each in ADMISSION:
        found = study.difference("unadmitted_work", log, (0.2, 1.6, each), (0.2, 1.2, each))
        text = f"2: the work that {each} refuses falls from load 1.2 to 1.6 (points)"
        yield sign_claim(f"2 {log} {each}", text, found, -1)


def _stringency(study: Study, log: str) -> Iterator[Claim]:
    for each in ADMISSION:
        two = (0.5, each), (0.2, each)
        text = f"3: {each} refuses more work with S = 0.5 than with 0.2 (points)"
        yield from _at_high_loads(study, log, text, "unadmitted_work", two, low=0.0)


def _utilization(study: Study, log: str) -> Iterator[Claim]:
    for each in ADMISSION:
        two = (0.2, each), (0.2, "easy")
        text = f"4: {each} loses 5 to 15 points of EASY's utilization"
        yield from _at_high_loads(study, log, text, "utilization", two, -15.0, -5.0)


def _mrt(study: Study, log: str) -> Iterator[Claim]:
    for each in ("msb", "qops"):
        found = study.difference("utilization", log, (0.2, 1.6, "mrt"), (0.2, 1.6, each))
        text = f"5: mrt's utilization is 3 to 5 points below that of {each} at load 1.6"
        name = f"5 {log} {each}"
        yield range_claim(name, text, found, -5.0, -3.0)
        yield sign_claim(f"{name}, below", text.replace("3 to 5 points ", ""), found, -1)


def _fewer(study: Study, log: str) -> Iterator[Claim]:
    for number, other in ((6, "msb"), (7, "mrt")):
        two = (0.2, "qops"), (0.2, other)
        text = f"{number}: qops refuses fewer jobs than {other} (points)"
        yield from _at_high_loads(study, log, text, "unadmitted_jobs", two, high=0.0)


def _at_high_loads(
    study: Study,
    log: str,
    text: str,
    metric: str,
    two: tuple[tuple[float, str], tuple[float, str]],
    low: float = -math.inf,
    high: float = math.inf,
) -> Iterator[Claim]:
    """Yield a claim about a difference of two settings (S, scheduler), and its parts by load."""
    name, parts = f"{log}: {text}", []
    for load in HIGH_LOADS:
        at = [(stringency, load, scheduler) for stringency, scheduler in two]
        found = study.difference(metric, log, *at)
        parts.append(range_claim(f"{name}.{load}", f"at load {load}", found, low, high))
    yield from claim_with_parts(name, "5.1", text, parts)


def verdicts(found: dict[str, list[Claim]]) -> list[str]:
    """Return a table of the claims that are no part of another, by log."""
    cells: dict[str, dict[str, str]] = {}
    for log, claims_of_log in found.items():
        by_id = {claim.id: claim for claim in claims_of_log}
        of_parts = {part for claim in claims_of_log for part in claim.parts}
        for claim in claims_of_log:
            if claim.id not in of_parts:
                at = f" {by_id[claim.decided_by].text}" if claim.decided_by else ""
                ends = "" if claim.interval is None else "[{:.1f}, {:.1f}]".format(*claim.interval)
                row = cells.setdefault(claim.text, {})
                row[log] = f"{claim.verdict}: {claim.value:.1f} {ends}{at}"
    rows = [[text, *(row.get(log, "") for log in found)] for text, row in cells.items()]
    return markdown_table(["claim", *found], rows)


def tables(found: list[StudySummary], logs: list[str]) -> Iterator[ReportTable]:
    """Yield tables of what is refused and used at S = 0.2, by load and scheduler."""
    rows: dict[tuple[float, str], dict[str, StudySummary]] = {}
    for each in found:
        if each.runs and each.point.stringency == 0.2 and each.point.load in SHOWN_LOADS:
            rows.setdefault((each.point.load, each.scheduler), {})[each.point.log] = each
    for metric, title in (
        ("unadmitted_jobs", "Unadmitted jobs (%)"),
        ("unadmitted_work", "Unadmitted processor-seconds (%)"),
        ("utilization", "Utilization (%)"),
    ):
        yield ReportTable(
            f"{title}, S = 0.2, in parentheses less MSB",
            {"load": "load", "scheduler": "scheduler", **{log: log for log in logs}},
            [
                {
                    "load": f"{load:g}",
                    "scheduler": scheduler,
                    **{log: _cell(each, metric) for log, each in by_log.items()},
                }
                for (load, scheduler), by_log in rows.items()
                if scheduler != "easy" or metric == "utilization"
            ],
        )


def _cell(each: StudySummary, metric: str) -> str | None:
    mean, less = each.metrics[metric], each.difference[metric]
    if mean is None:
        return None
    return f"{mean.mean:.1f}" + ("" if less is None else f" ({less.mean:+.1f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path, help="directory of the study")
    parser.add_argument("--write", type=Path, help="document to put the tables into")
    arguments = parser.parse_args()
    runs = read_study_runs(arguments.directory)
    done = sum(each.metrics is not None for each in runs.outcomes)
    logs = [log.name for log in runs.study.logs]
    lines = ["## Verdicts", "", *verdicts(claims(Study(runs), logs)), "", "## Tables"]
    if done < len(runs.outcomes):
        lines += ["", f"{done:,} of {len(runs.outcomes):,} runs are finished."]
    for table in tables(summaries(runs), logs):
        lines += ["", *table.markdown()]
    print_or_put("\n".join(lines) + "\n", arguments.write)


if __name__ == "__main__":
    main()
