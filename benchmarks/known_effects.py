"""Verdicts on made-up studies whose effects are known: how many are wrong, how many decided.

    python benchmarks/known_effects.py [--families 2000] [--skewed]
    python benchmarks/known_effects.py --report out/islam2004/report.json [--families 200]

A family is what is judged together: a study of windows, loads and schedulers, or the claims of a
section. Its effects are drawn: none, a small one, or a large one, which is 1.5 times as large as
differences vary from window to window. Levels and noise are exponential. With ``--skewed`` the
contestants vary twice as much as the baseline, so that differences are skewed as well (1.2), which
Student's distribution by itself does not allow for. With ``--report`` families are those of a
study: their claims on units that are drawn with replacement from its own, moved so that nothing is
as claimed or otherwise (each mean is at the claim's end), or surely beside its margin, or inside by
half a standard deviation. How often they are wrong is what withholds verdicts of a report.
A family is wrong if one verdict says that something is higher or lower, or confirms it, where
it is not.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from qops_batsim.errors import InputError
from qops_batsim.experiments.claims import (
    CONFIRMED,
    CONTRADICTED,
    DECIDED,
    EQUIVALENT,
    TOO_FEW,
    Claim,
    as_checks,
    combined_claim,
    corrected_family,
    jointly_judged,
    level_of,
    range_claim,
    sign_claim,
    whole_claims,
)
from qops_batsim.experiments.deadline_runs import Contestant
from qops_batsim.experiments.listed_cases import LogWindow, StudyLog
from qops_batsim.experiments.statistics import ERROR, FAMILIES, logarithm_of
from qops_batsim.experiments.study import InputIdentities, Study
from qops_batsim.experiments.study_report import summaries
from qops_batsim.experiments.study_runs import CellOutcome, Description, StudyRuns
from qops_batsim.measures.metrics.measures import STUDY, Measures, measure_names

BASE = "msb"
SPREAD = 1.0
"""Standard deviation of a difference between windows (points)."""

SMALL, LARGE = 0.2 * SPREAD, 1.5 * SPREAD
LOADS = (1.2, 1.4)
JOBS, SHIFT = 5000, 25

USELESS = ("easy", "fcfs", "msb again", "first again")
"""Two that never refuse, the baseline and a contestant under second names."""

Effects = dict[str, float]
Verdicts = dict[tuple[float, str], str]


def effects_of(generator: random.Random, count: int = 4) -> Effects:
    """Draw the true difference of each contestant from the baseline."""
    sizes = [0.0, 0.0, SMALL, -SMALL, LARGE, -LARGE]
    return {f"contestant {number}": generator.choice(sizes) for number in range(count)}


def made_up(
    seed: int,
    effects: Effects,
    others: Sequence[str] = (),
    verdicts: Sequence[str] = (),
    *,
    skewed: bool = False,
) -> StudyRuns:
    """Return the runs of a study of 12 to 20 disjoint windows, each with two seeds.

    What a contestant refuses does not depend on who else takes part.
    """
    count = random.Random(f"{seed} windows").randint(12, 20)
    names = [BASE, *effects, *others]
    study = Study(
        name="known effects",
        logs=(StudyLog(name="log", file="log.swf"),),
        schedulers=tuple(Contestant(name=name, scheduler=BASE) for name in names),
        windows=tuple(LogWindow(skip=JOBS * place, first=JOBS) for place in range(count)),
        loads=LOADS,
        seeds=(1, 2),
        baseline=BASE,
        verdicts=tuple(verdicts),
    )
    first = next(iter(effects))
    found = []
    for cell in study.cells():
        who = {"msb again": BASE, "first again": first}.get(cell.contestant, cell.contestant)
        refused = 0.0
        if who not in USELESS:
            place = (seed, cell.window.skip, cell.point.load)
            level = 10 + 3 * random.Random(f"{place}").expovariate(1)
            own = 0.5**0.5 if not skewed else 0.2**0.5 if who == BASE else 0.8**0.5
            window = own * SPREAD * (random.Random(f"{place} {who}").expovariate(1) - 1)
            drawn = random.Random(f"{place} {who} {cell.seed}").gauss(0, 0.1 * SPREAD)
            refused = level + effects.get(who, 0.0) + window + drawn
        found.append(CellOutcome(cell=cell, metrics=metrics_of(refused)))
    known = InputIdentities(logs={"log": ""}, schedulers=dict.fromkeys(names, ((), "")))
    about = Description(package_version="", key="", study=study, identities=known)
    return StudyRuns(about, found)


def metrics_of(refused: float) -> Measures:
    """Return metrics of a run that refused this share of its jobs (%)."""
    rest = dict.fromkeys(measure_names(STUDY))
    whole = {**rest, "jobs": JOBS, "deadline_jobs": JOBS, "kills": 0, "unadmitted_jobs": refused}
    return msgspec.convert(whole, Measures)


def verdicts_of(runs: StudyRuns) -> Verdicts:
    """Return the verdicts by load and scheduler."""
    return {(each.point.load, each.scheduler): each.verdict for each in summaries(runs)}


def judged_family(seed: int, count: Counter[str], *, skewed: bool = False) -> None:
    """Judge a study with and without others, and count what is wrong, decided and changed."""
    effects = effects_of(random.Random(f"{seed} effects"))
    alone = verdicts_of(made_up(seed, effects, skewed=skewed))
    own = {key: verdict for key, verdict in alone.items() if key[1] != BASE}
    count["families"] += 1
    count["wrong"] += any(
        (verdict == "higher" and effects[name] <= 0) or (verdict == "lower" and effects[name] >= 0)
        for (_, name), verdict in own.items()
    )
    large = [verdict for (_, name), verdict in own.items() if abs(effects[name]) == LARGE]
    count["large effects"] += len(large)
    count["decided"] += sum(verdict in ("higher", "lower") for verdict in large)
    beside = verdicts_of(made_up(seed, effects, USELESS, skewed=skewed))
    count["changed by useless contestants"] += any(beside[key] != alone[key] for key in alone)
    noisy = [f"further {number}" for number in range(4)]
    named = verdicts_of(made_up(seed, effects, noisy, tuple(effects), skewed=skewed))
    count["changed by contestants that are not named"] += any(
        named[key] != alone[key] for key in alone
    )


def judged_section(seed: int, count: Counter[str]) -> None:
    """Judge the claims of a section, that each number is above 0, with and without our checks."""
    generator = random.Random(f"{seed} section")
    effects, claims = effects_of(generator, 6), []
    for name, effect in effects.items():
        values = [
            effect + SPREAD * (generator.expovariate(1) - generator.expovariate(1)) / 2**0.5
            for _ in range(generator.randint(12, 20))
        ]
        claims.append(sign_claim(name, name, values, 1, section="1"))
    judged = jointly_judged(claims)
    count["families"] += 1
    # Nothing is neither more nor less: both verdicts on it are wrong.
    count["wrong"] += any(
        (each.verdict == CONFIRMED and effects[each.id] <= 0)
        or (each.verdict == CONTRADICTED and effects[each.id] >= 0)
        for each in judged
    )
    large = [each for each in judged if abs(effects[each.id]) == LARGE]
    count["large effects"] += len(large)
    count["decided"] += sum(each.verdict in (CONFIRMED, CONTRADICTED) for each in large)
    checks = [msgspec.structs.replace(each, id=f"{each.id}, elsewhere") for each in claims]
    beside = jointly_judged([*claims, *as_checks(checks)])
    count["changed by checks of ours"] += beside[: len(claims)] != judged


def overlapping(seed: int) -> Study:
    """Return a study of windows that begin 25 jobs after each other, as were once taken."""
    windows = tuple(LogWindow(skip=SHIFT * place, first=JOBS) for place in range(20))
    study = made_up(seed, effects_of(random.Random(seed))).study
    return msgspec.structs.replace(study, windows=windows)


def refused_overlap(seed: int, count: Counter[str]) -> None:
    """Offer windows that overlap, and count whether they are refused."""
    try:
        overlapping(seed).check()
    except InputError as error:
        count["overlapping windows refused"] += "share jobs" in str(error)


def families_of(path: Path) -> dict[str, list[Claim]]:
    """Return the judged claims of a report with their parts, by family."""
    report = msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw])
    claims = {each.id: each for each in msgspec.json.decode(report["claims"], type=list[Claim])}
    found: dict[str, list[Claim]] = {}
    for claim in whole_claims([*claims.values()]):
        if claim.chance is not None:
            members = [*(claims[name] for name in claim.parts), claim]
            found.setdefault(claim.family or claim.section, []).extend(members)
    return found


def redrawn(family: Sequence[Claim], seed: int, shift: float | None) -> list[Claim]:
    """Return a family's claims on units that are drawn from its own, with means that are known.

    A mean is ``shift`` standard deviations inside of the end of what is claimed, or (None) outside
    by the margin.
    """
    generator = np.random.default_rng(seed)
    counts = sorted({len(claim.values) for claim in family})
    places = {count: generator.integers(0, max(1, count), count) for count in counts}
    found: dict[str, Claim] = {}
    for claim in family:
        if claim.parts:
            parts = [found[name] for name in claim.parts if name in found]
            whole = combined_claim(claim.id, "", parts, section=claim.section)
            found[claim.id] = msgspec.structs.replace(whole, family=claim.family)
        elif claim.chance is not None and claim.expected:
            low, high = claim.expected
            inside, end = (-1, high) if low is None else (1, low)
            assert end is not None
            values = np.array(claim.values)
            away = values - values.mean()
            to = end if shift is not None else end - inside * (claim.margin or 0.0)
            mean = logarithm_of(to) if claim.relative else to
            drawn = mean + inside * (shift or 0.0) * away.std() + away[places[len(away)]]
            found[claim.id] = range_claim(
                claim.id,
                "",
                drawn.tolist(),
                -math.inf if low is None else low,
                math.inf if high is None else high,
                section=claim.section,
                family=claim.family,
                margin=claim.margin,
                relative=claim.relative,
            )
    whole_names = {claim.id for claim in whole_claims(family)}
    return [each for name, each in found.items() if name in whole_names]


def own_family(name: str, family: Sequence[Claim], families: int) -> str:
    """Return a row on a family: how often a verdict is wrong, and how many effects are found."""
    whole = corrected_family(whole_claims(family))
    heads = f"| {name} | {whole[0].count} | {len(whole)} | "
    if any(each.verdict == TOO_FEW for each in whole):
        return f"{heads}too few to judge | | | |"
    wrong = level_of(whole, {each.id: each for each in family})
    beside = decided = 0
    for seed in range(families):
        at_margin = corrected_family(redrawn(family, seed, None))
        beside += any(each.verdict in (CONFIRMED, EQUIVALENT) for each in at_margin)
        inside = corrected_family(redrawn(family, seed, 0.5))
        decided += sum(each.verdict == CONFIRMED for each in inside)
    shares = share_text(round(wrong * FAMILIES), FAMILIES), share_text(beside, families)
    verdicts = sum(each.verdict in DECIDED for each in whole) if wrong <= ERROR else "none"
    power = 100 * decided / families / len(whole)
    return f"{heads}{' | '.join(shares)} | {power:.0f} | {verdicts} |"


def share_text(count: int, of: int) -> str:
    """Return a share in % with its standard error."""
    share = count / of
    return f"{100 * share:.1f} ± {100 * math.sqrt(share * (1 - share) / of):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--families", type=int, default=2000)
    parser.add_argument("--skewed", action="store_true", help="skewed differences, studies alone")
    parser.add_argument("--report", type=Path, help="families of a study's report.json")
    asked = parser.parse_args()
    families = asked.families
    if asked.report:
        heads = "wrong (%) | wrong at the margin (%) | effects found (%) | verdicts"
        print(f"| family | units | claims | {heads} |")
        print("|---|---|---|---|---|---|---|")
        for name, family in families_of(asked.report).items():
            print(own_family(name, family, families), flush=True)
        return
    bench: dict[str, Callable[[int, Counter[str]], None]] = {
        "studies": partial(judged_family, skewed=asked.skewed)
    }
    if not asked.skewed:
        bench["sections of claims"] = judged_section
    for what, judged in bench.items():
        count: Counter[str] = Counter()
        for seed in range(families):
            judged(seed, count)
        wrong, decided = count["wrong"] / families, count["decided"] / count["large effects"]
        print(f"{families} {what}: wrong {wrong:.2%}, large effects decided {decided:.1%}")
        for name, number in count.items():
            print(f"  {name}: {number}")
    offered: Counter[str] = Counter()
    for seed in range(20):
        refused_overlap(seed, offered)
    print(f"20 studies of overlapping windows: {offered['overlapping windows refused']} refused")


if __name__ == "__main__":
    main()
