"""Running a scheduler with the real Batsim, as a child process.

Our decision module is the server of the exchange, in this process, on a free
port of the loopback interface; Batsim connects to it. Whatever happens, Batsim
is not left behind: it is told to end, and killed after a grace period, when our
module fails, when it stops answering, on Ctrl-C and on SIGTERM or SIGHUP; and it is
killed should this process itself be killed.

Batsim writes into a directory of its own next to the output prefix. Its files join
the set of the run's files only when the simulation has ended well, so that a failed
run leaves an earlier result as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.engine.engine_options import EngineOptions, check_cancellations, outages_of
from qops_batsim.engine.host_states import machine_in_use
from qops_batsim.engine.shared_hosts import check_hosts_asked
from qops_batsim.errors import InputError
from qops_batsim.file_set import WORKING_DIRECTORY, FileSet
from qops_batsim.files import errors_of_writing, pending_directory
from qops_batsim.platform.platform_model import Platform
from qops_batsim.protocol.driver import ModuleDriver
from qops_batsim.protocol.events import JobCompleted, SimulationBegins, SimulationEnds
from qops_batsim.protocol.port import SchedulerModule
from qops_batsim.protocol.session import EngineTalk
from qops_batsim.protocol.zeromq import ConnectionLost, listen
from qops_batsim.running.installation import Batsim, BatsimError
from qops_batsim.running.processes import ChildProcess
from qops_batsim.running.releases import Release, release_of
from qops_batsim.running.simulate import describe_run, publish_run, refuse_smaller_machine
from qops_batsim.signals import ending_signals_raise
from qops_batsim.workload.workload_model import Workload


class BatsimRun(msgspec.Struct, frozen=True, kw_only=True):
    """A simulation that the real Batsim has completed.

    Hosts are the compute hosts used; jobs that were killed or rejected count as ended.
    """

    hosts: int
    jobs_ended: int


def drive_batsim(
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
    """Run one simulation with the real Batsim, in which ``driver`` makes the decisions.

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
        release = release_of(batsim.major)
        with errors_of_writing(files.prefix):
            inputs = release.write_inputs(platform, workload, options, directory)
        with closing(_BatsimListener(driver, release, timeout)) as server:
            further = release.arguments(options, log_level, server.endpoint, directory)
            with _started([str(batsim.path), *inputs, *further], on_log_line) as child:
                server.serve(child)

        release.adopt(files, directory, options)

    return BatsimRun(
        hosts=server.hosts, jobs_ended=server.jobs_completed + len(driver.log.rejected)
    )


def check_machine(
    workload: Workload, platform: Platform, options: EngineOptions, *, allow_smaller_machine: bool
) -> None:
    """Raise an InputError if a platform has no master, or too few hosts for a workload."""
    if platform.master is None:
        raise InputError(
            f"{platform.source}: no master; for Batsim, a host named master_host or one with "
            "role master is expected"
        )

    hosts = options.hosts
    available = len(platform.compute_hosts)
    if hosts is not None and not 1 <= hosts <= available:
        raise InputError(
            f"{platform.source}: {hosts} hosts were asked for; from 1 to {available} are accepted"
        )

    used = available if hosts is None else hosts
    if not allow_smaller_machine:
        refuse_smaller_machine(workload, platform, used)
    in_use = machine_in_use(platform, hosts)
    check_hosts_asked(workload.source, workload.columns, in_use, platform.source)
    outages_of(options.external_events or (), used)
    check_cancellations(options.external_events or (), {"w0": workload})


class _BatsimListener:
    """The scheduler's side of Batsim's protocol, on a free loopback port."""

    def __init__(self, driver: ModuleDriver, release: Release, timeout: float) -> None:
        self._talk = EngineTalk(driver, asked=release.asked)
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
        """Answer Batsim's messages until the simulation and Batsim end."""
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
            message = self._talk.read(text)
        except InputError as error:
            raise BatsimError(f"batsim sent a wrong {error}") from None

        told = [] if message is None else [item.body for item in message.events]
        if message is not None:
            self._when = f"after {message.now:.6f} s"
        for event in told:
            if type(event) is JobCompleted:
                self.jobs_completed += 1
            elif type(event) is SimulationBegins:
                self.hosts = event.nb_compute_resources

        self._socket.send(self._talk.reply(message))
        return bool(told) and type(told[-1]) is SimulationEnds

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
        """If Batsim has ended, read its last messages and raise a BatsimError."""
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


def write_batsim_run(
    run: BatsimRun,
    batsim: Batsim,
    files: FileSet,
    *,
    scheduler: str,
    module: SchedulerModule,
    workload: str,
    platform: str | None,
    options: EngineOptions | None = None,
    machine: Platform | None = None,
    further: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Put Batsim's output files into place, with ours (promises, decisions, description)."""
    description = describe_run(
        *(scheduler, module, workload, platform, run.hosts, options or EngineOptions()), machine
    )
    description |= {"engine": "batsim", "batsim_version": batsim.version, **(further or {})}
    return publish_run(files, module, scheduler, description)
