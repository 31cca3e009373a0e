"""Options of a simulation, and external events such as outages."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from qops_batsim.core.hostset import HostSet
from qops_batsim.errors import InputError, did_you_mean, shown
from qops_batsim.files import read_stored, text_of
from qops_batsim.job_fields import is_number
from qops_batsim.limits import MAX_DESCRIPTION_BYTES, MAX_SECONDS
from qops_batsim.platform.platform_model import Maintenance, Outage
from qops_batsim.protocol.events import JOB_CANCELLED, MAINTENANCE, Notify, told_in_text
from qops_batsim.timing import TOLD_DECIMALS

if TYPE_CHECKING:
    from qops_batsim.workload.workload_model import Workload

UNAVAILABLE = "machine_unavailable"
AVAILABLE = "machine_available"
GENERIC = "generic"
"""The only type of Batsim 5: the event is told in the text ``data``."""

_KNOWN = (UNAVAILABLE, AVAILABLE, JOB_CANCELLED, MAINTENANCE)

MESSAGES_PER_REPORT = 1024
"""Messages from one report of a run's progress to the next."""

MAX_WINDOWS = 100_000
"""Most maintenance windows that one event may stand for."""


class ExternalEvent(msgspec.Struct, frozen=True):
    """An event at a date (seconds) that does not depend on the scheduler.

    The type is ``machine_unavailable`` or ``machine_available``, which concern the hosts,
    ``job_cancelled`` with the ``job_id`` of a job, ``maintenance``, which tells the hosts that
    will be away between two dates, or any other to be forwarded; ``fields`` is the whole JSON
    object.
    """

    timestamp: float
    type: str
    hosts: HostSet
    fields: dict[str, Any]

    def notice(self) -> Notify:
        """Return the notification sent to the scheduler."""
        if self.type in (UNAVAILABLE, AVAILABLE):
            return Notify.of(f"event_{self.type}", resources=str(self.hosts))
        return Notify(self.fields)


def read_external_events(
    path: str | Path, *, forward_unknown: bool = False
) -> tuple[ExternalEvent, ...]:
    """Parse external events: one JSON object a line; empty lines are skipped.

    They are returned in the order in which they happen, a maintenance window as its notice and
    the two events of its hosts, each time that it is repeated. Other types than the two about
    hosts, ``job_cancelled`` and ``maintenance`` are accepted with ``forward_unknown``; the module
    gets them.
    """
    return events_in_order(listed_events(path, forward_unknown=forward_unknown)[0])


def read_events_file(path: str | PathLike[str]) -> tuple[tuple[ExternalEvent, ...], str]:
    """Read a file of external events of Batsim 4 or 5, and its digest (SHA-256).

    A generic event whose text is the JSON of an event of Batsim 4 is that event, any other is
    forwarded.
    """
    events, digest = listed_events(path, any_release=True)
    return events_in_order(events), digest


def listed_events(
    path: str | PathLike[str], *, forward_unknown: bool = False, any_release: bool = False
) -> tuple[list[ExternalEvent], str]:
    """Parse events in the file's order, those of Batsim 5 too if ``any_release``."""
    what = "a list of external events (one JSON object a line)"
    content, digest = read_stored(Path(path), what=what, max_bytes=MAX_DESCRIPTION_BYTES)
    text = text_of(content, Path(path), what=what)
    events = [
        event
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip()
        for event in _read_events(line, f"{path}: line {number}", forward_unknown, any_release)
    ]
    return events, digest


def events_in_order(events: Sequence[ExternalEvent]) -> tuple[ExternalEvent, ...]:
    """Sort events into Batsim's order.

    By date, and at one date hosts return before others leave, and both before anything
    else; what is equal then keeps its order.
    """
    ranks = {AVAILABLE: 0, UNAVAILABLE: 1}
    return tuple(sorted(events, key=lambda event: (event.timestamp, ranks.get(event.type, 2))))


def outages_of(events: Sequence[ExternalEvent], hosts: int) -> tuple[Outage, ...]:
    """Return the outages of a machine's hosts; InputError for contradictory events."""
    existing = HostSet.first(hosts)
    since: dict[int, float] = {}
    masks: dict[tuple[float, float], int] = {}
    for event in events:
        if event.type not in (UNAVAILABLE, AVAILABLE):
            continue
        said = f"external event {event.type} at {event.timestamp:g} s"
        unknown = event.hosts - existing
        if unknown:
            raise InputError(
                f"{said} names hosts {unknown}, which do not exist; hosts are 0 to {hosts - 1}"
            )

        leaves = event.type == UNAVAILABLE
        wrong = HostSet.of(host for host in event.hosts if (host in since) == leaves)
        if wrong:
            state = "already" if leaves else "not"
            raise InputError(f"{said}: hosts {wrong} are {state} unavailable")

        for host in event.hosts:
            if leaves:
                since[host] = event.timestamp
            else:
                span = since.pop(host), event.timestamp
                masks[span] = masks.get(span, 0) | 1 << host

    # These never return.
    for host, date in since.items():
        masks[date, math.inf] = masks.get((date, math.inf), 0) | 1 << host

    return tuple(
        Outage(
            hosts=str(HostSet(masks[span])),
            since=span[0],
            to=span[1] if span[1] < math.inf else None,
        )
        for span in sorted(masks)
    )


