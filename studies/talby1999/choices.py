"""Slack-based backfilling on the KTH log: options, and jobs that reach their estimates.

Tables: choices.md.

    python studies/talby1999/choices.py choices
    python studies/talby1999/choices.py gaps
    python studies/talby1999/choices.py overruns

The months from September 1996 to August 1997 of the KTH log (QOPS_SHARED, default ../shared), each
on its own, on 128 processors. Choices are compared by the mean wait over all months with that of
conservative backfilling; for the gaps every fifth job of a month has all priority, and the others
none (section 5.3). For the overruns, the walltimes become estimates, so that the scheduler decides
about the jobs which ran longer than they asked for.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim import Job, QosRequest, read_swf, simulate
from qops_batsim.engine.records import JobRecord
from qops_batsim.experiments import find_trace
from qops_batsim.jobs import COMPLETED_KILLED
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import SchedulerModule, make_scheduler
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload import Workload, convert_log
from studies.logs import KTH
from studies.talby1999.runs import GROUPS, YearMeasures, improvement, run_month, with_priorities
from studies.talby1999.study import MONTHS, PROCESSORS, Case

CONSERVATIVE = {"reserve": "processors"}
COMPARED: dict[str, Any] = tomllib.loads(Path(__file__).with_name("choices.toml").read_text())
"""Heuristics and options that are compared, and those that narrow the gap between priorities."""


def months() -> Iterator[tuple[str, Workload]]:
    """Yield the months of the paper's year with their jobs."""
    log = read_swf(find_trace(KTH, Path()))
    for month in MONTHS:
        workload = convert_log(log, month=month, processors=PROCESSORS, rebase=True).workload
        yield month, workload


Year = Sequence[tuple[str, Workload]]


def measured(
    year: Year, options: Mapping[str, Any], scheduler: Any = "slack", **changes: Any
) -> YearMeasures:
    """Return the waits of a year's months with some options."""
    case = Case(scheduler=scheduler, options=tuple(options.items()), notice="at_once", **changes)
    found = (run_month(case, place, *month) for place, month in enumerate(year))
    return YearMeasures(months=tuple(found))


def choices() -> None:
    year = list(months())
    base = measured(year, CONSERVATIVE, "conservative")

    def tell(name: str, options: Mapping[str, Any], **changes: Any) -> None:
        gain = improvement(measured(year, options, **changes), base)
        print(f"{name} {gain:6.1f}", flush=True)

    print(f"conservative {base.average():.1f} s, {base.jobs} jobs")
    for removal, gain in product(("cheapest", "compression", "null_job"), ("slack", "promise")):
        for heuristic in COMPARED["heuristics"]:
            options = {"removal": removal, "early_gain": gain, "heuristic": heuristic}
            tell(f"{removal:12} {gain:8} {heuristic:25}", options)
    for options in COMPARED["options"]:
        tell(f"{options!s:70}", options)
    waits = tuple(max(wait, 1.0) for wait in base.monthly())
    tell(f"{'the own average of each month':70}", {}, average_waits=waits)


def gaps() -> None:
    year = [(month, with_priorities(workload, 1.0)) for month, workload in months()]
    print(f"{'options':60} {'mean wait (s)':>13} {'high':>7} {'low':>7} {'gap':>7}")
    pairs = product(COMPARED["readings"], COMPARED["narrow"])
    cases = [("slack", reading | low) for reading, low in pairs]
    for scheduler, options in [("conservative", CONSERVATIVE), *cases]:
        found = measured(year, options, scheduler)
        mean, high, low = map(found.average, GROUPS)
        told = ", ".join(f"{name}={value}" for name, value in options.items())
        print(f"{told:60} {mean:13.1f} {high:7.1f} {low:7.1f} {found.gap:7.1f}", flush=True)


def overruns() -> None:
    machine = make_cluster(PROCESSORS)
    header = f"{'killed':>6} {'lost proc-s':>12} {'wait (s)':>9} {'late':>5}"
    print(f"{'month':8} {'jobs':>5} {'option':8} {header}")
    totals: dict[str, Any] = {}
    for month, workload in months():
        workload.jobs = [without_walltime(job) for job in workload.jobs]
        for option in ("kill", "extend", "none"):
            module = make_scheduler("slack", {"on_overrun": option})
            ended = simulate(module, workload, machine).ended
            killed = [record for record in ended if record.state == COMPLETED_KILLED]
            lost = sum((r.finish - r.start) * r.job.processors for r in killed)
            waits = sum(record.start - record.submission_time for record in ended)
            late = sum(starts_late(module, record) for record in ended)
            row = np.array([len(ended), len(killed), lost, waits, late])
            show(month, option, row)
            totals[option] = totals.get(option, 0) + row
    for option, row in totals.items():
        show("all", option, row)


def starts_late(module: SchedulerModule, record: JobRecord) -> bool:
    """Whether a job has started after the latest start it was promised."""
    latest = module.qos_log.record(record.job.id).latest_start
    return latest is not None and record.start > latest + PLAN_TOLERANCE


def without_walltime(job: Job) -> Job:
    """Return the job with its walltime as estimate only."""
    qos = QosRequest(estimated_runtime=job.walltime)
    return Job(job.id, job.submission_time, job.processors, job.profile, None, qos)


def show(month: str, option: str, row: np.ndarray) -> None:
    jobs, killed, lost, waits, late = row.tolist()
    found = f"{killed:6.0f} {lost:12.0f} {waits / jobs:9.1f} {late:5.0f}"
    print(f"{month:8} {jobs:5.0f} {option:8} {found}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("choices", "gaps", "overruns"))
    {"choices": choices, "gaps": gaps, "overruns": overruns}[parser.parse_args().what]()


if __name__ == "__main__":
    main()
