"""Checking that an engine has the options that a scheduler needs."""

from __future__ import annotations

from qops_batsim.core.needs import EngineNeeds
from qops_batsim.protocol.events import SimulationBegins
from qops_batsim.protocol.v5.handshake import Features

SHARING_OPTION = "--enable-compute-sharing"
"""Batsim 4's option that lets several jobs run on a host; Batsim 5 always does."""


def missing_options(needs: EngineNeeds, engine: SimulationBegins) -> list[str]:
    """Return the command-line options of Batsim that the scheduler needs but the engine was started
    without.

    A Batsim that does not tell whether profiles can be reused (3.1) never forgets one.
    """
    config = engine.config
    registers = needs.dynamic_jobs and not config.dynamic_jobs_enabled
    announced = config.dynamic_jobs_acknowledged
    lacking = {
        SHARING_OPTION: needs.compute_sharing and not engine.allow_compute_sharing,
        "--enable-dynamic-jobs": registers,
        "--enable-profile-reuse": needs.profile_reuse and config.profile_reuse_enabled is False,
        # Recommended with dynamic jobs, which ``run`` also turns on together.
        "--acknowledge-dynamic-jobs": (needs.acknowledged_jobs or registers) and not announced,
    }
    return [option for option, lacks in lacking.items() if lacks]


def features_of(needs: EngineNeeds) -> Features:
    """Return the features to request from Batsim 5 for a scheduler; Batsim 5 has no command-line
    options for them.
    """
    return Features(
        dynamic_registration=needs.dynamic_jobs,
        profile_reuse=needs.dynamic_jobs,
        acknowledge_dynamic_jobs=needs.dynamic_jobs,
        # All of them at the beginning, as Batsim 4 tells them, would crash 5.0.0-rc2 if there
        # are some that no job has.
        forward_profiles_on_job_submission=True,
    )
