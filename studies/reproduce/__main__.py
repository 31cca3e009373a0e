"""Every number of the studies' READMEs, beside what comes out now (README.md).

    python studies/reproduce --quick [--seed 1] [--seconds 600] [--only deadlines restarts]
    python studies/reproduce [--workers 2]
    python studies/reproduce --tie

The first makes parts of the studies, drawn by seed; the second every study whole. Nothing that was
kept by earlier runs is used. Printed is a table of the numbers that came out, and of all that did
not agree. Exit code 1: one did not. ``--tie`` looks for what new numbers of READMEs are.
"""

from __future__ import annotations

import math
import platform
import random
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import msgspec

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim import InputError
from qops_batsim.experiments import markdown_table
from studies.reproduce.page_numbers import Number, Source, agree, numbers_of, read_source
from studies.reproduce.parts import STUDIES, Command, Part, missing_log, run
from studies.reproduce.ties import all_agree, new_ties, read_ties, write_ties
from studies.shared import arguments, print_or_put, run_main

HERE = Path(__file__).resolve().parent
LOCK = HERE / "environment.txt"
README = "README.md"
UNTIED = "tied to nothing"
MOST = 900.0
"""After so much CPU time (s) --quick begins nothing."""

DRAWS = 5
"""How often a part may be drawn."""

OVERVIEW = "."
"""The page of all studies, whose numbers are theirs."""


class Exempt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Numbers that no command gives again, by a pattern of study, page and names; and why."""

    where: str
    why: str


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The commands of each study, what is exempt, and sections without results."""

    seconds: float
    no_results: str
    exempt: tuple[Exempt, ...]
    studies: dict[str, tuple[Command, ...]]


class Row(NamedTuple):
    """A number of a page beside the one that was found.

    It ``agrees`` to the digits shown; what was made in this run goes before what a page has.
    """

    study: str
    page: str
    number: Number
    found: Number | None
    agrees: bool
    is_new: bool = True

    @property
    def cells(self) -> list[str]:
        """Its cells: what it is, where it stands, what is expected, what was found."""
        found = "nothing" if self.found is None else self.found.shown
        mark = "" if self.agrees else " (differs)"
        place = f"{Path('studies') / self.study / self.page}:{self.number.line}"
        name = self.number.address.replace(" | ", " / ").strip()
        return [name, place, self.number.shown, f"{found}{mark}"]


def read_settings() -> Settings:
    """Return what ``study.toml`` says."""
    return msgspec.convert(tomllib.loads((HERE / "study.toml").read_text("utf-8")), Settings)


class Failed(Exception):
    """A command that gave no numbers."""


