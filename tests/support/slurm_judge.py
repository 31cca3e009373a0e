"""Judge of the scheduler ``slurm``: the real slurmctld on windows of real logs, scaled to seconds.

``python tests/support/slurm_judge.py record DIR`` has a real Slurm (Debian: ``apt-get install
--no-install-recommends slurmctld slurmd slurm-client munge slurmdbd mariadb-server-core
mariadb-client-core``) run each window, on 32 nodes, as root, with priorities and limits from its
own database, and writes what it did. ``python tests/support/slurm_judge.py compare DIR`` has
``slurm`` decide about the same jobs and tells how far its order of starts, and what it cancelled,
agree.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from qops_batsim import Job, Slurm, simulate
from qops_batsim.jobs import REJECTED
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import SchedulerModule, make_scheduler
from qops_batsim.workload import Workload, delay_profile

NODES = 32

PROGRAMS = ("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd", "mariadb-install-db")

USERS = (
    *("daemon", "bin", "sys", "games", "man", "lp", "mail", "news"),
    *("uucp", "proxy", "www-data", "backup", "list", "irc"),
)
"""Users that every Debian has; the windows' users are named so."""

ACCOUNTS = ("physics", "biology")

PACE = 240.0
"""Work of a window (seconds of the whole machine): run times are scaled to it."""

SHORTEST, LONGEST = 5, 180
"""No job runs shorter or longer (seconds): Slurm counts whole ones."""


class Window(NamedTuple):
    """A window of a log, and how Slurm is configured for it.

    ``settings`` are the options of ``slurm``; the lines of slurm.conf are made from them.
    """

    name: str
    log: str
    first: int
    settings: dict[str, Any]
    deadlines: bool = False
    jobs: int = 70


_QOS = {"high": {"priority": 100.0}, "normal": {"priority": 10.0}}
_FAST: dict[str, Any] = {"bf_interval": 1.0, "bf_resolution": 1.0}

_KTH = "KTH-SP2-1996-2.swf.gz"
_CTC = "CTC-SP2-1996-rebuilt.swf.gz"
_SDSC = "SDSC-SP2-1998-rebuilt.swf.gz"

WINDOWS = (
    Window("order-of-arrival", _KTH, 3000, _FAST),
    Window("age-and-size", _KTH, 9000, {**_FAST, "weight_age": 1000, "weight_size": 500}),
    Window("small-first", _SDSC, 12000, {**_FAST, "weight_size": 1000, "favor_small": True}),
    Window("qos", _CTC, 20000, {**_FAST, "weight_qos": 1000, "qos": _QOS}),
    Window(
        "partitions",
        _SDSC,
        30000,
        {**_FAST, "weight_partition": 1000, "partitions": {"short": 10.0, "long": 1.0}},
    ),
    Window(
        "fair-share",
        _KTH,
        17000,
        {**_FAST, "weight_fairshare": 10000, "weight_age": 100, "half_life": 300.0},
    ),
    Window("deadlines", _CTC, 41000, {**_FAST, "weight_age": 1000}, deadlines=True),
    Window(
        "coarse-backfill",
        _KTH,
        24000,
        {
            "bf_interval": 5.0,
            "bf_resolution": 60.0,
            "bf_window": 600.0,
            "bf_max_job_test": 10,
            "weight_size": 1000,
        },
    ),
    Window(
        "limits",
        _CTC,
        60000,
        {
            **_FAST,
            "weight_qos": 1000,
            "qos": {
                "high": {"priority": 100.0, "max_jobs_per_user": 3},
                "normal": {"priority": 10.0, "max_processors_per_user": 16, "max_jobs": 14},
            },
        },
    ),
    Window(
        "everything",
        _SDSC,
        48000,
        {
            **_FAST,
            "weight_age": 1000,
            "weight_size": 300,
            "weight_qos": 500,
            "weight_fairshare": 2000,
            "half_life": 600.0,
            "qos": _QOS,
            "bf_resolution": 10.0,
        },
        deadlines=True,
    ),
)

