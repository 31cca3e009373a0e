"""Queues as text of Slurm 22.05: that of squeue with columns, and that of scontrol show job."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from qops_batsim import InputError
from qops_batsim.queue import QueuedJob, QueueState, read_queue
from qops_batsim.slurm.squeue_text import COLUMNS, FORMAT, records_of_text

NOW = 1_780_000_000
HEAD = (
    "JOBID|STATE|CPUS|NODES|TIME_LIMIT|SUBMIT_TIME|START_TIME|END_TIME|PRIORITY|OVER_SUBSCRIBE|"
    "PARTITION|ACCOUNT|QOS|RESERVATION|DEADLINE|USER|REASON|NAME\n"
)
SQUEUE = HEAD + (
    "2_[5,7,9%2]|PENDING|1|1|1:30:00|1779999900|N/A|N/A|901|OK|main|(null)|(null)|(null)|N/A"
    "|ada|JobArrayTaskLimit|sweep\n"
    "3|PENDING|3|1|5:00:00|1779999900|N/A|N/A|0|OK|main|(null)|(null)|(null)|N/A|bob|JobHeldUser|x\n"
    "7|PENDING|2|2|10:00|1779999900|1780003600|1780004200|754|NO|main|(null)|(null)|(null)|N/A"
    "|bob|Resources|x\n"
    "1|RUNNING|8|1|5:00|1779999900|1779999950|1780000250|759|OK|main|(null)|(null)|(null)|N/A"
    "|ada|None|a b|c UserId=x(0) GroupId=y JobState=PENDING\n"
    "2_3|RUNNING|1|1|1:30:00|1779999900|1779999950|1780005350|758|OK|main|(null)|(null)|(null)|N/A"
    "|ada|None|sweep\n"
)
SCONTROL = """\
JobId=1 JobName=a b|c UserId=x(0) GroupId=y JobState=PENDING
   UserId=ada(7) GroupId=root(0) MCS_label=N/A
   Priority=759 Nice=0 Account=(null) QOS=(null)
   JobState=RUNNING Reason=None Dependency=(null)
   RunTime=00:00:50 TimeLimit=00:05:00 TimeMin=N/A
   SubmitTime=1779999900 EligibleTime=1779999900
   StartTime=1779999950 EndTime=1780000250 Deadline=N/A
   Partition=main AllocNode:Sid=localhost:3877
   NumNodes=1 NumCPUs=8 NumTasks=8 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=/home/ada/run JobState=PENDING

JobId=11 ArrayJobId=2 ArrayTaskId=3 ArrayTaskThrottle=2 JobName=sweep
   UserId=ada(7) GroupId=root(0) MCS_label=N/A
   Priority=758 Nice=0 Account=(null) QOS=(null)
   JobState=RUNNING Reason=None Dependency=(null)
   TimeLimit=01:30:00 SubmitTime=1779999900 StartTime=1779999950 EndTime=1780005350 Deadline=N/A
   Partition=main NumNodes=1 NumCPUs=1 OverSubscribe=OK

JobId=3 JobName=x
   UserId=bob(8) GroupId=root(0) MCS_label=N/A
   Priority=0 Nice=0 Account=(null) QOS=(null)
   JobState=PENDING Reason=JobHeldUser Dependency=(null)
   TimeLimit=05:00:00 SubmitTime=1779999900 StartTime=Unknown EndTime=Unknown Deadline=N/A
   Partition=main NumNodes=1-1 NumCPUs=3 OverSubscribe=OK

JobId=7 JobName=x
   UserId=bob(8) GroupId=root(0) MCS_label=N/A
   Priority=754 Nice=0 Account=(null) QOS=(null)
   JobState=PENDING Reason=Resources Dependency=(null)
   TimeLimit=00:10:00 SubmitTime=1779999900 StartTime=1780003600 EndTime=1780004200 Deadline=N/A
   Partition=main NumNodes=2-2 NumCPUs=2 OverSubscribe=NO

JobId=2 ArrayJobId=2 ArrayTaskId=5,7,9%2 ArrayTaskThrottle=2 JobName=sweep
   UserId=ada(7) GroupId=root(0) MCS_label=N/A
   Priority=901 Nice=0 Account=(null) QOS=(null)
   JobState=PENDING Reason=JobArrayTaskLimit Dependency=(null)
   TimeLimit=01:30:00 SubmitTime=1779999900 StartTime=Unknown EndTime=Unknown Deadline=N/A
   Partition=main NumNodes=1 NumCPUs=1 OverSubscribe=OK
