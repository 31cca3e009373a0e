from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from qops_batsim.measures.metrics.run_metrics import Metrics
from qops_batsim.measures.verify.verifier import RULES

PAGES = [Path(__file__).parents[3] / "docs" / f"{name}.md" for name in ("metrics", "verification")]


def test_every_metric_and_rule_is_documented():
    if not all(page.is_file() for page in PAGES):
        pytest.skip("this copy of the tests comes without the documentation")
    text = "".join(page.read_text() for page in PAGES)
    names = [field.name for field in msgspec.structs.fields(Metrics)]
    names += [rule.name for rule in RULES]
    assert [name for name in names if f"`{name}`" not in text] == []
