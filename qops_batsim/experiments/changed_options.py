"""Options of schedulers as keys: by them runs are compared, kept and found again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

ChangedOptions = tuple[tuple[str, Any], ...]
"""Options of a scheduler that are not its defaults, sorted by name, with hashable values."""


class TableKey(dict[str, Any]):
    """A table in an option's value, such as the priorities of QOS, that can be hashed.

    It is written to files as the table itself.
    """

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def hashable(value: Any) -> Any:
    """Return an option's value with lists as tuples and tables as :class:`TableKey`, at any depth.

    Values are those of files (JSON, TOML).
    """
    if isinstance(value, Mapping):
        return TableKey((name, hashable(each)) for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(hashable(each) for each in value)
    return value


def _name(option: tuple[str, Any]) -> str:
    return option[0]


def changed_options(options: Iterable[tuple[str, Any]]) -> ChangedOptions:
    """Return options by name as a key; equal options in another order have the same."""
    return tuple((name, hashable(value)) for name, value in sorted(options, key=_name))
