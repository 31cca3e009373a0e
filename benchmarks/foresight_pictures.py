"""Pictures of docs/foresight.md: refused jobs and work of foresight and others.

    python benchmarks/foresight_pictures.py out/foresight docs/pictures [--best out/how-good]

The first picture shows the runs that foresight_study.py has kept at one load. The second has the
clairvoyant: schedulers on the stretches of 500 jobs for which how_good.py has kept best schedules.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import how_good
import matplotlib as mpl
import numpy as np
from foresight_study import (
    CONTESTANTS,
    DRAWN,
    FIXED,
    LOGS,
    PRICED,
    Case,
    Results,
    read_kept,
)

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from qops_batsim.analysis.metrics.admission import admission_metrics
from qops_batsim.experiments.deadline_runs import checked_outcomes
from qops_batsim.platform.generate import make_cluster

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


def draw_best(directory: Path, time: float, path: Path) -> None:
    """Draw a stretch of each log beside the best known schedules and what is proven."""
    study = how_good.Study(argparse.Namespace(out=directory, time=time, windows=1))
    known = [
        (each, [study.kept.find(study.case(each, objective)) for objective in ("jobs", "work")])
        for each in how_good.scenarios(study.windows)
    ]
    done = [(s, found) for s, found in known if None not in found and s.stringency == 0.2]
    load = max(
        load
        for load in how_good.LOADS
        if sum(s.load == load for s, _ in done) == len(how_good.LOGS)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("pictures", type=Path)
    parser.add_argument("--best", type=Path, help="what how_good.py has kept: the second picture")
    parser.add_argument("--time", type=float, default=6.0, help="as how_good.py was told")
    asked = parser.parse_args()
    if asked.best is None:
        draw_study(
            read_kept(asked.directory / "runs.jsonl"), asked.pictures / "foresight_front.png"
        )
    else:
        draw_best(asked.best, asked.time, asked.pictures / "foresight_clairvoyant.png")


if __name__ == "__main__":
    main()
