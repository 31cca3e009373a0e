"""Pages as numbers with names: the table, row and column of each, or the words around it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from studies.shared import BEGIN, END

MINUS = "\N{MINUS SIGN}"
_NUMBER = rf"(?<![\w.,])[-+{MINUS}]?\d+(?:,\d{{3}})*(?:\.\d+)?(?![\w⁰-⁹]|[.,]\d)"
_ENDS = rf"[^\d\[\]|;]{{0,70}}\[({_NUMBER})[^\d\]]*,\s+({_NUMBER})[^\]\d]*\]"
NUMBER = re.compile(_NUMBER)
GROUP = re.compile(rf"({_NUMBER})(?:{_ENDS})?")
"""A number, and the interval that follows it in the same breath."""

SETTING = re.compile(
    r"(?:loads?|sections?|Figures?|Tables?|from job|seed|at least|revision|margins?(?: of)?"
    r"|(?:risk|tolerance|below|above|within|than|by need,) of|less laxity than|[STKrn]F?B? [=<>]|≤)"
    rf" (?:{_NUMBER}(?:,| to| and|, and)? ?)*$"
    r"|\((?:[A-Z][\w.]* )+$"
)
"""What stands before a number that says where something was measured, not what."""

MEASURED_ON = re.compile(r"95 %|[\d,]+ (?:processors|hosts|jobs each|s\b.*laxity)")
"""Numbers of that kind that are known by what follows."""

NO_TEXT = re.compile(r"```.*?```|^ {4}(?:python|qops-batsim| +--)[^\n]*|\]\([^)]*\)", re.M | re.S)
"""Commands, and addresses of links."""

BLOCK = re.compile(
    r"^#+ +(?P<head>.*)|^\*\*(?P<bold>[^*\n]*)\*\*$|(?P<table>(?:^\|.*\n?)+)"
    r"|^(?!\s*$).*(?:\n(?!\||#|[-*] |\d+\. |\s*$).*)*",
    re.M,
)
SENTENCE = re.compile(r"\S.*?(?:[a-z)\]%*`][.;:](?=\s)|\Z)", re.S)


class Number(NamedTuple):
    """A number of a page with its interval, as they stand there.

    ``title`` is the heading above, counted where it has several tables; ``row`` the cells of a row
    of a table, of which the first ``keys`` tell it from the others, or a sentence; ``nth`` counts
    within a cell or a sentence.
    """

    line: int
    title: str
    row: tuple[str, ...]
    keys: int
    column: str
    texts: tuple[str, ...]
    nth: int = 0

    @property
    def names(self) -> tuple[Any, ...]:
        """What tells the number from all others of its page."""
        return self.title, self.row[: self.keys], self.column, self.nth

    @property
    def address(self) -> str:
        """The names of the number, in one line."""
        row = ", ".join(self.row[: self.keys]) if self.column else self.row[0][:60]
        behind = f" ({self.nth + 1})" if self.nth else ""
        return " | ".join(filter(None, (self.title, row, self.column))) + behind

    @property
    def shown(self) -> str:
        """The number with its interval."""
        first, *ends = self.texts
        return f"{first} [{', '.join(ends)}]" if ends else first


def agree(shown: str, found: str) -> bool:
    """Return whether a number that is found is the one shown, to the digits shown.

    A number that is shown without a sign may be a fall or a rise.

    >>> agree("7.3", "-7.25"), agree("+7.3", "-7.3"), agree("7.30", "7.3")
    (True, False, False)
    """
    one, other = (Decimal(each.replace(",", "").replace(MINUS, "-")) for each in (shown, found))
    digits, finer = (len(each.partition(".")[2]) for each in (shown, found))
    rounding = Decimal(finer > digits) / 2 / 10**digits
    apart = abs(abs(one) - abs(other)) if shown[0].isdigit() else abs(one - other)
    return finer >= digits and apart <= rounding


def groups_in(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield place and texts of each number of a text, with the interval behind it.

    >>> list(groups_in("16.7 points deep [8.7, 24.7], at 2"))
    [(0, ('16.7', '8.7', '24.7')), (33, ('2',))]
    """
    for each in GROUP.finditer(text):
        yield each.start(), tuple(filter(None, each.groups()))


