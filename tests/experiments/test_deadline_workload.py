from pathlib import Path

import pytest

from qops_batsim import InputError, Job, compare, read_swf, read_workload, simulate
from qops_batsim.advice import AdviceCase
from qops_batsim.advice.trace_runs import TraceRuns, TraceWindow, prepare
from qops_batsim.experiments import DeadlineRuns, deadline_facts, outcomes_of, study_of
from qops_batsim.experiments.deadline_workload import (
    deadline_workload,
    give_deadlines,
    give_deadlines_by_need,
)
from qops_batsim.experiments.study import InputIdentities, case_of
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.running.reference import easy_response_times
from qops_batsim.shipped import find_input
from qops_batsim.workload import (
    DeadlineChoices,
    NeedChoices,
    NeedMix,
    Workload,
    convert_log,
    delay_profile,
    exact_estimates,
    format_workload,
    generate_workload,
    origin_of_duplicate,
    run_times,
    scale_load,
    subset,
)
from qops_batsim.workload.deadlines import count_deadlines
from qops_batsim.workload.estimates import estimates_sentence
from studies.islam2003.packed import packed_workload


def jobs_of(*rows: tuple[float, int, float, float | None]) -> Workload:
    """Return jobs 1, 2, … on 4 processors: submission, size, run time, walltime."""
    profiles = dict(delay_profile(row[2]) for row in rows)
    jobs = [
        Job(str(n), float(date), size, delay_profile(run_time)[0], walltime)
        for n, (date, size, run_time, walltime) in enumerate(rows, 1)
    ]
    return Workload(jobs=jobs, profiles=profiles, processors=4)


# With exact estimates; jobs 3 and 4 are backfilled, job 4 is cut to its walltime of 200:
#
#  processor 3   . 3 3 4 4 2 2
#  processor 2   1 1 1 1 1 2 2
#  processor 1   1 1 1 1 1 2 2
#  processor 0   1 1 1 1 1 2 2
#                0         500 s
SMALL = jobs_of((0, 3, 500, 600), (10, 4, 200, None), (100, 1, 200, 300), (150, 1, 999, 200))


def test_response_times_are_those_of_easy() -> None:
    expected = {"1": 500, "2": 690, "3": 200, "4": 350}
    assert easy_response_times(exact_estimates(SMALL)) == expected


def test_deadlines_by_hand() -> None:
    result = give_deadlines(SMALL, DeadlineChoices(stringency=0.2), keep_estimates=False)
    assert [job.qos.deadline for job in result.jobs if job.qos] == [
        500,  # 80 % of 500 is less than the run time
        10 + 0.8 * 690,
        300,
        150 + 0.8 * 350,
    ]
    assert [job.qos.estimated_runtime for job in result.jobs if job.qos] == [500, 200, 200, 200]
    assert all(job.walltime is None for job in result.jobs)
    assert result.provenance["reference"] == {"scheduler": "easy", "workload": "scaled"}


@pytest.mark.parametrize(("reaction", "hurried"), [(0, 0), (60, 2), (80, 2), (81, 3), (400, 4)])
def test_facts_of_deadlines_from_easy(reaction: float, hurried: int) -> None:
    # Laxities are 0, 352, 0 and 80 s; jobs 1 and 3 do not wait, and so meet their deadlines.
    result = give_deadlines(SMALL, DeadlineChoices(stringency=0.2), keep_estimates=False)
    facts = deadline_facts(result, reaction=reaction)
    assert (facts.made_by, facts.deadlines, facts.hurried) == ("easy", 4, hurried)
    assert (facts.met, facts.unwaited) == (2, 2)