def cancellations_of(events: Sequence[ExternalEvent]) -> dict[str, float]:
    """Return each cancelled job's first cancellation (seconds) by full id."""
    found: dict[str, float] = {}
    for event in events:
        if event.type == JOB_CANCELLED:
            found.setdefault(str(event.fields["job_id"]), event.timestamp)
    return found


def check_cancellations(events: Sequence[ExternalEvent], workloads: Mapping[str, Workload]) -> None:
    """Raise an InputError if a cancelled job is in none of the workloads."""
    cancelled = cancellations_of(events)
    if cancelled:
        known = {
            f"{name}!{job_id}" for name, jobs in workloads.items() for job_id in jobs.columns.ids
        }
        for job_id, date in cancelled.items():
            if job_id not in known:
                raise InputError(
                    f"external event {JOB_CANCELLED} at {date:g} s: job_id is {job_id!r}; the full "
                    f"id of a job such as {min(known, default='w0!1')!r} is expected"
                )


def format_external_events(events: Sequence[ExternalEvent]) -> str:
    """Format external events as a file."""
    lines = []
    for event in events:
        fields = {**event.fields, "timestamp": event.timestamp, "type": event.type}
        if event.type in (UNAVAILABLE, AVAILABLE):
            fields["resources"] = str(event.hosts)
        lines.append(json.dumps(fields) + "\n")
    return "".join(lines)


def maintenance_events(
    notice: float,
    hosts: HostSet,
    start: float,
    end: float,
    *,
    every: float | None = None,
    until: float = math.inf,
) -> list[ExternalEvent]:
    """Return the events of a maintenance window: announcement, hosts leave, hosts return.

    All dates in seconds. The window is repeated with the period ``every``, as far as it starts by
    ``until``; each has its own notice, as long ahead.
    """
    count = 1 if every is None else 1 + max(0, math.floor((until - start) / every))
    found = []
    for number in range(count):
        later = number * (every or 0.0)
        told = {"resources": str(hosts), "start": start + later, "end": end + later}
        for date, kind, fields in (
            (notice + later, MAINTENANCE, told),
            (start + later, UNAVAILABLE, {"resources": str(hosts)}),
            (end + later, AVAILABLE, {"resources": str(hosts)}),
        ):
            whole = {"timestamp": date, "type": kind, **fields}
            found.append(ExternalEvent(date, kind, hosts, whole))
    return found


def maintenance_of(events: Sequence[ExternalEvent]) -> tuple[Maintenance, ...]:
    """Return the announced maintenance windows in order of announcement."""
    return tuple(
        Maintenance(
            hosts=str(event.hosts),
            since=event.fields["start"],
            to=event.fields["end"],
            announced=event.timestamp,
        )
        for event in events
        if event.type == MAINTENANCE
    )


def _read_events(
    line: str, where: str, forward_unknown: bool, any_release: bool
) -> list[ExternalEvent]:
    """Parse a line: an event, or those of a maintenance window."""
    try:
        fields = json.loads(line)
    except (json.JSONDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"{where}: not JSON ({error}); one object a line is expected") from None
    if not isinstance(fields, dict):
        raise InputError(f"{where}: a JSON object with timestamp and type is expected")
    date = _date(fields, "timestamp", where)
    kind = fields.get("type")
    if not isinstance(kind, str):
        raise InputError(f"{where}: type is {kind!r}; a text is expected")

    known = (*_KNOWN, GENERIC) if any_release else _KNOWN
    if kind == GENERIC and any_release:
        text = fields.get("data")
        if not isinstance(text, str):
            raise InputError(f"{where}: data is {shown(text)}; a text is expected")
        if (told := told_in_text(text)).get("type") in _KNOWN:
            fields = {**told, "timestamp": fields["timestamp"]}
            kind = told["type"]

    if kind == JOB_CANCELLED:
        if not isinstance(fields.get("job_id"), str):
            raise InputError(
                f"{where}: job_id is {fields.get('job_id')!r}; the full id of a job such as "
                "'w0!12' is expected"
            )
    elif kind not in known and not forward_unknown:
        others = "" if any_release else "; other types need --forward-unknown-events"
        raise InputError(f"{where}: unknown type {kind!r}{did_you_mean(kind, known)}{others}")

    if kind not in (UNAVAILABLE, AVAILABLE, MAINTENANCE):
        return [ExternalEvent(date, kind, HostSet(), fields)]
    resources = fields.get("resources")
    if not isinstance(resources, str):
        raise InputError(f"{where}: resources is {resources!r}; hosts such as '0-3 5' are expected")

    try:
        hosts = HostSet.parse(resources)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    if kind == MAINTENANCE:
        return _read_maintenance(fields, date, hosts, where)
    return [ExternalEvent(date, kind, hosts, fields)]


