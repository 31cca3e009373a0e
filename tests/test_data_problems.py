"""What is wrong with JSON and TOML, in words."""

from __future__ import annotations

from datetime import date, time
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from qops_batsim import InputError
from qops_batsim.data_problems import converted, json_problem, read_toml
from qops_batsim.files import decoded


class Mix(msgspec.Struct, forbid_unknown_fields=True):
    hours: Annotated[float, Meta(ge=0, le=1)] = 0.0


class Row(NamedTuple):
    up_to: float | None
    median: float


class Ended(msgspec.Struct, tag_field="event", tag="ended"):
    job: str


class Began(msgspec.Struct, tag_field="event", tag="began"):
    job: str


class Whole(msgspec.Struct, forbid_unknown_fields=True):
    count: Annotated[int, Meta(ge=0)]
    pair: tuple[int, str] = (1, "")
    few: Annotated[list[int], Meta(min_length=2, max_length=3)] = []
    order: Literal["first", "last"] = "first"
    shares: dict[str, Annotated[float, Meta(gt=0, description="of what")]] = {}
    either: int | str | None = None
    name: Annotated[str, Meta(min_length=1)] = "x"
    mix: Mix | None = None
    mixes: dict[str, Mix] = {}
    at: tuple[time, ...] = ()
    on: date | None = None
    rows: list[Row] = []
    yes: bool = False
    event: Ended | Began | None = None


KNOWN = (
    "(known: at, count, either, event, few, mix, mixes, name, on, order, pair, rows, shares, yes)"
)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "field count is missing; a whole is expected"),
        ({"hour": 1, "count": 1}, f"field hour is not known {KNOWN}"),
        ({"cuont": 1, "count": 1}, f"field cuont is not known; did you mean 'count'? {KNOWN}"),
        ({"count": -9}, "field count is -9; a whole number from 0 up is expected"),
        ({"count": 1.5}, "field count is 1.5; a whole number from 0 up is expected"),
        ({"count": None}, "field count is null; a whole number from 0 up is expected"),
        ({"count": 1, "few": [1]}, "field few is [1]; a list of 2 to 3 is expected"),
        ({"count": 1, "few": [1, "x"]}, "field few[1] is 'x'; a whole number is expected"),
        (
            {"count": 1, "order": "frist"},
            "field order is 'frist'; did you mean 'first'? (known: first, last)",
        ),
        ({"count": 1, "order": 3}, "field order is 3; 'first' or 'last' is expected"),
        ({"count": 1, "shares": {"a": 1, "b": -1}}, "field shares.b is -1; a number above 0 is"),
        ({"count": 1, "shares": {"a": 1, "b": "x"}}, "field shares.b is 'x'; a number above 0"),
        ({"count": 1, "either": []}, "field either is []; a whole number or a text is expected"),
        ({"count": 1, "pair": [1]}, "field pair is [1]; a list of 2 is expected"),
        ({"count": 1, "pair": [1, 2]}, "field pair[1] is 2; a text is expected"),
        ({"count": 1, "name": ""}, "field name is ''; a text that is not empty is expected"),
        ({"count": 1, "mix": {"hour": 3}}, "field mix.hour is not known; did you mean 'hours'?"),
        ({"count": 1, "mix": {"hours": 3}}, "field mix.hours is 3; a number from 0 to 1 is"),
        ({"count": 1, "mix": 3}, "field mix is 3; an object is expected"),
        ({"count": 1, "mixes": {"p": {}, "q": {"hour": 1}}}, "field mixes.q.hour is not known; "),
        ({"count": 1, "mixes": {"p": {}, "q": {"hours": 2}}}, "field mixes.q.hours is 2; "),
        ({"count": 1, "at": ["9:00"]}, "field at[0] is '9:00'; a time of day (HH:MM) such as"),
        ({"count": 1, "on": "May"}, "field on is 'May'; a date such as 2026-11-29 is expected"),
        ({"count": 1, "rows": [[1]]}, "field rows[0] is [1]; a list of up_to, median is expected"),
        ({"count": 1, "rows": [[1, "x"]]}, "field rows[0][1] is 'x'; a number is expected"),
        ({"count": 1, "yes": 1}, "field yes is 1; true or false is expected"),
        (
            {"count": 1, "event": {"event": "endd", "job": "1"}},
            "field event.event is 'endd'; did you mean 'ended'? (known: began, ended)",
        ),
        ({"count": 1, "event": {"event": "ended"}}, "field event.job is missing"),
        ([], "is []; a whole is expected"),
        ("x", "is 'x'; a whole is expected"),
    ],
)
def test_a_value_is_named_with_what_is_accepted(data: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        converted(data, Whole, "a.toml", "a whole")
    assert f"a.toml: {said}" in str(caught.value)
    # The same as JSON.
    content = msgspec.json.encode(data)
    with pytest.raises(msgspec.ValidationError) as raw:
        msgspec.json.decode(content, type=Whole)
    assert said in json_problem(raw.value, content, Whole, "a whole")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty; a whole is expected"),
        (b'{"count": 1', "JSON that ends too early; a whole is expected"),
        (b"[1, 2", "JSON that ends too early"),
        (b"fast", "not JSON (Expecting value at line 1, column 1)"),
        (b'{"count":\n tru}', "not JSON (invalid character at line 2, column 6)"),
        (b'{"count": 1} x', "not JSON (trailing characters at line 1, column 15)"),
        (b'{"count": NaN}', "not JSON (invalid character at line 1, column 11)"),
        (b'{"count": 1e999}', "field count is Infinity; a whole number from 0 up is expected"),
        (b'{"name": "\xff"}', "not UTF-8 text"),
        (b"[" * 10_000, "nested too deeply"),
        (b'{"yes": 3, "count": }', "not JSON (Expecting value at line 1, column 21)"),
    ],
)
def test_what_is_no_json_is_told_with_its_place(content: bytes, said: str) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError, RecursionError)) as raw:
        msgspec.json.decode(content, type=Whole)
    assert said in json_problem(raw.value, content, Whole, "a whole")


def test_a_part_of_a_document_is_told_likewise() -> None:
    with pytest.raises(InputError, match="a.json: field count is 'x'; a whole number from 0 up is"):
        decoded(msgspec.Raw(b'{"count": "x"}'), msgspec.json.Decoder(Whole), "a.json", "a whole")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("loads = [1", "a.toml: not TOML (Unclosed array at end of document); a study is expected"),
        ("a = 1\nb = 1 2", "at line 2, column 7); a study is expected"),
        ("a = 1\na = 2", "a.toml: not TOML (Cannot overwrite a value at "),
        ("a = " + "[" * 10_000, "a.toml: not TOML (nested too deeply)"),
    ],
)
def test_what_is_no_toml_is_told_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_toml(text, "a.toml", "a study")
    assert said in str(caught.value)


_TEXTS = st.text("ab1:é ", max_size=5)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(Whole.__struct_fields__), _VALUES, max_size=4))
def test_no_text_of_the_validator_comes_through(data: dict[str, Any]) -> None:
    try:
        converted({"count": 1, **data}, Whole, "a.toml", "a whole")
    except InputError as error:
        told = str(error)
        assert "`" not in told
        assert "$" not in told
        assert any(told.startswith(f"a.toml: field {name}") for name in data)


def test_a_field_without_a_name_is_told() -> None:
    with pytest.raises(InputError, match=r"a.toml: field mix\.'' is not known"):
        converted({"count": 1, "mix": {"": None}}, Whole, "a.toml", "a whole")
