"""Rules about classes of service on hosts that jobs share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qops_batsim.analysis.results.allocations import Stays
from qops_batsim.analysis.results.rounding import tolerance
from qops_batsim.analysis.results.tables import Booleans
from qops_batsim.analysis.verify.rule import WORKLOAD, Subject, Violation, rule
from qops_batsim.analysis.verify.sharing import stays_by_host

DEDICATED = "dedicated"
"""The class of service of jobs that are alone on their hosts."""


@rule(WORKLOAD)
def dedicated_alone(subject: Subject) -> Iterator[Violation]:
    """A job of class dedicated shares no host while it runs."""
    dedicated = _dedicated(subject)
    if not dedicated.any():
        return
    seen: set[frozenset[int]] = set()
    for stays in stays_by_host(subject.result).of_each_host():
        for place in np.flatnonzero(dedicated[stays.rows]).tolist():
            for other in _overlapping(stays, place):
                pair = (int(stays.rows[place]), int(stays.rows[other]))
                if frozenset(pair) in seen:
                    continue  # the same two jobs, on a further host
                seen.add(frozenset(pair))
                one, two = map(subject.result.id, pair)
                date, host = float(stays.start[[place, other]].max()), int(stays.hosts[place])
                said = (
                    f"job {one!r} is to be alone on its hosts, but shares host {host} with "
                    f"job {two!r} from {date:.6f} s on"
                )
                yield Violation(jobs=(one, two), host=host, time=date, message=said)


def _overlapping(stays: Stays, place: int) -> list[int]:
    """Return the stays on a host at the same time as one of them."""
    _, _, start, finish = stays
    begin, end = np.full_like(start, start[place]), np.full_like(finish, finish[place])
    together: Booleans = (start < end - tolerance(start, end)) & (
        finish > begin + tolerance(finish, begin)
    )
    together[place] = False
    return np.flatnonzero(together).tolist()


def _dedicated(subject: Subject) -> Booleans:
    """Tell which jobs of the run are of class dedicated, what goes on of them included."""
    identities = subject.identities
    dedicated = np.zeros(len(identities), np.bool_)
    begin = 0
    for columns in subject.columns:
        for number, request in enumerate(columns.requests or (), begin):
            dedicated[number] = request is not None and request.service_class == DEDICATED
        begin += len(columns.ids)
    return dedicated[identities.owners]
