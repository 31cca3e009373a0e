"""A repeated run is compared with the one that it repeats."""

from __future__ import annotations

import csv
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError, explain, quote, run, run_again
from qops_batsim.running.repeated import Described, Differences, differences
from qops_batsim.schedulers import registry
from support.own_code import scheduler_text, write_distribution, write_files

Cli = Callable[..., Any]

FILES = {
    "mine.py": scheduler_text("from helper import VALUE", "VALUE"),
    "helper.py": "from deep import VALUE\n",
    "deep.py": "VALUE = 1\n",
    "careful.py": "from qops_batsim.schedulers.qops import Qops\nimport helper\n\n\n"
    'class Careful(Qops):\n    """QoPS that needs a module."""\n',
}
WORKLOAD = "sdsc_sp2_1000"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    write_files(tmp_path, FILES)
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        del sys.modules[name]


def again(scheduler: str = "mine") -> Differences:
    """Repeat the run of a scheduler of a file, and return how it differs."""
    name = scheduler.capitalize()
    found = run_again(f"out/{name}_run.json", code=[f"{scheduler}.py"]).differences
    assert found is not None
    return found


def change(**values: Any) -> None:
    """Change fields of the run's description; None takes one away."""
    path = Path("out/Mine_run.json")
    told = json.loads(path.read_text()) | values
    path.write_text(json.dumps({name: value for name, value in told.items() if value is not None}))


def test_a_change_two_imports_deep_ends_with_1_and_says_what_differs(cli: Cli) -> None:
    assert cli("run", "mine.py:Mine", "-w", WORKLOAD, "-q").exit_code == 0
    command = ("run", "--again", "out/Mine_run.json", "--code", "mine.py")
    same = cli(*command)
    assert same.exit_code == 0, same.err
    assert "verified" in same.err
    Path("deep.py").write_text("VALUE = -1\n")
    other = cli(*command)
    assert other.exit_code == 1
    assert other.out == ""
    assert [*other.err.splitlines()[:3], other.err.splitlines()[-1]] == [
        "deep: this module of the scheduler is not the one of out/Mine_run.json",
        "out/Mine_again_jobs.csv: differs from the file that out/Mine_run.json describes",
        "out/Mine_again_schedule.csv: differs from the file that out/Mine_run.json describes",
        "NOT the same: out/Mine_again is not the run that out/Mine_run.json describes",
    ]
    assert cli(*command, "-q").exit_code == 1
    assert "not the run that it repeats" in repr(run_again("out/Mine_run.json", code=["mine.py"]))


def test_another_comment_is_another_module_but_no_other_file() -> None:
    run("careful.py:Careful", WORKLOAD)
    assert again("careful") == Differences()
    Path("helper.py").write_text("from deep import VALUE  # the same\n")
    assert again("careful") == Differences(modules=("helper",))


def test_a_scheduler_that_lies_elsewhere_now_does_the_same() -> None:
    run("careful.py:Careful", WORKLOAD)
    write_files(Path("moved"), FILES)
    found = run_again("out/Careful_run.json", code=["moved/careful.py"])
    assert found.scheduler == "moved/careful.py:Careful"
    assert found.differences == Differences()


@pytest.mark.parametrize("ending", ["_jobs.csv", "_qos.csv"])
def test_a_file_with_another_digest_is_named(ending: str) -> None:
    run("mine.py:Mine", WORKLOAD)
    files = json.loads(Path("out/Mine_run.json").read_text())["files"]
    change(files=files | {ending: "0" * 64})
    assert again() == Differences(files=(ending,))
    # One that is not listed, and one that is not written.
    change(files={name: digest for name, digest in files.items() if name != ending})
    assert again() == Differences(files=(ending,))
    change(files=files | {"_users.csv": "0" * 64})
    assert again() == Differences(files=("_users.csv",))
    # What was filled in later is of the run as well.
    change(files=files | {ending: "0" * 64}, replaced={ending: files[ending]})
    assert again() == Differences()


def test_a_description_without_digests_is_said_to_tell_nothing(cli: Cli) -> None:
    run("mine.py:Mine", WORKLOAD)
    change(files=None, code=None)
    assert again() == Differences(is_known=False)
    told = cli("run", "--again", "out/Mine_run.json", "--code", "mine.py")
    assert told.exit_code == 0
    assert "out/Mine_run.json: holds no digests of its files, as one of an early" in told.err


