"""Options of ``qops-batsim workload deadlines --by need``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, time
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from qops_batsim.cli.command_inputs import duration
from qops_batsim.cli.common_options import manual
from qops_batsim.errors import InputError, require_one_of, shown

if TYPE_CHECKING:
    from qops_batsim.dates import Calendar
    from qops_batsim.workload.need import FactorClass, NeedChoices, NeedMix

ValueT = TypeVar("ValueT")

_of_need = manual(
    """
    [By need]
    --mix SHARES: Shares of the needs: a factor of the time that the user expects, working hours, a
        fixed slack. Default: factor=0.5,hours=0.3,slack=0.2.
    --factors CLASSES: UP_TO:MEDIAN:SPREAD of each class of jobs: those up to this time wait that
        time x a lognormal number of this median, and this standard deviation of the logarithm. The
        last class has no UP_TO. Default: 10m:5:1,1h:3:1,8h:1.5:1,0.75:1.
    --at TIMES: Times of day when results are looked for. Default: 9:00,13:00,17:00.
    --days DAYS: Working days. Default: mon,tue,wed,thu,fri.
    --slack TIME: Fixed slack. Default: 20m.
    --begins DATE: Date of second 0 of a workload without calendar (1996-06-26,
        1996-06-26T08:00).
    --time-zone NAME: Time zone of --begins (Europe/Stockholm). Default: UTC.
    """
)
Mix = Annotated[str | None, _of_need("--mix", show_default=False)]
Factors = Annotated[str | None, _of_need("--factors", show_default=False)]
At = Annotated[str | None, _of_need("--at", show_default=False)]
Days = Annotated[str | None, _of_need("--days", show_default=False)]
Slack = Annotated[str | None, _of_need("--slack", show_default=False)]
Begins = Annotated[str | None, _of_need("--begins", show_default=False)]
TimeZone = Annotated[str | None, _of_need("--time-zone", show_default=False)]


def need_choices(texts: dict[str, str | None], others: dict[str, Any]) -> NeedChoices:
    """Parse the options of ``--by need`` (``texts``) and add ``others``; InputError if one is
    wrong.
    """
    from qops_batsim.workload.need import NeedChoices

    read: dict[str, Callable[[str], Any]] = {
        "mix": _mix,
        "factors": lambda text: tuple(map(_factor, _words(text))),
        "at": lambda text: tuple(map(_time, _words(text))),
        "days": _words,
        "slack": lambda text: duration(text, "--slack"),
    }
    given = {name: parse(text) for name, parse in read.items() if (text := texts[name]) is not None}
    calendar = _calendar(texts["begins"], texts["time_zone"])
    choices = NeedChoices(**given, **others, calendar=calendar)
    choices.check()
    return choices


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip().lower() for word in text.split(",") if word.strip())


def _mix(text: str) -> NeedMix:
    from qops_batsim.workload.need import NeedMix

    shares = {}
    for word in _words(text):
        kind, _, share = word.partition("=")
        require_one_of("--mix", kind, NeedMix.__struct_fields__)
        shares[kind] = _number("--mix", share)
    return NeedMix(**shares)


def _factor(text: str) -> FactorClass:
    from qops_batsim.workload.need import FactorClass

    parts = text.split(":")
    if len(parts) not in (2, 3):
        raise InputError(
            f"--factors: {shown(text)} is not accepted; UP_TO:MEDIAN:SPREAD, as 10m:5:1, is "
            "expected (the last class without UP_TO)"
        )
    border = duration(parts[0], "--factors") if len(parts) == 3 else None
    median, spread = (_number("--factors", number) for number in parts[-2:])
    return FactorClass(border, median, spread)


def _time(text: str) -> time:
    from qops_batsim.workload.need import time_of_day

    return _read("--at", text, time_of_day, "a time of day as 9:00")


def _calendar(begins: str | None, time_zone: str | None) -> Calendar | None:
    from qops_batsim.dates import Calendar
    from qops_batsim.workload.workload_model import plain_number

    if begins is None and time_zone is not None:
        raise InputError(
            f"--time-zone is {shown(time_zone)}, but --begins, the date of second 0, is not "
            "given; both are expected"
        )
    if begins is None:
        return None
    utc = Calendar(0, time_zone or "UTC")
    utc.check("--time-zone")
    expected = "a date as 1996-06-26 or 1996-06-26T08:00"
    date = _read("--begins", begins, datetime.fromisoformat, expected)
    return utc.later(plain_number(utc.seconds(date)))


def _number(option: str, text: str) -> float:
    return _read(option, text, float, "a number")


def _read(option: str, text: str, convert: Callable[[str], ValueT], expected: str) -> ValueT:
    """Parse the text of an option by ``convert``; the InputError says what is ``expected``."""
    with suppress(ValueError):
        return convert(text)
    raise InputError(f"{option}: {shown(text)} is not accepted; {expected} is expected")
