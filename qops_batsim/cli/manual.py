"""Options and arguments of commands, described as on a manual page.

    _about = manual(
        '''
        --out, -o PREFIX: Where to write.
        --from DATE: Take jobs submitted from this date on: an ISO date, or seconds since the
            log's start.
        JOB: The job: w0!12, or 12 where that is clear.
        '''
    )
    Start = Annotated[str | None, _about("--from")]

An entry begins with what the user writes, up to the first colon and blank: an option with its
other names and what its value is called, or an argument. Its further lines are indented.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import typer


def manual(page: str) -> Callable[..., Any]:
    """Return what makes Typer's option or argument of an entry, given its first name.

    Limits of its value (``min``, ``max``, ``exists`` …) are passed on to Typer.
    """
    entries: dict[str, tuple[list[str], str, str]] = {}
    for entry in re.split(r"\n(?=\S)", inspect.cleandoc(page)):
        head, text = " ".join(entry.split()).split(": ", 1)
        flags = re.findall(r"(?:^|(?<=, ))-[^ ,]+", head)
        value = head.removeprefix(", ".join(flags)).strip()
        name = flags[0] if flags else value
        assert name not in entries, f"{name} is described twice"
        entries[name] = (flags, value, text)

    def about(name: str, **limits: Any) -> Any:
        flags, value, text = entries[name]
        if not flags:
            return typer.Argument(metavar=value, help=text, **limits)
        return typer.Option(*flags, metavar=value or None, help=text, **limits)

    return about
