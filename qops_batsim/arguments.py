"""Arguments of public functions: a value of another kind is refused in one line, at once.

Without this, ``run("qops", out=3)`` would end as an error of some function far inside, which names
neither the argument nor what it takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from os import PathLike
from typing import Any, NamedTuple, ParamSpec, TypeVar

from qops_batsim.errors import InputError, typed_text

P = ParamSpec("P")
R = TypeVar("R")


class Kind(NamedTuple):
    """A kind of arguments: which values are of it, and what they are in words."""

    fits: Callable[[Any], bool]
    words: str

    def check(self, name: str, value: object) -> None:
        """Raise an InputError ``NAME is VALUE; WORDS is expected`` for a value of another kind."""
        if not self.fits(value):
            raise InputError(f"{name} is {typed_text(value)}; {self.words} is expected")

    def __or__(self, other: Kind) -> Kind:
        """Return the kind of values that are of this kind or of another."""
        return Kind(
            lambda value: self.fits(value) or other.fits(value), f"{self.words}, or {other.words}"
        )

    @property
    def optional(self) -> Kind:
        """The kind of values that are of this kind, or None."""
        return Kind(lambda value: value is None or self.fits(value), f"{self.words}, or None")


def _is_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


def _is_whole(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral)


PATH = Kind(lambda value: isinstance(value, str | PathLike), "a path")
TEXT = Kind(lambda value: isinstance(value, str), "a text")
NUMBER = Kind(_is_number, "a finite number")
WHOLE = Kind(_is_whole, "a whole number")
SWITCH = Kind(lambda value: isinstance(value, bool), "True or False")
CALLABLE = Kind(callable, "a function")


def one_of(*classes: type, words: str) -> Kind:
    """Return the kind of objects of these classes."""
    return Kind(lambda value: isinstance(value, classes), words)


def mapping(of: Kind, words: str) -> Kind:
    """Return the kind of mappings from texts to values of a kind."""
    return Kind(
        lambda value: (
            isinstance(value, Mapping)
            and all(map(TEXT.fits, value))
            and all(map(of.fits, value.values()))
        ),
        words,
    )


def several(of: Kind, words: str) -> Kind:
    """Return the kind of lists, or other collections, of values of a kind; no text is one."""
    return Kind(
        lambda value: (
            isinstance(value, Collection)
            and not isinstance(value, str | bytes | Mapping)
            and all(map(of.fits, value))
        ),
        words,
    )


CODE = several(PATH, "a list of paths") | Kind(lambda value: isinstance(value, bool), "True")
NUMBERS = several(NUMBER, "a list of numbers")


def takes(**kinds: Kind) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a decorator that refuses arguments which are not of their ``kinds``, by name."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = signature(function)
        if kinds.keys() - parameters.parameters.keys():
            raise TypeError(f"{function.__name__} has other arguments than {', '.join(kinds)}")

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            given = parameters.bind(*args, **kwargs).arguments
            for name, value in given.items():
                if name in kinds:
                    kinds[name].check(f"{function.__name__}: {name}", value)
            return function(*args, **kwargs)

        return checked

    return decorate