class Study:
    """A study with the numbers of its pages, and those that its commands gave in this run."""

    def __init__(self, name: str, settings: Settings, folder: Path | None = None) -> None:
        self.name, self.settings, self.folder = name, settings, folder or STUDIES / name
        self.commands = settings.studies[name]
        self.tie_file = HERE / "ties" / f"{'overview' if name == OVERVIEW else name}.tsv"
        self.ties = read_ties(self.tie_file)
        self.written = {
            self.source_name(each): read_source(self.folder / each.page, each.section)
            for each in self.commands
            if each.page
        }
        self.made: dict[str, dict[str, Number]] = {}

    def add(self, other: Study) -> None:
        """Add the numbers of another study, for a page that tells of several."""
        self.written |= {f"{other.name}/{name}": it for name, it in other.written.items()}
        self.made |= {f"{other.name}/{name}": it for name, it in other.made.items()}

    def source_name(self, command: Command) -> str:
        """Return the name by which numbers of the README are tied to what a command gives."""
        if not command.page:
            return command.name(self.name)
        return f"{command.page}#{command.section}" if command.section else command.page

    def exemption(self, page: str, number: Number) -> str | None:
        """Return why a number need not come out again, if so."""
        where = f"{self.name}/{page}: {number.address}"
        return next((it.why for it in self.settings.exempt if re.search(it.where, where)), None)

    def by_hand(self) -> list[Number]:
        """Return the results in the README that a command has not written itself."""
        generated = {
            each.line
            for name, source in self.written.items()
            for each in source.numbers
            if name.startswith(README)
        }
        results = re.compile(rf"(?!{self.settings.no_results})")
        text = (self.folder / README).read_text("utf-8")
        return [
            each
            for each in numbers_of(text)
            if each.line not in generated and results.match(each.title)
        ]

    def make(self, command: Command, seed: int | None, workers: int) -> tuple[list[Row], float]:
        """Run a command, or its part; return numbers beside those that came out, and its cost (s).

        Raises :class:`Failed` where it fails, or nothing of its page comes out.
        """
        done = run(self.name, command, seed, workers)
        if done.error:
            raise Failed(f"{command.name(self.name)} fails: {done.error}")
        source, rows = Source(done.text), []
        if command.page:
            rows = list(self.compared(command, source, None if seed is None else command.part))
            if not rows:
                raise Failed(f"{command.name(self.name)}: nothing of {command.page} came out")
        made = {each.number.address: each.found for each in rows if each.found is not None}
        known = source.names if seed is None or not command.page else {}
        self.made.setdefault(self.source_name(command), {}).update(known | made)
        return rows, done.seconds

    def compared(self, command: Command, made: Source, part: Part | None) -> Iterator[Row]:
        """Yield the numbers of a command's page beside what came out.

        Of a part those that came out; the whole has to give all.
        """
        for each in self.written[self.source_name(command)].numbers:
            left_out = part is not None and not part.holds(each.title, each.column)
            found = None if left_out else made.at(each)
            some = part is not None and (left_out or (found is None and part.is_drawn))
            if some or self.exemption(command.page, each):
                continue
            both = [] if found is None else zip_longest(each.texts, found.texts, fillvalue="nan")
            agrees = found is not None and all(agree(*pair) for pair in both)
            yield Row(self.name, command.page, each, found, agrees)

    def tied(self) -> tuple[list[Row], Counter[str]]:
        """Return the README's numbers beside those that they are tied to; others by reason.

        What came out in this run goes before what stands in a page.
        """
        rows = []
        others: Counter[str] = Counter()
        for each in self.by_hand():
            source, there = self.ties.get(each.address, ("", ""))
            page = self.written[source].names if source in self.written else {}
            made = self.made.get(source, {}).get(there)
            found = made or page.get(there)
            why = self.exemption(README, each)
            if why is None and found is not None:
                agrees = all_agree(each, found)
                rows.append(Row(self.name, README, each, found, agrees, made is not None))
            else:
                others[why or ("of a command that was not run" if source else UNTIED)] += 1
        return rows, others


def tie(studies: Sequence[Study], workers: int) -> None:
    """Look for what new numbers of READMEs are, and keep the ties."""
    for study in studies:
        sources = dict(study.written)
        for command in study.commands:
            if not command.page and missing_log(study.name, command) is None:
                text = run(study.name, command, workers=workers).text
                sources[study.source_name(command)] = Source(text)
        numbers = [each for each in study.by_hand() if study.exemption(README, each) is None]
        found = new_ties(numbers, sources, study.ties)
        write_ties(study.tie_file, found)
        print(f"{study.name}: {len(found)} of {len(numbers)} tied", flush=True)


def versions() -> dict[str, str]:
    """Return the versions of what runs: Python, and the packages of the lock."""
    found = {"Python": platform.python_version()}
    found["qops-batsim"] = version("qops-batsim")
    for line in re.findall(r"^\w.*", LOCK.read_text("utf-8"), re.M):
        name, _, locked = line.partition("==")
        with suppress(PackageNotFoundError):
            own = version(name)
            found[name] = own if own == locked else f"{own} (lock: {locked})"
    return found


class Planned(NamedTuple):
    """A command that is run: whole, or its part drawn by a seed; and the CPU time expected (s)."""

    study: Study
    command: Command
    seed: int | None
    seconds: float