_COMMON = {
    "max_age": 600.0,
    "calc_period": 60.0,
    **dict.fromkeys((f"weight_{of}" for of in ("age", "size", "partition", "qos", "fairshare")), 0),
}
"""Of every window: priorities are calculated anew each minute, which is the least of Slurm."""


def settings_of(window: Window) -> dict[str, Any]:
    """Return all options of ``slurm`` for a window, with all users known from the beginning."""
    shares = {f"{account_of(user)}/{user}": 1.0 for user in USERS}
    return {**_COMMON, **window.settings, "shares": shares}


def account_of(user: str) -> str:
    """Return the account of a user: every third is one of the second."""
    return ACCOUNTS[USERS.index(user) % 3 == 0]


def requests_of(window: Window, traces: Path) -> list[dict[str, Any]]:
    """Return what the jobs of a window ask for; ``after`` and ``run`` are in seconds.

    Sizes are scaled to the nodes, run times so that the work takes :data:`PACE`, requested times by
    the same factor and up to whole minutes; the arrivals take half of that time.
    """
    rows = []
    machine = {_KTH: 100, _CTC: 338, _SDSC: 128}[window.log]
    with gzip.open(traces / window.log, "rt") as lines:
        for line in lines:
            cells = line.split()
            if line.startswith(";") or float(cells[3]) <= 0 or int(cells[4]) <= 0:
                continue
            rows.append(cells)
    chosen = rows[window.first : window.first + window.jobs]
    widths = [max(1, round(NODES * int(cells[4]) / machine)) for cells in chosen]
    runs = [float(cells[3]) for cells in chosen]
    work = sum(width * run for width, run in zip(widths, runs, strict=True))
    pace = PACE * NODES / work
    dates = [float(cells[1]) for cells in chosen]
    span = max(dates[-1] - dates[0], 1.0)
    rng, users = random.Random(window.name), sorted({cells[11] for cells in chosen})
    requests = []
    for cells, width, run, date in zip(chosen, widths, runs, dates, strict=True):
        user = USERS[users.index(cells[11]) % len(USERS)]
        limit = max(1, -int(-max(float(cells[8]), run) * pace // 60))
        request = {
            "after": round((date - dates[0]) / span * PACE / 2, 1),
            "processors": min(width, NODES),
            "run": max(SHORTEST, min(round(run * pace), 60 * limit - 2, LONGEST)),
            "limit": limit,
            "user": user,
            "account": account_of(user),
        }
        if "qos" in window.settings:
            request["qos"] = "high" if int(cells[11]) % 4 == 0 else "normal"
        if "partitions" in window.settings:
            request["partition"] = "short" if limit <= 1 else "long"
        if window.deadlines:
            request["laxity"] = rng.randint(20, 200)
        requests.append(request)
    return requests


def slurm_conf(directory: Path, window: Window, port: int) -> str:
    """Return slurm.conf for a window."""
    options = settings_of(window)
    minutes = max(1, round(options.get("half_life", 600.0) / 60))
    partitions = options.get("partitions", {"main": 1.0})
    lines = [
        "ClusterName=test",
        "SlurmctldHost=localhost(127.0.0.1)",
        f"SlurmctldPort={port}",
        "AuthType=auth/munge",
        f"AuthInfo=socket={directory}/munge.sock",
        "SlurmUser=root",
        "SlurmdUser=root",
        f"StateSaveLocation={directory}/state",
        f"SlurmdSpoolDir={directory}/spool/%n",
        f"SlurmctldPidFile={directory}/slurmctld.pid",
        f"SlurmdPidFile={directory}/%n.pid",
        f"SlurmctldLogFile={directory}/slurmctld.log",
        f"SlurmdLogFile={directory}/%n.log",
        "SlurmctldDebug=debug2",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "SwitchType=switch/none",
        "ReturnToService=2",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core",
        "SchedulerType=sched/backfill",
        "SchedulerParameters="
        f"bf_interval={options['bf_interval']:.0f},bf_resolution={options['bf_resolution']:.0f},"
        f"bf_window={options.get('bf_window', 86400.0) / 60:.0f},"
        f"bf_max_job_test={options.get('bf_max_job_test', 500)},"
        "sched_interval=1,batch_sched_delay=0",
        "PriorityType=priority/multifactor",
        f"PriorityDecayHalfLife={minutes}",
        f"PriorityCalcPeriod={options['calc_period'] / 60:.0f}",
        f"PriorityMaxAge={options['max_age'] / 60:.0f}",
        f"PriorityFavorSmall={'YES' if options.get('favor_small') else 'NO'}",
        *(
            f"PriorityWeight{name}={options.get(option, 0):.0f}"
            for name, option in (
                ("Age", "weight_age"),
                ("JobSize", "weight_size"),
                ("Partition", "weight_partition"),
                ("QOS", "weight_qos"),
                ("Fairshare", "weight_fairshare"),
            )
        ),
        "MpiDefault=none",
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={port + 1}",
        f"AccountingStoragePass={directory}/munge.sock",
        "AccountingStorageEnforce=associations,limits,qos",
        "JobCompType=jobcomp/filetxt",
        f"JobCompLoc={directory}/jobcomp.txt",
        "JobAcctGatherType=jobacct_gather/none",
        "SlurmdParameters=config_overrides",
        f"NodeName=n[1-{NODES}] NodeHostname=localhost NodeAddr=127.0.0.1 "
        f"Port=[{port + 10}-{port + 9 + NODES}] CPUs=1 State=UNKNOWN",
        *(
            f"PartitionName={name} Nodes=ALL Default={'YES' if at == 0 else 'NO'} "
            f"MaxTime=INFINITE State=UP PriorityJobFactor={factor:.0f}"
            for at, (name, factor) in enumerate(partitions.items())
        ),
    ]
    return "\n".join(lines) + "\n"


def slurmdbd_conf(directory: Path, port: int) -> str:
    """Return slurmdbd.conf."""
    return f"""AuthType=auth/munge
AuthInfo=socket={directory}/munge.sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port + 1}
SlurmUser=root
LogFile={directory}/slurmdbd.log
PidFile={directory}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={port + 2}
StorageUser=root
StorageLoc=slurm_acct_db
"""


def asked(*command: str) -> str:
    """Run a command and return what it says."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def until(what: str, done: Any, seconds: float = 60.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} took longer than {seconds:g} s")
        time.sleep(0.1)


def succeeds(*command: str) -> bool:
    """Tell whether a command succeeds."""
    return subprocess.run(command, capture_output=True, timeout=60).returncode == 0


@contextmanager
def cluster(directory: Path, window: Window) -> Iterator[float]:
    """Have a real Slurm run for a window; yield the date at which its controller began."""
    port = 20000 + random.SystemRandom().randrange(0, 120) * 100
    shutil.rmtree(directory, ignore_errors=True)
    for name in ("state", "spool", "munge"):
        (directory / name).mkdir(parents=True)
    directory.chmod(0o755)
    (directory / "munge").chmod(0o700)
    (directory / "munge" / "key").write_bytes(os.urandom(1024))
    (directory / "munge" / "key").chmod(0o600)
    (directory / "slurm.conf").write_text(slurm_conf(directory, window, port))
    dbd = directory / "slurmdbd.conf"
    dbd.write_text(slurmdbd_conf(directory, port))
    dbd.chmod(0o600)
    os.environ["SLURM_CONF"] = str(directory / "slurm.conf")
    # sacctmgr --immediate is -i; the database is new each time, so is the fair share.
    asked(
        *("mariadb-install-db", "--no-defaults", f"--datadir={directory}/mysql", "--user=root"),
        *("--auth-root-authentication-method=normal", "--skip-test-db", f"--tmpdir={directory}"),
    )
    with ExitStack() as stack:

        def begin(*command: str) -> subprocess.Popen[bytes]:
            log = stack.enter_context((directory / f"{command[0]}.out").open("ab"))
            child = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            stack.callback(child.wait, 20)
            stack.callback(child.terminate)
            return child

        begin(
            *("munged", "--foreground", "--force", f"--key-file={directory}/munge/key"),
            f"--socket={directory}/munge.sock",
            f"--pid-file={directory}/munge.pid",
            *(f"--log-file={directory}/munged.log", f"--seed-file={directory}/munge/seed"),
        )
        begin(
            *("mariadbd", "--no-defaults", f"--datadir={directory}/mysql", "--user=root"),
            *("--bind-address=127.0.0.1", f"--port={port + 2}", "--innodb-fast-shutdown=2"),
            *(f"--socket={directory}/mysql.sock", f"--pid-file={directory}/mysql.pid"),
        )
        until("mariadbd", (directory / "mysql.sock").exists)
        begin("slurmdbd", "-D")
        until("slurmdbd", lambda: succeeds("sacctmgr", "-n", "list", "cluster"))
        make_associations(window)
        # Slurm aligns its windows and its periods to whole minutes of the clock.
        time.sleep(60 - time.time() % 60)
        began = time.time()
        begin("slurmctld", "-D")
        until("slurmctld", lambda: succeeds("scontrol", "ping"))
        for node in range(1, NODES + 1):
            begin("slurmd", "-D", "-N", f"n{node}")
        count = ("sinfo", "-h", "-t", "idle", "-o", "%D")
        first = next(iter(settings_of(window).get("partitions", {"main": 1})))
        until("32 nodes", lambda: asked(*count, "-p", first).strip() == str(NODES))
        yield began


def make_associations(window: Window) -> None:
    """Tell the database the accounts, users, QOS and their limits."""

    def manage(*words: str) -> None:
        asked("sacctmgr", "-i", *words)

    manage("add", "cluster", "test")
    names = []
    for name, rules in window.settings.get("qos", {}).items():
        known = {
            "priority": "Priority",
            "max_jobs_per_user": "MaxJobsPerUser",
            "max_jobs": "GrpJobs",
        }
        told = [f"{known[key]}={value:.0f}" for key, value in rules.items() if key in known]
        for key, tres in (
            ("max_processors_per_user", "MaxTRESPerUser"),
            ("max_processors", "GrpTRES"),
        ):
            told += [f"{tres}=cpu={rules[key]}"] if key in rules else []
        if name == "normal":
            manage("modify", "qos", "normal", "set", *told)
        else:
            manage("add", "qos", name, *told)
        names.append(name)
    for account in ACCOUNTS:
        manage("add", "account", account, "fairshare=1")
        users = ",".join(user for user in USERS if account_of(user) == account)
        manage("add", "user", users, f"account={account}", "fairshare=1")
    if names:
        manage("modify", "account", ",".join(ACCOUNTS), "set", f"qos={','.join(names)}")


def record(window: Window, traces: Path, directory: Path) -> dict[str, Any]:
    """Have the real Slurm run a window, and return what it did; dates in seconds from a minute."""
    with cluster(directory, window) as began:
        origin, begin = began - began % 60, time.time()
        told: list[dict[str, Any]] = []
        for request in requests_of(window, traces):
            time.sleep(max(0.0, begin + request["after"] - time.time()))
            told.append(submit(request))
        until("the window", lambda: not asked("squeue", "-h", "-t", "PD,R,CG").strip(), 40 * 60)
    found = read_completions(directory / "jobcomp.txt")
    log = read_log(directory / "slurmctld.log", origin)
    jobs = []
    for each in told:
        kept = {key: value for key, value in each.items() if key not in ("after", "laxity", "id")}
        at = kept.pop("at") - origin
        if "deadline" in kept:
            kept["deadline"] -= origin
        ended = {"state": "REFUSED", "nodes": "", "submit": round(at, 3)}
        if each["id"] is not None:
            ended = {**found[each["id"]], **log.jobs[each["id"]]}
        jobs.append({**kept, **ended})
    passes = {"main": log.main, "backfill": log.backfill}
    return {"window": window.name, "passes": passes, "jobs": jobs}


def submit(request: dict[str, Any]) -> dict[str, Any]:
    """Submit a job, and return it with its id, None if it was refused at once."""
    words = ["sbatch", "--parsable", f"--uid={request['user']}", "-A", request["account"]]
    words += ["-N", str(request["processors"]), "-t", str(request["limit"]), "-o", "/dev/null"]
    words += ["-D", "/tmp", "--no-requeue"]
    told = dict(request, at=time.time())
    if "qos" in request:
        words += ["-q", request["qos"]]
    if "partition" in request:
        words += ["-p", request["partition"]]
    if "laxity" in request:
        told["deadline"] = int(told["at"]) + 60 * request["limit"] + request["laxity"]
        moment = datetime.fromtimestamp(told["deadline"]).isoformat()
        words.append(f"--deadline={moment}")
    script = f"#!/bin/sh\nexec sleep {request['run']}\n"
    done = subprocess.run(words, input=script, capture_output=True, text=True, timeout=60)
    if done.returncode and "laxity" not in request:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
    return {**told, "id": None if done.returncode else done.stdout.strip().partition(";")[0]}


def read_completions(path: Path) -> dict[str, dict[str, Any]]:
    """Return the jobs of a file of jobcomp/filetxt by id."""
    found = {}
    for line in path.read_text().splitlines():
        cells = dict(cell.split("=", 1) for cell in line.split() if "=" in cell)
        found[cells["JobId"]] = {"state": cells["JobState"], "nodes": cells.get("NodeList", "")}
    return found


class Told(NamedTuple):
    """What slurmctld's log tells: dates of jobs by id, of main passes and of backfill passes.

    Of a job, when it was submitted and started, and when it and its nodes had ended. All in seconds
    from the origin.
    """

    jobs: dict[str, dict[str, float]]
    main: list[float]
    backfill: list[float]


def read_log(path: Path, origin: float) -> Told:
    """Return what slurmctld's log tells."""
    told = Told({}, [], [])
    for line in path.read_text().splitlines():
        stamp, _, said = line.partition("] ")
        if not stamp.startswith("[20"):
            continue
        date = round(datetime.fromisoformat(stamp[1:]).timestamp() - origin, 3)
        if "Running job scheduler" in said:
            told.main.append(date)
        elif said.endswith("_attempt_backfill: beginning"):
            told.backfill.append(date)
        elif known := SUBMITTED.search(said):
            told.jobs[known[1]] = {"submit": date}
        elif known := STARTED.search(said):
            told.jobs[known[1]]["start"] = date
        elif known := ENDED.search(said):
            told.jobs[known[1] or known[2]]["end"] = date
    return told


SUBMITTED = re.compile(r"_slurm_rpc_submit_batch_job: JobId=(\d+) ")
STARTED = re.compile(r"(?:sched: Allocate|Started) JobId=(\d+) ")
ENDED = re.compile(r"_slurm_rpc_epilog_complete: JobId=(\d+) |_job_complete: JobId=(\d+) done")


def main() -> None:
    """Record windows with the real Slurm, or compare with it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("directory", type=Path, help="of the recordings")
    parser.add_argument("windows", nargs="*", help="names; by default all")
    parser.add_argument("--work", type=Path, default=Path("/tmp/slurm-judge"))
    parser.add_argument("--traces", type=Path, default=Path("../shared/traces"))
    given = parser.parse_args()
    chosen = [each for each in WINDOWS if not given.windows or each.name in given.windows]
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if given.what == "record" and (missing or os.geteuid() != 0):
        sys.exit(f"skipped: {', '.join(missing) or 'root'} is missing")
    for window in chosen:
        path = given.directory / f"{window.name}.json"
        if given.what == "record":
            found = record(window, given.traces, given.work / window.name)
            rows = ",\n  ".join(json.dumps(job) for job in found.pop("jobs"))
            path.write_text(json.dumps(found)[:-1] + f', "jobs": [\n  {rows}\n]}}\n')
            shutil.rmtree(given.work / window.name / "mysql", ignore_errors=True)
            print(f"{window.name}: recorded", flush=True)  # noqa: T201
        elif path.exists():
            print(f"{window.name}: {agreement(window, json.loads(path.read_text()))}")  # noqa: T201


class Agreement(NamedTuple):
    """Agreement of a simulation with the real Slurm.

    Jobs of the window, and those whose fate is the same (run, refused, cancelled); of those that
    ran in both, how many stand in the same order, and by how much starts differ (seconds).
    """

    jobs: int
    same_fate: int
    ran: int
    in_order: int
    differences: list[float]

    def __str__(self) -> str:
        middle = statistics.median(self.differences)
        return (
            f"{self.in_order} of {self.ran} jobs start in the same order "
            f"({100 * self.in_order / self.ran:.1f} %), {self.same_fate} of {self.jobs} have the "
            f"same fate, starts differ by {middle:g} s (median), {max(self.differences):g} s (most)"
        )


def seen(recording: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the jobs of a recording at the dates at which slurmctld saw what had happened.

    Between two passes nothing is decided: a job is seen by the first pass after its submission, its
    end by the first after its nodes are free, and it is started by the last pass before its start.
    """
    passes = sorted(recording["passes"]["main"] + recording["passes"]["backfill"])
    passes = [0.0, *passes, passes[-1] + 1.0]
    rows = []
    for row in recording["jobs"]:
        found = dict(row)
        for name in ("submit", "end"):
            if name in row:
                found[name] = passes[bisect_left(passes, row[name])]
        if "start" in row:
            found["start"] = passes[bisect_right(passes, row["start"]) - 1]
        rows.append(found)
    return rows


class Judged(Slurm):
    """``slurm`` whose backfill passes are at the dates of slurmctld's."""

    passes: list[float]

    def schedule(self) -> None:
        """Let the next pass be due when it was."""
        following = self.passes[bisect_left(self.passes, self.manager.now - 1e-6)]
        self.last_backfill = following - self.interval
        super().schedule()


def workload_of(recording: dict[str, Any]) -> Workload:
    """Return the jobs of a recording as they came and ran; one that never ran takes its limit."""
    jobs, profiles = [], {}
    for number, row in enumerate(seen(recording)):
        limit = 60.0 * row["limit"]
        name, profile = delay_profile(row["end"] - row["start"] if "end" in row else limit)
        profiles[name] = profile
        deadline = row.get("deadline")
        fields = {
            "id": f"{number:03d}",
            "subtime": row["submit"],
            "res": row["processors"],
            "profile": name,
            "walltime": limit,
            "user": row["user"],
            "group": row["account"],
        }
        fields |= {"qos_name": row["qos"]} if "qos" in row else {}
        fields |= {"queue": row["partition"]} if "partition" in row else {}
        fields |= {"qos": {"deadline": float(deadline)}} if deadline is not None else {}
        jobs.append(Job.from_fields(fields, where="recording"))
    return Workload(jobs=jobs, profiles=profiles, processors=NODES)


def agreement(window: Window, recording: dict[str, Any]) -> Agreement:
    """Have ``slurm`` decide about the jobs of a recording."""
    module = make_scheduler(Judged, settings_of(window))
    assert isinstance(module, SchedulerModule)
    assert isinstance(module.scheduler, Judged)
    module.scheduler.passes = [*recording["passes"]["backfill"], math.inf]
    found = simulate(module, workload_of(recording), make_cluster(NODES))
    starts = {each.local_id: each.start for each in found.ended if each.state != REJECTED}
    pairs, same_fate = [], 0
    for number, row in enumerate(seen(recording)):
        start = starts.get(f"{number:03d}")
        same_fate += ("end" in row) == (start is not None)
        if "end" in row and start is not None:
            pairs.append((row["start"], start))
    differences = [abs(real - ours) for real, ours in pairs]
    return Agreement(len(recording["jobs"]), same_fate, len(pairs), in_order(pairs), differences)


def in_order(pairs: list[tuple[float, float]]) -> int:
    """Return how many pairs can stay so that both dates of them never fall."""
    ends: list[float] = []
    for _, date in sorted(pairs):
        place = bisect_right(ends, date)
        ends[place : place + 1] = [date]
    return len(ends)


if __name__ == "__main__":
    main()
