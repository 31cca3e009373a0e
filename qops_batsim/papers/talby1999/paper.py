"""Talby and Feitelson (1999): slack-based backfilling on a year of the KTH SP2.

D. Talby and D. G. Feitelson, "Supporting priorities and improving utilization of the IBM
SP scheduler using slack-based backfilling", IPPS/SPDP 1999: the tables of sections 5.2 and
5.3, the curve of section 5.3, and what the text says of parameters. What explains the
differences is in ``docs/talby1999.md``.
"""

from __future__ import annotations

from typing import Any

from qops_batsim.papers.logs import find_log
from qops_batsim.papers.report import PaperReport, PaperRequest
from qops_batsim.papers.talby1999 import cases as study
from qops_batsim.papers.talby1999 import claims as talby1999_claims
from qops_batsim.papers.talby1999 import data as talby1999_data
from qops_batsim.papers.talby1999 import tables as talby1999_pages
from qops_batsim.papers.talby1999.runs import Case, Year, run_cases
from qops_batsim.workload.swf import SwfLog, read_swf

LOG = "KTH-SP2-1996-2.swf.gz"
ARCHIVE_NAME = "kth-sp2"

CHOICES = {
    "machine": "128 processors, as in the paper; the log's own machine has 100",
    "months": "of the log's site, each simulated by itself from an empty machine; jobs that "
    "were submitted and ended in the same month. So the months have nearly as many jobs as the "
    "paper's, 28,232 instead of about 28,284; run times of 0 s are 1 s",
    "estimates": "the users'; jobs that exceed them are killed",
    "early ends": "noticed at the next arrival or beginning of a time slot of the plan, which "
    "the paper's September shows; at once in a usual simulator",
    "removal": "waiting jobs are moved up one by one in order of their starts (compression), "
    "and a start gained so is a promise like any other: only so is a slack factor of 0 "
    "conservative backfilling, as section 4.8 says. The improvements of all four readings were "
    "known when this one was chosen; they are in a table",
    "average wait": "2401 s for all months, the paper's, except where it is said",
    "preferred jobs": "every fifth of a month by submission: the 5th, the 10th, ...",
    "intervals": "95 % bootstrap over the months",
}


def run(request: PaperRequest) -> PaperReport:
    """Run the experiments; the quick part is the monthly table.

    Raises
    ------
    InputError
        The log is not at hand; the message says how to get it.
    """
    log = read_swf(find_log(request, LOG, fetch=ARCHIVE_NAME))
    return report_on(log, request)


def report_on(log: SwfLog, request: PaperRequest) -> PaperReport:
    """Run the experiments on a log and report.

    Parameters
    ----------
    log
        Jobs that ended in the paper's months, September 1996 to August 1997.
    request
        Whether only the quick part, workers, progress.
    """
    cases = study.first_cases(quick=request.quick)
    total = len(cases) + (not request.quick)
    done = 0

    def on_year() -> None:
        nonlocal done
        done += 1
        request.progress(done, total)

    years = run_cases(log, cases, workers=request.workers, on_year=on_year)
    data: dict[str, Any] = {
        "equal_priorities": talby1999_data.equal_priorities(years),
        "conservative_column": talby1999_data.conservative_column(years),
    }
    if request.quick:
        return PaperReport(
            paper="talby1999",
            quick=True,
            choices=CHOICES,
            data=data,
            tables=talby1999_pages.monthly_tables(data),
            figures=talby1999_pages.monthly_figures(data),
            claims=talby1999_claims.monthly_claims(years),
        )
    years |= run_cases(log, [study.monthly_average_waits(years)], on_year=on_year)
    data |= _further_data(years)
    return PaperReport(
        paper="talby1999",
        quick=False,
        choices=CHOICES,
        data=data,
        tables=talby1999_pages.all_tables(data),
        figures=talby1999_pages.all_figures(data),
        claims=talby1999_claims.all_claims(years),
    )


def _further_data(years: dict[Case, Year]) -> dict[str, Any]:
    return {
        "heuristics": talby1999_data.heuristics(years),
        "unequal_priorities": talby1999_data.unequal_priorities(years),
        "slack_factors": talby1999_data.slack_factors(years),
        "priority_gap": talby1999_data.priority_gap(years),
        "weights": talby1999_data.weights(years),
        "all_priorities": talby1999_data.all_priorities(years),
        "monthly_average_wait": talby1999_data.monthly_average_wait(years),
        "readings": talby1999_data.readings(years),
    }
