"""Reading a run's decision log, and what the scheduler's plan was at any moment of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from qops_batsim.analysis.results.run import RunInfo, find_run, read_info
from qops_batsim.errors import InputError, did_you_mean, shown
from qops_batsim.files import read_bytes
from qops_batsim.scheduling.decision_events import (
    FORMAT,
    VERSION,
    Admitted,
    Ended,
    Event,
    Killed,
    Late,
    LogHeader,
    Moved,
    Outlived,
    Refused,
    Started,
    Submitted,
    Withdrawn,
)
from qops_batsim.timing import PLAN_TOLERANCE


class Running(NamedTuple):
    """A running job: its start and expected end (seconds)."""

    start: float
    end: float


@dataclass
class PlanState:
    """What a scheduler had promised at one moment.

    Attributes
    ----------
    running
        Running jobs by full id.
    waiting
        Promised start of the waiting jobs (seconds; infinite without one) by full id.
    admitted
        Deadline with which each of both was admitted (seconds; infinite without one).
    deadlines
        Deadline that holds now (seconds; infinite without one): later than the admitted
        one for a job that was made late by jobs that outlived their estimates.
    dying
        Running jobs by full id that are to be killed; the same work is among the waiting
        ones under another id.
    kills
        How often jobs were killed, by the id under which they were submitted.
    origins
        That id, by each id under which a job is run again.
    """

    running: dict[str, Running] = field(default_factory=dict)
    waiting: dict[str, float] = field(default_factory=dict)
    admitted: dict[str, float] = field(default_factory=dict)
    deadlines: dict[str, float] = field(default_factory=dict)
    dying: dict[str, Running] = field(default_factory=dict)
    kills: dict[str, int] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def origin(self, job_id: str) -> str:
        """Return the id under which a job was submitted."""
        return self.origins.get(job_id, job_id)

    def apply(self, event: Event) -> None:
        """Change the state as an event did; KeyError if it cannot have. O(moved jobs)."""
        match event:
            case Submitted() | Refused():
                pass
            case Admitted():
                self.waiting[event.job] = or_infinite(event.start)
                self.admitted[event.job] = or_infinite(event.deadline)
                self.deadlines[event.job] = self.admitted[event.job]
            case Moved():
                for job, _, after in event.moves:
                    if job not in self.waiting:
                        raise KeyError(job)
                    self.waiting[job] = or_infinite(after)
            case Killed():
                self.dying[event.job] = self.running.pop(event.job)
                self.waiting[event.again] = or_infinite(event.start)
                self.admitted[event.again] = self.admitted.pop(event.job)
                self.deadlines[event.again] = self.deadlines.pop(event.job)
                origin = self.origins[event.again] = self.origin(event.job)
                self.kills[origin] = self.kills.get(origin, 0) + 1
            case Withdrawn():
                del self.waiting[event.job], self.admitted[event.job], self.deadlines[event.job]
                self.kills[self.origin(event.job)] -= 1
            case Started():
                del self.waiting[event.job]
                self.running[event.job] = Running(event.date, or_infinite(event.end))
            case Outlived():
                start = self.running[event.job].start
                self.running[event.job] = Running(start, or_infinite(event.end))
            case Late() if event.job in self.waiting:
                self.deadlines[event.job] = or_infinite(event.deadline)
            case Ended() if event.job in self.dying:
                del self.dying[event.job]
            case Ended():
                del self.running[event.job]
                del self.admitted[event.job], self.deadlines[event.job]
            case _:
                raise KeyError(event.job)


class DecisionHistory:
    """A decision log in memory.

    Parameters
    ----------
    name
        The run's prefix, as the user gave it.
    path
        The log, for messages.
    header
        Its first line.
    events
        Its other lines.
    info
        How the run was made, if that is known.

    Raises
    ------
    InputError
        A job is answered that was not submitted.

    Attributes
    ----------
    jobs
        What each job asked for, by full id, in the order of submission.
    origins
        Id under which a job was submitted, by each id under which it was run again.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        header: LogHeader,
        events: list[Event],
        info: RunInfo | None = None,
    ) -> None:
        self.name = name
        self.path = path
        self.header = header
        self.events = events
        self.info = info
        self.jobs: dict[str, Submitted] = {}
        self.origins: dict[str, str] = {}
        self._places: dict[str, int] = {}
        for place, event in enumerate(events):
            if isinstance(event, Submitted):
                self.jobs[event.job] = event
                self._places[event.job] = place
            elif isinstance(event, (Admitted, Refused)) and event.job not in self.jobs:
                raise self._odd(event, event.job)
            elif isinstance(event, Killed):
                self.origins[event.again] = self.origins.get(event.job, event.job)

    @property
    def end(self) -> float:
        """Date of the last event (seconds); 0 without any."""
        return self.events[-1].date if self.events else 0.0

    def find_job(self, name: str) -> str:
        """Return the full id of a job, given that or the part behind ``!``.

        A job that was killed is meant by all its identifiers.

        Raises
        ------
        InputError
            There is no such job, or there are several.
        """
        found = find_job(name, {**self.jobs, **self.origins}, str(self.path))
        return self.origins.get(found, found)

    def state_at(self, date: float, *, before: bool = False) -> PlanState:
        """Return the state after all events up to a date; O(events).

        Parameters
        ----------
        date
            Seconds.
        before
            Leave out the events of the date itself.

        Raises
        ------
        InputError
            The date is outside the run.
        """
        if not 0 <= date <= self.end:
            raise InputError(
                f"{self.path}: there is no state at {date:g} s; a date from 0 to {self.end:g} s, "
                "the end of the run, is expected"
            )
        limit = date - PLAN_TOLERANCE if before else date + PLAN_TOLERANCE
        later = (place for place, event in enumerate(self.events) if event.date > limit)
        return self._replayed(next(later, len(self.events)))

    def state_before(self, job_id: str) -> PlanState:
        """Return the state in which a job (full id) asked for admission; O(events).

        Jobs that ended at its date, and what was moved for that, and jobs that were
        answered before it at its date are in it; nothing else of its date is.
        """
        return self._replayed(self._places[job_id])

    def state_after_admission(self, job_id: str) -> PlanState:
        """Return the state just after a job (full id) was answered; O(events)."""
        end = self._places[job_id] + 1
        while end < len(self.events) and _answers(self.events[end], job_id):
            end += 1
        return self._replayed(end)

    def _replayed(self, end: int) -> PlanState:
        state = PlanState()
        for event in self.events[:end]:
            try:
                state.apply(event)
            except KeyError as error:
                raise self._odd(event, str(error.args[0])) from None
        return state

    def _odd(self, event: Event, job_id: str) -> InputError:
        return InputError(
            f"{self.path}: at {event.date:g} s something happens to job {shown(job_id)} that does "
            "not follow from what was before; an unchanged decision log is expected"
        )


