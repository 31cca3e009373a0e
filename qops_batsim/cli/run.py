"""``qops-batsim run``: run a scheduler on a workload."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qops_batsim.cli import common_options
from qops_batsim.cli.common_options import manual
from qops_batsim.cli.console import (
    Bar,
    note,
    print_error,
    print_json,
    progress_bar,
    say,
    warn,
)
from qops_batsim.errors import InputError, did_you_mean
from qops_batsim.file_set import PICTURE
from qops_batsim.garbage import without_garbage_collection
from qops_batsim.parameters import COUNT, is_strict
from qops_batsim.schedulers.loading.plugins import AllowedCode, short_name
from qops_batsim.shipped import (
    DEFAULT_DEADLINE_WORKLOAD,
    DEFAULT_SHARING_PLATFORM,
    DEFAULT_SHARING_WORKLOAD,
    DEFAULT_WORKLOAD,
)

if TYPE_CHECKING:
    from qops_batsim.running.run import Run

_about = manual(
    f"""
    scheduler: Name of the scheduler (`qops-batsim schedulers` lists them), or FILE.py:CLASS, which
        runs that file.
    --workload, -w FILE: Batsim workload (JSON, also .gz), or the name of a shipped one.
        Default: {DEFAULT_WORKLOAD}; for deadline schedulers {DEFAULT_DEADLINE_WORKLOAD}; for
        aroma {DEFAULT_SHARING_WORKLOAD}, on platform {DEFAULT_SHARING_PLATFORM}.
    --again FILE: Run once more what this PREFIX_run.json describes; exit code 1 if a file, or a
        module of the scheduler, is not the same. Default of --out: PREFIX_again.
    --out, -o PREFIX: Where to write: PREFIX_jobs.csv and so on. Default: out/SCHEDULER.
    --picture/--no-picture: Draw PREFIX_deadlines.png: which deadlines were kept, missed and
        refused, also under EASY. Default: for deadline schedulers on users' deadlines, unless
        --quiet.
    [Machine and events]
    --users FILE: Users who react, in place of a workload (`workload users`): their next jobs follow
        the ends of the last ones, and they answer refusals. Also writes PREFIX_submitted.json,
        their jobs, and PREFIX_users.csv, what became of each wish.
    --hosts N: Use only the first N hosts of the platform.
    --smaller-machine: Run even if the workload is for a larger machine; wider jobs are
        rejected.
    --compute-sharing/--no-compute-sharing: Allow several jobs on one host. Default: as the
        scheduler needs.
    --events FILE: External events, one JSON object a line, as Batsim's: hosts that go away
        (machine_unavailable) and return (machine_available), announced maintenance
        (maintenance), and jobs that users cancel (job_cancelled).
    [The real Batsim]
    --engine NAME: The simulator: embedded (this package), batsim (the real one on PATH, as a
        child process), or the path of a batsim.
    --timeout SECONDS: Longest wait for batsim's next message; then it is stopped.
    """
)


def run(
    scheduler: Annotated[str | None, _about("scheduler")] = None,
    workload: Annotated[str | None, _about("--workload")] = None,
    platform: common_options.Platform = None,
    out: Annotated[str | None, _about("--out")] = None,
    settings: common_options.Settings = None,
    hosts: Annotated[int | None, _about("--hosts", min=1)] = None,
    smaller_machine: Annotated[bool, _about("--smaller-machine")] = False,
    compute_sharing: Annotated[
        bool | None, _about("--compute-sharing/--no-compute-sharing")
    ] = None,
    events: Annotated[str | None, _about("--events")] = None,
    users: Annotated[str | None, _about("--users")] = None,
    message_delays: common_options.MessageDelays = True,
    engine: Annotated[str, _about("--engine")] = "embedded",
    timeout: Annotated[float, _about("--timeout", min=0.001)] = 300.0,
    again: Annotated[str | None, _about("--again")] = None,
    code: common_options.Code = None,
    picture: Annotated[bool | None, _about("--picture/--no-picture")] = None,
    on_broken_promise: common_options.OnBrokenPromise = COUNT,
    as_json: common_options.AsJson = False,
    quiet: common_options.Quiet = False,
) -> None:
    """Run a scheduler on a workload, with the embedded engine or the real Batsim.

    Writes Batsim's output files, PREFIX_jobs.csv, PREFIX_schedule.csv and
    PREFIX_machine_states.csv, PREFIX_qos.csv, what was decided about each job, and
    PREFIX_run.json, which says how they were made; of deadline schedulers also
    PREFIX_decisions.jsonl, for `explain` and `quote`. Verifies the schedule and prints
    its metrics; broken promises are counted, or an error with --on-broken-promise fail.

    Examples:

    \b
        qops-batsim run qops
        qops-batsim run easy --workload kth.json --platform kth_sp2_100 \\
          --out out/kth
        qops-batsim run conservative --set reserve=processors \\
          --workload kth_sp2_1000
        qops-batsim run my_file.py:MyScheduler --workload kth_sp2_1000
        qops-batsim run qops --users kth-users.json
        qops-batsim run easy --engine batsim --out out/real
        qops-batsim run --again out/easy_run.json
    """
    from qops_batsim.schedulers.registry import parse_settings

    engine, batsim = _engine(engine, message_delays, again)
    strict = is_strict(on_broken_promise)
    choices = {
        "workload": workload,
        "platform": platform,
        "settings": parse_settings(settings or []),
        "hosts": hosts,
        "smaller_machine": smaller_machine,
        "compute_sharing": compute_sharing,
        "events": events,
        "users": users,
        "message_delays": message_delays,
        "engine": engine,
    }
    call = {"path": batsim, "timeout": timeout} | ({"log_level": "quiet"} if quiet else {})

    with without_garbage_collection():
        done = _finished(scheduler, again, choices, call, code or (), out, quiet)
        _report(done, as_json, quiet, picture, strict, again)


def _engine(engine: str, delays: bool, again: str | None) -> tuple[str, str | None]:
    """Return ``embedded`` or ``batsim``, and the path of Batsim's executable if one is given."""
    from qops_batsim.running.run import ENGINES

    path = engine if os.sep in engine else None
    if path is None and engine not in ENGINES:
        raise InputError(
            f"--engine is {engine}, which is neither an engine nor the path of a batsim"
            f"{did_you_mean(engine, ENGINES)}"
        )

    if path is not None:
        engine = ENGINES[0] if again else ENGINES[1]
    if engine == "batsim" and not delays:
        raise InputError(
            "--no-message-delays: the real Batsim always has message delays; leave the option out"
        )

    return engine, path


