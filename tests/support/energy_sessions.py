"""Random sessions with energy: platforms with power states, and decisions that switch hosts.

By hand, with a real Batsim on PATH and as many seeds as wanted (the second with latencies):

    PYTHONPATH=tests python -m support.energy_sessions 0 40
    PYTHONPATH=tests python -m support.energy_sessions 0 40 network
"""

from __future__ import annotations

import csv
import io
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from qops_batsim import read_platform, read_workload
from qops_batsim.core import HostSet
from qops_batsim.engine import EngineOptions, Simulation, write_outputs
from qops_batsim.protocol.zeromq import listen
from support import random_simulations as simulations
from support.needs import batsim4
from support.recordings import Case, Replay

SECONDS = 240.0
MOST_CALLS = 60
BY_DESIGN = ("batsim_version", "scheduling_time", "simulation_time")
# Batsim's stretch of a job killed within nanoseconds depends on the last bits of the clock.
TOO_LARGE = 1e8


class PowerStates:
    """The power states of a random host: those that compute, then triples of sleep, off and on."""

    def __init__(self, rng: random.Random) -> None:
        self.computing = list(range(rng.choice([1, 1, 2, 3])))
        speeds = [rng.choice([50, 100, 200, 133.7]) * 1e6 for _ in self.computing]
        self.sleeping = [len(speeds) + 3 * each for each in range(rng.choice([0, 1, 1, 2]))]
        for _ in self.sleeping:
            speeds += [1e-3, rng.choice([0.5, 0.3, 1.0]), rng.choice([0.05, 0.2, 0.5])]
        watts = []
        for state in range(len(speeds)):
            idle = rng.choice([0.0, 9.75, 30.0, 95.0])
            most = idle + (rng.choice([0, 70.5, 95.738]) if state in self.computing else 0)
            watts.append(f"{idle}:{rng.choice([idle, idle + 10])}:{most + 10}")
        self.first = rng.choice([0, 0, 0, *self.computing, *self.sleeping])
        sleep = ",".join(f"{each}:{each + 1}:{each + 2}" for each in self.sleeping)
        self.attributes = (
            f'speed="{", ".join(f"{speed!r}f" for speed in speeds)}" pstate="{self.first}" '
            f'core="{rng.choice([1, 1, 2, 4])}"'
        )
        self.properties = f'<prop id="wattage_per_state" value="{", ".join(watts)}"/>'
        if sleep:
            self.properties += f'<prop id="sleep_pstates" value="{sleep}"/>'


def platform(rng: random.Random, states: list[PowerStates], *, network: bool) -> str:
    place = "" if network else 'coordinates="0 0 0" '
    lines = [
        f'<host id="master_host" {place}speed="1Mf"><prop id="wattage_per_state" value="1:1:2"/>'
        "</host>"
    ]
    lines += [
        f'<host id="h{number}" {place}{each.attributes}>{each.properties}</host>'
        for number, each in enumerate(states)
    ]
    if network:
        names = ["master_host", *(f"h{number}" for number in range(len(states)))]
        lines += [
            f'<link id="k{number}" bandwidth="{rng.choice([1, 12.5, 125])}MBps" '
            f'latency="{rng.choice([1, 50, 1000, 20000])}us"/>'
            for number in range(4)
        ]
        for index, name in enumerate(names):
            for other in names[index + 1 :]:
                crossed = "".join(f'<link_ctn id="k{k}"/>' for k in rng.sample(range(4), 2))
                lines.append(f'<route src="{name}" dst="{other}">{crossed}</route>')
    return simulations.document(lines, "Full" if network else "Vivaldi")


