"""Which modules are compiled, and whether the compiled ones run.

A compiled module is an ordinary ``.py`` file with a ``.pxd`` next to it, which declares C types for
Cython. Python imports the result of compiling it where there is one, else the ``.py`` file, which
does the same, only slower.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

COMPILED = (
    "measures/results/message_drift",
    "measures/results/occupancy",
    "core/capacity",
    "core/decision_lines",
    "core/fixed_reservations",
    "core/host_bits",
    "core/job",
    "core/job_sorting",
    "core/node_profile",
    "core/node_request",
    "core/node_use",
    "core/plan_hosts",
    "core/plan_log",
    "core/plan",
    "core/profile",
    "core/scheduler",
    "engine/embedded_manager",
    "engine/last_cover",
    "engine/loop",
    "engine/sharing_manager",
    "engine/wait_heap",
    "optimum/moves",
    "row_writer",
    "schedulers/aroma/application",
    "schedulers/aroma/mapping",
    "schedulers/aroma/recurrence",
    "schedulers/conservative",
    "schedulers/deadline",
    "schedulers/easy",
    "schedulers/fcfs",
    "schedulers/fqops",
    "schedulers/job_orders",
    "schedulers/mrt",
    "schedulers/msb",
    "schedulers/nqs",
    "schedulers/planning",
    "schedulers/priced_queues",
    "schedulers/qops",
    "schedulers/queue_scheduler",
    "schedulers/restarting",
    "schedulers/shared_hosts",
    "schedulers/slack",
    "schedulers/slurm/fair_share",
    "schedulers/slurm/slurm_scheduler",
    "schedulers/timetable",
    "timing",
    "users/reacting",
    "workload/job_columns",
    "workload/job_scanner",
)
"""Paths of the compiled modules in the package, without ending."""

PURE = "QOPS_BATSIM_PURE"
"""Variable of the environment: with 1, nothing is compiled at installation, or used compiled."""

_PACKAGE = Path(__file__).parent
_FIX = "python setup.py build_ext --inplace (with setuptools>=77 and cython>=3.2 installed)"


def is_compiled() -> bool:
    """Return whether the compiled modules of the package are the ones that run.

    >>> is_compiled() in (True, False)
    True
    """
    from qops_batsim.core import job

    return not str(job.__file__).endswith(".py")


def warning() -> str:
    """Return a warning if the package runs uncompiled without :data:`PURE`, else ""."""
    is_intended = os.environ.get(PURE) == "1" or _is_checkout()
    if is_intended or _date_of(_PACKAGE / f"{COMPILED[0]}{EXTENSION_SUFFIXES[0]}"):
        return ""
    return f"it is installed uncompiled, and slower; pip install -v tells why ({PURE}=1: as wished)"


class UncompiledFinder:
    """Import finder (``sys.meta_path``) that loads compiled modules from their sources."""

    @classmethod
    def find_spec(cls, name: str, *_: object) -> ModuleSpec | None:
        """Return the spec of a compiled module's source, None for any other module."""
        path = name.removeprefix(f"{__package__}.").replace(".", "/")
        if path not in COMPILED:
            return None
        return spec_from_file_location(name, _PACKAGE / f"{path}.py")


def use_compiled() -> None:
    """Import the compiled modules, or their sources if the variable :data:`PURE` is 1.

    In a checkout, ImportError if some are older than their sources, or missing where others are
    there: they would do what the source did once.
    """
    if os.environ.get(PURE) == "1":
        sys.meta_path.insert(0, UncompiledFinder)
        return
    if not _is_checkout():
        return
    made = {path: _date_of(_PACKAGE / f"{path}{EXTENSION_SUFFIXES[0]}") for path in COMPILED}
    if not any(made.values()):
        return

    declared = max(_date_of(_PACKAGE / f"{path}.pxd") for path in COMPILED)
    for path, date in made.items():
        if date < max(declared, _date_of(_PACKAGE / f"{path}.py")):
            problem = "is newer than what was compiled from it" if date else "was never compiled"
            raise ImportError(f"{_PACKAGE / path}.py {problem}; type: {_FIX}")


def _is_checkout() -> bool:
    return (_PACKAGE.parent / "pyproject.toml").exists()


def _date_of(path: Path) -> float:
    """Return when a file was last changed, 0 if the file is missing."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
