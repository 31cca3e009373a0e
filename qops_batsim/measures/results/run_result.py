"""The results of a run, read from its files: ours or real Batsim's, with the same columns.

A run is named by its prefix: ``PREFIX_jobs.csv`` (one row a job), ``PREFIX_schedule.csv``
(totals), ``PREFIX_machine_states.csv`` (hosts by state) and, for our own runs, ``PREFIX_qos.csv``
(what was decided about each job) and ``PREFIX_run.json`` (how it was made). Only the first is
needed; each may be gzip-compressed. What cannot be used is an
:class:`~qops_batsim.errors.InputError` that names the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from qops_batsim.arguments import PATH, WHOLE, Kind, mapping, one_of, takes
from qops_batsim.core.machine import Machine
from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError
from qops_batsim.jobs import COMPLETED_KILLED, FINAL_STATES, REJECTED, Job
from qops_batsim.limits import MAX_OCCUPATIONS
from qops_batsim.measures.results.allocations import (
    AllocationError,
    Allocations,
    Stays,
    on_all_hosts,
    on_hosts,
    read_allocations,
)
from qops_batsim.measures.results.impossible_dates import refuse_impossible_dates
from qops_batsim.measures.results.occupancy import Occupancy, occupancy
from qops_batsim.measures.results.result_tables import (
    AVERAGED,
    Booleans,
    Decisions,
    Floats,
    Integers,
    JobsFile,
    MachineStates,
    original_id,
    read_jobs_table,
    read_machine_states,
    read_qos,
    read_schedule,
    read_totals,
    rows_before,
)
from qops_batsim.measures.results.run_files import (
    BATSIM5_JOBS,
    Name,
    RunFiles,
    RunInfo,
    find_run,
)
from qops_batsim.platform.platform_model import Outage, Platform
from qops_batsim.shipped import find_input
from qops_batsim.tables import AnyTexts, Column, Words, WrittenTexts, joined_texts
from qops_batsim.workload.batsim_json import read_workload
from qops_batsim.workload.workload_model import Workload

if TYPE_CHECKING:
    import pandas as pd

_Content = TypeVar("_Content")


@dataclass(frozen=True, repr=False)
class RunResult:
    """A run as read from its files: jobs, totals, the scheduler's decisions and the run's
    description.

    ``source`` is the ``_jobs.csv`` read, ``hosts_source`` tells in words where the number of
    hosts comes from, and what has no file is None.

    ``table`` are the columns of ``_jobs.csv``, ``schedule`` is ``_schedule.csv`` as numbers by
    column, ``hosts_over_time`` are dates and numbers of hosts of ``_machine_states.csv``,
    ``decisions`` what ``_qos.csv`` says of each job.
    """

    name: str
    source: str
    table: JobsFile
    hosts: int
    hosts_source: str
    schedule: dict[str, float] | None = None
    hosts_over_time: MachineStates | None = None
    info: RunInfo | None = None
    decisions: Decisions | None = None
    is_verified: bool = False
    """Whether the verifier tells what is wrong, so that nothing is refused before."""
    platform: Platform | None = None
    """The platform, if given; else its file is read once it is asked for."""
    numbered_by_value: bool = False
    """Whether hosts have ids by the numbers in their names, as with Batsim 5."""

    def __repr__(self) -> str:
        return f"<RunResult {self.name}: {len(self.executed):,} jobs on {self.hosts:,} hosts>"

    @property
    def hosts_are_assumed(self) -> bool:
        """Whether the number of hosts is nowhere recorded, so that the largest allocated host id +
        1 stands for it.
        """
        return self.hosts_source == _ASSUMED

    @property
    def machine(self) -> Machine | None:
        """What hosts have for jobs that share them; None if they have no such amounts, or the
        platform is not known.
        """
        platform = self.shared_platform
        return None if platform is None else platform.machine

    @cached_property
    def shared_platform(self) -> Platform | None:
        """The platform with the hosts of the run, if these have amounts that jobs share; None if
        they have none, or it is not known.

        Of a run on hosts that are not shared, the platform's file is not read.
        """
        platform = self.platform or recorded_platform(self.info)
        if platform is None:
            return None
        if self.numbered_by_value:
            platform = platform.numbered_by_value()
        if len(platform.compute_hosts) < self.hosts:
            raise InputError(
                f"{platform.source}: has {len(platform.compute_hosts)} compute hosts, and the run "
                f"{self.hosts} ({self.hosts_source}); the platform of the run is expected"
            )
        hosts = platform.compute_hosts[: self.hosts]
        of_run = msgspec.structs.replace(platform, compute_hosts=hosts)
        return None if of_run.machine is None else of_run

    @property
    def outages(self) -> list[Outage]:
        """Outages of hosts that the run's description (``_run.json``) records."""
        return [] if self.info is None else self.info.outages

    @property
    def cancellations(self) -> dict[str, float]:
        """Dates (seconds) at which users cancelled jobs, by full job id, as ``_run.json`` records
        them.
        """
        return {} if self.info is None else self.info.cancellations

    @cached_property
    def cancelled(self) -> frozenset[str]:
        """Full ids (``"w0!15"``) of the jobs that their users cancelled while they waited."""
        qos = self.decisions
        if qos is None or not qos.cancelled.any():
            return frozenset()
        return frozenset(qos.ids[row] for row in np.flatnonzero(qos.cancelled).tolist())

    @property
    def grace(self) -> float:
        """Lateness (seconds) up to which a promise counts as kept; 0 if the run's files do not
        tell.
        """
        return 0.0 if self.info is None else self.info.grace

    @property
    def calendar(self) -> Calendar | None:
        """Calendar that gives dates to the run's seconds; None if its workload had no calendar."""
        return None if self.info is None else self.info.calendar

    @cached_property
    def jobs(self) -> pd.DataFrame:
        """The jobs as a table: one row for each run of a job, in the order of ``_jobs.csv``.

        Batsim's columns with numbers as floats (seconds, processors) and NaN where a rejected
        job has none, plus ``id``, the full identifier ``workload_name!job_id``.
        """
        import pandas as pd

        numbers = self.table.numbers
        columns: dict[str, Any] = {"id": pd.Series(self.ids, dtype=str)}
        for name in self.table.names:
            columns[name] = numbers.get(name)
            if columns[name] is None:
                columns[name] = pd.Series(list(self.text(name)), dtype=str)
        return pd.DataFrame(columns)

    @cached_property
    def qos(self) -> pd.DataFrame | None:
        """The scheduler's decisions (``_qos.csv``) as a table with one row a job; None without this
        file.

        All columns of the file with numbers as floats (NaN for an empty cell), ``kills`` and
        ``new_promises`` as whole numbers, plus ``id``, the full identifier as in :attr:`jobs`.
        """
        import pandas as pd

        decisions = self.decisions
        if decisions is None:
            return None

        frame = pd.DataFrame(
            {
                name: column
                if isinstance(column, np.ndarray)
                else pd.Series(list(column), dtype=str)
                for name, column in {"id": decisions.ids, **decisions.columns}.items()
            }
        )
        counts = frame.columns.intersection(["kills", "new_promises"])
        return frame.astype(dict.fromkeys(counts, np.int64))

    @cached_property
    def joined(self) -> pd.DataFrame:
        """The table :attr:`jobs` with the scheduler's decisions on each job (:attr:`qos`) as
        further columns.

        A later run, ``15#1``, has the decisions of its job, ``15``.
        """
        jobs = self.jobs
        qos = self.qos
        if qos is None:
            return jobs
        known = set(qos["id"])
        origin = [original_id(each, known) or "" for each in jobs["id"]]
        decisions = qos.drop(columns=["job_id", "workload_name"]).rename(columns={"id": "origin"})
        return jobs.assign(origin=origin).merge(decisions, how="left").drop(columns="origin")

    def column(self, name: str) -> Floats:
        """Return a column of numbers of ``_jobs.csv``, one value a row."""
        numbers = self.table.numbers.get(name)
        return self.jobs[name].to_numpy(dtype=np.float64) if numbers is None else numbers

    def text(self, name: str) -> AnyTexts:
        """Return a column of texts of ``_jobs.csv``, one value a row."""
        if name == "final_state":
            return WrittenTexts(Words(FINAL_STATES, self.table.states))
        return self.table.texts[name]

    @property
    def ids(self) -> list[str]:
        """Full identifiers (``"w0!15"``) of the jobs of all rows."""
        return joined_texts(self.text("workload_name"), self.text("job_id"), "!")

    def id(self, row: int) -> str:
        """Return the full identifier of a row's job."""
        return f"{self.text('workload_name')[row]}!{self.text('job_id')[row]}"

    def columns(self, *names: str) -> tuple[Floats, ...]:
        return tuple(self.column(name) for name in names)

    @cached_property
    def executed(self) -> Booleans:
        """Whether each job ran, i.e. was not rejected."""
        return ~self.ended_as(REJECTED)

    def ended_as(self, *states: str) -> Booleans:
        """Return which jobs ended in one of the given final states."""
        return np.isin(self.table.states, [FINAL_STATES.index(state) for state in states])

    @cached_property
    def earlier_runs(self) -> dict[int, int]:
        """Dict from the row of each later run of a job to the row of the run before it, which was
        killed.
        """
        if not self.text("job_id").mention("#"):
            return {}
        before = rows_before(self.ids)
        killed = self.ended_as(COMPLETED_KILLED) if before else ()
        return {row: lost for row, lost in before.items() if killed[lost]}

    @cached_property
    def last_runs(self) -> Booleans:
        """Whether each row is the last run of its job (usually the only one)."""
        last: Booleans = np.ones(len(self.executed), dtype=np.bool_)
        last[list(self.earlier_runs.values())] = False
        return last

    @cached_property
    def allocations(self) -> Allocations:
        """The hosts that each job ran on, as intervals; InputError if the machine lacks one."""
        try:
            allocations = read_allocations(self.text("allocated_resources"))
        except AllocationError as error:
            raise InputError(
                f"{self.source}: row {error.row + 1} (job {self.id(error.row)!r}): "
                f"allocated_resources: {error}"
            ) from None

        beyond = np.flatnonzero(allocations.last >= self.hosts)
        if len(beyond) and not (self.is_verified or self.hosts_are_assumed):
            row = int(allocations.rows[beyond[0]])
            highest = int(allocations.last.max())
            raise InputError(
                f"{self.source}: row {row + 1} (job {self.id(row)!r}) ran on host "
                f"{int(allocations.last[beyond[0]])}, but the number of hosts is {self.hosts} "
                f"({self.hosts_source}); at least {highest + 1} is expected"
            )

        return allocations

    @cached_property
    def allocation_sizes(self) -> Integers:
        """Number of hosts of each job; 0 for one that never ran."""
        rows, first, last = self.allocations
        sizes = np.bincount(rows, weights=last - first + 1, minlength=len(self.executed))
        return sizes.astype(np.int64)

    @cached_property
    def occupations(self) -> tuple[Integers, Integers]:
        """Every pair of a job's row and one of its hosts, as two arrays.

        More than :data:`MAX_OCCUPATIONS` pairs are an :class:`~qops_batsim.errors.InputError`.
        """
        total = int(self.allocation_sizes.sum())
        if total > MAX_OCCUPATIONS:
            raise InputError(
                f"{self.source}: the allocations add up to {total} hosts over all jobs; "
                f"at most {MAX_OCCUPATIONS} are accepted"
            )
        return on_all_hosts(self.allocations)

    @cached_property
    def occupancy(self) -> Occupancy:
        """When hosts were busy, computed from the jobs with a run time above 0."""
        start, finish = self.columns("starting_time", "finish_time")
        rows = np.flatnonzero(self.executed & (finish > start))
        return occupancy(self.allocations, start, finish, rows)

    def stays(self, hosts: Integers | None = None) -> Stays:
        """Return all pairs of an executed job and one of its hosts, with the job's start and
        finish, in the order of the jobs; O(pairs).

        With ``hosts`` (ascending ids), only pairs on these hosts are returned.
        """
        rows, hosts = self.occupations if hosts is None else on_hosts(self.allocations, hosts)
        real = self.executed[rows]
        rows = rows[real]
        hosts = hosts[real]
        start, finish = self.columns("starting_time", "finish_time")
        return Stays(rows, hosts, start[rows], finish[rows])


