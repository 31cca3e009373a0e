"""Ties between the numbers of a README and those that commands give: which number is which.

They are kept in ``ties/STUDY.tsv``, a line each: the names of the number in the README, the source
(a page that a command writes, or a command) and the names of the number there. ``--tie`` looks for
what new numbers are, by their values, by the words around them, and by what stands beside them; a
tie that is kept is never looked for again, and a source ``-`` says that there is none. The values
themselves are in no file but the pages.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from studies.reproduce.page_numbers import Number, Source, agree

Ties = dict[str, tuple[str, str]]
"""Source and names there, by the names in the README."""

Place = tuple[str, ...]

ENOUGH = 8.0
"""Evidence from which on a number is tied: digits that agree, rare words, and neighbours."""


def read_ties(path: Path) -> Ties:
    """Return the ties that are kept."""
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    parts = (line.split("\t") for line in lines)
    return {name: (source, there) for name, source, there in parts}


def write_ties(path: Path, ties: Ties) -> None:
    """Keep ties."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join("\t".join((name, *tie)) + "\n" for name, tie in ties.items()), "utf-8")


def all_agree(shown: Number, found: Number) -> bool:
    """Return whether a number with its interval agrees with another one, or with its contrary.

    A fall by 41 [22, 56] is a change by -41 [-56, -22].
    """
    value, *ends = found.texts
    if len(found.texts) < len(shown.texts):
        return False
    same = [(value, *ends)]
    if ends and value.startswith("-") and shown.texts[0][0].isdigit():
        same.append(tuple(map(_contrary, (value, *reversed(ends)))))
    return any(all(map(agree, shown.texts, texts)) for texts in same)


def _contrary(text: str) -> str:
    """Return a number with the other sign."""
    return text[1:] if text.startswith("-") else f"-{text.lstrip('+')}"


class Candidate(NamedTuple):
    """A number of a source that a number of the README may be."""

    source: str
    number: Number

    @property
    def row(self) -> Place:
        """Its row."""
        return (self.source, self.number.title, *self.number.row)

    @property
    def column(self) -> Place:
        """Its column."""
        return self.source, self.number.title, self.number.column, str(self.number.nth)


def new_ties(numbers: Sequence[Number], sources: Mapping[str, Source], ties: Ties) -> Ties:
    """Return the ties of numbers of a README: those that are kept, and those that are found."""
    every = [Candidate(name, each) for name, it in sources.items() for each in it.numbers]
    rare = Counter(word for each in every for word in _words(each))
    weight = {word: math.log(len(every) / count) for word, count in rare.items()}
    kept = {name: ties[name] for name in (each.address for each in numbers) if name in ties}
    for name, (source, there) in list(kept.items()):
        if source in sources and there not in sources[source].names:
            del kept[name]
    fits = {n: [each for each in every if all_agree(n, each.number)] for n in numbers}
    rows: dict[Place, Counter[Place]] = defaultdict(Counter)
    columns: dict[Place, Counter[Place]] = defaultdict(Counter)
    for number, found in fits.items():
        rows[number.title, *number.row].update({each.row for each in found})
        if number.column:
            columns[number.title, number.column].update({each.column for each in found})
    for number, found in fits.items():
        if number.address in kept or not found:
            continue

        def evidence(each: Candidate, number: Number = number) -> float:
            words = set(re.findall(r"\w+", number.context.lower())) & set(_words(each))
            beside = rows[number.title, *number.row][each.row] - 1
            above = columns[number.title, number.column][each.column] - 1
            digits = sum(len(re.sub(r"\D|^0\.?0*", "", text)) for text in number.texts)
            digits += 3 * (len(number.texts) > 1)
            if not number.column and len(number.texts) == 1:  # A sentence alone says little.
                beside = min(beside, 1) - 1.5
            return digits + sum(weight[word] for word in words) / 2 + 2 * beside + min(above, 4)

        best = max(found, key=evidence)
        if evidence(best) >= ENOUGH:
            kept[number.address] = best.source, best.number.address
    return {each.address: kept[each.address] for each in numbers if each.address in kept}


def _words(each: Candidate) -> set[str]:
    """Return the words that name a number of a source."""
    it = each.number
    return set(re.findall(r"\w+", " ".join((it.title, *it.row, it.column, it.context)).lower()))
