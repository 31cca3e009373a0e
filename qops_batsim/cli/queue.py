"""``qops-batsim queue``: deadlines that can be promised in a machine's queue as it is now."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qops_batsim.cli.command_inputs import duration
from qops_batsim.cli.common_options import (
    A_JOB,
    Accounts,
    AsJson,
    Qos,
    Reservations,
    manual,
    with_options,
)
from qops_batsim.cli.console import (
    command_line,
    note,
    print_json,
    print_table,
    progress_bar,
    say,
)
from qops_batsim.errors import InputError
from qops_batsim.files import check_writable, write_text
from qops_batsim.texts import date_text, duration_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qops_batsim.core.machine import Machine
    from qops_batsim.queue.latest import LatestForecast, QueueWatch, StartCalculator
    from qops_batsim.queue.promise import LikelyEnd
    from qops_batsim.queue.queue_quote import QueueAnswer
    from qops_batsim.queue.queue_state import Ask, QueueState
    from qops_batsim.queue.source import QueueSource
    from qops_batsim.queue.starts import AskedStarts, ForecastBasis, JobStart, QueueStarts
    from qops_batsim.queue.unexplained_waits import UnexplainedWait
    from qops_batsim.slurm.config import SlurmConfig
    from qops_batsim.workload.conversion import Conversion

app = typer.Typer(
    no_args_is_help=True,
    help="Tell what can be promised to new jobs in a machine's queue as it is now.\n\n"
    "A plan of the running and waiting jobs is made, and a new job is tried in it; nothing is "
    "changed. docs/centres.md has more.",
)

_about = manual(
    f"""
    QUEUE: The queue: output of `squeue --json` or of `scontrol show job`, a file as described in
        docs/centres.md, or the journal of `live`; - for standard input. Default: the queue of the
        Slurm that runs here, which is asked and not changed.
    JOB...: {A_JOB}; each as if it were the only new one. Where the plan goes node by node, what it
        takes of each of its nodes may follow: 8x2h,nodes=2,gpus=4,memory=64GB,partition=gpu.
    [Which jobs]
    --partition NAME: Take jobs of this partition (repeatable); --processors is then the size of
        the partition.
    [The machine and its queue]
    --processors N: Processors of the machine, which squeue does not tell. Default for the Slurm
        that runs here: those of its nodes.
    --nodes FILE: Nodes of the partitions: output of scontrol show node (behind it, perhaps, that of
        scontrol show reservation), or of sinfo with PARTITION, NODELIST, CPUS, GRES and STATE, or
        JSON of these. Their cores are the machine, without nodes that Slurm does not use now;
        partitions with nodes of their own are told from those that share them.
    --now DATE: Date of the queue: seconds since 1970, or an ISO date with its offset from UTC.
        Default: what the queue tells, else when its file was written, or now.
    --max-age DURATION: Refuse a queue that is older than this, or dated as far in the future,
        unless --now is given.
    [What is asked]
    --deadline DURATION: By when each job must end, counted from the queue's date: 6h. Default: no
        deadline; the earliest one is told.
    --scheduler NAME: Deadline scheduler that searches for promises, with options as
        NAME:OPTION=VALUE.
    --may-wait: Let waiting jobs without a promise be put off. Default: they keep the end that
        is planned for them now.
    [When jobs start]
    HISTORY: Accounting of Slurm or PBS, or a log (SWF), of the same machine.
    --history LOG: The machine's history, to learn from: accounting of Slurm or PBS, or a log (SWF).
        Default: nothing is forecast, and starts are those of the plan by time limits.
    --time-zone NAME: Zone of the dates in history and queue that have no offset (Europe/Berlin).
        Default: this machine's (TZ); of SWF, the header's.
    --by-scheduler NAME: The scheduler that decides on the machine, with options as
        NAME:OPTION=VALUE: easy, or slurm. Default: easy; where a plan goes node by node, each job
        has its earliest fit by priority.
    --slurm-config FILE: With --by-scheduler slurm: its weights, as `scontrol show config` prints
        them; the output of `sprio` behind them tells priorities of waiting jobs. Default without a
        queue: the Slurm that runs here is asked.
    --starts logged|simulated: Starts to forecast: those that the history tells, or those that the
        scheduler would have given to its jobs.
    --draws N: Number of random futures to simulate. Default of starts: 200, 50 for
        each --job; of backtest: 50.
    --moments N: Random moments of the past at which a forecast is made.
    --seed N: Number that random choices begin with.
    --job PROCESSORSxTIME: Forecast a job that is not submitted yet, as 64x2h (repeatable), as if it
        were the only new one.
    --what-if: Forecast each --job also with fewer and more processors, and with shorter and longer
        limits; node by node, also in other partitions and with fewer GPUs and less memory.
    --prices FILE: Prices of the centre (TOML), as for `charges`; its price function gives the
        charges.
    --user NAME: User of the new jobs: they use as much of their limits as past jobs of this user.
    --calibration FILE: Output of `queue backtest --json`, by which forecasts are corrected.
    --anonymous: Print numbers in place of users, in the order of their appearance.
    --slurm-estimates FILE: File that `live record` wrote: compare forecasts with Slurm's own, at
        moments of the time recorded.
    --out, -o FILE: A page to write as well (HTML, one file).
    [Where to answer]
    --listen ADDRESS:PORT: Where the server listens.
    --any-interface: Allow an address that other machines can reach.
    """
)


_LOCAL_DATES = ("sacct", "pbs", "csv")
"""Formats of logs whose dates may have no offset from UTC."""

_A_JOB = re.compile("[0-9]+x")


def _of_machine(
    processors: Annotated[int | None, _about("--processors", min=1)] = None,
    partition: Annotated[list[str] | None, _about("--partition")] = None,
    qos: Qos = None,
    account: Accounts = None,
    reservation: Reservations = None,
    nodes: Annotated[Path | None, _about("--nodes")] = None,
    time_zone: Annotated[str | None, _about("--time-zone")] = None,
) -> None:
    """Declare the options that describe the machine and select its jobs, for several commands."""


def _of_age(max_age: Annotated[str, _about("--max-age")] = "1h") -> None:
    """Declare the option for how old a queue may be, for several commands."""


def _of_promises(
    scheduler: Annotated[str, _about("--scheduler")] = "qops",
    may_wait: Annotated[bool, _about("--may-wait")] = False,
) -> None:
    """Declare the options for promising ends, for several commands."""


def _of_forecasts(
    by_scheduler: Annotated[str, _about("--by-scheduler")] = "",
    calibration: Annotated[Path | None, _about("--calibration")] = None,
    draws: Annotated[int | None, _about("--draws", min=10, max=10_000)] = None,
    seed: Annotated[int, _about("--seed", min=0)] = 1,
    slurm_config: Annotated[Path | None, _about("--slurm-config")] = None,
) -> None:
    """Declare the options for forecasting starts, for several commands."""


def _of_users(anonymous: Annotated[bool, _about("--anonymous")] = False) -> None:
    """Declare the option that hides users' names, for several commands."""


