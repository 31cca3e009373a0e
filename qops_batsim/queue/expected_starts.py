"""File of when a resource manager itself has expected its waiting jobs to start.

A line of JSON for each look: its date, and the jobs of which something else was expected than at
the look before; dates are seconds since 1970, null where nothing was expected.

    {"date":1780000000.0,"starts":{"4711":1780003600.0,"4712_3":null}}
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

import msgspec

from qops_batsim.errors import InputError
from qops_batsim.files import decoded, read_bytes

LATEST = 600.0
"""How long what was expected at a look counts, if there is no later look (seconds)."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What Slurm answered when it was asked for its expected starts: the jobs whose start changed
    since the question before (seconds since 1970, None for no start).
    """

    date: float
    starts: dict[str, float | None]


_looks = msgspec.json.Decoder(Look)


class ExpectedStarts:
    """The starts that Slurm itself expected for waiting jobs, read from a file, with the dates at
    which it was asked.

    Parameters
    ----------
    path
        File of the looks; a last line that was cut off is left out.
    """

    def __init__(self, path: Path) -> None:
        self._looks: list[float] = []
        self._of: dict[str, tuple[list[float], list[float | None]]] = {}
        self._components: dict[str, set[str]] = {}
        lines = read_bytes(path, what="recorded starts").split(b"\n")[:-1]
        for number, line in enumerate(lines, 1):
            where = f"{path}, line {number}"
            look = decoded(line, _looks, where, "a line that `live record` wrote")
            if self._looks and look.date < self._looks[-1]:
                raise InputError(
                    f"{where}: date is {look.date:.0f}, before the date of the line above, "
                    f"{self._looks[-1]:.0f}; lines in the order of their dates are expected"
                )
            self._looks.append(look.date)

            for job, start in look.starts.items():
                whole, is_component, _ = job.partition("+")
                if is_component:
                    self._components.setdefault(whole, set()).add(job)
                dates, starts = self._of.setdefault(job, ([], []))
                dates.append(look.date)
                starts.append(start)
        if not self._of:
            raise InputError(f"{path}: names no job; a file that `live record` wrote is expected")

    @property
    def span(self) -> tuple[float, float]:
        """First and last date at which Slurm was asked (seconds since 1970)."""
        return self._looks[0], self._looks[-1]

    def at(self, job: str, date: float) -> float | None:
        """Return the start that Slurm expected for a job at a date (both in seconds since 1970).

        None if nothing was, or nobody looked at that time. One that has passed is now. A
        heterogeneous job starts with the last of its components (``4711+1``).
        """
        if job in self._components:
            parts = [self.at(part, date) for part in self._components[job]]
            known = [start for start in parts if start is not None]
            return max(known) if len(known) == len(parts) else None
        last = bisect_right(self._looks, date)
        if not last or date - self._looks[last - 1] > LATEST or job not in self._of:
            return None
        dates, starts = self._of[job]
        place = bisect_right(dates, date)
        start = starts[place - 1] if place else None
        return None if start is None else max(start, date)
