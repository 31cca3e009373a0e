"""``qops-batsim quote``: deadlines that could be promised, in a run or a queue, and their price."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from qops_batsim.cli.console import (
    announce_compiling,
    note,
    print_answer,
    print_json,
    print_table,
    say,
)
from qops_batsim.cli.inputs import duration, moment
from qops_batsim.cli.options import AllowCode, AsJson, Code, PricedWorkload, Settings, manual
from qops_batsim.cli.texts import duration_text, moment_text, names_text, possible_text, reason_text
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qops_batsim.advice.queue_quote import Ask, QueueAnswer
    from qops_batsim.advice.quote import Quotation
    from qops_batsim.live.queue_source import QueueSource
    from qops_batsim.scheduling.plugins import AllowedCode


_about = manual(
    """
    --state PREFIX@TIME: A run of a deadline scheduler (PREFIX of PREFIX_decisions.jsonl …) and
        a moment of it: seconds since the start of the simulation, or with a unit, as in
        out/qops@90m, @6h, @1d; or a date, as in out/kth@1996-12-24T12:00.
    --processors N: Processors that the job needs.
    --runtime DURATION: Its estimated run time: 7200, 120m or 2h.
    --deadline DURATION: By when it must end, counted from TIME: 6h. Default: no deadline; the
        earliest one is told.
    --queue FILE: Instead of a run, the queue as it is now: of `squeue --json`, in the form of
        docs/centres.md, or the journal of `live`; - for standard input.
    --ask LIST: Jobs to ask a queue about, processors x time of each: 64x2h,128x30m; --deadline
        is that of each.
    --machine N: Processors of the machine, which squeue does not tell.
    --partition NAME: Of squeue, take the jobs of this partition (repeatable); --machine is its
        size.
    --nodes FILE: Nodes of the partitions: output of scontrol show node, or of sinfo with PARTITION,
        NODELIST, CPUS and GRES. Their cores are the machine, and partitions with nodes of their own
        are told from those that share them.
    --qos NAME: Of squeue, take the jobs of this QOS (repeatable).
    --account NAME: Of squeue, take the jobs of this account (repeatable).
    --reservation NAME: Of squeue, take the jobs inside this reservation only (repeatable); all:
        every job. Default, with --partition, --qos or --account: none of those inside one.
    --now DATE: Date of the queue: seconds since 1970, or an ISO date with its offset from UTC.
        Default: what the queue tells, else when its file was written, or now.
    --max-age DURATION: Refuse a queue that is older, or dated as far ahead, but with --now.
        Default: 1h.
    --scheduler NAME: Whose search looks for promises.
    --may-wait: Waiting jobs without a promise may be put off. Default: they keep the end that
        is planned for them now.
    --listen ADDRESS:PORT: Answer requests over HTTP, until a signal ends it; the queue is read
        again whenever its file changes, or is posted.
    --any-interface: Listen where other machines can ask, too.
    --before: Ask before anything happened at TIME. Default: after all that happened then.
    """
)


def quote(
    state: Annotated[str | None, _about("--state")] = None,
    queue: Annotated[Path | None, _about("--queue")] = None,
    processors: Annotated[int | None, _about("--processors")] = None,
    runtime: Annotated[str | None, _about("--runtime")] = None,
    deadline: Annotated[str | None, _about("--deadline")] = None,
    ask: Annotated[str | None, _about("--ask")] = None,
    before: Annotated[bool, _about("--before")] = False,
    machine: Annotated[int | None, _about("--machine", min=1)] = None,
    partition: Annotated[list[str] | None, _about("--partition")] = None,
    nodes: Annotated[Path | None, _about("--nodes")] = None,
    qos: Annotated[list[str] | None, _about("--qos")] = None,
    account: Annotated[list[str] | None, _about("--account")] = None,
    reservation: Annotated[list[str] | None, _about("--reservation")] = None,
    now: Annotated[str | None, _about("--now")] = None,
    max_age: Annotated[str | None, _about("--max-age")] = None,
    scheduler: Annotated[str, _about("--scheduler")] = "qops",
    settings: Settings = None,
    may_wait: Annotated[bool, _about("--may-wait")] = False,
    listen: Annotated[str | None, _about("--listen")] = None,
    any_interface: Annotated[bool, _about("--any-interface")] = False,
    workload: PricedWorkload = None,
    code: Code = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Tell what could be promised to a new job, at a moment of a run or in a queue as it is now.

    Of a run (`--state`), the scheduler's plan is put together from PREFIX_decisions.jsonl and
    asked, so the answer is what the scheduler would have said. Of a queue (`--queue`), running and
    waiting jobs become such a plan. Nothing is changed by asking. docs/centres.md has more.

    Examples:

    \b
        qops-batsim run qops
        qops-batsim quote --state out/qops@2d --processors 64 --runtime 2h \\
          --deadline 6h
        squeue --json | qops-batsim quote --queue - --machine 1024 \\
          --ask 64x2h,128x30m
        qops-batsim quote --queue squeue.json --machine 1024 \\
          --listen 127.0.0.1:8080
    """
    chosen = {"partition": partition, "qos": qos, "account": account, "reservation": reservation}
    if (state is None) == (queue is None and listen is None):
        raise InputError("--state PREFIX@TIME or --queue FILE is expected, one of the two")
    if state is not None:
        of_queue: dict[str, object] = {"ask": ask, "machine": machine, "now": now}
        of_queue |= {"may_wait": may_wait, "max_age": max_age, "nodes": nodes}
        told: dict[str, object] = {**of_queue, "listen": listen, "set": settings, **chosen}
        _refuse(": is of use only without --state", **told)
        if processors is None or runtime is None:
            raise InputError("--processors N and --runtime DURATION are expected with --state")
        allowed = allow_code or code or ()
        _quote_run(state, processors, runtime, deadline, before, workload, allowed, as_json)
        return
    of_run = {"before": before, "workload": workload, "code": code, "allow_code": allow_code}
    _refuse(" is of use only with --state", **of_run)
    from qops_batsim.live.queue_source import QueueSource
    from qops_batsim.scheduling.registry import parse_settings
    from qops_batsim.workload.accounting.nodes import read_nodes

    some = any(chosen.values()) or nodes is not None
    source = QueueSource(
        queue,
        scheduler,
        parse_settings(settings or []),
        machine,
        _date(now),
        may_wait,
        selection={name: names or () for name, names in chosen.items()} if some else {},
        nodes=None if nodes is None else read_nodes(nodes),
        max_age=duration(max_age or "1h", "--max-age", zero=False),
    )
    if listen is not None:
        serve_quotes(source, listen, any_interface=any_interface)
        return
    asks = _asks(ask, processors, runtime, deadline)
    _quote_queue(source, asks, as_json=as_json)


