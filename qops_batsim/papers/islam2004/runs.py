"""The simulations of Islam et al. (2004): running and keeping them.

Every case of a load and seed runs on the very same workload, so differences between
cases are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from hashlib import blake2b
from multiprocessing import get_context
from pathlib import Path

import msgspec

from qops_batsim.analysis.metrics.accounts import accounts_of_simulation
from qops_batsim.analysis.metrics.admission import broken_rule, outcomes_of_simulation
from qops_batsim.analysis.metrics.charges import charge_jobs, charge_report, reference_of_workload
from qops_batsim.analysis.metrics.run_metrics import BOUNDED_SLOWDOWN_THRESHOLD
from qops_batsim.economics.slowdowns import ReferenceJob, SlowdownTable, category_slowdowns
from qops_batsim.errors import InputError, SimulationError
from qops_batsim.experiments.deadline_workload import deadline_workload, easy_response_times
from qops_batsim.files import read_bytes, write_text
from qops_batsim.papers.islam2004.cases import Case, Results, Run, Study
from qops_batsim.platform.generate import make_cluster
from qops_batsim.running.simulate import simulate
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.version import __version__
from qops_batsim.workload.deadlines import DeadlineChoices
from qops_batsim.workload.model import Workload

STRINGENCY = 0.2
"""S of all experiments of the paper."""

SCHEDULER = "fqops"


def run_study(
    trace: Workload,
    study: Study,
    *,
    workers: int = 1,
    keep: Path | None = None,
    on_run: Callable[[int, int], None] | None = None,
) -> Results:
    """Run every case with every seed.

    Parameters
    ----------
    trace
        The jobs of load 1, of type ``delay``.
    study
        What to run.
    workers
        Processes; the result does not depend on it.
    keep
        Directory where finished runs are kept and found again; None: nowhere.
    on_run
        Called with the number of runs done and to do.

    Raises
    ------
    InputError
        The trace or a kept file cannot be used.
    SimulationError
        A schedule breaks a rule: every admitted deadline is met.
    """
    store = _Store(keep, trace)
    wanted = [(case, seed) for case in study.cases() for seed in study.seeds_of(case)]
    # Cases of one workload follow each other, the longest first.
    wanted.sort(key=lambda each: (-each[0].load, each[0].deadline_share, each[1]))
    found = {key: run for key in wanted if (run := store.find(*key)) is not None}
    missing = [key for key in wanted if key not in found]
    if on_run is not None:
        on_run(len(found), len(wanted))
    make_scheduler(SCHEDULER).prepare()
    for run in _run_all(trace, missing, min(workers, len(missing))):
        found[run.case, run.seed] = run
        store.add(run)
        if on_run is not None:
            on_run(len(found), len(wanted))
    return Results(study, found)


class _Store:
    """Finished runs in files, one for each workload; a name tells what they were made of."""

    def __init__(self, directory: Path | None, trace: Workload) -> None:
        self._directory = None if directory is None else directory / "runs"
        made_of = [__version__, STRINGENCY, trace.provenance, trace.processors, len(trace.jobs)]
        self._mark = blake2b(msgspec.json.encode(made_of), digest_size=4).hexdigest()
        self._parts: dict[Path, dict[tuple[Case, int], Run]] = {}

    def find(self, case: Case, seed: int) -> Run | None:
        """Return a kept run, or None."""
        if self._directory is None:
            return None
        return self._part(self._path(self._directory, case, seed)).get((case, seed))

    def add(self, run: Run) -> None:
        """Keep a run."""
        if self._directory is None:
            return
        path = self._path(self._directory, run.case, run.seed)
        part = self._part(path)
        part[run.case, run.seed] = run
        write_text(path, msgspec.json.encode(list(part.values())).decode() + "\n")

    def _path(self, directory: Path, case: Case, seed: int) -> Path:
        share = "" if case.deadline_share == 1 else f"-deadlines{case.deadline_share:g}"
        return directory / f"{self._mark}-load{case.load:g}{share}-seed{seed}.json"

    def _part(self, path: Path) -> dict[tuple[Case, int], Run]:
        if path not in self._parts:
            self._parts[path] = {}
            if path.exists():
                content = read_bytes(path, what="a file of kept runs")
                try:
                    runs = msgspec.json.decode(content, type=list[Run])
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise InputError(
                        f"{path}: {error}; a file of kept runs is expected, or none"
                    ) from None
                self._parts[path] = {(run.case, run.seed): run for run in runs}
        return self._parts[path]


class _Scenario(msgspec.Struct, kw_only=True):
    """A workload with deadlines, and how EASY serves it."""

    workload: Workload
    references: dict[str, ReferenceJob]
    slowdowns: SlowdownTable
    bounded_slowdowns: SlowdownTable


class _Worker:
    """Runs cases on the workloads of one trace; remembers the last workload."""

    def __init__(self, trace: Workload) -> None:
        self._trace = trace
        self._key: tuple[float, float, int] | None = None
        self._scenario: _Scenario | None = None

    def run(self, case: Case, seed: int) -> Run:
        key = (case.load, case.deadline_share, seed)
        if self._scenario is None or self._key != key:
            self._key, self._scenario = key, make_scenario(self._trace, *key)
        return run_case(self._scenario, case, seed)


def make_scenario(trace: Workload, load: float, deadline_share: float, seed: int) -> _Scenario:
    """Make the workload of a load and seed.

    Duplicates are submitted with their originals and have the same deadline, from EASY on
    the trace without duplicates (section 5). Category slowdowns are those of EASY on the
    workload with them.
    """
    workload = deadline_workload(
        trace,
        DeadlineChoices(stringency=STRINGENCY, share=deadline_share, seed=seed),
        load=load,
        same_time=True,
        first=None,
        reference="unscaled",
    )
    references = reference_of_workload(workload, easy_response_times(workload))
    return _Scenario(
        workload=workload,
        references=references,
        slowdowns=category_slowdowns(references.values()),
        bounded_slowdowns=category_slowdowns(references.values(), bound=BOUNDED_SLOWDOWN_THRESHOLD),
    )


def run_case(scenario: _Scenario, case: Case, seed: int) -> Run:
    """Run a case, check its schedule and charge its jobs.

    Raises
    ------
    SimulationError
        The schedule breaks a rule.
    """
    workload = scenario.workload
    module = make_scheduler(SCHEDULER, case.settings(seed))
    simulation = simulate(workload, make_cluster(workload.processors), module)
    promised = {
        record.local_id: deadline
        for record in simulation.ended
        if (deadline := module.qos_log.record(record.job.id).admitted_deadline) is not None
    }
    outcomes = outcomes_of_simulation(simulation.ended, workload)
    broken = broken_rule(outcomes, workload.processors, promised)
    if broken is not None:
        raise SimulationError(f"{case} with seed {seed}: {broken}")
    accounts = accounts_of_simulation(simulation.ended, workload, promised)
    tables = (scenario.slowdowns, scenario.bounded_slowdowns)
    plain, bounded = (
        charge_report(charge_jobs(accounts, scenario.references, table), table).total
        for table in tables
    )
    return Run(
        case=case,
        seed=seed,
        jobs=plain.jobs,
        work=float((outcomes.processors * outcomes.run_time).sum()),
        accepted_jobs=plain.charged_jobs,
        accepted_work=plain.charged_work,
        resource_charge=plain.charge.resource,
        qos_charge=plain.charge.qos,
        bounded_qos_charge=bounded.charge.qos,
        kills=plain.kills,
        wasted_work=plain.wasted_work,
    )


# What a worker process works with, set once at its start.
_worker: _Worker | None = None


def _run_all(trace: Workload, wanted: Sequence[tuple[Case, int]], workers: int) -> Iterator[Run]:
    """Yield the runs in the order wanted."""
    if workers <= 1:
        alone = _Worker(trace)
        for case, seed in wanted:
            yield alone.run(case, seed)
        return
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_begin_work, initargs=(trace,)
    ) as pool:
        try:
            yield from pool.map(_run_in_worker, wanted)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _begin_work(trace: Workload) -> None:
    global _worker
    _worker = _Worker(trace)


def _run_in_worker(wanted: tuple[Case, int]) -> Run:
    assert _worker is not None
    return _worker.run(*wanted)
