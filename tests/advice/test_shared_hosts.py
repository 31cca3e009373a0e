"""Decision logs, quotes and explanations of runs on hosts that jobs share."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError, Qops, explain, quote, run
from qops_batsim.advice import Explanation
from qops_batsim.core.hostset import HostSet
from qops_batsim.core.refusal import RefusalKind
from qops_batsim.engine.engine_options import AVAILABLE, UNAVAILABLE, ExternalEvent
from qops_batsim.running.history import DecisionHistory, read_history
from qops_batsim.running.plan_asker import PlanAsker
from support.node_cases import platform_of, workload_of
from support.node_drawn import PAGE, PAGE_JOBS, job, part
from support.node_oracles import NodeJob, SharedMachine
from support.node_runs import random_case

BLOCK = 12


def decided(
    scheduler: Any, machine: SharedMachine, jobs: Sequence[NodeJob], folder: Path, **options: Any
) -> DecisionHistory:
    """Run jobs and read the decision log."""
    (folder / "m.xml").write_text(platform_of(machine))
    (folder / "w.json").write_text(json.dumps(workload_of(machine, jobs)))
    files = folder / "w.json", folder / "m.xml"
    run(scheduler, files[0], files[1], out=folder / "out", **options)
    return read_history(folder / "out")


AWAY = [
    ExternalEvent(4.0, UNAVAILABLE, HostSet.parse("0"), {}),
    ExternalEvent(19.0, AVAILABLE, HostSet.parse("0"), {}),
]


@pytest.mark.parametrize("events", [None, AWAY])
@pytest.mark.parametrize("scheduler", ["qops", "msb", "mrt", "fqops"])
def test_who_is_asked_again_answers_as_in_the_run(
    scheduler: str, events: Any, tmp_path: Path
) -> None:
    asked = placed = 0
    for seed in range(BLOCK):
        case = random_case(random.Random(f"asked {scheduler} {seed}"))
        history = decided(scheduler, case.machine, case.jobs, tmp_path, events=events)
        for name, request in history.jobs.items():
            before, after = history.state_before(name), history.state_after_admission(name)
            story = after.jobs[name]
            # What the answer moved is known, and where to.
            assert all(held.places or held.planned is None for held in after.held)
            answer = PlanAsker(history, before, request.date).ask(request)
            assert answer.admitted == story.admitted, f"seed {seed}, {name}"
            assert answer.refusal == story.refusal, f"seed {seed}, {name}"
            if story.admitted:
                assert answer.start == story.planned, f"seed {seed}, {name}"
            asked += bool(before.held)
            placed += len(story.places)
    assert asked > 8 * BLOCK
    assert placed > 8 * BLOCK


# The three hosts of the page: n0 and n1 with 8 cores and 32 GB, n2 with 8 cores, 64 GB and 2 GPUs.
# A has 6 cores and 12 GB of n0 until 4, B 2 cores and 24 GB of n1 until 6, G 4 cores, 16 GB and a
# GPU of n2 until 8. At 1, C asks for two hosts with 3 cores and 12 GB each for two hours.


def page(deadline: int) -> list[NodeJob]:
    return [*PAGE_JOBS, job(1, 2, part(2, cores=3, memory=12), deadline=deadline)]


def test_an_explanation_names_kinds_and_hosts(tmp_path: Path) -> None:
    machine, jobs = PAGE, page(5)
    found = explain(decided("qops", machine, jobs, tmp_path), "003")
    assert isinstance(found, Explanation)
    assert found.outcome == "refused"
    assert found.earliest is not None
    assert (found.earliest.start, found.earliest.end) == (4, 6)
    told = [
        (each.shortage.kind, each.shortage.free, each.shortage.date, each.waited_for)
        for each in found.short_of
    ]
    # n0 lacks cores, n1 lacks memory; n2 has both. Each kind is there on two hosts, both on one.
    assert told == [("", 1, 4.0, ["n0"])]
    kept = explain(decided("qops", machine, page(6), tmp_path), "003")
    assert (kept.outcome, kept.start, kept.end) == ("ended", 4, 6)


def test_the_sentence_of_an_explanation(cli: Any, tmp_path: Path) -> None:
    history = decided("qops", PAGE, [*PAGE_JOBS, job(1, 2, part(2, cores=7), deadline=4)], tmp_path)
    out = cli("explain", history.name, "003").out
    assert "when it asked" in out
    assert "2 hosts have 7 cores free only from 6 s on, now 0 (n0, n1)" in out


def test_quotes_ask_for_amounts(cli: Any, tmp_path: Path) -> None:
    history = decided("qops", PAGE, PAGE_JOBS, tmp_path)
    ask = {"per_host": {"cores": 3, "memory": 12}}
    for deadline, admitted in ((5, True), (4, False)):
        found = quote(history, 1, processors=2, run_time=2, deadline=deadline, asks=ask)
        assert found.admitted == admitted
        assert found.earliest is not None
        assert (found.earliest.start, found.earliest.deadline) == (4, 6)
    # Whole hosts, without anything that is asked of them, are free when A and B have ended.
    whole = quote(history, 1, processors=2, run_time=2)
    assert whole.earliest is not None
    assert whole.earliest.start == 6
    asked = "--asks", json.dumps(ask)
    out = cli("quote", f"{history.name}@1", "2x2", "--deadline", "4", *asked).out
    assert "refused" in out
    with pytest.raises(InputError, match="asks: field 'per_host' is 3"):
        quote(history, 1, processors=2, run_time=2, asks={"per_host": 3})
    with pytest.raises(InputError, match="jobs of .* have whole hosts"):
        quote(
            run("qops", "sdsc_sp2_deadlines_500", out=tmp_path / "x"),
            9,
            processors=1,
            run_time=2,
            asks=ask,
        )


# What no host can give

REFUSED = [
    (part(2, cores=9), RefusalKind.HOSTS_TOO_SMALL, "9 cores"),
    (part(2, gpus=1), RefusalKind.HOSTS_TOO_SMALL, "1 gpus each; 1 has that"),
    (part(fpga=1), RefusalKind.NO_SUCH_KIND, "fpga"),
    (part(1, "fast", cores=1), RefusalKind.NO_LABELS, "fast"),
    (part(2, cores=1, memory=40), RefusalKind.HOSTS_TOO_SMALL, "memory"),
]


@pytest.mark.parametrize(("asked", "kind", "word"), REFUSED)
def test_typed_refusals_are_told_everywhere(
    asked: Any, kind: RefusalKind, word: str, cli: Any, tmp_path: Path
) -> None:
    history = decided("qops", PAGE, [*PAGE_JOBS, job(1, 2, asked, deadline=9)], tmp_path)
    record = history.final.jobs["w0!003"]
    assert record.refusal is not None
    assert record.refusal.kind == kind
    assert word in record.reason

    rows = (tmp_path / "out_qos.csv").read_text().splitlines()
    (row,) = (line for line in rows if line.startswith("003,"))
    assert record.reason in row.replace('""', '"')
    assert f",{kind}," in row

    found = explain(history, "003")
    assert (found.refusal, found.reason, found.earliest) == (record.refusal, record.reason, None)
    assert record.reason in " ".join(cli("explain", history.name, "003").out.split())
    fields = workload_of(PAGE, [job(1, 2, asked)])["jobs"][0]
    ask = {name: fields[name] for name in ("per_host", "hosts_with") if name in fields}
    quoted = quote(history, 2, processors=asked.hosts, run_time=2, asks=ask)
    assert (quoted.admitted, quoted.refusal, quoted.reason) == (
        False,
        record.refusal,
        record.reason,
    )


def test_a_log_of_whole_hosts_tells_nothing_of_amounts(tmp_path: Path) -> None:
    run(Qops, "sdsc_sp2_deadlines_500", out=tmp_path / "x")
    log = (tmp_path / "x_decisions.jsonl").read_text()
    assert '"machine"' not in log
    assert '"placed"' not in log
    assert '"hosts"' not in log