_ASSUMED = "the largest allocated host id + 1"

Run = Name | RunResult
"""A run, or its name."""

RUN = Kind(
    lambda value: PATH.fits(value) or isinstance(value, RunResult),
    "the prefix of a run's files, or what run() or read_run() returned (simulate() writes no "
    "files),",
)
"""What takes the place of a run in arguments of public functions."""


def load_run(run: Run, *, hosts: int | None = None, is_verified: bool = False) -> RunResult:
    """Return ``run`` as it is if it has been read, else read the run with this name; parameters as
    for :func:`read_files`.
    """
    if isinstance(run, RunResult):
        return run
    return read_files(find_run(run), hosts=hosts, is_verified=is_verified)


@takes(name=PATH, hosts=WHOLE.optional, platform=PATH.optional)
def read_run(
    name: Name, *, hosts: int | None = None, platform: str | Path | None = None
) -> RunResult:
    """Read a run from its files: ``_jobs.csv``, and those of the others that exist.

    Parameters
    ----------
    name
        Prefix, directory or ``_jobs.csv`` of the run, or what ``run`` returned.
    hosts
        Number of hosts; by default that of ``_run.json``, else of ``_schedule.csv``, else the
        largest allocated id + 1.
    platform
        File or shipped name of the platform that was run on, for what its hosts have; by default
        that of ``_run.json``, if its hosts were shared.

    Returns
    -------
    RunResult
        The tables of the run and what follows from them.

    Raises
    ------
    InputError
        If a file is missing, damaged, or of another run, or has dates that cannot be.

    Examples
    --------
    >>> from qops_batsim import run
    >>> done = read_run(run("easy", "tiny_8", out="out/tiny"))
    >>> done.hosts, float(done.jobs["waiting_time"].max())
    (4, 160.0)
    """
    return read_files(find_run(name), hosts=hosts, platform=named_platform(platform))


