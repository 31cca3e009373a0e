"""What the jobs of a run pay."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from qops_batsim import InputError, Job, QosRequest, read_run, read_workload, simulate
from qops_batsim.economics import Charge, Prices, ReferenceJob, category_slowdowns
from qops_batsim.economics.charges import ServedJob
from qops_batsim.experiments.deadline_workload import deadline_workload
from qops_batsim.measures import (
    charge_jobs,
    charge_report,
    find_run,
    outcomes_of_run,
    outcomes_of_simulation,
)
from qops_batsim.measures.metrics.charge_totals import (
    JobCharge,
    fill_qos_file,
    reference_of_run,
    reference_of_workload,
)
from qops_batsim.measures.results.run_files import RunFiles
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.running import write_run
from qops_batsim.running.reference import easy_response_times
from qops_batsim.shipped import find_input
from qops_batsim.workload import DeadlineChoices, Workload, delay_profile
from support.ended_runs import ended_columns
from support.qos_files import by_workload


def priced(qos_charge: float, penalty: float = 1.0) -> Prices:
    """Prices with which a processor-second costs 1."""
    return Prices(currency="core-s", core_hour=3600.0, qos_charge=qos_charge, penalty=penalty)


def job(job_id: str, submission: float, size: int, run_time: float, **qos: object) -> Job:
    asked = QosRequest(estimated_runtime=run_time, **qos)  # type: ignore[arg-type]
    return Job(job_id, submission, size, delay_profile(run_time)[0], qos=asked)


def workload_of(*jobs: Job) -> Workload:
    profiles = dict(delay_profile(float(each.profile.removeprefix("delay"))) for each in jobs)
    return Workload(jobs=list(jobs), profiles=profiles, processors=4, source="jobs.json")


@pytest.fixture
def workload() -> Workload:
    """Jobs of which 1, 2 and 4 have a user's deadline, 3 an artificial one, 5 none."""
    return workload_of(
        job("1", 0, 2, 100, deadline=200),
        job("2", 0, 4, 1000, deadline=1500),
        job("3", 10, 1, 50, deadline=86410, has_user_deadline=False),
        job("4", 20, 4, 100, deadline=130),
        job("5", 30, 1, 20),
    )


# hosts  0         300                1300
#   0-1  |.. 1 ..|  |........ 2 .......|      1: 0-100 and killed at 60 in the second case
#   2    |3  |5|    |                  |
QOS = (
    "job_id,requested_deadline,offered_deadline,decision,reason,admitted_deadline,category,"
    "resource_charge,qos_charge,kills,latest_start\n"
)


def make_run(write_run, killed: bool = False) -> Path:
    ran = write_run.ran
    jobs = [
        ran("1", 0, 2, 0, 100, [0, 1]),
        ran("2", 0, 4, 300, 1000, [0, 1, 2, 3]),
        ran("3", 10, 1, 10, 50, [2]),
        ran("4", 20, 4),
        ran("5", 30, 1, 60, 20, [2]),
    ]
    promises = {"1": "200.000000", "2": "1500.000000", "3": "86410.000000"}
    if killed:
        jobs[0] = ran("1", 0, 2, 0, 60, [0, 1], state="COMPLETED_KILLED")
        jobs.append(ran("1#1", 60, 2, 61, 30, [0, 1], state="COMPLETED_KILLED"))
        jobs.append(ran("1#2", 91, 2, 95, 100, [0, 1]))
    prefix: Path = write_run(jobs, hosts=4)
    lines = [
        f"w0!{each.id},,,{'rejected' if each.hosts is None else 'accepted'},,"
        f"{promises.get(each.id, '')},,,,0,\n"
        for each in jobs
    ]
    Path(f"{prefix}_qos.csv").write_text(by_workload(QOS + "".join(lines)))
    return prefix


REFERENCE = {
    "w0!1": ReferenceJob(100, 300, 2),
    "w0!2": ReferenceJob(1000, 4000, 4),
    "w0!3": ReferenceJob(50, 50, 1),
    "w0!4": ReferenceJob(100, 500, 4),
    "w0!5": ReferenceJob(20, 20, 1),
}
# very-short-narrow: (3 + 5) / 2; short-narrow: 4; very-short-sequential: 1.
TABLE = category_slowdowns(REFERENCE.values())


