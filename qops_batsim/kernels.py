"""Kernels: hot loops over arrays and named tuples of arrays, compiled by numba.

Importing a module of kernels does not import numba. Kernels run as Python until a process has
taken some time for that, or is about to: what is short never waits for a compiler. A compiled
kernel is kept for all later processes, in a directory whose name is a digest of all that it is
compiled from: what is found there is never stale.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from importlib.metadata import version
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar, overload

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

_PACKAGE = Path(__file__).resolve().parent

_PYTHON = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH

_UNUSED_AFTER = 30 * 24 * 3600.0
"""Directories of other environments are removed so long after their last kernel (seconds)."""

_LIGHT = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of what only other kernels call."""

LOADING = 0.3
"""So long may a process run kernels as Python that were compiled before (seconds of CPU)."""

COMPILING = 2.0
"""So long may a process run kernels as Python that would have to be compiled (seconds of CPU)."""

MANY = 20
"""A kernel that is compiled with fewer ones than so many may run less long as Python."""

PER_ELEMENT = 1.5e-5
"""Assumed time per element of the longest array that a kernel takes (seconds of CPU)."""

WAITING = 180.0
"""Longest that a process waits for another one that compiles the same kernel (seconds)."""

_interpreted_seconds = 0.0
"""Time in which this process has run kernels as Python (seconds of CPU)."""

_only_compiled = False

_listener: Callable[[str], None] | None = None

_unknown: list[Kernel] = []
"""Kernels that numba was not told of yet."""

_settings = threading.Lock()
"""Held while a setting of numba is changed."""


@overload
def kernel(function: Function) -> Function: ...


@overload
def kernel(*, allocates: bool) -> Callable[[Function], Function]: ...


def kernel(function: Any = None, *, allocates: bool = False) -> Any:
    """Return a function that is compiled when it is first called.

    It takes numbers, arrays and named tuples of these, and may call other kernels. One that
    makes arrays is declared with ``@kernel(allocates=True)``; the others count no references.
    """
    if function is None:
        return functools.partial(kernel, allocates=allocates)
    return function if _PYTHON else Kernel(function, allocates=allocates)


