"""Users who react, drawn by hand: when they come back, and what they answer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from qops_batsim import Fcfs, InputError, Job, Scheduler, run, run_again, simulate
from qops_batsim.users import Reacting, Reactions, Users, read_users, write_users
from qops_batsim.users.reacting import DONE, ELSEWHERE, LEFT
from support.users import BY_SLACK, batch, crowd, only, reacted, submissions, user

LONG = batch((0.0, 4, 1000.0))
"""All of the machine for 1,000 s."""


def test_the_next_batch_follows_the_end_of_the_last_one() -> None:
    # a1 100 s          a2        after 10 s of thinking, both jobs of a batch at once
    # |---------| ..... |----|
    # 0        100     110  160
    ann = user(
        "ann",
        batch((0.0, 4, 100.0), then="think", time=10.0),
        batch((0.0, 2, 50.0), (0.0, 2, 50.0)),
    )
    assert submissions(reacted(crowd(ann))) == [("ann", 0), ("ann", 110), ("ann", 110)]


def test_who_waits_longer_comes_back_later() -> None:
    # bob 1,000 s, then ann: her second batch comes 1,000 s later than without him.
    ann = user("ann", batch((0.0, 4, 100.0), then="think", time=10.0), batch((0.0, 4, 50.0)))
    bob = user("bob", LONG)
    both = submissions(reacted(crowd(bob, ann)))
    assert both == [("bob", 0), ("ann", 0), ("ann", 1110)]


def test_jobs_of_a_batch_do_not_wait_for_each_other() -> None:
    ann = user("ann", batch((0.0, 4, 1000.0), (30.0, 4, 1000.0), then="think", time=5.0), LONG)
    assert [date for _, date in submissions(reacted(crowd(ann)))] == [0, 30, 2005]


def test_who_leaves_does_not_wait() -> None:
    # A break is at least an hour from the last submission, at 30 s, on, and here 300 s more; with
    # those who wait, at least 20 minutes from the end on, at 2,000 s.
    jobs = (0.0, 4, 1000.0), (30.0, 4, 1000.0)
    ann = user("ann", batch(*jobs, then="leave", time=300.0), batch((0.0, 4, 1.0)))
    assert [date for _, date in submissions(reacted(crowd(ann)))] == [0, 30, 3930]
    waits = user("ann", batch(*jobs, then="break", time=300.0), batch((0.0, 4, 1.0)))
    assert [date for _, date in submissions(reacted(crowd(waits, stay=0.0)))] == [0, 30, 3500]


def test_nobody_goes_on_who_has_no_patience() -> None:
    ann = user("ann", batch((0.0, 4, 100.0), then="think", time=10.0), batch((0.0, 4, 50.0)))
    # The usual break where there was none: 43,200 s of the week's profile, which is flat here.
    assert submissions(reacted(crowd(ann, stay=0.0)))[1] == ("ann", 100 + 1200 + 43_200)


def test_batches_are_repeated_until_the_user_is_gone() -> None:
    ann = user("ann", batch((0.0, 1, 10.0), time=90.0), batch((0.0, 2, 10.0), time=90.0))
    short = ann.__class__(name="ann", since=0.0, until=4000.0, batches=ann.batches, first=1)
    beside = reacted(crowd(short, stay=0.0))
    sizes = [(job.submission_time, job.processors) for job in beside.workload().jobs]
    assert sizes == [(0, 2), (1300, 1), (2600, 2), (3900, 1)]


REFUSED = crowd(
    user("bob", LONG),
    user("ann", batch((0.0, 4, 200.0), then="think", time=10.0), batch((0.0, 1, 1.0)), since=10.0),
    deadlines=BY_SLACK,
)
"""Bob takes the machine until 1,000 s; ann asks at 10 s for 200 s until 310 s, and is refused."""


def with_reactions(users: Users, reactions: Reactions) -> Users:
    return msgspec.structs.replace(users, reactions=reactions)


def answered(reactions: Reactions, scheduler: str = "qops", **more: Any) -> Reacting:
    return reacted(with_reactions(REFUSED, reactions), scheduler, more)


def of_ann(beside: Reacting) -> list[tuple[float, int, float]]:
    """Return submission, processors and deadline of each job of ann's."""
    return [
        (job.submission_time, job.processors, job.qos.deadline)  # type: ignore[union-attr, misc]
        for job in beside.workload().jobs
        if job.user == "ann"
    ]


def test_leaving_counts_as_lost_and_she_goes_on() -> None:
    beside = answered(only("leave"))
    # Ten seconds of thinking after the refusal at 10 s, which took no time: 101 s from 20 s on.
    assert of_ann(beside)[:2] == [(10, 4, 310), (20, 1, 121)]
    bob, ann, _ = beside.wishes[:3]
    assert (bob.outcome, ann.outcome, ann.lost, ann.tries) == (DONE, LEFT, 800.0, 1)
    assert math.isnan(ann.ended)


def test_a_later_deadline_is_accepted_up_to_the_tolerance() -> None:
    # 300 s are needed: with a tolerance of 4, 1,200 s from 10 s on, which works out: 1,000 + 200.
    assert of_ann(answered(only("later", tolerance=4.0)))[:2] == [(10, 4, 310), (20, 4, 1210)]
    ann = answered(only("later", tolerance=4.0)).wishes[1]
    assert (ann.outcome, ann.ended, ann.tries, ann.lost) == (DONE, 1200.0, 2, 0.0)
    # 3.9 times 300 s are too few.
    assert answered(only("later", tolerance=3.9)).wishes[1].outcome == LEFT


def test_an_offer_is_taken_up_to_the_same_tolerance() -> None:
    assert answered(only("leave", tolerance=4.0), "fqops").wishes[1].ended == 1200.0
    assert answered(only("leave", tolerance=3.9), "fqops").wishes[1].outcome == LEFT


def test_she_tries_again_later_and_gives_up_in_the_end() -> None:
    beside = answered(only("retry", retry_after=400.0, tries=9))
    dates = [date for date, processors, _ in of_ann(beside) if processors == 4]
    assert dates == sorted(dates)
    assert len(dates) > 1
    for date, processors, deadline in of_ann(beside):
        assert deadline - date == (300 if processors == 4 else 101)
    assert beside.wishes[1].outcome == DONE
    assert beside.wishes[1].ended >= 1200
    assert answered(only("retry", retry_after=1.0, tries=3)).wishes[1].tries == 3


def test_a_split_job_does_all_of_the_work() -> None:
    # Bob has 2 of 4 processors: 200 s on all 4 are refused, twice 200 s on 2 are not, one by one.
    users = crowd(
        user("bob", batch((0.0, 2, 1000.0))),
        user("ann", batch((0.0, 4, 200.0)), since=10.0),
        deadlines=BY_SLACK.__class__(mix=BY_SLACK.mix, slack=300.0),
    )
    beside = reacted(with_reactions(users, only("split")), "qops")
    assert of_ann(beside) == [(10, 4, 510), (20, 2, 510), (20, 2, 510)]
    parts = [each for each in beside.wishes if each.user == "ann"]
    assert [(each.outcome, each.ended, each.processors) for each in parts] == [
        (DONE, 220.0, 2),
        (DONE, 420.0, 2),
    ]
    assert {each.job for each in parts} == {"2"}
    assert sum(each.lost for each in parts) == 0


def test_a_shortened_job_loses_the_rest() -> None:
    # 600 s need 1,100 s with bob before them; 300 s of them end at 1,300 s, in time.
    users = crowd(
        user("bob", LONG),
        user("ann", batch((0.0, 4, 600.0)), since=10.0),
        deadlines=BY_SLACK.__class__(mix=BY_SLACK.mix, slack=700.0),
    )
    beside = reacted(with_reactions(users, only("shorten")), "qops")
    ann = beside.wishes[1]
    assert (ann.outcome, ann.ended, ann.run_time, ann.lost) == (DONE, 1300.0, 300.0, 1200.0)


