"""A run from end to end: simulate, write the files, verify them; and the same once more."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from qops_batsim.analysis.metrics.run_metrics import compute_metrics
from qops_batsim.analysis.results.run import RunResult, read_run
from qops_batsim.analysis.verify.rule import Violation
from qops_batsim.analysis.verify.verifier import rules_checked, verify
from qops_batsim.engine.options import EngineOptions
from qops_batsim.engine.simulation import Simulation
from qops_batsim.errors import InputError, did_you_mean
from qops_batsim.files import read_bytes
from qops_batsim.platform.model import Platform
from qops_batsim.running.inputs import (
    AnyPlatform,
    AnyWorkload,
    default_inputs,
    digests,
    load_platform,
    load_workload,
    name_of,
)
from qops_batsim.running.installation import find_batsim
from qops_batsim.running.launch import check_machine, run_batsim, write_batsim_run
from qops_batsim.running.simulate import default_engine, simulate, write_run
from qops_batsim.scheduling.decision_log import keep_decisions
from qops_batsim.scheduling.driver import ModuleDriver
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.plugins import short_name
from qops_batsim.scheduling.registry import make_scheduler, registered_name
from qops_batsim.shipped import find_input
from qops_batsim.workload.model import Workload

ENGINES = ("embedded", "batsim")

T = TypeVar("T")
Progress = Callable[[int], None] | None


class Watch:
    """Is told what a run does; override what is of interest. This one is silent."""

    def compiling(self) -> AbstractContextManager[None]:
        """Return a context around the compilation of kernels, which may take seconds."""
        return nullcontext()

    def simulating(self, title: str, jobs: int) -> AbstractContextManager[Progress]:
        """Return a context around the simulation: what to call with the number of jobs ended."""
        return nullcontext()

    def batsim_says(self, line: str) -> None:
        """Hear a line of the real Batsim's log; called in another thread."""


class BatsimCall(msgspec.Struct, frozen=True, kw_only=True):
    """How the real Batsim is started.

    The executable (None: the one on PATH), how much it says (``quiet``, ``network-only``,
    ``information`` or ``debug``), and the longest wait for its next message (seconds).
    """

    path: str | Path | None = None
    log_level: str = "information"
    timeout: float = 300.0


@dataclass(frozen=True, repr=False, kw_only=True)
class Run:
    """A run that has been simulated, written and verified.

    Where the name of a run is expected (``read_run``, ``metrics``, ``gantt``), it stands
    for its prefix.

    Attributes
    ----------
    prefix
        Path in front of ``_jobs.csv`` and the others, which are ``paths``.
    engine
        ``"embedded"``, or Batsim's version.
    hosts, jobs
        Numbers of hosts used, and of jobs that ended or were rejected.
    seconds
        How long the simulation took (wall-clock time).
    result
        The run as read back from its files.
    violations
        Where the schedule breaks a rule, as the verifier found it; empty if all is well.
    rules
        Number of rules checked.
    module
        The scheduler after its work.
    simulation
        The simulation, if the embedded engine ran it.
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
    module: DecisionModule
    simulation: Simulation | None

    def __fspath__(self) -> str:
        return self.prefix

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Every metric of docs/metrics.md by name."""
        values: dict[str, Any] = msgspec.to_builtins(compute_metrics(self.result))
        return values

    def __repr__(self) -> str:
        verdict = f"{len(self.violations)} violations" if self.violations else "verified"
        return (
            f"<Run {self.prefix}: {self.scheduler} on {self.workload}, {self.jobs:,} jobs on "
            f"{self.hosts} hosts, {verdict}>"
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{value:,.6g}</td></tr>"
            for name, value in self.metrics.items()
            if isinstance(value, (int, float))
        )
        return f"<p>{html.escape(repr(self)[1:-1])}</p><table>{rows}</table>"


