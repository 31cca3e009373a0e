"""How true forecasts were of the starts that a real Slurm made: see slurm_starts.py.

    python tests/support/slurm_starts_judge.py DIR [--by-scheduler easy]

At each look at the queue the waiting jobs are forecast, as `queue starts` does with the accounting
of then. Printed is the
share of starts within intervals of 80 and 50 %, as drawn and as calibrated by the outcomes of
earlier looks, of all looks and of the later half; with --moments also as calibrated by a back-test
at so many moments of the log before, had this Slurm run it, and of the looks whose queue is unlike
that log.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from qops_batsim.queue import ForecastBasis, Simulator, past_of, queue_starts, read_queue
from qops_batsim.queue.backtest import backtest, simulated_past
from qops_batsim.queue.calibration import Calibration, corrected
from qops_batsim.queue.learned import Learned
from qops_batsim.queue.scores import PastForecast, coverage
from qops_batsim.slurm.config import read_slurm_config
from qops_batsim.traces import read_partitions
from qops_batsim.workload.conversion import Conversion
from support.slurm_starts import FACTOR, NODES

TIMES = ("max_age", "calc_period", "half_life", "bf_interval", "bf_resolution", "bf_window")


def settings_of(base: Path) -> dict[str, Any]:
    """Return the options of Slurm in seconds of the log."""
    found = read_slurm_config((base / "config.txt").read_text(), "config.txt").options
    return {name: value * FACTOR if name in TIMES else value for name, value in found.items()}


def judge(
    base: Path, draws: int, scheduler: str, every: int = 1, learned: Learned | None = None
) -> list[PastForecast]:
    """Return the forecasts of every so many looks, with what came; calibrated by what a back-test
    has learned, else by the outcomes of earlier looks.
    """
    starts = json.loads((base / "starts.json").read_text())
    settings = settings_of(base) if scheduler == "slurm" else {}
    calibration, found = Calibration(), list[PastForecast]()
    for number in range(every // 2, len(list(base.glob("queue-*.json"))), every):
        path = base / f"queue-{number}.json"
        state = read_queue(path.read_bytes(), path.name, processors=NODES)
        trace = known_by(base, state.now)
        assert trace.calendar is not None
        past = past_of(trace)
        basis = ForecastBasis(past, trace.calendar, scheduler, settings, seed=number)
        told = queue_starts(state, basis, draws=draws)
        dated = [job for job in told.jobs if job.no_date is None and job.id in starts]
        if not dated:
            continue
        drawn, planned = quantiles_of(dated)
        came = np.array([float(starts[job.id]) for job in dated])
        if learned is None:
            calibration.come_to(state.now)
            levels = corrected(drawn, calibration.corrections(state.now), state.now)
            calibration.remember(state.now, came, drawn, levels)
            said = False
        else:
            told = queue_starts(state, basis._replace(learned=learned), draws=draws)
            levels, _ = quantiles_of([job for job in told.jobs if job.id in starts])
            said = any("unlike the past" in warning for warning in told.warnings or ())
        for job, start, one, moved, plan in zip(
            dated, came.tolist(), drawn, levels, planned, strict=True
        ):
            others = (plan,) * 3
            forecast = PastForecast(
                state.now, int(job.id), start, tuple(one.tolist()), tuple(moved.tolist()), *others
            )
            found.append(forecast._replace(is_unlike=said))
    return found


def known_by(base: Path, now: float) -> Conversion:
    """Return the log and the stretch as far as jobs had ended by a date, as accounting tells."""
    lines = (base / "ran.swf").read_text().splitlines()
    (unix,) = (int(line.split()[-1]) for line in lines if line.startswith("; UnixStartTime"))

    def is_known(line: str) -> bool:
        return line[:1] == ";" or sum(map(float, line.split()[1:4])) <= now - unix

    (base / "known.swf").write_text("\n".join([*filter(is_known, lines), ""]))
    return read_partitions(str(base / "known.swf"))[0][""]


def quantiles_of(jobs: Sequence[Any]) -> tuple[np.ndarray, list[float]]:
    """Return what is told of jobs: quantiles by job and level, and the starts by limits."""
    rows = []
    for job in jobs:
        # The last level, of 95 %, is told of none, and in no interval.
        rows.append((job.early, job.half[0], job.median, job.half[1], job.late, job.late))
        assert None not in (*rows[-1], job.planned)
    return np.array(rows, float), [job.planned for job in jobs]


def by_history(base: Path, moments: int, scheduler: str) -> Learned:
    """Return what a back-test of the log before learns, had this Slurm run it."""
    past = past_of(read_partitions(str(base / "history.swf"))[0][""])
    settings = settings_of(base) if scheduler == "slurm" else {}
    past = simulated_past(past, scheduler, settings)
    simulator = Simulator(past, scheduler, settings)
    return backtest(past, simulator, moments=moments, draws=20)[1]


def line(name: str, found: list[PastForecast]) -> str:
    """Return what forecasts were worth."""
    of = coverage(found)
    return (
        f"{name}: {len(found):,} forecasts of {len({each.row for each in found})} jobs; in 80 %: "
        f"{of.coverage_80:.1f} %, as drawn {of.raw_80:.1f} %; in 50 %: {of.coverage_50:.1f} %, as "
        f"drawn {of.raw_50:.1f} %; median error {of.median_error:,.0f} s, of the plan by limits "
        f"{of.of_plan:,.0f} s\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--by-scheduler", default="slurm")
    parser.add_argument("--moments", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, help="use every so many looks")
    given = parser.parse_args()
    asked = given.dir, given.draws, given.by_scheduler, given.every
    found = judge(*asked)
    middle = sorted({each.now for each in found})[len({each.now for each in found}) // 2]
    later = [each for each in found if each.now >= middle]
    sys.stdout.write(line("all", found) + line("later half", later))
    if given.moments:
        learned = by_history(given.dir, given.moments, given.by_scheduler)
        found = judge(*asked, learned)
        sys.stdout.write(line("calibrated by the log before", found))
        said = [each for each in found if each.is_unlike]
        looks = len({each.now for each in said}), len({each.now for each in found})
        sys.stdout.write(f"{looks[0]} of {looks[1]} looks have a queue unlike the log before\n")
        if said:
            sys.stdout.write(line("of these", said))


if __name__ == "__main__":
    main()
