"""The queue of the Slurm that runs here: what is asked, and what its answers mean."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from qops_batsim import InputError
from qops_batsim.live import CommandFailed, Unreachable
from qops_batsim.queue import Ask, QueueSource
from qops_batsim.queue import source as queue_source
from qops_batsim.queue.source import live_config
from qops_batsim.slurm.nodes import nodes_of
from qops_batsim.slurm.squeue_text import FORMAT

NODES = """\
NodeName=n1 CPUAlloc=0 CPUTot=4 Gres=(null)
   State=IDLE Partitions=main
NodeName=n2 CPUAlloc=0 CPUTot=4 Gres=(null)
   State=DOWN Partitions=main
"""
TELLING = (["squeue"], ["scontrol", "show"], ["sinfo"], ["sprio"])
"""Beginnings of the commands that change nothing."""


def job(at: int, state: str, **further: object) -> dict[str, object]:
    told = {"job_id": at, "job_state": state, "cpus": 4, "time_limit": 60, "partition": "main"}
    return told | further


class FakeSlurm:
    """Answers to commands, by their first two words; no answer is a command that fails."""

    def __init__(self, **answers: str) -> None:
        self.answers = {"scontrol show": NODES} | {
            name.replace("_", " "): said for name, said in answers.items()
        }
        self.asked: list[list[str]] = []

    def __call__(self, command: Sequence[str], form: str) -> str:
        assert any([*command][: len(each)] == each for each in TELLING), command
        self.asked.append([*command])
        said = self.answers.get(
            "json" if "--json" in command else "text" if form == FORMAT else " ".join(command[:2])
        )
        if said is None:
            raise CommandFailed(f"{' '.join(command)}: unrecognized option '--json'")
        return said


def test_the_queue_and_the_nodes_are_asked_of_slurm() -> None:
    jobs = [job(1, "RUNNING", start_time=int(time.time()) - 60), job(2, "PENDING")]
    slurm = FakeSlurm(json=json.dumps({"meta": {}, "errors": [], "jobs": jobs}))
    source = QueueSource(None, run=slurm)
    found = source.state()
    assert (found.processors, found.away, [each.id for each in found.jobs]) == (4, 4, ["1", "2"])
    assert found.left_out == {"nodes away (DOWN), with 4 processors": 1}
    assert slurm.asked == [["scontrol", "show", "node"], ["squeue", "-a", "--json"]]
    # For some seconds, an answer counts.
    assert source.state() is found
    assert source.asker() is source.asker()
    assert len(slurm.asked) == 2


def test_a_slurm_that_answers_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_source, "LIVE_SECONDS", -1.0)
    slurm = FakeSlurm(json='{"meta": {}, "errors": [], "jobs": []}')
    source = QueueSource(None, machine=8, run=slurm)
    assert source.state() is not source.state()
    assert len(slurm.asked) == 2


def test_nodes_are_asked_again_with_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is set down while a server runs is away from then on."""
    monkeypatch.setattr(queue_source, "LIVE_SECONDS", -1.0)
    slurm = FakeSlurm(json='{"meta": {}, "errors": [], "jobs": []}')
    source = QueueSource(None, run=slurm)
    assert (source.state().processors, source.state().away) == (4, 4)
    slurm.answers["scontrol show"] = NODES.replace("State=DOWN", "State=IDLE+PLANNED")
    assert (source.state().processors, source.state().away) == (8, 0)


def test_the_end_of_maintenance_is_asked_of_slurm() -> None:
    end = int(time.time()) + 3600
    reservation = (
        f"ReservationName=fix StartTime=1780000000 EndTime={end} Duration=1\n"
        "   Nodes=n2 NodeCnt=1 Flags=MAINT\n   TRES=cpu=4\n   Users=root State=ACTIVE\n"
    )
    nodes = NODES.replace("State=DOWN", "State=IDLE+MAINTENANCE+RESERVED")

    def run(command: Sequence[str], form: str) -> str:
        asked.append([*command])
        told = {"node": nodes, "reservation": reservation}
        return told.get(command[-1], '{"meta": {}, "errors": [], "jobs": []}')

    asked: list[list[str]] = []
    found = QueueSource(None, run=run).state()
    assert [(job.processors, job.end) for job in found.closed] == [(4, end)]
    assert (found.processors, found.away) == (8, 0)
    assert asked[:2] == [["scontrol", "show", "node"], ["scontrol", "show", "reservation"]]


