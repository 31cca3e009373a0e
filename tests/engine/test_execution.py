"""Profiles as steps, and the errors of those that cannot run."""

from __future__ import annotations

from typing import Any

import pytest

from qops_batsim import InputError
from qops_batsim.engine.execution import Amounts, execution_of

PROFILES: dict[str, dict[str, Any]] = {
    "sleep": {"type": "delay", "delay": 5},
    "fail": {"type": "delay", "delay": 5, "ret": 3},
    "compute": {"type": "parallel_homogeneous", "cpu": 100, "com": 8},
    "total": {"type": "parallel_homogeneous_total", "cpu": 100, "com": 8},
    "matrix": {"type": "parallel", "cpu": [1, 2], "com": [0, 3, 4, 0]},
    "twice": {"type": "composed", "seq": ["sleep", "compute"], "repeat": 2},
    "nested": {"type": "composed", "seq": ["twice", "sleep"], "ret": 7},
    "loop": {"type": "composed", "seq": ["sleep", "loop"]},
    "endless": {"type": "composed", "seq": ["sleep"], "repeat": 10**9},
}
for level in range(1000):
    inner = "sleep" if level == 0 else f"{{}}{level - 1}"
    for kind, repeat in (("deep", 1), ("wide", 10)):
        PROFILES[f"{kind}{level}"] = {
            "type": "composed",
            "seq": [inner.format(kind)],
            "repeat": repeat,
        }
# Its inner profiles are known, and found to be in each other, when it comes to the last.
PROFILES["shortcuts"] = {"type": "composed", "seq": ["deep20", "deep31", "deep32"]}


def steps(name: str, processors: int = 2) -> list[tuple[str, int, tuple[tuple[str, int], ...]]]:
    execution = execution_of(name, PROFILES, processors=processors, where="w.json")
    return [(step.profile, step.return_code, step.place) for step in execution.steps]


def test_a_sequence_is_repeated_and_keeps_its_place() -> None:
    assert steps("twice") == [
        ("sleep", 0, (("twice", 0),)),
        ("compute", 0, (("twice", 1),)),
        ("sleep", 0, (("twice", 2),)),
        ("compute", 0, (("twice", 3),)),
    ]


def test_the_code_of_a_sequence_comes_after_its_last_step() -> None:
    codes = [(name, code) for name, code, _ in steps("nested")]
    assert codes[-1] == ("sleep", 7)
    assert all(code == 0 for _, code in codes[:-1])
    assert steps("nested")[1][2] == (("nested", 0), ("twice", 1))


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("fails", [0, 3]),  # The code of the last step stands.
        ("first_fails", [3, 9]),
        ("well", [0, 9]),
        ("well_around", [0, 9, 0, 9]),
        ("fails_around", [0, 3, 0, 3]),
    ],
)
def test_the_code_of_a_sequence_replaces_no_other(name: str, codes: list[int]) -> None:
    composed: dict[str, dict[str, Any]] = {
        "fails": {"type": "composed", "seq": ["sleep", "fail"], "ret": 9},
        "first_fails": {"type": "composed", "seq": ["fail", "sleep"], "ret": 9},
        "well": {"type": "composed", "seq": ["sleep", "compute"], "ret": 9},
        "well_around": {"type": "composed", "seq": ["well"], "repeat": 2, "ret": 8},
        "fails_around": {"type": "composed", "seq": ["fails"], "repeat": 2, "ret": 8},
    }
    execution = execution_of(name, PROFILES | composed, processors=2, where="w.json")
    assert [step.return_code for step in execution.steps] == codes


def test_amounts_per_host_and_pair() -> None:
    def amounts(name: str) -> tuple[list[float], list[float]]:
        (step,) = execution_of(name, PROFILES, processors=2, where="w.json").steps
        assert isinstance(step.amounts, Amounts)
        return step.amounts.on(2)

    assert amounts("compute") == ([100, 100], [0, 8, 8, 0])
    assert amounts("total") == ([50, 50], [0, 4, 4, 0])
    assert amounts("matrix") == ([1, 2], [0, 3, 4, 0])


@pytest.mark.parametrize(
    ("name", "processors", "message"),
    [
        ("missing", 2, "w.json: profile 'missing' does not exist"),
        ("loop", 2, "profile 'loop' contains itself"),
        ("endless", 2, "more than 100000 steps"),
        ("deep999", 2, "profile 'deep967': more than 32 composed profiles inside each other"),
        ("shortcuts", 2, "more than 32 composed profiles inside each other"),
        ("wide8", 2, "profile 'wide5': more than 100000 steps"),
        ("matrix", 3, "cpu has 2 numbers; 3 are expected for a job of 3 processors"),
    ],
)
def test_profiles_that_cannot_be_resolved(name: str, processors: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        steps(name, processors)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ({"type": "smpi", "trace": "t"}, "cannot run profiles of type 'smpi'"),
        ({"type": "send", "msg": {}}, "cannot run profiles of type 'send'"),
        ({"type": "usage_trace"}, "trace is null; the name of a file"),
        (
            {"type": "usage_trace", "trace": "t"},
            "trace 't' is a file in the folder of the workload's",
        ),
        ({"type": "data_staging"}, "from is null; a text"),
        ({"type": "data_staging", "from": "a", "to": "b"}, "nb_bytes is null; a number from 0"),
        ({"type": "parallel_homogeneous_pfs"}, "neither bytes_to_read nor bytes_to_write is given"),
        (
            {"type": "parallel_homogeneous_pfs", "bytes_to_read": -1},
            "bytes_to_read is -1; a number",
        ),
        (
            {"type": "parallel_homogeneous_pfs", "bytes_to_read": 1, "host": 5},
            "host is 5; a text",
        ),
        ({"type": "delay", "delay": 0}, "delay is 0; a number above 0"),
        ({"type": "delay", "delay": True}, "delay is true; a number above 0"),
        ({"type": "delay", "delay": 1, "ret": "x"}, "ret is 'x'; a whole number"),
        ({"type": "parallel_homogeneous", "cpu": -1, "com": 0}, "cpu is -1; a number from 0 up"),
        ({"type": "parallel_homogeneous"}, "cpu is null; a number from 0 up"),
        ({"type": "parallel", "cpu": 5, "com": []}, "cpu is not a list of numbers"),
        ({"type": "parallel", "cpu": [1, 1], "com": [1]}, "com has 1 numbers; 4 are expected"),
        ({"type": "composed", "seq": []}, "seq is \\[\\]; a list of profile names"),
        ({"type": "composed", "seq": ["x"], "repeat": 0}, "repeat is 0; a whole number from 1"),
        ({"type": "composed", "seq": ["x"]}, "profile 'x' does not exist"),
    ],
)
def test_wrong_parameters_are_named(profile: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        execution_of("p", {"p": profile}, processors=2, where="w.json")
