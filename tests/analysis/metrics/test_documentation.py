from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from qops_batsim.analysis.metrics.run_metrics import Metrics
from qops_batsim.analysis.verify.verifier import RULES

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_every_metric_and_rule_is_documented():
    if not PAGE.is_file():
        pytest.skip("this copy of the tests comes without the documentation")
    text = PAGE.read_text()
    names = [field.name for field in msgspec.structs.fields(Metrics)]
    names += [rule.name for rule in RULES]
    assert [name for name in names if f"`{name}`" not in text] == []
