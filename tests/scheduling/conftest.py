"""The contract without its time limit: kernels are compiled meanwhile, on whatever machine."""

from __future__ import annotations

import pytest

from qops_batsim.running import contract


@pytest.fixture(autouse=True)
def no_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "CASE_SECONDS", 1e6)