def read_files(
    files: RunFiles,
    *,
    hosts: int | None = None,
    is_verified: bool = False,
    platform: Platform | None = None,
    written: Mapping[str, Mapping[str, Column]] | None = None,
) -> RunResult:
    """Read a run from files that :func:`find_run` has found; ``hosts`` as for :func:`read_run`.

    Dates that cannot be are an InputError, unless the run ``is_verified`` afterwards: the verifier
    lists all that is wrong. Tables that this process has just ``written`` are not read: their
    columns tell the same, by the ends of the files' names.
    """
    tables = written or {}
    of_batsim5 = files.schedule is not None and files.schedule.suffix == ".json"
    schedule = _read_if_any(read_totals if of_batsim5 else read_schedule, files.schedule)
    states, qos_table = map(tables.get, ("_machine_states.csv", "_qos.csv"))
    machine_states = _read_if_any(read_machine_states, files.machine_states, states)
    info = files.info
    qos = _read_if_any(read_qos, files.qos, qos_table)
    jobs = read_jobs_table(files.jobs, tables.get("_jobs.csv"))
    source = str(files.jobs)
    files.check_unchanged()
    recorded = None if schedule is None else schedule["nb_computing_machines"]

    if hosts is not None:
        if hosts < 1:
            raise InputError(f"number of hosts is {hosts}; a whole number above 0 is expected")
        known = (hosts, "given")
    elif info is not None and info.hosts is not None:
        known = (info.hosts, "_run.json")
    elif recorded is not None and recorded >= 1:
        known = (int(recorded), "schedule.json" if of_batsim5 else "_schedule.csv")
    else:
        alone = RunResult(files.name, source, jobs, 1, _ASSUMED)
        known = (int(alone.allocations.last.max(initial=0)) + 1, _ASSUMED)

    result = RunResult(files.name, source, jobs, *known, schedule, machine_states, info, qos)
    as_written = of_batsim5 or files.jobs.name == BATSIM5_JOBS
    by_value = as_written or (info is not None and is_batsim5(info.batsim_version))
    result = replace(result, is_verified=is_verified, platform=platform, numbered_by_value=by_value)
    if as_written:
        result = submitted_once(result)
    if not is_verified:
        refuse_impossible_dates(result)
    return result


