"""Arguments of public functions that are of another kind than they take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import qops_batsim
from qops_batsim.advice.advise import AdviceChoices
from qops_batsim.errors import InputError

CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "code is a text": (
        lambda: qops_batsim.run_again("out/easy_run.json", code="mine.py"),  # type: ignore[arg-type]
        "code is 'mine.py'; a list of Python files, or True for any, is expected",
    ),
    "code is a path": (
        lambda: qops_batsim.quote("out/qops", 9.0, processors=1, run_time=1.0, code=Path("a.py")),  # type: ignore[arg-type]
        "code is .*; a list of Python files, or True for any, is expected",
    ),
    "code has a number": (
        lambda: qops_batsim.run_again("out/easy_run.json", code=[3]),  # type: ignore[list-item]
        r"a file of code is 3 \(int\); a path is expected",
    ),
    "settings are a list": (
        lambda: qops_batsim.run("easy", "tiny_8", settings=["order=fcfs"]),  # type: ignore[arg-type]
        "settings is .*; options by name, as {'k_factor': 3}, is expected",
    ),
    "settings are a text": (
        lambda: qops_batsim.simulate("easy", "tiny_8", settings="order=fcfs"),  # type: ignore[arg-type]
        "settings is 'order=fcfs'; options by name",
    ),
    "events are a number": (
        lambda: qops_batsim.simulate("easy", "tiny_8", events=3),  # type: ignore[arg-type]
        "events is 3; a list of external events, or the path of their file, is expected",
    ),
    "events have a text": (
        lambda: qops_batsim.run("easy", "tiny_8", events=["maintenance"]),  # type: ignore[list-item]
        r"an event is 'maintenance' \(str\); an ExternalEvent is expected",
    ),
    "digests are a text": (
        lambda: qops_batsim.run("easy", "tiny_8", sha256="0"),  # type: ignore[arg-type]
        "sha256 is '0'; digests by what has them",
    ),
    "workloads are a list": (
        lambda: qops_batsim.verify("out/easy", workloads=["tiny_8"]),  # type: ignore[arg-type]
        r"workloads is \['tiny_8'\]; workloads by name",
    ),
    "workloads have a name": (
        lambda: qops_batsim.gantt("out/easy", workloads={"w0": "tiny_8"}),  # type: ignore[dict-item]
        "workloads is .*; workloads by name",
    ),
    "choices are a number": (
        lambda: qops_batsim.advise("tiny_8", 3),  # type: ignore[arg-type]
        r"choices is 3 \(int\); an AdviceChoices is expected",
    ),
    "one load of advice": (
        lambda: qops_batsim.advise("tiny_8", AdviceChoices(loads=1.2)),  # type: ignore[arg-type]
        "loads is 1.2; a list of numbers is expected",
    ),
    "stringencies are texts": (
        lambda: qops_batsim.advise("tiny_8", AdviceChoices(stringencies=("0.2",))),  # type: ignore[arg-type]
        "stringencies hold '0.2'; numbers are expected",
    ),
    "others are a name": (
        lambda: qops_batsim.advise("tiny_8", AdviceChoices(others="qops")),  # type: ignore[arg-type]
        "others is 'qops'; a list of Contestants is expected",
    ),
    "no workers": (
        lambda: qops_batsim.advise("tiny_8", workers=None),  # type: ignore[arg-type]
        r"workers is None \(NoneType\); a number of processes, or a Dask address, is expected",
    ),
    "a list to check": (
        lambda: qops_batsim.check_scheduler(["easy"]),  # type: ignore[arg-type]
        r"scheduler is \['easy'\] \(list\); a registered name, FILE.py:CLASS, a class or",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_argument_of_another_kind_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    call, message = CASES[name]
    if "out/" in str(call.__code__.co_consts):
        qops_batsim.run("easy", "tiny_8")
        qops_batsim.run("qops", "sdsc_sp2_deadlines_500")
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
