"""Random small schedules whose outcomes are held: a digest a case, kept beside this file.

``python benchmarks/unchanged.py --held`` simulates 300 random cases with every registered
scheduler (and six longer ones, which take the path of long workloads), and compares what
came of each job with ``held_digests.json``: dates, hosts, states, and what the scheduler
noted about its quality of service, as numbers. Sentences are left out. Two further digests
hold the decision logs, without their reasons, of every other case.

Cases are files (workload, platform, events) and are the same for every version of the
package; nothing but ``simulate``, ``make_scheduler`` and the logs of a module is used.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

KEPT = Path(__file__).with_name("held_digests.json")
CASES = 300
LONG_CASES = 6
DIGITS = 6
"""Hexadecimal digits kept of the digest of a case."""

Settings = dict[str, Any]

ADMISSION: list[Settings] = [
    {},
    {"order": "earliest_deadline"},
    {"k_factor": 1, "undo": "starting_later"},
    {"k_factor": 20, "undo": "all", "new_job": "first"},
    {"on_failure": "reject", "new_job": "first", "order": "earliest_deadline"},
    {"headroom": 0.15},
]
SCHEDULERS: dict[str, list[Settings]] = {
    "fcfs": [{}],
    "easy": [{}],
    "conservative": [{}, {"reserve": "hosts"}, {"reserve": "processors"}],
    "slack": [
        {"average_wait": 40.0},
        {"average_wait": 20.0, "slack_factor": 9.0, "fairness_weight": 0.0},
        {"slack_factor": 0.0, "early_gain": "promise"},
        {"average_wait": 60.0, "average_wait_source": "learned", "average_wait_edges": [20, 60]},
        {"average_wait": 60.0, "heuristic": "ascending_arrival_time", "removal": "compression"},
        {"average_wait": 60.0, "heuristic": "descending_utilization", "removal": "null_job"},
        {"average_wait": 80.0, "heuristic": "descending_cost", "priority_weight": 0.5},
        {"average_wait": 80.0, "heuristic": "descending_priority", "time_weight": 0.0},
        {"average_wait": 50.0, "heuristic": "exhaustive", "exhaustive_up_to": 4},
        {"average_wait": 50.0, "on_overrun": "kill", "utilization_weight": 0.0},
        {"average_wait": 50.0, "on_overrun": "extend", "early_gain": "promise"},
    ],
    "qops": ADMISSION,
    "msb": [{}, {"price": "delays"}, {"fairness": True}, {"price": "delays", "fairness": True}],
    "mrt": [{}, {"order": "earliest_deadline"}, {"max_backtracks": 0}, {"max_backtracks": 40}],
    "fqops": [
        {},
        {"tolerance_factor": 4.0, "slack_factor": 2.0},
        {"tolerance_factor": 3.0, "tolerance": "random", "seed": 5, "retry_count": 4},
        {"kill_and_restart": True, "tolerance_factor": 2.0},
        {"kill_and_restart": True, "tolerance": "random", "tolerance_factor": 3.0},
        {"kill_and_restart": True, "max_kills_per_job": 1, "kill_after": 5.0, "k_factor": 1},
        {"kill_and_restart": True, "slack_factor": 1.5, "tolerance_factor": 4.0, "undo": "all"},
    ],
    "foresight": [
        {},
        {"weight": 0.0, "urgent": 1800.0, "memory": 7200.0},
        {"worth": "charge", "urgent": 900.0, "admission_price": 4.0, "memory": 3600.0},
        {"urgent": 1e6, "admission_price": 20.0, "placement_price": 0.5, "blocking": 0.6},
        {"urgent": 3600.0, "admission_price": 0.0, "headroom": 0.1, "k_factor": 1},
        {"urgent": 300.0, "weight": 1.0, "order": "earliest_deadline", "undo": "starting_later"},
    ],
    "nqs": [
        {"time_limits": [20.0, 60.0]},
        {"blocked": "machine", "time_limits": [30.0]},
        {"run_limits": {"normal": 3, "low": 1}, "default_queue": "low"},
        {"queues": ["high", "low"], "time_limits": []},
    ],
    "priced-queues": [
        {},
        {"history": 1},
        {"history": 5, "priority_limit": 3, "priority_period": 200.0},
        {"queues": ["fast", "slow"], "prices": [1.5, 1.0], "default_queue": "slow"},
        {"choice": "stated", "queues": ["high", "normal", "low"], "default_queue": "normal"},
    ],
    "aroma": [
        {},
        {"stops": 0, "default_class": "dedicated"},
        {"moves": 0, "revisions": 1},
        {"memory_weight": 0.0, "start_tolerance": 60.0, "default_class": "high_priority"},
    ],
}
"""The settings that are tried with every registered scheduler."""

SECOND = {"foresight": 60.0}
"""What stands for a second: Foresight learns from hour to hour."""


# Cases


@dataclass
class Case:
    """What is simulated; the same for a scheduler and a number wherever it is made."""

    settings: Settings
    workload: dict[str, Any]
    platform: str | None = None
    events: list[dict[str, Any]] | None = None
    keeps_decisions: bool = False


def make_case(scheduler: str, number: int) -> Case:
    """Return the case of a number; those from ``CASES`` on are long."""
    rng = random.Random(f"held {scheduler} {number}")
    settings = rng.choice(SCHEDULERS[scheduler])
    hosts = rng.randint(4, 40)
    if number >= CASES:
        jobs = 600 if scheduler in ("aroma", "nqs") else 2100
        settings = SCHEDULERS[scheduler][number % len(SCHEDULERS[scheduler])]
        return Case(settings, workload(rng, scheduler, rng.randint(8, 24), jobs, number))
    jobs = rng.randint(20, 60) * (2 if scheduler == "foresight" else 1)
    made = Case(settings, workload(rng, scheduler, hosts, jobs, number))
    if scheduler == "aroma" or rng.random() < 0.12:
        made.platform = platform(rng, hosts, unequal=scheduler == "aroma")
    if rng.random() < 0.25:
        made.events = hosts_that_leave(rng, hosts, SECOND.get(scheduler, 1.0))
    made.keeps_decisions = number % 2 == 1
    return made


def workload(
    rng: random.Random, scheduler: str, hosts: int, jobs: int, number: int
) -> dict[str, Any]:
    """Return jobs that keep a machine busy, in grains of time that lead to ties."""
    long = number >= CASES
    grain = rng.choice([1.0, 1.0, 10.0, 0.001])
    exact = rng.random() < 0.35
    load = rng.uniform(0.7, 1.1) if long else rng.uniform(0.8, 2.5)
    second = SECOND.get(scheduler, 1.0)
    mean_run, mean_width = 30.0 * second, 0.3 * hosts
    gap = mean_run * mean_width / hosts / load
    computes = scheduler == "aroma" and rng.random() < 0.7
    patience = rng.choice([(1.0, 1.2, 2.0), (1.5, 3.0, 6.0), (1.0, 4.0, 20.0)])
    profiles: dict[str, Any] = {}
    rows = []
    now = 0.0
    for index in range(jobs):
        if rng.random() > 0.3:
            now += rng.expovariate(0.7 / gap)
        submitted = on_grain(now, grain)
        seconds = max(grain, on_grain(min(rng.expovariate(1 / mean_run), 150 * second), grain))
        width = max(1, min(hosts, round(rng.expovariate(1 / mean_width))))
        if rng.random() < 0.01:
            width = hosts + 1
        name = f"p{index}"
        sent = rng.choice([0, 0, 1e5])
        profiles[name] = (
            {"type": "parallel_homogeneous", "cpu": round(seconds * 1e8), "com": sent}
            if computes
            else {"type": "delay", "delay": seconds}
        )
        row = {"id": str(index), "subtime": submitted, "res": width, "profile": name}
        add_request(rng, row, scheduler, seconds, grain, patience, exact=exact)
        rows.append(row)
    return {"nb_res": hosts, "jobs": rows, "profiles": profiles}


def on_grain(seconds: float, grain: float) -> float:
    """Return a date or duration in whole grains (seconds)."""
    return round(round(seconds / grain) * grain, 6)


def add_request(
    rng: random.Random,
    row: dict[str, Any],
    scheduler: str,
    seconds: float,
    grain: float,
    patience: tuple[float, ...],
    *,
    exact: bool,
) -> None:
    """Add estimate, walltime, deadline and what else a scheduler looks at to a job."""
    factor = 1.0 if exact else rng.choice([1.0, 1.0, 1.5, 2.0, 5.0])
    if not exact and rng.random() < 0.12:
        factor = rng.choice([0.5, 0.9])
    estimate = max(grain, on_grain(seconds * factor, grain))
    qos: dict[str, Any] = {}
    kind = rng.random()
    if exact or kind < 0.5:
        qos["estimated_runtime"] = estimate
        if not exact and rng.random() < 0.3:
            row["walltime"] = on_grain(estimate * rng.choice([1.0, 1.5, 3.0]), grain)
    elif kind < 0.97:
        row["walltime"] = estimate
    if rng.random() < 0.65:
        asked = row["subtime"] + estimate * rng.choice(patience)
        qos["deadline"] = on_grain(asked, grain) if rng.random() < 0.9 else round(asked, 3)
    if scheduler == "fqops" and rng.random() < 0.2:
        qos["tolerance_factor"] = rng.choice([0.0, 1.0, 2.5, 10.0])
    if scheduler == "slack":
        if rng.random() < 0.5:
            qos["user_priority"] = rng.choice([0.0, 0.25, 0.5, 1.0])
        if rng.random() < 0.4:
            qos["political_priority"] = rng.choice([None, 0.0, 0.5, 1.0])
    if scheduler in ("nqs", "priced-queues") and rng.random() < 0.6:
        qos["queue"] = rng.choice(["express", "high", "normal", "low", "night"])
    if scheduler == "aroma":
        if rng.random() < 0.7:
            classes = ["high_priority", "dedicated", "best_effort"]
            qos["class"] = "deadline" if "deadline" in qos else rng.choice(classes)
        if rng.random() < 0.3:
            qos["memory"] = rng.choice([1e8, 4e8])
    if qos:
        row["qos"] = qos


def hosts_that_leave(rng: random.Random, hosts: int, second: float) -> list[dict[str, Any]]:
    """Return events of some hosts that go away; most return."""
    events: list[dict[str, Any]] = []
    cuts = sorted(rng.sample(range(hosts + 1), rng.choice([2, 3])))
    for first, after in pairwise(cuts):
        gone = f"{first}-{after - 1}" if after - 1 > first else str(first)
        date = second * rng.randint(0, 150)
        for _ in range(rng.choice([1, 1, 2])):
            events.append({"timestamp": date, "type": "machine_unavailable", "resources": gone})
            if rng.random() < 0.15:
                break
            date += second * rng.randint(1, 120)
            events.append({"timestamp": date, "type": "machine_available", "resources": gone})
            date += second * rng.randint(1, 60)
    return sorted(events, key=lambda event: float(event["timestamp"]))


def platform(rng: random.Random, hosts: int, *, unequal: bool) -> str:
    """Return a platform file: equal hosts with latencies, or unequal ones, some without."""
    speeds, cores = ([0.5, 1, 1, 2], [1, 1, 2, 4]) if unequal else ([1], [1])
    latency = rng.choice([1e-4, 2e-3, 0.03, 0.2])
    names = ["master_host", *(f"h{number}" for number in range(hosts))]
    lines = []
    for name in names:
        speed, many = rng.choice(speeds), rng.choice(cores)
        lines.append(f'<host id="{name}" speed="{speed * 100}Mf" core="{many}"/>')
        lines.append(
            f'<link id="l_{name}" bandwidth="125MBps" latency="{latency:g}s" '
            'sharing_policy="SPLITDUPLEX"/>'
        )
    lines += [f'<host_link id="{name}" up="l_{name}_UP" down="l_{name}_DOWN"/>' for name in names]
    routing = "Cluster"
    if unequal and rng.random() < 0.5:
        routing = "Vivaldi"
        lines = [each for each in lines if each.startswith("<host ")]
        lines = [each.replace(" speed", ' coordinates="0 0 0" speed') for each in lines]
    content = "\n".join(sorted(lines, key=lambda line: line.startswith("<host_link")))
    return (
        "<?xml version='1.0'?>\n"
        '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
        f'<platform version="4.1">\n<zone id="AS0" routing="{routing}">\n{content}\n</zone>\n'
        "</platform>\n"
    )


# Outcomes


def simulated(scheduler: str, number: int, folder: Path) -> tuple[list[str], list[str] | None]:
    """Simulate a case; return a line a job of what came of it, and the lines of its log if any."""
    from qops_batsim import simulate
    from qops_batsim.scheduling.registry import make_scheduler

    case = make_case(scheduler, number)
    jobs, machine, events = folder / "w.json", folder / "p.xml", folder / "events.txt"
    jobs.write_text(json.dumps(case.workload))
    machine.write_text(case.platform or "")
    events.write_text("".join(f"{json.dumps(event)}\n" for event in case.events or []))
    module = make_scheduler(scheduler, case.settings)
    if case.keeps_decisions:
        module.keep_decisions()
    try:
        done = simulate(
            module,
            jobs,
            machine if case.platform else None,
            events=events if case.events else None,
        )
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "qops_batsim":
            raise
        return [type(error).__name__], None if module.decision_log is None else []
    noted = module.qos_log
    lines = []
    for each in done.ended:
        record = noted.record(each.job.id)
        numbers = [
            record.offered_deadline,
            record.admitted_deadline,
            record.resource_charge,
            record.qos_charge,
            record.latest_start,
            record.wasted_processor_seconds,
            record.kills + noted.kills[each.job.id],
            record.new_promises,
        ]
        ran = each.start == each.start
        dates = [each.start, each.finish] if ran else [None, None]
        told = [*dates, *numbers]
        words = ["-" if value is None else repr(float(value)) for value in told]
        lines.append(f"{each.job.id} {each.state} {each.hosts if ran else '-'} {' '.join(words)}")
    return lines, None if module.decision_log is None else list(logged(module.decision_log))


def logged(log: Any) -> Iterator[str]:
    """Yield the lines of a decision log without reasons."""
    return without_reasons(line.decode() for line in log.lines())


def without_reasons(lines: Iterable[str]) -> Iterator[str]:
    """Yield events without reasons, dates to the microsecond."""
    for line in lines:
        event = json.loads(line, parse_float=lambda number: round(float(number), 6) + 0.0)
        for sentence in ("reason", "refusal"):
            event.pop(sentence, None)
        yield json.dumps(event, sort_keys=True)


def short(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:DIGITS]


def digests(scheduler: str) -> dict[str, str]:
    """Return the digests of a scheduler's cases, one after the other."""
    found = {"schedules": "", "decisions": ""}  # the latter of odd numbers, if there is a log
    with tempfile.TemporaryDirectory() as folder:
        for number in range(CASES + LONG_CASES):
            lines, log = simulated(scheduler, number, Path(folder))
            found["schedules"] += short(lines)
            if log is not None:
                found["decisions"] += short(log)
    return found


