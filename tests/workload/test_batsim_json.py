import gzip
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, Job, read_workload
from qops_batsim.shipped import find_input
from qops_batsim.workload import (
    Workload,
    delay_profile,
    format_workload,
    parse_workload,
    write_workload,
)
from qops_batsim.workload.batsim_json import PROFILE_TYPES, RENAMED_TYPES

DELAY = {"type": "delay", "delay": 10}
JOB = {"id": "1", "subtime": 0, "res": 2, "profile": "d"}
GOOD = {"nb_res": 4, "jobs": [JOB], "profiles": {"d": DELAY}}


def text_of(**changes: Any) -> str:
    return json.dumps(GOOD | changes)


def with_job(**changes: Any) -> str:
    return text_of(jobs=[JOB | changes])


def with_profile(profile: Any) -> str:
    return text_of(profiles={"d": DELAY, "p": profile})


def refusal(text: str) -> str:
    """Return the one line with which a workload is refused, without the file's name."""
    with pytest.raises(InputError) as caught:
        parse_workload(text, source="w.json")
    message = str(caught.value)
    assert message.startswith("w.json: ")
    assert "\n" not in message
    assert len(message) < 300
    return message.removeprefix("w.json: ")


def test_a_workload_is_read_with_its_provenance() -> None:
    workload = parse_workload(text_of(qops_batsim={"seed": 1}, other=[1]), source="w.json")
    assert workload.processors == 4
    assert workload.jobs == [Job.from_fields(JOB, where="test")]
    assert workload.profiles == {"d": DELAY}
    assert workload.provenance == {"seed": 1}
    assert workload.source == "w.json"
    assert parse_workload(text_of(), source="w.json").provenance == {}


def test_columns_hold_the_jobs_in_the_order_of_the_file() -> None:
    jobs = [
        JOB,
        {"id": 7, "subtime": 1.5, "res": 3, "profile": "e", "walltime": 20},
        JOB | {"id": "2", "walltime": 30, "qos": {"estimated_runtime": 5}},
    ]
    profiles = {"e": DELAY, "d": DELAY}
    columns = parse_workload(text_of(jobs=jobs, profiles=profiles), source="w").columns
    assert columns.ids == ["1", "7", "2"]
    assert columns.submission_times.tolist() == [0, 1.5, 0]
    assert columns.processors.tolist() == [2, 3, 2]
    assert columns.walltimes.tolist() == [math.inf, 20, 30]
    assert columns.estimates.tolist() == [math.inf, 20, 5]
    assert [columns.profile_names[index] for index in columns.profiles] == ["d", "e", "d"]
    assert columns.profile_names == ["e", "d"]


def test_a_workload_without_jobs_is_one() -> None:
    assert parse_workload('{"nb_res": 1, "jobs": [], "profiles": {}}', source="w").jobs == []


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("nb_res", 0, "0"),
        ("nb_res", -4, "-4"),
        ("nb_res", 4.0, "4.0"),
        ("nb_res", "4", "'4'"),
        ("nb_res", True, "true"),
        ("nb_res", None, "null"),
        ("nb_res", 10**6 + 1, "1000001"),
        ("jobs", {}, "{}"),
        ("jobs", None, "null"),
        ("jobs", "all", "'all'"),
        ("profiles", [], "[]"),
        ("profiles", None, "null"),
        ("profiles", 3, "3"),
        ("qops_batsim", [], "[]"),
        ("qops_batsim", None, "null"),
    ],
)
def test_a_wrong_field_of_the_workload_is_named(name: str, value: Any, shown: str) -> None:
    assert refusal(text_of(**{name: value})).startswith(f"field '{name}' is {shown}; ")


@pytest.mark.parametrize("name", ["nb_res", "jobs", "profiles"])
def test_a_missing_field_of_the_workload_is_named(name: str) -> None:
    fields = {key: value for key, value in GOOD.items() if key != name}
    assert refusal(json.dumps(fields)).startswith(f"field '{name}' is missing; ")


