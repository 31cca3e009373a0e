"""Executing jobs: Batsim's profiles as sequences of steps.

A ``delay`` sleeps, whatever its hosts. ``parallel``, ``parallel_homogeneous`` and
``parallel_homogeneous_total`` compute on each host and communicate between each pair of them, all
parts progressing at one rate; so do ``parallel_homogeneous_pfs``, between each host and a storage
host, and ``data_staging``, between two storage hosts. A ``composed`` profile is a repeated sequence
of others. Every other type is refused by name before the simulation starts.

Each rank of a ``usage_trace`` computes by itself, one piece of work after the other. The profile
names a file next to the workload's; that file names one file a rank, next to itself. A rank's file
has SimGrid's replay format, one piece a line: ``RANK m_usage SHARE FLOP``. The piece takes that
share of the cores of the rank's host (rounded, at least one), with the given flop on each.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, NoReturn

import msgspec

from qops_batsim.engine.fluid import Computation
from qops_batsim.errors import InputError, printable, shown
from qops_batsim.files import read_text
from qops_batsim.job_fields import is_amount, is_whole_number
from qops_batsim.limits import MAX_AMOUNT, MAX_NESTING, MAX_SECONDS, MAX_STEPS, MAX_TRACE_BYTES
from qops_batsim.workload.workload_model import Workload

ACTION = "m_usage"

_TraceLines = list[tuple[int, list[str]]]
"""Number of each line, and its words after the rank."""

Traces = tuple[tuple[tuple[float, float], ...], ...]
"""By rank: share of the host's cores (0 to 1) and flop on each of them, of each piece of work."""


def directory_of(workload: Workload | None) -> Path | None:
    """Return the directory of a workload's file, None without a file."""
    path = None if workload is None else Path(workload.source)
    return path.parent if path is not None and path.is_file() else None


def read_traces(name: object, directory: Path | None, label: str) -> Traces:
    """Read a profile's traces; the InputError begins with ``label``.

    ``directory`` is that of the workload's file, None without.
    """
    if not isinstance(name, str):
        raise InputError(f"{label}: trace is {shown(name)}; the name of a file is expected")
    if directory is None:
        raise InputError(
            f"{label}: trace {shown(name)} is a file in the folder of the workload's file, "
            "and this workload was not read from a file; write it to a file there and read "
            "it"
        )

    path = _beside(directory, directory, name, label)
    ranks = [line.rstrip() for line in _trace_text(path, "a list of traces").splitlines()]
    if not ranks:
        raise InputError(f"{path}: names no trace; a line with the file of each rank is expected")

    # Several ranks may have one file.
    known: dict[Path, dict[str, _TraceLines]] = {}
    traces: list[tuple[tuple[float, float], ...]] = []
    pieces = 0

    for rank, file in enumerate(ranks):
        trace_path = _beside(directory, path.parent, file, label)
        if trace_path not in known:
            known[trace_path] = _trace_lines(trace_path)
        lines = known[trace_path].get(str(rank), [])
        pieces += len(lines)
        if pieces > MAX_STEPS:
            raise InputError(f"{path}: more than {MAX_STEPS} lines in its traces")
        traces.append(tuple(_trace_piece(trace_path, number, words) for number, words in lines))
    return tuple(traces)


def _beside(directory: Path, start: Path, name: str, label: str) -> Path:
    """Return the path of a file that a workload names; it must be in the workload's directory."""
    path = Path(f"{start}/{name}")
    try:
        if path.resolve().is_relative_to(directory.resolve()):
            return path
    except (OSError, ValueError, RuntimeError):
        return path  # No name of a file, or symbolic links in a circle: it cannot be read.
    raise InputError(
        f"{label}: trace {shown(name)} leads out of {printable(str(directory))}, the workload's "
        "directory; a file in it is expected"
    )


def _trace_text(path: Path, what: str) -> str:
    if not path.is_file():
        raise InputError(f"{printable(str(path))}: no such file; {what} is expected")
    return read_text(path, what=what, max_bytes=MAX_TRACE_BYTES)


def _trace_lines(path: Path) -> dict[str, _TraceLines]:
    """Return the lines of a usage trace by rank; one file may hold several ranks."""
    text = _trace_text(path, "a usage trace")
    if text and not text.endswith("\n"):
        raise InputError(
            f"{path}: the last line does not end with a line feed, so SimGrid would leave it "
            "out; a line feed is expected"
        )
    found: dict[str, _TraceLines] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split(maxsplit=4)[:4]
        if words and not words[0].startswith("#"):
            found.setdefault(words[0], []).append((number, words[1:]))
    return found


