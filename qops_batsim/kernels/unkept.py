"""Kernels left to numba, where its inside is not what :mod:`~qops_batsim.kernels.compiling` knows.

They give the same results, but every process imports numba and compiles them anew.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numba
from numba.extending import typeof_impl


@cache
def dispatcher_of(function: Callable[..., Any]) -> Any:
    return numba.njit(function)


def left_to_numba(
    function: Callable[..., Any], kernels: type, error: Exception
) -> Callable[..., Any]:
    """Return what compiles a kernel when it is called.

    ``kernels`` is the class of what it calls, whose ``python`` is compiled; the error, which
    tells what is missing, is warned of.
    """
    warnings.warn(
        f"numba {numba.__version__} is not supported ({error}): compiled code cannot be kept, "
        "so every command compiles it anew",
        RuntimeWarning,
        stacklevel=2,
    )
    typeof_impl.register(kernels)(
        lambda value, context: numba.types.Dispatcher(dispatcher_of(value.python))
    )
    compiled: Callable[..., Any] = dispatcher_of(function)
    return compiled
