"""Simulations of Pascal et al. (2004), and Tables 1 and 2 as plain values."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from qops_batsim import Job, read_swf, simulate
from qops_batsim.engine.records import JobRecord
from qops_batsim.jobs import REJECTED
from qops_batsim.measures import original_id
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import SchedulerModule
from qops_batsim.protocol.port import make_scheduler
from qops_batsim.schedulers.aroma.aroma_scheduler import Aroma, AromaOptions
from qops_batsim.schedulers.registry import read_options, scheduler_class
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload import (
    QOS_CLASSES,
    TOGETHER,
    ClassChoices,
    LogFacts,
    Repairs,
    SwfLog,
    Workload,
    application_of,
    assign_classes,
    convert_log,
    exact_estimates,
    name_queues,
)
from studies.pascal2004.study import (
    ALL,
    DAYS,
    MEASURED,
    MEASURED_TRIAL,
    ORIGINAL,
    QUANTITIES,
    REBUILT,
    TABLE_1,
    TABLE_2,
    Study,
    Trial,
    trials_of_waits,
)
from studies.request import StudyRequest
from studies.run_table import RunTable
from studies.shared import relative_difference

if TYPE_CHECKING:
    from qops_batsim.schedulers.aroma.application import Application


HOSTS = 128
SPEED = 100e6
"""Of every host (flop/s); it cancels out, since work is given in CPU time."""

SETTINGS = {"conservative": {"reserve": "processors"}}
"""Options of schedulers that are not their defaults."""


class ClassMeasures(msgspec.Struct, frozen=True, kw_only=True):
    """Measures of the applications of one class, or of all: jobs of the log.

    Means of those that started: ``wait``, from submission to the start of the last task (s),
    and ``stretch``, (end - start) / CPU time: by how much sharing hosts slows them. Processor
    times that it took to map one (ms): mean and 99th percentile.
    """

    jobs: int
    rejected: int
    wait: float | None
    stretch: float | None
    mapping_ms: float | None
    mapping_p99_ms: float | None


class TrialMeasures(msgspec.Struct, frozen=True, kw_only=True):
    """Measures of a trial.

    ``groups`` are by class, and :data:`~.study.ALL`; ``days`` from the first submission to the
    last; ``broken`` are accepted applications that ended after their deadline or started after
    their latest start; ``stopped`` counts stops of jobs that went on later, where a task that
    is a job of its own counts by itself.

    ``prediction_error`` is how far predicted ends are from those that the engine simulates (s),
    if the scheduler predicts them: ``mean`` and ``max`` of the prediction when the last thing
    happened before the end; ``first_mean`` and ``first_max`` of that at the mapping, which
    later jobs on the same hosts change: no error of the model.
    """

    groups: dict[str, ClassMeasures]
    days: float
    broken: int
    stopped: int
    prediction_error: dict[str, float] | None


class TimedAroma(Aroma):
    """AROMA with a watch: ``seconds`` are the processor times of mappings by full job id."""

    def __init__(self, options: AromaOptions | None = None) -> None:
        super().__init__(options)
        self.seconds: dict[str, float] = {}

    def map_application(self, application: Application) -> bool:
        """Map an application and note how long that takes."""
        begin = time.thread_time()
        mapped = super().map_application(application)
        self.seconds[application.job.id] = time.thread_time() - begin
        return mapped


@cache
def read_log(path: Path) -> SwfLog:
    """Return a log; the second time without reading it again."""
    return read_swf(path)


def delay_workload(path: Path, first: int | None, skip: int = 0) -> Workload:
    """Return the first usable jobs behind some, each with its walltime, never longer than that."""
    repairs = Repairs(overrun="clip")
    return convert_log(
        read_log(path), processors=HOSTS, repairs=repairs, skip=skip, first=first
    ).workload


def trial_workload(trial: Trial, path: Path) -> Workload:
    """Return the workload of a trial.

    NQS gets jobs that last, with their requested times and queues; a scheduler of
    classes gets jobs that compute; any other gets jobs that last, with exact estimates.
    """
    choices = ClassChoices(every=trial.every, seed=trial.seed, speed=SPEED, tasks=trial.tasks)
    facts = LogFacts.of(read_log(path))
    jobs = delay_workload(path, trial.first, trial.skip)
    if trial.scheduler == "nqs":
        return jobs if trial.by_time else name_queues(jobs, choices, facts)
    if trial.scheduler != "aroma":
        return exact_estimates(jobs)
    cpu_times = facts.cpu_times if trial.cpu_time == MEASURED else None
    return assign_classes(jobs, choices, facts, cpu_times=cpu_times)


def run_trial(trial: Trial, path: Path) -> TrialMeasures:
    """Simulate a trial on the jobs of its log, and measure."""
    workload = trial_workload(trial, path)
    kind = TimedAroma if trial.scheduler == "aroma" else scheduler_class(trial.scheduler)
    settings: dict[str, Any] = dict(SETTINGS.get(trial.scheduler, {}))
    if trial.by_time:
        settings["time_limits"] = sorted({job.walltime or job.estimate for job in workload.jobs})
    if trial.candidates is not None:
        settings |= {"moves": trial.candidates, "stops": trial.candidates}
    module = make_scheduler(kind(read_options(trial.scheduler, kind, settings)))
    simulation = simulate(module, workload, make_cluster(HOSTS, speed=SPEED))
    return outcome_of(workload, simulation.ended, module)


class _Application:
    """Records of the jobs of one application."""

    def __init__(self, records: list[JobRecord], end: float) -> None:
        self.records = records
        self.rejected = any(record.state == REJECTED for record in records)
        self.submission_time = records[0].submission_time
        # It is there as a whole once its last task has started.
        self.start = max(record.start for record in records)
        self.requested = max(record.job.estimate for record in records)
        self.end = end


def outcome_of(
    workload: Workload, ended: Iterable[JobRecord], module: SchedulerModule
) -> TrialMeasures:
    """Return the measures of a simulation that is over."""
    ended = list(ended)
    records = {record.local_id: record for record in ended}
    ends = _ends(ended, {job.id for job in workload.jobs})
    parts: dict[str, list[Job]] = {}
    for job in workload.jobs:
        parts.setdefault(application_of(job), []).append(job)
    members: dict[str, list[_Application]] = {name: [] for name in (*QOS_CLASSES, ALL)}
    broken = 0
    for jobs in parts.values():
        qos = jobs[0].qos
        service = None if qos is None else qos.service_class
        end = max(ends[job.id] for job in jobs)
        application = _Application([records[job.id] for job in jobs], end)
        broken += _is_broken(application, module)
        members[ALL].append(application)
        if service is not None:
            members[service].append(application)
    scheduler = module.scheduler
    seconds = scheduler.seconds if isinstance(scheduler, TimedAroma) else {}
    dates = [job.submission_time for job in workload.jobs]
    return TrialMeasures(
        groups={name: _group(part, seconds) for name, part in members.items() if part},
        days=(max(dates) - min(dates)) / 86_400,
        broken=broken,
        stopped=len(records) - len(workload.jobs),
        prediction_error=_prediction_error(scheduler) if isinstance(scheduler, Aroma) else None,
    )


def _ends(ended: Iterable[JobRecord], ids: set[str]) -> dict[str, float]:
    """Return the end of each job (s): of the runs of a stopped job, that of the last."""
    ends: dict[str, float] = {}
    for record in ended:
        origin = original_id(record.local_id, ids)
        if origin is not None:
            ends[origin] = max(record.finish, ends.get(origin, -math.inf))
    return ends


def _group(applications: Sequence[_Application], seconds: Mapping[str, float]) -> ClassMeasures:
    started = [each for each in applications if not each.rejected]
    ids = [record.job.id for each in applications for record in each.records]
    measured = [seconds[job_id] for job_id in ids if job_id in seconds]
    limited = [each for each in started if math.isfinite(each.requested)]
    lasted = [(each.end - each.start) / each.requested for each in limited]
    return ClassMeasures(
        jobs=len(applications),
        rejected=len(applications) - len(started),
        wait=mean([each.start - each.submission_time for each in started]),
        stretch=mean(lasted),
        mapping_ms=mean([1e3 * each for each in measured]),
        mapping_p99_ms=1e3 * float(np.percentile(measured, 99)) if measured else None,
    )


def _is_broken(application: _Application, module: SchedulerModule) -> bool:
    """Tell whether a promise to an application that was not rejected was broken."""
    if application.rejected:
        return False
    for record in application.records:
        promised = module.qos_log.record(record.job.id)
        deadline, latest = promised.admitted_deadline, promised.latest_start
        if deadline is not None and application.end > deadline + PLAN_TOLERANCE:
            return True
        if latest is not None and record.start > latest + PLAN_TOLERANCE:
            return True
    return False


def _prediction_error(scheduler: Aroma) -> dict[str, float] | None:
    known = [each for each in scheduler.predictions.values() if math.isfinite(each.end)]
    found: dict[str, float] = {}
    for which, name in (("", "last"), ("first_", "first")):
        errors = [abs(getattr(each, name) - each.end) for each in known]
        if errors:
            found |= {f"{which}mean": math.fsum(errors) / len(errors), f"{which}max": max(errors)}
    return found or None


def _run_on_its_log(logs: Mapping[str, Path], trial: Trial) -> TrialMeasures:
    return run_trial(trial, logs[trial.log])


def run_trials(trials: Sequence[Trial], logs: Mapping[str, Path], request: StudyRequest) -> Results:
    """Make trials on logs.

    Schedules do not depend on the number of processes; measured times of mapping do.
    """
    made_of = {name: read_log(path).sha256 for name, path in logs.items()}
    return request.run(partial(_run_on_its_log, logs), trials, TrialMeasures, made_of)


def recorded_wait(path: Path, *, usable_only: bool) -> tuple[float, int]:
    """Return the mean recorded wait (s) of a log's jobs and their number.

    ``usable_only`` counts only jobs that ran and are simulated; else all with a wait count,
    cancelled ones included.
    """
    waits = LogFacts.of(read_log(path)).waits
    ids = [job.id for job in delay_workload(path, None).jobs] if usable_only else list(waits)
    counted = [waits[each] for each in ids if each in waits]
    return (math.fsum(counted) / len(counted) if counted else math.nan), len(counted)


Results = RunTable[Trial, TrialMeasures]
TableRows = Sequence[Mapping[str, Any]]


def table1(results: Results, study: Study, recorded: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of Table 1: mean waits (s) of the same jobs under each scheduler.

    ``recorded["usable"]`` is the mean recorded wait of the original log's usable jobs.
    """
    rows: list[dict[str, Any]] = []
    for log, first in sorted(study.places(), key=lambda place: place[1] or 0):
        seeds = study.seeds_of(log, first)
        trials = [trials_of_waits(log, first, seed) for seed in seeds]
        # What no seed draws is one run, and one number.
        runs = {
            name: [results[each] for each in dict.fromkeys(each[name] for each in trials)]
            for name in trials[0]
        }
        waits = {name: [run.groups[ALL].wait for run in found] for name, found in runs.items()}
        row: dict[str, Any] = {
            "log": log,
            "jobs": runs["aroma"][0].groups[ALL].jobs,
            "days": runs["aroma"][0].days,
            "paper_days": DAYS.get(first or 0),
            "recorded": recorded["usable"] if log == ORIGINAL else None,
            "nqs": mean(waits["nqs"]),
            "nqs_by_seed": waits["nqs"],
            "fair_nqs_by_seed": waits["fair_nqs"],
            "aroma": mean(waits["aroma"]),
            "aroma_by_seed": waits["aroma"],
            "aroma_cpu_time_field": None,
            "conservative": mean(waits["conservative"]),
        }
        if log == ORIGINAL:
            row["aroma_cpu_time_field"] = results[MEASURED_TRIAL].groups[ALL].wait
        row["aroma_to_nqs"] = row["aroma"] / row["nqs"] if row["nqs"] else None
        told = TABLE_1.get(first or 0)
        row["paper"] = told and {**told, "aroma_to_nqs": told["aroma"] / told["nqs"]}
        row["difference_percent"] = told and {
            name: relative_difference(row[name], told[name]) for name in ("nqs", "aroma")
        }
        rows.append(row)
    return rows


