"""Nodes of a machine as Slurm tells them: sizes of its partitions, now and over time."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np

from qops_batsim.errors import InputError
from qops_batsim.files import read_text
from qops_batsim.workload.accounting.rows import NodeSizes, Rows

_EXPECTED = (
    "the output of `scontrol show node`, or of `sinfo` with the columns PARTITION, NODES or "
    "NODELIST, CPUS and GRES (sinfo --Node --format='%N|%P|%c|%G'), is expected"
)
_GPUS = re.compile(r"gpu(?::[A-Za-z][^:,()\s]*)?:(\d{1,4})")
_MOST_BYTES = 1 << 28


def gpus_of(gres: str) -> int:
    """Return the GPUs of a node's generic resources.

    >>> gpus_of("gpu:a100:4(S:0-1),gpu:v100:2,nvme:1"), gpus_of("gpu:8"), gpus_of("(null)")
    (6, 8, 0)
    """
    return sum(map(int, _GPUS.findall(gres)))


def read_nodes(path: str | Path) -> NodeSizes:
    """Read the sizes of partitions; a node of several partitions counts in each."""
    text = read_text(path, what="a list of nodes", max_bytes=_MOST_BYTES)
    sizes: dict[str, Counter[str]] = {}
    try:
        rows = _records(text) if "NodeName=" in text else _table(text)
        for partitions, count, cores, gres in rows:
            for name in filter(None, partitions.replace("*", "").split(",")):
                found = sizes.setdefault(name, Counter(cores=0, nodes=0, gpus=0))
                found.update(nodes=count, cores=count * cores, gpus=count * gpus_of(gres))
    except (KeyError, ValueError, IndexError):
        raise InputError(f"{path}: is no list of nodes; {_EXPECTED}") from None
    if not sizes:
        raise InputError(f"{path}: names no partition; {_EXPECTED}")
    return sizes


_Nodes = list[tuple[str, int, int, str]]
"""Partitions, how many nodes of a kind, cores of each, and their generic resources."""


def _records(text: str) -> _Nodes:
    found = []
    for record in text.split("NodeName=")[1:]:
        fields = dict(re.findall(r"(\w+)=(\S+)", record))
        found.append((fields.get("Partitions", ""), 1, int(fields["CPUTot"]), fields["Gres"]))
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
        count = int(cells.get("NODES", "1"))
        found.append((cells["PARTITION"], count, int(cells["CPUS"]), cells.get("GRES", "")))
    return found


UNSEEN = 14 * 86_400.0
"""Longest time (seconds) for which a node may be without a job and there all the same, at the
beginning and the end of an accounting."""

_MOST_NODES = 100_000


def node_names(text: str) -> list[str]:
    """Return the nodes of a list as Slurm writes it.

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


def nodes_over_time(rows: Rows) -> list[tuple[float, int]]:
    """Return since which dates how many nodes were there; nothing if the accounting names none.

    A node is there from the first job on it to the last. One whose first or last is less than
    :data:`UNSEEN` from the beginning or end of all was there then, too.
    """
    ran = rows.started < rows.ended
    if rows.nodes is None or not ran.any():
        return []
    which, count = rows.nodes.which[ran], len(rows.nodes.words)
    first, last = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(first, which, rows.started[ran])
    np.maximum.at(last, which, rows.ended[ran])
    seen: dict[str, tuple[float, float]] = {}
    for place in np.unique(which).tolist():
        span = float(first[place]), float(last[place])
        for name in node_names(rows.nodes.words[place]):
            old = seen.get(name, span)
            seen[name] = min(old[0], span[0]), max(old[1], span[1])
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
