"""Why a job's request for hosts fits at no date, however empty the machine is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qops_batsim.core.machine import Machine
from qops_batsim.core.refusal import Refusal, RefusalKind
from qops_batsim.job_fields import AskedPart, HostsAsked


def why_never(asked: HostsAsked, machine: Machine) -> Refusal | None:
    """Return why a request fits at no date on this machine, None if nothing speaks against it.

    Each part is looked at alone, on the empty machine, kind by kind: the first obstacle is told.
    Hosts that its parts take from each other are not looked at. O(hosts × kinds × parts).

    Examples
    --------
    >>> from qops_batsim.core.host_properties import machine_of
    >>> from qops_batsim.core.refusal import sentence
    >>> machine = machine_of([{"cores": "32"}, {"cores": "32", "gpus": "2"}], ["a", "b"])
    >>> part = AskedPart(hosts=2, amounts={"cores": 8, "gpus": 2})
    >>> sentence(why_never(HostsAsked(parts=(part,)), machine))
    'asks for 2 hosts with 2 gpus each; 1 has that, 2 have 0 gpus each'
    """
    for name, amount in asked.licences.items():
        held = machine.licences.get(name, 0)
        if amount > held:
            kind = RefusalKind.TOO_FEW_LICENCES
            return Refusal(kind=kind, name=name, asked=amount, available=held)
    found = (_why_part(part, machine) for part in asked.parts)
    return next(filter(None, found), None)


def hosts_with(labels: Sequence[str], machine: Machine) -> list[int]:
    """Return the hosts that have all these labels, ascending."""
    mask = (1 << machine.hosts) - 1
    for label in labels:
        mask &= machine.labels.get(label, 0)
    return [host for host, bit in enumerate(reversed(bin(mask)[2:])) if bit == "1"]


def _why_part(part: AskedPart, machine: Machine) -> Refusal | None:
    """Return why a part of a request fits at no date; tasks need one task's amounts on a host."""
    labelled = hosts_with(part.labels, machine)
    # One host may hold all tasks.
    needed = 1 if part.tasks else part.hosts
    place: dict[str, Any] = {"processors": part.hosts, "labels": part.labels}
    if machine.hosts < needed:
        return Refusal(kind=RefusalKind.TOO_WIDE, processors=part.hosts, machine_size=machine.hosts)
    if len(labelled) < needed:
        return Refusal(kind=RefusalKind.NO_LABELS, hosts=len(labelled), **place)

    for kind, amount in part.amounts.items():
        if kind not in machine.kinds:
            return Refusal(kind=RefusalKind.NO_SUCH_KIND, name=kind, asked=amount)
        column = machine.kinds.index(kind)
        held = sorted((machine.amounts[host][column] for host in labelled), reverse=True)
        if held[needed - 1] < amount:
            place["processors"] = needed
            have = sum(each >= amount for each in held)
            place |= {"name": kind, "asked": amount, "available": held[needed - 1], "hosts": have}
            return Refusal(kind=RefusalKind.HOSTS_TOO_SMALL, **place)

    # How often each host has all amounts at once.
    columns = [(machine.kinds.index(kind), amount) for kind, amount in part.amounts.items()]
    times = [
        min((machine.amounts[host][column] // amount for column, amount in columns), default=1)
        for host in labelled
    ]
    if part.tasks:
        most = sum(sorted(times, reverse=True)[: part.hosts])
        if most < part.tasks:
            return Refusal(
                kind=RefusalKind.AMOUNTS_APART, asked=part.tasks, available=most, **place
            )
    able = sum(each > 0 for each in times)
    if able < needed:
        together = ", ".join(part.amounts)
        return Refusal(kind=RefusalKind.AMOUNTS_APART, name=together, hosts=able, **place)
    return None
