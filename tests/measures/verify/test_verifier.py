from __future__ import annotations

import json
from pathlib import Path

import pytest

from qops_batsim import read_run, read_workload, run, verify
from qops_batsim.measures import Verification
from qops_batsim.measures.results.run_result import (
    read_workloads,
    recorded_workloads,
    workloads_with_deadlines,
)
from qops_batsim.measures.verify import rule as rules
from qops_batsim.measures.verify.verifier import RULES
from qops_batsim.shipped import find_input
from qops_batsim.workload import parse_workload, subset
from support.qos_files import by_workload

WORKLOAD = {
    "nb_res": 4,
    "jobs": [
        {"id": "1", "subtime": 0, "res": 2, "walltime": 100, "profile": "d10"},
        {"id": "2", "subtime": 1, "res": 2, "walltime": 5, "profile": "d9"},
        {"id": "3", "subtime": 2, "res": 4, "profile": "d7"},
        {"id": "4", "subtime": 3, "res": 5, "profile": "d10"},
        {"id": "5", "subtime": 4, "res": 1, "walltime": 50, "profile": "d20"},
        {"id": "6", "subtime": 20, "res": 3, "walltime": 30, "profile": "d4"},
    ],
    "profiles": {f"d{n}": {"type": "delay", "delay": n} for n in (4, 7, 9, 10, 20)},
}


def workload(**changes):
    text = json.dumps({**WORKLOAD, **changes})
    return {"w0": parse_workload(text, source="small.json")}


def rules_broken(violations) -> set[str]:
    return {violation.rule for violation in violations}


def test_a_valid_run_obeys_every_rule(write_run, mixed_run):
    result = read_run(write_run(mixed_run(), hosts=4, totals=True))
    assert verify(result, workloads=workload()) == []
    checked = [rule.name for rule in Verification(result, workloads=workload()).rules]
    assert checked == [
        rule.name
        for rule in RULES
        if rule.name
        not in (
            "hosts-present",
            "cancelled-jobs",
            "host-amounts",
            "maintenance",
            "predicted-run-time",
        )
    ]


def test_rules_apply_to_the_files_that_exist(write_run, mixed_run):
    result = read_run(write_run(mixed_run()))
    left = {rule.name for rule in RULES} - {rule.name for rule in Verification(result).rules}
    assert left == {
        "hosts-present",
        "cancelled-jobs",
        "host-amounts",
        "schedule-counts",
        "schedule-times",
        "schedule-host-time",
        "machine-states",
        "workload-jobs",
        "workload-fields",
        "workload-run-time",
        "rejected-never-runs",
        "admitted-deadline",
        "latest-start",
        "fixed-start",
        "maintenance",
        "predicted-run-time",
        "dedicated-alone",
    }


def edit(index, **cells):
    return lambda jobs: jobs[index].edits.update(cells)


def change(index, **values):
    def apply(jobs):
        for name, value in values.items():
            setattr(jobs[index], name, value)

    return apply


# Each breaks one rule of a run; the text must be in the message.
IN_JOBS_ALONE = [
    ("unique-jobs", change(5, id="5"), "more than one row"),
    ("start-after-submission", change(5, submission=22), "starts at 20.000000 s, but is submitted"),
    ("finish-after-start", change(5, run_time=-4), "finishes at 16.000000 s, but starts at 20"),
    ("waiting-time", edit(2, waiting_time="8.1"), "waiting_time is 8.100000 s, but starting_time"),
    (
        "execution-time",
        edit(2, execution_time="7.5", stretch="2"),
        "is 7.500000 s, but finish_",
    ),
    ("turnaround-time", edit(2, turnaround_time="14", stretch="2"), "is 14.000000 s, but finish_t"),
    ("stretch", edit(2, stretch="2.15"), "stretch is 2.150000, but"),
    ("stretch", edit(2, stretch="inf"), "stretch is inf, but"),
    ("walltime", change(5, walltime=3.5), "runs 4.000000 s, but its walltime is 3.500000 s"),
    ("walltime-reached", change(1, walltime=6), "after 5.000000 s, but that is 6.000000 s"),
    ("walltime-reached", change(1, walltime=-1), "after 5.000000 s, but it has none"),
    ("allocation-size", change(5, hosts=[0, 2]), "requests 3 processors, but gets 2 hosts"),
    ("exclusive-hosts", change(1, hosts=[1, 2]), "host 1 runs job 'w0!1' until 10.000000 s, but"),
]
IN_ALL_FILES = [
    ("rejected-empty", edit(3, allocated_resources="2"), "was rejected, yet has allocated_resou"),
    ("rejected-empty", edit(3, waiting_time="2.0"), "was rejected, yet has waiting_time"),
    ("final-state", edit(5, success="0"), "success is 0, but final_state is COMPLETED_SUCC"),
    ("final-state", edit(2, success="1"), "success is 1, but final_state is COMPLETED_FAILED"),
    ("host-range", edit(5, allocated_resources="0 2 4"), "on host 4, but the hosts are 0 to 3"),
]


