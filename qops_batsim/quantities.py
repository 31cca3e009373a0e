"""Quantities with units as SimGrid writes them: ``100Mf``, ``125MBps``, ``50us``, ``256MiB``.

The units are those of SimGrid 3.34 and 4.1 (``xbt_parse_units``); a number
without a unit counts in the base unit, as in SimGrid, which calls that deprecated.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from qops_batsim.errors import InputError, shown

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

_DECIMAL = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")
_DECIMAL_WORDS = ("", "kilo", "mega", "giga", "tera", "peta", "exa", "zetta", "yotta")


def _scale(unit: str, base: float, prefixes: tuple[str, ...], step: float) -> dict[str, float]:
    return {prefix + unit: base * step**power for power, prefix in enumerate(prefixes)}


class Quantity(NamedTuple):
    """A kind of quantities: the units in which they are read, and those in which they are written.

    Attributes
    ----------
    units
        Factors to the base unit, by unit.
    written
        Units in which texts are written, the base unit first.
    form
        What is accepted, for messages.
    may_be_zero
        Whether 0 is accepted.
    """

    units: dict[str, float]
    written: tuple[str, ...]
    form: str
    may_be_zero: bool = False

    def parse(self, text: str, *, where: str) -> float:
        """Parse a quantity, in the base unit.

        ``where`` says what the text is, for messages (``"a.xml: line 3: <host id='a'>: speed"``).

        >>> SPEED.parse("1.5teraflops", where="speed")
        1500000000000.0
        """
        number = _NUMBER.match(text)
        factor = self.units.get(text[number.end() :] or self.written[0]) if number else None
        value = float(number[0]) * factor if number and factor is not None else math.nan
        if not (0 <= value < math.inf):
            raise InputError(f"{where} is {shown(text)}; {self.form} is expected")
        if value == 0 and not self.may_be_zero:
            raise InputError(f"{where} is {shown(text)}; more than 0 is expected")
        return value

    def format(self, value: float) -> str:
        """Return a text that :meth:`parse` reads as exactly ``value``: 1 to 999 of a unit if that
        is exact, else in the base unit.
        """
        value = float(value)
        for unit in self.written:
            factor = self.units[unit]
            text = f"{value / factor:.15g}"
            is_largest = unit == self.written[-1]
            fits = 1 <= float(text) < (1e15 if is_largest else 1000)
            if fits and float(text) * factor == value:
                return text + unit

        number = f"{int(value)}" if value.is_integer() and value < 1e15 else f"{value!r}"
        return number + self.written[0]


SPEED = Quantity(
    _scale("f", 1.0, _DECIMAL, 1000.0) | _scale("flops", 1.0, _DECIMAL_WORDS, 1000.0),
    ("f", "kf", "Mf", "Gf", "Tf", "Pf"),
    "a speed: a number with f, kf, Mf, Gf, Tf, Pf or Ef, as in 100Mf",
)
"""Speeds (flop/s)."""

SPEED_OR_NONE = SPEED._replace(may_be_zero=True)
"""Speeds of the power states of a host, which may be switched off."""

BANDWIDTH = Quantity(
    _scale("Bps", 1.0, _DECIMAL, 1000.0)
    | _scale("Bps", 1.0, _BINARY, 1024.0)
    | _scale("bps", 0.125, _DECIMAL, 1000.0)
    | _scale("bps", 0.125, _BINARY, 1024.0),
    ("Bps", "kBps", "MBps", "GBps", "TBps"),
    "a bandwidth: a number with Bps (bytes/s) or bps (bits/s), alone or after k, M, G, T, Ki, Mi, "
    "Gi or Ti, as in 125MBps",
)
"""Bandwidths (bytes/s)."""

TIME = Quantity(
    {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12}
    | {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0},
    ("s", "ms", "us", "ns"),
    "a duration: a number with s, ms, us, ns, ps, m, h, d or w, as in 50us",
    may_be_zero=True,
)
"""Durations (seconds)."""

SIZE = Quantity(
    _scale("B", 1.0, _DECIMAL, 1000.0) | _scale("B", 1.0, _BINARY, 1024.0),
    ("B", "KiB", "MiB", "GiB", "TiB"),
    "a size: a number with B, alone or after k, M, G, T, Ki, Mi, Gi or Ti, as in 256MiB",
)
"""Sizes (bytes). Unlike in SimGrid, bits (``b``) are refused: for a memory they are a slip."""

SIZE_OR_NONE = SIZE._replace(may_be_zero=True)
"""Sizes of what a host may not have."""
