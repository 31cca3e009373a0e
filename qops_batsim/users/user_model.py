"""Users: what they submit, when they are present, and how they react to refusals.

A user has *sessions* of *batches* of jobs. Jobs of a batch are submitted at their offsets, whatever
has become of the others. When all of them have ended, the user goes on after a *think time*, or
takes a *break*, after which the next session begins with the next batch. Some leave without waiting
for the batch: their break begins at once.

These are the notions of N. Zakay and D. G. Feitelson, "Workload resampling for performance
evaluation of parallel job schedulers" (ICPE 2013; Concurrency and Computation 2014) and "Preserving
user behavior characteristics in trace-based simulation of parallel job scheduling" (MASCOTS 2014):
what depends on what is kept from a log, not when it happened. That users go on less often the
longer they had to wait is the finding of E. Shmueli and D. G. Feitelson, "Uncovering the effect of
system performance on user behavior from traces of parallel systems" (MASCOTS 2007), on which their
simulations are built ("On simulation and design of parallel-systems schedulers: are we doing the
right thing?", IEEE TPDS 2009). What users answer to a refusal (:class:`Reactions`) is ours: we know
of no data.

A break is measured in seconds of the *week's profile*: an hour in which few sessions begin counts
less than one in which many do. So users who come later than they did still come by day.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec

from qops_batsim.data_problems import check_ranges, converted, read_toml
from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError, require
from qops_batsim.files import decoded, read_bytes, read_text, write_text
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.workload.need import NeedChoices, with_times
from qops_batsim.workload.workload_model import Workload, check_processors, check_seed

HOUR = 3600.0
WEEK = 604_800.0
HOURS = 168
"""Hours of a week."""

MOST_TIMES = 100
"""Most users for each one of a log."""

_Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_SECONDS)]
_SomeSeconds = Annotated[float, msgspec.Meta(gt=0, le=MAX_SECONDS)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Factor = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
_LeastOne = Annotated[float, msgspec.Meta(ge=1, le=1e6)]
_Known = Literal["users", "exact"]


class BatchJob(NamedTuple):
    """A job that a user submits in a batch.

    Submitted ``offset`` seconds after the first one, it takes ``processors`` for ``run_time``
    seconds, and is killed at its ``walltime`` (seconds), if any.
    """

    offset: _Seconds
    processors: Annotated[int, msgspec.Meta(ge=1)]
    run_time: _SomeSeconds
    walltime: _SomeSeconds | None


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """Jobs that a user submits together, and what the user did after them in the log.

    All jobs had ended ``response`` seconds after the last submission. ``then`` tells how the user
    continued: with the next batch after ``time`` seconds of thinking (``think``); with another
    session after a ``break``, beyond the think limit; or with another session without waiting for
    the jobs (``leave``), beyond the gap limit. Breaks are in seconds of the week's profile.
    """

    jobs: Annotated[tuple[BatchJob, ...], msgspec.Meta(min_length=1)]
    response: _Seconds
    then: Literal["think", "break", "leave"]
    time: _Seconds


class User(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user, with batches of jobs; sessions begin from ``since`` to ``until`` (seconds).

    The ``batches`` are submitted in their order, from ``first`` on, and over again. Who ``lies``
    exaggerates urgency, as do the share of all that :class:`Reactions` tells.
    """

    name: str
    since: _Seconds
    until: _Seconds
    batches: Annotated[tuple[Batch, ...], msgspec.Meta(min_length=1)]
    first: int = 0
    lies: bool = False


