"""The latest forecast of a queue for HTTP requests, kept up to date by a second process.

An answer is what was forecast last, so it comes at once. The simulations have their own process:
in this one they would keep answers waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from threading import Event, Thread
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from qops_batsim.errors import InputError, QopsError
from qops_batsim.queue.queue_forecast import QueueForecast, StartForecast
from qops_batsim.queue.queue_plan import (
    AskedJob,
    AskedStarts,
    PlannedStart,
    QueuePlan,
    chosen_jobs,
)
from qops_batsim.queue.queue_quote import Ask
from qops_batsim.queue.queue_state import QueueState
from qops_batsim.queue.quote_server import Problem
from qops_batsim.running.processes import WorkerContext

EVERY = 10.0
"""Seconds between two looks at a queue."""

SOON = 5
"""After how many seconds to ask again while there is no forecast yet."""


_Start = TypeVar("_Start", bound=PlannedStart)


class Watch:
    """Forecasts the starts of a queue again whenever the queue has changed.

    Parameters
    ----------
    read
        Returns the queue as it is now, the same object if nothing has changed.
    forecast
        Returns the forecast of a queue.
    ask
        Returns those of jobs that are not submitted yet.
    """

    def __init__(
        self,
        read: Callable[[], QueueState],
        forecast: Callable[[QueueState], QueueForecast],
        ask: Callable[[QueueState, Sequence[AskedJob]], AskedStarts[StartForecast]],
    ) -> None:
        self._read, self._forecast, self._ask = read, forecast, ask
        self._last: QueueState | None = None

    def renewed(self) -> QueueForecast | None:
        """Read the queue and return a new forecast if the queue has changed since the last one,
        else None.
        """
        state = self._read()
        if state is self._last:
            return None
        found = self._forecast(state)
        self._last = state
        return found

    def asked(self, job: AskedJob) -> AskedStarts[StartForecast]:
        """Return the date of the queue and the forecast of a job that is not submitted yet."""
        return self._ask(self._last or self._read(), [job])


class LatestForecast:
    """Keeps the latest forecast of a queue, which a second process makes; a context manager, whose
    exit ends that process.

    Parameters
    ----------
    begin
        Makes the queue and its forecasts, in the process; it has to be picklable. What it raises
        is raised here.
    check_age
        Raises a QopsError if a queue of a source and a date (seconds since 1970) is too old.
    every
        Seconds between two looks at the queue.
    on_line
        Gets what goes wrong, and what goes well again.
    """

    def __init__(
        self,
        begin: Callable[[], Watch],
        check_age: Callable[[str, float], None],
        *,
        every: float = EVERY,
        on_line: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._begin, self._check_age, self._every, self._on_line = begin, check_age, every, on_line
        self._found: tuple[float, QueueForecast] | None = None
        self._problem = ""
        self._ended = Event()

    def __enter__(self) -> LatestForecast:
        self._start()
        Thread(target=self._renew, daemon=True, name="forecasts").start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._context.kill()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> None:
        self._context = WorkerContext()
        self._pool = ProcessPoolExecutor(1, mp_context=self._context)
        try:
            self._pool.submit(_begin, self._begin).result()
        except BaseException:
            self._pool.shutdown(wait=False)
            raise

    def _renew(self) -> None:
        """Look at the queue every few seconds until the end, and keep a new forecast each time that
        the queue has changed.
        """
        while not self._ended.is_set():
            try:
                found, problem = self._pool.submit(_renewed).result(), ""
                if found is not None:
                    self._found = time.time(), found
            except (BrokenProcessPool, CancelledError):
                if self._ended.is_set():
                    return
                problem = "the process that forecasts was killed, perhaps for want of memory"
                with suppress(QopsError, BrokenProcessPool):
                    self._start()
            except Exception as error:  # noqa: BLE001 - of a queue, or of a plug-in
                kind = "" if isinstance(error, QopsError) else f"{type(error).__name__}: "
                problem = f"{kind}{error}"
            if problem != self._problem:
                self._on_line(problem or "forecasts are made again")
            self._problem = problem
            self._ended.wait(self._every)

    def of_waiting(self, job: str | None = None, user: str | None = None) -> dict[str, Any]:
        """Return the latest forecast: of one waiting job, of the waiting jobs of a user, or of all.

        Also says when it was ``made`` (seconds since 1970), and of which date the queue is
        (``now``); ``problem`` is why there is none of a later one. A :data:`Problem` if there is
        no forecast, or none of such a job, or if the queue is too old.
        """
        if self._found is None:
            why = self._problem or "no forecast yet"
            raise Problem(503, why, {"Retry-After": f"{SOON}"})
        made, forecast = self._found
        try:
            self._check_age(forecast.source, forecast.now)
        except QopsError as error:
            raise Problem(503, str(error)) from None
        jobs = _chosen(forecast.jobs, forecast.now, job, user)
        about = msgspec.structs.asdict(msgspec.structs.replace(forecast, jobs=jobs))
        problem = {"problem": self._problem} if self._problem else {}
        return {"made": made, **problem, **about}

    def of_new(self, asked: Ask, user: str) -> AskedStarts[StartForecast]:
        """Return the forecast of a job that is not submitted yet; wait until the forecasting
        process is free.
        """
        job = AskedJob(processors=asked.processors, limit=asked.time, user=user)
        try:
            return self._pool.submit(_asked, job).result()
        except BrokenProcessPool:
            raise Problem(
                503,
                "the process that forecasts has ended and is started again; try again later",
                {"Retry-After": f"{SOON}"},
            ) from None


class PlannedStarts:
    """Tells starts of a queue in the plan by time limits, where there is no history.

    Parameters
    ----------
    plan
        Returns the plan of a queue.
    ask
        Returns those of jobs that are not submitted yet.
    """

    def __init__(
        self,
        plan: Callable[[QueueState], QueuePlan],
        ask: Callable[[QueueState, Sequence[AskedJob]], AskedStarts[PlannedStart]],
    ) -> None:
        self._plan, self._ask = plan, ask
        self._last: tuple[QueueState, QueuePlan] | None = None

    def of_waiting(
        self, state: QueueState, job: str | None = None, user: str | None = None
    ) -> QueuePlan:
        """Return the plan: of one waiting job, of the waiting jobs of a user, or of all. A
        :data:`Problem` if there is no such job.
        """
        last = self._last
        plan = last[1] if last is not None and last[0] is state else self._plan(state)
        self._last = state, plan
        return msgspec.structs.replace(plan, jobs=_chosen(plan.jobs, plan.now, job, user))

    def of_new(self, state: QueueState, asked: Ask, user: str) -> AskedStarts[PlannedStart]:
        """Return the plan of a job that is not submitted yet."""
        return self._ask(
            state, [AskedJob(processors=asked.processors, limit=asked.time, user=user)]
        )


def _chosen(jobs: list[_Start], now: float, job: str | None, user: str | None) -> list[_Start]:
    try:
        return chosen_jobs(jobs, now, job, user)
    except InputError as error:
        raise Problem(404, str(error)) from None


_watch: Watch | None = None
"""What the process of forecasts looks at."""


def _begin(begin: Callable[[], Watch]) -> None:
    global _watch
    _watch = begin()


def _asked(job: AskedJob) -> AskedStarts[StartForecast]:
    assert _watch is not None
    return _watch.asked(job)


def _renewed() -> QueueForecast | None:
    assert _watch is not None
    return _watch.renewed()
