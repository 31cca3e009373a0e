"""``qops-batsim engine``: the embedded engine as Batsim.

Tools start it the way they start Batsim, and many times: nothing slow is
imported, not even Typer unless there is an error to print.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from getopt import GetoptError, getopt
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from qops_batsim.errors import (
    InputError,
    QopsError,
    did_you_mean,
    printable,
    require_one_of,
    require_utf8,
    shown,
)
from qops_batsim.garbage import no_garbage_collection_at_exit
from qops_batsim.signals import EXIT_CODES, EndingSignal, ending_signals_raise
from qops_batsim.version import __version__

if TYPE_CHECKING:
    from qops_batsim.engine.engine_options import EngineOptions
    from qops_batsim.engine.simulation import Simulation
    from qops_batsim.file_set import FileSet
    from qops_batsim.platform.platform_model import Platform
    from qops_batsim.protocol.redis_descriptions import RedisDescriptions
    from qops_batsim.workload.workload_model import Workload

ENDPOINT = "tcp://localhost:28000"
"""Endpoint at which Batsim looks for a decision process by default."""

VERSION = f"v4.2.1 (its options and protocol; the embedded engine of qops-batsim {__version__})"
"""Answer to ``--version``, which begins as Batsim's own, for tools that look at it."""

HELP = """\
Simulate as Batsim 4 does, with the embedded engine and any decision process.

With --as 5 in front, as Batsim 5 does: `qops-batsim engine --as 5 --help` lists its options.

Usage:
  qops-batsim engine -p <platform_file> [-w <workload_file>...] [--events <events_file>...]
                     [--sched-cfg <cfg_str> | --sched-cfg-file <cfg_file>] [options]
  qops-batsim engine [--as 4|5] --install <file>

The second form writes an executable that runs the engine, for tools that look batsim up on PATH.

Input:
  -p, --platform <file>              SimGrid platform (XML).
  -w, --workload <file>              Batsim workload (JSON); repeatable.
  --events <file>                    External events, one JSON object a line; repeatable.
  --forward-unknown-events           Let events have other types than Batsim's.
  -m, --master-host <name>           Host that runs no jobs [default: master_host].
  --mmax <nb>                        Use only the first <nb> hosts; 0 for all [default: 0].
  --mmax-workload                    Use only as many hosts as the workloads are for (nb_res).

Decision process:
  -s, --socket-endpoint <endpoint>   Where the process listens [default: tcp://localhost:28000].
  --sched-cfg <text>                 Configuration passed on to the process.
  --sched-cfg-file <file>            File with the configuration passed on to the process.
  --forward-profiles-on-submission   Tell each job's profile when it is submitted.
  --enable-dynamic-jobs              Let the process register jobs and profiles.
  --acknowledge-dynamic-jobs         Announce registered jobs as submitted.
  --enable-profile-reuse             Passed on to the process; all profiles are kept anyway.
  --enable-redis                     Describe jobs through a Redis server, not in messages;
                                     needs the extra qops-batsim[redis].
  --redis-hostname <name>            Host of the Redis server [default: 127.0.0.1].
  --redis-port <nb>                  Port of the Redis server [default: 6379].
  --redis-prefix <text>              First part of the keys used [default: default].
  --timeout <seconds>                Longest wait for an answer of the process (not in Batsim).
  --max-message-bytes <nb>           Longest answer accepted (not in Batsim) [default: 268435456].
  --all-digits                       Send numbers with all their digits, not with six decimals as
                                     Batsim does (not in Batsim).

Machine:
  --enable-compute-sharing           Several jobs may run on one host.
  --disable-storage-sharing          Told to the decision process.
  --no-message-delays                Batsim's own messages take no time, also on platforms with
                                     latencies (not in Batsim).
  --no-sched                         Without a decision process: all jobs start at once, each on
                                     the first hosts; files count none of them, as Batsim's.
  -E, --energy                       Integrate the energy that hosts consume.

Output:
  -e, --export <prefix>              Prefix of the files written [default: out].
  --disable-schedule-tracing         Accepted: the engine writes no Paje trace in any case.
  --disable-machine-state-tracing    Do not write <prefix>_machine_states.csv.
  -v, --verbosity <level>            quiet, network-only, information or debug: all but the
                                     first show each message [default: information].
  -q, --quiet                        The same as --verbosity quiet.
  --dump-execution-context           Print the endpoint, the prefix and what is known of Redis
                                     (JSON), and simulate nothing.
  --version                          Print the version of Batsim that this resembles.
  -h, --help                         Print this.

Batsim's other options are refused by name. Exit codes: 0 when the simulation has ended,
2 on any error, also a decision that breaks the protocol or a decision process that stops
deciding.

Examples:
  qops-batsim engine -p platform.xml -w workload.json -e out/run
  qops-batsim engine -p platform.xml -w workload.json -s tcp://localhost:28001 --mmax 32 -q
"""


