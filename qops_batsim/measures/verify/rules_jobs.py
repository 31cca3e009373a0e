"""Rules about ``_jobs.csv`` alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from qops_batsim.jobs import COMPLETED_SUCCESSFULLY, COMPLETED_WALLTIME_REACHED
from qops_batsim.measures.results.occupancy import occupancy
from qops_batsim.measures.results.result_tables import (
    DATE_TOLERANCE,
    DURATIONS,
    EXECUTION_COLUMNS,
    ROUNDING,
    Booleans,
    Integers,
    differ,
    lasting,
    tolerance,
)
from qops_batsim.measures.results.series import running_latest
from qops_batsim.measures.verify.rule import (
    CANCELLATIONS,
    NO_SHARING,
    OUTAGES,
    WHOLE_HOSTS,
    Violation,
    of_job,
    rule,
    violations,
    wrong_starts,
)
from qops_batsim.measures.verify.subject import Subject, stays_by_host
from qops_batsim.workload.workload_model import Workload

_HOSTS = "allocated_resources"


@rule()
def unique_jobs(subject: Subject) -> Iterator[Violation]:
    """Each job identifier appears in only one row of ``_jobs.csv``."""
    return violations(subject, ~subject.job_numbers.first, "has more than one row")


@rule()
def rejected_empty(subject: Subject) -> Iterator[Violation]:
    """A rejected job has no dates and no hosts."""
    result = subject.result
    filled = {name: ~np.isnan(result.column(name)) for name in EXECUTION_COLUMNS}
    filled[_HOSTS] = ~result.text(_HOSTS).are_empty()
    wrong = ~subject.executed & np.logical_or.reduce(list(filled.values()))
    said = {
        row: ", ".join(name for name, has_value in filled.items() if has_value[row])
        for row in np.flatnonzero(wrong).tolist()
    }
    return violations(subject, wrong, "was rejected, yet has {names}", names=said)


@rule()
def final_state(subject: Subject) -> Iterator[Violation]:
    """The column ``success`` is 1 for jobs in final state ``COMPLETED_SUCCESSFULLY``, and 0 for all
    others.
    """
    success = subject.result.column("success")
    return violations(
        subject,
        (success == 1) != subject.result.ended_as(COMPLETED_SUCCESSFULLY),
        "success is {success:g}, but final_state is {state}",
        success=success,
        state=subject.result.text("final_state"),
    )


@rule()
def start_after_submission(subject: Subject) -> Iterator[Violation]:
    """No job starts before it is submitted."""
    said = "starts at {late:.6f} s, but is submitted at {early:.6f} s"
    return _in_order(subject, "submission_time", "starting_time", said)


@rule()
def finish_after_start(subject: Subject) -> Iterator[Violation]:
    """No job finishes before it starts."""
    said = "finishes at {late:.6f} s, but starts at {early:.6f} s"
    return _in_order(subject, "starting_time", "finish_time", said)


def _in_order(subject: Subject, earlier: str, later: str, message: str) -> Iterator[Violation]:
    early, late = subject.result.columns(earlier, later)
    wrong = subject.executed & (late < early - tolerance(early, late))
    return violations(subject, wrong, message, at="starting_time", early=early, late=late)


def _difference(subject: Subject, column: str) -> Iterator[Violation]:
    later, earlier = DURATIONS[column]
    found, end, begin = subject.result.columns(column, later, earlier)
    expected = end - begin
    wrong = subject.executed & differ(found, expected, end, begin)
    message = f"{column} is {{found:.6f}} s, but {later} - {earlier} is {{expected:.6f}} s"
    return violations(subject, wrong, message, at="starting_time", found=found, expected=expected)


@rule()
def waiting_time(subject: Subject) -> Iterator[Violation]:
    """Waiting time is start − submission."""
    return _difference(subject, "waiting_time")


@rule()
def execution_time(subject: Subject) -> Iterator[Violation]:
    """Execution time is finish − start."""
    return _difference(subject, "execution_time")


@rule()
def turnaround_time(subject: Subject) -> Iterator[Violation]:
    """Turnaround time is finish − submission."""
    return _difference(subject, "turnaround_time")


@rule()
def stretch(subject: Subject) -> Iterator[Violation]:
    """Stretch is turnaround time / execution time."""
    found, turnaround, run_time = subject.result.columns(
        "stretch", "turnaround_time", "execution_time"
    )

    # Compared as a product: a division would blow up the rounding of short run times.
    defined = np.isfinite(found)
    ratio = np.where(defined, found, 0.0)
    slack = DATE_TOLERANCE * (1 + np.abs(ratio)) + 2 * ROUNDING * np.abs(run_time)
    wrong = np.abs(turnaround - ratio * run_time) > slack

    return violations(
        subject,
        np.where(defined, wrong, run_time > DATE_TOLERANCE) & subject.executed,
        "stretch is {found:.6f}, but turnaround time / execution time is "
        "{turnaround:.6f} s / {run_time:.6f} s",
        at="starting_time",
        found=found,
        turnaround=turnaround,
        run_time=run_time,
    )


_WALLTIME = "execution_time", "requested_time", "finish_time"


@rule()
def walltime(subject: Subject) -> Iterator[Violation]:
    """No job runs longer than its walltime."""
    run_time, limit, finish = subject.result.columns(*_WALLTIME)
    late = run_time > limit + tolerance(run_time, limit, finish)
    wrong = subject.executed & (limit >= 0) & late & lasting(run_time)
    message = "runs {run_time:.6f} s, but its walltime is {limit:.6f} s"
    return violations(subject, wrong, message, at="starting_time", run_time=run_time, limit=limit)


@rule()
def walltime_reached(subject: Subject) -> Iterator[Violation]:
    """A job that was killed at its walltime ran no shorter than its walltime."""
    run_time, limit, finish = subject.result.columns(*_WALLTIME)
    early = (limit < 0) | (run_time < limit - tolerance(run_time, limit, finish))
    wrong = early & subject.result.ended_as(COMPLETED_WALLTIME_REACHED)
    has = {
        row: "it has none" if limit[row] < 0 else f"that is {limit[row]:.6f} s"
        for row in np.flatnonzero(wrong).tolist()
    }
    message = "was killed at its walltime after {run_time:.6f} s, but {has}"
    return violations(subject, wrong, message, at="finish_time", run_time=run_time, has=has)


@rule()
def allocation_size(subject: Subject) -> Iterator[Violation]:
    """A job gets exactly as many hosts as it requests processors; for tasks that may share hosts,
    at most.
    """
    requested = subject.result.column("requested_number_of_resources")
    sizes = subject.result.allocation_sizes
    wrong = np.where(_any_size(subject), sizes < 1, sizes != requested)
    wrong = np.where(_of_tasks(subject), (sizes < 1) | (sizes > requested), wrong)
    wrong &= subject.executed
    message = "requests {requested:g} processors, but gets {sizes} hosts"
    return violations(subject, wrong, message, at="starting_time", requested=requested, sizes=sizes)


def _any_size(subject: Subject) -> Booleans:
    """Return which jobs may get more or fewer hosts than they request."""
    flexible: Booleans = np.full(len(subject.executed), subject.any_allocation_size)
    total = {
        (name, key)
        for name, workload in subject.workloads.items()
        for key, profile in workload.profiles.items()
        if profile["type"] != "delay" and _runs_on_any_size(profile, workload)
    }
    if total:
        runs = zip(*map(subject.result.text, ("workload_name", "profile")), strict=True)
        flexible |= np.array([each in total for each in runs], np.bool_)
    return flexible


def _of_tasks(subject: Subject) -> Booleans:
    """Return which jobs ask for tasks, which may share hosts."""
    tasks = np.zeros(len(subject.job_numbers), np.bool_)
    if subject.asks_of_hosts:
        asked = subject.by_number(
            np.array([each is not None and each.parts[0].tasks for each in columns.hosts_asked])
            if columns.hosts_asked is not None
            else np.zeros(len(columns.ids))
            for columns in subject.columns
        )
        tasks = asked > 0  # Of jobs that no workload has it is not known.
    return tasks[subject.job_numbers.owners]


def _runs_on_any_size(profile: Mapping[str, Any], workload: Workload) -> bool:
    """Return whether a profile can run on any number of hosts, since it (or each step of its
    sequence) gives the total amount of work.
    """
    kinds = [profile["type"]]
    if kinds == ["composed"]:
        kinds = [workload.profiles[step]["type"] for step in profile["seq"]]
    return all(kind == "parallel_homogeneous_total" for kind in kinds)


@rule()
def host_range(subject: Subject) -> Iterator[Violation]:
    """Every allocated host exists."""
    result = subject.result
    rows, _, last = result.allocations
    if last.max(initial=0) < result.hosts:
        return iter(())
    highest = np.full(len(subject.executed), -1, dtype=np.int64)
    np.maximum.at(highest, rows, last)
    message = f"runs on host {{highest}}, but the hosts are 0 to {result.hosts - 1}"
    return violations(
        subject, highest >= result.hosts, message, at="starting_time", highest=highest
    )


@rule(OUTAGES)
def hosts_present(subject: Subject) -> Iterator[Violation]:
    """No job starts on a host during an outage of the host; jobs that already run when their hosts
    leave may go on.
    """
    result = subject.result
    start = result.column("starting_time")[result.allocations.rows]
    # What was decided before the news of their leaving may start after it.
    margin = tolerance(start) + subject.grace
    for outage in result.outages:
        during = (start > outage.since + margin) & (start < outage.until - margin)
        back = "for ever" if outage.to is None else f"until {outage.to:.6f} s"
        text = f", which is away from {outage.since:.6f} s on {back}"
        yield from wrong_starts(subject, outage.hosts, during, text)


@rule(CANCELLATIONS)
def cancelled_jobs(subject: Subject) -> Iterator[Violation]:
    """No job starts after its user cancelled it, and no job is recorded as cancelled that its user
    did not cancel.

    What runs when it is cancelled goes on, and a job may start at the very date.
    """
    result = subject.result
    job_numbers = subject.job_numbers
    cancellations = result.cancellations
    said = result.cancelled
    starts, submitted = result.columns("starting_time", "submission_time")
    margins = tolerance(starts) + subject.grace

    for row in np.flatnonzero(job_numbers.rows == job_numbers.owners).tolist():
        name = result.id(row)
        date = cancellations.get(name)
        start = float(starts[row])
        if date is None:
            if name in said:
                yield of_job(name, " is said to have been cancelled, but nobody did that")
        elif submitted[row] <= date and start > date + margins[row]:
            text = f" starts at {start:.6f} s, but was cancelled at {date:.6f} s"
            yield of_job(name, text, time=start)


HOSTS_AT_ONCE = 64
"""Number of hosts whose jobs are compared at a time where several share a host."""


@rule(NO_SHARING, WHOLE_HOSTS)
def exclusive_hosts(subject: Subject) -> Iterator[Violation]:
    """No host runs two jobs at a time."""
    seen: set[tuple[int, int]] = set()
    shared = _shared_hosts(subject)
    for since in range(0, len(shared), HOSTS_AT_ONCE):
        yield from _overlaps(subject, shared[since : since + HOSTS_AT_ONCE], seen)


def _shared_hosts(subject: Subject) -> Integers:
    """Return the hosts on which a job starts before another one ends, even if only because dates
    are rounded.
    """
    result = subject.result
    executed = subject.executed
    start, finish = result.columns("starting_time", "finish_time")
    real = lasting(finish - start)
    if real[executed].all():
        return result.occupancy.shared
    return occupancy(result.allocations, start, subject.ends, np.flatnonzero(executed)).shared


def _overlaps(
    subject: Subject, chosen: Integers, seen: set[tuple[int, int]]
) -> Iterator[Violation]:
    """Yield a violation for each two jobs that overlap in time on one of the ``chosen`` hosts,
    except pairs of rows ``seen`` before.
    """
    rows, hosts, start, finish = stays_by_host(subject.result, chosen)
    # On each host, a job must start after the latest finish among the earlier ones.
    before = running_latest(hosts, finish)[:-1]
    latest = finish[before]
    overlap = (hosts[1:] == hosts[:-1]) & (start[1:] < latest - tolerance(start[1:], latest))

    for place in np.flatnonzero(overlap).tolist():
        pair = (int(rows[before[place]]), int(rows[place + 1]))
        if pair in seen:
            continue  # the same two jobs, on a further host

        seen.add(pair)
        host = int(hosts[place + 1])
        date = float(start[place + 1])
        first, second = map(subject.result.id, pair)
        said = (
            f"host {host} runs job {first!r} until {latest[place]:.6f} s, "
            f"but job {second!r} starts there at {date:.6f} s"
        )
        yield Violation(jobs=(first, second), host=host, time=date, message=said)
