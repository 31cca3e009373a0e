"""The plan of a queue node by node, against a naive planner that reads the same text."""

from __future__ import annotations

import json
import math
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qops_batsim.errors import InputError
from qops_batsim.queue.queue_quote import QueueAsker
from qops_batsim.queue.queue_state import Ask, parse_ask
from qops_batsim.queue.source import QueueSource
from qops_batsim.queue.starts import asked_starts, node_variants, queue_starts
from qops_batsim.queue.unexplained_waits import why_no_date
from qops_batsim.slurm.waiting_reasons import WaitKind
from support.drawn_queues import NODE, job, runs
from support.node_oracles import NodeJob, Part
from support.node_queues import NOW, naive_starts, random_queue


def source_of(folder: Path, nodes: str, queue: str, **more: Any) -> QueueSource:
    """Return a queue and its nodes as read from files."""
    (folder / "nodes.txt").write_text(nodes)
    (folder / "queue.txt").write_text(queue)
    nodes_file = folder / "nodes.txt"
    return QueueSource(folder / "queue.txt", now=float(NOW), nodes_file=nodes_file, **more)


def starts_of(folder: Path, nodes: str, queue: str) -> dict[str, float]:
    """Return the starts of waiting jobs by limits (seconds from now; infinite: none), by id."""
    found = queue_starts(source_of(folder, nodes, queue).state())
    assert found.by_node is True
    return {
        job.id: math.inf if job.planned is None else job.planned - found.now for job in found.jobs
    }


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_starts_are_those_of_a_naive_planner_of_the_same_text(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 20):
        nodes, queue = random_queue(seed)
        assert starts_of(tmp_path, nodes, queue) == naive_starts(nodes, queue), seed


@pytest.mark.parametrize("may_wait", [False, True])
def test_promises_lie_between_those_without_and_behind_all_waiting_jobs(
    tmp_path: Path, may_wait: bool
) -> None:
    asked = sooner = 0
    for seed in range(100, 130):
        nodes, queue = random_queue(seed)
        asker = source_of(tmp_path, nodes, queue, may_wait=may_wait).asker()
        for count, minutes in ((1, 5), (6, 30), (16, 3)):
            part = Part(count, {"cores": 1}, tasks=count)
            bounds = naive_starts(nodes, queue, NodeJob((part,), 60 * minutes))
            # Behind jobs that never start no end is planned.
            if count > asker.state.processors or math.isinf(bounds["new"]):
                continue
            answer = asker.ask(Ask(processors=count, time=60.0 * minutes))
            assert answer.wait is not None
            asked += 1
            sooner += answer.wait < bounds["new"]
            # The earliest end is found up to a minute, or a hundredth.
            assert bounds["alone"] <= answer.wait <= bounds["new"] * 1.01 + 60, (seed, count)
    assert asked > 60
    # The others keep the ends that are planned for them, unless they may wait.
    assert (sooner > 10) == may_wait


# Two nodes of 8 cores, with 4 GPUs on n2 (times in minutes from now):
#
#   n1 |11: 6 cores, until 20     |      n2 |12: 2 cores, 3 GPUs, until 10 |
#      |2 cores are free          |         |6 cores, 1 GPU are free       |
#
# 20 asks for 2 GPUs: at 10, on n2. 21 asks for 4 cores and no GPU: now, on n2. 22 asks for both
# nodes alone, behind all of these.
NODES = NODE.format(name="n1", used=6, gres="(null)", partitions="cpu") + NODE.format(
    name="n2", used=2, gres="gpu:4", partitions="cpu,gpu"
)


RUNNING = [runs(20, "n1", job(11, 6)), runs(10, "n2", job(12, 2, 3))]


def queue_of(*jobs: dict[str, Any]) -> str:
    return json.dumps({"meta": {}, "jobs": [*RUNNING, *jobs]})


