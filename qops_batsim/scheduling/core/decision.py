"""One decision of a scheduler that keeps a plan, in the steps that all of them share.

For every message: :func:`begin_decision` brings the plan up to date, :func:`next_question` yields
the new jobs one by one, about which an algorithm decides (:func:`admit`, :func:`refuse`, or by
placing it), and :func:`end_decision` starts what is due. What is decided is left in
``started``, ``rejected`` and in rows of the log.

Where decisions are logged, the log looks at what has changed since it looked last: after the plan
was brought up to date, after each answer, and after jobs were started. O(jobs in the plan) each.
"""

from __future__ import annotations

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.core.columns import (
    ENDS,
    ESTIMATES,
    FIXED_STARTS,
    IS_DYING,
    KILLS,
    LAGS,
    LOST,
    LOST_DATES,
    NOTED_ENDS,
    NOTED_STARTS,
    NOTED_TARGETS,
    PLACES,
    PROMISES,
    STARTS,
    SUSPENDED,
    TARGETS,
)
from qops_batsim.scheduling.core.plan import (
    compress_plan,
    extend_overdue,
    forget_gone,
    has_claims_before,
    has_lost_hosts,
    has_missed_start,
    nominal,
    place_new,
    promise_start,
    rebuild_plan,
    refit_claims,
    reserve_anew,
    settle,
    sort_ascending,
    start_due,
    take_up_lags,
)
from qops_batsim.scheduling.core.rows import (
    ADMITTED,
    BLAMED,
    BY_CANCELLATION,
    BY_EARLY_END,
    BY_LATE_START,
    BY_LEAVING,
    BY_OUTLIVING,
    BY_RETURNING,
    ENDED,
    LATE,
    LATE_NEWS,
    MOVE,
    MOVED,
    OUTLIVED,
    REFUSED,
    RESIZED,
    SLIPPED,
    STARTED,
    SUBMITTED,
    UNDER,
    WITHDRAWN,
    append,
)
from qops_batsim.scheduling.core.state import (
    ASKING,
    BEGUN,
    CANCELLED,
    CULPRIT_RUNS,
    CULPRITS,
    DECIDED,
    FIRST_NEW,
    GONE,
    HAS_LOOKED,
    HAS_PROFILE,
    IDLE,
    IS_FINAL,
    IS_LATE,
    IS_RESIZED,
    KILLING,
    KNOWN,
    LOGS,
    LOSING,
    LOSSES,
    MACHINE,
    NEWS_GRACE,
    NOTED_PRESENT,
    NOW,
    PHASE,
    PRESENT,
    REJECTING,
    RENEWING,
    SAID_LATE,
    SAYS_SIZE,
    SCRATCH,
    STARTING,
    SUSPENSIONS,
    TOLERANCE,
    UNDONE,
    State,
)
from qops_batsim.scheduling.profile import trim
from qops_batsim.scheduling.refusal import RefusalKind
from qops_batsim.timing import PLAN_TOLERANCE

NO_JOB = -1
"""In place of a slot: none."""

TOO_WIDE, HOSTS_GONE = RefusalKind.TOO_WIDE.code, RefusalKind.HOSTS_GONE.code
START_TAKEN, NO_TIME = RefusalKind.START_TAKEN.code, RefusalKind.NO_TIME.code


@kernel
def why_never(state: State, slot: int) -> int:
    """Return why a job can never run, 0 if it can."""
    processors, counts = state.jobs.processors[slot], state.counts
    if not 1 <= processors <= counts[MACHINE]:
        return TOO_WIDE
    if counts[IS_FINAL] != 0 and processors > counts[PRESENT]:
        return HOSTS_GONE
    return 0


@kernel
def reject(state: State, slot: int) -> None:
    """Have a job rejected."""
    state.lists[REJECTING, state.sizes[REJECTING]] = slot
    state.sizes[REJECTING] += 1


