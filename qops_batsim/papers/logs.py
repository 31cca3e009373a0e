"""Where the logs of the papers are looked for."""

from __future__ import annotations

from pathlib import Path

from qops_batsim.errors import InputError
from qops_batsim.experiments.traces import usual_places
from qops_batsim.papers.report import PaperRequest


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
