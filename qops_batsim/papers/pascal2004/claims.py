"""The claims of Pascal et al. (2004), section 4, as tests.

Queues that are drawn differ by seed, and what depends on them is judged by its mean over seeds.
With the queues of the log there is one run, of which a claim holds or does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from qops_batsim.jobs import QOS_CLASSES
from qops_batsim.papers.claims import (
    CONFIRMED,
    INCONCLUSIVE,
    Claim,
    Values,
    claim_with_parts,
    differences,
    plain_claim,
    range_claim,
)
from qops_batsim.papers.pascal2004.runs import TableRows, rejected_percent
from qops_batsim.papers.pascal2004.study import ALL, ORIGINAL, REBUILT

_TEXTS = {
    "guarantees": "no guarantee given to an accepted application is broken (broken)",
    "dedicated-wait": "dedicated applications wait longest of all classes (s more than the next)",
    "high-priority": "a mapping is found for every high priority application (all rejects)",
    "deadline-rejects": "fewer than 1 % of the deadline applications are rejected (%)",
    "classes-cost-waits": "with four classes applications wait longer than with best effort only "
    "(s more)",
    "mapping-time": "mapping takes less than 80 ms on average, also with best effort only (ms, the "
    "slower of both)",
}
"""Claims about Table 2."""

_REJECTS = 1.0
"""Deadline applications (%) of which fewer are rejected."""


def claims(first: TableRows, second: TableRows, third: TableRows) -> list[Claim]:
    """Return the paper's claims with what the tables say to them."""
    waits = [claim for row in first for claim in _claims_of_row(row)]
    found = claim_with_parts(
        "shorter-waits",
        "4.1",
        "alone on their hosts, applications wait less under AROMA than under NQS (AROMA / NQS)",
        waits,
    )
    pairs = list(zip(second[::2], second[1::2], strict=True))
    for suffix, behind, of_paper in (
        ("", "", True),
        ("-real", ", with the real queues of the log's beginning", False),
    ):
        cases = [
            _claims_of_case(*pair) for pair in pairs if (pair[0]["log"] == REBUILT) == of_paper
        ]
        for number, (name, text) in enumerate(_TEXTS.items() if cases else ()):
            parts = [case[number] for case in cases]
            found += claim_with_parts(f"{name}{suffix}", "4.2", f"{text}{behind}", parts)
    if third:
        row = third[-1]
        which = f"the same, {row['candidates']} candidates for each fall-back"
        text = f"{which}: {_TEXTS['deadline-rejects']}"
        values = row["deadline_rejects_percent"]
        claim = range_claim(
            "deadline-rejects-candidates",
            text,
            values,
            high=_REJECTS,
            section="4.2",
            single_is_fact=True,
        )
        found.append(claim)
    return found


def _claims_of_row(row: Mapping[str, Any]) -> list[Claim]:
    """Return the claims of Table 1."""
    paper = row["paper"] or {}
    jobs = f"{row['jobs']:,} jobs" + (" with real queues" if row["log"] == ORIGINAL else "")
    shorter = range_claim(
        f"shorter-waits-{row['jobs']}",
        "alone on their hosts, applications wait less under AROMA than under our NQS, "
        f"and than the paper's log tells of NQS where it does (AROMA / our NQS, {jobs})",
        [row["aroma"] / wait for wait in row["nqs_by_seed"] if wait],
        high=1.0,
        paper=paper.get("aroma_to_nqs"),
        section="4.1",
        single_is_fact=True,
    )
    if row["aroma"] >= paper.get("nqs", math.inf):
        # Ours is then a worse NQS than the paper's log tells of.
        changes = {"leaning": INCONCLUSIVE, "chance": None}
        verdict = INCONCLUSIVE if shorter.verdict == CONFIRMED else shorter.verdict
        shorter = msgspec.structs.replace(shorter, verdict=verdict, **changes)
    if row["recorded"] is None:
        return [shorter]
    text = f"... and less than the log recorded (AROMA / recorded, {jobs})"
    share = row["aroma"] / row["recorded"]
    return [
        shorter,
        plain_claim("shorter-waits-than-recorded", text, share < 1, share, section="4.1"),
    ]


def _claims_of_case(mixed: Mapping[str, Any], alike: Mapping[str, Any]) -> list[Claim]:
    """Return the claims about four classes, each beside best effort only."""
    case = mixed["case"]
    short = case.replace(",", "").replace(" ", "-")
    paper = _paper_of_case(mixed, alike)
    waits, rejected, mapping = (
        mixed["by_seed"][name] for name in ("wait", "rejected", "mapping_ms")
    )
    others = zip(*(waits[name] for name in QOS_CLASSES if name != "dedicated"), strict=True)
    next_longest = [max(wait or 0.0 for wait in row) for row in others]
    dedicated = [wait or 0.0 for wait in waits["dedicated"]]
    longer = differences(dedicated, next_longest)
    dearer = [own - alike["wait"][ALL] for own in waits[ALL]]
    slowest = [max(own, alike["mapping_ms"][ALL]) for own in mapping[ALL]]
    broken, urgent = mixed["broken_promises"], sum(rejected["high_priority"])
    judged: dict[str, tuple[Values, float, float]] = {
        "dedicated-wait": (longer, 0.0, math.inf),
        "deadline-rejects": (rejected_percent(mixed), -math.inf, _REJECTS),
        "classes-cost-waits": (dearer, 0.0, math.inf),
        "mapping-time": (slowest, -math.inf, 80.0),
    }
    facts: dict[str, float] = {"guarantees": broken, "high-priority": urgent}
    found = []
    for name, text in _TEXTS.items():
        full, text, told = f"{name}-{short}", f"{case}: {text}", paper.get(name)
        if name in facts:
            number = float(facts[name])
            found.append(plain_claim(full, text, number == 0, number, told, section="4.2"))
        else:
            values, low, high = judged[name]
            claim = range_claim(
                full, text, values, low, high, section="4.2", paper=told, single_is_fact=True
            )
            found.append(claim)
    return found


def _paper_of_case(mixed: Mapping[str, Any], alike: Mapping[str, Any]) -> dict[str, float]:
    """Return the paper's numbers for the claims about a case."""
    told, other = mixed["paper"], alike["paper"]
    if not told:
        return {"guarantees": 0.0}
    waits, rejected, mapping = told["wait"], told["rejected"], told["mapping_ms"]
    others = max(waits[name] for name in QOS_CLASSES if name != "dedicated")
    return {
        "guarantees": 0.0,
        "dedicated-wait": waits["dedicated"] - others,
        "high-priority": rejected["high_priority"],
        # The paper's rejects among our number of deadline applications.
        "deadline-rejects": 100.0 * rejected["deadline"] / float(mixed["jobs"]["deadline"]),
        "classes-cost-waits": float(waits[ALL] - other["wait"][ALL]),
        "mapping-time": float(max(mapping[ALL], other["mapping_ms"][ALL])),
    }
