"""A check of a run's files that shares nothing with the package: plain loops over rows.

Reads ``_jobs.csv``, ``_qos.csv``, ``_machine_states.csv`` and the workload, each with the standard
library. Dates in the files have six decimals, so two that are equal may be two units apart.
"""

from __future__ import annotations

import csv
import json
import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

EQUAL = 2.1e-6
"""Dates and durations that differ by less are equal (seconds)."""

NOTHING = 1.2e-5
"""A job that ran for no time at all is written up to so much longer (seconds)."""

Row = dict[str, str]


@dataclass(frozen=True)
class Facts:
    """What is known of a run beside its files."""

    hosts: int
    sharing: bool
    grace: float = 0.0
    """By how much news may be late without breaking a promise (seconds)."""
    burst: float = 0.0
    """Longest time between two jobs on a host that messages explain (seconds)."""
    outages: bool = False
    in_order: bool = False
    """Whether jobs start in the order of their submission."""
    promises: bool = True
    """Whether the scheduler's promises hold on such a workload and platform."""


class Check:
    """The rows of a run, and what is wrong with them."""

    def __init__(self, prefix: Path, workload: Path, facts: Facts) -> None:
        asked = json.loads(workload.read_text())
        self.facts = facts
        # Those of one date are submitted in the order of their names, as texts.
        jobs = sorted(asked["jobs"], key=lambda job: (float(job["subtime"]), job["id"]))
        self.asked = {f"w0!{job['id']}": job for job in jobs}
        self.profiles: dict[str, Any] = asked["profiles"]
        rows = _table(prefix, "jobs")
        self.rows = {f"{row['workload_name']}!{row['job_id']}": row for row in rows}
        self.qos = {f"{row['workload_name']}!{row['job_id']}": row for row in _table(prefix, "qos")}
        self.states = _table(prefix, "machine_states")
        self.size = len(rows)
        self.runs: dict[str, list[str]] = defaultdict(list)
        for name in self.rows:
            self.runs[name.partition("#")[0]].append(name)
        for names in self.runs.values():
            names.sort(key=lambda name: int(name.partition("#")[2] or 0))
        self.ran = {name: row for name, row in self.rows.items() if row["starting_time"] != ""}
        self.hosts = {name: _hosts(row["allocated_resources"]) for name, row in self.ran.items()}
        self.on_host: defaultdict[int, list[tuple[float, str]]] = defaultdict(list)
        for name, hosts in self.hosts.items():
            for host in hosts:
                self.on_host[host].append((_date(self.ran[name], "starting_time"), name))
        for found in self.on_host.values():
            found.sort()
        self.promises = 0

    def problems(self) -> Iterator[str]:
        """Yield all that is wrong, each in a sentence that begins with the name of the rule."""
        yield from self._balance()
        yield from self._each_job()
        yield from self._one_at_a_time()
        if self.facts.promises:
            yield from self._promises()
        if not self.facts.outages:
            yield from self._machine_states()
        if self.facts.in_order:
            yield from self._order()

    def _balance(self) -> Iterator[str]:
        """No job is lost, invented or there twice."""
        if self.size != len(self.rows):
            yield "balance: a job has two rows"
        if lost := self.asked.keys() - self.runs.keys():
            yield f"balance: jobs are lost: {sorted(lost)[:5]}"
        if invented := self.runs.keys() - self.asked.keys():
            yield f"balance: jobs are invented: {sorted(invented)[:5]}"
        for name, runs in self.runs.items():
            if runs != [name, *(f"{name}#{number}" for number in range(1, len(runs)))]:
                yield f"balance: the runs of a job are {runs}"

    def _each_job(self) -> Iterator[str]:
        for name, row in self.rows.items():
            asked = self.asked.get(name.partition("#")[0], {})
            if row["final_state"] == "REJECTED":
                if name in self.ran or row["allocated_resources"]:
                    yield f"rejected: {name} was rejected, and ran"
                continue
            if name not in self.ran:
                yield f"lost: {name} is {row['final_state']}, but never ran"
                continue
            start, end = _date(row, "starting_time"), _date(row, "finish_time")
            if start < asked["subtime"] - EQUAL:
                yield f"too early: {name} starts at {start}, submitted at {asked['subtime']}"
            if end < start - EQUAL or abs(end - start - _date(row, "execution_time")) > EQUAL:
                yield f"dates: {name} runs from {start} to {end} for {row['execution_time']}"
            if len(set(self.hosts[name])) != asked["res"] or len(self.hosts[name]) != asked["res"]:
                yield f"size: {name} asks for {asked['res']}, got {row['allocated_resources']}"
            if not all(0 <= host < self.facts.hosts for host in self.hosts[name]):
                yield f"size: {name} got {row['allocated_resources']} of {self.facts.hosts} hosts"
            yield from self._run_time(name, row, asked, end - start)

    def _run_time(self, name: str, row: Row, asked: Any, ran: float) -> Iterator[str]:
        state, limit = row["final_state"], asked.get("walltime", math.inf)
        slack = EQUAL + 1e-15 * 8 * _date(row, "finish_time")
        if row["profile"] != asked.get("profile"):
            limit = _date(row, "requested_time")  # What goes on has only the rest to do.
        if limit <= 0:
            limit = math.inf
        if ran > limit + slack + NOTHING * (limit < NOTHING):
            yield f"walltime: {name} runs {ran} s, its walltime is {limit}"
        if state == "COMPLETED_WALLTIME_REACHED" and ran < limit - slack:
            yield f"walltime: {name} was killed at its walltime after {ran} s, not {limit}"
        if (state == "COMPLETED_SUCCESSFULLY") != (row["success"] == "1"):
            yield f"state: {name} is {state}, success {row['success']}"
        profile = self.profiles.get(row["profile"], {})
        if profile.get("type") != "delay":
            return
        wanted = profile["delay"]
        slack += NOTHING * (wanted < NOTHING)
        if state == "COMPLETED_SUCCESSFULLY" and abs(ran - wanted) > slack:
            yield f"run time: {name} runs {ran} s, its profile {wanted}"
        if state == "COMPLETED_SUCCESSFULLY" and wanted > limit + slack:
            yield f"run time: {name} succeeds after {ran} s, its walltime is {limit}"
        if ran > wanted + slack:
            yield f"run time: {name} runs {ran} s, its profile {wanted}"

    def _one_at_a_time(self) -> Iterator[str]:
        """No host runs two jobs at a time, or where it may, none that is to be alone."""
        stays = defaultdict(list)
        for name, row in self.ran.items():
            start, end = _date(row, "starting_time"), _date(row, "finish_time")
            if end - start < NOTHING:
                end = start
            for host in self.hosts[name]:
                stays[host].append((start, end, name))
        for host, found in stays.items():
            found.sort()
            for place, (start, end, name) in enumerate(found):
                for later, until, other in found[place + 1 :]:
                    if later >= end - EQUAL:
                        break
                    alone = not self.facts.sharing or self._alone(name) or self._alone(other)
                    if alone and until > start + EQUAL and until > later + EQUAL:
                        yield f"host twice: {host} runs {name} until {end}, {other} from {later}"

    def _alone(self, name: str) -> bool:
        return self.asked[name.partition("#")[0]].get("qos", {}).get("class") == "dedicated"

    def _promises(self) -> Iterator[str]:
        """Admitted deadlines and latest starts are met, until a job outlives its estimate."""
        surprise = min((end for end in map(self._outlived, self.ran) if end), default=math.inf)
        for name, told in self.qos.items():
            runs = self.runs.get(name, [])
            if not runs:
                yield f"promises: {name} is no job"
                continue
            last = self.rows[runs[-1]]
            gone = self.facts.outages and len(runs) > 1
            if told["decision"] == "rejected" and runs[-1] in self.ran and "#" not in name:
                if last["final_state"] != "COMPLETED_KILLED":
                    yield f"promises: {name} was refused, and ran"
                continue
            if told["decision"] == "accepted" and runs[-1] not in self.ran and not gone:
                yield f"promises: {name} was accepted, and never ran"
                continue
            if runs[-1] not in self.ran:
                continue
            slack = EQUAL + self.facts.grace
            if (deadline := told["admitted_deadline"]) and float(deadline) <= surprise:
                self.promises += 1
                own = self._outlived(runs[-1])
                late = _date(last, "finish_time") - float(deadline) - slack
                if late > 0 and not own and late > self._delayed(runs[-1]):
                    yield f"promises: {name} ends at {last['finish_time']}, promised {deadline}"
            if (latest := told["latest_start"]) and float(latest) < surprise - slack:
                self.promises += 1
                late = _date(self.rows[runs[0]], "starting_time") - float(latest) - slack
                if late > 0 and late > self._delayed(runs[0]):
                    first = self.rows[runs[0]]["starting_time"]
                    yield f"promises: {name} starts at {first}, promised {latest}"

    def _delayed(self, name: str) -> float:
        """Return what messages took between the jobs of a chain on one host, while one waited."""
        since, total = self.asked[name.partition("#")[0]]["subtime"], 0.0
        while self.facts.grace and (start := _date(self.ran[name], "starting_time")) > since:
            last, before = -math.inf, ""
            for host in self.hosts[name]:
                place = bisect_left(self.on_host[host], (start, ""))
                if place > 0:
                    other = self.on_host[host][place - 1][1]
                    last, before = max(
                        (last, before), (_date(self.ran[other], "finish_time"), other)
                    )
            if abs(start - last) > self.facts.burst + EQUAL:
                break
            total, name = total + start - last, before
        return total

    def _outlived(self, name: str) -> float:
        """Return when a job was to end, if it ran for longer than was known; else 0."""
        asked, row = self.asked[name.partition("#")[0]], self.ran[name]
        known = asked.get("qos", {}).get("estimated_runtime", asked.get("walltime", math.inf))
        if known <= 0:
            known = asked.get("walltime", math.inf)
        start, end = _date(row, "starting_time"), _date(row, "finish_time")
        return start + known if end > start + known + EQUAL else 0.0

    def _machine_states(self) -> Iterator[str]:
        """The hosts that compute are those of the jobs, as far as six digits tell the date."""
        changes: Counter[float] = Counter()
        on_host: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
        for name, row in self.ran.items():
            for host in self.hosts[name]:
                on_host[host].append((_date(row, "starting_time"), 1))
                on_host[host].append((_date(row, "finish_time"), -1))
        for found in on_host.values():
            level = 0
            for date, change in sorted(found):
                changes[date] += (level + change > 0) - (level > 0)
                level += change
        dates = sorted(changes)
        counts = []
        busy = 0
        for date in dates:
            busy += changes[date]
            counts.append(busy)
        for row, after in zip_longest(self.states, self.states[1:]):
            computing, idle = int(row["nb_computing"]), int(row["nb_idle"])
            if computing + idle != self.facts.hosts:
                yield f"machine states: {computing} + {idle} hosts at {row['time']}"
            if after is not None and after["time"] == row["time"]:
                continue  # Within a date jobs end and start one after the other.
            expected = _count_after(float(row["time"]), dates, counts)
            if expected is not None and computing != expected:
                yield f"machine states: {computing} compute at {row['time']}, by jobs {expected}"

    def _order(self) -> Iterator[str]:
        last, before = -math.inf, ""
        for name in self.asked:
            row = self.ran.get(name)
            if row is not None:
                if _date(row, "starting_time") < last - EQUAL:
                    yield f"order: {name} starts at {row['starting_time']}, {before} at {last}"
                last, before = max(last, _date(row, "starting_time")), name


def _count_after(date: float, dates: list[float], counts: list[int]) -> int | None:
    """Return what holds after all changes that are written with a date of six digits.

    None where a change is so near to the end of what is written so that it may lie behind it.
    """
    unit = 10.0 ** (math.floor(math.log10(date)) - 5) if date > 0 else 0.0
    end = date + 0.5 * unit
    first, last = bisect_left(dates, end - EQUAL), bisect_right(dates, end + NOTHING)
    return None if first < last else counts[first - 1] if first else 0


def _table(prefix: Path, name: str) -> list[Row]:
    path = Path(f"{prefix}_{name}.csv")
    if not path.exists():
        return []
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def _date(row: Row, column: str) -> float:
    return float(row[column])


def _hosts(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split():
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
