"""The table of measures: each figure that is told of a run is a function of this module.

``run`` and ``metrics`` tell the measures of :data:`FILES`, studies, ``compare`` and ``advise``
those of :data:`STUDY`, and with models of estimates also those of :data:`PROMISES`. A function
gives a measure's name, unit, meaning and formula, and where it stands its place in JSON and in
tables; CONTRIBUTING tells what else a new one needs.

Unless said otherwise measures are about executed jobs: those that ran, whether they succeeded,
failed or were killed, but not rejected ones. A job that was killed and run again is one job: its
last run tells how it ended. A measure is None where no job counts for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_type_hints

import msgspec
import numpy as np

from qops_batsim.arguments import NUMBER, WHOLE, takes
from qops_batsim.economics.charges import SlowdownTable
from qops_batsim.jobs import (
    COMPLETED_FAILED,
    COMPLETED_KILLED,
    COMPLETED_SUCCESSFULLY,
    COMPLETED_WALLTIME_REACHED,
    REJECTED,
)
from qops_batsim.measures.metrics.charge_totals import References
from qops_batsim.measures.metrics.measured import (
    BOUNDED_SLOWDOWN_THRESHOLD,
    MeasuredFiles,
    MeasuredJobs,
    MeasuredRun,
)
from qops_batsim.measures.metrics.outcomes import (
    DeadlineMetrics,
    JobOutcomes,
    PromiseCounts,
    deadline_metrics,
    promise_counts,
)
from qops_batsim.measures.results.result_tables import Floats, mean
from qops_batsim.measures.results.run_result import (
    RUN,
    Run,
    RunResult,
    load_run,
    workloads_with_deadlines,
)
from qops_batsim.measures.results.series import StepSeries
from qops_batsim.workload.workload_model import Workload
from qops_batsim.workload.workload_model import offered_load as load_of

FILES = "files"
"""Measures of a run's files, of ``run`` and ``metrics``; shares are from 0 to 1."""

STUDY = "study"
"""Measures of jobs' outcomes, the columns of studies; shares are in %."""

PROMISES = "promises"
"""Further columns of studies with models of estimates; None if nothing was promised."""

SHARE = "share"
"""Unit of what is a part of a whole: from 0 to 1 in :data:`FILES`, in % in studies."""

PERCENT = "%"
"""Unit of what is told in %, but may be more than all, or less than nothing."""


class Measure(NamedTuple):
    """A row of the table: a figure of a run, its unit and meaning, and how it is computed."""

    name: str
    unit: str
    meaning: str
    of: Callable[[Any], Any]
    groups: tuple[str, ...]


MEASURES: dict[str, Measure] = {}
"""All measures by name, in the order of this module."""

Figure = float | None
"""A measure that is one number; None where no job counts for it."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def measure(*groups: str, unit: str) -> Callable[[_Function], _Function]:
    """Return a decorator that enters a function of a measured run into the table."""

    def enter(function: _Function) -> _Function:
        name = function.__name__
        MEASURES[name] = Measure(name, unit, function.__doc__ or "", function, groups)
        return function

    return enter


def of_files(unit: str) -> Callable[[_Function], _Function]:
    """Return a decorator for a measure of a run's files."""
    return measure(FILES, unit=unit)


def of_study(unit: str) -> Callable[[_Function], _Function]:
    """Return a decorator for a measure of jobs' outcomes."""
    return measure(STUDY, unit=unit)


def of_promises(unit: str) -> Callable[[_Function], _Function]:
    """Return a decorator for a measure of promises."""
    return measure(PROMISES, unit=unit)


class SampleSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Mean, median, 95th percentile and maximum of a sample, all None if the sample is empty."""

    mean: float | None = None
    median: float | None = None
    p95: float | None = None
    max: float | None = None


def summarize(values: Floats) -> SampleSummary:
    """Return mean, median, 95th percentile (linear interpolation) and maximum of the values."""
    if not len(values):
        return SampleSummary()
    median, p95 = np.percentile(values, (50, 95)).tolist()
    return SampleSummary(mean=float(values.mean()), median=median, p95=p95, max=float(values.max()))


# A run's files: jobs and their times


@of_files("hosts")
def hosts(run: MeasuredFiles) -> int:
    """Hosts of the machine."""
    return run.hosts


@of_files("jobs")
def jobs_submitted(run: MeasuredFiles) -> int:
    """All jobs, one that was run again once."""
    return int(run.result.last_runs.sum())


@of_files("jobs")
def jobs_successful(run: MeasuredFiles) -> int:
    """Jobs that ended successfully."""
    return run.ended(COMPLETED_SUCCESSFULLY)


@of_files("jobs")
def jobs_walltime_killed(run: MeasuredFiles) -> int:
    """Jobs that were killed at their walltime."""
    return run.ended(COMPLETED_WALLTIME_REACHED)


@of_files("jobs")
def jobs_killed(run: MeasuredFiles) -> int:
    """Jobs that the scheduler killed for good."""
    return run.ended(COMPLETED_KILLED)


@of_files("jobs")
def jobs_failed(run: MeasuredFiles) -> int:
    """Jobs whose profile returned another code than 0."""
    return run.ended(COMPLETED_FAILED)


@of_files("jobs")
def jobs_rejected(run: MeasuredFiles) -> int:
    """Jobs that were rejected, but not those whose users cancelled them."""
    return run.ended(REJECTED) - len(run.result.cancelled)


@of_files("runs")
def runs_killed(run: MeasuredFiles) -> int:
    """Runs that the scheduler killed, of jobs that were run again or went on later."""
    return len(run.result.earlier_runs)


@of_files("s")
def waiting_time(run: MeasuredFiles) -> SampleSummary:
    """Start - submission."""
    return summarize(run.waits)


@of_files("s")
def turnaround_time(run: MeasuredFiles) -> SampleSummary:
    """Completion - submission."""
    return summarize(run.turnarounds)


@of_files("")
def slowdown(run: MeasuredFiles) -> SampleSummary:
    """Turnaround time / run time, divided before rounding; without jobs with run time 0."""
    return summarize(run.stretches[np.isfinite(run.stretches)])


@of_files("")
def bounded_slowdown(run: MeasuredFiles) -> SampleSummary:
    """max(1, turnaround time / max(run time, threshold))."""
    return summarize(run.bounded_slowdowns)


@of_files("s")
def bounded_slowdown_threshold(run: MeasuredFiles) -> float:
    """Run times below this count as this in the bounded slowdown."""
    return run.threshold


@of_files("s")
def makespan(run: MeasuredFiles) -> Figure:
    """Last completion, counted from date 0, as Batsim defines it."""
    ends = run.result.column("finish_time")[run.result.executed & run.result.last_runs]
    return float(ends.max()) if len(ends) else None


@of_files("s")
def window_begin(run: MeasuredFiles) -> Figure:
    """First submission, where the machine's measures begin."""
    begin, end = run.window
    return begin if end > begin else None


@of_files("s")
def window_end(run: MeasuredFiles) -> Figure:
    """Last completion, where the machine's measures end."""
    begin, end = run.window
    return end if end > begin else None


# Admission of deadlines: Islam et al. (2003), section 5


@of_study("jobs")
def jobs(run: MeasuredJobs) -> int:
    """All jobs."""
    return len(run.outcomes.ids)


@of_study("jobs")
def deadline_jobs(run: MeasuredJobs) -> int:
    """Jobs whose user set the deadline."""
    return int(run.outcomes.of_user.sum())


@of_study("")
def offered_load(run: MeasuredJobs) -> Figure:
    """Σ q p of all jobs / (hosts × time from first to last submission)."""
    return load_of(run.work, run.outcomes.submission, run.hosts)


@of_study(SHARE)
def unadmitted_jobs(run: MeasuredJobs) -> float:
    """Refused jobs, of all jobs."""
    return run.whole * float(run.outcomes.refused.mean())


@of_study(SHARE)
def unadmitted_work(run: MeasuredJobs) -> Figure:
    """Work of refused jobs, of all work."""
    return run.share(run.work[run.outcomes.refused].sum(), run.work.sum())


@of_study(SHARE)
def unadmitted_deadline_jobs(run: MeasuredJobs) -> Figure:
    """Refused jobs, of the deadline jobs."""
    return run.share(run.fates.refused.sum(), run.outcomes.of_user.sum())


@of_study(SHARE)
def unadmitted_deadline_work(run: MeasuredJobs) -> Figure:
    """Work of refused deadline jobs, of the work of deadline jobs."""
    return run.share(run.work[run.fates.refused].sum(), run.work[run.outcomes.of_user].sum())


@of_study(SHARE)
def missed_deadlines(run: MeasuredJobs) -> Figure:
    """Deadlines that were missed, of the deadline jobs; refused jobs miss none."""
    return run.share(run.fates.missed.sum(), run.outcomes.of_user.sum())


# The machine, from the first submission to the last completion


@measure(FILES, STUDY, unit=SHARE)
def utilization(run: MeasuredRun) -> Figure:
    """Time that hosts run jobs, lost runs included, of all hosts' time; of jobs that share hosts by
    amounts, the dominant shares count, which may add up to more than all.
    """
    return run.used(*run.window)


