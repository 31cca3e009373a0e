"""Studies: grids of logs, windows, loads, schedulers and seeds, as values or TOML files.

Equal studies have equal keys. A file::

    name = "first look"
    schedulers = ["easy", "msb", "qops", "qops:k_factor=1"]
    loads = [1.0, 1.2, 1.4]
    seeds = 5
    windows = [{skip = 0, first = 500}, {skip = 500, first = 500}]
    logs = ["sdsc_sp2_1000"]

A list of any number of values may be one value; ``seeds`` may be their number, a log the name of
its file, a scheduler a text or a table of ``name``, ``scheduler`` and ``settings``, and a model of
``estimates`` its name or a table (:class:`~qops_batsim.workload.estimates.EstimateChoices`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Literal

import msgspec

from qops_batsim.code_record import CodeRecord
from qops_batsim.data_problems import converted, read_toml
from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError, did_you_mean, require, require_one_of
from qops_batsim.experiments.best_lines import LINES
from qops_batsim.experiments.changed_options import ChangedOptions
from qops_batsim.experiments.deadline_runs import (
    Contestant,
    DeadlineCase,
    Scenario,
    check_distinct,
    contestant_of,
    contestants_of,
)
from qops_batsim.experiments.deadline_workload import REFERENCES
from qops_batsim.experiments.listed_cases import (
    CaseList,
    ListedCase,
    LogWindow,
    StudyLog,
    with_users_estimates,
)
from qops_batsim.experiments.scores import Score
from qops_batsim.files import read_text
from qops_batsim.limits import MAX_LOAD, MIN_EXPANSION
from qops_batsim.measures.metrics.measures import PROMISES, STUDY, measure_names
from qops_batsim.optimum.problem import OBJECTIVES
from qops_batsim.optimum.solver import require_solver
from qops_batsim.parameters import (
    ARTIFICIAL,
    AXES,
    DEADLINES_BY,
    ESTIMATES,
    EXACT,
    LOAD,
    METHOD,
    RELAXATION,
    SEED,
    SEEDS,
    SHARE,
    STRINGENCY,
    USERS,
)
from qops_batsim.schedulers.loading.plugins import AllowedCode, scheduler_of_data
from qops_batsim.workload.estimates import RANDOM, EstimateChoices
from qops_batsim.workload.need import NeedChoices, with_times
from qops_batsim.workload.scale import METHODS
from qops_batsim.workload.workload_model import check_counts, check_seed


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """All parameters of a run, except its scheduler, window and seed."""

    log: str
    load: float
    method: str
    stringency: float
    deadline_share: float
    artificial: str
    relaxation: float
    deadlines_by: str = DEADLINES_BY.default
    estimates: str = EXACT
    case: str = ""
    half: str = ""
    outages: bool = False


OF_ESTIMATES = (DEADLINES_BY.column, ESTIMATES.column)
"""Fields of a point that are only shown where estimates have models, or cases are listed."""

OF_CASES = ("case", "half", "outages")
"""Fields of a point that are only shown where cases are listed."""


def columns_of(point: Point, has_models: bool) -> dict[str, Any]:
    """Return those parameters of a point that have an effect on its runs."""
    hidden: tuple[str, ...] = ()
    if not point.case:
        hidden = OF_CASES if has_models else OF_CASES + OF_ESTIMATES
    columns = msgspec.structs.asdict(point)
    return {name: value for name, value in columns.items() if name not in hidden}


_EXACT_MODELS = (EstimateChoices(),)
_EXACT_BASES = (DEADLINES_BY.default,)
"""What schedulers plan with, and deadlines are made from, where a study says nothing."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One run that a study requests: a scheduler at a point, on a window, with a seed."""

    point: Point
    window: LogWindow
    contestant: str
    seed: int


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """A grid of runs: every combination of the listed values.

    For the parameters see :class:`~qops_batsim.workload.deadlines.DeadlineChoices` and
    :func:`~qops_batsim.workload.scale.scale_load`; the seeds choose duplicates and whose jobs have
    a user's deadline, and draw random estimates. The models of ``estimates``, with which schedulers
    plan, and what ``deadlines_by`` says are axes as in :class:`~.deadline_runs.Scenario`.
    Differences refer to the contestant named ``baseline`` ("": the first). Of the ``metrics``,
    which tables show and pictures draw, the first one is judged, of the contestants that
    ``verdicts`` name, or of all. Where ``bound`` is set, each workload is searched for the best
    possible, for this deterministic time (units). With ``on_broken_promise`` ``"fail"`` a run whose
    scheduler breaks a promise fails, with ``"count"`` the promise is counted. Without ``platform``
    there are as many equal hosts as a log is for; with ``message_delays`` (the default) Batsim's
    own messages take their time on one with latencies. Where ``cases`` are listed, they are run
    instead of the grid, and scored (:class:`~.scores.Score`). With a ``need``, deadlines are made
    by it, and not from EASY's schedule.
    """

    name: str
    logs: tuple[StudyLog, ...]
    schedulers: tuple[Contestant, ...]
    windows: tuple[LogWindow, ...] = (LogWindow(),)
    loads: tuple[float, ...] = (LOAD.default,)
    methods: tuple[str, ...] = (METHOD.default,)
    stringencies: tuple[float, ...] = (STRINGENCY.default,)
    deadline_shares: tuple[float, ...] = (SHARE.default,)
    artificial: tuple[str, ...] = (ARTIFICIAL.default,)
    relaxations: tuple[float, ...] = (RELAXATION.default,)
    seeds: tuple[int, ...] = tuple(range(SEED.default, SEED.default + SEEDS))
    same_time: bool = False
    reference: str = "scaled"
    baseline: str = ""
    metrics: tuple[str, ...] = ("unadmitted_jobs", "unadmitted_work", "utilization")
    verdicts: tuple[str, ...] = ()
    deadlines_by: tuple[str, ...] = ()
    estimates: tuple[EstimateChoices, ...] = ()
    bound: float | None = None
    on_broken_promise: Literal["count", "fail"] = "count"
    platform: str = ""
    message_delays: bool = True
    cases: tuple[ListedCase, ...] = ()
    need: NeedChoices | None = None

    @property
    def key(self) -> str:
        """Digest of the study, equal for equal studies in every process and version.

        What has its default is no part of it.
        """
        values = msgspec.structs.asdict(self).items()
        chosen = {name: value for name, value in values if value != _FIELDS[name].default}
        content = msgspec.json.encode(chosen, order="deterministic")
        return blake2b(content, digest_size=8).hexdigest()

    @property
    def base(self) -> str:
        """Name of the scheduler that the others are compared with."""
        return self.baseline or self.schedulers[0].name

    @property
    def models(self) -> dict[str, EstimateChoices]:
        """The models that give jobs their estimates, by name; by default exact estimates."""
        return {each.name: each for each in self.estimates or _EXACT_MODELS}

    @property
    def has_models(self) -> bool:
        """Whether estimates come from models."""
        return bool(self.deadlines_by or self.estimates)

    @property
    def known_metrics(self) -> tuple[str, ...]:
        """Names of the metrics that its runs have; some need models of estimates."""
        if self.cases:
            return Score.__struct_fields__
        return measure_names(STUDY) + (measure_names(PROMISES) if self.has_models else ())

    def windows_of(self, log: StudyLog) -> tuple[LogWindow, ...]:
        """Return the windows of a log that the study simulates."""
        if self.cases:
            return tuple(each.window for each in self.cases if each.log == log.name)
        return log.windows or self.windows

    def points(self) -> Iterator[Point]:
        """Yield the points (parameters of runs), in the order of the tables.

        Where all jobs have a user's deadline, or the others none, what says how the artificial
        ones are made has only its first value.
        """
        if self.cases:
            yield from map(_point_of, self.cases)
            return
        for log, method, base, stringency, share in product(
            [log.name for log in self.logs],
            self.methods,
            self.deadlines_by or _EXACT_BASES,
            self.stringencies,
            self.deadline_shares,
        ):
            for rule in self.artificial if share < 1 else self.artificial[:1]:
                are_needed = share < 1 and rule != "none"
                factors = self.relaxations if are_needed else self.relaxations[:1]
                for factor, load, model in product(factors, self.loads, self.models):
                    yield Point(
                        log=log,
                        load=load,
                        method=method,
                        stringency=stringency,
                        deadline_share=share,
                        artificial=rule,
                        relaxation=factor,
                        deadlines_by=base,
                        estimates=model,
                    )

    def cells(self) -> Iterator[Cell]:
        """Yield every requested run."""
        if self.cases:
            places = ((_point_of(case), case.window, case.seed) for case in self.cases)
        else:
            windows = {log.name: self.windows_of(log) for log in self.logs}
            places = (
                (point, window, seed)
                for point in self.points()
                for window, seed in product(windows[point.log], self.seeds)
            )
        for (point, window, seed), scheduler in product(places, self.schedulers):
            yield Cell(point=point, window=window, contestant=scheduler.name, seed=seed)

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if a run cannot be made as requested."""
        for what, values in self._listed():
            check_distinct(what, values)

        for log in self.logs:
            windows = self.windows_of(log)
            check_distinct(f"window of log {log.name}", windows)
            for window in windows:
                check_counts(window.skip, window.first or None)
            _check_apart(log.name, windows)
            if not self.cases:
                _check_sizes(log.name, windows)

        for method, load in product(self.methods, self.loads):
            require_one_of("method", method, METHODS)
            least = 1.0 if method == "duplication" else MIN_EXPANSION
            accepted = f"by {method}, a number from {least:g} to {MAX_LOAD:g} is accepted"
            require(least <= load <= MAX_LOAD, "load", load, accepted)
        for seed in self.seeds:
            check_seed(seed)
        require_one_of("reference", self.reference, REFERENCES)

        for base in self.deadlines_by or _EXACT_BASES:
            require_one_of(DEADLINES_BY.name, base, (EXACT, USERS))
        for model in self.models.values():
            model.check()
            if model.seed != SEED.default:
                raise InputError(
                    f"seed of estimates is {model.seed}; the seeds of the study draw the "
                    "estimates: leave this seed out"
                )
        for point in self.points():
            _scenario(point, LogWindow(), 1, self).choices.check()

        names = [each.name for each in self.schedulers]
        require_one_of("baseline", self.base, names)
        for name in self.verdicts:
            require_one_of("verdicts", name, [each for each in names if each != self.base])
        for metric in self.metrics:
            if metric in measure_names(PROMISES) and not self.has_models:
                raise InputError(f"metric is {metric!r}; it needs estimates or deadlines_by, too")
            require_one_of("metric", metric, self.known_metrics)
        if self.bound is not None:
            self._check_bound(self.bound)
        for scheduler in self.schedulers:
            scheduler.make()

    def _check_bound(self, units: float) -> None:
        accepted = "a number above 0 (about as many seconds of search) is expected"
        require(0 < units < math.inf, "bound", units, accepted)
        require_solver()
        for each in self.schedulers:
            if each.name in LINES:
                raise InputError(
                    f"scheduler is named {each.name!r}, which is the name of a bound's line "
                    "in tables; another name is expected"
                )

    def _listed(self) -> Iterable[tuple[str, Iterable[object]]]:
        return (
            ("log", [log.name for log in self.logs]),
            ("scheduler", [each.name for each in self.schedulers]),
            *((axis.words, getattr(self, axis.listed)) for axis in AXES),
            (SEED.words, self.seeds),
            ("metric", self.metrics),
            (ESTIMATES.words, [each.name for each in self.estimates or _EXACT_MODELS]),
            (DEADLINES_BY.words, self.deadlines_by or _EXACT_BASES),
        )


def _point_of(case: ListedCase) -> Point:
    return Point(
        log=case.log,
        load=case.load,
        method=METHOD.default,
        stringency=case.stringency,
        deadline_share=case.share,
        artificial="none",
        relaxation=RELAXATION.default,
        deadlines_by=case.estimates,
        estimates=case.estimates,
        case=case.name,
        half=case.half,
        outages=case.outages,
    )


class InputIdentities(msgspec.Struct, frozen=True, kw_only=True):
    """Digests of a study's input files, which tell files of equal names apart.

    By log, a digest of file and processors; by scheduler, options that are not the defaults, and
    a digest of its code if it is not of this package; a digest of the platform; what that code
    consists of.
    """

    logs: dict[str, str]
    schedulers: dict[str, tuple[ChangedOptions, str]]
    platform: str = ""
    code: dict[str, CodeRecord] | msgspec.UnsetType = msgspec.UNSET


def case_of(study: Study, cell: Cell, known: InputIdentities) -> DeadlineCase:
    """Return the case (one simulation) of a cell; cells with equal runs have equal cases."""
    scenario = _scenario(cell.point, cell.window, cell.seed, study)
    named = msgspec.structs.replace(scenario, log=known.logs[cell.point.log])
    contestant = next(each for each in study.schedulers if each.name == cell.contestant)
    own = known.schedulers[cell.contestant]
    case = contestant.case_of(named.canonical(), *own, study.on_broken_promise)
    return msgspec.structs.replace(case, outages=cell.seed) if cell.point.outages else case


def _check_apart(log: str, windows: Sequence[LogWindow]) -> None:
    """Refuse windows that share jobs, since intervals assume independent windows."""
    for one, other in pairwise(sorted(windows, key=lambda each: each.skip)):
        if not one.first or one.skip + one.first > other.skip:
            raise InputError(
                f"windows of log {log}: {one} and {other} share jobs; "
                "windows that begin where another has ended are expected"
            )


def _check_sizes(log: str, windows: Sequence[LogWindow]) -> None:
    """Refuse windows of different sizes, since means count all windows equally."""
    sizes = {window.first: str(window) for window in windows}
    if len(sizes) > 1:
        one, other = list(sizes.values())[:2]
        raise InputError(
            f"windows of log {log}: {one} and {other} are of several sizes, and each would count "
            "as much as the other; windows of equally many jobs are expected"
        )


def _scenario(point: Point, window: LogWindow, seed: int, study: Study) -> Scenario:
    scenario = Scenario(
        log=point.log,
        skip=window.skip,
        first=window.first or None,
        same_time=study.same_time,
        reference=study.reference,
        seed=seed,
        **{axis.name: getattr(point, axis.column) for axis in AXES},
    )
    if study.need is not None:
        scenario = msgspec.structs.replace(scenario, need=study.need)

    # What has no model is no part of a scenario: kept runs are older than these.
    if point.case:
        return with_users_estimates(scenario) if point.estimates == USERS else scenario
    if not study.has_models:
        return scenario
    model = study.models[point.estimates]
    if model.model in RANDOM:
        model = msgspec.structs.replace(model, seed=seed)
    return msgspec.structs.replace(scenario, deadlines_by=point.deadlines_by, estimates=model)


SHIPPED = Path(__file__).parent
"""Directory of the studies that come with the package."""

MAX_BYTES = 1 << 20
"""Size of a study file, at most."""

MOST_SEEDS = 10_000
"""Seeds of a study that are given by their number."""

_FIELDS = {field.name: field for field in msgspec.structs.fields(Study)}
_LISTS = {name for name, field in _FIELDS.items() if str(field.type).startswith("tuple")}


def read_study(
    path: str | Path, *, code: AllowedCode = (), seed: int | None = None, quick: bool = False
) -> Study:
    """Read and check a study from a file or a shipped name (``benchmark``, ``example``).

    Parameters
    ----------
    path
        The study file (TOML), or a shipped name.
    code
        Python files with schedulers that it may name, and that are then run; True for any.
    seed, quick
        For studies that list cases: the seed of the twins' windows; whether to take few cases.

    Returns
    -------
    Study
        The checked study.

    Raises
    ------
    InputError
        Naming the file, the key, the value and what is accepted.
    """
    shipped = SHIPPED / f"{path}.toml"
    if not Path(path).exists() and shipped.is_file():
        path = shipped
    text = read_text(path, what="a study (TOML)", max_bytes=MAX_BYTES)
    given = read_toml(text, str(path), "a study (TOML)")
    if "cases" in given:
        return _with_cases(given, Path(path), seed, quick)
    if quick or seed is not None:
        raise InputError(
            f"{path}: lists no cases; --quick and --seed are accepted only for a study that "
            "lists cases"
        )
    return study_of(given, source=str(path), code=code)


def _with_cases(given: dict[str, Any], path: Path, seed: int | None, quick: bool) -> Study:
    """Return the study in a file that lists its cases."""
    known = converted(given, CaseList, str(path), "a study that lists cases")
    directory = Path() if path.parent == SHIPPED else path.parent
    logs, cases = known.listed(directory, seed=seed, quick=quick)
    drawn = f"drawn with seed {known.seed if seed is None else seed}"
    study = Study(
        name=f"{known.name}, version {known.version}{', quick' if quick else ''}, {drawn}",
        logs=logs,
        schedulers=contestants_of(known.schedulers),
        baseline=known.baseline,
        metrics=OBJECTIVES,
        cases=cases,
        verdicts=known.verdicts,
    )
    study.check()
    return study


def with_schedulers(study: Study, schedulers: Iterable[str]) -> Study:
    """Return the study with further schedulers, each a text such as ``qops:k_factor=1``."""
    more = [each for each in contestants_of(schedulers) if each not in study.schedulers]
    grown = msgspec.structs.replace(study, schedulers=(*study.schedulers, *more))
    grown.check()
    return grown


MONDAY = Calendar(4 * 86_400, "UTC")
"""Dates of a log that does not tell them: second 0 is the midnight before a Monday."""


def with_need(study: Study, need: NeedChoices | None = None) -> Study:
    """Return the study with deadlines from users' needs, and "by need" added to its name.

    Logs without a calendar begin at midnight before a Monday, unless the need tells another one.
    """
    # As it is read again: keys of runs tell whole numbers from others.
    need = msgspec.convert(msgspec.to_builtins(need or NeedChoices()), NeedChoices)
    need = msgspec.structs.replace(need, calendar=need.calendar or MONDAY)
    changed = msgspec.structs.replace(study, name=f"{study.name}, deadlines by need", need=need)
    changed.check()
    return changed


def study_of(given: dict[str, Any], *, source: str, code: AllowedCode = True) -> Study:
    """Make a study from a file's values; for ``code`` see :func:`read_study`."""
    for name in given:
        if name not in _FIELDS:
            raise InputError(f"{source}: {name} is not known{did_you_mean(name, _FIELDS)}")
    values = {
        name: [value] if name in _LISTS and not isinstance(value, list) else value
        for name, value in given.items()
    }

    with _named(source):
        if "seeds" in given and not isinstance(given["seeds"], list):
            values["seeds"] = first_seeds(given["seeds"])
        for axis in (ESTIMATES, DEADLINES_BY):
            if values.get(axis.listed) == []:
                check_distinct(axis.words, ())
        for name, read in (("logs", _log), ("schedulers", _scheduler), ("estimates", _model)):
            if name in values:
                values[name] = [read(each) for each in values[name]]
        exact = [[EXACT], [{"model": EXACT}]]
        if "bound" not in values and not any(values.get(each) in exact for each in OF_ESTIMATES):
            # The default, unless the file says exact, or bounds, which know run times.
            values = {"estimates": [_model(USERS)], DEADLINES_BY.listed: [USERS], **values}
        if "need" in values:
            values["need"] = with_times(values["need"])

    study = converted(values, Study, source, "a study")
    with _named(source):
        schedulers = [
            msgspec.structs.replace(each, scheduler=scheduler_of_data(each.scheduler, code))
            for each in study.schedulers
        ]
        study = msgspec.structs.replace(study, schedulers=tuple(schedulers))
        study.check()
    return study


@contextmanager
def _named(source: str) -> Iterator[None]:
    """Add the name of the file to errors of this block."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def first_seeds(number: object) -> tuple[int, ...]:
    """Return the seeds 1 to ``number``."""
    fits = isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MOST_SEEDS
    accepted = f"a list of seeds, or their number from 1 to {MOST_SEEDS}, is expected"
    require(fits, "seeds", number, accepted)
    assert isinstance(number, int)
    return tuple(range(1, number + 1))


def _log(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    return {"name": Path(given).name.partition(".")[0], "file": given}


def _scheduler(given: Any) -> Any:
    if isinstance(given, str):
        return msgspec.to_builtins(contestant_of(given))
    if isinstance(given, dict) and isinstance(given.get("scheduler"), str):
        return {"name": given["scheduler"], **given}
    return given


def _model(given: Any) -> Any:
    return {"model": given} if isinstance(given, str) else given
