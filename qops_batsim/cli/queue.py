"""``qops-batsim queue``: deadlines that can be promised in a machine's queue as it is now."""

from __future__ import annotations

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
    from collections.abc import Callable, Sequence

    from qops_batsim.live.queue_source import QueueSource
    from qops_batsim.queue.latest import LatestForecast, PlannedStarts, Watch
    from qops_batsim.queue.promise import LikelyEnd
    from qops_batsim.queue.queue_forecast import ForecastBasis, QueueForecast, StartForecast
    from qops_batsim.queue.queue_plan import AskedJob, AskedStarts, PlannedStart, QueuePlan
    from qops_batsim.queue.queue_quote import QueueAnswer
    from qops_batsim.queue.queue_state import QueueState
    from qops_batsim.queue.unexplained_waits import UnexplainedWait
    from qops_batsim.slurm.config import SlurmConfig
    from qops_batsim.workload.conversion import Conversion

app = typer.Typer(
    no_args_is_help=True,
    help="Tell what can be promised to new jobs in a machine's queue as it is now.\n\n"
    "A plan of the running and waiting jobs is made, and a new job is tried in it; nothing is "
    "changed. docs/centres.md has more.",
)

DRAWS, FEWER_DRAWS = 200, 50
"""Simulations of a queue, and of each job that is asked about, by default."""

