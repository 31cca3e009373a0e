"""Jobs that Batsim takes otherwise than they are meant: told by warnings that name the field."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError, Job, read_workload, run
from qops_batsim.job_fields import FIELDS, misspelt
from qops_batsim.shipped import shipped_directory
from qops_batsim.workload import Workload, odd_fields

PROFILES = {"p": {"type": "delay", "delay": 3}}
USUAL = {"id": "1", "subtime": 0, "res": 1, "profile": "p", "walltime": 9}


def write(path: Path, *jobs: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": PROFILES}))
    return path


def without(name: str, **others: Any) -> dict[str, Any]:
    return {each: value for each, value in USUAL.items() if each != name} | others


@pytest.mark.parametrize(
    ("job", "told"),
    [
        (USUAL | {"subtime": -10}, "field 'subtime' is -10; a submission before date 0 counts as"),
        (USUAL | {"res": 0}, "field 'res' is 0; a job of no processor can never run"),
        (without("walltime", wallime=9), "field 'wallime' means nothing; did you mean 'walltime'?"),
        (without("walltime", wall_time=9), "field 'wall_time' means nothing; did you mean 'wallti"),
        (without("walltime", Walltime=9), "field 'Walltime' means nothing"),
        (USUAL | {"QOS": {"deadline": 9}}, "field 'QOS' means nothing; did you mean 'qos'?"),
        (
            USUAL | {"extra_dta": {"deadline": 9}},
            "'extra_dta' means nothing; did you mean 'extra_d",
        ),
        (USUAL | {"extra_data": {"dedline": 9}}, "extra_data: field 'dedline' means nothing"),
        (USUAL | {"extra_data": '{"dedline": 9}'}, "extra_data: field 'dedline' means nothing"),
    ],
)
def test_what_is_hardly_meant_is_told(job: dict[str, Any], told: str, tmp_path: Path) -> None:
    path = write(tmp_path / "w.json", USUAL | {"id": "0"}, job, job | {"id": "2"})
    with pytest.warns(RuntimeWarning) as warned:
        read_workload(path)
    (text,) = [str(each.message) for each in warned]
    assert text.startswith(f"{path}: job '1': ")
    assert told in text
    assert text.endswith(" (so in 2 jobs)")


@pytest.mark.parametrize(
    ("job", "told"),
    [
        (
            without("subtime", subtme=3),
            r"'subtime' is missing \(found 'subtme'; did you mean 'subt",
        ),
        (without("res", ress=3), r"field 'res' is missing \(found 'ress'; did you mean 'res'\?\)"),
        (without("profile", Profile="p"), r"'profile' is missing \(found 'Profile'; did you"),
        (without("id", number=3), "field 'id' is missing; a string or a whole number is expected"),
        (
            USUAL | {"qos": {"dedline": 9}},
            "field 'qos': unknown field 'dedline'; did you mean 'dea",
        ),
        (USUAL | {"res": -1}, "field 'res' is -1; a whole number of processors from 0"),
    ],
)
def test_what_is_missing_is_an_error(job: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=told):
        read_workload(write(tmp_path / "w.json", job))


def test_fields_of_ones_own_are_fine(tmp_path: Path) -> None:
    own = {"user": "a", "uid": 7, "gid": 8, "priority": 3, "reservation": "r", "label": "z"}
    own |= {"runtime": 5, "nb_res": 3, "res_type": "x", "extra_data": {"memory_mb": 5, "site": 1}}
    path = write(tmp_path / "w.json", USUAL | own, USUAL | {"id": "2", "wall": 3, "time": 4})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read_workload(path).jobs) == 2
        for each in shipped_directory("workloads").glob("*.json"):
            read_workload(each)


def test_a_field_beside_the_right_one_is_fine(tmp_path: Path) -> None:
    """Some write both names, for readers of two kinds."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_workload(write(tmp_path / "w.json", USUAL | {"wall_time": 9}))


def test_the_command_warns_in_a_line(tmp_path: Path, cli: Any) -> None:
    path = write(tmp_path / "w.json", without("walltime", wallime=9), USUAL | {"id": "2", "res": 0})
    called = cli("run", "fcfs", "-w", str(path), "--out", str(tmp_path / "r"), "--quiet")
    assert called.exit_code == 0
    lines = called.err.splitlines()
    assert [line.partition("job ")[2][:20] for line in lines] == [
        "'2': field 'res' is ",
        "'1': field 'wallime'",
    ]
    assert all(line.startswith("qops-batsim: warning: ") for line in lines)


def test_jobs_made_in_memory_are_told_by_run(tmp_path: Path) -> None:
    from qops_batsim.running.progress import ProgressListener

    class Told(ProgressListener):
        def __init__(self) -> None:
            self.texts: list[str] = []

        def warning(self, text: str) -> None:
            self.texts.append(text)

    jobs = [Job("1", -5.0, 1, "p", 9.0), Job("2", 0.0, 0, "p", 9.0)]
    told = Told()
    run("fcfs", Workload(jobs, PROFILES, 4), out=tmp_path / "r", progress=told)
    assert [text[:25] for text in told.texts] == [
        "job '1': field 'subtime' ",
        "job '2': field 'res' is 0",
    ]


def test_near_names() -> None:
    near = {"subtme": "subtime", "sub_time": "subtime", "substime": "subtime", "usbtime": "subtime"}
    near |= {"profil": "profile", "profiles": "profile", "ress": "res", "ID": "id"}
    assert {name: misspelt(name, FIELDS) for name in near} == near
    for name in ("user", "rest_of", "re", "uid", "ids", "runtime", "jobset", "time", "subtime"):
        assert misspelt(name, FIELDS) is None


def test_names_are_compared_once_for_all_jobs_that_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def counted(name: str, known: tuple[str, ...]) -> None:
        asked.append(name)

    monkeypatch.setattr(odd_fields, "misspelt", counted)
    jobs = [{**USUAL, "code_of_this_test": 7, "id": str(number)} for number in range(1000)]
    path = tmp_path / "w.json"
    assert len(read_workload(write(path, *jobs)).jobs) == 1000
    assert asked == [*jobs[0]]
