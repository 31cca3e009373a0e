"""What an engine's notifications say about hosts: they leave, return, or have maintenance."""

from __future__ import annotations

from qops_batsim.core.capacity import MaintenanceWindow
from qops_batsim.core.hostset import HostSet
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.protocol.events import (
    MACHINES_AWAY,
    MACHINES_BACK,
    MAINTENANCE,
    NO_MORE_EXTERNAL_EVENTS,
    Notify,
)


def note_hosts(manager: ResourceManager, notice: Notify) -> int | None:
    """Update which hosts are present from a notification; return how many will leave later, None if
    it is not about hosts.
    """
    kind = notice.type
    if kind not in (MAINTENANCE, MACHINES_AWAY, MACHINES_BACK, NO_MORE_EXTERNAL_EVENTS):
        return None

    capacity = manager.capacity
    capacity.is_known = True
    capacity.is_planned = manager.plans

    announced = 0
    if kind == NO_MORE_EXTERNAL_EVENTS:
        capacity.is_final = True
    else:
        hosts = HostSet.parse(str(notice.fields.get("resources", "")))
        if kind == MAINTENANCE:
            since = float(notice.fields["start"])
            until = float(notice.fields["end"])
            announced = capacity.announce(MaintenanceWindow(hosts, since, until))
        elif kind == MACHINES_AWAY:
            capacity.leave(hosts)
        else:
            capacity.come_back(hosts)

    manager.count_free()
    return announced