@kernel
def clear_results(state: State) -> None:
    """Forget what the last decision left for its driver."""
    for index in range(state.sizes[RENEWING]):
        slot = state.lists[RENEWING, index]
        if np.isnan(state.jobs.numbers[SUSPENDED, slot]):
            state.jobs.marks[LOST, slot] = 0
    state.sizes[RENEWING] = state.sizes[STARTING] = 0
    state.sizes[REJECTING] = state.sizes[KILLING] = 0


@kernel
def begin_decision(state: State) -> None:
    """Bring the plan up to date with what has ended, and what has not as it should."""
    if state.counts[PHASE] != IDLE:
        return  # It goes on, with more room.
    if renew_plan(state):
        compress_plan(state, nominal(state))
    if state.counts[SUSPENSIONS] != 0:
        settle(state)


@kernel
def renew_plan(state: State) -> bool:
    """Begin a decision with the running jobs, and reject new jobs that can never run.

    The plan is made anew if something takes longer than planned or hosts have left, and compressed
    if hosts have returned. Returned is whether it has to be compressed because something came free
    early, which each algorithm does in its way.
    """
    counts = state.counts
    counts[PHASE] = BEGUN
    counts[FIRST_NEW] = counts[DECIDED]
    counts[HAS_LOOKED] = counts[HAS_PROFILE] = 0
    clear_results(state)
    if counts[LOGS] != 0:
        note_ends_told(state)
    state.sizes[UNDONE] = 0
    early = forget_gone(state)
    overdue = extend_overdue(state)
    for slot in range(counts[DECIDED], counts[KNOWN]):
        if why_never(state, slot) != 0:
            reject(state, slot)
    overdue = has_missed_start(state) or overdue
    late = state.clock[NOW] - state.clock[TOLERANCE]
    if has_claims_before(state.claims, np.inf if counts[IS_RESIZED] != 0 else late):
        refit_claims(state)
        overdue = True
    if counts[IS_RESIZED] != 0:
        if has_lost_hosts(state) or overdue:
            rebuild_plan(state)
        else:
            compress_plan(state, reserve_anew(state))
        return False
    if overdue:
        rebuild_plan(state)
        return False
    return bool(early and state.waiting.size[0] > 0)


@kernel
def has_room(state: State) -> bool:
    """Tell whether the log has room for the rows of one more job, and those of the end."""
    counts, log = state.counts, state.log
    rows = 64 + 2 * (counts[KNOWN] - counts[FIRST_NEW]) + state.claims.size[0]
    if counts[LOGS] != 0:
        rows += 6 * state.waiting.size[0] + 4 * state.running.size[0] + state.sizes[LOSING]
    return bool(log.size[0] + rows <= len(log.codes))


@kernel
def note_joined(state: State, slot: int) -> None:
    """Log that a job runs which somebody else has started, as if it were one of ours."""
    if state.counts[LOGS] != 0:
        now, log, start = state.clock[NOW], state.log, state.jobs.numbers[STARTS, slot]
        append(log, now, SUBMITTED, slot, NO_JOB, 0, 0.0, 0.0, 0.0)
        append(log, now, ADMITTED, slot, NO_JOB, 0, start, np.inf, np.inf)
        append(log, now, STARTED, slot, NO_JOB, 0, state.jobs.numbers[ENDS, slot], 0.0, 0.0)


@kernel
def next_question(state: State) -> int:
    """Return the next new job, which may run; :data:`NO_JOB` if there is none, or no room.

    Those with fixed starts are no question to an algorithm: :func:`reserve_start`.
    """
    counts = state.counts
    while counts[DECIDED] < counts[KNOWN] and has_room(state):
        slot = counts[DECIDED]
        counts[DECIDED] += 1
        if why_never(state, slot) != 0:
            continue
        if state.jobs.marks[PLACES, slot] >= 0:
            note_joined(state, slot)
            continue
        if counts[PHASE] == BEGUN:
            counts[PHASE] = ASKING
            trim(state.profile, nominal(state))
        if counts[LOGS] != 0:
            if counts[HAS_LOOKED] == 0:
                look(state)
                counts[HAS_LOOKED] = 1
            append(state.log, state.clock[NOW], SUBMITTED, slot, NO_JOB, 0, 0.0, 0.0, 0.0)
        if state.jobs.numbers[FIXED_STARTS, slot] < np.inf:
            reserve_start(state, slot)
            continue
        return int(slot)
    return NO_JOB


