"""The journal of live decisions: one SQLite file, from which everything can be restored.

What was told to the decision module and what it answered stand in it as messages of the protocol,
so that a fresh module, told the same, is in the same state. What has to be done is an order:
decided in the same transaction as the message, then sent, then confirmed by what is seen.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from qops_batsim.core.host_properties import machine_of
from qops_batsim.core.machine import Machine
from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError, require, shown
from qops_batsim.job_fields import HostsAsked, is_number
from qops_batsim.live.manager import SeenJob
from qops_batsim.protocol.decisions import Decision
from qops_batsim.protocol.events import Event
from qops_batsim.protocol.messages import (
    Message,
    Stamped,
    decode_decisions,
    decode_events,
    encode_message,
)
from qops_batsim.slurm.queued_amounts import QueuedAmounts

Content = TypeVar("Content", bound=msgspec.Struct)

FORMAT = 1
"""Version of the tables."""

_MAGIC = b"SQLite format 3\0"
_LEAST_PAGE = 512

_TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS messages (
    number INTEGER PRIMARY KEY, date REAL NOT NULL, events TEXT NOT NULL, decisions TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS runs (
    run TEXT PRIMARY KEY, job TEXT NOT NULL, entry TEXT NOT NULL, is_open INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS open_runs ON runs (is_open) WHERE is_open;
CREATE INDEX IF NOT EXISTS runs_of_jobs ON runs (job);
CREATE TABLE IF NOT EXISTS orders (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, job TEXT NOT NULL, run TEXT NOT NULL,
    restarts INTEGER NOT NULL, detail TEXT NOT NULL, state TEXT NOT NULL, decided REAL NOT NULL,
    sent REAL, confirmed REAL, times INTEGER NOT NULL DEFAULT 0, problem TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS open_orders ON orders (state) WHERE state IN ('decided', 'sent');
CREATE TABLE IF NOT EXISTS seen (
    job TEXT, submitted REAL, told TEXT NOT NULL, since REAL NOT NULL,
    PRIMARY KEY (job, submitted)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS standings (number INTEGER PRIMARY KEY, standing BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS log (date REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL);
"""

DECIDED = "decided"
SENT = "sent"
CONFIRMED = "confirmed"
VOID = "void"
"""States of an order; a void one came to nothing, because something else happened before."""


class JobRun(msgspec.Struct, kw_only=True):
    """One run of a job, as the journal keeps it; a requeued or changed job gets a new run.

    Dates are in seconds since 1970. ``run`` is the id that the scheduler knows; ``phase`` is
    ``waiting``, ``starting`` (the start is decided, but not seen yet), ``running``, ``refused``
    or ``gone``. ``promise`` is the promised deadline, ``answer`` is ``promised``, ``refused``
    or, if no deadline was asked for, ``""``; ``answered`` is the date of the answer.
    ``is_ours`` is false for a job that the resource manager has started by itself.
    """

    run: str
    job: str
    nodes: int
    user: str
    submitted: float
    known: float
    limit: float | None
    deadline: float | None
    asked: float | None = None
    """The deadline that the user asked for, also where it is given up."""
    tolerance: float | None = None
    restarts: int = 0
    is_rerunnable: bool = True
    nice: int = 0
    number: int = 0
    phase: str = "waiting"
    hosts: list[str] = []
    answer: str = ""
    answered: float | None = None
    reason: str = ""
    promise: float | None = None
    planned: float | None = None
    ordered: float | None = None
    """When its start was decided."""
    start: float | None = None
    end: float | None = None
    outcome: str = ""
    told: str = ""
    is_ours: bool = True
    taken: list[str] = []
    """Nodes on which the module knows a job that is not ours."""
    is_victim: bool = False
    """Whether it is to be killed."""
    is_untold: bool = False
    """Whether the module was not told of it: it cannot run, or its deadline cannot be read."""
    is_withdrawn: bool = False
    """Whether its user, or an administrator, cancelled it while it ran."""
    amounts: QueuedAmounts | UnsetType = UNSET
    """What Slurm says that it asks of nodes, or holds there if it is not ours, where jobs share
    them."""
    request: HostsAsked | UnsetType = UNSET
    """What is asked for it then, the same on each of its hosts."""
    is_named: bool | UnsetType = UNSET
    """Whether Slurm shows the nodes that a start of an earlier run has named as asked for."""


