"""Pictures of a campaign: those of a comparison, for everything but loads and schedulers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from qops_batsim.experiments.best_lines import LINES
from qops_batsim.experiments.campaign import Point
from qops_batsim.experiments.campaign_tables import CampaignSummary
from qops_batsim.experiments.intervals import Interval
from qops_batsim.experiments.pictures import draw_comparison

Curves = dict[str, dict[float, dict[str, Interval | None]]]


def draw_campaign(
    found: Sequence[CampaignSummary], directory: str | Path, *, ending: str = "png"
) -> dict[Path, str]:
    """Draw pictures (png, pdf or svg) of finished runs; those that vary in no load are points.

    Returns the files, each with a caption.
    """
    parts: dict[Point, Curves] = {}
    for each in found:
        if each.runs:
            part = msgspec.structs.replace(each.point, load=1.0)
            by_load = parts.setdefault(part, {}).setdefault(each.scheduler, {})
            by_load[each.point.load] = each.metrics
    fields = [name for name in Point.__struct_fields__ if len({_of(p, name) for p in parts}) > 1]
    captions: dict[Path, str] = {}
    used: Counter[str] = Counter()
    for part, curves in parts.items():
        named = "-".join(f"{name}-{_of(part, name)}" for name in fields)
        prefix = re.sub(r"[^\w.-]+", "-", named) + "-" if named else ""
        used[prefix] += 1
        if used[prefix] > 1:  # names that differ only in what a file's name cannot have
            prefix += f"{used[prefix]}-"
        title = ", ".join(
            [part.log, *(f"{name} {_of(part, name)}" for name in fields if name != "log")]
        )
        limits = {line: _means(curves.pop(line)) for line in LINES if line in curves}
        captions |= draw_comparison(
            curves, directory, ending=ending, prefix=prefix, title=title, limits=limits
        )
    return captions


def _means(by_load: Mapping[float, Mapping[str, Interval | None]]) -> dict[str, dict[float, float]]:
    """Return a line as means by metric and load."""
    means: dict[str, dict[float, float]] = {}
    for load, metrics in by_load.items():
        for metric, value in metrics.items():
            if value is not None:
                means.setdefault(metric, {})[load] = value.mean
    return means


def _of(point: Point, name: str) -> str:
    value = getattr(point, name)
    return f"{value:g}" if isinstance(value, float) else str(value)
