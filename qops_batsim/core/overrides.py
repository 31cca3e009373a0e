"""Which names of our scheduler classes a subclass may define again: an override that nothing calls
is an error.

A compiled class calls most of its methods as C functions, which no subclass in Python can replace.
What a subclass may override are the hooks (``HOOKS``), which are called through Python wherever
they are overridden, and the attributes by which a class describes itself (``DESCRIPTION``).
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
    for name, base in _overrides(kind):
        if name in kind.HOOKS or name in kind.DESCRIPTION:
            continue
        hooks = ", ".join(sorted(kind.HOOKS))
        raise InterfaceError(
            f"{kind.__name__}.{name} overrides {base.__name__}.{name}, which is no hook, so that "
            f"nothing would call it; override a hook ({hooks}), or give your method another name"
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
            for base in behind:
                if name in vars(base) or name in methods_in_source(base):
                    yield name, base
                    break


@cache
def methods_in_source(kind: type) -> frozenset[str]:
    """Return the names of the methods that a class of this package defines, by its source.

    A compiled class does not list those that only C code can call.
    """
    module = sys.modules[kind.__module__]
    name = kind.__module__.rpartition(".")[2]
    source = Path(str(module.__file__)).parent / f"{name}.py"
    for found in _CLASS.finditer(source.read_text(encoding="utf-8")):
        if found[1] == kind.__name__:
            return frozenset(_METHOD.findall(found[0]))
    return frozenset()
