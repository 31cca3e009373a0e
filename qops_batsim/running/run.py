"""A run from end to end: simulate, write the files, verify them."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from qops_batsim.arguments import CODE, PATH, SWITCH, TEXT, WHOLE, mapping, one_of, takes
from qops_batsim.code_record import not_covered_text
from qops_batsim.engine.engine_options import outages_of
from qops_batsim.engine.simulation import Simulation
from qops_batsim.errors import InputError, did_you_mean
from qops_batsim.file_set import run_files
from qops_batsim.files import read_bytes, read_stored
from qops_batsim.garbage import without_garbage_collection
from qops_batsim.limits import MAX_DESCRIPTION_BYTES
from qops_batsim.measures.metrics.measured import MeasuredFiles
from qops_batsim.measures.metrics.measures import Measures, promises, run_measures
from qops_batsim.measures.metrics.outcomes import PromiseCounts
from qops_batsim.measures.results.run_files import find_written
from qops_batsim.measures.results.run_result import RunResult, read_files
from qops_batsim.measures.verify.rule import Violation
from qops_batsim.measures.verify.rules_qos import PROMISE_RULES, Lateness
from qops_batsim.measures.verify.verifier import Verification
from qops_batsim.platform.platform_model import Platform
from qops_batsim.protocol.driver import ModuleDriver
from qops_batsim.protocol.port import AnyScheduler, SchedulerModule, make_scheduler
from qops_batsim.running.inputs import (
    EVENTS,
    PLATFORM,
    SCHEDULER,
    SETTINGS,
    WORKLOAD,
    AnyEvents,
    AnyPlatform,
    AnyWorkload,
    as_file,
    default_inputs,
    input_warnings,
    load_events,
    load_platform,
    load_workload,
    names_of,
)
from qops_batsim.running.installation import find_batsim
from qops_batsim.running.progress import ProgressListener
from qops_batsim.running.reference import EasyReference, RunInputs, easy_reference
from qops_batsim.running.repeated import Differences, differences, read_described
from qops_batsim.running.simulate import (
    default_engine,
    simulate,
    tell_platform,
    write_run,
    writing_what_ended,
)
from qops_batsim.schedulers.loading.plugins import (
    AllowedCode,
    digest_of_file,
    run_prefix,
    scheduler_of_data,
)
from qops_batsim.schedulers.registry import code_of_given
from qops_batsim.users.reacting import Reacting, format_wishes
from qops_batsim.users.user_model import Users, read_users
from qops_batsim.workload.batsim_json import format_workload
from qops_batsim.workload.workload_model import Workload

ENGINES = ("embedded", "batsim")

_LEAST_BYTES = 50
"""A row of ``_jobs.csv`` has no fewer."""


class BatsimCall(msgspec.Struct, frozen=True, kw_only=True):
    """How to start the real Batsim.

    The executable (None: the one on PATH), how much it says (``quiet``, ``network-only``,
    ``information`` or ``debug``), and the longest wait for its next message (seconds).
    """

    path: str | Path | None = None
    log_level: str = "information"
    timeout: float = 300.0


class _Simulated(NamedTuple):
    """A simulation's result, from any engine."""

    paths: list[Path]
    engine: str
    hosts: int
    jobs: int
    seconds: float
    simulation: Simulation | None = None


