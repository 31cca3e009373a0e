"""The whole reproduction of Islam et al. (2004): verdicts and tables of docs/islam2004.md.

The same runs as ``qops-batsim papers run islam2004 --out DIR``, which are kept in DIR, so
that the study can be interrupted; delete DIR after changes to a scheduler.

    python benchmarks/islam2004_study.py [--out DIR] [--parallel 2]
        [--write docs/islam2004.md] [--pictures docs/pictures]

The log is read from QOPS_SHARED (default ../shared): it is too large to ship. ``--write``
puts verdicts and tables between the marks in the document, ``--pictures`` draws some figures.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import msgspec

from qops_batsim.papers.islam2004.paper import run
from qops_batsim.papers.pictures import draw_figures
from qops_batsim.papers.report import PaperRequest

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("QOPS_SHARED", ROOT.parent / "shared"))
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
DRAWN = ("figure3", "figure5", "figure9", "figure11")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "islam2004")
    parser.add_argument("--parallel", type=int, default=1, help="processes")
    parser.add_argument("--write", type=Path, help="document to put the tables into")
    parser.add_argument("--pictures", type=Path, help="directory for pictures")
    arguments = parser.parse_args()

    def on_progress(done: int, total: int) -> None:
        if done % 50 == 0:
            print(f"{done} of {total} runs", file=sys.stderr, flush=True)

    report = run(
        PaperRequest(
            traces=SHARED / "traces",
            workers=arguments.parallel,
            out=arguments.out,
            on_progress=on_progress,
        )
    )
    if arguments.pictures is not None:
        drawn = [figure for figure in report.figures if figure.name in DRAWN]
        named = [msgspec.structs.replace(each, name=f"islam2004_{each.name}") for each in drawn]
        draw_figures(named, arguments.pictures)
    text = report.markdown()
    if arguments.write is None:
        print(text)
        return
    document = arguments.write.read_text()
    before, _, rest = document.partition(BEGIN)
    after = rest.partition(END)[2]
    arguments.write.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
