"""Tie the numbers of the studies' READMEs to those that their commands give.

    python benchmarks/tie_numbers.py [STUDY ...]

Each number of a README that is tied to nothing is looked for in the pages that commands have
written, and in the output of commands that write none, which are run: by its value, by the words
around it, and by what stands beside it. What is found with enough evidence is added to
``studies/reproduce/ties``; ties that are there stay, but those of numbers that are gone. Look
through the new ones, and write ``-`` in place of the source of one that is wrong.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))

from studies.reproduce.__main__ import OVERVIEW, Study, read_settings
from studies.reproduce.page_numbers import Number, numbers_of
from studies.reproduce.parts import missing_log, run
from studies.reproduce.ties import Ties, all_agree

Place = tuple[str, ...]

ENOUGH = 8.0
"""Evidence from which on a number is tied: digits that agree, rare words, and neighbours."""


class Candidate(NamedTuple):
    """A number of a source that a number of the README may be."""

    source: str
    number: Number

    @property
    def row(self) -> Place:
        """Its row."""
        return (self.source, self.number.title, *self.number.row[: self.number.keys])

    @property
    def column(self) -> Place:
        """Its column."""
        return self.source, self.number.title, self.number.column, str(self.number.nth)


def words_of(it: Number, most: int | None = None) -> set[str]:
    """Return the words that name a number, of its row those in so many cells."""
    row = it.row[: it.keys if most is None else most]
    return set(re.findall(r"\w+", " ".join((it.title, *row, it.column)).lower()))


def new_ties(
    numbers: Sequence[Number], sources: Mapping[str, Sequence[Number]], ties: Ties
) -> Ties:
    """Return the ties of numbers of a README: those that are kept, and those that are found."""
    every = [Candidate(name, each) for name, it in sources.items() for each in it]
    rare = Counter(word for each in every for word in words_of(each.number))
    weight = {word: math.log(len(every) / count) for word, count in rare.items()}
    known = {name: {each.address for each in it} for name, it in sources.items()}
    kept = {name: ties[name] for name in (each.address for each in numbers) if name in ties}
    for name, (source, there) in list(kept.items()):
        if source in known and there not in known[source]:
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
            words = words_of(number, 1) & words_of(each.number)
            beside = float(rows[number.title, *number.row][each.row] - 1)
            above = columns[number.title, number.column][each.column] - 1
            digits = sum(len(re.sub(r"\D|^0\.?0*", "", text)) for text in number.texts)
            digits += 3 * (len(number.texts) > 1) + 3 * (number.row[0] in each.row)
            if not number.column and len(number.texts) == 1:  # A sentence alone says little.
                beside = min(beside, 1.0) - 1.5
            return digits + sum(weight[word] for word in words) / 2 + 2 * beside + min(above, 4)

        best = max(found, key=evidence)
        if evidence(best) >= ENOUGH:
            kept[number.address] = best.source, best.number.address
    return {each.address: kept[each.address] for each in numbers if each.address in kept}


def main() -> None:
    settings = read_settings()
    every = {name: Study(name, settings) for name in settings.studies}
    for each in every.values():
        every[OVERVIEW].add(each)
    for name in sys.argv[1:] or every:
        study = every[name]
        sources = dict(study.written)
        for command in study.commands:
            if not command.page and missing_log(name, command) is None:
                sources[study.source_name(command)] = numbers_of(run(name, command)[0])
        numbers = [each for each in study.by_hand() if study.exemption(each) is None]
        found = new_ties(numbers, sources, study.ties)
        lines = ("\t".join((each, *tie)) + "\n" for each, tie in found.items())
        study.tie_file.write_text("".join(lines), "utf-8")
        print(f"{name}: {len(found)} of {len(numbers)} tied", flush=True)


if __name__ == "__main__":
    main()
