"""A live centre whose process is killed at any moment: nothing is lost, nothing is done twice."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from qops_batsim import InputError
from qops_batsim.cli.main import main
from qops_batsim.live import CommandFailed, JobPhase, Journal, NodeState, SeenJob, counts
from qops_batsim.live.book import LiveBook
from qops_batsim.live.centre import hand_back, replay
from qops_batsim.protocol import ModuleDriver, make_scheduler
from support.fake_manager import FakeManager
from support.live_site import Site


class Killed(BaseException):
    """The end of the process, as kill -9 makes it."""


class Fuse:
    """Ends the process at one of the moments that it hears of."""

    def __init__(self) -> None:
        self.left: int | None = None

    def moment(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise Killed


class MortalManager:
    """The fake manager, with moments before and after whatever it is told."""

    def __init__(self, fake: FakeManager, fuse: Fuse) -> None:
        self._fake, self._fuse = fake, fuse

    def jobs(self) -> list[SeenJob]:
        return self._fake.jobs()

    def nodes(self) -> dict[str, NodeState]:
        return self._fake.nodes()

    def hold(self, job_ids: Sequence[str]) -> None:
        self._fuse.moment()
        self._fake.hold(job_ids)
        self._fuse.moment()

    def start(self, job_id: str, hosts: Sequence[str]) -> None:
        self._fuse.moment()
        self._fake.start(job_id, hosts)
        self._fuse.moment()

    def release(self, job_ids: Sequence[str]) -> None:
        self._fake.release(job_ids)

    def refuse(self, job_id: str, why: str) -> None:
        self._fuse.moment()
        self._fake.refuse(job_id, why)
        self._fuse.moment()

    def requeue(self, job_id: str) -> None:
        self._fuse.moment()
        self._fake.requeue(job_id)
        self._fuse.moment()

    def tell(self, texts: Mapping[str, str]) -> None:
        self._fuse.moment()
        self._fake.tell(texts)


def mortal(journal: Journal, fuse: Fuse) -> None:
    """Have moments before and after each commit of a journal."""
    whole = journal.transaction

    @contextmanager
    def transaction() -> Iterator[None]:
        with whole():
            yield
            fuse.moment()
        fuse.moment()

    journal.transaction = transaction  # type: ignore[method-assign]


@pytest.mark.parametrize("scheduler", ["qops", "fqops"])
def test_fifty_kills_at_random_moments(tmp_path: Path, scheduler: str) -> None:
    """Each job starts, ends and is refused at most once a run, and none is left behind."""
    options = {"grace": 5.0} | ({"kill_and_restart": True} if scheduler == "fqops" else {})
    site, fuse, draw = (
        Site(tmp_path / "j.db", 8, scheduler=scheduler, options=options),
        Fuse(),
        random.Random(4),
    )
    site.manager = MortalManager(site.fake, fuse)
    site.kept = {"forget_after": 20}
    site.restart()
    mortal(site.journal, fuse)
    kills = 0
    for step in range(1000):
        if step < 300 and draw.random() < 0.3:
            limit = draw.choice([60, 120, 300])
            wanted = None if draw.random() < 0.2 else (limit + 60) * draw.uniform(1.0, 4.0)
            site.fake.submit(draw.choice([1, 2, 4, 8]), limit, draw.uniform(5, limit), wanted)
        if kills < 50 and fuse.left is None and draw.random() < 0.5:
            fuse.left = draw.randrange(6)
        site.fake.advance(5.0)
        try:
            site.centre.step()
        except Killed:
            kills += 1
            site.restart()
            mortal(site.journal, fuse)
        if step > 300 and all(j.phase is JobPhase.ENDED for j in site.fake.all.values()):
            break
    fuse.left = None
    site.pass_time(10)
    assert kills == 50
    assert max(site.fake.effects.values()) == 1
    assert {job.phase for job in site.fake.all.values()} == {JobPhase.ENDED}
    entries = site.journal.entries()
    assert {each.job for each in entries} == set(site.fake.all)
    assert {each.phase for each in entries} == {"gone"}
    told = counts(entries)
    assert told["promised"] > 20
    assert told["refused"] > 5
    assert told["kept"] == told["promised"]
    assert site.journal.orders(only_open=True) == []
    if scheduler == "fqops":
        assert any(what == "requeued" for what, _, _ in site.fake.effects)
    site.journal.close()


def test_what_is_committed_is_on_the_disk(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.db", writes=True) as journal:
        told = [
            journal._db.execute(f"PRAGMA {name}").fetchone()
            for name in ("journal_mode", "synchronous")
        ]
    assert told == [("wal",), (2,)]  # FULL


def test_a_fresh_module_answers_as_before(site: Site) -> None:
    site.fake.submit(4, limit=600, run_time=300, deadline=1000)
    site.fake.submit(2, limit=600, run_time=200, deadline=2000)
    site.pass_time(20)
    starts = site.centre.module.planned_starts()  # type: ignore[union-attr]
    site.restart()
    assert site.centre.replayed == 2
    assert site.centre.module.planned_starts() == starts  # type: ignore[union-attr]
    assert len(starts) == 1


def test_a_module_that_decides_otherwise_is_refused(site: Site) -> None:
    site.fake.submit(4, limit=600, run_time=300, deadline=1000)
    site.pass_time(3)
    module = make_scheduler("qops", {"order": "earliest_deadline"})
    assert replay(ModuleDriver(module, any_engine=True), site.journal) == 2
    site.journal._db.execute("UPDATE messages SET decisions=replace(decisions, '0-3', '1-3')")
    module = make_scheduler("qops", {})
    with pytest.raises(InputError, match="message 2: the scheduler now gives other decisions"):
        replay(ModuleDriver(module, any_engine=True), site.journal)


def test_nodes_that_are_away_are_known_after_a_restart(site: Site) -> None:
    site.fake.states["n1"] = NodeState.AWAY
    site.pass_time(2)
    site.restart()
    job = site.fake.submit(3, limit=60, run_time=30)
    site.pass_time(3)
    assert job.hosts == ("n2", "n3", "n4")
    # Nothing was told twice.
    assert site.journal.last_message[0] == 3


def test_dates_never_go_back(site: Site) -> None:
    site.fake.submit(1, limit=600, run_time=300)
    site.pass_time(10)
    site.fake.now -= 3600
    site.fake.submit(1, limit=600, run_time=300)
    site.centre.step()
    dates = [told.now for _, told, _ in site.journal.messages()]
    assert dates == sorted(dates)
    assert len(dates) == 3


def test_the_book_alone_needs_no_journal(site: Site) -> None:
    assert LiveBook(site.centre.about).waiting() == []


def damaged(path: Path, how: str) -> list[str]:
    """Damage a journal, and return how release-all is told of it."""
    content = path.read_bytes()
    found = {
        "whole": content,
        "cut": content[: len(content) // 3],
        "cut to nothing": b"",
        "zeros": content[:100] + bytes(len(content) - 100),
        "a text": b"no journal",
    }
    if how in found:
        for further in ("-wal", "-shm"):
            path.with_name(path.name + further).unlink(missing_ok=True)
        path.write_bytes(found[how])
    if how == "absent":
        return ["--journal", str(path.with_name("absent.db"))]
    return [] if how == "none" else ["--journal", str(path)]


@pytest.mark.parametrize(
    "how", ["whole", "cut", "cut to nothing", "zeros", "a text", "absent", "none"]
)
def test_release_all_frees_what_is_held_for_us_and_nothing_else(
    site: Site, how: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 34: also what the filter has held since the process died, whatever the journal is."""
    fake = site.fake
    _, held = (fake.submit(4, limit=600, run_time=300, deadline=5000) for _ in range(2))
    site.pass_time(3)
    site.journal.close()
    by_filter, by_user, by_admin = (fake.submit(1) for _ in range(3))
    by_filter.is_handed = by_admin.is_held = True
    monkeypatch.setattr("qops_batsim.live.slurm_manager.SlurmManager", lambda partition: fake)
    monkeypatch.setattr(
        "sys.argv", ["qops-batsim", "live", "release-all", *damaged(site.path, how)]
    )
    with suppress(SystemExit):
        main()
    said = capsys.readouterr()
    assert said.out == f"released 2 jobs: {held.id}, {by_filter.id}\n"
    assert ("held jobs are recognised by their marks" in said.err) == (how not in ("whole", "none"))
    assert fake.said[-1] == f"release {held.id},{by_filter.id}"
    assert (by_user.is_held, by_admin.is_held) == (False, True)
    assert not site.path.with_name("absent.db").exists()


def test_what_is_held_in_spite_of_release_all_is_told(site: Site) -> None:
    class Stubborn(MortalManager):
        def release(self, job_ids: Sequence[str]) -> None:
            self._fake.release(job_ids[:-1])
            raise CommandFailed("Job update not available right now")

    jobs = [site.fake.submit(4, limit=600, run_time=300) for _ in range(3)]
    site.pass_time(3)
    with pytest.raises(CommandFailed, match=f"jobs {jobs[2].id} are still held .Job update"):
        hand_back(site.journal, Stubborn(site.fake, Fuse()), site.fake.now)
