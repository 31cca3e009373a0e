"""``qops-batsim run``: a scheduler on a workload."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from qops_batsim.cli.console import announce_slow, note, print_error, progress_bar
from qops_batsim.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from qops_batsim.engine.options import EngineOptions
    from qops_batsim.platform.model import Platform
    from qops_batsim.scheduling.module import DecisionModule
    from qops_batsim.workload.model import Workload

DEFAULT_WORKLOAD = "sdsc_sp2_1000"
DEFAULT_DEADLINE_WORKLOAD = "sdsc_sp2_deadlines_500"
DEFAULT_SHARING_WORKLOAD, DEFAULT_SHARING_PLATFORM = "aroma_mixed", "aroma_grid"
ENGINES = ("embedded", "batsim")


def run(
    scheduler: Annotated[
        str, typer.Argument(help="Name of the scheduler; `qops-batsim schedulers` lists them.")
    ],
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            "-w",
            metavar="FILE",
            help="Batsim workload (JSON, also .gz), or the name of a shipped one. "
            f"Default: {DEFAULT_WORKLOAD}; for deadline schedulers {DEFAULT_DEADLINE_WORKLOAD}; "
            f"for aroma {DEFAULT_SHARING_WORKLOAD}, on platform {DEFAULT_SHARING_PLATFORM}.",
            show_default=False,
        ),
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option(
            "--platform",
            "-p",
            metavar="FILE",
            help="SimGrid platform (XML), or the name of a shipped one. "
            "Default: as many equal hosts as the workload is for.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="PREFIX",
            help="Where to write: PREFIX_jobs.csv and so on. Default: out/SCHEDULER.",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Option of the scheduler (repeatable); `qops-batsim schedulers NAME` lists them.",
        ),
    ] = None,
    hosts: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Use only the first N hosts of the platform."),
    ] = None,
    smaller_machine: Annotated[
        bool,
        typer.Option(
            "--smaller-machine",
            help="Run even if the workload is for a larger machine; wider jobs are rejected.",
        ),
    ] = False,
    compute_sharing: Annotated[
        bool | None,
        typer.Option(
            "--compute-sharing/--no-compute-sharing",
            help="Whether several jobs may run on one host. Default: what the scheduler is "
            "meant for.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="What simulates: embedded (this package) or batsim (the real one, as a child "
            "process)."
        ),
    ] = "embedded",
    batsim: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="The batsim to start; only with --engine batsim. Default: the one on PATH.",
            show_default=False,
        ),
    ] = None,
    batsim_log: Annotated[
        str,
        typer.Option(
            metavar="LEVEL",
            help="How much batsim says: quiet, network-only, information or debug.",
        ),
    ] = "information",
    timeout: Annotated[
        float,
        typer.Option(
            min=0.001,
            metavar="SECONDS",
            help="Longest wait for batsim's next message; then it is stopped.",
        ),
    ] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the metrics as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Run a scheduler on a workload, with the embedded engine or the real Batsim.

    Writes Batsim's output files, PREFIX_jobs.csv, PREFIX_schedule.csv and
    PREFIX_machine_states.csv, PREFIX_qos.csv, what was decided about each job, and
    PREFIX_run.json, which says how they were made; of deadline schedulers also
    PREFIX_decisions.jsonl, for `explain` and `quote`. Verifies the schedule and prints
    its metrics.

    **Examples**

    `qops-batsim run qops`

    `qops-batsim run easy --workload kth.json --platform kth_sp2_100 --out out/kth`

    `qops-batsim run conservative --set reserve=processors --workload kth_sp2_1000`

    `qops-batsim run easy --engine batsim --out out/real`
    """
    from qops_batsim.scheduling.decision_log import keep_decisions
    from qops_batsim.scheduling.registry import make_scheduler, parse_settings
    from qops_batsim.shipped import find_input
    from qops_batsim.workload.batsim_json import read_workload

    if engine not in ENGINES:
        raise InputError(f"--engine {engine}: unknown engine{did_you_mean(engine, ENGINES)}")
    if batsim is not None and engine != "batsim":
        raise InputError(f"--batsim {batsim}: only --engine batsim starts it")
    module = make_scheduler(scheduler, parse_settings(settings or []))
    keep_decisions(module)
    if workload is None and module.wants_compute_sharing:
        workload = DEFAULT_SHARING_WORKLOAD
        platform = platform or DEFAULT_SHARING_PLATFORM
    elif workload is None:
        workload = DEFAULT_DEADLINE_WORKLOAD if module.needs_deadlines else DEFAULT_WORKLOAD
    jobs = read_workload(find_input(workload, "workloads"))
    machine = _machine(platform, jobs)
    request = _Request(
        scheduler=scheduler,
        module=module,
        workload=workload,
        jobs=jobs,
        platform=platform,
        machine=machine,
        hosts=hosts,
        smaller_machine=smaller_machine,
        compute_sharing=compute_sharing,
        prefix=out if out is not None else f"out/{scheduler}",
        quiet=quiet,
    )
    if engine == "batsim":
        paths, summary = _run_batsim(request, batsim, batsim_log, timeout)
    else:
        paths, summary = _run_embedded(request)
    rules = _verify(request.prefix, jobs)
    if quiet:
        return
    _report(request.prefix, as_json)
    if request.engine_options().compute_sharing:
        summary = f"{summary}, which several jobs may share"
    note(f"{summary}; verified, {rules} rules hold")
    note(f"wrote {', '.join(str(path) for path in paths)}")


