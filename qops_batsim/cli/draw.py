"""``qops-batsim gantt``, ``occupation`` and ``plot``: pictures of runs."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from qops_batsim.cli.console import say
from qops_batsim.cli.inputs import read_runs
from qops_batsim.cli.manual import manual
from qops_batsim.cli.options import Begin, End, Hosts, Picture, Run, Runs, WorkloadsOfRun
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from qops_batsim.analysis.results.run import RunResult
    from qops_batsim.dates import Calendar

_about = manual(
    """
    --engine: How to draw: evalys (labelled rectangles), image (any number of jobs), or auto
        (evalys while it stays readable).
    --color deadline|state: What colours tell. Default: deadlines, if there are any.
    """
)


def gantt(
    run: Run,
    out: Picture,
    begin: Begin = None,
    end: End = None,
    engine: Annotated[str, _about("--engine")] = "auto",
    color: Annotated[str, _about("--color")] = "auto",
    workload: WorkloadsOfRun = None,
    hosts: Hosts = None,
) -> None:
    """Draw which host ran which job, when.

    Colours tell deadlines met, with how much to spare, and missed, where users have set some; else
    how jobs ended. Jobs that were refused are marked above the hosts, when they were submitted.

    **Examples**

    `qops-batsim gantt out/kth_easy -o kth.png`

    `qops-batsim gantt out/kth_easy --from 100d --to 101d -o day100.svg`

    `qops-batsim gantt out/kth_easy --from 1996-12-24 --to 1996-12-27 -o christmas.png`
    """
    from qops_batsim.analysis.plots.drawing import output_format
    from qops_batsim.analysis.plots.gantt import gantt as draw
    from qops_batsim.analysis.results.workloads import read_workloads

    output_format(out)
    (result,) = read_runs([run], hosts)
    workloads = read_workloads(workload) if workload else None
    first, last = _part(result, begin, end)
    draw(result, out, engine=engine, color=color, workloads=workloads, begin=first, end=last)
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
    first, last = _part(result, begin, end)
    draw(result, out, workloads=workloads, begin=first, end=last)
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


def _part(
    result: RunResult, begin: str | None, end: str | None
) -> tuple[float | None, float | None]:
    """Return the part of the run to draw (seconds)."""
    calendar = result.calendar
    return _seconds(begin, "--from", calendar), _seconds(end, "--to", calendar)


def _seconds(text: str | None, option: str, calendar: Calendar | None) -> float | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d*)?)([smhd]?)", text.strip())
    if match is not None:
        return float(match[1]) * _UNITS[match[2]]
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError(
            f"{option} {text}: not a time; seconds since the start of the simulation, a number "
            "with a unit s, m, h or d (100d), or a date (1996-12-24 12:00) is expected"
        ) from None
    if calendar is None:
        raise InputError(f"{option} {text}: the run does not tell the date of its second 0")
    return calendar.seconds(moment)
