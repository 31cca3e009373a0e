"""Pascal, Richard, Miegemolle and Monteil (2004), section 4: AROMA on the SDSC SP2 log.

Table 1 compares AROMA, all applications in the class dedicated, with NQS; Table 2
gives applications the classes of their queues. Quick is both with the first 10,000
jobs, and the log's first 4,961 jobs with the queues that their users chose.
"""

from __future__ import annotations

from qops_batsim.papers.claims import judged_together
from qops_batsim.papers.logs import find_log
from qops_batsim.papers.pascal2004.cases import ORIGINAL, REBUILT, Study
from qops_batsim.papers.pascal2004.choices import CHOICES, FULL, QUICK
from qops_batsim.papers.pascal2004.claims import claims
from qops_batsim.papers.pascal2004.figures import figures
from qops_batsim.papers.pascal2004.runs import recorded_wait, run_trials
from qops_batsim.papers.pascal2004.tables import tables
from qops_batsim.papers.pascal2004.values import candidates, table1, table2
from qops_batsim.papers.report import PaperReport, PaperRequest


def run(request: PaperRequest) -> PaperReport:
    """Run the experiments."""
    return run_with(request.seeded(QUICK if request.quick else FULL), request)


def run_with(study: Study, request: PaperRequest) -> PaperReport:
    """Run the experiments with other numbers of jobs or seeds."""
    logs = {name: find_log(request, name) for name in (REBUILT, ORIGINAL)}
    results = run_trials(study.trials(), logs, request)
    recorded: dict[str, float] = {}
    for name, usable in (("usable", True), ("all", False)):
        wait, jobs = recorded_wait(logs[ORIGINAL], usable_only=usable)
        recorded |= {name: wait, f"{name}_jobs": jobs}
    first = table1(results, study, recorded)
    second = table2(results, study)
    third = candidates(results, study)
    return PaperReport(
        paper="pascal2004",
        quick=request.quick,
        choices=CHOICES | {"seeds": ", ".join(map(str, study.seeds))},
        data={
            "table1": {"rows": first, "recorded_waits": recorded},
            "table2": {"cases": second},
            "candidates": third,
        },
        tables=tables(first, second, third),
        figures=figures(first, second, third),
        claims=judged_together(claims(first, second, third)),
    )
