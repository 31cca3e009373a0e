"""Identifiers of a run's files as numbers, so that rules compare columns of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from qops_batsim.analysis.results.csv_cells import whole_numbers
from qops_batsim.analysis.results.csv_table import Texts
from qops_batsim.analysis.results.restarts import without_number
from qops_batsim.analysis.results.run import RunResult
from qops_batsim.analysis.results.tables import Booleans, Floats, Integers


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

    def __init__(self, result: RunResult, ids: Mapping[str, Sequence[str]]) -> None:
        self._result = result
        self._ids = ids
        """Identifiers of the jobs of each workload, by its name."""
        self.known = sum(map(len, ids.values()))
        self._others: dict[str, int] = {}
        self.rows: Integers = self._of_rows(result)
        self.owners: Integers = self._owners()
        self.qos: Integers = self._of_decisions(result)

    def __len__(self) -> int:
        return self.known + len(self._others)

    def number(self, full_id: str) -> int | None:
        """Return the number of an identifier; None where neither file nor workload has it."""
        found = self._numbers.get(full_id)
        return self._others.get(full_id) if found is None else found

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The number of each job of the workloads, by its full identifier."""
        each = (f"{name}!{local_id}" for name, ids in self._ids.items() for local_id in ids)
        return {full_id: number for number, full_id in enumerate(each)}

    def name(self, number: int) -> str:
        """Return the full identifier with a number."""
        for name, ids in self._ids.items():
            if number < len(ids):
                return f"{name}!{ids[number]}"
            number -= len(ids)
        return list(self._others)[number]

    def _of_rows(self, result: RunResult) -> Integers:
        workloads, only = result.text("workload_name"), next(iter(self._ids), "")
        same = isinstance(workloads, Texts) and workloads.are_all(only)
        found = self._in_bulk(result.text("job_id")) if same else self._not_found(len(workloads))
        return self._completed(found, result.ids if (found < 0).any() else ())

    def _of_decisions(self, result: RunResult) -> Integers:
        ids = () if result.decisions is None else result.decisions.ids
        return self._completed(self._in_bulk(ids, f"{next(iter(self._ids), '')}!"), ids)

    def _in_bulk(self, texts: Sequence[str], prefix: str = "") -> Integers:
        """Return the numbers of identifiers behind a prefix, -1 for those not found in bulk.

        Found are whole numbers, where there is one workload.
        """
        written = texts.written if isinstance(texts, Texts) else None
        if len(self._ids) != 1 or not written:
            return self._not_found(len(texts))
        jobs, order = self._whole_numbers
        wanted = whole_numbers(written, prefix.encode())
        if not len(jobs):
            return self._not_found(len(texts))
        place = np.searchsorted(jobs, wanted, side="right") - 1
        found: Integers = order[np.maximum(place, 0)]
        found[(jobs[place] != wanted) | (wanted < 0)] = -1
        return found

    @cached_property
    def _whole_numbers(self) -> tuple[Integers, Integers]:
        """Identifiers that are whole numbers, ascending, and the number of the job of each.

        Of a single workload; none if that is of no use.
        """
        (ids,) = self._ids.values()
        jobs = whole_numbers("\n".join([*ids, ""]).encode())
        if len(jobs) != len(ids):
            jobs = jobs[:0]
        order = np.argsort(jobs, kind="stable")
        return jobs[order], order

    def _not_found(self, rows: int) -> Integers:
        return np.full(rows, -1)

    def _completed(self, found: Integers, full_ids: Sequence[str]) -> Integers:
        """Look up one by one what was not found in bulk, and number what no workload has."""
        for row in np.flatnonzero(found < 0).tolist():
            full_id = full_ids[row]
            number = self._numbers.get(full_id)
            if number is None:
                number = self._others.setdefault(full_id, self.known + len(self._others))
            found[row] = number
        return found

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
        if self._ids:
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
