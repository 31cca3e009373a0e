"""Numbers of documentation and studies, made again by the command beside them.

Of all numbers in README, docs and the pages of studies that have a command beside them - output
shown below ``$``, and tables of a section that names its command - some are drawn by a seed. Their
commands are run, in a directory of their own where they write files, and the rows of numbers
compared with what is printed now, to the digits shown. Numbers that were measured in seconds of a
machine are left out.

    python benchmarks/docs_numbers.py [--count 20] [--seed 1] [--only PAGE] [--list] [--long]
        [--limit SECONDS]

Commands that take hours are drawn with --long only; kept runs below ``out`` make them quick.
Exit code 1: a number did not come out. Logs are read from QOPS_SHARED (default ../shared).
"""

from __future__ import annotations

import argparse
import html
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("QOPS_SHARED", ROOT.parent / "shared")).resolve()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "studies").glob("*/*.md"))

LONG = re.compile(
    r"python studies/\w+(?!.* --quick)"
    r"|benchmarks/s(peed|oak)|notebook-pages"
)
"""Commands that take from ten minutes to hours without kept runs."""

MEASURED = re.compile(r"\bms\b|µs|\bp99\b|CPU|\bMB\b|MiB|GiB|jobs/s|seconds of|memory", re.I)
"""Heads of columns, and lines, whose numbers are those of a machine."""

MINUS = "\N{MINUS SIGN}"
NUMBER = re.compile(rf"(?<![\w.])[-+{MINUS}]?\d[\d,]*(?:\.\d+)?(?![\w]*[a-zA-Z_])")
COMMAND = re.compile(r"(?:python (?:benchmarks|studies)/[\w./]+|qops-batsim [a-z]+)")
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


class Row(NamedTuple):
    """A line of numbers in a page."""

    line: int
    numbers: tuple[str, ...]


class Place(NamedTuple):
    """Commands of a page, run one after the other, and the rows that the last ones print."""

    page: Path
    commands: tuple[str, ...]
    rows: tuple[Row, ...]
    shown: int = 1

    @property
    def asked(self) -> str:
        """The commands whose numbers the page shows, in one line."""
        return "; ".join(self.commands[-self.shown :])


def numbers_of(text: str) -> tuple[str, ...]:
    """Return the numbers of a line as texts, without the commas of thousands."""
    found = (each.group().replace(",", "").replace(MINUS, "-") for each in NUMBER.finditer(text))
    return tuple(each.lstrip("+") for each in found)


def same(shown: str, printed: str) -> bool:
    """Return whether a printed number is the shown one, to the digits shown."""
    digits = len(shown.partition(".")[2])
    return f"{float(printed):.{digits}f}" == f"{float(shown):.{digits}f}"


