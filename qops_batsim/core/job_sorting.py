"""Sorting lists of jobs in place: by arrival, planned start or key, fast where nearly sorted."""

from __future__ import annotations

from qops_batsim.core.job import Job

SHORT = 8
"""Lists up to so many jobs are sorted by insertion."""

MOVES = 6
"""Longer ones are as well if so many moves a job suffice."""

BY_ARRIVAL, BY_START, BY_KEY = range(3)
"""Orders of jobs, the last two with ties by arrival."""


def sort_by_arrival(jobs: list[Job]) -> None:
    """Sort jobs in place by arrival. O(n log n), linear if nearly sorted."""
    if not insertion_sort(jobs, 0, len(jobs), BY_ARRIVAL, MOVES * len(jobs)):
        merge_sort(jobs, 0, len(jobs), list(jobs), BY_ARRIVAL)


def sort_by_start(jobs: list[Job]) -> None:
    """Sort jobs in place by planned start, ties by arrival. O(n log n), linear if nearly sorted."""
    if not insertion_sort(jobs, 0, len(jobs), BY_START, MOVES * len(jobs)):
        merge_sort(jobs, 0, len(jobs), list(jobs), BY_START)


def sort_by_key(jobs: list[Job], first: int, last: int) -> None:
    """Sort ``jobs[first:last]`` by ``job.key``, ties by arrival, in place. O(n log n), linear if
    nearly sorted.

    A job with a key that is no number, as it has neither deadline nor estimate, keeps its place,
    and no other job passes it.
    """
    if insertion_sort(jobs, first, last, BY_KEY, MOVES * last):
        return

    # Merging needs an order: what lies between two such jobs is sorted by itself.
    spare = list(jobs)
    place = first
    while place < last:
        end = place
        while end < last:
            job = jobs[end]
            if job.key != job.key:
                break
            end += 1
        merge_sort(jobs, place, end, spare, BY_KEY)
        place = end + 1


def is_before(job: Job, other: Job, order: int) -> bool:
    """Return whether a job precedes another one in an order (``BY_ARRIVAL``, ``BY_START`` or
    ``BY_KEY``).
    """
    if order == BY_START:
        one = job.start
        two = other.start
    elif order == BY_KEY:
        one = job.key
        two = other.key
    else:
        return job.number < other.number
    return one < two or (one == two and job.number < other.number)


def insertion_sort(jobs: list[Job], first: int, end: int, order: int, moves: int) -> bool:
    """Sort ``jobs[first:end]`` in place by insertion; give up and return False after ``moves``
    moves of jobs.
    """
    if first >= end:
        return True
    before = jobs[first]  # The last one of those that are sorted.
    for last in range(first + 1, end):
        job = jobs[last]
        if not is_before(job, before, order):
            before = job
            continue

        place = last
        while place > first and is_before(job, jobs[place - 1], order):
            jobs[place] = jobs[place - 1]
            place -= 1
        jobs[place] = job
        moves -= last - place
        if moves < 0:
            return False
    return True


def merge_sort(jobs: list[Job], first: int, end: int, spare: list[Job], order: int) -> None:
    """Sort ``jobs[first:end]`` in place by merging; ``spare`` is a list of the same length to work
    in.
    """
    if end - first <= SHORT:
        insertion_sort(jobs, first, end, order, SHORT * SHORT)
        return

    middle = (first + end) // 2
    merge_sort(jobs, first, middle, spare, order)
    merge_sort(jobs, middle, end, spare, order)
    if not is_before(jobs[middle], jobs[middle - 1], order):
        return

    for place in range(first, middle):
        spare[place] = jobs[place]
    left = first
    right = middle
    for place in range(first, end):
        if left == middle:
            return
        if right < end and is_before(jobs[right], spare[left], order):
            jobs[place] = jobs[right]
            right += 1
        else:
            jobs[place] = spare[left]
            left += 1
