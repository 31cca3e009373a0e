from __future__ import annotations

import csv
import io
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, Job, QosRequest, simulate
from qops_batsim.core import HostDescription, HostSet, QosLog
from qops_batsim.core.qos_log import QOS_COLUMNS, QosRecord, format_qos, write_qos_log
from qops_batsim.core.refusal import free_text, missed_deadline, sentence
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import (
    EngineConfig,
    ExecuteJob,
    JobKilled,
    JobSubmitted,
    KillJob,
    Message,
    ModuleDriver,
    RegisterJob,
    RejectJob,
    SimulationBegins,
    Stamped,
    make_scheduler,
)
from qops_batsim.running import write_run
from qops_batsim.workload import Workload, delay_profile
from support.qos_rows import qos_rows
from support.scripted_module import ScriptedModule


class Scripted(ScriptedModule):
    """Decides what the test says, message by message."""

    def __init__(self, *answers):
        super().__init__()
        self.answers = iter(answers)

    def decide(self, now):
        return next(self.answers)


BEGINS = SimulationBegins(
    nb_resources=2,
    nb_compute_resources=2,
    config=EngineConfig(),
    compute_resources=[HostDescription(0, "a"), HostDescription(1, "b")],
)


def say(driver, now, *events):
    return driver.exchange(Message(now, [Stamped(now, event) for event in events]))


def submitted(name, **qos):
    job = Job(f"w0!{name}", 0.0, 1, "d", qos=QosRequest(**qos) if qos else None)
    return JobSubmitted(job.id, job)


def rows(log):
    return {
        f"{row[1]}!{row[0]}": dict(zip(QOS_COLUMNS[2:], row[2:], strict=True))
        for row in (tuple(cells) for cells in qos_rows(log))
    }


def filled(row):
    return {name: cell for name, cell in row.items() if cell}


def test_the_protocol_alone_tells_starts_rejections_and_kills():
    one = HostSet.first(1)
    driver = ModuleDriver(
        Scripted(
            [],
            [ExecuteJob("w0!runs", one), RejectJob("w0!refused")],
            [KillJob(["w0!runs"])],
            [],
        )
    )
    say(driver, 0.0, BEGINS)
    say(driver, 1.0, submitted("runs", deadline=60.0), submitted("refused"), submitted("waits"))
    say(driver, 2.0)
    say(driver, 2.0, JobKilled(["w0!runs"]))
    found = rows(driver.log)
    assert list(found) == ["w0!runs", "w0!refused", "w0!waits"]
    assert filled(found["w0!runs"]) == {
        "requested_deadline": "60.000000",
        "decision": "accepted",
        "kills": "1",
    }
    assert filled(found["w0!refused"]) == {"decision": "rejected", "kills": "0"}
    assert filled(found["w0!waits"]) == {"kills": "0"}


def test_a_kill_that_came_too_late_does_not_count():
    driver = ModuleDriver(Scripted([], [KillJob(["w0!1"])], []))
    say(driver, 0.0, BEGINS)
    say(driver, 1.0, submitted("1"))
    say(driver, 1.0, JobKilled([]))
    assert rows(driver.log)["w0!1"]["kills"] == "0"


def test_a_module_volunteers_what_it_knows():
    class Offers(Scripted):
        def submitted(self, job):
            record = self.qos_log.record(job.id)
            record.offered_deadline = 90.0
            record.admitted_deadline = 90.0
            record.decision = "accepted"
            record.reason = 'tolerance 1.5, "late"'
            record.category = "short-wide"
            record.resource_charge = 12.5
            record.qos_charge = 1 / 3
            record.kills += 2
            record.latest_start = 45.5
            record.wasted_processor_seconds = 7.25

    driver = ModuleDriver(Offers([], []))
    say(driver, 0.0, BEGINS)
    say(driver, 1.0, submitted("1", deadline=60.0, category="ignored"))
    assert rows(driver.log)["w0!1"] == {
        "requested_deadline": "60.000000",
        "offered_deadline": "90.000000",
        "decision": "accepted",
        "reason": 'tolerance 1.5, "late"',
        "reason_kind": "free_text",
        "blamed_job": "",
        "blamed_date": "",
        "admitted_deadline": "90.000000",
        "category": "short-wide",
        "resource_charge": "12.500000",
        "qos_charge": "0.333333",
        "kills": "2",
        "latest_start": "45.500000",
        "wasted_processor_seconds": "7.250000",
    }


