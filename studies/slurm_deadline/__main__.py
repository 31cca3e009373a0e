"""What Slurm's ``--deadline`` costs beside QoPS (README.md).

    python studies/slurm_deadline [--quick] [--deadlines both] [--workers 2]
        [--write studies/slurm_deadline/tables.md]

Finished runs are kept, and the study goes on where it was. Logs are read from QOPS_SHARED
(default ../shared).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim.experiments import StudySummary, markdown_table, summaries
from studies.shared import (
    Settings,
    arguments,
    by_turns,
    deadlines_text,
    grid_runs,
    interval_text,
    print_or_put,
    run_main,
    settings_of,
)

METRICS = {"unadmitted_jobs": "jobs", "unadmitted_work": "work"}
USED = "utilization_during_submissions"


def by_place(found: list[StudySummary]) -> dict[str, dict[str, StudySummary]]:
    """Return summaries by log with load, and by scheduler."""
    places: dict[str, dict[str, StudySummary]] = {}
    for each in found:
        place = f"{each.point.log} {each.point.load:.1f}"
        places.setdefault(place, {})[each.scheduler] = each
    return places


def rows(title: str, found: list[StudySummary], rival: str) -> Iterator[list[str]]:
    """Yield what a rival and QoPS refuse or cancel, by log and load."""
    for place, schedulers in by_place(found).items():
        cells = [title, place]
        for metric in METRICS:
            cells += [interval_text(schedulers[name].metrics[metric]) for name in (rival, "qops")]
            cells.append(interval_text(schedulers[rival].difference[metric], sign="+"))
        yield cells


def others(found: list[StudySummary]) -> Iterator[list[str]]:
    """Yield what ends late and what is used, by log, load and scheduler."""
    for each in found:
        point = each.point
        cells = [each.metrics[name] for name in ("missed_deadlines", USED)]
        place = f"{point.log} {point.load:.1f}"
        yield [place, f"`{each.scheduler}`", *map(interval_text, cells)]


def passes(found: list[StudySummary], rivals: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the differences to QoPS in jobs and work, by how often passes are made."""
    for place, schedulers in by_place(found).items():
        cells = [place]
        for metric in METRICS:
            own = (schedulers[name].difference[metric] for name in rivals.values())
            cells += [interval_text(each, sign="+") for each in own]
        yield cells


def tables(settings: Settings, out: Path, workers: int, by: str) -> str:
    """Return the tables with one kind of deadlines."""
    grid, rival, rivals = settings["grid"], settings["rival"], settings["passes"]
    made = grid_runs(grid, out / "users", workers, by)
    users = list(summaries(made))
    lines = list(rows("users'", users, rival))
    if not settings.get("only_users"):
        exact = {name: value for name, value in grid.items() if name != "deadlines_by"}
        runs = grid_runs(exact | settings["exact"], out / "exact", workers, by)
        lines += rows("exact", list(summaries(runs)), rival)
    heads = ["estimates", "log, load"]
    for what in METRICS.values():
        heads += [f"{what}: `{rival}`", "`qops`", "difference"]
    by_pass = [f"{what}, {name}" for what in METRICS.values() for name in rivals]
    parts = [
        [deadlines_text(made.study)],
        list(markdown_table(heads, lines)),
        list(markdown_table(["log, load", *by_pass], list(passes(users, rivals)))),
        list(
            markdown_table(
                ["log, load", "scheduler", "late jobs (%)", "used (%)"], list(others(users))
            )
        ),
    ]
    return "\n\n".join("\n".join(each) for each in parts)


def main() -> None:
    asked = arguments(__file__, __doc__, by_need=True).parse_args()
    settings: Settings = settings_of(__file__, quick=asked.quick)
    out = asked.out / ("quick" if asked.quick else "all")
    text = by_turns(asked, lambda by: tables(settings, out, asked.workers, by))
    print_or_put(text + "\n", asked.write)


if __name__ == "__main__":
    run_main(main)
