"""What a centre is advised, against naive oracles on made-up runs."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from qops_batsim.advice import AdviceCase, AdviceChoices
from qops_batsim.advice.advise import Advice
from qops_batsim.advice.recommendations import (
    best_offer,
    best_scheduler,
    earliness,
    hours,
    offers,
    recommended,
    sentence,
    short,
    summary,
    warnings,
)
from qops_batsim.advice.trace_runs import (
    EXACT,
    AdviceRun,
    EarliestPromise,
    GroupCount,
    TraceWindow,
    run_easy,
)
from qops_batsim.advice.wait_fit import ClassFit, ModelFit
from qops_batsim.economics import Charge, Prices
from qops_batsim.experiments import contestant_of, mean_interval
from qops_batsim.measures.metrics.charge_totals import CategoryCharges
from support.rows_of_jobs import workload_of

CHOICES = AdviceChoices(
    others=(contestant_of("fqops:tolerance_factor=2"), contestant_of("msb")),
    stringencies=(0.5, 0.0, -1.0),
    loads=(1.0, 1.3),
    prices=Prices(currency="EUR", core_hour=0.5),
)
CASES = CHOICES.cases()
TWICE = "qops, users accept twice as late"
T_OF_3 = 4.302652729911275
"""Quantile of Student's distribution with two degrees of freedom (0.975)."""


def run_of(
    promised: int,
    refused_work: float,
    *,
    jobs: int = 100,
    later: int = 0,
    failed: int = 0,
    resource: float = 0.0,
    qos: float = 0.0,
    penalty: float = 0.0,
    promises: tuple[EarliestPromise, ...] = (),
) -> AdviceRun:
    """Return a run on jobs of 1,000 processor-seconds together, in two categories."""
    half = promised // 2
    groups = {
        "short-narrow": GroupCount(jobs=jobs - 40, promised=half, refused=jobs - 40 - half),
        "long-wide": GroupCount(
            jobs=40,
            promised=promised - half,
            later=later,
            failed=failed,
            refused=40 - promised + half,
            refused_work=refused_work,
        ),
    }
    total = CategoryCharges(
        category="total",
        slowdown=None,
        jobs=jobs,
        charged_jobs=promised,
        charged_work=0.0,
        charge=Charge(resource=resource, qos=qos),
        kills=0,
        wasted_work=0.0,
        failed=failed,
        penalty=penalty,
    )
    metrics: Any = SimpleNamespace(utilization_during_submissions=50.0)
    return AdviceRun(
        metrics=metrics, work=1000.0, groups=groups, charges=(), total=total, promises=promises
    )


def advice_of(made: Callable[[AdviceCase], AdviceRun], windows: int = 3) -> Advice:
    """Return advice with a made-up run for each case and window."""
    cases = [
        msgspec.structs.replace(case, window=number) for number in range(windows) for case in CASES
    ]
    prepared: Any = SimpleNamespace(has_estimates=True, estimates="deadlines are made")
    stretches = [TraceWindow(number=n + 1, skip=100 * n, jobs=100) for n in range(windows)]
    trace: Any = None
    return Advice(CHOICES, trace, stretches, prepared, {case: made(case) for case in cases})


def settings_of(advice: Advice) -> dict[str, tuple[str, str]]:
    return {each.setting: (each.value, each.reason) for each in recommended(advice)}


def interval(values: list[float]) -> tuple[float, float]:
    mean = sum(values) / 3
    variance = sum((each - mean) ** 2 for each in values) / 2
    reach = T_OF_3 * math.sqrt(variance / 3)
    return mean - reach, mean + reach


