"""External events: hosts that become unavailable, and whatever else happens outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.errors import InputError, did_you_mean
from qops_batsim.files import read_text
from qops_batsim.jobs import is_number
from qops_batsim.platform.hostset import HostSet

UNAVAILABLE = "machine_unavailable"
AVAILABLE = "machine_available"


class ExternalEvent(msgspec.Struct, frozen=True):
    """Something that happens at a date (seconds), whatever the scheduler does.

    The type is ``machine_unavailable`` or ``machine_available``, which concern the hosts, or any
    other to be forwarded; ``fields`` is the whole JSON object.
    """

    timestamp: float
    type: str
    hosts: HostSet
    fields: dict[str, Any]


def read_external_events(
    path: str | Path, *, forward_unknown: bool = False
) -> tuple[ExternalEvent, ...]:
    """Read a file of external events: one JSON object a line; empty lines are passed over.

    They come in the order of their dates, those of one date in the order of the file. Other
    types than the two about hosts are accepted with ``forward_unknown``; the module gets them.
    """
    text = read_text(path, what="a list of external events (one JSON object a line)")
    events = [
        _read_event(line, f"{path}: line {number}", forward_unknown)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip()
    ]
    return tuple(sorted(events, key=lambda event: event.timestamp))


def _read_event(line: str, where: str, forward_unknown: bool) -> ExternalEvent:
    try:
        fields = json.loads(line)
    except (json.JSONDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"{where}: not JSON ({error}); one object a line is expected") from None
    if not isinstance(fields, dict):
        raise InputError(f"{where}: a JSON object with timestamp and type is expected")
    date = fields.get("timestamp")
    if not is_number(date):
        raise InputError(f"{where}: timestamp is {date!r}; a number of seconds is expected")
    kind = fields.get("type")
    if not isinstance(kind, str):
        raise InputError(f"{where}: type is {kind!r}; a text is expected")
    if kind not in (UNAVAILABLE, AVAILABLE):
        if not forward_unknown:
            raise InputError(
                f"{where}: unknown type {kind!r}{did_you_mean(kind, (UNAVAILABLE, AVAILABLE))}; "
                "other types need --forward-unknown-events"
            )
        return ExternalEvent(float(date), kind, HostSet(), fields)
    resources = fields.get("resources")
    if not isinstance(resources, str):
        raise InputError(f"{where}: resources is {resources!r}; hosts such as '0-3 5' are expected")
    try:
        hosts = HostSet.parse(resources)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return ExternalEvent(float(date), kind, hosts, fields)
