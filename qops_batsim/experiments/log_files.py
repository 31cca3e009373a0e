"""Finding the files of logs, and their digests."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

from qops_batsim.files import read_bytes
from qops_batsim.limits import MAX_INPUT_BYTES
from qops_batsim.shipped import find_input

SHARED_VARIABLE = "QOPS_SHARED"
"""Environment variable with the directory that holds ``traces``."""


def usual_places() -> list[Path]:
    """Return the directories searched for logs.

    ``$QOPS_SHARED/traces`` (default ``../shared/traces``), and the cache of ``workload fetch``.
    """
    import pooch

    shared = Path(os.environ.get(SHARED_VARIABLE, Path("..") / "shared"))
    return [shared / "traces", Path(pooch.os_cache("qops-batsim"))]


def find_trace(file: str, directory: Path) -> Path:
    """Find a log's file: in ``directory``, as given, in the usual places, or a shipped one."""
    for path in (directory / file, Path(file), *(place / file for place in usual_places())):
        if path.is_file():
            return path
    return find_input(file, "workloads")


def trace_digest(path: Path, processors: int | None) -> str:
    """Return a digest of a log's file and of the size of its machine (processors)."""
    content = read_bytes(path, what="a log", max_bytes=MAX_INPUT_BYTES)
    return blake2b(content + f"\n{processors}".encode(), digest_size=16).hexdigest()
