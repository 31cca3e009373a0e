"""Finding an installed Batsim."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec

from qops_batsim.errors import InputError, QopsError, shown
from qops_batsim.running.processes import ChildProcess

INSTALLATION_PAGE = "https://batsim.readthedocs.io/en/v4.2.1/installation.html"
"""Batsim's own page about installing its last release."""

NEWEST = 5
"""Last version of Batsim whose protocol we speak."""

UNTOLD = 4

VERSION_SECONDS = 30.0
"""Longest wait for ``batsim --version`` (seconds)."""


class BatsimError(QopsError):
    """Batsim failed or ended too early.

    ``exit_code`` is Batsim's as a shell gives it (128 + signal), 2 if it was 0.
    """

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Batsim(msgspec.Struct, frozen=True):
    """An installed Batsim; its version is the output of ``batsim --version``."""

    path: Path
    version: str

    @property
    def major(self) -> int:
        """First number of the version; 4 if the build does not tell it."""
        told = _VERSION.match(self.version)
        return UNTOLD if told is None else int(told[1])


def find_batsim(path: str | Path | None = None, *, timeout: float = VERSION_SECONDS) -> Batsim:
    """Find an installed Batsim and its version.

    Parameters
    ----------
    path
        The executable, or its name on PATH; by default ``batsim`` on PATH.
    timeout
        Longest wait for its answer (seconds).

    Versions later than 5 are refused.
    """
    found = shutil.which("batsim" if path is None else path)
    if found is None:
        if path is not None:
            raise InputError(f"{path}: no executable program; the path of Batsim is expected")

        raise InputError(
            "no batsim on PATH; --engine batsim needs Batsim 3.1 to 4.2 or 5, there or at --batsim "
            "PATH. Its authors offer a Nix package (https://github.com/oar-team/nur-kapack), a "
            f"container image (docker.io/oarteam/batsim) and its source: {INSTALLATION_PAGE} and "
            "docs/batsim.md. The embedded engine, without --engine batsim, needs no Batsim"
        )

    found = str(Path(found).absolute())
    version = _version(found, timeout)
    batsim = Batsim(Path(found), version)
    if batsim.major > NEWEST:
        raise InputError(f"{found}: is Batsim {version}; Batsim 3.1 to 4.2, or 5, is expected")
    return batsim


_VERSION = re.compile(r"v?(\d+)\.\d+")


def _version(executable: str, timeout: float) -> str:
    lines: list[str] = []
    try:
        with ChildProcess([executable, "--version"], lines.append) as child:
            code = child.wait(timeout)
            child.last_words()  # waits for the last line
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"{executable}: cannot be started ({reason}); Batsim is expected"
        ) from None

    if code is None:
        raise InputError(
            f"{executable}: no answer to --version within {timeout:g} s; Batsim is expected"
        )

    if code or not lines:
        raise InputError(
            f"{executable}: --version ends with exit code {code} and says "
            f"{shown(lines[-1]) if lines else 'nothing'}; Batsim is expected"
        )

    # Programs around Batsim (Nix, Docker) may have something to say before.
    return next((line for line in lines if _VERSION.match(line)), lines[0])
