"""Decision history: a run's decision log, and the scheduler's plan at any moment.

A log that cannot be read or does not add up is an InputError that names file and line.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from os import PathLike, fspath
from pathlib import Path

import msgspec

from qops_batsim.arguments import PATH, one_of
from qops_batsim.core import decision_events as log
from qops_batsim.core.hostset import HostSet
from qops_batsim.core.refusal import Refusal
from qops_batsim.core.scheduler import Scheduler
from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError, did_you_mean, shown
from qops_batsim.files import decoded, read_bytes
from qops_batsim.measures.results.run_files import RunFiles, RunInfo, find_run
from qops_batsim.measures.results.run_result import read_files
from qops_batsim.running.run import Run
from qops_batsim.schedulers.loading.plugins import AllowedCode, is_in_file, is_loaded
from qops_batsim.schedulers.registry import scheduler_class, scheduler_names
from qops_batsim.timing import GRID_TOLERANCE, PLAN_TOLERANCE, on_grid

ASKING = "asking"
REFUSED = "refused"
WAITING = "waiting"
RUNNING = "running"
ENDED = "ended"
"""States of a job; ``ASKING`` until the scheduler has answered."""


class PlannedStart(msgspec.Struct, frozen=True, kw_only=True):
    """A promised start and its cause; dates in seconds."""

    date: float
    """When it was promised."""
    start: float | None
    """None if there was none to promise."""
    cause: str
    """See :class:`~qops_batsim.core.decision_events.Moved`; ``"own admission"``
    first, ``"killed"`` after a kill."""
    by: list[str] = []
    """The jobs that caused it."""


class KilledRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a job that the scheduler killed to admit another job; the job is run again."""

    date: float
    by: str
    """Full id of the job that was admitted thereby."""
    again: str
    """Full id under which the job was run again."""
    wasted: float
    """Processor-seconds of the run that are lost."""


@dataclass
class JobStory:
    """What happened to a job up to a moment; dates in seconds, None if missing or infinite."""

    asked: log.Submitted
    """Its request, under the id of the submission."""
    name: str
    """Full id under which it waits or runs now: another one after a kill."""
    outcome: str = ASKING
    reason: str = ""
    refusal: Refusal | None = None
    """Why the requested deadline was refused; the reason has it in words."""
    blamed: str | None = None
    """Whose deadline blocked the requested one."""
    offered: float | None = None
    """Deadline that was offered instead."""
    promise: float | None = None
    """Deadline of the admission."""
    target: float | None = None
    """Deadline that the plan aims at: a later one if other jobs outlived their estimates."""
    planned: float | None = None
    """Promised start."""
    places: list[tuple[int, int, int]] = field(default_factory=list)
    """Of shared hosts: see :class:`~qops_batsim.core.decision_events.Placed`."""
    start: float | None = None
    expected_end: float | None = None
    end: float | None = None
    """Of the last run, as the two above."""
    late: float = 0.0
    """By how much it counts as started before it was (seconds), since news was late."""
    starts: list[PlannedStart] = field(default_factory=list)
    kills: list[KilledRun] = field(default_factory=list)
    saved: float = 0.0
    """Seconds of killed runs whose work was saved."""
    killed_for_it: list[str] = field(default_factory=list)
    """Full ids of the jobs that were killed to admit it."""

    @property
    def admitted(self) -> bool:
        """Whether the scheduler admitted the job."""
        return self.outcome not in (ASKING, REFUSED)

    @property
    def estimate_left(self) -> float | None:
        """Estimated run time that the job still needs if it starts now (seconds): without the work
        that was saved when it was killed.
        """
        estimate = self.asked.estimate
        return None if estimate is None else on_grid(estimate - self.saved)

    def plan(self, date: float, start: float | None, cause: str, by: list[str]) -> None:
        """Record that at ``date`` the job's planned start became ``start`` (both in seconds);
        ``cause`` says why, ``by`` are the jobs that caused it.
        """
        self.planned = start
        self.starts.append(PlannedStart(date=date, start=start, cause=cause, by=by))


