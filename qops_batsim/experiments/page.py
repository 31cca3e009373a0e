"""A report as one self-contained HTML page: pictures, sortable tables, facts.

The page needs no network and no other file. It follows the reader's choice of light or dark,
fits a phone, and prints without its navigation. Its HTML, style and script are in
``page.html.jinja``.
"""

from __future__ import annotations

import base64
import gzip
import platform
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import msgspec

from qops_batsim.version import __version__

if TYPE_CHECKING:
    import jinja2

MARKED = {
    "confirmed": "good",
    "contradicted": "bad",
    "equivalent": "open",
    "undecided": "open",
    "too few to judge": "open",
    "not judged": "open",
}
"""Style classes of words that stand out where a cell consists of nothing else."""

TEMPLATE = "page.html.jinja"


class TableCell(NamedTuple):
    """A table cell: its text, its CSS class if it stands out, and whether it is a number."""

    text: str
    mark: str
    is_number: bool


class PageText(msgspec.Struct, frozen=True, kw_only=True):
    """Paragraphs of plain text."""

    kind: ClassVar[str] = "text"
    paragraphs: Sequence[str]


class PageAlert(msgspec.Struct, frozen=True, kw_only=True):
    """Paragraphs in a red box: why the results on the page must not be used as they are."""

    kind: ClassVar[str] = "alert"
    paragraphs: Sequence[str]


class PageHeading(msgspec.Struct, frozen=True, kw_only=True):
    """A heading inside a section."""

    kind: ClassVar[str] = "heading"
    text: str


class Aliases(dict[str, str]):
    """Maps names to 1, 2, ... in order of appearance, to make a page anonymous; ``-`` stays ``-``.

    >>> names = Aliases()
    >>> [names[each] for each in ("ann", "bob", "-", "ann")]
    ['1', '2', '-', '1']
    """

    def __missing__(self, name: str) -> str:
        """Give a new name the next number, and return the number."""
        if name in EMPTY:
            return name
        return self.setdefault(name, str(len(self) + 1))


EMPTY = frozenset({"", "-"})
"""Cells that say nothing."""


def without_empty_columns(
    headings: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells without columns that are empty in every row.

    >>> without_empty_columns(["a", "b"], [["1", "-"], ["-", "-"]])
    (['a'], [['1'], ['-']])
    """
    kept = [
        place
        for place in range(len(headings))
        if not rows or any(row[place] not in EMPTY for row in rows)
    ]
    return [headings[place] for place in kept], [[row[place] for place in kept] for row in rows]


class PageTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table that sorts by a click on a heading and can be saved as CSV.

    It has no column of which no row has a value.
    """

    kind: ClassVar[str] = "table"
    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def __post_init__(self) -> None:
        """Remove empty columns."""
        headings, rows = without_empty_columns(self.headings, self.rows)
        msgspec.structs.force_setattr(self, "headings", headings)
        msgspec.structs.force_setattr(self, "rows", rows)

    def cells(self) -> list[list[TableCell]]:
        """Return the cells of all rows; those of a first column of names are aligned as text."""
        named = not all(row and _is_number(row[0]) for row in self.rows)
        return [
            [
                TableCell(
                    text, MARKED.get(text, ""), _is_number(text) and not (named and place == 0)
                )
                for place, text in enumerate(row)
            ]
            for row in self.rows
        ]

    def markdown(self) -> list[str]:
        """Return the table as Markdown lines, after its title and note."""
        lines = [f"### {self.title}", ""] + ([self.note, ""] if self.note else [])
        return lines + markdown_table(self.headings, self.rows)


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table as Markdown lines."""
    return [
        f"| {' | '.join(headings)} |",
        "|" + "---|" * len(headings),
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


PACKED_FROM = 1 << 20
"""Bytes of pictures from which on a page has them compressed, which its script unpacks: the 55
of a paper would be 9 MB."""


class PagePicture(msgspec.Struct, frozen=True, kw_only=True):
    """An SVG picture that can be saved as SVG or PNG, and with ``data`` also as CSV."""

    kind: ClassVar[str] = "picture"
    title: str
    svg: bytes
    data: str = ""

    @property
    def file_name(self) -> str:
        """Name, without ending, under which the page's script saves the picture."""
        return re.sub("[^a-z0-9]+", "-", self.title.lower()).strip("-")


class PageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts, each with a name."""

    kind: ClassVar[str] = "facts"
    facts: Mapping[str, str]


Block = PageText | PageAlert | PageHeading | PageTable | PagePicture | PageFacts


def html_page(
    title: str,
    about: str,
    sections: Mapping[str, Sequence[Block | None]],
    command: str,
    **facts: str,
) -> str:
    """Return a page as HTML; equal content gives equal text.

    Sections are blocks by title; None is left out, and so is a section without any. The last one
    is how the page was made: the command, facts, and versions.
    """
    versions = {
        "qops-batsim": __version__,
        "Python": platform.python_version(),
        "numpy": version("numpy"),
    }
    versions_text = ", ".join(f"{name} {number}" for name, number in versions.items())
    made_by = PageFacts(facts={"command": command, **facts, "versions": versions_text})

    parts = []
    for number, (heading, content) in enumerate(
        {**sections, "How it was made": [made_by]}.items(), 1
    ):
        if blocks := [block for block in content if block is not None]:
            parts.append((f"part-{number}", heading, blocks))

    pictures = [it for *_, blocks in parts for it in blocks if isinstance(it, PagePicture)]
    packed = sum(len(each.svg) for each in pictures) >= PACKED_FROM
    return _template().render(title=title, about=about, parts=parts, packed=packed)


@cache
def _template() -> jinja2.Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    environment.filters["base64"] = lambda content: base64.b64encode(content).decode()
    # Equal content gives equal bytes, on every day.
    environment.filters["gzip"] = lambda content: gzip.compress(content, mtime=0)
    text = files("qops_batsim.experiments").joinpath(TEMPLATE).read_text("utf-8")
    return environment.from_string(text)


def _is_number(text: str) -> bool:
    # A sentence may begin with a number, too; "-" stands for a number that is not known.
    return text == "-" or (len(text) <= 40 and text.lstrip("+-")[:1].isdigit())
