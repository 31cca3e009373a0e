"""Reports of journals: how far the embedded engine agrees."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from qops_batsim.live import report
from support.live_agreement import agreement
from support.live_site import Site


@pytest.mark.parametrize("scheduler", ["qops", "fqops"])
def test_the_embedded_engine_told_the_same_answers_the_same(tmp_path: Path, scheduler: str) -> None:
    """News of a poll each 7 s is late by up to as much: by Slurm's own dates much is otherwise."""
    options = {"grace": 18.0} | ({"kill_and_restart": True} if scheduler == "fqops" else {})
    site, draw = Site(tmp_path / "j.db", 8, scheduler=scheduler, options=options), random.Random(5)
    run_times = {}
    for _ in range(40):
        limit = draw.choice([60, 120, 300])
        wanted = (limit + 60) * draw.uniform(1.0, 2.5)
        job = site.fake.submit(draw.choice([1, 2, 4, 8]), limit, draw.uniform(5, limit), wanted)
        run_times[job.id] = job.run_time
        site.pass_time(14, poll=7)
    site.pass_time(1000, poll=7)
    told = report(site.journal, run_times=run_times)
    assert told.decided is not None
    assert told.decided.refused > 5
    found = agreement(site.journal, run_times)
    assert (found.compared, found.told_the_same) == (40, 40)
    assert found.by_dates < 40
    site.journal.close()
