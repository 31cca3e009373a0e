"""Rules about promises: ``_qos.csv`` against ``_jobs.csv``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np

from qops_batsim.jobs import (
    COMPLETED_KILLED,
    COMPLETED_SUCCESSFULLY,
    QOS_ACCEPTED,
    QOS_REJECTED,
    REJECTED,
)
from qops_batsim.measures.results.allocations import Stays
from qops_batsim.measures.results.message_drift import message_drift
from qops_batsim.measures.results.result_tables import (
    DATE_TOLERANCE,
    DECISIONS,
    NULL_RUN_TIME,
    Booleans,
    Floats,
    is_continuation,
    lasting,
    saved_times,
    tolerance,
)
from qops_batsim.measures.verify.rule import (
    MAINTENANCE,
    PREDICTIONS,
    QOS_FILE,
    WORKLOAD,
    Violation,
    of_job,
    rule,
    violations,
    wrong_starts,
)
from qops_batsim.measures.verify.subject import PREDICTED, Subject, stays_by_host
from qops_batsim.timing import PLAN_TOLERANCE, SAME_DATE, TOLD_DECIMALS

SLIGHT_OVERRUN = 1e-4
"""On shared hosts, to exceed the estimate by up to this part of it only costs that time."""

PROMISE_RULES = ("admitted-deadline", "latest-start")
"""The rules that a scheduler breaks with a promise that it does not keep."""


@rule(QOS_FILE)
def rejected_never_runs(subject: Subject) -> Iterator[Violation]:
    """A job that is rejected in ``_qos.csv`` does not run, and a job that is accepted there does.

    Of a job that was run again, the last run counts: a job that was killed may be given up.
    """
    qos = subject.result.decisions
    job_numbers = subject.job_numbers
    ran = subject.executed
    assert qos is not None
    said = np.zeros(len(job_numbers), np.int8)
    said[job_numbers.qos] = qos.decisions
    own = said[job_numbers.rows]
    decisions = np.where(own > 0, own, said[job_numbers.owners])
    decisions[~job_numbers.last_runs] = 0
    against = np.where(ran, DECISIONS.index(QOS_REJECTED), DECISIONS.index(QOS_ACCEPTED))
    wrong = decisions == against

    return violations(
        subject,
        wrong,
        "_qos.csv says {decision}, but the job is {state}",
        decision={row: DECISIONS[decisions[row]] for row in np.flatnonzero(wrong).tolist()},
        state=subject.result.text("final_state"),
    )


@rule(QOS_FILE, WORKLOAD)
def admitted_deadline(subject: Subject) -> Iterator[Violation]:
    """The last run of an accepted job finishes by the deadline that the job was promised.

    Where Batsim's messages take their time, it may be late by the scheduler's grace, and by what
    they added up to along the chain of jobs, one right after the other on the same hosts, behind
    which it waited.

    A job that runs longer than its estimate frees its processors later than any plan could
    know, so no promise beyond the date when the first one does is checked, nor its own if
    it would have ended by then without that. Excesses up to two microseconds, the grace, or
    slight ones on shared hosts do not end the check; promises may be missed by their sum as well.
    """
    said = "finishes at {real:.6f} s, but was admitted with the deadline {promised:.6f} s"
    return _broken(subject, _deadlines(subject), said)


@rule(QOS_FILE, WORKLOAD)
def latest_start(subject: Subject) -> Iterator[Violation]:
    """An accepted job starts no later than it was promised.

    As with deadlines, no promise beyond the date when the first job outlives its
    estimate is checked; nor is one for that date, when its processors were to be free.
    """
    said = "starts at {real:.6f} s, but was promised to start by {promised:.6f} s"
    return _broken(subject, _latest_starts(subject), said)


@rule(WORKLOAD)
def fixed_start(subject: Subject) -> Iterator[Violation]:
    """A job that asks for a fixed start does not start before that date; a late start is a matter
    of other rules.
    """
    starts = subject.result.column("starting_time")
    due = _fixed_starts(subject)
    early = subject.executed & (starts < due - tolerance(starts, np.nan_to_num(due)))
    said = "starts at {start:.6f} s, but is to start at {due:.6f} s"
    return violations(subject, early, said, at="starting_time", start=starts, due=due)


def _fixed_starts(subject: Subject) -> Floats:
    """Return the fixed start of each row of ``_jobs.csv`` (s); NaN without."""
    starts = subject.by_number(columns.asked("start") for columns in subject.columns)
    starts[np.isinf(starts)] = np.nan
    return starts[subject.job_numbers.owners]


@rule(WORKLOAD, PREDICTIONS)
def predicted_run_time(subject: Subject) -> Iterator[Violation]:
    """A job was planned with a predicted run time only if predictions were asked for, and the
    prediction follows from the last two runs of its user.

    A prediction that breaks this rule excuses no late promise.
    """
    recorded = subject.recorded_predictions
    owners = subject.job_numbers.owners
    wrong = ~np.isnan(recorded) & np.isnan(subject.predictions)
    rows = subject.job_numbers.last_runs & wrong[owners]
    said = "was planned with {recorded:.6f} s, which its user's last runs do not give"
    info = subject.result.info
    if info and info.options is not None and info.options.get("run_times") != PREDICTED:
        said = (
            "was planned with {recorded:.6f} s, but the run's options are not run_times=predicted"
        )
    return violations(subject, rows, said, recorded=recorded[owners])


@rule(MAINTENANCE)
def maintenance(subject: Subject) -> Iterator[Violation]:
    """A job that starts after maintenance was announced is expected, by its estimate, to end before
    its hosts are maintained.

    A job that outlives its estimate may run into the maintenance.
    """
    result = subject.result
    assert result.info is not None
    rows = result.allocations.rows
    start = result.column("starting_time")[rows]
    margin = tolerance(start) + subject.grace
    end = start + _estimates(subject)[rows]
    for window in result.info.maintenance:
        known = (start > window.announced + margin) & (start < window.until - margin)
        reaches = known & (end > window.since + margin + tolerance(end))
        text = " and may run until {end:.6f} s, "
        text += f"but maintenance begins there at {window.since:.6f} s"
        yield from wrong_starts(subject, window.hosts, reaches, text, end=end)


class Lateness(msgspec.Struct, frozen=True, kw_only=True):
    """By how much the worst promise of a run, a deadline or a latest start, was missed, and how
    many promises were checked.

    It is about the ``checked`` promises; the rules say why those of other jobs that ran are
    ``unchecked``. ``seconds`` is 0 if nothing is late, else ``job`` is the one that is so late. Up
    to the ``grace`` (seconds), and what the rules add to it, the promise counts as kept.
    ``renewed`` counts how often a promise was replaced by a later one because hosts had left; the
    last one counts.
    """

    seconds: float
    job: str | None
    grace: float
    checked: int
    unchecked: int
    renewed: int = 0


def greatest_lateness(subject: Subject) -> Lateness | None:
    """Return by how much the worst of a run's promises (deadlines and latest starts) was missed;
    None if nothing was promised.
    """
    qos = subject.result.decisions
    if qos is None or np.isnan([*map(qos.numbers, ("admitted_deadline", "latest_start"))]).all():
        return None

    both = (_deadlines(subject), _latest_starts(subject))
    checked = sum(int(each.checked.sum()) for each in both)
    given = sum(int((subject.executed & np.isfinite(each.promised)).sum()) for each in both)
    if not given:
        return None

    seconds = 0.0
    job = None
    for each in both:
        late = np.where(each.checked, each.real - each.promised, 0.0)
        row = int(np.argmax(late))
        if late[row] > max(seconds, float(tolerance(each.real[[row]])[0])):
            seconds = float(late[row])
            job = subject.result.id(row)

    return Lateness(
        seconds=seconds,
        job=job,
        grace=subject.grace,
        checked=checked,
        unchecked=given - checked,
        renewed=int(qos.numbers("new_promises").sum()),
    )


@dataclass(frozen=True)
class _Promises:
    """Promised dates, and dates on which the jobs really ended or started, for each row of
    ``_jobs.csv`` (seconds).
    """

    column: str
    promised: Floats
    """NaN without a promise."""
    real: Floats
    checked: Booleans
    margin: Floats
    """By how much they may be late."""


def _deadlines(subject: Subject) -> _Promises:
    job_numbers = subject.job_numbers
    qos = subject.result.decisions
    assert qos is not None
    given = _promised_by_number(subject, qos.numbers("admitted_deadline"))[job_numbers.owners]
    return _promises(subject, "finish_time", np.where(job_numbers.last_runs, given, np.nan))


def _latest_starts(subject: Subject) -> _Promises:
    qos = subject.result.decisions
    assert qos is not None
    given = _promised_by_number(subject, qos.numbers("latest_start"))[subject.job_numbers.rows]
    return _promises(subject, "starting_time", given)


def _promised_by_number(subject: Subject, dates: Floats) -> Floats:
    """Return the promised dates (seconds) of accepted jobs by job number (:class:`JobNumbers`); NaN
    for all others.
    """
    qos = subject.result.decisions
    assert qos is not None
    given = np.full(len(subject.job_numbers), np.nan)
    accepted = qos.decisions != DECISIONS.index(QOS_REJECTED)
    given[subject.job_numbers.qos[accepted]] = dates[accepted]
    return given


def _broken(subject: Subject, promises: _Promises, message: str) -> Iterator[Violation]:
    promised = promises.promised
    real = promises.real
    wrong = promises.checked & (real > promised + promises.margin)
    return violations(subject, wrong, message, at=promises.column, real=real, promised=promised)


def _promises(subject: Subject, column: str, promised: Floats) -> _Promises:
    """Combine the promised dates of the rows with the real dates in a column of ``_jobs.csv``, and
    tell which promises are checked.
    """
    real = subject.ends if column == "finish_time" else subject.result.column(column)
    if np.isnan(promised).all():
        return _Promises(column, promised, real, np.zeros(len(real), np.bool_), 0 * promised)

    planned_end, outlived, moments = _outlived(subject)
    # Starts that are late by less than the grace do not move what was planned.
    exact_until = planned_end[outlived].min(initial=np.inf) - subject.grace
    # A job that outlives its estimate is late through no fault of a plan that kept the promise.
    excused = outlived & (planned_end <= promised + tolerance(promised) + subject.grace)
    margin = tolerance(real, np.nan_to_num(promised)) + moments + subject.grace
    known = promised <= exact_until
    if column == "starting_time":
        # A start takes what others leave at that very date.
        known &= promised < exact_until - margin

    checked = subject.executed & known & ~excused
    late = np.flatnonzero(checked & (real > promised + margin))
    if subject.grace and not subject.slows_down:
        margin[late] += message_drift(subject.result, late)
    return _Promises(column, promised, real, checked, margin)


def _outlived(subject: Subject) -> tuple[Floats, Booleans, float]:
    """Return the planned end of each row's run (seconds), which runs ended later, and the sum of
    the excesses that are slight enough to ignore.
    """
    start = subject.result.column("starting_time")
    finish = subject.ends
    estimates = _estimates(subject)
    crowds = np.ones(len(estimates))

    if subject.slows_down:
        # On a host with n - 1 other jobs, a job may take n times as long. But that says nothing
        # of one that may do more than it was estimated to.
        crowds = np.maximum(subject.most_at_once, 1).astype(np.float64)
        crowds[subject.understated[subject.job_numbers.owners]] = 1.0
        estimates = estimates * crowds

    planned_end = start + estimates - _used_estimate(subject)
    if subject.rated_by_speed:
        # Jobs of which no file tells that they may do more are held to what their users said.
        said = start + subject.recorded_predictions[subject.job_numbers.rows]
        planned_end = np.where(
            subject.understated[subject.job_numbers.owners], np.fmin(planned_end, said), planned_end
        )

    over = finish - planned_end
    # Of a sleep it is known to the last digit by how much its estimate is too short, and what is
    # killed at its estimate ends a moment later; else the files' rounding may look like one.
    exact = subject.delays[subject.job_numbers.owners] - estimates
    with np.errstate(invalid="ignore"):  # without an estimate both are infinite
        known = np.abs(exact - over) <= tolerance(finish)
    over = np.where(known, exact, over)
    known |= subject.result.ended_as(COMPLETED_KILLED)
    outlived = subject.executed & (over > np.where(known, SAME_DATE, tolerance(finish, planning=0)))
    bearable = np.maximum(tolerance(finish), subject.grace)

    if subject.slows_down:
        # Latencies make computations end moments after their estimate.
        bearable = np.maximum(bearable, SLIGHT_OVERRUN * estimates)

    # No plan knows of such moments: promises may be missed by as much, but are not void.
    slight = outlived & (over <= bearable)
    moments = float((over * crowds)[slight].sum())
    outlived &= ~slight
    return planned_end, outlived, moments


def _used_estimate(subject: Subject) -> Floats:
    """Return for each row how much of the job's estimate earlier runs had used (seconds) if the run
    continues them, else 0.
    """
    result = subject.result
    job_numbers = subject.job_numbers
    done = np.zeros(len(subject.executed))
    if result.earlier_runs:
        run_times = subject.ends - result.column("starting_time")
        for rows in job_numbers.runs(job_numbers.several):
            if subject.understated[job_numbers.owners[rows[0]]]:
                for before, row in pairwise(rows):
                    if is_continuation(result.text("profile")[row]):
                        done[row] = done[before] + run_times[before]
    return done


def _estimates(subject: Subject) -> Floats:
    """Return for each row the run time that the scheduler planned with: the estimate, or a shorter
    prediction (seconds).
    """
    walltimes = subject.result.column("requested_time")
    estimates: Floats = np.where(walltimes > 0, walltimes, np.inf)
    owners = subject.job_numbers.owners
    asked = subject.asked("estimates")[owners]
    estimates = np.where(owners < subject.job_numbers.known, asked, estimates)
    # On shared hosts estimates are seconds on one of some speed, and predictions those on others.
    if subject.rated_by_speed:
        return estimates
    shorter: Floats = np.fmin(estimates, subject.predictions[owners])
    return shorter


@rule()
def restart_identity(subject: Subject) -> Iterator[Violation]:
    """All runs of a job that was killed and run again have the same requests, and each starts after
    the run before it was killed.
    """
    result = subject.result
    job_numbers = subject.job_numbers
    start, finish = result.columns("starting_time", "finish_time")
    for rows in job_numbers.runs(job_numbers.several):
        origin = job_numbers.name(int(job_numbers.owners[rows[0]]))
        for number, row in enumerate(rows):
            name = result.id(row)
            problem = ""
            if name != (f"{origin}#{number}" if number else origin):
                problem = f"is run {number + 1} of job {origin!r}, in order of start"
            elif number:
                before = rows[number - 1]
                different = _differing(subject, before, row)
                slack = float(tolerance(start[[row]], finish[[before]])[0])
                if not lasting(finish[before] - start[before]):
                    slack += NULL_RUN_TIME

                if different:
                    problem = f"differs from job {origin!r} in {', '.join(different)}"
                elif (state := result.text("final_state")[before]) != COMPLETED_KILLED:
                    problem = f"is job {origin!r} run again, but the run before it is {state}"
                elif start[row] < finish[before] - slack:
                    problem = (
                        f"starts at {start[row]:.6f} s, but the run before it of job {origin!r} "
                        f"ends at {finish[before]:.6f} s"
                    )

            if problem:
                yield of_job(name, f" {problem}")


@rule()
def restart_complete(subject: Subject) -> Iterator[Violation]:
    """A job that was killed and run again, or promised a deadline, is run to its end at last.

    With a delay profile, for as long as that takes; runs that go on with the work of
    those before them take that long together, but for what the last decimal of the progress
    told of each that was killed stands for, and what they did since their last checkpoints, if the
    job has any. A job may be given up, which ``_qos.csv`` then
    says: it was killed, and the hosts that it needs to be run again have gone for ever. What was
    cut off from outside, as the run's description says, is owed nothing more.
    """
    cut_off = frozenset(() if subject.result.info is None else subject.result.info.cut_off)
    result = subject.result
    job_numbers = subject.job_numbers
    run_times = result.column("execution_time")
    promised, given_up = _promised_and_rejected(subject)
    killed = np.zeros(len(job_numbers), np.bool_)
    killed[job_numbers.owners] = result.ended_as(COMPLETED_KILLED)

    for rows in job_numbers.runs(job_numbers.several | (promised & killed)):
        row = rows[-1]
        job = int(job_numbers.owners[row])
        if len(rows) == 1 and not promised[job]:
            continue

        name = result.id(row)
        origin = job_numbers.name(job)
        if name in cut_off:
            continue

        state = result.text("final_state")[row]
        together = rows if is_continuation(result.text("profile")[row]) else [row]
        ran = float(run_times[together].sum())

        # On shared hosts jobs are stopped without a loss.
        interval = np.inf if subject.slows_down else subject.checkpoints[job]
        if len(together) > 1 and np.isfinite(interval):
            before = run_times[together[:-1]]
            ran -= float((before - saved_times(before, interval)).sum())

        wanted = float(subject.delays[job])
        slack = len(together) * DATE_TOLERANCE + PLAN_TOLERANCE
        slack += 4 * float(np.spacing(abs(ran)))

        # Those that were killed as they started are written longer than they were.
        slack += NULL_RUN_TIME * np.count_nonzero(~lasting(run_times[together]))
        slack += (len(together) - 1) * 10.0**-TOLD_DECIMALS * np.nan_to_num(wanted)
        problem = ""
        if state == REJECTED and (given_up[job] or given_up[job_numbers.rows[row]]):
            continue

        if state == COMPLETED_KILLED or (len(rows) > 1 and state == REJECTED):
            problem = f"is the last run of job {origin!r}, but is {state}"
        elif (
            len(rows) > 1
            and state == COMPLETED_SUCCESSFULLY
            and abs(ran - wanted) > slack  # which nothing is without a delay profile
        ):
            problem = f"runs {ran:.6f} s, but its profile {wanted:.6f} s"

        if problem:
            yield of_job(name, f" {problem}")


def _differing(subject: Subject, before: int, row: int) -> list[str]:
    """Return the names of the columns in which two rows, runs of the same job, differ although they
    must be equal.
    """
    result = subject.result
    continued = is_continuation(result.text("profile")[row])
    texts = ["workload_name", "profile"][: 1 if continued else 2]
    numbers = ["requested_number_of_resources", "requested_time"][: 1 if continued else 2]
    return [
        *(name for name in texts if result.text(name)[row] != result.text(name)[before]),
        *(name for name in numbers if result.column(name)[row] != result.column(name)[before]),
    ]


def _promised_and_rejected(subject: Subject) -> tuple[Booleans, Booleans]:
    """Return two masks by job number: the jobs with a promised deadline in ``_qos.csv``, and the
    rejected jobs.
    """
    promised, rejected = np.zeros((2, len(subject.job_numbers)), np.bool_)
    qos = subject.result.decisions
    if qos is not None:
        numbers = subject.job_numbers.qos
        promised[numbers[~np.isnan(qos.numbers("admitted_deadline"))]] = True
        rejected[numbers[qos.decisions == DECISIONS.index(QOS_REJECTED)]] = True
    return promised, rejected


DEDICATED = "dedicated"
"""The class of service of jobs that are alone on their hosts."""


@rule(WORKLOAD)
def dedicated_alone(subject: Subject) -> Iterator[Violation]:
    """A job of class ``dedicated`` (``qos.class``) shares no host with another one."""
    dedicated = _dedicated(subject)
    if not dedicated.any():
        return

    seen: set[frozenset[int]] = set()
    for stays in stays_by_host(subject.result).of_each_host():
        for place in np.flatnonzero(dedicated[stays.rows]).tolist():
            for other in _overlapping(stays, place):
                pair = (int(stays.rows[place]), int(stays.rows[other]))
                if frozenset(pair) in seen:
                    continue  # the same two jobs, on a further host

                seen.add(frozenset(pair))
                one, two = map(subject.result.id, pair)
                date = float(stays.start[[place, other]].max())
                host = int(stays.hosts[place])
                said = (
                    f"job {one!r} is to be alone on its hosts, but shares host {host} with "
                    f"job {two!r} from {date:.6f} s on"
                )
                yield Violation(jobs=(one, two), host=host, time=date, message=said)


def _overlapping(stays: Stays, place: int) -> list[int]:
    """Return the indices of the stays, all on one host, that overlap in time with the stay at index
    ``place``.
    """
    _, _, start, finish = stays
    begin = np.full_like(start, start[place])
    end = np.full_like(finish, finish[place])
    together: Booleans = (start < end - tolerance(start, end)) & (
        finish > begin + tolerance(finish, begin)
    )
    together[place] = False
    return np.flatnonzero(together).tolist()


def _dedicated(subject: Subject) -> Booleans:
    """Return which rows of ``_jobs.csv`` are runs of jobs of class ``dedicated``."""
    job_numbers = subject.job_numbers
    dedicated = np.zeros(len(job_numbers), np.bool_)
    begin = 0
    for columns in subject.columns:
        for number, request in enumerate(columns.requests or (), begin):
            dedicated[number] = request is not None and request.service_class == DEDICATED
        begin += len(columns.ids)
    return dedicated[job_numbers.owners]
