"""Listeners to a run's progress."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext


class ProgressListener:
    """Listener to a run's progress; override methods of interest. This one is silent."""

    def phase(
        self, title: str, steps: int | None = None
    ) -> AbstractContextManager[Callable[[int], None] | None]:
        """Return a context for a phase of work, with a function to report steps, if any.

        The parts are reading, simulating (a step is a job that ended), writing, reading back,
        and verifying (a step is a rule).
        """
        return nullcontext()

    def warning(self, text: str) -> None:
        """Hear a warning, before the simulation, of input that is probably not meant."""

    def batsim_says(self, line: str) -> None:
        """Called with each line of the real Batsim's log, in another thread."""
