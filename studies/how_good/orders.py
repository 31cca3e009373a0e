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
from qops_batsim.engine.options import EngineOptions
from qops_batsim.experiments import markdown_table
from qops_batsim.platform import make_cluster
from qops_batsim.scheduling import make_scheduler
from qops_batsim.scheduling.admission.search import Question, Search, Verdict
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload import Workload, delay_profile
from studies.shared import Settings


class WatchedSearch:
    """Passes questions on to a search and judges its refusals."""

    def __init__(self, search: Search, machine: int, most: int) -> None:
        self.search, self.machine, self.most = search, machine, most
        self.questions = self.refusals = self.judged = self.losses = 0

    def __call__(self, question: Question) -> Verdict:
        verdict = self.search(question)
        self.questions += 1
        if not verdict.found:
            self.refusals += 1
            if question.waiting.size[0] < self.most:
                self.judged += 1
                waiting = question.waiting.slots[: question.waiting.size[0]].tolist()
                base = AvailabilityProfile.of(question.room.free, self.machine)
                self.losses += some_order(question, base, [*waiting, question.new])
        return verdict


def some_order(question: Question, profile: AvailabilityProfile, slots: list[int]) -> bool:
    """Tell whether the jobs in some order, each at its earliest fit, all end in time."""
    jobs = question.jobs
    starts = {}
    for slot in slots:
        duration = float(jobs.estimates[slot])
        starts[slot] = profile.earliest_fit(question.now, duration, int(jobs.processors[slot]))
        if starts[slot] + duration > jobs.targets[slot] + PLAN_TOLERANCE:
            return False  # Further reservations only make it later.
    for slot in slots:
        rest = [other for other in slots if other != slot]
        extended = profile.copy()
        extended.reserve(starts[slot], float(jobs.estimates[slot]), int(jobs.processors[slot]))
        if some_order(question, extended, rest):
            return True
    return not slots


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


def measure(scheduler: str, settings: dict[str, Any], bursts: Settings) -> list[WatchedSearch]:
    """Run all bursts; return the watched search of each."""
    watched, machine = [], bursts["processors"]
    for index in range(bursts["bursts"]):
        module: Any = make_scheduler(scheduler, settings)
        plan = module.new_plan(machine)
        search = plan.policy.search = WatchedSearch(plan.policy.search, machine, bursts["most"])
        module.new_plan = lambda size, plan=plan: plan
        seed = bursts["seed"] * 1_000_000 + index
        # With a list of external events, an empty one, the module itself is asked.
        simulate(
            module,
            burst(machine, bursts["jobs"], bursts["spare"], seed),
            make_cluster(machine),
            engine=EngineOptions(external_events=()),
        )
        watched.append(search)
    return watched


def table(bursts: Settings) -> list[str]:
    """Return a row for each scheduler and its options."""
    rows = []
    for scheduler, settings in bursts["contestants"]:
        watched = measure(scheduler, settings, bursts)
        counts = [
            sum(getattr(search, name) for search in watched)
            for name in ("questions", "refusals", "judged", "losses")
        ]
        options = ", ".join(f"`{name}={value}`" for name, value in settings.items())
        share = f"{counts[3] / counts[2]:.1%}" if counts[2] else "-"
        rows.append([scheduler, options, *map(str, counts), share])
    heads = ["scheduler", "options", "questions", "refused", "judged", "some order could", "share"]
    return markdown_table(heads, rows)
