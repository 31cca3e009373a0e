"""Changes of a trace: what becomes of its jobs, and the page that has both sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from qops_batsim import InputError, advise, read_workload
from qops_batsim.advice import AdviceChoices
from qops_batsim.advice.advice_tables import overview_table, read_facts, windows_table
from qops_batsim.advice.recommendations import headline
from qops_batsim.advice.what_if import WhatIf, parse_what_if
from qops_batsim.shipped import find_input
from qops_batsim.traces import read_partitions
from qops_batsim.workload import Workload, run_times_until_killed, scale_load, subset
from support.centre_dumps import CENTRE, make_rows, text_of

FEW = AdviceChoices(others=(), stringencies=(0.2,), loads=(1.0,), windows=2, window_jobs=100)


@pytest.fixture(scope="module")
def part() -> Workload:
    return subset(read_workload(find_input("kth_sp2_1000", "workloads")), first=200)


def work(workload: Workload) -> float:
    times = run_times_until_killed(workload)
    return sum(time * job.processors for time, job in zip(times, workload.jobs, strict=True))


def test_without_changes_nothing_changes(part: Workload) -> None:
    assert list(WhatIf().change(part, 1.3, 2).jobs) == list(scale_load(part, 1.3, seed=2).jobs)
    base, same = (advise("kth_sp2_1000", FEW, what_if=each) for each in (None, WhatIf()))
    assert base.runs == same.runs


def test_longest_walltimes_cut_jobs_and_keep_their_work(part: Workload) -> None:
    longest = 3600.0
    found = WhatIf(max_walltime=longest).change(part, 1.0, 1)
    assert work(found) == pytest.approx(work(part))
    assert max(job.estimate for job in found.jobs) == longest
    at = {job.id: job for job in found.jobs}
    assert len(at) == len(found.jobs)
    for job in part.jobs:
        pieces = [each for name, each in at.items() if name.partition("p")[0] == job.id]
        assert sum(each.estimate for each in pieces) <= job.estimate
        dates = sorted(each.submission_time for each in pieces)
        assert dates == [job.submission_time + longest * n for n in range(len(pieces))]
        if job.estimate <= longest:
            assert pieces == [job]


def test_a_smaller_machine_leaves_out_what_does_not_fit(part: Workload) -> None:
    found = WhatIf(processors=-40).change(part, 1.0, 1)
    assert found.processors == part.processors - 40
    assert [job.id for job in found.jobs] == [
        job.id for job in part.jobs if job.processors <= found.processors
    ]
    with pytest.raises(InputError, match="processors is 0; at least 1"):
        WhatIf(processors=-part.processors).change(part, 1.0, 1)


def test_more_processors_and_load_are_those_of_a_changed_trace(part: Workload) -> None:
    changed = WhatIf(load=1.5, processors=20).change(part, 1.0, 3)
    assert changed.processors == 120
    assert len(changed.jobs) == 300
    found = advise("kth_sp2_1000", FEW, what_if=WhatIf(processors=400))
    counts = found.counts(FEW.chosen)
    assert counts.refused < advise("kth_sp2_1000", FEW).counts(FEW.chosen).refused


@pytest.mark.parametrize(
    ("what_if", "processors", "jobs", "load"),
    [
        (None, 4, 8, "1.214"),
        (WhatIf(processors=8), 12, 8, "0.405"),
        (WhatIf(load=2.0), 4, 16, "2.429"),
        (WhatIf(load=2.0, processors=8), 12, 16, "0.810"),
    ],
)
def test_tables_show_the_machine_and_the_jobs_that_were_simulated(
    what_if: WhatIf | None, processors: int, jobs: int, load: str
) -> None:
    found = advise("tiny_8", FEW, what_if=what_if)
    facts = read_facts(found)
    assert facts["machine"].startswith(f"{processors} processors")
    assert ("as it is: 4" in facts["machine"]) == (processors != 4 or what_if is not None)
    assert facts["offered load"].startswith(load)
    overview, windows = overview_table({"a": found}), windows_table(found)
    assert overview.rows[0][1:3] == [str(jobs), str(processors)]
    place = windows.headings.index("jobs")
    assert sum(int(row[place]) for row in windows.rows) == jobs


def test_learned_estimates_are_those_of_users_before(tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    path.write_text(text_of(make_rows((CENTRE[1],), 200)))
    parts, _ = read_partitions(path)
    found = advise(parts["cpu"], FEW, name="cpu", what_if=WhatIf(estimates="learned"))
    counts = found.counts(FEW.chosen)
    assert counts.jobs == 200
    # A promise may be broken by a job that outlives what was learned: that is told.
    kept = counts.promised - counts.failed
    text = headline(found)[0]
    assert ("every promise" if not counts.failed else f"kept {kept:,} promises") in text


@pytest.mark.parametrize(
    ("text", "cores", "found"),
    [
        ("load=1.2,processors=+64", None, WhatIf(load=1.2, processors=64)),
        ("nodes=-2", 48.0, WhatIf(processors=-96)),
        (
            "max-walltime=24h, estimates=learned",
            None,
            WhatIf(max_walltime=86400, estimates="learned"),
        ),
    ],
)
def test_texts(text: str, cores: float | None, found: WhatIf) -> None:
    assert parse_what_if(text, cores) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lod=2", "did you mean 'load'"),
        ("load", "NAME=VALUE is expected"),
        ("load=0.5", "a number from 1 to 10"),
        ("load=x", "--what-if load is 'x'; a number is expected"),
        ("nodes=+2", "the cores of a node are not known"),
        ("max-walltime=0", "more than 0"),
        ("estimates=exact", "known: learned, users"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_what_if(text)


def test_the_command_shows_both_sides_and_quotes(cli, tmp_path: Path) -> None:
    dump, out = tmp_path / "dump.txt", tmp_path / "report.html"
    dump.write_text(text_of(make_rows((CENTRE[1], CENTRE[3]), 150)))
    few = ("--scheduler", "qops", "--scheduler", "msb", "--windows", "1")
    changes = ("--what-if", "load=1.2,processors=+64")
    done = cli("advise", dump, "--out", out, *few, *changes)
    assert done.exit_code == 0, done.err
    page = out.read_text()
    for text in (
        "Partition cpu: before and after",
        "Partition short with load=1.2,processors=+64: Charges",
    ):
        assert text in page
    assert "short: With load=1.2,processors=+64: " in " ".join(done.out.split())
