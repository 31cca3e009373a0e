"""The Batsim protocol: typed events and decisions, their JSON, and the port for schedulers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.protocol.decisions import CallMeLater as CallMeLater
    from qops_batsim.protocol.decisions import Decision as Decision
    from qops_batsim.protocol.decisions import ExecuteJob as ExecuteJob
    from qops_batsim.protocol.decisions import KillJob as KillJob
    from qops_batsim.protocol.decisions import RegisterJob as RegisterJob
    from qops_batsim.protocol.decisions import RejectJob as RejectJob
    from qops_batsim.protocol.driver import ModuleDriver as ModuleDriver
    from qops_batsim.protocol.events import Answer as Answer
    from qops_batsim.protocol.events import EngineConfig as EngineConfig
    from qops_batsim.protocol.events import Event as Event
    from qops_batsim.protocol.events import JobCompleted as JobCompleted
    from qops_batsim.protocol.events import JobKilled as JobKilled
    from qops_batsim.protocol.events import JobSubmitted as JobSubmitted
    from qops_batsim.protocol.events import Notify as Notify
    from qops_batsim.protocol.events import RequestedCall as RequestedCall
    from qops_batsim.protocol.events import SimulationBegins as SimulationBegins
    from qops_batsim.protocol.messages import Message as Message
    from qops_batsim.protocol.messages import Stamped as Stamped
    from qops_batsim.protocol.messages import decode_decisions as decode_decisions
    from qops_batsim.protocol.messages import encode_message as encode_message
    from qops_batsim.protocol.port import SchedulerModule as SchedulerModule
    from qops_batsim.protocol.port import make_scheduler as make_scheduler
    from qops_batsim.protocol.session import DecisionSession as DecisionSession
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "decisions": "CallMeLater Decision ExecuteJob KillJob RegisterJob RejectJob",
            "driver": "ModuleDriver",
            "events": (
                "Answer EngineConfig Event JobCompleted JobKilled JobSubmitted "
                "Notify RequestedCall SimulationBegins"
            ),
            "messages": "Message Stamped decode_decisions encode_message",
            "port": "SchedulerModule make_scheduler",
            "session": "DecisionSession",
        },
    )
