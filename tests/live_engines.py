"""The real Batsim beside the embedded engine, for tests; also by hand, for as many seeds as wanted.

python tests/live_engines.py --network --first 0 --seeds 20 easy qops
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from qops_batsim.analysis.results.difference import RunDifference, compare_runs
from qops_batsim.errors import QopsError
from qops_batsim.running.run import BatsimCall, Run, run
from random_simulations import SCHEDULERS, Case, random_case

SECONDS = 240.0
"""How long the real Batsim may be silent."""


def real_program(name: str = "batsim") -> str:
    """Return the path of the real Batsim, or of batsched; skip the test where it is not.

    Our shim would call itself.
    """
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no {name} on PATH")
    if name == "batsim":
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=240)
        version = answer.stdout.strip()
        if not re.fullmatch(r"v[34]\.\d+\.\d+|commit .*", version):
            pytest.skip(f"{path} is no Batsim 3 or 4 ({version[:60]!r})")
    return path


def run_both(
    scheduler: str,
    workload: str | Path,
    platform: str | Path,
    settings: dict[str, Any] | None,
    directory: Path,
    **further: Any,
) -> tuple[Run, Run]:
    """Run a scheduler with the embedded engine and with the real one."""
    first, second = (
        run(
            *(scheduler, workload, platform, settings),
            out=directory / engine,
            engine=engine,
            batsim=BatsimCall(log_level="quiet", timeout=SECONDS),
            **further,
        )
        for engine in ("embedded", "batsim")
    )
    return first, second


def difference(runs: tuple[Run, Run]) -> str:
    """Return in words how two runs differ, as ``diff`` judges it; empty if they are equal."""
    compared = compare_runs(runs[0].result, runs[1].result)
    return "" if compared.equal else _described(compared)


def _described(compared: RunDifference) -> str:
    largest = compared.starts.largest or 0.0
    first = ", ".join(
        f"{each.job}: {each.values[0].field} {each.values[0].a} and {each.values[0].b}"
        for each in compared.first[:1]
    )
    return (
        f"{compared.jobs_different} of {compared.jobs_compared} jobs differ, "
        f"starts by {largest:.6f} s at most; first {first}"
    )


def case_difference(case: Case, directory: Path) -> str:
    """Return how the engines differ on a case; empty if they do not."""
    workload, platform = case.write(directory)
    given = (case.scheduler, workload, platform, case.settings, directory)
    events = None if case.events is None else directory / "events.txt"
    return difference(run_both(*given, compute_sharing=case.sharing, events=events))


def main() -> None:
    """Compare the engines on random cases, and print those that differ."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("schedulers", nargs="*", default=list(SCHEDULERS))
    parser.add_argument("--network", action="store_true", help="platforms with latencies")
    parser.add_argument("--events", action="store_true", help="hosts that leave and return")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds")
    parser.add_argument("--jobs", type=int, default=40, help="jobs a case")
    parser.add_argument("--keep", type=Path, help="directory for the files of cases that differ")
    given = parser.parse_args()
    real_program()
    differing = 0
    for seed in range(given.first, given.first + given.seeds):
        for scheduler in given.schedulers:
            case = random_case(
                *(seed, scheduler),
                network=given.network,
                jobs=given.jobs,
                events=given.events,
            )
            with tempfile.TemporaryDirectory() as name:
                try:
                    found = case_difference(case, Path(name))
                except QopsError as error:
                    found = str(error)
                if found:
                    differing += 1
                    print(f"{case.name} {case.settings}: {found}", flush=True)  # noqa: T201
                    if given.keep is not None:
                        shutil.copytree(name, given.keep / case.name.replace(" ", "_"))
    print(f"{differing} of {given.seeds * len(given.schedulers)} cases differ")  # noqa: T201


if __name__ == "__main__":
    main()
