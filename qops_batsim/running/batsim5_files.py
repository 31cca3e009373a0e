"""Files that Batsim 5 writes, read as those of Batsim 4, and made into them.

``jobs.csv`` differs in the names of profiles only, totals are JSON (``schedule.json``). In
5.0.0-rc2 a host that has computed once counts as computing for ever, in ``machine_states.csv`` as
in the times of the totals: these are found from the jobs instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from qops_batsim.analysis.results.run import RunResult
from qops_batsim.analysis.results.run_files import RunInfo
from qops_batsim.analysis.results.series import busy_hosts, computing_periods
from qops_batsim.analysis.results.tables import read_jobs_table
from qops_batsim.analysis.results.totals import read_totals
from qops_batsim.engine.ended_jobs import HostChanges
from qops_batsim.engine.outputs import format_machine_states
from qops_batsim.file_set import FileSet
from qops_batsim.platform.model import Outage

_OTHERS = ("consumed_energy", "pstate_changes")
"""Files beside those of every run, which are as in Batsim 4."""


def write_as_batsim4(directory: Path, files: FileSet, outages: Sequence[Outage]) -> None:
    """Add the files that Batsim 5 has written to the set of a run's, as Batsim 4 would have them.

    ``outages`` are the times in which hosts were away, of which Batsim 5 knows nothing.
    """
    totals = read_totals(directory / "schedule.json")
    jobs = read_jobs_table(directory / "jobs.csv")
    hosts = int(totals["nb_computing_machines"])
    info = RunInfo(outages=list(outages))
    result = RunResult(str(directory), "jobs.csv", jobs, hosts, "schedule.json", info=info)
    files.adopt("_jobs.csv", directory / "jobs.csv")
    of_host, begins, ends = computing_periods(result)
    computing, last = float((ends - begins).sum()), np.zeros(hosts)
    np.maximum.at(last, of_host.astype(np.int64), ends)
    totals |= {"time_computing": computing, "time_idle": float(last.sum()) - computing}
    with files.open("_schedule.csv") as stream:
        names = sorted(totals)
        stream.write(f"{','.join(names)}\n".encode())
        stream.write(f"{','.join(_number(totals[name]) for name in names)}\n".encode())
    with files.open("_machine_states.csv") as stream:
        start, finish = (
            each[result.executed] for each in result.columns("starting_time", "finish_time")
        )
        dates = np.sort(np.concatenate([start, finish]))
        busy = busy_hosts(result).at(dates).astype(np.int64)
        stream.write(format_machine_states(HostChanges(dates, busy, hosts - busy)).encode())
    for name in _OTHERS:
        if (directory / f"{name}.csv").is_file():
            files.adopt(f"_{name}.csv", directory / f"{name}.csv")


def _number(value: float) -> str:
    if np.isnan(value):
        return "-nan"
    return str(int(value)) if value.is_integer() else f"{value:.6f}"
