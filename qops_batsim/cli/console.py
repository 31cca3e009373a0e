"""What every command prints with: one place for streams, tables and errors."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from threading import Lock, Timer
from typing import IO, Any

import typer

from qops_batsim.errors import InputError, QopsError, one_line, printable
from qops_batsim.files import check_writable
from qops_batsim.scheduling.plugins import frames_of_plugins


def print_error(message: str) -> None:
    """Print one error line to the standard error stream, whatever the message holds."""
    typer.echo(f"qops-batsim: error: {one_line(message)}", err=True)


def print_failure(error: BaseException) -> bool:
    """Print what a user or a plug-in did wrong as one error line; tell whether it is such an error.

    The frames of the plug-in's own code come first. Any other error is a defect of ours.
    """
    frames = frames_of_plugins(error)
    if not (frames or isinstance(error, QopsError)):
        return False
    for line in "".join(frames).splitlines():
        typer.echo(printable(line), err=True)
    kind = "" if isinstance(error, QopsError) else f"{type(error).__name__}: "
    print_error(f"{kind}{error}")
    return True


def note(message: str) -> None:
    """Tell the user something beside the result (standard error stream)."""
    typer.echo(_folded(message, sys.stderr), err=True)


def warn(message: str) -> None:
    """Tell the user what is probably not meant so, whatever is quiet."""
    note(f"qops-batsim: warning: {one_line(message)}")


def say(text: str = "", indent: int = 0) -> None:
    """Print a part of the result, later lines of what has to be folded so far to the right.

    What jobs and files are called is shown, not obeyed.
    """
    typer.echo(_folded(text, sys.stdout, indent))


def print_answer(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print an answer in words: a title, an empty line, and a line or more for each label."""
    say(title)
    say()
    for label, text in rows:
        for number, line in enumerate(text.splitlines()):
            say(f"{'' if number else label:<19}{line.strip()}", 19)


def _folded(text: str, stream: IO[str], indent: int = 0) -> str:
    """Return a text whose lines are folded at blanks where they are longer than the terminal's."""
    width = max(columns_of_output(stream), 40)
    wrapper = textwrap.TextWrapper(width, subsequent_indent=" " * indent, break_on_hyphens=False)
    wrapper.break_long_words = False
    lines = map(printable, text.split("\n"))
    # A percent sign stays with its number.
    return "\n".join(
        line if len(line) <= width else wrapper.fill(line.replace(" %", "\0%")).replace("\0", " ")
        for line in lines
    )


COMPILING = "compiling the scheduling kernels for this machine (once; later runs reuse them) ..."


@contextmanager
def announce_compiling(quiet: bool = False) -> Iterator[None]:
    """Print a note when a kernel has to be compiled in the block."""
    from qops_batsim.kernels import listening

    heard: list[str] = []

    def hear(kernel: str) -> None:
        if not (heard or quiet):
            note(COMPILING)
        heard.append(kernel)

    with listening(hear):
        yield


@contextmanager
def announce_slow(message: str, after: float = 1.0) -> Iterator[None]:
    """Print the message once the block has taken longer than ``after`` seconds."""
    timer = Timer(after, note, [message])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


SECONDS_APART = 15.0
"""Time between two lines that tell how far something has got, where there is no terminal."""


