"""The earliest promise is one that is granted, and asking for it changes nothing."""

from __future__ import annotations

import math
import random
from pathlib import Path

import msgspec
import pytest

from qops_batsim import InputError, simulate
from qops_batsim.platform import make_cluster
from qops_batsim.running import PlanAsker
from qops_batsim.running.search_asker import EarliestPromises, watched_scheduler
from qops_batsim.workload import Workload
from support.decision_runs import exact, history_of, random_workload, workload_of


def watch(scheduler: str, workload: Workload) -> tuple[EarliestPromises, str]:
    """Ask about each job of a simulation; return the answers, and the schedule."""
    promises = EarliestPromises()
    module = watched_scheduler(scheduler, {}, promises)
    done = simulate(module, workload, make_cluster(workload.processors), allow_smaller_machine=True)
    return promises, str(sorted((each.local_id, each.start, each.finish) for each in done.ended))


@pytest.mark.parametrize("scheduler", ["qops", "msb", "mrt"])
def test_who_asks_for_it_gets_it_and_sooner_is_refused(scheduler: str, tmp_path: Path) -> None:
    later = 0
    for seed in range(25):
        workload = random_workload(random.Random(seed))
        promises, schedule = watch(scheduler, workload)
        plain = simulate(
            scheduler, workload, make_cluster(workload.processors), allow_smaller_machine=True
        )
        records = sorted((each.local_id, each.start, each.finish) for each in plain.ended)
        assert str(records) == schedule
        history = history_of(scheduler, workload, tmp_path)
        for job_id, response in promises.items():
            asked = history.jobs[job_id]
            asker = PlanAsker(history, history.state_before(job_id), asked.date)

            def granted(deadline: float | None) -> bool:
                return asker.ask(  # noqa: B023
                    msgspec.structs.replace(asked, deadline=deadline, tolerance=0.0)  # noqa: B023
                ).admitted

            if response == math.inf:
                found = asker.ask(msgspec.structs.replace(asked, deadline=None))
                assert not found.admitted or found.end is None
                continue
            assert asked.estimate is not None
            assert granted(asked.submission + response)
            if response > asked.estimate + 1:
                later += 1
                assert not granted(asked.date + asked.estimate)
    assert later > 20


def test_a_drawn_case() -> None:
    """Four processors: A runs on three until 10; B, on two, was promised 15 and starts at 10."""
    rows = [exact(0, 3, 10), exact(1, 2, 5, 15), exact(2, 1, 8, 99), exact(3, 4, 2, 99)]
    promises, _ = watch("qops", workload_of(4, rows))
    # A and B at their earliest, C at once beside A, D behind B, which cannot be put off.
    assert [*promises.values()] == [10.0, 14.0, 8.0, 14.0]


def test_a_scheduler_without_promises_is_refused() -> None:
    for scheduler in ("conservative", "easy", "aroma"):
        with pytest.raises(
            InputError, match=f"'{scheduler}' promises nothing; a scheduler that admits"
        ):
            watched_scheduler(scheduler, {}, EarliestPromises())
