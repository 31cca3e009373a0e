"""``qops-batsim queue starts`` and ``queue backtest`` at the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest

from qops_batsim.files import Stored, read_stored
from qops_batsim.queue.calibration import WAITS
from qops_batsim.traces import reading as traces

WEEK = 604_800
UNIX = 1_780_000_000
HEAD = f"; UnixStartTime: {UNIX}\n; TimeZoneString: Europe/Stockholm\n; MaxProcs: 8\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return an SWF log of three weeks: users 1 and 2 use half of their limits."""
    rng, lines = np.random.default_rng(2), []
    for number, date in enumerate(np.sort(rng.integers(0, 3 * WEEK, 300)).tolist()):
        limit = int(rng.choice([3600, 7200, 36_000]))
        run, width = max(int(limit * rng.uniform(0.3, 0.7)), 1), int(rng.integers(1, 9))
        wait = int(rng.integers(0, 20_000))
        fields = [number + 1, date, wait, run, width, -1, -1, width, limit, -1, 1]
        lines.append(" ".join(map(str, [*fields, int(rng.integers(1, 3)), 1, 1, 1, 1, -1, -1])))
    path = tmp_path / "log.swf"
    path.write_text(HEAD + "\n".join(lines) + "\n")
    return path


NOW = UNIX + 3 * WEEK + 3600


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    jobs = [
        {"id": "7", "processors": 6, "estimate": 7200, "start": NOW - 600, "user": "1"},
        {"id": "8", "processors": 8, "estimate": 3600, "submission": NOW - 500, "user": "2"},
        {"id": "9", "processors": 1, "estimate": 3600, "submission": NOW - 60, "user": "1"},
    ]
    path = tmp_path / "queue.json"
    path.write_text(json.dumps({"processors": 8, "now": NOW, "jobs": jobs}))
    return path


def test_each_waiting_job_has_dates(cli, queue: Path, log: Path) -> None:
    asked = ("queue", "starts", queue, "--history", log, "--now", str(NOW), "--draws", "50")
    done = cli(*asked)
    assert done.exit_code == 0, done.err
    assert "jobs: 1 running, 2 waiting; 50 simulations by easy, not calibrated" in " ".join(
        done.out.split()
    )
    found = json.loads(cli(*asked, "--json").out)
    assert found == json.loads(cli(*asked, "--json").out)
    eighth, ninth = found["jobs"]
    # By limits, 7 ends 6,600 s from now; it uses 30 to 70 % of its limit.
    assert eighth["planned"] == NOW + 6600
    assert NOW + 0.3 * 7200 - 600 <= eighth["early"] <= eighth["median"] < eighth["planned"]
    # A job for one processor and less time than that starts at once.
    assert ninth["median"] == ninth["planned"] == NOW
    assert ninth["within"] == [1.0, 1.0]


def squeue(*jobs: dict) -> str:
    """Return what squeue says of jobs of an hour: id, state, and what else is told."""
    numbers = {"cpus": 4, "time_limit": 60, "submit_time": NOW - 500, "user_name": "1"}
    told = [numbers | {"job_id": at} | job for at, job in enumerate(jobs, 1)]
    return json.dumps({"meta": {}, "errors": [], "last_update": NOW, "jobs": told})


def pending(reason: str, **further: object) -> dict:
    return {"job_state": "PENDING", "state_reason": reason, **further}


def test_jobs_that_cannot_start_are_told_with_what_they_wait_for(cli, log, tmp_path) -> None:
    """The machine is used until 3,000 s from now; the held one would take all of it."""
    array = {"array_job_id": 7, "array_task_string": "1-5%2", "cpus": 1}
    queue = tmp_path / "squeue.json"
    queue.write_text(
        squeue(
            {"job_state": "RUNNING", "cpus": 8, "start_time": NOW - 600},
            pending("JobHeldUser", cpus=8),
            pending("Dependency"),
            pending("AssocGrpCpuLimit"),
            pending("Priority", priority=1),
            pending("Resources", priority=2),
            pending("JobArrayTaskLimit", **array),
            pending("None", cpus=9),
        )
    )
    asked = ("queue", "starts", queue, "--history", log, "--processors", "8", "--now", str(NOW))
    found = json.loads(cli(*asked, "--json", "--draws", "20").out)["jobs"]
    assert [(job["id"], job["waits_for"], job["reason"], job["no_date"]) for job in found] == [
        ("6", "resources", "Resources", None),
        ("5", "priority", "Priority", None),
        ("7_1", "array limit", "JobArrayTaskLimit", None),
        ("7_2", "array limit", "JobArrayTaskLimit", None),
        ("7_[3-5]", "array limit", "JobArrayTaskLimit", "waits for a date or another job"),
        ("2", "hold", "JobHeldUser", "cannot start until something changes"),
        ("3", "dependency", "Dependency", "waits for a date or another job"),
        ("4", "limit", "AssocGrpCpuLimit", "waits for a date or another job"),
        ("8", "resources", "wider than the machine", "cannot start until something changes"),
    ]
    assert [job["planned"] for job in found] == [NOW + 3000] * 2 + [NOW + 6600] * 2 + [None] * 5
    done = cli(*asked, "--draws", "20")
    words = " ".join(done.out.split())
    assert "jobs: 1 running, 4 waiting, 5 more that cannot start now; 20 simulations" in words
    assert "Jobs that wait without a date" in words
    assert "left out" not in done.err


