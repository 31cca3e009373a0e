"""A live centre on a fake resource manager: what it promises, starts and refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from qops_batsim import InputError
from qops_batsim.jobs import COMPLETED_KILLED, REJECTED
from qops_batsim.live import LIVE, JobPhase, Journal, LiveCentre, NodeState, Unreachable, counts
from qops_batsim.live.centre import hand_back
from qops_batsim.live.daemon import about_journal
from qops_batsim.schedulers import scheduler_names
from support.fake_manager import FakeManager
from support.live_site import Site, others_job


def test_a_job_with_a_deadline_is_held_promised_started_and_told(site: Site) -> None:
    """
    n1-n4 │ 1 1 1 1 1 │ 2 2 2
          0          300     600 + margin
    """
    first = site.fake.submit(4, limit=600, run_time=300, deadline=1000)
    second = site.fake.submit(4, limit=600, run_time=200, deadline=2000)
    site.pass_time(10)
    assert (first.phase, first.hosts) == (JobPhase.RUNNING, ("n1", "n2", "n3", "n4"))
    assert second.is_held
    assert second.told.startswith("promised by ")
    assert ", planned start " in second.told
    site.pass_time(600)
    assert site.entry("1").promise == 1_001_000
    assert counts(site.journal.entries()) == {
        "waiting": 0,
        "running": 0,
        "promised": 2,
        "kept": 2,
        "broken": 0,
        "refused": 0,
    }


def test_a_job_that_cannot_be_in_time_is_cancelled_with_reason_and_what_could_be(
    site: Site,
) -> None:
    site.fake.submit(4, limit=600, run_time=300, deadline=1000)
    late = site.fake.submit(4, limit=600, run_time=200, deadline=900)
    site.pass_time(3)
    assert late.phase is JobPhase.ENDED
    assert late.told.startswith("refused: its own deadline (")
    assert "; could be promised by " in late.told
    assert site.fake.effects["refused", "2", 0] == 1
    assert site.entry("2").answer == "refused"


def test_a_refused_job_may_wait_on_without_a_deadline(tmp_path: Path) -> None:
    site = Site(tmp_path / "j.db")
    site.kept = {"keeps_refused": True}
    site.restart()
    site.fake.submit(4, limit=600, run_time=300)
    site.pass_time(2)
    late = site.fake.submit(4, limit=600, run_time=200, deadline=900)
    site.pass_time(1000)
    assert late.outcome != COMPLETED_KILLED
    assert [each.run for each in site.journal.entries()] == ["w0!1", "w0!2", "w0!2r1"]
    site.journal.close()


def test_a_deadline_that_is_no_date_is_refused_in_words(site: Site) -> None:
    job = site.fake.submit(1)
    job.asks = {"deadline": "tomorrow"}
    site.pass_time(2)
    assert job.told.startswith("refused: deadline=tomorrow in the comment is no date")


def test_what_its_user_cancels_leaves_the_plan(site: Site) -> None:
    site.fake.submit(4, limit=600, run_time=600)
    site.pass_time(2)
    site.fake.submit(4, limit=600, run_time=300, deadline=1400)
    site.pass_time(3)
    site.fake.cancel("2")
    third = site.fake.submit(4, limit=600, run_time=300, deadline=1400)
    site.pass_time(3)
    assert site.entry("2").outcome == REJECTED
    assert third.told.startswith("promised by ")


@pytest.mark.parametrize("scheduler", scheduler_names())
def test_no_user_ends_it_by_cancelling_a_job(scheduler: str, tmp_path: Path) -> None:
    """With any scheduler that hears of cancellations; another one is refused before it begins."""
    told = {"scheduler": scheduler, "partition": None, "settings": (), "margin": 0.0}
    if scheduler == "aroma":
        with pytest.raises(
            InputError, match="'aroma' cannot decide live.* `cancelled` is expected"
        ):
            about_journal(LIVE, **told, poll=1.0)
        return
    options = about_journal(LIVE, **told, poll=1.0).options
    site = Site(tmp_path / "j.db", scheduler=scheduler, options=options)
    site.fake.submit(4, limit=600, run_time=600)
    site.pass_time(4)
    cancelled, other = (site.fake.submit(4, limit=600, run_time=300) for _ in range(2))
    site.pass_time(3)
    site.fake.cancel(cancelled.id)
    site.pass_time(700, poll=10)
    assert site.entry(cancelled.id).outcome == REJECTED
    assert other.start is not None
    site.journal.close()


def test_tasks_of_a_throttled_array_are_promised_as_many_at_once_as_may_run(site: Site) -> None:
    """--array=1-4%2, which Slurm keeps to whatever was promised.

    n1 │ 1 │ 3      n2 │ 2 │ 4
    """
    tasks = [site.fake.submit(1, 400, 300, 1000, task=f"7_{number}") for number in (1, 2, 3, 4)]
    for task in tasks:
        task.throttle = 2
    site.pass_time(100)
    assert [each.is_held for each in tasks] == [False, False, True, True]
    assert all("7_3" not in each.job for each in site.journal.entries())
    assert "of which 2 may run at once, and is answered after them" in tasks[2].told
    site.pass_time(600)
    assert [(each.start or 0) - 1_000_000 for each in tasks] == pytest.approx(
        [3] * 2 + [305] * 2, abs=3
    )
    assert counts(site.journal.entries())["kept"] == 4
    assert site.journal.notes("alarm") == []


def test_a_changed_limit_is_a_new_request(site: Site) -> None:
    site.fake.submit(4, limit=600, run_time=600)
    site.pass_time(2)
    changed = site.fake.submit(4, limit=600, run_time=300, deadline=1400)
    site.pass_time(3)
    assert site.entry("2").answer == "promised"
    changed.limit = 1200
    site.pass_time(3)
    assert (site.entry("2").run, site.entry("2").answer) == ("w0!2r1", "refused")


def test_a_lowered_priority_is_a_new_request_of_a_job_without_a_promise(site: Site) -> None:
    """
    n1-n4 │ 1 1 1 │ 2 2 │ 4 4 │ 3 3     3 was to be the next after 2, and gives way
    """
    site.fake.submit(4, limit=600, run_time=600)
    site.pass_time(2)
    promised = site.fake.submit(4, limit=600, run_time=300, deadline=9000)
    polite, last = (site.fake.submit(4, limit=600, run_time=300) for _ in range(2))
    site.pass_time(2)
    promised.nice = polite.nice = 100
    site.pass_time(2)
    assert [site.entry(each).run for each in "234"] == ["w0!2", "w0!3r1", "w0!4"]
    site.restart()
    polite.nice = 0  # What is raised again, by an administrator, stays where it is.
    site.pass_time(2000)
    assert site.entry("2").answer == "promised"
    assert [job.start for job in (promised, last, polite)] == sorted(
        job.start or 0 for job in (promised, last, polite)
    )
    assert site.entry("3").nice == 0


def test_an_administrator_can_raise_what_schedulers_with_priorities_see(site: Site) -> None:
    site.fake.submit(1, deadline=5000).nice = -5000
    site.pass_time(1)
    (job,) = [each.body.job for _, told, _ in site.journal.messages() for each in told.events[-1:]
              if hasattr(each.body, "job")]  # fmt: skip
    assert job.qos.user_priority == 0.5


@pytest.mark.parametrize(
    "scheduler", ["qops", "fqops", "conservative", "slack", "easy", "priced-queues", "fcfs", "nqs"]
)
def test_a_job_of_others_is_planned_around_until_its_limit(tmp_path: Path, scheduler: str) -> None:
    """
    n1-n2 │ 1 1 1 1 (others') │ 2        4 would fit before 2, and delays it if its limit is longer
    n3-n4 │ 3 │               │ 2
    """
    site = Site(tmp_path / "j.db", scheduler=scheduler, options={})
    site.pass_time(2)
    other = others_job(site, ("n1", "n2"), limit=600, run_time=300)
    wide = site.fake.submit(4, limit=60, run_time=30, deadline=800)
    small = site.fake.submit(2, limit=60, run_time=30, deadline=300)
    site.pass_time(5)
    if scheduler not in ("fcfs", "nqs"):
        assert (small.phase, small.hosts) == (JobPhase.RUNNING, ("n3", "n4"))
        long = site.fake.submit(2, limit=900, run_time=30)
        site.pass_time(60)
        # What slack-based backfilling has promised to the wide job can wait for it.
        assert (long.phase is JobPhase.WAITING) == (scheduler != "slack")
    assert wide.phase is JobPhase.WAITING
    if scheduler in ("qops", "fqops"):
        assert site.entry("2").promise == site.entry("2").asked
        site.restart()
        assert site.centre.module.planned_starts()["w0!2"] == pytest.approx(660, abs=5)  # type: ignore[union-attr]
    site.pass_time(400)
    assert wide.start == pytest.approx(other.end, abs=3)
    assert not site.entry("1").is_ours
    assert site.fake.effects["started", "2", 0] == 1
    site.journal.close()


def test_a_changed_limit_of_others_changes_the_plan(site: Site) -> None:
    site.pass_time(2)
    other = others_job(site, ("n1", "n2"), limit=600, run_time=3000)
    site.fake.submit(4, limit=60, run_time=30)
    site.pass_time(5)
    first = site.entry("2").planned
    other.limit = 1200
    site.pass_time(2)
    assert site.entry("2").planned - first == pytest.approx(600, abs=3)
    site.fake.cancel("1")
    site.pass_time(5)
    assert site.entry("2").phase == "running"


def test_nodes_that_jobs_of_others_share_are_away_until_the_last_has_ended(site: Site) -> None:
    """
    n1 │ 1 1 │
       │ 2 2 2 2 │
    n2 │ 2 2 2 2 │       job 1 is first, job 2 has n2 only, as the module knows it
    """
    site.pass_time(1)
    others_job(site, ("n1",), limit=600, run_time=100)
    others_job(site, ("n1", "n2"), limit=600, run_time=300)
    site.pass_time(2)
    assert [site.entry(each).taken for each in "12"] == [["n1"], ["n2"]]
    wide = site.fake.submit(3, limit=60, run_time=30)
    site.pass_time(200)
    assert wide.phase is JobPhase.WAITING
    site.pass_time(110)
    assert wide.hosts == ("n1", "n2", "n3")


def test_a_job_of_others_takes_hosts_from_promises_as_a_loss_does(site: Site) -> None:
    """What was promised on its nodes is kept if it can be, and replaced in words if not."""
    site.fake.submit(4, limit=600, run_time=600)
    site.pass_time(2)
    for deadline in (1330, 9000):
        site.fake.submit(4, limit=600, run_time=300, deadline=deadline)
    site.pass_time(2)
    site.fake.cancel("1")
    others_job(site, ("n4",), limit=1200, run_time=1200)
    site.pass_time(3)
    assert "lost" in site.entry("2").reason
    assert site.entry("3").reason == ""
    site.restart()
    site.pass_time(2200)
    assert counts(site.journal.entries())["kept"] == 1


def test_a_job_that_a_user_has_released_counts_as_started_by_others(site: Site) -> None:
    site.fake.submit(4, limit=600, run_time=600)
    site.pass_time(2)
    freed = site.fake.submit(2, limit=600, run_time=300)
    site.pass_time(2)
    site.fake.cancel("1")
    freed.phase, freed.start, freed.hosts, freed.end = (
        JobPhase.RUNNING,
        site.fake.now,
        ("n3", "n4"),
        site.fake.now + 300,
    )
    site.pass_time(2)
    assert (site.entry("2").run, site.entry("2").is_ours) == ("w0!2r1", False)
    assert any("started by somebody else" in line for line in site.lines)
    site.pass_time(400)
    assert site.entry("2").outcome == "COMPLETED_SUCCESSFULLY"


def test_a_promise_outlives_the_loss_of_its_node_as_far_as_it_can(site: Site) -> None:
    """n1 goes down under job 1, which is requeued, and kept: there was time enough."""
    job = site.fake.submit(2, limit=300, run_time=200, deadline=2000)
    site.pass_time(100)
    site.fake.lose_node("n1")
    site.pass_time(400)
    assert (job.phase, job.hosts, job.restarts) == (JobPhase.ENDED, ("n2", "n3"), 1)
    runs = [(each.run, each.outcome) for each in site.journal.entries()]
    assert runs == [("w0!1", COMPLETED_KILLED), ("w0!1r1", "COMPLETED_SUCCESSFULLY")]
    assert site.entry("1").promise == site.entry("1").asked
    assert any("was requeued" in line for line in site.lines)


def test_a_promised_job_whose_node_was_lost_is_never_cancelled(site: Site) -> None:
    job = site.fake.submit(4, limit=300, run_time=290, deadline=400)
    site.pass_time(100)
    site.fake.lose_node("n1")
    site.pass_time(60)
    assert job.phase is JobPhase.WAITING
    assert "which cannot be kept" in job.told
    site.fake.states["n1"] = NodeState.THERE
    site.pass_time(400)
    assert job.phase is JobPhase.ENDED
    assert site.fake.effects["refused", "1", 1] == 0
    assert counts(site.journal.entries())["broken"] == 1


def test_no_news_is_no_loss(site: Site) -> None:
    """Without an answer nothing is told to the module; nodes of unknown state stay."""
    job = site.fake.submit(2, limit=300, run_time=200, deadline=1000)
    site.pass_time(5)
    site.fake.is_down = True
    site.pass_time(20)
    site.fake.is_down = False
    site.fake.states = dict.fromkeys(site.fake.states, NodeState.UNKNOWN)
    site.pass_time(5)
    assert site.journal.last_message[0] == 2  # The begin, and the submission.
    assert [text for _, _, text in site.journal.notes("outage")] == [
        "no answer",
        "over after 20.0 s",
    ]
    site.pass_time(300)
    assert site.entry("1").end <= site.entry("1").promise
    assert job.phase is JobPhase.ENDED


def test_a_start_without_effect_is_sent_again_and_in_the_end_given_up(site: Site) -> None:
    """n1 is taken by what nobody tells of, so that the job cannot start there."""
    site.fake.latency = 1e9
    job = site.fake.submit(1, limit=60, run_time=30)
    site.pass_time(40)
    starts = [said for said in site.fake.said if said.startswith("start")]
    assert len(starts) == 4
    site.pass_time(40)
    assert site.entry("1").run == "w0!1r1"
    assert any(
        "has not started within 60 s on n1; it is planned again" in line for line in site.lines
    )
    assert job.phase is JobPhase.WAITING


def test_nothing_more_is_sent_to_a_manager_that_does_not_answer(site: Site) -> None:
    for _ in range(3):
        site.fake.submit(1, limit=60, run_time=30)
    site.fake.advance(1)
    hold, site.fake.hold = site.fake.hold, lost(site)  # type: ignore[method-assign]
    site.centre.step()
    assert site.fake.said == ["hold"]
    site.fake.hold = hold  # type: ignore[method-assign]
    site.pass_time(20)
    assert all(job.phase is JobPhase.RUNNING for job in site.fake.all.values())


def lost(site: Site) -> Callable[[Sequence[str]], None]:
    """Return a command that is not answered."""

    def send(job_ids: Sequence[str]) -> None:
        site.fake.said.append("hold")
        raise Unreachable("no answer")

    return send


def test_killed_jobs_are_requeued_and_keep_their_promise(tmp_path: Path) -> None:
    """
    n1-n4 │ 1 1 (killed) │ 2 2 2 │ 1#1 1#1 1#1
    """
    options = {"grace": 5.0, "kill_and_restart": True}
    site = Site(tmp_path / "j.db", scheduler="fqops", options=options)
    victim = site.fake.submit(4, limit=300, run_time=250, deadline=2000)
    site.pass_time(30)
    urgent = site.fake.submit(4, limit=100, run_time=50, deadline=200)
    site.pass_time(500)
    assert site.fake.effects["requeued", "1", 0] == 1
    assert (urgent.phase, urgent.restarts) == (JobPhase.ENDED, 0)
    assert (victim.phase, victim.restarts) == (JobPhase.ENDED, 1)
    assert [each.run for each in site.journal.entries()] == ["w0!1", "w0!2", "w0!1#1"]
    last = site.entry("1")
    assert last.end <= last.promise
    site.journal.close()


def test_a_job_that_may_not_be_requeued_is_never_killed(tmp_path: Path) -> None:
    options = {"grace": 5.0, "kill_and_restart": True}
    site = Site(tmp_path / "j.db", scheduler="fqops", options=options)
    site.fake.submit(4, limit=300, run_time=250, deadline=2000).is_rerunnable = False
    site.pass_time(30)
    site.fake.submit(4, limit=100, run_time=50, deadline=200)
    site.pass_time(400)
    assert not any(what == "requeued" for what, _, _ in site.fake.effects)
    assert site.entry("2").answer == "refused"
    site.journal.close()


def test_best_effort_jobs_can_be_left_to_the_manager(tmp_path: Path) -> None:
    site = Site(tmp_path / "j.db")
    site.kept = {"takes_best_effort": False}
    site.restart()
    site.fake.starts_by_itself = True
    other = site.fake.submit(1, limit=60, run_time=30)
    site.pass_time(5)
    assert other.phase is JobPhase.RUNNING
    assert site.fake.said == []
    site.journal.close()


def test_easy_decides_as_well(tmp_path: Path) -> None:
    site = Site(tmp_path / "j.db", scheduler="easy", options={})
    jobs = [site.fake.submit(nodes, limit=60, run_time=50) for nodes in (3, 4, 1)]
    site.pass_time(20)
    assert [job.phase for job in jobs] == [JobPhase.RUNNING, JobPhase.WAITING, JobPhase.RUNNING]
    site.pass_time(120)
    assert {job.phase for job in jobs} == {JobPhase.ENDED}
    site.journal.close()


def test_a_second_process_on_one_journal_is_refused(site: Site) -> None:
    with pytest.raises(InputError, match="another process decides with this journal"):
        Journal(site.path, writes=True)


def test_everything_can_be_handed_back(site: Site) -> None:
    site.fake.submit(4, limit=600, run_time=300)
    waiting = [site.fake.submit(4, limit=600, run_time=300) for _ in range(2)]
    site.pass_time(3)
    assert hand_back(site.journal, site.fake, site.fake.now) == ["2", "3"]
    assert not any(job.is_held for job in waiting)


def test_a_row_that_cannot_be_read_ends_no_job_and_is_told_once(site: Site) -> None:
    runs, waits = (site.fake.submit(4, limit=600, run_time=30, deadline=5000) for _ in range(2))
    site.pass_time(3)
    for job in (runs, waits, site.fake.submit(1, limit=600, run_time=300)):
        job.problem = "cannot be read: State is 'DREAMING'"
    site.pass_time(10)
    assert [site.entry(job.id).phase for job in (runs, waits)] == ["running", "waiting"]
    told = [text for _, _, text in site.journal.notes("alarm")]
    assert told == [f"job {n} cannot be read: State is 'DREAMING'" for n in (1, 2, 3)]
    for job in site.fake.all.values():
        job.problem = ""
    site.pass_time(100)
    assert {job.phase for job in site.fake.all.values()} == {JobPhase.RUNNING, JobPhase.ENDED}
    assert site.entry(waits.id).promise is not None


def test_a_row_that_cannot_be_read_does_not_date_a_new_journal(tmp_path: Path) -> None:
    fake = FakeManager(2)
    odd = fake.submit()
    odd.problem, odd.submitted = "cannot be read", 0.0
    with Journal(tmp_path / "j.db", writes=True) as journal:
        about = replace(Site(tmp_path / "other.db").about, mode=LIVE)
        assert LiveCentre(fake, journal, about, clock=fake.clock).about.origin == fake.now


def test_a_deadline_of_a_job_that_started_before_it_was_seen_is_told(site: Site) -> None:
    others_job(site, ("n1",), limit=60, run_time=50).asks = {"deadline": "1000100"}
    others_job(site, ("n2",), limit=60, run_time=50)
    ours = site.fake.submit(1, limit=60, run_time=50, deadline=500)
    site.pass_time(10)
    site.restart()
    site.pass_time(10)
    told = "was started before it was seen: its deadline is never answered"
    assert [text for _, _, text in site.journal.notes("alarm")] == [f"job 1 {told}"]
    assert site.entry(ours.id).answer == "promised"


def test_a_flood_of_refusals_delays_no_start(site: Site) -> None:
    """Each is worked out; on a real Slurm 101 of them took a step of four minutes."""
    flood = [site.fake.submit(4, limit=600, run_time=300, deadline=60) for _ in range(12)]
    honest = site.fake.submit(4, limit=600, run_time=300, deadline=5000)
    site.pass_time(2)
    assert (honest.phase, sum(bool(job.told) for job in flood)) == (JobPhase.RUNNING, 10)
    assert site.entry(honest.id).answer == "promised"
    site.pass_time(2)
    assert all(job.phase is JobPhase.ENDED for job in flood)


def test_a_job_that_waits_for_its_date_is_held_until_then(site: Site) -> None:
    """As one whose user requeues it after its end: Slurm would start it two minutes later."""
    early = site.fake.submit(4, limit=600, run_time=300, deadline=5000)
    early.is_early = True
    site.centre.step()
    assert site.fake.said == [f"hold {early.id}"]
    site.pass_time(10)
    assert (early.phase, site.fake.said) == (JobPhase.WAITING, [f"hold {early.id}"])
    early.is_early = False
    site.pass_time(3)
    assert (early.phase, site.entry(early.id).answer) == (JobPhase.RUNNING, "promised")
    assert site.journal.notes("alarm") == []


def test_no_node_at_all_is_no_news(site: Site) -> None:
    """Slurm tells of neither jobs nor nodes of a partition that is gone, and says no word."""
    job = site.fake.submit(1, limit=600, run_time=300)
    site.pass_time(3)
    site.fake.states.clear()
    jobs, site.fake.all = site.fake.all, {}
    site.pass_time(3)
    assert site.entry(job.id).phase == "running"
    assert "no news: Slurm lists no nodes; at least one node is expected" in site.lines
    site.fake.all = jobs


def test_a_rehearsal_sends_nothing_and_leaves_the_journal_as_it_is(site: Site) -> None:
    site.fake.submit(1)
    site.centre.rehearse()
    assert site.lines == ["would hold 1", "would start 1 n1"]
    assert site.fake.said == []
    assert site.journal.entries() == []
    assert site.journal.orders() == []


@pytest.mark.parametrize(
    "asks",
    [
        *({"deadline": text} for text in ("nan", "inf", "-inf", "1e999", "1e15", "-1e15", "")),
        *({"deadline": text} for text in ("0001-01-01T00:00", "9999-12-31T23:59:59", "½", "--1")),
        *({"deadline": "1002000", "tolerance": text} for text in ("²", "nan", "-1", "1.2.3", "x")),
        {"deadline": "-1"},
    ],
)
def test_no_comment_of_a_user_stops_the_others(site: Site, asks: dict[str, str]) -> None:
    site.fake.submit(1).asks = asks
    honest = site.fake.submit(4, limit=600, run_time=300, deadline=5000)
    site.pass_time(3)
    assert site.entry(honest.id).answer == "promised"
    site.restart()
    site.pass_time(700, poll=20)
    assert honest.phase is JobPhase.ENDED
    assert site.entry(honest.id).outcome == "COMPLETED_SUCCESSFULLY"
