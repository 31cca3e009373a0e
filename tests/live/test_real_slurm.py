"""A real Slurm on this machine: promises survive a kill -9, an outage and the loss of a node."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from qops_batsim import read_run, verify
from qops_batsim.live import (
    SHADOW,
    About,
    CommandFailed,
    JobPhase,
    Journal,
    LiveCentre,
    ShadowManager,
    SlurmManager,
    decided_fates,
)
from qops_batsim.live.as_run import export_run
from qops_batsim.live.centre import hand_back
from qops_batsim.slurm.commands import run_command
from support.live_process import Deciding
from support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.sweep, pytest.mark.usefixtures("slurm")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    # Others than root have to find it, for whom pytest's directories are closed.
    place = TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True)
    with place as base, SlurmCluster(Path(base), 8) as made:
        yield made


def submit(cluster: SlurmCluster, nodes: int, seconds: float, deadline: float) -> str:
    date = time.strftime("%FT%T", time.localtime(time.time() + deadline))
    options = ["--hold", "-N", str(nodes), "-t", "1", f"--comment=deadline={date}"]
    return cluster.submit(f"exec sleep {seconds}", *options)


def test_thirty_jobs_a_kill_an_outage_and_a_lost_node(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    deciding = Deciding(cluster, tmp_path)
    try:
        for number in range(30):
            # Every sixth job cannot be in time.
            deadline = 40 if number % 6 == 5 else 900
            submit(cluster, 1 + number % 4, 2 + number % 5, deadline)
            if number == 10:
                deciding.kill()
                deciding.start()
            elif number == 16:
                cluster.stop_controller()
                time.sleep(3)
                cluster.start_controller()
                cluster.wait_for(lambda: cluster.run("sinfo", "-h", check=False), 20, "answers")
            elif number == 22:
                cluster.stop_node("n8")
                cluster.run("scontrol", "update", "nodename=n8", "state=down", "reason=test")
            time.sleep(0.4)
        time.sleep(2)
        cluster.start_node("n8")
        cluster.wait_until_empty()
        time.sleep(2)
    finally:
        deciding.end()
    with Journal(deciding.journal) as journal:
        entries = journal.entries()
        fates = decided_fates(entries)
        files = export_run(journal, tmp_path / "run")  # Which replays it.
        assert journal.orders(only_open=True) == []
    lost = {each.job for each in entries if each.number and each.is_ours}
    assert len(fates) == 30
    assert all(each.is_over for each in fates.values())
    promised = {job: each for job, each in fates.items() if each.promise is not None}
    assert len(promised) == 25
    broken = [job for job, fate in promised.items() if not fate.end or fate.end > fate.promise]
    assert set(broken) <= lost
    assert sum(each.answer == "refused" for each in fates.values()) == 5
    assert files
    found = verify(read_run(str(tmp_path / "run")))
    # What could not be kept after the loss is told, and nothing else.
    assert {each.rule for each in found} <= {"admitted-deadline"}
    assert {job.partition("r")[0] for each in found for job in each.jobs} <= {
        f"w0!{job}" for job in lost
    }


def as_nobody(command: Sequence[str], stdin: str) -> str:
    """Run a command of Slurm as a user without any right."""
    return run_command(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command], stdin
    )


def test_a_shadow_needs_no_rights_and_changes_nothing(
    cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks as nobody, who may not hold the jobs of others, and all the same promises."""
    monkeypatch.setenv("SLURM_CONF", cluster.env["SLURM_CONF"])
    monkeypatch.setenv("PATH", cluster.env["PATH"])
    jobs = [submit(cluster, 2, 1, 150) for _ in range(2)]
    slurm = SlurmManager(run=as_nobody)
    before = [each for each in slurm.jobs() if each.id in jobs]
    about = About(
        mode=SHADOW,
        scheduler="qops",
        options={"grace": 6.0},
        origin=0.0,
        nodes=[],
        partition=None,
        margin=5.0,
        time_zone="UTC",
    )
    with Journal(tmp_path / "shadow.db", writes=True) as journal:
        centre = LiveCentre(ShadowManager(slurm), journal, about)
        for _ in range(4):
            centre.step()
            time.sleep(0.3)
        entries = journal.entries()
        assert {each.answer for each in entries if each.job in jobs} == {"promised"}
        assert journal.notes("alarm") == []
    assert [each for each in slurm.jobs() if each.id in jobs] == before
    assert {each.phase for each in before} == {JobPhase.WAITING}
    for send in (slurm.hold, slurm.release):
        with pytest.raises(CommandFailed):
            send(jobs)
    cluster.run("scancel", *jobs)


