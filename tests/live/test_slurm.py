"""What Slurm says and is told, on recorded lines of Slurm 22.05."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from qops_batsim.jobs import COMPLETED_KILLED, COMPLETED_WALLTIME_REACHED
from qops_batsim.live.check import check_slurm
from qops_batsim.live.manager import CommandFailed, JobPhase, NodeState, Unreachable, natural_key
from qops_batsim.live.slurm import Slurm, run_command
from qops_batsim.workload.accounting.nodes import node_names

LINES = """\
4_1     |COMPLETED     |1   |1:00  |1795640343 |1795640343  |1795640349  |0  |1 |0 |42 |None \
|N/A       |root  |n1  |(null)  |
3       |PENDING       |2   |1:00  |1795640343|N/A |N/A |0  |0 |50 |0 |JobHeldAdmin \
|N/A       |ada   |    |deadline=2026-12-01T08:00 ü|x tolerance=1.5 |
1       |RUNNING       |2   |1-00:01:00  |1795640343 |1795640448  |1795640508  |1  |1 |0 |42 |None \
|1795649999 |ada  |n[5,7]  |deadline=1795650000  |
5       |TIMEOUT       |1   |1:00  |1795640343 |1795640443  |1795640549  |0  |1 |0 |42 |None \
|N/A       |root  |n1  |(null)  |
7+1     |PENDING       |1   |1:00  |1795640343|N/A |N/A |0  |1 |0 |42 |None \
|N/A       |root  |    |(null)  |
8       |PENDING       |1   |1:00  |1795640343|N/A |N/A |0  |1 |0 |0 |JobHeldUser \
|N/A       |root  |    |(null)  |
9       |PENDING       |1-4 |UNLIMITED  |1795640343 |N/A    |N/A         |0  |1 |0 |42 |Dependency \
|N/A       |root  |    |deadline=1795650000  |
"""
"""Columns are narrower than they come."""


class Recorded:
    """Answers commands from a table, by their first words, and notes all of them."""

    def __init__(self, **answers: str | Exception) -> None:
        self.answers, self.said = answers, list[str]()

    def __call__(self, command: Sequence[str], stdin: str) -> str:
        self.said.append(" ".join(command))
        answer = self.answers.get(command[0], "")
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_jobs_are_read_from_the_lines_of_squeue() -> None:
    jobs = {job.id: job for job in Slurm(run=Recorded(squeue=LINES)).jobs()}
    assert list(jobs) == ["4_1", "3", "1", "5", "8", "9"]
    waits, runs = jobs["3"], jobs["1"]
    assert (waits.phase, waits.nodes, waits.limit, waits.is_held) == (JobPhase.WAITING, 2, 60, True)
    assert (waits.is_rerunnable, waits.nice, runs.is_rerunnable) == (False, 50, True)
    assert waits.asks == {"deadline": "2026-12-01T08:00", "tolerance": "1.5"}
    assert (runs.phase, runs.hosts, runs.restarts) == (JobPhase.RUNNING, ("n5", "n7"), 1)
    assert (runs.limit, runs.start, runs.end) == (86460, 1795640448, None)
    assert runs.manager_deadline == 1795649999
    assert (jobs["5"].outcome, jobs["5"].end) == (COMPLETED_WALLTIME_REACHED, 1795640549)
    assert (jobs["8"].is_ready, jobs["9"].is_ready, jobs["9"].limit) == (False, False, None)


def test_a_job_held_by_its_user_is_ours_where_a_deadline_is_asked_for() -> None:
    line = LINES.splitlines()[1].replace("JobHeldAdmin", "JobHeldUser")
    (job,) = Slurm(run=Recorded(squeue=line)).jobs()
    assert (job.is_ready, job.is_held) == (True, False)


@pytest.mark.parametrize("reason", ["PartitionTimeLimit", "AssocGrpCpuLimit", "InvalidQOS"])
def test_a_job_that_cannot_start_is_not_ready(reason: str) -> None:
    line = LINES.splitlines()[-1]
    for told, is_ready in ((reason, False), ("Resources", True), ("Whim", True)):
        (job,) = Slurm(run=Recorded(squeue=line.replace("Dependency", told))).jobs()
        assert job.is_ready == is_ready


def test_a_job_that_slurm_would_start_is_not_held_whatever_its_reason() -> None:
    """As Slurm 22.05 tells a job whose user has set nice after it was held."""
    line = LINES.splitlines()[1].replace("|0 |JobHeldAdmin", "|2 |JobHeldAdmin")
    (job,) = Slurm(run=Recorded(squeue=line)).jobs()
    assert not job.is_held


def test_a_list_of_nodes_that_is_cut_is_asked_for_again() -> None:
    names = ",".join(f"node{2 * number}" for number in range(200))
    cut, gone = (LINES.splitlines()[2].replace("n[5,7]  ", names[:1000]) for _ in range(2))
    lines = [cut, gone.replace("1     ", "6     ", 1), LINES.splitlines()[0]]

    def run(command: Sequence[str], stdin: str) -> str:
        if "-O" in command:
            return "\n".join(lines)
        assert command[-4:] == ["-j", "1,6", "-o", "%i|%N"]
        return f"1|{names}\n"  # Job 6 has ended in between.

    jobs = {job.id: job for job in Slurm(run=run).jobs()}
    assert list(jobs) == ["1", "4_1"]
    assert jobs["1"].hosts == tuple(names.split(","))


def test_what_is_no_line_of_squeue_is_no_news() -> None:
    with pytest.raises(Unreachable, match="16 columns are expected"):
        Slurm(run=Recorded(squeue="slurm_load_jobs: something")).jobs()


def test_nodes_that_do_not_answer_are_neither_there_nor_away() -> None:
    said = "n1|idle\nn2|allocated*\nn3|down*\nn4|unknown\nn5|drained\nn6|mixed\n"
    there, away, unknown = NodeState.THERE, NodeState.AWAY, NodeState.UNKNOWN
    expected = {"n1": there, "n2": unknown, "n3": away, "n4": unknown, "n5": away, "n6": there}
    assert Slurm("main", Recorded(sinfo=said)).nodes() == expected


def test_commands_are_as_scontrol_wants_them() -> None:
    run = Recorded(squeue=LINES)
    slurm = Slurm("main", run)
    slurm.jobs()
    slurm.hold(["1", "3"])
    slurm.start("3", ["n1", "n2"])
    slurm.refuse("3", 'no "time"')
    slurm.requeue("1")
    slurm.release(["1"])
    assert run.said[1:] == [
        "scontrol hold 1,3",
        "scontrol update jobid=1 Deadline=now+365days",
        "scontrol update jobid=3 StartTime=now ReqNodeList=n1,n2",
        "scontrol release 3",
        "scontrol update jobid=3 AdminComment=no 'time'",
        "scancel --state=PENDING 3",
        "scontrol requeuehold 1",
        "scontrol release 1",
    ]


def test_a_job_is_cancelled_though_slurm_takes_no_comment_on_it() -> None:
    run = Recorded(scontrol=CommandFailed("no"))
    Slurm(run=run).refuse("15", "too wide")
    assert run.said[-1] == "scancel --state=PENDING 15"


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (
            "echo 'slurm_load_jobs error: Zero Bytes were transmitted' >&2; exit 1",
            Unreachable,
        ),
        ("echo 'Invalid job id specified' >&2; exit 1", CommandFailed),
        # squeue --json of 22.05 says so and exits with 0.
        ("echo 'squeue: error: Unable to contact slurm controller' >&2", Unreachable),
    ],
)
def test_errors_are_told_from_no_answer(script: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        run_command(["sh", "-c", script])


def test_lists_of_nodes_are_expanded_and_in_order() -> None:
    assert node_names("n[08-10],gpu1,r[1,3]-x") == ["n08", "n09", "n10", "gpu1", "r1-x", "r3-x"]
    racks = LINES.replace("n[5,7]", "r[1-2]n[5,7]")
    (runs,) = (job for job in Slurm(run=Recorded(squeue=racks)).jobs() if job.id == "1")
    assert runs.hosts == ("r1n5", "r1n7", "r2n5", "r2n7")
    assert sorted(["n10", "n9", "a2"], key=natural_key) == ["a2", "n9", "n10"]


CONFIG = """\
KillWait                = 30 sec
OverTimeLimit           = 5 min
MinJobAge               = 300 sec
JobRequeue              = 1
SchedulerParameters     = bf_interval=1,sched_interval=2{further}
SlurmUser               = slurm(64030)
SlurmdTimeout           = 300 sec
"""


def test_the_check_derives_margin_and_grace() -> None:
    fine = check_slurm(None, 1.0, Recorded(scontrol=CONFIG.format(further=""), sinfo="1|NO\n"))
    assert (fine.margin, fine.grace) == (360.0, 4.0)
    lines = [line for line in CONFIG.splitlines() if not line.startswith(("KillWait", "OverTime"))]
    untold = Recorded(scontrol="\n".join(lines).format(further=""), sinfo="1|NO\n")
    assert fine.margin - check_slurm(None, 1.0, untold).margin == 5 * 60.0  # 30 s is Slurm's own.
    shared = Recorded(scontrol=CONFIG.format(further=",defer"), sinfo="64|NO\n")
    bad = {each.about for each in check_slurm(None, 1.0, shared).findings if not each.is_fine}
    assert {"intervals", "whole nodes"} <= bad


def test_outcomes_are_those_of_batsim() -> None:
    line = LINES.splitlines()[0].replace("COMPLETED ", "NODE_FAIL ")
    (job,) = Slurm(run=Recorded(squeue=line)).jobs()
    assert job.outcome == COMPLETED_KILLED
