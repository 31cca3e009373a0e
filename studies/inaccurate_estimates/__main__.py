"""Inaccurate estimates: tables and the picture (README.md).

    python studies/inaccurate_estimates [--quick] [--deadlines both] [--workers 2]
        [--write studies/inaccurate_estimates/tables.md] [--draw studies/inaccurate_estimates]

Finished runs are kept, and the study goes on where it was. Logs are read from QOPS_SHARED
(default ../shared). Means are over windows, with 95 % intervals (Student).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim.experiments import (
    CellOutcome,
    Interval,
    StudyRuns,
    limits_of,
    limits_of_difference,
    markdown_table,
    mean_interval,
)
from qops_batsim.measures import COLORS, MARKERS, picture
from studies.shared import (
    EASY,
    NEED,
    Settings,
    arguments,
    by_turns,
    deadlines_text,
    grid_runs,
    print_or_put,
    run_main,
    settings_of,
)

SETTINGS = settings_of(__file__)
MARGINS, LEARNED, KILLED = (tuple(SETTINGS[name]) for name in ("margins", "learned", "killed"))
UNREFUSING = tuple(SETTINGS["unrefusing"])
FEW = SETTINGS["few"]

SCHEDULERS = ("qops", "msb", "mrt", "fqops 1.5")
"""Those with deadlines, in the order of tables."""

At = tuple[str, int]
"""Log and first job of a window."""


class Study:
    """The metrics of runs by model, scheduler and window, where all windows are finished."""

    def __init__(self, made: StudyRuns, by: str = "users") -> None:
        self.found: dict[tuple[str, str], dict[At, CellOutcome]] = {}
        for each in made.outcomes:
            cell = each.cell
            if each.metrics is not None and cell.point.deadlines_by == by:
                runs = self.found.setdefault((cell.point.estimates, cell.contestant), {})
                runs[cell.point.log, cell.window.skip] = each
        windows = max(map(len, self.found.values()), default=0)
        self.found = {key: runs for key, runs in self.found.items() if len(runs) == windows}

    @property
    def models(self) -> list[str]:
        """The models, in the order of the grid."""
        return list(dict.fromkeys(model for model, _ in self.found))

    def values(self, model: str, scheduler: str, metric: str, log: str = "") -> dict[At, float]:
        """Return a metric by window, of one log or all, without runs that lack it."""
        found = {}
        for at, each in self.found.get((model, scheduler), {}).items():
            value = getattr(each.metrics, metric)
            if log in ("", at[0]) and value is not None:
                found[at] = value
        return found

    def mean(self, model: str, scheduler: str, metric: str, log: str = "") -> Interval | None:
        """Return the mean of a metric over windows."""
        values = list(self.values(model, scheduler, metric, log).values())
        return mean_interval(values, limits_of(metric)) if values else None

    def less(
        self, metric: str, one: tuple[str, str], other: tuple[str, str], log: str = ""
    ) -> Interval | None:
        """Return the mean difference of a metric between two models with schedulers."""
        mine, others = self.values(*one, metric, log), self.values(*other, metric, log)
        pairs = [mine[at] - others[at] for at in mine if at in others]
        return mean_interval(pairs, limits_of_difference(metric)) if pairs else None

    @property
    def schedulers(self) -> list[str]:
        """The deadline schedulers that have runs."""
        known = {scheduler for _, scheduler in self.found}
        return [each for each in SCHEDULERS if each in known]

    @property
    def logs(self) -> list[str]:
        """The logs that have runs."""
        return list(dict.fromkeys(at[0] for runs in self.found.values() for at in runs))


def _text(value: Interval | None, sign: str = "") -> str:
    return "" if value is None else value.text(sign=sign)


def _short(value: Interval | None) -> str:
    return "" if value is None else f"{value.mean:,.2f}"


def _of_qops(
    study: Study,
    models: Sequence[str],
    metrics: Mapping[str, str],
    form: Callable[[Interval | None], str],
) -> Iterator[str]:
    """Yield a table of QoPS's means by model; metrics have headings."""
    rows = [
        [model, *(form(study.mean(model, "qops", metric)) for metric in metrics)]
        for model in models
    ]
    yield from markdown_table(["estimates", *metrics.values()], rows)


COLUMNS: dict[str, dict[str, str]] = SETTINGS["columns"]
REFUSED = COLUMNS["refused"]


def models_table(study: Study) -> Iterator[str]:
    """Yield what QoPS makes of each model."""
    yield from _of_qops(study, study.models, REFUSED | COLUMNS["used"], _text)


