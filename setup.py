"""Compile the modules of qops_batsim that have a ``.pxd`` beside them.

``QOPS_BATSIM_PURE=1`` installs them uncompiled. Where they cannot be compiled they are installed
uncompiled as well, which a line in capitals says.
"""

import gc
import os
import subprocess
import sys
import zlib
from pathlib import Path

from setuptools import Extension, find_namespace_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "infer_types": True,
    "annotation_typing": False,  # types come from the .pxd
    "binding": False,
    "auto_pickle": False,  # what is pickled says how
    "emit_code_comments": False,
    # What inspect and notebooks show of a compiled method.
    "embedsignature": True,
    "embedsignature.format": "clinic",
}
EXACT = ["-g0", "-ffp-contract=off"]
"""Results are the same to the last bit as uncompiled: no -ffast-math, no fused operations."""

HOT = {"core.profile"}
"""Modules that -O2 makes faster than LIGHT does, which compiles in two thirds of the time."""

LIGHT = ["-O1", "-fcode-hoisting", "-finline-small-functions", "-foptimize-sibling-calls"]
LIGHT += ["-fstrict-aliasing", "-ftree-pre"]

SHARED = "qops_batsim.core._shared"
"""Compiled module without source that all others use."""

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
DATA = ("platforms", "workloads")
"""Inputs at the top of the tree that an installation has in the package (see shipped.py)."""


def say_uncompiled(why: object) -> None:
    """Say that the package will be slow."""
    print(f"\n*** QOPS-BATSIM IS INSTALLED UNCOMPILED, AND SLOW: {why} ***\n", file=sys.stderr)


def flags(name: str) -> list[str]:
    """Return how a module is compiled; levels of optimization that CFLAGS gives stand."""
    if "-O" in os.environ.get("CFLAGS", ""):
        return EXACT
    is_hot = name.removeprefix("qops_batsim.") in HOT
    return [*EXACT, "-O2"] if is_hot else [*EXACT, *LIGHT]


def extensions() -> list[Extension]:
    """Return the modules to compile, translated to C; none if that is not wanted or fails."""
    if os.environ.get("QOPS_BATSIM_PURE") == "1":
        return []
    declared = [each.relative_to(ROOT) for each in sorted(ROOT.glob("qops_batsim/**/*.pxd"))]
    modules = {
        ".".join(each.with_suffix("").parts): str(each.with_suffix(".py"))
        for each in declared
        if each.stem != "__init__"
    }
    try:
        from Cython import __version__ as cython
        from Cython.Build import cythonize

        # C code is kept, but not for another version of Cython or with other directives.
        chosen = zlib.crc32(repr((cython, DIRECTIVES)).encode())
        kept = Path("build", "cython", f"{chosen:08x}")
        # What all modules need for arrays is compiled once.
        shared = ROOT / kept / f"{SHARED.rpartition('.')[2]}.c"
        shared.parent.mkdir(parents=True, exist_ok=True)
        if not shared.exists():
            command = [sys.executable, "-m", "cython", f"--generate-shared={shared}"]
            subprocess.run(command, check=True)
        gc.disable()  # which would take a quarter of the time of Cython
        found: list[Extension] = cythonize(
            [
                Extension(name, [source], extra_compile_args=flags(name))
                for name, source in modules.items()
            ],
            build_dir=str(kept),
            nthreads=CORES,
            compiler_directives=DIRECTIVES,
            shared_utility_qualified_name=SHARED,
        )
        sources = [str(shared.relative_to(ROOT))]
        found.append(Extension(SHARED, sources, extra_compile_args=flags(SHARED)))
    except Exception as error:  # noqa: BLE001 - whatever is missing or wrong
        say_uncompiled(error)
        return []
    return found


class BuildAllOrNone(build_ext):
    """Compile all modules or none: compiled ones cannot use each other uncompiled."""

    def finalize_options(self) -> None:
        super().finalize_options()
        # Said here: an editable installation forgets the options that are given to setup().
        self.parallel = self.parallel or CORES

    def run(self) -> None:
        # What is in build was perhaps compiled with other flags.
        chosen = repr((os.environ.get("CFLAGS"), EXACT, LIGHT, sorted(HOT)))
        made_with = Path(self.build_temp, "flags")
        is_same = made_with.exists() and made_with.read_text() == chosen
        self.force = self.force or not (self.inplace or is_same)
        if self.force:
            how = f"compiling {len(self.extensions)} modules, {self.parallel} at a time: a minute"
            print(how, file=sys.stderr)
        try:
            super().run()
            if not self.inplace:
                made_with.parent.mkdir(parents=True, exist_ok=True)
                made_with.write_text(chosen)
        except Exception as error:  # noqa: BLE001 - no compiler, no headers of Python, …
            say_uncompiled(error)
            for each in self.extensions:
                for path in {self.get_ext_fullpath(each.name), self.get_ext_filename(each.name)}:
                    Path(path).unlink(missing_ok=True)
            self.extensions = []
        # One that needed not be compiled again is as new as its source.
        for path in self.get_outputs():
            if os.path.exists(path):
                os.utime(path)
        if self.inplace:
            for each in self.extensions:
                os.utime(self.get_ext_fullpath(each.name))


is_editable = "editable_wheel" in sys.argv
packages = find_namespace_packages(include=["qops_batsim", "qops_batsim.*"])
package_dir = {} if is_editable else {f"qops_batsim.data.{each}": each for each in DATA}
setup(
    packages=[*packages, *package_dir],
    package_dir=package_dir,
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildAllOrNone},
)
