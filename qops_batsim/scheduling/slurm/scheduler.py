"""Rules of Slurm, which is what centres run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qops_batsim.jobs import Job
from qops_batsim.platform.hostset import HostSet
from qops_batsim.protocol.decisions import CallMeLater
from qops_batsim.scheduling.module import System
from qops_batsim.scheduling.refusal import Refusal, free_text, no_time
from qops_batsim.scheduling.slurm.options import QosRules, SlurmOptions
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

if TYPE_CHECKING:
    from qops_batsim.scheduling.arrays import Ints
    from qops_batsim.scheduling.slurm.book import Book


class Slurm(SpaceSharingScheduler):
    """Multifactor priorities, backfilling by reservations, limits and ``--deadline``, as in Slurm.

    1. A job's priority is the sum of weighted factors from 0 to 1: age, size, partition, QOS, and
       fair share, the rank of its user in the Fair Tree of decayed usage. It is calculated at
       submission, and of all waiting jobs anew each ``calc_period``.
    2. Whenever something happens, the *main pass* starts jobs in order of priority until one does
       not fit.
    3. Every ``bf_interval`` while jobs wait and something has happened, the *backfill pass* plans
       the first ``bf_max_job_test`` jobs in that order, each at its earliest start on hosts that
       are kept for no job before it, and starts those whose start is now. Dates of the plan are
       multiples of ``bf_resolution``; running jobs that end close to each other count as ending
       together; starts after ``bf_window`` are not planned.
    4. Jobs that would exceed a limit of their user or QOS are passed over.
    5. A job whose deadline is nearer than the time it asks for is rejected at submission, and
       cancelled when a pass comes to it. Nothing is promised.

    The time a job asks for is its estimate (``qos.estimated_runtime``, else the walltime; without,
    a year). User, account, partition and QOS are its fields ``user``, ``group``, ``queue`` and
    ``qos_name``, as converted accounting has them. Follows slurmctld 22.05, for jobs of whole
    nodes.
    """

    drains = False
    summary = "Slurm: multifactor priority, backfill passes, limits, --deadline"
    Options = SlurmOptions
    options: SlurmOptions

    def __init__(self, options: SlurmOptions | None = None) -> None:
        super().__init__(options)
        self.options.check()

    def begin(self, system: System) -> None:
        """Start with an empty queue."""
        from qops_batsim.scheduling.slurm.passes import arrive, decide_slurm
        from qops_batsim.scheduling.table import FIRST_CAPACITY, SlotTable

        super().begin(system)
        self._decide, self._arrive = decide_slurm, arrive
        self._table = SlotTable()
        self.book = self.new_book(self.machine_size, FIRST_CAPACITY)

    def new_book(self, hosts: int, slots: int) -> Book:
        """Return the state at the beginning, with room for so many jobs; named users are known."""
        from qops_batsim.scheduling.slurm.book import USERS, new_book

        options = self.options
        self.rules = options.rules()
        self._hosts = hosts
        self._users: dict[tuple[str, str], int] = {}
        self._accounts: dict[str, int] = {}
        self._rows = {name: row for row, name in enumerate(options.qos)}
        named = [name.split("/") for name in options.shares if "/" in name]
        self.book = new_book(slots, max(64, 2 * len(named)), hosts, self.rules)
        for account, user in named:
            self._user(account, user)
        self.book.counts[USERS] = len(named)
        return self.book

    def enrol(self, slot: int, job: Job) -> None:
        """Note who submits the job in a slot, and what of its priority does not change."""
        fields, options = job.fields, self.options
        self.book.users[slot] = self._user(
            str(fields.get("group", "")), str(fields.get("user", ""))
        )
        kind = str(fields.get("qos_name", ""))
        self.book.qos[slot] = self._rows.get(kind, len(self._rows))
        chosen = fields.get("queue", None if job.qos is None else job.qos.queue)
        most = max(options.partitions.values(), default=1.0) or 1.0
        partition = options.partitions.get(str(chosen), 1.0) / most
        dearest = max((each.priority for each in options.qos.values()), default=0.0) or 1.0
        size = job.processors / self._hosts
        self.book.base[slot] = (
            options.weight_size * (1 - size if options.favor_small else size)
            + options.weight_partition * min(partition, 1.0)
            + options.weight_qos * options.qos.get(kind, QosRules()).priority / dearest
        )

    def _user(self, account: str, user: str) -> int:
        """Return the number of a user of an account, who may be new."""
        known = self._users.get((account, user))
        if known is not None:
            return known
        number, shares = len(self._users), self.options.shares
        if number == len(self.book.accounts):
            self._grow_users()
        self._users[account, user] = number
        group = self._accounts.setdefault(account, len(self._accounts))
        self.book.accounts[number] = group
        self.book.account_shares[group] = shares.get(account, 1.0)
        self.book.user_shares[number] = shares.get(f"{account}/{user}", 1.0)
        return number

    def _grow_users(self) -> None:
        """Make room for twice as many users."""
        import numpy as np

        book = self.book
        names = ("accounts", "user_shares", "account_shares", "usage", "factors")
        more = {name: np.concatenate([getattr(book, name)] * 2) for name in names}
        more["usage"][len(book.usage) :] = 0.0
        more["factors"][len(book.usage) :] = 1.0
        more["order"] = np.arange(2 * len(book.order))
        more["order"][: len(book.order)] = book.order
        for name in ("levels", "user_jobs", "user_processors"):
            array = getattr(book, name)
            more[name] = np.concatenate([array, np.zeros_like(array)], axis=1)
        self.book = book._replace(**more)

    def arrived(self, job: Job) -> None:
        """Put the job into the line, in order of priority."""
        import numpy as np

        slot = self._table.add(job)
        book = self.book
        if slot == len(book.base):
            names = ("base", "priorities", "users", "qos", "line", "cancelled", "cancel_dates")
            more = {name: np.concatenate([getattr(book, name)] * 2) for name in names}
            self.book = book._replace(**more)
        self.enrol(slot, job)
        self._arrive(self.rules, self._table.numbers, self.book, slot)

    def left(self, job: Job) -> None:
        """Note that the job has ended, for the next decision."""
        from qops_batsim.scheduling.slurm.book import GONE

        counts = self.book.counts
        self.book.gone[counts[GONE]] = self._table.slot_of(job.id)
        counts[GONE] += 1

    def resized(self) -> None:
        """Note which hosts are there, and which will not be."""
        import numpy as np

        from qops_batsim.scheduling.host_words import words_of
        from qops_batsim.scheduling.slurm.book import CHANGED

        present, words = HostSet.first(self.machine_size) - self.capacity.away, len(self.book.free)
        self.book.present[:] = words_of(present, words)
        windows = self.capacity.windows
        self.book = self.book._replace(
            window_dates=np.array([each[1:3] for each in windows]).reshape(-1, 2),
            window_hosts=np.array(
                [words_of(each.hosts, words) for each in windows], np.uint64
            ).reshape(-1, words),
        )
        self.book.free[:] = words_of(self.free_hosts, len(self.book.free))
        self.book.counts[CHANGED] = 1

    def withdraw_wider(self, processors: int) -> list[Job]:
        """Take such jobs out of the line."""
        slots = self._waiting()
        return self._without(slots[self._table.numbers.processors[slots] > processors])

    def withdraw(self, job_id: str) -> tuple[Job | None, bool]:
        """Take a job out of the line."""
        slots = self._waiting()
        found = self._without(slots[slots == self._table.known_slot(job_id)])
        return (found[0] if found else None), False

    def _waiting(self) -> Ints:
        """Return the slots of the waiting jobs in order."""
        from qops_batsim.scheduling.slurm.book import WAITING

        return self.book.line[: self.book.counts[WAITING]]

    def _without(self, slots: Ints) -> list[Job]:
        """Take these out of the line, and return them."""
        import numpy as np

        from qops_batsim.scheduling.slurm.book import CHANGED, WAITING

        waiting = self._waiting()
        kept = waiting[~np.isin(waiting, slots)]
        self.book.line[: len(kept)] = kept
        self.book.counts[WAITING], self.book.counts[CHANGED] = len(kept), 1
        return [self._table.jobs[slot] for slot in slots.tolist()]

    def schedule(self, now: float) -> None:
        """Carry out what the passes decide, and ask for the next call."""
        from qops_batsim.scheduling.host_words import hosts_of
        from qops_batsim.scheduling.slurm.book import CANCELLED, STARTED
        from qops_batsim.timing import up_to_grid

        date = float(self._decide(up_to_grid(now), self.rules, self._table.numbers, self.book))
        book, jobs = self.book, self._table.jobs
        for slot in book.cancelled[: book.counts[CANCELLED]].tolist():
            self.reject(jobs[slot], self.why_cancelled(slot, jobs[slot]))
        for place in book.started[: book.counts[STARTED]].tolist():
            self.start(jobs[book.run_slots[place]], hosts_of(book.run_hosts[place]))
        book.counts[CANCELLED] = book.counts[STARTED] = 0
        if date < math.inf:
            asked = self.news.reachable(date, now, len(self._decisions))
            self._decisions.append(CallMeLater(asked))

    def why_cancelled(self, slot: int, job: Job) -> Refusal:
        """Return why the job in a slot was cancelled."""
        from qops_batsim.scheduling.slurm.passes import most_allowed

        most = most_allowed(self.rules, self.book, slot)
        if job.processors > most:
            wanted = f"asks for {job.processors} processors"
            return free_text(f"{wanted}; its user or QOS may use {most:g} at once")
        assert job.qos is not None
        assert job.qos.deadline is not None
        left = job.qos.deadline - float(self.book.cancel_dates[slot])
        return no_time(job.estimate, left, job.qos.deadline)
