"""How long a search may take: by the clock, or by the solver's count of its own steps."""

from __future__ import annotations

import time
from collections.abc import Callable


class Budget:
    """Seconds to spend, or as many units of the solver's deterministic time.

    With the clock, results depend on the machine and its load. Deterministic time, about a
    second a unit, counts the solver's memory accesses: equal inputs then give equal results.

    Parameters
    ----------
    amount
        How much there is.
    by_clock
        Whether the clock counts.
    hears
        Called now and then with deterministic time that was used.
    """

    def __init__(
        self, amount: float, by_clock: bool, hears: Callable[[float], None] | None = None
    ) -> None:
        self.amount, self.by_clock = amount, by_clock
        self._began = time.perf_counter()
        self._used = 0.0
        self.hears = hears

    @property
    def spent(self) -> float:
        """How much is spent."""
        return time.perf_counter() - self._began if self.by_clock else self._used

    @property
    def left(self) -> float:
        """How much is left, at least 0."""
        return max(0.0, self.amount - self.spent)

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.left <= 0

    def use(self, deterministic: float) -> None:
        """Count the deterministic time of something that was done."""
        self._used += deterministic
        if self.hears is not None:
            self.hears(deterministic)

    def part(self, share: float) -> Budget:
        """Return a budget with a share of what is left; what it uses is used here, too."""
        return Budget(self.left * share, self.by_clock, self.use)
