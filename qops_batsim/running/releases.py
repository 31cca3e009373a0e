"""Batsim releases: their command lines, input and output files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np

from qops_batsim.engine.ended_jobs import HostChanges
from qops_batsim.engine.engine_options import (
    EngineOptions,
    ExternalEvent,
    format_external_events,
    outages_of,
)
from qops_batsim.engine.outputs import format_machine_states
from qops_batsim.errors import InputError, did_you_mean
from qops_batsim.file_set import FileSet
from qops_batsim.files import read_bytes
from qops_batsim.limits import MAX_HOSTS
from qops_batsim.measures.results.result_tables import AVERAGED, read_jobs_table, read_totals
from qops_batsim.measures.results.run_files import RunInfo
from qops_batsim.measures.results.run_result import RunResult, submitted_once
from qops_batsim.measures.results.series import busy_hosts, computing_periods
from qops_batsim.platform.platform_model import Outage, Platform
from qops_batsim.platform.simgrid_read import read_platform
from qops_batsim.platform.simgrid_write import write_platform
from qops_batsim.running.installation import BatsimError
from qops_batsim.workload.batsim5 import format_batsim5
from qops_batsim.workload.batsim_json import read_workload, write_workload
from qops_batsim.workload.workload_model import Workload

LOG_LEVELS = ("quiet", "network-only", "information", "debug")
"""Levels of Batsim's log (its option ``--verbosity``)."""

_EXPORT = "run"

_COORDINATES = b"network/coordinates"
"""Configuration in a platform's file, without effect, on which a recent SimGrid aborts."""

AnyJobs = Workload | str | Path
AnyMachine = Platform | str | Path


class Release(ABC):
    """How to start a release of Batsim, and how to convert its output."""

    asked: ClassVar[Mapping[str, bool]] = {}
    """Features to ask the simulation for in addition to those that the scheduler needs."""

    events_option: ClassVar[str]

    def write_inputs(
        self, platform: AnyMachine, workload: AnyJobs, options: EngineOptions, directory: Path
    ) -> list[str]:
        """Write platform, workload and events for Batsim; return the arguments that name them."""
        machine = self._machine(platform, directory / "platform.xml")
        jobs = self._jobs(workload, directory / "workload.json")
        arguments = ["-p", str(machine), "-w", str(jobs)]
        if options.external_events is not None:
            events = directory / "events.txt"
            told = [self._event(each) for each in options.external_events]
            events.write_text(format_external_events(told))
            arguments += [self.events_option, str(events)]
        return arguments

    def machine(self, platform: Platform) -> Platform:
        """Return a platform with its hosts in the order in which this release numbers hosts."""
        return platform

    @abstractmethod
    def arguments(
        self, options: EngineOptions, log_level: str, endpoint: str, directory: Path
    ) -> list[str]:
        """Return the command-line arguments other than the input files."""

    @abstractmethod
    def adopt(self, files: FileSet, directory: Path, options: EngineOptions) -> None:
        """Add Batsim's output in ``directory`` to the files of a run, in our formats."""

    def _machine(self, platform: AnyMachine, path: Path) -> Path:
        if isinstance(platform, Platform):
            write_platform(platform, path)
            return path
        return _plain_file(platform, path, "a platform (XML)")

    @abstractmethod
    def _jobs(self, workload: AnyJobs, path: Path) -> Path: ...

    def _event(self, event: ExternalEvent) -> ExternalEvent:
        return event


def batsim_arguments(options: EngineOptions, log_level: str = "information") -> list[str]:
    """Return Batsim 4's command-line arguments for these options, without files."""
    _check_level(log_level)
    arguments = ["--disable-schedule-tracing"]  # the Pajé trace, which nothing here reads
    if log_level != "information":
        arguments += ["-v", log_level]
    if options.hosts is not None:
        arguments += ["--mmax", str(options.hosts)]
    if options.sched_config:
        arguments += ["--sched-cfg", options.sched_config]
    flags = {
        "--enable-compute-sharing": options.compute_sharing,
        "--disable-storage-sharing": not options.storage_sharing,
        "--enable-dynamic-jobs": options.dynamic_jobs,
        "--acknowledge-dynamic-jobs": options.dynamic_jobs and options.acknowledge_dynamic_jobs,
        "--enable-profile-reuse": options.dynamic_jobs and options.profile_reuse,
        "--forward-profiles-on-submission": options.forward_profiles,
        "--energy": options.energy,
        "--forward-unknown-events": options.forward_unknown_events,
    }
    return arguments + [flag for flag, given in flags.items() if given]


def _check_level(log_level: str) -> None:
    if log_level not in LOG_LEVELS:
        raise InputError(f"unknown log level {log_level!r}{did_you_mean(log_level, LOG_LEVELS)}")


class _Release4(Release):
    """Batsim 3.1 to 4.2, whose files have the form of ours."""

    events_option = "--events"

    def arguments(
        self, options: EngineOptions, log_level: str, endpoint: str, directory: Path
    ) -> list[str]:
        places = ["-e", str(directory / _EXPORT), "-s", endpoint]
        return [*places, *batsim_arguments(options, log_level)]

    def adopt(self, files: FileSet, directory: Path, options: EngineOptions) -> None:
        found = {path.name.removeprefix(_EXPORT): path for path in directory.glob(f"{_EXPORT}_*")}
        if "_jobs.csv" not in found:
            raise BatsimError("batsim ended well, but wrote no _jobs.csv")
        for name in sorted(found):
            files.adopt(name, found[name])

    def _jobs(self, workload: AnyJobs, path: Path) -> Path:
        if isinstance(workload, Workload):
            write_workload(workload, path)
            return path
        return _plain_file(workload, path, "a Batsim workload (JSON)")


