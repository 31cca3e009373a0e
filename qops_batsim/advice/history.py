"""Reading a run's decision log, and what the scheduler's plan was at any moment of it.

A log that cannot be read or does not add up is an InputError that names file and line.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

import msgspec

from qops_batsim.advice.replay import PlanState
from qops_batsim.analysis.results.run_files import RunFiles, RunInfo, find_run
from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError, did_you_mean, shown
from qops_batsim.files import decoded, read_bytes
from qops_batsim.running.run import Run
from qops_batsim.scheduling import decision_events as log
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.registry import scheduler_class, scheduler_names
from qops_batsim.timing import GRID_TOLERANCE, PLAN_TOLERANCE


@dataclass
class DecisionHistory:
    """A decision log in memory."""

    name: str
    """The run's prefix, as the user gave it."""
    path: Path
    """The log, for messages."""
    header: log.LogHeader
    events: list[log.Event]
    info: RunInfo | None = None
    """How the run was made, if that is known."""
    made_by: type[DecisionModule] | None = None
    """The scheduler's class, where the name in the header may not lead to it."""

    def __post_init__(self) -> None:
        self.final = self._replayed(len(self.events))
        self.jobs = {name: job.asked for name, job in self.final.jobs.items()}

    @property
    def end(self) -> float:
        """Date of the last event (seconds); 0 without any."""
        return self.events[-1].date if self.events else 0.0

    @property
    def calendar(self) -> Calendar | None:
        """The dates of the run's seconds, where its workload knew them."""
        return None if self.info is None else self.info.calendar

    def find_job(self, name: str) -> str:
        """Return the id of a job's submission, given that or the part behind ``!``.

        A job that was killed is meant by all its identifiers.
        """
        return self.final.names[find_job(name, self.final.names, str(self.path))].asked.job

    def state_at(self, date: float, *, before: bool = False) -> PlanState:
        """Return the state after all events up to a date (seconds); O(events).

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
        """Return the state in which a job (full id) asked for admission; O(events).

        Jobs that ended at its date, and what was moved for that, and jobs that were
        answered before it at its date are in it; nothing else of its date is.
        """
        return self._replayed(self.events.index(self.jobs[job_id]))

    def state_after_admission(self, job_id: str) -> PlanState:
        """Return the state just after a job (full id) was answered; O(events)."""
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
                    f"{self.path}: at {event.date:g} s something happens to job "
                    f"{shown(str(error.args[0]))} that does not follow from what was before; an "
                    "unchanged decision log is expected"
                ) from None
        return state


def _answers(event: log.Event, job_id: str) -> bool:
    if isinstance(event, log.Moved):
        return event.by == [job_id]
    if isinstance(event, log.Killed):
        return event.by == job_id
    return isinstance(event, (log.Admitted, log.Refused)) and event.job == job_id


def find_job(name: str, known: Mapping[str, object], source: str) -> str:
    """Return the full id of a job of ``source``, given that or the part behind ``!``."""
    if name in known:
        return name
    found = [job_id for job_id in known if job_id.partition("!")[2] == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{source}: several jobs are called {shown(name)}: {', '.join(found)}")
    names = known if "!" in name else [job_id.partition("!")[2] or job_id for job_id in known]
    # A list of all jobs of a log would be too long to help.
    nearest = did_you_mean(name, names).partition(" (known:")[0]
    raise InputError(f"{source}: no job {shown(name)}{nearest} (known: {len(known):,} jobs)")


def read_history(run: str | PathLike[str]) -> DecisionHistory:
    """Read the decision log of a run, given that, its prefix, directory or ``_jobs.csv``."""
    return _history(run, find_run(fspath(run)))


def read_history_if_kept(run: str | PathLike[str]) -> DecisionHistory | None:
    """Read the decision log of a run likewise; None if its scheduler can keep none."""
    files = find_run(fspath(run))
    scheduler = None if files.info is None else files.info.scheduler
    if files.decisions is None and (scheduler is None or not keeps_decisions(scheduler)):
        return None
    return _history(run, files)


def _history(run: str | PathLike[str], files: RunFiles) -> DecisionHistory:
    if files.decisions is None:
        raise InputError(_missing_log(files))
    header, events = parse_log(read_bytes(files.decisions, what="a decision log"), files.decisions)
    files.check_unchanged()
    made_by = type(run.module) if isinstance(run, Run) else None
    return DecisionHistory(fspath(run), files.decisions, header, events, files.info, made_by)


def _missing_log(files: RunFiles) -> str:
    path = f"{files.prefix}_decisions.jsonl"
    scheduler = None if files.info is None else files.info.scheduler
    if scheduler is not None and not keeps_decisions(scheduler):
        return (
            f"{path}: no such file: scheduler {scheduler!r} keeps no decision log; a run of one "
            f"that admits jobs ({', '.join(logging_schedulers())}) is expected"
        )
    return (
        f"{path}: no such file; `qops-batsim run {scheduler or 'qops'} --out {files.prefix}` "
        "makes a decision log"
    )


def logging_schedulers() -> list[str]:
    """Return the names of the registered schedulers that can keep a decision log."""
    return [name for name in scheduler_names() if keeps_decisions(name)]


def keeps_decisions(scheduler: str) -> bool:
    """Return whether a scheduler can keep a decision log; an unknown one cannot."""
    try:
        return scheduler_class(scheduler).keeps_decisions
    except InputError:
        return False


_headers, _events = msgspec.json.Decoder(log.LogHeader), msgspec.json.Decoder(log.Event)


def parse_log(content: bytes, path: Path) -> tuple[log.LogHeader, list[log.Event]]:
    """Read a decision log; O(lines)."""
    # Line by line: a list of all of them could be far larger than the log.
    lines = io.BytesIO(content)
    header_line = lines.readline()
    header = _parse_header(header_line, path)
    events: list[log.Event] = []
    date = -math.inf
    for number, line in enumerate(lines, start=2):
        event = decoded(line, _events, f"{path}: line {number}", "an event of a decision log")
        # A decision may be dated a microsecond before what it answers.
        if event.date < date - GRID_TOLERANCE:
            raise InputError(
                f"{path}: line {number}: date {event.date:g} after {date:g}; dates that do not "
                "decrease are expected"
            )
        date = max(date, event.date)
        events.append(event)
    return header, events


def _parse_header(line: bytes, path: Path) -> log.LogHeader:
    header = decoded(line, _headers, f"{path}: line 1", "the first line of a decision log")
    if header.format != log.FORMAT or header.version != log.VERSION:
        raise InputError(
            f"{path}: line 1: format {shown(header.format)} version {header.version}; "
            f"{log.FORMAT!r} version {log.VERSION} is expected"
        )
    return header


def or_infinite(number: float | None) -> float:
    """Return the number, or infinity for None, as the log writes it."""
    return math.inf if number is None else number
