"""Descriptions that travel through a Redis server, here one of a few lines in this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from qops_batsim import InputError, Job
from qops_batsim.core import HostDescription
from qops_batsim.errors import SimulationError
from qops_batsim.protocol import (
    EngineConfig,
    Event,
    JobSubmitted,
    Message,
    RegisterJob,
    RequestedCall,
    SimulationBegins,
    Stamped,
    decode_decisions,
    encode_message,
)
from qops_batsim.protocol.redis_descriptions import RedisDescriptions
from support.fake_redis import FakeRedis, fake_redis

SLEEP = {"type": "delay", "delay": 2.5}


@pytest.fixture
def server() -> Iterator[FakeRedis]:
    pytest.importorskip("redis", reason="the extra qops-batsim[redis] is not installed")
    with fake_redis() as running:
        yield running


@pytest.fixture
def descriptions(server: FakeRedis) -> Iterator[RedisDescriptions]:
    connected = RedisDescriptions("127.0.0.1", server.port, "mine")
    yield connected
    connected.close()


def submitted(name: str = "w0!a", profile: dict[str, object] | None = None) -> JobSubmitted:
    fields = {"id": name, "subtime": 1.5, "res": 2, "profile": "p", "colour": "red"}
    return JobSubmitted(name, Job.from_fields(fields, where="here"), profile)


def told(descriptions: RedisDescriptions, *events: Event) -> list[dict[str, object]]:
    message = Message(3.0, [Stamped(3.0, event) for event in events])
    return json.loads(encode_message(descriptions.take_out(message)))["events"]


def answer(**data: object) -> bytes:
    event = {"timestamp": 3.0, "type": "REGISTER_JOB", "data": data}
    return json.dumps({"now": 3.0, "events": [event]}).encode()


def test_jobs_are_stored_and_only_named(server: FakeRedis, descriptions: RedisDescriptions) -> None:
    events = told(descriptions, submitted(), RequestedCall(), submitted("w0!b", SLEEP))
    assert [event["data"] for event in events] == [{"job_id": "w0!a"}, {}, {"job_id": "w0!b"}]
    assert {key: json.loads(text) for key, text in server.held.items()} == {
        "mine:job_w0!a": submitted("w0!a").job.fields,
        "mine:job_w0!b": submitted("w0!b").job.fields,
        "mine:profile_w0!p": SLEEP,
    }


def test_the_beginning_says_where_redis_is(
    server: FakeRedis, descriptions: RedisDescriptions
) -> None:
    hosts = [HostDescription(0, "h")]
    begins = SimulationBegins(
        nb_resources=7, nb_compute_resources=1, config=EngineConfig(), compute_resources=hosts
    )
    (event,) = told(descriptions, begins)
    config = event["data"]["config"]
    assert (config["redis-enabled"], config["redis-hostname"]) == (True, "127.0.0.1")
    assert (config["redis-port"], config["redis-prefix"]) == (server.port, "mine")
    assert server.held == {"mine:nb_res": b"7"}


def test_a_registered_job_is_looked_up_and_not_stored_again(
    server: FakeRedis, descriptions: RedisDescriptions
) -> None:
    job = submitted("dyn!1").job
    text = server.held["mine:job_dyn!1"] = json.dumps(job.fields, indent=1).encode()
    (item,) = decode_decisions(descriptions.put_in(answer(job_id="dyn!1"))).events
    assert isinstance(item.body, RegisterJob)
    assert item.body.job.fields == job.fields
    assert told(descriptions, submitted("dyn!1"))[0]["data"] == {"job_id": "dyn!1"}
    assert server.held == {"mine:job_dyn!1": text}


@pytest.mark.parametrize(
    ("stored", "has"),
    [(None, "nothing"), (b"", "no JSON object"), (b"[1]", "no"), (b"\xff", "no"), (b"{", "no")],
)
def test_a_registered_job_without_description(
    server: FakeRedis, descriptions: RedisDescriptions, stored: bytes | None, has: str
) -> None:
    if stored is not None:
        server.held["mine:job_dyn!1"] = stored
    said = f"REGISTER_JOB 'dyn!1': the Redis server has {has}.* under the key 'mine:job_dyn!1'"
    with pytest.raises(InputError, match=said):
        descriptions.put_in(answer(job_id="dyn!1"))


def test_a_description_in_the_message_is_refused(descriptions: RedisDescriptions) -> None:
    with pytest.raises(InputError, match="REGISTER_JOB 'dyn!1' has the job's description in"):
        descriptions.put_in(answer(job_id="dyn!1", job={"id": "1"}))


@pytest.mark.parametrize(
    "text", [b'{"REGISTER_JOB', b'"REGISTER_JOB"', answer(), answer(job_id=3), b"\xffREGISTER_JOB"]
)
def test_what_is_no_message_is_left_to_the_reader(
    descriptions: RedisDescriptions, text: bytes
) -> None:
    with pytest.raises(InputError, match="message"):
        decode_decisions(descriptions.put_in(text))


def test_a_server_that_fails(server: FakeRedis, descriptions: RedisDescriptions) -> None:
    server.broken = True
    with pytest.raises(SimulationError, match="the Redis server at 127.0.0.1:.*not now"):
        told(descriptions, submitted())


def test_no_server() -> None:
    pytest.importorskip("redis", reason="the extra qops-batsim[redis] is not installed")
    with fake_redis() as gone:
        pass
    with pytest.raises(SimulationError, match=f"the Redis server at 127.0.0.1:{gone.port} "):
        RedisDescriptions("127.0.0.1", gone.port, "mine")


@pytest.mark.parametrize(
    ("hostname", "port"), [("127.0.0.1", 99_999), ("x" * 70, 6379), ("a\0b", 6379), ("\udcff", 1)]
)
def test_a_server_that_cannot_be(hostname: str, port: int) -> None:
    pytest.importorskip("redis", reason="the extra qops-batsim[redis] is not installed")
    with pytest.raises(SimulationError, match="the Redis server at "):
        RedisDescriptions(hostname, port, "mine")


def test_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(InputError, match=r"pip install 'qops-batsim\[redis\]'"):
        RedisDescriptions("127.0.0.1", 1, "mine")
