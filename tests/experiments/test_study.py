"""Studies: what they run, read from a file or made, and that they are finished in any way."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qops_batsim import InputError
from qops_batsim.experiments import (
    SHARE,
    Contestant,
    DeadlineRuns,
    LogWindow,
    Scenario,
    Study,
    StudyLog,
    StudyRuns,
    contestants_of,
    find_trace,
    mean_interval,
    page_tables,
    paired_difference,
    read_study,
    read_study_runs,
    run_study,
    study_of,
    summaries,
)
from qops_batsim.experiments import study_runs as module
from qops_batsim.experiments.study_report import csv_of, summary_records, tables_of
from qops_batsim.experiments.study_runs import status_of
from support.swf_lines import swf_text

TEXT = """
name = "small"
schedulers = ["easy", "msb", "qops", "qops:k_factor=1"]
baseline = "msb"
loads = [1.0, 1.4]
seeds = 2
windows = [{first = 60}, {skip = 60, first = 60}, {skip = 120, first = 60}]
logs = ["sdsc_sp2_1000"]
"""

FOUR = ("easy", "msb", "qops", "qops:k_factor=1")


def study(**changes: object) -> Study:
    made = Study(
        name="small",
        logs=(StudyLog(name="sdsc_sp2_1000", file="sdsc_sp2_1000"),),
        schedulers=contestants_of(["easy", "msb", "qops", "qops:k_factor=1"]),
        baseline="msb",
        loads=(1.0, 1.4),
        seeds=(1, 2),
        windows=tuple(LogWindow(skip=skip, first=60) for skip in (0, 60, 120)),
    )
    return msgspec.structs.replace(made, **changes)


def all_told(directory: Path) -> str:
    """Return everything that the tables of a study tell."""
    runs = read_study_runs(directory)
    return csv_of(runs.records()) + csv_of(summary_records(summaries(runs)))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("study")
    run_study(study(), directory)
    return directory


@pytest.fixture(scope="module")
def runs(finished: Path) -> StudyRuns:
    return read_study_runs(finished)


def test_a_file_is_the_study_made_of_its_values(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(TEXT)
    found = read_study(path)
    # What a file says nothing of is made from the log's walltimes.
    assert found.models.keys() == {"users"}
    assert found.deadlines_by == ("users",)
    models = {"estimates": (), "deadlines_by": ()}
    exact = msgspec.structs.replace(found, **models)
    assert exact == study()
    assert exact.key == study().key != found.key
    assert study(loads=(1.0,)).key != found.key
    again = msgspec.json.decode(msgspec.json.encode(found), type=Study)
    assert (again, again.key) == (found, found.key)


def test_one_value_stands_for_a_list_and_tables_for_texts() -> None:
    found = study_of(
        {
            "name": "x",
            "logs": {"name": "KTH", "file": "kth.swf.gz", "processors": 100},
            "schedulers": ["fcfs", {"scheduler": "qops", "settings": {"k_factor": 1}}],
            "loads": 1,
            "seeds": [7],
            "windows": {"first": 0},
        },
        source="x.toml",
    )
    assert found.logs == (StudyLog(name="KTH", file="kth.swf.gz", processors=100),)
    assert found.schedulers[1] == Contestant(
        name="qops", scheduler="qops", settings={"k_factor": 1}
    )
    assert (found.loads, found.seeds, found.windows) == ((1.0,), (7,), (LogWindow(first=0),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = [", "not TOML .Invalid value.*a study \\(TOML\\) is expected"),
        ("nam = 1", "nam is not known; did you mean 'name'"),
        ("name = 1", "field name is 1; a text is expected"),
        ("", "field name is missing; a study is expected"),
        (TEXT.replace("1.4", '"a"'), "field loads.1. is 'a'; a number is expected"),
        (TEXT.replace("1.4", "0.4"), "load is 0.4; by duplication, a number from 1 to 100"),
        (TEXT.replace("1.4", "1.0"), "load 1 is given twice"),
        (TEXT.replace("seeds = 2", "seeds = 0"), "seeds is 0; a list of seeds, or their number"),
        (TEXT.replace("seeds = 2", "seeds = [-1]"), "seed is -1"),
        (f"seeds = {5000 * '1'}", "integer string conversion"),
        (TEXT.replace("k_factor", "k"), "scheduler 'qops' has no option 'k'"),
        (TEXT.replace('"easy"', '"eazy"'), "unknown scheduler 'eazy'; did you mean 'easy'"),
        (TEXT.replace('baseline = "msb"', 'baseline = "mrt"'), "baseline is 'mrt'"),
        (TEXT.replace("skip = 60", "skip = -1"), "skip is -1"),
        (
            TEXT.replace("skip = 60", "skip = 59"),
            r"windows of log sdsc_sp2_1000: 0\+60 and 59\+60 share jobs",
        ),
        (
            TEXT.replace("skip = 60", "skp = 60"),
            "windows.1..skp is not known; did you",
        ),
        (TEXT + "metrics = ['waits']", "metric is 'waits'"),
        (TEXT + "methods = 'magic'", "method is 'magic'"),
        (TEXT + "stringencies = 1.5", "stringency is 1.5"),
        (TEXT + "deadline_shares = 0.5\nartificial = 'x'", "artificial is 'x'"),
        (TEXT + "loads = []", "Cannot overwrite a value"),
        (TEXT.replace("[1.0, 1.4]", "[]"), "no load to compare"),
        (f"need = {{mix = {{slack = 0.5}}}}\n{TEXT}", "factor 0, hours 0 and slack 0.5 add up to"),
        (f"need = {{mx = 1}}\n{TEXT}", "field need.mx is not known; did you mean 'mix'"),
        (
            f"need = {{at = ['9.00']}}\n{TEXT}",
            r"need.at.0. is '9.00'; a time of day .HH:MM. such as .09:00. is expected",
        ),
        (f"need = {{mix = {{hour = 1}}}}\n{TEXT}", "need.mix.hour is not known; did you mean 'ho"),
    ],
)
def test_a_mistake_in_a_file_is_told(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "study.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        read_study(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_a_log_that_is_nowhere_is_told_before_anything_is_run(tmp_path: Path) -> None:
    lost = study(logs=(StudyLog(name="a", file="nothing.swf"),))
    with pytest.raises(InputError, match="nothing.swf: no such file"):
        run_study(lost, tmp_path / "out")
    wrong = study(logs=(StudyLog(name="a", file="sdsc_sp2_1000", processors=5),))
    with pytest.raises(InputError, match="of 128 processors, converted already; processors 5"):
        run_study(wrong, tmp_path / "out")
    for skip, first in ((1000, 60), (900, 200), (900, 101)):
        beyond = study(windows=(LogWindow(first=first), LogWindow(skip=skip, first=first)))
        with pytest.raises(InputError, match="has 1000 usable jobs, too few for window .skip = "):
            run_study(beyond, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_where_a_log_was_looked_for_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "KTH-2.swf.gz").write_bytes(b"")
    monkeypatch.setenv("QOPS_SHARED", str(tmp_path))
    for name, near in (("KTH-2.1.swf.gz", "KTH-2.swf.gz"), ("sdsc_sp2_100", "sdsc_sp2_1000")):
        with pytest.raises(InputError) as caught:
            find_trace(name, tmp_path / "study")
        places = f"in {tmp_path}/study, here, in {tmp_path}/traces ($QOPS_SHARED/traces), in "
        assert str(caught.value).startswith(f"{name}: no such file {places}")
        assert f"nor one of the shipped workloads; did you mean '{near}'?" in str(caught.value)
    monkeypatch.delenv("QOPS_SHARED")
    with pytest.raises(InputError, match=r"here, in \.\./shared/traces \(\$QOPS_SHARED is not set"):
        find_trace("nothing.swf", Path())


def test_a_job_that_no_scheduler_can_start_is_refused_before_anything_is_run(
    tmp_path: Path,
) -> None:
    for asked in (0, 9):
        fields = [{"id": i, "subtime": 0, "res": each, "profile": "delay60"}
                  for i, each in enumerate((2, 8, asked, 1))]  # fmt: skip
        log = {"nb_res": 8, "jobs": fields, "profiles": {"delay60": {"type": "delay", "delay": 60}}}
        path = tmp_path / "log.json"
        path.write_text(json.dumps(log))
        log_of = (StudyLog(name="a", file=str(path)),)
        mine = study(logs=log_of, windows=(LogWindow(skip=1, first=3),))
        with pytest.raises(InputError) as error:
            run_study(mine, tmp_path / "out")
        wanted = f"job '2' asks for {asked} processors of 8; jobs that can run are expected"
        assert str(error.value) == f"{path}: {wanted}"
        run_study(msgspec.structs.replace(mine, windows=(LogWindow(first=2),)))
    assert not (tmp_path / "out").exists()


def test_what_cannot_matter_makes_no_other_run() -> None:
    def same(one: dict[str, object], other: dict[str, object]) -> bool:
        first, second = Scenario(log="a", **one), Scenario(log="a", **other)
        return first.canonical() == second.canonical()

    assert same({"seed": 1}, {"seed": 2})
    assert same({"load": 1.2, "method": "expansion", "seed": 1}, {**_expansion(), "seed": 9})
    assert same({"relaxation": 5.0, "artificial": "none"}, {})
    assert same({"share": 0.0, "stringency": 0.5, "seed": 3}, {"share": 0.0})
    assert not same({"load": 1.2, "seed": 1}, {"load": 1.2, "seed": 2})
    assert not same({"share": 0.5, "seed": 1}, {"share": 0.5, "seed": 2})
    assert not same({"share": 0.5, "relaxation": 5.0}, {"share": 0.5})
    assert not same({"stringency": 0.5}, {})


def _expansion() -> dict[str, object]:
    return {"load": 1.2, "method": "expansion"}


def test_a_case_is_called_the_same_in_every_process() -> None:
    case = Contestant(name="a", scheduler="qops", settings={"k_factor": 1}).case(Scenario(log="a"))
    again = pickle.loads(pickle.dumps(case))
    fresh = msgspec.json.decode(msgspec.json.encode(case), type=type(case))
    texts = {msgspec.json.encode(each, order="deterministic") for each in (case, again, fresh)}
    assert len(texts) == 1


def test_points_have_artificial_deadlines_only_where_there_are_any() -> None:
    made = study(
        loads=(1.0,),
        deadline_shares=(1.0, 0.5),
        artificial=("run-time", "turnaround", "none"),
        relaxations=(2.0, 5.0),
    )
    found = [(each.deadline_share, each.artificial, each.relaxation) for each in made.points()]
    assert found == [
        (1.0, "run-time", 2.0),
        *((0.5, rule, factor) for rule in ("run-time", "turnaround") for factor in (2.0, 5.0)),
        (0.5, "none", 2.0),
    ]


def test_each_different_run_is_made_once(finished: Path, runs: StudyRuns) -> None:
    status = status_of(finished)
    # At load 1 both seeds are one run.
    assert (status.cells, status.runs) == (4 * 3 * (2 + 2), 4 * 3 * (1 + 2))
    assert (status.finished, status.failed) == (status.runs, 0)
    assert len(list((finished / "runs").iterdir())) == status.runs
    assert sum(each.repeated for each in runs.outcomes) == status.cells - status.runs


def test_a_study_that_grows_makes_only_what_is_new(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    real = DeadlineRuns.__call__

    def counted(self, case):
        made.append(case)
        return real(self, case)

    monkeypatch.setattr(DeadlineRuns, "__call__", counted)
    for path in (finished / "runs").iterdir():
        (tmp_path / "runs").mkdir(exist_ok=True)
        (tmp_path / "runs" / path.name).write_bytes(path.read_bytes())
    run_study(study(), tmp_path)
    assert made == []
    assert all_told(tmp_path) == all_told(finished)
    # The option's default is no new run.
    more = [
        *study().schedulers,
        Contestant(name="b", scheduler="qops", settings={"k_factor": 5}),
    ]
    run_study(study(schedulers=tuple(more), seeds=(1, 2, 3)), tmp_path)
    assert len(made) == 4 * 3
    assert {case.scenario.seed for case in made} == {3}


def test_means_are_over_windows_and_differences_are_paired(runs: StudyRuns) -> None:
    found = {(each.point.load, each.scheduler): each for each in summaries(runs)}
    values: dict[tuple[str, int, int], float] = {}
    for each in runs.outcomes:
        if each.cell.point.load == 1.4 and each.metrics is not None:
            cell = each.cell
            values[cell.contestant, cell.window.skip, cell.seed] = each.metrics.unadmitted_jobs

    def over_windows(name: str) -> list[float]:
        return [sum(values[name, skip, seed] for seed in (1, 2)) / 2 for skip in (0, 60, 120)]

    one = found[1.4, "qops"]
    assert (one.over, one.runs, one.failed) == ("windows", 6, 0)
    assert one.metrics["unadmitted_jobs"] == mean_interval(over_windows("qops"), SHARE)
    expected = paired_difference(over_windows("qops"), over_windows("msb"))
    difference = one.difference["unadmitted_jobs"]
    assert difference is not None
    assert difference.ends == pytest.approx(expected.ends)
    assert found[1.0, "qops"].runs == 3
    assert found[1.0, "easy"].verdict == ""  # It refuses nothing, and is not tested on refusals.
    assert (found[1.4, "msb"].verdict, found[1.4, "msb"].chance) == ("", None)


def test_with_one_window_repetitions_are_seeds(tmp_path: Path) -> None:
    small = study(windows=(LogWindow(first=30),), schedulers=contestants_of(["msb", "qops"]))
    found = summaries(run_study(small, tmp_path))
    assert {each.over for each in found} == {"seeds"}
    counts = [each.metrics["unadmitted_jobs"].count for each in found]
    assert counts == [1, 1, 2, 2]
    assert [each.verdict for each in found] == ["", "equal", "", "equal"]


def test_seeds_of_one_window_do_not_stand_for_windows_to_come(runs: StudyRuns) -> None:
    """A study that goes on tells means, and judges nothing before it has other windows."""
    outcomes = [
        msgspec.structs.replace(each, metrics=None) if each.cell.window.skip else each
        for each in runs.outcomes
    ]
    found = summaries(StudyRuns(runs.description, outcomes))
    assert {each.over for each in found} == {"windows"}
    assert {each.metrics["unadmitted_jobs"].count for each in found} == {1}
    assert {each.verdict for each in found} == {"", "too few"}


def test_two_names_of_one_log_have_each_its_own_windows(tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text(swf_text([{"submit_time": 10.0 * i} for i in range(12)]))
    logs = tuple(
        StudyLog(name=f"first {first}", file="log.swf", windows=(LogWindow(first=first),))
        for first in (4, 10, 3)
    )
    made = study(logs=logs, schedulers=contestants_of(["easy"]), baseline="", loads=(1.0,))
    found = run_study(made, tmp_path / "runs", logs=tmp_path).outcomes
    jobs = [each.metrics.jobs for each in found if not each.repeated and each.metrics is not None]
    assert jobs == [4, 10, 3]


def test_a_failed_run_is_recorded_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = DeadlineRuns.__call__

    def failing(self, case):
        if case.scheduler == "qops" and case.scenario.skip == 60:
            raise ZeroDivisionError("by nothing")
        return real(self, case)

    small = study(loads=(1.0,), schedulers=contestants_of(["msb", "qops"]))
    with monkeypatch.context() as patch:
        patch.setattr(DeadlineRuns, "__call__", failing)
        runs = run_study(small, tmp_path)
    assert {each.error for each in runs.outcomes} == {None, "ZeroDivisionError: by nothing"}
    status = status_of(tmp_path)
    assert (status.runs, status.finished, status.failed) == (6, 5, 1)
    found = summaries(runs)[1]
    assert (found.runs, found.failed) == (2, 1)
    assert page_tables(runs)[0].rows[1][1] == "2 (1 failed)"
    # It is not tried again unless that is asked for.
    assert status_of(tmp_path) == status
    run_study(small, tmp_path)
    assert status_of(tmp_path).failed == 1
    run_study(small, tmp_path, retry=True)
    assert (status_of(tmp_path).finished, status_of(tmp_path).failed) == (6, 0)


def test_a_table_has_columns_for_what_varies(runs: StudyRuns) -> None:
    (table,) = page_tables(runs)
    headings, rows = table.headings, table.rows
    assert headings[:3] == ["load", "scheduler", "runs"]
    assert headings[-2:] == ["unadmitted jobs (%) less msb", "verdict"]
    assert headings[-5:-2] == ["deadlines met (%)", "wait (s)", "bounded slowdown"]
    assert "-" not in {cell for row in rows for cell in row}
    assert len(rows) == 8
    assert all(len(row) == len(headings) for row in rows)


def test_tables_are_written_in_full(runs: StudyRuns) -> None:
    found = tables_of(runs)
    assert [*found] == ["runs.csv", "table.csv"]
    lines = [text.splitlines() for text in found.values()]
    assert [len(each) for each in lines] == [1 + len(runs.outcomes), 1 + 8]
    assert lines[1][0].endswith("verdict,chance")


def test_two_studies_into_one_directory_each_return_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the runs of the first are made, a second one begins and ends there."""
    one, other = (study(loads=(load,), windows=(LogWindow(first=60),)) for load in (1.0, 1.4))
    alone = [run_study(each) for each in (one, other)]
    there: list[StudyRuns] = []
    made = module.run_cases

    def run_cases(*args: Any, **options: Any) -> Any:
        if not there:
            there.append(alone[0])
            there[0] = run_study(other, tmp_path)
        return made(*args, **options)

    monkeypatch.setattr(module, "run_cases", run_cases)
    first = run_study(one, tmp_path)
    assert [each.study.loads for each in (first, *there)] == [(1.0,), (1.4,)]
    assert [each.records() for each in (first, *there)] == [each.records() for each in alone]


