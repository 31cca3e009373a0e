import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, Job, QosRequest
from qops_batsim.jobs import QOS_CLASSES
from qops_batsim.limits import MAX_PROCESSORS, MAX_SECONDS

PLAIN = {"id": "7", "subtime": 10, "res": 4, "profile": "p"}


def read(**changes: Any) -> Job:
    return Job.from_fields(PLAIN | changes, where="w.json: jobs[3]")


def refusal(fields: dict[str, Any]) -> str:
    """Return the one line with which the fields are refused, without the place."""
    with pytest.raises(InputError) as caught:
        Job.from_fields(fields, where="w.json: jobs[3]")
    message = str(caught.value)
    assert message.startswith("w.json: jobs[3]")
    assert "\n" not in message
    assert len(message) < 300
    return message


def test_the_fields_of_a_job() -> None:
    job = read(walltime=100, qos={"deadline": 500}, note="kept")
    assert (job.id, job.submission_time, job.processors, job.profile) == ("7", 10.0, 4, "p")
    assert job.walltime == 100.0
    assert job.qos == QosRequest(deadline=500.0)
    assert job.fields["note"] == "kept"
    assert isinstance(job.submission_time, float)
    assert isinstance(job.walltime, float)


def test_whole_numbers_are_ids_and_stay_numbers_in_the_fields() -> None:
    job = read(id=15)
    assert job.id == "15"
    assert job.fields["id"] == 15


@pytest.mark.parametrize("name", ["id", "subtime", "res", "profile"])
def test_a_missing_field_is_named(name: str) -> None:
    fields = {key: value for key, value in PLAIN.items() if key != name}
    assert f"field '{name}' is missing; " in refusal(fields)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("id", None, "null"),
        ("id", True, "true"),
        ("id", 1.5, "1.5"),
        ("id", "", "''"),
        ("id", ["7"], '["7"]'),
        ("id", 10**400, "1000000"),
        ("subtime", None, "null"),
        ("subtime", False, "false"),
        ("subtime", "10", "'10'"),
        ("subtime", math.nan, "NaN"),
        ("subtime", -math.inf, "-Infinity"),
        ("subtime", 10**400, "1000000"),
        pytest.param("subtime", 10**5000, "a value of type int", id="subtime-huge"),
        ("subtime", 1.1e12, "1100000000000.0"),
        ("res", None, "null"),
        ("res", True, "true"),
        ("res", 4.0, "4.0"),
        ("res", "4", "'4'"),
        ("res", -1, "-1"),
        ("res", math.inf, "Infinity"),
        ("res", MAX_PROCESSORS + 1, "1000001"),
        ("res", 10**400, "1000000"),
        ("profile", None, "null"),
        ("profile", 3, "3"),
        ("profile", True, "true"),
        ("walltime", True, "true"),
        ("walltime", "100", "'100'"),
        ("walltime", 0, "0"),
        ("walltime", -2, "-2"),
        ("walltime", math.nan, "NaN"),
        ("walltime", math.inf, "Infinity"),
        ("walltime", 10**400, "1000000"),
        ("qos", [], "[]"),
        ("qos", "deadline", "'deadline'"),
        ("qos", 5, "5"),
    ],
)
def test_a_wrong_value_is_named_and_shown(name: str, value: object, shown: str) -> None:
    message = refusal(PLAIN | {name: value})
    assert f"field '{name}' is {shown}" in message
    assert message.endswith(" is expected")


@pytest.mark.parametrize("walltime", [-1, -1.0, None])
def test_minus_one_and_null_are_no_walltime(walltime: float | None) -> None:
    assert read(walltime=walltime).walltime is None
    assert read().walltime is None


def test_the_largest_values_are_accepted() -> None:
    job = read(subtime=-MAX_SECONDS, res=MAX_PROCESSORS, walltime=MAX_SECONDS)
    assert job.estimate == MAX_SECONDS
    assert read(res=0).processors == 0


