"""Slurm's two passes over the waiting jobs, and the priorities between them.

What is done follows slurmctld 22.05: ``job_scheduler.c`` (main pass), ``backfill.c``,
``priority_multifactor.c`` and, for the hosts, ``job_test.c`` of its select plug-ins.
"""

from __future__ import annotations

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import Jobs, Words
from qops_batsim.scheduling.core.columns import ARRIVALS, DEADLINES, ESTIMATES
from qops_batsim.scheduling.host_words import bit_count, has_host
from qops_batsim.scheduling.profile import end_of
from qops_batsim.scheduling.slurm.book import (
    ASKED,
    BACKFILL,
    CANCELLED,
    CHANGED,
    FRACTION,
    GONE,
    JOBS,
    JOBS_PER_USER,
    LATE,
    PROCESSORS,
    PROCESSORS_PER_USER,
    RECORDS,
    RUNNING,
    STARTED,
    TICK,
    USERS,
    WAITED,
    WAITING,
    Book,
    Rules,
)
from qops_batsim.scheduling.slurm.fair_share import charge, fade, fade_often, set_factors
from qops_batsim.timing import PLAN_TOLERANCE

LONGEST = 365 * 86_400.0
"""Requested time of a job that tells none (seconds), as in Slurm."""

FIRST_WINDOW = 30.0
"""Running jobs that end within so many seconds count as ending together; each time twice as many
(``bf_window_linear`` is not set)."""

MANY = 1000
"""More periods than these, in which nothing else happens, are not gone through one by one."""

NO_JOB = -1
"""In place of a slot, where a job has left the line."""


@kernel
def decide_slurm(now: float, rules: Rules, jobs: Jobs, book: Book) -> float:
    """Start and cancel jobs; return when to call again (seconds), infinite if nothing is due.

    ``book.gone`` holds the slots of jobs that have ended. Who carries the decisions out counts them
    as none. Slurm's clock has whole seconds: plans and deadlines are counted from the last one.
    O(tests × map × words).
    """
    counts, dates, second = book.counts, book.dates, np.floor(now + PLAN_TOLERANCE)
    dates[FRACTION] = max(now - second, 0.0)
    calculate_priorities(now, rules, jobs, book)
    for index in range(counts[GONE]):
        leave(second, rules, jobs, book, book.gone[index])
    counts[GONE] = 0
    if dates[LATE] <= now + PLAN_TOLERANCE:
        counts[CHANGED], dates[LATE] = 1, np.inf
    if counts[CHANGED] and counts[WAITING]:
        main_pass(second, rules, jobs, book)
        close_up(book)
    date = np.inf
    if counts[CHANGED] and counts[WAITING]:
        date = backfill_date(now, rules, book)
        if date <= now + PLAN_TOLERANCE:
            dates[BACKFILL], counts[CHANGED], date = date, 0, np.inf
            backfill_pass(second, rules, jobs, book)
            close_up(book)
    counts[WAITED] = counts[WAITING] > 0
    return call_date(now, date, rules, jobs, book)


@kernel
def backfill_date(now: float, rules: Rules, book: Book) -> float:
    """Return when the next backfill pass is due. O(1).

    As long as jobs wait, one follows the other; else the next job does not wait for it.
    """
    last = book.dates[BACKFILL]
    if now + PLAN_TOLERANCE < last + rules.interval:
        return float(last + rules.interval)
    if not book.counts[WAITED] or last == -np.inf:
        return now
    steps = np.ceil((now - PLAN_TOLERANCE - last) / rules.interval)
    return float(last + steps * rules.interval)


