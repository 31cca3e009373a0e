"""Pages as numbers with names: the table, row and column of each, or the words around it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from qops_batsim import InputError
from studies.shared import BEGIN, END

MINUS = "\N{MINUS SIGN}"
NUMBER = re.compile(rf"(?<![\w.,])[-+{MINUS}]?\d+(?:,\d{{3}})*(?:\.\d+)?(?![\w⁰-⁹]|[.,]\d)")
INTERVAL = re.compile(
    rf"[^\d\[\]|;]{{0,70}}\[({NUMBER.pattern})[^\d\]]*,\s+({NUMBER.pattern})[^\]\d]*\]"
)
"""What may stand between a number and its interval, and that."""

SETTING = re.compile(
    r"(?:loads?|sections?|Figures?|Tables?|from job|seed|at least|revision|margins?(?: of)?"
    r"|(?:risk|tolerance|below|above|within|than|by need,) of|less laxity than|[STKrn]F?B? [=<>]|≤)"
    rf" (?:{NUMBER.pattern}(?:,| to| and|, and)? ?)*$"
    r"|\((?:[A-Z][\w.]* )+$"
)
"""What stands before a number that says where something was measured, not what."""

MEASURED_ON = re.compile(r"95 %|[\d,]+ (?:processors|hosts|jobs each|s\b.*laxity)")
"""Numbers of that kind that are known by what follows."""

CODE = re.compile(r"`[^`]*`")
COMMAND = re.compile(r" {4}(?:python|qops-batsim| +--).*", re.MULTILINE)


class Number(NamedTuple):
    """A number of a page with its interval, as they stand there.

    ``title`` is the heading above, counted where it has several tables; ``row`` the cells that tell
    a row of its table from the others, or the words of a sentence; ``nth`` counts within a cell or
    a sentence. ``cells`` are those of the whole row, ``context`` are words around the number.
    """

    line: int
    title: str
    row: tuple[str, ...]
    column: str
    nth: int
    texts: tuple[str, ...]
    context: str = ""
    cells: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """The names of the number, in one line."""
        last = [self.column] if self.column else []
        behind = f" ({self.nth + 1})" if self.nth else ""
        return " | ".join([self.title, ", ".join(self.row), *last]) + behind

    @property
    def shown(self) -> str:
        """The number with its interval."""
        first, *ends = self.texts
        return f"{first} [{', '.join(ends)}]" if ends else first


def value_of(text: str) -> Decimal:
    """Return the value of a number as it is written."""
    return Decimal(text.replace(",", "").replace(MINUS, "-"))


def agree(shown: str, found: str) -> bool:
    """Return whether a number that is found is the one shown, to the digits shown.

    A number that is shown without a sign may be a fall or a rise.

    >>> agree("7.3", "-7.25"), agree("+7.3", "-7.3"), agree("7.30", "7.3")
    (True, False, False)
    """
    one, other = value_of(shown), value_of(found)
    if other.is_nan() or one.is_nan():
        return False
    if shown[0] not in f"+-{MINUS}":
        one, other = abs(one), abs(other)
    digits, finer = (len(each.partition(".")[2]) for each in (shown, found))
    rounding = Decimal(10) ** -digits / 2 if finer > digits else Decimal(0)
    return finer >= digits and abs(one - other) <= rounding


def groups_in(text: str) -> list[tuple[int, tuple[str, ...]]]:
    """Return place and texts of each number of a text, with the interval behind it.

    >>> groups_in("16.7 points deep [8.7, 24.7], at 2")
    [(0, ('16.7', '8.7', '24.7')), (33, ('2',))]
    """
    found, end = [], 0
    for each in NUMBER.finditer(text):
        if each.start() < end:
            continue
        interval = INTERVAL.match(text, each.end())
        ends = interval.groups() if interval else ()
        end = interval.end() if interval else each.end()
        found.append((each.start(), (each.group(), *ends)))
    return found


def blank(text: str) -> str:
    """Return a text with a mark in place of each number, and single spaces."""
    return " ".join(NUMBER.sub("#", text).split())


def generated_part(text: str, section: str = "") -> tuple[int, str]:
    """Return the number of the first line of what a command gives of a page, and that part.

    That is a section, if one is named; else what stands between the marks of a page, or the whole.
    """
    if section:
        begin = re.search(rf"^#+ {re.escape(section)}$", text, re.M)
        if begin is None:
            raise InputError(f"no section {section!r} in the page")
        rest = re.split(r"^#+ ", text[begin.end() :], maxsplit=1, flags=re.M)[0]
        return text.count("\n", 0, begin.end()), rest
    before, mark, rest = text.partition(BEGIN)
    return (before.count("\n"), rest.partition(END)[0]) if mark else (0, text)


def numbers_of(text: str, first_line: int = 0) -> list[Number]:
    """Return the numbers of a page in Markdown, without code, links and numbers of settings."""
    text = re.sub(r"```.*?```", lambda each: "\n" * each[0].count("\n"), text, flags=re.S)
    text = COMMAND.sub("", re.sub(r"\]\([^)]*\)", "]", text))
    lines = [
        line if line.startswith("|") else CODE.sub(lambda each: re.sub(r"\d", "x", each[0]), line)
        for line in text.split("\n")
    ]
    found: list[Number] = []
    tables: Counter[str] = Counter()
    title, block, at = "", [], 0
    for place, line in enumerate([*lines, ""]):
        table, was = line.startswith("|"), bool(block) and block[0].startswith("|")
        head = re.match(r"#+ +(.*)|\*\*([^*]*)\*\*$", line)
        item = re.match(r"[-*] |\d+\. ", line)
        if block and (table != was or not line.strip() or head or item):
            where = first_line + at + 1
            if was:
                tables[title] += 1
                found += _of_table(f"{title} {tables[title]}", block, where)
            else:
                found += _of_text(title, block, where)
            block = []
        if head:
            title = "" if line.startswith("# ") else blank(head[1] or head[2])[:60]
        elif line.strip():
            at = at if block else place
            block.append(line)
    return _counted(found)


def _counted(numbers: Sequence[Number]) -> list[Number]:
    """Return numbers of which those with equal names are counted together."""
    seen: Counter[tuple[Any, ...]] = Counter()
    found = []
    for each in numbers:
        names = (each.title, each.row, each.column)
        found.append(each._replace(nth=seen[names]))
        seen[names] += 1
    return found


def _of_table(title: str, lines: Sequence[str], first: int) -> Iterator[Number]:
    """Yield the numbers of a table, but for those that name its rows."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    seen: Counter[str] = Counter()
    heads = []
    for head in rows[0]:
        seen[head] += 1
        heads.append(head if seen[head] == 1 else f"{head} #{seen[head]}")
    body = rows[2:]
    named = keys_of(body)
    for line, (cells, row) in enumerate(zip(body, named, strict=True), first + 2):
        for head, cell in list(zip(heads, cells, strict=False))[min(len(row), len(heads) - 1) :]:
            context = " ".join((title, *cells[:1], head))
            for nth, (_, texts) in enumerate(groups_in(cell)):
                yield Number(line, title, row, head, nth, texts, context, tuple(cells))


