"""What a deadline scheduler decided and what became of its promises: ``PREFIX_decisions.jsonl``.

The log watches the scheduler's plan: before and after each answer to a new job, and at
the end of each decision, it notes what has changed since it looked last. Nothing is
noted, and nothing is done, unless
:meth:`~qops_batsim.scheduling.module.DecisionModule.keep_decisions` was called.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from qops_batsim.jobs import Job, QosRequest
from qops_batsim.scheduling.decision_events import (
    FORMAT,
    VERSION,
    Admitted,
    Cause,
    Dropped,
    Ended,
    Event,
    Killed,
    Late,
    LateNews,
    LogHeader,
    Moved,
    Outlived,
    Refused,
    Resized,
    Slipped,
    Started,
    Submitted,
    Withdrawn,
    told,
)
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.version import __version__

if TYPE_CHECKING:
    from qops_batsim.platform.hostset import HostSet
    from qops_batsim.scheduling.answers import Answer
    from qops_batsim.scheduling.capacity import Capacity
    from qops_batsim.scheduling.plan import Plan
    from qops_batsim.scheduling.profile import Floats, Ints
    from qops_batsim.scheduling.refusal import Refusal

_NO_REQUEST = QosRequest()


class DecisionLog:
    """The decisions of one simulation, as lines of JSON.

    One decision is noted as: jobs ended; running jobs outlived their estimates; what
    was moved for that; then for each new job: submitted, admitted or refused, and
    what was moved for it; at last jobs started, and what was moved because a job
    started late. O(waiting) for each of these looks.
    """

    def __init__(self) -> None:
        self.processors = 0
        self._lines: list[bytes] = []
        self._encode = msgspec.json.Encoder().encode

    def begin(self, machine_size: int, plan: Plan | None = None) -> None:
        """Start anew, and watch the plan if there is one."""
        self.processors = machine_size
        self._lines.clear()
        if plan is None:
            return
        plan.observer = self
        self._plan = plan
        # What was noted last of each slot.
        self._starts, self._ends, self._targets = (
            each.copy() for each in (plan.jobs.starts, plan.jobs.ends, plan.jobs.targets)
        )
        # What happened since the last decision, and is dated at the next one.
        self._gone: list[tuple[str, float]] = []
        self._refused_at_once: list[tuple[Job, Refusal]] = []
        self._withdrawn: list[str] = []
        self._present = machine_size
        self._resized: Resized | None = None
        self._looked = False
        self._late_news = False

    def lines(self) -> Iterable[bytes]:
        """Return the events so far, one JSON object each, in order."""
        return self._lines

    # Called by the scheduler

    def refused_at_once(self, job: Job, refusal: Refusal) -> None:
        """Note a job that the plan is not asked about."""
        self._refused_at_once.append((job, refusal))

    def left(self, job_id: str) -> None:
        """Note an end, before the plan is told."""
        self._gone.append((job_id, float(self._plan.jobs.ends[self._plan.table.slot_of(job_id)])))

    def withdrawn(self, job_id: str) -> None:
        """Note that a killed job is not run again, because it had ended before."""
        self._withdrawn.append(job_id)

    def dropped(self, now: float, job_id: str, refusal: Refusal) -> None:
        """Note that a waiting job was given up."""
        self.note(Dropped(date=now, job=job_id, **told(refusal)))

    def resized(self, capacity: Capacity, running: Mapping[str, HostSet]) -> None:
        """Note which hosts are there, and on which each job runs, by its id."""
        gone = {job_id: len(hosts & capacity.away) for job_id, hosts in running.items()}
        under = [(job_id, count) for job_id, count in gone.items() if count]
        self._resized = Resized(
            date=0.0, present=capacity.present, final=capacity.is_final, under=under
        )

    def decided(self, now: float, started: list[str]) -> None:
        """Note the end of a decision, and the jobs that it starts."""
        plan, late = self._plan, self._plan.running_jobs.lags
        slots = [plan.table.slot_of(job_id) for job_id in started]
        if not self._looked:
            self._look_first(now, slots)
        else:
            if plan.news.late:
                self._note_ends(now, slots)
            self._note_moves(now, "late_start", [], slots)
        self._looked = False
        for job, refusal in self._refused_at_once:
            self._note_submission(now, job)
            self.note(Refused(date=now, job=job.id, **told(refusal)))
        self._refused_at_once.clear()
        for job_id, slot in zip(started, slots, strict=True):
            end = self._ends[slot] = plan.jobs.ends[slot]
            lag = late.get(slot)
            self.note(Started(date=now, job=job_id, end=_finite(end), late=lag))

    # Called by the plan

    def asked(self, now: float, slot: int) -> None:
        """Note that a job asks for admission, and what was moved before."""
        if not self._looked:
            self._look_first(now, [])
            self._looked = True
        self._note_submission(now, self._plan.table.jobs[slot])

    def answered(self, now: float, slot: int, answer: Answer) -> None:
        """Note the answer to a job, and what was moved for it."""
        jobs, numbers = self._plan.table.jobs, self._plan.jobs
        job_id, offer, kill = jobs[slot].id, answer.offer, answer.kill
        blamed = jobs[answer.blamed].id if answer.blamed >= 0 else None
        if answer.refusal:
            why, offered = told(answer.refusal), answer.offered
            self.note(Refused(date=now, job=job_id, blamed=blamed, offered=offered, **why))
            return
        self._make_room()
        self._starts[slot] = numbers.starts[slot]
        self._targets[slot] = numbers.targets[slot]
        self.note(
            Admitted(
                date=now,
                job=job_id,
                start=_finite(self._starts[slot]),
                deadline=_finite(numbers.promises[slot]),
                target=_other(numbers.targets[slot], numbers.promises[slot]),
                offered=offer is not None,
                blamed=None if offer is None else blamed,
                **told(None if offer is None else offer.refusal),
            )
        )
        if kill is not None:
            self._starts[kill.slot] = numbers.starts[kill.slot]
            self._ends[kill.slot] = numbers.ends[kill.slot]
            start, again = _finite(self._starts[kill.slot]), jobs[kill.slot].id
            self.note(Killed(date=now, job=kill.victim.id, again=again, by=job_id, start=start))
        self._note_moves(now, "admission" if kill is None else "kill", [job_id], [])

    def _look_first(self, now: float, started: list[int]) -> None:
        """Note what happened to running jobs, and what was moved for that."""
        self._make_room()
        if self._plan.news.late and not self._late_news:
            self._late_news = True
            self.note(LateNews(date=now))
        early = []
        for job_id, end in self._gone:
            self.note(Ended(date=now, job=job_id, early=_finite(end - now)))
            if end > now + PLAN_TOLERANCE:
                early.append(job_id)
        self._gone.clear()
        for job_id in self._withdrawn:
            self.note(Withdrawn(date=now, job=job_id))
        early += self._withdrawn
        self._withdrawn.clear()
        late = self._note_ends(now, started)
        cause: Cause = "outlived" if late else "early_end" if early else "late_start"
        resized, self._resized = self._resized, None
        if resized is not None:
            self.note(msgspec.structs.replace(resized, date=now))
            if not late and resized.present != self._present:
                cause = "hosts_left" if resized.present < self._present else "hosts_returned"
            self._present = resized.present
        self._note_moves(now, cause, late or early, started)

    def _note_ends(self, now: float, started: list[int]) -> list[str]:
        """Note new expected ends; return the jobs that have outlived their estimates."""
        plan, ends, late = self._plan, self._plan.jobs.ends, []
        for slot in sorted(_changed(plan.running_jobs.slots, ends, self._ends)):
            if slot in started:
                continue
            job_id, end, before = plan.table.jobs[slot].id, float(ends[slot]), self._ends[slot]
            self._ends[slot] = end
            # What outlives its estimate does so by the grace, and is given a second more.
            if plan.news.late and end - before <= plan.news.grace:
                self.note(Slipped(date=now, job=job_id, end=_finite(end)))
                continue
            late.append(job_id)
            self.note(Outlived(date=now, job=job_id, end=_finite(end)))
        return late

    def _note_moves(self, now: float, cause: Cause, by: list[str], started: list[int]) -> None:
        self._make_room()
        waiting, jobs = self._plan.waiting_slots, self._plan.table.jobs
        starts, targets = self._plan.jobs.starts, self._plan.jobs.targets
        moves = []
        for slot in sorted([*_changed(waiting, starts, self._starts), *started]):
            before, after = float(self._starts[slot]), float(starts[slot])
            self._starts[slot] = after
            # A job may start off its promise by as much as dates may differ.
            if slot not in started or abs(after - before) > PLAN_TOLERANCE:
                moves.append((jobs[slot].id, _finite(before), _finite(after)))
        if moves:
            self.note(Moved(date=now, cause=cause, by=by, moves=moves))
        for slot in sorted(_changed(waiting, targets, self._targets)):
            self._targets[slot] = targets[slot]
            loss = told(self._plan.resizing.loss(slot))
            deadline = _finite(targets[slot])
            self.note(Late(date=now, job=jobs[slot].id, deadline=deadline, **loss))

    def _note_submission(self, now: float, job: Job) -> None:
        asked = job.qos or _NO_REQUEST
        self.note(
            Submitted(
                date=now,
                job=job.id,
                submission=job.submission_time,
                processors=job.processors,
                estimate=_finite(job.estimate),
                deadline=asked.deadline,
                tolerance=asked.tolerance_factor,
                user_deadline=asked.has_user_deadline,
            )
        )

    def note(self, event: Event) -> None:
        """Append an event; for modules without a plan."""
        self._lines.append(self._encode(event))

    def _make_room(self) -> None:
        jobs = self._plan.jobs
        if len(self._starts) < len(jobs.starts):
            self._starts = _enlarged(self._starts, jobs.starts)
            self._ends = _enlarged(self._ends, jobs.ends)
            self._targets = _enlarged(self._targets, jobs.targets)


def format_decisions(
    log: DecisionLog, *, run_id: str, scheduler: str, options: dict[str, Any]
) -> Iterator[bytes]:
    """Yield the lines of ``_decisions.jsonl``; ``scheduler`` is a registered name."""
    header = LogHeader(
        format=FORMAT,
        version=VERSION,
        scheduler=scheduler,
        options=options,
        processors=log.processors,
        package_version=__version__,
        run_id=run_id,
    )
    for line in (msgspec.json.encode(header), *log.lines()):
        yield line + b"\n"


def _changed(slots: Ints, now: Floats, before: Floats) -> list[int]:
    """Return the slots whose numbers differ."""
    changed: list[int] = slots[now[slots] != before[slots]].tolist()
    return changed


def _enlarged(before: Floats, now: Floats) -> Floats:
    larger = now.copy()
    larger[: len(before)] = before
    return larger


def _other(target: float, promise: float) -> float | None:
    """Return a target for JSON, if it is not the promise."""
    return None if target == promise else float(target)


def _finite(number: float) -> float | None:
    """Return a number for JSON, which has no infinity."""
    return float(number) if abs(number) < math.inf else None
