"""Studies use public names only: those of ``qops_batsim``, and of its rooms' ``__all__``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from support.source_tree import PACKAGE, imports

STUDIES = Path(__file__).resolve().parents[2] / "studies"
FILES = {path.relative_to(STUDIES).as_posix(): path for path in sorted(STUDIES.rglob("*.py"))}

CORE = "emptied by the compiled core: internals of schedulers, engine and protocol"
SEARCH = "a model of its own, of the parts of the search for the best schedule"
MODEL = "the generator's own model, which it fits"

INTERNALS: dict[str, dict[str, dict[str, str]]] = {
    CORE: {
        "how_good/feasibility.py": {
            "schedulers.qops": "Qops QopsOptions",
            "timing": "DEADLINE_TOLERANCE GRID",
        },
        "how_good/orders.py": {
            "schedulers.registry": "scheduler_class",
            "timing": "PLAN_TOLERANCE",
        },
        "late_news/__main__.py": {
            "engine.simulation": "Simulation",
            "running.simulate": "default_engine",
            "shipped": "find_input",
        },
        "pascal2004/runs.py": {
            "engine.records": "JobRecord",
            "jobs": "REJECTED",
            "schedulers.aroma.application": "Application",
            "schedulers.aroma.aroma_scheduler": "Aroma AromaOptions",
            "protocol.port": "make_scheduler",
            "schedulers.registry": "read_options scheduler_class",
            "timing": "PLAN_TOLERANCE",
        },
        "pascal2004/study.py": {"schedulers.aroma.aroma_scheduler": "AromaOptions"},
        "shared_nodes/machine_views.py": {
            "core.job": "Job",
            "core.machine": "Machine",
            "core.node_profile": "NodeProfile",
            "core.node_request": "HostPart NodeLayout NodeRequest",
            "core.node_use": "NodeUse",
            "job_fields": "AskedPart HostsAsked",
            "schedulers.qops": "Qops QopsOptions",
            "timing": "GRID_TOLERANCE end_of up_to_grid",
        },
        "talby1999/choices.py": {
            "engine.records": "JobRecord",
            "jobs": "COMPLETED_KILLED",
            "timing": "PLAN_TOLERANCE",
        },
        "talby1999/runs.py": {
            "protocol.decisions": "CallMeLater Decision ExecuteJob",
            "protocol.events": "JobCompleted",
            "timing": "PLAN_TOLERANCE",
        },
    },
    SEARCH: {
        "how_good/best.py": {"optimum.problem": "NOT_CHOSEN OBJECTIVES problem_of worth_of"},
        "how_good/feasibility.py": {
            "optimum.problem": "NOT_CHOSEN Booleans Ints Problem Tasks",
            "optimum.search": "Subproblem annealed filled",
            "optimum.solver": "Budget solve violated_intervals",
        },
    },
    MODEL: {
        "presets/__main__.py": {
            "workload.lublin": (
                "BUCKETS_A_DAY FIRST_BUCKET SECONDS_A_DAY ArrivalModel LublinModel RunTimeModel "
                "SizeModel gamma_table random_stream sample_sizes_and_run_times sample_submissions"
            ),
        },
        "presets/node_mix.py": {
            "core.node_request": "NodeLayout",
            "job_fields": "AskedPart HostsAsked",
            "workload.node_mix": "MIB NODE_MIXES sample_node_mix",
        },
    },
}
"""Names that are not public, by reason, file and module."""

EXCEPTIONS = {
    (file, ".".join(filter(None, (PACKAGE.name, module, name))))
    for files in INTERNALS.values()
    for file, modules in files.items()
    for module, names in modules.items()
    for name in names.split()
}


def private(source: str) -> set[str]:
    """Return the names of ours that a source imports and that are not public."""
    found = set()
    for _, name in imports(source):
        package, _, own = name.rpartition(".")
        if name.partition(".")[0] == PACKAGE.name and not (
            package.count(".") < 2 and own in getattr(import_module(package or own), "__all__", ())
        ):
            found.add(name)
    return found


def test_studies_import_public_names_only() -> None:
    found = {(file, name) for file, path in FILES.items() for name in private(path.read_text())}
    assert sorted(found - EXCEPTIONS) == []
    assert sorted(EXCEPTIONS - found) == [], "no longer an exception"


def test_what_is_not_public_is_seen() -> None:
    assert private("from qops_batsim import run, Easy\nimport numpy") == set()
    assert private("from qops_batsim.workload import convert_log") == set()
    for name in ("workload.load.scale_load", "workload.no_such", "no_such", "errors.InputError"):
        module, _, own = f"qops_batsim.{name}".rpartition(".")
        assert private(f"from {module} import {own}") == {f"qops_batsim.{name}"}
    assert private("import qops_batsim.jobs") == {"qops_batsim.jobs"}


@pytest.mark.parametrize("room", sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py")))
def test_public_names_of_rooms_are_there_and_described(room: str) -> None:
    package = import_module(f"{PACKAGE.name}.{room}")
    for name in getattr(package, "__all__", ()):
        found = getattr(package, name)
        assert name in dir(package)
        # A module of that name would take its place once it is imported.
        assert not (Path(package.__path__[0]) / f"{name}.py").exists(), name
        if callable(found) and hasattr(found, "__module__"):
            assert found.__doc__, name