def workload(rng: random.Random, hosts: int, *, network: bool) -> dict[str, Any]:
    profiles: dict[str, Any] = {}

    def work(count: int) -> dict[str, Any]:
        sent = rng.choice([0, 1e5, 3e6]) if network else 0
        kind = rng.choice(["delay", "delay", "homogeneous", "total", "parallel"])
        if kind == "delay":
            return {"type": "delay", "delay": rng.choice([1, 2, 5, 7.25])}
        if kind == "parallel":
            sizes = [0 if i == j else sent for i in range(count) for j in range(count)]
            cpu = [rng.choice([0, 1e8, 1e9]) for _ in range(count - 1)] + [3e8]
            return {"type": "parallel", "cpu": cpu, "com": sizes}
        total = "_total" if kind == "total" else ""
        cpu = rng.choice([1e8, 7e8, 1e9])
        return {"type": f"parallel_homogeneous{total}", "cpu": cpu, "com": sent}

    jobs, date = [], 0.0
    for number in range(rng.choice([4, 8, 12])):
        date = round(date + rng.choice([0, 0, rng.randint(0, 9), rng.expovariate(0.3)]), 3)
        count, name = rng.randint(1, hosts), f"p{number}"
        profiles[name] = work(count)
        if rng.random() < 0.2:
            profiles |= {f"{name}_{step}": work(count) for step in range(3)}
            profiles[name] = {"type": "composed", "seq": [f"{name}_{step}" for step in range(3)]}
        job = {"id": str(number), "subtime": date, "res": count, "profile": name}
        jobs.append(job | ({"walltime": rng.choice([3.3, 9.7])} if rng.random() < 0.3 else {}))
    return {"nb_res": hosts, "jobs": jobs, "profiles": profiles}


