"""Measurements, each in a process of its own: CPU seconds, ratios to the reference, memory."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from cases import CONTESTANTS, HERE, Case
from reference import easy, reference_jobs, reference_seconds

from qops_batsim.engine.simulation import Simulation
from qops_batsim.jobs import REJECTED
from qops_batsim.kernels import compiling
from qops_batsim.platform import read_platform
from qops_batsim.protocol.decisions import ExecuteJob, RejectJob
from qops_batsim.protocol.events import JobSubmitted
from qops_batsim.protocol.messages import Message
from qops_batsim.protocol.zeromq import RemoteDecisionSide
from qops_batsim.running.simulate import simulate
from qops_batsim.scheduling.driver import ModuleDriver
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload import read_workload

KIB_PER_UNIT = 1 if sys.platform != "darwin" else 1 / 1024
COMMAND = [sys.executable, "-c", "from qops_batsim.cli.main import main; main()"]
QUEUES = (0, 10, 100, 1000)
"""Waiting jobs are counted in classes that begin here."""

SILENCE = 60.0
"""No side waits longer for the other (seconds)."""


class Used(NamedTuple):
    """CPU time (seconds) and peak memory (MiB) of a finished command."""

    seconds: float
    mebibytes: float


LAUNCH = """
import json, os, subprocess, sys
process = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
with open(sys.argv[1], "w") as file:
    json.dump([usage.ru_utime + usage.ru_stime, usage.ru_maxrss], file)
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""A small process that starts a command: a new one counts the memory of who made it as its own."""


class Started:
    """A command that runs; :meth:`used` waits for its end."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        self._command = command
        number, self._report = tempfile.mkstemp()
        os.close(number)
        launch = [sys.executable, "-S", "-c", LAUNCH, self._report, *command]
        self._process = subprocess.Popen(launch, stderr=subprocess.PIPE, text=True, **options)

    def used(self) -> Used:
        """Return what it took; SystemExit with what it said if it failed."""
        _, said = self._process.communicate()
        text = Path(self._report).read_text()
        os.unlink(self._report)
        if self._process.returncode:
            raise SystemExit(f"{' '.join(self._command)} failed:\n{said}")
        seconds, memory = json.loads(text)
        return Used(seconds, memory * KIB_PER_UNIT / 1024)


def spent(command: Sequence[str], **options: Any) -> Used:
    """Run a command to its end."""
    return Started(command, **options).used()


