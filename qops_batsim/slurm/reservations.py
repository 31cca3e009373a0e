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
from qops_batsim.slurm.values import checked_date, fields_of, local_date, slurm_number
from qops_batsim.workload.accounting.amounts import chosen_machine
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
    and GPUs that it takes, by name, and ``nodes`` their names, as far as they are reported.
    """

    where: str
    name: str
    start: float
    end: float
    flags: frozenset[str]
    partition: str
    amounts: Mapping[str, float]
    nodes: tuple[str, ...] = ()

    @property
    def _repeated(self) -> str | None:
        return next((flag for flag in _REPEATED if flag in self.flags), None)

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


class ReservedHosts(NamedTuple):
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
        listed = _of_json(text, path)
    elif "ReservationName=" in text:
        listed = _of_text(text, path)
    else:
        listed = _of_table(text, path, choices.cluster)
    reservations = [_reservation(where, fields, choices) for where, fields in listed]
    return list({(one.name, one.start): one for one in reservations}.values())


_Listed = list[tuple[str, dict[str, str]]]
"""Where each record stands (for messages), and its fields as ``scontrol`` names them."""


def _of_text(text: str, path: str) -> _Listed:
    lines = text.splitlines()
    begins = [at for at, line in enumerate(lines) if line.startswith("ReservationName=")]
    if not begins:  # As in a list of nodes.
        raise InputError(f"{path}: is no list of reservations; {_EXPECTED}")
    return [
        (f"{path}: line {first + 1}", fields_of("\n".join(lines[first:end]), ("Comment",)))
        for first, end in pairwise([*begins, len(lines)])
    ]


def _of_table(text: str, path: str, cluster: str) -> _Listed:
    """Return the reservations in a table of ``sacctmgr``, which lists those of all clusters: of the
    ``cluster`` if one is named.
    """
    rows = [line.split("|") for line in text.splitlines()]
    header = next((row for row in rows if len(row) > 1), [])
    names = [_COLUMNS.get(name, name) for name in header]
    if "ReservationName" not in names and "No reservations" not in text:
        raise InputError(f"{path}: is no list of reservations; {_EXPECTED}")
    if names and "Flags" not in names:
        # Without them, nobody knows which are repeated, or never begin.
        raise InputError(f"{path}: has no column Flags; {_EXPECTED}")

    listed = [
        (f"{path}: line {number}", dict(zip(names, row, strict=False)))
        for number, row in enumerate(rows, start=1)
        if row != header and "ReservationName" in names[: len(row)]
    ]
    if not cluster:
        clusters = {fields.get("Cluster", "") for _, fields in listed}
        refuse_several_clusters(clusters, path, "reservations", "--cluster {} takes one")
        return listed
    return [record for record in listed if record[1].get("Cluster", "") in ("", cluster)]


def _of_json(text: str, path: str) -> _Listed:
    """Return the reservations in JSON, of which times and counts may be plain or objects."""
    try:
        records = msgspec.json.decode(text, type=dict[str, Any])["reservations"]
    except (msgspec.DecodeError, KeyError, RecursionError):
        records = None
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise InputError(f"{path}: is no list of reservations; {_EXPECTED}")

    listed: _Listed = []
    for place, record in enumerate(records):
        where = f"{path}: reservations[{place}]"
        for name, at in (record.get("time") or {}).items():
            record[f"{name}_time"] = at
        fields: dict[str, str] = {}
        for name, field in _JSON_NAMES.items():
            value = record.get(field, record.get("nodes") if name == "Nodes" else None)
            if isinstance(value, (dict, int, float)):
                number = slurm_number(value, f"{where}: {field}")
                value = f"{number:.0f}" if math.isfinite(number) else ""
            elif isinstance(value, list):
                value = ",".join(map(_amount, value))
            fields[name] = str(value or "")
        listed.append((where, fields))
    return listed


def _amount(told: Any) -> str:
    """Return a word of a list, or a resource with its amount, as ``scontrol`` writes it."""
    if not isinstance(told, dict):
        return str(told)
    name = f"/{told['name']}" if told.get("name") else ""
    return f"{told.get('type')}{name}={told.get('count')}"


def _reservation(where: str, fields: Mapping[str, str], choices: Choices) -> Reservation:
    form = choices.date_format
    zone = ZoneInfo(choices.zone_name)

    def date(name: str, fold: int = 0) -> float:
        text = fields.get(name, "")
        place = f"{where}: {name}"
        if form is None:
            return local_date(text, place, zone, fold)
        seconds, is_local = read_date(text, form) or (math.nan, False)
        if math.isnan(seconds):
            raise InputError(f"{place} is {shown(text)}; {form} is expected")
        date = datetime.fromtimestamp(seconds, UTC)
        if is_local:
            date = date.replace(tzinfo=zone, fold=fold)
        return checked_date(date.timestamp(), text, place)

    start = date("StartTime")
    end = date("EndTime")
    if end < start:  # Where the clock is put back, an hour comes twice.
        end = date("EndTime", fold=1)
    if end < start:
        told = shown(fields["EndTime"])
        raise InputError(f"{where}: EndTime is {told}; a date after StartTime is expected")

    amounts = {}
    names = tuple(node_names(fields.get("Nodes", "")))
    nodes = str(len(names) or "")
    for unit, (resource, name) in _COUNTED.items():
        text = fields.get(name, nodes if unit == "nodes" else "")
        count = read_count(text)
        if count is None:
            raise InputError(f"{where}: {name} is {shown(text)}; a whole number is expected")
        amount = amount_of(fields.get("TRES", ""), resource)
        if math.isnan(amount):
            amount = count
        if not math.isnan(amount):
            amounts[unit] = amount
    # A flag may have a time: PURGE_COMP=00:05:00.
    flags = frozenset(flag.partition("=")[0] for flag in fields.get("Flags", "").split(","))
    partition = fields.get("PartitionName", "").replace("(null)", "")
    name = fields["ReservationName"]
    return Reservation(where, name, start, end, flags, partition, amounts, names)


def windows_of(
    reservations: Iterable[Reservation], trace: Conversion, choices: Choices
) -> tuple[list[ReservedHosts], Counter[str]]:
    """Convert reservations to windows in a workload, by start; also count those left out, by
    reason.

    They lie between the first submission and the last end of the log's jobs, on the hosts of the
    highest numbers that are not away for another: maintenance is placed first, then what lasts
    longest. By amounts, they are on the hosts of their names, if the list of nodes has them. One
    that is periodic is repeated until the next of its name.
    """
    records = trace.records
    calendar = trace.calendar
    of_jobs = trace.workload.calendar
    if calendar is None or of_jobs is None:
        raise InputError(
            f"{trace.workload.source}: the log does not say which dates its seconds are, so "
            "reservations have no place in it; a log with dates is expected"
        )
    ends = records["submit_time"] + np.maximum(records["wait_time"], 0) + records["run_time"]
    begin = calendar.unix_start + trace.first_submission
    last = calendar.unix_start + ends.max()
    size = trace.workload.processors

    left_out: Counter[str] = Counter()
    wanted: list[tuple[tuple[bool, float], Reservation, list[tuple[float, float]]]] = []
    in_order = sorted(reservations, key=lambda reservation: (reservation.name, reservation.start))
    for reservation, following in pairwise([*in_order, None]):
        assert reservation is not None
        until = last
        if following is not None and following.name == reservation.name:
            until = min(last, following.start)
        times = reservation.times(until, ZoneInfo(calendar.time_zone))
        spans = [(max(start, begin), min(end, last)) for start, end in times]
        spans = [(start, end) for start, end in spans if start < end]

        is_maintenance = "MAINT" in reservation.flags
        takes_all = "all" in choices.reservations and not is_maintenance
        if reservation.name in choices.reservations or takes_all:
            left_out["whose jobs are taken"] += 1
        elif reservation.no_window:
            left_out[reservation.no_window] += 1
        elif choices.partitions and reservation.partition not in ("", *choices.partitions):
            left_out["of other partitions"] += 1
        elif not spans:
            left_out["before or after the jobs"] += 1
        else:
            lasts = sum(end - start for start, end in spans)
            wanted.append(((not is_maintenance, -lasts), reservation, spans))

    placed: list[_Placed] = []
    windows: list[ReservedHosts] = []
    wanted.sort(key=lambda one: one[0])
    machine = chosen_machine(choices) if choices.by == "amounts" else None
    numbers = {} if machine is None else {name: at for at, name in enumerate(machine.names)}
    sized = [
        (reservation, spans, _hosts(reservation, choices, size)) for _, reservation, spans in wanted
    ]
    for reservation, spans, hosts in sized:
        own: list[_Placed] = []
        named = sum(1 << numbers[name] for name in reservation.nodes if name in numbers)
        for span in spans:
            if named:
                own.append((*span, named))
                continue
            own += _parts(*span, hosts, [*placed, *own], size)
        zero = of_jobs.unix_start
        windows += [
            ReservedHosts(reservation.name, bits, start - zero, end - zero)
            for start, end, bits in own
        ]
        placed += own
        left_out["without hosts, or during others that have all"] += not own
    return sorted(windows, key=lambda window: window.start), +left_out


def _hosts(reservation: Reservation, choices: Choices, size: int) -> int:
    """Return how many hosts of a machine of ``size`` hosts a reservation takes."""
    if "ALL_NODES" in reservation.flags:
        return size
    amounts = reservation.amounts
    unit = choices.unit

    known = next((name for name in (unit, "cores", "nodes") if name in amounts), unit)
    amount = amounts.get(known, 0.0)
    if known != unit and amount:
        nodes = choices.nodes or NodeSizes(())
        of = nodes.together([reservation.partition] if reservation.partition in nodes else nodes)
        if not of[known]:
            raise InputError(
                f"{reservation.where}: TRES does not tell how many {unit} reservation "
                f"{shown(reservation.name)} takes; give them in TRES, or a list of nodes (--nodes)"
            )
        amount *= of[unit] / of[known]
    return min(math.ceil(amount), size)


_Placed = tuple[float, float, int]
"""Start, end and hosts, a bit each."""


def _parts(start: float, end: float, hosts: int, others: list[_Placed], size: int) -> list[_Placed]:
    """Place a window on the highest free hosts; where other windows leave too few, return it in
    parts, each with what is free then.
    """
    beside = [other for other in others if other[0] < end and other[1] > start]
    cuts = {date for other in beside for date in other[:2] if start < date < end}

    enough = _free(beside, size).bit_count() >= hosts
    parts: list[_Placed] = []
    for since, to in pairwise(sorted({start, end} if enough else {start, end, *cuts})):
        free = _free([other for other in beside if other[0] < to and other[1] > since], size)
        fewer = min(hosts, free.bit_count())
        low = 0  # As many as are wanted are free from here up.
        for bit in reversed(range(size.bit_length())):
            low += (1 << bit) * ((free >> low + (1 << bit)).bit_count() >= fewer > 0)
        if fewer:
            parts.append((since, to, free >> low << low))
    return parts


def _free(beside: Iterable[_Placed], size: int) -> int:
    mask = (1 << size) - 1
    for *_, hosts in beside:
        mask &= ~hosts
    return mask
