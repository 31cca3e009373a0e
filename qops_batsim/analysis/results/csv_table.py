"""Tables in CSV files: columns of numbers, of words and of texts.

A table is read in bulk (:mod:`~qops_batsim.analysis.results.csv_cells`) where it is written as
Batsim and this package do; pandas reads all others, and finds what is wrong with them.
"""

from __future__ import annotations

import csv
import io
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from qops_batsim.analysis.results import csv_cells
from qops_batsim.analysis.results.csv_cells import Booleans, Floats, Unusual
from qops_batsim.errors import InputError, shown
from qops_batsim.files import read_bytes, read_parts, text_of

_LONGEST_HEADER = 100_000
"""Letters of a line with the names of columns."""

_FEW_LINES = 100_000

_CELLS_OF_LETTER = 0.85
"""Most cells in a letter of a long table: even one of nearly empty rows has fewer."""

Choices = npt.NDArray[np.int8]
_Content = TypeVar("_Content")


class Texts(Sequence[str]):
    """A column of texts, kept as it is in the file until a cell is asked for."""

    def __init__(self, written: bytes) -> None:
        self._written = written
        """The cells, quoted as they are, with a newline behind each."""

    @property
    def written(self) -> bytes | None:
        """The cells with a newline behind each, if none is quoted."""
        return None if b'"' in self._written else self._written

    def __contains__(self, text: object) -> bool:
        line = f"\n{text}\n".encode()
        if line not in b"\n" + self._written and self.written is not None:
            return False
        return text in self.listed()

    def mention(self, letters: str) -> bool:
        """Tell whether any cell has such letters in it, other than quotes."""
        return letters.encode() in self._written

    def are_all(self, text: str) -> bool:
        """Tell whether all cells are this text."""
        line = f"{text}\n".encode()
        return self._written == line * (len(self._written) // len(line))

    @cached_property
    def _cells(self) -> list[str]:
        return self.listed()

    def listed(self) -> list[str]:
        """Return all cells, without keeping them."""
        cells = self._written.decode().split("\n")[:-1]
        if self.written is None:
            cells = [_unquoted(cell) if cell.startswith('"') else cell for cell in cells]
        return cells

    def __len__(self) -> int:
        return self._written.count(b"\n")

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._cells[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.listed())


class Chosen(Sequence[str]):
    """A column of words, each by its position among a few."""

    def __init__(self, words: Sequence[str], which: Choices) -> None:
        self._words = words
        self._which = which

    def __len__(self) -> int:
        return len(self._which)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self._words[each] for each in self._which[index].tolist()]
        return str(self._words[self._which[index]])

    def __iter__(self) -> Iterator[str]:
        return iter(self[:])


def _unquoted(cell: str) -> str:
    return cell[1:-1].replace('""', '"')


@dataclass(frozen=True)
class Table:
    """A CSV file in columns.

    Attributes
    ----------
    names
        All columns, in the order of the file.
    size
        Number of rows.
    numbers
        Columns of numbers: NaN where a cell is none.
    empty, words
        Which cells of each column of numbers are empty, and which are ``inf`` or ``nan``.
    choices
        Columns of a few words: their positions among them, -1 for any other text.
    texts
        All other columns that were asked for.
    refuse
        Raises an error about the first row of some, if any.
    """

    names: list[str]
    size: int
    numbers: dict[str, Floats]
    empty: dict[str, Booleans]
    words: dict[str, Booleans]
    choices: dict[str, Choices]
    texts: dict[str, Sequence[str]]
    refuse: Callable[[str, Booleans, str], None]


@dataclass(frozen=True, kw_only=True)
class Form:
    """What is read of a file: ``what`` it is, which columns it must have, and kinds of columns.

    ``choices`` are columns of certain words, ``others`` tells whether all further columns
    are read as texts.
    """

    what: str
    needed: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    others: bool = False

    def kinds(self, header: list[str]) -> tuple[list[str], dict[str, tuple[str, ...]], list[str]]:
        """Return which columns of a file are numbers, words and texts."""
        texts = [
            name
            for name in header
            if name in self.texts
            or (self.others and name not in self.numbers and name not in self.choices)
        ]
        choices = {name: words for name, words in self.choices.items() if name in header}
        return [name for name in self.numbers if name in header], choices, texts


def read_table(path: Path, form: Form, make: Callable[[Table], _Content]) -> _Content:
    """Return what is made of a table; whatever is wrong is found by reading it with pandas."""
    kept = [] if path.is_file() else [read_bytes(path, what=form.what)]  # a pipe is read once
    parts = kept or read_parts(path, csv_cells.BLOCK, what=form.what)
    try:
        return make(_read_in_bulk(csv_cells.whole_lines(parts), form))
    except (Unusual, UnicodeDecodeError):
        content = kept[0] if kept else read_bytes(path, what=form.what)
        return make(_read_with_pandas(path, text_of(content, path, what=form.what), form))


