"""Islam et al. (2003): the report that proposed QoPS.

M. Islam, P. Balaji, P. Sadayappan and D. K. Panda, "QoPS: A QoS based scheme for parallel job
scheduling", Technical Report OSU-CISRC-4/03-TR21, Ohio State University, 2003, and JSSPP 2003:
Figures 4 to 58 and the claims of section 5.
"""

from __future__ import annotations

from collections.abc import Mapping

from qops_batsim.papers.claims import judged_together
from qops_batsim.papers.islam2003 import choices as chosen
from qops_batsim.papers.islam2003.cases import Source, Study
from qops_batsim.papers.islam2003.claims import claims
from qops_batsim.papers.islam2003.figures import figures
from qops_batsim.papers.islam2003.runs import run_study
from qops_batsim.papers.islam2003.tables import tables
from qops_batsim.papers.islam2003.values import all_values
from qops_batsim.papers.logs import find_log
from qops_batsim.papers.report import PaperReport, PaperRequest
from qops_batsim.workload.conversion import convert_log
from qops_batsim.workload.model import Workload
from qops_batsim.workload.swf import SwfLog, read_swf

ARCHIVE_NAMES = {
    chosen.CTC: ("CTC-SP2-1996-3.1-cln.swf.gz", "ctc-sp2"),
    chosen.SDSC: ("SDSC-SP2-1998-4.2-cln.swf.gz", "sdsc-sp2"),
    chosen.KTH: ("KTH-SP2-1996-2.swf.gz", "kth-sp2"),
}
"""The archive's files, by ours, with the names by which they are fetched."""


def run(request: PaperRequest) -> PaperReport:
    """Run the experiments; the quick part has fewer jobs, loads and seeds."""
    study = request.seeded(chosen.QUICK if request.quick else chosen.FULL)
    logs: dict[str, SwfLog] = {}
    traces: dict[Source, Workload] = {}
    for source in study.all_sources():
        if source.file not in logs:
            archived, name = ARCHIVE_NAMES[source.file]
            logs[source.file] = read_swf(find_log(request, source.file, archived, fetch=name))
        log, processors = logs[source.file], source.processors
        window = convert_log(log, processors=processors, skip=source.skip, first=source.first)
        traces[source] = window.workload
    return report_on(traces, study, request)


def report_on(
    traces: Mapping[Source, Workload], study: Study, request: PaperRequest
) -> PaperReport:
    """Run a study on traces, the jobs of load 1 (type ``delay``) by where they are from."""
    results = run_study(traces, study, request)
    return PaperReport(
        paper="islam2003",
        quick=request.quick,
        choices=chosen.choices(study),
        data=all_values(results),
        tables=tables(results),
        figures=figures(results),
        claims=judged_together(claims(results)),
    )
