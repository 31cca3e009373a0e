"""A kernel: a function that is compiled when it is first called, or found compiled."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, TypeVar, cast

from qops_batsim.kernels import store
from qops_batsim.kernels.calling import Kind, kind_of, load, text_of
from qops_batsim.kernels.source import source_digest
from qops_batsim.kernels.store import digest_of

Function = TypeVar("Function", bound=Callable[..., Any])

_PYTHON = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

_listener: Callable[[str], None] | None = None


def lean_kernel(function: Function) -> Function:
    """Compile a function when it is first called, and keep the result.

    It takes numbers, contiguous arrays and named tuples of these, and returns numbers, as
    annotated; it makes no array. Where nothing can be kept, it is compiled anew in each process.
    """
    return function if _PYTHON else cast(Function, Kernel(function, lean=True))


def kernel(function: Function) -> Function:
    """As :func:`lean_kernel`, for a function that makes arrays or returns them.

    It needs numba's runtime, and with it numba, in every process.
    """
    return function if _PYTHON else cast(Function, Kernel(function, lean=False))


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    """Have a function told the name of each kernel that has to be compiled in the block."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


class Kernel:
    """A function that is compiled for the kinds of its arguments when it is first called.

    Attributes
    ----------
    python
        The function itself.
    """

    def __init__(self, function: Callable[..., Any], *, lean: bool) -> None:
        functools.update_wrapper(self, function)
        self.python = function
        self.lean = lean
        self._entries: dict[tuple[Kind, ...], Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Call the machine code; what is not compiled yet is compiled now."""
        return self.entry_for(arguments)(*arguments) if self.lean else self.dispatcher(*arguments)

    def entry_for(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """Return what calls the machine code for arguments of the kinds of these."""
        if not self.lean:
            types = tuple(map(self._compiler().numba.typeof, arguments))
            self.dispatcher.compile(types)
            found: Callable[..., Any] = self.dispatcher.get_overload(types)
            return found
        kinds = tuple(map(kind_of, arguments))
        entry = self._entries.get(kinds)
        if entry is None:
            entry = self._entries[kinds] = self._load(kinds)
        return entry

    @functools.cached_property
    def dispatcher(self) -> Any:
        """What numba compiles it with."""
        dispatcher = self._compiler().dispatcher_of(self.python, lean=self.lean)
        if not self.lean:
            dispatcher._cache = self._compiler().NumbaCache(self.file_name, self._note)
        return dispatcher

    def file_name(self, types: str) -> str:
        """Return the name of what is kept of it for such arguments: kernel, types, source."""
        name = f"{self.python.__module__}.{self.python.__name__}"
        return f"{name}-{digest_of(types)}-{self._source}"

    @functools.cached_property
    def _source(self) -> str:
        return source_digest(self.python)

    def _load(self, kinds: tuple[Kind, ...]) -> Callable[..., Any]:
        """Load the machine code, compiled if need be."""
        name = self.file_name(", ".join(text_of(each) for each in kinds))
        symbol = f"{self.python.__name__}_{digest_of(name)}"
        code = store.read(f"{name}.o")
        if code is None:
            self._note()
            try:
                code = self._compiler().machine_code_of(self, kinds, symbol)
            except (ImportError, AttributeError, TypeError) as error:
                # Parts of numba are used here that another version may not have.
                from qops_batsim.kernels.unkept import left_to_numba

                return left_to_numba(self.python, Kernel, error)
            store.write(f"{name}.o", code)
        return load(symbol, code)

    def _note(self) -> None:
        if _listener is not None:
            _listener(self.python.__name__)

    def _compiler(self) -> Any:
        """Return the module that compiles; it imports numba."""
        from qops_batsim.kernels import compiling

        compiling.introduce(Kernel)
        return compiling


@functools.cache
def interpreted(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel, and those that it calls, as Python: for so little that loading costs more.

    >>> @lean_kernel
    ... def doubled(value: int) -> int:
    ...     return 2 * value
    >>> interpreted(doubled)(4)
    8
    """
    if not isinstance(compiled, Kernel):
        return compiled
    function = compiled.python
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        if isinstance(scope.get(name), Kernel):
            scope[name] = interpreted(scope[name])
    return FunctionType(function.__code__, scope, function.__name__, function.__defaults__)


class Steady:
    """A kernel whose arguments are of the same kinds at every call: they are looked at once."""

    def __init__(self, compiled: Callable[..., Any]) -> None:
        self._kernel = compiled
        self._entry: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the kernel; the first arguments settle the kinds."""
        if self._entry is None:
            kernel: Any = self._kernel
            self._entry = kernel.entry_for(arguments) if isinstance(kernel, Kernel) else kernel
        return self._entry(*arguments)
