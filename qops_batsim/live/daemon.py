"""The process of a live centre: its settings, polls, and signs of life for systemd."""

from __future__ import annotations

import os
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from urllib.parse import quote

from msgspec import to_builtins

from qops_batsim.dates import machine_zone
from qops_batsim.live.centre import LiveCentre, deciding_module
from qops_batsim.live.journal import About, locked
from qops_batsim.live.manager import CommandFailed, Unreachable
from qops_batsim.schedulers.registry import parse_settings
from qops_batsim.slurm.commands import settings_of

JOURNAL_FAILED = 74
"""Exit code where the journal cannot be read or written (EX_IOERR): nothing is decided any more."""


def effect_time(poll: float) -> float:
    """Return how many seconds pass at most until an order's effect is seen, by the poll time.

    This is the default grace of a scheduler, and the time after which an order is sent again.
    """
    return 4.0 + 2 * poll


def about_journal(
    mode: str,
    *,
    scheduler: str,
    settings: Sequence[str],
    partition: str | None,
    margin: float,
    poll: float,
) -> About:
    """Return the settings for a new journal, or to compare with those of an existing one."""
    given = parse_settings(settings)
    options: dict[str, object] = to_builtins(deciding_module(scheduler, given).options)
    # Polls have delays, which promises need not be broken for.
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
        time_zone=machine_zone(),
    )


def settings_when_told(poll: float, on_line: Callable[[str], None]) -> dict[str, str]:
    """Wait until Slurm answers, then return its settings: it may start after this process."""
    told = ""
    while True:
        try:
            return settings_of()
        except (Unreachable, CommandFailed) as error:
            if str(error) != told:
                on_line(f"no news: {error}")
            told = str(error)
            time.sleep(poll)


@contextmanager
def sole_decider(config: Mapping[str, str], partition: str | None) -> Iterator[None]:
    """Lock a partition, or all (None), so that no other process decides for it meanwhile.

    The locks are files where only root and SlurmUser write, if slurmctld runs on this machine.
    ``config`` holds Slurm's settings.
    """
    places = (config.get("statesavelocation", ""), tempfile.gettempdir())
    place = next(path for path in places if os.access(path, os.W_OK | os.X_OK))
    cluster = config.get("clustername", "")
    owner = re.search(r"\((\d+)\)", config.get("slurmuser", ""))

    # One lock for all partitions, which those who decide for some of them share.
    names = ["", *sorted({*(partition or "").split(",")} - {""})]
    with ExitStack() as stack:
        for name in names:
            what = f"partition {name}" if name else "all partitions" if partition else "a partition"
            lock = locked(
                f"{place}/qops-live-{quote(cluster, safe='')}.{quote(name, safe='')}.lock",
                f"another process decides for {what} of cluster {cluster}",
                shared=not name and len(names) > 1,
            )
            stack.callback(os.close, lock)
            if owner is not None and os.geteuid() == 0:
                os.fchown(lock, int(owner[1]), -1)
        yield


def follow(centre: LiveCentre, poll: float) -> None:
    """Poll Slurm and decide every ``poll`` seconds, until a signal comes; keep systemd informed."""
    _notify("READY=1")
    due = time.monotonic()
    while True:
        centre.step()
        _notify("WATCHDOG=1")
        # After a slow step the next one is due at once, but no two of them.
        due = max(due + poll, time.monotonic())
        time.sleep(max(due - time.monotonic(), 0.0))


def _notify(text: str) -> None:
    """Send a state such as ``READY=1`` to systemd, if systemd has asked for it."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.sendto(text.encode(), address.replace("@", "\0", 1))