@pytest.mark.parametrize(("rule", "mutate", "message"), IN_JOBS_ALONE)
def test_one_wrong_job_breaks_one_rule(write_run, mixed_run, rule, mutate, message):
    jobs = mixed_run()
    mutate(jobs)
    (violation,) = verify(write_run(jobs, hosts=4))
    assert violation.rule == rule
    assert message in violation.message


@pytest.mark.parametrize(("rule", "mutate", "message"), IN_ALL_FILES)
def test_one_wrong_cell_breaks_one_rule(write_run, mixed_run, rule, mutate, message):
    prefix = write_run(mixed_run(), hosts=4, totals=True)
    jobs = mixed_run()
    mutate(jobs)
    write_run(jobs)  # the other files stay those of the valid run
    (violation,) = verify(prefix, workloads=workload())
    assert violation.rule == rule
    assert message in violation.message


@pytest.mark.parametrize(
    ("rule", "column", "amount"),
    [
        ("schedule-counts", "nb_jobs", 1),
        ("schedule-counts", "nb_jobs_killed", -1),
        ("schedule-counts", "success_rate", 0.1),
        ("schedule-times", "makespan", 1e-5),
        ("schedule-times", "mean_waiting_time", 1e-5),
        ("schedule-times", "max_slowdown", -1e-5),
        ("schedule-host-time", "time_computing", 0.1),
    ],
)
def test_a_wrong_total_breaks_one_rule(write_run, mixed_run, rule, column, amount):
    result = read_run(write_run(mixed_run(), hosts=4, totals=True))
    result.schedule[column] += amount
    (violation,) = verify(result, workloads=workload())
    assert violation.rule == rule
    assert f"_schedule.csv says {column} " in violation.message


@pytest.mark.parametrize(
    ("mutate", "message"),
    [
        (lambda rows: [*rows[:3], "10,0,0,0,1,3", *rows[4:]], None),
        (
            lambda rows: [*rows[:-1], "24,0,0,0,3,1"],
            "says 1 hosts compute after 24 s, the",
        ),
        (lambda rows: rows[:-1], "has 9 rows, but 5 jobs started and ended: at least 10"),
        (lambda rows: [*rows[:1], rows[2], rows[1], *rows[3:]], "goes back from 6 s to 1 s"),
    ],
)
def test_a_wrong_machine_state_breaks_one_rule(write_run, mixed_run, tmp_path, mutate, message):
    prefix = write_run(mixed_run(), hosts=4, totals=True)
    path = tmp_path / "run_machine_states.csv"
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *mutate(rows)]) + "\n")
    violations = verify(read_run(prefix), workloads=workload())
    if message is None:  # within a date, only the last state counts
        assert violations == []
    else:
        assert rules_broken(violations) == {"machine-states"}
        assert message in violations[0].message


@pytest.mark.parametrize(
    ("rule", "index", "field", "value", "message"),
    [
        ("workload-fields", 0, "subtime", 0.5, "submission_time is 0.000000, but 0.500000 in the"),
        ("workload-fields", 3, "res", 6, "requested_number_of_resources is 5.000000, but 6.0000"),
        ("workload-fields", 2, "walltime", 50, "requested_time is -1.000000, but 50.000000 in the"),
        ("workload-run-time", 0, "profile", "d9", "runs 9.000000 s"),
        ("workload-run-time", 0, "profile", "d20", "COMPLETED_SUCCESSFULLY after 10.000000 s, but"),
        ("workload-run-time", 2, "profile", "d9", "COMPLETED_FAILED after 7.000000 s, but"),
        ("workload-run-time", 1, "profile", "d4", "COMPLETED_WALLTIME_REACHED after 5.000000 s"),
    ],
)
def test_another_workload_breaks_one_rule(write_run, mixed_run, rule, index, field, value, message):
    result = read_run(write_run(mixed_run(), hosts=4, totals=True))
    jobs = [dict(job) for job in WORKLOAD["jobs"]]
    jobs[index][field] = value
    (violation,) = verify(result, workloads=workload(jobs=jobs))
    assert violation.rule == rule
    assert violation.jobs == (f"w0!{index + 1}",)
    assert message in violation.message


