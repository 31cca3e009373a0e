"""Groups of equal hosts written as text: ``hosts=16,cores=32,memory=128GB,gpus=v100:2,labels=gpu``.

Values of one name may be given in a list or by repeating the name: ``labels=gpu,big`` is
``labels=gpu,labels=big``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from qops_batsim.core.host_properties import read_memory
from qops_batsim.errors import InputError, did_you_mean, shown
from qops_batsim.platform.equal_hosts import EqualHosts
from qops_batsim.quantities import SPEED

_LISTS = ("gpus", "kind", "labels")
_NAMES = ("hosts", "speed", "cores", "memory", "weight", *_LISTS)


def read_group(text: str, base: EqualHosts, *, where: str) -> EqualHosts:
    """Read a group of hosts that has what ``base`` has but for what the text says.

    InputError with ``where`` the text is, the name, its value and what is accepted.

    >>> read_group("hosts=2,gpus=a100:1", EqualHosts(hosts=9, cores=8), where="--group").cores
    8
    """
    given = _values_by_name(text, where)
    if "hosts" not in given:
        raise InputError(f"{where} is {shown(text)}; hosts=N is expected in it")
    return group_of(given, base, f"{where}: ")


def group_of(given: Mapping[str, Sequence[str]], base: EqualHosts, prefix: str) -> EqualHosts:
    """Return the group of hosts that has what ``base`` has but for the values ``given`` by name;
    ``prefix`` stands before the names in messages.
    """
    found: dict[str, Any] = {}
    for name, values in given.items():
        place = f"{prefix}{name}"
        if name == "gpus":
            found[name] = _read_gpus(values, place)
        elif name == "kind":
            found["kinds"] = read_named_amounts(values, where=place)
        elif name == "labels":
            found[name] = tuple(filter(None, values))
        elif name == "speed":
            found[name] = SPEED.parse(values[0], where=place)
        elif name == "memory":
            found[name] = read_memory(values[0], where=place)
        else:
            found[name] = _whole(values[0], values[0], place, "a whole number")
    return msgspec.structs.replace(base, **found)


def _values_by_name(text: str, where: str) -> dict[str, list[str]]:
    given: dict[str, list[str]] = {}
    name = ""
    for part in text.split(","):
        head, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals and name in _LISTS:
            # One more value of the name before: labels=gpu,big.
            given[name].append(head)
            continue

        name = head
        if name not in _NAMES:
            raise InputError(f"{where} is {shown(text)}: {shown(name)}{did_you_mean(name, _NAMES)}")
        if name in given and name not in _LISTS:
            raise InputError(f"{where} is {shown(text)}: {name} is given twice; once is expected")
        given.setdefault(name, []).append(value)
    return given


def _read_gpus(values: Sequence[str], where: str) -> int | dict[str, int]:
    """Read GPUs of a host: their number, or ``TYPE:N`` for each type."""
    accepted = "a whole number N, or TYPE:N of each type"
    if len(values) == 1 and ":" not in values[0]:
        return _whole(values[0], values[0], where, accepted)
    return _amounts(values, ":", where, accepted)


def read_named_amounts(values: Iterable[str], *, where: str) -> dict[str, int]:
    """Read amounts by name, each as ``NAME=N``.

    >>> read_named_amounts(["fpga=2"], where="--kind")
    {'fpga': 2}
    """
    return _amounts(values, "=", where, "NAME=N with a whole number N, each name once")


def _amounts(values: Iterable[str], sign: str, where: str, accepted: str) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for text in values:
        name, _, number = text.strip().rpartition(sign)
        if not name or name in amounts:
            raise InputError(f"{where} is {shown(text)}; {accepted} is expected")
        amounts[name] = _whole(number, text, where, accepted)
    return amounts


def _whole(number: str, text: str, where: str, accepted: str) -> int:
    if not (number.isascii() and number.isdigit() and len(number) < 20):
        raise InputError(f"{where} is {shown(text)}; {accepted} is expected")
    return int(number)
