"""Schedulers with users who react: come back after their jobs, answer refusals, lie and hoard.

    python studies/reacting_users [--quick] [--write studies/reacting_users/tables.md]

Users are those of disjoint stretches of two logs (QOPS_SHARED, default ../shared), fitted to what
EASY does with them. Printed are three tables: rising numbers of users, what lying gains at some
prices of urgency, and what hoarding gains with limits. Numbers are means over the stretches of a
log with 95 % intervals.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim import simulate
from qops_batsim.experiments import SHARE, UNLIMITED, markdown_table, mean_interval
from qops_batsim.protocol import make_scheduler
from qops_batsim.running import easy_references
from qops_batsim.traces import read_trace
from qops_batsim.users import Reacting, Reactions, Users, Wish, fit_users, more_users
from qops_batsim.workload import Conversion
from studies.shared import arguments, print_or_put, run_main, settings_of, usual_need

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
    """A stretch of a log, and what planning uses: ``exact`` run times or the ``users``' limits."""

    log: str
    stretch: int
    estimates: str = "exact"


def places(log: str, estimates: str = "exact") -> list[Place]:
    """Return the stretches of a log."""
    return [Place(log, each, estimates) for each in SETTINGS["logs"][log]["stretches"]]


@cache
def users_of(at: Place, times: float) -> Users:
    """Return the users of a stretch of a log."""
    told, begin = SETTINGS["logs"][at.log], at.stretch * SETTINGS["weeks"] * WEEK
    trace = read_trace(
        SHARED / "traces" / told["file"],
        processors=told["processors"],
        start=begin,
        end=begin + SETTINGS["weeks"] * WEEK,
        rebase=True,
    )
    seed = SETTINGS["seed"]
    found = more_users(fit_users(run_by_easy(trace), seed=seed), times, seed)
    need = usual_need()
    about = {"estimates": at.estimates, "calendar": found.calendar or need.calendar}
    return msgspec.structs.replace(found, deadlines=need, **about)


def outcome(
    scheduler: str, at: Place, times: float, settings: dict[str, Any], **reactions: Any
) -> Outcome:
    """Run a scheduler beside the users of a stretch."""
    users = msgspec.structs.replace(users_of(at, times), reactions=Reactions(**reactions))
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
    work = sum(w.processors * w.run_time for w in wishes if w.outcome == "done") / HOUR
    return Outcome(wishes, asked, work, sum(kept) / len(kept) if kept else math.nan, unused)


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
    if found.known is None or len(set(known)) == 1:
        return f"{found.mean:.{digits}f}"
    low, high = found.known
    return f"{found.mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def loads() -> list[str]:
    """Return the table of rising numbers of users."""
    rows = []
    for case in SETTINGS["cases"]:
        at, names = places(case["log"], case["estimates"]), SETTINGS["schedulers"]
        capacity = SETTINGS["logs"][case["log"]]["processors"] * SETTINGS["weeks"] * WEEK / HOUR
        for times in case["times"]:
            runs = {
                name: [outcome(name, each, times, options) for each in at]
                for name, options in names.items()
            }
            served = {name: [share(map(in_time, it.wishes)) for it in runs[name]] for name in names}
            for name, found in runs.items():
                lost = [sum(w.lost for w in each.wishes) for each in found]
                done = [sum(w.processors * w.run_time for w in each.wishes) for each in found]
                less = [a - b for a, b in zip(served[name], served[COMPARED], strict=True)]
                rows.append(
                    [
                        *(case["log"], case["estimates"], f"{times:g}", f"`{name}`"),
                        cell([len(each.wishes) for each in found], 0, percent=False),
                        cell([100 * each.work / capacity for each in found]),
                        cell(served[name]),
                        "" if name == COMPARED else cell(less, percent=False),
                        cell([100 * a / (a + b) for a, b in zip(lost, done, strict=True)]),
                        cell([100 * each.kept for each in found]),
                    ]
                )
    head = ["log", "estimates", "users", "scheduler", "wishes", "work done", "by need"]
    return markdown_table(
        [*head, f"less `{COMPARED}`", "work lost", "promises kept"],
        rows,
    )


def lying() -> list[str]:
    """Return the table of what lying gains."""
    told, rows = SETTINGS["lying"], []
    kinds = {"liars": told["share"], "worth": told["worth"]}
    for log, name in product(told["logs"], told["schedulers"]):
        run = partial(outcome, name, times=SETTINGS["at"], settings=SETTINGS["schedulers"][name])
        honest = [run(each, **kinds, price=HONEST) for each in places(log)]
        for price in told["prices"]:
            found = [run(each, **kinds, price=price) for each in places(log)]
            pairs = list(zip(found, honest, strict=True))
            mine = [[benefit(of(each, True)) for each in pair] for pair in pairs]
            others = [[benefit(of(each, False)) for each in pair] for pair in pairs]
            paid = [price * (urgency(a) - urgency(b)) for a, b in pairs]
            gains = [100 * (a - b) for a, b in mine]
            rows.append(
                [
                    log,
                    f"`{name}`",
                    f"{price:g}",
                    cell([share(map(in_time, of(a, True))) for a, _ in pairs]),
                    cell([share(map(in_time, of(b, True))) for _, b in pairs]),
                    cell(gains, percent=False),
                    cell([100 * each for each in paid], percent=False),
                    cell([g - 100 * p for g, p in zip(gains, paid, strict=True)], percent=False),
                    cell([100 * (a - b) for a, b in others], percent=False),
                ]
            )
    head = ["scheduler", "price", "liars by need", "the same, honest", "liars gain", "pay more"]
    return markdown_table(["log", *head, "net", "others gain"], rows)


def of(found: Outcome, lies: bool) -> list[Wish]:
    return [each for each in found.wishes if each.lies == lies]


def urgency(found: Outcome) -> float:
    """Return the mean of estimate / response asked for at last, of what liars had done."""
    values = []
    for each in of(found, True):
        if each.outcome == "done":
            last = found.asked[each.job] if each.tries == 1 else each.needed
            values.append(each.run_time / max(last, each.run_time))
    return sum(values) / len(values)


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
            for hoards in (True, False):
                for each in (found, fair):
                    row.append(
                        cell(
                            [
                                share(in_time(w) for w in one.wishes if w.hoards == hoards)
                                for one in each
                            ]
                        )
                    )
            used = [
                sum(
                    w.processors * w.run_time / HOUR
                    for w in one.wishes
                    if w.hoards and w.outcome == "done"
                )
                for one in found
            ]
            row.append(
                cell(
                    [a.unused / b if b else math.nan for a, b in zip(found, used, strict=True)],
                    2,
                    percent=False,
                )
            )
            rows.append(row)
    head = ["scheduler", "limit", "hoarders by need", "the same, fair", "others by need"]
    return markdown_table(["log", *head, "beside fair ones", "given back / used"], rows)


def main() -> None:
    """Print the tables."""
    asked = arguments(__file__, __doc__).parse_args()
    parts = {"More users": loads, "Lying": lying, "Hoarding": hoarding}
    tables = ["\n".join([f"### {name}", "", *made()]) for name, made in parts.items()]
    text = "\n\n".join(tables) + "\n"
    print_or_put(text, asked.write)


if __name__ == "__main__":
    run_main(main)
