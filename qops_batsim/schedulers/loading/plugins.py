"""Schedulers from files: loading them, and locating their errors.

Who gives ``FILE.py:CLASS`` to a command or a function has that file run. A file of data that names
one does not (:func:`scheduler_of_data`).

Registered schedulers of other packages are found by :mod:`qops_batsim.schedulers.registry`;
both kinds are remembered here, so that an error can be shown with the frames of the
plug-in's own code alone.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from qops_batsim.code_record import CodeRecord
from qops_batsim.errors import (
    InputError,
    InterfaceError,
    did_you_mean,
)
from qops_batsim.files import read_stored

if TYPE_CHECKING:
    from qops_batsim.schedulers.loading.code_loading import LoadedCode

_OURS = __name__.partition(".")[0]

_FRAME = re.compile(r'^  File "([^"]+)", line .*\n(?:    .*\n)*', re.MULTILINE)

AllowedCode = bool | Sequence[str | Path]
"""Which files may be run though only data name them: these, or any (True)."""

_homes: set[str] = set()
_files: dict[Path, LoadedCode] = {}
_of_packages: dict[str, LoadedCode] = {}


def is_in_file(scheduler: str) -> bool:
    """Return whether a scheduler is given as ``FILE.py:CLASS`` rather than by a registered name."""
    path, _, name = scheduler.rpartition(":")
    return (path or name).endswith(".py")


def run_prefix(out: str | PathLike[str] | None, scheduler: str) -> str:
    """Return the prefix of a run's files: ``out`` itself, or after a folder (``out/``) the
    scheduler's name.
    """
    prefix = str(out or "out/")
    return prefix + short_name(scheduler) if prefix.endswith("/") else prefix


def short_name(scheduler: str) -> str:
    """Return a scheduler's name for files and tables: of ``FILE.py:CLASS`` only the class."""
    return scheduler.rpartition(":")[2] if is_in_file(scheduler) else scheduler


def object_in_file(scheduler: str) -> object:
    """Run the Python file of ``FILE.py:CLASS`` and return the class; run it again only if it, or a
    module of the user's that it imports, has changed.
    """
    text, _, name = scheduler.rpartition(":")
    path = Path(text or name)
    _check_readable(scheduler, path)
    known = _files.get(path.resolve())
    if known is None or not known.is_current():
        known = _files[path.resolve()] = _run_file(scheduler, path)
    module = known.module
    if not text or not hasattr(module, name):
        classes = [
            each.__name__
            for each in vars(module).values()
            if isinstance(each, type) and each.__module__ == module.__name__
        ]
        found = did_you_mean(name, classes) if text else f" (known: {', '.join(classes)})"
        raise InputError(
            f"scheduler {scheduler!r}: {path} has no such class; a class of that file is "
            f"expected{found}"
        )

    found_object: object = getattr(module, name)
    return found_object


def scheduler_of_data(scheduler: str, code: AllowedCode, *, sha256: str | None = None) -> str:
    """Return a scheduler named in a data file, if its Python file may be run; else an InputError.

    A registered name is returned as it is. The file of ``FILE.py:CLASS`` may be run if the user
    names it, wherever it lies now, or if this process has run it at the user's wish before.
    Nothing is run here.

    Parameters
    ----------
    code
        The files that the user names, or True for any.
    sha256
        The digest that the file has to have, if it is known.
    """
    named = [] if isinstance(code, bool) else [Path(each) for each in code]
    if not is_in_file(scheduler):
        return scheduler
    text, _, name = scheduler.rpartition(":")
    told = Path(text or name)
    alike = [each for each in named if each.name == told.name]
    path = told if told in alike or not alike else alike[0]
    is_allowed = code is True or path in named
    before = _loaded(path)
    if not (is_allowed or before):
        raise InputError(
            f"scheduler {scheduler!r} is a Python file named in the data, which is not run without "
            f"your consent; if you trust it, give --code {told} (in Python code=[...])"
        )

    _check_readable(scheduler, path)
    digest = read_stored(path, what="a Python file with a scheduler").sha256
    if digest != (sha256 or digest) or not (is_allowed or digest == before):
        raise InputError(
            f"scheduler {scheduler!r}: its file has changed since the run, so its decisions may "
            "differ; restore the file as it was then, or run the simulation again"
        )

    return f"{path}:{name}" if text else str(path)


def _loaded(path: Path) -> str | None:
    """Return the SHA-256 of a Python file that this process has run, None if it has not."""
    try:
        known = _files.get(path.resolve())
    except (OSError, ValueError, RuntimeError):
        return None
    return None if known is None or known.main is None else known.main.sha256


