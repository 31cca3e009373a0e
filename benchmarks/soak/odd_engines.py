"""Engines that say only what can be, and the oddest of that: dates, ends, kills, hosts, requests.

A case plays engines for random schedulers, each message made up from what the scheduler decided.
Nothing is refused but what an engine cannot know; the scheduler has to live with all of it.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hostile_peers import hear
from random_runs import random_settings

from qops_batsim.core.qos_log import write_qos_log
from qops_batsim.jobs import FINAL_STATES, REJECTED
from qops_batsim.protocol.decisions import ExecuteJob, KillJob, RegisterJob
from qops_batsim.protocol.messages import decode_decisions
from qops_batsim.protocol.session import DecisionSession
from qops_batsim.schedulers.registry import scheduler_names

if TYPE_CHECKING:
    from harness import Tally

SESSIONS = 10
"""Engines in a case."""

ENDS = sorted(set(FINAL_STATES) - {REJECTED})
SECONDS = [0.0, 1e-9, 1e-6, 0.5, 1.0, 3.0, 60.0, 1e4, 1e6, 1e11]
WALLTIMES = [None, 1e-9, 1e-6, 0.001, 1.0, 10.0, 3600.0, 1e12]
PROFILES = {
    "delay": {"type": "delay", "delay": 10},
    "none": {"type": "delay", "delay": 0},
    "flop": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 1e6},
    "much": {"type": "parallel_homogeneous_total", "cpu": 1e300, "com": 1e300},
    "matrix": {"type": "parallel", "cpu": [1, 2], "com": [0, 1, 2, 0]},
    "twice": {"type": "composed", "seq": ["flop", "delay"], "repeat": 2},
    "much more": {"type": "composed", "seq": ["much"] * 9, "repeat": 100_000},
    "round": {"type": "composed", "seq": ["round"]},
    "odd": {"type": "smpi", "trace": "x"},
    "bare": {},
}


class Engine:
    """An engine that makes up what happens."""

    def __init__(self, session: DecisionSession, rng: random.Random) -> None:
        self.session = session
        self.rng = rng
        self.hosts = rng.choice([1, 2, 4, 64, 200])
        self.now = 0.0
        self.submitted = 0
        self.running: dict[str, str] = {}
        self.to_kill: list[str] = []
        self.to_announce: list[RegisterJob] = []

    def begin(self) -> None:
        """Tell of a machine with odd properties, or none."""
        rng = self.rng
        odd = [{}, {}, {"speed": "1e9f"}, {"cores": "4", "memory": "1e9"}, {"speed": "1f"}]
        self.tell(
            (
                "SIMULATION_BEGINS",
                {
                    "nb_resources": self.hosts,
                    "nb_compute_resources": self.hosts,
                    "allow_compute_sharing": rng.random() < 0.5,
                    "config": {
                        "dynamic-jobs-enabled": True,
                        "dynamic-jobs-acknowledged": rng.random() < 0.7,
                        "profile-reuse-enabled": True,
                    },
                    "compute_resources": [
                        {"id": n, "name": f"h{n}", "properties": rng.choice(odd)}
                        for n in range(self.hosts)
                    ],
                    "profiles": {"w0": PROFILES},
                },
            )
        )

    def go_on(self) -> None:
        """Let some time pass, and things happen."""
        rng = self.rng
        self.now = min(self.now + rng.choice(SECONDS), 1e12)
        events = [self._event() for _ in range(rng.choice([0, 1, 1, 2, 5]))]
        self.tell(*filter(None, events))

    def _event(self) -> tuple[str, dict[str, Any]] | None:
        rng = self.rng
        what = rng.randrange(12)
        if what < 4:
            return self._submission()
        if what < 7 and self.running:
            # Of jobs that are killed, the end is told first.
            job_id = rng.choice(
                [*self.running, *(each for each in self.to_kill if each in self.running)]
            )
            return self._completion(job_id, rng.choice(ENDS))
        if what == 7 and self.to_kill:
            return "JOB_KILLED", self._kills()
        if what == 8 and self.to_announce:
            job = self.to_announce.pop(rng.randrange(len(self.to_announce)))
            return "JOB_SUBMITTED", {"job_id": job.job_id, "job": job.job.fields}
        if what == 9:
            kind = rng.choice(["event_machine_unavailable", "event_machine_available"])
            low, high = sorted(rng.randrange(self.hosts) for _ in range(2))
            return "NOTIFY", {"type": kind, "resources": rng.choice([f"{low}-{high}", f"{low}"])}
        if what == 10:
            words = ["no_more_static_job_to_submit", "no_more_external_event_to_occur", "else"]
            return "NOTIFY", {"type": rng.choice(words)}
        return "REQUESTED_CALL", {}

    def _submission(self) -> tuple[str, dict[str, Any]]:
        rng = self.rng
        self.submitted += 1
        name = f"w0!{self.submitted}"
        job = {
            "id": name,
            "subtime": min(rng.choice([self.now, 0.0, -1.0, self.now + 10, self.now - 0.5]), 1e12),
            "res": rng.choice([0, 1, 1, 2, self.hosts, self.hosts + 1, 10**6]),
            "profile": rng.choice([*PROFILES, "unknown"]),
        }
        walltime = rng.choice(WALLTIMES)
        if walltime is not None:
            job["walltime"] = walltime
        if rng.random() < 0.7:
            job["qos"] = self._request()
        return "JOB_SUBMITTED", {"job_id": name, "job": job}

    def _request(self) -> dict[str, Any]:
        rng = self.rng
        request = {
            "deadline": min(rng.choice([0.0, self.now, self.now + 5, self.now + 100]), 1e12),
            "estimated_runtime": rng.choice([1e-6, 0.5, 10.0, 1e6, 1e12]),
            "class": rng.choice(["deadline", "high_priority", "dedicated", "best_effort"]),
            "has_user_deadline": rng.random() < 0.5,
            "tolerance_factor": rng.choice([0.0, 1.0, 1e6]),
            "user_priority": rng.choice([0.0, 0.5, 1.0]),
            "political_priority": rng.choice([0.0, 1.0, None]),
            "memory": rng.choice([0, 1e3, 1e12]),
        }
        kept = rng.sample(sorted(request), rng.randrange(len(request) + 1))
        return {name: request[name] for name in kept}

    def _completion(self, job_id: str, state: str) -> tuple[str, dict[str, Any]]:
        code = self.rng.choice([0, 1, -1, 2**63])
        alloc = self.running.pop(job_id)
        return "JOB_COMPLETED", {
            "job_id": job_id, "job_state": state, "return_code": code, "alloc": alloc,
        }  # fmt: skip

    def _kills(self) -> dict[str, Any]:
        """Answer a KILL_JOB, perhaps not of all its jobs, and not with all that is known."""
        ended = [each for each in self.to_kill if each not in self.running]
        self.to_kill = [each for each in self.to_kill if each in self.running]
        progress = {
            each: {"profile_name": "x", "progress": self.rng.choice([0, 0.5, 1, 1e-9])}
            for each in ended
            if self.rng.random() < 0.7
        }
        return {"job_ids": ended, "job_progress": progress}

    def tell(self, *events: tuple[str, dict[str, Any]]) -> None:
        """Say what happened; take the decisions."""
        said = [{"timestamp": self.now, "type": kind, "data": data} for kind, data in events]
        text = json.dumps({"now": self.now, "events": said}).encode()
        busy = set()
        for item in decode_decisions(self.session.answer(text)).events:
            body = item.body
            if isinstance(body, ExecuteJob):
                assert body.job_id not in self.running, "a job that runs is started"
                self.running[body.job_id] = str(body.alloc)
                busy |= set(body.alloc)
                assert not busy or max(busy) < self.hosts, "a host that is not there"
            elif isinstance(body, KillJob):
                self.to_kill += body.job_ids
            elif isinstance(body, RegisterJob):
                self.to_announce.append(body)


def case(seed: int, folder: Path, tally: Tally) -> None:
    """Play engines for some schedulers."""
    rng = random.Random(seed)
    for _ in range(SESSIONS):
        scheduler = rng.choice(scheduler_names())
        settings = random_settings(scheduler, rng)
        session = DecisionSession(scheduler, settings, any_engine=True)
        engine = Engine(session, rng)

        def play(engine: Engine = engine, session: DecisionSession = session) -> None:
            engine.begin()
            for _ in range(rng.choice([10, 40, 100])):
                engine.go_on()
                tally.count("odd messages")
            write_qos_log(session.log, folder / "run")

        hear(play, f"{scheduler} {settings}", tally)
