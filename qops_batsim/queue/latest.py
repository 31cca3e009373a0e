"""Starts of a queue for HTTP requests: as planned now, or as forecast last by a second process.

What was forecast last is answered at once. The simulations have their own process: in this one they
would keep answers waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from http import HTTPStatus
from threading import Event, Thread
from types import TracebackType
from typing import Any

import msgspec
from starlette.exceptions import HTTPException

from qops_batsim.errors import QopsError, shown
from qops_batsim.experiments.page import Aliases
from qops_batsim.queue.queue_state import Ask, QueueState
from qops_batsim.queue.starts import (
    DRAWS,
    FEWER_DRAWS,
    AskedStarts,
    ForecastBasis,
    JobStart,
    QueueStarts,
    anonymous,
    asked_starts,
    queue_starts,
)
from qops_batsim.running.processes import WorkerContext
from qops_batsim.texts import date_text

EVERY = 10.0
"""Seconds between two looks at a queue."""

SOON = {"Retry-After": "5"}
"""After how many seconds to ask again while there is no forecast yet."""


class StartCalculator:
    """Calculates the starts of a queue, and of jobs that are not submitted yet.

    Parameters
    ----------
    basis
        What the starts are calculated from.
    draws
        Number of simulations; None: the default.
    partition
        Where new jobs would wait.
    is_anonymous
        Whether numbers replace user names, the same at each time.
    """

    reads_queue = True

    def __init__(
        self,
        basis: ForecastBasis,
        draws: int | None = None,
        *,
        partition: str = "",
        is_anonymous: bool = False,
    ) -> None:
        self._basis = basis
        self._draws = draws
        self._partition = partition
        self._aliases = Aliases() if is_anonymous else None
        self._last: tuple[QueueState, QueueStarts] | None = None

    def of_queue(self, state: QueueState) -> QueueStarts:
        """Return the starts of a queue's waiting jobs, the same object for the same queue."""
        # Several threads may ask: what one reads is of one queue.
        last = self._last
        if last is not None and last[0] is state:
            return last[1]
        found = queue_starts(state, self._basis, draws=self._draws or DRAWS)
        if self._aliases is not None:
            found = anonymous(found, self._aliases)
        self._last = state, found
        return found

    def of_waiting(
        self, state: QueueState, job: str | None = None, user: str | None = None
    ) -> QueueStarts:
        """Return the starts of one waiting job, of the waiting jobs of a user, or of all. An
        HTTPException if there is no such job.
        """
        found = self.of_queue(state)
        return msgspec.structs.replace(found, jobs=_chosen(found, job, user))

    def of_new(self, state: QueueState, ask: Ask) -> AskedStarts:
        """Return the start of a job as if it were the last of the queue."""
        if state.nodes is None and not ask.partition:
            ask = msgspec.structs.replace(ask, partition=self._partition)
        return asked_starts(state, [ask], self._basis, draws=self._draws or FEWER_DRAWS)


class QueueWatch:
    """A queue whose starts are calculated again whenever it has changed.

    Parameters
    ----------
    read
        Returns the queue as it is now, the same object if nothing has changed.
    calculator
        Calculates the starts.
    """

    def __init__(self, read: Callable[[], QueueState], calculator: StartCalculator) -> None:
        self._read = read
        self._calculator = calculator
        self._last: QueueState | None = None

    def renewed(self) -> QueueStarts | None:
        """Read the queue and return its starts if the queue has changed since the last ones, else
        None.
        """
        state = self._read()
        if state is self._last:
            return None
        found = self._calculator.of_queue(state)
        self._last = state
        return found

    def of_new(self, ask: Ask) -> AskedStarts:
        """Return the start of a job that is not submitted yet."""
        return self._calculator.of_new(self._last or self._read(), ask)


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

    reads_queue = False

    def __init__(
        self,
        begin: Callable[[], QueueWatch],
        check_age: Callable[[str, float], None],
        *,
        every: float = EVERY,
        on_line: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._begin = begin
        self._check_age = check_age
        self._every = every
        self._on_line = on_line
        self._found: tuple[float, QueueStarts] | None = None
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
            problem = ""
            try:
                found = self._pool.submit(_renewed).result()
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

    def of_waiting(
        self, state: object = None, job: str | None = None, user: str | None = None
    ) -> dict[str, Any]:
        """Return the latest forecast: of one waiting job, of the waiting jobs of a user, or of all.

        Also says when it was ``made`` (seconds since 1970), and of which date the queue is
        (``now``); ``problem`` is why there is none of a later one. An HTTPException if there is no
        forecast, or none of such a job, or if the queue is too old. The ``state`` of now does not
        matter.
        """
        if self._found is None:
            why = self._problem or "no forecast yet"
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, why, SOON)
        made, forecast = self._found
        try:
            self._check_age(forecast.source, forecast.now)
        except QopsError as error:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None
        problem = {"problem": self._problem} if self._problem else {}
        jobs = _chosen(forecast, job, user)
        told = msgspec.structs.asdict(forecast)
        known = {name: value for name, value in told.items() if value is not msgspec.UNSET}
        return {"made": made, **problem, **known, "jobs": jobs}

    def of_new(self, state: object, ask: Ask) -> AskedStarts:
        """Return the forecast of a job that is not submitted yet; wait until the forecasting
        process is free.
        """
        try:
            return self._pool.submit(_of_new, ask).result()
        except BrokenProcessPool:
            why = "the process that forecasts has ended and is started again; try again later"
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, why, SOON) from None


def _chosen(starts: QueueStarts, job: str | None, user: str | None) -> list[JobStart]:
    """Return those of a queue's jobs that are asked about, by id (of a job, an array, or a
    component of a heterogeneous job) or user. An HTTPException if none has the id.
    """
    jobs = list(starts.jobs)
    if job is not None:
        jobs = [
            start
            for start in jobs
            if start.id == job or start.id.startswith(f"{job}_") or job in start.components
        ]
        if not jobs:
            date = date_text(starts.now)
            why = f"job {shown(job)} is not among the waiting jobs of the queue of {date}"
            raise HTTPException(HTTPStatus.NOT_FOUND, why)

    return [start for start in jobs if user is None or start.user == user]


_watch: QueueWatch
"""What the process of forecasts looks at."""


def _begin(begin: Callable[[], QueueWatch]) -> None:
    global _watch
    _watch = begin()


def _renewed() -> QueueStarts | None:
    return _watch.renewed()


def _of_new(ask: Ask) -> AskedStarts:
    return _watch.of_new(ask)