def _finished(
    scheduler: str | None,
    again: str | None,
    choices: dict[str, Any],
    call: dict[str, Any],
    code: AllowedCode,
    out: str | None,
    quiet: bool,
) -> Run:
    """Run a simulation, or repeat one (``again``); if Batsim fails, exit with its exit code."""
    from qops_batsim.running.installation import BatsimError
    from qops_batsim.running.progress import ProgressListener
    from qops_batsim.running.run import BatsimCall, run, run_again

    class Terminal(ProgressListener):
        bar: Bar | None = None

        @contextmanager
        def phase(self, title: str, steps: int | None = None) -> Iterator[Bar | None]:
            with progress_bar(steps, title, quiet) as self.bar:
                yield self.bar
            self.bar = None

        def warning(self, text: str) -> None:
            warn(text)

        def batsim_says(self, line: str) -> None:
            if not quiet:
                note(f"batsim: {line}")

    batsim = BatsimCall(**call)
    progress = Terminal()
    try:
        if again is None:
            if scheduler is None:
                raise InputError(
                    "no scheduler is given; the name of one, FILE.py:CLASS, or --again is expected"
                )

            if code:
                raise InputError("--code has an effect with --again only; leave it out")
            return run(scheduler, out=out, batsim=batsim, progress=progress, **choices)

        unset = {"settings": {}, "smaller_machine": False, "message_delays": True}
        unset["engine"] = "embedded"
        given = [
            f"--{'no-' if value is False else ''}{name}"
            for name, value in choices.items()
            if value != unset.get(name)
        ]

        if scheduler or given:
            beside = (scheduler or ", ".join(given)).replace("settings", "set").replace("_", "-")
            raise InputError(
                f"--again is given with {beside}, but the file that it names tells this already; "
                f"leave {beside} out"
            )

        return run_again(again, out=out, batsim=batsim, progress=progress, code=code)
    except BatsimError as error:
        print_error(str(error))
        raise typer.Exit(error.exit_code) from None


def _report(
    done: Run, as_json: bool, quiet: bool, picture: bool | None, strict: bool, again: str | None
) -> None:
    """Print a run's metrics and files; if its schedule breaks rules, or the run is not the one that
    it repeats, print why, exit code 1.
    """
    from qops_batsim.cli.metrics import print_metrics
    from qops_batsim.cli.texts import lateness_text

    broken = done.broken_promises
    if len(done.violations) > len(broken) or (strict and broken):
        for violation in done.violations[:10]:
            note(f"{violation.rule}: {violation.message}")
        note(f"NOT verified: {len(done.violations)} violations in {done.prefix}")
        raise typer.Exit(1)

    _warn_of_broken_promises(done)
    _tell_differences(done, again)
    paths = [*done.paths, *_draw(done, picture, quiet or as_json)]
    if quiet:
        return

    if as_json:
        _print_json(done)
    else:
        print_metrics(done.measured)
        _tell_story(done)
        _tell_wishes(done)

    by = "" if done.engine == "embedded" else f"{done.engine} "
    shared = "shared " if done.compute_sharing else ""
    note(
        f"{by}simulated {done.jobs:,} jobs on {done.hosts} {shared}hosts in {done.seconds:.2f} s; "
        f"verified, {done.rules - len({each.rule for each in broken})} rules hold"
    )
    late = done.lateness
    if late is not None and (late.job is not None or late.renewed):
        note(lateness_text(late))
    note(f"wrote {', '.join(map(str, paths))}")


