"""A journal read as a run, and as a queue: by the commands that read those."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import urlopen

import pytest

from live_site import Site, others_job
from qops_batsim.cli.main import main
from qops_batsim.errors import InputError
from qops_batsim.live.centre import centre_date
from qops_batsim.live.journal import About, Journal
from qops_batsim.live.manager import JobPhase, NodeState
from qops_batsim.live.queue_source import QueueSource


@pytest.fixture
def journal(site: Site) -> str:
    """A journal of promises that were kept and one that waits, a refusal, and a withdrawal.

    n1-n4 │ 1 1 1 │ 2 2 │ 4 4 …
    """
    site.fake.submit(4, limit=600, run_time=300, deadline=1000)
    site.pass_time(2)
    site.fake.submit(2, limit=60, run_time=40, deadline=3000)
    site.fake.submit(4, limit=600, run_time=40, deadline=100)
    site.fake.submit(1)
    site.pass_time(20)
    site.fake.cancel("4")
    site.pass_time(400)
    site.fake.states["n4"] = NodeState.AWAY
    site.pass_time(5)
    site.fake.states["n4"] = NodeState.THERE
    site.fake.submit(4, limit=600, run_time=300, deadline=5000)
    site.fake.submit(4, limit=600, run_time=300, deadline=5000)
    site.pass_time(5)
    return str(site.path)


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    monkeypatch.setattr("sys.argv", ["qops-batsim", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr()
    assert not ended.value.code, told.out + told.err
    return told.out


def test_metrics_verify_explain_and_charges_take_it(
    journal: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = json.loads(run(capsys, monkeypatch, "metrics", journal, "--json"))[0]
    assert metrics["run"] == "journal"
    assert metrics["jobs_submitted"] == 4
    assert metrics["jobs_successful"] == 2
    asked = metrics["deadlines"]
    assert [asked[each]["jobs"] for each in ("asked", "promised", "kept", "refused")] == [
        3,
        2,
        2,
        1,
    ]
    assert "verified: 4 jobs on 4 hosts" in run(capsys, monkeypatch, "verify", journal)
    told = run(capsys, monkeypatch, "explain", journal, "3")
    assert "refused" in told
    assert told.startswith(f"w0!3 of {journal} (qops)")
    told = run(capsys, monkeypatch, "charges", journal)
    assert "resource charge" in told
    assert f"profit of {journal}" in told


def test_what_was_cut_off_from_outside_is_no_violation(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Job 1 loses its node, and is too late then; the user of job 2 cancels it while it runs."""
    site.fake.submit(2, limit=300, run_time=200, deadline=400)
    site.fake.submit(2, limit=300, run_time=200, deadline=900)
    site.pass_time(100)
    site.fake.lose_node("n1")
    site.fake.cancel("2")
    site.pass_time(400)
    assert "verified: 4 jobs" in run(capsys, monkeypatch, "verify", str(site.path))


def test_jobs_of_others_are_in_the_story_of_a_job(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    n1-n2 │ 1 1 1 (others') │ 2 2
    n3-n4 │ 3 │             │ 2 2
    """
    others_job(site, ("n1", "n2"), limit=600, run_time=300)
    wide = site.fake.submit(4, limit=60, run_time=50, deadline=800)
    site.fake.submit(2, limit=60, run_time=50, deadline=100)
    site.pass_time(500)
    assert wide.phase is JobPhase.ENDED
    told = json.loads(run(capsys, monkeypatch, "explain", str(site.path), "2", "--json"))
    assert told["outcome"] == "ended"
    (held,) = told["waited_for"]
    assert (held["job"], held["processors"], held["running"]) == ("w0!1", 2, True)
    assert "verified: 2 jobs" in run(capsys, monkeypatch, "verify", str(site.path))


def test_quotes_are_given_for_its_queue(
    journal: str, site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One job of 600 s and the margin is before the new one; another can wait for it."""
    words = ["quote", "--queue", journal, "--now", str(site.fake.now), "--ask", "4x10m", "--json"]
    told = json.loads(run(capsys, monkeypatch, *words))
    (answer,) = told["jobs"]
    assert answer["wait"] == pytest.approx(660 - 4, abs=3)
    assert answer["response"] == pytest.approx(2 * 660 - 4, abs=60)


def test_the_journal_of_a_process_that_has_ended_is_too_old(
    journal: str, site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts is when Slurm has answered last, not when something has happened last."""
    with Journal(journal) as found:
        assert found.last_news == pytest.approx(site.fake.now, abs=60)
    source = QueueSource(Path(journal), "qops", {}, max_age=3600)
    for later, is_told in ((60, True), (2 * 86_400, False)):
        monkeypatch.setattr(
            "qops_batsim.live.queue_source.time.time", lambda at=site.fake.now + later: at
        )
        if is_told:
            assert source.changed() is not None
        else:
            with pytest.raises(InputError, match=r"2 days, 0:00:0\d old; at most 1:00:00"):
                source.changed()


def test_the_endpoint_answers_from_it(journal: str, site: Site) -> None:
    from threading import Thread

    from qops_batsim.advice.quote_server import QueueKeeper, QuoteServer

    source = QueueSource(Path(journal), "qops", {}, now=site.fake.now)
    server = QuoteServer(("127.0.0.1", 0), QueueKeeper(source.read, source.changed))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    host, port = server.address
    with urlopen(f"http://{host}:{port}/quote?processors=1&time=10m", timeout=20) as answer:
        told = json.load(answer)
    server.should_exit = True
    thread.join(10)
    assert (told["state"]["running"], told["state"]["waiting"]) == (1, 1)
    assert told["jobs"][0]["end"] is not None


def test_status_tells_promises_and_starts_by_the_clock(
    journal: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = run(capsys, monkeypatch, "live", "status", journal)
    assert "1 waiting, 1 running, 4 promised, 2 kept, 0 broken, 1 refused" in told
    found = json.loads(run(capsys, monkeypatch, "live", "status", journal, "--json"))
    jobs = {each["job"]: each for each in found["jobs"]}
    rows = [line.split("│") for line in told.splitlines() if "ada" in line]
    assert [row[0].strip() for row in rows] == list(jobs)
    for row, job in zip(rows, jobs.values(), strict=True):
        start = job["start"] or job["ordered"] or job["planned"]
        for cell, date in ((row[4], job["promise"]), (row[5], start)):
            assert cell.strip() == centre_date(About(**found["about"]), date)
