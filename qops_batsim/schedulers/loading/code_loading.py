"""Loading the code of schedulers such that it is known what was run.

What a scheduler does is told by its module, by the users' modules that this imports, at any depth,
and by the versions of installed distributions. So a scheduler is loaded with all modules of users
set aside: its imports run their files as these are now, and each file is digested as it is run.
Python's own ways do not tell: a module that is loaded already is not run again after a change, and
neither is one whose compiled file has the source's date in whole seconds and its size.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.abc import SourceLoader
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    ExtensionFileLoader,
    ModuleSpec,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from qops_batsim.code_record import CodeRecord
from qops_batsim.errors import InputError
from qops_batsim.schedulers.loading.distributions import (
    distribution_of,
    find_module,
    installed_at,
    is_standard,
    version_of,
    versions_of,
)
from qops_batsim.schedulers.loading.imports_in_code import imports_in

_OURS = __name__.partition(".")[0]

_PROGRAM = ("__main__", "__mp_main__")
"""The program that runs: it cannot be loaded afresh."""


@dataclass(frozen=True)
class RunFile:
    """A file of Python code that was run as a module: its digest (SHA-256), and its text if it is
    a source.
    """

    path: str
    sha256: str
    text: bytes = b""
    package: str = ""


@dataclass
class LoadedCode:
    """A module with its imports, as they were run.

    Attributes
    ----------
    module
        The module.
    files
        The users' files that were run, by the names of their modules.
    own
        Name of the distribution whose own modules count as users' files, "" if there is none.
    record
        What is written down of it.
    main
        The file of a scheduler that was run by its path, None if the module was imported.
    """

    module: ModuleType
    files: dict[str, RunFile]
    own: str
    record: CodeRecord
    main: RunFile | None = None
    _places: dict[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._places = {name: _place(name) for name in self.files}

    def is_current(self) -> bool:
        """Return whether a new load would run the same code.

        Raises
        ------
        InputError
            If a distribution has another version now: its modules cannot be loaded again.
        """
        for name, file in self.files.items():
            if _digest(file.path) != file.sha256 or _place(name) != self._places[name]:
                return False

        for name, version in self.record.packages.items():
            now = version_of(name)
            if now != version and name == self.own:
                return False
            if now != version:
                raise InputError(
                    f"package {name} had version {version} when it was loaded, and has "
                    f"{now or 'none'} now; run this in a new Python process"
                )

        return True


def _digest(path: str) -> str | None:
    try:
        with open(path, "rb") as stream:
            return sha256(stream.read()).hexdigest()
    except OSError:
        return None


def _place(name: str) -> str | None:
    """Return the file that an import of this name would run, None if that is not known."""
    if not all(part.isidentifier() for part in name.split(".")):
        return None
    spec = find_module(name)
    return None if spec is None else spec.origin


def load_code(
    load: Callable[[], ModuleType],
    *,
    main: RunFile | None = None,
    folder: str | None = None,
    own: str = "",
) -> LoadedCode:
    """Load a module with the users' modules that it imports, all afresh.

    Parameters
    ----------
    load
        Imports the module, or runs its file, and returns it.
    main
        The file that ``load`` runs, if it imports nothing.
    folder
        Where modules are looked for after all other places; those of other schedulers' files are
        left out.
    own
        Name of the distribution that the module is from, whose files are looked at as a user's are.
    """
    watch = _Watch(own)
    with _set_aside(own), _searched(folder), watch.watching():
        before = {*sys.modules}
        module = load()
        before.add(module.__name__)
        if main is not None:
            for each in _watches:
                each.files[os.path.basename(main.path)] = main
        watch.add_others(sys.modules.keys() - before)
        for name, file in watch.files.items():
            loaded = sys.modules.get(name)
            spec = _spec(loaded) if isinstance(loaded, ModuleType) else None
            if spec is not None:
                _first_seen[id(spec)] = spec, file.sha256
        record = watch.record()

    return LoadedCode(module, watch.files, own, record, main)


def code_of_class(kind: type, own: str = "") -> CodeRecord:
    """Return what a class consists of: its module, with the users' modules that this imports;
    ``own`` as for :func:`load_code`.

    Raises
    ------
    InputError
        If one of the files has changed since it was seen here first, or the module was loaded again
        since the class was made.
    """
    watch = _Watch(own)
    name = kind.__module__
    module = sys.modules.get(name)
    if module is not None and name not in _PROGRAM:
        if getattr(module, kind.__qualname__, kind) is not kind:
            raise InputError(
                f"class {kind.__qualname__}: its module {name} was loaded again since it was "
                "imported; import the class again"
            )
        watch.add_loaded(name, module)
    return watch.record()


def is_of_user(name: str, file: str, own: str = "") -> bool:
    """Return whether a module is neither ours, nor Python's, nor of an installed distribution.

    One that was installed from a folder counts as the user's, and so does the distribution ``own``.
    """
    if name.partition(".")[0] == _OURS or name in _PROGRAM or is_standard(file):
        return False
    found, is_certain = installed_at(file)
    if found is None or not is_certain:
        return True
    return found.is_local or found.name == own


class _Watch:
    """Notes the users' files that are run while a module is loaded."""

    def __init__(self, own: str) -> None:
        self.own = own
        self.files: dict[str, RunFile] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Have users' files run from their text as it is now, and note each."""
        _watches.append(self)
        # Not a finder: loaders are also made without one, as by spec_from_file_location.
        SourceFileLoader.get_code = _code_of_now  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            _watches.remove(self)
            if not _watches:
                del SourceFileLoader.get_code

    def add_others(self, names: set[str]) -> None:
        """Note users' modules with these names that were loaded, but not from a source."""
        for name in sorted(names - self.files.keys()):
            module = sys.modules.get(name)
            if isinstance(module, ModuleType):
                self.add_loaded(name, module)

    def add_loaded(self, name: str, module: ModuleType) -> None:
        """Note a loaded module that this load has not run, if it is a user's, with its imports."""
        spec = _spec(module)
        path = None if spec is None else _file_of(spec)
        if spec is None or path is None or name in self.files:
            return
        if not is_of_user(name, path, self.own):
            return
        digest = _unchanged(name, spec, path)
        text = b""
        if path.endswith(".py"):
            with open(path, "rb") as stream:
                text = stream.read()

        package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
        self.files[name] = RunFile(path, digest, text, package)
        self._add_imports(self.files[name])

    def _add_imports(self, file: RunFile) -> list[str]:
        """Note users' modules that a file imports and that were loaded before; return all its
        imports.
        """
        found = imports_in(file.text, file.package)
        for name in dict.fromkeys(found.now):
            module = sys.modules.get(name)
            if name not in self.files and isinstance(module, ModuleType):
                self.add_loaded(name, module)
        return found.now

    def record(self) -> CodeRecord:
        """Return what was run, with the distributions that it imports, and later imports."""
        imported: set[str] = set()
        for file in list(self.files.values()):
            imported.update(self._add_imports(file))
        self._add_whole_packages()
        later: list[str] = []
        for name, file in self.files.items():
            for each in imports_in(file.text, file.package).later:
                imported.update(each.names)
                if self._is_unseen(each.names):
                    later.append(f"{name}, line {each.line}: {each.text}")

        distributions = {self.own} if self.own else set()
        for name in imported:
            if name not in self.files and name.partition(".")[0] != _OURS:
                found = distribution_of(name)
                if found is not None:
                    distributions.add(found.name)

        return CodeRecord(
            modules={name: self.files[name].sha256 for name in sorted(self.files)},
            packages=versions_of(distributions),
            not_covered=tuple(sorted(later)),
        )

    def _add_whole_packages(self) -> None:
        """Note packages with compiled modules with all their files: Python loads these but once,
        and which of them it has depends on what was loaded before.
        """
        compiled = tuple(EXTENSION_SUFFIXES)
        outer = {
            name.partition(".")[0] for name, x in self.files.items() if x.path.endswith(compiled)
        }
        for package in sorted(outer):
            spec = find_module(package)
            folders = [] if spec is None else spec.submodule_search_locations or []
            if not folders:
                continue
            for name in [each for each in self.files if each.partition(".")[0] == package]:
                del self.files[name]
            for folder in map(Path, folders):
                for path in sorted(folder.rglob("*")):
                    if path.name.endswith((".py", *compiled)):
                        told = f"{package}/{path.relative_to(folder).as_posix()}"
                        self.files[told] = RunFile(str(path), _unchanged(told, told, str(path)))

    def _is_unseen(self, names: Sequence[str]) -> bool:
        """Return whether a later import loads a user's module that was not run yet."""
        for number, name in enumerate(names):
            outer = name.partition(".")[0]
            if name in self.files or outer == _OURS or self._is_whole(outer):
                continue
            spec = find_module(name)
            if spec is None:
                # After the first they may be classes and functions of that module.
                if number == 0:
                    return True
                continue

            file = _file_of(spec)
            if file is not None and is_of_user(name, file, self.own):
                return True

        return not names

    def _is_whole(self, package: str) -> bool:
        """Return whether all files of a package are noted."""
        return any(name.startswith(f"{package}/") for name in self.files)