_about = manual(
    f"""
    QUEUE: The queue: output of `squeue --json` or of `scontrol show job`, a file as described in
        docs/centres.md, or the journal of `live`; - for standard input. Default: the queue of the
        Slurm that runs here, which is asked and not changed.
    JOB...: {A_JOB}; each as if it were the only new one.
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
        NAME:OPTION=VALUE: easy, or slurm.
    --slurm-config FILE: With --by-scheduler slurm: its weights, as `scontrol show config` prints
        them; the output of `sprio` behind them tells priorities of waiting jobs. Default without a
        queue: the Slurm that runs here is asked.
    --starts logged|simulated: Starts to forecast: those that the history tells, or those that the
        scheduler would have given to its jobs.
    --draws N: Number of random futures to simulate. Default of starts: {DRAWS}, {FEWER_DRAWS} for
        each --job; of backtest: 50.
    --moments N: Random moments of the past at which a forecast is made.
    --seed N: Number that random choices begin with.
    --job PROCESSORSxTIME: Forecast a job that is not submitted yet, as 64x2h (repeatable), as if it
        were the only new one.
    --what-if: Forecast each --job also with fewer and more processors, and with shorter and longer
        limits.
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
    by_scheduler: Annotated[str, _about("--by-scheduler")] = "easy",
    calibration: Annotated[Path | None, _about("--calibration")] = None,
    draws: Annotated[int | None, _about("--draws", min=10, max=10_000)] = None,
    seed: Annotated[int, _about("--seed", min=0)] = 1,
    slurm_config: Annotated[Path | None, _about("--slurm-config")] = None,
) -> None:
    """Declare the options for forecasting starts, for several commands."""


def _of_users(anonymous: Annotated[bool, _about("--anonymous")] = False) -> None:
    """Declare the option that hides users' names, for several commands."""


def _source(queue: Path | None, given: dict[str, Any], now: float | None = None) -> QueueSource:
    from qops_batsim.experiments.deadline_runs import contestant_of
    from qops_batsim.live.queue_source import QueueSource

    chosen = {name: given[name] or () for name in ("partition", "qos", "account", "reservation")}
    nodes, contestant = given["nodes"], contestant_of(given.get("scheduler", "qops"))
    some = any(chosen.values()) or nodes is not None
    return QueueSource(
        queue,
        contestant.scheduler,
        contestant.settings,
        given["processors"],
        now,
        given.get("may_wait", False),
        selection=chosen if some else {},
        nodes_file=nodes,
        max_age=duration(given["max_age"], "--max-age", zero=False),
        time_zone=_time_zone(given),
        priorities={} if (config := _slurm_config(given)) is None else config.priorities,
    )


def _time_zone(given: dict[str, Any]) -> str | None:
    """Return the time zone that was named, which has to exist, or None."""
    from qops_batsim.dates import Calendar

    named: str | None = given["time_zone"]
    if named is not None:
        Calendar(0, named).check("--time-zone")
    return named


def _slurm_config(given: dict[str, Any], *, is_live: bool = False) -> SlurmConfig | None:
    """Return Slurm's configuration, from ``--slurm-config`` or the running Slurm, or None."""
    from qops_batsim.files import read_text
    from qops_batsim.live.queue_source import live_config
    from qops_batsim.slurm.config import MAX_BYTES, read_slurm_config

    path, is_slurm = given.get("slurm_config"), given.get("by_scheduler", "").startswith("slurm")
    if path is not None and not is_slurm:
        raise InputError(
            "--slurm-config is given, which only --by-scheduler slurm reads; give both, or neither"
        )
    if path is not None:
        text = read_text(path, what="what `scontrol show config` prints", max_bytes=MAX_BYTES)
        return read_slurm_config(text, str(path))
    return live_config() if is_live and is_slurm else None


def _decider(given: dict[str, Any], *, is_live: bool = False) -> tuple[str, dict[str, Any]]:
    """Return name and options of the scheduler that decides on the machine."""
    from qops_batsim.experiments.deadline_runs import contestant_of

    contestant = contestant_of(given["by_scheduler"])
    config = _slurm_config(given, is_live=is_live)
    if config is None:
        return contestant.scheduler, dict(contestant.settings)
    if config.lacks:
        note(f"of this Slurm, the simulation does not have {', '.join(config.lacks)}")
    return contestant.scheduler, {**config.options, **contestant.settings}


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
    from qops_batsim.queue.queue_quote import Ask, parse_job

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
    asks = [
        Ask(processors=processors, time=run_time, deadline=until)
        for processors, run_time in map(parse_job, jobs)
    ]
    asker = _source(None if is_live else Path(queue), given, _date(now)).asker()
    answers = [asker.ask(each) for each in asks]
    likely: list[LikelyEnd] = []
    if history is not None:
        from qops_batsim.economics.prices import read_prices
        from qops_batsim.queue.promise import likely_ends

        basis = _basis(history, asker.state, given, is_live=is_live)
        draws, costs = given["draws"] or DRAWS, read_prices(prices)
        likely = likely_ends(asker.state, basis, answers, draws=draws, user=user, prices=costs)
    if as_json:
        state = {"now": asker.state.now, "left_out": asker.state.not_planned(), "late": asker.late}
        unsure = {"unsure": asker.state.unsure} if asker.state.unsure else {}
        waits = {"unexplained": asker.unexplained} if asker.unexplained else {}
        by_chance = {"likely": likely} if likely else {}
        print_json({"state": state | unsure | waits, "jobs": answers} | by_chance)
        return
    say(
        f"{asker.state.source} at {date_text(asker.state.now)}: {asker.free:,} of "
        f"{asker.state.processors:,} processors free, jobs: {asker.running:,} running, "
        f"{asker.waiting:,} waiting"
    )
    _note_doubts(asker.state.not_planned(), asker.state.unsure)
    if asker.late:
        note(f"{len(asker.late):,} promises cannot be kept as it is: {', '.join(asker.late[:5])}")
    rows = [_queue_row(each) for each in answers]
    print_table(
        "Earliest promises, each as if it were the only new job",
        [*rows[0]],
        [[*row.values()] for row in rows],
    )
    if likely:
        rows = [_likely_row(answer, each) for answer, each in zip(answers, likely, strict=True)]
        print_table(
            f"Under {basis.scheduler}, which promises nothing",
            [*rows[0]],
            [[*row.values()] for row in rows],
        )
    for each in answers:
        if each.reason:
            say(f"{each.processors} x {duration_text(each.time)}: refused: {each.reason}")


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
    from qops_batsim.queue.queue_forecast import variants
    from qops_batsim.queue.queue_plan import AskedJob
    from qops_batsim.queue.queue_quote import parse_job

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
    asks = [
        AskedJob(
            processors=processors,
            limit=limit,
            user=user,
            partition=_partition(given),
        )
        for processors, limit in map(parse_job, job or ())
    ]
    if out is not None:
        check_writable(out)
    state = _source(queue, given, _date(now)).state()
    if what_if:
        asks = [each for ask in asks for each in variants(ask, state.processors)]
    if history is None:
        decider = _decider(given, is_live=queue is None)
        _plan(state, decider, asks, given, out, what_if=what_if, as_json=as_json)
        return
    basis = _basis(history, state, given, is_live=queue is None)
    _forecast(state, basis, asks, given, out, what_if=what_if, as_json=as_json)


def _refuse_without_history(given: dict[str, Any]) -> None:
    """Raise InputError for an option of forecasts that a plan by limits could not follow."""
    for name in ("calibration", "draws", "user"):
        if given.get(name) is not None:
            raise InputError(
                f"--{name} is given without --history; it is for forecasts, which need the "
                "machine's history (without it, starts are those of the plan by time limits)"
            )


def _plan(
    state: QueueState,
    decider: tuple[str, dict[str, Any]],
    asks: list[AskedJob],
    given: dict[str, Any],
    out: Path | None,
    *,
    what_if: bool,
    as_json: bool,
) -> None:
    """Tell the starts of a queue, or of new jobs, in the plan by time limits."""
    from qops_batsim.experiments.page import Aliases
    from qops_batsim.queue.queue_forecast import anonymous
    from qops_batsim.queue.queue_plan import NO_FORECAST, plan_asked, plan_queue

    if asks:
        answer = plan_asked(state, asks, *decider)
        if as_json:
            print_json(answer)
            return
        say(
            f"{state.source} at {date_text(state.now)}: each job as the last of the queue, by "
            f"{decider[0]}"
        )
        note(NO_FORECAST)
        _note_doubts(state.not_planned(), state.unsure, answer.unexplained)
        if what_if and not answer.unexplained:
            _print_grid(
                "By time limits, jobs start within",
                answer.jobs,
                lambda job: _until(job.planned, state.now),
            )
        else:
            _print_planned(answer.jobs, state.now)
        return
    found = plan_queue(state, *decider)
    if given["anonymous"]:
        found = anonymous(found, Aliases())
    if out is not None:
        from qops_batsim.queue.pages import plan_page

        write_text(out, plan_page(found, state, command_line(anonymous=given["anonymous"])))
        note(f"wrote {out}")
    if as_json:
        print_json(found)
        return
    say(f"{_counts(found)}; planned by time limits, by {found.scheduler}")
    note(NO_FORECAST)
    _note_doubts(found.left_out, found.unsure, found.unexplained)
    _print_planned(found.jobs, found.now)


def _forecast(
    state: QueueState,
    basis: ForecastBasis,
    asks: list[AskedJob],
    given: dict[str, Any],
    out: Path | None,
    *,
    what_if: bool,
    as_json: bool,
) -> None:
    """Tell the forecast starts of a queue, or of new jobs."""
    import msgspec

    from qops_batsim.experiments.page import Aliases
    from qops_batsim.queue.queue_forecast import anonymous, forecast_asked, forecast_queue

    if asks:
        draws = given["draws"] or FEWER_DRAWS
        answer = forecast_asked(state, basis, asks, draws=draws)
        if as_json:
            made = {"draws": draws, "seed": given["seed"]}
            print_json({**msgspec.structs.asdict(answer), **made})
            return
        say(
            f"{state.source} at {date_text(state.now)}: {draws} simulations of each job by "
            f"{basis.scheduler}, as the last of the queue"
        )
        _note_doubts(state.not_planned(), state.unsure, answer.unexplained)
        if what_if and not answer.unexplained:
            _print_grid(
                "Half of such jobs start within / nine of ten within",
                answer.jobs,
                lambda job: f"{_until(job.median, state.now)} / {_until(job.late, state.now)}",
            )
        else:
            _print_starts(answer.jobs, state.now)
        return
    draws = given["draws"] or DRAWS
    with progress_bar(draws, "simulations") as bar:
        found = forecast_queue(state, basis, draws=draws, on_progress=bar)
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
    say(
        f"{_counts(found)}; {found.draws} simulations by {found.scheduler}, "
        + ("calibrated by a back-test" if found.calibrated else "not calibrated")
    )
    _note_doubts(found.left_out, found.unsure, found.unexplained)
    _print_starts(found.jobs, found.now)


def _counts(found: QueuePlan | QueueForecast) -> str:
    """Return how many jobs of a queue run, wait with a date, and wait without one."""

    undated = sum(job.no_date is not None for job in found.jobs)
    return (
        f"{found.source} at {date_text(found.now)}: jobs: {found.running:,} running, "
        f"{len(found.jobs) - undated:,} waiting"
        + (f", {undated:,} more that {_that(found)}" if undated else "")
    )


def _that(found: QueuePlan | QueueForecast) -> str:
    return "have no date" if found.unexplained else "cannot start now"


def _basis(
    history: str, state: QueueState, given: dict[str, Any], *, is_live: bool
) -> ForecastBasis:
    """Return what a forecast needs: the machine's past jobs, its scheduler, and corrections."""
    from qops_batsim.queue.past import past_of
    from qops_batsim.queue.queue_forecast import ForecastBasis, read_corrections
    from qops_batsim.queue.zones import refuse_other_zone

    calibration, scheduler = given["calibration"], given["by_scheduler"]
    corrections = [] if calibration is None else read_corrections(calibration, scheduler)
    trace = _trace(history, given, state.machine)
    if trace.calendar is None:
        raise InputError(
            f"{history}: the log does not tell at which date it begins; in the header of an SWF "
            "log, UnixStartTime is expected, and TimeZoneString unless --time-zone is given"
        )
    refuse_other_zone(state, trace.open_jobs, history, trace.calendar.time_zone)
    name, settings = _decider(given, is_live=is_live)
    return ForecastBasis(past_of(trace), trace.calendar, name, settings, given["seed"], corrections)


def _print_starts(jobs: Sequence[StartForecast], now: float) -> None:
    """Print forecast starts, then the jobs without."""

    rows = [
        [
            *_about_job(job),
            *(_until(date, now) for date in (job.planned, job.early, job.median, job.late)),
            "-" if job.median is None else date_text(job.median)[:16],
        ]
        for job in jobs
        if job.no_date is None
    ]
    heads = ["job", "processors", "limit", "waits for", "by limits in", "10 %", "50 %", "90 %"]
    table = [*heads, "50 % start by"]
    if rows or not jobs:
        print_table("Starts, by the chance to start within that time", table, rows)
    _print_undated(jobs)


def _print_planned(jobs: Sequence[PlannedStart], now: float) -> None:
    """Print starts in the plan by time limits, then the jobs without."""

    rows = [
        [
            *_about_job(job),
            _until(job.planned, now),
            "-" if job.planned is None else date_text(job.planned)[:16],
        ]
        for job in jobs
        if job.no_date is None
    ]
    if rows or not jobs:
        heads = ["job", "processors", "limit", "waits for", "by limits in", "by limits at"]
        print_table("Starts in the plan by time limits, which is no forecast", heads, rows)
    _print_undated(jobs)


def _about_job(job: PlannedStart) -> list[str]:
    limit = "-" if job.limit is None else duration_text(job.limit)
    return [job.name, f"{job.processors:,}", limit, job.waits_for]


def _print_undated(jobs: Sequence[PlannedStart]) -> None:
    """Print the waiting jobs that have no date, each with the reason, if there are any."""
    rows = [
        [job.name, f"{job.processors:,}", job.waits_for, job.reason or "-", str(job.no_date)]
        for job in jobs
        if job.no_date is not None
    ]
    if rows:
        heads = ["job", "processors", "waits for", "reason", "no date, since it"]
        print_table("Jobs that wait without a date", heads, rows)


def _print_grid(what: str, jobs: Sequence[Any], told: Callable[[Any], str]) -> None:
    """Print what is ``told`` of jobs that are not submitted yet, by processors and time limit."""
    limits = list(dict.fromkeys(job.limit or 0.0 for job in jobs))
    rows: dict[int, list[str]] = {}
    for job in jobs:
        row = rows.setdefault(job.processors, [f"{job.processors:,}", *["" for _ in limits]])
        row[1 + limits.index(job.limit or 0.0)] = told(job)
    print_table(
        f"{what}, by processors and time limit",
        ["processors", *map(duration_text, limits)],
        list(rows.values()),
    )


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

    from qops_batsim.queue import backtest as testing
    from qops_batsim.queue.expected_starts import ExpectedStarts
    from qops_batsim.queue.forecast import Simulator
    from qops_batsim.queue.pages import backtest_page, coverage_table
    from qops_batsim.queue.past import past_of
    from qops_batsim.queue.promise import kept_promises
    from qops_batsim.workload.workload_model import shortage_warning

    if starts not in ("logged", "simulated"):
        raise InputError(f"--starts is {starts!r}; logged or simulated is expected")
    if out is not None:
        check_writable(out)
    expected = span = None
    if slurm_estimates is not None:
        if starts == "simulated":
            raise InputError(
                "--slurm-estimates is given with --starts simulated, but Slurm's estimates can be "
                "compared with logged starts only; --starts logged is expected"
            )
        expected = ExpectedStarts(slurm_estimates)
    trace = _trace(history, given, given["processors"], by="binding", tells_nodes=True)
    past, calendar = past_of(trace), trace.calendar
    if expected is not None:
        if calendar is None:
            raise InputError(
                f"{history}: the log does not tell at which date it begins, which "
                "--slurm-estimates needs; in the header of an SWF log, UnixStartTime is expected"
            )
        first, last = expected.span
        span = first - calendar.unix_start, last - calendar.unix_start
    chosen = _decider({"by_scheduler": by_scheduler, "slurm_config": slurm_config})
    if starts == "simulated":
        past = testing.as_simulated(past, *chosen)
    with progress_bar(moments, "moments") as bar:
        told, corrections = testing.backtest(
            past,
            Simulator(past, *chosen),
            moments=moments,
            draws=draws,
            seed=seed,
            span=span,
            on_progress=bar,
        )
    if expected is not None and calendar is not None:
        told = testing.with_expected(told, past, expected, calendar.unix_start)
    promises = kept_promises(told, past)
    classes, made = testing.coverages(told, past), len({each.now for each in told})
    if out is not None:
        whose = "as logged" if starts == "logged" else f"as {by_scheduler} would have made them"
        about = f"Back-test of {Path(history).name}, starts {whose}, forecast by {by_scheduler}"
        write_text(out, backtest_page(about, told, classes, command_line(), promises))
        note(f"wrote {out}")
    if few := shortage_warning(made, moments, "moments at which jobs wait"):
        note(few)
    if as_json:
        asked = {"history": history, "starts": starts, "scheduler": by_scheduler}
        numbers = {"moments": made, "draws": draws, "seed": seed}
        shown = {"by_class": classes, "promises": promises, "corrections": corrections}
        whole = msgspec.structs.asdict(classes[0])
        del whole["group"]
        print_json({**asked, **numbers, **whole, **shown})
        return
    table = coverage_table(classes, made)
    print_table(table.title, table.headings, table.rows)
    every = classes[0]
    if every.coverage_80_interval is not None:
        low, high = every.coverage_80_interval
        say(
            f"{every.coverage_80:.1f} % [{low:.1f}, {high:.1f}] of starts came in intervals of "
            f"80 %, as drawn {every.raw_80:.1f} %"
        )
    if promises is not None:
        say(
            f"{promises.kept:.1f} % of ends promised at 95 % were kept "
            f"({promises.started:.1f} % had all jobs used up their limits), on average "
            f"{duration_text(promises.slack)} early; planned by limits: "
            f"{promises.plan_kept:.1f} %, {duration_text(promises.plan_slack)}"
        )


def _trace(
    history: str,
    given: dict[str, Any],
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

    names = ("partition", "qos", "account", "reservation", "nodes")
    chosen = [given[name] for name in names]
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
    _note_zone(history, trace, given)
    if trace.not_counted:
        note(f"not counted, though jobs asked for it: {', '.join(trace.not_counted)}")
    return trace


def _note_zone(history: str, trace: Conversion, given: dict[str, Any]) -> None:
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
    for each in trace.repairs:
        if each.rule in ("hour_twice", "hour_missing"):
            note(f"{history}: {each.jobs:,} rows have {each.description}")


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
        plans = _plans(given, is_live=queue is None)
        serve_quotes(source, listen, any_interface=any_interface, plans=plans)
    else:
        if str(queue) == "-":
            raise InputError(
                "--history is given and the queue is -, but standard input can be read only once; "
                "a file with the queue is expected"
            )
        begin = partial(_watch, queue, history, given)
        forecasts = LatestForecast(begin, source.check_age, on_line=note)
        serve_quotes(source, listen, any_interface=any_interface, forecasts=forecasts)


def _plans(given: dict[str, Any], *, is_live: bool) -> PlannedStarts:
    """Return what plans starts by time limits, for a server without a history."""
    from qops_batsim.experiments.page import Aliases
    from qops_batsim.queue.latest import PlannedStarts
    from qops_batsim.queue.queue_forecast import anonymous
    from qops_batsim.queue.queue_plan import plan_asked, plan_queue

    scheduler, settings = _decider(given, is_live=is_live)
    aliases = Aliases()

    def plan(state: QueueState) -> QueuePlan:
        found = plan_queue(state, scheduler, settings)
        return anonymous(found, aliases) if given["anonymous"] else found

    def ask(state: QueueState, jobs: Sequence[AskedJob]) -> AskedStarts[PlannedStart]:
        return plan_asked(state, jobs, scheduler, settings)

    return PlannedStarts(plan, ask)


def _watch(queue: Path | None, history: str, given: dict[str, Any]) -> Watch:
    """Return how to read the queue and to forecast its starts, for the process that renews them."""
    import msgspec

    from qops_batsim.experiments.page import Aliases
    from qops_batsim.queue.latest import Watch
    from qops_batsim.queue.queue_forecast import anonymous, forecast_asked, forecast_queue

    source, draws = _source(queue, given), given["draws"]
    aliases = Aliases()
    basis = _basis(history, source.state(), given, is_live=queue is None)

    def forecast(state: QueueState) -> QueueForecast:
        found = forecast_queue(state, basis, draws=draws or DRAWS)
        return anonymous(found, aliases) if given["anonymous"] else found

    def ask(state: QueueState, jobs: Sequence[AskedJob]) -> AskedStarts[StartForecast]:
        asked = [msgspec.structs.replace(job, partition=_partition(given)) for job in jobs]
        return forecast_asked(state, basis, asked, draws=draws or FEWER_DRAWS)

    return Watch(source.state, forecast, ask)


def _partition(given: dict[str, Any]) -> str:
    """Return the partition named by ``--partition`` first, or ""."""
    return given["partition"][0] if given["partition"] else ""


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
    *,
    any_interface: bool,
    forecasts: LatestForecast | None = None,
    plans: PlannedStarts | None = None,
) -> None:
    """Answer HTTP requests for quotes and forecasts until a signal ends the server.

    ``address`` is HOST:PORT; ``any_interface`` allows one that other machines can reach.
    """
    from qops_batsim.signals import EndingSignal

    with _served():
        from qops_batsim.queue.quote_server import QuoteServer, parse_address
    place = parse_address(address, any_interface=any_interface)
    source.asker()  # Wrong options and files are told at once.
    try:
        server = QuoteServer(place, source.asker, forecasts=forecasts, plans=plans, on_request=note)
    except OSError as error:
        raise InputError(
            f"--listen is {address}, where no server can be started ({error.strerror or error}); "
            "an address of this machine with a free port is expected"
        ) from None
    host, port = server.address
    with suppress(KeyboardInterrupt, EndingSignal), forecasts or nullcontext():
        note(f"listens at http://{host}:{port}")
        server.run()
    note("stopped")
