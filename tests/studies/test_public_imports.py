"""Studies use public names only: those of ``qops_batsim``, and of its rooms' ``__all__``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from support.source_tree import PACKAGE, imports

STUDIES = PACKAGE.parent / "studies"
FILES = {path.relative_to(STUDIES).as_posix(): path for path in sorted(STUDIES.rglob("*.py"))}

CORE = "emptied by the compiled core: internals of schedulers, engine and protocol"
_PASCAL = ("jobs.REJECTED", "engine.records.JobRecord", "timing.PLAN_TOLERANCE")
_PASCAL += tuple(f"scheduling.registry.{each}" for each in ("read_options", "scheduler_class"))
_PASCAL += ("scheduling.aroma.application.Application", "scheduling.aroma.scheduler.Aroma")
_TALBY = tuple(f"protocol.decisions.{each}" for each in ("CallMeLater", "Decision", "ExecuteJob"))
_TALBY += tuple(f"protocol.events.{each}" for each in ("JobCompleted", "Notify"))
_TALBY += ("scheduling.module.System", "timing.PLAN_TOLERANCE")
_OPTIONS = "scheduling.aroma.scheduler.AromaOptions"

EXCEPTIONS: dict[tuple[str, str], str] = {
    **{("pascal2004/runs.py", f"qops_batsim.{name}"): CORE for name in (*_PASCAL, _OPTIONS)},
    ("pascal2004/study.py", f"qops_batsim.{_OPTIONS}"): CORE,
    **{("talby1999/runs.py", f"qops_batsim.{name}"): CORE for name in _TALBY},
}
"""Names that are not public, by the file that imports them, each with the reason."""

NOT_YET = {
    *(
        "deadlines",
        "foresight",
        "how_good",
        "inaccurate_estimates",
        "priced_queues",
        "random_jobs.py",
    ),
    *("restarts", "shared.py", "slurm_deadline", "threshold_policy"),
}
"""Studies whose imports are still to be looked at; everything that they need becomes public."""

pytestmark = pytest.mark.skipif(not FILES, reason="no studies beside the package")


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
    later = {each for each in found if each[0].partition("/")[0] in NOT_YET}
    assert {file.partition("/")[0] for file, _ in later} == NOT_YET
    found -= later
    assert sorted(found - set(EXCEPTIONS)) == []
    assert sorted(set(EXCEPTIONS) - found) == [], "no longer an exception"


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
