"""Rules about classes of service on hosts that jobs share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qops_batsim.analysis.results.restarts import original_id
from qops_batsim.analysis.results.tables import Booleans, Floats
from qops_batsim.analysis.verify.rule import Rule, Subject, Violation, lasting, tolerance

DEDICATED = "dedicated"
"""The class of service of jobs that are alone on their hosts."""


def dedicated_alone(subject: Subject) -> Iterator[Violation]:
    """A job of class dedicated shares no host while it runs."""
    result = subject.result
    names = result.jobs["id"]
    dedicated = _dedicated(subject)
    if not dedicated.any():
        return
    rows, hosts = result.occupations
    real = result.executed[rows]
    rows, hosts = rows[real], hosts[real]
    start, finish = (result.column(name)[rows] for name in ("starting_time", "finish_time"))
    finish = np.where(lasting(finish - start), finish, start)
    order = np.lexsort((start, hosts))
    rows, hosts, start, finish = rows[order], hosts[order], start[order], finish[order]
    bounds = np.flatnonzero(np.diff(hosts, prepend=-1, append=-1))
    seen: set[tuple[int, int]] = set()
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        for place in (first + np.flatnonzero(dedicated[rows[first:last]])).tolist():
            for other in _overlapping(start[first:last], finish[first:last], place - first):
                pair = (int(rows[place]), int(rows[first + other]))
                if pair in seen or pair[::-1] in seen:
                    continue  # the same two jobs, on a further host
                seen.add(pair)
                one, two = (str(names.iloc[row]) for row in pair)
                date = float(max(start[place], start[first + other]))
                host = int(hosts[place])
                yield Violation(
                    rule="dedicated-alone",
                    jobs=(one, two),
                    host=host,
                    time=date,
                    message=(
                        f"job {one!r} is to be alone on its hosts, but shares host {host} with "
                        f"job {two!r} from {date:.6f} s on"
                    ),
                )


def _overlapping(start: Floats, finish: Floats, place: int) -> list[int]:
    """Return the jobs of a host that run at the same time as one of them."""
    begin, end = np.full_like(start, start[place]), np.full_like(finish, finish[place])
    together: Booleans = (start < end - tolerance(start, end)) & (
        finish > begin + tolerance(finish, begin)
    )
    together[place] = False
    return [int(index) for index in np.flatnonzero(together)]


def _dedicated(subject: Subject) -> Booleans:
    """Tell which jobs of the run are of class dedicated, what goes on of them included."""
    classes = {
        f"{name}!{job.id}": None if job.qos is None else job.qos.service_class
        for name, workload in subject.workloads.items()
        for job in workload.jobs
    }
    found: Booleans = np.array(
        [
            classes.get(original_id(str(name), classes) or "") == DEDICATED
            for name in subject.result.jobs["id"]
        ],
        dtype=np.bool_,
    )
    return found


RULES = (
    Rule(
        "dedicated-alone",
        dedicated_alone,
        lambda subject: bool(subject.workloads),
        "the workload",
    ),
)
