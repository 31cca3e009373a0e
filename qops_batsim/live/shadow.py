"""A shadow of a resource manager: the same jobs, as if decisions were carried out.

What changes anything stays in this process: the resource manager itself is only looked at. A job
that is started in the shadow runs there for as long as it really does, be it at another time; as
long as that is not known it runs on, at most until its limit. What has happened to jobs before
they were seen is not asked: those that run when the shadow begins run in it as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from qops_batsim.jobs import COMPLETED_KILLED, COMPLETED_WALLTIME_REACHED
from qops_batsim.live.journal import About, JobRun
from qops_batsim.live.manager import CentreManager, JobPhase, NodeState, SeenJob
from qops_batsim.slurm.queued_amounts import QueuedAmounts


class _Shadow(msgspec.Struct):
    """State of a job as if decisions were carried out; dates in seconds since 1970."""

    is_held: bool = False
    restarts: int = 0
    start: float | None = None
    hosts: tuple[str, ...] = ()
    is_over: bool = False
    is_real: bool = False
    """Whether it ran before the shadow began."""
    amounts: QueuedAmounts | UnsetType = UNSET
    """What it asked for while it waited: what it holds now is none of the shadow's doing."""


class ShadowManager:
    """Pretends to carry out decisions: observes a resource manager and changes nothing there.

    Parameters
    ----------
    manager
        The resource manager to observe.
    about
        Settings of the journal of an earlier shadow; None: the shadow begins with the first look.
    entries, seen
        Runs and observed jobs of the journal, if an earlier shadow is continued.

    Attributes
    ----------
    real
        The jobs as they really were at the last look.
    """

    def __init__(
        self,
        manager: CentreManager,
        about: About | None = None,
        entries: Iterable[JobRun] = (),
        seen: Iterable[tuple[SeenJob, float]] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._manager = manager
        self.clock = clock
        self.real: list[SeenJob] = []
        self._known = {job.id: job for job, _ in seen}
        self._has_begun = about is not None

        self._shadows: dict[str, _Shadow] = {}
        for entry in entries:
            self._shadows[entry.job] = _Shadow(
                is_held=True,
                restarts=entry.restarts,
                start=entry.ordered,
                hosts=tuple(entry.hosts),
                is_over=entry.phase in ("gone", "refused"),
                is_real=not entry.is_ours,
                amounts=entry.amounts,
            )

    def jobs(self) -> list[SeenJob]:
        """Return the jobs as they would be if the decisions had been carried out."""
        real = {job.id: job for job in self._manager.jobs()}
        if not self._has_begun:
            self._has_begun = True
            for job in real.values():
                if job.phase is not JobPhase.WAITING:
                    over = job.phase is JobPhase.ENDED
                    self._shadows[job.id] = _Shadow(is_real=True, is_over=over)
        self.real = list(real.values())
        self._known |= real
        return [seen for job in list(self._known.values()) for seen in self._seen(job, real)]

    def _seen(self, job: SeenJob, real: Mapping[str, SeenJob]) -> Iterator[SeenJob]:
        """Yield a job as it would be by the decisions; drop it once it is over and gone."""
        shadow = self._shadows.setdefault(job.id, _Shadow())
        if shadow.is_over and job.id not in real:
            del self._known[job.id], self._shadows[job.id]
            return
        if shadow.is_real:
            yield job
            return

        if job.amounts and (job.phase is JobPhase.WAITING or not shadow.amounts):
            shadow.amounts = replace(job.amounts, held={})
        told = replace(
            job,
            restarts=shadow.restarts,
            is_held=shadow.is_held,
            hosts=shadow.hosts,
            amounts=shadow.amounts,
        )
        ran = job.start is not None and job.phase is not JobPhase.WAITING
        if job.phase is JobPhase.ENDED and not ran:
            shadow.is_over = True

        if shadow.is_over:
            yield replace(told, phase=JobPhase.ENDED, start=None, outcome=COMPLETED_KILLED)
        elif shadow.start is None:
            is_ready = job.is_ready or job.phase is not JobPhase.WAITING
            yield replace(told, phase=JobPhase.WAITING, is_ready=is_ready, start=None, end=None)
        else:
            yield self._running(told, job, shadow.start)

    def _running(self, shadowed: SeenJob, job: SeenJob, start: float) -> SeenJob:
        """Return a job that the decisions started at ``start``, running or already ended."""
        end = None
        outcome = job.outcome
        if job.end is not None and job.start is not None:
            end = start + job.end - job.start
        elif job.limit is not None:
            end = start + job.limit
            outcome = COMPLETED_WALLTIME_REACHED

        if end is None or end > self.clock():
            return replace(shadowed, phase=JobPhase.RUNNING, start=start, end=None)
        self._shadows[job.id].is_over = True
        return replace(shadowed, phase=JobPhase.ENDED, start=start, end=end, outcome=outcome)

    def nodes(self) -> dict[str, NodeState]:
        """Return the nodes as they really are."""
        return self._manager.nodes()

    def shared_hosts(self) -> dict[str, dict[str, str]] | None:
        """Return what each node really has, where jobs share nodes."""
        return self._manager.shared_hosts()

    def hold(self, job_ids: Sequence[str]) -> None:
        """Note that jobs would be held; the real jobs stay as they are."""
        for job_id in job_ids:
            self._shadows[job_id].is_held = True

    def start(self, job_id: str, hosts: Sequence[str], cores: int | None = None) -> None:
        """Note that a job would start now on these nodes; the real job stays as it is."""
        shadow = self._shadows[job_id]
        if shadow.start is None:
            shadow.start = self.clock()
            shadow.hosts = tuple(hosts)

    def release(self, job_ids: Sequence[str]) -> None:
        """Do nothing: no job is really held."""

    def refuse(self, job_id: str, why: str) -> None:
        """Note that a waiting job would be cancelled; the real job stays as it is."""
        self._shadows[job_id].is_over = True

    def requeue(self, job_id: str) -> None:
        """Note that a job would be requeued; the real job stays as it is."""
        shadow = self._shadows[job_id]
        if shadow.start is not None:
            shadow.start = None
            shadow.restarts += 1

    def tell(self, texts: Mapping[str, str]) -> None:
        """Do nothing: users are not told what would have been decided."""
