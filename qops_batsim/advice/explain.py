"""Explanations of single jobs: why each was refused, delayed or killed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from qops_batsim.advice.charge_report import JobPrice, PriceList, price_list
from qops_batsim.advice.quote import PossibleDeadline, PricedDeadlines
from qops_batsim.arguments import CODE, NUMBER, TEXT, one_of, takes
from qops_batsim.core.decision_events import Submitted
from qops_batsim.core.node_profile import NodeProfile
from qops_batsim.core.node_request import NodeLayout, Places
from qops_batsim.core.refusal import Refusal, RefusalKind
from qops_batsim.core.shortage import Shortage, shortages
from qops_batsim.dates import Calendar
from qops_batsim.economics.tolerance import FactorTolerance
from qops_batsim.job_fields import asked_or_whole
from qops_batsim.measures.results.result_tables import Booleans, original_id
from qops_batsim.measures.results.run_files import find_run
from qops_batsim.measures.results.run_result import (
    RunResult,
    jobs_by_id,
    read_files,
    workloads_of_run,
)
from qops_batsim.running.history import (
    ENDED,
    RUN_OR_HISTORY,
    RUNNING,
    DecisionHistory,
    JobStory,
    KilledRun,
    PlannedStart,
    PlanState,
    find_job,
    or_infinite,
    read_history_if_kept,
)
from qops_batsim.running.plan_asker import PlanAsker, job_of, logged_scheduler
from qops_batsim.schedulers.loading.plugins import AllowedCode
from qops_batsim.timing import PLAN_TOLERANCE, on_grid


class ToldJob(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a job of a run that any explanation has: dates and waits in seconds, None if
    missing.
    """

    run: str
    scheduler: str | None
    machine_processors: int
    job: str
    processors: int
    submission: float
    requested_deadline: float | None = None
    admitted_deadline: float | None = None
    reason: str = ""
    """Note of the scheduler, mostly why the requested deadline was refused, in words."""
    free_processors: int | None = None
    """Processors that no job used when it asked, or just after its submission."""
    start: float | None = None
    end: float | None = None
    """When it ran, the last time if it was killed."""
    waited: float | None = None
    lateness: float | None = None
    """From the requested deadline to the end, below 0 if that is earlier; None without either."""
    grace: float = 0.0
    """Lateness (seconds) up to which a deadline counts as met."""
    calendar: Calendar | None = None
    """The date of second 0, if that is known."""


class PlainExplanation(ToldJob, frozen=True, kw_only=True):
    """Explanation of a job from the run's files alone: the scheduler keeps no decision log."""

    state: str
    """Batsim's final state."""
    ahead: list[str] = []
    """Full ids of the jobs that had been submitted before and did not run yet."""
    freed_by: list[str] = []
    """Full ids of the jobs that ended when it started."""


def explain_from_files(run: str | Path, name: str) -> PlainExplanation:
    """Explain a job of a run that has no decision log; ``name`` is the job's full id (``w0!15``) or
    the part after ``!``. O(jobs).
    """
    result = read_files(find_run(run))
    rows = {job_id: row for row, job_id in enumerate(result.ids)}
    job_id = find_job(name, rows, result.source)
    row = rows[job_id]

    # What a job that was run again asked for stands where it was first submitted.
    reason = ""
    asked = math.nan
    promised = math.nan
    said = result.decisions
    if said is None:
        # What _qos.csv would tell of deadlines, the workload does, if it is there.
        jobs = jobs_by_id(workloads_of_run(result)[0])
        origin = original_id(job_id, jobs)
        qos = None if origin is None else jobs[origin].qos
        if qos is not None and qos.deadline is not None:
            asked = qos.deadline
    elif (origin := original_id(job_id, said.ids)) is not None:
        place = list(said.ids).index(origin)
        if "reason" in said.columns:
            reason = str(list(said.columns["reason"])[place])
        asked = said.numbers("requested_deadline")[place]
        promised = said.numbers("admitted_deadline")[place]

    requested = _known(asked)
    return PlainExplanation(
        run=str(run),
        scheduler=None if result.info is None else result.info.scheduler,
        machine_processors=result.hosts,
        job=job_id,
        processors=int(result.column("requested_number_of_resources")[row]),
        submission=float(result.column("submission_time")[row]),
        state=result.text("final_state")[row],
        calendar=result.calendar,
        grace=result.grace,
        reason=reason,
        requested_deadline=requested,
        admitted_deadline=_known(promised),
        **(_times(result, row, requested) if result.executed[row] else {}),
    )


