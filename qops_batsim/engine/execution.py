"""What a job does while it runs: Batsim's profiles as a sequence of steps.

A ``delay`` sleeps, whatever its hosts. ``parallel``, ``parallel_homogeneous`` and
``parallel_homogeneous_total`` compute on each host and communicate between each pair of them, all
parts progressing at one rate; so do ``parallel_homogeneous_pfs``, between each host and a storage
host, and ``data_staging``, between two storage hosts. Each rank of a ``usage_trace`` computes by
itself. A ``composed`` profile is a repeated sequence of others. Every other type is refused by name
before the simulation starts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec

from qops_batsim.engine.usage_traces import Traces, read_traces
from qops_batsim.errors import InputError, shown
from qops_batsim.jobs import is_amount, is_whole_number
from qops_batsim.limits import MAX_NESTING, MAX_SECONDS, MAX_STEPS

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

KILLED_DELAY_RETURN_CODE = -1
KILLED_COMPUTATION_RETURN_CODE = -2
WALLTIME_RETURN_CODE = -1
"""Return codes that Batsim gives to jobs that are stopped."""

Profiles = Mapping[str, Mapping[str, Any]]

Transfer = tuple[int, int, float]
"""Host that sends, host that receives, bytes."""


class Amounts(msgspec.Struct, frozen=True):
    """Work of a computation: flop of every host and bytes of every ordered pair of different hosts.

    Either may be one number a host, or one a pair (row by row, the diagonal included). With
    ``total``, the numbers are to be divided by the number of hosts.
    """

    storages: ClassVar[tuple[str, ...]] = ()

    computation: float | tuple[float, ...]
    communication: float | tuple[float, ...]
    total: bool = False

    def on(self, executors: int) -> tuple[list[float], list[float]]:
        """Return flop by executor and bytes by ordered pair (row by row)."""
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

    def placed(
        self, executors: Sequence[int], storages: Sequence[int]
    ) -> tuple[list[float], list[Transfer]]:
        """Return flop by executor and what is sent, by the hosts of executors and storages."""
        count = len(executors)
        flops, pairs = self.on(count)
        return flops, [
            (executors[index // count], executors[index % count], size)
            for index, size in enumerate(pairs)
            if size > 0
        ]


class FileAmounts(msgspec.Struct, frozen=True):
    """Bytes that each host reads from a storage host and writes to it."""

    total: ClassVar = False

    reads: float
    writes: float
    storages: tuple[str]

    def placed(
        self, executors: Sequence[int], storages: Sequence[int]
    ) -> tuple[list[float], list[Transfer]]:
        """As :meth:`Amounts.placed`."""
        (storage,) = storages
        written = [(host, storage, self.writes) for host in executors]
        read = [(storage, host, self.reads) for host in executors]
        return [], [each for each in written + read if each[2] > 0]


class StagingAmounts(msgspec.Struct, frozen=True):
    """Bytes that the first of two storage hosts sends to the second."""

    total: ClassVar = False

    size: float
    storages: tuple[str, str]

    def placed(
        self, executors: Sequence[int], storages: Sequence[int]
    ) -> tuple[list[float], list[Transfer]]:
        """As :meth:`Amounts.placed`."""
        source, destination = storages
        return [], [(source, destination, self.size)] if self.size > 0 else []


AnyAmounts = Amounts | FileAmounts | StagingAmounts
"""Work that progresses at one rate. ``storages`` are labels, for the decision side to map."""


class Step(msgspec.Struct, frozen=True):
    """One thing that a job does: sleep for ``delay`` seconds, compute ``amounts``, or ``replay``.

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
    """What a profile does when nothing stops it: its steps in order, at least one."""

    steps: tuple[Step, ...]


class _Given(NamedTuple):
    """What a profile is read with, see :func:`execution_of`, and the traces read so far."""

    profiles: Profiles
    processors: int
    where: str
    directory: Path | None
    traces: dict[str, Traces]


def execution_of(
    name: str, profiles: Profiles, *, processors: int, where: str, directory: Path | None = None
) -> Execution:
    """Return how a profile executes; InputError, beginning with ``where``, if it cannot.

    The arrays of a ``parallel`` profile must fit the number of processors that the job asks for.
    The files of traces lie in the ``directory`` of the workload's file.
    """
    steps: list[Step] = []
    _measure(name, profiles, where, (), {})
    _append_steps(steps, name, _Given(profiles, processors, where, directory, {}), ())
    return Execution(tuple(steps))


def plain_delay(profile: Mapping[str, Any] | None) -> float | None:
    """Return how long a profile sleeps (seconds) that does nothing else and ends well.

    As good as all profiles are such; None for others, and for what is none.
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
    """Return a profile's number of steps, and how many composed ones are in each other in it.

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
        count, depth = count + steps, max(depth, inside)
    count *= repeat
    if count > MAX_STEPS:
        raise InputError(f"{label}: more than {MAX_STEPS} steps, repetitions included")
    known[name] = count, depth + 1
    return known[name]


def _append_steps(
    steps: list[Step],
    name: str,
    given: _Given,
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