@of_files(SHARE)
def loss_of_capacity(run: MeasuredFiles) -> Figure:
    """Share of the hosts' time in which they idle while jobs wait.

    With dates t_i of all starts, ends and submissions, e_i idle hosts and δ_i = 1 if a job waits
    between t_i and t_{i+1} (else 0): Σ e_i δ_i (t_{i+1} - t_i) / (hosts × (end - begin)).

    Zhang, Franke, Moreira and Sivasubramaniam, "An integrated approach to parallel scheduling using
    gang-scheduling, backfilling, and migration", IEEE Transactions on Parallel and Distributed
    Systems 14(3), 2003, for space sharing.
    """
    return _loss(run, run.hosts, run.busy, run.queue)


def _loss(run: MeasuredFiles, has: float, used: StepSeries, queue: StepSeries) -> Figure:
    """Return the share of what the machine has that idles while jobs wait."""
    begin, end = run.window
    if not end > begin:
        return None
    inside = np.concatenate([used.dates, queue.dates])
    inside = inside[(inside > begin) & (inside < end)]
    dates = np.unique(np.concatenate([[begin, end], inside]))

    idle = np.maximum(has - used.at(dates[:-1]), 0.0)
    waiting = queue.at(dates[:-1]) > 0
    return run.share((idle * waiting * np.diff(dates)).sum(), has * (end - begin))


@of_files("jobs")
def queue_length_mean(run: MeasuredFiles) -> Figure:
    """Mean number of waiting jobs, weighted by time."""
    begin, end = run.window
    return run.queue.integral(begin, end) / (end - begin) if end > begin else None


@of_files("jobs")
def queue_length_max(run: MeasuredFiles) -> int | None:
    """Largest number of waiting jobs."""
    begin, end = run.window
    return round(run.queue.maximum(begin, end)) if end > begin else None


class KindMeasures(msgspec.Struct, frozen=True, kw_only=True):
    """Measures of one kind of what hosts have: what the machine has of it (memory in bytes), and
    how much of that is used, lost and waited for.

    Shares are from 0 to 1 of what the machine has. ``waiting`` is the mean amount that waiting jobs
    ask for, as such a share, and may be above 1; ``queue_length`` the mean number of waiting jobs
    that ask for the kind. Of all jobs, ``jobs`` ask for it, and it is the ``scarcest`` kind of so
    many: it makes their dominant share.
    """

    kind: str
    amount: int
    utilization: float | None
    loss_of_capacity: float | None
    waiting: float | None
    queue_length: float | None
    jobs: int
    scarcest: int


@of_files("")
def kinds(run: MeasuredFiles) -> list[KindMeasures] | msgspec.UnsetType:
    """Utilization, loss of capacity and queue by kind; left out where hosts have no amounts."""
    requests = run.requests
    if requests is None:
        return msgspec.UNSET
    begin, end = run.window
    last = run.result.last_runs
    found = []

    for place, kind in enumerate(requests.machine.kinds):
        has = int(requests.totals[place])
        used = requests.used(place)
        jobs_waiting = requests.jobs_waiting(place)
        whole = has * (end - begin)
        queue = jobs_waiting.integral(begin, end) / (end - begin) if end > begin else None
        found.append(
            KindMeasures(
                kind=kind,
                amount=has,
                utilization=run.share(used.integral(begin, end), whole),
                loss_of_capacity=_loss(run, has, used, jobs_waiting),
                waiting=run.share(requests.waiting(place).integral(begin, end), whole),
                queue_length=queue,
                jobs=int((requests.demand[last, place] > 0).sum()),
                scarcest=int((requests.scarcest[last] == place).sum()),
            )
        )
    return found


@of_files("jobs")
def deadlines(run: MeasuredFiles) -> DeadlineMetrics | None:
    """What became of the deadlines that users set; None if they set none, or none is known of."""
    if not (run.asked and run.outcomes is not None):
        return None
    decided = run.result.decisions
    renewed = 0 if decided is None else int((decided.numbers("new_promises") > 0).sum())
    return deadline_metrics(run.outcomes, grace=run.result.grace, renewed=renewed)


@of_files("jobs")
def promises(run: MeasuredFiles) -> PromiseCounts | None:
    """Promises (of deadlines or latest starts, to any job) given and broken; None without any."""
    return None if run.outcomes is None else promise_counts(run.outcomes, run.result.grace)


