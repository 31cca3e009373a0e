"""Writers that are killed, or whose disk is full, at random moments; then all that reads.

A case writes over an earlier run or comparison, or none, and is interrupted: by SIGKILL at
its n-th call that touches the file system or at some date, by a limit on the size of files, or (for
root) by a file system that is full. Whatever reads after that has to give the answer that it gives
about the earlier files, or about the new ones, all of one, or to refuse in one line. The same
command again has to succeed, and to leave nothing else behind.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from commands import Ended, call
from mutated_files import RUNS, larder

from qops_batsim import simulate
from qops_batsim.engine.outputs import write_outputs
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from harness import Tally

CALLS = ("open", "mkdir", "replace", "rename", "unlink", "rmdir", "fsync", "fchmod", "statvfs")
"""The calls of ``os`` by which writers touch the file system."""

READERS = [
    ("metrics", "x"),
    ("verify", "x"),
    ("charges", "x", "--reference", "easy"),
    ("explain", "x", "3"),
    ("quote", "x@10", "2x20"),
    ("diff", "x", "easy"),
    ("plot", "gantt", "x", "-o", "o.svg"),
]

Files = dict[str, bytes]


@dataclass(frozen=True)
class Scene:
    """What is written over what: two commands, None for nothing, and what the files begin with."""

    earlier: tuple[str, ...] | None
    writer: tuple[str, ...]
    prefix: str


def run_command(name: str) -> tuple[str, ...]:
    workload, platform, further = RUNS[name]
    return ("run", name, "-w", workload, "-p", platform, "-o", "x", "-q", *further)


ENGINE = ("engine", "easy", "w.json", "v.xml")
"""Not a command line: the files as the Batsim-compatible command writes them."""

JOBS = "sdsc_sp2_deadlines_500"
"""A shipped workload."""

FILL = ("charges", "x", "--fill")

COMPARE = (
    *("compare", "easy", "qops", "-w", JOBS, "--first", "50", "--loads", "1"),
    *("--out", "x", "--seeds"),
)


def scene_of(rng: random.Random) -> Scene:
    runs: list[tuple[str, ...]] = [*map(run_command, RUNS), ENGINE]
    kind = rng.choice(["run"] * 5 + ["fill"] * 2 + ["compare"])
    if kind == "run":
        earlier, writer = rng.choice([None, *runs]), rng.choice(runs)
        return Scene(earlier, writer, "x_")
    if kind == "fill":
        name = rng.choice(["msb", "qops", "fqops", "slack"])
        return Scene(("run", name, "-w", JOBS, "-o", "x", "-q"), FILL, "x_")
    return Scene(rng.choice([None, (*COMPARE, "2")]), (*COMPARE, "1"), "x/")


def prepare() -> None:
    """Make the inputs."""
    larder()


def perform(command: Sequence[str]) -> Ended:
    """Do what a command says in the current folder."""
    if command[0] != "engine":
        return call(command, seconds=60)
    _, scheduler, workload, platform = command
    try:
        write_outputs(simulate(scheduler, workload, platform, allow_smaller_machine=True), "x")
    except InputError as error:
        return Ended(2, "", f"qops-batsim: error: {error}\n")
    return Ended(0, "", "")


def files_of(prefix: str) -> Files:
    """Return the files of the current folder that belong to what is written."""
    found = (path for path in Path().rglob("*") if path.is_file() and ".part" not in str(path))
    return {str(p): p.read_bytes() for p in found if str(p).startswith(prefix)}


def leftovers() -> list[str]:
    return sorted(str(path) for path in Path().rglob("*.part"))


@contextlib.contextmanager
def folder_with_inputs(folder: Path) -> Iterator[None]:
    for path in larder().iterdir():
        if not path.name.startswith("x"):
            shutil.copy2(path, folder)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir("/")


@dataclass(frozen=True)
class Whole:
    """What commands leave in a folder if nothing interrupts them, and how long the last takes."""

    folder: Path
    files: Files
    calls: int
    seconds: float

    @functools.cache  # noqa: B019 - as long as the process
    def answer(self, reader: tuple[str, ...]) -> Ended:
        """Return what a command says of the files."""
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            return call(reader)
        finally:
            os.chdir(before)

    def __hash__(self) -> int:
        return hash(self.folder)


@functools.cache
def whole(commands: tuple[tuple[str, ...], ...], prefix: str) -> Whole:
    """Do commands one after the other in a folder of their own."""
    folder = Path(tempfile.mkdtemp(prefix="soak-whole"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with folder_with_inputs(folder):
        calls, seconds = 0, 0.0
        for command in commands:
            began = time.monotonic()
            with counted_calls(None) as counter:
                ended = perform(command)
            calls, seconds = counter(), time.monotonic() - began
            if ended.code != 0:
                raise RuntimeError(f"{command}: {ended}")
        return Whole(folder, files_of(prefix), calls, seconds)


@contextlib.contextmanager
def counted_calls(deadly: int | None) -> Iterator[Callable[[], int]]:
    """Count calls that touch the file system; end this process at one of them."""
    count = 0
    originals = {name: getattr(os, name) for name in CALLS}

    def counted(name: str) -> Callable[..., Any]:
        def call_it(*given: Any, **options: Any) -> Any:
            nonlocal count
            if count == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
            return originals[name](*given, **options)

        return call_it

    for name in CALLS:
        setattr(os, name, counted(name))
    try:
        yield lambda: count
    finally:
        for name, original in originals.items():
            setattr(os, name, original)


def interrupted(command: Sequence[str], how: str, goal: Whole, rng: random.Random) -> Ended | None:
    """Do a command in a child that is interrupted; return how it ended, None: it was killed."""
    deadly = rng.randrange(goal.calls + 1) if how == "call" else None
    date = rng.uniform(0, 1.2 * goal.seconds)
    limit = rng.randrange(max(map(len, goal.files.values())) + 1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        if how == "size":
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        with counted_calls(deadly):
            ended = perform(command)
        os.write(writing, json.dumps([ended.code, ended.errors, ended.failure]).encode())
        os._exit(0)
    os.close(writing)
    if how == "date":
        time.sleep(date)
        os.kill(child, signal.SIGKILL)
    with open(reading, "rb") as stream:
        told = stream.read()
    os.waitpid(child, 0)
    if not told:
        return None
    code, errors, failure = json.loads(told)
    return Ended(code, "", errors, failure)


@contextlib.contextmanager
def small_disk(folder: Path, needed: int, rng: random.Random) -> Iterator[Callable[[], None]]:
    """Mount a file system on a folder; give a function that leaves little room on it."""
    size = f"size={64 << 20}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], check=True)
    free = rng.randrange(2 * needed + 8192)

    def fill() -> None:
        system = os.statvfs(folder)
        with open(folder / "ballast", "wb") as ballast:
            os.posix_fallocate(ballast.fileno(), 0, max(1, system.f_bavail * 4096 - free))

    try:
        yield fill
    finally:
        os.chdir("/")
        subprocess.run(["umount", "-l", folder], check=True)


def case(seed: int, folder: Path, tally: Tally) -> None:
    """Interrupt a writer."""
    rng = random.Random(seed)
    scene = scene_of(rng)
    how = rng.choice(["call", "call", "call", "date", "size", "disk"])
    if how == "disk" and os.geteuid() != 0:
        how = "size"
    steps = () if scene.earlier is None else (scene.earlier,)
    # What a run leaves does not depend on what was there before.
    base = () if scene.writer[0] in ("run", "engine") else steps
    before, after = whole(steps, scene.prefix), whole((*base, scene.writer), scene.prefix)
    what = f"{' '.join(scene.earlier or ['nothing'])}, then {' '.join(scene.writer)}, {how}"
    needed = sum(map(len, after.files.values()))
    disk = small_disk(folder, needed, rng) if how == "disk" else contextlib.nullcontext(None)
    with disk as fill, folder_with_inputs(folder):
        for name, content in before.files.items():
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_bytes(content)
        if fill is not None:
            fill()
        ended = interrupted(scene.writer, how, after, rng)
        Path("ballast").unlink(missing_ok=True)
        tally.count(f"moments of {scene.writer[0]}, {how}")
        check_end(ended, before, after, scene.prefix, lambda kind, detail: tally.fail(
            f"{scene.writer[0]}, {how}: {kind}", f"{what}\n{detail}"
        ))  # fmt: skip
        check_readers(before, after, scene.prefix, tally, what, rng.sample(READERS, 3))
        again = perform(scene.writer)
        found = files_of(scene.prefix)
        if again.code == 2 and scene.writer == FILL and "interrupted" in again.errors:
            tally.fail("a run cannot be filled any more", f"{what}\n{again.errors}")
        elif again.code != 0 or different(found, after.files):
            names = different(found, after.files)
            tally.fail("the same again fails", f"{what}\n{names}\n{again.errors[-2000:]}")
        if leftovers():
            tally.fail("leftovers", f"{what}\n{leftovers()}")


def different(found: Files, wanted: Files) -> list[str]:
    """Return the names of files that differ, but for which file a filled one has replaced."""
    names = found.keys() | wanted.keys()
    return sorted(
        name
        for name in names
        if found.get(name) != wanted.get(name) and not name.endswith("x_run.json")
    )


def check_end(
    ended: Ended | None,
    before: Whole,
    after: Whole,
    prefix: str,
    fail: Callable[[str, str], None],
) -> None:
    """A writer that was not killed has written all, or says why it has not written anything."""
    found = files_of(prefix)
    if ended is None:
        return
    if ended.code == 0:
        if different(found, after.files):
            fail("exit 0, yet not all is written", str(different(found, after.files)))
        return
    lines = [line for line in ended.errors.splitlines() if "qops-batsim: error: " in line]
    if ended.code != 2 or len(lines) != 1:
        fail("not one line of error", f"{ended.code} {ended.failure}\n{ended.errors[-2000:]}")
    kept, wanted = _without_work(found), _without_work(before.files)
    if kept != wanted:
        fail("exit 2, yet files are written", f"{different(kept, wanted)}\n{ended.errors}")
    if leftovers():
        fail("exit 2, yet files are left over", str(leftovers()))


def _without_work(files: Files) -> Files:
    """Return files without those of finished runs and pictures, which are kept at once."""
    work = ("/unfinished", "/runs/", "/drawn/")
    return {name: each for name, each in files.items() if not any(part in name for part in work)}


def check_readers(
    before: Whole,
    after: Whole,
    prefix: str,
    tally: Tally,
    what: str,
    readers: Sequence[tuple[str, ...]],
) -> None:
    """Readers answer as about one whole set, all the same one, or refuse."""
    found = files_of(prefix)
    if prefix != "x_":
        _check_record(found, before, after, tally, what)
        return
    state = "mixed"
    possible = {"earlier", "new"}
    for reader in readers:
        ended = call(reader)
        old = before.answer(reader)
        new = after.answer(reader)
        said = (ended.code, ended.output)
        lines = ended.errors.count("qops-batsim: error: ")
        refused = ended.code == 2 and lines == 1 and "interrupted" in ended.errors
        matches = {
            name
            for name, known in (("earlier", old), ("new", new))
            if said == (known.code, known.output)
            and (ended.code == 0 or ended.errors == known.errors)
        }
        if found in (before.files, after.files) and not matches:
            tally.fail(f"{reader[0]} refuses a whole set", f"{what}\n{ended.errors[-2000:]}")
        elif not (matches or refused):
            tally.fail(f"{reader[0]} answers about a mixed set", f"{what}\n{ended}")
        possible &= matches or possible
        if matches:
            state = "whole"
    if not possible:
        tally.fail("readers answer about different runs", what)
    tally.count(f"sets found {state}")


STUDY = "x/study.json"
"""What is to be run, which is put in place before anything is."""


def _check_record(found: Files, before: Whole, after: Whole, tally: Tally, what: str) -> None:
    """A report has no reader of ours: its record has to show that files are not of it."""
    records = [name for name in found if name == "x/report.json"]
    shown = False
    for name in records:
        told = json.loads(found[name])["files"]
        shown |= any(
            sha256(found.get(f"x/{each}", b"")).hexdigest() != digest
            for each, digest in told.items()
        )
    others = [
        {name: content for name, content in files.items() if name.count("/") == 1 and name != STUDY}
        for files in (found, before.files, after.files)
    ]
    if not (shown or others[0] in others[1:]):
        tally.fail("a mixed report does not show that it is", f"{what}\n{sorted(found)}")
    tally.count(f"reports found {'mixed' if shown else 'whole'}")