class _Redis(TypedDict):
    hostname: str
    port: int
    prefix: str


_IN_HELP = re.findall(r"^  (?:(-\w), )?(--[\w-]+)( <\w+>)?", HELP, re.MULTILINE)

VALUES: dict[str, str] = {name: short for short, name, value in _IN_HELP if value}
"""Options with a value, with their short names, empty where there is none."""

SWITCHES: dict[str, str] = {name: short for short, name, value in _IN_HELP if not value}
"""Options without a value, with their short names."""

REPEATABLE = ("--workload", "--events")
"""Options that may be given several times."""

REFUSED = {"--workflow": "-W", "--add-role-to-hosts": "-r"} | dict.fromkeys(
    (
        *("--workflow-start", "--WS", "--workflow-jobs-limit", "--ignore-beyond-last-workflow"),
        *("--sg-cfg", "--sg-log", "--simgrid-version"),
    ),
    "",
)
"""Batsim's options that the embedded engine has not."""

VERBOSITIES = ("quiet", "network-only", "information", "debug")

_LONG_OF_SHORT = {
    short: name for table in (VALUES, SWITCHES, REFUSED) for name, short in table.items() if short
}


def main() -> None:
    """Run the embedded engine as a program of its own; print any error as one line, exit code 2."""
    no_garbage_collection_at_exit()
    try:
        require_utf8(sys.argv[1:])
        with ending_signals_raise():
            code = run_engine(sys.argv[1:])
    except (QopsError, OSError, KeyboardInterrupt, EndingSignal) as error:
        from qops_batsim.cli.console import print_error

        code = 130 if isinstance(error, KeyboardInterrupt) else 2
        if isinstance(error, EndingSignal):
            code = error.code
        print_error(EXIT_CODES.get(code, str(error)))
    sys.exit(code)


def run_engine(arguments: Sequence[str]) -> int:
    """Run the embedded engine with Batsim's command-line arguments; return the exit code."""
    release, rest = _release(arguments)
    if rest and rest[0] == "--install":
        from qops_batsim.cli.engine_install import install

        if len(rest) != 2:
            raise InputError(
                "--install: the name of one file to write, and nothing else, is expected"
            )
        install(Path(rest[1]), release)
        return 0

    if release == "5":
        from qops_batsim.cli.engine5 import run_engine5

        return run_engine5(rest)

    options = parse_batsim_options(rest)
    if "--help" in options.switches:
        sys.stdout.write(HELP)
        return 0
    if "--version" in options.switches:
        sys.stdout.write(f"{VERSION}\n")
        return 0
    if "--dump-execution-context" in options.switches:
        sys.stdout.write(f"{_execution_context(options)}\n")
        return 0

    verbosity = _verbosity(options)
    platform, workloads = _read_inputs(options)
    from qops_batsim.engine.simulation import Deadlock
    from qops_batsim.file_set import DEADLOCK, run_files

    with run_files(options.value("--export", "out")) as files:
        try:
            simulation = _simulate(platform, workloads, options, verbosity)
        except Deadlock as error:
            # Batsim writes it to the files of a run, and its exit code is 0, as if all were well.
            with run_files(f"{files.prefix}{DEADLOCK}") as partial:
                _write(error.simulation, partial, options, verbosity)
            raise
        _write(simulation, files, options, verbosity)
    return 0


