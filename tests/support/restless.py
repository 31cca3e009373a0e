"""A scheduler that starts, kills, registers and rejects jobs at random, and writes down what it is
told."""

from __future__ import annotations

import random
from typing import Any

from qops_batsim import EngineNeeds, Job, QosRequest, Scheduler
from qops_batsim.core import RUNNING, WAITING, ResourceManager
from qops_batsim.jobs import rest_of, restarted_id

PROFILES: dict[str, dict[str, Any]] = {
    "sleep": {"type": "delay", "delay": 3.1234567},
    "fail": {"type": "delay", "delay": 2.0, "ret": 3},
    "work": {"type": "parallel_homogeneous", "cpu": 4e9, "com": 0},
    "twice": {"type": "composed", "repeat": 2, "seq": ["sleep", "fail"]},
    "both": {"type": "composed", "seq": ["sleep", "work"]},
}
"""Profiles that it registers: of jobs that sleep, compute, and do both."""


class Restless(Scheduler):
    """Draws its decisions by ``seed``; ``told`` is what it was told, call by call."""

    kills = True

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.seed = 0

    @property
    def needs(self) -> EngineNeeds:
        return EngineNeeds(dynamic_jobs=True, profile_reuse=True)

    def begin(self, manager: ResourceManager) -> None:
        super().begin(manager)
        self.drawn = random.Random(self.seed)
        self.told: list[Any] = []
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.dying: list[Job] = []
        self.names: dict[str, bool] = {}
        self.count = 0
        self.left = self.drawn.randint(0, 9)
        self.last = self.finishes = False

    def note(self, what: str, job: Job | None = None, *more: Any) -> None:
        about = () if job is None else (job.id, job.phase, job.state)
        self.told.append((what, self.manager.now, self.manager.free, *about, *more))

    def submitted(self, job: Job) -> None:
        self.note("submitted", job)
        self.waiting.append(job)

    def ended(self, job: Job) -> None:
        self.note("ended", job, self.manager.hosts_of(job), self.manager.free_mask())
        self.running.remove(job)

    def progressed(self, job: Job, progress: Any) -> None:
        self.note("progressed", job, progress)

    def killed(self, job: Job) -> None:
        self.note("killed", job)
        self.dying.remove(job)
        if self.drawn.random() < 0.7:
            self.run_again(job)

    def cancelled(self, job: Job) -> None:
        self.note("cancelled", job)
        if job.phase == WAITING:
            self.waiting.remove(job)
            self.manager.reject(job, "its user does not want it any more")

    def called(self) -> None:
        self.note("called")

    def all_submitted(self) -> None:
        self.note("all submitted")
        self.last = True

    def hosts_changed(self, announced: int) -> None:
        self.note("hosts", None, announced)

    def finished(self) -> None:
        self.note("finished")

    def decide(self) -> None:
        manager, drawn = self.manager, self.drawn
        self.note("decide", None, manager.free_mask())
        for _ in range(drawn.randint(1, 6)):
            choice = drawn.choice(["start", "start", "start", "kill", "again", "register", "call"])
            if choice == "start":
                self.start_some()
            elif choice == "call":
                manager.call_at(manager.now + drawn.choice([0.0, 0.5, 1.0, drawn.random()]))
                break
            elif self.left > 0:
                self.left -= 1
                if choice == "register":
                    self.register()
                elif choice == "kill":
                    self.kill_some()
                elif self.dying:
                    manager.kill(drawn.choice(self.dying))  # Only the first time counts.
        if self.waiting and not self.running:
            self.start_some()
            if self.waiting and not self.running:
                self.manager.reject(self.waiting.pop(), "nothing fits")
                manager.call_at(manager.now + 1.0)
        if self.last and not (self.running or self.waiting or self.finishes):
            self.finishes = True
            manager.finish_registering()

    def start_some(self) -> None:
        manager, drawn = self.manager, self.drawn
        for job in list(self.waiting):
            if job.processors == 0 or job.processors > manager.machine_size:
                self.waiting.remove(job)
                manager.reject(job, "too narrow or too wide")
            elif job.processors <= manager.free and drawn.random() < 0.8:
                self.waiting.remove(job)
                manager.start(job)
                self.running.append(job)

    def kill_some(self) -> None:
        alive = [job for job in self.running if job not in self.dying and job.phase == RUNNING]
        for job in self.drawn.sample(alive, min(len(alive), self.drawn.randint(1, 3))):
            self.manager.kill(job)
            self.dying.append(job)
            if self.drawn.random() < 0.3:
                self.manager.note_metadata(job, f"killed at {self.manager.now:g}")

    def run_again(self, job: Job) -> None:
        if self.finishes:
            return
        manager = self.manager
        original = manager.original_id(job)
        self.count += 1
        profile = manager.profile_of(job)
        saved = 0.0
        if profile.get("type") == "delay" and self.drawn.random() < 0.5:
            saved = min(1e-3, profile["delay"] / 2, (job.walltime or 1.0) / 2)
        again = rest_of(job, restarted_id(original, self.count), saved)
        manager.register_again(again, job, job, saved)
        text = manager.qos_log.note_restart(again.id, original, job.id, original, 1.5)
        manager.note_metadata(again, text)
        self.waiting.append(again)

    def register(self) -> None:
        if self.finishes:
            return
        manager, drawn = self.manager, self.drawn
        for name in ("sleep", "fail", "work"):
            if name not in self.names:
                self.names[name] = True
                self.add(name, PROFILES[name])
                return
        name = drawn.choice(list(PROFILES))
        profile = None if name in self.names else PROFILES[name]
        self.names[name] = True
        self.add(name, profile)
        self.note("registered", self.waiting[-1], dict(manager.profile_of(self.waiting[-1])))

    def add(self, profile: str, told: dict[str, Any] | None) -> None:
        drawn = self.drawn
        self.count += 1
        walltime = drawn.choice([None, None, 2.5, 0.1234567, 100])
        qos = QosRequest(deadline=30.0) if drawn.random() < 0.3 else None
        job = Job(
            f"w0!new{self.count}",
            self.manager.now - drawn.random(),
            drawn.randint(1, 3),
            profile,
            walltime,
            qos,
        )
        self.manager.register(job, told)
        self.waiting.append(job)
