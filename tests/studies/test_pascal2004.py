"""The reproduction of Pascal et al. (2004), on small logs and on made-up results."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qops_batsim import InputError, Job, Nqs, QosRequest
from qops_batsim.engine import JobRecord
from qops_batsim.engine.execution import Execution
from qops_batsim.experiments import StudyReport, sign_claim, whole_claims
from qops_batsim.experiments import pool as kept_module
from qops_batsim.jobs import QOS_CLASSES, REJECTED
from qops_batsim.protocol import make_scheduler
from qops_batsim.workload import Workload
from studies.pascal2004 import paper as pascal2004
from studies.pascal2004 import runs as pascal2004_runs
from studies.pascal2004.claims import _of_cases
from studies.pascal2004.claims import claims as judged
from studies.pascal2004.runs import (
    ClassMeasures,
    TrialMeasures,
    outcome_of,
    recorded_wait,
    run_trial,
    run_trials,
    table1,
    table2,
    trial_workload,
)
from studies.pascal2004.study import (
    ALL,
    FULL,
    MEASURED,
    ORIGINAL,
    QUICK,
    REBUILT,
    TABLE_1,
    TABLE_2,
    Study,
    Trial,
)
from studies.request import StudyRequest

QUEUES = ("express", "high", "normal", "low", "standby")
TINY = Study(sizes=(25,), dedicated_sizes=(15,), seeds=(1, 2), candidates=(0,))


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with two small logs of the same jobs: with all fields and with few."""
    directory = tmp_path_factory.mktemp("traces")
    drawn = random.Random(5)
    full, bare = [], []
    submitted = 0
    for number in range(1, 91):
        submitted += drawn.randint(0, 400)
        run, width = drawn.randint(10, 2_000), drawn.choice((1, 4, 16, 48))
        cpu = drawn.choice((-1, 0, run // 2, run))
        queue = drawn.randint(1, 5)
        if number == 7:
            run = -1
        known = f"{number} {submitted} 100 {run} {width} {cpu} -1 {width} 4000 -1 1 1 1 1 {queue}"
        full.append(f"{known} -1 -1 -1")
        if run > 0:
            few = f"{number} {submitted} -1 {run} {width} -1 -1 {width} 4000 -1 -1 1 -1 -1 -1"
            bare.append(f"{few} -1 -1 -1")
    names = [f"; Queue: {number} {name}" for number, name in enumerate(QUEUES, 1)]
    (directory / ORIGINAL).write_bytes(gzip.compress("\n".join([*names, *full, ""]).encode()))
    (directory / REBUILT).write_bytes(gzip.compress("\n".join([*bare, ""]).encode()))
    return directory


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def report(traces: Path, kept: Path) -> StudyReport:
    return pascal2004.run_with(TINY, StudyRequest(quick=True, traces=traces, out=kept))


def test_every_simulation_is_made_once() -> None:
    for study in (TINY, QUICK, FULL):
        trials = study.trials()
        assert len(set(trials)) == len(trials)
    firsts = {trial.first for trial in QUICK.trials()}
    assert firsts == {10_000, 5_000}
    assert {trial.log for trial in QUICK.trials()} == {REBUILT}
    # Seeds draw queues, but for the few jobs that have theirs; stretches share no job.
    skips = [trials["aroma"].skip for trials in FULL.waits_by_stretch()]
    assert skips == [5_000 * place for place in range(10)]
    assert {trial.skip for trial in TINY.trials()} == {0}
    seeds = {
        log: {trial.seed for trial in TINY.trials() if trial.log == log}
        for log in (ORIGINAL, REBUILT)
    }
    assert seeds == {ORIGINAL: {1}, REBUILT: {1, 2}}


def test_classes_and_queues_are_drawn_by_the_seed_of_a_trial(traces: Path) -> None:
    for scheduler, log in (("aroma", REBUILT), ("nqs", REBUILT)):
        drawn = []
        for seed in (1, 1, 2):
            trial = Trial(log=log, first=None, scheduler=scheduler, seed=seed)
            jobs = trial_workload(trial, traces / log).jobs
            drawn.append([(job.id, job.qos, job.fields.get("queue")) for job in jobs])
        assert drawn[0] == drawn[1] != drawn[2]


def test_the_report_is_whole(report: StudyReport) -> None:
    document = json.loads(json.dumps(report.document()))
    assert {"table1", "table2", "claims", "figures", "choices"} <= set(document)
    original, short, long = document["table1"]["rows"]
    assert [row["jobs"] for row in (original, short, long)] == [89, 15, 25]
    assert original["recorded"] == 100
    assert short["recorded"] is None
    assert all(row["nqs"] >= 0 and row["aroma"] >= 0 for row in (original, short, long))
    # The paper says nothing about 25 jobs.
    assert all(row["paper"] is None for row in (original, short, long))
    assert document["table1"]["recorded_waits"] == {
        "usable": 100,
        "usable_jobs": 89,
        "all": 100,
        "all_jobs": 90,
    }
    cases = document["table2"]["cases"]
    assert [case["case"] for case in cases] == [
        "case 1",
        "case 2",
        "real queues",
        "real queues",
        "real queues, CPU time field",
        "real queues, CPU time field",
        "real queues, tasks together",
        "real queues, tasks together",
    ]
    for case in cases:
        classes = [name for name in case["jobs"] if name != ALL]
        assert sum(case["jobs"][name] for name in classes) == case["jobs"][ALL]
        assert sum(case["rejected"][name] for name in classes) == case["rejected"][ALL]
        assert case["broken_promises"] == 0
        assert all(value >= 0 for value in case["mapping_ms"].values())
        for name in ("dedicated", "best_effort"):
            assert case["rejected"].get(name, 0) == 0
    assert cases[0]["seeds"] == 2
    for case in cases[:6]:
        # Tasks that progress apart are what the round-robin recurrence describes.
        assert case["prediction_error_s"]["max"] < 1e-6
    names = [claim.id for claim in report.claims]
    assert len(names) == len(set(names))
    for table in report.tables:
        assert all(len(row) == len(table.headings) for row in table.rows)


def test_kept_simulations_are_not_made_again(
    traces: Path, kept: Path, report: StudyReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(trial: Trial, path: Path) -> TrialMeasures:
        raise AssertionError(trial)

    monkeypatch.setattr(pascal2004_runs, "run_trial", fail)
    request = StudyRequest(quick=True, traces=traces, out=kept)
    assert pascal2004.run_with(TINY, request).document() == report.document()
    files = sorted((kept / "runs").iterdir())
    assert len(files) == len(TINY.trials())
    content = files[0].read_bytes()
    try:
        files[0].write_text("[")
        with pytest.raises(InputError, match=r"a kept run, or no file, is expected"):
            pascal2004.run_with(TINY, request)
    finally:
        files[0].write_bytes(content)
    monkeypatch.setattr(kept_module, "__version__", "0")
    with pytest.raises(AssertionError):
        pascal2004.run_with(TINY, request)


def test_simulations_repeat_but_for_the_clock(traces: Path, report: StudyReport) -> None:
    trial = Trial(log=ORIGINAL, first=None, scheduler="aroma", tasks="apart")
    first, second = (run_trial(trial, traces / ORIGINAL) for _ in range(2))
    assert without_clock(first) == without_clock(second)


def test_workers_do_not_matter(traces: Path) -> None:
    trials = [trial for trial in TINY.trials() if trial.scheduler != "aroma"][:3]
    logs = {name: traces / name for name in (ORIGINAL, REBUILT)}
    alone = run_trials(trials, logs, StudyRequest())
    seen: list[tuple[int, int]] = []
    request = StudyRequest(workers=2, on_progress=lambda *done: seen.append(done))
    several = run_trials(trials, logs, request)
    assert several == alone
    assert seen == [(1, 3), (2, 3), (3, 3)]


def without_clock(outcome: TrialMeasures) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(outcome)
    for group in plain["groups"].values():
        del group["mapping_ms"], group["mapping_p99_ms"]
    return plain


def test_each_scheduler_gets_the_jobs_it_needs(traces: Path) -> None:
    path = traces / ORIGINAL
    queues = trial_workload(Trial(log=ORIGINAL, first=5, scheduler="nqs"), path)
    assert all(job.walltime == 4000 and job.qos.queue in QUEUES for job in queues.jobs if job.qos)
    fair = trial_workload(Trial(log=ORIGINAL, first=5, scheduler="nqs", by_time=True), path)
    assert all(job.walltime == 4000 and job.qos is None for job in fair.jobs)
    exact = trial_workload(Trial(log=ORIGINAL, first=5, scheduler="conservative"), path)
    assert all(job.walltime is None for job in exact.jobs)
    trial = Trial(log=ORIGINAL, first=5, scheduler="aroma", cpu_time=MEASURED, tasks="apart")
    apart = trial_workload(trial, path)
    assert len(apart.jobs) == sum(job.processors for job in exact.jobs)
    assert apart.provenance["cpu_times"]["measured"] > 0


def test_an_application_counts_once() -> None:
    """Two tasks of one application, one of which was stopped, and a rejected job."""
    qos = QosRequest(service_class="deadline", application="a", estimated_runtime=10.0)
    alone = QosRequest(service_class="high_priority", estimated_runtime=5.0)
    jobs = [Job("a1", 100.0, 1, "p", qos=qos), Job("a2", 100.0, 1, "p", qos=qos)]
    jobs.append(Job("b", 86_500.0, 1, "p", qos=alone))
    workload = Workload(jobs=jobs, profiles={}, processors=2)
    ended = [
        ran("a1", 100, 102, 115, qos),
        ran("a2", 100, 104, 107, qos),
        ran("a2#1", 107, 110, 134, qos),
        ran("b", 86_500, None, None, alone),
    ]
    module = make_scheduler(Nqs())
    module.qos_log.record("w0!a2").admitted_deadline = 134.0
    outcome = outcome_of(workload, ended, module)
    nothing_measured = {"mapping_ms": None, "mapping_p99_ms": None}
    assert outcome.groups == {
        # From the start of the last task, at 104, to the end of the last, at 134.
        "deadline": ClassMeasures(jobs=1, rejected=0, wait=4.0, stretch=3.0, **nothing_measured),
        "high_priority": ClassMeasures(
            jobs=1, rejected=1, wait=None, stretch=None, **nothing_measured
        ),
        ALL: ClassMeasures(jobs=2, rejected=1, wait=4.0, stretch=3.0, **nothing_measured),
    }
    assert (outcome.days, outcome.stopped, outcome.broken) == (1.0, 1, 0)
    module.qos_log.record("w0!a2").admitted_deadline = 133.0
    assert outcome_of(workload, ended, module).broken == 1
    module.qos_log.record("w0!a2").admitted_deadline = None
    module.qos_log.record("w0!a2").latest_start = 103.0
    assert outcome_of(workload, ended, module).broken == 1


def ran(
    job_id: str, submitted: float, start: float | None, finish: float | None, qos: QosRequest
) -> JobRecord:
    record = JobRecord(Job(f"w0!{job_id}", submitted, 1, "p", qos=qos), Execution(()))
    record.state = REJECTED if start is None else "COMPLETED_SUCCESSFULLY"
    if start is not None and finish is not None:
        record.start, record.finish = start, finish
    return record


def test_numbers_of_the_paper_stand_beside_ours() -> None:
    study = Study(sizes=(10_000,), tasks_together=False)
    outcomes = {trial: made_up(trial) for trial in study.trials()}
    recorded = {"usable": 50.0, "usable_jobs": 2, "all": 60.0, "all_jobs": 3}
    rows = table1(outcomes, study, recorded)
    assert [row["paper_days"] for row in rows] == [None, 112.0]
    assert rows[1]["paper"]["aroma"] == TABLE_1[10_000]["aroma"] == 4008
    assert rows[1]["difference_percent"] == pytest.approx(
        {"nqs": -100 * (1 - 2_000 / 10_796), "aroma": -100 * (1 - 1_002 / 4_008)}
    )
    assert rows[0]["aroma_cpu_time_field"] == 1_002
    first, second, *others = table2(outcomes, study)
    assert first["paper"]["wait"] == TABLE_2[10_000, None]["wait"]
    assert first["difference_percent"]["wait"]["dedicated"] == pytest.approx(
        100 * (1_002 - 4_845) / 4_845
    )
    # Zero in the paper has no relative difference.
    assert "high_priority" not in first["difference_percent"]["rejected"]
    assert second["paper"]["wait"] == {ALL: 64.68}
    assert all(case["paper"] == {} for case in others)
    claims = {claim.id: claim for claim in judged(rows, [first, second, *others], [], {})}
    assert claims["shorter-waits-10000"].verdict == "too few to judge"
    assert claims["shorter-waits-10000"].value == pytest.approx(100 * (1_002 / 2_000 - 1))
    assert claims["shorter-waits-10000"].paper == pytest.approx(100 * (4_008 / 10_796 - 1))
    many = {
        "nqs_by_seed": [2_000.0] * 12,
        "fair_nqs_by_seed": [1_503.0] * 12,
        "aroma_by_seed": [1_002.0] * 12,
    }
    whole, shorter, *single = judged([rows[0], {**rows[1], **many}], [], [], {})
    # Single runs are shown as parts, and decide nothing.
    assert whole.parts == (
        *("shorter-waits-10000", "shorter-waits-10", "shorter-waits-than-recorded"),
    )
    assert (whole.verdict, shorter.verdict) == ("confirmed", "confirmed")
    found = {claim.id: claim for claim in single}
    assert found["shorter-waits-fair"].parts[0] == "shorter-waits-fair-10000"
    assert found.pop("shorter-waits-fair-10000").value == pytest.approx(-100 / 3)
    assert found.pop("shorter-waits-fair").verdict == "confirmed"
    assert {claim.verdict for claim in found.values()} == {"too few to judge"}
    worse = [rows[0], {**rows[1], **many, "aroma": 10_797.0}]
    _, doubtful, *_ = judged(worse, [], [], {})
    assert (doubtful.id, doubtful.verdict) == ("shorter-waits-10000", "undecided")
    assert claims["shorter-waits-than-recorded"].verdict == "too few to judge"
    assert claims["high-priority-case-1"].verdict == "contradicted"
    assert claims["high-priority-case-1"].value == 1
    assert claims["deadline-rejects-case-1"].value == pytest.approx(0.01)
    assert claims["deadline-rejects-case-1"].paper == pytest.approx(0.21)
    # True by construction, and about another computer: no number of ours decides them.
    for name in ("classes-cost-waits", "mapping-time"):
        assert (claims[name].verdict, claims[name].value) == ("untested", None)
        assert "no verdict, since" in claims[name].text
    own = {claim.id for claim in whole_claims(list(claims.values()), ours=False)}
    assert own == {
        *("shorter-waits", "guarantees", "dedicated-wait", "high-priority", "deadline-rejects"),
        *("classes-cost-waits", "mapping-time", "mapping-increases"),
    }
    assert claims["high-priority"].parts == ("high-priority-case-1",)
    assert claims["high-priority-real"].verdict == "contradicted"


@pytest.mark.parametrize(
    ("rejected", "verdict"), [(42, "confirmed"), (16, "contradicted"), (90, "contradicted")]
)
def test_a_share_of_rejects_can_be_another_one(rejected: int, verdict: str) -> None:
    """The paper rejects 21 of what are 5,000 here, 0.42 %; a factor of 2 to both sides."""
    share = 100.0 * rejected / 10_000
    case: dict[str, Any] = {
        "case": "case 1",
        "log": REBUILT,
        "paper": {},
        "jobs": {"deadline": 5_000},
        **dict.fromkeys(("cpu_time", "tasks"), ""),
        "broken_promises": 0,
        "by_seed": {
            "wait": dict.fromkeys(QOS_CLASSES, [1.0] * 12),
            "rejected": {name: [0] * 12 for name in QOS_CLASSES} | {"deadline": [rejected] * 12},
            "jobs": {"deadline": [10_000] * 12},
            "mapping_ms": {ALL: [1.0 + place / 10 for place in range(12)]},
        },
    }
    waits = dict.fromkeys(QOS_CLASSES, 1.0)
    case["paper"] = {"wait": waits, "rejected": {"deadline": 21, "high_priority": 0}}
    row = {"jobs": 10, "log": REBUILT, "paper": None, "recorded": None, "aroma": 1.0}
    row |= {f"{name}_by_seed": [1.0] * 12 for name in ("aroma", "nqs", "fair_nqs")}
    found = {claim.id: claim for claim in judged([row], [case, case], [], {})}
    claim = found["deadline-rejects-case-1"]
    assert claim.value == pytest.approx(share)
    assert claim.expected == pytest.approx((0.21, 0.84))
    assert found["deadline-rejects"].verdict == claim.verdict == verdict


def made_up(trial: Trial) -> TrialMeasures:
    wait = 2_000.0 if trial.scheduler == "nqs" else 1_002.0
    group = ClassMeasures(
        jobs=trial.first or 10,
        rejected=1,
        wait=wait,
        stretch=1.0,
        mapping_ms=2.0,
        mapping_p99_ms=3.0,
    )
    names = ("deadline", "high_priority", "dedicated", "best_effort", ALL)
    if trial.every is not None:
        names = (trial.every, ALL)
    return TrialMeasures(
        groups=dict.fromkeys(names, group), days=1.0, broken=0, stopped=0, prediction_error=None
    )


def test_a_few_hundred_jobs_of_the_real_log(shared: Path) -> None:
    path = shared / "traces" / ORIGINAL
    waits = {
        name: run_trial(trial, path).groups[ALL].wait
        for name, trial in {
            "nqs": Trial(log=ORIGINAL, first=300, scheduler="nqs"),
            "fair": Trial(log=ORIGINAL, first=300, scheduler="nqs", by_time=True),
            "aroma": Trial(log=ORIGINAL, first=300, scheduler="aroma", every="dedicated"),
        }.items()
    }
    assert waits["nqs"] is not None
    assert waits["aroma"] is not None
    assert 0 < waits["aroma"] < waits["nqs"]
    assert waits["fair"] not in (None, waits["nqs"])
    mixed = run_trial(Trial(log=ORIGINAL, first=300, scheduler="aroma", tasks="apart"), path)
    assert mixed.groups[ALL].jobs == 300
    assert mixed.broken == 0
    assert mixed.prediction_error is not None
    assert mixed.prediction_error["max"] < 1e-6
    assert mixed.groups["high_priority"].wait == 0
    assert mixed.groups["dedicated"].stretch == pytest.approx(1)


def test_waits_as_recorded(shared: Path) -> None:
    path = shared / "traces" / ORIGINAL
    usable, jobs = recorded_wait(path, usable_only=True)
    assert (round(usable, 2), jobs) == (7080.47, 4606)
    everything, jobs = recorded_wait(path, usable_only=False)
    assert (round(everything, 2), jobs) == (8070.09, 4961)


def test_a_missing_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{REBUILT}: not found in"):
        pascal2004.run(StudyRequest(quick=True, traces=tmp_path))


def test_where_all_cases_are_of_too_few_seeds_the_number_is_of_the_case_with_most() -> None:
    parts = [
        sign_claim(name, "", [value] * seeds, -1)
        for name, value, seeds in (("one", -1.0, 1), ("ten", -2.0, 10), ("three", -3.0, 3))
    ]
    whole, *shown = _of_cases("waits", "4.1", "they are shorter", parts)
    assert (whole.verdict, whole.value, whole.count) == ("too few to judge", -2.0, 10)
    assert {part.id for part in shown} == {*whole.parts} == {"one", "ten", "three"}
