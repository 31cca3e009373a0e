"""The naive schedulers of shared hosts: drawn schedules, and what must hold of any."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import Job, QosRequest, simulate
from qops_batsim.core.node_request import NodeLayout
from qops_batsim.job_fields import AskedPart, HostsAsked, read_hosts_asked
from qops_batsim.jobs import REJECTED
from qops_batsim.platform import make_cluster
from qops_batsim.workload import Workload, delay_profile
from support.node_cases import (
    cases,
    machines,
    platform_of,
    random_jobs,
    random_request,
    request_fields,
)
from support.node_drawn import DRAWN, Drawn
from support.node_oracles import (
    SCHEDULERS,
    NaiveNodes,
    NodeJob,
    Part,
    SharedHost,
    SharedMachine,
    check_outcome,
    schedule_of,
)
from support.platform_text import parse_platform

Case = tuple[SharedMachine, Sequence[NodeJob]]
Many = Callable[[int], range]


@pytest.mark.parametrize("drawn", DRAWN, ids=lambda drawn: drawn.name)
def test_drawn_schedules(drawn: Drawn) -> None:
    outcome = schedule_of(drawn.scheduler, drawn.machine, drawn.jobs)
    check_outcome(drawn.machine, drawn.jobs, outcome)
    ran = [outcome[slot] for slot in range(len(drawn.jobs))]
    assert [each and (each.start, each.hosts) for each in ran] == list(drawn.expected)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@given(case=cases(deadlines=True))
def test_no_host_gives_more_than_it_has_and_no_promise_is_broken(
    scheduler: str, case: Case
) -> None:
    machine, jobs = case
    outcome = schedule_of(scheduler, machine, jobs)
    check_outcome(machine, jobs, outcome)
    if scheduler == "qops":
        late = [s for s, ran in outcome.items() if ran and ran.end > jobs[s].target]
        assert not late


@pytest.mark.parametrize(
    ("scheduler", "settings"),
    [("fcfs", {}), ("easy", {}), ("conservative", {"reserve": "processors"}), ("qops", {})],
)
def test_a_host_of_many_cores_is_a_machine_of_many_processors(
    scheduler: str, settings: dict[str, str], many: Many
) -> None:
    refused = 0
    for seed in many(200):
        rng = random.Random(f"{scheduler} one host {seed}")
        cores = rng.randint(2, 12)
        shared = SharedMachine((SharedHost({"cores": cores}),))
        jobs = [
            replace(job, parts=(Part(1, {"cores": rng.randint(1, cores)}),), licences={})
            for job in random_jobs(rng, shared, 24, deadlines=scheduler == "qops")
        ]
        outcome = schedule_of(scheduler, shared, jobs)

        equal = []
        for slot, job in enumerate(jobs):
            name, _ = delay_profile(job.lasts)
            qos = QosRequest(estimated_runtime=job.estimate, deadline=job.deadline)
            size = job.parts[0].amounts["cores"]
            equal.append(Job(f"{slot:03d}", job.submission, size, name, None, qos))
        profiles = dict(delay_profile(job.lasts) for job in jobs)
        workload = Workload(jobs=equal, profiles=profiles, processors=cores)
        for each in simulate(scheduler, workload, make_cluster(cores), settings).ended:
            ran = outcome[int(each.local_id)]
            found = None if each.state == REJECTED else (each.start, each.finish)
            assert found == (ran and (ran.start, ran.end)), f"seed {seed}, job {each.local_id}"
            refused += ran is None
    assert (refused > 0) == (scheduler == "qops")


@given(case=cases())
def test_conservative_starts_no_job_later_than_it_was_first_planned(case: Case) -> None:
    machine, jobs = case
    oracle = SCHEDULERS["conservative"](machine, jobs)
    answer, first = oracle.answer, {}

    def remembered(slot: int, now: int) -> None:
        answer(slot, now)
        first[slot] = oracle.plan[slot][0]

    oracle.answer = remembered
    ran = {slot: each for slot, each in oracle.run().items() if each is not None}
    assert all(ran[slot].start <= planned for slot, planned in first.items())


@given(machine=machines(), rng=st.randoms(use_true_random=False))
def test_no_date_before_the_earliest_fit_has_the_hosts(
    machine: SharedMachine, rng: random.Random
) -> None:
    nodes = NaiveNodes(machine)
    taken = []
    for _ in range(rng.randint(0, 8)):
        request = replace(random_request(rng, machine), estimate=rng.randint(1, 6))
        after = rng.randint(0, 9)
        start, placement = nodes.fit(request, after)
        if len(request.parts) == 1:
            # Parts that take hosts in turn may fit, fit no longer, and fit again.
            dates = range(after, 60 if start == math.inf else int(start))
            assert all(nodes.found_at(request, date) is None for date in dates)

        if start < math.inf:
            end = start + request.estimate
            nodes.take(placement, start, end)
            taken.append((placement, start, end))
            least = [nodes.least(host, start, end) for host in placement]
            assert all(amount >= 0 for amounts in least for amount in amounts)

    for placement, start, end in taken:
        nodes.give(placement, start, end)
    assert nodes.steps(-1) == []


@given(machine=machines(), rng=st.randoms(use_true_random=False))
def test_what_fits_nowhere_is_refused(machine: SharedMachine, rng: random.Random) -> None:
    read = parse_platform(platform_of(machine).encode(), source="a.xml").machine
    assert read is not None
    request = random_request(rng, machine)
    whole = AskedPart(hosts=request.parts[0].hosts, exclusive=True)
    asked = read_hosts_asked(request_fields(request), "job") or HostsAsked(parts=(whole,))
    fits = NaiveNodes(machine).found_at(request, 0) is not None
    # Of several parts, each is looked at alone: they may still take the hosts of each other.
    refusal = NodeLayout(read).request(asked, 1).refusal
    assert (refusal is None) == fits or (len(request.parts) > 1 and not fits)


@given(machine=machines(), rng=st.randoms(use_true_random=False))
def test_files_say_what_the_oracles_have(machine: SharedMachine, rng: random.Random) -> None:
    platform = parse_platform(platform_of(machine).encode(), source="a.xml")
    read = platform.machine
    assert read is not None
    hosts = range(len(machine.hosts))
    assert read.kinds == machine.kinds
    assert read.amounts == tuple(machine.capacity(host) for host in hosts)
    assert read.weights == tuple(host.weight for host in machine.hosts)
    assert read.licences == machine.licences
    named = {label for host in machine.hosts for label in host.labels}
    bits = {n: sum(1 << h for h in hosts if n in machine.hosts[h].labels) for n in named}
    assert read.labels == bits

    request = random_request(rng, machine)
    asked = read_hosts_asked(request_fields(request), "job")
    if asked is None:
        assert not request.licences
        assert [(p.amounts, p.labels, p.exclusive) for p in request.parts] == [({}, frozenset(), 0)]
        return
    assert asked.licences == request.licences
    for found, part in zip(asked.parts, request.parts, strict=True):
        assert (found.hosts, found.tasks) == (part.hosts, part.tasks)
        assert found.amounts == part.asked
        assert set(found.labels) == part.labels
        assert found.exclusive == part.takes_whole
