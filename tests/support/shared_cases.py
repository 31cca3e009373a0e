"""Random simulations on machines whose jobs share hosts by amounts, for tests of engines."""

from __future__ import annotations

import random
from typing import Any

from support.random_simulations import (
    SCHEDULERS,
    Case,
    Style,
    outages,
    star,
    vivaldi,
    without_network,
    workload,
)

SHARING = ("fcfs", "easy", "conservative", "slack", "qops", "fqops")
"""Schedulers that are compared on shared hosts, of all kinds: queues, plans, promises, kills."""

SORTS: tuple[dict[str, str], ...] = (
    {"cores": "4"},
    {"cores": "8", "memory": "32GB"},
    {"cores": "8", "memory": "64GB", "labels": "large"},
    {"cores": "16", "memory": "64GB", "gpus:v100": "2", "labels": "large,gpu", "weight": "5"},
    {"cores": "4", "memory": "16GB", "gpus": "1", "kind:fpga": "1", "labels": "gpu"},
    {"cores": "8", "licence:solver": "2"},
)
"""Properties of sorts of hosts."""


def shared_case(
    seed: int, scheduler: str, *, network: bool = False, jobs: int = 40, events: bool = False
) -> Case:
    """Return the case of a seed: the same wherever it is made.

    Jobs only sleep in most cases; in the others those that compute slow each other down.
    """
    rng = random.Random(f"shared {seed} {scheduler} {network}")
    settings = rng.choice(SCHEDULERS[scheduler])
    hosts = rng.choice([2, 4, 6])
    style = Style(
        network=network,
        whole_seconds=rng.random() < 0.5,
        delays_only=rng.random() < 0.7,
        communicates=False,
        classes=False,
    )
    platform = rng.choice((star, vivaldi)) if network else without_network
    sorts = rng.sample(SORTS, rng.randint(1, 3))
    machine = [rng.choice(sorts) for _ in range(hosts)]
    content = workload(rng, hosts, jobs, style)
    for row in content["jobs"]:
        row |= _asked(rng, row["res"], sorts)
        if row["res"] == 1:
            row["res"] = rng.choice([1, 1, 1, 2])
        if "parts" in row:
            row["res"] = sum(part["res"] for part in row["parts"])
        elif "tasks" in row:
            row["res"] = max(1, min(row["res"], row["tasks"]))
        if "walltime" in row and not style.delays_only:
            # Whether a computation of exactly its walltime is killed, the clock's last bits say.
            row["walltime"] = round(1.01 * row["walltime"], 6)
    return Case(
        name=f"{scheduler} {seed} {platform.__name__} shared",
        scheduler=scheduler,
        settings=settings,
        platform=_with_amounts(platform(rng, hosts), machine),
        workload=content,
        events=outages(rng, hosts) if events else None,
    )


def only_sleeps(case: Case) -> bool:
    """Return whether no job of a case computes, so that its length depends on no neighbour."""
    return all(each["type"] == "delay" for each in case.workload["profiles"].values())


def _with_amounts(platform: str, machine: list[dict[str, str]]) -> str:
    """Return a platform's text with the properties of its hosts ``h0``, ``h1`` …"""
    lines = platform.splitlines()
    for place, line in enumerate(lines):
        name = line.partition('<host id="h')[2].partition('"')[0]
        if name:
            told = "".join(
                f'<prop id="{each}" value="{value}"/>' for each, value in machine[int(name)].items()
            )
            lines[place] = line.replace("/>", f">{told}</host>")
    return "\n".join(lines)


def _asked(rng: random.Random, res: int, sorts: list[dict[str, str]]) -> dict[str, Any]:
    """Return what a job asks of its hosts, as a rule something that some sort of host has."""
    style = rng.random()
    if style < 0.15:
        return {}
    sort = rng.choice(sorts)
    asked: dict[str, Any] = {}
    if style < 0.65:
        asked["per_host"] = _amounts(rng, sort)
        if rng.random() < 0.1:
            asked["exclusive"] = True
    elif style < 0.85:
        asked |= {"tasks": rng.randint(1, 12), "per_task": {"cores": rng.choice([1, 1, 2])}}
    elif style < 0.9:
        asked["exclusive"] = True
    elif res > 1:
        second = {"res": 1, "per_host": _amounts(rng, rng.choice(sorts))}
        asked["parts"] = [{"res": res - 1, "per_host": _amounts(rng, sort)}, second]
    if "labels" in sort and rng.random() < 0.2:
        target = asked["parts"][0] if "parts" in asked else asked
        target["hosts_with"] = [rng.choice(sort["labels"].split(","))]
    if any("licence:solver" in each for each in sorts) and rng.random() < 0.2:
        asked["licences"] = {"solver": rng.randint(1, 2)}
    return asked


def _amounts(rng: random.Random, sort: dict[str, str]) -> dict[str, float]:
    """Return amounts that hosts of a sort have."""
    amounts: dict[str, float] = {"cores": rng.randint(1, int(sort["cores"]))}
    for name, text in sort.items():
        if name.startswith(("gpus", "kind:")) and rng.random() < 0.5:
            amounts[name.removeprefix("kind:")] = rng.randint(1, int(text))
        elif name == "memory" and rng.random() < 0.6:
            amounts[name] = rng.randint(1, int(text.removesuffix("GB"))) * 1e9
    return amounts
