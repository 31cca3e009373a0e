"""Options of schedulers: typed fields with defaults, units and accepted values."""

from __future__ import annotations

from typing import Annotated

import msgspec

from qops_batsim.limits import MAX_SECONDS
from qops_batsim.timing import GRACE


class SchedulerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of a scheduler's options: a struct of typed fields, each with a default.

    Document a field with ``Annotated[type, msgspec.Meta(description=...,
    extra={"unit": ...})]``; constraints such as ``ge=0`` go there as well.

    >>> class Patience(SchedulerOptions, frozen=True, kw_only=True):
    ...     seconds: float = 60.0
    >>> Patience(seconds=5.0)
    Patience(seconds=5.0)
    """


def seconds(description: str, **bounds: float) -> msgspec.Meta:
    """Return the annotation of an option whose value is in seconds, for ``Annotated[float, …]``.

    ``bounds`` are the accepted range: ``ge``, ``gt`` and ``le`` of :class:`msgspec.Meta`.
    """
    found: msgspec.Meta = msgspec.Meta(**bounds, description=description, extra={"unit": "s"})  # type: ignore[call-overload]
    return found


Grace = Annotated[
    float,
    seconds(
        "delay up to which late reports of events by the engine change no plan; used once a "
        "report has been late, as on platforms with latencies",
        ge=0,
        le=MAX_SECONDS,
    ),
]
"""Type of the option ``grace`` of all schedulers that plan ahead."""


class PlannerOptions(SchedulerOptions, frozen=True, kw_only=True):
    """Base class of the options of schedulers that plan starts ahead: adds the option ``grace``.

    >>> PlannerOptions().grace
    1.0
    """

    grace: Grace = GRACE
