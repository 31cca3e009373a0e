"""Numbers of Pascal et al. (2004), Tables 1 and 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qops_batsim.jobs import QOS_CLASSES

ALL = "all"
"""Name of the group of all jobs, beside those of the classes."""

TABLE_1: Mapping[int, Mapping[str, float]] = {
    10_000: {"nqs": 10_796.0, "aroma": 4_008.0},
    35_000: {"nqs": 8_979.0, "aroma": 4_202.0},
}
"""Mean waiting times (s) by number of jobs; NQS are the log's own."""

DAYS = {10_000: 112.0, 35_000: 249.0}
"""How long the paper's jobs took to be submitted (days)."""

QUANTITIES = ("wait", "mapping_ms", "rejected")
"""What the paper tells by class: mean wait (s), mean mapping time (ms), rejects."""
_NAMES = (*QOS_CLASSES, ALL)


def _mixed(
    wait: Sequence[float], mapping_ms: Sequence[float], rejected: Sequence[float]
) -> dict[str, dict[str, float]]:
    """Return quantities by class, of all jobs last."""
    columns = zip(QUANTITIES, (wait, mapping_ms, rejected), strict=True)
    return {name: dict(zip(_NAMES, numbers, strict=False)) for name, numbers in columns}


TABLE_2: Mapping[tuple[int, str | None], Mapping[str, Mapping[str, float]]] = {
    (10_000, None): _mixed(
        (30.51, 0.0036, 4_845.0, 4.55, 710.5), (20.22, 3.6, 269.3, 7.2, 50.3), (21, 0, 0, 0)
    ),
    (10_000, "best_effort"): {
        "wait": {ALL: 64.68},
        "mapping_ms": {ALL: 13.0},
        "rejected": {ALL: 0},
    },
    (35_000, None): _mixed(
        (30.7, 0.003, 5_182.0, 30.5, 396.0), (21.1, 3.0, 334.4, 28.6, 49.1), (154, 0, 0, 0)
    ),
    (35_000, "best_effort"): {"wait": {ALL: 70.3}, "mapping_ms": {ALL: 76.4}, "rejected": {ALL: 0}},
}
"""By number of jobs and class of all (None: four classes), quantity and class."""
