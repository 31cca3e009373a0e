"""Live centres on the fake manager, each with a journal of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qops_batsim.live import LIVE, About, CentreManager, JobPhase, Journal, LiveCentre
from support.fake_manager import FakeJob, FakeManager


class Site:
    """A fake cluster and the process that decides for it, which can be killed and started again."""

    def __init__(
        self,
        path: Path,
        nodes: int = 4,
        shared: dict[str, dict[str, str]] | None = None,
        **about: Any,
    ) -> None:
        self.fake = FakeManager(len(shared or ()) or nodes)
        self.fake.shared = shared
        self.manager: CentreManager = self.fake
        self.path = path
        told = {"mode": LIVE, "scheduler": "qops", "options": {"grace": 5.0}, "margin": 60.0}
        fields = {"origin": 0.0, "nodes": [], "partition": None, "time_zone": "Europe/Berlin"}
        self.about = About(**{**fields, **told, **about})
        self.lines: list[str] = []
        self.kept: dict[str, Any] = {}
        self._open()

    def _open(self) -> None:
        self.journal = Journal(self.path, writes=True)
        # A kill of the process loses nothing that was written; to wait for the disk takes long.
        self.journal._db.execute("PRAGMA synchronous=OFF")
        new = self.about if self.journal.about is None else None
        self.centre = LiveCentre(
            self.manager,
            self.journal,
            new,
            clock=self.fake.clock,
            uptime=self.fake.uptime,
            on_line=self.lines.append,
            **self.kept,
        )

    def restart(self) -> None:
        """End the process and begin another one, as after a kill -9 between two steps."""
        self.journal.close()
        self._open()

    def pass_time(self, seconds: float, poll: float = 1.0) -> None:
        """Let time pass, and poll now and then."""
        end = self.fake.now + seconds
        while self.fake.now < end:
            self.fake.advance(min(poll, end - self.fake.now))
            self.centre.step()

    def entry(self, job: str) -> Any:
        """Return the last run of a job."""
        return [each for each in self.journal.entries() if each.job == job][-1]


def others_job(site: Site, hosts: tuple[str, ...], limit: float, run_time: float) -> FakeJob:
    """Return a job that somebody else has just started."""
    other = site.fake.submit(len(hosts), limit, run_time)
    other.phase = JobPhase.RUNNING
    other.start = site.fake.now
    other.hosts = hosts
    other.end = site.fake.now + run_time
    return other
