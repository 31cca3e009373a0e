"""``qops-batsim quote``: deadlines that a finished run could have promised, and their price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from qops_batsim.cli.command_inputs import duration, moment, prices_in
from qops_batsim.cli.common_options import A_JOB, AsJson, Code, PricedWorkload, PricesFile, manual
from qops_batsim.cli.console import note, print_answer, print_json
from qops_batsim.cli.texts import duration_text, moment_text, names_text, possible_text, reason_text
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qops_batsim.advice.quote import Quotation


_about = manual(
    f"""
    RUN@TIME: A run of a deadline scheduler (PREFIX of PREFIX_decisions.jsonl …) and a moment of
        it: seconds since the start of the simulation, or with a unit, as in out/qops@90m, @6h,
        @1d; or a date, as in out/kth@1996-12-24T12:00.
    JOB: {A_JOB}.
    --deadline DURATION: By when the job must end, counted from TIME: 6h. Default: no deadline;
        the earliest one is told.
    --before: Ask before all events at TIME. Default: after them.
    """
)


def quote(
    state: Annotated[str, _about("RUN@TIME")],
    job: Annotated[str, _about("JOB")],
    deadline: Annotated[str | None, _about("--deadline")] = None,
    before: Annotated[bool, _about("--before")] = False,
    prices: PricesFile = None,
    workload: PricedWorkload = None,
    code: Code = None,
    as_json: AsJson = False,
) -> None:
    """Tell which deadline one more job could have been promised at some time of a finished run.

    The scheduler's plan is rebuilt from PREFIX_decisions.jsonl and asked, so the answer is what
    the scheduler would have said. Nothing is changed by asking. `qops-batsim queue quote` asks
    about a queue as it is now. docs/centres.md has more.

    Examples:

    \b
        qops-batsim run qops
        qops-batsim quote out/qops@2d 64x2h --deadline 6h
    """
    from qops_batsim.advice.charge_report import price_list
    from qops_batsim.advice.quote import quote as ask
    from qops_batsim.queue.queue_state import parse_job
    from qops_batsim.running.history import read_history

    prefix, at, time = state.rpartition("@")
    if not at or not prefix:
        raise InputError(f"the run is {state}; RUN@TIME is expected, as out/qops@6h")
    processors, run_time = parse_job(job)
    until = None if deadline is None else duration(deadline, "--deadline", zero=False)
    history = read_history(prefix, code=code or ())
    where = f"{state}: TIME"
    found = ask(
        history,
        moment(time, where, history.calendar) if "-" in time else duration(time, where),
        processors=processors,
        run_time=run_time,
        deadline=until,
        prices=price_list(history.info, workload, prices_in(prices)),
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
    if history.header.options.get("promise_limit") is not None:
        note("no promise limit: what users hold is not in the decision log")


def _rows(found: Quotation) -> Iterator[tuple[str, str]]:
    """Yield the request and the scheduler's answer, as (label, text)."""
    some = f"{found.processors} processor" + "s" * (found.processors != 1)
    wish = f"{some} for {duration_text(found.run_time)}"
    if found.requested_deadline is not None:
        left = duration_text(found.requested_deadline - found.time)
        wish += f" by {moment_text(found.requested_deadline, found.calendar)} ({left} from then)"
    yield "request", wish
    reason = "" if found.refusal is None else reason_text(found.refusal, found.calendar)
    yield "answer", "admitted" if found.admitted else f"refused: {reason}"
    if found.blamed is not None:
        yield "blocked by", f"qops-batsim explain {found.run} '{found.blamed}'"
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
