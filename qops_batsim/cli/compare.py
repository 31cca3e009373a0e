"""``qops-batsim compare``: a study of one log, given by options."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated

from qops_batsim.cli import common_options
from qops_batsim.cli.common_options import manual
from qops_batsim.cli.study import tell_study
from qops_batsim.errors import InputError
from qops_batsim.parameters import (
    ARTIFICIAL,
    COUNT,
    ESTIMATES,
    METHOD,
    RELAXATION,
    SEEDS,
    SHARE,
    STRINGENCY,
)
from qops_batsim.shipped import DEFAULT_WORKLOAD

DEFAULT_SCHEDULERS = ["easy", "conservative", "msb", "mrt", "qops"]
MOST_LOADS = 1000

_about = manual(
    """
    SCHEDULER...: Schedulers to compare, registered ones or my_file.py:MyScheduler, with options as
        in qops:k_factor=1,order=earliest_deadline. Default: easy conservative msb mrt qops.
    --workload, -w FILE: The log: a Batsim workload of delay jobs (JSON, also .gz), a shipped
        one, or an SWF file. Deadlines it has are replaced.
    --loads FROM:TO:STEP: Relative loads, both ends included; or a list: 1,1.3.
    --seeds N: Use seeds 1 to N.
    --out, -o DIR: Directory of the study: what is run, finished runs, tables, pictures.
    --baseline SCHEDULER: Scheduler that differences refer to. Default: msb if compared, else the
        first.
    --bound UNITS: Also compute and draw the upper bound and the best known schedule of each
        workload, as `bound` does in this deterministic time (units of about a second).
    --html FILE: Write everything into one page, which needs no other file.
    """,
    ESTIMATES.option,
)


def compare(
    schedulers: Annotated[list[str] | None, _about("SCHEDULER...", show_default=False)] = None,
    workload: Annotated[str, _about("--workload")] = DEFAULT_WORKLOAD,
    loads: Annotated[str, _about("--loads")] = "1.0:1.6:0.1",
    seeds: Annotated[int, _about("--seeds", min=1)] = SEEDS,
    first: common_options.First = 0,
    skip: common_options.Skip = 0,
    stringency: common_options.Stringency = STRINGENCY.default,
    deadline_share: common_options.DeadlineShare = SHARE.default,
    artificial: common_options.Artificial = ARTIFICIAL.default,
    relaxation: common_options.Relaxation = RELAXATION.default,
    method: common_options.LoadMethod = METHOD.default,
    estimates: Annotated[str | None, _about("--estimates", show_default="users")] = None,
    platform: common_options.Platform = None,
    baseline: Annotated[str | None, _about("--baseline", show_default=False)] = None,
    bound: Annotated[float | None, _about("--bound", min=0.1, show_default=False)] = None,
    on_broken_promise: common_options.OnBrokenPromise = COUNT,
    out: Annotated[Path, _about("--out")] = Path("out/compare"),
    page: Annotated[Path | None, _about("--html", show_default=False)] = None,
    workers: common_options.Processes = 1,
    dask: common_options.Dask = None,
) -> None:
    """Compare schedulers on deadline workloads over loads and seeds (Islam et al. 2003).

    For each load and seed, makes a workload with deadlines from the log, as `workload scale` and
    `workload deadlines` do, and runs every scheduler on it. Deadlines are made from the log's
    walltimes, and schedulers plan with these; `--estimates exact`, or `--bound`, replaces them by
    run times.

    It is a study of one log: finished runs are kept in DIR and not made again, and `study status`
    and `study report` read it. Writes to DIR runs.csv, a row a run; table.csv and report.json,
    means over the seeds with 95 % intervals (Student), paired differences to the baseline, and
    verdicts; and pictures. The default, on 1,000 jobs, takes about a minute of CPU time; 28,481
    jobs at four loads with three seeds, eight.

    Examples:

    \b
        # A first impression:
        qops-batsim compare --loads 1,1.3,1.6 --seeds 3
        # Figures 4 and 6:
        qops-batsim compare easy conservative msb mrt qops -w ctc.json \\
          --first 5000
        # Several settings of one scheduler:
        qops-batsim compare qops qops:k_factor=20 --html k.html
    """
    from qops_batsim.experiments.compare import comparison_of
    from qops_batsim.experiments.deadline_runs import contestants_of
    from qops_batsim.workload.deadlines import DeadlineChoices

    study = comparison_of(
        contestants_of(schedulers or DEFAULT_SCHEDULERS),
        workload,
        loads=read_loads(loads),
        seeds=seeds,
        deadlines=DeadlineChoices(
            stringency=stringency,
            share=deadline_share,
            artificial=artificial,
            relaxation=relaxation,
        ),
        method=method,
        skip=skip,
        first=first or None,
        estimates=estimates,
        platform=platform,
        baseline=baseline,
        bound=bound,
        on_broken_promise=on_broken_promise,
    )
    tell_study(study, out, Path(), dask or workers, ending="png", page=page)


def read_loads(text: str) -> tuple[float, ...]:
    """Parse loads: ``1.0:1.6:0.1`` (both ends included) or ``1,1.3``."""
    unreadable = InputError(
        f"--loads is {text}; FROM:TO:STEP, as 1.0:1.6:0.1, or numbers separated by commas, are "
        "expected"
    )
    parts = text.split(":")
    try:
        numbers = [Decimal(part.strip()) for part in (parts if len(parts) > 1 else text.split(","))]
    except InvalidOperation:
        raise unreadable from None
    if len(parts) not in (1, 3) or not all(number.is_finite() for number in numbers):
        raise unreadable

    if len(parts) == 3:
        begin, end, step = numbers
        # A sum of floats would miss the end: 1 + 6 × 0.1 exceeds 1.6.
        if not (step > 0 and end >= begin and (end - begin) / step < MOST_LOADS):
            raise InputError(
                f"--loads is {text}; FROM:TO:STEP with TO not below FROM, a STEP above 0 and "
                f"at most {MOST_LOADS} loads is expected"
            )
        numbers = [begin + step * i for i in range(int((end - begin) / step) + 1)]
    return tuple(map(float, numbers))
