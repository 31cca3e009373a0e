"""How QoPS's choices change what it admits: the tables of docs/deadline-study.md.

Runs EASY, MSB, MRT and variants of QoPS on deadline workloads made of the first 5,000
jobs of real logs, and prints the tables in Markdown: mean over seeds, 95 % bootstrap
interval of the paired difference to MSB. Every run's rows go to DIR at once, one file
a log, stringency and load; a file that exists is not made again, so that the study can
be interrupted.

    python benchmarks/deadline_study.py [--out DIR] [--parallel 2] [--tables-only]
        [--write docs/deadline-study.md]

The logs are read from QOPS_SHARED (default ../shared): they are too large to ship.
``--write`` puts the tables between the marks in the document.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

from qops_batsim.analysis.metrics.admission import AdmissionMetrics
from qops_batsim.experiments.compare import Summary, csv_text, summarize
from qops_batsim.experiments.grid import Contestant, Grid, Row, run_grid
from qops_batsim.experiments.intervals import Interval, mean_interval, paired_difference
from qops_batsim.papers.claims import (
    CONFIRMED,
    INCONCLUSIVE,
    NOT_CONFIRMED,
    Verdict,
    verdict_of,
)
from qops_batsim.workload.deadlines import DeadlineChoices
from qops_batsim.workload.from_swf import convert_swf
from qops_batsim.workload.model import Workload
from qops_batsim.workload.swf import read_swf

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("QOPS_SHARED", ROOT.parent / "shared"))
JOBS = 5000
LOGS = {
    "CTC 338": ("CTC-SP2-1996-rebuilt.swf.gz", 338),
    "CTC 430": ("CTC-SP2-1996-rebuilt.swf.gz", 430),
    "SDSC 128": ("SDSC-SP2-1998-rebuilt.swf.gz", 128),
}
SEEDS = (1, 2, 3, 4, 5)
SCHEMES = [Contestant(name=name, scheduler=name) for name in ("easy", "msb", "mrt", "qops")]
VARIANTS: dict[str, dict[str, Any]] = {
    "earliest deadline": {"order": "earliest_deadline"},
    "K = 0": {"k_factor": 0},
    "K = 1": {"k_factor": 1},
    "K = 20": {"k_factor": 20},
    "first point only": {"on_failure": "reject"},
    "new job first": {"new_job": "first"},
}
QOPS_VARIANTS = [
    Contestant(name=f"qops, {name}", scheduler="qops", settings=settings)
    for name, settings in VARIANTS.items()
]
# The cheap parts first.
PARTS = [(0.2, load) for load in (1.0, 1.2, 1.4, 1.6)] + [
    (0.5, load) for load in (1.0, 1.2, 1.4, 1.6)
]
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


def trace(log: str) -> Workload:
    """Return the first jobs of a log that can run on the machine."""
    name, processors = LOGS[log]
    source = read_swf(SHARED / "traces" / name)
    return convert_swf(source, processors=processors, first=JOBS).workload


def part_file(out: Path, log: str, stringency: float, load: float) -> Path:
    """Return where the rows of a part are kept."""
    return out / f"{log.replace(' ', '')}-S{stringency:g}-load{load:g}.csv"


def run_part(log: str, stringency: float, load: float, workers: int) -> list[Row]:
    """Run one log, stringency and load."""
    contestants = [*SCHEMES, *QOPS_VARIANTS] if stringency == 0.2 else SCHEMES
    grid = Grid(
        contestants=tuple(contestants),
        loads=(load,),
        # At load 1 there is nothing to draw: each seed gives the same workload.
        seeds=SEEDS if load > 1 else SEEDS[:1],
        choices=DeadlineChoices(stringency=stringency),
        first=JOBS,
    )
    return run_grid(trace(log), grid, workers=workers)


def read_rows(path: Path) -> list[Row]:
    """Read a part's file; names of variants hold commas, all other cells are plain."""
    names = AdmissionMetrics.__struct_fields__
    rows = []
    for line in path.read_text().splitlines()[1:]:
        cells = line.rsplit(",", len(names) + 2)
        values = {n: float(c) if c else None for n, c in zip(names, cells[3:], strict=True)}
        rows.append(
            Row(
                contestant=cells[0].strip('"'),
                load=float(cells[1]),
                seed=int(cells[2]),
                metrics=AdmissionMetrics(**values),  # type: ignore[arg-type]
            )
        )
    return rows