def charged_of(prefix: Path, workload: Workload) -> dict[str, JobCharge]:
    outcomes = outcomes_of_run(read_run(prefix), {"w0": workload})
    return {each.id: each for each in charge_jobs(outcomes, REFERENCE, TABLE)}


def test_a_run_by_hand(write_run, workload: Workload) -> None:
    charged = charged_of(make_run(write_run), workload)
    assert {name: each.charge for name, each in charged.items()} == {
        # Obtained slowdown 200 / 100, category 4.
        "w0!1": Charge(resource=200.0, qos=2.0),
        # 1500 / 1000, category 4.
        "w0!2": Charge(resource=4000.0, qos=4 / 1.5),
        # An artificial deadline and none at all: only resources.
        "w0!3": Charge(resource=50.0),
        "w0!4": None,
        "w0!5": Charge(resource=20.0),
    }
    assert charged["w0!4"].category == "very-short-narrow"


def test_a_missed_deadline_brings_nothing_and_costs_its_charge(write_run, workload) -> None:
    """Job 1 was promised 200 and ends at 100, 2 was promised 1500 and ends at 1300."""
    outcomes = outcomes_of_run(read_run(make_run(write_run)), {"w0": workload})
    broken = replace(outcomes, promised=np.array([90.0, math.nan, 20.0, math.nan, math.nan]))
    asked = replace(broken, deadline=np.array([200.0, 1200.0, 20.0, 130.0, math.nan]))
    one, two, artificial, refused, other = charge_jobs(asked, REFERENCE, TABLE)
    assert (one.charge, one.penalty) == (Charge(resource=200.0), 4 / 0.9)
    # Nobody promised it, and it was missed all the same.
    assert (two.charge, two.penalty) == (Charge(resource=4000.0), 4 / 1.2)
    assert [each.penalty for each in (artificial, refused, other)] == [None, None, None]
    assert charge_jobs(asked, REFERENCE, TABLE, grace=10.0)[0].penalty is None
    report = charge_report([one, two], TABLE, priced(9.0, penalty=2.0))
    assert (report.total.failed, report.total.penalty) == (2, 4 / 0.9 + 4 / 1.2)
    assert report.profit == pytest.approx(4200 - 9 * 2 * (4 / 0.9 + 4 / 1.2))
    with pytest.raises(InputError, match="penalty is -1; a number from 0 up is accepted"):
        charge_report([one], TABLE, Prices(penalty=-1.0))


def test_a_killed_job_is_charged_once_and_its_lost_work_is_not(write_run, workload) -> None:
    prefix = make_run(write_run, killed=True)
    charged = charged_of(prefix, workload)
    assert charged["w0!1"].charge == Charge(resource=200.0, qos=2.0)
    assert (charged["w0!1"].kills, charged["w0!1"].wasted) == (2, 2 * (60 + 30))
    assert outcomes_of_run(read_run(prefix), {"w0": workload}).submission[0] == 0.0
    assert set(charged) == {f"w0!{number}" for number in range(1, 6)}


def test_a_job_that_never_ends_by_itself_pays_nothing() -> None:
    ended = ended_columns([("1", 0.0, 7.0, "COMPLETED_KILLED")])
    outcomes = outcomes_of_simulation(ended, workload_of(job("1", 0, 3, 100)))
    (charged,) = charge_jobs(outcomes, {"1": ReferenceJob(100, 300, 3)}, TABLE)
    assert charged.charge is None
    report = charge_report([charged], TABLE)
    assert report.total.wasted_work == 21.0
    assert report.total.charged_jobs == 0