def test_a_wrong_job_is_named_by_position_and_id() -> None:
    second = JOB | {"id": "b", "res": "x"}
    assert refusal(text_of(jobs=[JOB, second])).startswith(
        "jobs[1] (job 'b'): field 'res' is 'x'; a whole number"
    )
    assert refusal(text_of(jobs=[JOB, 5])).startswith("jobs[1] is 5; an object with the fields")
    assert refusal(with_job(qos={"deadline": "x"})).startswith("jobs[0] (job '1'): field 'qos'")


@pytest.mark.parametrize("ids", [("a", "a"), (1, 1), (1, "1"), ("1", 1)])
def test_job_ids_differ(ids: tuple[Any, Any]) -> None:
    jobs = [JOB | {"id": each} for each in ids]
    expected = f"job id '{ids[0]}' is given twice; each job needs its own id"
    assert refusal(text_of(jobs=jobs)) == expected


def test_a_job_id_holds_no_exclamation_mark() -> None:
    assert refusal(with_job(id="w0!1")).startswith("job id 'w0!1' contains '!'")


def test_an_unknown_profile_is_named_with_its_job() -> None:
    expected = "job '1': profile 'e' is not among the profiles of the workload"
    assert refusal(with_job(profile="e")) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"nb_res": 1, "nb_res": 1, "jobs": [], "profiles": {}}', "field 'nb_res' is given twice"),
        (
            '{"nb_res": 1, "jobs": [{"res": 1, "id": "x", "res": 2}], "profiles": {}}',
            "field 'res' is given twice in job 'x'",
        ),
        (
            '{"nb_res": 1, "jobs": [{"id": "x", "qos": {"memory": 1, "memory": 2}}]}',
            "field 'memory' is given twice",
        ),
        (
            '{"nb_res": 1, "profiles": {"d": {"type": "delay"}, "d": {"type": "delay"}}}',
            "field 'd' is given twice",
        ),
        ('{"profiles": {"d": {"delay": 1, "delay": 2}}}', "field 'delay' is given twice"),
        ('{"qops_batsim": {"a": [{"b": 1, "b": 1}]}}', "field 'b' is given twice"),
        ('{"a\\nb": 1, "a\\nb": 1}', r"field 'a\nb' is given twice"),
    ],
)
def test_a_field_given_twice_is_refused_at_every_level(text: str, message: str) -> None:
    assert refusal(text) == f"{message}; once is expected"


@pytest.mark.parametrize(
    ("value", "shown"),
    [("NaN", "NaN;"), ("Infinity", "out of the range"), ("-Infinity", "out of the range")],
)
@pytest.mark.parametrize("name", ["nb_res", "subtime", "delay", "anything"])
def test_constants_that_json_has_not_are_refused(name: str, value: str, shown: str) -> None:
    assert refusal(f'{{"{name}": [1, {value}]}}').startswith(f"field '{name}[1]' is {shown}")


HUGE = ["1e999", "-1e999", "1" + "0" * 400, "-1" + "0" * 400, "1" + "0" * 5000]


@pytest.mark.parametrize("value", HUGE, ids=["float", "-float", "int", "-int", "digits"])
@pytest.mark.parametrize(
    ("text", "place"),
    [
        (text_of(nb_res=77), "nb_res"),
        (with_job(id=77), "jobs[0].id"),
        (with_job(subtime=77), "jobs[0].subtime"),
        (with_job(res=77), "jobs[0].res"),
        (with_job(walltime=77), "jobs[0].walltime"),
        (with_job(qos={"deadline": 77}), "jobs[0].qos.deadline"),
        (with_job(anything=[1, {"a": 77}]), "jobs[0].anything[1].a"),
        (with_profile(DELAY | {"delay": 77}), "profiles.p.delay"),
        (with_profile(DELAY | {"ret": 77}), "profiles.p.ret"),
        (with_profile({"type": "parallel", "cpu": [77], "com": [0]}), "profiles.p.cpu[0]"),
        (text_of(qops_batsim={"seed": 77}), "qops_batsim.seed"),
        ("77", ""),
    ],
)
def test_a_number_too_large_for_a_float_is_named(text: str, place: str, value: str) -> None:
    message = refusal(text.replace("77", value))
    assert message == f"field {place!r} is out of the range of numbers; at most 1e308 is expected"