def test_components_of_a_heterogeneous_job_start_together(cli, log: Path, tmp_path) -> None:
    """Four of eight processors are used for 3,000 s; 2 needs six, 4 fits beside what runs.

    4 |1111|22|
    4 |4...|22|
    """
    queue = tmp_path / "squeue.json"
    parts = ({"cpus": 2, "het_job_offset": 0}, {"cpus": 4, "het_job_offset": 1})
    queue.write_text(
        squeue(
            {"job_state": "RUNNING", "cpus": 4, "start_time": NOW - 600},
            *(pending("Resources", priority=9, het_job_id=2, **part) for part in parts),
            pending("Priority", cpus=4, time_limit=30, priority=1),
        )
    )
    asked = ("queue", "starts", queue, "--history", log, "--processors", "8", "--now", str(NOW))
    found = json.loads(cli(*asked, "--json", "--draws", "20").out)
    assert [(job["id"], job["components"], job["processors"]) for job in found["jobs"]] == [
        ("2", ["2+0", "2+1"], 6),
        ("4", [], 4),
    ]
    assert [job["planned"] - NOW for job in found["jobs"]] == [3000, 0]
    done = cli(*asked, "--draws", "20")
    assert "1 running, 2 waiting; 20 simulations" in " ".join(done.out.split())
    assert "2 (2+0, 2+1) │" in done.out
    quoted = json.loads(cli("queue", "quote", queue, "4x30m", *asked[5:], "--json").out)
    assert quoted["jobs"][0]["wait"] == 3000 + 3600  # 4 is there already.


@pytest.fixture
def gpus(tmp_path: Path) -> Path:
    """Four of eight processors are free, and 2 waits for Resources; 4 cannot start anyhow."""
    path = tmp_path / "squeue.json"
    path.write_text(
        squeue(
            {"job_state": "RUNNING", "cpus": 4, "start_time": NOW - 600},
            pending("Resources", cpus=4, priority=9, partition="gpu"),
            pending("Priority", cpus=1, priority=8, partition="gpu"),
            pending("Dependency", partition="gpu"),
            pending("Priority", cpus=2, partition="cpu"),
        )
    )
    return path


WHY = (
    "job 2 (partition gpu) waits for Resources, though it needs 4 processors and 4 are free; what "
    "it lacks (GPUs, memory, whole nodes, ...) is not planned here, so neither it nor any job "
    "behind it has a date"
)


@pytest.mark.parametrize("with_history", [True, False])
def test_behind_a_wait_that_is_not_explained_nothing_has_a_date(
    cli, gpus: Path, log: Path, tmp_path: Path, with_history: bool
) -> None:
    asked = ("queue", "starts", gpus, "--processors", "8", "--now", str(NOW))
    asked += ("--history", log, "--draws", "20") if with_history else ()
    found = json.loads(cli(*asked, "--json").out)
    told = {job["id"]: job["no_date"] for job in found["jobs"]}
    fits = "waits for Resources, though enough processors are free"
    assert told == {
        "2": fits,
        "3": f"is behind a job that {fits}",
        "4": "waits for a date or another job",
        "5": None,
    }
    assert [job["planned"] for job in found["jobs"] if job["no_date"]] == [None] * 3
    assert found["unexplained"] == [{"job": "2", "partition": "gpu", "processors": 4, "free": 4}]
    page = tmp_path / "page.html"
    done = cli(*asked, "--out", page)
    assert WHY in " ".join(done.err.split())
    assert "1 running, 1 waiting, 3 more that have no date" in " ".join(done.out.split())
    assert WHY[1:] in " ".join(page.read_text().split())
    assert "is behind a job that waits for Resources" in page.read_text()
    # Nor has a job that is not submitted yet.
    for more in ((), ("--what-if",)):
        done = cli(*asked, "--job", "1x1h", *more)
        assert done.exit_code == 0, done.err
        assert WHY in " ".join(done.err.split())
        assert "is behind a job that waits" in " ".join(done.out.split())
    answer = json.loads(cli(*asked, "--job", "1x1h", "--json").out)
    assert answer["unexplained"] == found["unexplained"]
    (new,) = answer["jobs"]
    assert (new["planned"], new["no_date"]) == (None, f"is behind a job that {fits}")


