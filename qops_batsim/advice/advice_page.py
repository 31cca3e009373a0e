"""The page of advice on a trace: the essentials for managers first, then pictures and tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from types import MappingProxyType
from typing import Any

import msgspec

from qops_batsim.advice.advice_tables import (
    MEASURES,
    before_after_table,
    categories_table,
    charges_table,
    compared_cases,
    earliness_tables,
    first_table,
    fit_table,
    loads_table,
    other_tables,
    overview_table,
    queues_table,
    read_facts,
    reasons_table,
    refusals_table,
    repairs_table,
    windows_table,
)
from qops_batsim.advice.advise import Advice
from qops_batsim.advice.recommendations import (
    QUANTILES,
    advice_earliness,
    headline,
    limits,
    recommended,
    summary,
    warnings,
)
from qops_batsim.advice.trace_runs import AdviceCase
from qops_batsim.economics.prices import place_of
from qops_batsim.experiments.page import (
    Aliases,
    Block,
    PageAlert,
    PageFacts,
    PageHeading,
    PagePicture,
    PageTable,
    PageText,
    html_page,
)
from qops_batsim.experiments.pictures import page_picture
from qops_batsim.measures.plots.drawing import COLORS
from qops_batsim.tables import csv_text
from qops_batsim.version import __version__

_KINDS = (
    "promised and kept",
    "promised later",
    "in time, not promised",
    "broken or missed",
    "refused",
)
_SHADES = (COLORS[2], "#7fcfb9", COLORS[5], COLORS[1], "#999999")


def first_picture(advice: Advice) -> PagePicture:
    """Return bars of how many deadlines are kept, missed and refused under each scheduler."""
    cases = compared_cases(advice.choices)
    shares = {name: _outcomes(advice, case) for name, case in cases.items()}
    rows = [["scheduler", *(f"{kind} (%)" for kind in _KINDS)]]
    rows += [[name, *(f"{share:.4f}" for share in of_kinds)] for name, of_kinds in shares.items()]

    def draw(axes: Any) -> None:
        for place, of_kinds in enumerate(shares.values()):
            left = 0.0
            for kind, shade, share in zip(_KINDS, _SHADES, of_kinds, strict=True):
                label = kind if place == 0 else None
                axes.barh(place, share, left=left, color=shade, label=label, height=0.7)
                if share >= 5:
                    text = f"{share:.0f} %"
                    axes.text(left + share / 2, place, text, ha="center", va="center")
                left += share

        axes.set_yticks(range(len(shares)), [fill(name, 16) for name in shares])
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_xlabel("Share of the deadlines asked for (%)")
        axes.grid(False)

    return page_picture(
        "What becomes of the deadlines that users ask for",
        draw,
        1.9 + 0.55 * len(shares),
        data=csv_text(rows),
        ncols=2,
        handlelength=1.0,
        columnspacing=1.2,
    )


def _outcomes(advice: Advice, case: AdviceCase) -> list[float]:
    """Return five percentages of the deadlines that users asked for in a case, by what became of
    them (the kinds in ``_KINDS``, in that order).
    """
    counts = advice.counts(case)
    kept = max(counts.promised - counts.later - counts.failed, 0) if counts.promised else 0
    by_chance = counts.jobs - kept - counts.later - counts.failed - counts.refused
    of_kinds = (kept, counts.later, by_chance, counts.failed, counts.refused)
    return [100 * count / counts.jobs for count in of_kinds]


def advice_sections(
    advice: Advice, aliases: Aliases | None = None
) -> dict[str, list[Block | None]]:
    """Return the tables, pictures and texts of the HTML page on an advice, by title of their
    section; ``aliases`` replaces user names by numbers.
    """
    settings = PageTable(
        title="Settings",
        headings=["setting", "value", "why"],
        rows=[[each.setting, each.value, each.reason] for each in recommended(advice)],
    )
    estimates, stringencies = other_tables(advice)
    misfits = warnings(advice)
    return {
        "In short": [
            PageAlert(paragraphs=misfits) if misfits else None,
            PageText(paragraphs=headline(advice)),
            first_picture(advice),
            first_table(advice),
        ],
        "Settings to choose": [settings],
        "Limits": [PageText(paragraphs=limits(advice))],
        "What was read": [
            PageFacts(facts=read_facts(advice)),
            repairs_table(advice),
        ],
        "Does the model fit?": [fit_table(advice), windows_table(advice)],
        "How early": [*earliness_tables(advice)],
        "Who is refused": [
            categories_table(advice),
            queues_table(advice),
            reasons_table(advice),
            refusals_table(advice, aliases),
        ],
        "Charges": [charges_table(advice)],
        "Strictness": [stringencies],
        "Load": [loads_table(advice)],
        "Estimates": [estimates],
    }


TITLE = "What could be promised, at what price"
METHOD = "Deadlines are set, admitted and charged as Islam et al. (2003, 2004) do."


def advice_page(
    parts: Mapping[str, Advice],
    command: str,
    *,
    small: Mapping[str, int] = MappingProxyType({}),
    changed: Mapping[str, Advice] = MappingProxyType({}),
    changes: str = "",
    anonymous: bool = False,
) -> str:
    """Return the advice on a trace (``parts``: one advice for each partition, or a single one) as
    an HTML page.

    ``command`` made it; ``small`` are the partitions that have too few jobs for an advice. An
    ``anonymous`` page has numbers in place of users. ``changed`` is the advice with the
    ``--what-if`` changes, by partition, and ``changes`` their text.
    """
    aliases = Aliases() if anonymous else None
    workload = next(iter(parts.values())).trace.workload
    about = f"Advice on {Path(workload.source).name}"
    sections: dict[str, list[Block | None]] = {}
    if changes:
        about += f", as it is and with {changes}."
        named, sections["Overview"] = _both_sides(parts, changed, changes)
    elif len(parts) > 1:
        about += f", {len(parts)} partitions."
        named = {f"Partition {name}": advice for name, advice in parts.items()}
        sections["Overview"] = _partitions(parts, small)
    else:
        ((name, advice),) = parts.items()
        about += f"{f', partition {name}' if name else ''}, {workload.processors:,} processors."
        windows = f"{len(advice.windows)}, each drawing duplicates by its number as seed"
        sections = advice_sections(advice, aliases)
        return html_page(TITLE, f"{about} {METHOD}", sections, command, windows=windows)

    for name, advice in named.items():
        sections[name] = [
            block
            for title, blocks in advice_sections(advice, aliases).items()
            if any(blocks)
            for block in (PageHeading(text=f"{name}: {title}"), *blocks)
        ]
    windows = ", ".join(f"{name} {len(each.windows)}" for name, each in named.items())
    return html_page(TITLE, f"{about} {METHOD}", sections, command, windows=windows)


def _both_sides(
    parts: Mapping[str, Advice], changed: Mapping[str, Advice], changes: str
) -> tuple[dict[str, Advice], list[Block | None]]:
    """Return each advice before and after the ``--what-if`` changes, by title, and the tables that
    compare the two.
    """
    blocks: list[Block | None] = []
    named: dict[str, Advice] = {}
    for name, before in parts.items():
        after, title = changed[name], f"Partition {name}" if name else "The trace"
        table = before_after_table(before, after, changes)
        blocks.append(msgspec.structs.replace(table, title=f"{title}: before and after"))
        named |= {f"{title} as it is": before, f"{title} with {changes}": after}
    return named, [*blocks, overview_table(named)]


def _partitions(parts: Mapping[str, Advice], small: Mapping[str, int]) -> list[Block | None]:
    """Return the texts and the table that compare the partitions of a machine, and name those for
    which nothing can be recommended.
    """
    told = [
        "Each partition is simulated by itself, and what is said of one is not said of another."
    ]
    if small:
        names = ", ".join(f"{name or 'none'} ({jobs:,} jobs)" for name, jobs in small.items())
        told.append(f"Not looked at, as they have few jobs: {names}.")
    bad = [name for name, advice in parts.items() if not advice.fit.fits]
    alert = f"Nothing can be recommended for {', '.join(bad)}: the model does not fit there."
    return [
        PageAlert(paragraphs=[alert]) if bad else None,
        PageText(paragraphs=told),
        overview_table(parts),
    ]


def document_of(
    parts: Mapping[str, Advice], small: Mapping[str, int], changed: Mapping[str, Advice]
) -> dict[str, Any]:
    """Return what the HTML page of advice shows as plain values for JSON; with ``changed``, also
    the advice after the ``--what-if`` changes.
    """
    told, after = (
        {name: advice_document(each) for name, each in advices.items()}
        for advices in (parts, changed)
    )
    found = {"partitions": told, "few_jobs": small} if len(told) > 1 else next(iter(told.values()))
    return {**found, "what_if": after} if after else found


def advice_document(advice: Advice) -> dict[str, Any]:
    """Return the advice on one trace or partition, with the results of all simulated cases, as
    plain values for JSON.
    """
    choices = advice.choices
    results = []
    for case in choices.cases():
        made_by = msgspec.to_builtins(case)
        del made_by["window"], made_by["promises"]
        charge = advice.charge(case, choices.prices.penalty)
        results.append(
            {
                "case": made_by,
                "measures": {name: advice.mean(case, of) for name, of in MEASURES.items()},
                "categories": advice.groups(case),
                "core_hours": charge.resource,
                "qos_charge_less_penalties": charge.qos,
                "income": advice.income(case),
            }
        )

    fit = advice.fit
    document = {
        "package_version": __version__,
        "made_by": choices,
        "read": read_facts(advice),
        "left_out": advice.trace.repairs,
        "windows": advice.windows,
        "interval": "95 %, Student's t over windows",
        "partition": advice.name,
        "summary": summary(advice),
        "fit": {
            "fits": fit.fits,
            "known": fit.is_known,
            "scheduler": fit.scheduler,
            "tried": fit.tried,
            "nearest": fit.nearest,
            "alike": fit.alike,
            "classes": fit.classes,
        },
        "settings": recommended(advice),
        "limits": limits(advice),
        "deadline_price": advice.deadline_price,
        "break_even": {
            f"penalty_{p:g}": advice.break_even(p) for p in (0.0, choices.prices.penalty)
        },
        "quantiles": QUANTILES,
        "earliest_promises": {
            "by_processors": advice_earliness(advice, by_processors=True),
            "by_category": advice_earliness(advice, by_processors=False),
        },
        "results": results,
    }
    # What is infinite, a promise that nobody gets, is null in JSON.
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document, enc_hook=place_of))
    return plain
