"""Deadline schedulers that plan with predicted run times: drawn by hand, and against a naive rule.

Run times of jobs are whole seconds, and so are their walltimes, which are their estimates.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import Job, QosRequest, read_run, simulate, verify
from qops_batsim import run as run_files
from qops_batsim.engine import Simulation
from qops_batsim.jobs import COMPLETED_KILLED, REJECTED
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.running import write_run
from qops_batsim.workload import Workload, delay_profile
from support.changed_runs import allow_changes

Many = Callable[[int], range]

Row = tuple[float, int, float, float, float | None, str | None]
"""Arrival, processors, run time, walltime, deadline and user."""

PREDICTED = {"run_times": "predicted"}

RULE = "predicted-run-time"


def workload_of(
    machine: int, rows: list[Row], estimates: dict[str, float] | None = None
) -> Workload:
    jobs, profiles = [], {}
    for number, (arrival, processors, run_time, walltime, deadline, user) in enumerate(rows):
        name, profile = delay_profile(run_time)
        profiles[name] = profile
        estimate = None if estimates is None else estimates[str(number)]
        qos = QosRequest(deadline=deadline, estimated_runtime=estimate)
        job = Job(str(number), arrival, processors, name, walltime, qos)
        if user is not None:
            job.fields["user"] = user
        jobs.append(job)
    return Workload(jobs=jobs, profiles=profiles, processors=machine)


def run(scheduler: str, workload: Workload, **options: Any) -> Simulation:
    module = make_scheduler(scheduler, options)
    return simulate(module, workload, make_cluster(workload.processors))


def starts(done: Simulation) -> dict[str, float | None]:
    return {e.local_id: None if e.state == REJECTED else e.start for e in done.ended}


# One processor, a walltime of 100 each. a and b of one user take 10 s each; c and d come at 25.
#
#   estimated  |aaaaaaaaaabbbbbbbbbb     cccccccccc           d is refused: c may run until 125
#   predicted  |aaaaaaaaaabbbbbbbbbb     ccccccccccddddddd    c is expected to end at 35
#              0         10        20   25        35
HISTORY: list[Row] = [(0, 1, 10, 100, None, "u"), (1, 1, 10, 100, None, "u")]
URGENT: list[Row] = [(25, 1, 10, 100, None, "u"), (26, 1, 7, 100, 50, "u")]


@pytest.mark.parametrize("scheduler", ["qops", "fqops"])
def test_a_prediction_admits_what_the_estimate_refuses(scheduler: str) -> None:
    workload = workload_of(1, HISTORY + URGENT)
    options = {"tolerance_factor": 0.0} if scheduler == "fqops" else {}
    assert starts(run(scheduler, workload, **options))["3"] is None
    assert starts(run(scheduler, workload, **options, **PREDICTED))["3"] == 35


# c takes 30 s instead of 10, so that d, promised by 50, ends at 62. The prediction is outlived at
# 35, and c is expected to end at 125 from then on: e, which asks at 40, is refused.
def test_a_prediction_that_is_outlived_breaks_promises(tmp_path: Path) -> None:
    late: list[Row] = [(25, 1, 30, 100, None, "u"), *URGENT[1:], (40, 1, 7, 100, 90, "u")]
    module = make_scheduler("qops", PREDICTED)
    module.keep_decisions()
    workload = workload_of(1, HISTORY + late)
    done = simulate(module, workload, make_cluster(1))
    found = {each.local_id: each for each in done.ended}
    assert (found["3"].start, found["3"].finish, found["4"].state) == (55, 62, REJECTED)
    write_run(done, tmp_path / "run", scheduler="qops", module=module, workload="w", platform=None)
    result = read_run(tmp_path / "run")
    assert result.decisions is not None
    assert result.decisions.numbers("predicted_run_time").tolist()[2:4] == [10, 10]
    assert not verify(result, workloads={"w0": workload})
    # Without what was predicted the verifier would hold it to the promise.
    text = (tmp_path / "run_qos.csv").read_text()
    broken = ("admitted-deadline", ("w0!3",))
    assert held(tmp_path / "run", text.replace("predicted_run_time", "unknown"), workload) == [
        broken
    ]
    # Nor is it excused by what others than the user's last two jobs took, or was not asked for.
    shorter = text.replace(",10.000000\n", ",1.000000\n", 1)
    assert held(tmp_path / "run", shorter, workload) == [
        broken,
        (RULE, ("w0!2",)),
    ]
    assert set(held(tmp_path / "run", text, workload, run_times="estimated")) == {
        broken,
        *((RULE, (f"w0!{number}",)) for number in (2, 3, 4)),
    }


def held(prefix: Path, qos: str, workload: Workload, **options: Any) -> list[Any]:
    """Return what rules a run breaks, with another ``_qos.csv`` and other options."""
    Path(f"{prefix}_qos.csv").write_text(qos)
    allow_changes(prefix)
    path = Path(f"{prefix}_run.json")
    description = json.loads(path.read_text())
    description["options"] |= options
    path.write_text(json.dumps(description))
    found = verify(read_run(prefix), workloads={"w0": workload})
    return [(each.rule, each.jobs) for each in found]


def test_an_estimate_without_walltime_is_expected_in_full_when_a_prediction_is_outlived() -> None:
    rows: list[Row] = [*HISTORY, (25, 1, 30, 100, None, "u"), (40, 1, 7, 7, 90, "v")]
    workload = workload_of(1, rows)
    plain = [
        Job.from_fields(
            {k: v for k, v in job.fields.items() if k != "walltime"}
            | {
                "qos": {"deadline": job.qos and job.qos.deadline, "estimated_runtime": job.walltime}
            },
            where=job.id,
        )
        for job in workload.jobs
    ]
    workload = Workload(jobs=plain, profiles=workload.profiles, processors=1)
    # As long again as at 35 s would be 45 s.
    assert starts(run("qops", workload, **PREDICTED))["3"] is None


def random_rows(rng: random.Random) -> tuple[int, list[Row]]:
    machine, rows, now = rng.randint(2, 6), list[Row](), 0
    for _ in range(60):
        now += rng.choice([0, 1, 1, 2, 5])
        run_time = rng.randint(2, 12)
        walltime = run_time * rng.choice([1, 2, 5])
        deadline = None if rng.random() < 0.3 else now + walltime * rng.choice([1, 2, 4])
        user = rng.choice(["u", "v", None])
        rows.append((now, rng.randint(1, machine), run_time, walltime, deadline, user))
    return machine, rows


def predictions(done: Simulation, workload: Workload) -> dict[str, float]:
    """Return the mean of the user's last two run times known, at most the walltime, by job."""
    asked = {job.id: job for job in workload.jobs}
    known: list[tuple[float, str | None, float]] = []
    for each in done.ended:
        run_time = float("nan") if each.state == REJECTED else each.finish - each.start
        if (
            each.state not in (REJECTED, COMPLETED_KILLED)
            or run_time == asked[each.local_id.partition("#")[0]].walltime
        ):
            user = asked[each.local_id.partition("#")[0]].user
            known.append((each.finish, user, run_time))
    found = {}
    for job in workload.jobs:
        mine = [t for end, user, t in known if user == job.user and end <= job.submission_time]
        assert job.walltime is not None
        found[job.id] = job.walltime
        if job.user is not None and len(mine) >= 2:
            found[job.id] = min(job.walltime, sum(mine[-2:]) / 2)
    return found