def test_a_file_of_nodes_is_read_again_when_it_changes(tmp_path: Path) -> None:
    queue, nodes = tmp_path / "squeue.json", tmp_path / "nodes.txt"
    queue.write_text(json.dumps({"meta": {}, "jobs": [job(1, "PENDING")]}))
    nodes.write_text(NODES)
    source = QueueSource(queue, nodes_file=nodes)
    first = source.state()
    assert (first.processors, source.state() is first) == (4, True)
    nodes.write_text(NODES.replace("State=DOWN", "State=IDLE+DYNAMIC_NORM"))
    assert source.state().processors == 8
    assert source.state().free == 8


CONFIG = "PriorityType = priority/multifactor\nPriorityWeightAge = 7\n"
SPRIO = " JOBID PARTITION   PRIORITY       SITE\n     5 main             31          0\n"


def test_weights_and_priorities_are_asked_of_slurm(tmp_path: Path) -> None:
    slurm = FakeSlurm(scontrol_show=CONFIG, sprio=SPRIO)
    found = live_config(slurm)
    assert (found.options["weight_age"], found.priorities) == (7, {"5": 31})
    assert slurm.asked == [["scontrol", "show", "config"], ["sprio"]]
    # Basic priorities have no sprio.
    assert live_config(FakeSlurm(scontrol_show=CONFIG)).priorities == {}
    jobs = json.dumps({"meta": {}, "jobs": [job(at, "PENDING", priority=1) for at in (4, 5)]})
    (tmp_path / "squeue.json").write_text(jobs)
    source = QueueSource(tmp_path / "squeue.json", machine=8, priorities=found.priorities)
    assert [each.priority for each in source.state().jobs] == [1, 31]


def test_the_first_component_does_not_tell_the_priority_of_all(tmp_path: Path) -> None:
    parts = [
        job(5 + offset, "PENDING", priority=9 - offset, het_job_id=5, het_job_offset=offset)
        for offset in (0, 1)
    ]
    (tmp_path / "squeue.json").write_text(json.dumps({"meta": {}, "jobs": parts}))
    source = QueueSource(tmp_path / "squeue.json", machine=8, priorities={"5": 31})
    assert [(each.id, each.priority) for each in source.state().jobs] == [("5", 8)]


def test_without_json_text_is_asked_for() -> None:
    head = "JOBID|STATE|CPUS|TIME_LIMIT|START_TIME\n"
    slurm = FakeSlurm(text=f"{head}5|PENDING|4|1:00:00|N/A\n")
    assert [each.id for each in QueueSource(None, machine=8, run=slurm).state().jobs] == ["5"]
    assert slurm.asked == [["squeue", "-a", "--json"], ["squeue", "-a"]]


def test_a_slurm_that_does_not_answer_is_one_error() -> None:
    """Its squeue tells of no jobs, and ends with 0."""
    errors = [{"error": "Unable to contact slurm controller (connect failure)"}]
    slurm = FakeSlurm(json=json.dumps({"meta": {}, "errors": errors, "jobs": []}))
    with pytest.raises(InputError, match="squeue failed .*Unable to contact"):
        QueueSource(None, machine=8, run=slurm).state()

    def nobody(command: Sequence[str], form: str) -> str:
        raise Unreachable("scontrol has not answered within 20 s")

    with pytest.raises(InputError, match="not answered within 20 s.; a running Slurm, or"):
        QueueSource(None, run=nobody).state()


def test_nodes_that_are_powered_down_are_there_but_not_at_once(tmp_path: Path) -> None:
    """Four of eight processors are used; a job of four waits until the second node is up."""
    text = "".join(
        f"NodeName=n{place} CPUTot=4 Gres=(null) State={state} Partitions=main\n"
        for place, state in ((1, "MIXED"), (2, "IDLE+CLOUD+POWERED_DOWN"))
    )
    table = "PARTITION NODELIST CPUS GRES STATE\nmain* n1 4 (null) mix\nmain* n2 4 (null) idle~\n"
    jobs = [job(1, "RUNNING", partition="main", start_time=time.time() - 60)]
    jobs += [job(2, "PENDING", partition="main", state_reason="Resources")]
    (tmp_path / "squeue.json").write_text(json.dumps({"meta": {}, "jobs": jobs}))
    for told, reason in ((text, ""), (table, ""), (text.replace("+POWERED_DOWN", ""), "job 2 ")):
        source = QueueSource(tmp_path / "squeue.json", nodes=nodes_of(told, "nodes.txt"))
        assert source.asker().ask(Ask(processors=1, time=60.0)).reason.startswith(reason)
        assert (source.state().asleep, source.state().shares_nodes) == (0 if reason else 4, True)
