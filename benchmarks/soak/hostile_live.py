"""Hostile users of a real Slurm for which ``live`` decides: is anybody else's promise broken?

    python benchmarks/soak/hostile_live.py --seconds 3600 [--seed 1]

Needs root and Slurm, as the tests on a real Slurm do. Two honest users submit jobs with deadlines,
whose scripts note their ends themselves. Hostile users submit beside them with comments, job names
and directories that hold line breaks, control characters, bytes that are no text, rows of squeue
that tell of an honest job's end, and the signs between cells that they find in the processes of
the machine; arrays, heterogeneous jobs, jobs that cannot start or outstay their limits, and 500
jobs at once. They change, hold, release, requeue and cancel their own jobs, and try that with
those of others; a fifth of it goes around the filter of submissions. At the end the process is
killed, more is submitted, its journal is cut, and ``live release-all`` has to free what is held for
it and nothing else. What is tried follows from the seed.

Prints what was tried and found, and exits with 1 if a promise of an honest user is broken, a poll
is lost (Slurm has answered and its answer, or a row of it, was not taken; a slow poll is none, and
told), a forged row is believed, or a job is not told of.
"""

from __future__ import annotations

import argparse
import os
import pwd
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from qops_batsim.live import Journal, decided_fates
from support.slurm_cluster import SlurmCluster, missing

ROOT = Path(__file__).resolve().parents[2]

HONEST, HOSTILE = ("man", "news"), ("games", "mail", "backup")
NODES, MARGIN, POLL = 16, 60.0, 1.0
MOST_WAITING = 800
"""Number of waiting jobs that are cancelled, which is hostile as well."""

PLUGINS = ["cli_filter", "job_submit"]
SETTINGS = ["CliFilterPlugins=cli_filter/lua", "JobSubmitPlugins=lua", "KillWait=10"]

SPY = """
import glob, re, time
until, found = time.monotonic() + 2, set()
while time.monotonic() < until:
    for name in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ"):
        try:
            found.update(re.findall(rb"Comment:0(<[0-9a-f]{32}>)", open(name, "rb").read()))
        except OSError:
            pass
print(*(each.decode() for each in found))
"""


