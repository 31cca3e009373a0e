"""What jobs in the accounting of PBS and Torque ask of each host.

``Resource_List.select`` has chunks, ``2:ncpus=8:mem=16gb:ngpus=1+1:ncpus=4``, and ``place`` says
whether they may share hosts; Torque's ``nodes`` are ``2:ppn=4:gpus=1+n7``. Where a record has
neither, the job asks for what it had: ``exec_vnode``, or its totals in equal parts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from qops_batsim.job_fields import AskedPart, HostsAsked, complete_amounts

_SIZE = re.compile(r"(\d{1,18})([kmgtp]?)([bw]?)", re.IGNORECASE)
_WORD = 8
_COUNT = re.compile(r"\d{1,6}")
_FEATURE = re.compile(r"[A-Za-z][\w.-]*")
_KINDS = {"ncpus": "cores", "ppn": "cores", "ngpus": "gpus", "gpus": "gpus"}
_PLAIN = ("mpiprocs", "ompthreads", "vmem", "naccelerators", "pvmem")
"""What a chunk may have that asks nothing more of a host."""

Request = tuple[HostsAsked | None, frozenset[str]]
"""What a job asks for, and the rules by which something of it is told."""


def size_in(text: str) -> int:
    """Return a size of PBS in bytes (``16gb``, ``200mw``); 0 if it is none.

    >>> size_in("16gb"), size_in("1kw"), size_in("7"), size_in("x")
    (17179869184, 8192, 7, 0)
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return 0
    words = _WORD if match[3].lower() == "w" else 1
    return int(match[1]) * words << 10 * " kmgtp".index(match[2].lower() or " ")


def pbs_request(fields: Mapping[str, str], hosts: float, cores: float, gpus: float) -> Request:
    """Return what a job asks for, by the fields of its records.

    ``hosts``, ``cores`` and ``gpus`` are what it has in all, 0 or NaN where unknown.
    """
    told: set[str] = set()
    place = set(fields.get("Resource_List.place", "free").split(":"))
    alone = bool(place & {"excl", "exclhost"})
    if select := fields.get("Resource_List.select"):
        parts = _placed(chunks_in(select, told), place, told)
    elif nodes := fields.get("Resource_List.nodes"):
        parts = _of_torque(nodes, fields, told)
    elif vnodes := fields.get("exec_vnode"):
        parts = _of_vnodes(vnodes, told)
    else:
        memory = size_in(fields.get("Resource_List.mem", ""))
        totals = {"cores": cores, "memory": memory, "gpus": gpus}
        parts = _of_totals(int(hosts) if hosts > 0 else 0, totals, told)
    if not parts:
        return None, frozenset()

    parts = [replace(part, exclusive=alone or not part.amounts) for part in parts]
    if alone:
        told.add("exclusive")
    if not any("memory" in part.amounts for part in parts):
        told.add("no_memory")
    if not all(part.amounts for part in parts):
        told.add("no_amounts")
    return HostsAsked(parts=tuple(parts)), frozenset(told)


def chunks_in(request: str, told: set[str] | None = None) -> list[AskedPart]:
    """Return the chunks of a request, ``2:ncpus=8+1:ncpus=4``, in which ``#`` begins what is said
    of all; add to ``told`` the rules by which something of them is told.
    """
    told = set() if told is None else told
    texts = (text.partition("#")[0] for text in request.split("+"))
    return [_chunk(text, told) for text in texts if text]


def _chunk(text: str, told: set[str]) -> AskedPart:
    """Read ``2:ncpus=8:mem=16gb``; a chunk has one core where it names none."""
    head, *rest = text.strip().split(":")
    count = int(head) if _COUNT.fullmatch(head) else 1
    if not _COUNT.fullmatch(head):
        rest.insert(0, head)
    amounts = {"cores": 1}
    labels: list[str] = []
    for item in rest:
        name, equals, value = item.partition("=")
        if name in ("mem", "pmem"):
            amounts["memory"] = size_in(value)
        elif name in _KINDS and _COUNT.fullmatch(value):
            amounts[_KINDS[name]] = int(value)
        elif not equals and _FEATURE.fullmatch(name):
            labels.append(name)
        elif name not in _PLAIN:
            told.add("vnodes")
    return AskedPart(hosts=count, amounts=complete_amounts(amounts), labels=tuple(labels))


def _placed(chunks: Iterable[AskedPart], place: set[str], told: set[str]) -> list[AskedPart]:
    """Return chunks as hosts: scattered, packed on one, or free to share hosts, as tasks."""
    parts = _alike(chunks)
    if "pack" in place:
        sums: Counter[str] = Counter()
        for part in parts:
            sums.update({kind: amount * part.hosts for kind, amount in part.amounts.items()})
        return [AskedPart(hosts=1, amounts={kind: sums[kind] for kind in sums})]
    is_single = len(parts) == 1 and parts[0].hosts == 1
    if is_single or place & {"scatter", "vscatter"}:
        return parts
    if len(parts) == 1:
        return [replace(part, tasks=part.hosts) for part in parts]
    told.add("placement")
    return parts


def _alike(chunks: Iterable[AskedPart]) -> list[AskedPart]:
    """Return chunks with those that ask for the same joined, in the order of the first."""
    joined: list[AskedPart] = []
    for chunk in chunks:
        for at, part in enumerate(joined):
            if (part.amounts, part.labels) == (chunk.amounts, chunk.labels):
                joined[at] = replace(part, hosts=part.hosts + chunk.hosts)
                break
        else:
            joined.append(chunk)
    return [part for part in joined if part.hosts]


def _of_torque(nodes: str, fields: Mapping[str, str], told: set[str]) -> list[AskedPart]:
    """Read Torque's ``nodes``; memory is told of the job (``mem``) or a process (``pmem``)."""
    parts = _alike(chunks_in(nodes, told))
    hosts = sum(part.hosts for part in parts)
    each = size_in(fields.get("Resource_List.pmem", ""))
    total = size_in(fields.get("Resource_List.mem", ""))
    found = []
    for part in parts:
        memory = each * part.amounts.get("cores", 1) or -(-total // max(hosts, 1))
        found.append(replace(part, amounts=complete_amounts({**part.amounts, "memory": memory})))
    return found


def _of_vnodes(vnodes: str, told: set[str]) -> list[AskedPart]:
    """Read ``(n1:ncpus=8:mem=16777216kb)+(n2:ncpus=8)``: what a job had of each host."""
    hosts: dict[str, Counter[str]] = {}
    for text in vnodes.replace("(", "").replace(")", "").split("+"):
        name, _, rest = text.partition(":")
        hosts.setdefault(name, Counter()).update(_chunk(f"1:{rest}", told).amounts)
    return _alike(AskedPart(hosts=1, amounts=dict(amounts)) for amounts in hosts.values())


def _of_totals(hosts: int, totals: Mapping[str, float], told: set[str]) -> list[AskedPart]:
    """Return the totals of a job in equal parts of its hosts, if their number is known."""
    if not hosts:
        return []
    known = {kind: int(total) for kind, total in totals.items() if total > 0}
    if any(total % hosts for kind, total in known.items() if kind != "memory"):
        told.add("uneven")
    return [AskedPart(hosts=hosts, amounts={kind: -(-n // hosts) for kind, n in known.items()})]
