"""Fixtures of the commands' tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def inputs(shared: Path) -> Path:
    return shared / "batsim" / "inputs"


@pytest.fixture
def machine(inputs: Path) -> list[str]:
    """Options that name a platform and a workload of one job."""
    return ["-p", str(inputs / "p4_nonet.xml"), "-w", str(inputs / "one.json")]
