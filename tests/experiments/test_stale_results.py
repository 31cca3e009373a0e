"""Kept runs are of the code that is there now, whatever of it has changed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import Easy, InputError, Qops, QopsError, compare
from qops_batsim.experiments import Contestant, run_study, study_inputs
from qops_batsim.experiments.study_runs import read_description
from support.own_code import scheduler_text, write_files

Cli = Callable[..., Any]

DEEP = {
    "mine.py": scheduler_text("from helper import VALUE", "VALUE"),
    "helper.py": "from deep import VALUE\n",
    "deep.py": "VALUE = 1\n",
}
"""A scheduler that takes narrow jobs first; with the value -1, wide ones."""

WHAT = {"loads": [1.3], "seeds": 1, "first": 120}
OPTIONS = ("-w", "sdsc_sp2_1000", "--loads", "1.3", "--seeds", "1", "--first", "120")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    # Files of other tests have these names, too.
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("mine", "helper", "deep"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    write_files(tmp_path, DEEP)
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        del sys.modules[name]


def missed(schedulers: list[Any], **options: Any) -> dict[str, float]:
    """Return the deadlines that each scheduler misses (%)."""
    found = compare(schedulers, "sdsc_sp2_1000", **{**WHAT, **options})
    return {each["scheduler"]: each["missed_deadlines"] for each in found.records()}


def test_compare_runs_again_after_a_change_two_imports_deep() -> None:
    narrow = missed(["mine.py:Mine"])
    study = compare(["mine.py:Mine"], "sdsc_sp2_1000", **WHAT).study
    for _ in range(2):
        first = run_study(study, "out").records()
        assert len(list(Path("out/runs").iterdir())) == 1
    Path("deep.py").write_text("VALUE = -1\n")
    assert missed(["mine.py:Mine"])["Mine"] > narrow["Mine"]
    assert run_study(study, "out").records() != first
    assert len(list(Path("out/runs").iterdir())) == 2
    # The code of before has its runs again.
    Path("deep.py").write_text("VALUE = 1\n")
    assert run_study(study, "out").records() == first
    assert len(list(Path("out/runs").iterdir())) == 2
    recorded = read_description("out").identities.code
    assert isinstance(recorded, dict)
    assert recorded["Mine"].modules.keys() == {"mine.py", "helper", "deep"}


STUDY = """
name = "own"
logs = ["sdsc_sp2_1000"]
schedulers = ["easy", "mine.py:Mine"]
loads = [1.3]
seeds = 1
windows = [{skip = 0, first = 120}]
"""


def test_study_run_makes_runs_again_and_names_what_it_cannot_see(cli: Cli) -> None:
    Path("study.toml").write_text(STUDY)
    late = "def later():\n    import late\n"
    write_files(Path(), {"helper.py": f"from deep import VALUE\n\n\n{late}", "late.py": ""})
    command = ("study", "run", "study.toml", "-o", "out", "--code", "mine.py")
    first = cli(*command)
    assert first.exit_code == 0, first.err
    assert "helper, line 5: import late: this import inside a function is not cov" in first.err
    Path("deep.py").write_text("VALUE = -1\n")
    again = cli(*command)
    assert again.exit_code == 0, again.err
    assert len(list(Path("out/runs").iterdir())) == 3
    assert again.out != first.out


def test_compare_warns_of_what_it_cannot_see() -> None:
    write_files(
        Path(), {"helper.py": "VALUE = 1\n\n\ndef later():\n    import late\n", "late.py": ""}
    )
    with pytest.warns(UserWarning, match="helper, line 5: import late: this import inside a func"):
        missed(["mine.py:Mine"])


def test_code_that_changes_meanwhile_is_an_error_in_any_process() -> None:
    study = compare(["mine.py:Mine"], "tiny_8", loads=[1.0], seeds=1).study
    (case,), runs = study_inputs(study)
    Path("deep.py").write_text("VALUE = -1\n")
    with pytest.raises(InputError, match="'mine.py:Mine': its code is not the same here as where"):
        runs(case)


def test_worker_processes_run_the_code_of_now(folder: Path) -> None:
    for value in (1, -1):
        Path("deep.py").write_text(f"VALUE = {value}\n")
        alone = missed(["mine.py:Mine"], loads=[1.0, 1.3])
        assert missed(["mine.py:Mine"], loads=[1.0, 1.3], workers=2) == alone


class Wide(Easy):
    """Takes wide jobs first."""

    summary = "wide"

    def key(self, job: Any) -> float:
        return -job.processors


def test_classes_are_compared_by_their_names() -> None:
    one = type("Mine", (Wide,), {"summary": "one"})
    other = type("Mine", (Easy,), {"summary": "other", "__module__": "elsewhere"})
    found = missed([Wide, Qops, "easy", one, other, Contestant(name="third", scheduler=Wide)])
    named = f"{__name__}:Mine"
    assert [*found] == ["Wide", "qops", "easy", named, "elsewhere:Mine", "third"]
    assert found["Wide"] == found["third"] == found[named] > found["easy"]
    assert found["elsewhere:Mine"] == found["easy"]


def test_options_of_a_class_are_by_its_name() -> None:
    found = compare([Qops], "tiny_8", loads=[1.0], seeds=1, settings={"qops": {"k_factor": 3}})
    assert found.study.schedulers[0].settings == {"k_factor": 3}

    class Mine(Qops):
        """A scheduler of this function."""

    found = compare([Mine], "tiny_8", loads=[1.0], seeds=1, settings={"Mine": {"k_factor": 3}})
    assert found.study.schedulers[0].settings == {"k_factor": 3}
    with pytest.raises(InputError, match="class .*Mine cannot be imported by worker processes"):
        compare([Mine], "tiny_8", seeds=1, workers=2)


def test_a_class_that_is_defined_anew_is_run_anew() -> None:
    def define(sign: int) -> type[Easy]:
        class Mine(Easy):
            """Of one name."""

            def key(self, job: Any) -> float:
                return float(sign * job.processors)

        return Mine

    found = [
        run_study(compare([define(sign)], "sdsc_sp2_1000", **WHAT).study, "out").records()
        for sign in (1, -1)
    ]
    assert found[0][0]["missed_deadlines"] < found[1][0]["missed_deadlines"]
    assert len(list(Path("out/runs").iterdir())) == 1


def test_worker_processes_get_classes() -> None:
    from mine import Mine  # type: ignore[import-not-found]

    alone = missed([Mine, "easy"], loads=[1.0, 1.3])
    assert missed([Mine, "easy"], loads=[1.0, 1.3], workers=2) == alone


def test_a_class_whose_module_has_changed_is_an_error() -> None:
    from mine import Mine

    missed([Mine])
    Path("deep.py").write_text("VALUE = -1\n")
    with pytest.raises(InputError, match=r"deep.py: has changed since Python imported it as deep"):
        missed([Mine])


SCRIPT = """
from qops_batsim import Easy, compare

