"""Schedulers that decide the oddest things, most of them allowed, for the embedded engine.

What the engine takes, it has to write such that the package reads it. Of schedulers that differ in
what they know of run times, ``check_scheduler`` has to find those that know them too early.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from commands import call
from hostile_peers import hear, honest_session
from mutations import LETTERS
from odd_engines import PROFILES

from qops_batsim import Easy, EngineNeeds, check_scheduler
from qops_batsim.core.hostset import HostSet
from qops_batsim.engine.outputs import write_outputs
from qops_batsim.engine.simulation import Deadlock
from qops_batsim.errors import InputError, SimulationError
from qops_batsim.protocol.events import MACHINES_AWAY
from qops_batsim.protocol.messages import Message, decode_decisions, encode_message
from qops_batsim.running.contract import SchedulerContractError

if TYPE_CHECKING:
    from harness import Tally

SESSIONS = 10
"""Schedulers in a case."""

DELAYS = [1e-6, 1e-5, 1e-3, 1.0, 10.0, 1e4, 1e9, 1e12, 1e13, 0.0, -1.0]
STATES = ["COMPLETED_KILLED", "COMPLETED_SUCCESSFULLY", "REJECTED", "RUNNING", "x"]
NOTICES = ["registration_finished", "continue_registration", "no_more_static_job_to_submit", "x"]


class Scheduler:
    """A scheduler that starts jobs, and now and then does something else."""

    def __init__(self, rng: random.Random, tally: Tally) -> None:
        self.rng = rng
        self.tally = tally
        self.oddity = rng.choice([0.0, 0.02, 0.1])
        self.hosts: list[int] = []
        self.free: set[int] = set()
        self.away: set[int] = set()
        self.waiting: dict[str, int] = {}
        self.running: dict[str, list[int]] = {}
        self.made = 0

    def exchange(self, message: Message[Any]) -> Message[Any]:
        """Answer a message, as over a socket."""
        now = message.now
        said = json.loads(encode_message(message))
        for event in said["events"]:
            self._hear(event["type"], event["data"])
        decisions = []
        for job_id, processors in list(self.waiting.items()):
            if 0 < processors <= len(self.free) and self.rng.random() < 0.7:
                del self.waiting[job_id]
                chosen = self.rng.sample(sorted(self.free), processors)
                self.free -= set(chosen)
                self.running[job_id] = chosen
                alloc = " ".join(map(str, chosen))
                decisions.append(("EXECUTE_JOB", {"job_id": job_id, "alloc": alloc}))
            elif not 0 < processors <= len(self.hosts):
                del self.waiting[job_id]
                decisions.append(("REJECT_JOB", {"job_id": job_id}))
        while self.rng.random() < 0.3:
            decisions.append(self._allowed(now))
        if self.rng.random() < self.oddity:
            decisions.insert(self.rng.randrange(len(decisions) + 1), self._odd(now))
        self.tally.count("odd decisions", len(decisions))
        dates = [now if self.rng.random() < 0.9 else now + self.rng.random() for _ in decisions]
        answer = {
            "now": max([now, *dates]),
            "events": [
                {"timestamp": date, "type": kind, "data": data}
                for date, (kind, data) in zip(sorted(dates), decisions, strict=True)
            ],
        }
        try:
            return decode_decisions(json.dumps(answer))
        except InputError as error:
            raise SimulationError(f"a wrong message: {error}") from None

    def _hear(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "SIMULATION_BEGINS":
            self.hosts = [host["id"] for host in data["compute_resources"]]
            self.free = set(self.hosts)
        elif kind == "JOB_SUBMITTED":
            self.waiting[data["job_id"]] = data["job"]["res"]
        elif kind == "JOB_COMPLETED":
            self.free |= set(self.running.pop(data["job_id"], [])) - self.away
        elif kind == "NOTIFY" and "resources" in data:
            hosts = set(HostSet.parse(data["resources"]))
            if data["type"] == MACHINES_AWAY:
                self.away |= hosts
                self.free -= hosts
            else:
                self.away -= hosts
                self.free |= hosts - {host for used in self.running.values() for host in used}

    def _allowed(self, now: float) -> tuple[str, dict[str, Any]]:
        rng = self.rng
        jobs = [*self.waiting, *self.running, "w0!1"]
        what = rng.randrange(6)
        if what == 0:
            return "CALL_ME_LATER", {"timestamp": now + rng.choice(DELAYS[1:7])}
        if what == 1 and self.running:
            return "KILL_JOB", {"job_ids": rng.sample(sorted(self.running), 1)}
        if what == 2:
            return "SET_JOB_METADATA", {"job_id": rng.choice(jobs), "metadata": "text"}
        if what == 3:
            self.made += 1
            profile = PROFILES[rng.choice(["delay", "none", "flop"])]
            return "REGISTER_PROFILE", {
                "workload_name": "made", "profile_name": f"p{self.made}", "profile": profile,
            }  # fmt: skip
        if what == 4 and self.made:
            name = f"made!{rng.randrange(10**6)}"
            job = {"id": name, "subtime": now, "res": 1, "profile": f"p{rng.randint(1, self.made)}"}
            return "REGISTER_JOB", {"job_id": name, "job": job}
        return "NOTIFY", {"type": "continue_registration"}

    def _odd(self, now: float) -> tuple[str, dict[str, Any]]:
        rng = self.rng
        job_id = rng.choice([*self.waiting, *self.running, "w0!1", *LETTERS])
        hosts = rng.choice(["0", "0-3", "", "999", *LETTERS])
        odd: list[tuple[str, dict[str, Any]]] = [
            ("CALL_ME_LATER", {"timestamp": now + rng.choice(DELAYS)}),
            ("KILL_JOB", {"job_ids": [job_id, job_id]}),
            ("REJECT_JOB", {"job_id": job_id}),
            ("EXECUTE_JOB", {"job_id": job_id, "alloc": hosts}),
            ("EXECUTE_JOB", {"job_id": job_id, "alloc": hosts, "mapping": {"0": hosts}}),
            ("SET_JOB_METADATA", {"job_id": job_id, "metadata": rng.choice(LETTERS)}),
            ("SET_RESOURCE_STATE", {"resources": hosts, "state": rng.choice(["0", "1", "x"])}),
            ("CHANGE_JOB_STATE", {"job_id": job_id, "job_state": rng.choice(STATES)}),
            ("TO_JOB_MSG", {"job_id": job_id, "msg": rng.choice(LETTERS)}),
            ("NOTIFY", {"type": rng.choice(NOTICES)}),
            ("ANSWER", {"estimate_waiting_time": {}}),
            ("QUERY", {"requests": {rng.choice(["consumed_energy", *LETTERS]): {}}}),
            ("REGISTER_PROFILE", {
                "workload_name": rng.choice(LETTERS), "profile_name": rng.choice(LETTERS),
                "profile": rng.choice(list(PROFILES.values())),
            }),
            ("REGISTER_JOB", {
                "job_id": f"made!{rng.choice(LETTERS)}",
                "job": {"id": "x", "subtime": 0, "res": rng.choice([0, 1, 9]), "profile": "p1"},
            }),
        ]  # fmt: skip
        return rng.choice(odd)


def _seconds(name: str) -> float:
    return float(name.removeprefix("delay"))


FORESIGHT: dict[str, Callable[[Any, Any], float]] = {
    "profile": lambda it, job: _seconds(job.profile),
    "field": lambda it, job: _seconds(job.fields["profile"]),
    "text": lambda it, job: _seconds(repr(job).split("'")[-2]),
    "content": lambda it, job: it.manager.profile_of(job)["delay"],
    "system": lambda it, job: it.manager.system.profiles["w0"][job.profile]["delay"],
    "by name": lambda it, job: it.known.get(job.profile, job.estimate),
}
"""Ways to see a job's run time before it ends; the last learns it from a job of the same name."""

