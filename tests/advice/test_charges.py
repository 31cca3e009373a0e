"""The charges of runs, put together in Python as ``qops-batsim charges`` does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qops_batsim.advice.charges import ChargeChoices, charge_runs
from qops_batsim.economics.charges import Weights
from qops_batsim.errors import InputError


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> str:
    from qops_batsim.running.run import run

    prefix = tmp_path_factory.mktemp("runs") / "msb"
    run("msb", "sdsc_sp2_deadlines_500", out=prefix)
    return str(prefix)


def test_a_run_and_itself(cli, prefix: str) -> None:
    choices = ChargeChoices(weights=Weights(resource=1.0, qos=2.0), slowdown_bound=10.0)
    found = charge_runs(prefix, prefix, choices=choices)
    one, other = found.runs
    assert one.report == other.report
    assert len(one.jobs) == one.report.total.jobs == 500
    charge = one.report.total.charge
    assert one.report.profit == pytest.approx(charge.resource + 2 * charge.qos)
    assert found.break_even is not None
    assert found.break_even.below == "equal"
    command = ("charges", prefix, "--against", prefix, "--weights", "1,2", "--json")
    printed = json.loads(cli(*command, "--slowdown-bound", "10").out)
    assert json.loads(json.dumps(found.as_data())) == printed


def test_one_run_has_no_break_even(prefix: str) -> None:
    found = charge_runs(prefix)
    assert found.break_even is None
    assert "break_even" not in found.as_data()
    with pytest.raises(InputError, match="weight of the qos charge is -1; 0 or more"):
        charge_runs(prefix, choices=ChargeChoices(weights=Weights(qos=-1.0)))
    with pytest.raises(InputError, match="several"):
        charge_runs(prefix, workloads=[Path("several.json")])
