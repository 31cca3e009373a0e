"""The runs behind advice on a trace: its windows with deadlines under schedulers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from qops_batsim.advice.what_if import WhatIf, on_machine
from qops_batsim.core.refusal import Refusal, RefusalKind
from qops_batsim.economics.charges import Categories, SlowdownTable, category_slowdowns
from qops_batsim.economics.prices import Prices
from qops_batsim.errors import InputError
from qops_batsim.experiments.changed_options import ChangedOptions
from qops_batsim.experiments.deadline_runs import outcomes_of
from qops_batsim.measures.metrics.charge_totals import (
    CategoryCharges,
    charge_jobs,
    charge_report,
    reference_of_workload,
)
from qops_batsim.measures.metrics.measures import Measures, study_measures
from qops_batsim.measures.metrics.outcomes import JobOutcomes, fates
from qops_batsim.parameters import EXACT, USERS
from qops_batsim.platform.equal_hosts import make_cluster
from qops_batsim.protocol.port import SchedulerModule, make_scheduler
from qops_batsim.running.reference import easy_response_times
from qops_batsim.running.search_asker import EarliestPromises, watched_scheduler
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload.deadlines import DAY, users_with_deadline, without_deadlines
from qops_batsim.workload.delay_jobs import derived, exact_estimates, with_deadline
from qops_batsim.workload.estimates import estimates_sentence, users_estimates
from qops_batsim.workload.scale import subset
from qops_batsim.workload.workload_model import Workload, plain_number


class TraceWindow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A window of a trace: ``jobs`` jobs in the order of submission after the first ``skip``;
    ``number`` also seeds random choices.

    ``processors`` is the size of the machine then, if it is known to change.
    """

    number: int
    skip: int
    jobs: int
    processors: int | None = None


