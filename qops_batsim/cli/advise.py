"""``qops-batsim advise``: possible promises on a trace, and their price."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from qops_batsim.cli import console, options
from qops_batsim.cli.inputs import numbers
from qops_batsim.cli.options import manual
from qops_batsim.cli.workload_accounting import Accounts, NodesFile, Qos, Reservations, selection
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from qops_batsim.advice.advise import Advice, AdviceChoices
    from qops_batsim.advice.what_if import WhatIf
    from qops_batsim.experiments.pool import Workers
    from qops_batsim.workload.accounting import Choices
    from qops_batsim.workload.conversion import Conversion

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
    centre would choose. The page needs no other file and no network; docs/advise.md explains it.

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
    from qops_batsim.advice.advise import AdviceChoices
    from qops_batsim.experiments.deadline_runs import contestant_of

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
    asked = {"processors": processors, "time_zone": time_zone, "accounting": accounting}
    asks = _Asks(choices, out, as_json, quiet, jobs_parallel, quotes if backtest else 0, what_if)
    _advise(trace, asks, **asked)


class _Asks(NamedTuple):
    """Choices of the command, beside the trace."""

    choices: AdviceChoices
    out: Path
    as_json: bool
    quiet: bool
    workers: Workers
    quotes: int
    what_if: str | None


def _advise(trace: str, asks: _Asks, **asked: Any) -> None:
    from qops_batsim.advice import advice_page as pages
    from qops_batsim.advice.advice_tables import overview_table
    from qops_batsim.advice.recommendations import summary
    from qops_batsim.advice.what_if import parse_what_if
    from qops_batsim.files import check_writable, write_text
    from qops_batsim.workload.traces import read_partitions

    check_writable(asks.out)
    began = time.perf_counter()
    changes = {}
    traces, small = read_partitions("/dev/stdin" if trace == "-" else trace, **asked)
    if asks.what_if is not None:
        changes = {name: parse_what_if(asks.what_if, _cores(name, **asked)) for name in traces}
    parts = {name: _one(found, name, asks) for name, found in traces.items()}
    changed = {name: _one(traces[name], name, asks, each) for name, each in changes.items()}
    command = console.command_line()
    first, *others = parts.values()
    if changed and asks.what_if is not None:
        page = pages.what_if_page(parts, changed, asks.what_if, command)
    elif others:
        page = pages.centre_page(parts, small, command)
    else:
        page = pages.advice_page(first, command)
    write_text(asks.out, page)
    if asks.as_json:
        told = {name: pages.advice_document(each) for name, each in parts.items()}
        after = {name: pages.advice_document(each) for name, each in changed.items()}
        document = {"partitions": told, "few_jobs": small} if others else next(iter(told.values()))
        console.print_json({**document, "what_if": after} if after else document)
    elif not asks.quiet:
        if others:
            table = overview_table(parts)
            console.print_table(table.title, table.headings, table.rows)
            console.say(f"{table.note}\n")
        for name, each in parts.items():
            told_quotes = [] if each.quotes is None else [each.quotes.sentence()]
            after_it = (
                [f"With {asks.what_if}: {t}" for t in summary(changed[name])] if changed else []
            )
            for sentence in [*summary(each), *told_quotes, *after_it]:
                console.say(f"{name + ': ' if others else ''}{sentence}\n")
    if not asks.quiet:
        runs = sum(len(each.runs) for each in (*parts.values(), *changed.values()))
        console.note(f"{runs} runs in {time.perf_counter() - began:.1f} s")
        console.note(f"wrote {asks.out}")


def _one(trace: Conversion, name: str, asks: _Asks, changes: WhatIf | None = None) -> Advice:
    """Return the advice on a trace, or on a partition of one."""
    from dataclasses import replace

    from qops_batsim.advice.advise import advise as ask
    from qops_batsim.advice.backtest import backtest

    title = f"advise {name}".strip()
    with (
        console.announce_compiling(asks.quiet),
        console.progress_bar(None, title, asks.quiet) as bar,
    ):
        found = ask(
            trace,
            asks.choices,
            name=name,
            what_if=changes,
            workers=asks.workers,
            on_progress=bar,
        )
        if asks.quotes and changes is None:
            found = replace(found, quotes=backtest(trace, asked=asks.quotes))
    return found


def _cores(name: str, accounting: Choices | None, **_: Any) -> float | None:
    """Return how many cores a node of a partition has, or how a node is counted, if known."""
    if accounting is None:
        return None
    known = (accounting.nodes or {}).get(name)
    if accounting.by == "nodes":
        return 1.0
    return known["cores"] / known["nodes"] if known and known["nodes"] else None