@of_files("jobs")
def jobs_cancelled(run: MeasuredFiles) -> int | msgspec.UnsetType:
    """Waiting jobs that their users cancelled; left out where there are none."""
    return len(run.result.cancelled) or msgspec.UNSET


@of_study(SHARE)
def utilization_during_submissions(run: MeasuredJobs) -> Figure:
    """Utilization until the last submission: without the time in which the machine only drains."""
    return run.used(run.window[0], float(run.outcomes.submission.max()))


# Times of jobs' outcomes


@of_study("s")
def response_time_of_others(run: MeasuredJobs) -> Figure:
    """Mean of completion - submission over the jobs without user deadline that ran."""
    return mean(run.turnarounds[run.others])


@of_study("")
def slowdown_of_others(run: MeasuredJobs) -> Figure:
    """Mean of response time / run time over the same jobs, without those with run time 0."""
    counted = run.others & (run.run_times > 0)
    return mean(run.turnarounds[counted] / run.run_times[counted])


@of_study("")
def bounded_slowdown_of_others(run: MeasuredJobs) -> Figure:
    """Mean bounded slowdown of the same jobs, with a threshold of 10 s."""
    return mean(run.bounded_slowdowns[run.others])


@of_study("")
def kills(run: MeasuredJobs) -> int:
    """Runs that the scheduler killed."""
    return int(run.outcomes.killed_runs.sum())


@of_study(PERCENT)
def wasted_work(run: MeasuredJobs) -> Figure:
    """Work of killed runs that was not saved, of all work; a job may lose more than it has."""
    return run.share(run.outcomes.wasted.sum(), run.work.sum())


@of_study(SHARE)
def met_deadlines(run: MeasuredJobs) -> Figure:
    """Deadlines that were met, of the deadline jobs."""
    return run.share(run.fates.met.sum(), run.outcomes.of_user.sum())


@of_study("s")
def wait(run: MeasuredJobs) -> Figure:
    """Mean of start - submission over all jobs that ran."""
    return mean(run.waits)


@of_study("")
def bounded_slowdown_of_all(run: MeasuredJobs) -> Figure:
    """Mean bounded slowdown of all jobs that ran, with a threshold of 10 s."""
    return mean(run.bounded_slowdowns)


@of_study(SHARE)
def broken_promises(run: MeasuredJobs) -> Figure:
    """Broken promises, of those given."""
    promised, broken = run.promises
    return run.share(broken.sum(), promised.sum())


# Promises: lateness, charges and risk


def _percentile(values: Floats, part: int) -> Figure:
    return float(np.percentile(values, part)) if len(values) else None


@of_promises("s")
def lateness_median(run: MeasuredJobs) -> Figure:
    """Median lateness of the promises whose jobs were too late."""
    return _percentile(run.lateness[0], 50)


@of_promises("s")
def lateness_p95(run: MeasuredJobs) -> Figure:
    """95th percentile of the same."""
    return _percentile(run.lateness[0], 95)


@of_promises(PERCENT)
def relative_lateness_median(run: MeasuredJobs) -> Figure:
    """Median lateness in % of the time from submission to promise."""
    return _percentile(run.lateness[1], 50)


@of_promises(PERCENT)
def relative_lateness_p95(run: MeasuredJobs) -> Figure:
    """95th percentile of the same."""
    return _percentile(run.lateness[1], 95)


@of_promises(SHARE)
def killed_at_walltime(run: MeasuredJobs) -> Figure:
    """Jobs that were killed at their walltime, of those that ran."""
    return run.share(float(np.sum(run.outcomes.at_walltime)), run.ran.sum())


@of_promises(SHARE)
def cut_short(run: MeasuredJobs) -> Figure:
    """Jobs that were killed at their walltime before their work was done, of those that ran."""
    return run.share(run.outcomes.cut_short.sum(), run.ran.sum())


@of_promises(SHARE)
def useful_utilization(run: MeasuredJobs) -> Figure:
    """Utilization by jobs whose work was done: neither lost runs nor killed jobs count."""
    outcomes = run.outcomes
    used = utilization(run)
    seconds = np.where(outcomes.refused, 0.0, outcomes.lasted * outcomes.processors)
    everything = float(seconds.sum()) + outcomes.lost_work
    return used and used * float(seconds[outcomes.work_done].sum()) / everything


@of_promises(SHARE)
def kept_charge(run: MeasuredJobs) -> Figure:
    """QoS charge of kept promises, of the charges of all deadlines asked for."""
    return None if run.charges is None else run.charge_share(run.charges, run.fates.kept)


@of_promises(SHARE)
def broken_charge(run: MeasuredJobs) -> Figure:
    """QoS charge of broken promises, which a penalty is a multiple of, of the same."""
    return None if run.charges is None else run.charge_share(run.charges, run.fates.broken)


