"""``qops-batsim plot``: pictures of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from qops_batsim.cli.command_inputs import moment, read_runs, warn_of_other_workloads
from qops_batsim.cli.common_options import Hosts, PlatformOfRun, Runs, WorkloadsOfRun, manual
from qops_batsim.cli.console import say, warn
from qops_batsim.errors import InputError, require_one_of

if TYPE_CHECKING:
    from qops_batsim.measures.results.run_result import RunResult

_about = manual(
    """
    KIND: gantt, utilization, occupation or deadlines.
    --out, -o FILE: Picture to write: a .png, .pdf or .svg file.
    [Gantt charts and occupation]
    --from TIME: Left edge: seconds since the start of the simulation, or with a unit: 90m, 12h,
        100d; or a date where the workload has a calendar: 1996-12-24. Default: the first
        submission.
    --to TIME: Right edge. Default: the last completion.
    [Gantt charts]
    --color deadline|state: Meaning of the colours. Default: deadlines, if there are any.
    """
)


def plot(
    kind: Annotated[str, _about("KIND")],
    runs: Runs,
    out: Annotated[Path, _about("--out")],
    begin: Annotated[str | None, _about("--from")] = None,
    end: Annotated[str | None, _about("--to")] = None,
    color: Annotated[str | None, _about("--color")] = None,
    workload: WorkloadsOfRun = None,
    hosts: Hosts = None,
    platform: PlatformOfRun = None,
) -> None:
    """Draw what a run did: a Gantt chart, utilization, occupation, or deadlines.

    \b
        gantt        which host ran which job, when; colours tell deadlines met,
                     with how much to spare, and missed, else how jobs ended
        utilization  utilization and queue length over time
        occupation   where jobs share hosts: how many tasks each host runs, by
                     class of service; or how much of each kind is used
        deadlines    how many deadlines were met, missed and refused

    Utilization and deadlines are drawn of one run or of several.

    Examples:

    \b
        qops-batsim plot gantt out/kth_easy -o kth.png
        qops-batsim plot gantt out/kth_easy --from 1996-12-24 --to 1996-12-27 \\
          -o christmas.png
        qops-batsim plot utilization out/kth_easy out/kth_fcfs -o both.pdf
        qops-batsim plot occupation out/mixed --from 1h --to 2h -o hour.svg
        qops-batsim plot deadlines out/qops out/easy -o deadlines.png
    """
    from qops_batsim.measures.plots.drawing import output_format

    require_one_of("kind of picture", kind, _KINDS)
    draw, several, accepted = _KINDS[kind]
    given: dict[str, object] = {"--from": begin, "--to": end, "--workload": workload}
    given["--color"] = color
    for option, value in given.items():
        if value is not None and option not in accepted:
            raise InputError(f"{option} has no effect on a picture of kind {kind}; leave it out")

    if len(runs) > 1 and not several:
        raise InputError(f"{len(runs)} runs are given, but `plot {kind}` draws one; name one run")

    output_format(out)
    results = read_runs(runs, hosts, platform)
    if several:
        warn_of_other_workloads(results)
        draw(results, out, workload)
    else:
        bounds = (
            None if each is None else moment(each, option, results[0].calendar)
            for each, option in ((begin, "--from"), (end, "--to"))
        )
        further = {"color": color} if kind == "gantt" else {}
        draw(results[0], out, workload, *bounds, **further)

    say(f"wrote {out}")


def _gantt(
    result: RunResult,
    out: Path,
    workload: list[Path] | None,
    begin: float | None,
    end: float | None,
    *,
    color: str | None,
) -> None:
    from qops_batsim.measures.plots.gantt import gantt
    from qops_batsim.measures.results.run_result import read_workloads

    workloads = read_workloads(workload) if workload else None
    gantt(result, out, color=color or "auto", workloads=workloads, begin=begin, end=end)


def _occupation(
    result: RunResult,
    out: Path,
    workload: list[Path] | None,
    begin: float | None,
    end: float | None,
) -> None:
    from qops_batsim.measures.plots.occupation import draw
    from qops_batsim.measures.plots.over_time import draw_kinds
    from qops_batsim.measures.results.host_amounts import requests_of_run

    workloads = _workloads(result, workload)
    requests = requests_of_run(result, workloads)
    if requests is None:
        draw(result, out, workloads=workloads, begin=begin, end=end)
    else:
        draw_kinds(result, requests, out, begin=begin, end=end)


def _utilization(results: Sequence[RunResult], out: Path, workload: None) -> None:
    from qops_batsim.measures.plots.over_time import draw

    draw(results, out)


def _deadlines(results: Sequence[RunResult], out: Path, workload: list[Path] | None) -> None:
    from qops_batsim.measures.metrics.outcomes import outcomes_with_deadlines
    from qops_batsim.measures.plots.deadline_outcomes import draw_deadlines

    found = []
    title = ""
    for result in results:
        workloads = _workloads(result, workload)
        outcomes = outcomes_with_deadlines(result, workloads) if workloads else None
        if outcomes is None or not outcomes.of_user.any():
            why = "" if workloads else ", as its workload is not known"
            raise InputError(
                f"{result.source}: no deadlines of users are known for this run{why}; a workload "
                "whose users ask for deadlines is expected (--workload)"
            )

        title = title or next((Path(each.source).name for each in workloads.values()), result.name)
        found.append((result.name, outcomes))

    grace = max(each.grace for each in results)
    draw_deadlines(found, out, title=title, grace=grace, calendar=results[0].calendar)


def _workloads(result: RunResult, given: list[Path] | None) -> dict[str, Any]:
    """Return the workloads of a run, given or recorded, whose files still exist."""
    from qops_batsim.measures.results.run_result import workloads_of_run

    workloads, doubt = workloads_of_run(result, given)
    if doubt is not None:
        warn(doubt)
    return workloads


_PART = ("--from", "--to", "--workload")
_KINDS: dict[str, tuple[Any, bool, tuple[str, ...]]] = {
    "gantt": (_gantt, False, (*_PART, "--color")),
    "utilization": (_utilization, True, ()),
    "occupation": (_occupation, False, _PART),
    "deadlines": (_deadlines, True, ("--workload",)),
}
"""Of each kind of picture: its function, whether it draws several runs, its options."""
