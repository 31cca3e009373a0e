"""Progress listeners."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext


class ProgressListener:
    """Listener to the progress of a run; override what is of interest. This one is silent."""

    def phase(
        self, title: str, steps: int | None = None
    ) -> AbstractContextManager[Callable[[int], None] | None]:
        """Return a context around a part of the work, with what to tell the steps done, if any.

        The parts are reading, simulating (a step is a job that ended), writing, reading back,
        and verifying (a step is a rule).
        """
        return nullcontext()

    def warning(self, text: str) -> None:
        """Hear a warning, before the simulation, of input that is probably not meant."""

    def batsim_says(self, line: str) -> None:
        """Hear a line of the real Batsim's log; called in another thread."""
