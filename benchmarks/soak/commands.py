"""Running a command of ``qops-batsim`` in this process, and judging how it ended."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer.main

from qops_batsim.cli import main as command_line
from qops_batsim.errors import QopsError

if TYPE_CHECKING:
    from harness import Tally

SECONDS = 5
"""Longest that a command may take on a damaged input."""

MEMORY = 1 << 30
"""Most memory that it may use (bytes)."""

LONGEST_MESSAGE = 2048

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

GROUPS = ("workload", "platform", "study")
"""Commands that have commands."""

# The same command again is there at once.
command_line.command_line = functools.cache(command_line.command_line)
typer.main.get_command = functools.cache(typer.main.get_command)


class Hang(BaseException):
    """A command takes too long; no Exception, so that nothing catches it."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int | None
    """None: by an exception."""
    output: str
    errors: str
    failure: str = ""
    """What went wrong in a way that nothing may, in few words."""


def call(
    arguments: Sequence[str],
    seconds: int = SECONDS,
    main: Callable[[], None] = command_line.main,
) -> Ended:
    """Run a command of the command line, or another that ``main`` runs."""
    output, errors = io.StringIO(), io.StringIO()
    before = sys.argv
    sys.argv = ["qops-batsim", *arguments]
    code: Any = None
    failure = ""
    _forget_peak()
    try:
        with (
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
            within(seconds),
        ):
            main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except Hang:
        failure = f"over {seconds} s"
        errors.write(traceback.format_exc())
    except Exception as error:  # noqa: BLE001
        failure = f"{type(error).__name__} in {place_of(error)}"
        errors.write(traceback.format_exc())
    finally:
        sys.argv = before
    if not failure and _peak() > MEMORY:
        failure = f"over {MEMORY >> 20} MiB"
    return Ended(code, output.getvalue(), errors.getvalue(), failure)


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raise a :class:`Hang` in the block after a time of computing (seconds); 0: never.

    Or after many more by the clock, for what waits for ever: the machine may be busy.
    """

    def stop(*_: object) -> None:
        raise Hang

    signal.signal(signal.SIGPROF, stop)
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(10 * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)


def place_of(error: BaseException) -> str:
    """Return the file of the package, and the function, in which an error came up."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "qops_batsim" in frame.filename] or frames
    return f"{Path(ours[-1].filename).name}: {ours[-1].name}"


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) << 10  # type: ignore[index]


def watched(
    do: Callable[[], object], about: str, tally: Tally, wrong: Callable[[str], str]
) -> None:
    """Do what may end well or in one error, soon and in little space.

    ``wrong`` returns what is wrong with the error's message, or nothing.
    """
    _forget_peak()
    failure = detail = ""
    try:
        with within(SECONDS):
            do()
    except Hang:
        failure, detail = f"over {SECONDS} s", traceback.format_exc()
    except QopsError as error:
        tally.count("refused")
        message = str(error)
        long = len(message) > LONGEST_MESSAGE
        trouble = f"a message of over {LONGEST_MESSAGE} letters" if long else wrong(message)
        failure, detail = f"{trouble}, by {place_of(error)}" if trouble else "", message[:3000]
    except Exception as error:  # noqa: BLE001
        failure, detail = f"{type(error).__name__} in {place_of(error)}", traceback.format_exc()
    if not failure and _peak() > MEMORY:
        failure = f"over {MEMORY >> 20} MiB"
    if failure:
        tally.fail(failure, f"{about}\n{detail}")


def read(reader: Callable[[], object], named: str, tally: Tally) -> None:
    """Call a function that reads a file; it may return, or refuse in a message that names it."""

    def wrong(message: str) -> str:
        return "" if named in message else "the message does not name the file"

    watched(reader, named, tally, wrong)


def files_in(folder: Path) -> dict[str, tuple[int, int]]:
    """Return what tells the files of a folder apart from changed ones, by name."""
    found = {}
    for home, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(home, name)
            state = os.lstat(path)
            found[os.path.relpath(path, folder)] = (state.st_ino, state.st_mtime_ns)
    return found


def _stems(arguments: Sequence[str]) -> list[str]:
    """Return inputs that a command line names, or a run that it names."""
    named = [each for each in arguments if each.endswith((".json", ".xml", ".swf", ".txt"))]
    return [*named, "d.json", "w.json", "c.json"] if arguments[0] == "charges" else named


def _without_log(errors: str) -> list[str]:
    """Return the lines of an error stream that are not of the engine's log."""
    return [line for line in errors.splitlines() if not line.startswith("[")]


def judge(
    arguments: Sequence[str], named: str, tally: Tally, allowed: Sequence[int] = (0, 2)
) -> Ended:
    """Run a command in the current folder; tell what of its end may not be."""
    before = files_in(Path.cwd())
    ended = call(arguments)
    tally.count("commands")
    shown = " ".join(arguments)[:300]
    words = arguments[: 2 if arguments[0] in GROUPS else 1]
    what = " ".join(words)
    detail = f"{shown}\nexit {ended.code}\n{ended.errors[-3000:]}"
    if ended.failure:
        tally.fail(ended.failure, detail)
        return ended
    tally.count(f"exit {ended.code}")
    if ended.code not in allowed:
        tally.fail(f"{what}: exit {ended.code}", detail + ended.output[-1000:])
    if CONTROLS.search(ended.output):
        tally.fail(f"{what}: output that controls the terminal", repr(ended.output[-2000:]))
    if ended.code != 2:
        return ended
    lines = [line for line in ended.errors.splitlines() if line.startswith("qops-batsim: error: ")]
    if len(lines) != 1 or not ended.errors.endswith(lines[0] + "\n"):
        tally.fail(f"{what}: not one line of error", detail)
    elif sum(map(len, _without_log(ended.errors))) > LONGEST_MESSAGE:
        tally.fail(f"{what}: a message of over {LONGEST_MESSAGE} letters", detail)
    elif not any(name in lines[0] for name in (named, *_stems(arguments))):
        tally.fail(f"{what}: the message does not name the file", detail)
    if not ended.errors.replace("\n", "").isprintable():
        tally.fail(f"{what}: a message that controls the terminal", repr(detail))
    if files_in(Path.cwd()) != before and "what ended before" not in ended.errors:
        after = files_in(Path.cwd())
        changed = sorted(name for name in after if before.get(name) != after[name])
        tally.fail(f"{what}: exit 2, yet files written", f"{detail}\n{changed}")
    return ended
