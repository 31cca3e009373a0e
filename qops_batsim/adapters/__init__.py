"""Our schedulers inside pybatsim, batsim-py and Gymnasium."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.adapters.gymnasium import ENVIRONMENT as ENVIRONMENT
    from qops_batsim.adapters.steered import ADMIT as ADMIT
    from qops_batsim.adapters.steered import FEATURES as FEATURES
    from qops_batsim.adapters.steered import LEAST_LAXITY as LEAST_LAXITY
    from qops_batsim.adapters.steered import REFUSE as REFUSE
    from qops_batsim.adapters.steered import Action as Action
    from qops_batsim.adapters.steered import Observation as Observation
    from qops_batsim.adapters.steered import Steered as Steered
    from qops_batsim.adapters.steered import SteeredOptions as SteeredOptions
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "gymnasium": "ENVIRONMENT",
            "steered": (
                "ADMIT FEATURES LEAST_LAXITY REFUSE Action Observation Steered SteeredOptions"
            ),
        },
    )
