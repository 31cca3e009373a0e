"""Logs of the papers: their files, machines and stretches."""

from __future__ import annotations

from qops_batsim import read_swf
from qops_batsim.workload import SwfLog
from studies.request import StudyRequest

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


def jobs_before(seed: int, every: int) -> int:
    """Return how many jobs of a log lie before the stretch of a seed, one every ``every`` jobs.

    Stretches share no job, so that they are repetitions. The first one is the paper's, or a part of
    it.
    """
    return every * (seed - 1)


def read_log(request: StudyRequest, file: str) -> SwfLog:
    """Return one of these logs, ours or the archive's."""
    archived, name = _ARCHIVED[file]
    return read_swf(request.find_log(*dict.fromkeys((file, archived)), fetch=name))
