"""What a run is given: objects, paths of files, or names of shipped ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from qops_batsim.engine.options import ExternalEvent, in_order, read_events_file
from qops_batsim.errors import InputError
from qops_batsim.platform.model import Platform
from qops_batsim.platform.simgrid_read import read_platform
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.registry import registered_name
from qops_batsim.shipped import (
    DEFAULT_DEADLINE_WORKLOAD,
    DEFAULT_SHARING_PLATFORM,
    DEFAULT_SHARING_WORKLOAD,
    DEFAULT_WORKLOAD,
    find_input,
    shipped_directory,
)
from qops_batsim.workload.batsim_json import read_workload
from qops_batsim.workload.model import Workload

AnyScheduler = str | type[DecisionModule] | DecisionModule
"""A registered name, ``FILE.py:CLASS``, a class, or a module that is ready."""

AnyWorkload = Workload | str | PathLike[str]
"""A workload, the path of its file, or the name of a shipped one."""

AnyPlatform = Platform | str | PathLike[str]
"""A platform, likewise."""

AnyEvents = Sequence[ExternalEvent] | str | PathLike[str]
"""External events, or the path of their file."""


def load_workload(given: AnyWorkload) -> Workload:
    """Return a workload itself, or read its file."""
    if isinstance(given, Workload):
        return given
    return read_workload(_checked(given, "workload"))


def load_platform(given: AnyPlatform | None, workload: Workload) -> Platform:
    """Return a platform itself, or read its file; None: as many equal hosts as the jobs expect."""
    if given is None:
        from qops_batsim.platform.generate import make_cluster

        return make_cluster(workload.processors)
    if isinstance(given, Platform):
        return given
    return read_platform(_checked(given, "platform"))


def load_events(given: AnyEvents | None) -> tuple[tuple[ExternalEvent, ...] | None, str | None]:
    """Return external events themselves, or read their file; and the digest of that."""
    if given is None:
        return None, None
    if isinstance(given, (str, PathLike)):
        return read_events_file(given)
    return in_order(given), None


def _checked(given: object, what: str) -> Path:
    if not isinstance(given, (str, PathLike)):
        raise InputError(
            f"{what} of type {type(given).__name__}; a {what.capitalize()}, the path of a file or "
            "the name of a shipped one is expected"
        )
    return Path(given)


def default_inputs(module: DecisionModule) -> tuple[str, str | None]:
    """Return the names of the shipped workload and platform that show what a scheduler does."""
    if module.needs.compute_sharing:
        return DEFAULT_SHARING_WORKLOAD, DEFAULT_SHARING_PLATFORM
    return (DEFAULT_DEADLINE_WORKLOAD if module.needs_deadlines else DEFAULT_WORKLOAD), None


def names_of(
    module: DecisionModule,
    scheduler: AnyScheduler,
    workload: AnyWorkload,
    platform: AnyPlatform | None,
    events: AnyEvents | None = None,
) -> tuple[dict[str, str | None], list[str]]:
    """Return what a run's description calls what it was given, and which are Python objects.

    Names are as given; an object is called what it was read from, but never by the path at
    which the package lies.
    """
    name = scheduler if isinstance(scheduler, str) else registered_name(type(module))
    names: dict[str, str | None] = {
        "scheduler": name or type(module).__name__,
        "workload": _name(workload, "workloads"),
        "platform": None if platform is None else _name(platform, "platforms"),
    }
    objects = {
        "scheduler": name is None,
        "workload": isinstance(workload, Workload),
        "platform": isinstance(platform, Platform),
    }
    if events is not None:
        names["events"] = os.fspath(events) if isinstance(events, (str, PathLike)) else None
        objects["events"] = names["events"] is None
    return names, [what for what, is_object in objects.items() if is_object]


def _name(given: AnyWorkload | AnyPlatform, kind: str) -> str:
    if isinstance(given, (str, PathLike)):
        return os.fspath(given)
    source = Path(given.source)
    return source.stem if source.parent == shipped_directory(kind) else given.source


def as_file(given: object, kind: str) -> Path | None:
    """Return the file that was given; None for an object, and for a pipe, which has been read."""
    path = find_input(Path(given), kind) if isinstance(given, (str, PathLike)) else None
    return path if path is not None and path.is_file() else None
