"""Foresight against QoPS on real logs: the study of docs/foresight.md.

    python benchmarks/foresight_study.py out/foresight
    python benchmarks/foresight_study.py out/foresight --write docs/foresight.md
    python benchmarks/foresight_pictures.py out/foresight docs/pictures

The first makes a part of the runs of the study foresight_study.toml, the most wanted first. Each
is checked, and kept as a line of out/foresight/runs.jsonl, so that it can be interrupted. The
second writes tables of what is there. The logs are read from QOPS_SHARED (default ../shared).
``--random 100000`` runs so many random jobs instead, and counts broken promises.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from tables_in_page import print_or_put

from qops_batsim.analysis.metrics.admission import PromiseMetrics
from qops_batsim.experiments.deadline_runs import DeadlineRuns, Scenario, checked_outcomes
from qops_batsim.experiments.statistics import nested_interval
from qops_batsim.experiments.study import read_study
from qops_batsim.experiments.traces import find_trace
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.platform.generate import make_cluster
from qops_batsim.running.simulate import simulate
from qops_batsim.scheduling.admission.foresight import Foresight
from qops_batsim.scheduling.answers import AdmissionAnswer
from qops_batsim.scheduling.plan import Plan
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload.estimates import EstimateChoices
from qops_batsim.workload.model import Workload, delay_profile
from qops_batsim.workload.traces import read_trace

STUDY = read_study(Path(__file__).with_suffix(".toml"))
LOGS = {log.name: log for log in STUDY.logs}
CONTESTANTS = {each.name: each for each in STUDY.schedulers}
PRICED = tuple(name for name in CONTESTANTS if name.startswith("foresight"))
FIXED = tuple(name for name in CONTESTANTS if name.startswith("headroom"))
DEFAULT, MORE, BASELINE = "foresight 1, 2", "foresight 2, 8", "headroom 0.03"
THREE = (BASELINE, DEFAULT, MORE)

DRAWN = 1.4
"""Load of the picture, at which all contestants run."""

EQUAL_WORK = 0.3
"""Work that counts as equal (points)."""


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


def grid() -> Iterator[tuple[Case, Sequence[str]]]:
    """Yield the cases and who runs in them, the most wanted first."""
    everyone, few = tuple(CONTESTANTS), ("qops", *THREE)
    for loads, seed, stringency, names in (
        ((DRAWN,), 1, 0.2, everyone),
        ((1.2, 1.6), 1, 0.2, few),
        ((DRAWN,), 2, 0.2, few),
        ((DRAWN,), 1, 0.5, few),
        ((DRAWN,), 2, 0.2, everyone),
        ((1.2, 1.6), 2, 0.2, few),
        ((DRAWN,), 2, 0.5, few),
    ):
        for place, log, load in product(range(5), LOGS, loads):
            yield Case(log, LOGS[log].windows[place].skip, load, seed, stringency), names


Results = dict[tuple[Case, str], Share]


def read_kept(path: Path) -> Results:
    kept: Results = {}
    if path.is_file():
        for line in path.read_text().splitlines():
            each = json.loads(line)
            kept[Case(*each["case"]), each["contestant"]] = Share(*each["refused"])
    return kept


def make_runs(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "runs.jsonl"
    kept = read_kept(path)
    with path.open("a") as lines:
        for case, names in grid():
            missing = [name for name in names if (case, name) not in kept]
            if not missing:
                continue
            for name in missing:
                kept[case, name] = share = run(case, name)
                line = {"case": case, "contestant": name, "refused": share}
                print(json.dumps(line), file=lines, flush=True)
            print(f"{case}: {len(missing)} runs", flush=True)


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


def tables(results: Results) -> str:
    """Return the tables in Markdown."""
    head = (
        "| | contestant | windows, cases | jobs | work | QoS charge |\n|---|---|---|---|---|---|\n"
    )
    loads = STUDY.loads
    others = [name for name in CONTESTANTS if name != "qops"]
    text = [
        "Refused, less what QoPS refuses (points, 95 % intervals over windows); less is better. "
        f"All contestants, at load {DRAWN} and S = 0.2; the numbers of foresight are its two "
        f"prices:\n\n{head}",
        *(row(results, f"load {DRAWN}", name, load=DRAWN) for name in others),
        f"\nLoads {', '.join(map(str, loads))}, and S = 0.5:\n\n{head}",
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


def random_promises(count: int) -> str:
    """Run random jobs in lots of 5,000; a broken promise is an error."""
    refused, lots = 0, -(-count // 5000)
    for seed in range(lots):
        rng = np.random.default_rng(seed)
        jobs, profiles, date = [], {}, 0.0
        for index in range(5000):
            date += float(np.round(rng.exponential(250), 3))
            seconds = float(np.ceil(rng.lognormal(6, 1.8)))
            laxity = float(rng.choice([0.0, 0.3, 1.0, 5.0])) * seconds
            profile, content = delay_profile(seconds)
            profiles[profile] = content
            qos = QosRequest(deadline=date + seconds + laxity, estimated_runtime=seconds)
            jobs.append(Job(str(index), date, int(rng.integers(1, 40)), profile, qos=qos))
        workload = Workload(jobs=jobs, profiles=profiles, processors=128)
        module = make_scheduler("foresight")
        found, _ = checked_outcomes(workload, make_cluster(128), module, f"seed {seed}")
        refused += int(found.refused.sum())
    return f"{5000 * lots:,} random jobs: {refused:,} refused, no promise broken"


class Timed(Foresight):
    """Foresight that notes the CPU time of each answer (ms), by the number of waiting jobs."""

    times: list[tuple[int, float]]

    def new_plan(self, machine_size: int) -> Plan:
        """Return the plan, watched."""
        plan = super().new_plan(machine_size)
        policy, self.times = plan.policy, []
        assert policy is not None
        take = policy.take

        def timed(plan: Plan, now: float, slot: int) -> AdmissionAnswer:
            began = process_time()
            answer = take(plan, now, slot)
            self.times.append((plan.waiting_count, 1e3 * (process_time() - began)))
            return answer

        policy.take = timed  # type: ignore[method-assign]
        return plan


def answer_times() -> str:
    """Time the answers beside at least 200 waiting jobs, prices made anew in between."""
    workload = runs_of("CTC 338").workload(Scenario(log="CTC 338", load=1.6))
    for _ in range(2):  # The first run compiles.
        module = Timed()
        simulate(workload, make_cluster(workload.processors), module)
    long = [taken for waiting, taken in module.times if waiting >= 200]
    shares = np.percentile(long, [50, 99, 100])
    median, most, longest = shares.tolist()
    return (
        f"{len(long):,} answers beside 200 waiting jobs or more: median {median:.2f} ms, 99th "
        f"percentile {most:.2f} ms, longest {longest:.2f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--write", type=Path, help="page to put the tables into")
    parser.add_argument("--random", type=int, help="run so many random jobs instead")
    parser.add_argument("--times", action="store_true", help="time single answers instead")
    asked = parser.parse_args()
    if asked.times:
        print(answer_times())
        return
    if asked.random:
        print(random_promises(asked.random))
        return
    if asked.write is None:
        make_runs(asked.directory)
    results = read_kept(asked.directory / "runs.jsonl")
    print_or_put(tables(results), asked.write)


if __name__ == "__main__":
    main()
