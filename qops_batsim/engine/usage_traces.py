"""Profiles of type ``usage_trace``: what each rank of a job computes, one piece after the other.

The profile names a file beside the workload's; that file names one file a rank, beside itself. A
rank's file has SimGrid's replay format, one piece of work a line: ``RANK m_usage SHARE FLOP``. The
piece takes that share of the cores of the rank's host (rounded, at least one), with so many flop on
each.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from qops_batsim.engine.fluid import Computation
from qops_batsim.errors import InputError, printable, shown
from qops_batsim.files import read_text
from qops_batsim.limits import MAX_AMOUNT, MAX_STEPS, MAX_TRACE_BYTES
from qops_batsim.workload.model import Workload

ACTION = "m_usage"

_Lines = list[tuple[int, list[str]]]
"""Number of each line, and its words after the rank."""

Traces = tuple[tuple[tuple[float, float], ...], ...]
"""By rank: share of the host's cores (0 to 1) and flop on each of them, of each piece of work."""


def directory_of(workload: Workload | None) -> Path | None:
    """Return where the file of a workload lies, None if it comes from none."""
    path = None if workload is None else Path(workload.source)
    return path.parent if path is not None and path.is_file() else None


def read_traces(name: object, directory: Path | None, label: str) -> Traces:
    """Read the traces that a profile names; InputError, beginning with ``label``, if it cannot be.

    ``directory`` is that of the workload's file, None without.
    """
    if not isinstance(name, str):
        raise InputError(f"{label}: trace is {shown(name)}; the name of a file is expected")
    if directory is None:
        raise InputError(
            f"{label}: trace {shown(name)} is a file beside the workload's, and this workload "
            "comes from none"
        )
    path = Path(f"{directory}/{name}")
    ranks = [line.rstrip() for line in _text(path, "a list of traces").splitlines()]
    if not ranks:
        raise InputError(f"{path}: names no trace; a file for each rank is expected")
    known: dict[Path, dict[str, _Lines]] = {}
    traces: list[tuple[tuple[float, float], ...]] = []
    pieces = 0
    for rank, file in enumerate(ranks):
        trace_path = Path(f"{path.parent}/{file}")
        if trace_path not in known:
            known[trace_path] = _lines(trace_path)
        lines = known[trace_path].get(str(rank), [])
        pieces += len(lines)
        if pieces > MAX_STEPS:
            raise InputError(f"{path}: more than {MAX_STEPS} lines in its traces")
        traces.append(tuple(_piece(trace_path, number, words) for number, words in lines))
    return tuple(traces)


def _text(path: Path, what: str) -> str:
    if not path.is_file():
        raise InputError(f"{printable(str(path))}: no such file; {what} is expected")
    return read_text(path, what=what, max_bytes=MAX_TRACE_BYTES)


def _lines(path: Path) -> dict[str, _Lines]:
    """Return the lines of a file by rank: it may serve several."""
    text = _text(path, "a usage trace")
    if text and not text.endswith("\n"):
        raise InputError(f"{path}: the last line has no end; SimGrid would leave it out")
    found: dict[str, _Lines] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split(maxsplit=4)[:4]
        if words and not words[0].startswith("#"):
            found.setdefault(words[0], []).append((number, words[1:]))
    return found


def _piece(path: Path, number: int, words: Sequence[str]) -> tuple[float, float]:
    where = f"{path}, line {number}"
    action, share, flops = (*words, "", "", "")[:3]
    if action != ACTION:
        _refuse(where, action, f"action {ACTION}")
    return (
        _number(where, share, 1.0, "a share of the cores from 0 to 1"),
        _number(where, flops, MAX_AMOUNT, "a number of flop from 0 up"),
    )


def _number(where: str, text: str, most: float, accepted: str) -> float:
    try:
        # Python alone would read 1_000 as 1000.
        value = math.nan if "_" in text else float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        _refuse(where, text, accepted)
    return value


def _refuse(where: str, found: object, accepted: str) -> NoReturn:
    raise InputError(f"{where}: {shown(found)} was found; {accepted} is expected")


class Replay:
    """The ranks of a running trace, each at its own pace.

    Parameters
    ----------
    traces, hosts
        What each rank computes, and on which host.
    share
        Makes a computation of a host, a share of its cores and the flop of each.
    letter
        Makes the transfer by which a host tells the job that its rank has ended; None where that
        takes no time. The job reads one letter after the other.
    run, stop
        Let a computation run, with a call at its end; and stop it.
    done
        Called when the job knows that all ranks have ended.
    """

    def __init__(
        self,
        traces: Traces,
        hosts: Sequence[int],
        share: Callable[[int, float, float], Computation],
        letter: Callable[[int], Computation | None],
        run: Callable[[Computation, Callable[[], None]], None],
        stop: Callable[[Computation], None],
        done: Callable[[], None],
    ) -> None:
        self._left = [iter(trace) for trace in traces]
        self._hosts = hosts
        self._share, self._letter = share, letter
        self._run, self._stop, self._done = run, stop, done
        self._running: dict[Computation, None] = {}
        self._ended: deque[int] = deque()
        self._unread = len(traces)

    def begin(self) -> None:
        for rank in range(len(self._left)):
            self._go_on(rank)

    def stop(self) -> None:
        for computation in self._running:
            self._stop(computation)
        self._running.clear()

    def _go_on(self, rank: int) -> None:
        piece = next(self._left[rank], None)
        if piece is not None:
            self._start(self._share(self._hosts[rank], *piece), partial(self._go_on, rank))
            return
        self._ended.append(rank)
        if len(self._ended) == 1:
            self._read()

    def _read(self) -> None:
        """Read what ranks that have ended say, until the network delays one of them."""
        while self._ended:
            letter = self._letter(self._hosts[self._ended[0]])
            if letter is not None:
                self._start(letter, self._was_read)
                return
            self._take()

    def _was_read(self) -> None:
        self._take()
        self._read()

    def _take(self) -> None:
        self._ended.popleft()
        self._unread -= 1
        if not self._unread:
            self._done()

    def _start(self, computation: Computation, then: Callable[[], None]) -> None:
        self._running[computation] = None
        self._run(computation, partial(self._end, computation, then))

    def _end(self, computation: Computation, then: Callable[[], None]) -> None:
        del self._running[computation]
        self._stop(computation)
        then()
