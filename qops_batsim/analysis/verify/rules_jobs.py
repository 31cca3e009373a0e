"""Rules about ``_jobs.csv`` alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qops_batsim.analysis.results.series import running_latest
from qops_batsim.analysis.results.tables import EXECUTION_COLUMNS, Booleans, Floats
from qops_batsim.analysis.verify.rule import (
    DATE_TOLERANCE,
    ROUNDING,
    Rule,
    Subject,
    Violation,
    differ,
    lasting,
    tolerance,
    violations,
)
from qops_batsim.jobs import COMPLETED_SUCCESSFULLY, COMPLETED_WALLTIME_REACHED
from qops_batsim.workload.model import Workload


def unique_jobs(subject: Subject) -> Iterator[Violation]:
    """A job appears once."""
    again = subject.result.jobs["id"].duplicated().to_numpy()
    return violations(subject, "unique-jobs", again, lambda row: "has more than one row")


def rejected_empty(subject: Subject) -> Iterator[Violation]:
    """A rejected job has no dates and no hosts."""
    jobs = subject.result.jobs
    columns = [*EXECUTION_COLUMNS, "allocated_resources"]
    filled = {
        column: (jobs[column].notna() & (jobs[column].astype(str) != "")).to_numpy()
        for column in columns
    }
    rejected = ~subject.result.executed
    wrong: Booleans = rejected & np.logical_or.reduce(list(filled.values()))

    def message(row: int) -> str:
        names = ", ".join(column for column in columns if filled[column][row])
        return f"was rejected, yet has {names}"

    return violations(subject, "rejected-empty", wrong, message)


def final_state(subject: Subject) -> Iterator[Violation]:
    """A job has success 1 if and only if it completed successfully."""
    jobs = subject.result.jobs
    successful = (jobs["final_state"] == COMPLETED_SUCCESSFULLY).to_numpy()
    wrong = (subject.result.column("success") == 1) != successful
    return violations(
        subject,
        "final-state",
        wrong,
        lambda row: (
            f"success is {jobs['success'].iloc[row]:g}, "
            f"but final_state is {jobs['final_state'].iloc[row]}"
        ),
    )


def start_after_submission(subject: Subject) -> Iterator[Violation]:
    """No job starts before it is submitted."""
    start, submitted = _columns(subject, "starting_time", "submission_time")
    wrong = start < submitted - tolerance(start, submitted)
    return violations(
        subject,
        "start-after-submission",
        wrong & subject.result.executed,
        lambda row: f"starts at {start[row]:.6f} s, but is submitted at {submitted[row]:.6f} s",
        dates="starting_time",
    )


def finish_after_start(subject: Subject) -> Iterator[Violation]:
    """No job finishes before it starts."""
    start, finish = _columns(subject, "starting_time", "finish_time")
    wrong = finish < start - tolerance(start, finish)
    return violations(
        subject,
        "finish-after-start",
        wrong & subject.result.executed,
        lambda row: f"finishes at {finish[row]:.6f} s, but starts at {start[row]:.6f} s",
        dates="starting_time",
    )


def _difference(subject: Subject, column: str, later: str, earlier: str) -> Iterator[Violation]:
    found, end, begin = _columns(subject, column, later, earlier)
    expected = end - begin
    wrong = differ(found, expected, end, begin) & subject.result.executed
    return violations(
        subject,
        column.replace("_", "-"),
        wrong,
        lambda row: (
            f"{column} is {found[row]:.6f} s, but {later} - {earlier} is {expected[row]:.6f} s"
        ),
        dates="starting_time",
    )


def waiting_time(subject: Subject) -> Iterator[Violation]:
    """Waiting time is start − submission."""
    return _difference(subject, "waiting_time", "starting_time", "submission_time")


def execution_time(subject: Subject) -> Iterator[Violation]:
    """Execution time is finish − start."""
    return _difference(subject, "execution_time", "finish_time", "starting_time")


def turnaround_time(subject: Subject) -> Iterator[Violation]:
    """Turnaround time is finish − submission."""
    return _difference(subject, "turnaround_time", "finish_time", "submission_time")


def stretch(subject: Subject) -> Iterator[Violation]:
    """Stretch is turnaround time / execution time."""
    found, turnaround, run_time = _columns(subject, "stretch", "turnaround_time", "execution_time")
    # Compared as a product: a division would blow up the rounding of short run times.
    defined = np.isfinite(found)
    ratio = np.where(defined, found, 0.0)
    slack = DATE_TOLERANCE * (1 + np.abs(ratio)) + 2 * ROUNDING * np.abs(run_time)
    wrong = np.abs(turnaround - ratio * run_time) > slack
    wrong = np.where(defined, wrong, run_time > DATE_TOLERANCE) & subject.result.executed
    return violations(
        subject,
        "stretch",
        wrong,
        lambda row: (
            f"stretch is {found[row]:.6f}, but turnaround time / execution time is "
            f"{turnaround[row]:.6f} s / {run_time[row]:.6f} s"
        ),
        dates="starting_time",
    )


def walltime(subject: Subject) -> Iterator[Violation]:
    """No job runs longer than its walltime."""
    run_time, limit = _columns(subject, "execution_time", "requested_time")
    wrong = (limit >= 0) & (run_time > limit + tolerance(run_time, limit))
    return violations(
        subject,
        "walltime",
        wrong & subject.result.executed,
        lambda row: f"runs {run_time[row]:.6f} s, but its walltime is {limit[row]:.6f} s",
        dates="starting_time",
    )


def walltime_reached(subject: Subject) -> Iterator[Violation]:
    """A job that was killed at its walltime ran that long."""
    run_time, limit = _columns(subject, "execution_time", "requested_time")
    killed = (subject.result.jobs["final_state"] == COMPLETED_WALLTIME_REACHED).to_numpy()
    early = (limit < 0) | (run_time < limit - tolerance(run_time, limit))

    def message(row: int) -> str:
        has = "it has none" if limit[row] < 0 else f"that is {limit[row]:.6f} s"
        return f"was killed at its walltime after {run_time[row]:.6f} s, but {has}"

    return violations(subject, "walltime-reached", killed & early, message, dates="finish_time")


def allocation_size(subject: Subject) -> Iterator[Violation]:
    """A job gets exactly the processors that it requests."""
    result = subject.result
    requested = result.column("requested_number_of_resources")
    sizes = result.allocation_sizes
    flexible = _any_size(subject)
    wrong = np.where(flexible, sizes < 1, sizes != requested) & result.executed
    return violations(
        subject,
        "allocation-size",
        wrong,
        lambda row: f"requests {requested[row]:g} processors, but gets {sizes[row]} hosts",
        dates="starting_time",
    )


def _any_size(subject: Subject) -> Booleans:
    """Tell which jobs may get another number of hosts than they request."""
    jobs = subject.result.jobs
    if subject.any_allocation_size:
        return np.ones(len(jobs), dtype=np.bool_)
    flexible = np.zeros(len(jobs), dtype=np.bool_)
    for name, workload in subject.workloads.items():
        total = [key for key in workload.profiles if _divides_its_work(key, workload)]
        flexible |= ((jobs["workload_name"] == name) & jobs["profile"].isin(total)).to_numpy()
    return flexible


def _divides_its_work(name: str, workload: Workload) -> bool:
    """Tell whether Batsim runs a profile on any number of hosts: totals and sequences of them."""
    profile = workload.profiles[name]
    kinds = [profile["type"]]
    if kinds == ["composed"]:
        kinds = [workload.profiles[step]["type"] for step in profile["seq"]]
    return all(kind == "parallel_homogeneous_total" for kind in kinds)


def host_range(subject: Subject) -> Iterator[Violation]:
    """Every allocated host exists."""
    result = subject.result
    rows, _, last = result.allocations
    highest = np.full(len(result.jobs), -1, dtype=np.int64)
    np.maximum.at(highest, rows, last)
    return violations(
        subject,
        "host-range",
        highest >= result.hosts,
        lambda row: f"runs on host {highest[row]}, but the hosts are 0 to {result.hosts - 1}",
        dates="starting_time",
    )


def exclusive_hosts(subject: Subject) -> Iterator[Violation]:
    """No host runs two jobs at a time."""
    result = subject.result
    rows, hosts = result.occupations
    real = result.executed[rows]
    rows, hosts = rows[real], hosts[real]
    start, finish = (result.column(name)[rows] for name in ("starting_time", "finish_time"))
    finish = np.where(lasting(finish - start), finish, start)
    order = np.lexsort((finish, start, hosts))
    rows, hosts, start, finish = rows[order], hosts[order], start[order], finish[order]
    # On each host, a job must start after the latest finish among the earlier ones.
    before = running_latest(hosts, finish)[:-1]
    latest = finish[before]
    overlap = (hosts[1:] == hosts[:-1]) & (start[1:] < latest - tolerance(start[1:], latest))
    places = np.flatnonzero(overlap)
    first, second = rows[before[places]], rows[places + 1]
    names = result.jobs["id"]
    seen: set[tuple[int, int]] = set()
    for a, b, place in zip(first.tolist(), second.tolist(), places.tolist(), strict=True):
        if (a, b) in seen:
            continue  # the same two jobs, on a further host
        seen.add((a, b))
        host, date = int(hosts[place + 1]), float(start[place + 1])
        pair = (names.iloc[a], names.iloc[b])
        yield Violation(
            rule="exclusive-hosts",
            jobs=pair,
            host=host,
            time=date,
            message=(
                f"host {host} runs job {pair[0]!r} until {latest[place]:.6f} s, "
                f"but job {pair[1]!r} starts there at {date:.6f} s"
            ),
        )


def _columns(subject: Subject, *names: str) -> tuple[Floats, ...]:
    return tuple(subject.result.column(name) for name in names)


RULES = (
    Rule("unique-jobs", unique_jobs),
    Rule("rejected-empty", rejected_empty),
    Rule("final-state", final_state),
    Rule("start-after-submission", start_after_submission),
    Rule("finish-after-start", finish_after_start),
    Rule("waiting-time", waiting_time),
    Rule("execution-time", execution_time),
    Rule("turnaround-time", turnaround_time),
    Rule("stretch", stretch),
    Rule("walltime", walltime),
    Rule("walltime-reached", walltime_reached),
    Rule("allocation-size", allocation_size),
    Rule("host-range", host_range),
    Rule(
        "exclusive-hosts",
        exclusive_hosts,
        lambda subject: not subject.compute_sharing,
        "a run without compute sharing",
    ),
)
