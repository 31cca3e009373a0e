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
    fate_text,
    names_text,
    possible_text,
    price_text,
    reason_text,
    spare_text,
)
from qops_batsim.errors import InputError
from qops_batsim.jobs import COMPLETED_KILLED
from qops_batsim.texts import duration_text, moment_text, second_text

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
    prefix = run_name(run, allowed)
    history = read_history_if_kept(prefix, code=allowed)
    job_id = ""
    if history is not None:
        with suppress(InputError):  # A live journal has jobs that no scheduler was told of.
            job_id = history.find_job(job)
    if history is None or not job_id:
        plain = replace(explain_from_files(prefix, job), run=run)
        print_json(plain) if as_json else _print_plain(plain, history is not None)
        return

    listed = price_list(history.info, workload, prices_in(prices))
    explained = replace(explain_job(history, job_id, listed, tolerance=tolerance), run=run)
    if as_json:
        print_json(explained)
        return

    title = f"{explained.job} of {explained.run} ({explained.scheduler}): {_fate(explained)}"
    print_answer(title, _rows(explained))
    _print_commitments(explained)
    if len(explained.promises) > 1:
        _print_promises(explained.promises, explained.calendar)
    if listed.unknown:
        note(f"no QoS charges: {listed.unknown}")


def _rows(explained: Explanation) -> Iterator[tuple[str, str]]:
    """Yield what is known about a job of a deadline scheduler, as (label, text)."""
    from qops_batsim.core.shortage import shortage_text

    calendar = explained.calendar
    submission = explained.submission

    asked = f"{explained.processors} of {explained.machine_processors} processors"
    if explained.estimate is not None:
        asked += f" for {duration_text(explained.estimate)}"
    if explained.requested_deadline is not None:
        asked += f" by {_date_and_age(explained.requested_deadline, explained)}"
    yield "submitted", moment_text(submission, calendar)
    yield "asked for", asked

    if explained.refusal is not None and not explained.was_cancelled:
        yield "refused because", reason_text(explained.refusal, calendar)
    if explained.blamed is not None:
        yield "blocked by", _commitment_text(explained.blamed, calendar)
    for number, each in enumerate(explained.short_of):
        text = shortage_text(each.shortage, lambda date: moment_text(date, calendar))
        nodes = f" ({names_text(each.waited_for, 3)})" if each.waited_for else ""
        yield "" if number else "when it asked", f"{text}{nodes}"

    # Of a job that was refused, the title and the reason tell enough.
    if explained.requested_deadline is not None and explained.outcome != "refused":
        yield "deadline", fate_text(explained.lateness, grace=explained.grace)
    if explained.offered_deadline is not None:
        taken = "taken" if explained.admitted_deadline is not None else "not taken"
        yield "offered deadline", f"{_date_and_age(explained.offered_deadline, explained)}, {taken}"
    if explained.admitted_deadline is not None:
        yield "promised deadline", _date_and_age(explained.admitted_deadline, explained)
        yield "", price_text(explained.price)

    if explained.earliest is not None:
        yield "earliest deadline", possible_text(explained.earliest, submission, calendar)
    elif explained.outcome == "refused":
        yield "earliest deadline", "none could be promised"
    latest = None if explained.earliest is None else explained.latest_accepted
    as_requested = explained.admitted_deadline is not None and explained.offered_deadline is None
    if latest is not None and not as_requested:
        yield "cheapest accepted", _cheapest(explained, latest)

    if explained.killed_for_it:
        yield "killed for it", ", ".join(explained.killed_for_it)
    for kill in explained.kills:
        lost = f"{kill.wasted:,.0f} processor-s lost, run again as {kill.again}"
        yield "killed", f"at {moment_text(kill.date, calendar)} for {kill.by}; {lost}"
    if explained.waited_for:
        chain = " <- ".join(_commitment_text(other, calendar) for other in explained.waited_for)
        yield ("has to wait for" if explained.start is None else "had to wait for"), chain


def _fate(explained: Explanation) -> str:
    if explained.was_cancelled:
        return "cancelled by its user while it waited"
    if explained.outcome == "refused":
        return "refused"
    if explained.start is None:
        return "admitted, did not start"

    text = f"started at {moment_text(explained.start, explained.calendar)}"
    if explained.waited is not None:
        text += f" after {duration_text(explained.waited)}" if explained.waited >= 1 else " at once"
    if explained.end is None:
        return f"{text}, still runs at the end of the log"

    text += f", ended at {moment_text(explained.end, explained.calendar)}"
    if explained.admitted_deadline is not None:
        spare = explained.admitted_deadline - explained.end
        text += f", {spare_text(spare)} its deadline"
    return text