def check(only: str, *, write: bool, show: int | None) -> int:
    """Compare the digests of all schedulers with those kept; return the exit code."""
    names = [name for name in SCHEDULERS if only in ("", name)]
    if not names:
        print(f"no scheduler {only}; known are {', '.join(SCHEDULERS)}", file=sys.stderr)
        return 2
    if show is not None:
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                lines, log = simulated(name, show, Path(folder))
                print(f"{name} {show}: {json.dumps(make_case(name, show).settings)}")
                print("\n".join([*lines, *(log or [])]))
        return 0
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    failed = 0
    for name in names:
        found = digests(name)
        told, old = [], kept.get(name)
        for what, words in found.items():
            if not words:
                continue
            told.append(f"{what} {hashlib.sha256(words.encode()).hexdigest()[:16]}")
        if not write and old != found:
            failed = 1
            for what, (every, begin) in {"schedules": (1, 0), "decisions": (2, 1)}.items():
                was = (old or {}).get(what, "")
                if was != found[what]:
                    cases = [begin + every * case for case in changed(was, found[what])]
                    told.append(f"{what} DIFFER in {len(cases)} cases, first in case {cases[0]}")
        print(f"{name:12} {'; '.join(told)}", flush=True)
        kept[name] = found
    if write:
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    return failed


def changed(kept: str, found: str) -> list[int]:
    """Return the places of digests that differ."""
    parts = range(0, max(len(kept), len(found)), DIGITS)
    return [at // DIGITS for at in parts if kept[at : at + DIGITS] != found[at : at + DIGITS]]
