"""Benchmark of schedulers on its cases, and its result: one file to share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec

from qops_batsim.errors import InputError
from qops_batsim.experiments.benchmark_cases import (
    BenchmarkCase,
    BenchmarkLogs,
    benchmark_cases,
    case_list,
    present_logs,
    told,
)
from qops_batsim.experiments.benchmark_runs import (
    BenchmarkBound,
    BenchmarkCell,
    BenchmarkRuns,
    Score,
    bound_key,
    kept_bounds,
)
from qops_batsim.experiments.deadline_runs import Contestant, check_distinct
from qops_batsim.experiments.pool import Failure, KeptRuns, Workers, run_cases
from qops_batsim.files import decoded, read_bytes, write_text
from qops_batsim.limits import MAX_DESCRIPTION_BYTES
from qops_batsim.parameters import COUNT
from qops_batsim.version import __version__

RESULT = "benchmark.json"
MADE_OF = "benchmark"


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a case: the bound, if known, and the scores of contestants by name.

    ``key`` is equal for equal workloads and outages, wherever they were run.
    """

    name: str
    half: str
    log: str
    stand_in: str
    about: str
    key: str
    bound: BenchmarkBound | None
    scores: dict[str, Score]
    errors: dict[str, str] = {}


class BenchmarkResult(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a result's file; ``baseline`` is the contestant that differences refer to."""

    package_version: str
    benchmark_version: str
    seed: int
    quick: bool
    baseline: str
    contestants: tuple[Contestant, ...]
    logs: tuple[str, ...]
    stand_ins: dict[str, str]
    cases: tuple[CaseResult, ...]

    @property
    def names(self) -> list[str]:
        """Names of the contestants."""
        return [each.name for each in self.contestants]


def run_benchmark(
    contestants: Sequence[Contestant],
    *,
    baseline: str,
    directory: Path,
    logs: Path = Path(),
    seed: int | None = None,
    quick: bool = False,
    on_broken_promise: str = COUNT,
    workers: Workers = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> BenchmarkResult:
    """Run contestants on the cases; return the result.

    Bounds are those that come with the package; other workloads are searched, if the extra
    ``bound`` is installed.

    Parameters
    ----------
    baseline
        Name of the contestant that differences refer to.
    directory
        Where finished runs are kept, so that an interrupted benchmark goes on.
    logs
        Directory in which the logs are looked for first.
    seed
        Draws the windows of the twins; None for the published one.
    quick
        Take one case of each log and its twin only.
    on_broken_promise
        With ``"count"`` broken promises are counted, with ``"fail"`` a run with one fails.
    """
    check_distinct("scheduler", [each.name for each in contestants])
    known = case_list()
    seed = known.seed if seed is None else seed
    traces = BenchmarkLogs(known, logs)
    cases = benchmark_cases(known, traces, seed=seed, quick=quick)
    runs = BenchmarkRuns(traces.workloads)
    identities = {each.name: each.identity() for each in contestants}
    cells = {
        (case, each.name): BenchmarkCell(
            run=each.case_of(case.scenario, *identities[each.name], on_broken_promise),
            outages=case.outages,
        )
        for case in cases
        for each in contestants
    }
    failures = KeptRuns(directory / "failed", Failure, MADE_OF)
    failures.clear()
    scores = run_cases(
        runs,
        cells.values(),
        workers=workers,
        kept=KeptRuns(directory / "runs", Score, MADE_OF),
        failures=failures,
        group_by=lambda cell: cell.run.scenario,
        on_progress=on_progress,
    )
    bounds = kept_bounds()
    wanted = [each.scenario for each in cases if bound_key(each.scenario) not in bounds]
    if wanted and find_spec("ortools") is not None:
        store = KeptRuns(directory / "bounds", BenchmarkBound, MADE_OF)
        found = run_cases(runs.bound, wanted, workers=workers, kept=store, on_progress=on_progress)
        bounds |= {bound_key(scenario): each for scenario, each in found.items()}
    results = []
    for case in cases:
        own = {name: cell for (of, name), cell in cells.items() if of is case}
        missing = {name: failures.find(cell) for name, cell in own.items() if cell not in scores}
        results.append(
            CaseResult(
                name=case.name,
                half=case.half,
                log=case.log,
                stand_in=case.stand_in,
                about=told(case),
                key=case_key(case),
                bound=bounds.get(bound_key(case.scenario)),
                scores={name: scores[cell] for name, cell in own.items() if cell in scores},
                errors={name: each.error for name, each in missing.items() if each},
            )
        )
    present, stand_ins = present_logs(cases)
    return BenchmarkResult(
        package_version=__version__,
        benchmark_version=known.version,
        seed=seed,
        quick=quick,
        baseline=baseline,
        contestants=tuple(contestants),
        logs=tuple(present),
        stand_ins=stand_ins,
        cases=tuple(results),
    )


def case_key(case: BenchmarkCase) -> str:
    """Return the key of a case: that of its workload, and the seed of its outages."""
    outages = "" if case.outages is None else f" {case.outages}"
    return bound_key(case.scenario) + outages


def write_result(result: BenchmarkResult, directory: Path) -> Path:
    """Write a result's file into a directory; return its path."""
    path = directory / RESULT
    text = msgspec.json.format(msgspec.json.encode(result, order="sorted"), indent=1)
    write_text(path, text.decode() + "\n")
    return path


def read_result(path: Path) -> BenchmarkResult:
    """Read a result's file."""
    what = f"the {RESULT} of a benchmark"
    content = read_bytes(path, what=what, max_bytes=MAX_DESCRIPTION_BYTES)
    return decoded(content, msgspec.json.Decoder(BenchmarkResult), path, what)


def with_shared(result: BenchmarkResult, path: Path) -> BenchmarkResult:
    """Return a result with the other contestants of a shared one, where their cases are equal."""
    other = read_result(path)
    theirs = {each.key: each for each in other.cases}
    if not any(each.key in theirs for each in result.cases):
        raise InputError(
            f"{path}: has none of these cases (version {other.benchmark_version}, seed "
            f"{other.seed}, stand-ins for {', '.join(other.stand_ins) or 'no log'}); the result of "
            "a benchmark of the same version, with the same logs there, is expected"
        )
    new = tuple(each for each in other.contestants if each.name not in result.names)
    names = {each.name for each in new}
    cases = []
    for each in result.cases:
        same = theirs.get(each.key)
        if same is not None:
            scores = {name: score for name, score in same.scores.items() if name in names}
            each = msgspec.structs.replace(each, scores=each.scores | scores)
        cases.append(each)
    contestants = (*result.contestants, *new)
    return msgspec.structs.replace(result, contestants=contestants, cases=tuple(cases))