def test_another_scheduler_is_better_only_if_the_windows_tell() -> None:
    """Three windows; promised deadlines and refused work (%) of the schedulers in each."""
    rng, seen = random.Random(5), set()
    names = {"qops": "qops", "fqops": TWICE, "msb": "msb"}
    for _ in range(60):
        base = [rng.randint(40, 60) for _ in range(3)]
        shares, lost = {}, {}
        for name in names:
            # The same in all windows, or not.
            shift, spread = rng.choice([-6, 0, 6]) * (name != "qops"), rng.choice([0, 4])
            shares[name] = [each + shift + rng.randint(-spread, spread) for each in base]
            shift, spread = rng.choice([20, 37, 60]), rng.choice([1, 15])
            lost[name] = [shift + rng.randint(-spread, spread) for _ in range(3)]
        advice = advice_of(
            lambda case, shares=shares, lost=lost: (  # type: ignore[misc]
                run_of(shares[case.scheduler][case.window], 10 * lost[case.scheduler][case.window])
                if case.scheduler in shares
                else run_of(0, 0)
            )
        )

        def less(first: str, of: dict[str, list[float]]) -> list[float]:
            return [a - b for a, b in zip(of[first], of["qops"], strict=True)]

        best = "qops"
        for other in ("fqops", "msb"):
            enough = interval(less(other, shares))[1] >= 0
            told = interval(less(other, lost))[1] < 0
            seen.add((enough, told, sum(less(other, lost)) < 0))
            if enough and told and round(sum(lost[other]) / 3) < round(sum(lost[best]) / 3):
                best = other
        found, reason = best_scheduler(advice)
        assert found == names[best]
        seen.add(found)
        if best != "qops":
            percents = (short(mean_interval(lost[each])) for each in (best, "qops"))
            told = {"fqops": f'"{names["fqops"]}"', "msb": "msb"}[best]
            assert reason == "{} refuses {} of the core-hours, qops {}; no fewer {}".format(
                told, *percents, "deadlines are promised"
            )
    assert seen >= {"msb", names["fqops"], "qops", (True, False, True), (False, True, True)}


def test_ends_that_users_accept_are_told() -> None:
    advice = advice_of(
        lambda case: run_of(60, 100, later=30) if case.scheduler == "fqops" else run_of(50, 400)
    )
    found, reason = best_scheduler(advice)
    assert found == TWICE
    assert reason.endswith("but 30 % of all for a later end than asked for")


def test_the_strictest_deadline_of_which_enough_jobs_and_core_hours_are_promised() -> None:
    """Shares of jobs and of refused work (%), the same in all windows unless they differ."""
    for shares, lost, spread, expected in (
        ({0.5: 95, 0.2: 80, 0.0: 95, -1.0: 99}, {}, 0, (0.5, "sure")),
        ({0.5: 89, 0.2: 90, 0.0: 95, -1.0: 99}, {}, 0, (0.2, "sure")),
        ({0.5: 50, 0.2: 60, 0.0: 70, -1.0: 89}, {}, 0, (-1.0, "none")),
        # Nine of ten jobs, but not of the work; and enough of both on average only.
        ({0.5: 95, 0.2: 95, 0.0: 95, -1.0: 99}, {0.5: 30, 0.2: 11}, 0, (0.0, "sure")),
        ({0.5: 91, 0.2: 91, 0.0: 91, -1.0: 91}, {}, 3, (0.5, "mean")),
        ({0.5: 91, 0.2: 91, 0.0: 91, -1.0: 99}, {-1.0: 1}, 0.2, (0.5, "sure")),
    ):
        advice = advice_of(
            lambda case, of=shares, lost=lost, spread=spread: run_of(  # type: ignore[misc]
                of[case.stringency] + spread * (case.window - 1), 10 * lost.get(case.stringency, 0)
            )
        )
        offer, kind = best_offer(advice)
        assert (offer.stringency, kind) == expected
        value, reason = settings_of(advice)["deadlines to offer"]
        factor = {0.5: "0.5 times ", 0.2: "0.8 times ", 0.0: "", -1.0: "2 times "}[expected[0]]
        assert value == f"an end within {factor}EASY's response"
        assert reason.startswith(
            f"{short(offer.jobs)} of the deadlines, and {short(offer.work)} of"
        )
        assert ("nothing laxer was tried" in reason) is (kind == "none")
        assert ("on average: another stretch" in reason) is (kind == "mean")
    one = advice_of(lambda case: run_of(95, 0), windows=1)
    assert best_offer(one)[1] == "mean"
    assert "on average" not in settings_of(one)["deadlines to offer"][1]


