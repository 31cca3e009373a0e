"""Which profiles Batsim 5 keeps, and which it forgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qops_batsim.engine.records import JobRecord
from qops_batsim.workload.workload_model import Workload

_Name = tuple[str, str]
"""Workload and name of a profile."""


class KeptProfiles:
    """Profiles that Batsim still remembers, as a job or a remembered sequence uses them.

    What no job of a workload has is forgotten at the beginning; what was registered is kept until
    it has been used.

    Parameters
    ----------
    workloads
        What is submitted, by name.
    profiles
        The profiles of each workload by their names, which grow as profiles are registered.
    """

    def __init__(
        self,
        workloads: Mapping[str, Workload],
        profiles: Mapping[str, Mapping[str, Mapping[str, Any]]],
    ) -> None:
        self._profiles = profiles
        self._holders: Counter[_Name] = Counter()
        self._unused: set[_Name] = set()
        self._ended = 0
        for workload, submitted in workloads.items():
            for job in submitted.jobs:
                self._hold((workload, job.profile))

    def register(self, workload: str, profile: str) -> None:
        """Keep a newly registered profile."""
        self._unused.add((workload, profile))
        self._hold((workload, profile))

    def hold(self, workload: str, profile: str) -> bool:
        """Count one more job or sequence that uses a profile; return False if Batsim forgot it
        before.
        """
        name = _full_name(workload, profile)
        if not self._holders[name]:
            return False
        self._hold(name)
        return True

    def forget(self, ended: Sequence[JobRecord], count: int) -> None:
        """Forget the profiles that only the first ``count`` ended jobs used."""
        for record in ended[self._ended : count]:
            self._release(_full_name(record.job.id.partition("!")[0], record.job.profile))
        self._ended = count

    def _hold(self, name: _Name) -> None:
        self._holders[name] += 1
        if self._holders[name] == 1:
            for step in self._steps(name):
                self._hold(step)

    def _release(self, name: _Name) -> None:
        self._holders[name] -= 1
        if self._holders[name] == 1 and name in self._unused:
            self._unused.remove(name)
            self._holders[name] = 0
        if not self._holders[name]:
            for step in self._steps(name):
                self._release(step)

    def _steps(self, name: _Name) -> Iterator[_Name]:
        profile = self._profiles.get(name[0], {}).get(name[1], {})
        return (_full_name(name[0], step) for step in profile.get("seq", ()))


def _full_name(workload: str, profile: str) -> _Name:
    owner, separator, name = profile.partition("!")
    return (owner, name) if separator else (workload, profile)