def choose_windows(
    jobs: int, windows: int | None = None, size: int | None = None, *, is_part: bool = False
) -> list[TraceWindow]:
    """Choose the windows of a trace of ``jobs`` jobs that are simulated: ``windows`` stretches of
    ``size`` jobs, spread evenly.

    By default a trace of fewer than 6,000 jobs is one window, others are three to five, of 5,000
    jobs at most: three are needed for an interval. A partition, one of several, is three of 3,000.
    """
    number, most = (3, 3000) if is_part else (5, 5000)
    if windows is None:
        windows = min(number, jobs // 2000) if size is None else min(number, jobs // size)
        windows = windows if windows >= 3 else 1
    windows = max(1, min(windows, jobs))
    room = jobs // windows
    size = min(room, size or (most if windows > 1 or jobs > 10_000 else jobs))
    return [
        TraceWindow(number=number + 1, skip=number * room + (room - size) // 2, jobs=size)
        for number in range(windows)
    ]


def sized_windows(
    windows: Sequence[TraceWindow], workload: Workload, sizes: Sequence[tuple[float, int]]
) -> list[TraceWindow]:
    """Return each window with the size that the machine had when the middle job of the window was
    submitted.

    ``sizes`` are processors since some dates. No job of a window is wider than its machine.
    """
    if not sizes:
        return list(windows)
    columns = workload.columns
    order = np.argsort(columns.submission_times, kind="stable")
    sized = []
    for window in windows:
        rows = order[window.skip : window.skip + window.jobs]
        middle = columns.submission_times[rows[len(rows) // 2]]
        since = [size for date, size in sizes if date <= middle] or [sizes[0][1]]
        size = max(since[-1], int(columns.processors[rows].max()))
        sized.append(msgspec.structs.replace(window, processors=size))
    return sized


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A trace prepared for promises: each job has an estimate, none has a deadline.

    Of its jobs ``unfit`` were left out, which ask for more processors than the machine has, or for
    none, and ``deadlines`` of their own were not looked at. ``estimates`` says in a sentence which
    are used (:func:`~qops_batsim.workload.estimates.users_estimates`); where the trace
    ``has_estimates`` of no job, they are exact.
    """

    workload: Workload
    unfit: int
    deadlines: int
    estimates: str
    has_estimates: bool


def prepare(workload: Workload) -> Prepared:
    """Return a trace in which each job has an estimate and none has a deadline."""
    deadlines = sum(job.qos is not None and job.qos.deadline is not None for job in workload.jobs)
    if deadlines:
        workload = without_deadlines(workload)

    fit = [job for job in workload.jobs if 1 <= job.processors <= workload.processors]
    unfit = len(workload.jobs) - len(fit)
    if not fit:
        raise InputError(
            f"{workload.source}: no job fits the {workload.processors} processors of the "
            "machine; at least one job of that size or less is expected"
        )
    if unfit:
        workload = derived(workload, fit, None, {"step": "jobs that fit", "left_out": unfit})

    return Prepared(
        workload=users_estimates(workload),
        unfit=unfit,
        deadlines=deadlines,
        estimates=estimates_sentence(workload, USERS),
        has_estimates=any(job.estimate < math.inf for job in workload.jobs),
    )


REASONS = ("own", "others", "impossible", "other")
"""Why jobs are refused: the own deadline, or another job's, would be missed; it is not even far
enough away for the estimate."""


MOST_REFUSALS = 20
"""Most refused jobs of a run that are told one by one."""


class AdviceCase(msgspec.Struct, frozen=True, kw_only=True):
    """What one simulation is of: a scheduler, a window of the trace, its load, and how deadlines
    are set.

    ``deadlines_by`` says by which estimates, and by which EASY run, deadlines are set; ``share`` is
    that of the jobs whose users ask for one. With ``promises``, it is noted how early the end of
    each job could have been promised.
    """

    window: int
    load: float = 1.0
    scheduler: str = "easy"
    settings: ChangedOptions = ()
    estimates: str = USERS
    deadlines_by: str = USERS
    stringency: float = 0.2
    share: float = 1.0
    promises: bool = False


class GroupCount(msgspec.Struct, kw_only=True):
    """Counts for one group of jobs: how many deadlines were requested, promised, failed and
    refused.
    """

    jobs: int = 0
    promised: int = 0
    later: int = 0
    """Of the promised ones, those promised a later end than asked for, which users took."""
    failed: int = 0
    """Promises that were broken and, where nothing was promised, deadlines that were missed."""
    refused: int = 0
    refused_work: float = 0.0
    """Processor-seconds."""
    reasons: dict[str, int] = {}


class EarliestPromise(msgspec.Struct, frozen=True, array_like=True):
    """How early the end of a job could have been promised, with the job's estimate (seconds).

    The category is by that estimate, since no more is known at the submission.
    """

    category: str
    estimate: float
    response: float | None
    """From its submission to the earliest end; None if none could be promised."""


class RefusedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A refused job; dates and durations in seconds."""

    id: str
    submission: float
    processors: int
    estimate: float
    work: float
    """Processor-seconds that it would have used."""
    refusal: Refusal
    queue: str
    user: str


class AdviceRun(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one simulation for the advice: counts of deadlines and charges by category, work in
    processor-seconds.
    """

    metrics: Measures
    work: float
    """Of all jobs, refused ones included."""
    groups: dict[str, GroupCount]
    charges: tuple[CategoryCharges, ...]
    total: CategoryCharges
    promises: tuple[EarliestPromise, ...] = ()
    refusals: tuple[RefusedJob, ...] = ()
    """Where promises were asked for: the largest of the refused jobs, by work."""
    queues: dict[str, GroupCount] = {}
    """Likewise: the groups by the queues that the trace tells."""
    waits: dict[str, list[float]] = {}
    """Of EASY: the waits by category (seconds)."""

    @property
    def counts(self) -> GroupCount:
        """Return the counts of deadlines, summed over all categories of jobs."""
        return add_up(self.groups.values())


def add_up(groups: Iterable[GroupCount]) -> GroupCount:
    """Return the sum of the counts of several groups of jobs."""
    counted, reasons = Counter[str](), Counter[str]()
    for each in groups:
        counts = msgspec.structs.asdict(each)
        reasons.update(counts.pop("reasons"))
        counted.update(counts)
    return GroupCount(**counted, reasons=dict(reasons))


@dataclass
class TraceRuns:
    """Callable that simulates a case on a window of a trace, and keeps what the next case on the
    same window and load can use.
    """

    trace: Workload
    windows: Sequence[TraceWindow]
    what_if: WhatIf = field(default_factory=WhatIf)
    prices: Prices = field(default_factory=Prices)
    _scaled: tuple[tuple[int, float], dict[str, _UnderEasy]] | None = field(
        default=None, init=False
    )

    def __call__(self, case: AdviceCase) -> AdviceRun:
        """Simulate a case on its window and return the results."""
        measured = self._under_easy(case)
        base = measured[case.estimates].workload
        workload = give_deadlines(base, measured[case.deadlines_by], case)
        promises = EarliestPromises()
        settings = dict(case.settings)
        if case.promises:
            module = watched_scheduler(case.scheduler, settings, promises)
        else:
            module = make_scheduler(case.scheduler, settings)
        outcomes, simulation = outcomes_of(workload, make_cluster(workload.processors), module)

        # The prices are those of the trace as its users estimate, in every run of a load.
        table = measured[USERS].table
        references = reference_of_workload(workload, measured[USERS].responses)
        charged = charge_jobs(outcomes, references, table, self.prices.function)
        report = charge_report(charged, table, self.prices)

        categories = [each.category for each in charged]
        queues = [str(job.fields.get("queue", "-")) for job in workload.jobs]
        return AdviceRun(
            metrics=study_measures(outcomes, len(simulation.hosts)),
            work=float((outcomes.processors * outcomes.run_time).sum()),
            groups=_groups(outcomes, categories, module),
            refusals=tuple(_refusals(outcomes, workload, module)) if case.promises else (),
            queues=_groups(outcomes, queues, module) if case.promises else {},
            charges=report.categories,
            total=report.total,
            promises=tuple(_promises(workload, table.categories, promises)),
            waits=_waits(outcomes, categories) if case.scheduler == "easy" else {},
        )

    def _under_easy(self, case: AdviceCase) -> dict[str, _UnderEasy]:
        """Return the window of a case under EASY, by the estimates that its users give."""
        key = (case.window, case.load)
        if self._scaled is None or self._scaled[0] != key:
            window = self.windows[case.window]
            part = subset(self.trace, first=window.jobs, skip=window.skip)
            if window.processors is not None:
                part = on_machine(part, window.processors)
            easy = run_easy(self.what_if.change(part, case.load, window.number), self.prices)
            if self.what_if.estimates != USERS:
                # Learned estimates know the jobs that have ended under EASY.
                jobs = easy.workload.jobs
                ends = {job.id: job.submission_time + easy.responses[job.id] for job in jobs}
                easy = run_easy(self.what_if.estimate(easy.workload, ends), self.prices)
            self._scaled = key, {USERS: easy}

        measured = self._scaled[1]
        if EXACT in (case.estimates, case.deadlines_by) and EXACT not in measured:
            exact = exact_estimates(measured[USERS].workload)
            measured[EXACT] = run_easy(exact, self.prices)
        return measured


def shared_work(case: AdviceCase) -> tuple[int, float]:
    """Return the window and load of a case: cases with the same key share the run of EASY."""
    return case.window, case.load


@dataclass(frozen=True)
class _UnderEasy:
    """A workload with its jobs' response times (s) under EASY, and mean slowdowns by category."""

    workload: Workload
    responses: Mapping[str, float]
    table: SlowdownTable


def run_easy(
    workload: Workload,
    prices: Prices = Prices(),  # noqa: B008 - it is frozen
) -> _UnderEasy:
    """Simulate a workload under EASY, and return the jobs' response times (s) and the mean
    slowdowns of their categories.
    """
    responses = easy_response_times(workload)
    references = reference_of_workload(workload, responses)
    table = category_slowdowns(references.values(), prices.categories, bound=prices.slowdown_bound)
    return _UnderEasy(workload, responses, table)


def give_deadlines(base: Workload, measured: _UnderEasy, case: AdviceCase) -> Workload:
    """Return the workload with a deadline for each job, set from its response time under EASY
    (Islam et al. 2003).

    They follow from the same jobs as they were ``measured``, perhaps with other estimates. A
    deadline is submission + max(estimate, (1 - S) × response under EASY), as of
    :func:`~qops_batsim.workload.deadlines.assign_deadlines` where it leaves the estimate, but S may
    be below 0; no end could be promised before the estimate has passed. The artificial deadline of
    a job whose user sets none is max(24 h, 2 × estimate) after its submission.
    """
    of_users = users_with_deadline(base, case.share, base.processors)
    jobs = []
    for own, job in zip(base.jobs, measured.workload.jobs, strict=True):
        of_user = job.id in of_users
        planned = (1 - case.stringency) * measured.responses[job.id]
        seconds = max(job.estimate, planned) if of_user else max(DAY, 2 * job.estimate)
        deadline = plain_number(job.submission_time + seconds)
        jobs.append(with_deadline(own, deadline, of_user, workload=base))
    step = {"step": "deadlines", "stringency": case.stringency, "share": case.share}
    return derived(base, jobs, None, {**step, "estimates": case.deadlines_by})


def _groups(
    outcomes: JobOutcomes, categories: Sequence[str], module: SchedulerModule
) -> dict[str, GroupCount]:
    groups: dict[str, GroupCount] = {}
    work = outcomes.processors * outcomes.run_time
    fate = fates(outcomes)
    later = outcomes.promised > outcomes.deadline + PLAN_TOLERANCE
    for row in np.flatnonzero(outcomes.of_user).tolist():
        group = groups.setdefault(categories[row], GroupCount(reasons={}))
        group.jobs += 1
        if outcomes.refused[row]:
            group.refused += 1
            group.refused_work += float(work[row])
            kind = reason_of(refusal_of(module, outcomes.ids[row]))
            group.reasons[kind] = group.reasons.get(kind, 0) + 1
            continue

        group.promised += bool(fate.promised[row])
        group.later += bool(later[row])
        group.failed += bool(fate.failed[row])
    return groups


def _refusals(
    outcomes: JobOutcomes, workload: Workload, module: SchedulerModule
) -> Iterator[RefusedJob]:
    work = np.where(outcomes.refused, outcomes.processors * outcomes.run_time, -1.0)
    for row in np.argsort(-work, kind="stable")[:MOST_REFUSALS].tolist():
        job = workload.jobs[row]
        if not outcomes.refused[row]:
            break
        yield RefusedJob(
            id=job.id,
            submission=job.submission_time,
            processors=job.processors,
            estimate=job.estimate,
            work=float(work[row]),
            refusal=refusal_of(module, job.id),
            queue=str(job.fields.get("queue", "")),
            user=str(job.fields.get("user", "")),
        )


def refusal_of(module: SchedulerModule, job_id: str) -> Refusal:
    """Return why the scheduler refused the job with this id of the trace."""
    reasons = module.qos_log.record(f"w0!{job_id}").reasons
    return reasons[0] if reasons else Refusal(kind=RefusalKind.FREE_TEXT)


def reason_of(refusal: Refusal) -> str:
    """Return which one of the :data:`REASONS` a refusal belongs to."""
    return _REASONS.get(refusal.kind, "other")


_REASONS = {
    RefusalKind.OWN_DEADLINE: "own",
    RefusalKind.OTHER_DEADLINE: "others",
    RefusalKind.NO_TIME: "impossible",
}


def _promises(
    workload: Workload, categories: Categories, promises: EarliestPromises
) -> Iterator[EarliestPromise]:
    for job in workload.jobs:
        response = promises.get(f"w0!{job.id}")
        if response is not None:
            category = categories.label(job.estimate, job.processors)
            yield EarliestPromise(category, job.estimate, response if response < math.inf else None)


def _waits(outcomes: JobOutcomes, categories: Sequence[str]) -> dict[str, list[float]]:
    waits: dict[str, list[float]] = {}
    for category, wait in zip(categories, outcomes.wait.tolist(), strict=True):
        waits.setdefault(category, []).append(wait)
    return waits
