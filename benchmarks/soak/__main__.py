"""Does it hold in a hostile world: mutated files, odd options, hostile peers, kills, random runs.

    python benchmarks/soak                                  # a minute, all parts
    python benchmarks/soak --seconds 3600 --workers 2
    python benchmarks/soak --only runs --cases 20000
    python benchmarks/soak --only files --seed 4711 --cases 1   # a failure again

A case is all that a part does with one number, its seed: the same wherever it is done. The
seeds are consecutive, from ``--seed`` on, and the seconds are shared equally among the parts.
Prints what was tried and how often, and each kind of failure with the seeds that show it; exits
with 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import time

from harness import PARTS, Findings, soak


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="time for all parts")
    parser.add_argument("--cases", type=int, help="cases of each part, however long they take")
    parser.add_argument("--seed", type=int, default=1, help="that of the first case")
    parser.add_argument("--only", choices=list(PARTS), action="append", help="only this part")
    parser.add_argument("--workers", type=int, default=1, help="cases at once")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    parts = {name: part for name, part in PARTS.items() if given.only is None or name in given.only}
    failed = False
    for name, part in parts.items():
        began = time.monotonic()
        seconds = None if given.cases else given.seconds / len(parts)
        findings = soak(part, given.seed, given.cases, seconds, given.workers)
        show(name, findings, time.monotonic() - began)
        failed |= bool(findings.failures)
    return 1 if failed else 0


def show(name: str, findings: Findings, seconds: float) -> None:
    """Print what a part did."""
    counts = ", ".join(f"{number:,} {what}" for what, number in sorted(findings.counts.items()))
    print(f"{name}: {findings.cases:,} cases in {seconds:.0f} s ({counts})", flush=True)
    for kind, found in sorted(findings.failures.items(), key=lambda item: -len(item[1])):
        seeds = ", ".join(str(seed) for seed, _ in found[:5])
        print(f"  FAILED {len(found):,} times: {kind} (--only {name} --cases 1 --seed {seeds})")
        for line in found[0][1].splitlines()[-12:]:
            print(f"    {line[:300]}")


if __name__ == "__main__":
    sys.exit(main())
