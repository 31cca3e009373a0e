"""Typed refusals: why a job was refused or got less than was promised, and the sentence for it.

A scheduler makes a :class:`Refusal`; ``_qos.csv`` and the decision log carry its kind, the blamed
job and the date as columns and fields, next to the sentence that :func:`sentence` makes of it.
Sentences are for people: nothing reads them back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

import msgspec

from qops_batsim.texts import amount_text, exact_text


class RefusalKind(StrEnum):
    """Kinds of reasons why a job is refused, killed or gets a later promise; ``PREFIX_qos.csv`` has
    these texts.
    """

    NONE = ""
    """Nothing does."""
    FREE_TEXT = "free_text"
    """A reason in the scheduler's own words."""
    TOO_WIDE = "too_wide"
    """It asks for more processors than the machine has, or for none."""
    HOSTS_GONE = "hosts_gone"
    """It asks for more processors than will ever be there again."""
    HOSTS_AWAY = "hosts_away"
    """It asks for more processors than are there at present."""
    NO_TIME = "no_time"
    """Its deadline is nearer than its estimate is long."""
    OWN_DEADLINE = "own_deadline"
    """The search found no plan that keeps its own deadline."""
    OTHER_DEADLINE = "other_deadline"
    """The search found no plan that keeps the deadline of another job."""
    NO_START = "no_start"
    """No start lets all its tasks end in time and keeps every promise."""
    NO_HOSTS = "no_hosts"
    """Its tasks find no hosts at once that break no promise."""
    PART_TOO_WIDE = "part_too_wide"
    """Another job of its application is too wide."""
    KILLED_FOR_IT = "killed_for_it"
    """It was admitted, and the blamed job was killed for it."""
    KILLED_AT_ESTIMATE = "killed_at_estimate"
    """It had run for as long as was estimated."""
    STOPPED = "stopped"
    """It was stopped for the blamed job, and goes on as another one."""
    HOSTS_LOST = "hosts_lost"
    """Hosts had left, so that a promise gave way to a later one."""
    CANCELLED = "cancelled"
    """Its user cancelled it while it waited."""
    START_TAKEN = "start_taken"
    """Its processors are not free at the start that it asks for."""
    NO_FIXED_STARTS = "no_fixed_starts"
    """The scheduler promises no start at a date."""
    PROMISE_LIMIT = "promise_limit"
    """Its user or account would hold promises for more work than one may."""
    NO_SUCH_KIND = "no_such_kind"
    """It asks for a kind that no host has."""
    HOSTS_TOO_SMALL = "hosts_too_small"
    """It asks for more of a kind than as many hosts have."""
    NO_LABELS = "no_labels"
    """It asks for more hosts than have its labels."""
    AMOUNTS_APART = "amounts_apart"
    """Each kind that it asks for is there, but not all of them on as many hosts."""
    TOO_FEW_LICENCES = "too_few_licences"
    """It asks for more of a licence than the machine has."""

    @classmethod
    def _missing_(cls, value: object) -> RefusalKind:
        return cls.FREE_TEXT  # Of a later version; logs have the sentence as well.


_OWN = RefusalKind.OWN_DEADLINE
_OTHER = RefusalKind.OTHER_DEADLINE
"""By far the most frequent kinds, which are looked for first."""


