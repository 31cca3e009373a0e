"""Weights by which jobs pay for what they take of hosts, written as Slurm's TRESBillingWeights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from qops_batsim.errors import InputError, shown

_KINDS = {"cpu": "cores", "mem": "memory", "gres/gpu": "gpus", "node": "hosts"}
"""Kinds of what hosts have, by Slurm's names; hosts count as a kind here."""

_PREFIXES = "KMGTP"
_WEIGHT = re.compile(rf"([0-9]+\.?[0-9]*|\.[0-9]+)([{_PREFIXES}]?)", re.IGNORECASE)
_FORM = (
    "names with weights, as in CPU=1.0,Mem=0.25G,GRES/gpu=2.0, of CPU, Mem, Node, GRES/NAME, "
    "GRES/gpu:TYPE and License/NAME"
)

HowBilled = Literal["sum", "max"]
"""Whether the weighted amounts of a job are added up, or the largest of them counts."""


class BillingWeights(msgspec.Struct, frozen=True, kw_only=True):
    """What one unit of each kind, and of each licence, costs a second; memory by the byte.

    With ``how`` = ``"max"`` the largest of the weighted amounts counts, and licences are added, as
    in Slurm with ``PriorityFlags=MAX_TRES``.
    """

    kinds: dict[str, float]
    licences: dict[str, float]
    how: HowBilled = "sum"

    def billed(self, amounts: Mapping[str, float], licences: Mapping[str, float]) -> float:
        """Return what a job pays a second for the amounts that it takes, on all its hosts together.

        >>> weights = read_weights("CPU=1.0,Mem=0.25G,GRES/gpu=2.0", "sum", where="weights")
        >>> weights.billed({"cores": 8, "memory": 32 * 2**30, "gpus": 1}, {})
        18.0
        """
        paid = [weight * amounts.get(kind, 0.0) for kind, weight in self.kinds.items()]
        further = sum(weight * licences.get(name, 0.0) for name, weight in self.licences.items())
        return (sum(paid) if self.how == "sum" else max(paid, default=0.0)) + further


def read_weights(text: str, how: HowBilled, *, where: str) -> BillingWeights:
    """Read weights as Slurm writes them; an InputError names ``where`` they stand.

    A suffix K, M, G, T or P divides a weight by 1024, 1024² and so on. Memory counts in MiB, so
    that ``Mem=0.25G`` is 0.25 a GiB.
    """
    kinds: dict[str, float] = {}
    licences: dict[str, float] = {}
    for item in text.split(","):
        name, _, weight = (each.strip() for each in item.partition("="))
        found = _WEIGHT.fullmatch(weight)
        group, _, own = name.partition("/")
        kind = _KINDS.get(name.lower(), own if group.lower() == "gres" else "")
        if kind.startswith("gpu:"):
            kind = f"gpus:{kind.removeprefix('gpu:')}"
        licence = own if group.lower() == "license" else ""
        if found is None or not (kind or licence) or kind in kinds or licence in licences:
            raise InputError(f"{where} is {shown(text)}, with {shown(item)}; {_FORM} are expected")

        power = _PREFIXES.find(found[2].upper()) + 1 if found[2] else 0
        if kind == "memory":
            # Slurm's base unit is the megabyte.
            power = power or 2
        (kinds if kind else licences)[kind or licence] = float(found[1]) / 1024**power
    return BillingWeights(kinds=kinds, licences=licences, how=how)
