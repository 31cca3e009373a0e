"""Dumps of Slurm's accounting for tests, made at random by a generator that knows what is in them.

A dump has jobs, tasks of arrays, heterogeneous jobs, restarts, steps, jobs that wait or run, others
that were cancelled before they started, odd words for states, and dates around a change of clock.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

HEADER = [
    "JobID",
    "JobIDRaw",
    "JobName",
    "User",
    "Account",
    "Partition",
    "QOS",
    "State",
    "Submit",
    "Eligible",
    "Start",
    "End",
    "Elapsed",
    "AllocCPUS",
    "AllocNodes",
    "ReqTRES",
    "AllocTRES",
    "Timelimit",
]

PBS = """\
05/01/2024 10:00:00;Q;1.pbs;queue=batch
05/01/2024 10:01:00;S;1.pbs;user=ada group=bio queue=batch ctime=1714550400 start=1714550460
05/01/2024 10:01:00;L;license;floating license hour:3
05/01/2024 10:03:00;E;1.pbs;user=ada group=bio account="p 1" queue=batch ctime=1714550400 \
qtime=1714550400 start=1714550460 end=1714550580 Exit_status=0 Resource_List.ncpus=8 \
Resource_List.nodect=2 Resource_List.walltime=01:00:00 resources_used.walltime=00:02:00
05/01/2024 10:04:00;Q;2[].pbs;queue=batch
05/01/2024 10:08:00;E;2[3].pbs;user=eve queue=long ctime=1714550640 start=1714550700 \
end=1714550880 Exit_status=-11 exec_host=n1/0*4+n2/0-2,5 Resource_List.walltime=00:03:00
05/01/2024 10:05:00;Q;3.pbs;queue=batch
05/01/2024 10:06:00;D;3.pbs;requestor=eve@login
05/01/2024 10:07:00;Q;4.pbs;queue=batch
05/01/2024 10:08:00;Q;5.pbs;queue=batch
05/01/2024 10:09:00;S;5.pbs;ctime=1714550880 start=1714550940 Resource_List.nodes=2:ppn=4+n7
05/01/2024 10:10:00;R;5.pbs;
05/01/2024 10:11:00;S;5.pbs;ctime=1714550880 start=1714551060
05/01/2024 10:12:00;D;5.pbs;requestor=eve@login
05/01/2024 10:12:01;E;5.pbs;start=1714551060 end=1714551121 Exit_status=271
05/01/2024 10:13:00;S;6.pbs;ctime=1714551180 start=1714551180 Resource_List.select=2:ncpus=3
"""
"""Accounting of PBS, by hand."""

ZONE = "Europe/Stockholm"
CHANGES = (1711846800, 1729990800)
"""When clocks were put forward and back there in 2024 (seconds since 1970)."""

ENDED = {
    "COMPLETED": ("COMPLETED", "completed", "CD", "erledigt"),
    "FAILED": ("FAILED", "Failed", "F", "gescheitert"),
    "TIMEOUT": ("TIMEOUT", "TO"),
    "NODE_FAIL": ("NODE_FAIL", "Node Fail", "NF"),
    "OUT_OF_MEMORY": ("OUT_OF_MEMORY", "OUT_OF_ME+", "OOM"),
    "PREEMPTED": ("PREEMPTED", "PR"),
    "CANCELLED": ("CANCELLED by 1000", "CANCELLED", "CANCELLED+"),
}
OWN_WORDS = {"erledigt": "COMPLETED", "gescheitert": "FAILED"}


@dataclass
class Truth:
    """What a job is: its date of submission in UTC, and what the simulation has to know."""

    submitted: int
    wait: int
    run_time: int
    processors: int
    limit: float | None
    names: dict[str, str]


@dataclass
class Dump:
    """A dump: its rows (fields by column), the jobs that are in it, and counts of what is not."""

    rows: list[dict[str, str]] = field(default_factory=list)
    objects: list[dict[str, Any]] = field(default_factory=list)
    """The same jobs as ``sacct --json`` tells them."""
    jobs: dict[str, Truth] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def text(
        self, columns: list[str] = HEADER, *, trailing: bool = False, crlf: bool = False
    ) -> str:
        """Return what ``sacct --parsable2`` prints, or ``--parsable`` with a trailing mark."""
        end = ("|" if trailing else "") + ("\r\n" if crlf else "\n")
        rows = [columns, *([row[name] for name in columns] for row in self.rows)]
        return "".join("|".join(row) + end for row in rows)

    def json(self) -> str:
        """Return what ``sacct --json`` prints."""
        return json.dumps({"meta": {}, "jobs": self.objects, "errors": []})


def local(seconds: int | None) -> str:
    """Return a date as sacct shows it at the site."""
    if seconds is None:
        return "Unknown"
    return f"{datetime.fromtimestamp(seconds, UTC).astimezone(ZoneInfo(ZONE)):%Y-%m-%dT%H:%M:%S}"


def clock(seconds: int) -> str:
    """Return a duration as sacct shows it."""
    days, rest = divmod(seconds, 86400)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


class Maker:
    """Makes a dump row by row."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.dump = Dump()
        self.now = self.random.choice((*CHANGES, 1718000000)) - self.random.randint(0, 7200)
        self.next_id = 4700

    def row(self, job: str, state: str, truth: Truth, start: int | None, end: int | None) -> None:
        """Add the row of a job, and of its steps."""
        cores, names = truth.processors, truth.names
        limit = {None: "UNLIMITED", -1: "Partition_Limit"}.get(truth.limit)  # type: ignore[arg-type]
        used = end - start if start and end else 0
        tres = f"billing={cores},cpu={cores},mem={cores}G,node=1"
        row = {
            "JobID": job,
            "JobIDRaw": str(self.next_id),
            "JobName": self.random.choice(("a|b", *("größe", "sim") * 6)),
            "User": names["user"],
            "Account": names["group"],
            "Partition": names["queue"],
            "QOS": names["qos_name"],
            "State": state,
            "Submit": local(truth.submitted),
            "Eligible": local(truth.submitted),
            "Start": local(start),
            "End": local(end),
            "Elapsed": clock(used),
            "AllocCPUS": str(cores if start else 0),
            "AllocNodes": "1",
            "ReqTRES": tres,
            "AllocTRES": tres if start else "",
            "Timelimit": limit or clock(int(truth.limit or 0)),
        }
        self.dump.rows.append(row)
        steps = self.random.choice((0, 0, 1, 3)) if start else 0
        for step in ("batch", "extern", "0")[:steps]:
            blank = {"JobID": f"{job}.{step}", "User": "", "Partition": "", "Timelimit": ""}
            self.dump.rows.append({**row, **blank, "Submit": row["Start"]})
        self.dump.left_out["steps"] += steps
        self.dump.objects.append(self.as_object(job, state, truth, start, end, steps))

    def as_object(
        self, job: str, state: str, truth: Truth, start: int | None, end: int | None, steps: int
    ) -> dict[str, Any]:
        """Return a job as JSON, in the manner of an old version of Slurm or a new one."""
        new = self.random.random() < 0.5

        def number(value: float | None, is_set: bool = True) -> Any:
            if new:
                known = is_set and value is not None
                shown = int(value or 0)
                return {"set": known, "infinite": is_set and value is None, "number": shown}
            return (1 << 32) - (1 if is_set else 2) if value is None or not is_set else int(value)

        array, _, task = job.partition("_")
        het, _, offset = job.partition("+")
        waiting = task.strip("[]") if "[" in task else ""
        limit = None if truth.limit is None else truth.limit / 60
        tres = [{"type": "cpu", "name": "", "id": 1, "count": truth.processors}]
        names = truth.names
        word = (
            next(key for key, words in ENDED.items() if state in words) if start and end else state
        )
        return {
            "job_id": int(job) if job.isdigit() else self.next_id,
            "array": {
                "job_id": int(array) if task else 0,
                "task_id": number(int(task) if task and not waiting else 0, task.isdigit()),
                "task": waiting,
            },
            "het": {"job_id": int(het) if offset else 0, "job_offset": number(int(offset or 0))},
            "user": names["user"],
            "association": {"account": names["group"], "user": names["user"]},
            "partition": names["queue"],
            "qos": names["qos_name"],
            "state": {"current": [word.split()[0]] if new else word.split()[0], "reason": "None"},
            "time": {
                "submission": truth.submitted,
                "eligible": truth.submitted,
                "start": start or 0,
                "end": end or 0,
                "elapsed": end - start if start and end else 0,
                "limit": number(limit, truth.limit != -1),
            },
            "tres": {"allocated": tres if start else [], "requested": tres},
            "required": {"CPUs": truth.processors},
            "steps": [{} for _ in range(steps)],
        }

    def truth(self) -> Truth:
        """Return another job, submitted a while after the one before."""
        random = self.random
        self.next_id += 1
        self.now += random.randint(0, 1800)
        return Truth(
            submitted=self.now,
            wait=random.randint(0, 5000),
            run_time=random.randint(1, 200_000),
            processors=random.choice((1, 2, 16, 128)),
            limit=random.choice((None, -1, 3600, 86_400, 7 * 86_400)),
            names={
                "user": random.choice(("ada", "grace", "müller")),
                "group": random.choice(("physics", "bio chem")),
                "queue": random.choice(("main", "long,main")),
                "qos_name": random.choice(("normal", "")),
            },
        )

    def ended(self, job: str, truth: Truth, state: str | None = None) -> None:
        """Add a job that ran and ended."""
        state = state or self.random.choice(list(ENDED))
        start = truth.submitted + truth.wait
        word = self.random.choice(ENDED[state])
        self.row(job, word, truth, start, start + truth.run_time)
        self.dump.jobs[job] = truth

    def add(self, kind: str) -> None:
        """Add a job of a kind."""
        truth = self.truth()
        job, left_out = str(self.next_id), self.dump.left_out
        if kind == "plain":
            self.ended(job, truth)
        elif kind == "array":
            for task in self.random.sample(range(20), 3):
                self.ended(f"{job}_{task}", self.truth())
        elif kind == "het":
            count = self.random.randint(2, 3)
            for part in range(count):
                self.ended(f"{job}+{part}", truth, "COMPLETED")
                del self.dump.jobs[f"{job}+{part}"]
            left_out["het_parts"] += count
            self.dump.jobs[job] = Truth(**{**vars(truth), "processors": count * truth.processors})
        elif kind == "requeued":
            for _ in range(self.random.randint(1, 2)):
                self.ended(job, truth, "NODE_FAIL")
                left_out["earlier_runs"] += 1
                again = truth.submitted + truth.wait + truth.run_time + self.random.randint(0, 600)
                truth = replace(self.truth(), submitted=again, names=truth.names)
            self.ended(job, truth, "COMPLETED")
        elif kind == "running":
            self.row(job, "RUNNING", truth, truth.submitted + truth.wait, None)
            left_out["state_running"] += 1
        elif kind == "pending":
            self.row(job, "PENDING", truth, None, None)
            left_out["state_pending"] += 1
        elif kind == "pending_array":
            self.row(f"{job}_[5-9%2]", "PENDING", truth, None, None)
            left_out["state_pending"] += 5
        else:
            self.row(job, "CANCELLED by 1000", truth, None, truth.submitted + truth.wait)
            left_out["cancelled_before_start"] += 1


KINDS = ("plain", "array", "het", "requeued", "running", "pending", "pending_array", "cancelled")


def make_dump(seed: int, jobs: int = 60) -> Dump:
    """Return a dump of so many jobs of all kinds."""
    maker = Maker(seed)
    for index in range(jobs):
        maker.add(KINDS[index] if index < len(KINDS) else maker.random.choice(KINDS))
    return maker.dump


if __name__ == "__main__":
    # python tests/support/sacct_dumps.py 250000 > dump.txt
    sys.stdout.write(make_dump(1, int(sys.argv[1])).text())
