"""Batsim 5's handshake, before its first message.

Batsim begins with a frame of its own: the length of a text, and that text, which its command line
gave for the decision process. The answer are four bytes that choose the format, and a message with
one event, in which the decision process says who it is and what the simulation should have.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from qops_batsim.errors import InputError, shown

VERSION = "1.0.0"
"""Version of the protocol that is told; Batsim 5.0.0-rc2 accepts any."""

JSON = 2
"""Flag of messages in JSON; 1 would be flatbuffers' binary format."""

_LENGTH = struct.Struct("=I")

HELLO = "EDCHelloEvent"


class Features(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Features that a decision process requests from Batsim 5, such as that it may register
    jobs.
    """

    dynamic_registration: bool = False
    profile_reuse: bool = False
    acknowledge_dynamic_jobs: bool = False
    forward_profiles_on_job_submission: bool = False
    forward_profiles_on_jobs_killed: bool = False
    forward_profiles_on_simulation_begins: bool = False


class Hello(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decision process's answer to Batsim 5's greeting: name, version and requested features."""

    batprotocol_version: str
    decision_component_name: str
    decision_component_version: str
    decision_component_commit: str
    requested_simulation_features: Features


def is_greeting(frame: bytes) -> bool:
    """Return whether a frame is Batsim 5's greeting, which begins with the length of the rest."""
    begin = frame[: _LENGTH.size]
    return len(begin) == _LENGTH.size and _LENGTH.unpack(begin)[0] == len(frame) - _LENGTH.size


def greeting(text: str) -> bytes:
    """Return the engine's first frame, which carries a text for the decision process."""
    content = text.encode()
    return _LENGTH.pack(len(content)) + content


def read_greeting(frame: bytes) -> str:
    """Return the text for the decision process in an engine's first frame."""
    try:
        return frame[_LENGTH.size :].decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"the engine's first frame is not in UTF-8 ({error}); a text in UTF-8 is expected"
        ) from None


def answer_of(hello: Hello) -> bytes:
    """Return the frame with which a decision process answers the engine's greeting."""
    event = {"timestamp": 0.0, "event_type": HELLO, "event": hello}
    return join_answer(JSON, msgspec.json.encode({"now": 0.0, "events": [event]}))


def join_answer(flags: int, message: bytes) -> bytes:
    """Return the answer to the greeting as a frame: the format's flags, then the message."""
    return _LENGTH.pack(flags) + message


class _HelloItem(msgspec.Struct):
    event_type: str
    event: msgspec.Raw
    timestamp: float = 0.0


class _HelloMessage(msgspec.Struct):
    events: list[_HelloItem]
    now: float = 0.0


def read_answer(frame: bytes) -> Hello:
    """Return a decision process's answer to the greeting; InputError if Batsim 5 would
    abort on it.
    """
    if len(frame) < _LENGTH.size:
        raise InputError(
            f"the answer to the greeting has {len(frame)} bytes; four bytes of flags and a message "
            "in JSON are expected"
        )

    flags = _LENGTH.unpack(frame[: _LENGTH.size])[0]
    if not flags & JSON:
        raise InputError(
            f"the answer to the greeting: flags are {flags}; {JSON}, for JSON, is expected"
        )

    try:
        message = msgspec.json.decode(frame[_LENGTH.size :].rstrip(b"\0"), type=_HelloMessage)
        if len(message.events) != 1 or message.events[0].event_type != HELLO:
            found: Any = [event.event_type for event in message.events]
            raise InputError(
                f"the answer to the greeting: events are {shown(found)}; one {HELLO} is expected"
            )
        return msgspec.json.decode(message.events[0].event, type=Hello)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"the answer to the greeting is not valid: {error}; a message with one {HELLO} is "
            "expected"
        ) from None
