"""Quantities with units as SimGrid writes them: ``100Mf``, ``125MBps``, ``50us``, ``256MiB``.

The units are those of SimGrid 3.34 and 4.1 (``xbt_parse_units``); a number
without a unit counts in the base unit, as in SimGrid, which calls that deprecated.
"""

from __future__ import annotations

import math
import re

from qops_batsim.errors import InputError, shown

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

_DECIMAL = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")
_DECIMAL_WORDS = ("", "kilo", "mega", "giga", "tera", "peta", "exa", "zetta", "yotta")


def _scale(unit: str, base: float, prefixes: tuple[str, ...], step: float) -> dict[str, float]:
    return {prefix + unit: base * step**power for power, prefix in enumerate(prefixes)}


_SPEED = _scale("f", 1.0, _DECIMAL, 1000.0) | _scale("flops", 1.0, _DECIMAL_WORDS, 1000.0)
_BANDWIDTH = (
    _scale("Bps", 1.0, _DECIMAL, 1000.0)
    | _scale("Bps", 1.0, _BINARY, 1024.0)
    | _scale("bps", 0.125, _DECIMAL, 1000.0)
    | _scale("bps", 0.125, _BINARY, 1024.0)
)
_TIME = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12}
_TIME |= {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SIZE = _scale("B", 1.0, _DECIMAL, 1000.0) | _scale("B", 1.0, _BINARY, 1024.0)

SPEED_FORM = "a speed: a number with f, kf, Mf, Gf, Tf, Pf or Ef, as in 100Mf"
BANDWIDTH_FORM = (
    "a bandwidth: a number with Bps (bytes/s) or bps (bits/s), alone or after k, M, G, T, Ki, "
    "Mi, Gi or Ti, as in 125MBps"
)
TIME_FORM = "a duration: a number with s, ms, us, ns, ps, m, h, d or w, as in 50us"
SIZE_FORM = "a size: a number with B, alone or after k, M, G, T, Ki, Mi, Gi or Ti, as in 256MiB"


def parse_speed(text: str, *, where: str, zero: bool = False) -> float:
    """Parse a speed (flop/s), which must be above 0 unless ``zero`` is true.

    ``where`` says what the text is, for the message (``"a.xml: line 3: <host id='a'>: speed"``).

    >>> parse_speed("1.5teraflops", where="speed")
    1500000000000.0
    """
    return _parse(text, _SPEED, "f", SPEED_FORM, where, zero)


def parse_bandwidth(text: str, *, where: str) -> float:
    """Parse a bandwidth above 0 (bytes/s)."""
    return _parse(text, _BANDWIDTH, "Bps", BANDWIDTH_FORM, where, False)


def parse_time(text: str, *, where: str) -> float:
    """Parse a duration of at least 0 (s)."""
    return _parse(text, _TIME, "s", TIME_FORM, where, True)


def parse_size(text: str, *, where: str) -> int:
    """Parse a size above 0 (bytes), rounded.

    Unlike SimGrid's sizes, bits (``b``) are refused: for a memory they are a slip.
    """
    return round(_parse(text, _SIZE, "B", SIZE_FORM, where, False))


def format_speed(speed: float) -> str:
    """Return a text that :func:`parse_speed` reads as exactly ``speed`` (flop/s)."""
    return _format(speed, {unit: _SPEED[unit] for unit in ("f", "kf", "Mf", "Gf", "Tf", "Pf")})


def format_bandwidth(bandwidth: float) -> str:
    """Return a text that :func:`parse_bandwidth` reads as exactly ``bandwidth`` (bytes/s)."""
    names = ("Bps", "kBps", "MBps", "GBps", "TBps")
    return _format(bandwidth, {unit: _BANDWIDTH[unit] for unit in names})


def format_time(seconds: float) -> str:
    """Return a text that :func:`parse_time` reads as exactly ``seconds``."""
    return _format(seconds, {unit: _TIME[unit] for unit in ("s", "ms", "us", "ns")})


def format_size(size: int) -> str:
    """Return a text that :func:`parse_size` reads as exactly ``size`` (bytes)."""
    names = ("B", "KiB", "MiB", "GiB", "TiB")
    return _format(float(size), {unit: _SIZE[unit] for unit in names})


def _parse(
    text: str, units: dict[str, float], default: str, form: str, where: str, zero: bool
) -> float:
    number = _NUMBER.match(text)
    factor = units.get(text[number.end() :] or default) if number else None
    value = float(number[0]) * factor if number and factor is not None else math.nan
    if not (0 <= value < math.inf):
        raise InputError(f"{where} is {shown(text)}; {form} is expected")
    if value == 0 and not zero:
        raise InputError(f"{where} is {shown(text)}; more than 0 is expected")
    return value


def _format(value: float, units: dict[str, float]) -> str:
    """Format a value as 1 to 999 of a unit if that is exact, else in the base unit."""
    value = float(value)
    largest = max(units.values())
    for unit, factor in units.items():
        text = f"{value / factor:.15g}"
        fits = 1 <= float(text) < (1000 if factor < largest else 1e15)
        if fits and float(text) * factor == value:
            return text + unit
    base = next(iter(units))
    return f"{int(value)}{base}" if value.is_integer() and value < 1e15 else f"{value!r}{base}"
