"""The live loop: poll a resource manager, ask the scheduler, execute its decisions.

A step is one poll. What it brings and what is decided about it are on the disk, in one
transaction, before anything is done; what is to be done is an order, which is sent until its
effect is seen. So a process that ends at any moment is replaced by another one on the same
journal: it tells a fresh module what was told before, checks that the answers are the same, and
goes on with the orders that are open.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec.structs import replace

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.refusal import sentence
from qops_batsim.core.system import HostDescription
from qops_batsim.errors import InputError
from qops_batsim.live.book import LiveBook, away_after
from qops_batsim.live.clock import CentreClock
from qops_batsim.live.journal import CONFIRMED, SENT, VOID, About, JobRun, Journal, Order
from qops_batsim.live.manager import (
    CentreManager,
    CommandFailed,
    JobPhase,
    NodeState,
    SeenJob,
    Unreachable,
    natural_key,
)
from qops_batsim.live.shadow import ShadowManager
from qops_batsim.protocol.driver import ModuleDriver
from qops_batsim.protocol.events import EngineConfig, Event, SimulationBegins
from qops_batsim.protocol.port import SchedulerModule, make_scheduler
from qops_batsim.queue.nodes_away import without_away
from qops_batsim.queue.queue_quote import SHARE, WITHIN
from qops_batsim.queue.queue_state import QueuedJob, QueueNodes, QueueState
from qops_batsim.queue.source import QueueSource
from qops_batsim.running.search_asker import SearchAsker, deadline_scheduler, resume
from qops_batsim.schedulers.standing import Standing
from qops_batsim.workload.accounting.node_sizes import NodeAway

SHADOW = "shadow"
LIVE = "live"
"""Modes: in the shadow (decide, change nothing) and deciding."""

MOST_TOLD = 20
"""Most users that are told of a new planned start in one step."""

MOST_REFUSED = 5
"""Most refusals that are worked out and sent in one step."""


OTHER_VERSION = (
    "use the version of qops-batsim that made the journal, or begin a new journal "
    "(`live release-all` first)"
)


class _Rehearsed(Exception):
    """Raised to undo what a dry run has written to the journal."""


class LiveCentre:
    """Runs a scheduler on a real machine: polls Slurm, asks the scheduler, and sends its orders.

    Parameters
    ----------
    manager
        The resource manager whose jobs are decided about; in the mode ``shadow`` a
        :class:`~qops_batsim.live.shadow.ShadowManager`.
    journal
        The journal, opened for writing.
    about
        Settings for a new journal (nodes and origin are filled in); None for one that has begun.
    forget_after
        Number of messages after which the scheduler restarts from its snapshot, if it can: ended
        jobs are forgotten, and a later process begins at the snapshot.
    resend
        Time without effect after which an order is sent again (seconds).
    keeps_refused, takes_best_effort
        See :class:`~qops_batsim.live.book.LiveBook`.
    clock, uptime
        Return seconds since 1970, and since the machine was started: see
        :class:`~qops_batsim.live.clock.CentreClock`.
    on_line
        Called with each line that an operator might want to read.

    Attributes
    ----------
    module
        The scheduler, as a decision module.
    """

    def __init__(
        self,
        manager: CentreManager,
        journal: Journal,
        about: About | None = None,
        *,
        forget_after: int = 500,
        resend: float = 10.0,
        keeps_refused: bool = False,
        takes_best_effort: bool = True,
        clock: Callable[[], float] = time.time,
        uptime: Callable[[], float] | None = None,
        on_line: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._manager = manager
        self._journal = journal
        self._clock = CentreClock(clock, uptime)
        if isinstance(manager, ShadowManager):
            manager.clock = self._clock.look
        self._resend = resend
        self._on_line = on_line
        self._sent: dict[int, float] = {}
        self._doubt = ""
        self._told_behind: set[str] = set()
        self._unreachable_since: float | None = None
        self._seen: dict[str, SeenJob] = {}
        self._knows_hosts = False
        begins = self._begin(about) if journal.about is None else None
        self.about = journal.begun
        self.module: SchedulerModule = deciding_module(self.about.scheduler, self.about.options)
        self._book = LiveBook(
            self.about,
            journal.entries(only_open=True),
            count_runs=journal.count_runs,
            keeps_refused=keeps_refused,
            takes_best_effort=takes_best_effort,
            tells_others=self.module.hears_of_others,
        )
        self._clock.go_on(self.about.origin + journal.last_message[1], journal.believed)
        self._driver = ModuleDriver(self.module, any_engine=True)
        self._forget_after = forget_after
        self._standing_at = 0
        if begins is not None:
            with journal.transaction():
                self._ask(0.0, [begins])
        else:
            self._standing_at, standing = journal.last_standing()
            if standing is not None:
                self._go_on(standing.module)
                self._book.go_on(standing)
            self.replayed = replay(self._driver, journal, self._book, after=self._standing_at)

    def _begin(self, about: About | None) -> SimulationBegins:
        """Write the nodes and the date of second 0 to a new journal; return the first event."""
        if about is None:
            raise InputError(
                f"{self._journal.path}: the journal is new, and no scheduler is named for it; "
                "the name of a scheduler is expected"
            )
        nodes = sorted(self._manager.nodes(), key=natural_key)
        if hosts := self._manager.shared_hosts():
            nodes = sorted(hosts)  # As platforms number hosts.
            about = replace(about, hosts=[hosts[name] for name in nodes])
        self._knows_hosts = True
        if not nodes:
            raise InputError(
                f"Slurm lists no nodes in {about.partition or 'any partition'}; a partition that "
                "`sinfo` lists is expected (--partition)"
            )
        waiting = [
            job.submitted
            for job in self._manager.jobs()
            if job.phase is JobPhase.WAITING and not job.problem
        ]
        origin = float(int(min([self._clock.look(), *waiting])))
        with self._journal.transaction():
            self._journal.begin(replace(about, origin=origin, nodes=nodes))
        return simulation_begins(self._journal.begun)

    def _go_on(self, snapshot: msgspec.Raw) -> None:
        """Replace the scheduler by a fresh one that is restored from an encoded snapshot."""
        module = make_scheduler(self.about.scheduler, self.about.options)
        self.module = module
        self._driver = ModuleDriver(module, any_engine=True)
        self._driver.decisions_on(0.0, [simulation_begins(self.about)])
        try:
            module.go_on(msgspec.msgpack.decode(snapshot, type=Standing))
        except (msgspec.MsgspecError, InputError) as error:
            why = f"the snapshot of its scheduler cannot be read ({error})"
            raise InputError(f"{self._journal.path}: {why}; {OTHER_VERSION}") from None

    def _forget(self) -> None:
        """Store a snapshot and restart the scheduler from it, after enough messages."""
        number = self._journal.last_message[0]
        if number - self._standing_at < self._forget_after:
            return
        module = self.module
        standing = module.standing()
        if standing is not None:
            snapshot = msgspec.Raw(msgspec.msgpack.encode(standing))
            self._journal.keep_standing(self._book.standing(snapshot))
            self._standing_at = number
            self._go_on(snapshot)

    # One step

    def step(self) -> None:
        """Poll the resource manager once, ask the scheduler, and send the orders that follow."""
        try:
            jobs, nodes = self._poll()
            if not nodes:  # As of a partition that is gone, whose jobs are not told either.
                raise Unreachable("Slurm lists no nodes; at least one node is expected")
        except Unreachable as error:
            self._note_outage(error)
            return
        journal = self._journal
        with journal.transaction():
            now = self._look()
            if self._unreachable_since is not None:
                journal.note(now, "outage", f"over after {now - self._unreachable_since:.1f} s")
                self._unreachable_since = None
            self._take(jobs, nodes, now)
            self._forget()
        journal.has_news(now)

        # What is to be done is on the disk: from here on the process may end at any moment.
        self._send(now)
        self._tell(now)

    def _poll(self) -> tuple[list[SeenJob], dict[str, NodeState]]:
        """Return the jobs and nodes as they are; first ask again what the nodes have, where jobs
        share them.
        """
        if self.about.hosts and not self._knows_hosts:
            begun = dict(zip(self.about.nodes, self.about.hosts, strict=True))
            now = self._manager.shared_hosts()
            self._knows_hosts = True
            if now != begun:
                self._book.alarms.append(
                    "the nodes have other amounts than when the journal was begun, by which it "
                    "goes on; a new journal is expected"
                )
        return self._manager.jobs(), self._manager.nodes()

    def rehearse(self) -> None:
        """Report the orders that a step would send; leave the journal and the jobs unchanged."""
        journal = self._journal
        with suppress(_Rehearsed), journal.transaction():
            self._take(*self._poll(), self._look())
            for order in self.open_orders():
                self._on_line(f"would {order.kind} {order.job} {order.detail}".rstrip())
            raise _Rehearsed

    def _take(self, jobs: Sequence[SeenJob], nodes: Mapping[str, NodeState], now: float) -> None:
        """Tell the scheduler what a poll has brought, and write all of it to the journal."""
        looked = self._manager.real if isinstance(self._manager, ShadowManager) else jobs
        self._see(looked, now)
        events = self._book.observe(jobs, nodes, now, may_refuse=not self._doubt)
        self._confirm({job.id: job for job in jobs}, now)
        while events:
            events = self._ask(round(now - self.about.origin, 6), events)
        self._write(now)

    def _look(self) -> float:
        """Return the date; raise an alarm when the machine's calendar jumps or is trusted again."""
        now = self._clock.look()
        if self._clock.believed != self._journal.believed:
            self._journal.keep_believed(self._clock.believed)
        if self._clock.doubt != self._doubt:
            self._doubt = self._clock.doubt
            date = centre_date(self.about, now)
            self._alarm(now, self._doubt or f"the calendar is followed again: it is {date}")
        return now

    def _alarm(self, now: float, text: str) -> None:
        self._journal.note(now, "alarm", text)
        self._on_line(f"alarm: {text}")

    def _note_outage(self, error: Unreachable) -> None:
        if self._unreachable_since is None:
            self._unreachable_since = self._clock.look()
            with self._journal.transaction():
                self._journal.note(self._unreachable_since, "outage", str(error))
            self._on_line(f"no news: {error}")

    def _see(self, jobs: Sequence[SeenJob], now: float) -> None:
        """Write jobs whose state has changed to the journal; raise an alarm for unreadable ones."""
        for job in jobs:
            if self._seen.get(job.id) == job:
                continue
            if job.problem:
                self._book.alarms.append(f"job {job.id} {job.problem}")
            else:
                self._journal.see(job, now)
        self._seen = {job.id: job for job in jobs}

    def _ask(self, now: float, events: list[Event]) -> list[Event]:
        """Tell the scheduler of events and write its decisions; return events to tell next."""
        decisions = self._driver.decisions_on(now, events)
        self._journal.add_message(now, events, decisions)
        again = self._book.carry_out(decisions, now + self.about.origin)
        self._note_answers(now + self.about.origin)
        return again

    def _note_answers(self, now: float) -> None:
        """Copy the scheduler's promises, planned starts and refusals to the jobs' entries."""
        log = self.module.qos_log
        book = self._book
        planned = self.module.planned_starts()
        origin = self.about.origin
        for entry in [*book.jobs.values(), *book.changed.values()]:
            if not entry.is_ours or entry.phase == "gone":
                continue
            before = entry.planned, entry.promise, entry.answer, entry.reason
            record = log.record(entry.run)
            if entry.run in planned:
                start = planned[entry.run]
                entry.planned = origin + start if start < math.inf else None

            if entry.deadline is not None and record.admitted_deadline is not None:
                if not entry.answer:
                    entry.answer = "promised"
                    entry.answered = now
                # What was promised first counts, also after a loss of nodes.
                if entry.promise is None:
                    entry.promise = origin + record.admitted_deadline

            if record.reasons:
                entry.reason = "; ".join(sentence(why, self.date_text) for why in record.reasons)
            if record.new_promises and entry.reason != before[3]:
                book.alarms.append(f"job {entry.job}: {entry.reason}")
            if before != (entry.planned, entry.promise, entry.answer, entry.reason):
                book.changed[entry.run] = entry

    def _write(self, now: float) -> None:
        """Write changed jobs, new orders and alarms to the journal."""
        book = self._book
        journal = self._journal
        journal.write_entries(book.changed.values())
        for kind, entry, detail in book.orders:
            journal.add_order(kind, entry, now, detail)
        for text in book.alarms:
            self._alarm(now, text)
        book.changed.clear()
        book.orders.clear()
        book.alarms.clear()

    def _confirm(self, seen: Mapping[str, SeenJob], now: float) -> None:
        """Close the orders whose effect a poll shows, or that can no longer have any effect."""
        closed: list[Order] = []
        for order in self.open_orders():
            state = state_of(order, seen.get(order.job))
            if order.kind == "start" and state == SENT:
                entry = self._book.jobs.get(order.job)
                if entry is None or entry.run != order.run:
                    state = VOID  # Given up.
            if state in (CONFIRMED, VOID):
                order.state = state
                order.confirmed = now
                closed.append(order)
        self._journal.update_orders(closed)

    def open_orders(self) -> list[Order]:
        """Return the orders to the resource manager whose effect was not seen yet."""
        return self._journal.orders(only_open=True)

    def _send(self, now: float) -> None:
        """Send new orders, and those again that have had no effect for some time."""
        uptime = self._clock.uptime()
        orders = self.open_orders()
        sent = {order.number: self._sent.get(order.number, -math.inf) for order in orders}
        due = [order for order in orders if uptime - sent[order.number] >= self._resend]
        # Promises wait for starts; a refusal has time, and is worked out: many would delay them.
        refusals = [order for order in due if order.kind == "refuse"]
        due = [order for order in due if order.kind != "refuse"] + refusals[:MOST_REFUSED]
        self._sent = sent | dict.fromkeys((order.number for order in due), uptime)
        if not due:
            return

        for order in due:
            order.state = SENT
            order.sent = now
            order.times += 1
        with self._journal.transaction():
            self._journal.update_orders(due)
            for order in due:
                text = f"{order.kind} {order.job} {order.detail}".rstrip()
                self._journal.note(now, "sent", text)
                self._on_line(text)

        # Many jobs are held at once, by one command; nothing else is sent if nobody answers.
        holds = [order for order in due if order.kind == "hold"]
        held = [order.job for order in holds]
        if holds and not self._try(holds, partial(self._manager.hold, held)):
            return
        for order in due:
            if order.kind != "hold" and not self._try([order], partial(self._carry_out, order)):
                return

    def _carry_out(self, order: Order) -> None:
        """Send the order to start, requeue or refuse one job to the resource manager."""
        if order.kind == "start":
            hosts = order.detail.split(",")
            entry = self._book.jobs.get(order.job)
            if entry is None or not entry.request:
                self._manager.start(order.job, hosts)
            else:
                part = entry.request.parts[0]
                cores = 0 if part.exclusive else part.amounts.get("cores", 0)
                self._manager.start(order.job, hosts, cores)
        elif order.kind == "requeue":
            self._manager.requeue(order.job)
        elif order.kind == "refuse" and order.job in self._book.jobs:
            self._manager.refuse(order.job, self._refusal_text(self._book.jobs[order.job]))

    def _try(self, orders: list[Order], send: Callable[[], None]) -> bool:
        """Send orders by calling ``send``; return False if the resource manager does not answer."""
        try:
            send()
        except (CommandFailed, Unreachable) as error:
            for order in orders:
                order.problem = str(error)
            with self._journal.transaction():
                self._journal.update_orders(orders)
                self._alarm(self._clock.now, str(error))
            return isinstance(error, CommandFailed)
        return True

    # What users are told

    def date_text(self, seconds: float) -> str:
        """Format a date (seconds since second 0 of the journal) in the centre's time zone."""
        return centre_date(self.about, self.about.origin + seconds)

    def _tell(self, now: float) -> None:
        """Show users the changed promises and planned starts of their jobs, oldest jobs first."""
        texts: dict[str, str] = {}
        for entry in self._book.waiting():
            text = self._status_text(entry)
            if text != entry.told and len(texts) < MOST_TOLD:
                texts[entry.job] = text
                entry.told = text
                self._book.changed[entry.run] = entry

        # Who waits behind other tasks of an array is told so once.
        behind = self._book.behind
        self._told_behind.intersection_update(behind)
        new = [job for job in behind if job not in self._told_behind][: MOST_TOLD - len(texts)]
        self._told_behind.update(new)
        for job in new:
            texts[job] = (
                f"waits for tasks of its array, of which {behind[job]} may run at once, and is "
                "answered after them; submit it without % to be answered now"
            )
        if not texts:
            return
        try:
            self._manager.tell(texts)
        except (CommandFailed, Unreachable) as error:
            self._on_line(f"alarm: {error}")

    def _status_text(self, entry: JobRun) -> str:
        if entry.is_untold:
            return f"waits, and cannot start: {entry.reason}"
        promised = "best effort"
        if entry.promise is not None:
            lost = ", which cannot be kept" if entry.deadline is None else ""
            promised = f"promised by {centre_date(self.about, entry.promise)}{lost}"
        elif entry.deadline is not None:
            promised = f"asked for {centre_date(self.about, entry.deadline)}"
        if entry.planned is None:
            return promised
        return f"{promised}, planned start {centre_date(self.about, entry.planned)}"

    def _refusal_text(self, entry: JobRun) -> str:
        """Return what a refused job's user is told: the reason and a possible deadline."""
        text = f"refused: {entry.reason or 'no reason was given'}"
        earliest = self._earliest(entry)
        if earliest is not None:
            text += f"; could be promised by {centre_date(self.about, earliest)}"
        return text

    def _earliest(self, entry: JobRun) -> float | None:
        """Return the earliest end that a refused job could be promised (s since 1970), if any."""
        snapshot = self.module.standing()
        if entry.limit is None or entry.asked is None or snapshot is None:
            return None
        about = self.about
        try:
            module = deadline_scheduler(about.scheduler, about.options)
        except InputError:
            return None  # It promises nothing.
        scheduler = resume(module, snapshot, len(about.nodes), amounts=about.machine)
        manager = scheduler.manager
        told = self._book.job_of(replace(entry, deadline=None))
        if manager.why_never(told) is not None or told.processors > manager.capacity.present:
            return None
        scheduler.plan.arrived(told)
        end = SearchAsker(scheduler, told).earliest(within=WITHIN, share=SHARE).end
        return about.origin + end if end < math.inf else None


