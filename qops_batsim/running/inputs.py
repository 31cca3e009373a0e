"""Inputs of a run (objects, paths, shipped names), and warnings about them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from qops_batsim.arguments import PATH, Kind, one_of, several
from qops_batsim.core.scheduler import Scheduler
from qops_batsim.engine.engine_options import (
    EngineOptions,
    ExternalEvent,
    events_in_order,
    read_events_file,
)
from qops_batsim.engine.host_states import machine_in_use
from qops_batsim.errors import InputError
from qops_batsim.platform.network import longest_round_trip, unlinked_hosts
from qops_batsim.platform.platform_model import Platform
from qops_batsim.platform.simgrid_read import read_platform
from qops_batsim.protocol.port import AnyScheduler, SchedulerModule
from qops_batsim.schedulers.fqops import FqopsOptions
from qops_batsim.schedulers.registry import registered_name
from qops_batsim.shipped import (
    DEFAULT_DEADLINE_WORKLOAD,
    DEFAULT_SHARING_PLATFORM,
    DEFAULT_SHARING_WORKLOAD,
    DEFAULT_WORKLOAD,
    find_input,
    shipped_directory,
)
from qops_batsim.timing import GRACE, least_grace
from qops_batsim.workload.batsim_json import read_workload
from qops_batsim.workload.deadlines import early_deadlines_warning
from qops_batsim.workload.odd_fields import odd_values
from qops_batsim.workload.workload_model import Workload

AnyWorkload = Workload | str | PathLike[str]
"""A workload, the path of its file, or the name of a shipped one."""

AnyPlatform = Platform | str | PathLike[str]
"""A platform, likewise."""

AnyEvents = Sequence[ExternalEvent] | str | PathLike[str]
"""External events, or the path of their file."""


SCHEDULER = Kind(
    lambda value: isinstance(value, str | type | Scheduler | SchedulerModule),
    "a registered name, FILE.py:CLASS, a subclass of Scheduler or an object of one",
)
_NAMED = "the path of a file or the name of a shipped one"
WORKLOAD = Kind(
    lambda value: isinstance(value, Workload) or PATH.fits(value), f"a Workload, {_NAMED}"
)
PLATFORM = Kind(
    lambda value: isinstance(value, Platform) or PATH.fits(value), f"a Platform, {_NAMED}"
)
EVENTS = PATH | several(one_of(ExternalEvent, words="an external event"), "a list of events")
SETTINGS = Kind(
    lambda value: isinstance(value, Mapping) and all(isinstance(name, str) for name in value),
    "a mapping from the names of options to values",
)
"""Inputs of a run in arguments of public functions."""


def load_workload(given: AnyWorkload) -> Workload:
    """Return a workload, reading it if a path or name is given."""
    if isinstance(given, Workload):
        return given
    return read_workload(_checked(given, "workload"))


def load_platform(given: AnyPlatform | None, workload: Workload) -> Platform:
    """Return a platform, read from its file if a path or name is given.

    For None, it is a cluster of as many equal hosts as the workload has processors.
    """
    if given is None:
        from qops_batsim.platform.equal_hosts import make_cluster

        return make_cluster(workload.processors)
    if isinstance(given, Platform):
        return given
    return read_platform(_checked(given, "platform"))


def load_events(given: AnyEvents | None) -> tuple[tuple[ExternalEvent, ...] | None, str | None]:
    """Return external events, and the SHA-256 of their file if they are read from one."""
    if given is None:
        return None, None
    if isinstance(given, (str, PathLike)):
        return read_events_file(given)
    return events_in_order(given), None


def _checked(given: object, what: str) -> Path:
    if not isinstance(given, (str, PathLike)):
        raise InputError(
            f"{what} of type {type(given).__name__}; a {what.capitalize()}, the path of a file or "
            "the name of a shipped one is expected"
        )
    return Path(given)


def default_inputs(module: SchedulerModule) -> tuple[str, str | None]:
    """Return the names of the shipped workload and platform for a scheduler."""
    if module.needs.compute_sharing:
        return DEFAULT_SHARING_WORKLOAD, DEFAULT_SHARING_PLATFORM
    asks = module.scheduler.needs_deadlines
    return (DEFAULT_DEADLINE_WORKLOAD if asks else DEFAULT_WORKLOAD), None


def names_of(
    module: SchedulerModule,
    scheduler: AnyScheduler,
    workload: AnyWorkload,
    platform: AnyPlatform | None,
    events: AnyEvents | None = None,
) -> tuple[dict[str, str | None], list[str]]:
    """Return the name of each input for ``PREFIX_run.json``, and which are Python objects.

    A name is as the user gave it; that of an object is the file that it was read from. Shipped
    files are named without the path of the package.
    """
    name = scheduler if isinstance(scheduler, str) else registered_name(type(module.scheduler))
    names: dict[str, str | None] = {
        "scheduler": name or type(module.scheduler).__name__,
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
    """Return the path of a given input; None for a Python object, or a pipe, read only once."""
    path = find_input(Path(given), kind) if isinstance(given, (str, PathLike)) else None
    return path if path is not None and path.is_file() else None


def input_warnings(
    module: SchedulerModule, workload: Workload, platform: Platform, engine: EngineOptions
) -> Iterator[str]:
    """Yield warnings about a scheduler, workload and platform that fit together badly."""
    if workload.sha256 is None:  # Of a file this was told when it was read.
        yield from odd_values(workload.columns)
    grace = getattr(module.options, "grace", None)
    if engine.message_delays and isinstance(grace, float) and grace != GRACE:
        round_trip = longest_round_trip(platform)
        least = least_grace(round_trip)
        if round_trip and grace < least:
            yield (
                f"grace is {grace:g} s, but messages take up to {round_trip:g} s there and back on "
                f"this platform: promises may be broken with less than {least:g} s, which it is by "
                "default there"
            )

    computing = None
    if machine_in_use(platform, engine.hosts) is not None:
        computing = _first_with(workload, _computes)
    if computing is not None:
        yield (
            f"job {computing} and its like compute, and slow down jobs that compute on the same "
            "hosts: promises on shared hosts hold for profiles whose length does not depend on "
            "neighbours (delays)"
        )
    if module.scheduler.needs_deadlines:
        yield from _deadline_warnings(module, workload)
    sender = _first_with(workload, _sends, least=2)
    pair = None if sender is None else unlinked_hosts(platform)

    if pair is not None:
        yield (
            f"job {sender} and its like send data, but there is no link between hosts "
            f"{' and '.join(pair)} of {Path(platform.source).name}: that takes no time, whatever "
            "its amount (a <host_link> of each, or a <cluster>, has links)"
        )

    speeds = [host.speed for host in platform.compute_hosts]
    name = Path(workload.source).name
    measured = _measured_speed(workload.provenance)
    if measured is not None and not min(speeds) / 2 <= measured <= 2 * max(speeds):
        nearest = min(speeds) if measured < min(speeds) else max(speeds)
        yield (
            f"the CPU times of {name} are of hosts of {measured:g} flop/s, but those of "
            f"the platform compute {nearest:g} flop/s: tasks take {measured / nearest:.3g} times "
            f"as long (`workload classes --speed {nearest:g}` makes them fit)"
        )


def _sends(profile: Mapping[str, Any]) -> bool:
    return "com" in profile and bool(np.any(profile["com"]))


def _computes(profile: Mapping[str, Any]) -> bool:
    return "seq" not in profile and profile.get("type") != "delay"


def _first_with(
    workload: Workload, holds: Callable[[Mapping[str, Any]], bool], least: int = 1
) -> str | None:
    """Return the id of the first job of ``least`` processors with a profile, or a step of it, of
    which something holds; None if there is none.
    """
    profiles = workload.profiles
    columns = workload.columns

    def is_one(name: str) -> bool:
        profile = profiles[name]
        return holds(profile) or ("seq" in profile and any(map(is_one, map(str, profile["seq"]))))

    found = np.isnan(workload.plain_delays(columns.profile_names))
    for place in np.flatnonzero(found).tolist():
        found[place] = is_one(columns.profile_names[place])
    rows = np.flatnonzero(found[columns.profiles] & (columns.processors >= least))
    return columns.ids[rows[0]] if len(rows) else None


def _deadline_warnings(module: SchedulerModule, workload: Workload) -> Iterator[str]:
    requests = [each for each in workload.columns.requests or () if each is not None]
    if all(each.deadline is None for each in requests):
        yield (
            f"no job of {Path(workload.source).name} has a deadline, so nothing can be promised "
            "(`qops-batsim workload deadlines` gives jobs deadlines)"
        )
        return

    if doubt := early_deadlines_warning(workload, "`workload deadlines --at-least estimate`"):
        yield doubt
    options = module.options
    if isinstance(options, FqopsOptions) and not options.kill_and_restart:
        most = options.tolerance_factor * (2 if options.tolerance == "random" else 1)
        if max([most, *(each.tolerance_factor or 0.0 for each in requests)]) <= 1:
            yield (
                "with these options and jobs fqops is qops: no tolerance factor is above 1, "
                "so that no offer is taken, and kill_and_restart is off (--set tolerance_factor=2)"
            )


def _measured_speed(provenance: Mapping[str, Any]) -> float | None:
    """Return the host speed (flop/s) that `workload classes` wrote; None for other workloads."""
    at: Any = provenance
    while isinstance(at, Mapping):
        speed = at.get("speed")
        if at.get("step") == "classes" and isinstance(speed, (int, float)) and speed > 0:
            return float(speed)
        at = at.get("made_from")
    return None
