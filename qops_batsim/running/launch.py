"""Running a scheduler with the real Batsim, as a child process.

Our decision module is the server of the exchange, in this process, on a free
port of the loopback interface; Batsim connects to it. Whatever happens, Batsim
is not left behind: it is told to end, and killed after a grace period, when our
module fails, when it stops answering, on Ctrl-C and on SIGTERM or SIGHUP; and it is
killed should this process itself be killed.

Batsim writes into a directory of its own beside the output prefix. Its files join
the set of the run's files only when the simulation has ended well, so that a failed
run leaves an earlier result as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.engine.options import (
    EngineOptions,
    check_cancellations,
    format_external_events,
    outages_of,
)
from qops_batsim.errors import InputError, did_you_mean
from qops_batsim.file_set import WORKING_DIRECTORY, FileSet
from qops_batsim.files import errors_of_writing, pending_directory, read_bytes
from qops_batsim.platform.model import Platform
from qops_batsim.platform.simgrid_write import write_platform
from qops_batsim.protocol.events import JobCompleted, SimulationBegins, SimulationEnds
from qops_batsim.protocol.messages import decode_events, encode_message
from qops_batsim.protocol.zeromq import ConnectionLost, listen
from qops_batsim.running.installation import Batsim, BatsimError
from qops_batsim.running.processes import ChildProcess
from qops_batsim.running.simulate import describe_run, publish_run, refuse_smaller_machine
from qops_batsim.scheduling.driver import ModuleDriver
from qops_batsim.scheduling.event_check import EventCheck
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.signals import ending_signals_raise
from qops_batsim.workload.batsim_json import write_workload
from qops_batsim.workload.model import Workload

LOG_LEVELS = ("quiet", "network-only", "information", "debug")
"""Levels of Batsim's log (its option ``--verbosity``)."""

_EXPORT = "run"


class BatsimRun(msgspec.Struct, frozen=True, kw_only=True):
    """A simulation that Batsim has ended.

    Hosts are the compute hosts used; jobs that were killed or rejected count as ended.
    """

    hosts: int
    jobs_ended: int


def run_batsim(
    batsim: Batsim,
    driver: ModuleDriver,
    *,
    workload: Workload | str | Path,
    platform: Platform | str | Path,
    files: FileSet,
    options: EngineOptions | None = None,
    timeout: float = 300.0,
    log_level: str = "information",
    on_log_line: Callable[[str], None] | None = None,
) -> BatsimRun:
    """Run one simulation with the real Batsim; ``driver`` decides.

    Parameters
    ----------
    workload
        A workload to write for Batsim, or a file; a compressed one is unpacked.
    platform
        A platform to write for Batsim, or a file likewise.
    files
        The set that Batsim's files are added to; they are not yet in place.
    options
        What the simulation allows.
    timeout
        Longest wait for Batsim's next message, and for its end after the last
        (seconds).
    log_level
        One of :data:`LOG_LEVELS`.
    on_log_line
        Called, in another thread, with each line that Batsim prints.

    Raises
    ------
    BatsimError
        Batsim fails, ends too early, does not answer in time or sends what is no
        message.
    """
    options = options or EngineOptions()
    place = files.path(WORKING_DIRECTORY)
    with ending_signals_raise(), pending_directory(place) as directory:
        with errors_of_writing(files.prefix):
            inputs = _input_arguments(platform, workload, directory)
            if options.external_events is not None:
                events = directory / "events.txt"
                events.write_text(format_external_events(options.external_events))
                inputs += ["--events", str(events)]
        arguments = batsim_arguments(options, log_level)
        with closing(_BatsimListener(driver, timeout)) as server:
            outputs = ["-e", str(directory / _EXPORT), "-s", server.endpoint]
            command = [str(batsim.path), *inputs, *outputs, *arguments]
            with _started(command, on_log_line) as child:
                server.serve(child)
        _adopt(files, directory)
    return BatsimRun(
        hosts=server.hosts, jobs_ended=server.jobs_completed + len(driver.log.rejected)
    )


def check_machine(
    workload: Workload, platform: Platform, options: EngineOptions, *, allow_smaller_machine: bool
) -> None:
    """Check that Batsim can run a workload on the hosts of a platform, which may go away."""
    if platform.master is None:
        raise InputError(
            f"{platform.source}: no master; for Batsim, a host named master_host or one with "
            "role master is expected"
        )
    hosts, available = options.hosts, len(platform.compute_hosts)
    if hosts is not None and not 1 <= hosts <= available:
        raise InputError(
            f"{platform.source}: {hosts} hosts were asked for; from 1 to {available} are accepted"
        )
    used = available if hosts is None else hosts
    if not allow_smaller_machine:
        refuse_smaller_machine(workload, platform, used)
    outages_of(options.external_events or (), used)
    check_cancellations(options.external_events or (), {"w0": workload})


def batsim_arguments(options: EngineOptions, log_level: str = "information") -> list[str]:
    """Return the command-line arguments of Batsim for these options; not those that are files."""
    if log_level not in LOG_LEVELS:
        raise InputError(f"unknown log level {log_level!r}{did_you_mean(log_level, LOG_LEVELS)}")
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