class Kernel:
    """A function that numba compiles when it is first called.

    Attributes
    ----------
    python
        The function itself.
    allocates
        Whether it makes arrays.
    """

    def __init__(self, function: Callable[..., Any], *, allocates: bool = False) -> None:
        functools.update_wrapper(self, function)
        self.python = function
        self.allocates = allocates
        self._dispatcher: Any = None
        _unknown.append(self)

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function, or the function itself as long as that is shorter."""
        is_first = self._dispatcher is None
        if is_first:
            if self._is_for_python(arguments):
                return self._call_python(arguments)
            self._dispatcher = self._new_dispatcher()
        try:
            if is_first:
                self._compile(arguments)
            return self._dispatcher(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever damaged files cause
            return self._repeated_call(arguments, error)

    def _is_for_python(self, arguments: tuple[Any, ...]) -> bool:
        """Return whether to run it as Python takes less time than to have it compiled."""
        if _only_compiled:
            return False
        seconds = _interpreted_seconds + PER_ELEMENT * _longest(arguments)
        share = 0.0 if self._is_kept else min(1.0, len(self._compiled_with) / MANY)
        return seconds < max(LOADING, share * COMPILING)

    def _call_python(self, arguments: tuple[Any, ...]) -> Any:
        """Call the function as Python, and count the time."""
        global _interpreted_seconds
        begin = time.thread_time()
        try:
            # Compiled kernels do not warn of infinite differences, or of words that overflow.
            with np.errstate(all="ignore"):
                return self._interpreted(*arguments)
        finally:
            _interpreted_seconds += time.thread_time() - begin

    @functools.cached_property
    def _is_kept(self) -> bool:
        """True if it was compiled before, for arguments of some types."""
        return any(self._files())

    @functools.cached_property
    def _called(self) -> dict[str, Kernel]:
        """The kernels that it calls, by the names that they have there."""
        named = {each: self.python.__globals__.get(each) for each in self.python.__code__.co_names}
        return {name: each for name, each in named.items() if isinstance(each, Kernel)}

    @functools.cached_property
    def _compiled_with(self) -> set[Kernel]:
        """The kernels that are compiled where it is."""
        return {self}.union(*(each._compiled_with for each in self._called.values()))

    @functools.cached_property
    def _interpreted(self) -> Callable[..., Any]:
        """The function as Python, as are the kernels that it calls."""
        function = self.python
        called = {name: each._interpreted for name, each in self._called.items()}
        scope = {**function.__globals__, **called}
        return FunctionType(function.__code__, scope, function.__name__, function.__defaults__)

    def _compile(self, arguments: tuple[Any, ...]) -> None:
        """Find it compiled for arguments or have it compiled, by one process at a time."""
        import numba

        try:
            types = tuple(map(numba.typeof, arguments))
        except ValueError:
            return  # The call says what is wrong.
        folder = directory(self.python.__module__)
        with nullcontext() if self._is_kept or folder is None else self._alone(folder):
            if folder is not None:
                self._find_elsewhere(Path(self._dispatcher.stats.cache_path))
            self._dispatcher.compile(types)

    def _find_elsewhere(self, own: Path) -> None:
        """Have numba find what another installation of the same source compiled.

        It looks only in a directory that is named by the path of the source.
        """
        for path in sorted(self._files(), key=lambda each: each.suffix):
            # The code (.nbc) is there before its index (.nbi); whoever writes makes a new file.
            with suppress(OSError):
                (own / path.name).hardlink_to(path)

    @contextmanager
    def _alone(self, folder: Path) -> Iterator[None]:
        """Wait until no other process compiles it; not for ever, nor where there are no locks."""
        with ExitStack() as stack:
            last = time.monotonic() + WAITING
            with suppress(OSError):
                path = folder / f"{self.python.__name__}.lock"
                handle = stack.enter_context(path.open("wb"))
                while not _is_locked(handle.fileno()) and time.monotonic() < last:
                    time.sleep(0.05)
            yield

    def _repeated_call(self, arguments: tuple[Any, ...], error: Exception) -> Any:
        """Call it again if what failed was to find it compiled or to keep it, not to run it."""
        import numba

        try:
            is_compiled = tuple(map(numba.typeof, arguments)) in self._dispatcher.signatures
        except ValueError:
            raise error from None
        is_unwritten = isinstance(error, OSError)
        if isinstance(error, numba.errors.NumbaError) or (is_compiled and not is_unwritten):
            raise error
        for path in self._files():
            with suppress(OSError):
                path.unlink()
        self._dispatcher = self._new_dispatcher(is_kept=not is_unwritten)
        return self._dispatcher(*arguments)

    def _files(self) -> Iterator[Path]:
        """Yield the files of it that numba keeps."""
        folder, code = directory(self.python.__module__), self.python.__code__
        name = f"*/*{self.python.__name__}-{code.co_firstlineno}.*.nb[ic]"
        return iter(()) if folder is None else folder.glob(name)

    def _new_dispatcher(self, is_kept: bool = True) -> Any:
        """Return what numba compiles it with."""
        import numba

        _hear_compiler()
        while _unknown:
            _unknown.pop()._introduce()
        dispatcher = numba.njit(nogil=True, no_cfunc_wrapper=True, _nrt=self.allocates)(self.python)
        folder = directory(self.python.__module__)
        if is_kept and folder is not None:
            with _settings:
                before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
                try:
                    dispatcher.enable_caching()
                finally:
                    numba.config.CACHE_DIR = before
        return dispatcher

    def _introduce(self) -> None:
        """Have numba compile it where another kernel calls it."""
        import numba

        function, options = self.python, {**_LIGHT, "_nrt": self.allocates}
        numba.extending.overload(self, jit_options=options, strict=False)(lambda *_: function)


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    """Tell a function the name of each kernel that has to be compiled in the block."""
    global _listener
    before = _listener

    def tell(name: str) -> None:
        listener(name)
        if before is not None:
            before(name)

    _listener = tell
    try:
        yield
    finally:
        _listener = before


@functools.cache
def _hear_compiler() -> None:
    """Have numba tell the listener what it compiles, but not what it compiles that for."""
    from numba.core import event

    class Compiler(event.Listener):  # type: ignore[misc]
        outermost = None

        def on_start(self, event: event.Event) -> None:
            compiled = event.data["dispatcher"]
            if self.outermost is None:
                self.outermost = compiled
                if _listener is not None:
                    _listener(compiled.py_func.__name__)

        def on_end(self, event: event.Event) -> None:
            if event.data["dispatcher"] is self.outermost:
                self.outermost = None

    event.register("numba:compile", Compiler())


@contextmanager
def compiling() -> Iterator[None]:
    """Run no kernel as Python in the block, however short it is."""
    global _only_compiled
    before, _only_compiled = _only_compiled, True
    try:
        yield
    finally:
        _only_compiled = before


def _is_locked(handle: int) -> bool:
    """Lock an open file, and return whether no other process has."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _longest(values: tuple[Any, ...]) -> int:
    """Return the greatest length of an array among arguments and in named tuples of them."""
    longest = 0
    for value in values:
        if isinstance(value, np.ndarray):
            longest = max(longest, *value.shape)
        elif isinstance(value, tuple):
            longest = max(longest, _longest(value))
    return longest