class PlanState:
    """The scheduler's jobs, their states and planned starts at one moment of a run.

    ``jobs`` are by the id of the submission, in its order, ``names`` the same by every id that
    a job has had, ``dying`` those whose killed run may not have ended, by the id of that run.
    ``present`` is the number of hosts that are there, or under maintenance, as of the date
    ``sized``, None if none ever left; ``is_final`` tells whether that is known to stay, ``under``
    how many hosts of each running job have left.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, JobStory] = {}
        self.names: dict[str, JobStory] = {}
        self.dying: dict[str, JobStory] = {}
        self.late_news = False

        self.present: int | None = None
        self.is_final = False
        self.sized = -math.inf
        self.under: dict[str, int] = {}

    @property
    def held(self) -> list[JobStory]:
        """Return the waiting and the running jobs, in the order of submission. O(jobs)."""
        return [job for job in self.jobs.values() if job.outcome in (WAITING, RUNNING)]

    def apply(self, event: log.Event) -> None:
        """Change the state by an event of the decision log; raise KeyError if a job of the event is
        not in the state that the event needs. O(moved jobs).
        """
        match event:
            # Answers
            case log.Submitted():
                job = JobStory(event, event.job)
                self.jobs[event.job] = job
                self.names[event.job] = job
            case log.Moved():
                for name, _, start in event.moves:
                    self._job(name, WAITING).plan(event.date, start, event.cause, event.by)
            case log.Admitted() | log.Refused():
                self._answered(self._job(event.job, ASKING), event)

            case log.Placed():
                self.names[event.job].places = event.places

            # Kills
            case log.Killed():
                self._killed(self._job(event.job, RUNNING), event)
            case log.Withdrawn():
                # The run had ended by itself, which the log said just before.
                job = self._job(event.job, WAITING)
                if not job.kills:
                    raise KeyError(event.job)
                job.outcome = ENDED
                job.kills.pop()

            # Runs
            case log.Started():
                job = self._job(event.job, WAITING)
                job.outcome = RUNNING
                job.start = event.date
                job.expected_end = event.end
                job.late = event.late or 0.0
            case log.Slipped() | log.Outlived():
                job = self._job(event.job, RUNNING)
                job.expected_end = event.end
                job.late = 0.0
            case log.Ended() if event.job in self.dying:
                self.dying.pop(event.job).end = event.date
            case log.Ended():
                job = self._job(event.job, RUNNING)
                job.outcome = ENDED
                job.end = event.date

            # What breaks promises
            case log.LateNews():
                self.late_news = True
            case log.Late():
                job = self._job(event.job, WAITING)
                job.target = event.deadline
                if event.reason and event.deadline is not None:
                    job.promise = event.deadline
            case log.Dropped():
                job = self._job(event.job, WAITING)
                job.outcome = REFUSED
                job.reason = event.reason
                job.refusal = log.refusal_of(event)
            case log.Resized():
                self.present = event.present
                self.under = dict(event.under)
                self.is_final = event.final
                self.sized = event.date

    def _job(self, name: str, outcome: str) -> JobStory:
        job = self.names[name]
        if job.name != name or job.outcome != outcome:
            raise KeyError(name)
        return job

    def _answered(self, job: JobStory, event: log.Admitted | log.Refused) -> None:
        job.reason = event.reason
        job.blamed = event.blamed
        job.refusal = log.refusal_of(event)
        if isinstance(event, log.Refused):
            job.outcome = REFUSED
            job.offered = event.offered
            return

        job.outcome = WAITING
        job.promise = event.deadline
        job.target = event.deadline if event.target is None else event.target
        job.offered = event.deadline if event.offered else None
        job.plan(event.date, event.start, "own admission", [])

    def _killed(self, job: JobStory, event: log.Killed) -> None:
        assert job.start is not None
        saved = event.saved or 0.0
        wasted = job.asked.processors * (event.date - job.start - saved)
        job.saved += saved
        job.kills.append(KilledRun(date=event.date, by=event.by, again=event.again, wasted=wasted))
        job.plan(event.date, event.start, "killed", [event.by])

        # It waits again under another name, while its run is still to end.
        job.outcome = WAITING
        job.name = event.again
        self.names[event.again] = job
        self.dying[event.job] = job
        self.names[event.by].killed_for_it.append(event.job)


@dataclass
class DecisionHistory:
    """The decision log of a run, read into memory: what happened to each job, and when."""

    name: str
    """The run's prefix, as the user gave it."""
    path: Path
    """The log, for messages."""
    header: log.LogHeader
    events: list[log.Event]
    info: RunInfo | None = None
    """Description of the run, if that is known."""
    made_by: type[Scheduler] | None = None
    """The scheduler's class, where the name in the header may not lead to it."""
    code: AllowedCode = ()
    """Python files that the header may name."""
    files: RunFiles | None = None
    """The run's files, where they are known."""

    def __post_init__(self) -> None:
        self.final = self._replayed(len(self.events))
        self.jobs = {name: job.asked for name, job in self.final.jobs.items()}

    @property
    def end(self) -> float:
        """Return the date of the last event (seconds); 0 without any."""
        return self.events[-1].date if self.events else 0.0

    @property
    def calendar(self) -> Calendar | None:
        """Return the run's calendar, if its workload had one."""
        return None if self.info is None else self.info.calendar

    @cached_property
    def allocations(self) -> dict[str, HostSet]:
        """Return the hosts that each job ran on, by full job id, from the run's files; empty if
        these are not known. O(jobs).
        """
        if self.files is None:
            return {}
        result = read_files(self.files)
        hosts = map(HostSet.parse, result.text("allocated_resources"))
        return dict(zip(result.ids, hosts, strict=True))

    def had_maintenance(self, date: float) -> bool:
        """Return whether maintenance of hosts was announced or took place up to a date (seconds).
        O(events).

        The log tells only that something changed, and not the number of hosts that are there.
        """
        sizes = [(self.header.processors, False)]
        sizes += [
            (event.present, event.final)
            for event in self.events
            if isinstance(event, log.Resized) and event.date <= date
        ]
        return any(one == next_one for one, next_one in pairwise(sizes))

    def find_job(self, name: str) -> str:
        """Return the full id (``w0!15``) under which a job was submitted; ``name`` is a full id of
        the job or its part after ``!``.

        A job that was killed is meant by all its identifiers.
        """
        return self.final.names[find_job(name, self.final.names, str(self.path))].asked.job

    def state_at(self, date: float, *, before: bool = False) -> PlanState:
        """Return the jobs and the plan of the scheduler after all events up to a date (seconds);
        O(events).

        With ``before``, the events of the date itself are left out.
        """
        if not 0 <= date <= self.end:
            raise InputError(
                f"{self.path}: there is no state at {date:,.10g} s; a date from 0 to "
                f"{self.end:,.10g} s, the end of the run, is expected"
            )
        limit = date - PLAN_TOLERANCE if before else date + PLAN_TOLERANCE
        later = (place for place, event in enumerate(self.events) if event.date > limit)
        return self._replayed(next(later, len(self.events)))

    def state_before(self, job_id: str) -> PlanState:
        """Return the jobs and the plan of the scheduler when the job with this full id requested
        admission, before the answer; O(events).

        Jobs that ended at its date, and what was moved for that, and jobs that were
        answered before it at its date are in it; nothing else of its date is.
        """
        return self._replayed(self.events.index(self.jobs[job_id]))

    def state_after_admission(self, job_id: str) -> PlanState:
        """Return the jobs and the plan of the scheduler just after it admitted or refused the job
        with this full id; O(events).
        """
        end = self.events.index(self.jobs[job_id]) + 1
        while end < len(self.events) and _answers(self.events[end], job_id):
            end += 1
        return self._replayed(end)

    def _replayed(self, end: int) -> PlanState:
        state = PlanState()
        for event in self.events[:end]:
            try:
                state.apply(event)
            except KeyError as error:
                raise InputError(
                    f"{self.path}: at {event.date:g} s an event of job "
                    f"{shown(str(error.args[0]))} contradicts the events before it; an "
                    "unchanged decision log is expected"
                ) from None
        return state


