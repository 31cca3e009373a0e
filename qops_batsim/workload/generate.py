"""Synthetic workloads: jobs of a model, users' estimates, deadlines on request; full machines.

Presets: the numbers stand in ``presets.json``. ``python studies/presets``
printed those of ``ctc-sp2``, ``sdsc-sp2`` and ``kth-sp2`` from the logs CTC-SP2-1996 (77,199
jobs), SDSC-SP2-1998 (54,006) and KTH-SP2-1996 (28,489) of the Parallel Workloads Archive; how, and
how well they fit, is told in ``docs/workloads.md``.

Those of ``lublin-batch`` are the batch parameters that Lublin and Feitelson publish with their
model (2003), with the limits of the published program: run times up to exp(12), gaps up to exp(13)
seconds. Its gaps describe the rush hours; a factor on their shape (6.0415 × 1.0519) makes them
those of the whole day. The model says nothing about estimates: these are the round values that
users like, equally often, and a killed share as in the three logs.

Packed jobs fill a machine completely: every deadline can be met, and it is known how. They are the
synthetic job sets of Islam et al. (2003), section 4.1, and of the real-time scheduling that they
start from (Ramamritham, Stankovic and Shiah, 1990). How jobs are cut out of the full schedule is
not told there; here new jobs start whenever some end.
"""

from __future__ import annotations

import heapq
import math
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from qops_batsim.errors import InputError, require, require_one_of
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.limits import MAX_JOBS, MAX_LAXITY
from qops_batsim.version import __version__
from qops_batsim.workload import lublin
from qops_batsim.workload.estimates import EstimateModel, sample_estimates
from qops_batsim.workload.lublin import (
    ArrivalModel,
    Integers,
    LublinModel,
    RunTimeModel,
    SizeModel,
    random_stream,
)
from qops_batsim.workload.model import (
    Profile,
    Workload,
    check_processors,
    check_share,
    delay_profile,
    plain_number,
)

LOADS = (0.001, 1000.0)
"""Least and greatest offered load that can be asked for."""

# Streams of the seed (0 and 1 are sizes with run times, and arrivals).
_ESTIMATES, _DEADLINES = 2, 3


class GeneratedColumns(NamedTuple):
    """Generated jobs: one whole number a job in each column (seconds, processors)."""

    submissions: Integers
    sizes: Integers
    run_times: Integers
    walltimes: Integers


class DeadlineRule(msgspec.Struct, frozen=True, kw_only=True):
    """A simple rule that gives deadlines to a share (0 to 1) of the generated jobs.

    A job with a deadline must end within stretch × run time of its submission, the
    stretch drawn uniformly for each job between two numbers from 1 up. This knows nothing of
    the machine's load: deadlines derived from a reference schedule are a matter of their own.
    """

    share: float
    stretch: tuple[float, float] = (2.0, 10.0)

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if a value is out of range."""
        check_share(self.share)
        low, high = self.stretch
        if not 1 <= low <= high < math.inf:
            raise InputError(
                f"stretch is {low:g} to {high:g}; two numbers from 1 up, the smaller one first, "
                "are accepted"
            )


class WorkloadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A workload of delay jobs in a few numbers."""

    jobs: int
    period: float
    """Time from first to last submission (seconds)."""
    offered_load: float | None
    """Sum of run time x processors over processors of the machine x period; None for period 0."""
    serial_share: float
    """Share of jobs on one processor."""
    mean_run_time: float
    mean_size: float
    """Means (seconds, processors)."""
    deadlines: int
    """Jobs with a deadline."""
    killed: int
    """Jobs whose run time reaches their walltime."""


def generate_workload(
    preset: str,
    *,
    jobs: int,
    seed: int,
    processors: int | None = None,
    load: float | None = None,
    exact_estimates: bool = False,
    deadlines: DeadlineRule | None = None,
) -> Workload:
    """Make a workload; the same arguments always make the same one.

    The preset is one of :data:`~qops_batsim.workload.generate.PRESETS`, the machine its own
    unless ``processors`` are given. One factor on all gaps between submissions brings the
    offered ``load`` about; None: that of the preset's log, or as sampled when there is none or
    only one job is made. With ``exact_estimates``, which ``deadlines`` imply, jobs carry their
    run times in ``qos`` and have no walltime. Jobs, estimates and deadlines come from separate
    streams of the seed: asking for exact estimates or deadlines leaves all else as it is.

    Examples
    --------
    >>> generate_workload("kth-sp2", jobs=3, seed=1)
    <Workload: 3 jobs on 100 processors, submitted from 12 s to 43 s, a generated workload>
    """
    parameters = find_preset(preset)
    _check(jobs, processors, load, deadlines)
    rule = deadlines if deadlines and deadlines.share else None
    if load is None and jobs > 1:
        load = parameters.offered_load
    model = parameters.model.for_machine(processors or parameters.model.processors)
    sizes, run_times = lublin.sample_sizes_and_run_times(model, jobs, seed)
    random = random_stream(seed, _ESTIMATES)
    run_times, estimates = sample_estimates(parameters.estimates, run_times, random)
    work = float(np.dot(sizes.astype(float), run_times))
    period = None if load is None else work / (model.processors * load)
    submissions = lublin.sample_submissions(model, jobs, seed, period=period)
    exact = exact_estimates or rule is not None
    qos = _qos_requests(submissions, run_times, rule, seed) if exact else None
    columns = GeneratedColumns(submissions, sizes, run_times, estimates)
    provenance = {
        "command": "workload generate",
        "preset": preset,
        "jobs": jobs,
        "seed": seed,
        "processors": model.processors,
        "offered_load": load,
        "exact_estimates": exact,
        "deadlines": None if rule is None else msgspec.to_builtins(rule),
        "model": msgspec.to_builtins(model),
        "estimates": msgspec.to_builtins(parameters.estimates),
    }
    return _assemble(columns, qos, model.processors, provenance)


