"""Calendars that jump under a live centre: nobody is refused for that, and it is told."""

from __future__ import annotations

import pytest

from qops_batsim.live import JobPhase, counts
from qops_batsim.live.clock import MOST_STEP, SETTLED, CentreClock
from support.live_site import Site


def alarms(site: Site) -> list[str]:
    return [text for _, _, text in site.journal.notes("alarm")]


@pytest.mark.parametrize("jump", [500.0, 1e6, -500.0, -1e6, 3.0, -3.0])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_calendar_that_jumps_for_eleven_seconds_cancels_nothing(
    site: Site, jump: float, is_restarted: bool
) -> None:
    """
    calendar │ right │ off by the jump for 11 s │ right │
    jobs             │   2, by 500 s from now       3   │   1 was promised before
    """
    first = site.fake.submit(4, limit=60, run_time=50, deadline=900)
    site.pass_time(5)
    site.fake.skew = jump
    site.pass_time(2)
    second = site.fake.submit(4, limit=120, run_time=100, deadline=500)
    site.pass_time(5)
    if is_restarted:
        site.restart()
    site.pass_time(4)
    assert second.is_held
    assert site.fake.effects["refused", "2", 0] == 0
    site.fake.skew = 0.0
    third = site.fake.submit(1, limit=60, run_time=50, deadline=500)
    site.pass_time(10)
    assert [site.entry(job).answer for job in "123"] == ["promised"] * 3
    assert any("has jumped by" in text for text in alarms(site))
    assert "followed again" in alarms(site)[-1]
    site.pass_time(600)
    assert {job.phase for job in (first, second, third)} == {JobPhase.ENDED}
    assert counts(site.journal.entries())["kept"] == 3
    dates = [told.now for _, told, _ in site.journal.messages()]
    assert dates == sorted(dates)
    # What was said of the journal's date is the date.
    assert dates[-1] == pytest.approx(site.fake.now - site.centre.about.origin, abs=600)


def test_a_calendar_that_stays_is_believed(site: Site) -> None:
    site.pass_time(2)
    site.fake.skew = 1000.0
    far = site.fake.submit(1, limit=60, run_time=50, deadline=5000)
    near = site.fake.submit(1, limit=60, run_time=50, deadline=1500)
    free = site.fake.submit(1, limit=60, run_time=50)
    site.pass_time(SETTLED - 10)
    assert free.phase is JobPhase.ENDED
    assert (far.phase, near.phase) == (JobPhase.WAITING, JobPhase.WAITING)
    site.pass_time(20)
    assert [site.entry(job).answer for job in "12"] == ["promised", "refused"]
    assert len(alarms(site)) == 2


@pytest.mark.parametrize("behind", [100.0, 3600.0])
def test_a_journal_that_is_ahead_of_the_calendar_waits_for_it(site: Site, behind: float) -> None:
    """The process before ended in a jump that it believed, or the machine was started again."""
    site.fake.submit(1, limit=60, run_time=50, deadline=900)
    site.pass_time(5)
    site.journal._db.execute("DELETE FROM about WHERE name='clock'")
    site.fake.skew = -behind
    site.restart()
    job = site.fake.submit(1, limit=60, run_time=50, deadline=behind / 2)
    site.pass_time(behind / 2 - 10, poll=10)
    assert job.is_held
    assert "behind the last date of the journal" in alarms(site)[-1]
    site.fake.skew = 10 - behind / 2
    site.pass_time(30)
    assert job.phase is JobPhase.WAITING


def test_a_slow_calendar_is_followed_and_a_suspended_machine_is_no_jump() -> None:
    now = [0.0, 1e9]
    clock = CentreClock(lambda: now[1], lambda: now[0])
    for passed, told in ((1.0, 1.0005), (3600.0, 3601.0), (86400.0, 86400.0), (1.0, 1 + MOST_STEP)):
        now[0] += passed
        now[1] += told
        assert clock.look() == round(now[1], 6)
        assert clock.doubt == ""


def test_a_start_is_given_up_by_the_time_that_has_passed(site: Site) -> None:
    """A calendar that jumps ahead makes no start late, and what is given up keeps its promise."""
    site.fake.latency = 1e9
    job = site.fake.submit(1, limit=60, run_time=30, deadline=300)
    site.pass_time(5)
    site.fake.skew = 1.9
    site.pass_time(40)
    assert site.entry("1").run == "w0!1"
    site.pass_time(250)
    assert site.entry("1").run != "w0!1"
    assert site.entry("1").promise == site.entry("1").asked
    assert site.fake.effects["refused", "1", 0] == 0
    assert job.phase is JobPhase.WAITING
