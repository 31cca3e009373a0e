"""Logs of the papers: their files, machines, and the places where they are found."""

from __future__ import annotations

from pathlib import Path

from qops_batsim.errors import InputError
from qops_batsim.experiments.traces import usual_places
from qops_batsim.papers.report import PaperRequest
from qops_batsim.workload.swf import SwfLog, read_swf

CTC, SDSC, KTH = (
    "CTC-SP2-1996-rebuilt.swf.gz",
    "SDSC-SP2-1998-rebuilt.swf.gz",
    "KTH-SP2-1996-2.swf.gz",
)
"""The logs' files."""

_ARCHIVED = {
    CTC: ("CTC-SP2-1996-3.1-cln.swf.gz", "ctc-sp2"),
    SDSC: ("SDSC-SP2-1998-4.2-cln.swf.gz", "sdsc-sp2"),
    KTH: (KTH, "kth-sp2"),
}
"""The archive's files, by ours, with the names by which they are fetched."""

BATCH_PARTITION, WHOLE_LOG = 430, 338
"""Processors of CTC: of the machine's batch partition, and as many as the log tells."""

SDSC_PROCESSORS, KTH_PROCESSORS = 128, 100


def read_log(request: PaperRequest, file: str) -> SwfLog:
    """Return one of these logs, ours or the archive's."""
    archived, name = _ARCHIVED[file]
    return read_swf(find_log(request, *dict.fromkeys((file, archived)), fetch=name))


def find_log(request: PaperRequest, *files: str, fetch: str | None = None) -> Path:
    """Return the path of a log, the first of these files that is found.

    It is looked for in the directory of the request, else in ``$QOPS_SHARED/traces``
    (default ``../shared/traces``), else in the cache of ``workload fetch``, which may know
    the last file by the name ``fetch``.
    """
    places = [request.traces] if request.traces is not None else usual_places()
    for file in files:
        for place in places:
            if (place / file).is_file():
                return place / file
    looked = ", ".join(str(place) for place in places)
    command = f"run `qops-batsim workload fetch {fetch}` once, or " if fetch else ""
    raise InputError(
        f"{' or '.join(files)}: not found in {looked}; "
        f"{command}give the directory that has it (--traces DIR). "
        "It is a log of the Parallel Workloads Archive, or was made from one: "
        "https://www.cs.huji.ac.il/labs/parallel/workload/"
    )
