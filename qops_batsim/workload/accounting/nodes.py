"""Nodes of a machine as Slurm reports them: sizes of its partitions, now and over time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np

from qops_batsim.errors import InputError
from qops_batsim.files import read_text

_EXPECTED = (
    "the output of `scontrol show node`, or of `sinfo` with the columns PARTITION, NODELIST (NODES "
    "is enough for one partition), CPUS and GRES (sinfo --Node --format='%N|%P|%c|%G'), is expected"
)
_GPUS = re.compile(r"gpu(?::[A-Za-z][^:,()\s]*)?:(\d{1,4})")
_AWAY = re.compile(
    r"(?m)^ *State=(?:\S*\+)?(?:DOWN|DRAIN|DRAINED|DRAINING|FAIL|FAILING|MAINT)(?:[*+~#$@%^!-]|\b)"
)
_MOST_BYTES = 1 << 28

Node = tuple[str, int, int]
"""Name of a node, empty where it is not told, its cores, and its GPUs."""


class NodeSizes(dict[str, dict[str, int]]):
    """Cores, nodes and GPUs (``cores``, ``nodes``, ``gpus``) of partitions by name.

    Partitions may have nodes in common: together they are a pool, in which these count once. Of all
    nodes, ``away`` are down or drained, as far as is told.
    """

    def __init__(self, nodes: Iterable[tuple[str, Node]]) -> None:
        self.away = 0
        self._asleep: dict[str, Counter[Node]] = {}
        self._nodes: dict[str, Counter[Node]] = {}
        for partition, node in nodes:
            self._nodes.setdefault(partition, Counter())[node] += 1
        super().__init__({name: self.together([name]) for name in self._nodes})

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


def gpus_of(gres: str) -> int:
    """Return the number of GPUs in a node's generic resources (Gres).

    >>> gpus_of("gpu:a100:4(S:0-1),gpu:v100:2,nvme:1"), gpus_of("gpu:8"), gpus_of("(null)")
    (6, 8, 0)
    """
    return sum(map(int, _GPUS.findall(gres)))


def read_nodes(path: str | Path) -> NodeSizes:
    """Read a list of nodes (``scontrol show node``, or ``sinfo``) into sizes of partitions."""
    return nodes_of(read_text(path, what="a list of nodes", max_bytes=_MOST_BYTES), str(path))


def nodes_of(text: str, path: str) -> NodeSizes:
    """Parse a list of nodes as :func:`read_nodes` does; messages name ``path``."""
    try:
        nodes = [
            (partition, (name, cores, gpus_of(gres)), state)
            for partitions, names, cores, gres, state in (
                _records(text) if "NodeName=" in text else _table(text)
            )
            for partition in filter(None, partitions.replace("*", "").split(","))
            for name in names
        ]
    except (KeyError, ValueError, IndexError):
        raise InputError(f"{path}: is no list of nodes; {_EXPECTED}") from None
    sizes = NodeSizes((partition, node) for partition, node, _ in nodes)
    sizes.set_asleep((partition, node) for partition, node, state in nodes if _is_asleep(state))
    sizes.away = len(_AWAY.findall(text))
    if not sizes:
        raise InputError(f"{path}: names no partition; {_EXPECTED}")
    if len(sizes) > 1 and any(not name for _, (name, *_), _ in nodes):
        raise InputError(
            f"{path}: does not tell which nodes partitions {', '.join(sizes)} have, and "
            f"they may share nodes; {_EXPECTED}"
        )
    return sizes


_Nodes = list[tuple[str, list[str], int, str, str]]
"""Partitions, names of nodes of a kind, cores of each, their generic resources, and their state."""


def _is_asleep(state: str) -> bool:
    """Return whether a node has no jobs and is powered down, or on its way to or from that.

    >>> [*map(_is_asleep, ("IDLE+CLOUD+POWERED_DOWN", "idle~", "MIXED+CLOUD", "idle*", "IDLE"))]
    [True, True, False, False, False]
    """
    base, _, flags = state.upper().partition("+")
    plain = base.rstrip("*~#%!")
    is_powered = "POWER" in flags or not set("~#%!").isdisjoint(base)
    return plain == "IDLE" and is_powered and "DRAIN" not in flags


def _records(text: str) -> _Nodes:
    found = []
    for record in re.split("^NodeName=", text, flags=re.MULTILINE)[1:]:
        # Of two, the first counts: the second is in what somebody wrote of the node, at the end.
        fields = dict(reversed(re.findall(r"(\w+)=(\S+)", record)))
        names, cores = node_names(record.split()[0]), int(fields["CPUTot"])
        state = fields.get("State", "")
        found.append((fields.get("Partitions", ""), names, cores, fields["Gres"], state))
    return found


def _table(text: str) -> _Nodes:
    lines = [line for line in text.splitlines() if line.strip()]
    # Before its header, sinfo --long prints the date.
    start = ["PARTITION" in line for line in lines].index(True)
    header, *rows = lines[start:]
    mark = "|" if "|" in header else None
    names = [name.strip() for name in header.split(mark)]
    found = []
    for row in rows:
        cells = dict(zip(names, map(str.strip, row.split(mark)), strict=False))
        listed = cells.get("NODELIST", "")
        nodes = node_names(listed)
        count = int(cells.get("NODES", len(nodes) or 1))
        if (nodes and len(nodes) != count) or listed.count("[") != listed.count("]"):
            raise ValueError(row)  # The list was cut.
        told = nodes or [""] * count, int(cells["CPUS"]), cells.get("GRES", "")
        found.append((cells["PARTITION"], *told, cells.get("STATE", "")))
    return found


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