def test_a_directory_without_study_is_told(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"study.json: no such file \(the description that"):
        read_study_runs(tmp_path)
    (tmp_path / module.DESCRIPTION).write_text("{}")
    with pytest.raises(InputError, match=r"study.json: .*; the description that"):
        status_of(tmp_path)
    described = json.loads((finished / module.DESCRIPTION).read_text())
    described["identities"]["schedulers"] = {}
    (tmp_path / module.DESCRIPTION).write_text(json.dumps(described))
    with pytest.raises(InputError, match="identities lack 'easy'; the description"):
        status_of(tmp_path)


KILLS = int(os.environ.get("QOPS_STUDY_KILLS", "2"))
"""Random points at which the study of the next test is killed."""


def test_killed_at_random_points_it_ends_with_the_same_tables(
    finished: Path, tmp_path: Path
) -> None:
    path = tmp_path / "study.toml"
    path.write_text(TEXT)
    whole, ends = status_of(finished).runs, []
    for point in range(KILLS):
        chance = random.Random(point)
        out = tmp_path / f"out{point}"
        words = ["study", "run", str(path), "--out", str(out), "--workers", str(1 + point % 2)]
        child = subprocess.Popen(
            [sys.executable, "-c", "from qops_batsim.cli.main import main; main()", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        wanted = chance.randrange(whole)
        while child.poll() is None and len(list(out.glob("runs/*.json"))) < wanted:
            time.sleep(0.002)
        time.sleep(chance.random() * 0.05)
        child.send_signal(signal.SIGKILL)
        _, said = child.communicate()
        ends.append(child.returncode)
        # Not because it could not begin.
        assert child.returncode in (0, -signal.SIGKILL), said
        assert len(list(out.glob("runs/*.json"))) >= wanted
        run_study(study(), out)
        assert all_told(out) == all_told(finished)
    assert -signal.SIGKILL in ends


def test_the_best_possible_stands_beside_the_schedulers(tmp_path: Path) -> None:
    pytest.importorskip("ortools", reason="the extra bound (OR-tools) is not installed")
    asked = {"windows": (LogWindow(first=40), LogWindow(skip=40, first=40)), "loads": (1.4,)}
    made = run_study(study(**asked, bound=0.2), tmp_path / "bound")
    found = {each.scheduler: each for each in summaries(made)}
    assert list(found) == ["easy", "msb", "qops", "qops:k_factor=1", "best known", "bound"]
    for metric in ("unadmitted_jobs", "unadmitted_work"):
        means = [found[name].metrics[metric].mean for name in ("bound", "best known", "qops")]
        assert 0 <= means[0] <= means[1] + 1e-9 <= means[2] + 2e-9
    assert found["bound"].runs == 4
    assert found["bound"].metrics["utilization"] is None
    assert found["bound"].verdict == found["best known"].verdict == ""
    again = read_study_runs(tmp_path / "bound")
    assert again.outcomes == made.outcomes
    without = run_study(study(**asked), tmp_path / "bound")
    assert summaries(without) == [each for each in summaries(made) if each.scheduler in FOUR]


def test_a_scheduler_is_not_called_as_a_line_of_bounds() -> None:
    pytest.importorskip("ortools", reason="the extra bound (OR-tools) is not installed")
    named = Contestant(name="bound", scheduler="qops")
    with pytest.raises(InputError, match="named 'bound', which is the name of a bound's line"):
        study(schedulers=(named,), baseline="", bound=1.0).check()
    with pytest.raises(InputError, match="bound is 0"):
        study(bound=0.0).check()
