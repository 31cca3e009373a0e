"""Slack-based backfilling of compiled classes against that by kernels, in everything told."""

from __future__ import annotations

import itertools
import random
from typing import Any

import msgspec
import pytest

from qops_batsim.core.job import Job
from qops_batsim.engine.options import EngineOptions
from qops_batsim.errors import SimulationError
from qops_batsim.platform.generate import make_cluster
from qops_batsim.running.simulate import simulate
from qops_batsim.schedulers.slack import Slack
from qops_batsim.scheduling.slack.scheduler import Slack as FormerSlack
from qops_batsim.workload.model import Workload
from support.random_outages import HOSTS, random_events, random_workload
from support.scheduler_module import SchedulerModule

SETTINGS: list[dict[str, Any]] = [
    {},
    {"average_wait": 20.0, "slack_factor": 9.0, "fairness_weight": 0.0},
    {"slack_factor": 0.0, "early_gain": "promise"},
    {"average_wait": 30.0, "early_gain": "promise"},
    {"average_wait": 40.0, "slack_factor": 1.0, "on_overrun": "extend", "removal": "null_job"},
    {"average_wait": 40.0, "on_overrun": "kill"},
    {"on_overrun": "extend", "early_gain": "promise", "removal": "compression"},
    {"heuristic": "ascending_arrival_time", "average_wait": 10.0},
    {"heuristic": "descending_utilization", "average_wait": 10.0},
    {"heuristic": "descending_cost", "average_wait": 10.0},
    {"heuristic": "descending_priority", "average_wait": 10.0},
    {"heuristic": "exhaustive", "average_wait": 10.0, "exhaustive_up_to": 4},
    {
        "average_wait_source": "learned",
        "average_wait_window": 60.0,
        "average_wait_edges": (5.0, 20.0),
        "average_wait": 5.0,
    },
    {"utilization_weight": 0.3, "time_weight": 0.5, "priority_weight": 0.7, "average_wait": 15.0},
]


def with_priorities(workload: Workload, rng: random.Random) -> Workload:
    """Return a workload with priorities, and jobs that nothing ends."""
    jobs = []
    for job in workload.jobs:
        asked = {} if job.qos is None else dict(job.fields["qos"])
        if rng.random() < 0.6:
            asked["user_priority"] = rng.choice([0.0, 0.3, 1.0])
        if rng.random() < 0.4:
            asked["political_priority"] = rng.choice([0.0, 0.5, 1.0, None])
        fields = {**job.fields, "qos": asked}
        if rng.random() < 0.2:
            fields.pop("walltime", None)
        jobs.append(Job.from_fields(fields, where="here"))
    return Workload(jobs=jobs, profiles=workload.profiles, processors=HOSTS)


def told(module: Any, workload: Workload, events: Any, latency: float) -> list[Any]:
    """Return everything that a run tells, or why it failed: hosts may leave before a start."""
    # With profiles an engine speaks in messages, which the module hears, not the scheduler.
    engine = EngineOptions(forward_profiles=True)
    cluster = make_cluster(HOSTS, bandwidth=1e9, latency=latency) if latency else None
    machine = cluster or make_cluster(HOSTS)
    try:
        done = simulate(
            module, workload, machine, events=events, engine=engine, allow_smaller_machine=True
        )
    except SimulationError as error:
        return [str(error)]
    ends = [
        (each.job.id, each.state, repr(float(each.start)), str(each.hosts), each.metadata)
        for each in done.ended
    ]
    ends += [repr(float(each.finish)) for each in done.ended]
    return [*ends, module.qos_log.columns(), *module.qos_log.rows()]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("place", range(len(SETTINGS)))
def test_everything_is_as_before(place: int, seed: int) -> None:
    rng = random.Random(f"{place} {seed}")
    workload = with_priorities(random_workload(rng, deadlines=seed % 3 == 0), rng)
    events = random_events(rng, workload) if seed % 2 else ()
    latency = rng.choice([1e-4, 1e-3, 5e-3]) if seed > 3 else 0.0
    scheduler = Slack(msgspec.convert(SETTINGS[place], Slack.Options))
    former = FormerSlack(msgspec.convert(SETTINGS[place], FormerSlack.Options))
    found = told(SchedulerModule(scheduler), workload, events, latency)
    expected = told(former, workload, events, latency)
    for one, other in itertools.zip_longest(found, expected):
        assert one == other