class _BatsimListener:
    """Our side of the exchange: answers Batsim on a free port of the loopback interface."""

    def __init__(self, driver: ModuleDriver, timeout: float) -> None:
        self._driver = driver
        self._check = EventCheck()
        self._timeout = timeout
        self._child: ChildProcess | None = None
        self._seen_ended = False
        self._when = "before its first message"
        self.hosts = 0
        self.jobs_completed = 0
        self._socket, self.endpoint = listen(
            "tcp://127.0.0.1:*", timeout=timeout, while_waiting=self._look_after_child
        )

    def close(self) -> None:
        self._socket.close()

    def serve(self, child: ChildProcess) -> None:
        """Answer Batsim's messages, up to the end of the simulation and of Batsim."""
        self._child = child
        while not self._answer(self._receive()):
            pass
        code = child.wait(self._timeout)
        if code is None:
            raise BatsimError(f"batsim still runs {self._timeout:g} s after the simulation's end")
        if code:
            raise _failure(child, code, "after the simulation's end")

    def _answer(self, text: bytes) -> bool:
        """Answer one message; return whether it was the last."""
        try:
            message = decode_events(text)
            self._check.check(message)
        except InputError as error:
            raise BatsimError(f"batsim sent a wrong {error}") from None
        self._when = f"after {message.now:.6f} s"
        for item in message.events:
            if type(item.body) is JobCompleted:
                self.jobs_completed += 1
            elif type(item.body) is SimulationBegins:
                self.hosts = item.body.nb_compute_resources
        answer = self._driver.exchange(message)
        self._check.note([item.body for item in answer.events])
        self._socket.send(encode_message(answer))
        return bool(message.events) and type(message.events[-1].body) is SimulationEnds

    def _receive(self) -> bytes:
        assert self._child is not None
        try:
            return self._socket.receive()
        except ConnectionLost as error:
            # A program that ends closes its connections first.
            code = self._child.wait(0.5)
            if code is not None:
                raise _failure(self._child, code, self._when) from None
            raise BatsimError(f"batsim {error} ({self._when})") from None
        except InputError as error:
            raise BatsimError(f"batsim sent a wrong {error}") from None

    def _look_after_child(self) -> None:
        """Raise when Batsim has ended, after one more look for what it said before."""
        assert self._child is not None
        code = self._child.exit_code()
        if code is not None:
            if self._seen_ended:
                raise _failure(self._child, code, self._when)
            self._seen_ended = True


def _started(command: list[str], on_log_line: Callable[[str], None] | None) -> ChildProcess:
    try:
        return ChildProcess(command, on_log_line)
    except OSError as error:
        raise BatsimError(f"batsim cannot be started ({error.strerror or error})") from None


def _failure(child: ChildProcess, code: int, when: str) -> BatsimError:
    words = child.last_words()
    log = f": {words}" if words else ", and it printed nothing"
    if code:
        return BatsimError(f"batsim failed {when} with exit code {code}{log}", code)
    return BatsimError(f"batsim ended {when}, before the simulation did{log}")


def _plain_file(path: str | Path, unpacked: Path, what: str) -> str:
    """Return a file that Batsim can read: the path itself, or where it has been unpacked."""
    if Path(path).exists() and not Path(path).is_file():
        raise InputError(f"{path}: Batsim reads {what} by itself; a regular file is expected")
    content = read_bytes(path, what=what)
    with open(path, "rb") as stream:
        is_plain = stream.read(2) == content[:2]
    if is_plain:
        return str(Path(path).absolute())
    unpacked.write_bytes(content)
    return str(unpacked)


def _input_arguments(
    platform: Platform | str | Path, workload: Workload | str | Path, directory: Path
) -> list[str]:
    """Return Batsim's arguments for its inputs; what it cannot read is written for it."""
    machine, jobs = directory / "platform.xml", directory / "workload.json"
    if isinstance(platform, Platform):
        write_platform(platform, machine)
    else:
        machine = Path(_plain_file(platform, machine, "a platform (XML)"))
    if isinstance(workload, Workload):
        write_workload(workload, jobs)
    else:
        jobs = Path(_plain_file(workload, jobs, "a Batsim workload (JSON)"))
    return ["-p", str(machine), "-w", str(jobs)]


def _adopt(files: FileSet, directory: Path) -> None:
    """Add Batsim's output files to the set of the run's."""
    found = {path.name.removeprefix(_EXPORT): path for path in directory.glob(f"{_EXPORT}_*")}
    if "_jobs.csv" not in found:
        raise BatsimError("batsim ended well, but wrote no _jobs.csv")
    for name in sorted(found):
        files.adopt(name, found[name])


def write_batsim_run(
    run: BatsimRun,
    batsim: Batsim,
    files: FileSet,
    *,
    scheduler: str,
    module: DecisionModule,
    workload: str,
    platform: str | None,
    options: EngineOptions | None = None,
    machine: Platform | None = None,
    further: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Write our files beside Batsim's, as :func:`~qops_batsim.running.simulate.write_run` does."""
    description = describe_run(
        *(scheduler, module, workload, platform, run.hosts, options or EngineOptions()), machine
    )
    description |= {"engine": "batsim", "batsim_version": batsim.version, **(further or {})}
    return publish_run(files, module, scheduler, description)
