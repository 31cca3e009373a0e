"""``qops-batsim workload users``: users who react, from a log or changed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qops_batsim.cli.command_inputs import refuse_same_file
from qops_batsim.cli.common_options import AsJson, manual
from qops_batsim.cli.console import print_json, print_table, say
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from qops_batsim.users.user_fit import UsersSummary
    from qops_batsim.users.user_model import Users

_about = manual(
    """
    SOURCE: A log with dates of submission, waits and users (SWF, sacct, PBS; also .gz), or a file
        of users, which is changed.
    OUT: File of users to write (JSON), for `run --users`.
    --processors N: Size of the machine, where the log does not tell it.
    --time-zone NAME: Time zone of the site (Europe/Stockholm), if the log does not tell it.
    --seed N: Seed of all that is drawn, in the run as well.
    [How they differ from those of the log]
    --choices FILE: What users do if a job is refused, their deadlines, who lies and who hoards
        (TOML). Default: of a log, no deadlines; of a file of users, as it is.
    --example: Print a file of choices with the defaults, and end.
    --times X: Factor on the number of users, for another load; with one seed, more users
        include fewer.
    --rotate: Begin with a random session of each user, for another sample.
    """
)
_FILE_OF_USERS = re.compile(rb'\s*\{\s*"type":\s*"users"')


def _print_example(wanted: bool) -> None:
    if wanted:
        from qops_batsim.users.user_model import EXAMPLE

        typer.echo(EXAMPLE.read_text("utf-8"), nl=False)
        raise typer.Exit


def users(
    source: Annotated[Path, _about("SOURCE", exists=True, dir_okay=False)],
    out: Annotated[Path, _about("OUT")],
    processors: Annotated[int | None, _about("--processors", min=1)] = None,
    time_zone: Annotated[str | None, _about("--time-zone")] = None,
    choices: Annotated[Path | None, _about("--choices")] = None,
    times: Annotated[float, _about("--times")] = 1.0,
    rotate: Annotated[bool, _about("--rotate")] = False,
    seed: Annotated[int, _about("--seed")] = 1,
    example: Annotated[bool, _about("--example", callback=_print_example, is_eager=True)] = False,
    as_json: AsJson = False,
) -> None:
    """Find a log's users, with their sessions and think times, for runs in which users react.

    In `run --users`, a user submits the next jobs a think time after the last ones ended, or in the
    next session, as in the log, and answers refusals. So the load depends on the scheduler. More
    users raise the load without submitting jobs twice.

    Examples:

    \b
        # Users of a log, and a run in which they react:
        qops-batsim workload users KTH-SP2-1996-2.swf.gz kth-users.json \\
          --processors 100
        qops-batsim run easy --users kth-users.json
        # A fifth more of them, with deadlines by need:
        qops-batsim workload users --example > choices.toml
        qops-batsim workload users kth-users.json more.json --times 1.2 \\
          --choices choices.toml
        # Another sample of the same users:
        qops-batsim workload users kth-users.json other.json --rotate --seed 2
    """
    from qops_batsim.users.user_fit import summary
    from qops_batsim.users.user_model import more_users, rotated, write_users

    refuse_same_file(source, out, "input")
    found = _found(source, processors, time_zone, choices, seed)
    if rotate:
        found = rotated(found, seed)
    if times != 1:
        found = more_users(found, times, seed)
    found.check()
    write_users(found, out)
    told = summary(found)
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(told))
    else:
        print_table(str(out), ["what", "value"], _rows(told))
        say(f"wrote {out}; `qops-batsim run SCHEDULER --users {out}` has them react")


def _found(
    source: Path, processors: int | None, time_zone: str | None, choices: Path | None, seed: int
) -> Users:
    """Read a file of users, or fit a model of users to a log; apply the choices given."""
    from msgspec.structs import replace

    from qops_batsim.files import read_stored
    from qops_batsim.traces.reading import read_trace
    from qops_batsim.users.user_fit import fit_users
    from qops_batsim.users.user_model import Sessions, UserChoices, read_choices, read_users

    chosen = read_choices(choices)
    is_users = _FILE_OF_USERS.match(read_stored(source, what="a log or a file of users").content)
    if is_users:
        if processors is not None or time_zone is not None:
            given = "--processors" if time_zone is None else "--time-zone"
            raise InputError(
                f"{source}: is a file of users, which tells this itself; {given} is for logs only: "
                "leave it out"
            )
        found = replace(read_users(source), seed=seed)
        for name in ("think_limit", "gap_limit"):
            asked = getattr(chosen, name)
            fitted = getattr(found.sessions, name)
            if asked not in (fitted, getattr(UserChoices(), name)):
                raise InputError(
                    f"{choices}: {name} is {asked:g}, but the users in {source} were fitted to "
                    f"their log with {fitted:g}; {fitted:g} is expected, or a log as SOURCE"
                )
    else:
        limits = Sessions(think_limit=chosen.think_limit, gap_limit=chosen.gap_limit)
        log = read_trace(source, processors=processors, time_zone=time_zone)
        found = fit_users(log, seed=seed, sessions=limits)
    if choices is None:
        return found
    return replace(
        found,
        reactions=chosen.reactions,
        deadlines=chosen.deadlines,
        estimates=chosen.estimates,
    )


def _rows(told: UsersSummary) -> list[list[str]]:
    def percent(share: float) -> str:
        return f"{100 * share:.1f} %"

    return [
        ["users", f"{told.users:,}"],
        ["jobs", f"{told.jobs:,}"],
        ["batches", f"{told.batches:,}"],
        ["sessions", f"{told.sessions:,}"],
        ["sessions from 20:00 to 8:00", percent(told.sessions_by_night)],
        ["sessions at weekends", percent(told.sessions_at_weekends)],
        ["batches not waited for", percent(told.left)],
        ["median think time", f"{told.think:.0f} s"],
        ["goes on after a minute", percent(told.goes_on_after_minute)],
        ["goes on after an hour", percent(told.goes_on_after_hour)],
        ["load", "not defined" if told.load is None else f"{told.load:.3f}"],
    ]
