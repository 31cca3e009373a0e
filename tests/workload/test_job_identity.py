"""An id is not a job: rows that cannot be of one job are of two, and clusters stay apart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError
from qops_batsim.traces import read_partitions, read_trace
from qops_batsim.workload import Conversion, convert_log
from qops_batsim.workload.accounting import Choices
from qops_batsim.workload.accounting.site import CsvForm
from support.logs import read_log

HEAD = "JobID|User|Account|JobName|State|Submit|Start|End|AllocCPUS|Timelimit"
DAY = "2026-03-10T"


def row(
    job: str,
    submit: str,
    start: str,
    end: str,
    cores: int,
    *,
    user: str = "mona",
    account: str = "chem",
    name: str = "run",
    state: str = "COMPLETED",
) -> str:
    """Return a row of sacct; dates are hh:mm of one day, or whole."""
    dates = [f"{DAY}{each}:00" if len(each) == 5 else each for each in (submit, start, end)]
    return "|".join([job, user, account, name, state, *dates, str(cores), "02:00:00"])


FIRST = row("7", "08:00", "08:30", "09:30", 64)


def read(tmp_path: Path, rows: Sequence[str], head: str = HEAD, **choices: Any) -> Conversion:
    path = tmp_path / "dump.txt"
    path.write_text("\n".join([head, *rows]) + "\n")
    return read_trace(path, accounting=Choices(**choices))


def jobs(found: Conversion) -> dict[str, tuple[int, str]]:
    """Return the processors and the user of each job."""
    names = found.names("user")
    return {
        job.id: (job.processors, user) for job, user in zip(found.workload.jobs, names, strict=True)
    }


OTHERS = {
    "another user": row("7", "09:40", "09:50", "10:00", 8, user="rita"),
    "another user, at once": row("7", "08:10", "08:15", "08:20", 8, user="rita"),
    "another user, same submission": row("7", "08:00", "08:30", "09:30", 8, user="rita"),
    "another account": row("7", "09:40", "09:50", "10:00", 8, account="phys"),
    "another name": row("7", "09:40", "09:50", "10:00", 8, name="other"),
    "long after": row("7", *(f"2033-01-01T{h}:00:00" for h in ("08", "09", "10")), 8),
    "submitted while it waits": row("7", "08:10", "09:40", "09:50", 8),
    "submitted while it runs": row("7", "09:00", "09:40", "09:50", 8),
}


@pytest.mark.parametrize("restarts", ["last", "each"])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_rows_that_cannot_be_of_one_job_are_two(
    tmp_path: Path, other: str, backwards: bool, restarts: str
) -> None:
    """The order of rows plays no part, but where both are submitted at one second."""
    rows = [FIRST, other][:: -1 if backwards else 1]
    found = read(tmp_path, rows, restarts=restarts)
    user = other.split("|")[1]
    if backwards and "same submission" in next(k for k, v in OTHERS.items() if v == other):
        assert jobs(found) == {"7": (8, "rita"), "7j2": (64, "mona")}
    else:
        assert jobs(found) == {"7": (64, "mona"), "7j2": (8, user)}
    (told,) = (each for each in found.repairs if each.rule == "ids_again")
    assert (told.jobs, told.choice) == (1, "renumber")
    assert "7j2" in told.description


@pytest.mark.parametrize(("year", "right"), [("2020", "7j2"), ("2033", "7")])
def test_a_row_without_a_submission_is_dated_by_its_start(
    tmp_path: Path, year: str, right: str
) -> None:
    """A run of other years is of another job, which has no date of submission, and is left out."""
    other = row("7", "Unknown", *(f"{year}-01-01T{hour}:00:00" for hour in ("09", "10")), 8)
    found = read(tmp_path, [other, FIRST])
    assert jobs(found) == {right: (64, "mona")}
    assert {"ids_again", "no_submit_time"} <= {each.rule for each in found.repairs}


AGAIN = {
    "requeued": row("7", "09:30", "09:40", "09:50", 8),
    "requeued minutes later": row("7", "09:45", "09:50", "09:55", 8),
    "of no known user": row("7", "09:30", "09:40", "09:50", 8, user="", account=""),
    "submitted the same moment": row("7", "08:00", "09:40", "09:50", 8, name="renamed"),
    "requeued, and waits": row("7", "09:30", "Unknown", "Unknown", 0, state="PENDING"),
}


@pytest.mark.parametrize("state", ["NODE_FAIL", "PREEMPTED", "REQUEUED", "FAILED", "COMPLETED"])
@pytest.mark.parametrize("again", AGAIN.values(), ids=AGAIN)
def test_runs_of_one_job_are_one(tmp_path: Path, again: str, state: str) -> None:
    first = FIRST.replace("COMPLETED", state)
    more = row("8", "08:00", "08:00", "09:00", 1)
    found = read(tmp_path, [first, again, more])
    right = {"8": (1, "mona")} | ({} if "PENDING" in again else {"7": (8, again.split("|")[1])})
    assert jobs(found) == right
    assert "ids_again" not in {each.rule for each in found.repairs}


def test_an_interrupted_job_may_change_its_account(tmp_path: Path) -> None:
    """Who is preempted may go on under another account, which a job that ended does not."""
    again = row("7", "09:30", "09:40", "09:50", 8, account="phys", name="new")
    assert list(jobs(read(tmp_path, [FIRST.replace("COMPLETED", "PREEMPTED"), again]))) == ["7"]
    assert list(jobs(read(tmp_path, [FIRST, again]))) == ["7", "7j2"]


def test_each_of_two_jobs_has_its_runs(tmp_path: Path) -> None:
    """Both are requeued once, in turns: without their users, no one could tell."""
    rows = [
        FIRST.replace("COMPLETED", "NODE_FAIL"),
        row("7", "08:10", "08:20", "09:00", 8, user="rita", state="PREEMPTED"),
        row("7", "09:00", "09:10", "09:20", 9, user="rita"),
        row("7", "09:30", "09:40", "09:50", 65),
    ]
    assert jobs(read(tmp_path, rows)) == {"7": (65, "mona"), "7j2": (9, "rita")}
    each = jobs(read(tmp_path, rows, restarts="each"))
    assert each == {
        "7": (64, "mona"),
        "7r1": (65, "mona"),
        "7j2": (8, "rita"),
        "7j2r1": (9, "rita"),
    }


def test_tasks_and_parts_are_told_apart_as_a_whole(tmp_path: Path) -> None:
    """The second array has a task that the first has not, the second job a part."""
    later = [f"2027-01-01T{hour}:00:00" for hour in ("08", "09", "10")]
    rows = [
        *(row(f"7_{task}", "08:00", "08:30", "09:30", 1) for task in (1, 2)),
        *(row(f"7_{task}", *later, 1, user="rita") for task in (2, 3)),
        row("7_[4-5]", later[0], "Unknown", "Unknown", 1, user="rita", state="PENDING"),
        *(row(f"9+{part}", "08:00", "08:30", "09:30", 10) for part in (0, 1)),
        *(row(f"9+{part}", *later, 20, user="rita") for part in (0, 1, 2)),
    ]
    found = jobs(read(tmp_path, rows))
    tasks = {"7_1": (1, "mona"), "7_2": (1, "mona"), "7j2_2": (1, "rita"), "7j2_3": (1, "rita")}
    assert found == {**tasks, "9": (20, "mona"), "9j2": (60, "rita")}
    log = read_log(tmp_path / "dump.txt", Choices(states=["PENDING"]))
    assert log.ids == ["7j2_4", "7j2_5"]


def test_new_ids_are_those_of_no_other_job(tmp_path: Path) -> None:
    later = [f"2027-01-01T{hour}:00:00" for hour in ("08", "09", "10")]
    table = ["job,who,made,begun,over,cores", "7,a,2026-01-01,2026-01-01,2026-01-02,1"]
    table += [f"7,b,{','.join(later)},2", f"7j2,c,{','.join(later)},3"]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(table) + "\n")
    names = ("id", "user", "submit", "start", "end", "processors")
    form = CsvForm(dict(zip(names, table[0].split(","), strict=True)))
    found = convert_log(read_log(path, Choices(), "csv", form))
    assert jobs(found) == {"7": (1, "a"), "7j2": (3, "c"), "7j3": (2, "b")}


def test_json_tells_jobs_of_one_id_apart(tmp_path: Path) -> None:
    def job(begin: int, cores: int, **more: str) -> dict[str, Any]:
        time = {"submission": begin, "start": begin + 60, "end": begin + 120, "elapsed": 60}
        return {"job_id": 7, "state": "COMPLETED", "time": time, "required": {"CPUs": cores},
                "user": "mona", **more}  # fmt: skip

    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"jobs": [job(1_700_000_000, 64), job(1_780_000_000, 8)]}))
    assert jobs(read_trace(path)) == {"7": (64, "mona"), "7j2": (8, "mona")}
    two = [job(1_700_000_000, 64, cluster="a"), job(1_700_000_000, 8, cluster="b")]
    path.write_text(json.dumps({"jobs": two}))
    with pytest.raises(InputError, match="jobs of clusters a, b, which"):
        read_trace(path)
    assert jobs(read_trace(path, accounting=Choices(cluster="b"))) == {"7": (8, "mona")}


CLUSTERS = [f"alder|{FIRST}", f"birch|{FIRST.replace('|64|', '|8|')}"]


def test_clusters_are_machines_of_their_own(tmp_path: Path) -> None:
    head = f"Cluster|{HEAD}"
    with pytest.raises(InputError, match="clusters alder, birch, .*--cluster alder"):
        read(tmp_path, CLUSTERS, head)
    with pytest.raises(InputError, match="has jobs of clusters"):
        read_partitions(tmp_path / "dump.txt")
    found = read(tmp_path, CLUSTERS, head, cluster="birch")
    assert (jobs(found), found.workload.processors) == ({"7": (8, "mona")}, 8)
    assert [(each.rule, each.jobs) for each in found.repairs if each.jobs] == [("other_cluster", 1)]
    (part,) = read_partitions(tmp_path / "dump.txt", accounting=Choices(cluster="birch"))[
        0
    ].values()
    assert jobs(part) == {"7": (8, "mona")}
    with pytest.raises(InputError, match=r"no job is of cluster 'birhc'.*birch"):
        read(tmp_path, CLUSTERS, head, cluster="birhc")
    with pytest.raises(InputError, match="names no cluster"):
        read(tmp_path, [FIRST], cluster="birch")


def test_a_job_that_another_cluster_ran_is_of_no_cluster_here(tmp_path: Path) -> None:
    rows = [CLUSTERS[0].replace("COMPLETED", "REVOKED"), CLUSTERS[1]]
    assert jobs(read(tmp_path, rows, f"Cluster|{HEAD}")) == {"7": (8, "mona")}


PBS = """\
05/02/2019 08:00:00;Q;{id};queue=batch
05/02/2019 08:30:00;S;{id};user=mona {first}start=1556785800 Resource_List.ncpus=64
05/02/2019 12:30:00;E;{id};user=mona {first}start=1556785800 end=1556800200 Exit_status=0
{date};Q;{id};queue=batch
{date};S;{id};user={user} {second}Resource_List.ncpus=8
{date};E;{id};user={user} {second}Exit_status=0 resources_used.walltime=00:30:00
"""


@pytest.mark.parametrize("restarts", ["last", "each"])
@pytest.mark.parametrize(("date", "user", "first", "second"), [
    ("02/10/2026 10:00:00", "rita", "ctime=1556784000 ", "ctime=1770717600 "),
    ("02/10/2026 10:00:00", "rita", "", ""),
    ("02/10/2026 10:00:00", "mona", "", ""),
    ("05/02/2019 13:00:00", "mona", "ctime=1556784000 ", "ctime=1556802000 "),
    ("05/02/2019 13:00:00", "mona", "", ""),  # Queued again: an ended job is not.
])  # fmt: skip
def test_records_of_pbs_that_cannot_be_of_one_job_are_two(
    tmp_path: Path, date: str, user: str, first: str, second: str, restarts: str
) -> None:
    path = tmp_path / "pbs"
    for job, other in (("1.pbs", "1j2.pbs"), ("1[3].pbs", "1j2[3].pbs")):
        path.write_text(PBS.format(id=job, date=date, user=user, first=first, second=second))
        found = read_trace(path, accounting=Choices(restarts=restarts))
        assert jobs(found) == {job: (64, "mona"), other: (8, user)}
        assert found.workload.processors == 64
        assert found.records["run_time"].tolist() == [14400, 1800]


def test_a_job_of_pbs_that_ran_again_is_one(tmp_path: Path) -> None:
    """A rerun, a move between queues, and files that are out of order."""
    lines = """\
