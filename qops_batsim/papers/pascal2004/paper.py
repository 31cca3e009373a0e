"""Pascal, Richard, Miegemolle and Monteil (2004), section 4: AROMA on the SDSC SP2 log.

Table 1 compares AROMA, all applications in the class dedicated, with NQS; Table 2
gives applications the classes of their queues. Quick is both with the first 10,000
jobs, and the log's first 4,961 jobs with the queues that their users chose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from qops_batsim.jobs import QOS_CLASSES
from qops_batsim.papers.logs import find_log
from qops_batsim.papers.pascal2004.cases import Study, run_study
from qops_batsim.papers.pascal2004.runs import ALL, ORIGINAL, REBUILT, recorded_wait
from qops_batsim.papers.pascal2004.tables import (
    guarantees_for_people,
    table1,
    table1_for_people,
    table2,
    table2_for_people,
)
from qops_batsim.papers.report import (
    CONFIRMED,
    INCONCLUSIVE,
    NOT_CONFIRMED,
    Claim,
    Figure,
    Panel,
    PaperReport,
    PaperRequest,
    Series,
    Verdict,
)

QUICK = Study(sizes=(10_000,), together=False)
FULL = Study(sizes=(10_000, 35_000), alone=(21_752,))
"""The first 21,752 usable jobs were submitted within 249 days, as the paper's 35,000 were."""

CHOICES = {
    "applications": "a job of n processors is an application of n tasks without communication. "
    "Table 1: they start together, alone on their hosts. Table 2: each task starts and progresses "
    "by itself, several may share a host, and the wait is that of the last to start; with tasks "
    "that progress together, as parts of one Batsim job, the same is shown for the real queues",
    "hosts": "128 equal hosts of one processor; memory unknown, so the weight M_f has no effect",
    "requested CPU time": "the run time, cut to the requested time, known exactly to AROMA; the "
    "log's CPU time field where it has one is reported beside it (4,347 of 4,606 simulated jobs)",
    "jobs": "jobs that ran; those cancelled before (355 of the first 4,961) are left out",
    "queues": "drawn with the mix of the first 4,961 jobs (normal 2,765, low 867, express 662, "
    "high 602, standby 65) where the rebuilt log lacks them, whatever a job's size and length",
    "classes": "low and standby: best_effort, normal: deadline, high: dedicated, express: "
    "high_priority; the paper does not mention standby",
    "as recorded": "the log's own waits; only the first 4,961 jobs have them here, so the paper's "
    "column NQS for 10,000 and 35,000 jobs cannot be computed again",
    "our NQS": "queues by name and requested time (limits 1, 4, 12, 18 h), first come first served "
    "in each, no reservations, no run limits; the site's own configuration is not known",
    "mapping time": "wall clock time of mapping one application, measured around the scheduler's "
    "search; the paper's is of a computer of 2004",
    "waiting time": "start - submission of applications that were not rejected",
}


def run(request: PaperRequest) -> PaperReport:
    """Run the experiments.

    Raises
    ------
    InputError
        A log is not at hand.
    """
    study = QUICK if request.quick else FULL
    if request.seeds is not None:
        study = msgspec.structs.replace(study, seeds=tuple(range(1, request.seeds + 1)))
    return run_with(study, request)


def run_with(study: Study, request: PaperRequest) -> PaperReport:
    """Run the experiments with other numbers of jobs or seeds; errors as :func:`run`."""
    logs = {name: find_log(request, name) for name in (REBUILT, ORIGINAL)}
    results = run_study(
        study.trials(),
        logs,
        keep=None if request.out is None else request.out / "runs",
        workers=request.workers,
        on_progress=request.progress,
    )
    usable, usable_jobs = recorded_wait(logs[ORIGINAL], usable_only=True)
    everything, all_jobs = recorded_wait(logs[ORIGINAL], usable_only=False)
    recorded = {
        "usable": usable,
        "usable_jobs": usable_jobs,
        "all": everything,
        "all_jobs": all_jobs,
    }
    first = table1(results, study, recorded)
    second = table2(results, study)
    return PaperReport(
        paper="pascal2004",
        quick=request.quick,
        choices=CHOICES | {"seeds": ", ".join(map(str, study.seeds))},
        data={
            "table1": {"rows": first, "recorded_waits": recorded},
            "table2": {"cases": second},
        },
        tables=(
            table1_for_people(first),
            table2_for_people(second),
            guarantees_for_people(second),
        ),
        figures=(_figure1(first), _figure2(second)),
        claims=claims(first, second),
    )