def _answers(event: Event, job_id: str) -> bool:
    if isinstance(event, Moved):
        return event.by == [job_id]
    if isinstance(event, Killed):
        return event.by == job_id
    return isinstance(event, (Admitted, Refused)) and event.job == job_id


def find_job(name: str, known: Mapping[str, object], source: str) -> str:
    """Return the full id of a job, given that or the part behind ``!``.

    Raises
    ------
    InputError
        None of the known jobs has this name, or several have.
    """
    if name in known:
        return name
    found = [job_id for job_id in known if job_id.partition("!")[2] == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{source}: several jobs are called {shown(name)}: {', '.join(found)}")
    names = known if "!" in name else [job_id.partition("!")[2] or job_id for job_id in known]
    # A list of all jobs of a log is no help to anybody.
    nearest = did_you_mean(name, names).partition(" (known:")[0]
    raise InputError(f"{source}: no job {shown(name)}{nearest} (known: {len(known):,} jobs)")


def read_history(run: str | Path) -> DecisionHistory:
    """Read the decision log of a run.

    Parameters
    ----------
    run
        The run's prefix, a directory with one run, or the path of a ``_jobs.csv``.

    Raises
    ------
    InputError
        There is no such run, it has no decision log, or the log cannot be used.
    """
    path, info = _find_log(run)
    if not path.is_file():
        raise InputError(missing_log(path, info))
    header, events = parse_log(read_bytes(path, what="a decision log"), path)
    history = DecisionHistory(str(run), path, header, events, info)
    history.state_at(history.end)  # refuses a log that does not add up
    return history


def has_decision_log(run: str | Path) -> bool:
    """Return whether a run has a decision log; if not, its scheduler can keep none.

    Raises
    ------
    InputError
        There is no such run, or it has no log though its scheduler can keep one.
    """
    path, info = _find_log(run)
    if path.is_file():
        return True
    if info is not None and info.scheduler is not None and keeps_decisions(info.scheduler):
        raise InputError(missing_log(path, info))
    return False


def _find_log(run: str | Path) -> tuple[Path, RunInfo | None]:
    """Return where the log of a run should be, and how the run was made."""
    files = find_run(run)
    prefix = str(files.jobs).removesuffix(".gz").removesuffix("_jobs.csv")
    info = None if files.info is None else read_info(files.info)
    return Path(f"{prefix}_decisions.jsonl"), info


def missing_log(path: Path, info: RunInfo | None) -> str:
    """Return the message that a run has no decision log, and how to make one."""
    scheduler = None if info is None else info.scheduler
    if scheduler is not None and not keeps_decisions(scheduler):
        return (
            f"{path}: no such file: scheduler {scheduler!r} keeps no decision log; a run of one "
            f"that admits jobs ({', '.join(logging_schedulers())}) is expected"
        )
    return (
        f"{path}: no such file; `qops-batsim run {scheduler or 'qops'} --out "
        f"{str(path).removesuffix('_decisions.jsonl')}` makes a decision log"
    )


def logging_schedulers() -> list[str]:
    """Return the names of the schedulers that can keep a decision log."""
    from qops_batsim.scheduling.registry import scheduler_names

    return [name for name in scheduler_names() if keeps_decisions(name)]


def keeps_decisions(scheduler: str) -> bool:
    """Return whether a scheduler can keep a decision log; an unknown one cannot."""
    from qops_batsim.scheduling.admission.scheduler import AdmissionScheduler
    from qops_batsim.scheduling.registry import scheduler_class

    try:
        return issubclass(scheduler_class(scheduler), AdmissionScheduler)
    except InputError:
        return False


def parse_log(content: bytes, path: Path) -> tuple[LogHeader, list[Event]]:
    """Read a decision log; O(lines).

    Raises
    ------
    InputError
        A line is damaged, or the log is of another format or version.
    """
    header_line, *lines = content.splitlines() or [b""]
    header = _parse_header(header_line, path)
    decoder = msgspec.json.Decoder(Event)
    events: list[Event] = []
    date = -math.inf
    for number, line in enumerate(lines, start=2):
        try:
            event = decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(
                f"{path}: line {number}: {error}; an event of a decision log is expected"
            ) from None
        if event.date < date:
            raise InputError(
                f"{path}: line {number}: date {event.date:g} after {date:g}; dates that do not "
                "decrease are expected"
            )
        date = event.date
        events.append(event)
    return header, events


def _parse_header(line: bytes, path: Path) -> LogHeader:
    try:
        header = msgspec.json.decode(line, type=LogHeader)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: line 1: {error}; the first line of a decision log is expected"
        ) from None
    if header.format != FORMAT or header.version != VERSION:
        raise InputError(
            f"{path}: line 1: format {shown(header.format)} version {header.version}; "
            f"{FORMAT!r} version {VERSION} is expected"
        )
    return header


def or_infinite(number: float | None) -> float:
    """Return the number, or infinity for None, as the log writes it."""
    return math.inf if number is None else number
