"""Queues with prices: drawn by hand, against a naive simulation, and the options."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from qops_batsim import InputError, Job, QosRequest, simulate
from qops_batsim.jobs import REJECTED
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.workload import Workload, delay_profile

NAMES = ("premium", "regular", "low")


class Row(NamedTuple):
    """A job in whole seconds; an artificial deadline is not its user's."""

    submission: float
    processors: int
    run_time: float
    deadline: float | None = None
    queue: str | None = None
    estimate: float | None = None
    is_artificial: bool = False


def outcome(machine: int, rows: Sequence[Row], **options: Any) -> list[tuple[float, str]]:
    """Return start and queue of each job, NaN and nothing for a rejected one."""
    jobs, profiles = [], {}
    for index, row in enumerate(rows):
        name, profiles[name] = delay_profile(row.run_time)
        qos = QosRequest(
            deadline=row.deadline,
            estimated_runtime=row.estimate or row.run_time,
            queue=row.queue,
            has_user_deadline=False if row.is_artificial else None,
        )
        jobs.append(Job(f"{index:04d}", float(row.submission), row.processors, name, qos=qos))
    module = make_scheduler("priced-queues", options)
    workload = Workload(jobs=jobs, profiles=profiles, processors=machine)
    ended = sorted(simulate(module, workload, make_cluster(machine)).ended, key=lambda r: r.job.id)
    records = [module.qos_log.record(each.job.id) for each in ended]
    prices = dict(zip(module.options.queues, module.options.prices, strict=True))  # type: ignore[attr-defined]
    assert all(each.price == prices.get(each.queue) for each in records)
    return [
        (math.nan if each.state == REJECTED else each.start, record.queue)
        for each, record in zip(ended, records, strict=True)
    ]


# One processor, all wait for 0: premium first, then regular (also who states none, or none of
# these), then low, each by arrival.
#
#   |0000000000|4|2|3|5|1|
#   0          10 11 12 13 14
def test_a_dearer_queue_comes_first() -> None:
    stated = ("low", "low", None, "elsewhere", "premium", "regular")
    rows = [Row(i, 1, 10 if i == 0 else 1, queue=queue) for i, queue in enumerate(stated)]
    found = outcome(1, rows, choice="stated")
    assert [start for start, _ in found] == [0, 14, 11, 12, 10, 13]
    assert [queue for _, queue in found[1:4]] == ["low", "regular", "regular"]


# Two processors. The premium job 2 is the first of all although 1 came earlier, and has the
# reservation at 10; 3 ends by then and starts beside 0.
#
#   |0000000000|22222|11
#   | 3333     |22222|11
#   0 2        10    15
def test_the_first_of_the_dearest_queue_has_the_reservation() -> None:
    rows = [
        Row(0, 1, 10, queue="low"), Row(1, 2, 2, queue="regular"),
        Row(1, 2, 5, queue="premium"), Row(2, 1, 4, queue="low"),
    ]  # fmt: skip
    found = outcome(2, rows, choice="stated")
    assert [start for start, _ in found] == [0, 15, 10, 2]


# One processor. 0 and 1 have time and come into low; 1 starts at 10 after 9 s, so low is known for
# a mean wait of (0 + 9) / 2 = 4.5 s. At 11, job 2 of 5 s needs to end by 21 and takes low: 11 +
# 4.5 + 5 is in time. 3 has to by 20, which is not: regular, where nobody has waited yet. 4 is late
# anywhere and takes the dearest; 5 has an artificial deadline, and 6 none: the cheapest.
#
#   |0000000000|1111111111|44444|33333|22222|55555|66666
#   0          10         20    25    30    35    40
def test_users_take_the_cheapest_queue_that_is_expected_to_do() -> None:
    rows = [
        Row(0, 1, 10), Row(1, 1, 10), Row(11, 1, 5, 21), Row(11, 1, 5, 20), Row(11, 1, 5, 12),
        Row(11, 1, 5, 12, is_artificial=True), Row(11, 1, 5),
    ]  # fmt: skip
    found = outcome(1, rows)
    assert [queue for _, queue in found] == [
        "low", "low", "low", "regular", "premium", "low", "low"
    ]  # fmt: skip
    assert [start for start, _ in found] == [0, 10, 30, 25, 20, 35, 40]


# With a history of one, the mean is the last wait: low is known for 9 s at 11, so job 2 takes
# regular.
def test_the_mean_is_about_the_last_jobs_of_a_queue() -> None:
    rows = [Row(0, 1, 10), Row(1, 1, 10), Row(11, 1, 5, 21)]
    assert outcome(1, rows, history=1)[2][1] == "regular"


# One job a minute has the priority of premium: of those at 1 and 2 only the first; it is as after
# regular jobs for the other, which pays the same. At 61 another one may.
#
#   |0 (120 s)        |1|6|3|2|4|5   6 is premium of the next minute, 3 regular
def test_premium_jobs_beyond_the_limit_wait_among_regular_ones() -> None:
    queues = ("low", "premium", "regular", "premium", "regular", "low", "premium")
    dates = (0, 1, 2, 2, 3, 4, 61)
    rows = [
        Row(date, 1, 120 if date == 0 else 1, queue=queue)
        for date, queue in zip(dates, queues, strict=True)
    ]
    found = outcome(1, rows, choice="stated", priority_limit=1, priority_period=60)
    assert [start for start, _ in found] == [0, 120, 122, 123, 124, 125, 121]
    assert found[3][1] == "premium"


