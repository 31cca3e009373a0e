"""Platforms, workloads and data tables that come with the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from qops_batsim.errors import InputError, did_you_mean

_PACKAGE = Path(__file__).parent
_KINDS = {"platforms": ".xml", "workloads": ".json"}

DEFAULT_WORKLOAD = "sdsc_sp2_1000"
DEFAULT_DEADLINE_WORKLOAD = "sdsc_sp2_deadlines_500"
DEFAULT_SHARING_WORKLOAD, DEFAULT_SHARING_PLATFORM = "aroma_mixed", "aroma_grid"


def shipped_directory(kind: str) -> Path:
    """Return the directory of the shipped ``platforms`` or ``workloads``.

    Installed, they lie inside the package; in a source tree, at its top.
    """
    inside = _PACKAGE / "data" / kind
    return inside if inside.is_dir() else _PACKAGE.parent / kind


def shipped_names(kind: str) -> list[str]:
    """Return the names of the shipped files of a kind, without directory and ending."""
    ending = _KINDS[kind]
    return sorted(
        path.name.removesuffix(ending) for path in shipped_directory(kind).glob(f"*{ending}")
    )


def find_input(name: str | Path, kind: str) -> Path:
    """Return the path of a user's file, or of a shipped file by name.

    The name is a path, which wins if it exists, or ``kth_sp2_100``,
    ``kth_sp2_100.xml`` or ``platforms/kth_sp2_100.xml``; the kind is
    ``"platforms"`` or ``"workloads"``.
    """
    path = Path(name)
    if path.exists():
        return path
    bare = path.name.removesuffix(_KINDS[kind])
    if path.parent in (Path(), Path(kind)):
        shipped = shipped_directory(kind) / f"{bare}{_KINDS[kind]}"
        if shipped.is_file():
            return shipped
    raise InputError(
        f"{name}: no such file, nor one of the shipped {kind}"
        f"{did_you_mean(bare, shipped_names(kind))}"
    )


def resolve_path(name: str | Path, kind: str) -> Path:
    """Return the path of a user's file, or of a shipped one named ``platforms/NAME``, …

    For commands that take paths only: nothing is looked up by a bare name, and a file that
    does not exist is not complained about here. An existing path wins.
    """
    path = Path(name)
    shipped = shipped_directory(kind) / path.name
    return (
        shipped if path.parent == Path(kind) and not path.exists() and shipped.is_file() else path
    )


DataT = TypeVar("DataT")


def packaged_data(package: str, file: str, kind: type[DataT]) -> DataT:
    """Return the content of a TOML file of the package, as an object of the type ``kind``."""
    import tomllib

    import msgspec

    return msgspec.convert(tomllib.loads(files(package).joinpath(file).read_text("utf-8")), kind)
