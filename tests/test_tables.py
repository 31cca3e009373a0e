"""Tables written and read by Polars, against plain Python."""

from __future__ import annotations

import math
import tempfile
from itertools import repeat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qops_batsim import InputError, tables
from qops_batsim.jobs import FINAL_STATES
from qops_batsim.tables import (
    Column,
    Form,
    General,
    Intervals,
    PlainTexts,
    Table,
    Texts,
    Words,
    WrittenTexts,
    format_rows,
    has_quotes_within,
    read_table,
    shielded,
    shielded_column,
    unshielded,
)

NUMBERS = st.one_of(
    st.floats(allow_nan=False),
    st.floats(-1e12, 1e12),
    st.integers(-(10**15), 10**15).map(float),
    # What lies halfway between two numbers of six decimals, or next to that.
    st.integers(-(10**13), 10**13).map(lambda n: n / 2e6),
    st.builds(
        math.nextafter, st.integers(0, 10**13).map(lambda n: n / 2e6), st.floats(allow_nan=False)
    ),
    # Exactly halfway: odd multiples of a millionth of a half that binary fractions can hold.
    st.builds(math.ldexp, st.integers(-(2**40), 2**40).map(float), st.integers(-30, -7)),
)


@pytest.fixture(autouse=True)
def no_table_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(tables, "FEW_BYTES", 0)


def written(column: Column, rows: int) -> list[str]:
    """Return the cells of the only column of a table."""
    return b"".join(format_rows([column], rows)).decode().split("\n")[:-1]


@given(st.lists(NUMBERS, min_size=1))
@example([0.0, -0.0, 5e-7, 1.5e-6, 2.5e-6, -5e-7, 1e-300, 0.9999995, 0.99999949, 2.0**-7])
@example([2.0**62, 2.0**63, 2.0**53 - 1, 2.0**53 / 1e6, 1e308, math.inf, -math.inf])
def test_six_decimals_are_those_of_printf(values: list[float]) -> None:
    assert written(np.array(values), len(values)) == [f"{value:.6f}" for value in values]


@pytest.mark.parametrize("exponent", range(-30, -6))
def test_what_lies_halfway_goes_to_the_even_one(exponent: int) -> None:
    values = [math.ldexp(odd, exponent) for odd in range(1, 4001, 2)]
    assert written(np.array(values), len(values)) == [f"{value:.6f}" for value in values]


def test_what_is_not_a_number_is_an_empty_cell() -> None:
    assert written(np.array([1.0, math.nan, -math.nan]), 3) == ["1.000000", "", ""]


@given(
    st.lists(st.one_of(st.integers(0, 10**13).map(float), NUMBERS), min_size=1),
    st.booleans(),
)
@example([999999.0, 1e6, 1000005.0, 1000015.0, 9999995.0, 1234565e5, 1e17, 2.0**61], True)
@example([0.0, -0.0, 0.5, 1e-5], False)
def test_dates_with_six_digits_are_those_of_printf(values: list[float], whole: bool) -> None:
    if whole:
        values = [abs(round(value)) * 1.0 for value in values if math.isfinite(value)]
    assert written(General(np.array(values, float)), len(values)) == [
        f"{value:g}" for value in values
    ]


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_whole_numbers_are_written_in_full(values: list[int]) -> None:
    assert written(np.array(values, np.int64), len(values)) == list(map(str, values))


@given(st.lists(st.sets(st.integers(0, 30)).map(sorted)))
def test_sets_are_written_as_intervals(sets: list[list[int]]) -> None:
    offsets, bounds = [0], []
    for each in sets:
        first = [n for n in each if n - 1 not in each]
        last = [n for n in each if n + 1 not in each]
        bounds += zip(first, last, strict=True)
        offsets.append(len(bounds))
    pairs = np.array(bounds, np.int64).reshape(-1, 2)
    column = Intervals(np.array(offsets), pairs[:, 0].copy(), pairs[:, 1].copy())
    assert tables.cells(column) == written(column, len(sets))
    for each, text in zip(sets, tables.cells(column), strict=True):
        ends = [part.split("-") for part in text.split()]
        assert each == [n for end in ends for n in range(int(end[0]), int(end[-1]) + 1)]


