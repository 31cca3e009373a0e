"""Batsim 5's decision components: processes at sockets, and libraries with its C interface."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any, Self, TypeVar, Unpack

import msgspec

from qops_batsim.errors import InputError, SimulationError
from qops_batsim.protocol.events import Event
from qops_batsim.protocol.messages import Message
from qops_batsim.protocol.v5.engine_side import EngineSide
from qops_batsim.protocol.v5.handshake import join_answer, read_greeting
from qops_batsim.protocol.zeromq import ConnectionLost, SocketBounds, connect

Options = TypeVar("Options", bound=msgspec.Struct)


class DecisionComponent:
    """A scheduler that speaks Batsim 5's protocol, at a socket or in a library; a context
    manager.
    """

    def __init__(self, name: str, side: EngineSide) -> None:
        self._name = name
        self._side = side

    def ask(self, frame: bytes) -> bytes:
        """Send a frame to the scheduler and return the frame that it answers."""
        raise NotImplementedError

    def begin(self, options: Options) -> Options:
        """Greet the scheduler; return the engine's options with the features that the scheduler
        requests.
        """
        answer = self._asked(self._side.greeting(), 0.0, self._side.read_hello)
        return msgspec.structs.replace(
            options,
            dynamic_jobs=answer.dynamic_registration,
            acknowledge_dynamic_jobs=answer.acknowledge_dynamic_jobs,
            profile_reuse=answer.profile_reuse,
            forward_profiles=answer.forward_profiles_on_job_submission,
        )

    def exchange(self, message: Message[Event]) -> Message[Any]:
        """Send events to the scheduler and return its decisions; SimulationError if its answer is
        invalid.
        """
        answer: Message[Any] = self._asked(
            self._side.encode(message), message.now, self._side.decode
        )
        return answer

    def close(self) -> None:
        """Close the component's socket or library."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _asked(self, frame: bytes, now: float, read: Callable[[bytes], Any]) -> Any:
        where = f"at {now:.6f} s: the decision component {self._name}"
        try:
            return read(self.ask(frame))
        except ConnectionLost as error:
            raise SimulationError(f"{where} {error}") from None
        except InputError as error:
            raise SimulationError(f"{where} sent an invalid answer: {error}") from None


class SocketComponent(DecisionComponent):
    """A scheduler in another process, reached over ZeroMQ in Batsim 5's protocol."""

    def __init__(self, endpoint: str, side: EngineSide, **bounds: Unpack[SocketBounds]) -> None:
        super().__init__(f"at {endpoint}", side)
        self._socket = connect(endpoint, **bounds)

    def ask(self, frame: bytes) -> bytes:
        self._socket.send(frame)
        return self._socket.receive()

    def close(self) -> None:
        self._socket.close()


_Bytes = ctypes.POINTER(ctypes.c_uint8)


class LibraryComponent(DecisionComponent):
    """A scheduler in a shared library with Batsim 5's C interface, asked for messages in JSON.

    The binary format would need the layout of a schema that is not published for this version.
    Batsim's own test components speak JSON if their text says ``{"format_json": true}``.
    """

    def __init__(self, path: str, side: EngineSide) -> None:
        super().__init__(f"in {path}", side)
        try:
            library = ctypes.CDLL(os.path.abspath(path))
            self._init = library.batsim_edc_init
            self._take = library.batsim_edc_take_decisions
            self._deinit = library.batsim_edc_deinit
        except (OSError, AttributeError) as error:
            raise InputError(
                f"{path}: {error}; a shared library with the functions batsim_edc_init, "
                "batsim_edc_take_decisions and batsim_edc_deinit is expected"
            ) from None
        self._is_open = False

    def ask(self, frame: bytes) -> bytes:
        data = _Bytes()
        size = ctypes.c_uint32()
        if self._is_open:
            self._call(self._take, frame, len(frame), ctypes.byref(data), ctypes.byref(size))
            return ctypes.string_at(data, size.value)
        text = read_greeting(frame).encode()
        flags = ctypes.c_uint32()
        taken = (ctypes.byref(result) for result in (flags, data, size))
        self._is_open = True
        self._call(self._init, text, len(text), *taken)
        return join_answer(flags.value, ctypes.string_at(data, size.value))

    def _call(self, function: Any, *arguments: Any) -> None:
        code = function(*arguments)
        if code:
            raise InputError(
                f"function {function.__name__} returned {code}; 0, which means success, is expected"
            )

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._deinit()
