"""What is wrong with JSON and TOML of users, in words: place, value, and what is accepted.

The validator's own texts ("Object contains unknown field") name Python types, and neither the value
nor the names that are known.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec

from qops_batsim.errors import InputError, did_you_mean, shown

_Kind = TypeVar("_Kind")

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|(\[\.\.\.\])")
"""A step of a place: a field, a number in a list, or any value of an object."""

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
"""What is wrong with an object's fields; a name in a file may be empty, or hold anything."""

_MANY_DIGITS = 400
"""Digits of a number that is beyond all that are accepted."""

_WORDS = {
    "AnyType": "any value",
    "BoolType": "true or false",
    "BytesType": "a text",
    "DateTimeType": "a date and time such as 2026-11-29T09:00:00",
    "DateType": "a date such as 2026-11-29",
    "DictType": "an object",
    "FloatType": "a number",
    "IntType": "a whole number",
    "ListType": "a list",
    "NamedTupleType": "a list",
    "NoneType": "null",
    "RawType": "any value",
    "StrType": "a text",
    "StructType": "an object",
    "TimeType": 'a time of day (HH:MM) such as "09:00"',
    "TupleType": "a list",
    "VarTupleType": "a list",
}
"""What is accepted, by msgspec's name of the type."""


def converted(
    data: Any,
    kind: type[_Kind],
    where: str,
    what: str = "",
    *,
    hook: Callable[[type, Any], Any] | None = None,
) -> _Kind:
    """Convert plain data to a type; an InputError names place (``where``), value and what is
    accepted.

    ``what`` calls the whole ("a study"); ``hook`` is msgspec's ``dec_hook``.
    """
    try:
        return msgspec.convert(data, kind, dec_hook=hook)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {problem(error, data, kind, what)}") from None


def check_ranges(checked: msgspec.Struct, where: str) -> None:
    """Raise an InputError if a value of a struct is out of the range that its field declares: what
    is made in Python is not checked as what is read is.
    """
    converted(msgspec.to_builtins(checked), type(checked), where)


def read_toml(text: str, where: str, what: str) -> dict[str, Any]:
    """Parse TOML; an InputError names its place (``where``) and what was expected (``what``)."""
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        told = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        told = re.sub(r" \((at .*)\)$", r" \1", told)
        raise InputError(f"{where}: not TOML ({told}); {what} is expected") from None


def json_problem(error: Exception, content: bytes, kind: Any, what: str) -> str:
    """Return what is wrong with JSON that could not be decoded as ``kind``."""
    if not isinstance(error, msgspec.ValidationError):
        return f"{_syntax_problem(error, content)}; {what} is expected"
    try:
        # This reads numbers that are out of range as well.
        data = json.loads(content, parse_int=_whole_number)
    except (ValueError, RecursionError) as worse:
        # The validator stops before what is no JSON.
        return f"{_syntax_problem(worse, content)}; {what} is expected"
    return problem(error, data, kind, what)


def _early_end(content: bytes) -> str:
    """Return what is wrong with JSON whose end was reached within a value."""
    text = content.rstrip()
    if not text:
        return "empty"
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if error.pos < len(text) and not text.startswith((b"{", b"[", b'"')):
            return f"not JSON ({error.msg} at line {error.lineno}, column {error.colno})"
    except (ValueError, RecursionError):
        pass
    return "JSON that ends too early"


def _whole_number(digits: str) -> float:
    return int(digits) if len(digits) < _MANY_DIGITS else math.inf


def _syntax_problem(error: Exception, content: bytes) -> str:
    if isinstance(error, RecursionError):
        return "JSON nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    if isinstance(error, json.JSONDecodeError):
        if error.pos >= len(content.rstrip()):
            return _early_end(content)
        return f"not JSON ({error.msg} at line {error.lineno}, column {error.colno})"
    found = re.fullmatch(r"JSON is malformed: (.+) \(byte (\d+)\)", str(error))
    if found is None:
        return _early_end(content)
    before = content[: int(found[2])]
    line = before.count(b"\n") + 1
    column = len(before) - (before.rfind(b"\n") + 1) + 1
    return f"not JSON ({found[1]} at line {line}, column {column})"