class Decider:
    """Starts and kills jobs, switches hosts, and asks for the energy, as chance will have it."""

    def __init__(
        self, rng: random.Random, states: list[PowerStates], jobs: list[dict[str, Any]], most: int
    ) -> None:
        self._rng = rng
        self._hosts = states
        self._most = most
        self._sizes = {f"w0!{job['id']}": job["res"] for job in jobs}
        self._left = len(jobs)
        self._calls = 0
        self._waiting: list[str] = []
        self._running: dict[str, list[int]] = {}
        self._killed: set[str] = set()
        self._state: list[int | None] = [each.first for each in states]  # None on the way
        self._target = list(self._state)

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        for event in message["events"]:
            self._hear(event["type"], event["data"])
        said: list[tuple[str, dict[str, Any]]] = []
        ends = message["events"][-1]["type"] == "SIMULATION_ENDS"
        if self._left and not ends:
            self._say(said, message["now"])
        now = message["now"]
        events = [{"timestamp": now, "type": kind, "data": data} for kind, data in said]
        return {"now": now, "events": events}

    def _hear(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "JOB_SUBMITTED":
            self._waiting.append(data["job_id"])
        elif kind == "JOB_COMPLETED":
            del self._running[data["job_id"]]
            self._left -= 1
        elif kind == "RESOURCE_STATE_CHANGED":
            for host in HostSet.parse(data["resources"]):
                if self._target[host] == int(data["state"]):
                    self._state[host] = int(data["state"])

    def _say(self, said: list[tuple[str, dict[str, Any]]], now: float) -> None:
        rng, hurry = self._rng, self._calls >= MOST_CALLS
        if rng.random() < 0.2:
            said.append(("QUERY", {"requests": {"consumed_energy": {}}}))
        for _ in range(3):
            chance = 0.0 if hurry else rng.random()
            if chance < 0.5:
                self._execute(said)
            elif chance < 0.9:
                self._switch(said, rng.choice(["sleep", "wake", "wake", "change"]))
            elif mortal := sorted(self._running.keys() - self._killed):
                self._killed.add(victim := rng.choice(mortal))
                said.append(("KILL_JOB", {"job_ids": [victim]}))
        if hurry:
            self._switch(said, "wake")
        elif self._waiting or rng.random() < 0.2:
            self._calls += 1
            date = round(now + rng.choice([0.7, 1.3, 2.9]), 6)
            said.append(("CALL_ME_LATER", {"timestamp": date}))

    def _execute(self, said: list[tuple[str, dict[str, Any]]]) -> None:
        if not self._waiting:
            return
        job = self._waiting[0]
        computing = filter(self._computes, range(len(self._hosts)))
        free = [host for host in computing if self._load(host) < self._most]
        if len(free) >= self._sizes[job]:
            hosts = sorted(self._rng.sample(free, self._sizes[job]))
            self._running[self._waiting.pop(0)] = hosts
            said.append(("EXECUTE_JOB", {"job_id": job, "alloc": " ".join(map(str, hosts))}))

    def _switch(self, said: list[tuple[str, dict[str, Any]]], how: str) -> None:
        able = []
        for number, host in enumerate(self._hosts):
            busy = bool(self._load(number))
            if how == "wake":
                fits = self._state[number] in host.sleeping
            else:
                may = how == "change" or (host.sleeping and not busy)
                fits = self._computes(number) and may
            able += [number] if fits else []
        if not able:
            return
        states = [each.sleeping if how == "sleep" else each.computing for each in self._hosts]
        state = self._rng.choice(states[self._rng.choice(able)])
        group = [number for number in able if state in states[number]]
        hosts = sorted(self._rng.sample(group, self._rng.randint(1, len(group))))
        for number in hosts:
            self._target[number] = state
            self._state[number] = state if how == "change" else None
        said.append(
            ("SET_RESOURCE_STATE", {"resources": " ".join(map(str, hosts)), "state": str(state)})
        )

    def _computes(self, host: int) -> bool:
        return self._state[host] in self._hosts[host].computing

    def _load(self, host: int) -> int:
        return sum(host in hosts for hosts in self._running.values())


def session_difference(seed: int, directory: Path, *, network: bool) -> str:
    """Record a session of the real Batsim, replay it, and return what differs."""
    rng = random.Random(f"energy {seed} {network}")
    states = [PowerStates(rng) for _ in range(rng.choice([1, 2, 3, 4, 6]))]
    jobs = workload(rng, len(states), network=network)
    most = rng.choice([1, 1, 3])
    (directory / "platform.xml").write_text(platform(rng, states, network=network))
    (directory / "workload.json").write_text(json.dumps(jobs))
    _record(directory, Decider(rng, states, jobs["jobs"], most), sharing=most > 1)
    case = Case(
        name="real",
        platform="platform.xml",
        workloads=["workload.json"],
        hosts=len(states),
        compute_sharing=most > 1,
        config={},
        ended=True,
        batsim="4.2.1",
        directory=directory,
        recorded=".",
    )
    peer = Replay(case)
    options = EngineOptions(energy=True, compute_sharing=most > 1)
    inputs = read_platform(directory / "platform.xml"), read_workload(directory / "workload.json")
    simulation = Simulation(inputs[0], [inputs[1]], peer, options)
    simulation.run()
    write_outputs(simulation, directory / "ours")
    found = [f"{each[:300]}" for each in peer.differences[:1]]
    for kind in ("jobs", "machine_states", "consumed_energy", "pstate_changes", "schedule"):
        pair = [(directory / f"{who}_{kind}.csv").read_text() for who in ("ours", "real")]
        rows = [list(csv.reader(io.StringIO(text))) for text in pair]
        if kind == "schedule":
            rows = [list(map(list, zip(*each, strict=True))) for each in rows]
        for ours, theirs in zip(*rows, strict=True):
            if ours != theirs and not _by_design(ours, theirs):
                found.append(f"{kind}: {ours} instead of {theirs}")
                break
    return "\n".join(found)


def _by_design(ours: list[str], theirs: list[str]) -> bool:
    name = ours[0]
    return name in BY_DESIGN or ("slowdown" in name and float(theirs[1]) > TOO_LARGE)


def _record(directory: Path, decider: Decider, *, sharing: bool) -> None:
    """Let the real Batsim run with a decider, and write the transcript."""
    lines = []
    listening, endpoint = listen(f"ipc://{directory}/socket", timeout=SECONDS)
    command = [batsim4().required(), "-p", "platform.xml", "-w", "workload.json", "-e", "real"]
    command += ["-E", "-s", endpoint, "--disable-schedule-tracing", "-q"]
    command += ["--enable-compute-sharing"] * sharing
    log = (directory / "log").open("w")
    batsim = subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)
    try:
        ended = False
        while not ended:
            text = listening.receive().decode()
            message = json.loads(text)
            answer = json.dumps(decider.answer(message))
            lines += [json.dumps({"from": "batsim", "raw": text})]
            lines += [json.dumps({"from": "sched", "raw": answer})]
            listening.send(answer.encode())
            ended = message["events"][-1]["type"] == "SIMULATION_ENDS"
        assert batsim.wait(SECONDS) == 0
    finally:
        batsim.kill()
        batsim.wait()
        listening.close()
        log.close()
    (directory / "real.transcript.jsonl").write_text("\n".join(lines) + "\n")


def main() -> None:
    first, last, *network = sys.argv[1:]
    for seed in range(int(first), int(last)):
        with tempfile.TemporaryDirectory() as directory:
            found = session_difference(seed, Path(directory), network=bool(network))
        sys.stdout.write(f"{seed}: {found or 'equal'}\n")


if __name__ == "__main__":
    main()
