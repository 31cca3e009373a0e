"""Running a study, and its progress.

A directory holds ``study.json``, what is run; ``runs`` and ``failed``, a file for each run that
is finished and for each that failed; ``bounds``, one for each workload that was searched for the
best possible. They are written at once and whole, so a study that was killed goes on where it
was, and one that has grown makes only what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from qops_batsim.engine.shared_hosts import check_hosts_asked
from qops_batsim.errors import InputError, shown
from qops_batsim.experiments.best_lines import (
    BEST_KNOWN,
    LINES,
    BoundSearch,
    Unadmitted,
    bound_case,
)
from qops_batsim.experiments.deadline_runs import DeadlineCase, DeadlineRuns, Scenario, shared_steps
from qops_batsim.experiments.listed_cases import LogWindow
from qops_batsim.experiments.log_files import find_trace, trace_digest
from qops_batsim.experiments.pool import Failure, KeptRuns, Workers, check_sendable, run_cases
from qops_batsim.experiments.scores import (
    Score,
    ScoreBound,
    ScoredRuns,
    Shares,
    bound_key,
    kept_bounds,
)
from qops_batsim.experiments.study import (
    Cell,
    InputIdentities,
    Point,
    Study,
    case_of,
    columns_of,
)
from qops_batsim.files import decoded, make_directory, read_bytes, write_text
from qops_batsim.limits import MAX_DESCRIPTION_BYTES
from qops_batsim.measures.metrics.measures import Measures
from qops_batsim.parameters import EXACT, LOAD, USERS
from qops_batsim.platform.platform_model import Platform
from qops_batsim.running.inputs import load_platform
from qops_batsim.schedulers.registry import given_class
from qops_batsim.traces.reading import read_trace
from qops_batsim.version import __version__
from qops_batsim.workload.estimates import estimates_sentence
from qops_batsim.workload.workload_model import Workload, stretch_of

if TYPE_CHECKING:
    import pandas as pd

DESCRIPTION = "study.json"
MADE_OF = "deadline runs, metrics of 3"
SCORED = "scored runs, metrics of 2"
"""What kept runs are made of; the number grows with each new metric, and when one gets
another meaning."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """Content of ``study.json``: the study, its key, and the digests of its input files.

    ``note`` tells what the deadlines of the only log are made from, and schedulers plan with.
    """

    package_version: str
    key: str
    study: Study
    identities: InputIdentities
    note: str = ""


class CellOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a study's run: metrics, an error, or neither if it is not made yet.

    It is ``repeated`` if it is the run of an earlier seed, which made no difference. The best known
    schedule and the bound of a workload are outcomes as well, after those of the schedulers.
    """

    cell: Cell
    metrics: Measures | Unadmitted | Shares | None = None
    error: str | None = None
    repeated: bool = False

    def value(self, metric: str) -> float | None:
        """Return a metric of the run, None if unknown."""
        value: float | msgspec.UnsetType | None = getattr(self.metrics, metric, None)
        return None if value is msgspec.UNSET else value