_watches: list[_Watch] = []
"""Of loads that go on; a module may load a scheduler's file itself."""


def _code_of_now(loader: SourceFileLoader, fullname: str) -> CodeType | None:
    """Return a module's code: of a user's file from its text as it is now, which is noted."""
    path = os.path.abspath(loader.path)
    watches = [each for each in _watches if is_of_user(fullname, path, each.own)]
    if not watches:
        return SourceLoader.get_code(loader, fullname)
    content = loader.get_data(path)
    is_package = os.path.basename(path) == "__init__.py"
    package = fullname if is_package else fullname.rpartition(".")[0]
    for each in watches:
        each.files[fullname] = RunFile(path, sha256(content).hexdigest(), content, package)
    code: CodeType = loader.source_to_code(content, path)
    return code


def _spec(module: ModuleType) -> ModuleSpec | None:
    # Modules that load themselves on first use do so for any other access.
    spec = object.__getattribute__(module, "__dict__").get("__spec__")
    return spec if isinstance(spec, ModuleSpec) else None


def _file_of(spec: ModuleSpec) -> str | None:
    """Return the file that holds a module, None if there is none."""
    for path in (spec.origin, getattr(spec.loader, "archive", None)):
        if path is not None and os.path.isfile(path):
            return os.fspath(path)
    return None


