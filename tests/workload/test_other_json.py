"""JSON of other systems and other commands is named for what it is, by every reader of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError, read_run, read_swf, read_workload
from qops_batsim.queue import read_queue
from qops_batsim.traces import read_partitions, read_trace
from qops_batsim.workload.other_json import kind_of
from support.logs import read_log

FLUX = {"id": 1309646258176, "userid": 1000, "t_submit": 1782000000.1, "ntasks": 32, "ncores": 32}
SQUEUE = {
    "job_id": 7,
    "job_state": ["PENDING"],
    "cpus": 4,
    "time_limit": 60,
    "submit_time": 1_750_000_000,
}
SACCT = {
    "job_id": 7,
    "state": {"current": ["COMPLETED"]},
    "time": {"submission": 1_700_000_000, "start": 1_700_000_060, "end": 1_700_000_120},
    "required": {"CPUs": 4},
}
Cli = Callable[..., Any]

META = {"meta": {"slurm": {"version": {"major": "25"}}}}
LINE = {"JobID": "20", "State": "FAILED", "Submit": "2026-06-23T12:43:17"}

OTHERS: dict[str, tuple[Any, str]] = {
    "flux": ({"jobs": [FLUX]}, r"a job list of Flux \(`flux jobs --json`\)"),
    "one job of flux": (FLUX, "a job list of Flux"),
    "qstat": (
        {"timestamp": 1, "pbs_version": "22.05", "Jobs": {"1.pbs": {"Job_Name": "x"}}},
        r"a queue of PBS \(`qstat -F json`\)",
    ),
    "condor": (
        [{"ClusterId": 4, "ProcId": 0, "Owner": "kim"}],
        r"a list of 1 records \(ClusterId, ProcId, Owner\)",
    ),
    "lsf": ({"COMMAND": "bjobs", "JOBS": 1, "RECORDS": [{"JOBID": "7"}]}, "a job list of LSF"),
    "jobs of another system": (
        {"jobs": [{"name": "projects/x", "uid": "j", "taskGroups": []}]},
        r"a list of 1 records \(name, uid, taskGroups\)",
    ),
    "jobs with ids": ({"jobs": [{"id": 7, "user": "kim", "state": "R"}]}, "a list of 1 records"),
    "names of jobs": ({"jobs": ["a", "b"]}, "a list in JSON without records"),
    "jobs by id": ({"jobs": {"7": {"owner": "kim"}}}, r"a list of 1 records \(owner\)"),
    "oarstat": (
        {"11": {"Job_Id": 11, "owner": "kim"}},
        r"a list of 1 records \(Job_Id, owner\)",
    ),
    "pyslurm": ({"7": SQUEUE, "8": SQUEUE}, "a list out of a queue of Slurm"),
    "qstat without its head": ({"12[3].srv": {"Job_Owner": "kim"}}, "jobs of PBS"),
    "records": ([{"a": 1, "b": 2}] * 3, r"a list of 3 records \(a, b\)"),
    "numbers": ([1, 2], "a list in JSON without records"),
    "nodes": ({**META, "nodes": [{"name": "n1"}]}, "a list of nodes of Slurm .*--nodes"),
    "sinfo": ({**META, "sinfo": [{"cpus": {}}]}, "a list of nodes of Slurm"),
    "reservations": (
        {**META, "reservations": [{}]},
        "a list of reservations of Slurm .*--reservations",
    ),
    "partitions": ({**META, "partitions": [{}]}, "an answer of Slurm that tells no jobs"),
    "jobs of sacct": ([SACCT], "a list out of Slurm's accounting"),
}
JSON_LINES = "\n".join([json.dumps(LINE)] * 2), "a file of JSON lines"
PRETTY = "\n".join([json.dumps(LINE, indent=1)] * 2), "a file of JSON lines"
TEXTS = {name: (json.dumps(data), told) for name, (data, told) in OTHERS.items()}
TEXTS |= {"lines": JSON_LINES, "pretty lines": PRETTY}
TEXTS["two files"] = (
    "\n".join([json.dumps({**META, "jobs": [SQUEUE]})] * 2),
    r"several JSON values one after another, .* a queue of Slurm",
)

READERS: dict[str, Callable[[Path], object]] = {
    "a workload": read_workload,
    "a trace": read_trace,
    "partitions": read_partitions,
    "a log": read_log,
    "swf": read_swf,
    "a run": read_run,
    "a queue": lambda path: read_queue(
        path.read_bytes(), str(path), processors=8, now=1_750_000_010.0
    ),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("name", TEXTS)
def test_every_reader_names_it(name: str, reader: Callable[[Path], object], tmp_path: Path) -> None:
    text, told = TEXTS[name]
    path = tmp_path / "file.json"
    for begin in ("", "\ufeff", "\n  "):
        path.write_text(begin + text)
        with pytest.raises(InputError, match=f"file.json: is {told}") as caught:
            reader(path)
        assert " is expected" in str(caught.value)
        assert "nb_res" not in str(caught.value)


@pytest.mark.parametrize("name", TEXTS)
def test_commands_name_it_whatever_options_are_given(name: str, tmp_path: Path, cli: Cli) -> None:
    text, told = TEXTS[name]
    path = tmp_path / "file.json"
    path.write_text(text)
    for command in (["workload", "import", path], ["workload", "import", path, "--processors", 9]):
        result = cli(*command)
        assert result.exit_code == 2
        assert re.search(rf"file.json: is {told}", result.err)
        assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize(("jobs", "readers", "right"), [
    (SQUEUE, ("a workload", "a trace", "partitions", "a run"), "`queue starts` and `queue quote`"),
    (SACCT, ("a queue", "a run"), "`workload import`, `advise`"),
])  # fmt: skip
def test_slurm_given_to_the_wrong_command_names_the_right_one(
    jobs: dict[str, Any], readers: tuple[str, ...], right: str, tmp_path: Path
) -> None:
    path = tmp_path / "file.json"
    path.write_text(json.dumps({**META, "jobs": [jobs]}))
    for reader in readers:
        with pytest.raises(InputError, match=f"is .* of Slurm|is Slurm's accounting.*{right}"):
            READERS[reader](path)


def test_what_is_read_is_read(tmp_path: Path) -> None:
    """Of what a reader knows, it says itself what is wrong."""
    path = tmp_path / "file.json"
    path.write_text(json.dumps({**META, "jobs": [SACCT]}))
    assert read_trace(path).workload.jobs[0].processors == 4
    path.write_text(json.dumps({**META, "jobs": [SQUEUE]}))
    assert [job.id for job in READERS["a queue"](path).jobs] == ["7"]  # type: ignore[attr-defined]
    path.write_text(json.dumps({**META, "jobs": []}))
    assert READERS["a queue"](path).jobs == []  # type: ignore[attr-defined]
    path.write_text('{"jobs": [{"id": 1, "subtime": 0, "res": 1, "profile": "a"}]}')
    with pytest.raises(InputError, match="field 'nb_res' is missing"):
        read_workload(path)
    path.write_text('{"nb_res": 4, "jobs": [{"t_submit": 1}], "profiles": {}}')
    with pytest.raises(InputError, match="field 'id' is missing"):
        read_workload(path)
    path.write_text('{"some": 1, "thing": 2}')
    with pytest.raises(InputError, match="is JSON with the fields some, thing; a Batsim workload"):
        read_workload(path)
    with pytest.raises(InputError, match="is JSON with the fields some, thing; the output of `sq"):
        READERS["a queue"](path)
    path.write_text('{"jobs": [{"id": 1, "procesors": 4}], "processors": 8}')
    with pytest.raises(InputError, match="procesors is not known; did you mean .processors"):
        READERS["a queue"](path)
    assert kind_of("text") is kind_of({}) is kind_of([]) is kind_of({"type": {}}) is None