def run(
    scheduler: str | type[DecisionModule] | DecisionModule,
    workload: AnyWorkload | None = None,
    platform: AnyPlatform | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    out: str | Path | None = None,
    engine: str = "embedded",
    hosts: int | None = None,
    smaller_machine: bool = False,
    compute_sharing: bool | None = None,
    batsim: BatsimCall | None = None,
    watch: Watch | None = None,
) -> Run:
    """Run a scheduler on a workload: simulate, write the files, and verify them.

    Parameters
    ----------
    scheduler
        A registered name, ``"my_file.py:MyScheduler"``, or a decision module or class.
    workload, platform
        An object, the path of a file, or the name of a shipped one. Default: a shipped
        workload that shows the scheduler, and as many equal hosts as it is for.
    settings
        The scheduler's options by name.
    out
        Prefix of the files to write; default ``out/SCHEDULER``.
    engine
        ``"embedded"`` or ``"batsim"``, the real one, started as ``batsim`` says.
    hosts
        Use only the first so many hosts; None for all.
    smaller_machine
        Whether the machine may be smaller than the workload expects.
    compute_sharing
        Whether several jobs may run on one host; None for what the scheduler is meant for.
    watch
        Is told of the progress.

    Examples
    --------
    >>> done = run("easy", "tiny_8", out="out/tiny")
    >>> done.violations, done.metrics["waiting_time"]["mean"]
    ([], 4.25)
    """
    if engine not in ENGINES:
        raise InputError(f"engine {engine!r} is unknown{did_you_mean(engine, ENGINES)}")
    module = make_scheduler(scheduler, settings)
    keep_decisions(module)
    if workload is None:
        workload, shipped = default_inputs(module)
        platform = platform or shipped
    options = default_engine(module, hosts=hosts, compute_sharing=compute_sharing)
    request = _request(scheduler, module, workload, platform, options, smaller_machine, out)
    if engine == "batsim":
        done = _run_batsim(request, batsim or BatsimCall(), watch or Watch())
    else:
        done = _run_embedded(request, watch or Watch())
    return _verified(request, done)


class _Request(NamedTuple):
    """What is to be run, whatever the engine."""

    module: DecisionModule
    jobs: Workload
    machine: Platform
    given: tuple[AnyWorkload, AnyPlatform | None]
    options: EngineOptions
    prefix: str
    names: dict[str, Any]
    smaller_machine: bool

    @property
    def title(self) -> str:
        return f"{self.names['scheduler']} on {self.names['workload']}"


class _Simulated(NamedTuple):
    """What is known after a simulation, whatever the engine."""

    paths: list[Path]
    engine: str
    hosts: int
    jobs: int
    seconds: float
    simulation: Simulation | None = None


def _request(
    scheduler: str | type[DecisionModule] | DecisionModule,
    module: DecisionModule,
    workload: AnyWorkload,
    platform: AnyPlatform | None,
    options: EngineOptions,
    smaller_machine: bool,
    out: str | Path | None,
) -> _Request:
    """Read the inputs, and note how everything was given, for the run's description."""
    jobs = load_workload(workload)
    machine = load_platform(platform, jobs)
    name = scheduler if isinstance(scheduler, str) else registered_name(type(module))
    objects = {
        "scheduler": name is None,
        "workload": isinstance(workload, Workload),
        "platform": isinstance(platform, Platform),
    }
    name = name or type(module).__name__
    names = {
        "scheduler": name,
        "workload": name_of(workload, "workloads"),
        "platform": None if platform is None else name_of(platform, "platforms"),
    }
    given = [what for what, is_object in objects.items() if not is_object]
    further = {
        "hosts_limit": options.hosts,
        "smaller_machine": smaller_machine,
        "python_objects": [what for what in names if what not in given],
        "sha256": digests({what: names[what] for what in given}),
    }
    return _Request(
        module=module,
        jobs=jobs,
        machine=machine,
        given=(workload, platform),
        options=options,
        prefix=f"out/{short_name(name)}" if out is None else str(out),
        names={**names, "module": module, "further": further},
        smaller_machine=smaller_machine,
    )


def _run_embedded(request: _Request, watch: Watch) -> _Simulated:
    with watch.compiling():
        request.module.prepare()
    began = time.perf_counter()
    with watch.simulating(request.title, len(request.jobs.jobs)) as on_progress:
        simulation = simulate(
            request.jobs,
            request.machine,
            request.module,
            engine=request.options,
            allow_smaller_machine=request.smaller_machine,
            on_progress=on_progress,
        )
    seconds = time.perf_counter() - began
    paths = write_run(simulation, request.prefix, **request.names)
    hosts, jobs = len(simulation.hosts), len(simulation.ended)
    return _Simulated(paths, "embedded", hosts, jobs, seconds, simulation)


