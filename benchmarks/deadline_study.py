"""Deadline admission on real logs: verdicts and tables of docs/deadline-study.md.

The runs are a campaign, which can be interrupted; the logs are read from QOPS_SHARED (default
../shared), since they are too large to ship. This script judges the paper's claims by what is
finished, and prints verdicts and tables in Markdown.

    qops-batsim campaign run benchmarks/deadline_study.toml --out out/deadline-study --workers 2
    python benchmarks/deadline_study.py out/deadline-study [--write docs/deadline-study.md]

``--write`` puts them between the marks in the document.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from tables_in_page import print_or_put

from qops_batsim.experiments.campaign import Point, Window
from qops_batsim.experiments.campaign_runs import CampaignRuns, read_campaign_runs
from qops_batsim.experiments.campaign_tables import CampaignSummary, summaries
from qops_batsim.experiments.intervals import Interval, nested_interval
from qops_batsim.papers.claims import (
    METHOD,
    Claim,
    combined_claim,
    judged_together,
    range_claim,
    sign_claim,
)
from qops_batsim.papers.report import Table, chance_text, markdown_table

ADMISSION = ("msb", "mrt", "qops")
HIGH_LOADS = (1.2, 1.4, 1.6)

Key = tuple[Window, int]


class Study:
    """The metrics of all finished runs, by log, S, load and scheduler."""

    def __init__(self, runs: CampaignRuns) -> None:
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


def claims(study: Study, logs: list[str]) -> list[Claim]:
    """Return the paper's claims, judged together, as far as their runs are finished."""
    found: list[Claim] = []
    for log in logs:
        for make in (_grows, _work_falls, _stringency, _utilization, _mrt, _fewer):
            try:
                found += make(study, log)
            except KeyError:
                continue
    return judged_together(found)


def _grows(study: Study, log: str) -> Iterator[Claim]:
    for each in ADMISSION:
        name = f"1 {log} {each}"
        jobs = f"unadmitted jobs of {each} on {log}"
        low = study.mean(log, 1.0, each, "unadmitted_jobs")
        high = study.mean(log, 1.6, each, "unadmitted_jobs")
        parts = [
            range_claim(f"{name}.low", "below 10 % at load 1.0", low, high=10.0),
            range_claim(f"{name}.high", "15 to 25 % at load 1.6", high, 15.0, 25.0),
        ]
        text = f"1: {jobs} grow with the load"
        yield combined_claim(name, text, parts, section="5.1")
        yield from parts


def _work_falls(study: Study, log: str) -> Iterator[Claim]:
    for each in ADMISSION:
        found = study.difference("unadmitted_work", log, (0.2, 1.6, each), (0.2, 1.2, each))
        text = f"2: unadmitted processor-seconds of {each} on {log} fall from load 1.2 to 1.6"
        yield sign_claim(f"2 {log} {each}", text, found, -1, section="5.1")


def _stringency(study: Study, log: str) -> Iterator[Claim]:
    for each in ADMISSION:
        name = f"3 {log} {each}"
        text = f"3: S = 0.5 admits less work than S = 0.2 ({each}, {log})"
        parts = [
            sign_claim(
                f"{name}.{load}",
                f"at load {load}",
                study.difference("unadmitted_work", log, (0.5, load, each), (0.2, load, each)),
                +1,
            )
            for load in HIGH_LOADS
        ]
        yield combined_claim(name, text, parts, section="5.1")
        yield from parts


def _utilization(study: Study, log: str) -> Iterator[Claim]:
    for each in ADMISSION:
        name = f"4 {log} {each}"
        text = f"4: {each} loses about 10 points of EASY's utilization (5 to 15), on {log}"
        parts = []
        for load in HIGH_LOADS:
            found = study.difference("utilization", log, (0.2, load, each), (0.2, load, "easy"))
            parts.append(range_claim(f"{name}.{load}", f"at load {load}", found, -15.0, -5.0))
        yield combined_claim(name, text, parts, section="5.1")
        yield from parts


