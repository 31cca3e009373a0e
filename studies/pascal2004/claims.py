"""The claims of Pascal et al. (2004), section 4, as tests.

Queues that are drawn differ by seed; a claim is judged by its mean over seeds, all on the paper's
stretch of the log, and of what no queue changes there is one number. Whether waits are shorter is
also judged over disjoint stretches, a check of ours. With the queues of the log, of its first jobs,
there is one run, which shows its numbers and decides nothing but what must never happen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from qops_batsim.experiments import (
    CONFIRMED,
    NOT_JUDGED,
    TOO_FEW,
    UNDECIDED,
    Claim,
    Told,
    Values,
    as_checks,
    changes,
    claim_with_parts,
    differences,
    invariant_claim,
    range_claim,
    sign_claim,
    untested,
)
from qops_batsim.workload import APART, QOS_CLASSES
from studies.pascal2004.runs import TableRows, rejected_percent
from studies.pascal2004.study import ALL, ORIGINAL, REBUILT, RUN_TIME, SPECIFICATION

_sentence = SPECIFICATION.sentence

_TABLE_2 = tuple(name for name, (section, _) in SPECIFICATION.claims.items() if section == "4.2")
"""Claims about Table 2."""

_TIMES = 2.0
"""Factor between shares of rejected applications that count as the same."""

_UNTESTED = {
    "classes-cost-waits": """\
with best effort only no application ever waits here, so that any wait is a longer one""",
    "mapping-time": "it is a time of a computer of 2004, and ours is another one",
}
"""Claims that no run here can test, with the reason; the numbers are in Table 2."""

_SHORTER = 1.0
"""Change of a wait (%) below which there is none."""


def claims(
    first: TableRows, second: TableRows, third: TableRows, stretches: Mapping[str, Values]
) -> list[Claim]:
    """Return the paper's claims with what the tables say to them."""
    waits = [claim for row in first for claim in _claims_of_row(row)]
    found = _of_cases("shorter-waits", *_sentence("shorter-waits"), waits)
    fair = [_against_fair_nqs(row) for row in first]
    found += as_checks(_of_cases("shorter-waits-fair", *_sentence("shorter-waits-fair"), fair))
    found += as_checks(_of_stretches(stretches))
    of_classes = second[::2]
    told = [share for case in of_classes for share in _paper_rejects(case)]
    for suffix, behind, of_paper in (
        ("", "", True),
        ("-real", ", with the real queues of the log's beginning", False),
    ):
        cases = [_claims_of_case(each, told) for each in of_classes if _is_judged(each, of_paper)]
        for name in _TABLE_2:
            section, text = _sentence(name)
            parts = [case[name] for case in cases if name in case]
            if parts:
                judged = _of_cases(f"{name}{suffix}", section, f"{text}{behind}", parts)
                found += judged if of_paper else as_checks(judged)
            elif cases and of_paper and name in _UNTESTED:
                claim = Claim(id=name, text=text, section=section, verdict=NOT_JUDGED)
                found.append(untested(claim, _UNTESTED[name]))
    found += _mapping_times(second)
    if third and told:
        row = third[-1]
        section, text = _sentence("deadline-rejects")
        text = f"{row['candidates']} candidates for each fall-back: {text}"
        values, name = row["deadline_rejects_percent"], "deadline-rejects-candidates"
        found += as_checks([range_claim(name, text, values, *_around(told[0]), section=section)])
    return found


def _mapping_times(second: TableRows) -> list[Claim]:
    """Return the claim that four classes make mappings longer than best effort only.

    Both times are of this computer, and their ratio is what is claimed; the paper's own Table 2 has
    more with 10,000 jobs and less with 35,000.
    """
    parts, name = [], "mapping-increases"
    section, text = _sentence(name)
    for mixed, alone in zip(second[::2], second[1::2], strict=True):
        if mixed["log"] == REBUILT:
            told = [each["paper"].get("mapping_ms", {}).get(ALL) for each in (mixed, alone)]
            paper = None if None in told else 100.0 * (told[0] / told[1] - 1.0)
            times = changes(*(each["by_seed"]["mapping_ms"][ALL] for each in (mixed, alone)))
            case = mixed["case"].replace(" ", "-")
            about = Told(section=section, paper=paper, margin=_SHORTER, relative=True)
            parts.append(
                sign_claim(f"{name}-{case}", f"{mixed['case']}: {text}", times, 1, **about)
            )
    return _of_cases(name, section, text, parts) if parts else []


def _of_stretches(waits: Mapping[str, Values]) -> list[Claim]:
    """Return the claims of Table 1 over stretches of the log."""
    found = []
    for other, name in (("nqs", "shorter-waits"), ("fair_nqs", "shorter-waits-fair")) * bool(waits):
        section, text = _sentence(name)
        text = f"{text}, on {len(waits[other])} stretches of the log"
        told = Told(section=section, margin=_SHORTER, relative=True)
        less = changes(waits["aroma"], waits[other])
        found.append(sign_claim(f"{name}-stretches", text, less, -1, **told))
    return found