"""
ONE_LINE = "\n".join(" ".join(job.split()) for job in SCONTROL.split("\n\n")) + "\n"


def read(text: str, **given: Any) -> QueueState:
    return read_queue(text.encode(), "queue.txt", processors=32, now=NOW, **given)


@pytest.mark.parametrize("text", [SQUEUE, SCONTROL, ONE_LINE], ids=["squeue", "lines", "-o"])
def test_all_texts_tell_the_same_queue(text: str) -> None:
    found = read(text, node_size=4)
    assert {job.id: (job.processors, job.estimate, job.start, job.user) for job in found.jobs} == {
        "1": (8, 300.0, 1_779_999_950.0, "ada"),
        "2_3": (1, 5400.0, 1_779_999_950.0, "ada"),
        "7": (8, 600.0, None, "bob"),  # Two whole nodes.
        **{f"2_{task}": (1, 5400.0, None, "ada") for task in (5, 7, 9)},
    }
    waiting = {job.id: job for job in found.jobs if job.start is None}
    assert (waiting["7"].planned_start, waiting["7"].reason) == (1_780_003_600.0, "Resources")
    assert (waiting["2_5"].at_once, waiting["2_5"].priority) == (2, 901.0)
    assert [(job.id, job.reason) for job in found.blocked] == [("3", "JobHeldUser")]


def test_dates_of_text_are_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        line = SQUEUE.splitlines()[4].replace("1779999950", "2026-05-28T22:25:50")
        found = read(HEAD + line)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found.jobs == [
        QueuedJob(
            id="1",
            processors=8,
            estimate=300.0,
            submission=1_779_999_900.0,
            start=1_779_999_950.0,
            end=1_780_000_250.0,
            user="ada",
            application="a b|c UserId=x(0) GroupId=y JobState=PENDING",
            partition="main",
        )
    ]


@pytest.mark.parametrize("text", [HEAD, "No jobs in the system\n"])
def test_an_empty_queue(text: str) -> None:
    assert read(text).jobs == []


DEFAULT = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "lacks the columns JOBID, STATE, CPUS, TIME_LIMIT, START_TIME;"),
        (DEFAULT, "lacks the columns JOBID, STATE"),
        (SQUEUE.replace("TIME_LIMIT", "TIME"), "lacks the columns TIME_LIMIT;"),
        (HEAD + "1|RUNNING|4\n", "line 2 is '1|RUNNING|4'; 18 columns"),
        (SQUEUE.replace("7|PENDING|2", "7|PENDING|two"), "line 4: CPUS is 'two'; a number"),
        (SQUEUE.replace("|1780003600|", "|soon|"), "line 4: START_TIME is 'soon'; a date with"),
        (SQUEUE.replace("|10:00|", "|long|"), "line 4: TIME_LIMIT is 'long'; a time as"),
        (SQUEUE.replace("3|PENDING", "three|PENDING"), "line 3: JOBID is 'three'; an id as"),
        (SQUEUE.replace("7|PENDING", "7|LOST"), "job_state is 'LOST'; a state of Slurm"),
        (SQUEUE.replace("|8|1|5:00", "|64|1|5:00"), "use 65 processors, more than the 32 of"),
        (SQUEUE.replace("1779999950", "1780999950"), "runs since 1780999950, after the queue's"),
        (SCONTROL.replace("NumCPUs=8", ""), r"job 1 \('1'\) has no field NumCPUs"),
        ("JobId=1\n   JobState=RUNNING\n", "job 1 is '1.*text of `scontrol show job`"),
        ("slurm_load_jobs error: Unable to contact slurm controller\n", "Slurm failed .*Unable"),
    ],
)
def test_text_that_is_no_queue_is_one_error(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told) as error:
        read(text)
    if "column" in told and "18" not in told:
        assert f"squeue -a -O {FORMAT}" in str(error.value)


def test_the_format_has_the_columns_and_names_are_last() -> None:
    assert [each.partition(":")[0] for each in FORMAT.split(",")] == [*COLUMNS]
    assert COLUMNS[-1] == "Name"
    assert records_of_text(SQUEUE, "q", None, Counter())[3]["name"].startswith("a b|c")


SHORT = "JOBID|STATE|CPUS|TIME_LIMIT|START_TIME"
RUNS = "1|RUNNING|8|2:00:00|1779999950"
WAITS = "2|PENDING|4|1:00:00|N/A"


@pytest.mark.parametrize("reason", ["Resources", "JobHeldUser", "Nodes required for job are DOWN"])
def test_the_column_of_nodes_or_reason_is_read(reason: str) -> None:
    """What `%R` prints; without it, a held job got a date."""
    found = read(f"{SHORT}|NODELIST(REASON)\n{RUNS}|n[1-2]\n{WAITS}|({reason})\n")
    one, *others = [*found.jobs, *found.blocked]
    assert (one.nodes, one.reason) == ("n[1-2]", "")
    assert [job.reason for job in others] == [reason]
    assert bool(found.blocked) is (reason == "JobHeldUser")
    assert not found.unsure


def test_a_text_without_reasons_says_so() -> None:
    found = read(f"{SHORT}\n{RUNS}\n{WAITS}\n3{WAITS[1:]}\n")
    told = "wait for a reason that is not told (column REASON), and planned like others"
    assert found.unsure == {told: 2}
    assert not read(f"{SHORT}\n{RUNS}\n").unsure


@pytest.mark.parametrize(
    "text",
    [
        f"{SHORT}|CLUSTER\n{RUNS}|alder\n{WAITS}|birch\n",
        f"CLUSTER: alder\n{SHORT}\n{RUNS}\n\nCLUSTER: birch\n{SHORT}\n{WAITS}\n",
        f"CLUSTER: alder\n{SHORT}\n\nCLUSTER: birch\n{SHORT}\n{WAITS}\n",
    ],
)
def test_text_of_several_clusters_is_refused(text: str) -> None:
    """Of `squeue --clusters`."""
    with pytest.raises(InputError, match="queue.txt: has jobs of clusters alder, birch, .*; the"):
        read(text)


def test_text_of_one_cluster_may_name_it() -> None:
    found = read(f"CLUSTER: alder\n{SHORT}|REASON\n{RUNS}|None\n{WAITS}|Priority\n")
    assert [job.id for job in found.jobs] == ["1", "2"]
    with pytest.raises(InputError, match="queue.txt: line 3: CPUS is 'x'"):
        read(f"CLUSTER: alder\n{SHORT}\n{RUNS.replace('|8|', '|x|')}\n")


def test_a_column_that_is_told_twice_is_refused() -> None:
    """`squeue -o '%i|%A|...'` calls both ids JOBID: 2_3, and 7."""
    with pytest.raises(InputError, match="queue.txt: has the column JOBID twice; each is exp"):
        read(f"JOBID|{SHORT}\n2_3|{RUNS}\n")