def test_large_numbers_that_fit_are_kept() -> None:
    workload = parse_workload(with_job(note=[10**299, 1e300, -5e-324]), source="w.json")
    assert workload.jobs[0].fields["note"] == [10**299, 1e300, -5e-324]


def test_texts_that_no_file_can_hold_are_named() -> None:
    assert refusal(with_job(id="a\ud800")).startswith(r"field 'jobs[0].id' is 'a\ud800'; half")
    assert refusal(with_job(**{"\udfff": 1})).startswith(r"field 'jobs[0].\udfff' is '\udfff'")
    assert refusal(text_of(profiles={"\ud8aa": DELAY})).startswith(r"field 'profiles.\ud8aa' is")
    assert parse_workload(with_job(id="\U0001f600"), source="w").jobs[0].id == "\U0001f600"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        '{"a":' * 50_000,
        with_job(note=77).replace("77", "[" * 50_000 + "]" * 50_000),
    ],
    ids=["lists", "objects", "in a job"],
)
def test_deep_nesting_is_refused(text: str) -> None:
    assert refusal(text) == "JSON nested too deeply for a Batsim workload"


@pytest.mark.parametrize("depth", range(880, 1000, 6))
def test_nesting_near_the_limit_gives_a_workload_or_one_line(depth: int) -> None:
    text = with_job(note=77).replace("77", "[" * depth + "1e999" + "]" * depth)
    assert "nested too deeply" in refusal(text) or "out of the range" in refusal(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: not JSON"),
        ("\n\n  nb_res: 4", "line 3, column 3: not JSON"),
        (text_of()[:-10], "line 1, column"),
        (text_of() + "}", "line 1, column"),
        ("[]", "the JSON is no object; an object with nb_res, jobs and profiles is expected"),
        ("null", "the JSON is no object; an object with nb_res, jobs and profiles is expected"),
        ("; Version: 2.2\n1 0 -1 100", "line 1, column 1: not JSON"),
    ],
)
def test_what_is_no_json_object(text: str, message: str) -> None:
    assert refusal(text).startswith(message)