def _known(date: float) -> float | None:
    return float(date) if math.isfinite(date) else None


def _lateness(end: float | None, deadline: float | None) -> float | None:
    return None if end is None or deadline is None else end - deadline


def _times(result: RunResult, row: int, requested: float | None) -> dict[str, Any]:
    """Return the fields of a :class:`PlainExplanation` that only a job has which ran."""
    submitted = result.column("submission_time")
    start = result.column("starting_time")
    end = result.column("finish_time")
    date = submitted[row]

    running = (start <= date) & (end > date + PLAN_TOLERANCE)
    running[row] = False
    # A job that never runs has no start, and waits for nothing.
    ahead = (submitted < date - PLAN_TOLERANCE) & (start > date + PLAN_TOLERANCE)
    freed = np.abs(end - start[row]) <= PLAN_TOLERANCE
    freed[row] = False
    ids = result.ids
    return {
        "start": float(start[row]),
        "end": float(end[row]),
        "lateness": _lateness(float(end[row]), requested),
        "waited": float(start[row] - date),
        # Hosts that jobs share are not free or taken.
        "free_processors": None
        if result.machine is not None
        else result.hosts - _used_hosts(result, running),
        "ahead": [ids[place] for place in np.flatnonzero(ahead)],
        "freed_by": [ids[place] for place in np.flatnonzero(freed)],
    }


def _used_hosts(result: RunResult, running: Booleans) -> int:
    """Return how many hosts the jobs selected by the mask ``running`` occupy; a host that jobs
    share counts once.
    """
    rows, first, last = result.allocations
    used = np.zeros(result.hosts, dtype=np.bool_)
    for row, low, high in zip(rows.tolist(), first.tolist(), last.tolist(), strict=True):
        if running[row]:
            used[low : high + 1] = True
    return int(used.sum())


class Commitment(msgspec.Struct, frozen=True, kw_only=True):
    """An admitted job and the time for which it is planned: its planned start and end as of one
    moment (seconds).
    """

    job: str
    processors: int
    running: bool
    start: float | None
    """The promised one unless it runs."""
    end: float | None
    """The expected one; None, as the others, if it cannot be told."""
    deadline: float | None
    """The one that the plan aims at."""


