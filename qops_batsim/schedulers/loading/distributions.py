"""Installed distributions: which one a module belongs to, and what it requires."""

from __future__ import annotations

import json
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache, cached_property
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_SITES = ("site-packages", "dist-packages")
_INFO = (".dist-info", ".egg-info")
OURS = "qops-batsim"
"""Our own distribution, whose version is known by itself."""

_REQUIRED = re.compile(r"[\w.-]+")


def normal_name(name: str) -> str:
    """Return a distribution's name as names are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


class Installed:
    """A distribution in a folder of ``sys.path``."""

    def __init__(self, info: Path) -> None:
        from importlib.metadata import Distribution

        self._info = info
        self._found = Distribution.at(info)

    @cached_property
    def name(self) -> str:
        """Its normal name."""
        told = _field(self._found, "Name")
        return normal_name(told or self._info.name.partition("-")[0])

    @cached_property
    def files(self) -> frozenset[str] | None:
        """Its files, relative to the folder; None if it does not list them."""
        text = self._found.read_text("RECORD")
        return None if text is None else frozenset(line.split(",")[0] for line in text.split("\n"))

    @cached_property
    def modules(self) -> set[str]:
        """The names of its modules outside of packages, and of its outermost packages."""
        told = self._found.read_text("top_level.txt")
        if told is not None:
            return set(told.split())
        if self.files is not None:
            return {each.partition("/")[0].partition(".")[0] for each in self.files}
        return {normal_name(self._info.name.partition("-")[0]).replace("-", "_")}

    @cached_property
    def is_local(self) -> bool:
        """Whether it was installed from a folder, whose content its version does not tell."""
        try:
            told = json.loads(self._found.read_text("direct_url.json") or "{}")
        except ValueError:
            return True
        return "url" in told

    def lists(self, file: str) -> bool:
        """Return whether a file, relative to the folder, certainly belongs to it.

        A folder with sources may hold metadata as well, which list no files.
        """
        if self.files is not None:
            return file in self.files
        return self._info.parent.name in _SITES


def _field(found: Distribution, name: str) -> str:
    """Return a field of a distribution's metadata, "" if it has none."""
    for file in ("METADATA", "PKG-INFO"):
        match = re.search(rf"^{name}: *(.*)$", found.read_text(file) or "", re.MULTILINE)
        if match is not None:
            return match[1].strip()
    return ""


def _in_folder(folder: str) -> dict[str, list[Installed]]:
    """Return the distributions in a folder by the names of their outermost modules."""
    try:
        changed = os.stat(folder).st_mtime_ns
    except (OSError, ValueError):
        return {}
    return _known(folder, changed)


@cache
def _known(folder: str, changed: int) -> dict[str, list[Installed]]:
    found: dict[str, list[Installed]] = {}
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return {}
    for name in names:
        if name.endswith(_INFO):
            each = Installed(Path(folder, name))
            for module in each.modules:
                found.setdefault(module, []).append(each)
    return found


def installed_at(file: str) -> tuple[Installed | None, bool]:
    """Return the distribution that a module's file belongs to, and whether that is certain."""
    for folder in _folders_of(file):
        relative = os.path.relpath(file, folder)
        module = relative.partition(os.sep)[0].partition(".")[0]
        candidates = _in_folder(folder).get(module, [])
        for each in candidates:
            if each.lists(relative.replace(os.sep, "/")):
                return each, True
        if candidates:
            return candidates[0], False
    return None, False


@cache
def _searched_folders(path: tuple[str, ...], here: str) -> set[str]:
    return {os.path.join(here, each) if each else here for each in path}


def _folders_of(file: str) -> Iterator[str]:
    folders = _searched_folders(tuple(sys.path), os.getcwd())
    folder = os.path.dirname(os.path.abspath(file))
    while True:
        if folder in folders:
            yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


@cache
def _standard() -> tuple[str, ...]:
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    return tuple(f"{place}{os.sep}" for place in places)


def is_standard(file: str) -> bool:
    """Return whether a module's file belongs to Python's standard library."""
    for place in _standard():
        if file.startswith(place):
            return file[len(place) :].partition(os.sep)[0] not in _SITES
    return False


def find_module(name: str) -> ModuleSpec | None:
    """Find a module as an import would, but run nothing, be it loaded already or not."""
    outer, _, rest = name.partition(".")
    spec = _find(outer, None)
    whole = outer
    for part in rest.split(".") if rest else ():
        if spec is None or spec.submodule_search_locations is None:
            return None
        whole = f"{whole}.{part}"
        spec = _find(whole, spec.submodule_search_locations)
    return spec


def _find(name: str, path: object) -> ModuleSpec | None:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        try:
            spec: ModuleSpec | None = None if find is None else find(name, path)
        except (ImportError, ValueError, AttributeError, TypeError):
            # A finder of others, or a name that is none.
            continue
        if spec is not None:
            return spec
    return None


def distribution_of(name: str) -> Installed | None:
    """Return the distribution that an import of this module would find, None if it is in none."""
    spec = find_module(name.partition(".")[0])
    if spec is not None and spec.origin is None:
        # A namespace package may hold modules of several.
        spec = find_module(name)
    if spec is None or spec.origin is None or is_standard(spec.origin):
        return None
    return installed_at(spec.origin)[0]


def version_of(name: str) -> str | None:
    """Return the version of an installed distribution, None if it is not installed."""
    found = _installed(name)
    return None if found is None else _field(found, "Version")


def _installed(name: str) -> Distribution | None:
    from importlib import metadata

    try:
        return metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):
        return None


def versions_of(names: set[str]) -> dict[str, str]:
    """Return the versions of distributions and of all that they require, by name."""
    found: dict[str, str] = {}
    left = sorted(names)
    while left:
        name = left.pop()
        each = None if name in found or name == OURS else _installed(name)
        if each is None:
            continue
        found[name] = _field(each, "Version")
        for required in each.requires or ():
            match = _REQUIRED.match(required)
            if match is not None and "extra ==" not in required:
                left.append(normal_name(match[0]))

    return dict(sorted(found.items()))
