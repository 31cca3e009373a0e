"""What the studies have in common: arguments, settings, runs of a grid, and tables in pages.

A study's settings are its ``study.toml``. A table ``quick`` there holds what ``--quick`` changes;
the other names are the study's own, and its README explains them.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from qops_batsim import QopsError
from qops_batsim.experiments import (
    CONFIRMED,
    Claim,
    Interval,
    PageTable,
    Study,
    StudyRuns,
    deadline_facts,
    jointly_judged,
    markdown_table,
    nested_interval,
    read_study,
    run_study,
    sign_claim,
    study_inputs,
    study_of,
    whole_claims,
    with_need,
)
from qops_batsim.workload import NeedChoices, NeedMix, Workload

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"

Settings = dict[str, Any]
KeyT = TypeVar("KeyT")


EASY, NEED, BOTH = "easy", "need", "both"
"""How deadlines are made: from EASY's schedule, by need, each in turn."""

Groups = Sequence[Sequence[float]]
"""Values grouped by what is a repetition."""


def _needs() -> dict[str, NeedChoices]:
    """Return the grid of mixes of needs by name, the usual one first."""

    def by_factors(times: float) -> NeedChoices:
        medians = [each._replace(median=times * each.median) for each in usual.factors]
        return replace(usual, factors=tuple(medians))

    replace, usual = msgspec.structs.replace, NeedChoices()
    return {
        NEED: usual,
        "tight": by_factors(1 / 4),
        "lax": by_factors(4),
        "slack": replace(usual, mix=NeedMix(slack=1.0)),
        "hours": replace(usual, mix=NeedMix(hours=1.0)),
    }


NEEDS = _needs()
MIXES = {
    EASY: "EASY's schedule",
    NEED: "usual mix",
    "tight": "factors / 4",
    "lax": "factors * 4",
    "slack": "slack only",
    "hours": "hours only",
}
"""The mixes of needs as tables name them, beside EASY's schedule."""


def arguments(main: str, doc: str | None, *, by_need: bool = False) -> argparse.ArgumentParser:
    """Return the parser of a study's ``__main__.py``, with the options that all studies have.

    A study that can be made ``by_need`` lets its user choose how deadlines are made.
    """
    name = Path(main).resolve().parent.name
    parser = argparse.ArgumentParser(
        prog=f"python studies/{name}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="a part of the study, in a minute")
    parser.add_argument("--out", type=Path, default=Path("out") / name, help="finished runs")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--write", type=Path, help="page to put the tables into")
    if by_need:
        text = "make deadlines from EASY's schedule (default), by a mix of needs, or by both"
        parser.add_argument("--deadlines", choices=(*MIXES, BOTH), default=EASY, help=text)
    return parser


def run_main(main: Callable[[], object]) -> None:
    """Run a study; an error that a user can cause is one line, and exit code 2."""
    try:
        main()
    except QopsError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        raise SystemExit(130) from None


def settings_of(main: str, *, quick: bool = False) -> Settings:
    """Return the settings of a study, those of ``--quick`` if asked for."""
    found = tomllib.loads(Path(main).resolve().with_name("study.toml").read_text())
    changes = found.pop("quick", {})
    return changed(found, changes) if quick else found


def changed(settings: Settings, changes: Settings) -> Settings:
    """Return settings with other values; tables are changed, everything else is replaced."""
    return settings | {
        name: changed(settings[name], value) if isinstance(value, dict) else value
        for name, value in changes.items()
    }


def grid_runs(
    grid: Settings,
    out: Path,
    workers: int = 1,
    by: str = EASY,
    workloads: Mapping[str, Workload] | None = None,
) -> StudyRuns:
    """Make the runs of a grid that a directory does not hold yet; return all.

    Those with deadlines ``by`` need have a directory of their own in it. Logs are looked for where
    ``qops-batsim`` looks for them (``QOPS_SHARED``, what was fetched), but for the ``workloads``
    that are given.
    """
    study = with_deadlines(study_of(grid, source="study.toml"), by)
    own = out / by if study.need else out
    found = run_study(
        study, own, workloads=workloads, workers=workers, on_progress=told(), retry=True
    )
    errors = {each.error for each in found.outcomes if each.error is not None}
    if errors:
        raise SystemExit(f"{out}: runs failed: {'; '.join(sorted(errors))}")
    return found


def by_turns(asked: argparse.Namespace, made: Callable[[str], str]) -> str:
    """Return the text that is made with each kind of deadlines that is asked for."""
    kinds = (EASY, NEED) if asked.deadlines == BOTH else (asked.deadlines,)
    return "\n\n".join(made(by) for by in kinds)


def with_deadlines(study: Study, by: str) -> Study:
    """Return a study with the kind of deadlines that ``--deadlines`` asks for."""
    return study if by == EASY else with_need(study, NEEDS[by])


def usual_need(by: str = NEED) -> NeedChoices:
    """Return a need by which studies make deadlines that know nothing of a schedule."""
    need = with_deadlines(read_study("example"), by).need
    assert need is not None
    return need


def over_mixes(
    heads: Sequence[str], found: Mapping[tuple[str, ...], Mapping[str, Groups]]
) -> list[str]:
    """Return a table of differences by row and mix of needs, and where their signs hold.

    Beside a mean and its interval over the groups stands how many of these have its sign.
    """
    mixes = list(dict.fromkeys(by for values in found.values() for by in values))
    rows = [
        [*row, *(mix_cell(values[by]) if by in values else "" for by in mixes), where_held(values)]
        for row, values in found.items()
    ]
    return markdown_table([*heads, *(MIXES[by] for by in mixes), "over the mixes"], rows)


def sign_of(value: float) -> int:
    """Return the sign of a value; what rounds to 0.0 has none."""
    shown = round(value, 1)
    return (shown > 0) - (shown < 0)


def mix_cell(groups: Groups) -> str:
    """Return the mean of grouped values, its interval, and how many groups have its sign."""
    found = nested_interval(groups)
    same = [sign_of(sum(group) / len(group)) == sign_of(found.mean) for group in groups]
    return f"{interval_text(found, sign='+')} {sum(same)}/{len(groups)}"


def where_held(values: Mapping[str, Groups]) -> str:
    """Return over which mixes of needs a mean keeps its sign."""
    signs: dict[int, list[str]] = {}
    for by, groups in values.items():
        if by != EASY:
            signs.setdefault(sign_of(nested_interval(groups).mean), []).append(MIXES[by])
    words = {1: "above 0", -1: "below 0", 0: "0"}
    if len(signs) == 1:
        return f"{words[next(iter(signs))]} in all"
    return "turns: " + "; ".join(f"{words[sign]} in {', '.join(signs[sign])}" for sign in signs)


def deadlines_text(study: Study) -> str:
    """Return by what a study's deadlines are made, how tight they are, and what EASY meets."""
    cases, runs = study_inputs(study)
    scenarios = dict.fromkeys(case.scenario for case in cases)
    found = [deadline_facts(runs.workload(each)) for each in scenarios]
    counted = ("deadlines", "hurried", "met", "unwaited")
    counts = {name: sum(getattr(each, name) for each in found) for name in counted}
    text = msgspec.structs.replace(found[0], **counts).text
    made = "by need" if study.need else "from EASY's schedule"
    return f"Deadlines are made {made}. Of all workloads: {text}."


def told(every: int = 20) -> Callable[[int, int], None]:
    """Return a function that tells how many runs are done, on the terminal's error stream."""

    def tell(done: int, of: int) -> None:
        if done == of or done % every == 0:
            print(f"{done:,} of {of:,} runs", file=sys.stderr, flush=True)

    return tell


def print_or_put(text: str, page: Path | None) -> None:
    """Print a text, or let it replace what stands between the marks of a page."""
    if page is None:
        print(text)
        return
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{page}: the marks {BEGIN} and {END} are expected")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")