class _Release5(Release):
    """Batsim 5, whose workloads, events and output differ."""

    # Its workload is ours, in which every profile is a job's.
    asked: ClassVar[Mapping[str, bool]] = {"forward_profiles_on_simulation_begins": True}
    events_option = "--external-events"

    _LEVELS: ClassVar[Mapping[str, str]] = {
        "quiet": "quiet",
        "network-only": "quiet",
        "information": "info",
        "debug": "debug",
    }

    def machine(self, platform: Platform) -> Platform:
        return platform.numbered_by_value()

    def arguments(
        self, options: EngineOptions, log_level: str, endpoint: str, directory: Path
    ) -> list[str]:
        _check_level(log_level)
        places = ["-e", f"{directory / _EXPORT}/", "-s", endpoint, options.sched_config]
        limit = [] if options.hosts is None else ["--mmax", str(options.hosts)]
        energy = ["--energy-host", "--trace-pstate-changes"] if options.energy else []
        return [*places, "-v", self._LEVELS[log_level], *limit, *energy]

    def adopt(self, files: FileSet, directory: Path, options: EngineOptions) -> None:
        if not (directory / _EXPORT / "jobs.csv").is_file():
            raise BatsimError("batsim ended well, but wrote no jobs.csv")
        outages = outages_of(options.external_events or (), MAX_HOSTS)
        write_as_batsim4(directory / _EXPORT, files, outages)

    def _machine(self, platform: AnyMachine, path: Path) -> Path:
        given = super()._machine(platform, path)
        if _COORDINATES in given.read_bytes():
            write_platform(read_platform(given), path)
            return path
        return given

    def _jobs(self, workload: AnyJobs, path: Path) -> Path:
        jobs = workload if isinstance(workload, Workload) else read_workload(workload)
        text, _ = format_batsim5(jobs, only_used=True, directory=path.parent)
        path.write_text(text)
        return path

    def _event(self, event: ExternalEvent) -> ExternalEvent:
        """Return an event as a generic one, the only kind of Batsim 5; its text tells its type."""
        fields = {name: each for name, each in event.fields.items() if name != "timestamp"}
        told = {"data": msgspec.json.encode(fields).decode()}
        return msgspec.structs.replace(event, type="generic", fields=told)


def release_of(major: int) -> Release:
    """Return the release of Batsim with this major version; 3 and 4 are alike."""
    return _RELEASES.get(major, _RELEASES[4])


_RELEASES: dict[int, Release] = {4: _Release4(), 5: _Release5()}


def _plain_file(path: str | Path, unpacked: Path, what: str) -> Path:
    """Return a file that Batsim can read: the path, or an unpacked copy."""
    if Path(path).exists() and not Path(path).is_file():
        raise InputError(f"{path}: Batsim reads {what} by itself; a regular file is expected")
    content = read_bytes(path, what=what)
    with open(path, "rb") as stream:
        is_plain = stream.read(2) == content[:2]
    if is_plain:
        return Path(path).absolute()
    unpacked.write_bytes(content)
    return unpacked


_OTHERS = ("consumed_energy", "pstate_changes")
"""Files in addition to those of every run, which are as in Batsim 4."""


def write_as_batsim4(directory: Path, files: FileSet, outages: Sequence[Outage]) -> None:
    """Convert Batsim 5's output to Batsim 4's and add it to the files of a run.

    ``jobs.csv`` differs in the names of profiles, and tells of a job that is run again when that
    run was registered, not when the job was submitted. Totals are JSON (``schedule.json``). In
    5.0.0-rc2 a host that has computed once counts as computing for ever, in ``machine_states.csv``
    as in the times of the totals: these are found from the jobs instead. ``outages`` are the times
    in which hosts were away, of which Batsim 5 knows nothing.
    """
    path = directory / "jobs.csv"
    totals = read_totals(directory / "schedule.json")
    told = read_jobs_table(path)
    hosts = int(totals["nb_computing_machines"])
    info = RunInfo(outages=list(outages))
    source = str(directory), path.name
    result = submitted_once(RunResult(*source, told, hosts, "schedule.json", totals, info=info))
    numbers = result.table.numbers

    if numbers is told.numbers:
        files.adopt("_jobs.csv", path)
    else:
        import pandas as pd

        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
        for name in ("submission_time", *AVERAGED.values()):
            frame[name] = np.where(frame[name] == "", "", np.char.mod("%.6f", numbers[name]))
        with files.open("_jobs.csv") as stream:
            stream.write(frame.to_csv(index=False, lineterminator="\n").encode())

    of_host, begins, ends = computing_periods(result)
    computing = float((ends - begins).sum())
    last = np.zeros(hosts)
    np.maximum.at(last, of_host.astype(np.int64), ends)
    times = {"time_computing": computing, "time_idle": float(last.sum()) - computing}
    totals = (result.schedule or {}) | times

    with files.open("_schedule.csv") as stream:
        names = sorted(totals)
        stream.write(f"{','.join(names)}\n".encode())
        stream.write(f"{','.join(_number(totals[name]) for name in names)}\n".encode())

    with files.open("_machine_states.csv") as stream:
        start, finish = (
            each[result.executed] for each in result.columns("starting_time", "finish_time")
        )
        dates = np.sort(np.concatenate([start, finish]))
        busy = busy_hosts(result).at(dates).astype(np.int64)
        stream.write(format_machine_states(HostChanges(dates, busy, hosts - busy)).encode())

    for name in _OTHERS:
        if (directory / f"{name}.csv").is_file():
            files.adopt(f"_{name}.csv", directory / f"{name}.csv")


def _number(value: float) -> str:
    if np.isnan(value):
        return "-nan"
    return str(int(value)) if value.is_integer() else f"{value:.6f}"
