"""Workloads read into columns by the scanner, against the general reader."""

from __future__ import annotations

import json
import random
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qops_batsim import InputError
from qops_batsim.workload import batsim_json, parse_workload
from qops_batsim.workload.job_scanner import Scanner

PROFILES = {"d": {"type": "delay", "delay": 10}, "e:x": {"type": "delay", "delay": 2.5}}
DATES = st.one_of(
    st.integers(-5, 10**9),
    st.integers(0, 10**15).map(lambda n: n / 1e6),
    st.floats(0, 1e9),
    st.just(1e22),
    st.just(-0.0),
)
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "deadline": st.one_of(st.none(), st.floats(0, 1e9)),
        "estimated_runtime": st.integers(1, 100),
        "category": st.sampled_from(["a", "a:b", 'q"', "é"]),
        "tolerance_factor": st.floats(1, 4),
        "unknown": st.just(1),
    },
)
JOBS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.one_of(st.integers(-3, 10**16), st.text(max_size=3), st.just("w:1")),
            "subtime": DATES,
            "res": st.sampled_from([0, 1, 2, 3, 2.0, 10**15, 10**16, True]),
            "profile": st.sampled_from(["d", "d", "d", "e:x", "no"]),
        },
        optional={
            "walltime": st.one_of(DATES, st.none(), st.just(-1), st.integers(1, 1000)),
            "qos": st.one_of(st.none(), REQUESTS),
            "user": st.sampled_from([1, "ada", None, True, [1], 1e300, "\\"]),
            "group": st.just("g"),
            "executable": st.just(7),
            "queue": st.just("q"),
            "qos_name": st.just("n"),
            "per_host": st.sampled_from([{"cores": 1}, {"memory": 16e9, "gpus:a": 2}, None, 3, {}]),
            "tasks": st.sampled_from([4, "4", None]),
            "per_task": st.just({"cores": 2}),
            "hosts_with": st.sampled_from([["fast"], ["a b,c}", "x:y"], ["é"], "fast", []]),
            "exclusive": st.booleans(),
            "parts": st.sampled_from([[{"res": 1, "per_host": {"cores": 1}}, {"res": 1}], [[]]]),
            "Walltime": st.just(3),
        },
    ),
    max_size=4,
)


def outcome(text: str) -> Any:
    """Return what reading a workload gives, be it an error, and its warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            workload = parse_workload(text, source="w.json")
        except InputError as error:
            return str(error)
    columns = [each.tolist() if isinstance(each, np.ndarray) else each for each in workload.columns]
    fields = [job.fields for job in workload.jobs]
    # NaN is not itself, and a zero may have a sign.
    return repr((columns, fields, workload.profiles)), sorted(str(each.message) for each in told)


class NothingUsual:
    """A scanner that gives up."""

    def __init__(self, _: bytes, places: Any = None) -> None:
        self.profiles = self.places = places

    def scan_profiles(self) -> bool:
        return False

    def scan_jobs(self) -> bool:
        return False


def in_general(text: str) -> Any:
    """Return the outcome where no jobs are taken for usual."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batsim_json, "Scanner", NothingUsual)
        return outcome(text)


def written(jobs: list[dict[str, Any]], profiles: Any = PROFILES, **layout: Any) -> str:
    """Return a workload's JSON."""
    return json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}, **layout)


def is_usual(text: str) -> bool:
    """Return whether the scanners read a workload."""
    middle = text.rindex("]") + 1
    profiles = Scanner(text[text.index("{", middle) : text.rindex("}")].strip().encode())
    jobs = text[text.index("[", text.index('"jobs"')) : middle]
    return profiles.scan_profiles() and Scanner(jobs.encode(), profiles.places).scan_jobs()


LAYOUTS = st.sampled_from(
    [{}, {"separators": (",", ":")}, {"indent": 1}, {"indent": "\t"}, {"ensure_ascii": False}]
)


@given(JOBS, LAYOUTS, st.randoms(use_true_random=False))
def test_whatever_is_written_is_read_as_in_general(
    jobs: list[dict[str, Any]], layout: dict[str, Any], rng: random.Random
) -> None:
    shuffled = [dict(rng.sample([*job.items()], len(job))) for job in jobs]
    text = written(shuffled, **layout)
    assert outcome(text) == in_general(text)


