"""``qops-batsim advise``: possible promises on a trace, and their price."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from qops_batsim.cli import console, options
from qops_batsim.cli.options import manual
from qops_batsim.cli.workload_accounting import selection
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from qops_batsim.advice.advise import AdviceChoices
    from qops_batsim.experiments.pool import Workers

_about = manual(
    """
    TRACE: Accounting records of sacct, a workload log (SWF) or a Batsim workload (JSON), also
        .gz; or a shipped workload.
    --partition NAME: Advise on this partition (repeatable). Default: on every loaded one.
    --qos NAME: Take the jobs of this QOS (repeatable).
    --account NAME: Take the jobs of this account (repeatable).
    --reservation NAME: Take the jobs inside this reservation only (repeatable); all: every job.
        Default: none of those inside one.
    --by cores|nodes|gpus|binding: Unit in which jobs and the machine are counted. Default:
        binding: cores, of which a job that takes GPUs has those that belong to them.
    --nodes FILE: Nodes of the partitions: output of scontrol show node, or of sinfo with PARTITION,
        CPUS and GRES. Default: the most in use at once.
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
    partition: Annotated[list[str] | None, _about("--partition")] = None,
    qos: Annotated[list[str] | None, _about("--qos")] = None,
    account: Annotated[list[str] | None, _about("--account")] = None,
    reservation: Annotated[list[str] | None, _about("--reservation")] = None,
    by: Annotated[str | None, _about("--by")] = None,
    nodes: Annotated[Path | None, _about("--nodes")] = None,
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
    chosen = selection(partition, qos, account, reservation, nodes)
    accounting = None
    if by is not None or any(chosen.values()):
        from qops_batsim.workload.accounting import Choices

        accounting = Choices(by=by or "binding", **chosen)
    asked = {"processors": processors, "time_zone": time_zone, "accounting": accounting}
    _advise(trace, choices, out, as_json, quiet, jobs_parallel, **asked)


def _advise(
    trace: str,
    choices: AdviceChoices,
    out: Path,
    as_json: bool,
    quiet: bool,
    workers: Workers,
    **asked: Any,
) -> None:
    from qops_batsim.advice.advice_page import advice_document, advice_page, centre_page
    from qops_batsim.advice.advise import advise as ask
    from qops_batsim.advice.recommendations import summary
    from qops_batsim.files import check_writable, write_text
    from qops_batsim.workload.traces import read_partitions

    check_writable(out)
    began = time.perf_counter()
    traces, small = read_partitions(trace, **asked)
    parts = {}
    for name, found in traces.items():
        title = f"advise {name}".strip()
        with console.announce_compiling(quiet), console.progress_bar(None, title, quiet) as bar:
            parts[name] = ask(found, choices, name=name, workers=workers, on_progress=bar)
    command = console.command_line()
    first, *others = parts.values()
    page = centre_page(parts, small, command) if others else advice_page(first, command)
    write_text(out, page)
    if as_json and others:
        told = {name: advice_document(each) for name, each in parts.items()}
        console.print_json({"partitions": told, "few_jobs": small})
    elif as_json:
        console.print_json(advice_document(first))
    elif not quiet:
        for name, each in parts.items():
            for sentence in summary(each):
                console.say(f"{name + ': ' if others else ''}{sentence}\n")
    if not quiet:
        runs = sum(len(each.runs) for each in parts.values())
        console.note(f"{runs} runs in {time.perf_counter() - began:.1f} s")
        console.note(f"wrote {out}")


def _numbers(text: str, option: str) -> tuple[float, ...]:
    try:
        return tuple(float(each) for each in text.split(","))
    except ValueError:
        raise InputError(f"{option} {text}: numbers separated by commas are expected") from None
