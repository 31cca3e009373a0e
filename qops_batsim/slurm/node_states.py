"""States of Slurm's nodes: a base state and flags, and whether Slurm uses the node.

``scontrol`` and JSON tell both (``IDLE+CLOUD+POWERED_DOWN``), ``sinfo`` a word, long or short, with
a sign behind it (``drng``, ``draining@``, ``idle~``): sinfo(1), node state codes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from qops_batsim.workload.accounting.node_sizes import RESERVED as RESERVED

MAINTENANCE = "MAINTENANCE"
"""State of a node in such a reservation that is for maintenance."""

_BASES = {
    "IDLE": ("idle",),
    "ALLOCATED": ("allocated", "alloc"),
    "MIXED": ("mixed", "mix"),
    "DOWN": ("down",),
    "ERROR": ("error", "err"),
    "FUTURE": ("future", "futr"),
    "UNKNOWN": ("unknown", "unk", "unkn"),
}
"""Base states, and how they are written."""

_FLAGS = {
    "DRAIN": ("drain", "drained", "draining", "drng"),
    "FAIL": ("fail", "failing", "failg"),
    MAINTENANCE: ("maintenance", "maint"),
    "NOT_RESPONDING": ("not_responding", "no_respond"),
    "REBOOT_REQUESTED": ("reboot_requested", "reboot", "boot"),
    "REBOOT_ISSUED": ("reboot_issued",),
    "INVALID_REG": ("invalid_reg", "invalid", "inval"),
    RESERVED: ("reserved", "resv"),
    "BLOCKED": ("blocked", "block"),
    "COMPLETING": ("completing", "comp"),
    "PLANNED": ("planned", "plnd"),
    # Of Slurm before 21.08: in power saving.
    "POWERED_DOWN": ("powered_down", "powered_dn", "power"),
    "POWERING_DOWN": ("powering_down", "powering_dn", "powring_dn"),
    "POWERING_UP": ("powering_up",),
    "POWER_DOWN": ("power_down", "pow_dn"),
    "POWER_UP": ("power_up", "pow_up"),
    "POWER_DRAIN": ("power_drain",),
    "CLOUD": ("cloud",),
    "DYNAMIC": ("dynamic_norm", "dynamic_future"),
    "EXTERNAL": ("external", "ext"),
    "UNDRAIN": ("undrain",),
    "RESUME": ("resume",),
    "REBOOT_CANCELED": ("reboot_canceled", "cancel_reboot", "canc_r"),
    "PERFCTRS": ("perfctrs", "npc"),
}
"""Flags, and how they are written."""

_SIGNS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": MAINTENANCE,
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}

_WORDS = {word: name for names in (_BASES, _FLAGS) for name, each in names.items() for word in each}

_WITH_JOBS = {"draining", "drng", "failing", "failg", "completing", "comp"}
"""Words of states in which a node has jobs."""

_AWAY = (
    *("DOWN", "ERROR", "FUTURE", "UNKNOWN"),
    *("DRAIN", "FAIL", MAINTENANCE, "INVALID_REG", "REBOOT_ISSUED", RESERVED, "BLOCKED"),
)
"""States in which Slurm gives a node no further job, or not every job."""

_POWERING = {"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP"}
"""States of a node that Slurm switches on for a job: until then it does not respond."""


class SlurmNodeState(NamedTuple):
    """State of a node: names of its base state and flags, whether jobs may run on it, and words of
    its state that are not known.
    """

    names: frozenset[str]
    may_have_jobs: bool
    unknown: tuple[str, ...] = ()

    @property
    def is_asleep(self) -> bool:
        """Return whether the node has no jobs and is powered down, or on its way to or from that:
        it comes when a job needs it, but not at once.
        """
        return bool(self.names & _POWERING) and not self.may_have_jobs and not self.away

    @property
    def away(self) -> tuple[str, ...]:
        """Return the states for which Slurm does not use the node, none if it does."""
        states = [name for name in _AWAY if name in self.names]
        if "NOT_RESPONDING" in self.names and not self.names & _POWERING:
            states.append("NOT_RESPONDING")
        # A node that is in use gets further jobs until it is idle, and is rebooted then.
        if "REBOOT_REQUESTED" in self.names and not self.names & {"ALLOCATED", "MIXED"}:
            states.append("REBOOT_REQUESTED")
        return tuple(states)


def read_state(told: str | Iterable[str]) -> SlurmNodeState:
    """Parse a node's state: words that are joined by ``+``, or a list of words.

    >>> sorted(read_state("IDLE+CLOUD+POWERED_DOWN").names), read_state("idle~").away
    (['CLOUD', 'IDLE', 'POWERED_DOWN'], ())
    >>> read_state("drng*").away, read_state(["MIXED", "MAINTENANCE"]).away, read_state("x").unknown
    (('DRAIN', 'NOT_RESPONDING'), ('MAINTENANCE',), ('x',))
    """
    words = told.split("+") if isinstance(told, str) else [*told]
    names: set[str] = set()
    unknown = []
    with_jobs = False
    for word in words:
        plain = word.strip().lower()
        while plain[-1:] in _SIGNS:
            names.add(_SIGNS[plain[-1]])
            plain = plain[:-1]

        states = {_WORDS[plain]} if plain in _WORDS else set[str]()
        if not states and len(plain) > 2:
            # Of a word that a narrow column has cut, the beginning is enough.
            states = {name for known, name in _WORDS.items() if known.startswith(plain)}
        if len(states) == 1:
            names |= states
        elif plain:
            unknown.append(plain)
        with_jobs |= plain in _WITH_JOBS

    has_jobs = with_jobs or bool(names & {"ALLOCATED", "MIXED", "COMPLETING"})
    return SlurmNodeState(frozenset(names), has_jobs, tuple(unknown))