def test_facts_of_deadlines_by_need() -> None:
    choices = NeedChoices(mix=NeedMix(slack=1), slack=200)
    exact = give_deadlines_by_need(SMALL, choices, keep_estimates=False)
    assert [job.qos.deadline for job in exact.jobs if job.qos] == [700, 410, 500, 550]
    assert (exact.provenance["by"], exact.provenance["estimates"]) == ("need", "exact")
    # EASY takes 500, 690, 200 and 350 s: job 2 is late.
    facts = deadline_facts(exact, reaction=200.5)
    assert (facts.made_by, facts.hurried, facts.met, facts.unwaited) == ("need", 4, 3, 2)
    assert "EASY meets 3 (75.0 %), none by construction, and starts 2 (50.0 %) at" in facts.text
    # Job 2 has no walltime and gets the longest, 600 s.
    users = give_deadlines_by_need(SMALL, choices)
    assert [job.qos.deadline for job in users.jobs if job.qos] == [800, 810, 600, 550]
    artificial = give_deadlines_by_need(SMALL, NeedChoices(mix=NeedMix(slack=1), share=0))
    assert deadline_facts(artificial).deadlines == 0
    assert deadline_facts(SMALL).made_by == ""
    # A job that EASY rejects misses its deadline.
    wide = give_deadlines_by_need(jobs_of((0, 5, 10, None), (0, 1, 10, None)), choices)
    assert (deadline_facts(wide).deadlines, deadline_facts(wide).met) == (2, 1)
    with pytest.raises(InputError, match="reaction is -1; a number from 0"):
        deadline_facts(SMALL, reaction=-1)


def test_exact_deadlines_from_easy_are_met_by_jobs_that_do_not_wait() -> None:
    trace = subset(read_workload(find_input("kth_sp2_1000", "workloads")), first=300)
    facts = deadline_facts(give_deadlines(trace, keep_estimates=False))
    assert 0 < facts.met == facts.unwaited < 300


@pytest.mark.parametrize(
    ("at_least", "deadlines"),
    [
        # Job 1 is expected to run until 600, so that job 4 may start at 300 as well.
        ("run-time", [500, 700, 300, 500]),
        ("estimate", [600, 700, 400, 500]),
        (None, [600, 700, 400, 500]),
    ],
)
def test_the_logs_walltimes_are_the_default(at_least: str | None, deadlines: list[float]) -> None:
    result = give_deadlines(SMALL, DeadlineChoices(stringency=0), at_least=at_least)
    # Job 2 has no walltime, and gets the longest of all.
    assert [job.walltime for job in result.jobs] == [600, 600, 300, 200]
    assert [job.qos.deadline for job in result.jobs if job.qos] == deadlines
    assert run_times(result)[3] == 999


def test_where_no_job_has_a_walltime_run_times_take_their_place() -> None:
    bare = exact_estimates(SMALL)
    told = jobs_of((0, 3, 500, None), (10, 4, 200, None), (100, 1, 200, None), (150, 1, 200, None))
    users, exact = give_deadlines(told), give_deadlines(bare, keep_estimates=False)
    for job, other in zip(users.jobs, exact.jobs, strict=True):
        assert (job.estimate, job.qos.deadline) == (other.estimate, other.qos.deadline)  # type: ignore[union-attr]
    assert estimates_sentence(told, "users") == estimates_sentence(told, "exact")
    assert estimates_sentence(told, "users").endswith("the log has no walltimes")


def test_one_question_has_one_answer() -> None:
    trace = subset(read_workload(find_input("kth_sp2_1000", "workloads")), first=150)
    said = "deadlines are made from the log's walltimes, and schedulers plan with them"
    module = make_scheduler("qops")
    outcomes, _ = outcomes_of(give_deadlines(trace), make_cluster(trace.processors), module)
    promised = int((~outcomes.refused).sum())
    assert 0 < promised < 150
    compared = compare(["qops"], trace, loads=[1.0], seeds=1)
    assert compared.description.note == said
    assert compared.outcomes[0].metrics.unadmitted_jobs == pytest.approx(100 * (1 - promised / 150))  # type: ignore[union-attr]
    window = TraceWindow(number=1, skip=0, jobs=150)
    prepared = prepare(trace)
    assert prepared.estimates == estimates_sentence(trace, "users") == said
    advised = TraceRuns(prepared.workload, [window])(AdviceCase(window=0, scheduler="qops"))
    assert advised.counts.promised == promised
    asked = {"name": "a", "logs": "a", "schedulers": "qops", "windows": [{"first": 150}]}
    grid = study_of(asked, source="here")
    known = InputIdentities(logs={"a": "log"}, schedulers={"qops": ((), "")})
    case = case_of(grid, next(grid.cells()), known)
    assert int((~DeadlineRuns({"log": trace}).outcomes(case)[0].refused).sum()) == promised
    other = give_deadlines(trace, keep_estimates=False)
    wrong, _ = outcomes_of(other, make_cluster(trace.processors), make_scheduler("qops"))
    assert (~wrong.refused).tolist() != (~outcomes.refused).tolist()
    assert "they replace the walltimes of " in estimates_sentence(trace, "exact")


