"""Tables read in bulk, against pandas and Python's own floats."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qops_batsim.analysis.results import csv_cells, csv_table
from qops_batsim.analysis.results.csv_cells import Unusual
from qops_batsim.analysis.results.csv_table import Chosen, Form, Table, Texts, read_table
from qops_batsim.errors import InputError
from qops_batsim.jobs import FINAL_STATES

FORM = Form(
    what="a table",
    needed=("number", "state", "text"),
    numbers=("number",),
    choices={"state": ("", *FINAL_STATES)},
    others=True,
)


def read_numbers(cells, *, short=True):
    lines = "\n".join([*cells, ""]).encode()
    return csv_cells.numbers(csv_cells.find_block(lines, 1, short=short), 0)


FLOATS = st.floats(-1e18, 1e18) | st.floats(-1e7, 1e7) | st.integers(-(10**6), 10**10)
FORMATS = st.sampled_from(["%.6f", "%g", "%d", "%r", "%.3f", "%e", "%.0f", "%+.6f"])
WRITTEN = st.one_of(
    st.tuples(FORMATS, FLOATS).map(lambda pair: pair[0] % pair[1]),
    st.from_regex(r"\A[0-9]{1,12}(\.[0-9]{0,9})?(e[+-]?[0-9]{1,2})?\Z"),
    st.sampled_from(["", "inf", "-inf", "nan", "-nan", "0", "-0.000000", "1e+06", "9.99999e+99"]),
)


@settings(deadline=None)
@given(st.lists(WRITTEN, min_size=1, max_size=40), st.booleans())
def test_numbers_are_correctly_rounded(cells, short):
    values, empty = read_numbers(cells, short=short)
    expected = np.array([float(cell) if cell else np.nan for cell in cells])
    np.testing.assert_array_equal(values, expected)
    assert np.signbit(values).tolist() == np.signbit(expected).tolist()
    assert empty.tolist() == [not cell for cell in cells]


@pytest.mark.parametrize(
    "cell", ["1_0", " 1", "1 ", "0x10", "+inf", "infinity", "-", ".", "1.2.3", "--1", "1e999", "1e"]
)
def test_numbers_that_pandas_must_judge(cell):
    with pytest.raises(Unusual):
        read_numbers(["1.000000", cell])


CELLS = st.text("ab,\" \n'#é-1", max_size=5)


def read(content: bytes) -> tuple[Table, bool]:
    """Return a table, and whether it was read in bulk."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(content)
        table = read_table(Path(file.name), FORM, lambda found: found)
    return table, any(isinstance(each, Texts) for each in table.texts.values())


def contents(table: Table):
    return (
        table.names,
        table.size,
        {name: values.tolist() for name, values in table.choices.items()},
        {name: list(texts) for name, texts in table.texts.items()},
        {name: values.tolist() for name, values in table.words.items()},
        {name: values.tolist() for name, values in table.empty.items()},
        {name: np.nan_to_num(values, nan=-7).tolist() for name, values in table.numbers.items()},
    )


def quoted(cell: str) -> str:
    doubled = cell.replace('"', '""')
    return f'"{doubled}"' if any(each in cell for each in '",\n') or not cell else cell


@settings(deadline=None)
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
    st.integers(1, 60),
    st.booleans(),
)
def test_a_table_is_the_same_in_bulk_and_by_pandas(rows, end, block, short):
    lines = ["text,number,state,further", *(",".join(row) for row in rows)]
    content = ((end or "\n").join(lines) + end).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_table, "_read_in_bulk", _unusual)
        try:
            expected = contents(read(content)[0])
        except InputError as error:
            expected = str(error)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_cells, "BLOCK", block)
        patch.setattr(csv_cells, "SHORT", short << 17)
        try:
            found = contents(read(content)[0])
        except InputError as error:
            found = str(error)
    if isinstance(expected, str):
        # Each has its own temporary name.
        found, expected = (str(each).partition(": ")[2] for each in (found, expected))
    assert found == expected


def _unusual(*given):
    raise Unusual


def test_what_batsim_writes_is_read_in_bulk():
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
    assert not in_bulk
    assert table.texts["text"] == ["a\nb"]


@given(st.lists(st.from_regex(r"\A(w0!)?[0-9a#]{0,10}\Z"), max_size=12))
def test_whole_numbers_of_lines(lines):
    found = csv_cells.whole_numbers("".join(f"{line}\n" for line in lines).encode(), b"w0!")
    behind = [line.removeprefix("w0!") if line.startswith("w0!") else "" for line in lines]
    usual = [text.isdigit() and len(text) <= 8 and text == str(int(text)) for text in behind]
    expected = [int(text) if whole else -1 for text, whole in zip(behind, usual, strict=True)]
    assert found.tolist() == expected


@given(st.text("ab\n", max_size=30), st.integers(1, 9))
def test_lines_stay_whole(text, size):
    content = text.encode()
    parts = [content[at : at + size] for at in range(0, len(content), size)]
    lines = list(csv_cells.whole_lines(parts))
    assert all(each.endswith(b"\n") for each in lines)
    assert b"".join(lines) == content + b"\n" * (bool(content) and not text.endswith("\n"))


def test_a_line_without_end_is_not_left_to_plain_python(tmp_path, monkeypatch):
    path, lines = tmp_path / "t.csv", []
    find = csv_cells.find_block

    def noted(block, columns, *, short):
        lines.append((len(block), short))
        return find(block, columns, short=short)

    monkeypatch.setattr(csv_cells, "find_block", noted)
    path.write_text("number,state,text\n1,,a\n" + "[" * 2 * csv_cells.BLOCK)
    read_table(path, FORM, lambda table: table)
    assert lines == [(5, True), (2 * csv_cells.BLOCK + 1, False)]


def test_texts_and_words_are_sequences():
    texts = Texts(b'a,b\n\n"say ""no"""\n')
    assert list(texts) == ["a,b", "", 'say "no"'] == texts[:]
    assert (len(texts), texts[2], "" in texts, "b" in texts) == (3, 'say "no"', True, False)
    assert texts.written is None
    plain = Texts(b"w0\nw0\n")
    assert (plain.are_all("w0"), plain.are_all("w"), plain.mention("#")) == (True, False, False)
    assert ("w0" in plain, "0" in plain) == (True, False)
    states = Chosen(FINAL_STATES, np.array([4, 0], np.int8))
    assert (len(states), states[0], list(states)) == (2, "REJECTED", ["REJECTED", FINAL_STATES[0]])


def test_line_ends_of_other_systems_are_read(tmp_path):
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
def test_what_would_take_far_more_memory_than_it_has_letters_is_refused(tmp_path, content, message):
    path = tmp_path / "t.csv"
    path.write_text(content)

    def read(table):
        table.refuse("number", np.isnan(table.numbers["number"]), "a number")

    with pytest.raises(InputError, match=message):
        read_table(path, FORM, read)
