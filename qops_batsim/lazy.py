"""Public names of packages, loaded on first use.

A package lists each name twice: for type checkers as an import, and for Python by its module::

    if TYPE_CHECKING:
        from qops_batsim.workload.load import scale_load as scale_load
    else:
        __getattr__, __dir__, __all__ = lazy_names(__name__, {"load": "scale_load"})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for a package whose names load lazily.

    ``modules`` has the names, with blanks between them, by the module below the package.
    """
    where = {
        name: f"{package}.{module}" for module, names in modules.items() for name in names.split()
    }

    def find(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(where[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        special = {name for name in vars(sys.modules[package]) if name.startswith("__")}
        return sorted({*where, *special})

    return find, listed, sorted(where)
