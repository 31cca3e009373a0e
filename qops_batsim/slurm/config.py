"""What ``scontrol show config`` says of a site's Slurm, as options of the scheduler ``slurm``."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from qops_batsim.errors import InputError, printable, shown
from qops_batsim.workload.accounting.cells import read_duration

MAX_BYTES = 1 << 26
"""Longest text that is read (bytes)."""

_NUMBERS = {
    "PriorityWeightAge": "weight_age",
    "PriorityWeightJobSize": "weight_size",
    "PriorityWeightPartition": "weight_partition",
    "PriorityWeightQOS": "weight_qos",
    "PriorityWeightFairShare": "weight_fairshare",
}
_TIMES = {
    "PriorityMaxAge": "max_age",
    "PriorityCalcPeriod": "calc_period",
    "PriorityDecayHalfLife": "half_life",
}
_BACKFILL = {"bf_interval": 1, "bf_resolution": 1, "bf_window": 60, "bf_max_job_test": 1}
"""Seconds of one of each; the last is a number."""

_USUAL = {
    "PriorityWeightAssoc": "0",
    "PriorityWeightTRES": "(null)",
    "PriorityFlags": "",
    "PrioritySiteFactorPlugin": "(null)",
    "PriorityUsageResetPeriod": "NONE",
    "PreemptType": "preempt/none",
    "SchedulerType": "sched/backfill",
}
"""Settings that the scheduler has no option for, and the values with which it needs none."""

_UNTOLD = {
    "weight_partition": "factors of partitions",
    "weight_qos": "priorities of QOS",
    "weight_fairshare": "shares and usage of accounts",
}
"""What a weight is of, where other commands tell it."""


class SlurmConfig(NamedTuple):
    """A site's Slurm configuration: options of ``slurm``, settings without option, and priorities.

    Priorities of waiting jobs are by the id of a job, where ``sprio`` tells them.
    """

    options: dict[str, Any]
    lacks: list[str]
    priorities: dict[str, float]


def pairs_of(text: str) -> dict[str, str]:
    """Return the settings by name in the output of ``scontrol show config``; of a repeated name the
    first counts.
    """
    pairs = [line.split("=", 1) for line in text.splitlines() if "=" in line]
    return {name.strip(): value.strip() for name, value in reversed(pairs)}


def read_slurm_config(text: str, source: str) -> SlurmConfig:
    """Read the output of ``scontrol show config``, perhaps followed by that of ``sprio``.

    InputError where it is none, or a value is none that Slurm writes.
    """
    settings = pairs_of(text)
    kind = settings.get("PriorityType")
    if kind not in ("priority/basic", "priority/multifactor"):
        raise InputError(
            f"{source}: PriorityType is {shown(kind)}; the output of `scontrol show config` is "
            "expected, where it is priority/basic or priority/multifactor"
        )

    options: dict[str, Any] = {}
    for name, option in _NUMBERS.items():
        # Basic priorities are the order of submission.
        weight = settings.get(name, "0") if kind.endswith("multifactor") else "0"
        options[option] = _number(weight, f"{source}: {name}")
    for name, option in _TIMES.items():
        if name in settings and (seconds := _seconds(settings[name], f"{source}: {name}")):
            options[option] = seconds
    options["favor_small"] = settings.get("PriorityFavorSmall", "No").lower() == "yes"

    lacks = [
        f"{name}={printable(settings[name])}"
        for name, usual in _USUAL.items()
        if settings.get(name, usual) != usual
    ]
    for parameter in filter(None, settings.get("SchedulerParameters", "").split(",")):
        name, _, value = parameter.strip().partition("=")
        if name in _BACKFILL:
            number = _number(value, f"{source}: {name}") * _BACKFILL[name]
            options[name] = int(number) if name == "bf_max_job_test" else number
        elif parameter != "(null)":
            lacks.append(printable(parameter.strip()))
    lacks += [what for option, what in _UNTOLD.items() if options[option]]
    return SlurmConfig(options, lacks, _priorities(text, source))


def _priorities(text: str, source: str) -> dict[str, float]:
    """Return the priorities in a table of ``sprio``, by job."""
    lines = [line.split() for line in text.splitlines()]
    heads = next((cells for cells in lines if cells[:1] == ["JOBID"]), None)
    if heads is None:
        return {}
    if "PRIORITY" not in heads:
        raise InputError(f"{source}: the table of sprio has no column PRIORITY; one is expected")

    place = heads.index("PRIORITY")
    priorities = {}
    for cells in lines[lines.index(heads) + 1 :]:
        if cells and cells[0][0].isdecimal():
            cell = cells[place] if place < len(cells) else ""
            where = f"{source}: PRIORITY of job {printable(cells[0])}"
            priorities[cells[0]] = _number(cell, where)
    return priorities


def _number(text: str, where: str) -> float:
    if not re.fullmatch(r"\d{1,12}(\.\d{1,12})?", text):
        raise InputError(f"{where} is {shown(text)}; a number is expected")
    return float(text)


def _seconds(text: str, where: str) -> float:
    """Return a Slurm time such as 7-00:00:00 in seconds, 0 if it is unlimited."""
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return 0.0
    seconds = read_duration(text)
    if seconds is None or ":" not in text:
        raise InputError(
            f"{where} is {shown(text)}; a time such as 7-00:00:00 "
            "(days-hours:minutes:seconds), or UNLIMITED, is expected"
        )
    return seconds