def test_a_job_that_is_too_wide_is_in_no_queue() -> None:
    (start, queue), (other, _) = outcome(2, [Row(0, 3, 5, 9), Row(0, 2, 5, 9)])
    assert (math.isnan(start), queue, other) == (True, "", 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queues": []}, r"queues is \[\]; one or more names, each once"),
        ({"queues": ["a", "a"], "prices": [2, 1]}, "one or more names"),
        ({"prices": [2, 1]}, r"prices is \[2.0, 1.0\]; 3 prices are accepted, one for each queue"),
        ({"prices": [2, 2, 1]}, "numbers from 0 up in descending"),
        ({"prices": [2, 1, -1]}, "numbers from 0 up in descending"),
        ({"prices": [math.inf, 1, 0.5]}, "numbers from 0 up in descending"),
        (
            {"choice": "stated", "default_queue": "x"},
            "default_queue is 'x'; one of premium, regular, low is accepted",
        ),
        ({"history": 0}, "history is 0"),
    ],
)
def test_options_out_of_range_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_scheduler("priced-queues", options)


# Against a naive simulation


def random_rows(rng: random.Random) -> list[Row]:
    rows, date = [], 0
    for _ in range(60):
        date += rng.choice([0, 0, 1, 3, 9])
        run_time = rng.choice([1, 2, 5, 20])
        estimate = run_time * rng.choice([1, 1, 2, 6])
        deadline = rng.choice([None, date + estimate * rng.choice([1, 2, 4, 12])])
        queue = rng.choice([*NAMES, None, "night"])
        width = min(5, int(rng.paretovariate(0.9)))
        is_artificial = rng.random() < 0.1
        rows.append(Row(date, width, run_time, deadline, queue, estimate, is_artificial))
    return rows


@pytest.mark.parametrize("history", [1, 4])
@pytest.mark.parametrize("limit", [None, 0, 2])
@pytest.mark.parametrize("stated", [False, True])
def test_starts_and_queues_agree_with_a_naive_simulation(
    history: int, limit: int | None, stated: bool
) -> None:
    chosen = set()
    for seed in range(8):
        rows = random_rows(random.Random(f"{history} {limit} {stated} {seed}"))
        expected = naive(4, rows, history, math.inf if limit is None else limit, stated)
        options = {"priority_limit": limit, "priority_period": 30.0, "history": history}
        choice = "stated" if stated else "need"
        found = outcome(4, rows, choice=choice, **options)
        kept = [index for index, row in enumerate(rows) if row.processors <= 4]
        assert [found[index] for index in kept] == [expected[index] for index in kept], seed
        chosen |= {queue for _, queue in found}
    assert chosen == {"", *NAMES}


def naive(
    machine: int, rows: Sequence[Row], history: int, limit: float, stated: bool
) -> dict[int, tuple[float, str]]:
    """Simulate second by second; whatever is needed is computed from what has happened so far."""
    queue: dict[int, int] = {}
    rank: dict[int, int] = {}
    starts: dict[int, int] = {}
    waits: list[list[float]] = [[], [], []]
    fits = [index for index, row in enumerate(rows) if row.processors <= machine]
    now = 0

    def mean_wait(number: int) -> float:
        # The first waits have the same weight; later ones have one part of the history each.
        mean = 0.0
        for count, wait in enumerate(waits[number], 1):
            mean += (wait - mean) / min(count, history)
        return mean

    def choose(row: Row) -> int:
        if stated:
            return NAMES.index(row.queue) if row.queue in NAMES else 1
        if row.deadline is None or row.is_artificial:
            return 2
        for number in (2, 1):
            if row.submission + mean_wait(number) + (row.estimate or 0) <= row.deadline:
                return number
        return 0

    while len(starts) < len(fits):
        for index in fits:
            if rows[index].submission == now:
                queue[index] = rank[index] = choose(rows[index])
                period = [i for i in queue if rows[i].submission // 30 == now // 30]
                if queue[index] == 0 and sum(queue[i] == 0 for i in period) > limit:
                    rank[index] = 1
        ends = {i: begin + rows[i].run_time for i, begin in starts.items()}
        free = machine - sum(rows[i].processors for i, end in ends.items() if end > now)
        waiting = [i for i in queue if i not in starts]
        line = sorted(waiting, key=lambda i: (rank[i], i))

        def start(index: int, now: int = now) -> None:
            starts[index] = now
            waits[queue[index]].append(now - rows[index].submission)

        while line and rows[line[0]].processors <= free:
            free -= rows[line[0]].processors
            start(line.pop(0))
        if line:
            head, *others = line
            expected = sorted(
                (max(now + 1e-9, begin + (rows[i].estimate or 0)), rows[i].processors)
                for i, begin in starts.items()
                if begin + rows[i].run_time > now
            )
            available, shadow = free, math.inf
            for end, processors in expected:
                if end > shadow:
                    break
                available += processors
                if available >= rows[head].processors:
                    shadow = min(shadow, end)
            extra = available - rows[head].processors
            for index in others:
                row = rows[index]
                in_time = now + (row.estimate or 0) <= shadow
                if row.processors > free or not (in_time or row.processors <= extra):
                    continue
                free -= row.processors
                if not in_time:
                    extra -= row.processors
                start(index)
        now += 1
    return {index: (starts[index], NAMES[queue[index]]) for index in fits}