def _release(arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Split arguments into the version of Batsim to imitate (``--as``, else 4) and the rest."""
    name, equals, release = "".join(arguments[:1]).partition("=")
    if name != "--as":
        return "4", arguments
    rest = arguments[1:]
    if not equals:
        release = "".join(rest[:1])
        rest = rest[1:]
    require_one_of("--as", release, ("4", "5"))
    return release, rest


def _execution_context(options: BatsimOptions) -> str:
    context = {
        "socket_endpoint": options.value("--socket-endpoint", ENDPOINT),
        "redis_enabled": "--enable-redis" in options.switches,
        **{f"redis_{name}": value for name, value in _redis(options).items()},
        "export_prefix": options.value("--export", "out"),
        "external_scheduler": "--no-sched" not in options.switches,
    }
    return json.dumps(context, separators=(",", ":"))


def _redis(options: BatsimOptions) -> _Redis:
    return {
        "hostname": options.value("--redis-hostname", "127.0.0.1"),
        "port": options.whole_number("--redis-port", 6379, least=1),
        "prefix": options.value("--redis-prefix", "default"),
    }


def _verbosity(options: BatsimOptions) -> str:
    given = options.value("--verbosity", "information")
    require_one_of("--verbosity", given, VERBOSITIES)
    return "quiet" if "--quiet" in options.switches else given


def _read_inputs(options: BatsimOptions) -> tuple[Platform, list[Workload]]:
    from qops_batsim.cli.engine_inputs import read_inputs
    from qops_batsim.workload.batsim_json import read_workload_file

    if "--platform" not in options.values:
        raise InputError("option --platform is missing; -p <platform_file> is expected")
    return read_inputs(
        options.value("--platform", ""),
        options.values.get("--workload", []),
        options.value("--master-host", "master_host"),
        read_workload_file,
        master_option="--master-host" if "--master-host" in options.values else None,
    )


def _engine_options(options: BatsimOptions, workloads: Sequence[Workload]) -> EngineOptions:
    from qops_batsim.cli.engine_inputs import hosts_to_use
    from qops_batsim.engine.engine_options import EngineOptions, read_external_events
    from qops_batsim.files import read_text

    switches = options.switches
    if "--enable-profile-reuse" in switches and "--enable-dynamic-jobs" not in switches:
        raise InputError(
            "--enable-profile-reuse is given without --enable-dynamic-jobs, which it needs; both "
            "are expected"
        )

    sched_config = options.value("--sched-cfg", "")
    if "--sched-cfg-file" in options.values:
        file = options.value("--sched-cfg-file", "")
        sched_config = read_text(file, what="a configuration of the scheduler")
    forward_unknown = "--forward-unknown-events" in switches
    files = options.values.get("--events", [])
    lists = [read_external_events(file, forward_unknown=forward_unknown) for file in files]
    events = sorted((event for listed in lists for event in listed), key=lambda e: e.timestamp)

    mmax = options.whole_number("--mmax", 0)
    return EngineOptions(
        hosts=hosts_to_use(mmax, workloads if "--mmax-workload" in switches else ()),
        compute_sharing="--enable-compute-sharing" in switches,
        storage_sharing="--disable-storage-sharing" not in switches,
        dynamic_jobs="--enable-dynamic-jobs" in switches,
        acknowledge_dynamic_jobs="--acknowledge-dynamic-jobs" in switches,
        profile_reuse="--enable-profile-reuse" in switches,
        forward_profiles="--forward-profiles-on-submission" in switches,
        sched_config=sched_config,
        energy="--energy" in switches,
        external_events=tuple(events) if lists else None,
        forward_unknown_events=forward_unknown and bool(lists),
        message_delays="--no-message-delays" not in switches,
    )


def _simulate(
    platform: Platform, workloads: Sequence[Workload], options: BatsimOptions, verbosity: str
) -> Simulation:
    from qops_batsim.engine.simulation import Simulation
    from qops_batsim.limits import MAX_MESSAGE_BYTES
    from qops_batsim.protocol.zeromq import RemoteDecisionSide

    engine_options = _engine_options(options, workloads)
    if "--no-sched" in options.switches:
        return _simulate_unscheduled(platform, workloads, engine_options, verbosity)

    with RemoteDecisionSide(
        options.value("--socket-endpoint", ENDPOINT),
        timeout=options.seconds("--timeout"),
        max_message_bytes=options.whole_number("--max-message-bytes", MAX_MESSAGE_BYTES, least=1),
        on_message=None if verbosity == "quiet" else _trace,
        descriptions=_descriptions(options),
        all_digits="--all-digits" in options.switches,
    ) as peer:
        simulation = Simulation(platform, workloads, peer, engine_options)
        if verbosity in ("information", "debug"):
            jobs = sum(len(workload.jobs) for workload in workloads)
            _say(f"{jobs:,} jobs on {len(simulation.hosts)} hosts, decided at {peer.endpoint}")
        simulation.run()
    return simulation


def _simulate_unscheduled(
    platform: Platform, workloads: Sequence[Workload], options: EngineOptions, verbosity: str
) -> Simulation:
    from qops_batsim.engine.simulation import simulation_without_scheduler

    if options.external_events is not None:
        raise InputError(
            "--no-sched is given with --events, but without a decision process nobody can be told "
            "of events; leave one of the two options out"
        )

    simulation = simulation_without_scheduler(platform, workloads, options)
    simulation.run()
    if verbosity in ("information", "debug"):
        for record in simulation.ended:
            _say(f"[{record.finish:.6f}] job {printable(record.job.id)}: {record.state}")
    return simulation


def _descriptions(options: BatsimOptions) -> RedisDescriptions | None:
    if "--enable-redis" not in options.switches:
        return None
    from qops_batsim.protocol.redis_descriptions import RedisDescriptions

    return RedisDescriptions(**_redis(options))


def _write(simulation: Simulation, files: FileSet, options: BatsimOptions, verbosity: str) -> None:
    from qops_batsim.cli.engine_inputs import say_end
    from qops_batsim.engine.outputs import add_outputs

    states = "--disable-machine-state-tracing" not in options.switches
    add_outputs(files, simulation, machine_states=states)
    paths = files.publish_alone()
    if verbosity in ("information", "debug"):
        say_end(simulation, paths)


def _trace(now: float, action: str, text: bytes) -> None:
    shown_text = printable(text.decode(errors="backslashreplace"))
    _say(f"[{now:.6f}] [network/INFO] {action} '{shown_text}'")


def _say(line: str) -> None:
    """Print a line to stderr, as Batsim does: some tools that start Batsim never read stdout."""
    sys.stderr.write(f"{line}\n")


class BatsimOptions:
    """Parsed command line of Batsim 4: values and switches by their long option names."""

    def __init__(self) -> None:
        self.values: dict[str, list[str]] = {}
        self.switches: set[str] = set()

    def value(self, name: str, default: str) -> str:
        """Return the value of an option by its long name, or the default if it is not given."""
        return self.values.get(name, [default])[0]

    def whole_number(self, name: str, default: int, least: int = 0) -> int:
        """Return an option's value as a whole number; InputError if it is below ``least``."""
        text = self.value(name, str(default))
        if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= least):
            raise InputError(f"{name} is {shown(text)}; a whole number from {least} up is expected")
        return int(text)

    def seconds(self, name: str) -> float | None:
        """Return an option's value as a duration above 0 (seconds), None if it is not given."""
        if name not in self.values:
            return None
        text = self.value(name, "")
        with suppress(ValueError):
            if 0 < float(text) < math.inf:
                return float(text)
        raise InputError(f"{name} is {shown(text)}; a number of seconds above 0 is expected")


