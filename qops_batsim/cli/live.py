"""``qops-batsim live``: decisions for a real resource manager."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qops_batsim.cli.command_inputs import duration
from qops_batsim.cli.common_options import AsJson, Scheduler, Settings, manual
from qops_batsim.cli.console import (
    note,
    print_error,
    print_json,
    print_table,
    say,
    warn,
)
from qops_batsim.errors import InputError, QopsError, require
from qops_batsim.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qops_batsim.live.journal import About, Journal
    from qops_batsim.live.manager import CentreManager

app = typer.Typer(
    no_args_is_help=True,
    help="Let a scheduler decide for a real Slurm, or only watch what it would decide.\n\n"
    "`qops-batsim live qops --journal FILE` is short for `live decide qops --journal FILE`. "
    "docs/live.md begins with ten minutes of set-up.",
)

_about = manual(
    """
    --journal, -j FILE: Journal of all that is observed and decided. A new file is created; an
        existing journal is continued.
    --shadow: Change nothing: Slurm schedules its jobs as usual, and the scheduler is asked what it
        would do; `live report` tells how its promises would have fared.
    --partition NAME: Partition whose jobs and nodes count. Default: all.
    --poll DURATION: Time between two looks at Slurm.
    --margin DURATION: How long after its time limit a job may still have its nodes; promises allow
        for it. `live check` tells how much this Slurm needs.
    --dry-run: Print what would be done now, and end; with exit code 1 if `live check` finds
        anything bad.
    [Jobs in Slurm]
    --keep-refused: Let a refused job go on waiting, without its deadline. Default: it is cancelled.
    --leave-best-effort: Leave jobs without a deadline to Slurm; their partition must give way to
        the others (docs/live.md). Default: they are held as well, and start where no promise is in
        the way.
    --release-on-failure: Release all held jobs if the journal can no longer be written or read.
        Default: they stay held. Exit code 74 in both cases.
    []
    --scheduler NAME: Scheduler to simulate on the same jobs, with options as NAME:OPTION=VALUE.
        Default: the one of the journal.
    --follow: Print the table again every two seconds, until a signal ends the command.
    JOURNAL: Journal that `live decide` has written.
    FILE: File to write; an existing one is continued.
    """
)
Partition = Annotated[str | None, _about("--partition")]
Poll = Annotated[str, _about("--poll")]
OfJournal = Annotated[Path, _about("JOURNAL")]


@app.command()
def decide(
    scheduler: Scheduler,
    journal: Annotated[Path, _about("--journal")],
    shadow: Annotated[bool, _about("--shadow")] = False,
    partition: Partition = None,
    poll: Poll = "1s",
    margin: Annotated[str, _about("--margin")] = "60s",
    settings: Settings = None,
    keep_refused: Annotated[bool, _about("--keep-refused")] = False,
    leave_best_effort: Annotated[bool, _about("--leave-best-effort")] = False,
    dry_run: Annotated[bool, _about("--dry-run")] = False,
    release_on_failure: Annotated[bool, _about("--release-on-failure")] = False,
) -> None:
    """Let a scheduler start the jobs of this machine's Slurm, and promise deadlines.

    Every waiting job is held, and released when the scheduler starts it. Each decision is in the
    journal before it is carried out, so that after an end of any kind the same command continues.
    If the scheduler has an option grace, its default here allows for the delays of polling.
    With --shadow nothing is changed; `live report` can try any other scheduler on the same jobs.

    Examples:

    \b
        qops-batsim live qops --journal shadow.db --shadow
        qops-batsim live decide qops --journal qops.db --partition main \\
          --margin 60s
        qops-batsim live qops --journal qops.db --dry-run
    """
    from qops_batsim.live.centre import LIVE, SHADOW, hand_back
    from qops_batsim.live.daemon import JOURNAL_FAILED, about_journal
    from qops_batsim.live.journal import JournalFailure

    step = duration(poll, "--poll", zero=False)
    about = about_journal(
        SHADOW if shadow else LIVE,
        scheduler=scheduler,
        settings=settings or [],
        partition=partition,
        margin=duration(margin, "--margin"),
        poll=step,
    )
    kept = {"keeps_refused": keep_refused, "takes_best_effort": not leave_best_effort}
    try:
        _follow(journal, about, step, kept, dry_run=dry_run)
    except JournalFailure as error:
        from qops_batsim.live.slurm_manager import SlurmManager

        releases = release_on_failure and not (shadow or dry_run)
        stays = "is handed back" if releases else "stays held: `live release-all` hands it back"
        print_error(f"{error}; nothing is decided any more, and what is held {stays}")
        if releases:
            released = hand_back(None, SlurmManager(partition), time.time())
            note(f"released {len(released)} jobs: {', '.join(released) or 'none was held'}")
        raise typer.Exit(JOURNAL_FAILED) from None


def _follow(
    path: Path, about: About, poll: float, kept: Mapping[str, bool], *, dry_run: bool
) -> None:
    """Decide with a journal, new or continued, until a signal comes."""
    from qops_batsim.live.centre import LIVE, SHADOW, LiveCentre
    from qops_batsim.live.check import check_slurm, unfiltered
    from qops_batsim.live.daemon import effect_time, follow, settings_when_told, sole_decider
    from qops_batsim.live.journal import Journal
    from qops_batsim.live.shadow import ShadowManager
    from qops_batsim.live.slurm_manager import SlurmManager

    manager: CentreManager = SlurmManager(about.partition)
    is_live = about.mode == LIVE
    with ExitStack() as stack:
        journal = stack.enter_context(Journal(path, writes=True))
        known = journal.about
        if known is not None:
            known.check_same(about, path)
        if about.mode == SHADOW:
            manager = ShadowManager(manager, known, journal.entries(), journal.seen())
        centre = LiveCentre(
            manager,
            journal,
            about,
            resend=effect_time(poll),
            on_line=_line,
            **kept,  # type: ignore[arg-type]
        )

        about = centre.about
        note(
            f"qops-batsim {__version__} live {about.scheduler} ({about.mode}): "
            f"{len(about.nodes)} nodes, journal {journal.path}"
        )
        if known is not None:
            orders = centre.open_orders()
            note(f"continues after {centre.replayed:,} messages; {len(orders)} orders are open")
            for order in orders:
                note(f"  {order.kind} {order.job} {order.detail} ({order.state})")

        # From here on nobody else decides for this partition.
        if is_live and not dry_run:
            config = settings_when_told(poll, _line)
            stack.enter_context(sole_decider(config, about.partition))
            if text := unfiltered(config):
                note(text)

        bad = []
        if is_live or dry_run:
            # A shadow changes nothing, and needs no rights.
            findings = check_slurm(about.partition, poll).findings
            bad = [
                finding
                for finding in findings
                if not finding.is_fine and (is_live or finding.about != "rights")
            ]
            for finding in bad:
                warn(f"{finding.about}: {finding.text}")
        if dry_run:
            centre.rehearse()
            raise typer.Exit(1 if bad else 0)
        follow(centre, poll)


def _line(text: str) -> None:
    note(f"{datetime.now():%H:%M:%S} {text}")


_of_release = manual(
    """
    --journal, -j FILE: Journal of the process that has held the jobs. Default: held jobs are
        recognised by their marks alone.
    --partition NAME: Partition whose jobs are handed back. Default: the journal's, or all.
    """
)


@app.command("release-all")
def release_all(
    journal: Annotated[Path | None, _of_release("--journal")] = None,
    partition: Annotated[str | None, _of_release("--partition")] = None,
) -> None:
    """Hand every job held for live decisions back to Slurm, which then schedules it.

    Jobs that the submission filter has held are recognised by their comment, jobs held later by
    their AdminComment; a journal is not needed. Holds of users and administrators stay. Use it at
    the end of a trial, or after a failure, and again if the filter holds further jobs. Exit code 2
    while another process decides.

    Examples:

    \b
        qops-batsim live release-all --journal qops.db
        qops-batsim live release-all --partition main
    """
    from qops_batsim.live.centre import LIVE, hand_back
    from qops_batsim.live.daemon import sole_decider
    from qops_batsim.live.journal import InUse, Journal
    from qops_batsim.live.slurm_manager import SlurmManager
    from qops_batsim.slurm.commands import settings_of

    found: Journal | None = None
    about: About | None = None
    with ExitStack() as stack:
        try:
            if journal is not None:
                require(journal.exists(), f"{journal}", "absent", "a journal is expected")
                found = stack.enter_context(Journal(journal, writes=True))
                about = found.begun
        except InUse:
            raise
        except InputError as error:
            note(f"{error}; held jobs are recognised by their marks instead")
        if about is not None and about.mode != LIVE:
            raise InputError(
                f"{journal}: is the journal of a run with --shadow, which has held no job; a "
                "journal of `live decide` without --shadow is expected"
            )
        if about is not None:
            partition = partition or about.partition

        # Where Slurm does not tell its settings nobody can be locked out.
        config: dict[str, str] = {}
        with suppress(QopsError):
            config = settings_of()
        if config:
            stack.enter_context(sole_decider(config, partition))
        released = hand_back(found, SlurmManager(partition), time.time())
    say(f"released {len(released)} jobs: {', '.join(released) or 'none was held'}")


@app.command()
def status(
    journal: OfJournal,
    follow: Annotated[bool, _about("--follow")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a live journal's waiting and running jobs, their promises, and the last alarms.

    Examples:

    \b
        qops-batsim live status qops.db
        qops-batsim live status qops.db --follow
    """
    from qops_batsim.live.journal import Journal

    while True:
        with Journal(journal) as found:
            if follow:
                typer.echo("\033[H\033[2J", nl=False)
            _print_status(found, as_json=as_json)
        if not follow:
            return
        time.sleep(2.0)


