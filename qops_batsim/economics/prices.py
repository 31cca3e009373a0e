"""A centre's prices: one TOML file for ``charges``, ``advise``, ``quote`` and ``explain``.

How to combine the resource and the QoS charge is an open problem (Islam et al. 2004, section 1), so
it is up to the centre: a core-hour has a price, and so has a QoS charge of 1.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.data_problems import converted, read_toml
from qops_batsim.economics.billing import BillingWeights, HowBilled, read_weights
from qops_batsim.economics.charges import (
    Categories,
    Charge,
    PriceFunction,
    islam2004,
    load_price,
)
from qops_batsim.errors import InputError, require, shown
from qops_batsim.files import read_text

EXAMPLE = Path(__file__).with_name("prices.toml")
"""A file with all that can be set, as it is by default."""

HOUR = 3600.0


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices of a computing centre, with the categories of jobs and the price function that they
    are for.

    Attributes
    ----------
    currency, core_hour
        Price of a core-hour; without one, charges have no value in money.
    qos_charge
        Price of a QoS charge of 1.
    penalty
        How many times its QoS charge a missed deadline costs the centre.
    unused_promise
        Share of its price that promised but unused work costs: all work of a job whose user gave
        the promise back (cancelled the job), and what an estimate is longer than the run.
    slowdown_bound
        Run times below it (seconds) count as this much in slowdowns; None: as they are.
    categories
        Edges of the classes of run time and processors.
    billing_weights, billing
        What a second of one unit of each kind costs where jobs share hosts by amounts, written as
        Slurm's ``TRESBillingWeights``, in place of the job's dominant share; and whether a job's
        weighted amounts are added up, or the largest counts.
    function
        Price function, which returns the charge of one job; ``"MODULE:FUNCTION"`` in a file.
    """

    currency: str | None = None
    core_hour: float | None = None
    qos_charge: float | None = None
    penalty: float = 1.0
    unused_promise: float = 0.0
    slowdown_bound: float | None = None
    categories: Categories = Categories()
    billing_weights: str | None = None
    billing: HowBilled = "sum"
    function: PriceFunction = islam2004

    def check(self, where: str = "prices", *, by_weights: bool = False) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if a value is out of range, or there are
        weights of kinds and they are of no use (unless ``by_weights``).
        """
        if self.billing_weights is not None and not by_weights:
            raise InputError(
                f"{where}: billing_weights is {shown(self.billing_weights)}, and only `charges` "
                "counts by weights; prices without them are expected"
            )
        if self.billing == "max" and self.billing_weights is None:
            raise InputError(f"{where}: billing is max; it is expected with billing_weights only")
        _ = self.by_kind
        for name in ("core_hour", "qos_charge", "penalty", "unused_promise"):
            value = getattr(self, name)
            fits = value is None or 0 <= value < math.inf
            require(fits, f"{where}: {name}", value, "a number from 0 up is accepted")

        bound = self.slowdown_bound
        fits = bound is None or 0 < bound < math.inf
        require(fits, f"{where}: slowdown_bound", bound, "a number of seconds above 0 is accepted")
        priced = [self.currency, self.core_hour]
        if None in priced and [*priced, self.qos_charge] != [None] * 3:
            raise InputError(
                f"{where}: currency and core_hour, the price of a core-hour, are expected "
                "together, also where qos_charge is set"
            )

        self.categories.check()

    @property
    def by_kind(self) -> BillingWeights | None:
        """The weights of kinds; None without."""
        if self.billing_weights is None:
            return None
        return read_weights(self.billing_weights, self.billing, where="billing_weights")

    @property
    def rate(self) -> float:
        """Price of a core-hour, in the unit that :attr:`unit` names; 1 if no price is given."""
        return 1.0 if self.core_hour is None else self.core_hour

    @property
    def unit(self) -> str:
        """The unit of prices: the currency, or core-hours if no currency is given."""
        return self.currency or "core-h"

    @property
    def weights(self) -> tuple[float, float]:
        """Price of a processor-second and of a QoS charge of 1; both are 1 if no price is given."""
        if self.core_hour is None:
            return 1.0, 1.0
        return self.core_hour / HOUR, self.qos_charge or 0.0

    def profit(self, charge: Charge) -> float:
        """Return what a resource charge and a QoS charge are worth together at these prices
        (:attr:`weights`).
        """
        resource, qos = self.weights
        return resource * charge.resource + qos * charge.qos


def place_of(function: Any) -> str:
    """Return the name ``MODULE:FUNCTION`` by which a price function can be imported."""
    return f"{function.__module__}:{function.__name__}"


def read_prices(path: str | Path | None) -> Prices:
    """Read a file of prices (TOML); without a file, return the default prices."""
    if path is None:
        return Prices()
    what = "a file of prices (TOML)"
    text = read_text(path, what=what)

    def function(kind: Any, name: Any) -> PriceFunction:
        return load_price(str(name))

    given = read_toml(text, str(path), what)
    found = converted(given, Prices, str(path), what, hook=function)
    found.check(f"{path}", by_weights=True)
    return found