RUN_OR_HISTORY = PATH | one_of(DecisionHistory, words="a history that was read")
"""What takes the place of a run with decisions in arguments of public functions."""


def _answers(event: log.Event, job_id: str) -> bool:
    if isinstance(event, log.Moved):
        return event.by == [job_id]
    if isinstance(event, log.Killed):
        return event.by == job_id
    if isinstance(event, log.Placed):
        return True  # It is planned, or moved for the job.
    return isinstance(event, (log.Admitted, log.Refused)) and event.job == job_id


def find_job(name: str, known: Mapping[str, object], source: str) -> str:
    """Return the full id (``w0!15``) of a job among the ids in ``known``; ``name`` is that id or
    its part after ``!``, ``source`` the file to name in errors.
    """
    if name in known:
        return name
    same = [job_id for job_id in known if job_id.partition("!")[2] == name]
    if len(same) == 1:
        return same[0]
    if same:
        raise InputError(f"{source}: several jobs are called {shown(name)}: {', '.join(same)}")

    names = known if "!" in name else [job_id.partition("!")[2] or job_id for job_id in known]
    # A list of all jobs of a log would be too long to help.
    nearest = did_you_mean(name, names).partition(" (known:")[0]
    raise InputError(f"{source}: no job {shown(name)}{nearest} (known: {len(known):,} jobs)")