def test_the_report_adds_up(write_run, workload: Workload) -> None:
    charged = charged_of(make_run(write_run, killed=True), workload)
    report = charge_report(list(charged.values()), TABLE, priced(30.0))
    assert report.total.jobs == 5
    assert report.total.charged_jobs == 4
    assert report.total.charged_work == report.total.charge.resource == 4270.0
    assert report.total.charge.qos == pytest.approx(2 + 4 / 1.5)
    assert report.profit == pytest.approx(4270 + 30 * (2 + 4 / 1.5))
    by_name = {each.category: each for each in report.categories}
    narrow = by_name["very-short-narrow"]
    assert (narrow.slowdown, narrow.jobs, narrow.charged_jobs) == (4.0, 2, 1)
    assert (narrow.kills, narrow.wasted_work) == (2, 180.0)
    assert by_name["long-wide"].slowdown is None
    assert len(report.categories) == 16
    for name in ("jobs", "charged_jobs", "charged_work", "kills", "wasted_work"):
        assert sum(getattr(each, name) for each in report.categories) == getattr(report.total, name)


def test_another_price(write_run, workload: Workload) -> None:
    def by_the_hour(job: ServedJob) -> Charge:
        return Charge(resource=job.run_time / 3600, qos=1.0 if job.obtained_slowdown else 0.0)

    outcomes = outcomes_of_run(read_run(make_run(write_run)), {"w0": workload})
    report = charge_report(charge_jobs(outcomes, REFERENCE, TABLE, by_the_hour), TABLE)
    assert report.total.charge.qos == 2.0
    assert report.total.charge.resource == pytest.approx(1170 / 3600)
    # Work is work, whatever it costs.
    assert report.total.charged_work == 4270.0


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Charge(resource=float("nan")), "charges job 'w0!1' NaN.*finite"),
        (Charge(qos=float("inf")), "finite numbers"),
        (3.0, "returns a value of type float for job 'w0!1'; a qops_batsim.economics.Charge"),
    ],
)
def test_prices_that_are_none(write_run, workload, answer: object, message: str) -> None:
    outcomes = outcomes_of_run(read_run(make_run(write_run)), {"w0": workload})
    with pytest.raises(InputError, match=message):
        charge_jobs(outcomes, REFERENCE, TABLE, lambda job: answer)  # type: ignore[arg-type,return-value]


def test_a_job_must_be_in_the_reference_run(write_run, workload: Workload) -> None:
    outcomes = outcomes_of_run(read_run(make_run(write_run)), {"w0": workload})
    with pytest.raises(InputError, match="'w0!1' is not in the reference run"):
        charge_jobs(outcomes, {}, TABLE)


def test_a_run_of_another_workload_is_refused(write_run, workload: Workload) -> None:
    run = read_run(make_run(write_run))
    with pytest.raises(InputError, match="job 'w0!2' is in none of the given workloads"):
        outcomes_of_run(run, {"w0": workload_of(workload.jobs[0])})


def test_a_run_without_promises_is_refused(write_run, workload: Workload) -> None:
    run = read_run(write_run([write_run.ran("1", 0, 2, 0, 100, [0, 1])], hosts=4))
    with pytest.raises(InputError, match="no _qos.csv"):
        outcomes_of_run(run, {"w0": workload})


def filled(prefix: Path) -> dict[str, dict[str, str]]:
    with open(f"{prefix}_qos.csv") as stream:
        return {f"w0!{row['job_id']}": row for row in csv.DictReader(stream)}


def test_the_columns_are_filled_and_nothing_else(write_run, workload: Workload) -> None:
    prefix = make_run(write_run, killed=True)
    before = filled(prefix)
    charged = charged_of(prefix, workload)
    path = Path(f"{prefix}_qos.csv")
    fill_qos_file(find_run(prefix), charged.values())
    after = filled(prefix)
    columns = ("category", "resource_charge", "qos_charge")
    assert [after["w0!1"][name] for name in columns] == [
        "very-short-narrow",
        "200.000000",
        "2.000000",
    ]
    assert [after["w0!3"][name] for name in columns] == [
        "very-short-sequential",
        "50.000000",
        "0.000000",
    ]
    assert [after["w0!4"][name] for name in columns] == ["very-short-narrow", "", ""]
    assert [after["w0!1#2"][name] for name in columns] == ["", "", ""]
    for job_id, row in before.items():
        assert {k: v for k, v in after[job_id].items() if k not in columns} == {
            k: v for k, v in row.items() if k not in columns
        }
    once = path.read_bytes()
    fill_qos_file(find_run(prefix), charged.values())
    assert path.read_bytes() == once


