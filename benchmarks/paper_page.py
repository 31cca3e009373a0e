"""What a reproduction found out, put into the page about it: verdicts, choices and tables.

The same runs as ``python studies/PAPER --out DIR``, which are kept in DIR, so that the
study can be interrupted. The logs are read from QOPS_SHARED (default ../shared).

    python benchmarks/report_page.py PAPER [--out DIR] [--parallel 2] [--seeds N] [--quick]
        [--write docs/PAPER.md] [--pictures docs/pictures]
    python benchmarks/report_page.py islam2003 --figure 57 --load 1.6   # a part of the study
    python benchmarks/report_page.py islam2004 --profit                 # its claim about profit
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from qops_batsim.experiments.claims import Claim, as_checks, jointly_judged
from qops_batsim.experiments.report import StudyReport, StudyRequest
from qops_batsim.experiments.report_pictures import draw_figures
from qops_batsim.workload.conversion import convert_log
from studies.islam2003.paper import run_with
from studies.islam2003.study import FULL, QUICK
from studies.islam2004.claims import Judge
from studies.islam2004.runs import Results, run_study
from studies.islam2004.study import FULL as FULL_2004
from studies.islam2004.study import Case, Study
from studies.logs import BATCH_PARTITION, CTC, read_log
from studies.shared import print_or_put

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("QOPS_SHARED", ROOT.parent / "shared"))
DRAWN = {
    "islam2003": ("25",),
    "islam2004": ("figure3", "figure9", "categories"),
    "pascal2004": ("candidates",),
    "talby1999": ("months", "heuristics", "priority-gap"),
}
"""The figures that pages show."""

TABLES = {
    "islam2003": ("Packed", "Readings", "Other windows"),
    "islam2004": ("Acceptance by category", "Kill-and-restart"),
    "pascal2004": ("Table 1", "Table 2", "Candidates"),
    "talby1999": ("Claims", "Against EASY", "Readings"),
}
"""How the titles of the tables begin that a page has; the others are in the report."""

OTHER_MACHINE = "338 processors"
"""Of which pages have the verdicts only."""

IN_TEXT = ("pascal2004",)
"""Papers whose page tells the choices in its own words."""

SHOWN_LOAD = {"islam2003": 1.4}
"""The load of a page's rows, if not all have one."""


def _file_name(figure: str) -> str:
    return f"figure{figure}" if figure.isdecimal() else figure.replace("-", "_")


def part_of_2003(
    figures: list[int], loads: list[float] | None, request: StudyRequest
) -> StudyReport:
    """Return the report on some figures of 2003, with the claims for which they suffice."""
    whole = QUICK if request.quick else FULL
    nothing = {"reading_sources": (), "windows": (), "laxities": ()}
    study = msgspec.structs.replace(whole, figures=tuple(figures), **nothing)
    if loads:
        study = msgspec.structs.replace(study, loads=tuple(loads))
    return run_with(request.seeded(study), request)


class ProfitStudy(Study):
    """The cases of 2004 that the claim about profit needs."""

    def cases(self) -> list[Case]:
        """Return these cases, with all tolerance factors."""
        few, least = self.deadline_share, self.kill_tolerance_factors[0]
        pairs = [case for pair in self.income_pairs().values() for _, case in pair]
        compared = [x for x in pairs if x.deadline_share != few and x.tolerance_factor != least]
        found = [*self.tolerance_cases(self.kill_load), *compared]
        return list(dict.fromkeys(case.simulated() for case in found))


def profit_claims(results: Results) -> list[Claim]:
    """Return the claim about the weights of both charges, and its parts."""
    judge = Judge(results)
    checks = as_checks(judge.whole("p.ways", judge.told("p.ways")))
    return jointly_judged([*judge.whole("p", judge.told("p")), *checks])


def profit_of_2004(request: StudyRequest) -> StudyReport:
    """Return the report on the claim about profit, on the machine of the paper."""
    study = ProfitStudy(**msgspec.structs.asdict(request.seeded(FULL_2004)))
    workload = convert_log(read_log(request, CTC), processors=BATCH_PARTITION).workload
    results = run_study(workload, study, request)
    claims = profit_claims(results)
    return StudyReport(study="islam2004", quick=False, choices={}, data={}, claims=claims)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paper", choices=list(DRAWN))
    parser.add_argument("--out", type=Path, help="directory of kept runs")
    parser.add_argument("--parallel", type=int, default=1, help="processes")
    parser.add_argument("--seeds", type=int, help="number of seeds, if not the paper module's own")
    parser.add_argument("--quick", action="store_true", help="the part that takes few minutes")
    parser.add_argument("--write", type=Path, help="document to put the tables into")
    parser.add_argument("--pictures", type=Path, help="directory for pictures")
    parser.add_argument("--figure", type=int, action="append", help="of islam2003: only these")
    parser.add_argument("--profit", action="store_true", help="of islam2004: only that claim")
    parser.add_argument("--load", type=float, action="append", help="of islam2003: at these loads")
    arguments = parser.parse_args()
    paper = arguments.paper
    if arguments.figure and (paper != "islam2003" or arguments.write):
        parser.error("--figure is of islam2003, and a part of it is printed, not written")
    if arguments.profit and (paper != "islam2004" or arguments.write):
        parser.error("--profit is of islam2004, and is printed, not written")

    def on_progress(done: int, total: int) -> None:
        if done % 50 == 0:
            print(f"{done} of {total} runs", file=sys.stderr, flush=True)

    request = StudyRequest(
        traces=SHARED / "traces",
        workers=arguments.parallel,
        seeds=arguments.seeds,
        quick=arguments.quick,
        out=arguments.out or ROOT / "out" / paper,
        on_progress=on_progress,
    )
    if arguments.figure:
        report = part_of_2003(arguments.figure, arguments.load, request)
    elif arguments.profit:
        report = profit_of_2004(request)
    else:
        report = import_module(f"studies.{paper}.paper").run(request)
    if arguments.pictures is not None:
        drawn = [figure for figure in report.figures if figure.name in DRAWN[paper]]
        named = [
            msgspec.structs.replace(each, name=f"{paper}_{_file_name(each.name)}") for each in drawn
        ]
        draw_figures(named, arguments.pictures)
    tables = [
        each
        for each in report.tables
        if each.title.startswith(TABLES[paper]) and OTHER_MACHINE not in each.title
    ]
    load = SHOWN_LOAD.get(paper)
    if load is not None:
        tables = [
            replace(each, rows=[row for row in each.rows if row.get("load", load) == load])
            for each in tables
        ]
    report.tables = tables
    if not (arguments.figure or arguments.profit):  # a part of a study is looked at closely
        parts = {part for claim in report.claims for part in claim.parts}
        # Where a table has them in both readings, once is enough.
        twice = any(table.title.startswith("Claims") for table in tables)
        report.claims = [
            msgspec.structs.replace(each, parts=())
            for each in report.claims
            if not twice and each.id not in parts
        ]
    if paper in IN_TEXT:
        report.choices = {}
    print_or_put(report.markdown(), arguments.write)


if __name__ == "__main__":
    main()