def test_a_rejection_is_final_whatever_was_said_before():
    class Promises(Scripted):
        def submitted(self, job):
            self.qos_log.record(job.id).decision = "accepted"

    driver = ModuleDriver(Promises([], [], [RejectJob("w0!1")]))
    say(driver, 0.0, BEGINS)
    say(driver, 1.0, submitted("1"))
    assert rows(driver.log)["w0!1"]["decision"] == "accepted"
    say(driver, 2.0)
    assert rows(driver.log)["w0!1"]["decision"] == "rejected"


def test_registered_jobs_have_one_row_announced_or_not():
    twice, silent = Job("twice", 0.0, 1, "d"), Job("dyn!silent", 0.0, 1, "d")
    driver = ModuleDriver(
        Scripted([RegisterJob("dyn!twice", twice), RegisterJob("dyn!silent", silent)], [])
    )
    say(driver, 0.0, BEGINS)
    say(driver, 0.0, JobSubmitted("dyn!twice", twice.renamed("dyn!twice")))
    assert list(rows(driver.log)) == ["dyn!twice", "dyn!silent"]


def test_every_simulation_has_a_log_of_its_own():
    driver = ModuleDriver(Scripted([], [], [], []))
    for name in ("a", "b"):
        say(driver, 0.0, BEGINS)
        say(driver, 0.0, submitted(name))
        assert list(rows(driver.log)) == [f"w0!{name}"]
        assert driver.module.qos_log is driver.log


@pytest.mark.parametrize("scheduler", ["fcfs", "easy", "conservative"])
def test_a_run_writes_why_jobs_were_rejected(tmp_path, scheduler):
    name, profile = delay_profile(10.0)
    jobs = [
        Job("fits", 0.0, 4, name, walltime=20.0),
        Job("wide", 1.0, 5, name, walltime=20.0),
        Job("none", 2.0, 0, name, walltime=20.0),
    ]
    module = make_scheduler(scheduler)
    workload = Workload(jobs=jobs, profiles={name: profile}, processors=4)
    simulation = simulate(module, workload, make_cluster(4))
    paths = write_run(
        simulation, tmp_path / "run", scheduler="x", module=module, workload="w", platform=None
    )
    assert tmp_path / "run_qos.csv" in paths
    with (tmp_path / "run_qos.csv").open(newline="") as stream:
        reasons = {
            row["job_id"]: (row["decision"], row["reason"]) for row in csv.DictReader(stream)
        }
    assert reasons == {
        "fits": ("accepted", ""),
        "wide": ("rejected", "asks for 5 processors, the machine has 4"),
        "none": ("rejected", "asks for no processor, the machine has 4"),
    }


def test_the_file_is_csv_whatever_a_reason_holds(tmp_path):
    log = QosLog()
    log.jobs.append(Job("w0!1", 0.0, 1, "d"))
    log.record("w0!1").reason = 'a, "b"\nc'
    path = write_qos_log(log, tmp_path / "deep" / "x")
    assert path == tmp_path / "deep" / "x_qos.csv"
    with path.open(newline="") as stream:
        assert [row["reason"] for row in csv.DictReader(stream)] == ['a, "b"\nc']


def number(value):
    return "" if value is None else f"{value:.6f}"


def plain_rows(log):
    """Yield the cells of each job, put together one by one."""
    nothing = QosRecord()
    width, decisions = len(log.columns()), log.decisions()
    kills: Counter = Counter()
    for job_id, count in log.kills.items():
        kills[log._originals.get(job_id, job_id)] += count
    for job in {job.id: job for job in log.jobs}.values():
        if job.id in log._originals:
            continue
        record = log._records.get(job.id, nothing)
        asked = job.qos or QosRequest()
        requested = record.requested_deadline
        cells = (
            job.id.removeprefix("w0!"),
            "w0",
            number(asked.deadline if requested is None else requested),
            number(record.offered_deadline),
            decisions.get(job.id, ""),
            "; ".join(map(sentence, record.reasons)),
            record.reasons[0].kind.value if record.reasons else "",
            (record.reasons[0].blamed or "") if record.reasons else "",
            number(record.reasons[0].date if record.reasons else None),
            number(record.admitted_deadline),
            record.category or asked.category or "",
            number(record.resource_charge),
            number(record.qos_charge),
            str(kills[job.id] + record.kills),
            number(record.latest_start),
            number(record.wasted_processor_seconds),
            str(record.new_promises),
        )
        yield cells[:width]