@kernel
def reserve_start(state: State, slot: int) -> None:
    """Promise a new job the start that it asks for if it fits there beside all others, else refuse.

    What is planned stays, so no promise suffers.
    """
    numbers = state.jobs.numbers
    asked, target = numbers[FIXED_STARTS, slot], numbers[TARGETS, slot]
    start = promise_start(state.profile, state.claims, state.jobs, slot, nominal(state))
    if np.isnan(start):
        refuse(state, slot, NO_JOB, NO_TIME, numbers[ESTIMATES, slot], target - asked, target)
    elif start > asked:
        refuse(state, slot, NO_JOB, START_TAKEN, asked, start, 0.0)
    else:
        state.counts[HAS_PROFILE] = 0
        note_admission(state, slot, 0)


@kernel
def can_end(state: State) -> bool:
    """Tell whether all new jobs are decided about, and the log has room for the end."""
    return bool(state.counts[DECIDED] == state.counts[KNOWN] and has_room(state))


@kernel
def end_decision(state: State) -> bool:
    """Start what is due, and make the plan anew where that is not as it assumed.

    Returned is False if the log needs more room: then the decision goes on when there is.
    """
    counts = state.counts
    if not can_end(state):
        return False
    late = start_due(state)
    if state.sizes[STARTING] == 0 and state.waiting.size[0] > 0 and state.running.size[0] == 0:
        # Nothing runs, so no later event would lead to a decision: starts that rested on
        # dates a little off must not keep the machine idle.
        rebuild_plan(state)
        late = start_due(state)
    if late:
        # A job started so late that it will also end later than the plan says.
        take_up_lags(state)
        rebuild_plan(state)
    if counts[LOGS] != 0:
        note_last_moves(state)
    refuse_unfit(state)
    if counts[LOGS] != 0:
        note_starts(state)
    state.sizes[CANCELLED] = 0
    counts[PHASE] = IDLE
    return True


@kernel
def decide_conservative(state: State) -> bool:
    """Place each new job at its earliest fit; False if the log needs more room."""
    begin_decision(state)
    slot = next_question(state)
    while slot != NO_JOB:
        place_new(state, slot)
        slot = next_question(state)
    return end_decision(state)


# Answers


@kernel
def refuse(
    state: State, slot: int, blamed: int, code: int, first: float, second: float, third: float
) -> None:
    """Refuse a new job."""
    reject(state, slot)
    append(state.log, state.clock[NOW], REFUSED, slot, blamed, code, first, second, third)


@kernel
def note_admission(state: State, slot: int, code: int) -> None:
    """Log that a new job was taken into the plan."""
    jobs = state.jobs
    start, promise, target = (
        jobs.numbers[STARTS, slot],
        jobs.numbers[PROMISES, slot],
        jobs.numbers[TARGETS, slot],
    )
    append(state.log, state.clock[NOW], ADMITTED, slot, NO_JOB, code, start, promise, target)
    jobs.numbers[NOTED_STARTS, slot], jobs.numbers[NOTED_TARGETS, slot] = start, target


@kernel
def note_moves_for(state: State, slot: int, cause: int) -> None:
    """Log what was moved for a job."""
    if state.counts[LOGS] != 0:
        state.lists[CULPRITS, 0] = slot
        state.lists[CULPRIT_RUNS, 0] = state.jobs.marks[KILLS, slot]
        state.sizes[CULPRITS] = 1
        note_moves(state, cause, False)


# What the log says


@kernel
def blame(state: State, slot: int, run: int) -> None:
    """Count a job among those that have caused moves."""
    place = state.sizes[CULPRITS]
    state.lists[CULPRITS, place], state.lists[CULPRIT_RUNS, place] = slot, run
    state.sizes[CULPRITS] = place + 1