def test_a_quote_behind_such_a_wait_is_refused(cli, gpus: Path, log: Path) -> None:
    asked = ("queue", "quote", gpus, "1x1h", "--processors", "8", "--now", str(NOW))
    asked += ("--deadline", "5h")
    done = cli(*asked)
    assert done.exit_code == 0, done.err
    assert f"1 x 1 h: refused: {WHY}" in " ".join(done.out.split())
    found = json.loads(cli(*asked, "--history", log, "--json").out)
    (answer,) = found["jobs"]
    assert (answer["admitted"], answer["end"], answer["reason"]) == (False, None, WHY)
    assert found["state"]["unexplained"][0]["job"] == "2"
    (likely,) = found["likely"]
    assert (likely["chance"], likely["end"], likely["price"]) == (None, None, None)


def test_without_a_history_the_plan_by_limits_is_told(cli, queue: Path, tmp_path: Path) -> None:
    asked = ("queue", "starts", queue, "--now", str(NOW))
    done = cli(*asked)
    assert done.exit_code == 0, done.err
    assert "Starts in the plan by time limits, which is no forecast" in done.out
    told = " ".join(done.err.split())
    assert "this is the plan by time limits, no forecast: most jobs end before" in told
    found = json.loads(cli(*asked, "--json").out)
    assert found["is_forecast"] is False
    # By limits, 7 ends 6,600 s from now; 9 ends before that.
    assert [(job["id"], job["planned"] - NOW) for job in found["jobs"]] == [("8", 6600), ("9", 0)]
    assert not {"median", "early", "late"} & found["jobs"][0].keys()
    page = tmp_path / "page.html"
    assert cli(*asked, "--out", page).exit_code == 0
    assert "no forecast" in page.read_text()
    assert "1.83" in page.read_text()


def test_plan_and_forecast_have_the_same_starts_by_limits(cli, queue: Path, log: Path) -> None:
    for options in ((), ("--by-scheduler", "slurm"), ("--job", "8x1h"), ("--job", "2x1h")):
        asked = ("queue", "starts", queue, "--now", str(NOW), "--json", *options)
        plan = json.loads(cli(*asked).out)
        forecast = json.loads(cli(*asked, "--history", log, "--draws", "10").out)
        assert (plan["is_forecast"], forecast["is_forecast"]) == (False, True)
        for job, other in zip(plan["jobs"], forecast["jobs"], strict=True):
            assert {**other, **job} == other


def test_new_jobs_are_planned_without_a_history(cli, queue: Path) -> None:
    asked = ("queue", "starts", queue, "--now", str(NOW), "--job", "1x1h")
    assert json.loads(cli(*asked, "--json").out)["jobs"][0]["planned"] == NOW
    done = cli(*asked, "--what-if")
    assert "By time limits, jobs start within, by processors and time limit" in done.out
    assert "no forecast" in done.err


def test_behind_a_job_without_a_limit_nothing_is_planned(cli, tmp_path: Path) -> None:
    jobs = [
        {"id": "1", "processors": 5, "start": NOW - 60},
        {"id": "2", "processors": 4, "estimate": 600, "priority": 2},
        {"id": "3", "processors": 3, "estimate": 600},
    ]
    path = tmp_path / "queue.json"
    path.write_text(json.dumps({"processors": 8, "now": NOW, "jobs": jobs}))
    found = json.loads(cli("queue", "starts", path, "--now", str(NOW), "--json").out)["jobs"]
    assert [(job["planned"], job["no_date"]) for job in found] == [
        (None, "cannot start until something changes"),
        (NOW, None),
    ]