class Sessions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of users' sessions (think times, breaks), equal for all users.

    Attributes
    ----------
    think_limit
        Longest think time within a session (seconds); 20 minutes is the traditional one (Zakay and
        Feitelson, "On identifying user session boundaries in parallel workload logs", JSSPP 2012).
    gap_limit
        Longest time from one submission to the next one in a batch (seconds).
    stay, patience
        A user whose batch took R seconds goes on in the session with probability
        stay / (1 + R / patience); patience in seconds.
    think, spread
        Median of the think times (seconds), and standard deviation of their logarithms, for users
        who go on though they did not in the log.
    pause
        Median break beyond the limit (seconds of the week's profile), for users who had none.
    week
        The week's profile, of mean 1: how many sessions begin in each hour of a week from Monday
        on, of those who take a break then.
    monday
        Second at which a week begins; up to 0.
    """

    think_limit: _SomeSeconds = 1200.0
    gap_limit: _SomeSeconds = 3600.0
    stay: _Share = 0.8
    patience: _SomeSeconds = 1200.0
    think: _SomeSeconds = 120.0
    spread: Annotated[float, msgspec.Meta(ge=0, le=10)] = 1.5
    pause: _SomeSeconds = 43_200.0
    week: Annotated[tuple[_SomeSeconds, ...], msgspec.Meta(min_length=HOURS, max_length=HOURS)] = (
        1.0,
    ) * HOURS
    monday: Annotated[float, msgspec.Meta(ge=-WEEK, le=0)] = 0.0

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if a value is out of range."""
        check_ranges(self, "sessions")

    def continuation_probability(self, response: float) -> float:
        """Return the probability that a user continues after a response time (seconds)."""
        return self.stay / (1.0 + response / self.patience)


class Answers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often users react in each way to a refusal: shares that add up to 1.

    ``leave``: give the job up. ``later``: ask at once for the latest deadline that is tolerated.
    ``retry``: ask again later. ``split``: ask for two jobs of half the processors. ``shorten``: ask
    for half the run time. ``elsewhere``: have another centre run it, where it does not wait.
    """

    leave: _Share = 0.2
    later: _Share = 0.3
    retry: _Share = 0.3
    split: _Share = 0.05
    shorten: _Share = 0.05
    elsewhere: _Share = 0.1

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` unless the shares are valid."""
        total = sum(msgspec.structs.astuple(self))
        accepted = "shares that add up to 1 are expected"
        require(math.isclose(total, 1), "answers: sum", total, accepted)


class Reactions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How users react to a scheduler's answers: our assumption, from no log.

    Attributes
    ----------
    answers
        What they do when a job is refused.
    tries
        How often a job is asked for at most.
    tolerance
        Latest deadline that is accepted, as a multiple of the response time that is needed; also
        for offers (``qos.tolerance_factor``).
    answer_after, retry_after
        Seconds after which they answer; and, on average, after which they try again.
    liars
        Share of the users who exaggerate urgency if that pays.
    worth
        What it is worth to them that a job ends at once rather than when it is needed, in resource
        charges of the job.
    price
        Price of urgency: this factor × resource charge × estimate / response time asked for.
    tightest
        The least response time that they ask for, as a multiple of the estimate.
    hoarders, promises
        Share of the users who ask for each job this number of further times, each time for a later
        deadline, and give back all promises but the first that starts.
    """

    answers: Answers = Answers()
    tries: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3
    tolerance: _LeastOne = 2.0
    answer_after: _SomeSeconds = 60.0
    retry_after: _SomeSeconds = 3600.0
    liars: _Share = 0.0
    worth: _Factor = 1.0
    price: _Factor = 0.0
    tightest: _LeastOne = 1.1
    hoarders: _Share = 0.0
    promises: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 5

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if a value is out of range."""
        check_ranges(self, "reactions")
        self.answers.check()

    def asked(self, needed: float, estimate: float) -> float:
        """Return the response time (s) requested by a user who lies; ``needed`` is the true need.

        Of all r it is the one of most worth × (1 - r / needed) - price × estimate / r, from the
        tightest one to what is needed. So a price of worth × needed / estimate makes honest.
        """
        least = min(self.tightest * estimate, needed)
        if self.worth == 0:
            return needed
        best = math.sqrt(self.price * estimate * needed / self.worth)
        return min(max(best, least), needed)


class Users(
    msgspec.Struct, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="users"
):
    """All users of a centre, as stored in a file of users.

    Attributes
    ----------
    processors
        Of their machine.
    seed
        What it draws: going on, answers, who lies and who hoards.
    deadlines
        How needs are drawn; None: no job has a deadline.
    estimates
        What planning uses: the ``users``' walltimes, or ``exact`` run times, without walltimes.
    deadlines_by
        What needs are drawn from; None: as ``estimates``.
    calendar
        The dates of its seconds; None where they are not known.
    """

    processors: int
    users: tuple[User, ...]
    seed: int = 1
    sessions: Sessions = Sessions()
    reactions: Reactions = Reactions()
    deadlines: NeedChoices | None = None
    estimates: _Known = "users"
    deadlines_by: _Known | None = None
    calendar: Calendar | None = None
    provenance: dict[str, Any] = {}

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if a value is out of range."""
        check_processors(self.processors)
        check_seed(self.seed)
        self.sessions.check()
        self.reactions.check()
        if self.calendar is not None:
            self.calendar.check("calendar: time_zone")
        if self.deadlines is not None:
            self.deadlines.check()
            if self.deadlines.mix.hours and self.calendar is None:
                raise InputError(
                    "deadlines by working hours need dates; a workload with a calendar, or "
                    "a mix without hours, is expected"
                )

        names = {user.name for user in self.users}
        accepted = "one or more users of different names are accepted"
        require(0 < len(names) == len(self.users), "users", len(self.users), accepted)
        for user in self.users:
            where = f"user {user.name}"
            count = len(user.batches)
            require(0 <= user.first < count, f"{where}: first", user.first, f"0 to {count - 1}")
            dates = user.since, user.until
            require(user.since <= user.until, f"{where}: since, until", dates, "dates in order")

        widest = max(job.processors for job in self.jobs)
        require(widest <= self.processors, "a job's processors", widest, f"1 to {self.processors}")

    def no_jobs(self) -> Workload:
        """Return an empty workload, for a run in which these users submit all jobs."""
        return Workload(
            jobs=[],
            profiles={},
            processors=self.processors,
            source="the jobs of users who react",
            calendar=self.calendar,
        )

    @property
    def jobs(self) -> Iterator[BatchJob]:
        """All jobs of all users; each job occurs once."""
        return (job for user in self.users for batch in user.batches for job in batch.jobs)


class UserChoices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the model of users, from a TOML file: see ``workload users --example``."""

    reactions: Reactions = Reactions()
    deadlines: NeedChoices | None = None
    estimates: _Known = "users"
    think_limit: _SomeSeconds = 1200.0
    gap_limit: _SomeSeconds = 3600.0

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if a value is out of range."""
        self.reactions.check()
        if self.deadlines is not None:
            self.deadlines.check()


_Read = TypeVar("_Read", UserChoices, Users)

EXAMPLE = Path(__file__).with_name("choices.toml")
"""A file of choices with all that can be set, as it is by default."""


def read_choices(path: str | Path | None) -> UserChoices:
    """Read the settings of the model of users (TOML); without a file, return the defaults."""
    if path is None:
        return UserChoices()
    what = "a file of choices about users (TOML)"
    given = read_toml(read_text(path, what=what), str(path), what)
    if "deadlines" in given:
        given["deadlines"] = with_times(given["deadlines"])
    return _checked(converted(given, UserChoices, str(path), what), path)


def _checked(read: _Read, path: str | Path) -> _Read:
    """Return what was read from a file; an InputError of its check names the file."""
    try:
        read.check()
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return read


_decoder = msgspec.json.Decoder(Users)


def read_users(path: str | Path) -> Users:
    """Read a file of users (JSON)."""
    what = "a file of users (qops-batsim workload users)"
    return _checked(decoded(read_bytes(path, what=what), _decoder, path, what), path)


def write_users(users: Users, path: str | Path) -> None:
    """Write a file of users, one a line."""
    told = msgspec.to_builtins(users)
    listed = told.pop("users")
    head = msgspec.json.format(msgspec.json.encode(told), indent=2).decode().removesuffix("\n}")
    lines = ",\n".join(msgspec.json.encode(each).decode() for each in listed)
    write_text(path, f'{head},\n  "users": [\n{lines}\n]}}\n')


def drawn(*what: object) -> float:
    """Return a pseudo-random number in [0, 1) that depends only on the arguments."""
    digest = blake2b(" ".join(map(str, what)).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53


def more_users(users: Users, times: float, seed: int) -> Users:
    """Return ``times`` as many users, to raise the load without submitting a job twice.

    With one seed the users nest: those for 1.6 include those for 1.4. Each further user has the
    batches of one of these, from a random one on, and the same time at the centre; who was there
    for less than the log came a random number of weeks earlier or later.

    Parameters
    ----------
    times
        From 0.01, so that one of a hundred is left, to 100.
    """
    accepted = f"a number from 0.01 to {MOST_TIMES} is accepted (1.2: a fifth more users)"
    require(0.01 <= times <= MOST_TIMES, "times", times, accepted)
    check_seed(seed)
    begin = min(u.since for u in users.users)
    end = max(u.until for u in users.users)
    order = sorted(users.users, key=lambda user: drawn(seed, "order", user.name))

    # The first of the order are users of the log; from then on it is gone through again.
    listed: list[User] = []
    wanted = max(round(times * len(order)), 1)
    taken = {user.name for user in order}
    for number in range(math.ceil(times)):
        for user in order[: wanted - number * len(order)]:
            if not number:
                listed.append(user)
                continue
            name = f"{user.name}-{number}"
            while name in taken:  # These are more users themselves, or have such names.
                name += "-1"
            taken.add(name)
            listed.append(_another(user, name, seed, begin, end))

    if times < 1:
        listed = sorted(listed, key=users.users.index)
    step = {"step": "more users", "times": times, "seed": seed}
    told = {**step, "made_from": users.provenance}
    return msgspec.structs.replace(users, users=tuple(listed), provenance=told)


def _another(user: User, name: str, seed: int, begin: float, end: float) -> User:
    chosen = random.Random(f"{seed} {name}")
    earlier = int((user.since - begin) // WEEK)
    later = int((end - user.until) // WEEK)
    weeks = chosen.randint(-earlier, later) * WEEK
    first = chosen.randrange(len(user.batches))
    return msgspec.structs.replace(
        user, name=name, since=user.since + weeks, until=user.until + weeks, first=first
    )


def rotated(users: Users, seed: int) -> Users:
    """Rotate each user's list of batches by a random number, which gives another sample."""
    chosen = random.Random(f"{seed} rotated")
    listed = tuple(
        msgspec.structs.replace(user, first=chosen.randrange(len(user.batches)))
        for user in users.users
    )
    told = {"step": "rotated", "seed": seed, "made_from": users.provenance}
    return msgspec.structs.replace(users, users=listed, seed=seed, provenance=told)


class WeekClock:
    """A clock that goes faster in those hours of the week in which users come more often."""

    def __init__(self, sessions: Sessions) -> None:
        mean = math.fsum(sessions.week) / HOURS
        self.rates = [each / mean for each in sessions.week]
        self.monday = sessions.monday
        self.sums = [0.0]
        for rate in self.rates:
            self.sums.append(self.sums[-1] + rate * HOUR)

    def at(self, date: float) -> float:
        """Return the clock's seconds from a Monday to a date (seconds)."""
        weeks, seconds = divmod(date - self.monday, WEEK)
        hour = min(int(seconds // HOUR), HOURS - 1)
        whole = self.sums[hour] + (seconds - hour * HOUR) * self.rates[hour]
        return weeks * WEEK + whole

    def after(self, date: float, seconds: float) -> float:
        """Return the date at which the clock has advanced by some seconds since a date."""
        weeks, rest = divmod(self.at(date) + seconds, WEEK)
        hour = bisect_right(self.sums, rest, 0, HOURS) - 1
        inside = (rest - self.sums[hour]) / self.rates[hour]
        return self.monday + weeks * WEEK + hour * HOUR + min(inside, HOUR)
