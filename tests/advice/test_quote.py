"""Quotes are what the scheduler itself would have answered."""

from __future__ import annotations

import math
import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qops_batsim import InputError, Job, explain, quote
from qops_batsim.advice import PriceList
from qops_batsim.core import HostSet
from qops_batsim.core.decision_events import Admitted, Killed, Moved, Refused
from qops_batsim.engine import EngineOptions, events_in_order, maintenance_events
from qops_batsim.running import DecisionHistory, PlanAsker, read_history
from qops_batsim.running.bisection import earliest_deadline
from qops_batsim.workload import Workload
from support import host_failures
from support.decision_runs import exact, history_of, random_workload, run_files, workload_of

SCHEDULERS = [
    ("qops", {}),
    ("msb", {}),
    ("mrt", {}),
    ("fqops", {"tolerance_factor": 3.0}),
    ("fqops", {"tolerance": "random", "tolerance_factor": 3.0, "slack_factor": 1.5}),
    ("fqops", {"kill_and_restart": True, "max_kills_per_job": 2, "tolerance_factor": 2.0}),
    ("fqops", {"kill_and_restart": True, "restart_price": 9.0}),
]
every_scheduler = pytest.mark.parametrize(("scheduler", "options"), SCHEDULERS)


def answers_of(history: DecisionHistory) -> dict[str, Admitted | Refused]:
    return {e.job: e for e in history.events if isinstance(e, (Admitted, Refused))}


def check_every_job(history: DecisionHistory) -> tuple[int, int]:
    """Quote each job's own request just before it was answered; count admitted and refused."""
    taken = refused = 0
    causes = ("admission", "kill")
    admissions = (e for e in history.events if isinstance(e, Moved) and e.cause in causes)
    kills: dict[str, list[str]] = {}
    for event in history.events:
        if isinstance(event, Killed):
            kills.setdefault(event.by, []).append(event.job)
    moves = {e.by[0]: e.moves for e in admissions}
    # Where a start so late that all dates move follows at once, a quote tells the dates after it.
    shifted = {e.date for e in history.events if isinstance(e, Moved) and e.cause == "late_start"}
    for job_id, answer in answers_of(history).items():
        asked = history.jobs[job_id]
        asker = PlanAsker(history, history.state_before(job_id), asked.date)
        quoted = asker.ask(asked)
        if isinstance(answer, Refused):
            refused += 1
            assert not quoted.admitted
            assert quoted.reason == answer.reason
            assert quoted.offered == answer.offered
            assert quoted.blamed == (None if answer.blamed == job_id else answer.blamed)
            continue
        taken += 1
        assert quoted.admitted, quoted.reason
        if answer.date in shifted:
            continue
        assert quoted.start == answer.start
        assert quoted.offered == (answer.deadline if answer.offered else None)
        assert quoted.killed == kills.get(job_id, [])
        assert quoted.moved == {job: (old, new) for job, old, new in moves.get(job_id, [])}
    return taken, refused


@every_scheduler
@pytest.mark.parametrize("latency", [0.0, 0.005])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=settings.default.max_examples // 8)
def test_a_quote_is_what_the_run_answered(
    scheduler: str, options: dict[str, object], latency: float, seed: int, tmp_path_factory
) -> None:
    folder = tmp_path_factory.mktemp("quotes")
    workload = random_workload(random.Random(seed))
    check_every_job(history_of(scheduler, workload, folder, latency=latency, **options))


def test_all_verdicts_occur_in_what_is_quoted(tmp_path) -> None:
    taken = refused = 0
    for seed in range(12):
        history = history_of("qops", random_workload(random.Random(seed)), tmp_path)
        counts = check_every_job(history)
        taken, refused = taken + counts[0], refused + counts[1]
    assert taken > 30
    assert refused > 30


# One processor. A runs until 4, B waits: promised 4 to 8, deadline 9. At 1 a user asks for
# 2 seconds.
#
#   |AAAABBBB     last: until 10    between: until 6, B ends at 10 > 9
#    0   4   8
WAITS = [exact(0, 1, 4, 4), exact(1, 1, 4, 9)]


def ask(history: DecisionHistory, time: float, **wish: float | None):
    given = {"processors": 1, "run_time": 2, "deadline": None, "prices": PriceList(None), **wish}
    return quote(history, time, **given)


