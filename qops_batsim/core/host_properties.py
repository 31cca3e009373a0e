"""The properties of hosts that say what jobs may share: amounts, labels, weights, licences.

========================  ==================================================================
property                  meaning
========================  ==================================================================
``cores``, ``gpus``       amounts of the host
``memory``                memory of the host (bytes, or a size with a unit, as in ``128GB``)
``gpus:TYPE``             GPUs of a type; they count as ``gpus``, too
``kind:NAME``             amount of a kind that a site adds
``labels``                names of partitions and features, separated by commas
``weight``                hosts of less weight are chosen first; 0 where it is missing
``licence:NAME``          licences: what hosts have of them adds up for the machine
========================  ==================================================================

Hosts are shared where one has cores, GPUs or a site's own kind. Elsewhere, and of other names,
properties mean nothing here, whatever they hold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from qops_batsim.core.machine import Machine
from qops_batsim.errors import InputError, shown
from qops_batsim.job_fields import KINDS, ordered_kinds
from qops_batsim.limits import MAX_HOST_AMOUNT, MAX_WEIGHT
from qops_batsim.quantities import SIZE_OR_NONE

OF_GPUS, OF_SITE, OF_LICENCE = "gpus:", "kind:", "licence:"
"""First parts of the names of properties."""

_NAME = re.compile(r"[\w.+@/-]+")
_LABEL = re.compile(r"[\w.+@/:=-]+")


class HostProperties(NamedTuple):
    """What the properties of one host say: amounts by kind, labels, weight, licences by name."""

    amounts: dict[str, int]
    labels: frozenset[str]
    weight: int
    licences: dict[str, int]


def are_shared(properties: Iterable[Mapping[str, str]]) -> bool:
    """Return whether one of the hosts with these properties has amounts that jobs share; memory
    alone does not make it so.
    """
    names: set[str] = set().union(*properties)
    return any(name in ("cores", "gpus") or name.startswith((OF_GPUS, OF_SITE)) for name in names)


def read_host_properties(properties: Mapping[str, str], where: object) -> HostProperties:
    """Read what the properties of a host say.

    InputError with ``where`` the host is, the property, its value and what is accepted.
    """
    amounts: dict[str, int] = {}
    licences: dict[str, int] = {}
    for name, text in properties.items():
        if name == "memory":
            amounts[name] = read_memory(text, where=f"{where}: property memory")
        elif name in KINDS:
            amounts[name] = _whole(text, f"{where}: property {name}")
        elif name.startswith((OF_GPUS, OF_SITE, OF_LICENCE)):
            value = _whole(text, f"{where}: property {shown(name)}")
            held = licences if name.startswith(OF_LICENCE) else amounts
            held[_own_name(name, where)] = value

    typed = sum(amount for name, amount in amounts.items() if name.startswith(OF_GPUS))
    if amounts.setdefault("gpus", typed) < typed:
        raise InputError(
            f"{where}: property gpus is {shown(properties['gpus'])}; at least {typed} is "
            "expected, the sum of its types"
        )

    weight = properties.get("weight", "0")
    return HostProperties(
        amounts=amounts,
        labels=_labels(properties.get("labels", ""), where),
        weight=_whole(weight, f"{where}: property weight", MAX_WEIGHT),
        licences=licences,
    )


def read_memory(text: str, *, where: str) -> int:
    """Read a memory size (bytes): a whole number, or one with a unit, rounded to whole bytes.

    >>> read_memory("1.5KiB", where="memory")
    1536
    """
    size = SIZE_OR_NONE.parse(text, where=where)
    has_unit = text.rstrip("B")[-1].isalpha()
    if size > MAX_HOST_AMOUNT or not (has_unit or size.is_integer()):
        accepted = f"a whole number of bytes up to {MAX_HOST_AMOUNT}"
        raise InputError(f"{where} is {shown(text)}; {accepted} is expected")
    return round(size)


def _whole(text: str, where: str, most: int = MAX_HOST_AMOUNT) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and int(digits) <= most):
        accepted = f"a whole number from 0 to {most}"
        raise InputError(f"{where} is {shown(text)}; {accepted} is expected")
    return int(digits)


def _own_name(name: str, where: object) -> str:
    """Return the name of a kind or licence by the property of it."""
    prefix, _, own = name.partition(":")
    if not _NAME.fullmatch(own) or (prefix == "kind" and own in KINDS):
        but = f", other than {', '.join(KINDS)}," if prefix == "kind" else ""
        raise InputError(
            f"{where}: property {shown(name)}; a name of letters, digits and any of "
            f". _ + @ / -{but} is expected behind the colon"
        )
    return name if prefix == "gpus" else own


def _labels(text: str, where: object) -> frozenset[str]:
    if not text.strip():
        return frozenset()
    labels = [label.strip() for label in text.split(",")]
    for label in labels:
        if not _LABEL.fullmatch(label):
            raise InputError(
                f"{where}: property labels is {shown(text)}; names of letters, digits and any of "
                ". _ + @ / : = - are expected, separated by commas"
            )
    return frozenset(labels)


def read_hosts(
    properties: Sequence[Mapping[str, str]], places: Iterable[object]
) -> list[HostProperties]:
    """Read what the properties of each host say; nothing if no host has amounts that jobs share.

    ``places`` say where each host is, for messages.
    """
    if not are_shared(properties):
        return []

    # Most hosts are alike: what their properties say is found out once.
    known: dict[tuple[tuple[str, str], ...], HostProperties] = {}
    hosts = []
    for given, place in zip(properties, places, strict=True):
        key = tuple(given.items())
        if key not in known:
            known[key] = read_host_properties(given, place)
        hosts.append(known[key])
    return hosts


def machine_of(properties: Sequence[Mapping[str, str]], names: Sequence[str]) -> Machine | None:
    """Read the machine that hosts with these properties make.

    Parameters
    ----------
    properties
        Properties of each compute host, in the order of ids.
    names
        Names of the hosts.

    Returns
    -------
    Machine or None
        None if no host has amounts above 0 that jobs share.

    Raises
    ------
    InputError
        Naming host, property, value and what is accepted.
    """
    hosts = read_hosts(properties, (f"host {shown(name)}" for name in names))
    kinds = ordered_kinds({k for host in hosts for k, amount in host.amounts.items() if amount})
    if not kinds:
        return None

    licences: Counter[str] = Counter()
    for host in hosts:
        licences.update(host.licences)
    # Of equal hosts there is one tuple.
    amounts = {id(host): tuple(host.amounts.get(kind, 0) for kind in kinds) for host in hosts}
    return Machine(
        names=tuple(names),
        kinds=tuple(kinds),
        amounts=tuple(amounts[id(host)] for host in hosts),
        labels=_hosts_by_label(hosts),
        weights=tuple(host.weight for host in hosts),
        licences=dict(sorted(licences.items())),
    )


def _hosts_by_label(hosts: Sequence[HostProperties]) -> dict[str, int]:
    # Bit by bit, integers of a million bits would be copied a million times.
    masks: dict[str, bytearray] = {}
    for number, host in enumerate(hosts):
        for label in host.labels:
            if label not in masks:
                masks[label] = bytearray(len(hosts) // 8 + 1)
            masks[label][number >> 3] |= 1 << (number & 7)
    return {label: int.from_bytes(masks[label], "little") for label in sorted(masks)}
