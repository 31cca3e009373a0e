"""How jobs follow each other on hosts, against the same host by host."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from measures.conftest import Ran
from qops_batsim import read_run
from qops_batsim.core import HostSet
from qops_batsim.measures import busy_hosts
from qops_batsim.measures.results.allocations import on_hosts, read_allocations
from qops_batsim.measures.results.occupancy import occupancy
from qops_batsim.measures.results.series import computing_periods, step_series

JOBS = st.lists(
    st.tuples(
        st.integers(0, 12) | st.floats(0, 12),
        st.integers(0, 6) | st.floats(0, 6),
        st.sets(st.integers(0, 9), max_size=6),
    ),
    max_size=12,
)


@given(JOBS)
def test_it_is_that_of_each_host(jobs):
    texts = [str(HostSet.of(hosts)) for _, _, hosts in jobs]
    start = np.array([each[0] for each in jobs], np.float64)
    finish = start + np.array([each[1] for each in jobs], np.float64)
    found = occupancy(read_allocations(texts), start, finish, np.flatnonzero(finish > start))
    opened, closed, shared, periods = [], [], set(), []
    for host in range(10):
        until, since = -math.inf, 0.0
        mine = [
            row for row, each in enumerate(jobs) if host in each[2] and finish[row] > start[row]
        ]
        for row in sorted(mine, key=lambda row: (start[row], finish[row], row)):
            if start[row] > until:
                if until > -math.inf:
                    closed.append(until)
                    periods.append(until - since)
                opened.append(start[row])
                since = start[row]
            elif start[row] < until - 2e-6:
                shared.add(host)
            until = max(until, finish[row])
        if mine:
            closed.append(until)
            periods.append(until - since)
    assert sorted(np.repeat(start, found.opened)) == sorted(opened)
    assert sorted(np.repeat(finish, found.closed)) == sorted(closed)
    assert found.shared.tolist() == sorted(shared)
    assert found.busy == pytest.approx(math.fsum(periods), rel=1e-15)


@given(JOBS, st.sets(st.integers(0, 12)))
def test_pairs_on_some_hosts(jobs, chosen):
    allocations = read_allocations([str(HostSet.of(hosts)) for _, _, hosts in jobs])
    rows, hosts = on_hosts(allocations, np.array(sorted(chosen), np.int64))
    expected = [(row, host) for row, each in enumerate(jobs) for host in sorted(each[2] & chosen)]
    assert list(zip(rows.tolist(), hosts.tolist(), strict=True)) == expected


def test_busy_hosts_are_those_of_computing_periods(write_run):
    # On host 0 a job follows another at once; at that date host 1 takes over from host 2.
    jobs = [
        Ran("1", 0, 2, 0, 5, [0, 2]),
        Ran("2", 0, 2, 5, 5, [0, 1]),
        Ran("3", 0, 1, 3, 1, [0]),
        Ran("4", 0, 1, 10, 0.5, [1]),
        Ran("5", 0, 1),
    ]
    result = read_run(write_run(jobs, hosts=4))
    hosts, begins, ends = computing_periods(result)
    expected = step_series(begins, ends, np.ones(len(hosts)))
    found = busy_hosts(result)
    assert found.dates.tolist() == expected.dates.tolist() == [0.0, 5.0, 10.0, 10.5]
    assert found.values.tolist() == expected.values.tolist() == [2.0, 2.0, 1.0, 0.0]
    assert result.occupancy.busy == math.fsum(ends - begins)
    assert result.occupancy.shared.tolist() == [0]


def test_overlaps_are_listed_in_the_order_of_hosts_however_many_at_once(write_run, monkeypatch):
    from qops_batsim import verify
    from qops_batsim.measures.verify import rules_jobs

    jobs = [Ran(str(row), 0, 3, row, 5, [row, row + 1, row + 2]) for row in range(6)]
    result = read_run(write_run(jobs))
    together = verify(result)
    monkeypatch.setattr(rules_jobs, "HOSTS_AT_ONCE", 1)
    assert verify(result) == together
    assert [(each.host, each.jobs) for each in together][:3] == [
        (1, ("w0!0", "w0!1")),
        (2, ("w0!1", "w0!2")),
        (3, ("w0!2", "w0!3")),
    ]
