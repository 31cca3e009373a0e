"""How often a deadline scheduler refuses a job that some order of the jobs could take.

Small bursts of jobs run through each scheduler. Whenever its search refuses a job with
few others waiting, every order of these is tried, each job at its earliest fit: if one
meets all deadlines, the refusal was a loss. Jobs whose deadline is impossible even on
an empty machine are never asked about and do not count.

Runs of different schedulers part ways at the first different verdict, so each row is
about the questions that this scheduler met, not about the same ones. Questions with
more jobs than the ``most`` of the settings are counted apart, since trying all orders takes
too long.
"""

from __future__ import annotations

import math
import random
from typing import Any

from qops_batsim import AvailabilityProfile, Job, QosRequest, simulate
from qops_batsim.experiments import markdown_table
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.schedulers.registry import scheduler_class
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload import Workload, delay_profile
from studies.shared import Settings


class Counts:
    """Questions to a scheduler, and how many of its refusals were judged, and were losses."""

    def __init__(self) -> None:
        self.questions = self.refusals = self.judged = self.losses = 0


def watched(scheduler: str, settings: dict[str, Any], most: int) -> tuple[Any, Counts]:
    """Return a scheduler whose refusals are judged where fewer jobs wait, and the counts."""
    kind, counts = scheduler_class(scheduler), Counts()

    class Watched(kind):  # type: ignore[misc, valid-type]
        def try_admission(self, job: Job) -> object:
            refusal, waiting = super().try_admission(job), self.plan.waiting
            counts.questions += 1
            if refusal is not None:
                counts.refusals += 1
                if len(waiting) < most:
                    counts.judged += 1
                    counts.losses += some_order(self.now, self.availability(), [*waiting, job])
            return refusal

    return make_scheduler(Watched, settings), counts


def some_order(now: float, profile: AvailabilityProfile, jobs: list[Job]) -> bool:
    """Tell whether the jobs in some order, each at its earliest fit, all end in time."""
    starts = [profile.earliest_fit(now, job.duration, job.processors) for job in jobs]
    for job, start in zip(jobs, starts, strict=True):
        if start + job.duration > job.target + PLAN_TOLERANCE:
            return False  # Further reservations only make it later.
    for place, job in enumerate(jobs):
        extended = profile.copy()
        extended.reserve(starts[place], job.duration, job.processors)
        if some_order(now, extended, [*jobs[:place], *jobs[place + 1 :]]):
            return True
    return not jobs


def burst(machine: int, jobs: int, spare: float, seed: int) -> Workload:
    """Make a workload with an offered load of about 1.3 and deadlines of mixed laxity."""
    rng = random.Random(seed)
    made, profiles, date = [], {}, 0.0
    for index in range(jobs):
        run_time = round(math.exp(rng.uniform(math.log(5), math.log(500))))
        processors = min(machine, round(math.exp(rng.uniform(0, math.log(machine + 1)))))
        name, profiles[name] = delay_profile(run_time)
        deadline = date + run_time + rng.uniform(0, spare) * rng.choice([run_time, 100])
        qos = QosRequest(deadline=float(deadline), estimated_runtime=float(run_time))
        made.append(Job(f"{index:04d}", date, processors, name, qos=qos))
        date += round(rng.expovariate(1.3 * machine / (processors * run_time)))
    return Workload(jobs=made, profiles=profiles, processors=machine)


def measure(scheduler: str, settings: dict[str, Any], bursts: Settings) -> list[Counts]:
    """Run all bursts; return the counts of each."""
    found, machine = [], bursts["processors"]
    for index in range(bursts["bursts"]):
        module, counts = watched(scheduler, settings, bursts["most"])
        seed = bursts["seed"] * 1_000_000 + index
        made = burst(machine, bursts["jobs"], bursts["spare"], seed)
        simulate(module, made, make_cluster(machine))
        found.append(counts)
    return found


def table(bursts: Settings) -> list[str]:
    """Return a row for each scheduler and its options."""
    rows = []
    for scheduler, settings in bursts["contestants"]:
        measured = measure(scheduler, settings, bursts)
        counts = [
            sum(getattr(each, name) for each in measured)
            for name in ("questions", "refusals", "judged", "losses")
        ]
        options = ", ".join(f"`{name}={value}`" for name, value in settings.items())
        share = f"{counts[3] / counts[2]:.1%}" if counts[2] else "-"
        rows.append([scheduler, options, *map(str, counts), share])
    heads = ["scheduler", "options", "questions", "refused", "judged", "some order could", "share"]
    return markdown_table(heads, rows)
