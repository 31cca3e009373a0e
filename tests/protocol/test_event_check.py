"""What engines cannot say: one error that names event and field, whatever the scheduler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError
from qops_batsim.core import HostSet
from qops_batsim.protocol import (
    DecisionSession,
    ExecuteJob,
    JobSubmitted,
    RegisterJob,
    decode_decisions,
)
from qops_batsim.protocol.event_check import EventCheck
from qops_batsim.protocol.messages import decode_events
from support.decision_process import begins
from support.recordings import cases

Said = tuple[str, dict[str, Any]]

BEGINS = {**begins(4), "profiles": {"w0": {"d": {"type": "delay", "delay": 10}}}}
SHARING = {"allow_compute_sharing": True, "config": {"dynamic-jobs-enabled": True}}


def submitted(name: str, **fields: Any) -> Said:
    job = {"id": f"w0!{name}", "subtime": 0, "res": 2, "profile": "d", "walltime": 20, **fields}
    return "JOB_SUBMITTED", {"job_id": f"w0!{name}", "job": job}


def completed(name: str, alloc: str = "0-1", state: str = "COMPLETED_SUCCESSFULLY") -> Said:
    data = {"job_id": f"w0!{name}", "job_state": state, "return_code": 0, "alloc": alloc}
    return "JOB_COMPLETED", data


def told(now: Any, *events: Said) -> str:
    items = [{"timestamp": now, "type": kind, "data": data} for kind, data in events]
    return json.dumps({"now": now, "events": items})


def begun(**fields: Any) -> Said:
    return "SIMULATION_BEGINS", {**BEGINS, **SHARING, **fields}


def profile(**fields: Any) -> Said:
    return begun(profiles={"w0": {"p": fields}})


BAD_BEGINNINGS = [
    (submitted("1"), "(JOB_SUBMITTED): the first event is another one; SIMULATION_BEGINS is ex"),
    (begun(nb_compute_resources=5), "nb_compute_resources is 5; 4, the number of hosts in"),
    (
        begun(compute_resources=[{"id": n, "name": "h"} for n in (0, 1, 1, 3)]),
        "compute_resources[2]: id is 1; 2, the host's position in the list, is expected",
    ),
    (profile(type="delay", delay="10"), "profile 'p' of workload 'w0': delay is '10'; a number"),
    (profile(type="parallel_homogeneous", cpu=-1, com=0), "cpu is -1; a number is expected"),
    (profile(type="parallel", cpu=[1, None], com=[]), "cpu is [1, null]; numbers are expected"),
    (profile(type="composed", seq="d"), "seq is 'd'; names of profiles are expected"),
    (profile(type="composed", seq=[], repeat=10**9), "repeat is 1000000000; a whole number up to"),
]

BAD_EVENTS = [
    (submitted("1"), "job_id is 'w0!1', a job that runs; a new job is expected"),
    (submitted("2"), "job_id is 'w0!2', a job that waits; a new job is expected"),
    (submitted("9", res=0, id="w0!8"), "job.id is 'w0!8'; 'w0!9', the same as job_id, is ex"),
    (completed("9"), "job_id is 'w0!9', a job that is not known; a running job is expected"),
    (completed("2"), "job_id is 'w0!2', a job that waits; a running job is expected"),
    (
        completed("1", "0-2"),
        "alloc is '0-2'; '0-1', the hosts on which job 'w0!1' was started, is expected",
    ),
    (completed("1", "7"), "alloc is '7'; hosts 0 to 3 are expected"),
    (completed("1", state="REJECTED"), "job_state is 'REJECTED'; one of COMPLETED_FAILED, "),
    (("JOB_KILLED", {"job_ids": ["w0!1"]}), "job_ids has 'w0!1', which the scheduler did not kill"),
    (
        ("JOB_KILLED", {"job_ids": [], "job_progress": {"x": {"progress": 2}}}),
        "job_progress of job 'x': progress is 2; a number from 0 to 1 is expected",
    ),
    (
        ("NOTIFY", {"type": "event_machine_unavailable", "resources": "3-4"}),
        "resources is '3-4'; hosts 0 to 3 are expected",
    ),
    (
        ("NOTIFY", {"type": "event_machine_available", "resources": [3]}),
        "resources is [3]; hosts, a text such as '0-3 5', are expected",
    ),
    (("RESOURCE_STATE_CHANGED", {"resources": "4", "state": "1"}), "resources is '4'; hosts 0"),
    (begun(), "SIMULATION_BEGINS comes a second time; once is expected"),
]


@pytest.mark.parametrize(("event", "said"), BAD_BEGINNINGS)
def test_a_beginning_that_cannot_be(event: Said, said: str) -> None:
    with pytest.raises(InputError) as caught:
        DecisionSession("aroma").answer(told(0.0, event))
    assert said in str(caught.value)
    assert str(caught.value).startswith("message at 0 s, event 0 (")


@pytest.mark.parametrize("scheduler", ["fcfs", "aroma"])
@pytest.mark.parametrize(("event", "said"), BAD_EVENTS)
def test_an_event_that_cannot_have_happened(scheduler: str, event: Said, said: str) -> None:
    session = DecisionSession(scheduler)
    session.answer(told(0.0, begun()))
    decisions = decode_decisions(session.answer(told(1.0, submitted("1", res=2)))).events
    assert str(decisions[0].body.alloc) == "0-1"
    session.answer(told(2.0, submitted("2", res=4, qos={"class": "dedicated"})))
    with pytest.raises(InputError) as caught:
        session.answer(told(3.0, ("REQUESTED_CALL", {}), event))
    assert said in str(caught.value)
    assert str(caught.value).startswith("message at 3 s, event 1 (")


def test_nothing_happens_twice_or_after_the_end() -> None:
    session = DecisionSession("fcfs")
    session.answer(told(0.0, begun()))
    session.answer(told(1.0, submitted("1")))
    session.answer(told(2.0, completed("1")))
    for event, state in ((completed("1"), "a running job is"), (submitted("1"), "is expected")):
        with pytest.raises(InputError, match=f"'w0!1', a job that has ended before; .*{state}"):
            session.answer(told(3.0, event))
    with pytest.raises(InputError, match="an event follows SIMULATION_ENDS; none is expected"):
        session.answer(told(3.0, ("SIMULATION_ENDS", {}), ("REQUESTED_CALL", {})))


def test_a_registered_job_may_run_before_its_news_comes_once() -> None:
    check = EventCheck()
    check.check(decode_events(told(0.0, begun())))
    (job,) = decode_events(told(0.0, submitted("1#1"))).events
    assert isinstance(job.body, JobSubmitted)
    check.note([RegisterJob("w0!1#1", job.body.job), ExecuteJob("w0!1#1", HostSet.parse("0-1"))])
    check.check(decode_events(told(1.0, submitted("1#1"))))
    with pytest.raises(InputError, match="'w0!1#1', a job that runs; a new job is expected"):
        check.check(decode_events(told(1.0, submitted("1#1"))))
    check.check(decode_events(told(2.0, completed("1#1"))))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"now":1e13,"events":[]}',
            "message at 1e+13 s is too late; a date up to 1e+12 s is expected",
        ),
        ('{"now":-1,"events":[]}', "message at -1 s comes after one at 0 s"),
        ('{"now":%s,"events":[]}' % ("9" * 401), "field now is Infinity; a number is expected"),
        (
            '{"now":0,"events":[{"timestamp":-1e13,"type":"SIMULATION_BEGINS","data":{}}]}',
            "(SIMULATION_BEGINS): ",
        ),
        (
            b'{"now":0,"events":[{"timestamp":0,"type":"NOTIFY","data":{"type":"\xff"}}]}',
            "not UTF-8 text",
        ),
    ],
)
def test_dates_and_texts_that_cannot_be(text: str | bytes, said: str) -> None:
    with pytest.raises(InputError) as caught:
        DecisionSession("fcfs").answer(text)
    assert said in str(caught.value)


def test_all_that_batsim_was_recorded_to_say_can_be(shared: Path) -> None:
    counted = 0
    for case in cases(shared):
        check = EventCheck()
        for each in case.messages():
            if each["from"] == "batsim":
                check.check(decode_events(each["raw"], lambda *_: None))
                counted += 1
                continue
            try:
                check.note([item.body for item in decode_decisions(each["raw"]).events])
            except InputError:
                break  # These sessions end with a decision that is none.
    assert counted > 1000


def test_aroma_stops_a_job_that_should_have_ended_long_ago() -> None:
    session = DecisionSession("aroma")
    config = {"dynamic-jobs-enabled": True, "dynamic-jobs-acknowledged": True}
    profiles = {"w0": {"d": {"type": "delay", "delay": 0}}}
    session.answer(told(0.0, begun(config=config, profiles=profiles)))
    session.answer(told(0.0, submitted("1", res=4, walltime=1000, qos={"class": "best_effort"})))
    session.answer(told(1.0, submitted("2", res=4, walltime=10, qos={"class": "high_priority"})))
    killed = ("JOB_KILLED", {"job_ids": ["w0!1"], "job_progress": {"w0!1": {"progress": 0.5}}})
    answer = session.answer(told(1.0, completed("1", "0-3", "COMPLETED_KILLED"), killed))
    types = [item.body.TYPE for item in decode_decisions(answer).events]
    assert types[:3] == ["REGISTER_PROFILE", "REGISTER_JOB", "EXECUTE_JOB"]
