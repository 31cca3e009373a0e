"""What a kernel is compiled from: its code and everything that it uses, as one digest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, ModuleType
from typing import Any

import numpy as np

from qops_batsim.kernels.store import digest_of


def source_digest(function: Callable[..., Any]) -> str:
    """Return a digest of a kernel's code, of the kernels it calls, and of their constants.

    Comments, docstrings and annotations do not count.
    """
    return digest_of(*_parts_of_function(function, set()))


def _parts_of_function(function: Any, seen: set[int]) -> Iterator[str]:
    seen.add(id(function))
    yield function.__name__
    yield repr((function.__defaults__, function.__kwdefaults__))
    assert function.__closure__ is None, f"{function.__name__}: a kernel is no closure"
    yield from _parts_of_code(function.__code__, function, seen)


def _parts_of_code(code: CodeType, function: Any, seen: set[int]) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_varnames, code.co_names, code.co_argcount))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts_of_code(constant, function, seen)
        elif constant != function.__doc__:
            yield repr(constant)
    for name in code.co_names:
        if name in function.__globals__:
            yield name
            yield from _parts_of_value(function.__globals__[name], code, seen)


def _parts_of_value(value: Any, user: CodeType, seen: set[int]) -> Iterator[str]:
    """Yield what decides about the value of a global name, for numba a constant."""
    if isinstance(value, ModuleType):
        yield value.__name__
        for name in user.co_names:
            if isinstance(getattr(value, name, None), int | float | str):
                yield repr(getattr(value, name))
    elif hasattr(value, "python"):
        if id(value.python) not in seen:
            yield from _parts_of_function(value.python, seen)
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype!r} {value.shape} {value.tobytes().hex()}"
    elif isinstance(value, tuple):
        yield type(value).__qualname__
        for each in value:
            yield from _parts_of_value(each, user, seen)
    elif isinstance(value, type):
        yield f"{value.__module__}.{value.__qualname__} {getattr(value, '_fields', '')}"
    elif isinstance(value, int | float | str | np.generic | np.dtype | BuiltinFunctionType | None):
        yield repr(value)
    else:
        raise TypeError(f"a kernel uses {value!r}: numbers, arrays, classes, kernels are expected")