class Order(msgspec.Struct, kw_only=True):
    """An action on a job, until its effect is seen: ``hold``, ``start``, ``refuse`` or ``requeue``.

    ``restarts`` is how often the job had been requeued when the order was decided: the order is
    not about later runs.
    """

    number: int
    kind: str
    job: str
    run: str
    restarts: int
    detail: str
    state: str
    decided: float
    sent: float | None = None
    confirmed: float | None = None
    times: int = 0
    problem: str = ""


class LiveStanding(msgspec.Struct, kw_only=True):
    """Snapshot of a live session: the encoded scheduler, hosts away and lost, and calls due."""

    module: msgspec.Raw
    away: str
    gone: str
    calls: list[float]


class About(msgspec.Struct, kw_only=True, frozen=True):
    """Settings of a live journal; ``origin`` is the date of its second 0 (s since 1970)."""

    format: int = FORMAT
    mode: str
    scheduler: str
    options: dict[str, Any]
    origin: float
    nodes: list[str]
    partition: str | None
    margin: float
    time_zone: str
    hosts: list[dict[str, str]] | UnsetType = UNSET
    """What each of the nodes has, as properties of a host, where jobs share nodes."""

    @property
    def machine(self) -> Machine | None:
        """What each of the nodes has, None where each job has its nodes for itself."""
        return machine_of(self.hosts, self.nodes) if self.hosts else None

    @property
    def grace(self) -> float:
        """How much later than promised a job may end without a broken promise (seconds)."""
        return float(self.options.get("grace", 0.0))

    def check_same(self, asked: About, path: Path) -> None:
        """Raise an InputError if the settings asked for differ from those of the journal."""
        for name in ("mode", "scheduler", "options", "partition", "margin"):
            wanted = getattr(asked, name)
            before = getattr(self, name)
            if wanted != before:
                raise InputError(
                    f"{path}: the journal was begun with {name} {before!r}, and {wanted!r} is "
                    f"given; the same {name}, or a new journal, is expected"
                )


class JournalFailure(InputError):
    """Raised if a journal cannot be read or written: it is damaged, or its disk is full."""


class InUse(InputError):
    """Raised if another process writes the journal, or decides for the same partition."""