def commitments_of(state: PlanState) -> list[Commitment]:
    """Return the waiting and running jobs of a plan by planned start, then id."""
    commitments = []
    for story in state.held:
        running = story.outcome == RUNNING
        start = story.start if running else story.planned
        end = story.expected_end
        if not running:
            left = story.estimate_left
            end = None if start is None or left is None else start + left

        commitments.append(
            Commitment(
                job=story.name,
                processors=story.asked.processors,
                running=running,
                start=start,
                end=end,
                deadline=story.target,
            )
        )
    return sorted(commitments, key=lambda held: (or_infinite(held.start), held.job))


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of which shared hosts had too little free when a job asked, and the hosts (by name)
    that were the first to have it.
    """

    shortage: Shortage
    waited_for: list[str]


def blocked_by(asker: PlanAsker, asked: Submitted) -> list[Blocked]:
    """Return what running jobs left too little of for a job, the latest date first; nothing where
    hosts are whole.
    """
    machine = asker.machine
    if machine is None:
        return []
    running = NodeProfile(NodeLayout(machine), asker.now)
    for story in asker.state.held:
        if story.outcome == RUNNING:
            end = on_grid(or_infinite(story.expected_end))
            running.take_amount(running.start, end, places_of(story, running.layout))
    found = [
        Blocked(shortage=each, waited_for=[machine.names[host] for host in each.missing])
        for part in asked_or_whole(asked.hosts, asked.processors).parts
        for each in shortages(running, part)
    ]
    return sorted(found, key=lambda each: or_infinite(each.shortage.date), reverse=True)


def places_of(story: JobStory, layout: NodeLayout) -> Places:
    """Return what a job holds of shared hosts."""
    asked = story.asked
    places = Places()
    places.fill(layout.request(asked.hosts, asked.processors).parts, story.places)
    return places


class Explanation(ToldJob, frozen=True, kw_only=True):
    """Explanation of a job from the decision log of its run."""

    estimate: float | None
    outcome: str
    """State of the job at the end of the log: a constant of
    :mod:`~qops_batsim.running.history`."""
    refusal: Refusal | None = None
    """Why, typed."""
    blamed: Commitment | None = None
    """The commitment that blocked the job, if it was not the job's own deadline."""
    offered_deadline: float | None = None
    price: JobPrice | None = None
    """For the admitted deadline, or what the requested one would have cost."""
    earliest: PossibleDeadline | None = None
    """The earliest deadline that would have been promised at the submission."""
    latest_accepted: float | None = None
    """Latest deadline that the user would have taken; None without a requested one."""
    cheapest: PossibleDeadline | None = None
    """The latest such deadline that would have been promised: the later, the cheaper."""
    short_of: list[Blocked] = []
    """On shared hosts: what running jobs left too little of when it asked, the latest date
    first."""
    in_the_way: list[Commitment] = []
    """Promises in the window that the job asked for, or up to its promised
    start, by start."""
    waited_for: list[Commitment] = []
    """The chain of jobs that the first promised start rested on, or for a refused job the
    start for the earliest deadline; last one first: each had to end for the one before it,
    or the job, to start."""
    promises: list[PlannedStart] = []
    kills: list[KilledRun] = []
    killed_for_it: list[str] = []
    """Full ids of the jobs that were killed to admit it."""
    expected_end: float | None = None

    @property
    def was_cancelled(self) -> bool:
        """Whether the user cancelled the job while it waited."""
        return self.refusal is not None and self.refusal.kind is RefusalKind.CANCELLED


@takes(
    run=RUN_OR_HISTORY,
    job=TEXT,
    prices=one_of(PriceList, words="a price list").optional,
    tolerance=NUMBER.optional,
    code=CODE,
)
def explain(
    run: str | PathLike[str] | DecisionHistory,
    job: str,
    prices: PriceList | None = None,
    *,
    tolerance: float | None = None,
    code: AllowedCode = (),
) -> Explanation | PlainExplanation:
    """Explain why a job was refused, delayed or killed, and what could have been promised.

    Parameters
    ----------
    run
        A run, its prefix, directory or ``_jobs.csv``, or its decision log.
    job
        Full id of the job, or the part after ``!``.
    prices
        Prices; by default QoS charges by the slowdowns of an EASY run of the workload.
    tolerance
        Tolerance factor of the user; by default the job's own, else the scheduler's.
    code
        Python files with schedulers that the run's files may name and that are then run; True for
        any.

    Returns
    -------
    Explanation or PlainExplanation
        The second for runs whose scheduler keeps no decision log: it has less.

    Raises
    ------
    InputError
        If the run cannot be read or has no such job.

    Examples
    --------
    >>> from qops_batsim import run
    >>> found = explain(run("qops", "sdsc_sp2_deadlines_500", out="out/qops"), "72")
    >>> found.outcome, round(found.earliest.deadline)
    ('refused', 54203)
    """
    if not isinstance(run, DecisionHistory):
        history = read_history_if_kept(run, code=code)
        if history is None:
            return explain_from_files(fspath(run), job)
        run = history
    job_id = run.find_job(job)
    return explain_job(run, job_id, prices or price_list(run.info), tolerance=tolerance)