def test_another_version_of_a_package_is_told(cli: Cli) -> None:
    sys.path.append(str(Path("site").absolute()))
    write_distribution(Path("site"), "plug", "1.0", {"plug.py": ""})
    write_files(Path(), {"helper.py": "import plug\nVALUE = 1\n"})
    run("mine.py:Mine", WORKLOAD)
    code = json.loads(Path("out/Mine_run.json").read_text())["code"]
    assert code["packages"] == {"plug": "1.0"}
    change(code=code | {"packages": {"plug": "0.9"}})
    assert again() == Differences(packages=("plug",))
    told = cli("run", "--again", "out/Mine_run.json", "--code", "mine.py")
    assert told.exit_code == 0
    assert "package plug, which the scheduler uses, had another version in out/Mine" in told.err


def test_explain_and_quote_refuse_other_code() -> None:
    run("careful.py:Careful", "sdsc_sp2_deadlines_500")
    with open("out/Careful_qos.csv") as stream:
        refused = [row["job_id"] for row in csv.DictReader(stream) if row["decision"] == "rejected"]
    explain("out/Careful", refused[0])
    quote("out/Careful", 1000.0, processors=1, run_time=10.0)
    Path("deep.py").write_text("VALUE = 3\n")
    message = r"'careful.py:Careful': deep, which it imports, has changed since the run"
    with pytest.raises(InputError, match=message):
        explain("out/Careful", refused[0], code=["careful.py"])
    with pytest.raises(InputError, match=message):
        quote("out/Careful", 1000.0, processors=1, run_time=10.0, code=["careful.py"])


def test_runs_of_our_own_schedulers_tell_no_code_and_are_the_same_again() -> None:
    run("qops", WORKLOAD)
    assert "code" not in json.loads(Path("out/qops_run.json").read_text())
    assert run_again("out/qops_run.json").differences == Differences()


def test_a_registered_class_is_recorded_with_its_code(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    files = {"plug.py": scheduler_text("from plug_rules import VALUE", "VALUE")}
    files["plug_rules.py"] = "VALUE = 1\n"
    entry = "[qops_batsim.schedulers]\nplug = plug:Mine\n"
    write_distribution(Path("site"), "plug", "1.0", files, entry_points__txt=entry)
    monkeypatch.syspath_prepend(folder / "site")
    registry._registered.cache_clear()
    try:
        kind = importlib.import_module("plug").Mine
        done = run(kind, WORKLOAD, out="out/plug")
        assert done.scheduler == "plug"
        recorded = json.loads(Path("out/plug_run.json").read_text())["code"]
        assert recorded["packages"] == {"plug": "1.0"}
        assert run_again("out/plug_run.json").differences == Differences()
        Path("site/plug_rules.py").write_text("VALUE = -1\n")
        found = run_again("out/plug_run.json").differences
        assert found is not None
        assert found.modules == ("plug_rules",)
        assert "_jobs.csv" in found.files
        # The class is what it was, and its module is not.
        with pytest.raises(InputError, match="class Mine: its module plug was loaded again since"):
            run(kind, WORKLOAD, out="out/plug")
        kind = importlib.import_module("plug").Mine
        assert run(kind, WORKLOAD, out="out/plug").metrics != done.metrics
        Path("site/plug_rules.py").write_text("VALUE = 1\n")
        with pytest.raises(InputError, match="plug_rules.py: has changed since Python imported it"):
            run(kind, WORKLOAD, out="out/plug")
    finally:
        registry._registered.cache_clear()


@pytest.mark.parametrize(("engine", "files"), [("batsim", ()), ("embedded", ("_schedule.csv",))])
def test_how_long_the_real_batsim_took_is_no_difference(engine: str, files: tuple[str]) -> None:
    def told(digest: str) -> Described:
        written = {"_jobs.csv": "0" * 64, "_schedule.csv": digest * 64}
        return Described(scheduler="easy", workload="w", engine=engine, files=written)

    assert differences(told("1"), told("2"), "out/easy") == Differences(files=files)
