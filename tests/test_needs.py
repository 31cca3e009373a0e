"""Markers of tests that need what not every machine has: from fixtures, told at collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from support import needs
from support.needs import Found


def markers(request: pytest.FixtureRequest) -> set[str]:
    return {each.name for each in request.node.iter_markers()} & {*needs.FINDERS, "sweep"}


def test_who_uses_a_fixture_has_its_marker(request: pytest.FixtureRequest, shared: Path) -> None:
    assert markers(request) == {"shared_data"}


def test_who_uses_it_through_another_fixture_has_it_too(
    request: pytest.FixtureRequest, batsim5_sessions: Path
) -> None:
    assert markers(request) == {"shared_data"}


def test_others_have_none(request: pytest.FixtureRequest) -> None:
    assert markers(request) == set()


def test_few_cases_are_made_but_in_sweeps(
    request: pytest.FixtureRequest, many: Callable[[int], range]
) -> None:
    assert len(many(101)) == (101 if "sweep" in markers(request) else 21)


def test_what_is_told_at_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    there, absent = Found("/x/batsim", "v4.2.1 at /x/batsim"), Found("", "no real Batsim 5")
    found = {"batsim": (lambda: there, lambda: absent), "slurm": (lambda: absent,)}
    monkeypatch.setattr(needs, "FINDERS", found)
    assert needs.summary(Counter(batsim=7), Counter(slurm=2, sweep=9)) == [
        "batsim: 7 tests, v4.2.1 at /x/batsim; no real Batsim 5",
        "slurm: 2 tests left out",
        "sweep: 9 tests left out (-m sweep runs them)",
    ]
    assert needs.summary(Counter(slurm=3), Counter()) == [
        "slurm: 3 tests, skipped: no real Batsim 5"
    ]
