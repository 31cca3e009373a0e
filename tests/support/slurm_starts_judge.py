"""How true forecasts were of the starts that a real Slurm made: see slurm_starts.py.

    python tests/support/slurm_starts_judge.py DIR [--draws 200]

At each look at the queue the waiting jobs are forecast with what was known then. Printed is the
share of starts within intervals of 80 and 50 %, as drawn and as calibrated by the outcomes of
earlier looks.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from qops_batsim.advice.queue_state import read_queue
from qops_batsim.forecast.backtest import (
    LEVELS,
    MEDIAN,
    Calibration,
    PastForecast,
    corrected,
    coverage,
)
from qops_batsim.forecast.forecast import quantiles
from qops_batsim.forecast.past import past_of
from qops_batsim.forecast.queue import _Model, line_of
from qops_batsim.schedulers.slurm.config import read_slurm_config
from qops_batsim.workload.traces import read_partitions
from support.slurm_starts import FACTOR

TIMES = ("max_age", "calc_period", "half_life", "bf_interval", "bf_resolution", "bf_window")


def settings_of(base: Path) -> dict[str, Any]:
    """Return the options of Slurm in seconds of the log."""
    found = read_slurm_config((base / "config.txt").read_text(), "config.txt").options
    return {name: value * FACTOR if name in TIMES else value for name, value in found.items()}


def judge(base: Path, draws: int, scheduler: str) -> list[PastForecast]:
    """Return the forecasts of all looks, with what came."""
    starts = json.loads((base / "starts.json").read_text())
    trace = read_partitions(str(base / "history.swf"))[0][""]
    past, settings = past_of(trace), settings_of(base) if scheduler == "slurm" else {}
    calibration, found = Calibration(), list[PastForecast]()
    for number in range(len(list(base.glob("queue-*.json")))):
        content = (base / f"queue-{number}.json").read_bytes()
        state = read_queue(content, f"queue-{number}.json", processors=trace.workload.processors)
        waiting, _ = line_of(state)
        if not waiting:
            continue
        model = _Model(state, past, trace.calendar, (), scheduler, settings, ())
        now = model.moment.now
        drawn = model.simulator.starts_by_draw(model.moment, model.draw(draws, number))
        plan = model.simulator.planned(model.moment)
        told = quantiles(drawn, LEVELS)
        calibration.come_to(now)
        corrections = calibration.corrections()
        for place, job in enumerate(waiting):
            start = starts[job.id] - trace.calendar.unix_start
            levels = told[:, place].tolist()
            each = PastForecast(
                now, int(job.id), start, tuple(levels), corrected(levels, corrections, now),
                *(float(plan[place]),) * 3,
            )  # fmt: skip
            found.append(each)
            calibration.await_outcome(each, 1 / len(waiting))
    return found


def report(found: list[PastForecast]) -> str:
    """Return what a list of forecasts was worth."""
    all_of = coverage(found)
    looks = sorted({each.now for each in found})
    last = coverage([each for each in found if each.now >= looks[len(looks) // 2]])
    short = np.mean([each.drawn[MEDIAN] - each.now < 3600 for each in found])
    return (
        f"{len(found)} forecasts of {len({each.row for each in found})} jobs at {len(looks)} looks "
        f"({100 * short:.0f} % within an hour): as drawn {all_of.raw_80:.1f} % in 80 %, "
        f"{all_of.raw_50:.1f} % in 50 %; calibrated {all_of.coverage_80:.1f}, "
        f"{all_of.coverage_50:.1f}; last half: drawn {last.raw_80:.1f}, {last.raw_50:.1f}, "
        f"calibrated {last.coverage_80:.1f}, {last.coverage_50:.1f}; median error "
        f"{all_of.median_error:.0f} s, of the plan by limits {all_of.of_plan:.0f} s\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--by-scheduler", default="slurm")
    given = parser.parse_args()
    found = judge(given.dir, given.draws, given.by_scheduler)
    (given.dir / f"told-{given.by_scheduler}.json").write_text(json.dumps(found))
    sys.stdout.write(report(found))


if __name__ == "__main__":
    main()
