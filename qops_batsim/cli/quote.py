"""``qops-batsim quote``: deadlines that a finished run could have promised, and their price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from qops_batsim.cli.command_inputs import duration, moment, prices_in
from qops_batsim.cli.common_options import A_JOB, AsJson, Code, PricedWorkload, PricesFile, manual
from qops_batsim.cli.console import note, print_answer, print_json
from qops_batsim.cli.texts import names_text, possible_text, reason_text
from qops_batsim.errors import InputError
from qops_batsim.texts import duration_text, moment_text

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
    --asks JSON: What the job asks of each of its hosts, where jobs share these, as in workloads:
        '{{"per_host": {{"cores": 4}}}}'. Default: whole hosts.
    --before: Ask before all events at TIME. Default: after them.
    """
)


def quote(
    state: Annotated[str, _about("RUN@TIME")],
    job: Annotated[str, _about("JOB")],
    deadline: Annotated[str | None, _about("--deadline")] = None,
    asks: Annotated[str | None, _about("--asks")] = None,
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
    quotation = ask(
        history,
        moment(time, where, history.calendar) if "-" in time else duration(time, where),
        processors=processors,
        run_time=run_time,
        deadline=until,
        asks=None if asks is None else _fields(asks),
        prices=price_list(history.info, workload, prices_in(prices)),
        before=before,
    )
    if as_json:
        print_json(quotation)
        return

    date = moment_text(quotation.time, quotation.calendar)
    title = (
        f"{quotation.run} ({quotation.scheduler}) at {date} ({duration_text(quotation.time)}): "
        f"{quotation.free_processors} of {quotation.machine_processors} processors free, "
        f"jobs: {quotation.running_jobs} running, {quotation.waiting_jobs} waiting"
    )
    print_answer(title, _rows(quotation))
    if quotation.charges_unknown:
        note(f"no QoS charges: {quotation.charges_unknown}")
    if history.header.options.get("promise_limit") is not None:
        note("no promise limit: what users hold is not in the decision log")


def _fields(text: str) -> dict[str, Any]:
    import msgspec

    from qops_batsim.files import decoded

    known = msgspec.json.Decoder(dict[str, Any])
    return decoded(text.encode(), known, "--asks", "an object of fields of a job")


def _rows(quotation: Quotation) -> Iterator[tuple[str, str]]:
    """Yield the request and the scheduler's answer, as (label, text)."""
    time = quotation.time
    calendar = quotation.calendar

    some = f"{quotation.processors} processor" + "s" * (quotation.processors != 1)
    wish = f"{some} for {duration_text(quotation.run_time)}"
    if quotation.requested_deadline is not None:
        left = duration_text(quotation.requested_deadline - time)
        wish += f" by {moment_text(quotation.requested_deadline, calendar)} ({left} from then)"
    yield "request", wish

    reason = "" if quotation.refusal is None else reason_text(quotation.refusal, calendar)
    yield "answer", "admitted" if quotation.admitted else f"refused: {reason}"
    if quotation.blamed is not None:
        yield "blocked by", f"qops-batsim explain {quotation.run} '{quotation.blamed}'"
    if quotation.granted is not None:
        yield "promise", possible_text(quotation.granted, time, calendar)
    if quotation.offered is not None:
        yield "offer", possible_text(quotation.offered, time, calendar)
    earliest = "none can be promised"
    if quotation.earliest is not None:
        earliest = possible_text(quotation.earliest, time, calendar)
    yield "earliest deadline", earliest
    if quotation.moved:
        yield "would move", names_text(sorted(quotation.moved), 5)
