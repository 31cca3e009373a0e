"""Output of the commands: streams, tables, progress and errors."""

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
from threading import Lock, Timer
from typing import IO, Any

import typer

from qops_batsim.errors import QopsError, one_line, printable
from qops_batsim.schedulers.loading.plugins import frames_of_plugins

program = "qops-batsim"
"""Beginning of the command that is running."""

copies: dict[str, str] = {}
"""Names by which users know the files that this command has made of a journal, by prefix."""


def _as_named(text: str) -> str:
    """Replace names of temporary files in a text by the names that the user has given."""
    for prefix, name in copies.items():
        text = re.sub(rf"{re.escape(prefix)}(_[a-z_]+\.[a-z]+)?", name.replace("\\", r"\\"), text)
    return text


def print_error(message: str) -> None:
    """Print an error message to stderr, as one line that begins with ``qops-batsim: error:``."""
    typer.echo(f"qops-batsim: error: {one_line(_as_named(message))}", err=True)


def print_failure(error: BaseException) -> bool:
    """Print an error of the user's input or of a plug-in; return False for any other error.

    The lines of the plug-in's code that led to it come first. Any other error is a defect of
    ours.
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
    """Print a message to stderr, wrapped at the width of the terminal."""
    typer.echo(_folded(message, sys.stderr), err=True)


def warn(message: str) -> None:
    """Print a warning to stderr, unless ``message`` is empty."""
    if message:
        note(f"qops-batsim: warning: {one_line(message)}")


def say(text: str = "", indent: int = 0) -> None:
    """Print a text to stdout, wrapped; ``indent`` is the indentation of continuation lines.

    Control characters, as in names of jobs and files, are printed as escapes and have no
    effect.
    """
    typer.echo(_folded(text, sys.stdout, indent))


def print_answer(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print a title, an empty line, and rows as (label, text)."""
    say(title)
    say()
    for label, text in rows:
        for number, line in enumerate(text.splitlines()):
            say(f"{'' if number else label:<19}{line.strip()}", 19)


def _folded(text: str, stream: IO[str], indent: int = 0) -> str:
    """Wrap the lines of a text at the width of the terminal, or of the file, behind ``stream``."""
    width = max(columns_of_output(stream), 40)
    wrapper = textwrap.TextWrapper(width, subsequent_indent=" " * indent, break_on_hyphens=False)
    wrapper.break_long_words = False
    lines = map(printable, _as_named(text).split("\n"))
    # A percent sign stays with its number.
    return "\n".join(
        line if len(line) <= width else wrapper.fill(line.replace(" %", "\0%")).replace("\0", " ")
        for line in lines
    )


@contextmanager
def announce_slow(message: str) -> Iterator[None]:
    """Print a message if the block takes longer than a second."""
    timer = Timer(1.0, note, [message])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


SECONDS_APART = 15.0
"""Time between two lines of progress, where there is no terminal."""


@contextmanager
def progress_bar(
    total: int | None, title: str, quiet: bool = False, after: float = 0.3
) -> Iterator[Bar | None]:
    """Show a progress bar during the block, unless the block is short.

    The block gets a function that takes how many of ``total`` are done, and as second
    argument another total if it turns out to be one; or None. Without a total, the bar only
    says that something is going on. It appears after ``after`` seconds; where there is no
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
    """Progress bar on a terminal, or a line every :data:`SECONDS_APART` elsewhere."""

    def __init__(self, total: int | None, title: str) -> None:
        self._title = title
        self._text = title
        self._done = 0
        self._total = total
        self._progress: Any = None
        self._lock = Lock()
        self._closed = False
        self._told = time.monotonic()

    def __call__(self, done: int, total: int | None = None) -> None:
        """Set the number of steps done, and the total if a new one is given."""
        self._text = self._title
        self._done = done
        self._total = total or self._total
        self._update()

    def say(self, doing: str) -> None:
        """Show a text behind the title, until the next number of steps is set."""
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
        """Start to draw the bar; called by a timer's thread."""
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
        """Remove the bar from the terminal."""
        with self._lock:
            self._closed = True
            if self._progress is not None:
                self._progress.stop()


def command_line(*, anonymous: bool = False) -> str:
    """Return the running command as a user would type it; ``anonymous``: without accounts."""
    words = [*program.split(), *sys.argv[1:]]
    if anonymous:
        named = [before == "--account" for before in ("", *words)]
        words = ["..." if hide else word for word, hide in zip(words, named, strict=False)]
        words = [re.sub("(?<=^--account=).*", "...", word, flags=re.DOTALL) for word in words]
    return shlex.join(words)


def print_json(data: Any) -> None:
    """Print a value, which may contain msgspec structures, as indented JSON."""
    from msgspec import to_builtins

    typer.echo(json.dumps(to_builtins(data), indent=2, allow_nan=False))


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, keys: int = 1
) -> None:
    """Print a table, with right-aligned numbers, that fits the width of the terminal.

    In a narrow terminal, texts are folded at blanks; columns that still do not fit follow
    below, next to the first ``keys`` columns again. No cell is cut. Written to a pipe or a
    file, the table keeps its full width, unless COLUMNS is set.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    console = Console(width=columns_of_output(sys.stdout), highlight=False)
    cells = [[*map(printable, column)] for column in zip(columns, *rows, strict=True)]
    wide = sum(max(map(len, column)) + 3 for column in cells) - 3 > console.width

    # The columns, and the least width of each.
    described = []
    least = []
    for place, (head, *texts) in enumerate(cells):
        # A number stays in one piece, with its interval, and so does a short key.
        number = all(map(_NUMBER.match, texts))
        longest = max(map(len, [*texts, *head.split()]), default=1) or 1
        most = console.width // (2 * keys)
        whole = number or (place < keys and longest <= most)
        word = max(map(len, " ".join(cells[place]).split()), default=1)
        least.append(longest if whole else min(word, most))
        described.append(
            Column(
                Text(textwrap.fill(head, longest) if wide and whole else head),
                justify="right" if number else "left",
                no_wrap=whole,
                overflow="fold",
            )
        )

    def room(places: Sequence[int]) -> int:
        return sum(least[place] + 3 for place in places) - 3

    parts = [[*range(keys)]]
    for place in range(keys, len(cells)):
        if room([*parts[-1], place]) > console.width and len(parts[-1]) > keys:
            parts.append([*range(keys)])
        parts[-1].append(place)

    if title:
        typer.echo(typer.style(printable(title), bold=True))
    for places in parts:
        if places is not parts[0]:
            typer.echo()
        heads = [described[place].copy() for place in places]
        table = Table(*heads, box=box.MINIMAL, show_edge=False, pad_edge=False)
        for row in zip(*(cells[place][1:] for place in places), strict=True):
            table.add_row(*map(Text, row))

        console.width = max(console.width, room(places))
        with console.capture() as printed:
            console.print(table)
        typer.echo("\n".join(map(str.rstrip, printed.get().splitlines())))


_NUMBER = re.compile(r"$|-$|[-+]?(\d|inf|nan)")


def columns_of_output(stream: IO[str]) -> int:
    """Return how many characters fit on a line: the terminal's width, or 10,000 in a file."""
    limited = stream.isatty() or "COLUMNS" in os.environ
    return shutil.get_terminal_size().columns if limited else 10_000
