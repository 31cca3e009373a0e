"""Odd values of every option and argument of every command.

A command may accept a value or refuse it in one line, and leaves nothing behind when it does.
"""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from commands import GROUPS, judge
from mutated_files import larder
from mutations import LETTERS, NUMBERS

from qops_batsim.cli import main as command_line
from qops_batsim.protocol.port import make_scheduler

if TYPE_CHECKING:
    from harness import Tally

COMMANDS: Sequence[Sequence[str]] = [
    *(["run", name, "-w", "d.json", "-p", "v.xml", "-o", "o", "-q"] for name in ("easy", "slack")),
    *(["run", name, "-w", "w.json", "-p", "v.xml", "-o", "o"] for name in ("fqops", "nqs")),
    ["run", "aroma", "-w", "c.json", "-p", "v.xml", "-o", "o", "--json"],
    ["schedulers", "qops"],
    *(["metrics", "fqops"], ["verify", "qops"], ["diff", "easy", "qops"]),
    *(["plot", kind, "easy", "-o", "o.svg"] for kind in ("utilization", "gantt")),
    ["plot", "occupation", "easy", "-o", "o.svg"],
    *(["charges", "fqops"], ["explain", "fqops", "3"]),
    ["quote", "qops@10", "2x20"],
    [
        *("compare", "easy", "-w", "d.json", "--first", "9", "--estimates", "exact"),
        *("--loads", "1", "--seeds", "1", "--out", "o"),
    ],
    ["serve", "easy", "--socket", "ipc://s", "--timeout", "0.02", "--out", "o"],
    ["engine", "-p", "v.xml", "-w", "w.json", "-s", "ipc://s", "--timeout", "0.02", "-e", "o"],
    ["workload", "import", "log.swf"],
    ["workload", "import", "log.swf", "o.json"],
    ["workload", "generate", "o.json", "--jobs", "20"],
    ["workload", "scale", "d.json", "o.json", "--load", "1.2"],
    ["workload", "deadlines", "d.json", "o.json"],
    ["workload", "classes", "d.json", "o.json"],
    ["workload", "generate", "o.json", "--preset", "mixed", "--jobs", "5"],
    ["platform", "cluster", "o.xml", "--hosts", "4"],
    *(["platform", "show", "n.xml"], ["platform", "show"]),
    ["engine", "--install", "o"],
]
"""Commands that end well, but for some without a partner; ``workload fetch`` would download."""

LEFT_ALONE = {"--help", "--timeout", "--loop", "--workers", "--seeds", "--traces", "--engine"}
"""Options whose odd values ask for much work, for a wait, or for what is not here."""

ENGINE = [
    *("--mmax", "--sched-cfg", "--sched-cfg-file", "--master-host", "--events", "--verbosity"),
    *("--max-message-bytes", "--platform", "--workload", "--export", "--socket-endpoint", "-E"),
    *("--mmax-workload", "--enable-dynamic-jobs", "--enable-compute-sharing", "--no-such"),
]

VALUES = [
    *(each for each in (*NUMBERS, *LETTERS) if "/" not in each and "\0" not in each),
    *("\udcff", "a\udc80b", "v.xml", "w.json", "log.swf", "easy", "easy_jobs.csv", "missing", "."),
    *("easy.x=1", "x=", "=", "grace=1e400", "grace=NaN", "a=b=c", "1:2:0", "1:2:1e-9", "1,1,1"),
    *("2000-01-01", "1996-13", "1996-10-05T99:00", "1e3d", "5h", "-5h", "1e300d"),
]
"""Odd values; without a slash, so that nothing is written elsewhere."""
VALUES.remove("10000000")  # That many are allowed of anything, and take long.


ENDS = {
    **dict.fromkeys(("compare", "diff", "verify", "workload"), (0, 1, 2)),
    "serve": (2, 3),
}
"""Exit codes that are documented, where these are not only 0 and 2."""


def prepare() -> None:
    """Make the files."""
    larder()


@functools.cache
def parameters(words: tuple[str, ...]) -> list[Any]:
    """Return the parameters of a command."""
    found: Any = typer.main.get_command(command_line.command_line())
    for word in words:
        found = found.commands[word]
    return [each for each in found.params if not LEFT_ALONE & set(each.opts)]


def case(seed: int, folder: Path, tally: Tally) -> None:
    """Give odd values to a command."""
    rng = random.Random(seed)
    for path in larder().iterdir():
        if path.is_file():
            os.link(path, folder / path.name)
    os.chdir(folder)
    command = list(rng.choice(COMMANDS))
    words = tuple(command[: 2 if command[0] in GROUPS else 1])
    for _ in range(rng.choice([1, 1, 2])):
        if rng.random() < 0.15:
            place = rng.randrange(len(words), len(command)) if len(command) > len(words) else None
            if place is not None and command[place - 1] not in LEFT_ALONE:
                command[place] = _value(rng)
        elif words[0] == "run" and rng.random() < 0.6:
            command += ["--set", f"{rng.choice(_options(command[1]))}={_value(rng)}"]
        elif words == ("engine",):
            command += [rng.choice(ENGINE), _value(rng)][: rng.choice([1, 2, 2])]
        else:
            command += _option(rng.choice(parameters(words) or [None]), rng)
    tally.count("command lines")
    judge(command, "", tally, ENDS.get(words[0], (0, 2)))
    os.chdir("/")


def _value(rng: random.Random) -> str:
    return rng.choice(VALUES)


def _options(scheduler: str) -> list[str]:
    try:
        return list(make_scheduler(scheduler).options.__struct_fields__) or ["none"]
    except Exception:  # noqa: BLE001
        return ["grace"]  # The name of the scheduler is odd itself.


def _option(parameter: Any, rng: random.Random) -> list[str]:
    if parameter is None:
        return [_value(rng)]
    values = [_value(rng) for _ in range(max(parameter.nargs, 1))]
    choices = (parameter.metavar or "").split("|")
    if len(choices) > 1 and rng.random() < 0.7:
        values = [rng.choice(choices)]
    if not parameter.opts[0].startswith("-"):
        return values
    if parameter.is_bool_flag:
        return [rng.choice([*parameter.opts, *parameter.secondary_opts])]
    return [rng.choice(parameter.opts), *values]
