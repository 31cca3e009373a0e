"""``qops-batsim advise``: possible promises on a trace, and their price."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from qops_batsim.cli import console, options
from qops_batsim.cli.inputs import numbers, selection
from qops_batsim.cli.options import Accounts, NodesFile, Qos, Reservations, manual
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from qops_batsim.advice.advise import Advice
    from qops_batsim.workload.accounting import Choices

_about = manual(
    """
    TRACE: Accounting of Slurm or PBS, a table of a published log, a workload log (SWF) or a Batsim
        workload (JSON), also .gz; or a shipped workload; - for standard input.
    --partition NAME: Advise on this partition (repeatable). Default: on every loaded one.
    --by cores|nodes|gpus|binding: Unit in which jobs and the machine are counted. Default:
        binding: cores, of which a job that takes GPUs has those that belong to them.
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
    --backtest: Ask `quote` at each of --quotes submissions as it would have been asked then, and
        compare with what came: how reliable quotes are.
    --quotes N: How many submissions, spread evenly over the trace.
    --what-if LIST: The same with changes, side by side: load=1.2, nodes=+64 (or processors=+512),
        max-walltime=24h and estimates=learned, separated by commas.
    --json: Print JSON as well.
    """
)


def advise(
    trace: Annotated[str, _about("TRACE")],
    out: Annotated[Path, _about("--out")] = Path("report.html"),
    partition: Annotated[list[str] | None, _about("--partition")] = None,
    qos: Qos = None,
    account: Accounts = None,
    reservation: Reservations = None,
    by: Annotated[str | None, _about("--by")] = None,
    nodes: NodesFile = None,
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
    backtest: Annotated[bool, _about("--backtest")] = False,
    quotes: Annotated[int, _about("--quotes", min=1)] = 1000,
    what_if: Annotated[str | None, _about("--what-if")] = None,
    jobs_parallel: options.Processes = 1,
    as_json: Annotated[bool, _about("--json")] = False,
    quiet: options.Quiet = False,
) -> None:
    """Tell what completion times could have been promised on a trace, and at what price.

    Simulates stretches of the trace with users who ask to end earlier than under EASY: how many
    deadlines could be promised, how early, who is refused, what it costs, and which settings a
    centre would choose. The page needs no other file and no network; docs/centres.md explains it.

    Examples:

    \b
        # A centre with Slurm, in two steps (--nodes makes sizes exact):
        sacct -aDP -S 2024-01-01 -o JobID,User,Account,Partition,QOS \\
          -o Reservation,State,Submit,Start,End,ElapsedRaw,AllocCPUS \\
          -o AllocNodes,ReqTRES,AllocTRES,NodeList,Timelimit > jobs.txt
        qops-batsim advise jobs.txt --time-zone Europe/Stockholm
        scontrol show node > nodes.txt
        qops-batsim advise jobs.txt --nodes nodes.txt --partition gpu \\
          --rate 0.03 --currency EUR
        # A shipped trace, to look at a page:
        qops-batsim advise kth_sp2_1000 --out report.html
        # Ten stretches of a long log:
        qops-batsim advise log.swf.gz --windows 10
    """
    from dataclasses import replace

    from qops_batsim.advice import backtest as quoting
    from qops_batsim.advice.advice_page import document_of, page_of
    from qops_batsim.advice.advise import AdviceChoices
    from qops_batsim.advice.advise import advise as ask
    from qops_batsim.advice.what_if import WhatIf, parse_what_if
    from qops_batsim.experiments.deadline_runs import contestant_of
    from qops_batsim.files import check_writable, write_text
    from qops_batsim.workload.model import shortage
    from qops_batsim.workload.traces import read_partitions

    if currency is None and rate != 1:
        raise InputError(f"--rate {rate:g}: is a price; what it is in (--currency) is expected")
    choices = AdviceChoices(
        scheduler=contestant_of(scheduler),
        others=tuple(map(contestant_of, against)) if against else AdviceChoices().others,
        stringency=stringency,
        stringencies=numbers(stringencies, "--stringencies"),
        loads=numbers(loads, "--loads"),
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
    check_writable(out)
    began = time.perf_counter()
    traces, small = read_partitions(
        "/dev/stdin" if trace == "-" else trace,
        processors=processors,
        time_zone=time_zone,
        accounting=accounting,
    )
    changes = {}
    if what_if is not None:
        changes = {name: parse_what_if(what_if, _cores(name, accounting)) for name in traces}

    def advice_on(name: str, changed: WhatIf | None = None) -> Advice:
        with (
            console.announce_compiling(quiet),
            console.progress_bar(None, f"advise {name}".strip(), quiet) as bar,
        ):
            found = ask(
                traces[name],
                choices,
                name=name,
                what_if=changed,
                workers=jobs_parallel,
                on_progress=bar,
            )
            if backtest and changed is None:
                found = replace(found, quotes=quoting.backtest(traces[name], asked=quotes))
        return found

    parts = {name: advice_on(name) for name in traces}
    for each in parts.values():
        sizes = [window.jobs for window in each.windows]
        console.warn(shortage(len(sizes), windows, what="windows"))
        console.warn(shortage(min(sizes), window_jobs, what="jobs a window"))
    changed = {name: advice_on(name, each) for name, each in changes.items()}
    write_text(out, page_of(parts, small, changed, what_if, console.command_line()))
    if as_json:
        console.print_json(document_of(parts, small, changed))
    if quiet:
        return
    if not as_json:
        _print_summary(parts, changed, what_if)
    runs = sum(len(each.runs) for each in (*parts.values(), *changed.values()))
    console.note(f"{runs} runs in {time.perf_counter() - began:.1f} s")
    console.note(f"wrote {out}")


def _print_summary(
    parts: Mapping[str, Advice], changed: Mapping[str, Advice], changes: str | None
) -> None:
    from qops_batsim.advice.advice_tables import overview_table
    from qops_batsim.advice.recommendations import summary

    if len(parts) > 1:
        table = overview_table(parts)
        console.print_table(table.title, table.headings, table.rows)
        console.say(f"{table.note}\n")
    for name, each in parts.items():
        told = [] if each.quotes is None else [each.quotes.sentence()]
        if changed:
            told += [f"With {changes}: {text}" for text in summary(changed[name])]
        for sentence in [*summary(each), *told]:
            console.say(f"{name + ': ' if len(parts) > 1 else ''}{sentence}\n")


def _cores(name: str, accounting: Choices | None) -> float | None:
    """Return how many cores a node of a partition has, or how a node is counted, if known."""
    if accounting is None:
        return None
    if accounting.by == "nodes":
        return 1.0
    known = accounting.nodes and accounting.nodes.together(name.split("+"))
    return known["cores"] / known["nodes"] if known and known["nodes"] else None