def replay(
    driver: ModuleDriver, journal: Journal, book: LiveBook | None = None, *, after: int = 0
) -> int:
    """Tell a fresh scheduler the recorded messages numbered above ``after``; return how many.

    An InputError tells that the scheduler answers otherwise than recorded, as another version
    may. ``book``, if given, is brought to the same state.
    """
    count = 0
    for number, told, answered in journal.messages(after):
        events = [stamped.body for stamped in told.events]
        before = [stamped.body for stamped in answered.events]
        decisions = driver.decisions_on(told.now, events)
        if decisions != before:
            raise InputError(
                f"{journal.path}: message {number}: the scheduler now gives other decisions than "
                f"the journal records; {OTHER_VERSION}"
            )

        if book is not None:
            book.recall(events, decisions)
        count += 1
    return count


def deciding_module(scheduler: str, options: Mapping[str, Any]) -> SchedulerModule:
    """Make a scheduler for live use; InputError if it cannot handle jobs that users cancel."""
    module = make_scheduler(scheduler, options)
    if not module.hears_of_cancellations:
        raise InputError(
            f"scheduler {scheduler!r} cannot decide live, as it cannot take a job that its user "
            "cancels out of its queue; a scheduler with a method `cancelled` is expected"
        )
    return module


def simulation_begins(about: About) -> SimulationBegins:
    """Return the event with which a scheduler's session begins: it names the nodes, and what they
    have where jobs share them.
    """
    nodes = about.nodes
    hosts = about.hosts or [{}] * len(nodes)
    return SimulationBegins(
        nb_resources=len(nodes),
        nb_compute_resources=len(nodes),
        allow_compute_sharing=bool(about.hosts),
        config=EngineConfig(dynamic_jobs_enabled=True, profile_reuse_enabled=True),
        compute_resources=[
            HostDescription(place, name, properties=properties)
            for place, (name, properties) in enumerate(zip(nodes, hosts, strict=True))
        ],
    )