EXPERIENCE: dict[str, Callable[[Any, Any], float]] = {
    "estimate": lambda it, job: job.estimate,
    "by size": lambda it, job: it.known.get(job.processors, job.estimate),
    "by estimate": lambda it, job: it.known.get(job.estimate, job.estimate),
    "arrival": lambda it, job: job.submission_time,
}
"""What schedulers may know, run times of ended jobs included."""

USES: dict[str, Callable[[float, Any], float]] = {
    "shortest": lambda seconds, job: seconds,
    "longest": lambda seconds, job: -seconds,
    "area": lambda seconds, job: seconds * job.processors,
    "ratio": lambda seconds, job: -job.submission_time / max(seconds, 1e-9) - job.processors,
}
"""Keys of a queue."""


def _knowing(rng: random.Random, ways: dict[str, Callable[[Any, Any], float]]) -> type[Easy]:
    """Return an EASY whose queue is ordered by what one of the ways tells."""
    way, use = rng.choice(sorted(ways)), rng.choice(sorted(USES))
    tells, key = ways[way], USES[use]

    class Knowing(Easy):
        @property
        def needs(self) -> EngineNeeds:
            asks = way in ("content", "system")
            return EngineNeeds(dynamic_jobs=asks, profile_reuse=asks)

        def begin(self, manager: Any) -> None:
            super().begin(manager)
            self.known: dict[Any, float] = {}

        def ended(self, job: Any) -> None:
            super().ended(job)
            seconds = self.manager.now - job.start
            self.known |= {job.profile: seconds, job.processors: seconds, job.estimate: seconds}

        def order(self, now: float) -> list[Any]:
            return sorted(self.queue, key=lambda job: key(tells(self, job), job))

        def all_submitted(self) -> None:
            super().all_submitted()
            if self.needs.dynamic_jobs:
                self.manager.finish_registering()

    Knowing.__name__ = f"{use} by {way}"
    return Knowing


