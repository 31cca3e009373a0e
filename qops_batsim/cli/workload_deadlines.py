"""``qops-batsim workload scale`` and ``deadlines``: workloads for deadline experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from qops_batsim.cli import options
from qops_batsim.cli.console import announce_compiling, announce_slow, say, warn
from qops_batsim.cli.inputs import read_source
from qops_batsim.cli.options import manual
from qops_batsim.cli.texts import load_text

if TYPE_CHECKING:
    from qops_batsim.workload.model import Workload

_about = manual(
    """
    --load X: Relative load: 1 is the trace itself, 1.3 offers 30 % more work.
    --seed N: Seed of the sample; with one seed, greater loads hold smaller ones.
    --same-time: Submit duplicates with their originals. Default: at random times.
    """
)
_of_deadlines = manual(
    """
    --seed N: Seed of the share; with one seed, greater shares hold smaller ones.
    --reference scaled|unscaled: Run EASY on the workload as it is, or without duplicates, which
        then get the response times of their originals.
    --at-least run-time|estimate: A user's deadline is no earlier than submission + run time, or
        + estimate, which a scheduler plans with (--keep-estimates).
    --keep-estimates: Leave walltimes and estimates as they are. Default: each job carries its
        run time, cut to its walltime, in qos and has no walltime.
    """
)


def scale(
    source: options.WorkloadIn,
    out: options.WorkloadOut,
    load: Annotated[float, _about("--load")] = 1.0,
    method: options.LoadMethod = "duplication",
    seed: Annotated[int, _about("--seed")] = 1,
    first: options.First = 5000,
    skip: options.Skip = 0,
    same_time: Annotated[bool, _about("--same-time")] = False,
) -> None:
    """Take a subset of a workload and change the load it offers (Islam et al. 2003).

    By duplication, (load - 1) × jobs are submitted again at a random time of the trace; the
    first duplicate of job 15 is 15d1 and tells so (`qos.origin`). Deadlines are for
    `workload deadlines`, afterwards.

    Examples:

    \b
        # The first 5,000 jobs of a log, and 1,500 duplicates:
        qops-batsim workload scale ctc.json ctc-1.3.json --load 1.3 --seed 1
        # The next 5,000 jobs, each running 30 % longer:
        qops-batsim workload scale ctc.json long.json --skip 5000 --load 1.3 \\
          --method expansion
    """
    from qops_batsim.workload.batsim_json import write_workload
    from qops_batsim.workload.generate import summarise
    from qops_batsim.workload.scale import scale_load
    from qops_batsim.workload.subset import subset

    trace = subset(read_source(source, out), first=first or None, skip=skip)
    scaled = scale_load(trace, load, method=method, seed=seed, same_time=same_time)
    write_workload(scaled, out)
    added = len(scaled.jobs) - len(trace.jobs)
    duplicates = f", {added} of them duplicates" if method == "duplication" else ""
    say(f"{out}: {len(scaled.jobs)} jobs on {scaled.processors} processors{duplicates}")
    before, now = (summarise(each).offered_load for each in (trace, scaled))
    share = "" if before is None or now is None else f"{before:.4f} of the trace, {now:.4f} now"
    say(f"offered load: {share or load_text(None)}")


def deadlines(
    source: options.WorkloadIn,
    out: options.WorkloadOut,
    stringency: options.Stringency = 0.2,
    deadline_share: options.DeadlineShare = 1.0,
    relaxation: options.Relaxation = 2.0,
    artificial: options.Artificial = "run-time",
    seed: Annotated[int, _of_deadlines("--seed")] = 1,
    reference: Annotated[str, _of_deadlines("--reference")] = "scaled",
    keep_estimates: Annotated[bool, _of_deadlines("--keep-estimates")] = False,
    at_least: Annotated[str, _of_deadlines("--at-least")] = "run-time",
) -> None:
    """Give jobs deadlines, somewhat earlier than EASY would complete them (Islam et al. 2003).

    Runs EASY backfilling on the workload, on a machine of its size. Deadlines the jobs had are
    replaced.

    Examples:

    \b
        # A deadline for every job:
        qops-batsim workload deadlines ctc-1.3.json ctc-1.3-s02.json \\
          --stringency 0.2
        # For a fifth of them, and lax artificial ones for the rest:
        qops-batsim workload deadlines ctc-1.3.json mixed.json \\
          --deadline-share 0.2 --relaxation 5
    """
    from qops_batsim.experiments.deadline_workload import give_deadlines
    from qops_batsim.workload.batsim_json import write_workload
    from qops_batsim.workload.deadlines import DeadlineChoices, count_deadlines

    choices = DeadlineChoices(
        stringency=stringency,
        share=deadline_share,
        artificial=artificial,
        relaxation=relaxation,
        seed=seed,
    )
    workload = read_source(source, out)
    with announce_compiling(), announce_slow("running EASY as reference ..."):
        result = give_deadlines(
            workload,
            choices,
            reference=reference,
            keep_estimates=keep_estimates,
            at_least=at_least,
        )
    write_workload(result, out)
    counts = count_deadlines(result)
    say(f"{out}: {len(result.jobs)} jobs on {result.processors} processors")
    say(
        f"user deadlines: {counts.user}, {counts.without_laxity} of them met only by an "
        "immediate start"
    )
    say(f"artificial deadlines: {counts.artificial}, without deadline: {counts.none}")
    _tell_estimates(workload, result)


def _tell_estimates(before: Workload, after: Workload) -> None:
    """Warn of what was assumed about estimates, and of deadlines that they rule out."""
    from qops_batsim.workload.deadlines import too_early

    told = [job.estimate for job in before.jobs]
    changed = sum(
        old is not None and old != new.estimate for old, new in zip(told, after.jobs, strict=True)
    )
    if changed:
        warn(
            f"{changed:,} of {len(told):,} estimates were not exact and are replaced by run times, "
            "so that schedulers know these in advance (--keep-estimates leaves them)"
        )
    if doubt := too_early(after, "--at-least estimate makes them later"):
        warn(doubt)