class Quantity(NamedTuple):
    """A number of a run as figures show it, with the factor to its unit."""

    metric: str
    label: str
    scale: float = 1.0


def stretch_table(claims: Sequence[Claim], first: Sequence[Claim]) -> PageTable:
    """Return what a paper's claims are judged by, beside the number of the paper's own stretch.

    That is one number, which says nothing of others; both are of the part that decides.
    """
    there = {each.id: each for each in first}
    rows = [
        [each.id, each.text, *(claim_value(it) for it in (there[each.decided_by or each.id], each))]
        for each in whole_claims(claims, ours=False)
        if each.kind == "mean" and each.value is not None
    ]
    heads = ["id", "claim", "the paper's stretch", "all stretches"]
    return PageTable(title="The paper's own stretch", headings=heads, rows=rows)


def relative_difference(measured: float, paper: float) -> float:
    """Return by how many percent a measured number exceeds the paper's."""
    return 100.0 * (measured - paper) / paper


def claim_value(claim: Claim, digits: int = 2, *, marked: bool = False) -> str:
    """Return the number of a claim with its interval; it may be marked if it is confirmed."""
    if claim.value is None:
        return "-"
    mark = "*" if marked and claim.verdict == CONFIRMED else ""
    return f"{claim.value:+.{digits}f}{mark}{ends_text(claim.interval, digits, '+')}"


def ends_text(ends: tuple[float, float] | None, digits: int = 1, sign: str = "") -> str:
    """Return the ends of an interval as they stand behind its mean; "" if they are unknown."""
    return "" if ends is None else " [{:{s}.{d}f}, {:{s}.{d}f}]".format(*ends, s=sign, d=digits)


def interval_text(found: Interval | None, digits: int = 1, sign: str = "") -> str:
    """Return a mean with its interval; "" if it is unknown."""
    if found is None:
        return ""
    return f"{found.mean:{sign}.{digits}f}{ends_text(found.known, digits, sign)}"


def signs_judged(
    found: Mapping[KeyT, Sequence[float]], family: str, *, relative: bool = False
) -> dict[KeyT, Claim]:
    """Return claims that means are on the side of 0 on which they lie, judged together."""
    claims = [
        sign_claim(
            *(str(key), "", values, 1 if sum(values) > 0 else -1), family=family, relative=relative
        )
        for key, values in found.items()
    ]
    return dict(zip(found, jointly_judged(claims), strict=True))
