"""Running each distinct case once, in processes or on a Dask cluster, and keeping the runs.

A comparison, a paper's study or a study has a list of cases, each with its seed, and a
function that makes the run of one case. Finished runs are kept at once, so that an interrupted
study goes on where it was.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, suppress
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from qops_batsim.arguments import TEXT, WHOLE, Kind
from qops_batsim.errors import InputError, QopsError
from qops_batsim.files import PendingFile, decoded, errors_of_writing, read_bytes, sweep
from qops_batsim.garbage import without_garbage_collection
from qops_batsim.running.processes import WorkerContext
from qops_batsim.schedulers.loading.distributions import find_module
from qops_batsim.version import __version__

CaseT = TypeVar("CaseT", bound=Hashable)
RunT = TypeVar("RunT")


class _File(msgspec.Struct, frozen=True):
    """Content of a file that keeps a run: the run, and the case and version that identify it."""

    package_version: str
    made_of: msgspec.Raw
    case: msgspec.Raw
    run: msgspec.Raw


_files = msgspec.json.Decoder(_File)


class KeptRuns(Generic[RunT]):
    """Runs kept in a directory: one file for each run, written whole or not at all.

    A file's name is a digest of the package's version, of ``made_of`` and of the case: a run
    made of something else is never taken for the one that is wanted. Runs (of type ``kind``),
    cases and ``made_of``, what all runs depend on, such as the log, need a JSON form (msgspec).
    """

    def __init__(self, directory: Path, kind: type[RunT], made_of: Any) -> None:
        self._directory = directory
        self._kind = kind
        self._made_of = msgspec.json.encode(made_of, order="deterministic")
        sweep(directory)

    def find(self, case: Any) -> RunT | None:
        """Return the kept run of a case, or None."""
        path = self._path(_encoded(case))
        if not path.exists():
            return None
        content = read_bytes(path, what="a kept run")
        what = "a kept run, or no file,"
        file = decoded(content, _files, path, what)
        return decoded(file.run, msgspec.json.Decoder(self._kind), path, what)

    def add(self, case: Any, run: RunT) -> None:
        """Keep the run of a case."""
        key = _encoded(case)
        parts = (msgspec.Raw(each) for each in (self._made_of, key, msgspec.json.encode(run)))
        file = _File(__version__, *parts)
        # The directory was swept when this began: there may be thousands of files in it.
        with PendingFile(self._path(key)) as pending, errors_of_writing(pending.path):
            pending.stream.write(msgspec.json.encode(file) + b"\n")
            pending.sync()
            pending.publish()

    def those(self, cases: Iterable[CaseT]) -> set[CaseT]:
        """Return those of the cases whose run is in the directory, without reading runs."""
        there = {path.name for path in self._directory.glob("*.json")}
        return {case for case in cases if self._path(_encoded(case)).name in there}

    def remove(self, case: Any) -> None:
        """Remove the run of a case, if there is one."""
        self._path(_encoded(case)).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove all runs from the directory, and the directory if it is empty then."""
        for path in self._directory.glob("*.json"):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            self._directory.rmdir()

    def _path(self, key: bytes) -> Path:
        parts = b"\n".join((__version__.encode(), self._made_of, key))
        return self._directory / f"{blake2b(parts, digest_size=8).hexdigest()}.json"


def _encoded(case: Any) -> bytes:
    return msgspec.json.encode(case, order="deterministic")


Workers = int | str
"""Number of processes, or the address of the scheduler of a Dask cluster, as ``tcp://HOST:8786``."""

WORKERS = Kind((WHOLE | TEXT).fits, "a number of processes, or a Dask address,")


def check_workers(workers: Workers) -> None:
    """Raise an InputError unless there is a process, or what a Dask cluster needs."""
    if isinstance(workers, int) and workers < 1:
        raise InputError(f"number of workers is {workers}; a whole number above 0 is expected")
    if isinstance(workers, str) and find_spec("distributed") is None:
        raise InputError(
            "a Dask cluster needs the package distributed, which is not installed "
            "(pip install 'qops-batsim[dask]')"
        )