@pytest.mark.parametrize(
    ("scheduler", "options"),
    [
        ("qops", {}),
        ("fqops", {"tolerance_factor": 3.0, "kill_and_restart": True}),
        ("fqops", {"kill_and_restart": True, "restart_price": 9.0}),
    ],
)
def test_predictions_are_estimates(scheduler: str, options: dict[str, Any], many: Many) -> None:
    """Planning with predictions is planning with estimates that the naive rule gives."""
    shorter = kills = 0
    seeds = many(15)
    for seed in seeds:
        machine, rows = random_rows(random.Random(f"{seed} predictions"))
        workload = workload_of(machine, rows)
        done = run(scheduler, workload, **options, **PREDICTED)
        expected = predictions(done, workload)
        told = workload_of(machine, rows, expected)
        shorter += sum(expected[job.id] < (job.walltime or 0) for job in workload.jobs)
        kills += sum("#" in each.local_id for each in done.ended)
        assert starts(done) == starts(run(scheduler, told, **options)), seed
    assert shorter > 8 * len(seeds)
    assert kills > 0 or "kill_and_restart" not in options


@pytest.mark.parametrize("platform", [None, "delays"])
def test_predictions_that_were_not_made_are_seen(tmp_path: Path, platform: str | None) -> None:
    """What is told is what the user's last two runs took; where news is late, about that."""
    shorter = seen = 0
    for seed, kills in product(range(2), (False, True)):
        machine, rows = random_rows(random.Random(f"{seed} predictions"))
        workload, directory = workload_of(machine, rows), tmp_path / f"{seed}{kills}"
        cluster = make_cluster(machine, latency=1e-4, bandwidth=1e9) if platform else None
        settings = {**PREDICTED, "kill_and_restart": kills, "tolerance_factor": 3.0}
        done = run_files("fqops", workload, cluster, settings, out=directory / "run")
        assert not done.violations, seed
        lines = (directory / "run_qos.csv").read_text().splitlines()
        told = {each.split(",")[0]: each.rpartition(",")[2] for each in lines[1:]}
        told = {name: seconds for name, seconds in told.items() if seconds}
        halves = [
            f"{each.rpartition(',')[0]},{float(told[name]) / 2}" if name in told else each
            for each in lines
            for name in [each.split(",")[0]]
        ]
        found = held(directory / "run", "\n".join(halves) + "\n", workload)
        planted = {
            names[0].removeprefix("w0!").partition("#")[0] for rule, names in found if rule == RULE
        }
        shorter, seen = shorter + len(told), seen + len(planted)
        assert planted <= set(told)
    # Some runs end together, and some were killed: which are the last two is known of the others.
    assert shorter > 50
    assert seen > shorter * (0.9 if platform is None else 0.5)
