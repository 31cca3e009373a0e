"""What is short for a request now: by hand, and against a search over all dates."""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from qops_batsim.core.host_properties import machine_of
from qops_batsim.core.machine import Machine
from qops_batsim.core.node_profile import NodeProfile
from qops_batsim.core.node_request import NodeLayout, Places
from qops_batsim.core.shortage import Shortage, shortage_text, shortages
from qops_batsim.job_fields import AskedPart


def cluster(*hosts: tuple[int, int], labels: str = "") -> Machine:
    """Hosts with so many cores and GPUs."""
    properties = [
        {"cores": str(cores), "gpus": str(gpus), "labels": labels} for cores, gpus in hosts
    ]
    found = machine_of(properties, [f"n{place}" for place in range(len(hosts))])
    assert found is not None
    return found


class Held(NamedTuple):
    """What a job holds of each kind until its end, by host."""

    end: float
    amounts: dict[int, tuple[int, int]]


def profile(machine: Machine, running: list[Held], now: float) -> NodeProfile:
    """What is free beside running jobs."""
    made = NodeProfile(NodeLayout(machine), now)
    for job in running:
        for host, amounts in job.amounts.items():
            part = made.layout.part(
                AskedPart(hosts=1, amounts=dict(zip(("cores", "gpus"), amounts, strict=True)))
            )
            places = Places()
            places.fill([part], [(host, 0, 1)])
            made.take_amount(now, job.end, places)
    return made


#  Free now (cores, GPUs) of 4 cores and 2 GPUs each, and when the rest comes back:
#  host 0: 2, 0   rest at 10      host 1: 2, 1   rest at 20      host 2: 1, 2   rest at 30
MACHINE = cluster((4, 2), (4, 2), (4, 2))
RUNNING = [
    Held(10.0, {0: (2, 2)}),
    Held(20.0, {1: (2, 1)}),
    Held(30.0, {2: (3, 0)}),
]


def told(part: AskedPart) -> list[str]:
    return [shortage_text(each) for each in shortages(profile(MACHINE, RUNNING, 5.0), part)]


def test_each_short_kind_is_told_with_its_date() -> None:
    asked = AskedPart(hosts=3, amounts={"cores": 2, "gpus": 2})
    assert told(asked) == [
        "3 hosts have 2 cores free only from 30 s on, now 2",
        "3 hosts have 2 gpus free only from 20 s on, now 1",
    ]
    gpus = shortages(profile(MACHINE, RUNNING, 5.0), asked)[1]
    assert gpus == Shortage(
        kind="gpus", amount=2, hosts=3, tasks=0, free=1, missing=(0, 1), date=20.0
    )


def test_kinds_that_are_free_on_different_hosts_are_short_together() -> None:
    # Two cores are free on hosts 0 and 1, two GPUs on host 2 now, and on host 0 from 10 s on.
    assert told(AskedPart(hosts=2, amounts={"cores": 2, "gpus": 2})) == [
        "2 hosts have all of it free only from 20 s on, now 0",
        "2 hosts have 2 gpus free only from 10 s on, now 1",
    ]


def test_whole_hosts_tasks_and_what_is_never_free() -> None:
    whole = AskedPart(hosts=2, exclusive=True)
    assert told(whole) == ["2 hosts are entirely free only from 20 s on, now 0"]
    tasks = AskedPart(hosts=2, tasks=6, amounts={"cores": 1})
    assert told(tasks) == [
        "6 tasks with 1 cores each find room on 2 hosts only from 10 s on, now 4"
    ]
    assert told(AskedPart(hosts=1, amounts={"fpgas": 1})) == ["1 host never has 1 fpgas free"]
    assert told(AskedPart(hosts=1, amounts={"cores": 2, "gpus": 1})) == []


def test_only_hosts_with_the_labels_count() -> None:
    machine = cluster((4, 2), (4, 2), labels="fast")
    asked = AskedPart(hosts=1, amounts={"cores": 1}, labels=("slow",))
    (found,) = shortages(profile(machine, [], 0.0), asked)
    assert (found.free, found.date, found.missing) == (0, None, ())


Jobs = list[tuple[int, int, int, int]]


def test_more_hosts_of_ones_own_than_are_large_enough_are_never_there() -> None:
    machine = cluster((6, 3), (6, 2), (6, 1))
    asked = AskedPart(hosts=3, amounts={"cores": 1, "gpus": 2}, exclusive=True)
    (short,) = shortages(profile(machine, [], 0.0), asked)
    assert (short.date, short.free, short.missing) == (None, 2, ())


@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 9), st.integers(1, 2), st.integers(0, 1)),
        max_size=6,
    ),
    hosts=st.integers(1, 3),
    cores=st.integers(1, 4),
    gpus=st.integers(0, 2),
    exclusive=st.booleans(),
)
def test_dates_are_the_first_at_which_hosts_are_able(
    jobs: Jobs, hosts: int, cores: int, gpus: int, exclusive: bool
) -> None:
    machine = cluster((6, 3), (6, 2), (6, 1))
    held: list[Held] = []
    for host, end, of_cores, of_gpus in jobs:
        taken = [sum(each.amounts.get(host, (0, 0))[k] for each in held) for k in (0, 1)]
        if all(
            taken[k] + more <= machine.amounts[host][k]
            for k, more in enumerate((of_cores, of_gpus))
        ):
            held.append(Held(float(end), {host: (of_cores, of_gpus)}))
    asked = AskedPart(
        hosts=hosts,
        amounts={"cores": cores} | ({"gpus": gpus} if gpus else {}),
        exclusive=exclusive,
    )

    def able(host: int, date: float) -> bool:
        there = [each for each in held if host in each.amounts and each.end > date]
        free = [machine.amounts[host][k] - sum(e.amounts[host][k] for e in there) for k in (0, 1)]
        return free[0] >= cores and free[1] >= gpus and not (exclusive and there)

    def date_of_all() -> float:
        for date in sorted({0.0, *(each.end for each in held)}):
            if any(all(able(h, date) for h in some) for some in combinations(range(3), hosts)):
                return date
        return math.inf

    found = shortages(profile(machine, held, 0.0), asked)
    latest = max((math.inf if s.date is None else s.date for s in found), default=0.0)
    assert latest == date_of_all()
    if latest and found[0].kind == "":
        assert found[0].free == sum(able(host, 0.0) for host in range(3))