@pytest.mark.parametrize("options", [("--draws", "20"), ("--calibration", "x"), ("--user", "bob")])
def test_options_of_forecasts_need_a_history(cli, queue: Path, options) -> None:
    done = cli("queue", "starts", queue, "--now", str(NOW), *options)
    assert done.exit_code == 2
    assert f"{options[0]} is given without --history" in " ".join(done.err.split())


JOBS = """JobID|Partition|State|Submit|Start|End|AllocCPUS|Timelimit
1|cpu|COMPLETED|2026-05-02T08:00:00|2026-05-02T08:00:00|2026-05-02T09:00:00|8|60
"""


def test_nodes_that_are_away_are_told_and_taken_off(cli, tmp_path: Path) -> None:
    """Of 8 processors 4 are drained: 4 are in use for 3,000 s, and 5 do not fit any more."""
    log, nodes, queue = (tmp_path / name for name in ("jobs.txt", "nodes.txt", "squeue.json"))
    log.write_text(JOBS)
    nodes.write_text(
        "PARTITION|CPUS|GRES|STATE|NODELIST\ncpu*|4|gpu:2080ti:2|mix|n1\n"
        "cpu*|4|gpu:2080ti:2|drain*|n2\n"
    )
    of_cpu = {"partition": "cpu"}
    jobs = [
        {"job_state": "RUNNING", "start_time": NOW - 600, "nodes": "n1", **of_cpu},
        pending("Resources", priority=2, **of_cpu),
        pending("Priority", priority=1, cpus=5, **of_cpu),
    ]
    queue.write_text(squeue(*jobs))
    asked = ("queue", "starts", queue, "--history", log, "--nodes", nodes, "--now", str(NOW))
    found = json.loads(cli(*asked, "--json", "--draws", "20").out)
    told = {"nodes away (DRAIN+NOT_RESPONDING), with 4 processors": 1}
    assert (found["processors"], found["left_out"]) == (4, told)
    assert [(job["planned"], job["reason"]) for job in found["jobs"]] == [
        (NOW + 3000, "Resources"),
        (None, "wider than the nodes that are not away"),
    ]
    done = cli(*asked, "--draws", "20")
    assert "left out: 1 nodes away (DRAIN+NOT_RESPONDING), with 4 processors" in done.err
    quoted = ("queue", "quote", queue, "5x1h", "--nodes", nodes, "--now", str(NOW))
    assert "from 1 to 4, the machine's 8 without the nodes" in " ".join(cli(*quoted).err.split())


def test_states_of_now_do_not_matter_for_the_past(cli, tmp_path: Path) -> None:
    jobs, nodes = tmp_path / "jobs.txt", tmp_path / "nodes.txt"
    jobs.write_text(JOBS)
    nodes.write_text("PARTITION|CPUS|GRES|STATE|NODELIST\ncpu*|4|(null)|down|n[1-2]\n")
    done = cli("workload", "import", jobs, tmp_path / "w.json", "--nodes", nodes)
    assert done.exit_code == 0, done.err
    assert "1 of 1 usable jobs written, 8 processors" in " ".join(done.out.split())
    assert "2 nodes are away now, and count: the log is of the past" in " ".join(done.err.split())


def test_an_empty_queue_has_no_forecasts(cli, log: Path, tmp_path: Path) -> None:
    (tmp_path / "squeue.json").write_text(squeue())
    (tmp_path / "scontrol.txt").write_text("No jobs in the system\n")
    for name in ("squeue.json", "scontrol.txt"):
        asked = ("queue", "starts", tmp_path / name, "--history", log, "--processors", "8")
        done = cli(*asked, "--now", str(NOW), "--json", "--draws", "10")
        assert done.exit_code == 0, done.err
        assert json.loads(done.out)["jobs"] == []


def test_users_whom_the_history_does_not_know_are_counted(cli, queue: Path, log: Path) -> None:
    """As where the queue is of another cluster."""
    jobs = json.loads(queue.read_text())
    for job in jobs["jobs"][:2]:
        job["user"] = "ada"
    queue.write_text(json.dumps(jobs))
    done = cli("queue", "starts", queue, "--history", log, "--now", str(NOW), "--draws", "10")
    told = "not sure: 2 of users whom the history does not know: run times are those of all"
    assert told in " ".join(done.err.split())


