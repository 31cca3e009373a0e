"""Classes of service for the jobs of a log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qops_batsim import InputError, Job, QosRequest, read_swf
from qops_batsim.jobs import QOS_CLASSES
from qops_batsim.workload import (
    ClassChoices,
    LogFacts,
    Repairs,
    SwfLog,
    Workload,
    application_of,
    assign_classes,
    convert_log,
    delay_profile,
    format_workload,
    name_queues,
    parse_workload,
    subset,
)
from qops_batsim.workload.log_records import RECORD
from qops_batsim.workload.service_classes import (
    CLASS_OF_QUEUE,
    SDSC_MIX,
    compute_profile,
    count_classes,
)
from qops_batsim.workload.swf import SwfHeader

NAMES = {"1": "express", "2": "high", "3": "normal", "4": "low", "5": "standby"}


def workload(*rows: tuple[float, int, float, Any]) -> Workload:
    """Return jobs 1, 2, … from submission, processors, run time and queue number or name."""
    jobs, profiles = [], {}
    for number, (submission, processors, run_time, queue) in enumerate(rows, 1):
        name, profiles[name] = delay_profile(run_time)
        fields = {"id": str(number), "subtime": submission, "res": processors, "profile": name}
        if isinstance(queue, int):
            fields["queue"] = queue
        elif queue is not None:
            fields["qos"] = {"queue": queue}
        jobs.append(Job.from_fields(fields, where="test"))
    return Workload(jobs=jobs, profiles=profiles, processors=8)


def asked(changed: Workload) -> list[QosRequest]:
    assert all(job.qos is not None for job in changed.jobs)
    return [job.qos for job in changed.jobs if job.qos is not None]


def test_queues_become_classes() -> None:
    rows = [(10.0, 2, 100.0, number) for number in (1, 2, 3, 4, 5)]
    changed = assign_classes(workload(*rows), facts=LogFacts(queue_names=NAMES))
    assert [qos.queue for qos in asked(changed)] == list(NAMES.values())
    assert [qos.service_class for qos in asked(changed)] == [
        "high_priority",
        "dedicated",
        "deadline",
        "best_effort",
        "best_effort",
    ]
    # Only the third has a deadline: 10 + 5 × 100.
    assert [qos.deadline for qos in asked(changed)] == [None, None, 510, None, None]
    assert [qos.estimated_runtime for qos in asked(changed)] == [100] * 5
    assert changed.profiles == {
        "compute100": {"type": "parallel_homogeneous", "cpu": 100_000_000_000, "com": 0}
    }
    assert all(job.walltime is None and job.processors == 2 for job in changed.jobs)
    text = format_workload(changed)
    assert format_workload(parse_workload(text, source="x")) == text


def test_one_class_for_all_keeps_the_queues() -> None:
    rows = [(0.0, 1, 10.0, name) for name in ("low", "express")]
    changed = assign_classes(workload(*rows), ClassChoices(every="dedicated"))
    assert [qos.service_class for qos in asked(changed)] == ["dedicated"] * 2
    assert [qos.queue for qos in asked(changed)] == ["low", "express"]


def test_a_walltime_cuts_the_work_and_is_gone() -> None:
    name, profile = delay_profile(500)
    old = Workload(
        jobs=[Job("1", 0.0, 1, name, 100.0, QosRequest(queue="normal", memory=3.0))],
        profiles={name: profile},
        processors=1,
    )
    changed = assign_classes(old, ClassChoices(deadline_factor=2, speed=10))
    assert changed.jobs[0].walltime is None
    assert changed.profiles["compute100"]["cpu"] == 1000
    assert changed.jobs[0].fields["qos"] == {
        "queue": "normal",
        "memory": 3,
        "class": "deadline",
        "estimated_runtime": 100,
        "deadline": 200,
        "has_user_deadline": True,
    }


def test_measured_cpu_times_count_where_there_are_some() -> None:
    rows = [(0.0, 1, 10.0, "normal")] * 3
    changed = assign_classes(workload(*rows), cpu_times={"1": 4.0, "3": 0.0})
    # 0 is what a log says of less than a second.
    assert [qos.estimated_runtime for qos in asked(changed)] == [4, 10, 1]
    assert changed.provenance["cpu_times"] == {"run time": 1, "measured": 2}


def test_tasks_apart_are_one_application() -> None:
    rows = [(5.0, 3, 10.0, "low"), (6.0, 1, 20.0, "high")]
    changed = assign_classes(workload(*rows), ClassChoices(tasks="apart"))
    assert [(job.id, job.processors) for job in changed.jobs] == [
        ("1t1", 1),
        ("1t2", 1),
        ("1t3", 1),
        ("2t1", 1),
    ]
    assert [application_of(job) for job in changed.jobs] == ["1", "1", "1", "2"]
    assert [job.submission_time for job in changed.jobs] == [5, 5, 5, 6]
    assert count_classes(changed) == {"dedicated": 1, "best_effort": 1}
    together = assign_classes(workload(*rows))
    assert [application_of(job) for job in together.jobs] == ["1", "2"]
    assert count_classes(together) == count_classes(changed)


def test_draws_follow_the_mix_and_belong_to_the_job() -> None:
    many = workload(*[(float(n), 1, 10.0, None) for n in range(4_000)])
    named = name_queues(many)
    counts = Counter(qos.queue for qos in asked(named))
    total = sum(SDSC_MIX.values())
    for queue, jobs in SDSC_MIX.items():
        share = jobs / total
        # Four standard deviations of a binomial number.
        assert abs(counts[queue] - 4_000 * share) < 4 * (4_000 * share * (1 - share)) ** 0.5
    assert name_queues(many).jobs == named.jobs
    assert name_queues(many, ClassChoices(seed=2)).jobs != named.jobs
    part = name_queues(subset(many, skip=1_000, first=50))
    assert part.jobs == named.jobs[1_000:1_050]
    assert named.provenance["drawn"] == 4_000
    assert named.provenance["mix"] == SDSC_MIX


def test_a_log_tells_queues_cpu_times_and_waits() -> None:
    records = np.zeros(2, RECORD)
    records["job_number"] = [7, 9]
    records["average_cpu_time"] = [12.5, -1]
    records["wait_time"] = [-1, 30]
    header = SwfHeader((" Queue: 1 express", " Queue: 2 high priority", " X: "))
    facts = LogFacts.of(SwfLog(records=records, header=header))
    assert facts.queue_names == {"1": "express", "2": "high"}
    assert facts.cpu_times == {"7": 12.5}
    assert facts.waits == {"9": 30.0}


def test_the_mix_is_what_the_log_holds(shared: Path) -> None:
    log = read_swf(shared / "traces" / "SDSC-SP2-1998-first5000.swf.gz")
    facts = LogFacts.of(log)
    named = Counter(facts.queue_names[str(n)] for n in log.records["queue"].tolist())
    assert named == SDSC_MIX
    assert len(facts.cpu_times) == 4_347
    converted = convert_log(log, repairs=Repairs(overrun="clip")).workload
    changed = assign_classes(converted, facts=facts)
    assert count_classes(changed) == {
        "deadline": 2_594,
        "high_priority": 612,
        "dedicated": 533,
        "best_effort": 867,
    }
    assert changed.provenance["made_from"]["drawn"] == 0


def test_every_class_has_a_queue() -> None:
    assert set(CLASS_OF_QUEUE.values()) == set(QOS_CLASSES)
    assert set(CLASS_OF_QUEUE) == set(SDSC_MIX)


def test_profiles_with_communication_have_names_of_their_own() -> None:
    name, body = compute_profile(1.5, 2e9, 1e6)
    assert name == "compute1.5_send1000000"
    assert body == {"type": "parallel_homogeneous", "cpu": 3_000_000_000, "com": 1_000_000}


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"every": "gold"}, "class is 'gold' .known: best_effort"),
        ({"tasks": "both"}, "tasks is 'both' .known: apart, together"),
        ({"seed": -1}, "seed is -1; a whole"),
        ({"deadline_factor": 0.5}, "deadline factor is 0.5; a number from 1"),
        ({"deadline_factor": float("nan")}, "deadline factor is nan"),
        ({"speed": 0}, "speed is 0; a number of flop/s"),
    ],
)
def test_choices_out_of_range(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        assign_classes(workload((0.0, 1, 10.0, "low")), ClassChoices(**choices))


def test_a_queue_without_class_is_named() -> None:
    with pytest.raises(
        InputError, match="queue '3' has no class of service; the log .--log. tells"
    ):
        assign_classes(workload((0.0, 1, 10.0, 3)))
    with pytest.raises(InputError, match="queue 'norml' has no class .* did you mean 'normal'"):
        assign_classes(workload((0.0, 1, 10.0, "norml")))