class Journal:
    """A live journal (SQLite file), opened for reading, or for writing by this process only.

    Inside ``with Journal(…)``, errors of the file or its disk are raised as
    :class:`JournalFailure`.
    """

    def __init__(self, path: str | Path, *, writes: bool = False) -> None:
        self.path = Path(path)
        if not writes and not is_journal(self.path):
            raise InputError(
                f"{path}: is no live journal; a file that `qops-batsim live decide` made is "
                "expected"
            )
        busy = f"{path}: another process decides with this journal"
        self._lock = locked(f"{path}.lock", busy) if writes else None
        self.about: About | None = None
        try:
            with self.failures():
                if self._lock is not None:
                    # SQLite takes so short a file for a new one.
                    is_cut = self.path.exists() and self.path.stat().st_size < _LEAST_PAGE
                    if is_cut and os.fstat(self._lock).st_size:
                        raise sqlite3.DatabaseError("it is empty, although it was used before")
                    _close_to_others(self.path)
                self._open(writes)
                row = self._db.execute("SELECT value FROM about WHERE name='about'").fetchone()
            if row is not None:
                self.about = self._decoded(row[0], About)
        except InputError:
            self.close()
            raise
        if self.about is None:
            return

        if self.about.format != FORMAT:
            raise InputError(
                f"{path}: the journal has format {self.about.format}; format {FORMAT} is expected "
                "(another version of qops-batsim made it)"
            )
        grace = self.about.options.get("grace", 0.0)
        require(is_number(grace), f"{path}: grace", grace, "a number of seconds is expected")
        Calendar(self.about.origin, self.about.time_zone).check(f"{path}: time zone")

    def _open(self, writes: bool) -> None:
        self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        if writes:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(_TABLES)
        else:
            self._db.execute("PRAGMA query_only=1")
        # Damage is found before anything is decided or told, not in the middle of it.
        (state,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if state != "ok":
            raise sqlite3.DatabaseError(state.splitlines()[-1])

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Turn errors of the file or disk in this block into a :class:`JournalFailure`."""
        try:
            yield
        except sqlite3.Error as error:
            raise JournalFailure(
                f"{self.path}: the journal cannot be read or written ({error}); an undamaged file "
                "and free space on its disk are expected"
            ) from None

    def close(self) -> None:
        """Close the file and release its lock."""
        if hasattr(self, "_db"):
            self._db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with self.failures():
            self.close()
            if isinstance(error, sqlite3.Error):
                raise error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write everything of this block to disk at its end, or nothing if the block fails."""
        with self.failures():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # A full disk has ended it already.
                    self._db.execute("ROLLBACK")
                raise

    def begin(self, about: About) -> None:
        """Write the settings to a new journal."""
        text = msgspec.json.encode(about).decode()
        self._db.execute("INSERT INTO about VALUES ('about', ?)", (text,))
        self.about = about
        if self._lock is not None:
            os.write(self._lock, b"begun\n")

    @property
    def begun(self) -> About:
        """The settings with which the journal began; InputError if they are not written yet."""
        if self.about is None:
            raise InputError(
                f"{self.path}: the journal is empty; one with which `live decide` has begun is "
                "expected"
            )
        return self.about

    @property
    def believed(self) -> str:
        """The calendar that the last process trusted, as :class:`CentreClock` tells it, or ""."""
        row = self._db.execute("SELECT value FROM about WHERE name='clock'").fetchone()
        return "" if row is None else str(row[0])

    def keep_believed(self, believed: str) -> None:
        """Store the calendar that this process trusts."""
        self._db.execute("REPLACE INTO about VALUES ('clock', ?)", (believed,))

    def _decoded(self, text: str | bytes, kind: type[Content]) -> Content:
        """Decode a stored record of type ``kind``; JournalFailure if it is no such record."""
        try:
            if isinstance(text, bytes):
                return msgspec.msgpack.decode(text, type=kind)
            return msgspec.json.decode(text, type=kind)
        except (msgspec.MsgspecError, TypeError) as error:
            what = kind.__name__.lower()
            raise JournalFailure(
                f"{self.path}: a record ({what}) cannot be read ({error}); an undamaged journal is "
                "expected"
            ) from None

    # Messages

    def add_message(self, now: float, events: list[Event], decisions: list[Decision]) -> None:
        """Append what the scheduler was told at ``now`` (s since second 0), and its decisions."""
        told, answered = (
            encode_message(Message(now, [Stamped(now, body) for body in bodies])).decode()
            for bodies in (events, decisions)
        )
        self._db.execute(
            "INSERT INTO messages (date, events, decisions) VALUES (?, ?, ?)", (now, told, answered)
        )

    def messages(self, after: int = 0) -> Iterator[tuple[int, Message[Event], Message[Decision]]]:
        """Yield (number, events, decisions) of each message that is numbered above ``after``."""
        found = "SELECT number, events, decisions FROM messages WHERE number > ? ORDER BY number"
        rows = self._db.execute(found, (after,))
        for number, events, decisions in rows:
            try:
                told = decode_events(events)
                answered = decode_decisions(decisions)
            except InputError as error:
                raise JournalFailure(
                    f"{self.path}: message {number} cannot be read ({error}); an undamaged journal "
                    "is expected"
                ) from None
            yield number, told, answered

    @property
    def last_message(self) -> tuple[int, float]:
        """Number and date (seconds since second 0) of the last message; zeros if there is none."""
        found = "SELECT number, date FROM messages ORDER BY number DESC LIMIT 1"
        return self._db.execute(found).fetchone() or (0, 0.0)

    def has_news(self, now: float) -> None:
        """Record that the resource manager answered at ``now`` (seconds since 1970)."""
        if self._lock is not None:
            os.utime(self._lock, (now, now))

    @property
    def last_news(self) -> float:
        """Date of the resource manager's last answer (seconds since 1970)."""
        lock = Path(f"{self.path}.lock")
        return (lock if lock.exists() else self.path).stat().st_mtime

    def keep_standing(self, standing: LiveStanding) -> None:
        """Store a snapshot of the scheduler, taken after the last message; drop the one before."""
        text = msgspec.msgpack.encode(standing)
        self._db.execute("DELETE FROM standings")
        self._db.execute("INSERT INTO standings VALUES (?, ?)", (self.last_message[0], text))

    def last_standing(self) -> tuple[int, LiveStanding | None]:
        """Return the number of the message before the stored snapshot, and the snapshot."""
        row = self._db.execute("SELECT number, standing FROM standings").fetchone()
        return (0, None) if row is None else (row[0], self._decoded(row[1], LiveStanding))

    # What is known of jobs

    def write_entries(self, entries: Iterable[JobRun]) -> None:
        """Write these runs, new or changed; other runs stay as they are."""
        rows = [
            (run.run, run.job, msgspec.json.encode(run).decode(), run.phase != "gone")
            for run in entries
        ]
        self._db.executemany(
            "INSERT INTO runs VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "entry=excluded.entry, is_open=excluded.is_open",
            rows,
        )

    def count_runs(self, job: str) -> int:
        """Return how many runs of a job the journal has."""
        found = self._db.execute("SELECT COUNT(*) FROM runs WHERE job=?", (job,)).fetchone()
        return int(found[0])

    def entries(self, *, only_open: bool = False) -> list[JobRun]:
        """Return the runs in the order first written; ``only_open``: those that are not gone."""
        where = "WHERE is_open" if only_open else ""
        rows = self._db.execute(f"SELECT entry FROM runs {where} ORDER BY rowid")
        runs = [self._decoded(text, JobRun) for (text,) in rows]
        nodes = set(self.about.nodes) if self.about else set()
        for run in runs:
            if not nodes.issuperset([*run.hosts, *run.taken]):
                raise InputError(
                    f"{self.path}: run {shown(run.run)} has hosts {shown(run.hosts)}; only nodes "
                    "with which the journal was begun are expected"
                )
        return runs

    def see(self, job: SeenJob, now: float) -> None:
        """Write a job's last observed state; the first ``now`` (s since 1970) stays."""
        text = msgspec.json.encode(job).decode()
        self._db.execute(
            "INSERT INTO seen VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET told=excluded.told",
            (job.id, job.submitted, text, now),
        )

    def seen(self) -> list[tuple[SeenJob, float]]:
        """Return each job's last observed state, and when it was first observed (s since 1970)."""
        rows = self._db.execute("SELECT told, since FROM seen ORDER BY submitted, job")
        return [(self._decoded(text, SeenJob), since) for text, since in rows]

    # Orders

    def add_order(self, kind: str, entry: JobRun, now: float, detail: str = "") -> None:
        """Add an order of a kind, decided at ``now``; ``detail`` lists the nodes of a start."""
        self._db.execute(
            "INSERT INTO orders (kind, job, run, restarts, detail, state, decided) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (kind, entry.job, entry.run, entry.restarts, detail, DECIDED, now),
        )

    def orders(self, *, only_open: bool = False) -> list[Order]:
        """Return the orders, oldest first; ``only_open``: those whose effect was not seen yet."""
        where = "WHERE state IN ('decided', 'sent')" if only_open else ""
        names = Order.__struct_fields__
        rows = self._db.execute(f"SELECT {', '.join(names)} FROM orders {where} ORDER BY number")
        return [Order(**dict(zip(names, row, strict=True))) for row in rows]

    def update_orders(self, orders: list[Order]) -> None:
        """Write the changed states of orders, with their dates, attempts and problems."""
        self._db.executemany(
            "UPDATE orders SET state=?, sent=?, confirmed=?, times=?, problem=? WHERE number=?",
            [(o.state, o.sent, o.confirmed, o.times, o.problem, o.number) for o in orders],
        )

    def note(self, now: float, kind: str, text: str) -> None:
        """Log a command (kind ``sent``), an ``outage`` or an ``alarm``."""
        self._db.execute("INSERT INTO log VALUES (?, ?, ?)", (now, kind, text))

    def notes(self, kind: str | None = None, last: int = -1) -> list[tuple[float, str, str]]:
        """Return the log as (date, kind, text), oldest first; ``last``: its last lines only."""
        where, values = ("WHERE kind=?", [kind]) if kind else ("", [])
        found = f"SELECT date, kind, text FROM log {where} ORDER BY rowid DESC LIMIT ?"
        return self._db.execute(found, [*values, last]).fetchall()[::-1]

    def count_notes(self) -> Mapping[str, int]:
        """Return how many lines of each kind are in the log."""
        return dict(self._db.execute("SELECT kind, COUNT(*) FROM log GROUP BY kind"))


def is_journal(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is an SQLite file, as journals are."""
    try:
        with open(path, "rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
    except PermissionError:  # As of a journal, which is its owner's alone.
        raise InputError(
            f"{path}: this user may not read the file; run the command as its owner or as root"
        ) from None
    except OSError:
        return False


def locked(path: str | Path, busy: str, *, shared: bool = False) -> int:
    """Lock a file until this process ends or closes it; return the open file descriptor.

    ``busy`` is the message of the :class:`InUse` if another process holds the lock, unless both
    share it.
    """
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be opened ({error.strerror}); a file that this user may write is "
            "expected"
        ) from None
    try:
        fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise InUse(f"{busy}; end that process first") from None
    return lock


def _close_to_others(path: Path) -> None:
    """Make a new journal readable by its owner only, an old one by owner and group at most.

    Comments of users stand in it. SQLite gives the files next to it the same mode.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    for name in (f"{path}", f"{path}-wal", f"{path}-shm"):
        with suppress(PermissionError):
            if os.path.isfile(name):
                os.chmod(name, os.stat(name).st_mode & 0o770)
