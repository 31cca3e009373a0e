"""``qops-batsim advise``: deadlines that could have been promised on a trace, and their price."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from qops_batsim.cli import common_options, console
from qops_batsim.cli.command_inputs import prices_in, selection
from qops_batsim.cli.common_options import Accounts, NodesFile, Qos, manual
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from qops_batsim.advice.advise import Advice
    from qops_batsim.workload.accounting import Choices

_FEW_JOBS = 5_000
"""Most jobs of a trace that one process simulates alone."""

_about = manual(
    """
    TRACE: Accounting of Slurm or PBS, a table of a published log, a workload log (SWF) or a Batsim
        workload (JSON), also .gz; or a shipped workload; - for standard input.
    [Which jobs]
    --partition NAME: Advise on this partition (repeatable). Default: on each with many jobs.
    [What a job is]
    --by cores|nodes|gpus|binding: Unit in which jobs and the machine are counted. Default:
        binding: cores, where a job with GPUs has at least the cores that belong to them.
    [The machine and its users]
    --processors N: Processors of the machine. Default: what the trace tells.
    --time-zone NAME: Time zone of the site (Europe/Stockholm), if the trace does not tell it.
        Default: UTC.
    [What is asked]
    --scheduler NAME: Deadline scheduler, with options as NAME:OPTION=VALUE; further ones are
        compared with it (repeatable). Default: qops, fqops:tolerance_factor=2 and msb.
    --by-scheduler NAME: Scheduler of the site, whose waits are compared with those of the trace,
        with options as NAME:OPTION=VALUE. Default: EASY; where that does not fit, the best of fcfs,
        conservative and slurm with several weights.
    --windows NxJOBS: Stretches of the trace to simulate, and the jobs of each: 10x3000, or 10.
        Default: 1 for fewer than 6,000 jobs, else 3 to 5, of at most 5,000.
    --what-if LIST: Advise also on the trace with these changes, side by side: load=1.2, nodes=+64
        (or processors=+512), max-walltime=24h and estimates=learned, separated by commas.
    [What is written]
    --out, -o FILE: The page to write (HTML, one file).
    --anonymous: Show numbers in place of users, in the order of their appearance.
    --json: Print the advice as JSON, instead of a summary.
    """
)


def advise(
    trace: Annotated[str, _about("TRACE")],
    out: Annotated[Path, _about("--out")] = Path("report.html"),
    partition: Annotated[list[str] | None, _about("--partition")] = None,
    qos: Qos = None,
    account: Accounts = None,
    by: Annotated[str | None, _about("--by")] = None,
    nodes: NodesFile = None,
    processors: Annotated[int | None, _about("--processors", min=1)] = None,
    time_zone: Annotated[str | None, _about("--time-zone")] = None,
    scheduler: Annotated[list[str] | None, _about("--scheduler")] = None,
    by_scheduler: Annotated[str | None, _about("--by-scheduler")] = None,
    prices: common_options.PricesFile = None,
    windows: Annotated[str | None, _about("--windows")] = None,
    what_if: Annotated[str | None, _about("--what-if")] = None,
    anonymous: Annotated[bool, _about("--anonymous")] = False,
    as_json: Annotated[bool, _about("--json")] = False,
) -> None:
    """Tell which deadlines a centre could have promised to the jobs of a log, and at what price.

    Simulates stretches of the trace with users who ask to end earlier than under EASY: how many
    deadlines could be promised, how early, who is refused, what it costs, and which settings a
    centre would choose. The page needs no other file and no network; docs/advise.md explains it.

    Examples:

    \b
        # A centre with Slurm, in two steps (--nodes makes sizes exact):
        sacct -aDP -S 2024-01-01 -o JobID,User,Account,Partition,QOS \\
          -o Reservation,State,Submit,Start,End,ElapsedRaw,AllocCPUS \\
          -o AllocNodes,ReqTRES,AllocTRES,NodeList,Timelimit > jobs.txt
        scontrol show node > nodes.txt
        qops-batsim advise jobs.txt --nodes nodes.txt --prices prices.toml
        # A shipped trace, to look at a page:
        qops-batsim advise kth_sp2_1000 --out report.html
    """
    import msgspec

    from qops_batsim.advice.advice_page import advice_page, document_of
    from qops_batsim.advice.advise import AdviceChoices
    from qops_batsim.advice.advise import advise as ask
    from qops_batsim.advice.what_if import WhatIf, parse_what_if
    from qops_batsim.experiments.deadline_runs import contestant_of
    from qops_batsim.files import check_writable, write_text
    from qops_batsim.traces.reading import read_partitions
    from qops_batsim.workload.workload_model import shortage_warning

    count, size = _windows(windows)
    choices = AdviceChoices(prices=prices_in(prices), windows=count, window_jobs=size)
    if scheduler:
        chosen, *others = map(contestant_of, scheduler)
        choices = msgspec.structs.replace(choices, scheduler=chosen, others=tuple(others))
    if by_scheduler is not None:
        choices = msgspec.structs.replace(choices, by_scheduler=contestant_of(by_scheduler))
    selected = selection(partition, qos, account, None, nodes)
    accounting = None
    if by is not None or any(selected.values()):
        from qops_batsim.workload.accounting import Choices

        accounting = Choices(by=by or "binding", **selected)
    check_writable(out)
    began = time.perf_counter()
    traces, small = read_partitions(
        "/dev/stdin" if trace == "-" else trace,
        processors=processors,
        time_zone=time_zone,
        accounting=accounting,
    )
    for name, read in traces.items():
        if read.not_counted:
            console.note(
                f"{name or trace}: planned as one number of processors, not node by node: "
                f"{', '.join(read.not_counted)} of nodes limit nothing, so that where jobs share "
                "nodes fewer ends could be promised"
            )
    changes = {}
    if what_if is not None:
        changes = {name: parse_what_if(what_if, _cores(name, accounting)) for name in traces}

    def advice_on(name: str, changed: WhatIf | None = None) -> Advice:
        with console.progress_bar(None, f"advise {name}".strip()) as bar:
            return ask(
                traces[name],
                choices,
                name=name,
                what_if=changed,
                workers=_workers(len(traces[name].workload.jobs)),
                on_progress=bar,
            )

    parts = {name: advice_on(name) for name in traces}
    for each in parts.values():
        sizes = [window.jobs for window in each.windows]
        console.warn(shortage_warning(len(sizes), count, what="windows"))
        console.warn(shortage_warning(min(sizes), size, what="jobs a window"))
    changed = {name: advice_on(name, each) for name, each in changes.items()}
    page = advice_page(
        parts,
        console.command_line(anonymous=anonymous),
        small=small,
        changed=changed,
        changes=what_if or "",
        anonymous=anonymous,
    )
    write_text(out, page)
    if as_json:
        console.print_json(document_of(parts, small, changed))
    else:
        _print_summary(parts, changed, what_if)
    runs = sum(len(each.runs) for each in (*parts.values(), *changed.values()))
    console.note(f"{runs} runs in {time.perf_counter() - began:.1f} s")
    console.note(f"wrote {out}")


def _windows(text: str | None) -> tuple[int | None, int | None]:
    """Parse ``--windows`` (10x3000, or 10): how many stretches to simulate, and jobs in each."""
    if text is None:
        return None, None
    counts = text.split("x")
    if len(counts) > 2 or not all(re.fullmatch("0*[1-9][0-9]{0,8}", each) for each in counts):
        raise InputError(
            f"--windows is {text}; a number of windows, as 10, or of windows and of jobs in each, "
            "as 10x3000, is expected"
        )
    count, size = (*map(int, counts), None)[:2]
    return count, size


def _workers(jobs: int) -> int:
    """Return how many processes to use for a log with ``jobs`` jobs; results are the same."""
    return len(os.sched_getaffinity(0)) if jobs > _FEW_JOBS else 1


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
        told = []
        if changed:
            told = [f"With {changes}: {text}" for text in summary(changed[name])]
        for sentence in [*summary(each), *told]:
            console.say(f"{name + ': ' if len(parts) > 1 else ''}{sentence}\n")


def _cores(name: str, accounting: Choices | None) -> float | None:
    """Return the cores per node of a partition: 1 if nodes are the unit, None if unknown."""
    if accounting is None:
        return None
    if accounting.by == "nodes":
        return 1.0
    known = accounting.nodes and accounting.nodes.together(name.split("+"))
    return known["cores"] / known["nodes"] if known and known["nodes"] else None