class Users:
    """What users do, and what became known of it."""

    def __init__(self, cluster: SlurmCluster, seed: int, stamps: Path) -> None:
        self.cluster, self.draw, self.stamps = cluster, random.Random(seed), stamps
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.honest: dict[str, float] = {}
        """Date of submission by id."""
        self.owner: dict[str, str] = {}
        self.signs: list[str] = []
        self.env = cluster.env
        self.folder = stamps / "a\nb|c"
        self.folder.mkdir()

    def say(self, user: str, *words: str | bytes, stdin: str = "") -> str | None:
        """Run a command as a user; None if it was refused."""
        as_user = ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}"]
        done = subprocess.run(
            [*as_user, "--clear-groups", *words], env=self.env, input=stdin.encode(),
            capture_output=True, timeout=120, check=False, cwd=self.stamps,
        )  # fmt: skip
        return None if done.returncode else done.stdout.decode(errors="replace")

    def go_around_the_filter(self) -> None:
        """Have the next commands read a configuration without it, as users can."""
        conf = self.stamps / "slurm.conf"
        lines = self.cluster.conf.read_text().splitlines()
        conf.write_text("\n".join(line for line in lines if not line.startswith("CliFilter")))
        self.env = self.cluster.env | {"SLURM_CONF": str(conf)}

    def submit(self, user: str, script: str, *options: str | bytes) -> str | None:
        """Submit a job and return its id."""
        command = ["sbatch", "--parsable", "--output=/dev/null", *options]
        said = self.say(user, *command, stdin=f"#!/bin/sh\n{script}\n")
        if said is None:
            self.refused[user] += 1
            return None
        job = said.strip()
        self.owner[job] = user
        return job

    def submit_honest(self) -> None:
        """Submit a job with a deadline, whose script notes when it has ended."""
        draw, minutes = self.draw, self.draw.choice([1, 1, 2])
        run_time = draw.uniform(3, 50 * minutes)
        script = f"sleep {run_time:.1f}; date +%s.%N > {self.stamps}/$SLURM_JOB_ID"
        room = (60 * minutes + MARGIN) * draw.uniform(1.2, 6)
        date = time.strftime("%FT%T", time.localtime(time.time() + room))
        options = ["-N", str(draw.choice([1, 1, 2, 3, 4])), "-t", str(minutes)]
        job = self.submit(draw.choice(HONEST), script, *options, f"--deadline={date}")
        assert job is not None
        self.honest[job] = time.time()

    # Hostile users

    def text(self) -> bytes:
        """Return a comment, a name or an account that is no plain text."""
        draw = self.draw
        victim = draw.choice([*self.honest][-20:] or ["1"])
        now = f"{time.time():.0f}"
        sign = draw.choice([*self.signs, "|", f"<{draw.randbytes(16).hex()}>", "\t", " "])
        cells = [victim, draw.choice(["CANCELLED", "COMPLETED", "PENDING", "RUNNING"]), "1", "1:00"]
        cells += [now, now, now, "1", "1", "0", "0", "JobHeldAdmin", "N/A", "root", "n[1-16]"]
        row = sign.join([*cells, "qops: held", "deadline=1"]) + sign
        few = ("\n", "\r\n", "\x0b", "\x1c", "\u2028", "|", sign, "qops", "deadline=", "x,", "ä")
        texts = (
            "see\nticket",
            f"qops\n{row}\n{row}",
            f"x{sign}\n{row}",
            "".join(draw.choices(few, k=draw.randrange(40))),
            draw.choice(["qops=held-by-user", "deadline=never", "deadline=nan tolerance=-1"]),
            f"deadline={time.time() + draw.uniform(60, 900):.0f}\nqops",
            "deadline=" + "9" * 900,
            row * 3,
        )
        text = draw.choice(texts).encode()[:1000]
        return text + draw.choice([b"", b"\xff\xfe\x80", b"\x1b[2J\x07", b"'\"\\$(id)%s%n"])

    def attack(self) -> None:
        """Have a hostile user do something."""
        user = self.draw.choice(HOSTILE)
        kinds = {"odd": 30, "array": 6, "cancel": 12, "change": 16, "others": 4, "wide": 4}
        kinds |= {"hetero": 2, "outstay": 4, "spy": 0.5, "own_hold": 2, "scripted": 4}
        (kind,) = self.draw.choices([*kinds], [*kinds.values()])
        self.done[kind] += 1
        if self.draw.random() < 0.2:
            self.done["around the filter"] += 1
            self.go_around_the_filter()
        getattr(self, f"_{kind}")(user)
        self.env = self.cluster.env

    def _odd(self, user: str, nodes: int = 1) -> None:
        draw, minutes = self.draw, self.draw.choice([1, 1, 2])
        named = {"--comment": self.text(), "--job-name": self.text(), "--account": self.text()}
        options = [b"=".join([name.encode(), text]) for name, text in named.items()]
        options = draw.sample(options, draw.randrange(1, 4))
        if draw.random() < 0.3:
            options.append(f"--chdir={self.folder}".encode())
        if draw.random() < 0.3:
            room = draw.uniform(60, 900)
            date = time.strftime("%FT%T", time.localtime(time.time() + room))
            options.append(f"--deadline={date}".encode())
        width = str(draw.choice([1, 1, 2, 4, nodes]))
        self.submit(user, f"sleep {draw.uniform(0, 40):.1f}", "-N", width, f"-t{minutes}", *options)

    def _array(self, user: str) -> None:
        tasks = self.draw.choice(["1-20", "0-99:7%2", "1,3,900", "5-5", "1-40%1"])
        comment = b"--comment=" + self.text()
        self.submit(user, "sleep 5", "-N1", "-t1", f"--array={tasks}", comment)

    def _hetero(self, user: str) -> None:
        self.submit(user, "sleep 5", "-N1", "-t1", ":", "-N1", "-t1", b"--comment=" + self.text())

    def _outstay(self, user: str) -> None:
        self.submit(user, "trap '' TERM; sleep 90 & wait; sleep 90", "-N2", "-t1")

    def _wide(self, user: str) -> None:
        wish = self.draw.choice([
            ["-N17"], ["-N1-4"], ["-N16"], ["-n3"], ["-c64"], ["--mem=1T"], ["-wn1"], ["-Cx"],
            ["--begin=now+60"], ["-dafterany:1"], ["--priority=0"], ["--nice=9"], ["--no-requeue"],
            ["-xn[1-16]"], ["--exclusive"], ["-t2-0"], ["-t0"], ["-pmain,main"], ["--qos=x"],
        ])  # fmt: skip
        self.submit(user, "sleep 10", "-t1", *wish)

    def _own_hold(self, user: str) -> None:
        self.submit(user, "true", "--hold", "-N1", "-t1")

    def _scripted(self, user: str) -> None:
        self.submit(user, "#SBATCH -N2 -t1\n#SBATCH --comment='a|b\\nqops'\nsleep 20")

    def _cancel(self, user: str) -> None:
        jobs = [job for job, owner in self.owner.items() if owner == user]
        if jobs:
            job = self.draw.choice(jobs[-60:])
            self.say(user, "scancel", self.draw.choice([job, f"{job}_1", f"{job}_[1-9]"]))

    def _change(self, user: str) -> None:
        jobs = [job for job, owner in self.owner.items() if owner == user]
        if jobs:
            self._disturb(user, self.draw.choice(jobs[-30:]))

    def _others(self, user: str) -> None:
        if self.honest:
            victim = self.draw.choice([*self.honest][-20:])
            self.say(user, "scancel", victim)
            self._disturb(user, victim)

    def _disturb(self, user: str, job: str) -> None:
        draw = self.draw
        word = draw.choice(["update", "update", "update", "hold", "uhold", "release", "requeue"])
        if word != "update":
            self.say(user, "scontrol", word, job)
            return
        change: list[str | bytes] = [
            *(b"Comment=" + self.text(), b"Name=" + self.text(), "TimeLimit=2", "NumNodes=3"),
            *("Nice=100", "Nice=0", "StartTime=now+90", "StartTime=now", "ExcNodeList=n[1-16]"),
            *("ReqNodeList=n1", "Deadline=now+30", "Dependency=afterok:1", "Requeue=0"),
            *("AdminComment=qops: held", "Priority=4294967294", "Features=x"),
        ]
        self.say(user, "scontrol", "update", f"jobid={job}", draw.choice(change))

    def _spy(self, user: str) -> None:
        found = (self.say(user, sys.executable, "-c", SPY) or "").split()
        self.signs += found
        self.done["signs found"] += len(found)

    def flood(self, count: int) -> None:
        """Submit many jobs, one behind the other."""
        for number in range(count):
            self._odd(HOSTILE[number % len(HOSTILE)])
        self.done["flooded"] += count

    def thin_out(self) -> None:
        """Cancel all jobs of a hostile user at once, if many wait."""
        waiting = self.cluster.run("squeue", "-h", "-r", "-t", "PD", "-o", "%i").split()
        if len(waiting) > MOST_WAITING:
            user = self.draw.choice(HOSTILE)
            self.say(user, "scancel", "-u", user)
            self.done["cancelled all"] += 1