def in_order(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Return whether a line has the numbers of a row in their order, others between or not."""
    rest = iter(printed)
    return all(any(same(each, other) for other in rest) for each in shown)


def sessions(page: Path, text: str) -> Iterator[Place]:
    """Yield the commands of a page that show their output; each needs those before it."""
    before: list[str] = []
    for fence in re.finditer(r"^ *```console\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, fence.start(1)) + 1
        for part in re.split(r"^\$ ", fence[1], flags=re.MULTILINE)[1:]:
            command, _, output = part.replace("\\\n", " ").partition("\n")
            command = re.sub(r" +#.*", "", command)
            before.append(command)
            rows = []
            for each in output.splitlines():
                where = line + fence[1][: fence[1].find(each)].count("\n")
                numbers = () if MEASURED.search(each) else numbers_of(each)
                if numbers:
                    rows.append(Row(where, numbers))
            if rows:
                yield Place(page, tuple(before), tuple(rows))


def tables(page: Path, text: str) -> Iterator[Place]:
    """Yield the commands that a section of a page names, with the tables of the section."""
    named = commands_in(text)
    single = [(place, each) for place, together in named for each in together]
    makers = [each for each in single if each[1].startswith("qops-batsim workload")]
    generated = next(((each,) for _, each in single if f"--write docs/{page.name}" in each), None)
    heads = [0, *(each.start() for each in re.finditer(r"^#+ ", text, re.MULTILINE)), len(text)]
    begin, end = text.find(BEGIN), text.find(END)
    for start, stop in pairwise(heads):
        section = text[start:stop]
        inside = begin <= start < end
        named = [] if inside else commands_in(section)
        for at, lines in tables_in(section):
            if inside and generated is not None:
                chosen = generated
            elif named:
                chosen = nearest(named, at, at + sum(map(len, lines)) + len(lines))
            else:
                continue
            made = [c for place, c in makers if place < start + at and c not in chosen]
            first = text.count("\n", 0, start + at) + 1
            rows = tuple(table_rows(first, lines))
            if rows:
                yield Place(page, (*made, *chosen), rows, len(chosen))


Together = tuple[str, ...]
"""Commands of one fence or indented block, which together print what is shown."""


def nearest(named: Sequence[tuple[int, Together]], begin: int, end: int) -> Together:
    """Return the commands that stand nearest to a table, before or behind it."""

    def distance(each: tuple[int, Together]) -> int:
        place, commands = each
        return place - end if place >= end else begin - place - sum(map(len, commands))

    return min(named, key=distance)[1]


def commands_in(text: str) -> list[tuple[int, Together]]:
    """Return places and commands: of fences and indented blocks whole lines, else inline code."""
    found = []
    joined = re.sub(r"\\\n *", lambda each: " " * len(each.group()), text)
    line = r"(?:\$ | {4})?(?:python|qops-batsim) .*\n"
    for block in re.finditer(rf"^{line}(?:(?!```).*\n)*?(?=^```|\n|\Z)", joined, re.MULTILINE):
        lines = (each.removeprefix("$ ").strip() for each in block.group().splitlines())
        commands = (re.sub(r" {2,}", " ", re.sub(r" +#.*", "", each)) for each in lines)
        wanted = tuple(each for each in commands if COMMAND.match(each))
        if wanted:
            found.append((block.start(), wanted))
    for each in re.finditer(
        r"`(python (?:benchmarks|studies)/[^`]*)`|\(`(qops-batsim [^`]*)`", joined
    ):
        found.append((each.start(), (each[1] or each[2],)))
    return sorted(found)


def tables_in(section: str) -> list[tuple[int, list[str]]]:
    """Return places and lines of the tables of a section."""
    tables = re.finditer(r"(?:^\|.*\n)+", section, re.MULTILINE)
    return [(each.start(), each.group().splitlines()) for each in tables]


def table_rows(first: int, lines: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of numbers of a table, without columns of measured times.

    None of a table that explains: numbers are most of what a table of results has.
    """
    heads = cells(lines[0])
    values = [cell for line in lines[2:] for cell in cells(line)[1:]]
    if 2 * sum(bool(NUMBER.match(cell)) for cell in values) < len(values):
        return
    for number, line in enumerate(lines[2:], first + 2):
        kept = [
            cell
            for head, cell in zip(heads[1:], cells(line)[1:], strict=False)
            if not MEASURED.search(head)
        ]
        numbers = tuple(each for cell in kept for each in numbers_of(cell))
        if numbers:
            yield Row(number, numbers)


def cells(line: str) -> list[str]:
    """Return the cells of a row of a table."""
    return [each.strip() for each in line.strip().strip("|").split("|")]


def all_places(only: str | None, *, long: bool) -> list[Place]:
    """Return every place whose command can be run again."""
    found = []
    for page in PAGES:
        if page.name == "commands.md" or (only and only not in str(page.relative_to(ROOT))):
            continue
        text = page.read_text()
        for place in (*sessions(page, text), *tables(page, text)):
            wanted = long or not LONG.search(place.asked)
            if wanted:
                found.append(place)
    return found


class Printed(NamedTuple):
    """Output of a command with its exit code, and how long all of a place took (s)."""

    text: str
    code: int
    seconds: float


def printed_by(place: Place, limit: float | None) -> Printed:
    """Run the commands of a place; return what those it shows print, and the pages they write.

    If one takes longer than a limit (s), nothing is printed.
    """
    begin = time.perf_counter()
    shell = {
        **os.environ,
        "QOPS_SHARED": str(SHARED),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    with tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch), place.page.read_text())
        said, code = "", 0
        for number, command in enumerate(place.commands, place.shown - len(place.commands)):
            here = command.startswith(("python benchmarks", "python studies"))
            if here:
                command = re.sub(r" --(?:write|pictures) \S+", "", command)
            # Sessions are shown at the width of the tutorial's test, tables whole.
            width = "80" if command == place.commands[-1] and "$ " in session_mark(place) else "400"
            try:
                done = subprocess.run(
                    ["bash", "-c", command],
                    cwd=ROOT if here else scratch,
                    env={**shell, "COLUMNS": width},
                    text=True,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    timeout=limit,
                )
            except subprocess.TimeoutExpired:
                return Printed("", 0, time.perf_counter() - begin)
            if number < 0:
                continue
            said, code = said + done.stdout, max(code, done.returncode)
            for written in sorted(Path(scratch).glob("*.html")):
                said += text_of(written.read_text())
                written.unlink()
    return Printed(said, code, time.perf_counter() - begin)


