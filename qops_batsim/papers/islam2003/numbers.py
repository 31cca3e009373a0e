"""Figures 4 to 58 of Islam et al. (2003), and the numbers that its text tells; curves only else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

Kind = Literal["admittance", "utilization", "load", "achieved", "relaxation"]
Log = Literal["CTC", "SDSC"]
Method = Literal["duplication", "expansion"]
Setting = tuple[float, float]
"""Stringency factor S, and share of the jobs with a deadline of their user."""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What a figure shows.

    Unadmitted jobs and processor-seconds (``admittance``), or utilization, against load; response
    time and slowdown of the non-deadline jobs against load (``load``), against utilization
    (``achieved``) or, of QoPS with several relaxation factors R, against load (``relaxation``).
    Utilization has a panel for each of two settings, all others have two quantities of one.
    """

    number: int
    kind: Kind
    log: Log
    method: Method
    settings: tuple[Setting, ...]

    @property
    def mixed(self) -> bool:
        """Whether some jobs have no deadline of their user, so that there are artificial ones."""
        return any(share < 1 for _, share in self.settings)


_TRACES: tuple[tuple[Log, Method], ...] = (
    ("CTC", "duplication"),
    ("SDSC", "duplication"),
    ("CTC", "expansion"),
)
_STRINGENCIES = (0.2, 0.5)
_MIXED: tuple[tuple[Kind, tuple[float, float]], ...] = (
    ("admittance", (0.8, 0.2)),
    ("load", (0.2, 0.8)),
    ("utilization", (0.8, 0.2)),
    ("achieved", (0.2, 0.8)),
    ("relaxation", (0.2, 0.8)),
)
"""Kinds of the figures with mixed jobs, with the shares in their order."""


def _captions() -> Iterator[tuple[Kind, Log, Method, tuple[Setting, ...]]]:
    """Yield kind, log, method and settings of each figure, as the captions say."""
    for trace in _TRACES:
        for stringency in _STRINGENCIES:
            yield "admittance", *trace, ((stringency, 1.0),)
        yield "utilization", *trace, tuple((each, 1.0) for each in _STRINGENCIES)
    for kind, shares in _MIXED:
        for trace in _TRACES[:1] if kind == "relaxation" else _TRACES:
            if kind == "utilization":
                for stringency in _STRINGENCIES:
                    yield kind, *trace, tuple((stringency, share) for share in shares)
                continue
            for share in shares:
                for stringency in _STRINGENCIES:
                    yield kind, *trace, ((stringency, share),)


FIGURES = [
    Shown(number=number, kind=kind, log=log, method=method, settings=settings)
    for number, (kind, log, method, settings) in enumerate(_captions(), 4)
]
"""What each figure shows, from the first to the last."""

LOADS = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6)
"""Section 4.2, and the axes of the talk's pictures."""

JOBS = 5000
"""Of each log (section 4.1)."""

RELAXATIONS = (2.0, 5.0, 10.0)
"""R (section 4.2)."""
