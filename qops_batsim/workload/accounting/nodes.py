"""Nodes of a machine as Slurm reports them: sizes of its partitions, now and over time."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import numpy as np

from qops_batsim.errors import InputError, printable, shown
from qops_batsim.files import read_text
from qops_batsim.workload.accounting.cells import is_none, slurm_number
from qops_batsim.workload.accounting.node_states import (
    MAINTENANCE,
    RESERVED,
    SlurmNodeState,
    read_state,
)
from qops_batsim.workload.accounting.resources import gpus_of
from qops_batsim.workload.accounting.scontrol_text import checked_date, fields_of, local_date

_EXPECTED = (
    "the output of `scontrol show node` (text or --json), or of `sinfo` with the columns "
    "PARTITION, NODELIST (NODES is enough for one partition), CPUS, GRES and STATE (sinfo --Node "
    "--format='%N|%P|%c|%G|%T'), is expected"
)
_FREE = ("Reason", "Comment", "Extra")
"""Fields of a node that hold what somebody wrote."""
_MOST_BYTES = 1 << 28

Node = tuple[str, int, int]
"""Name of a node, empty where it is not told, its cores, and its GPUs."""


class NodeAway(NamedTuple):
    """A node that Slurm does not use now.

    ``why`` are its states, ``until`` when they end (seconds since 1970, None if that is not known);
    of its cores, ``busy`` are in use by jobs, which go on (None if not told).
    """

    node: Node
    why: tuple[str, ...]
    until: float | None
    busy: int | None


class NodeSizes(dict[str, dict[str, int]]):
    """Cores, nodes and GPUs (``cores``, ``nodes``, ``gpus``) of partitions by name.

    Partitions may have nodes in common: together they are a pool, in which these count once. All
    nodes count, those in ``away`` as well. ``unsure`` counts nodes of whose state something is not
    known, by what; ``hides_reserved`` tells that of nodes in use it is not known which are in a
    reservation.
    """

    def __init__(self, nodes: Iterable[tuple[str, Node]]) -> None:
        self._asleep: dict[str, Counter[Node]] = {}
        self._away: dict[str, Counter[NodeAway]] = {}
        self.unsure: Counter[str] = Counter()
        self.hides_reserved = False
        self._nodes: dict[str, Counter[Node]] = {}
        for partition, node in nodes:
            self._nodes.setdefault(partition, Counter())[node] += 1
        super().__init__({name: self.together([name]) for name in self._nodes})

    def set_away(self, nodes: Iterable[tuple[str, NodeAway]]) -> None:
        """Set which nodes Slurm does not use, by partition."""
        for partition, node in nodes:
            self._away.setdefault(partition, Counter())[node] += 1

    def away(self, partitions: Iterable[str], *, reserved: bool = True) -> list[NodeAway]:
        """Return the nodes of some partitions that Slurm does not use now.

        Nodes that are only ``reserved`` are among them, unless jobs of reservations count.
        """
        named: dict[Node, NodeAway] = {}
        unnamed: Counter[NodeAway] = Counter()
        for partition in partitions:
            for each, count in self._away.get(partition, {}).items():
                if not each.node[0]:
                    unnamed[each] = max(unnamed[each], count)
                    continue
                # Rows of partitions differ in the processors that are in use on a node, where
                # these are told of several nodes together.
                other = named.get(each.node, each)
                named[each.node] = max(each, other, key=lambda one: one.busy or 0)
        found = [*named.values(), *unnamed.elements()]
        return [each for each in found if reserved or each.why != (RESERVED,)]

    def also_reserved(
        self, partitions: Iterable[str], names: Collection[str], away: Iterable[NodeAway]
    ) -> list[NodeAway]:
        """Return further nodes, of these ``names``, that are in reservations: a table of ``sinfo``
        says of a node in use, but for maintenance, only that it is in use.
        """
        known = {each.node for each in away}
        named = {node for name in partitions for node in self._nodes.get(name, ())} - known
        inside = sorted(node for node in named if self.hides_reserved and node[0] in names)
        return [NodeAway(node, (RESERVED,), None, None) for node in inside]

    def set_asleep(self, nodes: Iterable[tuple[str, Node]]) -> None:
        """Set which nodes are powered down, by partition: they come when a job needs them."""
        for partition, node in nodes:
            self._asleep.setdefault(partition, Counter())[node] += 1

    def asleep(self, partitions: Iterable[str]) -> int:
        """Return the cores of the nodes of some partitions that are powered down."""
        none: Counter[Node] = Counter()
        rows = reduce(or_, (self._asleep.get(name, none) for name in partitions), none).items()
        return sum(count * cores for (_, cores, _), count in rows)

    def together(self, partitions: Iterable[str]) -> dict[str, int]:
        """Return the cores, nodes and GPUs of these partitions in all; shared nodes count once."""
        none: Counter[Node] = Counter()
        rows = reduce(or_, (self._nodes.get(name, none) for name in partitions), none).items()
        return {
            "cores": sum(count * cores for (_, cores, _), count in rows),
            "nodes": sum(count for _, count in rows),
            "gpus": sum(count * gpus for (_, _, gpus), count in rows),
        }

    def largest(self, partitions: Iterable[str]) -> int:
        """Return the cores of the largest node in some partitions."""
        return max(cores for name in partitions for _, cores, _ in self._nodes[name])

    @property
    def spans(self) -> dict[str, dict[Node, Span]]:
        """The nodes of each partition, all present at the same time, as :func:`pools_of` takes."""
        return {name: dict.fromkeys(nodes, (0.0, 1.0)) for name, nodes in self._nodes.items()}

    def refuse_cut(self, partitions: Iterable[str], *, alike: bool = False) -> None:
        """Raise an InputError if only some of the partitions that share nodes are chosen.

        Asked for ``alike``, refuse those as well that have not all the same nodes, since no plan
        keeps their jobs apart.
        """
        chosen = set(partitions)
        for pool in pools_of(self.spans):
            if chosen.intersection(pool) and not chosen.issuperset(pool):
                raise InputError(
                    f"partitions {', '.join(pool)} share nodes, so that the jobs of one take "
                    f"nodes of the others, but only these are chosen: "
                    f"{', '.join(sorted(chosen.intersection(pool)))}; choose all (--partition)"
                )
        kinds = {frozenset(self._nodes.get(name, {}).items()) for name in chosen}
        if alike and (len(kinds) != 1 or frozenset() in kinds):
            told = ", ".join(f"{n}: {self.together([n])['nodes']} nodes" for n in sorted(chosen))
            raise InputError(
                f"the partitions are not one pool ({told}); choose one partition that has nodes, "
                "or several that have the same nodes (--partition)"
            )


Span = tuple[float, float]
"""Since when and until when a node was there (seconds)."""


def pools_of(spans: Mapping[str, Mapping[Any, Span]]) -> list[list[str]]:
    """Return the partitions in pools; partitions that shared a node at a time are in one pool.

    >>> pools_of({"a": {"n1": (0, 9)}, "b": {"n1": (5, 7), "n2": (0, 9)}, "c": {"n2": (9, 12)}})
    [['a', 'b'], ['c']]
    """
    pools: list[list[str]] = []
    for name in sorted(spans):
        near = [pool for pool in pools if any(_touch(spans[name], spans[one]) for one in pool)]
        pools = [pool for pool in pools if pool not in near] + [sorted(sum(near, [name]))]
    return sorted(pools)


def _touch(one: Mapping[Any, Span], other: Mapping[Any, Span]) -> bool:
    """Return whether any node was in both partitions at the same time."""
    both = one.keys() & other.keys()
    return any(one[at][0] < other[at][1] and other[at][0] < one[at][1] for at in both)


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
            until = ends.of(
                state.away,
                names,
                inside,
                None if is_none(resume) else local_date(resume, f"{where}: ResumeAfterTime", zone),
            )
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
        resume = slurm_number(each.get("resume_after"))
        if state.away and {*state.away} <= {"DOWN", "DRAIN"} and 0 < resume < math.inf:
            until = checked_date(resume, resume, f"{path}: node {each['name']}: resume_after")
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


UNSEEN = 14 * 86_400.0
"""Longest time (seconds) for which a node may be without a job and there all the same, at the
beginning and the end of an accounting."""

_MOST_NODES = 100_000


def node_names(text: str) -> list[str]:
    """Expand a node list in Slurm's notation.

    >>> node_names("gpu[01-03,7],login"), node_names("None assigned"), node_names("r[1-2]n[1-2]")
    (['gpu01', 'gpu02', 'gpu03', 'gpu7', 'login'], [], ['r1n1', 'r1n2', 'r2n1', 'r2n2'])
    """
    if text.startswith("None") or text in ("", "(null)"):
        return []
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        found = [""]
        for plain, ranges in re.findall(r"([^\[]+)|\[([^\]]*)\]", part):
            numbers = [plain] if plain else [n for each in ranges.split(",") for n in _range(each)]
            found = [name + number for name in found[:_MOST_NODES] for number in numbers]
        names += found
    return names


def _range(text: str) -> list[str]:
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and int(last) - int(first) < _MOST_NODES):
        return [text]
    return [f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]


def extend_spans(seen: dict[str, Span], spans: Mapping[str, Span]) -> None:
    """Extend the first and last dates of the nodes in ``seen``, in place, to include ``spans``."""
    for name, (first, last) in spans.items():
        old = seen.get(name, (first, last))
        seen[name] = min(old[0], first), max(old[1], last)


def nodes_over_time(spans: Iterable[Mapping[str, Span]]) -> list[tuple[float, int]]:
    """Return (date, number of nodes from that date on) from when each partition had which nodes.

    A node is there from the first job on it to the last. One whose first or last is less than
    :data:`UNSEEN` from the beginning or end of all was there then, too. Nothing without any node.
    """
    seen: dict[str, Span] = {}
    for nodes in spans:
        extend_spans(seen, nodes)
    if not seen:
        return []
    begins, ends = (np.array(dates) for dates in zip(*seen.values(), strict=True))
    begin, end = float(begins.min()), float(ends.max())
    changes: Counter[float] = Counter()
    for joined in begins.tolist():
        changes[joined if joined > begin + UNSEEN else begin] += 1
    for gone in ends[ends < end - UNSEEN].tolist():
        changes[gone] -= 1
    dates = sorted(changes)
    return list(zip(dates, np.cumsum([changes[date] for date in dates]).tolist(), strict=True))