class _Place(NamedTuple):
    """A value in the data, how it is called, and its type as msgspec describes it."""

    name: str
    value: Any
    type: Any


def problem(
    error: msgspec.ValidationError, data: Any, kind: Any, what: str = "", *, noun: str = "field"
) -> str:
    """Return what is wrong with data that could not be converted to ``kind``.

    ``what`` calls the whole, for errors about no field; ``noun`` calls a field ("option").

    >>> class Pair(msgspec.Struct, forbid_unknown_fields=True):
    ...     hours: float = 0.0
    >>> try:
    ...     msgspec.convert({"hour": 1}, Pair)
    ... except msgspec.ValidationError as error:
    ...     problem(error, {"hour": 1}, Pair)
    "field hour is not known; did you mean 'hours'? (known: hours)"
    """
    from msgspec.inspect import type_info

    message, _, where = str(error).partition(" - at `")
    of_key, steps = where.startswith("key in "), where.rstrip("`").removeprefix("key in ")
    places = list(_places(_Place("", data, type_info(kind)), _STEP.findall(steps)))
    place = next((each for each in places if _is_wrong(each, message)), places[0])
    missing = _MISSING.fullmatch(message)
    unknown = _UNKNOWN.fullmatch(message)
    before = f"{noun} ".lstrip()
    inner = f"{before}{place.name}." if place.name else before
    if missing:
        ending = f"; {what} is expected" if what else "; it is needed"
        return f"{inner}{missing[1]} is missing{ending}"
    if unknown:
        known = {name for each in _structs(place.type) for name in _fields(each)}
        return f"{inner}{unknown[1] or shown('')} is not known{did_you_mean(unknown[1], known)}"
    accepted = _accepted(place.type, message)
    if of_key:
        return f"a name in {place.name or 'the object'} is not accepted: {message}"
    if not place.name:
        return f"is {shown(data)}; {f'{what} is expected' if what else accepted}"
    given = f"{before}{place.name} is {shown(place.value)}"
    words = _choices(place.type)
    if words and isinstance(place.value, str):
        return f"{given}{did_you_mean(place.value, words)}"
    return f"{given}; {accepted}"


def _places(place: _Place, steps: list[tuple[str, str, str]]) -> Iterator[_Place]:
    """Yield the places that the steps may lead to: several where any value of an object is told."""
    if not steps:
        yield place
        return
    (field, number, _), *rest = steps
    value = place.value
    for kind in _members(place.type):
        name = type(kind).__name__
        if field and getattr(kind, "tag_field", None) == field and isinstance(value, dict):
            from msgspec.inspect import LiteralType

            tags = tuple(each.tag for each in _structs(place.type))
            told = f"{place.name}.{field}" if place.name else field
            yield _Place(told, value.get(field), LiteralType(tags))
            return
        if field and isinstance(value, dict) and field in _fields(kind):
            told = f"{place.name}.{field}" if place.name else field
            yield from _places(_Place(told, value.get(field), _fields(kind)[field]), rest)
            return
        if number and isinstance(value, list | tuple) and int(number) < len(value):
            inner = _item(kind, int(number))
            if inner is not None:
                told = f"{place.name}[{number}]"
                yield from _places(_Place(told, value[int(number)], inner), rest)
                return
        if not field and not number and name == "DictType" and isinstance(value, dict):
            for key, each in value.items():
                told = f"{place.name}.{key}" if place.name else str(key)
                yield from _places(_Place(told, each, kind.value_type), rest)
            return
    yield place


def _members(kind: Any) -> Iterable[Any]:
    """Return the types of a union, without what only annotates them."""
    while type(kind).__name__ == "Metadata":
        kind = kind.type
    return kind.types if type(kind).__name__ == "UnionType" else (kind,)


def _structs(kind: Any) -> list[Any]:
    return [each for each in _members(kind) if type(each).__name__ == "StructType"]


def _fields(kind: Any) -> dict[str, Any]:
    """Return the types of a struct's fields by their names in files."""
    if type(kind).__name__ not in ("StructType", "TypedDictType", "DataclassType"):
        return {}
    return {each.encode_name: each.type for each in kind.fields}