def text_of(page: str) -> str:
    """Return the words and numbers of a page, a row of a table a line."""
    rows = re.sub(r"\s+", " ", page).replace("</tr>", "\n").replace("<", " <")
    return html.unescape(re.sub(r"<[^>]*>", "", rows))


def session_mark(place: Place) -> str:
    """Return the line of the page above the first row of a place that begins with ``$``, if any."""
    lines = place.page.read_text().splitlines()[: place.rows[0].line]
    fenced = next((each for each in reversed(lines) if each.startswith(("$ ", "|", "#"))), "")
    return fenced if fenced.startswith("$ ") else ""


def prepare(scratch: Path, text: str) -> None:
    """Put the logs and the files that a page says to write into a directory."""
    for log in sorted((SHARED / "traces").glob("*.swf.gz")):
        (scratch / log.name).symlink_to(log)
    for name, content in re.findall(r"to `([\w.]+)`:\n\n```\w+\n(.*?)^```", text, re.M | re.S):
        (scratch / name).write_text(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=20, help="numbers to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="pages whose name has this in it")
    parser.add_argument("--list", action="store_true", help="list places and numbers, run nothing")
    parser.add_argument("--long", action="store_true", help="also those of studies of hours")
    parser.add_argument("--limit", type=float, help="longest time of a command (s)")
    arguments = parser.parse_args()
    places = all_places(arguments.only, long=arguments.long)
    if arguments.list:
        for place in places:
            count = sum(len(row.numbers) for row in place.rows)
            print(
                f"{place.page.relative_to(ROOT)}:{place.rows[0].line}: "
                f"{count} numbers: {place.asked}"
            )
        return
    every = [
        (place, row, n) for place in places for row in place.rows for n in range(len(row.numbers))
    ]
    drawn = random.Random(arguments.seed).sample(every, min(arguments.count, len(every)))
    seed = arguments.seed
    print(f"{len(drawn)} of {len(every)} numbers beside {len(places)} commands, seed {seed}")
    failed = cut = 0
    for place in dict.fromkeys(place for place, _, _ in drawn):
        said, code, seconds = printed_by(place, arguments.limit)
        if not said:
            print(
                f"    took longer than the limit ({seconds:.0f} s): {place.asked}",
                flush=True,
            )
            cut += sum(at is place for at, _, _ in drawn)
            continue
        lines = [numbers_of(each) for each in said.splitlines()]
        for at, row, n in drawn:
            if at is not place:
                continue
            # A row that is put together by hand still has its numbers in the output.
            whole = any(in_order(row.numbers, each) for each in lines)
            alone = any(same(row.numbers[n], each) for line in lines for each in line)
            failed += not (whole or alone)
            found = "row" if whole else "number" if alone else "NOT FOUND"
            where = f"{place.page.relative_to(ROOT)}:{row.line}: {row.numbers[n]}"
            print(f"{where}: {found} ({seconds:.0f} s)", flush=True)
        print(f"    {place.asked}", flush=True)
        if code:
            print(f"    exit code {code}: {said.splitlines()[-1]}", flush=True)
    print(f"{len(drawn) - failed - cut} of {len(drawn)} came out, {cut} were not made again")
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
