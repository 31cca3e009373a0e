"""``qops-batsim gantt``, ``occupation`` and ``plot``: pictures of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from qops_batsim.cli.console import say, warn
from qops_batsim.cli.inputs import moment, read_runs, warn_of_other_workloads
from qops_batsim.cli.options import Begin, End, Hosts, Picture, Run, Runs, WorkloadsOfRun, manual

if TYPE_CHECKING:
    from qops_batsim.analysis.results.run import RunResult

_about = manual(
    """
    --engine NAME: How to draw: evalys (labelled rectangles), image (any number of jobs), or auto
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

    Examples:

    \b
        qops-batsim gantt out/kth_easy -o kth.png
        qops-batsim gantt out/kth_easy --from 100d --to 101d -o day100.svg
        qops-batsim gantt out/kth_easy --from 1996-12-24 --to 1996-12-27 \\
          -o christmas.png
    """
    from qops_batsim.analysis.plots.drawing import output_format
    from qops_batsim.analysis.plots.gantt import gantt as draw
    from qops_batsim.analysis.results.run import read_workloads

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

    Examples:

    \b
        qops-batsim occupation out/mixed -o mixed.png
        qops-batsim occupation out/mixed --from 1h --to 2h -o hour.svg
    """
    from qops_batsim.analysis.plots.drawing import output_format
    from qops_batsim.analysis.plots.occupation import draw
    from qops_batsim.analysis.results.run import workloads_of_run

    output_format(out)
    (result,) = read_runs([run], hosts)
    workloads, doubt = workloads_of_run(result, workload)
    if doubt is not None:
        warn(doubt)
    first, last = _part(result, begin, end)
    draw(result, out, workloads=workloads, begin=first, end=last)
    say(f"wrote {out}")


def plot(runs: Runs, out: Picture, hosts: Hosts = None) -> None:
    """Draw utilization and queue length over time, of one run or several.

    Examples:

    \b
        qops-batsim plot out/kth_easy -o kth.png
        qops-batsim plot out/kth_easy out/kth_conservative out/kth_fcfs \\
          -o compared.pdf
    """
    from qops_batsim.analysis.plots.drawing import output_format
    from qops_batsim.analysis.plots.over_time import draw

    output_format(out)
    results = read_runs(runs, hosts)
    warn_of_other_workloads(results)
    draw(results, out)
    say(f"wrote {out}")


def _part(
    result: RunResult, begin: str | None, end: str | None
) -> tuple[float | None, float | None]:
    """Return the part of the run to draw (seconds)."""
    given = (begin, "--from"), (end, "--to")
    first, last = (
        None if text is None else moment(text, option, result.calendar) for text, option in given
    )
    return first, last
