"""How long a quote takes beside a queue of 1,000 jobs, in process and over HTTP.

python benchmarks/bench_queue.py [--jobs 1000] [--asks 500] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import random
import time
from http.client import HTTPConnection
from threading import Thread
from typing import Any

from qops_batsim.advice.queue_quote import Ask, QueueAsker
from qops_batsim.advice.queue_state import read_queue
from qops_batsim.advice.quote_server import QuoteServer

MACHINE = 4096
NOW = 1_780_000_000


def random_queue(jobs: int, seed: int) -> dict[str, Any]:
    """Return a queue in our own form: what fits runs, the rest waits, half with a promise."""
    rng = random.Random(seed)
    written: list[dict[str, Any]] = []
    free = MACHINE
    for number in range(jobs):
        processors = min(2 ** rng.randint(0, 8), MACHINE)
        estimate = rng.choice((600, 3600, 14_400, 43_200, 86_400))
        job: dict[str, Any] = {"id": number, "processors": processors, "estimate": estimate}
        if processors <= free and number < jobs // 2:
            free -= processors
            job["start"] = NOW - rng.randint(0, estimate - 1)
        else:
            job["submission"] = NOW - rng.randint(0, 200_000)
            if rng.random() < 0.5:
                job["deadline"] = NOW + estimate + rng.randint(0, 10) * 86_400
        written.append(job)
    return {"processors": MACHINE, "now": NOW, "jobs": written}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--asks", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    state = read_queue(json.dumps(random_queue(asked.jobs, asked.seed)).encode(), "queue")
    rng = random.Random(asked.seed)
    asks = [
        Ask(processors=2 ** rng.randint(0, 12), time=rng.choice((600, 3600, 43_200, 86_400)))
        for _ in range(asked.asks)
    ]
    for may_wait in (False, True):
        began = time.perf_counter()
        asker = QueueAsker(state, may_wait=may_wait)
        asker.ask(asks[0])
        ready = time.perf_counter() - began
        times, worked = [], []
        for each in asks:
            began, busy = time.perf_counter(), time.thread_time()
            asker.ask(each)
            worked.append(time.thread_time() - busy)
            times.append(time.perf_counter() - began)
        what = f"{asker.running} run, {asker.waiting} wait, may_wait={may_wait}"
        report(f"{what}: ready in {1000 * ready:.0f} ms, wall", times)
        report(f"{what}: CPU", worked)
    report("over HTTP, wall", over_http(QueueAsker(state), asks))


def over_http(asker: QueueAsker, asks: list[Ask]) -> list[float]:
    """Return how long each quote takes a client of the endpoint (seconds)."""
    server = QuoteServer(("127.0.0.1", 0), lambda: asker)
    Thread(target=server.run, daemon=True).start()
    times = []
    for each in asks:
        began = time.perf_counter()
        client = HTTPConnection("127.0.0.1", server.address[1])
        client.request("GET", f"/quote?processors={each.processors}&time={each.time:g}")
        json.loads(client.getresponse().read())["jobs"][0]
        times.append(time.perf_counter() - began)
    server.should_exit = True
    return times


def report(what: str, times: list[float]) -> None:
    """Print the quantiles of times (seconds)."""
    times.sort()
    median, p99 = (1000 * times[int(q * (len(times) - 1))] for q in (0.5, 0.99))
    print(
        f"{what}: {len(times)} quotes, median {median:.2f} ms, 99 % {p99:.2f} ms, "
        f"longest {1000 * times[-1]:.2f} ms"
    )


if __name__ == "__main__":
    main()
