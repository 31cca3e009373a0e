"""One simulation as a decision process sees it: texts of an engine in, texts of decisions out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from qops_batsim.errors import InputError, shown
from qops_batsim.protocol.events import Event, SimulationBegins, SimulationEnds
from qops_batsim.protocol.messages import Message, decode_events, encode_message
from qops_batsim.scheduling.driver import ModuleDriver
from qops_batsim.scheduling.event_check import EventCheck
from qops_batsim.scheduling.qos_log import QosLog
from qops_batsim.scheduling.registry import make_scheduler


class DecisionSession:
    """Answers the messages of one simulation with the decisions of a fresh module.

    The module's options come from the engine's configuration of the scheduler
    (Batsim's ``--sched-cfg`` or ``--sched-cfg-file``: a JSON object of options by
    name) and from ``settings``, which win.

    Parameters
    ----------
    scheduler, settings
        Registered name, and options by name.
    on_warning
        Called with what is ignored: events of an unknown type, once a type.
    any_engine
        As for :class:`~qops_batsim.scheduling.driver.ModuleDriver`.

    Attributes
    ----------
    ended
        Whether the engine has said that the simulation is over.
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
        self._check = EventCheck()
        self._driver: ModuleDriver | None = None

    @property
    def log(self) -> QosLog:
        """The decisions so far."""
        return self._driver.log if self._driver is not None else QosLog()

    def answer(self, text: bytes | str) -> bytes:
        """Return the module's decisions on a message of the engine.

        After an InputError (no message, one that cannot be, wrong options of the
        scheduler, an engine without what the scheduler needs) the session is of no use.
        """
        message = decode_events(text, self._ignore)
        self._check.check(message)
        driver = self._driver
        if driver is None:
            driver = self._begin(message)
        answer = driver.exchange(message)
        self._check.note([item.body for item in answer.events])
        reply = encode_message(answer)
        self.messages += 1
        self.now = message.now
        self.ended = bool(message.events) and type(message.events[-1].body) is SimulationEnds
        return reply

    def _begin(self, message: Message[Event]) -> ModuleDriver:
        first = _simulation_begins(message)
        configuration = first.config.sched_config
        try:
            settings = {**_read_configuration(configuration), **self._settings}
            module = make_scheduler(self._scheduler, settings)
        except InputError as error:
            if not configuration.strip():
                raise
            raise InputError(
                f"{error} (the engine's --sched-cfg is {shown(configuration)})"
            ) from None
        self._driver = ModuleDriver(module, any_engine=self._any_engine)
        return self._driver

    def _ignore(self, kind: str, date: float) -> None:
        if kind not in self._unknown and self._on_warning is not None:
            self._on_warning(f"ignored: events of unknown type {shown(kind)} (first at {date:g} s)")
        self._unknown.add(kind)


def check_first_message(text: bytes) -> None:
    """Raise an InputError unless a text is what an engine can say first."""
    message = decode_events(text, lambda kind, date: None)
    EventCheck().check(message)
    _simulation_begins(message)


def _simulation_begins(message: Message[Event]) -> SimulationBegins:
    first = message.events[0].body if message.events else None
    if isinstance(first, SimulationBegins):
        return first
    said = first.TYPE if first is not None else "nothing"
    raise InputError(f"the first message of the engine says {said}; SIMULATION_BEGINS is expected")


def _read_configuration(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(
            f"the configuration of the scheduler is no JSON object of options by name ({error})"
        ) from None
