"""A queue that is forecast in a process of its own, made up."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from qops_batsim import InputError
from qops_batsim.queue import QueueState
from qops_batsim.queue.latest import Watch
from qops_batsim.queue.queue_forecast import QueueForecast, StartForecast
from qops_batsim.queue.queue_plan import AskedJob, AskedStarts
from qops_batsim.slurm.waiting_reasons import Cause

NOW = 1_780_000_000.0


def start_of(name: str, user: str) -> StartForecast:
    dates = {"planned": NOW, "early": NOW, "half": (NOW, NOW), "median": NOW, "late": NOW}
    why = {"waits_for": Cause.PRIORITY, "reason": "", "no_date": None}
    return StartForecast(
        id=name, user=user, processors=1, limit=60.0, within=(1.0, 1.0), **dates, **why
    )


def forecast_of(state: QueueState) -> QueueForecast:
    """Return a forecast of a queue of three jobs; its number of draws tells the process."""
    return QueueForecast(
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


def ask_of(state: QueueState, jobs: Sequence[AskedJob]) -> AskedStarts[StartForecast]:
    new = [start_of(f"{job.processors}x{job.limit:g}", job.user) for job in jobs]
    return AskedStarts(is_forecast=True, now=state.now, unexplained=[], jobs=new)


def watched(path: Path) -> Watch:
    """Return a queue whose date a file tells; where there is no number, it cannot be read."""
    known: dict[float, QueueState] = {}

    def read() -> QueueState:
        try:
            date = float(path.read_text())
        except ValueError:
            raise InputError(f"{path.name}: no queue") from None
        return known.setdefault(date, QueueState(source="queue", processors=8, now=date, jobs=[]))

    return Watch(read, forecast_of, ask_of)


def begun_wrongly() -> Watch:
    raise InputError("no history")
