"""Raw TCP connections against ``serve``, while it waits and while it serves; the engine completes.

    python benchmarks/soak/stray_openings.py [--openings 100000]

Half of the connections are opened before the engine comes, half during its simulation. Each sends
nothing, ten bytes, random bytes, or the beginning of a greeting of ZeroMQ, and is closed. Prints
how long that took and what ``serve`` and the engine ended with; exits with 1 if one did not end
well.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from hostile_sockets import GREETING, free_port

from qops_batsim.platform.generate import make_cluster
from qops_batsim.platform.simgrid_write import write_platform

COMMAND = [sys.executable, "-c", "from qops_batsim.cli.main import main; main()"]
LIMIT = 600.0
"""Longest time for serve and the engine to end (seconds)."""


def knock(port: int, times: int, rng: random.Random) -> int:
    """Open connections one after the other; return how many were taken."""
    taken = 0
    for _ in range(times):
        content = (b"", b"0123456789", rng.randbytes(rng.randrange(200)), GREETING[:20])
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as visitor:
                taken += 1
                visitor.sendall(rng.choice(content))
        except OSError:
            time.sleep(0.01)
    return taken


def memory(pid: int) -> float:
    """Return the memory that a process holds (MiB)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def write_inputs(folder: Path, jobs: int) -> list[str]:
    """Write a platform and a workload; return the engine's arguments for them."""
    rows = [{"id": str(n), "subtime": n, "res": 1, "profile": "d"} for n in range(jobs)]
    workload = {"nb_res": 4, "jobs": rows, "profiles": {"d": {"type": "delay", "delay": 3}}}
    (folder / "w.json").write_text(json.dumps(workload))
    write_platform(make_cluster(4), folder / "p.xml")
    return ["-p", str(folder / "p.xml"), "-w", str(folder / "w.json"), "-e", str(folder / "run")]


def main() -> int:
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--openings", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=20_000)
    given = parser.parse_args()
    port, rng, taken = free_port(), random.Random(1), 0
    endpoint = f"tcp://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = write_inputs(folder, given.jobs)
        words = (folder / "words").open("w+b")
        serve = subprocess.Popen(
            [*COMMAND, "serve", "fcfs", "--socket", endpoint, "-q", "-o", str(folder / "served")],
            stderr=words,
        )
        while not knock(port, 1, rng):
            time.sleep(0.1)
        before, began = memory(serve.pid), time.monotonic()
        taken += knock(port, given.openings // 2, rng)
        after = memory(serve.pid)
        engine = subprocess.Popen(
            [*COMMAND, "engine", *inputs, "-s", endpoint, "-q", "--timeout", str(LIMIT)]
        )
        counted: list[int] = []
        rest = given.openings - given.openings // 2
        visitor = threading.Thread(target=lambda: counted.append(knock(port, rest, rng)))
        visitor.start()
        codes = engine.wait(LIMIT), serve.wait(LIMIT)
        seconds = time.monotonic() - began
        visitor.join()
        words.seek(0)
        said = words.read().decode().strip()
        rows = len((folder / "run_jobs.csv").read_text().splitlines()) - 1 if not any(codes) else 0
    print(
        f"{taken + sum(counted):,} connections ({taken:,} before the engine) in {seconds:.0f} s, "
        f"memory of serve {before:.0f} to {after:.0f} MiB; the engine simulated {rows:,} of "
        f"{given.jobs:,} jobs; exit codes: engine {codes[0]}, serve {codes[1]}; it said {said!r}"
    )
    return int(codes != (0, 0) or rows != given.jobs)


if __name__ == "__main__":
    sys.exit(main())
