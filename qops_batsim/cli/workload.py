"""``qops-batsim workload``: import, generate, download and change workloads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qops_batsim.cli import common_options, need_options
from qops_batsim.cli.command_inputs import duration, read_source
from qops_batsim.cli.common_options import manual
from qops_batsim.cli.console import announce_slow, note, progress_bar, say, warn
from qops_batsim.cli.texts import asked_text, load_text
from qops_batsim.cli.workload_import import import_log
from qops_batsim.cli.workload_users import users
from qops_batsim.errors import InputError, require_one_of
from qops_batsim.parameters import (
    ARTIFICIAL,
    ESTIMATES,
    EXACT,
    METHOD,
    RELAXATION,
    SHARE,
    STRINGENCY,
    USERS,
)

if TYPE_CHECKING:
    from qops_batsim.core.machine import Machine
    from qops_batsim.platform import Platform
    from qops_batsim.workload.workload_model import Workload

EASY = "easy"
NEED = "need"
SCALED = "scaled"

app = typer.Typer(no_args_is_help=True, help="Read, check, convert and make workloads.")

app.command("import")(import_log)
app.command("users")(users)

_of_generate = manual(
    """
    --preset NAME: Parameters: ctc-sp2, sdsc-sp2 and kth-sp2 are fitted to those machines' logs,
        lublin-batch are the published ones; mixed, graham: see above.
    --platform, -p FILE: Of graham, the machine on which each job fits: a SimGrid platform
        whose hosts have amounts. Default: hosts of 32 cores and 128,000 MiB, 16 % of them with
        2 GPUs.
    --load X: Offered load, reached by one factor on all gaps between submissions. Default: that
        of the log; as sampled for lublin-batch; 0.9 for graham.
    --exact-estimates: Estimates equal run times: each job carries its run time in qos and has
        no walltime.
    --out, -o FILE: File to copy the log to, or directory. Default: leave it in the cache.
    --cache DIR: Directory to keep downloads in. Default: the user's cache directory.
    --jobs N: Number of jobs, of mixed: applications. Default: 1,000, of mixed 48.
    --seed N: Seed; the same seed gives the same file.
    --processors N: Size of the machine. Default: the preset's; of graham, 300 hosts.
    log: kth-sp2, sdsc-sp2, ctc-sp2, hpc2n, sdsc-blue, cea-curie, ricc, thunder or metacentrum.
    [Deadlines]
    --deadline-share X: Share of the jobs, 0 to 1, that get a deadline: submission + stretch x run
        time. Above 0, estimates are exact.
    --stretch LOW HIGH: Range in which each deadline's stretch is drawn, from 1 up.
    """
)


@app.command("generate")
def generate(
    out: common_options.WorkloadOut,
    preset: Annotated[str, _of_generate("--preset")] = "sdsc-sp2",
    jobs: Annotated[int | None, _of_generate("--jobs")] = None,
    seed: Annotated[int, _of_generate("--seed")] = 1,
    processors: Annotated[int | None, _of_generate("--processors")] = None,
    load: Annotated[float | None, _of_generate("--load")] = None,
    exact_estimates: Annotated[bool, _of_generate("--exact-estimates")] = False,
    deadline_share: Annotated[float, _of_generate("--deadline-share")] = 0.0,
    stretch: Annotated[tuple[float, float], _of_generate("--stretch")] = (2.0, 10.0),
    platform: Annotated[str | None, _of_generate("--platform")] = None,
) -> None:
    """Make a synthetic workload of rigid jobs (model of Lublin and Feitelson, 2003).

    Sizes, run times, arrivals with a daily cycle, and run-time estimates as users
    give them. The file records every parameter and the seed.

    Preset mixed is another model: applications of all four classes of service, with memory and
    communication, from three sites, for unequal hosts that are shared, such as the shipped
    platform aroma_grid.

    Preset graham is a third: jobs that ask for parts of hosts (cores, memory, GPUs, tasks), in
    bursts, as those of a centre did in 2021. Its load counts the dominant share of each job.

    Examples:

    \b
        # 5,000 jobs like those of the CTC SP2:
        qops-batsim workload generate ctc.json --preset ctc-sp2 --jobs 5000 \\
          --seed 1
        # A 256-processor machine at load 0.9:
        qops-batsim workload generate big.json --processors 256 --load 0.9
        # A fifth of the jobs with deadlines:
        qops-batsim workload generate asked.json --preset kth-sp2 \\
          --deadline-share 0.2
        # Applications that share hosts:
        qops-batsim workload generate mixed.json --preset mixed --jobs 200
        # Jobs that ask for parts of the hosts of a platform:
        qops-batsim workload generate parts.json --preset graham \\
          --platform nodes.xml --jobs 5000 --load 1.1
    """
    from qops_batsim.workload.synthetic import DeadlineRule, generate_workload

    if preset == MIXED:
        given = {"--load": load, "--exact-estimates": exact_estimates, "--platform": platform}
        for option, value in (given | {"--deadline-share": deadline_share}).items():
            if value:
                raise InputError(f"{option} has no effect with --preset {MIXED}; leave it out")
        from qops_batsim.workload.service_classes import mixed_workload

        hosts = 68 if processors is None else processors
        _write_classes(mixed_workload(48 if jobs is None else jobs, seed, processors=hosts), out)
        return
    asked: dict[str, Any] = {
        "jobs": 1000 if jobs is None else jobs,
        "seed": seed,
        "load": load,
        "exact_estimates": exact_estimates,
        "deadlines": DeadlineRule(share=deadline_share, stretch=stretch),
    }
    if preset == GRAHAM:
        from qops_batsim.workload.node_mix import node_mix_workload

        machine = _machine_in(platform)
        made = node_mix_workload(preset, machine=machine, hosts=processors, **asked)
        _write(made, out)
        load = made.provenance["offered_load"]
        say(f"offered load by dominant shares: {load_text(load)}")
        return
    if platform is not None:
        raise InputError(f"--platform has no effect with --preset {preset}; leave it out")
    workload = generate_workload(preset, processors=processors, **asked)
    _write(workload, out)
    say(f"offered load: {load_text(workload.offered_load)}")


def _platform(name: str | None) -> Platform | None:
    if name is None:
        return None
    from qops_batsim.platform import read_platform

    return read_platform(name)


def _machine_in(name: str | None) -> Machine | None:
    """Return the machine of a platform, if one is given; InputError if its hosts have no
    amounts.
    """
    platform = _platform(name)
    return None if platform is None else platform.shared_machine()


@app.command("fetch")
def fetch(
    log: Annotated[str, _of_generate("log")],
    out: Annotated[Path | None, _of_generate("--out")] = None,
    cache: Annotated[Path | None, _of_generate("--cache")] = None,
) -> None:
    """Download a log of the Parallel Workloads Archive and print its path.

    A log is downloaded once. The checksum of kth-sp2 is known to this package. For the
    others, that of the first download is recorded next to the file, and later downloads must
    agree with it. Versions without flurries are taken where the archive has them.

    Examples:

    \b
        # Into the cache:
        qops-batsim workload fetch kth-sp2
        # And a copy here:
        qops-batsim workload fetch sdsc-sp2 --out .
    """
    from qops_batsim.traces.archive import copy_log, fetch_log

    with progress_bar(1, log) as bar:  # How many bytes there are, the server tells.
        found = fetch_log(log, cache=cache, progress=bar)
    if found.checked_against == "nothing":
        note(
            f"first download of {found.path.name}: its checksum could not be checked, but is "
            f"recorded for the next time (sha256 {found.sha256})"
        )
    typer.echo(found.path if out is None else copy_log(found, out))


_of_scale = manual(
    """
    --load X: Relative load: 1 is the trace itself, 1.3 offers 30 % more work.
    --seed N: Seed of the sample; with the same seed, a greater load has all jobs of a smaller one.
    --same-time: Submit duplicates with their originals. Default: at random times.
    --platform, -p FILE: Platform whose hosts have amounts: the offered load counts the dominant
        share that jobs take of it. Default: hosts count whole.
    """
)
_of_easy = manual(
    """
    --platform, -p FILE: The machine on which EASY runs, needed by jobs that ask for parts of
        hosts. Default: as many whole hosts as the workload has processors.
    """
)
_of_deadlines = manual(
    """
    --by easy|need: Make deadlines from EASY's schedule (Islam et al. 2003), or from users'
        needs, without a schedule.
    --seed N: Seed of all that is drawn; with the same seed, a greater share has all jobs of a
        smaller one.
    --reaction TIME: Print how many deadlines have less laxity than this, a scheduler's reaction
        time.
    [From EASY's schedule]
    --reference scaled|unscaled: Run EASY on the workload as it is, or without duplicates, which
        then get the response times of their originals.
    [Estimates]
    --at-least estimate|run-time: A user's deadline is no earlier than submission + estimate,
        which a scheduler plans with, or + run time. Default: estimate.
    """,
    ESTIMATES.option + " Exact: each job carries its run time, cut to its walltime, in qos and has "
    "no walltime.",
)


@app.command("scale")
def scale(
    source: common_options.WorkloadIn,
    out: common_options.WorkloadOut,
    load: Annotated[float, _of_scale("--load")] = 1.0,
    method: common_options.LoadMethod = METHOD.default,
    seed: Annotated[int, _of_scale("--seed")] = 1,
    first: common_options.First = 0,
    skip: common_options.Skip = 0,
    same_time: Annotated[bool, _of_scale("--same-time")] = False,
    platform: Annotated[str | None, _of_scale("--platform")] = None,
) -> None:
    """Take a range of a workload's jobs, and change its load (Islam et al. 2003).

    By duplication, (load - 1) × jobs are submitted again at a random time of the trace; the
    first duplicate of job 15 is 15d1 and tells so (`qos.origin`). Deadlines are for
    `workload deadlines`, afterwards.

    Examples:

    \b
        # The first 5,000 jobs of a log, and 1,500 duplicates:
        qops-batsim workload scale ctc.json ctc-1.3.json --first 5000 \\
          --load 1.3 --seed 1
        # The next 5,000 jobs, each running 30 % longer:
        qops-batsim workload scale ctc.json long.json --skip 5000 --first 5000 \\
          --load 1.3 --method expansion
    """
    from qops_batsim.workload.scale import scale_load, subset

    machine = _machine_in(platform)
    whole = read_source(source, out)
    trace = subset(whole, first=first or None, skip=skip)
    scaled = scale_load(trace, load, method=method, seed=seed, same_time=same_time)
    added = len(scaled.jobs) - len(trace.jobs)
    _write(scaled, out, f", {added} of them duplicates" if method == "duplication" else "")
    if len(trace.jobs) < len(whole.jobs):
        say(
            f"made of {len(trace.jobs):,} of {len(whole.jobs):,} jobs, from job {skip + 1:,} on in "
            "the order of submission"
        )
    if machine is None:
        before = trace.offered_load
        now = scaled.offered_load
        counted = "" if trace.columns.hosts_asked is None else " (hosts counted whole)"
    else:
        from qops_batsim.measures.results.host_amounts import load_on

        before = load_on(trace, machine)
        now = load_on(scaled, machine)
        counted = " by dominant shares"
    share = "" if before is None or now is None else f"{before:.4f} of the trace, {now:.4f} now"
    say(f"offered load{counted}: {share or load_text(None)}")


def _write(workload: Workload, out: Path, more: str = "") -> None:
    """Write a workload, and print how large it is."""
    from qops_batsim.workload.batsim_json import write_workload

    write_workload(workload, out)
    say(f"{out}: {len(workload.jobs)} jobs on {workload.processors} processors{more}")
    if told := asked_text(workload):
        say(told)


@app.command("deadlines")
def deadlines(
    source: common_options.WorkloadIn,
    out: common_options.WorkloadOut,
    by: Annotated[str, _of_deadlines("--by")] = EASY,
    stringency: common_options.Stringency = STRINGENCY.default,
    deadline_share: common_options.DeadlineShare = SHARE.default,
    relaxation: common_options.Relaxation = RELAXATION.default,
    artificial: common_options.Artificial = ARTIFICIAL.default,
    seed: Annotated[int, _of_deadlines("--seed")] = 1,
    reaction: Annotated[str, _of_deadlines("--reaction")] = "60s",
    reference: Annotated[str, _of_deadlines("--reference")] = SCALED,
    estimates: Annotated[str, _of_deadlines("--estimates")] = ESTIMATES.default,
    at_least: Annotated[str | None, _of_deadlines("--at-least", show_default=False)] = None,
    mix: need_options.Mix = None,
    factors: need_options.Factors = None,
    at: need_options.At = None,
    days: need_options.Days = None,
    slack: need_options.Slack = None,
    begins: need_options.Begins = None,
    time_zone: need_options.TimeZone = None,
    platform: Annotated[str | None, _of_easy("--platform")] = None,
) -> None:
    """Give jobs deadlines: from EASY's schedule (Islam et al. 2003), or by users' needs.

    By easy (default), they are somewhat earlier than EASY backfilling would complete the jobs, on a
    machine of the workload's size. By need, they are submission + estimate + a slack that
    depends on no schedule: a factor of the estimate, the time until the next working time, or a
    fixed slack. Existing deadlines are replaced. EASY is always run, to count the deadlines it
    meets.

    Examples:

    \b
        # A deadline for every job:
        qops-batsim workload deadlines ctc-1.3.json ctc-1.3-s02.json \\
          --stringency 0.2
        # For a fifth of them, and lax artificial ones for the rest:
        qops-batsim workload deadlines ctc-1.3.json mixed.json \\
          --deadline-share 0.2 --relaxation 5
        # By need: half by a factor, the others by working hours or a slack:
        qops-batsim workload deadlines kth.json need.json --by need
        # The next morning at work, of a log that does not tell its dates:
        qops-batsim workload deadlines ctc.json mornings.json --by need \\
          --mix hours=1 --at 9:00 --begins 1996-06-26 --time-zone US/Eastern
    """
    from qops_batsim.experiments.deadline_workload import (
        deadline_facts,
        give_deadlines_by_need,
        measure,
    )
    from qops_batsim.workload.deadlines import (
        DeadlineChoices,
        count_deadlines,
        early_deadlines_warning,
    )
    from qops_batsim.workload.estimates import estimates_sentence

    require_one_of("--by", by, (EASY, NEED))
    require_one_of("--estimates", estimates, (USERS, EXACT))
    others: dict[str, Any] = {
        "share": deadline_share,
        "artificial": artificial,
        "relaxation": relaxation,
        "seed": seed,
    }
    machine = _platform(platform)
    texts = {
        "mix": mix,
        "factors": factors,
        "at": at,
        "days": days,
        "slack": slack,
        "begins": begins,
        "time_zone": time_zone,
    }
    seconds = duration(reaction, "--reaction")
    users = estimates == USERS
    if by == NEED:
        _refuse(by, stringency=stringency != STRINGENCY.default, reference=reference != SCALED)
        needs = need_options.need_choices(texts, others)
        workload = read_source(source, out)
        if needs.calendar is not None and workload.calendar is not None:
            raise InputError(
                f"--begins is {begins}, but {source} tells its own date, "
                f"{workload.calendar.text(0)}; leave --begins out"
            )
        result = give_deadlines_by_need(workload, needs, keep_estimates=users, at_least=at_least)
        response_times = None
    else:
        _refuse(by, **{name: text is not None for name, text in texts.items()})
        choices = DeadlineChoices(stringency=stringency, **others)
        choices.check()
        workload = read_source(source, out)
        with announce_slow("running EASY as reference ..."):
            about: dict[str, Any] = {"keep_estimates": users, "platform": machine}
            measured = measure(workload, reference=reference, **about)
        result = measured.give(choices, at_least=at_least)
        response_times = measured.response_times
    with announce_slow("running EASY to compare ..."):
        facts = deadline_facts(result, response_times, reaction=seconds, platform=machine)
    _write(result, out)
    counts = count_deadlines(result)
    say(
        f"user deadlines: {counts.user}, {counts.without_laxity} of them met only by an "
        "immediate start"
    )
    say(f"artificial deadlines: {counts.artificial}, without deadline: {counts.none}")
    say(estimates_sentence(workload, estimates))
    say(facts.text)
    if doubt := early_deadlines_warning(result, "--at-least estimate makes them later"):
        warn(doubt)


def _refuse(by: str, **are_given: bool) -> None:
    """Raise an InputError if a given option has no effect on deadlines of the kind ``by``."""
    for name, is_given in are_given.items():
        if is_given:
            raise InputError(
                f"--{name.replace('_', '-')} has no effect on deadlines made --by {by}; leave it "
                "out"
            )


_of_estimates = manual(
    """
    --model exact|users|f-model|modal|predicted|error: exact: run times; users: walltimes; f-model:
        run time x a uniform number from 1 to f + 1; modal: values that users like, fitted to the
        walltimes; predicted: mean run time of the same user's last two ended jobs; error: run
        time x exp(a normal number).
    --requests FILE: Workload of the same jobs that has the users' walltimes, if IN has none:
        `workload deadlines --estimates exact` leaves them out.
    [Predictions (models predicted and error)]
    --margin FACTOR: Factor by which predictions are multiplied.
    --risk SHARE: Instead of --margin, learn the factor from the jobs that have ended before, so
        that this share of jobs outlives its prediction.
    --overrun run|kill: A job that outlives its prediction runs up to its walltime, or is
        killed.
    [Random models]
    --badness F: f of the f-model; 0 is exact.
    --spread SIGMA: Standard deviation of the logarithm of the error.
    --seed N: Seed of f-model, modal and error.
    """
)


@app.command("estimates")
def estimates(
    source: common_options.WorkloadIn,
    out: common_options.WorkloadOut,
    model: Annotated[str, _of_estimates("--model")],
    margin: Annotated[float, _of_estimates("--margin")] = 1.0,
    risk: Annotated[float | None, _of_estimates("--risk")] = None,
    overrun: Annotated[str, _of_estimates("--overrun")] = "run",
    badness: Annotated[float, _of_estimates("--badness")] = 5.0,
    spread: Annotated[float, _of_estimates("--spread")] = 1.0,
    seed: Annotated[int, _of_estimates("--seed")] = 1,
    requests: Annotated[Path | None, _of_estimates("--requests")] = None,
    platform: Annotated[str | None, _of_easy("--platform")] = None,
) -> None:
    """Replace the run-time estimates that schedulers plan with by those of a model.

    Deadlines and run times stay, so that runs with different estimates can be compared job by
    job. Planning uses `qos.estimated_runtime`; a job is killed at its walltime. A prediction is
    never above the walltime. Predictors learn a job's run time when it ends under EASY backfilling
    with the walltimes.

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
    from qops_batsim.workload.estimates import EstimateChoices

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
    machine = _platform(platform)
    with announce_slow("running EASY for what has ended ..."):
        workload = read_source(source, out)
        result = give_estimates(workload, choices, requests=asked, platform=machine)
    write_workload(result, out)
    say(f"{out}: {len(result.jobs):,} jobs on {result.processors} processors, {choices.name}")
    _tell_errors(result)


def _tell_errors(result: Workload) -> None:
    """Print how estimates differ from run times; warn of deadlines before estimated ends."""
    from qops_batsim.workload.deadlines import early_deadlines_warning
    from qops_batsim.workload.estimates import count_estimates

    counts = count_estimates(result)
    say(
        f"too short: {counts.too_short:,} ({100 * counts.too_short / counts.jobs:.2f} %), "
        f"{counts.killed:,} of them killed; estimate / run time: {counts.median:.2f} in the median"
    )
    if doubt := early_deadlines_warning(result):
        warn(doubt)


RUN_TIME = "run-time"
LOG = "log"
MIXED = "mixed"
"""Preset of applications that share hosts."""

GRAHAM = "graham"
"""Preset of jobs that ask for parts of hosts."""

_of_classes = manual(
    """
    --log FILE: Log (SWF) the jobs come from: names of its queues, and CPU times if wanted.
    --cpu-time run-time|log: CPU time of each task: the job's run time, or what the log
        measured where it did (--log).
    --every CLASS: One class for all jobs: deadline, high_priority, dedicated or best_effort.
        Default: by queue.
    --tasks together|apart: A job of n processors stays one job, whose tasks progress at one
        rate, or becomes n jobs of one processor, the tasks of one application.
    --deadline-factor F: Deadlines are submission + F x CPU time.
    --speed FLOPS: Flop/s of the host on which CPU times were measured.
    --seed N: Seed of the queues that jobs without one draw.
    """
)


@app.command("classes")
def classes(
    source: common_options.WorkloadIn,
    out: common_options.WorkloadOut,
    log: Annotated[Path | None, _of_classes("--log", exists=True, dir_okay=False)] = None,
    cpu_time: Annotated[str, _of_classes("--cpu-time")] = RUN_TIME,
    every: Annotated[str | None, _of_classes("--every")] = None,
    tasks: Annotated[str, _of_classes("--tasks")] = "together",
    deadline_factor: Annotated[float, _of_classes("--deadline-factor")] = 5.0,
    speed: Annotated[float, _of_classes("--speed")] = 1e9,
    seed: Annotated[int, _of_classes("--seed")] = 1,
) -> None:
    """Turn delay jobs into compute jobs of four classes of service (Pascal et al. 2004).

    Queue express becomes class high_priority, high dedicated, normal deadline, low and standby
    best_effort. Jobs without a queue draw one, with the frequencies of the SDSC SP2 log. Each
    task computes for its CPU time. Walltimes are removed.

    Examples:

    \b
        # By queue, all queues drawn:
        qops-batsim workload classes sdsc.json four.json --seed 1
        # With the log's own queues and CPU times:
        qops-batsim workload classes sdsc.json four.json \\
          --log SDSC-SP2-1998.swf.gz --cpu-time log
        # One class for all:
        qops-batsim workload classes sdsc.json alone.json --every dedicated
    """
    from qops_batsim.workload.service_classes import ClassChoices, LogFacts, assign_classes
    from qops_batsim.workload.swf import read_swf

    require_one_of("cpu time", cpu_time, (RUN_TIME, LOG))
    if cpu_time == LOG and log is None:
        raise InputError("--cpu-time is log, but --log is not given; a log (SWF) is expected")
    choices = ClassChoices(
        every=every, seed=seed, deadline_factor=deadline_factor, speed=speed, tasks=tasks
    )
    workload = read_source(source, out)
    facts = LogFacts.of(read_swf(log)) if log is not None else LogFacts()
    cpu_times = facts.cpu_times if cpu_time == LOG else None
    _write_classes(assign_classes(workload, choices, facts, cpu_times=cpu_times), out)


def _write_classes(workload: Workload, out: Path) -> None:
    """Write a workload of service classes, and print how many applications each class has."""
    from qops_batsim.workload.service_classes import count_classes

    _write(workload, out)
    counts = count_classes(workload)
    say("applications: " + ", ".join(f"{n} {name}" for name, n in counts.items()))