@given(st.data())
def test_rows_are_the_cells_side_by_side(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 20))
    words = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=5)
    texts = data.draw(st.lists(words, min_size=rows, max_size=rows))
    few = data.draw(st.lists(words, min_size=1, max_size=3))
    which = np.array(
        data.draw(st.lists(st.integers(0, len(few) - 1), min_size=rows, max_size=rows))
    )
    columns: list[Column] = [
        texts,
        Words(few, which.astype(np.int8)),
        np.arange(rows) / 3,
        Words.one("", rows),
        np.arange(rows),
    ]
    found = b"".join(format_rows(columns, rows)).decode()
    expected = [f"{texts[row]},{few[which[row]]},{row / 3:.6f},,{row}\n" for row in range(rows)]
    assert found == "".join(expected)


@given(st.lists(NUMBERS | st.just(math.nan)))
@example([2**53 / 1e6, 9007199254.740993, -9007199254.740993, 9007199254.740994])
def test_numbers_are_known_as_their_texts_are_read(values: list[float]) -> None:
    numbers = WrittenTexts(np.array(values, float)).numbers()
    expected = [float(f"{value:.6f}") for value in values]
    np.testing.assert_array_equal(numbers, expected)
    assert [*map(math.copysign, repeat(1), numbers)] == [*map(math.copysign, repeat(1), expected)]


@given(st.lists(NUMBERS | st.integers(0, 10**13).map(lambda n: n / 1e6), min_size=1))
@example(
    [999999.5, 999999.4999, 1e6, 1234565.0, 12345650000001.0, 9999995.0, 0.0, -0.0, 1e15, 1e16]
)
def test_dates_are_known_as_their_six_digits_are_read(values: list[float]) -> None:
    expected = [float(f"{value:g}") for value in values]
    np.testing.assert_array_equal(General(np.array(values, float)).read(), expected)


FORM = Form(
    what="a table",
    needed=("number", "state", "text"),
    numbers=("number",),
    choices={"state": ("", *FINAL_STATES)},
    others=True,
)


