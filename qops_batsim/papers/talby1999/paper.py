"""Talby and Feitelson (1999): slack-based backfilling on a year of the KTH SP2.

D. Talby and D. G. Feitelson, "Supporting priorities and improving utilization of the IBM
SP scheduler using slack-based backfilling", IPPS/SPDP 1999: the tables of sections 5.2 and
5.3, the curve of section 5.3, and what the text says of parameters. What explains the
differences is in ``docs/talby1999.md``.
"""

from __future__ import annotations

from qops_batsim.papers.claims import judged_together
from qops_batsim.papers.logs import find_log
from qops_batsim.papers.report import PaperReport, PaperRequest
from qops_batsim.papers.talby1999.cases import BOTH, first_cases
from qops_batsim.papers.talby1999.choices import CHOICES
from qops_batsim.papers.talby1999.claims import all_claims, monthly_claims
from qops_batsim.papers.talby1999.figures import all_figures, monthly_figures
from qops_batsim.papers.talby1999.runs import run_years
from qops_batsim.papers.talby1999.tables import (
    all_tables,
    claims_in_both_readings,
    monthly_tables,
)
from qops_batsim.papers.talby1999.values import all_values, monthly_average_case, monthly_values
from qops_batsim.workload.swf import SwfLog, read_swf

LOG = "KTH-SP2-1996-2.swf.gz"
ARCHIVE_NAME = "kth-sp2"


def run(request: PaperRequest) -> PaperReport:
    """Run the experiments; the quick part is the monthly table."""
    log = read_swf(find_log(request, LOG, fetch=ARCHIVE_NAME))
    return report_on(log, request)


def report_on(log: SwfLog, request: PaperRequest) -> PaperReport:
    """Run the experiments on a log of the paper's months, September 1996 to August 1997."""
    cases = first_cases(quick=request.quick)
    quick = request.quick
    total = len(cases) + len(BOTH) * (not quick)
    years = run_years(log, cases, request, total=total)
    if not quick:
        last = [monthly_average_case(years, reading) for reading in BOTH.values()]
        years |= run_years(log, last, request, before=len(cases), total=total)
    data = monthly_values(years) if quick else all_values(years)
    found = monthly_claims if quick else all_claims
    claims, literal = (judged_together(found(years, reading)) for reading in BOTH.values())
    data["literal_claims"] = literal
    return PaperReport(
        paper="talby1999",
        quick=quick,
        choices=CHOICES,
        data=data,
        tables=[
            *(monthly_tables(data) if quick else all_tables(data)),
            claims_in_both_readings(claims, literal),
        ],
        figures=monthly_figures(data) if quick else all_figures(data),
        claims=claims,
    )