def explain_job(
    history: DecisionHistory, job_id: str, prices: PriceList, *, tolerance: float | None = None
) -> Explanation:
    """Explain a job of a decision log, by its full id (``w0!15``): see :func:`explain`."""
    story = history.final.jobs[job_id]
    asked = story.asked
    end = story.end if story.outcome == ENDED else None

    # What the scheduler would have answered when it was asked.
    asker = PlanAsker(history, history.state_before(job_id), asked.date)
    deadlines = PricedDeadlines(asker, asked, prices)
    commitments = commitments_of(asker.state)
    earliest = deadlines.earliest() if asker.can_answer else None
    latest = _latest_accepted(history, asked, tolerance)

    return Explanation(
        run=history.name,
        scheduler=history.header.scheduler,
        machine_processors=asker.machine_size,
        job=job_id,
        processors=asked.processors,
        estimate=asked.estimate,
        submission=asked.submission,
        requested_deadline=asked.deadline,
        outcome=story.outcome,
        reason=story.reason,
        refusal=story.refusal,
        blamed=next((held for held in commitments if held.job == story.blamed), None),
        offered_deadline=story.offered,
        admitted_deadline=story.promise,
        price=deadlines.price(story.promise if story.admitted else asked.deadline),
        earliest=earliest,
        latest_accepted=latest,
        cheapest=deadlines.cheapest(latest, earliest),
        free_processors=asker.free_processors,
        short_of=blocked_by(asker, asked),
        in_the_way=_blockers(commitments, story),
        waited_for=_chain(history, story, commitments, earliest),
        promises=story.starts,
        kills=story.kills,
        killed_for_it=story.killed_for_it,
        start=story.start,
        end=end,
        lateness=_lateness(end, asked.deadline),
        waited=None if story.start is None else story.start - asked.submission,
        expected_end=story.expected_end,
        calendar=history.calendar,
        grace=0.0 if history.info is None else history.info.grace,
    )


def _latest_accepted(
    history: DecisionHistory, asked: Submitted, tolerance: float | None
) -> float | None:
    """Return the latest deadline (seconds) that the job's user would accept by the tolerance
    factor, None if the user requested no deadline.
    """
    if asked.deadline is None:
        return None
    factor = asked.tolerance if tolerance is None else tolerance
    if factor is None:
        # What the scheduler's options say of the user's tolerance.
        users = getattr(logged_scheduler(history).scheduler, "tolerance", None)
        factor = users.factor_of(job_of(asked)) if isinstance(users, FactorTolerance) else 1.0
    arrival = max(asked.submission, 0.0)
    return max(asked.deadline, arrival + factor * (asked.deadline - arrival))


def _blockers(commitments: Iterable[Commitment], story: JobStory) -> list[Commitment]:
    """Return the admitted jobs whose planned time overlaps that from the job's request to its
    promised start, or to its deadline if it was refused.
    """
    since = story.asked.date
    promises = story.starts
    until = or_infinite(promises[0].start if promises else story.asked.deadline)
    if promises and until <= since + PLAN_TOLERANCE:
        return []  # It started at once.
    return [
        held
        for held in commitments
        if or_infinite(held.start) < until - PLAN_TOLERANCE
        and or_infinite(held.end) > since + PLAN_TOLERANCE
    ]


def _chain(
    history: DecisionHistory,
    story: JobStory,
    commitments: list[Commitment],
    earliest: PossibleDeadline | None,
) -> list[Commitment]:
    """Return the jobs that had to end one after the other before the explained job could start."""
    job_id = story.asked.job
    start = None if earliest is None else earliest.start
    if story.starts:
        start = story.starts[0].start
        commitments = commitments_of(history.state_after_admission(job_id))

    others = [held for held in commitments if held.job != job_id]
    chain: list[Commitment] = []
    while start is not None and start > story.asked.date + PLAN_TOLERANCE:
        ending = [held for held in others if abs(or_infinite(held.end) - start) <= PLAN_TOLERANCE]
        if not ending:
            break
        # Of several that end then, the widest did most for the start.
        last = max(ending, key=lambda held: (held.processors, held.job))
        chain.append(last)
        others.remove(last)
        if last.running:
            break
        start = last.start
    return chain
