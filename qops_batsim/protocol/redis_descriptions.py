"""Batsim's Redis mode: job descriptions go through a Redis server, not in messages.

With ``--enable-redis``, JOB_SUBMITTED and REGISTER_JOB carry a job's identifier alone. The engine
stores the JSON of each job of a workload under ``PREFIX:job_WORKLOAD!JOB`` before it tells of it,
and that of its profile, where profiles are forwarded, under ``PREFIX:profile_WORKLOAD!PROFILE``;
the number of hosts is under ``PREFIX:nb_res``. A decision process stores the jobs that it
registers in the same way; their profiles are registered with REGISTER_PROFILE all the same.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from qops_batsim.errors import InputError, SimulationError, shown
from qops_batsim.protocol.events import Event, JobSubmitted, SimulationBegins
from qops_batsim.protocol.messages import Message, Stamped, WireMessage

PATIENCE = 5.0
"""Longest time that the server may take to answer (seconds)."""


class _NamedJob(msgspec.Struct, frozen=True):
    TYPE: ClassVar = JobSubmitted.TYPE
    job_id: str


_answers = msgspec.json.Decoder(WireMessage)
_data = msgspec.json.Decoder(dict[str, msgspec.Raw])


class RedisDescriptions:
    """Batsim's ``--enable-redis``: jobs' descriptions are stored in a Redis server, not in
    messages.

    InputError if the client is not installed, SimulationError if the server does not answer.
    """

    def __init__(self, hostname: str, port: int, prefix: str) -> None:
        try:
            import redis
        except ModuleNotFoundError:
            raise InputError(
                "--enable-redis needs Python's Redis client, which is not installed; install it by "
                "pip install 'qops-batsim[redis]'"
            ) from None
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        self._where = {"redis_hostname": hostname, "redis_port": port, "redis_prefix": prefix}
        # The last two: a port or a name that cannot be any.
        self._errors = (redis.RedisError, OSError, OverflowError, ValueError)
        self._server: Any = redis.Redis(
            host=hostname,
            port=port,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_connect_timeout=PATIENCE,
            socket_timeout=PATIENCE,
        )
        self._registered: set[str] = set()
        self._ask("PING")

    def close(self) -> None:
        self._server.close()

    def take_out(self, message: Message[Event]) -> Message[Any]:
        """Store the job descriptions of a message in Redis; return the message with the jobs' ids
        only.
        """
        stored: dict[str, bytes] = {}
        told = [Stamped(item.timestamp, self._short(item.body, stored)) for item in message.events]
        if stored:
            self._ask("MSET", *(part for pair in stored.items() for part in pair))
        return Message(message.now, told)

    def put_in(self, answer: bytes) -> bytes:
        """Return a scheduler's message after inserting, from Redis, descriptions of the jobs that
        it registers.

        InputError if Redis has no description, or if the message has one itself.
        """
        if b"REGISTER_JOB" not in answer:
            return answer
        try:
            read = _answers.decode(answer)
            for item in read.events:
                if item.type == "REGISTER_JOB":
                    item.data = self._described(_data.decode(item.data))
            return msgspec.json.encode(read)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return answer  # Whoever reads the message says what is wrong with it.

    def _short(self, event: Event, stored: dict[str, bytes]) -> Any:
        if isinstance(event, SimulationBegins):
            stored[self._key("nb_res")] = str(event.nb_resources).encode()
            config = msgspec.structs.replace(event.config, redis_enabled=True, **self._where)
            return msgspec.structs.replace(event, config=config)
        if not isinstance(event, JobSubmitted):
            return event
        if event.job_id not in self._registered:
            stored[self._key(f"job_{event.job_id}")] = msgspec.json.encode(event.job.fields)
            if event.profile is not None:
                workload_name = event.job_id.partition("!")[0]
                key = self._key(f"profile_{workload_name}!{event.job.profile}")
                stored[key] = msgspec.json.encode(event.profile)
        return _NamedJob(event.job_id)

    def _described(self, data: dict[str, msgspec.Raw]) -> msgspec.Raw:
        job_id = msgspec.json.decode(data["job_id"]) if "job_id" in data else None
        if not isinstance(job_id, str):
            return msgspec.Raw(msgspec.json.encode(data))

        if "job" in data:
            raise InputError(
                f"REGISTER_JOB {shown(job_id)} has the job's description in the message; with "
                "--enable-redis it is expected in the Redis server, under the key "
                f"{shown(self._key(f'job_{job_id}'))}"
            )

        key = self._key(f"job_{job_id}")
        found = self._ask("GET", key)
        try:
            msgspec.json.decode(found or b"", type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            has = "nothing" if found is None else "no JSON object"
            raise InputError(
                f"REGISTER_JOB {shown(job_id)}: the Redis server has {has} under the key "
                f"{shown(key)}; the job's description, a JSON object, is expected there"
            ) from None

        self._registered.add(job_id)
        return msgspec.Raw(msgspec.json.encode({**data, "job": msgspec.Raw(found)}))

    def _key(self, name: str) -> str:
        return f"{self._where['redis_prefix']}:{name}"

    def _ask(self, *command: str | bytes) -> Any:
        try:
            return self._server.execute_command(*command)
        except self._errors as error:
            place = f"{self._where['redis_hostname']}:{self._where['redis_port']}"
            raise SimulationError(f"the Redis server at {place} failed: {error}") from None