def _trace_piece(path: Path, number: int, words: Sequence[str]) -> tuple[float, float]:
    where = f"{path}, line {number}"
    action, share, flops = (*words, "", "", "")[:3]
    if action != ACTION:
        _refuse_trace(where, action, f"action {ACTION}")
    return (
        _trace_number(where, share, 1.0, "a share of the cores from 0 to 1"),
        _trace_number(where, flops, MAX_AMOUNT, "a number of flop from 0 up"),
    )


def _trace_number(where: str, text: str, most: float, accepted: str) -> float:
    try:
        # Python alone would read 1_000 as 1000.
        value = math.nan if "_" in text else float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        _refuse_trace(where, text, accepted)
    return value


def _refuse_trace(where: str, found: object, accepted: str) -> NoReturn:
    raise InputError(f"{where}: {shown(found)} was found; {accepted} is expected")


class Replay:
    """The ranks of a running trace, each progressing at its own pace.

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
        self._share = share
        self._letter = letter
        self._run = run
        self._stop = stop
        self._done = done
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
        """Receive the messages that ended ranks send to their job, until one takes time."""
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


RUNNABLE_TYPES = (
    "delay",
    "parallel",
    "parallel_homogeneous",
    "parallel_homogeneous_total",
    "parallel_homogeneous_pfs",
    "data_staging",
    "usage_trace",
    "composed",
)
"""Profile types that the engine can execute."""

STOPPED_DELAY_RETURN_CODE = -1
"""Return code that Batsim gives to jobs that are killed while they sleep, or at their walltime."""

KILLED_COMPUTATION_RETURN_CODE = -2
"""Return code of jobs that are killed while they compute."""

Profiles = Mapping[str, Mapping[str, Any]]

Transfer = tuple[int, int, float]
"""Host that sends, host that receives, bytes."""


class Amounts(msgspec.Struct, frozen=True):
    """Work of a computation: flop per host, bytes per ordered pair of hosts.

    Either may be one number a host, or one a pair (row by row, the diagonal included). With
    ``total``, the numbers are to be divided by the number of hosts.
    """

    storages: ClassVar[tuple[str, ...]] = ()

    computation: float | tuple[float, ...]
    communication: float | tuple[float, ...]
    total: bool = False

    def on(self, executors: int) -> tuple[list[float], list[float]]:
        """Return the flop of each executor, and the bytes for each ordered pair of them, row by
        row.
        """
        share = executors if self.total else 1
        if isinstance(self.computation, tuple):
            flops = list(self.computation)
        else:
            flops = [self.computation / share] * executors
        if isinstance(self.communication, tuple):
            return flops, list(self.communication)
        if not self.communication:
            return flops, []
        bytes_each = self.communication / share
        pairs = range(executors * executors)
        return flops, [0.0 if p // executors == p % executors else bytes_each for p in pairs]

    def over_pairs(self, executors: int) -> Amounts:
        """Divide total flop among executors, and total bytes among their ordered pairs."""
        assert isinstance(self.computation, float)
        assert isinstance(self.communication, float)
        pairs = executors * (executors - 1)
        return Amounts(
            self.computation / max(executors, 1), self.communication / pairs if pairs else 0.0
        )

    def placed(
        self, executors: Sequence[int], storages: Sequence[int]
    ) -> tuple[list[float], list[Transfer]]:
        """Return the flop of each executor, and the transfers between the given hosts."""
        count = len(executors)
        flops, pairs = self.on(count)
        return flops, [
            (executors[index // count], executors[index % count], size)
            for index, size in enumerate(pairs)
            if size > 0
        ]


class FileAmounts(msgspec.Struct, frozen=True):
    """Bytes that each host reads from and writes to a storage host."""

    total: ClassVar = False

    reads: float
    writes: float
    storages: tuple[str]

    def placed(
        self, executors: Sequence[int], storages: Sequence[int]
    ) -> tuple[list[float], list[Transfer]]:
        """Return flop per executor and transfers, like :meth:`Amounts.placed`."""
        (storage,) = storages
        written = [(host, storage, self.writes) for host in executors]
        read = [(storage, host, self.reads) for host in executors]
        return [], [transfer for transfer in written + read if transfer[2] > 0]


class StagingAmounts(msgspec.Struct, frozen=True):
    """Bytes that one storage host sends to another."""

    total: ClassVar = False

    size: float
    storages: tuple[str, str]

    def placed(
        self, executors: Sequence[int], storages: Sequence[int]
    ) -> tuple[list[float], list[Transfer]]:
        """Return flop per executor and transfers, like :meth:`Amounts.placed`."""
        source, destination = storages
        return [], [(source, destination, self.size)] if self.size > 0 else []


AnyAmounts = Amounts | FileAmounts | StagingAmounts
"""Work that progresses at one rate. ``storages`` are labels, for the decision side to map."""


class Step(msgspec.Struct, frozen=True):
    """One step of a job: sleep ``delay`` seconds, compute ``amounts``, or ``replay`` a trace.

    The job ends here with ``return_code``, or goes on if that is 0. ``place`` is name and index of
    the step in each ``composed`` profile around it, outermost first.
    """

    profile: str
    delay: float | None
    amounts: AnyAmounts | None
    return_code: int
    place: tuple[tuple[str, int], ...] = ()
    replay: Traces | None = None


class Execution(msgspec.Struct, frozen=True):
    """A profile's execution: its steps in order, at least one."""

    steps: tuple[Step, ...]