def _cheapest(explained: Explanation, latest: float) -> str:
    if explained.cheapest is None:
        return f"none: the user would take a deadline up to {_date_and_age(latest, explained)}"
    return possible_text(explained.cheapest, explained.submission, explained.calendar)


def _date_and_age(date: float, explained: Explanation | PlainExplanation) -> str:
    age = duration_text(date - explained.submission)
    return f"{moment_text(date, explained.calendar)} ({age} after submission)"


def _commitment_text(other: Commitment, calendar: Calendar | None) -> str:
    how = "runs since" if other.running else "promised to start at"
    text = f"{other.job} ({other.processors} processors, {how} {moment_text(other.start, calendar)}"
    text += f", ends at {moment_text(other.end, calendar)}"
    if other.deadline is not None:
        text += f", deadline {moment_text(other.deadline, calendar)}"
    return f"{text})"


def _print_commitments(explained: Explanation) -> None:
    commitments = explained.in_the_way
    blamed = explained.blamed
    if not commitments:
        return

    # Whatever is left out, the one to blame is in the table.
    listed = list(commitments[:_ROWS])
    if blamed is not None and blamed in commitments[_ROWS:]:
        listed[-1] = blamed

    until = "first promised start" if explained.promises else "deadline"
    say("")
    unit, text = _dates_of(explained.calendar)
    dated = [f"{name}{unit}" for name in ("start", "expected end", "deadline")]
    columns = ["job", "processors", *dated, "state"]
    rows = []
    for other in listed:
        dates = map(text, (other.start, other.end, other.deadline))
        state = "blamed" if other == blamed else "running" if other.running else "waiting"
        rows.append([other.job, f"{other.processors:,}", *dates, state])
    print_table(f"Commitments between its submission and its {until}", columns, rows)
    _tell_more(len(commitments) - len(listed))


def _print_promises(promises: Sequence[PlannedStart], calendar: Calendar | None) -> None:
    say("")
    unit, text = _dates_of(calendar)
    rows = [
        [
            text(promise.date),
            text(promise.start),
            promise.cause.replace("_", " "),
            names_text(promise.by, 3),
        ]
        for promise in promises
    ]
    columns = [f"at{unit}", f"promised{unit}", "because of", "by"]
    print_table("Promised starts", columns, rows[:_ROWS])
    _tell_more(len(rows) - _ROWS)


def _dates_of(calendar: Calendar | None) -> tuple[str, Callable[[float | None], str]]:
    """Return the unit of a table's dates (none with a calendar), and how to format dates."""
    if calendar is None:
        return " (s)", second_text
    return "", lambda seconds: moment_text(seconds, calendar)


def _tell_more(count: int) -> None:
    if count > 0:
        say(f"… and {count} more (--json)")


def _plain_rows(explained: PlainExplanation) -> Iterator[tuple[str, str]]:
    """Yield what is known about a job of a run without a decision log, as (label, text)."""
    calendar = explained.calendar
    yield "submitted", moment_text(explained.submission, calendar)
    yield "asked for", f"{explained.processors} of {explained.machine_processors} processors"
    if explained.reason:
        yield "reason", explained.reason
    if explained.requested_deadline is not None:
        fate = fate_text(
            explained.lateness,
            grace=explained.grace,
            refused=explained.start is None,
            killed=explained.state == COMPLETED_KILLED,
        )
        yield "deadline", f"{_date_and_age(explained.requested_deadline, explained)}: {fate}"
    if explained.admitted_deadline is not None:
        yield "promised deadline", _date_and_age(explained.admitted_deadline, explained)
    if explained.start is None or explained.waited is None:
        return

    yield "started", moment_text(explained.start, calendar)
    yield "waited", duration_text(explained.waited)
    if explained.waited > 0:
        if explained.free_processors is not None:
            yield "when submitted", f"{explained.free_processors} processors were free"
        yield "waited before it", f"{len(explained.ahead)} jobs: {names_text(explained.ahead, 3)}"
        yield "ended at its start", names_text(explained.freed_by, 3) or "no job"
    yield "ended", moment_text(explained.end, calendar)


def _print_plain(explained: PlainExplanation, has_log: bool) -> None:
    scheduler = "scheduler unknown" if explained.scheduler is None else explained.scheduler
    title = f"{explained.job} of {explained.run} ({scheduler}): {explained.state}"
    print_answer(title, _plain_rows(explained))
    if not has_log and explained.start is not None and explained.waited is not None:
        say(
            "\n(Its scheduler keeps no decision log: only deadline schedulers tell commitments, "
            "offers and possible deadlines.)"
        )
