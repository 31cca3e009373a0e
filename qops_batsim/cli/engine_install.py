"""``qops-batsim engine --install``: an executable that takes Batsim's place."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import typer

from qops_batsim.cli.console import note
from qops_batsim.errors import InputError

MARK = "# Made by qops-batsim: its embedded engine under Batsim's name."
"""Line that marks an executable as ours."""


def install(path: Path, release: str) -> None:
    """Write an executable that runs the engine as Batsim 4 or 5 (``release``).

    A file that this command has not written is never overwritten.
    """
    from qops_batsim.files import write_text

    if path.is_symlink() or (path.exists() and not _is_ours(path)):
        raise InputError(
            f"{path}: the file exists, and qops-batsim has not written it; the name of another "
            "file is expected"
        )
    # -P: files of the working directory must not pass for Python's own modules.
    command = f'exec {shlex.quote(sys.executable)} -P -m qops_batsim.cli.engine --as {release} "$@"'
    write_text(path, f"#!/bin/sh\n{MARK}\n{command}\n")
    path.chmod(path.stat().st_mode | 0o111)
    note(f"wrote {path}")
    # Evaluated by a shell: never folded.
    typer.echo(f"export PATH={shlex.quote(str(path.parent.absolute()))}{os.pathsep}$PATH")


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return MARK.encode() in stream.read(1024)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