class _ProfileSource(NamedTuple):
    """The context of a profile (see :func:`execution_of`) and the traces read so far."""

    profiles: Profiles
    processors: int
    where: str
    directory: Path | None
    traces: dict[str, Traces]
    over_pairs: bool


def execution_of(
    name: str,
    profiles: Profiles,
    *,
    processors: int,
    where: str,
    directory: Path | None = None,
    over_pairs: bool = False,
) -> Execution:
    """Return a profile's execution; the InputError begins with ``where``.

    The arrays of a ``parallel`` profile must fit the number of processors that the job asks for.
    The files of traces lie in the ``directory`` of the workload's file. The communication of a
    fixed total is divided by the hosts, or ``over_pairs`` of them.
    """
    steps: list[Step] = []
    _measure(name, profiles, where, (), {})
    given = _ProfileSource(profiles, processors, where, directory, {}, over_pairs)
    _append_steps(steps, name, given, ())
    return Execution(tuple(steps))


def plain_delay(profile: Mapping[str, Any] | None) -> float | None:
    """Return the delay (s) of a profile that only sleeps and succeeds, else None.

    Most profiles are such.
    """
    if profile is None or profile.get("type") != "delay" or "ret" in profile:
        return None
    delay: Any = profile.get("delay")
    return float(delay) if type(delay) in (int, float) and 0 < delay <= MAX_SECONDS else None


def _measure(
    name: str,
    profiles: Profiles,
    where: str,
    around: tuple[str, ...],
    known: dict[str, tuple[int, int]],
) -> tuple[int, int]:
    """Return a profile's number of steps, repetitions included, and how deep it nests others.

    InputError if it is too much, or if it cannot be run at all. O(names in all sequences).
    """
    label = f"{where}: profile {shown(name)}"
    profile = profiles.get(name)
    if profile is None:
        raise InputError(f"{label} does not exist")
    if name in around:
        raise InputError(f"{label} contains itself; a sequence of other profiles is expected")

    kind = profile.get("type")
    if kind not in RUNNABLE_TYPES:
        raise InputError(
            f"{label}: the embedded engine cannot run profiles of type {shown(kind)}; "
            f"it runs {', '.join(RUNNABLE_TYPES)}"
        )

    if kind != "composed":
        return 1, 0
    count, depth = known.get(name, (0, 0))
    if len(around) + depth >= MAX_NESTING:
        raise InputError(f"{label}: more than {MAX_NESTING} composed profiles inside each other")
    if count:
        return count, depth

    sequence = profile.get("seq")
    if not isinstance(sequence, list) or not sequence:
        raise InputError(f"{label}: seq is {shown(sequence)}; a list of profile names is expected")
    repeat = _whole(profile, "repeat", label, default=1, least=1)
    for step in sequence:
        steps, inside = _measure(str(step), profiles, where, (*around, name), known)
        count += steps
        depth = max(depth, inside)

    count *= repeat
    if count > MAX_STEPS:
        raise InputError(f"{label}: more than {MAX_STEPS} steps, repetitions included")
    known[name] = count, depth + 1
    return known[name]