def test_sentences_follow_results_that_contradict_them() -> None:
    """Each of 60 random results; what a sentence claims is looked up in them."""
    rng, seen = random.Random(2), set()
    for _ in range(60):
        level = {
            name: rng.choice([30, 60, 90])
            for name in ("few", "load", "chosen", "laxer", "strict", "exact")
        }
        lost = {name: rng.choice([0, 20, 300]) for name in ("chosen", "laxer", "strict")}
        spread, windows = rng.choice([0, 1, 9]), rng.choice([1, 3])

        def made(case: AdviceCase, level=level, lost=lost, spread=spread) -> AdviceRun:  # type: ignore[no-untyped-def]
            name = "chosen"
            if case.share < 1:
                name = "few"
            elif case.load > 1:
                name = "load"
            elif case.stringency != CHOICES.stringency:
                name = "strict" if case.stringency > CHOICES.stringency else "laxer"
            noise = spread * (case.window - 1) * (1 if name in ("chosen", "strict") else -1)
            return run_of(level[name] + noise, lost.get(name, 0), resource=1000.0 - level[name])

        advice = advice_of(made, windows)

        def told(first: str, second: str, level=level, spread=spread, windows=windows) -> bool:  # type: ignore[no-untyped-def]
            """Return whether two levels are told apart by the windows."""
            half = T_OF_3 * 2 * spread / math.sqrt(3)
            return windows == 3 and abs(level[first] - level[second]) > half

        few = sentence("few", advice)
        seen.add(few.partition("promised, ")[2].split()[0])
        if told("few", "chosen"):
            assert (" more than" in few) == (level["few"] > level["chosen"])
            assert (" less than" in few) == (level["few"] < level["chosen"])
        else:
            assert "do not tell" in few
        value, _ = settings_of(advice)["load to expect"]
        seen.add(value.split()[0])
        assert value.startswith("fewer") == (
            told("load", "chosen") and level["load"] < level["chosen"]
        )
        assert value.startswith("more") == (
            told("load", "chosen") and level["load"] > level["chosen"]
        )
        assert ("promise less" in value) == value.startswith("fewer")
        text = sentence("trade", advice)
        for part, direction in re.findall(
            r"(deadlines promised|core-hours) (fall|rise|stay)", text
        ):
            at = dict(zip(("first", "last"), _ends(advice, text, part), strict=True))
            seen.add(direction)
            if direction == "stay":
                assert at["first"] == at["last"]
            else:
                assert (direction == "fall") == (at["last"] < at["first"])
        whole = " ".join(summary(advice))
        refused = advice.counts(CHOICES.chosen).refused
        assert ("No job is refused" in whole) == (refused == 0)
        assert ("Nothing tried lets promise" in whole) == (best_offer(advice)[1] == "none")
        assert "hardest" not in whole
    assert seen >= {"fall", "rise", "stay", "fewer", "more", "no", "less", "which"}


def _ends(advice: Advice, text: str, part: str) -> list[float]:
    """Return the shares that a sentence on a trade is about."""
    factors = map(float, re.match(r"From ([\d.]+) to ([\d.]+)", text).groups())  # type: ignore[union-attr]
    found = {round(1 - each.stringency, 3): each for each in offers(advice)}
    both = [found[factor] for factor in factors]
    if part == "core-hours":
        return [100 - each.work.mean for each in both]
    return [each.jobs.mean for each in both]


def test_durations_never_say_none_for_at_once() -> None:
    assert [hours(each) for each in (0.0, 1800.0, math.inf, math.nan)] == [
        "0.00",
        "0.50",
        "never",
        "-",
    ]


def test_the_price_of_promises_is_what_the_promised_ones_earn_back() -> None:
    """Ours: 60 and 40 of 200 promised; EASY's charges less ours, in core-hours."""
    hour = 3600.0

    def made(case: AdviceCase) -> AdviceRun:
        first = case.window == 0
        if case.scheduler == "easy":
            resource, qos, missed = (50, 30, 5) if first else (40, 20, 7)
            return run_of(
                0, 0, failed=missed, resource=resource * hour, qos=qos, penalty=10.0 + missed
            )
        resource, qos = (38, 80) if first else (32, 50)
        return run_of(60 if first else 40, 100, resource=resource * hour, qos=qos)

    advice = advice_of(made, windows=2)
    lost, gained = 90 - 70, 130 - 50
    missed = (10 + 5) + (10 + 7)
    value, reason = settings_of(advice)["least price of deadlines"]
    assert value == f"about {0.5 * lost / 100:.4g} EUR a promise on average"
    told = [float(each) for each in re.findall(r"\d+\.\d+", reason)]
    assert told == [
        pytest.approx(0.5 * lost / gained, rel=1e-3),
        pytest.approx(0.5 * lost / (gained + missed), rel=1e-3),
    ]
    first, *_ = summary(advice)
    assert first.startswith("Each of 200 jobs asks to end within 0.8 times EASY's response")
    assert "promised that to 100 of them (50 %), and would have kept every promise" in first
    assert first.endswith("would have missed 12 of the deadlines (6 %).")


