"""Quantities with units."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError
from qops_batsim import quantities as units


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.SPEED.parse, "100Mf", 100e6),
        (units.SPEED.parse, "1.5Gf", 1.5e9),
        (units.SPEED.parse, "0.25kf", 250.0),
        (units.SPEED.parse, "2Tf", 2e12),
        (units.SPEED.parse, "1Pf", 1e15),
        (units.SPEED.parse, "3Ef", 3e18),
        (units.SPEED.parse, "1e3f", 1000.0),
        (units.SPEED.parse, "3gigaflops", 3e9),
        (units.SPEED.parse, "7flops", 7.0),
        (units.SPEED.parse, "42", 42.0),
        (units.SPEED.parse, ".5f", 0.5),
        (units.BANDWIDTH.parse, "125MBps", 125e6),
        (units.BANDWIDTH.parse, "1Gbps", 125e6),
        (units.BANDWIDTH.parse, "8bps", 1.0),
        (units.BANDWIDTH.parse, "1KiBps", 1024.0),
        (units.BANDWIDTH.parse, "2MiBps", 2.0 * 1024**2),
        (units.BANDWIDTH.parse, "8Gibps", 1024.0**3),
        (units.BANDWIDTH.parse, "1kBps", 1000.0),
        (units.BANDWIDTH.parse, "5", 5.0),
        (units.TIME.parse, "0", 0.0),
        (units.TIME.parse, "2s", 2.0),
        (units.TIME.parse, "3m", 180.0),
        (units.TIME.parse, "1h", 3600.0),
        (units.TIME.parse, "1d", 86400.0),
        (units.TIME.parse, "1w", 604800.0),
        (units.TIME.parse, "5ms", 5e-3),
        (units.TIME.parse, "7us", 7e-6),
        (units.TIME.parse, "9ns", 9e-9),
        (units.TIME.parse, "1ps", 1e-12),
        (units.TIME.parse, "1.5", 1.5),
        (units.SIZE.parse, "256MiB", 256 * 1024**2),
        (units.SIZE.parse, "2GB", 2 * 10**9),
        (units.SIZE.parse, "512", 512),
    ],
)
def test_quantities(parse: Callable[..., float], text: str, value: float) -> None:
    assert parse(text, where="quantity") == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("parse", "text", "accepted"),
    [
        (units.SPEED.parse, "100Mx", "a number with f, kf, Mf"),
        (units.SPEED.parse, "100 Mf", "a number with f, kf, Mf"),
        (units.SPEED.parse, "fast", "a number with f, kf, Mf"),
        (units.SPEED.parse, "", "a number with f, kf, Mf"),
        (units.SPEED.parse, "nan", "a number with f, kf, Mf"),
        (units.SPEED.parse, "1e400f", "a number with f, kf, Mf"),
        (units.SPEED.parse, "-1Mf", "a number with f, kf, Mf"),
        (units.SPEED.parse, "100KiF", "a number with f, kf, Mf"),
        (units.SPEED.parse, "0f", "more than 0"),
        (units.BANDWIDTH.parse, "125MB", "a number with Bps"),
        (units.BANDWIDTH.parse, "0Bps", "more than 0"),
        (units.TIME.parse, "5minutes", "a number with s, ms"),
        (units.TIME.parse, "-1s", "a number with s, ms"),
        (units.SIZE.parse, "256Mb", "a number with B"),
    ],
)
def test_refused(parse: Callable[..., object], text: str, accepted: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, where="<host id='a'>: speed")
    assert str(caught.value).startswith(f"<host id='a'>: speed is {text!r}; ")
    assert accepted in str(caught.value)


def test_a_long_text_is_shortened() -> None:
    with pytest.raises(InputError) as caught:
        units.SPEED.parse("9" * 5000 + "x", where="speed")
    assert len(str(caught.value)) < 200


_POSITIVE = st.floats(min_value=1e-15, max_value=1e24)


@given(_POSITIVE)
def test_written_speeds_and_bandwidths_read_back(value: float) -> None:
    assert units.SPEED.parse(units.SPEED.format(value), where="") == value
    assert units.BANDWIDTH.parse(units.BANDWIDTH.format(value), where="") == value


@given(st.just(0.0) | st.floats(min_value=1e-15, max_value=1e9))
def test_written_times_read_back(seconds: float) -> None:
    assert units.TIME.parse(units.TIME.format(seconds), where="") == seconds


@given(st.integers(min_value=1, max_value=2**50))
def test_written_sizes_read_back(size: int) -> None:
    assert units.SIZE.parse(units.SIZE.format(size), where="") == size


def test_written_for_people() -> None:
    assert units.SPEED.format(98.095e6) == "98.095Mf"
    assert units.SPEED.format(0.0) == "0f"
    assert units.BANDWIDTH.format(2.25e9) == "2.25GBps"
    assert units.TIME.format(59.904e-6) == "59.904us"
    assert units.TIME.format(0.0) == "0s"
    assert units.SIZE.format(3 * 2**29) == "1.5GiB"
