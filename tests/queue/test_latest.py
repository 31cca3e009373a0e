"""The latest forecast of a queue: what is answered from it, and when it is made anew."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from starlette.exceptions import HTTPException

from qops_batsim import InputError
from qops_batsim.experiments.page import Aliases
from qops_batsim.queue import Ask, QueueState
from qops_batsim.queue.latest import LatestForecast
from qops_batsim.queue.starts import anonymous
from support.forecasts import NOW, begun_wrongly, forecast_of, watched


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    (tmp_path / "date").write_text(f"{NOW}")
    return tmp_path / "date"


@pytest.fixture
def latest(queue: Path) -> Iterator[LatestForecast]:
    with LatestForecast(partial(watched, queue), lambda *about: None, every=0.05) as found:
        yield found


def eventually(found: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not found():
        assert time.monotonic() < until
        time.sleep(0.02)


def is_there(latest: LatestForecast) -> bool:
    try:
        return bool(latest.of_waiting())
    except HTTPException:
        return False


def test_before_the_first_forecast_one_is_told_to_come_again(queue: Path) -> None:
    with pytest.raises(HTTPException, match="no forecast yet") as refused:
        LatestForecast(partial(watched, queue), lambda *about: None).of_waiting()
    assert (refused.value.status_code, refused.value.headers) == (503, {"Retry-After": "5"})


def test_a_queue_is_forecast_once_until_it_changes(queue: Path) -> None:
    watch = watched(queue)
    assert watch.renewed() == forecast_of(
        QueueState(source="queue", processors=8, now=NOW, jobs=[])
    )
    assert watch.renewed() is None
    queue.write_text(f"{NOW + 60}")
    assert (found := watch.renewed()) is not None
    assert found.now == NOW + 60


def test_answers_are_of_all_of_a_job_and_of_a_user(latest: LatestForecast) -> None:
    eventually(lambda: is_there(latest))
    found = latest.of_waiting()
    assert [job.id for job in found["jobs"]] == ["7", "8_1", "8_2"]
    assert found["now"] == NOW < found["made"] <= time.time()
    assert found["draws"] != os.getpid()
    # A job is also named by its array.
    assert [job.id for job in latest.of_waiting(job="8")["jobs"]] == ["8_1", "8_2"]
    assert [job.id for job in latest.of_waiting(job="8_2")["jobs"]] == ["8_2"]
    assert [job.id for job in latest.of_waiting(user="bob")["jobs"]] == ["7"]
    assert latest.of_waiting(user="eve")["jobs"] == []
    with pytest.raises(HTTPException, match="job '9' is not among the waiting jobs") as refused:
        latest.of_waiting(job="9")
    assert refused.value.status_code == 404
    told = latest.of_new(None, Ask(processors=4, time=120.0, user="ann"))
    assert told.now == NOW
    assert [(job.id, job.user) for job in told.jobs] == [("4x120", "ann")]


def test_a_forecast_stays_while_the_queue_cannot_be_read(
    latest: LatestForecast, queue: Path
) -> None:
    eventually(lambda: is_there(latest))
    queue.write_text("what")
    eventually(lambda: "problem" in latest.of_waiting())
    found = latest.of_waiting()
    assert (found["problem"], found["now"]) == ("date: no queue", NOW)
    queue.write_text(f"{NOW + 60}")
    eventually(lambda: latest.of_waiting()["now"] == NOW + 60)
    assert "problem" not in latest.of_waiting()


def test_a_killed_process_is_started_again(latest: LatestForecast, queue: Path) -> None:
    eventually(lambda: is_there(latest))
    os.kill(latest.of_waiting()["draws"], signal.SIGKILL)
    queue.write_text(f"{NOW + 60}")
    eventually(lambda: latest.of_waiting()["now"] == NOW + 60)


def test_an_old_queue_is_refused(queue: Path) -> None:
    def check_age(source: str, date: float) -> None:
        raise InputError(f"{source}: is of {date:.0f}, too old")

    with LatestForecast(partial(watched, queue), check_age, every=0.05) as latest:
        eventually(lambda: latest._found is not None)
        with pytest.raises(HTTPException, match="queue: is of 1780000000, too old") as refused:
            latest.of_waiting()
        assert refused.value.status_code == 503


def test_what_is_wrong_at_the_beginning_is_raised() -> None:
    latest = LatestForecast(begun_wrongly, lambda *about: None)
    with pytest.raises(InputError, match="no history"), latest:
        pass


def test_users_are_numbers_in_the_order_of_their_appearance() -> None:
    state, numbers = QueueState(source="queue", processors=8, now=NOW, jobs=[]), Aliases(ann="1")
    found = anonymous(forecast_of(state), numbers)
    assert [job.user for job in found.jobs] == ["2", "1", "1"]
    assert numbers == {"ann": "1", "bob": "2"}
