"""The claims of Pascal et al. (2004), section 4, as tests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from qops_batsim.jobs import QOS_CLASSES
from qops_batsim.papers.claims import CONFIRMED, INCONCLUSIVE, Claim, plain_claim
from qops_batsim.papers.pascal2004.cases import ORIGINAL
from qops_batsim.papers.pascal2004.numbers import ALL
from qops_batsim.papers.pascal2004.values import Rows

_TEXTS = {
    "guarantees": ": no guarantee given to an accepted application is broken (value: broken)",
    "dedicated-wait": ": dedicated applications wait longest of all classes (value: s)",
    "high-priority": ": a mapping is found for every high priority application (value: rejects)",
    "deadline-rejects": ": fewer than 1 % of the deadline applications are rejected (value: %)",
    "classes-cost-waits": " against best effort only: with four classes applications wait longer "
    "(value: s more)",
    "mapping-time": " and best effort only: mapping takes less than 80 ms on average (value: ms, "
    "the slower of both)",
}
"""What is claimed of each case of Table 2, behind its name."""


def claims(first: Rows, second: Rows) -> list[Claim]:
    """Return the paper's claims with what the tables say to them."""
    found = [claim for row in first for claim in _claims_of_row(row)]
    for mixed, alike in zip(second[::2], second[1::2], strict=True):
        found += _claims_of_case(mixed, alike)
    return found


def _claims_of_row(row: Mapping[str, Any]) -> list[Claim]:
    """Return the claims of Table 1."""
    paper = row["paper"] or {}
    jobs = f"{row['jobs']:,} jobs" + (" with real queues" if row["log"] == ORIGINAL else "")
    shorter = plain_claim(
        f"shorter-waits-{row['jobs']}",
        "Alone on their hosts, applications wait less under AROMA than under our NQS, "
        f"and than the paper's log tells of NQS where it does (value: AROMA / our NQS, {jobs})",
        row["aroma"] < row["nqs"],
        row["aroma_to_nqs"],
        paper.get("aroma_to_nqs"),
        section="4.1",
    )
    if shorter.verdict == CONFIRMED and row["aroma"] >= paper.get("nqs", math.inf):
        # Ours is then a worse NQS than the paper's log tells of.
        shorter = msgspec.structs.replace(shorter, verdict=INCONCLUSIVE)
    if row["recorded"] is None:
        return [shorter]
    return [
        shorter,
        plain_claim(
            "shorter-waits-than-recorded",
            f"... and less than the log recorded (value: AROMA / recorded, {jobs})",
            row["aroma"] < row["recorded"],
            row["aroma"] / row["recorded"],
            section="4.1",
        ),
    ]


def _claims_of_case(mixed: Mapping[str, Any], alike: Mapping[str, Any]) -> list[Claim]:
    """Return the claims about four classes, and against best effort only."""
    case, waits, rejected = mixed["case"], mixed["wait"], mixed["rejected"]
    short = case.replace(",", "").replace(" ", "-")
    paper = _paper_of_case(mixed, alike)
    share = rejected["deadline"] / mixed["jobs"]["deadline"]
    slowest = max(each["mapping_ms"][ALL] for each in (mixed, alike))
    longer = waits[ALL] - alike["wait"][ALL]
    others = [waits[name] or 0.0 for name in QOS_CLASSES if name != "dedicated"]
    broken, urgent = mixed["broken_promises"], rejected["high_priority"]
    judged: dict[str, tuple[bool, float | None]] = {
        "guarantees": (broken == 0, float(broken)),
        "dedicated-wait": ((waits["dedicated"] or 0.0) > max(others), waits["dedicated"]),
        "high-priority": (urgent == 0, urgent),
        "deadline-rejects": (share < 0.01, 100 * share),
        "classes-cost-waits": (longer > 0, longer),
        "mapping-time": (slowest < 80, slowest),
    }
    return [
        plain_claim(
            f"{name}-{short}", f"{case}{_TEXTS[name]}", *found, paper.get(name), section="4.2"
        )
        for name, found in judged.items()
    ]


def _paper_of_case(mixed: Mapping[str, Any], alike: Mapping[str, Any]) -> dict[str, float]:
    """Return the paper's numbers for the claims about a case."""
    told, other = mixed["paper"], alike["paper"]
    if not told:
        return {"guarantees": 0.0}
    waits, rejected, mapping = told["wait"], told["rejected"], told["mapping_ms"]
    return {
        "guarantees": 0.0,
        "dedicated-wait": waits["dedicated"],
        "high-priority": rejected["high_priority"],
        # The paper's rejects among our number of deadline applications.
        "deadline-rejects": 100.0 * rejected["deadline"] / float(mixed["jobs"]["deadline"]),
        "classes-cost-waits": float(waits[ALL] - other["wait"][ALL]),
        "mapping-time": float(max(mapping[ALL], other["mapping_ms"][ALL])),
    }
