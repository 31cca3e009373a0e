"""Deadline schedulers of compiled classes against those by kernels, in everything that is told."""

from __future__ import annotations

import itertools
import random
from typing import Any

import msgspec
import pytest

from qops_batsim.core.job import Job
from qops_batsim.engine.options import EngineOptions
from qops_batsim.platform.generate import make_cluster
from qops_batsim.running.simulate import simulate
from qops_batsim.schedulers.foresight import Foresight
from qops_batsim.schedulers.fqops import Fqops
from qops_batsim.schedulers.mrt import Mrt
from qops_batsim.schedulers.msb import Msb
from qops_batsim.schedulers.qops import Qops
from qops_batsim.scheduling.admission.foresight import Foresight as FormerForesight
from qops_batsim.scheduling.admission.fqops import Fqops as FormerFqops
from qops_batsim.scheduling.admission.mrt import Mrt as FormerMrt
from qops_batsim.scheduling.admission.msb import Msb as FormerMsb
from qops_batsim.scheduling.admission.qops import Qops as FormerQops
from qops_batsim.workload.model import Workload
from support.random_outages import HOSTS, random_events, random_workload
from support.scheduler_module import SchedulerModule

KINDS: dict[str, tuple[Any, Any, list[dict[str, Any]]]] = {
    "qops": (
        Qops,
        FormerQops,
        [
            {},
            {"order": "earliest_deadline", "headroom": 0.3},
            {"k_factor": 1, "undo": "starting_later"},
            {"k_factor": 20, "undo": "all", "new_job": "first"},
            {"on_failure": "reject", "new_job": "first", "insertion": "last"},
            {"insertion": "best", "best_by": "slack"},
            {"insertion": "best", "best_by": "response"},
            {"run_times": "predicted"},
        ],
    ),
    "msb": (
        Msb,
        FormerMsb,
        [
            {},
            {"price": "delays", "fairness": True},
            {"order": "least_laxity"},
            {"order": "earliest_deadline", "price": "delays"},
        ],
    ),
    "mrt": (
        Mrt,
        FormerMrt,
        [{}, {"order": "earliest_deadline", "max_backtracks": 40}, {"max_backtracks": 0}],
    ),
    "fqops": (
        Fqops,
        FormerFqops,
        [
            {},
            {"tolerance_factor": 4.0, "slack_factor": 2.0},
            {"tolerance": "random", "tolerance_factor": 3.0, "seed": 5, "retry_count": 4},
            {"tolerance_factor": 3.0, "insertion": "best", "headroom": 0.2},
            {"tolerance_factor": 2.0, "run_times": "predicted"},
            {"kill_and_restart": True},
            {"kill_and_restart": True, "max_kills_per_job": 1, "kill_after": 5.0, "headroom": 0.2},
            {"kill_and_restart": True, "tolerance_factor": 3.0, "run_times": "predicted"},
        ],
    ),
    "foresight": (
        Foresight,
        FormerForesight,
        [
            {},
            {"weight": 0.0, "urgent": 1800.0, "memory": 7200.0},
            {"worth": "charge", "admission_price": 4.0, "memory": 3600.0},
            {"urgent": 1e6, "admission_price": 20.0, "placement_price": 0.5, "blocking": 0.6},
            {"headroom": 0.1, "k_factor": 1, "run_times": "predicted"},
            {"kill_and_restart": True, "restart_price": 9.0},
            {"kill_and_restart": True, "restart_price": 1e6, "max_kills_per_job": 2},
            {"kill_and_restart": True, "max_waste": 400.0, "run_times": "predicted"},
        ],
    ),
}


def with_users(workload: Workload, rng: random.Random) -> Workload:
    """Return a workload whose jobs have users."""
    jobs = []
    for job in workload.jobs:
        fields = {**job.fields, "user": rng.choice(["ann", "bob"])}
        jobs.append(Job.from_fields(fields, where="here"))
    return Workload(jobs=jobs, profiles=workload.profiles, processors=HOSTS)


def told(module: Any, workload: Workload, events: Any) -> dict[str, Any]:
    """Return everything that a run tells."""
    module.keep_decisions()
    # With profiles an engine speaks in messages, which the module hears, not the scheduler.
    dynamic = module.needs.dynamic_jobs
    engine = EngineOptions(
        forward_profiles=isinstance(module, SchedulerModule) or dynamic,
        dynamic_jobs=dynamic,
        profile_reuse=dynamic,
    )
    done = simulate(
        module,
        workload,
        make_cluster(HOSTS),
        events=events,
        engine=engine,
        allow_smaller_machine=True,
    )
    ends = [
        (
            each.job.id,
            each.state,
            repr(float(each.start)),
            repr(float(each.finish)),
            str(each.hosts),
        )
        for each in done.ended
    ]
    return {
        "ends": ends,
        "qos": [module.qos_log.columns(), *module.qos_log.rows()],
        "metadata": [each.metadata for each in done.ended],
        "decisions": list(module.decision_log.events()),
    }


CASES = [(name, place) for name, (_, _, all_) in KINDS.items() for place in range(len(all_))]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("name", "place"), CASES)
def test_everything_is_as_before(name: str, place: int, seed: int) -> None:
    kind, former, settings = KINDS[name]
    rng = random.Random(f"{name} {place} {seed}")
    workload = with_users(random_workload(rng, deadlines=True), rng)
    events = random_events(rng, workload) if seed % 2 else ()
    options = msgspec.convert(settings[place], former.Options)
    scheduler = kind(msgspec.convert(settings[place], kind.Options))
    module = SchedulerModule(scheduler, lambda: scheduler.plan.check())
    expected, found = told(former(options), workload, events), told(module, workload, events)
    for what in found:
        for one, other in itertools.zip_longest(found[what], expected[what]):
            assert one == other, what
