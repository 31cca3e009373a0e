"""The files of a run, checked to belong together.

A run of ours has a description with the digests of its other files. Where these disagree, files
of two runs are mixed: whoever wrote them was interrupted, or they were changed.
Files without description, as real Batsim writes them, are taken as they are.
"""

from __future__ import annotations

import hashlib
import math
import os
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.code_record import CodeRecord
from qops_batsim.core.hostset import HostSet
from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError
from qops_batsim.file_set import DESCRIPTION, RUN_FILES
from qops_batsim.files import (
    PendingFile,
    as_stored,
    decoded,
    errors_of_writing,
    read_bytes,
    read_parts,
    write_text,
)
from qops_batsim.job_fields import is_number
from qops_batsim.limits import MAX_DESCRIPTION_BYTES, MAX_HOST_ID
from qops_batsim.platform.platform_model import Maintenance, Outage
from qops_batsim.timing import least_grace
from qops_batsim.workload.other_json import refuse_other_json

Name = str | PathLike[str]
"""The name of a run as :func:`find_run` takes it."""


_BLOCK = 1 << 20

BATSIM5_JOBS = "jobs.csv"
"""Name of the jobs that Batsim 5 writes into the directory that is its prefix by default."""

_WHAT = "the description of a run (JSON)"


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a run that qops-batsim made (``PREFIX_run.json``); other fields of the
    file are ignored.

    ``files`` are the SHA-256 of its other files by the ends of their names; ``replaced`` those of
    files that were filled in later: until that is done, these are of the run as well.
    ``cut_off`` are runs that neither the job nor the scheduler has ended: their users cancelled
    them, or their hosts were lost.
    ``judged`` are, of a live journal, the runs that stand for their jobs, by full id, each with the
    promise that it goes on with (seconds): of others no deadline is judged.
    ``batsim_version`` is that of the real Batsim, if that ran it.
    ``round_trip`` is the longest of the platform's messages (seconds), where they took their time.
    """

    scheduler: str | None = None
    options: dict[str, Any] | None = None
    workload: str | list[str] | None = None
    platform: str | None = None
    hosts: int | None = None
    compute_sharing: bool | None = None
    outages: list[Outage] = []
    maintenance: list[Maintenance] = []
    cancellations: dict[str, float] = {}
    cut_off: list[str] = []
    judged: dict[str, float | None] | None = None
    calendar: Calendar | None = None
    message_delays: bool | None = None
    round_trip: float = 0.0
    batsim_version: str | None = None
    python_objects: list[str] = []
    sha256: dict[str, str] = {}
    code: CodeRecord | None = None
    package_version: str | None = None
    run_id: str | None = None
    files: dict[str, str] | None = None
    replaced: dict[str, str] = {}

    @property
    def grace(self) -> float:
        """Lateness (seconds) up to which a promise counts as kept.

        0 unless the scheduler has a grace and Batsim's messages took their time; no more than their
        round trips on that platform give reason for, whatever the scheduler's option.
        """
        if self.message_delays is False:
            return 0.0
        grace = (self.options or {}).get("grace", 0.0)
        round_trip = self.round_trip
        if not all(is_number(each) and 0 <= each < math.inf for each in (grace, round_trip)):
            return 0.0
        return min(float(grace), least_grace(round_trip))


_descriptions = msgspec.json.Decoder(RunInfo)


class RunFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of a run's files (None if missing), and the run's description."""

    name: str
    prefix: str
    jobs: Path
    schedule: Path | None = None
    machine_states: Path | None = None
    qos: Path | None = None
    decisions: Path | None = None
    description: Path | None = None
    described: bytes = b""
    info: RunInfo | None = None

    def check_unchanged(self) -> None:
        """Raise an InputError if files of another run have replaced the run's files since they were
        found.
        """
        if self.description is not None and _content(self.description) != self.described:
            raise InputError(
                f"{self.description}: another run replaced this file while the run was read; "
                "read the run again"
            )

    def replace(self, name: str, path: Path, text: str) -> None:
        """Write ``text`` to one of the run's files, such as ``_qos.csv``, and the file's new digest
        to ``_run.json``; the two agree at all times.
        """
        self.check_unchanged()
        with PendingFile(path) as pending, errors_of_writing(path):
            pending.stream.write(as_stored(path, text))
            pending.sync()
            if self.description and self.info and self.info.files is not None:
                document = msgspec.json.decode(self.described)
                document["replaced"] = {name: _digest(path)}
                document["files"][name] = hashlib.sha256(text.encode()).hexdigest()
                told = msgspec.json.format(msgspec.json.encode(document)).decode()
                write_text(self.description, told + "\n")
            pending.publish()


