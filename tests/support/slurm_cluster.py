"""A real Slurm for tests and trials: a controller, and a daemon for each node, on this machine.

Needs root and Debian's packages slurmctld, slurmd, slurm-client and munge. All files are in one
directory, all ports on the loopback interface, and no service of the system is touched.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

PROGRAMS = ("slurmctld", "slurmd", "squeue", "sbatch", "scontrol", "munged")

_SETTINGS = """\
ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={base}/munge.socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={base}/state
SlurmdSpoolDir={base}/spool-%n
SlurmctldPidFile={base}/slurmctld.pid
SlurmdPidFile={base}/%n.pid
SlurmctldLogFile={base}/slurmctld.log
SlurmdLogFile={base}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
{further}
{lines}
{partitions}
"""

MAIN = ("PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP",)


def missing() -> str:
    """Return why there can be no Slurm here, empty if there can."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    absent = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if absent:
        return f"{', '.join(absent)} not installed (Debian: slurmctld slurmd slurm-client munge)"
    return "" if os.geteuid() == 0 else "Slurm is started by root only here"


class SlurmCluster:
    """A Slurm of so many nodes, with so many processors each, in a directory.

    A context that ends it. With ``amounts``, each node has its own, as in slurm.conf.
    """

    def __init__(
        self,
        base: Path,
        nodes: int,
        further: Sequence[str] = (),
        *,
        cpus: int = 1,
        partitions: Sequence[str] = MAIN,
        amounts: Sequence[str] = (),
    ) -> None:
        self.base = base.resolve()
        self._amounts = amounts or (f"CPUs={cpus}",) * nodes
        self.nodes = nodes
        self._further = further
        self._partitions = partitions
        self.conf = self.base / "slurm.conf"
        self.env = {**os.environ, "SLURM_CONF": str(self.conf), "SLURM_TIME_FORMAT": "%s"}
        self.env["PATH"] = os.pathsep.join([self.env.get("PATH", ""), "/usr/sbin", "/sbin"])

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _start(self) -> None:
        self.base.mkdir(parents=True, exist_ok=True)
        self.base.chmod(0o755)
        (self.base / "state").mkdir(exist_ok=True)
        key = self.base / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        files = {"socket": "munge.socket", "pid-file": "munged.pid", "log-file": "munged.log"}
        options = [f"--{name}={self.base / file}" for name, file in files.items()]
        options += [f"--key-file={key}", f"--seed-file={self.base / 'munge.seed'}"]
        self.run("munged", "--force", *options)
        port = _free_ports(self.nodes + 1)
        host = socket.gethostname().partition(".")[0]
        lines = [
            f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port + number} "
            f"{amounts} State=UNKNOWN"
            for number, amounts in enumerate(self._amounts, 1)
        ]
        self.conf.write_text(
            _SETTINGS.format(
                base=self.base,
                host=host,
                port=port,
                lines="\n".join(lines),
                further="\n".join(self._further),
                partitions="\n".join(self._partitions),
            )
        )
        self.start_controller()
        for number in range(1, self.nodes + 1):
            self.start_node(f"n{number}")
        self.wait_for(lambda: self.idle() == self.nodes, 60, "all nodes are idle")

    def run(self, *command: str, check: bool = True, stdin: str = "") -> str:
        """Run a command in this cluster and return what it says."""
        done = subprocess.run(
            command, env=self.env, input=stdin, capture_output=True, text=True, timeout=60,
            check=False, cwd=self.base,
        )  # fmt: skip
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def start_controller(self) -> None:
        self.run("slurmctld", "-f", str(self.conf))

    def stop_controller(self) -> None:
        self._end("slurmctld.pid", signal.SIGTERM)

    def start_node(self, name: str) -> None:
        self.run("slurmd", "-N", name, "-f", str(self.conf))

    def stop_node(self, name: str) -> None:
        self._end(f"{name}.pid", signal.SIGTERM)

    def idle(self) -> int:
        """Return how many nodes are idle."""
        said = self.run("sinfo", "-h", "-t", "idle", "-o", "%D", check=False).split()
        return int(said[0]) if said else 0

    def submit(self, script: str, *options: str) -> str:
        """Submit a job and return its id."""
        arguments = ["--parsable", "--output=/dev/null", *options]
        return self.run("sbatch", *arguments, stdin=f"#!/bin/sh\n{script}\n").strip()

    def wait_for(self, is_so: object, seconds: float, what: str) -> None:
        """Wait until something is so."""
        assert callable(is_so)
        until = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > until:
                raise TimeoutError(f"not within {seconds:g} s: {what}; see {self.base}")
            time.sleep(0.2)

    def wait_until_empty(self, *options: str, seconds: float = 300) -> None:
        """Wait until no job waits, runs or ends, of those that ``options`` of squeue choose."""
        left = ["squeue", "-h", *options, "-t", "PD,R,CG", "-o", "%i"]
        self.wait_for(lambda: not self.run(*left).split(), seconds, "all jobs have ended")

    def stop(self) -> None:
        """End all daemons, and wait until they have written their last."""
        nodes = [f"n{number}.pid" for number in range(1, self.nodes + 1)]
        for file in ("slurmctld.pid", *nodes, "munged.pid"):
            self._end(file, signal.SIGTERM, wait=False)
        for file in ("slurmctld.pid", *nodes, "munged.pid"):
            self._end(file, 0)

    def _end(self, file: str, number: int, *, wait: bool = True) -> None:
        with suppress(OSError, ValueError):
            pid = int((self.base / file).read_text())
            os.kill(pid, number)
            for _ in range(100 if wait else 0):
                os.kill(pid, 0)
                time.sleep(0.1)


def _free_ports(count: int) -> int:
    """Return the first of so many ports in a row that nobody listens at."""
    for _ in range(100):
        first = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError):
            for port in range(first, first + count):
                with socket.create_server(("127.0.0.1", port)):
                    pass
            return first
    raise RuntimeError(f"no {count} free ports in a row")
