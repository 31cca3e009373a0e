"""Finding schedulers by name, and reading their options.

Whatever is unknown, cannot be loaded or is out of range is an ``InputError``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import msgspec

from qops_batsim.code_record import CodeRecord
from qops_batsim.core.options import SchedulerOptions
from qops_batsim.core.scheduler import Scheduler
from qops_batsim.data_problems import problem
from qops_batsim.errors import InputError, InterfaceError, did_you_mean, shown
from qops_batsim.limits import MAX_WHOLE_NUMBER
from qops_batsim.schedulers.loading.code_loading import code_of_class
from qops_batsim.schedulers.loading.distributions import normal_name
from qops_batsim.schedulers.loading.interface import scheduler_problem
from qops_batsim.schedulers.loading.plugins import (
    code_of,
    is_in_file,
    object_in_file,
    object_of_package,
    remember,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_OURS = __name__.partition(".")[0]

OURS = {
    "fcfs": "qops_batsim.schedulers.fcfs:Fcfs",
    "easy": "qops_batsim.schedulers.easy:Easy",
    "conservative": "qops_batsim.schedulers.conservative:Conservative",
    "qops": "qops_batsim.schedulers.qops:Qops",
    "fqops": "qops_batsim.schedulers.fqops:Fqops",
    "msb": "qops_batsim.schedulers.msb:Msb",
    "mrt": "qops_batsim.schedulers.mrt:Mrt",
    "slack": "qops_batsim.schedulers.slack:Slack",
    "nqs": "qops_batsim.schedulers.nqs:Nqs",
    "priced-queues": "qops_batsim.schedulers.priced_queues:PricedQueues",
    "slurm": "qops_batsim.schedulers.slurm.slurm_scheduler:Slurm",
    "aroma": "qops_batsim.schedulers.aroma.aroma_scheduler:Aroma",
}
"""Our schedulers: to look through all installed packages takes as long as a small simulation."""

GROUP = "qops_batsim.schedulers"
"""Entry-point group in which packages register their schedulers."""


def scheduler_names() -> list[str]:
    """Return the names of all registered schedulers, of this package and other installed ones."""
    return sorted({*OURS, *_registered()})


def scheduler_class(name: str) -> type[Scheduler]:
    """Return the scheduler class of a registered name or of ``FILE.py:CLASS``."""
    if name in _given:
        return _given[name]
    found, where = (object_in_file(name), name) if is_in_file(name) else _load(name)
    if not (isinstance(found, type) and issubclass(found, Scheduler)):
        raise InputError(
            f"scheduler {name!r}: {where} is not a Scheduler; a subclass of qops_batsim.Scheduler "
            "is expected"
        )
    remember(found)
    return found


def _load(name: str) -> tuple[object, str]:
    if name in OURS:
        return resolve_name(OURS[name]), OURS[name]
    registered = _registered()
    if name not in registered:
        raise InputError(f"unknown scheduler {name!r}{did_you_mean(name, scheduler_names())}")
    entry = registered[name]
    try:
        return object_of_package(_target(entry), _distribution(entry)), entry.value
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"scheduler {name!r}: {entry.value} cannot be loaded ({type(error).__name__}: {error})"
        ) from error


_given: dict[str, type[Scheduler]] = {}
"""Classes that this process was given in place of names, by what stands for them."""


def stands_for(kind: type[Scheduler], taken: Mapping[str, type[Scheduler]] | None = None) -> str:
    """Return what stands for a class where the name of a scheduler is expected, in this process.

    For a class of this package that is its registered name. ``taken`` are those of other classes
    of the same comparison.
    """
    if kind.__module__.partition(".")[0] == _OURS:
        name = registered_name(kind)
        if name is not None:
            return name
    text = f"{kind.__module__}:{kind.__qualname__}"
    number = 1
    while (taken or {}).get(text, kind) is not kind:
        number += 1
        text = f"{kind.__module__}:{kind.__qualname__} ({number})"
    _given[text] = kind
    return text


def given_class(name: str) -> type[Scheduler] | None:
    """Return the class that a text of :func:`stands_for` stands for; None for other names."""
    return _given.get(name)


def _target(entry: EntryPoint) -> str:
    """Return the ``MODULE:NAME`` of an entry point, without what else its value may hold."""
    return f"{entry.module}:{entry.attr}"


def _distribution(entry: EntryPoint) -> str:
    """Return the name of the distribution that has an entry point, "" if that is not known."""
    return "" if entry.dist is None else normal_name(entry.dist.name)


def code_of_scheduler(name: str) -> CodeRecord | None:
    """Return what the code of a scheduler consists of, as it was loaded; None for ours, whose
    version is that of this package.
    """
    if name in _given:
        return code_of_class(_given[name])
    if is_in_file(name):
        return code_of(name)
    entry = None if name in OURS else _registered().get(name)
    return None if entry is None else code_of(_target(entry))


def code_of_given(given: object, made: Scheduler) -> CodeRecord | None:
    """Return what the code of a scheduler consists of that was given by a name, as a class or as an
    object; None for ours.
    """
    if isinstance(given, str):
        return code_of_scheduler(given)
    kind = type(made)
    if kind.__module__.partition(".")[0] == _OURS:
        return None
    entry = _registered().get(registered_name(kind) or "")
    return code_of_class(kind, "" if entry is None else _distribution(entry))


def check_code(name: str, recorded: CodeRecord | None) -> None:
    """Raise an InputError if modules of a scheduler that is loaded are not those that a run
    recorded.
    """
    if recorded is None:
        return
    changed = recorded.changed_modules(code_of_scheduler(name) or CodeRecord())
    if changed:
        raise InputError(
            f"scheduler {name!r}: {', '.join(changed)}, which it imports, has changed since the "
            "run, so its decisions may differ; restore the file as it was then, or run the "
            "simulation again"
        )


def registered_name(kind: type[Scheduler]) -> str | None:
    """Return the name under which a scheduler class is registered, None if it is not."""
    value = f"{kind.__module__}:{kind.__qualname__}"
    if kind.__module__.partition(".")[0] == _OURS:
        return next((name for name, place in OURS.items() if place == value), None)
    return next((name for name, entry in _registered().items() if entry.value == value), None)


def scheduler_object(
    scheduler: str | type[Scheduler] | Scheduler,
    settings: Mapping[str, Any] | None = None,
) -> Scheduler:
    """Return a scheduler, made from its name or class with the options ``settings``.

    Parameters
    ----------
    scheduler
        A registered name, ``FILE.py:CLASS``, a class, or a scheduler that is ready, which
        takes no settings.
    settings
        Options by name; texts are converted to the option's type.
    """
    if isinstance(scheduler, Scheduler):
        if settings:
            raise options_given(scheduler)
        return _checked(scheduler)

    if isinstance(scheduler, str):
        kind = scheduler_class(scheduler)
        name = scheduler
    elif isinstance(scheduler, type) and issubclass(scheduler, Scheduler):
        kind = scheduler
        name = registered_name(scheduler) or scheduler.__name__
    else:
        raise InputError(
            f"scheduler is {scheduler!r}; a registered name, FILE.py:CLASS, a subclass of "
            "Scheduler or an object of one is expected"
        )

    return _checked(kind(read_options(name, kind, settings or {})))


def options_given(scheduler: object) -> InputError:
    """Return the error of options that are given for a scheduler that is ready."""
    return InputError(
        f"options are given for a {type(scheduler).__name__} object, which has its options "
        "already; give its class or its name together with options"
    )


def _checked(made: Scheduler) -> Scheduler:
    """Return a scheduler; InterfaceError if its class has wrong or no hooks."""
    told = scheduler_problem(made)
    if told is not None:
        raise InterfaceError(told)
    return made


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


def parse_scheduler(text: str) -> tuple[str, dict[str, Any]]:
    """Parse a scheduler with its options, as ``qops:k_factor=1``; return its name and these.

    >>> parse_scheduler("mine.py:Mine:k_factor=1,order=fcfs")
    ('mine.py:Mine', {'k_factor': 1, 'order': 'fcfs'})
    """
    # A value may hold colons, as a table does: options begin at the first that NAME= follows.
    begin = re.search(r":(?=\s*\w+\s*=)", text)
    if begin is None or not begin.start():
        return text, {}
    # A value may hold commas, as a list does.
    assignments = re.split(r",(?=\s*\w+\s*=)", text[begin.end() :])
    return text[: begin.start()], parse_settings(assignments)


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
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}
