"""The decision side of one simulation: engine texts in, decision texts out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from qops_batsim.core.qos_log import QosLog
from qops_batsim.data_problems import json_problem
from qops_batsim.errors import InputError, shown
from qops_batsim.protocol.dialects import Dialect, dialect_of
from qops_batsim.protocol.driver import ModuleDriver
from qops_batsim.protocol.engine_needs import features_of
from qops_batsim.protocol.event_check import EventCheck
from qops_batsim.protocol.events import Event, SimulationBegins, SimulationEnds
from qops_batsim.protocol.messages import Message
from qops_batsim.protocol.port import make_scheduler
from qops_batsim.version import __version__

NAME = "qops-batsim"
"""Name by which an engine is told who decides."""


class EngineTalk:
    """Reads the messages of an engine (Batsim 4 or 5) in one simulation, and writes the answers of
    a scheduler.

    Parameters
    ----------
    driver
        What calls the scheduler, or None if ``begin`` is to make it.
    begin
        Makes the driver from the scheduler's configuration, a text, that the engine sends.
    on_unknown
        As for :func:`~qops_batsim.protocol.messages.decode_events`.
    asked
        Features to ask a Batsim 5 for in addition to those that the scheduler needs.
    """

    def __init__(
        self,
        driver: ModuleDriver | None = None,
        begin: Callable[[str], ModuleDriver] | None = None,
        on_unknown: Callable[[str, float], None] | None = None,
        asked: Mapping[str, bool] | None = None,
    ) -> None:
        self.driver = driver
        self._asked = asked or {}
        self._begin = begin
        self._on_unknown = on_unknown
        self._check = EventCheck()
        self._dialect: Dialect | None = None
        self._greeted = True
        self._begun = True

    def read(self, frame: bytes) -> Message[Event] | None:
        """Return the events in an engine's message; None if it has none but has to be answered.

        InputError if the frame is no valid message, or an event in it is impossible.
        """
        if self._dialect is None:
            self._dialect = dialect_of(frame)
            if self._dialect.configuration is not None:
                self._greeted = False
                self._begun = False
                return None
        message = self._dialect.decode(frame, self._on_unknown)
        if message is not None:
            self._check.check(message)
            if not self._begun:
                _simulation_begins(message)
                self._begun = True
        return message

    def reply(self, message: Message[Event] | None) -> bytes:
        """Return the answer to the engine's last message: the scheduler's decisions on these
        events.
        """
        dialect = self._dialect
        driver = self.driver
        assert dialect is not None

        if driver is None:
            configuration = dialect.configuration
            if configuration is None:
                assert message is not None
                configuration = _simulation_begins(message).config.sched_config
            assert self._begin is not None
            driver = self._begin(configuration)
            self.driver = driver

        if not self._greeted:
            self._greeted = True
            features = msgspec.structs.replace(features_of(driver.module.needs), **self._asked)
            return dialect.hello(NAME, __version__, features)

        if message is None:
            return dialect.encode(None)
        answer = driver.exchange(message)
        self._check.note([item.body for item in answer.events])
        return dialect.encode(answer)


class DecisionSession:
    """Answers the messages of one simulation with the decisions of a newly made scheduler.

    The scheduler's options come from the engine's configuration of the scheduler
    (Batsim's ``--sched-cfg`` or ``--sched-cfg-file``: a JSON object of options by
    name) and from ``settings``, which win.

    Parameters
    ----------
    scheduler, settings
        Registered name, and options by name.
    on_warning
        Called with what is ignored: events of an unknown type, once a type.
    any_engine
        As for :class:`~qops_batsim.protocol.driver.ModuleDriver`.

    Attributes
    ----------
    ended
        Whether the engine has sent SIMULATION_ENDS.
    messages, now
        Number of messages answered, and date of the last one (seconds).
    """

    def __init__(
        self,
        scheduler: str,
        settings: Mapping[str, Any] | None = None,
        on_warning: Callable[[str], None] | None = None,
        *,
        any_engine: bool = False,
    ) -> None:
        self.ended = False
        self.messages = 0
        self.now = 0.0
        self._scheduler = scheduler
        self._settings = settings or {}
        self._on_warning = on_warning
        self._any_engine = any_engine
        self._unknown: set[str] = set()
        self._talk = EngineTalk(begin=self._begin, on_unknown=self._ignore)

    @property
    def log(self) -> QosLog:
        """What the scheduler has decided and recorded about jobs so far."""
        driver = self._talk.driver
        return driver.log if driver is not None else QosLog()

    def answer(self, text: bytes | str) -> bytes:
        """Return the message with the scheduler's decisions that answers an engine's message.

        After an InputError (an invalid message, an impossible event, wrong options of the
        scheduler, an engine that lacks what the scheduler needs) the session cannot be used any
        more.
        """
        message = self._talk.read(text.encode() if isinstance(text, str) else text)
        reply = self._talk.reply(message)
        self.messages += 1
        if message is not None:
            self.now = message.now
            self.ended = bool(message.events) and type(message.events[-1].body) is SimulationEnds
        return reply

    def _begin(self, configuration: str) -> ModuleDriver:
        try:
            settings = {**_read_configuration(configuration), **self._settings}
            module = make_scheduler(self._scheduler, settings)
        except InputError as error:
            if not configuration.strip():
                raise
            raise InputError(
                f"{error} (the engine's --sched-cfg is {shown(configuration)})"
            ) from None
        return ModuleDriver(module, any_engine=self._any_engine)

    def _ignore(self, kind: str, date: float) -> None:
        if kind not in self._unknown and self._on_warning is not None:
            self._on_warning(f"ignored: events of unknown type {shown(kind)} (first at {date:g} s)")
        self._unknown.add(kind)


def check_first_message(text: bytes) -> None:
    """Raise an InputError unless the text is a valid first message of an engine (Batsim 4 or 5)."""
    message = EngineTalk(on_unknown=lambda kind, date: None).read(text)
    if message is not None:
        _simulation_begins(message)


def _simulation_begins(message: Message[Event]) -> SimulationBegins:
    first = message.events[0].body if message.events else None
    if isinstance(first, SimulationBegins):
        return first
    said = first.TYPE if first is not None else "nothing"
    raise InputError(
        f"the engine's first message begins with {said}; SIMULATION_BEGINS is expected"
    )


def _read_configuration(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        what = 'a JSON object of options by name, such as {"grace": 2},'
        told = json_problem(error, text.encode(), dict[str, Any], what)
        raise InputError(f"the scheduler's configuration: {told}") from None