def test_jobs_without_a_deadline_give_way_below_a_preempting_partition(tmp_path: Path) -> None:
    """Slurm fills the nodes from below by itself; what is promised above starts all the same."""
    below = "PartitionName=below Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=0"
    settings = ["PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE", below]
    place = TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True)
    with place as base, SlurmCluster(Path(base), 4, settings) as cluster:
        fill = [cluster.submit("exec sleep 300", "-p", "below", "-N2", "-t9") for _ in range(2)]
        cluster.wait_for(lambda: cluster.idle() == 0, 20, "all nodes are used")
        deciding = Deciding(cluster, tmp_path, "--partition", "main", "--leave-best-effort")
        try:
            jobs = [submit(cluster, 4, 1, 75), submit(cluster, 2, 1, 400)]
            cluster.wait_until_empty("-p", "main", seconds=60)
            time.sleep(2)
        finally:
            deciding.end()
        form = "JobID:8,RestartCnt:4,Reason:20"
        said = cluster.run("squeue", "-h", "-p", "below", "-O", form).splitlines()
    rows = {row[0]: row[1:] for row in map(str.split, said)}
    assert [rows[each][0] for each in fill] == ["1", "1"]
    with Journal(deciding.journal) as journal:
        entries = journal.entries()
        assert journal.notes("alarm") == []
    assert [each.job for each in entries] == jobs
    for each in entries:
        assert each.promise is not None
        assert each.end is not None
        assert each.end <= each.promise
        assert each.start - each.ordered < 5.0


def test_what_the_shipped_plugins_hold_is_known_by_its_mark_and_stays_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A deadline becomes a comment; without any journal, what they hold is freed and no more."""
    shipped = Path(__file__).resolve().parents[2] / "docs" / "live"
    if not shipped.is_dir():
        pytest.skip("no docs beside the tests")
    wishes = {
        "--deadline=2030-12-01T08:00": f"deadline={datetime(2030, 12, 1, 8).timestamp():.0f} qops",
        "--comment=deadline=2030-01-01T00:00": "deadline=2030-01-01T00:00 qops",
        "--comment=my-qops\n1|CANCELLED|32": "my-qops\n1|CANCELLED|32 qops",
        "--partition=other,main": "qops",
        "--hold": "qops=held-by-user",
    }
    settings = ["CliFilterPlugins=cli_filter/lua", "JobSubmitPlugins=lua"]
    settings.append("PartitionName=other Nodes=ALL MaxTime=INFINITE State=UP")
    place = TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True)
    with place as base:
        for path in shipped.glob("*.lua"):
            (Path(base) / path.name).write_text(path.read_text())
        with SlurmCluster(Path(base), 1, settings) as cluster:
            for name in ("SLURM_CONF", "PATH"):
                monkeypatch.setenv(name, cluster.env[name])
            nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            sbatch = [*nobody, "sbatch", "--parsable", "-D/", "-o/dev/null", "-t1", "--wrap=true"]
            jobs = [cluster.run(*sbatch, wish).strip() for wish in wishes]
            # One whose user goes around the filter.
            lines = cluster.conf.read_text().splitlines()
            cluster.env["SLURM_CONF"] = str(cluster.base / "own.conf")
            own = "\n".join(each for each in lines if not each.startswith("CliFilter"))
            (cluster.base / "own.conf").write_text(own)
            jobs.append(cluster.run(*sbatch).strip())
            told = "Reason:0 ,deadline:0 ,Comment:0"
            said = [cluster.run("squeue", "-h", "-j", job, "-O", told)[:-1] for job in jobs]
            assert said == [f"JobHeldUser N/A {each}" for each in (*wishes.values(), "qops")]
            slurm = SlurmManager()
            assert {job.id for job in slurm.jobs() if job.is_ready} == {*jobs} - {jobs[4]}
            slurm.hold(jobs[:1])
            cluster.run("scontrol", "hold", jobs[1])
            freed = {jobs[0], jobs[2], jobs[3], jobs[5]}
            for change in ("Nice=100", "Priority=9", "Comment=mine", "Partition=other"):
                for job in freed:
                    with suppress(CommandFailed):
                        as_nobody(["scontrol", "update", f"jobid={job}", change], "")
            assert {job.id for job in slurm.jobs() if job.is_handed} == freed
            assert {*hand_back(None, slurm, 0.0)} == freed
            left = {job.id for job in slurm.jobs() if job.phase is JobPhase.WAITING}
            assert left >= {jobs[1], jobs[4]}
            free = cluster.run(*sbatch, "--partition=other", "--begin=now+90").strip()
            with pytest.raises(CommandFailed, match="Unspecified error"):
                as_nobody(["scontrol", "update", f"jobid={free}", "Partition=main"], "")
            as_nobody(["scontrol", "release", jobs[4]], "")
            assert [job.id for job in slurm.jobs() if job.is_handed] == [jobs[4]]