def _refuse(why: str, **given: object) -> None:
    """Refuse options that are given."""
    for name, value in given.items():
        if value not in (None, False):
            raise InputError(f"--{name.replace('_', '-')}{why}")


def _date(text: str | None) -> float | None:
    """Return a date in seconds since 1970."""
    from qops_batsim.advice.queue_state import date_of

    try:
        return None if text is None else date_of(float(text), "--now")
    except ValueError:
        return date_of(text, "--now")


def _asks(
    listed: str | None, processors: int | None, runtime: str | None, deadline: str | None
) -> list[Ask]:
    from qops_batsim.advice.queue_quote import Ask, parse_asks

    until = None if deadline is None else duration(deadline, "--deadline", zero=False)
    asks = [
        Ask(processors=each.processors, time=each.time, deadline=until)
        for each in (parse_asks(listed) if listed is not None else [])
    ]
    if processors is not None and runtime is not None:
        time = duration(runtime, "--runtime", zero=False)
        asks.insert(0, Ask(processors=processors, time=time, deadline=until))
    if not asks or (processors is None) != (runtime is None):
        raise InputError("--ask LIST, or --processors N and --runtime DURATION, is expected")
    return asks


def _quote_run(
    state: str,
    processors: int,
    runtime: str,
    deadline: str | None,
    before: bool,
    workload: str | None,
    code: AllowedCode,
    as_json: bool,
) -> None:
    from qops_batsim.advice.charges import price_list
    from qops_batsim.advice.history import read_history
    from qops_batsim.advice.quote import quote as ask

    prefix, at, time = state.rpartition("@")
    if not at or not prefix:
        raise InputError(f"--state {state}: PREFIX@TIME is expected, as in out/qops@6h")
    run_time = duration(runtime, "--runtime", zero=False)
    until = None if deadline is None else duration(deadline, "--deadline", zero=False)
    history = read_history(prefix, code=code)
    where = f"--state {state}: TIME"
    found = ask(
        history,
        moment(time, where, history.calendar) if "-" in time else duration(time, where),
        processors=processors,
        run_time=run_time,
        deadline=until,
        prices=price_list(history.info, workload),
        before=before,
    )
    if as_json:
        print_json(found)
        return
    title = (
        f"{found.run} ({found.scheduler}) at {moment_text(found.time, found.calendar)} "
        f"({duration_text(found.time)}): {found.free_processors} of {found.machine_processors} "
        f"processors free, jobs: {found.running_jobs} running, {found.waiting_jobs} waiting"
    )
    print_answer(title, _rows(found))
    if found.charges_unknown:
        note(f"no QoS charges: {found.charges_unknown}")


