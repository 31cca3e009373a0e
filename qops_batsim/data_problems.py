"""What is wrong with JSON and TOML of users, in words: place, value, and what is accepted.

The validator's own texts ("Object contains unknown field") name Python types, and neither the value
nor the names that are known.
"""

from __future__ import annotations

import json
import math
import operator
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
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        reason = re.sub(r" \((at .*)\)$", r" \1", reason)
        raise InputError(f"{where}: not TOML ({reason}); {what} is expected") from None


def json_problem(error: Exception, content: bytes, kind: Any, what: str) -> str:
    """Return what is wrong with JSON that could not be decoded as ``kind``."""
    if not isinstance(error, msgspec.ValidationError):
        return f"{_syntax_problem(error, content)}; {what} is expected"

    def whole_number(digits: str) -> float:
        return int(digits) if len(digits) < _MANY_DIGITS else math.inf

    try:
        # This reads numbers that are out of range as well.
        data = json.loads(content, parse_int=whole_number)
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


def _is_utf8(content: bytes) -> bool:
    # Since msgspec 0.23 the decoder's error no longer has a type of its own for this.
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _syntax_problem(error: Exception, content: bytes) -> str:
    if isinstance(error, RecursionError):
        return "JSON nested too deeply"
    if isinstance(error, UnicodeDecodeError) or not _is_utf8(content):
        return "not UTF-8 text"
    if isinstance(error, json.JSONDecodeError):
        if error.pos >= len(content.rstrip()):
            return _early_end(content)
        return f"not JSON ({error.msg} at line {error.lineno}, column {error.colno})"

    malformed = re.fullmatch(r"JSON is malformed: (.+) \(byte (\d+)\)", str(error))
    if malformed is None:
        return _early_end(content)
    before = content[: int(malformed[2])]
    line = before.count(b"\n") + 1
    column = len(before) - before.rfind(b"\n")
    return f"not JSON ({malformed[1]} at line {line}, column {column})"


class _Place(NamedTuple):
    """A value in the data, how it is called, and its type as msgspec describes it."""

    name: str
    value: Any
    type: Any

    def within(self, field: str, value: Any, kind: Any) -> _Place:
        """Return the place of a field of this value."""
        return _Place(f"{self.name}.{field}" if self.name else field, value, kind)


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

    # The validator says where, and of several places that it may mean one is wrong.
    message, _, where = str(error).partition(" - at `")
    is_key = where.startswith("key in ")
    steps = _STEP.findall(where.rstrip("`").removeprefix("key in "))
    places = list(_places(_Place("", data, type_info(kind)), steps))
    place = next((place for place in places if _is_wrong(place, message)), places[0])

    before = f"{noun} ".lstrip()
    inner = f"{before}{place.name}." if place.name else before
    if missing := _MISSING.fullmatch(message):
        ending = f"; {what} is expected" if what else "; it is needed"
        return f"{inner}{missing[1]} is missing{ending}"
    if unknown := _UNKNOWN.fullmatch(message):
        known = {name for struct in _structs(place.type) for name in _fields(struct)}
        return f"{inner}{unknown[1] or shown('')} is not known{did_you_mean(unknown[1], known)}"
    if is_key:
        return f"a name in {place.name or 'the object'} is not accepted: {message}"

    accepted = _accepted(place.type, message)
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
        if number and isinstance(value, list | tuple) and int(number) < len(value):
            inner = _item(kind, int(number))
            if inner is not None:
                item = _Place(f"{place.name}[{number}]", value[int(number)], inner)
                yield from _places(item, rest)
                return
        if number or not isinstance(value, dict):
            continue

        if field and getattr(kind, "tag_field", None) == field:
            from msgspec.inspect import LiteralType

            tags = tuple(struct.tag for struct in _structs(place.type))
            yield place.within(field, value.get(field), LiteralType(tags))
            return
        if field and field in _fields(kind):
            yield from _places(place.within(field, value.get(field), _fields(kind)[field]), rest)
            return
        if not field and type(kind).__name__ == "DictType":
            for key, inside in value.items():
                yield from _places(place.within(str(key), inside, kind.value_type), rest)
            return
    yield place