def _source(queue: Path | None, given: Mapping[str, Any], now: float | None = None) -> QueueSource:
    """Return where the queue is read: the Slurm that runs here, a file, or a live journal."""
    from qops_batsim.live.journal import is_journal
    from qops_batsim.queue.source import QueueSource
    from qops_batsim.schedulers.registry import parse_scheduler

    other = None
    # A pipe can be opened once.
    if queue is not None and os.path.isfile(queue) and is_journal(queue):
        from qops_batsim.live.centre import journal_queue

        other = journal_queue
    scheduler, settings = parse_scheduler(given.get("scheduler", "qops"))
    chosen = {name: given[name] or () for name in _CHOSEN}
    is_chosen = any(chosen.values()) or given["nodes"] is not None
    config = _slurm_config(given)
    return QueueSource(
        queue,
        scheduler,
        settings,
        given["processors"],
        now,
        given.get("may_wait", False),
        selection=chosen if is_chosen else {},
        nodes_file=given["nodes"],
        max_age=duration(given["max_age"], "--max-age", zero=False),
        time_zone=_time_zone(given),
        priorities={} if config is None else config.priorities,
        other=other,
    )


def _time_zone(given: Mapping[str, Any]) -> str | None:
    """Return the time zone that was named, which has to exist, or None."""
    from qops_batsim.dates import Calendar

    named: str | None = given["time_zone"]
    if named is not None:
        Calendar(0, named).check("--time-zone")
    return named


def _slurm_config(given: Mapping[str, Any], *, is_live: bool = False) -> SlurmConfig | None:
    """Return Slurm's configuration, from ``--slurm-config`` or the running Slurm, or None."""
    from qops_batsim.files import read_text
    from qops_batsim.queue.source import live_config
    from qops_batsim.slurm.config import MAX_BYTES, read_slurm_config

    path = given.get("slurm_config")
    is_slurm = given.get("by_scheduler", "").startswith("slurm")
    if path is None:
        return live_config() if is_live and is_slurm else None
    if not is_slurm:
        raise InputError(
            "--slurm-config is given, which only --by-scheduler slurm reads; give both, or neither"
        )
    text = read_text(path, what="what `scontrol show config` prints", max_bytes=MAX_BYTES)
    return read_slurm_config(text, str(path))


