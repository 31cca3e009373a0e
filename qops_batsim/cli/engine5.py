"""``qops-batsim engine --as 5``: the embedded engine as Batsim 5."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from qops_batsim.errors import InputError, shown

if TYPE_CHECKING:
    from qops_batsim.engine.engine_options import EngineOptions, ExternalEvent
    from qops_batsim.engine.simulation import Simulation
    from qops_batsim.platform.platform_model import Platform
    from qops_batsim.protocol.v5.components import DecisionComponent
    from qops_batsim.protocol.v5.engine_side import EngineSide
    from qops_batsim.workload.workload_model import Workload

BATSIM5_VERSION = "5.0.0-rc2"
"""Version of Batsim whose options, protocol and files these are."""

REFUSED = ("--energy-link", "-E", "--energy", "-c", "--config", "--gen-config", "--sg-cfg")
"""Options of Batsim 5 that the embedded engine has not, or that Batsim 5 itself refuses."""

DESCRIPTION = """\
Simulate as Batsim 5 does, with the embedded engine and a decision process at a socket, or a
decision component in a library that speaks JSON."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see qops-batsim engine --as 5 --help")


_OPTIONS = """\
-p, --platform FILE: SimGrid platform (XML)
-w, --workload FILE: workload (JSON); repeatable
--external-events, --ee FILE: external events, one JSON object a line; repeatable
-e, --export PREFIX: prefix of the files written
--trace-machine-state: write PREFIXmachine_states.csv
--trace-pstate-changes: write PREFIXpstate_changes.csv
-s, --edc-socket-str ENDPOINT INIT: decision process
-S, --edc-socket-file ENDPOINT FILE: the same
-l, --edc-library-str LIBRARY INIT: decision component: a library with Batsim's C interface that \
asks for JSON
-L, --edc-library-file LIBRARY FILE: the same
-m, --master-host NAME: host without jobs
--mmax N: use only the first N hosts
--mmax-workload: use as many hosts as workloads are for
--energy-host: integrate the energy of hosts
-v, --verbosity {quiet,info,debug}: all but quiet say the end
-q, --quiet: the same as -v quiet
--timeout SECONDS: longest wait (not in Batsim)
"""
"""Options with their values and what they mean; those with two values are repeatable."""

_SETTINGS: dict[str, dict[str, Any]] = {
    "--platform": {"required": True},
    "--export": {"default": "out/"},
    "--master-host": {"default": "master_host"},
    "--mmax": {"type": int, "default": 0},
    "--verbosity": {"choices": ("quiet", "info", "debug"), "default": "info"},
    "--timeout": {"type": float},
}
"""What argparse has to know besides."""


def _parser() -> _Parser:
    parser = _Parser(prog="qops-batsim engine --as 5", description=DESCRIPTION, allow_abbrev=False)
    for entry in _OPTIONS.splitlines():
        head, about = entry.split(": ", 1)
        names = re.findall(r"--?[\w-]+", head)
        values = head.split(names[-1])[1].split()
        settings: dict[str, Any] = {"metavar": values[0]} if values else {"action": "store_true"}
        if len(values) == 2:
            settings = {"metavar": tuple(values), "nargs": 2}
        if len(values) == 2 or about.endswith("repeatable"):
            settings |= {"action": "append", "default": []}
        settings |= _SETTINGS.get(names[-1], {})
        parser.add_argument(*names, help=about, **settings)
    return parser


def run_engine5(arguments: Sequence[str]) -> int:
    """Run the embedded engine with Batsim 5's command-line arguments; return the exit code."""
    if "--version" in arguments or "--batsim-version" in arguments:
        sys.stdout.write(f"{BATSIM5_VERSION} (its options and protocol; an engine of its own)\n")
        return 0
    try:
        given = arguments5(arguments)
    except SystemExit:
        return 0  # --help
    simulate5(given, ["batsim", *arguments])
    return 0