CONFIG = """\
PriorityType            = priority/multifactor
PriorityWeightAge       = 0
PriorityWeightJobSize   = 1000
PriorityFavorSmall      = Yes
SchedulerParameters     = bf_interval=1,bf_continue
"""


def test_weights_are_those_of_slurm(cli, queue: Path, log: Path, tmp_path: Path) -> None:
    """Small jobs go first: nine, of all processors but two, with it, eight otherwise."""
    jobs = json.loads(queue.read_text())
    jobs["jobs"][2] |= {"processors": 6}
    queue.write_text(json.dumps(jobs))
    config = tmp_path / "config.txt"
    config.write_text(CONFIG)
    asked = ("queue", "starts", queue, "--history", log, "--now", str(NOW), "--draws", "10")
    asked += ("--by-scheduler", "slurm", "--json")
    small = cli(*asked, "--slurm-config", config)
    assert small.exit_code == 0, small.err
    assert "of this Slurm, the simulation does not have bf_continue" in " ".join(small.err.split())

    def first(out: str) -> str:
        return min(json.loads(out)["jobs"], key=lambda job: job["planned"])["id"]

    assert (first(small.out), first(cli(*asked).out)) == ("9", "8")
    # Where priorities are told, these decide.
    config.write_text(f"{CONFIG}JOBID PARTITION PRIORITY\n8 main 900\n9 main 100\n")
    assert first(cli(*asked, "--slurm-config", config).out) == "8"
    refused = cli(*asked[:-2], "easy", "--slurm-config", config)
    assert refused.exit_code == 2
    assert "which only --by-scheduler slurm reads" in " ".join(refused.err.split())


def test_a_forecast_is_calibrated_by_a_backtest(cli, queue: Path, log: Path, tmp_path) -> None:
    done = cli("queue", "backtest", log, "--moments", "60", "--draws", "10", "--json")
    assert done.exit_code == 0, done.err
    told = json.loads(done.out)
    assert 0 <= told["coverage_50"] <= told["coverage_80"] <= 100
    assert told["by_class"][0]["forecasts"] == told["forecasts"]
    kept = tmp_path / "backtest.json"
    kept.write_text(done.out)
    asked = ("queue", "starts", queue, "--history", log, "--now", str(NOW), "--draws", "50")
    done = cli(*asked, "--calibration", kept)
    assert done.exit_code == 0, done.err
    assert "calibrated by a back-test" in " ".join(done.out.split())

    # Of what a back-test says, there is a warning each, and what it prefers is told.
    lately = {"coverage_80": 61.2, "coverage_80_interval": [52.0, 70.4], "forecasts": 300}
    usual = {"jobs": 1.0, "hours": 99.0, "hours_of_one": 99.0}
    none = [{"wait": wait, "moves": [0.0] * 6} for wait in WAITS]
    wide = [{"wait": wait, "moves": [-9, -9, 0, 1, 2, 3]} for wait in WAITS]
    change = {"by_plan": True, "lately": lately, "usual": usual}
    kept.write_text(json.dumps(told | change | {"corrections": none, "of_medians": wide}))
    done = cli(*asked, "--calibration", kept)
    words = " ".join(done.err.split())
    assert "no better than the plan by time limits calibrated in the same way" in words
    assert "of late, 61 % [52, 70] of the starts came in the intervals of 80 %" in words
    assert "unlike the past, so intervals are wider: 2 jobs wait, at nearly all past" in words
    found = json.loads(cli(*asked, "--calibration", kept, "--json").out)
    assert len(found["warnings"]) == 3
    for job in found["jobs"]:
        assert job["median"] == pytest.approx(job["planned"])
        assert job["early"] == found["now"]
        assert job["late"] > job["median"]


def test_a_backtest_is_a_table(cli, log: Path) -> None:
    done = cli(
        "queue", "backtest", log, "--moments", "30", "--draws", "10", "--starts", "simulated"
    )
    assert done.exit_code == 0, done.err
    assert "of starts came in intervals of 80 %" in " ".join(done.out.split())


@pytest.mark.parametrize(
    "corrections", ["{}", '[{"wait":600,"moves":[1,2]}]', '[{"wait":1,"moves":[1,2,3,4,5,6]}]']
)
def test_a_calibration_that_is_none(cli, queue, log, tmp_path: Path, corrections: str) -> None:
    (tmp_path / "kept.json").write_text(f'{{"scheduler":"easy","corrections":{corrections}}}')
    asked = ("queue", "starts", queue, "--history", log, "--now", str(NOW))
    done = cli(*asked, "--calibration", tmp_path / "kept.json")
    assert done.exit_code == 2
    assert " is expected" in " ".join(done.err.split())