def _decider(given: Mapping[str, Any], *, is_live: bool = False) -> tuple[str, dict[str, Any]]:
    """Return name and options of the scheduler that decides on the machine."""
    from qops_batsim.schedulers.registry import parse_scheduler

    if not given["by_scheduler"]:
        return "", {}
    name, settings = parse_scheduler(given["by_scheduler"])
    config = _slurm_config(given, is_live=is_live)
    if config is None:
        return name, settings
    if config.lacks:
        note(f"of this Slurm, the simulation does not have {', '.join(config.lacks)}")
    return name, {**config.options, **settings}


def _basis(
    history: str | None, state: QueueState | None, given: Mapping[str, Any], *, is_live: bool
) -> ForecastBasis:
    """Return what starts are calculated from: the machine's scheduler and, if there is a history,
    its past jobs, and what a back-test has learned; the ``state`` is needed for these only.
    """
    from qops_batsim.queue.learned import Learned, read_learned
    from qops_batsim.queue.past import past_of
    from qops_batsim.queue.starts import ForecastBasis
    from qops_batsim.queue.zones import refuse_other_zone

    if history is None:
        scheduler, settings = _decider(given, is_live=is_live)
        return ForecastBasis(scheduler=scheduler, settings=settings)

    assert state is not None
    path = given["calibration"]
    by_scheduler = given["by_scheduler"] or "easy"
    learned = Learned() if path is None else read_learned(path, by_scheduler)
    machine = None if state.nodes is None else state.nodes.machine
    trace, machine = _trace_on_nodes(history, given, machine, state.machine)
    if trace.calendar is None:
        raise InputError(
            f"{history}: the log does not tell at which date it begins; in the header of an SWF "
            "log, UnixStartTime is expected, and TimeZoneString unless --time-zone is given"
        )
    refuse_other_zone(state, trace.open_jobs, history, trace.calendar.time_zone)
    decider = _decider(given, is_live=is_live)
    past = past_of(trace, machine)
    return ForecastBasis(past, trace.calendar, *decider, given["seed"], learned)