def test_a_job_waits_for_the_gpus_of_a_node_and_is_told_who_holds_them(tmp_path: Path) -> None:
    alone = {"node_count": 2, "max_nodes": 2, "shared": "none", "tasks": 2}
    waiting = [
        job(20, 2, 2, state_reason="Resources"),
        job(21, 4, minutes=5),
        job(22, 2, **alone, tres_req_str="cpu=2,mem=2000M,node=2"),
    ]
    found = queue_starts(source_of(tmp_path, NODES, queue_of(*waiting)).state())
    starts = {each.id: (each.planned or math.inf) - NOW for each in found.jobs}
    assert starts == {"20": 600.0, "21": 0.0, "22": 2400.0}
    first = found.jobs[0]
    assert "1 host has 2 gpus free only from" in str(first.lacks)
    assert str(first.lacks).endswith("now 0; job 12 on n2")
    assert found.jobs[1].lacks is msgspec.UNSET


def test_a_wait_for_resources_that_nodes_do_not_explain_has_no_date(tmp_path: Path) -> None:
    waiting = [job(20, 1, state_reason="Resources"), job(21, 4)]
    found = queue_starts(source_of(tmp_path, NODES, queue_of(*waiting)).state())
    assert [(each.id, each.no_date) for each in found.jobs] == [
        ("20", WaitKind.THOUGH_IT_FITS),
        ("21", WaitKind.BEHIND),
    ]
    (wait,) = found.unexplained
    assert wait.nodes == ["n1"]
    assert "though n1 would have them" in why_no_date(wait)


def test_a_new_job_may_ask_for_gpus_and_is_compared_with_variants(tmp_path: Path) -> None:
    source = source_of(tmp_path, NODES, queue_of())
    state = source.state()
    assert state.nodes is not None
    ask = parse_ask("4x30m,gpus=2,memory=4GB")
    asks = node_variants(ask, state.nodes.partitions)
    found = asked_starts(state, asks)
    assert {each.id: (each.planned or math.inf) - NOW for each in found.jobs} == {
        "4x30m,gpus=2,memory=4GB": 600.0,
        "4x30m,gpus=2,memory=4GB,partition=cpu": 600.0,
        "4x30m,gpus=2,memory=4GB,partition=gpu": 600.0,
        "4x30m,gpus=1,memory=4GB": 0.0,
        "4x30m,gpus=2,memory=2GB": 600.0,
        "2x30m,gpus=2,memory=4GB": 600.0,
        "4x15m,gpus=2,memory=4GB": 600.0,
    }
    asker = source.asker()
    assert asker.ask(ask).wait == 600.0
    assert asker.ask(parse_ask("4x30m,gpus=1")).wait == 0.0
    assert asker.ask(parse_ask("16x30m,nodes=2")).wait == 1200.0
    assert asker.ask(parse_ask("2x30m,partition=gpu")).wait == 0.0
    refused = asker.ask(parse_ask("1x1h,gpus:v100=1"))
    assert refused.end is None
    assert refused.reason == "asks for 1 gpus:v100, which no host has"
    with pytest.raises(InputError, match="partition is 'fast'; one of cpu, gpu is expected"):
        asker.ask(parse_ask("1x1h,partition=fast"))


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("4x1h,gpus", "nodes=N, gpus=N"),
        ("4x1h,gpus=x", "nodes=N, gpus=N"),
        ("4x1h,partition=", "nodes=N, gpus=N"),
        ("4x1h,memory=much", "memory in 4x1h,memory=much"),
        ("4x1h,nodes=5", "at most 4 is accepted"),
    ],
)
def test_what_no_job_asks_for_is_one_error(text: str, accepted: str) -> None:
    with pytest.raises(InputError, match=accepted):
        parse_ask(text)


def test_amounts_can_be_asked_for_where_they_are_planned(tmp_path: Path) -> None:
    path = tmp_path / "queue.json"
    path.write_text(json.dumps({"processors": 8, "now": NOW, "jobs": []}))
    asker = QueueSource(path).asker()
    with pytest.raises(InputError, match="asks for gpus, but .* is planned by processors"):
        asker.ask(parse_ask("4x1h,gpus=1"))


