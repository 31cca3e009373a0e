"""Fixtures for the foreign packages."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qops_batsim import read_platform
from qops_batsim.shipped import find_input
from support.ecosystem import Example, Processes, first_jobs, four_hosts, with_watts


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Start processes; one left behind is killed and fails the test."""
    directory = tmp_path / "processes"
    directory.mkdir()
    started = Processes(directory)
    yield started
    assert started.end() == []


@pytest.fixture(scope="session")
def package() -> Callable[[str], Path]:
    """Give the folder into which ``.ci/ecosystem`` installed a foreign package."""

    def find(requirement: str) -> Path:
        home = os.environ.get("QOPS_ECOSYSTEM")
        if home is None:
            pytest.skip(f"{requirement} needs an environment of its own: run .ci/ecosystem")
        path = Path(home) / requirement
        assert path.is_dir(), f"QOPS_ECOSYSTEM is set, but there is no {path}"
        return path

    return find


@pytest.fixture(scope="session")
def qops_batsim_command() -> Path:
    """Give our command as installed beside the Python that runs the tests."""
    return Path(sys.executable).with_name("qops-batsim")


@pytest.fixture
def address() -> str:
    """Give a free address on the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture(scope="session")
def documented() -> list[str]:
    """Give the Python examples of docs/ecosystem.md."""
    page = Path(__file__).resolve().parents[2] / "docs" / "ecosystem.md"
    if not page.is_file():
        pytest.skip("this copy of the tests comes without the documentation")
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.fixture
def shipped() -> Example:
    """Give 1,000 jobs on 100 hosts; dates are whole seconds."""
    workload = find_input("kth_sp2_1000", "workloads")
    return Example(find_input("kth_sp2_100", "platforms"), workload)


@pytest.fixture
def deadlines(tmp_path: Path) -> Example:
    """Give 200 jobs with deadlines on 128 hosts; dates are whole seconds."""
    workload = first_jobs(find_input("sdsc_sp2_deadlines_500", "workloads"), 200, tmp_path)
    platform = read_platform(find_input("sdsc_sp2_128", "platforms"))
    return Example(with_watts(platform, tmp_path / "sdsc_sp2_128.xml"), workload)


RECORDED = [pytest.param(name, marks=pytest.mark.shared_data) for name in ("ties", "test_delays")]


@pytest.fixture(params=["shipped", "tiny", *RECORDED])
def example(request: pytest.FixtureRequest, shipped: Example, tmp_path: Path) -> Example:
    """Give one input after another; the last two are those of recorded Batsim sessions."""
    if request.param == "shipped":
        return shipped
    if request.param == "tiny":
        return Example(four_hosts(tmp_path), find_input("tiny_8", "workloads"))
    inputs = request.getfixturevalue("shared") / "batsim" / "inputs"
    name = {"ties": "ties.json", "test_delays": "upstream/test_delays.json"}[request.param]
    platform = with_watts(read_platform(inputs / "p4_nonet.xml"), tmp_path / "p4.xml")
    return Example(platform, inputs / name)