def state_of(order: Order, job: SeenJob | None) -> str:
    """Return an order's new state (sent, confirmed or void), given its job as last observed.

    ``job`` is None if it is no longer listed. An order is about one run: once the job was
    requeued, the order has had its effect or never will.
    """
    is_listed = job is not None and job.phase is not JobPhase.ENDED
    runs = job is not None and job.phase is JobPhase.RUNNING
    is_over = job is None or not is_listed or job.restarts > order.restarts

    # A job that runs is neither held nor refused any more.
    if order.kind == "hold":
        if is_over or runs:
            return VOID
        return CONFIRMED if job is not None and job.is_held else order.state
    if order.kind == "refuse":
        if runs:
            return VOID
        return order.state if is_listed else CONFIRMED
    has_effect = is_over or (runs and order.kind == "start")
    return CONFIRMED if has_effect else order.state


def hosts_away(journal: Journal) -> HostSet:
    """Return the hosts that are away by a journal's last message."""
    after, standing = journal.last_standing()
    away = HostSet() if standing is None else HostSet.parse(standing.away)
    for _, told, _ in journal.messages(after):
        for event in told.events:
            away = away_after(away, event.body)
    return away


def queue_of(about: About, entries: Sequence[JobRun], now: float, away: HostSet) -> QueueState:
    """Return the journal's running and waiting jobs as a queue that quotes can be computed for, on
    the hosts that are not ``away``.
    """
    machine = about.machine
    book = LiveBook(about)
    jobs: list[QueuedJob] = []
    for entry in entries:
        if entry.phase in ("refused", "gone") or entry.is_untold:
            continue
        job = QueuedJob(
            id=entry.run,
            processors=entry.nodes,
            estimate=None if entry.limit is None else entry.limit + about.margin,
            submission=entry.submitted,
            deadline=entry.promise if entry.deadline is not None else None,
        )
        if machine is not None and entry.amounts:
            here = {} if entry.phase == "waiting" else book.held_by(entry)
            held = {about.nodes[host]: amounts for host, amounts in here.items()}
            cores = max(entry.amounts.totals["cores"], 1)
            job = replace(job, amounts=(replace(entry.amounts, held=held),), processors=cores)
        if entry.phase == "waiting":
            job = replace(job, planned_start=entry.planned)
        else:
            start = min(entry.start or entry.ordered or now, now)
            job = replace(job, start=start, nodes=",".join(entry.hosts))
        jobs.append(job)

    state = QueueState(
        source="the journal",
        processors=len(about.nodes),
        now=now,
        jobs=jobs,
        margin=about.margin,
    )
    if machine is not None:
        nodes = QueueNodes(
            machine=machine,
            away=dict.fromkeys(about.nodes[host] for host in away),
            partitions=tuple(machine.labels),
        )
        return replace(state, processors=machine.totals["cores"], nodes=nodes)
    seen = ("as live has seen",)
    gone = [NodeAway((about.nodes[host], 1, 0), seen, None, 0) for host in away]
    return without_away(state, gone)


