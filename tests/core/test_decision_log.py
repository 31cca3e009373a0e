"""The decision log: what is noted in drawn cases, and that it adds up in random ones."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import Job, QosRequest, simulate
from qops_batsim.advice import PriceList
from qops_batsim.advice.explain import explain_job
from qops_batsim.core import HostDescription, HostSet, plan_log
from qops_batsim.core.decision_events import FORMAT, VERSION, LogHeader, Outlived
from qops_batsim.core.decision_events import Event as LogEvent
from qops_batsim.core.decision_lines import lines_of
from qops_batsim.core.log_rows import OUTLIVED
from qops_batsim.jobs import COMPLETED_KILLED, COMPLETED_SUCCESSFULLY
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import (
    EngineConfig,
    Event,
    JobCompleted,
    JobKilled,
    JobSubmitted,
    Message,
    ModuleDriver,
    SimulationBegins,
    Stamped,
    make_scheduler,
)
from qops_batsim.running import DecisionHistory, PlanAsker
from qops_batsim.workload import Workload
from support.decision_runs import exact, random_workload, run_files, workload_of


def log_of(scheduler: str, workload: Workload, folder: Path, **options: object) -> list[Any]:
    prefix = run_files(scheduler, workload, folder, **options)
    return [json.loads(line) for line in Path(f"{prefix}_decisions.jsonl").read_text().splitlines()]


def short(event: dict[str, Any]) -> str:
    """Write an event as `date kind job ...` without what stays the same in these cases."""
    moves = [f"{job} {old:g}>{new:g}" for job, old, new in event.get("moves", [])]
    shown = [f"{event['date']:g}", event["event"], event.get("job", ""), *moves]
    for name in ("start", "end", "deadline", "cause", "blamed", "again", "by"):
        if event["event"] != "submitted" and event.get(name) is not None:
            value = event[name]
            text = f"{value:g}" if isinstance(value, float) else str(value)
            shown.append(f"{name}={text}".replace("'", ""))
    return " ".join(each for each in shown if each).replace("w0!", "")


# One processor. A runs until 4; B waits, promised 4. At 1 C asks and goes first; at 2 D asks
# in vain: before C it would make C late, and behind C it is late itself.
#
#   |AAAACCBBBB
#    0   4 6
URGENT = [exact(0, 1, 4, 4), exact(1, 1, 4, 19), exact(1, 1, 2, 7), exact(2, 1, 3, 7)]


def test_a_drawn_run(tmp_path) -> None:
    header, *events = log_of("qops", workload_of(1, URGENT), tmp_path, k_factor=3)
    assert header["format"] == "qops-batsim decisions"
    assert (header["version"], header["scheduler"], header["processors"]) == (1, "qops", 1)
    assert header["options"]["k_factor"] == 3
    assert [short(event) for event in events] == [
        "0 submitted A",
        "0 admitted A start=0 deadline=4",
        "0 started A end=4",
        "1 submitted B",
        "1 admitted B start=4 deadline=19",
        "1 submitted C",
        "1 admitted C start=4 deadline=7",
        "1 moved B 4>6 cause=admission by=[C]",
        "2 submitted D",
        "2 refused D blamed=D",
        "4 ended A",
        "4 started C end=6",
        "6 ended C",
        "6 started B end=10",
        "10 ended B",
    ]
    assert events[0] == {
        "event": "submitted", "date": 0.0, "job": "w0!A", "submission": 0.0, "processors": 1,
        "estimate": 4.0, "deadline": 4.0,
    }  # fmt: skip
    (refused,) = (event for event in events if event["event"] == "refused")
    assert refused["reason"].startswith("its own deadline (7 s) would be missed")


def test_an_early_end(tmp_path) -> None:
    # A is expected to run until 4 and ends at 2.
    rows = [(0.0, 1, 2.0, 9.0, 4.0), exact(1, 1, 3, 9)]
    _, *events = log_of("qops", workload_of(1, rows), tmp_path)
    texts = [short(event) for event in events]
    place = texts.index("2 ended A")
    assert texts[place:] == [
        "2 ended A",
        "2 moved B 4>2 cause=early_end by=[A]",
        "2 started B end=5",
        "5 ended B",
    ]
    assert events[place]["early"] == 2.0


def test_a_job_that_outlives_its_estimate(tmp_path) -> None:
    # A is expected until 2, at 3 it still runs: it is assumed to run until 6. B has to be
    # done by 5, and is bound to its new promised end instead. C only wakes the scheduler.
    rows = [(0.0, 1, 4.0, None, 2.0), exact(1, 1, 3, 5), exact(3, 1, 1, 99)]
    _, *events = log_of("qops", workload_of(1, rows), tmp_path)
    texts = [short(event) for event in events]
    place = texts.index("3 outlived A end=6")
    assert texts[place : place + 5] == [
        "3 outlived A end=6",
        "3 moved B 2>6 cause=outlived by=[A]",
        "3 late B deadline=9",
        "3 submitted C",
        "3 admitted C start=9 deadline=99",
    ]
    assert "4 moved B 6>4 C 9>7 cause=early_end by=[A]" in texts


def test_a_job_that_is_too_wide(tmp_path) -> None:
    _, *events = log_of("msb", workload_of(1, [exact(0, 2, 4, 4)]), tmp_path)
    assert [short(event) for event in events] == ["0 submitted A", "0 refused A"]
    assert events[1]["reason"] == "asks for 2 processors, the machine has 1"


def test_jobs_without_estimate_or_deadline(tmp_path) -> None:
    rows = [(0.0, 1, 3.0, None, math.inf), (1.0, 1, 2.0, None, 2.0)]
    _, *events = log_of("qops", workload_of(1, rows), tmp_path)
    assert "estimate" not in events[0]
    assert "deadline" not in events[0]
    kinds = [(event["event"], event.get("start"), event.get("end")) for event in events]
    assert kinds[2] == ("started", None, None)
    assert kinds[4] == ("admitted", None, None)
    moved = next(event for event in events if event["event"] == "moved")
    assert moved["moves"] == [["w0!B", None, 3.0]]


def test_an_offer(tmp_path) -> None:
    rows = [exact(0, 1, 4, 4), exact(1, 1, 2, 4)]
    _, *events = log_of("fqops", workload_of(1, rows), tmp_path, tolerance_factor=3)
    admitted = [event for event in events if event["event"] == "admitted"][1]
    assert admitted["offered"] is True
    assert admitted["deadline"] == pytest.approx(6, abs=0.01)
    assert "its own deadline (4 s)" in admitted["reason"]
    _, *events = log_of("fqops", workload_of(1, rows), tmp_path)
    (refused,) = (event for event in events if event["event"] == "refused")
    assert refused["offered"] == pytest.approx(6, abs=0.01)


def test_a_kill(tmp_path) -> None:
    # At 2, A has run 2 s of 6 and must end by 20. B needs the processor until 5.
    #
    #   |AABBBAAAAAA
    #    0 2  5     11
    rows = [exact(0, 1, 6, 20), exact(2, 1, 3, 5)]
    _, *events = log_of("fqops", workload_of(1, rows), tmp_path, kill_and_restart=True)
    assert [short(event) for event in events][3:] == [
        "2 submitted B",
        "2 admitted B start=2 deadline=5",
        "2 killed A start=5 again=A#1 by=B",
        "2 ended A",
        "2 started B end=5",
        "5 ended B",
        "5 started A#1 end=11",
        "11 ended A#1",
    ]


class Engine:
    """An engine by hand, of one host and with news that take time."""

    def __init__(self) -> None:
        self.module = make_scheduler("fqops", {"kill_and_restart": True})
        self.module.keep_decisions()
        self._driver = ModuleDriver(self.module)
        self.tell(
            0.0,
            SimulationBegins(
                nb_resources=1,
                nb_compute_resources=1,
                config=EngineConfig(dynamic_jobs_enabled=True),
                compute_resources=[HostDescription(0, "h0")],
            ),
        )

    def tell(self, now: float, *events: Event) -> None:
        self._driver.exchange(Message(now, [Stamped(now, event) for event in events]))

    def submit(self, now: float, name: str, run_time: float, deadline: float) -> None:
        qos = QosRequest(deadline=deadline, estimated_runtime=run_time)
        job = Job(f"w0!{name}", now, 1, "p", qos=qos)
        self.tell(now, JobSubmitted(job.id, job))

    def events(self) -> list[Any]:
        return [json.loads(line) for line in self.module.decision_lines()]


ONE = HostSet.parse("0")


def test_news_of_a_kill_take_time() -> None:
    engine = Engine()
    engine.submit(0.0, "A", 6, 30)
    engine.submit(2.0, "B", 3, 6)
    engine.submit(2.25, "C", 1, 99)
    engine.tell(2.5, JobCompleted("w0!A", COMPLETED_KILLED, -1, ONE), JobKilled(["w0!A"]))
    assert [short(event) for event in engine.events()][3:] == [
        "2 submitted B",
        "2 admitted B start=2 deadline=6",
        "2 killed A start=5 again=A#1 by=B",
        "2.25 moved A#1 5>5.25 B 2>2.25 cause=late_start",
        "2.25 submitted C",
        "2.25 admitted C start=11.25 deadline=99",
        "2.5 ended A",
        "2.5 moved A#1 5.25>5.5 B 2.25>2.5 C 11.25>11.5 cause=late_start",
        "2.5 started B end=5.5",
    ]
    history = DecisionHistory("", Path(), HEADER, decode(engine.events()))
    (job,) = history.state_at(2.25).dying.values()
    assert (job.name, job.start, job.expected_end) == ("w0!A#1", 0, 6)
    assert history.state_at(2.5).dying == {}
    # C, quoted as it was asked.
    asker = PlanAsker(history, history.state_before("w0!C"), 2.25)
    assert asker.free_processors == 0
    assert asker.ask(history.jobs["w0!C"]).start == 11.25


def test_a_job_that_ends_before_its_kill_arrives() -> None:
    engine = Engine()
    engine.submit(0.0, "A", 6, 30)
    engine.submit(2.0, "B", 3, 6)
    ended = JobCompleted("w0!A", COMPLETED_SUCCESSFULLY, 0, ONE)
    engine.tell(2.0, ended, JobKilled([]))
    assert [short(event) for event in engine.events()][5:] == [
        "2 killed A start=5 again=A#1 by=B",
        "2 ended A",
        "2 withdrawn A#1",
        "2 started B end=5",
    ]
    history = DecisionHistory("", Path(), HEADER, decode(engine.events()))
    state = history.state_at(2)
    assert [job.asked.job for job in state.held] == ["w0!B"]
    assert (state.jobs["w0!A"].kills, state.dying) == ([], {})
    found = explain_job(history, "w0!A", PriceList(None))
    assert (found.outcome, found.start, found.end, found.kills) == ("ended", 0, 2, [])


HEADER = LogHeader(
    format=FORMAT, version=VERSION, scheduler="fqops", options={"kill_and_restart": True},
    processors=1,
)  # fmt: skip


def decode(events: list[Any]) -> list[LogEvent]:
    return [msgspec.convert(event, LogEvent) for event in events]


@pytest.mark.parametrize("scheduler", ["qops", "mrt", "fqops"])
def test_every_job_has_one_story(scheduler: str, tmp_path) -> None:
    for seed in range(10):
        workload = random_workload(random.Random(seed))
        _, *events = log_of(scheduler, workload, tmp_path)
        dates = [event["date"] for event in events]
        assert dates == sorted(dates)
        for job in workload.jobs:
            kinds = [e["event"] for e in events if e.get("job") == f"w0!{job.id}"]
            kinds = [kind for kind in kinds if kind not in ("outlived", "late")]
            assert kinds in (
                ["submitted", "refused"],
                ["submitted", "admitted", "started", "ended"],
            )


# Frequent lines are put together as texts, and readers decode them by the declared events: neither
# may say what the other does not.
@pytest.mark.parametrize(
    ("scheduler", "options"),
    [
        ("qops", {}),
        ("mrt", {}),
        ("fqops", {"kill_and_restart": True, "tolerance_factor": 4.0, "slack_factor": 2.0}),
    ],
)
def test_each_line_is_that_of_the_event_which_it_declares(
    scheduler: str, options: dict[str, object], tmp_path
) -> None:
    kinds = set()
    for seed in range(10):
        workload = random_workload(random.Random(seed))
        prefix = run_files(scheduler, workload, tmp_path, **options)
        _, *lines = Path(f"{prefix}_decisions.jsonl").read_bytes().splitlines()
        for line in lines:
            event = msgspec.json.decode(line, type=LogEvent)
            assert msgspec.json.encode(event) == line
            kinds.add(type(event).__name__)
    assert {"Submitted", "Admitted", "Moved", "Started", "Ended"} <= kinds


def test_equal_runs_write_equal_logs(tmp_path) -> None:
    workload = random_workload(random.Random(4))
    logs = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        prefix = run_files("qops", workload, tmp_path / name)
        logs.append(Path(f"{prefix}_decisions.jsonl").read_bytes())
    assert logs[0] == logs[1]


MICROSECONDS = st.integers(-(10**16), 10**16).map(lambda count: count / 1e6)
SECONDS = st.one_of(MICROSECONDS, st.integers(-100, 10**6).map(float), st.floats())


@given(st.lists(st.tuples(SECONDS, SECONDS)))
def test_numbers_are_written_as_json_has_them(dates: list[tuple[float, float]]) -> None:
    log = plan_log.PlanLog(4)
    job = Job("w0!1", 0.0, 1, "p")
    job.number = 0
    log.arrived(job)
    events = []
    for date, end in dates:
        log.now = date
        log.append(OUTLIVED, job, -1, 0, end)
        events.append(Outlived(date=date, job=job.id, end=end if math.isfinite(end) else None))
    assert b"".join(lines_of(log)).splitlines() == list(map(msgspec.json.encode, events))


def test_blocks_of_rows_do_not_show(tmp_path, monkeypatch) -> None:
    workload = random_workload(random.Random(4))
    logs = []
    for block in (plan_log.BLOCK, 3):
        monkeypatch.setattr(plan_log, "BLOCK", block)
        (tmp_path / str(block)).mkdir()
        prefix = run_files("qops", workload, tmp_path / str(block))
        logs.append(Path(f"{prefix}_decisions.jsonl").read_bytes())
    assert logs[0] == logs[1]


def test_a_module_can_run_again(tmp_path) -> None:
    module = make_scheduler("qops")
    module.keep_decisions()
    for _ in range(2):
        simulate(module, workload_of(1, URGENT), make_cluster(1))
        assert len(list(module.decision_lines())) == 15


def test_decisions_are_those_without_a_log(tmp_path) -> None:
    for seed in range(5):
        workload = random_workload(random.Random(seed))
        for name, keep in (("on", True), ("off", False)):
            (tmp_path / name).mkdir(exist_ok=True)
            run_files("msb", workload, tmp_path / name, keep=keep)
        for path in (tmp_path / "off").glob("*.csv"):
            assert path.read_bytes() == (tmp_path / "on" / path.name).read_bytes()


def test_nothing_is_kept_unless_asked_for(tmp_path) -> None:
    prefix = run_files("qops", workload_of(1, URGENT), tmp_path)
    assert Path(f"{prefix}_decisions.jsonl").exists()
    # A log of an earlier run would tell of other decisions.
    run_files("qops", workload_of(1, URGENT), tmp_path, keep=False)
    assert not Path(f"{prefix}_decisions.jsonl").exists()
    assert not make_scheduler("easy").keep_decisions()
