"""Histories for back-tests of forecasts: made, or of a log that tells no starts of its own.

    python tests/support/made_histories.py DIR

DIR gets

- ``centre.txt``: the CPU partition of centre_dumps.py, run by Slurm's priorities (accounting);
- ``generated.swf``: what ``workload generate --preset ctc-sp2 --jobs 30000 --load 0.9`` makes;
- ``growing.swf``: a CPU partition (centre_dumps.py) whose load grows from 0.7 to 1.05;
- ``burst.swf``: the same at load 0.75, where in the last third, once a month, one user submits ten
  times the work that waits on average;
- ``thunder.swf``: Thunder's log, which tells no waits and no usable limits, on nine tenths of its
  nodes, with limits of 1.1, 2 or 4 times each run time.

The logs (SWF) tell no waits: a simulated scheduler starts their jobs (``--starts simulated``).
"""

from __future__ import annotations

import gzip
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from qops_batsim.workload.synthetic import generate_workload
from support.centre_dumps import CENTRE, make_rows, text_of
from support.needs import shared_data
from support.swf_lines import swf_text

UNIX = 1_704_067_200
"""Second 0 of a made history: 1 January 2024, a Monday."""

CORES = 1024
WIDTHS = (1, 4, 16, 64, 256)
RUN_TIME = 3600.0
"""Size, widths and median run time (seconds) of the CPU partition of centre_dumps.py."""

WAITING = 40 * 3600.0 * CORES
"""Work that one user of ``burst`` submits at once (processor-seconds by limits): ten times what
waits on average otherwise."""

SLURM = {
    "weight_age": 1000,
    "weight_size": 2000,
    "favor_small": True,
    "weight_fairshare": 0,
    "weight_qos": 0,
    "weight_partition": 0,
}
"""Options of Slurm in ``centre``."""

MONTH = 28 * 86_400.0


def header(processors: int) -> str:
    """Return the header of a log."""
    return f"; MaxProcs: {processors}\n; UnixStartTime: {UNIX}\n; TimeZoneString: UTC"


def generated() -> str:
    """Return jobs as the model of Lublin and Feitelson has them, of thirty users."""
    made = generate_workload("ctc-sp2", jobs=30_000, seed=1, load=0.9)
    users = np.random.default_rng(1).integers(1, 31, len(made.jobs)).tolist()
    rows = (
        {
            "submit_time": int(job.submission_time),
            "run_time": math.ceil(made.profiles[job.profile]["delay"]),
            "allocated_processors": job.processors,
            "requested_processors": job.processors,
            "requested_time": int(job.walltime or 0),
            "user": user,
        }
        for job, user in zip(made.jobs, users, strict=True)
    )
    return swf_text(rows, header(made.processors))


def partition(count: int, loads: tuple[float, float], *, bursts: bool = False) -> str:
    """Return jobs of a partition whose load goes from the first to the second of ``loads``."""
    rng = np.random.default_rng(1)
    widths = rng.choice(WIDTHS, count)
    run_times = np.maximum(rng.lognormal(np.log(RUN_TIME), 1.0, count), 30).round()
    limits = np.ceil(run_times * rng.choice([1.1, 2.0, 4.0], count) / 60) * 60
    gaps = (widths * run_times).mean() / (CORES * np.linspace(*loads, count))
    dates = (rng.standard_exponential(count) * gaps).cumsum().round()
    users = rng.integers(1, 9, count)
    columns = [dates, widths, run_times, limits, users]
    if bursts:
        begins = np.arange(dates[-1] * 2 / 3, dates[-1], MONTH)
        # Jobs of sixteen cores, which run as all others do.
        each = round(WAITING / 16 / limits.mean())
        more = len(begins) * each
        chosen = rng.integers(count, size=more)
        further = [np.repeat(begins, each).round(), 16, run_times[chosen], limits[chosen], 9]
        columns = [
            np.concatenate([old, np.broadcast_to(new, more)])
            for old, new in zip(columns, further, strict=True)
        ]
    order = np.argsort(columns[0], kind="stable")
    rows = (
        {
            "submit_time": date,
            "run_time": lasts,
            "allocated_processors": width,
            "requested_processors": width,
            "requested_time": limit,
            "user": user,
        }
        for date, width, lasts, limit, user in zip(
            *(column[order].astype(int).tolist() for column in columns), strict=True
        )
    )
    return swf_text(rows, header(CORES))


def thunder() -> str:
    """Return Thunder's log on nine tenths of its nodes, with limits that are made up."""
    log = Path(shared_data().required(), "traces", "LLNL-Thunder-2007-1.1-cln.swf.gz")
    rng = np.random.default_rng(1)

    def lines() -> Iterator[str]:
        yield "; MaxProcs: 3607"
        for line in gzip.decompress(log.read_bytes()).decode().splitlines():
            if line.startswith(("; UnixStartTime", "; TimeZoneString")):
                yield line
            elif line[:1] not in ("", ";"):
                fields = line.split()
                lasted = max(float(fields[3]), 30.0)
                fields[8] = str(math.ceil(lasted * (1.1, 2.0, 4.0)[rng.integers(3)] / 60) * 60)
                yield " ".join(fields)

    return "\n".join(lines()) + "\n"


def centre() -> str:
    """Return the accounting of a CPU partition whose jobs Slurm has started by age and size."""
    rows = make_rows((CENTRE[1],), 30_000, scheduler="slurm", settings=SLURM)
    return text_of(rows)


MADE = {
    "centre": centre,
    "generated": generated,
    "growing": lambda: partition(40_000, (0.7, 1.05)),
    "burst": lambda: partition(30_000, (0.75, 0.75), bursts=True),
    "thunder": thunder,
}


if __name__ == "__main__":
    for name, make in MADE.items():
        suffix = "txt" if name == "centre" else "swf"
        Path(sys.argv[1], f"{name}.{suffix}").write_text(make())