def _mrt(study: Study, log: str) -> Iterator[Claim]:
    for each in ("msb", "qops"):
        found = study.difference("utilization", log, (0.2, 1.6, "mrt"), (0.2, 1.6, each))
        text = f"5: MRT's utilization is 3 to 5 points below that of {each} at load 1.6, on {log}"
        name = f"5 {log} {each}"
        yield range_claim(name, text, found, -5.0, -3.0, section="5.1")
        yield sign_claim(f"{name}, below", text.replace("3 to 5 points ", ""), found, -1)


def _fewer(study: Study, log: str) -> Iterator[Claim]:
    for number, other in ((6, "msb"), (7, "mrt")):
        name = f"{number} {log}"
        parts = []
        for load in HIGH_LOADS:
            two = (0.2, load, "qops"), (0.2, load, other)
            found = study.difference("unadmitted_jobs", log, *two)
            parts.append(sign_claim(f"{name}.{load}", f"at load {load}", found, -1))
        text = f"{number}: QoPS refuses fewer jobs than {other} on {log}"
        yield combined_claim(name, text, parts, section="5.1")
        yield from parts


def verdicts(found: list[Claim]) -> list[str]:
    """Return the claims that are no part of another as a table, each with its parts' numbers."""
    by_id = {claim.id: claim for claim in found}
    of_parts = {part for claim in found for part in claim.parts}
    rows = []
    for claim in found:
        if claim.id not in of_parts:
            parts = [by_id[part] for part in claim.parts]
            measured = "; ".join(f"{each.text}: {_number(each)}" for each in parts)
            chance = "" if claim.corrected is None else chance_text(claim.corrected)
            rows.append([claim.text, measured or _number(claim), chance, claim.verdict])
    return markdown_table(["claim", "measured", "chance (Holm)", "verdict"], rows)


def _number(claim: Claim) -> str:
    interval = claim.interval
    ends = "" if interval is None else f" [{interval[0]:+.2f}, {interval[1]:+.2f}]"
    return f"{claim.value:+.2f}{ends}"


def tables(found: list[CampaignSummary]) -> Iterator[Table]:
    """Yield a table for each log and S."""
    parts: dict[tuple[str, float], list[CampaignSummary]] = {}
    for each in found:
        if each.runs:
            parts.setdefault((each.point.log, each.point.stringency), []).append(each)
    columns = {
        "load": "load",
        "scheduler": "scheduler",
        "windows": "windows",
        "jobs": "unadmitted jobs (%)",
        "less_jobs": "less MSB [95 %]",
        "work": "unadmitted proc-s (%)",
        "less_work": "less MSB [95 %]",
        "utilization": "utilization (%)",
        "missed": "missed deadlines (%)",
    }
    for (log, stringency), group in parts.items():
        rows = [_row(each.point, each) for each in group]
        yield Table(f"{log}, S = {stringency:g}", columns, rows)


def _row(point: Point, each: CampaignSummary) -> dict[str, str | None]:
    def mean(metric: str) -> str | None:
        found = each.metrics[metric]
        return None if found is None else f"{found.mean:.2f}"

    def less(metric: str) -> str | None:
        found = each.difference[metric]
        return None if found is None else found.text(sign="+")

    jobs = each.metrics["unadmitted_jobs"]
    return {
        "load": f"{point.load:.1f}",
        "scheduler": each.scheduler,
        "windows": None if jobs is None else str(jobs.count),
        "jobs": mean("unadmitted_jobs"),
        "less_jobs": less("unadmitted_jobs"),
        "work": mean("unadmitted_work"),
        "less_work": less("unadmitted_work"),
        "utilization": mean("utilization"),
        "missed": mean("missed_deadlines"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path, help="directory of the campaign")
    parser.add_argument("--write", type=Path, help="document to put the tables into")
    arguments = parser.parse_args()
    runs = read_campaign_runs(arguments.directory)
    done = sum(each.metrics is not None for each in runs.outcomes)
    left = done < len(runs.outcomes)
    found = claims(Study(runs), [log.name for log in runs.campaign.logs])
    lines = ["## Verdicts", "", METHOD, "", *verdicts(found), "", "## Tables", ""]
    lines += [f"{done:,} of {len(runs.outcomes):,} runs are finished."] if left else []
    for table in tables(summaries(runs)):
        lines += ["", *table.markdown()]
    text = "\n".join(lines) + "\n"
    print_or_put(text, arguments.write)


if __name__ == "__main__":
    main()