@app.command()
@with_options(_of_machine)
@with_options(_of_age)
@with_options(_of_promises)
@with_options(_of_forecasts)
def quote(
    queue: Annotated[str, _about("QUEUE")],
    jobs: Annotated[list[str] | None, _about("JOB...")] = None,
    deadline: Annotated[str | None, _about("--deadline")] = None,
    history: Annotated[str | None, _about("--history")] = None,
    user: Annotated[str, _about("--user")] = "",
    prices: Annotated[Path | None, _about("--prices")] = None,
    now: Annotated[str | None, _about("--now")] = None,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Tell the earliest end that can be promised to new jobs, and whether a deadline can be.

    With --history, also tells what the machine's own scheduler would do: the chance to end by
    the deadline, the earliest end that is kept with a chance of 95 %, and the charges for both.

    Examples:

    \b
        squeue --json | qops-batsim queue quote - 64x2h 128x30m --processors 1024
        qops-batsim queue quote squeue.json 8x6h --partition gpu --nodes nodes.txt
        qops-batsim queue quote qops.db 4x10m --deadline 2h
        qops-batsim queue quote squeue.json 64x2h --deadline 8h \\
          --history sacct.txt
        qops-batsim queue quote 64x2h
    """
    from msgspec.structs import replace

    from qops_batsim.queue.queue_state import parse_ask

    until = None if deadline is None else duration(deadline, "--deadline", zero=False)
    jobs = jobs or []
    is_live = _A_JOB.match(queue) is not None and not Path(queue).exists()
    if is_live:
        jobs.insert(0, queue)
    if not jobs:
        raise InputError(
            "no job is given; at least one, as 64x2h (64 processors for 2 hours), is expected "
            "behind the queue"
        )
    asks = [replace(ask, deadline=until, user=user) for ask in map(parse_ask, jobs)]
    asker = _source(None if is_live else Path(queue), given, _date(now)).asker()
    answers = [asker.ask(ask) for ask in asks]

    likely: list[LikelyEnd] = []
    if history is not None:
        from qops_batsim.economics.prices import read_prices
        from qops_batsim.queue.promise import likely_ends
        from qops_batsim.queue.starts import DRAWS

        basis = _basis(history, asker.state, given, is_live=is_live)
        draws = given["draws"] or DRAWS
        costs = read_prices(prices)
        likely = likely_ends(asker.state, basis, asks, answers, draws=draws, prices=costs)

    state = asker.state
    if as_json:
        about = {"now": state.now, "left_out": state.not_planned(), "late": asker.late}
        by_chance = {"likely": likely} if likely else {}
        print_json({"state": about | asker.about(), "jobs": answers} | by_chance)
        return

    say(
        f"{state.source} at {date_text(state.now)}: {state.free:,} of "
        f"{state.processors:,} processors free, jobs: {state.count_running():,} running, "
        f"{asker.waiting:,} waiting"
    )
    _note_doubts(state.not_planned(), state.unsure)
    if asker.late:
        note(f"{len(asker.late):,} promises cannot be kept as it is: {', '.join(asker.late[:5])}")
    title = "Earliest promises, each as if it were the only new job"
    _print_rows(title, [_queue_row(answer) for answer in answers])
    if likely:
        title = f"Under {basis.scheduler or 'easy'}, which promises nothing"
        _print_rows(title, [_likely_row(*pair) for pair in zip(answers, likely, strict=True)])
    for answer in answers:
        if answer.reason:
            job = f"{answer.processors} x {duration_text(answer.time)}"
            say(f"{job}: refused: {answer.reason}")


def _print_rows(title: str, rows: Sequence[dict[str, str]]) -> None:
    print_table(title, [*rows[0]], [[*row.values()] for row in rows])


def _likely_row(answer: QueueAnswer, likely: LikelyEnd) -> dict[str, str]:
    row = {"processors": f"{answer.processors:,}", "run time": duration_text(answer.time)}
    if likely.chance is not None:
        row["chance as asked"] = f"{100 * likely.chance:.0f} %"
    row["95 % end in"] = "-" if likely.response is None else duration_text(likely.response)
    for head, price in (("its QoS charge", likely.price), ("the promise's", likely.hard_price)):
        row[head] = "-" if price is None or price.qos is None else f"{price.qos:.3g}"
    return row


def _note_doubts(
    left_out: dict[str, int], unsure: dict[str, int], waits: Sequence[UnexplainedWait] = ()
) -> None:
    """Print how many jobs of a queue are left out, what is not sure, each with its reason, and
    which waits the plan does not explain.
    """
    from qops_batsim.queue.unexplained_waits import why_no_date

    for reason, count in left_out.items():
        note(f"left out: {count:,} {reason}")
    for reason, count in unsure.items():
        note(f"not sure: {count:,} {reason}")
    for wait in waits:
        note(why_no_date(wait))


def _date(text: str | None) -> float | None:
    """Parse the date of ``--now`` to seconds since 1970."""
    from qops_batsim.queue.queue_state import date_of

    try:
        return None if text is None else date_of(float(text), "--now")
    except ValueError:
        return date_of(text, "--now")


def _queue_row(answer: QueueAnswer) -> dict[str, str]:
    row = {
        "processors": f"{answer.processors:,}",
        "run time": duration_text(answer.time),
        "starts in": "-" if answer.wait is None else duration_text(answer.wait),
        "ends in": "none" if answer.response is None else duration_text(answer.response),
        "promised end": answer.end_date or "none can be promised",
    }
    if answer.admitted is not None:
        row["as asked"] = "yes" if answer.admitted else "no"
    return row


@app.command()
@with_options(_of_machine)
@with_options(_of_age)
@with_options(_of_forecasts)
@with_options(_of_users)
def starts(
    queue: Annotated[Path | None, _about("QUEUE")] = None,
    history: Annotated[str | None, _about("--history")] = None,
    job: Annotated[list[str] | None, _about("--job")] = None,
    what_if: Annotated[bool, _about("--what-if")] = False,
    user: Annotated[str, _about("--user")] = "",
    now: Annotated[str | None, _about("--now")] = None,
    out: Annotated[Path | None, _about("--out")] = None,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Forecast each waiting job's start: dates by which it starts with a chance of 50 and 90 %.

    Simulates random futures: run times by the shares of their limits that jobs of the same user
    used, arrivals of past weeks at the same hours, starts by the machine's scheduler. `queue
    backtest` measures how often such forecasts come true. Without --history: the plan by time
    limits, which is no forecast.

    Examples:

    \b
        squeue --json | qops-batsim queue starts - --history sacct.txt \\
          --processors 1024
        qops-batsim queue starts squeue.json --history log.swf.gz \\
          --calibration backtest.json
        qops-batsim queue starts squeue.json --history log.swf.gz \\
          --job 64x2h --what-if
        qops-batsim queue starts --history sacct.txt
    """
    from msgspec.structs import replace

    from qops_batsim.queue.queue_state import parse_ask
    from qops_batsim.queue.starts import node_variants, variants

    if out is not None and job:
        raise InputError(
            "--out (a page about the waiting jobs) and --job (a forecast for a new job) are both "
            "given; one of the two options is expected"
        )
    if what_if and not job:
        raise InputError(
            "--what-if is given without --job; a job whose variants to forecast is expected"
        )
    if history is None:
        _refuse_without_history({**given, "user": user or None})
    asks = [replace(ask, user=user) for ask in map(parse_ask, job or ())]
    if out is not None:
        check_writable(out)

    state = _source(queue, given, _date(now)).state()
    if state.nodes is None:
        asks = [replace(ask, partition=ask.partition or _partition(given)) for ask in asks]
    if what_if and state.nodes is not None:
        names = state.nodes.partitions
        asks = [variant for ask in asks for variant in node_variants(ask, names)]
        what_if = False  # They are a list, no grid.
    elif what_if:
        asks = [variant for ask in asks for variant in variants(ask, state.processors)]
    basis = _basis(history, state, given, is_live=queue is None)
    if asks:
        _tell_asked(state, basis, asks, given, what_if=what_if, as_json=as_json)
    else:
        _tell_queue(state, basis, given, out, as_json=as_json)


def _partition(given: Mapping[str, Any]) -> str:
    """Return the partition named by ``--partition`` first, or ""."""
    return given["partition"][0] if given["partition"] else ""


def _refuse_without_history(given: Mapping[str, Any]) -> None:
    """Raise InputError for an option of forecasts that a plan by limits could not follow."""
    for name in ("calibration", "draws", "user"):
        if given.get(name) is not None:
            raise InputError(
                f"--{name} is given without --history; it is for forecasts, which need the "
                "machine's history (without it, starts are those of the plan by time limits)"
            )


def _tell_asked(
    state: QueueState,
    basis: ForecastBasis,
    asks: list[Ask],
    given: Mapping[str, Any],
    *,
    what_if: bool,
    as_json: bool,
) -> None:
    """Tell the starts of jobs that are not submitted yet."""
    import msgspec

    from qops_batsim.queue.starts import FEWER_DRAWS, NO_FORECAST, asked_starts

    draws = given["draws"] or FEWER_DRAWS
    found = asked_starts(state, asks, basis, draws=draws)
    if as_json:
        made = {"draws": draws, "seed": given["seed"]} if found.is_forecast else {}
        print_json({**msgspec.structs.asdict(found), **made})
        return

    decider = basis.scheduler or "easy"
    how = f"each job as the last of the queue, by {decider}"
    if found.is_forecast:
        how = f"{draws} simulations of each job by {decider}, as the last of the queue"
    elif state.nodes is not None and not basis.scheduler:
        how = "each job as the last of the queue, at its earliest fit"
    if state.nodes is not None:
        how += ", node by node"
    say(f"{state.source} at {date_text(state.now)}: {how}")
    if not found.is_forecast:
        note(NO_FORECAST)
    _note_doubts(state.not_planned(), state.unsure, found.unexplained)
    if what_if and not found.unexplained:
        _print_grid(found)
    else:
        _print_starts(found)


def _tell_queue(
    state: QueueState,
    basis: ForecastBasis,
    given: Mapping[str, Any],
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    """Tell the starts of the waiting jobs of a queue."""
    from qops_batsim.experiments.page import Aliases
    from qops_batsim.queue.starts import DRAWS, NO_FORECAST, anonymous, queue_starts

    draws = given["draws"] or DRAWS
    bar = nullcontext() if basis.past is None else progress_bar(draws, "simulations")
    with bar as on_progress:
        found = queue_starts(state, basis, draws=draws, on_progress=on_progress)
    if given["anonymous"]:
        found = anonymous(found, Aliases())
    if out is not None:
        from qops_batsim.queue.pages import queue_page

        made_by = command_line(anonymous=given["anonymous"])
        write_text(out, queue_page(found, state, basis.calendar, made_by))
        note(f"wrote {out}")
    if as_json:
        print_json(found)
        return

    how = f"planned by time limits, by {found.scheduler}"
    by_node = ", node by node" if found.by_node is True else ""
    how += by_node
    if by_node and not basis.scheduler:
        how = "planned by time limits, node by node, each job at its earliest fit by priority"
    if found.is_forecast:
        calibrated = "calibrated by a back-test" if found.calibrated else "not calibrated"
        how = f"{found.draws} simulations by {found.scheduler}{by_node}, {calibrated}"
    say(f"{_counts(found)}; {how}")
    for warning in found.warnings or ():
        note(warning)
    if not found.is_forecast:
        note(NO_FORECAST)
    _note_doubts(found.left_out, found.unsure, found.unexplained)
    _print_starts(found)
    for told in found.jobs:
        if told.lacks:
            say(f"job {told.name} waits for what nodes lack: {told.lacks}")


def _counts(found: QueueStarts) -> str:
    """Return how many jobs of a queue run, wait with a date, and wait without one."""

    dated = len(found.dated)
    undated = len(found.jobs) - dated
    why = "have no date" if found.unexplained else "cannot start now"
    return (
        f"{found.source} at {date_text(found.now)}: jobs: {found.running:,} running, "
        f"{dated:,} waiting" + (f", {undated:,} more that {why}" if undated else "")
    )


def _print_starts(found: QueueStarts | AskedStarts) -> None:
    """Print when jobs start, then those without a date, each with the reason, if there are any."""
    from qops_batsim.queue.starts import undated_table

    title = "Starts in the plan by time limits, which is no forecast"
    heads = ["by limits at"]
    if found.is_forecast:
        title = "Starts, by the chance to start within that time"
        heads = ["10 %", "50 %", "90 %", "50 % start by"]
    rows = [_start_row(job, found.now) for job in found.jobs if job.no_date is None]
    if rows or not found.jobs:
        about = ["job", "processors", "limit", "waits for", "by limits in"]
        print_table(title, [*about, *heads], rows)

    title, heads, rows = undated_table(found.jobs)
    if rows:
        print_table(title, heads, rows)


def _start_row(job: JobStart, now: float) -> list[str]:
    from qops_batsim.queue.starts import StartForecast

    later: list[float | None] = []
    date = job.planned
    if isinstance(job, StartForecast):
        later = [job.early, job.median, job.late]
        date = job.median
    return [
        job.name,
        f"{job.processors:,}",
        "-" if job.limit is None else duration_text(job.limit),
        job.waits_for,
        *(_until(start, now) for start in (job.planned, *later)),
        "-" if date is None else date_text(date)[:16],
    ]


def _print_grid(found: AskedStarts) -> None:
    """Print the starts of jobs that are not submitted yet, by processors and time limit."""
    from qops_batsim.queue.starts import StartForecast

    limits = list(dict.fromkeys(job.limit or 0.0 for job in found.jobs))
    rows: dict[int, list[str]] = {}
    for job in found.jobs:
        row = rows.setdefault(job.processors, [f"{job.processors:,}", *["" for _ in limits]])
        cell = _until(job.planned, found.now)
        if isinstance(job, StartForecast):
            cell = f"{_until(job.median, found.now)} / {_until(job.late, found.now)}"
        row[1 + limits.index(job.limit or 0.0)] = cell

    what = "By time limits, jobs start within"
    if found.is_forecast:
        what = "Half of such jobs start within / nine of ten within"
    title = f"{what}, by processors and time limit"
    print_table(title, ["processors", *map(duration_text, limits)], list(rows.values()))


def _until(date: float | None, now: float) -> str:
    """Return in words how long it is until a date (both in seconds)."""
    return "-" if date is None else duration_text(max(date - now, 0.0))


@app.command()
@with_options(_of_machine)
def backtest(
    history: Annotated[str, _about("HISTORY")],
    by_scheduler: Annotated[str, _about("--by-scheduler")] = "easy",
    starts: Annotated[str, _about("--starts")] = "logged",
    moments: Annotated[int, _about("--moments", min=10, max=100_000)] = 200,
    draws: Annotated[int, _about("--draws", min=10, max=10_000)] = 50,
    seed: Annotated[int, _about("--seed", min=0)] = 1,
    slurm_estimates: Annotated[Path | None, _about("--slurm-estimates")] = None,
    out: Annotated[Path | None, _about("--out")] = None,
    slurm_config: Annotated[Path | None, _about("--slurm-config")] = None,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Measure how often forecasts of starts would have come true at random moments of a log.

    Each forecast knows what was known then. Intervals are calibrated by the outcomes of earlier
    moments. For comparison: the plan by time limits, and the waits of jobs that have just ended.

    Examples:

    \b
        qops-batsim queue backtest sacct.txt --processors 1024
        qops-batsim queue backtest log.swf.gz --starts simulated
    """
    import msgspec

    from qops_batsim.cli.command_inputs import listed_nodes
    from qops_batsim.queue.backtest import compare
    from qops_batsim.queue.expected_starts import ExpectedStarts
    from qops_batsim.queue.pages import backtest_page, coverage_table, judgement
    from qops_batsim.queue.past import past_of
    from qops_batsim.workload.workload_model import shortage_warning

    if starts not in ("logged", "simulated"):
        raise InputError(f"--starts is {starts!r}; logged or simulated is expected")
    if out is not None:
        check_writable(out)
    expected = None
    unix_start = 0.0
    if slurm_estimates is not None:
        if starts == "simulated":
            raise InputError(
                "--slurm-estimates is given with --starts simulated, but Slurm's estimates can be "
                "compared with logged starts only; --starts logged is expected"
            )
        expected = ExpectedStarts(slurm_estimates)
    machine = None
    if given["nodes"] is not None and given["processors"] is None:
        listed = listed_nodes(given["nodes"])
        machine = listed.machine_of(given["partition"] or [*listed])
    trace, machine = _trace_on_nodes(
        history, given, machine, given["processors"], by="binding", tells_nodes=True
    )
    past = past_of(trace, machine)
    if expected is not None:
        if trace.calendar is None:
            raise InputError(
                f"{history}: the log does not tell at which date it begins, which "
                "--slurm-estimates needs; in the header of an SWF log, UnixStartTime is expected"
            )
        unix_start = trace.calendar.unix_start

    decider = _decider({"by_scheduler": by_scheduler, "slurm_config": slurm_config})
    with progress_bar(moments, "moments") as bar:
        found = compare(
            past,
            *decider,
            as_simulated=starts == "simulated",
            expected=expected,
            unix_start=unix_start,
            moments=moments,
            draws=draws,
            seed=seed,
            on_progress=bar,
        )
    if out is not None:
        whose = "as logged" if starts == "logged" else f"as {by_scheduler} would have made them"
        about = f"Back-test of {Path(history).name}, starts {whose}, forecast by {by_scheduler}"
        write_text(out, backtest_page(about, found, command_line()))
        note(f"wrote {out}")
    if few := shortage_warning(found.moments, moments, "moments at which jobs wait"):
        note(few)

    every = found.classes[0]
    promises = found.promises
    if as_json:
        asked = {"history": history, "starts": starts, "scheduler": by_scheduler}
        numbers = {"moments": found.moments, "draws": draws, "seed": seed}
        whole = msgspec.structs.asdict(every)
        del whole["group"]
        parts = {"by_class": found.classes, "promises": promises}
        learned = msgspec.structs.asdict(found.learned)
        print_json({**asked, **numbers, **whole, **parts, **learned})
        return

    table = coverage_table(found.classes, found.moments)
    print_table(table.title, table.headings, table.rows)
    interval = ""
    if every.coverage_80_interval is not None:
        low, high = every.coverage_80_interval
        interval = f" [{low:.1f}, {high:.1f}]"
    say(
        f"{every.coverage_80:.1f} %{interval} of starts came in intervals of 80 %, as drawn "
        f"{every.raw_80:.1f} %"
    )
    for sentence in judgement(found):
        say(sentence)
    if promises is not None:
        say(
            f"{promises.kept:.1f} % of ends promised at 95 % were kept "
            f"({promises.started:.1f} % had all jobs used up their limits), on average "
            f"{duration_text(promises.slack)} early; planned by limits: "
            f"{promises.plan_kept:.1f} %, {duration_text(promises.plan_slack)}"
        )


def _trace_on_nodes(
    history: str,
    given: Mapping[str, Any],
    machine: Machine | None,
    processors: int | None,
    **more: Any,
) -> tuple[Conversion, Machine | None]:
    """Read the machine's history with what jobs asked of the nodes of a ``machine``, if there are
    any and it tells that, else counted; return the nodes in the first case.
    """
    from qops_batsim.cli.command_inputs import selection
    from qops_batsim.dates import machine_zone
    from qops_batsim.traces.reading import read_trace
    from qops_batsim.workload.accounting import Choices
    from qops_batsim.workload.accounting.node_sizes import NodeSizes
    from qops_batsim.workload.conversion import Repairs

    if machine is not None and "cores" in machine.kinds:
        nodes = NodeSizes([])
        nodes.read_machine = lambda: machine
        partition, qos, account, reservation = (given[name] for name in _CHOSEN)
        chosen = selection(partition, qos, account, reservation, None) | {"nodes": nodes}
        choices = Choices(by="amounts", default_zone=machine_zone(), **chosen)
        zone = _time_zone(given)
        keep = Repairs(too_wide="keep")
        try:
            trace = read_trace(history, accounting=choices, time_zone=zone, repairs=keep)
        except InputError as error:
            note(f"{history}: its jobs ask for cores only, since it does not tell more ({error})")
        else:
            _note_zone(history, trace, given)
            return trace, machine
    return _trace(history, given, processors, **more), None


_CHOSEN = ("partition", "qos", "account", "reservation")
"""Options that choose jobs."""


def _trace(
    history: str,
    given: Mapping[str, Any],
    processors: int | None,
    by: str = "cores",
    *,
    tells_nodes: bool = False,
) -> Conversion:
    """Read the machine's history, which must be about one pool (nodes that share their jobs).

    Jobs are counted by cores, as in queues, or else by what binds. With ``tells_nodes``, it is told
    that nodes that are away count.
    """
    from qops_batsim.cli.command_inputs import selection
    from qops_batsim.dates import machine_zone
    from qops_batsim.traces.reading import read_partitions
    from qops_batsim.workload.accounting import Choices
    from qops_batsim.workload.workload_model import refuse_amounts

    chosen = [given[name] for name in (*_CHOSEN, "nodes")]
    accounting = Choices(by=by, **selection(*chosen, tell=tells_nodes)) if any(chosen) else None
    traces, _ = read_partitions(
        history,
        processors=processors,
        accounting=accounting,
        time_zone=_time_zone(given),
        default_zone=machine_zone(),
        by=by,
    )
    if len(traces) > 1:
        raise InputError(
            f"{history}: the machine has {len(traces)} separate sets of nodes "
            f"({', '.join(traces)}); the partition of one of them is expected (--partition)"
        )
    (trace,) = traces.values()
    refuse_amounts(trace.workload, "queue")
    _note_zone(history, trace, given)
    if trace.not_counted:
        note(f"not counted, though jobs asked for it: {', '.join(trace.not_counted)}")
    return trace


def _note_zone(history: str, trace: Conversion, given: Mapping[str, Any]) -> None:
    """Print in which time zone the dates of accounting were read, and what a change of the clock
    leaves open.
    """
    if trace.calendar is None or trace.workload.provenance.get("format") not in _LOCAL_DATES:
        return
    if given["time_zone"] is None:
        note(
            f"{history}: dates without an offset, and hours of the day, are of "
            f"{trace.calendar.time_zone}, this machine's time zone (--time-zone names another)"
        )
    for repair in trace.repairs:
        if repair.rule in ("hour_twice", "hour_missing"):
            note(f"{history}: {repair.jobs:,} rows have {repair.description}")


@app.command()
@with_options(_of_machine)
@with_options(_of_age)
@with_options(_of_promises)
@with_options(_of_forecasts)
@with_options(_of_users)
def serve(
    queue: Annotated[Path | None, _about("QUEUE")] = None,
    history: Annotated[str | None, _about("--history")] = None,
    listen: Annotated[str, _about("--listen")] = "127.0.0.1:8080",
    any_interface: Annotated[bool, _about("--any-interface")] = False,
    **given: Any,
) -> None:
    """Answer requests for quotes and forecasts over HTTP, until a signal ends the server.

    The queue is read again whenever its file changes. With --history, another process forecasts
    the queue, and /starts gives the latest forecast; without, the plan by time limits. Needs the
    extra http.

    Examples:

    \b
        qops-batsim queue serve squeue.json --processors 1024 \\
          --history sacct.txt
        curl 'http://127.0.0.1:8080/quote?processors=64&time=2h'
        curl 'http://127.0.0.1:8080/starts?job=4711'
        curl 'http://127.0.0.1:8080/starts?processors=64&time=2h'
    """
    with _served():
        from qops_batsim.queue.latest import LatestForecast
    source = _source(queue, given)
    if history is None:
        _refuse_without_history(given)
        basis = _basis(None, None, given, is_live=queue is None)
        starts: StartCalculator | LatestForecast = _calculator(basis, given)
    else:
        if str(queue) == "-":
            raise InputError(
                "--history is given and the queue is -, but standard input can be read only once; "
                "a file with the queue is expected"
            )
        begin = partial(_watch, queue, history, given)
        starts = LatestForecast(begin, source.check_age, on_line=note)
    serve_quotes(source, listen, starts, any_interface=any_interface)


def _watch(queue: Path | None, history: str, given: Mapping[str, Any]) -> QueueWatch:
    """Return how to read the queue and to forecast its starts, for the process that renews them."""
    from qops_batsim.queue.latest import QueueWatch

    source = _source(queue, given)
    basis = _basis(history, source.state(), given, is_live=queue is None)
    return QueueWatch(source.state, _calculator(basis, given))


def _calculator(basis: ForecastBasis, given: Mapping[str, Any]) -> StartCalculator:
    from qops_batsim.queue.latest import StartCalculator

    partition = _partition(given)
    return StartCalculator(
        basis, given["draws"], partition=partition, is_anonymous=given["anonymous"]
    )


@contextmanager
def _served() -> Iterator[None]:
    """Turn a missing package of the HTTP server into an InputError that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(
            f"`queue serve` needs the package {error.name}, which is not installed; install it by "
            "pip install 'qops-batsim[http]'"
        ) from None


def serve_quotes(
    source: QueueSource,
    address: str,
    starts: StartCalculator | LatestForecast | None = None,
    *,
    any_interface: bool,
) -> None:
    """Answer HTTP requests for quotes and starts until a signal ends the server.

    ``address`` is HOST:PORT; ``any_interface`` allows one that other machines can reach.
    """
    from qops_batsim.signals import EndingSignal

    with _served():
        from qops_batsim.queue.latest import LatestForecast
        from qops_batsim.queue.quote_server import QuoteServer, parse_address
    place = parse_address(address, any_interface=any_interface)
    source.asker()  # Wrong options and files are told at once.
    try:
        server = QuoteServer(place, source.asker, starts=starts, on_request=note)
    except OSError as error:
        raise InputError(
            f"--listen is {address}, where no server can be started ({error.strerror or error}); "
            "an address of this machine with a free port is expected"
        ) from None
    host, port = server.address
    forecasts = starts if isinstance(starts, LatestForecast) else nullcontext()
    with suppress(KeyboardInterrupt, EndingSignal), forecasts:
        note(f"listens at http://{host}:{port}")
        server.run()
    note("stopped")
