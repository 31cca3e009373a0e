"""The machine as an engine describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from qops_batsim.core.host_properties import machine_of
from qops_batsim.core.machine import Machine

Profiles = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Execution profiles by workload and name."""


class HostDescription(msgspec.Struct, frozen=True):
    """A host, as the engine describes it at the beginning of the simulation."""

    id: int
    name: str
    state: str = "idle"
    properties: dict[str, str] = {}
    zone_properties: dict[str, str] = {}


class System(msgspec.Struct, frozen=True, kw_only=True):
    """The machine, as the engine describes it before the first job is submitted.

    A host's position is its id. With ``compute_sharing``, several jobs may run on one host;
    with ``dynamic_jobs``, the scheduler may register jobs. ``profiles`` are execution profiles
    by workload and name, as far as announced. ``amounts`` are what hosts have, where that is known
    by itself.
    """

    hosts: tuple[HostDescription, ...]
    compute_sharing: bool = False
    dynamic_jobs: bool = False
    profiles: Profiles = {}
    amounts: Machine | None = None

    def machine(self) -> Machine | None:
        """Return what hosts have for jobs that share them, as their properties say; None if they
        do not. InputError naming host and property if one says what cannot be. O(hosts).
        """
        hosts = self.hosts
        if self.amounts is not None:
            return self.amounts
        return machine_of([host.properties for host in hosts], [host.name for host in hosts])


UNDESCRIBED = System(hosts=())
"""A machine of which only the number of hosts is known."""
