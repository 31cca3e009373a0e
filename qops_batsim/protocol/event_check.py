"""Checking a remote engine's events against all earlier messages.

Modules trust their engine. In this process that is ours; at the other end of a socket anything may
be, and what it says is checked here, once for all modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from qops_batsim.core.hostset import HostSet
from qops_batsim.errors import InputError, shown
from qops_batsim.job_fields import is_amount, is_whole_number
from qops_batsim.jobs import FINAL_STATES, REJECTED
from qops_batsim.limits import MAX_HOSTS, MAX_SECONDS, MAX_STEPS
from qops_batsim.protocol.decisions import (
    ChangeJobState,
    Decision,
    ExecuteJob,
    KillJob,
    RegisterJob,
    RejectJob,
)
from qops_batsim.protocol.events import (
    MACHINES_AWAY,
    MACHINES_BACK,
    Event,
    HostsInState,
    JobCompleted,
    JobKilled,
    JobSubmitted,
    Notify,
    SimulationBegins,
    SimulationEnds,
)
from qops_batsim.protocol.messages import Message

_WAITING = "waits"
_REGISTERED = "was registered"
_REJECTED = "was rejected"
_ENDED = "has ended before"
_FORCED = "was given another state"
"""States of a job that does not run; of one that does, the hosts are kept."""

_ENDS = frozenset(FINAL_STATES) - {REJECTED}

_AMOUNTS = {
    "delay": ("delay",),
    "parallel_homogeneous": ("cpu", "com"),
    "parallel_homogeneous_total": ("cpu", "com"),
}
"""Fields of profiles that are numbers; Batsim has further types, which modules pass over."""


class EventCheck:
    """Checks the engine's messages in one simulation: hosts exist, jobs' states are possible, dates
    do not decrease.

    Call :meth:`check` with each message before the scheduler handles it, and :meth:`note` with the
    decisions afterwards.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._hosts: HostSet | None = None
        self._jobs: dict[str, str | HostSet] = {}
        self._to_kill: set[str] = set()
        self._to_acknowledge: set[str] = set()
        self._checks: dict[type, Callable[[Any], None]] = {
            JobSubmitted: self._submitted,
            JobCompleted: self._completed,
            JobKilled: self._killed,
            Notify: self._notified,
            SimulationBegins: self._begins,
        }

    def check(self, message: Message[Event]) -> None:
        """Raise an InputError with event and field if an event of the message is impossible."""
        now = message.now
        if not self._now <= now <= MAX_SECONDS:
            if now < self._now:
                raise InputError(
                    f"message at {now:g} s comes after one at {self._now:g} s; "
                    "a date that is not earlier is expected"
                )
            raise InputError(
                f"message at {now:g} s is too late; a date up to {MAX_SECONDS:g} s is expected"
            )
        self._now = now

        ended = False

        for index, item in enumerate(message.events):
            body = item.body
            try:
                if not abs(item.timestamp) <= MAX_SECONDS:
                    date = f"timestamp is {item.timestamp:g}"
                    raise InputError(f"{date}; a date up to {MAX_SECONDS:g} s is expected")

                if ended:
                    raise InputError(
                        "an event follows SIMULATION_ENDS; none is expected after that"
                    )
                if self._hosts is None and type(body) is not SimulationBegins:
                    raise InputError(
                        "the first event is another one; SIMULATION_BEGINS is expected first"
                    )

                check = self._checks.get(type(body))
                if check is not None:
                    check(body)
                elif isinstance(body, HostsInState):
                    self._known_hosts(body.resources, "resources")
            except InputError as error:
                where = f"message at {now:g} s, event {index} ({body.TYPE})"
                raise InputError(f"{where}: {error}") from None
            ended = type(body) is SimulationEnds

    def note(self, decisions: Sequence[Decision]) -> None:
        """Record the scheduler's decisions: they determine which events are possible later."""
        jobs = self._jobs

        for decision in decisions:
            kind = type(decision)
            if kind is ExecuteJob:
                jobs[decision.job_id] = decision.alloc  # type: ignore[union-attr]
            elif kind is RejectJob:
                jobs[decision.job_id] = _REJECTED  # type: ignore[union-attr]
            elif isinstance(decision, KillJob):
                self._to_kill.update(decision.job_ids)
            elif isinstance(decision, RegisterJob):
                jobs[decision.job_id] = _REGISTERED
                self._to_acknowledge.add(decision.job_id)
            elif isinstance(decision, ChangeJobState):
                jobs[decision.job_id] = _FORCED

    def _begins(self, event: SimulationBegins) -> None:
        if self._hosts is not None:
            raise InputError("SIMULATION_BEGINS comes a second time; once is expected")
        hosts = event.compute_resources
        if len(hosts) > MAX_HOSTS:
            raise InputError(
                f"compute_resources has {len(hosts)} hosts; up to {MAX_HOSTS} are accepted"
            )
        if event.nb_compute_resources != len(hosts):
            raise InputError(
                f"nb_compute_resources is {shown(event.nb_compute_resources)}; "
                f"{len(hosts)}, the number of hosts in compute_resources, is expected"
            )

        for index, host in enumerate(hosts):
            if host.id != index:
                raise InputError(
                    f"compute_resources[{index}]: id is {shown(host.id)}; {index}, the host's "
                    "position in the list, is expected"
                )

        self._hosts = HostSet.first(len(hosts))
        for workload, profiles in event.profiles.items():
            for name, profile in profiles.items():
                _check_profile(profile, f"profile {shown(name)} of workload {shown(workload)}")

    def _submitted(self, event: JobSubmitted) -> None:
        job_id = event.job_id
        before = self._jobs.get(event.job_id)
        if event.job.id != job_id:
            raise InputError(
                f"job.id is {shown(event.job.id)}; {shown(job_id)}, the same as job_id, is expected"
            )

        # A registered job may have been started, and may even have ended, before its news comes.
        acknowledged = job_id in self._to_acknowledge
        if before is not None and not acknowledged:
            told = before if isinstance(before, str) else "runs"
            raise InputError(f"job_id is {shown(job_id)}, a job that {told}; a new job is expected")

        if event.profile is not None:
            _check_profile(event.profile, "profile")

        self._to_acknowledge.discard(job_id)
        if before in (None, _REGISTERED):
            self._jobs[job_id] = _WAITING

    def _completed(self, event: JobCompleted) -> None:
        job_id = event.job_id
        hosts = self._jobs.get(event.job_id)
        if event.job_state not in _ENDS:
            raise InputError(
                f"job_state is {shown(event.job_state)}; one of {', '.join(sorted(_ENDS))} "
                "is expected"
            )

        self._known_hosts(event.alloc, "alloc")
        if hosts == _FORCED:
            return

        if not isinstance(hosts, HostSet):
            told = "is not known" if hosts is None else hosts
            raise InputError(
                f"job_id is {shown(job_id)}, a job that {told}; a running job is expected"
            )

        if event.alloc.mask != hosts.mask:
            raise InputError(
                f"alloc is {shown(str(event.alloc))}; {shown(str(hosts))}, the hosts on which job "
                f"{shown(job_id)} was started, is expected"
            )
        self._jobs[job_id] = _ENDED

    def _killed(self, event: JobKilled) -> None:
        for job_id in event.job_ids:
            if job_id not in self._to_kill:
                raise InputError(
                    f"job_ids has {shown(job_id)}, which the scheduler did not kill; jobs of its "
                    "KILL_JOB are expected"
                )
            if isinstance(self._jobs.get(job_id), HostSet):
                raise InputError(
                    f"job_ids has {shown(job_id)}, whose JOB_COMPLETED has not come; it is "
                    "expected before JOB_KILLED"
                )

        for job_id, progress in event.job_progress.items():
            share = progress.get("progress")
            if share is not None and not (is_amount(share) and share <= 1):
                raise InputError(
                    f"job_progress of job {shown(job_id)}: progress is {shown(share)}; a number "
                    "from 0 to 1 is expected"
                )

    def _notified(self, event: Notify) -> None:
        if event.type in (MACHINES_AWAY, MACHINES_BACK):
            resources = event.fields.get("resources")
            if not isinstance(resources, str):
                raise InputError(
                    f"resources is {shown(resources)}; hosts, a text such as '0-3 5', are expected"
                )
            self._known_hosts(HostSet.parse(resources), "resources")

    def _known_hosts(self, hosts: HostSet, field: str) -> None:
        assert self._hosts is not None
        if hosts.mask & ~self._hosts.mask:
            raise InputError(
                f"{field} is {shown(str(hosts))}; hosts 0 to {len(self._hosts) - 1} are expected"
            )


def _check_profile(profile: Mapping[str, Any], where: str) -> None:
    """Raise an InputError if a field of an execution profile that schedulers read is invalid."""
    kind = str(profile.get("type"))
    for field in _AMOUNTS.get(kind, ()):
        amount = profile.get(field, 0)
        if not is_amount(amount):
            raise InputError(f"{where}: {field} is {shown(amount)}; a number is expected")

    if kind == "parallel":
        for field in ("cpu", "com"):
            amounts = profile.get(field) or []
            if not isinstance(amounts, list) or not all(map(is_amount, amounts)):
                raise InputError(f"{where}: {field} is {shown(amounts)}; numbers are expected")
    elif kind == "composed":
        steps = profile.get("seq", [])
        repeat = profile.get("repeat", 1)
        if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
            raise InputError(f"{where}: seq is {shown(steps)}; names of profiles are expected")
        if not is_whole_number(repeat) or not 0 <= repeat <= MAX_STEPS:
            raise InputError(
                f"{where}: repeat is {shown(repeat)}; a whole number up to {MAX_STEPS} is expected"
            )
