"""Which files a run has."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path

import msgspec

from qops_batsim.errors import InputError

Name = str | PathLike[str]
"""The name of a run as :func:`find_run` takes it."""


class RunFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Where the files of a run are; None for one that does not exist."""

    name: str
    jobs: Path
    schedule: Path | None = None
    machine_states: Path | None = None
    qos: Path | None = None
    info: Path | None = None


def find_run(name: Name) -> RunFiles:
    """Return the files of a run.

    ``name`` is the run's prefix, a directory that holds exactly one run, or the path of a
    ``_jobs.csv`` (or ``_jobs.csv.gz``). An existing prefix wins over a directory of the same name.
    """
    name = fspath(name)
    path = Path(name)
    if path.is_file():
        for ending in ("_jobs.csv", "_jobs.csv.gz"):
            if path.name.endswith(ending):
                return _siblings(str(path).removesuffix(ending), path)
        raise InputError(
            f"{name}: not the file of a run; a prefix PREFIX of files PREFIX_jobs.csv …, "
            "a directory with one run or the path of a _jobs.csv is expected"
        )
    prefix = name.rstrip("/") or name
    jobs = _existing(prefix, "_jobs.csv")
    if jobs is not None:
        return _siblings(prefix, jobs)
    if path.is_dir():
        found = sorted(p for e in ("_jobs.csv", "_jobs.csv.gz") for p in path.glob(f"*{e}"))
        if len(found) == 1:
            return find_run(found[0])
        if found:
            names = ", ".join(p.name for p in found[:5]) + (", …" if len(found) > 5 else "")
            raise InputError(
                f"{name}: holds {len(found)} runs ({names}); name one, as in "
                f"{path / found[0].name.partition('_jobs.csv')[0]}"
            )
        raise InputError(f"{name}: this directory holds no run (no file *_jobs.csv)")
    raise InputError(
        f"{name}: no such run; {prefix}_jobs.csv (or .csv.gz), a directory with one run "
        "or the path of a _jobs.csv is expected"
    )


def _existing(prefix: str, ending: str) -> Path | None:
    plain, compressed = Path(f"{prefix}{ending}"), Path(f"{prefix}{ending}.gz")
    if plain.is_file() and compressed.is_file():
        raise InputError(f"{plain}: exists also as {compressed.name}; one of the two is expected")
    return plain if plain.is_file() else compressed if compressed.is_file() else None


def _siblings(prefix: str, jobs: Path) -> RunFiles:
    return RunFiles(
        name=Path(prefix).name or Path(prefix).resolve().name,
        jobs=jobs,
        schedule=_existing(prefix, "_schedule.csv"),
        machine_states=_existing(prefix, "_machine_states.csv"),
        qos=_existing(prefix, "_qos.csv"),
        info=_existing(prefix, "_run.json"),
    )
