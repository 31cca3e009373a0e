"""One rule for promises that their scheduler breaks, in every command: counted, or an error."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError, check_scheduler, compare, run
from qops_batsim.errors import SimulationError
from qops_batsim.experiments import listed_cases
from qops_batsim.experiments.study_report import csv_of
from qops_batsim.running.contract import SchedulerContractError
from support.listed_cases import few_cases

BEST_EFFORT = """
from qops_batsim import Easy, QueueScheduler


class BestEffort(Easy):
    def arrived(self, job):
        super().arrived(job)
        if job.qos is not None and job.qos.deadline is not None:
            self.note(self.manager.record(job), job)

    def note(self, record, job):
        record.admitted_deadline = job.qos.deadline


class Starts(BestEffort):
    def note(self, record, job):
        record.latest_start = job.submission_time


class Refuses(QueueScheduler):
    def arrived(self, job):
        self.manager.record(job).admitted_deadline = 1e9
        super().arrived(job)

    def schedule(self):
        for job in self.queue:
            if job.id.endswith("5"):
                self.manager.reject(job, "changed its mind")
            elif job.processors <= self.manager.free:
                self.start(job)
"""
STUDY = """
name = "c"
logs = ["sdsc_sp2_1000"]
windows = [{first = 60}]
schedulers = ["easy", "best.py:BestEffort"]
seeds = 1
"""
BEST = "best.py:BestEffort"
LATE = "although it was admitted"


@pytest.fixture(autouse=True)
def _file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "best.py").write_text(BEST_EFFORT)
    (tmp_path / "c.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(listed_cases, "usual_places", lambda: [tmp_path / "none"])
    few_cases(tmp_path)


COMMANDS = {
    "run": ["run", BEST, "-w", "sdsc_sp2_deadlines_500", "-o", "out/x"],
    "compare": ["compare", "easy", BEST, "--first", "60", "--loads", "1.2",
                "--seeds", "1", "-o", "out"],
    "study": ["study", "run", "c.toml", "-o", "out", "--code", "best.py"],
    "benchmark": ["study", "run", "few.toml", BEST, "-o", "out"],
    "schedulers": ["schedulers", BEST, "--check"],
}  # fmt: skip
COUNTED = {
    "run": "129 promises are broken",
    "compare": "Promises broken in a run: BestEffort up to",
    "study": "Promises broken in a run: BestEffort up to",
    "benchmark": "promises broken or replaced (%)",
    "schedulers": "promises broken: 2; job 'w0!1': finishes at 20.000000 s",
}
FAILED = {
    "run": (1, "NOT verified: 129 violations"),
    "compare": (1, LATE),
    "study": (1, LATE),
    "benchmark": (1, LATE),
    "schedulers": (2, "case 'deadlines': job 'w0!1': finishes at 20.000000 s, but was admitted"),
}


# The command prints it on a line, but for a filter that makes it an error.
@pytest.mark.filterwarnings("default:case .*promises broken:UserWarning")
@pytest.mark.parametrize("name", COMMANDS)
def test_they_are_counted_unless_they_are_to_be_an_error(cli, name: str) -> None:
    counted = cli(*COMMANDS[name])
    assert counted.exit_code == 0, counted.err
    assert COUNTED[name] in counted.out + counted.err
    failed = cli(*COMMANDS[name], "--on-broken-promise", "fail")
    code, said = FAILED[name]
    assert failed.exit_code == code
    assert said in failed.out + failed.err
    refused = cli(*COMMANDS[name], "--on-broken-promise", "ignore")
    assert refused.exit_code == 2
    assert "on_broken_promise is 'ignore'" in refused.err


def test_run_prints_metrics_and_verify_goes_on_to_report_them(cli) -> None:
    done = cli(*COMMANDS["run"])
    assert "BestEffort promised 500 of 500 deadlines and kept 371" in done.out
    assert "verified, 27 rules hold" in done.err
    verified = cli("verify", "out/x")
    assert verified.exit_code == 1
    assert "admitted-deadline 129" in verified.out + verified.err


def test_tables_have_the_share(cli) -> None:
    cli(*COMMANDS["study"])
    compared = compare(["easy", BEST], loads=[1.2], seeds=1, first=60)
    for text in (csv_of(compared.records()), Path("out/runs.csv").read_text()):
        rows = csv.DictReader(text.splitlines())
        found = {row["scheduler"]: row["broken_promises"] for row in rows}
        assert found["easy"] == ""
        assert float(found["BestEffort"]) > 0
    frame = compared.to_frame().set_index("scheduler")
    assert frame.broken_promises["BestEffort"] == compared.outcomes[1].value("broken_promises")


def test_a_study_file_says_it_as_well(cli) -> None:
    path = Path("c.toml")
    path.write_text('on_broken_promise = "fail"\n' + STUDY)
    assert cli(*COMMANDS["study"]).exit_code == 1
    assert cli(*COMMANDS["study"], "--on-broken-promise", "count").exit_code == 0
    path.write_text('on_broken_promise = "ignore"\n' + STUDY)
    refused = cli(*COMMANDS["study"])
    assert refused.exit_code == 2
    assert "c.toml: field on_broken_promise is 'ignore'" in refused.err


def _compare(name: str, **rule: str) -> Any:
    return compare([f"best.py:{name}"], loads=[1.2], seeds=1, first=60, **rule)


def _check(name: str, **rule: str) -> Any:
    return check_scheduler(f"best.py:{name}", **rule)


@pytest.mark.parametrize(
    ("name", "share", "error"),
    [
        ("BestEffort", (1, 99), "ends after its promised deadline"),
        ("Starts", (1, 99), "starts after its promised latest start"),
        ("Refuses", (1, 99), "promised deadline|but is refused"),
    ],
)
def test_every_kind_of_promise_is_counted(
    name: str, share: tuple[float, float], error: str
) -> None:
    low, high = share
    (row,) = _compare(name).outcomes
    assert row.metrics is not None
    assert low < row.metrics.broken_promises < high
    with pytest.raises(SimulationError, match=error):
        _compare(name, on_broken_promise="fail")


@pytest.mark.parametrize("call", [_compare, _check])
def test_functions_take_the_same_rule(call: Callable[..., Any]) -> None:
    if call is _check:
        with pytest.warns(UserWarning, match="promises broken") as told:
            assert call("BestEffort") == 22
        assert any("case 'more deadlines than can be met'" in str(each.message) for each in told)
    with pytest.raises((SimulationError, SchedulerContractError)):
        call("BestEffort", on_broken_promise="fail")
    with pytest.raises(InputError, match="on_broken_promise is 'never' .known: count, fail."):
        call("BestEffort", on_broken_promise="never")


def test_a_run_has_its_broken_promises() -> None:
    done = run(BEST, "sdsc_sp2_deadlines_500", out="out/x")
    assert len(done.broken_promises) == len(done.violations) == 129
    assert done.metrics["deadlines"]["broken"]["jobs"] == 129


def test_who_promises_nothing_is_scored_by_what_is_in_time(cli) -> None:
    """EASY ends the same jobs in time as one that promises all deadlines and plans for none."""
    scored = cli(*COMMANDS["benchmark"])
    table = scored.out.split("Versioned")[0]
    rows = {line.split()[0]: line.split("│")[2:] for line in table.splitlines() if "│" in line}
    jobs, work, *_ = rows["easy"]
    assert (jobs, work) == tuple(rows["BestEffort"][:2])
    assert jobs.split()[0] != "0.00"
    cli("run", "easy", "-w", "sdsc_sp2_deadlines_500", "-o", "out/easy", "-q")
    told = cli("metrics", "out/easy").out
    assert "met as asked       │  371" in told
    assert "promise kept" not in told
    assert "promise broken" not in told
    beside = cli("metrics", "out/easy", "out/easy").out
    lines = (line for line in beside.splitlines() if "promise kept (jobs)" in line)
    assert [cell.strip() for cell in next(lines).split("│")[1:]] == ["-", "-"]
