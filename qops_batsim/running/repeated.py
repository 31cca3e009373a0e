"""Comparing a repeated run with the one that it repeats."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from qops_batsim.code_record import CodeRecord
from qops_batsim.files import decoded, read_bytes
from qops_batsim.measures.results.run_files import RunInfo

_TIMED = ("_schedule.csv",)
"""Files in which the real Batsim tells how long it took."""

_DECISIONS = "_decisions.jsonl"


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """How a repeated run differs from the run that it repeats.

    Attributes
    ----------
    files
        Endings of the files that are not the same, such as ``_jobs.csv``.
    modules
        Modules of the scheduler's code that have changed.
    packages
        Installed distributions of the scheduler with another version now.
    is_known
        Whether the description holds digests of its files.
    """

    files: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    is_known: bool = True

    @property
    def are_there(self) -> bool:
        """Whether a file of the run, or a module of its scheduler, is another one."""
        return bool(self.files or self.modules)


class Described(RunInfo, frozen=True, kw_only=True):
    """The description of a run, with all from which it is repeated."""

    scheduler: str
    workload: str
    engine: str = "embedded"
    compute_sharing: bool = False
    hosts_limit: int | None = None
    smaller_machine: bool = False
    events: str | None = None
    users: str | None = None
    message_delays: bool = False
    run_id: str = ""


def differences(before: Described, now: Described, prefix: str) -> Differences:
    """Compare what a run wrote with what was described; ``prefix`` is that of the new files."""
    code = CodeRecord() if now.code is None else now.code
    # Of an early version nothing is known.
    known = code if before.code is None else before.code
    names = [] if before.files is None else [*{**before.files, **(now.files or {})}]
    if before.engine != "embedded":
        names = [name for name in names if name not in _TIMED]
    return Differences(
        files=tuple(name for name in names if not _is_same(name, before, now, prefix)),
        modules=tuple(known.changed_modules(code)),
        packages=tuple(known.changed_packages(code)),
        is_known=before.files is not None,
    )


def _is_same(name: str, before: Described, now: Described, prefix: str) -> bool:
    old = (before.files or {}).get(name)
    new = (now.files or {}).get(name)
    if new is None or old is None:
        return False
    if new in (old, before.replaced.get(name)):
        return True
    if name != _DECISIONS:
        return False

    # Its first line names the run and its scheduler: by other names they may have decided the same.
    content = read_bytes(Path(f"{prefix}{name}"), what="a decision log")
    head, newline, rest = content.partition(b"\n")
    for ours, theirs in ((now.run_id, before.run_id), (now.scheduler, before.scheduler)):
        head = head.replace(msgspec.json.encode(ours), msgspec.json.encode(theirs), 1)
    return hashlib.sha256(head + newline + rest).hexdigest() == old


_decoder = msgspec.json.Decoder(Described)


def read_described(content: bytes, where: object) -> Described:
    """Decode the description of a run; an InputError names its place (``where``)."""
    return decoded(content, _decoder, where, "the description of a run")
