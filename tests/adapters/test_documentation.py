"""What docs/ecosystem.md shows and needs no foreign package but evalys."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from qops_batsim import read_workload, simulate
from qops_batsim.engine import write_outputs
from qops_batsim.platform import make_cluster
from qops_batsim.shipped import find_input


def test_evalys_reads_our_files_as_documented(
    documented: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    workload = read_workload(find_input("sdsc_sp2_1000", "workloads"))
    simulation = simulate("easy", workload, make_cluster(128))
    write_outputs(simulation, "out/easy")
    (block,) = [block for block in documented if "evalys" in block]
    exec(compile(block, "docs/ecosystem.md", "exec"), {})
    plt.close("all")
    busy, _, words = capsys.readouterr().out.partition(" ")
    assert words == "hosts busy on average\n"
    ran = simulation.ended
    work = sum(len(each.hosts) * (each.finish - each.start) for each in ran)
    span = max(each.finish for each in ran) - min(each.job.submission_time for each in ran)
    assert float(busy) == pytest.approx(work / span, rel=1e-6)
