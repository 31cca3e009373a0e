"""Users who react, with each engine: equal files, whoever runs their jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from qops_batsim import run, simulate
from qops_batsim.engine import Simulation
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import ModuleDriver, SchedulerModule, make_scheduler
from qops_batsim.running import Run, default_engine
from qops_batsim.running.run import BatsimCall
from qops_batsim.users import Reacting, Reactions, Users, users_of
from qops_batsim.users.reacting import ELSEWHERE, LEFT
from qops_batsim.workload import NeedChoices, NeedMix
from support.live_engines import difference
from support.needs import batsim4, real_batsim5
from support.qos_rows import qos_rows
from support.users import made_up

KILLS = {"kill_and_restart": True, "kill_after": 0.0}
SCHEDULERS = [
    ("easy", {}),
    ("priced-queues", {}),
    ("qops", {"promise_limit": 0.5}),
    ("fqops", {}),
    ("fqops", KILLS),
]


def some_users(seed: int, days: int = 3) -> Users:
    """Return a few users on a machine that is too small for them, who react in all ways."""
    _, log = made_up(users=8, weeks=1, seed=seed)
    log = [each for each in log if each.submitted < days * 86_400]
    return msgspec.structs.replace(
        users_of(log, 4),
        seed=seed,
        deadlines=NeedChoices(mix=NeedMix(factor=0.5, slack=0.5)),
        reactions=Reactions(liars=0.4, price=0.1, hoarders=0.3, promises=2),
    )


FILES = ("_qos.csv", "_users.csv", "_submitted.json")


def files(done: Run) -> list[bytes]:
    return [Path(f"{done.prefix}{name}").read_bytes() for name in FILES]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("scheduler", "settings"), SCHEDULERS)
def test_the_loop_tells_what_messages_tell(
    scheduler: str, settings: dict[str, Any], seed: int
) -> None:
    users, found = some_users(seed), []
    for told_in_messages in (False, True):
        module = SchedulerModule(Reacting(make_scheduler(scheduler, settings).scheduler, users))
        if told_in_messages:
            options = default_engine(module)
            driver = ModuleDriver(module, any_engine=True)
            simulation = Simulation(make_cluster(4), [users.no_jobs()], driver, options)
            simulation.run()
        else:
            simulation = simulate(module, users.no_jobs())
        rows = [(r.job.id, r.state, r.start, r.finish, str(r.hosts)) for r in simulation.ended]
        found.append((rows, module.scheduler.wishes, qos_rows(module.qos_log)))
    assert repr(found[0]) == repr(found[1])
    outcomes = {each.outcome for each in found[0][1]}
    assert scheduler in ("easy", "priced-queues") or {LEFT, ELSEWHERE} <= outcomes


@pytest.mark.parametrize("release", ["batsim", "batsim5"])
@pytest.mark.parametrize(
    ("scheduler", "settings"),
    [
        ("qops", {"promise_limit": 0.5}),
        ("fqops", KILLS),
        *(pytest.param(*each, marks=pytest.mark.sweep) for each in SCHEDULERS[:2]),
    ],
)
def test_the_real_batsim_gives_the_same_files(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    release: str,
    scheduler: str,
    settings: dict[str, Any],
) -> None:
    request.getfixturevalue(release)
    path = (batsim4() if release == "batsim" else real_batsim5()).required()
    users, platform = some_users(3, days=1), make_cluster(4)
    ours, theirs = (
        run(
            scheduler,
            None,
            platform,
            settings,
            users=users,
            out=str(tmp_path / engine),
            engine=engine,
            batsim=BatsimCall(path=path, log_level="quiet"),
        )
        for engine in ("embedded", "batsim")
    )
    assert ours.violations == theirs.violations == []
    assert files(ours) == files(theirs)
    assert difference((ours, theirs)) == ""
