"""The units of systemd that are shipped, and what the process says to systemd."""

from __future__ import annotations

import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qops_batsim.cli.main import main
from qops_batsim.live import LiveCentre, Unreachable
from qops_batsim.live.check import Checked, Finding, check_slurm
from qops_batsim.live.daemon import follow, settings_when_told, sole_decider
from qops_batsim.live.journal import InUse
from support.live_site import Site

UNITS = Path(__file__).resolve().parents[2] / "docs" / "live"
pytestmark = pytest.mark.skipif(not UNITS.is_dir(), reason="no docs beside the tests")


def setting(unit: str, name: str) -> str:
    lines = (UNITS / unit).read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith(f"{name}="))


@pytest.mark.parametrize(
    ("unit", "told"),
    [
        (
            "qops-live.service",
            "sinfo is not installed; a machine with Slurm's commands is expected",
        ),
        (
            "qops-release.service",
            "squeue is not installed; a machine with Slurm's commands is expected",
        ),
    ],
)
def test_their_commands_are_understood(
    unit: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Up to where a Slurm and a journal are needed, which are not there."""
    _, *words = shlex.split(setting(unit, "ExecStart").replace("/var/lib/qops", str(tmp_path)))
    monkeypatch.setattr("sys.argv", ["qops-batsim", *words])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_finds_nothing_wrong_with_them(tmp_path: Path) -> None:
    """But for the place of the program, which is a real one here."""
    for unit in UNITS.glob("*.service"):
        text = unit.read_text().replace("/opt/qops/bin/qops-batsim", sys.executable)
        (tmp_path / unit.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", *map(str, sorted(tmp_path.glob("*.service")))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    # What is restarted forever would never hand the jobs back.
    assert setting("qops-live.service", "OnFailure") == "qops-release.service"


def test_each_poll_is_a_sign_of_life(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(Exception):
        pass

    polls = []

    def step() -> None:
        polls.append(len(polls))
        if len(polls) == 3:
            raise Ended

    monkeypatch.setattr(site.centre, "step", step)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with pytest.raises(Ended):
            follow(site.centre, 0.001)
        said = [systemd.recv(64).decode() for _ in range(3)]
        with pytest.raises(BlockingIOError):
            systemd.recv(64)
    assert said == ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]
    # Three missed polls of a second are not the end, and the unit bears a slow Slurm.
    assert float(setting("qops-live.service", "WatchdogSec")) >= 60


CONFIG = {"clustername": "c/1", "slurmuser": "root(0)"}


@pytest.mark.parametrize(
    ("first", "second", "fights"),
    [
        ("main", "main", True),
        (None, None, True),
        (None, "main", True),
        ("main", None, True),
        ("main,big", "big", True),
        ("main", "big", False),
        ("main", "Main", False),
    ],
)
def test_one_process_decides_for_a_partition(
    tmp_path: Path, first: str | None, second: str | None, fights: bool
) -> None:
    """Whatever their journals are called: without a partition it is about all of them."""
    config = CONFIG | {"statesavelocation": str(tmp_path)}
    with sole_decider(config, first):
        told = (
            pytest.raises(
                InUse, match=r"decides for .*partition.* of cluster c/1; end that process first"
            )
            if fights
            else nullcontext()
        )
        with told, sole_decider(config, second):
            pass
        with sole_decider(config | {"clustername": "other"}, first):
            pass
    with sole_decider(config, second):
        assert {each.stat().st_mode & 0o077 for each in tmp_path.iterdir()} == {0}


@pytest.mark.parametrize("releases", [False, True])
def test_a_journal_that_fails_ends_with_the_code_that_the_unit_knows(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    releases: bool,
) -> None:
    """The disk is full when the second job comes: it stays held, or is handed back."""
    fake, path = site.fake, str(tmp_path / "full.db")

    def fill_up(centre: LiveCentre, poll: float) -> None:
        centre.step()
        pages = centre._journal._db.execute("PRAGMA page_count").fetchone()[0]
        centre._journal._db.execute(f"PRAGMA max_page_count={pages}")
        while True:
            fake.submit(4, limit=60, run_time=50).is_held = True
            centre.step()

    fake.jobs = lambda: [replace(job.seen(), is_handed=job.is_held) for job in fake.all.values()]  # type: ignore[method-assign]
    monkeypatch.setattr("qops_batsim.live.slurm_manager.SlurmManager", lambda partition: fake)
    monkeypatch.setattr("qops_batsim.live.daemon.settings_of", lambda: CONFIG)
    monkeypatch.setattr(
        "qops_batsim.live.check.check_slurm",
        lambda partition, poll: Checked(findings=[], margin=0.0, grace=0.0),
    )
    monkeypatch.setattr("qops_batsim.live.daemon.follow", fill_up)
    words = ["live", "qops", "--journal", path, *(["--release-on-failure"] if releases else [])]
    monkeypatch.setattr("sys.argv", ["qops-batsim", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert str(ended.value.code) == setting("qops-live.service", "RestartPreventExitStatus")
    told = " ".join(capsys.readouterr().err.split())
    assert (
        f"error: {path}: the journal cannot be read or written (database or disk is full); " in told
    )
    assert any(job.is_held for job in fake.all.values()) != releases


@pytest.mark.parametrize(("mode", "code"), [([], 1), (["--shadow"], 0)])
def test_a_dry_run_and_check_call_the_same_bad(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    mode: list[str],
    code: int,
) -> None:
    """A shadow needs no rights."""
    bad = Finding(about="rights", is_fine=False, text="ada may not hold the jobs of others")
    monkeypatch.setattr("qops_batsim.live.slurm_manager.SlurmManager", lambda partition: site.fake)
    monkeypatch.setattr(
        "qops_batsim.live.check.check_slurm",
        lambda partition, poll: Checked(findings=[bad], margin=0.0, grace=0.0),
    )
    words = ["live", "qops", "--journal", str(tmp_path / "dry.db"), "--dry-run", *mode]
    monkeypatch.setattr("sys.argv", ["qops-batsim", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code or 0) == code
    assert ("warning: rights: ada may not hold" in capsys.readouterr().err) == bool(code)


@pytest.mark.parametrize("partition", ["absent", "main,absent", ""])
def test_a_partition_that_does_not_exist_is_bad(partition: str) -> None:
    def run(command: Sequence[str], form: str) -> str:
        if command[0] == "sinfo":
            return "1|NO\n" if command[3] == "main" else ""
        return "KillWait = 30\n"

    def bad(partition: str | None) -> set[str]:
        return {
            each.about for each in check_slurm(partition, 1.0, run).findings if not each.is_fine
        }

    assert bad(partition) - bad("main") == {"partition"}


def test_settings_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A live process may be there before slurmctld is, and says so once."""
    answers: list[Any] = [Unreachable("no answer"), Unreachable("no answer"), CONFIG]

    def read() -> dict[str, str]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    monkeypatch.setattr("qops_batsim.live.daemon.settings_of", read)
    lines: list[str] = []
    assert settings_when_told(0.0, lines.append) == CONFIG
    assert lines == ["no news: no answer"]
