"""The page of advice on a trace: what managers need first, then pictures and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import msgspec
from matplotlib.ticker import FixedLocator, NullLocator

from qops_batsim.advice.advice_tables import (
    MEASURES,
    backtest_table,
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
    sizes_table,
    users_tables,
    windows_table,
)
from qops_batsim.advice.advise import HOUR, Advice, Measure, promised, utilization
from qops_batsim.advice.recommendations import (
    QUANTILES,
    advice_earliness,
    headline,
    limits,
    manager_name,
    recommended,
    summary,
    warnings,
)
from qops_batsim.advice.trace_runs import AdviceCase
from qops_batsim.analysis.plots.drawing import COLORS, MARKERS, legend_above, picture
from qops_batsim.economics.prices import place_of
from qops_batsim.experiments.page import (
    Block,
    PageAlert,
    PageFacts,
    PageHeading,
    PagePicture,
    PageTable,
    PageText,
    html_page,
    pictures_of,
)
from qops_batsim.experiments.pictures import draw_band
from qops_batsim.tables import csv_text
from qops_batsim.version import __version__

Rows = list[list[str]]

WIDTH = 5.2
"""Inches of a picture, whose letters can be read on a phone then."""

_KINDS = ("promised and kept", "promised later", "in time, not promised", "missed", "refused")
_SHADES = (COLORS[2], "#7fcfb9", COLORS[5], COLORS[1], "#999999")


def first_picture(advice: Advice) -> PagePicture:
    """Return the fates of deadlines under each scheduler, as bars."""
    cases = compared_cases(advice.choices)
    shares = {name: _outcomes(advice, case) for name, case in cases.items()}
    rows = [["scheduler", *(f"{kind} (%)" for kind in _KINDS)]]
    rows += [[name, *(f"{share:.4f}" for share in found)] for name, found in shares.items()]

    def draw(path: Path) -> None:
        with picture(path, WIDTH, 1.9 + 0.55 * len(shares)) as figure:
            axes = figure.subplots()
            for place, found in enumerate(shares.values()):
                left = 0.0
                for kind, shade, share in zip(_KINDS, _SHADES, found, strict=True):
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
            figure.set_layout_engine("constrained")
            figure.legend(loc="outside upper left", ncols=2, handlelength=1.0, columnspacing=1.2)

    return _made("What becomes of the deadlines that users ask for", draw, rows)


def _outcomes(advice: Advice, case: AdviceCase) -> list[float]:
    """Return the shares (%) of the deadlines by kind: see ``_KINDS``."""
    counts = advice.counts(case)
    kept = max(counts.promised - counts.later - counts.missed, 0) if counts.promised else 0
    by_chance = counts.jobs - kept - counts.later - counts.missed - counts.refused
    found = (kept, counts.later, by_chance, counts.missed, counts.refused)
    return [100 * each / counts.jobs for each in found]


def further_pictures(advice: Advice) -> dict[str, PagePicture]:
    """Return the pictures behind the first one, by the section that they belong to."""
    choices = advice.choices
    loads = {load: (choices.easy(load=load), choices.case(load=load)) for load in choices.loads}
    asked = {
        1 - value: (choices.easy(stringency=value), choices.case(stringency=value))
        for value in {choices.stringency, *choices.stringencies}
    }
    found = {"early": _earliness(advice)}
    if len(loads) > 1:
        found["loads"] = _curves(advice, "How the load changes it", "Load (1: the trace)", loads)
    if len(asked) > 1:
        label = "Response asked for (1: that under EASY)"
        found["stringencies"] = _curves(advice, "How strict deadlines change it", label, asked)
    return found


def _earliness(advice: Advice) -> PagePicture:
    groups = advice_earliness(advice, by_processors=True)
    names = [f"{quantile:.0%}" for quantile in QUANTILES]
    rows = [["processors", "jobs", *(f"{each} of jobs (h)" for each in names)]]
    rows += [
        [each.group, str(each.jobs), *(_number(value / HOUR) for value in each.delays)]
        for each in groups
    ]

    def draw(path: Path) -> None:
        with picture(path, WIDTH, 1.7 + 0.5 * len(groups)) as figure:
            axes = figure.subplots()
            for place, each in enumerate(groups):
                values = [value / HOUR for value in each.delays if math.isfinite(value)]
                axes.plot(values, [place] * len(values), color="#999999", linewidth=2, zorder=1)
                for index, value in enumerate(values):
                    axes.plot(
                        value,
                        place,
                        color=COLORS[index],
                        marker=MARKERS[index],
                        linestyle="none",
                        label=None if place else names[index],
                    )
            # Most delays are 0, which a logarithm has no place for.
            axes.set_xscale("symlog", linthresh=0.1, linscale=0.3)
            axes.xaxis.set_major_locator(FixedLocator([0, 0.1, 1, 10, 100, 1000]))
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xlim(left=-0.02)
            axes.set_yticks(range(len(groups)), [f"{e.group} ({e.jobs:,})" for e in groups])
            axes.invert_yaxis()
            axes.set_ylim(len(groups) - 0.5, -0.5)
            axes.set_xlabel("Delay promised at most, beyond the estimate (h)")
            legend_above(axes, len(names), title=None, handlelength=0.8, columnspacing=1.0)
            figure.set_layout_engine("constrained")

    title = "Delay behind the estimate with which so many jobs could be promised an end"
    return _made(title, draw, rows)


def _curves(
    advice: Advice,
    title: str,
    label: str,
    cases: dict[float, tuple[AdviceCase, AdviceCase]],
) -> PagePicture:
    """Return two panels over what is varied: deadlines promised, and utilization."""
    name = manager_name(advice.choices.scheduler)
    ordered = sorted(cases)
    lines: dict[str, tuple[Measure, int]] = {f"{name}: promised": (promised, 1)}
    lines |= {"EASY: utilization": (utilization, 0), f"{name}: utilization": (utilization, 1)}
    found = {
        text: [advice.mean(cases[each][which], measure) for each in ordered]
        for text, (measure, which) in lines.items()
    }
    rows = [[label, *(f"{text} (%) {part}" for text in lines for part in ("mean", "low", "high"))]]
    for place, each in enumerate(ordered):
        row = [f"{each:g}"]
        for values in found.values():
            value = values[place]
            row += [""] * 3 if value is None else map(_number, (value.mean, *value.ends))
        rows.append(row)

    def draw(path: Path) -> None:
        with picture(path, WIDTH, 5.4) as figure:
            figure.set_layout_engine("constrained")
            left, right = figure.subplots(2, 1)
            for index, (text, values) in enumerate(found.items()):
                axes = left if index == 0 else right
                known = [(x, v) for x, v in zip(ordered, values, strict=True) if v is not None]
                # The chosen scheduler as in the picture of deadlines; EASY's line is no deadline.
                color = "#555555" if index == 1 else COLORS[2]
                places = [x for x, _ in known]
                line = [v.mean for _, v in known]
                axes.plot(places, line, color=color, marker=MARKERS[index], label=text)
                ends = [v.ends for _, v in known]
                draw_band(axes, places, [e[0] for e in ends], [e[1] for e in ends], color)
            left.set_ylabel("Deadlines promised (%)")
            right.set_ylabel("Utilization (%)")
            right.legend()
            for axes in (left, right):
                axes.set_xlabel(label)
                axes.set_ylim(0, 102)

    return _made(title, draw, rows)


def _made(title: str, draw: Any, rows: Sequence[Iterable[str]]) -> PagePicture:
    def into(directory: Path) -> dict[Path, str]:
        path = directory / "picture.svg"
        draw(path)
        return {path: title}

    (made,) = pictures_of(into)
    return PagePicture(title=title, svg=made.svg, data=csv_text(rows))


def _number(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else ""


def advice_sections(advice: Advice) -> dict[str, list[Block | None]]:
    """Return the sections of a page: blocks by title."""
    pictures = further_pictures(advice)

    def picture(name: str) -> list[Block]:
        return [pictures[name]] if name in pictures else []

    settings = PageTable(
        title="Settings",
        headings=["setting", "value", "why"],
        rows=[[each.setting, each.value, each.reason] for each in recommended(advice)],
    )
    estimates, stringencies = other_tables(advice)
    misfits, quotes = warnings(advice), advice.quotes
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
            sizes_table(advice),
        ],
        "What users got": [fit_table(advice), *users_tables(advice), windows_table(advice)],
        "How reliable is a quote?": [
            None if quotes is None else PageText(paragraphs=[quotes.sentence()]),
            None if quotes is None else backtest_table(quotes),
        ],
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


TITLE = "What could be promised, at what price"
METHOD = "Deadlines are set, admitted and charged as Islam et al. (2003, 2004) do."


def advice_page(advice: Advice, command: str) -> str:
    """Return advice as HTML; ``command`` made it."""
    workload = advice.trace.workload
    part = f", partition {advice.name}" if advice.name else ""
    return html_page(
        TITLE,
        f"Advice on {Path(workload.source).name}{part}, {workload.processors:,} processors. "
        f"{METHOD}",
        advice_sections(advice),
        command,
        windows=f"{len(advice.windows)}, each drawing duplicates by its number as seed",
    )


def parts_page(
    parts: Mapping[str, Advice], overview: Sequence[Block], about: str, command: str
) -> str:
    """Return several advices as one page: an overview, then each with all its sections."""
    sections: dict[str, list[Block | None]] = {"Overview": [*overview]}
    for name, advice in parts.items():
        sections[name] = [
            block
            for title, blocks in advice_sections(advice).items()
            if any(blocks)
            for block in (PageHeading(text=f"{name}: {title}"), *blocks)
        ]
    windows = ", ".join(f"{name} {len(each.windows)}" for name, each in parts.items())
    return html_page(TITLE, f"{about} {METHOD}", sections, command, windows=windows)


def page_of(
    parts: Mapping[str, Advice],
    small: Mapping[str, int],
    changed: Mapping[str, Advice],
    changes: str | None,
    command: str,
) -> str:
    """Return the advice on a trace, or its partitions, perhaps also with ``changes``, as HTML."""
    if changes is not None:
        return what_if_page(parts, changed, changes, command)
    if len(parts) > 1:
        return centre_page(parts, small, command)
    return advice_page(next(iter(parts.values())), command)


def what_if_page(
    parts: Mapping[str, Advice], changed: Mapping[str, Advice], changes: str, command: str
) -> str:
    """Return the advice on a trace, or its partitions, without and with changes as HTML."""
    blocks: list[Block] = []
    sections: dict[str, Advice] = {}
    for name, before in parts.items():
        after, title = changed[name], f"Partition {name}" if name else "The trace"
        table = before_after_table(before, after, changes)
        blocks.append(msgspec.structs.replace(table, title=f"{title}: before and after"))
        sections |= {f"{title} as it is": before, f"{title} with {changes}": after}
    source = Path(next(iter(parts.values())).trace.workload.source).name
    about = f"Advice on {source}, as it is and with {changes}."
    return parts_page(sections, [*blocks, overview_table(sections)], about, command)


def centre_page(parts: Mapping[str, Advice], small: Mapping[str, int], command: str) -> str:
    """Return the advice on several partitions as HTML; ``small`` have too few jobs for one."""
    source = next(iter(parts.values())).trace.workload.source
    named = {f"Partition {name}": advice for name, advice in parts.items()}
    told = [
        "Each partition is simulated by itself, and what is said of one is not said of another."
    ]
    if small:
        names = ", ".join(f"{name or 'none'} ({jobs:,} jobs)" for name, jobs in small.items())
        told.append(f"Not looked at, as they have few jobs: {names}.")
    bad = [name for name, advice in parts.items() if not advice.fit.fits]
    overview: list[Block] = [PageText(paragraphs=told), overview_table(parts)]
    if bad:
        alert = f"Nothing can be recommended for {', '.join(bad)}: the model does not fit there."
        overview.insert(0, PageAlert(paragraphs=[alert]))
    about = f"Advice on {Path(source).name}, {len(parts)} partitions."
    return parts_page(named, overview, about, command)


def document_of(
    parts: Mapping[str, Advice], small: Mapping[str, int], changed: Mapping[str, Advice]
) -> dict[str, Any]:
    """Return the same as plain values for JSON."""
    told, after = (
        {name: advice_document(each) for name, each in advices.items()}
        for advices in (parts, changed)
    )
    found = {"partitions": told, "few_jobs": small} if len(told) > 1 else next(iter(told.values()))
    return {**found, "what_if": after} if after else found


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
        charge = advice.charge(case, choices.prices.penalty)
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
        "partition": advice.name,
        "summary": summary(advice),
        "fit": {
            "fits": advice.fit.fits,
            "known": advice.fit.is_known,
            "classes": advice.fit.classes,
        },
        "settings": recommended(advice),
        "limits": limits(advice),
        "deadline_price": advice.deadline_price,
        "quotes": [] if advice.quotes is None else advice.quotes.table(),
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
