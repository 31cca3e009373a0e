"""A journal read as a run, and as a queue: by the commands that read those."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from qops_batsim import InputError
from qops_batsim.cli.main import main
from qops_batsim.jobs import COMPLETED_FAILED
from qops_batsim.live import About, JobPhase, Journal, NodeState
from qops_batsim.live.centre import centre_date, journal_queue
from qops_batsim.queue import QueueSource
from support.live_site import Site, others_job


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


def counted(site: Site, capsys: Any, monkeypatch: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Return what `status` and `metrics` count of promises, and of refusals."""
    path = str(site.path)
    told = json.loads(run(capsys, monkeypatch, "live", "status", path, "--json"))["counts"]
    metrics = json.loads(run(capsys, monkeypatch, "metrics", path, "--json"))[0]["deadlines"]
    names = ("promised", "kept", "broken", "refused")
    return {name: told[name] for name in names}, {name: metrics[name]["jobs"] for name in names}


def cancels_while_it_waits(site: Site) -> None:
    site.fake.cancel("2")


def cancels_while_it_runs(site: Site) -> None:
    site.fake.cancel("1")


def changes_the_limit(site: Site) -> None:
    site.fake.all["2"].limit = 50


def changes_the_limit_to_what_is_refused(site: Site) -> None:
    site.fake.all["2"].limit = 500


def loses_a_node_in_time(site: Site) -> None:
    site.fake.all["1"].asks = {}
    site.fake.lose_node("n1")
    site.fake.states["n1"] = NodeState.THERE


def is_late_by_the_grace(site: Site) -> None:
    site.fake.all["1"].limit, site.fake.all["1"].end = 2000, site.entry("1").promise + 4


def is_late_by_more(site: Site) -> None:
    site.fake.all["1"].limit, site.fake.all["1"].end = 2000, site.entry("1").promise + 6


def fails(site: Site) -> None:
    site.fake.all["1"].outcome = COMPLETED_FAILED


def keeps_refused(site: Site) -> None:
    """Let all go on, job 3 without a deadline."""


def nothing(site: Site) -> None:
    """Let all go on."""


@pytest.mark.parametrize(
    ("happens", "promised", "kept", "broken", "refused"),
    [
        (nothing, 2, 2, 0, 1),
        (keeps_refused, 2, 2, 0, 1),
        (cancels_while_it_waits, 1, 1, 0, 1),
        (cancels_while_it_runs, 1, 1, 0, 1),
        (changes_the_limit, 2, 2, 0, 1),
        (changes_the_limit_to_what_is_refused, 1, 1, 0, 2),
        (loses_a_node_in_time, 2, 2, 0, 1),
        (is_late_by_the_grace, 2, 2, 0, 1),
        (is_late_by_more, 2, 1, 1, 1),
        (fails, 2, 2, 0, 1),
    ],
)
def test_status_and_metrics_count_promises_by_one_rule(
    site: Site,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[[Site], None],
    promised: int,
    kept: int,
    broken: int,
    refused: int,
) -> None:
    """
    n1-n4 │ 1 1 1 │ 2 2 │       3 was refused
    """
    if happens is keeps_refused:
        site.kept = {"keeps_refused": True}
        site.restart()
    site.fake.submit(4, limit=60, run_time=30, deadline=200)
    site.pass_time(2)
    site.fake.submit(4, limit=60, run_time=20, deadline=350)
    site.fake.submit(4, limit=60, run_time=20, deadline=10)
    site.pass_time(5)
    happens(site)
    site.pass_time(360, poll=2)
    right = {"promised": promised, "kept": kept, "broken": broken, "refused": refused}
    assert counted(site, capsys, monkeypatch) == (right, right)


@pytest.mark.parametrize(("away", "kept"), [(5, 1), (60, 0)])
def test_a_promise_that_was_given_up_is_judged_by_the_end_of_its_job(
    site: Site,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    away: int,
    kept: int,
) -> None:
    """Job 1 loses its node, and waits on without a deadline: three runs, and one promise."""
    site.fake.submit(4, limit=300, run_time=290, deadline=400)
    site.pass_time(100)
    site.fake.lose_node("n1")
    site.pass_time(away)
    site.fake.states["n1"] = NodeState.THERE
    site.pass_time(600)
    right = {"promised": 1, "kept": kept, "broken": 1 - kept, "refused": 0}
    assert counted(site, capsys, monkeypatch) == (right, right)
    assert "verified: 3 jobs" in run(capsys, monkeypatch, "verify", str(site.path))


