"""What the parts of the soak share: cases by seed, in child processes that are watched.

A part is a module with a function ``case(seed, folder, tally)`` that does what the seed says in
an empty folder of its own, counts what it tried (``tally.count("files")``) and tells what failed
(``tally.fail("exit 1", "all that helps")``; failures of one kind are shown together). If it
has a function ``prepare()``, that is called first in each process, and may take its time. An
exception that it lets out is a failure as well, and so is a case that takes longer than the
part's limit, or that ends its process.
"""

from __future__ import annotations

import ctypes
import importlib
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Part:
    """A kind of cases: the module that does them, and how long one may take.

    ``limit`` is in seconds of processor time, so that other work on the machine is no failure; by
    the clock a case may take :data:`IDLE` times as long.
    """

    module: str
    limit: float = 180.0


PARTS = {
    "files": Part("mutated_files", 100.0),
    "logs": Part("known_logs", 100.0),
    "results": Part("wrong_results", 100.0),
    "options": Part("random_options", 100.0),
    "peers": Part("hostile_peers"),
    "engines": Part("odd_engines"),
    "schedulers": Part("odd_schedulers"),
    "sockets": Part("hostile_sockets"),
    "batsim5": Part("hostile_batsim5", 600.0),
    "runs": Part("random_runs"),
    "code": Part("own_code"),
    "long": Part("long_runs", 600.0),
    "interrupted": Part("interrupted"),
}
"""The parts by name, in order."""

IDLE = 10
"""Times that a case may wait as long as it may compute."""

ADDRESS_SPACE = 8 << 30
"""Most memory that a worker may map (bytes), so that a fault does not take the machine along."""


PR_SET_PDEATHSIG = 1
"""Linux's number of what sends a signal when the parent ends."""


class Tally:
    """What a case tried, and what failed."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[tuple[str, str]] = []

    def count(self, what: str, number: int = 1) -> None:
        """Count tried cases."""
        self.counts[what] += number

    def fail(self, kind: str, detail: str = "") -> None:
        """Note a failure; those of one kind are shown as one."""
        self.failures.append((kind, detail))


@dataclass
class Findings:
    """What the cases of a part did."""

    cases: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    """Seed and detail of each failure, by kind."""


def soak(
    part: Part,
    first: int,
    cases: int | None,
    seconds: float | None,
    workers: int,
) -> Findings:
    """Do a number of cases of a part, or as many as fit into a time after preparation."""
    findings = Findings()
    last = None if cases is None else first + cases
    running = {}
    for place in range(workers):
        worker = _Worker(part, range(first + place, sys.maxsize, workers), last, seconds)
        running[worker.connection] = worker
    while running:
        for ready in wait(list(running), timeout=1.0):
            worker = running[ready]  # type: ignore[index]
            if worker.hear(findings):
                continue
            del running[worker.connection]
            if not worker.done:
                code = worker.process.exitcode
                after = worker.give_up(findings, f"ended its process (exit code {code})")
                running[after.connection] = after
        for worker in list(running.values()):
            if worker.is_late():
                del running[worker.connection]
                after = worker.give_up(findings, "took too long")
                running[after.connection] = after
    return findings


class _Worker:
    """A child process that does every n-th case."""

    def __init__(self, part: Part, seeds: range, last: int | None, seconds: float | None) -> None:
        self.part = part
        self.seeds = seeds
        self.last = last
        self.seconds = seconds
        self.connection, theirs = multiprocessing.Pipe()
        # A fresh interpreter: cases must not depend on what the others did to ours.
        context = multiprocessing.get_context("spawn")
        self.process = context.Process(
            target=_work, args=(theirs, part, seeds, last, seconds), daemon=True
        )
        self.process.start()
        theirs.close()
        self.seed = seeds.start
        self.began: float | None = None
        self.since: float | None = None
        self.used = 0.0
        self.done = False

    def hear(self, findings: Findings) -> bool:
        """Take in what the worker tells; return whether there may be more."""
        try:
            told: Any = self.connection.recv()
        except EOFError:
            self.process.join(5)
            return False
        if told is None:
            self.done = True
            return False
        if isinstance(told, int):
            self.seed = told
            self.since = time.monotonic()
            self.used = processor_time(self.process.pid)
            self.began = self.began or self.since
            return True
        counts, failures = told
        self.since = None
        findings.cases += 1
        findings.counts.update(counts)
        for kind, detail in failures:
            findings.failures[kind].append((self.seed, detail))
        return True

    def is_late(self) -> bool:
        """Tell whether the case takes longer than the part allows."""
        if self.since is None or time.monotonic() < self.since + self.part.limit:
            return False
        waited = time.monotonic() - self.since
        used = processor_time(self.process.pid) - self.used
        return used > self.part.limit or waited > IDLE * self.part.limit

    def give_up(self, findings: Findings, why: str) -> _Worker:
        """Note that the case failed; return a worker for those that follow."""
        self.process.kill()
        self.process.join()
        if self.since is None or self.began is None:
            sys.exit(f"a worker {why} outside of its cases")
        findings.cases += 1
        findings.failures[why].append((self.seed, ""))
        others = self.seeds[self.seeds.index(self.seed) + 1 :]
        left = None if self.seconds is None else self.seconds + self.began - time.monotonic()
        return _Worker(self.part, others, self.last, left)


def processor_time(process: int | None) -> float:
    """Return the processor time of a process and of its ended children (seconds); 0 if it ended."""
    try:
        numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return sum(map(int, numbers[11:15])) / os.sysconf("SC_CLK_TCK")


def _work(
    connection: Connection, part: Part, seeds: range, last: int | None, seconds: float | None
) -> None:
    # No worker outlives the process that started it.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ |= {"NO_COLOR": "1", "COLUMNS": "120"}
    module = importlib.import_module(part.module)
    case, prepare = module.case, getattr(module, "prepare", None)
    if prepare is not None:
        prepare()
    end = None if seconds is None else time.monotonic() + seconds
    for seed in seeds:
        if (last is not None and seed >= last) or (end is not None and time.monotonic() >= end):
            break
        connection.send(seed)
        tally = Tally()
        with tempfile.TemporaryDirectory(prefix="soak") as folder:
            try:
                case(seed, Path(folder), tally)
            except Exception as error:  # noqa: BLE001
                tally.fail(f"{type(error).__name__} let out", traceback.format_exc())
        connection.send((tally.counts, tally.failures))
    connection.send(None)
