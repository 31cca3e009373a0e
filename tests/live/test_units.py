"""The units of systemd that are shipped, and what the process says to systemd."""

from __future__ import annotations

import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from live_site import Site
from qops_batsim.cli.main import main
from qops_batsim.live.daemon import follow

UNITS = Path(__file__).resolve().parents[2] / "docs" / "live"
pytestmark = pytest.mark.skipif(not UNITS.is_dir(), reason="no docs beside the tests")


def setting(unit: str, name: str) -> str:
    lines = (UNITS / unit).read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith(f"{name}="))


@pytest.mark.parametrize(
    ("unit", "told"),
    [
        ("qops-live.service", "sinfo: not installed; Slurm's commands are expected"),
        ("qops-release.service", "squeue: not installed; Slurm's commands are expected"),
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
