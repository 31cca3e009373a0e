"""Profiles that Batsim 5 keeps: of jobs, of sequences that are kept, and registered ones."""

from __future__ import annotations

from typing import Any

from qops_batsim import Job
from qops_batsim.engine import JobRecord
from qops_batsim.engine.execution import Execution
from qops_batsim.engine.kept_profiles import KeptProfiles
from qops_batsim.workload import Workload

DELAY = {"type": "delay", "delay": 1.0}
PROFILES: dict[str, dict[str, Any]] = {
    "spare": DELAY,
    "step": DELAY,
    "sequence": {"type": "composed", "seq": ["step"], "repeat": 1},
    "delay": DELAY,
}


def kept(*profiles: str) -> tuple[KeptProfiles, dict[str, dict[str, dict[str, Any]]]]:
    """Return what is kept for a job of each profile, and the profiles, to which more come."""
    jobs = [Job(str(n), 0.0, 1, each) for n, each in enumerate(profiles)]
    workload = Workload(jobs=jobs, profiles=PROFILES, processors=4)
    told = {"w0": dict(PROFILES), "dyn": {}}
    return KeptProfiles({"w0": workload}, told), told


def ended(*profiles: str, workload: str = "w0") -> list[JobRecord]:
    jobs = [Job(f"{workload}!{n}", 0.0, 1, each) for n, each in enumerate(profiles)]
    return [JobRecord(job, Execution(())) for job in jobs]


def test_a_profile_goes_with_its_last_job_and_its_steps_with_it() -> None:
    profiles, _ = kept("sequence", "delay")
    assert not profiles.hold("w0", "spare")
    assert profiles.hold("w0", "w0!step")
    gone = ended("step", "sequence")
    profiles.forget(gone, 1)
    assert profiles.hold("w0", "step")
    profiles.forget([*gone, *ended("step")], 3)
    assert not profiles.hold("w0", "step")
    assert not profiles.hold("w0", "sequence")
    assert profiles.hold("w0", "delay")


def test_a_registered_profile_stays_until_it_was_used() -> None:
    profiles, told = kept("delay")
    told["dyn"] |= {"p": DELAY, "s": {"type": "composed", "seq": ["p"], "repeat": 2}}
    profiles.register("dyn", "p")
    profiles.register("dyn", "s")
    assert profiles.hold("w0", "dyn!p")
    assert profiles.hold("w0", "dyn!p")
    gone = ended("dyn!p", "dyn!p")
    profiles.forget(gone, 2)
    # The sequence still has it.
    assert profiles.hold("dyn", "s")
    profiles.forget([*gone, *ended("s", workload="dyn")], 3)
    assert not profiles.hold("dyn", "s")
    assert not profiles.hold("dyn", "p")
