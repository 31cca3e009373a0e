"""How much waits in a queue, and when that is unlike the past."""

from __future__ import annotations

import numpy as np
import pytest

from qops_batsim.queue.queue_load import UNLIKE, QueueLoad, load_of, unlike, usual_load
from support.pasts import past


def test_a_load_by_hand() -> None:
    # On 4 processors a waits with 2 x 1 h and 1 x 4 h, b with 4 x 1 h: 1.5 h and 1 h of all.
    rows = [(0.0, 9e4, 1.0, 3600.0, 2), (0.0, 9e4, 1.0, 4 * 3600.0, 1), (1.0, 9e4, 1.0, 3600.0, 4)]
    jobs = past(4, rows, users="aab")
    assert load_of(jobs, np.arange(3)) == QueueLoad(jobs=3.0, hours=2.5, hours_of_one=1.5)
    assert load_of(jobs, np.arange(0)) == QueueLoad(jobs=0.0, hours=0.0, hours_of_one=0.0)


def test_few_moments_do_not_tell_what_is_usual() -> None:
    loads = [QueueLoad(jobs=1.0, hours=1.0, hours_of_one=1.0)] * 98
    assert usual_load(loads) is None
    assert unlike(loads[0], None) == []
    assert usual_load([*loads, loads[0]]) == loads[0]


@pytest.mark.parametrize("count", [99, 150, 250])
def test_ordinary_moments_are_seldom_called_unlike(count: int) -> None:
    """Of exchangeable moments, the last is called so with a chance of at most UNLIKE."""
    rng = np.random.default_rng(count)
    said = 0
    for _ in range(1000):
        values = rng.lognormal(0.0, 2.0, (count + 1, 3))
        loads = [QueueLoad(jobs=a, hours=b, hours_of_one=c) for a, b, c in values.tolist()]
        said += bool(unlike(loads[-1], usual_load(loads[:-1])))
    # Three standard deviations above it would be chance.
    assert said / 1000 <= UNLIKE + 3 * np.sqrt(UNLIKE * (1 - UNLIKE) / 1000)
    assert said > 0


def test_ten_times_the_waiting_work_is_unlike_the_past() -> None:
    rng = np.random.default_rng(1)
    hours = rng.exponential(3.0, 120).tolist()
    usual = usual_load([QueueLoad(jobs=9.0, hours=h, hours_of_one=h / 2) for h in hours])
    (all_work, of_one) = unlike(QueueLoad(jobs=9.0, hours=40.0, hours_of_one=35.0), usual)
    assert all_work.startswith("the machine needs 40.0 h for what waits, at nearly all past")
    assert of_one.startswith("it needs 35.0 h for what waits of one user")
