"""Programs that stand in for batsim, each with one behaviour, for tests of the launcher."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

PREAMBLE = """#!{python}
import json, os, shutil, signal, subprocess, sys, time
if os.environ.get("FAKE_BATSIM_PIDS"):
    with open(os.environ["FAKE_BATSIM_PIDS"], "a") as stream:
        stream.write(f"{{os.getpid()}}\\n")
if "--version" in sys.argv:
    print("{version}")
    sys.exit(0)
arguments = sys.argv[1:]
def option(name):
    return arguments[arguments.index(name) + 1]
def connect():
    import zmq
    socket = zmq.Context().socket(zmq.REQ)
    socket.linger = 0
    socket.rcvtimeo = 20000
    socket.connect(option("-s"))
    return socket
def ask(socket, text):
    socket.send(text if isinstance(text, bytes) else text.encode())
    return socket.recv()
def begins(hosts=4):
    config = {{"redis-enabled": False, "sched-config": ""}}
    resources = [
        {{"id": n, "name": f"host{{n}}", "state": "idle", "properties": {{"role": ""}}}}
        for n in range(hosts)
    ]
    data = {{
        "nb_resources": hosts, "nb_compute_resources": hosts, "nb_storage_resources": 0,
        "allow_compute_sharing": False, "allow_storage_sharing": True, "config": config,
        "compute_resources": resources, "storage_resources": [],
        "workloads": {{"w0": option("-w")}}, "profiles": {{}},
    }}
    return message("SIMULATION_BEGINS", data)
def message(kind, data, now=0.0):
    event = {{"timestamp": now, "type": kind, "data": data}}
    return json.dumps({{"now": now, "events": [event]}})
"""

PLAY = """
socket = connect()
answers = open({answers!r}, "wb")
for line in open({transcript!r}):
    record = json.loads(line)
    if record["from"] == "batsim":
        answers.write(ask(socket, record["raw"]) + b"\\n")
answers.close()
for kind in ("jobs", "schedule", "machine_states"):
    shutil.copyfile({recorded!r} + f"_{{kind}}.csv", option("-e") + f"_{{kind}}.csv")
"""
"""Plays what a recorded Batsim said, keeps the answers, leaves the recorded files."""


def write_fake(path: Path, body: str, *, version: str = "v4.2.1") -> Path:
    """Write an executable with this Python code after the preamble above."""
    path.write_text(PREAMBLE.format(python=sys.executable, version=version) + body)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def write_player(path: Path, recorded: Path, answers: Path) -> Path:
    """Write an executable that plays a recorded session, given as path without its endings."""
    transcript = Path(f"{recorded}.transcript.jsonl")
    return write_fake(
        path,
        PLAY.format(answers=str(answers), transcript=str(transcript), recorded=str(recorded)),
    )


def is_running(pid: int) -> bool:
    """Tell whether a process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in ("Z", "X")


def running(pids: Path) -> list[int]:
    """Return those process ids of a file that still run."""
    return [pid for pid in map(int, pids.read_text().split()) if is_running(pid)]


def make_environment(pids: Path) -> dict[str, str]:
    """Return the environment in which the programs note their process ids."""
    return {**os.environ, "FAKE_BATSIM_PIDS": str(pids)}
