"""What an engine's driver talks to, as a test scripts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qops_batsim import Job, Scheduler
from qops_batsim.core import System
from qops_batsim.protocol import Decision, JobCompleted, Notify, SchedulerModule


class ScriptedModule(SchedulerModule):
    """Stands for a scheduler where decisions are tested that no scheduler of ours takes.

    It hears of everything and decides nothing; a test overrides what it needs.
    """

    def __init__(self) -> None:
        super().__init__(Scheduler())

    def begin(self, system: System) -> None:
        """Begin."""

    def submitted(self, job: Job) -> None:
        """Hear of a job."""

    def completed(self, event: JobCompleted) -> None:
        """Hear of an end."""

    def progressed(self, progress: Mapping[str, Mapping[str, Any]]) -> None:
        """Hear how far killed jobs had come."""

    def killed(self, job_ids: list[str]) -> None:
        """Hear of kills."""

    def call(self) -> None:
        """Hear that a date has come."""

    def notified(self, notification: Notify) -> None:
        """Hear of anything else."""

    def end(self) -> None:
        """Hear of the end."""

    def decide(self, now: float) -> list[Decision]:
        """Decide nothing."""
        return []
