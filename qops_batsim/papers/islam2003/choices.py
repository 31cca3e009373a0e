"""What the reproduction of Islam et al. (2003) chose where the paper leaves a choice."""

from __future__ import annotations

import msgspec

from qops_batsim.papers.islam2003 import numbers as paper
from qops_batsim.papers.islam2003.cases import (
    ADMISSION,
    REFERENCES,
    SETTINGS,
    Reading,
    Source,
    Study,
)
from qops_batsim.scheduling.registry import make_scheduler

CTC, SDSC, KTH = (
    "CTC-SP2-1996-rebuilt.swf.gz",
    "SDSC-SP2-1998-rebuilt.swf.gz",
    "KTH-SP2-1996-2.swf.gz",
)
"""The logs' files."""

BATCH_PARTITION, WHOLE_LOG = 430, 338
"""Processors of CTC: of the machine's batch partition, and as many as the log tells."""

SDSC_PROCESSORS, KTH_PROCESSORS = 128, 100

PACKED_PROCESSORS, PACKED_JOBS = 64, 400
"""Size of a packed schedule, which the paper does not tell."""

READINGS = (
    Reading(name="qops (defaults)", scheduler="qops"),
    Reading(
        name="qops, order=earliest_deadline",
        scheduler="qops",
        settings=(("order", "earliest_deadline"),),
    ),
    *(
        Reading(name=f"qops, k_factor={k}", scheduler="qops", settings=(("k_factor", k),))
        for k in (0, 1, 20)
    ),
    Reading(name="qops, on_failure=reject", scheduler="qops", settings=(("on_failure", "reject"),)),
    Reading(name="qops, new_job=first", scheduler="qops", settings=(("new_job", "first"),)),
    *(
        Reading(name=f"qops, undo={undo}", scheduler="qops", settings=(("undo", undo),))
        for undo in ("starting_later", "all")
    ),
    Reading(name="msb (defaults)", scheduler="msb"),
    Reading(name="msb, fairness=true", scheduler="msb", settings=(("fairness", True),)),
    Reading(name="msb, price=delays", scheduler="msb", settings=(("price", "delays"),)),
    Reading(name="mrt (defaults)", scheduler="mrt"),
    Reading(
        name="mrt, order=earliest_deadline",
        scheduler="mrt",
        settings=(("order", "earliest_deadline"),),
    ),
)
"""The ways in which the paper may be read, the chosen ones first of each scheduler."""

_SDSC = Source(file=SDSC, processors=SDSC_PROCESSORS)
_NARROW = Source(file=CTC, processors=WHOLE_LOG)

FULL = Study(
    sources={"CTC": Source(file=CTC, processors=BATCH_PARTITION), "SDSC": _SDSC},
    loads=paper.LOADS,
    seeds=(1, 2, 3, 4, 5),
    reading_sources=(_NARROW, _SDSC),
    reading_loads=(1.2, 1.4, 1.6),
    readings=READINGS,
    windows=(
        *(Source(file=CTC, processors=WHOLE_LOG, skip=skip) for skip in (10_000, 30_000, 50_000)),
        *(
            Source(file=SDSC, processors=SDSC_PROCESSORS, skip=skip)
            for skip in (10_000, 25_000, 40_000)
        ),
        *(Source(file=KTH, processors=KTH_PROCESSORS, skip=skip) for skip in (0, 10_000, 20_000)),
    ),
    window_loads=(1.2, 1.4),
    window_seeds=(1, 2, 3),
    laxities=(0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
)
"""All figures, the readings and other windows of the logs."""

QUICK = Study(
    sources={
        "CTC": Source(file=CTC, processors=BATCH_PARTITION, first=2000),
        "SDSC": Source(file=SDSC, processors=SDSC_PROCESSORS, first=2000),
    },
    loads=(1.0, 1.3, 1.6),
    seeds=(1, 2, 3),
    reading_sources=(Source(file=CTC, processors=WHOLE_LOG, first=2000),),
    reading_loads=(1.4,),
    readings=READINGS,
    laxities=(0.0, 0.5, 2.0),
)
"""The quick part: few jobs and loads."""


def choices(study: Study) -> dict[str, str]:
    """Return what was chosen for a study, in words."""
    machines = ", ".join(
        f"{log}: the first {source.first:,} jobs of {source.file} on {source.processors} processors"
        for log, source in study.sources.items()
    )
    options = {
        name: make_scheduler(name, dict(SETTINGS.get(name, ()))).options
        for name in (*ADMISSION, *REFERENCES)
    }
    settings = "; ".join(
        f"{name} with "
        + ", ".join(f"{key}={value}" for key, value in msgspec.to_builtins(each).items())
        for name, each in options.items()
    )
    return {
        "logs": f"{machines}. The readings are compared on CTC with {WHOLE_LOG} processors, as "
        f"many as the log tells: that is a higher load than on the {BATCH_PARTITION} of the "
        "machine's batch partition, with which EASY's utilization and slowdown are as in the "
        "pictures of the talk",
        "run times": "known exactly (section 6); a job that exceeds its walltime is cut to it",
        "load by duplication": "a seeded sample of the jobs is submitted again at random times; "
        "loads nest",
        "load by expansion": "run times are multiplied by the load",
        "deadlines": "arrival + max(run time, (1 - S) x response time), from EASY on the workload "
        "of the same load and seed",
        "packed schedules": f"{PACKED_JOBS} jobs on {PACKED_PROCESSORS} processors; sizes and run "
        "times (1 min to 10 h) are uniform in their logarithm, and a job begins wherever some end",
        "non-deadline jobs": "max(24 h, R x run time) after their arrival (text), or max(24 h, "
        f"R x EASY's response time) (slides); R = {paper.RELAXATIONS[0]:g} where none is told",
        "mixed jobs": "unadmitted jobs and work are those of deadline jobs, in % of these (section "
        "5.2: the admittance of deadline jobs); response time and slowdown are means over the "
        "non-deadline jobs that ran",
        "utilization": "from the first submission to the last completion",
        "seeds": f"{len(study.seeds)}; they choose duplicates and whose jobs have deadlines. Where "
        "they choose nothing (load 1 and expansion, with deadlines for all), all are one run",
        "schedulers": settings,
        "defaults": "least laxity was chosen with the first 5,000 jobs of CTC and SDSC in view; "
        "claims judged on these are no confirmation of that choice, those on other windows are",
    }
