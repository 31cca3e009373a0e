"""JSON as it is meant: no name twice in an object, numbers that fit, characters that exist."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from qops_batsim.errors import InputError, shown

_MAX_DIGITS = 300
"""Digits of a whole number that surely fits into a float."""

_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")


def load_json(text: str, source: str) -> Any:
    """Return the JSON value, in which every number is finite and every text is encodable."""
    beyond: list[str] = []

    def read_float(digits: str) -> float:
        value = float(digits)
        if math.isinf(value):
            beyond.append(digits)
        return value

    def read_int(digits: str) -> float:
        if len(digits) > _MAX_DIGITS:
            beyond.append(digits)
            return math.inf
        return int(digits)

    def refuse(name: str) -> NoReturn:
        raise InputError(f"{source}: {name} is not a JSON number; a finite number is expected")

    try:
        data = json.loads(
            text,
            object_pairs_hook=lambda pairs: _object_without_twins(pairs, source),
            parse_constant=refuse,
            parse_float=read_float,
            parse_int=read_int,
        )
    except json.JSONDecodeError as error:
        raise InputError(
            f"{source}: line {error.lineno}, column {error.colno}: not JSON ({error.msg}); "
            "a Batsim workload is expected"
        ) from None
    # Looking for the place costs a walk through everything, so only when there is a reason.
    if beyond or _HALF_CHARACTER.search(text):
        problem = _first_unusable(data, "")
        if problem:
            raise InputError(f"{source}: {problem}")
    return data


def _first_unusable(value: Any, place: str) -> str | None:
    """Return where an infinite number or half a character is, or None."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return f"field {shown(place)} is {shown(value)}; half a surrogate pair is no character"
    elif isinstance(value, float) and math.isinf(value):
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