def test_duplicates_keep_the_deadlines_of_the_unscaled_trace() -> None:
    trace = generate_workload("kth-sp2", jobs=300, seed=2, load=0.9)
    choices = DeadlineChoices(stringency=0.2)
    base = {job.id: job for job in give_deadlines(trace, choices).jobs}
    scaled = scale_load(trace, 1.5, seed=1)
    as_of_2004 = give_deadlines(scaled, choices, reference="unscaled")
    for job in as_of_2004.jobs:
        original = base[origin_of_duplicate(job) or job.id]
        assert job.qos is not None
        assert original.qos is not None
        assert job.qos.deadline is not None
        assert original.qos.deadline is not None
        assert job.qos.deadline - job.submission_time == pytest.approx(
            original.qos.deadline - original.submission_time, abs=1e-6
        )
    as_of_2003 = give_deadlines(scaled, choices)
    assert sum(job.qos.deadline or 0 for job in as_of_2003.jobs if job.qos) > sum(
        job.qos.deadline or 0 for job in as_of_2004.jobs if job.qos
    )


def test_the_chain_is_recorded_and_repeatable() -> None:
    trace = generate_workload("kth-sp2", jobs=60, seed=2)
    choices = DeadlineChoices(share=0.8, seed=4)
    result = deadline_workload(trace, choices, load=1.5, skip=10, first=40)
    assert len(result.jobs) == 60
    assert count_deadlines(result).user == 48
    again = deadline_workload(trace, choices, load=1.5, skip=10, first=40)
    assert format_workload(result) == format_workload(again)
    steps = []
    step = result.provenance
    while step is not None:
        steps.append(step)
        step = step.get("made_from")
    assert [each.get("step") for each in steps] == ["deadlines", "scale", "subset", None]
    assert [each["seed"] for each in steps[:2]] == [4, 4]
    assert (steps[2]["skip"], steps[2]["first"]) == (10, 40)
    assert steps[3] == trace.provenance


def test_deadlines_of_the_trace_are_left_out() -> None:
    shipped = read_workload(find_input("kth_sp2_mixed_500", "workloads"))
    result = deadline_workload(shipped, load=1.2, method="expansion", first=100)
    assert count_deadlines(result).user == 100


@pytest.mark.parametrize("scheduler", ["fcfs", "easy", "conservative"])
def test_without_laxity_every_scheduler_finds_the_packed_schedule(scheduler: str) -> None:
    packed = packed_workload(32, 200, 0, 5)
    simulation = simulate(scheduler, packed, make_cluster(32))
    found = {record.local_id: record.start for record in simulation.ended}
    assert found == {job.id: job.submission_time for job in packed.jobs}


def test_a_subset_of_a_real_log(shared: Path) -> None:
    log = read_swf(shared / "traces" / "SDSC-SP2-1998-first5000.swf.gz")
    trace = convert_log(log).workload
    result = deadline_workload(trace, DeadlineChoices(stringency=0.2), load=1.2)
    counts = count_deadlines(result)
    assert counts.user == len(result.jobs) == round(1.2 * len(trace.jobs))
    assert 0 < counts.without_laxity < counts.user


@pytest.mark.parametrize("size", [0, 5])
def test_jobs_that_cannot_run_are_told(size: int) -> None:
    with pytest.raises(InputError, match=f"job '1' asks for {size} processors of 4, so that EASY"):
        give_deadlines(jobs_of((0, size, 10, None)))


def test_wrong_references_are_told() -> None:
    with pytest.raises(InputError, match="reference is 'unscale'; did you mean 'unscaled'"):
        give_deadlines(SMALL, reference="unscale")
    expanded = scale_load(SMALL, 1.2, method="expansion")
    with pytest.raises(InputError, match="was scaled by expansion"):
        give_deadlines(expanded, reference="unscaled")
    orphan = scale_load(SMALL, 2)
    orphan.jobs = [job for job in orphan.jobs if job.id != "3"]
    with pytest.raises(InputError, match="job '3d1' is a duplicate of '3', which is not among"):
        give_deadlines(orphan, reference="unscaled")