@kernel
def call_date(now: float, date: float, rules: Rules, jobs: Jobs, book: Book) -> float:
    """Return the first date at which something is due, unless it was asked for already. O(line)."""
    counts, dates, numbers = book.counts, book.dates, jobs.numbers
    if counts[WAITING]:
        if rules.weight_age > 0 or rules.weight_fairshare > 0:
            date = min(date, dates[TICK])
        if rules.cancels:
            latest = np.inf
            for place in range(counts[WAITING]):
                slot = book.line[place]
                latest = min(latest, numbers[DEADLINES, slot] - requested(jobs, slot))
            dates[LATE] = np.inf
            if latest < np.inf:
                base = max(dates[BACKFILL], now)
                steps = np.floor(max(latest - base, 0.0) / rules.interval) + 1
                dates[LATE] = base + steps * rules.interval
            date = min(date, dates[LATE])
    if date == np.inf or (now + PLAN_TOLERANCE < dates[ASKED] <= date):
        return np.inf
    dates[ASKED] = date
    return date


@kernel
def requested(jobs: Jobs, slot: int) -> float:
    """Return the time a job asks for (seconds). O(1)."""
    return float(min(jobs.numbers[ESTIMATES, slot], LONGEST))


# Priorities


@kernel
def arrive(rules: Rules, jobs: Jobs, book: Book, slot: int) -> None:
    """Let a new job wait, or cancel it if it cannot meet its deadline or limits. O(line)."""
    counts, now = book.counts, np.floor(jobs.numbers[ARRIVALS, slot] + PLAN_TOLERANCE)
    counts[USERS] = max(counts[USERS], book.users[slot] + 1)
    book.priorities[slot] = priority(0.0, rules, book, slot)
    book.line[counts[WAITING]] = slot
    if is_late(now, rules, jobs, slot) or jobs.processors[slot] > most_allowed(rules, book, slot):
        cancel(now, book, counts[WAITING])
        return
    counts[WAITING] += 1
    counts[CHANGED] = 1
    move_up(book, counts[WAITING] - 1)


@kernel
def priority(age: float, rules: Rules, book: Book, slot: int) -> float:
    """Return the priority of a job that has waited for a time (seconds), a whole number. O(1)."""
    found = book.base[slot] + rules.weight_age * min(1.0, max(0.0, age) / rules.max_age)
    found += rules.weight_fairshare * book.factors[book.users[slot]]
    return float(max(1.0, np.floor(found)))


@kernel
def move_up(book: Book, place: int) -> None:
    """Move a job of the line before all of lower priority; equal ones are in order of arrival."""
    line, priorities = book.line, book.priorities
    slot = line[place]
    while place > 0:
        other = line[place - 1]
        if priorities[other] > priorities[slot] or (
            priorities[other] == priorities[slot] and other < slot
        ):
            break
        line[place] = other
        place -= 1
    line[place] = slot


@kernel
def calculate_priorities(now: float, rules: Rules, jobs: Jobs, book: Book) -> None:
    """Let usage fade and calculate the priorities anew, at each date of that until now."""
    dates, counts = book.dates, book.counts
    if dates[TICK] > now + PLAN_TOLERANCE or not (rules.weight_age or rules.weight_fairshare):
        return
    while dates[TICK] <= now + PLAN_TOLERANCE:
        since = dates[TICK] - rules.calc_period
        if not counts[RUNNING] or rules.weight_fairshare == 0:
            # Nothing is used meanwhile: the periods until now are as one.
            steps = np.floor((now + PLAN_TOLERANCE - dates[TICK]) / rules.calc_period)
            dates[TICK] += steps * rules.calc_period
        if rules.weight_fairshare > 0 and dates[TICK] > 0:
            fade(rules, jobs.processors, book, max(since, 0.0), dates[TICK])
        dates[TICK] += rules.calc_period
        periods = np.floor((now + PLAN_TOLERANCE - dates[TICK]) / rules.calc_period)
        if periods > MANY and dates[TICK] > rules.calc_period:
            dates[TICK] += periods * rules.calc_period
            fade_often(rules, jobs.processors, book, periods, dates[TICK] - rules.calc_period)
    if rules.weight_fairshare > 0:
        set_factors(book)
    tick = dates[TICK] - rules.calc_period
    for place in range(counts[WAITING]):
        slot = book.line[place]
        book.priorities[slot] = priority(tick - jobs.numbers[ARRIVALS, slot], rules, book, slot)
    for place in range(counts[WAITING]):
        move_up(book, place)
    counts[CHANGED] = 1


