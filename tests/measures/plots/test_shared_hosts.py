"""Pictures of runs whose jobs share hosts by amounts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from measures.conftest import Ran, Writer
from qops_batsim import read_run
from qops_batsim.cli.main import main
from qops_batsim.measures.plots import gantt, over_time
from qops_batsim.measures.plots.shares import lowest_places, shares_of_hosts
from qops_batsim.measures.results.host_amounts import RequestsOfRun, requests_of_run
from qops_batsim.measures.results.run_result import RunResult
from qops_batsim.platform import write_platform
from support.shared_hosts import platform_of, workload_of

PLATFORM = platform_of({"cores": 8, "memory": "8GB"}, {"cores": 8, "memory": "8GB", "gpus": 2})

#  job  asks for             host  share of it  runs
#   1   4 cores               0        1/2      0 - 10
#   2   2 cores, 4 GB         0        1/2      5 - 10
#   3   1 GPU                 1        1/2      0 - 10
#   4   a whole host          0         1      10 - 20
ASKED = [
    {"run_time": 10, "per_host": {"cores": 4}},
    {"run_time": 5, "per_host": {"cores": 2, "memory": 4e9}},
    {"run_time": 10, "per_host": {"gpus": 1}},
    {"run_time": 10},
]
RAN = [
    Ran("1", 0, 1, 0, 10, [0]),
    Ran("2", 0, 1, 5, 5, [0], state="COMPLETED_FAILED"),
    Ran("3", 0, 1, 0, 10, [1]),
    Ran("4", 0, 1, 10, 10, [0]),
]
WORKLOADS = workload_of(ASKED, hosts=2)


@pytest.fixture
def result(write_run: Writer) -> RunResult:
    return replace(read_run(write_run(RAN, hosts=2)), platform=PLATFORM)


@pytest.fixture
def requests(result: RunResult) -> RequestsOfRun:
    found = requests_of_run(result, WORKLOADS)
    assert found is not None
    return found


def test_jobs_stand_above_each_other(result: RunResult, requests: RequestsOfRun) -> None:
    shares = shares_of_hosts(requests, result.stays())
    assert shares.stays.rows.tolist() == [0, 1, 3, 2]
    assert shares.low.tolist() == [0, 0.5, 0, 0]
    assert shares.high.tolist() == [0.5, 1, 1, 0.5]


def test_the_image_has_the_colour_of_each_job_in_its_part_of_the_row(
    result: RunResult, requests: RequestsOfRun
) -> None:
    shares = shares_of_hosts(requests, result.stays())
    colors = gantt.colors_of(result, gantt.by_state(result))
    shown = np.ones(4, np.bool_)
    image = gantt.occupation_image(result, colors, shown, (0.0, 20.0), (4, 4), shares)
    well, failed, idle = (to_rgb(each) for each in ("#4c8dbf", "#e0a100", "#f3f3f0"))
    #           0-5   5-10    10-15  15-20
    expected = [
        [well, well, well, well],
        [idle, failed, well, well],
        [well, well, idle, idle],
        [idle, idle, idle, idle],
    ]
    assert np.allclose(image, expected)

    # On fewer lines than hosts a cell has the mean of its hosts.
    coarse = gantt.occupation_image(result, colors, shown, (0.0, 20.0), (4, 1), shares)
    assert np.allclose(coarse[0], np.array(expected).mean(axis=0))


Stay = tuple[int, int, int, int]


@given(
    stays=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(1, 5), st.integers(1, 4)),
        max_size=12,
    )
)
def test_no_two_jobs_overlap(stays: list[Stay]) -> None:
    columns = np.array(stays, np.float64).reshape(-1, 4).T
    hosts, start, lasts, heights = columns
    end = start + lasts
    places, low, high = lowest_places(hosts.astype(np.int64), start, end, heights / 4)
    assert np.allclose(np.bincount(places, high - low, len(stays)), heights / 4)
    for one in range(len(places)):
        for two in range(one):
            a, b = places[one], places[two]
            if hosts[a] == hosts[b] and start[a] < end[b] and start[b] < end[a]:
                assert high[one] <= low[two] + 1e-9 or high[two] <= low[one] + 1e-9

    # Only what finds no room in the row is above it.
    for place, date in enumerate(start):
        at_once = (hosts == hosts[place]) & (start <= date) & (end > date)
        if all(
            heights[(hosts == hosts[place]) & (start <= other) & (end > other)].sum() <= 4
            for other in start
        ):
            assert at_once[place]
            assert high[places == place].max() <= 1 + 1e-9


def test_the_pictures_are_chosen_by_what_the_run_has(
    write_run: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(RAN, hosts=2)
    platform, workload = tmp_path / "machine.xml", tmp_path / "jobs.json"
    write_platform(PLATFORM, platform)
    fields = [job.fields for job in WORKLOADS["w0"].jobs]
    written = {"nb_res": 2, "jobs": fields, "profiles": WORKLOADS["w0"].profiles}
    workload.write_text(json.dumps(written))
    told = {"compute_sharing": True, "platform": str(platform), "workload": str(workload)}
    (tmp_path / "run_run.json").write_text(json.dumps(told | {"hosts": 2}))

    drawn: list[str] = []
    real = over_time.draw_kinds
    monkeypatch.setattr(
        over_time,
        "draw_kinds",
        lambda *args, **options: drawn.append("kinds") or real(*args, **options),
    )
    for kind in ("occupation", "gantt", "utilization"):
        out = tmp_path / f"{kind}.png"
        arguments = ["qops-batsim", "plot", kind, str(tmp_path / "run"), "-o", str(out)]
        monkeypatch.setattr("sys.argv", arguments)
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
        assert out.stat().st_size > 10_000
    assert drawn == ["kinds"]
    title = gantt.gantt(tmp_path / "run").axes[0].get_title("left")
    assert title == "run: 4 jobs on 2 hosts; heights are shares of a host"
