"""The one way in which many cases are run: in this process or in several, finished ones kept.

A comparison, a paper's study or a campaign has a list of cases, each with its seed, and a
function that makes the run of one case.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

from qops_batsim.errors import InputError
from qops_batsim.experiments.kept import KeptRuns

Case = TypeVar("Case", bound=Hashable)
Run = TypeVar("Run")


def run_cases(
    work: Callable[[Case], Run],
    cases: Iterable[Case],
    *,
    workers: int = 1,
    kept: KeptRuns[Run] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[Case, Run]:
    """Make the run of every case once, and return them in the order of the cases.

    ``work`` is copied once into each of the ``workers`` processes, so it holds what all cases
    share, and may remember what the next case is likely to need again. Processes are started
    afresh and import the calling script, which needs its ``if __name__ == "__main__":``.
    ``on_progress`` is called with the number of runs done and to do.
    """
    if workers < 1:
        raise InputError(f"number of workers is {workers}; a whole number above 0 is expected")
    wanted = list(dict.fromkeys(cases))
    found: dict[Case, Run] = {}
    if kept is not None:
        found = {case: run for case in wanted if (run := kept.find(case)) is not None}
    missing = [case for case in wanted if case not in found]
    if found and on_progress is not None:
        on_progress(len(found), len(wanted))
    for case, run in zip(missing, _runs(work, missing, workers), strict=True):
        found[case] = run
        if kept is not None:
            kept.add(case, run)
        if on_progress is not None:
            on_progress(len(found), len(wanted))
    return {case: found[case] for case in wanted}


def _runs(work: Callable[[Case], Run], cases: Sequence[Case], workers: int) -> Iterator[Run]:
    """Yield the run of each case, in their order."""
    workers = min(workers, len(cases))
    if workers <= 1:
        yield from map(work, cases)
        return
    # Fresh processes behave alike on every system.
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_begin, initargs=(work,)
    ) as pool:
        try:
            yield from pool.map(_run_in_worker, cases)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


# What a worker process does with each case, set once at its start.
_work: Callable[[Any], Any] | None = None


def _begin(work: Callable[[Any], Any]) -> None:
    global _work
    _work = work


def _run_in_worker(case: Any) -> Any:
    assert _work is not None
    return _work(case)
