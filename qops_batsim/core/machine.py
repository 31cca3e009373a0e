"""A machine whose hosts have amounts of kinds: cores, memory, GPUs and what a site adds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from qops_batsim.core.hostset import HostSet

OF_HOSTS = "hosts:"
"""First part of a label that names hosts by their ids."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What each host of a machine has, for jobs that share hosts.

    A host is known by its position, which is its id.
    :func:`~qops_batsim.core.host_properties.machine_of` reads it from the properties of hosts.

    Attributes
    ----------
    names
        Names of the hosts.
    kinds
        Kinds of which some host has more than 0: ``cores``, ``memory`` (bytes) and ``gpus`` first,
        then others by name, such as ``gpus:v100``.
    amounts
        What each host has, by kind.
    labels
        Hosts that have each label (partition or feature), as bits; by name.
    weights
        Weight of each host: hosts of less weight are chosen first.
    licences
        What the machine has of each licence; by name.

    Examples
    --------
    >>> from qops_batsim.core.host_properties import machine_of
    >>> host = {"cores": "32", "memory": "128GB"}
    >>> machine = machine_of([host, host | {"gpus:v100": "2", "labels": "gpu"}], ["a", "b"])
    >>> machine.kinds, machine.amounts[1], machine.labels
    (('cores', 'memory', 'gpus', 'gpus:v100'), (32, 128000000000, 2, 2), {'gpu': 2})
    >>> machine.totals["cores"]
    64
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    amounts: tuple[tuple[int, ...], ...]
    labels: dict[str, int]
    weights: tuple[int, ...]
    licences: dict[str, int]

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        return len(self.names)

    @property
    def totals(self) -> dict[str, int]:
        """What all hosts have together, by kind. O(hosts · kinds)."""
        sums = map(sum, zip(*self.amounts, strict=True))
        return dict(zip(self.kinds, sums, strict=True))

    def of_host(self, host: int) -> dict[str, int]:
        """Return what a host has, by kind."""
        return dict(zip(self.kinds, self.amounts[host], strict=True))

    def labelled(self, labels: Iterable[str]) -> int:
        """Return the hosts that have all of these labels, as bits."""
        mask = (1 << self.hosts) - 1
        for label in labels:
            mask &= self.with_label(label)
        return mask

    def with_label(self, label: str) -> int:
        """Return the hosts that have a label, as bits; those named by ``hosts:0-3 7``."""
        if label not in self.labels and label.startswith(OF_HOSTS):
            return _named_by(label)
        return self.labels.get(label, 0)

    def only(self, hosts: Sequence[int]) -> Machine:
        """Return the machine that these hosts make, with the labels that one of them has."""
        labels = {
            name: sum(1 << new for new, old in enumerate(hosts) if bits >> old & 1)
            for name, bits in self.labels.items()
        }
        return replace(
            self,
            names=tuple(self.names[host] for host in hosts),
            amounts=tuple(self.amounts[host] for host in hosts),
            labels={name: bits for name, bits in labels.items() if bits},
            weights=tuple(self.weights[host] for host in hosts),
        )

    def without(self, kind: str) -> Machine:
        """Return the machine without a kind of amounts."""
        kept = [place for place, name in enumerate(self.kinds) if name != kind]
        return replace(
            self,
            kinds=tuple(self.kinds[place] for place in kept),
            amounts=tuple(tuple(has[place] for place in kept) for has in self.amounts),
        )


@lru_cache(maxsize=64)
def _named_by(label: str) -> int:
    """Return the hosts that ``hosts:0-3 7`` names, as bits: many jobs ask for the same."""
    return HostSet.parse(label.removeprefix(OF_HOSTS)).mask