# Where compiled kernels are kept


def homes() -> tuple[Path, ...]:
    """Return where kernels may be kept, the best place first.

    That is ``NUMBA_CACHE_DIR`` if the user has set it; else beside the package, where every
    user of the installation finds them, and for who may not write there in the user's cache.
    """
    of_installation = f"qops-batsim-{_digest_of(_PACKAGE)}"
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return (Path(chosen) / of_installation,)
    beside = _PACKAGE / "__pycache__" / "kernels"
    try:
        own = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    except RuntimeError:
        # The user has no home.
        return (beside,)
    return beside, own / "qops-batsim" / "kernels" / of_installation


@functools.cache
def directory(module: str) -> Path | None:
    """Return the directory for the kernels of a module, or None if there can be none.

    What an older source left is removed when a directory is made. What somebody keeps who
    alone may write there is copied, since numba reads only where it may write. Machine code is run
    as it is found: where somebody else may have put it, it is not taken, and a warning says so.
    """
    name = f"{module}-{_digest_of(*_sources(module, set()))}"
    readable = None
    for home in map(_followed, homes()):
        folder = home / _environment() / name
        is_new = not folder.is_dir()
        try:
            _make_private(home, folder)
            is_private = _is_private(home, folder)
        except OSError:
            continue
        if not is_private:
            _warn_of_others(home)
            continue
        if not _may_write(folder):
            readable = readable or folder
            continue
        if is_new:
            _copy(readable, folder)
            _remove_older(home, folder, module)
        return folder
    if readable is None:
        return None
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _copy(readable, folder)
    return folder


def _followed(home: Path) -> Path:
    """Return where a symbolic link leads, if nobody else can have made it."""
    if home.is_symlink() and home.lstat().st_uid in _owners() and _is_kept_from_others(home):
        return home.resolve()
    return home


def _owners() -> set[int]:
    """Return whose files are trusted: this user's, root's, and those of whom the package is."""
    return {0, os.geteuid(), _PACKAGE.stat().st_uid}


def _is_kept_from_others(path: Path) -> bool:
    """Return whether only trusted users can replace a path or a directory above it."""
    above = [each.stat().st_mode for each in path.absolute().parents]
    return not any(mode & stat.S_IWOTH and not mode & stat.S_ISVTX for mode in above)