def arguments5(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse command-line arguments of Batsim 5; SystemExit after printing the help."""
    for option in arguments:
        if option.partition("=")[0] in REFUSED:
            raise InputError(f"Batsim's option {option} is not supported by the embedded engine")
    return _parser().parse_args(arguments)


def simulate5(
    given: argparse.Namespace,
    arguments: Sequence[str],
    component: Callable[[EngineSide], DecisionComponent] | None = None,
) -> Simulation:
    """Simulate as Batsim 5 by its parsed options, write the files, and return the simulation.

    ``component`` makes the decision component; the default is the one that the options name.
    """
    from qops_batsim.cli.engine_inputs import say_end
    from qops_batsim.engine.host_states import machine_in_use
    from qops_batsim.engine.outputs import BATSIM5_FILES, add_batsim5_outputs
    from qops_batsim.engine.shared_hosts import check_hosts_asked
    from qops_batsim.engine.simulation import Simulation
    from qops_batsim.file_set import FileSet

    platform, workloads = read_inputs5(given)
    optional = {
        "machine_states.csv": given.trace_machine_state,
        "pstate_changes.csv": given.trace_pstate_changes,
        "consumed_energy.csv": given.energy_host,
    }
    with FileSet(given.export, "run.json", BATSIM5_FILES) as files:
        options = engine_options5(given, workloads)
        for workload in workloads:
            # Before it waits for anybody.
            in_use = machine_in_use(platform, options.hosts)
            check_hosts_asked(workload.source, workload.columns, in_use, platform.source)
        side = engine_side5(given, platform, options, arguments)
        with (component or partial(_component, given))(side) as peer:
            simulation = Simulation(platform, workloads, peer, peer.begin(options))
            simulation.run()
        add_batsim5_outputs(files, simulation, filter(optional.get, optional))
        paths = files.publish_alone()

    if given.verbosity != "quiet" and not given.quiet:
        say_end(simulation, paths)
    return simulation


def read_inputs5(given: argparse.Namespace) -> tuple[Platform, list[Workload]]:
    """Read the platform and workloads named by Batsim 5's options; hosts in Batsim 5's order."""
    from qops_batsim.cli.engine_inputs import read_inputs

    platform, workloads = read_inputs(
        given.platform, given.workload, given.master_host, read_workload5, master_option="-m"
    )
    return platform.numbered_by_value(), workloads


def read_workload5(path: str | Path) -> Workload:
    """Read a workload; InputError for a workload that would make Batsim 5 abort."""
    from qops_batsim.files import read_stored
    from qops_batsim.workload.batsim5 import aborts_of_batsim5, check_types
    from qops_batsim.workload.batsim_json import workload_in

    source = str(path)
    stored = read_stored(path, what="a Batsim workload (JSON)")
    workload = workload_in(stored, source)
    check_types(stored.content, source)
    for description, names in aborts_of_batsim5(workload).values():
        if names:
            raise InputError(f"{source}: {description}: {shown(names[0])}")
    return workload


def engine_options5(given: argparse.Namespace, workloads: Sequence[Workload]) -> EngineOptions:
    """Translate Batsim 5's parsed options to the options of the embedded engine."""
    from qops_batsim.cli.engine_inputs import hosts_to_use
    from qops_batsim.engine.engine_options import BATSIM_5, EngineOptions

    if given.mmax < 0:
        raise InputError(f"--mmax is {given.mmax}; a whole number from 0 up is expected")
    lists = [read_events5(file, f"ee{n}") for n, file in enumerate(given.external_events)]
    return EngineOptions(
        hosts=hosts_to_use(given.mmax, workloads if given.mmax_workload else ()),
        compute_sharing=True,
        energy=given.energy_host,
        external_events=tuple(event for events in lists for event in events) if lists else None,
        forward_unknown_events=True,
        rules=BATSIM_5,
    )


def read_events5(path: str, name: str) -> tuple[ExternalEvent, ...]:
    """Read a file of Batsim 5's external events, sorted by date; ids begin with ``name``."""
    from qops_batsim.engine.engine_options import events_in_order, listed_events

    events = []
    for number, event in enumerate(listed_events(path, forward_unknown=True)[0]):
        data = event.fields.get("data", "")
        if event.type != "generic" or not isinstance(data, str):
            raise InputError(
                f"{path}: event {number}: type is {shown(event.type)} and data is "
                f"{shown(event.fields.get('data'))}; 'generic' and a text are expected"
            )
        fields = {"type": "generic", "id": f"{name}!{number}", "data": data}
        events.append(msgspec.structs.replace(event, fields=fields))
    return events_in_order(events)


def engine_side5(
    given: argparse.Namespace,
    platform: Platform,
    options: EngineOptions,
    arguments: Sequence[str],
) -> EngineSide:
    """Make the engine's end of the protocol with the decision component, by parsed options."""
    from qops_batsim.engine.host_states import limited_hosts
    from qops_batsim.files import read_text
    from qops_batsim.protocol.v5.engine_side import EngineSide

    strings = [*given.edc_socket_str, *given.edc_library_str]
    files = [*given.edc_socket_file, *given.edc_library_file]
    if len(strings) + len(files) != 1:
        raise InputError(
            f"{len(strings) + len(files)} decision components are given; one of -s, -S, -l and -L "
            "is expected"
        )

    ((place, text),) = strings or files
    if files:
        text = read_text(text, what="what the decision component is handed over")
    context = {"socket_endpoint": place, "export_prefix": given.export}
    return EngineSide(
        text,
        limited_hosts(platform, options.hosts),
        platform.storage_hosts,
        version=BATSIM5_VERSION,
        arguments=arguments,
        context=json.dumps(context, separators=(",", ":")),
        event_lists=[*map(os.path.abspath, given.external_events)],
    )


def _component(given: argparse.Namespace, side: EngineSide) -> DecisionComponent:
    from qops_batsim.protocol.v5.components import LibraryComponent, SocketComponent

    sockets = [*given.edc_socket_str, *given.edc_socket_file]
    if sockets:
        return SocketComponent(sockets[0][0], side, timeout=given.timeout)
    libraries = [*given.edc_library_str, *given.edc_library_file]
    return LibraryComponent(libraries[0][0], side)
