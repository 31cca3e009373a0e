"""The same jobs through every road: figures of one name are one number.

The roads are ``run`` and ``metrics`` (from files), the columns of ``compare`` and of studies, the
scores of the benchmark, ``charges``, ``advise``, ``explain`` and, for the load, ``workload scale``.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qops_batsim import Job, compare, metrics, read_workload, run
from qops_batsim.advice.charge_report import charge_runs
from qops_batsim.advice.explain import explain_from_files
from qops_batsim.advice.trace_runs import _groups, add_up
from qops_batsim.cli.texts import fate_text
from qops_batsim.economics import ReferenceJob, category_slowdowns
from qops_batsim.experiments import DeadlineRuns, outcomes_of
from qops_batsim.experiments.scores import JobWorths, score_of
from qops_batsim.experiments.study import case_of
from qops_batsim.jobs import COMPLETED_KILLED
from qops_batsim.measures import JobOutcomes, Measures, fates, study_measures
from qops_batsim.measures.metrics.outcomes import outcomes_with_deadlines
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.running import Run
from qops_batsim.workload import Workload, scale_load, write_workload

PROCESSORS = 8
TOLERANCE = 1e-6
CARELESS = """
from qops_batsim import Easy


class Careless(Easy):
    '''It promises what was asked for, give or take half a microsecond, and a start at once.'''

    def arrived(self, job):
        super().arrived(job)
        if job.qos is None or job.qos.deadline is None:
            return
        record, last = self.manager.record(job), int(job.id[-1])
        record.admitted_deadline = job.qos.deadline + (last % 3 - 1) * 5e-7
        if last == 5:
            record.latest_start = job.submission_time


class Fickle(Careless):
    '''It refuses jobs that it has promised a deadline.'''

    def arrived(self, job):
        super().arrived(job)
        if job.id.endswith("7"):
            self.manager.reject(job, "changed its mind")
