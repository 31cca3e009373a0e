"""Pages of forecasts: what they show, without any other file."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from qops_batsim.dates import Calendar
from qops_batsim.queue import ForecastBasis, QueuedJob, QueueStarts, QueueState, queue_starts
from qops_batsim.queue.backtest import Comparison
from qops_batsim.queue.learned import Lately, Learned
from qops_batsim.queue.pages import (
    MOST_BARS,
    backtest_page,
    coverage_table,
    queue_page,
    shares_before,
)
from qops_batsim.queue.queue_load import QueueLoad
from qops_batsim.queue.scores import Coverage, KeptPromises, PastForecast, coverage
from support.pasts import history

BEGIN = 1_780_000_000
NOW = BEGIN + 4 * 604_800.0
CALENDAR = Calendar(BEGIN, "Europe/Stockholm")


def queue(waiting: int) -> QueueState:
    """Return a queue of jobs for all of the machine, of which one runs, and one that is held."""
    jobs = [QueuedJob(id="run", processors=8, estimate=3600.0, start=NOW - 60, user="ann")]
    for number in range(waiting):
        job = QueuedJob(id=f"w{number}", processors=8, estimate=3600.0, user=f"<user{number % 2}>")
        jobs.append(job)
    held = QueuedJob(id="held", processors=1, estimate=60.0, reason="JobHeldUser")
    return QueueState(
        source="/home/ann/queue.json", processors=8, now=NOW, jobs=jobs, blocked=[held]
    )


def forecast(state: QueueState) -> QueueStarts:
    return queue_starts(state, ForecastBasis(history(), CALENDAR), draws=10)


@pytest.fixture(scope="module")
def page() -> str:
    state = queue(3)
    return queue_page(forecast(state), state, CALENDAR, "qops-batsim queue starts queue.json")


def test_a_page_of_a_queue_tells_dates_of_the_site(page: str) -> None:
    assert "queue.json at 2026-06-25 22:26 (Europe/Stockholm): 10 simulations by easy" in page
    assert "/home" not in page
    assert "1 jobs run on 8 of 8 processors, and 4 wait" in page
    # Alone on the machine, each is planned to start when the one before it is at its limit.
    planned = re.findall(r"<td>(w\d)</td>.*?(?:<td[^>]*>[^<]*</td>){6}<td[^>]*>([^<]*)", page)
    assert planned == [("w0", "0.98"), ("w1", "1.98"), ("w2", "2.98")]
    assert "&lt;user1&gt;" in page
    assert "Jobs that wait without a date" in page
    assert "JobHeldUser" in page


def test_many_jobs_are_shown_as_bands_as_well() -> None:
    state = queue(MOST_BARS + 2)
    page = queue_page(forecast(state), state, CALENDAR, "x")
    assert page.count("<img ") == 2
    assert f"the next {MOST_BARS} to start later" in page
    assert f"All {MOST_BARS + 2} waiting jobs" in page
    assert page == queue_page(forecast(state), state, CALENDAR, "x")


def test_a_page_warns_of_a_queue_unlike_the_past() -> None:
    state = queue(3)
    usual = QueueLoad(jobs=2.0, hours=2.5, hours_of_one=2.5)
    basis = ForecastBasis(history(), CALENDAR, learned=Learned(usual=usual))
    page = queue_page(queue_starts(state, basis, draws=10), state, CALENDAR, "x")
    # Two of the three jobs, of an hour each, are those of one user.
    assert "This queue is unlike the past, so intervals are wider: 3 jobs wait" in page
    assert "the machine needs 3.0 h for what waits, at nearly all past moments at most 2.5." in page
    assert "for what waits of one user" not in page


def test_a_queue_in_which_nothing_can_start_has_a_page() -> None:
    state = queue(0)
    page = queue_page(forecast(state), state, CALENDAR, "x")
    assert "<img " not in page
    assert "JobHeldUser" in page


LEVELS = (10.0, 20.0, 30.0, 40.0, 50.0, 59.0)
LATER = tuple(level + 10.0 for level in LEVELS)
TOLD = [
    PastForecast(0.0, 0, start, LEVELS, LATER, start + 3600.0, start - 7200.0, start)
    for start in (5.0, 15.0, 25.0, 35.0, 60.0)
]


def test_shares_of_starts_by_each_date() -> None:
    drawn, calibrated = zip(*shares_before(TOLD), strict=True)
    assert drawn == (20.0, 40.0, 60.0, 80.0, 80.0, 100.0)
    assert calibrated == (40.0, 60.0, 80.0, 80.0, 100.0, 100.0)


def test_a_page_of_a_backtest_tells_coverage_and_errors() -> None:
    classes: list[Coverage] = [coverage(TOLD), coverage(TOLD[:3], "1 processor")]
    kept = KeptPromises(
        kept=96.0, started=90.0, slack=5400.0, plan_kept=99.0, plan_slack=9000.0, promises=5
    )
    lately = Lately(coverage_80=60.0, coverage_80_interval=(50.0, 70.0), forecasts=5)
    learned = Learned(by_plan=True, lately=lately)
    unlike = [each._replace(is_unlike=True) for each in TOLD[1:3]]
    found = Comparison([*unlike, *TOLD[3:]], learned, classes, kept, 1)
    page = backtest_page("Back-test of log.swf", found, "x")
    assert "96.0 % of ends that had a chance of 95 % were kept, on average 1.50 h early" in page
    assert "Back-test of log.swf: 5 forecasts at 1 random moments." in page
    assert "60.0 % of starts came in the intervals that were to hold 80 %" in page
    assert "1.00 h with the plan by limits, 2.00 h with the recent waits" in page
    assert "At 1 of 1 moments the queue was unlike those before; 50 % of starts came in" in page
    assert "The back-test found the simulations no better than the plan by time limits" in page
    assert "Of late, 60 % [50, 70] of the starts came in the intervals of 80 %" in page
    assert page.count("<img ") == 2
    table = coverage_table(classes, 1)
    assert table.rows[0][:4] == ["all", "5", "20 %", "60 %"]
    assert [row[0] for row in table.rows] == ["all", "1 processor"]


def test_a_browser_shows_the_page_whole(page: str, browse: Callable[[str], str]) -> None:
    assert not re.search(r"""(?:src|href|url)\W{1,2}https?:""", page)
    script = """
onload = () => {
  const wide = [...document.querySelectorAll("main > section > :not(.wide)")].filter(
    each => each.scrollWidth > innerWidth).length;
  document.title = [[...document.images].every(i => i.naturalWidth > 99), wide].join(" ");
};
"""
    shown = browse(page.replace("</body>", f"<script>{script}</script></body>"))
    assert "<title>true 0</title>" in shown
