"""The verifier's rules about promises."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qops_batsim import InputError, read_run, verify
from qops_batsim.economics import ReferenceJob, category_slowdowns
from qops_batsim.measures import Verification, charge_jobs, outcomes_of_run, run_measures
from qops_batsim.measures.results.message_drift import chain_gaps
from qops_batsim.measures.results.run_result import RunResult
from qops_batsim.measures.verify.rules_qos import Lateness
from qops_batsim.workload import parse_workload
from support.qos_files import by_workload

HEADER = "job_id,decision,admitted_deadline,latest_start"


@pytest.fixture
def promised(write_run):
    """A function that writes three jobs on one host, with promises, and verifies them.

    Job 1 runs from 0 to 10, 2 from 10 to 15, 3 from 15 to 18; 4 is rejected.
    """

    def check(
        qos: dict[str, str],
        estimates: dict[str, float] | None = None,
        *,
        info: dict[str, object] | None = None,
        look: Callable[..., Any] = verify,
    ) -> Any:
        ran = write_run.ran
        jobs = [
            ran("1", 0, 1, 0, 10, [0], profile="d10"),
            ran("2", 1, 1, 10, 5, [0], profile="d5"),
            ran("3", 2, 1, 15, 3, [0], profile="d3"),
            ran("4", 2, 1, profile="d3"),
        ]
        prefix = write_run(jobs, hosts=1)
        rows = {"1": "accepted,", "2": "accepted,15", "3": "accepted,18.000001", "4": "rejected,"}
        # A row without the last column says nothing about the latest start.
        lines = [
            f"w0!{name},{row}" + "," * (2 - row.count(","))
            for name, row in {**rows, **qos}.items()
            if row
        ]
        Path(f"{prefix}_qos.csv").write_text(by_workload("\n".join([HEADER, *lines])))
        listed = [
            {
                "id": job.id,
                "subtime": job.submission,
                "res": 1,
                "profile": job.profile,
                "qos": {"estimated_runtime": (estimates or {}).get(job.id, int(job.profile[1:]))},
            }
            for job in jobs
        ]
        profiles = {f"d{n}": {"type": "delay", "delay": n} for n in (3, 5, 10)}
        text = json.dumps({"nb_res": 1, "jobs": listed, "profiles": profiles})
        workloads = {"w0": parse_workload(text, source="promised.json")}
        if info is not None:
            Path(f"{prefix}_run.json").write_text(json.dumps(info))
        return look(read_run(prefix), workloads=workloads)

    return check


def test_kept_promises(promised) -> None:
    assert promised({}) == []
    assert promised({"3": "accepted,17.999999"}) == []  # two roundings
    assert promised({"1": "", "3": ",18"}) == []  # a job may be missing, or undecided


def test_a_missed_deadline(promised) -> None:
    (violation,) = promised({"2": "accepted,14.9"})
    assert violation.rule == "admitted-deadline"
    assert violation.jobs == ("w0!2",)
    assert violation.time == 15
    assert "finishes at 15.000000 s, but was admitted with the deadline 14.900000 s" in (
        violation.message
    )
    assert len(promised({"2": "accepted,14.9", "3": "accepted,10"})) == 2


def test_a_job_that_outlives_its_estimate_excuses_what_follows(promised) -> None:
    missed = {"1": "accepted,9.5", "2": "accepted,14"}
    assert len(promised(missed)) == 2
    assert len(promised(missed, {"1": 12})) == 2  # an early end excuses nothing
    assert promised(missed, {"1": 9}) == []
    # 2 was to end by 13, so what was promised until then had to be kept.
    (violation,) = promised(missed, {"2": 3})
    assert violation.jobs == ("w0!1",)
    # 2 was to end by its deadline and not later, so it is excused itself; 1 is not.
    assert promised({"2": "accepted,14"}, {"2": 4}) == []
    (violation,) = promised({"1": "accepted,9.5", "2": "accepted,14"}, {"2": 4})
    assert violation.jobs == ("w0!1",)
    (violation,) = promised({"2": "accepted,13.9"}, {"2": 4})
    assert violation.jobs == ("w0!2",)


def test_a_late_start(promised) -> None:
    assert promised({"1": "accepted,,0", "2": "accepted,,9.999999", "3": "accepted,,99"}) == []
    (violation,) = promised({"2": "accepted,,9.5"})
    assert violation.rule == "latest-start"
    assert violation.jobs == ("w0!2",)
    assert violation.time == 10
    assert "starts at 10.000000 s, but was promised to start by 9.500000 s" in violation.message
    assert promised({"2": ",,9.5"}) != []  # undecided in the file, but it ran


def test_a_late_start_is_excused_as_a_late_end_is(promised) -> None:
    missed = {"2": "accepted,,8", "3": "accepted,,14"}
    assert len(promised(missed)) == 2
    assert promised(missed, {"1": 7}) == []
    # 1 was to leave its processor at 8, just when 2 was to start: no plan could know better.
    assert promised(missed, {"1": 8}) == []
    (violation,) = promised({"2": "accepted,,7.9"}, {"1": 8})
    assert violation.jobs == ("w0!2",)
    (violation,) = promised(missed, {"2": 3})
    assert violation.jobs == ("w0!2",)


@pytest.mark.parametrize(("estimate", "broken"), [(30, set()), (40, {"admitted-deadline"})])
def test_a_job_that_goes_on_outlives_its_estimate_with_all_its_runs(
    write_run, estimate, broken
) -> None:
    # 1 is stopped after 20 s, and goes on for 15: no run is longer than it was estimated to be.
    ran = write_run.ran
    jobs = [
        ran("1", 0, 1, 0, 20, [0], state="COMPLETED_KILLED", profile="d35"),
        ran("1#1", 0, 1, 20, 15, [0], profile="d35#1#1"),
        ran("2", 0, 1, 35, 5, [0], profile="d5"),
    ]
    prefix = write_run(jobs, hosts=1)
    Path(f"{prefix}_qos.csv").write_text(by_workload(f"{HEADER}\nw0!2,accepted,39,\n"))
    told = {"1": estimate, "2": 5}
    listed = [
        {
            "id": job,
            "subtime": 0,
            "res": 1,
            "profile": profile,
            "qos": {"estimated_runtime": told[job]},
        }
        for job, profile in (("1", "d35"), ("2", "d5"))
    ]
    profiles = {f"d{n}": {"type": "delay", "delay": n} for n in (5, 35)}
    text = json.dumps({"nb_res": 1, "jobs": listed, "profiles": profiles})
    workloads = {"w0": parse_workload(text, source="stopped.json")}
    assert {each.rule for each in verify(read_run(prefix), workloads=workloads)} == broken


def test_kills_at_estimates_make_late_what_follows_them(write_run) -> None:
    # Each is killed a microsecond after its estimate, and the next one starts then.
    ran, after = write_run.ran, 10.000001
    jobs = [
        ran(str(n), 0, 1, n * after, after, [0], state="COMPLETED_KILLED", profile="d60")
        for n in range(9)
    ]
    listed = [
        {"id": job.id, "subtime": 0, "res": 1, "profile": "d60", "qos": {"estimated_runtime": 10}}
        for job in jobs
    ]
    profiles = {"d60": {"type": "delay", "delay": 60}}
    text = json.dumps({"nb_res": 1, "jobs": listed, "profiles": profiles})
    workloads = {"w0": parse_workload(text, source="killed.json")}
    prefix = write_run(jobs, hosts=1)
    for late, broken in ((0.0, 0), (0.001, 9)):
        rows = [f"w0!{n},accepted,,{n * 10 - late}" for n in range(9)]
        Path(f"{prefix}_qos.csv").write_text(by_workload("\n".join([HEADER, *rows])))
        assert len(verify(read_run(prefix), workloads=workloads)) == broken


# Where Batsim's messages take their time


def networked(grace: object = 0.5, delays: bool | None = True) -> dict[str, object]:
    """Return what run.json says of a run whose scheduler has that grace."""
    known = {} if delays is None else {"message_delays": delays}
    return {"hosts": 1, "options": {"grace": grace}, **known}


def test_a_promise_may_be_late_by_the_grace(promised) -> None:
    late = {"2": "accepted,14.6", "3": "accepted,,14.6"}
    assert promised(late, info=networked()) == []
    assert promised(late, info=networked(delays=None)) == []
    assert promised({"2": "accepted,14.499999"}, info=networked()) == []  # two roundings
    (violation,) = promised({"2": "accepted,14.49"}, info=networked())
    assert violation.rule == "admitted-deadline"
    (violation,) = promised({"3": "accepted,,14.49"}, info=networked())
    assert violation.rule == "latest-start"


@pytest.mark.parametrize(
    "info",
    [networked(delays=False), networked(0.0), networked("long"), networked(-1.0), {"options": {}}],
)
def test_no_promise_may_be_late_without_a_grace_or_without_delays(promised, info) -> None:
    assert len(promised({"2": "accepted,14.6", "3": "accepted,,14.6"}, info=info)) == 2


def test_what_outlives_its_estimate_by_less_than_the_grace_voids_no_promise(promised) -> None:
    # 1 ends 0.25 s after its estimate: whatever follows may be late by as much, beside the grace.
    estimates = {"1": 9.75}
    assert promised({"2": "accepted,14.26"}, estimates, info=networked()) == []
    (violation,) = promised({"2": "accepted,14.24"}, estimates, info=networked())
    assert violation.jobs == ("w0!2",)
    assert promised({"2": "accepted,14.24"}, estimates) == []
    assert promised({"2": "accepted,1"}, {"1": 9.4}, info=networked()) != []
    assert promised({"2": "accepted,14"}, {"1": 9.4}, info=networked()) == []


def test_what_starts_late_by_less_than_the_grace_outlives_its_estimate_as_if_on_time(promised):
    # 2 was to end by 14, had it not started a little late: what it does itself is no fault.
    assert promised({"2": "accepted,13.9"}, {"2": 4}, info=networked()) == []
    assert promised({"2": "accepted,13.4"}, {"2": 4}, info=networked()) != []
    # 1 was to end by 9, or 0.5 s before.
    assert promised({"2": "accepted,8.6"}, {"1": 9}, info=networked()) == []
    assert promised({"2": "accepted,8.4"}, {"1": 9}, info=networked()) != []


@pytest.fixture
def chain(write_run):
    """Ten jobs of 10 s one after the other, the last one on two hosts: nine gaps of 0.2 s.

    The other host was free for long, and what is on a third one has nothing to do with it. The last
    one starts at 91.8 s.
    """
    ran, late = write_run.ran, 10.2
    jobs = [ran(str(n), 0, 1, n * late, 10, [0], profile="d") for n in range(9)]
    jobs.append(ran("9", 0, 2, 9 * late, 10, [0, 1], profile="d"))
    jobs.append(ran("a", 0, 1, 0, 10, [1], profile="d"))
    jobs.append(ran("b", 0, 1, 0, 91.3, [2], profile="e"))
    listed = [
        {"id": job.id, "subtime": 0, "res": 1 + (job.id == "9"), "profile": job.profile,
         "qos": {"estimated_runtime": 100, **({"deadline": 100.0} if job.id == "9" else {})}}
        for job in jobs
    ]  # fmt: skip
    profiles = {"d": {"type": "delay", "delay": 10}, "e": {"type": "delay", "delay": 91.3}}
    text = json.dumps({"nb_res": 3, "jobs": listed, "profiles": profiles})
    workloads = {"w0": parse_workload(text, source="chain.json")}
    prefix = write_run(jobs, hosts=3)

    def made(grace: float, round_trip: float, promise: str) -> tuple[RunResult, dict[str, Any]]:
        known = {"hosts": 3, "options": {"grace": grace}, "round_trip": round_trip}
        Path(f"{prefix}_run.json").write_text(json.dumps(known))
        Path(f"{prefix}_qos.csv").write_text(by_workload(f"{HEADER}\nw0!9,accepted,{promise}\n"))
        return read_run(prefix), workloads

    return made


CHAINS = [
    # grace, round trip, promised before what comes, broken
    (0.5, 0.2 / 64, 1.8, False),
    (0.5, 0.2 / 64, 2.299, False),
    (0.5, 0.2 / 64, 2.301, True),
    (0.5, 0.19 / 64, 1.8, True),  # No message takes so long.
    (0.0, 0.2 / 64, 1.8, True),
]


@pytest.mark.parametrize(("grace", "round_trip", "early", "broken"), CHAINS)
def test_delays_of_messages_add_up_along_a_chain_of_jobs(
    chain, grace: float, round_trip: float, early: float, broken: bool
) -> None:
    result, workloads = chain(grace, round_trip, f",{91.8 - early}")
    found = [each.rule for each in verify(result, workloads=workloads)]
    assert found == ["latest-start"] * broken


@pytest.mark.parametrize(("grace", "round_trip", "early", "broken"), CHAINS)
def test_metrics_and_charges_bear_what_the_verifier_bears(
    chain, grace: float, round_trip: float, early: float, broken: bool
) -> None:
    result, workloads = chain(grace, round_trip, f"{101.8 - early},")
    found = [each.rule for each in verify(result, workloads=workloads)]
    assert found == ["admitted-deadline"] * broken
    counted = run_measures(result, workloads).deadlines
    assert counted is not None
    assert (counted.kept.jobs, counted.broken.jobs) == (1 - broken, broken)
    outcomes = outcomes_of_run(result, workloads)
    references = {job: ReferenceJob(10, 101.8, 1 + (job == "w0!9")) for job in outcomes.ids}
    table = category_slowdowns(references.values())
    charged = {
        each.id: each for each in charge_jobs(outcomes, references, table, grace=result.grace)
    }
    assert (charged["w0!9"].penalty is not None) == broken
    assert (charged["w0!9"].charge.qos > 0) != broken


def test_chains_of_jobs_begin_when_the_last_one_was_submitted() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        jobs, most = 12, 0.5
        start, submitted = np.sort(rng.uniform(0, 20, jobs)), rng.uniform(0, 10, jobs)
        end = start + rng.uniform(0, 3, jobs)
        before = np.array([rng.integers(-1, row) if row else -1 for row in range(jobs)])
        rows = np.arange(jobs)
        found = chain_gaps(rows, before, submitted, start, end, most)
        for row in rows.tolist():
            gaps, job = [], row
            while before[job] >= 0 and start[job] > submitted[row]:
                gaps.append(float(start[job] - end[before[job]]))
                job = before[job]
            good = next((n for n, gap in enumerate(gaps) if abs(gap) > most), len(gaps))
            assert found[row] == pytest.approx(sum(gaps[:good]), abs=1e-9)


@pytest.mark.parametrize(
    ("estimates", "broken"),
    [((10, 10), True), ((10, 5), False), ((5, 5), True), ((10, None), True)],
)
def test_on_shared_hosts_an_estimate_that_is_too_short_excuses(write_run, estimates, broken):
    # Two jobs of as much work share a host; the second is promised to end by 8.
    ran = write_run.ran
    prefix = write_run([ran(name, 0, 1, 0, 10, [0], profile="c") for name in "12"], hosts=1)
    Path(f"{prefix}_qos.csv").write_text(by_workload(f"{HEADER}\nw0!2,accepted,8,\n"))
    Path(f"{prefix}_run.json").write_text(json.dumps({"hosts": 1, "compute_sharing": True}))
    jobs = [
        {"id": name, "subtime": 0, "res": 1, "profile": "c", "qos": {"estimated_runtime": told}}
        for name, told in zip("12", estimates, strict=True)
    ]
    profiles = {"c": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}}
    text = json.dumps({"nb_res": 1, "jobs": jobs, "profiles": profiles})
    found = verify(read_run(prefix), workloads={"w0": parse_workload(text, source="shared.json")})
    assert {each.rule for each in found} == ({"admitted-deadline"} if broken else set())


def lateness(result: RunResult, **given: Any) -> Lateness | None:
    return Verification(result, **given).lateness()


def test_the_greatest_lateness(promised) -> None:
    late = {"2": "accepted,14.75", "3": "accepted,20,14.6"}
    assert promised(late, info=networked(), look=lateness) == Lateness(
        seconds=pytest.approx(0.4), job="w0!3", grace=0.5, checked=3, unchecked=0
    )
    # Nothing is late, nothing is promised, and what is not checked does not count.
    assert promised({}, look=lateness) == Lateness(
        seconds=0.0, job=None, grace=0.0, checked=2, unchecked=0
    )
    nothing = {"2": "accepted,", "3": "accepted,"}
    assert promised(nothing, look=lateness) is None
    assert promised({"2": "accepted,14.75"}, {"1": 5}, look=lateness) == Lateness(
        seconds=0.0, job=None, grace=0.0, checked=0, unchecked=2
    )


def test_files_without_latest_starts_are_read(promised, tmp_path) -> None:
    promised({})
    path = tmp_path / "run_qos.csv"
    path.write_text(by_workload("job_id,decision,admitted_deadline\nw0!1,accepted,5\n"))
    qos = read_run(tmp_path / "run").qos
    assert qos is not None
    assert qos["latest_start"].isna().all()


@pytest.mark.parametrize(
    ("row", "job", "message"),
    [
        ({"3": "rejected,"}, "w0!3", "says rejected, but the job is COMPLETED_SUCCESSFULLY"),
        ({"4": "accepted,"}, "w0!4", "says accepted, but the job is REJECTED"),
    ],
)
def test_a_rejected_job_that_runs(promised, row, job, message) -> None:
    (violation,) = promised(row)
    assert violation.rule == "rejected-never-runs"
    assert violation.jobs == (job,)
    assert message in violation.message


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("maybe,", "decision is 'maybe'; accepted, rejected or nothing is expected"),
        ("accepted,soon", "admitted_deadline is 'soon'; a number up to 1e+300, or nothing, is"),
        ("accepted,inf", "admitted_deadline is 'inf'; a number up to 1e+300, or nothing, is"),
        ("accepted,,x", "latest_start is 'x'; a number up to 1e+300, or nothing, is"),
    ],
)
def test_a_damaged_qos_file(promised, row, message) -> None:
    with pytest.raises(InputError) as error:
        promised({"2": row})
    assert message in str(error.value)
    assert "run_qos.csv: row 2 (job '2')" in str(error.value)