def test_a_job_of_the_workload_must_run_but_dynamic_jobs_may_be_added(write_run, mixed_run):
    result = read_run(write_run(mixed_run(), hosts=4, totals=True))
    assert verify(result, workloads=workload(jobs=WORKLOAD["jobs"][:4])) == []
    more = [*WORKLOAD["jobs"], {"id": "7", "subtime": 0, "res": 1, "profile": "d4"}]
    (violation,) = verify(result, workloads=workload(jobs=more))
    assert (violation.rule, violation.jobs) == ("workload-jobs", ("w0!7",))
    assert "job 'w0!7' of small.json is not in the run" in violation.message


def test_an_overlap_is_found_behind_shorter_jobs(write_run):
    ran = write_run.ran
    jobs = [
        ran("long", 0, 2, 0, 100, [0, 1]),
        ran("b", 0, 1, 10, 1, [2]),
        ran("c", 0, 1, 20, 1, [0]),
        ran("d", 0, 2, 99, 5, [0, 1]),
        ran("e", 0, 1, 104, 1, [0]),
    ]
    violations = verify(read_run(write_run(jobs)))
    assert [(v.jobs, v.host, v.time) for v in violations] == [
        (("w0!long", "w0!c"), 0, 20.0),
        (("w0!long", "w0!d"), 0, 99.0),  # on two hosts, reported once
    ]
    assert verify(read_run(write_run(jobs)), compute_sharing=True) == []


def test_dates_may_differ_by_their_rounding_only(write_run):
    ran = write_run.ran

    def jobs(late: float):
        return [ran("1", 0, 1, 0, 10, [0]), ran("2", 0, 1, 10 - late, 5, [0])]

    assert verify(read_run(write_run(jobs(2e-6)))) == []
    assert rules_broken(verify(read_run(write_run(jobs(4e-6))))) == {"exclusive-hosts"}


def test_a_run_time_that_batsim_made_up_does_not_overlap(write_run):
    ran = write_run.ran
    jobs = [ran("null", 0, 1, 0, 1e-5, [0]), ran("next", 0, 1, 0, 5, [0])]
    assert verify(read_run(write_run(jobs))) == []


def test_a_run_time_that_batsim_made_up_is_no_time_of_a_host(write_run):
    ran = write_run.ran
    # One at the end of a longer job: together they are one period, which does last.
    jobs = [ran("long", 0, 1, 0, 5, [0]), ran("null", 0, 1, 5, 1e-5, [0])]
    prefix = write_run(jobs, hosts=1, totals=True)
    schedule = Path(f"{prefix}_schedule.csv")
    names, values = (line.split(",") for line in schedule.read_text().splitlines())
    for found, expected in ((5.0, set()), (4.9, {"schedule-host-time"})):
        values[names.index("time_computing")] = f"{found:.6f}"
        schedule.write_text("\n".join([",".join(names), ",".join(values), ""]))
        assert rules_broken(verify(read_run(prefix))) == expected


def test_other_allocation_sizes_can_be_allowed(write_run, mixed_run):
    jobs = mixed_run()
    jobs[5].hosts = [0, 2]
    result = read_run(write_run(jobs))
    assert verify(result, any_allocation_size=True) == []
    jobs[5].hosts = []
    empty = read_run(write_run(jobs), hosts=4)
    assert rules_broken(verify(empty, any_allocation_size=True)) == {"allocation-size"}


AWAY = [{"hosts": "1 3", "since": 6.0, "to": 9.0}, {"hosts": "0", "since": 30.0, "to": None}]


@pytest.mark.parametrize(
    ("start", "run_time", "hosts", "message"),
    [
        (6.0, 5.0, [1], ""),  # at the date at which the host goes away: it was decided before
        (2.0, 5.0, [1], ""),  # goes on
        (9.0, 5.0, [1], ""),
        (7.0, 1.0, [0, 2], ""),
        (7.0, 1.0, [0, 3], "on host 3 at 7.000000 s, which is away from 6.000000 s on until 9.0"),
        (31.0, 1.0, [0], "on host 0 at 31.000000 s, which is away from 30.000000 s on for ever"),
    ],
)
def test_no_job_starts_on_a_host_that_is_away(write_run, start, run_time, hosts, message):
    prefix = write_run([write_run.ran("a", 0, len(hosts), start, run_time, hosts)])
    Path(f"{prefix}_run.json").write_text(json.dumps({"hosts": 4, "outages": AWAY}))
    found = [each.message for each in verify(read_run(prefix)) if each.rule == "hosts-present"]
    assert len(found) == bool(message)
    assert message in "".join(found)