def test_what_is_published_could_be_promised_to_nine_of_ten() -> None:
    """By processors; at most one of ten jobs of a class would have been promised less."""
    rng = random.Random(9)
    classes = {"sequential": "1", "narrow": "2 to 8", "wide": "9 to 32", "very-wide": "33 or more"}
    for _ in range(4):
        delays = {
            name: [rng.choice([0.0, 10.0, *(3600.0 * n for n in range(2, 30)), math.inf])
                   for _ in range(rng.choice([1, 2, 10, 11, 19, 20, 40]))]
            for name in classes
        }  # fmt: skip
        promises = tuple(
            EarliestPromise(
                f"{rng.choice(['short', 'long'])}-{name}",
                100.0,
                None if delay == math.inf else 100.0 + delay,
            )
            for name in classes
            for delay in delays[name]
        )
        advice = advice_of(
            lambda case, of=promises: run_of(  # type: ignore[misc]
                50, 10, promises=of if case.promises and case.window == 0 else ()
            )
        )
        value, _ = settings_of(advice)["promise to publish"]
        told = value.removeprefix("an end after the walltime and a delay, by processors ")
        for part, (name, words) in zip(told.split("; "), classes.items(), strict=True):
            least = next(
                each
                for each in sorted(delays[name])
                if 10 * sum(delay <= each for delay in delays[name]) >= 9 * len(delays[name])
            )
            days = f"{least / 86400:.1f} days"
            hours = f"{least / 3600:.1f} hours"
            expected = "no delay" if least < 30 else days if least >= 2 * 86400 else hours
            expected = "no time that could be promised" if least == math.inf else expected
            assert part == f"{words}: {expected}"


def test_quantiles_of_a_class_are_values_that_so_many_do_not_exceed() -> None:
    promises = [EarliestPromise("long-wide", 10.0, 10.0 + n) for n in range(20)]
    (group, everything) = earliness(promises, by_processors=True)
    assert group.delays == everything.delays == (4.0, 9.0, 14.0, 17.0, 18.0)
    assert group.responses == (14.0, 19.0, 24.0, 27.0, 28.0)
    assert group.at_once == 5.0


def test_estimates_and_loads_are_compared_with_the_chosen_case() -> None:
    def made(case: AdviceCase, exact: int = 8) -> AdviceRun:
        more = exact if case.estimates == EXACT else 0
        return run_of(50 + more + case.window - (20 if case.load > 1 else 0), 200 - 10 * more)

    found = settings_of(advice_of(made))
    value, reason = found["estimates"]
    assert value == "ask users for better walltimes"
    assert "promised by +8.00 [+8.00, +8.00] points" in reason
    assert "refused core-hours by -8.00 [-8.00, -8.00] points" in reason
    assert "load 1: 51 % (between 49 and 53 %); 1.3: 31 %" in found["load to expect"][1]
    assert found["load to expect"][0].startswith("fewer deadlines can be promised at load 1.3")
    same = settings_of(advice_of(lambda case: made(case, 1)))
    assert same["estimates"][0] == "as they are"


def test_the_class_that_fits_worst_is_named_first_then_the_others() -> None:
    """Waits of nine of ten (h) in the log and simulated: too short, right, too short, too long."""
    waits = {"1": (8, 2), "2 to 8": (3, 3), "9 to 32": (32, 2), "33 or more": (1, 8)}
    classes = tuple(
        ClassFit(group=group, jobs=50, logged=(0.0, 3600 * theirs), simulated=(0.0, 3600 * ours))
        for group, (theirs, ours) in waits.items()
    )
    advice: Any = SimpleNamespace(
        fit=ModelFit(classes=classes),
        choices=CHOICES,
        name="",
        trace=SimpleNamespace(not_counted=("memory",)),
    )
    told, causes = warnings(advice)
    assert told == (
        "The model does not fit this trace: nine of ten of the jobs of 9 to 32 processors waited "
        "up to 32.00 h in the log, but 2.00 h in the simulation of EASY. No recommendation can be "
        "made. Nor does it fit other classes of processors: 33 or more, 1."
    )
    assert "several partitions or queues" in causes
    assert causes.startswith("Likely causes: memory, which jobs asked for and which is not counted")


def test_responses_count_from_the_submission() -> None:
    """Two processors: 0 ▓▓▓▓ 4, and the second, submitted at 1 s, waits: 4 ▓▓▓ 7."""
    found = run_easy(workload_of([(0.0, 2, 4.0, None), (1.0, 2, 3.0, None)], 2), Prices())
    assert found.responses == {"0": 4.0, "1": 6.0}