@dataclass(frozen=True, repr=False)
class StudyRuns:
    """A study with the results of its runs so far, in the order of its cells."""

    description: Description
    outcomes: Sequence[CellOutcome]

    @property
    def study(self) -> Study:
        """The study that the runs belong to."""
        return self.description.study

    def records(self) -> list[dict[str, Any]]:
        """Return one flat record for each run: parameters, metrics, error."""
        return [
            {
                **columns_of(outcome.cell.point, self.study.has_models),
                **msgspec.structs.asdict(outcome.cell.window),
                "scheduler": outcome.cell.contestant,
                "seed": outcome.cell.seed,
                "repeated": outcome.repeated,
                **{name: outcome.value(name) for name in self.study.known_metrics},
                "error": outcome.error,
            }
            for outcome in self.outcomes
        ]

    def to_frame(self) -> pd.DataFrame:
        """Return the runs as a pandas table: parameters, scheduler, seed, metrics.

        Parameters that do not vary, other than the load, have no column.
        """
        import pandas as pd

        frame = pd.DataFrame(self.records()).query(f"scheduler not in {LINES!r}")
        may_vary = {*Point.__struct_fields__, *LogWindow.__struct_fields__, "error"} - {LOAD.column}
        same = [name for name in frame if name in may_vary and frame[name].nunique() < 2]
        return frame.drop(columns=[*same, "repeated"]).reset_index(drop=True)

    def __repr__(self) -> str:
        names = ", ".join(each.name for each in self.study.schedulers)
        return f"<Study {self.study.name!r} of {names}: {len(self.to_frame())} runs>"

    def _repr_html_(self) -> str:
        means = self.to_frame().groupby([LOAD.column, "scheduler"], sort=False)
        shown = means.mean(numeric_only=True).drop(columns="seed").dropna(axis="columns", how="all")
        return str(shown.to_html(float_format="{:.2f}".format))


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a study: how many runs are requested, distinct, finished and failed."""

    cells: int
    runs: int
    finished: int
    failed: int


def run_study(
    study: Study,
    directory: str | Path | None = None,
    *,
    logs: str | Path = ".",
    workloads: Mapping[str, Workload] | None = None,
    platform: Platform | None = None,
    workers: Workers = 1,
    retry: bool = False,
    on_start: Callable[[Sequence[float]], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> StudyRuns:
    """Make the runs that a study's directory lacks, each once, and return all its runs.

    Parameters
    ----------
    study
        The study.
    directory
        Where runs are kept: one that fails is recorded there, and made again only with ``retry``.
        None: nothing is kept, and an error ends the work.
    logs
        Directory in which the files of logs are looked for first.
    workloads
        Logs by name that are not read from files.
    platform
        Machine that is not read from a file.
    workers
        Number of processes, or a Dask address.
    retry
        Whether failed runs are made again.
    on_start
        Called with the number of jobs of each run that is to be made.
    on_progress
        Called with the numbers of runs done and to be made.

    Returns
    -------
    StudyRuns
        The outcome of each run, or its error.

    Raises
    ------
    InputError
        If the study is invalid, a log is missing, or a job of a window can never run.
    """
    study.check()
    description, runs = _inputs(study, Path(logs), workloads or {}, platform)
    cases = _cases_of(description)

    # Before anything is written.
    check_sendable(runs.classes.values(), workers)
    stores = None
    if directory is not None:
        make_directory(Path(directory), "out")
        stores = _Stores(Path(directory), description)
        text = msgspec.json.format(msgspec.json.encode(description), indent=2).decode()
        write_text(stores.directory / DESCRIPTION, text + "\n")
        if retry:
            stores.failures.clear()
        # What a class does is not known by files: it may have been defined anew.
        for case in cases:
            if case.scheduler in runs.classes:
                stores.kept.remove(case)
                stores.failures.remove(case)

    if on_start is not None:
        done = set() if stores is None else stores.kept.those(cases) | stores.failures.those(cases)
        on_start([runs.jobs_of(case.scenario) for case in dict.fromkeys(cases) if case not in done])
    scored = ScoredRuns(runs)
    found = run_cases(
        scored if study.cases else runs,
        cases,
        workers=workers,
        kept=stores.kept if stores else None,
        failures=stores.failures if stores else None,
        group_by=shared_steps,
        on_progress=on_progress,
    )
    searched = run_cases(
        scored.bound if study.cases else BoundSearch(runs),
        _bound_cases(study, cases),
        workers=workers,
        kept=stores.bounds if stores else None,
        on_progress=on_progress,
    )
    if stores is not None:
        # Not what the directory tells: another study may have begun there meanwhile.
        return stores.runs_of(description)
    return _outcomes(description, found.get, searched.get)


def _bound_cases(study: Study, cases: Sequence[DeadlineCase]) -> list[Any]:
    """Return the searches for best known schedules that a study requests, each once.

    Bounds of listed cases come with the package, as far as these are the published ones; others are
    searched if the solver is installed.
    """
    if study.cases:
        if find_spec("ortools") is None:
            return []
        shipped = kept_bounds()
        scenarios = dict.fromkeys(case.scenario for case in cases)
        return [scenario for scenario in scenarios if bound_key(scenario) not in shipped]
    if study.bound is None:
        return []
    return [bound_case(case.scenario, study.bound) for case in cases]


def read_study_runs(directory: str | Path) -> StudyRuns:
    """Return the finished and failed runs in a study's directory."""
    description = read_description(directory)
    return _Stores(Path(directory), description).runs_of(description)


