"""The charges of runs, put together in Python as ``qops-batsim charges`` does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qops_batsim import InputError
from qops_batsim.advice.charge_report import charge_runs
from qops_batsim.economics import Prices


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> str:
    from qops_batsim import run

    prefix = tmp_path_factory.mktemp("runs") / "msb"
    run("msb", "sdsc_sp2_deadlines_500", out=prefix)
    return str(prefix)


def test_a_run_and_itself(cli, prefix: str, tmp_path: Path) -> None:
    prices = Prices(currency="core-s", core_hour=3600.0, qos_charge=2.0, slowdown_bound=10.0)
    found = charge_runs(prefix, prefix, prices=prices)
    one, other = found.runs
    assert one.report == other.report
    assert len(one.jobs) == one.report.total.jobs == 500
    charge = one.report.total.charge
    assert one.report.profit == pytest.approx(charge.resource + 2 * charge.qos)
    assert found.break_even is not None
    assert found.break_even.below == "equal"
    path = tmp_path / "prices.toml"
    written = {"currency": '"core-s"', "core_hour": 3600, "qos_charge": 2, "slowdown_bound": 10}
    path.write_text("".join(f"{name} = {value}\n" for name, value in written.items()))
    command = ("charges", prefix, "--against", prefix, "--prices", path, "--json")
    printed = json.loads(cli(*command).out)
    assert json.loads(json.dumps(found.as_data())) == printed


def test_one_run_has_no_break_even(prefix: str) -> None:
    found = charge_runs(prefix)
    assert found.break_even is None
    assert "break_even" not in found.as_data()
    with pytest.raises(InputError, match="prices: penalty is -1; a number from 0 up"):
        charge_runs(prefix, prices=Prices(penalty=-1.0))
    with pytest.raises(InputError, match="several"):
        charge_runs(prefix, workloads=[Path("several.json")])
