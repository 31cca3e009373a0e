"""Which scheduler's waits a log has."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from qops_batsim import advise
from qops_batsim.advice import AdviceChoices
from qops_batsim.advice.recommendations import headline, sentence
from qops_batsim.advice.site_fit import WaitRuns, WaitsCase, site_fit, site_schedulers
from qops_batsim.economics import Categories
from qops_batsim.experiments import contestant_of
from qops_batsim.workload import Workload
from support.centre_dumps import Partition, jobs_of

BUSY = Partition("busy", 64, 1.1, (4, 8, 16, 32), 3600.0)


@pytest.fixture(scope="module")
def trace() -> Workload:
    users = np.random.default_rng(3).integers(1, 9, 150).tolist()
    return jobs_of(BUSY, 150, 5, users)


def waits_under(trace: Workload, scheduler: str) -> np.ndarray:
    each = contestant_of(scheduler)
    return np.array(WaitRuns(trace)(WaitsCase(each.scheduler, each.identity()[0])))


SMALL_FIRST = (
    "slurm:weight_age=1000,weight_size=10000,favor_small=true,weight_fairshare=0,"
    "weight_partition=0,weight_qos=0"
)


TRIED = [
    each
    for each in site_schedulers(jobs_of(BUSY, 2, 5, [1, 2]), np.zeros(2))
    if each.name in ("easy", "fcfs", "slurm by small jobs first")
]


@pytest.mark.parametrize(
    ("scheduler", "found"),
    [(SMALL_FIRST, "slurm by small jobs first"), ("fcfs", "fcfs"), ("easy", "easy")],
)
def test_the_scheduler_that_made_a_log_is_found(
    trace: Workload, scheduler: str, found: str
) -> None:
    fit = site_fit(trace, waits_under(trace, scheduler), Categories(), TRIED)
    assert (fit.nearest, fit.scheduler, fit.alike) == (found, found, 1.0)
    assert fit.is_known
    assert fit.fits
    told = f"The log waits as under {found}, chosen among 3 on the earlier half: 100 % of waits"
    assert sentence("fit", fit=fit).startswith(told)


def test_no_scheduler_makes_jobs_wait_for_what_is_not_modelled(trace: Workload) -> None:
    # As if for memory: the wider half waits for a day beside an idle machine, all others not.
    wide = trace.columns.processors > 8
    fit = site_fit(trace, np.where(wide, 86_400.0, 0.0), Categories(), TRIED)
    assert not fit.fits
    assert sentence("fit", fit=fit).startswith("None of 3 schedulers fits; the nearest is ")


def test_a_scheduler_that_is_given_is_judged_alone(trace: Workload) -> None:
    logged = waits_under(trace, SMALL_FIRST)
    fit = site_fit(trace, logged, Categories(), [contestant_of("fcfs")])
    assert (fit.tried, fit.nearest) == (1, "fcfs")
    assert not fit.fits
    assert sentence("fit", fit=fit).startswith("Under fcfs, ")


def test_the_qos_that_waits_longest_has_the_least_priority() -> None:
    users = [1] * 60
    base = jobs_of(BUSY, 60, 5, users)
    for place, job in enumerate(base.jobs):
        job.fields["qos_name"] = "high" if place % 2 else "low"
    logged = np.array([100.0 if place % 2 else 900.0 for place in range(60)])
    tried = {each.name: each.settings for each in site_schedulers(base, logged)}
    assert tried["slurm by QOS"]["qos"] == {"low": {"priority": 0.0}, "high": {"priority": 1.0}}
    # Of one user, there is no share to be fair to.
    assert not any("fair share" in name for name in tried)


def with_qos(trace: Workload, names: tuple[str, ...]) -> Workload:
    """Return the trace with these QOS, drawn at random for each job."""
    drawn = np.random.default_rng(7).choice(names, len(trace.jobs)).tolist()
    for job, name in zip(trace.jobs, drawn, strict=True):
        job.fields["qos_name"] = name
    return trace


def by_qos(*ranked: str) -> str:
    """Return Slurm with priorities by QOS, the last one first in the queue."""
    priorities = {name: {"priority": float(place)} for place, name in enumerate(ranked)}
    weights = "weight_age=1000,weight_qos=100000,weight_size=0,weight_fairshare=0"
    return f"slurm:{weights},weight_partition=0,qos={json.dumps(priorities)}"


@pytest.mark.parametrize("names", [("low", "high"), ("low", "normal", "high")])
def test_slurm_by_qos_explains_its_own_waits(names: tuple[str, ...]) -> None:
    users = [1] * 150
    trace = with_qos(jobs_of(BUSY, 150, 5, users), names)
    fit = site_fit(trace, waits_under(trace, by_qos(*names)), Categories())
    assert (fit.nearest, fit.alike) == ("slurm by QOS", 1.0)
    assert fit.fits


def test_qos_that_explain_nothing_are_tried_without_an_error() -> None:
    trace = with_qos(jobs_of(BUSY, 80, 5, [1, 2] * 40), ("a", "b", "c"))
    logged = np.where(trace.columns.processors > 8, 86_400.0, 0.0)
    fit = site_fit(trace, logged, Categories())
    # EASY, FCFS, conservative, seven weights of Slurm, QOS, and QOS with fair share.
    assert fit.tried == 12
    assert not fit.fits


def dump(path: Path, qos: tuple[str, ...]) -> Path:
    """Write the accounting of jobs that waited 5 h beside an idle machine."""
    head = "JobID|User|Account|Partition|QOS|State|Submit|Start|End|ElapsedRaw|AllocCPUS|AllocNodes"
    lines = [f"{head}|Timelimit"]
    for place in range(60):
        begin = datetime(2026, 1, 5) + timedelta(minutes=10 * place)
        dates = (begin, begin + timedelta(hours=5), begin + timedelta(hours=5, minutes=10))
        told = "|".join(each.isoformat() for each in dates)
        name = qos[place % len(qos)]
        lines.append(f"{place + 1}|u{place % 3}|a|cpu|{name}|COMPLETED|{told}|600|1|1|00:20:00")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("workers", [1, 2])
def test_advice_for_a_site_with_several_qos_says_that_nothing_fits(
    tmp_path: Path, workers: int
) -> None:
    told = {}
    for qos in (("normal",), ("normal", "high"), ("normal", "high", "long")):
        path = dump(tmp_path / f"{len(qos)}.txt", qos)
        choices = AdviceChoices(loads=(1.0,), stringencies=(0.2,))
        found = advise(path, choices, processors=64, time_zone="UTC", workers=workers)
        told[len(qos)] = found.fit.fits, found.fit.tried
        if workers > 1:
            break
    expected = {1: (False, 10), 2: (False, 12), 3: (False, 12)}
    assert told == {count: expected[count] for count in told}


def test_a_log_of_few_jobs_is_said_to_have_too_few_waits(tmp_path: Path) -> None:
    """A named scheduler is judged on the later half; the page said that the log tells no waits."""
    choices = AdviceChoices(loads=(1.0,), stringencies=(0.2,), by_scheduler=contestant_of("slurm"))
    path = dump(tmp_path / "two.txt", ("normal", "high"))
    found = advise(path, choices, processors=64, time_zone="UTC")
    assert not found.fit.is_known
    assert any("Too few waits can be compared" in each for each in headline(found))
