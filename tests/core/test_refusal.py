"""Typed refusals: one renderer makes their sentences, and nothing reads these back."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

import msgspec
import pytest

import qops_batsim
from qops_batsim import DeadlineScheduler, Job, QosRequest, simulate
from qops_batsim.core.decision_events import Event, refusal_of
from qops_batsim.core.qos_log import write_qos_log
from qops_batsim.core.refusal import (
    OfferOutcome,
    Refusal,
    RefusalKind,
    free_text,
    missed_deadline,
    no_time,
    sentence,
    sentences,
)
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.workload import Workload, delay_profile

K = RefusalKind


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        (Refusal(kind=K.NONE), ""),
        (free_text("not today"), "not today"),
        (
            Refusal(kind=K.TOO_WIDE, processors=5, machine_size=4),
            "asks for 5 processors, the machine has 4",
        ),
        (
            Refusal(kind=K.TOO_WIDE, machine_size=4),
            "asks for no processor, the machine has 4",
        ),
        (
            Refusal(kind=K.HOSTS_GONE, processors=4, machine_size=4, hosts=1),
            "asks for 4 processors; 1 of 4 hosts is gone and will not return",
        ),
        (
            Refusal(kind=K.HOSTS_AWAY, processors=3, machine_size=4, hosts=2),
            "asks for 3 processors; 2 of 4 hosts are away",
        ),
        (no_time(18567.25, 0.3, 9.0), "needs 18567.25 s and its deadline is 0.3 s away"),
        (no_time(math.inf, -7.0, 9.0), "needs an unlimited time and its deadline is -7 s away"),
        (
            missed_deadline("w0!A", 18567.0, own=True, insertion_point=0, waiting=2),
            "its own deadline (18567 s) would be missed at insertion point 0 of 2 waiting jobs",
        ),
        (
            missed_deadline("w0!B", 1234567.891, own=False, positions=3),
            "the deadline of w0!B (1234567.891 s) would be missed at each of 3 positions",
        ),
        (
            missed_deadline("w0!B", 7.0, own=False, steps_back=11),
            "the deadline of w0!B (7 s) would be missed after 11 steps back",
        ),
        (
            Refusal(kind=K.NO_START, date=1234567.5, processors=4),
            "no start lets 4 tasks end by 1234567.5 s and keeps every promise",
        ),
        (
            Refusal(kind=K.NO_HOSTS, processors=4),
            "no hosts for 4 tasks at once without breaking a promise",
        ),
        (
            Refusal(kind=K.PART_TOO_WIDE, name="d"),
            "another job of application d is too wide",
        ),
        (
            Refusal(kind=K.PROMISE_LIMIT, name="ann", work=7200.0, held=36_000.0, most=40_000.0),
            "needs 2 processor-hours, and ann holds promises for 10 of the 11.1111 that one may "
            "hold",
        ),
        (Refusal(kind=K.KILLED_FOR_IT, blamed="w0!A"), "w0!A was killed for it"),
        (
            Refusal(kind=K.KILLED_AT_ESTIMATE, estimate=18567.0),
            "killed at its estimate of 18567 s",
        ),
        (
            Refusal(kind=K.KILLED_AT_ESTIMATE, estimate=10.0, run_time=11.0),
            "killed at 11 s, extended from its estimate of 10 s",
        ),
        (
            Refusal(kind=K.STOPPED, blamed="w0!1", name="w0!0#1"),
            "stopped for w0!1, goes on as w0!0#1",
        ),
        (
            Refusal(kind=K.HOSTS_LOST, date=3600.0, hosts=12, broken=5000.0),
            "machine lost 12 hosts at 3600 s; the promise of 5000.000000 s could not be kept",
        ),
    ],
)
def test_every_kind_has_a_sentence_with_exact_dates(refusal: Refusal, text: str) -> None:
    assert sentence(refusal) == text
    assert sentences([refusal, free_text("b")]) == f"{text}; b"
    again = msgspec.json.decode(msgspec.json.encode(refusal), type=Refusal)
    assert again == refusal


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (OfferOutcome.NONE, ""),
        (
            OfferOutcome.NOT_WORTH_MAKING,
            "; no offer is worth making: the tolerance factor 1.4 is below the slack factor 1.5",
        ),
        (OfferOutcome.NO_DATE, "; no deadline can be offered"),
        (OfferOutcome.TOO_LATE, "; no deadline can be offered: 18567.5 s is later than any date"),
        (OfferOutcome.NOT_TAKEN, "; the offered deadline 18567.5 s was not taken"),
        (OfferOutcome.TAKEN, "; the offer was taken"),
    ],
)
def test_what_became_of_an_offer_stands_behind(outcome: OfferOutcome, text: str) -> None:
    refusal = Refusal(
        kind=K.FREE_TEXT, text="no", offer=outcome, offered=18567.5, tolerance=1.4, slack_factor=1.5
    )
    assert sentence(refusal) == f"no{text}"


def test_dates_can_be_told_otherwise() -> None:
    refusal = missed_deadline("w0!A", 60.0, own=True)
    assert sentence(refusal, lambda date: f"minute {date / 60:g}") == (
        "its own deadline (minute 1) would be missed"
    )


def test_a_kind_of_a_later_version_is_told_in_its_words() -> None:
    line = (
        b'{"event":"refused","date":1,"job":"w0!1","reason":"the moon is full",'
        b'"refusal":{"kind":"moon","phase":"full"}}'
    )
    assert refusal_of(msgspec.json.decode(line, type=Event)) == free_text("the moon is full")
    line = b'{"event":"refused","date":1,"job":"w0!1","reason":"of an earlier version"}'
    assert refusal_of(msgspec.json.decode(line, type=Event)) == free_text("of an earlier version")


def job(name: str, arrival: float, seconds: float, deadline: float) -> Job:
    qos = QosRequest(deadline=deadline, estimated_runtime=seconds)
    return Job(name, arrival, 1, f"delay_{seconds}", qos=qos)


# One processor. C asks at 2 for 600 s by 05:09:27, when B has no time to spare.
#
#   |AAAAAAAAABBBBBBB
#    0        10000 18000   18567
JOBS = [
    job("A", 0.0, 10_000.25, 10_000.25),
    job("B", 1.0, 8_000.5, 18_000.75),
    job("C", 2.0, 600.0, 18_567.0),
]


def rows_of(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="") as stream:
        return {f"w0!{row['job_id']}": row for row in csv.DictReader(stream)}


@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize("scheduler", ["qops", "msb", "mrt"])
def test_files_carry_kind_blamed_job_and_date(tmp_path: Path, scheduler: str, logged: bool) -> None:
    profiles = dict(delay_profile(float(each.profile.partition("_")[2])) for each in JOBS)
    jobs = [
        Job(each.id, each.submission_time, 1, delay_profile(each.estimate)[0], qos=each.qos)
        for each in JOBS
    ]
    module = make_scheduler(scheduler)
    if logged:
        assert module.keep_decisions()
    simulate(module, Workload(jobs=jobs, profiles=profiles, processors=1), make_cluster(1))
    row = rows_of(write_qos_log(module.qos_log, tmp_path / "x"))["w0!C"]
    assert row["reason_kind"] in ("own_deadline", "other_deadline")
    own = row["reason_kind"] == "own_deadline"
    date = {"w0!B": "18000.75", "w0!C": "18567"}[row["blamed_job"]]
    assert float(row["blamed_date"]) == float(date)
    assert own == (row["blamed_job"] == "w0!C")
    whose = "its own deadline" if own else f"the deadline of {row['blamed_job']}"
    assert row["reason"].startswith(f"{whose} ({date} s) would be missed")
    if not logged:
        return
    events = [json.loads(line) for line in module.decision_lines()]
    (event,) = (each for each in events if each["event"] == "refused")
    assert event["reason"] == row["reason"]
    assert event["refusal"]["kind"] == row["reason_kind"]
    assert event["refusal"]["blamed"] == event["blamed"] == row["blamed_job"]
    assert event["refusal"]["date"] == float(date)


def test_an_offer_keeps_why_the_request_was_refused(tmp_path: Path) -> None:
    name, profile = delay_profile(8.0)
    jobs = [
        Job(each, date, 1, name, qos=QosRequest(deadline=by, estimated_runtime=8.0))
        for each, date, by in (("A", 0.0, 8.0), ("B", 2.0, 12.5))
    ]
    workload = Workload(jobs=jobs, profiles={name: profile}, processors=1)
    module = make_scheduler("fqops", {"tolerance_factor": 3.0})
    simulate(module, workload, make_cluster(1))
    (refusal,) = module.qos_log.record("w0!B").reasons
    assert (refusal.kind, refusal.offer) == (K.OWN_DEADLINE, OfferOutcome.TAKEN)
    row = rows_of(write_qos_log(module.qos_log, tmp_path / "x"))["w0!B"]
    assert (row["decision"], row["reason_kind"]) == ("accepted", "own_deadline")
    assert row["blamed_date"] == "12.500000"


def test_a_scheduler_of_ones_own_gives_a_kind_or_words() -> None:
    class Moody(DeadlineScheduler):
        """Refuses all but the first."""

        summary = "refuses all but the first"

        def admit(self, job: Job) -> str | Refusal | None:
            if job.id == "w0!A":
                self.adopt_starts({job: 0.0})
                return None
            if job.id == "w0!B":
                return "not today"
            return missed_deadline(job.id, job.target, own=True)

    name, profile = delay_profile(8.0)
    jobs = [
        Job(each, 0.0, 1, name, qos=QosRequest(deadline=99.5, estimated_runtime=8.0))
        for each in "ABC"
    ]
    module = make_scheduler(Moody)
    simulate(module, Workload(jobs=jobs, profiles={name: profile}, processors=1), make_cluster(1))
    log = module.qos_log
    assert log.record("w0!A").reasons == ()
    assert log.record("w0!B").reasons == (free_text("not today"),)
    assert log.record("w0!C").reasons == (missed_deadline("w0!C", 99.5, own=True),)
    assert log.record("w0!C").reason == "its own deadline (99.5 s) would be missed"


PACKAGE = Path(qops_batsim.__file__).parent
SENTENCES = re.compile(
    r"would be missed|its own deadline \(|the deadline of|processors, the machine has|"
    r"will not return|hosts are away|; it is worth|was killed for it|goes on as|machine lost|"
    r"the promise of|was not taken|can be offered|worth making|keeps every promise|"
    r"without breaking"
)
READING = re.compile(r"\bre\.|startswith|endswith|partition|split|\.find\(|\.index\(|removeprefix")
OF_REASONS = re.compile(r"\.reason\b|\bsentences?\(")


def test_no_module_but_the_renderer_makes_or_reads_a_sentence() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name == "refusal.py":
            continue
        text = re.sub(r'""".*?"""', "", path.read_text(), flags=re.DOTALL)
        for line in text.splitlines():
            words = " ".join(re.findall(r'"[^"]*"', line))
            if SENTENCES.search(words) or (READING.search(line) and OF_REASONS.search(line)):
                found.append(f"{path.relative_to(PACKAGE)}: {line.strip()}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("kind", RefusalKind)
@pytest.mark.parametrize("offer", OfferOutcome)
def test_no_sentence_has_an_infinite_number(kind: RefusalKind, offer: OfferOutcome) -> None:
    """What is not known or without end is said in words."""
    refusal = Refusal(kind=kind, blamed="w0!2", date=9.0, offer=offer)
    for unknown in (None, math.inf):
        told = sentence(msgspec.structs.replace(refusal, estimate=unknown, offered=unknown))
        assert not re.search(r"\b(inf|nan|None)\b", told)
