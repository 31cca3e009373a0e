"""The page of advice on a trace: what managers need first, then pictures and tables."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from matplotlib.ticker import LogLocator, NullLocator

from qops_batsim.advice.advice_tables import (
    MEASURES,
    categories_table,
    charges_table,
    earliness_tables,
    first_table,
    loads_table,
    other_tables,
    queues_table,
    read_facts,
    reasons_table,
    refusals_table,
    repairs_table,
    users_table,
    windows_table,
)
from qops_batsim.advice.advise import HOUR, Advice, Measure, promised, utilization
from qops_batsim.advice.recommendations import QUANTILES, earliness, limits, recommended, summary
from qops_batsim.advice.trace_runs import AdviceCase
from qops_batsim.analysis.plots.drawing import COLORS, MARKERS, legend_above, picture
from qops_batsim.experiments.page import (
    Block,
    PageFacts,
    PagePicture,
    PageTable,
    PageText,
    html_page,
    pictures_of,
)
from qops_batsim.experiments.pictures import draw_band, panels
from qops_batsim.tables import shielded
from qops_batsim.version import __version__

Rows = list[list[str]]

_KINDS = ("promised and kept", "promised later", "in time, not promised", "missed", "refused")
_SHADES = (COLORS[2], "#7fcfb9", COLORS[5], COLORS[1], "#999999")


def first_picture(advice: Advice) -> PagePicture:
    """Return what became of the deadlines under each scheduler, as bars."""
    choices = advice.choices
    cases = {"EASY": choices.easy(), choices.scheduler.name: choices.chosen}
    cases |= {each.name: choices.of(each) for each in choices.compared}
    shares = {name: _outcomes(advice, case) for name, case in cases.items()}
    rows = [["scheduler", *(f"{kind} (%)" for kind in _KINDS)]]
    rows += [[name, *(f"{share:.4f}" for share in found)] for name, found in shares.items()]

    def draw(path: Path) -> None:
        with picture(path, 8, 1.3 + 0.55 * len(shares)) as figure:
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
            axes.set_yticks(range(len(shares)), list(shares))
            axes.invert_yaxis()
            axes.set_xlim(0, 100)
            axes.set_xlabel("Share of the deadlines that users ask for (%)")
            axes.grid(False)
            figure.set_layout_engine("constrained")
            figure.legend(loc="outside upper left", ncols=5, handlelength=1.0, columnspacing=1.2)

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
    loads = {load: (choices.easy(load=load), _at(advice, load=load)) for load in choices.loads}
    asked = {
        1 - value: (choices.easy(stringency=value), _at(advice, stringency=value))
        for value in {choices.stringency, *choices.stringencies}
    }
    found = {"early": _earliness(advice)}
    if len(loads) > 1:
        found["loads"] = _curves(advice, "How the load changes it", "Load (1: the trace)", loads)
    if len(asked) > 1:
        label = "Response asked for (1: that under EASY)"
        found["stringencies"] = _curves(advice, "How strict deadlines change it", label, asked)
    return found


def _at(advice: Advice, *, load: float = 1.0, stringency: float | None = None) -> AdviceCase:
    choices = advice.choices
    value = choices.stringency if stringency is None else stringency
    chosen = load == 1 and value == choices.stringency
    return choices.case(load=load, stringency=value, promises=chosen)


def _earliness(advice: Advice) -> PagePicture:
    groups = earliness(advice.promises, by_processors=True)
    names = [f"{quantile:.0%}" for quantile in QUANTILES]
    rows = [["processors", "jobs", *(f"{each} of jobs (h)" for each in names)]]
    rows += [
        [each.group, str(each.jobs), *(_number(value / HOUR) for value in each.responses)]
        for each in groups
    ]

    def draw(path: Path) -> None:
        with picture(path, 8, 1.5 + 0.5 * len(groups)) as figure:
            axes = figure.subplots()
            for place, each in enumerate(groups):
                values = [value / HOUR for value in each.responses if math.isfinite(value)]
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
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_yticks(range(len(groups)), [f"{e.group} ({e.jobs:,})" for e in groups])
            axes.invert_yaxis()
            axes.set_ylim(len(groups) - 0.5, -0.5)
            axes.set_xlabel("Earliest end that could be promised (hours after the submission)")
            legend_above(axes, len(names), title=None)
            figure.set_layout_engine("constrained")

    title = "How early the end of so many jobs could be promised, by class of processors"
    return _made(title, draw, rows)


def _curves(
    advice: Advice,
    title: str,
    label: str,
    cases: dict[float, tuple[AdviceCase, AdviceCase]],
) -> PagePicture:
    """Return two panels over what is varied: deadlines promised, and utilization."""
    name = advice.choices.scheduler.name
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
        with panels(path, 2, (4.2, 3.2), (0.0, 0.3)) as (_figure, (left, right)):
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

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(shielded, row) for row in rows)
    (made,) = pictures_of(into)
    return PagePicture(title=title, svg=made.svg, data=text.getvalue())


def _number(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else ""


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
