"""The reference for promises and deadlines: the same jobs under EASY."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from qops_batsim.economics.charges import ReferenceJob
from qops_batsim.engine.engine_options import EngineOptions
from qops_batsim.errors import InputError, shown
from qops_batsim.measures.metrics.charge_totals import reference_of_workload
from qops_batsim.measures.metrics.measured import MeasuredJobs
from qops_batsim.measures.metrics.measures import utilization
from qops_batsim.measures.metrics.outcomes import (
    DeadlineMetrics,
    JobOutcomes,
    deadline_metrics,
    outcomes_of_simulation,
)
from qops_batsim.platform.equal_hosts import make_cluster
from qops_batsim.platform.platform_model import Platform
from qops_batsim.running.simulate import simulate
from qops_batsim.workload.workload_model import Workload


class RunInputs(NamedTuple):
    """Inputs of a simulation apart from the scheduler."""

    workload: Workload
    platform: Platform
    engine: EngineOptions
    smaller_machine: bool

    @property
    def workloads(self) -> dict[str, Workload]:
        """The workload, by the name that prefixes its job ids (``w0``)."""
        return {"w0": self.workload}


class EasyReference(msgspec.Struct, frozen=True, kw_only=True):
    """Result of EASY: each job's outcome, whether deadlines were met, utilization (0 to 1)."""

    outcomes: JobOutcomes
    deadlines: DeadlineMetrics
    utilization: float | None


def easy_reference(inputs: RunInputs, grace: float = 0.0) -> EasyReference:
    """Simulate EASY on a run's jobs and machine; deadlines missed by up to ``grace`` s are met."""
    workload, platform, engine, smaller_machine = inputs
    simulation = simulate(
        "easy",
        workload,
        platform,
        engine=msgspec.structs.replace(engine, dynamic_jobs=False, profile_reuse=False),
        allow_smaller_machine=smaller_machine,
    )
    outcomes = outcomes_of_simulation(simulation.ended_jobs, workload, machine=platform.machine)
    used = utilization(MeasuredJobs(outcomes, len(simulation.hosts)))

    return EasyReference(
        outcomes=outcomes,
        deadlines=deadline_metrics(outcomes, grace=grace),
        utilization=None if used is None else used / 100,
    )


def easy_response_times(
    workload: Workload, *, of_all: bool = True, platform: Platform | None = None
) -> dict[str, float]:
    """Return each job's response time (seconds) under EASY, by job id.

    The machine is the ``platform``, or has as many whole hosts as the workload has processors
    (``nb_res``); a job that EASY rejects, because it asks for no processor or more than there are,
    is an error, or left out where not ``of_all``.
    """
    simulation = simulate("easy", workload, platform or make_cluster(workload.processors))
    ended = simulation.ended_jobs
    if of_all and not ended.ran.all():
        place = int((~ended.ran).argmax())
        raise InputError(
            f"{workload.source}: job {shown(ended.ids[place])} asks for "
            f"{ended.processors[place]} processors of {workload.processors}, so that EASY "
            "rejects it and gives it no response time; jobs that can run are expected"
        )
    times = ended.finishes - ended.submission_times
    ids = ended.ids
    return {ids[row]: float(times[row]) for row in np.flatnonzero(ended.ran).tolist()}


def easy_references(
    workload: Workload, prefix: str = "", *, of_all: bool = True, platform: Platform | None = None
) -> dict[str, ReferenceJob]:
    """Return each job's outcome under EASY by job id: the reference for charges.

    Parameters
    ----------
    workload
        Jobs of type ``delay``: see :func:`easy_response_times`.
    prefix
        Put in front of each id.
    of_all
        Whether a job that can never run is an error; else it is left out.
    platform
        The machine; None: as many equal hosts as the workload has processors.
    """
    responses = easy_response_times(workload, of_all=of_all, platform=platform)
    machine = None if platform is None else platform.machine
    return reference_of_workload(workload, responses, prefix, machine)
