"""Compiling the hot loops.

Kernels are small numba functions over arrays and named tuples of arrays. They are
compiled once for each machine and kept on disk; only the first run pays for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function with numba when it is first called, and keep the result on disk.

    Where no directory for the compiled code can be written, it is compiled anew
    in each process.
    """
    return _compiled(function)


def lean_kernel(function: Function) -> Function:
    """As :func:`kernel`, for a function that makes no array and returns none.

    It borrows its arrays instead of counting references to them, which would take a third
    of the time of a reservation in a profile.
    """
    return _compiled(function, _nrt=False)


def _compiled(function: Function, **options: Any) -> Function:
    try:
        compiled: Function = numba.njit(cache=True, **options)(function)
    except RuntimeError:
        # Neither the package's directory nor the user's cache can be written.
        compiled = numba.njit(**options)(function)
    return compiled


class Steady:
    """A kernel whose arguments have the same types at every call: they are looked at once.

    Numba else looks at every array of every named tuple each time, which takes 9 µs for
    four of them, where the call itself takes 2.
    """

    def __init__(self, compiled: Callable[..., Any]) -> None:
        self._kernel: Any = compiled
        self._entry: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the kernel; the first arguments settle the types."""
        if self._entry is None:
            types = tuple(numba.typeof(each) for each in arguments)
            self._kernel.compile(types)
            self._entry = self._kernel.get_overload(types)
        return self._entry(*arguments)
