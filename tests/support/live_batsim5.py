"""The real Batsim 5 beside the embedded engine, for tests; also by hand, for many seeds.

PYTHONPATH=tests python -m support.live_batsim5 --network --first 0 --seeds 20 easy qops
PYTHONPATH=tests python -m support.live_batsim5 --kills --seeds 300   # with kills
PYTHONPATH=tests python -m support.live_batsim5 --shared --seeds 100
"""

from __future__ import annotations

import argparse
import random
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from qops_batsim import QopsError, read_platform, run
from qops_batsim.measures import compare_runs
from qops_batsim.running import Run
from qops_batsim.running.run import BatsimCall
from support import live_engines
from support.live_engines import SECONDS, described, difference
from support.needs import real_batsim5
from support.random_simulations import SCHEDULERS, Case, random_case, without_network
from support.shared_cases import SHARING, shared_case

KILLERS = ("fqops", "aroma")
"""Schedulers that kill jobs and run them again."""


def engine_as_5(directory: Path) -> str:
    """Return the path of an executable that is the embedded engine as Batsim 5."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "batsim"
    path.write_text(f'#!/bin/sh\nexec {shlex.join(live_engines.ENGINE)} --as 5 "$@"\n')
    path.chmod(0o755)
    return str(path)


def run_both(*given: Any, **further: Any) -> tuple[Run, Run]:
    """Run a scheduler for the embedded engine as Batsim 5 and for the real one."""
    our_batsim = given[-1] / "our_batsim"
    paths = {"embedded": engine_as_5(our_batsim), "batsim5": real_batsim5().required()}
    calls = {
        name: BatsimCall(path=path, log_level="quiet", timeout=SECONDS)
        for name, path in paths.items()
    }
    engines = {name: {"engine": "batsim", "batsim": call} for name, call in calls.items()}
    return live_engines.run_each(engines, *given, **further)


def run_case(case: Case, directory: Path) -> tuple[Run, Run]:
    """Run a case with both engines."""
    return live_engines.run_case(case, directory, run_both)


def equal_to_the_byte(runs: tuple[Run, Run]) -> bool:
    """Tell whether two runs have the same jobs to the last digit, in the same order."""
    first, second = (Path(f"{each.prefix}_jobs.csv").read_bytes() for each in runs)
    return first == second


def _in_process(case: Case, directory: Path) -> Run:
    workload, platform = case.write(directory)
    return run(
        *(case.scheduler, workload, read_platform(platform).numbered_by_value(), case.settings),
        out=directory / "in_process",
        compute_sharing=case.sharing,
        events=None if case.events is None else directory / "events.txt",
    )


def difference_in_process(case: Case, real: Run, directory: Path) -> str:
    """Return how a run of Batsim 5 differs from one with the embedded engine as ``run`` has it.

    That takes no rounding errors of SimGrid's clock and is Batsim 4: it knows no message before its
    first.
    """
    ours = _in_process(case, directory)
    compared = compare_runs(ours.result, real.result)
    return "" if compared.equal else described(compared)


def restarted(made: Run) -> int:
    """Return the number of runs of jobs that had been killed."""
    return len(made.result.earlier_runs)


def killing_case(seed: int, schedulers: Sequence[str] = KILLERS, jobs: int = 40) -> Case:
    """Return the first case of a seed in which jobs are killed and run again.

    One in three has a network, one in three hosts that leave.
    """
    rng = random.Random(f"kills {seed}")
    while True:
        scheduler = rng.choice(schedulers)
        network, events = rng.random() < 1 / 3, rng.random() < 1 / 3
        inner = rng.randrange(10**6)
        case = random_case(inner, scheduler, network=network, jobs=jobs, events=events)
        case.name += f" (seed {seed})"
        with tempfile.TemporaryDirectory() as name:
            if restarted(_in_process(case, Path(name))):
                return case


def main() -> None:
    """Compare the engines on random cases; print those that differ or break a rule."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("schedulers", nargs="*", help="default: all that are of use")
    parser.add_argument("--kills", action="store_true", help="a case a seed, in which jobs restart")
    parser.add_argument("--network", action="store_true", help="platforms with latencies")
    parser.add_argument("--events", action="store_true", help="hosts that leave and return")
    parser.add_argument(
        "--shared", action="store_true", help="hosts that jobs share by their amounts"
    )
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds")
    parser.add_argument("--jobs", type=int, default=40, help="jobs a case")
    given = parser.parse_args()
    tally: Counter[str] = Counter()
    for case in _cases(given):
        with tempfile.TemporaryDirectory() as name:
            found = _judged(case, Path(name), tally)
        for line in found:
            print(f"{case.name} {case.settings}: {line}", flush=True)  # noqa: T201
    print(dict(tally))  # noqa: T201


def _cases(given: argparse.Namespace) -> Iterator[Case]:
    for seed in range(given.first, given.first + given.seeds):
        if given.kills:
            yield killing_case(seed, given.schedulers or KILLERS, given.jobs)
            continue
        make = shared_case if given.shared else random_case
        for scheduler in given.schedulers or (SHARING if given.shared else SCHEDULERS):
            yield make(
                *(seed, scheduler), network=given.network, jobs=given.jobs, events=given.events
            )


def _judged(case: Case, directory: Path, tally: Counter[str]) -> list[str]:
    tally["cases"] += 1
    try:
        runs = run_case(case, directory)
        # On platforms with latencies Batsim 5 begins a message later than Batsim 4.
        has_network = without_network.__name__ not in case.name
        in_process = "" if has_network else difference_in_process(case, runs[1], directory)
    except QopsError as error:
        tally["failed"] += 1
        return [str(error)]
    found = [f"{each.engine}: {said}" for each in runs for said in each.violations]
    tally["restarts"] += restarted(runs[1])
    for each in runs:
        tally["jobs"] += each.jobs
        tally["promises"] += each.lateness.checked if each.lateness else 0
    tally["violations"] += len(found)
    differ = difference(runs)
    tally["differ"] += bool(differ)
    tally["equal to the byte"] += equal_to_the_byte(runs)
    if in_process:
        tally["differ in process"] += 1
        found.append(f"in process: {in_process}")
    return [differ, *found] if differ else found


if __name__ == "__main__":
    main()
