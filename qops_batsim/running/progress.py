"""Listeners to a run's progress."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext


class ProgressListener:
    """Listener to a run's progress; override methods of interest. This one is silent."""

    def phase(
        self, title: str, steps: int | None = None
    ) -> AbstractContextManager[Callable[[int], None] | None]:
        """Called when a phase of work begins; return a context that ends with the phase.

        The context gives a function that is called with the number of steps done, or None. The
        phases are reading, simulating (a step is a job that ended), writing, reading back and
        verifying (a step is a rule).
        """
        return nullcontext()

    def warning(self, text: str) -> None:
        """Called before the simulation with a warning about input that is probably a mistake."""

    def batsim_says(self, line: str) -> None:
        """Called with each line of the real Batsim's log, in another thread."""