def parse_batsim_options(arguments: Sequence[str]) -> BatsimOptions:
    """Parse a command line of Batsim 4.

    Long options may be shortened as long as they are unambiguous, their values
    follow after ``=`` or a space, short options may be written together
    (``-Eq``, ``-vquiet``). ``--help`` and ``--version`` end the reading.
    """
    # As getopt writes them: a value is expected where ":" or "=" follows.
    short = "".join(flag[1:] + ":" * (name in VALUES) for flag, name in _LONG_OF_SHORT.items())
    long = [name[2:] + "=" * (name in VALUES) for name in (*VALUES, *SWITCHES, *REFUSED)]
    try:
        given, rest = getopt(list(arguments), short, long)
    except GetoptError as error:
        written = f"-{error.opt}" if len(error.opt) == 1 else f"--{error.opt}"
        _refuse(written)
        raise InputError(f"{error.msg}{did_you_mean(written, [*VALUES, *SWITCHES])}") from None

    options = BatsimOptions()
    for written, value in given:
        name = _refuse(written)
        if name in VALUES:
            options.values.setdefault(name, []).append(value)
        else:
            options.switches.add(name)
        if name in ("--help", "--version"):
            return options

    if rest:
        raise InputError(f"unexpected argument {shown(rest[0])}; only options are expected")
    for name, values in options.values.items():
        if len(values) > 1 and name not in REPEATABLE:
            raise InputError(f"option {name} is given {len(values)} times; once is expected")
    if "--sched-cfg" in options.values and "--sched-cfg-file" in options.values:
        raise InputError("--sched-cfg and --sched-cfg-file are given; one of them is expected")
    return options


def _refuse(written: str) -> str:
    """Return the long name of an option; InputError if the embedded engine lacks the option."""
    name = _LONG_OF_SHORT.get(written, written)
    if name in REFUSED:
        raise InputError(f"Batsim's option {name} is not supported by the embedded engine")
    return name


if __name__ == "__main__":
    main()
