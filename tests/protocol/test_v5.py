"""The protocol of Batsim 5 at a decision process: recorded sessions, and what may be damaged."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError, Job, QopsError
from qops_batsim.core import HostSet
from qops_batsim.errors import SimulationError
from qops_batsim.protocol import DecisionSession, Message, Stamped
from qops_batsim.protocol import decisions as d
from qops_batsim.protocol import events as e
from qops_batsim.protocol.dialects import dialect_of
from qops_batsim.protocol.session import check_first_message
from qops_batsim.protocol.v5.decision_side import Batsim5Dialect
from qops_batsim.protocol.v5.handshake import (
    Features,
    greeting,
    is_greeting,
    read_answer,
    read_greeting,
)
from qops_batsim.protocol.v5.profiles import ProfileAndId, of_message, to_message
from support.damaged_messages import damaged


def texts(session: Path) -> list[bytes]:
    """Return the messages of Batsim in a recorded session, as on the wire."""
    lines = (json.loads(line) for line in (session / "transcript.jsonl").open())
    return [f"{each['raw']}\0".encode() for each in lines if each["from"] == "batsim"][1:]


def side(features: Features | None = None) -> Batsim5Dialect:
    made = Batsim5Dialect(greeting(""))
    made.hello("test", "1", features or Features())
    return made


def message(*events: tuple[str, dict[str, Any]], now: float = 10.0) -> bytes:
    items = [{"timestamp": now, "event_type": kind, "event": data} for kind, data in events]
    return json.dumps({"now": now, "events": items}).encode() + b"\0"


def answers(made: Batsim5Dialect, *decisions: d.Decision, now: float = 10.0) -> dict[str, Any]:
    text = made.encode(Message(now, [Stamped(now, each) for each in decisions]))
    answer: dict[str, Any] = json.loads(text)
    return answer


# The handshake


def test_the_first_frame_tells_the_dialects_apart() -> None:
    assert is_greeting(greeting(""))
    assert is_greeting(greeting('{"now": 1}'))
    assert not is_greeting(b'{"now": 0, "events": []}')
    assert dialect_of(greeting("word")).configuration == "word"
    assert dialect_of(b'{"now": 0, "events": []}').configuration is None
    assert read_greeting(greeting("é")) == "é"
    with pytest.raises(InputError, match="not in UTF-8"):
        read_greeting(b"\x01\0\0\0\xff")


def test_the_answer_to_the_greeting_asks_for_features() -> None:
    frame = Batsim5Dialect(greeting("")).hello("ours", "1.2", Features(dynamic_registration=True))
    hello = read_answer(frame)
    assert hello.decision_component_name == "ours"
    assert hello.requested_simulation_features == Features(dynamic_registration=True)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (b"\x02\0", "has 2 bytes"),
        (b"\x01\0\0\0{}", "flags are 1"),
        (b"\x02\0\0\0{}", "`events`"),
        (b"\x02\0\0\0{", "EDCHelloEvent is expected"),
        (b'\x02\0\0\0{"events": []}', "one EDCHelloEvent is expected"),
        (
            b'\x02\0\0\0{"events": [{"event_type": "EDCHelloEvent", "event": {'
            b'"batprotocol_version": "1", "decision_component_name": "a", '
            b'"decision_component_version": "1", "decision_component_commit": ""}}]}',
            "requested_simulation_features",
        ),
    ],
)
def test_wrong_answers_to_the_greeting_name_the_field(frame: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_answer(frame)


# Recorded sessions

NAMES = (
    *("allocations", "calls_nonet", "delays_nonet", "dynamic_ack", "dynamic_noack"),
    *("easy_net100", "empty", "external_events", "extra_data", "force_stop", "future_reply"),
    *("het_nonet", "kill_same_date", "kills_net", "kills_nonet", "latency_net", "probe"),
    *("reject_all", "same_date", "share_host", "share_random", "switching", "two_workloads"),
    *("types_net", "types_nonet", "walltimes_nonet"),
)


@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_message_is_read(batsim5_sessions: Path, name: str) -> None:
    made = side()
    for text in texts(batsim5_sessions / name):
        found = made.decode(text)
        told = json.loads(text.rstrip(b"\0"))
        assert found is not None
        assert found.now == round(told["now"], 6)
        assert len(found.events) == len(told["events"])


def test_events_are_those_of_batsim_4(batsim5_sessions: Path) -> None:
    made = side()
    made.decode(texts(batsim5_sessions / "kills_nonet")[0])
    found = [
        item.body
        for text in texts(batsim5_sessions / "kills_nonet")[1:]
        for item in (made.decode(text) or Message(0.0, [])).events
    ]
    submitted = next(each for each in found if isinstance(each, e.JobSubmitted))
    assert submitted.job == Job.from_fields(
        {"id": "w0!1", "subtime": 0.0, "res": 2, "profile": "d100", "walltime": 1000.0}, where=""
    )
    assert e.Notify.of(e.NO_MORE_STATIC_JOBS) in found
    ended = [each for each in found if isinstance(each, e.JobCompleted)]
    assert [(each.job_id, each.return_code) for each in ended][:2] == [("w0!1", -1), ("w0!2", -2)]
    killed = [each for each in found if isinstance(each, e.JobKilled)]
    assert killed[0].job_progress["w0!1"] == {"profile_name": "d100", "progress": 0.04}
    assert killed[1].job_progress["w0!3"] == {
        "profile_name": "seq",
        "current_task_index": 1,
        "current_task": {"profile_name": "hom", "progress": 0.5},
    }
    assert isinstance(found[-1], e.SimulationEnds)


def test_dates_of_stale_events_are_those_of_their_message(batsim5_sessions: Path) -> None:
    made = side()
    dates = [
        (found.now, item.timestamp)
        for text in texts(batsim5_sessions / "switching")
        for found in [made.decode(text)]
        if found is not None
        for item in found.events
        if isinstance(item.body, e.ResourceStateChanged)
    ]
    assert dates == [(42.0, 42.0), (80.0, 80.0), (100.0, 100.0), (120.0, 120.0)]


def test_what_users_ask_for_comes_as_extra_data() -> None:
    body = {"resource_request": 1, "profile_id": "w0!p", "walltime": None}
    cases = {'{"deadline": 50.5}': "qos", '{"colour": 1}': "extra_data", "a text": "extra_data"}
    for text, field in cases.items():
        data = {"job_id": "w0!1", "job": {**body, "extra_data": text}, "submission_time": 0.0}
        found = side().decode(message(("JobSubmittedEvent", data)))
        assert found is not None
        job = found.events[0].body.job  # type: ignore[union-attr]
        assert field in job.fields
        assert (job.qos is not None) == (field == "qos")


def test_external_events_tell_in_their_text_that_hosts_leave() -> None:
    def told(text: str) -> e.Event:
        data = {
            "id": "ee0!0",
            "external_event_type": "GenericExternalEvent",
            "external_event": {"data": text},
        }
        found = side().decode(message(("ExternalEventOccurredEvent", data)))
        assert found is not None
        return found.events[0].body

    assert told('{"type": "machine_unavailable", "resources": "0-1"}') == e.Notify.of(
        e.MACHINES_AWAY, resources="0-1"
    )
    assert told('{"type": "job_cancelled", "job_id": "w0!1"}') == e.Notify.of(
        "job_cancelled", job_id="w0!1"
    )
    assert told("rain") == e.Notify.of("generic", id="ee0!0", data="rain")


# Decisions


def test_decisions_have_all_that_the_schema_requires() -> None:
    made = side()
    made.decode(message())
    job = Job("w0!1#1", 0.0, 2, "p", 5.0)
    answer = answers(
        made,
        d.ExecuteJob("w0!1", HostSet.parse("0-1"), {"0": "1", "1": "0"}),
        d.RejectJob("w0!2"),
        d.RegisterProfile("w0", "p", {"type": "delay", "delay": 3.0}),
        d.RegisterJob("w0!1#1", job),
        d.SetJobMetadata("w0!1", "left out"),
        d.Notify.of("registration_finished"),
    )
    assert answer["now"] == 10.0
    assert [(each["event_type"], each["event"]) for each in answer["events"]] == [
        (
            "ExecuteJobEvent",
            {
                "job_id": "w0!1",
                "allocation": {
                    "host_allocation": "0-1",
                    "executor_placement_type": "CustomExecutorToHostMapping",
                    "executor_placement": {"mapping": [1, 0]},
                },
            },
        ),
        ("RejectJobEvent", {"job_id": "w0!2"}),
        (
            "RegisterProfileEvent",
            {"profile": {"id": "w0!p", "profile_type": "DelayProfile", "profile": {"delay": 3.0}}},
        ),
        (
            "RegisterJobEvent",
            {
                "job_id": "w0!1#1",
                "job": {"resource_request": 2, "profile_id": "w0!p", "walltime": 5.0},
            },
        ),
        ("FinishRegistrationEvent", {}),
    ]


def test_a_job_is_killed_once() -> None:
    made = side()
    assert answers(made, d.KillJob(["w0!1", "w0!1"]))["events"][0]["event"] == {"job_ids": ["w0!1"]}
    assert answers(made, d.KillJob(["w0!1"]))["events"] == []


def test_decisions_that_batsim_5_has_not_are_errors() -> None:
    with pytest.raises(SimulationError, match="decides QUERY, which Batsim 5 does not support"):
        answers(side(), d.Query({"requests": {"consumed_energy": {}}}))


def test_a_call_on_a_millisecond_is_asked_for() -> None:
    made = side()
    made.decode(message())
    (event,) = answers(made, d.CallMeLater(10.25))["events"]
    assert event["event"]["when"] == {"time": 10250, "time_unit": "Millisecond"}
    call = {"call_me_later_id": event["event"]["call_me_later_id"]}
    found = made.decode(message(("RequestedCallEvent", call), now=10.25))
    assert found is not None
    assert found.events[0].body == e.RequestedCall()


def test_a_call_between_two_milliseconds_comes_at_its_date() -> None:
    made = side()
    made.decode(message())
    (event,) = answers(made, d.CallMeLater(10.2503))["events"]
    assert event["event"]["when"]["time"] == 10250
    call = {"call_me_later_id": event["event"]["call_me_later_id"]}
    assert made.decode(message(("RequestedCallEvent", call), now=10.25)) is None
    # Nothing is to be heard until then.
    answer = json.loads(made.encode(None))
    assert answer["now"] == 10.2503
    (soon,) = answer["events"]
    assert soon["timestamp"] == 10.2503
    call = {"call_me_later_id": soon["event"]["call_me_later_id"]}
    found = made.decode(message(("RequestedCallEvent", call), now=10.2503))
    assert found == Message(10.2503, [Stamped(10.2503, e.RequestedCall())])
    assert json.loads(made.encode(None)) == {"now": 10.2503, "events": []}


def test_two_calls_at_a_time_are_told_apart() -> None:
    made = side()
    made.decode(message())
    asked = answers(made, d.CallMeLater(10.2503), d.CallMeLater(20.0))["events"]
    first, second = (each["event"]["call_me_later_id"] for each in asked)
    assert first != second
    # The first one comes before its own date.
    call = ("RequestedCallEvent", {"call_me_later_id": first})
    assert made.decode(message(call, now=10.25)) is None
    assert json.loads(made.encode(None))["now"] == 10.2503


def test_hosts_are_switched_to_sleep_and_between_speeds(batsim5_sessions: Path) -> None:
    made = side()
    made.decode(texts(batsim5_sessions / "switching")[0])
    kinds = []
    for state in ("1", "0"):
        (event,) = answers(made, d.SetResourceState(HostSet.parse("0"), state))["events"]
        kinds.append(event["event_type"])
        data = {"host_ids": "0", "state": int(state)}
        made.decode(message(("HostsTurnedOnOffEvent", data)))
    kinds += [
        event["event_type"]
        for event in answers(made, d.SetResourceState(HostSet.parse("1"), "0"))["events"]
    ]
    assert kinds == ["TurnOnOffHostsEvent", "TurnOnOffHostsEvent", "ChangeHostsPStateEvent"]


@pytest.mark.parametrize(
    "profile",
    [
        {"type": "delay", "delay": 3.5},
        {"type": "parallel", "cpu": [1.0, 2.0], "com": [0.0, 1.0, 1.0, 0.0]},
        {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0.0},
        {"type": "parallel_homogeneous_total", "cpu": 1e9, "com": 5.0},
        {"type": "composed", "repeat": 2, "seq": ["a", "b"]},
        {"type": "parallel_homogeneous_pfs", "bytes_to_read": 5.0, "storage": "pfs"},
        {"type": "data_staging", "nb_bytes": 5.0, "from": "a", "to": "b"},
        {"type": "usage_trace", "trace": "t"},
        {"type": "smpi", "trace": "t"},
    ],
    ids=lambda profile: profile["type"],
)
def test_profiles_keep_their_meaning(profile: dict[str, Any]) -> None:
    assert of_message(to_message("w0", "p", profile)) == ("w0", "p", profile)


def test_profiles_that_batsim_5_has_not_are_errors() -> None:
    with pytest.raises(InputError, match="type is 'send', which Batsim 5 does not support"):
        to_message("w0", "p", {"type": "send", "msg": ""})
    with pytest.raises(InputError, match="profile_type is unknown: 'ForkJoinCompositionProfile'"):
        of_message(ProfileAndId("w0!p", "ForkJoinCompositionProfile", {}))
    with pytest.raises(InputError, match="id of the profile is 'p'"):
        of_message(ProfileAndId("p", "DelayProfile", {"delay": 1}))


# Whole sessions


def test_a_session_decides_for_batsim_5(batsim5_sessions: Path) -> None:
    session = DecisionSession("easy")
    hello = read_answer(session.answer(greeting("")))
    assert hello.decision_component_name == "qops-batsim"
    first, second = texts(batsim5_sessions / "delays_nonet")[:2]
    assert json.loads(session.answer(first)) == {"now": 0.0, "events": []}
    started = json.loads(session.answer(second))["events"]
    assert [each["event"]["allocation"]["host_allocation"] for each in started] == ["0-1", "2-3"]


def test_a_session_takes_options_from_the_greeting() -> None:
    with pytest.raises(InputError, match="no_such_option"):
        DecisionSession("easy").answer(greeting('{"no_such_option": 1}'))
    session = DecisionSession("fqops")
    hello = read_answer(session.answer(greeting('{"kill_and_restart": true}')))
    assert hello.requested_simulation_features.dynamic_registration


def test_a_greeting_may_come_first() -> None:
    check_first_message(greeting(""))
    with pytest.raises(InputError, match="not in UTF-8"):
        check_first_message(b"\x01\0\0\0\xff")


def test_a_simulation_begins_first() -> None:
    session = DecisionSession("easy")
    session.answer(greeting(""))
    with pytest.raises(InputError, match="begins with nothing; SIMULATION_BEGINS is expected"):
        session.answer(message())


def test_damaged_messages_are_refused_or_read(batsim5_sessions: Path) -> None:
    rng = random.Random(5)
    known = [texts(batsim5_sessions / name) for name in NAMES]
    refused = 0
    for _ in range(1500):
        session = DecisionSession("easy", any_engine=True)
        session.answer(greeting(""))
        story = rng.choice(known)
        broken = rng.randrange(min(len(story), 6))
        try:
            for place, text in enumerate(story[: broken + 1]):
                session.answer(damaged(text, rng) if place == broken else text)
        except QopsError:
            refused += 1
    assert refused > 500