def summarise(workload: Workload) -> WorkloadSummary:
    """Return the summary of a workload whose profiles are all delays."""
    jobs, count = workload.jobs, len(workload.jobs)
    run_times = [float(workload.profiles[job.profile]["delay"]) for job in jobs]
    sizes = [job.processors for job in jobs]
    dates = [job.submission_time for job in jobs]
    period = max(dates) - min(dates)
    work = sum(run_time * size for run_time, size in zip(run_times, sizes, strict=True))
    pairs = zip(jobs, run_times, strict=True)
    return WorkloadSummary(
        jobs=count,
        period=period,
        offered_load=work / (workload.processors * period) if period > 0 else None,
        serial_share=sizes.count(1) / count,
        mean_run_time=sum(run_times) / count,
        mean_size=sum(sizes) / count,
        deadlines=sum(job.qos is not None and job.qos.deadline is not None for job in jobs),
        killed=sum(job.walltime is not None and time >= job.walltime for job, time in pairs),
    )


def _check(
    jobs: int, processors: int | None, load: float | None, deadlines: DeadlineRule | None
) -> None:
    require(1 <= jobs <= MAX_JOBS, "jobs", jobs, f"a whole number from 1 to {MAX_JOBS} is accepted")
    if processors is not None:
        check_processors(processors)
    if load is not None:
        low, high = LOADS
        accepted = f"a number from {low:g} to {high:g} is accepted"
        hint = "(0.85 keeps 85 % of the machine busy)"
        require(low <= load <= high, "load", load, f"{accepted} {hint}")
    if deadlines is not None:
        deadlines.check()


def _qos_requests(
    submissions: Integers, run_times: Integers, rule: DeadlineRule | None, seed: int
) -> list[dict[str, Any]]:
    """Return each job's ``qos`` object: the exact estimate, and the deadline of those chosen."""
    requests: list[dict[str, Any]] = [{"estimated_runtime": each} for each in run_times.tolist()]
    if rule is not None:
        uniform = random_stream(seed, _DEADLINES).random((len(run_times), 2))
        low, high = rule.stretch
        stretch = low + uniform[:, 1] * (high - low)
        dates = submissions + np.ceil(stretch * run_times).astype(np.int64)
        for index in np.flatnonzero(uniform[:, 0] < rule.share).tolist():
            deadline = {"deadline": int(dates[index])}
            requests[index] = {**deadline, **requests[index], "has_user_deadline": True}
    return requests


def _assemble(
    columns: GeneratedColumns,
    qos: list[dict[str, Any]] | None,
    processors: int,
    provenance: dict[str, Any],
) -> Workload:
    """Return the workload of these columns; walltimes are left out where there is ``qos``."""
    jobs: list[Job] = []
    profiles: dict[str, Profile] = {}
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for index, (submission, size, run_time, walltime) in enumerate(rows):
        name, profiles[name] = delay_profile(run_time)
        last = {"walltime": walltime} if qos is None else {"qos": qos[index]}
        fields = {"id": str(index + 1), "subtime": submission, "res": size, "profile": name}
        jobs.append(Job.from_fields(fields | last, where="generated workload"))
    return Workload(jobs, profiles, processors, provenance, "a generated workload")


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """A named set of parameters: sizes, run times and arrivals, and what users request.

    ``offered_load`` is that of the log, which generated workloads get unless another is asked
    for. None: the load is as sampled.
    """

    model: LublinModel
    estimates: EstimateModel
    offered_load: float | None = None


def find_preset(name: str) -> Preset:
    """Return a preset by name."""
    require_one_of("preset", name, PRESETS)
    return PRESETS[name]


def _preset(data: dict[str, Any]) -> Preset:
    # Numbers stay as they are written: 7 is recorded in a workload as 7, not as 7.0.
    parts = {"sizes": SizeModel, "run_times": RunTimeModel, "arrivals": ArrivalModel}
    models = {name: kind(**data[name]) for name, kind in parts.items()}
    model = LublinModel(processors=data["processors"], **models)
    table = tuple((value, weight, killed) for value, weight, killed in data["estimates"])
    return Preset(
        model=model, estimates=EstimateModel(table=table), offered_load=data["offered_load"]
    )


