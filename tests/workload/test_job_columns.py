"""Scanned jobs against jobs that are made one by one: the same workload, or an error."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qops_batsim import InputError, Job
from qops_batsim.shipped import find_input
from qops_batsim.workload import Workload, batsim_json, format_workload, parse_workload
from qops_batsim.workload.batsim_json import read_workload_file
from qops_batsim.workload.job_columns import are_ascending
from qops_batsim.workload.other_json import refuse_other_json
from qops_batsim.workload.workload_model import JobColumns, JobTable

DELAY = {"type": "delay", "delay": 10}
JOB = {"id": "1", "subtime": 0, "res": 2, "profile": "d"}
GOOD = {"nb_res": 4, "jobs": [JOB], "profiles": {"d": DELAY}}
FULL = {
    "nb_res": 100,
    "qops_batsim": {"jobs": [1, {"id": 3}], "note": "a \n b"},
    "jobs": [
        {"id": 1, "subtime": 0, "res": 56, "walltime": 210000, "profile": "d", "user": 1},
        {"res": 1, "profile": "e", "id": "x", "subtime": 1.5, "walltime": -1, "queue": "q"},
        {"id": "2", "subtime": -3, "res": 0, "profile": "d", "walltime": 0.5, "group": 2.5},
        {
            "id": "3",
            "subtime": 7,
            "res": 3,
            "profile": "é d",
            "qos": {"deadline": 90, "estimated_runtime": 5, "political_priority": None},
        },
        {"id": "4", "subtime": 7, "res": 3, "profile": "d", "walltime": 9, "qos": {}},
    ],
    "profiles": {"e": {"delay": 0.1, "type": "delay"}, "d": DELAY, "é d": DELAY},
}


def same(one: Workload, other: Workload) -> None:
    """Check that two workloads hold the same, to the type of every number."""
    assert [repr(job) for job in one.jobs] == [repr(job) for job in other.jobs]
    assert [repr(job.qos) for job in one.jobs] == [repr(job.qos) for job in other.jobs]
    assert [job.hosts_asked for job in one.jobs] == [job.hosts_asked for job in other.jobs]
    assert [job.estimate for job in one.jobs] == [job.estimate for job in other.jobs]
    assert format_workload(one) == format_workload(other)
    assert (one.processors, one.provenance) == (other.processors, other.provenance)
    expected = JobColumns.of(other.jobs, list(other.profiles))
    for found, wanted in zip(one.columns, expected, strict=True):
        if isinstance(wanted, np.ndarray):
            assert found.dtype == wanted.dtype
            assert found.tolist() == wanted.tolist()
        else:
            assert found == wanted


def plain(text: str) -> Workload:
    """Return a workload of which each job was made by itself, or raise what is wrong with it."""
    try:
        batsim_json._each_object(text.encode(), "w.json")
    except InputError:
        # What is something else is named for what it is.
        refuse_other_json(text.encode(), "w.json", batsim_json._WHAT, ("batsim",))
        raise
    data = json.loads(text)
    jobs = [Job.from_fields(fields, where="here") for fields in data["jobs"]]
    told = data.get("qops_batsim", {})
    return Workload(jobs, data["profiles"], data["nb_res"], told, "w.json")


def check(text: str) -> None:
    """Check that a text is read, or refused, as job by job."""
    problem, expected = "", None
    try:
        expected = plain(text)
    except InputError as error:
        problem = str(error)
    if expected is not None:
        same(parse_workload(text, source="w.json"), expected)
        return
    with pytest.raises(InputError) as caught:
        parse_workload(text, source="w.json")
    assert str(caught.value) == problem


@pytest.fixture
def no_second_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object) -> None:
        raise AssertionError("a second pass")

    monkeypatch.setattr(batsim_json, "_each_object", fail)


@pytest.mark.parametrize("data", [GOOD, FULL, GOOD | {"jobs": []}, {**GOOD, "jobs": [JOB] * 1}])
@pytest.mark.parametrize("indent", [None, 2])
def test_usual_workloads_are_read(data: Any, indent: int | None) -> None:
    check(json.dumps(data, indent=indent, ensure_ascii=False))


@pytest.mark.parametrize("data", [GOOD, FULL])
@pytest.mark.usefixtures("no_second_pass")
def test_usual_workloads_are_read_at_once(data: Any) -> None:
    # What is null is not counted, and letters are those of ASCII.
    text = json.dumps(data).replace(', "political_priority": null', "").replace("\\u00e9", "e")
    assert len(parse_workload(text, source="w.json").jobs) == len(data["jobs"])


@pytest.mark.parametrize("name", ["tiny_8", "kth_sp2_1000"])
@pytest.mark.usefixtures("no_second_pass")
def test_shipped_workloads_are_read_at_once(name: str) -> None:
    path = find_input(name, "workloads")
    found = read_workload_file(path)
    assert isinstance(found.jobs, JobTable)
    assert format_workload(found) == path.read_text()


NUMBERS = st.sampled_from(
    [0, 1, -1, 2, 3.0, 0.5, -0.5, 1e12, 1.1e12, 1e300, 10**9, 10**9 + 1, 2**63, 2**64, 10**400]
)
ODD = st.none() | st.booleans() | NUMBERS | st.sampled_from(["", "1", "d", "a,b", "a!b", "q:1"])
FIELDS = st.fixed_dictionaries(
    {
        "id": st.integers(1, 4) | st.integers(1, 4).map(str),
        "subtime": st.integers(0, 9),
        "res": st.integers(0, 4),
        "profile": st.sampled_from(["d", "e"]),
    },
    optional={
        "walltime": st.sampled_from([5, 2.5, -1]),
        "qos": st.fixed_dictionaries(
            {},
            optional={
                "deadline": st.floats(0, 100),
                "class": st.sampled_from(["deadline", "best_effort", "none"]),
                "estimated_runtime": st.integers(0, 4),
                "political_priority": st.sampled_from([None, 0, 0.5, 2]),
                "has_user_deadline": st.sampled_from([True, False, 1]),
                "other": st.just(1),
            },
        ),
        "user": st.integers(0, 3),
        "queue": st.sampled_from([1, "q", "user"]),
        "extra_data": st.sampled_from([{"deadline": 5}, {"per_host": {"cores": 3}, "memory": 2}]),
        "per_host": st.dictionaries(st.sampled_from(["cores", "gpus:v", "gpu"]), NUMBERS),
        "exclusive": st.booleans(),
        "hosts_with": st.lists(st.sampled_from(["a:b", "c", '"', ","])),
    },
)


def test_a_wrong_value_next_to_extra_data_is_shown_as_written() -> None:
    # The columns hold numbers as floats: it was shown as 9.223372036854776e+18.
    jobs = [JOB | {"subtime": 2**63, "extra_data": {"deadline": 5}}]
    check(json.dumps(GOOD | {"jobs": jobs, "profiles": {"d": DELAY}}))


@given(st.lists(FIELDS, max_size=4), st.data())
def test_jobs_are_those_made_one_by_one(jobs: list[dict[str, Any]], data: Any) -> None:
    if jobs and data.draw(st.booleans()):
        fields = data.draw(st.sampled_from(jobs))
        fields[data.draw(st.sampled_from(sorted(fields)))] = data.draw(ODD)
    check(json.dumps(GOOD | {"jobs": jobs, "profiles": {"d": DELAY, "e": DELAY}}))


@given(st.sampled_from(["type", "delay", "ret"]), ODD | st.just("composed"))
def test_odd_profiles_are_read_or_refused(field: str, value: Any) -> None:
    check(json.dumps(GOOD | {"profiles": {"d": DELAY, "e": DELAY | {field: value}}}))


PIECES = ['"id": ', '"1"', '"jobs": []', '"res": 3, ', ",", "{", "}", "]", "0", "\\u0041", ":", " "]


@given(st.integers(0, 200), st.integers(0, 5), st.sampled_from(PIECES))
@example(len('{"nb_res": 4, '), 0, '"nb_res": 5, ')
@example(len('{"nb_res": 4, '), 0, '"jobs": [], ')
@example(len('{"nb_res": 4, "jobs": [{'), 0, '"res": 2, ')
@example(len('{"nb_res": 4, "jobs": [{'), 0, '"res" : 2, ')
def test_changed_texts_are_read_or_refused(place: int, dropped: int, piece: str) -> None:
    text = json.dumps(GOOD)
    check(text[:place] + piece + text[place + dropped :])


@pytest.mark.parametrize(
    ("once", "twice"),
    [
        ('"res": 2', '"res": 2, "res": 2'),
        ('"d": {', '"d": {"type": "delay", "delay": 10}, "d": {'),
        ('"delay": 10', '"delay": 10, "delay": 10'),
        ('"nb_res": 4', '"nb_res": 4, "nb_res": 4'),
        ('"qos": {}', '"qos": {"deadline": 1, "deadline": 1}'),
        ('"qos": {}', '"qos": {}, "qos": {}'),
        ('"qos": {}', '"per_host": {"gpus:v": 1, "gpus:v": 1}'),
        ('"qos": {}', '"per_host": {"gpus\\u003av": 1, "gpus\\u003av": 1}'),
        ('"qos": {}', '"exclusive": true, "exclusive": true'),
        ("{}", '{"a": 1, "a": 1}'),
    ],
)
def test_what_is_given_twice_is_refused(once: str, twice: str) -> None:
    data = {"qops_batsim": {}, **GOOD, "jobs": [JOB | {"qos": {}}]}
    text = json.dumps(data)
    assert once in text
    check(text)
    changed = text.replace(once, twice, 1)
    with pytest.raises(InputError, match="given twice"):
        parse_workload(changed, source="w.json")


def test_numbers_of_a_field_are_forwarded_as_written() -> None:
    table = parse(FULL).jobs
    assert [type(job.fields["subtime"]) for job in table[:3]] == [int, float, int]
    assert table[0].fields == FULL["jobs"][0]
    assert list(table[1].fields) == ["res", "profile", "id", "subtime", "walltime", "queue"]
    assert table[0].renamed("w0!1").fields == FULL["jobs"][0] | {"id": "w0!1"}


def test_a_table_of_jobs_is_a_sequence() -> None:
    table = parse(FULL).jobs
    assert len(table) == 5
    assert table[1] is table[1]
    assert table[-1].id == "4"
    assert [job.id for job in table[1:3]] == ["x", "2"]
    assert table == list(table)
    assert [Job.from_fields(fields, where="here") for fields in FULL["jobs"]] == table
    assert table != list(table)[1:]
    assert table[0] in table
    assert repr(table) == repr(list(table))


def test_a_workload_that_was_read_can_be_sent_elsewhere() -> None:
    workload = parse(FULL)
    assert workload.jobs[0].fields["id"] == 1
    again = pickle.loads(pickle.dumps(workload))
    same(again, workload)


def test_other_jobs_have_other_columns() -> None:
    workload = parse(FULL)
    assert workload.columns is workload.columns
    workload.jobs = [Job("new", 3.0, 1, "d"), Job("other", 4.0, 1, "unknown")]
    assert workload.columns.ids == ["new", "other"]
    assert workload.columns.walltimes.tolist() == [math.inf] * 2
    assert workload.columns.profile_names == ["e", "d", "é d", "unknown"]


def parse(data: Any) -> Workload:
    return parse_workload(json.dumps(data, ensure_ascii=False), source="w.json")


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(GOOD), encoding="utf-8-sig")
    assert isinstance(read_workload_file(path).jobs, JobTable)
    path.write_text(json.dumps(GOOD | {"more": 1}), encoding="utf-8-sig")
    assert isinstance(read_workload_file(path).jobs, JobTable)


def test_delays_are_those_of_delay_profiles() -> None:
    cpu = {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0, "delay": 7}
    jobs = [{**JOB, "id": name, "profile": name} for name in "dcd2"]
    jobs[2]["id"] = "again"
    profiles = {"2": {"type": "delay", "delay": 2.5}, "c": cpu, "d": DELAY}
    made = parse_workload(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}), source="x")
    assert str(made.delays.tolist()) == "[10.0, nan, 10.0, 2.5]"
    assert Workload(jobs=[], profiles={}, processors=1).delays.tolist() == []


@given(st.lists(st.text("0179a", max_size=3)))
def test_ascending_numbers_are_different_names(ids: list[str]) -> None:
    numbers = [int(each) for each in ids if each.isdigit()]
    is_said = are_ascending(ids)
    assert is_said == (len(numbers) == len(ids) and numbers == sorted(set(numbers)))
    assert not is_said or len(set(ids)) == len(ids)
