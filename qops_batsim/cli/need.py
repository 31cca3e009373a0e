"""Options of ``qops-batsim workload deadlines --by need``, and the choices that they stand for."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, time
from typing import TYPE_CHECKING, Annotated, Any

from qops_batsim.cli.inputs import duration
from qops_batsim.cli.options import manual
from qops_batsim.errors import InputError, shown

if TYPE_CHECKING:
    from qops_batsim.dates import Calendar
    from qops_batsim.workload.need import FactorClass, NeedChoices, NeedMix

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
    --begins DATE: Date of second 0 of the workload (1996-06-26, 1996-06-26T08:00). Default: its own
        calendar.
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

_TIME_OF_DAY = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


def need_choices(texts: dict[str, str | None], others: dict[str, Any]) -> NeedChoices:
    """Return the choices that options stand for: those above as texts, and ``others`` by field."""
    from qops_batsim.workload.need import NeedChoices

    read: dict[str, Callable[[str], Any]] = {
        "mix": _mix,
        "factors": _factors,
        "at": _times,
        "days": _words,
        "slack": _slack,
    }
    given = {name: texts[name] for name in read}
    found = {name: read[name](text) for name, text in given.items() if text is not None}
    calendar = _calendar(texts["begins"], texts["time_zone"])
    choices = NeedChoices(**found, **others, calendar=calendar)
    choices.check()
    return choices


def _words(text: str) -> tuple[str, ...]:
    return tuple(each.strip().lower() for each in text.split(",") if each.strip())


def _mix(text: str) -> NeedMix:
    from qops_batsim.workload.need import NeedMix

    shares: dict[str, float] = {}
    for each in _words(text):
        kind, _, share = each.partition("=")
        if kind not in NeedMix.__struct_fields__ or kind in shares:
            raise _unread("--mix", each, "factor=0.5,hours=0.3,slack=0.2, each once")
        shares[kind] = _number("--mix", share)
    return NeedMix(**shares)


def _factors(text: str) -> tuple[FactorClass, ...]:
    from qops_batsim.workload.need import FactorClass

    found = []
    for each in _words(text):
        parts = each.split(":")
        if len(parts) not in (2, 3):
            raise _unread("--factors", each, "UP_TO:MEDIAN:SPREAD, the last without UP_TO,")
        median, spread = (_number("--factors", part) for part in parts[-2:])
        up_to = duration(parts[0], "--factors") if len(parts) == 3 else None
        found.append(FactorClass(up_to, median, spread))
    return tuple(found)


def _times(text: str) -> tuple[time, ...]:
    found = []
    for each in _words(text):
        match = _TIME_OF_DAY.fullmatch(each)
        if match is None:
            raise _unread("--at", each, "times of day as 9:00,17:30")
        found.append(time(int(match[1]), int(match[2])))
    return tuple(found)


def _slack(text: str) -> float:
    return duration(text, "--slack", zero=False)


def _calendar(begins: str | None, time_zone: str | None) -> Calendar | None:
    from qops_batsim.dates import Calendar
    from qops_batsim.workload.model import plain_number

    if begins is None:
        if time_zone is not None:
            raise InputError(f"--time-zone is {shown(time_zone)}, without the date (--begins)")
        return None
    zone = time_zone or "UTC"
    Calendar(0, zone).check("--time-zone")
    with suppress(ValueError, OverflowError):
        start = Calendar(0, zone).seconds(datetime.fromisoformat(begins))
        return Calendar(plain_number(start), zone)
    raise _unread("--begins", begins, "a date as 1996-06-26 or 1996-06-26T08:00")


def _number(option: str, text: str) -> float:
    with suppress(ValueError):
        return float(text)
    raise _unread(option, text, "a number")


def _unread(option: str, text: str, expected: str) -> InputError:
    verb = "is" if expected.startswith("a ") else "are"
    return InputError(f"{option}: {shown(text)} is not accepted; {expected} {verb} expected")
