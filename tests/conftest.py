"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

from support import needs

ROOT = Path(__file__).resolve().parent.parent

sys.path.append(str(ROOT))  # studies; at the end, so that the package is the one that is installed

# No test depends on how fast a machine is, nor on how wide its terminal is (pytest-xdist says 80).
# Examples are few; the weekly sweeps make many (--hypothesis-profile=many).
settings.register_profile("many", deadline=None, max_examples=100)
settings.register_profile("few", deadline=None, max_examples=40)
settings.load_profile("few")
os.environ.pop("COLUMNS", None)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name no test after bytes: those of gzip hold the date, and workers must agree on names."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None


def pytest_configure(config: pytest.Config) -> None:
    """Add the fixtures of what not every machine has with their markers; tell failures at once."""
    config.pluginmanager.register(needs, "needs")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailuresAtOnce(config), "failures-at-once")


class FailuresAtOnce:
    """Names each test that fails when it does: a run that is ended early has told something."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = "" if crash is None else f": {crash.message.splitlines()[0][:200]}"
            self._config.get_terminal_writer().line(f"\n{report.nodeid} fails{message}")


@pytest.fixture(scope="session", autouse=True)
def ordinary_signals() -> None:
    """Undo what a shell does to background jobs: signals ignored here are ignored by children."""
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_DFL),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(scope="session", autouse=True)
def contracts_without_time_limit() -> Iterator[None]:
    """Let a scheduler answer the cases of its contract whenever: uncompiled it takes its time."""
    from qops_batsim.running import contract

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contract, "CASE_SECONDS", 1e6)
        yield


FEW = 5
"""A sweep tries this factor more random cases (:func:`many`)."""


@pytest.fixture(params=[FEW, pytest.param(1, marks=pytest.mark.sweep)], ids=["few", "many"])
def many(request: pytest.FixtureRequest) -> Callable[[int], range]:
    """Give the numbers of random cases: all of so many in a sweep, else one in :data:`FEW`."""
    return lambda count: range(-(-count // request.param))


@pytest.fixture(scope="session")
def batsim5_sessions(shared: Path) -> Path:
    """Directory with the recorded sessions of the real Batsim 5."""
    path = shared / "batsim5" / "sessions"
    if not path.is_dir():
        pytest.skip("no recorded sessions of Batsim 5 (batsim5/sessions in the shared directory)")
    return path


@pytest.fixture
def browse(tmp_path: Path) -> Callable[[str], str]:
    """Open a page in a browser, which must not complain, and return what it has become."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium on PATH")

    def opened(page: str) -> str:
        (tmp_path / "page.html").write_text(page)
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
        options += ["--enable-logging=stderr", "--window-size=1100,900"]
        # What a script does later is waited for.
        options += ["--virtual-time-budget=10000"]
        done = subprocess.run(
            [browser, *options, "--dump-dom", (tmp_path / "page.html").as_uri()],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert "CONSOLE" not in done.stderr
        return done.stdout

    return opened


@dataclass
class CliResult:
    exit_code: int
    out: str
    err: str


@pytest.fixture
def cli(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., CliResult]:
    """Run the command line in this process, errors handled as for a user."""
    from qops_batsim.cli.main import main

    def run(*arguments: object) -> CliResult:
        monkeypatch.setattr(sys, "argv", ["qops-batsim", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else (0 if stop.code is None else 1)
        captured = capsys.readouterr()
        return CliResult(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session", autouse=True)
def disk_of_tests() -> Iterator[None]:
    """Let files of tests stay in memory: they need not be there after a loss of power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield
