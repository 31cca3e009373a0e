"""Ties between the numbers of a README and those that commands give: which number is which.

They are kept in ``ties/STUDY.tsv``, a line each: the names of the number in the README, the source
(a page that a command writes, or a command) and the names of the number there; a source ``-`` says
that there is none. The values themselves are in no file but the pages.
"""

from __future__ import annotations

from pathlib import Path

from studies.reproduce.page_numbers import Number, agree

Ties = dict[str, tuple[str, str]]
"""Source and names there, by the names in the README."""


def read_ties(path: Path) -> Ties:
    """Return the ties that are kept."""
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    parts = (line.split("\t") for line in lines)
    return {name: (source, there) for name, source, there in parts}


def all_agree(shown: Number, found: Number) -> bool:
    """Return whether a number with its interval agrees with another one, or with its contrary.

    A fall by 41 [22, 56] is a change by -41 [-56, -22].
    """
    value, *ends = found.texts
    both = [(value, *ends)]
    if ends and value.startswith("-") and shown.texts[0][0].isdigit():
        contrary = (f"-{each}".replace("--", "").replace("-+", "-") for each in reversed(ends))
        both.append((value, *contrary))
    fits = len(found.texts) >= len(shown.texts)
    return fits and any(all(map(agree, shown.texts, texts)) for texts in both)