def keys_of(rows: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return of each row the cells that tell it from the others: the first, as few as suffice."""
    if not rows:
        return []
    for count in range(1, len(rows[0]) + 1):
        keys = [tuple(row[:count]) for row in rows]
        if len(set(keys)) == len(keys):
            break
    return keys


def _of_text(title: str, lines: Sequence[str], first: int) -> Iterator[Number]:
    """Yield the numbers of a paragraph or of an item of a list, by sentence."""
    text = re.sub(r"^(?:[-*]|\d+\.) ", lambda each: " " * len(each[0]), "\n".join(lines))
    begin = 0
    for sentence in re.split(r"(?<=[a-z)\]%*`][.;:])\s", text):
        row = (blank(sentence)[:60],)
        for nth, (at, texts) in enumerate(groups_in(sentence)):
            before = re.sub(r"\s+", " ", text[: begin + at])
            if not (SETTING.search(before[-60:]) or MEASURED_ON.match(sentence[at:])):
                line = first + text.count("\n", 0, begin + at)
                yield Number(line, title, row, "", nth, texts, sentence)
        begin += len(sentence) + 1


class Source:
    """The numbers that a command gives, by name: those of its output or of the page it writes."""

    def __init__(self, text: str, first_line: int = 0) -> None:
        self.numbers = numbers_of(text, first_line)
        self.names = {each.address: each for each in self.numbers}
        self._by_name: dict[tuple[str, str, int], list[Number]] = {}
        for each in self.numbers:
            self._by_name.setdefault((each.title, each.column, each.nth), []).append(each)

    def at(self, wanted: Number) -> Number | None:
        """Return the number with the names of one of another version of this page.

        That may have more rows, which take more cells to tell apart than here.
        """
        for each in self._by_name.get((wanted.title, wanted.column, wanted.nth), ()):
            if (each.cells or each.row)[: len(wanted.row)] == wanted.row:
                return each
        return None


def read_source(page: Path, section: str = "") -> Source:
    """Return the numbers that a command has written into a page."""
    first, text = generated_part(page.read_text("utf-8"), section)
    if section and page.name == "README.md":  # Only its tables are a command's.
        text = re.sub(r"^(?!\|).*", "", text, flags=re.MULTILINE)
    return Source(text, first)