def _print_status(journal: Journal, *, as_json: bool) -> None:
    from qops_batsim.live.centre import centre_date
    from qops_batsim.live.fates import counts

    about = journal.begun
    runs = journal.entries()
    shown = [run for run in runs if run.phase != "gone"]
    numbers = counts(runs, about.grace)
    alarms = journal.notes("alarm", 5)
    if as_json:
        orders = journal.orders(only_open=True)
        content = {"counts": numbers, "jobs": shown, "orders": orders, "alarms": alarms}
        print_json({"about": about, **content})
        return

    def when(date: float | None) -> str:
        return "-" if date is None else centre_date(about, date)

    say(
        f"{about.scheduler} on {len(about.nodes)} nodes, {about.mode}, last news "
        f"{when(about.origin + journal.last_message[1])}"
    )
    say(", ".join(f"{count:,} {what}" for what, count in numbers.items()))
    rows = [
        [
            run.job,
            run.user,
            str(run.nodes),
            run.phase if run.is_ours else "of others",
            when(run.promise),
            when(run.start or run.ordered or run.planned),
            run.reason,
        ]
        for run in shown
    ]
    if rows:
        columns = ["job", "user", "nodes", "phase", "promised by", "start", "reason"]
        print_table("", columns, rows)
    for date, _, text in alarms:
        say(f"alarm {when(date)}: {text}")


