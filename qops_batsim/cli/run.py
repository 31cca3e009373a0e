"""``qops-batsim run``: a scheduler on a workload."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qops_batsim.cli import options
from qops_batsim.cli.console import COMPILING, Bar, note, print_error, progress_bar
from qops_batsim.cli.manual import manual
from qops_batsim.errors import InputError, did_you_mean
from qops_batsim.garbage import without_garbage_collection
from qops_batsim.shipped import (
    DEFAULT_DEADLINE_WORKLOAD,
    DEFAULT_SHARING_PLATFORM,
    DEFAULT_SHARING_WORKLOAD,
    DEFAULT_WORKLOAD,
)

if TYPE_CHECKING:
    from qops_batsim.running.run import Run

ENGINES = ("embedded", "batsim")

_about = manual(
    f"""
    scheduler: Name of the scheduler (`qops-batsim schedulers` lists them), or FILE.py:CLASS.
    --workload, -w FILE: Batsim workload (JSON, also .gz), or the name of a shipped one.
        Default: {DEFAULT_WORKLOAD}; for deadline schedulers {DEFAULT_DEADLINE_WORKLOAD}; for
        aroma {DEFAULT_SHARING_WORKLOAD}, on platform {DEFAULT_SHARING_PLATFORM}.
    --events FILE: External events, one JSON object a line, as Batsim's: hosts that go away
        (machine_unavailable) and return (machine_available).
    --again FILE: Run once more what this PREFIX_run.json describes. Default of --out:
        PREFIX_again.
    """
)


def run(
    scheduler: Annotated[str | None, _about("scheduler")] = None,
    workload: Annotated[str | None, _about("--workload")] = None,
    platform: options.Platform = None,
    out: options.Out = None,
    settings: options.Settings = None,
    hosts: options.FirstHosts = None,
    smaller_machine: options.SmallerMachine = False,
    compute_sharing: options.ComputeSharing = None,
    events: Annotated[str | None, _about("--events")] = None,
    message_delays: options.MessageDelays = True,
    engine: options.Engine = "embedded",
    batsim: options.Batsim = None,
    batsim_log: options.BatsimLog = "information",
    timeout: options.BatsimTimeout = 300.0,
    again: Annotated[str | None, _about("--again")] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
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

    `qops-batsim run my_file.py:MyScheduler --workload kth_sp2_1000`

    `qops-batsim run easy --engine batsim --out out/real`

    `qops-batsim run --again out/easy_run.json`
    """
    from qops_batsim.scheduling.registry import parse_settings

    _check_engine(engine, batsim, message_delays, again)
    choices = {
        "workload": workload,
        "platform": platform,
        "settings": parse_settings(settings or []),
        "hosts": hosts,
        "smaller_machine": smaller_machine,
        "compute_sharing": compute_sharing,
        "events": events,
        "message_delays": message_delays,
        "engine": engine,
    }
    call = {"path": batsim, "log_level": "quiet" if quiet else batsim_log, "timeout": timeout}
    with without_garbage_collection():
        _report(_run(scheduler, again, choices, call, out, quiet), as_json, quiet)


def _check_engine(engine: str, batsim: str | None, delays: bool, again: str | None) -> None:
    if engine not in ENGINES:
        raise InputError(f"--engine {engine}: unknown engine{did_you_mean(engine, ENGINES)}")
    if engine == "batsim" and not delays:
        raise InputError("--no-message-delays: the real Batsim always has them")
    if batsim is not None and engine != "batsim" and again is None:
        raise InputError(f"--batsim {batsim}: only --engine batsim starts it")


def _run(
    scheduler: str | None,
    again: str | None,
    choices: dict[str, Any],
    call: dict[str, Any],
    out: str | None,
    quiet: bool,
) -> Run:
    """Run, and pass on the exit code of a Batsim that fails."""
    from qops_batsim.running.installation import BatsimError
    from qops_batsim.running.run import BatsimCall, Watch, run

    class Terminal(Watch):
        bar: Bar | None = None
        compiled = 0

        def compiling(self, kernel: str) -> None:
            self.compiled += 1
            if self.compiled == 1 and not quiet:
                note(COMPILING)
            if self.bar is not None:
                self.bar.say(f"compiling kernel {self.compiled}, {kernel}")

        @contextmanager
        def phase(self, title: str, steps: int | None = None) -> Iterator[Bar | None]:
            with progress_bar(steps, title, quiet) as self.bar:
                yield self.bar
            self.bar = None

        def batsim_says(self, line: str) -> None:
            if not quiet:
                note(f"batsim: {line}")

    batsim, watch = BatsimCall(**call), Terminal()
    try:
        if again is None:
            if scheduler is None:
                raise InputError("no scheduler; its name, FILE.py:CLASS or --again is expected")
            return run(scheduler, out=out, batsim=batsim, watch=watch, **choices)
        from qops_batsim.running.again import run_again

        unset = {"settings": {}, "smaller_machine": False, "message_delays": True}
        unset["engine"] = "embedded"
        given = [f"--{name}" for name, value in choices.items() if value != unset.get(name)]
        if scheduler or given:
            beside = (scheduler or ", ".join(given)).replace("settings", "set").replace("_", "-")
            raise InputError(f"--again beside {beside}: the description tells that already")
        return run_again(again, out=out, batsim=batsim, watch=watch)
    except BatsimError as error:
        print_error(str(error))
        raise typer.Exit(error.exit_code) from None


def _report(done: Run, as_json: bool, quiet: bool) -> None:
    """Print metrics, what was done, and the files; the violations, if there are any."""
    from qops_batsim.cli.metrics import metrics
    from qops_batsim.cli.texts import lateness_text

    if done.violations:
        for violation in done.violations[:10]:
            note(f"{violation.rule}: {violation.message}")
        note(f"NOT verified: {len(done.violations)} violations in {done.prefix}")
        raise typer.Exit(1)
    if quiet:
        return
    metrics([done.prefix], as_json=as_json)
    by = "" if done.engine == "embedded" else f"{done.engine} "
    shared = ", which several jobs may share" if done.compute_sharing else ""
    note(
        f"{by}simulated {done.jobs:,} jobs on {done.hosts} hosts in {done.seconds:.2f} s{shared}; "
        f"verified, {done.rules} rules hold"
    )
    late = done.lateness
    if late is not None and (late.job is not None or late.renewed):
        note(lateness_text(late))
    note(f"wrote {', '.join(str(path) for path in done.paths)}")