@pytest.mark.parametrize("scheduler", ["qops", "msb", "mrt", "fqops"])
def test_a_drawn_quote(scheduler: str, tmp_path) -> None:
    history = history_of(scheduler, workload_of(1, WAITS), tmp_path)
    refused = ask(history, 1.0, deadline=6.0)
    assert (refused.admitted, refused.blamed) == (False, "w0!B" if scheduler != "msb" else None)
    assert "would be missed" in refused.reason
    assert (refused.running_jobs, refused.waiting_jobs, refused.free_processors) == (1, 1, 0)
    assert refused.earliest is not None
    assert refused.earliest.deadline == pytest.approx(10, abs=0.02 if scheduler == "fqops" else 0)
    assert (refused.earliest.start, refused.earliest.end) == (8, 10)
    assert refused.moved == {}
    granted = ask(history, 1.0, deadline=9.0)
    assert granted.admitted
    assert granted.granted is not None
    assert (granted.granted.deadline, granted.granted.start) == (10, 8)
    assert (refused.offered is not None) == (scheduler == "fqops")


def test_a_run_is_quoted_by_its_prefix(tmp_path) -> None:
    prefix = run_files("qops", workload_of(1, WAITS), tmp_path)
    found = quote(prefix, 1.0, processors=1, run_time=2)
    assert (found.run, found.admitted) == (str(prefix), True)
    assert found.earliest is not None
    assert found.earliest.deadline == 10
    assert found.charges_unknown.startswith("tests: ")


def test_the_moment_counts_what_happened_at_it_or_not(tmp_path) -> None:
    history = history_of("qops", workload_of(1, WAITS), tmp_path)
    assert ask(history, 1.0).waiting_jobs == 1
    assert ask(history, 1.0, before=True).waiting_jobs == 0
    assert ask(history, 4.0).waiting_jobs == 0
    assert ask(history, 4.0, before=True).running_jobs == 1
    assert ask(history, 8.0).free_processors == 1
    for time in (-1.0, 8.1):
        with pytest.raises(InputError, match="a date from 0 to 8 s, the end of the run"):
            ask(history, time)


def test_a_quote_tells_which_jobs_would_be_moved(tmp_path) -> None:
    rows = [exact(0, 1, 4, 4), exact(1, 1, 4, 19)]
    history = history_of("qops", workload_of(1, rows), tmp_path)
    found = ask(history, 1.0, deadline=6.0)
    assert found.admitted
    assert found.moved == {"w0!B": (4.0, 6.0)}


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"processors": 2}, "processors is 2; a number from 1 to 1, the size of the machine"),
        ({"processors": 0}, "processors is 0; a number from 1 to 1"),
        ({"run_time": 0.0}, "run time is 0 s; more than 0"),
        ({"deadline": math.inf}, r"deadline is inf .float.; a finite number, or None is"),
    ],
)
def test_impossible_wishes(wish: dict[str, float], message: str, tmp_path) -> None:
    history = history_of("qops", workload_of(1, WAITS), tmp_path)
    with pytest.raises(InputError, match=message):
        ask(history, 1.0, **wish)


@pytest.mark.parametrize("scheduler", ["qops", "msb", "mrt"])
def test_an_earliest_deadline_is_granted_and_minimal(scheduler: str, tmp_path) -> None:
    """Against a scan of all deadlines in steps of half a second."""
    minimal: list[bool] = []
    for seed in range(25):
        workload = random_workload(random.Random(seed))
        history = history_of(scheduler, workload, tmp_path)
        for job_id, answer in answers_of(history).items():
            asked = history.jobs[job_id]
            if not isinstance(answer, Refused) or asked.estimate is None:
                continue
            asker = PlanAsker(history, history.state_before(job_id), asked.date)
            if asked.processors > asker.machine_size:
                continue
            found = asker.earliest_deadline(asked)
            if found is None:
                continue
            deadline, granted = found
            assert granted.admitted
            assert granted.end is not None
            assert granted.end <= deadline
            assert asked.deadline is not None
            assert deadline > asked.deadline
            low = asked.deadline
            grants = [
                low + step / 2
                for step in range(1, int(2 * (deadline - low)) + 1)
                if asker.ask(msgspec.structs.replace(asked, deadline=low + step / 2)).admitted
            ]
            # A heuristic may grant some earlier deadline and refuse a later one: rare.
            minimal.append(not grants or grants[0] >= deadline - 1)
    assert len(minimal) > 20
    assert sum(minimal) >= 0.9 * len(minimal)


@pytest.mark.parametrize(
    ("scheduler", "options", "message"),
    [
        ("gone", {}, "line 1: unknown scheduler 'gone'"),
        ("qops", {"k_facto": 1}, "line 1: scheduler 'qops' has no option 'k_facto'"),
        ("easy", {}, "line 1: scheduler 'easy' does not admit jobs by deadline"),
    ],
)
def test_a_scheduler_that_cannot_be_asked(
    scheduler: str, options: dict[str, int], message: str, tmp_path
) -> None:
    history = history_of("qops", workload_of(1, WAITS), tmp_path)
    header = msgspec.structs.replace(history.header, scheduler=scheduler, options=options)
    other = DecisionHistory("run", history.path, header, history.events)
    with pytest.raises(InputError, match=message):
        ask(other, 1.0)