@kernel
def note_ends_told(state: State) -> None:
    """Log which jobs have ended, and put those that ended early among the culprits."""
    now, jobs, log = state.clock[NOW], state.jobs, state.log
    if state.clock[IS_LATE] != 0.0 and state.counts[SAID_LATE] == 0:
        state.counts[SAID_LATE] = 1
        append(log, now, LATE_NEWS, NO_JOB, NO_JOB, 0, 0.0, 0.0, 0.0)
    state.sizes[CULPRITS] = 0
    for index in range(state.sizes[GONE]):
        slot = state.lists[GONE, index]
        run, end = (
            jobs.marks[KILLS, slot] - jobs.marks[IS_DYING, slot],
            state.jobs.numbers[ENDS, slot],
        )
        append(log, now, ENDED, slot, NO_JOB, run, end - now, 0.0, 0.0)
        if end > now + PLAN_TOLERANCE:
            blame(state, slot, run)
    for index in range(state.sizes[UNDONE]):
        slot = state.lists[UNDONE, index]
        run = jobs.marks[KILLS, slot] + 1
        append(log, now, WITHDRAWN, slot, NO_JOB, run, 0.0, 0.0, 0.0)
        blame(state, slot, run)
    for index in range(state.sizes[CANCELLED]):
        slot = state.lists[CANCELLED, index]
        blame(state, slot, jobs.marks[KILLS, slot])


@kernel
def is_started(state: State, slot: int) -> bool:
    """Tell whether a job starts in this decision. O(started)."""
    for index in range(state.sizes[STARTING]):  # noqa: SIM110 - any() would make a generator
        if state.lists[STARTING, index] == slot:
            return True
    return False


@kernel
def look(state: State) -> None:
    """Log what happened to running jobs, and what was moved for that."""
    counts, log, now = state.counts, state.log, state.clock[NOW]
    early = state.sizes[CULPRITS]
    late = note_ends(state)
    cause = BY_LATE_START
    if late > 0:
        cause = BY_OUTLIVING
    elif early > 0:
        # Where jobs ended early as well, all of them are named.
        cause = BY_CANCELLATION if early == state.sizes[CANCELLED] else BY_EARLY_END
    if late > 0:
        # They are to blame, and not those that ended early.
        for index in range(late):
            state.lists[CULPRITS, index] = state.lists[CULPRITS, early + index]
            state.lists[CULPRIT_RUNS, index] = state.lists[CULPRIT_RUNS, early + index]
        state.sizes[CULPRITS] = late
    if counts[SAYS_SIZE] != 0:
        counts[SAYS_SIZE] = 0
        present = counts[PRESENT]
        append(log, now, RESIZED, NO_JOB, NO_JOB, counts[IS_FINAL], present, 0.0, 0.0)
        for index in range(state.sizes[LOSING]):
            slot, hosts = state.lists[LOSING, index], state.lists[LOSSES, index]
            run = state.jobs.marks[KILLS, slot] - state.jobs.marks[IS_DYING, slot]
            append(log, now, UNDER, slot, hosts, run, 0.0, 0.0, 0.0)
        if late == 0 and present != counts[NOTED_PRESENT]:
            cause = BY_LEAVING if present < counts[NOTED_PRESENT] else BY_RETURNING
        counts[NOTED_PRESENT] = present
    note_moves(state, cause, True)


@kernel
def note_ends(state: State) -> int:
    """Log new expected ends; blame the jobs that outlived their estimates, and return how many."""
    now, jobs, ends = state.clock[NOW], state.jobs, state.jobs.numbers[ENDS]
    count, late = 0, 0
    for index in range(state.running.size[0]):
        slot = state.running.slots[index]
        if ends[slot] != jobs.numbers[NOTED_ENDS, slot] and not is_started(state, slot):
            state.lists[SCRATCH, count] = slot
            count += 1
    changed = state.lists[SCRATCH, :count]
    sort_ascending(changed)
    for slot in changed:
        end, before = ends[slot], jobs.numbers[NOTED_ENDS, slot]
        jobs.numbers[NOTED_ENDS, slot] = end
        # What outlives its estimate does so by the grace, and is given a second more.
        if state.clock[IS_LATE] != 0.0 and end - before <= state.clock[NEWS_GRACE]:
            append(state.log, now, SLIPPED, slot, NO_JOB, 0, end, 0.0, 0.0)
        else:
            append(state.log, now, OUTLIVED, slot, NO_JOB, 0, end, 0.0, 0.0)
            blame(state, slot, jobs.marks[KILLS, slot])
            late += 1
    return late


