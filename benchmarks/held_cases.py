"""Random small schedules whose outcomes are held: digests of each case, kept beside this file.

``python benchmarks/unchanged.py --held`` simulates 306 random cases (six of them long) with
every registered scheduler and with users' subclasses, and then, for each of ``FEATURES``, twelve
cases in which it matters. It compares three things with ``held_digests.json``: what came of each
job (dates, hosts, states, promises and charges as numbers, to the last bit), all columns of
``_qos.csv``, to the byte, and the decision log event by event, without sentences.

Cases are files (workload, platform, events) and are the same for every version of the
package; nothing but ``simulate``, ``make_scheduler`` and the logs of a module is used, and
for jobs that somebody else starts the exchange of messages.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import held_schedulers

KEPT = Path(__file__).with_name("held_digests.json")
CASES = 300
LONG_CASES = 6
FEATURE_CASES = 12
"""Cases of each feature."""

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
PASSES: Settings = {
    "bf_interval": 5.0, "bf_resolution": 2.0, "calc_period": 20.0, "half_life": 100.0,
    "max_age": 200.0,
}  # fmt: skip
SLURM_QOS: Settings = {
    "fast": {"priority": 10.0, "max_jobs_per_user": 2, "max_processors": 12},
    "slow": {"priority": 1.0, "max_jobs": 3, "max_processors_per_user": 8},
}
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
    "slurm": [
        PASSES,
        PASSES | {"favor_small": True, "weight_fairshare": 0.0, "bf_max_job_test": 3},
        PASSES | {"weight_age": 0.0, "bf_window": 60.0, "deadlines": False},
        PASSES | {"max_jobs_per_user": 2, "weight_partition": 0.0, "weight_qos": 0.0},
        PASSES | {"max_processors_per_user": 9, "weight_size": 5000.0, "calc_period": 5.0},
        PASSES | {"qos": SLURM_QOS, "partitions": {"high": 0.9, "low": 0.1}, "half_life": 30.0},
        PASSES | {"shares": {"a": 3.0, "a/ann": 2.0, "b": 1.0}, "weight_age": 10.0},
        {},
    ],
    "Widest": [
        {},
        {"starvation_bound": 40.0},
        {"backfill_order": "sjf"},
        {"run_times": "predicted", "backfill_order": "lxf"},
    ],
    "Aging": [{}, {"weight": 0.1}, {"weight": 7.5}],
    "Guarded": [{}, {"order": "saf"}, {"order": "wfp3", "starvation_bound": 90.0}],
    "Patient": [{}, {"patience": 5.0}],
    "EarliestDeadline": [{}],
    "Appending": [{}],
}
"""The settings that are tried with each registered scheduler and each class of a user."""

ORDERS = ["fcfs", "sjf", "ljf", "saf", "lxf", "wfp3", "unicef", "f1", "f2", "f3", "f4"]
FURTHER: dict[str, list[Settings]] = {
    "easy": [
        *({"order": name} for name in ORDERS[1:]),
        *({"backfill_order": name} for name in ORDERS[1:]),
        *({"order": name, "starvation_bound": 45.0} for name in ORDERS),
        {"run_times": "predicted"},
        {"run_times": "predicted", "backfill_order": "sjf"},
        {"run_times": "predicted", "order": "lxf", "backfill_order": "fcfs"},
    ],
    "slack": [
        {"average_wait_source": "learned", "average_wait_window": 100.0, "average_wait": 30.0},
        {"average_wait": 40.0, "slack_factor": 1.0, "on_overrun": "extend", "removal": "null_job"},
    ],
    "qops": [
        {"insertion": "best", "best_by": "work"},
        {"insertion": "best", "best_by": "response", "order": "earliest_deadline"},
        {"insertion": "best", "best_by": "slack", "k_factor": 20},
        {"insertion": "last", "undo": "all"},
        {"order": "scheduled_start", "undo": "all"},
        {"run_times": "predicted"},
    ],
    "msb": [{"order": "least_laxity"}, {"order": "earliest_deadline", "price": "delays"}],
    "fqops": [
        {"insertion": "best", "best_by": "slack", "tolerance_factor": 3.0, "slack_factor": 2.0},
        {"kill_and_restart": True, "restart_price": 4.0, "kill_after": 5.0},
        {"kill_and_restart": True, "restart_price": 0.5, "headroom": 0.1, "tolerance_factor": 0.0},
        {
            "insertion": "last",
            "headroom": 0.2,
            "new_job": "first",
            "on_failure": "reject",
            "undo": "starting_later",
        },
        {
            "run_times": "predicted",
            "kill_and_restart": True,
            "order": "earliest_deadline",
            "insertion": "best",
            "best_by": "response",
        },
    ],
    "aroma": [{"reference_speed": 5e7}, {"reference_speed": 2e8, "stops": 0}],
}
"""Further settings, which only cases of features have."""

SHORTER = {"aroma", "nqs", "Patient", "EarliestDeadline", "Appending"}
"""Schedulers whose long cases are shorter."""

# Cases


@dataclass
class Case:
    """What is simulated; the same for a scheduler and a number wherever it is made."""

    settings: Settings
    workload: dict[str, Any]
    platform: str | None = None
    events: list[dict[str, Any]] | None = None
    keeps_decisions: bool = False
    others: set[str] = field(default_factory=set)
    """Jobs that somebody else starts."""


def make_case(scheduler: str, number: int) -> Case:
    """Return the case of a number; those from ``CASES`` on are long, later ones of a feature."""
    rng = random.Random(f"held {scheduler} {number}")
    if number >= CASES + LONG_CASES:
        return featured_case(rng, scheduler, number)
    settings = rng.choice(SCHEDULERS[scheduler])
    hosts = rng.randint(4, 40)
    if number >= CASES:
        jobs = 600 if scheduler in SHORTER else 2100
        settings = SCHEDULERS[scheduler][number % len(SCHEDULERS[scheduler])]
        return Case(settings, workload(rng, scheduler, rng.randint(8, 24), jobs, number))
    jobs = rng.randint(20, 60)
    made = Case(settings, workload(rng, scheduler, hosts, jobs, number))
    if scheduler == "aroma" or rng.random() < 0.12:
        made.platform = platform(rng, hosts, unequal=scheduler == "aroma")
    if rng.random() < 0.25:
        made.events = hosts_that_leave(rng, hosts)
    made.keeps_decisions = number % 2 == 1
    return made


def workload(
    rng: random.Random, scheduler: str, hosts: int, jobs: int, number: int
) -> dict[str, Any]:
    """Return jobs that keep a machine busy, in grains of time that lead to ties."""
    long = CASES <= number < CASES + LONG_CASES
    grain = rng.choice([1.0, 1.0, 10.0, 0.001])
    exact = rng.random() < 0.35
    load = rng.uniform(0.7, 1.1) if long else rng.uniform(0.8, 2.5)
    mean_run, mean_width = 30.0, 0.3 * hosts
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
        seconds = max(grain, on_grain(min(rng.expovariate(1 / mean_run), 150), grain))
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
    if scheduler == "slurm":
        row["user"], row["group"] = rng.choice(["ann", "bob", "eve"]), rng.choice(["a", "b"])
        row["queue"], row["qos_name"] = rng.choice(["high", "low"]), rng.choice(["fast", "slow"])
    if scheduler == "aroma":
        if rng.random() < 0.7:
            classes = ["high_priority", "dedicated", "best_effort"]
            qos["class"] = "deadline" if "deadline" in qos else rng.choice(classes)
        if rng.random() < 0.3:
            qos["memory"] = rng.choice([1e8, 4e8])
    if qos:
        row["qos"] = qos


def hosts_that_leave(rng: random.Random, hosts: int) -> list[dict[str, Any]]:
    """Return events of some hosts that go away; most return."""
    events: list[dict[str, Any]] = []
    cuts = sorted(rng.sample(range(hosts + 1), rng.choice([2, 3])))
    for first, after in pairwise(cuts):
        gone = f"{first}-{after - 1}" if after - 1 > first else str(first)
        date = rng.randint(0, 150)
        for _ in range(rng.choice([1, 1, 2])):
            events.append({"timestamp": date, "type": "machine_unavailable", "resources": gone})
            if rng.random() < 0.15:
                break
            date += rng.randint(1, 120)
            events.append({"timestamp": date, "type": "machine_available", "resources": gone})
            date += rng.randint(1, 60)
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


# Features


def feature_of(scheduler: str, number: int) -> str:
    """Return the feature of a case, or ``""``."""
    place = (number - CASES - LONG_CASES) // FEATURE_CASES
    return features(scheduler)[place] if place >= 0 else ""


def features(scheduler: str) -> list[str]:
    """Return the features that a scheduler has."""
    return [name for name, (_, only) in FEATURES.items() if only is None or scheduler in only]


def featured_case(rng: random.Random, scheduler: str, number: int) -> Case:
    """Return a case of a feature; settings take turns."""
    every = [*FURTHER.get(scheduler, []), *SCHEDULERS[scheduler]]
    jobs = workload(rng, scheduler, rng.randint(4, 24), rng.randint(20, 50), number)
    made = Case(dict(every[number % len(every)]), jobs, keeps_decisions=number % 4 > 0)
    feature, _ = FEATURES[feature_of(scheduler, number)]
    feature(rng, made)
    if scheduler == "aroma" and made.platform is None:
        made.platform = platform(rng, jobs["nb_res"], unequal=True)
    return made


def settings_in_turn(rng: random.Random, case: Case) -> None:
    """Nothing but all settings, with users of whom run times can be predicted."""
    for row in case.workload["jobs"]:
        row.setdefault("user", rng.choice(["ann", "bob", "eve"]))


def predictions(rng: random.Random, case: Case) -> None:
    settings_in_turn(rng, case)
    case.settings["run_times"] = "predicted"


def losses(rng: random.Random, case: Case) -> None:
    """Hosts go away, most return, some twice; the rest of the machine stays."""
    case.events = hosts_that_leave(rng, case.workload["nb_res"])


def maintenance(rng: random.Random, case: Case) -> None:
    """One to three windows on hosts of their own, or on all, noticed ahead, at times repeated."""
    hosts = case.workload["nb_res"]
    case.events = []
    cuts = [0, *sorted(rng.sample(range(1, hosts), rng.randint(0, 2))), hosts]
    for first, after in pairwise(cuts):
        notice = rng.randint(0, 100)
        start = notice + rng.choice([0, 5, 60, 200])
        window = {"start": start, "end": start + rng.randint(5, 60)}
        if rng.random() < 0.4:
            window |= {"every": 150, "until": start + rng.randint(150, 500)}
        told = {"timestamp": notice, "type": "maintenance", "resources": f"{first}-{after - 1}"}
        case.events.append(told | window)
    case.events.sort(key=lambda event: float(event["timestamp"]))


def cancellations(rng: random.Random, case: Case) -> None:
    """Users cancel some jobs, which wait, run, have ended, or come only later."""
    chosen = rng.sample(case.workload["jobs"], 8)
    dates = [max(0.0, row["subtime"] + rng.choice([-5, 0, 5, 40, 90])) for row in chosen]
    told = [
        {"timestamp": date, "type": "job_cancelled", "job_id": f"w0!{row['id']}"}
        for date, row in zip(dates, chosen, strict=True)
    ]
    case.events = sorted([*(case.events or []), *told], key=lambda each: float(each["timestamp"]))


def fixed_starts(rng: random.Random, case: Case) -> None:
    """Some jobs have to start at a date; some of them are cancelled, and hosts may leave."""
    for row in rng.sample(case.workload["jobs"], 8):
        qos = row.setdefault("qos", {})
        qos.pop("deadline", None)
        qos["start"] = row["subtime"] + rng.choice([0, 5, 40, 150])
    if rng.random() < 0.5:
        rng.choice([losses, maintenance, cancellations])(rng, case)


def checkpoints(rng: random.Random, case: Case) -> None:
    """Jobs may be killed and run again; most save their work, some may not be killed."""
    case.settings |= {"kill_and_restart": True}
    for row in case.workload["jobs"]:
        if rng.random() < 0.7:
            row.setdefault("qos", {})["checkpoint"] = rng.choice([2, 10, 30])
        elif rng.random() < 0.3:
            row.setdefault("qos", {})["rerunnable"] = False
    if rng.random() < 0.3:
        losses(rng, case)


def latencies(rng: random.Random, case: Case) -> None:
    """News is late, and hosts may leave meanwhile."""
    case.platform = platform(rng, case.workload["nb_res"], unequal=False)
    if rng.random() < 0.3:
        losses(rng, case)


def grace(rng: random.Random, case: Case) -> None:
    """News is late by less than the grace, or by more."""
    latencies(rng, case)
    case.settings["grace"] = rng.choice([0.0, 0.02, 0.1, 0.5, 1.5, 30.0])


def others_jobs(rng: random.Random, case: Case) -> None:
    """Somebody else starts some jobs, for which there are no promises; users cancel others."""
    chosen = rng.sample(case.workload["jobs"], 6)
    case.others = {f"w0!{row['id']}" for row in chosen}
    for row in chosen:
        row["res"] = min(row["res"], max(1, case.workload["nb_res"] // 3))
    if rng.random() < 0.4:
        cancellations(rng, case)
        kept = [each for each in case.events or [] if each["job_id"] not in case.others]
        case.events = kept


PLANNERS = {"conservative", "slack", "qops", "msb", "mrt", "fqops"}
USERS = {"Widest", "Aging", "Guarded", "Patient", "EarliestDeadline", "Appending"}
LINES = {"fcfs", "easy", "nqs", "priced-queues"}
FEATURES: dict[str, tuple[Callable[[random.Random, Case], None], set[str] | None]] = {
    "settings": (settings_in_turn, None),
    "losses": (losses, None),
    "maintenance": (maintenance, None),
    "fixed starts": (fixed_starts, None),
    "latencies": (latencies, None),
    "grace": (grace, PLANNERS | USERS - {"Aging", "Patient"} | {"easy", "priced-queues", "aroma"}),
    "cancellations": (cancellations, PLANNERS | USERS | LINES | {"slurm"}),
    "others": (others_jobs, PLANNERS | USERS | LINES),
    "predictions": (predictions, {"easy", "qops", "fqops", "Widest", "Guarded"}),
    "checkpoints": (checkpoints, {"fqops"}),
}
"""What changes a case, and the schedulers that have it; None: all."""


# Outcomes


class WithOthers:
    """The decision side of an exchange, beside which somebody else starts jobs.

    The scheduler hears of these as ``live`` tells of them: when they run, and that they ended.
    """

    def __init__(self, driver: Any, others: set[str], hosts: int) -> None:
        self.driver = driver
        self.others = others
        self.free = set(range(hosts))
        self.waiting: list[Any] = []

    def exchange(self, message: Any) -> Any:
        from qops_batsim.core.hostset import HostSet
        from qops_batsim.protocol.decisions import ExecuteJob
        from qops_batsim.protocol.events import JobCompleted, JobSubmitted, Notify
        from qops_batsim.protocol.messages import Message, Stamped

        told, ours = [], []
        for item in message.events:
            body = item.body
            if isinstance(body, JobSubmitted) and body.job_id in self.others:
                self.waiting.append(body.job)
                continue
            if isinstance(body, JobCompleted):
                self.free |= set(body.alloc)
            told.append(item)
        for job in list(self.waiting):
            if job.processors <= len(self.free):
                hosts = HostSet.of(sorted(self.free)[-job.processors :])
                self.free -= set(hosts)
                self.waiting.remove(job)
                ours.append(Stamped(message.now, ExecuteJob(job.id, hosts)))
                fields = {"job_id": job.id, "resources": str(hosts), "start": message.now}
                limit = {"walltime": job.walltime} if job.walltime else {}
                told.append(Stamped(message.now, Notify.of("job_runs", **fields, **limit)))
        answer = self.driver.exchange(Message(message.now, told))
        for each in answer.events:
            if isinstance(each.body, ExecuteJob):
                self.free -= set(each.body.alloc)
        return Message(answer.now, [*ours, *answer.events])


Outcome = dict[str, list[str] | None]
"""Lines of what came of the jobs, of ``_qos.csv``, and of the decision log, if there is one."""


def simulated(scheduler: str, number: int, folder: Path) -> Outcome:
    """Simulate a case; return what came of it, or the name of the error."""
    from qops_batsim import simulate
    from qops_batsim.core.qos_log import format_qos
    from qops_batsim.engine.simulation import Simulation
    from qops_batsim.platform.equal_hosts import make_cluster
    from qops_batsim.protocol.driver import ModuleDriver
    from qops_batsim.protocol.port import make_scheduler
    from qops_batsim.running.simulate import default_engine
    from qops_batsim.workload import read_workload

    case = make_case(scheduler, number)
    jobs = folder / "w.json"
    machine = folder / "p.xml"
    events = folder / "events.txt"
    jobs.write_text(json.dumps(case.workload))
    machine.write_text(case.platform or "")
    events.write_text("".join(f"{json.dumps(event)}\n" for event in case.events or []))
    module = make_scheduler(getattr(held_schedulers, scheduler, scheduler), case.settings)
    if case.keeps_decisions:
        module.keep_decisions()
    told = events if case.events else None
    try:
        if case.others:
            hosts = case.workload["nb_res"]
            side = WithOthers(ModuleDriver(module, any_engine=True), case.others, hosts)
            engine = default_engine(module, events=told)
            done = Simulation(make_cluster(hosts), [read_workload(jobs)], side, engine)
            done.run()
        else:
            done = simulate(module, jobs, machine if case.platform else None, events=told)
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "qops_batsim":
            raise
        nothing: list[str] | None = [] if module.scheduler.logs else None
        return {"schedules": [type(error).__name__], "qos": [], "decisions": nothing}
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
        told_of = [*dates, *numbers]
        words = ["-" if value is None else repr(float(value)) for value in told_of]
        lines.append(f"{each.job.id} {each.state} {each.hosts if ran else '-'} {' '.join(words)}")
    log = list(without_reasons(module.decision_lines())) if module.scheduler.logs else None
    qos = [line.decode() for line in format_qos(noted)]
    return {"schedules": lines, "qos": qos, "decisions": log}


def without_reasons(lines: Iterable[str]) -> Iterator[str]:
    """Yield events without reasons, dates to the microsecond."""
    for line in lines:
        event = json.loads(line, parse_float=lambda number: round(float(number), 6) + 0.0)
        for sentence in ("reason", "refusal"):
            event.pop(sentence, None)
        yield json.dumps(event, sort_keys=True)


def short(lines: list[str] | None) -> str:
    if lines is None:
        return "-" * DIGITS
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:DIGITS]


def digests(scheduler: str) -> dict[str, str]:
    """Return the digests of a scheduler's cases, one after the other; dashes where is no log."""
    found = dict.fromkeys(("schedules", "qos", "decisions"), "")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(CASES + LONG_CASES + FEATURE_CASES * len(features(scheduler))):
            for what, lines in simulated(scheduler, number, Path(folder)).items():
                found[what] += short(lines)
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
                case = make_case(name, show)
                print(f"{name} {show}: {json.dumps(case.settings)} {feature_of(name, show)}")
                for lines in simulated(name, show, Path(folder)).values():
                    print("\n".join(lines or []))
        return 0
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    failed = 0
    for name in names:
        began = time.process_time()
        found, told = digests(name), []
        for what, words in found.items():
            old = kept.get(name, {}).get(what, "")
            told.append(f"{what} {hashlib.sha256(words.encode()).hexdigest()[:16]}")
            if not write and old != words:
                failed, cases = 1, changed(old, words)
                kinds = Counter(feature_of(name, case) or "plain" for case in cases)
                where = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
                told.append(f"DIFFER in {len(cases)} cases, first in case {cases[0]} ({where})")
        took = time.process_time() - began
        print(f"{name:16} {'; '.join(told)}; {took:.1f} s of CPU", flush=True)
        kept[name] = found
    if write:
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    return failed


def changed(kept: str, found: str) -> list[int]:
    """Return the places of digests that differ."""
    parts = range(0, max(len(kept), len(found)), DIGITS)
    return [at // DIGITS for at in parts if kept[at : at + DIGITS] != found[at : at + DIGITS]]
