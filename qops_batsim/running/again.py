"""A run once more, from its description."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.errors import InputError
from qops_batsim.files import decoded, read_bytes
from qops_batsim.limits import MAX_DESCRIPTION_BYTES
from qops_batsim.running.run import BatsimCall, Run, run
from qops_batsim.running.watch import Watch


class _Description(msgspec.Struct, frozen=True, kw_only=True):
    """What ``PREFIX_run.json`` has to say for its run to be made again."""

    scheduler: str
    workload: str
    platform: str | None = None
    options: dict[str, Any] = {}
    engine: str = "embedded"
    compute_sharing: bool = False
    hosts_limit: int | None = None
    smaller_machine: bool = False
    events: str | None = None
    message_delays: bool = False
    python_objects: list[str] = []
    sha256: dict[str, str] = {}


_descriptions = msgspec.json.Decoder(_Description)


def run_again(
    description: str | Path,
    *,
    out: str | Path | None = None,
    batsim: BatsimCall | None = None,
    watch: Watch | None = None,
) -> Run:
    """Make a run once more from its ``PREFIX_run.json``: its files are the same to the byte.

    Relative paths in it are looked for from the current directory.

    Parameters
    ----------
    out
        Prefix of the files to write; default ``PREFIX_again``.

    Examples
    --------
    >>> first = run("easy", "tiny_8", out="out/tiny")
    >>> again = run_again("out/tiny_run.json")
    >>> again.prefix, again.metrics == first.metrics
    ('out/tiny_again', True)
    """
    what = "the description of a run"
    content = read_bytes(description, what=what, max_bytes=MAX_DESCRIPTION_BYTES)
    before = decoded(content, _descriptions, description, what)
    refused = f"{description}: cannot be run again"
    if before.python_objects:
        raise InputError(
            f"{refused}: {' and '.join(before.python_objects)} came from a program; registered "
            "names and files are expected"
        )
    try:
        return run(
            before.scheduler,
            before.workload,
            before.platform,
            before.options,
            out=out or f"{str(description).removesuffix('_run.json')}_again",
            engine=before.engine,
            hosts=before.hosts_limit,
            smaller_machine=before.smaller_machine,
            message_delays=before.message_delays,
            compute_sharing=before.compute_sharing,
            events=before.events,
            batsim=batsim,
            watch=watch,
            sha256=before.sha256,
        )
    except InputError as error:
        raise InputError(f"{refused}: {error}") from error
