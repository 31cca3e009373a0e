"""Slack's kernels in the tests of its rules."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def compiled_at_once(only_compiled: None) -> None:
    """Compile them first: that takes 40 s once, as Python these tests take 50 s each time."""