def _item(kind: Any, number: int) -> Any:
    """Return the type of an item of a list, None if the type is no list."""
    name = type(kind).__name__
    if name in ("NamedTupleType", "StructType"):
        return kind.fields[number].type if number < len(kind.fields) else None
    if name == "TupleType":
        return kind.item_types[number] if number < len(kind.item_types) else None
    return getattr(kind, "item_type", None)


def _is_wrong(place: _Place, message: str) -> bool:
    """Return whether a message may be about a place, of several."""
    got = re.search(r", got `(\w+)`", message)
    if got is not None:
        return _json_type(place.value) == got[1]
    if missing := _MISSING.fullmatch(message):
        return isinstance(place.value, dict) and missing[1] not in place.value
    if unknown := _UNKNOWN.fullmatch(message):
        return isinstance(place.value, dict) and unknown[1] in place.value
    return not any(_fits(place.value, kind) for kind in _members(place.type))


def _json_type(value: Any) -> str:
    names = {dict: "object", list: "array", tuple: "array", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a value keeps the limits of a number or a length."""
    size = len(value) if isinstance(value, str | list | tuple | dict) else value
    if not isinstance(size, int | float):
        return True
    low, high = getattr(kind, "ge", None), getattr(kind, "le", None)
    above, below = getattr(kind, "gt", None), getattr(kind, "lt", None)
    least, most = getattr(kind, "min_length", None), getattr(kind, "max_length", None)
    return (
        not any(each is not None and size < each for each in (low, least))
        and not any(each is not None and size > each for each in (high, most))
        and not (above is not None and size <= above)
        and not (below is not None and size >= below)
    )


def _choices(kind: Any) -> list[str]:
    """Return the texts that are accepted, if only some are."""
    found: list[str] = []
    for each in _members(kind):
        if type(each).__name__ == "LiteralType":
            found += [value for value in each.values if isinstance(value, str)]
        elif type(each).__name__ == "EnumType":
            found += [value.value for value in each.cls if isinstance(value.value, str)]
    return found


def _accepted(kind: Any, message: str) -> str:
    """Return what a type accepts: "a number of at least 0 is expected"; or the message, if that is
    of no known form.
    """
    known = re.match(r"Expected |Invalid |Number |Integer ", message)
    if not known:
        return message  # Made by a check of ours.
    if message.endswith("out of range") and type(kind).__name__ not in ("FloatType", "IntType"):
        return "one of its numbers is out of range"
    kinds = [each for each in _members(kind) if type(each).__name__ != "NoneType"]
    words = [_described(each) for each in kinds] or ["null"]
    return f"{' or '.join(words)} is expected"


def _described(kind: Any) -> str:
    name = type(kind).__name__
    if name == "LiteralType":
        return " or ".join(map(shown, kind.values))
    if name == "EnumType":
        return " or ".join(shown(each.value) for each in kind.cls)
    words = _WORDS.get(name, "another value")
    if name == "StrType" and kind.pattern:
        return f"a text of the form {kind.pattern}"
    if name == "StrType" and kind.min_length == 1:
        return "a text that is not empty"
    if name == "TupleType":
        return f"a list of {len(kind.item_types)}"
    if name == "NamedTupleType":
        return f"a list of {', '.join(each.encode_name for each in kind.fields)}"
    return f"{words}{_limits(kind)}"


def _limits(kind: Any) -> str:
    """Return the limits of a number or of a list's length: " from 0 to 1", " above 0"."""
    if hasattr(kind, "min_length"):
        least, most = kind.min_length, kind.max_length
        if least is None and most is None:
            return ""
        if least == most:
            return f" of {least}"
        return f" of {least or 0} or more" if most is None else f" of {least or 0} to {most}"
    if not hasattr(kind, "ge"):
        return ""
    limits = []
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge:.15g} to {kind.le:.15g}"
    for word, limit in (
        ("from", kind.ge),
        ("above", kind.gt),
        ("up to", kind.le),
        ("below", kind.lt),
    ):
        if limit is not None:
            limits.append(f" {word} {limit:.15g}")
    return " and".join(limits) + (" up" if kind.ge is not None and len(limits) == 1 else "")
