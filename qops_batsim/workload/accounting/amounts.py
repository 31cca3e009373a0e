"""What jobs of a log ask of each host: cores, memory, GPUs and labels of hosts.

Logs tell what a job has in all, and on how many hosts: what does not divide evenly is rounded up.
A column of requests holds :class:`~qops_batsim.job_fields.HostsAsked` as JSON, "" where nothing is
known of a job. What is changed or not known is counted, by the rules of :data:`TOLD`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from qops_batsim.core.machine import Machine
from qops_batsim.job_fields import AskedPart, HostsAsked
from qops_batsim.tables import Booleans, Floats, Words
from qops_batsim.workload.accounting.cells import is_none

if TYPE_CHECKING:
    from qops_batsim.workload.accounting.choices import Choices
    from qops_batsim.workload.accounting.rows import Rows

TOLD = {
    "uneven": ("amounts that do not divide evenly among the hosts", "up"),
    "no_memory": ("no memory requested, or not told: none is asked for", "keep"),
    "memory_scope": ("memory of which the log does not tell whether it is of each host", "no"),
    "all_memory": ("all memory of each host (--mem=0), as --nodes tells it", "given"),
    "all_memory_unknown": ("all memory of each host (--mem=0): --nodes tells how much it is", "no"),
    "no_amounts": ("no amounts told: whole hosts are asked for", "keep"),
    "exclusive": ("hosts of their own", "given"),
    "shards": ("shards of GPUs (not modelled)", "no"),
    "other_kinds": ("other resources that --nodes does not tell (not modelled)", "no"),
    "any_partition": ("of partitions that --nodes does not tell: on any hosts", "keep"),
    "no_nodes": ("partitions or features, of which --nodes tells the hosts", "no"),
    "constraints": ("features joined other than by &, or that no node has (not modelled)", "no"),
    "placement": ("chunks that may share hosts, on hosts of their own", "keep"),
    "vnodes": ("named hosts, or other resources of chunks (not modelled)", "no"),
}
"""What is told of jobs by rule: in words, and what is done."""

MEBIBYTE = 1 << 20

_asked = msgspec.json.Decoder(HostsAsked)


def encoded(asked: HostsAsked | None) -> str:
    """Return a request as text of a column."""
    return "" if asked is None else msgspec.json.encode(asked).decode()


def decoded_request(text: str) -> HostsAsked | None:
    """Return the request of a column's text, None if nothing is known."""
    return _asked.decode(text) if text else None


def hosts_of(asked: HostsAsked | None) -> int:
    """Return the number of hosts of a request, 0 if nothing is known."""
    return 0 if asked is None else sum(part.hosts for part in asked.parts)


def requests_of(
    hosts: Floats,
    amounts: Mapping[str, Floats],
    tasks: Floats | None = None,
    exclusive: Booleans | None = None,
) -> tuple[Words, dict[str, Booleans]]:
    """Return what each job asks for, and of which jobs something is told, by rule.

    Parameters
    ----------
    hosts
        Number of hosts of each job, NaN where unknown.
    amounts
        What it has on all of them together, by kind (at least ``cores`` and ``memory``); NaN where
        unknown.
    tasks
        Number of tasks that share these amounts evenly and may share hosts; 0: it asks by host.
    exclusive
        Which jobs have their hosts alone.
    """
    count = len(hosts)
    tasks = np.zeros(count) if tasks is None else tasks
    # One host has its tasks together, and tasks are alike.
    fit = (tasks >= hosts) & (hosts > 1)
    for kind, totals in amounts.items():
        fit &= (np.nan_to_num(totals) % np.fmax(tasks, 1) == 0) | (kind == "memory")
    tasks = np.where(fit, tasks, 0)
    shares = np.where(tasks > 0, tasks, np.where(hosts > 0, hosts, 1))

    uneven = np.zeros(count, np.bool_)
    columns = [np.where(hosts > 0, hosts, 0), tasks]
    columns.append(np.zeros(count) if exclusive is None else exclusive.astype(np.float64))
    for kind, totals in amounts.items():
        each = np.nan_to_num(totals) / shares
        uneven |= (each != np.floor(each)) & (kind != "memory")
        columns.append(np.ceil(each))

    kinds = [*amounts]
    # One column after the other is faster than all at once.
    which = np.zeros(count, np.int64)
    first = which
    for column in columns:
        values, place = np.unique(column, return_inverse=True)
        pairs = which * len(values) + place
        _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
    rows = np.column_stack([column[first] for column in columns]).tolist()
    texts = []
    for number, of_tasks, alone, *each_kind in rows:
        has = {kind: int(value) for kind, value in zip(kinds, each_kind, strict=True) if value > 0}
        part = AskedPart(
            hosts=int(number),
            amounts=has,
            tasks=int(of_tasks) if has else 0,
            exclusive=bool(alone) or not has,
        )
        texts.append(encoded(HostsAsked(parts=(part,))) if number else "")
    known = hosts > 0
    told = {
        "uneven": known & uneven,
        "no_memory": known & ~(amounts["memory"] > 0),
        "no_amounts": known & ~(amounts["cores"] > 0),
    }
    return Words(texts, which), told


