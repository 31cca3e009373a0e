"""How much waits in a queue, and whether that is unlike all that a history has seen."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from qops_batsim.queue.past import FIELDS, Past

UNLIKE = 0.03
"""At most this share of moments is called unlike those before, if all are of one kind."""


class QueueLoad(msgspec.Struct, frozen=True, kw_only=True):
    """How much waits: jobs, the time the machine needs for them if they use their limits
    (``hours``), and that for the jobs of the user with most of it.
    """

    jobs: float
    hours: float
    hours_of_one: float


WHAT = {
    "jobs": "{value:,.0f} jobs wait",
    "hours": "the machine needs {value:,.1f} h for what waits",
    "hours_of_one": "it needs {value:,.1f} h for what waits of one user",
}
"""What is said of each field of a :class:`QueueLoad`."""


def load_of(past: Past, waiting: np.ndarray) -> QueueLoad:
    """Return how much waits in a queue; ``waiting`` are its jobs' rows of the past. O(jobs)."""
    work = past.widths[waiting] * past.limits[waiting] / past.processors / 3600.0
    users = past.names[waiting, FIELDS.index("user")].astype(str)
    of_user = np.bincount(np.unique(users, return_inverse=True)[1], work)
    return QueueLoad(
        jobs=float(len(waiting)),
        hours=float(work.sum()),
        hours_of_one=float(of_user.max(initial=0.0)),
    )


def usual_load(loads: Sequence[QueueLoad]) -> QueueLoad | None:
    """Return the loads above which a queue is unlike the past, of which these are random moments;
    None if they are too few.

    One that is drawn as they were is above one of these with a chance of at most :data:`UNLIKE`:
    each has an equal part of that, and as many of the largest values are allowed for.
    """
    fields = QueueLoad.__struct_fields__
    count = int(UNLIKE / len(fields) * (len(loads) + 1))
    if not count:
        return None
    largest = {name: sorted(getattr(load, name) for load in loads)[-count] for name in fields}
    return QueueLoad(**largest)


def unlike(load: QueueLoad, usual: QueueLoad | None) -> list[str]:
    """Return in words what of a queue is unlike the past; nothing if that is not known."""
    if usual is None:
        return []
    values = msgspec.structs.asdict(load)
    most = msgspec.structs.asdict(usual)
    return [
        f"{text.format(value=values[name])}, at nearly all past moments at most {most[name]:,.1f}"
        for name, text in WHAT.items()
        if values[name] > most[name]
    ]
