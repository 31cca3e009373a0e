"""Live decisions about jobs that share nodes: what they hold, where they start, what is kept."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from qops_batsim import read_run, verify
from qops_batsim.core.host_properties import machine_of
from qops_batsim.live import (
    SHADOW,
    JobPhase,
    Journal,
    NodeState,
    ShadowManager,
    SlurmManager,
    Unreachable,
    decided_fates,
)
from qops_batsim.live.as_run import export_run
from qops_batsim.live.centre import journal_queue
from qops_batsim.live.check import check_slurm
from qops_batsim.live.journal_report import report
from qops_batsim.live.slurm_manager import _AMOUNT_COLUMNS, _COLUMNS
from qops_batsim.queue import Ask, QueueSource
from qops_batsim.slurm.host_requests import HostRequests
from qops_batsim.slurm.queued_amounts import QueuedAmounts
from support.fake_manager import FakeJob
from support.live_site import Site

GIB = 1 << 30


def node(labels: str, cores: int = 8, memory: int = 16, gpus: int = 0) -> dict[str, str]:
    told = {"cores": str(cores), "memory": str(memory * GIB), "labels": labels, "weight": "1"}
    return told | ({"gpus": str(gpus), "gpus:a100": str(gpus)} if gpus else {})


NODES = {
    "n1": node("cpu"),
    "n2": node("cpu"),
    "n3": node("cpu,gpu", memory=32, gpus=4),
    "n4": node("gpu", memory=32, gpus=4),
}


def asks(cores: int, memory: int = 1, *, tasks: int = 1, nodes: int = 1, **more: Any) -> Any:
    """Return amounts of so many cores, and GiB on each node, on at most so many nodes."""
    fields = {"totals": {"cores": cores}, "each": {"memory": memory * GIB}, "partitions": ("cpu",)}
    return QueuedAmounts(**{**fields, "tasks": tasks, "nodes": nodes, "most": nodes, **more})


def submit(
    site: Site, amounts: QueuedAmounts, deadline: float | None = None, **job: Any
) -> FakeJob:
    made = site.fake.submit(deadline=deadline, **job)
    made.amounts = amounts
    return made


@pytest.fixture
def shared(tmp_path: Path) -> Site:
    return Site(tmp_path / "journal.db", shared=NODES)


def said(site: Site, word: str) -> list[str]:
    return [text for text in site.fake.said if text.startswith(word)]


# What is started where


def test_starts_go_by_cores_and_memory_of_each_node(shared: Site) -> None:
    """Cores and GiB that are free on n1, n2 and n3 once each job has started:

    n1  8 16 | a 2  2            n2  8 16 | b 3 13 | c 0 12          n3  8 32 | d 8 2 (4 GPUs idle)
    """
    a = submit(shared, asks(6, 14))
    shared.pass_time(2)
    b = submit(shared, asks(5, 3))
    shared.pass_time(2)
    c = submit(shared, asks(3, 1))
    shared.pass_time(2)
    d = submit(shared, asks(1, 30))
    shared.pass_time(2)
    late = submit(shared, asks(2, 20), 4000)
    shared.pass_time(5)
    assert said(shared, "start") == [f"start {a.id} n1", f"start {b.id} n2", f"start {c.id} n2",
                                     f"start {d.id} n3"]  # fmt: skip
    # No other node has 20 GiB; d ends by 5 + 600 + 60 s.
    assert late.phase is JobPhase.WAITING
    assert shared.entry(late.id).promise is not None
    assert shared.entry(late.id).planned - d.start <= 661


def test_cores_of_a_start_are_whole_where_they_have_threads(tmp_path: Path) -> None:
    site = Site(tmp_path / "journal.db", shared={"n1": NODES["n1"] | {"threads": "2"}})
    jobs = [submit(site, asks(3, tasks=3)) for _ in range(3)]
    site.pass_time(3)
    assert [job.cores for job in jobs] == [4, 4, 0]


def test_what_no_nodes_have_is_refused_or_waits(shared: Site) -> None:
    refused = submit(shared, asks(9), 4000)
    waits = submit(shared, asks(1, 33))
    shared.pass_time(3)
    assert refused.told.startswith("refused: asks for 1 host labelled cpu with 9 cores")
    assert waits.phase is JobPhase.WAITING
    assert "the largest has 32" in shared.entry(waits.id).reason


def test_a_refused_job_is_told_what_could_be_promised_on_its_nodes(shared: Site) -> None:
    """Both nodes with GPUs are taken until 660 s; a job that wants three ends by 1320 s."""
    gpus = asks(1, partitions=("gpu",), totals={"cores": 1, "gpus": 3}, each={})
    for _ in range(2):
        submit(shared, gpus)
    shared.pass_time(3)
    began = shared.fake.now
    third = submit(shared, gpus, 700)
    shared.pass_time(3)
    assert "could be promised by" in third.told
    by_hand = began + 1320
    assert shared.centre.date_text(by_hand - shared.centre.about.origin)[:-5] in third.told
    date = datetime.fromisoformat(third.told[-19:]).replace(tzinfo=ZoneInfo("Europe/Berlin"))
    fourth = submit(shared, gpus, date.timestamp() - shared.fake.now)
    shared.pass_time(2)
    assert shared.entry(fourth.id).answer == "promised"


def test_a_user_who_asks_for_more_memory_asks_anew(shared: Site) -> None:
    blocker = submit(shared, asks(8, 16, exclusive=True, nodes=3))
    shared.pass_time(2)
    job = submit(shared, asks(2, 1), 4000)
    shared.pass_time(2)
    job.amounts = asks(2, 20)
    shared.pass_time(2)
    runs = [each for each in shared.journal.entries() if each.job == job.id]
    assert [each.number for each in runs] == [0, 1]
    assert blocker.phase is JobPhase.RUNNING
    shared.pass_time(5)
    assert len([each for each in shared.journal.entries() if each.job == job.id]) == 2


def test_what_no_plan_has_is_an_alarm(shared: Site) -> None:
    job = submit(shared, asks(1, unmodelled=("GPUs by socket",), licences={"matlab": 1}))
    shared.pass_time(3)
    assert [text for _, _, text in shared.journal.notes("alarm")] == [
        f"job {job.id} asks for GPUs by socket, which is not planned",
        f"job {job.id} asks for licences, of which is not told how many there are",
    ]


# Jobs of others


def stranger(site: Site, held: dict[str, dict[str, int]], run_time: float = 100.0) -> FakeJob:
    made = submit(site, asks(1), nodes=len(held), limit=600.0, run_time=run_time)
    made.phase = JobPhase.RUNNING
    made.start = site.fake.now
    made.hosts = tuple(held)
    made.end = site.fake.now + run_time
    made.held = held
    return made


def test_a_job_of_others_holds_what_it_has_on_each_node(shared: Site) -> None:
    """It leaves 3 cores of n1 and 7 of n2, which two jobs fill; one of 4 waits for the end of
    another stranger, on n3.
    """
    stranger(shared, {"n1": {"cores": 5, "memory": GIB}, "n2": {"cores": 1, "memory": GIB}})
    gpus = stranger(shared, {"n3": {"cores": 8, "memory": GIB, "gpus": 1, "gpus:a100": 1}})
    jobs = [submit(shared, asks(cores)) for cores in (7, 3, 4)]
    shared.pass_time(4)
    assert said(shared, "start") == [f"start {jobs[0].id} n2", f"start {jobs[1].id} n1"]
    shared.restart()
    shared.fake.cancel(gpus.id)
    shared.pass_time(4)
    assert said(shared, "start")[2:] == [f"start {jobs[2].id} n3"]


def test_a_node_that_does_not_leave_what_a_job_of_others_holds_is_away(shared: Site) -> None:
    """Our job has 6 cores of n1 when a stranger starts there with 4: n1 is away until it ends."""
    ours = submit(shared, asks(6), run_time=50)
    shared.pass_time(3)
    other = stranger(shared, {"n1": {"cores": 4}, "n2": {"cores": 8}}, run_time=100)
    small = submit(shared, asks(2, partitions=("cpu",), wanted=("n1",)))
    shared.pass_time(70)
    assert ours.phase is JobPhase.ENDED
    assert small.phase is JobPhase.WAITING
    assert shared.entry(other.id).taken == ["n2"]
    shared.pass_time(40)
    assert small.hosts == ("n1",)


# Loss of nodes, and starts again


def test_what_was_named_at_a_start_is_no_wish_after_a_requeue(shared: Site) -> None:
    """Slurm shows a requeued job as one that asks for the node that it was given."""
    job = submit(shared, asks(3, tasks=3, nodes=1, most=0), 4000)
    shared.pass_time(3)
    assert job.hosts == ("n1",)
    promise = shared.entry(job.id).promise
    shared.fake.lose_node("n1")
    shared.pass_time(4)
    assert job.hosts == ("n2",)
    assert [each.number for each in shared.journal.entries()] == [0, 1]
    assert shared.entry(job.id).promise == promise
    shared.restart()
    shared.fake.lose_node("n2")
    shared.pass_time(4)
    assert job.hosts == ("n3",)


def test_a_promise_that_a_drained_node_breaks_is_renewed_and_told(shared: Site) -> None:
    """Both jobs want all of n3, and the second one has 40 s to spare when it is drained."""
    whole = asks(8, 32, wanted=("n3",))
    first, second = (submit(shared, whole, date, run_time=600) for date in (700, 1360))
    shared.pass_time(3)
    shared.fake.states["n3"] = NodeState.AWAY
    shared.pass_time(100)
    assert first.phase is JobPhase.RUNNING
    shared.restart()
    shared.pass_time(600)
    shared.fake.states["n3"] = NodeState.THERE
    shared.pass_time(1000)
    assert second.phase is JobPhase.ENDED
    alarms = [text for _, _, text in shared.journal.notes("alarm")]
    assert len(alarms) == 1
    assert f"job {second.id}: machine lost 1 host" in alarms[0]
    fates = decided_fates(shared.journal.entries())
    assert fates[first.id].end <= fates[first.id].promise


# Kills


def play(path: Path, seed: int, restarts: set[int]) -> tuple[Site, list[Any]]:
    """Let random jobs come, and a node be drained; end the process at some of the 60 steps."""
    drawn = random.Random(seed)
    site = Site(path, shared=NODES)
    for step in range(60):
        for _ in range(drawn.choice((0, 0, 1, 2))):
            partitions = drawn.choice((("cpu",), ("gpu",), ("cpu", "gpu")))
            tasks = drawn.randint(1, 12)
            gpus = {"gpus": drawn.randint(1, 4)} if partitions == ("gpu",) else {}
            memory = {"each": {"memory": drawn.randint(1, 12) * GIB}}
            if drawn.random() < 0.3:
                memory = {"each": {}, "by_core": drawn.randint(1, 3) * GIB}
            amounts = QueuedAmounts(
                nodes=1, tasks=tasks, totals={"cores": tasks} | gpus, partitions=partitions,
                exclusive=drawn.random() < 0.1, **memory,
            )  # fmt: skip
            limit = drawn.choice((60.0, 300.0, 600.0))
            deadline = drawn.choice((None, 500.0, 2000.0, 5000.0))
            run_time = limit * drawn.choice((0.2, 0.7, 1.0))
            submit(site, amounts, deadline, limit=limit, run_time=run_time)
        if seed % 3 == 0 and step in (20, 30):
            site.fake.states["n2"] = (NodeState.AWAY, NodeState.THERE)[step == 30]
        site.pass_time(drawn.choice((5, 20, 60)), 5.0)
        if step in restarts:
            site.restart()
    site.pass_time(20_000, 50.0)
    return site, [message[1:] for message in site.journal.messages()]


@pytest.mark.parametrize("seed", range(6))
def test_kills_change_nothing_and_promises_are_kept(tmp_path: Path, seed: int) -> None:
    """A process that is killed decides to the last bit as one that is not; nothing that starts has
    to wait, and each promise is kept, or its loss is told.
    """
    restarts = {*random.Random(-seed).sample(range(60), 5)}
    site, messages = play(tmp_path / "killed.db", seed, restarts)
    other, others = play(tmp_path / "other.db", seed, set())
    assert messages == others
    alarms = [text for _, _, text in site.journal.notes("alarm")]
    told = {text.split()[1].rstrip(":") for text in alarms if "could not be kept" in text}
    assert len(told) == len(alarms)
    fates = decided_fates(site.journal.entries())
    assert all(fate.is_over for fate in fates.values())
    late = {
        job
        for job, fate in fates.items()
        if fate.promise is not None and (fate.end is None or fate.end > fate.promise + 10)
    }
    assert late <= told
    if seed % 3:
        assert not late
    other.journal.close()
    site.journal.close()


def test_a_journal_of_shared_nodes_is_a_run_a_report_and_a_queue(tmp_path: Path) -> None:
    site, _ = play(tmp_path / "journal.db", 4, {7})
    export_run(site.journal, tmp_path / "run")
    run = read_run(str(tmp_path / "run"))
    assert run.machine == machine_of([*NODES.values()], [*NODES])
    assert verify(run) == []
    found = report(site.journal)
    assert found.decided.promised == found.decided.kept > 10
    assert found.embedded.promised > 10
    for cores in (8, 8, 6):
        submit(site, asks(cores, 1, partitions=("cpu",)))
    site.pass_time(3)
    path = site.path
    source = QueueSource(path, now=site.fake.now, other=journal_queue)
    quote = source.asker().ask(Ask(processors=2, time=60, nodes=1, partition="cpu"))
    wide = source.asker().ask(Ask(processors=3, time=60, nodes=1, partition="cpu"))
    assert quote.wait == 0.0
    assert wide.wait == pytest.approx(657, abs=5)
    site.journal.close()


def test_a_shadow_asks_for_what_its_jobs_ask_for_whatever_they_really_have(tmp_path: Path) -> None:
    """Slurm gives the real job two nodes, by three cores; the shadow has it on one."""
    site = Site(tmp_path / "journal.db", shared=NODES, mode=SHADOW)
    site.journal.close()
    site = Site(tmp_path / "shadow.db", shared=NODES, mode=SHADOW)
    site.fake.shared = NODES
    site.manager = ShadowManager(site.fake)
    (tmp_path / "shadow.db").unlink()
    site.restart()
    job = submit(site, asks(6, tasks=6, most=0), 4000, run_time=100)
    site.pass_time(2)
    assert site.entry(job.id).hosts == ["n1"]
    job.amounts = replace(job.amounts, nodes=2)
    job.phase = JobPhase.RUNNING
    job.start = site.fake.now
    job.hosts = ("n1", "n2")
    job.held = {name: {"cores": 3} for name in job.hosts}
    job.end = site.fake.now + 100
    site.pass_time(5)
    assert [each.number for each in site.journal.entries()] == [0]
    site.pass_time(120)
    assert site.entry(job.id).outcome == "COMPLETED_SUCCESSFULLY"


def test_journals_of_whole_nodes_have_nothing_of_it(site: Site) -> None:
    site.fake.submit(2, deadline=4000)
    site.pass_time(3)
    rows = [
        json.loads(text)
        for table, column in (("about", "value"), ("runs", "entry"), ("seen", "told"))
        for (text,) in site.journal._db.execute(f"SELECT {column} FROM {table}")
        if text.startswith("{")
    ]
    assert len(rows) == 3
    names = {name for row in rows for name in row}
    assert names.isdisjoint({"amounts", "is_named", "request"})
    assert "hosts" not in rows[0]


# Requests


@given(
    nodes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=6),
    tasks=st.integers(1, 20),
    of_task=st.integers(1, 4),
    by_core=st.integers(0, 2),
    least=st.integers(1, 3),
    most=st.integers(0, 6),
)
def test_tasks_go_to_as_few_nodes_as_have_room(
    nodes: list[tuple[int, int]], tasks: int, of_task: int, by_core: int, least: int, most: int
) -> None:
    """Beside counting by hand: each of n nodes has room for an n-th of the tasks, rounded up."""
    least = min(least, tasks)
    asked = QueuedAmounts(
        nodes=least, most=max(least, most) if most else 0, tasks=tasks,
        totals={"cores": tasks * of_task}, by_core=by_core,
    )  # fmt: skip
    part = asked.part_by_host([{"cores": c, "memory": m} for c, m in nodes])

    def rooms(share: int) -> int:
        cores = share * of_task
        return sum(c >= cores and m >= cores * by_core for c, m in nodes)

    able = [
        count
        for count in range(least, (asked.most or tasks) + 1)
        if count <= tasks and rooms(math.ceil(tasks / count)) >= count
    ]
    if able:
        assert part.hosts == able[0]
        share = math.ceil(tasks / able[0]) * of_task
        wanted = {"cores": share, "memory": share * by_core}
        assert part.amounts == {kind: n for kind, n in wanted.items() if n}
    else:
        fitting = sum(
            c >= part.amounts["cores"] and m >= part.amounts.get("memory", 0) for c, m in nodes
        )
        assert fitting < part.hosts


def test_gpus_of_a_job_may_all_be_on_one_of_its_nodes() -> None:
    """Slurm has given 4 and 1 of five, and 2 and 2 of four."""
    hosts = [{"cores": 8, "gpus": 4}] * 2
    asked = QueuedAmounts(nodes=1, tasks=4, totals={"cores": 4, "gpus": 5})
    part = asked.part_by_host(hosts)
    assert (part.hosts, part.amounts) == (2, {"cores": 2, "gpus": 4})
    none = replace(asked, totals={"cores": 4, "gpus": 9}).part_by_host(hosts)
    assert (none.hosts, none.amounts["gpus"]) == (1, 9)


def test_cores_of_several_threads_are_given_whole() -> None:
    """As Slurm has given them: 4 for 3, 4 and 4 for 7 on two nodes, 6 for two tasks of 3."""
    hosts = [{"cores": 16}] * 2
    for tasks, cores, nodes, given_each in ((3, 3, 1, 4), (7, 7, 2, 4), (2, 6, 1, 6)):
        asked = QueuedAmounts(nodes=nodes, tasks=tasks, totals={"cores": cores})
        assert asked.part_by_host(hosts, 2).amounts == {"cores": given_each}


def test_a_job_of_several_partitions_is_in_one_unless_it_is_on_one_node() -> None:
    machine = machine_of([*NODES.values()], [*NODES])
    requests = HostRequests(machine)
    both = asks(4, tasks=4, partitions=("cpu", "gpu"))
    (one,), _ = requests.of((both,), by_host=True)
    assert one.parts[0].labels == ()
    two, _ = requests.of((replace(both, nodes=2, most=2),), by_host=True)
    assert [asked.parts[0].labels for asked in two] == [("cpu",), ("gpu",)]
    (named,), _ = requests.of((asks(4, wanted=("n1", "n3"), nodes=3, tasks=3),), by_host=True)
    assert [(part.hosts, part.labels) for part in named.parts] == [
        (2, ("hosts:0 2",)),
        (1, ("hosts:1",)),
    ]


def test_what_is_not_planned_of_a_job_is_counted_once() -> None:
    """However many partitions it may start in."""
    requests = HostRequests(machine_of([*NODES.values()], [*NODES]))
    requests.of((asks(4, partitions=("cpu", "gpu"), features="ib*2"),))
    assert requests.unsure == {"ask for features in a way that is not planned": 1}


# What Slurm says and is told


class Squeue:
    """A Slurm that tells rows of squeue, and records as JSON."""

    select = "CR_CORE_MEMORY"

    def __init__(self, *jobs: dict[str, Any]) -> None:
        self.jobs = jobs
        self.asked: list[str] = []

    def __call__(self, command: Sequence[str], form: str) -> str:
        self.asked.append(" ".join(command))
        if command[0] == "squeue" and "--json" in command:
            return json.dumps({"errors": [], "jobs": [job["json"] for job in self.jobs]})
        if command[0] == "squeue":
            usual = dict.fromkeys((*_COLUMNS, *_AMOUNT_COLUMNS), "")
            usual |= {"NumNodes": "1", "TimeLimit": "1:00", "SubmitTime": "1", "RestartCnt": "0"}
            usual |= {"Nice": "0", "PriorityLong": "1", "Reason": "None", "Requeue": "1"}
            usual |= {"StartTime": "N/A", "EndTime": "N/A", "deadline": "N/A"}
            columns = [each.partition(":0")[::2] for each in form.split(",")]
            rows = [usual | job["row"] for job in self.jobs]
            return "".join("".join(row[name] + end for name, end in columns) for row in rows)
        return {
            "config": f"SelectType = select/cons_tres\nSelectTypeParameters = {self.select}\n",
            "node": "\n".join(
                f"NodeName={name} CPUAlloc=0 CPUTot=8 Gres=(null) State=IDLE RealMemory=100 "
                "ThreadsPerCore=2 "
                f"Partitions={partitions}\n"
                for name, partitions in (("n1", "cpu"), ("n2", "cpu,low,other"), ("n3", "other"))
            ),
            "8|NO": "8|NO\n",
            "tiers": "n1|cpu|1|OFF\nn2|cpu|1|OFF\nn2|low|0|REQUEUE\nn2|other|1|OFF\n",
        }[{"config": "config", "node": "node", "%c|%h": "8|NO"}.get(command[-1], "tiers")]


def job(
    number: int, state: str, nodes: str = "", partition: str = "cpu", **more: Any
) -> dict[str, Any]:
    row = {"JobArrayID": str(number), "State": state, "NodeList": nodes, "Partition": partition}
    told = {"job_id": number, "job_state": state, "nodes": nodes, "partition": partition}
    told |= {"cpus": 2, "tasks": 2, "tres_req_str": "cpu=2,mem=10M,node=1"}
    return {"row": row, "json": told | more}


def test_amounts_are_asked_for_when_something_has_changed() -> None:
    run = Squeue(job(7, "PENDING"), job(8, "RUNNING", "n1"))
    slurm = SlurmManager("cpu", run)
    assert not slurm.jobs()[0].amounts  # It was not asked yet whether nodes are shared.
    hosts = slurm.shared_hosts()
    assert hosts is not None
    assert [*hosts] == ["n1", "n2"]
    assert hosts["n2"]["memory"] == str(100 << 20)
    assert hosts["n2"]["threads"] == "2"
    waits, runs = slurm.jobs()
    assert waits.amounts == QueuedAmounts(
        nodes=1, tasks=2, totals={"cores": 2}, each={"memory": 10 << 20}, partitions=("cpu",)
    )
    assert runs.amounts.held == {"n1": {"cores": 2, "memory": 10 << 20}}
    looks = run.asked.count("squeue -a --json")
    slurm.jobs()
    assert run.asked.count("squeue -a --json") == looks == 1
    run.jobs[0]["row"]["MinMemory"] = "20M"
    run.jobs[0]["json"]["memory_per_node"] = 20
    assert slurm.jobs()[0].amounts.each == {"memory": 20 << 20}


def test_what_is_not_of_one_moment_is_asked_again() -> None:
    """squeue says that it runs, and the JSON that it waits: it has started in between."""
    run = Squeue(job(7, "RUNNING", "n1"))
    run.jobs[0]["json"]["job_state"] = "PENDING"
    slurm = SlurmManager(None, run)
    slurm.shared_hosts()
    assert not slurm.jobs()[0].amounts
    run.jobs[0]["json"]["job_state"] = "RUNNING"
    assert slurm.jobs()[0].amounts.held


def test_jobs_of_other_partitions_count_on_these_nodes_unless_they_give_way() -> None:
    run = Squeue(
        job(1, "RUNNING", "n2", "low"),
        job(2, "RUNNING", "n[2-3]", "other"),
        job(3, "PENDING", "", "other"),
        job(4, "PENDING", "", "cpu,other"),
    )
    slurm = SlurmManager("cpu", run)
    slurm.shared_hosts()
    assert [(each.id, each.hosts) for each in slurm.jobs()] == [("2", ("n2",)), ("4", ())]


def test_a_slurm_that_does_not_tell_amounts_is_no_news() -> None:
    run = Squeue(job(7, "PENDING"))
    slurm = SlurmManager(None, run)
    slurm.shared_hosts()
    run.jobs[0]["json"]["tasks"] = "x"
    with pytest.raises(Unreachable, match="what jobs ask of nodes: squeue --json: jobs"):
        slurm.jobs()


def test_a_start_names_nodes_and_amounts() -> None:
    run = Squeue()
    SlurmManager(None, run).start("7", ["n1", "n2"], 4)
    SlurmManager(None, run).start("8", ["n1", "n2"], 0)
    assert [each for each in run.asked if "update" in each] == [
        "scontrol update jobid=7 StartTime=now ReqNodeList=n1,n2 NumNodes=2-2 NumCPUs=8 "
        "MinCPUsNode=4",
        "scontrol update jobid=8 StartTime=now ReqNodeList=n1,n2 NumNodes=2-2",
    ]


def test_check_accepts_shared_nodes_whose_amounts_slurm_counts() -> None:
    run = Squeue()

    def nodes_of(partition: str) -> tuple[str, bool, str]:
        found = check_slurm(partition, 1.0, run).findings[-1]
        return found.about, found.is_fine, found.text

    assert nodes_of("cpu,other")[:2] == ("shared nodes", True)
    # Jobs of another partition would take what is promised, but for one that gives way.
    about, is_fine, text = nodes_of("cpu")
    assert (about, is_fine) == ("shared nodes", False)
    assert "partitions cpu, other share nodes" in text
    run.select = "CR_CPU"
    hosts = SlurmManager("cpu", run).shared_hosts()
    assert hosts is not None
    assert hosts["n1"] == {"cores": "8", "labels": "cpu", "weight": "0"}
    run.select = "CR_SOCKET"
    assert nodes_of("cpu,other")[:2] == ("whole nodes", False)
    assert SlurmManager("cpu", run).shared_hosts() is None


def test_other_amounts_than_those_of_the_journal_raise_an_alarm(shared: Site) -> None:
    shared.pass_time(2)
    shared.fake.shared = NODES | {"n1": node("cpu", cores=4)}
    shared.restart()
    shared.pass_time(1)
    assert "other amounts than when the journal was begun" in shared.lines[-1]
    with Journal(shared.path) as journal:
        assert journal.begun.hosts == [*NODES.values()]