def read_description(directory: str | Path) -> Description:
    """Read the description of a study's directory."""
    path = Path(directory) / DESCRIPTION
    what = "the description that `study run` writes"
    content = read_bytes(path, what=what, max_bytes=MAX_DESCRIPTION_BYTES)
    description = decoded(content, msgspec.json.Decoder(Description), path, what)

    study = description.study
    known = {*description.identities.logs, *description.identities.schedulers}
    names = [log.name for log in study.logs] + [each.name for each in study.schedulers]
    for name in (*names, study.base):
        if name not in known:
            raise InputError(f"{path}: identities lack {name!r}; {what} is expected")
    return description


def status_of(directory: str | Path) -> Status:
    """Return a study's progress without reading its runs. O(cells)."""
    description = read_description(directory)
    asked = _cases_of(description)
    cases = dict.fromkeys(asked)
    stores = _Stores(Path(directory), description)
    return Status(
        cells=len(asked),
        runs=len(cases),
        finished=len(stores.kept.those(cases)),
        failed=len(stores.failures.those(cases)),
    )


def _cases_of(description: Description) -> list[DeadlineCase]:
    """Return the case of each run that a study requests."""
    study, known = description.study, description.identities
    return [case_of(study, cell, known) for cell in study.cells()]


def _inputs(
    study: Study, directory: Path, given: Mapping[str, Workload], platform: Platform | None
) -> tuple[Description, DeadlineRuns]:
    """Return a study's description, with its inputs, and the object that simulates its cases."""
    names: dict[str, str] = {}
    traces: dict[str, Workload] = {}
    for log in study.logs:
        windows = study.windows_of(log)
        if log.name in given or log.generated:
            trace = given.get(log.name) or log.workload()
            source = trace.sha256 or log.name
            digest = source
        else:
            path = find_trace(log.file, directory)
            digest = trace_digest(path, log.processors)
            source = str(path)
            ends = [window.skip + window.first for window in windows if window.first]
            last = max(ends) if len(ends) == len(windows) else None
            trace = read_trace(path, processors=log.processors, first=last).workload
        for window in windows:
            stretch_of(source, len(trace.jobs), window.skip, window.first or None)
        check_runnable(trace, source, windows)

        # Two names may have one log, of which the longer stretch is needed.
        names[log.name] = digest
        longest = traces.setdefault(digest, trace)
        if len(trace.jobs) > len(longest.jobs):
            traces[digest] = trace

    first_trace = traces[names[study.logs[0].name]]
    if study.platform and platform is None:
        platform = load_platform(study.platform, first_trace)
    if study.bound is not None and platform is not None and platform.machine is None:
        raise InputError(
            f"bound with platform {study.platform or platform.source}: a bound assumes as many "
            "equal hosts as the log has processors, or hosts that jobs share; leave one of the two "
            "out"
        )
    machine = None if platform is None else platform.machine
    for trace in traces.values():
        where = "a cluster of equal hosts" if platform is None else platform.source
        check_hosts_asked(trace.source, trace.columns, machine, where)
    note = ""
    if len(study.logs) == len(study.models) == 1 and study.models.keys() <= {USERS, EXACT}:
        note = estimates_sentence(first_trace, *study.models)

    own = {each.name: each.identity() for each in study.schedulers}
    code = {each.name: each.code for each in study.schedulers if own[each.name][1]}
    description = Description(
        package_version=__version__,
        key=study.key,
        study=study,
        identities=InputIdentities(
            logs=names,
            schedulers=own,
            platform="" if platform is None else platform.sha256 or "",
            code=code or msgspec.UNSET,
        ),
        note=note,
    )
    schedulers = dict.fromkeys(each.scheduler for each in study.schedulers)
    classes = {name: kind for name in schedulers if (kind := given_class(name)) is not None}
    return description, DeadlineRuns(traces, platform, study.message_delays, classes)


def check_runnable(trace: Workload, source: str, windows: Sequence[LogWindow]) -> None:
    """Refuse windows with a job too wide for the machine of their log.

    Deadlines are made from each job's response time under EASY, which such a job has not.
    """
    asked = trace.columns.processors
    fits = (asked >= 1) & (asked <= trace.processors)
    for window in windows:
        inside = fits[window.skip : window.skip + window.first if window.first else None]
        if not inside.all():
            place = window.skip + int(inside.argmin())
            raise InputError(
                f"{source}: job {shown(trace.jobs[place].id)} asks for {asked[place]} processors "
                f"of {trace.processors}; jobs that can run are expected"
            )