def read_history(run: str | PathLike[str], *, code: AllowedCode = ()) -> DecisionHistory:
    """Read the decision log of a run, which is named by the log's path, the run's prefix or
    directory, or its ``_jobs.csv``.

    ``code`` are Python files with schedulers that the log may name, True for any.
    """
    files = find_run(fspath(run))
    if files.decisions is None:
        raise InputError(_missing_log(files))

    header, events = parse_log(read_bytes(files.decisions, what="a decision log"), files.decisions)
    files.check_unchanged()
    return DecisionHistory(
        name=fspath(run),
        path=files.decisions,
        header=header,
        events=events,
        info=files.info,
        made_by=type(run.module.scheduler) if isinstance(run, Run) else None,
        code=code,
        files=files,
    )


def read_history_if_kept(
    run: str | PathLike[str], *, code: AllowedCode = ()
) -> DecisionHistory | None:
    """Read the decision log of a run as :func:`read_history` does; return None if the run's
    scheduler keeps no log.
    """
    files = find_run(fspath(run))
    scheduler = None if files.info is None else files.info.scheduler
    if files.decisions is None and (scheduler is None or not keeps_decisions(scheduler)):
        return None
    return read_history(run, code=code)


def _missing_log(files: RunFiles) -> str:
    path = f"{files.prefix}_decisions.jsonl"
    scheduler = None if files.info is None else files.info.scheduler
    if scheduler is not None and not is_in_file(scheduler) and not keeps_decisions(scheduler):
        keeping = ", ".join(name for name in scheduler_names() if keeps_decisions(name))
        return (
            f"{path}: no such file: scheduler {scheduler!r} keeps no decision log; a run of one "
            f"that admits jobs ({keeping}) is expected"
        )
    return (
        f"{path}: no such file; `qops-batsim run {scheduler or 'qops'} --out {files.prefix}` "
        "makes a decision log"
    )


def keeps_decisions(scheduler: str) -> bool:
    """Return whether the scheduler of this name can keep a decision log, false for a name that is
    not known.

    That in a file is unknown as long as nobody has run the file.
    """
    if is_in_file(scheduler) and not is_loaded(scheduler):
        return False
    try:
        return scheduler_class(scheduler).keeps_decisions
    except InputError:
        return False


_headers = msgspec.json.Decoder(log.LogHeader)
_events = msgspec.json.Decoder(log.Event)


def parse_log(content: bytes, path: Path) -> tuple[log.LogHeader, list[log.Event]]:
    """Parse a decision log and return its header and its events; ``path`` is named in errors.
    O(lines).
    """
    lines = io.BytesIO(content)
    header = _parse_header(lines.readline(), path)
    events: list[log.Event] = []
    date = -math.inf

    for number, line in enumerate(lines, start=2):
        event = decoded(line, _events, f"{path}: line {number}", "an event of a decision log")
        # A decision may be dated a microsecond before what it answers.
        if event.date < date - GRID_TOLERANCE:
            raise InputError(
                f"{path}: line {number}: date is {event.date:g} s, before the {date:g} s of a line "
                "above; lines in the order of their dates are expected"
            )
        date = max(date, event.date)
        events.append(event)
    return header, events


def _parse_header(line: bytes, path: Path) -> log.LogHeader:
    header = decoded(line, _headers, f"{path}: line 1", "the first line of a decision log")
    if header.format != log.FORMAT or header.version != log.VERSION:
        raise InputError(
            f"{path}: line 1: the format is {shown(header.format)}, version {header.version}; "
            f"{log.FORMAT!r}, version {log.VERSION}, is expected"
        )
    return header


def or_infinite(number: float | None) -> float:
    """Return a number as it is, or infinity for None."""
    return math.inf if number is None else number
