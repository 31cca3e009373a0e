"""``qops-batsim engine --as 5``: the embedded engine as Batsim 5."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from qops_batsim.errors import InputError, require_utf8, shown

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


def _parser() -> _Parser:
    parser = _Parser(prog="qops-batsim engine --as 5", description=DESCRIPTION, allow_abbrev=False)

    def add(*names: str, about: str, **settings: Any) -> None:
        parser.add_argument(*names, help=about, **settings)

    many: dict[str, Any] = {"action": "append", "default": []}
    add("-p", "--platform", required=True, metavar="FILE", about="SimGrid platform (XML)")
    add("-w", "--workload", metavar="FILE", about="workload (JSON); repeatable", **many)
    events = "external events, one JSON object a line; repeatable"
    add("--external-events", "--ee", metavar="FILE", about=events, **many)
    add("-e", "--export", default="out/", metavar="PREFIX", about="prefix of the files written")
    add("--trace-machine-state", action="store_true", about="write PREFIXmachine_states.csv")
    add("--trace-pstate-changes", action="store_true", about="write PREFIXpstate_changes.csv")
    two: dict[str, Any] = {"nargs": 2, "action": "append", "default": []}
    add("-s", "--edc-socket-str", metavar=("ENDPOINT", "INIT"), about="decision process", **two)
    add("-S", "--edc-socket-file", metavar=("ENDPOINT", "FILE"), about="the same", **two)
    library = "decision component: a library with Batsim's C interface that asks for JSON"
    add("-l", "--edc-library-str", metavar=("LIBRARY", "INIT"), about=library, **two)
    add("-L", "--edc-library-file", metavar=("LIBRARY", "FILE"), about="the same", **two)
    add("-m", "--master-host", default="master_host", metavar="NAME", about="host without jobs")
    add("--mmax", type=int, default=0, metavar="N", about="use only the first N hosts")
    add("--mmax-workload", action="store_true", about="use as many hosts as workloads are for")
    add("--energy-host", action="store_true", about="integrate the energy of hosts")
    levels = ("quiet", "info", "debug")
    add("-v", "--verbosity", choices=levels, default="info", about="all but quiet say the end")
    add("-q", "--quiet", action="store_true", about="the same as -v quiet")
    add("--timeout", type=float, metavar="SECONDS", about="longest wait (not in Batsim)")
    return parser


def run_engine5(arguments: Sequence[str]) -> int:
    """Run the embedded engine with Batsim 5's command-line arguments; return the exit code."""
    require_utf8(arguments)
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
    for each in arguments:
        if each.partition("=")[0] in REFUSED:
            raise InputError(f"Batsim's option {each} is not supported by the embedded engine")
    return _parser().parse_args(arguments)


def simulate5(
    given: argparse.Namespace,
    arguments: Sequence[str],
    component: Callable[[EngineSide], DecisionComponent] | None = None,
) -> Simulation:
    """Simulate as Batsim 5 by its parsed options, write the files, and return the simulation.

    ``component`` makes the decision component; the default is the one that the options name.
    """
    from qops_batsim.engine.outputs import BATSIM5_FILES, add_batsim5_outputs
    from qops_batsim.engine.simulation import Simulation
    from qops_batsim.file_set import FileSet

    platform, workloads = read_inputs5(given)
    wanted = ["machine_states.csv"] if given.trace_machine_state else []
    wanted += ["pstate_changes.csv"] if given.trace_pstate_changes else []
    wanted += ["consumed_energy.csv"] if given.energy_host else []
    with FileSet(given.export, "run.json", BATSIM5_FILES) as files:
        options = engine_options5(given, workloads)
        side = engine_side5(given, platform, options, arguments)
        with (component or partial(_component, given))(side) as peer:
            simulation = Simulation(platform, workloads, peer, peer.begin(options))
            simulation.run()
        add_batsim5_outputs(files, simulation, wanted)
        paths = files.publish_alone()
    if given.verbosity != "quiet" and not given.quiet:
        count = len(simulation.ended)
        sys.stderr.write(f"simulated {count:,} jobs until {simulation.now:.6f} s\n")
        sys.stderr.write(f"wrote {', '.join(map(str, paths))}\n")
    return simulation


def read_inputs5(given: argparse.Namespace) -> tuple[Platform, list[Workload]]:
    """Read the platform and workloads named by Batsim 5's options; hosts in Batsim 5's order."""
    from qops_batsim.cli.engine_inputs import read_inputs

    files = given.platform, given.workload
    platform, workloads = read_inputs(*files, given.master_host, read_workload5, master_option="-m")
    return platform.numbered_by_value(), workloads


def read_workload5(path: str | Path) -> Workload:
    """Read a workload; InputError for a workload that would make Batsim 5 abort."""
    from qops_batsim.files import read_stored
    from qops_batsim.workload.batsim5 import aborts_of_batsim5, check_types
    from qops_batsim.workload.batsim_json import workload_in

    stored, source = read_stored(path, what="a Batsim workload (JSON)"), str(path)
    workload = workload_in(stored, source)
    check_types(stored.content, source)
    for description, names in aborts_of_batsim5(workload).values():
        if names:
            raise InputError(f"{source}: {description}: {shown(names[0])}")
    return workload


def engine_options5(given: argparse.Namespace, workloads: Sequence[Workload]) -> EngineOptions:
    """Translate Batsim 5's parsed options to the options of the embedded engine."""
    from qops_batsim.engine.engine_options import BATSIM_5, EngineOptions

    if given.mmax < 0:
        raise InputError(f"--mmax is {given.mmax}; a whole number from 0 up is expected")
    widest = max((each.processors for each in workloads), default=0)
    limits = (given.mmax, widest if given.mmax_workload else 0)
    events = [read_events5(file, f"ee{n}") for n, file in enumerate(given.external_events)]
    return EngineOptions(
        hosts=min(filter(None, limits), default=None),
        compute_sharing=True,
        energy=given.energy_host,
        external_events=tuple(e for each in events for e in each) if events else None,
        forward_unknown_events=True,
        rules=BATSIM_5,
    )


def read_events5(path: str, name: str) -> tuple[ExternalEvent, ...]:
    """Read a file of Batsim 5's external events, sorted by date; ids begin with ``name``."""
    from qops_batsim.engine.engine_options import events_in_order, listed_events

    found = []
    for number, event in enumerate(listed_events(path, forward_unknown=True)[0]):
        data = event.fields.get("data", "")
        if event.type != "generic" or not isinstance(data, str):
            raise InputError(
                f"{path}: event {number}: type is {shown(event.type)} and data is "
                f"{shown(event.fields.get('data'))}; 'generic' and a text are expected"
            )
        fields = {"type": "generic", "id": f"{name}!{number}", "data": data}
        found.append(msgspec.structs.replace(event, fields=fields))
    return events_in_order(found)


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
    (place, text), *_ = strings or files
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
        event_lists=[os.path.abspath(each) for each in given.external_events],
    )


def _component(given: argparse.Namespace, side: EngineSide) -> DecisionComponent:
    from qops_batsim.protocol.v5.components import LibraryComponent, SocketComponent

    sockets = [*given.edc_socket_str, *given.edc_socket_file]
    if sockets:
        return SocketComponent(sockets[0][0], side, timeout=given.timeout)
    libraries = [*given.edc_library_str, *given.edc_library_file]
    return LibraryComponent(libraries[0][0], side)
