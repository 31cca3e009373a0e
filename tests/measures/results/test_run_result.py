from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from qops_batsim import InputError, read_run
from qops_batsim.measures import find_run
from qops_batsim.measures.results.run_result import load_run


def test_a_run_is_named_by_prefix_directory_or_jobs_file(write_run, mixed_run, tmp_path):
    prefix = write_run(mixed_run(), hosts=4, totals=True)
    by_prefix = find_run(prefix)
    assert by_prefix.name == "run"
    assert by_prefix == find_run(f"{prefix}_jobs.csv") == find_run(tmp_path)
    assert by_prefix.schedule == tmp_path / "run_schedule.csv"
    assert by_prefix.description == tmp_path / "run_run.json"


def test_a_run_is_named_by_whatever_has_a_path(write_run, mixed_run):
    prefix = write_run(mixed_run(), hosts=4)

    class Written:
        def __fspath__(self) -> str:
            return str(prefix)

    result = load_run(Written())
    assert result.source == f"{prefix}_jobs.csv"
    assert load_run(result) is result
    assert repr(result) == "<RunResult run: 6 jobs on 4 hosts>"


def test_an_existing_prefix_wins_over_a_directory_of_its_name(write_run, mixed_run, tmp_path):
    prefix = write_run(mixed_run())
    prefix.mkdir()
    assert find_run(prefix).jobs == tmp_path / "run_jobs.csv"


def test_values_are_typed_and_ids_are_qualified_text(write_run, mixed_run):
    result = read_run(write_run(mixed_run(), hosts=4))
    assert list(result.jobs["id"]) == ["w0!1", "w0!2", "w0!3", "w0!4", "w0!5", "w0!6"]
    assert result.jobs["job_id"].iloc[0] == "1"
    assert result.executed.tolist() == [True, True, True, False, True, True]
    assert np.isnan(result.column("starting_time")[3])
    assert result.allocation_sizes.tolist() == [2, 2, 4, 0, 1, 3]
    rows, hosts = result.occupations
    assert hosts[rows == 5].tolist() == [0, 2, 3]


def test_a_compressed_jobs_file_works_alone_and_its_hosts_are_assumed(write_run, mixed_run):
    prefix = write_run(mixed_run())
    plain = Path(f"{prefix}_jobs.csv")
    packed = Path(f"{prefix}_jobs.csv.gz")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    for result in (read_run(prefix), read_run(packed)):
        assert (result.name, result.hosts, result.hosts_are_assumed) == ("run", 4, True)
    assert not read_run(prefix, hosts=9).hosts_are_assumed


def test_number_of_hosts_from_option_then_info_then_schedule(write_run, mixed_run, tmp_path):
    prefix = write_run(mixed_run(), hosts=6, totals=True)
    assert read_run(prefix, hosts=9).hosts == 9
    assert (read_run(prefix).hosts, read_run(prefix).hosts_source) == (6, "_run.json")
    (tmp_path / "run_run.json").unlink()
    assert (read_run(prefix).hosts, read_run(prefix).hosts_source) == (6, "_schedule.csv")


def test_a_run_without_jobs_can_be_read(write_run):
    result = read_run(write_run([]))
    assert len(result.jobs) == 0
    assert result.occupations[0].tolist() == []


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("starting_time", "soon", r"row 3 \(job '3'\): starting_time is 'soon'; a number"),
        ("starting_time", "", r"starting_time is ''; a number"),
        ("waiting_time", "nan", r"waiting_time is 'nan'; a number"),
        ("final_state", "DONE", r"final_state is 'DONE'; one of COMPLETED_SUCCESSFULLY"),
        ("success", "2", r"success is '2'; 0 or 1"),
        ("requested_number_of_resources", "1.5", r"is '1.5'; a whole number from 0 up"),
        ("job_id", "", r"job_id is ''; an identifier"),
    ],
)
def test_a_wrong_value_is_named(write_run, mixed_run, column, value, expected):
    jobs = mixed_run()
    jobs[2].edits[column] = value
    with pytest.raises(InputError, match=expected):
        read_run(write_run(jobs))


def test_a_wrong_allocation_is_named_when_used(write_run, mixed_run):
    jobs = mixed_run()
    jobs[2].edits["allocated_resources"] = "0-x"
    result = read_run(write_run(jobs), hosts=4)
    with pytest.raises(InputError, match=r"row 3 \(job 'w0!3'\): allocated_resources: .*'0-x'"):
        _ = result.allocations


def test_a_stretch_over_no_run_time_is_accepted(write_run, mixed_run):
    jobs = mixed_run()
    jobs[4].edits["stretch"] = "-nan"
    assert np.isnan(read_run(write_run(jobs)).column("stretch")[4])


def test_unusable_files_are_refused(write_run, mixed_run, tmp_path):
    prefix = write_run(mixed_run(), hosts=4, totals=True)
    jobs = tmp_path / "run_jobs.csv"
    text = jobs.read_text()

    def refused(content: str, expected: str, path: Path = jobs) -> None:
        kept = path.read_text()
        path.write_text(content)
        with pytest.raises(InputError, match=expected):
            read_run(prefix)
        path.write_text(kept)

    refused("", r"run_jobs.csv: empty \(did the simulation abort\?\)")
    refused(text.replace("stretch,", "stretched,"), "column stretch missing")
    refused("a,b\n1,2\n", r"columns job_id, .* missing \(found: a, b\); a _jobs.csv of Batsim")
    refused(text.replace('-1.000000,""', '-1.000000,"",7', 1), "run_jobs.csv: not a table")
    refused(text + "1,2\n", "row 7 .*is ''")
    schedule = tmp_path / "run_schedule.csv"
    refused("nb_jobs\n1\n", "columns nb_jobs_finished, .* missing", schedule)
    refused(
        schedule.read_text() + "x\n", "2 rows; one row is expected in a _schedule.csv", schedule
    )
    refused(
        "time,nb_idle,nb_computing\n0,a,1\n", "nb_idle is 'a'", tmp_path / "run_machine_states.csv"
    )
    refused('{"hosts": "many"}', "run_run.json: .*hosts", tmp_path / "run_run.json")
    refused('{"hosts": 0}', "hosts is 0", tmp_path / "run_run.json")


def test_a_name_that_is_no_run_is_refused(write_run, mixed_run, tmp_path):
    with pytest.raises(InputError, match=r"nothing: no such run; .*nothing_jobs.csv"):
        read_run(tmp_path / "nothing")
    with pytest.raises(InputError, match="this directory holds no run"):
        read_run(tmp_path)
    write_run(mixed_run(), name="a")
    write_run(mixed_run(), name="b", hosts=4, totals=True)
    with pytest.raises(InputError, match=r"holds 2 runs \(a_jobs.csv, b_jobs.csv\); name one"):
        read_run(tmp_path)
    with pytest.raises(InputError, match=r"b_schedule.csv: not the _jobs.csv of a run"):
        read_run(tmp_path / "b_schedule.csv")
    (tmp_path / "a_jobs.csv.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(InputError, match=r"exists also as a_jobs.csv.gz"):
        read_run(tmp_path / "a")
    with pytest.raises(InputError, match="number of hosts is 0"):
        read_run(tmp_path / "b", hosts=0)


def test_every_recorded_session_can_be_read(shared):
    recorded = shared / "batsim" / "recorded"
    for case in json.loads((shared / "batsim" / "cases.json").read_text()):
        if case["ended"]:
            result = read_run(recorded / case["name"])
            assert result.hosts == case["hosts"]