ODD = {
    "too wide": ({"nodes": 9, "deadline": 900.0}, {}, "asks for 9 processors, the machine has 4"),
    "too wide, waits": ({"nodes": 9}, {}, "asks for 9 processors, the machine has 4"),
    "no date": (
        {"nodes": 1},
        {"deadline": "tomorrow"},
        "deadline=tomorrow in the comment is no date",
    ),
    "year 10209": (
        {"nodes": 1},
        {"deadline": "2.6e11"},
        "deadline=2.6e11 in the comment is no date",
    ),
    "no limit": ({"nodes": 1, "limit": None, "deadline": 900.0}, {}, "needs an unlimited time and"),
    "too late": ({"nodes": 1, "deadline": -50.0}, {}, "its deadline is -50 s away"),
}


def test_no_job_makes_a_command_fail_for_all_of_a_journal(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is in all that commands tell, with its reason; no copied file is named."""
    site.fake.submit(4, limit=60, run_time=30, deadline=900)
    site.pass_time(2)
    jobs = []
    for fields, asks, _ in ODD.values():
        jobs.append(job := site.fake.submit(**fields))  # type: ignore[arg-type]
        job.asks |= asks
        job.limit = fields.get("limit", 60.0)  # type: ignore[assignment]
    site.pass_time(5)
    site.pass_time(95, poll=10)
    assert [name for name, job in zip(ODD, jobs, strict=True) if job.phase is JobPhase.WAITING] == [
        "too wide, waits"
    ]
    for job in jobs:
        site.fake.cancel(job.id)
    site.pass_time(5)
    path = str(site.path)
    for words in (
        *(("metrics", path), ("verify", path), ("charges", path), ("live", "report", path)),
        *(("diff", path, path), ("live", "status", path)),
    ):
        assert "/qops-live-" not in run(capsys, monkeypatch, *words)
    for job, (_, _, reason) in zip(jobs, ODD.values(), strict=True):
        assert reason in job.told
        assert reason in " ".join(run(capsys, monkeypatch, "explain", path, job.id).split())


@pytest.mark.parametrize(
    "words",
    [
        ("explain", "77"),
        ("metrics", "--hosts", "2"),
        ("charges", "--fill"),
        ("charges", "--workload", "{}"),
        ("explain", "1", "--workload", "{}"),
    ],
)
def test_errors_name_the_journal_and_no_file_that_was_made_of_it(
    journal: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    tmp_path: Path,
) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"nb_res": 4, "jobs": [], "profiles": {}}')
    name, *rest = words
    monkeypatch.setattr(
        "sys.argv", ["qops-batsim", name, journal, *(w.format(other) for w in rest)]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr()
    assert ended.value.code
    assert "/qops-live-" not in told.out + told.err
    assert journal in told.out + told.err or str(other) in told.err


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
    words = ["queue", "quote", journal, "4x10m", "--now", str(site.fake.now), "--json"]
    told = json.loads(run(capsys, monkeypatch, *words))
    (answer,) = told["jobs"]
    assert answer["wait"] == pytest.approx(660 - 4, abs=3)
    assert answer["response"] == pytest.approx(2 * 660 - 4, abs=60)


def test_quotes_from_a_journal_are_for_the_nodes_that_are_there(site: Site) -> None:
    """Of n1-n4, n3 has left; a job on it goes on, and a restart does not forget it."""
    job = site.fake.submit(4, limit=600, run_time=500, deadline=5000)
    site.pass_time(5)
    site.fake.states["n3"] = NodeState.AWAY
    site.pass_time(3)
    site.restart()
    source = QueueSource(site.path, now=site.fake.now, other=journal_queue)
    found = source.state()
    assert found.left_out == {"nodes away (as live has seen), with 1 processors": 1}
    assert (found.processors, found.away, source.state().free) == (3, 1, 0)
    assert [each.processors for each in found.jobs] == [3]
    site.fake.states["n3"] = NodeState.THERE
    site.pass_time(3)
    assert source.state().processors == 4
    assert job.phase is JobPhase.RUNNING


def test_the_journal_of_a_process_that_has_ended_is_too_old(
    journal: str, site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts is when Slurm has answered last, not when something has happened last."""
    with Journal(journal) as found:
        assert found.last_news == pytest.approx(site.fake.now, abs=60)
    source = QueueSource(Path(journal), max_age=3600, other=journal_queue)
    for later, is_told in ((60, True), (2 * 86_400, False)):
        monkeypatch.setattr(
            "qops_batsim.queue.source.time.time", lambda at=site.fake.now + later: at
        )
        if is_told:
            assert source.asker() is not None
        else:
            with pytest.raises(InputError, match=r"2 days, 0:00:0\d old; at most 1:00:00"):
                source.asker()


def test_the_endpoint_answers_from_it(journal: str, site: Site) -> None:
    from threading import Thread

    from qops_batsim.queue.quote_server import QuoteServer

    source = QueueSource(Path(journal), now=site.fake.now, other=journal_queue)
    server = QuoteServer(("127.0.0.1", 0), source.asker)
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
