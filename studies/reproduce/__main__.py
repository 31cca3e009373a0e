"""Every number of the studies' READMEs, beside what comes out now (README.md).

    python studies/reproduce --quick [--seed 1] [--seconds 600] [--only deadlines restarts]
    python studies/reproduce [--workers 2]

The first makes parts of the studies, drawn by seed; the second every study whole. Nothing that was
kept by earlier runs is used. Printed is a table of the numbers that came out, and of all that did
not agree. Exit code 1: one did not.
"""

from __future__ import annotations

import platform
import random
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import msgspec

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim.experiments import markdown_table
from studies.reproduce.page_numbers import Number, agree, blank, find, generated, numbers_of
from studies.reproduce.parts import STUDIES, Command, Failed, missing_log, run
from studies.reproduce.ties import all_agree, read_ties
from studies.shared import arguments, print_or_put, run_main

HERE = Path(__file__).resolve().parent
LOCK = HERE / "environment.txt"
README = "README.md"
UNTIED = "tied to nothing"
OVERVIEW = "."
"""The page of all studies, whose numbers are theirs."""

DRAWS = 5
"""How often a part may be drawn."""


class Exempt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Numbers that no command gives again, by a pattern of study, page and names; and why."""

    where: str
    why: str


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The commands of each study, what is exempt, and sections without results.

    ``--quick`` may take so many ``seconds`` of CPU time.
    """

    seconds: float
    no_results: str
    exempt: tuple[Exempt, ...]
    studies: dict[str, tuple[Command, ...]]


def read_settings() -> Settings:
    """Return what ``study.toml`` says."""
    return msgspec.convert(tomllib.loads((HERE / "study.toml").read_text("utf-8")), Settings)


class Row(NamedTuple):
    """A number of a page beside the one that was found, if any was, in this run or in a page."""

    place: str
    number: Number
    found: Number | None
    agrees: bool
    is_new: bool = True

    @property
    def cells(self) -> list[str]:
        """Its cells: what it is, where it stands, what is expected, what was found."""
        found = self.found.shown if self.found else "nothing"
        name = self.number.address.replace(" | ", " / ")
        where = f"{self.place}:{self.number.line}"
        return [name, where, self.number.shown, found + " (differs)" * (not self.agrees)]