def planned(studies: Sequence[Study], seed: int | None, budget: float) -> list[Planned]:
    """Return what is run: without a seed all, else parts in an order by seed within a budget (s).

    Once each part that fits has its place, what is left is for further draws.
    """
    every = [(study, each) for study in studies for each in study.commands]
    if seed is None:
        return [Planned(study, each, None, each.seconds) for study, each in every]
    found = []
    for again in range(DRAWS):
        own = seed + 1000 * again
        for study, each in random.Random(own).sample(every, len(every)):
            part = each.part
            if part and part.seconds <= budget and (part.is_drawn or not again):
                budget -= part.seconds
                found.append(Planned(study, each, own, part.seconds))
    return found


def main() -> None:
    parser = arguments(__file__, __doc__)
    parser.add_argument("--seed", type=int, default=1, help="draws parts")
    parser.add_argument("--seconds", type=float, help="CPU time for the parts (s)")
    parser.add_argument("--only", nargs="+", metavar="STUDY", help="these studies")
    parser.add_argument("--tie", action="store_true", help="look for what numbers are")
    asked = parser.parse_args()
    settings = read_settings()
    unknown = set(asked.only or ()) - settings.studies.keys()
    if unknown:
        known = ", ".join(settings.studies)
        raise InputError(f"--only {', '.join(sorted(unknown))}: no such study; there are {known}")
    every = {name: Study(name, settings) for name in settings.studies}
    studies = [every[name] for name in asked.only or every]
    overview = every.pop(OVERVIEW)
    for study in every.values():
        overview.add(study)
    if asked.tie:
        tie(studies, asked.workers)
        return

    seed = asked.seed if asked.quick else None
    plan = planned(studies, seed, asked.seconds or settings.seconds)
    expected = sum(each.seconds for each in plan) / 60
    print(f"Run with {', '.join(f'{name} {own}' for name, own in versions().items())}.\n")
    print(
        f"{len(plan)} commands, about {expected:.0f} minutes of CPU time, seed {seed}.", flush=True
    )
    rows, told, wrong = carried_out(plan, asked.workers, MOST if asked.quick else math.inf)
    others: Counter[str] = Counter()
    for study in every.values():
        overview.add(study)
    for study in studies:
        found, rest = study.tied()
        rows += found
        others += rest
    told += [f"Of the READMEs, {count:,} {why}" for why, count in others.items()]
    print_or_put(report(rows, told), asked.write)
    raise SystemExit(wrong or not all(each.agrees for each in rows))


def carried_out(
    plan: Sequence[Planned], workers: int, most: float
) -> tuple[list[Row], list[str], bool]:
    """Run a plan; return the numbers that came out, lines on what did not, and whether any failed.

    After so much CPU time (s) no further command is begun.
    """
    rows: list[Row] = []
    told: dict[str, None] = {}
    wrong, spent = False, 0.0
    for study, command, seed, expected in plan:
        name = command.name(study.name)
        log = missing_log(study.name, command)
        if log is not None:
            told[f"Exempt: {name}: {log} is not at hand"] = None
            continue
        if spent + expected > most:
            told[f"Left out, as the time is used up: {name}"] = None
            continue
        try:
            found, seconds = study.make(command, seed, workers)
        except Failed as failed:
            told[f"Failed: {failed}"], wrong = None, True
            continue
        rows += found
        spent += seconds
        print(f"{name}: {len(found)} in {seconds:.0f} s", file=sys.stderr, flush=True)
    return rows, [*told, f"{spent / 60:.1f} minutes of CPU time"], wrong


def report(rows: Sequence[Row], told: Sequence[str]) -> str:
    """Return the table of what came out, and lines on what did not, in Markdown."""
    new, wrong = (sum(map(kind, rows)) for kind in (lambda it: it.is_new, lambda it: not it.agrees))
    heads = ["number", "file", "expected", "found"]
    counts = f"{len(rows):,} numbers, {new:,} of them made now, {wrong:,} differ"
    return "\n".join([*markdown_table(heads, [each.cells for each in rows]), "", *told, counts])


if __name__ == "__main__":
    run_main(main)