def journal_queue(source: QueueSource) -> QueueState:
    """Return the queue as of now in the live journal that is a source's file."""
    path = source.path
    assert path is not None
    with Journal(path) as journal:
        about = journal.begun
        entries = journal.entries(only_open=True)
        away = hosts_away(journal)
        source.check_age(str(path), journal.last_news)
    return queue_of(about, entries, source.now or time.time(), away)


def centre_date(about: About, date: float) -> str:
    """Format a date (s since 1970) in the centre's time zone: ``Tue 2026-12-01 08:00:30``."""
    try:
        local = datetime.fromtimestamp(date, ZoneInfo(about.time_zone))
    except (ValueError, OverflowError, OSError):  # Limits of thousands of years, one after another.
        return "after the year 9999"
    return local.strftime("%a %Y-%m-%d %H:%M:%S")


def hand_back(journal: Journal | None, manager: CentreManager, now: float) -> list[str]:
    """Release every job that is held for live decisions to Slurm; return the jobs' ids.

    These jobs bear the mark of the submission filter or of this program, or the journal says
    that they are held. If the journal cannot be read, the marks alone decide.
    """
    known: set[str] = set()
    if journal is not None:
        with suppress(InputError, sqlite3.Error):
            known = {entry.job for entry in journal.entries(only_open=True)}
    ours = _held_for_us(manager, known)
    if journal is not None and ours:
        with suppress(InputError, sqlite3.Error), journal.transaction():
            journal.note(now, "sent", f"release {','.join(ours)}")

    try:
        manager.release(ours)
    except CommandFailed as error:  # Some have ended in between.
        still = _held_for_us(manager, known)
        if left := [job for job in still if job in ours]:
            raise CommandFailed(
                f"jobs {','.join(left)} are still held ({error}); repeat `live release-all`, or "
                "run `scontrol release` on them"
            ) from None
    return ours


def _held_for_us(manager: CentreManager, known: Container[str]) -> list[str]:
    waiting = (job for job in manager.jobs() if job.phase is JobPhase.WAITING)
    return [job.id for job in waiting if job.is_handed or (job.is_held and job.id in known)]