# Limits and deadlines


@kernel
def is_late(now: float, rules: Rules, jobs: Jobs, slot: int) -> bool:
    """Tell whether a job that started now could miss its deadline, by the time it asks for."""
    end = now + requested(jobs, slot) - PLAN_TOLERANCE
    return bool(rules.cancels and jobs.numbers[DEADLINES, slot] < end)


@kernel
def most_allowed(rules: Rules, book: Book, slot: int) -> float:
    """Return how many processors a job may use by the limits of its user and QOS. O(1)."""
    limits, most = rules.limits, np.inf
    for row in (book.qos[slot], len(limits) - 1):
        most = min(most, limits[row, PROCESSORS_PER_USER], limits[row, PROCESSORS])
    return most


@kernel
def is_over_jobs(rules: Rules, book: Book, slot: int) -> bool:
    """Tell whether as many jobs run as the job's user or QOS may have. O(1)."""
    limits, user = rules.limits, book.users[slot]
    for row in (book.qos[slot], len(limits) - 1):
        if (
            book.user_jobs[row, user] >= limits[row, JOBS_PER_USER]
            or book.qos_jobs[row] >= limits[row, JOBS]
        ):
            return True
    return False


@kernel
def is_over_processors(rules: Rules, jobs: Jobs, book: Book, slot: int) -> bool:
    """Tell whether the job's user or QOS would use more processors than it may. O(1)."""
    limits, user, needed = rules.limits, book.users[slot], jobs.processors[slot]
    for row in (book.qos[slot], len(limits) - 1):
        if (
            book.user_processors[row, user] + needed > limits[row, PROCESSORS_PER_USER]
            or book.qos_processors[row] + needed > limits[row, PROCESSORS]
        ):
            return True
    return False


@kernel
def count_running(jobs: Jobs, book: Book, slot: int, sign: int) -> None:
    """Count a job among those that run, or no more. O(1)."""
    user, needed = book.users[slot], sign * jobs.processors[slot]
    for row in (book.qos[slot], len(book.qos_jobs) - 1):
        book.user_jobs[row, user] += sign
        book.user_processors[row, user] += needed
        book.qos_jobs[row] += sign
        book.qos_processors[row] += needed


# What jobs do


@kernel
def start_chosen(now: float, jobs: Jobs, book: Book, place: int) -> None:
    """Start the job in a place of the line on the chosen hosts. O(running + words)."""
    counts, places, slot = book.counts, book.run_places, book.line[place]
    free_place, end = places[counts[RUNNING]], end_of(now, requested(jobs, slot))
    index = counts[RUNNING]
    while index > 0:
        other = places[index - 1]
        if book.run_ends[other] < end or (
            book.run_ends[other] == end and book.run_slots[other] < slot
        ):
            break
        places[index] = other
        index -= 1
    places[index] = free_place
    counts[RUNNING] += 1
    book.run_slots[free_place], book.run_ends[free_place] = slot, end
    book.run_starts[free_place] = now
    for word in range(len(book.free)):
        book.run_hosts[free_place, word] = book.chosen[word]
        book.free[word] &= ~book.chosen[word]
    count_running(jobs, book, slot, 1)
    book.started[counts[STARTED]] = free_place
    counts[STARTED] += 1
    book.line[place] = NO_JOB


