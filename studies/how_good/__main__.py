"""How far QoPS is from the best possible (README.md).

    python studies/how_good [--quick] [--write studies/how_good/tables.md]
    python studies/how_good --only best|split|orders [--quick] [--spare 12]
    python studies/how_good --only split --deadlines need

Parts: the best schedules of stretches of 500 jobs; what QoPS lacks, split in short ones, and what
rules of today gain there; and how often a refused job fits in some order. Finished cases are kept,
and the study goes on where it was. Logs are read from QOPS_SHARED (default ../shared).
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from studies.how_good import best, orders
from studies.shared import EASY, arguments, by_turns, print_or_put, run_main, settings_of

PARTS = ("best", "split", "orders")


def main() -> None:
    parser = arguments(__file__, __doc__, by_need=True)
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--spare", type=float, help="most run times to spare in bursts (orders)")
    asked = parser.parse_args()
    settings = settings_of(__file__, quick=asked.quick)
    parts = (asked.only,) if asked.only else ("split", "orders") if asked.quick else PARTS

    def made(by: str) -> str:
        study = best.Study(settings, asked.out, by)
        text: list[str] = []
        for part in parts:
            if part == "best":
                study.search()
                text += best.best_tables(study)
            elif part == "split":
                study.split()
                text += best.split_tables(study)
            elif by == asked.deadlines or by == EASY:  # Bursts have deadlines of their own.
                bursts = settings["orders"] | ({"spare": asked.spare} if asked.spare else {})
                text += [*orders.table(bursts), ""]
        return "\n".join(text) + "\n"

    print_or_put(by_turns(asked, made), asked.write)


if __name__ == "__main__":
    run_main(main)
