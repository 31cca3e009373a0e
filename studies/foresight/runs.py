"""Runs and tables of the study of foresight."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from qops_batsim.analysis import PromiseMetrics
from qops_batsim.experiments import DeadlineRuns, Scenario, find_trace, nested_interval, study_of
from qops_batsim.workload import EstimateChoices, read_trace
from studies.shared import Settings, settings_of

SETTINGS = settings_of(__file__)
GRID = study_of(SETTINGS["grid"], source="study.toml")
LOGS = {log.name: log for log in GRID.logs}
CONTESTANTS = {each.name: each for each in GRID.schedulers}
DEFAULT, MORE, BASELINE = (SETTINGS[name] for name in ("default", "more", "baseline"))
THREE = (BASELINE, DEFAULT, MORE)
DRAWN, EQUAL_WORK = SETTINGS["drawn"], SETTINGS["equal_work"]


class Case(NamedTuple):
    """A workload."""

    log: str
    skip: int
    load: float
    seed: int
    stringency: float = 0.2


class Share(NamedTuple):
    """What was refused, in % of all jobs, of their work and of their QoS charges."""

    jobs: float
    work: float
    charge: float


@cache
def runs_of(log: str) -> DeadlineRuns:
    path = find_trace(LOGS[log].file, Path())
    return DeadlineRuns({log: read_trace(path, processors=LOGS[log].processors).workload})


def run(case: Case, name: str) -> Share:
    """Run a scheduler; broken promises are an error."""
    scenario = Scenario(**case._asdict(), estimates=EstimateChoices())
    found = runs_of(case.log)(CONTESTANTS[name].case(scenario))
    assert isinstance(found, PromiseMetrics)
    assert found.unadmitted_work is not None
    assert found.kept_charge is not None
    return Share(found.unadmitted_jobs, found.unadmitted_work, 100.0 - found.kept_charge)


def wanted(settings: Settings) -> Iterator[tuple[Case, tuple[str, ...]]]:
    """Yield the cases and who runs in them, the most wanted first."""
    logs = study_of(settings["grid"], source="study.toml").logs
    for part in settings["parts"]:
        names = tuple(CONTESTANTS) if part.get("all") else ("qops", *THREE)
        for place in range(max(len(log.windows) for log in logs)):
            for log in logs:
                for load in part["loads"]:
                    skip = log.windows[place].skip
                    yield Case(log.name, skip, load, part["seed"], part["stringency"]), names


Results = dict[tuple[Case, str], Share]


def read_kept(path: Path) -> Results:
    kept: Results = {}
    if path.is_file():
        for line in path.read_text().splitlines():
            each = json.loads(line)
            kept[Case(*each["case"]), each["contestant"]] = Share(*each["refused"])
    return kept


def make_runs(path: Path, settings: Settings) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = read_kept(path)
    with path.open("a") as lines:
        for case, names in wanted(settings):
            missing = [name for name in names if (case, name) not in kept]
            if not missing:
                continue
            for name in missing:
                kept[case, name] = share = run(case, name)
                line = {"case": case, "contestant": name, "refused": share}
                print(json.dumps(line), file=lines, flush=True)
            print(f"{case}: {len(missing)} runs", file=sys.stderr, flush=True)


def differences(
    results: Results, name: str, log: str = "", load: float = 0, stringency: float = 0.2
) -> dict[Case, Share]:
    """What a contestant refuses less what QoPS does, by case; all logs and loads without."""
    found = {}
    for (case, who), share in results.items():
        same = log in ("", case.log) and load in (0, case.load) and case.stringency == stringency
        if who == name and same and (case, "qops") in results:
            pairs = zip(share, results[case, "qops"], strict=True)
            found[case] = Share(*(mine - other for mine, other in pairs))
    return found


def row(results: Results, where: str, name: str, **which: Any) -> str:
    """Return means and intervals over the windows of logs, within which nothing is independent."""
    found = differences(results, name, **which)
    if not found:
        return ""
    windows: dict[tuple[str, int], list[Share]] = {}
    for case, share in found.items():
        windows.setdefault((LOGS[case.log].file, case.skip), []).append(share)
    cells = [where, name, f"{len(windows)}, {len(found)}"]
    for place in range(3):
        groups = [[share[place] for share in shares] for shares in windows.values()]
        cells.append(nested_interval(groups).text(sign="+"))
    return f"| {' | '.join(cells)} |\n"


HEAD = "| | contestant | windows, cases | jobs | work | QoS charge |\n|---|---|---|---|---|---|\n"


def quick_table(results: Results) -> str:
    """Return the rows of one log in Markdown."""
    log = next(iter(LOGS))
    return HEAD + "".join(row(results, log, name, log=log) for name in THREE)


def tables(results: Results) -> str:
    """Return the tables in Markdown."""
    loads = GRID.loads
    others = [name for name in CONTESTANTS if name != "qops"]
    text = [
        "Refused, less what QoPS refuses (points, 95 % intervals over windows); less is better. "
        f"All contestants, at load {DRAWN} and S = 0.2; the numbers of foresight are its two "
        f"prices:\n\n{HEAD}",
        *(row(results, f"load {DRAWN}", name, load=DRAWN) for name in others),
        f"\nLoads {', '.join(map(str, loads))}, and S = 0.5:\n\n{HEAD}",
        *(row(results, "all, S 0.2", name) for name in THREE),
        *(row(results, log, name, log=log) for log in LOGS for name in THREE),
        *(row(results, f"load {load:g}", name, load=load) for load in loads for name in THREE),
        *(row(results, f"load {DRAWN}, S 0.5", name, load=DRAWN, stringency=0.5) for name in THREE),
        "\n",
        *against_headroom(results),
    ]
    return "".join(text)


def against_headroom(results: Results) -> Iterator[str]:
    """Yield in how many cases foresight is ahead of fixed headroom or equal, and of QoPS."""
    for name in (DEFAULT, MORE):
        pairs = [
            (share, results[case, BASELINE])
            for (case, who), share in results.items()
            if who == name and (case, BASELINE) in results
        ]
        jobs, work, charge = (
            sum(getattr(a, what) <= getattr(b, what) for a, b in pairs) for what in Share._fields
        )
        both = sum(a.jobs <= b.jobs and a.work <= b.work for a, b in pairs)
        gains = [
            gain for s in (0.2, 0.5) for gain in differences(results, name, stringency=s).values()
        ]
        paid = sum(each.charge <= 0 for each in gains)
        equal = [each.jobs for each in gains if abs(each.work) <= EQUAL_WORK]
        against, qops = len(pairs), len(gains)
        yield (
            f"- `{name}` refuses no more jobs than `{BASELINE}` in {jobs} of {against} cases, no "
            f"more work in {work}, neither more of both in {both}, and no more charge in {charge}. "
            f"It refuses no more charge than QoPS in {paid} of {qops}. Where its work is within "
            f"{EQUAL_WORK} points of QoPS's, in {len(equal)} cases, the difference in jobs is "
            f"{np.mean(equal) if equal else 0.0:+.1f} points in the mean.\n"
        )