class _Request(NamedTuple):
    """What is to be run, whatever the engine."""

    scheduler: str
    module: DecisionModule
    workload: str
    jobs: Workload
    platform: str | None
    machine: Platform
    hosts: int | None
    smaller_machine: bool
    compute_sharing: bool | None
    prefix: str
    quiet: bool

    def engine_options(self) -> EngineOptions:
        from qops_batsim.running.simulate import default_engine

        return default_engine(self.module, hosts=self.hosts, compute_sharing=self.compute_sharing)

    def prepare(self) -> None:
        with announce_slow(
            "compiling the scheduling kernels for this machine (once; later runs reuse them) ..."
        ):
            self.module.prepare()


def _run_embedded(request: _Request) -> tuple[list[Path], str]:
    """Run with the embedded engine; return the files written and a summary."""
    from qops_batsim.running.simulate import simulate, write_run

    request.prepare()
    began = time.perf_counter()
    title = f"{request.scheduler} on {request.workload}"
    with progress_bar(len(request.jobs.jobs), title, request.quiet) as on_progress:
        simulation = simulate(
            request.jobs,
            request.machine,
            request.module,
            engine=request.engine_options(),
            allow_smaller_machine=request.smaller_machine,
            on_progress=on_progress,
        )
    seconds = time.perf_counter() - began
    paths = write_run(
        simulation,
        request.prefix,
        scheduler=request.scheduler,
        module=request.module,
        workload=request.workload,
        platform=request.platform,
    )
    return paths, (
        f"simulated {len(simulation.ended):,} jobs on {len(simulation.hosts)} hosts "
        f"in {seconds:.2f} s"
    )


def _run_batsim(
    request: _Request, executable: str | None, log_level: str, timeout: float
) -> tuple[list[Path], str]:
    """Run with the real Batsim; return the files written and a summary.

    If Batsim fails, the command ends with its exit code.
    """
    from qops_batsim.running.installation import find_batsim
    from qops_batsim.running.launch import (
        BatsimError,
        check_machine,
        run_batsim,
        write_batsim_run,
    )
    from qops_batsim.scheduling.driver import ModuleDriver
    from qops_batsim.shipped import find_input

    check_machine(
        request.jobs,
        request.machine,
        request.hosts,
        allow_smaller_machine=request.smaller_machine,
    )
    batsim = find_batsim(executable)
    request.prepare()
    request.module.use_platform(request.machine)
    options = request.engine_options()
    began = time.perf_counter()
    try:
        run = run_batsim(
            batsim,
            ModuleDriver(request.module),
            workload=find_input(request.workload, "workloads"),
            platform=(
                request.machine
                if request.platform is None
                else find_input(request.platform, "platforms")
            ),
            prefix=request.prefix,
            options=options,
            timeout=timeout,
            log_level="quiet" if request.quiet else log_level,
            on_log_line=None if request.quiet else lambda line: note(f"batsim: {line}"),
        )
    except BatsimError as error:
        print_error(str(error))
        raise typer.Exit(error.exit_code) from None
    seconds = time.perf_counter() - began
    paths = write_batsim_run(
        run,
        batsim,
        request.prefix,
        scheduler=request.scheduler,
        module=request.module,
        workload=request.workload,
        platform=request.platform,
        options=options,
    )
    return paths, (
        f"batsim {batsim.version} simulated {run.jobs_ended:,} jobs on {run.hosts} hosts "
        f"in {seconds:.2f} s"
    )


def _machine(platform: str | None, workload: Workload) -> Platform:
    from qops_batsim.platform.generate import make_cluster
    from qops_batsim.platform.simgrid_read import read_platform
    from qops_batsim.shipped import find_input

    if platform is None:
        return make_cluster(workload.processors)
    return read_platform(find_input(platform, "platforms"))


def _verify(prefix: str | Path, workload: Workload) -> int:
    """Verify the schedule just written; return the number of rules checked."""
    from qops_batsim.analysis.results.run import read_run
    from qops_batsim.analysis.verify.verifier import rules_checked, verify

    result = read_run(prefix)
    workloads = {"w0": workload}
    violations = verify(result, workloads=workloads)
    if violations:
        for violation in violations[:10]:
            note(f"{violation.rule}: {violation.message}")
        note(f"NOT verified: {len(violations)} violations in {prefix}")
        raise typer.Exit(1)
    return len(rules_checked(result, workloads=workloads))


def _report(prefix: str | Path, as_json: bool) -> None:
    from qops_batsim.cli.analysis import metrics

    metrics([str(prefix)], as_json=as_json)