@pytest.mark.parametrize(
    ("changes", "estimate"),
    [
        ({}, math.inf),
        ({"walltime": -1}, math.inf),
        ({"walltime": 100}, 100.0),
        ({"walltime": 100, "qos": {"deadline": 500}}, 100.0),
        ({"walltime": 100, "qos": {"estimated_runtime": 30}}, 30.0),
        ({"walltime": 100, "qos": {"estimated_runtime": 300}}, 300.0),
        ({"qos": {"estimated_runtime": 30}}, 30.0),
        ({"qos": {}}, math.inf),
    ],
)
def test_the_estimate_is_the_users_else_the_walltime(
    changes: dict[str, Any], estimate: float
) -> None:
    assert read(**changes).estimate == estimate


def test_every_field_of_a_request() -> None:
    qos = {
        "deadline": 500,
        "estimated_runtime": 30,
        "class": "dedicated",
        "has_user_deadline": True,
        "tolerance_factor": 1.5,
        "user_priority": 0.25,
        "political_priority": 1,
        "category": "short",
        "memory": 1e9,
        "origin": "site-a",
        "queue": "express",
        "application": "climate-12",
    }
    request = read(qos=qos).qos
    assert request is not None
    assert request.service_class == "dedicated"
    assert request.political_priority == 1.0
    assert msgspec.to_builtins(request) == qos


def test_queue_and_application_are_as_written() -> None:
    request = read(qos={"queue": "short jobs", "application": "3"}).qos
    assert request == QosRequest(queue="short jobs", application="3")
    assert Job("1", 0.0, 1, "p", qos=request).fields["qos"] == {
        "queue": "short jobs",
        "application": "3",
    }


def test_no_request_and_an_empty_one() -> None:
    assert read().qos is None
    assert read(qos=None).qos is None
    assert read(qos={}).qos == QosRequest()


def test_over_quota_is_not_the_same_as_no_political_priority() -> None:
    absent, over_quota = read(qos={"deadline": 1}).qos, read(qos={"political_priority": None}).qos
    assert absent is not None
    assert over_quota is not None
    assert absent.political_priority is msgspec.UNSET
    assert over_quota.political_priority is None
    assert "political_priority" not in Job("1", 0.0, 1, "p", qos=absent).fields["qos"]
    assert Job("1", 0.0, 1, "p", qos=over_quota).fields["qos"] == {"political_priority": None}


@pytest.mark.parametrize(
    ("qos", "problem"),
    [
        ({"deadlne": 5}, "unknown field 'deadlne'; did you mean 'deadline'?"),
        ({"a\nb": 5}, r"unknown field 'a\nb'"),
        ({"service_class": "deadline"}, "unknown field 'service_class'"),
        ({"deadline": "5"}, "deadline is '5'; a number"),
        ({"deadline": True}, "deadline is true; a number"),
        ({"deadline": math.nan}, "deadline is nan; a date up to 1e+12 s"),
        ({"deadline": math.inf}, "deadline is inf; a date up to 1e+12 s"),
        ({"deadline": 10**400}, "deadline is 10000"),
        ({"estimated_runtime": 0}, "estimated_runtime is 0.0; a number of seconds above 0"),
        ({"estimated_runtime": -5}, "estimated_runtime is -5.0;"),
        ({"estimated_runtime": math.inf}, "estimated_runtime is inf;"),
        ({"estimated_runtime": math.nan}, "estimated_runtime is nan;"),
        ({"class": "gold"}, "class is 'gold'; one of deadline, high_priority, dedicated, best_eff"),
        ({"class": "x" * 1000}, "class is 'xxx"),
        ({"tolerance_factor": -0.5}, "tolerance_factor is -0.5; a number from 0 up"),
        ({"tolerance_factor": math.inf}, "tolerance_factor is inf; a number from 0 up"),
        ({"memory": -1}, "memory is -1.0; a number from 0 up"),
        ({"user_priority": 1.1}, "user_priority is 1.1; a number from 0 to 1"),
        ({"user_priority": math.nan}, "user_priority is nan; a number from 0 to 1"),
        ({"political_priority": -0.1}, "political_priority is -0.1; a number from 0 to 1"),
        ({"political_priority": "high"}, "political_priority is 'high'; a number"),
        ({"has_user_deadline": 1}, "has_user_deadline is 1; true or false"),
        ({"category": 3}, "category is 3; a text"),
        ({"queue": 3}, "queue is 3; a text"),
        ({"queue": ""}, "queue is empty; a name"),
        ({"application": ["a"]}, 'application is ["a"]; a text is expected'),
        ({"application": ""}, "application is empty; a name"),
    ],
)
@pytest.mark.parametrize("name", ["qos", "extra_data"])
def test_a_wrong_request_is_named(name: str, qos: dict[str, Any], problem: str) -> None:
    if name == "extra_data" and "unknown" in problem:
        assert read(extra_data=qos).qos is None
        return
    assert f"jobs[3] (job '7'): field '{name}': {problem}" in refusal(PLAIN | {name: qos})


