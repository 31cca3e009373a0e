"""Pictures of the study of foresight: refused jobs and work of foresight and others.

``front.png`` shows the kept runs at one load, ``clairvoyant.png`` schedulers on the stretches of
500 jobs for which ``studies/how_good`` has kept the best known schedules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

from studies.foresight.runs import CONTESTANTS, DRAWN, LOGS, Case, Results
from studies.how_good import best
from studies.shared import settings_of

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from qops_batsim.analysis import admission_metrics
from qops_batsim.experiments import checked_outcomes
from qops_batsim.platform import make_cluster

PRICED = tuple(name for name in CONTESTANTS if name.startswith("foresight"))
FIXED = tuple(name for name in CONTESTANTS if name.startswith("headroom"))
REPAIRS = ("qops, K = 0", "qops, K = 1", "qops", "qops, K = 10", "qops, K = 20")
GROUPS = (
    ("MSB", ("msb",), "^"),
    ("MRT", ("mrt",), "v"),
    ("QoPS, K = 0, 1, 5, 10, 20", REPAIRS, "d:"),
    ("fixed headroom, 1, 3, 5 %", FIXED, "o--"),
    ("foresight, by its prices", PRICED, "o-"),
    ("QoPS", ("qops",), "ks"),
)

Point = Sequence[float]


def draw_groups(axis: Axes, found: Mapping[str, Point]) -> None:
    """Draw refused jobs and work (%) of all contestants."""
    for label, names, style in GROUPS:
        points = [found[name] for name in names]
        axis.plot(*zip(*points, strict=True), style, label=label, markersize=5)
    axis.set(xlabel="refused jobs (%)", ylabel="refused work (%)")
    axis.grid(alpha=0.3)


def draw_study(results: Results, path: Path) -> None:
    """Draw the means over the windows of each log."""
    figure, axes = plt.subplots(2, 2, figsize=(9, 7.5), layout="constrained")
    for axis, log in zip(axes.flat, LOGS, strict=True):
        cases = [
            Case(log, window.skip, DRAWN, seed)
            for window in LOGS[log].windows
            for seed in (1, 2)
            if all((Case(log, window.skip, DRAWN, seed), name) in results for name in CONTESTANTS)
        ]
        if cases:
            shares = {name: [results[case, name][:2] for case in cases] for name in CONTESTANTS}
            draw_groups(axis, {name: np.mean(each, axis=0) for name, each in shares.items()})
        windows = len({case.skip for case in cases})
        axis.set(title=f"{log}: {windows} windows, {len(cases)} cases, load {DRAWN}")
    axes.flat[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def draw_best(directory: Path, path: Path) -> None:
    """Draw a stretch of each log beside the best known schedules and what is proven."""
    study = best.Study(settings_of(best.__file__), directory)
    known = [
        (each, [study.kept.find(study.case(each, objective)) for objective in ("jobs", "work")])
        for each in study.scenarios()
    ]
    done = [(s, found) for s, found in known if None not in found and s.stringency == 0.2]
    logs = len(study.settings["logs"])
    load = max(
        load for load in study.settings["loads"] if sum(s.load == load for s, _ in done) == logs
    )
    drawn = [(s, found) for s, found in done if s.load == load]
    figure, axes = plt.subplots(1, len(drawn), figsize=(4 * len(drawn), 4.6), layout="constrained")
    for axis, (scenario, found) in zip(axes, drawn, strict=True):
        workload = study.workload(scenario)
        machine = make_cluster(workload.processors)
        points = {}
        for name, contestant in CONTESTANTS.items():
            seen = checked_outcomes(workload, machine, contestant.make(), name)
            shares = admission_metrics(*seen)
            points[name] = (shares.unadmitted_jobs, shares.unadmitted_work or 0.0)
        draw_groups(axis, points)
        for each, line in zip(found, (axis.axvline, axis.axhline), strict=True):
            line(100 - each.best, color="tab:brown", linestyle="--")
            line(100 - each.bound, color="gray", linestyle=":")
            axis.plot(*(100 - share for share in each.both), "*", color="tab:brown")
        axis.plot([], [], "--*", color="tab:brown", label="clairvoyant: for jobs, for work")
        axis.plot([], [], ":", color="gray", label="proven: none beyond")
        axis.set(title=f"{scenario.log}, {found[0].jobs} jobs, load {scenario.load}")
        axis.set(xlim=(0, None), ylim=(0, None))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=110)


def draw(results: Results, directory: Path, kept: Path | None) -> None:
    """Draw the first picture, or the second one if best known schedules are at hand."""
    if kept is None:
        draw_study(results, directory / "front.png")
    else:
        draw_best(kept, directory / "clairvoyant.png")