@dataclass(frozen=True, repr=False, kw_only=True)
class Run:
    """A run that was simulated, written and verified.

    Where the name of a run is expected (``read_run``, ``metrics``, ``gantt``), it stands
    for its prefix: the path in front of ``_jobs.csv`` and the others, which are ``paths``.

    Attributes
    ----------
    engine
        ``"embedded"``, or Batsim's version.
    hosts, jobs
        Numbers of hosts used, and of jobs that ended or were rejected.
    seconds
        How long the simulation took (wall-clock time).
    result
        The run as its files tell it: those of the embedded engine are known without being read.
    violations
        Where the schedule breaks one of the ``rules``, which are counted; empty if all is well.
    lateness
        By how much it misses its promises at most, None without promises.
    module
        The scheduler after its work.
    simulation
        The simulation, if the embedded engine ran it.
    inputs
        What was simulated.
    described
        What ``PREFIX_run.json`` holds.
    differences
        Of a repeated run: how it differs from the one that it repeats; else None.
    """

    scheduler: str
    workload: str
    prefix: str
    paths: list[Path]
    engine: str
    hosts: int
    jobs: int
    compute_sharing: bool
    seconds: float
    result: RunResult
    violations: list[Violation]
    rules: int
    lateness: Lateness | None
    module: SchedulerModule
    simulation: Simulation | None
    inputs: RunInputs
    described: bytes = b""
    differences: Differences | None = None

    def __fspath__(self) -> str:
        return self.prefix

    @property
    def broken_promises(self) -> list[Violation]:
        """The violations that are broken promises."""
        return [each for each in self.violations if each.rule in PROMISE_RULES]

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Every metric of docs/metrics.md by name."""
        values: dict[str, Any] = msgspec.to_builtins(self.measured)
        return values

    @cached_property
    def measured(self) -> Measures:
        """The metrics of docs/metrics.md as a typed object."""
        return run_measures(self.result, self.inputs.workloads)

    @property
    def promises(self) -> PromiseCounts | None:
        """Promises given and broken, without the other metrics; None if there are none."""
        return promises(MeasuredFiles(self.result, self.inputs.workloads))

    @cached_property
    def easy(self) -> EasyReference | None:
        """EASY's result on the same jobs, simulated on first access.

        None where there is nothing to compare: no user's deadline, EASY itself, shared hosts, or
        another engine.
        """
        alone = self.simulation is not None and not self.compute_sharing
        if self.measured.deadlines is None or not alone or self.scheduler == "easy":
            return None
        return easy_reference(self.inputs, self.result.grace)

    def __repr__(self) -> str:
        verdict = f"{len(self.violations)} violations" if self.violations else "verified"
        if self.differences is not None and self.differences.are_there:
            verdict = f"{verdict}, not the run that it repeats"
        return (
            f"<Run {self.prefix}: {self.scheduler} on {self.workload}, {self.jobs:,} jobs on "
            f"{self.hosts} hosts, {verdict}>"
        )

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{value:,.6g}</td></tr>"
            for name, value in self.metrics.items()
            if isinstance(value, (int, float))
        )
        return f"<p>{escape(repr(self)[1:-1])}</p><table>{rows}</table>"


@takes(
    scheduler=SCHEDULER,
    workload=WORKLOAD.optional,
    platform=PLATFORM.optional,
    settings=SETTINGS.optional,
    out=PATH.optional,
    engine=TEXT,
    hosts=WHOLE.optional,
    smaller_machine=SWITCH,
    compute_sharing=SWITCH.optional,
    events=EVENTS.optional,
    message_delays=SWITCH,
    users=(PATH | one_of(Users, words="users")).optional,
    batsim=one_of(BatsimCall, words="a BatsimCall").optional,
    progress=one_of(ProgressListener, words="a ProgressListener").optional,
    sha256=mapping(TEXT, "a mapping from names to digests").optional,
)
def run(
    scheduler: AnyScheduler,
    workload: AnyWorkload | None = None,
    platform: AnyPlatform | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    out: str | Path | None = None,
    engine: str = "embedded",
    hosts: int | None = None,
    smaller_machine: bool = False,
    compute_sharing: bool | None = None,
    events: AnyEvents | None = None,
    message_delays: bool = True,
    users: Users | str | PathLike[str] | None = None,
    batsim: BatsimCall | None = None,
    progress: ProgressListener | None = None,
    sha256: Mapping[str, str] | None = None,
) -> Run:
    """Run a scheduler on a workload: simulate, write the files, and verify them.

    Parameters
    ----------
    scheduler
        A registered name, ``"my_file.py:MyScheduler"``, or a scheduler or class.
    workload, platform
        An object, the path of a file, or the name of a shipped one. Default: a shipped
        workload that shows the scheduler, and as many equal hosts as it is for.
    settings
        The scheduler's options by name.
    out
        Prefix of the files to write; default ``out/SCHEDULER``.
    engine
        ``"embedded"``, or ``"batsim"`` for the real one, started as ``batsim`` says.
    hosts
        Use only this many hosts, the first ones; None for all.
    smaller_machine
        Whether the machine may be smaller than the workload expects.
    compute_sharing
        Whether several jobs may run on one host; None: as the scheduler needs.
    events
        Hosts that go away and return, if any: external events, or the path of their file.
    message_delays
        Whether Batsim's own messages take their time on platforms with latencies.
    users
        Users who react, or the path of their file, in place of a workload: their jobs are written
        to ``PREFIX_submitted.json``, and what became of each wish of theirs to
        ``PREFIX_users.csv``.
    batsim, progress
        How to start the real Batsim; a listener to the progress.
    sha256
        Digests that files must have, by what they are (``"workload"``).

    Returns
    -------
    Run
        The run as its files tell it, with its violations and metrics.

    Raises
    ------
    InputError
        If an input cannot be used.
    SimulationError
        If the scheduler breaks the protocol or stops deciding.

    Examples
    --------
    >>> done = run("easy", "tiny_8", out="out/tiny")
    >>> done.violations, done.metrics["waiting_time"]["mean"]
    ([], 46.875)
    """
    if engine not in ENGINES:
        raise InputError(f"engine {engine!r} is unknown{did_you_mean(engine, ENGINES)}")

    module = make_scheduler(scheduler, settings)

    read = None
    if users is not None:
        if workload is not None:
            raise InputError("users who react, and a workload, are given; one of both is expected")
        with without_garbage_collection():
            read = users if isinstance(users, Users) else read_users(Path(users))
        module = SchedulerModule(Reacting(module.scheduler, read))
        workload = read.no_jobs()

    module.keep_decisions()

    if workload is None:
        workload, shipped = default_inputs(module)
        platform = platform or shipped

    prepared = _PreparedRun(
        module,
        {"scheduler": scheduler, "workload": workload, "platform": platform, "events": events},
        {"hosts": hosts, "compute_sharing": compute_sharing, "message_delays": message_delays},
        smaller_machine,
        out,
        progress or ProgressListener(),
    )
    if read is not None:
        prepared.note_users(None if isinstance(users, Users) else users)
    prepared.expect(sha256 or {})
    return prepared.finish(batsim or BatsimCall() if engine == "batsim" else None)


class _PreparedRun:
    """A run before its simulation: its inputs, read, and its description so far."""

    def __init__(
        self,
        module: SchedulerModule,
        given: Mapping[str, Any],
        allowed: Mapping[str, Any],
        smaller_machine: bool,
        out: str | Path | None,
        progress: ProgressListener,
    ) -> None:
        self.module = module
        self.given = given
        self.smaller_machine = smaller_machine
        self.progress = progress
        with progress.phase("reading the workload"), without_garbage_collection():
            self.jobs: Workload = load_workload(given["workload"])
            self.machine: Platform = load_platform(given["platform"], self.jobs)

        events, digest_of_events = load_events(given["events"])
        options = default_engine(module, self.machine, events=events, **allowed)
        # Where no message takes time, the description says so, and promises are to be kept exactly.
        delays = options.message_delays and self.machine.delays_messages
        self.options = msgspec.structs.replace(options, message_delays=delays)

        scheduler = module.scheduler
        self.reacting = scheduler if isinstance(scheduler, Reacting) else None
        if self.reacting is not None and self.machine.machine is not None:
            raise InputError(
                f"{self.machine.source}: jobs share its hosts by amounts, but users who react "
                "ask for processors; a platform whose hosts have no amounts is expected"
            )
        inner = module if self.reacting is None else SchedulerModule(self.reacting.inner)
        names, objects = names_of(inner, **given)
        chosen = given["scheduler"]
        digests = {
            "scheduler": digest_of_file(chosen) if isinstance(chosen, str) else None,
            "workload": self.jobs.sha256,
            "platform": self.machine.sha256,
            "events": digest_of_events,
        }

        # Nothing is known of where an object comes from, be it that it was read once.
        self.sha256 = {
            what: digest
            for what, digest in digests.items()
            if digest is not None and what not in objects
        }

        self.further: dict[str, Any] = {
            "hosts_limit": options.hosts,
            "smaller_machine": smaller_machine,
            "python_objects": objects,
            "sha256": self.sha256,
        }
        record = None if "scheduler" in objects else code_of_given(chosen, inner.scheduler)

        if record is not None:
            self.further["code"] = record
            for module_name in record.not_covered:
                progress.warning(not_covered_text(module_name))

        if self.jobs.calendar is not None:
            self.further["calendar"] = msgspec.to_builtins(self.jobs.calendar)
        if "events" in names:
            self.further["events"] = names.pop("events")

        self.described: dict[str, Any] = {**names, "module": module, "further": self.further}
        self.prefix = run_prefix(out, self.described["scheduler"])
        self.files = run_files(self.prefix, room=len(self.jobs.jobs) * _LEAST_BYTES)

    def note_users(self, file: str | PathLike[str] | None) -> None:
        """Add the users' file to the run's description, whose workload is an output of the run."""
        objects = self.further["python_objects"]
        objects[:] = [each for each in objects if each != "workload"]
        if file is None:
            objects.append("users")
        else:
            self.sha256["users"] = read_stored(Path(file), what="a file of users").sha256
        self.further["users"] = None if file is None else os.fspath(file)
        self.described["workload"] = f"{self.prefix}_submitted.json"

    def expect(self, sha256: Mapping[str, str]) -> None:
        """Raise an InputError if inputs differ from these digests, or outages overlap."""
        known = self.sha256
        changed = [what for what, digest in sha256.items() if known.get(what, digest) != digest]
        if changed:
            raise InputError(f"the file of the {' and '.join(changed)} has changed")
        events = self.options.external_events
        file = self.given["events"]
        if events and isinstance(file, (str, PathLike)):
            try:
                outages_of(events, self.options.hosts or len(self.machine.compute_hosts))
            except InputError as error:
                raise InputError(f"{file}: {error}") from None

    @without_garbage_collection()
    def finish(self, batsim: BatsimCall | None) -> Run:
        """Simulate, write, and verify the written schedule."""
        if self.reacting is None:
            for text in input_warnings(self.module, self.jobs, self.machine, self.options):
                self.progress.warning(text)

        with self.files, writing_what_ended(self.files, self.described):
            done = self._in_process() if batsim is None else self._with_batsim(batsim)

        with self.progress.phase("reading back"):
            written = find_written(self.prefix, self.files.published)
            # Amounts of hosts matter only where they are shared.
            platform = self.machine if self.options.compute_sharing else None
            # What the embedded engine wrote is judged as it was computed; tests read it back.
            tables = self.files.tables if batsim is None else None
            result = read_files(written, is_verified=True, platform=platform, written=tables)
        verification = Verification(result, workloads={"w0": self.jobs})
        rules = verification.rules
        with self.progress.phase("verifying", len(rules)) as tell:
            on_rule = None if tell is None else lambda rule: tell(rules.index(rule))
            violations = verification.violations(on_rule)

        return Run(
            scheduler=self.described["scheduler"],
            workload=self.described["workload"],
            prefix=self.prefix,
            compute_sharing=self.options.compute_sharing,
            result=result,
            violations=violations,
            rules=len(rules),
            lateness=verification.lateness(),
            module=self.module,
            described=self.files.published,
            inputs=RunInputs(self.jobs, self.machine, self.options, self.smaller_machine),
            **done._asdict(),
        )

    def _in_process(self) -> _Simulated:
        """Simulate with the embedded engine, and write the run's files."""
        title = f"{self.described['scheduler']} on {self.described['workload']}"
        began = time.perf_counter()
        with self.progress.phase(title, len(self.jobs.jobs) or None) as on_progress:
            simulation = simulate(
                self.module,
                self.jobs,
                self.machine,
                engine=self.options,
                allow_smaller_machine=self.smaller_machine,
                on_progress=on_progress,
            )

        seconds = time.perf_counter() - began

        with self.progress.phase("writing"):
            self._write_users()
            paths = write_run(simulation, self.prefix, files=self.files, **self.described)

        hosts = len(simulation.hosts)
        jobs = len(simulation.ended_jobs.states)
        return _Simulated(paths, "embedded", hosts, jobs, seconds, simulation)

    def _with_batsim(self, call: BatsimCall) -> _Simulated:
        """Simulate with the real Batsim, and put the run's files into place."""
        # It loads what talks to Batsim, which runs without one have no use for.
        from qops_batsim.running.launch import check_machine, drive_batsim, write_batsim_run
        from qops_batsim.running.releases import release_of

        check_machine(
            self.jobs, self.machine, self.options, allow_smaller_machine=self.smaller_machine
        )
        batsim = find_batsim(call.path)
        machine = release_of(batsim.major).machine(self.machine)
        tell_platform(self.module, machine, self.options)

        began = time.perf_counter()
        ended = drive_batsim(
            batsim,
            ModuleDriver(self.module, any_engine=True),
            # Batsim gets the files that were given, not what was read of them.
            workload=as_file(self.given["workload"], "workloads") or self.jobs,
            platform=as_file(self.given["platform"], "platforms") or self.machine,
            files=self.files,
            options=self.options,
            timeout=call.timeout,
            log_level=call.log_level,
            on_log_line=self.progress.batsim_says,
        )
        seconds = time.perf_counter() - began

        self._write_users()
        paths = write_batsim_run(
            ended, batsim, self.files, options=self.options, machine=self.machine, **self.described
        )
        engine = f"batsim {batsim.version}"
        return _Simulated(paths, engine, ended.hosts, ended.jobs_ended, seconds)

    def _write_users(self) -> None:
        """Write the users' submitted jobs and their outcomes, if users reacted."""
        if self.reacting is None:
            return
        self.jobs = self.reacting.workload()
        content = format_workload(self.jobs, is_checked=True).encode()
        self.sha256["workload"] = hashlib.sha256(content).hexdigest()
        self.further["cancellations"] = self.reacting.cancelled_at
        with self.files.open("_submitted.json") as stream:
            stream.write(content)
        with self.files.open("_users.csv") as stream:
            stream.writelines(format_wishes(self.reacting.wishes))