def _read_maintenance(
    fields: dict[str, Any], notice: float, hosts: HostSet, where: str
) -> list[ExternalEvent]:
    start, end = _date(fields, "start", where), _date(fields, "end", where)
    if not notice <= start < end or not hosts:
        raise InputError(
            f"{where}: maintenance of {str(hosts) or 'no host'} from {start:g} s to {end:g} s, "
            f"announced at {notice:g} s; hosts, a start from then on, and a later end are expected"
        )

    if "every" not in fields and "until" not in fields:
        return maintenance_events(notice, hosts, start, end)

    every, until = (_date(fields, name, where) for name in ("every", "until"))
    if every < end - start or (until - start) / every > MAX_WINDOWS:
        raise InputError(
            f"{where}: every is {every:g} s and until is {until:g} s; a period (every) of "
            f"at least the window's length, and at most {MAX_WINDOWS} windows, are accepted"
        )
    return maintenance_events(notice, hosts, start, end, every=every, until=until)


def _date(fields: dict[str, Any], name: str, where: str) -> float:
    date = fields.get(name)
    if not (is_number(date) and 0 <= date <= MAX_SECONDS):
        raise InputError(
            f"{where}: {name} is {date!r}; a number of seconds from 0 to "
            f"{MAX_SECONDS:g} is expected"
        )
    return float(date)


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Differences between Batsim releases; defaults are those of Batsim 3.1 to 4.2.

    Attributes
    ----------
    begins_first
        SIMULATION_BEGINS is told before the first message of a submitter has come, and
        SIMULATION_ENDS without another message.
    decimals
        Decimals of dates and progress.
    rounds_registered
        Amounts of registered jobs and profiles are rounded as they are told.
    spread_over_pairs
        Communication of a fixed total is divided by the pairs of hosts, not by the hosts.
    calls_at_once
        A call may be asked for at a date that is not later than now.
    kills_again
        A kill of nothing but jobs that are being killed is passed over, rather than an error.
    keeps_submissions
        A registered job has the submission that it tells, not the date of its registration.
    lists_apart
        External events are of several lists, by the first part of their identifiers.
    registers_always
        Jobs and profiles may be registered without dynamic jobs, and after the registration was
        finished.
    forgets_profiles
        Profiles that no job has are forgotten, those that one had unless profiles are reused.
    walltimes_are_dates
        A computation is stopped when its start and its walltime, added up, are over by the clock,
        rather than when all steps since its start add up to the walltime.
    """

    begins_first: bool = True
    decimals: int = TOLD_DECIMALS
    rounds_registered: bool = True
    spread_over_pairs: bool = False
    calls_at_once: bool = False
    kills_again: bool = True
    keeps_submissions: bool = True
    lists_apart: bool = False
    registers_always: bool = False
    forgets_profiles: bool = False
    walltimes_are_dates: bool = False


BATSIM_5 = Rules(
    begins_first=False,
    decimals=12,
    rounds_registered=False,
    spread_over_pairs=True,
    calls_at_once=True,
    kills_again=False,
    keeps_submissions=False,
    lists_apart=True,
    registers_always=True,
    forgets_profiles=True,
    walltimes_are_dates=True,
)
"""Rules of Batsim 5, whose actors always send messages."""


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a simulation.

    ``hosts`` limits the compute hosts to the first ones. Of storage sharing, profile reuse and
    unknown events the module is only told. Registered jobs are announced with JOB_SUBMITTED if
    ``acknowledge_dynamic_jobs``, which carries the job's profile if ``forward_profiles``;
    ``sched_config`` goes into SIMULATION_BEGINS. With ``message_delays``, Batsim's own messages
    take their time on platforms with latencies (:mod:`~qops_batsim.engine.server`). External
    events are in the order of their dates. Unless ``scheduled``, nothing counts jobs: files have
    none, as Batsim's without a scheduler.
    """

    hosts: int | None = None
    compute_sharing: bool = False
    storage_sharing: bool = True
    energy: bool = False
    external_events: tuple[ExternalEvent, ...] | None = None
    forward_unknown_events: bool = False
    dynamic_jobs: bool = False
    acknowledge_dynamic_jobs: bool = True
    profile_reuse: bool = False
    forward_profiles: bool = False
    sched_config: str = ""
    message_delays: bool = True
    scheduled: bool = True
    rules: Rules = Rules()