def submitted_once(result: RunResult) -> RunResult:
    """Return a run of Batsim 5 in which a job that was killed and run again keeps its original
    submission. O(jobs).

    Batsim 5 writes when ``15#1`` was registered, so its waiting time would leave out what its user
    had waited before.
    """
    before = result.earlier_runs
    if not before:
        return result

    numbers = {name: each.copy() for name, each in result.table.numbers.items()}
    rows = [*before]
    submitted = numbers["submission_time"]
    run_times = numbers["execution_time"]
    for row in rows:
        submitted[row] = submitted[before[row]]
    for name, date in (("waiting_time", "starting_time"), ("turnaround_time", "finish_time")):
        numbers[name][rows] = (numbers[date] - submitted)[rows]
    numbers["stretch"][rows] = (numbers["turnaround_time"] / run_times)[rows]
    made = replace(result, table=result.table._replace(numbers=numbers))
    totals = {**(result.schedule or {})}

    for name in AVERAGED if totals else ():
        values = made.column(AVERAGED[name])[made.executed]
        totals[f"mean_{name}"] = float(values.sum()) / totals["nb_jobs"]
        totals[f"max_{name}"] = float(values.max())

    return replace(made, schedule=totals or None)


def _read_if_any(
    read: Callable[..., _Content], path: Path | None, *written: Mapping[str, Column] | None
) -> _Content | None:
    return None if path is None else read(path, *written)


