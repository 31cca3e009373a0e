"""Do two installations of this package give the same schedules, files and numbers?

    python benchmarks/unchanged.py BEFORE AFTER [--only WORD] [--runs-only]

BEFORE and AFTER are the ``qops-batsim`` commands of two environments. Each runs every
shipped workload with every scheduler (and with options that change its plan), then the
commands that read the files, in a folder of its own; every file written and all that is
printed must be the same to the byte. Only what describes files beside it may gain
fields: ``_run.json`` and ``report.json``. ``_qos.csv`` may gain columns,
``workload_name`` and with it the ``job_id`` of ``_jobs.csv``, and its sentences may tell numbers
with more digits; decision logs must tell the same events, to the
microsecond and but for their reasons, in whatever format.
What differs is listed; the exit code is 1 if anything does.

    python benchmarks/unchanged.py --held [--only SCHEDULER] [--show NUMBER] [--keep-digests]

runs random small schedules in this Python instead and compares their outcomes with
``held_digests.json`` (see ``held_cases.py``); ``--show`` prints the outcome of one case.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import held_cases
import msgspec

from qops_batsim.running.history import parse_log

ROOT = Path(__file__).resolve().parent.parent
WORKLOADS = sorted(path.stem for path in (ROOT / "workloads").glob("*.json"))
SHARING = {"aroma_mixed": "aroma_grid"}
"""Shipped workloads that need a platform of their own."""

SCHEDULERS: dict[str, list[str]] = {
    "fcfs": [],
    "easy": [],
    "conservative": [],
    "conservative_processors": ["reserve=processors"],
    "slack": [],
    "slack_cheapest": ["slack_factor=9"],
    "qops": [],
    "qops_literal": ["on_failure=reject", "new_job=first", "order=earliest_deadline"],
    "msb": [],
    "msb_delays": ["price=delays"],
    "mrt": [],
    "mrt_earliest": ["order=earliest_deadline", "max_backtracks=20"],
    "fqops": ["tolerance_factor=4", "slack_factor=2"],
    "fqops_kills": ["kill_and_restart=true", "tolerance=random", "tolerance_factor=3"],
    "nqs": [],
    "aroma": [],
}
"""Runs by name; the scheduler is the part before the underscore."""

Case = tuple[str, list[list[str]]]


def run_cases() -> Iterator[Case]:
    """Yield runs with the commands that read what they wrote."""
    for workload in WORKLOADS:
        for name, settings in SCHEDULERS.items():
            scheduler = name.partition("_")[0]
            command = ["run", scheduler, "--workload", workload, "--out", "run"]
            if workload in SHARING:
                command += ["--platform", SHARING[workload]]
            for setting in settings:
                command += ["--set", setting]
            readers = [
                ["metrics", "run", "--json"],
                ["verify", "run"],
                ["explain", "run", "7"],
                ["charges", "run"],
            ]
            if "deadlines" in workload or "mixed" in workload:
                readers += [
                    ["explain", "run", "24", "--json"],
                    ["quote", "run@1d", "8x1h",
                     "--deadline", "3h"],
                    ["charges", "run", "--json"],
                ]  # fmt: skip
            yield f"{workload}/{name}", [command, *readers]


def other_cases() -> Iterator[Case]:
    """Yield commands that make, compare and draw."""
    easy = ["run", "easy", "--workload", "kth_sp2_1000", "--out", "easy", "--quiet"]
    slack = ["run", "slack", "--workload", "kth_sp2_1000", "--out", "slack", "--quiet"]
    both = ["easy", "slack"]
    yield "pictures", [
        easy, slack, ["diff", *both], ["diff", *both, "--json"], ["metrics", *both],
        ["plot", "gantt", "easy", "-o", "gantt.svg"],
        ["plot", "utilization", *both, "-o", "plot.svg"],
        ["plot", "occupation", "easy", "-o", "occupation.svg"],
    ]  # fmt: skip
    yield (
        "workloads",
        [
            ["workload", "generate", "g.json", "--jobs", "300", "--seed", "7"],
            ["workload", "scale", "kth_sp2_1000", "s.json", "--load", "1.3", "--seed", "3"],
            ["workload", "deadlines", "kth_sp2_1000", "d.json", "--stringency", "0.2"],
            ["workload", "classes", "kth_sp2_1000", "c.json", "--seed", "2"],
            ["workload", "generate", "m.json", "--preset", "mixed", "--jobs", "40", "--seed", "4"],
            ["platform", "cluster", "c.xml", "--hosts", "9"],
            ["platform", "show", "aroma_grid"],
            ["platform", "show"],
        ],
    )
    yield "compare", [
        ["compare", "easy", "qops", "msb", "--workload", "kth_sp2_1000", "--loads", "1.0:1.4:0.4",
         "--seeds", "2", "--out", "c", "--first", "300"],
        ["compare", "qops", "fqops", "--workload", "sdsc_sp2_1000", "--loads", "1.2",
         "--seeds", "1", "--out", "d"],
    ]  # fmt: skip
    yield "schedulers", [["schedulers"], *(["schedulers", name] for name in ("qops", "aroma"))]


FORMER = {
    "plot gantt": "gantt",
    "plot utilization": "plot",
    "plot occupation": "occupation",
    "workload generate m.json --preset mixed --jobs": "workload mixed m.json --applications",
    "platform show": "platform list",
}
"""Beginnings of commands with those that they had in 0.1.0, tried where they are refused."""


def as_before(command: list[str]) -> list[str] | None:
    """Return a command as it was called before, if it was called otherwise."""
    text = " ".join(command)
    return next(
        ([*old.split(), *text.removeprefix(new).split()] for new, old in FORMER.items()
         if text.startswith(new)),
        None,
    )  # fmt: skip


def outcome(program: str, commands: list[list[str]], folder: Path) -> dict[str, bytes]:
    """Run commands in a folder; return what they wrote and printed, by name."""
    folder.mkdir(parents=True)
    found: dict[str, bytes] = {}
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    for number, command in enumerate(commands):
        call: dict[str, Any] = {"cwd": folder, "env": environment, "capture_output": True}
        done = subprocess.run([program, *command], check=False, **call)
        if done.returncode == 2 and (former := as_before(command)):
            done = subprocess.run([program, *former], check=False, **call)
        name = f"{number}: {' '.join(command)}"
        printed = done.stdout + b"\n--\n" + done.stderr
        found[name] = b"exit %d\n" % done.returncode + comparable(printed)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def comparable(printed: bytes) -> bytes:
    """Blank out seconds of computing, and where an installation keeps its shipped inputs."""
    printed = re.sub(rb"[^\s\"']*/(?=(?:workloads|platforms)/)", b"", printed)
    printed = re.sub(rb" in \d+\.\d+ s\b", b" in T s", printed)
    printed = re.sub(rb'"(cpu_seconds|seconds|mapping[a-z_]*)": [^,\n]*', rb'"\1": T', printed)
    # Notes and progress come only when something takes long.
    passing = re.compile(rb"compiling|running EASY|: [\d,]+ of [\d,]+$")
    return b"\n".join(line for line in printed.splitlines() if not passing.search(line))


def differences(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    """Return what differs between two outcomes, a line each."""
    found = []
    for name in sorted(before.keys() | after.keys()):
        if name not in before or name not in after:
            found.append(f"{name}: only {'before' if name in before else 'after'}")
            continue
        if before[name] == after[name]:
            continue
        old, new = before[name], after[name]
        if name.endswith(("_run.json", "report.json")):
            told, now = json.loads(old), json.loads(new)
            lost = [key for key in told if now.get(key, "missing") != told[key]]
            lost = [key for key in lost if key not in ("files", "run_id")]  # digests of the others
            if lost:
                found.append(f"{name}: fields {', '.join(lost)} changed")
            continue
        if name.endswith("_decisions.jsonl"):
            old, new = events_told(old), events_told(new)
        elif name.endswith("_qos.csv"):
            columns = next(csv.reader(io.StringIO(old.decode())))
            old, new = requests_told(old, columns), requests_told(new, columns)
        if old != new:
            found.append(f"{name}: {first_difference(old, new)}")
    return found


def events_told(log: bytes) -> bytes:
    """Return the events of a decision log without reasons, dates to the microsecond."""
    _, events = parse_log(log, Path("log"))
    lines = (msgspec.json.encode(event).decode() for event in events)
    return "\n".join(held_cases.without_reasons(lines)).encode()


def requests_told(table: bytes, columns: list[str]) -> bytes:
    """Return some columns of ``_qos.csv`` without the numbers in sentences."""
    lines = []
    for row in csv.DictReader(io.StringIO(table.decode())):
        # Until there was a workload_name, job_id was the full identifier.
        if "workload_name" in row and "workload_name" not in columns:
            row["job_id"] = f"{row['workload_name']}!{row['job_id']}"
        row["reason"] = re.sub(r"[0-9][0-9.e+-]*", "N", row["reason"])
        lines.append("|".join(row[column] for column in columns))
    return "\n".join(lines).encode()


def first_difference(before: bytes, after: bytes) -> str:
    """Return the first line that differs."""
    old, new = before.splitlines(), after.splitlines()
    for number, (one, other) in enumerate(zip(old, new, strict=False), start=1):
        if one != other:
            return f"line {number}: {one[:150]!r} became {other[:150]!r}"
    return f"{len(old)} lines became {len(new)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", nargs="?", help="the command qops-batsim of one environment")
    parser.add_argument("after", nargs="?", help="and of another")
    parser.add_argument("--held", action="store_true", help="random schedules in this Python")
    parser.add_argument("--show", type=int, help="only print the outcome of this held case")
    parser.add_argument("--keep-digests", action="store_true", help="keep those of the held cases")
    parser.add_argument("--only", default="", help="only cases whose name holds this word")
    parser.add_argument("--runs-only", action="store_true", help="not what reads the runs' files")
    parser.add_argument("--keep", help="folder for the files (default: a temporary one)")
    parser.add_argument("--workers", type=int, default=2, help="cases at once")
    arguments = parser.parse_args()
    if arguments.held:
        return held_cases.check(arguments.only, write=arguments.keep_digests, show=arguments.show)
    if arguments.after is None:
        parser.error("two commands are expected, or --held")
    cases = [*run_cases(), *other_cases()]
    cases = [case for case in cases if arguments.only in case[0]]
    if arguments.runs_only:
        cases = [(name, commands[:1]) for name, commands in cases if "/" in name]
    programs = [str(Path(each).absolute()) for each in (arguments.before, arguments.after)]
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(arguments.keep or temporary)

        def compare(case: Case) -> list[str]:
            name, commands = case
            folders = (home / side / name for side in ("before", "after"))
            pair = [
                outcome(program, commands, folder)
                for program, folder in zip(programs, folders, strict=True)
            ]
            return differences(*pair)

        failed = 0
        with ThreadPoolExecutor(arguments.workers) as pool:
            for (name, _), found in zip(cases, pool.map(compare, cases), strict=True):
                failed += bool(found)
                for each in found:
                    print(f"{name}: {each}", flush=True)
    print(f"{len(cases) - failed} of {len(cases)} cases unchanged")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
