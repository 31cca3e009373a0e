"""Making the runs of a study, and knowing how far it is.

A directory holds ``study.json``, what is run; ``runs`` and ``failed``, a file for each run that
is finished and for each that failed; ``bounds``, one for each workload that was searched for the
best possible. They are written at once and whole, so a study that was killed goes on where it
was, and one that has grown makes only what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from qops_batsim.analysis.metrics.admission import AdmissionMetrics, PromiseMetrics
from qops_batsim.errors import InputError
from qops_batsim.experiments.best_lines import LINES, BoundCase, BoundSearch, Unadmitted, bound_case
from qops_batsim.experiments.deadline_runs import DeadlineCase, DeadlineRuns, shared_steps
from qops_batsim.experiments.pool import Failure, KeptRuns, Workers, run_cases
from qops_batsim.experiments.run_table import RunTable, tidy_table
from qops_batsim.experiments.study import Cell, InputIdentities, Point, Study, case_of
from qops_batsim.experiments.traces import find_trace, trace_digest
from qops_batsim.files import decoded, read_bytes, write_text
from qops_batsim.limits import MAX_DESCRIPTION_BYTES
from qops_batsim.version import __version__
from qops_batsim.workload.model import Workload
from qops_batsim.workload.traces import read_trace

if TYPE_CHECKING:
    import polars as pl

DESCRIPTION = "study.json"
MADE_OF = "deadline runs"


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """Content of ``study.json``: the study, its key, and the identities of its inputs."""

    package_version: str
    key: str
    study: Study
    identities: InputIdentities


class CellOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a cell: metrics, an error, or neither yet.

    It is ``repeated`` if it is the run of an earlier seed, which made no difference. The best known
    schedule and the bound of a workload are outcomes as well, after those of the schedulers.
    """

    cell: Cell
    metrics: AdmissionMetrics | Unadmitted | None = None
    error: str | None = None
    repeated: bool = False


@dataclass(frozen=True)
class StudyRuns:
    """A study with the outcomes so far, in the order of its cells."""

    description: Description
    outcomes: Sequence[CellOutcome]

    @property
    def study(self) -> Study:
        """The study."""
        return self.description.study

    def tidy(self) -> pl.DataFrame:
        """Return every number of every finished run, equal ones once: a row a cell and metric."""
        finished = (each for each in self.outcomes if each.metrics and not each.repeated)
        return tidy_table([RunTable({each.cell: each.metrics for each in finished})])


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a study: cells, different runs, finished and failed ones."""

    cells: int
    runs: int
    finished: int
    failed: int


def description_of(study: Study, known: InputIdentities) -> Description:
    """Return the description of a study, given its inputs."""
    return Description(package_version=__version__, key=study.key, study=study, identities=known)


def run_cells(
    description: Description,
    runs: DeadlineRuns,
    *,
    workers: Workers = 1,
    kept: KeptRuns[AdmissionMetrics] | None = None,
    failures: KeptRuns[Failure] | None = None,
    bounds: KeptRuns[dict[str, Unadmitted]] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> StudyRuns:
    """Make the runs of a study's cells, and its bounds if it has any, each once; return them.

    Those that fail are in ``failures``, without which they end the work.
    """
    study = description.study
    cases = _cases_of(description)
    found = run_cases(
        runs,
        cases,
        workers=workers,
        kept=kept,
        failures=failures,
        group_by=shared_steps,
        on_progress=on_progress,
    )
    searched: dict[BoundCase, dict[str, Unadmitted]] = {}
    if not isinstance(study.bound, msgspec.UnsetType):
        wanted = [bound_case(case.scenario, study.bound) for case in cases]
        searched = run_cases(
            BoundSearch(runs), wanted, workers=workers, kept=bounds, on_progress=on_progress
        )
    return _outcomes(description, cases, found.get, searched.get)


def run_study(
    study: Study,
    directory: str | Path,
    *,
    logs: str | Path = ".",
    workers: Workers = 1,
    retry: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> StudyRuns:
    """Make the runs of a study that a directory does not hold yet, and return all.

    Files of logs are looked for in the directory ``logs`` first. A run that fails is recorded, and
    made again only with ``retry``.
    """
    study.check()
    known, traces = _inputs(study, Path(logs))
    description = description_of(study, known)
    text = msgspec.json.format(msgspec.json.encode(description), indent=2).decode()
    write_text(Path(directory) / DESCRIPTION, text + "\n")
    stores = _Stores(Path(directory))
    if retry:
        stores.failures.clear()
    run_cells(
        description,
        DeadlineRuns(traces),
        workers=workers,
        kept=stores.kept,
        failures=stores.failures,
        bounds=stores.bounds,
        on_progress=on_progress,
    )
    return read_study_runs(directory)


def read_study_runs(directory: str | Path) -> StudyRuns:
    """Return the finished and failed runs of a study's directory."""
    found = read_description(directory)
    stores = _Stores(Path(directory))

    def outcome(case: DeadlineCase) -> AdmissionMetrics | Failure | None:
        return stores.kept.find(case) or stores.failures.find(case)

    return _outcomes(found, _cases_of(found), outcome, stores.bounds.find)