def tables(out: Path) -> str:
    """Return the tables of the parts that were run, in Markdown."""
    text = []
    for stringency in (0.2, 0.5):
        for log in LOGS:
            found: list[Summary] = []
            for load in (1.0, 1.2, 1.4, 1.6):
                path = part_file(out, log, stringency, load)
                if path.is_file():
                    found += summarize(read_rows(path), "msb")
            if found:
                text += [f"### {log}, S = {stringency:g}", "", *table(found), ""]
    return "\n".join(text)


def table(found: list[Summary]) -> list[str]:
    """Return one table: a row a load and contestant."""
    lines = [
        "| load | scheduler | unadmitted jobs (%) | less MSB [95 %] "
        "| unadmitted proc-s (%) | less MSB [95 %] | utilization (%) | missed deadlines (%) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in found:
        mean = {name: value.mean for name, value in each.metrics.items() if value is not None}
        differences = ["", ""]
        if each.contestant not in ("easy", "msb"):
            differences = [interval(each, name) for name in ("unadmitted_jobs", "unadmitted_work")]
        lines.append(
            f"| {each.load:.1f} | {each.contestant} | {mean['unadmitted_jobs']:.2f} "
            f"| {differences[0]} | {mean['unadmitted_work']:.2f} | {differences[1]} "
            f"| {mean['utilization']:.2f} | {mean['missed_deadlines']:.1f} |"
        )
    return lines


def interval(summary: Summary, metric: str) -> str:
    """Return a paired difference as text."""
    value = summary.difference[metric]
    if value is None:
        return ""
    return f"{value.mean:+.2f}" if value.low is None else text_of(value)


ADMISSION = ("msb", "mrt", "qops")
HIGH_LOADS = (1.2, 1.4, 1.6)


class Study:
    """The values of all parts run so far: a metric over seeds by log, S, load and scheduler."""

    def __init__(self, out: Path) -> None:
        self._rows: dict[tuple[str, float, float], list[Row]] = {}
        for stringency, load in PARTS:
            for log in LOGS:
                path = part_file(out, log, stringency, load)
                if path.is_file():
                    self._rows[log, stringency, load] = read_rows(path)

    def values(
        self, log: str, stringency: float, load: float, scheduler: str, metric: str
    ) -> list[float]:
        """Return a metric over the seeds; a KeyError if the part was not run."""
        rows = self._rows[log, stringency, load]
        return [getattr(row.metrics, metric) for row in rows if row.contestant == scheduler]


def claims(study: Study) -> str:
    """Return the table of the paper's claims, as far as the parts were run."""
    lines = ["| claim | log | scheduler | measured | verdict |", "|---|---|---|---|---|"]
    for number, schedulers, measure in (
        (1, ADMISSION, grows),
        (2, ADMISSION, work_falls),
        (3, ADMISSION, stringent_admits_less),
        (4, ADMISSION, loses_utilization),
        (5, ("msb", "qops"), mrt_is_below),
        (6, ("msb",), qops_refuses_fewer),
        (7, ("mrt",), qops_refuses_fewer),
    ):
        for log in LOGS:
            for scheduler in schedulers:
                try:
                    measured, verdict = measure(study, log, scheduler)
                except KeyError:
                    measured, verdict = "", "not run"
                lines.append(f"| {number} | {log} | {scheduler} | {measured} | {verdict} |")
    return "\n".join(lines)


def grows(study: Study, log: str, scheduler: str) -> tuple[str, Verdict]:
    """Unadmitted jobs: below 10 % at load 1, 15 to 25 % at load 1.6."""
    (alone,) = study.values(log, 0.2, 1.0, scheduler, "unadmitted_jobs")
    high = mean_interval(study.values(log, 0.2, 1.6, scheduler, "unadmitted_jobs"))
    low, top = high.ends
    if alone < 10 and low >= 15 and top <= 25:
        verdict = CONFIRMED
    elif alone >= 10 or top < 15 or low > 25:
        verdict = NOT_CONFIRMED
    else:
        verdict = INCONCLUSIVE
    return f"{alone:.2f} at 1.0, {text_of(high, sign='')} at 1.6", verdict


def work_falls(study: Study, log: str, scheduler: str) -> tuple[str, Verdict]:
    """Unadmitted processor-seconds: less at load 1.6 than at load 1.2 of the same seed."""
    high, low = (study.values(log, 0.2, x, scheduler, "unadmitted_work") for x in (1.6, 1.2))
    difference = paired_difference(high, low)
    return f"1.6 less 1.2: {text_of(difference)}", verdict_of(difference, -1)


def stringent_admits_less(study: Study, log: str, scheduler: str) -> tuple[str, Verdict]:
    """Unadmitted processor-seconds: more with S = 0.5 than with 0.2."""
    return at_loads(
        {
            load: paired_difference(
                study.values(log, 0.5, load, scheduler, "unadmitted_work"),
                study.values(log, 0.2, load, scheduler, "unadmitted_work"),
            )
            for load in HIGH_LOADS
        },
        +1,
    )


def loses_utilization(study: Study, log: str, scheduler: str) -> tuple[str, Verdict]:
    """Utilization: less than with EASY at S = 0.2."""
    return at_loads(
        {
            load: paired_difference(
                study.values(log, 0.2, load, scheduler, "utilization"),
                study.values(log, 0.2, load, "easy", "utilization"),
            )
            for load in HIGH_LOADS
        },
        -1,
    )


def mrt_is_below(study: Study, log: str, scheduler: str) -> tuple[str, Verdict]:
    """Utilization of MRT: less than of another scheduler at load 1.6."""
    difference = paired_difference(
        study.values(log, 0.2, 1.6, "mrt", "utilization"),
        study.values(log, 0.2, 1.6, scheduler, "utilization"),
    )
    return f"mrt less {scheduler} at 1.6: {text_of(difference)}", verdict_of(difference, -1)


def qops_refuses_fewer(study: Study, log: str, scheduler: str) -> tuple[str, Verdict]:
    """Unadmitted jobs: fewer with QoPS than with another scheduler."""
    text, verdict = at_loads(
        {
            load: paired_difference(
                study.values(log, 0.2, load, "qops", "unadmitted_jobs"),
                study.values(log, 0.2, load, scheduler, "unadmitted_jobs"),
            )
            for load in HIGH_LOADS
        },
        -1,
    )
    return f"qops less {scheduler} at {text}", verdict


def at_loads(differences: dict[float, Interval], sign: int) -> tuple[str, Verdict]:
    """Return the differences as text and one verdict on all loads."""
    verdicts = {verdict_of(each, sign) for each in differences.values()}
    if verdicts == {CONFIRMED}:
        verdict = CONFIRMED
    else:
        verdict = NOT_CONFIRMED if NOT_CONFIRMED in verdicts else INCONCLUSIVE
    text = "; ".join(f"{load}: {text_of(each)}" for load, each in differences.items())
    return text, verdict


def text_of(interval: Interval, sign: str = "+") -> str:
    """Return mean and interval as text."""
    low, high = interval.ends
    return f"{interval.mean:{sign}.2f} [{low:{sign}.2f}, {high:{sign}.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "deadline-study")
    parser.add_argument("--parallel", type=int, default=1, help="processes")
    parser.add_argument("--tables-only", action="store_true", help="run nothing")
    parser.add_argument("--write", type=Path, help="document to put the tables into")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for stringency, load in [] if arguments.tables_only else PARTS:
        for log in LOGS:
            path = part_file(arguments.out, log, stringency, load)
            if path.is_file():
                continue
            began = time.perf_counter()
            rows = run_part(log, stringency, load, arguments.parallel)
            path.write_text(csv_text(rows))
            print(f"{path.name}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    text = f"## Verdicts\n\n{claims(Study(arguments.out))}\n\n## Tables\n\n"
    text += tables(arguments.out)
    if arguments.write is None:
        print(text)
        return
    document = arguments.write.read_text()
    before, _, rest = document.partition(BEGIN)
    after = rest.partition(END)[2]
    arguments.write.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
