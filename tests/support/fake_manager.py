"""A resource manager in this process, with a clock of its own: what it is told takes effect later.

It behaves as Slurm does where that matters: a job keeps its id when it is requeued, ended jobs
vanish after some time, commands take effect with the next turn of its scheduler, and everything
can be said twice. It counts what has an effect, so that a test sees what is done twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from qops_batsim.jobs import (
    COMPLETED_KILLED,
    COMPLETED_SUCCESSFULLY,
    COMPLETED_WALLTIME_REACHED,
)
from qops_batsim.live import CommandFailed, JobPhase, NodeState, SeenJob, Unreachable
from qops_batsim.live.manager import array_of
from qops_batsim.slurm.queued_amounts import QueuedAmounts

MIN_JOB_AGE = 300.0


@dataclass
class FakeJob:
    id: str
    nodes: int
    limit: float
    run_time: float
    submitted: float
    asks: dict[str, str] = field(default_factory=dict)
    phase: JobPhase = JobPhase.WAITING
    start: float | None = None
    end: float | None = None
    restarts: int = 0
    is_held: bool = False
    is_handed: bool = False
    is_early: bool = False
    is_rerunnable: bool = True
    nice: int = 0
    hosts: tuple[str, ...] = ()
    wanted: tuple[str, ...] | None = None
    outcome: str = COMPLETED_SUCCESSFULLY
    is_cancelled: bool = False
    told: str = ""
    problem: str = ""
    throttle: int = 0
    amounts: QueuedAmounts | UnsetType = UNSET
    held: dict[str, dict[str, int]] = field(default_factory=dict)
    cores: int = 0

    def seen(self) -> SeenJob:
        return SeenJob(
            id=self.id,
            phase=self.phase,
            nodes=self.nodes,
            limit=self.limit,
            submitted=self.submitted,
            start=self.start,
            end=self.end,
            restarts=self.restarts,
            user="ada",
            is_held=self.is_held,
            is_handed=self.is_handed,
            is_early=self.is_early,
            is_ready=not self.is_early,
            is_rerunnable=self.is_rerunnable,
            nice=self.nice,
            hosts=self.hosts,
            asks=self.asks,
            outcome=self.outcome,
            is_cancelled=self.is_cancelled,
            problem=self.problem,
            throttle=self.throttle,
            amounts=replace(self.amounts, held=self.held) if self.amounts else UNSET,
        )


class FakeManager:
    """Jobs on nodes n1, n2, …; ``now`` moves with :meth:`advance`."""

    def __init__(self, nodes: int, now: float = 1_000_000.0, *, latency: float = 0.5) -> None:
        self.now = now
        self.latency = latency
        self.all: dict[str, FakeJob] = {}
        self.states = {f"n{number}": NodeState.THERE for number in range(1, nodes + 1)}
        self.effects: Counter[tuple[str, str, int]] = Counter()
        self.said: list[str] = []
        self._last = 0
        self.skew = 0.0
        self.is_down = False
        self.starts_by_itself = False
        self._due: list[tuple[float, str]] = []
        self.shared: dict[str, dict[str, str]] | None = None

    def clock(self) -> float:
        """Return what the calendar of the deciding machine says."""
        return self.now + self.skew

    def uptime(self) -> float:
        return self.now

    # What users and administrators do

    def submit(
        self,
        nodes: int = 1,
        limit: float = 600.0,
        run_time: float = 300.0,
        deadline: float | None = None,
        task: str = "",
        **asks: str,
    ) -> FakeJob:
        """Submit a job, or a task of an array, with a deadline so many seconds from now."""
        self._last += 1
        job_id = task or str(self._last)
        if deadline is not None:
            asks["deadline"] = repr(self.now + deadline)
        job = FakeJob(job_id, nodes, limit, run_time, float(int(self.now)), asks)
        self.all[job_id] = job
        return job

    def forget(self, job_id: str) -> None:
        """Forget a job that has ended, whose id is not given again."""
        del self.all[job_id]

    def cancel(self, job_id: str) -> None:
        job = self.all[job_id]
        if job.phase is not JobPhase.ENDED:
            self._end(job, self.now, COMPLETED_KILLED)
            job.is_cancelled = True

    def lose_node(self, name: str) -> None:
        """Lose a node; what ran there is requeued, and is not held."""
        self.states[name] = NodeState.AWAY
        for job in self.all.values():
            if job.phase is JobPhase.RUNNING and name in job.hosts:
                self._requeue(job, held=False)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while True:
            dates = [date for date, _ in self._due]
            dates += [job.end for job in self._running() if job.end is not None]
            if not dates or min(dates) > end:
                break
            self.now = max(self.now, min(dates))
            self._turn()
        self.now = end
        self._turn()

    def _running(self) -> list[FakeJob]:
        return [job for job in self.all.values() if job.phase is JobPhase.RUNNING]

    def _turn(self) -> None:
        for job in self._running():
            if job.end is not None and job.end <= self.now:
                timed_out = job.run_time > job.limit
                self._end(job, job.end, COMPLETED_WALLTIME_REACHED if timed_out else job.outcome)
        self._due = [(date, job_id) for date, job_id in self._due if date > self.now]
        used = {name for job in self._running() for name in job.hosts}
        for job in self.all.values():
            if job.phase is not JobPhase.WAITING or job.is_held:
                continue
            free = [n for n, s in self.states.items() if s is NodeState.THERE and n not in used]
            if any(date > self.now and job_id == job.id for date, job_id in self._due):
                continue
            if job.wanted is None and not self.starts_by_itself:
                continue
            running = [each for each in self._running() if array_of(each.id) == array_of(job.id)]
            if 0 < job.throttle <= len(running):
                continue
            hosts = tuple(free[: job.nodes]) if job.wanted is None else job.wanted
            if self.shared is not None:
                if not self._holds(job, hosts):
                    continue
                used = set()
                free = list(hosts)
            if len(hosts) == job.nodes and set(hosts) <= set(free):
                job.phase = JobPhase.RUNNING
                job.start = self.now
                job.hosts = hosts
                job.end = self.now + min(job.run_time, job.limit)
                used |= set(hosts)
                self.effects["started", job.id, job.restarts] += 1

    def _holds(self, job: FakeJob, hosts: Sequence[str]) -> bool:
        """Give a job what it asks for on shared nodes, if they have as much left: as unevenly as it
        may be.
        """
        assert self.shared is not None
        asked = job.amounts
        assert asked
        totals = {kind: n for kind, n in asked.totals.items() if kind != "cores"}
        held: dict[str, dict[str, int]] = {}
        for name in hosts:
            has = {k: int(n) for k, n in self.shared[name].items() if n.isdigit()}
            for other in self._running():
                for kind, n in other.held.get(name, {}).items():
                    has[kind] = has.get(kind, 0) - n
            if asked.exclusive:
                wanted = {k: int(n) for k, n in self.shared[name].items() if n.isdigit()}
            else:
                wanted = {"cores": job.cores, "memory": job.cores * asked.by_core, **asked.each}
                for kind, n in totals.items():
                    wanted[kind] = min(n, has.get(kind, 0))
                    totals[kind] -= wanted[kind]
            held[name] = wanted
            if self.states[name] is not NodeState.THERE:
                return False
            if any(n > has.get(kind, 0) for kind, n in wanted.items() if kind != "weight"):
                return False
        if any(totals.values()) and not asked.exclusive:
            return False
        job.held = held
        return True

    def _end(self, job: FakeJob, date: float, outcome: str) -> None:
        self.effects["ended", job.id, job.restarts] += 1
        job.phase = JobPhase.ENDED
        job.end = date
        job.outcome = outcome
        job.held = {}

    def _requeue(self, job: FakeJob, *, held: bool) -> None:
        self.effects["requeued", job.id, job.restarts] += 1
        job.phase = JobPhase.WAITING
        job.start = None
        job.end = None
        job.hosts = ()
        job.held = {}
        job.restarts = job.restarts + 1
        job.is_held = held
        job.wanted = None
        job.is_handed = held
        job.submitted = float(int(self.now))

    # The interface

    def _answer(self, said: str = "") -> None:
        if self.is_down:
            raise Unreachable("no answer")
        if said:
            self.said.append(said)

    def jobs(self) -> list[SeenJob]:
        self._answer()
        self._turn()
        return [
            job.seen()
            for job in self.all.values()
            if job.phase is not JobPhase.ENDED or self.now - (job.end or 0) < MIN_JOB_AGE
        ]

    def nodes(self) -> dict[str, NodeState]:
        self._answer()
        return dict(self.states)

    def hold(self, job_ids: Sequence[str]) -> None:
        self._answer(f"hold {','.join(job_ids)}")
        for job_id in job_ids:
            if self.all[job_id].phase is JobPhase.WAITING:
                job = self.all[job_id]
                job.is_held = True
                job.is_handed = True

    def shared_hosts(self) -> dict[str, dict[str, str]] | None:
        self._answer()
        return self.shared

    def start(self, job_id: str, hosts: Sequence[str], cores: int | None = None) -> None:
        self._answer(f"start {job_id} {','.join(hosts)}")
        job = self.all[job_id]
        if job.phase is not JobPhase.WAITING:
            raise CommandFailed(f"job {job_id} does not wait")
        job.is_held = False
        job.is_handed = False
        job.wanted = tuple(hosts)
        job.cores = cores or 0
        if cores is not None:
            job.nodes = len(hosts)
        if job.amounts and not job.amounts.exclusive:
            # Slurm shows as asked for what was named; what is more than asked for as well.
            totals = {**job.amounts.totals, "cores": job.cores * len(hosts)}
            count = len(hosts)
            job.amounts = replace(
                job.amounts, totals=totals, nodes=count, most=count, wanted=tuple(hosts)
            )
        self._due.append((self.now + self.latency, job_id))

    def release(self, job_ids: Sequence[str]) -> None:
        self._answer(f"release {','.join(job_ids)}")
        for job_id in job_ids:
            job = self.all[job_id]
            job.is_held = False
            job.is_handed = False

    def refuse(self, job_id: str, why: str) -> None:
        self._answer(f"refuse {job_id}")
        job = self.all[job_id]
        job.told = why
        if job.phase is JobPhase.WAITING:
            self.effects["refused", job_id, job.restarts] += 1
            job.phase = JobPhase.ENDED
            job.end = self.now
            job.outcome = COMPLETED_KILLED

    def requeue(self, job_id: str) -> None:
        self._answer(f"requeue {job_id}")
        job = self.all[job_id]
        if job.phase is JobPhase.RUNNING:
            self._requeue(job, held=True)

    def tell(self, texts: Mapping[str, str]) -> None:
        self._answer()
        for job_id, text in texts.items():
            self.all[job_id].told = text
