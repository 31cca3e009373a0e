"""Requests for studies that are made by ``run(request)``, as by their command."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from qops_batsim import InputError
from qops_batsim.experiments import KeptRuns, run_cases, usual_places
from studies.run_table import RunTable

CaseT = TypeVar("CaseT", bound=Hashable)
RunT = TypeVar("RunT")
StudyT = TypeVar("StudyT", bound=msgspec.Struct)


class StudyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request for a reproduction.

    ``quick`` is the part that takes a minute or few, ``traces`` the directory of the logs (None:
    where :meth:`find_log` looks), ``seeds`` their number (None: the paper's own choice),
    ``workers`` as of :func:`~qops_batsim.experiments.pool.run_cases`. Finished runs are kept below
    ``out``, and ``on_progress`` is called with the number of simulations done and to do. ``bound``
    is how long each workload of an admittance figure of 2003 is searched for the best possible, in
    units of deterministic time (None: it is not).
    """

    quick: bool = False
    traces: Path | None = None
    workers: int | str = 1
    seeds: int | None = None
    out: Path | None = None
    bound: float | None = None
    on_progress: Callable[[int, int], None] | None = None

    def find_log(self, *files: str, fetch: str | None = None) -> Path:
        """Return the path of a log, the first of these files that is found.

        It is looked for in the directory of the request, else in ``$QOPS_SHARED/traces``
        (default ``../shared/traces``), else in the cache of ``workload fetch``, which may know
        the last file by the name ``fetch``.
        """
        places = [self.traces] if self.traces is not None else usual_places()
        for file in files:
            for place in places:
                if (place / file).is_file():
                    return place / file
        looked = ", ".join(str(place) for place in places)
        command = f"run `qops-batsim workload fetch {fetch}` once, or " if fetch else ""
        raise InputError(
            f"{' or '.join(files)}: not found in {looked}; "
            f"{command}give the directory that has it (--traces DIR). "
            "It is a log of the Parallel Workloads Archive, or was made from one: "
            "https://www.cs.huji.ac.il/labs/parallel/workload/"
        )

    def seeded(self, study: StudyT) -> StudyT:
        """Return a study with as many seeds as the request asks for."""
        if self.seeds is None:
            return study
        return msgspec.structs.replace(study, seeds=tuple(range(1, self.seeds + 1)))

    def progress(self, done: int, total: int) -> None:
        """Call ``on_progress``, if there is any."""
        if self.on_progress is not None:
            self.on_progress(done, total)

    def in_parts(self, total: int) -> StudyRequest:
        """Return a request whose progress counts the cases of several runs together."""
        before = 0

        def progress(done: int, part: int) -> None:
            nonlocal before
            self.progress(before + done, total)
            if done == part:
                before += part

        return msgspec.structs.replace(self, on_progress=progress)

    def run(
        self,
        work: Callable[[CaseT], RunT],
        cases: Iterable[CaseT],
        kind: type[RunT],
        made_of: Any,
        *,
        group_by: Callable[[CaseT], Hashable] | None = None,
        **same: str,
    ) -> RunTable[CaseT, RunT]:
        """Run cases (:func:`~qops_batsim.experiments.pool.run_cases`) in the way asked for.

        Those for which ``group_by`` is equal follow each other in one process. Kept runs are of
        type ``kind`` and depend on ``made_of``; what is the ``same`` for all is told in the table.
        """
        found = run_cases(
            work,
            cases,
            workers=self.workers,
            kept=None if self.out is None else KeptRuns(self.out / "runs", kind, made_of),
            group_by=group_by,
            on_progress=self.on_progress,
        )
        return RunTable(found, same)
