"""Nodes of a machine as Slurm tells them: sizes of its partitions."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from qops_batsim.errors import InputError
from qops_batsim.files import read_text
from qops_batsim.workload.accounting.rows import NodeSizes

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
