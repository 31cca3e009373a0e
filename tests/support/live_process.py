"""The command `live` on a real Slurm, as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.slurm_cluster import SlurmCluster


class Deciding:
    """The command, as a process that can be killed and started again."""

    def __init__(self, cluster: SlurmCluster, base: Path, *further: str) -> None:
        self.journal = base / "journal.db"
        self._said = base / "live.log"
        self._log = self._said.open("w")
        self._cluster = cluster
        self._command = [sys.executable, "-m", "qops_batsim", "live", "qops", "--poll", "0.5s"]
        self._command += ["--journal", str(self.journal), "--margin", "5s", *further]
        self.start()

    def start(self) -> None:
        """Start it, and wait until it decides."""
        before = self._said.read_text().count(" live qops (live)")
        self.process = subprocess.Popen(
            self._command, env=self._cluster.env, stdout=self._log, stderr=self._log
        )
        self._cluster.wait_for(
            lambda: self._said.read_text().count(" live qops (live)") > before, 120, "it decides"
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        self._log.close()
