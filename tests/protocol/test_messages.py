import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, Job
from qops_batsim.core import HostDescription, HostSet
from qops_batsim.protocol import (
    Answer,
    CallMeLater,
    EngineConfig,
    ExecuteJob,
    JobCompleted,
    JobKilled,
    JobSubmitted,
    KillJob,
    Message,
    Notify,
    RegisterJob,
    RejectJob,
    RequestedCall,
    SimulationBegins,
    Stamped,
    decode_decisions,
    encode_message,
)
from qops_batsim.protocol.decisions import (
    DECISION_TYPES,
    ChangeJobState,
    Query,
    RegisterProfile,
    SetJobMetadata,
    SetResourceState,
    ToJobMessage,
)
from qops_batsim.protocol.events import (
    EVENT_TYPES,
    FromJobMessage,
    ResourceStateChanged,
    SimulationEnds,
)
from qops_batsim.protocol.messages import decode_events, rounded_message

REFUSED = {"err_badtype": "FOO", "err_nop_type": "NOP"}
"""Sessions in which Batsim aborts because it does not know a decision's type."""

Decoder = Callable[[bytes | str], Message[Any]]


def one(kind: str, data: str, *, now: str = "5", timestamp: str = "5") -> str:
    """Return a message with one event or decision."""
    item = f'{{"timestamp": {timestamp}, "type": "{kind}", "data": {data}}}'
    return f'{{"now": {now}, "events": [{item}]}}'


def refusal(text: bytes | str, decode: Decoder = decode_decisions) -> str:
    """Return the one line with which a message is refused."""
    with pytest.raises(InputError) as caught:
        decode(text)
    message = str(caught.value)
    assert message.startswith("message")
    assert "\n" not in message
    assert len(message) < 400
    return message


