"""Costs of live decisions on the fake resource manager: a poll with a long queue, a day of polls.

    python benchmarks/live_costs.py [HOURS]

CPU time of this process, and memory that Python holds; docs/live.md has the numbers.
"""

from __future__ import annotations

import gc
import random
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from qops_batsim.live.fates import counts
from qops_batsim.live.manager import JobPhase
from support.live_site import Site


def poll_costs(base: Path) -> None:
    """Print the CPU time of polls with a new job beside a thousand waiting ones."""
    site = Site(base / "queue.db", 64)
    draw = random.Random(1)
    for _ in range(1064):
        limit = draw.choice([600, 3600, 7200])
        site.fake.submit(draw.choice([1, 2, 8]), limit, limit / 2, 1e6 * draw.uniform(0.5, 1.0))
    site.pass_time(3)
    spent = []
    for _ in range(10):
        site.fake.submit(4, 3600, 1800, 1e6)
        site.fake.advance(1.0)
        begun = time.process_time()
        site.centre.step()
        spent.append(time.process_time() - begun)
    waiting = counts(site.journal.entries())["waiting"]
    print(f"{waiting} jobs wait: {min(spent):.3f} to {max(spent):.3f} CPU seconds a poll")
    site.journal.close()


def day(base: Path, hours: int) -> None:
    """Print the memory after hours of polls each 10 s, with some 70 jobs an hour."""
    site = Site(base / "day.db", 16)
    draw = random.Random(1)
    tracemalloc.start()
    for hour in range(1, hours + 1):
        for _ in range(360):
            if draw.random() < 0.2:
                limit = draw.choice([60, 300, 600])
                site.fake.submit(draw.choice([1, 2, 4]), limit, limit * 0.7, 3000.0)
            site.pass_time(10, poll=10)
        for job_id, job in list(site.fake.all.items()):
            if job.phase is JobPhase.ENDED and site.fake.now - (job.end or 0) > 600:
                site.fake.forget(job_id)
        # What the fake manager and the site remember for tests is not the centre's.
        site.fake.effects.clear()
        site.fake.said.clear()
        site.lines.clear()
        if hour % max(hours // 6, 1) == 0:
            gc.collect()
            held, jobs = tracemalloc.get_traced_memory()[0], int(site.fake.submit().id) - 1
            print(f"{hour} h, {jobs} jobs: {held / 1e6:.2f} MB")
    site.journal.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        poll_costs(Path(place))
        day(Path(place), int(sys.argv[1]) if len(sys.argv) > 1 else 24)