def in_child(what: str, *arguments: object) -> Any:
    """Return what a function of :data:`CHILDREN` returns in a process of its own."""
    command = [sys.executable, HERE, "--child", json.dumps([what, *arguments])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def in_process(case: list[Any], contestant: str, rounds: int) -> dict[str, float]:
    """Return jobs/s of ``simulate()`` at best, and the median of its ratios to the reference."""
    _, workload_file, platform_file, count, hosts = Case(*case)
    scheduler, given = CONTESTANTS[contestant]
    settings = dict(each.split("=") for each in given)
    workload, platform = read_workload(workload_file), read_platform(platform_file)
    jobs = reference_jobs(workload)
    with compiling():  # A short run leaves kernels to the next one.
        done = simulate(scheduler, workload, platform, settings)
    if scheduler == "easy":
        ours = sorted(record.start for record in done.ended if record.state != REJECTED)
        if ours != sorted(easy(jobs, hosts)):
            raise SystemExit(f"{workload_file}: the reference loop starts jobs at other dates")
    best, ratios = float("inf"), []
    for _ in range(rounds):
        reference = reference_seconds(jobs, hosts)
        began = time.process_time()
        simulate(scheduler, workload, platform, settings)
        seconds = time.process_time() - began
        best = min(best, seconds)
        ratios.append(reference / seconds)
    return {"jobs_per_second": count / best, "to_reference": statistics.median(ratios)}


def reference(case: list[Any], rounds: int) -> dict[str, float]:
    """Return jobs/s of the reference loop at best."""
    made = Case(*case)
    jobs = reference_jobs(read_workload(made.workload))
    best = min(reference_seconds(jobs, made.hosts) for _ in range(rounds))
    return {"jobs_per_second": made.jobs / best}


def whole_command(case: Case, contestant: str, rounds: int) -> dict[str, float]:
    """Return jobs/s of ``run --quiet`` at best, its peak memory, and its ratio to the reference."""
    scheduler, given = CONTESTANTS[contestant]
    settings = [word for each in given for word in ("--set", each)]
    best, ratios = Used(float("inf"), 0.0), []
    with tempfile.TemporaryDirectory() as directory:
        inputs = ["-w", case.workload, "-p", case.platform, "--out", f"{directory}/x"]
        command = [*COMMAND, "run", scheduler, "--quiet", *inputs, *settings]
        spent(command)  # The first run compiles.
        for _ in range(rounds):
            speed = in_child("reference", case, 1)["jobs_per_second"]
            used = spent(command)
            best = min(best, used)
            ratios.append(case.jobs / used.seconds / speed)
    return {
        "jobs_per_second": case.jobs / best.seconds,
        "to_reference": statistics.median(ratios),
        "seconds": best.seconds,
        "mebibytes": best.mebibytes,
    }


@contextmanager
def serving(scheduler: str, directory: str) -> Iterator[str]:
    """Start a decision process that serves one simulation after the other."""
    command = [*COMMAND, "serve", scheduler, "--loop", "--socket", "tcp://127.0.0.1:*"]
    command += ["--timeout", str(SILENCE), "--out", f"{directory}/served"]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "listens at" in line:
                break
        else:
            raise SystemExit("the decision process did not start")
        yield line.split()[-1]
    finally:
        process.terminate()
        process.communicate(timeout=SILENCE)


def over_zeromq(case: list[Any], scheduler: str, rounds: int) -> dict[str, float]:
    """Return jobs/s of our engine and our decision process, joined by a socket, by the clock.

    Timed from the first message to the last, as two processes work in turns.
    """
    made = Case(*case)
    workload, platform = read_workload(made.workload), read_platform(made.platform)
    jobs = reference_jobs(workload)
    best, ratios = float("inf"), []
    with tempfile.TemporaryDirectory() as directory, serving(scheduler, directory) as endpoint:
        for _ in range(rounds + 1):
            reference = reference_seconds(jobs, made.hosts)
            with RemoteDecisionSide(endpoint, timeout=SILENCE) as peer:
                simulation = Simulation(platform, [workload], peer)
                began = time.perf_counter()
                simulation.run()
                seconds = time.perf_counter() - began
            best = min(best, seconds)
            ratios.append(reference / seconds)
    return {"jobs_per_second": made.jobs / best, "to_reference": statistics.median(ratios[1:])}


class TimedPeer:
    """A decision module whose answers are timed, by the number of jobs that wait meanwhile."""

    def __init__(self, driver: ModuleDriver) -> None:
        self.driver = driver
        self.waiting = 0
        self.answers: list[tuple[int, int]] = []

    def exchange(self, message: Message[Any]) -> Message[Any]:
        """Let the module answer; O(1) beside that."""
        self.waiting += sum(type(item.body) is JobSubmitted for item in message.events)
        began = time.process_time_ns()
        answer = self.driver.exchange(message)
        self.answers.append((self.waiting, time.process_time_ns() - began))
        self.waiting -= sum(type(item.body) in (ExecuteJob, RejectJob) for item in answer.events)
        return answer


def latencies(case: list[Any], scheduler: str) -> list[dict[str, float]]:
    """Return the CPU milliseconds of single answers by queue length: p50, p99 and the longest."""
    made = Case(*case)
    workload, platform = read_workload(made.workload), read_platform(made.platform)
    for _ in range(2):  # The first run compiles.
        peer = TimedPeer(ModuleDriver(make_scheduler(scheduler), any_engine=True))
        Simulation(platform, [workload], peer).run()
    rows = []
    for first, beyond in zip(QUEUES, [*QUEUES[1:], float("inf")], strict=True):
        times = sorted(spent for waiting, spent in peer.answers[1:] if first <= waiting < beyond)
        if times:
            p50, p99 = (times[int(share * (len(times) - 1))] / 1e6 for share in (0.5, 0.99))
            longest = times[-1] / 1e6
            counted = {"from": first, "answers": len(times)}
            rows.append({**counted, "p50": p50, "p99": p99, "max": longest})
    return rows


CHILDREN = {each.__name__: each for each in (in_process, reference, over_zeromq, latencies)}


def answer_parent(request: str) -> None:
    """Do what the parent process asks for, and print the result as JSON."""
    what, *arguments = json.loads(request)
    print(json.dumps(CHILDREN[what](*arguments)))
