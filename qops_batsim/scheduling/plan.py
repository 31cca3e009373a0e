"""A plan: the start planned for every waiting job, as conservative backfilling keeps it.

The availability profile holds the running jobs up to their expected ends and the
waiting jobs at their planned starts. What is reserved is a number of processors, or
certain hosts. The rules stand in :mod:`~qops_batsim.scheduling.core`; here they are called with
what an engine tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from qops_batsim.jobs import Job, rest_of, restarted_id
from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.answers import (
    AdmissionAnswer,
    Held,
    Kill,
    Observer,
    refusal_of,
    with_offer,
)
from qops_batsim.scheduling.arrays import WINDOW, Ints, Jobs, Profile, Queue, grown, with_room
from qops_batsim.scheduling.capacity import Capacity
from qops_batsim.scheduling.core import decision, plan, rows, state
from qops_batsim.scheduling.core.columns import TARGETS
from qops_batsim.scheduling.core.state import EVER, Given, State
from qops_batsim.scheduling.decision_events import Submission
from qops_batsim.scheduling.decision_rows import submissions_of
from qops_batsim.scheduling.host_words import WORD_BITS, hosts_of, words_of
from qops_batsim.scheduling.news import News
from qops_batsim.scheduling.predictions import Users, new_past, renew_estimates
from qops_batsim.scheduling.profile import drop_claim
from qops_batsim.scheduling.refusal import Refusal, RefusalKind
from qops_batsim.scheduling.table import SlotTable
from qops_batsim.timing import DEADLINE_TOLERANCE, end_of, on_grid, up_to_grid

FREE_TEXT = RefusalKind.FREE_TEXT.code
UNFIT = (decision.TOO_WIDE, decision.HOSTS_GONE)


class Policy(Protocol):
    """Decides about new jobs; without a policy each gets its earliest fit."""

    def take(self, plan: Plan, now: float, slot: int) -> AdmissionAnswer | None:
        """Take a new job into the plan, or refuse it; None if the log has the answer already."""

    def resume(self, jobs: Sequence[Held]) -> None:
        """Know what :meth:`Plan.resume` puts into the plan, by slot."""


class Renewal(NamedTuple):
    """A new promise for the job in a slot, in place of one that cannot be kept (seconds)."""

    slot: int
    broken: float
    promise: float
    loss: Refusal


class Plan:
    """Planned starts, kept up to date as jobs arrive and leave.

    Parameters
    ----------
    machine_size
        Number of processors.
    policy
        Decides about new jobs.
    by_host
        Whether a reservation names its hosts, the lowest that fit, as batsched's
        ``conservative_bf`` plans: compression in order of arrival, at every end of a
        job. Else hosts are chosen at the start, which is exact for rigid jobs on
        interchangeable hosts.
    promised
        What is promised, if anything: :data:`~.core.columns.TARGETS` or ``LATEST_STARTS``.

    Attributes
    ----------
    state
        What the kernels work on; another tuple whenever an array needs more room.
    table
        All jobs by slot.
    news
        How late news is.
    answers
        What became of new jobs, by slot, until it is emptied.
    worded
        Answers that a policy in Python has given, by slot.
    observer
        Told of every new job before the policy is asked, if any.
    """

    def __init__(
        self,
        machine_size: int,
        policy: Policy | None = None,
        *,
        by_host: bool = False,
        promised: int = TARGETS,
    ) -> None:
        words = -(-machine_size // WORD_BITS) if by_host else 0
        self.machine_size = machine_size
        self.policy = policy
        self.table = SlotTable(words)
        self.state: State = state.new_state(
            self.table.numbers,
            machine_size,
            words=words,
            promises=policy is not None,
            promised=promised,
        )
        self.news = News()
        self.answers: dict[int, AdmissionAnswer] = {}
        self.worded: dict[int, AdmissionAnswer] = {}
        self.observer: Observer | None = None
        self._users: Users | None = None
        self._renewals: list[Renewal] = []
        self._words = words
        self._read = 0

    @property
    def jobs(self) -> Jobs:
        """The numbers of all jobs by slot; good until the next job arrives."""
        return self.table.numbers

    @property
    def profile(self) -> Profile:
        """Availability profile beside the running and waiting jobs."""
        return self.state.profile

    @property
    def waiting(self) -> Queue:
        """Slots of the waiting jobs by planned start, ties by arrival."""
        return self.state.waiting

    @property
    def waiting_count(self) -> int:
        """Number of waiting jobs."""
        return int(self.state.waiting.size[0])

    @property
    def waiting_slots(self) -> Ints:
        """Slots of the waiting jobs by planned start: a view, good until the next decision."""
        slots, size = self.state.waiting
        return slots[: size[0]]

    @property
    def claimed_slots(self) -> list[int]:
        """Slots of the jobs with promised starts, and :data:`WINDOW` for maintenance."""
        claims = self.state.claims
        found: list[int] = claims.slots[: claims.size[0]].tolist()
        return found

    @property
    def running_slots(self) -> Ints:
        """Slots of the running jobs in any order: a view, good until the next decision."""
        slots, size = self.state.running
        return slots[: size[0]]

    @property
    def started_slots(self) -> list[int]:
        """Slots of the jobs that the last decision started."""
        found: list[int] = self._listed(state.STARTING).tolist()
        return found

    def _listed(self, which: int) -> Ints:
        return self.state.lists[which, : self.state.sizes[which]]

    def _put(self, which: int, slot: int) -> None:
        sizes = self.state.sizes
        self.state.lists[which, sizes[which]] = slot
        sizes[which] += 1

    @property
    def given(self) -> Given:
        """Reservations given up since the last compression."""
        return self.state.given

    @property
    def present(self) -> int:
        """Number of hosts that are there."""
        return int(self.state.counts[state.PRESENT])

    def is_running(self, slot: int) -> bool:
        """Tell whether a job runs and its end was not told yet. O(jobs told to have ended)."""
        return bool(self.jobs.places[slot] >= 0) and slot not in self._listed(state.GONE)

    def actual_start(self, slot: int) -> float:
        """Return when a running job was started (seconds). O(1)."""
        return float(plan.actual_start(self.state, slot))

    # What happens

    def predict_run_times(self) -> None:
        """Plan with predictions, in place of estimates, of the jobs that arrive from now on."""
        self._users = Users()
        self.state = self.state._replace(past=new_past(1))

    @property
    def learns(self) -> bool:
        """Whether it plans by what jobs that have ended did."""
        return self._users is not None or hasattr(getattr(self.policy, "search", None), "recall")

    def arrived(self, job: Job) -> None:
        """Add a job that waits from now on. Amortised O(1)."""
        slot = self.table.add(job)
        if self.table.numbers is not self.state.jobs:
            self.state = state.with_jobs(self.state, self.table.numbers)
        if self._users is not None:
            self.jobs.users[slot] = self._users.number(job.user)
            self.state = self.state._replace(past=self._users.with_room(self.state.past))
        self.state.counts[state.KNOWN] = len(self.table)

    def joined(self, job: Job, start: float, hosts: HostSet) -> None:
        """Add a job that somebody else has started (seconds), on hosts planned for others or not.

        O(1); with the next decision the plan is made anew, as after a loss of hosts.
        """
        self.arrived(job)
        slot, jobs, counts = self.table.slot_of(job.id), self.jobs, self.state.counts
        jobs.starts[slot] = up_to_grid(start)
        jobs.reserved[slot] = words_of(hosts, self._words) if self._words else len(hosts)
        plan.add_running(self.state, slot, end_of(start, float(jobs.estimates[slot])), 0.0)
        jobs.noted_ends[slot] = jobs.ends[slot]
        counts[state.IS_RESIZED] = 1
        counts[state.LOST_HOSTS] += len(hosts)

    def left(self, job_id: str) -> None:
        """Note that a running job has ended. O(1)."""
        self._put(state.GONE, self.table.slot_of(job_id))

    def release(self, slot: int) -> None:
        """Allow the work of a killed job to start again: it is dead, and the engine knows it."""
        self.jobs.is_held[slot] = False

    def undo_kill(self, kill: Kill) -> None:
        """Drop the work of a job from the plan that had ended before it was killed. O(waiting)."""
        self.table.replace(kill.slot, kill.victim)
        self.jobs.kills[kill.slot] -= 1
        self.jobs.is_dying[kill.slot] = False
        self._put(state.UNDONE, kill.slot)
        self.withdraw(kill.slot)

    def withdraw(self, slot: int) -> None:
        """Drop a waiting job from the plan. O(waiting)."""
        jobs, counts = self.jobs, self.state.counts
        jobs.is_held[slot] = False
        if not math.isnan(jobs.suspended[slot]):
            jobs.suspended[slot] = math.nan
            counts[state.SUSPENSIONS] -= 1
        claimed, size = self.claimed_slots, self.waiting_count
        if slot in claimed:
            drop_claim(self.state.claims, claimed.index(slot))
        else:
            place = self.waiting_slots.tolist().index(slot)
            slots = self.state.waiting.slots
            slots[place : size - 1] = slots[place + 1 : size]
            self.state.waiting.size[0] -= 1
        start = float(self.jobs.starts[slot])
        end = end_of(start, float(self.jobs.estimates[slot]))
        plan.give_back(self.profile, start, end, self.jobs.reserved[slot], self.given)
        counts[state.IS_FREED] = 1

    def cancel(self, now: float, job_id: str) -> tuple[Job | None, bool]:
        """Drop a job that its user has cancelled, by the id of its submission, if it waits.

        Returned is the job, and whether to ask again later: it does not wait yet, because it is
        new, or because its killed run has not ended. O(waiting).
        """
        slot = self.table.known_slot(job_id)
        if slot is None:
            return None, False
        if slot in self.new_slots or self.jobs.is_held[slot]:
            return None, True
        if slot not in self.waiting_slots and slot not in self.claimed_slots:
            return None, False
        self.withdraw(slot)
        self._put(state.CANCELLED, slot)
        if self.state.counts[state.LOGS]:
            self.make_room()
            why, date = RefusalKind.CANCELLED.code, up_to_grid(float(now))
            rows.append(self.state.log, date, rows.DROPPED, slot, -1, why, 0.0, 0.0, 0.0)
        return self.table.jobs[slot], False

    def drop_wider(self, now: float, processors: int) -> list[int]:
        """Drop the waiting jobs that ask for more processors than will ever be there again."""
        is_held, needed, counts = self.jobs.is_held, self.jobs.processors, self.state.counts
        claimed = (slot for slot in self.claimed_slots if slot != WINDOW)
        waiting = [*self.waiting_slots.tolist(), *claimed]
        wider = [s for s in waiting if needed[s] > processors and not is_held[s]]
        date, size = up_to_grid(float(now)), int(counts[state.MACHINE])
        for slot in wider:
            self.withdraw(slot)
            if counts[state.LOGS]:
                why, gone = decision.HOSTS_GONE, size - processors
                rows.append(self.state.log, date, rows.DROPPED, slot, -1, why, size, gone, 0.0)
        return wider

    def resized(self, capacity: Capacity, running: Mapping[str, HostSet]) -> None:
        """Learn which hosts are there, and on which each job runs, by its id. O(running)."""
        counts = self.state.counts
        counts[state.LOST_HOSTS] += max(0, self.present - capacity.present)
        self._note_size(capacity.present, is_final=capacity.is_final)
        self.refit(capacity, running)

    def announced(self, hosts: int) -> None:
        """Learn that so many hosts will leave: promises may have to give way."""
        self.state.counts[state.LOST_HOSTS] += hosts

    def refit(self, capacity: Capacity, running: Mapping[str, HostSet]) -> None:
        """Learn likewise, where as many hosts are there as before. O(running × windows)."""
        away, words = capacity.away, self._words
        self.state.counts[state.IS_RESIZED] = 1
        there = HostSet.first(capacity.machine_size) - away
        self.state.everything[:] = words_of(there, words) if words else len(there)
        self.state.sizes[[state.LOSING, state.LOSSES]] = 0
        # Where hosts are numbers, nothing starts on those of a window: it has them already.
        closed = away if words else capacity.closed(drains=True)
        self._claim_windows(capacity, running)
        for job_id, hosts in running.items():
            slot, left = self.table.slot_of(job_id), hosts - closed
            self.jobs.reserved[slot] = words_of(left, words) if words else len(left)
            if gone := len(hosts & away):
                self._put(state.LOSING, slot)
                self._put(state.LOSSES, gone)

    def _claim_windows(self, capacity: Capacity, running: Mapping[str, HostSet]) -> None:
        """Claim the hosts of maintenance windows until these are over, or what runs there ends.

        Those that are drained are claimed at once, the others from the window's start on.
        """
        found: list[tuple[float, float, HostSet]] = []
        for window in capacity.windows:
            hosts = window.hosts - capacity.away
            if self._words or not (window.has_begun or capacity.is_drained(window)):
                found.append((window.since, window.until, hosts))
                continue
            for job_id, used in running.items():
                end = float(self.jobs.ends[self.table.slot_of(job_id)])
                if end > window.until and used & hosts:
                    found.append((0.0, end, used & hosts))
                    hosts -= used
            found.append((0.0, window.until, hosts))
        while WINDOW in self.claimed_slots:
            drop_claim(self.state.claims, self.claimed_slots.index(WINDOW))
        self._make_claims(len(found))
        dates, amounts, slots, size = self.state.claims
        for since, until, hosts in found:
            place = int(size[0])
            dates[place] = on_grid(since), on_grid(until)
            amounts[place] = words_of(hosts, self._words) if self._words else len(hosts)
            slots[place] = WINDOW
            size[0] += 1

    def _make_claims(self, more: int) -> None:
        """Make room for so many claims more."""
        self.state = self.state._replace(claims=with_room(self.state.claims, more))

    def finished_resizing(self, capacity: Capacity) -> None:
        """Learn that no host will leave or return any more."""
        self._note_size(capacity.present, is_final=True)

    def _note_size(self, present: int, *, is_final: bool) -> None:
        counts = self.state.counts
        counts[state.PRESENT], counts[state.IS_FINAL] = present, is_final
        counts[state.SAYS_SIZE] = 1

    def resume(self, now: float, jobs: Iterable[Held], *, late_news: bool = False) -> None:
        """Put an empty plan into the state that another plan had at a date (seconds).

        It then answers as the other one would, whose ``jobs`` run or wait, in the order of
        arrival, and which had seen ``late_news`` or not. O(jobs²).
        """
        held = list(jobs)
        now = up_to_grid(float(now))
        if late_news:
            self.news.mark_late()
        for each in held:
            self.arrived(each.job)
        self.make_room()
        self.state.counts[state.DECIDED] = len(self.table)
        for slot, each in enumerate(held):
            if each.original is not None:
                self.table.was(slot, each.original)
            self.jobs.kills[slot] = each.kills
            self.jobs.starts[slot], self.jobs.targets[slot] = each.start, each.target
            promise = float(self.jobs.promises[slot])
            if not late_news and promise + DEADLINE_TOLERANCE < each.target < math.inf:
                self.jobs.aims[slot] = promise
            if each.end is None and self.jobs.fixed_starts[slot] < math.inf:
                plan.claim(self.profile, self.state.claims, self.jobs, slot, each.start)
            elif each.end is None:
                plan.insert_by_start(self.waiting, self.jobs.starts, slot)
            else:
                plan.add_running(self.state, slot, float(each.end), float(each.lag))
        plan.reserve_plan(self.state, now)
        self.given.dates[:] = EVER
        if self.policy is not None:
            self.policy.resume(held)

    def restore(
        self,
        now: float,
        capacity: Capacity,
        under: Mapping[int, int],
        running: Mapping[str, HostSet],
    ) -> None:
        """Have the hosts there that are, and others gone under running jobs, in a resumed plan.

        ``under`` says by slot how many hosts of a job have gone, ``running`` by id which it has:
        that needs to be known with maintenance only.
        """
        self.state.everything[0] = self.state.counts[state.PRESENT] = capacity.present
        if capacity.windows:
            self.refit(capacity, running)
            self.state.counts[state.IS_RESIZED] = 0
            under = {}
        for slot, gone in under.items():
            self.jobs.reserved[slot] -= gone
        plan.reserve_plan(self.state, up_to_grid(float(now)))

    # Decisions

    def decide(self, now: float, free: HostSet) -> list[tuple[Job, HostSet | None]]:
        """Update the plan and return the jobs that start now.

        Parameters
        ----------
        now
            Date (seconds).
        free
            Hosts that no job uses.

        Returns
        -------
        list of (Job, HostSet or None)
            The jobs in order of their planned starts, with their hosts if these were reserved.
            O(waiting × steps).
        """
        now = up_to_grid(float(now))
        if self.news.late:
            self._aim(now)
        self.tell(now, free)
        if self._users is not None:
            self._predict()
        self.make_room()
        while not self._decide():
            self.state = self.state._replace(log=rows.larger_log(self.state.log))
        self._read_answers()
        jobs, reserved = self.table.jobs, self.jobs.reserved
        return [
            (jobs[slot], hosts_of(reserved[slot]) if self._words else None)
            for slot in self.started_slots
        ]

    def _predict(self) -> None:
        renew_estimates(self.state)
        for slot in self.new_slots:
            predicted = float(self.jobs.estimates[slot])
            if predicted < self.jobs.requested[slot]:
                self.table.expect(slot, predicted)

    def _decide(self) -> bool:
        """Make a decision, in one call of a kernel if possible; False if the log needs room."""
        done = None
        if self.observer is None:
            done = self._decide_compiled()
        if done is not None:
            return done
        self._begin()
        while (slot := decision.next_question(self.state)) != decision.NO_JOB:
            self._ask(slot)
        return self._end()

    def _decide_compiled(self) -> bool | None:
        """Make a decision in one call of a kernel; None if there is none."""
        if self.policy is None:
            return bool(decision.decide_conservative(self.state))
        decide: Callable[[Plan], bool | None] | None = getattr(self.policy, "decide", None)
        return None if decide is None else decide(self)

    @property
    def new_slots(self) -> range:
        """Slots of the jobs about which no decision was made."""
        return range(int(self.state.counts[state.DECIDED]), len(self.table))

    def tell(self, now: float, free: HostSet) -> None:
        """Tell the kernels the date on the grid (seconds), the free hosts and how late news is."""
        clock, news = self.state.clock, self.news
        clock[: state.SOONEST] = now, news.late, news.grace, news.tolerance, news.most_lag
        self.state.counts[state.FREE] = len(free)
        if self._words:
            self.state.free_hosts[:] = words_of(free, self._words)

    def _begin(self) -> None:
        decision.begin_decision(self.state)

    def _end(self) -> bool:
        return bool(decision.end_decision(self.state))

    def nominal(self, now: float) -> float:
        """Return the date (seconds) to plan from: now, or the start that news still holds up."""
        return float(plan.nominal(self.state))

    def _aim(self, now: float) -> None:
        """Judge new jobs as if they had been told when they were submitted."""
        for slot in self.new_slots:
            lag = self.news.submitted(self.table.jobs[slot], now)
            if lag:
                self.jobs.targets[slot] += lag

    def _ask(self, slot: int) -> None:
        """Place a new job, or ask the policy about it."""
        now = float(self.state.clock[state.NOW])
        if self.observer is not None:
            self.observer.asked(now, slot)
        if self.policy is None:
            self._place_new(slot)
            return
        answer = self.policy.take(self, self.nominal(now), slot)
        if answer is not None:
            self.answers[slot] = self.worded[slot] = answer
            self._note(slot, answer)

    def _note(self, slot: int, answer: AdmissionAnswer) -> None:
        """Have an answer of a policy in Python in the log of decisions."""
        if answer.refusal is not None:
            decision.refuse(self.state, slot, answer.blamed, FREE_TEXT, 0.0, 0.0, 0.0)
        else:
            decision.note_admission(self.state, slot, answer.offer is not None)
            decision.note_moves_for(self.state, slot, rows.BY_ADMISSION)

    def _read_answers(self) -> None:
        """Put the answers of the last decision together that only the log has, from its rows."""
        log, unfit = self.state.log, dict[int, AdmissionAnswer]()
        end = int(log.size[0])
        codes, numbers = log.codes[self._read : end].tolist(), log.numbers[self._read : end]
        offer: tuple[int, float, float, float] | None = None
        for (kind, slot, other, code), (_, *told) in zip(codes, numbers.tolist(), strict=True):
            if kind == rows.RENEWED:
                loss = Refusal(kind=RefusalKind.HOSTS_LOST, date=told[2], hosts=other)
                self._renewals.append(Renewal(slot, told[0], told[1], loss))
            elif kind == rows.KILLED:
                kill, answer = self._kill(slot, other, code, told[1:]), self.answers[other]
                self.answers[other] = answer._replace(kills=(*answer.kills, kill))
            elif kind == rows.OFFERED:
                offer = (code, *told)
            elif kind in (rows.REFUSED, rows.REASON) and slot not in self.answers:
                blamed = self.table.jobs[other].id if other >= 0 else ""
                refusal = refusal_of(code, self.table.jobs[slot].processors, blamed, tuple(told))
                answer = (
                    AdmissionAnswer(refusal, other)
                    if offer is None
                    else with_offer(refusal, other, offer)
                )
                (unfit if code in UNFIT else self.answers)[slot] = answer
                offer = None
            elif kind == rows.ADMITTED and slot not in self.answers:
                self.answers[slot] = AdmissionAnswer()
        # What can never run is rejected first.
        self.answers = {**unfit, **self.answers}
        if not self.state.counts[state.LOGS]:
            log.size[0] = end = 0
        self._read = end

    def _kill(self, slot: int, sake: int, run: int, told: Sequence[float]) -> Kill:
        """Have the job in a slot be the same work again, and return what is to be killed."""
        victim, (since, saved) = self.table.jobs[slot], told
        again = rest_of(victim, restarted_id(self.table.original(slot).id, run + 1), saved)
        self.table.replace(slot, again)
        return Kill(slot, victim, again, sake, since, saved)

    def take_renewals(self) -> list[Renewal]:
        """Return the promises renewed since they were taken last."""
        found, self._renewals = self._renewals, []
        return found

    def submissions(self) -> list[Submission]:
        """Return the requests of all jobs by slot."""
        jobs = [self.table.original(slot) for slot in range(len(self.table))]
        return submissions_of(
            [job.id for job in jobs],
            [job.submission_time for job in jobs],
            [job.processors for job in jobs],
            [job.estimate for job in jobs],
            [job.qos for job in jobs],
        )

    def log_decisions(self) -> None:
        """Have every decision logged, for :meth:`take_rows`."""
        self.state.counts[state.LOGS] = 1

    def take_rows(self) -> tuple[Any, Any]:
        """Return the rows logged since they were taken last (codes and numbers)."""
        log = self.state.log
        end = int(log.size[0])
        log.size[0] = self._read = 0
        return log.codes[:end].copy(), log.numbers[:end].copy()

    def call_for_start(self) -> float | None:
        """Return the date (seconds) of the next promised start, once, or None."""
        date = float(plan.call_for_start(self.state))
        return date if date < math.inf else None

    # Changing the plan

    def _place_new(self, slot: int) -> None:
        plan.place_new(self.state, slot)

    def place(self, now: float, first: int, end: int) -> None:
        """Plan the jobs in slots ``first`` to ``end - 1`` at their earliest fits."""
        plan.place(now, self.profile, self.jobs, self.waiting, first, end)

    def make_room(self) -> None:
        """Make room in the profile and the log for the next decision.

        Every new job may send a running one back to the waiting ones, which until its end
        is told also counts as a running one.
        """
        running = len(self.running_slots)
        new = len(self.table) - int(self.state.counts[state.DECIDED])
        self._make_claims(new)
        claims = len(self.state.claims.slots)
        steps = state.steps_for(self.waiting_count + new + running + claims, running)
        profile = self.profile
        while len(profile.times) < steps:
            times, free, size = profile
            profile = Profile(grown(times), grown(free), size)
        if profile is not self.profile:
            self.state = state.with_profile(self.state, profile)
        needed = 2 * (running + self.waiting_count) + 64
        while len(self.state.log.codes) - int(self.state.log.size[0]) < needed:
            self.state = self.state._replace(log=rows.larger_log(self.state.log))
