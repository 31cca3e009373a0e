"""Comparisons of schedulers over loads and seeds, as studies of one log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.errors import InputError, require_one_of
from qops_batsim.experiments.deadline_runs import Contestant, contestants_of
from qops_batsim.experiments.listed_cases import StudyLog, Window
from qops_batsim.experiments.pool import Workers
from qops_batsim.experiments.study import Study
from qops_batsim.experiments.study_runs import StudyRuns, run_study
from qops_batsim.parameters import COUNT, ESTIMATES, EXACT, METHOD, SEEDS, USERS, is_strict
from qops_batsim.running.inputs import AnyPlatform, AnyWorkload, load_platform, load_workload
from qops_batsim.shipped import DEFAULT_WORKLOAD
from qops_batsim.workload.deadlines import DeadlineChoices
from qops_batsim.workload.estimates import EstimateChoices

LOADS = (1.0, 1.3, 1.6)
MIXED = (
    "unadmitted_deadline_jobs",
    "unadmitted_deadline_work",
    "response_time_of_others",
    "slowdown_of_others",
)
"""Metrics that are shown where only some jobs have a user's deadline."""


def comparison_of(
    schedulers: Sequence[Contestant],
    log: str,
    *,
    loads: Sequence[float] = LOADS,
    seeds: int | Sequence[int] = SEEDS,
    deadlines: DeadlineChoices = DeadlineChoices(),  # noqa: B008 - it is frozen
    method: str = METHOD.default,
    skip: int = 0,
    first: int | None = None,
    estimates: str | None = None,
    platform: str | None = None,
    message_delays: bool = True,
    baseline: str | None = None,
    bound: float | None = None,
    on_broken_promise: str = COUNT,
) -> Study:
    """Return the study of a comparison, checked; for the parameters see :func:`compare`.

    Each seed, in place of that of ``deadlines``, chooses duplicates and whose jobs have a user's
    deadline. By default, schedulers plan with users' estimates, but with a bound, which knows run
    times.
    """
    if estimates is None:
        estimates = ESTIMATES.default if bound is None else EXACT
    require_one_of(ESTIMATES.name, estimates, (EXACT, USERS))
    if bound is not None and estimates != EXACT:
        raise InputError(
            f"bound with estimates {estimates}: a bound is computed from real run times; leave "
            "the bound or the estimates out"
        )
    study = Study(
        name="comparison",
        logs=(StudyLog(name=Path(log).name.partition(".")[0], file=log),),
        windows=(Window(skip=skip, first=first or 0),),
        schedulers=tuple(schedulers),
        loads=tuple(loads),
        methods=(method,),
        stringencies=(deadlines.stringency,),
        deadline_shares=(deadlines.share,),
        artificial=(deadlines.artificial,),
        relaxations=(deadlines.relaxation,),
        seeds=tuple(range(1, seeds + 1) if isinstance(seeds, int) else seeds),
        baseline=baseline_of(schedulers, baseline),
        bound=bound,
        on_broken_promise="fail" if is_strict(on_broken_promise) else "count",
        platform=platform or "",
        message_delays=message_delays,
    )
    if deadlines.share < 1:
        metrics = (*MIXED, *(each for each in study.metrics if each not in MIXED))
        study = msgspec.structs.replace(study, metrics=metrics)
    if estimates == USERS:
        models = (EstimateChoices(model=USERS),)
        study = msgspec.structs.replace(study, deadlines_by=(USERS,), estimates=models)
    study.check()
    return study


def baseline_of(schedulers: Sequence[Contestant], asked: str | None) -> str:
    """Return the baseline: the scheduler asked for, else msb if compared, else the first one."""
    names = [each.name for each in schedulers]
    if asked is None:
        return "msb" if "msb" in names else "".join(names[:1])
    for each in schedulers:
        if asked in (each.name, each.scheduler):
            return each.name
    raise InputError(f"baseline is {asked!r}; one of {', '.join(names)} is expected")


def compare(
    schedulers: Iterable[str | Contestant],
    workload: AnyWorkload = DEFAULT_WORKLOAD,
    *,
    loads: Sequence[float] = LOADS,
    seeds: int | Sequence[int] = SEEDS,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    deadlines: DeadlineChoices = DeadlineChoices(),  # noqa: B008 - it is frozen
    method: str = METHOD.default,
    skip: int = 0,
    first: int | None = None,
    estimates: str | None = None,
    platform: AnyPlatform | None = None,
    message_delays: bool = True,
    baseline: str | None = None,
    on_broken_promise: str = COUNT,
    workers: Workers = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> StudyRuns:
    """Compare schedulers on deadline workloads over loads and seeds.

    For each load and seed a workload with deadlines is made from the log, and every scheduler runs
    on the very same one, so that differences are paired. Equal runs are made once. An error in a
    run ends the comparison.

    Parameters
    ----------
    schedulers
        Registered names, or ``"my_file.py:MyScheduler"``; a :class:`~.deadline_runs.Contestant`
        has a name and options of its own.
    workload
        The log, jobs of type ``delay``: a file, the name of a shipped workload, or the workload.
    loads
        Relative loads; 1 is the log itself.
    seeds
        Seeds, or the number N of the seeds 1 to N.
    deadlines, method
        Options of the deadlines; how the load is changed.
    settings
        Options by scheduler, as in ``{"qops": {"k_factor": 3}}``.
    skip, first
        Number of jobs to leave out, and to take after those (None: all).
    estimates
        With ``"exact"`` run times replace all walltimes; with ``"users"``, the default, schedulers
        plan with these, and so does the EASY that deadlines are given by.
    platform
        The machine. Default: as many equal hosts as the log is for.
    baseline
        Scheduler that differences refer to. Default: msb if compared, else the first.
    on_broken_promise
        With ``"count"`` broken promises are counted, with ``"fail"`` they are errors, unless jobs
        run longer than planned.
    workers, on_progress, message_delays
        As for :func:`~qops_batsim.experiments.pool.run_cases`; delays as for ``run``.

    Returns
    -------
    StudyRuns
        The runs, as :func:`~qops_batsim.experiments.study_report.summaries` takes them.

    Raises
    ------
    InputError
        If an argument cannot be used, or a run fails.

    Examples
    --------
    >>> found = compare(["easy", "qops"], "sdsc_sp2_1000", loads=[1.2], seeds=2, first=100)
    >>> found
    <Study 'comparison' of easy, qops: 4 runs>
    >>> found.to_frame().groupby("scheduler").missed_deadlines.mean().round(1).to_dict()
    {'easy': 34.6, 'qops': 0.0}
    """
    trace = load_workload(workload)
    named = workload if isinstance(workload, (str, PathLike)) else Path(trace.source).name
    study = comparison_of(
        contestants_of(schedulers, settings or {}),
        fspath(named),
        loads=loads,
        seeds=seeds,
        deadlines=deadlines,
        method=method,
        skip=skip,
        first=first,
        estimates=estimates,
        message_delays=message_delays,
        baseline=baseline,
        on_broken_promise=on_broken_promise,
    )
    return run_study(
        study,
        workloads={study.logs[0].name: trace},
        platform=None if platform is None else load_platform(platform, trace),
        workers=workers,
        on_progress=on_progress,
    )
