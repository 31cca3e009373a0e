"""What a decision log says of every job up to a moment: the one replay of its events."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from qops_batsim.scheduling import decision_events as log
from qops_batsim.scheduling.refusal import Refusal

ASKING, REFUSED, WAITING, RUNNING, ENDED = "asking", "refused", "waiting", "running", "ended"
"""What has become of a job; ``ASKING`` until the scheduler has answered."""


class PlannedStart(msgspec.Struct, frozen=True, kw_only=True):
    """A promised start, and why it was promised; dates in seconds."""

    date: float
    """When it was promised."""
    start: float | None
    """None if there was none to promise."""
    cause: str
    """See :class:`~qops_batsim.scheduling.decision_events.Moved`; ``"own admission"``
    first, ``"killed"`` after a kill."""
    by: list[str] = []
    """The jobs that caused it."""


class KilledRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that the scheduler killed, to run the job again from scratch."""

    date: float
    by: str
    """Full id of the job that was admitted thereby."""
    again: str
    """Full id under which the job was run again."""
    wasted: float
    """Processor-seconds of the run."""


@dataclass
class JobStory:
    """One job up to a moment; dates in seconds, None for none or an infinite one."""

    asked: log.Submitted
    """Its request, under the id of the submission."""
    name: str
    """Full id under which it waits or runs now: another one after a kill."""
    outcome: str = ASKING
    reason: str = ""
    refusal: Refusal | None = None
    """Why the requested deadline was refused; the reason has it in words."""
    blamed: str | None = None
    """Whose deadline stood in the way of the requested one."""
    offered: float | None = None
    """Deadline that was offered instead."""
    promise: float | None = None
    """Deadline of the admission."""
    target: float | None = None
    """Deadline that the plan aims at: a later one if other jobs outlived their estimates."""
    planned: float | None = None
    """Promised start."""
    start: float | None = None
    expected_end: float | None = None
    end: float | None = None
    """Of the last run, as the two above."""
    late: float = 0.0
    """By how much it counts as started before it was (seconds), since news was late."""
    starts: list[PlannedStart] = field(default_factory=list)
    kills: list[KilledRun] = field(default_factory=list)
    killed_for_it: list[str] = field(default_factory=list)
    """Full ids of the jobs that were killed to admit it."""

    @property
    def admitted(self) -> bool:
        """Whether the scheduler took the job in."""
        return self.outcome not in (ASKING, REFUSED)

    def plan(self, date: float, start: float | None, cause: str, by: list[str]) -> None:
        """Note a promised start."""
        self.planned = start
        self.starts.append(PlannedStart(date=date, start=start, cause=cause, by=by))


class PlanState:
    """The jobs of a run at one moment.

    ``jobs`` are by the id of the submission, in its order, ``names`` the same by every id that
    a job has had, ``dying`` those whose killed run may not have ended, by the id of that run.
    ``present`` is the number of hosts that are there, None if none ever left; ``is_final`` tells
    whether that is known to stay.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, JobStory] = {}
        self.names: dict[str, JobStory] = {}
        self.dying: dict[str, JobStory] = {}
        self.late_news = False
        self.present: int | None = None
        self.is_final = False
        self._under: dict[str, int] = {}

    @property
    def held(self) -> list[JobStory]:
        """The waiting and running jobs in the order of submission. O(jobs)."""
        return [job for job in self.jobs.values() if job.outcome in (WAITING, RUNNING)]

    @property
    def used_processors(self) -> int:
        """Processors of running and dying jobs. O(jobs)."""
        running = {job.name: job for job in self.jobs.values() if job.outcome == RUNNING}
        return sum(
            job.asked.processors - self._under.get(name, 0)
            for name, job in (*running.items(), *self.dying.items())
        )

    def under(self, job: JobStory) -> int:
        """Return how many hosts have gone away under a job that runs. O(1)."""
        return self._under.get(job.name, 0) if job.outcome == RUNNING else 0

    def apply(self, event: log.Event) -> None:
        """Change the state as an event did; KeyError if it cannot have. O(moved jobs)."""
        match event:
            case log.Submitted():
                self.jobs[event.job] = self.names[event.job] = JobStory(event, event.job)
            case log.Moved():
                for name, _, after in event.moves:
                    self._job(name, WAITING).plan(event.date, after, event.cause, event.by)
            case log.Admitted() | log.Refused():
                self._answered(self._job(event.job, ASKING), event)
            case log.Killed():
                self._killed(self._job(event.job, RUNNING), event)
            case log.Withdrawn():
                # The run had ended by itself, which the log said just before.
                job = self._job(event.job, WAITING)
                if not job.kills:
                    raise KeyError(event.job)
                job.outcome = ENDED
                job.kills.pop()
            case log.Started():
                job = self._job(event.job, WAITING)
                job.outcome, job.start, job.expected_end = RUNNING, event.date, event.end
                job.late = event.late or 0.0
            case log.Slipped():
                job = self._job(event.job, RUNNING)
                job.expected_end, job.late = event.end, 0.0
            case log.LateNews():
                self.late_news = True
            case log.Outlived():
                job = self._job(event.job, RUNNING)
                job.expected_end, job.late = event.end, 0.0
            case log.Late():
                job = self._job(event.job, WAITING)
                job.target = event.deadline
                if event.reason and event.deadline is not None:
                    job.promise = event.deadline
            case log.Dropped():
                job = self._job(event.job, WAITING)
                job.outcome, job.reason = REFUSED, event.reason
                job.refusal = log.refusal_of(event)
            case log.Resized():
                self.present, self._under = event.present, dict(event.under)
                self.is_final = event.final
            case log.Ended() if event.job in self.dying:
                self.dying.pop(event.job).end = event.date
            case log.Ended():
                job = self._job(event.job, RUNNING)
                job.outcome, job.end = ENDED, event.date

    def _job(self, name: str, outcome: str) -> JobStory:
        job = self.names[name]
        if job.name != name or job.outcome != outcome:
            raise KeyError(name)
        return job

    def _answered(self, job: JobStory, event: log.Admitted | log.Refused) -> None:
        job.reason, job.blamed = event.reason, event.blamed
        job.refusal = log.refusal_of(event)
        if isinstance(event, log.Refused):
            job.outcome, job.offered = REFUSED, event.offered
            return
        job.outcome, job.promise = WAITING, event.deadline
        job.target = event.deadline if event.target is None else event.target
        job.offered = event.deadline if event.offered else None
        job.plan(event.date, event.start, "own admission", [])

    def _killed(self, job: JobStory, event: log.Killed) -> None:
        assert job.start is not None
        wasted = job.asked.processors * (event.date - job.start)
        job.kills.append(KilledRun(date=event.date, by=event.by, again=event.again, wasted=wasted))
        job.outcome, job.name = WAITING, event.again
        job.plan(event.date, event.start, "killed", [event.by])
        self.dying[event.job] = self.names[event.again] = job
        self.names[event.by].killed_for_it.append(event.job)