class Deciding:
    """The process, and the dates of its polls, of which it tells systemd."""

    def __init__(self, cluster: SlurmCluster, base: Path) -> None:
        self.journal, self.polls = base / "journal.db", list[float]()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(base / "notify"))
        threading.Thread(target=self._listen, daemon=True).start()
        command = [sys.executable, "-m", "qops_batsim", "live", "qops", "--partition", "main"]
        command += ["--journal", str(self.journal), "--poll", f"{POLL:g}s"]
        env = {**cluster.env, "NOTIFY_SOCKET": str(base / "notify"), "PYTHONPATH": str(ROOT)}
        self.log = base / "live.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--margin", f"{MARGIN:g}s"], env=env, stdout=log, stderr=log, cwd=base
            )
        cluster.wait_for(lambda: len(self.polls) > 1, 300, f"it polls; see {self.log}")

    def _listen(self) -> None:
        while True:
            if self._socket.recv(64) == b"WATCHDOG=1":
                self.polls.append(time.monotonic())


def use(users: Users, deciding: Deciding, seconds: float) -> None:
    """Let users do what they do for so long; honest ones each eight seconds."""
    began = time.monotonic()
    honest = thinned = began
    flood = 25
    while (now := time.monotonic()) < began + seconds:
        if deciding.process.poll() is not None:
            raise RuntimeError(f"live has ended; see {deciding.log}")
        if now >= honest:
            users.submit_honest()
            honest = now + 8
        if flood and now >= began + 0.4 * seconds:
            users.flood(20)
            flood -= 1
            continue
        if now >= thinned:
            users.thin_out()
            thinned = now + 30
        users.attack()
        time.sleep(users.draw.uniform(0, 0.8))
    for user in HOSTILE:
        users.say(user, "scancel", "-u", user)
    left = ["squeue", "-h", "-t", "PD,R,CG", "-u", ",".join(HONEST), "-o", "%i"]
    users.cluster.wait_for(lambda: not users.cluster.run(*left).split(), 1500, "honest jobs ended")
    polls = len(deciding.polls)
    users.cluster.wait_for(lambda: len(deciding.polls) > polls + 2, 300, "three polls more")


