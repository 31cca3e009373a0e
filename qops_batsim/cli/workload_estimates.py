"""``qops-batsim workload estimates``: estimates that are right or wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from qops_batsim.cli import options
from qops_batsim.cli.console import announce_compiling, announce_slow, say, warn
from qops_batsim.cli.inputs import read_source
from qops_batsim.cli.options import manual

if TYPE_CHECKING:
    from qops_batsim.workload.model import Workload

_about = manual(
    """
    --model exact|users|f-model|modal|predicted|error: Run times; walltimes; run time x a uniform
        number from 1 to f + 1; the values that users like, fitted to the walltimes; the mean of
        the last two jobs of the same user that have ended; run time x exp(a normal number).
    --margin FACTOR: Predictions (of predicted and error) are multiplied by it.
    --risk SHARE: Instead, learn the margin from the jobs that have ended before, so that this
        share of jobs outlives its prediction.
    --overrun run|kill: What outlives its prediction runs up to its walltime, or is killed.
    --badness F: f of the f-model; 0 is exact.
    --spread SIGMA: Standard deviation of the logarithm of the error.
    --seed N: Seed of f-model, modal and error.
    --requests FILE: Workload of the same jobs that has the users' walltimes, if IN has none:
        `workload deadlines` leaves them out unless it is told --keep-estimates.
    """
)


def estimates(
    source: options.WorkloadIn,
    out: options.WorkloadOut,
    model: Annotated[str, _about("--model")],
    margin: Annotated[float, _about("--margin")] = 1.0,
    risk: Annotated[float | None, _about("--risk")] = None,
    overrun: Annotated[str, _about("--overrun")] = "run",
    badness: Annotated[float, _about("--badness")] = 5.0,
    spread: Annotated[float, _about("--spread")] = 1.0,
    seed: Annotated[int, _about("--seed")] = 1,
    requests: Annotated[Path | None, _about("--requests")] = None,
) -> None:
    """Replace the estimates that schedulers plan with by those of a model.

    Deadlines and run times stay, so that runs with different estimates can be compared job by
    job. What planning uses is `qos.estimated_runtime`; what kills a job is its walltime. A
    prediction is never above the walltime. When a job's run time is known to those who predict is
    its end under EASY backfilling with the walltimes.

    Examples:

    \b
        # Promise on what users request, which is never too short;
        # asked.json are the jobs of ctc.json after workload deadlines:
        qops-batsim workload estimates asked.json users.json --model users \\
          --requests ctc.json
        # Promise on predictions, twice as long as the last two jobs of a user:
        qops-batsim workload estimates asked.json doubled.json \\
          --model predicted --margin 2 --requests ctc.json
        # Let 1 % of the predictions be too short, and kill what outlives its own:
        qops-batsim workload estimates asked.json strict.json \\
          --model predicted --risk 0.01 --overrun kill --requests ctc.json
    """
    from qops_batsim.experiments.deadline_workload import give_estimates
    from qops_batsim.workload.batsim_json import write_workload
    from qops_batsim.workload.estimate_models import EstimateChoices

    choices = EstimateChoices(
        model=model,
        margin=margin,
        risk=risk,
        overrun=overrun,
        badness=badness,
        spread=spread,
        seed=seed,
    )
    choices.check()
    asked = None if requests is None else read_source(str(requests), out)
    with announce_compiling(), announce_slow("running EASY for what has ended ..."):
        result = give_estimates(read_source(source, out), choices, requests=asked)
    write_workload(result, out)
    say(f"{out}: {len(result.jobs):,} jobs on {result.processors} processors, {choices.name}")
    _tell(result)


def _tell(result: Workload) -> None:
    """Print how the estimates compare with the run times, and with the deadlines."""
    from qops_batsim.workload.deadlines import too_early
    from qops_batsim.workload.estimate_models import count_estimates

    counts = count_estimates(result)
    say(
        f"too short: {counts.too_short:,} ({100 * counts.too_short / counts.jobs:.2f} %), "
        f"{counts.killed:,} of them killed; estimate / run time: {counts.median:.2f} in the median"
    )
    if doubt := too_early(result):
        warn(doubt)