def waits_by_stretch(results: Results, study: Study) -> dict[str, list[float]]:
    """Return the mean wait (s) by scheduler and stretch."""
    found: dict[str, list[float]] = {}
    for trials in study.waits_by_stretch():
        for name, trial in trials.items():
            found.setdefault(name, []).append(results[trial].groups[ALL].wait or 0.0)
    return found


def table2(results: Results, study: Study) -> list[dict[str, Any]]:
    """Return the cases of Table 2: every quantity by class, the means over seeds and by seed."""
    cases = []
    for number, case in enumerate(study.cases(), 1):
        found = _case(case, [results[trial] for trial in study.trials_of(case)])
        name = f"case {number}" if case.log == REBUILT else "real queues"
        field = ", CPU time field" if case.cpu_time == MEASURED else ""
        together = ", tasks together" if case.tasks == TOGETHER else ""
        cases.append({"case": f"{name}{field}{together}", **found})
    return cases


def candidates(results: Results, study: Study) -> list[dict[str, Any]]:
    """Return the measures by the number of candidates for fall-backs, in the paper's first case."""
    rows = []
    for number, trials in study.trials_by_candidates().items():
        found = _case(trials[0], [results[trial] for trial in trials])
        by_seed = found["by_seed"]
        rows.append(
            {
                "candidates": number,
                "deadline_rejects": by_seed["rejected"]["deadline"],
                "deadline_rejects_percent": rejected_percent(found),
                "high_priority_rejects": by_seed["rejected"]["high_priority"],
                "wait": by_seed["wait"][ALL],
                "mapping_ms": by_seed["mapping_ms"][ALL],
                "mapping_p99_ms": by_seed["mapping_p99_ms"][ALL],
                "broken_promises": found["broken_promises"],
            }
        )
    return rows