def _append_steps(
    steps: list[Step],
    name: str,
    given: _ProfileSource,
    place: tuple[tuple[str, int], ...],
) -> None:
    label = f"{given.where}: profile {name!r}"
    profile = given.profiles[name]
    kind = profile["type"]
    code = _whole(profile, "ret", label, default=0, least=None)
    if kind == "delay":
        steps.append(Step(name, _number(profile, "delay", label, above=True), None, code, place))
        return

    if kind == "usage_trace":
        if name not in given.traces:
            given.traces[name] = read_traces(profile.get("trace"), given.directory, label)
        steps.append(Step(name, None, None, code, place, given.traces[name]))
        return

    if kind != "composed":
        amounts = _amounts(profile, kind, given.processors, label)
        if given.over_pairs and isinstance(amounts, Amounts) and amounts.total:
            amounts = amounts.over_pairs(given.processors)
        steps.append(Step(name, None, amounts, code, place))
        return

    sequence = profile["seq"]
    inside: list[Step] = []
    for index in range(profile.get("repeat", 1) * len(sequence)):
        step = str(sequence[index % len(sequence)])
        _append_steps(inside, step, given, (*place, (name, index)))
    if code and not inside[-1].return_code:
        # The sequence's own code counts once all of its steps have succeeded.
        inside[-1] = msgspec.structs.replace(inside[-1], return_code=code)
    steps.extend(inside)


def _amounts(profile: Mapping[str, Any], kind: str, processors: int, label: str) -> AnyAmounts:
    if kind == "parallel":
        flops = _numbers(profile, "cpu", processors, label)
        return Amounts(flops, _numbers(profile, "com", processors * processors, label))

    if kind == "parallel_homogeneous_pfs":
        fields = ("bytes_to_read", "bytes_to_write")
        if not profile.keys() & set(fields):
            raise InputError(f"{label}: neither {' nor '.join(fields)} is given")
        reads, writes = (_number(profile, field, label, default=0) for field in fields)
        storage = _text(profile, "storage" if "storage" in profile else "host", label, "pfs")
        return FileAmounts(reads, writes, (storage,))

    if kind == "data_staging":
        storages = _text(profile, "from", label), _text(profile, "to", label)
        return StagingAmounts(_number(profile, "nb_bytes", label), storages)

    total = kind == "parallel_homogeneous_total"
    return Amounts(_number(profile, "cpu", label), _number(profile, "com", label), total=total)


def _text(profile: Mapping[str, Any], field: str, label: str, default: str | None = None) -> str:
    value = profile.get(field, default)
    if not isinstance(value, str):
        raise InputError(f"{label}: {field} is {shown(value)}; a text is expected")
    return value


def _number(
    profile: Mapping[str, Any],
    field: str,
    label: str,
    *,
    above: bool = False,
    default: float | None = None,
) -> float:
    value = profile.get(field, 0 if field == "com" else default)
    if not is_amount(value) or (above and not 0 < value <= MAX_SECONDS):
        accepted = f"a number above 0, up to {MAX_SECONDS:g}," if above else "a number from 0 up"
        raise InputError(f"{label}: {field} is {shown(value)}; {accepted} is expected")
    return float(value)


def _numbers(profile: Mapping[str, Any], field: str, count: int, label: str) -> tuple[float, ...]:
    values = profile.get(field)
    if field == "com" and values is None:
        return ()
    if not isinstance(values, list) or not all(is_amount(value) for value in values):
        raise InputError(f"{label}: {field} is not a list of numbers from 0 up")
    if len(values) != count and not (field == "com" and not values):
        raise InputError(
            f"{label}: {field} has {len(values)} numbers; {count} are expected for a job of "
            f"{math.isqrt(count) if field == 'com' else count} processors"
        )
    return tuple(float(value) for value in values)


def _whole(
    profile: Mapping[str, Any], field: str, label: str, *, default: int, least: int | None
) -> int:
    value = profile.get(field, default)
    if not is_whole_number(value) or (least is not None and value < least):
        accepted = "a whole number" if least is None else f"a whole number from {least} up"
        raise InputError(f"{label}: {field} is {shown(value)}; {accepted} is expected")
    return value
