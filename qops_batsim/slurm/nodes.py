"""Nodes of a machine as Slurm reports them: sizes of its partitions, now and over time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from qops_batsim.errors import InputError, printable, shown
from qops_batsim.files import read_text
from qops_batsim.slurm.node_states import (
    MAINTENANCE,
    RESERVED,
    SlurmNodeState,
    read_state,
)
from qops_batsim.slurm.resources import gpus_of
from qops_batsim.slurm.values import checked_date, date_if_any, fields_of, local_date, slurm_number
from qops_batsim.workload.accounting.node_sizes import Node, NodeAway, NodeSizes, node_names

_EXPECTED = (
    "the output of `scontrol show node` (text or --json), or of `sinfo` with the columns "
    "PARTITION, NODELIST (NODES is enough for one partition), CPUS, GRES and STATE (sinfo --Node "
    "--format='%N|%P|%c|%G|%T'), is expected"
)
_FREE = ("Reason", "Comment", "Extra")
"""Fields of a node that hold what somebody wrote."""
_MOST_BYTES = 1 << 28


def read_nodes(path: str | Path, time_zone: str | None = None) -> NodeSizes:
    """Read a list of nodes (``scontrol show node``, or ``sinfo``) into sizes of partitions.

    Dates without an offset are of the ``time_zone``, by default of this machine's clock.
    """
    text = read_text(path, what="a list of nodes", max_bytes=_MOST_BYTES)
    return nodes_of(text, str(path), time_zone)


def nodes_of(text: str, path: str, time_zone: str | None = None) -> NodeSizes:
    """Parse a list of nodes as :func:`read_nodes` does; messages name ``path``.

    Reservations behind the nodes (``scontrol show reservation``) tell until when those are away
    that are in one.
    """
    is_table = False
    try:
        if text.lstrip().startswith("{"):
            listed = [*_of_json(text, path)]
        elif "NodeName=" in text:
            listed = [*_of_records(text, path, None if time_zone is None else ZoneInfo(time_zone))]
        else:
            listed = [*_of_table(text)]
            is_table = True
        nodes = [
            (partition, node, each, place)
            for each in listed
            for partition in each.partitions
            for place, node in enumerate(each.nodes(path))
        ]
    except (KeyError, ValueError, IndexError, TypeError, AttributeError, msgspec.DecodeError):
        raise InputError(f"{path}: is no list of nodes; {_EXPECTED}") from None
    _refuse_wrong(((partition, node) for partition, node, _, _ in nodes), path)
    sizes = NodeSizes((partition, node) for partition, node, _, _ in nodes)
    sizes.hides_reserved = is_table
    sizes.set_away(
        (partition, NodeAway(node, each.state.away, each.until, each.busy_of(place)))
        for partition, node, each, place in nodes
        if each.state is not None and each.state.away
    )
    sizes.set_asleep(
        (partition, node)
        for partition, node, each, _ in nodes
        if each.state is not None and each.state.is_asleep
    )
    doubts = {(each.doubt, node) for _, node, each, _ in nodes if each.doubt}
    sizes.unsure.update(doubt for doubt, node in doubts if node[0])
    sizes.unsure.update(each.doubt for *_, node, each, _ in nodes if each.doubt and not node[0])
    if not sizes:
        raise InputError(f"{path}: names no partition; {_EXPECTED}")
    if len(sizes) > 1 and any(not name for _, (name, *_), _, _ in nodes):
        raise InputError(
            f"{path}: does not tell which nodes partitions {', '.join(sizes)} have, and "
            f"they may share nodes; {_EXPECTED}"
        )
    return sizes


def _refuse_wrong(nodes: Iterable[tuple[str, Node]], path: str) -> None:
    """Raise an InputError, which names ``path``, if a partition has a node twice, as in lists that
    were put together, or one with fewer than no cores.
    """
    seen: set[tuple[str, str]] = set()
    for partition, (name, cores, _) in nodes:
        if name and (partition, name) in seen:
            raise InputError(
                f"{path}: node {shown(name)} is listed twice in partition {shown(partition)}; one "
                "list, of the nodes of one cluster, is expected"
            )
        if cores < 0:
            raise InputError(
                f"{path}: node {shown(name)} has {cores} cores; a number from 0 up is expected"
            )
        seen.add((partition, name))


class _Listed(NamedTuple):
    """Nodes of a kind in a list: their names, cores and generic resources (each), and partitions.

    ``state`` is None where none is told; of all their cores, ``busy`` are in use, if that is told.
    ``floats`` tells that they are in a reservation whose start moves with the clock.
    """

    names: list[str]
    cores: int
    gres: str
    partitions: list[str]
    state: SlurmNodeState | None
    busy: int | None
    until: float | None = None
    floats: bool = False

    def nodes(self, path: str) -> list[Node]:
        """Return the nodes; InputError, which names ``path``, if their GPUs are not clear."""
        try:
            gpus = gpus_of(self.gres)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        return [(name, self.cores, gpus) for name in self.names]

    @property
    def doubt(self) -> str:
        """What is not known of their state, empty if it is known."""
        if self.state is None or not (self.state.names or self.state.unknown):
            return "nodes whose state is not told, counted as if Slurm used them"
        if not self.state.unknown:
            told = "nodes of a reservation with TIME_FLOAT, counted: only short jobs get them"
            return told if self.floats else ""
        words = printable("+".join(self.state.unknown).upper())
        return f"nodes in a state that is not known ({words}), counted as there"

    def busy_of(self, place: int) -> int | None:
        """Return how many cores of the node at a place are in use: an equal share of them all."""
        if self.state is not None and not self.state.may_have_jobs:
            return 0
        if self.busy is None:
            return None
        count = len(self.names)
        return self.busy * (place + 1) // count - self.busy * place // count


def _split(partitions: str) -> list[str]:
    return [each for each in partitions.replace("*", "").split(",") if each]


def _of_records(text: str, path: str, zone: ZoneInfo | None) -> Iterator[_Listed]:
    """Yield the nodes in the text of ``scontrol show node``."""
    parts = re.split(r"^(?=NodeName=|ReservationName=)", text, flags=re.MULTILINE)
    ends = _Ends(path, [each for each in parts if each.startswith("ReservationName=")], zone)
    for record in parts:
        if not record.startswith("NodeName="):
            continue
        fields = fields_of(record, _FREE)
        where = f"{path}: node {shown(fields['NodeName'])}"
        names = node_names(fields["NodeName"])
        state = read_state(fields["State"]) if "State" in fields else None
        # Behind what somebody wrote, of which the last is Slurm's.
        inside = ["", *re.findall(r"\sReservationName=(\S+)", record)][-1]
        until = None
        floats = state is not None and ends.only_float(state.away, names, inside)
        if state is not None and floats:
            state = state._replace(names=state.names - {RESERVED, MAINTENANCE})
        if state is not None and state.away:
            resume = fields.get("ResumeAfterTime", "")
            resumed = date_if_any(resume, f"{where}: ResumeAfterTime", zone)
            until = ends.of(state.away, names, inside, resumed)
        busy = int(fields["CPUAlloc"]) if "CPUAlloc" in fields else None
        yield _Listed(
            names,
            _usable(fields["CPUTot"], fields.get("CPUEfctv")),
            fields["Gres"],
            _split(fields.get("Partitions", "")),
            state,
            busy,
            until,
            floats,
        )


class _Ends:
    """Ends of states: those of the active reservations, as text, and of what is resumed later."""

    def __init__(self, path: str, records: Sequence[str], zone: ZoneInfo | None = None) -> None:
        self._of: list[tuple[str, set[str], float]] = []
        self._floating: list[tuple[str, set[str]]] = []
        for record in records:
            fields = fields_of(record, ("Comment",))
            name = fields["ReservationName"]
            nodes = {*node_names(fields.get("Nodes", ""))}
            if fields.get("State") == "ACTIVE":
                where = f"{path}: reservation {shown(name)}: EndTime"
                end = local_date(fields.get("EndTime", ""), where, zone)
                self._of.append((name, nodes, end))
            elif "TIME_FLOAT" in fields.get("Flags", "").split(","):
                self._floating.append((name, nodes))

    def only_float(self, states: Iterable[str], names: Sequence[str], inside: str) -> bool:
        """Return whether nodes are in these states only for a reservation whose start moves with
        the clock: Slurm gives them to jobs that end before it.
        """
        if not states or not {RESERVED, MAINTENANCE}.issuperset(states):
            return False
        active = any(name == inside or not on.isdisjoint(names) for name, on, _ in self._of)
        floating = any(name == inside or not on.isdisjoint(names) for name, on in self._floating)
        return floating and not active

    def of(
        self, states: Iterable[str], names: Sequence[str], inside: str, resumed: float | None
    ) -> float | None:
        """Return when nodes leave these states, for all of which the end has to be known."""
        reserved = [
            end for name, nodes, end in self._of if name == inside or not nodes.isdisjoint(names)
        ]
        ends = [
            resumed if each in ("DOWN", "DRAIN") else max(reserved, default=None)
            for each in states
            if each in ("DOWN", "DRAIN", MAINTENANCE, RESERVED)
        ]
        known = [each for each in ends if each is not None]
        return max(known) if known and len(known) == len([*states]) else None


def _of_table(text: str) -> Iterator[_Listed]:
    """Yield the nodes in a table of ``sinfo``."""
    lines = [line for line in text.splitlines() if line.strip()]
    # Before its header, sinfo --long prints the date.
    start = ["PARTITION" in line for line in lines].index(True)
    header, *rows = lines[start:]
    mark = "|" if "|" in header else None
    names = [name.strip() for name in header.split(mark)]
    for row in rows:
        cells = dict(zip(names, map(str.strip, row.split(mark)), strict=False))
        listed = cells.get("NODELIST") or cells.get("HOSTNAMES", "")
        nodes = node_names(listed)
        count = int(cells.get("NODES", len(nodes) or 1))
        if (nodes and len(nodes) != count) or listed.count("[") != listed.count("]"):
            raise ValueError(row)  # The list was cut.
        state = cells.get("STATECOMPLETE") or cells.get("STATE")
        in_use = cells.get("CPUS(A/I/O/T)", "").partition("/")[0]
        yield _Listed(
            nodes or [""] * count,
            int(cells["CPUS"]),
            cells.get("GRES", ""),
            _split(cells["PARTITION"]),
            None if state is None else read_state(state),
            int(in_use) if in_use else None,
        )


def _of_json(text: str, path: str) -> Iterator[_Listed]:
    """Yield the nodes in JSON: of ``scontrol show node``, or of ``sinfo``, which before Slurm 23.02
    wrote the same, and since then nodes of a kind together.
    """
    data = msgspec.json.decode(text, type=dict[str, Any])
    if errors := data.get("errors"):
        raise InputError(f"{path}: Slurm failed ({shown(errors)}); {_EXPECTED}")
    for each in data.get("sinfo", ()):
        cores = each["cpus"]["maximum"]
        if cores != each["cpus"]["minimum"]:
            raise ValueError(cores)
        names = [name for listed in each["nodes"]["nodes"] for name in node_names(listed)]
        yield _Listed(
            names,
            int(cores),
            each["gres"]["total"],
            [each["partition"]["name"]],
            _state_in(each["node"]),
            _whole(each["cpus"].get("allocated")),
        )
    for each in data["nodes"] if "sinfo" not in data else ():
        state, until = _state_in(each), None
        where = f"{path}: node {each['name']}: resume_after"
        resume = slurm_number(each.get("resume_after"), where)
        if state.away and {*state.away} <= {"DOWN", "DRAIN"} and 0 < resume < math.inf:
            until = checked_date(resume, resume, where)
        yield _Listed(
            node_names(each["name"]),
            _usable(each["cpus"], each.get("effective_cpus")),
            each.get("gres") or "",
            _split(",".join(each.get("partitions") or [])),
            state,
            _whole(each.get("alloc_cpus")),
            until,
        )


def _usable(cores: Any, effective: Any) -> int:
    """Return the cores of a node that jobs get: without those that are kept for the system
    (CoreSpecCount), where the ``effective`` ones are told.
    """
    return min(int(cores), int(effective)) if effective else int(cores)


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _state_in(record: Mapping[str, Any]) -> SlurmNodeState:
    """Return the state in JSON: a list, or a word and, in older versions, a list of flags."""
    told, flags = record["state"], record.get("state_flags") or []
    words = told.split("+") if isinstance(told, str) else told
    return read_state([*words, *flags])
