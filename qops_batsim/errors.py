"""Errors that users can cause, each told in one clear sentence.

The command line prints the sentence and exits with code 2; it never shows a
traceback for any of these. Any other exception is a defect of the package.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from itertools import islice

_LONGEST = 60
"""Letters of a value in a message."""

_BEGIN, _END = 1000, 400
"""Letters at both ends of a message that is too long; the end says what would be accepted."""


class QopsError(Exception):
    r"""Base class of all errors that a user's input or code can cause.

    Its text is one line of printable letters, and not too long, whatever an input holds.

    >>> print(QopsError("two\nlines"))
    two\nlines
    """

    def __str__(self) -> str:
        return one_line(super().__str__())


class InputError(QopsError):
    """A file, an option or a value that cannot be used as given.

    The message names the file, line or field, the value found and what would
    be accepted.

    >>> from qops_batsim import simulate
    >>> try:
    ...     simulate("easi", "tiny_8")
    ... except InputError as error:
    ...     print(str(error).partition(" (")[0])
    unknown scheduler 'easi'; did you mean 'easy'?
    """


class InterfaceError(InputError):
    """A user's scheduler class that lacks a hook, has one with wrong arguments or a misspelt name,
    or overrides a method that nothing would call.
    """


class SimulationError(QopsError):
    """A decision that breaks the protocol, or a simulation that cannot continue.

    The message names the job, the host and the simulated time (seconds).
    """


class CountsHostsError(SimulationError):
    """A scheduler that counts hosts or processors on a machine whose jobs share hosts by amounts.

    The message names ``availability().fit(job)``, which finds hosts for a job there.
    """


def printable(text: str) -> str:
    r"""Return a text with escapes for control characters and unencodable ones.

    >>> printable("a\nb")
    'a\\nb'
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def one_line(message: str) -> str:
    """Return a message as one printable line; a long one loses its middle."""
    if len(message) > _BEGIN + _END:
        message = f"{message[:_BEGIN]} ... {message[-_END:]}"
    return printable(message)


def shown(value: object) -> str:
    """Format a value for a message: texts quoted, others as JSON, at most 60 letters.

    Quoting and JSON keep a message on one line, whatever a file holds.
    """
    try:
        if isinstance(value, str):
            text = repr(value[:_LONGEST])
        else:
            # Piece by piece: of millions of values, sixty letters are wanted.
            text = "".join(islice(json.JSONEncoder().iterencode(value), _LONGEST))
    except (TypeError, ValueError, RecursionError):
        # No JSON value, a number of thousands of digits, or nested without end.
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def python_text(value: object) -> str:
    """Format a value of a user's Python code as Python does: None, not null.

    >>> python_text(None), python_text([1.5, True])
    ('None', '[1.5, True]')
    """
    # What has no JSON form has no short or lasting one of Python either.
    if (text := shown(value)).startswith("a value of type"):
        return text
    return text if len(text := repr(value)) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def typed_text(value: object) -> str:
    """Format a value as :func:`python_text` does, with its type if that does not say it."""
    text = python_text(value)
    says_type = text.startswith("a value of type") or value is None or isinstance(value, bool)
    return text if says_type else f"{text} ({type(value).__name__})"


def require(fits: bool, name: str, value: object, accepted: str) -> None:
    """Raise an :class:`InputError` ``NAME is VALUE; ACCEPTED`` unless a condition holds."""
    if not fits:
        text = f"{value:g}" if isinstance(value, float) else shown(value)
        raise InputError(f"{name} is {text}; {accepted}")


def require_type(what: str, value: object, kind: type | tuple[type, ...], accepted: str) -> None:
    """Raise a :class:`SimulationError` unless a scheduler's value has a type.

    >>> require_type("reject: job", "w0!1", int, "a Job")
    Traceback (most recent call last):
    qops_batsim.errors.SimulationError: reject: job is 'w0!1' (str); a Job is expected
    """
    if not isinstance(value, kind):
        raise SimulationError(f"{what} is {typed_text(value)}; {accepted} is expected")


def require_one_of(name: str, value: str, known: Iterable[str]) -> None:
    """Raise an :class:`InputError` ``NAME is 'VALUE'`` unless the value is in ``known``."""
    if value not in known:
        raise InputError(f"{name} is {shown(value)}{did_you_mean(str(value), known)}")


def require_utf8(arguments: Iterable[str]) -> None:
    """Refuse command-line arguments that cannot be written in UTF-8 files."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            message = f"argument {shown(argument)} is not UTF-8; a text that is one is expected"
            raise InputError(message) from None


_CONTRARIES = (
    *(("", prefix) for prefix in ("un", "in", "non", "no-", "no_", "not-", "not_", "dis", "mis")),
    ("with", "without"),
    ("min", "max"),
    ("least", "most"),
    ("first", "last"),
    ("enable", "disable"),
    ("met", "missed"),
    ("before", "after"),
)


def _contrary(name: str, near: str) -> bool:
    """Return whether a known name means the opposite of the given one: admitted, unadmitted."""

    def likeness(other: str) -> float:
        return SequenceMatcher(None, name, other).ratio()

    swapped = (
        there + near.removeprefix(here)
        for pair in _CONTRARIES
        for here, there in (pair, pair[::-1])
        if near.startswith(here)
    )
    return any(likeness(other) > likeness(near) for other in swapped)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known name, or a list of known names.

    >>> did_you_mean("eazy", ("easy", "fcfs"))
    "; did you mean 'easy'? (known: easy, fcfs)"
    """
    names = sorted(known)
    for near in get_close_matches(name, names, n=3, cutoff=0.6):
        if not _contrary(name, near):
            return f"; did you mean {near!r}? (known: {', '.join(names)})"
    return f" (known: {', '.join(names)})"
