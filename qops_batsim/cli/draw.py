"""``qops-batsim gantt``, ``occupation`` and ``plot``: pictures of runs."""

from __future__ import annotations

import re
from typing import Annotated

from qops_batsim.cli.console import say
from qops_batsim.cli.inputs import read_runs
from qops_batsim.cli.manual import manual
from qops_batsim.cli.options import Begin, End, Hosts, Picture, Run, Runs, WorkloadsOfRun
from qops_batsim.errors import InputError

_about = manual(
    """
    --engine: How to draw: evalys (labelled rectangles), image (any number of jobs), or auto
        (evalys while it stays readable).
    """
)


def gantt(
    run: Run,
    out: Picture,
    begin: Begin = None,
    end: End = None,
    engine: Annotated[str, _about("--engine")] = "auto",
    hosts: Hosts = None,
) -> None:
    """Draw which host ran which job, when.

    **Examples**

    `qops-batsim gantt out/kth_easy -o kth.png`

    `qops-batsim gantt out/kth_easy --from 100d --to 101d -o day100.svg`
    """
    from qops_batsim.analysis.plots.drawing import output_format
    from qops_batsim.analysis.plots.gantt import gantt as draw

    output_format(out)
    (result,) = read_runs([run], hosts)
    draw(result, out, begin=_seconds(begin, "--from"), end=_seconds(end, "--to"), engine=engine)
    say(f"wrote {out}")


def occupation(
    run: Run,
    out: Picture,
    workload: WorkloadsOfRun = None,
    begin: Begin = None,
    end: End = None,
    hosts: Hosts = None,
) -> None:
    """Draw how many tasks each host runs over time, coloured by class of service.

    For runs in which jobs share hosts: a host has a lane for each task that it runs at once.
    The workload tells the classes.

    **Examples**

    `qops-batsim occupation out/mixed -o mixed.png`

    `qops-batsim occupation out/mixed --from 1h --to 2h -o hour.svg`
    """
    from qops_batsim.analysis.plots.drawing import output_format
    from qops_batsim.analysis.plots.occupation import draw
    from qops_batsim.analysis.results.workloads import read_workloads, recorded_workloads

    output_format(out)
    (result,) = read_runs([run], hosts)
    workloads = read_workloads(workload or recorded_workloads(result))
    bounds = {"begin": _seconds(begin, "--from"), "end": _seconds(end, "--to")}
    draw(result, out, workloads=workloads, **bounds)
    say(f"wrote {out}")


def plot(runs: Runs, out: Picture, hosts: Hosts = None) -> None:
    """Draw utilization and queue length over time, of one run or several.

    **Examples**

    `qops-batsim plot out/kth_easy -o kth.png`

    `qops-batsim plot out/kth_easy out/kth_conservative out/kth_fcfs -o compared.pdf`
    """
    from qops_batsim.analysis.plots.drawing import output_format
    from qops_batsim.analysis.plots.over_time import draw

    output_format(out)
    draw(read_runs(runs, hosts), out)
    say(f"wrote {out}")


_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds(text: str | None, option: str) -> float | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d*)?)([smhd]?)", text.strip())
    if match is None:
        raise InputError(
            f"{option} {text}: not a time; seconds since the start of the simulation, or a "
            "number with a unit s, m, h or d (100d) is expected"
        )
    return float(match[1]) * _UNITS[match[2]]
