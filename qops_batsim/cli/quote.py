"""``qops-batsim quote``: which deadline could be promised, at what price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from qops_batsim.cli.console import note, print_json
from qops_batsim.cli.times import date_text, duration_text
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from qops_batsim.advice.prices import Price
    from qops_batsim.advice.quote import Possible, Quotation


def quote(
    state: Annotated[
        str,
        typer.Option(
            "--state",
            metavar="PREFIX@TIME",
            help="A run of a deadline scheduler (PREFIX of PREFIX_decisions.jsonl …) and a moment "
            "of it: seconds since the start of the simulation, or with a unit, as in "
            "out/qops@90m, @6h, @1d.",
        ),
    ],
    processors: Annotated[int, typer.Option(metavar="N", help="Processors that the job needs.")],
    runtime: Annotated[
        str, typer.Option(metavar="DURATION", help="Its estimated run time: 7200, 120m or 2h.")
    ],
    deadline: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="By when it must end, counted from TIME: 6h. Default: no deadline; the earliest "
            "one is told.",
            show_default=False,
        ),
    ] = None,
    before: Annotated[
        bool,
        typer.Option(
            "--before",
            help="Ask before anything happened at TIME. Default: after all that happened then.",
        ),
    ] = False,
    workload: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Workload that was run, for the slowdowns in QoS charges. "
            "Default: the one that PREFIX_run.json names.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Tell whether a job would have been admitted at a moment of a run, and at what price.

    If not, the earliest deadline that would be promised. The scheduler's plan is put
    together from PREFIX_decisions.jsonl and asked, so the answer is what the scheduler
    would have said; nothing is changed. docs/operators.md has more.

    **Examples**

    `qops-batsim run qops`

    `qops-batsim quote --state out/qops@2d --processors 64 --runtime 2h --deadline 6h`

    `qops-batsim quote --state out/qops@2d --processors 64 --runtime 2h --json`
    """
    from qops_batsim.advice.history import read_history
    from qops_batsim.advice.prices import price_list
    from qops_batsim.advice.quote import quote as ask

    prefix, at, time = state.rpartition("@")
    if not at or not prefix:
        raise InputError(f"--state {state}: PREFIX@TIME is expected, as in out/qops@6h")
    moment = seconds(time, f"--state {state}: TIME")
    run_time = seconds(runtime, "--runtime", zero=False)
    until = None if deadline is None else seconds(deadline, "--deadline", zero=False)
    history = read_history(prefix)
    found = ask(
        history,
        moment,
        processors=processors,
        run_time=run_time,
        deadline=until,
        prices=price_list(history.info, workload),
        before=before,
    )
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(found))
        return
    typer.echo("\n".join(_lines(found)))
    if found.charges_unknown:
        note(f"no QoS charges: {found.charges_unknown}")


def seconds(text: str, where: str, *, zero: bool = True) -> float:
    """Read a date or duration such as ``6h``.

    Raises
    ------
    InputError
        It is none, or 0 where that has no meaning.
    """
    from qops_batsim.platform.units import parse_time

    value = parse_time(text, where=where)
    if value == 0 and not zero:
        raise InputError(f"{where} is {text}; more than 0 is expected")
    return value


def price_text(price: Price | None) -> str:
    """Return a price in words."""
    if price is None:
        return "price unknown: no estimate"
    qos = "unknown" if price.qos is None else f"{price.qos:,.2f}"
    return f"resource charge {price.resource:,.0f} processor-s, QoS charge {qos} ({price.category})"


def possible_text(possible: Possible, arrival: float) -> str:
    """Return a possible deadline in words, counted from the arrival as well."""
    killed = f"; {', '.join(possible.killed)} killed" if possible.killed else ""
    return (
        f"{date_text(possible.deadline)} s ({duration_text(possible.deadline - arrival)} after "
        f"submission; start {date_text(possible.start)} s{killed})\n"
        f"{'':19}{price_text(possible.price)}"
    )


def _lines(found: Quotation) -> list[str]:
    lines = [
        f"{found.run} ({found.scheduler}) at {date_text(found.time)} s "
        f"({duration_text(found.time)}): {found.free_processors} of {found.machine_processors} "
        f"processors free, jobs: {found.running_jobs} running, {found.waiting_jobs} waiting",
        "",
    ]
    wish = f"{found.processors} processors for {duration_text(found.run_time)}"
    if found.requested_deadline is not None:
        wish += (
            f" by {date_text(found.requested_deadline)} s "
            f"({duration_text(found.requested_deadline - found.time)} from then)"
        )
    lines.append(_row("request", wish))
    lines.append(_row("answer", "admitted" if found.admitted else f"refused: {found.reason}"))
    if found.blamed is not None:
        lines.append(_row("in the way", f"qops-batsim explain {found.run} '{found.blamed}'"))
    if found.granted is not None:
        lines.append(_row("promise", possible_text(found.granted, found.time)))
    if found.offered is not None:
        lines.append(_row("offer", possible_text(found.offered, found.time)))
    if found.earliest is not None:
        lines.append(_row("earliest deadline", possible_text(found.earliest, found.time)))
    else:
        lines.append(_row("earliest deadline", "none can be promised"))
    if found.moved:
        names = sorted(found.moved)
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        lines.append(_row("would move", f"{', '.join(names[:5])}{more}"))
    return lines


def _row(label: str, text: str) -> str:
    return f"{label:<19}{text}"
