"""Live: random jobs of every profile type, under the real Batsim and under our engine."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.decision_process import decision_process

COMPUTE, STORAGE = "abcd", ("disk1", "disk2")
SECONDS = 240


def platform(draw: random.Random, *, network: bool) -> str:
    """Four hosts and two disks, of one to four cores, with links or without any network."""
    names = [*COMPUTE, *STORAGE, "master_host"]
    parts = []
    for name in names:
        role = '<prop id="role" value="storage"/>' if name in STORAGE else ""
        place = "" if network else ' coordinates="0 0 0"'
        speed, cores = draw.choice((10, 25, 40)), draw.choice((1, 2, 4))
        parts.append(f'<host id="{name}"{place} speed="{speed}f" core="{cores}">{role}</host>')
    if network:
        for name in names:
            width, latency = draw.choice((50, 100, 300)), draw.choice((10, 50, 300))
            parts.append(f'<link id="{name}" bandwidth="{width}Bps" latency="{latency}us"/>')
        for index, one in enumerate(names):
            parts += [
                f'<route src="{one}" dst="{other}"><link_ctn id="{one}"/><link_ctn id="{other}"/>'
                "</route>"
                for other in names[index + 1 :]
            ]
    zone = f'<zone id="z" routing="{"Full" if network else "Vivaldi"}">{"".join(parts)}</zone>'
    return (
        '<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
        f'<platform version="4.1">{zone}</platform>'
    )


def profiles(draw: random.Random, directory: Path) -> dict[str, dict[str, Any]]:
    """One profile of each type and some sequences; traces have as many ranks everywhere.

    Batsim cannot run traces of different sizes in one sequence.
    """
    found: dict[str, dict[str, Any]] = {
        "nap": {"type": "delay", "delay": 3.5},
        "each": {"type": "parallel_homogeneous", "cpu": 100, "com": 200},
        "all": {"type": "parallel_homogeneous_total", "cpu": 200, "com": 100},
        "read": {"type": "parallel_homogeneous_pfs", "bytes_to_read": draw.randint(0, 500)},
        "write": {
            "type": "parallel_homogeneous_pfs",
            "bytes_to_read": draw.randint(0, 500),
            "bytes_to_write": draw.randint(0, 900),
            "storage": "scratch",
        },
        "stage": {
            "type": "data_staging",
            "nb_bytes": draw.randint(0, 900),
            "from": "pfs",
            "to": "scratch",
        },
    }
    for trace in ("t0", "t1"):
        ranks = [f"{trace}_{rank}" for rank in range(3)]
        (directory / trace).write_text("".join(f"{rank}\n" for rank in ranks))
        for rank, file in enumerate(ranks):
            shares = [draw.choice((0, 0.1, 0.25, 0.5, 0.77, 1)) for _ in range(draw.randint(0, 4))]
            lines = [f"{rank} m_usage {share} {draw.randint(0, 150)}\n" for share in shares]
            (directory / file).write_text("".join(lines))
        found[trace] = {"type": "usage_trace", "trace": trace}
    simple = list(found)
    for name in ("seq0", "seq1"):
        steps = draw.choices(simple, k=draw.randint(1, 4))
        found[name] = {"type": "composed", "repeat": draw.randint(1, 2), "seq": steps}
    return found


def workload(draw: random.Random, directory: Path) -> dict[str, Any]:
    """Jobs that say themselves where they run, and when they are killed."""
    known = profiles(draw, directory)
    jobs = []
    for number in range(14):
        hosts = sorted(draw.sample(range(len(COMPUTE)), draw.randint(1, len(COMPUTE))))
        job = {
            "id": f"j{number}",
            "subtime": round(draw.uniform(0, 40), 1),
            "res": len(hosts),
            "profile": draw.choice(list(known)),
            "hosts": " ".join(map(str, hosts)),
            "storages": {label: draw.choice((4, 5)) for label in ("pfs", "scratch")},
        }
        if draw.random() < 0.4:
            job["walltime"] = round(draw.uniform(2, 40), 2)
        if draw.random() < 0.3:
            job["killed after"] = round(draw.uniform(0.5, 20), 2)
        jobs.append(job)
    return {"nb_res": len(COMPUTE), "jobs": jobs, "profiles": known}


def starting_and_killing() -> Callable[[bytes], bytes]:
    """Return a decision process that does what the jobs say."""
    kills: dict[str, float] = {}

    def answer(text: bytes) -> bytes:
        message = json.loads(text)
        now, decisions = message["now"], []
        for event in message["events"]:
            data = event["data"]
            if event["type"] == "JOB_SUBMITTED":
                job_id, job = data["job_id"], data["job"]
                start = {
                    "job_id": job_id,
                    "alloc": job["hosts"],
                    "storage_mapping": job["storages"],
                }
                decisions.append(("EXECUTE_JOB", start))
                if "killed after" in job:
                    kills[job_id] = now + job["killed after"]
                    decisions.append(("CALL_ME_LATER", {"timestamp": kills[job_id]}))
            elif event["type"] == "JOB_COMPLETED":
                kills.pop(data["job_id"], None)
        # Dates are told with six decimals.
        due = [job_id for job_id, date in kills.items() if date < now + 1e-5]
        for job_id in due:
            del kills[job_id]
            decisions.append(("KILL_JOB", {"job_ids": [job_id]}))
        events = [{"timestamp": now, "type": kind, "data": data} for kind, data in decisions]
        return json.dumps({"now": now, "events": events}).encode()

    return answer


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_jobs_of_all_types_last_as_long_as_in_batsim(
    tmp_path: Path, batsim: str, seed: int
) -> None:
    programs = {
        "theirs": [batsim],
        "ours": [sys.executable, "-m", "qops_batsim.cli.engine"],
    }
    draw = random.Random(seed)
    (tmp_path / "p.xml").write_text(platform(draw, network=seed % 2 == 1))
    (tmp_path / "w.json").write_text(json.dumps(workload(draw, tmp_path)))
    for prefix, program in programs.items():
        with decision_process(starting_and_killing()) as endpoint:
            options = ["-p", "p.xml", "-w", "w.json", "-s", endpoint, "--enable-compute-sharing"]
            done = subprocess.run(
                [*program, *options, "-e", prefix, "-q"],
                cwd=tmp_path,
                capture_output=True,
                timeout=SECONDS,
            )
        assert done.returncode == 0, done.stderr[-500:]
    for kind in ("jobs", "machine_states"):
        theirs, ours = ((tmp_path / f"{each}_{kind}.csv").read_text() for each in programs)
        # A wait of nothing may be less than nothing there, in the last bit.
        assert ours == theirs.replace(",-0.000000", ",0.000000"), kind
