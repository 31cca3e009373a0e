"""Advice for operators of a centre: explanations, charges, what a log could promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.advice.advise import AdviceChoices as AdviceChoices
    from qops_batsim.advice.charge_report import PriceList as PriceList
    from qops_batsim.advice.explain import Explanation as Explanation
    from qops_batsim.advice.trace_runs import AdviceCase as AdviceCase
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "advise": "AdviceChoices",
            "charge_report": "PriceList",
            "explain": "Explanation",
            "trace_runs": "AdviceCase",
        },
    )
