"""Quantities with units."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError
from qops_batsim.platform import units


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.parse_speed, "100Mf", 100e6),
        (units.parse_speed, "1.5Gf", 1.5e9),
        (units.parse_speed, "0.25kf", 250.0),
        (units.parse_speed, "2Tf", 2e12),
        (units.parse_speed, "1Pf", 1e15),
        (units.parse_speed, "3Ef", 3e18),
        (units.parse_speed, "1e3f", 1000.0),
        (units.parse_speed, "3gigaflops", 3e9),
        (units.parse_speed, "7flops", 7.0),
        (units.parse_speed, "42", 42.0),
        (units.parse_speed, ".5f", 0.5),
        (units.parse_bandwidth, "125MBps", 125e6),
        (units.parse_bandwidth, "1Gbps", 125e6),
        (units.parse_bandwidth, "8bps", 1.0),
        (units.parse_bandwidth, "1KiBps", 1024.0),
        (units.parse_bandwidth, "2MiBps", 2.0 * 1024**2),
        (units.parse_bandwidth, "8Gibps", 1024.0**3),
        (units.parse_bandwidth, "1kBps", 1000.0),
        (units.parse_bandwidth, "5", 5.0),
        (units.parse_time, "0", 0.0),
        (units.parse_time, "2s", 2.0),
        (units.parse_time, "3m", 180.0),
        (units.parse_time, "1h", 3600.0),
        (units.parse_time, "1d", 86400.0),
        (units.parse_time, "1w", 604800.0),
        (units.parse_time, "5ms", 5e-3),
        (units.parse_time, "7us", 7e-6),
        (units.parse_time, "9ns", 9e-9),
        (units.parse_time, "1ps", 1e-12),
        (units.parse_time, "1.5", 1.5),
        (units.parse_size, "256MiB", 256 * 1024**2),
        (units.parse_size, "2GB", 2 * 10**9),
        (units.parse_size, "512", 512),
    ],
)
def test_quantities(parse: Callable[..., float], text: str, value: float) -> None:
    assert parse(text, where="quantity") == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("parse", "text", "accepted"),
    [
        (units.parse_speed, "100Mx", "a number with f, kf, Mf"),
        (units.parse_speed, "100 Mf", "a number with f, kf, Mf"),
        (units.parse_speed, "fast", "a number with f, kf, Mf"),
        (units.parse_speed, "", "a number with f, kf, Mf"),
        (units.parse_speed, "nan", "a number with f, kf, Mf"),
        (units.parse_speed, "1e400f", "a number with f, kf, Mf"),
        (units.parse_speed, "-1Mf", "a number with f, kf, Mf"),
        (units.parse_speed, "100KiF", "a number with f, kf, Mf"),
        (units.parse_speed, "0f", "more than 0"),
        (units.parse_bandwidth, "125MB", "a number with Bps"),
        (units.parse_bandwidth, "0Bps", "more than 0"),
        (units.parse_time, "5minutes", "a number with s, ms"),
        (units.parse_time, "-1s", "a number with s, ms"),
        (units.parse_size, "256Mb", "a number with B"),
    ],
)
def test_refused(parse: Callable[..., object], text: str, accepted: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, where="<host id='a'>: speed")
    assert str(caught.value).startswith(f"<host id='a'>: speed is {text!r}; ")
    assert accepted in str(caught.value)


def test_a_long_text_is_shortened() -> None:
    with pytest.raises(InputError) as caught:
        units.parse_speed("9" * 5000 + "x", where="speed")
    assert len(str(caught.value)) < 200


_POSITIVE = st.floats(min_value=1e-15, max_value=1e24)


@given(_POSITIVE)
def test_written_speeds_and_bandwidths_read_back(value: float) -> None:
    assert units.parse_speed(units.format_speed(value), where="") == value
    assert units.parse_bandwidth(units.format_bandwidth(value), where="") == value


@given(st.just(0.0) | st.floats(min_value=1e-15, max_value=1e9))
def test_written_times_read_back(seconds: float) -> None:
    assert units.parse_time(units.format_time(seconds), where="") == seconds


@given(st.integers(min_value=1, max_value=2**50))
def test_written_sizes_read_back(size: int) -> None:
    assert units.parse_size(units.format_size(size), where="") == size


def test_written_for_people() -> None:
    assert units.format_speed(98.095e6) == "98.095Mf"
    assert units.format_speed(0.0) == "0f"
    assert units.format_bandwidth(2.25e9) == "2.25GBps"
    assert units.format_time(59.904e-6) == "59.904us"
    assert units.format_time(0.0) == "0s"
    assert units.format_size(3 * 2**29) == "1.5GiB"
