"""What ``import qops_batsim`` offers, and the examples in its docstrings."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import pytest

import qops_batsim

NAMES = [name for name in qops_batsim.__all__ if name != "__version__"]


def test_dir_shows_what_there_is() -> None:
    assert set(qops_batsim.__all__) <= set(dir(qops_batsim))
    assert sorted(qops_batsim.__all__) == qops_batsim.__all__
    assert set(NAMES) == set(qops_batsim._WHERE)
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
