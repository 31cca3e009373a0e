"""Foresight against QoPS on real logs: the study of docs/foresight.md.

    python benchmarks/foresight_study.py out/foresight [--loads 1.4]
    python benchmarks/foresight_study.py out/foresight --write docs/foresight.md --draw PICTURES

The first makes the runs that are missing: windows of 5,000 jobs of each log, none of which had a
part in the development, loads by duplication, deadlines of stringency 0.2 from EASY. Each run is
checked, and kept as a line of out/foresight/runs.jsonl, so that it can be interrupted. The second
prints or writes tables and pictures of what is there. The logs are read from QOPS_SHARED (default
../shared). ``--random 100000`` runs so many random jobs instead, and counts broken promises.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from tables_in_page import print_or_put

from qops_batsim.economics.charges import islam2004, served_job
from qops_batsim.economics.slowdowns import ReferenceJob, category_slowdowns
from qops_batsim.experiments.deadline_runs import DeadlineRuns, Scenario, checked_outcomes
from qops_batsim.experiments.deadline_workload import easy_response_times
from qops_batsim.experiments.intervals import nested_interval
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.platform.generate import make_cluster
from qops_batsim.running.simulate import simulate
from qops_batsim.scheduling.admission.foresight import Foresight
from qops_batsim.scheduling.answers import Answer
from qops_batsim.scheduling.plan import Plan
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload.conversion import convert_log
from qops_batsim.workload.model import Workload, delay_profile
from qops_batsim.workload.swf import read_swf

SHARED = Path(
    os.environ.get("QOPS_SHARED", Path(__file__).resolve().parent.parent.parent / "shared")
)


class Log(NamedTuple):
    """A log, the machine, and where its windows begin."""

    file: str
    processors: int
    skips: tuple[int, ...]


CTC, CTC_SKIPS = "CTC-SP2-1996-rebuilt.swf.gz", (5000, 20000, 35000, 50000, 65000)
LOGS = {
    "KTH 100": Log("KTH-SP2-1996-2.swf.gz", 100, (0, 5000, 10000, 15000, 20000)),
    "SDSC 128": Log("SDSC-SP2-1998-rebuilt.swf.gz", 128, (5000, 15000, 25000, 35000, 45000)),
    "CTC 338": Log(CTC, 338, CTC_SKIPS),
    "CTC 430": Log(CTC, 430, CTC_SKIPS),
}
LOADS = (1.2, 1.4, 1.6)

DRAWN = 1.4
"""Load of the picture."""

EQUAL_WORK = 0.3
"""Work that counts as equal (points)."""

Contestant = tuple[str, dict[str, Any]]
SINGLE: dict[str, Contestant] = {name: (name, {}) for name in ("qops", "msb", "mrt")}
REPAIRS: dict[str, Contestant] = {f"qops, K = {k}": ("qops", {"k_factor": k}) for k in (0, 20)}
FIXED: dict[str, Contestant] = {
    f"headroom {share}": ("qops", {"headroom": share}) for share in (0.01, 0.03, 0.05)
}
PRICES = ((0.5, 1), (1, 2), (2, 4), (2, 8), (4, 16))
FRONT: dict[str, Contestant] = {
    f"foresight {admission:g}, {placement:g}": (
        "foresight",
        {"admission_price": float(admission), "placement_price": float(placement)},
    )
    for admission, placement in PRICES
}
CONTESTANTS = SINGLE | REPAIRS | FIXED | FRONT
DEFAULT, MORE, BASELINE = "foresight 1, 2", "foresight 2, 8", "headroom 0.03"


class Case(NamedTuple):
    """A workload."""

    log: str
    skip: int
    load: float
    seed: int


class Share(NamedTuple):
    """What was refused, in % of all jobs, of their work and of their QoS charges."""

    jobs: float
    work: float
    charge: float


class Facts(NamedTuple):
    """The work of each job and what it would pay, by its place among ``places``."""

    workload: Workload
    places: dict[str, int]
    work: np.ndarray
    charges: np.ndarray


@cache
def runs_of(log: str) -> DeadlineRuns:
    found = LOGS[log]
    trace = read_swf(SHARED / "traces" / found.file)
    return DeadlineRuns({log: convert_log(trace, processors=found.processors).workload})


def facts_of(case: Case) -> Facts:
    """Make the workload of a case; what a job pays follows from what it asks for."""
    scenario = Scenario(log=case.log, skip=case.skip, load=case.load, seed=case.seed)
    workload = runs_of(case.log).workload(scenario)
    responses = easy_response_times(workload)
    jobs = list(workload.jobs)
    times = np.array([float(workload.profiles[job.profile]["delay"]) for job in jobs])
    table = category_slowdowns(
        [
            ReferenceJob(time, responses[job.id], job.processors)
            for job, time in zip(jobs, times.tolist(), strict=True)
        ]
    )
    charges = np.zeros(len(jobs))
    for place, (job, time) in enumerate(zip(jobs, times.tolist(), strict=True)):
        if time > 0 and job.qos is not None:
            charges[place] = islam2004(
                served_job(
                    table,
                    category=table.categories.label(time, job.processors),
                    processors=job.processors,
                    run_time=time,
                    arrival=job.submission_time,
                    deadline=job.qos.deadline,
                )
            ).qos
    places = {job.id: place for place, job in enumerate(jobs)}
    return Facts(workload, places, times * [job.processors for job in jobs], charges)


def run(facts: Facts, contestant: Contestant, what: str) -> Share:
    """Run a scheduler; broken promises are an error."""
    module = make_scheduler(*contestant)
    workload = facts.workload
    found, _ = checked_outcomes(workload, make_cluster(workload.processors), module, what)
    refused = [
        facts.places[job] for job, no in zip(found.ids, found.refused.tolist(), strict=True) if no
    ]
    values = (np.ones(len(facts.work)), facts.work, facts.charges)
    return Share(*(100.0 * float(each[refused].sum() / each.sum()) for each in values))


def cases(loads: Sequence[float], seeds: Sequence[int]) -> Iterator[Case]:
    for seed, place, log, load in product(seeds, range(5), LOGS, loads):
        yield Case(log, LOGS[log].skips[place], load, seed)


Results = dict[tuple[Case, str], Share]


def read_kept(path: Path) -> Results:
    kept: Results = {}
    if path.is_file():
        for line in path.read_text().splitlines():
            each = json.loads(line)
            kept[Case(*each["case"]), each["contestant"]] = Share(*each["refused"])
    return kept


def make_runs(directory: Path, names: Sequence[str], todo: Iterator[Case]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "runs.jsonl"
    kept = read_kept(path)
    with path.open("a") as lines:
        for case in todo:
            missing = [name for name in names if (case, name) not in kept]
            if not missing:
                continue
            facts = facts_of(case)
            for name in missing:
                share = run(facts, CONTESTANTS[name], f"{name}, {case}")
                line = {"case": case, "contestant": name, "refused": share}
                print(json.dumps(line), file=lines, flush=True)
            print(f"{case}: {len(missing)} runs", flush=True)


def differences(results: Results, name: str, log: str = "", load: float = 0) -> dict[Case, Share]:
    """What a contestant refuses less what QoPS does, by case; all logs and loads without."""
    found = {}
    for (case, who), share in results.items():
        same = log in ("", case.log) and load in (0, case.load)
        if who == name and same and (case, "qops") in results:
            pairs = zip(share, results[case, "qops"], strict=True)
            found[case] = Share(*(mine - other for mine, other in pairs))
    return found


def row(results: Results, name: str, log: str = "", load: float = 0) -> str:
    """Return means and intervals over the windows of logs, within which nothing is independent."""
    found = differences(results, name, log, load)
    if not found:
        return ""
    windows: dict[tuple[str, int], list[Share]] = {}
    for case, share in found.items():
        windows.setdefault((LOGS[case.log].file, case.skip), []).append(share)
    where = log or (f"load {load:g}" if load else "all")
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
    three = (BASELINE, DEFAULT, MORE)
    text = [
        "Refused, less what QoPS refuses (points, 95 % intervals over windows); less is better. "
        f"All contestants, at load {DRAWN}; the numbers of foresight are its two prices:\n\n",
        head,
        *(row(results, name, load=DRAWN) for name in CONTESTANTS if name != "qops"),
        f"\nLoads {', '.join(map(str, LOADS))}:\n\n{head}",
        *(row(results, name) for name in three),
        *(row(results, name, log=log) for log in LOGS for name in three),
        *(row(results, name, load=load) for load in LOADS for name in three),
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
        gains = differences(results, name).values()
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


def draw(results: Results, path: Path) -> None:
    """Draw refused jobs against refused work at one load, the mean over the windows of each log."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 7.5), layout="constrained")
    groups = (
        ("MSB", ("msb",), "^"),
        ("MRT", ("mrt",), "v"),
        ("QoPS, K = 0, 5, 20", ("qops, K = 0", "qops", "qops, K = 20"), "d:"),
        ("fixed headroom, 1, 3, 5 %", tuple(FIXED), "o--"),
        ("foresight, by its prices", tuple(FRONT), "o-"),
        ("QoPS", ("qops",), "ks"),
    )
    for axis, log in zip(axes.flat, LOGS, strict=True):
        complete = [
            case
            for case, who in results
            if who == "qops"
            and (case.log, case.load) == (log, DRAWN)
            and is_complete(results, case)
        ]
        for label, names, style in groups:
            points = [
                np.mean([results[case, name][:2] for case in complete], axis=0)
                for name in names
                if complete and (complete[0], name) in results
            ]
            if points:
                axis.plot(*zip(*points, strict=True), style, label=label, markersize=5)
        axis.set(title=f"{log}: {len(complete)} windows, load {DRAWN}", xlabel="refused jobs (%)")
        axis.set_ylabel("refused work (%)")
        axis.grid(alpha=0.3)
    axes.flat[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def is_complete(results: Results, case: Case) -> bool:
    """Tell whether all contestants that ran at all ran in a case."""
    names = {name for _, name in results}
    return all((case, name) in results for name in names)


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

        def timed(plan: Plan, now: float, slot: int) -> Answer:
            began = process_time()
            answer = take(plan, now, slot)
            self.times.append((plan.waiting_count, 1e3 * (process_time() - began)))
            return answer

        policy.take = timed  # type: ignore[method-assign]
        return plan


def answer_times() -> str:
    """Time the answers beside at least 200 waiting jobs, prices made anew in between."""
    module = Timed()
    module.prepare()
    facts = facts_of(Case("CTC 338", 0, 1.6, 1))
    simulate(facts.workload, make_cluster(facts.workload.processors), module)
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
    parser.add_argument("--loads", type=float, nargs="+", default=LOADS)
    parser.add_argument("--seeds", type=int, nargs="+", default=(1,))
    parser.add_argument("--write", type=Path, help="page to put the tables into")
    parser.add_argument("--draw", type=Path, help="directory of the picture")
    parser.add_argument("--random", type=int, help="run so many random jobs instead")
    parser.add_argument("--times", action="store_true", help="time single answers instead")
    asked = parser.parse_args()
    if asked.times:
        print(answer_times())
        return
    if asked.random:
        print(random_promises(asked.random))
        return
    if asked.write is None and asked.draw is None:
        make_runs(asked.directory, list(CONTESTANTS), cases(asked.loads, asked.seeds))
    results = read_kept(asked.directory / "runs.jsonl")
    print_or_put(tables(results), asked.write)
    if asked.draw is not None:
        draw(results, asked.draw / "foresight_front.png")


if __name__ == "__main__":
    main()
