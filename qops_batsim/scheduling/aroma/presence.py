"""Which applications are really on the hosts, as far as the engine has told."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.scheduling.aroma.recurrence import Ints


class _Guest(NamedTuple):
    """The hosts of an application, and whether it keeps others off them."""

    hosts: Ints
    alone: bool


class Presence:
    """Who was told to start and has not been told to be gone.

    On platforms with latencies that is not who runs according to the plan: an engine
    refuses to start a job where another one still is.
    """

    def __init__(self, host_count: int) -> None:
        self._guests: dict[str, _Guest] = {}
        self._load: Ints = np.zeros(host_count, np.int64)
        self._alone: Ints = np.zeros(host_count, np.int64)

    def has_room(self, hosts: Ints, *, alone: bool) -> bool:
        """Whether an application can start on these hosts. O(tasks)."""
        return not (self._load if alone else self._alone)[hosts].any()

    def enter(self, job_id: str, hosts: Ints, *, alone: bool) -> None:
        """Note that an application is told to start. O(tasks)."""
        self._guests[job_id] = _Guest(hosts, alone)
        self._load[hosts] += 1
        self._alone[hosts] += alone

    def stop(self, job_id: str) -> None:
        """Note that an application is being stopped: it keeps no others off any more."""
        hosts, alone = self._guests[job_id]
        self._alone[hosts] -= alone
        self._guests[job_id] = _Guest(hosts, False)

    def leave(self, job_id: str) -> None:
        """Note that an application has left its hosts, if it was there. O(tasks)."""
        guest = self._guests.pop(job_id, None)
        if guest is not None:
            self._load[guest.hosts] -= 1
            self._alone[guest.hosts] -= guest.alone
