"""What jobs ask of their hosts: read with every mistake named, written back as read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, Job
from qops_batsim.job_fields import (
    AskedPart,
    HostsAsked,
    extra_data_of,
    read_hosts_asked,
    read_qos,
    written_hosts,
)

JOB = {"id": "7", "subtime": 0, "res": 2, "profile": "p"}


def read(**fields: Any) -> HostsAsked | None:
    return read_hosts_asked({**JOB, **fields}, "a.json: jobs[3]")


def part(**fields: Any) -> HostsAsked:
    return HostsAsked(parts=(AskedPart(**{"hosts": 2, **fields}),))


def test_amounts_are_whole_numbers_in_the_order_of_kinds() -> None:
    found = read(per_host={"disk": 3, "gpus": 0, "memory": 16e9, "cores": 8})
    assert found == part(amounts={"cores": 8, "memory": 16 * 10**9, "disk": 3})
    assert found is not None
    assert [*found.parts[0].amounts] == ["cores", "memory", "disk"]
    assert all(type(value) is int for value in found.parts[0].amounts.values())


@pytest.mark.parametrize(
    ("given", "gpus"),
    [
        ({"gpus:v100": 2}, 2),
        ({"gpus:v100": 2, "gpus:a100": 1}, 3),
        ({"gpus": 4, "gpus:v100": 2}, 4),
        ({"gpus": 0, "gpus:v100": 2}, 2),
        ({"gpus": 1, "gpus:v100": 2}, 2),
    ],
)
def test_gpus_of_a_type_are_gpus(given: dict[str, int], gpus: int) -> None:
    assert read(per_host=given) == part(amounts={**given, "gpus": gpus})


def test_whole_hosts_are_exclusive_and_amounts_are_not() -> None:
    assert read(hosts_with=["gpu", "big", "gpu"]) == part(labels=("gpu", "big"), exclusive=True)
    assert read(exclusive=True) == part(exclusive=True)
    assert read(exclusive=True, per_host={"cores": 1}) == part(amounts={"cores": 1}, exclusive=True)
    assert read(per_host={"cores": 1}) == part(amounts={"cores": 1})


def test_tasks_say_the_most_hosts() -> None:
    assert read(tasks=5, per_task={"cores": 4}) == part(tasks=5, amounts={"cores": 4})


def test_parts_and_licences() -> None:
    parts = [{"res": 1, "per_host": {"gpus": 1}}, {"res": 1, "hosts_with": ["big"]}]
    assert read(parts=parts, licences={"matlab": 2}) == HostsAsked(
        parts=(
            AskedPart(hosts=1, amounts={"gpus": 1}),
            AskedPart(hosts=1, labels=("big",), exclusive=True),
        ),
        licences={"matlab": 2},
    )


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"exclusive": False},
        {"hosts_with": []},
        {"per_host": None, "tasks": None, "parts": None},
        # Of an imported table: numbers of the whole job, in the units of the table.
        {"gpus": 4, "memory": 128.5, "cores": 8},
    ],
)
def test_nothing_is_asked_beyond_a_number(fields: dict[str, Any]) -> None:
    assert read(**fields) is None


AMOUNT = "a whole number from 0 to 1000000000000000 is expected"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"per_host": {"cores": -1}}, f"field 'per_host.cores' is -1; {AMOUNT}"),
        ({"per_host": {"cores": 1.5}}, f"field 'per_host.cores' is 1.5; {AMOUNT}"),
        ({"per_host": {"cores": True}}, f"field 'per_host.cores' is true; {AMOUNT}"),
        ({"per_host": {"disk": 2.0**60}}, "field 'per_host.disk' is 1.15"),
        ({"per_host": {"memory": "16GB"}}, "field 'per_host.memory' is '16GB'; a whole number of "),
        ({"per_host": {"cores": 0}}, "field 'per_host' is {\"cores\": 0}; at least one amount abo"),
        ({"per_host": {}}, "field 'per_host' is {}; at least one amount above 0 is expected"),
        ({"per_host": 5}, "field 'per_host' is 5; an object of whole numbers by name is expected"),
        ({"per_host": {"gpu": 1}}, "field 'per_host': unknown kind 'gpu'; did you mean 'gpus'?"),
        ({"per_host": {"GPUs:v100": 1}}, "unknown kind 'GPUs:v100'; did you mean 'gpus'?"),
        ({"per_host": {"a,b": 1}}, "field 'per_host' has 'a,b'; a name without commas and quotes"),
        ({"per_task": {"cores": 1}}, "field 'per_task' is"),
        ({"tasks": 4}, "field 'tasks' is 4; 'tasks' only together with 'per_task' is expected"),
        ({"tasks": 4, "per_host": {"cores": 1}}, "'tasks' only together with 'per_task' is expec"),
        (
            {"tasks": 4, "per_task": {"cores": 1}, "per_host": {"cores": 1}},
            "field 'per_host' is {\"cores\": 1}; nothing beside 'tasks', which ask by 'per_task'",
        ),
        ({"tasks": 1, "per_task": {"cores": 1}}, "field 'tasks' is 1; a whole number of tasks fro"),
        ({"tasks": 2.5, "per_task": {"cores": 1}}, "field 'tasks' is 2.5; a whole number of tasks"),
        ({"hosts_with": "gpu"}, "field 'hosts_with' is 'gpu'; a list of labels is expected"),
        ({"hosts_with": ["gpu", 3]}, "field 'hosts_with[1]' is 3; a label, a text without commas"),
        ({"hosts_with": ["a,b"]}, "field 'hosts_with[0]' is 'a,b'; a label, a text without"),
        ({"exclusive": 1}, "field 'exclusive' is 1; true or false is expected"),
        ({"licences": ["matlab"]}, "field 'licences' is [\"matlab\"]; an object of whole numbers"),
        ({"licences": {"matlab": -1}}, f"field 'licences.matlab' is -1; {AMOUNT}"),
        ({"parts": []}, "field 'parts' is []; a list of at least one object is expected"),
        ({"parts": [4]}, "field 'parts[0]' is 4; an object with res, per_host, hosts_with, exclus"),
        ({"parts": [{"res": 1}, {"res": 2}]}, "'res' is 2; the sum of those of the parts, 3, is "),
        ({"parts": [{"res": 2, "tasks": 3}]}, "field 'parts[0]': unknown field 'tasks'"),
        ({"parts": [{"res": 2, "per_hosts": {}}]}, "unknown field 'per_hosts'; did you mean 'per_"),
        ({"parts": [{"per_host": {"cores": 1}}]}, "'parts[0].res' is null; a whole number of host"),
        ({"parts": [{"res": 2, "per_host": {"cores": -1}}]}, "'parts[0].per_host.cores' is -1; a "),
        ({"parts": [{"res": 2}], "exclusive": True}, "field 'exclusive' is true; nothing beside "),
        ({"res": 0, "per_host": {"cores": 1}}, "field 'res' is 0; a whole number of hosts from 1"),
        ({"extra_data": {"per_host": {"cores": -1}}}, "field 'extra_data.per_host.cores' is -1"),
        ({"extra_data": '{"x": 1, "exclusive": 2}'}, "field 'extra_data.exclusive' is 2; true or"),
    ],
)
def test_a_mistake_names_place_job_field_value_and_what_is_accepted(
    fields: dict[str, Any], told: str
) -> None:
    for reads in (read, lambda **fields: Job.from_fields({**JOB, **fields}, where="a.json: jobs")):
        with pytest.raises(InputError) as caught:
            reads(**fields)
        assert str(caught.value).startswith("a.json: jobs")
        assert " (job '7'): " in str(caught.value)
        assert told in str(caught.value)


def test_the_request_of_a_user_has_no_fields_of_hosts() -> None:
    with pytest.raises(InputError, match="unknown field 'per_host'; per_host stands beside qos"):
        read_qos({**JOB, "qos": {"per_host": {"cores": 1}}}, "a.json")


def test_extra_data_holds_both() -> None:
    extra = {"deadline": 9.0, "per_host": {"cores": 1}}
    job = Job.from_fields({**JOB, "extra_data": extra}, where="a.json")
    assert job.qos is not None
    assert job.qos.deadline == 9
    assert job.hosts_asked == part(amounts={"cores": 1})

    # What is beside it and not ours does not hide it, but a request is ours as a whole only.
    job = Job.from_fields({**JOB, "extra_data": extra | {"colour": 1}}, where="a.json")
    assert job.qos is None
    assert job.hosts_asked == part(amounts={"cores": 1})


@pytest.mark.parametrize(
    ("fields", "extra"),
    [
        ({}, None),
        ({"extra_data": "a text"}, "a text"),
        ({"qos": {"deadline": 9}, "exclusive": True}, {"deadline": 9, "exclusive": True}),
        ({"exclusive": True, "extra_data": {"x": 1}}, {"x": 1, "exclusive": True}),
        ({"exclusive": True, "extra_data": "a text"}, {"exclusive": True}),
        ({"extra_data": {"x": 1, "exclusive": True}}, {"x": 1, "exclusive": True}),
        (
            {"qos": {"deadline": 9}, "extra_data": {"exclusive": True}},
            {"deadline": 9, "exclusive": True},
        ),
    ],
)
def test_extra_data_is_made_of_all_that_is_asked(fields: dict[str, Any], extra: Any) -> None:
    assert extra_data_of({**JOB, **fields}) == extra


KINDS = st.sampled_from(["cores", "memory", "gpus", "disk"])
AMOUNTS = st.dictionaries(KINDS, st.integers(1, 10**15), min_size=1)
LABELS = st.lists(st.sampled_from(["a", "b c", "é"]), unique=True).map(tuple)
PARTS = st.builds(
    AskedPart,
    hosts=st.integers(1, 9),
    amounts=AMOUNTS,
    labels=LABELS,
    exclusive=st.booleans(),
) | st.builds(AskedPart, hosts=st.integers(1, 9), labels=LABELS, exclusive=st.just(True))
TASKS = st.builds(
    AskedPart,
    hosts=st.integers(1, 9),
    tasks=st.integers(9, 20),
    amounts=AMOUNTS,
    labels=LABELS,
    exclusive=st.booleans(),
).map(lambda asked: (asked,))


@given(TASKS | st.lists(PARTS, min_size=1, max_size=3).map(tuple), st.just({}) | AMOUNTS)
def test_what_is_asked_is_written_as_it_is_read(
    parts: tuple[AskedPart, ...], licences: dict[str, int]
) -> None:
    asked = HostsAsked(parts=parts, licences=licences)
    hosts = sum(each.hosts for each in parts)
    fields = {**JOB, "res": hosts, **written_hosts(asked)}
    assert read_hosts_asked(fields, "here") == asked
    assert Job("7", 0.0, hosts, "p", hosts_asked=asked).fields == fields
