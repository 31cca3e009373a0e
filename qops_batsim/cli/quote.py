"""``qops-batsim quote``: which deadline could be promised, at what price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from qops_batsim.cli.console import note, print_json, say
from qops_batsim.cli.inputs import duration
from qops_batsim.cli.manual import manual
from qops_batsim.cli.options import AsJson, PricedWorkload
from qops_batsim.cli.texts import answer_text, date_text, duration_text, names_text, possible_text
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qops_batsim.advice.quote import Quotation


_about = manual(
    """
    --state PREFIX@TIME: A run of a deadline scheduler (PREFIX of PREFIX_decisions.jsonl …) and
        a moment of it: seconds since the start of the simulation, or with a unit, as in
        out/qops@90m, @6h, @1d.
    --processors N: Processors that the job needs.
    --runtime DURATION: Its estimated run time: 7200, 120m or 2h.
    --deadline DURATION: By when it must end, counted from TIME: 6h. Default: no deadline; the
        earliest one is told.
    --before: Ask before anything happened at TIME. Default: after all that happened then.
    """
)
Processors = Annotated[int, _about("--processors")]


def quote(
    state: Annotated[str, _about("--state")],
    processors: Processors,
    runtime: Annotated[str, _about("--runtime")],
    deadline: Annotated[str | None, _about("--deadline")] = None,
    before: Annotated[bool, _about("--before")] = False,
    workload: PricedWorkload = None,
    as_json: AsJson = False,
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
    moment = duration(time, f"--state {state}: TIME")
    run_time = duration(runtime, "--runtime", zero=False)
    until = None if deadline is None else duration(deadline, "--deadline", zero=False)
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
    title = (
        f"{found.run} ({found.scheduler}) at {date_text(found.time)} s "
        f"({duration_text(found.time)}): {found.free_processors} of {found.machine_processors} "
        f"processors free, jobs: {found.running_jobs} running, {found.waiting_jobs} waiting"
    )
    say(answer_text(title, _rows(found)))
    if found.charges_unknown:
        note(f"no QoS charges: {found.charges_unknown}")


def _rows(found: Quotation) -> Iterator[tuple[str, str]]:
    """Yield request and answer, each with its label."""
    wish = f"{found.processors} processors for {duration_text(found.run_time)}"
    if found.requested_deadline is not None:
        left = duration_text(found.requested_deadline - found.time)
        wish += f" by {date_text(found.requested_deadline)} s ({left} from then)"
    yield "request", wish
    yield "answer", "admitted" if found.admitted else f"refused: {found.reason}"
    if found.blamed is not None:
        yield "in the way", f"qops-batsim explain {found.run} '{found.blamed}'"
    if found.granted is not None:
        yield "promise", possible_text(found.granted, found.time)
    if found.offered is not None:
        yield "offer", possible_text(found.offered, found.time)
    earliest = "none can be promised"
    if found.earliest is not None:
        earliest = possible_text(found.earliest, found.time)
    yield "earliest deadline", earliest
    if found.moved:
        yield "would move", names_text(sorted(found.moved), 5)
