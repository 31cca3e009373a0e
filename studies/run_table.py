"""Tidy tables of runs: a row a case with its seed, window and metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import polars as pl

CaseT = TypeVar("CaseT")
RunT = TypeVar("RunT")

NUMBER, WINDOW = ("metric", "value"), "window"


class RunTable(dict[CaseT, RunT]):
    """Runs of a study by case; ``same`` are columns that are equal for all."""

    def __init__(self, runs: Mapping[CaseT, RunT], same: Mapping[str, str] | None = None) -> None:
        super().__init__(runs)
        self.same = same or {}

    def numbers(self, cases: Iterable[CaseT], metric: str) -> list[float]:
        """Return a metric of some cases, as of each seed; none where one run has no such number."""
        found = [getattr(self[case], metric) for case in cases]
        return [] if None in found else [float(value) for value in found]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each number of each run.

        Of a run that is a list of windows, such as the months of a year, each is told by its name.
        """
        for case, run in self.items():
            told = {**self.same, **_columns(msgspec.to_builtins(case))}
            for window, name, value in _numbers(msgspec.to_builtins(run, str_keys=True)):
                yield (
                    told
                    | ({WINDOW: window} if window else {})
                    | dict(zip(NUMBER, (name, value), strict=True))
                )


def tidy_table(tables: Sequence[Mapping[Any, Any]]) -> pl.DataFrame:
    """Return all numbers of tables of runs; columns that a table has not are null."""
    rows = [row for table in tables if isinstance(table, RunTable) for row in table.rows()]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    last = [name for name in (WINDOW, *NUMBER) if name in frame.columns]
    return frame.select([name for name in frame.columns if name not in last] + last)


def _columns(case: Any) -> dict[str, Any]:
    """Return the parameters of a case, those of its scenario among them."""
    if isinstance(case, tuple):
        own, seed = case
        return {**_columns(own), "seed": seed}
    found: dict[str, Any] = {}
    for name, value in case.items():
        if isinstance(value, dict):
            found |= _columns(value)
        else:
            found[name] = _text(value) if isinstance(value, tuple) else value
    return found


def _text(values: Sequence[Any]) -> str:
    """Return a list, as of options with their values, as text."""
    return ",".join("=".join(map(str, x)) if isinstance(x, tuple) else str(x) for x in values)


def _numbers(run: Any, name: str = "", window: str = "") -> Iterator[tuple[str, str, float]]:
    """Yield window, name and value of each number of a run."""
    if isinstance(run, tuple):
        for part in run:
            first = next(iter(part.values()))
            yield from _numbers(part, window=str(first))
    elif isinstance(run, dict):
        for key, value in run.items():
            plain = not name or isinstance(value, tuple)
            yield from _numbers(value, key if plain else f"{name}.{key}", window)
    elif isinstance(run, int | float):
        yield window, name, float(run)
