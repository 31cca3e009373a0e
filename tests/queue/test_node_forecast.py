"""Forecasts of queues whose jobs share nodes: what is simulated, and on which machine."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qops_batsim.core.host_properties import machine_of
from qops_batsim.core.node_request import NodeLayout
from qops_batsim.dates import Calendar
from qops_batsim.job_fields import AskedPart, HostsAsked
from qops_batsim.queue.backtest import simulated_past
from qops_batsim.queue.calibration import LEVELS, WAITS, Correction
from qops_batsim.queue.forecast import Arrivals, Moment, Simulator, moment_of
from qops_batsim.queue.learned import Learned
from qops_batsim.queue.node_rows import NodeRows
from qops_batsim.queue.past import Past, past_of
from qops_batsim.queue.promise import likely_ends
from qops_batsim.queue.queue_quote import QueueAsker
from qops_batsim.queue.queue_state import QueueState, parse_ask
from qops_batsim.queue.source import QueueSource
from qops_batsim.queue.starts import (
    ForecastBasis,
    QueueStarts,
    StartForecast,
    asked_starts,
    queue_starts,
)
from qops_batsim.slurm.nodes import read_nodes
from qops_batsim.slurm.waiting_reasons import WaitKind
from qops_batsim.traces.reading import read_trace
from qops_batsim.workload.accounting import Choices
from support.drawn_queues import GPUS, NODE, gpu_queue, job, runs
from support.node_oracles import EasyFromNow
from support.node_queues import NOW, naive_queue, naive_starts, random_queue
from support.pasts import past

DAY = 86_400.0


def state_of(folder: Path, nodes: str, queue: str) -> QueueState:
    (folder / "nodes.txt").write_text(nodes)
    (folder / "queue.txt").write_text(queue)
    nodes_file = folder / "nodes.txt"
    return QueueSource(folder / "queue.txt", now=float(NOW), nodes_file=nodes_file).state()


def used_up() -> Past:
    """Return a history of three days in which the only job used up its limit."""
    return past(8, [(0.0, 0.0, 3600.0, 3600.0, 1)])


def basis_of(history: Past, scheduler: str = "") -> ForecastBasis:
    return ForecastBasis(history, Calendar(int(NOW - 3 * DAY), "UTC"), scheduler)


def of_one_partition(queue: str) -> str:
    """Return a queue whose jobs ask for the first of their partitions only."""
    return re.sub(r'(Partition=|"partition": ")(\w+)(?:,\w+)+', r"\1\2", queue)


def told(found: QueueStarts) -> dict[str, tuple[float, ...]]:
    """Return planned, early, median and late start of each job (seconds from now), by id."""
    starts: dict[str, tuple[float, ...]] = {}
    for each in found.jobs:
        assert isinstance(each, StartForecast)
        dates = (each.planned, each.early, each.median, each.late)
        starts[each.id] = tuple(math.inf if date is None else date - NOW for date in dates)
    return starts


@pytest.mark.parametrize("first", [0, 15])
def test_if_all_use_up_their_limits_draws_are_the_plan(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 15):
        nodes, queue = random_queue(seed)
        queue = of_one_partition(queue)
        state = state_of(tmp_path, nodes, queue)
        plan = naive_starts(nodes, queue)
        found = queue_starts(state, basis_of(used_up(), "conservative"), draws=3)
        assert found.by_node is True
        assert told(found) == {name: (start,) * 4 for name, start in plan.items()}, seed

        read = naive_queue(nodes, queue)
        jobs = [job for (job,) in read.waiting.values()]
        outcome = EasyFromNow(read.machine, jobs, read.held).run()
        ran = dict(zip(read.waiting, (outcome[place] for place in range(len(jobs))), strict=True))
        by_easy = {name: math.inf if one is None else one.start for name, one in ran.items()}
        found = queue_starts(state, basis_of(used_up()), draws=3)
        assert told(found) == {name: (start,) * 4 for name, start in by_easy.items()}, seed


def test_what_a_back_test_that_counted_has_learned_is_doubted(tmp_path: Path) -> None:
    state = state_of(tmp_path, *random_queue(1))
    moved = [Correction(wait, (0.0,) * len(LEVELS)) for wait in WAITS]
    for by_node, count in ((False, 1), (True, 0)):
        learned = Learned(corrections=moved, by_node=by_node)
        basis = basis_of(used_up())._replace(learned=learned)
        warnings = queue_starts(state, basis, draws=3).warnings
        assert sum("counted processors" in each for each in warnings or ()) == count


def half_used() -> Past:
    """Return a history of three days in which the only job used half of its limit."""
    return past(8, [(0.0, 0.0, 1800.0, 3600.0, 1)])


def test_jobs_wait_for_gpus_of_nodes_though_cores_are_free(tmp_path: Path) -> None:
    state = state_of(tmp_path, GPUS, gpu_queue(state_reason="Resources"))
    found = queue_starts(state, basis_of(half_used()), draws=10)
    assert told(found) == {
        "20": (1800.0, 600.0, 600.0, 600.0),
        "21": (3600.0, 1500.0, 1500.0, 1500.0),
        "22": (0.0, 0.0, 0.0, 0.0),
    }
    assert not found.unexplained
    assert str(found.jobs[0].lacks).endswith("now 0; job 12 on n2")


def test_new_jobs_wait_for_amounts_of_nodes(tmp_path: Path) -> None:
    state = state_of(tmp_path, GPUS, gpu_queue())
    asks = [parse_ask(text) for text in ("1x1h", "1x10m,gpus=2", "1x10m,gpus=1,partition=gpu")]
    basis = basis_of(half_used())
    found = asked_starts(state, asks, basis, draws=10)
    assert found.is_forecast
    medians = [each.median - NOW for each in found.jobs if isinstance(each, StartForecast)]
    # The last one ends before 21 starts, so it may go ahead of it; the other may not.
    assert [found.jobs[-1].id, *medians] == ["1x10m,gpus=1,partition=gpu", 0.0, 1800.0, 600.0]

    asker = QueueAsker(state)
    answers = [asker.ask(ask) for ask in asks]
    ends = likely_ends(state, basis, asks, answers, draws=10)
    assert [end.response for end in ends] == [3600.0, 1800.0 + 600.0, 600.0 + 600.0]


def test_a_wait_for_resources_that_the_scheduler_would_end_now_has_no_date(tmp_path: Path) -> None:
    # n1 has 2 of 8 cores free until 20, n2 until 30. 30 asks for all of n1, 31 for all of n2; 32
    # for 2 cores of n2 for 45 min, which delays 31 and not 30: EASY starts it now.
    nodes = "".join(
        NODE.format(name=name, used=6, gres="(null)", partitions="cpu") for name in ("n1", "n2")
    )
    running = [runs(20, "n1", job(11, 6, minutes=30)), runs(30, "n2", job(12, 6, minutes=40))]
    waiting = [
        job(30, 8, required_nodes="n1"),
        job(31, 8, required_nodes="n2"),
        job(32, 2, minutes=45, required_nodes="n2", state_reason="Resources"),
    ]
    queue = json.dumps({"meta": {}, "jobs": [*running, *waiting]})
    state = state_of(tmp_path, nodes, queue)
    assert [job.no_date for job in queue_starts(state).jobs] == [None] * 3
    found = queue_starts(state, basis_of(used_up()), draws=3)
    assert [job.no_date for job in found.jobs] == [None, None, WaitKind.THOUGH_IT_FITS]
    assert found.unexplained[0].job == "32"


def test_slurm_keeps_nodes_whole_for_jobs_that_it_plans(tmp_path: Path) -> None:
    # Of 8 cores 6 are free, all from 20 on. 30 asks for 7 of them; 31 for one, which is free beside
    # it, but Slurm keeps the node whole for 30 until that starts.
    nodes = NODE.format(name="n1", used=2, gres="(null)", partitions="cpu")
    jobs = [runs(20, "n1", job(11, 2)), job(30, 7, minutes=60), job(31, 1, minutes=60)]
    state = state_of(tmp_path, nodes, json.dumps({"meta": {}, "jobs": jobs}))
    starts = []
    for scheduler, settings in (("slurm", {}), ("slurm", {"whole_nodes": False}), ("easy", {})):
        basis = ForecastBasis(scheduler=scheduler, settings=settings)
        found = queue_starts(state, basis)
        assert (found.scheduler, found.by_node, found.is_forecast) == (scheduler, True, False)
        starts.append([(each.planned or 0.0) - NOW for each in found.jobs])
    assert starts == [[1200.0, 1200.0], [1200.0, 0.0], [1200.0, 0.0]]


ONE_GPU = machine_of([{"cores": "4", "gpus": "1"}] * 2, ["n1", "n2"])


def with_nodes(jobs: Past, *gpus: int) -> Past:
    """Return a past whose jobs ask for so many GPUs, one by node, and for cores."""
    asked = [
        HostsAsked(parts=(AskedPart(hosts=max(count, 1), amounts={"cores": 1, **gpu}),))
        for count in gpus
        for gpu in ({"gpus": 1} if count else {},)
    ]
    return jobs._replace(nodes=NodeRows(NodeLayout(ONE_GPU), asked))


@pytest.mark.parametrize(("gpus", "late"), [(1, 125.0), (0, 100.0)])
def test_past_jobs_come_with_their_amounts(gpus: int, late: float) -> None:
    # a has the GPU of n1 until 100; b waits for both. d comes at 35 and runs beyond its limit.
    rows = [(0.0, 0.0, 60.0, 100.0, 1), (5.0, 30.0, 20.0, 60.0, 1), (10.0, 60.0, 40.0, 80.0, 2)]
    jobs = with_nodes(past(8, rows), 1, gpus, 2)
    moment = Moment(30.0, jobs.nodes.place(np.array([0])), np.array([2]))  # type: ignore[union-attr]
    nothing = np.arange(0)
    coming = Arrivals(np.array([1]), 30.0, np.array([90.0]), nothing, nothing)
    starts = Simulator(jobs).starts(moment, np.array([70.0, 40.0]), coming)
    assert starts.tolist() == [late]


def test_jobs_of_a_log_run_where_they_fit_and_the_last_are_left_out() -> None:
    # Two GPUs, three jobs that have one each: the last started is none of the moment.
    jobs = with_nodes(past(8, [(0.0, float(at), 60.0, 60.0, 1) for at in (1, 3, 2)]), 1, 1, 1)
    moment = moment_of(jobs, 10.0)
    assert moment.running.tolist() == [0, 2]
    assert jobs.nodes is not None
    assert {row: held.listed() for row, held in jobs.nodes.held.items()} == {
        0: [(0, 1)],
        2: [(1, 1)],
    }


def test_simulated_jobs_run_where_the_simulation_had_them() -> None:
    rng = np.random.default_rng(2)
    dates = np.sort(rng.uniform(0, 3000, 80))
    rows = [(date, np.nan, float(rng.integers(20, 90)), 100.0, 1) for date in dates.tolist()]
    jobs = with_nodes(past(8, rows), *rng.integers(0, 3, 80).tolist())
    ran = simulated_past(jobs)
    assert np.isfinite(ran.starts).all()
    for now in np.linspace(100, 2900, 40).tolist():
        running = np.flatnonzero((ran.starts <= now) & (ran.ends > now))
        assert sorted(moment_of(ran, now).running.tolist()) == running.tolist()


def test_a_back_test_goes_node_by_node(cli: Any, tmp_path: Path) -> None:
    # Each job asks for 2 GPUs of a node, for as long as its limit, so that jobs start in turn: the
    # forecast is exact. Of 16 cores they have one each, so that by processors no job ever waits.
    rng = np.random.default_rng(4)
    columns = "JobID|User|Partition|State|Submit|Start|End|ElapsedRaw|AllocCPUS|AllocNodes"
    rows = [f"{columns}|ReqTRES|AllocTRES|Timelimit"]
    arrivals = NOW + np.cumsum(rng.exponential(1000.0, 400)).astype(int)
    for number, date in enumerate(arrivals.tolist(), 1):
        dates = [datetime.fromtimestamp(date + more).isoformat() for more in (0, 60, 1860)]
        tres = "cpu=1,mem=1G,node=1,gres/gpu=2"
        told = [str(number), "u", "gpu", "COMPLETED", *dates, "1800", "1", "1", tres, tres]
        rows.append("|".join([*told, "30:00"]))
    log, nodes = tmp_path / "sacct.txt", tmp_path / "nodes.txt"
    log.write_text("\n".join(rows) + "\n")
    nodes.write_text(GPUS)
    numbers = ["--starts", "simulated", "--moments", "10", "--draws", "10", "--json"]
    done = cli("queue", "backtest", log, "--nodes", nodes, *numbers)
    assert done.exit_code == 0, done.err
    found = json.loads(done.out)
    assert (found["by_node"], found["forecasts"] > 10) == (True, True)
    assert (found["median_error"], found["of_plan"], found["coverage_80"]) == (0.0, 0.0, 100.0)

    counted = cli("queue", "backtest", log, "--processors", "16", *numbers)
    assert "no job ever waits in this history" in counted.err


def test_a_history_tells_amounts_and_nodes(tmp_path: Path) -> None:
    rows = [
        "JobID|User|Partition|State|Submit|Start|End|ElapsedRaw|AllocCPUS|AllocNodes|ReqTRES|NodeList",
        f"1|u|gpu|COMPLETED|{at(0)}|{at(60)}|{at(3660)}|3600|2|1|cpu=2,mem=1G,node=1|n2",
        f"3|u|gpu|COMPLETED|{at(3)}|{at(70)}|{at(3670)}|3600|16|2|cpu=16,node=2|n[1-2]",
        f"2|u|gpu|CANCELLED by 1|{at(2)}|Unknown|{at(900)}|0|0|0|cpu=4,node=1,gres/gpu=2|",
    ]
    log, nodes = tmp_path / "sacct.txt", tmp_path / "nodes.txt"
    log.write_text("\n".join(rows) + "\n")
    nodes.write_text(GPUS)
    listed = read_nodes(nodes)
    choices = Choices(by="amounts", nodes=listed, time_zone="UTC")
    machine = listed.machine_of(["gpu"])
    jobs = past_of(read_trace(log, accounting=choices, time_zone="UTC"), machine)
    assert jobs.nodes is not None
    assert jobs.widths.tolist() == [2, 4, 16]
    (part,) = jobs.nodes.asked[1].parts
    assert (part.hosts, part.amounts) == (1, {"cores": 4, "gpus": 2})
    # Job 1 was on n2, though it fits on n1. Job 3 does not fit beside it.
    moment = moment_of(jobs, 100.0)
    assert (moment.running.tolist(), moment.waiting.tolist()) == ([0], [1])
    assert jobs.nodes.held[0].listed() == [(1, 1)]


def at(seconds: float) -> str:
    return datetime.fromtimestamp(NOW + seconds, UTC).isoformat()[:19]
