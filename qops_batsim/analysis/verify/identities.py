"""Identifiers of a run's files as numbers, so that rules compare columns of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

import numpy as np

from qops_batsim.analysis.results.restarts import without_number
from qops_batsim.analysis.results.run import RunResult
from qops_batsim.analysis.results.tables import Booleans, Floats, Integers
from qops_batsim.workload.model import Workload


class Identities:
    """Which job each row of a run's files is about.

    Every full identifier has a number: jobs of the workloads from 0 on, in their order, what else
    the files name after them.

    Attributes
    ----------
    known
        How many jobs the workloads have.
    rows
        The number of each row of ``_jobs.csv``.
    owners
        The number of the job that each row is a run of: ``15`` for ``15#1`` as for ``15``.
    qos
        The number of each row of ``_qos.csv``.
    """

    def __init__(self, result: RunResult, workloads: Mapping[str, Workload]) -> None:
        self._result = result
        self._numbers: dict[str, dict[str, int]] = {}
        self.known = 0
        for name, workload in workloads.items():
            ids = workload.columns.ids
            numbers = range(self.known, self.known + len(ids))
            self._numbers[name] = dict(zip(ids, numbers, strict=True))
            self.known += len(ids)
        self._others: dict[str, int] = {}
        self.rows: Integers = self._of_jobs(result)
        self.owners: Integers = self._owners()
        qos = result.decisions
        self.qos: Integers = self._of_full_ids([] if qos is None else qos.ids)

    def __len__(self) -> int:
        return self.known + len(self._others)

    def number(self, full_id: str) -> int | None:
        """Return the number of an identifier; None where neither file nor workload has it."""
        name, _, local_id = full_id.partition("!")
        found = self._numbers.get(name, {}).get(local_id)
        return self._others.get(full_id) if found is None else found

    def name(self, number: int) -> str:
        """Return the full identifier with a number."""
        for name, numbers in self._numbers.items():
            if number < len(numbers):
                return f"{name}!{list(numbers)[number]}"
            number -= len(numbers)
        return list(self._others)[number]

    def _of_jobs(self, result: RunResult) -> Integers:
        workloads, ids = result.text("workload_name"), result.text("job_id")
        ran = set(workloads)
        only = ran.pop() if len(ran) == 1 else ""
        if only not in self._numbers:
            return self._of_full_ids(result.ids)
        found = list(map(self._numbers[only].get, ids))
        return self._with_others(found, lambda row: f"{only}!{ids[row]}")

    def _of_full_ids(self, full_ids: Iterable[str]) -> Integers:
        listed = list(full_ids)
        if not self._numbers:
            return self._with_others([None] * len(listed), listed.__getitem__)
        found: list[int | None] = []
        for each in listed:
            name, _, local_id = each.partition("!")
            found.append(self._numbers.get(name, {}).get(local_id))
        return self._with_others(found, listed.__getitem__)

    def _with_others(self, found: list[int | None], full_id: Callable[[int], str]) -> Integers:
        """Return numbers of identifiers, new ones for those that no workload has."""
        if None in found:
            others = self._others
            for row, number in enumerate(found):
                if number is None:
                    each = full_id(row)
                    found[row] = others.setdefault(each, self.known + len(others))
        return np.array(found, np.int64)

    def _owners(self) -> Integers:
        owners = self.rows.copy()
        numbered = {
            number: owner
            for each, number in self._others.items()
            if (owner := self._origin(each)) is not None
        }
        if numbered:
            for row in np.flatnonzero(owners >= self.known).tolist():
                number = int(owners[row])
                owners[row] = numbered.get(number, number)
        return owners

    def _origin(self, full_id: str) -> int | None:
        """Return the number of the job that ``15#1``, itself no job, is a run of."""
        origin = without_number(full_id)
        if origin is None:
            return None
        number = self.number(origin)
        if self._numbers:
            return number if number is not None and number < self.known else None
        # Without a workload, whatever is no later run of another row is a job.
        before = without_number(origin)
        return None if before is not None and before in self._others else number

    @cached_property
    def latest(self) -> Booleans:
        """Whether each row is the last one of its identifier: usually it is the only one."""
        place = np.empty(len(self), np.int64)
        rows = np.arange(len(self.rows))
        place[self.rows] = rows
        latest: Booleans = place[self.rows] == rows
        return latest

    @cached_property
    def several(self) -> Booleans:
        """Whether each job, by number, has several runs."""
        several: Booleans = np.bincount(self.owners[self.latest], minlength=len(self)) > 1
        return several

    @cached_property
    def last_runs(self) -> Booleans:
        """Whether each row is the last run of its job."""
        last = self.latest & ~self.several[self.owners]
        for rows in self.runs(self.several):
            last[rows[-1]] = True
        return last

    def runs(self, wanted: Booleans) -> Iterator[list[int]]:
        """Yield the rows of some jobs (by number) in the order of their starts.

        Jobs in the order in which the file first names one of their runs.
        """
        rows = np.flatnonzero(wanted[self.owners] & self.latest)
        if not len(rows):
            return
        everything = np.arange(len(self.rows))
        named = np.empty(len(self), np.int64)
        named[self.rows[::-1]] = everything[::-1]
        first = np.full(len(self), len(everything))
        np.minimum.at(first, self.owners[rows], named[self.rows[rows]])
        start: Floats = np.nan_to_num(self._result.column("starting_time")[rows], nan=np.inf)
        rows = rows[np.lexsort((rows, start, first[self.owners[rows]]))]
        for each in np.split(rows, np.flatnonzero(np.diff(self.owners[rows])) + 1):
            yield each.tolist()
