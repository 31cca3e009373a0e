"""The clock of a live centre, which runs with the machine whatever its calendar does.

Intervals are measured by the time since the machine was started, which nobody sets. The calendar
is followed in small steps only. After a larger one it is in doubt until it is back, or has stayed
where it is for some time; then dates take the step, ahead at once, backwards by standing still.
While it is in doubt nobody is told that a deadline cannot be met.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

MOST_STEP = 2.0
"""Largest step of the calendar that is followed at once (seconds): a leap second, and some more."""

SETTLED = 600.0
"""A calendar that has stayed for so long after a step is right (seconds)."""


class CentreClock:
    """Clock (s since 1970) that never goes back, and follows a set calendar only if it stays set.

    Parameters
    ----------
    calendar
        Returns what the calendar says (seconds since 1970).
    uptime
        Returns the time since the machine was started, with that in which it slept (seconds).
        Default: this machine's; of another calendar than this machine's, that calendar.

    Attributes
    ----------
    now
        The date of the last look.
    doubt
        Why the calendar is not believed; empty if it is.
    """

    def __init__(
        self,
        calendar: Callable[[], float] = time.time,
        uptime: Callable[[], float] | None = None,
    ) -> None:
        if uptime is None:
            uptime = _uptime if calendar is time.time else calendar
        self._calendar = calendar
        self.uptime = uptime
        self._boot = ""
        with suppress(OSError):
            self._boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self.now = 0.0
        self.doubt = ""
        self._began = calendar() - uptime()
        self._seen = self._began
        self._since = 0.0

    @property
    def believed(self) -> str:
        """The trusted calendar (boot id and offset to 0.1 s), for the next process."""
        return f"{self._boot} {self._began:.1f}"

    def go_on(self, last: float, believed: str) -> None:
        """Continue from an earlier process's last date; trust its calendar if not rebooted since.

        ``believed`` is what :attr:`believed` of that process said.
        """
        self.now = last
        boot, _, began = believed.partition(" ")
        with suppress(ValueError):
            if boot == self._boot:
                self._began = float(began)
                self._since = self.uptime()

    def look(self) -> float:
        """Return the date, which never goes back, and judge whether the calendar can be trusted."""
        uptime = self.uptime()
        seen = self._calendar() - uptime
        if abs(seen - self._seen) > MOST_STEP:
            self._since = uptime
        self._seen = seen

        # A step is followed if it is small, or has stayed for some time.
        step = seen - self._began
        if abs(step) <= MOST_STEP or uptime - self._since >= SETTLED:
            self._began = seen
            step = 0.0
        date = uptime + self._began
        ahead = self.now - date
        self.now = max(self.now, round(date, 6))

        doubt = ""
        if step:
            doubt = (
                f"the calendar has jumped by {step:+.0f} s: who asks for a deadline is answered "
                f"when it is back, or has stayed for {SETTLED / 60:g} min"
            )
        elif ahead > MOST_STEP:
            doubt = (
                f"the calendar is {ahead:.0f} s behind the last date of the journal: who asks for "
                "a deadline is answered when it has caught up"
            )
        # A text for each doubt, not for each second of it.
        if doubt[:20] != self.doubt[:20]:
            self.doubt = doubt
        return self.now


def _uptime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
