"""Slurm's reservations, and the maintenance windows that they become in a workload."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise, takewhile
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import numpy as np

from qops_batsim.errors import InputError, shown
from qops_batsim.files import read_text
from qops_batsim.slurm.resources import amount_of
from qops_batsim.slurm.values import (
    DATE_EXPECTED,
    as_iso,
    checked_date,
    fields_of,
    is_seconds,
    slurm_number,
)
from qops_batsim.workload.accounting.cells import read_count, read_date
from qops_batsim.workload.accounting.choices import Choices
from qops_batsim.workload.accounting.clusters import refuse_several_clusters
from qops_batsim.workload.accounting.node_sizes import NodeSizes, node_names
from qops_batsim.workload.conversion import Conversion

_EXPECTED = (
    "the output of `scontrol show reservation` (text or --json), or of `sacctmgr --parsable2 show "
    "reservation format=Name,TRES,Start,End,NodeNames,Flags`, is expected"
)
_COLUMNS = {"Name": "ReservationName", "NodeName": "Nodes"} | {
    "TimeStart": "StartTime", "TimeEnd": "EndTime"
}  # fmt: skip
"""Columns of ``sacctmgr``, and the fields of ``scontrol`` that say the same."""

_JSON_NAMES = {
    "ReservationName": "name",
    "StartTime": "start_time",
    "EndTime": "end_time",
    "Nodes": "node_list",
    "NodeCnt": "node_count",
    "CoreCnt": "core_count",
    "PartitionName": "partition",
    "Flags": "flags",
    "TRES": "tres",
}
"""Fields of ``scontrol``, and those of its JSON that say the same."""

_NO_WINDOW = {
    "TIME_FLOAT": "whose start moves with the clock and never comes (TIME_FLOAT)",
    "FLEX": "whose jobs may begin before it, end after it and run elsewhere (FLEX)",
    "ANY_NODES": "of licenses or burst buffers, without nodes (ANY_NODES)",
    "LICENSE_ONLY": "of licenses or burst buffers, without nodes (LICENSE_ONLY)",
    "SKIP": "that are skipped (SKIP)",
}
"""Why a reservation with one of these flags keeps no nodes from others between its two dates."""

_REPEATED = {
    "HOURLY": (1 / 24, range(7)),
    "DAILY": (1, range(7)),
    "WEEKDAY": (1, range(5)),
    "WEEKEND": (1, range(5, 7)),
    "WEEKLY": (7, range(7)),
}
"""Days from one time to the next by flag, and days of the week."""

_COUNTED = {"cores": ("cpu", "CoreCnt"), "nodes": ("node", "NodeCnt"), "gpus": ("gres/gpu", "")}


class Reservation(msgspec.Struct, frozen=True):
    """One of Slurm's reservations: dates in seconds since 1970; ``amounts`` are the cores, nodes
    and GPUs that it takes, by name, as far as they are reported.
    """

    where: str
    name: str
    start: float
    end: float
    flags: frozenset[str]
    partition: str
    amounts: Mapping[str, float]

    @property
    def _repeated(self) -> str | None:
        return next((each for each in _REPEATED if each in self.flags), None)

    @property
    def no_window(self) -> str:
        """Return why it keeps no nodes from other jobs between its dates; empty if it does."""
        flags = self.flags - ({"SKIP"} if self._repeated else set())
        return next((why for flag, why in _NO_WINDOW.items() if flag in flags), "")

    def times(self, until: float, zone: ZoneInfo) -> list[tuple[float, float]]:
        """Return (start, end) of every repetition that begins before ``until`` (seconds since
        1970), at the same time of day in the ``zone``.
        """
        flag = self._repeated
        if flag is None:
            return [(self.start, self.end)]
        days, of_week = _REPEATED[flag]
        first = datetime.fromtimestamp(self.start, UTC if days < 1 else zone)
        dates = (first + timedelta(days=days * number) for number in count())
        starts = takewhile(lambda date: date.timestamp() < until, dates)
        seconds = [each.timestamp() for each in starts if each.weekday() in of_week]
        if "SKIP" in self.flags:
            del seconds[:1]
        return [(each, each + self.end - self.start) for each in seconds]


class MaintenanceWindow(NamedTuple):
    """A reservation in a workload: from ``start`` to ``end`` (seconds of the workload) no job may
    use the ``hosts``, bit k of which stands for host k.
    """

    name: str
    hosts: int
    start: float
    end: float


def read_reservations(path: str | Path, choices: Choices) -> list[Reservation]:
    """Read a list of Slurm's reservations (``scontrol``, as text or JSON, or ``sacctmgr``); of
    records with the same name and start, the last counts.
    """
    return reservations_of(read_text(path, what="a list of reservations"), str(path), choices)


def reservations_of(text: str, path: str, choices: Choices) -> list[Reservation]:
    """Parse a list of reservations as :func:`read_reservations` does; messages name ``path``."""
    if text.lstrip().startswith("{"):
        found = _of_json(text, path)
    elif "ReservationName=" in text:
        found = _of_text(text, path)
    else:
        found = _of_table(text, path, choices.cluster)
    all_read = [_reservation(where, fields, choices) for where, fields in found]
    return list({(each.name, each.start): each for each in all_read}.values())


_Told = list[tuple[str, Mapping[str, str]]]
"""Where each record stands (for messages), and its fields as ``scontrol`` names them."""


def _of_text(text: str, path: str) -> _Told:
    lines = text.splitlines()
    begins = [at for at, line in enumerate(lines) if line.startswith("ReservationName=")]
    if not begins:  # As in a list of nodes.
        raise InputError(f"{path}: is no list of reservations; {_EXPECTED}")
    return [
        (f"{path}: line {first + 1}", fields_of("\n".join(lines[first:end]), ("Comment",)))
        for first, end in pairwise([*begins, len(lines)])
    ]


def _of_table(text: str, path: str, cluster: str) -> _Told:
    """Return the reservations in a table of ``sacctmgr``, which lists those of all clusters: of the
    ``cluster`` if one is named.
    """
    lines = text.splitlines()
    header = next((each.split("|") for each in lines if "|" in each), [])
    names = [_COLUMNS.get(each, each) for each in header]
    if "ReservationName" not in names and "No reservations" not in text:
        raise InputError(f"{path}: is no list of reservations; {_EXPECTED}")
    if names and "Flags" not in names:
        # Without them, nobody knows which are repeated, or never begin.
        raise InputError(f"{path}: has no column Flags; {_EXPECTED}")
    cells = ((number, line.split("|")) for number, line in enumerate(lines, start=1))
    found = [
        (f"{path}: line {number}", dict(zip(names, each, strict=False)))
        for number, each in cells
        if each != header and "ReservationName" in names[: len(each)]
    ]
    clusters = {fields["Cluster"] for _, fields in found if fields.get("Cluster")}
    if not cluster:
        refuse_several_clusters(clusters, path, "reservations", "--cluster {} takes one")
    wanted = ("", cluster) if cluster else ("", *clusters)
    return [each for each in found if each[1].get("Cluster", "") in wanted]


def _of_json(text: str, path: str) -> _Told:
    """Return the reservations in JSON, of which times and counts may be plain or objects."""
    try:
        listed = msgspec.json.decode(text, type=dict[str, Any])["reservations"]
    except (msgspec.DecodeError, KeyError, RecursionError):
        listed = None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise InputError(f"{path}: is no list of reservations; {_EXPECTED}")
    found: _Told = []
    for place, record in enumerate(listed):
        where = f"{path}: reservations[{place}]"
        times = record.get("time")
        told = record | ({f"{name}_time": at for name, at in times.items()} if times else {})
        fields: dict[str, str] = {}
        for name, field in _JSON_NAMES.items():
            value = told.get(field, told.get("nodes") if name == "Nodes" else None)
            if isinstance(value, (dict, int, float)):
                number = slurm_number(value, f"{where}: {field}")
                value = f"{number:.0f}" if math.isfinite(number) else ""
            elif isinstance(value, list):
                value = ",".join(_amount(each) for each in value)
            fields[name] = str(value or "")
        found.append((where, fields))
    return found


def _amount(told: Any) -> str:
    """Return a word of a list, or a resource with its amount, as ``scontrol`` writes it."""
    if not isinstance(told, dict):
        return str(told)
    name = f"/{told['name']}" if told.get("name") else ""
    return f"{told.get('type')}{name}={told.get('count')}"


def _reservation(where: str, fields: Mapping[str, str], choices: Choices) -> Reservation:
    def date(name: str, fold: int = 0) -> float:
        text = fields.get(name, "")
        iso = text if choices.date_format or is_seconds(text) else as_iso(text)
        read = None if iso is None else read_date(iso, choices.date_format)
        if read is None or math.isnan(read[0]):
            form = choices.date_format
            how = DATE_EXPECTED if form is None else f"{form} is expected"
            raise InputError(f"{where}: {name} is {shown(fields.get(name))}; {how}")
        zone = ZoneInfo(choices.zone_name) if read[1] else UTC
        date = datetime.fromtimestamp(read[0], UTC).replace(tzinfo=zone, fold=fold).timestamp()
        return checked_date(date, fields[name], f"{where}: {name}")

    start, end = date("StartTime"), date("EndTime")
    if end < start:  # Where the clock is put back, an hour comes twice.
        end = date("EndTime", fold=1)
    if end < start:
        told = shown(fields["EndTime"])
        raise InputError(f"{where}: EndTime is {told}; a date after StartTime is expected")
    amounts = {}
    nodes = str(len(node_names(fields.get("Nodes", ""))) or "")
    for unit, (resource, name) in _COUNTED.items():
        text = fields.get(name, nodes if unit == "nodes" else "")
        amount = read_count(text)
        if amount is None:
            raise InputError(f"{where}: {name} is {shown(text)}; a whole number is expected")
        known = amount_of(fields.get("TRES", ""), resource)
        if (known if known == known else amount) >= 0:
            amounts[unit] = known if known == known else amount
    # A flag may have a time: PURGE_COMP=00:05:00.
    flags = frozenset(each.partition("=")[0] for each in fields.get("Flags", "").split(","))
    partition = fields.get("PartitionName", "").replace("(null)", "")
    return Reservation(where, fields["ReservationName"], start, end, flags, partition, amounts)


def windows_of(
    reservations: Iterable[Reservation], trace: Conversion, choices: Choices
) -> tuple[list[MaintenanceWindow], Counter[str]]:
    """Convert reservations to windows in a workload, by start; also count those left out, by
    reason.

    They lie between the first submission and the last end of the log's jobs, on the hosts of the
    highest numbers that are not away for another: maintenance is placed first, then what lasts
    longest. One that is periodic is repeated until the next of its name.
    """
    records, calendar, of_jobs = trace.records, trace.calendar, trace.workload.calendar
    if calendar is None or of_jobs is None:
        raise InputError(
            f"{trace.workload.source}: the log does not say which dates its seconds are, so "
            "reservations have no place in it; a log with dates is expected"
        )
    ends = records["submit_time"] + np.maximum(records["wait_time"], 0) + records["run_time"]
    begin, last = (calendar.unix_start + each for each in (trace.first_submission, ends.max()))
    left_out: Counter[str] = Counter()
    wanted = []
    in_order = sorted(reservations, key=lambda each: (each.name, each.start))
    for place, each in enumerate(in_order, start=1):
        following = [
            other.start for other in in_order[place : place + 1] if other.name == each.name
        ]
        times = each.times(min([last, *following]), ZoneInfo(calendar.time_zone))
        spans = [(max(start, begin), min(end, last)) for start, end in times]
        spans = [(start, end) for start, end in spans if start < end]
        maintenance, taken = "MAINT" in each.flags, choices.reservations
        if each.name in taken or ("all" in taken and not maintenance):
            left_out["whose jobs are taken"] += 1
        elif each.no_window:
            left_out[each.no_window] += 1
        elif choices.partitions and each.partition not in ("", *choices.partitions):
            left_out["of other partitions"] += 1
        elif not spans:
            left_out["before or after the jobs"] += 1
        else:
            hosts = _hosts(each, choices, trace.workload.processors)
            lasts = sum(end - start for start, end in spans)
            wanted.append((not maintenance, -lasts, place, each, spans, hosts))
    placed: list[_Placed] = []
    windows: list[MaintenanceWindow] = []
    for _, _, _, each, spans, hosts in sorted(wanted, key=lambda one: one[:3]):
        own: list[_Placed] = []
        for span in spans:
            own += _parts(*span, hosts, [*placed, *own], trace.workload.processors)
        zero = of_jobs.unix_start
        windows += [
            MaintenanceWindow(each.name, h, start - zero, end - zero) for start, end, h in own
        ]
        placed += own
        left_out["without hosts, or during others that have all"] += not own
    return sorted(windows, key=lambda each: each.start), +left_out


def _hosts(reservation: Reservation, choices: Choices, size: int) -> int:
    """Return how many hosts of a machine of ``size`` hosts a reservation takes."""
    amounts, unit = reservation.amounts, choices.unit
    if "ALL_NODES" in reservation.flags:
        return size
    known = next((each for each in (unit, "cores", "nodes") if each in amounts), unit)
    amount = amounts.get(known, 0.0)
    if known != unit and amount:
        nodes = choices.nodes or NodeSizes(())
        of = nodes.together([reservation.partition] if reservation.partition in nodes else nodes)
        total, all_known = of[unit], of[known]
        if not all_known:
            raise InputError(
                f"{reservation.where}: TRES does not tell how many {unit} reservation "
                f"{shown(reservation.name)} takes; give them in TRES, or a list of nodes (--nodes)"
            )
        amount *= total / all_known
    return min(math.ceil(amount), size)


_Placed = tuple[float, float, int]
"""Start, end and hosts, a bit each."""


def _parts(start: float, end: float, hosts: int, others: list[_Placed], size: int) -> list[_Placed]:
    """Place a window on the highest free hosts; where other windows leave too few, return it in
    parts, each with what is free then.
    """
    beside = [each for each in others if each[0] < end and each[1] > start]
    cuts = {date for each in beside for date in each[:2] if start < date < end}
    enough = _free(beside, size).bit_count() >= hosts
    found: list[_Placed] = []
    for since, to in pairwise(sorted({start, end} if enough else {start, end, *cuts})):
        free = _free([each for each in beside if each[0] < to and each[1] > since], size)
        fewer, low = min(hosts, free.bit_count()), 0
        for bit in reversed(range(size.bit_length())):
            low += (1 << bit) * ((free >> low + (1 << bit)).bit_count() >= fewer > 0)
        if fewer:
            found.append((since, to, free >> low << low))
    return found


def _free(beside: Iterable[_Placed], size: int) -> int:
    mask = (1 << size) - 1
    for *_, hosts in beside:
        mask &= ~hosts
    return mask
