"""Weights of kinds, as Slurm's ``TRESBillingWeights``."""

from __future__ import annotations

import pytest

from qops_batsim import InputError
from qops_batsim.economics import Prices
from qops_batsim.economics.billing import HowBilled, read_weights

GIB = 2**30
TAKEN = {"cores": 8, "memory": 8 * GIB, "gpus": 3, "gpus:v100": 1, "hosts": 2, "fpga": 5}


@pytest.mark.parametrize(
    ("text", "how", "billed"),
    [
        ("CPU=1.0,Mem=0.25G,GRES/gpu=2.0", "sum", 8 + 2 + 6),
        ("CPU=1.0,Mem=0.25G,GRES/gpu=2.0", "max", 8),
        # Slurm's own example: 8 GB are 2048 units by the megabyte, and 2 by the gigabyte.
        ("mem=.25", "sum", 2048),
        ("mem=.25G", "sum", 2),
        ("cpu=2,GRES/gpu:v100=10,Node=3", "sum", 16 + 10 + 6),
        ("GRES/fpga=4, License/ansys=7", "sum", 20 + 14),
        ("GRES/fpga=4,CPU=1,license/ansys=7", "max", 20 + 14),
        ("License/ansys=7", "max", 14),
    ],
)
def test_weights_mean_what_they_do_in_slurm(text: str, how: HowBilled, billed: float) -> None:
    weights = read_weights(text, how, where="weights")
    assert weights.billed(TAKEN, {"ansys": 2, "other": 9}) == billed


@pytest.mark.parametrize(
    "text",
    ["CPU", "CPU=", "CPU=-1", "CPU=1,CPU=2", "BB=1", "CPU=1;Mem=2", "GRES/=1", "", "Mem=1Gi"],
)
def test_other_texts_are_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(InputError, match=r"^prices is .* are expected$") as error:
        read_weights(text, "sum", where="prices")
    assert "CPU=1.0,Mem=0.25G,GRES/gpu=2.0" in str(error.value)


def test_who_cannot_use_weights_refuses_them() -> None:
    prices = Prices(billing_weights="CPU=1")
    prices.check(by_weights=True)
    with pytest.raises(InputError, match="only `charges` counts by weights"):
        prices.check()
    with pytest.raises(InputError, match="billing is max"):
        Prices(billing="max").check(by_weights=True)