def lateness_table(study: Study) -> Iterator[str]:
    """Yield by how late QoPS's broken promises are, the mean over windows."""
    models = [*MARGINS, *LEARNED, "error, spread 0.5"]
    yield from _of_qops(study, models, COLUMNS["lateness"], _short)


def margin_table(study: Study) -> Iterator[str]:
    """Yield broken promises by margin, and which margin keeps them below the aim."""
    rows = []
    for log in [*study.logs, ""]:
        for scheduler in study.schedulers:
            cells, least = [], {MARGINS: "none", LEARNED: "none"}
            for models in (MARGINS, LEARNED):
                for model in models:
                    found = study.mean(model, scheduler, "broken_promises", log)
                    cells.append(_short(found))
                    if found is None:
                        least[models] = least[models].replace("none", "unknown")
                    elif found.mean < FEW and least[models] in ("none", "unknown"):
                        least[models] = model.removeprefix("predicted, ") or model
            rows.append([log or "all", scheduler, *cells, *least.values()])
    names = [
        model.removeprefix("predicted, ").replace("predicted", "margin 1") for model in MARGINS
    ]
    names += [model.removeprefix("predicted, ") for model in LEARNED]
    ends = ["first margin below 1 %", "greatest risk below 1 %"]
    yield from markdown_table(["log", "scheduler", *names, *ends], rows)


def cost_table(study: Study) -> Iterator[str]:
    """Yield what is gained over promises on walltimes, with the same scheduler."""
    metrics = ("unadmitted_jobs", "unadmitted_work", "useful_utilization", "income")
    rows = []
    for model in ("exact", *MARGINS, *LEARNED, *KILLED):
        for scheduler in study.schedulers if model in ("exact", LEARNED[0]) else ["qops"]:
            other = ("users", scheduler)
            cells = [_text(study.less(m, (model, scheduler), other), "+") for m in metrics]
            rows.append([model, scheduler, *cells])
    heads = ["refused jobs", "refused work", "useful utilization", "income"]
    yield from markdown_table(["estimates", "scheduler", *heads], rows)


def starts_table(study: Study) -> Iterator[str]:
    """Yield what became of the latest starts of slack-based backfilling, and of deadlines."""
    promise = ("broken_promises", "lateness_median", "relative_lateness_median")
    rows = []
    for model in study.models:
        if (model, UNREFUSING[0]) not in study.found:
            continue
        cells = [_text(study.mean(model, UNREFUSING[0], promise[0]))]
        cells += [_short(study.mean(model, UNREFUSING[0], each)) for each in promise[1:]]
        cells += [_text(study.mean(model, each, "met_deadlines")) for each in (*UNREFUSING, "qops")]
        rows.append([model, *cells, _text(study.mean(model, UNREFUSING[0], "useful_utilization"))])
    heads = ["started too late (%)", "median (s)", "median (% of the longest wait)"]
    heads += [f"deadlines met, {each} (%)" for each in (*UNREFUSING, "qops")]
    yield from markdown_table(["estimates", *heads, "useful utilization, slack (%)"], rows)


def risk_table(study: Study) -> Iterator[str]:
    """Yield what was expected to be broken, what was, and what a premium makes of it."""
    yield from _of_qops(study, (*MARGINS, *LEARNED, *KILLED), COLUMNS["risk"], _short)


def ranking_table(study: Study, models: Sequence[str]) -> Iterator[str]:
    """Yield the differences to QoPS by model."""
    rows = []
    for model in models:
        for metric, name in (
            ("unadmitted_jobs", "refused jobs"),
            ("unadmitted_work", "refused work"),
            ("income", "income"),
        ):
            others = [
                _text(study.less(metric, (model, each), (model, "qops")), "+")
                for each in study.schedulers[1:]
            ]
            rows.append([model, name, *others])
    yield from markdown_table(["estimates", "less QoPS (points)", *study.schedulers[1:]], rows)


def draw(study: Study, directory: Path) -> None:
    """Draw what is refused against what is broken, by log."""
    _, *wanted = REFUSED.items()
    logs = study.logs
    with picture(directory / "wrong_estimates.png", 10, 6.5) as figure:
        figure.set_layout_engine("constrained")
        grid = figure.subplots(len(wanted), len(logs), sharex="col", squeeze=False)
        for line, (metric, label) in zip(grid, wanted, strict=True):
            for axes, log in zip(line, logs, strict=True):
                _draw_curves(axes, study, metric, log)
                axes.set_xscale("symlog", linthresh=0.1, linscale=0.5)
                axes.set_xlim(left=-0.02)
                axes.axvline(FEW, color="0.7", linewidth=0.8, zorder=0)
                axes.set_xticks([0, 0.1, 0.3, 1, 3, 10], ["0", "0.1", "0.3", "1", "3", "10"])
                axes.minorticks_off()
                if metric == "unadmitted_jobs":
                    axes.set_title(log)
            line[0].set_ylabel(label)
        for axes in grid[-1]:
            axes.set_xlabel(REFUSED["broken_promises"])
        handles, labels = grid[0][0].get_legend_handles_labels()
        columns = len(study.schedulers)
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, title="margin")