_PRESETS_FILE = Path(__file__).with_name("presets.json")

PRESETS: dict[str, Preset] = {
    name: _preset(data) for name, data in msgspec.json.decode(_PRESETS_FILE.read_bytes()).items()
}
"""All presets by name."""


LONGEST = 10**7
"""Longest run time that can be asked for (seconds)."""

# A stream of the seed that nothing else uses.
_PACKED = 17


class PackedWorkload(msgspec.Struct, frozen=True):
    """A workload together with a schedule that meets all its deadlines.

    The jobs stand in the order in which that schedule starts them. ``starts`` holds its
    starts (seconds) by id; until ``end`` (T, seconds) all processors are busy in it.
    """

    workload: Workload
    starts: dict[str, int]
    end: int


def packed_workload(
    processors: int,
    jobs: int,
    laxity: float,
    seed: int,
    *,
    static: bool = False,
    run_times: tuple[int, int] = (60, 36_000),
) -> PackedWorkload:
    """Make jobs that a perfect scheduler can all admit.

    The known schedule keeps all processors busy from 0 to T. Sizes and run times (whole seconds)
    are uniform in their logarithm; a size is cut to the processors that are free, and the jobs
    that are left at the end last until T, some of them longer than asked for. Jobs and known
    schedule do not depend on the laxity.

    Each job is submitted when the known schedule starts it, with the deadline
    start + (1 + ``laxity``) × run time. With 0 there is only one way to meet all deadlines, and
    any scheduler finds it; more laxity allows choices that end badly, so *fewer* jobs are
    admitted, which is why the paper gave this method up. ``static`` makes the set of the
    real-time paper: all jobs are submitted at 0, with the deadline (1 + ``laxity``) × T.
    """
    _check_packed(processors, jobs, laxity, run_times)
    starts, ends, sizes = _fill(processors, jobs, seed, run_times)
    end = max(ends)
    profiles: dict[str, Profile] = {}
    made = []
    for index, (start, finish, size) in enumerate(zip(starts, ends, sizes, strict=True)):
        run_time = finish - start
        name, profiles[name] = delay_profile(run_time)
        deadline = (1 + laxity) * end if static else start + (1 + laxity) * run_time
        qos = QosRequest(
            deadline=float(deadline), estimated_runtime=float(run_time), has_user_deadline=True
        )
        submission = 0.0 if static else float(start)
        made.append(Job(str(index + 1), submission, size, name, qos=qos))
    provenance = {
        "step": "packed",
        "processors": processors,
        "jobs": jobs,
        "laxity": plain_number(laxity),
        "seed": seed,
        "static": static,
        "run_times": list(run_times),
        "version": __version__,
    }
    source = f"the packed workload of seed {seed}"
    workload = Workload(made, profiles, processors, provenance, source)
    known = dict(zip((job.id for job in made), starts, strict=True))
    return PackedWorkload(workload, known, end)


def _fill(
    processors: int, jobs: int, seed: int, run_times: tuple[int, int]
) -> tuple[list[int], list[int], list[int]]:
    """Return start, end and size of each job, in the order of starts."""
    random = random_stream(seed, _PACKED)
    drawn_sizes = _between(1, processors, random.random(jobs))
    drawn_times = _between(*run_times, random.random(jobs))
    starts, ends, sizes = list[int](), list[int](), list[int]()
    running: list[tuple[int, int]] = []
    now, free = 0, processors
    while True:
        while free and len(starts) < jobs:
            index = len(starts)
            # The last job takes all that is left, or the schedule would have a hole.
            size = free if index == jobs - 1 else min(drawn_sizes[index], free)
            starts.append(now)
            ends.append(now + drawn_times[index])
            sizes.append(size)
            heapq.heappush(running, (ends[index], index))
            free -= size
        if len(starts) == jobs:
            break
        now = running[0][0]
        while running and running[0][0] == now:
            free += sizes[heapq.heappop(running)[1]]
    last = max(when for when, _ in running)
    for _, index in running:
        ends[index] = last
    return starts, ends, sizes


def _between(low: int, high: int, position: np.ndarray) -> list[int]:
    """Return whole numbers from low to high, uniform in their logarithm."""
    values = np.floor(np.exp(math.log(low) + position * math.log((high + 1) / low)))
    whole: list[int] = np.clip(values, low, high).astype(np.int64).tolist()
    return whole


def _check_packed(processors: int, jobs: int, laxity: float, run_times: tuple[int, int]) -> None:
    check_processors(processors)
    require(1 <= jobs <= MAX_JOBS, "jobs", jobs, f"a whole number from 1 to {MAX_JOBS} is accepted")
    accepted = f"a number from 0 to {MAX_LAXITY:g} is accepted"
    require(0 <= laxity <= MAX_LAXITY, "laxity", laxity, accepted)
    shortest, longest = run_times
    if not 1 <= shortest <= longest <= LONGEST:
        raise InputError(
            f"run times are from {shortest} to {longest}; whole seconds from 1 to {LONGEST}, "
            "the shortest first, are accepted"
        )