def claims(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """Return the paper's claims with what the tables say to them."""
    found = []
    for row in first:
        paper = row["paper"] or {}
        jobs = f"{row['jobs']:,} jobs" + (" with real queues" if row["log"] == ORIGINAL else "")
        verdict = _verdict(row["aroma"] < row["nqs"])
        if verdict == CONFIRMED and row["aroma"] >= paper.get("nqs", math.inf):
            # Ours is then a worse NQS than the paper's log tells of.
            verdict = INCONCLUSIVE
        found.append(
            Claim(
                id=f"shorter-waits-{row['jobs']}",
                text="Alone on their hosts, applications wait less under AROMA than under our NQS, "
                "and than the paper's log tells of NQS where it does (value: AROMA / our NQS, "
                f"{jobs})",
                verdict=verdict,
                value=row["aroma_to_nqs"],
                paper=paper.get("aroma_to_nqs"),
            )
        )
        if row["recorded"] is not None:
            found.append(
                Claim(
                    id="shorter-waits-than-recorded",
                    text=f"... and less than the log recorded (value: AROMA / recorded, {jobs})",
                    verdict=_verdict(row["aroma"] < row["recorded"]),
                    value=row["aroma"] / row["recorded"],
                )
            )
    for mixed, alike in zip(second[::2], second[1::2], strict=True):
        found += _claims_of_case(mixed, alike)
    return found


def _claims_of_case(mixed: Mapping[str, Any], alike: Mapping[str, Any]) -> list[Claim]:
    """Return the claims about four classes, and against best effort only."""
    case, waits = mixed["case"], mixed["wait"]
    short = case.replace(",", "").replace(" ", "-")
    paper = mixed["paper"]
    refused = paper.get("rejected", {})
    share = mixed["rejected"]["deadline"] / mixed["jobs"]["deadline"]
    slowest = max(mixed["mapping_ms"][ALL], alike["mapping_ms"][ALL])
    others = [waits[name] or 0.0 for name in QOS_CLASSES if name != "dedicated"]
    urgent = mixed["rejected"]["high_priority"]
    return [
        Claim(
            id=f"guarantees-{short}",
            text=f"{case}: no guarantee given to an accepted application is broken (value: broken)",
            verdict=_verdict(mixed["broken_promises"] == 0),
            value=float(mixed["broken_promises"]),
            paper=0.0,
        ),
        Claim(
            id=f"dedicated-wait-{short}",
            text=f"{case}: dedicated applications wait longest of all classes (value: s)",
            verdict=_verdict((waits["dedicated"] or 0.0) > max(others)),
            value=waits["dedicated"],
            paper=paper.get("wait", {}).get("dedicated"),
        ),
        Claim(
            id=f"high-priority-{short}",
            text=f"{case}: a mapping is found for every high priority application (value: rejects)",
            verdict=_verdict(urgent == 0),
            value=urgent,
            paper=refused.get("high_priority"),
        ),
        Claim(
            id=f"deadline-rejects-{short}",
            text=f"{case}: fewer than 1 % of the deadline applications are rejected (value: %)",
            verdict=_verdict(share < 0.01),
            value=100 * share,
            paper=_share_in_paper(mixed, refused),
        ),
        Claim(
            id=f"classes-cost-waits-{short}",
            text=f"{case} against best effort only: with four classes applications wait longer "
            "(value: s more)",
            verdict=_verdict(waits[ALL] > alike["wait"][ALL]),
            value=waits[ALL] - alike["wait"][ALL],
            paper=_more_in_paper(mixed, alike),
        ),
        Claim(
            id=f"mapping-time-{short}",
            text=f"{case} and best effort only: mapping takes less than 80 ms on average (value: "
            "ms, the slower of both)",
            verdict=_verdict(slowest < 80),
            value=slowest,
            paper=_slowest_in_paper(mixed, alike),
        ),
    ]


def _share_in_paper(case: Mapping[str, Any], refused: Mapping[str, float]) -> float | None:
    """Return the paper's share of rejects (%) with our number of deadline applications."""
    if "deadline" not in refused:
        return None
    return 100.0 * refused["deadline"] / float(case["jobs"]["deadline"])


def _more_in_paper(mixed: Mapping[str, Any], alike: Mapping[str, Any]) -> float | None:
    if not mixed["paper"]:
        return None
    return float(mixed["paper"]["wait"][ALL] - alike["paper"]["wait"][ALL])


def _slowest_in_paper(mixed: Mapping[str, Any], alike: Mapping[str, Any]) -> float | None:
    if not mixed["paper"]:
        return None
    return float(max(mixed["paper"]["mapping_ms"][ALL], alike["paper"]["mapping_ms"][ALL]))


def _verdict(holds: bool) -> Verdict:
    return CONFIRMED if holds else NOT_CONFIRMED


def _figure1(rows: Sequence[Mapping[str, Any]]) -> Figure:
    def panel(row: Mapping[str, Any]) -> Panel:
        fields = {
            "as recorded": "recorded",
            "our NQS": "nqs",
            "AROMA": "aroma",
            "conservative": "conservative",
        }
        ours = {name: row[field] for name, field in fields.items() if row[field] is not None}
        series = [Series(label="here", x=tuple(ours), y=tuple(ours.values()))]
        if row["paper"]:
            # The paper's NQS are the waits that its log recorded.
            paper = {"our NQS": row["paper"]["nqs"], "AROMA": row["paper"]["aroma"]}
            series.append(
                Series(
                    label="paper (NQS: its log)",
                    x=tuple(paper),
                    y=tuple(paper.values()),
                    from_paper=True,
                )
            )
        return Panel(
            title=f"{row['jobs']:,} jobs",
            x_label="Scheduler",
            y_label="Mean wait (s)",
            kind="bars",
            series=tuple(series),
        )

    return Figure(
        name="table1",
        title="Mean wait, all applications alone on their hosts",
        panels=tuple(panel(row) for row in rows),
    )


def _figure2(cases: Sequence[Mapping[str, Any]]) -> Figure:
    mixed = [case for case in cases if case["classes"] == "by queue"]
    return Figure(
        name="table2",
        title="Four classes of service",
        panels=tuple(
            Panel(
                title=f"{case['case']}: {case['jobs'][ALL]:,.0f} jobs",
                x_label="Class",
                y_label="Mean wait (s)",
                kind="bars",
                series=_waits(case),
            )
            for case in mixed
        ),
    )


def _waits(case: Mapping[str, Any]) -> tuple[Series, ...]:
    def bars(label: str, waits: Mapping[str, float | None], *, from_paper: bool) -> Series:
        known = {name: value for name, value in waits.items() if value is not None}
        return Series(label=label, x=tuple(known), y=tuple(known.values()), from_paper=from_paper)

    series = [bars("AROMA", case["wait"], from_paper=False)]
    if case["paper"]:
        series.append(bars("paper", case["paper"]["wait"], from_paper=True))
    return tuple(series)