def _draw_curves(axes: Any, study: Study, metric: str, log: str) -> None:
    sets = (("users", *reversed(LEARNED)), ("users", *reversed(MARGINS)))
    for number, scheduler in enumerate(study.schedulers):
        for models, style, name in zip(sets, ("-", ":"), ("learned", "fixed"), strict=True):
            points = [
                [study.mean(model, scheduler, each, log) for each in ("broken_promises", metric)]
                for model in models
            ]
            known = [(x.mean, y.mean) for x, y in points if x is not None and y is not None]
            axes.plot(
                *zip(*known, strict=True),
                style,
                color=COLORS[number],
                marker=MARKERS[number],
                markersize=4,
                label=f"{scheduler}, {name}",
            )


def quick_text(study: Study) -> str:
    """Return the tables of ``--quick``."""
    return "\n".join(_of_qops(study, study.models, REFUSED, _text)) + "\n"


def text_of(study: Study, other: dict[str, Study]) -> str:
    """Return all tables in Markdown."""
    windows = len(study.values("users", "qops", "unadmitted_jobs"))
    parts = [
        (f"QoPS at load 1.2, {windows} windows of all logs", models_table(study)),
        (
            "Lateness of QoPS's broken promises, mean over the windows with any",
            lateness_table(study),
        ),
        ("Broken promises (%) by margin and learned risk, load 1.2", margin_table(study)),
        ("Less promises on walltimes (points), load 1.2", cost_table(study)),
        ("Latest starts of slack-based backfilling, load 1.2", starts_table(study)),
        ("Risk of QoPS's promises, charges in % of those of all deadlines", risk_table(study)),
        ("Other schedulers at load 1.2", ranking_table(study, ranked(study))),
    ]
    for title, each in other.items():
        count = len(each.values("users", "qops", "unadmitted_jobs"))
        parts.append((f"QoPS at load 1.4, {title}, {count} windows", models_table(each)))
        parts.append((f"Other schedulers at load 1.4, {title}", ranking_table(each, ranked(each))))
    return "\n\n".join("\n".join([f"**{title}**", "", *lines]) for title, lines in parts) + "\n"


def ranked(study: Study) -> list[str]:
    """Return the models of which the ranking is shown."""
    wanted = ("exact", "users", "predicted, margin 2", *LEARNED[:1], LEARNED[-1])
    return [model for model in wanted if model in study.models]


def by_need(settings: Settings, out: Path, workers: int) -> str:
    """Return the tables of a smaller grid, with both kinds of deadlines on the same jobs."""
    parts = []
    for by in (EASY, NEED):
        runs = grid_runs(settings["grid"] | settings["few_runs"], out, workers, by)
        study = Study(runs)
        parts += [deadlines_text(runs.study), quick_text(study)]
        parts.append("\n".join(ranking_table(study, study.models)))
    return "\n\n".join(parts)


def main() -> None:
    parser = arguments(__file__, __doc__, by_need=True)
    parser.add_argument("--draw", type=Path, help="directory of the picture")
    asked = parser.parse_args()
    settings = settings_of(__file__, quick=asked.quick)
    out = asked.out / ("quick" if asked.quick else "all")

    def made(by: str) -> str:
        if by == NEED:
            return by_need(settings, asked.out / "few", asked.workers)
        runs = grid_runs(settings["grid"], out, asked.workers)
        study = Study(runs)
        if asked.quick:
            return f"{deadlines_text(runs.study)}\n\n{quick_text(study)}"
        higher = grid_runs(settings["grid_at_1_4"], asked.out / "at-1.4", asked.workers)
        names = {"users": "deadlines by walltimes", "exact": "deadlines as in 2003"}
        if asked.draw is not None:
            draw(study, asked.draw)
        told = text_of(study, {name: Study(higher, by) for by, name in names.items()})
        return f"{deadlines_text(runs.study)}\n\n{told}"

    print_or_put(by_turns(asked, made), asked.write)


if __name__ == "__main__":
    run_main(main)