def test_elsewhere_it_runs_at_once_and_is_lost() -> None:
    beside = answered(only("elsewhere"))
    ann = beside.wishes[1]
    assert (ann.outcome, ann.ended, ann.lost) == (ELSEWHERE, 210.0, 800.0)
    # She goes on when it has ended there.
    assert of_ann(beside)[1][0] == 220


def test_a_job_without_deadline_that_is_refused_is_given_up() -> None:
    class Never(Fcfs):
        def submitted(self, job: Job) -> None:
            self.manager.reject(job, "never")

    users = crowd(user("ann", LONG))
    beside = Reacting(Never(), with_reactions(users, only("retry")))
    simulate(beside, users.no_jobs())
    assert [(each.outcome, each.tries) for each in beside.wishes] == [(LEFT, 1)]


def test_what_a_liar_asks_for_is_worth_most() -> None:
    needed, estimate = 1000.0, 100.0

    def gain(told: Reactions, response: float) -> float:
        return told.worth * (1 - response / needed) - told.price * estimate / response

    for price in (0.0, 0.3, 1.0, 4.0, 9.9, 10.0, 50.0):
        told = Reactions(price=price, worth=1.0)
        asked = told.asked(needed, estimate)
        others = [110 + step for step in range(891)]
        assert gain(told, asked) >= max(gain(told, each) for each in others) - 1e-12
    assert Reactions(price=0.0).asked(needed, estimate) == pytest.approx(110.0)
    # From worth x needed / estimate on, honesty pays best.
    assert Reactions(price=10.0).asked(needed, estimate) == needed
    assert Reactions(price=0.0).asked(105.0, 100.0) == 105.0


def test_who_lies_can_be_told_by_name() -> None:
    jobs = batch((0.0, 1, 100.0))
    named = [user(name, jobs) for name in ("ann", "bob")]
    named[1] = msgspec.structs.replace(named[1], lies=True)
    beside = reacted(crowd(*named, deadlines=BY_SLACK))
    assert {each.user: each.lies for each in beside.wishes} == {"ann": False, "bob": True}
    # 100 s are needed beyond the 100 s of the job; bob asks for 1.1 times these.
    dates = {job.user: job.qos.deadline for job in beside.workload().jobs}  # type: ignore[union-attr]
    assert dates == {"ann": 200.0, "bob": 110.0}


@pytest.mark.parametrize(
    ("estimates", "deadlines_by", "needed"),
    [
        ("users", None, 400.0),
        ("users", "exact", 200.0),
        ("exact", None, 200.0),
        ("exact", "users", 400.0),
    ],
)
def test_needs_and_plans_are_made_from_limits_or_run_times(
    estimates: str, deadlines_by: str | None, needed: float
) -> None:
    # 100 s of run time, 300 s asked for; 100 s of slack from one of these on.
    one = batch((0.0, 1, 100.0))
    limited = msgspec.structs.replace(one, jobs=(one.jobs[0]._replace(walltime=300.0),))
    users = crowd(user("ann", limited), deadlines=BY_SLACK)
    users = msgspec.structs.replace(users, estimates=estimates, deadlines_by=deadlines_by)
    users.check()
    beside = reacted(users)
    (wish,) = beside.wishes
    (job,) = beside.workload().jobs
    assert wish.needed == needed
    assert job.estimate == (300.0 if estimates == "users" else 100.0)