class Study:
    """A study with the numbers of its pages, and those that its commands gave in this run."""

    def __init__(self, name: str, settings: Settings, folder: Path | None = None) -> None:
        self.name, self.settings, self.folder = name, settings, folder or STUDIES / name
        self.commands = settings.studies[name]
        self.tie_file = HERE / "ties" / f"{'overview' if name == OVERVIEW else name}.tsv"
        self.ties = read_ties(self.tie_file)
        self.written = {
            self.source_name(each): generated(self.folder / each.page, each.section)
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
        page = "#".join(filter(None, (command.page, command.section)))
        return page or command.name(self.name)

    def place(self, page: str = README) -> str:
        """Return where a page lies."""
        return (Path("studies") / self.name / page).as_posix()

    def exemption(self, number: Number, page: str = README) -> str | None:
        """Return why a number need not come out again, if so."""
        where = f"{self.place(page)}: {number.address}"
        return next((it.why for it in self.settings.exempt if re.search(it.where, where)), None)

    def by_hand(self) -> list[Number]:
        """Return the results in the README that a command has not written itself."""
        pages = (it for name, it in self.written.items() if name.startswith(README))
        lines = {each.line for it in pages for each in it}
        results = re.compile(rf"(?!{self.settings.no_results})")
        every = numbers_of((self.folder / README).read_text("utf-8"))
        return [each for each in every if each.line not in lines and results.match(each.title)]

    def make(self, command: Command, seed: int | None, workers: int) -> tuple[list[Row], float]:
        """Run a command, or its part; return numbers beside those that came out, and its cost (s).

        Raises :class:`Failed` where it fails, or a part gives nothing of its page.
        """
        text, seconds = run(self.name, command, seed, workers)
        came = numbers_of(text, blank(command.section)[:60])
        rows = list(self.compared(command, came, is_part=seed is not None))
        if command.page and seed is not None and not rows:
            raise Failed(f"{command.name(self.name)}: nothing of {command.page} came out")
        made = self.made.setdefault(self.source_name(command), {})
        made |= {each.number.address: each.found for each in rows if each.found}
        if not command.page:
            made |= {each.address: each for each in came}
        return rows, seconds

    def compared(self, command: Command, made: Sequence[Number], *, is_part: bool) -> Iterator[Row]:
        """Yield the numbers of a command's page beside what came out.

        Of a part that are those that rest on nothing else; the whole has to give all.
        """
        part = command.part if is_part else None
        for each in self.written.get(self.source_name(command), ()):
            found = find(made, each)
            if part and (
                found is None
                or not re.search(part.tables, each.title)
                or re.search(part.without, each.address)
            ):
                continue
            if self.exemption(each, command.page) is None:
                agrees = found is not None and len(found.texts) == len(each.texts)
                agrees = agrees and all(map(agree, each.texts, found.texts if found else ()))
                yield Row(self.place(command.page), each, found, agrees)

    def tied(self) -> tuple[list[Row], Counter[str]]:
        """Return the README's numbers beside those that they are tied to; others by reason.

        What came out in this run goes before what stands in a page.
        """
        rows = []
        others: Counter[str] = Counter()
        pages = {name: {each.address: each for each in it} for name, it in self.written.items()}
        for each in self.by_hand():
            source, there = self.ties.get(each.address, ("-", ""))
            new = self.made.get(source, {}).get(there)
            found, why = new or pages.get(source, {}).get(there), self.exemption(each)
            if found and not why:
                rows.append(Row(self.place(), each, found, all_agree(each, found), new is not None))
            else:
                others[why or (UNTIED if source == "-" else "of a command that was not run")] += 1
        return rows, others


def versions() -> Iterator[str]:
    """Yield the versions of what runs: Python, and the packages of the lock."""
    yield f"Python {platform.python_version()}, qops-batsim {version('qops-batsim')}"
    for name, locked in re.findall(r"^([\w-]+)==(.*)", LOCK.read_text("utf-8"), re.M):
        with suppress(PackageNotFoundError):
            own = version(name)
            yield f"{name} {own}" + f" (lock: {locked})" * (own != locked)


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
    for own in range(seed, seed + 1000 * DRAWS, 1000):
        for study, each in random.Random(own).sample(every, len(every)):
            part = each.part
            if part and part.seconds <= budget and (own == seed or part.draw or part.program):
                budget -= part.seconds
                found.append(Planned(study, each, own, part.seconds))
    return found


def main() -> None:
    settings = read_settings()
    parser = arguments(__file__, __doc__)
    parser.add_argument("--seed", type=int, default=1, help="draws parts")
    parser.add_argument("--seconds", type=float, default=settings.seconds, help="CPU time for them")
    parser.add_argument("--only", nargs="+", choices=settings.studies, help="these studies")
    asked = parser.parse_args()
    every = {name: Study(name, settings) for name in settings.studies}
    chosen = [every[name] for name in asked.only or every]
    plan = planned(chosen, asked.seed if asked.quick else None, asked.seconds)
    expected = sum(each.seconds for each in plan) / 60
    print(f"Run with {', '.join(versions())}.\n")
    print(f"{len(plan)} commands, about {expected:.0f} minutes of CPU time.\n", flush=True)

    rows: list[Row] = []
    told: Counter[str] = Counter()
    spent, failed = 0.0, False
    for study, command, seed, _ in plan:
        if log := missing_log(study.name, command):
            told[f"exempt, as {log} is not at hand: {command.name(study.name)}"] = 1
            continue
        try:
            found, seconds = study.make(command, seed, asked.workers)
        except Failed as error:
            told[str(error)], failed = 1, True
            continue
        rows += found
        spent += seconds
        print(f"{command.name(study.name)}: {seconds:.0f} s", file=sys.stderr, flush=True)
    for study in every.values():
        every[OVERVIEW].add(study)
    for study in chosen:
        found, others = study.tied()
        rows += found
        told += others

    table = markdown_table(["number", "file", "expected", "found"], [each.cells for each in rows])
    wrong, new = (sum(it) for it in zip(*((not it.agrees, it.is_new) for it in rows), strict=True))
    counts = f"{len(rows):,} numbers, {new:,} of them made now, {wrong:,} differ"
    lines = [f"{count:,} {reason}" for reason, count in told.items()]
    text = [*table, "", *lines, f"{counts}; {spent / 60:.1f} minutes of CPU time"]
    print_or_put("\n".join(text), asked.write)
    raise SystemExit(failed or wrong > 0)


if __name__ == "__main__":
    run_main(main)