def rejected_percent(case: Mapping[str, Any]) -> list[float]:
    """Return the share of the deadline applications that are rejected, by seed."""
    rejected, jobs = (case["by_seed"][name]["deadline"] for name in ("rejected", "jobs"))
    return [100.0 * part / whole for part, whole in zip(rejected, jobs, strict=True)]


def _case(case: Trial, runs: Sequence[TrialMeasures]) -> dict[str, Any]:
    names = [name for name in (*QOS_CLASSES, ALL) if all(name in run.groups for run in runs)]
    told = TABLE_2.get((case.first or 0, case.every), {})
    errors = [run.prediction_error for run in runs if run.prediction_error is not None]
    found: dict[str, Any] = {
        "log": case.log,
        "queues": "drawn" if case.log == REBUILT else "of the log",
        "classes": case.every or "by queue",
        "cpu_time": case.cpu_time,
        "tasks": case.tasks,
        "seeds": len(runs),
    }
    found["by_seed"] = {
        quantity: {name: [getattr(run.groups[name], quantity) for run in runs] for name in names}
        for quantity in ("jobs", *QUANTITIES, "mapping_p99_ms", "stretch")
    }
    for quantity, by_name in found["by_seed"].items():
        found[quantity] = {name: mean(values) for name, values in by_name.items()}
    found["paper"] = {quantity: dict(numbers) for quantity, numbers in told.items()}
    found["difference_percent"] = {
        quantity: {
            name: relative_difference(found[quantity][name], number)
            for name, number in numbers.items()
            if number and found[quantity].get(name) is not None
        }
        for quantity, numbers in told.items()
    }
    found["broken_promises"] = sum(run.broken for run in runs)
    found["stopped"] = mean([float(run.stopped) for run in runs])
    found["prediction_error_s"] = error_s = {}
    for which in ("", "first_"):
        error_s[f"{which}mean"] = mean([error[f"{which}mean"] for error in errors])
        error_s[f"{which}max"] = max((error[f"{which}max"] for error in errors), default=None)
    return found


def mean(values: Sequence[float | int | None]) -> float | None:
    """Return the mean of what is known, or None."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