def read_description(directory: str | Path) -> Description:
    """Return the description of a study's directory."""
    path = Path(directory) / DESCRIPTION
    what = "the description that `study run` writes"
    content = read_bytes(path, what=what, max_bytes=MAX_DESCRIPTION_BYTES)
    found = decoded(content, msgspec.json.Decoder(Description), path, what)
    known = {*found.identities.logs, *found.identities.schedulers}
    names = [log.name for log in found.study.logs]
    for name in [*names, *(each.name for each in found.study.schedulers), found.study.base]:
        if name not in known:
            raise InputError(f"{path}: identities lack {name!r}; {what} is expected")
    return found


def status_of(directory: str | Path) -> Status:
    """Return the progress of a study, without reading its runs. O(cells)."""
    found = read_description(directory)
    asked = _cases_of(found)
    cases, stores = dict.fromkeys(asked), _Stores(Path(directory))
    finished, failed = stores.kept.count(cases), stores.failures.count(cases)
    return Status(cells=len(asked), runs=len(cases), finished=finished, failed=failed)


def _cases_of(description: Description) -> list[DeadlineCase]:
    """Return the run of each cell."""
    study, known = description.study, description.identities
    return [case_of(study, cell, known) for cell in study.cells()]


def _inputs(study: Study, directory: Path) -> tuple[InputIdentities, dict[str, Workload]]:
    """Return the identities of the inputs, and the logs by identity."""
    names: dict[str, str] = {}
    traces: dict[str, Workload] = {}
    for log in study.logs:
        path = find_trace(log.file, directory)
        names[log.name] = trace_digest(path, log.processors)
        windows = study.windows_of(log)
        last = [window.skip + window.first for window in windows if window.first]
        jobs = max(last) if len(last) == len(windows) else None
        trace = read_trace(path, processors=log.processors, first=jobs).workload
        for window in windows:
            if max(window.skip + 1, window.skip + window.first) > len(trace.jobs):
                raise InputError(
                    f"{path}: has {len(trace.jobs)} usable jobs, too few for window "
                    f"{{skip = {window.skip}, first = {window.first}}} of log {log.name}; windows "
                    "of as many jobs as are asked for are expected"
                )
        # Two names may have one log, of which the longer stretch is needed.
        longest = traces.setdefault(names[log.name], trace)
        if len(trace.jobs) > len(longest.jobs):
            traces[names[log.name]] = trace
    schedulers = {each.name: each.identity() for each in study.schedulers}
    return InputIdentities(logs=names, schedulers=schedulers), traces


class _Stores:
    """Finished runs, failures and bounds in a study's directory."""

    def __init__(self, directory: Path) -> None:
        self.kept = KeptRuns[AdmissionMetrics](directory / "runs", PromiseMetrics, MADE_OF)
        self.failures = KeptRuns(directory / "failed", Failure, MADE_OF)
        self.bounds = KeptRuns(directory / "bounds", dict[str, Unadmitted], MADE_OF)


def _outcomes(
    found: Description,
    cases: Sequence[DeadlineCase],
    outcome: Callable[[DeadlineCase], AdmissionMetrics | Failure | None],
    searched: Callable[[BoundCase], Mapping[str, Unadmitted] | None],
) -> StudyRuns:
    known: dict[DeadlineCase, AdmissionMetrics | Failure | None] = {}
    seen: set[tuple[Point, str, DeadlineCase]] = set()
    outcomes = []
    study = found.study
    for cell, case in zip(study.cells(), cases, strict=True):
        if case not in known:
            known[case] = outcome(case)
        run, key = known[case], (cell.point, cell.contestant, case)
        again = key in seen
        seen.add(key)
        metrics, error = (None, run.error) if isinstance(run, Failure) else (run, None)
        outcomes.append(CellOutcome(cell=cell, metrics=metrics, error=error, repeated=again))
        last = cell.contestant == study.schedulers[-1].name
        if last and not isinstance(study.bound, msgspec.UnsetType):
            lines = searched(bound_case(case.scenario, study.bound))
            outcomes += _lines(cell, lines, again)
    return StudyRuns(found, outcomes)


def _lines(cell: Cell, found: Mapping[str, Unadmitted] | None, repeated: bool) -> list[CellOutcome]:
    """Return best known and bound of the workload of a cell, as far as they are known."""
    return [
        CellOutcome(
            cell=msgspec.structs.replace(cell, contestant=line),
            metrics=None if found is None else found[line],
            repeated=repeated,
        )
        for line in LINES
    ]
