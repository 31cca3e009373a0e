"""Recording when Slurm itself expects its waiting jobs to start, for back-tests."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from qops_batsim.live.journal import locked
from qops_batsim.live.manager import Unreachable
from qops_batsim.live.slurm_manager import SlurmManager
from qops_batsim.queue.expected_starts import Look


class Recorder:
    """Appends the start dates that Slurm expects to a file; use it in a ``with`` block.

    Parameters
    ----------
    path
        The file; only one process at a time may write it.
    slurm
        The Slurm that is asked; nothing is changed there.
    """

    def __init__(self, path: Path, slurm: SlurmManager) -> None:
        self._slurm = slurm
        self._known: dict[str, float | None] = {}
        self._file = os.fdopen(locked(path, f"{path}: another process writes it"), "r+b")
        # A last line that an earlier process did not finish is dropped.
        content = self._file.read()
        self._file.truncate(self._file.seek(content.rfind(b"\n") + 1))

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *raised: object) -> None:
        self._file.close()

    def look(self, date: float) -> int:
        """Append the expected starts that changed by ``date`` (s since 1970); return how many jobs
        wait.
        """
        expected = self._slurm.expected_starts()
        nothing = object()
        starts = {
            job: start for job, start in expected.items() if self._known.get(job, nothing) != start
        }
        self._known = expected
        self._file.write(msgspec.json.encode(Look(date=date, starts=starts)) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        return len(expected)


def record(recorder: Recorder, poll: float, on_line: Callable[[str], None]) -> None:
    """Record expected starts every ``poll`` seconds until a signal comes; report outages once."""
    problem = ""
    while True:
        try:
            count = recorder.look(time.time())
        except Unreachable as error:
            if str(error) != problem:
                on_line(f"no news: {error}")
            problem = str(error)
        else:
            if problem:
                on_line(f"news again: {count:,} jobs wait")
            problem = ""
        time.sleep(poll)