def _of_cases(name: str, section: str, text: str, parts: Sequence[Claim]) -> list[Claim]:
    """Return a claim that holds if it does in each case, and these behind it.

    Cases of too few seeds decide nothing where there are others: they show their numbers. Where all
    are, the number is that of the case with most.
    """
    enough = [part for part in parts if part.verdict != TOO_FEW]
    enough = enough or sorted(parts, key=lambda part: -(part.count or 0))
    whole, *_ = claim_with_parts(name, section, text, enough)
    shown = [part for part in parts if part not in enough]
    ids = tuple(part.id for part in (*enough, *shown))
    return [msgspec.structs.replace(whole, parts=ids), *enough, *shown]


def _is_judged(case: Mapping[str, Any], of_paper: bool) -> bool:
    """Tell whether a case is one of the paper's, or that nearest to them with real queues."""
    if of_paper:
        return bool(case["log"] == REBUILT)
    return (case["log"], case["cpu_time"], case["tasks"]) == (ORIGINAL, RUN_TIME, APART)


def _around(share: float) -> tuple[float, float]:
    return share / _TIMES, share * _TIMES


def _claims_of_row(row: Mapping[str, Any]) -> list[Claim]:
    """Return the claims of Table 1."""
    paper = row["paper"] or {}
    told = paper.get("aroma_to_nqs")
    shorter = _shorter(
        f"shorter-waits-{row['jobs']}",
        "shorter-waits-jobs",
        row,
        row["nqs_by_seed"],
        paper=None if told is None else 100.0 * (told - 1.0),
    )
    if row["aroma"] >= paper.get("nqs", math.inf):
        # Ours is then a worse NQS than the paper's log tells of.
        verdict = UNDECIDED if shorter.verdict == CONFIRMED else shorter.verdict
        shorter = msgspec.structs.replace(shorter, verdict=verdict, leaning=UNDECIDED, chance=None)
    if row["recorded"] is None:
        return [shorter]
    recorded = [row["recorded"]] * len(row["aroma_by_seed"])
    name = "shorter-waits-than-recorded"
    return [shorter, _shorter(name, name, row, recorded)]


def _against_fair_nqs(row: Mapping[str, Any]) -> Claim:
    """Return the claim of Table 1 against an NQS with a queue for each requested time."""
    name = f"shorter-waits-fair-{row['jobs']}"
    return _shorter(name, "shorter-waits-fair-jobs", row, row["fair_nqs_by_seed"])


def _shorter(
    name: str, sentence: str, row: Mapping[str, Any], others: Values, paper: float | None = None
) -> Claim:
    """Return a claim that waits under AROMA are shorter than others."""
    jobs = f"{row['jobs']:,} jobs" + (" with real queues" if row["log"] == ORIGINAL else "")
    section, text = _sentence(sentence, jobs=jobs)
    found = changes(row["aroma_by_seed"], others)
    told = Told(section=section, paper=paper, margin=_SHORTER, relative=True)
    return sign_claim(name, text, found, -1, **told)


def _paper_rejects(case: Mapping[str, Any]) -> list[float]:
    """Return the share of the deadline applications that the paper rejects in a case (%), if any.

    The paper tells the number of rejects; that of the applications is ours.
    """
    if not case["paper"]:
        return []
    rejected: float = case["paper"]["rejected"]["deadline"]
    return [100.0 * rejected / case["jobs"]["deadline"]]


def _claims_of_case(mixed: Mapping[str, Any], told_rejects: Sequence[float]) -> dict[str, Claim]:
    """Return the claims about four classes.

    Rejects with real queues, of which the paper tells nothing, are compared with its first case;
    without any of the paper's cases they are not judged.
    """
    case = mixed["case"]
    short = case.replace(",", "").replace(" ", "-")
    paper = _paper_of_case(mixed)
    waits, rejected = (mixed["by_seed"][name] for name in ("wait", "rejected"))
    others = zip(*(waits[name] for name in QOS_CLASSES if name != "dedicated"), strict=True)
    next_longest = [max(wait or 0.0 for wait in row) for row in others]
    dedicated = [wait or 0.0 for wait in waits["dedicated"]]
    longer = differences(dedicated, next_longest)
    broken, urgent = mixed["broken_promises"], sum(rejected["high_priority"])
    judged: dict[str, tuple[Values, float, float]] = {
        "dedicated-wait": (longer, 0.0, math.inf),
    }
    if told_rejects:
        ends = _around(paper.get("deadline-rejects", told_rejects[0]))
        judged["deadline-rejects"] = rejected_percent(mixed), *ends
    facts: dict[str, float] = {"guarantees": broken, "high-priority": urgent}
    found = {}
    for name in _TABLE_2:
        section, text = _sentence(name)
        full, text, told = f"{name}-{short}", f"{case}: {text}", paper.get(name)
        if name in facts:
            found[name] = invariant_claim(full, text, facts[name], told, section=section)
        elif name in judged:
            found[name] = range_claim(full, text, *judged[name], section=section, paper=told)
    return found


def _paper_of_case(mixed: Mapping[str, Any]) -> dict[str, float]:
    """Return the paper's numbers for the claims about a case."""
    told = mixed["paper"]
    if not told:
        return {"guarantees": 0.0}
    waits, rejected = told["wait"], told["rejected"]
    others = max(waits[name] for name in QOS_CLASSES if name != "dedicated")
    return {
        "guarantees": 0.0,
        "dedicated-wait": waits["dedicated"] - others,
        "high-priority": rejected["high_priority"],
        "deadline-rejects": _paper_rejects(mixed)[0],
    }