def memory_in_all(
    memory: Floats, of_host: Booleans, of_core: Booleans, hosts: Floats, cores: Floats
) -> Floats:
    """Return the memory of jobs on all their hosts, of which some is told of each host or core."""
    of_one_host = np.where(of_core, memory * np.ceil(cores / hosts), memory)
    in_all: Floats = np.where(of_host | of_core, of_one_host * hosts, memory)
    return in_all


def changed(
    column: Words,
    others: Words,
    change: Callable[[HostsAsked, str], HostsAsked],
) -> Words:
    """Return requests as ``change`` makes them from each and the text of ``others`` in its row."""

    def one(text: str, other: str) -> str:
        asked = decoded_request(text)
        return encoded(asked and change(asked, other))

    return column.changed(others, one)


def merged(requests: Iterable[HostsAsked | None]) -> HostsAsked | None:
    """Return the components of a job as one request, whose parts start together."""
    known = [asked for asked in requests if asked is not None]
    licences: Counter[str] = Counter()
    for asked in known:
        licences.update(asked.licences)
    parts = tuple(part for asked in known for part in asked.parts)
    return HostsAsked(parts=parts, licences=dict(licences)) if parts else None


def merge_requests(column: Words, places: Sequence[Sequence[int]]) -> Words:
    """Return the requests with that of each group's first place made of all its ``places``."""
    texts = list(column.words)
    which = column.which.copy()
    for group in places:
        one = merged(decoded_request(column.words[at]) for at in column.which[list(group)].tolist())
        which[group[0]] = len(texts)
        texts.append(encoded(one))
    return Words(texts, which)


def chosen_machine(choices: Choices) -> Machine | None:
    """Return what the hosts of the chosen partitions have, or all hosts; None if not told."""
    machine = None if choices.nodes is None else choices.nodes.read_machine()
    if machine is None or not choices.partitions:
        return machine
    inside = reduce(or_, (machine.labels.get(name, 0) for name in choices.partitions))
    if not inside:
        return machine
    return machine.only([host for host in range(machine.hosts) if inside >> host & 1])


def set_labels(rows: Rows, machine: Machine | None) -> None:
    """Have jobs ask for the labels that nodes have of their partition and features, if they are not
    those of all nodes, and for no others.
    """
    assert rows.asked is not None
    pools = rows.pools()
    features = rows.marks.get("constraints") or Words.one("", len(rows.ids))
    has = {} if machine is None else machine.labels
    known = {text: _features(text, has) for text in features.words}
    own = rows.asked.where(lambda text: not _has_labels(decoded_request(text), has))
    unknown = features.where(lambda text: known[text] is None) | own
    if machine is None:
        named = [name for name in pools.words if name]
        rows.marked["no_nodes"] = unknown | (pools.where(bool) & (len(named) > 1))
    else:
        rows.marked["constraints"] = unknown
        rows.marked["any_partition"] = pools.where(lambda name: name not in ("", *has))

    everywhere = 0 if machine is None else (1 << machine.hosts) - 1

    def label(asked: HostsAsked, names: str) -> HostsAsked:
        parts = []
        for part in asked.parts:
            wanted = dict.fromkeys([*part.labels, *names.split("\n")])
            labels = tuple(name for name in wanted if has.get(name, everywhere) != everywhere)
            parts.append(msgspec.structs.replace(part, labels=labels))
        return msgspec.structs.replace(asked, parts=tuple(parts))

    of_features = Words(["\n".join(known[text] or ()) for text in features.words], features.which)
    rows.asked = changed(changed(rows.asked, pools, label), of_features, label)


def _has_labels(asked: HostsAsked | None, known: Collection[str]) -> bool:
    """Return whether all labels that are asked for are known."""
    return asked is None or all(name in known for part in asked.parts for name in part.labels)


def _features(text: str, known: Collection[str]) -> list[str] | None:
    """Return the labels in a constraint such as ``a100&ib``, None if it asks for other things."""
    if is_none(text):
        return []
    names = [name.strip() for name in text.strip("()").split("&") if name.strip()]
    return names if all(name in known for name in names) else None


def given_requests(column: Words) -> list[HostsAsked | None]:
    """Return what a job asks for, for each text of a column; None for whole hosts, whichever."""
    requests = [decoded_request(text) for text in column.words]
    return [None if asked in (None, _whole(asked)) else asked for asked in requests]


def _whole(asked: HostsAsked | None) -> HostsAsked:
    return HostsAsked(parts=(AskedPart(hosts=hosts_of(asked), exclusive=True),))