@pytest.mark.parametrize("reason", ["DRAIN", "DOWN", "MAINTENANCE"])
def test_nodes_that_are_away_have_no_jobs(tmp_path: Path, reason: str) -> None:
    away = NODES.replace("State=MIXED", f"State=MIXED+{reason}", 1)
    assert starts_of(tmp_path, away, queue_of(job(20, 2), job(21, 2, 2), job(22, 7))) == {
        "20": 0.0,
        "21": 600.0,
        "22": 2400.0,
    }


def test_a_node_that_comes_back_is_waited_for(tmp_path: Path) -> None:
    until = datetime.fromtimestamp(NOW + 900).isoformat()
    away = NODES.replace("State=MIXED Weight=1", f"State=IDLE+DRAIN ResumeAfterTime={until}", 1)
    queue = json.dumps({"meta": {}, "jobs": [RUNNING[1], job(20, 8), job(21, 8, partition="gpu")]})
    assert starts_of(tmp_path, away, queue) == {"20": 600.0, "21": 2400.0}


def test_memory_that_slurm_does_not_count_limits_nothing(tmp_path: Path) -> None:
    queue = queue_of(job(20, 2, memory_per_node=16_000))
    assert starts_of(tmp_path, NODES, queue) == {"20": 600.0}
    free = NODES.replace("AllocMem=2000", "AllocMem=0")
    assert starts_of(tmp_path, free, queue) == {"20": 0.0}
    (told,) = source_of(tmp_path, free, queue).state().unsure
    assert "without memory" in told


def test_without_amounts_processors_are_counted_as_before(tmp_path: Path) -> None:
    equal = NODES.replace("Partitions=cpu,gpu", "Partitions=cpu").replace("=cpu\n", "=cpu,gpu\n")
    jobs = json.loads(queue_of(job(20, 2, 2, state_reason="Resources")))["jobs"]
    bare = [{k: v for k, v in each.items() if not k.startswith("tres")} for each in jobs]
    state = source_of(tmp_path, equal, json.dumps({"meta": {}, "jobs": bare})).state()
    assert state.nodes is None
    assert queue_starts(state).by_node is msgspec.UNSET

    # Where one job does not tell, nor is any planned by what it tells.
    some = json.dumps({"meta": {}, "jobs": [*jobs[:2], bare[2]]})
    assert source_of(tmp_path, equal, some).state().nodes is None
    with pytest.raises(InputError, match="not one pool"):
        source_of(tmp_path, NODES, some).state()


def test_what_no_nodes_have_has_no_date(tmp_path: Path) -> None:
    state = source_of(tmp_path, NODES, queue_of(job(20, 20))).state()
    assert [each.no_date for each in queue_starts(state).jobs] == [WaitKind.CANNOT_START]


def test_the_command_tells_how_it_plans(cli: Any, tmp_path: Path) -> None:
    source_of(tmp_path, NODES, queue_of(job(20, 2, 2, state_reason="Resources")))
    files = [tmp_path / "queue.txt", "--nodes", tmp_path / "nodes.txt", "--now", str(NOW)]
    done = cli("queue", "starts", *files)
    assert done.exit_code == 0, done.err
    assert "node by node, each job at its earliest fit by priority" in done.out
    assert "job 20 waits for what nodes lack: 1 host has 2 gpus free only from" in done.out
    by_slurm = cli("queue", "starts", *files, "--by-scheduler", "slurm")
    assert "planned by time limits, by slurm, node by node" in by_slurm.out
    what = cli("queue", "starts", *files, "--job", "4x30m,gpus=2", "--what-if", "--json")
    assert [each["id"] for each in json.loads(what.out)["jobs"]][:2] == [
        "4x30m,gpus=2",
        "4x30m,gpus=2,partition=cpu",
    ]
    quoted = cli("queue", "quote", tmp_path / "queue.txt", "4x30m,gpus=1", *files[1:])
    assert "30 min" in quoted.out

    # The jobs of this history ask for cores only, which is told.
    rows = ["JobID|User|Partition|State|Submit|Start|End|ElapsedRaw|AllocCPUS|Timelimit"]
    for number in range(1, 40):
        begin = NOW - 90_000 + 500 * number
        dates = [datetime.fromtimestamp(begin + more).isoformat() for more in (0, 0, 60)]
        rows.append("|".join([str(number), "u", "cpu", "COMPLETED", *dates, "60", "2", "10:00"]))
    (tmp_path / "sacct.txt").write_text("\n".join(rows) + "\n")
    alike = NODES.replace("Partitions=cpu,gpu", "Partitions=cpu").replace("=cpu\n", "=cpu,gpu\n")
    (tmp_path / "nodes.txt").write_text(alike)
    history = ["--history", tmp_path / "sacct.txt", "--draws", "10"]
    forecast = cli("queue", "starts", *files, *history)
    assert forecast.exit_code == 0, forecast.err
    assert "10 simulations by easy, node by node" in forecast.out
    assert "its jobs ask for cores only, since it does not tell more" in forecast.err
    job_20 = json.loads(cli("queue", "starts", *files, *history, "--json").out)["jobs"][0]
    # Counted, six cores would be free for its two: it would start now.
    assert NOW + 1 <= job_20["early"] <= job_20["late"] <= NOW + 600


