"""Finding schedulers by name, and reading their options.

Whatever is unknown, cannot be loaded or is out of range is an ``InputError``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import msgspec

from qops_batsim.core.options import SchedulerOptions
from qops_batsim.core.scheduler import Scheduler
from qops_batsim.data_problems import problem
from qops_batsim.errors import InputError, did_you_mean, shown
from qops_batsim.limits import MAX_WHOLE_NUMBER
from qops_batsim.renamed import successor
from qops_batsim.scheduling.interface import InterfaceError, scheduler_problem
from qops_batsim.scheduling.plugins import is_in_file, object_in_file, remember
from qops_batsim.scheduling.port import SchedulerModule

GROUP = "qops_batsim.schedulers"
"""Entry-point group in which packages register their schedulers."""

AnyScheduler = str | type[Scheduler] | Scheduler | SchedulerModule
"""A registered name, ``FILE.py:CLASS``, a class, or a scheduler that is ready."""


def scheduler_names() -> list[str]:
    """Return the names of all registered schedulers, of this package and other installed ones."""
    return sorted(_registered())


def scheduler_class(name: str) -> type[Scheduler]:
    """Return the scheduler class of a registered name or of ``FILE.py:CLASS``."""
    found, where = (object_in_file(name), name) if is_in_file(name) else _load(name)
    if not (isinstance(found, type) and issubclass(found, Scheduler)):
        raise InputError(
            f"scheduler {name!r}: {where} is not a Scheduler; a subclass of qops_batsim.Scheduler "
            "is expected"
        )
    remember(found)
    return found


def _load(name: str) -> tuple[object, str]:
    registered = _registered()
    if name not in registered:
        told = successor(f"scheduler {name}")
        hint = f"; in its place: {told}" if told else did_you_mean(name, registered)
        raise InputError(f"unknown scheduler {name!r}{hint}")
    entry = registered[name]
    try:
        return entry.load(), entry.value
    except Exception as error:
        raise InputError(
            f"scheduler {name!r}: {entry.value} cannot be loaded ({type(error).__name__}: {error})"
        ) from error


def registered_name(kind: type[Scheduler]) -> str | None:
    """Return the name under which a scheduler class is registered, None if it is not."""
    value = f"{kind.__module__}:{kind.__qualname__}"
    return next((name for name, entry in _registered().items() if entry.value == value), None)


def make_scheduler(
    scheduler: AnyScheduler,
    settings: Mapping[str, Any] | None = None,
) -> SchedulerModule:
    """Return a scheduler, made from its name or class with the options ``settings``, ready for an
    engine.

    Parameters
    ----------
    scheduler
        A registered name, ``FILE.py:CLASS``, a class, or a scheduler that is ready, which
        takes no settings.
    settings
        Options by name; texts are converted to the option's type.
    """
    if isinstance(scheduler, (Scheduler, SchedulerModule)):
        if settings:
            raise InputError(
                f"options are given for a {type(scheduler).__name__} object, which has its options "
                "already; give its class or its name together with options"
            )
        return _checked(scheduler) if isinstance(scheduler, Scheduler) else scheduler
    if isinstance(scheduler, str):
        kind, name = scheduler_class(scheduler), scheduler
    elif isinstance(scheduler, type) and issubclass(scheduler, Scheduler):
        kind, name = scheduler, registered_name(scheduler) or scheduler.__name__
    else:
        raise InputError(
            f"scheduler is {scheduler!r}; a registered name, FILE.py:CLASS, a subclass of "
            "Scheduler or an object of one is expected"
        )
    return _checked(kind(read_options(name, kind, settings or {})))


def _checked(made: Scheduler) -> SchedulerModule:
    """Return a scheduler ready for an engine; InterfaceError if its class has wrong or no hooks."""
    told = scheduler_problem(made)
    if told is not None:
        raise InterfaceError(told)
    return SchedulerModule(made)


def read_options(name: str, kind: type[Scheduler], settings: Mapping[str, Any]) -> SchedulerOptions:
    """Return a scheduler's options from settings by name; InputError if a name or a value
    is wrong.
    """
    known = list(kind.Options.__struct_encode_fields__)
    for option in settings:
        if option not in known:
            hint = did_you_mean(option, known) if known else " (it has none)"
            raise InputError(f"scheduler {name!r} has no option {option!r}{hint}")
    try:
        options = msgspec.convert(dict(settings), kind.Options, strict=False)
    except msgspec.ValidationError as error:
        told = problem(error, dict(settings), kind.Options, noun="option")
        raise InputError(f"scheduler {name!r}: {told}") from None
    for option in settings:
        number: object = getattr(options, option, None)
        # Compiled code has whole numbers of 64 bits.
        if isinstance(number, int) and abs(number) > MAX_WHOLE_NUMBER:
            raise InputError(
                f"scheduler {name!r}: option {option} is {shown(number)}; a whole number up to "
                f"{MAX_WHOLE_NUMBER} is expected"
            )
    return options


def parse_settings(assignments: Iterable[str]) -> dict[str, Any]:
    """Return options by name from texts ``NAME=VALUE``; a value that is not JSON is a text."""
    settings: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals or not name:
            raise InputError(f"option {assignment!r}: NAME=VALUE is expected")
        if name in settings:
            raise InputError(f"option {name!r} is given twice; once is expected")
        try:
            settings[name] = json.loads(text)
        except (ValueError, RecursionError):
            # No JSON: a text; whether it is one that the option accepts is checked later.
            settings[name] = text.strip()
    return settings


@cache
def _registered() -> Mapping[str, EntryPoint]:
    # All installed packages are looked through, which would take longer than a small simulation.
    return {entry.name: entry for entry in entry_points(group=GROUP)}
