"""The availability profile as Python users see it."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import overload

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import Job
from qops_batsim.core.node_profile import NodeProfile, request_of
from qops_batsim.core.node_request import FoundHosts, Places
from qops_batsim.core.profile import Profile
from qops_batsim.errors import CountsHostsError, SimulationError, require_type
from qops_batsim.timing import SHORTEST, down_to_grid, duration_on_grid, end_of, up_to_grid

INFINITY = float("inf")


class NotFreeError(SimulationError, ValueError):
    """Raised when processors or hosts to reserve are not free, or when those to give back were not
    reserved.
    """


@dataclass(frozen=True, slots=True)
class Fit:
    """Where a job fits: a start (seconds, infinite if it never fits) and the hosts found.

    ``hosts`` is what ``start(job, hosts)`` of a scheduler or manager takes: None for any hosts,
    on a machine whose hosts are whole.
    """

    job: Job
    start: float
    hosts: HostSet | None


class AvailabilityProfile:
    """The availability profile: how many processors are free from each date on.

    It has steps at whole microseconds: a reservation counts from its start rounded down to its end
    rounded up. Dates that are asked about may lie between two microseconds.

    Where jobs share hosts by amounts, what is free is not a number: a profile of running jobs tells
    where a job fits (:meth:`fit`), and reserves that. It does so on a machine of whole hosts, too.

    >>> profile = AvailabilityProfile(4)
    >>> profile.reserve(0, 10, 3)
    >>> profile.earliest_fit(after=0, duration=5, processors=2)
    10.0
    >>> profile.steps()
    [(0.0, 1), (10.0, 4)]

    Parameters
    ----------
    processors
        Size of the machine, all free at first.
    start
        Date from which the profile is known (seconds).
    """

    __slots__ = ("_found", "_nodes", "_overdue", "_profile", "_reserved", "_since", "processors")

    def __init__(self, processors: int, start: float = 0.0) -> None:
        _check_numbers(processors, start=start)
        self.processors = processors
        self._since = float(start)
        self._overdue = 0
        self._profile = Profile(processors, down_to_grid(self._since))
        # Where hosts are shared: the same profile, the last fit of each job, and what is reserved.
        self._nodes: NodeProfile | None = None
        self._found: dict[Job, tuple[float, Places]] = {}
        self._reserved: dict[tuple[Job, float], Places] = {}

    @classmethod
    def like(
        cls, profile: Profile, processors: int, since: float | None = None
    ) -> AvailabilityProfile:
        """Return a copy of a core :class:`Profile` for a machine of ``processors`` processors, or
        hosts that jobs share; ``since`` is the exact date (seconds) of its beginning. O(steps).
        """
        made = cls(processors, profile.start if since is None else since)
        if isinstance(profile, NodeProfile):
            made._profile = made._nodes = NodeProfile(profile.layout)
        made._profile.copy_from(profile)
        return made

    def note_overdue(self, processors: int) -> None:
        """Record that so many of the free processors belong to jobs that are about to end: a job
        does not :meth:`fit` there at once.
        """
        self._overdue += processors

    def copy(self) -> AvailabilityProfile:
        """Return an independent copy of the profile. O(steps)."""
        made = self.like(self._profile, self.processors, self._since)
        made._overdue = self._overdue
        made._found = dict(self._found)
        made._reserved = dict(self._reserved)
        return made

    def fit(self, job: Job, after: float | None = None) -> Fit:
        """Return the earliest fit of a job for its ``duration``, from a date (seconds) on; None:
        from the beginning of the profile, which is now. O(steps).

        The job can be started at a fit that is ``<= now``, on ``fit.hosts``.
        """
        require_type("job", job, Job, "a job")
        if after is not None:
            _check_numbers(job.processors, after=after)
        after = self._since if after is None else max(float(after), self._since)
        if self._nodes is None:
            start = self.earliest_fit(after, job.duration, job.processors)
            if start <= self._since and self._overdue:
                begin = self._profile.start
                free = self._profile.lowest_free(begin, end_of(begin, SHORTEST))
                if free < job.processors + self._overdue:
                    after = up_to_grid(self._since + SHORTEST)
                    start = self.earliest_fit(after, job.duration, job.processors)
            return Fit(job, start, None)

        request = request_of(self._nodes.layout, job)
        start = self._nodes.try_fit(job, self._date(after))
        if start == INFINITY:
            return Fit(job, start, HostSet())
        places = request.found.copied()
        self._found[job] = start, places
        # Between two microseconds the profile begins at the next one, where now counts as there.
        if start == self._date(after) and after <= self._since:
            start = after
        return Fit(job, start, FoundHosts(places))

    def earliest_fit(self, after: float, duration: float, processors: int) -> float:
        """Return the first date from ``after`` on (seconds) at which a job fits; infinite if it
        never fits. O(steps).

        That is ``after`` itself, never an earlier date, where the job fits from there on; else the
        date of a step. A scheduler may therefore start a job whose fit is ``<= now``.
        """
        self._require_whole("earliest_fit")
        _check_numbers(processors, after=after, duration=duration)
        after = max(float(after), self._profile.start)
        begin = down_to_grid(after)
        if after != begin:
            # What is free at such a date is what is free since the microsecond before it.
            end = up_to_grid(after + max(float(duration), SHORTEST))
            if self._profile.lowest_free(begin, end) >= processors:
                return after
            begin = up_to_grid(after)
        return self._profile.earliest_fit(begin, duration_on_grid(float(duration)), processors)

    @overload
    def reserve(self, start: float, duration: float, processors: int) -> None: ...

    @overload
    def reserve(self, job: Job, start: float, /) -> None: ...

    def reserve(self, start, duration, processors=None):  # type: ignore[no-untyped-def]
        """Reserve processors from ``start`` for ``duration`` seconds (may be infinite), or as
        ``reserve(job, start)`` what a job takes from ``start`` on if it fits there. O(steps).

        On shared hosts that is on the hosts that the last :meth:`fit` found for it, if it was at
        this start; else on those that it has in the plan, if it is planned at it; else on those of
        the rule. Hosts that are not free are left for the next of these.

        Raises
        ------
        NotFreeError
            Fewer processors are free at some moment, or the job does not fit there.
        """
        if isinstance(start, Job):
            self._reserve_job(start, duration)
            return
        self._require_whole("reserve")
        _check_numbers(processors, start=start, duration=duration)
        start, end = _whole_microseconds(float(start), float(duration))
        for date, free in self._profile.steps_between(start, end):
            if free < processors:
                raise NotFreeError(
                    f"{processors} processors cannot be reserved: {free} are free at {date:g} s"
                )
        self._profile.reserve(start, end, processors)

    def _reserve_job(self, job: Job, start: float) -> None:
        nodes = self._nodes
        if nodes is None:
            self.reserve(start, job.duration, job.processors)
            return
        _check_numbers(job.processors, start=start)
        request = request_of(nodes.layout, job)
        begin = self._date(start)
        end = end_of(begin, job.duration)
        if begin == INFINITY:
            return
        found, places = self._found.get(job, (INFINITY, None))
        if places is None or found != begin or not nodes.are_free(places, begin, end):
            if not nodes.find_at(job, begin, end):
                what = f"job {job.id} cannot have a reservation"
                raise NotFreeError(f"{what} at {start:g} s, where it does not fit")
            places = request.found.copied()
        nodes.take_amount(begin, end, places)
        self._reserved[job, begin] = places

    @overload
    def release(self, start: float, duration: float, processors: int) -> None: ...

    @overload
    def release(self, job: Job, start: float, /) -> None: ...

    def release(self, start, duration, processors=None):  # type: ignore[no-untyped-def]
        """Give back processors reserved from ``start`` for ``duration`` seconds, or as
        ``release(job, start)`` what was reserved for a job from ``start`` on. O(steps).

        Raises
        ------
        NotFreeError
            The processors were not all reserved, or nothing was for the job.
        """
        if isinstance(start, Job):
            self._release_job(start, duration)
            return
        self._require_whole("release")
        _check_numbers(processors, start=start, duration=duration)
        start, end = _whole_microseconds(float(start), float(duration))
        self._profile.release(start, end, processors)
        if self._profile.highest_free() > self.processors:
            self._profile.reserve(start, end, processors)
            raise NotFreeError(
                f"{processors} processors cannot be released from {start:g} s for {duration:g} s: "
                "they were not all reserved"
            )

    def _release_job(self, job: Job, start: float) -> None:
        if self._nodes is None:
            self.release(start, job.duration, job.processors)
            return
        if start == INFINITY:
            return
        _check_numbers(job.processors, start=start)
        begin = self._date(start)
        places = self._reserved.pop((job, begin), None)
        if places is None:
            raise NotFreeError(f"nothing was reserved for job {job.id} at {start:g} s")
        self._nodes.give_amount(begin, end_of(begin, job.duration), places)

    def trim(self, now: float) -> None:
        """Drop the part of the profile before ``now`` (seconds). O(steps)."""
        now = float(now)
        self._since = max(self._since, now)
        self._profile.trim(down_to_grid(now) if self._nodes is None else up_to_grid(now))

    def steps(
        self,
    ) -> list[tuple[float, int]] | dict[str, list[tuple[float, dict[str, int]]]]:
        """Return the steps as (date in seconds, free processors from then on); where hosts are
        shared, by host as (date, what is free of each kind from then on), licences last.
        """
        nodes = self._nodes
        if nodes is None:
            return self._profile.steps()
        machine = nodes.layout.machine
        rows = [(name, machine.kinds) for name in machine.names]
        if nodes.layout.licences:
            rows.append(("licences", tuple(nodes.layout.licences)))
        return {
            name: [
                (max(date, nodes.start), dict(zip(kinds, amounts, strict=False)))
                for date, amounts in nodes.row_steps(row)
            ]
            for row, (name, kinds) in enumerate(rows)
        }

    def _date(self, date: float) -> float:
        """Return a date of shared hosts' steps (seconds): that of the profile's beginning for an
        earlier one.
        """
        return max(up_to_grid(float(date)), self._profile.start)

    def _require_whole(self, method: str) -> None:
        if self._nodes is not None:
            raise CountsHostsError(
                f"{method} of an AvailabilityProfile counts processors, but jobs share these hosts "
                "by amounts; availability().fit(job) finds hosts for a job, and "
                "reserve(job, start) reserves them"
            )


def _check_numbers(processors: object, **seconds: object) -> None:
    require_type("processors", processors, numbers.Integral, "a whole number")
    if processors < 0:  # type: ignore[operator]
        raise SimulationError(f"processors is {processors}; a whole number from 0 on is expected")
    for name, value in seconds.items():
        require_type(name, value, numbers.Real, "a number of seconds")
        if value != value:
            raise SimulationError(f"{name} is nan; a number of seconds is expected")


def _whole_microseconds(start: float, duration: float) -> tuple[float, float]:
    """Return the start rounded down to microseconds and the end rounded up (seconds); the end is
    the start if the duration is not positive.
    """
    begin = down_to_grid(start)
    if duration <= 0:
        return begin, begin
    return begin, max(up_to_grid(start + duration), end_of(begin, SHORTEST))
