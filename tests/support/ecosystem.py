"""Running foreign packages in processes of their own, and what to run them on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qops_batsim import read_platform, read_run, read_workload, simulate, verify
from qops_batsim.engine import EngineOptions, Simulation, format_jobs
from qops_batsim.platform import Platform, make_cluster, write_platform
from qops_batsim.protocol import SchedulerModule
from qops_batsim.workload import Workload, write_workload

SECONDS_ALLOWED = 900
"""Against processes that hang."""

OUR_SCHEDULERS = sorted(
    entry.name
    for entry in entry_points(group="qops_batsim.schedulers")
    if entry.value.startswith("qops_batsim.")
)


class Processes:
    """Starts processes, each at the head of a group, and finds those left behind."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._started: list[tuple[subprocess.Popen[bytes], Path]] = []

    def start(self, *command: object, **environment: str) -> subprocess.Popen[bytes]:
        log = self.directory / f"process{len(self._started)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        self._started.append((process, log))
        return process

    def finish(self, process: subprocess.Popen[bytes], exit_code: int = 0) -> str:
        """Wait for a process and return what it said; another exit code fails the test."""
        try:
            code: int | str = process.wait(SECONDS_ALLOWED)
        except subprocess.TimeoutExpired:
            code = f"none after {SECONDS_ALLOWED} s"
        said = {each.pid: log.read_text(errors="replace") for each, log in self._started}
        if code != exit_code:
            everything = "\n".join(text[-3000:] for text in said.values())
            pytest.fail(f"exit code {code} of {process.args!r}\n{everything}")
        return said[process.pid]

    def run(self, *command: object, exit_code: int = 0, **environment: str) -> str:
        """Run a process to its end; as :meth:`finish`."""
        return self.finish(self.start(*command, **environment), exit_code)

    def end(self) -> list[str]:
        """Kill whatever still runs, children included, and return what it was."""
        left = []
        for process, _ in self._started:
            itself = process.poll() is None
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            left.append(f"{'' if itself else 'a child of '}{process.args!r}")
            process.wait(SECONDS_ALLOWED)
        return left


class Example:
    """A platform and a workload in files, and what our engine makes of them in process."""

    def __init__(self, platform: Path, workload: Path) -> None:
        self.platform = platform
        self.workload = workload

    def simulate(
        self,
        scheduler: str | SchedulerModule,
        settings: Mapping[str, Any] | None = None,
        engine: EngineOptions | None = None,
    ) -> Simulation:
        platform = read_platform(self.platform)
        return simulate(scheduler, read_workload(self.workload), platform, settings, engine=engine)

    def jobs_csv(
        self,
        scheduler: str | SchedulerModule,
        settings: Mapping[str, Any] | None = None,
        engine: EngineOptions | None = None,
    ) -> str:
        """Return the ``_jobs.csv`` of a run in process."""
        return format_jobs(self.simulate(scheduler, settings, engine).ended_jobs)

    def starts(self, scheduler: str) -> dict[str, float]:
        """Return the start of each job (seconds) in a run in process."""
        ended = self.simulate(scheduler).ended
        return {each.job.id.partition("!")[2]: round(each.start, 6) for each in ended}

    def verified_starts(self, prefix: Path) -> dict[str, float]:
        """Check that a run is right and executed every job; return the starts (seconds)."""
        workload = read_workload(self.workload)
        result = read_run(prefix, hosts=len(read_platform(self.platform).compute_hosts))
        assert verify(result, workloads={"w0": workload}) == []
        assert result.executed.all()
        assert len(result.jobs) == len(workload.jobs)
        starts = result.column("starting_time")
        return dict(zip(result.jobs["job_id"].astype(str), map(float, starts), strict=True))


def four_hosts(directory: Path) -> Path:
    """Write a platform of four equal hosts without latencies."""
    return with_watts(make_cluster(4), directory / "four_hosts.xml")


def with_watts(platform: Platform, path: Path) -> Path:
    """Write a platform each of whose hosts consumes energy: batsim-py always asks for it."""
    hosts = [
        replace(host, properties={**host.properties, "wattage_per_state": "10:20:30"})
        for host in platform.compute_hosts
    ]
    write_platform(replace(platform, compute_hosts=tuple(hosts)), path)
    return path


def first_jobs(workload: Path, count: int, directory: Path) -> Path:
    """Write a workload of the first jobs of another one."""
    whole = read_workload(workload)
    path = directory / "first_jobs.json"
    jobs = whole.jobs[:count]
    profiles = {job.profile: whole.profiles[job.profile] for job in jobs}
    write_workload(Workload(jobs=jobs, profiles=profiles, processors=whole.processors), path)
    return path


def delays(directory: Path, rows: list[tuple[float, int, float, float]]) -> Path:
    """Write a workload from (submission, processors, run time, walltime) rows."""
    path = directory / "workload.json"
    jobs = [
        {"id": str(index), "subtime": when, "res": size, "profile": str(run), "walltime": limit}
        for index, (when, size, run, limit) in enumerate(rows)
    ]
    profiles = {str(run): {"type": "delay", "delay": run} for _, _, run, _ in rows}
    path.write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}))
    return path