USUAL = [
    {"id": 1, "subtime": 0, "res": 2, "walltime": 20, "profile": "d", "user": 1, "group": "g"},
    {"id": 2, "subtime": 1.5, "res": 1, "profile": "e:x"},
    {"id": "x y", "subtime": 123456789.123456, "res": 4, "walltime": None, "profile": "d"},
    {"id": "4", "subtime": 2, "res": 3, "profile": "d", "walltime": -1, "queue": None},
    {"id": "5", "subtime": 2, "res": 3, "profile": "d", "qos": {"deadline": 50.5}, "user": 1.5},
    {"id": "6", "subtime": 0.1 + 0.2, "res": 3, "profile": "d", "qos": None, "qos_name": "n"},
    {"id": "7", "subtime": 3, "res": 1, "profile": "d", "qos": {"category": "b", "deadline": 60}},
    {"id": "8", "subtime": 4, "res": 1, "profile": "d", "per_host": {"cores": 2, "memory": 1e9}},
    {"id": "9", "subtime": 4, "res": 2, "profile": "d", "hosts_with": ["a}"], "exclusive": True},
]


@given(LAYOUTS)
def test_what_logs_give_is_read_by_the_scanner(layout: dict[str, Any]) -> None:
    text = written(USUAL, **layout)
    assert is_usual(text)
    assert outcome(text) == in_general(text)


@pytest.mark.parametrize(
    "value",
    [
        *("01", "-0", "1.", ".5", "1e3", "1.5E2", "+1", "0x1", "1_0", "-", "1-", "00.5", "0.0"),
        *("-0.0", "999999999999999", "1000000000000000", "0.1234567890123456789"),
        "9007199254740993.5",
    ],
)
@pytest.mark.parametrize("field", ["id", "subtime", "res", "walltime", "user", "delay"])
def test_numbers_are_those_of_json(value: str, field: str) -> None:
    job = {"id": 1, "subtime": 2, "res": 2, "profile": "d", "walltime": 20, "user": 1, field: "N"}
    delay = {"type": "delay", "delay": "N" if field == "delay" else 10}
    job.pop("delay", None)
    text = written([job], {"d": delay}).replace('"N"', value)
    assert outcome(text) == in_general(text)


@pytest.mark.parametrize(
    "profile",
    [
        {"delay": 3, "type": "delay"},
        {"type": "delay", "delay": 1e9},
        {"type": "delay", "delay": 0},
        {"type": "delay", "delay": 10**15},
        {"type": "delay", "delay": "3"},
        {"type": "delay", "delay": 3, "ret": 1},
        {"type": "delay"},
        {"delay": 3},
        {},
        {"type": "DelayProfile", "delay": 3},
        {"type": "parallel_homogeneous", "cpu": 1, "com": 0},
        {"type": ["delay"], "delay": 3},
        [],
    ],
)
def test_profiles_are_those_of_the_general_reader(profile: Any) -> None:
    for text in (written(USUAL, PROFILES | {"x": profile}), written([], {"x": profile})):
        assert outcome(text) == in_general(text)
    twice = written(USUAL, {"d": profile}).replace(
        '"d": {', '"d": {"type": "delay", "delay": 1}, "d": {'
    )
    assert outcome(twice) == in_general(twice)


PIECES = ["{", "}", "[", "]", '"', ":", ",", "\\", "0", "1", ".", "-", "e", " ", "\n", "\x00", "é"]
PIECES += [
    "null",
    "true",
    "{}",
    '"id"',
    '"id": 1, ',
    '"qos": {}, ',
    '"res": 2, ',
    '"x": 1, ',
    "\x7f",
]


@given(st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_damaged_text_is_refused_in_the_same_words(rng: random.Random) -> None:
    text = written(rng.sample(USUAL, 3))
    begin, end = text.index("["), len(text) - 1
    if rng.random() < 0.7:
        end = text.index("]") + 1
    for _ in range(rng.randint(1, 2)):
        place = rng.randint(begin, end)
        text = text[:place] + rng.choice(PIECES) + text[place + rng.choice([0, 0, 1, 2, 9]) :]
    assert outcome(text) == in_general(text)


@pytest.mark.parametrize(
    ("profile", "jobs"),
    [
        ({"type": "parallel", "cpu": [], "com": []}, []),
        ({"type": "parallel", "cpu": [1], "com": [1]}, [1]),
        ({"type": "composed", "seq": []}, []),
    ],
)
def test_profiles_may_stand_before_jobs_and_hold_their_text(profile: Any, jobs: list[Any]) -> None:
    text = json.dumps({"nb_res": 4, "profiles": {"a": profile}, "jobs": jobs})
    if jobs or "seq" in profile:
        with pytest.raises(InputError, match=r"jobs\[0\] is 1|seq is \[\]"):
            parse_workload(text, source="w.json")
    else:
        assert len(parse_workload(text, source="w.json").jobs) == 0


def test_small_objects_are_read_in_any_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batsim_json, "_FEW", 0)
    parts = [{"res": 1}] * 20
    jobs = [{"id": n, "subtime": 0, "res": 20, "profile": "d", "parts": parts} for n in range(9)]
    text = written(jobs, separators=(",", ":"))
    assert is_usual(text)
    assert outcome(text) == in_general(text)
    assert isinstance(outcome(text), tuple)