def study_inputs(study: Study) -> tuple[list[DeadlineCase], DeadlineRuns]:
    """Return the cases of a study, and the object that makes their workloads and runs."""
    description, runs = _inputs(study, Path(), {}, None)
    return _cases_of(description), runs


class _Stores:
    """The finished runs, failures and bounds that a study's directory keeps."""

    def __init__(self, directory: Path, description: Description) -> None:
        self.directory = directory
        is_listed = bool(description.study.cases)
        made_of: Any = SCORED if is_listed else MADE_OF
        platform = description.identities.platform
        if platform:
            made_of = [made_of, platform, description.study.message_delays]

        kind = Score if is_listed else Measures
        bound = ScoreBound if is_listed else dict[str, Unadmitted]
        self.kept: KeptRuns[Any] = KeptRuns(directory / "runs", kind, made_of)
        self.failures = KeptRuns(directory / "failed", Failure, made_of)
        self.bounds: KeptRuns[Any] = KeptRuns(directory / "bounds", bound, MADE_OF)

    def runs_of(self, description: Description) -> StudyRuns:
        """Return the finished and failed runs of a study, given its description."""

        def run_of(case: DeadlineCase) -> Any:
            return self.kept.find(case) or self.failures.find(case)

        return _outcomes(description, run_of, self.bounds.find)


def _outcomes(
    description: Description,
    run_of: Callable[[DeadlineCase], Any],
    bound_of: Callable[[Any], Any],
) -> StudyRuns:
    """Return the runs of a study; each run and each bound is looked up by its case."""
    study = description.study
    shipped = kept_bounds() if study.cases else {}
    run_of = cache(run_of)
    seen: set[tuple[Point, str, DeadlineCase]] = set()
    outcomes = []
    for cell, case in _cells_of(description):
        run = run_of(case)
        is_failed = isinstance(run, Failure)
        metrics = None if is_failed else run
        key = (cell.point, cell.contestant, case)
        repeated = key in seen
        seen.add(key)

        lines: Mapping[str, Any] = {}
        if study.cases:
            bound = shipped.get(bound_key(case.scenario)) or bound_of(case.scenario)
            lines = {BEST_KNOWN: bound and bound.shares()}
            metrics = metrics and metrics.beside(bound)
        elif study.bound is not None:
            lines = bound_of(bound_case(case.scenario, study.bound)) or dict.fromkeys(LINES)

        error = run.error if is_failed else None
        outcomes.append(CellOutcome(cell=cell, metrics=metrics, error=error, repeated=repeated))
        if cell.contestant == study.schedulers[-1].name:
            for name, reached in lines.items():
                line = msgspec.structs.replace(cell, contestant=name)
                outcomes.append(CellOutcome(cell=line, metrics=reached, repeated=repeated))
    return StudyRuns(description, outcomes)


def with_others(runs: StudyRuns, directory: str | Path) -> StudyRuns:
    """Add to runs those of other schedulers on the same workloads, from another directory."""
    other = read_study_runs(directory)
    places = {_workload_of(case): cell for cell, case in _cells_of(runs.description)}
    named = [each.name for each in runs.study.schedulers]
    others = {outcome.cell: outcome for outcome in other.outcomes}

    found = []
    for cell, case in _cells_of(other.description):
        place = places.get(_workload_of(case))
        if place is not None and cell.contestant not in named:
            own = msgspec.structs.replace(place, contestant=cell.contestant)
            found.append(msgspec.structs.replace(others[cell], cell=own))
    if not found:
        raise InputError(
            f"{directory}: has no other scheduler on one of these workloads; a study with the same "
            "cases and logs is expected"
        )

    more = [each for each in other.study.schedulers if each.name not in named]
    study = msgspec.structs.replace(runs.study, schedulers=(*runs.study.schedulers, *more))
    description = msgspec.structs.replace(runs.description, study=study)
    return StudyRuns(description, [*runs.outcomes, *found])


def _cells_of(found: Description) -> Iterator[tuple[Cell, DeadlineCase]]:
    return zip(found.study.cells(), _cases_of(found), strict=True)


def _workload_of(case: DeadlineCase) -> tuple[Scenario, Any]:
    return case.scenario, case.outages
