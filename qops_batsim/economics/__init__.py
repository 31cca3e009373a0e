"""Prices of quality of service: categories, slowdowns, charges, and the tolerance of users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.economics.charges import PROCESSOR_CLASSES as PROCESSOR_CLASSES
    from qops_batsim.economics.charges import RUN_TIME_CLASSES as RUN_TIME_CLASSES
    from qops_batsim.economics.charges import Categories as Categories
    from qops_batsim.economics.charges import Charge as Charge
    from qops_batsim.economics.charges import ReferenceJob as ReferenceJob
    from qops_batsim.economics.charges import SlowdownTable as SlowdownTable
    from qops_batsim.economics.charges import break_even as break_even
    from qops_batsim.economics.charges import category_slowdowns as category_slowdowns
    from qops_batsim.economics.prices import Prices as Prices
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "charges": (
                "Categories Charge PROCESSOR_CLASSES RUN_TIME_CLASSES ReferenceJob SlowdownTable "
                "break_even category_slowdowns"
            ),
            "prices": "Prices",
        },
    )
