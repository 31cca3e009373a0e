"""The header of a workload log: comment lines, many of them ``; Key: value``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from qops_batsim.errors import InputError

_KEY = re.compile(r"([A-Za-z][\w.-]*)\s*:(?:\s+(.*))?")
_INTEGER = re.compile(r"([+-]?[0-9]{1,18})(?:\s.*)?", re.DOTALL)


@dataclass(frozen=True)
class SwfHeader:
    """The comment lines of a log, and the fields they hold.

    Attributes
    ----------
    lines
        The lines in order, each without its leading ``;`` and trailing blanks.
    """

    lines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for line in self.lines:
            if "\n" in line:
                raise InputError(f"header line {line!r} holds a line break; one line is expected")
        object.__setattr__(self, "lines", tuple(line.rstrip() for line in self.lines))

    @classmethod
    def from_fields(cls, fields: Iterable[tuple[str, str]]) -> SwfHeader:
        """Make a header from pairs of key and value; a value may have several lines.

        Raises
        ------
        InputError
            A key is not one word of letters, digits, ``_``, ``.`` and ``-``.
        """
        lines = []
        for key, value in fields:
            if not _KEY.fullmatch(f"{key}:"):
                raise InputError(f"header key {key!r} is not accepted; one word is expected")
            first, *others = value.split("\n")
            lines.append(f" {key}: {first}")
            lines += [f" {' ' * (len(key) + 2)}{other}" if other else "" for other in others]
        return cls(tuple(lines))

    @cached_property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Pairs of key and value in order; repeated keys (``Note``, ``Queue``) stay apart.

        A line belongs to the field before it when it is indented by at least
        two more blanks, or follows it directly and has no key of its own. The
        lines of such a value are joined with a line break.
        """
        fields: list[tuple[str, list[str]]] = []
        depth, blanks = 0, 0
        for line in self.lines:
            text = line.expandtabs().strip()
            if not text:
                blanks += 1
                continue
            indentation = len(line.expandtabs()) - len(line.expandtabs().lstrip())
            deeper = bool(fields) and indentation >= depth + 2
            match = None if deeper else _KEY.fullmatch(text)
            if match:
                fields.append((match[1], [(match[2] or "").strip()]))
                depth = indentation
            elif deeper or (fields and not blanks):
                fields[-1][1].extend([""] * blanks)
                fields[-1][1].append(text)
            blanks = 0
        return tuple((key, "\n".join(texts)) for key, texts in fields)

    def values(self, key: str) -> list[str]:
        """Return every value of a key, in order; upper and lower case are the same."""
        wanted = key.casefold()
        return [value for name, value in self.fields if name.casefold() == wanted]

    def get(self, key: str) -> str | None:
        """Return the first value of a key that is not empty, or None."""
        return next((value for value in self.values(key) if value), None)

    def integer(self, key: str, *, source: str = "the header") -> int | None:
        """Return the whole number that a field begins with, or None without the field.

        Raises
        ------
        InputError
            The value begins with something else; ``source`` names the file.
        """
        value = self.get(key)
        if value is None:
            return None
        match = _INTEGER.fullmatch(value)
        if not match:
            raise InputError(
                f"{source}: header field {key} is {value!r:.60}; a whole number is expected"
            )
        return int(match[1])
