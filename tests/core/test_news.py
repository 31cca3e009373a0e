"""What is learned of news that is late."""

from __future__ import annotations

import pytest

from qops_batsim import Job
from qops_batsim.core import News


def test_news_on_time_is_not_late() -> None:
    news = News()
    assert news.submitted(Job("w0!1", 4.0, 1, "p"), 4.0) == 0.0
    assert not news.late


def test_a_submission_told_late_is_learned_from_unless_it_is_as_late_as_the_grace() -> None:
    news = News(grace=1.0)
    assert news.submitted(Job("w0!1", 4.0, 1, "p"), 5.0) == 0.0
    assert not news.late
    assert news.submitted(Job("w0!2", 4.0, 1, "p"), 4.25) == 0.25
    assert (news.late, news.tolerance) == (True, 1.0)


def test_a_call_is_asked_for_a_date_that_is_not_over_when_the_engine_hears_of_it() -> None:
    news = News()
    assert news.reachable(5.0, 4.9999, 3) == 5.0
    news.submitted(Job("w0!1", 4.0, 1, "p"), 4.002)
    assert news.reachable(5.0, 4.9999, 3) == pytest.approx(4.9999 + 4 * 11 * 0.002)
    assert news.reachable(9.0, 4.9999, 3) == 9.0