@pytest.mark.parametrize(
    ("folder", "arguments", "right"),
    [
        ("38-heterogeneous-job-waits", {"machine": 128}, {"20": 3600.0, "30": 0.0}),
        (
            "39-gpu-partition-all-gpus-taken",
            {"nodes_file": "nodes.txt", "selection": {"partition": ["gpu"]}},
            {"20": 32_400.0, "21": 33_000.0},
        ),
        ("40-nodes-away", {"nodes_file": "idle-drain.txt"}, {"20": 3600.0}),
        ("40-nodes-away", {"nodes_file": "maintenance.txt"}, {"20": 3600.0}),
        ("40-nodes-away", {"nodes_file": "not-responding.txt"}, {"20": 3600.0}),
        # Nodes that are powered down are there, and come when a job needs them.
        ("40-nodes-away", {"nodes_file": "powered-down.txt"}, {"20": 0.0}),
    ],
)
def test_queues_that_centres_had(
    shared: Path, folder: str, arguments: dict[str, Any], right: dict[str, float]
) -> None:
    case = shared / "cases" / folder
    if not case.is_dir():
        pytest.skip(f"the shared data have no case {folder}")
    given = dict(arguments)
    if "nodes_file" in given:
        given["nodes_file"] = case / given["nodes_file"]
    state = QueueSource(case / "queue.json", now=1_782_000_000.0, **given).state()
    found = queue_starts(state)
    starts = {each.id: each.planned for each in found.jobs}
    assert starts == {name: 1_782_000_000 + start for name, start in right.items()}
    assert not found.unexplained
    if folder.startswith("39"):
        assert [each.lacks and str(each.lacks).startswith("1 host has") for each in found.jobs]
        # A job without GPUs fits beside those that wait for them.
        answer = QueueAsker(state).ask(Ask(processors=8, time=3600.0))
        assert answer.wait == 0.0


@pytest.mark.parametrize("may_wait", [False, True])
def test_what_failed_before_is_not_tried_again_and_changes_no_answer(
    tmp_path: Path, may_wait: bool
) -> None:
    # An asker remembers what fails whatever is asked, a fresh one for each job has nothing to
    # remember of others, and one that forgets tries everything.
    asks = [
        Ask(processors=count, time=60.0 * minutes, deadline=60.0 * until)
        for count, minutes, until in ((1, 5, 9), (6, 30, 40), (2, 3, 20), (4, 20, 200))
    ]
    asked = admitted = 0
    for seed in range(200, 230):
        nodes, queue = random_queue(seed)
        source = source_of(tmp_path, nodes, queue, may_wait=may_wait)
        state = source.state()
        kept = source.asker()
        forgetful = QueueAsker(state, may_wait=may_wait)
        for ask in asks:
            if ask.processors > state.processors:
                continue
            forgetful._scheduler.failures = None
            answer = kept.ask(ask)
            assert answer == QueueAsker(state, may_wait=may_wait).ask(ask), (seed, ask)
            assert answer == forgetful.ask(ask), (seed, ask)
            asked += 1
            admitted += answer.admitted is True
    assert 10 < admitted < asked
