"""Messages: dated events or decisions, and their JSON.

In process a message is passed as it is; on the wire it is one JSON text. The codec below is generic
over the classes of :mod:`~qops_batsim.protocol.events` and :mod:`~qops_batsim.protocol.decisions`:
there is no second description of any type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from qops_batsim.core.hostset import HostSet
from qops_batsim.data_problems import json_problem
from qops_batsim.errors import InputError, did_you_mean, shown
from qops_batsim.jobs import Job
from qops_batsim.limits import MAX_CONTAINERS, MAX_SECONDS
from qops_batsim.protocol.decisions import DECISION_TYPES, Decision
from qops_batsim.protocol.events import EVENT_TYPES, Event, Notify, OpenObject
from qops_batsim.timing import TOLD_DECIMALS

Body = TypeVar("Body")


class Stamped(msgspec.Struct, Generic[Body], frozen=True, gc=False):
    """An event or decision together with its date (``timestamp``, seconds)."""

    timestamp: float
    body: Body


class Message(msgspec.Struct, Generic[Body]):
    """A message between engine and scheduler: its date (seconds) and its events or decisions in
    order.
    """

    now: float
    events: list[Stamped[Body]]


class WireItem(msgspec.Struct):
    """An event or decision of a message whose data is still JSON text."""

    timestamp: float
    type: str
    data: msgspec.Raw = msgspec.Raw(b"{}")


class WireMessage(msgspec.Struct):
    """A message whose events or decisions still have their data as JSON text."""

    now: float
    events: list[WireItem]


class MessageDecoder:
    """Decoder of messages; ``kinds`` gives the class of each type of event or decision.

    ``type_field`` and ``data_field`` are the names of the JSON fields with the type and the content
    of an event or decision; they differ between Batsim 4 and 5.
    """

    def __init__(
        self, kinds: Mapping[str, type], type_field: str = "type", data_field: str = "data"
    ) -> None:
        self._kinds = kinds
        item = msgspec.defstruct(
            "_Item",
            [("timestamp", float), ("type", str), ("data", msgspec.Raw, msgspec.Raw(b"{}"))],
            rename={"type": type_field, "data": data_field},
        )
        fields: Any = [("now", float), ("events", list[item])]  # type: ignore[valid-type]
        whole: Any = msgspec.defstruct("_Message", fields)
        self._shallow = msgspec.json.Decoder(whole)
        self._bodies: dict[str, msgspec.json.Decoder[Any]] = {
            name: msgspec.json.Decoder(kind, dec_hook=_decode_custom)
            for name, kind in kinds.items()
        }

    def decode(
        self, text: bytes | str, on_unknown: Callable[[str, float], None] | None = None
    ) -> Message[Any]:
        """Decode a message; an event of unknown type is an InputError, or skipped if ``on_unknown``
        is given.

        ``on_unknown`` is called with the unknown type and the event's date (seconds).
        """
        if len(text) > MAX_CONTAINERS:
            _check_containers(_as_bytes(text))
        try:
            return self._decoded(text, on_unknown)
        except RecursionError:
            raise InputError(
                "message: its JSON objects are nested too deeply to be read as a Batsim message"
            ) from None

    def _decoded(
        self, text: bytes | str, on_unknown: Callable[[str, float], None] | None
    ) -> Message[Any]:
        try:
            raw = self._shallow.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            what = "a message of Batsim's protocol (JSON)"
            told = json_problem(error, _as_bytes(text), self._shallow.type, what)
            raise InputError(f"message: {told}") from None

        items: list[Stamped[Any]] = []
        for index, item in enumerate(raw.events):
            where = f"message at {raw.now:g} s, event {index}"
            if item.type not in self._kinds:
                if on_unknown is not None:
                    on_unknown(item.type, item.timestamp)
                    continue
                hint = did_you_mean(item.type, self._kinds)
                raise InputError(f"{where}: unknown type {shown(item.type)}{hint}")

            try:
                body = self._bodies[item.type].decode(item.data)
            except InputError as error:
                raise InputError(f"{where} ({item.type}): {error}") from None
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                kind = self._bodies[item.type].type
                told = json_problem(error, bytes(item.data), kind, "its data as an object")
                raise InputError(f"{where} ({item.type}): {told}") from None
            items.append(Stamped(item.timestamp, body))
        return Message(raw.now, items)


def _encode_custom(value: Any) -> Any:
    if type(value) is HostSet:
        return str(value)
    if isinstance(value, (Job, OpenObject)):
        return value.fields
    raise NotImplementedError(f"an object of type {type(value).__name__} has no JSON form")


def _decode_custom(kind: type, value: Any) -> Any:
    if kind is HostSet:
        if not isinstance(value, str):
            raise InputError(f"hosts are {shown(value)}; a text such as '0-3 5' is expected")
        return HostSet.parse(value)

    if kind is Job:
        if not isinstance(value, dict):
            raise InputError(f"job is {shown(value)}; a JSON object is expected")
        return Job.from_fields(value, where="data")

    if issubclass(kind, OpenObject):
        if not isinstance(value, dict):
            raise InputError(f"data is {shown(value)}; a JSON object is expected")
        if kind is Notify and not isinstance(value.get("type"), str):
            raise InputError(
                f"type of the notification is {shown(value.get('type'))}; a text is expected"
            )
        return kind(value)
    raise NotImplementedError(f"an object of type {kind.__name__} cannot be read from JSON")


_events = MessageDecoder(EVENT_TYPES)
_decisions = MessageDecoder(DECISION_TYPES)
_encoder = msgspec.json.Encoder(enc_hook=_encode_custom)


def encode_message(message: Message[Any]) -> bytes:
    """Return a message as the JSON text that Batsim 4 reads and writes."""
    return _encoder.encode(
        {
            "now": message.now,
            "events": [
                {"timestamp": item.timestamp, "type": item.body.TYPE, "data": item.body}
                for item in message.events
            ],
        }
    )


def rounded_value(value: Any, decimals: int = TOLD_DECIMALS) -> Any:
    """Return a JSON value with all floats rounded, by default to six decimals as Batsim writes
    them.

    >>> rounded_value({"delay": 2.3456789, "ret": 3})
    {'delay': 2.345679, 'ret': 3}
    """
    whole = [value]
    todo: list[Any] = [whole]
    while todo:
        container = todo.pop()
        inner: Any
        pairs = container.items() if isinstance(container, dict) else enumerate(container)
        for key, inner in pairs:
            if isinstance(inner, float):
                container[key] = round(inner, decimals)
            elif isinstance(inner, (dict, list)):
                container[key] = inner.copy()
                todo.append(container[key])
    return whole[0]


def rounded_message(message: Message[Body]) -> Message[Body]:
    """Return a message with all dates and other floats rounded to six decimals, as Batsim writes
    them.

    Schedulers made for Batsim count on that: some fail on dates that differ by less.
    """
    return Message(
        round(message.now, TOLD_DECIMALS),
        [
            Stamped(round(item.timestamp, TOLD_DECIMALS), _rounded_body(item.body))
            for item in message.events
        ],
    )


def _rounded_body(body: Any) -> Any:
    if isinstance(body, OpenObject):
        return type(body)(rounded_value(body.fields))
    changed = {
        name: _rounded_job(value) if isinstance(value, Job) else rounded_value(value)
        for name in body.__struct_fields__
        if isinstance(value := getattr(body, name), (float, dict, list, Job))
    }
    return msgspec.structs.replace(body, **changed) if changed else body


def _rounded_job(job: Job) -> Job:
    walltime = None if job.walltime is None else round(job.walltime, TOLD_DECIMALS)
    submission_time = round(job.submission_time, TOLD_DECIMALS)
    fields = rounded_value(job.fields)
    asked = submission_time, job.processors, job.profile, walltime, job.qos
    return Job(job.id, *asked, fields, job.hosts_asked)


def decode_events(
    text: bytes | str, on_unknown: Callable[[str, float], None] | None = None
) -> Message[Event]:
    """Return the events in a message of a Batsim 4 engine.

    An event of an unknown type is an InputError, unless ``on_unknown`` is given: then that is
    called with type and date (seconds), and the event is left out.

    >>> decode_events('{"now": 4.0, "events": [{"timestamp": 4.0, "type": "REQUESTED_CALL"}]}')
    Message(now=4.0, events=[Stamped(timestamp=4.0, body=RequestedCall(call_id='', last=False))])
    """
    return _events.decode(text, on_unknown)


def decode_decisions(text: bytes | str) -> Message[Decision]:
    """Return the decisions in a message of a Batsim 4 decision process."""
    return _decisions.decode(text)


def check_now(now: float) -> None:
    """Raise an InputError unless a message's date ``now`` (seconds) is within the range of a
    simulation.
    """
    if not abs(now) <= MAX_SECONDS:
        raise InputError(
            f"message: now is {now:g}; a number of seconds up to {MAX_SECONDS:g} is expected"
        )


def _as_bytes(text: bytes | str) -> bytes:
    """Return a message as it is sent."""
    return text.encode() if isinstance(text, str) else text


def _check_containers(text: bytes) -> None:
    count = text.count(b"{") + text.count(b"[")
    if count > MAX_CONTAINERS:
        raise InputError(
            f"message has {count} JSON objects and arrays; up to {MAX_CONTAINERS} are accepted"
        )