def test_extra_data_is_a_request_only_if_all_of_it_is_ours() -> None:
    assert read(extra_data={"deadline": 5}).qos == QosRequest(deadline=5.0)
    for foreign in ({"deadline": "soon", "colour": "red"}, {}, [], "text", 5, None):
        assert read(extra_data=foreign).qos is None
    both = read(qos={"deadline": 1}, extra_data={"deadline": 2})
    assert both.qos == QosRequest(deadline=1.0)


def attributes_of(job: Job) -> list[str]:
    """Return the names of the attributes that hold values."""
    names = [name for name in dir(job) if not name.startswith("_") and name != "fields"]
    return [name for name in names if not callable(getattr(job, name))]


def test_a_renamed_job_keeps_everything_else() -> None:
    job = read(walltime=100, qos={"estimated_runtime": 5}, note="kept")
    other = job.renamed("w0!7")
    assert other.id == "w0!7"
    assert other.fields == job.fields | {"id": "w0!7"}
    assert job.fields["id"] == "7"
    for name in attributes_of(job):
        if name != "id":
            # Dates that are not known yet are no numbers, and repr tells that they are not.
            assert repr(getattr(other, name)) == repr(getattr(job, name))


def test_equal_jobs_have_equal_fields() -> None:
    assert read() == read()
    assert hash(read()) == hash(read())
    assert read() != read(note="x")
    assert read() != "7"
    assert repr(read(walltime=9)) == (
        "Job('7', submission_time=10.0, processors=4, walltime=9.0, profile='p')"
    )


seconds = st.floats(min_value=0, max_value=MAX_SECONDS, exclude_min=True)
shares = st.floats(min_value=0, max_value=1)
amounts = st.floats(min_value=0, allow_infinity=False)
requests = st.builds(
    QosRequest,
    deadline=st.none() | st.floats(min_value=-MAX_SECONDS, max_value=MAX_SECONDS),
    estimated_runtime=st.none() | seconds,
    service_class=st.none() | st.sampled_from(QOS_CLASSES),
    has_user_deadline=st.none() | st.booleans(),
    tolerance_factor=st.none() | amounts,
    user_priority=st.none() | shares,
    political_priority=st.just(msgspec.UNSET) | st.none() | shares,
    category=st.none() | st.text(),
    memory=st.none() | amounts,
    origin=st.none() | st.text(),
    queue=st.none() | st.text(min_size=1),
    application=st.none() | st.text(min_size=1),
)
jobs = st.builds(
    Job,
    id=st.text(min_size=1),
    submission_time=st.floats(min_value=-MAX_SECONDS, max_value=MAX_SECONDS),
    processors=st.integers(0, MAX_PROCESSORS),
    profile=st.text(),
    walltime=st.none() | seconds,
    qos=st.none() | requests,
)


@given(jobs)
def test_a_job_read_from_its_fields_is_the_same(job: Job) -> None:
    again = Job.from_fields(msgspec.json.decode(msgspec.json.encode(job.fields)), where="test")
    assert again == job
    for name in attributes_of(job):
        assert repr(getattr(again, name)) == repr(getattr(job, name))
