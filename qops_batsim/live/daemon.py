"""Process of a live centre: what a journal is begun with, polls, and signs of life for systemd."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import to_builtins

from qops_batsim.live.centre import LiveCentre
from qops_batsim.live.journal import About
from qops_batsim.scheduling.registry import make_scheduler, parse_settings

JOURNAL_FAILED = 74
"""Exit code where the journal cannot be read or written (EX_IOERR): nothing is decided any more."""


def effect_time(poll: float) -> float:
    """Return how long the effect of an order may take to be seen (seconds), by the time of a poll.

    So much later a start may count, which is the default grace, and an order is sent again.
    """
    return 4.0 + 2 * poll


def about_journal(
    mode: str,
    *,
    scheduler: str = "",
    settings: Sequence[str] = (),
    partition: str | None,
    margin: float = 0.0,
    poll: float,
) -> About:
    """Return the choices that a journal is begun with, or has to have been begun with."""
    options: dict[str, object] = {}
    if scheduler:
        given = parse_settings(settings)
        options = to_builtins(make_scheduler(scheduler, given).options)
        if "grace" in options and "grace" not in given:
            options["grace"] = effect_time(poll)
    return About(
        mode=mode,
        scheduler=scheduler,
        options=options,
        origin=0.0,
        nodes=[],
        partition=partition,
        margin=margin,
        time_zone=_time_zone(),
    )


def _time_zone() -> str:
    """Return the name of this machine's time zone."""
    named = os.environ.get("TZ", "").lstrip(":")
    if not named and (link := Path("/etc/localtime")).is_symlink():
        named = str(link.readlink()).partition("zoneinfo/")[2]
    return named or "UTC"


def follow(centre: LiveCentre, poll: float) -> None:
    """Poll until a signal comes; tell systemd that this process is alive."""
    _notify("READY=1")
    due = time.monotonic()
    while True:
        centre.step()
        _notify("WATCHDOG=1")
        # After a slow step the next one is due at once, but no two of them.
        due = max(due + poll, time.monotonic())
        time.sleep(due - time.monotonic() if due > time.monotonic() else 0.0)


def _notify(text: str) -> None:
    """Notify systemd of a state, if it asked for that."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.sendto(text.encode(), address.replace("@", "\0", 1))
