"""Needs of a scheduler, and the check that an engine which comes in meets them."""

from __future__ import annotations

import msgspec

from qops_batsim.protocol.events import SimulationBegins
from qops_batsim.protocol.v5.handshake import Features


class EngineNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """Needs of a scheduler, with its options, beside running jobs.

    ``run`` and ``simulate`` turn on what is needed; any other engine is refused at the beginning
    of its simulation if it lacks something.

    Attributes
    ----------
    dynamic_jobs
        Jobs may be registered.
    acknowledged_jobs
        Registered jobs are announced with JOB_SUBMITTED.
    profile_reuse
        Jobs may be registered with a profile all of whose jobs have ended.
    compute_sharing
        Several jobs may run on one host.
    dispensable
        The scheduler also works without, but not as it is meant to: an engine that lacks
        something is only served on request.
    why
        What it is needed for, for the message.

    Examples
    --------
    >>> needs = EngineNeeds(dynamic_jobs=True, profile_reuse=True)
    >>> needs.compute_sharing
    False
    """

    dynamic_jobs: bool = False
    acknowledged_jobs: bool = False
    profile_reuse: bool = False
    compute_sharing: bool = False
    dispensable: bool = False
    why: str = ""

    def missing_options(self, engine: SimulationBegins) -> list[str]:
        """Return the options of Batsim that the engine should have been started with.

        A Batsim that does not tell whether profiles can be reused (3.1) never forgets one.
        """
        config = engine.config
        registers = self.dynamic_jobs and not config.dynamic_jobs_enabled
        announced = config.dynamic_jobs_acknowledged
        lacking = {
            "--enable-compute-sharing": self.compute_sharing and not engine.allow_compute_sharing,
            "--enable-dynamic-jobs": registers,
            "--enable-profile-reuse": self.profile_reuse and config.profile_reuse_enabled is False,
            # Recommended with dynamic jobs, which ``run`` also turns on together.
            "--acknowledge-dynamic-jobs": (self.acknowledged_jobs or registers) and not announced,
        }
        return [option for option, lacks in lacking.items() if lacks]

    @property
    def features(self) -> Features:
        """Features to ask a Batsim 5 for, where the scheduler and no option decides on them."""
        return Features(
            dynamic_registration=self.dynamic_jobs,
            profile_reuse=self.dynamic_jobs,
            acknowledge_dynamic_jobs=self.dynamic_jobs,
            # All of them at the beginning, as Batsim 4 tells them, would crash 5.0.0-rc2 if there
            # are some that no job has.
            forward_profiles_on_job_submission=True,
        )
