"""Killed jobs that are run again from scratch: what a scheduler tells the engine about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from qops_batsim.jobs import COMPLETED_KILLED
from qops_batsim.protocol.decisions import Decision, KillJob, RegisterJob, SetJobMetadata
from qops_batsim.protocol.events import JobCompleted, Notify
from qops_batsim.scheduling.engine_needs import EngineNeeds
from qops_batsim.scheduling.refusal import Refusal, RefusalKind

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

    def __init__(self, *, registers: bool) -> None:
        self.ids: set[str] = set()
        self.all_submitted = False
        self._registering = registers
        self._kills: dict[str, Kill] = {}
        self._dead: list[tuple[Kill, bool]] = []
        self._victims: list[str] = []

    @property
    def are_under_way(self) -> bool:
        """Whether a job is being killed, or was and is not registered again."""
        return bool(self._kills or self._dead or self._victims)

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
            wasted = kill.victim.processors * (now - kill.since)
            told = note_restart(log, again, original, killed, sake, wasted)
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


def note_restart(
    log: QosLog, again: str, original: str, killed: str, sake: str, wasted: float
) -> str:
    """Log that a killed job runs again, and return its metadata.

    Parameters
    ----------
    again, original, killed
        Identifiers of the job: from now on, as it was submitted, and as it was killed.
    sake
        Identifier of the job for which it was killed.
    wasted
        Work that was lost (processor-seconds).
    """
    log.restarted(again, original)
    record = log.record(original)
    record.wasted_processor_seconds = (record.wasted_processor_seconds or 0.0) + wasted
    log.record(sake).reasons += (Refusal(kind=RefusalKind.KILLED_FOR_IT, blamed=killed),)
    return f"restart_of={original};killed_for={sake}"
