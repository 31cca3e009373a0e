"""Amounts of resources in Slurm's lists of them: Gres of a node, TRES of a job or a reservation."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from qops_batsim.errors import InputError, shown
from qops_batsim.job_fields import KINDS, complete_amounts
from qops_batsim.workload.accounting.cells import is_none, read_memory

_MEMORY = re.compile(r"(?:^|,)mem=([0-9.]+[KMGTPE]?)")
_SHARDS = re.compile(r"(?:^|[\s,]|gres[/:])(?:shard|mps)\b")
_LICENCE = re.compile(r"([\w.+/-]+)(?:@[\w.:-]+?)?(?:[:=](\d{1,9}))?")

MOST_GPUS = 256
"""Most GPUs of a node that are believed: a greater number is the name of a type."""

_INDICES = re.compile(r"\([^)]*\)")
"""Sockets or indices behind an amount: ``(S:0-1)``, ``(IDX:0,3)``."""

_COUNT = re.compile(r"[0-9]{1,9}")


def _amounts_in(resources: str) -> Iterator[tuple[str, str, str]]:
    """Yield the name, type and count of each resource in a list.

    In a TRES list amounts stand behind ``=``, in one of generic resources behind the last colon;
    there a name alone is one of it.
    """
    for part in _INDICES.sub("", resources.replace("gres:", "gres/")).split(","):
        entry = part.strip()
        key, mark, count = entry.rpartition("=" if "=" in entry else ":")
        name, _, kind = (key if mark else entry).partition(":")
        yield name, kind, count if mark else "1"


def amount_of(resources: str, name: str) -> float:
    """Return the amount of a resource in a list, summed over its types; NaN if absent.

    A type may have any name, digits first as well; an amount that is no number is not counted.

    >>> amount_of("cpu=4,gres/gpu:a100=2,gres/gpu:1g.10gb=1", "gres/gpu"), amount_of("cpu=4", "cpu")
    (3.0, 4.0)
    >>> amount_of("gpu:2080ti:8(S:0-1),gpu:4090:2,shard:4090:8", "gpu"), amount_of("gpu:8", "gpu")
    (10.0, 8.0)
    """
    of_types = []
    for own, kind, count in _amounts_in(resources):
        if own == name and _COUNT.fullmatch(count):
            if "=" in resources and not kind:
                return float(count)  # The total, next to its types.
            of_types.append(float(count))
    return sum(of_types) if of_types else math.nan


def memory_of(tres: str) -> float:
    """Return the memory in a TRES list (bytes), 0 if absent.

    >>> memory_of("cpu=4,mem=2G,node=1"), memory_of("cpu=4")
    (2147483648.0, 0.0)
    """
    match = _MEMORY.search(tres)
    return read_memory(match[1])[0] if match else 0.0


def names_shards(resources: str) -> bool:
    """Return whether a list names parts of GPUs (``shard``, ``mps``)."""
    return _SHARDS.search(resources) is not None


def licences_in(text: str) -> dict[str, int]:
    """Return licences as jobs ask for them, by name without server; a name alone is one.

    >>> licences_in("matlab:1,ansys@server:2;idl")
    {'matlab': 1, 'ansys': 2, 'idl': 1}
    """
    listed = [] if is_none(text) else re.split("[,;]", text)
    matches = filter(None, (_LICENCE.fullmatch(entry.strip()) for entry in listed))
    return {match[1]: int(match[2] or 1) for match in matches}


_NO_AMOUNTS = ("", "shard", "mps", "gpumem", "gpuutil", *KINDS)
"""Generic resources that are parts or figures of GPUs, or whose names mean something else here."""


def generic_amounts(resources: str) -> dict[str, int]:
    """Return amounts of generic resources by kind: ``gpus``, ``gpus:TYPE``, and a site's own.

    ``resources`` are TRES of a job, or Gres of a node. Shards of GPUs are left out.

    >>> generic_amounts("cpu=4,gres/gpu=2,gres/gpu:a100=2,gres/shard=8,gres/fpga=1")
    {'gpus': 2, 'fpga': 1, 'gpus:a100': 2}
    >>> generic_amounts("gpu:2080ti:8(S:0-1),gpu:1g.10gb:7,nvme:1")
    {'gpus': 15, 'gpus:1g.10gb': 7, 'gpus:2080ti': 8, 'nvme': 1}
    """
    is_tres = "=" in resources
    amounts: Counter[str] = Counter()
    for told, kind, count in _amounts_in(resources):
        name = told.removeprefix("gres/")
        if name in _NO_AMOUNTS or (is_tres and name == told) or not _COUNT.fullmatch(count):
            continue
        if name != "gpu":
            amounts[name] += int(count)
            continue
        # In TRES, a total stands next to its types.
        if kind:
            amounts[f"gpus:{kind}"] += int(count)
        if not (kind and is_tres):
            amounts["gpus"] += int(count)
    return complete_amounts(amounts)


def gpus_of(gres: str) -> int:
    """Return the number of GPUs in a node's generic resources (Gres); InputError where a list is
    cut, or its numbers cannot be told from names.

    >>> gpus_of("gpu:2080ti:8(S:0-1),gpu:1g.10gb:7,nvme:1"), gpus_of("gpu:8"), gpus_of("(null)")
    (15, 8, 0)
    """
    for name, _, count in _amounts_in(gres):
        is_count = _COUNT.fullmatch(count) and int(count) <= MOST_GPUS
        if name in ("gpu", "gres/gpu") and not is_count:
            raise InputError(
                f"{shown(gres)} does not tell how many GPUs a node has; gpu:TYPE:COUNT, or "
                f"gpu:COUNT, of up to {MOST_GPUS:,} is expected (a column that is cut: give it a "
                "width, or :0)"
            )
    return generic_amounts(gres).get("gpus", 0)
