"""JSON as it is meant: no name twice in an object, numbers that fit, characters that exist."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from qops_batsim.errors import InputError, shown
from qops_batsim.limits import LETTERS_OF_LIST, LETTERS_OF_OBJECT

_MAX_DIGITS = 300
"""Digits of a whole number that surely fits into a float."""

_FEW = 100_000

_LEAST_BEYOND = 10**_MAX_DIGITS

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""What half a character may look like."""


@contextmanager
def nesting_is_limited(source: str) -> Iterator[None]:
    """Raise an InputError where JSON in the block is nested more deeply than can be followed."""
    try:
        yield
    except RecursionError:
        raise InputError(f"{source}: JSON nested too deeply for a Batsim workload") from None


def load_json(text: str, source: str) -> Any:
    """Return the JSON value, in which every number is finite and every text is encodable."""
    for letter, least in (("{", LETTERS_OF_OBJECT), ("[", LETTERS_OF_LIST)):
        if text.count(letter) > _FEW + len(text) // least:
            raise InputError(
                f"{source}: {text.count(letter)} times {letter!r} in {len(text)} letters; a Batsim "
                "workload is expected"
            )
    beyond = False

    def read_float(digits: str) -> float:
        nonlocal beyond
        value = float(digits)
        beyond = beyond or not math.isfinite(value)
        return value

    def read_int(digits: str) -> float:
        return int(digits) if len(digits) <= _MAX_DIGITS else read_float("inf")

    try:
        data = json.loads(
            text,
            object_pairs_hook=lambda pairs: _object_without_twins(pairs, source),
            parse_constant=read_float,
            parse_float=read_float,
            parse_int=read_int,
        )
    except json.JSONDecodeError as error:
        raise InputError(
            f"{source}: line {error.lineno}, column {error.colno}: not JSON ({error.msg}); "
            "a Batsim workload is expected"
        ) from None
    # Looking for the place costs a walk through everything, so only when there is a reason.
    if beyond or _is_suspicious(text):
        _refuse_unusable(data, source)
    return data


def json_writer(whole: Any, source: str) -> Callable[[Any], str]:
    """Return what writes parts of a JSON value that :func:`load_json` can read."""
    encoder = json.JSONEncoder(allow_nan=False)

    def encode(part: Any) -> str:
        try:
            text = encoder.encode(part)
        except ValueError:
            text = None
        if text is None or _is_suspicious(text):
            _refuse_unusable(whole, source)
        return text or ""

    return encode


def _is_suspicious(text: str) -> bool:
    """Tell whether half a character, or a number that is none, may be in a text."""
    step = _MAX_DIGITS // 2  # Twice as many digits fill at least one of these parts.
    parts = (text[begin : begin + step] for begin in range(0, len(text) - step + 1, step))
    return bool(_HALF.search(text)) or any(map(str.isdigit, parts))


def _refuse_unusable(data: Any, source: str) -> None:
    problem = _first_unusable(data, "")
    if problem:
        raise InputError(f"{source}: {problem}")


def _first_unusable(value: Any, place: str) -> str | None:
    """Return where a number is that is none, or half a character; None if all is well."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return f"field {shown(place)} is {shown(value)}; half a surrogate pair is no character"
    elif isinstance(value, float) and math.isnan(value):
        return f"field {shown(place)} is NaN; a finite number is expected"
    elif (isinstance(value, float) and math.isinf(value)) or (
        isinstance(value, int) and abs(value) >= _LEAST_BEYOND
    ):
        return f"field {shown(place)} is out of the range of numbers; at most 1e308 is expected"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            problem = _first_unusable(item, f"{place}[{index}]")
            if problem:
                return problem
    elif isinstance(value, dict):
        for name, item in value.items():
            inner = f"{place}.{name}" if place else name
            problem = _first_unusable(name, inner) or _first_unusable(item, inner)
            if problem:
                return problem
    return None


def _object_without_twins(pairs: list[tuple[str, Any]], source: str) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                job = f" in job {shown(result['id'])}" if "id" in result else ""
                raise InputError(
                    f"{source}: field {shown(name)} is given twice{job}; once is expected"
                )
            seen.add(name)
    return result
