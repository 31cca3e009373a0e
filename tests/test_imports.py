import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.source_tree import PACKAGE, circles, import_graph, imports, module_files

HEAVY = ("pandas", "matplotlib", "numpy", "evalys", "pooch", "polars")
"""Packages that take long to import and that help texts do not need."""

BASE = {
    "code_record",
    "compiled",
    "core",
    "data_problems",
    "dates",
    "errors",
    "file_set",
    "files",
    "garbage",
    "limits",
    "job_fields",
    "parameters",
    "tables",
    "timing",
    "arguments",
    "jobs",
    "lazy",
    "shipped",
    "signals",
    "version",
}
"""Modules at the top of the package, and the core, which every room may use."""

_BELOW_RUNNING = {
    *("platform", "workload", "protocol", "economics", "scheduling", "schedulers", "engine"),
    "analysis",
    "users",
}

MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "platform": set(),
    "workload": set(),
    "protocol": {"platform"},
    "economics": set(),
    "scheduling": {"platform", "protocol", "economics"},
    "schedulers": {"platform", "economics", "scheduling"},
    "engine": {
        "platform",
        "protocol",
        "workload.workload_model",
        "scheduling.capacity",
        "scheduling.port",
    },
    "analysis": {"platform", "workload", "economics"},
    "users": {"workload"},
    "running": _BELOW_RUNNING,
    "optimum": _BELOW_RUNNING | {"running"},
    "experiments": _BELOW_RUNNING | {"running", "optimum"},
    "adapters": _BELOW_RUNNING | {"running", "optimum", "experiments"},
    "advice": _BELOW_RUNNING | {"running", "experiments"},
    "live": _BELOW_RUNNING | {"running", "advice"},
    "forecast": _BELOW_RUNNING | {"running", "experiments", "advice"},
    "cli": _BELOW_RUNNING | {"running", "experiments", "advice", "forecast", "optimum", "live"},
}
"""Rooms of the package with what each may import beside itself and the base."""

MODULES = sorted(module_files().values())


def loaded_after(code: str) -> set[str]:
    """Return the heavy packages that a fresh interpreter has loaded after the code."""
    report = f"import json, sys\n{code}\nprint()\nprint(json.dumps(sorted(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True, timeout=240
    )
    return set(json.loads(result.stdout.splitlines()[-1])) & set(HEAVY)


@pytest.mark.parametrize(
    "code",
    [
        "import qops_batsim",
        "import qops_batsim.platform, qops_batsim.workload, qops_batsim.protocol.messages",
        "import qops_batsim.scheduling.registry as r\n"
        "[r.make_scheduler(name) for name in r.scheduler_names()]",
        "import qops_batsim.adapters.batsim_py\n"
        "from qops_batsim.adapters.pybatsim import scheduler_with\n"
        "scheduler_with(object)",
        "from qops_batsim.cli.main import command_line; command_line()",
    ],
    ids=["package", "rooms", "schedulers", "adapters", "command"],
)
def test_importing_loads_nothing_heavy(code: str) -> None:
    assert loaded_after(code) == set()


def test_no_help_text_loads_anything_heavy() -> None:
    code = """
import typer
from qops_batsim.cli.main import command_line, main

def walk(command, words):
    sys.argv = ["qops-batsim", *words, "--help"]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, (words, stop.code)
    for name, inner in getattr(command, "commands", {}).items():
        walk(inner, [*words, name])

walk(typer.main.get_command(command_line()), [])
"""
    assert loaded_after(code) == set()


def test_the_guard_sees_a_heavy_package() -> None:
    assert loaded_after("import numpy") == {"numpy"}


def forbidden(room: str, source: str) -> list[str]:
    """Return what a module of the room imports from our package but may not, for types too."""
    allowed = MAY_IMPORT.get(room, set()) | BASE | ({room} if room else set())
    found = []
    for line, name in imports(source):
        top, _, inner = name.partition(".")
        if top != "qops_batsim":
            continue
        if not any(inner == each or inner.startswith(f"{each}.") for each in allowed):
            found.append(f"line {line}: {name}")
    return found


def test_every_room_has_a_rule() -> None:
    rooms = {path.relative_to(PACKAGE).parts[0] for path in MODULES if path.parent != PACKAGE}
    assert rooms == set(MAY_IMPORT)
    assert {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"} <= BASE


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows_of_the_house_go_down(path: Path) -> None:
    parts = path.relative_to(PACKAGE).parts
    if parts in (("__init__.py",), ("__main__.py",)):
        return  # What is public, of every room, and the command.
    room = parts[0] if len(parts) > 1 else ""
    assert forbidden(room, path.read_text()) == []


def test_the_order_of_the_rooms_has_no_circle() -> None:
    done: set[str] = set()
    for room, below in MAY_IMPORT.items():
        assert {each.partition(".")[0] for each in below} <= done
        done.add(room)


def test_no_modules_import_each_other_in_a_circle() -> None:
    sources = {name: path.read_text() for name, path in module_files().items()}
    assert circles(import_graph(sources)) == []


def test_the_guard_sees_circles() -> None:
    sources = {
        "p": "from p.b import thing",
        "p.a": "from p import c\nimport p.d",
        "p.b": "def work():\n    from p.c import thing",
        "p.c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import Name",
        "p.d": "import json",
        "p.e": "import p.e",
    }
    assert circles(import_graph(sources)) == [["p.a", "p.c"], ["p.e"]]
    sources["p.c"] = "from p.b import thing"
    assert circles(import_graph(sources)) == [["p.b", "p.c"], ["p.e"]]


def test_the_guard_sees_forbidden_imports() -> None:
    source = """
from typing import TYPE_CHECKING
from qops_batsim.errors import InputError
from qops_batsim.scheduling.port import System
if TYPE_CHECKING:
    from qops_batsim.engine.simulation import Simulation

def work():
    import qops_batsim.engine.simulation
    from qops_batsim.workload import Workload
    from qops_batsim import simulate
"""
    assert forbidden("scheduling", source) == [
        "line 6: qops_batsim.engine.simulation.Simulation",
        "line 9: qops_batsim.engine.simulation",
        "line 10: qops_batsim.workload.Workload",
        "line 11: qops_batsim.simulate",
    ]
    assert forbidden("engine", "from qops_batsim.workload.workload_model import Workload") == []
    assert forbidden("engine", "from qops_batsim.workload.swf import SwfLog") != []


ROOMS = ("analysis", "economics", "experiments", "optimum", "platform", "scheduling", "workload")


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_of_a_room_can_be_had(room: str) -> None:
    found = importlib.import_module(f"qops_batsim.{room}")
    assert all(getattr(found, name) is not None for name in dir(found) if name[0] != "_")
