"""Killed jobs that are run again: what a scheduler tells the engine about them.

Whose work was saved (``qos.checkpoint``) is registered with a profile of its own, which is shorter
by that, as no engine knows of checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from qops_batsim.errors import InputError, shown
from qops_batsim.jobs import COMPLETED_KILLED, Job
from qops_batsim.protocol.decisions import (
    Decision,
    KillJob,
    RegisterJob,
    RegisterProfile,
    SetJobMetadata,
)
from qops_batsim.protocol.events import JobCompleted, Notify
from qops_batsim.scheduling.engine_needs import EngineNeeds
from qops_batsim.timing import on_grid

if TYPE_CHECKING:
    from qops_batsim.scheduling.answers import Kill
    from qops_batsim.scheduling.plan import Plan
    from qops_batsim.scheduling.qos_log import QosLog


class Restarts:
    """Jobs that a plan has killed.

    Each is registered again when the engine says that it is dead, as ``w0!12#1`` if it was
    ``w0!12``, which needs dynamic jobs.

    Attributes
    ----------
    ids
        Identifiers of the jobs that were registered.
    all_submitted
        Whether users submit nothing more.
    """

    def __init__(
        self,
        profiles: Mapping[str, Mapping[str, Mapping[str, Any]]],
        *,
        kills: bool,
        registers: bool,
    ) -> None:
        self._may_kill = kills
        self.ids: set[str] = set()
        self._profiles = profiles
        self._rests: dict[tuple[str, str], Mapping[str, Any]] = {}
        self.all_submitted = False
        self._registering = registers
        self._kills: dict[str, Kill] = {}
        self._dead: list[tuple[Kill, bool]] = []
        self._victims: list[str] = []

    @property
    def are_under_way(self) -> bool:
        """Whether a job is being killed, or was and is not registered again."""
        return bool(self._kills or self._dead or self._victims)

    def check(self, job: Job) -> None:
        """Raise an InputError if a new job saves its work, and what is left cannot be told."""
        if self._may_kill and job.qos is not None and job.qos.checkpoint is not None:
            kind = self._profile_of(job).get("type")
            if kind != "delay":
                told = "unknown" if kind is None else f"of type {shown(kind)}"
                raise InputError(
                    f"job {job.id}: qos.checkpoint is {job.qos.checkpoint:g}, and its profile "
                    f"{shown(job.profile)} is {told}; where jobs may be killed (kill_and_restart), "
                    "type 'delay' is accepted"
                )

    def _profile_of(self, job: Job) -> Mapping[str, Any]:
        workload = job.id.partition("!")[0]
        rest = self._rests.get((workload, job.profile))
        return rest or self._profiles.get(workload, {}).get(job.profile, {})

    def _profile_again(self, kill: Kill) -> RegisterProfile:
        """Return the registration of what is left of a killed job's profile."""
        workload, whole = kill.again.id.partition("!")[0], self._profile_of(kill.victim)
        rest = {**whole, "delay": on_grid(float(whole["delay"]) - kill.saved)}
        self._rests[workload, kill.again.profile] = rest
        return RegisterProfile(workload, kill.again.profile, rest)

    def kill(self, kills: Iterable[Kill]) -> None:
        """Have running jobs killed."""
        for kill in kills:
            self._kills[kill.victim.id] = kill
            self._victims.append(kill.victim.id)

    def ended(self, event: JobCompleted) -> None:
        """Learn that a job has ended; it is registered again if it was killed for another."""
        kill = self._kills.pop(event.job_id, None)
        if kill is not None:
            self._dead.append((kill, event.job_state == COMPLETED_KILLED))

    def register(self, now: float, plan: Plan, log: QosLog) -> list[Decision]:
        """Return the registrations of killed jobs; what has ended by itself leaves the plan."""
        decisions: list[Decision] = []
        for kill, was_killed in self._dead:
            if not was_killed:
                plan.undo_kill(kill)
                continue
            original, sake = (plan.table.original(slot).id for slot in (kill.slot, kill.sake))
            again, killed = kill.again.id, kill.victim.id
            self.ids.add(again)
            wasted = kill.victim.processors * (now - kill.since - kill.saved)
            told = log.note_restart(again, original, killed, sake, wasted)
            if kill.saved > 0:
                decisions.append(self._profile_again(kill))
            decisions += (RegisterJob(again, kill.again), SetJobMetadata(again, told))
            plan.release(kill.slot)
        self._dead.clear()
        return decisions

    def last_decisions(self) -> list[Decision]:
        """Return what is to be told behind all else: kills, and that nothing more is registered."""
        decisions: list[Decision] = []
        if self._victims:
            decisions.append(KillJob(self._victims))
            self._victims = []
        if self._registering and self.all_submitted and not self._kills:
            # Only new jobs lead to kills. Batsim goes on until it hears this.
            self._registering = False
            decisions.append(Notify.of("registration_finished"))
        return decisions


def restart_needs(kills: bool) -> EngineNeeds:
    """Return the needs of a scheduler that kills jobs, or does not: to register them again."""
    return EngineNeeds(dynamic_jobs=kills, profile_reuse=kills, why="kill_and_restart is on")
