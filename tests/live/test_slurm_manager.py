"""What Slurm says and is told, on recorded lines of Slurm 22.05."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from qops_batsim.jobs import COMPLETED_KILLED, COMPLETED_WALLTIME_REACHED
from qops_batsim.live import (
    CommandFailed,
    JobPhase,
    NodeState,
    SlurmManager,
    Unreachable,
    slurm_manager,
)
from qops_batsim.live.check import check_slurm, unfiltered
from qops_batsim.live.manager import natural_key
from qops_batsim.live.slurm_manager import MOST_ARRAYS, node_state
from qops_batsim.slurm.commands import settings_of
from qops_batsim.slurm.node_states import read_state
from qops_batsim.workload.accounting.node_sizes import node_names


def row(text: str, **other: str) -> dict[str, str]:
    """Return the cells of a row: as told first, the rest those of a job that waits."""
    usual = "1 PENDING 1 1:00 1795640343 N/A N/A 0 1 0 42 None N/A root |N/A|(null)|(null)|(null)"
    cells = [each.strip() for each in usual.replace(" ", "|").split("|")]
    cells[: text.count("|") + 1] = [each.strip() for each in text.split("|")]
    return dict(zip(slurm_manager._COLUMNS, cells, strict=True)) | other


ROWS = [
    row("4_1|COMPLETED|1|1:00|1795640343|1795640343|1795640349", NodeList="n1"),
    row(
        "3|PENDING|2|1:00|1795640343|N/A|N/A|0|0|50|0|JobHeldAdmin|N/A|ada",
        Comment="deadline=2026-12-01T08:00 ü|x tolerance=1.5",
        admin_comment="qops: held",
    ),
    row(
        "1|RUNNING|2|1-00:01:00|1795640343|1795640448|1795640508|1|1|0|42|None|1795649999|ada",
        NodeList="n[5,7]",
        Comment="deadline=1795650000",
    ),
    row("5|TIMEOUT|1|1:00|1795640343|1795640443|1795640549", NodeList="n1"),
    row("7+1|PENDING"),
    row("8|PENDING|1|1:00|1795640343|N/A|N/A|0|1|0|0|JobHeldUser"),
    row(
        "9|PENDING|1-4|UNLIMITED|1795640343|N/A|N/A|0|1|0|42|Dependency",
        Comment="deadline=1795650000",
    ),
]


def squeue(rows: Sequence[dict[str, str]], form: str) -> str:
    """Return what squeue says in a format: each cell, and the text behind it in the format."""
    columns = [each.partition(":0") for each in form.split(",")]
    return "".join("".join(each[c] + end for c, _, end in columns) + "\n" for each in rows)


class Recorded:
    """Answers commands from a table, by their first words, and notes all of them."""

    def __init__(self, **answers: str | Exception | Sequence[dict[str, str]]) -> None:
        self.answers, self.said = answers, list[str]()

    def __call__(self, command: Sequence[str], form: str) -> str:
        self.said.append(" ".join(command))
        answer = self.answers.get(command[0], "")
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, str) else squeue(answer, form)


@pytest.mark.parametrize(
    ("told", "state"),
    [
        *((told, "there") for told in ("mixed-", "idle~", "allocated@", "completing", "planned")),
        *((told, "away") for told in ("maint", "mixed$", "reboot^", "drained*", "draining@")),
        *((told, "away") for told in ("future", "error", "inval", "reserved", "fail", "blocked")),
        *((told, "unknown") for told in ("idle*", "unknown*", "", "lukewarm")),
    ],
)
def test_states_of_nodes_as_sinfo_writes_them(told: str, state: str) -> None:
    assert node_state(read_state(told)) == state


def test_jobs_are_read_from_the_lines_of_squeue() -> None:
    jobs = {job.id: job for job in SlurmManager(run=Recorded(squeue=ROWS)).jobs()}
    assert list(jobs) == ["4_1", "3", "1", "5", "7+1", "8", "9"]
    waits, runs = jobs["3"], jobs["1"]
    assert (waits.phase, waits.nodes, waits.limit, waits.is_held) == (JobPhase.WAITING, 2, 60, True)
    assert (waits.is_rerunnable, waits.nice, runs.is_rerunnable) == (False, 50, True)
    assert waits.asks == {"deadline": "2026-12-01T08:00", "tolerance": "1.5"}
    assert (runs.phase, runs.hosts, runs.restarts) == (JobPhase.RUNNING, ("n5", "n7"), 1)
    assert (runs.limit, runs.start, runs.end) == (86460, 1795640448, None)
    assert runs.manager_deadline == 1795649999
    assert (jobs["5"].outcome, jobs["5"].end) == (COMPLETED_WALLTIME_REACHED, 1795640549)
    assert (jobs["8"].is_ready, jobs["9"].is_ready, jobs["9"].limit) == (False, False, None)


@pytest.mark.parametrize(
    ("reason", "comment", "admin_comment", "told"),
    [
        # told: is_ready, is_held, is_handed
        ("JobHeldUser", "deadline=2026-12-01T08:00", "(null)", (True, False, True)),
        ("JobHeldUser", "see\nticket qops", "(null)", (True, False, True)),
        ("JobHeldUser", "deadline=2026-12-01 qops=held-by-user", "(null)", (False, False, False)),
        ("JobHeldUser", "qops=held-by-user qops", "(null)", (True, False, True)),
        ("JobHeldUser", "before the deadline", "(null)", (False, False, False)),
        ("JobHeldUser", "my-qops, xdeadline=5", "(null)", (False, False, False)),
        ("JobHeldUser", "(null)", "(null)", (False, False, False)),
        ("JobHeldAdmin", "qops", "qops: held", (True, True, True)),
        ("JobHeldAdmin", "qops", "(null)", (False, True, False)),
        ("JobHeldAdmin", "qops: held", "misuse", (False, True, False)),
        ("Priority", "qops", "qops: best effort", (True, False, False)),
    ],
)
def test_whose_hold_it_is(
    reason: str, comment: str, admin_comment: str, told: tuple[bool, bool, bool]
) -> None:
    """Of the filter, of this program, or of a user or an administrator, whose it stays."""
    priority = "0" if "Held" in reason else "7"
    told_row = row("3|PENDING", PriorityLong=priority, Reason=reason, Comment=comment)
    (job,) = SlurmManager(run=Recorded(squeue=[told_row | {"admin_comment": admin_comment}])).jobs()
    assert (job.is_ready, job.is_held, job.is_handed) == told


@pytest.mark.parametrize(
    ("told", "is_early"),
    [
        ({"Dependency": "afterok:4(unfulfilled)"}, True),
        ({"EligibleTime": "9999999999"}, True),
        ({"EligibleTime": "1795640343"}, False),
    ],
)
def test_a_hold_does_not_hide_that_a_job_waits_for_a_date_or_another_job(
    told: dict[str, str], is_early: bool
) -> None:
    """Held by the filter it was started in spite of --begin; or not, and tried each minute."""
    reasons = {"JobHeldUser": "qops", "BeginTime": "(null)", "JobHeldAdmin": "see"}
    rows = [
        row(f"{number}|PENDING", Reason=reason, Comment=comment, admin_comment="qops: held") | told
        for number, (reason, comment) in enumerate(reasons.items())
    ]
    rows[0]["PriorityLong"] = rows[2]["PriorityLong"] = "0"
    own = rows[0] | {"Comment": "(null)", "JobArrayID": "3"}
    jobs = SlurmManager(run=Recorded(squeue=[*rows, own, row("4|RUNNING") | told])).jobs()
    assert [job.is_early for job in jobs] == [is_early] * 3 + [False] * 2
    assert [job.is_ready for job in jobs[:4:2]] == [not is_early] * 2


@pytest.mark.parametrize("reason", ["PartitionTimeLimit", "AssocGrpCpuLimit", "InvalidQOS"])
def test_a_job_that_cannot_start_is_not_ready(reason: str) -> None:
    for told, is_ready in ((reason, False), ("Resources", True), ("Whim", True)):
        (job,) = SlurmManager(run=Recorded(squeue=[ROWS[-1] | {"Reason": told}])).jobs()
        assert job.is_ready == is_ready


def test_the_limit_of_an_array_is_asked_for_until_it_is_known() -> None:
    """squeue does not tell it; no text of a user stands before it where scontrol does."""
    line = "JobId=9 ArrayJobId=4 ArrayTaskId=1,4-6%2 ArrayTaskThrottle={} JobName=x Comment=\n{}"
    forged = "JobId=9 ArrayJobId=4 ArrayTaskId=1 ArrayTaskThrottle=7 "
    rows = [row("4_1|PENDING"), row("4_2|PENDING", Reason="JobArrayTaskLimit"), row("5|PENDING")]

    def told(said: str | Exception) -> list[tuple[bool, bool, int]]:
        recorded.answers["scontrol"] = said
        return [(job.is_ready, job.is_early, job.throttle) for job in slurm.jobs()]

    recorded = Recorded(squeue=rows)
    slurm = SlurmManager(run=recorded)
    unknown, other = (False, True, 0), (True, False, 0)
    assert told(CommandFailed("Invalid job id")) == [unknown, unknown, other]
    assert told(line.format(2, forged)) == [(True, False, 2), (True, False, 2), other]
    # It may be changed.
    assert told("JobId=9 ArrayJobId=4 ArrayTaskId=1 JobName=x\n" + forged) == [other] * 3
    assert recorded.said[1] == "scontrol -o show job 4_2"
    recorded.answers["squeue"] = [row(f"{array}_1|PENDING") for array in range(200, 100, -1)]
    assert sum(is_ready for is_ready, *_ in told(line.format(2, ""))) == MOST_ARRAYS
    assert sum(is_ready for is_ready, *_ in told(line.format(2, ""))) == 2 * MOST_ARRAYS


def test_a_job_that_slurm_would_start_is_not_held_whatever_its_reason() -> None:
    """As Slurm 22.05 tells a job whose user has set nice after it was held."""
    (job,) = SlurmManager(run=Recorded(squeue=[ROWS[1] | {"PriorityLong": "2"}])).jobs()
    assert (job.is_held, job.is_handed, job.is_ready) == (False, False, True)


def test_a_list_of_nodes_is_whole() -> None:
    names = ",".join(f"node{2 * number}" for number in range(2000))
    (job,) = SlurmManager(run=Recorded(squeue=[ROWS[2] | {"NodeList": names}])).jobs()
    assert job.hosts == tuple(names.split(","))


FORGED = "qops\n7|CANCELLED|32|1:00|NOW|0|NOW|0|1|0|0|None|0|other||qops"


@pytest.mark.parametrize(
    "comment",
    [
        "see\nticket",
        FORGED,
        "a\r\n\x0b\x0c\x1c\u2028b",
        "|" * 40,
        "<>" * 200,
        "\ufffd\x1b[31m",
        "x" * 1024,
    ],
)
def test_no_comment_of_a_user_is_structure(comment: str) -> None:
    """Case 32; a comment that repeats the sign of the last call is one of these."""
    ends = list[str]()

    def run(command: Sequence[str], form: str) -> str:
        assert not any(form[-20:] in word for word in command)  # Others read arguments.
        hostile = comment + "".join(f"{end}\n7{end}CANCELLED{end}" for end in ends)
        ends.append(form.rpartition(":0")[2])
        return squeue([row("6|PENDING", Comment=hostile), *ROWS[:3]], form)

    asked = SlurmManager(run=run)
    for _ in range(3):
        jobs = asked.jobs()
        assert [job.id for job in jobs] == ["6", "4_1", "3", "1"]
        assert not any(job.problem for job in jobs)
        assert jobs[1:] == SlurmManager(run=Recorded(squeue=ROWS[:3])).jobs()
    assert len({*ends}) == 3


@pytest.mark.parametrize(
    ("odd", "what"),
    [
        ({"NumNodes": "2K"}, "NumNodes is '2K'"),
        ({"State": "DREAMING"}, "State is 'DREAMING'"),
        ({"SubmitTime": "2026-12-01T08:00:00"}, "SubmitTime is '2026-12-01T08:00:00'"),
        ({"TimeLimit": "for ever"}, "TimeLimit is 'for ever'"),
        ({"Nice": ""}, "Nice is ''"),
        ({"JobArrayID": "6_[1-3]"}, r"JobArrayID is '6_\[1-3\]'"),
    ],
)
def test_a_row_that_does_not_fit_is_told_and_the_others_go_on(
    odd: dict[str, str], what: str
) -> None:
    bad, *others = SlurmManager(run=Recorded(squeue=[row("6|PENDING") | odd, *ROWS[:3]])).jobs()
    assert re.match(f"cannot be read: {what}; .* is expected", bad.problem)
    assert (bad.id, bad.is_ready) == (odd.get("JobArrayID", "6"), False)
    assert [job.id for job in others] == ["4_1", "3", "1"]


def test_a_heterogeneous_job_is_told_while_it_waits_and_planned_around_while_it_runs() -> None:
    runs = row("7+1|RUNNING", NodeList="n3")
    waits, runs_now = SlurmManager(run=Recorded(squeue=[ROWS[4], runs])).jobs()
    assert "is heterogeneous and never answered" in waits.problem
    assert (runs_now.problem, runs_now.hosts) == ("", ("n3",))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("slurm_load_jobs: something", "rows of 19 columns are expected"),
        (CommandFailed("squeue: Invalid partition"), "Invalid partition"),
    ],
)
def test_what_is_no_answer_of_squeue_is_no_news(said: str | Exception, told: str) -> None:
    with pytest.raises(Unreachable, match=told):
        SlurmManager(run=Recorded(squeue=said)).jobs()


def test_an_answer_that_is_cut_is_no_news() -> None:
    with pytest.raises(Unreachable, match="rows of 19 columns are expected"):
        SlurmManager(run=lambda command, form: squeue(ROWS, form)[:-60]).jobs()


def test_nodes_that_do_not_answer_are_neither_there_nor_away() -> None:
    said = "n1|idle\nn2|allocated*\nn3|down*\nn4|unknown\nn5|drained\nn6|mixed\nn7|odd\n"
    there, away, unknown = NodeState.THERE, NodeState.AWAY, NodeState.UNKNOWN
    expected = {"n1": there, "n2": unknown, "n3": away, "n4": unknown, "n5": away, "n6": there}
    expected["n7"] = unknown
    assert SlurmManager("main", Recorded(sinfo=said)).nodes() == expected


def test_commands_are_as_scontrol_wants_them() -> None:
    run = Recorded(squeue=ROWS)
    asked = SlurmManager("main", run)
    asked.jobs()
    asked.hold(["1", "3"])
    asked.start("3", ["n1", "n2"])
    asked.refuse("3", 'no "time"')
    asked.requeue("1")
    asked.release(["1"])
    assert run.said[1:] == [
        "scontrol update jobid=1 Priority=0 AdminComment=qops: held",
        "scontrol hold 3",
        "scontrol update jobid=1 Deadline=now+365days",
        "scontrol update jobid=3 StartTime=now ReqNodeList=n1,n2",
        "scontrol release 3",
        "scontrol update jobid=3 AdminComment=qops: no 'time'",
        "scancel --state=PENDING 3",
        "scontrol requeuehold 1",
        "scontrol release 1",
    ]


def test_a_job_is_cancelled_though_slurm_takes_no_comment_on_it() -> None:
    run = Recorded(scontrol=CommandFailed("no"))
    SlurmManager(run=run).refuse("15", "too wide")
    assert run.said[-1] == "scancel --state=PENDING 15"


def test_lists_of_nodes_are_expanded_and_in_order() -> None:
    assert node_names("n[08-10],gpu1,r[1,3]-x") == ["n08", "n09", "n10", "gpu1", "r1-x", "r3-x"]
    racks = [ROWS[2] | {"NodeList": "r[1-2]n[5,7]"}]
    (runs,) = SlurmManager(run=Recorded(squeue=racks)).jobs()
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


def test_all_jobs_are_held_though_some_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_manager, "MOST_AT_ONCE", 2)
    run = Recorded(scontrol=CommandFailed("Job has already finished for job 1"))
    with pytest.raises(CommandFailed, match="already finished"):
        SlurmManager(run=run).hold(["1", "2", "3"])
    assert [each.split()[2] for each in run.said] == ["jobid=1,2", "jobid=3"]


@pytest.mark.parametrize(
    ("partition", "rows", "problem"),
    [
        ("short", "n1|short|1|OFF n2|short|1|OFF n3|long|1|OFF", ""),
        (None, "n1|short|1|OFF n1|long|1|OFF", ""),
        ("short,long", "n1|short|1|OFF n1|long|1|OFF", ""),
        ("short", "n1|short|1|OFF n1|long|1|OFF", "partitions long, short share nodes"),
        # One below gives way where it is preempted.
        ("short", "n1|short|9|REQUEUE n1|below|1|REQUEUE", ""),
        ("short", "n1|short|9|OFF n1|below|1|OFF", "partitions below, short share nodes"),
        ("below", "n1|short|9|REQUEUE n1|below|1|REQUEUE", "partitions below, short share"),
        (None, "n1|short|1|OFF n2|long|1|OFF", "not one pool (long: 1 nodes, short: 1 nodes)"),
        ("shorts", "n1|short|1|OFF", "not one pool (shorts: 0 nodes)"),
    ],
)
def test_the_check_finds_partitions_on_the_same_nodes(
    partition: str | None, rows: str, problem: str
) -> None:
    config = CONFIG.format(further="")

    def run(command: Sequence[str], stdin: str) -> str:
        by_node = rows.replace(" ", "\n")
        return config if command[0] == "scontrol" else by_node if "-N" in command else "1|NO\n"

    found = check_slurm(partition, 1.0, run).findings
    (nodes,) = [each for each in found if each.about == "whole nodes"]
    assert problem in nodes.text
    assert nodes.is_fine == (not problem)


@pytest.mark.parametrize("row", ["1|FORCE:4", "1|YES:2", "64|NO"])
def test_the_check_finds_nodes_that_jobs_share(row: str) -> None:
    config = CONFIG.format(further="")
    found = check_slurm(None, 1.0, Recorded(scontrol=config, sinfo=row)).findings
    (nodes,) = [each for each in found if each.about == "whole nodes"]
    assert "OverSubscribe=EXCLUSIVE" in nodes.text
    assert not nodes.is_fine


def test_outcomes_are_those_of_batsim() -> None:
    (job,) = SlurmManager(run=Recorded(squeue=[ROWS[0] | {"State": "NODE_FAIL"}])).jobs()
    assert job.outcome == COMPLETED_KILLED


@pytest.mark.parametrize("name", ["CliFilterPlugins", "JobSubmitPlugins"])
def test_who_is_never_answered_without_a_filter_is_told(name: str) -> None:
    assert "is never answered" in unfiltered(settings_of(Recorded(scontrol=f"{name} = (null)\n")))
    assert unfiltered(settings_of(Recorded(scontrol=f"{name} = cli_filter/lua\n"))) == ""
