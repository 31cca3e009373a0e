"""Deadline admission on real logs: verdicts and tables (README.md).

    python studies/deadlines [--quick] [--workers 2] [--write studies/deadlines/tables.md]
    python studies/deadlines --coverage [--write studies/deadlines/coverage.md]

Finished runs are kept, and the study goes on where it was. Logs are read from QOPS_SHARED
(default ../shared).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim.experiments import (
    Claim,
    Interval,
    LogWindow,
    PageTable,
    StudyRuns,
    StudySummary,
    claim_with_parts,
    jointly_judged,
    markdown_table,
    nested_interval,
    range_claim,
    sign_claim,
    summaries,
    table_of,
)
from studies.deadlines import coverage
from studies.shared import Settings, arguments, grid_runs, print_or_put, run_main, settings_of

STRINGENCY = 0.2
"""Of the tables, and of claims that name none."""

SECTION = "5.1"

Key = tuple[LogWindow, int]
At = dict[str, Any]
"""A log, a load, a stringency and a scheduler."""


class Metrics:
    """The metrics of all finished runs, by log, stringency, load and scheduler."""

    def __init__(self, runs: StudyRuns) -> None:
        self._runs: dict[tuple[str, float, float, str], dict[Key, object]] = {}
        for each in runs.outcomes:
            if each.metrics is not None and not each.repeated:
                cell, point = each.cell, each.cell.point
                at = (point.log, point.stringency, point.load, cell.contestant)
                self._runs.setdefault(at, {})[cell.window, cell.seed] = each.metrics

    def mean(self, metric: str, at: At, less: At | None = None) -> Interval:
        """Return the mean over windows of a metric, or of what it has more than at another place.

        Raises :class:`KeyError` where runs are missing.
        """
        values = {key: getattr(run, metric) for key, run in self._at(at).items()}
        if less is not None:
            others = self._at(at | less)
            values = {
                key: value - getattr(others[key], metric)
                for key, value in values.items()
                if key in others
            }
        windows: dict[LogWindow, list[float]] = {}
        for (window, _), value in values.items():
            windows.setdefault(window, []).append(value)
        return nested_interval(list(windows.values()))

    def _at(self, at: At) -> dict[Key, object]:
        return self._runs[at["log"], at["stringency"], at["load"], at["scheduler"]]


def claims(metrics: Metrics, told: list[Settings], logs: list[str]) -> dict[str, list[Claim]]:
    """Return the claims by log, all judged together, as far as their runs are finished."""
    found: list[Claim] = []
    ends = [0]
    for log in logs:
        for claim in told:
            for scheduler in claim["each"]:
                with suppress(KeyError):
                    found += claim_of(metrics, claim, log, scheduler)
        ends.append(len(found))
    judged = jointly_judged(found)
    return {log: judged[ends[i] : ends[i + 1]] for i, log in enumerate(logs)}


def claim_of(metrics: Metrics, told: Settings, log: str, scheduler: str) -> list[Claim]:
    """Return a claim of ``study.toml`` about a scheduler on a log, and its parts."""
    text = told["text"].format(scheduler=scheduler)
    name = f"{log}: {text}"
    stringency = told.get("stringency", STRINGENCY)
    parts = []
    for part in told.get("parts") or [{"load": load} for load in told["loads"]]:
        at = {"log": log, "stringency": stringency, "load": part["load"], "scheduler": scheduler}
        found = metrics.mean(told["metric"], at, told.get("less"))
        ends = [
            part.get(end, told.get(end, open_end))
            for end, open_end in (("low", -math.inf), ("high", math.inf))
        ]
        where = f"at load {part['load']:g}"
        parts.append(range_claim(f"{name}.{part['load']}", where, found, *ends))
    if "sign" in told:
        return [sign_claim(name, text, found, told["sign"])]
    if len(parts) == 1:
        return [range_claim(name, text, found, *ends)]
    return list(claim_with_parts(name, SECTION, text, parts))


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


def tables(found: list[StudySummary], logs: list[str], settings: Settings) -> Iterator[PageTable]:
    """Yield tables of the shown metrics, by load and scheduler."""
    rows: dict[tuple[float, str], dict[str, StudySummary]] = {}
    for each in found:
        point = each.point
        if each.runs and point.stringency == STRINGENCY and point.load in settings["shown_loads"]:
            rows.setdefault((point.load, each.scheduler), {})[point.log] = each
    for metric, title in settings["shown_metrics"].items():
        yield table_of(
            f"{title}, S = {STRINGENCY}, in parentheses less MSB",
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
    parser = arguments(__file__, __doc__)
    parser.add_argument("--coverage", action="store_true", help="how often intervals are right")
    asked = parser.parse_args()
    settings = settings_of(__file__, quick=asked.quick)
    if asked.coverage:
        made = coverage.table(settings["coverage"], asked.out / "coverage", asked.workers)
        print_or_put("\n".join(made), asked.write)
        return
    runs = grid_runs(
        settings["grid"], asked.out / ("quick" if asked.quick else "all"), asked.workers
    )
    logs = [log.name for log in runs.study.logs]
    judged = claims(Metrics(runs), settings["claims"], logs)
    lines = ["## Verdicts", "", *verdicts(judged), "", "## Tables"]
    for table in tables(summaries(runs), logs, settings):
        lines += ["", *table.markdown()]
    print_or_put("\n".join(lines) + "\n", asked.write)


if __name__ == "__main__":
    run_main(main)
