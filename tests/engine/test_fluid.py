"""Rates of computations that share hosts and links."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim.engine import fluid
from qops_batsim.engine.fluid import (
    Computation,
    FluidModel,
    HostResource,
    Resource,
    fair_rates,
)
from qops_batsim.errors import SimulationError


def test_a_lone_computation_has_its_slowest_resource() -> None:
    fast, slow = Resource(100.0), Resource(50.0)
    assert fair_rates([Computation({fast: 100.0, slow: 100.0})]) == [0.5]


def test_two_share_a_host_equally_whatever_their_size() -> None:
    host = Resource(100.0)
    small, large = Computation({host: 10.0}), Computation({host: 1000.0})
    assert fair_rates([small, large]) == [5.0, 0.05]


def test_what_a_narrow_computation_leaves_goes_to_the_other() -> None:
    # Recorded from Batsim: the job on hosts 0 to 2 gets 50/3 on each because host 0 is shared
    # by three; on host 1 (100) the other job then has 83.3.
    slow, fast = Resource(50.0), Resource(100.0)
    wide = Computation({slow: 1.0, fast: 1.0})
    others = [Computation({slow: 1.0}), Computation({slow: 1.0})]
    alone = Computation({fast: 1.0})
    rates = fair_rates([wide, *others, alone])
    assert rates == pytest.approx([50 / 3, 50 / 3, 50 / 3, 100 - 50 / 3])


def test_a_fatpipe_link_gives_every_flow_all_of_it() -> None:
    link = Resource(10.0, shared=False)
    assert fair_rates([Computation({link: 5.0}), Computation({link: 2.0})]) == [2.0, 5.0]


def test_a_bound_holds_and_frees_the_rest() -> None:
    host = Resource(100.0)
    bounded, free = Computation({host: 1.0}, bound=10.0), Computation({host: 1.0})
    assert fair_rates([bounded, free])[0] == 10.0
    assert fair_rates([bounded, free])[1] >= 50.0


def test_ends_move_when_another_starts_and_stops() -> None:
    host = Resource(100.0)
    model = FluidModel()
    first, second = Computation({host: 1000.0}), Computation({host: 1000.0})
    model.start(first, 0.0)
    assert model.settle(0.0) == [(first, 10.0)]
    assert model.settle(1.0) == []
    model.start(second, 4.0)
    assert dict(model.settle(4.0)) == pytest.approx({second: 20.0, first: 12.0})
    model.stop(first)
    assert dict(model.settle(16.0)) == pytest.approx({second: 4.0})


def test_nothing_to_do_ends_at_once() -> None:
    model = FluidModel()
    empty = Computation({})
    model.start(empty, 3.0)
    assert model.settle(3.0) == [(empty, 0.0)]


def test_latency_comes_before_progress() -> None:
    model = FluidModel()
    late = Computation({Resource(10.0): 10.0}, latency=2.0)
    model.start(late, 0.0)
    assert model.settle(0.0) == []
    model.wake(late)
    assert model.settle(2.0) == [(late, 1.0)]


def test_what_a_fatpipe_link_has_left_is_given_again() -> None:
    # As in SimGrid: the first may only have 1 of 10; what the second could have had besides is
    # offered to it once more, and so on: 10 + 9 + ... + 1.
    link, narrow = Resource(10.0, shared=False), Resource(1.0)
    first, second = Computation({link: 1.0, narrow: 1.0}), Computation({link: 1.0})
    assert fair_rates([first, second]) == [1.0, 55.0]


def test_each_executor_has_a_share_of_its_host() -> None:
    host = HostResource(0, 100.0)
    two = Computation({}, executors=[(host, 100.0), (host, 100.0)])
    one = Computation({}, executors=[(host, 100.0)])
    assert fair_rates([two, one]) == pytest.approx([1 / 3, 1 / 3])


def test_a_host_that_becomes_slower_slows_what_it_computes() -> None:
    host = HostResource(0, 100.0, cores=2)
    model, job = FluidModel(), Computation({}, executors=[(host, 1000.0)])
    model.start(job, 0.0)
    assert model.settle(0.0) == [(job, 10.0)]
    assert model.flows([host]) == {host: 100.0}
    model.change_speed(host, 50.0)
    assert model.settle(5.0) == [(job, 10.0)]


def crowded_links(seed: int) -> list[Computation]:
    """Computations of which some hardly use a FATPIPE link, so that it takes many rounds."""
    rng = random.Random(seed)
    wide = [Resource(rng.choice([100.0, 1000.0]), shared=False) for _ in range(rng.choice([1, 2]))]
    others = [Resource(10 ** rng.uniform(0, 6)) for _ in range(4)]
    made = []
    for _ in range(rng.randint(2, 6)):
        crossed = rng.sample(wide, rng.randint(1, len(wide)))
        uses = {link: rng.choice([1.0, 3.0]) for link in crossed}
        if rng.random() < 0.5:
            uses |= {link: rng.uniform(0.1, 10) for link in rng.sample(others, rng.randint(1, 2))}
        bound = rng.choice([math.inf, math.inf, 10 ** rng.uniform(0, 6)])
        made.append(Computation(uses, bound=bound))
    return made


def test_rounds_that_are_alike_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    skipped = 0
    for seed in range(100):
        computations = crowded_links(seed)
        monkeypatch.setattr(fluid, "PLAIN_ROUNDS", 10**9)
        monkeypatch.setattr(fluid, "MAX_ROUNDS", 10**9)
        expected = fair_rates(computations)
        monkeypatch.setattr(fluid, "PLAIN_ROUNDS", 3)
        monkeypatch.setattr(fluid, "MAX_ROUNDS", 200)
        assert fair_rates(computations) == pytest.approx(expected, rel=1e-6), seed
        monkeypatch.setattr(fluid, "PLAIN_ROUNDS", 10**9)
        try:
            fair_rates(computations)
        except SimulationError:
            skipped += 1
    assert skipped > 10


systems = st.lists(st.floats(1.0, 1e9), min_size=1, max_size=5).flatmap(
    lambda capacities: st.tuples(
        st.just(capacities),
        st.lists(
            st.dictionaries(
                st.integers(0, len(capacities) - 1), st.floats(1e-3, 1e9), min_size=1, max_size=5
            ),
            min_size=1,
            max_size=12,
        ),
    )
)


@given(systems)
def test_no_resource_gives_more_than_it_has_and_no_action_starves(
    system: tuple[list[float], list[dict[int, float]]],
) -> None:
    capacities, wanted = system
    resources = [Resource(capacity) for capacity in capacities]
    computations = [
        Computation({resources[index]: amount for index, amount in uses.items()}) for uses in wanted
    ]
    rates = fair_rates(computations)
    for index, resource in enumerate(resources):
        used = sum(rate * uses.get(index, 0.0) for rate, uses in zip(rates, wanted, strict=True))
        assert used <= resource.capacity * (1 + 1e-9) + 1e-3
    for rate, uses in zip(rates, wanted, strict=True):
        assert math.isfinite(rate)
        # At least the equal share of the narrowest resource.
        shares = [
            capacities[index] / sum(index in other for other in wanted) / amount
            for index, amount in uses.items()
        ]
        assert rate >= min(shares) * (1 - 1e-9)