def _members(kind: Any) -> Iterable[Any]:
    """Return the types of a union, without what only annotates them."""
    while type(kind).__name__ == "Metadata":
        kind = kind.type
    return kind.types if type(kind).__name__ == "UnionType" else (kind,)


def _structs(kind: Any) -> list[Any]:
    return [member for member in _members(kind) if type(member).__name__ == "StructType"]


def _fields(kind: Any) -> dict[str, Any]:
    """Return the types of a struct's fields by their names in files."""
    if type(kind).__name__ not in ("StructType", "TypedDictType", "DataclassType"):
        return {}
    return {field.encode_name: field.type for field in kind.fields}


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
    if got := re.search(r", got `(\w+)`", message):
        names = {dict: "object", list: "array", tuple: "array", type(None): "null"}
        kind = type(place.value)
        return names.get(kind, kind.__name__) == got[1]
    if missing := _MISSING.fullmatch(message):
        return isinstance(place.value, dict) and missing[1] not in place.value
    if unknown := _UNKNOWN.fullmatch(message):
        return isinstance(place.value, dict) and unknown[1] in place.value
    return not any(_fits(place.value, kind) for kind in _members(place.type))


_LIMITS = (
    *(("ge", operator.ge), ("gt", operator.gt), ("le", operator.le), ("lt", operator.lt)),
    *(("min_length", operator.ge), ("max_length", operator.le)),
)
"""Limits of numbers and lengths by msgspec's names, and what holds of all that keep to them."""


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a value keeps the limits of a number or a length."""
    size = len(value) if isinstance(value, str | list | tuple | dict) else value
    if not isinstance(size, int | float):
        return True

    def keeps(name: str, holds: Callable[[float, float], bool]) -> bool:
        limit = getattr(kind, name, None)
        return limit is None or holds(size, limit)

    return all(keeps(name, holds) for name, holds in _LIMITS)


def _choices(kind: Any) -> list[str]:
    """Return the texts that are accepted, if only some are."""
    values = [value for member in _members(kind) for value in _listed(member)]
    return [value for value in values if isinstance(value, str)]


def _listed(kind: Any) -> Iterable[Any]:
    """Return the values of a type of which only some are accepted; none for others."""
    name = type(kind).__name__
    if name == "EnumType":
        return [member.value for member in kind.cls]
    return kind.values if name == "LiteralType" else ()


def _accepted(kind: Any, message: str) -> str:
    """Return what a type accepts: "a number of at least 0 is expected"; or the message, if that is
    of no known form.
    """
    known = re.match(r"Expected |Invalid |Number |Integer ", message)
    if not known:
        return message  # Made by a check of ours.
    if message.endswith("out of range") and type(kind).__name__ not in ("FloatType", "IntType"):
        return "one of its numbers is out of range"
    kinds = [member for member in _members(kind) if type(member).__name__ != "NoneType"]
    words = [*map(_described, kinds)] or ["null"]
    return f"{' or '.join(words)} is expected"


def _described(kind: Any) -> str:
    if values := _listed(kind):
        return " or ".join(map(shown, values))

    name = type(kind).__name__
    if name == "StrType" and kind.pattern:
        return f"a text of the form {kind.pattern}"
    if name == "StrType" and kind.min_length == 1:
        return "a text that is not empty"
    if name == "TupleType":
        return f"a list of {len(kind.item_types)}"
    if name == "NamedTupleType":
        return f"a list of {', '.join(field.encode_name for field in kind.fields)}"
    return _WORDS.get(name, "another value") + _limits(kind)


def _limits(kind: Any) -> str:
    """Return the limits of a number or of a list's length: " from 0 to 1", " above 0"."""
    if hasattr(kind, "min_length"):
        least = kind.min_length
        most = kind.max_length
        if least is None and most is None:
            return ""
        if least == most:
            return f" of {least}"
        return f" of {least or 0} or more" if most is None else f" of {least or 0} to {most}"

    if not hasattr(kind, "ge"):
        return ""
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge:.15g} to {kind.le:.15g}"
    words = {"from": kind.ge, "above": kind.gt, "up to": kind.le, "below": kind.lt}
    limits = [f" {word} {limit:.15g}" for word, limit in words.items() if limit is not None]
    return " and".join(limits) + (" up" if kind.ge is not None and len(limits) == 1 else "")