# Maintenance of host 1 from 20 to 30 was announced at 4; the job may take 8 s.
@pytest.mark.parametrize(
    ("start", "hosts", "message"),
    [
        (12.0, [1], ""),
        (13.0, [0], ""),
        (30.0, [1], ""),
        (3.0, [1], ""),  # before the notice
        (12.5, [0, 1], "starts on host 1 at 12.500000 s and may run until 20.500000 s, but main"),
        (29.0, [1], "but maintenance begins there at 20.000000 s"),
    ],
)
def test_no_job_reaches_into_maintenance(write_run, start, hosts, message):
    prefix = write_run([write_run.ran("a", 0, len(hosts), start, 2, hosts, walltime=8)])
    window = {"hosts": "1", "since": 20.0, "to": 30.0, "announced": 4.0}
    Path(f"{prefix}_run.json").write_text(json.dumps({"hosts": 4, "maintenance": [window]}))
    found = [each.message for each in verify(read_run(prefix)) if each.rule == "maintenance"]
    assert len(found) == bool(message)
    assert message in "".join(found)


@pytest.mark.parametrize(("start", "broken"), [(9.0, True), (10.0, False), (11.0, False)])
def test_no_job_starts_before_its_fixed_start(write_run, start, broken):
    result = read_run(write_run([write_run.ran("a", 0, 1, start, 5, [1])]))
    job = {"id": "a", "subtime": 0, "res": 1, "profile": "d4", "qos": {"start": 10}}
    found = {each.rule for each in verify(result, workloads=workload(jobs=[job]))}
    assert ("fixed-start" in found) == broken


@pytest.mark.parametrize(
    ("start", "kind", "cancellations", "message"),
    [
        (6.0, "", {"w0!a": 6.0}, ""),  # at the very date
        (6.5, "", {"w0!a": 6.0}, "starts at 6.500000 s, but was cancelled at 6.000000 s"),
        (6.5, "", {"w0!a": 1.0}, ""),  # before it was submitted
        (None, "cancelled", {"w0!a": 6.0}, ""),
        (None, "cancelled", {"w0!b": 6.0}, "said to have been cancelled, but nobody did that"),
        (None, "cancelled", {}, "said to have been cancelled, but nobody did that"),
        (None, "no_time", {"w0!a": 6.0}, ""),
    ],
)
def test_cancelled_jobs_do_not_start(write_run, start, kind, cancellations, message):
    hosts = None if start is None else [1]
    job = write_run.ran("a", 2, 1, start or 0.0, 5, hosts)
    prefix = write_run([job])
    decision = "rejected" if start is None else "accepted"
    Path(f"{prefix}_qos.csv").write_text(
        by_workload(f"job_id,decision,admitted_deadline,reason_kind\nw0!a,{decision},,{kind}\n")
    )
    described = {"hosts": 4, "cancellations": cancellations}
    Path(f"{prefix}_run.json").write_text(json.dumps(described))
    found = [each.message for each in verify(read_run(prefix)) if each.rule == "cancelled-jobs"]
    assert len(found) == bool(message)
    assert message in "".join(found)


def test_a_host_that_is_away_does_not_compute(write_run):
    # Host 1 runs the job from 5 to 10 and is away from 6 to 9; host 2 stays.
    prefix = write_run([write_run.ran("a", 0, 2, 5, 5, [1, 2])], hosts=4, totals=True)
    Path(f"{prefix}_run.json").write_text(json.dumps({"hosts": 4, "outages": AWAY}))
    schedule = Path(f"{prefix}_schedule.csv")
    names, values = (line.split(",") for line in schedule.read_text().splitlines())
    for found, expected in ((7.0, set()), (8.0, {"schedule-host-time"})):
        values[names.index("time_computing")] = f"{found:.6f}"
        schedule.write_text("\n".join([",".join(names), ",".join(values), ""]))
        assert rules_broken(verify(read_run(prefix))) == expected
    # On slow links the news of a host takes longer, and waits for other messages.
    slow = {"hosts": 4, "outages": AWAY, "message_delays": True, "round_trip": 0.125}
    Path(f"{prefix}_run.json").write_text(json.dumps(slow))
    assert verify(read_run(prefix)) == []


