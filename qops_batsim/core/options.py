"""Options of schedulers: typed fields with defaults, units and accepted values."""

from __future__ import annotations

from typing import Annotated

import msgspec

from qops_batsim.errors import InputError, shown
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
    annotation: msgspec.Meta = msgspec.Meta(  # type: ignore[call-overload]
        **bounds, description=description, extra={"unit": "s"}
    )
    return annotation


def option_error(scheduler: str, option: str, value: object, accepted: str) -> InputError:
    """Return the error of an option's value that its type allows and the scheduler does not."""
    return InputError(f"scheduler {scheduler!r}: option {option} is {shown(value)}; {accepted}")


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
