"""Comparisons of schedulers over loads and seeds, as studies of one log."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.arguments import (
    CALLABLE,
    NUMBER,
    PATH,
    SWITCH,
    TEXT,
    WHOLE,
    Kind,
    mapping,
    one_of,
    several,
    takes,
)
from qops_batsim.code_record import not_covered_text
from qops_batsim.errors import InputError, SimulationError, require_one_of
from qops_batsim.experiments.deadline_runs import AnyContestant, Contestant, contestants_of
from qops_batsim.experiments.listed_cases import LogWindow, StudyLog
from qops_batsim.experiments.pictures import write_files
from qops_batsim.experiments.pool import WORKERS, Workers
from qops_batsim.experiments.study import Study, first_seeds
from qops_batsim.experiments.study_report import report_of, tables_of
from qops_batsim.experiments.study_runs import StudyRuns, run_study
from qops_batsim.parameters import COUNT, ESTIMATES, EXACT, METHOD, SEEDS, USERS, is_strict
from qops_batsim.platform.platform_model import Platform
from qops_batsim.running.inputs import (
    PLATFORM,
    SETTINGS,
    WORKLOAD,
    AnyPlatform,
    AnyWorkload,
    load_workload,
)
from qops_batsim.schedulers.registry import given_class
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
WITHOUT_DEADLINES = (
    "bounded_slowdown_of_all",
    "wait",
    "response_time_of_others",
    "slowdown_of_others",
)
"""Metrics that are shown where no job has one; the first is judged."""


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
        windows=(LogWindow(skip=skip, first=first or 0),),
        schedulers=tuple(schedulers),
        loads=tuple(map(float, loads)),
        methods=(method,),
        stringencies=(deadlines.stringency,),
        deadline_shares=(deadlines.share,),
        artificial=(deadlines.artificial,),
        relaxations=(deadlines.relaxation,),
        seeds=first_seeds(seeds) if isinstance(seeds, int) else tuple(map(int, seeds)),
        baseline=baseline_of(schedulers, baseline),
        bound=bound,
        on_broken_promise="fail" if is_strict(on_broken_promise) else "count",
        platform=platform or "",
        message_delays=message_delays,
    )
    if deadlines.share < 1:
        shown_first = MIXED if deadlines.share > 0 else WITHOUT_DEADLINES
        metrics = tuple(dict.fromkeys((*shown_first, *study.metrics)))
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


_SCHEDULERS = Kind(
    lambda value: isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping),
    "a list of names of schedulers, FILE.py:CLASS, subclasses of Scheduler or Contestants",
)


@takes(
    schedulers=_SCHEDULERS,
    workload=WORKLOAD,
    loads=several(NUMBER, "a list of numbers"),
    seeds=WHOLE | several(WHOLE, "a list of whole numbers"),
    settings=mapping(SETTINGS, "options by scheduler, as {'qops': {'k_factor': 3}}").optional,
    deadlines=one_of(DeadlineChoices, words="a DeadlineChoices"),
    method=TEXT,
    skip=WHOLE,
    first=WHOLE.optional,
    estimates=TEXT.optional,
    platform=PLATFORM.optional,
    message_delays=SWITCH,
    baseline=TEXT.optional,
    on_broken_promise=TEXT,
    out=PATH.optional,
    workers=WORKERS,
    on_progress=CALLABLE.optional,
)
def compare(
    schedulers: Iterable[AnyContestant],
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
    out: str | PathLike[str] | None = None,
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
        Registered names, ``"my_file.py:MyScheduler"``, or classes; a
        :class:`~.deadline_runs.Contestant` has a name and options of its own.
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
    out
        Directory for what the command writes to its ``--out``: finished runs, which are not made
        again unless their scheduler is given as a class, tables and pictures. Default: no files.
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
    # Files are read as the command reads them.
    if isinstance(workload, str | PathLike):
        trace = None
        named = fspath(workload)
    else:
        trace = load_workload(workload)
        named = Path(trace.source).name
    machine = None
    platform_name = None
    if isinstance(platform, Platform):
        machine = platform
    elif platform is not None:
        platform_name = fspath(platform)
    study = comparison_of(
        contestants_of(schedulers, settings),
        named,
        loads=loads,
        seeds=seeds,
        deadlines=deadlines,
        method=method,
        skip=skip,
        first=first,
        estimates=estimates,
        platform=platform_name,
        message_delays=message_delays,
        baseline=baseline,
        on_broken_promise=on_broken_promise,
    )

    # Runs of classes are made anew.
    kept = [each for each in study.schedulers if given_class(each.scheduler) is None]
    for missed in dict.fromkeys(missed for each in kept for missed in each.code.not_covered):
        warnings.warn(not_covered_text(missed), stacklevel=3)

    directory = None if out is None else Path(out)
    runs = run_study(
        study,
        directory,
        workloads={} if trace is None else {study.logs[0].name: trace},
        platform=machine,
        workers=workers,
        on_progress=on_progress,
    )
    if directory is not None:
        write_files(
            report_of(runs),
            study.name,
            "qops_batsim.compare",
            out=directory,
            texts=tables_of(runs),
        )
        failed = [each.error for each in runs.outcomes if each.error is not None]
        if failed:
            raise SimulationError(
                f"{len(failed)} runs failed, the others are in {directory}; the first: {failed[0]}"
            )
    return runs
