"""A live centre that forgets what has ended: nothing that it decides afterwards is otherwise."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qops_batsim import InputError
from qops_batsim.live import JobPhase, NodeState
from qops_batsim.live.as_run import export_run
from support.live_site import Site, others_job

STEPS = 100


def run(path: Path, scheduler: str, options: dict[str, Any], forget_after: int, seed: int) -> Site:
    """Return a site after some turbulent hours: losses, others' jobs, cancellations, restarts."""
    site, draw = Site(path, 8, scheduler=scheduler, options=options), random.Random(seed)
    site.kept = {"forget_after": forget_after}
    site.restart()
    for _ in range(STEPS):
        chance = draw.random()
        alive = [job for job in site.fake.all.values() if job.phase is not JobPhase.ENDED]
        if chance < 0.5:
            limit = draw.choice([60, 120, 300])
            wanted = None if draw.random() < 0.2 else (limit + 60) * draw.uniform(1.0, 4.0)
            site.fake.submit(draw.choice([1, 2, 4, 8]), limit, draw.uniform(5, limit), wanted)
        elif chance < 0.55 and alive:
            site.fake.cancel(draw.choice(alive).id)
        elif chance < 0.6 and alive:
            draw.choice(alive).limit += 60
        elif chance < 0.65:
            name = draw.choice(list(site.fake.states))
            if site.fake.states[name] is NodeState.THERE:
                site.fake.lose_node(name)
            else:
                site.fake.states[name] = NodeState.THERE
        elif chance < 0.7:
            used = {name for job in alive for name in job.hosts}
            free = [
                n for n, s in site.fake.states.items() if n not in used and s is NodeState.THERE
            ]
            if free:
                others_job(site, tuple(free[:2]), limit=120, run_time=90)
        elif chance < 0.75 and forget_after < STEPS:
            site.restart()
        site.pass_time(draw.choice([5, 30]), poll=10)
    return site


SCHEDULERS: dict[str, dict[str, Any]] = {
    "qops": {"grace": 5.0},
    "fqops": {"grace": 5.0, "kill_and_restart": True},
    "conservative": {},
    "msb": {"grace": 5.0},
    "mrt": {"grace": 5.0},
}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_what_has_ended_can_be_forgotten(tmp_path: Path, scheduler: str) -> None:
    options = SCHEDULERS[scheduler]
    whole = run(tmp_path / "whole.db", scheduler, options, 10**9, seed=2)
    site = run(tmp_path / "j.db", scheduler, options, 5, seed=2)
    assert [*site.journal.messages()] == [*whole.journal.messages()]
    assert site.journal.entries() == whole.journal.entries()
    assert len(site.centre.module.qos_log.jobs) < 10  # type: ignore[union-attr]
    assert len(whole.centre.module.qos_log.jobs) > 40  # type: ignore[union-attr]
    # All of it told from the beginning, in one go, gives the same answers once more.
    assert export_run(site.journal, tmp_path / "run")
    for each in (site, whole):
        each.journal.close()


def test_a_process_goes_on_from_what_was_kept(site: Site) -> None:
    site.kept = {"forget_after": 3}
    site.restart()
    for _ in range(4):
        site.fake.submit(4, limit=600, run_time=300, deadline=9000)
        site.pass_time(2)
    number, kept = site.journal.last_standing()
    assert number == 3
    assert kept is not None
    starts = site.centre.module.planned_starts()  # type: ignore[union-attr]
    site.restart()
    assert site.centre.replayed == 2
    assert site.centre.module.planned_starts() == starts  # type: ignore[union-attr]


def test_a_node_that_is_drained_under_a_job_takes_no_other_one_when_that_ends(site: Site) -> None:
    # The first of four nodes is drained under a; b waits for the three others.
    site.kept = {"forget_after": 1}
    site.restart()
    first = site.fake.submit(4, limit=600, run_time=30, deadline=9000)
    site.pass_time(5)
    (drained, *_) = site.entry(first.id).hosts
    site.fake.states[drained] = NodeState.AWAY
    second = site.fake.submit(3, limit=600, run_time=300, deadline=9000)
    site.pass_time(60)
    assert site.entry(first.id).phase == "gone"
    assert len(hosts := site.entry(second.id).hosts) == 3
    assert drained not in hosts


def test_what_another_version_has_kept_is_refused(site: Site) -> None:
    site.kept = {"forget_after": 1}
    site.fake.submit(4, limit=600, run_time=300, deadline=9000)
    site.restart()
    site.pass_time(2)
    _, kept = site.journal.last_standing()
    assert kept is not None
    told = msgspec.msgpack.decode(kept.module)
    for other in ({**told, "version": 1}, {"plan": {}, "away": ""}):
        kept.module = msgspec.Raw(msgspec.msgpack.encode(other))
        site.journal.keep_standing(kept)
        with pytest.raises(InputError, match=r"snapshot of its scheduler cannot be read .*version"):
            site.restart()
    kept.module = msgspec.Raw(msgspec.msgpack.encode(None))
    site.journal.keep_standing(kept)
    with pytest.raises(InputError, match=r"snapshot of its scheduler cannot be read .*version of"):
        site.restart()


def test_a_damaged_standing_is_one_error(site: Site) -> None:
    site.kept = {"forget_after": 1}
    site.fake.submit(4, limit=600, run_time=300, deadline=9000)
    site.restart()
    site.pass_time(2)
    site.journal._db.execute("UPDATE standings SET standing = ?", (b"\x81\xa6module\x01",))
    with pytest.raises(
        InputError, match="livestanding. cannot be read .* undamaged journal is expected"
    ):
        site.restart()
