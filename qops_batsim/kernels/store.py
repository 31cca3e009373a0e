"""Where compiled kernels are kept, and found again by every user of an installation.

A kernel's file is named by its source and that of everything it uses, and lies in a
directory named by what else decides about machine code: Python, numba, LLVM, processor. So
what is found is never stale, and what was left behind can be told and removed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from qops_batsim.kernels.calling import processor

_PACKAGE = Path(__file__).resolve().parents[1]

_DIGEST_BYTES = 32

_UNUSED_AFTER = 30 * 24 * 3600.0
"""Directories of other environments are removed so long after their last kernel (seconds)."""


def digest_of(*parts: object) -> str:
    """Return a short digest of texts."""
    return hashlib.sha256("\0".join(str(part) for part in parts).encode()).hexdigest()[:20]


@cache
def homes() -> tuple[Path, ...]:
    """Return where kernels may lie, the best place first.

    That is ``NUMBA_CACHE_DIR`` if the user has set it; else beside the package, where every
    user of the installation finds them, and for who may not write there in the user's cache.
    """
    of_installation = f"qops-batsim-{digest_of(_PACKAGE)}"
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return (Path(chosen) / of_installation,)
    beside = _PACKAGE / "__pycache__" / "kernels"
    try:
        own = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    except RuntimeError:
        # The user has no home.
        return (beside,)
    return beside, own / "qops-batsim" / "kernels" / of_installation


@cache
def environment() -> str:
    """Return the name of what else decides about machine code, as numba has it."""
    import llvmlite
    from llvmlite import binding

    spec = find_spec("numba")
    assert spec is not None
    assert spec.origin is not None
    # Asking importlib for the version would take longer than all else here.
    numba = Path(spec.origin).with_name("_version.py")
    settings = sorted(
        each for each in os.environ.items() if each[0].startswith("NUMBA_") and "DIR" not in each[0]
    )
    parts = (numba.read_bytes(), llvmlite.__version__, binding.get_process_triple())
    ours = [each.read_bytes() for each in sorted(Path(__file__).parent.glob("*.py"))]
    return f"{sys.implementation.cache_tag}-{digest_of(*parts, *processor(), settings, ours)}"


def read(name: str) -> bytes | None:
    """Return what is kept under a name; None if nothing is, or only a part of it."""
    for home in homes():
        try:
            content = (home / environment() / name).read_bytes()
        except OSError:
            continue
        digest, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if hashlib.sha256(data).digest() == digest:
            return data
    return None


def write(name: str, data: bytes) -> None:
    """Keep something under a name, in the first place where that is possible, if any.

    Names are ``KERNEL-DIGEST.KIND``; what was kept of the same kernel before its source
    changed is removed. Several processes may write at once: each file appears as a whole.
    """
    content = hashlib.sha256(data).digest() + data
    for home in homes():
        folder = home / environment()
        try:
            is_new = not folder.is_dir()
            folder.mkdir(parents=True, exist_ok=True)
            _write_whole(folder / name, content)
        except OSError:
            continue
        with suppress(OSError):
            _remove_older(folder, name)
            if is_new:
                _remove_unused(home, folder)
        return


def _write_whole(path: Path, content: bytes) -> None:
    number, part = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        # Others may use an installation; the file's maker alone could read it else.
        os.chmod(part, 0o644)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


def _remove_older(folder: Path, name: str) -> None:
    """Remove what was kept of a kernel before its source changed."""
    kernel = name.rpartition("-")[0]
    for other in folder.glob(f"{kernel}-*"):
        if other.name != name and other.name.rpartition("-")[0] == kernel:
            other.unlink(missing_ok=True)


def _remove_unused(home: Path, used: Path) -> None:
    """Remove the kernels of other environments that nothing was added to for long."""
    before = time.time() - _UNUSED_AFTER
    for folder in home.iterdir():
        if folder != used and folder.stat().st_mtime < before:
            shutil.rmtree(folder, ignore_errors=True)
