"""Runs of jobs in accounting: restarts, stretches of resized jobs, waiting tasks, parts."""

from __future__ import annotations

import math

import numpy as np

from qops_batsim.errors import InputError
from qops_batsim.limits import MAX_JOBS
from qops_batsim.tables import Words
from qops_batsim.workload.accounting.amounts import merge_requests
from qops_batsim.workload.accounting.choices import Choices
from qops_batsim.workload.accounting.rows import Rows, repeated_keys
from qops_batsim.workload.accounting.states import OTHERS, STATES


def settle(rows: Rows, choices: Choices) -> None:
    """Merge rows about one run of a job, and sort the runs of each job by date.

    What a later row tells again is left out: the same run, or that the job waited. The stretches
    of a resized job become one row. Where its last row counts, a job has the names of that.
    """
    several = repeated_keys(rows.keys)
    states = rows.states.texts() if several else []
    unclear = rows.unclear.tolist()
    submitted = rows.submitted.tolist()
    started = rows.started.tolist()
    is_open = np.isnan(rows.ended).tolist()
    count = len(rows.ids)

    order = np.arange(count)
    last = np.arange(count)
    again = np.zeros(count, np.bool_)
    revoked = np.zeros(count, np.bool_)
    resized = np.zeros(count, np.bool_)
    lost = 0.0
    for places in several.values():
        # By submission; of one, stretches by start, others as in the file.
        runs = places
        if not any(unclear[at] for at in places):
            is_resized = any(states[at] == "RESIZING" for at in places)
            starts = {at: started[at] if is_resized else 0.0 for at in places}
            runs = sorted(places, key=lambda at: (_or_last(submitted[at]), _or_last(starts[at])))
        order[places] = runs

        own = [at for at in runs if states[at] != "REVOKED"]
        if own:
            revoked[[at for at in runs if states[at] == "REVOKED"]] = True
            runs = own

        # Of rows about one run the last counts, but for one that does not know its end.
        of_run: dict[tuple[float, float], int] = {}
        for at in runs:
            run = submitted[at], started[at]
            known = of_run.get(run, at)
            of_run[run] = known if is_open[at] and not is_open[known] else at
        kept = [at for at in runs if started[at] == started[at] and at in of_run.values()]
        kept += [at for at in runs[-1:] if started[at] != started[at]]
        again[[at for at in runs if at not in kept]] = True

        stretches: list[int] = []
        for at, following in zip(kept, [*kept[1:], -1], strict=True):
            stretches.append(at)
            same = following >= 0 and submitted[following] == submitted[at]
            if states[at] != "RESIZING" or not same:
                if len(stretches) > 1:
                    lost += _join(rows, stretches)
                    resized[stretches[:-1]] = True
                stretches = []
        last[places] = kept[-1]

    rows.leave_out("run_elsewhere", "state REVOKED (another row tells the job)", revoked)
    rows.leave_out("told_again", "rows whose job and run another row tells again", again)
    if resized.any():
        told = f"resized jobs, each with the most {choices.unit} that it had"
        told += f" ({lost / 3600:.3g} {choices.unit[:-1]}-hours more than they used)"
        rows.tell("resized", told, rows.lines[sorted(rows.spare)].tolist(), "merge")
    if choices.restarts == "last":
        rows.texts = {name: column.at(last) for name, column in rows.texts.items()}
    gone = again | revoked | resized
    if gone.any() or (order[1:] < order[:-1]).any():
        rows.take(order[~gone[order]])


def _or_last(date: float) -> float:
    """Return a date to sort by: unknown ones are last."""
    return date if date == date else math.inf


def _join(rows: Rows, stretches: list[int]) -> float:
    """Merge the rows of a resized job into the last one, with the job's largest size; return the
    processor-seconds that this counts too many.
    """
    last = stretches[-1]
    rows.run_times[last] = rows.own_times[stretches].sum()
    rows.suspended[last] = rows.suspended[stretches].sum()
    had = rows.processors[stretches]
    if rows.asked is not None:
        rows.asked.which[last] = rows.asked.which[stretches[int(np.nan_to_num(had).argmax())]]
    for column in (rows.processors, *rows.numbers.values()):
        column[last] = np.fmax.reduce(column[stretches])

    begins = rows.started[stretches]
    spare = np.column_stack([begins, [*begins[1:], rows.ended[last]], rows.processors[last] - had])
    rows.spare[last] = [(begin, end, width) for begin, end, width in spare.tolist() if width > 0]
    rows.started[last] = begins[0]
    return sum((end - begin) * width for begin, end, width in rows.spare[last] if end > begin)


