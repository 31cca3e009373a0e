"""Schedulers with users who react: come back after their jobs, answer refusals, lie and hoard.

    python studies/reacting_users [--quick] [--write studies/reacting_users/tables.md]

Users are those of disjoint stretches of two logs (QOPS_SHARED, default ../shared), fitted to what
EASY does with them. Printed are tables of rising numbers of users, of mixes of needs, of what lying
gains at some prices of urgency, of liars who learn, of what hoarding gains with limits, and of how
users go on. Numbers are means over the stretches of a log with 95 % intervals.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim import simulate
from qops_batsim.experiments import SHARE, UNLIMITED, markdown_table, mean_interval
from qops_batsim.protocol import make_scheduler
from qops_batsim.running import easy_references
from qops_batsim.traces import read_trace
from qops_batsim.users import Reacting, Reactions, Users, Wish, fit_users, more_users, rotated
from qops_batsim.workload import Conversion
from studies.shared import (
    NEED,
    NEEDS,
    arguments,
    ends_text,
    over_mixes,
    print_or_put,
    run_main,
    settings_of,
    usual_need,
)

SHARED = Path(os.environ.get("QOPS_SHARED", "../shared"))
WEEK, HOUR = 604_800.0, 3600.0
HONEST = 1e6
"""A price at which nobody lies."""

COMPARED = "qops"
"""The scheduler that the others are compared with, on the same stretches."""

SETTINGS = settings_of(__file__, quick="--quick" in sys.argv)


class Outcome(NamedTuple):
    """A run: what users wanted, response times asked for at first by wish, and sums.

    ``work`` and ``unused`` are in processor-hours: done, and promised to hoarders and given back.
    Shares of promises kept are from 0 to 1.
    """

    wishes: list[Wish]
    asked: dict[str, float]
    work: float
    kept: float
    unused: float


def run_by_easy(trace: Conversion) -> Conversion:
    """Return a trace with the waits that EASY gives its jobs, as if the site had been EASY."""
    easy = easy_references(trace.workload)
    records = trace.records.copy()
    records["wait_time"] = [
        easy[job].response_time - easy[job].run_time for job in trace.workload.columns.ids
    ]
    return msgspec.structs.replace(trace, records=records)


class Place(NamedTuple):
    """A stretch of a log, what plans and needs are made from, and the mix of needs.

    That is ``exact`` run times or the ``users``' limits.
    """

    log: str
    stretch: int
    estimates: str = "exact"
    made_from: str = "exact"
    by: str = NEED


def places(log: str, *ways: str) -> list[Place]:
    """Return the stretches of a log."""
    return [Place(log, each, *ways) for each in SETTINGS["logs"][log]["stretches"]]


@cache
def log_of(log: str, stretch: int) -> Conversion:
    """Return a stretch of a log with the waits that EASY gives its jobs."""
    told, begin = SETTINGS["logs"][log], stretch * SETTINGS["weeks"] * WEEK
    trace = read_trace(
        SHARED / "traces" / told["file"],
        processors=told["processors"],
        start=begin,
        end=begin + SETTINGS["weeks"] * WEEK,
        rebase=True,
    )
    return run_by_easy(trace)


@cache
def fitted(log: str, stretch: int) -> Users:
    """Return the users of a stretch of a log, whose deadlines know no schedule."""
    found = fit_users(log_of(log, stretch), seed=SETTINGS["seed"])
    return msgspec.structs.replace(found, calendar=found.calendar or usual_need().calendar)


def users_of(at: Place, times: float, round_: int = 0) -> Users:
    """Return ``times`` as many users with their needs; of later rounds, from other batches on."""
    found = more_users(fitted(at.log, at.stretch), times, SETTINGS["seed"])
    if round_:
        found = rotated(found, round_)
    ways = {"estimates": at.estimates, "deadlines_by": at.made_from}
    return msgspec.structs.replace(found, deadlines=usual_need(at.by), **ways)


def outcome(
    scheduler: str, at: Place, times: float, settings: dict[str, Any], **reactions: Any
) -> Outcome:
    """Run a scheduler beside the users of a stretch."""
    return outcome_of(scheduler, users_of(at, times), settings, **reactions)


def outcome_of(scheduler: str, users: Users, settings: dict[str, Any], **reactions: Any) -> Outcome:
    """Run a scheduler beside users."""
    users = msgspec.structs.replace(users, reactions=Reactions(**reactions))
    beside = Reacting(make_scheduler(scheduler, settings).scheduler, users)
    module = make_scheduler(beside)
    done = simulate(module, users.no_jobs())
    ends = dict(zip(done.ended_jobs.ids, done.ended_jobs.finishes.tolist(), strict=True))
    jobs = beside.workload().jobs
    promises = module.qos_log.promises()
    given_back = beside.cancelled_at.keys()
    kept = [
        ends[name[3:]] <= date + 1e-3 for name, date in promises.items() if name not in given_back
    ]
    asked = {
        job.id: job.qos.deadline - job.submission_time
        for job in jobs
        if job.qos is not None and job.qos.deadline is not None
    }
    unused = sum(
        job.processors * job.estimate / HOUR
        for job in jobs
        if f"w0!{job.id}" in given_back and f"w0!{job.id}" in promises
    )
    wishes = beside.wishes
    work = work_of(w for w in wishes if w.outcome == "done") / HOUR
    return Outcome(wishes, asked, work, sum(kept) / len(kept) if kept else math.nan, unused)


def work_of(wishes: Iterable[Wish]) -> float:
    """Return the work of wishes (processor-seconds)."""
    return sum(each.processors * each.run_time for each in wishes)


def in_time(wish: Wish) -> bool:
    return wish.outcome == "done" and wish.ended - wish.submitted <= wish.needed


def benefit(wishes: Sequence[Wish]) -> float:
    """Return the mean of 1 - response / needed of what was done in time, 0 for all else."""
    gains = [1 - (w.ended - w.submitted) / w.needed if in_time(w) else 0.0 for w in wishes]
    return sum(gains) / len(gains)


def share(values: Iterable[bool]) -> float:
    """Return the share that is true (%)."""
    listed = list(values)
    return 100 * sum(listed) / len(listed)


def cell(values: Sequence[float], digits: int = 1, *, percent: bool = True) -> str:
    """Return a mean over stretches with its interval."""
    known = [each for each in values if each == each]
    if not known:
        return "-"
    found = mean_interval(known, SHARE if percent else UNLIMITED)
    ends = found.known if len(set(known)) > 1 else None
    return f"{found.mean:.{digits}f}{ends_text(ends, digits)}"


class Counted(NamedTuple):
    """What of users' wishes was done by the date at which it was needed first.

    Share of the wishes (%), their number, and their work, in % of a capacity; beside them how many
    wishes there were, and the work given up or done elsewhere, in % of all that was wanted.
    """

    share: float
    met: int
    work: float
    wishes: int
    lost: float


def counted(wishes: Sequence[Wish], capacity: float) -> Counted:
    """Count wishes met, with a capacity in processor-seconds."""
    met = [each for each in wishes if in_time(each)]
    done, of_met = map(work_of, ((w for w in wishes if w.outcome == "done"), met))
    lost = sum(each.lost for each in wishes)
    share, count = 100 * len(met) / len(wishes), len(wishes)
    return Counted(share, len(met), 100 * of_met / capacity, count, 100 * lost / (lost + done))


def capacity_of(log: str) -> float:
    """Return what the machine of a log could do in a stretch (processor-seconds)."""
    return float(SETTINGS["logs"][log]["processors"] * SETTINGS["weeks"] * WEEK)


@cache
def count_of(name: str, at: Place, times: float) -> tuple[Counted, float]:
    """Return the wishes met of a scheduler with honest users, and the share of promises kept."""
    found = outcome(name, at, times, SETTINGS["schedulers"][name])
    return counted(found.wishes, capacity_of(at.log)), found.kept


MEASURES = ("wishes met (points)", "number met (%)", "work in time (points)")


def less(one: Counted, other: Counted) -> tuple[float, float, float]:
    """Return by the three measures what one count has more than another."""
    more = 100 * (one.met / other.met - 1)
    return one.share - other.share, more, one.work - other.work


def loads() -> list[str]:
    """Return the table of rising numbers of users."""
    rows, names = [], SETTINGS["schedulers"]
    for log, ways, times in product(SETTINGS["logs"], SETTINGS["ways"], SETTINGS["times"]):
        at = places(log, *ways)
        runs = {name: [count_of(name, each, times) for each in at] for name in names}
        for name, found in runs.items():
            counts = [each for each, _ in found]
            pairs = zip(counts, (each for each, _ in runs[COMPARED]), strict=True)
            more = zip(*(less(*each) for each in pairs), strict=True)
            rows.append(
                [
                    *(log, *ways, f"{times:g}", f"`{name}`"),
                    cell([each.wishes for each in counts], 0, percent=False),
                    cell([each.share for each in counts]),
                    cell([each.met for each in counts], 0, percent=False),
                    cell([each.work for each in counts]),
                    *("" if name == COMPARED else cell(each, percent=False) for each in more),
                    cell([each.lost for each in counts]),
                    cell([100 * kept for _, kept in found]),
                ]
            )
    head = ["log", "plans", "needs from", "users", "scheduler", "wishes", "met (%)", "number met"]
    head += ["work in time (%)", *(f"{each}, less `{COMPARED}`" for each in MEASURES)]
    return markdown_table([*head, "work lost (%)", "promises kept (%)"], rows)


def mixes() -> list[str]:
    """Return the table of three measures over the mixes of needs, by stretch."""
    told = SETTINGS["mixes"]
    found: dict[tuple[str, ...], dict[str, list[list[float]]]] = {}
    for log, ways, by in product(SETTINGS["logs"], SETTINGS["ways"], NEEDS):
        for at in places(log, *ways, by)[: told["stretches"]]:
            base, _ = count_of(COMPARED, at, told["times"])
            for name in told["schedulers"]:
                own, _ = count_of(name, at, told["times"])
                for measure, value in zip(MEASURES, less(own, base), strict=True):
                    row = (f"`{name}` less `{COMPARED}`", measure, log, *ways)
                    found.setdefault(row, {}).setdefault(by, []).append([value])
    return over_mixes(["", "of", "log", "plans", "needs from"], dict(sorted(found.items())))


def fits() -> list[str]:
    """Return how users go on, by stretch, and how near they come to the waits of the log."""
    rows, most = [], SETTINGS["tolerance"]
    for log in SETTINGS["logs"]:
        found: dict[str, list[float]] = {}
        for at in places(log):
            users, trace = fitted(log, at.stretch), log_of(log, at.stretch)
            goes = users.sessions.continuation_probability
            open_wait = float(trace.records["wait_time"].mean())
            numbers = {
                "patience (s), logarithm": math.log(users.sessions.patience),
                "go on after a minute (%)": 100 * goes(60.0),
                "go on after an hour (%)": 100 * goes(HOUR),
                "wait, in order, less the log's (%)": 100 * (wait_of(users) / open_wait - 1),
                "wait, from other batches, less the log's (%)": 100
                * (wait_of(rotated(users, 1)) / open_wait - 1),
            }
            for told, value in numbers.items():
                found.setdefault(told, []).append(value)
        for told, values in found.items():
            mean, error = np.mean(values), np.std(values, ddof=1) / math.sqrt(len(values))
            near = f"{'' if abs(mean) + 2 * error <= most else 'not '}within {most:g} %"
            cells = [f"{mean:.2f} ± {error:.2f}", f"{len(values)}", near * told.startswith("wait")]
            rows.append([log, told, *cells])
    head = ["log", "", "mean ± standard error", "stretches", "mean ± 2 errors"]
    return markdown_table(head, rows)


def wait_of(users: Users) -> float:
    """Return the mean wait under EASY (s)."""
    beside = Reacting(make_scheduler("easy").scheduler, users)
    ended = simulate(beside, users.no_jobs()).ended_jobs
    return float((ended.starts - ended.submission_times).mean())


def lying() -> list[str]:
    """Return the table of what lying gains, by log and over all stretches."""
    told, rows = SETTINGS["lying"], []
    kinds = {"liars": told["share"], "worth": told["worth"]}
    both = {" and ".join(told["logs"]): told["logs"]} if len(told["logs"]) > 1 else {}
    for (title, logs), name in product(
        ({log: [log] for log in told["logs"]} | both).items(), told["schedulers"]
    ):
        at = [place for log in logs for place in places(log)]
        for price in told["prices"]:
            pairs = [
                tuple(
                    lied(name, each, tuple(kinds.items()), price=paid) for paid in (price, HONEST)
                )
                for each in at
            ]
            mine = [[benefit(of(each, True)) for each in pair] for pair in pairs]
            others = [[benefit(of(each, False)) for each in pair] for pair in pairs]
            paid = [price * (urgency(a) - urgency(b)) for a, b in pairs]
            gains = [100 * (a - b) for a, b in mine]
            net = [g - 100 * p for g, p in zip(gains, paid, strict=True)]
            found = mean_interval(net)
            below = found.known is not None and found.known[1] < told["margin"]
            rows.append(
                [
                    title,
                    f"`{name}`",
                    f"{price:g}",
                    cell([share(map(in_time, of(a, True))) for a, _ in pairs]),
                    cell([share(map(in_time, of(b, True))) for _, b in pairs]),
                    cell(gains, percent=False),
                    cell([100 * each for each in paid], percent=False),
                    cell(net, percent=False),
                    "yes" if below else "not sure",
                    cell([100 * (a - b) for a, b in others], percent=False),
                ]
            )
    head = ["scheduler", "price", "liars by need", "the same, honest", "liars gain", "pay more"]
    head += ["net", f"net below {told['margin']:g}"]
    return markdown_table(["log", *head, "others gain"], rows)


@cache
def lied(name: str, at: Place, kinds: tuple[tuple[str, float], ...], price: float) -> Outcome:
    """Return a run whose users lie at a price."""
    settings = SETTINGS["schedulers"][name]
    return outcome(name, at, SETTINGS["at"], settings, **dict(kinds), price=price)


def learn(
    names: Sequence[str], rounds: int, play: Callable[[int, frozenset[str]], Mapping[str, float]]
) -> list[frozenset[str]]:
    """Return who lies in each round: those whom it has paid more than honesty so far.

    Each tries both in the first two rounds, every second one a lie first. ``play(round, liars)``
    returns what who had wishes got, less what was paid.
    """
    got: dict[str, dict[bool, list[float]]] = {name: {True: [], False: []} for name in names}
    played = []
    for number in range(1, rounds + 1):
        if number <= 2:
            liars = frozenset(names[number - 1 :: 2])
        else:
            liars = frozenset(name for name in names if pays(got[name]))
        for name, value in play(number, liars).items():
            if name in got:
                got[name][name in liars].append(value)
        played.append(liars)
    return played


def pays(got: Mapping[bool, Sequence[float]]) -> bool:
    """Return whether lies got more than honesty on average; who knows one only is honest."""
    return all(got.values()) and np.mean(got[True]) > np.mean(got[False])


def learning() -> list[str]:
    """Return the table of liars who learn whether it pays."""
    told, rows = SETTINGS["learning"], []
    for name, price in product(told["schedulers"], told["prices"]):
        found = []
        for log, stretch in product(told["logs"], range(told["stretches"])):
            at = places(log)[stretch]
            found.append(learned(name, at, price))
        lie, gain = zip(*found, strict=True)
        rows.append([f"`{name}`", f"{price:g}", cell(lie), cell(gain, percent=False)])
    head = ["scheduler", "price", f"lie in the last {told['last']} rounds (%)"]
    return markdown_table([*head, "learners gain, net"], rows)


def learned(name: str, at: Place, price: float) -> tuple[float, float]:
    """Return how many of a stretch's learners lie in the last rounds (%), and what it gets them.

    That is in points, less what the same users get in a world without lies.
    """
    told, settings = SETTINGS["learning"], SETTINGS["schedulers"][name]
    names = [user.name for user in users_of(at, SETTINGS["at"]).users[::2]]
    means: list[list[float]] = []

    def play(number: int, liars: frozenset[str]) -> Mapping[str, float]:
        users = users_of(at, SETTINGS["at"], number)
        own = [msgspec.structs.replace(each, lies=each.name in liars) for each in users.users]
        users = msgspec.structs.replace(users, users=tuple(own))
        return nets(outcome_of(name, users, settings, price=price), price)

    def kept(number: int, liars: frozenset[str]) -> Mapping[str, float]:
        found = play(number, liars)
        if number > told["rounds"] - told["last"]:
            honest = play(number, frozenset())
            both = [each for each in names if each in found and each in honest]
            means.append([float(np.mean([of[n] for n in both])) for of in (found, honest)])
        return found

    lies = learn(names, told["rounds"], kept)[-told["last"] :]
    lie = sum(map(len, lies)) / (len(lies) * len(names))
    return 100 * lie, 100 * float(np.mean([a - b for a, b in means]))


def nets(found: Outcome, price: float) -> dict[str, float]:
    """Return by user the mean benefit of wishes, less what urgency costs beyond honesty."""
    wishes: dict[str, list[Wish]] = {}
    for each in found.wishes:
        wishes.setdefault(each.user, []).append(each)
    return {
        name: benefit(own)
        - price * sum(paid_for(found, w) - paid_for(found, w, True) for w in own) / len(own)
        for name, own in wishes.items()
    }


def of(found: Outcome, lies: bool) -> list[Wish]:
    return [each for each in found.wishes if each.lies == lies]


def urgency(found: Outcome) -> float:
    """Return the mean of estimate / response asked for at last, of what liars had done."""
    values = [paid_for(found, each) for each in of(found, True) if each.outcome == "done"]
    return sum(values) / len(values)


def paid_for(found: Outcome, wish: Wish, honestly: bool = False) -> float:
    """Return estimate / response asked for at last, of what was done; else 0."""
    if wish.outcome != "done":
        return 0.0
    last = found.asked[wish.job] if wish.tries == 1 and not honestly else wish.needed
    return wish.run_time / max(last, wish.run_time)


def hoarding() -> list[str]:
    """Return the table of what hoarding gains."""
    told, rows = SETTINGS["hoarding"], []
    kinds = {"hoarders": told["share"]}
    for log, name in product(told["logs"], told["schedulers"]):
        options = SETTINGS["schedulers"][name]
        run = partial(outcome, name, times=SETTINGS["at"], **kinds)
        fair = [run(each, settings=options, promises=0) for each in places(log)]
        for limit in told["limits"]:
            own = options | ({"promise_limit": limit} if limit else {})
            found = [run(at, settings=own, promises=told["promises"]) for at in places(log)]
            row = [log, f"`{name}`", f"{limit:g} h" if limit else "none"]
            for hoards, each in product((True, False), (found, fair)):
                wishes = ([w for w in one.wishes if w.hoards == hoards] for one in each)
                row.append(cell([share(map(in_time, those)) for those in wishes]))
            idle = []
            for one in found:
                used = work_of(w for w in one.wishes if w.hoards and w.outcome == "done") / HOUR
                idle.append(one.unused / used if used else math.nan)
            rows.append([*row, cell(idle, 2, percent=False)])
    head = ["scheduler", "limit", "hoarders by need", "the same, fair", "others by need"]
    return markdown_table(["log", *head, "beside fair ones", "given back / used"], rows)


PARTS: dict[str, tuple[str, Callable[[], list[str]]]] = {
    "loads": ("More users", loads),
    "mixes": ("Over mixes of needs", mixes),
    "lying": ("Lying", lying),
    "learning": ("Liars who learn", learning),
    "hoarding": ("Hoarding", hoarding),
    "fits": ("How users go on", fits),
}


def main() -> None:
    """Print the tables."""
    parser = arguments(__file__, __doc__)
    parser.add_argument("--only", choices=PARTS, help="one part")
    asked = parser.parse_args()
    made = PARTS.values() if asked.only is None else [PARTS[asked.only]]
    tables = ["\n".join([f"### {name}", "", *table()]) for name, table in made]
    print_or_put("\n\n".join(tables) + "\n", asked.write)


if __name__ == "__main__":
    run_main(main)