def read(content: bytes) -> tuple[Table, bool]:
    """Return a table, and whether it was read in bulk."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(content)
        table = read_table(Path(file.name), FORM, lambda found: found)
    return table, any(isinstance(each, Texts) for each in table.texts.values())


def read_numbers(cells: list[str]) -> tuple[Table, bool]:
    return read("".join(["number,state,text\n", *(f"{cell},,a\n" for cell in cells)]).encode())


FLOATS = st.floats(-1e18, 1e18) | st.floats(-1e7, 1e7) | st.integers(-(10**6), 10**10)
FORMATS = st.sampled_from(["%.6f", "%g", "%d", "%r", "%.3f", "%e", "%.0f", "%+.6f"])
WRITTEN = st.one_of(
    st.tuples(FORMATS, FLOATS).map(lambda pair: pair[0] % pair[1]),
    st.from_regex(r"\A[0-9]{1,12}(\.[0-9]{0,9})?(e[+-]?[0-9]{1,2})?\Z"),
    st.sampled_from(["", "0", "-0.000000", "1e+06", "9.99999e+99", " 1"]),
)


@given(st.lists(WRITTEN, min_size=1, max_size=40), st.sampled_from(["", "inf", "-inf", "nan"]))
def test_numbers_are_correctly_rounded(cells: list[str], odd: str) -> None:
    cells = [*cells, odd]
    table, in_bulk = read_numbers(cells)
    expected = np.array([float(cell) if cell else np.nan for cell in cells])
    values = table.numbers["number"]
    np.testing.assert_array_equal(values, expected)
    assert np.signbit(values).tolist() == np.signbit(expected).tolist()
    assert table.empty["number"].tolist() == [not cell for cell in cells]
    assert table.not_finite("number").tolist() == [cell in tables.NOT_FINITE for cell in cells]
    assert in_bulk


@pytest.mark.parametrize(
    "cell", ["1_0", "1 ", "0x10", "+inf", "infinity", "-", ".", "1.2.3", "--1", "1e999", "1e"]
)
def test_numbers_that_not_every_reader_takes_for_one(cell: str) -> None:
    table, in_bulk = read_numbers(["1.000000", cell])
    assert in_bulk
    assert table.not_finite("number").tolist() == [False, False]
    assert not np.isfinite(table.numbers["number"][1]) or cell == "1 "


CELLS = st.text("ab,\" \n'#é-1", max_size=5)


def contents(table: Table) -> tuple[object, ...]:
    return (
        table.names,
        table.size,
        {name: values.tolist() for name, values in table.choices.items()},
        {name: list(texts) for name, texts in table.texts.items()},
        {name: table.not_finite(name).tolist() for name in table.numbers},
        {name: values.tolist() for name, values in table.empty.items()},
        {name: np.nan_to_num(values, nan=-7).tolist() for name, values in table.numbers.items()},
    )


def quoted(cell: str) -> str:
    doubled = cell.replace('"', '""')
    return f'"{doubled}"' if any(each in cell for each in '",\n') or not cell else cell


@given(
    st.lists(
        st.tuples(
            CELLS.map(quoted),
            st.sampled_from(["1.5", "", "7", "x", "inf", '"4"', "2.500000"]),
            st.sampled_from(["", "other", *FINAL_STATES]),
            CELLS.map(quoted) | CELLS,
        ),
        max_size=5,
    ),
    st.sampled_from(["\n", "\n", "\n", "\r\n", ""]),
)
@example(
    [
        ('""', "1.5", "", '1","é'),
        ('""', "1.5", "COMPLETED_SUCCESSFULLY", '""'),
        ('"11""é"', "1.5", "", '""'),
    ],
    "\n",
).via("quotes that enclose no cell")
@example([('""', "1.5", "", '""'), ('""', "1.5", "", ",")], "").via("a cell too many")
def test_a_table_is_the_same_by_polars_and_by_plain_python(
    rows: list[tuple[str, ...]], end: str
) -> None:
    lines = ["text,number,state,further", *(",".join(row) for row in rows)]
    content = ((end or "\n").join(lines) + end).encode()

    def outcome() -> object:
        try:
            return contents(read(content)[0])
        except InputError as error:
            return str(error).partition(": ")[2]  # Each has its own temporary name.

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "FEW_BYTES", 1 << 30)
        expected = outcome()
    assert outcome() == expected


@given(text=st.text("'=+-@1e.a,", max_size=6))
@example("'=a").via("behind our own mark")
@example("-1").via("a number")
def test_no_spreadsheet_computes_a_free_text(text: str) -> None:
    cell = shielded(text)
    assert unshielded(cell) == text
    assert cell == text or cell == f"'{text}"
    try:
        float(text)
    except ValueError:
        assert not cell.startswith(("=", "+", "-", "@"))
    else:
        assert cell == text


@given(column=st.lists(st.text("'=+-@1a", min_size=1, max_size=3), min_size=1))
def test_free_texts_are_read_back_the_same(column: list[str]) -> None:
    form = Form(what="a table", needed=("text",), texts=("text",))
    cells = [shielded(text) for text in column]
    assert shielded_column(Words.of(column)).texts() == cells  # type: ignore[union-attr]
    assert [*shielded_column(column)] == cells  # type: ignore[misc]
    content = "\n".join(["text", *cells, ""]).encode()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "table.csv"
        path.write_bytes(content)
        assert [*read_table(path, form, lambda table: table.texts["text"])] == column
    in_bulk = tables._long_columns(content, form)
    assert in_bulk is not None
    assert [*in_bulk["text"].unshielded()] == column


def test_what_batsim_writes_is_read_by_polars() -> None:
    metadata = '"{""decision"": ""accepted"", ""deadline"": 3.5}"'
    table, in_bulk = read(
        f'text,number,state,further\na,1.250000,REJECTED,{metadata}\nb,,,""\n'.encode()
    )
    assert in_bulk
    assert list(table.texts["further"]) == ['{"decision": "accepted", "deadline": 3.5}', ""]
    assert table.texts["further"][0].endswith("3.5}")
    assert table.choices["state"].tolist() == [1 + FINAL_STATES.index("REJECTED"), 0]
    assert table.numbers["number"][0] == 1.25
    table, in_bulk = read(b'text,number,state,further\n"a\nb",1,,\n')
    assert in_bulk
    assert table.texts["text"][:] == ["a\nb"]


@given(
    st.lists(st.from_regex(r"\A(w0!)?[0-9a#]{0,3}\Z"), min_size=1, max_size=12),
    st.lists(st.from_regex(r"\A[0-9a#]{0,3}\Z"), unique=True),
)
def test_places_of_texts(lines: list[str], known: list[str]) -> None:
    import polars as pl

    expected = [known.index(each) if each in known else -1 for each in lines]
    assert Texts(pl.Series(lines)).places(known).tolist() == expected
    assert PlainTexts(lines).places(known).tolist() == expected
    assert WrittenTexts(Words.of(lines)).places(known).tolist() == expected
    assert Texts(pl.Series(lines)).places(lines[:1]).tolist() == [
        0 if each == lines[0] else -1 for each in lines
    ]


def test_texts_and_words_are_sequences() -> None:
    import polars as pl

    texts = Texts(pl.Series(["a,b", "", 'say "no"']))
    assert list(texts) == ["a,b", "", 'say "no"'] == texts[:]
    assert (len(texts), texts[2], "" in texts, "b" in texts) == (3, 'say "no"', True, False)
    plain = Texts(pl.Series(["w0", "w0"]))
    assert (plain.are_all("w0"), plain.are_all("w"), plain.mention("#")) == (True, False, False)
    assert ("w0" in plain, "0" in plain) == (True, False)


def test_numbers_of_words_can_be_changed() -> None:
    numbers = Words.one("4", 2).values(float)
    numbers[1] = 5
    assert numbers.tolist() == [4, 5]


@pytest.mark.parametrize("few_bytes", [0, 1 << 20])
def test_line_ends_of_other_systems_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_bytes: int
) -> None:
    monkeypatch.setattr(tables, "FEW_BYTES", few_bytes)
    for end in ("\r", "\r\n", "\n"):
        path = tmp_path / "t.csv"
        path.write_bytes(f"number,state,text{end}1,,a{end}2,,b{end}".encode())
        assert read_table(path, FORM, lambda table: table.numbers["number"].tolist()) == [1, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("number,state,text\n" + "1\n" * 200_000, "200001 lines of 3 columns in"),
        ("number,state,text\n" + ",,\n" * 200_000, "200001 lines of 3 columns in"),
        ("number,state," + "x" * 200_000 + ",text\n", "column text missing"),
    ],
)
def test_what_would_take_far_more_memory_than_it_has_letters_is_refused(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)

    def read(table: Table) -> None:
        table.refuse("number", np.isnan(table.numbers["number"]), "a number")

    with pytest.raises(InputError, match=message):
        read_table(path, FORM, read)


def test_a_name_that_is_longer_than_any_is_no_error_of_ours(tmp_path: Path) -> None:
    """Others of a table's columns may have any name; this was looked for under its beginning."""
    name = 'x"' * 80_000
    path = tmp_path / "t.csv"
    path.write_text(f"number,{name}\n1,a\n")
    form = Form(numbers=("number",), others=True, needed=("number",), what="a table")
    assert [*read_table(path, form, lambda table: table.texts[name])] == ["a"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'a,b\n1,""\n2,""\n', False),
        (b'a,b\n1,"x,y"\n2,""\n', False),
        (b'a,b\n1,"x""y"\n', False),
        (b'a,b\n1,x"",""\n', True),
        (b'a,b\n1,x"y"\n2,""\n', True),
        (b'a,b\n"",""\n1"",""\n', True),
        (b"a,b\n1,2\n", False),
    ],
)
def test_quotes_within_cells_are_told_from_those_around(content: bytes, expected: bool) -> None:
    assert has_quotes_within(content) is expected