@app.command()
def check(partition: Partition = None, poll: Poll = "1s", as_json: AsJson = False) -> None:
    """Check whether this Slurm is ready for live decisions, and which margin and grace it needs.

    Exit code 1 if a setting of Slurm prevents live decisions. Changes nothing.

    Examples:

    \b
        qops-batsim live check --partition main
    """
    from qops_batsim.live.check import check_slurm

    found = check_slurm(partition, duration(poll, "--poll", zero=False))
    if as_json:
        print_json(found)
    else:
        for finding in found.findings:
            is_fine = "fine" if finding.is_fine else "BAD "
            say(f"{is_fine:<5}{finding.about:<14}{finding.text}", 19)
    if not found.is_fine:
        raise typer.Exit(1)


@app.command()
def record(
    file: Annotated[Path, _about("FILE")],
    partition: Partition = None,
    poll: Poll = "60s",
) -> None:
    """Record when Slurm itself expects each waiting job to start, until a signal ends the command.

    `queue backtest --slurm-estimates FILE` compares these dates with forecasts. The command only
    asks squeue, and changes nothing.

    Examples:

    \b
        qops-batsim live record estimates.jsonl --partition main
    """
    from qops_batsim.live.record import Recorder
    from qops_batsim.live.record import record as go_on
    from qops_batsim.live.slurm_manager import SlurmManager

    step = duration(poll, "--poll", zero=False)
    with Recorder(file, SlurmManager(partition)) as recorder:
        note(f"records what Slurm expects to {file}, each {step:g} s")
        go_on(recorder, step, _line)


@app.command()
def report(
    journal: OfJournal,
    scheduler: Annotated[str | None, _about("--scheduler")] = None,
    as_json: AsJson = False,
) -> None:
    """Report which promises of a live journal were kept, next to a simulation of its jobs.

    The journal of a --shadow tells what would have been promised and kept, with the run times that
    the jobs really had, next to what Slurm did with them by itself.

    Examples:

    \b
        qops-batsim live report shadow.db
        qops-batsim live report shadow.db --scheduler fqops:tolerance_factor=2
    """
    from qops_batsim.live.journal import Journal
    from qops_batsim.live.journal_report import report as read_report
    from qops_batsim.schedulers.registry import parse_scheduler

    with Journal(journal) as found:
        told = read_report(found, *(parse_scheduler(scheduler) if scheduler else ()))
    if as_json:
        print_json(told)
        return

    columns = {"decided": told.decided, "Slurm": told.manager, "embedded engine": told.embedded}
    there = {name: counts for name, counts in columns.items() if counts is not None}
    labels = {
        "asked": "asked for a deadline",
        "promised": "promised",
        "kept": "promise kept",
        "refused": "refused",
        "in_time": "ended by the deadline asked for",
    }
    rows = [
        [label, *(f"{getattr(counts, name):,}" for counts in there.values())]
        for name, label in labels.items()
    ]
    say(f"{told.jobs:,} jobs")
    print_table("", ["", *there], rows)
    if told.told_after is not None:
        median, longest = told.told_after
        say(f"answered a median of {median:.1f} s after submission, {longest:.1f} s at most")
    say(f"{told.alarms:,} alarms, {told.outages:,} outages")