def check_sendable(classes: Iterable[type], workers: Workers) -> None:
    """Raise an InputError if worker processes cannot import one of the classes.

    A Dask cluster is sent the classes themselves.
    """
    check_workers(workers)
    if isinstance(workers, str) or workers == 1:
        return
    for each in classes:
        if each.__module__ == "__main__":
            file = getattr(sys.modules["__main__"], "__file__", None)
            is_found = file is not None and Path(file).is_file()
        else:
            is_found = find_module(each.__module__) is not None
        if not is_found or "<locals>" in each.__qualname__:
            raise InputError(
                f"class {each.__qualname__} cannot be imported by worker processes, as one of a "
                "notebook or of a function; with workers=1, or in a file, it can be compared"
            )


class Failure(msgspec.Struct, frozen=True):
    """The reason why a case has no run."""

    error: str


def run_cases(
    work: Callable[[CaseT], RunT],
    cases: Iterable[CaseT],
    *,
    workers: Workers = 1,
    kept: KeptRuns[RunT] | None = None,
    failures: KeptRuns[Failure] | None = None,
    group_by: Callable[[CaseT], Hashable] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[CaseT, RunT]:
    """Run every case once and return the runs in the order of the cases.

    Processes are started afresh and import the calling script, which needs its
    ``if __name__ == "__main__":``; none outlives this one, whatever ends it.

    Parameters
    ----------
    work
        Function of a case that returns its run. It is copied once into each process, so it may hold
        what all cases share, and cache what the next case needs again.
    cases
        The cases; equal ones are run once.
    workers
        Number of processes, or the address of a Dask cluster.
    kept
        Runs kept in a directory; finished ones are not made again.
    failures
        Kept failures: a case that fails is left out, and not tried again as long as its failure is
        kept. Without them an error ends the work.
    group_by
        Cases with an equal value run one after the other in the same process.
    on_progress
        Called with the numbers of runs done and to do.

    Returns
    -------
    dict
        The run of each case that has one.
    """
    check_workers(workers)
    runner = _CaseRunner(work, kept, failures)
    wanted = list(dict.fromkeys(cases))
    runs: dict[CaseT, RunT | Failure] = {}
    for case in wanted:
        kept_run = runner.kept_run(case)
        if kept_run is not None:
            runs[case] = kept_run
    if runs and on_progress is not None:
        on_progress(len(runs), len(wanted))

    groups: dict[Hashable, list[CaseT]] = {}
    for case in wanted:
        if case not in runs:
            groups.setdefault(group_by(case) if group_by else case, []).append(case)
    finished = _run_groups(runner, [*groups.values()], workers)
    with closing(finished):
        for case, run in finished:
            runs[case] = run
            if on_progress is not None:
                on_progress(len(runs), len(wanted))
    return {case: run for case in wanted if not isinstance(run := runs[case], Failure)}


@dataclass(frozen=True)
class _CaseRunner(Generic[CaseT, RunT]):
    """Runs cases, and stores each run or the reason why it failed."""

    work: Callable[[CaseT], RunT]
    kept: KeptRuns[RunT] | None
    failures: KeptRuns[Failure] | None

    def kept_run(self, case: CaseT) -> RunT | Failure | None:
        """Return the stored run of a case, or its failure."""
        run = None if self.kept is None else self.kept.find(case)
        return self.failures.find(case) if run is None and self.failures is not None else run

    def run(self, case: CaseT) -> RunT | Failure:
        """Run a case; return the run, or the failure."""
        try:
            with without_garbage_collection():
                return self.work(case)
        except Exception as error:
            # A scheduler may be somebody's own, and raise anything.
            if self.failures is None:
                raise
            is_told = isinstance(error, QopsError)
            return Failure(str(error) if is_told else f"{type(error).__name__}: {error}")

    def run_and_keep(self, cases: Iterable[CaseT]) -> Iterator[tuple[CaseT, RunT | Failure]]:
        """Run cases; store each run or failure at once, and yield it with its case."""
        for case in cases:
            run = self.run(case)
            self.keep(case, run)
            yield case, run

    def keep(self, case: CaseT, run: RunT | Failure) -> None:
        """Store the run of a case, or its failure."""
        if isinstance(run, Failure):
            if self.failures is not None:
                self.failures.add(case, run)
        elif self.kept is not None:
            self.kept.add(case, run)


def _run_groups(
    runner: _CaseRunner[CaseT, RunT], groups: Sequence[Sequence[CaseT]], workers: Workers
) -> Generator[tuple[CaseT, RunT | Failure], None, None]:
    """Yield each case with its run or failure; if closed early, end the worker processes."""
    if isinstance(workers, str):
        for case, run in results_on_cluster(workers, runner, groups):
            # The machines of a cluster need not see our files.
            runner.keep(case, run)
            yield case, run
        return

    workers = min(workers, len(groups))
    if workers <= 1:
        for group in groups:
            yield from runner.run_and_keep(group)
        return

    # Fresh processes behave alike on every system.
    context = WorkerContext()
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=_start_worker, initargs=(runner,)
    ) as pool:
        try:
            for future in as_completed([pool.submit(_run_in_worker, group) for group in groups]):
                yield from future.result()
        except BrokenProcessPool:
            raise QopsError(
                "a worker process was killed in the midst of its work, perhaps for want of memory; "
                "fewer at a time (--workers) need less"
            ) from None
        except BaseException:
            context.kill()
            raise


