from __future__ import annotations

import json

import pytest


@pytest.fixture
def recorded(shared):
    return shared / "batsim" / "recorded"


def test_equal_runs(cli, recorded):
    result = cli("diff", recorded / "kill_nonet", recorded / "kill_nonet")
    assert (result.exit_code, result.err) == (0, "")
    assert result.out.splitlines()[-1] == "equal: 4 jobs, within 1e-06 s"
    assert "First differences" not in result.out


def test_different_runs_are_listed_and_summed_up(cli, recorded):
    result = cli(
        "diff",
        recorded / "batsched_sdsc5k_fcfs_jobs.csv.gz",
        recorded / "batsched_sdsc5k_easy_bf_jobs.csv.gz",
        "--first",
        2,
    )
    assert (result.exit_code, result.err) == (1, "")
    lines = [[cell.strip() for cell in line.split("│")] for line in result.out.splitlines()]
    starts = [cells for cells in lines if cells and cells[0] == "in start"]
    assert len(starts) == 1
    waits = {cells[0]: cells[3] for cells in lines if cells and cells[0].startswith("waiting")}
    for run, scheduler in (("A", "fcfs"), ("B", "easy_bf")):
        header, row = (recorded / f"batsched_sdsc5k_{scheduler}_schedule.csv").read_text().split()
        totals = dict(zip(header.split(","), row.split(","), strict=True))
        mean = float(totals["mean_waiting_time"])
        assert waits[f"waiting time in {run}"] == f"{mean:,.6f}"
    named = [cells[0] for cells in lines if cells and cells[0].startswith("w0!")]
    assert len(named) == 2
    assert result.out.splitlines()[-1].startswith("different: ")


def test_both_names_stand_on_a_line_of_their_own(cli, recorded):
    a, b = recorded / "delays_fcfs", recorded / "delays_fcfs_nonet"
    lines = cli("diff", a, b).out.splitlines()
    assert f"A: {a}" in lines
    assert f"B: {b}" in lines
    assert not any("\\n" in line for line in lines)


def test_a_tolerance_takes_the_delays_of_messages_as_equal(cli, recorded):
    runs = (recorded / "delays_fcfs", recorded / "delays_fcfs_nonet")
    strict = cli("diff", *runs)
    assert strict.exit_code == 1
    assert strict.out.splitlines()[-1] == "different: 10 of 10 jobs"
    accepted = cli("diff", *runs, "--tolerance", "1e-4")
    assert accepted.exit_code == 0
    assert accepted.out.splitlines()[-1] == "equal: 10 jobs, within 0.0001 s"


def test_jobs_in_one_run_only(cli, recorded):
    result = cli("diff", recorded / "types_small", recorded / "reject_nonet")
    assert result.exit_code == 1
    assert "in one run only" in result.out
    assert result.out.splitlines()[-1] == "different: 4 of 4 jobs, 4 only in A"


def test_json(cli, recorded):
    result = cli("diff", recorded / "kill_small", recorded / "kill_nonet", "--json", "--first", 1)
    assert (result.exit_code, result.err) == (1, "")
    values = json.loads(result.out)
    assert values["a"] == str(recorded / "kill_small")
    assert values["equal"] is False
    assert values["jobs_different"] == 4
    assert values["verdict"] == "different: 4 of 4 jobs"
    (job,) = values["first"]
    assert job["job"] == "w0!1"
    assert job["values"][0] == {"field": "start", "a": 9e-05, "b": 0.0}


def test_tolerance_and_hosts(cli, recorded):
    runs = (recorded / "batsched_kth_easy_bf_jobs.csv.gz",) * 2
    assert cli("diff", *runs, "--ignore-hosts", "--tolerance", "0").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing", "nothing"], "nothing: no such run"),
        (["a_jobs.csv", "a_jobs.csv", "--tolerance", "-1"], "--tolerance"),
        (["a_jobs.csv"], "Missing argument 'B'"),
    ],
)
def test_mistakes_are_one_clear_line(cli, recorded, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_jobs.csv").write_bytes((recorded / "kill_nonet_jobs.csv").read_bytes())
    result = cli("diff", *arguments)
    assert (result.exit_code, result.out) == (2, "")
    assert message in result.err
    assert len(result.err.splitlines()) == 1


def test_help_shows_examples(cli):
    assert "qops-batsim diff out/kth_easy out/kth_conservative" in cli("diff", "--help").out
