"""``qops-batsim explain``: what happened to a job, and why."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from qops_batsim.cli.command_inputs import prices_in, run_name
from qops_batsim.cli.common_options import (
    AsJson,
    Code,
    PricedWorkload,
    PricesFile,
    Run,
    manual,
)
from qops_batsim.cli.console import note, print_answer, print_json, print_table, say
from qops_batsim.cli.texts import (
    date_text,
    duration_text,
    fate_text,
    moment_text,
    names_text,
    possible_text,
    price_text,
    reason_text,
    spare_text,
)
from qops_batsim.errors import InputError
from qops_batsim.jobs import COMPLETED_KILLED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from qops_batsim.advice.explain import Commitment, Explanation, PlainExplanation
    from qops_batsim.dates import Calendar
    from qops_batsim.running.history import PlannedStart


_ROWS = 10
"""Most rows of a table; JSON has all."""

_about = manual(
    """
    JOB: The job: w0!12, or 12 where that is clear.
    --tolerance FACTOR: The user accepts deadlines up to this factor times the requested
        response time. Default: the job's own factor, else the scheduler's, else 1.
    """
)


def explain(
    run: Run,
    job: Annotated[str, _about("JOB")],
    tolerance: Annotated[float | None, _about("--tolerance", min=0.0)] = None,
    prices: PricesFile = None,
    workload: PricedWorkload = None,
    code: Code = None,
    as_json: AsJson = False,
) -> None:
    """Tell why a job was refused, delayed or killed, and what could have been promised.

    For runs of deadline schedulers, from PREFIX_decisions.jsonl: which commitment
    blocked it, what was offered, the earliest deadline that would have been promised, the
    cheapest one that the user would have accepted, and each move of its start. For
    other runs, what PREFIX_jobs.csv tells. docs/explain.md has more.

    Examples:

    \b
        qops-batsim run qops
        qops-batsim explain out/qops 29
        qops-batsim explain out/qops 'w0!29' --tolerance 4 --json
    """
    from msgspec.structs import replace

    from qops_batsim.advice.charge_report import price_list
    from qops_batsim.advice.explain import explain_from_files, explain_job
    from qops_batsim.running.history import read_history_if_kept

    allowed = code or ()
    named, run = run, run_name(run, allowed)
    history, job_id = read_history_if_kept(run, code=allowed), ""
    if history is not None:
        with suppress(InputError):  # A live journal has jobs that no scheduler was told of.
            job_id = history.find_job(job)
    if history is None or not job_id:
        plain = replace(explain_from_files(run, job), run=named)
        print_json(plain) if as_json else _print_plain(plain, history is not None)
        return
    listed = price_list(history.info, workload, prices_in(prices))
    found = replace(explain_job(history, job_id, listed, tolerance=tolerance), run=named)
    if as_json:
        print_json(found)
        return
    title = f"{found.job} of {found.run} ({found.scheduler}): {_fate(found)}"
    print_answer(title, _rows(found))
    _print_commitments(found)
    if len(found.promises) > 1:
        _print_promises(found.promises, found.calendar)
    if listed.unknown:
        note(f"no QoS charges: {listed.unknown}")


def _rows(found: Explanation) -> Iterator[tuple[str, str]]:
    """Yield what is known about a job of a deadline scheduler, as (label, text)."""
    asked = f"{found.processors} of {found.machine_processors} processors"
    if found.estimate is not None:
        asked += f" for {duration_text(found.estimate)}"
    if found.requested_deadline is not None:
        asked += f" by {_date_and_age(found.requested_deadline, found)}"
    yield "submitted", moment_text(found.submission, found.calendar)
    yield "asked for", asked
    if found.refusal is not None and not found.was_cancelled:
        yield "refused because", reason_text(found.refusal, found.calendar)
    if found.blamed is not None:
        yield "blocked by", _commitment_text(found.blamed, found.calendar)
    # Of a job that was refused, the title and the reason tell enough.
    if found.requested_deadline is not None and found.outcome != "refused":
        yield "deadline", fate_text(found.lateness, grace=found.grace)
    if found.offered_deadline is not None:
        taken = "taken" if found.admitted_deadline is not None else "not taken"
        yield "offered deadline", f"{_date_and_age(found.offered_deadline, found)}, {taken}"
    if found.admitted_deadline is not None:
        yield "promised deadline", _date_and_age(found.admitted_deadline, found)
        yield "", price_text(found.price)
    if found.earliest is not None:
        yield "earliest deadline", possible_text(found.earliest, found.submission, found.calendar)
    elif found.outcome == "refused":
        yield "earliest deadline", "none could be promised"
    as_requested = found.admitted_deadline is not None and found.offered_deadline is None
    if found.latest_accepted is not None and found.earliest is not None and not as_requested:
        yield "cheapest accepted", _cheapest(found, found.latest_accepted)
    if found.killed_for_it:
        yield "killed for it", ", ".join(found.killed_for_it)
    for kill in found.kills:
        lost = f"{kill.wasted:,.0f} processor-s lost, run again as {kill.again}"
        yield "killed", f"at {moment_text(kill.date, found.calendar)} for {kill.by}; {lost}"
    if found.waited_for:
        chain = " <- ".join(_commitment_text(each, found.calendar) for each in found.waited_for)
        yield ("has to wait for" if found.start is None else "had to wait for"), chain


def _fate(found: Explanation) -> str:
    if found.was_cancelled:
        return "cancelled by its user while it waited"
    if found.outcome == "refused":
        return "refused"
    if found.start is None:
        return "admitted, did not start"
    text = f"started at {moment_text(found.start, found.calendar)}"
    if found.waited is not None:
        text += f" after {duration_text(found.waited)}" if found.waited >= 1 else " at once"
    if found.end is None:
        return f"{text}, still runs at the end of the log"
    text += f", ended at {moment_text(found.end, found.calendar)}"
    if found.admitted_deadline is not None:
        spare = found.admitted_deadline - found.end
        text += f", {spare_text(spare)} its deadline"
    return text


def _cheapest(found: Explanation, latest: float) -> str:
    if found.cheapest is None:
        return f"none: the user would take a deadline up to {_date_and_age(latest, found)}"
    return possible_text(found.cheapest, found.submission, found.calendar)


def _date_and_age(date: float, found: Explanation | PlainExplanation) -> str:
    age = duration_text(date - found.submission)
    return f"{moment_text(date, found.calendar)} ({age} after submission)"


def _commitment_text(each: Commitment, calendar: Calendar | None) -> str:
    start = "runs since" if each.running else "promised to start at"
    text = f"{each.job} ({each.processors} processors, {start} {moment_text(each.start, calendar)}"
    text += f", ends at {moment_text(each.end, calendar)}"
    if each.deadline is not None:
        text += f", deadline {moment_text(each.deadline, calendar)}"
    return f"{text})"


def _print_commitments(found: Explanation) -> None:
    commitments, blamed = found.in_the_way, found.blamed
    if not commitments:
        return
    listed = list(commitments[:_ROWS])
    if blamed is not None and blamed in commitments[_ROWS:]:
        listed[-1] = blamed
    until = "first promised start" if found.promises else "deadline"
    say("")
    unit, text = _dates_of(found.calendar)
    dated = [f"{name}{unit}" for name in ("start", "expected end", "deadline")]
    columns = ["job", "processors", *dated, "state"]
    rows = []
    for each in listed:
        dates = map(text, (each.start, each.end, each.deadline))
        state = "blamed" if each == blamed else "running" if each.running else "waiting"
        rows.append([each.job, f"{each.processors:,}", *dates, state])
    print_table(f"Commitments between its submission and its {until}", columns, rows)
    _tell_more(len(commitments) - len(listed))


def _print_promises(promises: Sequence[PlannedStart], calendar: Calendar | None) -> None:
    say("")
    unit, text = _dates_of(calendar)
    rows = []
    for each in promises:
        dates, cause = map(text, (each.date, each.start)), each.cause.replace("_", " ")
        rows.append([*dates, cause, names_text(each.by, 3)])
    columns = [f"at{unit}", f"promised{unit}", "because of", "by"]
    print_table("Promised starts", columns, rows[:_ROWS])
    _tell_more(len(rows) - _ROWS)


def _dates_of(calendar: Calendar | None) -> tuple[str, Callable[[float | None], str]]:
    """Return the unit of a table's dates (none with a calendar), and how to format dates."""
    if calendar is None:
        return " (s)", date_text
    return "", lambda seconds: moment_text(seconds, calendar)