@kernel
def leave(now: float, rules: Rules, jobs: Jobs, book: Book, slot: int) -> None:
    """Take a job that has ended off its hosts. O(running + words)."""
    counts, places = book.counts, book.run_places
    index = 0
    while index < counts[RUNNING] and book.run_slots[places[index]] != slot:
        index += 1
    if index == counts[RUNNING]:
        return
    place = places[index]
    if rules.weight_fairshare > 0:
        charge(rules, jobs.processors, book, place, now)
    for word in range(len(book.free)):
        book.free[word] |= book.run_hosts[place, word] & book.present[word]
    for later in range(index + 1, counts[RUNNING]):
        places[later - 1] = places[later]
    counts[RUNNING] -= 1
    places[counts[RUNNING]] = place
    count_running(jobs, book, slot, -1)
    counts[CHANGED] = 1


@kernel
def cancel(now: float, book: Book, place: int) -> None:
    """Cancel the job in a place of the line. O(1)."""
    book.cancel_dates[book.line[place]] = now
    book.cancelled[book.counts[CANCELLED]] = book.line[place]
    book.counts[CANCELLED] += 1
    book.line[place] = NO_JOB


@kernel
def close_up(book: Book) -> None:
    """Close the line up where jobs have left it. O(line)."""
    kept = 0
    for place in range(book.counts[WAITING]):
        if book.line[place] != NO_JOB:
            book.line[kept] = book.line[place]
            kept += 1
    book.counts[WAITING] = kept


# Hosts


@kernel
def copy_hosts(hosts: Words, to: Words) -> None:
    """Make a set the same as another one. O(words)."""
    for word in range(len(hosts)):
        to[word] = hosts[word]


@kernel
def meet(one: Words, other: Words, to: Words) -> None:
    """Make a set that of the hosts in both of two sets. O(words)."""
    for word in range(len(to)):
        to[word] = one[word] & other[word]


