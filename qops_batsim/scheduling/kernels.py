"""Compiling the hot loops.

Kernels are small numba functions over arrays. They are compiled once for each
machine and kept on disk; only the first run pays for it.
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
    try:
        compiled: Function = numba.njit(cache=True)(function)
    except RuntimeError:
        # Neither the package's directory nor the user's cache can be written.
        compiled = numba.njit(function)
    return compiled
