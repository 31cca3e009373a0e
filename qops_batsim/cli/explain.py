"""``qops-batsim explain``: what happened to a job, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from qops_batsim.cli.console import note, print_json, print_table
from qops_batsim.cli.quote import possible_text, price_text
from qops_batsim.cli.times import date_text, duration_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops_batsim.advice.explain import Explanation
    from qops_batsim.advice.explain_files import PlainExplanation
    from qops_batsim.advice.plan_asker import Commitment
    from qops_batsim.advice.replay import PlannedStart


def explain(
    run: Annotated[
        str,
        typer.Argument(
            metavar="PREFIX",
            help="The run: its PREFIX (of PREFIX_jobs.csv …), a directory with one run, "
            "or a _jobs.csv (also .gz).",
        ),
    ],
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="The job: w0!12, or 12 where that is clear.")
    ],
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="FACTOR",
            help="The user takes deadlines up to this many times the requested response time. "
            "Default: the job's own factor, else the scheduler's, else 1.",
            show_default=False,
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Workload that was run, for the slowdowns in QoS charges. "
            "Default: the one that PREFIX_run.json names.",
            show_default=False,
        ),
    ] = None,
    first: Annotated[int, typer.Option(min=1, metavar="N", help="Rows to list of a table.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Tell why a job was refused, delayed or killed, and what could have been promised.

    For runs of deadline schedulers, from PREFIX_decisions.jsonl: which commitments stood
    in the way, what was offered, the earliest deadline that would have been promised and
    the cheapest one that the user would have taken, and each move of its start. For
    other runs, what PREFIX_jobs.csv tells. docs/operators.md has more.

    **Examples**

    `qops-batsim run qops`

    `qops-batsim explain out/qops 29`

    `qops-batsim explain out/qops 'w0!29' --tolerance 4 --json`
    """
    import msgspec

    from qops_batsim.advice.explain import explain_job
    from qops_batsim.advice.explain_files import explain_from_files
    from qops_batsim.advice.history import has_decision_log, read_history
    from qops_batsim.advice.prices import price_list

    if not has_decision_log(run):
        plain = explain_from_files(run, job)
        if as_json:
            print_json(msgspec.to_builtins(plain))
        else:
            typer.echo("\n".join(_plain_lines(plain)))
        return
    history = read_history(run)
    job_id = history.find_job(job)
    prices = price_list(history.info, workload)
    found = explain_job(history, job_id, prices, tolerance=tolerance)
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    typer.echo("\n".join(_lines(found)))
    _print_commitments(_title(found), found.in_the_way, first, found.blamed)
    if len(found.promises) > 1:
        _print_promises(found.promises, first)
    if prices.unknown:
        note(f"no QoS charges: {prices.unknown}")


def _lines(found: Explanation) -> list[str]:
    asked = f"{found.processors} of {found.machine_processors} processors"
    if found.estimate is not None:
        asked += f" for {duration_text(found.estimate)}"
    if found.requested_deadline is not None:
        asked += f" by {_date_and_age(found.requested_deadline, found)}"
    lines = [
        f"{found.job} of {found.run} ({found.scheduler}): {_fate(found)}",
        "",
        _row("submitted", f"{date_text(found.submission)} s"),
        _row("asked for", asked),
    ]
    if found.reason:
        lines.append(_row("refused because", found.reason))
    if found.blamed is not None:
        lines.append(_row("in the way", _commitment_text(found.blamed)))
    if found.offered_deadline is not None:
        taken = "taken" if found.admitted_deadline is not None else "not taken"
        lines.append(
            _row("offered deadline", f"{_date_and_age(found.offered_deadline, found)}, {taken}")
        )
    if found.admitted_deadline is not None:
        lines.append(_row("promised deadline", _date_and_age(found.admitted_deadline, found)))
        lines.append(_row("", price_text(found.price)))
    if found.earliest is not None:
        lines.append(_row("earliest deadline", possible_text(found.earliest, found.submission)))
    elif found.outcome == "refused":
        lines.append(_row("earliest deadline", "none could be promised"))
    as_requested = found.admitted_deadline is not None and found.offered_deadline is None
    if found.latest_accepted is not None and found.earliest is not None and not as_requested:
        lines.append(_row("cheapest accepted", _cheapest(found)))
    if found.killed_for_it:
        lines.append(_row("killed for it", ", ".join(found.killed_for_it)))
    for kill in found.kills:
        lines.append(
            _row(
                "killed",
                f"at {date_text(kill.date)} s for {kill.by}; {kill.wasted:,.0f} processor-s lost, "
                f"run again as {kill.again}",
            )
        )
    if found.waited_for:
        chain = " <- ".join(_commitment_text(each) for each in found.waited_for)
        lines.append(_row("has to wait for" if found.start is None else "had to wait for", chain))
    return lines


