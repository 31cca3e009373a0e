"""EASY with each order of its queue, and EASY++, on logs and on stretches of them (README.md).

    python studies/easy_orders [--quick] [--write studies/easy_orders/tables.md]

Means over all jobs, planned with the users' estimates: wait (seconds) and bounded slowdown (10 s);
and the share of their work that is not done at the last submission.
Changes are those of stretches that share no job, each on an empty machine. Logs are read from
QOPS_SHARED (default ../shared).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim import simulate
from qops_batsim.experiments import (
    Claim,
    changes,
    differences,
    find_trace,
    markdown_table,
    mean_interval,
)
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.traces import read_trace
from qops_batsim.workload import Workload, subset
from studies.logs import jobs_before
from studies.shared import (
    Settings,
    arguments,
    claim_value,
    print_or_put,
    run_main,
    settings_of,
    signs_judged,
)


class Means(NamedTuple):
    """Means of a run over all jobs, and what of their work was left at the last submission (%)."""

    wait: float
    slowdown: float
    left: float


JUDGED = ("wait", "slowdown")
"""The means; what is left has no verdict."""


def means_of(options: Mapping[str, Any], workload: Workload) -> Means:
    """Return the means of a run of EASY."""
    machine = make_cluster(workload.processors)
    ended = simulate(make_scheduler("easy", options), workload, machine).ended_jobs
    waits, lasted = ended.starts - ended.submission_times, ended.finishes - ended.starts
    slowdowns = np.maximum(1.0, (waits + lasted) / np.maximum(lasted, 10.0))
    last = ended.submission_times.max()
    after = ended.finishes - np.clip(last, ended.starts, ended.finishes)
    left = 100.0 * (ended.processors * after).sum() / (ended.processors * lasted).sum()
    return Means(float(waits.mean()), float(slowdowns.mean()), float(left))


class Runs(NamedTuple):
    """Means of each run on a log, and on each of its stretches."""

    whole: dict[str, Means]
    stretches: dict[str, list[Means]]


def runs_on(settings: Settings, log: str) -> Runs:
    """Make the runs of a log on a machine."""
    file, processors, jobs = settings["logs"][log]
    workload = read_trace(find_trace(file, Path()), processors=processors).workload
    count = len(workload.jobs) // jobs
    parts = [subset(workload, skip=jobs_before(n + 1, jobs), first=jobs) for n in range(count)]
    runs: dict[str, dict[str, Any]] = settings["runs"]
    return Runs(
        {name: means_of(options, workload) for name, options in runs.items()},
        {name: [means_of(options, part) for part in parts] for name, options in runs.items()},
    )


def judged(found: Mapping[str, Runs], base: str) -> dict[tuple[str, str, str], Claim]:
    """Return by run, log and metric its change against a run by stretch (%), judged together."""
    less = {}
    for log, runs in found.items():
        for name, own in runs.stretches.items():
            for metric in JUDGED if name != base else ():
                both = (
                    [getattr(each, metric) for each in of] for of in (own, runs.stretches[base])
                )
                less[name, log, metric] = changes(*both)
    return signs_judged(less, "orders", relative=True)


def tables(settings: Settings, found: Mapping[str, Runs]) -> Iterator[str]:
    """Yield the means on whole logs, and the changes by stretch."""
    base = next(iter(settings["runs"]))
    shown = ("wait (s)", "slowdown", "left (%)")
    heads = [f"{log}: {what}" for log in found for what in shown]
    rows = [
        [name]
        + [
            cell
            for runs in found.values()
            for cell in map("{:,.{}f}".format, runs.whole[name], (0, 1, 1))
        ]
        for name in settings["runs"]
    ]
    yield from markdown_table(["whole logs", *heads], rows)
    claims = judged(found, base)
    heads = [
        f"{log}, {len(runs.stretches[base])} of {settings['logs'][log][2]:,} jobs"
        for log, runs in found.items()
    ]
    for metric, title in (("slowdown", "bounded slowdown"), ("wait", "wait")):
        rows = [
            [name, *(claim_value(claims[name, log, metric], 0, marked=True) for log in found)]
            for name in settings["runs"]
            if name != base
        ]
        yield ""
        yield from markdown_table([f"{title} against {base} (%)", *heads], rows)
    rows = [
        [name, *(left_text(runs.stretches[name], runs.stretches[base]) for runs in found.values())]
        for name in settings["runs"]
        if name != base
    ]
    yield ""
    yield from markdown_table([f"work left less {base} (points)", *heads], rows)


def left_text(own: Sequence[Means], base: Sequence[Means]) -> str:
    """Return the mean difference in work left, with its interval."""
    return mean_interval(differences(*([each.left for each in of] for of in (own, base)))).text(
        sign="+"
    )


def main() -> None:
    asked = arguments(__file__, __doc__).parse_args()
    settings = settings_of(__file__, quick=asked.quick)
    found = {log: runs_on(settings, log) for log, told in settings["logs"].items() if told}
    print_or_put("\n".join(tables(settings, found)) + "\n", asked.write)


if __name__ == "__main__":
    run_main(main)