def _read_in_bulk(parts: Iterator[bytes], form: Form) -> Table:
    begin = next(parts, b"")
    short = len(begin) < csv_cells.SHORT
    line, _, begin = begin.partition(b"\n")
    if len(line) > _LONGEST_HEADER:
        raise Unusual
    header = line.decode().split(",")
    if len(set(header)) < len(header) or not set(form.needed).issubset(header):
        raise Unusual
    if not all(name.isidentifier() for name in header):
        raise Unusual
    numbers, choices, texts = form.kinds(header)
    values: dict[str, list[Floats]] = {name: [] for name in numbers}
    empty: dict[str, list[Booleans]] = {name: [] for name in numbers}
    chosen: dict[str, list[Choices]] = {name: [] for name in choices}
    written: dict[str, list[bytes]] = {name: [] for name in texts}
    place = {name: index for index, name in enumerate(header)}
    size = 0
    for lines in itertools.chain([begin], parts):
        if not lines.isascii():
            lines.decode()
        # The first lines may be followed by one without end.
        short = short and len(lines) < csv_cells.SHORT
        block = csv_cells.find_block(lines, len(header), short=short)
        size += block.ends.shape[1]
        for name in numbers:
            found, nothing = csv_cells.numbers(block, place[name])
            values[name].append(found)
            empty[name].append(nothing)
        for name, words in choices.items():
            chosen[name].append(csv_cells.choices(block, place[name], words))
        for name in texts:
            written[name].append(csv_cells.text(block, place[name]))
    found_numbers, no_text = _joined(values, np.float64), _joined(empty, np.bool_)
    return Table(
        names=header,
        size=size,
        numbers=found_numbers,
        empty=no_text,
        words={name: ~np.isfinite(found_numbers[name]) & ~no_text[name] for name in numbers},
        choices=_joined(chosen, np.int8),
        texts={name: Texts(b"".join(each)) for name, each in written.items()},
        refuse=_refuse_in_bulk,
    )


def _joined(parts: dict[str, list[Any]], kind: type) -> dict[str, Any]:
    return {name: np.concatenate([np.empty(0, kind), *each]) for name, each in parts.items()}


def _refuse_in_bulk(column: str, wrong: Booleans, accepted: str) -> None:
    if wrong.any():
        raise Unusual


def _read_with_pandas(path: Path, text: str, form: Form) -> Table:
    """Read a CSV file as text, without a guess about types."""
    import pandas as pd

    if not text.strip():
        raise InputError(f"{path}: empty (did the simulation abort?); {form.what} is expected")
    header = next(csv.reader(io.StringIO(text[:_LONGEST_HEADER], newline="")), [])
    missing = [name for name in form.needed if name not in header]
    if missing:
        found = " ".join(", ".join(header).split())[:200]
        raise InputError(
            f"{path}: column{'s' if len(missing) > 1 else ''} {', '.join(missing)} missing "
            f"(found: {found or 'nothing'}); {form.what} is expected"
        )
    lines = text.count("\n")
    if lines > _FEW_LINES and len(header) * lines > _CELLS_OF_LETTER * len(text):
        raise InputError(
            f"{path}: {lines} lines of {len(header)} columns in {len(text)} letters; "
            f"{form.what} is expected"
        )
    try:
        with warnings.catch_warnings():
            # A row with a surplus field must not silently lose it or shift the columns.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(io.StringIO(text), dtype=str, na_filter=False, index_col=False)
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        detail = " ".join(str(error).split())
        raise InputError(f"{path}: not a table ({detail}); {form.what} is expected") from None

    def refuse(column: str, wrong: Booleans, accepted: str) -> None:
        if not wrong.any():
            return
        row = int(np.argmax(wrong))
        job = f" (job {shown(str(table['job_id'].iloc[row]))})" if "job_id" in table else ""
        raise InputError(
            f"{path}: row {row + 1}{job}: {column} is {shown(str(table[column].iloc[row]))}; "
            f"{accepted} is expected"
        )

    names = [str(name) for name in table.columns]
    numbers, choices, texts = form.kinds(names)
    return Table(
        names=names,
        size=len(table),
        numbers={
            name: pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=np.float64)
            for name in numbers
        },
        empty={name: (table[name] == "").to_numpy() for name in numbers},
        words={name: table[name].isin(csv_cells.NOT_FINITE).to_numpy() for name in numbers},
        choices={
            name: np.array(
                [words.index(cell) if cell in words else -1 for cell in table[name]], np.int8
            )
            for name, words in choices.items()
        },
        texts={name: table[name].tolist() for name in texts},
        refuse=refuse,
    )
