"""Options of the scheduler ``slurm``, with the names of slurm.conf where it has them."""

from __future__ import annotations

import math
from typing import Annotated

from msgspec import Meta, Struct

from qops_batsim.core.options import SchedulerOptions, seconds
from qops_batsim.errors import InputError, shown
from qops_batsim.limits import MAX_SECONDS

MOST_WEIGHT = 1e9

Weight = Annotated[float, Meta(ge=0, le=MOST_WEIGHT)]
Most = Annotated[int, Meta(ge=1)]


class QosRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Priority of a QOS, and its limits of running jobs and processors.

    Of each user (MaxJobsPerUser, MaxTRESPerUser), and of all (GrpJobs, GrpTRES); None: any number.
    """

    priority: Weight = 0.0
    max_jobs_per_user: Most | None = None
    max_processors_per_user: Most | None = None
    max_jobs: Most | None = None
    max_processors: Most | None = None

    def limits(self) -> list[float]:
        """Return the four limits of a QOS: jobs and processors of each user, then of all; infinite
        if not limited.
        """
        limits = (
            self.max_jobs_per_user,
            self.max_processors_per_user,
            self.max_jobs,
            self.max_processors,
        )
        return [math.inf if limit is None else float(limit) for limit in limits]


class SlurmOptions(SchedulerOptions, frozen=True, kw_only=True):
    """Options of :class:`~qops_batsim.schedulers.slurm.slurm_scheduler.Slurm`."""

    weight_age: Annotated[
        Weight, Meta(description="PriorityWeightAge: of the time waited, up to max_age")
    ] = 1000.0
    weight_size: Annotated[
        Weight, Meta(description="PriorityWeightJobSize: of the part of the machine asked for")
    ] = 1000.0
    weight_partition: Annotated[
        Weight, Meta(description="PriorityWeightPartition: of the factor of the job's partition")
    ] = 1000.0
    weight_qos: Annotated[
        Weight, Meta(description="PriorityWeightQOS: of the priority of the job's QOS")
    ] = 1000.0
    weight_fairshare: Annotated[
        Weight, Meta(description="PriorityWeightFairshare: of the rank in the Fair Tree")
    ] = 10_000.0
    max_age: Annotated[
        float,
        seconds("PriorityMaxAge: from then on age counts in full", gt=0),
    ] = 7 * 86_400.0
    favor_small: Annotated[
        bool, Meta(description="PriorityFavorSmall: the fewer processors the better")
    ] = False
    half_life: Annotated[
        float,
        seconds("PriorityDecayHalfLife: after it, what was used counts half", gt=1),
    ] = 7 * 86_400.0
    calc_period: Annotated[
        float,
        seconds("PriorityCalcPeriod: between two calculations of usage and priorities", ge=1),
    ] = 300.0
    partitions: Annotated[
        dict[str, Weight],
        Meta(
            description="PriorityJobFactor of partitions (a job's field queue, or qos.queue); "
            "others have 1; each partition has all hosts"
        ),
    ] = {}  # noqa: RUF012 - each instance gets its own
    qos: Annotated[
        dict[str, QosRules],
        Meta(description="QOS by name (a job's field qos_name): priority and limits"),
    ] = {}  # noqa: RUF012 - each instance gets its own
    max_jobs_per_user: Annotated[
        Most | None,
        Meta(description="most jobs of a user that run at once", extra={"unit": "jobs"}),
    ] = None
    max_processors_per_user: Annotated[
        Most | None,
        Meta(description="most processors a user uses at once", extra={"unit": "processors"}),
    ] = None
    shares: Annotated[
        dict[str, Weight],
        Meta(
            description="shares of accounts (a job's field group) and, as ACCOUNT/USER, of their "
            "users; who is not named has 1, and is not ranked before the first job"
        ),
    ] = {}  # noqa: RUF012 - each instance gets its own
    bf_interval: Annotated[
        float,
        seconds("between two backfill passes, while jobs wait", ge=0.001, le=MAX_SECONDS),
    ] = 30.0
    bf_resolution: Annotated[
        float,
        seconds("step of the backfill map", ge=1, le=MAX_SECONDS),
    ] = 60.0
    bf_window: Annotated[
        float,
        seconds(
            "how far ahead hosts are kept for jobs (minutes in slurm.conf)", ge=1, le=MAX_SECONDS
        ),
    ] = 86_400.0
    bf_max_job_test: Annotated[
        int,
        Meta(
            ge=1, le=100_000, description="most jobs a backfill pass tries", extra={"unit": "jobs"}
        ),
    ] = 500
    whole_nodes: Annotated[
        bool,
        Meta(
            description="where jobs share hosts: whether hosts are kept whole for jobs that are "
            "planned, as Slurm's backfill does, or the amounts that they ask for"
        ),
    ] = True
    deadlines: Annotated[
        bool,
        Meta(
            description="whether qos.deadline is given as --deadline: a job that started now and, "
            "by the time it asks for, could miss it is cancelled"
        ),
    ] = True

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if ``shares`` has a wrong name."""
        for name in self.shares:
            parts = name.split("/")
            if "" in parts or len(parts) > 2:
                raise InputError(
                    f"scheduler 'slurm': option shares names {shown(name)}; "
                    "names of the form ACCOUNT or ACCOUNT/USER are accepted"
                )