def find_run(name: Name) -> RunFiles:
    """Find the files of a run and check that they belong together.

    ``name`` is the run's prefix, a directory that holds exactly one run, or the path of a
    ``_jobs.csv`` (or ``_jobs.csv.gz``), or a directory in which Batsim 5 has written ``jobs.csv``.
    An existing prefix wins over a directory of the same name.
    """
    name = fspath(name)
    path = Path(name)
    if path.is_file():
        if path.name == BATSIM5_JOBS:
            return _of_batsim5(path.parent)

        for ending in ("_jobs.csv", "_jobs.csv.gz"):
            if path.name.endswith(ending):
                return _siblings(str(path).removesuffix(ending), path)

        if ".json" in path.suffixes:
            refuse_other_json(read_bytes(path, what="a run"), name, "the _jobs.csv of a run")
        raise InputError(
            f"{name}: not the _jobs.csv of a run; a prefix PREFIX of files PREFIX_jobs.csv …, "
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

        if (path / BATSIM5_JOBS).is_file():
            return _of_batsim5(path)
        raise InputError(f"{name}: this directory holds no run (no file *_jobs.csv)")

    if _existing(prefix, DESCRIPTION) is not None:
        raise _missing(prefix, "_jobs.csv")

    raise InputError(
        f"{name}: no such run; {prefix}_jobs.csv (or .csv.gz), a directory with one run "
        "or the path of a _jobs.csv is expected"
    )


def _of_batsim5(directory: Path) -> RunFiles:
    totals = directory / "schedule.json"
    return RunFiles(
        name=directory.resolve().name,
        prefix=f"{directory}{os.sep}",
        jobs=directory / BATSIM5_JOBS,
        schedule=totals if totals.is_file() else None,
    )


def find_written(prefix: str, description: bytes) -> RunFiles:
    """Return the files of a run that this process has just written; digests are checked only if
    ``_run.json`` is no longer ``description``.

    """
    return _siblings(prefix, Path(f"{prefix}_jobs.csv"), description)


def _existing(prefix: str, ending: str) -> Path | None:
    plain = Path(f"{prefix}{ending}")
    compressed = Path(f"{prefix}{ending}.gz")
    if plain.is_file() and compressed.is_file():
        raise InputError(f"{plain}: exists also as {compressed.name}; remove one of the two")
    return plain if plain.is_file() else compressed if compressed.is_file() else None


def _siblings(prefix: str, jobs: Path, written: bytes | None = None) -> RunFiles:
    description = _existing(prefix, DESCRIPTION)
    content = b"" if description is None else _content(description)
    info = None if description is None else _parsed(description, content)
    if info is not None and info.files is not None and content != written:
        _check_files(prefix, info, info.files)
    schedule, totals = (_existing(prefix, f"_schedule.{kind}") for kind in ("csv", "json"))

    return RunFiles(
        name=Path(prefix).name or Path(prefix).resolve().name,
        prefix=prefix,
        jobs=jobs,
        schedule=schedule or totals,
        # Those of Batsim 5.0.0-rc2 are wrong.
        machine_states=_existing(prefix, "_machine_states.csv") if schedule or not totals else None,
        qos=_existing(prefix, "_qos.csv"),
        decisions=_existing(prefix, "_decisions.jsonl"),
        description=description,
        described=content,
        info=info,
    )


def _content(path: Path) -> bytes:
    return read_bytes(path, what=_WHAT, max_bytes=MAX_DESCRIPTION_BYTES)


def _parsed(path: Path, content: bytes) -> RunInfo:
    info = decoded(content, _descriptions, path, "the description of a run")
    for outage in (*info.outages, *info.maintenance):
        try:
            HostSet.parse(outage.hosts)
        except InputError as error:
            raise InputError(f"{path}: outages: {error}") from None

    if info.calendar is not None:
        info.calendar.check(f"{path}: calendar: time_zone")
    if info.hosts is not None and not 1 <= info.hosts <= MAX_HOST_ID + 1:
        raise InputError(
            f"{path}: hosts is {info.hosts}; a whole number from 1 to {MAX_HOST_ID + 1} is expected"
        )

    return info


def _check_files(prefix: str, info: RunInfo, digests: dict[str, str]) -> None:
    """Check a run's files against the digests in its description. O(bytes)."""
    for name in RUN_FILES:
        path = _existing(prefix, name)
        if path is None:
            if name in digests:
                raise _missing(prefix, name)
        elif name not in digests or _digest(path) not in (digests[name], info.replaced.get(name)):
            raise InputError(
                f"{path}: is not the file that {prefix}{DESCRIPTION} describes: "
                f"{_interrupted(prefix)}"
            )


def _missing(prefix: str, name: str) -> InputError:
    described = f"{prefix}{DESCRIPTION} describes it"
    return InputError(f"{prefix}{name}: missing, though {described}: {_interrupted(prefix)}")


def _interrupted(prefix: str) -> str:
    return (
        "the run was interrupted while it wrote its files, or they were changed since; run it "
        f"again, or remove {Path(prefix).name}{DESCRIPTION} to have the other files read as they "
        "are"
    )


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file's content after decompression."""
    digest = hashlib.sha256()
    for part in read_parts(path, _BLOCK, what="a file of a run"):
        digest.update(part)
    return digest.hexdigest()