def _run_batsim(request: _Request, call: BatsimCall, watch: Watch) -> _Simulated:
    module, machine, options = request.module, request.machine, request.options
    check_machine(
        request.jobs, machine, options.hosts, allow_smaller_machine=request.smaller_machine
    )
    batsim = find_batsim(call.path)
    with watch.compiling():
        module.prepare()
    module.use_platform(machine)
    workload, platform = request.given
    began = time.perf_counter()
    run = run_batsim(
        batsim,
        ModuleDriver(module),
        # Batsim gets the files that were given, not what we made of them.
        workload=_as_file(workload, "workloads"),
        platform=machine if platform is None else _as_file(platform, "platforms"),
        prefix=request.prefix,
        options=options,
        timeout=call.timeout,
        log_level=call.log_level,
        on_log_line=watch.batsim_says,
    )
    seconds = time.perf_counter() - began
    paths = write_batsim_run(run, batsim, request.prefix, options=options, **request.names)
    return _Simulated(paths, f"batsim {batsim.version}", run.hosts, run.jobs_ended, seconds)


def _as_file(given: T, kind: str) -> T | Path:
    return find_input(given, kind) if isinstance(given, (str, Path)) else given


def _verified(request: _Request, done: _Simulated) -> Run:
    """Verify the schedule as it was written."""
    result = read_run(request.prefix)
    workloads = {"w0": request.jobs}
    return Run(
        scheduler=request.names["scheduler"],
        workload=request.names["workload"],
        prefix=request.prefix,
        compute_sharing=request.options.compute_sharing,
        result=result,
        violations=verify(result, workloads=workloads),
        rules=len(rules_checked(result, workloads=workloads)),
        module=request.module,
        **done._asdict(),
    )


class _Description(msgspec.Struct, frozen=True, kw_only=True):
    """What ``PREFIX_run.json`` has to say for its run to be made again."""

    scheduler: str
    workload: str
    platform: str | None = None
    options: dict[str, Any] = {}
    engine: str = "embedded"
    compute_sharing: bool = False
    hosts_limit: int | None = None
    smaller_machine: bool = False
    python_objects: list[str] = []
    sha256: dict[str, str] = {}


def run_again(
    description: str | Path,
    *,
    out: str | Path | None = None,
    batsim: BatsimCall | None = None,
    watch: Watch | None = None,
) -> Run:
    """Make a run once more from its ``PREFIX_run.json``, with the same bytes as result.

    Files that were given by relative paths are looked for from the current directory.

    Parameters
    ----------
    out
        Prefix of the files to write; default ``PREFIX_again``.
    batsim, watch
        As for :func:`run`.

    Examples
    --------
    >>> first = run("easy", "tiny_8", out="out/tiny")
    >>> again = run_again("out/tiny_run.json")
    >>> again.prefix, again.metrics == first.metrics
    ('out/tiny_again', True)
    """
    content = read_bytes(description, what="the description of a run (JSON)")
    try:
        before = msgspec.json.decode(content, type=_Description)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{description}: {error}; the description of a run is expected") from None
    if before.python_objects:
        raise InputError(
            f"{description}: cannot be run again: {' and '.join(before.python_objects)} came from "
            "a program, not from a file; registered names and files are expected"
        )
    names = {"scheduler": before.scheduler, "workload": before.workload}
    now = digests({**names, "platform": before.platform})
    changed = [what for what, digest in before.sha256.items() if now.get(what) != digest]
    if changed:
        raise InputError(
            f"{description}: cannot be run again: the file of the {' and the '.join(changed)} has "
            "changed since then"
        )
    return run(
        before.scheduler,
        before.workload,
        before.platform,
        before.options,
        out=out or f"{str(description).removesuffix('_run.json')}_again",
        engine=before.engine,
        hosts=before.hosts_limit,
        smaller_machine=before.smaller_machine,
        compute_sharing=before.compute_sharing,
        batsim=batsim,
        watch=watch,
    )
