"""How fast is it, and is one installation faster than another? CPU time, medians of three.

    python benchmarks/speed                             # this installation; half an hour
    python benchmarks/speed BEFORE AFTER                # two in turns, with ratios
    python benchmarks/speed BEFORE AFTER --only KTH     # figures whose titles hold this word
    python benchmarks/speed --latencies --peer batsim --write docs/speed.md

BEFORE and AFTER are the ``qops-batsim`` commands of two environments. Workloads are made by the
last one, from real logs where they are at hand (QOPS_SHARED, default ../shared), or drawn by a
seed; ``--inputs`` keeps them. Simulations *in process* are timed after a first one, which may
compile; so are commands. Two installations take turns, so the ratio holds on a noisy machine and
on another one, where seconds do not. *Wanted* is the ratio to 0.1.0 that the compiled core was
planned to reach.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from figures import DECIDERS, FIGURES, Figure, is_at_hand
from measure import Installation, medians
from page import latency, machine, table, write_into
from peers import PEERS, beside, check_peers


def row(figure: Figure, workload: str, each: Sequence[Installation], rounds: int) -> list[str]:
    """Measure a figure; return its row in the table."""
    found = medians(figure, workload, each, rounds)
    seconds, memory = (
        [f"{used.seconds:.3f}" for used in found],
        [f"{u.mebibytes:,.0f}" for u in found],
    )
    ratio = f"{found[-1].seconds / found[0].seconds:.2f}"
    wanted = "" if figure.wanted is None else f"{figure.wanted:.2f}"
    how = "in process" if figure.in_process else "command"
    return [figure.title, how, *seconds, *memory, *([ratio, wanted] if len(found) > 1 else [])]


def say(what: str) -> None:
    print(f"measuring {what}", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    here = str(Path(sys.executable).with_name("qops-batsim"))
    parser.add_argument("installations", nargs="*", metavar="COMMAND", default=[here])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="only figures whose titles hold this word")
    parser.add_argument("--latencies", action="store_true", help="answers by queue length as well")
    parser.add_argument("--peer", action="append", choices=list(PEERS), default=[])
    parser.add_argument("--write", type=Path, help="document to put the tables into")
    parser.add_argument("--inputs", type=Path, help="folder for the workloads (default: temporary)")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    check_peers(given.peer)
    installations = [Installation(str(Path(each).absolute())) for each in given.installations]
    last, is_alone = installations[-1], len(installations) == 1
    parts = [f"Measured on {datetime.date.today().isoformat()}: {machine()}."]
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.inputs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        rows = []
        for figure in FIGURES:
            if given.only in figure.title and is_at_hand(figure.workload):
                say(figure.title)
                workload = last.make(figure.workload, folder)
                rows.append(row(figure, workload, installations, given.rounds))
                print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
        names = (
            ["CPU s", "peak MiB"]
            if is_alone
            else ["before, s", "after, s", "before, MiB", "after, MiB", "ratio", "wanted"]
        )
        parts.append(table(["figure", "", *names], rows))
        for peer in given.peer:
            say(peer)
            parts.append(beside(peer, last, last.make("kth", folder), given.rounds))
        if given.latencies:
            workload, rows = last.make("deadlines", folder), []
            for scheduler in DECIDERS:
                say(f"answers of {scheduler}")
                rows += latency(scheduler, last.child("latencies", scheduler, workload)[0])
            head = ["scheduler", "waiting jobs", "answers", "p50 ms", "p99 ms", "longest ms"]
            parts.append("### Latency of answers, by queue length\n\n" + table(head, rows))
    text = "\n\n".join(parts)
    print(text)
    if given.write is not None:
        write_into(given.write, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
