"""Where logs are looked for, and how they become workloads."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

from qops_batsim.errors import InputError
from qops_batsim.files import read_bytes
from qops_batsim.limits import MAX_INPUT_BYTES
from qops_batsim.shipped import find_input
from qops_batsim.workload.batsim_json import read_workload_file
from qops_batsim.workload.from_swf import convert_swf
from qops_batsim.workload.model import Workload
from qops_batsim.workload.swf import read_swf

SHARED_VARIABLE = "QOPS_SHARED"
"""Environment variable with the directory that holds ``traces``."""


def usual_places() -> list[Path]:
    """Return the directories in which the logs of papers are looked for.

    ``$QOPS_SHARED/traces`` (default ``../shared/traces``), and the cache of ``workload fetch``.
    """
    import pooch

    shared = Path(os.environ.get(SHARED_VARIABLE, Path("..") / "shared"))
    return [shared / "traces", Path(pooch.os_cache("qops-batsim"))]


def find_trace(file: str, directory: Path) -> Path:
    """Return the path of a log: from a directory, as it is, in the usual places, or shipped."""
    for path in (directory / file, Path(file), *(place / file for place in usual_places())):
        if path.is_file():
            return path
    return find_input(file, "workloads")


def is_swf(path: Path) -> bool:
    """Tell whether a log is an SWF file rather than a Batsim workload, by its name."""
    return path.name.removesuffix(".gz").endswith(".swf")


def trace_digest(path: Path, processors: int | None) -> str:
    """Return what tells a log on a machine from others."""
    content = read_bytes(path, what="a log", max_bytes=MAX_INPUT_BYTES)
    return blake2b(content + f"\n{processors}".encode(), digest_size=16).hexdigest()


def read_trace(path: Path, processors: int | None, jobs: int | None) -> Workload:
    """Return the first usable jobs of a log (None: all), of type ``delay``."""
    if is_swf(path):
        return convert_swf(read_swf(path), processors=processors, first=jobs).workload
    if processors is not None:
        raise InputError(
            f"{path}: is no SWF file (.swf, .swf.gz), so that its processors are those that it "
            f"tells; {processors} were given"
        )
    return read_workload_file(path)
