"""The real Batsim beside the embedded engine, for tests; also by hand, for as many seeds as wanted.

PYTHONPATH=tests python -m support.live_engines --network --first 0 --seeds 20 easy qops
PYTHONPATH=tests python -m support.live_engines --batsched --seeds 10
PYTHONPATH=tests python -m support.live_engines --zones --seeds 300
PYTHONPATH=tests python -m support.live_engines --shared --seeds 100
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qops_batsim import QopsError, read_platform, read_run, run
from qops_batsim.measures import compare_runs
from qops_batsim.measures.results.difference import RunDifference
from qops_batsim.platform import make_cluster, write_platform
from qops_batsim.protocol import make_scheduler
from qops_batsim.running import Run, default_engine
from qops_batsim.running.processes import ChildProcess
from qops_batsim.running.releases import batsim_arguments
from qops_batsim.running.run import BatsimCall
from support.needs import batsim4
from support.random_platforms import zoned_case
from support.random_simulations import SCHEDULERS, Case, random_case
from support.shared_cases import SHARING, shared_case

SECONDS = 240.0
"""How long the real Batsim may be silent."""

ENGINE = [sys.executable, "-m", "qops_batsim.cli.engine"]

COMMAND = [sys.executable, "-c", "from qops_batsim.cli.main import main; main()"]

BATSCHED = (
    *("conservative_bf", "easy_bf", "easy_bf_fast", "fcfs", "fcfs_fast"),
    *("filler", "killer", "sequencer"),
)
"""Algorithms of batsched that need neither energy nor options."""


def run_each(
    engines: Mapping[str, Mapping[str, Any]],
    scheduler: str,
    workload: str | Path,
    platform: str | Path,
    settings: dict[str, Any] | None,
    directory: Path,
    **further: Any,
) -> tuple[Run, Run]:
    """Run a scheduler with two engines, each chosen by arguments of ``run``, under their names."""
    first, second = (
        run(*(scheduler, workload, platform, settings), out=directory / name, **chosen, **further)
        for name, chosen in engines.items()
    )
    return first, second


def run_both(*given: Any, **further: Any) -> tuple[Run, Run]:
    """Run a scheduler with the embedded engine and with the real one; see :func:`run_each`."""
    call = BatsimCall(log_level="quiet", timeout=SECONDS)
    engines = {name: {"engine": name, "batsim": call} for name in ("embedded", "batsim")}
    return run_each(engines, *given, **further)


def difference(runs: tuple[Run, Run]) -> str:
    """Return in words how two runs differ, as ``diff`` judges it; empty if they are equal."""
    compared = compare_runs(runs[0].result, runs[1].result)
    return "" if compared.equal else described(compared)


def schedule_in_digits(made: Run) -> list[tuple[str, ...]]:
    """Return state, dates and hosts of each job as the file has them, in the order of ids."""
    fields = "workload_name", "job_id", "final_state", "starting_time", "finish_time"
    with open(f"{made.prefix}_jobs.csv") as stream:
        return sorted(
            tuple(row[name] for name in (*fields, "allocated_resources"))
            for row in csv.DictReader(stream)
        )


def described(compared: RunDifference) -> str:
    largest = compared.starts.largest or 0.0
    first = ", ".join(
        f"{each.job}: {each.values[0].field} {each.values[0].a} and {each.values[0].b}"
        for each in compared.first[:1]
    )
    return (
        f"{compared.jobs_different} of {compared.jobs_compared} jobs differ, "
        f"starts by {largest:.6f} s at most; first {first}"
    )


def run_case(
    case: Case, directory: Path, both: Callable[..., tuple[Run, Run]] = run_both
) -> tuple[Run, Run]:
    """Run a case with both engines."""
    workload, platform = case.write(directory)
    given = (case.scheduler, workload, platform, case.settings, directory)
    events = None if case.events is None else directory / "events.txt"
    return both(*given, compute_sharing=case.sharing, events=events)


def engines_differ(
    decision_process: Sequence[str], arguments: Sequence[str], directory: Path
) -> str:
    """Return how the engines' schedules differ under the same decision process, or nothing.

    ``{endpoint}`` stands for the address in its command line.
    """
    prefixes = []
    for name, engine in (("real", [batsim4().required()]), ("ours", ENGINE)):
        endpoint = f"ipc://{directory}/{name}.sock"
        served = [part.format(endpoint=endpoint) for part in decision_process]
        prefix = str(directory / name)
        command = [*engine, *arguments, "-q", "-s", endpoint, "-e", prefix]
        with ChildProcess(served) as peer, ChildProcess(command) as child:
            assert child.wait(SECONDS) == 0, (child.last_words(), peer.last_words())
            assert peer.wait(SECONDS) == 0, peer.last_words()
        prefixes.append(prefix)
    compared = compare_runs(read_run(prefixes[0]), read_run(prefixes[1]))
    return "" if compared.equal else described(compared)


def served_difference(case: Case, directory: Path) -> str:
    """Return how the engines differ on a case under ``serve``; empty if they do not.

    Then both tell dates with six decimals, while a run in process has all digits of the workload.
    """
    workload, platform = case.write(directory)
    served = [*COMMAND, "serve", case.scheduler, "-s", "{endpoint}", "-q"]
    served += ["-o", str(directory / "served")]
    for name, value in case.settings.items():
        served += ["--set", f"{name}={json.dumps(value)}"]
    module = make_scheduler(case.scheduler, case.settings)
    options = default_engine(module, read_platform(platform), compute_sharing=case.sharing)
    arguments = ["-p", str(platform), "-w", str(workload), *batsim_arguments(options)]
    if case.events is not None:
        arguments += ["--events", str(directory / "events.txt")]
    return engines_differ(served, arguments, directory)


def batsched_difference(variant: str, workload: Path, platform: Path, directory: Path) -> str:
    """Return how the engines differ under an algorithm of batsched; empty if they do not."""
    batsched = batsim4("batsched").required()
    served = [batsched, "-v", variant, "-d", "0", "-s", "{endpoint}", "--verbosity", "silent"]
    arguments = ["-p", str(platform), "-w", str(workload), "--disable-schedule-tracing"]
    return engines_differ(served, arguments, directory)


def fractional_case(seed: int, directory: Path, jobs: int = 300) -> tuple[Path, Path]:
    """Write delay jobs with dates of all digits, and hosts without a network; return the paths."""
    rng, now = random.Random(seed), 0.0
    rows, profiles = [], {}
    for number in range(jobs):
        now += rng.expovariate(1 / 100)
        seconds = rng.expovariate(1 / 200) + 0.01
        profiles[f"p{number}"] = {"type": "delay", "delay": seconds}
        row = {"id": str(number), "subtime": now, "res": rng.randint(1, 4)}
        walltime = rng.uniform(1, 3) * seconds + 0.001
        rows.append({**row, "walltime": walltime, "profile": f"p{number}"})
    workload, platform = directory / "workload.json", directory / "platform.xml"
    workload.write_text(json.dumps({"nb_res": 4, "jobs": rows, "profiles": profiles}))
    write_platform(make_cluster(4), platform)
    return workload, platform


def compare_under_batsched(seeds: range) -> None:
    """Compare the engines under each algorithm of batsched, and print how many cases are equal."""
    for variant in BATSCHED:
        differing = []
        for seed in seeds:
            with tempfile.TemporaryDirectory() as name:
                workload, platform = fractional_case(seed, Path(name))
                try:
                    found = batsched_difference(variant, workload, platform, Path(name))
                except (AssertionError, QopsError) as error:
                    found = str(error)
                differing += [f"seed {seed}: {found}"] if found else []
        equal = len(seeds) - len(differing)
        print(f"{variant}: {equal} of {len(seeds)} equal", *differing, sep="\n  ", flush=True)  # noqa: T201


def main() -> None:
    """Compare the engines on random cases; print those that differ or break a rule."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("schedulers", nargs="*", help="default: all that are of use")
    parser.add_argument("--network", action="store_true", help="platforms with latencies")
    parser.add_argument("--events", action="store_true", help="hosts that leave and return")
    parser.add_argument(
        "--zones",
        action="store_true",
        help="zones of all kinds inside each other, up to 30 ms, one scheduler a seed by turns",
    )
    parser.add_argument(
        "--shared", action="store_true", help="hosts that jobs share by their amounts"
    )
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds")
    parser.add_argument("--jobs", type=int, default=40, help="jobs a case")
    parser.add_argument(
        "--batsched", action="store_true", help="algorithms of batsched, on fractional dates"
    )
    parser.add_argument("--keep", type=Path, help="directory for the files of cases that differ")
    given = parser.parse_args()
    batsim4().required()
    if given.batsched:
        compare_under_batsched(range(given.first, given.first + given.seeds))
        return
    tally: Counter[str] = Counter()
    for case in _cases(given):
        with tempfile.TemporaryDirectory() as name:
            try:
                found = _judged(case, Path(name), tally)
            except (AssertionError, QopsError) as error:
                found = [str(error)]
                tally["differ"] += 1
            tally["cases"] += 1
            for line in found:
                print(f"{case.name} {case.settings}: {line}", flush=True)  # noqa: T201
            if found and given.keep is not None:
                kept = given.keep / case.name.replace(" ", "_")
                sockets = shutil.ignore_patterns("*.sock")
                shutil.copytree(name, kept, ignore=sockets, dirs_exist_ok=True)
    print(  # noqa: T201
        f"{tally['differ']} of {tally['cases']} cases differ, {tally['rounded']} more in process "
        f"only, {tally['last digit']} more by a last digit; {tally['jobs']} jobs, "
        f"{tally['promises']} promises checked, {tally['violations']} violations"
    )