@kernel
def choose(hosts: Words, wanted: int, book: Book) -> None:
    """Choose so many hosts of a set that has them, best fit of neighbours. O(hosts × intervals).

    The shortest interval that is long enough, else the longest, and again for the rest.
    """
    left, chosen, end = book.left, book.chosen, 64 * len(hosts)
    for word in range(len(hosts)):
        left[word], chosen[word] = hosts[word], 0
    while wanted > 0:
        best, best_length, host = 0, 0, 0
        while host < end:
            if host % 64 == 0 and left[host // 64] == 0:
                host += 64
                continue
            if not has_host(left, host):
                host += 1
                continue
            first = host
            while host < end and has_host(left, host):
                host += 1
            length = host - first
            if (
                best_length == 0
                or (length >= wanted and (best_length < wanted or length < best_length))
                or (length < wanted and length > best_length)
            ):
                best, best_length = first, length
        for host in range(best, best + min(wanted, best_length)):
            bit = np.uint64(1) << np.uint64(host % 64)
            chosen[host // 64] |= bit
            left[host // 64] &= ~bit
        wanted -= min(wanted, best_length)


@kernel
def has_more(next_hosts: Words, hosts: Words) -> bool:
    """Tell whether a set has a host that another one does not have. O(words)."""
    for word in range(len(hosts)):  # noqa: SIM110 - any() would make a generator
        if next_hosts[word] & ~hosts[word]:
            return True
    return False


@kernel
def main_pass(now: float, rules: Rules, jobs: Jobs, book: Book) -> None:
    """Start jobs in order of priority until one does not fit; cancel those that are late."""
    for place in range(book.counts[WAITING]):
        slot = book.line[place]
        needed = jobs.processors[slot]
        if is_late(now, rules, jobs, slot):
            cancel(now, book, place)
            continue
        if is_over_jobs(rules, book, slot):
            continue
        copy_hosts(book.free, book.trial)
        leave_windows(now, now + requested(jobs, slot), book)
        if needed > bit_count(book.trial):
            return
        if not is_over_processors(rules, jobs, book, slot):
            choose(book.trial, needed, book)
            start_chosen(now, jobs, book, place)


@kernel
def backfill_pass(now: float, rules: Rules, jobs: Jobs, book: Book) -> None:
    """Plan jobs in order of priority; start those whose turn is now, keep hosts for the others."""
    begin_map(now, rules, book)
    tests = 0
    for place in range(book.counts[WAITING]):
        if tests >= rules.max_job_test:
            return
        slot = book.line[place]
        if is_over_jobs(rules, book, slot):
            continue
        if is_late(now, rules, jobs, slot):
            cancel(now, book, place)
            continue
        start, is_tested = planned_start(now, rules, jobs, book, slot)
        tests += is_tested
        if start == np.inf or is_over_processors(rules, jobs, book, slot):
            continue
        if start <= now:
            start_chosen(now, jobs, book, place)
        elif book.counts[RECORDS] + 2 <= len(book.map_begins):
            end = down(start + requested(jobs, slot), rules.resolution)
            keep_for(down(start, rules.resolution), end, rules, book)


@kernel
def down(date: float, resolution: float) -> float:
    """Return a date in whole resolutions, not later. O(1)."""
    return float(np.floor((date + PLAN_TOLERANCE) / resolution) * resolution)


@kernel
def begin_map(now: float, rules: Rules, book: Book) -> None:
    """Begin with a map in which nothing is kept for anybody. O(words)."""
    book.map_begins[0] = down(now, rules.resolution)
    book.map_ends[0] = down(now + rules.window, rules.resolution)
    book.map_next[0] = 0
    copy_hosts(book.present, book.map_hosts[0])
    book.counts[RECORDS] = 1


@kernel
def planned_start(
    now: float, rules: Rules, jobs: Jobs, book: Book, slot: int
) -> tuple[float, bool]:
    """Return when a job can start on hosts that are kept for no other, and whether that was tried.

    Its hosts are chosen. Infinite: not within the window. O(map² × words).
    """
    needed, duration, trial = jobs.processors[slot], requested(jobs, slot), book.trial
    later, is_tested = now, False
    while True:
        after = later
        later = hosts_until(after, after + duration, book)
        if bit_count(trial) < needed:
            if later == 0:
                return np.inf, is_tested
            continue
        is_tested = True
        start = max(after, first_date(now, needed, book))
        if start == np.inf:
            if later == 0:
                return np.inf, is_tested
            continue
        if start <= now:
            return start, is_tested
        if later > 0 and start > later:
            continue
        if start > now + rules.window:
            return np.inf, is_tested
        end = down(start + duration, rules.resolution)
        is_kept = overlaps(down(start, rules.resolution), end, book)
        if not is_kept and not sees_maintenance(start, start + duration, book):
            return start, is_tested
        later = start


@kernel
def hosts_until(after: float, end: float, book: Book) -> float:
    """Find the hosts that are kept for nobody between two dates; return when there are others.

    That is 0 if there never are. O(map × words).
    """
    trial, record = book.trial, 0
    copy_hosts(book.present, trial)
    later = leave_windows(after, end, book)
    while True:
        following = book.map_next[record]
        if book.map_ends[record] > after and following and later == 0:
            meet(trial, book.map_hosts[record], book.future)
            if has_more(book.map_hosts[following], book.future):
                later = book.map_ends[record]
        if book.map_ends[record] > after:
            if book.map_begins[record] > end:
                break
            meet(trial, book.map_hosts[record], trial)
        record = following
        if record == 0:
            break
    return later


@kernel
def first_date(now: float, needed: int, book: Book) -> float:
    """Return when so many hosts of the trial are free, and choose them. O(running × words).

    Running jobs that end within a window count as ending with the last of them.
    """
    future, trial, counts = book.future, book.trial, book.counts
    meet(book.free, trial, future)
    if bit_count(future) >= needed:
        choose(future, needed, book)
        return now
    window, until, index = FIRST_WINDOW, 0.0, 0
    while index < counts[RUNNING]:
        last, following = -1, np.inf
        while index < counts[RUNNING]:
            place = book.run_places[index]
            index += 1
            if not shares_hosts(book.run_hosts[place], trial):
                continue
            end = book.run_ends[place]
            if until == 0:
                until = end + FIRST_WINDOW - end % FIRST_WINDOW
            last = place
            for word in range(len(trial)):
                future[word] |= book.run_hosts[place, word] & trial[word]
            following = np.inf
            if index < counts[RUNNING]:
                following = book.run_ends[book.run_places[index]]
            if following > until + window:
                break
        if last < 0:
            return np.inf
        window *= 2
        while index < counts[RUNNING] and following > until + window:
            window *= 2
        if bit_count(future) >= needed:
            choose(future, needed, book)
            end = book.run_ends[last]
            return float(end if end > now else max(end + FIRST_WINDOW, now + 1))
    return np.inf


@kernel
def shares_hosts(one: Words, other: Words) -> bool:
    """Tell whether two sets share a host. O(words)."""
    for word in range(len(one)):  # noqa: SIM110 - any() would make a generator
        if one[word] & other[word]:
            return True
    return False


@kernel
def overlaps(start: float, end: float, book: Book) -> bool:
    """Tell whether a chosen host is kept for another job between two dates. O(map × words)."""
    record = 0
    while True:
        if (
            book.map_ends[record] > start
            and book.map_begins[record] < end
            and has_more(book.chosen, book.map_hosts[record])
        ):
            return True
        record = book.map_next[record]
        if record == 0:
            return False


@kernel
def reaches(start: float, end: float, book: Book, window: int) -> bool:
    """Tell whether what runs from a date to another would see a maintenance window. O(1)."""
    dates = book.window_dates
    end += book.dates[FRACTION] - PLAN_TOLERANCE
    return bool(start < dates[window, 1] and end > dates[window, 0])


@kernel
def sees_maintenance(start: float, end: float, book: Book) -> bool:
    """Tell whether a chosen host has maintenance between two dates. O(windows × words)."""
    for window in range(len(book.window_dates)):
        if reaches(start, end, book, window) and shares_hosts(
            book.window_hosts[window], book.chosen
        ):
            return True
    return False


@kernel
def leave_windows(start: float, end: float, book: Book) -> float:
    """Take the hosts out of the trial that have maintenance between two dates.

    Returned is when the first of it is over, 0 if there is none. O(windows × words).
    """
    later = 0.0
    for window in range(len(book.window_dates)):
        if reaches(start, end, book, window):
            over = np.ceil(book.window_dates[window, 1])
            later = over if later == 0 else min(later, over)
            for word in range(len(book.trial)):
                book.trial[word] &= ~book.window_hosts[window, word]
    return later


@kernel
def split_map(record: int, date: float, book: Book) -> None:
    """Let a record of the map end at a date inside it, and another one go on. O(words)."""
    new = book.counts[RECORDS]
    book.counts[RECORDS] += 1
    book.map_begins[new], book.map_ends[new] = date, book.map_ends[record]
    copy_hosts(book.map_hosts[record], book.map_hosts[new])
    book.map_next[new], book.map_next[record] = book.map_next[record], new
    book.map_ends[record] = date


@kernel
def keep_for(start: float, end: float, rules: Rules, book: Book) -> None:
    """Keep the chosen hosts between two dates, for at least one resolution. O(map × words)."""
    start = max(start, book.map_begins[0])
    end = max(end, start + rules.resolution)
    record = 0
    while book.map_ends[record] < start:
        record = book.map_next[record]
        if record == 0:
            return
    if book.map_ends[record] > start:
        split_map(record, start, book)
    record = book.map_next[record]
    while record:
        if end < book.map_ends[record]:
            split_map(record, end, book)
        for word in range(len(book.chosen)):
            book.map_hosts[record, word] &= ~book.chosen[word]
        if book.map_ends[record] == end:
            return
        record = book.map_next[record]
