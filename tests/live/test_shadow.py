"""A shadow: the scheduler is asked about jobs that the resource manager itself decides about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from qops_batsim.live import (
    SHADOW,
    JobPhase,
    Journal,
    LiveCentre,
    NodeState,
    SeenJob,
    ShadowManager,
    counts,
    report,
)
from support.fake_manager import FakeManager
from support.live_agreement import agreement
from support.live_site import Site


class Untouchable:
    """A resource manager that may be looked at, and no more."""

    def __init__(self, fake: FakeManager) -> None:
        self._fake = fake

    def jobs(self) -> list[SeenJob]:
        return self._fake.jobs()

    def nodes(self) -> dict[str, NodeState]:
        return self._fake.nodes()

    def shared_hosts(self) -> dict[str, dict[str, str]] | None:
        return self._fake.shared_hosts()

    def hold(self, job_ids: Sequence[str]) -> None:
        raise AssertionError(job_ids)

    def start(self, job_id: str, hosts: Sequence[str], cores: int | None = None) -> None:
        raise AssertionError(job_id)

    def release(self, job_ids: Sequence[str]) -> None:
        raise AssertionError(job_ids)

    def refuse(self, job_id: str, why: str) -> None:
        raise AssertionError(job_id)

    def requeue(self, job_id: str) -> None:
        raise AssertionError(job_id)

    def tell(self, texts: Mapping[str, str]) -> None:
        raise AssertionError(texts)


class ShadowSite(Site):
    """A fake cluster that decides by itself, first come, first served, and its shadow."""

    def _open(self) -> None:
        self.fake.starts_by_itself = True
        self.journal = Journal(self.path, writes=True)
        self.journal._db.execute("PRAGMA synchronous=OFF")
        known = self.journal.about
        looked = ShadowManager(
            Untouchable(self.fake),
            known,
            self.journal.entries(),
            self.journal.seen(),
            clock=self.fake.clock,
        )
        new = self.about if known is None else None
        self.centre = LiveCentre(looked, self.journal, new, clock=self.fake.clock)


def test_a_shadow_promises_and_refuses_but_changes_nothing(tmp_path: Path) -> None:
    """
    fake   │ 1 1 1 │ 2 2 │ 3 3      first come, first served
    shadow │ 1 1 1 │ 3 3 │          2 cannot be in time, 3 can
    """
    site = ShadowSite(tmp_path / "j.db", mode=SHADOW)
    first = site.fake.submit(4, limit=300, run_time=200, deadline=1000)
    site.pass_time(3)
    late = site.fake.submit(4, limit=300, run_time=100, deadline=500)
    third = site.fake.submit(4, limit=300, run_time=100, deadline=900)
    site.pass_time(600)
    assert [job.phase for job in (first, late, third)] == [JobPhase.ENDED] * 3
    assert site.fake.said == []
    # The shadow ran the third when the first had ended, as the refused one was not there.
    assert site.entry("3").start < (third.start or 0)
    assert site.entry("3").end - site.entry("3").start == 100
    told = report(site.journal)
    assert told.decided is not None
    assert told.manager is not None
    assert (told.decided.promised, told.decided.kept, told.decided.refused) == (2, 2, 1)
    assert (told.manager.asked, told.manager.in_time) == (3, 3)
    assert agreement(site.journal) == (3, 3, 3)
    site.journal.close()


def test_a_job_that_ran_before_the_shadow_takes_its_nodes(tmp_path: Path) -> None:
    site = ShadowSite.__new__(ShadowSite)
    fake = FakeManager(4)
    fake.starts_by_itself = True
    running = fake.submit(3, limit=300, run_time=100)
    fake.advance(10)
    assert running.phase is JobPhase.RUNNING
    Site.__init__(site, tmp_path / "j.db", mode=SHADOW)
    site.journal.close()
    (tmp_path / "j.db").unlink()
    site.fake = fake
    site._open()
    site.fake.submit(1, limit=60, run_time=30, deadline=200)
    site.fake.submit(4, limit=60, run_time=30)
    site.pass_time(60)
    assert site.entry("2").hosts == ["n4"]
    assert site.entry("3").phase == "waiting"
    site.pass_time(150)
    assert site.entry("3").outcome == "COMPLETED_SUCCESSFULLY"
    site.journal.close()


def test_a_shadow_goes_on_after_a_kill(tmp_path: Path) -> None:
    site = ShadowSite(tmp_path / "j.db", mode=SHADOW)
    for _ in range(3):
        site.fake.submit(4, limit=300, run_time=100, deadline=2000)
        site.pass_time(20)
    site.restart()
    site.pass_time(800)
    site.restart()
    site.pass_time(10)
    told = counts(site.journal.entries())
    assert (told["promised"], told["kept"], told["waiting"], told["running"]) == (3, 3, 0, 0)
    site.journal.close()