def test_a_bisection_that_begins_too_early_goes_on_later() -> None:
    tried = []

    def grant(deadline: float) -> float | None:
        tried.append(deadline)
        return min(deadline, 37.0) if deadline >= 37 else None

    found = earliest_deadline(
        grant, 10.0, 14.0, resolution=lambda _: 1.0, planned_end=lambda end: end
    )
    assert found == (37, 37)
    assert any(36 <= deadline < 37 for deadline in tried)
    assert tried[:4] == [14, 18, 26, 42]
    never = earliest_deadline(
        lambda _: None, 10.0, 14.0, resolution=lambda _: 1.0, planned_end=math.ceil
    )
    assert never is None


# Eight of 32 hosts are away from 500 to 30,000. A has 20 of the others up to 8,900, B has 8 up to
# 10,900, and C 20 up to 40,900.
AWAY = [
    exact(0, 20, 8900),
    exact(500, 8, 2000),
    exact(9500, 20, 30_000),
]


def maintained(scheduler: str, folder: Path) -> Path:
    windows = events_in_order(maintenance_events(0.0, HostSet.parse("24-31"), 500.0, 30_000.0))
    engine = EngineOptions(external_events=windows)
    return run_files(scheduler, workload_of(32, AWAY), folder, engine=engine)


@pytest.mark.parametrize("scheduler", ["qops", "msb", "mrt", "fqops"])
def test_a_quote_counts_maintenance(scheduler: str, tmp_path) -> None:
    prefix = maintained(scheduler, tmp_path)
    for time, free, start in ((100, 4, 30_000), (1000, 4, 30_000), (30_500, 12, 40_900)):
        found = quote(prefix, time, processors=30, run_time=3600, prices=PriceList(None))
        assert found.free_processors == free
        assert found.earliest is not None
        assert (found.earliest.start, found.earliest.end) == (start, start + 3600)
    # Smaller ones need not wait for the end of the maintenance, but for A.
    for time, processors, run_time in ((1000, 24, 600), (100, 12, 300)):
        found = quote(prefix, time, processors=processors, run_time=run_time)
        assert found.earliest is not None
        assert found.earliest.start == 8900
    told = explain(prefix, "B", PriceList(None))
    assert (told.free_processors, told.earliest.start) == (4, 8900)


def test_unknown_maintenance_is_refused(tmp_path) -> None:
    prefix = maintained("qops", tmp_path)
    Path(f"{prefix}_run.json").unlink()
    for ask_for in (
        lambda: quote(prefix, 1000, processors=3, run_time=9),
        lambda: explain(prefix, "B"),
    ):
        with pytest.raises(InputError, match=r"_decisions.jsonl: hosts had maintenance at 500 s"):
            ask_for()


@pytest.mark.parametrize(("scheduler", "options"), SCHEDULERS[:4:2])
def test_quotes_beside_maintenance_are_what_the_run_answered(
    scheduler: str, options: dict[str, object], tmp_path
) -> None:
    for seed in range(8):
        rng = random.Random(seed)
        hosts, workload, _ = host_failures.random_case(seed)
        begin = rng.randint(1, 40) + 0.25
        some = HostSet.of(rng.sample(range(hosts), rng.randint(1, hosts)))
        windows = maintenance_events(max(0.0, begin - 50), some, begin, begin + rng.randint(1, 30))
        case = (hosts, workload, events_in_order(windows))
        host_failures.verified_run(scheduler, options, case, tmp_path / "run")
        check_every_job(read_history(tmp_path / "run"))


def test_a_fixed_start_that_maintenance_moves_is_refused(tmp_path) -> None:
    """The log does not tell which start the job has then."""
    workload = workload_of(2, [exact(0, 2, 10), exact(5, 1, 1)])
    first = workload.jobs[0]
    fixed = msgspec.structs.replace(first.qos, start=20.0)
    jobs = [Job(first.id, 0.0, 2, first.profile, None, fixed), workload.jobs[1]]
    workload = Workload(jobs=jobs, profiles=workload.profiles, processors=2)
    windows = events_in_order(maintenance_events(3.0, HostSet.parse("0-1"), 22.0, 40.0))
    engine = EngineOptions(external_events=windows)
    history = read_history(run_files("qops", workload, tmp_path, engine=engine))
    assert quote(history, 2.0, processors=1, run_time=1).earliest is not None
    with pytest.raises(InputError, match="job w0!A was promised a start at 20 s, but maintenance"):
        quote(history, 6.0, processors=1, run_time=1)
