"""Synthetic workloads: jobs of a model, users' estimates, deadlines on request.

Presets: the numbers stand in ``presets.json``. ``python studies/presets``
printed those of ``ctc-sp2``, ``sdsc-sp2`` and ``kth-sp2`` from the logs CTC-SP2-1996 (77,199
jobs), SDSC-SP2-1998 (54,006) and KTH-SP2-1996 (28,489) of the Parallel Workloads Archive; how, and
how well they fit, is told in ``studies/presets``.

Those of ``lublin-batch`` are the batch parameters that Lublin and Feitelson publish with their
model (2003), with the limits of the published program: run times up to exp(12), gaps up to exp(13)
seconds. Its gaps describe the rush hours; a factor on their shape (6.0415 × 1.0519) makes them
those of the whole day. The model says nothing about estimates: these are the round values that
users like, equally often, and a killed share as in the three logs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import repeat
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from qops_batsim.errors import InputError, require, require_one_of
from qops_batsim.jobs import Job
from qops_batsim.limits import MAX_JOBS
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
from qops_batsim.workload.workload_model import (
    Profile,
    Workload,
    check_processors,
    check_share,
    delay_profile,
)

LOADS = (0.001, 1000.0)
"""Least and greatest offered load that can be asked for."""

# Streams of the seed (0 and 1 are sizes with run times, and arrivals).
_ESTIMATES = 2
_DEADLINES = 3


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
    """Generate a workload of random jobs like those of a log (``preset``); equal arguments give
    equal workloads.

    Jobs, estimates and deadlines come from separate streams of the seed: exact estimates or
    deadlines change nothing else.

    Parameters
    ----------
    preset
        One of :data:`~qops_batsim.workload.synthetic.PRESETS`.
    jobs
        Number of jobs.
    seed
        Seed of all random numbers.
    processors
        Size of the machine; None: the preset's.
    load
        Offered load, reached by one factor on all gaps between submissions; None: that of the
        preset's log, or as sampled if it has none or there is one job only.
    exact_estimates
        Whether jobs carry their run times in ``qos`` and have no walltime; implied by deadlines.
    deadlines
        Rule that gives deadlines to a share of the jobs; None: none.

    Returns
    -------
    Workload
        Delay jobs in order of submission, with all parameters in the provenance.

    Raises
    ------
    InputError
        If the preset is unknown or a value is out of range.

    Examples
    --------
    >>> generate_workload("kth-sp2", jobs=3, seed=1)
    <Workload: 3 jobs on 100 processors, submitted from 12 s to 43 s, a generated workload>
    """
    require_one_of("preset", preset, PRESETS)
    parameters = PRESETS[preset]
    if processors is not None:
        check_processors(processors)
    if load is None and jobs > 1:
        load = parameters.offered_load
    rule = checked_rule(jobs, load, deadlines)

    model = parameters.model.for_machine(processors or parameters.model.processors)
    sizes, run_times = lublin.sample_sizes_and_run_times(model, jobs, seed)
    random = random_stream(seed, _ESTIMATES)
    run_times, walltimes = sample_estimates(parameters.estimates, run_times, random)
    work = float(np.dot(sizes.astype(float), run_times))
    period = None if load is None else work / (model.processors * load)
    submissions = lublin.sample_submissions(model, jobs, seed, period=period)

    choices = {
        "preset": preset,
        "jobs": jobs,
        "seed": seed,
        "processors": model.processors,
        "offered_load": load,
    }
    columns = (submissions, sizes, run_times, walltimes)
    made = workload_of(columns, repeat({}), choices, rule, exact_estimates=exact_estimates)
    made.provenance["model"] = msgspec.to_builtins(model)
    made.provenance["estimates"] = msgspec.to_builtins(parameters.estimates)
    return made


def checked_rule(
    jobs: int, load: float | None, deadlines: DeadlineRule | None
) -> DeadlineRule | None:
    """Return the rule by which jobs get deadlines, None if none does; InputError if a value is out
    of range.
    """
    require(1 <= jobs <= MAX_JOBS, "jobs", jobs, f"a whole number from 1 to {MAX_JOBS} is accepted")
    low, high = LOADS
    accepted = (
        f"a number from {low:g} to {high:g} is accepted (0.85 keeps 85 % of the machine busy)"
    )
    require(load is None or low <= load <= high, "load", load, accepted)
    if deadlines is None:
        return None
    deadlines.check()
    return deadlines if deadlines.share else None


def workload_of(
    columns: tuple[Integers, Integers, Integers, Integers],
    asked: Iterable[Mapping[str, Any]],
    choices: Mapping[str, Any],
    rule: DeadlineRule | None,
    *,
    exact_estimates: bool,
) -> Workload:
    """Make a generated workload.

    Parameters
    ----------
    columns
        Dates of submission, hosts, run times and walltimes (seconds) of the jobs.
    asked
        What else each job asks of its hosts, as fields.
    choices
        What the provenance says first, among it ``processors`` and ``seed``.
    rule
        Gives deadlines; None: there are none.
    exact_estimates
        Whether jobs have estimates in place of walltimes, as with a ``rule``.
    """
    submissions, _, run_times, _ = columns
    is_exact = exact_estimates or rule is not None
    qos = qos_requests(submissions, run_times, rule, choices["seed"]) if is_exact else None
    profiles: dict[str, Profile] = {}
    made: list[Job] = []
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for index, ((submission, size, run_time, walltime), hosts) in enumerate(
        zip(rows, asked, strict=False)
    ):
        name, profiles[name] = delay_profile(run_time)
        fields = {"id": str(index + 1), "subtime": submission, "res": size, "profile": name}
        fields |= {**hosts, "walltime": walltime} if qos is None else {**hosts, "qos": qos[index]}
        made.append(Job.from_fields(fields, where="generated workload"))
    provenance = {
        "command": "workload generate",
        **choices,
        "exact_estimates": is_exact,
        "deadlines": None if rule is None else msgspec.to_builtins(rule),
    }
    return Workload(made, profiles, choices["processors"], provenance, "a generated workload")


def qos_requests(
    submissions: Integers, run_times: Integers, rule: DeadlineRule | None, seed: int
) -> list[dict[str, Any]]:
    """Return each job's ``qos``: an estimate equal to its run time, and for a share of the jobs a
    deadline by the ``rule``.
    """
    requests: list[dict[str, Any]] = [
        {"estimated_runtime": seconds} for seconds in run_times.tolist()
    ]
    if rule is not None:
        uniform = random_stream(seed, _DEADLINES).random((len(run_times), 2))
        low, high = rule.stretch
        stretch = low + uniform[:, 1] * (high - low)
        dates = submissions + np.ceil(stretch * run_times).astype(np.int64)
        for index in np.flatnonzero(uniform[:, 0] < rule.share).tolist():
            deadline = {"deadline": int(dates[index])}
            requests[index] = {**deadline, **requests[index], "has_user_deadline": True}
    return requests


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters with which workloads like one log are generated: sizes, run times, arrivals, and
    users' requests.

    ``offered_load`` is that of the log, which generated workloads get unless another is asked
    for. None: the load is as sampled.
    """

    model: LublinModel
    estimates: EstimateModel
    offered_load: float | None = None


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