@contextmanager
def progress_bar(
    total: int | None, title: str, quiet: bool = False, after: float = 0.3
) -> Iterator[Bar | None]:
    """Show a bar while things get done, but not for what is done at once.

    The block gets a function that takes how many of ``total`` are done, and as second
    argument another total if it turns out to be one; or None. Without a total, the bar only
    says that something is going on. It appears ``after`` so many seconds; where there is no
    terminal, a line is printed now and then.
    """
    if quiet or (total is None and not sys.stderr.isatty()):
        yield None
        return
    bar = Bar(total, title)
    if not sys.stderr.isatty():
        yield bar
        return
    timer = Timer(after, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar
    finally:
        timer.cancel()
        bar.close()


class Bar:
    """A bar on the terminal, once it is shown; until then, lines, :data:`SECONDS_APART`."""

    def __init__(self, total: int | None, title: str) -> None:
        self._title = self._text = title
        self._done, self._total = 0, total
        self._progress: Any = None
        self._lock = Lock()
        self._closed = False
        self._told = time.monotonic()

    def __call__(self, done: int, total: int | None = None) -> None:
        """Show that so many are done."""
        self._text, self._done, self._total = self._title, done, total or self._total
        self._update()

    def say(self, doing: str) -> None:
        """Show what is done at the moment, behind the title, until more is done."""
        self._text = f"{self._title}: {doing}"
        self._update()

    def _update(self) -> None:
        if self._progress is not None:
            state = {"description": self._text, "completed": self._done, "total": self._total}
            self._progress.update(self._task, **state)
        elif time.monotonic() > self._told + SECONDS_APART:
            self._told = time.monotonic()
            note(f"{self._text}: {self._done:,} of {self._total:,}")

    def show(self) -> None:
        """Show the bar from now on; called by another thread."""
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        columns = [TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()]
        if self._total is not None:
            columns.insert(2, MofNCompleteColumn())
        with self._lock:
            if not self._closed:
                progress = Progress(*columns, console=Console(stderr=True), transient=True)
                self._task = progress.add_task(self._title, total=self._total)
                self._progress = progress
                self._update()
                progress.start()

    def close(self) -> None:
        """Take the bar away."""
        with self._lock:
            self._closed = True
            if self._progress is not None:
                self._progress.stop()


def command_line() -> str:
    """Return the command that is running, as it could be typed again."""
    return shlex.join(["qops-batsim", *sys.argv[1:]])


def make_directory(path: Path, option: str) -> None:
    """Make the directory that an option names, before the work of hours and not after it."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{option} {path}: is a file; the name of a directory is expected")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{option} {path}: cannot be made ({error.strerror or error})") from None
    check_writable(path / "report")


def print_json(data: Any) -> None:
    """Print a value as indented JSON."""
    typer.echo(json.dumps(data, indent=2, allow_nan=False))


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, keys: int = 1
) -> None:
    """Print a table; columns of numbers are right-aligned.

    What is wider than the terminal is folded: texts at blanks, then columns that do not fit
    follow below, beside the first so many ``keys`` again. No cell is cut. Written to a pipe or a
    file, the table keeps its full width, unless COLUMNS is set.
    """
    cells = [[*map(printable, row)] for row in (columns, *rows)]
    numbers = [all(map(_NUMBER.match, column[1:])) for column in zip(*cells, strict=True)]
    width = columns_of_output(sys.stdout)
    if title:
        typer.echo(typer.style(printable(title), bold=True))
    for number, part in enumerate(_parts(cells, numbers, keys, width)):
        if number:
            typer.echo()
        for place, row in enumerate(cells):
            folded = [_lines(row[column], room) for column, room in part.items()]
            for line in zip_longest(*folded, fillvalue=""):
                sides = [
                    text.rjust(room) if numbers[column] else text.ljust(room)
                    for text, (column, room) in zip(line, part.items(), strict=True)
                ]
                typer.echo(" │ ".join(sides).rstrip())
            if not place:
                typer.echo("─┼─".join("─" * room for room in part.values()))


_NUMBER = re.compile(r"$|-$|[-+]?(\d|inf|nan)")


def columns_of_output(stream: IO[str]) -> int:
    """Return how many columns a stream has: those of the terminal, or no end of them in a file."""
    limited = stream.isatty() or "COLUMNS" in os.environ
    return shutil.get_terminal_size().columns if limited else 10_000


_PIECE = 32
"""Longer pieces of cells are folded at any character."""


def _lines(text: str, room: int) -> list[str]:
    """Return a cell's text in lines."""
    if len(text) <= room:
        return [text]
    return textwrap.wrap(text, room, break_on_hyphens=False)


def _parts(
    cells: Sequence[Sequence[str]], numbers: Sequence[bool], keys: int, width: int
) -> Iterator[dict[int, int]]:
    """Yield the columns that fit beside each other with their widths, the keys in each."""
    least, most = [], []
    for place, (head, *texts) in enumerate(zip(*cells, strict=True)):
        # A number stays in one piece, with its interval, and so does a short key.
        whole = numbers[place] or place < keys
        pieces = texts if whole else " ".join(texts).split()
        longest = width // (2 * keys) if place < keys else _PIECE
        least.append(min(max(map(len, [*head.split(), *pieces]), default=1), longest) or 1)
        most.append(max(map(len, [head, *texts])))
    first = [*range(keys)]
    part, used = first, sum(least[:keys]) + 3 * keys
    for place in range(keys, len(least)):
        if used + least[place] > width and len(part) > keys:
            yield _shared(part, least, most, width)
            part, used = first, sum(least[:keys]) + 3 * keys
        part = [*part, place]
        used += least[place] + 3
    yield _shared(part, least, most, width)


def _shared(
    part: Sequence[int], least: Sequence[int], most: Sequence[int], width: int
) -> dict[int, int]:
    """Return the widths of columns; what is left over goes to those that want the least of it."""
    widths = {place: least[place] for place in part}
    rest = width - 3 * (len(part) - 1) - sum(widths.values())
    for left, place in enumerate(sorted(part, key=lambda each: most[each] - least[each])):
        more = max(0, min(most[place] - least[place], rest // (len(part) - left)))
        widths[place] += more
        rest -= more
    return widths