_first_seen: dict[int | str, tuple[object, str]] = {}


def _unchanged(name: str, spec: ModuleSpec | str, path: str) -> str:
    """Return the digest of a loaded module's file; InputError if it has changed since it was seen
    first.
    """
    now = _digest(path) or ""
    # A module that is loaded again has another spec, which is kept, so that its number is its own.
    key = path if isinstance(spec, str) else id(spec)
    _, before = _first_seen.setdefault(key, (spec, now))
    if now != before:
        raise InputError(
            f"{path}: has changed since Python imported it as {name}, which it does but once; run "
            "this in a new Python process"
        )
    return now


@contextmanager
def _set_aside(own: str) -> Iterator[None]:
    """Take users' modules out of ``sys.modules``; at the end those return that were not loaded
    again, after an error all.
    """
    aside = _users_modules(own)
    attributes: list[tuple[ModuleType, str, Any]] = []
    for name in aside:
        del sys.modules[name]
    for name in aside:
        outer, _, last = name.rpartition(".")
        package = sys.modules.get(outer)
        # ``from package import module`` looks there first.
        if isinstance(package, ModuleType) and last in vars(package):
            attributes.append((package, last, vars(package).pop(last)))

    before = {*sys.modules}
    try:
        yield
    except BaseException:
        for name in _users_modules(own).keys() - before:
            del sys.modules[name]
        sys.modules.update(aside)
        for package, last, module in attributes:
            setattr(package, last, module)
        raise

    for name, module in aside.items():
        sys.modules.setdefault(name, module)
    for package, last, module in attributes:
        vars(package).setdefault(last, module)


def _users_modules(own: str) -> dict[str, ModuleType]:
    """Return the loaded modules of users that can be loaded afresh."""
    found: dict[str, ModuleType] = {}
    compiled: set[str] = set()
    for name, module in [*sys.modules.items()]:
        outer = name.partition(".")[0]
        if outer == _OURS or not isinstance(module, ModuleType):
            continue
        spec = _spec(module)
        if spec is None or spec.origin is None or not is_of_user(name, spec.origin, own):
            continue
        if isinstance(spec.loader, ExtensionFileLoader):
            # Most compiled modules cannot be loaded twice, and neither what holds on to them.
            compiled.add(outer)
        elif type(spec.loader) is SourceFileLoader:
            found[name] = module

    return {name: each for name, each in found.items() if name.partition(".")[0] not in compiled}


_folders: list[str] = []
"""Folders of schedulers' files, which were added to the end of ``sys.path``."""


@contextmanager
def _searched(folder: str | None) -> Iterator[None]:
    """Have modules looked for in this folder last, and in no other of a scheduler's file."""
    before = [*sys.path]
    sys.path[:] = [each for each in before if each not in _folders]
    if folder is not None and folder not in sys.path:
        if folder not in _folders:
            _folders.append(folder)
        sys.path.append(folder)
    try:
        yield
    finally:
        # What functions import later is looked for in all of them.
        sys.path += [each for each in before if each not in sys.path]
