"""Advice on a trace as one page: what managers need first, then the tables behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.advice.advice_pictures import first_picture, further_pictures
from qops_batsim.advice.advice_tables import (
    MEASURES,
    categories_table,
    charges_table,
    earliness_tables,
    first_table,
    loads_table,
    other_tables,
    queues_table,
    reasons_table,
    refusals_table,
)
from qops_batsim.advice.advise import Advice
from qops_batsim.advice.settings import QUANTILES, earliness, limits, recommended, summary
from qops_batsim.advice.trace_tables import (
    read_facts,
    repairs_table,
    users_table,
    windows_table,
)
from qops_batsim.experiments.page import (
    Block,
    PageFacts,
    PageTable,
    PageText,
    html_page,
)
from qops_batsim.version import __version__


def advice_page(advice: Advice, command: str) -> str:
    """Return advice as HTML; ``command`` made it."""
    pictures, workload = further_pictures(advice), advice.trace.workload

    def picture(name: str) -> list[Block]:
        return [pictures[name]] if name in pictures else []

    settings = PageTable(
        title="Settings",
        headings=["setting", "value", "why"],
        rows=[[each.setting, each.value, each.reason] for each in recommended(advice)],
    )
    estimates, stringencies = other_tables(advice)
    sections: dict[str, list[Block | None]] = {
        "In short": [
            PageText(paragraphs=summary(advice)),
            first_picture(advice),
            first_table(advice),
        ],
        "Settings to choose": [settings],
        "Limits": [PageText(paragraphs=limits(advice))],
        "What was read": [PageFacts(facts=read_facts(advice)), repairs_table(advice)],
        "What users got": [users_table(advice), windows_table(advice)],
        "How early": [*picture("early"), *earliness_tables(advice)],
        "Who is refused": [
            categories_table(advice),
            queues_table(advice),
            reasons_table(advice),
            refusals_table(advice),
        ],
        "Charges": [charges_table(advice)],
        "Strictness": [*picture("stringencies"), stringencies],
        "Load": [*picture("loads"), loads_table(advice)],
        "Estimates": [estimates],
    }
    count = len(advice.windows)
    return html_page(
        "What could be promised, at what price",
        f"Advice on {Path(workload.source).name}, {workload.processors:,} "
        f"processors. Deadlines are set, admitted and charged as Islam et al. (2003, 2004) do.",
        sections,
        command,
        windows=f"{count}, each drawing duplicates by its number as seed",
    )


def advice_document(advice: Advice) -> dict[str, Any]:
    """Return advice as plain values for JSON."""
    choices = advice.choices
    results = []
    for case in choices.cases():
        told = {
            name: None if (found := advice.mean(case, measure)) is None else found
            for name, measure in MEASURES.items()
        }
        made_by = msgspec.to_builtins(case)
        del made_by["window"], made_by["promises"]
        groups = advice.groups(case)
        charge = advice.charge(case)
        results.append(
            {
                "case": made_by,
                "measures": told,
                "categories": groups,
                "core_hours": charge.resource,
                "qos_charge_less_penalties": charge.qos,
                "income": advice.income(case),
            }
        )
    document = {
        "package_version": __version__,
        "made_by": choices,
        "read": read_facts(advice),
        "left_out": advice.trace.repairs,
        "windows": advice.windows,
        "interval": "95 %, Student's t over windows",
        "summary": summary(advice),
        "settings": recommended(advice),
        "limits": limits(advice),
        "deadline_price": advice.deadline_price,
        "break_even": {f"penalty_{p:g}": advice.break_even(p) for p in (0.0, 1.0)},
        "quantiles": QUANTILES,
        "earliest_promises": {
            "by_processors": earliness(advice.promises, by_processors=True),
            "by_category": earliness(advice.promises, by_processors=False),
        },
        "results": results,
    }
    # What is infinite, a promise that nobody gets, is null in JSON.
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return plain
