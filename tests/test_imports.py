import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.source_tree import PACKAGE, circles, import_graph, imports, module_files

HEAVY = ("pandas", "matplotlib", "numpy", "evalys", "pooch", "polars")
"""Packages that take long to import and that help texts do not need."""

ORDER = (
    *("core", "platform", "economics", "schedulers", "protocol", "workload", "slurm", "traces"),
    *("engine", "measures", "users", "running", "optimum", "experiments"),
    *("advice", "queue", "live", "adapters", "cli"),
)
"""Rooms of the package: each may import those before it, and the modules at the top."""

GROUND = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
"""Modules at the top of the package, which every room may use."""

FACES_OF_THE_CORE = {"jobs": "core.job", "compiled": "core"}
"""Modules at the top that offer what is compiled in the core, or say whether it is."""

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
        "import qops_batsim.protocol.port as r\n"
        "from qops_batsim.schedulers import scheduler_names\n"
        "[r.make_scheduler(name) for name in scheduler_names()]",
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


def forbidden(module: str, source: str) -> list[str]:
    """Return what a module imports from our package but may not, for types too."""
    room, _, inner = module.rpartition(".")
    room = module.partition(".")[0] if room else ""
    allowed = GROUND | {room} | set(ORDER[: ORDER.index(room)] if room else ())
    if not room and inner in FACES_OF_THE_CORE:
        allowed.add(FACES_OF_THE_CORE[inner])
    found = []
    for line, name in imports(source):
        top, _, imported = name.partition(".")
        if top != "qops_batsim":
            continue
        if not any(imported == one or imported.startswith(f"{one}.") for one in allowed):
            found.append(f"line {line}: {name}")
    return found


def test_every_room_has_its_place() -> None:
    rooms = {path.relative_to(PACKAGE).parts[0] for path in MODULES if path.parent != PACKAGE}
    assert rooms == set(ORDER)


def test_the_page_on_the_design_lists_the_rooms_in_this_order() -> None:
    page = (Path(__file__).parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (`[a-z`, ]+`) \|", page, flags=re.MULTILINE)
    rooms = [room for row in listed for room in re.findall("`([a-z]+)`", row) if room in ORDER]
    assert rooms == list(ORDER)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows_of_the_house_go_down(path: Path) -> None:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    if parts in (("__init__",), ("__main__",)):
        return  # What is public, of every room, and the command.
    assert forbidden(".".join(parts), path.read_text()) == []


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
from qops_batsim.core.job import Job
if TYPE_CHECKING:
    from qops_batsim.engine.simulation import Simulation

def work():
    import qops_batsim.engine.simulation
    from qops_batsim.workload import Workload
    from qops_batsim import simulate
"""
    assert forbidden("protocol.port", source) == [
        "line 6: qops_batsim.engine.simulation.Simulation",
        "line 9: qops_batsim.engine.simulation",
        "line 10: qops_batsim.workload.Workload",
        "line 11: qops_batsim.simulate",
    ]
    assert forbidden("engine.loop", "from qops_batsim.workload.swf import SwfLog") == []
    assert forbidden("engine.loop", "from qops_batsim.running.run import run") != []
    assert forbidden("tables", "from qops_batsim.core.job import Job") != []


FACES = tuple(
    room for room in ORDER if (PACKAGE / room / "__init__.py").read_text().count("lazy_names")
)


@pytest.mark.parametrize("room", FACES)
def test_every_name_of_a_room_can_be_had(room: str) -> None:
    found = importlib.import_module(f"qops_batsim.{room}")
    assert all(getattr(found, name) is not None for name in dir(found) if name[0] != "_")