@kernel
def note_moves(state: State, cause: int, with_started: bool) -> None:
    """Log moved starts of waiting jobs and changed targets.

    Those of jobs that start now are logged if they start off their promises by more than dates may
    differ, unless not ``with_started``.
    """
    now, jobs, log = state.clock[NOW], state.jobs, state.log
    starts, targets = state.jobs.numbers[STARTS], state.jobs.numbers[TARGETS]
    count = 0
    for index in range(state.waiting.size[0]):
        slot = state.waiting.slots[index]
        if starts[slot] != jobs.numbers[NOTED_STARTS, slot]:
            state.lists[SCRATCH, count] = slot
            count += 1
    if with_started:
        for index in range(state.sizes[STARTING]):
            slot = state.lists[STARTING, index]
            if abs(starts[slot] - jobs.numbers[NOTED_STARTS, slot]) > PLAN_TOLERANCE:
                state.lists[SCRATCH, count] = slot
                count += 1
            else:
                jobs.numbers[NOTED_STARTS, slot] = starts[slot]
    moved = state.lists[SCRATCH, :count]
    sort_ascending(moved)
    if count > 0:
        append(log, now, MOVED, NO_JOB, NO_JOB, cause, 0.0, 0.0, 0.0)
        for index in range(state.sizes[CULPRITS]):
            slot, run = state.lists[CULPRITS, index], state.lists[CULPRIT_RUNS, index]
            append(log, now, BLAMED, slot, NO_JOB, run, 0.0, 0.0, 0.0)
    for slot in moved:
        before, after = jobs.numbers[NOTED_STARTS, slot], starts[slot]
        jobs.numbers[NOTED_STARTS, slot] = after
        append(log, now, MOVE, slot, NO_JOB, 0, before, after, 0.0)
    state.sizes[CULPRITS] = count = 0
    for index in range(state.waiting.size[0]):
        slot = state.waiting.slots[index]
        if targets[slot] != jobs.numbers[NOTED_TARGETS, slot]:
            state.lists[SCRATCH, count] = slot
            count += 1
    changed = state.lists[SCRATCH, :count]
    sort_ascending(changed)
    for slot in changed:
        jobs.numbers[NOTED_TARGETS, slot] = targets[slot]
        lost, date = jobs.marks[LOST, slot], jobs.numbers[LOST_DATES, slot]
        append(log, now, LATE, slot, NO_JOB, 0, targets[slot], lost, date)


@kernel
def note_last_moves(state: State) -> None:
    """Log what was moved since the log looked last, at the end of a decision."""
    if state.counts[HAS_LOOKED] == 0:
        look(state)
        return
    if state.clock[IS_LATE] != 0.0:
        note_ends(state)
    state.sizes[CULPRITS] = 0
    note_moves(state, BY_LATE_START, True)


@kernel
def refuse_unfit(state: State) -> None:
    """Log the new jobs that can never run."""
    counts, log, now = state.counts, state.log, state.clock[NOW]
    for slot in range(counts[FIRST_NEW], counts[KNOWN]):
        why = why_never(state, slot)
        if why != 0:
            if counts[LOGS] != 0:
                append(log, now, SUBMITTED, slot, NO_JOB, 0, 0.0, 0.0, 0.0)
            size = counts[MACHINE]
            append(log, now, REFUSED, slot, NO_JOB, why, size, size - counts[PRESENT], 0.0)


@kernel
def note_starts(state: State) -> None:
    """Log the jobs that start."""
    jobs, log, now = state.jobs, state.log, state.clock[NOW]
    for index in range(state.sizes[STARTING]):
        slot = state.lists[STARTING, index]
        end = jobs.numbers[NOTED_ENDS, slot] = jobs.numbers[ENDS, slot]
        append(log, now, STARTED, slot, NO_JOB, 0, end, jobs.numbers[LAGS, slot], 0.0)