def read_workloads(paths: Sequence[Path]) -> dict[str, Workload]:
    """Read workload files; return the workloads by the names that Batsim gives them: ``w0``,
    ``w1``, …
    """
    return {f"w{index}": read_workload(path) for index, path in enumerate(paths)}


def recorded_workloads(result: RunResult) -> list[Path]:
    """Return the paths of the workloads that the run's ``_run.json`` names; none if any of them no
    longer exists.

    A name may be a path or that of a workload that comes with the package. That of an object of a
    program is only where it once came from, which says nothing of its jobs.
    """
    if result.info is None or result.info.workload is None or of_program(result):
        return []
    named = result.info.workload
    try:
        paths = [
            find_input(name, "workloads") for name in ([named] if type(named) is str else named)
        ]
    except InputError:
        return []
    # A pipe of that name is another one by now.
    return paths if all(file.is_file() for file in paths) else []


def is_batsim5(version: str | None) -> bool:
    """Return whether this is a version of Batsim 5, which numbers hosts by their numbers."""
    return version is not None and version.removeprefix("v").startswith("5")


def named_platform(name: str | Path | None) -> Platform | None:
    """Read the platform of a file or shipped name; None if none is given."""
    from qops_batsim.platform.simgrid_read import read_platform

    return None if name is None else read_platform(find_input(name, "platforms"))


def recorded_platform(info: RunInfo | None) -> Platform | None:
    """Read the platform that a run's description names, if its hosts are shared; None if its file
    has moved or changed since the run.
    """
    from qops_batsim.platform.simgrid_read import read_platform

    if info is None or not info.compute_sharing or info.platform is None:
        return None
    try:
        path = find_input(info.platform, "platforms")
    except InputError:
        return None
    if "platform" in info.python_objects or not path.is_file():
        return None
    found = read_platform(path)
    return found if info.sha256.get("platform") in (None, found.sha256) else None


def of_program(result: RunResult) -> bool:
    """Return whether a Python program made the run's workload as an object, so that no file holds
    it.
    """
    return result.info is not None and "workload" in result.info.python_objects


def workloads_of_run(
    result: RunResult, given: Sequence[Path] | None = None
) -> tuple[dict[str, Workload], str | None]:
    """Read the workloads of a run from the ``given`` files, else from those that ``_run.json``
    names; also return a warning if they may be others than were run.

    A file that ``_run.json`` names is not read if its content has changed since the run; a given
    one is, with a warning.
    """
    paths = given or recorded_workloads(result)
    workloads = read_workloads(paths)
    digest = None if result.info is None else result.info.sha256.get("workload")
    if not paths or digest in (None, *(each.sha256 for each in workloads.values())):
        return workloads, None
    if given:
        return workloads, f"{paths[0]} is not the file that the run was made of"
    return {}, f"{paths[0]} has changed since the run"


def workloads_with_deadlines(result: RunResult) -> tuple[dict[str, Workload], str | None]:
    """Return the workloads of a run, which hold its jobs' deadlines, and None; or no workloads, and
    why they cannot be had.

    Nothing is read if ``_qos.csv`` has no requested deadline and no promise, or is missing, unless
    jobs share hosts by amounts, of which the workloads tell.
    Workloads cannot be
    had if the files have moved or changed since the run, or if a program made them.
    """
    qos = result.decisions
    if result.machine is None:
        if qos is None:
            return {}, None
        if not qos.has_promises and np.isnan(qos.numbers("requested_deadline")).all():
            return {}, None
    workloads, why_not = workloads_of_run(result)
    if not (workloads or why_not):
        gone = "is not where the run had it"
        gone = "came from a program" if of_program(result) else gone
        why_not = f"the workload with its deadlines {gone}"
    return workloads, why_not


WORKLOADS = mapping(
    one_of(Workload, words="a workload"), "a mapping from names (w0, w1, …) to workloads"
)
"""The workloads of a run in arguments of public functions."""


def jobs_by_id(workloads: Mapping[str, Workload]) -> dict[str, Job]:
    """Return jobs of workloads by full identifier (``"w0!15"``), in order; O(jobs)."""
    return {
        f"{name}!{job.id}": job for name, workload in workloads.items() for job in workload.jobs
    }