def _tell_more(count: int) -> None:
    if count > 0:
        say(f"… and {count} more (--json)")


def _plain_rows(found: PlainExplanation) -> Iterator[tuple[str, str]]:
    """Yield what is known about a job of a run without a decision log, as (label, text)."""
    yield "submitted", moment_text(found.submission, found.calendar)
    yield "asked for", f"{found.processors} of {found.machine_processors} processors"
    if found.reason:
        yield "reason", found.reason
    if found.requested_deadline is not None:
        killed, refused = found.state == COMPLETED_KILLED, found.start is None
        fate = fate_text(found.lateness, grace=found.grace, refused=refused, killed=killed)
        yield "deadline", f"{_date_and_age(found.requested_deadline, found)}: {fate}"
    if found.admitted_deadline is not None:
        yield "promised deadline", _date_and_age(found.admitted_deadline, found)
    if found.start is None or found.waited is None:
        return
    yield "started", moment_text(found.start, found.calendar)
    yield "waited", duration_text(found.waited)
    if found.waited > 0:
        yield "when submitted", f"{found.free_processors} processors were free"
        yield "waited before it", f"{len(found.ahead)} jobs: {names_text(found.ahead, 3)}"
        yield "ended at its start", names_text(found.freed_by, 3) or "no job"
    yield "ended", moment_text(found.end, found.calendar)


def _print_plain(found: PlainExplanation, has_log: bool) -> None:
    scheduler = "scheduler unknown" if found.scheduler is None else found.scheduler
    title = f"{found.job} of {found.run} ({scheduler}): {found.state}"
    print_answer(title, _plain_rows(found))
    if not has_log and found.start is not None and found.waited is not None:
        say(
            "\n(Its scheduler keeps no decision log: only deadline schedulers tell commitments, "
            "offers and possible deadlines.)"
        )