@of_promises(SHARE)
def expected_risk(run: MeasuredJobs) -> Figure:
    """How often promises of a job's class (estimate × processors) were broken so far, in the mean
    over promises.
    """
    promised = run.fates.promised
    return run.whole * float(run.risks[promised].mean()) if promised.any() else None


@of_promises(SHARE)
def premium(run: MeasuredJobs) -> Figure:
    """Risk × charge of all promises, what is fair to ask for a penalty of one charge."""
    if run.charges is None:
        return None
    return run.charge_share(run.risks * run.charges, run.fates.promised)


@of_promises(PERCENT)
def income(run: MeasuredJobs) -> Figure:
    """Kept charge less broken charge."""
    kept = kept_charge(run)
    broken = broken_charge(run)
    return None if kept is None or broken is None else kept - broken


@of_promises(PERCENT)
def income_with_premium(run: MeasuredJobs) -> Figure:
    """Income plus the premiums that pay for the penalties of broken promises."""
    earned = income(run)
    paid = premium(run)
    return None if earned is None or paid is None else earned + paid


def measure_names(*groups: str) -> tuple[str, ...]:
    """Return the names of the measures of some groups, in the order of the table."""
    return tuple(each.name for each in MEASURES.values() if not set(groups).isdisjoint(each.groups))


if TYPE_CHECKING:

    class Measures(msgspec.Struct, frozen=True, kw_only=True):
        """Values of measures by name; UNSET, and not in JSON, are those of other groups."""

        def __init__(self, **values: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...
else:
    Measures = msgspec.defstruct(
        "Measures",
        [
            (name, get_type_hints(each.of)["return"] | msgspec.UnsetType, msgspec.UNSET)
            for name, each in MEASURES.items()
        ],
        frozen=True,
        kw_only=True,
        module=__name__,
        namespace={"__doc__": "Values of measures by name; UNSET are those of other groups."},
        repr_omit_defaults=True,
    )


def _measures(run: MeasuredRun, *groups: str) -> Measures:
    return Measures(**{name: MEASURES[name].of(run) for name in measure_names(*groups)})


def run_measures(
    result: RunResult,
    workloads: Mapping[str, Workload] | None = None,
    *,
    bounded_slowdown_threshold: float = BOUNDED_SLOWDOWN_THRESHOLD,
) -> Measures:
    """Return the measures of a run's files; O(n log n) in its jobs and their hosts.

    Parameters as for :class:`~qops_batsim.measures.metrics.measured.MeasuredFiles`.
    """
    return _measures(MeasuredFiles(result, workloads or {}, bounded_slowdown_threshold), FILES)


def study_measures(
    outcomes: JobOutcomes,
    hosts: int,
    references: References | None = None,
    slowdowns: SlowdownTable | None = None,
) -> Measures:
    """Return the measures of a run's outcomes, given a reference run those of promises as well;
    O(jobs), and × log(jobs) for these.

    Parameters as for :class:`~qops_batsim.measures.metrics.measured.MeasuredJobs`.
    """
    run = MeasuredJobs(outcomes, hosts, references, slowdowns)
    return _measures(run, STUDY, *(() if references is None else (PROMISES,)))


@takes(run=RUN, hosts=WHOLE.optional, bounded_slowdown_threshold=NUMBER)
def metrics(
    run: Run,
    *,
    hosts: int | None = None,
    bounded_slowdown_threshold: float = BOUNDED_SLOWDOWN_THRESHOLD,
) -> dict[str, Any]:
    """Return the metrics of a run by name, as ``qops-batsim metrics --json`` prints them.

    Parameters
    ----------
    run
        Prefix, directory or ``_jobs.csv`` of a run, or the run itself.
    hosts
        Number of hosts of the machine, if the files do not have it.
    bounded_slowdown_threshold
        Shorter run times count as this in the bounded slowdown (seconds).

    Returns
    -------
    dict
        Times in seconds, shares from 0 to 1; None where no job counts.

    Raises
    ------
    InputError
        If the run cannot be read.

    Examples
    --------
    >>> from qops_batsim import run
    >>> metrics(run("easy", "tiny_8", out="out/tiny"))["waiting_time"]["mean"]
    46.875
    """
    result = load_run(run, hosts=hosts)
    workloads, _ = workloads_with_deadlines(result)
    found = run_measures(result, workloads, bounded_slowdown_threshold=bounded_slowdown_threshold)
    values: dict[str, Any] = msgspec.to_builtins(found)
    return values