"""


def mixed_jobs(seed: int) -> Workload:
    """Return 50 jobs: without walltimes, killed at them, as long as they, too wide, without and
    with deadlines, artificial, hopeless, and missed by less than the tolerance.
    """
    rng = random.Random(seed)
    jobs, profiles = [], {}
    for number in range(50):
        submission = number * 20 + rng.choice([0, 0.25, 7])
        seconds = rng.choice([5, 60, 200.5])
        walltime = rng.choice([None, seconds, seconds / 2, 2 * seconds])
        qos: dict[str, Any] = {}
        if walltime is None:
            qos["estimated_runtime"] = rng.choice([1, 0.8]) * seconds
        if rng.random() < 0.8:
            late = rng.choice([0, -5e-7, 5e-7])
            qos["deadline"] = submission + seconds * rng.choice([0.4, 1, 1, 1.5, 20]) + late
            qos["has_user_deadline"] = rng.random() < 0.8
        fields = {"id": f"{number}", "subtime": submission, "res": rng.choice([1, 2, 3, 8, 8, 9])}
        fields |= {"profile": f"d{seconds}", "qos": qos}
        fields |= {} if walltime is None else {"walltime": walltime}
        profiles[f"d{seconds}"] = {"type": "delay", "delay": seconds}
        jobs.append(Job.from_fields(fields, where="a test"))
    return Workload(jobs=jobs, profiles=profiles, processors=PROCESSORS)


def in_study(jobs: Workload, scheduler: str, settings: Mapping[str, Any]) -> Studied:
    """Run jobs as ``compare`` and studies do."""
    module = make_scheduler(scheduler, dict(settings))
    outcomes, _ = outcomes_of(jobs, make_cluster(jobs.processors), module)
    rows = zip(jobs.columns.ids, jobs.work, jobs.columns.processors, strict=True)
    alone = {job: ReferenceJob(work / q, work / q, float(q)) for job, work, q in rows}
    table = category_slowdowns(alone.values())
    found = study_measures(outcomes, jobs.processors, alone, table)
    return Studied(outcomes, found, module)


class Studied:
    def __init__(self, outcomes: JobOutcomes, found: Measures, module: Any) -> None:
        self.outcomes, self.found, self.module = outcomes, found, module


SCHEDULERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("easy", {}),
    ("qops", {}),
    ("fqops", {"tolerance_factor": 3}),
    ("slack", {"on_overrun": "kill"}),
    ("fqops", {"kill_and_restart": True}),
    ("aroma", {}),
    ("slurm", {}),
    ("priced-queues", {}),
    ("careless.py:Careless", {}),
    ("careless.py:Fickle", {}),
)


@pytest.mark.parametrize(
    ("scheduler", "settings"), SCHEDULERS, ids=[f"{n}{s or ''}" for n, s in SCHEDULERS]
)
def test_every_road_tells_the_same(
    scheduler: str,
    settings: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("careless.py").write_text(CARELESS)
    for seed in range(1, 4):
        write_workload(mixed_jobs(seed), "jobs.json")
        done = run(scheduler, "jobs.json", settings=settings, out=f"run{seed}")
        jobs = read_workload("jobs.json")
        studied = in_study(jobs, scheduler, settings)
        _compare_metrics(done, studied)
        _compare_scores(done, studied, jobs)
        _compare_charges(done, studied)
        _compare_explanations(done)
        assert studied.found.offered_load == jobs.offered_load == scale_load(jobs, 1).offered_load


def _compare_metrics(done: Run, studied: Studied) -> None:
    told, found = metrics(done.prefix), studied.found
    assert told == done.metrics
    share = 100 / told["jobs_submitted"]
    ran = told["jobs_submitted"] - told["jobs_rejected"]
    assert found.unadmitted_jobs == pytest.approx(told["jobs_rejected"] * share)
    assert found.killed_at_walltime == pytest.approx(100 * told["jobs_walltime_killed"] / ran)
    assert found.kills == told["jobs_killed"] + told["runs_killed"]
    close = {"rel": 1e-6, "abs": 1e-6}
    assert found.utilization == pytest.approx(100 * told["utilization"], **close)
    assert found.wait == pytest.approx(told["waiting_time"]["mean"], **close)
    assert found.bounded_slowdown_of_all == pytest.approx(told["bounded_slowdown"]["mean"], **close)
    promises = told["promises"]
    if promises is None:
        assert found.broken_promises is None
    else:
        assert found.broken_promises == pytest.approx(100 * promises["broken"] / promises["given"])
    deadlines = {name: each["jobs"] for name, each in _tallies(told["deadlines"]).items()}
    assert found.deadline_jobs == deadlines["asked"] > 0
    assert deadlines["asked"] == sum(deadlines[name] for name in ("met", "missed", "refused"))
    assert deadlines["promised"] == deadlines["kept"] + deadlines["broken"]
    of_asked = 100 / deadlines["asked"]
    assert found.met_deadlines == pytest.approx(deadlines["met"] * of_asked)
    assert found.missed_deadlines == pytest.approx(deadlines["missed"] * of_asked)
    assert found.unadmitted_deadline_jobs == pytest.approx(deadlines["refused"] * of_asked)
    work = told["deadlines"]["refused"]["work"], told["deadlines"]["asked"]["work"]
    assert found.unadmitted_deadline_work == pytest.approx(100 * work[0] / work[1])


def _tallies(deadlines: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in deadlines.items() if name != "renewed"}


def _compare_scores(done: Run, studied: Studied, jobs: Workload) -> None:
    outcomes, count = studied.outcomes, done.measured.deadlines
    assert count is not None
    nothing = np.zeros(len(outcomes.ids), np.bool_)
    prices = JobWorths.__new__(JobWorths)
    prices.worth = dict.fromkeys(("jobs", "work", "charge"), outcomes.processors)
    prices.worth["jobs"] = np.ones(len(outcomes.ids))
    rows = zip(jobs.columns.ids, jobs.work, jobs.columns.processors, strict=True)
    prices.references = {job: ReferenceJob(work / q, work / q, float(q)) for job, work, q in rows}
    prices.table = category_slowdowns(prices.references.values())
    score = score_of(outcomes, PROCESSORS, prices, nothing)
    asked = 100 / count.asked.jobs
    assert score.met_jobs == pytest.approx(count.met.jobs * asked)
    assert score.promised_jobs == pytest.approx(count.promised.jobs * asked)
    assert score.kept_jobs == pytest.approx(count.kept.jobs * asked)
    if count.promised.jobs:
        assert score.not_kept == pytest.approx(100 * count.broken.jobs / count.promised.jobs)
    found = studied.found
    assert score.bounded_slowdown_of_others == found.bounded_slowdown_of_others
    assert score.wasted_work == found.wasted_work
    assert score.kept_charge == pytest.approx(found.kept_charge or 0.0)


def _compare_charges(done: Run, studied: Studied) -> None:
    outcomes = outcomes_with_deadlines(done.result, done.inputs.workloads)
    found = fates(outcomes)
    total = charge_runs(done.prefix).runs[0].report.total
    assert total.failed == found.failed.sum()
    assert total.kills == studied.found.kills
    paid = [each for each in charge_runs(done.prefix).runs[0].jobs if each.charge]
    for each in paid:
        place = outcomes.ids.index(each.id)
        assert each.charge is not None
        assert found.kept[place] or each.charge.qos == 0
    groups = add_up(_groups(studied.outcomes, ["a"] * len(outcomes.ids), studied.module).values())
    told = done.measured.deadlines
    assert told is not None
    assert (groups.jobs, groups.refused) == (told.asked.jobs, told.refused.jobs)
    assert groups.failed == (found.failed & ~outcomes.refused).sum()


def _compare_explanations(done: Run) -> None:
    outcomes = outcomes_with_deadlines(done.result, done.inputs.workloads)
    found = fates(outcomes, done.result.grace)
    for place in np.flatnonzero(outcomes.of_user)[::5].tolist():
        name = outcomes.ids[place]
        runs = [each for each in done.result.ids if each.partition("#")[0] == name]
        told = explain_from_files(done.prefix, runs[-1])
        killed = told.state == COMPLETED_KILLED
        text = fate_text(told.lateness, grace=told.grace, refused=told.start is None, killed=killed)
        assert text.startswith("met") == bool(found.met[place]), (name, text)


def test_a_job_as_long_as_its_walltime_is_killed_and_its_promise_kept(tmp_path: Path) -> None:
    # processors
    #  2 |aaaa|cc|      a: delay 4 = walltime    b: delay 6, walltime 3: cut short
    #  1 |bbb  |        c: delay 2, walltime 5   deadlines: 9 each
    #     0   4  6
    jobs, profiles = [], {}
    for name, submission, seconds, walltime in (("a", 0, 4, 4), ("b", 0, 6, 3), ("c", 4, 2, 5)):
        profiles[name] = {"type": "delay", "delay": seconds}
        fields = {"id": name, "subtime": submission, "res": 1, "profile": name}
        fields |= {"walltime": walltime, "qos": {"deadline": 9}}
        jobs.append(Job.from_fields(fields, where="a test"))
    made = Workload(jobs=jobs, profiles=profiles, processors=2)
    write_workload(made, tmp_path / "w.json")
    done = run("qops", tmp_path / "w.json", out=tmp_path / "run")
    told, found = done.metrics, promise_metrics_of(made)
    assert told["jobs_walltime_killed"] == 2
    assert found.killed_at_walltime == pytest.approx(200 / 3)
    assert found.cut_short == pytest.approx(100 / 3)
    assert told["promises"] == {"given": 3, "broken": 1}
    assert told["deadlines"]["broken"] == {"jobs": 1, "work": 3.0}
    assert told["deadlines"]["met"]["jobs"] == 3
    assert found.broken_promises == pytest.approx(100 / 3)
    assert found.met_deadlines == 100
    # 4 + 3 + 2 processor-seconds on 2 processors in the 4 s from first to last submission.
    assert found.offered_load == made.offered_load == pytest.approx(9 / 8)


def promise_metrics_of(jobs: Workload) -> Measures:
    return in_study(jobs, "qops", {}).found


def test_compare_tells_what_run_tells_of_its_workload(tmp_path: Path) -> None:
    log = mixed_jobs(4)
    rows = [
        Job.from_fields({**job.fields, "qos": {}}, where="a test")
        for job in log.jobs
        if job.processors <= PROCESSORS
    ]
    log = Workload(jobs=rows, profiles=log.profiles, processors=PROCESSORS)
    write_workload(log, tmp_path / "log.json")
    read = read_workload(tmp_path / "log.json")
    found = compare(["qops", "easy"], tmp_path / "log.json", loads=[1.3], seeds=1)
    known = found.description.identities
    (name,) = known.logs.values()
    made = DeadlineRuns({name: read}).workload(
        case_of(found.study, found.outcomes[0].cell, known).scenario
    )
    assert made.offered_load == pytest.approx(scale_load(read, 1.3, seed=1).offered_load)
    for each in found.outcomes:
        columns = each.metrics
        assert isinstance(columns, Measures)
        assert columns.offered_load == pytest.approx(made.offered_load)
        told = run(each.cell.contestant, made, out=tmp_path / "run").metrics
        ran = told["jobs_submitted"] - told["jobs_rejected"]
        assert columns.killed_at_walltime == pytest.approx(100 * told["jobs_walltime_killed"] / ran)
        asked = told["deadlines"]["asked"]["jobs"]
        assert columns.met_deadlines == pytest.approx(
            100 * told["deadlines"]["met"]["jobs"] / asked
        )
        if told["promises"] is not None:
            share = 100 * told["promises"]["broken"] / told["promises"]["given"]
            assert columns.broken_promises == pytest.approx(share)
