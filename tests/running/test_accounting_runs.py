"""From a centre's accounting through every scheduler: each id comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from qops_batsim import read_run, read_workload, run
from qops_batsim.schedulers import scheduler_names
from qops_batsim.traces import read_trace
from qops_batsim.workload import write_workload
from qops_batsim.workload.accounting import Choices
from support.sacct_dumps import OWN_WORDS, ZONE, make_dump


@pytest.mark.parametrize("scheduler", scheduler_names())
def test_every_id_comes_back(tmp_path: Path, scheduler: str) -> None:
    dump = make_dump(7, jobs=30)
    (tmp_path / "dump.txt").write_text(dump.text())
    choices = Choices(time_zone=ZONE, state_names=OWN_WORDS)
    trace = read_trace(tmp_path / "dump.txt", accounting=choices)
    path = tmp_path / "w.json"
    write_workload(trace.workload, path)
    run(scheduler, path, out=tmp_path / "out")
    result = read_run(tmp_path / "out")
    assert set(result.ids) == {f"w0!{job}" for job in dump.jobs}
    assert result.calendar == trace.calendar == read_workload(path).calendar
