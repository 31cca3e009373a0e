"""Islam et al. (2004): what a centre earns from feedback, tolerance, slack and kills.

M. Islam, P. Balaji, P. Sadayappan and D. K. Panda, "Towards provision of quality of
service guarantees in job scheduling", IEEE International Conference on Cluster Computing,
2004: Figures 3 to 11 and the claims of sections 6 to 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qops_batsim.papers.claims import judged_together
from qops_batsim.papers.islam2004 import choices as chosen
from qops_batsim.papers.islam2004.cases import Study
from qops_batsim.papers.islam2004.claims import claims
from qops_batsim.papers.islam2004.figures import figures
from qops_batsim.papers.islam2004.runs import run_study
from qops_batsim.papers.islam2004.tables import tables
from qops_batsim.papers.islam2004.values import all_values
from qops_batsim.papers.logs import find_log
from qops_batsim.papers.report import PaperReport, PaperRequest
from qops_batsim.workload.conversion import convert_log
from qops_batsim.workload.model import Workload
from qops_batsim.workload.swf import read_swf

LOGS = ("CTC-SP2-1996-rebuilt.swf.gz", "CTC-SP2-1996-3.1-cln.swf.gz")


def run(request: PaperRequest) -> PaperReport:
    """Run the experiments; the quick part is one machine, two seeds and a coarse grid."""
    log = read_swf(find_log(request, *LOGS, fetch="ctc-sp2"))
    jobs = chosen.QUICK_JOBS if request.quick else chosen.FULL_JOBS
    studies = {chosen.BATCH_PARTITION: chosen.FULL, chosen.WHOLE_LOG: chosen.COARSE}
    if request.quick:
        studies = {chosen.BATCH_PARTITION: chosen.QUICK}
    parts = []
    for processors, study in studies.items():
        workload = convert_log(log, processors=processors, first=jobs).workload
        parts.append((workload, request.seeded(study)))
    return report_on(parts, request)


def report_on(parts: Sequence[tuple[Workload, Study]], request: PaperRequest) -> PaperReport:
    """Run studies on traces, one for each machine, and report.

    The traces are the jobs of load 1, of type ``delay``. Figures and claims of the first
    have the plain names, those of the others end in ``-PROCESSORS``.
    """
    total = sum(len(study.runs()) for _, study in parts)
    before = 0
    machines: dict[str, Any] = {}
    report = PaperReport(
        paper="islam2004",
        quick=request.quick,
        choices=chosen.choices(parts),
        data={"machines": machines},
    )
    for trace, study in parts:
        results = run_study(trace, study, request, before=before, total=total)
        before += len(results.runs)
        suffix = f"-{trace.processors}" if machines else ""
        machine = f", {trace.processors} processors" if len(parts) > 1 else ""
        report.tables = [*report.tables, *tables(results, machine=machine)]
        report.figures = [*report.figures, *figures(results, suffix=suffix, machine=machine)]
        report.claims = [*report.claims, *claims(results, suffix=suffix)]
        machines[str(trace.processors)] = all_values(results)
    report.claims = judged_together(report.claims)
    return report
