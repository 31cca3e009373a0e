"""A queue that is forecast in a process of its own, made up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from qops_batsim import InputError
from qops_batsim.queue import Ask, QueueStarts, QueueState
from qops_batsim.queue.latest import QueueWatch
from qops_batsim.queue.starts import AskedStarts, StartForecast
from qops_batsim.slurm.waiting_reasons import Cause

NOW = 1_780_000_000.0


def start_of(name: str, user: str) -> StartForecast:
    dates = {"planned": NOW, "early": NOW, "half": (NOW, NOW), "median": NOW, "late": NOW}
    why = {"waits_for": Cause.PRIORITY, "reason": "", "no_date": None}
    return StartForecast(
        id=name, user=user, processors=1, limit=60.0, within=(1.0, 1.0), **dates, **why
    )


def forecast_of(state: QueueState) -> QueueStarts:
    """Return a forecast of a queue of three jobs; its number of draws tells the process."""
    return QueueStarts(
        is_forecast=True,
        source=state.source,
        now=state.now,
        processors=state.processors,
        running=0,
        left_out={},
        unsure={},
        scheduler="easy",
        draws=os.getpid(),
        seed=1,
        calibrated=False,
        jobs=[start_of("7", "bob"), start_of("8_1", "ann"), start_of("8_2", "ann")],
    )


class StartsAsMadeUp:
    """Starts of jobs that do not depend on a queue."""

    def of_queue(self, state: QueueState) -> QueueStarts:
        return forecast_of(state)

    def of_new(self, state: QueueState, ask: Ask) -> AskedStarts:
        new = start_of(f"{ask.processors}x{ask.time:g}", ask.user)
        return AskedStarts(is_forecast=True, now=state.now, unexplained=[], jobs=[new])


def watched(path: Path) -> QueueWatch:
    """Return a queue whose date a file tells; where there is no number, it cannot be read."""
    known: dict[float, QueueState] = {}

    def read() -> QueueState:
        try:
            date = float(path.read_text())
        except ValueError:
            raise InputError(f"{path.name}: no queue") from None
        return known.setdefault(date, QueueState(source="queue", processors=8, now=date, jobs=[]))

    starts: Any = StartsAsMadeUp()
    return QueueWatch(read, starts)


def begun_wrongly() -> QueueWatch:
    raise InputError("no history")