def _make_private(home: Path, folder: Path) -> None:
    """Make the directory of a module, which others cannot write whatever the umask."""
    for each in (home, folder.parent, folder):
        each.mkdir(parents=True, exist_ok=True)
        found = each.lstat()
        if found.st_uid != os.geteuid() or not found.st_mode & _BY_OTHERS:
            continue
        if each == folder:
            for inner in folder.iterdir():
                shutil.rmtree(inner) if inner.is_dir() else inner.unlink()
        # Within that of a module numba writes with the rights of the umask.
        each.chmod(0o700 if each == folder else stat.S_IMODE(found.st_mode) & ~_BY_OTHERS)


def _is_private(home: Path, folder: Path) -> bool:
    """Return whether only trusted users own and can write all that is in a directory."""
    owners = _owners()
    is_closed = not folder.lstat().st_mode & 0o077
    for each in (home, folder.parent, folder, *folder.rglob("*")):
        found = each.lstat()
        if found.st_uid not in owners or stat.S_ISLNK(found.st_mode):
            return False
        if found.st_mode & _BY_OTHERS and not (is_closed and folder in each.parents):
            return False
    return _is_kept_from_others(home.resolve())


@functools.cache
def _warn_of_others(home: Path) -> None:
    warnings.warn(
        f"{home}: others can write there, or have; compiled kernels are not taken from it, and "
        "not kept there",
        RuntimeWarning,
        stacklevel=2,
    )


def _may_write(folder: Path) -> bool:
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _copy(source: Path | None, folder: Path) -> None:
    if source is not None:
        with suppress(OSError):
            shutil.copytree(source, folder, dirs_exist_ok=True)


def _remove_older(home: Path, used: Path, module: str) -> None:
    """Remove what was compiled from older sources, and what is long unused."""
    with suppress(OSError):
        for folder in used.parent.glob(f"{module}-*"):
            if folder != used:
                shutil.rmtree(folder, ignore_errors=True)
        before = time.time() - _UNUSED_AFTER
        for folder in home.iterdir():
            if folder != used.parent and folder.stat().st_mtime < before:
                shutil.rmtree(folder, ignore_errors=True)


def _environment() -> str:
    """Return the name of what else decides about machine code."""
    settings = sorted(
        each for each in os.environ.items() if each[0].startswith("NUMBA_") and "DIR" not in each[0]
    )
    versions = version("numba"), version("llvmlite")
    parts = *versions, settings, Path(__file__).read_bytes()
    return f"{sys.implementation.cache_tag}-{_digest_of(*parts)}"


def _sources(module: str, seen: set[str]) -> Iterator[object]:
    """Yield what the kernels of a module are compiled from: its source, and all that it uses."""
    seen.add(module)
    content = vars(sys.modules[module])
    with suppress(KeyError, TypeError, OSError):
        yield Path(content["__file__"]).read_bytes()
    for name, value in sorted(content.items()):
        if name.startswith("__"):
            continue  # Where the file lies, and what stands in it.
        if isinstance(value, np.ndarray):
            yield name, value.dtype, value.shape, value.tobytes()
        elif isinstance(value, int | float | str | tuple | np.generic | np.dtype):
            yield name, value
        elif hasattr(value, "_fields"):
            yield name, value._fields
        # What else a module imports is not compiled.
        is_ours = isinstance(value, ModuleType) and value.__name__.startswith("qops_batsim.")
        if not (is_ours or isinstance(value, Kernel) or hasattr(value, "_fields")):
            continue
        used = value.__name__ if isinstance(value, ModuleType) else value.__module__
        # This module is a part of the environment, and its numbers change.
        if used in sys.modules and used not in seen and used != __name__:
            yield from _sources(used, seen)


def _digest_of(*parts: object) -> str:
    """Return a short digest of texts."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:20]