def hand_back(users: Users, deciding: Deciding) -> list[str]:
    """Kill the process, submit more, cut its journal; return what release-all does wrong."""
    deciding.process.send_signal(signal.SIGKILL)
    deciding.process.wait()
    cluster = users.cluster
    later = [users.submit(user, "true", "-N1", "-t1") for user in (*HONEST, *HOSTILE)]
    own = users.submit(HONEST[0], "true", "-H", "-N1", "-t1")
    admin = users.submit(HONEST[1], "true", "-N1", "-t1")
    assert own is not None
    assert admin is not None
    cluster.run("scontrol", "hold", admin)
    size = deciding.journal.stat().st_size
    os.truncate(deciding.journal, size // 2)
    deciding.journal.with_name("journal.db-wal").unlink(missing_ok=True)
    command = [sys.executable, "-m", "qops_batsim", "live", "release-all", "--partition", "main"]
    done = subprocess.run(
        [*command, "--journal", str(deciding.journal)], env=cluster.env | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    print(f"release-all with half a journal: {done.stdout.strip()} {done.stderr.strip()}")
    held = cluster.run("squeue", "-h", "-r", "-O", "JobArrayID:0 ,PriorityLong:0 ,Reason:0")
    left = {row[0] for row in map(str.split, held.splitlines()) if row[1:2] == ["0"]}
    wrong = [f"{job} is still held" for job in later if job in left]
    wrong += [f"{job} was freed" for job in (own, admin) if job not in left]
    return wrong + [f"release-all ended with {done.returncode}"] * (done.returncode != 0)


def judge(users: Users, deciding: Deciding) -> list[str]:
    """Print what came of it, and return what is wrong."""
    with Journal(deciding.journal) as journal:
        entries, notes = journal.entries(), journal.notes()
        seen = [job for job, _ in journal.seen()]
    fates = decided_fates(entries)
    wrong: list[str] = []
    promised = {job: fates[job] for job in users.honest if job in fates and fates[job].promise}
    late: list[str] = []
    for job, fate in promised.items():
        stamp = users.stamps / job
        end = float(stamp.read_text()) if stamp.exists() else float("inf")
        if end > (fate.promise or 0):
            late.append(f"promise of {job} is broken by {end - (fate.promise or 0):.0f} s")
    unanswered = [job for job in users.honest if job not in fates or not fates[job].answer]
    answers = sorted(
        each.answered - users.honest[each.job]
        for each in entries
        if each.job in users.honest and each.answered and each.number == 0
    )
    alarms = [text for _, kind, text in notes if kind == "alarm"]
    outages = [text for _, kind, text in notes if kind == "outage" and "over after" not in text]
    slow = [text for text in outages if "has not answered within" in text]
    outages = [text for text in outages if text not in slow]
    kinds: dict[str, list[str]] = defaultdict(list)
    for text in alarms:
        kinds[re.sub(r"n\d+(,n\d+)*|[\d_+,]+|'.*'", "…", text)[:70]].append(text)
    known = {*users.owner}
    of = {job: users.owner.get(re.split(r"[_+]", job)[0], "nobody") for job in
          (each.id for each in seen)}  # fmt: skip
    forged = [f"{each.id} of {each.user} was never submitted" for each in seen
              if of[each.id] != each.user]  # fmt: skip
    told = {re.split(r"[_+]", job)[0] for job in of} | set(
        re.findall(r"job (\d+)", "\n".join(alarms))
    )
    untold = [f"{job} is in no line of the journal" for job in known if job not in told]
    gaps = np.diff(deciding.polls)
    half, most = np.quantile(gaps, [0.5, 0.99])
    refused = sum(fates[job].answer == "refused" for job in users.honest if job in fates)
    tried = ", ".join(f"{count:,} {what}" for what, count in users.done.most_common())
    print(
        f"{len(known):,} jobs, {len(of):,} with tasks, of {len(HOSTILE)} hostile and "
        f"{len(HONEST)} honest users; Slurm refused {sum(users.refused.values()):,} submissions"
    )
    print(f"hostile: {tried}")
    print(
        f"{len(gaps) + 1:,} polls, {len(outages):,} without news, {len(slow):,} not answered "
        f"by Slurm in time; one each {half:.1f} s, 99 % within {most:.1f} s, "
        f"{gaps.max():.1f} s at most (load {os.getloadavg()[1]:.1f})"
    )
    print(
        f"honest: {len(users.honest):,} jobs, {len(promised):,} promised, {refused:,} refused, "
        f"{len(promised) - len(late):,} kept; answered after {np.median(answers):.1f} s, "
        f"{answers[-1]:.1f} s at most"
    )
    for kind, texts in sorted(kinds.items(), key=lambda item: -len(item[1])):
        print(f"  {len(texts):,} alarms: {kind} (e.g. {texts[0][:120]})")
    unread = [text for text in alarms if "cannot be read" in text]
    wrong += late + forged + untold + outages + unread
    return wrong + [f"{job} of an honest user was not answered" for job in unanswered]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if why := missing():
        sys.exit(why)
    with (
        TemporaryDirectory(prefix="hostile-", ignore_cleanup_errors=True) as base,
        TemporaryDirectory(prefix="live-") as own,
    ):
        stamps = Path(base) / "stamps"
        stamps.mkdir(mode=0o1777)
        stamps.chmod(0o1777)
        for name in PLUGINS:
            text = (ROOT / "docs" / "live" / f"{name}.lua").read_text()
            (Path(base) / f"{name}.lua").write_text(text)
        with SlurmCluster(Path(base), NODES, SETTINGS) as cluster:
            users, deciding = Users(cluster, given.seed, stamps), Deciding(cluster, Path(own))
            try:
                use(users, deciding, given.seconds)
                wrong = judge(users, deciding)
                wrong += hand_back(users, deciding)
            finally:
                deciding.process.kill()
                deciding.process.wait()
    for text in wrong[:40]:
        print(f"WRONG: {text}")
    print(f"{len(wrong):,} wrong" if wrong else "nothing is wrong")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