class Mine(Easy):
    "Of a notebook."

for workers in (1, 2):
    print(compare([Mine], "tiny_8", loads=[1.0, 1.3], seeds=1, workers=workers))
"""


def test_a_class_of_a_notebook_needs_one_process() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.stdout == "<Study 'comparison' of Mine: 2 runs>\n"
    assert "InputError: class Mine cannot be imported by worker processes, as one" in done.stderr


def test_out_has_the_files_of_the_command(cli: Cli) -> None:
    assert cli("compare", "easy", "mine.py:Mine", *OPTIONS, "-o", "one").exit_code == 0
    found = compare(["easy", "mine.py:Mine"], "sdsc_sp2_1000", out="two", **WHAT)
    assert len(found.outcomes) == 2
    files = sorted(each.name for each in Path("one").rglob("*") if each.is_file())
    assert files == sorted(each.name for each in Path("two").rglob("*") if each.is_file())
    for name in ("runs.csv", "table.csv", "study.json", "report.json", "deadlines.png"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes(), name
    assert run_study(found.study, "two").records() == found.records()


def test_a_run_that_fails_ends_a_comparison_with_files() -> None:
    mine = scheduler_text("", "1").replace("return 1", "raise ValueError(1)\n        return 1")
    Path("mine.py").write_text(mine)
    with pytest.raises(QopsError, match="1 runs failed, the others are in out; the first: Value"):
        missed(["easy", "mine.py:Mine"], out="out")
    assert json.loads(Path("out/report.json").read_text())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loads": "1.2"}, "loads is '1.2' .*a list of numbers is expected"),
        ({"loads": 1.2}, "loads is 1.2 .*a list of numbers is expected"),
        ({"loads": ["1.2"]}, r"loads is \['1.2'\].*a list of numbers is expected"),
        ({"loads": {1.2: 1}}, "loads is {1.2: 1}.*a list of "),
        ({"loads": None}, "loads is None; a list of "),
        ({"seeds": "3"}, "seeds is '3'.* a list of whole numbers is expected"),
        ({"seeds": 0}, "seeds is 0; a list of seeds, or their number from 1 to 10000"),
        ({"seeds": True}, "seeds is True; .*a list of "),
        ({"seeds": [1.5]}, r"seeds is \[1.5\].*a list of whole numbers is expected"),
        ({"settings": [("easy", 1)]}, "settings is .*; options by scheduler"),
        ({"settings": {"easy": "a=1"}}, "settings is .*; options by scheduler"),
        ({"deadlines": 0.2}, "deadlines is 0.2 .float.; a DeadlineChoices is expected"),
        ({"skip": "3"}, "skip is '3' .str.; a whole number is expected"),
        ({"first": 2.5}, "first is 2.5 .float.; a whole number, or None"),
        ({"workers": None}, "workers is None; a number of processes, or a Dask address,"),
        ({"workers": 0}, "number of workers is 0; a whole number above 0 is expected"),
        ({"out": 3}, "out is 3 .int.; a path, or None is expected"),
        ({"schedulers": "qops"}, "schedulers is 'qops'.* a list of names"),
        ({"schedulers": Qops}, "schedulers is .*; a list of names"),
        ({"schedulers": [3]}, "schedulers hold 3 .int.; the name of a scheduler"),
        ({"schedulers": [int]}, "schedulers hold .*; the name of a scheduler"),
        ({"schedulers": {"qops": 1}}, "schedulers is .*; a list of "),
    ],
)
def test_an_argument_of_another_kind_is_one_clear_line(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        compare(**{"schedulers": ["easy"], "workload": "tiny_8", **options})
    assert "\n" not in str(caught.value)


def test_numbers_of_numpy_are_numbers() -> None:
    import numpy as np

    found = compare(["easy"], "tiny_8", loads=np.array([1.0, 1.5]), seeds=np.arange(1, 3))
    assert found.study.loads == (1.0, 1.5)
    assert found.study.seeds == (1, 2)