def _tell_differences(done: Run, again: str | None) -> None:
    """Print how a run differs from the one that it repeats; if it does, exit code 1."""
    found = done.differences
    if found is None:
        return

    if not found.is_known:
        warn(
            f"{again}: holds no digests of its files, as one of an early version; whether they are "
            "the same again is not known"
        )

    for name in found.packages:
        warn(f"package {name}, which the scheduler uses, had another version in {again}")
    for name in found.modules:
        note(f"{name}: this module of the scheduler is not the one of {again}")
    for name in found.files:
        note(f"{done.prefix}{name}: differs from the file that {again} describes")
    if found.are_there:
        note(f"NOT the same: {done.prefix} is not the run that {again} describes")
        raise typer.Exit(1)


def _warn_of_broken_promises(done: Run) -> None:
    """Warn of broken promises: how many, and how many of them break a rule of ``verify``."""
    promises = done.promises
    against = len(done.broken_promises)
    broken = against if promises is None else promises.broken
    if not broken:
        return
    said = "1 promise is broken" if broken == 1 else f"{broken:,} promises are broken"
    tells = f"`qops-batsim verify {done.prefix}` tells which"
    if against < broken:
        # The verifier knows what excuses a scheduler.
        few = f"{against:,} of them" if against else "none"
        tells = f"{few} against a rule of verify: jobs ran longer than planned, or to a walltime"
    warn(f"{said}; {tells}")


def _print_json(done: Run) -> None:
    import msgspec

    values = {"run": Path(done.prefix).name, **done.metrics}
    if done.easy is not None:
        easy = {"utilization": done.easy.utilization, "deadlines": done.easy.deadlines}
        values["easy"] = msgspec.to_builtins(easy)
    print_json([values])


def scheduler_title(done: Run) -> str:
    """Return a scheduler's name, written as at the beginning of its summary (EASY, not easy)."""
    name = short_name(done.scheduler)
    begin = re.split(r"\W", done.module.scheduler.summary, maxsplit=1)[0]
    return begin if begin.lower() == name else name


def _tell_story(done: Run) -> None:
    """Print a sentence: promises given and kept, and how many deadlines EASY would meet."""
    from qops_batsim.cli.texts import story_text

    found = done.measured
    easy = done.easy
    if found.deadlines is not None:
        other = None if easy is None else (easy.deadlines, easy.utilization)
        own = found.deadlines, found.utilization
        story = story_text(scheduler_title(done), done.module.scheduler.needs_deadlines, own, other)
        say()
        say(story)


def _tell_wishes(done: Run) -> None:
    """Print how many jobs users wanted and got, if the run was one of reacting users."""
    from qops_batsim.users.reacting import DONE, ELSEWHERE, LEFT, Reacting

    scheduler = done.module.scheduler
    if not isinstance(scheduler, Reacting):
        return

    wishes = scheduler.wishes
    counts = [sum(each.outcome == kind for each in wishes) for kind in (DONE, LEFT, ELSEWHERE)]
    tries = sum(each.tries for each in wishes)
    lost = sum(each.lost for each in wishes)
    say()
    say(
        f"users wanted {len(wishes):,} jobs and asked {tries:,} times: {counts[0]:,} were done, "
        f"{counts[1]:,} given up, {counts[2]:,} done elsewhere ({lost / 3600:,.0f} processor-hours "
        "lost to this centre)"
    )


def _draw(done: Run, asked: bool | None, quiet: bool) -> list[Path]:
    """Draw the picture of deadlines, if wanted; return its path in a list, else an empty list.

    Drawing takes longer than simulating a short workload. So there is no picture with ``quiet``
    (or JSON output), unless it is ``asked`` for.
    """
    wanted = done.module.scheduler.needs_deadlines and not quiet if asked is None else asked
    if not wanted or done.measured.deadlines is None:
        if asked:
            warn("no picture: the workload has no deadline of a user")
        return []

    from qops_batsim.measures.metrics.outcomes import outcomes_with_deadlines
    from qops_batsim.measures.plots.deadline_outcomes import draw_deadlines

    path = Path(f"{done.prefix}{PICTURE}")
    runs = [(scheduler_title(done), outcomes_with_deadlines(done.result, done.inputs.workloads))]
    if done.easy is not None:
        runs.append(("EASY", done.easy.outcomes))
    draw_deadlines(
        runs,
        path,
        title=Path(done.workload).name,
        grace=done.result.grace,
        calendar=done.result.calendar,
    )
    return [path]