def _cases(given: argparse.Namespace) -> Iterator[Case]:
    for seed in range(given.first, given.first + given.seeds):
        if given.zones:
            yield zoned_case(seed, given.schedulers or list(SCHEDULERS), given.jobs)
            continue
        make = shared_case if given.shared else random_case
        for scheduler in given.schedulers or (SHARING if given.shared else SCHEDULERS):
            yield make(
                *(seed, scheduler), network=given.network, jobs=given.jobs, events=given.events
            )


def _judged(case: Case, directory: Path, tally: Counter[str]) -> list[str]:
    """Run a case and count what came of it; return how the runs differ, and what they violate."""
    runs = run_case(case, directory)
    found = [f"{each.engine}: {said}" for each in runs for said in each.violations]
    for each in runs:
        tally["jobs"] += each.jobs
        tally["promises"] += each.lateness.checked if each.lateness else 0
    tally["violations"] += len(found)
    differ = difference(runs)
    if not differ and schedule_in_digits(runs[0]) != schedule_in_digits(runs[1]):
        tally["last digit"] += 1
    if differ and not served_difference(case, directory / "served"):
        differ += " (equal where dates are told with six decimals)"
        tally["rounded"] += 1
    elif differ:
        tally["differ"] += 1
    return [differ, *found] if differ else found


if __name__ == "__main__":
    main()
