"""Promises on shared nodes: what they cost and hold, by what is planned with (README.md).

    python studies/shared_nodes [--quick] [--workers 2] [--write studies/shared_nodes/tables.md]
        [--draw studies/shared_nodes]
    python studies/shared_nodes --mixes [--write studies/shared_nodes/mixes.md]

Finished runs are kept, and the study goes on where it was. Logs are read from QOPS_SHARED
(default ../shared). Means are over disjoint stretches of a log, with 95 % intervals (Student).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim.experiments import (
    SHARE,
    UNLIMITED,
    KeptRuns,
    Limits,
    changes,
    differences,
    markdown_table,
    mean_interval,
    run_cases,
)
from qops_batsim.measures import COLORS, MARKERS, picture
from studies.shared import (
    NEEDS,
    Settings,
    arguments,
    changed,
    claim_value,
    over_mixes,
    print_or_put,
    run_main,
    settings_of,
    signs_judged,
    told,
)
from studies.shared_nodes.mix import KINDS, import_log, is_narrow, with_gpus
from studies.shared_nodes.runs import (
    BLOCKING,
    EXACT,
    WAYS,
    Case,
    Mix,
    Run,
    WholeCase,
    WholeHosts,
    WholeRun,
)

NODES = "nodes"
VIEWS = {
    "one_number": "one number",
    "pooled": "pooled amounts",
    "whole": "whole nodes while waiting",
    NODES: "nodes",
}
"""Views of the machine, as tables name them."""

LIMITS = "limits"
VARIANTS = {
    LIMITS: "users' limits",
    EXACT: "exact estimates",
    BLOCKING: "users' limits, broken promises block",
}
"""What plans take for run times; and whether a broken promise gets a later date, or fails each plan
that places that job again."""

COUNTS = ("one_number", "pooled")
"""Views that count; the others break no promise."""

Runs = Mapping[tuple[float, str], list[Run]]
"""Runs of one variant by load and view, a run for each stretch."""

Metric = Callable[[Run], float]

METRICS: dict[str, Metric] = {
    "promised jobs (%)": lambda run: run.share("admitted", "jobs"),
    "promised work (%)": lambda run: run.share("admitted_work", "work"),
    "kept jobs (%)": lambda run: run.kept(),
    "kept work (%)": lambda run: run.kept(jobs=False),
}
"""What is compared with nodes."""

LATE = "late (% of the promises)"

BROKEN: dict[str, Metric] = {
    LATE: lambda run: run.share("late", "admitted"),
    "started too late (%)": lambda run: run.share("unsafe", "admitted"),
}


MIXED: dict[str, Metric] = {
    "kept jobs (points)": METRICS["kept jobs (%)"],
    "kept work (points)": METRICS["kept work (%)"],
    LATE: BROKEN[LATE],
}
"""What is compared with nodes over mixes of needs."""


def mixes_table(settings: Settings, directory: str, out: Path, workers: int) -> list[str]:
    """Make runs with each mix of needs; return what views have more than nodes, by stretch."""
    found: dict[tuple[str, ...], dict[str, list[list[float]]]] = {}
    for by in NEEDS:
        made = all_runs(Mix(settings, directory, by), out / by, workers)
        for (variant, runs), (name, metric) in product(made.items(), MIXED.items()):
            for load, view in runs:
                nodes = [metric(run) for run in runs[load, NODES]]
                base = [0.0] * len(nodes) if name == LATE else nodes
                if view != NODES or name == LATE:
                    own = differences([metric(run) for run in runs[load, view]], base)
                    row = (VIEWS[view], VARIANTS[variant], f"{load:g}", name)
                    found.setdefault(row, {})[by] = [[each] for each in own]
    return over_mixes(["planned with", "plans know", "load", "less nodes"], found)


def all_runs(mix: Mix, out: Path, workers: int) -> dict[str, Runs]:
    """Make the runs that a directory does not hold yet; return all by variant."""
    settings = mix.settings
    asked, log = settings["runs"], settings["log"]
    cases = [
        Case(stretch, load, view, variant)
        for stretch in range(log["stretches"])
        for load in asked["loads"]
        for view in asked["views"]
        for variant in asked["variants"]
    ]
    made_of = [log, settings["machine"]]
    found = run_cases(
        mix,
        cases,
        workers=workers,
        kept=KeptRuns(out / "mix", Run, made_of),
        group_by=lambda case: case.stretch,
        on_progress=told(12),
    )
    runs: dict[str, dict[tuple[float, str], list[Run]]] = {}
    for case, run in found.items():
        own = runs.setdefault(case.variant, {})
        own.setdefault((case.load, case.view), []).append(run)
    return dict(runs)


def text(values: Sequence[float], limits: Limits = UNLIMITED) -> str:
    """Return a mean with its interval."""
    return mean_interval(values, limits).text()


def machine_lines(mix: Mix, runs: Runs) -> Iterator[str]:
    """Yield the sizes of the machines and their loads."""
    machine = mix.settings["machine"]
    for load in mix.settings["runs"]["loads"]:
        own = runs[load, NODES]
        hosts = [run.hosts for run in own]
        gpus = [with_gpus(machine, each) for each in hosts]
        pairs = zip(mix.stretches, hosts, strict=True)
        by_kind = [demand.loads(machine, each) for (_, demand), each in pairs]
        alone = ", ".join(
            f"{kind} {text([each[kind] for each in by_kind])} (at most "
            f"{max(each[kind] for each in by_kind):.2f})"
            for kind in KINDS
        )
        yield (
            f"Load {load:g}: {min(hosts)} to {max(hosts)} hosts ({min(gpus)} to {max(gpus)} with "
            f"GPUs), offered load {text([run.load for run in own])}; of each kind alone {alone}."
        )


def promise_rows(settings: Settings, runs: Runs) -> Iterator[list[str]]:
    """Yield what is promised and kept, by load and view."""
    for load in settings["runs"]["loads"]:
        for view in settings["runs"]["views"]:
            own = runs[load, view]
            shares = [*METRICS.values(), *BROKEN.values()]
            cells = [text([metric(run) for run in own], SHARE) for metric in shares]
            late = sum(run.total("late") for run in own)
            worst = max(run.worst for run in own) / 3600
            yield [f"{load:g}", VIEWS[view], *cells, f"{late:,.0f}", f"{worst:.1f}"]


def difference_rows(variant: str, runs: Runs) -> Iterator[list[str]]:
    """Yield differences to nodes, by load and view; they are judged together."""
    found = {}
    for load, view in runs:
        if view == NODES or (variant == BLOCKING and view not in COUNTS):
            continue
        for name, metric in METRICS.items():
            pairs = ([metric(run) for run in runs[load, each]] for each in (view, NODES))
            found[load, view, name] = differences(*pairs)
    claims = signs_judged(found, variant)
    for load, view in dict.fromkeys((load, view) for load, view, _ in found):
        cells = [claim_value(claims[load, view, name], marked=True) for name in METRICS]
        late = text([BROKEN[LATE](run) for run in runs[load, view]], SHARE)
        yield [f"{load:g}", VIEWS[view], *cells, late]


def group_rows(settings: Settings, runs: Runs) -> Iterator[list[str]]:
    """Yield what is promised and late of each kind and width, over all loads."""
    views = settings["runs"]["views"]
    groups = (*KINDS, "one host", "several hosts")

    def shares(view: str, part: str, of: str, chosen: str, whole: str) -> list[float]:
        """Return of each stretch a part of a sum (%), both over all loads."""
        own = zip(*(found for (_, each), found in runs.items() if each == view), strict=True)
        sums = [
            [
                sum(run.total(name, word) for run in stretch)
                for name, word in ((part, chosen), (of, whole))
            ]
            for stretch in own
        ]
        return [100 * a / max(b, 1e-9) for a, b in sums]

    found = {
        (chosen, view): differences(
            *(shares(each, "admitted", "jobs", chosen, chosen) for each in (view, NODES))
        )
        for chosen in groups
        for view in views
        if view != NODES
    }
    claims = signs_judged(found, "groups")
    for chosen in groups:
        of_all = [mean_interval(shares(NODES, x, x, chosen, "")).mean for x in ("jobs", "work")]
        cells = [chosen, *(f"{share:.0f}" for share in of_all)]
        cells.append(text(shares(NODES, "admitted", "jobs", chosen, chosen), SHARE))
        for view in views:
            if view != NODES:
                cells.append(claim_value(claims[chosen, view], marked=True))
            if view in COUNTS:
                cells.append(text(shares(view, "late", "admitted", chosen, chosen), SHARE))
        yield cells


def whole_rows(settings: Settings, out: Path, workers: int) -> Iterator[list[str]]:
    """Yield what binding costs where each job has its hosts for itself."""
    logs = {name: told for name, told in settings["whole_hosts"].items() if told}
    cases = [
        WholeCase(name, stretch, way)
        for name, (*_, count) in logs.items()
        for stretch in range(count)
        for way in WAYS
    ]
    kept = KeptRuns(out / "whole", WholeRun, logs)
    work = WholeHosts(settings)
    found = run_cases(work, cases, workers=workers, kept=kept, on_progress=told(40))
    values: dict[tuple[str, str], list[WholeRun]] = {}
    for case, run in found.items():
        values.setdefault((case.log, case.way), []).append(run)

    for (name, way), runs in values.items():
        counted = values[name, f"{way.partition(',')[0]}, counted"]
        waits = [run.wait for run in runs]
        several = f", {len(runs)} stretches" if len(runs) > 1 else ""
        cells = [name + several, way, text(waits)]
        refused = [run.refused for run in runs]
        more = changes(waits, [run.wait for run in counted])
        less = differences(refused, [run.refused for run in counted])
        if way.endswith("counted"):
            cells += ["", text(refused), ""]
        else:
            cells += [f"{mean_interval(more).as_changes().text(sign='+')} %", text(refused)]
            cells += [mean_interval(less).text(sign="+")]
        yield cells


def left_out(mix: Mix, said: str) -> Iterator[str]:
    """Yield what the import left out and what is not taken, and when the first job shares."""
    log = mix.settings["log"]
    jobs = mix.workload.jobs
    wide = sum(job.processors > log["widest"] for job in jobs)
    lengthy = sum(not is_narrow(job, log) for job in jobs) - wide
    yield from ("```", said, "```", "")
    yield (
        f"Of {len(jobs):,} jobs, {wide:,} are on more than {log['widest']} hosts and not taken, "
        f"nor are {lengthy:,} others that may run for more than {log['longest'] / 3600:.0f} hours."
    )
    firsts = []
    shared = []
    for part, demand in mix.stretches:
        hosts = np.array([job.processors for job in part.jobs])
        shares = (demand.amounts[:, :2].max(axis=1) < hosts - 1e-9).nonzero()[0]
        firsts.append(int(shares[0]) + 1)
        shared.append(100 * len(shares) / len(part.jobs))
    yield (
        f"Of the jobs of a stretch, {text(shared, SHARE)} % leave cores and memory of their hosts "
        f"to others; the first of these is job number {min(firsts)} to {max(firsts)}."
    )


def in_points(name: str) -> str:
    """Return the name of a difference of shares."""
    return name.replace("(%)", "(points)")


def tables(mix: Mix, said: str, made: Mapping[str, Runs], out: Path, workers: int) -> str:
    """Return all tables."""
    settings = mix.settings
    runs = made[LIMITS]
    heads = ["load", "planned with", *METRICS]
    late = [*BROKEN, "late jobs", "by at most (h)"]
    views = [f"promised (%), {NODES}"]
    for view in settings["runs"]["views"]:
        if view != NODES:
            views += [f"{VIEWS[view]}, less (points)", *(["late (%)"] if view in COUNTS else [])]
    parts = [
        left_out(mix, said),
        machine_lines(mix, runs),
        markdown_table([*heads, *late], list(promise_rows(settings, runs))),
        *(
            markdown_table(
                ["load", f"{VARIANTS[each]}: less nodes", *map(in_points, METRICS), LATE],
                list(difference_rows(each, own)),
            )
            for each, own in made.items()
        ),
        markdown_table(
            ["binds, or width", "of the jobs (%)", "of the work (%)", *views],
            list(group_rows(settings, runs)),
        ),
        markdown_table(
            ["hosts of one's own", "planned", "wait (s)", "change", "refused (%)", "points"],
            list(whole_rows(settings, out, workers)),
        ),
    ]
    return "\n\n".join("\n".join(part) for part in parts)


def draw(settings: Settings, made: Mapping[str, Runs], directory: Path) -> None:
    """Draw broken promises, and jobs and work that were promised and in time, by load."""
    panels: dict[str, Metric] = {
        "promises that end late (%)": BROKEN[LATE],
        "jobs promised and in time (%)": METRICS["kept jobs (%)"],
        "work promised and in time (%)": METRICS["kept work (%)"],
    }
    rows = [variant for variant in (LIMITS, EXACT) if variant in made]
    with picture(directory / "shared_nodes.png", 10, 0.8 + 2.6 * len(rows)) as figure:
        figure.set_layout_engine("constrained")
        grid = figure.subplots(len(rows), len(panels), sharex=True, squeeze=False)
        for line, variant in zip(grid, rows, strict=True):
            for axes, (label, metric) in zip(line, panels.items(), strict=True):
                draw_lines(axes, settings["runs"], made[variant], metric)
                if variant == rows[0]:
                    axes.set_title(label, fontsize=10)
            line[0].set_ylabel(VARIANTS[variant])
        for axes in grid[-1]:
            axes.set_xlabel("offered load")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, title="planned with")


def draw_lines(axes: Any, asked: Settings, runs: Runs, metric: Metric) -> None:
    """Draw the means of a metric by load, a line for each view, with intervals."""
    for place, view in enumerate(asked["views"]):
        means = [mean_interval([metric(x) for x in runs[load, view]]) for load in asked["loads"]]
        ends = [each.known or (each.mean, each.mean) for each in means]
        reach = [
            [each.mean - max(0.0, low) for each, (low, _) in zip(means, ends, strict=True)],
            [high - each.mean for each, (_, high) in zip(means, ends, strict=True)],
        ]
        axes.errorbar(
            [load + 0.008 * (place - 1.5) for load in asked["loads"]],
            [each.mean for each in means],
            yerr=reach,
            label=VIEWS[view],
            color=COLORS[place],
            marker=MARKERS[place],
            capsize=2,
            linewidth=1.2,
        )
    axes.set_xticks(asked["loads"])


def main() -> None:
    parser = arguments(__file__, __doc__)
    parser.add_argument("--draw", type=Path, metavar="DIR", help="directory for the picture")
    parser.add_argument("--mixes", action="store_true", help="over mixes of needs, a smaller grid")
    asked = parser.parse_args()
    settings = settings_of(__file__, quick=asked.quick)
    with TemporaryDirectory() as directory:
        said = import_log(settings, Path(directory))
        if asked.mixes:
            own = changed(settings, settings["mixes"])
            made_of = mixes_table(own, directory, asked.out / "mixes", asked.workers)
            print_or_put("\n".join(made_of) + "\n", asked.write)
            return
        mix = Mix(settings, directory)
        made = all_runs(mix, asked.out, asked.workers)
        page = tables(mix, said, made, asked.out, asked.workers)
    print_or_put(page + "\n", asked.write)
    if asked.draw is not None:
        draw(settings, made, asked.draw)


if __name__ == "__main__":
    run_main(main)