03/10/2026 00:01:00;Q;1.s;queue=route
03/10/2026 00:01:01;Q;1.s;queue=batch
03/10/2026 00:02:00;S;1.s;user=mona ctime=1773100860 start=1773100920 Resource_List.ncpus=2
03/12/2026 00:02:00;R;1.s;
03/20/2026 00:03:00;S;1.s;user=mona ctime=1773100860 start=1773964980 Resource_List.ncpus=2
03/20/2026 00:04:00;E;1.s;user=mona ctime=1773100860 start=1773964980 end=1773965040
"""
    path = tmp_path / "pbs"
    for text in (lines, lines + lines):
        path.write_text(text)
        assert jobs(read_trace(path)) == {"1.s": (2, "mona")}


def test_a_rerun_tells_its_run_where_the_start_is_in_an_older_file(tmp_path: Path) -> None:
    """PBS Professional: R has the dates of the run that it ends, as E has; two runs, each once."""
    about = "user=mona ctime=1773100860 start={} Resource_List.ncpus=2 run_count={}"
    lines = [
        f"03/10/2026 01:02:00;R;1.s;{about.format(1773100920, 1)}\n",
        f"03/10/2026 03:02:00;E;1.s;{about.format(1773108120, 2)} end=1773111720\n",
    ]
    path = tmp_path / "pbs"
    for text in ("".join(lines), "".join(lines * 2)):
        path.write_text(text)
        found = read_trace(path, accounting=Choices(restarts="each"))
        assert jobs(found) == {"1.s": (2, "mona"), "1.sr1": (2, "mona")}
        assert found.records["run_time"].tolist() == [3600, 3600]
        assert jobs(read_trace(path)) == {"1.s": (2, "mona")}


def test_servers_of_pbs_are_machines_of_their_own(tmp_path: Path) -> None:
    text = "03/10/2026 00:04:00;E;{};user=mona ctime=1773100860 start=1773100920 end=1773101040 "
    path = tmp_path / "pbs"
    ends = [f"{text.format(job)}Resource_List.ncpus=2\n" for job in ("1.s", "2.s.org", "1.t")]
    path.write_text("".join(ends))
    with pytest.raises(InputError, match="clusters s, t, which"):
        read_trace(path)
    found = read_trace(path, accounting=Choices(cluster="s"))
    assert jobs(found) == {"1.s": (2, "mona"), "2.s.org": (2, "mona")}