def test_a_liar_who_is_refused_asks_for_what_is_needed() -> None:
    # 200 s by 230 s is refused as bob runs until 250 s; 200 s by 610 s is not.
    users = crowd(
        user("bob", batch((0.0, 4, 250.0))),
        user("ann", batch((0.0, 4, 200.0)), since=10.0),
        deadlines=BY_SLACK.__class__(mix=BY_SLACK.mix, slack=400.0),
    )
    beside = reacted(with_reactions(users, only("leave", liars=1.0)), "qops")
    assert of_ann(beside) == [(10, 4, 230), (20, 4, 610)]
    assert beside.wishes[1].outcome == DONE
    assert beside.wishes[1].lies


def test_a_hoarder_gives_back_all_promises_but_one() -> None:
    users = crowd(user("ann", batch((0.0, 4, 200.0)), since=10.0), deadlines=BY_SLACK)
    told = only("leave", hoarders=1.0, promises=2)
    beside = reacted(with_reactions(users, told), "qops")
    # Three promises, by 310, 610 and 910 s; the first starts at once.
    assert of_ann(beside) == [(10, 4, 310), (10, 4, 610), (10, 4, 910)]
    assert beside.cancelled_at == {"w0!2": 11.0, "w0!3": 11.0}
    assert [(each.outcome, each.ended) for each in beside.wishes] == [(DONE, 210.0)]


class Curious(Fcfs):
    """Looks for run times wherever a scheduler might."""

    seen: ClassVar[list[Any]] = []

    def submitted(self, job: Job) -> None:
        self.seen += [job.profile, job.fields, repr(job), job.estimate]
        try:
            self.seen.append(self.manager.profile_of(job))
        except NotImplementedError:
            self.seen.append({})
        Fcfs.submitted(self, job)


@pytest.mark.parametrize("kills", [False, True])
def test_no_scheduler_sees_run_times(kills: bool) -> None:
    class Killing(Curious):
        pass

    Killing.seen, Killing.kills = [], kills  # With kills, another manager.
    jobs = LONG.jobs[0]._replace(run_time=777.0)
    one = msgspec.structs.replace(LONG, jobs=(jobs,))
    users = crowd(user("ann", one))
    simulate(Reacting(Killing(), users), users.no_jobs())
    assert Killing.seen
    assert "777" not in str(Killing.seen)


def test_hoarders_need_a_scheduler_that_takes_promises_back() -> None:
    class Deaf(Scheduler):
        pass

    users = with_reactions(REFUSED, Reactions(hoarders=0.5))
    with pytest.raises(InputError, match="hoarders is 0.5; Deaf does not take jobs out"):
        Reacting(Deaf(), users)


@pytest.mark.parametrize(
    ("scheduler", "settings"),
    [
        ("easy", {}),
        ("qops", {"promise_limit": 0.1}),
        ("fqops", {"kill_and_restart": True, "kill_after": 0.0}),
        ("priced-queues", {}),
        ("slurm", {}),
    ],
)
def test_a_run_is_written_verified_and_made_again(
    tmp_path: Path, scheduler: str, settings: dict[str, Any]
) -> None:
    told = Reactions(liars=0.5, hoarders=0.5, promises=2)
    write_users(with_reactions(REFUSED, told), tmp_path / "users.json")
    assert read_users(tmp_path / "users.json") == with_reactions(REFUSED, told)
    out = str(tmp_path / "run")
    first = run(scheduler, settings=settings, users=tmp_path / "users.json", out=out)
    assert first.violations == []
    run_again(f"{out}_run.json", out=str(tmp_path / "again"))
    for name in ("_jobs.csv", "_qos.csv", "_users.csv", "_submitted.json"):
        one, two = (Path(f"{tmp_path}/{each}{name}").read_bytes() for each in ("run", "again"))
        assert one == two
    # What was submitted is an ordinary workload.
    assert run("easy", f"{out}_submitted.json", out=str(tmp_path / "open")).violations == []
    with pytest.raises(InputError, match="one of both is expected"):
        run("easy", "tiny_8", users=tmp_path / "users.json", out=out)