def later_fields(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of Batsim 3.1.0 with the fields that came later, at their defaults."""
    for event in message["events"]:
        if event["type"] == "SIMULATION_BEGINS":
            data = event["data"]
            data["config"] = {"sched-config": ""} | data["config"]
            for host in data["compute_resources"] + data["storage_resources"]:
                host.setdefault("zone_properties", {})
    return message


def test_every_recorded_message_survives(shared: Path) -> None:
    checked = 0
    for path in sorted((shared / "batsim" / "recorded").glob("*.transcript.jsonl")):
        name = path.name.partition(".")[0]
        for line in path.read_text().splitlines():
            record = json.loads(line)
            decode: Decoder = decode_events if record["from"] == "batsim" else decode_decisions
            expected = json.loads(record["raw"])
            if name in REFUSED and any(
                item["type"] == REFUSED[name] for item in expected["events"]
            ):
                assert f"unknown type '{REFUSED[name]}'" in refusal(record["raw"], decode)
                continue
            if name.startswith("v310_"):
                expected = later_fields(expected)
            assert json.loads(encode_message(decode(record["raw"]))) == expected, (name, line)
            checked += 1
    assert checked > 1700


EVENTS = [
    SimulationBegins(
        nb_resources=1,
        nb_compute_resources=1,
        config=EngineConfig(sched_config="{}", dynamic_jobs_enabled=True),
        compute_resources=[HostDescription(0, "host0", "idle", {"role": ""}, {"a": "b"})],
        workloads={"w0": "w.json"},
        profiles={"w0": {"d": {"type": "delay", "delay": 1}}},
    ),
    JobSubmitted("w0!1", Job("w0!1", 0.0, 2, "d", walltime=9.0)),
    JobSubmitted("w0!1", Job("w0!1", 0.0, 2, "d"), {"type": "delay", "delay": 1}),
    JobCompleted("w0!1", "COMPLETED_FAILED", 3, HostSet.parse("0-1 5")),
    JobKilled(["w0!1"], {"w0!1": {"profile_name": "d", "progress": 0.5}}),
    RequestedCall(),
    ResourceStateChanged(HostSet.parse("3"), "1"),
    FromJobMessage("w0!1", {"any": ["thing"]}),
    Notify.of("no_more_static_job_to_submit"),
    Query({"requests": {"estimate_waiting_time": {"job_id": "w0!1"}}}),
    Answer({"consumed_energy": 3.5}),
    SimulationEnds(),
]
DECISIONS = [
    ExecuteJob("w0!1", HostSet.parse("0-1"), {"0": "0", "1": "0"}, {"disk": 7}),
    RejectJob("w0!1"),
    KillJob(["w0!1", "w0!2"]),
    CallMeLater(7.5),
    RegisterJob("dyn!1", Job("dyn!1", 5.0, 1, "d")),
    RegisterProfile("dyn", "d", {"type": "delay", "delay": 1}),
    SetJobMetadata("w0!1", 'a "quoted" text'),
    ChangeJobState("w0!1", "COMPLETED_KILLED", "because"),
    ChangeJobState("w0!1", "RUNNING"),
    SetResourceState(HostSet.parse("0 2"), "1"),
    ToJobMessage("w0!1", None),
    Query({"requests": {"consumed_energy": {}}}),
    Notify.of("registration_finished"),
    Answer({"x": None}),
]


@pytest.mark.parametrize(
    ("bodies", "types", "decode"),
    [(EVENTS, EVENT_TYPES, decode_events), (DECISIONS, DECISION_TYPES, decode_decisions)],
    ids=["events", "decisions"],
)
def test_every_type_survives(bodies: list[Any], types: dict[str, type], decode: Decoder) -> None:
    assert {type(body) for body in bodies} == set(types.values())
    message = Message(5.0, [Stamped(float(date), body) for date, body in enumerate(bodies)])
    assert decode(encode_message(message)) == message
    assert decode(encode_message(message).decode()) == message


def test_the_text_of_a_message() -> None:
    message = Message(5.0, [Stamped(4.5, ExecuteJob("w0!1", HostSet.parse("5 0-3")))])
    assert encode_message(message) == (
        b'{"now":5.0,"events":[{"timestamp":4.5,"type":"EXECUTE_JOB",'
        b'"data":{"job_id":"w0!1","alloc":"0-3 5"}}]}'
    )


EXACT = 1.23456789
TOLD = 1.234568


def holding(number: float) -> list[Any]:
    """Return everything that an engine says in which there are numbers of its own."""
    nested = {"delay": number, "seq": [number, {"x": number}], "name": "1.23456789", "ret": 3}
    fields = {"id": "w0!1", "subtime": number, "res": 2, "walltime": number, "profile": "d"}
    job = Job.from_fields({**fields, "qos": {"deadline": number}}, where="")
    return [
        msgspec.structs.replace(EVENTS[0], profiles={"w0": {"d": nested}}),
        JobSubmitted("w0!1", job, nested),
        JobKilled(["w0!1"], {"w0!1": {"progress": number}}),
        FromJobMessage("w0!1", number),
        Notify.of("x", y=nested),
        Answer({"consumed_energy": number}),
    ]


def test_a_rounded_message_has_the_numbers_that_batsim_tells() -> None:
    exact, told = (
        Message(number, [Stamped(number, body) for body in holding(number)])
        for number in (EXACT, TOLD)
    )
    assert rounded_message(exact) == told
    assert exact.events[1].body.job.fields["subtime"] == EXACT, "was changed in place"
    assert str(EXACT) not in encode_message(rounded_message(exact)).decode().replace(
        f'"{EXACT}"', ""
    )


def test_a_message_is_rounded_however_deeply_its_data_is_nested() -> None:
    deep: Any = EXACT
    for _ in range(5000):
        deep = [deep]
    told = rounded_message(Message(EXACT, [Stamped(EXACT, Answer({"x": deep}))]))
    innermost = told.events[0].body.fields["x"]
    while isinstance(innermost, list):
        (innermost,) = innermost
    assert innermost == TOLD


def test_data_may_be_missing_where_nothing_is_required() -> None:
    text = '{"now": 5, "events": [{"timestamp": 5, "type": "REQUESTED_CALL"}]}'
    assert decode_events(text).events == [Stamped(5.0, RequestedCall())]


def test_fields_that_we_do_not_know_are_ignored() -> None:
    text = one("REJECT_JOB", '{"job_id": "w0!1", "reason": {"a": 1}}')
    assert decode_decisions(text).events[0].body == RejectJob("w0!1")


def test_the_job_of_a_message_keeps_all_its_fields() -> None:
    fields = {"id": "w0!1", "subtime": 3, "res": 2, "profile": "d", "x": [1], "qos": {"memory": 5}}
    data = json.dumps({"job_id": "w0!1", "job": fields})
    job = decode_events(one("JOB_SUBMITTED", data)).events[0].body.job
    assert job.fields == fields
    assert job.qos.memory == 5.0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "message: empty; a message"),
        ("hello", "not JSON (invalid character at line 1, column 1)"),
        ('{"now": 0, "events": []', "JSON that ends too early"),
        ('{"now": 0, "events": []} x', "not JSON"),
        ("[]", "message: is []; a message of"),
        ("null", "message: is null; a message of"),
        ("5", "is 5; "),
        ("{}", "field now is missing"),
        ('{"events": []}', "field now is missing"),
        ('{"now": 0}', "field events is missing"),
        ('{"now": "0", "events": []}', "field now is '0'; a number is expected"),
        ('{"now": null, "events": []}', "field now is null; a number is expected"),
        ('{"now": true, "events": []}', "field now is true; a number is expected"),
        ('{"now": NaN, "events": []}', "not JSON"),
        ('{"now": 1e999, "events": []}', "field now is Infinity; a number is expected"),
        ('{"now": 0, "events": {}}', "field events is {}; a list is expected"),
        ('{"now": 0, "events": [5]}', "field events[0] is 5; an object is expected"),
        ('{"now": 0, "events": [{"type": "X"}]}', "field events[0].timestamp is missing"),
        ('{"now": 0, "events": [{"timestamp": 0}]}', "field events[0].type is missing"),
        (b'{"now": 0, "events": "\xff"}', "a message of Batsim's protocol (JSON) is expected"),
        pytest.param('{"now": 0, "x": ' + "[" * 10**6, "nested too deeply", id="deep"),
    ],
)
def test_what_is_no_message(text: bytes | str, problem: str) -> None:
    assert problem in refusal(text)


@pytest.mark.parametrize(
    ("kind", "data", "problem"),
    [
        ("EXECUTE_JOB", "{}", "field job_id is missing"),
        ("EXECUTE_JOB", "5", "is 5; "),
        ("EXECUTE_JOB", '{"job_id": "a"}', "field alloc is missing"),
        ("EXECUTE_JOB", '{"job_id": 1, "alloc": "0"}', "field job_id is 1; a text is expected"),
        ("EXECUTE_JOB", '{"job_id": "a", "alloc": 0}', "hosts are 0; a text such as"),
        ("EXECUTE_JOB", '{"job_id": "a", "alloc": [0]}', "hosts are [0]; a text such as"),
        ("EXECUTE_JOB", '{"job_id": "a", "alloc": null}', "hosts are null; a text such as"),
        ("EXECUTE_JOB", '{"job_id": "a", "alloc": "x"}', "'x' is not a host id or FIRST-LAST"),
        ("EXECUTE_JOB", '{"job_id": "a", "alloc": "-1"}', "'-1' is not a host id or FIRST-LAST"),
        ("EXECUTE_JOB", '{"job_id": "a", "alloc": "0-"}', "'0-' is not a host id or FIRST-LAST"),
        ("EXECUTE_JOB", '{"job_id": "a", "alloc": "3-1"}', "'3-1' ends before it starts"),
        ("EXECUTE_JOB", '{"job_id": "a", "alloc": "0-99999999"}', "99999999 is above"),
        ("KILL_JOB", '{"job_ids": "a"}', "field job_ids is 'a'; a list is expected"),
        ("KILL_JOB", '{"job_ids": [1]}', "field job_ids[0] is 1; a text is expected"),
        ("CALL_ME_LATER", '{"timestamp": "9"}', "field timestamp is '9'; a number is expected"),
        ("CALL_ME_LATER", '{"timestamp": NaN}', "not JSON"),
        ("CALL_ME_LATER", '{"timestamp": 1e999}', "field timestamp is Infinity; a number"),
        ("REGISTER_JOB", '{"job_id": "a", "job": 5}', "job is 5; a JSON object is expected"),
        ("REGISTER_JOB", '{"job_id": "a", "job": {}}', "data: field 'id' is missing"),
        (
            "REGISTER_JOB",
            '{"job_id": "a", "job": {"id": "a", "subtime": 0, "res": -1, "profile": "d"}}',
            "(job 'a'): field 'res' is -1",
        ),
        pytest.param(
            "REGISTER_JOB",
            f'{{"job_id": "a", "job": {{"id": "a", "subtime": 1{"0" * 400}}}}}',
            "(job 'a'): field 'subtime' is 1000",
            id="400 digits",
        ),
        pytest.param(
            "REGISTER_JOB",
            f'{{"job_id": "a", "job": {{"id": "a", "subtime": 1{"0" * 5000}}}}}',
            "out of range",
            id="5000 digits",
        ),
        (
            "REGISTER_PROFILE",
            '{"workload_name": "w", "profile_name": "p", "profile": []}',
            "field profile is []; an object is expected",
        ),
        ("SET_RESOURCE_STATE", '{"resources": "0", "state": 1}', "field state is 1; a text"),
        ("NOTIFY", "5", "data is 5; a JSON object is expected"),
        ("NOTIFY", "{}", "type of the notification is null; a text is expected"),
        ("NOTIFY", '{"type": 5}', "type of the notification is 5; a text is expected"),
        ("QUERY", '["consumed_energy"]', 'data is ["consumed_energy"]; a JSON object'),
        pytest.param("QUERY", '{"a": ' + "[" * 10**6, "nested too deeply", id="deep"),
    ],
)
def test_malformed_data_is_named(kind: str, data: str, problem: str) -> None:
    assert problem in refusal(one(kind, data))


def test_the_place_of_malformed_data_is_named() -> None:
    good = '{"timestamp": 5, "type": "REJECT_JOB", "data": {"job_id": "a"}}'
    bad = '{"timestamp": 5, "type": "REJECT_JOB", "data": {}}'
    text = f'{{"now": 12.5, "events": [{good}, {bad}]}}'
    assert refusal(text).startswith("message at 12.5 s, event 1 (REJECT_JOB): ")


def test_an_unknown_type_suggests_the_nearest() -> None:
    message = refusal(one("EXECUTE_JOBS", "{}"))
    assert "event 0: unknown type 'EXECUTE_JOBS'; did you mean 'EXECUTE_JOB'?" in message
    assert "'\\n" in refusal('{"now": 0, "events": [{"timestamp": 0, "type": "\\nX"}]}')
    refusal(one("X" * 10_000, "{}"))


def test_events_are_no_decisions_and_decisions_no_events() -> None:
    assert "unknown type 'EXECUTE_JOB'" in refusal(
        one("EXECUTE_JOB", '{"job_id": "a", "alloc": "0"}'), decode_events
    )
    assert "unknown type 'REQUESTED_CALL'" in refusal(one("REQUESTED_CALL", "{}"))


def test_a_message_is_no_place_for_other_objects() -> None:
    with pytest.raises(NotImplementedError, match="an object of type object has no JSON form"):
        encode_message(Message(0.0, [Stamped(0.0, ToJobMessage("a", object()))]))


@pytest.mark.parametrize("seed", range(20))
def test_binary_garbage_is_one_line(seed: int) -> None:
    refusal(random.Random(seed).randbytes(100), decode_events)


dates = st.floats(allow_nan=False, allow_infinity=False)
hosts = st.sets(st.integers(0, 300) | st.integers(0, 10_000)).map(HostSet.of)


@given(dates, st.lists(st.tuples(dates, st.text(), hosts)))
def test_allocations_survive(now: float, jobs: list[tuple[float, str, HostSet]]) -> None:
    message = Message(now, [Stamped(date, ExecuteJob(name, alloc)) for date, name, alloc in jobs])
    again = decode_decisions(encode_message(message))
    assert again == message
    assert [set(each.body.alloc) for each in again.events] == [set(alloc) for _, _, alloc in jobs]


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_text_is_refused_in_one_line(text: bytes | str) -> None:
    refusal(text)


@pytest.mark.parametrize("unit", ["[],", "{},", '{"a":1},'])
def test_a_message_of_very_many_parts_is_refused_before_it_fills_the_memory(unit: str) -> None:
    data = f'{{"type":"x","many":[{unit * 4_000_000}0]}}'
    text = f'{{"now":0,"events":[{{"timestamp":0,"type":"NOTIFY","data":{data}}}]}}'
    with pytest.raises(InputError, match="has 4000005 JSON objects and arrays; up to 4000000 are"):
        decode_events(text)