# What makes the runs of a worker process, set once at its start.
_runner: _CaseRunner[Any, Any] | None = None


def _start_worker(runner: _CaseRunner[Any, Any]) -> None:
    global _runner
    _runner = runner


def _run_in_worker(cases: Sequence[Any]) -> list[tuple[Any, Any]]:
    assert _runner is not None
    return list(_runner.run_and_keep(cases))


def run_on_cluster(
    runner: _CaseRunner[CaseT, RunT], cases: Sequence[CaseT]
) -> list[tuple[CaseT, RunT | Failure]]:
    """Run a group of cases; return their runs or failures, which the caller stores."""
    return [(case, runner.run(case)) for case in cases]


SECONDS = 30
"""Longest wait for the scheduler of the cluster."""


def results_on_cluster(
    address: str, runner: _CaseRunner[CaseT, RunT], groups: Sequence[Sequence[CaseT]]
) -> Iterator[tuple[CaseT, RunT | Failure]]:
    """Yield the results of each group of cases as they arrive from a cluster.

    ``address`` is that of the cluster's scheduler; its workers have this version of the package.
    """
    from distributed import Client, as_completed

    try:
        client = Client(address, timeout=SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            f"Dask cluster {address!r}: cannot be reached ({error}); the address of a running "
            "scheduler, as tcp://HOST:8786, is expected"
        ) from None
    with client:
        _check_versions(client, address)
        # Sent once, not with every group.
        shared = client.scatter(runner, broadcast=True, hash=False)
        futures = [client.submit(run_on_cluster, shared, group, pure=False) for group in groups]
        try:
            for future in as_completed(futures, loop=client.loop):
                yield from future.result()
        finally:
            client.cancel(futures)


def _check_versions(client: Any, address: str) -> None:
    versions = client.run(package_version)
    if not versions:
        raise InputError(f"Dask cluster {address!r}: has no workers; at least one is expected")
    for worker, version in versions.items():
        if version != __version__:
            raise InputError(
                f"Dask cluster {address!r}: worker {worker} has qops-batsim {version}; "
                f"{__version__}, as here, is expected"
            )


def package_version() -> str:
    """Return the version of the package that this process has imported."""
    return __version__