@takes(
    description=PATH,
    out=PATH.optional,
    batsim=one_of(BatsimCall, words="a BatsimCall").optional,
    progress=one_of(ProgressListener, words="a ProgressListener").optional,
    code=CODE,
)
def run_again(
    description: str | Path,
    *,
    out: str | Path | None = None,
    batsim: BatsimCall | None = None,
    progress: ProgressListener | None = None,
    code: AllowedCode = (),
) -> Run:
    """Repeat a run from its ``PREFIX_run.json``; its files are the same to the byte, or it tells
    which differ.

    Parameters
    ----------
    description
        The ``PREFIX_run.json``; relative paths in it are looked for from the current directory.
    out
        Prefix of the files to write; default ``PREFIX_again``.
    batsim, progress
        As for :func:`run`.
    code
        Python files with a scheduler that the description may name, and that are then run; True
        for any.

    Returns
    -------
    Run
        The repeated run; ``differences`` tells which files are not those of the description, and
        which modules that the scheduler imports have changed.

    Raises
    ------
    InputError
        If an input is missing or has changed, or a scheduler's file is not allowed by ``code``.

    Examples
    --------
    >>> first = run("easy", "tiny_8", out="out/tiny")
    >>> again = run_again("out/tiny_run.json")
    >>> again.prefix, again.differences.files
    ('out/tiny_again', ())
    """
    what = "the description of a run"
    content = read_bytes(description, what=what, max_bytes=MAX_DESCRIPTION_BYTES)
    before = read_described(content, description)
    refused = f"{description}: cannot be run again"

    if before.python_objects:
        raise InputError(
            f"{refused}: {' and '.join(before.python_objects)} were Python objects of a "
            "program; only a run from registered names and files can be repeated"
        )

    try:
        digest = before.sha256.get("scheduler")
        scheduler = scheduler_of_data(before.scheduler, code, sha256=digest)
        done = run(
            scheduler,
            None if before.users is not None else before.workload,
            before.platform,
            before.options,
            out=out or f"{str(description).removesuffix('_run.json')}_again",
            engine=before.engine,
            hosts=before.hosts_limit,
            smaller_machine=before.smaller_machine,
            message_delays=before.message_delays,
            compute_sharing=before.compute_sharing,
            events=before.events,
            users=before.users,
            batsim=batsim,
            progress=progress,
            sha256=before.sha256,
        )
    except InputError as error:
        raise InputError(f"{refused}: {error}") from error

    now = read_described(done.described, done.prefix)
    return replace(done, differences=differences(before, now, done.prefix))
