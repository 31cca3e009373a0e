"""What a scheduler needs of an engine in addition to running jobs."""

from __future__ import annotations

import msgspec


class EngineNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """Features that a scheduler requires of the engine, such as that it may register jobs.

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
