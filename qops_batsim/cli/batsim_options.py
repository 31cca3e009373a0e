"""Batsim 4's command line, read the way Batsim reads it (docopt's rules)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NoReturn

from qops_batsim.errors import InputError, did_you_mean, require_utf8, shown


def _named(text: str) -> dict[str, str]:
    """Return the short name of each long option, empty where none follows it."""
    return dict(re.findall(r"(--[\w-]+)(?:\s+(-\w))?", text))


VALUES = _named(
    """
    --platform -p  --workload -w  --export -e  --socket-endpoint -s  --master-host -m  --events
    --sched-cfg  --sched-cfg-file  --mmax  --verbosity -v  --redis-hostname  --redis-port
    --redis-prefix  --timeout  --max-message-bytes
    """
)
"""Options with a value, with their short names. The last two are ours, not Batsim's."""

SWITCHES = _named(
    """
    --energy -E  --enable-compute-sharing  --disable-storage-sharing  --enable-dynamic-jobs
    --acknowledge-dynamic-jobs  --enable-profile-reuse  --forward-profiles-on-submission
    --mmax-workload  --enable-redis  --disable-schedule-tracing  --disable-machine-state-tracing
    --forward-unknown-events  --no-message-delays  --no-sched  --dump-execution-context
    --quiet -q  --help -h  --version
    """
)
"""Options without a value, with their short names; ``--no-message-delays`` is ours."""

REPEATABLE = ("--workload", "--events")
"""Options that may be given several times."""

REFUSED = _named(
    """
    --workflow -W  --workflow-start  --WS  --add-role-to-hosts -r  --workflow-jobs-limit
    --ignore-beyond-last-workflow  --sg-cfg  --sg-log  --simgrid-version
    """
)
"""Batsim's options that the embedded engine has not."""

VERBOSITIES = ("quiet", "network-only", "information", "debug")

_LONG_OF_SHORT = {
    short: name for table in (VALUES, SWITCHES, REFUSED) for name, short in table.items() if short
}


class BatsimOptions:
    """A command line that was read, by the options' long names."""

    def __init__(self) -> None:
        self.values: dict[str, list[str]] = {}
        self.switches: set[str] = set()

    def value(self, name: str, default: str) -> str:
        """Return the value of an option that is given at most once."""
        return self.values.get(name, [default])[0]

    def whole_number(self, name: str, default: int, least: int = 0) -> int:
        """Return the value of such an option as a whole number."""
        text = self.value(name, str(default))
        if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= least):
            raise InputError(f"{name} is {shown(text)}; a whole number from {least} up is expected")
        return int(text)

    def seconds(self, name: str) -> float | None:
        """Return the value of such an option as a duration above 0 (seconds), None if not given."""
        if name not in self.values:
            return None
        text = self.value(name, "")
        try:
            seconds = float(text)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < float("inf"):
            raise InputError(f"{name} is {shown(text)}; a number of seconds above 0 is expected")
        return seconds


def parse_batsim_options(arguments: Sequence[str]) -> BatsimOptions:
    """Read a command line of Batsim 4.

    Long options may be shortened as long as they are unambiguous, their values
    follow after ``=`` or a space, short options may be written together
    (``-Eq``, ``-vquiet``). ``--help`` and ``--version`` end the reading.
    """
    require_utf8(arguments)
    options = BatsimOptions()
    rest = iter(arguments)
    for argument in rest:
        if argument.startswith("--") and argument != "--":
            _read_long(argument, rest, options)
        elif argument.startswith("-") and argument not in ("-", "--"):
            _read_short(argument, rest, options)
        else:
            raise InputError(f"unexpected argument {shown(argument)}; only options are expected")
        if options.switches & {"--help", "--version"}:
            return options
    for name, values in options.values.items():
        if len(values) > 1 and name not in REPEATABLE:
            raise InputError(f"option {name} is given {len(values)} times; once is expected")
    if "--sched-cfg" in options.values and "--sched-cfg-file" in options.values:
        raise InputError("--sched-cfg and --sched-cfg-file are given; one of them is expected")
    return options


def _read_long(argument: str, rest: Iterator[str], options: BatsimOptions) -> None:
    written, equals, value = argument.partition("=")
    name = _full_name(written)
    if name in REFUSED:
        _refuse(name)
    if name in VALUES:
        options.values.setdefault(name, []).append(value if equals else _next(rest, name))
    elif equals:
        raise InputError(f"option {name} is given the value {shown(value)}; it takes none")
    else:
        options.switches.add(name)


def _full_name(written: str) -> str:
    known = [*VALUES, *SWITCHES, *REFUSED]
    if written in known:
        return written
    matches = [name for name in known if name.startswith(written)]
    if len(matches) > 1:
        raise InputError(f"option {shown(written)} is ambiguous ({', '.join(matches)})")
    if not matches:
        hint = did_you_mean(written, [*VALUES, *SWITCHES])
        raise InputError(f"unknown option {shown(written)}{hint}")
    return matches[0]


def _read_short(argument: str, rest: Iterator[str], options: BatsimOptions) -> None:
    for index, letter in enumerate(argument[1:], start=1):
        short = f"-{letter}"
        if short not in _LONG_OF_SHORT:
            hint = did_you_mean(short, [*VALUES, *SWITCHES])
            raise InputError(f"unknown option {shown(short)}{hint}")
        name = _LONG_OF_SHORT[short]
        if name in REFUSED:
            _refuse(name)
        if name in VALUES:
            value = argument[index + 1 :] or _next(rest, name)
            options.values.setdefault(name, []).append(value)
            return
        options.switches.add(name)


def _next(rest: Iterator[str], name: str) -> str:
    value = next(rest, None)
    if value is None or value == "--":
        raise InputError(f"option {name} needs a value")
    return value


def _refuse(name: str) -> NoReturn:
    raise InputError(f"Batsim's option {name} is not supported by the embedded engine")