def test_a_backtest_tells_at_how_many_moments_jobs_waited(cli, tmp_path: Path) -> None:
    # Of sixty jobs only the last but nine waits, for 30 s.
    rows = [
        f"{n} {100_000 * n} {30 * (n == 51)} 500 8 -1 -1 8 1000 -1 1 1 1 1 1 1 -1 -1"
        for n in range(1, 61)
    ]
    (tmp_path / "log.swf").write_text("\n".join(["; MaxProcs: 8", *rows, ""]))
    asked = ("queue", "backtest", tmp_path / "log.swf", "--moments", "2000", "--draws", "10")
    done = cli(*asked)
    assert done.exit_code == 0, done.err
    made = done.out.split(" moments")[0].split()[-1]
    few = f"2,000 moments at which jobs wait were asked for, but there are only {made}"
    assert few in " ".join(done.err.split())
    assert json.loads(cli(*asked, "--json").out)["moments"] == int(made) < 2000


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("--calibration", "{queue}"), "the output of `queue backtest --json` is expected"),
        (("--by-scheduler", "esay"), "esay"),
        (("--processors", "4"), "the running jobs use 6 processors, more than the 4"),
    ],
)
def test_what_cannot_be_forecast_is_one_error(cli, queue, log, change, told) -> None:
    words = [each.format(queue=queue) for each in change]
    done = cli("queue", "starts", queue, "--history", log, "--now", str(NOW), *words)
    assert done.exit_code == 2
    assert told in " ".join(done.err.split())


def test_starts_are_logged_or_simulated(cli, log: Path) -> None:
    done = cli("queue", "backtest", log, "--starts", "planned")
    assert done.exit_code == 2
    assert "logged or simulated is expected" in done.err


def test_a_history_without_starts_teaches_nothing(cli, queue: Path, tmp_path: Path) -> None:
    head = f"; MaxProcs: 8\n; UnixStartTime: {UNIX}\n; TimeZoneString: UTC\n"
    (tmp_path / "bare.swf").write_text(f"{head}1 0 -1 500 8 -1 -1 8 1000 -1 1 1 1 1 1 1 -1 -1\n")
    done = cli("queue", "starts", queue, "--history", tmp_path / "bare.swf", "--now", str(NOW))
    assert done.exit_code == 2
    assert "has no job that is known to have ended" in " ".join(done.err.split())


def test_a_queue_is_of_a_later_date_than_its_history(cli, log: Path, tmp_path: Path) -> None:
    queue = tmp_path / "early.json"
    queue.write_text(json.dumps({"processors": 8, "now": UNIX + 60, "jobs": []}))
    done = cli("queue", "starts", queue, "--history", log, "--now", str(UNIX + 60))
    assert done.exit_code == 2
    assert "a queue that is later than the history is expected" in " ".join(done.err.split())


def test_a_calibration_is_of_the_scheduler_that_decides(cli, queue, log, tmp_path: Path) -> None:
    classes = [{"wait": wait, "moves": [0] * 6} for wait in WAITS]
    kept = tmp_path / "kept.json"
    kept.write_text(json.dumps({"scheduler": "slurm", "corrections": classes}))
    asked = ("queue", "starts", queue, "--history", log, "--now", str(NOW))
    done = cli(*asked, "--calibration", kept)
    assert done.exit_code == 2
    assert "the back-test is of scheduler 'slurm'; one of 'easy'" in " ".join(done.err.split())


def test_a_job_that_is_not_submitted_is_the_last_of_the_queue(cli, queue: Path, log: Path) -> None:
    asked = ("queue", "starts", queue, "--history", log, "--now", str(NOW))
    found = json.loads(cli(*asked, "--job", "1x1h", "--job", "8x2h", "--json").out)
    narrow, wide = found["jobs"]
    assert (found["draws"], [each["id"] for each in found["jobs"]]) == (50, ["1x1h", "8x2h"])
    # Two processors are free: it starts beside the job that runs; a wide one comes after all.
    assert narrow["median"] == narrow["planned"] == NOW
    # By limits: 7 ends after 6,600 s, then 8 runs for 3,600.
    assert wide["planned"] == NOW + 6600 + 3600
    assert NOW < wide["early"] <= wide["median"] < wide["planned"]
    # What else is asked changes nothing.
    alone = json.loads(cli(*asked, "--job", "8x2h", "--json").out)["jobs"]
    assert alone == [wide]