def is_loaded(scheduler: str) -> bool:
    """Return whether this process has already run the Python file of ``FILE.py:CLASS``."""
    text, _, name = scheduler.rpartition(":")
    return _loaded(Path(text or name)) is not None


def digest_of_file(scheduler: str) -> str | None:
    """Return the SHA-256 of a scheduler's Python file as it was run; None for a registered name."""
    text, _, name = scheduler.rpartition(":")
    return _loaded(Path(text or name)) if is_in_file(scheduler) else None


def code_of(scheduler: str) -> CodeRecord | None:
    """Return what a scheduler's code consists of, as it was loaded; None for one of this package.

    ``scheduler`` is ``FILE.py:CLASS`` or the ``MODULE:CLASS`` of a registered one.
    """
    text, _, name = scheduler.rpartition(":")
    if is_in_file(scheduler):
        known = _files.get(Path(text or name).resolve())
    else:
        known = _of_packages.get(scheduler)
    return None if known is None else known.record


def object_of_package(value: str, distribution: str) -> object:
    """Import the ``MODULE:NAME`` of an entry point and return the object.

    Modules of its distribution, and of users, are imported again if one has changed.
    """
    from qops_batsim.schedulers.loading.code_loading import load_code

    name, _, attribute = value.partition(":")
    known = _of_packages.get(value)
    if known is None or not known.is_current():
        known = load_code(lambda: import_module(name), own=distribution)
        _of_packages[value] = known
    found: object = known.module
    for each in attribute.split("."):
        found = getattr(found, each)
    return found


def _check_readable(scheduler: str, path: Path) -> None:
    """Raise an InputError if a scheduler's Python file is missing."""
    try:
        path.stat()
    except OSError as error:
        raise InputError(
            f"scheduler {scheduler!r}: {path} cannot be read: {error.strerror or error}"
        ) from None
    except ValueError as error:
        raise InputError(f"scheduler {scheduler!r}: {error}; FILE.py:CLASS is expected") from None


def _run_file(scheduler: str, path: Path) -> LoadedCode:
    from qops_batsim.schedulers.loading.code_loading import RunFile, load_code

    # The path in the name keeps files of equal names, and modules of Python, apart.
    spec = spec_from_file_location(f"{path.stem} of {path.resolve().parent}", path)
    if spec is None or spec.origin is None:
        raise InputError(
            f"scheduler {scheduler!r}: {path} is no Python file; FILE.py:CLASS is expected"
        )

    content, digest = read_stored(path, what="a Python file with a scheduler")
    module = module_from_spec(spec)
    before = sys.modules.get(module.__name__)
    _homes.add(str(path.absolute()))

    def run() -> ModuleType:
        # What evaluates annotations looks for the module here.
        sys.modules[module.__name__] = module
        exec(compile(content, str(spec.origin), "exec"), vars(module))
        return module

    main = RunFile(str(path.absolute()), digest, content)
    try:
        return load_code(run, main=main, folder=str(path.resolve().parent))
    except Exception as error:
        sys.modules.pop(module.__name__, None)
        if before is not None:
            sys.modules[module.__name__] = before
        if isinstance(error, InterfaceError):
            raise InterfaceError(f"scheduler {scheduler!r}: {error}") from error
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"scheduler {scheduler!r}: {path} cannot be loaded ({type(error).__name__}: {error})"
        ) from error


def remember(plugin: Callable[..., object]) -> None:
    """Remember which Python file a user's scheduler or function comes from, for
    :func:`frames_of_plugins`.
    """
    top = str(getattr(plugin, "__module__", "")).partition(".")[0]
    module = sys.modules.get(top)
    if top == _OURS or module is None:
        return
    _homes.update(f"{folder}/" for folder in getattr(module, "__path__", ()))
    file = getattr(module, "__file__", None)
    if file is not None:
        _homes.add(file)


def frames_of_plugins(error: BaseException | None) -> list[str]:
    """Return the lines of an error's traceback that lie in users' own Python files.

    They are formatted as in a traceback, outermost first. Errors of worker processes come as a
    text, in which they are searched.
    """
    frames: list[str] = []
    for each in _chain(error):
        stack = traceback.extract_tb(each.__traceback__)
        own = traceback.format_list([frame for frame in stack if _is_foreign(frame.filename)])
        if type(each).__name__ == "_RemoteTraceback":
            own += [found[0] for found in _FRAME.finditer(str(each)) if _is_foreign(found[1])]
        frames = own + frames
    return frames


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _is_foreign(file: str) -> bool:
    return any(file.startswith(home) if home.endswith("/") else file == home for home in _homes)
