"""Durations, dates and numbers as readers are told them."""

from __future__ import annotations

import math

import pytest

from qops_batsim.dates import Calendar
from qops_batsim.texts import (
    duration_text,
    exact_text,
    moment_text,
    number_text,
    round_duration_text,
    second_text,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (59.4, "59 s"), (60, "1 min"), (9407, "2 h 36 min 47 s"),
        (86400, "1 d"), (90061, "1 d 1 h 1 min 1 s"), (-61, "-1 min 1 s"),
    ],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(86400, "1 day"), (172800, "2 days"), (21600, "6 hours"), (90, "90 s"), (60, "1 minute")],
)
def test_round_durations(seconds: float, text: str) -> None:
    assert round_duration_text(seconds) == text


def test_dates() -> None:
    dates = (None, 12345.0, 1.256)
    calendar = Calendar(843480031, "Europe/Stockholm")
    assert [second_text(date) for date in dates] == ["-", "12,345", "1.26"]
    assert [moment_text(date, None) for date in dates] == ["-", "12,345 s", "1.26 s"]
    assert [moment_text(date, calendar) for date in (None, 3600)] == ["-", "1996-09-23 15:00:31"]


def test_numbers() -> None:
    assert (number_text(None), number_text(0.5, 100)) == ("-", "50.00")
    assert number_text(1234.5678, decimals=1) == "1,234.6"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (18567.0, "18567"), (1234567.891, "1234567.891"), (0.1 + 0.2, "0.3"),
        (1e-6, "0.000001"), (62645.41015625, "62645.41015625"),
        (3e12, "3000000000000"), (1e30, "1e+30"), (math.inf, "inf"),
    ],
)  # fmt: skip
def test_exact_numbers_have_all_digits(value: float, text: str) -> None:
    assert exact_text(value) == text