def keep_restarts(rows: Rows, choice: str) -> None:
    """Keep the ``last`` run of each restarted job, or make ``each`` run a job of its own."""
    if len(set(rows.ids)) == len(rows.ids):
        return
    last = {job: place for place, job in enumerate(rows.ids)}

    if choice == "last":
        gone = np.ones(len(rows.ids), np.bool_)
        gone[list(last.values())] = False
        rows.leave_out("earlier_runs", "runs before a restart (a later row has the id)", gone)
        rows.take(~gone)
        return

    seen: dict[str, int] = {}
    for place, job in enumerate(rows.ids):
        count = seen.get(job, -1) + 1
        seen[job] = count
        if count:
            rows.ids[place] = f"{job}r{count}"
            if place in rows.groups:
                rows.groups[place] += f"r{count}"


def select(rows: Rows, choices: Choices) -> Rows:
    """Leave out jobs in states that were not chosen, and jobs that were cancelled while they
    waited; return the latter.
    """
    gone = np.zeros(len(rows.ids), np.bool_)
    for state in STATES:
        if state not in choices.states:
            what = OTHERS.get(state, "by choice")
            other = rows.states.where(state.__eq__)
            rows.leave_out(f"state_{state.lower()}", f"state {state} ({what})", other)
            gone |= other

    ran = (rows.run_times > 0) | (rows.ended > rows.started)
    cancelled = rows.states.where("CANCELLED".__eq__) & ~ran & ~gone
    what = "state CANCELLED (before they started)"
    rows.leave_out("cancelled_before_start", what, cancelled)
    gone |= cancelled

    unlisted = np.zeros(len(rows.ids), np.bool_)
    unlisted[[place for place, tasks in rows.tasks.items() if tasks is None]] = True
    waited = rows.part(cancelled & ~unlisted)
    what = "tasks of arrays that are not listed in full"
    rows.leave_out("unlisted_tasks", what, unlisted & ~gone)
    rows.take(~(gone | unlisted))
    if waited.tasks:
        _expand(waited)
    if rows.tasks:
        _expand(rows)
        keep_restarts(rows, choices.restarts)  # A waiting task may have a row of its own.
    return waited


def _expand(rows: Rows) -> None:
    """Split each row of waiting array tasks into one row for each task."""
    waiting = {place: tasks or [] for place, tasks in rows.tasks.items()}
    copies = np.ones(len(rows.ids), np.int64)
    copies[list(waiting)] = [*map(len, waiting.values())]
    if copies.sum() > MAX_JOBS:
        raise InputError(
            f"the lists of waiting tasks name {copies.sum()} tasks; up to {MAX_JOBS} are accepted"
        )

    begins = np.cumsum(copies) - copies
    rows.take(np.repeat(np.arange(len(rows.ids)), copies))
    rows.tasks = {}
    for place, tasks in waiting.items():
        for at, task in enumerate(tasks, int(begins[place])):
            rows.ids[at] = f"{rows.ids[at].partition('_')[0]}_{task}"


def merge_parts(rows: Rows) -> None:
    """Merge the parts of each heterogeneous job, which start together, into one row."""
    if not rows.groups:
        return
    places = np.array(sorted(rows.groups))
    jobs = Words.of([rows.groups[place] for place in places.tolist()])
    order = np.argsort(jobs.which, kind="stable")
    places = places[order]
    begins = np.flatnonzero(np.diff(jobs.which[order], prepend=-1))
    first = places[begins]
    for job, place in zip(jobs.words, first.tolist(), strict=True):
        rows.ids[place] = job

    for column, choose in (
        (rows.processors, np.add),
        (rows.submitted, np.fmin),
        (rows.started, np.fmin),
        (rows.ended, np.fmax),
        (rows.run_times, np.fmax),
        (rows.limits, np.fmax),
        *((column, np.add) for column in rows.numbers.values()),
    ):
        column[first] = choose.reduceat(column[places], begins)
    if rows.asked is not None:
        groups = [group.tolist() for group in np.split(places, begins[1:])]
        rows.asked = merge_requests(rows.asked, groups)
    gone = np.zeros(len(rows.ids), np.bool_)
    gone[places] = True
    gone[first] = False
    rows.take(~gone)
    rows.groups = {}
