"""``qops-batsim advise``: possible promises on a trace, and their price."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from qops_batsim.cli import console, options
from qops_batsim.cli.options import manual
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from qops_batsim.advice.advise import AdviceChoices

_about = manual(
    """
    TRACE: Accounting records of sacct, a workload log (SWF) or a Batsim workload (JSON), also
        .gz; or a shipped workload.
    --out, -o FILE: The page to write (HTML, one file).
    --processors N: Processors of the machine. Default: what the trace tells.
    --time-zone NAME: Time zone of the site (Europe/Stockholm), if the trace does not tell it.
    --scheduler NAME: Deadline scheduler, with options as NAME:OPTION=VALUE.
    --against NAME: Another one to compare it with (repeatable). Default:
        fqops:tolerance_factor=2 and msb.
    --stringency S: Users ask for (1 - S) x the response under EASY; below 0: for a later end.
    --stringencies LIST: What is tried beside that, separated by commas.
    --loads LIST: Loads to try, from 1, the trace itself, separated by commas.
    --goal SHARE: Share of the deadlines that the centre wants to promise, 0 to 1.
    --rate PRICE: Price of a core-hour.
    --currency NAME: What prices are in. Default: core-hours.
    --deadline-price PRICE: Price of a QoS charge of 1. Default: where promised deadlines earn
        back what refused jobs would have paid.
    --windows N: Stretches of the trace to simulate. Default: 1 for fewer than 6,000 jobs, else 3
        to 5.
    --window-jobs N: Jobs of each. Default: 5,000 at most.
    --json: Print JSON as well.
    """
)


def advise(
    trace: Annotated[str, _about("TRACE")],
    out: Annotated[Path, _about("--out")] = Path("report.html"),
    processors: Annotated[int | None, _about("--processors", min=1)] = None,
    time_zone: Annotated[str | None, _about("--time-zone")] = None,
    scheduler: Annotated[str, _about("--scheduler")] = "qops",
    against: Annotated[list[str] | None, _about("--against")] = None,
    stringency: Annotated[float, _about("--stringency")] = 0.2,
    stringencies: Annotated[str, _about("--stringencies")] = "0.5,0.2,0,-0.5,-1",
    loads: Annotated[str, _about("--loads")] = "1,1.2,1.4",
    goal: Annotated[float, _about("--goal")] = 0.9,
    rate: Annotated[float, _about("--rate")] = 1.0,
    currency: Annotated[str | None, _about("--currency")] = None,
    deadline_price: Annotated[float | None, _about("--deadline-price")] = None,
    windows: Annotated[int | None, _about("--windows", min=1)] = None,
    window_jobs: Annotated[int | None, _about("--window-jobs", min=1)] = None,
    jobs_parallel: options.Processes = 1,
    as_json: Annotated[bool, _about("--json")] = False,
    quiet: options.Quiet = False,
) -> None:
    """Tell what completion times could have been promised on a trace, and at what price.

    Simulates stretches of the trace with users who ask to end earlier than under EASY: how many
    deadlines could be promised, how early, who is refused, what it costs, and which settings a
    centre would choose. The page needs no other file and no network; docs/advise.md explains it.

    Examples:

    \b
        qops-batsim advise kth_sp2_1000 --out report.html
        qops-batsim advise sacct.txt --processors 1024 --rate 0.03 \\
          --currency EUR
        # Ten stretches of a long log:
        qops-batsim advise log.swf.gz --windows 10
    """
    from qops_batsim.advice.advise import AdviceChoices
    from qops_batsim.experiments.deadline_runs import contestant_of

    if currency is None and rate != 1:
        raise InputError(f"--rate {rate:g}: is a price; what it is in (--currency) is expected")
    choices = AdviceChoices(
        scheduler=contestant_of(scheduler),
        others=tuple(map(contestant_of, against)) if against else AdviceChoices().others,
        stringency=stringency,
        stringencies=_numbers(stringencies, "--stringencies"),
        loads=_numbers(loads, "--loads"),
        goal=goal,
        rate=rate,
        currency=currency or "core-h",
        deadline_price=deadline_price,
        windows=windows,
        window_jobs=window_jobs,
    )
    asked = {"processors": processors, "time_zone": time_zone, "workers": jobs_parallel}
    _advise(trace, choices, out, as_json, quiet, **asked)


def _advise(
    trace: str, choices: AdviceChoices, out: Path, as_json: bool, quiet: bool, **asked: Any
) -> None:
    from qops_batsim.advice.advice_page import advice_document, advice_page
    from qops_batsim.advice.advise import advise as ask
    from qops_batsim.advice.recommendations import summary
    from qops_batsim.files import check_writable, write_text

    check_writable(out)
    began = time.perf_counter()
    with console.announce_compiling(quiet), console.progress_bar(None, "advise", quiet) as progress:
        advice = ask(trace, choices, on_progress=progress, **asked)
    write_text(out, advice_page(advice, console.command_line()))
    if as_json:
        console.print_json(advice_document(advice))
    elif not quiet:
        for sentence in summary(advice):
            console.say(f"{sentence}\n")
    if not quiet:
        console.note(f"{len(advice.runs)} runs in {time.perf_counter() - began:.1f} s")
        console.note(f"wrote {out}")


def _numbers(text: str, option: str) -> tuple[float, ...]:
    try:
        return tuple(float(each) for each in text.split(","))
    except ValueError:
        raise InputError(f"{option} {text}: numbers separated by commas are expected") from None
