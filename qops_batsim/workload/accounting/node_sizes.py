"""Nodes of a machine as a batch system names them: sizes of its partitions, now and over time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, ItemsView, Iterable, Mapping
from functools import reduce
from itertools import accumulate
from operator import or_
from typing import Any, NamedTuple, TypeVar

from qops_batsim.core.machine import Machine
from qops_batsim.errors import InputError
from qops_batsim.platform.platform_model import Platform

RESERVED = "RESERVED"
"""State of a node in a reservation that is active."""

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
        self.are_labels = False
        """Whether partitions are labels of hosts, some of which may be features."""
        self.read_machine: Callable[[], Machine | None] = _no_machine
        """Return what each node has, with its partitions and features as labels; None if that is
        not told."""
        self.read_properties: Callable[[], dict[str, dict[str, str]]] = dict
        """Return what each node has as properties of a host, by its name."""
        self.shares_memory = False
        """Whether jobs are on nodes and hold none of their memory: Slurm does not count it."""
        self._nodes = _by_partition(nodes)
        super().__init__({name: self.together([name]) for name in self._nodes})

    def set_away(self, nodes: Iterable[tuple[str, NodeAway]]) -> None:
        """Set which nodes Slurm does not use, by partition."""
        self._away = _by_partition(nodes)

    def away(self, partitions: Iterable[str], *, reserved: bool = True) -> list[NodeAway]:
        """Return the nodes of some partitions that Slurm does not use now.

        Nodes that are only ``reserved`` are among them, unless jobs of reservations count.
        """
        named: dict[Node, NodeAway] = {}
        unnamed: list[NodeAway] = []
        for away, count in _union(self._away, partitions):
            if not away.node[0]:
                unnamed += [away] * count
                continue
            # Rows of partitions differ in the processors that are in use on a node, where these
            # are told of several nodes together.
            other = named.get(away.node, away)
            named[away.node] = max(away, other, key=lambda one: one.busy or 0)
        return [away for away in (*named.values(), *unnamed) if reserved or away.why != (RESERVED,)]

    def also_reserved(
        self, partitions: Iterable[str], names: Collection[str], away: Iterable[NodeAway]
    ) -> list[NodeAway]:
        """Return further nodes, of these ``names``, that are in reservations: a table of ``sinfo``
        says of a node in use, but for maintenance, only that it is in use.
        """
        if not self.hides_reserved:
            return []
        nodes = {node for node, _ in _union(self._nodes, partitions)}
        others = nodes - {known.node for known in away}
        inside = sorted(node for node in others if node[0] in names)
        return [NodeAway(node, (RESERVED,), None, None) for node in inside]

    def set_asleep(self, nodes: Iterable[tuple[str, Node]]) -> None:
        """Set which nodes are powered down, by partition: they come when a job needs them."""
        self._asleep = _by_partition(nodes)

    def asleep(self, partitions: Iterable[str]) -> int:
        """Return the cores of the nodes of some partitions that are powered down."""
        return sum(count * cores for (_, cores, _), count in _union(self._asleep, partitions))

    def asleep_names(self, partitions: Iterable[str]) -> frozenset[str]:
        """Return the names of the nodes of some partitions that are powered down."""
        return frozenset(name for (name, _, _), _ in _union(self._asleep, partitions))

    def machine_of(self, partitions: Collection[str]) -> Machine | None:
        """Return what the nodes of some partitions have that jobs hold; None if it is not told of
        all by name.
        """
        machine = self.read_machine()
        if machine is None:
            return None
        names = {name for (name, _, _), _ in _union(self._nodes, partitions)}
        machine = machine.only([at for at, name in enumerate(machine.names) if name in names])
        return machine.without("memory") if self.shares_memory else machine

    def together(self, partitions: Iterable[str]) -> dict[str, int]:
        """Return the cores, nodes and GPUs of these partitions in all; shared nodes count once."""
        sizes = {"cores": 0, "nodes": 0, "gpus": 0}
        for (_, cores, gpus), count in _union(self._nodes, partitions):
            sizes["cores"] += count * cores
            sizes["nodes"] += count
            sizes["gpus"] += count * gpus
        return sizes

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
        for pool in [] if self.are_labels else pools_of(self.spans):
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


def nodes_of_platform(platform: Platform) -> NodeSizes:
    """Return the hosts of a platform as nodes, whose labels are the partitions.

    InputError if they have no amounts.
    """
    machine = platform.shared_machine()
    nodes = []
    for place, name in enumerate(machine.names):
        has = machine.of_host(place)
        node = (name, has.get("cores", 0), has.get("gpus", 0))
        labels = [label for label, bits in machine.labels.items() if bits >> place & 1]
        nodes += [(label, node) for label in labels or [""]]
    sizes = NodeSizes(nodes)
    sizes.are_labels = True
    sizes.read_machine = platform.shared_machine
    return sizes


def _no_machine() -> None:
    return None


_Counted = TypeVar("_Counted")


def _by_partition(nodes: Iterable[tuple[str, _Counted]]) -> dict[str, Counter[_Counted]]:
    """Return how often there is each node, by partition."""
    counts: dict[str, Counter[_Counted]] = {}
    for partition, node in nodes:
        counts.setdefault(partition, Counter())[node] += 1
    return counts


def _union(
    counts: Mapping[str, Counter[_Counted]], partitions: Iterable[str]
) -> ItemsView[_Counted, int]:
    """Return the counts of some partitions together: of each the greatest."""
    none: Counter[_Counted] = Counter()
    return reduce(or_, (counts.get(name, none) for name in partitions), none).items()


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
        begun = [""]
        for plain, ranges in re.findall(r"([^\[]+)|\[([^\]]*)\]", part):
            numbers = [plain] if plain else [n for each in ranges.split(",") for n in _range(each)]
            begun = [name + number for name in begun[:_MOST_NODES] for number in numbers]
        names += begun
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

    begin = min(joined for joined, _ in seen.values())
    end = max(gone for _, gone in seen.values())
    changes: Counter[float] = Counter()
    for joined, gone in seen.values():
        changes[joined if joined > begin + UNSEEN else begin] += 1
        if gone < end - UNSEEN:
            changes[gone] -= 1
    dates = sorted(changes)
    return list(zip(dates, accumulate(changes[date] for date in dates), strict=True))
