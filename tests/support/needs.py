"""Fixtures of what not every machine has (shared data, Batsim, Slurm), and the tests' markers."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.slurm_cluster import missing

ROOT = Path(__file__).resolve().parents[2]

BATSIM5 = Path("batsim5") / "real" / "bin" / "batsim"
"""The real Batsim 5 within the shared data."""

MARKERS = {
    "batsim": "batsim",
    "batsched": "batsim",
    "batsim5": "batsim",
    "slurm": "slurm",
    "shared": "shared_data",
}
"""The fixtures of this module, and the marker of the tests that use them."""


class Found(NamedTuple):
    """Something that tests need.

    ``path`` is empty where it is not there; ``says`` is its version and place, or why not.
    """

    path: str
    says: str

    def required(self) -> str:
        """Return where it is; skip the test where it is not."""
        if not self.path:
            pytest.skip(self.says)
        return self.path


@functools.cache
def shared_data() -> Found:
    """Find the recorded sessions and the real logs: at ``QOPS_SHARED``, else beside the project."""
    path = Path(os.environ.get("QOPS_SHARED", ROOT / ".." / "shared"))
    if not (path / "batsim" / "cases.json").is_file():
        return Found("", f"no shared data at {path} (set QOPS_SHARED)")
    return Found(str(path), str(path.resolve()))


@functools.cache
def batsim4(name: str = "batsim") -> Found:
    """Find the real Batsim 3 or 4 on PATH, or batsched. Our own engine would call itself."""
    path = shutil.which(name)
    if path is None:
        return Found("", f"no {name} on PATH")
    if name != "batsim":
        return Found(path, path)
    version = _version(path)
    if not re.fullmatch(r"v[34]\.\d+\.\d+|commit .*", version):
        return Found("", f"{path} is no Batsim 3 or 4 ({version[:60]!r})")
    return Found(path, f"{version} at {path}")


@functools.cache
def real_batsim5() -> Found:
    """Find the real Batsim 5 in the shared data."""
    path = Path(shared_data().path) / BATSIM5
    if not shared_data().path or not path.is_file():
        return Found("", f"no real Batsim 5 at {BATSIM5} in the shared data")
    version = _version(str(path))
    if not version.startswith("5."):
        return Found("", f"{path} does not run ({version[:60]!r})")
    return Found(str(path), f"{version} at {path}")


@functools.cache
def real_slurm() -> Found:
    """Find the programs of a Slurm that tests start themselves."""
    reason = missing()
    if reason:
        return Found("", f"no Slurm here: {reason}")
    return Found("slurmctld", "slurmctld is installed")


def _version(path: str) -> str:
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=240)
    return answer.stdout.strip() or answer.stderr.strip()


FINDERS = {
    "batsim": (batsim4, real_batsim5),
    "slurm": (real_slurm,),
    "shared_data": (shared_data,),
}
"""What a marker's tests need."""


@pytest.fixture(scope="session")
def shared() -> Path:
    """Directory with the recorded Batsim sessions and the real logs."""
    return Path(shared_data().required())


@pytest.fixture(scope="session")
def batsim() -> str:
    """Path of the real Batsim 3 or 4."""
    return batsim4().required()


@pytest.fixture(scope="session")
def batsched(batsim: str) -> str:
    """Path of batsched, beside a real Batsim."""
    return batsim4("batsched").required()


@pytest.fixture(scope="session")
def batsim5() -> str:
    """Path of the real Batsim 5."""
    return real_batsim5().required()


@pytest.fixture(scope="session")
def slurm() -> None:
    """Skip what needs a real Slurm where there can be none."""
    real_slurm().required()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by the fixtures they use; leave sweeps out unless ``-m`` speaks of them."""
    for item in items:
        for fixture in MARKERS.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker(MARKERS[fixture])
    if "sweep" not in config.option.markexpr:
        swept = [item for item in items if item.get_closest_marker("sweep")]
        if swept:
            config.hook.pytest_deselected(items=swept)
            items[:] = [item for item in items if not item.get_closest_marker("sweep")]


LEFT_OUT = pytest.StashKey[Counter[str]]()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count the markers of what is left out."""
    items[0].config.stash.setdefault(LEFT_OUT, Counter()).update(_markers(items))


def summary(chosen: Counter[str], left_out: Counter[str]) -> list[str]:
    """Return a line a marker: how many tests have it, and whether what they need is there."""
    lines = []
    for name, finders in FINDERS.items():
        if chosen[name]:
            says = "; ".join(find().says for find in finders)
            without = "" if any(find().path for find in finders) else "skipped: "
            lines.append(f"{name}: {chosen[name]} tests, {without}{says}")
        elif left_out[name]:
            lines.append(f"{name}: {left_out[name]} tests left out")
    if left_out["sweep"]:
        lines.append(f"sweep: {left_out['sweep']} tests left out (-m sweep runs them)")
    return lines


def _markers(items: Iterable[pytest.Item]) -> Counter[str]:
    return Counter(name for item in items for name in {each.name for each in item.iter_markers()})


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """Show what tests need, and why they will be skipped."""
    return summary(_markers(items), config.stash.get(LEFT_OUT, Counter()))


# Where tests run in several processes, these collect them and another one shows what there is.

FOLDER = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tell the process that shows it what there is."""
    told = getattr(session.config, "workerinput", {}).get("collected")
    if told is not None:
        lines = pytest_report_collectionfinish(session.config, session.items)
        Path(told).write_text("\n".join(lines))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Name a worker the file for what it collects."""
    stash = node.config.stash
    if FOLDER not in stash:
        stash[FOLDER] = tempfile.TemporaryDirectory()
    node.workerinput["collected"] = f"{stash[FOLDER].name}/{node.gateway.id}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    """Show what the first worker has collected."""
    lines = Path(node.workerinput["collected"]).read_text()
    if lines and node.gateway.id == "gw0":
        node.config.get_terminal_writer().write(f"\n{lines}\n")
