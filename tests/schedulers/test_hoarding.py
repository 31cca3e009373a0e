"""Users who hold many promises: drawn schedules with and without a limit, and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError, Job, run
from qops_batsim.core import HostSet
from qops_batsim.economics import Prices, ReferenceJob, category_slowdowns
from qops_batsim.engine import ExternalEvent
from qops_batsim.measures import charge_jobs, charge_report, outcomes_of_run
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.running import Run
from qops_batsim.workload import Workload, delay_profile

HOUR = 3600.0
EVENING = 18 * HOUR
"""Jobs come at 18:00 of the first day."""

EVERY = ["qops", "msb", "mrt", "fqops"]


def asked(name: str, minute: float, run_time: float, due: float, **fields: object) -> Job:
    """Return a job for all 4 processors, submitted after 18:00, with a deadline by the clock."""
    qos = {"estimated_runtime": run_time, "deadline": due * HOUR}
    told: dict[str, Any] = {"id": name, "subtime": EVENING + 60 * minute, "res": 4}
    told |= {"profile": delay_profile(run_time)[0], **fields}
    told["qos"] = qos | told.get("qos", {})
    return Job.from_fields(told, where="here")


def hoard(promises: int = 20, *more: Job, **fields: object) -> Workload:
    """One user asks for an hour twenty times, each due at once; another one for ten minutes.

    18:00  19:00  20:00              13:00 (37 h)  14:00
    | h1   | h2   | h3   |   ...     | h20         |
           ^ q, asked for at 18:01, is due at 19:15: there is no gap before 14:00.
    """
    jobs = [
        asked(f"h{number:02}", 0, HOUR, 18 + number, user="ann", **fields)
        for number in range(1, promises + 1)
    ]
    jobs += [*more, asked("q", 1, 600.0, 19.25, user="bob", **fields)]
    profiles = dict(map(delay_profile, (HOUR, HOUR / 2, 600.0)))
    return Workload(jobs=jobs, profiles=profiles, processors=4)


def made(out: Path, scheduler: str, workload: Workload, **more: Any) -> Run:
    events = more.pop("events", None)
    done = run(scheduler, workload, make_cluster(4), more, out=str(out / "run"), events=events)
    assert done.violations == []
    return done


def starts(done: Run) -> dict[str, float | str]:
    """Return the start of each job by the clock, or why it was refused."""
    found: dict[str, float | str] = {}
    assert done.simulation is not None
    for record in done.simulation.ended:
        reasons = done.module.qos_log.record(record.job.id).reasons
        found[record.job.id[3:]] = (
            record.start / HOUR if record.start == record.start else reasons[0].kind.value
        )
    return found


@pytest.mark.parametrize("scheduler", EVERY)
def test_twenty_free_promises_have_ten_minutes_refused(tmp_path: Path, scheduler: str) -> None:
    done = starts(made(tmp_path, scheduler, hoard()))
    assert [done[f"h{number:02}"] for number in range(1, 21)] == [17.0 + n for n in range(1, 21)]
    assert done["q"] in ("own_deadline", "other_deadline")


@pytest.mark.parametrize("scheduler", EVERY)
def test_a_limit_lets_it_in(tmp_path: Path, scheduler: str) -> None:
    # 18:00  19:00 19:10
    # | h1   | q   |          1.5 hours of the machine: h1 is promised, the others are refused
    done = starts(made(tmp_path, scheduler, hoard(), promise_limit=1.5))
    assert (done["h01"], done["q"]) == (18.0, 19.0)
    assert {done[f"h{number:02}"] for number in range(2, 21)} == {"promise_limit"}
    # Just the limit is allowed.
    both = starts(made(tmp_path, scheduler, hoard(), promise_limit=2.0))
    assert [both["h01"], both["h02"], both["h03"]] == [18.0, 19.0, "promise_limit"]


def test_whose_promises_are_added_up(tmp_path: Path) -> None:
    together = hoard(1, group="physics")
    assert starts(made(tmp_path, "qops", together, promise_limit=1.1))["q"] == 19.0
    # Of h1 59 minutes are left, and q asks for 10: 69 minutes, or 1.15 hours.
    by_account = {"promise_holder": "account", "promise_limit": 1.15}
    assert starts(made(tmp_path, "qops", together, **by_account))["q"] == 19.0
    tight = by_account | {"promise_limit": 1.14}
    assert starts(made(tmp_path, "qops", together, **tight))["q"] == "promise_limit"
    # Nobody knows whose these are.
    assert starts(made(tmp_path, "qops", hoard(1), **tight))["q"] == 19.0
    # A deadline that its user has not asked for is no promise to hold.
    artificial = hoard(1, group="physics", qos={"has_user_deadline": False})
    assert starts(made(tmp_path, "qops", artificial, **tight))["q"] == 19.0


def test_an_offer_does_not_pass_the_limit(tmp_path: Path) -> None:
    more = {"promise_limit": 1.0, "tolerance_factor": 100.0}
    done = starts(made(tmp_path, "fqops", hoard(3), **more))
    assert (done["h02"], done["h03"]) == ("promise_limit", "promise_limit")


def test_a_promised_start_counts(tmp_path: Path) -> None:
    reserved = asked("h09", 0, HOUR, 40, user="ann", qos={"start": 30 * HOUR})
    workload = hoard(1, reserved)
    assert starts(made(tmp_path, "qops", workload, promise_limit=1.5))["h09"] == "promise_limit"
    assert starts(made(tmp_path, "qops", workload, promise_limit=2.0))["h09"] == 30.0
    later = asked("h10", 0, HOUR, 40, user="ann")
    workload = hoard(1, reserved, later)
    assert starts(made(tmp_path, "qops", workload, promise_limit=2.0))["h10"] == "promise_limit"


def test_limits_that_are_none() -> None:
    with pytest.raises(InputError, match="option promise_limit is 0"):
        make_scheduler("qops", {"promise_limit": 0})
    with pytest.raises(InputError, match="Infinity; a number above 0 and up to 1000000 is"):
        make_scheduler("qops", {"promise_limit": float("inf")})
    with pytest.raises(InputError, match="option promise_holder is 'site'"):
        make_scheduler("msb", {"promise_holder": "site"})


def cancelled(minute: float, name: str) -> ExternalEvent:
    date = EVENING + 60 * minute
    told = {"timestamp": date, "type": "job_cancelled", "job_id": f"w0!{name}"}
    return ExternalEvent(date, "job_cancelled", HostSet(), told)


def test_promises_that_are_given_back_have_a_price(tmp_path: Path) -> None:
    # h1 was promised an hour and needs half of it; h2 and h3 are given back at 18:10.
    workload = hoard(3)
    workload.jobs[0].profile = "delay1800"  # type: ignore[misc]
    events = cancelled(10, "h02"), cancelled(10, "h03")
    done = made(tmp_path, "qops", workload, events=events)
    outcomes = outcomes_of_run(done.result, {"w0": workload})
    references = {f"w0!{job.id}": ReferenceJob(HOUR, HOUR, 4) for job in workload.jobs}
    table = category_slowdowns(references.values())
    charged = charge_jobs(outcomes, references, table)
    unused = {each.id[3:]: each.unused / HOUR for each in charged}
    assert unused == {"h01": 2.0, "h02": 4.0, "h03": 4.0, "q": 0.0}
    free, priced = (
        charge_report(charged, table, Prices(unused_promise=share)) for share in (0.0, 0.5)
    )
    assert priced.total.unused_work == 10 * HOUR
    assert priced.profit - free.profit == pytest.approx(0.5 * 10 * HOUR)
    with pytest.raises(InputError, match="unused_promise is -1"):
        Prices(unused_promise=-1.0).check()
