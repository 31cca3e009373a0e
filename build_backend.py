"""Build backend: setuptools, with a C compiler from PyPI where the machine has none."""

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setuptools import build_meta as _setuptools
from setuptools.build_meta import *  # noqa: F403

Settings = dict[str, Any] | None


def _lacks_compiler() -> bool:
    """Return whether a compiler is needed and the machine has none."""
    if os.environ.get("QOPS_BATSIM_PURE") == "1":
        return False
    return "CC" not in os.environ and not any(map(shutil.which, ("cc", "gcc", "clang")))


@contextmanager
def _building() -> Iterator[None]:
    """Choose the compiler, lock the build directory and clean it.

    Of earlier builds only what was compiled is kept there: else modules that are gone would be
    installed.
    """
    if _lacks_compiler():
        os.environ["CC"] = f"{sys.executable} -m ziglang cc"
        os.environ["LDSHARED"] = f"{sys.executable} -m ziglang cc -shared"
    build = Path("build")
    build.mkdir(exist_ok=True)
    with (build / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for path in build.glob("lib*/**/*"):
            if path.is_file() and path.suffix != ".so":
                path.unlink()
        yield


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    needed: list[str] = _setuptools.get_requires_for_build_wheel(config_settings)
    return [*needed, "ziglang"] if _lacks_compiler() else needed


get_requires_for_build_editable = get_requires_for_build_wheel


build_wheel = _building()(_setuptools.build_wheel)
build_editable = _building()(_setuptools.build_editable)