def blank(text: str) -> str:
    """Return a text with a mark in place of each number, and single spaces."""
    return " ".join(NUMBER.sub("#", text).split())


def numbers_of(text: str, title: str = "") -> list[Number]:
    """Return the numbers of a page in Markdown, without code, links and numbers of settings.

    ``title`` is the heading of what comes before the first one.
    """
    text = NO_TEXT.sub(lambda each: "\n" * each[0].count("\n"), text)
    # Words in code tell what a number is, their numbers do not.
    text = re.sub(
        r"`[^`|]*`(?=[^|\n]*$)", lambda each: re.sub(r"\d", "x", each[0]), text, flags=re.M
    )
    found: list[Number] = []
    tables: Counter[str] = Counter()
    for block in BLOCK.finditer(text):
        line, head = text.count("\n", 0, block.start()) + 1, block["head"] or block["bold"]
        if head:
            title = "" if block[0].startswith("# ") else blank(head)[:60]
        elif block["table"]:
            tables[title] += 1
            found += _of_table(f"{title} {tables[title]}".strip(), block[0].splitlines(), line)
        else:
            found += _of_text(title, block[0], line)
    seen: Counter[tuple[Any, ...]] = Counter()
    for place, each in enumerate(found):
        found[place] = each._replace(nth=seen[each.names])
        seen[each.names] += 1
    return found


def _of_table(title: str, lines: Sequence[str], first: int) -> Iterator[Number]:
    """Yield the numbers of a table, but for those that name its rows."""
    heads, _, *rows = (tuple(map(str.strip, each.strip().strip("|").split("|"))) for each in lines)
    counts = range(1, len(heads))
    keys = next((n for n in counts if len({row[:n] for row in rows}) == len(rows)), len(heads) - 1)
    for line, row in enumerate(rows, first + 2):
        for place, cell in list(enumerate(row))[keys:]:
            if heads[place + 1 : place + 2] == ("95 % interval",):
                cell = f"{cell} {row[place + 1]}"
            again = heads[:place].count(heads[place])
            column = f"{heads[place]} #{again + 1}" if again else heads[place]
            for _, texts in groups_in(cell):
                yield Number(line, title, row, keys, column, texts)


def _of_text(title: str, text: str, first: int) -> Iterator[Number]:
    """Yield the numbers of a paragraph, or of an item of a list, by sentence."""
    text = re.sub(r"^(?:[-*]|\d+\.) ", lambda each: " " * len(each[0]), text)
    for sentence in SENTENCE.finditer(text):
        for at, texts in groups_in(sentence[0]):
            before = text[: sentence.start() + at]
            setting = SETTING.search(re.sub(r"\s+", " ", before)[-60:])
            if not (setting or MEASURED_ON.match(sentence[0][at:])):
                line = first + before.count("\n")
                yield Number(line, title, (blank(sentence[0]),), 1, "", texts)


def find(numbers: Sequence[Number], wanted: Number) -> Number | None:
    """Return the number with the names of one of another version of this page.

    That may have more rows, which take more cells to tell apart than here.
    """
    for each in numbers:
        names = each.title, each.row[: wanted.keys], each.column, each.nth
        if names == wanted.names:
            return each
    return None


def generated(page: Path, section: str = "") -> list[Number]:
    """Return the numbers of what a command writes of a page.

    That are the tables of a section, if one is named; else what stands between the marks of a page,
    or the whole.
    """
    text = page.read_text("utf-8")
    if section:
        title = re.compile(rf"{re.escape(blank(section)[:60])} \d+")
        return [each for each in numbers_of(text) if title.fullmatch(each.title)]
    before, mark, rest = text.partition(BEGIN)
    return numbers_of("\n" * before.count("\n") + rest.partition(END)[0] if mark else text)
