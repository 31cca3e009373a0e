"""Which names of our scheduler classes a subclass may define again: an override that nothing calls,
and an attribute that nothing reads, are errors.

A compiled class calls most of its methods as C functions, which no subclass in Python can replace,
and keeps most of its attributes where Python does not see them. What a subclass may override are
the hooks (``HOOKS``), which are called through Python wherever a class overrides them, and the
attributes by which a class describes itself (``DESCRIPTION``).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from qops_batsim.errors import InterfaceError

_OURS = "qops_batsim."

_CLASS = re.compile(r"^class (\w+)\b.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_METHOD = re.compile(r"^    def (\w+)\(", re.MULTILINE)
_TEXT = re.compile(r'""".*?"""', re.DOTALL)
_ATTRIBUTE = re.compile(r"\bself\.([a-z]\w*)")


def is_ours(kind: type) -> bool:
    """Return whether a class belongs to the package ``qops_batsim``."""
    return kind.__module__.startswith(_OURS)


def is_overridden(scheduler: object, base: type, hook: str) -> bool:
    """Return whether a scheduler's class has a method of its own in place of that of ``base``.

    Here the method is asked for by its name: in a compiled class, ``Base.method`` is another object
    each time if C code calls the method, and so would seem to be overridden always.
    """
    kind: type = type(scheduler)
    return getattr(kind, hook) is not getattr(base, hook)


def without(hooks: Mapping[str, str], *names: str) -> dict[str, str]:
    """Return hooks with their arguments without those that a class does not call."""
    return {name: arguments for name, arguments in hooks.items() if name not in names}


def check_overrides(kind: Any) -> None:
    """Raise an InterfaceError if a user's scheduler class overrides what nothing would call.

    Parameters
    ----------
    kind
        A subclass of ``Scheduler``; classes of this package are not checked.
    """
    if is_ours(kind):
        return
    # Not those of the class itself: what it adds there is called by nothing of ours.
    ours = _first_of_ours(kind)
    for name, base in _overrides(kind):
        if name in ours.HOOKS or name in ours.DESCRIPTION:
            continue
        hooks = ", ".join(sorted(ours.HOOKS))
        named = f"{kind.__name__}.{name} overrides {base.__name__}.{name}, "
        if _defines(base, name):
            raise InterfaceError(
                f"{named}which is no hook, so that nothing would call it; override a hook "
                f"({hooks}), or give your method another name"
            )

        raise InterfaceError(
            f"{named}which only {base.__name__} itself sets, so that nothing would read yours; set "
            f"an option of {base.__name__}, override a hook ({hooks}), or use another name"
        )

    _check_behind(kind, ours)


def check_attributes(scheduler: Any) -> None:
    """Raise an InterfaceError if the object of a user's scheduler class has attributes of its own
    in place of hooks, other methods or attributes of a class of ours: nothing would call or read
    them.
    """
    kind = type(scheduler)
    if is_ours(kind):
        return
    ours = _first_of_ours(kind)
    for name in getattr(scheduler, "__dict__", ()):
        if name in ours.HOOKS:
            raise InterfaceError(
                f"{kind.__name__} sets self.{name}, but hooks are methods of the class, so that "
                f"nothing would call it; define a method {name} in {kind.__name__}"
            )

        for base in _ours_of(kind):
            if name in methods_in_source(base) or name in _hidden(base):
                raise InterfaceError(
                    f"{kind.__name__} sets self.{name}, which is {base.__name__}'s own, so that "
                    f"nothing would read it there; set an option of {base.__name__}, override a "
                    "hook, or use another name"
                )


def _ours_of(kind: type) -> list[type]:
    return [each for each in kind.__mro__ if is_ours(each)]


def _first_of_ours(kind: type) -> Any:
    """Return the class of ours that a user's class is made from."""
    return _ours_of(kind)[0]


def _check_behind(kind: type, ours: Any) -> None:
    """Raise an InterfaceError if a class has a hook in a base that comes behind ours, which has the
    same.
    """
    place = kind.__mro__.index(ours)
    before = {name for each in kind.__mro__[:place] for name in vars(each)}
    for each in kind.__mro__[place:]:
        if is_ours(each) or each is object:
            continue
        for name in vars(each):
            if name in ours.HOOKS and name not in before:
                raise InterfaceError(
                    f"{each.__name__}.{name} comes behind {ours.__name__}.{name} in "
                    f"{kind.__name__}, so that nothing would call it; name {each.__name__} before "
                    f"{ours.__name__}"
                )


def _overrides(kind: type) -> Iterator[tuple[str, type]]:
    """Yield the names that a user's class, or one of its own bases, takes from a class of ours,
    with that class.
    """
    classes = kind.__mro__
    for place, own in enumerate(classes):
        if own is object or is_ours(own):
            continue
        behind = [each for each in classes[place:] if is_ours(each)]
        names = [name for name in vars(own) if not name.startswith("__")]
        for name in names:
            bases = [each for each in behind if _defines(each, name)]
            bases += [each for each in behind if name in attributes_in_source(each)]
            if bases:
                yield name, bases[0]


def _defines(kind: type, name: str) -> bool:
    return name in vars(kind) or name in methods_in_source(kind)


@cache
def methods_in_source(kind: type) -> frozenset[str]:
    """Return the names of the methods that a class of this package defines, by its source.

    A compiled class does not list those that only C code can call.
    """
    return frozenset(_METHOD.findall(_source(kind)))


@cache
def attributes_in_source(kind: type) -> frozenset[str]:
    """Return the names of all that the methods of a class of this package set or read in their
    objects, by its source.
    """
    return frozenset(_ATTRIBUTE.findall(_TEXT.sub("", _source(kind))))


def _hidden(kind: type) -> frozenset[str]:
    """Return the attributes that a compiled class keeps where Python does not see them, and those
    that it shows; an uncompiled one keeps all as any object does.
    """
    is_compiled = not str(sys.modules[kind.__module__].__file__).endswith(".py")
    return attributes_in_source(kind) if is_compiled else frozenset()


def _source(kind: type) -> str:
    """Return the source of a class of this package."""
    module = sys.modules[kind.__module__]
    name = kind.__module__.rpartition(".")[2]
    source = Path(str(module.__file__)).parent / f"{name}.py"
    for found in _CLASS.finditer(source.read_text(encoding="utf-8")):
        if found[1] == kind.__name__:
            return found[0]
    return ""
