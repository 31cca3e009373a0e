"""Which simulations of Pascal et al. (2004) are made, and making and keeping them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import msgspec

from qops_batsim.errors import InputError
from qops_batsim.files import read_bytes, write_text
from qops_batsim.papers.pascal2004.runs import (
    MEASURED,
    ORIGINAL,
    REBUILT,
    RUN_TIME,
    Outcome,
    Trial,
    read_log,
    run_trial,
)
from qops_batsim.version import __version__
from qops_batsim.workload.service_classes import APART, TOGETHER

Results = Mapping[Trial, Outcome]


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated.

    Attributes
    ----------
    sizes
        Numbers of jobs from the beginning of the rebuilt log, for both tables.
    alone
        Further such numbers, for Table 1 only.
    together
        Whether Table 2 is also made with tasks that progress together.
    seeds
        Of the queues that jobs of the rebuilt log draw.
    """

    sizes: tuple[int, ...]
    alone: tuple[int, ...] = ()
    together: bool = True
    seeds: tuple[int, ...] = (1,)

    def seeds_of(self, log: str) -> tuple[int, ...]:
        """Return the seeds that make a difference: those of queues that are drawn."""
        return self.seeds if log == REBUILT else self.seeds[:1]

    def cases(self) -> list[Case]:
        """Return the cases of Table 2: the paper's, then those with the log's own queues."""
        by_class: tuple[str | None, ...] = (None, "best_effort")
        found = [
            Case(log=REBUILT, first=first, every=every)
            for first in self.sizes
            for every in by_class
        ]
        kinds = [(RUN_TIME, APART), (MEASURED, APART)]
        if self.together:
            kinds.append((RUN_TIME, TOGETHER))
        found += [
            Case(log=ORIGINAL, first=None, every=every, cpu_time=cpu_time, tasks=tasks)
            for cpu_time, tasks in kinds
            for every in by_class
        ]
        return found

    def trials(self) -> list[Trial]:
        """Return every simulation once, those of Table 1 first."""
        found: dict[Trial, None] = {}
        places: list[tuple[str, int | None]] = [(ORIGINAL, None)]
        places += [(REBUILT, first) for first in (*self.sizes, *self.alone)]
        for log, first in places:
            for seed in self.seeds_of(log):
                found[nqs(log, first, seed)] = None
            found[conservative(log, first)] = None
            found[alone(log, first)] = None
        found[alone(ORIGINAL, None, MEASURED)] = None
        for case in self.cases():
            for seed in self.seeds_of(case.log):
                found[case.trial(seed)] = None
        return list(found)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A case of Table 2; attributes as those of :class:`Trial`."""

    log: str
    first: int | None
    every: str | None
    cpu_time: str = RUN_TIME
    tasks: str = APART

    def trial(self, seed: int) -> Trial:
        """Return the simulation of the case with a seed."""
        return Trial(
            log=self.log,
            first=self.first,
            scheduler="aroma",
            every=self.every,
            cpu_time=self.cpu_time,
            tasks=self.tasks,
            seed=seed if self.every is None else 1,
        )


def nqs(log: str, first: int | None, seed: int) -> Trial:
    """Return the trial of our NQS."""
    return Trial(log=log, first=first, scheduler="nqs", seed=seed)


def conservative(log: str, first: int | None) -> Trial:
    """Return the trial of conservative backfilling with exact estimates."""
    return Trial(log=log, first=first, scheduler="conservative")


def alone(log: str, first: int | None, cpu_time: str = RUN_TIME) -> Trial:
    """Return the trial of AROMA with all applications in the class dedicated."""
    return Trial(log=log, first=first, scheduler="aroma", every="dedicated", cpu_time=cpu_time)


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A finished simulation in a file, and what it depends on."""

    version: str
    log_sha256: str | None
    outcome: Outcome


def run_study(
    trials: Sequence[Trial],
    logs: Mapping[str, Path],
    *,
    keep: Path | None = None,
    workers: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[Trial, Outcome]:
    """Make simulations that are not kept from an earlier time.

    Parameters
    ----------
    trials
        What to simulate.
    logs
        Path of each log by name.
    keep
        Directory of finished simulations, made if missing; None: keep nothing.
    workers
        Processes. Schedules do not depend on it; measured times of mapping do.
    on_progress
        Called with the number of simulations done and to do.

    Raises
    ------
    InputError
        A log or a kept file cannot be used.
    """
    results: dict[Trial, Outcome] = {}
    for trial in trials:
        kept = _read_kept(trial, logs[trial.log], keep)
        if kept is not None:
            results[trial] = kept
    missing = [trial for trial in trials if trial not in results]
    for trial, outcome in zip(missing, _outcomes(missing, logs, workers), strict=True):
        results[trial] = outcome
        _write_kept(trial, logs[trial.log], keep, outcome)
        if on_progress is not None:
            on_progress(len(results), len(trials))
    return {trial: results[trial] for trial in trials}


def _outcomes(trials: Sequence[Trial], logs: Mapping[str, Path], workers: int) -> Iterator[Outcome]:
    paths = [logs[trial.log] for trial in trials]
    if min(workers, len(trials)) <= 1:
        yield from map(run_trial, trials, paths)
        return
    # Fresh processes behave alike on every system.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        try:
            yield from pool.map(run_trial, trials, paths)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _read_kept(trial: Trial, log: Path, keep: Path | None) -> Outcome | None:
    path = None if keep is None else keep / f"{trial.name}.json"
    if path is None or not path.exists():
        return None
    content = read_bytes(path, what="a kept simulation")
    try:
        kept = msgspec.json.decode(content, type=_Kept)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}; a kept simulation is expected, or none") from None
    fresh = kept.version == __version__ and kept.log_sha256 == read_log(log).sha256
    return kept.outcome if fresh else None


def _write_kept(trial: Trial, log: Path, keep: Path | None, outcome: Outcome) -> None:
    if keep is None:
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{keep}: cannot be made ({error.strerror})") from error
    kept = _Kept(version=__version__, log_sha256=read_log(log).sha256, outcome=outcome)
    write_text(keep / f"{trial.name}.json", msgspec.json.encode(kept).decode() + "\n")
