from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, Job, QosRequest, read_run
from qops_batsim.measures.plots import occupation
from qops_batsim.workload import Workload

# Host 0, lane 1 |    bbbb
#         lane 0 |aaaaaaccccc
# Host 1, lane 0 |aaaaaa   dd bbb
#                 0     6


def shared_run(write_run):
    ran = write_run.ran
    return [
        ran("a", 0, 2, 0, 6, [0, 1]),
        ran("b", 1, 1, 4, 4, [0]),
        ran("c", 2, 1, 6, 5, [0]),
        ran("d", 3, 1, 9, 2, [1]),
        ran("b#1", 3, 1, 12, 3, [1]),
        ran("e", 4, 9),
    ]


def classes() -> dict[str, Workload]:
    named = {"a": "dedicated", "b": "deadline", "c": "deadline"}
    jobs = [
        Job(name, 0.0, 1, "p", qos=QosRequest(service_class=service))
        for name, service in named.items()
    ]
    return {"w0": Workload(jobs=jobs, profiles={}, processors=2)}


def test_tasks_take_the_lowest_free_lane(write_run):
    result = read_run(write_run(shared_run(write_run), hosts=2))
    rows, hosts = result.occupations
    start, finish = result.column("starting_time")[rows], result.column("finish_time")[rows]
    lanes = occupation.lanes_of(hosts, start, finish)
    found = {
        (result.jobs["job_id"].iloc[row], host): lane
        for row, host, lane in zip(rows, hosts, lanes, strict=True)
    }
    assert found == {("a", 0): 0, ("a", 1): 0, ("b", 0): 1, ("c", 0): 0, ("d", 1): 0, ("b#1", 1): 0}


tasks = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=30
)


@given(tasks)
def test_a_lane_holds_one_task_at_a_time_and_none_is_wasted(tasks):
    hosts, start, length = np.array(tasks).T
    finish = start + length
    lanes = occupation.lanes_of(hosts, start.astype(float), finish.astype(float))
    at_once = dict.fromkeys(range(3), 0)
    for date in range(30):
        for host in range(3):
            now = (hosts == host) & (start <= date) & (date < finish)
            assert len(set(lanes[now])) == now.sum()
            at_once[host] = max(at_once[host], int(now.sum()))
    for host in set(hosts):
        assert lanes[hosts == host].max() + 1 == at_once[host]


def test_classes_come_from_the_workloads(write_run):
    result = read_run(write_run(shared_run(write_run), hosts=2))
    assert occupation.class_names(result, classes()) == [
        "dedicated",
        "deadline",
        "deadline",
        occupation.UNKNOWN,
        "deadline",
        occupation.UNKNOWN,
    ]
    assert set(occupation.class_names(result, {})) == {occupation.UNKNOWN}


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_equal_runs_give_equal_pictures(write_run, tmp_path, kind):
    result = read_run(write_run(shared_run(write_run), hosts=2))
    first, second = tmp_path / f"first.{kind}", tmp_path / f"second.{kind}"
    occupation.draw(result, first, workloads=classes())
    occupation.draw(result, second, workloads=classes())
    assert first.read_bytes() == second.read_bytes()
    plain = tmp_path / f"plain.{kind}"
    occupation.draw(result, plain)
    assert plain.read_bytes() != first.read_bytes()


def test_the_picture_tells_classes_and_tasks(write_run, tmp_path):
    out = tmp_path / "a.svg"
    result = read_run(write_run(shared_run(write_run), hosts=2))
    occupation.draw(result, out, workloads=classes())
    text = out.read_text()
    assert "run: 5 jobs, up to 2 tasks at once on a host" in text
    for entry in ("dedicated: 2 tasks", "deadline: 3 tasks", "class not known: 1 task"):
        assert entry in text
    assert "Running tasks" in text
    occupation.draw(result, out, workloads=classes(), begin=7, end=9)
    assert "run: 2 jobs, up to 2 tasks at once on a host" in out.read_text()


def test_hosts_that_the_machine_does_not_have_are_refused(write_run, tmp_path):
    out = tmp_path / "a.svg"
    jobs = [write_run.ran("1", 0, 1, 0, 5, [1])]
    result = read_run(write_run(jobs), hosts=1)
    with pytest.raises(InputError, match=r"ran on host 1, but the number of hosts is 1 \(given\)"):
        occupation.draw(result, out, workloads=classes())
    assert not out.exists()


def test_what_cannot_be_drawn_is_refused(write_run, tmp_path, monkeypatch):
    out = tmp_path / "a.png"
    result = read_run(write_run(shared_run(write_run), hosts=2))
    with pytest.raises(InputError, match=r"no job runs from 20 s to 30 s .* from 0 s to 15 s"):
        occupation.draw(result, out, begin=20, end=30)
    rejected = read_run(write_run([write_run.ran("1", 0, 9)], name="none"))
    with pytest.raises(InputError, match="no job of this run was executed"):
        occupation.draw(rejected, out)
    with pytest.raises(InputError, match=r"ends in \.gif"):
        occupation.draw(result, tmp_path / "a.gif")
    monkeypatch.setattr(occupation, "MOST_TASKS", 5)
    with pytest.raises(InputError, match="6 tasks to draw; at most 5 are accepted"):
        occupation.draw(result, out)
    assert not out.exists()


def test_the_command_draws_a_run_of_nqs(cli, tmp_path):
    prefix, out = tmp_path / "nqs", tmp_path / "a.svg"
    workload = tmp_path / "four.json"
    assert cli("workload", "classes", "tiny_8", workload).exit_code == 0
    assert cli("run", "nqs", "-w", workload, "-o", prefix, "-q").exit_code == 0
    result = cli("plot", "occupation", prefix, "-o", out)
    assert (result.exit_code, result.out) == (0, f"wrote {out}\n")
    assert "up to 1 task at once on a host" in out.read_text()
    assert "class not known" not in out.read_text()
    result = cli("plot", "occupation", prefix, "-o", out, "--from", "9d")
    assert result.exit_code == 2
    assert "the run lasts from 0 s to" in result.err