def _fate(found: Explanation) -> str:
    if found.outcome == "refused":
        return "refused"
    if found.start is None:
        return "admitted, did not start"
    text = f"started at {date_text(found.start)} s"
    if found.waited is not None:
        text += f" after {duration_text(found.waited)}" if found.waited >= 1 else " at once"
    if found.end is None:
        return f"{text}, still runs at the end of the log"
    text += f", ended at {date_text(found.end)} s"
    if found.admitted_deadline is not None:
        spare = found.admitted_deadline - found.end
        text += f", {duration_text(abs(spare))} {'before' if spare >= 0 else 'AFTER'} its deadline"
    return text


def _cheapest(found: Explanation) -> str:
    assert found.latest_accepted is not None
    if found.cheapest is None:
        limit = _date_and_age(found.latest_accepted, found)
        return f"none: the user would take a deadline up to {limit}"
    return possible_text(found.cheapest, found.submission)


def _date_and_age(date: float, found: Explanation) -> str:
    age = duration_text(date - found.submission)
    return f"{date_text(date)} s ({age} after submission)"


def _commitment_text(each: Commitment) -> str:
    start = "runs since" if each.running else "promised to start at"
    text = f"{each.job} ({each.processors} processors, {start} {date_text(each.start)} s"
    text += f", ends at {date_text(each.end)} s"
    if each.deadline is not None:
        text += f", deadline {date_text(each.deadline)} s"
    return f"{text})"


def _title(found: Explanation) -> str:
    if found.promises:
        return "Commitments between its submission and its first promised start"
    return "Commitments between its submission and its deadline"


def _print_commitments(
    title: str, commitments: Sequence[Commitment], first: int, blamed: Commitment | None
) -> None:
    if not commitments:
        return
    listed = list(commitments[:first])
    if blamed is not None and blamed in commitments[first:]:
        listed[-1] = blamed
    typer.echo("")
    print_table(
        title,
        ["job", "processors", "start (s)", "expected end (s)", "deadline (s)", ""],
        [
            [
                each.job,
                f"{each.processors:,}",
                date_text(each.start),
                date_text(each.end),
                date_text(each.deadline),
                "blamed" if each == blamed else "running" if each.running else "waiting",
            ]
            for each in listed
        ],
    )
    _tell_more(len(commitments) - len(listed))


def _print_promises(promises: Sequence[PlannedStart], first: int) -> None:
    typer.echo("")
    rows = [
        [date_text(each.date), date_text(each.start), each.cause.replace("_", " "), _names(each.by)]
        for each in promises
    ]
    print_table("Promised starts", ["at (s)", "promised (s)", "because of", "by"], rows[:first])
    _tell_more(len(rows) - first)


def _names(jobs: Sequence[str]) -> str:
    more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
    return ", ".join(jobs[:3]) + more


def _tell_more(count: int) -> None:
    if count > 0:
        typer.echo(f"… and {count} more (--first N, --json)")


def _plain_lines(found: PlainExplanation) -> list[str]:
    made_by = "scheduler unknown" if found.scheduler is None else found.scheduler
    lines = [
        f"{found.job} of {found.run} ({made_by}): {found.state}",
        "",
        _row("submitted", f"{date_text(found.submission)} s"),
        _row("asked for", f"{found.processors} of {found.machine_processors} processors"),
    ]
    if found.reason:
        lines.append(_row("reason", found.reason))
    if found.start is None or found.waited is None:
        return lines
    lines.append(_row("started", f"{date_text(found.start)} s"))
    lines.append(_row("waited", duration_text(found.waited)))
    if found.waited > 0:
        lines.append(_row("when submitted", f"{found.free_processors} processors were free"))
        lines.append(_row("waited before it", f"{len(found.ahead)} jobs: {_names(found.ahead)}"))
        lines.append(_row("ended at its start", _names(found.freed_by) or "no job"))
    lines.append(_row("ended", f"{date_text(found.end)} s"))
    lines.append("")
    lines.append(
        "(Its scheduler keeps no decision log: only deadline schedulers tell commitments, offers "
        "and possible deadlines.)"
    )
    return lines


def _row(label: str, text: str) -> str:
    return f"{label:<19}{text}"