def test_a_table_without_the_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x_qos.csv"
    path.write_text("job_id,decision\n")
    files = RunFiles(name="x", prefix="x", jobs=tmp_path / "x_jobs.csv", qos=path)
    with pytest.raises(InputError, match="column category is missing"):
        fill_qos_file(files, [])
    with pytest.raises(InputError, match="x_qos.csv: no such file"):
        fill_qos_file(RunFiles(name="x", prefix="x", jobs=files.jobs), [])


def oracle(workload: Workload, ended: Iterable, promised: dict[str, float], easy: dict) -> Charge:
    """Charges by plain sums, for runs without kills."""
    run_times = {each.id: each.qos.estimated_runtime for each in workload.jobs}
    sizes = {each.id: each.processors for each in workload.jobs}
    edges = [(600, 3600, 28_800), (1, 8, 32)]

    def category(name: str) -> tuple[int, int]:
        run_time = sum(run_times[name] > edge for edge in edges[0])
        return run_time, sum(sizes[name] > edge for edge in edges[1])

    slowdowns: dict[tuple[int, int], list[float]] = {}
    for name, response in easy.items():
        slowdowns.setdefault(category(name), []).append(response / run_times[name])
    resource = qos = 0.0
    jobs = {each.id: each for each in workload.jobs}
    for record in ended:
        if record.state == "REJECTED":
            continue
        name = record.local_id
        resource += sizes[name] * run_times[name]
        if jobs[name].qos.has_user_deadline:
            mine = slowdowns[category(name)]
            granted = (promised[name] - jobs[name].submission_time) / run_times[name]
            qos += sum(mine) / len(mine) / granted
    return Charge(resource=resource, qos=qos)


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_a_simulation_and_its_files_agree_with_plain_sums(tmp_path: Path, share: float) -> None:
    trace = read_workload(find_input("sdsc_sp2_1000", "workloads"))
    workload = deadline_workload(
        trace, DeadlineChoices(share=share), load=1.5, first=200, keep_estimates=False
    )
    module = make_scheduler("qops")
    simulation = simulate(module, workload, make_cluster(workload.processors))
    promised = {
        record.local_id: deadline
        for record in simulation.ended
        if (deadline := module.qos_log.record(record.job.id).admitted_deadline) is not None
    }
    easy = easy_response_times(workload)
    expected = oracle(workload, simulation.ended, promised, easy)

    references = reference_of_workload(workload, easy)
    table = category_slowdowns(references.values())
    outcomes = outcomes_of_simulation(simulation.ended_jobs, workload, promised)
    report = charge_report(charge_jobs(outcomes, references, table), table)
    assert report.total.charge.resource == pytest.approx(expected.resource)
    assert report.total.charge.qos == pytest.approx(expected.qos)
    assert 0 < report.total.charged_jobs < report.total.jobs == 300

    written = {"scheduler": "qops", "module": module, "workload": "x", "platform": None}
    write_run(simulation, tmp_path / "run", **written)  # type: ignore[arg-type]
    from_files = outcomes_of_run(read_run(tmp_path / "run"), {"w0": workload})
    again = reference_of_workload(workload, easy, "w0!")
    files = charge_report(charge_jobs(from_files, again, table), table)
    assert files.total.charge.qos == pytest.approx(report.total.charge.qos, rel=1e-6)
    assert files.total.charge.resource == pytest.approx(report.total.charge.resource)
    assert [each.charged_jobs for each in files.categories] == [
        each.charged_jobs for each in report.categories
    ]


def test_reference_of_a_run_leaves_refused_jobs_out(write_run) -> None:
    found = reference_of_run(read_run(make_run(write_run)))
    assert found["w0!2"] == ReferenceJob(1000, 1300, 4)
    assert "w0!4" not in found
