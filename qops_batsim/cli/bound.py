"""``qops-batsim bound``: upper bounds of admission, and the best known schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from qops_batsim.cli import common_options, console
from qops_batsim.cli.common_options import manual
from qops_batsim.errors import require_one_of

if TYPE_CHECKING:
    from qops_batsim.optimum.best import Best, Limits
    from qops_batsim.platform.platform_model import Platform
    from qops_batsim.workload.workload_model import Workload

OBJECTIVES = ("jobs", "work", "charge")

_about = manual(
    """
    WORKLOAD: Workload of delay jobs with deadlines (JSON, also .gz), or a shipped one.
    --platform, -p FILE: SimGrid platform (XML) whose hosts have amounts that jobs share, or the
        name of a shipped one. Default: as many equal hosts as the workload is for.
    --objective jobs|work|charge: What to maximise: admitted jobs, their processor-seconds, or
        the QoS charges of their deadlines. Default: each by itself.
    --time SECONDS: How long to search, for all objectives together.
    --deterministic-time UNITS: Search for this long in the solver's own count of steps instead
        (a unit takes about a second): equal inputs then give equal results.
    --seed N: Seed of the search.
    --workers N: Threads of the solver while it works on the bound.
    --out, -o PREFIX: Where to write the best known schedules, as runs: PREFIX-jobs_jobs.csv
        and so on for each objective.
    """
)


def bound(
    workload: Annotated[str, _about("WORKLOAD")],
    platform: Annotated[str | None, _about("--platform")] = None,
    objective: Annotated[str | None, _about("--objective", show_default=False)] = None,
    time: Annotated[float, _about("--time", min=0.1)] = 300.0,
    deterministic_time: Annotated[
        float | None, _about("--deterministic-time", min=0.1, show_default=False)
    ] = None,
    seed: Annotated[int, _about("--seed", min=0)] = 1,
    workers: Annotated[int, _about("--workers", min=1)] = 1,
    out: Annotated[str, _about("--out")] = "out/clairvoyant",
    as_json: common_options.AsJson = False,
) -> None:
    """Compute an upper bound of what any scheduler could admit, and search for the best schedule.

    The best schedule may know the future: which jobs will come, and how long they run. The bound
    holds for every schedule of rigid jobs on interchangeable hosts. Best known schedules are
    executed, verified and written as runs, for `metrics`, `plot`, `diff` and `charges`.
    On hosts that jobs share, the bound is the least by one kind, and the best known schedule that
    of a scheduler.
    docs/bound.md explains the proofs. Needs the extra `bound`:
    `pip install 'qops-batsim[bound]'`.

    Examples:

    \b
        qops-batsim bound sdsc_sp2_deadlines_500 --time 60
        qops-batsim bound ctc-1.3-s02.json --objective work --json
        qops-batsim diff out/qops out/clairvoyant-jobs
    """
    from qops_batsim.files import check_writable
    from qops_batsim.optimum.best import Limits
    from qops_batsim.optimum.clairvoyant import write_best
    from qops_batsim.optimum.solver import require_solver
    from qops_batsim.running.inputs import load_platform, load_workload

    if objective is not None:
        require_one_of("--objective", objective, OBJECTIVES)
    require_solver()
    jobs = load_workload(workload)
    machine = None if platform is None else load_platform(platform, jobs)
    objectives = OBJECTIVES if objective is None else (objective,)
    prefixes = {each: f"{out}-{each}" for each in objectives}
    for prefix in prefixes.values():
        check_writable(f"{prefix}_jobs.csv")
    limits = Limits(
        seconds=deterministic_time or time,
        by_clock=deterministic_time is None,
        seed=seed,
        workers=workers,
    )

    results = _search(jobs, objectives, limits, machine)
    for best in results:
        write_best(best, jobs, prefixes[best.objective], workload, platform)
    if as_json:
        console.print_json({best.objective: _data(best) for best in results})
    else:
        hosts = f"{jobs.processors:,} processors"
        if machine is not None:
            hosts = f"{len(machine.compute_hosts):,} shared hosts"
        title = f"The best possible: {workload}, {len(jobs.jobs):,} jobs on {hosts}"
        console.print_table(title, *_table(results, is_shared=machine is not None))
    console.note(
        "each best known schedule was executed and verified; runs written: "
        + ", ".join(prefixes.values())
    )


def _search(
    jobs: Workload, objectives: tuple[str, ...], limits: Limits, machine: Platform | None
) -> list[Best]:
    from qops_batsim.optimum.best import best_possible
    from qops_batsim.workload.deadlines import early_deadlines_warning

    if doubt := early_deadlines_warning(
        jobs, "by the schedulers; the best possible knows run times"
    ):
        console.warn(doubt)
    bars = console.progress_bar(100 * len(objectives), "searching")
    with bars as bar:

        def hear(name: str, part: float) -> None:
            if bar is not None:
                bar(round(100 * (objectives.index(name) + part)))

        return best_possible(jobs, objectives, limits, hear, machine)


def _data(best: Best) -> dict[str, Any]:
    import msgspec

    data: dict[str, Any] = msgspec.to_builtins(best)
    del data["objective"], data["starts"]
    return {"bound": data.pop("bound"), "best_known": data.pop("best_known"), **data}


_TITLES = {"jobs": "jobs", "work": "processor-hours", "charge": "QoS charge"}
_PROOFS = {
    "every job": "all that fit",
    "energy": "energy (checked)",
    "solver": "solver (believed)",
}


def _table(results: list[Best], is_shared: bool) -> tuple[list[str], list[list[str]]]:
    """Return the headings and rows of the table: a column for each objective."""
    names = ["all", *results[0].schedulers, "best known", "bound", "bound, checked"]
    names += ["gap (points)", "bound proven by"]
    titles = _TITLES | {"work": "host-hours"} if is_shared else _TITLES
    headings = ["admitted", *(titles[best.objective] for best in results)]
    return headings, [list(row) for row in zip(names, *map(_column, results), strict=True)]


def _column(best: Best) -> list[str]:
    unit = 3600 if best.objective == "work" else 1
    decimals = 0 if best.objective == "jobs" else 1
    known = [best.total, *best.schedulers.values(), best.best_known, best.bound, best.checked_bound]
    cells = []
    for value in known:
        share = f" {100 * value / best.total:6.2f} %" if best.total else ""
        cells.append(f"{value / unit:,.{decimals}f}{share}")
    return [*cells, f"{best.gap:.2f}", _PROOFS[best.proof]]