@pytest.mark.parametrize("seed", range(20))
def test_binary_garbage_is_one_line(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "w.json"
    path.write_bytes(random.Random(seed).randbytes(200))
    with pytest.raises(InputError) as caught:
        read_workload(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("profile", "problem"),
    [
        (5, " is 5; an object"),
        ({}, ": type is null; one of delay, parallel"),
        ({"type": ["delay"]}, ': type is ["delay"]; one of'),
        ({"type": "sleep"}, ": type is 'sleep'; one of"),
        ({"type": "delay"}, ": field 'delay' is missing"),
        (DELAY | {"delay": 0}, ": delay is 0; a number of seconds above 0"),
        (DELAY | {"delay": -1}, ": delay is -1;"),
        (DELAY | {"delay": "9"}, ": delay is '9';"),
        (DELAY | {"delay": True}, ": delay is true;"),
        (DELAY | {"delay": 1e13}, ": delay is 10000000000000.0;"),
        (DELAY | {"ret": 1.5}, ": ret is 1.5; a whole number"),
        (DELAY | {"ret": True}, ": ret is true; a whole number"),
        ({"type": "parallel_homogeneous", "cpu": 1}, ": field 'com' is missing"),
        ({"type": "parallel_homogeneous", "cpu": "1", "com": 0}, ": cpu is '1'; a number from 0"),
        ({"type": "parallel_homogeneous_total", "cpu": 1, "com": -1}, ": com is -1; a number from"),
        ({"type": "parallel", "cpu": 1, "com": []}, ": cpu is 1; a list of numbers"),
        ({"type": "parallel", "cpu": [1], "com": ["x"]}, ': com is ["x"]; a list of numbers'),
        ({"type": "parallel_homogeneous_pfs"}, ": neither bytes_to_read nor bytes_to_write is"),
        (
            {"type": "parallel_homogeneous_pfs", "bytes_to_write": -1},
            ": bytes_to_write is -1; a number from 0",
        ),
        ({"type": "composed", "seq": []}, ": seq is []; a list of profile names"),
        ({"type": "composed", "seq": "d"}, ": seq is 'd'; a list of profile names"),
        ({"type": "composed", "seq": ["q"]}, ": seq names 'q', which is not among"),
        ({"type": "composed", "seq": [["d"]]}, ': seq names ["d"], which is not among'),
        ({"type": "composed", "seq": ["d"], "repeat": 0}, ": repeat is 0; a whole number from 1"),
        ({"type": "composed", "seq": ["d"], "repeat": 1.0}, ": repeat is 1.0; a whole number"),
        ({"type": "composed", "seq": ["d", "p"]}, " contains itself and would never end"),
    ],
)
def test_a_wrong_profile_is_named(profile: Any, problem: str) -> None:
    assert refusal(with_profile(profile)).startswith(f"profile 'p'{problem}")


@pytest.mark.parametrize(
    "profile", [{"type": "parallel_homogeneous_pfs", "bytes_to_read": 7}, {"type": "recv"}]
)
def test_fields_that_batsim_has_values_for(profile: dict[str, Any]) -> None:
    assert parse_workload(with_profile(profile), source="w.json").profiles["p"] == profile


@pytest.mark.parametrize(("old", "new"), RENAMED_TYPES.items())
def test_a_former_name_of_a_type_is_refused_with_the_present_one(old: str, new: str) -> None:
    assert new in PROFILE_TYPES
    expected = f"profile 'p': type is '{old}'; its name in Batsim 4 is {new}"
    assert refusal(with_profile({"type": old, "cpu": 1, "com": 0})) == expected


def test_composed_profiles_in_a_circle_are_named() -> None:
    profiles = {
        "d": DELAY,
        "a": {"type": "composed", "seq": ["d", "b"]},
        "b": {"type": "composed", "seq": ["a"]},
    }
    assert "contains itself and would never end: " in refusal(text_of(profiles=profiles))
    profiles["b"] = {"type": "composed", "seq": ["d", "d"], "repeat": 3}
    assert len(parse_workload(text_of(profiles=profiles), source="w").profiles) == 3


def test_every_input_of_the_recorded_sessions_is_read(shared: Path) -> None:
    inputs = shared / "batsim" / "inputs"
    files = [*inputs.glob("*.json*"), *inputs.glob("upstream/*.json")]
    # Not a workload, and one with a delay of 0, which Batsim refuses to load as well.
    others = {"share_random.allocations.json", "d0.json"}
    sizes = {path.name: len(read_workload(path).jobs) for path in files if path.name not in others}
    assert len(sizes) >= 27
    assert sizes["empty.json"] == 0
    assert sizes["types.json"] == 8
    assert sizes["test_walltime.json"] == 44
    assert sizes["kth_delay.json.gz"] == 27_992


def test_a_delay_of_zero_is_refused_as_by_batsim(shared: Path) -> None:
    with pytest.raises(InputError, match=r"d0\.json: profile 'z': delay is 0; a number of seconds"):
        read_workload(shared / "batsim" / "inputs" / "d0.json")


def test_unicode_and_gzip_and_a_byte_order_mark(tmp_path: Path) -> None:
    content = json.dumps(GOOD | {"jobs": [JOB | {"id": "å"}]}, ensure_ascii=False).encode()
    (tmp_path / "w").write_bytes(gzip.compress(b"\xef\xbb\xbf" + content))
    assert read_workload(tmp_path / "w").jobs[0].id == "å"


def test_the_written_text_has_a_line_for_each_job_and_profile() -> None:
    name, body = delay_profile(10.0)
    workload = Workload(
        jobs=[Job("1", 0.0, 2, name, walltime=20.0), Job("2", 1.5, 1, name)],
        profiles={name: body},
        processors=4,
        provenance={"seed": 3},
    )
    assert format_workload(workload) == (
        "{\n"
        '"nb_res": 4,\n'
        '"qops_batsim": {"seed": 3},\n'
        '"jobs": [\n'
        '{"id": "1", "subtime": 0.0, "res": 2, "profile": "delay10", "walltime": 20.0},\n'
        '{"id": "2", "subtime": 1.5, "res": 1, "profile": "delay10"}\n'
        "],\n"
        '"profiles": {\n'
        '"delay10": {"type": "delay", "delay": 10}\n'
        "}\n"
        "}\n"
    )


@pytest.mark.parametrize("second", ["b", 'b, "', "b}, ", '}, "x": {'])
def test_a_profile_has_its_line_whatever_its_name(second: str) -> None:
    bodies = [delay_profile(seconds)[1] for seconds in (1.0, 2.0, 3.0)]
    profiles = dict(zip(("a", second, "c"), bodies, strict=True))
    lines = format_workload(Workload(jobs=[], profiles=profiles, processors=4)).splitlines()
    found = lines[lines.index('"profiles": {') + 1 : -2]
    assert [json.loads(f"{{{line.removesuffix(',')}}}") for line in found] == [
        {name: body} for name, body in profiles.items()
    ]


def test_a_profile_of_a_run_time_that_is_not_whole() -> None:
    assert delay_profile(0.5) == ("delay0.5", {"type": "delay", "delay": 0.5})


@pytest.mark.parametrize("name", ["w.json", "w.json.gz"])
def test_writing_twice_gives_the_same_bytes(tmp_path: Path, name: str, shared: Path) -> None:
    workload = read_workload(shared / "batsim" / "inputs" / "types.json")
    write_workload(workload, tmp_path / name)
    once = (tmp_path / name).read_bytes()
    write_workload(read_workload(tmp_path / name), tmp_path / name)
    assert (tmp_path / name).read_bytes() == once
    assert (once[:2] == b"\x1f\x8b") == name.endswith(".gz")


finite = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | finite | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
letters = st.characters(exclude_characters=',"!\u2028\u2029', exclude_categories=["Cs", "Cc"])
names_in_csv = st.text(letters, max_size=5)
ids = st.text(letters, min_size=1, max_size=5) | st.integers(0, 99)


@st.composite
def workloads(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the JSON object of a workload with fields of others in every place."""
    profiles: dict[str, Any] = {
        name: {"note": draw(values), "type": "delay", "delay": delay}
        for name, delay in draw(
            st.dictionaries(names_in_csv, st.floats(1e-3, 1e6) | st.integers(1, 10**6), min_size=1)
        ).items()
    }
    names = sorted(profiles)
    profiles["composed of all"] = {"type": "composed", "seq": names, "repeat": 2}
    jobs = [
        {
            "id": job_id,
            "subtime": draw(st.floats(-10, 1e9) | st.integers(-10, 10**9)),
            "res": draw(st.integers(0, 100)),
            "profile": draw(st.sampled_from(sorted(profiles))),
            "walltime": draw(st.none() | st.just(-1) | st.floats(1, 1e6)),
            "x-note": draw(values),
        }
        for job_id in draw(st.lists(ids, max_size=5, unique_by=str))
    ]
    provenance = draw(st.dictionaries(texts, values, min_size=1, max_size=3))
    return {"nb_res": 4, "qops_batsim": provenance, "jobs": jobs, "profiles": profiles}


@given(workloads())
def test_reading_what_was_written_gives_the_same(data: dict[str, Any]) -> None:
    workload = parse_workload(json.dumps(data), source="w")
    text = format_workload(workload)
    assert json.loads(text) == data
    assert parse_workload(text, source="w") == workload
    assert format_workload(parse_workload(text, source="w")) == text


@pytest.mark.parametrize(
    ("what", "count"), [("[],", 200_000), ("{},", 200_000), ('{"a":[]},', 1_200_000)]
)
def test_what_would_take_far_more_memory_than_it_has_letters_is_refused(
    what: str, count: int
) -> None:
    content = what * count
    assert "letters, more than a Batsim workload has; a Batsim" in refusal(
        f'{{"jobs": [{content}0]}}'
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"processors": 10**7}, "nb_res"),
        ({"jobs": [Job("1", 2e12, 1, "p")]}, "jobs[0] (job '1'): field 'subtime' is 2000000000000"),
        ({"jobs": [Job("1", math.nan, 1, "p")]}, "field 'subtime' is NaN"),
        ({"jobs": [Job("a\x1b,", 0, 1, "p")]}, "contains a comma, a quotation mark or a control"),
        ({"jobs": [Job("1", 0, 1, "p")] * 2}, "given twice"),
        ({"profiles": {"p": {"type": "parallel_homogeneous", "cpu": 1e305, "com": 0}}}, "1e+305"),
        ({"profiles": {"p": {"type": "delay", "delay": math.inf}}}, "delay is Infinity"),
        ({"provenance": {"a": [1, math.nan]}}, "field 'qops_batsim.a[1]' is NaN"),
        ({"provenance": {"a": {"b": "\ud800"}}}, r"field 'qops_batsim.a.b' is '\ud800'"),
        ({"provenance": {"a": 10**400}}, "field 'qops_batsim.a' is out of the range"),
    ],
)
def test_what_could_not_be_read_is_not_written(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    whole = {"jobs": [], "profiles": {"p": {"type": "delay", "delay": 1}}, "processors": 4}
    workload = Workload(**(whole | change), source="w.json")
    with pytest.raises(InputError) as caught:
        write_workload(workload, tmp_path / "o.json")
    assert str(caught.value).startswith("w.json: ")
    assert message in str(caught.value)
    assert not list(tmp_path.iterdir())


@given(st.text(max_size=30) | values.map(json.dumps))
def test_any_text_is_a_workload_or_refused_in_one_line(text: str) -> None:
    refusal(text)


@pytest.mark.parametrize(
    ("job_id", "profile"),
    [("a,b", "p"), ("a\nb", "p"), ("a", 'p"q'), ("a\x1b[31m", "p"), ("a", "p\x85")],
)
def test_names_that_would_break_the_output_files_are_refused(job_id: str, profile: str) -> None:
    data = {
        "nb_res": 4,
        "jobs": [{"id": job_id, "subtime": 0, "res": 1, "profile": profile}],
        "profiles": {profile: {"type": "delay", "delay": 1}},
    }
    with pytest.raises(InputError, match="which would break result files"):
        parse_workload(json.dumps(data), source="w")


def test_a_workload_prints_in_one_line() -> None:
    workload = read_workload(find_input("sdsc_sp2_1000", "workloads"))
    text = repr(workload)
    assert text.startswith("<Workload: 1,000 jobs on 128 processors, submitted from ")
    assert text.endswith("sdsc_sp2_1000.json>")
    assert len(text) < 300
    assert "<br>submitted from" in workload._repr_html_()
    workload.source = "a < b"
    assert workload._repr_html_().endswith("<br>a &lt; b")
    empty = Workload(jobs=[], profiles={}, processors=1)
    assert repr(empty) == "<Workload: 0 jobs on 1 processors, a workload>"