def test_a_history_is_read_once(
    cli, queue: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def counted(path: Path, **given: Any) -> Stored:
        read.append(path)
        return read_stored(path, **given)

    monkeypatch.setattr(traces, "read_stored", counted)
    asked = ("--history", log, "--now", str(NOW), "--draws", "10")
    assert cli("queue", "starts", queue, *asked, "--job", "4x1h", "--what-if").exit_code == 0
    assert cli("queue", "starts", queue, *asked).exit_code == 0
    assert read == [log] * 2


def test_a_table_tells_what_less_time_would_do(cli, queue: Path, log: Path) -> None:
    asked = ("queue", "starts", queue, "--history", log, "--now", str(NOW), "--draws", "10")
    done = cli(*asked, "--job", "4x2h", "--what-if", "--user", "1")
    assert done.exit_code == 0, done.err
    told = " ".join(done.out.split())
    assert "10 simulations of each job by easy, as the last of the queue" in told
    assert all(limit in told for limit in ("30 min", "1 h", "2 h", "4 h"))
    found = json.loads(cli(*asked, "--job", "4x2h", "--what-if", "--json").out)["jobs"]
    assert [each["processors"] for each in found] == [2] * 4 + [4] * 4 + [8] * 4
    # With half of the time two processors end before the wide job begins.
    assert found[0]["median"] <= found[3]["median"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            ("--what-if",),
            "--what-if is given without --job; a job whose variants to forecast is expected",
        ),
        (("--job", "9x1h"), "processors is 9; a whole number from 1 to 8"),
        (("--job", "9h"), "PROCESSORSxTIME is expected"),
    ],
)
def test_what_cannot_be_asked(cli, queue: Path, log: Path, change, told: str) -> None:
    done = cli("queue", "starts", queue, "--history", log, "--now", str(NOW), *change)
    assert done.exit_code == 2
    assert told in " ".join(done.err.split())


def test_pages_are_written(cli, queue: Path, log: Path, tmp_path: Path) -> None:
    asked = ("queue", "starts", queue, "--history", log, "--now", str(NOW), "--draws", "50")
    out = tmp_path / "page.html"
    done = cli(*asked, "--out", out, "--anonymous")
    assert done.exit_code == 0, done.err
    assert "When will my job start?" in out.read_text()
    done = cli(*asked, "--out", out, "--job", "1x1h")
    assert done.exit_code == 2
    assert "are both given; one of the two options" in " ".join(done.err.split())
    done = cli("queue", "backtest", log, "--moments", "30", "--draws", "10", "--out", out)
    assert done.exit_code == 0, done.err
    assert "Back-test of log.swf, starts as logged, forecast by easy" in out.read_text()
    done = cli("queue", "backtest", log, "--out", tmp_path)
    assert done.exit_code == 2


def test_estimates_of_slurm_are_compared(cli, log: Path, tmp_path: Path) -> None:
    # As if Slurm had expected all jobs at the very end, for the last week.
    rows = [line.split() for line in log.read_text().splitlines() if line[0] != ";"]
    end = UNIX + int(rows[-1][1]) + 1e6
    looks = np.arange(UNIX + 2 * WEEK, UNIX + 3 * WEEK, 600.0).tolist()
    first = {"date": looks[0], "starts": {row[0]: end for row in rows}}
    lines = [first, *({"date": date, "starts": {}} for date in looks[1:])]
    path = tmp_path / "looks.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    asked = ("queue", "backtest", log, "--moments", "30", "--draws", "10")
    done = cli(*asked, "--slurm-estimates", path)
    assert done.exit_code == 0, done.err
    assert "Slurm's estimate (h)" in done.out
    found = json.loads(cli(*asked, "--slurm-estimates", path, "--json").out)
    assert found["of_slurm"] > 1e6
    assert json.loads(cli(*asked, "--json").out)["of_slurm"] is None
    done = cli(*asked, "--slurm-estimates", path, "--starts", "simulated")
    assert done.exit_code == 2
    assert "compared with logged starts only" in " ".join(done.err.split())


