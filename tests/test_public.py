"""What ``import qops_batsim`` offers, and the examples in its docstrings."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import qops_batsim
from qops_batsim import InputError, read_workload
from qops_batsim.platform import make_cluster
from qops_batsim.shipped import find_input

NAMES = [name for name in qops_batsim.__all__ if name != "__version__"]


def test_dir_shows_what_there_is() -> None:
    assert set(qops_batsim.__all__) <= set(dir(qops_batsim))
    assert sorted(qops_batsim.__all__) == qops_batsim.__all__
    assert not hasattr(qops_batsim, "nothing")


@pytest.mark.parametrize("name", NAMES)
def test_every_name_says_what_it_is(name: str) -> None:
    there = getattr(qops_batsim, name)
    assert getattr(qops_batsim, name) is there
    assert inspect.getdoc(there)


@pytest.mark.parametrize("name", ["qops_batsim", *NAMES])
def test_examples_are_executed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    there = qops_batsim if name == "qops_batsim" else getattr(qops_batsim, name)
    names = {each: getattr(qops_batsim, each) for each in NAMES}
    finder = doctest.DocTestFinder(recurse=inspect.isclass(there))
    found = [test for test in finder.find(there, name, globs=names) if test.examples]
    assert found, f"{name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in found:
        complaints: list[str] = []
        runner.run(test, out=complaints.append)
        assert complaints == [], "".join(complaints)


def test_simulate_takes_the_order_of_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    workload, platform = read_workload("tiny_8"), make_cluster(4)
    easy, simulate = qops_batsim.Easy, qops_batsim.simulate
    own = tmp_path / "own.json"
    own.write_bytes(find_input("tiny_8", "workloads").read_bytes())
    for one, other in (
        (("easy", workload, platform), ("easy", "tiny_8")),
        ((easy, own, platform), (easy(), "own.json")),
    ):
        ended = [[*map(repr, simulate(*each).ended)] for each in (one, other)]
        assert ended[0] == ended[1]
    assert simulate(workload=workload, scheduler="easy", platform=platform).ended
    with pytest.raises(InputError, match="unknown scheduler 'esay'; did you mean 'easy'"):
        simulate("esay", "tiny_8")
    with pytest.raises(
        InputError, match="a registered name, FILE.py:CLASS, a subclass of Scheduler"
    ):
        simulate(workload, None, "easy")


def test_verify_takes_a_run_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = qops_batsim.run("easy", "tiny_8", out="x")
    assert qops_batsim.verify(done) == qops_batsim.verify("x") == qops_batsim.verify(done.result)
    jobs = Path("x_jobs.csv").read_text()
    Path("x_run.json").unlink()
    Path("x_jobs.csv").write_text(jobs.replace("COMPLETED_SUCCESSFULLY", "COMPLETED_FAILED", 1))
    assert qops_batsim.verify("x")


def test_the_package_tells_type_checkers_that_it_has_types() -> None:
    assert (Path(qops_batsim.__file__).parent / "py.typed").is_file()


def test_nothing_heavy_is_imported_for_a_name() -> None:
    program = (
        "import sys, qops_batsim; dir(qops_batsim); "
        "print(sorted({'pandas', 'matplotlib', 'polars'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert told.stdout == "[]\n"