class OfferOutcome(StrEnum):
    """Whether a later deadline was offered to a job, and whether the user accepted."""

    NONE = ""
    """There was no question of one."""
    NOT_WORTH_MAKING = "not_worth_making"
    """The user's tolerance is below the slack that would be added."""
    NO_DATE = "no_date"
    """No deadline could be kept."""
    TOO_LATE = "too_late"
    """It would be later than any date."""
    NOT_TAKEN = "not_taken"
    """The user did not take it."""
    TAKEN = "taken"
    """The user took it."""

    @classmethod
    def _missing_(cls, value: object) -> OfferOutcome:
        return cls.NONE  # Of a later version.


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reason why a job was refused, killed or got a later promise (times in seconds).

    Attributes
    ----------
    kind
        The kind of obstacle.
    blamed
        Full id of the job whose deadline would be missed (also the job's own), that was
        killed for it, or for which it was stopped.
    date
        The date in question: the deadline that would be missed, or when hosts were lost.
    insertion_point, waiting, positions, steps_back
        Where the search gave up: at an insertion point among the waiting jobs, at each of a number
        of positions, or after a number of steps back.
    processors, machine_size, hosts
        Processors (tasks of an application) asked for, size of the machine, hosts missing.
    estimate, time_left, run_time
        Estimated run time (None: for ever), time left until the deadline, time that the job has
        run.
    work, held, most
        Of a promise beyond a limit: work of the job, work that its user or account holds promises
        for already, and the limit (processor-seconds).
    offer, offered, tolerance, slack_factor
        What became of an offer, the offered deadline, the factors of the user and of the scheduler.
    broken
        The promise that could not be kept.
    name
        Of the application, of the job as which a stopped one goes on, or of the user or account;
        the kind of amounts, or the licence, of which there is too little.
    asked, available, labels
        Of a request that no host or machine fits: how much of the kind on each host, how many
        tasks, or how much of the licence; how much of it there is at most; labels of the hosts.
    text
        Words of a scheduler's own.
    """

    kind: RefusalKind
    blamed: str | None = None
    date: float | None = None
    insertion_point: int | None = None
    waiting: int | None = None
    positions: int | None = None
    steps_back: int | None = None
    processors: int = 0
    machine_size: int = 0
    hosts: int = 0
    estimate: float | None = None
    time_left: float = 0.0
    run_time: float | None = None
    work: float = 0.0
    held: float = 0.0
    most: float = 0.0
    offer: OfferOutcome = OfferOutcome.NONE
    offered: float | None = None
    tolerance: float = 0.0
    slack_factor: float = 1.0
    broken: float | None = None
    name: str = ""
    text: str = ""
    asked: int = 0
    available: int = 0
    labels: tuple[str, ...] = ()


def free_text(text: str) -> Refusal:
    """Return a Refusal whose reason is a scheduler's own text."""
    return Refusal(kind=RefusalKind.FREE_TEXT, text=text)


def as_refusal(reason: object) -> Refusal:
    """Return a scheduler's reason as a Refusal; a text becomes a Refusal with that text."""
    return reason if isinstance(reason, Refusal) else free_text(str(reason))


def no_time(estimate: float, left: float, deadline: float) -> Refusal:
    """Return the Refusal of a job whose estimate is longer than the time ``left`` to its deadline
    (seconds).
    """
    return Refusal(
        kind=RefusalKind.NO_TIME,
        date=deadline,
        estimate=estimate if estimate < math.inf else None,
        time_left=left,
    )


def start_taken(asked: float, earliest: float) -> Refusal:
    """Return the Refusal of a job that cannot start at the date ``asked``, but from ``earliest`` on
    (seconds).
    """
    free = earliest if earliest < math.inf else None
    return Refusal(kind=RefusalKind.START_TAKEN, date=asked, offered=free)


def missed_deadline(blamed: str, date: float, *, own: bool, **place: Any) -> Refusal:
    """Return the Refusal of a job because the deadline ``date`` of job ``blamed`` (maybe its own)
    would be missed; ``place`` are the fields that tell where the search gave up.
    """
    return Refusal(kind=_OWN if own else _OTHER, blamed=blamed, date=date, **place)


def seconds(date: float | None) -> str:
    """Return a date or duration as text with its unit (``"30 s"``); None or infinity is "an
    unlimited time".
    """
    return "an unlimited time" if date is None or math.isinf(date) else f"{exact_text(date)} s"


def sentence(refusal: Refusal, moment: Callable[[float], str] = seconds) -> str:
    """Return the text of a Refusal for users; ``moment`` turns a date (seconds) into text."""
    why = _why(refusal, moment)
    return why + _about_offer(refusal, moment) if refusal.offer else why


def sentences(refusals: Iterable[Refusal]) -> str:
    """Return the texts of several Refusals of a job, joined by semicolons."""
    return "; ".join(map(sentence, refusals))


def _why(r: Refusal, moment: Callable[[float], str]) -> str:
    """Return what blocked the job, in words."""
    # Nearly all refusals are these, and each case below costs a look.
    if r.kind is _OWN or r.kind is _OTHER:
        whose = "its own deadline"
        if r.kind is _OTHER:
            whose = f"the deadline of {r.blamed or 'another job'}"
        date = "" if r.date is None else f" ({moment(r.date)})"
        return f"{whose}{date} would be missed{_place(r)}"

    match r.kind:
        case RefusalKind.FREE_TEXT:
            return r.text

        # The machine
        case RefusalKind.TOO_WIDE:
            wanted = f"{r.processors} processors" if r.processors else "no processor"
            return f"asks for {wanted}, the machine has {r.machine_size}"
        case RefusalKind.HOSTS_GONE:
            are = "is" if r.hosts == 1 else "are"
            return (
                f"asks for {r.processors} processors; {r.hosts} of {r.machine_size} hosts {are} "
                "gone and will not return"
            )
        case RefusalKind.HOSTS_AWAY:
            away = f"{r.hosts} of {r.machine_size} hosts are away"
            return f"asks for {r.processors} processors; {away}"
        case RefusalKind.HOSTS_LOST:
            at = "" if r.date is None else f" at {moment(r.date)}"
            lost = f"machine lost {r.hosts} host{'s' * (r.hosts != 1)}{at}"
            if r.broken is None:
                return lost
            broken = f"{r.broken:.6f} s" if moment is seconds else moment(r.broken)
            return f"{lost}; the promise of {broken} could not be kept"

        # What hosts have
        case RefusalKind.NO_SUCH_KIND:
            return f"asks for {amount_text(r.name, r.asked)}, which no host has"
        case RefusalKind.NO_LABELS:
            return f"asks for {_labelled(r)}, {_have(r.hosts)} all of these labels"
        case RefusalKind.HOSTS_TOO_SMALL:
            asked, most = (amount_text(r.name, each) for each in (r.asked, r.available))
            if r.processors == 1:
                return f"asks for {_labelled(r)} with {asked}, the largest has {most}"
            have = f"{_have(r.hosts)} that, {r.processors} have {most} each"
            return f"asks for {_labelled(r)} with {asked} each; {have}"
        case RefusalKind.AMOUNTS_APART if r.asked:
            held = f"these hold {r.available} at most"
            return f"asks for {r.asked} tasks on at most {_labelled(r)}, {held}"
        case RefusalKind.AMOUNTS_APART if r.name:
            return f"asks for {_labelled(r)} with {r.name} at once, {_have(r.hosts)} it"
        case RefusalKind.AMOUNTS_APART:
            return f"its parts ask for {r.processors} different hosts, and find fewer that fit"
        case RefusalKind.TOO_FEW_LICENCES:
            return f"asks for {r.asked} licences of {r.name}, the machine has {r.available}"

        # Deadlines
        case RefusalKind.NO_TIME:
            left = seconds(r.time_left)
            return f"needs {seconds(r.estimate)} and its deadline is {left} away"
        case RefusalKind.PROMISE_LIMIT:
            work, held, most = (f"{part / 3600:,.6g}" for part in (r.work, r.held, r.most))
            return (
                f"needs {work} processor-hours, and {r.name} holds promises for {held} of the "
                f"{most} that one may hold"
            )

        # Tasks of an application
        case RefusalKind.NO_START:
            end = "in time" if r.date is None else f"by {moment(r.date)}"
            return f"no start lets {r.processors} tasks end {end} and keeps every promise"
        case RefusalKind.NO_HOSTS:
            return f"no hosts for {r.processors} tasks at once without breaking a promise"
        case RefusalKind.PART_TOO_WIDE:
            return f"another job of application {r.name} is too wide"

        # Kills
        case RefusalKind.KILLED_FOR_IT:
            return f"{r.blamed} was killed for it"
        case RefusalKind.KILLED_AT_ESTIMATE if r.run_time is None:
            return f"killed at its estimate of {seconds(r.estimate)}"
        case RefusalKind.KILLED_AT_ESTIMATE:
            extended = f"extended from its estimate of {seconds(r.estimate)}"
            return f"killed at {seconds(r.run_time)}, {extended}"
        case RefusalKind.STOPPED:
            return f"stopped for {r.blamed}, goes on as {r.name}"
        case RefusalKind.CANCELLED:
            return "its user cancelled it"

        # Fixed starts
        case RefusalKind.START_TAKEN:
            asked = f"asks to start at {moment(r.date or 0.0)}"
            if r.offered is None:
                return f"{asked}, and its processors are never free for so long from then on"
            return f"{asked}, and its processors are free for so long from {moment(r.offered)} on"
        case RefusalKind.NO_FIXED_STARTS:
            return f"no start at {moment(r.date or 0)} is promised"
    return ""


def _labelled(r: Refusal) -> str:
    """Return how many hosts a job asks for, and with which labels."""
    with_labels = f" labelled {', '.join(r.labels)}" if r.labels else ""
    return f"{r.processors} host{'s' * (r.processors != 1)}{with_labels}"


def _have(hosts: int) -> str:
    return {0: "no host has", 1: "1 has"}.get(hosts, f"{hosts} have")


def _place(r: Refusal) -> str:
    """Return where the search gave up, if that is told."""
    if r.insertion_point is not None:
        return f" at insertion point {r.insertion_point} of {r.waiting or 0} waiting jobs"
    if r.positions is not None:
        return f" at each of {r.positions} positions"
    return "" if r.steps_back is None else f" after {r.steps_back} steps back"


def _about_offer(r: Refusal, moment: Callable[[float], str]) -> str:
    """Return what to append to a refusal's text about an offer of a later deadline, "" if there was
    none.
    """
    match r.offer:
        case OfferOutcome.NOT_WORTH_MAKING:
            return (
                f"; no offer is worth making: the tolerance factor {r.tolerance:g} is below the "
                f"slack factor {r.slack_factor:g}"
            )
        case OfferOutcome.NO_DATE:
            return "; no deadline can be offered"
        case OfferOutcome.TOO_LATE:
            ends = r.offered is not None and math.isfinite(r.offered)
            date = f"{seconds(r.offered)} is" if ends else "it would be"
            return f"; no deadline can be offered: {date} later than any date"
        case OfferOutcome.NOT_TAKEN:
            return f"; the offered deadline {moment(r.offered or 0.0)} was not taken"
        case OfferOutcome.TAKEN:
            return "; the offer was taken"
        case _:
            return ""
