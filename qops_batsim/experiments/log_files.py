"""Finding the files of logs, and their digests."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from qops_batsim.errors import InputError, did_you_mean
from qops_batsim.files import read_bytes
from qops_batsim.limits import MAX_INPUT_BYTES
from qops_batsim.shipped import find_input, shipped_names

SHARED_VARIABLE = "QOPS_SHARED"
"""Environment variable with the directory that holds ``traces``."""

_LOG_NAME = re.compile(r"\.(swf|csv|json|txt|parquet)(\.\w+)?$")
"""Ends of the names of files that may be logs."""


def usual_places() -> list[Path]:
    """Return the directories searched for logs.

    ``$QOPS_SHARED/traces`` (default ``../shared/traces``), and the cache of ``workload fetch``.
    """
    import pooch

    shared = Path(os.environ.get(SHARED_VARIABLE, Path("..") / "shared"))
    return [shared / "traces", Path(pooch.os_cache("qops-batsim"))]


def find_trace(file: str, directory: Path) -> Path:
    """Find a log's file: in ``directory``, as given, in the usual places, or a shipped one."""
    places = usual_places()
    for path in (directory / file, Path(file), *(place / file for place in places)):
        if path.is_file():
            return path
    with suppress(InputError):
        return find_input(file, "workloads")
    own = [] if directory == Path() else [f"in {directory}"]
    named = f"${SHARED_VARIABLE}"
    told = f"{named}/traces" if SHARED_VARIABLE in os.environ else f"{named} is not set"
    looked = [*own, "here", f"in {places[0]} ({told})", f"in {places[1]}"]
    stored = [each.name for place in places if place.is_dir() for each in place.iterdir()]
    known = [*shipped_names("workloads"), *(name for name in stored if _LOG_NAME.search(name))]
    raise InputError(
        f"{file}: no such file {', '.join(looked)}, nor one of the shipped "
        f"workloads{did_you_mean(file, known)}"
    )


def trace_digest(path: Path, processors: int | None) -> str:
    """Return a digest of a log's file and of the size of its machine (processors)."""
    content = read_bytes(path, what="a log", max_bytes=MAX_INPUT_BYTES)
    return blake2b(content + f"\n{processors}".encode(), digest_size=16).hexdigest()