TEXTS = st.sampled_from(["", "a", 'with "', "b, c", "é", "two\nlines"])
NUMBERS = st.none() | st.floats(-1e12, 1e12) | st.just(float("nan"))
JOBS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.none() | st.builds(QosRequest, deadline=st.none() | st.floats(0, 9), category=TEXTS),
        st.sampled_from(["waits", "starts", "is rejected", "is killed"]),
    )
)
REFUSALS = st.builds(free_text, TEXTS) | st.builds(
    missed_deadline, TEXTS, st.floats(0, 1e12), own=st.booleans()
)
REASONS = st.lists(REFUSALS, max_size=2).map(tuple)
RECORDS = st.dictionaries(
    st.integers(0, 5),
    st.builds(
        QosRecord,
        requested_deadline=NUMBERS,
        offered_deadline=NUMBERS,
        decision=st.sampled_from(["", "accepted", "rejected"]),
        reasons=REASONS,
        category=TEXTS,
        resource_charge=NUMBERS,
        latest_start=NUMBERS,
        kills=st.integers(0, 2),
        new_promises=st.integers(0, 1),
    ),
)


@given(JOBS, RECORDS, st.dictionaries(st.integers(3, 5), st.integers(0, 2), max_size=1))
def test_the_file_holds_the_rows(tmp_path_factory, jobs, records, restarted):
    log = QosLog()
    for number, qos, fate in jobs:
        job = Job(f"w0!{number}", 0.0, 1, "d", qos=qos)
        log.jobs.append(job)
        if fate == "starts":
            log.started.append(job.id)
        elif fate == "is rejected":
            log.rejected.append(job.id)
        elif fate == "is killed":
            log.kills[job.id] += 1
    for number, record in records.items():
        noted = log.record(f"w0!{number}")
        for name in record.__struct_fields__:
            setattr(noted, name, getattr(record, name))
    for again, original in restarted.items():
        log.restarted(f"w0!{again}", f"w0!{original}")
    expected = io.StringIO()
    writer = csv.writer(expected, lineterminator="\n")
    writer.writerow(log.columns())
    writer.writerows(plain_rows(log))
    assert qos_rows(log) == list(plain_rows(log))
    path = write_qos_log(log, tmp_path_factory.mktemp("log") / "x")
    assert path.read_bytes() == expected.getvalue().encode()


def test_a_log_without_jobs_is_a_header(tmp_path):
    path = write_qos_log(QosLog(), tmp_path / "x")
    assert path.read_text() == ",".join(QOS_COLUMNS) + "\n"


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file/x_qos.csv: cannot be written"):
        write_qos_log(QosLog(), tmp_path / "file" / "x")


def test_later_runs_of_a_job_are_noted_in_its_row():
    log = QosLog()
    first = Job("w0!1", 0.0, 1, "p")
    log.jobs.extend([first, first.renamed("w0!1#1"), Job("w0!2", 0.0, 1, "p")])
    log.restarted("w0!1#1", "w0!1")
    log.started.extend(["w0!1", "w0!1#1"])
    log.kills.update(["w0!1", "w0!1#1", "w0!1#2"])
    log.restarted("w0!1#2", "w0!1")
    found = {row[0]: row[QOS_COLUMNS.index("kills")] for row in qos_rows(log)}
    assert found == {"1": "3", "2": "0"}
    assert log.decisions() == {"w0!1": "accepted"}


def test_promises_and_refusals_are_in_the_record_that_is_asked_for() -> None:
    log = QosLog()
    log.promise("w0!1", 5.0)
    log.refused("w0!2", "no")
    log.promise("w0!1", 6.0)
    assert log.promises() == {"w0!1": 6.0}
    assert (log.record("w0!1").admitted_deadline, log.record("w0!2").reason) == (6.0, "no")

    # Also a later one, and not what another log says instead.
    log.promise("w0!2", 7.0)
    log.promise("w0!1", 8.0)
    log.learn({"w0!1": QosRecord(category="x")})
    assert log.record("w0!2") == QosRecord(reasons=(free_text("no"),), admitted_deadline=7.0)
    assert log.record("w0!1") == QosRecord(category="x")


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["promise", "refuse", "kill", "ask"])))
)
def test_rows_are_the_same_whether_records_are_asked_for(steps: list[tuple[int, str]]) -> None:
    tables = []
    for asks in (False, True):
        log = QosLog()
        log.jobs.extend(Job(f"w0!{number}", 0.0, 1, "p") for number in range(3))
        for place, (number, step) in enumerate(steps):
            job_id = f"w0!{number}"
            if step == "promise":
                log.promise(job_id, float(place))
            elif step == "refuse":
                log.refused(job_id, f"reason {place}")
            elif step == "kill":
                log.record(job_id).kills += 1
            if asks or step == "ask":
                log.record("w0!0")
        tables.append(b"".join(format_qos(log)))
    assert tables[0] == tables[1]
