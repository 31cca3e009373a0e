"""Nodes of a machine as Slurm reports them: sizes of its partitions, and which nodes are away."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from qops_batsim.core.host_properties import machine_of
from qops_batsim.core.machine import Machine
from qops_batsim.errors import InputError, printable, shown
from qops_batsim.files import read_text
from qops_batsim.slurm.node_states import (
    MAINTENANCE,
    RESERVED,
    SlurmNodeState,
    read_state,
)
from qops_batsim.slurm.resources import generic_amounts, gpus_of
from qops_batsim.slurm.values import (
    checked_date,
    date_if_any,
    fields_of,
    finite_number,
    local_date,
)
from qops_batsim.workload.accounting.node_sizes import Node, NodeAway, NodeSizes, node_names

_EXPECTED = (
    "the output of `scontrol show node` (text or --json), or of `sinfo` with the columns "
    "PARTITION, NODELIST (NODES is enough for one partition), CPUS, GRES and STATE (sinfo --Node "
    "--format='%N|%P|%c|%G|%T'), is expected"
)
_FREE = ("Reason", "Comment", "Extra")
"""Fields of a node that hold what somebody wrote."""
_MOST_BYTES = 1 << 28

_RESUMED = {"DOWN", "DRAIN"}
"""States that end when a node is resumed; others end with a reservation."""


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
    is_json = text.lstrip().startswith("{")
    is_table = not is_json and "NodeName=" not in text
    try:
        if is_json:
            kinds = [*_of_json(text, path)]
        elif is_table:
            kinds = [*_of_table(text)]
        else:
            zone = None if time_zone is None else ZoneInfo(time_zone)
            kinds = [*_of_records(text, path, zone)]
        rows = [
            (partition, node, kind, place)
            for kind in kinds
            for partition in kind.partitions
            for place, node in enumerate(kind.nodes(path))
        ]
    except (KeyError, ValueError, IndexError, TypeError, AttributeError, msgspec.DecodeError):
        raise InputError(f"{path}: is no list of nodes; {_EXPECTED}") from None

    sizes = NodeSizes((partition, node) for partition, node, _, _ in rows)
    sizes.hides_reserved = is_table
    sizes.read_machine = partial(_machine, kinds)
    sizes.read_properties = partial(_properties, kinds)
    in_use = [kind.memory_in_use for kind in kinds if kind.busy]
    sizes.shares_memory = bool(in_use) and not any(used != 0 for used in in_use)
    away: list[tuple[str, NodeAway]] = []
    asleep: list[tuple[str, Node]] = []
    doubts: set[tuple[str, Node]] = set()
    seen: set[tuple[str, str]] = set()
    for partition, node, kind, place in rows:
        name, cores, _ = node
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

        state = kind.state
        if state is not None and state.away:
            away.append((partition, NodeAway(node, state.away, kind.until, kind.busy_of(place))))
        if state is not None and state.is_asleep:
            asleep.append((partition, node))
        # A node of several partitions counts once, if its name tells that.
        if kind.doubt and (kind.doubt, node) not in doubts:
            sizes.unsure[kind.doubt] += 1
            if name:
                doubts.add((kind.doubt, node))
    sizes.set_away(away)
    sizes.set_asleep(asleep)

    if not sizes:
        raise InputError(f"{path}: names no partition; {_EXPECTED}")
    if len(sizes) > 1 and any(not name for _, (name, *_), _, _ in rows):
        raise InputError(
            f"{path}: does not tell which nodes partitions {', '.join(sizes)} have, and "
            f"they may share nodes; {_EXPECTED}"
        )
    return sizes


class _NodeKind(NamedTuple):
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
    memory: int = 0
    """Memory that jobs get of each (MB), 0 if that is not told."""
    features: Sequence[str] = ()
    weight: int = 0
    memory_in_use: int | None = None
    """What jobs have of it on all of them (MB), None if that is not told."""
    threads: int = 1
    """Processors of each core, as far as that is told."""

    @property
    def properties(self) -> dict[str, str]:
        """What each has, as properties of a host."""
        told = {"cores": str(self.cores), "memory": str(self.memory << 20)}
        for kind, amount in generic_amounts(self.gres).items():
            told[kind if kind.startswith("gpus") else f"kind:{kind}"] = str(amount)
        if self.threads > 1:
            told["threads"] = str(self.threads)
        labels = ",".join(dict.fromkeys([*self.partitions, *self.features]))
        return {**told, "labels": labels, "weight": str(self.weight)}

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
        if self.state.unknown:
            words = printable("+".join(self.state.unknown).upper())
            return f"nodes in a state that is not known ({words}), counted as there"
        told = "nodes of a reservation with TIME_FLOAT, counted: only short jobs get them"
        return told if self.floats else ""

    def busy_of(self, place: int) -> int | None:
        """Return how many cores of the node at a place are in use: an equal share of them all."""
        if self.state is not None and not self.state.may_have_jobs:
            return 0
        if self.busy is None:
            return None
        count = len(self.names)
        return self.busy * (place + 1) // count - self.busy * place // count


def _properties(kinds: Iterable[_NodeKind]) -> dict[str, dict[str, str]]:
    """Return what each node has as properties of a host, by its name."""
    hosts: dict[str, dict[str, str]] = {}
    for kind in kinds:
        for name in kind.names:
            told = kind.properties
            labels = hosts.get(name, told)["labels"].split(",") + told["labels"].split(",")
            hosts[name] = told | {"labels": ",".join(dict.fromkeys(filter(None, labels)))}
    return hosts


def _machine(kinds: Iterable[_NodeKind]) -> Machine | None:
    """Return what all nodes have, by name; None if it is not told of all by name."""
    hosts = _properties(kinds)
    if "" in hosts:
        return None
    names = sorted(hosts)
    return machine_of([hosts[name] for name in names], names)


def _split(partitions: str) -> list[str]:
    return [name for name in partitions.replace("*", "").split(",") if name]


def _of_records(text: str, path: str, zone: ZoneInfo | None) -> Iterator[_NodeKind]:
    """Yield the nodes in the text of ``scontrol show node``."""
    parts = re.split(r"^(?=NodeName=|ReservationName=)", text, flags=re.MULTILINE)
    reservations = [part for part in parts if part.startswith("ReservationName=")]
    ends = _Ends(path, reservations, zone)
    for record in parts:
        if not record.startswith("NodeName="):
            continue
        fields = fields_of(record, _FREE)
        names = node_names(fields["NodeName"])
        state = read_state(fields["State"]) if "State" in fields else None
        # Behind what somebody wrote, of which the last is Slurm's.
        inside = ["", *re.findall(r"\sReservationName=(\S+)", record)][-1]

        floats = state is not None and ends.only_float(state.away, names, inside)
        if state is not None and floats:
            state = state._replace(names=state.names - {RESERVED, MAINTENANCE})
        until = None
        if state is not None and state.away:
            where = f"{path}: node {shown(fields['NodeName'])}: ResumeAfterTime"
            resumed = date_if_any(fields.get("ResumeAfterTime", ""), where, zone)
            until = ends.of(state.away, names, inside, resumed)
        yield _NodeKind(
            names,
            _usable(fields["CPUTot"], fields.get("CPUEfctv")),
            fields["Gres"],
            _split(fields.get("Partitions", "")),
            state,
            _whole(fields.get("CPUAlloc")),
            until,
            floats,
            _memory(fields.get("RealMemory"), fields.get("MemSpecLimit")),
            _features(fields.get("AvailableFeatures") or fields.get("Features")),
            _whole(fields.get("Weight")) or 0,
            _whole(fields.get("AllocMem")),
            _whole(fields.get("ThreadsPerCore")) or 1,
        )


class _Ends:
    """Ends of states: those of the active reservations, as text, and of what is resumed later."""

    def __init__(self, path: str, records: Sequence[str], zone: ZoneInfo | None) -> None:
        self._active: list[tuple[str, set[str], float]] = []
        self._floating: list[tuple[str, set[str], float]] = []
        for record in records:
            fields = fields_of(record, ("Comment",))
            name = fields["ReservationName"]
            nodes = {*node_names(fields.get("Nodes", ""))}
            if fields.get("State") == "ACTIVE":
                where = f"{path}: reservation {shown(name)}: EndTime"
                end = local_date(fields.get("EndTime", ""), where, zone)
                self._active.append((name, nodes, end))
            elif "TIME_FLOAT" in fields.get("Flags", "").split(","):
                self._floating.append((name, nodes, 0.0))

    def only_float(self, states: Sequence[str], names: Sequence[str], inside: str) -> bool:
        """Return whether nodes are in these states only for a reservation whose start moves with
        the clock: Slurm gives them to jobs that end before it.
        """
        if not states or not {RESERVED, MAINTENANCE}.issuperset(states):
            return False
        floating = _ends_on(self._floating, names, inside)
        return bool(floating) and not _ends_on(self._active, names, inside)

    def of(
        self, states: Sequence[str], names: Sequence[str], inside: str, resumed: float | None
    ) -> float | None:
        """Return when nodes leave these states, for all of which the end has to be known."""
        reserved = max(_ends_on(self._active, names, inside), default=None)
        ends = [
            resumed if state in _RESUMED else reserved
            for state in states
            if state in {*_RESUMED, MAINTENANCE, RESERVED}
        ]
        known = [end for end in ends if end is not None]
        return max(known) if known and len(known) == len(states) else None


def _ends_on(
    reservations: Sequence[tuple[str, set[str], float]], names: Sequence[str], inside: str
) -> list[float]:
    """Return the ends of the reservations that have one of the nodes, or the name ``inside``."""
    return [
        end for name, nodes, end in reservations if name == inside or not nodes.isdisjoint(names)
    ]


def _of_table(text: str) -> Iterator[_NodeKind]:
    """Yield the nodes in a table of ``sinfo``."""
    lines = [line for line in text.splitlines() if line.strip()]
    # Before its header, sinfo --long prints the date.
    start = ["PARTITION" in line for line in lines].index(True)
    header, *rows = lines[start:]
    mark = "|" if "|" in header else None
    heads = [name.strip() for name in header.split(mark)]
    for row in rows:
        cells = dict(zip(heads, map(str.strip, row.split(mark)), strict=False))
        listed = cells.get("NODELIST") or cells.get("HOSTNAMES", "")
        names = node_names(listed)
        count = int(cells.get("NODES", len(names) or 1))
        if (names and len(names) != count) or listed.count("[") != listed.count("]"):
            raise ValueError(row)  # The list was cut.

        state = cells.get("STATECOMPLETE") or cells.get("STATE")
        in_use = cells.get("CPUS(A/I/O/T)", "").partition("/")[0]
        yield _NodeKind(
            names or [""] * count,
            int(cells["CPUS"]),
            cells.get("GRES", ""),
            _split(cells["PARTITION"]),
            None if state is None else read_state(state),
            _whole(in_use or None),
            memory=_memory(cells.get("MEMORY"), None),
            features=_features(cells.get("AVAIL_FEATURES") or cells.get("FEATURES")),
            weight=_whole(cells.get("WEIGHT")) or 0,
        )


def _of_json(text: str, path: str) -> Iterator[_NodeKind]:
    """Yield the nodes in JSON: of ``scontrol show node``, or of ``sinfo``, which before Slurm 23.02
    wrote the same, and since then nodes of a kind together.
    """
    data = msgspec.json.decode(text, type=dict[str, Any])
    if errors := data.get("errors"):
        raise InputError(f"{path}: Slurm failed ({shown(errors)}); {_EXPECTED}")

    for kind in data.get("sinfo", ()):
        cores = kind["cpus"]["maximum"]
        if cores != kind["cpus"]["minimum"]:
            raise ValueError(cores)
        yield _NodeKind(
            [name for listed in kind["nodes"]["nodes"] for name in node_names(listed)],
            int(cores),
            kind["gres"]["total"],
            [kind["partition"]["name"]],
            _state_in(kind["node"]),
            _whole(kind["cpus"].get("allocated")),
            memory=_memory((kind.get("memory") or {}).get("minimum"), None),
            features=_features((kind.get("features") or {}).get("total")),
        )

    for node in data["nodes"] if "sinfo" not in data else ():
        state = _state_in(node)
        where = f"{path}: node {node['name']}: resume_after"
        until = finite_number(node.get("resume_after"), where) or None
        if not state.away or not _RESUMED.issuperset(state.away):
            until = None
        yield _NodeKind(
            node_names(node["name"]),
            _usable(node["cpus"], node.get("effective_cpus")),
            node.get("gres") or "",
            _split(",".join(node.get("partitions") or [])),
            state,
            _whole(node.get("alloc_cpus")),
            until and checked_date(until, until, where),
            memory=_memory(node.get("real_memory"), node.get("specialized_memory")),
            features=_features(node.get("features")),
            weight=_whole(node.get("weight")) or 0,
            memory_in_use=_whole(node.get("alloc_memory")),
        )


def _usable(cores: Any, effective: Any) -> int:
    """Return the cores of a node that jobs get: without those that are kept for the system
    (CoreSpecCount), where the ``effective`` ones are told.
    """
    return min(int(cores), int(effective)) if effective else int(cores)


def _memory(told: Any, kept: Any) -> int:
    """Return the memory of a node that jobs get (MB), without what is kept for the system."""
    # With a plus, a table of sinfo tells the least of several nodes.
    return max(int(str(told or 0).rstrip("+")) - int(kept or 0), 0)


def _features(told: Any) -> list[str]:
    listed = told if isinstance(told, list) else str(told or "").split(",")
    return [name.strip() for name in listed if name.strip() and name.strip() != "(null)"]


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _state_in(record: dict[str, Any]) -> SlurmNodeState:
    """Return the state in JSON: a list, or a word and, in older versions, a list of flags."""
    told = record["state"]
    words = told.split("+") if isinstance(told, str) else told
    return read_state([*words, *(record.get("state_flags") or [])])
