"""Random small runs of all schedulers, held against the verifier and a brute-force check."""

from __future__ import annotations

import functools
import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from brute_force import Check, Facts

from qops_batsim import run
from qops_batsim.errors import InputError
from qops_batsim.protocol.port import make_scheduler
from qops_batsim.schedulers import registry
from qops_batsim.schedulers.registry import scheduler_class, scheduler_names
from qops_batsim.workload.batsim_json import write_workload
from qops_batsim.workload.synthetic import PRESETS, DeadlineRule, generate_workload
from support import random_platforms, random_simulations
from support.read_back import differences

if TYPE_CHECKING:
    from harness import Tally

LEFT_ALONE = {"platform", "grace", "reference_speed", "exhaustive_up_to"}
"""Options that concern files, whose values void the promises, or that take their time."""

SLOW = {"aroma": 500}
"""Schedulers that take long for thousands of jobs, with the most that they get."""

NETWORKS = (*random_simulations.NETWORKS, random_platforms.zones)

NUMBERS = [0.0, 0.1, 0.5, 1.0, 1.5, 4.0, 10.0, 1000.0, 1e6]
COUNTS = [0, 1, 2, 3, 5, 10, 30]


# What is installed stays the same while this goes on.
registry._registered = functools.cache(registry._registered)


def case(seed: int, folder: Path, tally: Tally, *, always_long: bool = False) -> None:
    """Run the case of a seed, at times or always of thousands of jobs; check what it wrote."""
    rng = random.Random(seed)
    scheduler = rng.choice(scheduler_names())
    settings = random_settings(scheduler, rng)
    hosts = rng.choice([2, 4, 8, 12])
    is_long = always_long or (scheduler not in SLOW and rng.random() < 0.2)
    network = rng.random() < (0.1 if is_long else 0.3)
    # Jobs that communicate may keep links busy for longer than AROMA predicts (docs/aroma.md).
    communicates = network and scheduler != "aroma" and rng.random() < 0.5
    style = random_simulations.Style(
        network, rng.random() < 0.5, rng.random() < 0.5, communicates, scheduler == "aroma"
    )
    workload, platform, events = (folder / name for name in ("w.json", "p.xml", "events.txt"))
    lengths = [1_000, 4_000, 20_000] if is_long else [10, 40, 100, 200, 500]
    jobs = min(rng.choice(lengths), SLOW.get(scheduler, 4_000 if network else 20_000))
    make = rng.choice(NETWORKS) if network else random_simulations.without_network
    if is_long or (not network and rng.random() < 0.2):
        hosts = _generated(rng, jobs, workload)
    else:
        made = random_simulations.workload(rng, hosts, jobs, style)
        workload.write_text(json.dumps(made))
    platform.write_text(make(rng, hosts))
    outages = rng.random() < 0.3
    if outages:
        lines = (f"{json.dumps(each)}\n" for each in random_simulations.outages(rng, hosts))
        events.write_text("".join(lines))
    done = run(
        scheduler, workload, platform, settings,
        events=events if outages else None, out=folder / "run",
    )  # fmt: skip
    tally.count("runs")
    tally.count("jobs", done.jobs)
    about = f"{scheduler} {settings} on {make.__name__}, {hosts} hosts, outages {outages}"
    for name in differences(done):
        tally.fail("a file tells otherwise than was judged", name)
    for violation in done.violations:
        tally.fail(f"verify: {violation.rule} ({scheduler})", f"{about}\n{violation.message}")
    late = done.result.info is None or done.result.info.message_delays is not False
    facts = Facts(
        hosts=hosts,
        sharing=done.compute_sharing,
        grace=done.result.grace if late else 0.0,
        burst=64 * done.result.info.round_trip if done.result.info else 0.0,
        outages=outages,
        in_order=scheduler == "fcfs" and not late,
        promises=not done.compute_sharing,
    )
    check = Check(folder / "run", workload, facts)
    for problem in check.problems():
        tally.fail(f"brute force: {problem.partition(':')[0]} ({scheduler})", f"{about}\n{problem}")
    tally.count("promises", check.promises)
    tally.count("killed", sum("KILLED" in row["final_state"] for row in check.ran.values()))
    tally.count("run again", sum("#" in name for name in check.ran))


def _generated(rng: random.Random, jobs: int, path: Path) -> int:
    """Write a workload of the generator; return the hosts that it is for."""
    share = rng.choice([0.0, 0.3, 1.0])
    hosts = rng.choice([8, 32, 128])
    made = generate_workload(
        rng.choice(list(PRESETS)),
        jobs=jobs,
        seed=rng.randrange(10**6),
        processors=hosts,
        load=rng.choice([0.7, 1.0, 1.5]),
        exact_estimates=rng.random() < 0.5,
        deadlines=DeadlineRule(share=share) if share else None,
    )
    write_workload(made, path)
    return hosts


def random_settings(scheduler: str, rng: random.Random) -> dict[str, Any]:
    """Return options of a scheduler at random, such as it accepts."""
    kinds = get_type_hints(scheduler_class(scheduler).Options)
    settings: dict[str, Any] = {}
    for name, kind in kinds.items():
        if name in LEFT_ALONE or rng.random() < 0.6:
            continue
        if get_origin(kind) is Literal:
            value = rng.choice(get_args(kind))
        elif kind is bool:
            value = rng.random() < 0.5
        else:
            value = rng.choice(NUMBERS if kind is float else COUNTS)
        try:
            make_scheduler(scheduler, settings | {name: value})
        except InputError:
            continue
        settings[name] = value
    return settings
