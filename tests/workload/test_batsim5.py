"""Workload files of Batsim 5: read wherever a workload is, written with what is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError, read_workload
from qops_batsim.workload import parse_workload
from qops_batsim.workload.batsim5 import as_batsim4, format_batsim5

PROFILES: dict[str, Any] = {
    "d": {"type": "DelayProfile", "delay": 3, "ret": 2},
    "p": {"type": "ParallelTaskProfile", "cpu": [1, 2]},
    "c": {"type": "ParallelTaskProfile", "com": [0, 1, 1, 0]},
    "h": {"type": "ParallelTaskHomogeneousProfile", "cpu": 1e9, "com": 0},
    "t": {
        "type": "ParallelTaskHomogeneousProfile",
        "cpu": 1e9,
        "com": 0,
        "generation_strategy": "DefinedAmountsSpreadUniformly",
    },
    "s": {"type": "SequentialCompositionProfile", "seq": ["d", "h"], "repeat": 2},
    "u": {
        "type": "TraceReplayProfile",
        "trace_type": "FractionalComputation",
        "filename": "u.txt",
    },
}


def text_of(**fields: Any) -> str:
    job = {"id": 1, "subtime": 0, "res": 2, "profile": "h", **fields}
    return json.dumps({"nb_res": 4, "jobs": [job], "profiles": PROFILES})


def test_profiles_are_read_in_our_words() -> None:
    read = parse_workload(text_of(), source="w.json").profiles
    assert read["d"] == {"type": "delay", "delay": 3, "ret": 2}
    assert read["p"] == {"type": "parallel", "cpu": [1, 2], "com": []}
    assert read["c"] == {"type": "parallel", "cpu": [0, 0], "com": [0, 1, 1, 0]}
    assert read["t"] == {"type": "parallel_homogeneous_total", "cpu": 1e9, "com": 0}
    assert read["s"] == {"type": "composed", "seq": ["d", "h"], "repeat": 2}
    assert read["u"] == {"type": "usage_trace", "trace": "u.txt"}


def test_what_is_wrong_is_told_as_for_batsim_4() -> None:
    broken = text_of().replace('"delay": 3', '"delay": 0')
    with pytest.raises(InputError, match=r"w.json: profile 'd': delay is 0"):
        parse_workload(broken, source="w.json")


@pytest.mark.parametrize(
    "extra", [{"deadline": 50.5}, '{"deadline": 50.5}'], ids=["object", "text"]
)
def test_requests_are_in_extra_data(extra: Any) -> None:
    workload = parse_workload(text_of(extra_data=extra), source="w.json")
    assert workload.jobs[0].qos is not None
    assert workload.jobs[0].qos.deadline == 50.5


def test_other_extra_data_is_no_request() -> None:
    for extra in ("{", "text", {"colour": 1}):
        assert parse_workload(text_of(extra_data=extra), source="w.json").jobs[0].qos is None


def test_a_workload_is_written_for_batsim_5() -> None:
    workload = read_workload("sdsc_sp2_deadlines_500")
    text, losses = format_batsim5(workload)
    assert losses == []
    again = parse_workload(text, source="again.json")
    assert again.profiles == workload.profiles
    assert [job.qos for job in again.jobs] == [job.qos for job in workload.jobs]
    assert [job.walltime for job in again.jobs] == [job.walltime for job in workload.jobs]


def test_losses_are_told() -> None:
    profiles = {
        "t": {"type": "parallel_homogeneous_total", "cpu": 1, "com": 5},
        "z": {"type": "parallel_homogeneous", "cpu": 0, "com": 0},
    }
    job = {"id": "1", "subtime": 0, "res": 2, "profile": "t", "walltime": -1, "user": "eva"}
    text = json.dumps({"nb_res": 4, "jobs": [job], "profiles": profiles})
    written, losses = format_batsim5(parse_workload(text, source="w.json"))
    assert losses == [
        "1 jobs have user, which Batsim 5 does not hand on",
        "profile 't': com is spread as com/(n²-n) over each two of n hosts, which was com/n: "
        "communication takes another time",
        "1 homogeneous tasks with cpu 0 and com 0, which Batsim 5 aborts on: 'z'",
    ]
    assert json.loads(written)["jobs"] == [{"id": "1", "subtime": 0.0, "res": 2, "profile": "t"}]


def test_what_aborts_batsim_5_is_told(tmp_path: Path, cli: Callable[..., Any]) -> None:
    profiles = {"z": {"type": "parallel_homogeneous", "cpu": 0, "com": 0}}
    job = {"id": "w0x", "subtime": 0, "res": 2, "profile": "z"}
    path = tmp_path / "w.json"
    path.write_text(json.dumps({"nb_res": 4, "jobs": [job], "profiles": profiles}))
    result = cli("workload", "import", path, "--strict")
    assert result.exit_code == 1
    assert result.out == f"{path}: 1 jobs, 1 profiles, 4 processors\n"
    said = " ".join(result.err.split())
    assert "1 homogeneous tasks with cpu 0 and com 0, which Batsim 5 aborts on: 'z'" in said
    assert "1 jobs with the workload's name, w0, in their id, which Batsim 5 aborts on" in said


@pytest.mark.parametrize("kind", ["4", "5"])
def test_files_are_converted_either_way(tmp_path: Path, kind: str, cli: Callable[..., Any]) -> None:
    source, out = tmp_path / "w.json", tmp_path / "out.json"
    source.write_text(text_of(extra_data={"deadline": 50.5}, walltime=20))
    told = cli("workload", "import", source, out, "--as", kind).out
    assert ("DelayProfile" in out.read_text()) == (kind == "5")
    field = "extra_data" if kind == "5" else "qos"
    assert json.loads(out.read_text())["jobs"][0][field] == {"deadline": 50.5}
    assert read_workload(out).profiles == read_workload(source).profiles
    assert read_workload(out).jobs[0].qos == read_workload(source).jobs[0].qos
    assert "out.json: 1 jobs" in told


def test_profiles_without_counterpart_are_refused() -> None:
    text = json.dumps(
        {
            "nb_res": 1,
            "jobs": [{"id": "1", "subtime": 0, "res": 1, "profile": "a"}],
            "profiles": {"a": {"type": "send", "msg": ""}},
        }
    )
    with pytest.raises(InputError, match="type is 'send', for which Batsim 5 has no type"):
        format_batsim5(parse_workload(text, source="w.json"))


def test_unused_profiles_can_be_left_out_and_traces_found_again(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text(text_of(profile="s"))
    workload = read_workload(tmp_path / "w.json")
    text, _ = format_batsim5(workload, only_used=True)
    assert list(json.loads(text)["profiles"]) == ["d", "h", "s"]
    text, _ = format_batsim5(workload, directory=tmp_path / "deeper")
    assert json.loads(text)["profiles"]["u"]["filename"] == "../u.txt"


def test_what_is_no_profile_of_batsim_5_stays() -> None:
    assert as_batsim4({"a": 3, "b": {"type": "ForkJoinCompositionProfile"}}) == {
        "a": 3,
        "b": {"type": "ForkJoinCompositionProfile"},
    }


def test_a_trace_of_an_unknown_type_is_told_in_one_line() -> None:
    broken = text_of(profile="u").replace("FractionalComputation", "Paraver")
    with pytest.raises(InputError, match=r"w.json: profile 'u'"):
        parse_workload(broken, source="w.json")
