"""The search of a deadline scheduler of one's own: asks it, and checks what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from qops_batsim.errors import SimulationError, python_text, require_type
from qops_batsim.scheduling.admission.request import AdmissionRequest, PlannedJob
from qops_batsim.scheduling.admission.search import FOUND, NO_PLAN, Question, Verdict, meets
from qops_batsim.scheduling.availability import AvailabilityProfile
from qops_batsim.scheduling.profile import copy_profile, reserve
from qops_batsim.scheduling.refusal import Refusal, free_text
from qops_batsim.timing import on_grid


class OwnSearch:
    """Passes questions on to a scheduler's ``admit``."""

    def __init__(
        self,
        name: str,
        admit: Callable[[AdmissionRequest], Mapping[str, float] | str | Refusal],
        machine_size: int,
    ) -> None:
        self._name = name
        self._admit = admit
        self._machine_size = machine_size

    def __call__(self, q: Question) -> Verdict:
        """Return whether there is a plan, or the scheduler's reason."""
        jobs, table, targets = q.jobs, q.table.jobs, q.jobs.targets
        slots = q.waiting.slots[: q.waiting.size[0]].tolist()
        answer = self._admit(
            AdmissionRequest(
                q.now,
                table[q.new],
                float(targets[q.new]),
                [PlannedJob(table[s], float(jobs.starts[s]), float(targets[s])) for s in slots],
                AvailabilityProfile.of(q.room.free, self._machine_size),
            )
        )
        if isinstance(answer, str):
            return Verdict(False, NO_PLAN, free_text(answer or "refused without a reason"))
        if isinstance(answer, Refusal):
            blamed = (slot for slot in (*slots, q.new) if table[slot].id == answer.blamed)
            return Verdict(False, next(blamed, NO_PLAN), answer)
        if not isinstance(answer, Mapping):
            raise self._error(
                q,
                f"{python_text(answer)}; a start of each job by id, or the reason of a refusal, "
                "is expected",
            )
        named = {table[slot].id: slot for slot in (*slots, q.new)}
        if answer.keys() != named.keys():
            odd = ", ".join(sorted(map(str, answer.keys() ^ named.keys())))
            raise self._error(q, f"not just the waiting jobs and the new one (differs: {odd})")
        free = AvailabilityProfile.of(q.room.free, self._machine_size)
        copy_profile(q.room.free, q.room.draft.profile)
        for place, (job_id, slot) in enumerate(named.items()):
            told = f"{self._name}.admit at {q.now:g} s: start of {job_id}"
            require_type(told, answer[job_id], (int, float, np.number), "a number of seconds")
            start = on_grid(float(answer[job_id]))
            self._check(q, free, slot, start)
            reserve(q.room.draft.profile, start, jobs.estimates[slot], jobs.processors[slot])
            q.room.draft.order[place], q.room.draft.starts[place] = slot, start
        return FOUND

    def _check(self, q: Question, free: AvailabilityProfile, slot: int, start: float) -> None:
        """Refuse a start that is in the past, too late for the target, or not free."""
        job, estimate = q.table.jobs[slot], float(q.jobs.estimates[slot])
        target = float(q.jobs.targets[slot])
        if not start >= q.now or not meets(start, estimate, target):
            raise self._error(
                q,
                f"a start of {job.id} at {start:g} s; one from {q.now:g} s on, with which it ends "
                f"by {target:g} s, is expected",
            )
        try:
            free.reserve(start, estimate, job.processors)
        except ValueError as error:
            raise self._error(q, f"a start of {job.id} at {start:g} s: {error}") from None

    def _error(self, q: Question, what: str) -> SimulationError:
        new = q.table.jobs[q.new].id
        return SimulationError(
            f"{self._name}.admit at {q.now:g} s, asked about {new}, returned {what}"
        )
