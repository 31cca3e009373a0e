"""The reproduction of Islam et al. (2004), on a few jobs and on made-up results."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qops_batsim import InputError, read_swf, read_workload
from qops_batsim.experiments import Claim, DeadlineRuns, whole_claims
from qops_batsim.protocol import make_scheduler
from qops_batsim.shipped import find_input
from qops_batsim.workload import Workload, convert_log, subset
from studies.islam2004 import paper as islam2004
from studies.islam2004 import runs as islam2004_runs
from studies.islam2004.claims import claims
from studies.islam2004.paper import figures
from studies.islam2004.runs import (
    CaseMeasures,
    CategoryMeasures,
    ChargedRuns,
    Results,
    run_study,
    scenario_of,
)
from studies.islam2004.study import FULL, QUICK, Case, Study
from studies.request import StudyRequest
from studies.run_table import RunTable

TINY = Study(
    loads=(1.0, 1.6),
    tolerance_factors=(1.0, 2.0, 10.0),
    slack_loads=(1.6,),
    slack_tolerance_factors=(2.0, 4.0),
    slack_factors=(1.0, 2.0),
    kill_load=1.6,
    kill_tolerance_factors=(2.0, 4.0),
    deadline_share=0.2,
    seeds=(1, 2),
    jobs=90,
    every=100,
    readings=("on_failure=reject",),
)


@pytest.fixture(scope="module")
def trace() -> Workload:
    return subset(read_workload(find_input("ctc_sp2_1000", "workloads")), first=400)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def results(trace: Workload, kept: Path) -> Results:
    return run_study(trace, TINY, StudyRequest(out=kept))


def test_every_case_is_listed_once() -> None:
    for study in (TINY, FULL, QUICK):
        cases = study.cases()
        assert len(cases) == len(set(cases))
    wanted = {
        (case.load, case.tolerance, case.tolerance_factor)
        for case in FULL.cases()
        if case.slack_factor == 1 and case.deadline_share == 1 and not case.kill_and_restart
        if not case.reading
    }
    assert (1.6, "random", 10.0) in wanted
    assert Case(load=1.6, tolerance_factor=2.0, slack_factor=3.0).simulated() in FULL.cases()
    # And three large factors at the highest load.
    assert len(wanted) == 5 * 8 * 2 + 3


def test_every_seed_has_its_own_stretch(trace: Workload) -> None:
    first, second = (
        DeadlineRuns({"": trace}).workload(scenario_of(Case(load=1.0), seed, 20, 25))
        for seed in (1, 2)
    )
    ids = [job.id for job in trace.jobs]
    assert [job.id for job in first.jobs] == ids[:20]
    assert [job.id for job in second.jobs] == ids[25:45]


def test_readings_are_options_of_the_scheduler() -> None:
    pairs = FULL.reading_pairs("k_factor=0")
    killing, plain = pairs["kills"]
    assert killing.settings(3)["k_factor"] == plain.settings(3)["k_factor"] == 0
    assert (killing.kill_and_restart, plain.kill_and_restart) == (True, False)
    more, less = pairs["tolerance"]
    assert (more.tolerance_factor, less.tolerance_factor) == (10.0, 1.0)
    for reading in FULL.readings:
        for case in FULL.reading_pairs(reading)["kills"]:
            make_scheduler("fqops", case.settings(1))


def test_runs_are_consistent(results: Results) -> None:
    for (case, _), run in results.runs.items():
        assert 0 < run.accepted_jobs <= run.jobs
        assert 0 < run.accepted_work <= run.work
        # Exact estimates: what was accepted is what is paid for.
        assert run.resource_charge == pytest.approx(run.accepted_work)
        assert run.qos_charge > 0
        assert (run.kills > 0) == (run.wasted_work > 0)
        parts = run.categories.values()
        assert sum(part.jobs for part in parts) == run.jobs
        assert sum(part.accepted_jobs for part in parts) == run.accepted_jobs
        assert sum(part.work for part in parts) == pytest.approx(run.work)
        assert sum(part.accepted_work for part in parts) == pytest.approx(run.accepted_work)
        assert run.kills == 0 or case.kill_and_restart
    assert {run.jobs for run in results.runs.values()} == {90, 144}


def test_slack_beyond_tolerance_is_no_tolerance(trace: Workload) -> None:
    runs = ChargedRuns(trace, 150, 150)
    found = set()
    for factor, slack in ((1.0, 2.0), (2.0, 2.5), (2.0, 6.0), (5.0, 6.0)):
        case = Case(load=1.6, tolerance_factor=factor, slack_factor=slack)
        assert case.simulated() == Case(load=1.6, tolerance_factor=1.0, slack_factor=2.0)
        run = runs((case, 1))
        found.add((run.accepted_jobs, run.accepted_work, run.qos_charge))
    assert len(found) == 1
    tolerant = Case(load=1.6, tolerance_factor=2.0, slack_factor=2.0)
    assert tolerant.simulated() == tolerant
    random = Case(load=1.6, tolerance="random", tolerance_factor=2.0, slack_factor=3.0)
    assert random.simulated() == random


def test_some_job_is_killed_and_still_every_promise_is_kept(results: Results) -> None:
    # A run raises if a promised deadline is missed.
    assert any(run.kills for run in results.runs.values())


def test_tolerance_admits_more_work(results: Results) -> None:
    few, many = (
        results.of(Case(load=1.6, tolerance_factor=factor))[0].accepted_work
        for factor in (1.0, 10.0)
    )
    assert many > few


def test_deadline_jobs_alone_pay_for_quality(results: Results) -> None:
    all_jobs = results.of(Case(load=1.6, tolerance_factor=2.0))[0]
    fifth = results.of(Case(load=1.6, tolerance_factor=2.0, deadline_share=0.2))[0]
    assert fifth.qos_charge < all_jobs.qos_charge


def test_kept_runs_are_found_again(
    results: Results, trace: Workload, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object) -> CaseMeasures:
        raise AssertionError("a kept run is made again")

    monkeypatch.setattr(ChargedRuns, "__call__", never)
    seen: list[tuple[int, int]] = []
    request = StudyRequest(out=kept, on_progress=lambda *done: seen.append(done))
    again = run_study(trace, TINY, request)
    assert again.runs == results.runs
    assert seen == [(len(results.runs), len(results.runs))]
    # Other jobs are another study.
    other = subset(trace, first=399)
    with pytest.raises(AssertionError, match="made again"):
        run_study(other, TINY, StudyRequest(out=kept))


def test_an_interrupted_study_goes_on(
    results: Results, trace: Workload, kept: Path, tmp_path: Path
) -> None:
    paths = sorted((kept / "runs").iterdir())
    assert len(paths) == len(results.runs)
    (tmp_path / "runs").mkdir()
    lost = paths[:3]
    for path in paths[3:]:
        (tmp_path / "runs" / path.name).write_bytes(path.read_bytes())
    seen: list[tuple[int, int]] = []
    request = StudyRequest(out=tmp_path, on_progress=lambda *done: seen.append(done))
    again = run_study(trace, TINY, request)
    assert again.runs == results.runs
    assert seen[0][0] == len(results.runs) - len(lost)
    assert seen[-1] == (len(results.runs), len(results.runs))
    for path in lost:
        assert (tmp_path / "runs" / path.name).read_bytes() == path.read_bytes()


def test_a_damaged_file_of_runs_is_told(
    trace: Workload, kept: Path, tmp_path: Path, results
) -> None:
    path = sorted((kept / "runs").iterdir())[0]
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / path.name).write_text("[{]")
    with pytest.raises(InputError, match="a kept run, or no file, is expected"):
        run_study(trace, TINY, StudyRequest(out=tmp_path))


def test_the_report_is_complete(results: Results, trace: Workload, kept: Path) -> None:
    done: list[tuple[int, int]] = []
    request = StudyRequest(quick=True, out=kept, on_progress=lambda *each: done.append(each))
    report = islam2004.report_on([(trace, TINY)], request)
    document = json.loads(json.dumps(report.document(), allow_nan=False))
    assert set(document["figures"]) == {
        "categories",
        *(f"figure{number}" for number in range(3, 12)),
    }
    assert {"a", "b", "c", "d", "e", "f"} <= {claim["id"] for claim in document["claims"]}
    for claim in document["claims"]:
        assert set(claim) >= {"id", "text", "verdict", "value", "interval"}
        # Two seeds; steps of TF and differences that are all 0 are untested.
        assert claim["verdict"] in ("too few to judge", "untested")
        assert claim["section"] in ("6.1", "7", "8", "6.1, 8")
    verdicts = {claim["id"]: claim["verdict"] for claim in document["claims"]}
    assert (verdicts["a"], verdicts["b.monotone"]) == ("too few to judge", "untested")
    panel = document["figures"]["figure5"]["panels"][0]
    assert panel["series"][1]["x"] == [1.0, 2.0, 10.0]
    runs = results.of(Case(load=1.6, tolerance_factor=10.0))
    assert panel["series"][1]["y"][-1] == pytest.approx(
        sum(run.qos_charge for run in runs) / len(runs) / 1000
    )
    assert len(document["machines"]["338"]["cases"]) == len(TINY.cases())
    for table in report.tables:
        assert all(len(row) == len(table.headings) for row in table.rows)
    assert done == [(len(results.runs), len(results.runs))]
    again = islam2004.report_on([(trace, TINY)], request)
    assert again.document() == report.document()


def test_a_second_machine_has_names_of_its_own(results: Results) -> None:
    assert figures(results, suffix="-338")[0].name == "figure3-338"
    assert [claim.id for claim in claims(results, suffix="-338")][:2] == ["a-338", "a.dip-338"]


JUDGED = msgspec.structs.replace(TINY, seeds=tuple(range(1, 13)))
"""As many seeds as a verdict needs."""


def by_category(light: int, heavy: int) -> dict[str, CategoryMeasures]:
    """So many accepted of 900 light jobs and of 100 heavy ones."""
    return {
        "short-narrow": CategoryMeasures(
            jobs=900, work=900.0, accepted_jobs=light, accepted_work=1.0 * light
        ),
        "long-wide": CategoryMeasures(
            jobs=100, work=1100.0, accepted_jobs=heavy, accepted_work=11.0 * heavy
        ),
    }


def made_up(value: Callable[[Case, int], dict[str, Any]], study: Study = JUDGED) -> Results:
    """Results whose numbers are a function of case and seed."""
    runs = {}
    for case in study.cases():
        for seed in study.seeds:
            numbers: dict[str, Any] = {
                "accepted_jobs": 500,
                "accepted_work": 1000.0,
                "resource_charge": 1000.0,
                "qos_charge": 100.0,
                "bounded_qos_charge": 100.0,
                "other_edges_qos_charge": 100.0,
                **value(case, seed),
            }
            numbers.setdefault("categories", by_category(800, 50))
            runs[case, seed] = CaseMeasures(
                jobs=1000, work=2000.0, kills=0, wasted_work=0.0, **numbers
            )
    return Results(study, RunTable(runs))


def judged(value: Callable[[Case, int], dict[str, Any]], study: Study = JUDGED) -> dict[str, Claim]:
    return {claim.id: claim for claim in claims(made_up(value, study))}


def test_a_dip_and_a_rise() -> None:
    jobs = {1.0: 800, 2.0: 700, 4.0: 750, 10.0: 900}
    found = judged(lambda case, seed: {"accepted_jobs": jobs[case.tolerance_factor] + seed})
    assert found["a"].verdict == "confirmed"
    assert found["a.dip"].value == pytest.approx(-10.0)
    assert found["a.rise"].value == pytest.approx(20.0)


def test_a_rise_without_dip_is_not_confirmed() -> None:
    jobs = {1.0: 600, 2.0: 700, 4.0: 750, 10.0: 900}
    found = judged(lambda case, seed: {"accepted_jobs": jobs[case.tolerance_factor] + seed})
    assert found["a.dip"].verdict == "contradicted"
    assert found["a.rise"].verdict == "confirmed"
    assert found["a"].verdict == "contradicted"
    assert found["a"].value == found["a.dip"].value == pytest.approx(10.0)


def test_heavy_jobs_gain_where_light_ones_are_lost() -> None:
    jobs = {1.0: 800, 2.0: 700, 4.0: 750, 10.0: 900}

    def value(case: Case, seed: int) -> dict[str, Any]:
        accepted = jobs[case.tolerance_factor] + seed
        heavy = 40 + 10 * (case.tolerance_factor > 1)
        return {"accepted_jobs": accepted, "categories": by_category(accepted - heavy, heavy)}

    found = judged(value)
    assert found["g"].verdict == "confirmed"
    assert found["g.heavy"].value == pytest.approx(10.0)
    assert found["g.light"].value == pytest.approx(100 * (-100 - 10) / 900)


def test_seeds_that_disagree_are_undecided() -> None:
    def value(case: Case, seed: int) -> dict[str, float]:
        sign = 10 * (seed % 2) - 4
        work = 1000 + sign * case.tolerance_factor
        return {"accepted_work": work, "resource_charge": work, "qos_charge": 100.0}

    found = judged(value)
    assert found["b.work"].verdict == "undecided"
    assert found["b"].verdict == "undecided"
    low, high = found["b.work"].interval or (0, 0)
    assert low < 0 < high


def test_charges_that_go_as_the_paper_says() -> None:
    def value(case: Case, seed: int) -> dict[str, float]:
        effective = case.tolerance_factor / case.slack_factor
        gain = 1.0
        loss = 1.0
        if case.kill_and_restart and case.deadline_share < 1:
            gain, loss = 1.1, 1.1
        elif case.kill_and_restart and case.tolerance_factor == 4:
            gain, loss = 1.1, 0.9
        elif case.kill_and_restart:
            # Nearly nothing, since nothing at all is untested.
            gain = loss = 1.0 + 1e-4 * (seed % 3 - 1)
        work = (1000 + 30 * effective + seed) * loss
        return {
            "accepted_work": work,
            "resource_charge": work,
            "qos_charge": (100 - 2 * effective + seed) * gain,
            "bounded_qos_charge": 100 + effective,
        }

    study = msgspec.structs.replace(JUDGED, slack_tolerance_factors=(2.0, 4.0, 10.0))
    found = judged(value, study)
    for name in "bcdef":
        assert found[name].verdict == "confirmed", found[name]
    assert found["b.monotone"].verdict == found["c.monotone"].verdict == "untested"
    assert found["c.bounded"].verdict == "contradicted"
    assert found["e.qos"].value == pytest.approx(10.0)
    assert found["e.resource"].value == pytest.approx(-10.0)
    assert found["e.qos-none"].value == pytest.approx(0.0, abs=0.01)


def test_the_weights_of_both_charges_decide() -> None:
    def value(case: Case, seed: int) -> dict[str, float]:
        # Tolerance: 10 more work for each factor, 2 less QoS charge; kills: 50 and 40.
        effective = case.tolerance_factor / case.slack_factor
        kills = float(case.kill_and_restart)
        return {
            "resource_charge": 1000 + 10 * effective - 50 * kills + seed,
            "qos_charge": 100 - 2 * effective + 40 * kills + 0.1 * seed,
        }

    study = msgspec.structs.replace(JUDGED, slack_tolerance_factors=(2.0, 4.0, 10.0))
    found = judged(value, study)
    assert found["p"].verdict == found["p.ways"].verdict == "confirmed"
    assert (found["p"].section, found["p"].family) == ("7", "profit")
    tolerance, slack, *_, kills, _ = islam2004_runs.break_even_values(made_up(value, study))
    for row, ratio in ((tolerance, 10 / 2), (slack, 10 / 2)):
        assert row["ratio"] == pytest.approx(ratio)
        assert row["by_seed"].mean == pytest.approx(ratio)
    assert (tolerance["below"], tolerance["above"]) == ("TF = 10", "TF = 1")
    assert kills["ratio"] == pytest.approx(50 / 40)


def test_a_way_that_earns_more_with_any_weights_refutes() -> None:
    def value(case: Case, seed: int) -> dict[str, float]:
        better = 20 * case.kill_and_restart
        return {"resource_charge": 1000.0 + better + seed, "qos_charge": 100.0 + better}

    found = judged(value)
    assert found["p.ways.kills.qos"].verdict == "confirmed"
    assert found["p.ways.kills.resource"].verdict == "contradicted"
    ways = found["p.ways"]
    assert (ways.verdict, ways.decided_by) == ("contradicted", "p.ways.kills.resource")


def test_kills_decide_nothing_about_tolerance() -> None:
    """Section 7: tolerance may earn more or less, and paid for QoS only, none earns most."""

    def value(case: Case, seed: int) -> dict[str, float]:
        factor = case.tolerance_factor
        return {"resource_charge": 1000 + 10 * factor + seed, "qos_charge": 100 - 2 * factor + seed}

    found = judged(value)
    assert found["p"].verdict == "confirmed"
    assert found["p"].parts == ("p.tolerance.resource", "p.tolerance.qos", "p.qos-only")
    assert found["p.ways"].verdict == "untested"


def test_kills_are_judged_at_all_points_of_the_figures() -> None:
    """Figures 8 to 11 have each slack factor, also those above TF, at which kills help as well."""
    slacks = (1.0, 2.0, 6.0)
    study = msgspec.structs.replace(JUDGED, slack_factors=slacks)

    def value(case: Case, seed: int) -> dict[str, float]:
        # With SF above TF the case stands for all of those, which have TF = 1 and SF = 2.
        refused = case.tolerance_factor < case.slack_factor
        return {"resource_charge": 1100.0 if case.kill_and_restart and refused else 1000.0}

    found = judged(value, study)
    logarithm = math.log(1.1) * sum(
        factor < slack for factor, slack in product(study.kill_tolerance_factors, slacks)
    )
    points = len(study.kill_tolerance_factors) * len(slacks)
    assert found["f.resource"].value == pytest.approx(100 * math.expm1(logarithm / points))
    assert "SF 1, 2, 6" in found["f.resource"].text


def test_the_papers_own_claims_are_counted_apart() -> None:
    results = made_up(lambda case, seed: {})
    own = whole_claims(claims(results), ours=False)
    assert [claim.id for claim in own] == [*"abcdefgjkp", "i", "b.monotone", "c.monotone"]
    # All of another machine are checks.
    assert not whole_claims(claims(results, suffix="-338"), ours=False)


def test_an_effect_where_none_is_claimed_refutes() -> None:
    def value(case: Case, seed: int) -> dict[str, float]:
        return {"qos_charge": 150.0 if case.kill_and_restart else 100.0}

    found = judged(value)
    assert found["e.qos-none"].verdict == "contradicted"
    assert found["e"].verdict == "contradicted"
    assert found["f.qos"].verdict == "confirmed"
    assert found["f.resource"].verdict == "untested"


def test_the_worst_step_is_found() -> None:
    charge = {1.0: 1000.0, 2.0: 950.0, 4.0: 1100.0, 10.0: 1200.0}
    found = judged(lambda case, seed: {"resource_charge": charge[case.tolerance_factor]})
    assert found["b.monotone"].verdict == "untested"
    assert found["b.monotone"].value == pytest.approx(-5.0)
    assert "from 1 to 2" in found["b.monotone"].text


@pytest.mark.parametrize("seeds", [(1,), (1, 2)])
def test_few_seeds_prove_nothing(seeds: tuple[int, ...]) -> None:
    study = msgspec.structs.replace(TINY, seeds=seeds)
    found = judged(lambda case, seed: {"qos_charge": 100 - case.tolerance_factor}, study)
    assert {claim.verdict for claim in found.values()} == {"too few to judge", "untested"}
    assert found["c.fixed"].value is not None
    assert (found["c.fixed"].interval is None) == (len(seeds) == 1)


def test_changes_from_nothing_have_no_number() -> None:
    found = judged(lambda case, seed: {"qos_charge": 0.0})
    assert found["c"].verdict == "not judged"
    assert found["c"].value is None


@pytest.mark.sweep
@pytest.mark.parametrize("seed", [1, 2])
def test_killing_breaks_no_promise_on_a_real_log(shared: Path, seed: int) -> None:
    jobs = 1000
    log = read_swf(shared / "traces" / islam2004.CTC)
    trace = convert_log(log, processors=430, first=2 * jobs).workload
    case = Case(load=1.6, deadline_share=0.2, tolerance_factor=4.0, kill_and_restart=True)
    # Raises if a promised deadline is missed.
    run = ChargedRuns(trace, jobs, jobs)((case, seed))
    assert run.kills > 80


def test_workers_do_not_matter(trace: Workload, results: Results) -> None:
    small = msgspec.structs.replace(
        TINY,
        loads=(1.6,),
        tolerance_factors=(1.0, 2.0),
        slack_tolerance_factors=(),
        kill_tolerance_factors=(),
        readings=(),
    )
    found = run_study(trace, small, StudyRequest(workers=2))
    assert found.runs == {key: results.runs[key] for key in found.runs}


def test_the_log_is_found_or_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=islam2004.CTC):
        islam2004.run(StudyRequest(quick=True, traces=tmp_path))
