"""What the wheel and the source distribution hold, and that the wheel is what is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import qops_batsim
import qops_batsim.compiled

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.skipif(
    "QOPS_DISTRIBUTION" not in os.environ,
    reason="distributions are built by .ci/book (QOPS_DISTRIBUTION=DIRECTORY)",
)


def files(*folders: str, below: Path = ROOT) -> set[str]:
    """Return the files of the tree in these folders, without what running it leaves behind."""
    return {
        str(path.relative_to(below))
        for folder in folders
        for path in (below / folder).rglob("*")
        if path.is_file() and path.suffix != ".so" and LEFT_BEHIND.isdisjoint(path.parts)
    }


LEFT_BEHIND = {"__pycache__", ".ipynb_checkpoints", "out"}

MODULES = (*qops_batsim.compiled.COMPILED, "core/_shared")
COMPILED = {f"qops_batsim/{path}{EXTENSION_SUFFIXES[0]}" for path in MODULES}


@pytest.fixture(scope="module")
def built() -> Path:
    return Path(os.environ["QOPS_DISTRIBUTION"])


def test_the_wheel_holds_the_package_its_inputs_and_its_licence(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    information = f"qops_batsim-{qops_batsim.__version__}.dist-info"
    expected = files("qops_batsim") | {
        f"qops_batsim/data/{name}" for name in files("platforms", "workloads")
    }
    told = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt")
    assert held == expected | COMPILED | {f"{information}/{name}" for name in told}
    assert qops_batsim.is_compiled()


def test_the_source_distribution_holds_what_is_needed_to_build_test_and_cite(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        members = {member.name.split("/", 1)[1] for member in archive if member.isfile()}
    code = files("qops_batsim", "tests", "benchmarks", "studies")
    rest = files("platforms", "workloads", "notebooks", "docs")
    single = {"README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "zensical.toml"}
    single |= {"CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"}
    single |= {"pyproject.toml", "PKG-INFO", ".gitignore", ".ci/conda/recipe.yaml"}
    single |= {"setup.py", "setup.cfg", "build_backend.py", "MANIFEST.in"}
    told = {each for each in members if each.startswith("qops_batsim.egg-info/")}
    assert members - told == code | rest | single


def test_the_main_job_runs_from_the_wheel(tmp_path: Path) -> None:
    assert ROOT not in Path(qops_batsim.__file__).parents or ".venv" in qops_batsim.__file__
    command = [Path(sys.executable).parent / "qops-batsim", "run", "qops", "--quiet"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    again = [command[0], "run", "--again", "out/qops_run.json", "--out", "again/qops", "--quiet"]
    subprocess.run(again, cwd=tmp_path, check=True, timeout=300)
    first, second = tmp_path / "out/qops_jobs.csv", tmp_path / "again/qops_jobs.csv"
    assert first.read_bytes() == second.read_bytes()