def test_sharing_and_workload_come_from_the_run(write_run, mixed_run, tmp_path):
    jobs = mixed_run()
    jobs[1].hosts = [1, 2]
    prefix = write_run(jobs)
    path = tmp_path / "kth.json"
    path.write_text(json.dumps(WORKLOAD))
    info = {"hosts": 4, "compute_sharing": True, "workload": str(path)}
    Path(f"{prefix}_run.json").write_text(json.dumps(info))
    result = read_run(prefix)
    assert recorded_workloads(result) == [path]
    assert verify(result, workloads=read_workloads([path])) == []
    assert rules_broken(verify(result, compute_sharing=False)) == {"exclusive-hosts"}
    path.unlink()
    assert recorded_workloads(result) == []


def test_a_run_by_its_name_is_held_against_the_workload_that_it_names(
    write_run, mixed_run, tmp_path
):
    path = tmp_path / "kth.json"
    more = [*WORKLOAD["jobs"], {"id": "7", "subtime": 0, "res": 1, "profile": "d4"}]
    path.write_text(json.dumps({**WORKLOAD, "jobs": more}))
    prefix = write_run(mixed_run(), hosts=4, totals=True)
    Path(f"{prefix}_run.json").write_text(json.dumps({"hosts": 4, "workload": str(path)}))
    assert rules_broken(verify(prefix)) == {"workload-jobs"}


def test_every_recorded_session_is_valid(shared):
    batsim = shared / "batsim"
    checked = set()
    for case in json.loads((batsim / "cases.json").read_text()):
        if not case["ended"]:
            continue
        result = read_run(batsim / "recorded" / case["name"])
        workloads = read_workloads([batsim / path for path in case["workloads"]])
        options = {"workloads": workloads, "compute_sharing": case["compute_sharing"]}
        mapped = case["name"] == "map_ok"  # runs with an execution mapping
        assert verify(result, any_allocation_size=mapped, **options) == [], case["name"]
        assert bool(verify(result, **options)) == mapped
        checked.add(case["name"])
    assert len(checked) > 50


@pytest.mark.parametrize("log", ["kth", "sdsc5k"])
@pytest.mark.parametrize("scheduler", ["easy_bf", "conservative_bf", "fcfs"])
def test_batsched_on_real_logs_is_valid(shared, log, scheduler):
    result = read_run(shared / "batsim" / "recorded" / f"batsched_{log}_{scheduler}")
    workloads = read_workloads([shared / "batsim" / "inputs" / f"{log}_delay.json.gz"])
    assert verify(result, workloads=workloads) == []


def test_a_rule_has_the_name_of_its_function():
    @rules.rule(rules.QOS_FILE, rules.WORKLOAD)
    def no_such_promise(subject):
        """Never broken."""
        return ()

    assert (no_such_promise.name, no_such_promise.needs) == (
        "no-such-promise",
        "a _qos.csv and the workload",
    )
    names = [each.name for each in RULES]
    assert len(set(names)) == len(names) == 33
    assert (names[0], names[-1]) == ("unique-jobs", "dedicated-alone")


def test_changes_near_the_midpoint_of_two_rounded_dates_count_either_way(write_run, tmp_path):
    # Batsim writes 2.002204 as 2.0022 and 2.002207 as 2.00221; the midpoint is within 2 us of both.
    ran = write_run.ran
    jobs = [ran("1", 0, 1, 2.002204, 4, [0]), ran("2", 0, 1, 2.002207, 4, [1])]
    prefix = write_run(jobs, hosts=2, totals=True)
    assert verify(read_run(prefix)) == []
    path = tmp_path / "run_machine_states.csv"
    path.write_text(path.read_text().replace("2.0022,0,0,0,1,1", "2.0022,0,0,0,5,5"))
    assert rules_broken(verify(read_run(prefix))) == {"machine-states"}


def test_each_rule_is_told_before_it_is_checked(write_run, mixed_run):
    result, told = read_run(write_run(mixed_run(), hosts=4, totals=True)), []
    verify(result, workloads=workload(), on_rule=told.append)
    assert told == Verification(result, workloads=workload()).rules


def test_the_file_that_an_object_came_from_is_not_taken_for_it(tmp_path):
    part = subset(read_workload(find_input(Path("sdsc_sp2_deadlines_500"), "workloads")), first=5)
    result = read_run(run("qops", part, out=tmp_path / "part").prefix)
    assert recorded_workloads(result) == []
    found, why_not = workloads_with_deadlines(result)
    assert (found, why_not) == ({}, "the workload with its deadlines came from a program")