def _rows(found: Quotation) -> Iterator[tuple[str, str]]:
    """Yield request and answer, each with its label."""
    some = f"{found.processors} processor" + "s" * (found.processors != 1)
    wish = f"{some} for {duration_text(found.run_time)}"
    if found.requested_deadline is not None:
        left = duration_text(found.requested_deadline - found.time)
        wish += f" by {moment_text(found.requested_deadline, found.calendar)} ({left} from then)"
    yield "request", wish
    reason = "" if found.refusal is None else reason_text(found.refusal, found.calendar)
    yield "answer", "admitted" if found.admitted else f"refused: {reason}"
    if found.blamed is not None:
        yield "in the way", f"qops-batsim explain {found.run} '{found.blamed}'"
    if found.granted is not None:
        yield "promise", possible_text(found.granted, found.time, found.calendar)
    if found.offered is not None:
        yield "offer", possible_text(found.offered, found.time, found.calendar)
    earliest = "none can be promised"
    if found.earliest is not None:
        earliest = possible_text(found.earliest, found.time, found.calendar)
    yield "earliest deadline", earliest
    if found.moved:
        yield "would move", names_text(sorted(found.moved), 5)


def _quote_queue(source: QueueSource, asks: Sequence[Ask], *, as_json: bool) -> None:
    """Print the earliest promises to jobs."""
    with announce_compiling(as_json):
        asker = source.changed()
        assert asker is not None
        answers = [asker.ask(each) for each in asks]
    if as_json:
        state = {"now": asker.state.now, "left_out": asker.state.left_out, "late": asker.late}
        unsure = {"unsure": asker.state.unsure} if asker.state.unsure else {}
        print_json({"state": state | unsure, "jobs": answers})
        return
    from qops_batsim.advice.queue_state import date_text

    say(
        f"{asker.state.source} at {date_text(asker.state.now)}: {asker.free:,} of "
        f"{asker.state.processors:,} processors free, jobs: {asker.running:,} running, "
        f"{asker.waiting:,} waiting"
    )
    for reason, count in asker.state.left_out.items():
        note(f"left out: {count:,} {reason}")
    for reason, count in asker.state.unsure.items():
        note(f"not sure: {count:,} {reason}")
    if asker.late:
        note(f"{len(asker.late):,} promises cannot be kept as it is: {', '.join(asker.late[:5])}")
    rows = [_queue_row(each) for each in answers]
    print_table(
        "Earliest promises, each as if it were the only new job",
        [*rows[0]],
        [[*row.values()] for row in rows],
    )
    for each in answers:
        if each.reason:
            say(f"{each.processors} x {duration_text(each.time)}: refused: {each.reason}")


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


def serve_quotes(source: QueueSource, address: str, *, any_interface: bool) -> None:
    """Answer requests until a signal ends it."""
    from qops_batsim.advice.queue_quote import Ask, QueueAsker
    from qops_batsim.advice.queue_state import QueuedJob, QueueState
    from qops_batsim.kernels import compiling
    from qops_batsim.signals import EndingSignal

    try:
        from qops_batsim.advice.quote_server import QueueKeeper, QuoteServer, parse_address
    except ModuleNotFoundError as error:
        raise InputError(
            f"--listen needs the package {error.name} (pip install 'qops-batsim[http]')"
        ) from None
    place = parse_address(address, any_interface=any_interface)
    job = QueuedJob(id="1", processors=1, estimate=1.0)
    with compiling(), announce_compiling():
        # The first to ask does not wait for kernels, and wrong options are told at once.
        state = QueueState(source="a queue", processors=1, now=0.0, jobs=[job])
        QueueAsker(state, source.scheduler, source.settings).ask(Ask(processors=1, time=1.0))
        keeper = QueueKeeper(source.read, source.changed, source.check_age)
        if source.path is not None:
            keeper.asker()
    try:
        server = QuoteServer(place, keeper, post_state=source.path is None, on_request=note)
    except OSError as error:
        raise InputError(
            f"--listen {address}: {error.strerror or error}; a free port is expected"
        ) from None
    host, port = server.address
    note(f"listens at http://{host}:{port}")
    with compiling(), suppress(KeyboardInterrupt, EndingSignal):
        server.run()
    note("stopped")
