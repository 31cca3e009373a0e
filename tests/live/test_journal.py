"""Journals on full disks, damaged ones, and who may read them."""

from __future__ import annotations

import os
import random
import re
import stat
from pathlib import Path

import pytest

from qops_batsim import InputError
from qops_batsim.live import Journal, LiveCentre, report
from qops_batsim.live.as_run import export_run
from qops_batsim.live.journal import JournalFailure
from support.live_site import Site

PAGE = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A journal of jobs with and without promises."""
    site = Site(tmp_path_factory.mktemp("whole") / "j.db")
    for number in range(20):
        site.fake.submit(1 + number % 4, limit=60, run_time=30, deadline=5000)
        site.pass_time(3)
    site.journal.close()
    return site.path.read_bytes()


def looks(path: Path, site: Site) -> None:
    """Do with a journal what the commands do."""
    with Journal(path) as journal:
        journal.entries(), journal.orders(), journal.notes()
        export_run(journal, path.with_suffix(""))
        report(journal)
    with Journal(path, writes=True) as journal:
        LiveCentre(site.fake, journal, site.about, clock=site.fake.clock).step()


def test_a_page_of_zeros_is_found_before_anything_is_decided(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "damaged.db"
    for place in range(0, len(whole), PAGE):
        path.write_bytes(whole[:place] + bytes(PAGE) + whole[place + PAGE :])
        for writes in (False, True):
            with pytest.raises(InputError, match=r"damaged\.db: "):
                Journal(path, writes=writes)


def test_zeros_anywhere_are_one_clear_error(tmp_path: Path, whole: bytes, site: Site) -> None:
    draw, path, found = random.Random(1), tmp_path / "damaged.db", []
    for begin in draw.sample([each.start() for each in re.finditer(rb'{"', whole)], 5):
        path.write_bytes(whole[:begin] + bytes(40) + whole[begin + 40 :])
        try:
            looks(path, site)
        except JournalFailure as error:
            found.append(str(error))
    assert len(found) > 1
    assert all(each.startswith(f"{path}: ") for each in found)


@pytest.mark.parametrize("left", [0, 1, 100, PAGE, 3 * PAGE + 7])
def test_a_journal_that_was_cut_off_is_not_begun_again(
    tmp_path: Path, whole: bytes, left: int
) -> None:
    path = tmp_path / "cut.db"
    path.write_bytes(whole[:left])
    Path(f"{path}.lock").write_text("begun\n")
    with pytest.raises(JournalFailure, match=r"cut\.db: "):
        Journal(path, writes=True)


def test_a_full_disk_ends_the_decisions_before_anything_is_sent(site: Site) -> None:
    site.fake.submit(1, limit=60, run_time=50, deadline=900)
    site.pass_time(5)
    pages = site.journal._db.execute("PRAGMA page_count").fetchone()[0]
    site.journal._db.execute(f"PRAGMA max_page_count={pages}")
    said: list[str] = []

    def submit_until_it_is_full() -> None:
        while True:
            said[:] = site.fake.said
            site.fake.submit(1, limit=60, run_time=50, deadline=900)
            site.pass_time(1)

    with pytest.raises(
        JournalFailure, match=r"journal\.db: .* written \(database or disk is full\); "
    ):
        submit_until_it_is_full()
    assert site.fake.said == said
    site.journal._db.execute("PRAGMA max_page_count=1000000")
    site.restart()  # With room again, it goes on.
    site.pass_time(1500, poll=10)
    assert {job.phase.value for job in site.fake.all.values()} == {"ended"}


def test_who_may_not_read_a_journal_is_told_so(site: Site) -> None:
    user = os.geteuid()
    site.path.chmod(0)
    try:
        if user == 0:
            os.seteuid(65534)
        with pytest.raises(
            InputError, match=r"journal\.db: this user may not read the file; run the "
        ):
            Journal(site.path)
    finally:
        os.seteuid(user)


def test_a_journal_is_its_owners_alone(tmp_path: Path) -> None:
    os.umask(before := os.umask(0o022))
    assert before != 0o077
    site = Site(tmp_path / "j.db")
    site.pass_time(2)

    def modes() -> dict[str, int]:
        return {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}

    names = ("j.db", "j.db-wal", "j.db-shm", "j.db.lock")
    assert modes() == dict.fromkeys(names, 0o600)
    site.path.chmod(0o644)  # As earlier versions made it.
    site.restart()
    site.pass_time(2)
    assert {mode & 0o007 for mode in modes().values()} == {0}
    site.journal.close()
