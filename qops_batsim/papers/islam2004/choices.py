"""What the reproduction of Islam et al. (2004) chose where the paper leaves a choice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from qops_batsim.papers.islam2004 import numbers as paper
from qops_batsim.papers.islam2004.cases import Case, Study
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload.model import Workload

SCHEDULER = "fqops"

FULL_JOBS, QUICK_JOBS = 5000, 2000

BATCH_PARTITION, WHOLE_LOG = 430, 338
"""Processors: of the machine's batch partition, and as many as the log tells."""

FULL = Study(
    loads=(1.0, 1.2, 1.3, 1.4, 1.6),
    tolerance_factors=(1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0),
    slack_loads=paper.SLACK_LOADS,
    slack_tolerance_factors=(1.0, 2.0, 4.0, 6.0, 8.0, 10.0),
    slack_factors=paper.SLACK_FACTORS,
    kill_load=paper.KILL_LOAD,
    kill_tolerance_factors=paper.KILL_TOLERANCE_FACTORS,
    deadline_share=paper.DEADLINE_SHARE,
    seeds=(1, 2, 3, 4, 5),
)
"""All figures."""

COARSE = msgspec.structs.replace(
    FULL,
    loads=(1.0, 1.3, 1.6),
    tolerance_factors=(1.0, 2.0, 4.0, 10.0),
    slack_tolerance_factors=(2.0, 4.0, 10.0),
    slack_factors=(1.0, 2.0, 6.0),
    seeds=(1, 2, 3),
)
"""All figures with few points."""

QUICK = COARSE
"""The quick part: on the first machine only, with as many seeds as a verdict needs."""


def choices(parts: Sequence[tuple[Workload, Study]]) -> dict[str, str]:
    """Return what was chosen for studies on traces, in words."""
    options = msgspec.to_builtins(make_scheduler(SCHEDULER).options)
    varied = Case(load=1.0, kill_and_restart=True).settings(0)
    fixed = {name: value for name, value in options.items() if name not in varied}
    machines = " and ".join(str(trace.processors) for trace, _ in parts)
    seeds = " and ".join(str(len(study.seeds)) for _, study in parts)
    (trace, study), *_ = parts
    return {
        "jobs": f"the first {len(trace.jobs):,} jobs of {Path(trace.source).name} that fit, on "
        f"{machines} processors; run times are known exactly",
        "load": "duplicates of random jobs, submitted with their originals and with the same "
        "deadline",
        "deadlines": "S = 0.2, from EASY on the jobs of load 1",
        "category slowdowns": "plain slowdowns under EASY at the same load and seed; categories "
        "end at 10 min, 1 h, 8 h and at 1, 8, 32 processors",
        "QoS charge": "category slowdown / slowdown that the admitted deadline grants",
        "random TF": "uniform between 0 and 2 TF for each job",
        "jobs without user deadline": f"{100 * (1 - study.deadline_share):g} % in Figures 10 and "
        "11; artificial deadline max(24 h, 2 x run time), only the resource charge",
        "seeds": f"{seeds}; they choose duplicates, random TF and who has a deadline",
        "scheduler": f"{SCHEDULER} with "
        + ", ".join(f"{name} = {value}" for name, value in fixed.items()),
    }