def _check_foresight(rng: random.Random, tally: Tally) -> None:
    """Have a scheduler that knows run times and one that does not checked."""
    honest, knowing = _knowing(rng, EXPERIENCE), _knowing(rng, FORESIGHT)
    try:
        check_scheduler(honest)
    except SchedulerContractError as error:
        tally.fail(f"an honest scheduler ({honest.__name__}) is refused", str(error))
    try:
        check_scheduler(knowing)
    except SchedulerContractError as error:
        if "decisions depend on run times" not in str(error):
            tally.fail(f"a scheduler that knows run times ({knowing.__name__})", str(error))
    else:
        tally.fail(f"a scheduler that knows run times ({knowing.__name__}) passes")
    tally.count("schedulers checked for foresight", 2)


def case(seed: int, folder: Path, tally: Tally) -> None:
    """Let some schedulers decide over the workload of a seed, and check others."""
    rng = random.Random(seed)
    _check_foresight(random.Random(f"foresight {seed}"), tally)
    session = honest_session(rng, folder)
    for _ in range(SESSIONS):
        scheduler = Scheduler(rng, tally)
        written = []

        def decide(scheduler: Scheduler = scheduler, written: list[Path] = written) -> None:
            try:
                simulation = session.simulation(scheduler, dynamic_jobs=True)
                simulation.run()
            except Deadlock as error:
                simulation = error.simulation
            written += write_outputs(simulation, folder / "odd")

        hear(decide, "a scheduler", tally)
        if written:
            tally.count("simulations written")
            ended = call(["metrics", str(folder / "odd"), "--json"])
            if ended.failure or ended.code != 0:
                tally.fail(f"metrics: {ended.failure or ended.code}", ended.errors)
        for path in written:
            path.unlink()
