"""Fixtures of live centres."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.live_site import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "journal.db")
    yield made
    made.journal.close()
