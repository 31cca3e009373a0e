"""Finding schedulers by name and reading their options."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from qops_batsim.errors import InputError, did_you_mean, shown
from qops_batsim.scheduling.module import DecisionModule, SchedulerOptions

GROUP = "qops_batsim.schedulers"
"""Entry-point group in which packages register their decision modules."""


def scheduler_names() -> list[str]:
    """Return the names of all registered schedulers, ours and other packages'."""
    return sorted(_registered())


def scheduler_class(name: str) -> type[DecisionModule]:
    """Return the decision module registered under a name.

    Raises
    ------
    InputError
        No package registers the name, or what it registers is no decision module.
    """
    registered = _registered()
    if name not in registered:
        raise InputError(f"unknown scheduler {name!r}{did_you_mean(name, registered)}")
    entry = registered[name]
    try:
        found = entry.load()
    except (ImportError, AttributeError) as error:
        raise InputError(f"scheduler {name!r}: {entry.value} cannot be loaded ({error})") from error
    if not (isinstance(found, type) and issubclass(found, DecisionModule)):
        raise InputError(
            f"scheduler {name!r}: {entry.value} is not a DecisionModule; a subclass is expected"
        )
    return found


def make_scheduler(name: str, settings: Mapping[str, Any] | None = None) -> DecisionModule:
    """Return a new decision module with the given options.

    Parameters
    ----------
    name
        Registered name.
    settings
        Options by name; texts are converted to the option's type.

    Raises
    ------
    InputError
        Unknown scheduler or option, or a value out of range.
    """
    kind = scheduler_class(name)
    return kind(read_options(name, kind, settings or {}))


def read_options(
    name: str, kind: type[DecisionModule], settings: Mapping[str, Any]
) -> SchedulerOptions:
    """Check and convert a scheduler's options; errors as :func:`make_scheduler`."""
    known = [field.encode_name for field in msgspec.structs.fields(kind.Options)]
    for option in settings:
        if option not in known:
            hint = did_you_mean(option, known) if known else " (it has none)"
            raise InputError(f"scheduler {name!r} has no option {option!r}{hint}")
    try:
        return msgspec.convert(dict(settings), kind.Options, strict=False)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$.")
        option = where.rstrip("`")
        value = shown(settings.get(option))
        choices = _choices(kind, option)
        raise InputError(
            f"scheduler {name!r}: option {option} is {value}: {message}{choices}"
        ) from None


def _choices(kind: type[DecisionModule], option: str) -> str:
    """Return the values that an option accepts, if they are listed, for a message."""
    hint = get_type_hints(kind.Options).get(option)
    accepted = ", ".join(str(choice) for choice in get_args(hint))
    return f"; accepted: {accepted}" if get_origin(hint) is Literal else ""


def parse_settings(assignments: Iterable[str]) -> dict[str, Any]:
    """Read ``name=value`` texts; a value that is JSON is taken as such, else as text.

    Raises
    ------
    InputError
        A text has no ``=``, or a name is given twice.
    """
    settings: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals or not name:
            raise InputError(f"option {assignment!r}: NAME=VALUE is expected")
        if name in settings:
            raise InputError(f"option {name!r} is given twice")
        try:
            settings[name] = json.loads(text)
        except (ValueError, RecursionError):
            # No JSON: a text; whether it is one that the option accepts is checked later.
            settings[name] = text.strip()
    return settings


def _registered() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}
