"""Dates and texts of people in what scontrol and squeue print, as Slurm 22.05 writes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from qops_batsim import InputError
from qops_batsim.queue import QueueState, read_queue

NOW = 1_782_000_000  # 2026-06-21T00:00:00Z
JOB = """\
JobId=10 JobName={name}
   UserId=ina(1001) GroupId=g(100) MCS_label=N/A
   Priority=1000 Nice=0 Account=a QOS=normal
   JobState=RUNNING Reason={reason} Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:30:00 TimeLimit=10:00:00 TimeMin=N/A
   SubmitTime={submit} EligibleTime={submit}
   AccrueTime={submit}
   StartTime={start} EndTime={end} Deadline={deadline}
   SuspendTime=None SecsPreSuspend=0 LastSchedEval={submit} Scheduler=Main
   Partition=cpu AllocNode:Sid=login:1
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=n[1-2]
   NumNodes=2 NumCPUs=96 NumTasks=96 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network={network}
   Command={command}
   SubmitLine={command}
   WorkDir=/home/ina
   Comment={comment}
   StdErr=/dev/null
   Power=

"""
TEXTS = {"name": "x", "reason": "None", "network": "(null)", "command": "/x.sh", "comment": "c"}


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Any:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def job(form: str = "%Y-%m-%dT%H:%M:%S", **told: str) -> str:
    dates = {"submit": NOW - 7200, "start": NOW - 3600, "end": NOW + 32_400}
    texts = {name: datetime.fromtimestamp(at, UTC).strftime(form) for name, at in dates.items()}
    return JOB.format_map({**TEXTS, "deadline": "N/A", **texts, **told})


def one_line(text: str) -> str:
    """Return a job as ``scontrol -o`` prints it; line breaks of texts stay."""
    return text.replace("\n   ", " ").rstrip("\n") + "\n"


def read(text: str) -> QueueState:
    return read_queue(text.encode(), "q.txt", processors=256, now=NOW)


FORMS = ["%Y-%m-%dT%H:%M:%S", "%F %T", "%s", "%F %H:%M", "%FT%T+00:00", "%F %T Z"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", [str, one_line])
def test_dates_with_blanks_are_read(form: str, layout: Any) -> None:
    form = form.replace("%F", "%Y-%m-%d").replace("%T", "%H:%M:%S")
    (found,) = read(layout(job(form))).jobs
    dates = (found.submission, found.start, found.end)
    assert dates == (NOW - 7200, NOW - 3600, NOW + 32_400)
    assert (found.processors, found.nodes, found.deadline) == (96, "n[1-2]", None)


@pytest.mark.parametrize(
    "date",
    [
        *("21 Jun 09:00", "Tomorr 08:00", "Ystday 08:00", "08:00:00", "Sat 09:00", "4 Jun 2028"),
        *("Sat Jun 20 23:00:00 2026", "2026-06-21", "20260621", "1996-06-21T09:00:00", "12345"),
        *("###############################", "2026-13-21T09:00:00", "06/21/26 09:00"),
    ],
)
@pytest.mark.parametrize("field", ["start", "end", "submit", "deadline"])
def test_dates_that_are_not_sure_are_refused_by_field(date: str, field: str) -> None:
    told = "Deadline" if field == "deadline" else f"{field.capitalize()}Time"
    text = job(**{field: date})
    for each in (text, one_line(text)):
        with pytest.raises(InputError) as error:
            read(each)
        assert f"q.txt: job 1: {told} is '{date}'; a date" in str(error.value)
        assert "2000 on (SLURM_TIME_FORMAT=standard), is expected" in str(error.value)


@pytest.mark.parametrize("none", ["Unknown", "None", "N/A"])
def test_no_date_stays_none(none: str) -> None:
    (found,) = read(job(end=none, deadline=none)).jobs
    assert (found.end, found.deadline) == (None, None)


INSIDE = "EndTime=2026-06-20T23:10:00 NumCPUs=1 Partition=x"
OWNER = "UserId=eve(0) GroupId=eve(0)"


@pytest.mark.parametrize(
    "texts",
    [
        {"name": "x y=z"},
        {"name": f"x {INSIDE} JobName=y"},
        {"name": f"x {OWNER} MCS_label=N/A JobState=PENDING"},
        {"command": "/home/ina/x.sh a b=c -- JobState=PENDING"},
        {"command": f"/x.sh {INSIDE}"},
        {"comment": f"{INSIDE} Network=x Command=y"},
        {"comment": f"see {OWNER} JobState=PENDING"},
        {"comment": f"see\nticket {INSIDE}\nJobState=PENDING"},
        {"comment": "see\nJobId=99 JobName=q"},
        {"network": f"Instances=2 {INSIDE}"},
        {"reason": "burst_buffer/lua: EndTime=5 NumCPUs=1 is wrong"},
    ],
)
@pytest.mark.parametrize("layout", [str, one_line])
def test_texts_of_people_are_no_fields(texts: dict[str, str], layout: Any) -> None:
    text = layout(job(**texts)) + layout(job().replace("JobId=10", "JobId=11"))
    first, second = read(text).jobs
    assert (first.id, second.id) == ("10", "11")
    assert (first.processors, first.end, first.user) == (96, NOW + 32_400, "ina")
    assert (first.partition, first.application) == ("cpu", texts.get("name", "x"))


@pytest.mark.parametrize("where", ["name", "comment"])
@pytest.mark.parametrize("layout", [str, one_line])
def test_a_text_that_looks_like_a_whole_job_is_refused(where: str, layout: Any) -> None:
    fake = f"x {OWNER} JobState=RUNNING NumCPUs=1 TimeLimit=1:00 StartTime=2026-06-20T23:10:00 "
    with pytest.raises(InputError, match=r"job 1 \('10'\) has a name, a comment .*squeue --json"):
        read(layout(job(**{where: fake + "Command=x"})))


def test_a_text_that_is_cut_is_refused() -> None:
    whole = one_line(job()) + one_line(job().replace("JobId=10", "JobId=11"))
    with pytest.raises(InputError, match="job 2 is '11 JobName=x"):
        read(whole[: whole.index("JobId=11") + 20])
    with pytest.raises(InputError, match=r"job 2 \('11'\) has no field"):
        read(whole[: whole.index("JobId=11") + 200])


@pytest.mark.parametrize("field", ["submit_time", "start_time", "end_time", "deadline"])
@pytest.mark.parametrize("date", [21, 845_000_000, {"set": True, "infinite": False, "number": 21}])
def test_json_has_no_dates_before_2000(field: str, date: Any) -> None:
    told = {"job_id": 1, "job_state": "RUNNING", "cpus": 4, "time_limit": 60}
    told |= {"start_time": NOW - 60, field: date}
    with pytest.raises(InputError, match=rf"q.txt: jobs\[0\]: {field} is .*from the year 2000 on"):
        read(json.dumps({"meta": {}, "jobs": [told]}))


def test_columns_of_squeue_may_have_dates_with_blanks() -> None:
    head = "JOBID|STATE|CPUS|TIME_LIMIT|START_TIME|END_TIME|NODELIST|NAME\n"
    row = "1|RUNNING|8|1:00:00|2026-06-20 23:30:00|2026-06-21 00:30:00|n[1-2]|a=b|c\n"
    (found,) = read(head + row).jobs
    assert (found.start, found.end, found.nodes) == (NOW - 1800, NOW + 1800, "n[1-2]")
    with pytest.raises(InputError, match="line 2: END_TIME is '21 Jun 00:30'; a date"):
        read(head + row.replace("2026-06-21 00:30:00", "21 Jun 00:30"))
