"""Every public function refuses arguments of another kind in one line that names them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import qops_batsim
from qops_batsim import InputError
from qops_batsim.advice import AdviceChoices
from qops_batsim.arguments import CODE, NUMBER, PATH, WHOLE, mapping, several, takes

WRONG = (3, None, [], b"", object(), float("nan"))

CALLS: dict[str, dict[str, Any]] = {
    "advise": {"trace": "tiny_8"},
    "check_scheduler": {"scheduler": "fcfs"},
    "compare": {"schedulers": ["fcfs"], "workload": "tiny_8"},
    "explain": {"run": "no run", "job": "1"},
    "gantt": {"run": "no run"},
    "metrics": {"run": "no run"},
    "quote": {"run": "no run", "time": 5, "processors": 1, "run_time": 5},
    "read_platform": {"path": "no file"},
    "read_run": {"name": "no run"},
    "read_swf": {"path": "no file"},
    "read_workload": {"path": "no file"},
    "run": {"scheduler": "fcfs", "workload": "tiny_8"},
    "run_again": {"description": "no file"},
    "simulate": {"scheduler": "fcfs", "workload": "tiny_8"},
    "verify": {"result": "no run"},
}
"""A call of each function, beside which one argument is wrong."""

NUMBERS = {
    *("hosts", "processors", "max_bytes", "bounded_slowdown_threshold", "begin", "end", "time"),
    *("run_time", "deadline", "tolerance", "workers", "seeds", "skip", "first"),
}
LISTS = {"events", "code", "schedulers", "loads", "seeds"}


def public_functions() -> list[str]:
    return [
        name
        for name in dir(qops_batsim)
        if not name.startswith("_") and inspect.isfunction(getattr(qops_batsim, name))
    ]


def cases() -> list[tuple[str, str, object]]:
    found = []
    for function in CALLS:
        for name, parameter in inspect.signature(getattr(qops_batsim, function)).parameters.items():
            for value in WRONG:
                if value is None and parameter.default is None:
                    continue
                if type(value) is int and name in NUMBERS:
                    continue
                if value == [] and name in LISTS:
                    continue
                found.append((function, name, value))
    return found


def test_every_public_function_is_called() -> None:
    assert set(public_functions()) - {"is_compiled"} == set(CALLS)


@pytest.mark.parametrize(
    ("function", "name", "value"), cases(), ids=[f"{f}-{n}-{v!r:.8}" for f, n, v in cases()]
)
def test_arguments_of_another_kind_are_named(
    function: str, name: str, value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as told:
        getattr(qops_batsim, function)(**CALLS[function] | {name: value})
    message = str(told.value)
    assert f"{name} is " in message
    assert message.endswith(" is expected")
    assert "\n" not in message
    assert not list(tmp_path.iterdir())


def test_the_words_of_the_issue() -> None:
    with pytest.raises(InputError, match=r"run: out is 3 \(int\); a path, or None is expected"):
        qops_batsim.run("qops", out=3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"metrics: run is 3 \(int\); the prefix of a run's files"):
        qops_batsim.metrics(3)  # type: ignore[arg-type]


def test_kinds() -> None:
    import numpy as np

    assert all(map(WHOLE.fits, (0, -3, np.int64(4))))
    assert not any(map(WHOLE.fits, (True, 1.0, "1", None)))
    assert all(map(NUMBER.fits, (0, 0.5, np.float64(4))))
    assert not any(map(NUMBER.fits, (True, float("inf"), float("nan"), "1")))
    assert all(map(PATH.fits, ("a", Path("a"))))
    assert all(map(CODE.fits, (True, [], ["a.py"], (Path("a.py"),))))
    assert not any(map(CODE.fits, ("a.py", None, [3], b"a")))
    assert mapping(WHOLE, "numbers").fits({"a": 1})
    assert not mapping(WHOLE, "numbers").fits({"a": "1"})
    assert not several(WHOLE, "numbers").fits("12")


def test_a_checked_function_looks_like_itself() -> None:
    def added(first: int, *, second: int = 2) -> int:
        """Add."""
        return first + second

    checked: Callable[..., int] = takes(first=WHOLE, second=WHOLE)(added)
    assert inspect.signature(checked) == inspect.signature(added)
    assert (checked.__doc__, checked(1), checked(1, second=4)) == ("Add.", 3, 5)
    with pytest.raises(TypeError, match="missing a required argument: 'first'"):
        checked()
    with pytest.raises(TypeError, match="has other arguments than third"):
        takes(third=WHOLE)(added)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"loads": 1.2}, "loads is 1.2 .float.; a list of numbers is expected"),
        ({"stringencies": ("0.2",)}, "stringencies is .*0.2.*; a list of numbers is expected"),
        ({"others": "qops"}, "others is 'qops' .str.; a list of Contestants is expected"),
    ],
)
def test_lists_of_advice_are_lists(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        qops_batsim.advise("tiny_8", AdviceChoices(**choices))


def test_a_scheduler_to_check_is_one_of_what_is_told() -> None:
    told = r"scheduler is \['easy'\] \(list\); a registered name, FILE.py:CLASS, a class, or a"
    with pytest.raises(InputError, match=told):
        qops_batsim.check_scheduler(["easy"])  # type: ignore[arg-type]