def test_starts_are_told_over_http(cli, queue: Path, log: Path) -> None:
    command = [sys.executable, "-m", "qops_batsim", "queue", "serve", queue, "--history", log]
    command += ["--max-age", "99999d", "--anonymous", "--draws", "50", "--listen", "127.0.0.1:0"]
    begun = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert begun.stderr is not None
        address = begun.stderr.readline().split()[-1]
        until, found = time.monotonic() + 120, None
        while found is None:
            assert time.monotonic() < until
            with suppress(HTTPError), urlopen(f"{address}/starts") as answer:
                found = json.load(answer)
            time.sleep(0.1)
        with urlopen(f"{address}/starts?processors=1&time=1h") as answer:
            (new,) = json.load(answer)["jobs"]
    finally:
        begun.send_signal(signal.SIGTERM)
        begun.communicate(timeout=60)
    assert begun.returncode == 0
    asked = ("queue", "starts", queue, "--history", log, "--now", str(NOW), "--draws", "50")
    told = json.loads(cli(*asked, "--anonymous", "--json").out)
    assert {name: found[name] for name in told} == told
    assert [job["user"] for job in told["jobs"]] == ["1", "2"]
    assert found["made"] > NOW
    assert new["median"] == NOW


def test_plans_are_told_over_http(cli, gpus: Path) -> None:
    command = [sys.executable, "-m", "qops_batsim", "queue", "serve", gpus, "--processors", "8"]
    command += ["--max-age", "99999d", "--listen", "127.0.0.1:0"]
    begun = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def ask(path: str) -> Any:
        with urlopen(f"{address}/{path}") as answer:
            return json.load(answer)

    try:
        assert begun.stderr is not None
        address = begun.stderr.readline().split()[-1]
        told = ask("starts")
        assert [job["id"] for job in ask("starts?job=5")["jobs"]] == ["5"]
        new = ask("starts?processors=1&time=1h")
        (quoted,) = ask("quote?processors=1&time=1h")["jobs"]
        state = ask("state")
        with pytest.raises(HTTPError, match="404"):
            ask("starts?job=77")
    finally:
        begun.send_signal(signal.SIGTERM)
        begun.communicate(timeout=60)
    assert begun.returncode == 0
    assert told == json.loads(
        cli("queue", "starts", gpus, "--processors", "8", "--now", str(NOW), "--json").out
    )
    assert told["unexplained"] == new["unexplained"] == state["unexplained"]
    assert (new["is_forecast"], new["jobs"][0]["planned"]) == (False, None)
    assert (quoted["end"], quoted["reason"]) == (None, WHY)


def test_what_is_served_with_forecasts_is_a_file(cli, log: Path) -> None:
    done = cli("queue", "serve", "-", "--history", log)
    assert done.exit_code == 2
    assert "standard input can be read only once" in " ".join(done.err.split())


def test_a_quote_tells_what_the_scheduler_itself_would_do(cli, queue: Path, log: Path) -> None:
    asked = ("queue", "quote", queue, "8x1h", "--now", str(NOW), "--deadline", "5h")
    asked += ("--history", log)
    done = cli(*asked)
    assert done.exit_code == 0, done.err
    assert "Under easy, which promises nothing" in " ".join(done.out.split())
    found = json.loads(cli(*asked, "--json").out)
    (hard,), (likely,) = found["jobs"], found["likely"]
    # By limits: 7 runs for 6,600 s, then 8 for an hour, then this one for an hour.
    assert hard["end"] == NOW + 6600 + 2 * 3600
    assert likely["chance"] == 1.0
    # 7 uses at most 70 % of its limit of 7,200 s, of which 600 s have passed.
    assert NOW + 3600 < likely["end"] <= hard["end"]
    assert likely["response"] == likely["end"] - NOW
    # The earlier end costs more.
    assert likely["price"]["qos"] >= likely["hard_price"]["qos"] > 0
    assert likely["price"]["resource"] == 8 * 3600
    early = json.loads(cli(*asked[:-4], "--deadline", "30m", "--history", log, "--json").out)
    assert early["likely"][0]["chance"] == 0.0


def test_the_zone_of_a_history_can_be_told(cli, queue: Path, log: Path) -> None:
    log.write_text(log.read_text().replace("; TimeZoneString: Europe/Stockholm\n", ""))
    asked = ("queue", "starts", queue, "--history", log, "--now", str(NOW), "--draws", "10")
    done = cli(*asked)
    assert done.exit_code == 2
    assert "TimeZoneString unless --time-zone is given" in " ".join(done.err.split())
    assert cli(*asked, "--time-zone", "Europe/Stockholm").exit_code == 0
